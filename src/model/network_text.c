/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text that grows by doubling, so that n bytes cost O(n) copies, and never past FAST_TEXT_MAX:
 * the output of models, and the limit of network files.
 */
#include "model/network_text.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Make room for `size` bytes and a terminator. */
static fast_err reserve(fast_text *text, size_t size)
{
    size_t capacity = text->capacity ? text->capacity : 1024;
    char *data = NULL;

    if (size > FAST_TEXT_MAX)
        return fast__fail(FAST_EINVAL, "the network's text has more than %d bytes", FAST_TEXT_MAX);
    if (size < text->capacity)
        return FAST_OK;
    while (capacity <= size)
        capacity *= 2;
    FAST_TRY(fast__alloc("a network's text", (int64_t)capacity, 1, &data));
    if (text->size > 0)
        memcpy(data, text->data, text->size);
    data[text->size] = '\0';
    fast__free(text->data);
    text->data = data;
    text->capacity = capacity;
    return FAST_OK;
}

/* Append formatted text. FAST_EINVAL beyond FAST_TEXT_MAX, FAST_ENOMEM; the text is then as it
 * was. */
fast_err fast__text_add(fast_text *text, const char *format, ...)
{
    va_list args;
    int length = 0;

    va_start(args, format);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    FAST_ASSERT(length >= 0);
    FAST_TRY(reserve(text, text->size + (size_t)length));
    va_start(args, format);
    vsnprintf(text->data + text->size, text->capacity - text->size, format, args);
    va_end(args);
    text->size += (size_t)length;
    FAST_ASSERT(text->size < text->capacity);
    return FAST_OK;
}

/* Free the text and empty it. */
void fast__text_fini(fast_text *text)
{
    fast__free(text->data);
    *text = (fast_text){ 0 };
}
