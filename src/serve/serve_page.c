/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that grows by doubling, and JSON printed into it.
 */
#include "serve/serve_page.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_CAPACITY = 1024 };

void fast__page_fini(fast_page *text)
{
    fast__free(text->bytes);
    *text = (fast_page){ .bytes = NULL };
}

/* Make room for `size` more bytes and a zero byte; false if memory is missing. */
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
    /* Doubling makes the cost of all copies proportional to the text. */
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

/* jansson prints a piece. Outside of strings it has none of these characters, and no escape has one
 * inside, so that each can be replaced where it stands. */
static int put_piece(const char *bytes, size_t size, void *ctx)
{
    static const char special[] = "<>&\x7f";
    fast_page *text = ctx;

    for (size_t i = 0; i < size; i++) {
        size_t end = i;

        while (end < size && !memchr(special, bytes[end], sizeof special - 1))
            end++;
        fast__page_put(text, bytes + i, end - i);
        if (end < size)
            fast__page_format(text, "\\u%04x", (unsigned)bytes[end]);
        i = end;
    }
    return text->failed ? -1 : 0;
}

/* Print a tree into the text and free it. A tree that could not be built (NULL) makes the text
 * fail. */
static void put_json(fast_page *text, json_t **move, size_t flags)
{
    if (!*move ||
        json_dump_callback(*move, put_piece, text, FAST_JSON_FLAGS | JSON_COMPACT | flags))
        text->failed = true;
    json_decref(*move);
    *move = NULL;
}

void fast__page_json(fast_page *text, json_t **move)
{
    put_json(text, move, 0);
}

void fast__page_elements(fast_page *text, json_t **move)
{
    FAST_ASSERT(!*move || json_is_array(*move));
    put_json(text, move, JSON_EMBED);
}
