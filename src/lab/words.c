/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of texts that grows and owns them: values of an axis, options of a run, arguments of a
 * process. It ends with NULL, so that it is an argv as it stands. Twice the room whenever it is
 * full: adding costs a copy of the text on average.
 *
 * Invariant: size is 0, or count < size and items[count] is NULL. Adding counts a text only after
 * its copy exists, so a list that returned FAST_ENOMEM is still whole and can be freed.
 */
#include "lab/words.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WORD_MAX = 8192 };

fast_err fast__words_add(fast_words *words, const char *text)
{
    const size_t length = strlen(text);
    char *copy;

    if (words->count + 1 >= words->size) {
        const int64_t size = words->size ? 2 * words->size : 8;
        char **items;

        FAST_TRY(fast__alloc("words", size, sizeof *items, &items));
        if (words->count > 0)
            memcpy(items, words->items, (size_t)words->count * sizeof *items);
        fast__free(words->items);
        words->items = items;
        words->size = size;
    }
    FAST_TRY(fast__alloc("a word", (int64_t)length + 1, 1, &copy));
    memcpy(copy, text, length);
    words->items[words->count++] = copy;
    words->items[words->count] = NULL;
    return FAST_OK;
}

fast_err fast__words_format(fast_words *words, const char *format, ...)
{
    char text[WORD_MAX];
    va_list args;

    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof text)
        return fast__fail(FAST_EINVAL, "a value of %d bytes is too long", length);
    return fast__words_add(words, text);
}

void fast__words_fini(fast_words *words)
{
    for (int64_t i = 0; i < words->count; i++)
        fast__free(words->items[i]);
    fast__free(words->items);
    *words = (fast_words){ 0 };
}

const char *fast__words_value(const fast_words *words, const char *name)
{
    const size_t length = strlen(name);

    for (int64_t i = words->count - 1; i >= 0; i--)
        if (strncmp(words->items[i], name, length) == 0 && words->items[i][length] == '=')
            return words->items[i] + length + 1;
    return NULL;
}
