/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* A list of texts that it owns; `items` ends with NULL. */
typedef struct fast_words {
    char **items;  /* the texts, ended by NULL */
    int64_t count; /* number of texts */
    int64_t size;  /* places of `items` */
} fast_words;

fast_err fast__words_add(fast_words *words, const char *text);
fast_err fast__words_format(fast_words *words, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fast__words_fini(fast_words *words);
/* The value of the last "name=value", or NULL. */
const char *fast__words_value(const fast_words *words, const char *name);
