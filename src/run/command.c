/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words that repeat a run: its options, as they were given, as flags of `fast train`, quoted
 * for a shell. Text is made in two passes: the first one only counts.
 *
 *     { "model=mlp", "global_batch=256", "name=it's", "store=auto" }
 *  -> fast train --model mlp --global-batch 256 --name 'it'\''s'
 *
 * Words without "=" are left out: parsing the options refuses them.
 */
#include "base/memory.h"
#include "run/sink/store_sink.h"

#include <string.h>

/* Text under way. */
typedef struct words {
    char *text;  /* NULL: count only */
    size_t used; /* without a zero byte */
} words;

/* Append a character; without a text it is only counted, to know how much memory is needed. */
static void put_char(words *w, char c)
{
    if (w->text)
        w->text[w->used] = c;
    w->used++;
}

/* Append a word, quoted for a shell. */
static void put_word(words *w, const char *word)
{
    const size_t size = fast_text_quote(word, NULL, 0);

    if (w->text)
        fast_text_quote(word, w->text + w->used, size + 1);
    w->used += size;
}

/* Append options as flags, quoted for a shell. */
static void put_words(words *w, const char *const *options)
{
    put_word(w, "fast");
    put_char(w, ' ');
    put_word(w, "train");
    for (; options && *options; options++) {
        const char *equal = strchr(*options, '=');
        /* It is what the program adds by itself. */
        if (!equal || strcmp(*options, "store=auto") == 0)
            continue;
        put_char(w, ' ');
        put_char(w, '-');
        put_char(w, '-');
        for (const char *c = *options; c < equal; c++)
            put_char(w, *c == '_' ? '-' : *c);
        put_char(w, ' ');
        put_word(w, equal + 1);
    }
}

fast_err fast__command_words(const char *const *options, char **out)
{
    words w = { 0 };

    FAST_ASSERT(out != NULL);
    put_words(&w, options);
    FAST_TRY(fast__alloc("a command", (int64_t)w.used + 1, 1, &w.text));
    w.used = 0;
    put_words(&w, options);
    *out = w.text;
    return FAST_OK;
}
