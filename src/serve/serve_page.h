/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"

/*
 * Text that grows: an answer, or a piece of one. A failed allocation is remembered instead of
 * returned, so that a page is written straight down and looked at once, at its end.
 */
typedef struct fast_page {
    char *bytes;     /* NULL while empty; a zero byte follows the last one */
    size_t size;     /* bytes in use */
    size_t capacity; /* bytes allocated, the zero byte included */
    bool failed;     /* memory was missing: the text is not whole */
} fast_page;

void fast__page_fini(fast_page *text); /* frees; the text is empty then */

void fast__page_put(fast_page *text, const void *bytes, size_t size);
void fast__page_add(fast_page *text, const char *string);
void fast__page_format(fast_page *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Append *move, which is freed and becomes NULL, as compact JSON. Characters that HTML could take
 * for markup are written as \u00xx. NULL makes the page fail. */
void fast__page_json(fast_page *text, json_t **move);
/* Append the elements of an array, without its brackets. */
void fast__page_elements(fast_page *text, json_t **move);
