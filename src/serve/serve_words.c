/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines of the processes that the server starts: runs and comparisons. */
#include "serve/serve_words.h"

#include "base/memory.h"
#include "serve/server.h"

#include <stdio.h>
#include <string.h>

fast_err fast__serve_words_add(serve_words *words, const char *format, const char *a, const char *b)
{
    const size_t size = strlen(format) + strlen(a) + strlen(b) + 1;
    char *word;

    if (words->count >= SERVE_WORDS_MAX - 1)
        return fast__fail(FAST_EINVAL, "a request takes at most %d options", SERVE_WORDS_MAX - 6);
    FAST_TRY(fast__alloc("command line", (int64_t)size, 1, &word));
    snprintf(word, size, format, a, b);
    words->items[words->count++] = word;
    return FAST_OK;
}

fast_err fast__serve_words_option(serve_words *words, const fast_option *option, const char *value)
{
    char flag[64];

    FAST_ASSERT(option != NULL);
    if (fast__serve_names_file(option, value))
        return fast__fail(FAST_EINVAL, "%s names a file; give it on the command line",
                          option->name);
    snprintf(flag, sizeof flag, "%s", option->name);
    for (char *c = flag; *c; c++)
        if (*c == '_')
            *c = '-';
    return fast__serve_words_add(words, "--%s=%s", flag, value);
}

void fast__serve_words_free(serve_words *words)
{
    for (int i = 0; i < words->count; i++)
        fast__free(words->items[i]);
    words->count = 0;
}
