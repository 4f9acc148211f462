/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* A text that grows, up to a limit. Zero-initialise it; call fini in any case. */
enum { FAST_TEXT_MAX = 1 << 20 };

typedef struct fast_text {
    char *data;      /* zero-terminated; NULL while empty */
    size_t size;     /* without the terminator */
    size_t capacity; /* bytes of data */
} fast_text;

/* Append as printf does. FAST_EINVAL past FAST_TEXT_MAX, FAST_ENOMEM; the text is then
 * unchanged. */
fast_err fast__text_add(fast_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Free the text. */
void fast__text_fini(fast_text *text);
