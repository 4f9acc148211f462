/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Text that grows, and JSON in it. Memory that cannot be had is remembered instead of returned, so
 * that a page is written straight down and looked at once, at its end.
 */
typedef struct fast_page {
    char *bytes;     /* NULL while empty; a zero byte follows the last one */
    size_t size;     /* used */
    size_t capacity; /* taken, the zero byte included */
    bool failed;     /* memory was missing: the text is not whole */
} fast_page;

void fast__page_fini(fast_page *text); /* frees; the text is empty then */

void fast__page_put(fast_page *text, const void *bytes, size_t size);
void fast__page_add(fast_page *text, const char *string);
void fast__page_format(fast_page *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A JSON string, null for NULL. Bytes that are not UTF-8 become U+FFFD; beside what JSON asks for,
 * what HTML could take for markup is written as \u00xx. */
void fast__page_string(fast_page *text, const char *string);
/* A JSON number with the digits that give the same double again; null if it is not finite. */
void fast__page_real(fast_page *text, double value);
void fast__page_int(fast_page *text, int64_t value);

/* Members of an object or of an array: `"key":`, after a comma where it is not the first one. */
void fast__page_key(fast_page *text, const char *key);
void fast__page_comma(fast_page *text);
/* `"key":"value"`, with the comma. */
void fast__page_pair(fast_page *text, const char *key, const char *value);
