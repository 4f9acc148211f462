/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"

/* The command line of a process that the server starts. No shell sees it: words go to the process
 * as they are. */
enum { SERVE_WORDS_MAX = 80 };
typedef struct serve_words {
    char *items[SERVE_WORDS_MAX]; /* end with NULL */
    int count;                    /* number of words */
} serve_words;

/* Append a word; `format` has two %s. FAST_EINVAL if there are too many. */
fast_err fast__serve_words_add(serve_words *words, const char *format, const char *a,
                               const char *b);

/* Append an option of a request's body as "--name=value". FAST_EINVAL if it names a file. */
fast_err fast__serve_words_option(serve_words *words, const fast_option *option, const char *value);

/* Free the words. */
void fast__serve_words_free(serve_words *words);
