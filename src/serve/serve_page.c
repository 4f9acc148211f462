/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that grows by doubling, and JSON in it. A comma is due wherever the last byte does not open
 * an object or an array, so writers need not count members.
 *
 * Numbers are written with the fewest of 15 to 17 digits that read back as the same double: short
 * for what a person typed, exact for what was measured.
 */
#include "serve/serve_page.h"

#include "base/memory.h"
#include "tensor/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 1024 };

void fast__page_fini(fast_page *text)
{
    fast__free(text->bytes);
    *text = (fast_page){ .bytes = NULL };
}

/* Room for `size` more bytes and a zero byte. */
static bool make_room(fast_page *text, size_t size)
{
    int64_t needed;
    char *bytes;

    if (text->failed)
        return false;
    if (text->capacity - text->size > size)
        return true;
    if (!fast__add_size((int64_t)text->size, (int64_t)size, &needed) ||
        !fast__mul_size(needed + 1, 2, &needed)) {
        text->failed = true;
        return false;
    }
    if (needed < FIRST_CAPACITY)
        needed = FIRST_CAPACITY;
    if (fast__alloc("text of an answer", needed, 1, &bytes)) {
        text->failed = true;
        return false;
    }
    if (text->size > 0)
        memcpy(bytes, text->bytes, text->size);
    fast__free(text->bytes);
    text->bytes = bytes;
    text->capacity = (size_t)needed;
    return true;
}

void fast__page_put(fast_page *text, const void *bytes, size_t size)
{
    if (!make_room(text, size))
        return;
    if (size > 0)
        memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
    FAST_ASSERT(text->size < text->capacity);
}

void fast__page_add(fast_page *text, const char *string)
{
    fast__page_put(text, string, strlen(string));
}

void fast__page_format(fast_page *text, const char *format, ...)
{
    char line[512];
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    FAST_ASSERT(size >= 0);
    FAST_ASSERT((size_t)size < sizeof line);
    fast__page_put(text, line, (size_t)size);
}

/* One character that JSON or HTML could misread. */
static bool is_special(unsigned char c)
{
    return c < ' ' || c == 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&';
}

void fast__page_string(fast_page *text, const char *string)
{
    size_t left = string ? strlen(string) : 0;

    if (!string) {
        fast__page_add(text, "null");
        return;
    }
    fast__page_put(text, "\"", 1);
    while (left > 0) {
        const unsigned char c = (unsigned char)*string;
        int length = 1;

        if (is_special(c)) {
            fast__page_format(text, "\\u%04x", c);
        } else if (c < 0x80) {
            fast__page_put(text, string, 1);
        } else {
            length = fast__utf8_length(string, left);
            fast__page_put(text, length > 0 ? string : "\xef\xbf\xbd", length > 0 ? length : 3);
            length = length > 0 ? length : 1;
        }
        string += length;
        left -= (size_t)length;
    }
    fast__page_put(text, "\"", 1);
}

void fast__page_real(fast_page *text, double value)
{
    char digits[40];
    int size = 0;

    if (!isfinite(value)) {
        fast__page_add(text, "null");
        return;
    }
    for (int precision = 15; precision <= 17; precision++) {
        size = snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (precision == 17 || strtod(digits, NULL) == value)
            break;
    }
    fast__page_put(text, digits, (size_t)size);
}

void fast__page_int(fast_page *text, int64_t value)
{
    fast__page_format(text, "%lld", (long long)value);
}

void fast__page_comma(fast_page *text)
{
    const char last = text->size > 0 ? text->bytes[text->size - 1] : '[';

    if (last != '[' && last != '{' && last != ':')
        fast__page_put(text, ",", 1);
}

void fast__page_key(fast_page *text, const char *key)
{
    fast__page_comma(text);
    fast__page_string(text, key);
    fast__page_put(text, ":", 1);
}

void fast__page_pair(fast_page *text, const char *key, const char *value)
{
    fast__page_key(text, key);
    fast__page_string(text, value);
}
