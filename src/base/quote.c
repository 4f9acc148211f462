/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for a POSIX shell. A word of harmless characters stays as it is; any other stands in single
 * quotes, inside which only the single quote itself is special: it becomes '\''.
 */
#include "base/err.h"

#include <string.h>

/* Text that is cut where it does not fit. */
typedef struct quote_writer {
    char *out;   /* the caller's buffer */
    size_t size; /* bytes of it */
    size_t used; /* bytes so far, also those that did not fit */
} quote_writer;

static void put(quote_writer *writer, char c)
{
    if (writer->used + 1 < writer->size)
        writer->out[writer->used] = c;
    writer->used++;
}

size_t fast_text_quote(const char *word, char *out, size_t size)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=./:,+@%";
    const bool quoted = !word[0] || word[strspn(word, plain)] != '\0';
    quote_writer writer = { out, size, 0 };

    FAST_ASSERT(out != NULL || size == 0);
    if (quoted)
        put(&writer, '\'');
    for (const char *c = word; *c; c++) {
        if (*c == '\'')
            for (const char *escape = "'\\'"; *escape; escape++)
                put(&writer, *escape);
        put(&writer, *c);
    }
    if (quoted)
        put(&writer, '\'');
    if (size > 0)
        out[writer.used < size ? writer.used : size - 1] = '\0';
    return writer.used;
}
