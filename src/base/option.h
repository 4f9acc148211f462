/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Parsing by table. `where` names the owner in messages ("fast train", "optimizer adam").
 * A table ends with a row whose name is NULL; a NULL table has no options.
 */

/* Set every field of `config` to its default. The defaults must parse: anything else is a bug. */
void fast__options_default(const fast_option *table, void *config);

/* Set one field from text, or only check it where `config` is NULL. FAST_EINVAL for an unknown name
 * (the detail names the nearest), a malformed value or one out of range; `config` is then as it
 * was. */
fast_err fast__options_set(const char *where, const fast_option *table, void *config,
                           const char *name, const char *value);

/* Parse "key=value,key=value" (may be NULL or empty) over `config`. */
fast_err fast__options_parse(const char *where, const fast_option *table, void *config,
                             const char *text);

/* Split "name:key=value,..." at the first colon. `*rest_out` points into `spec`, or is NULL.
 * FAST_EINVAL if the name is empty or does not fit. */
fast_err fast__spec_split(const char *spec, char *name, size_t name_size, const char **rest_out);

/* Find `name` in a list of `count` names, given by name_at(ctx, i); -1 if absent, and then
 * *nearest_out, which may be left out, is the closest name, or NULL when none is close. */
int64_t fast__name_find(const char *name, const char *(*name_at)(const void *ctx, int64_t i),
                        const void *ctx, int64_t count, const char **nearest_out);

/* The code and detail for an unknown `kind` named `name`: FAST_EINVAL with the nearest right one
 * and the whole list: no model "lennet"; did you mean "lenet"? (mlp, lenet, ...). */
fast_err fast__name_unknown(const char *kind, const char *name,
                            const char *(*name_at)(const void *ctx, int64_t i), const void *ctx,
                            int64_t count);

/* Whole-string numbers, no locale. FAST_EINVAL with a detail otherwise. `what` names the value. */
fast_err fast__parse_int(const char *what, const char *text, int64_t *out);
fast_err fast__parse_real(const char *what, const char *text, double *out);

/* A finite number as a short text that fast__parse_real() reads back to the bit, no locale. */
void fast__real_text(double value, char *text, size_t size);

/* Rows of a table, so that it reads as data. `config` is the configuration's type. */
#define FAST_OPT_BOOL(config, field, standard, help)                                     \
    {                                                                                    \
#field, standard, help, FAST_OPTION_BOOL, offsetof(config, field), 0, 0, 0, NULL \
    }
#define FAST_OPT_INT(config, field, standard, min, max, help)                               \
    {                                                                                       \
#field, standard, help, FAST_OPTION_INT, offsetof(config, field), 0, min, max, NULL \
    }
#define FAST_OPT_REAL(config, field, standard, min, max, help)                               \
    {                                                                                        \
#field, standard, help, FAST_OPTION_REAL, offsetof(config, field), 0, min, max, NULL \
    }
#define FAST_OPT_TEXT(config, field, standard, kind, help)                 \
    {                                                                      \
#field, standard, help, FAST_OPTION_TEXT, offsetof(config, field), \
            sizeof(((config *)0)->field), 0, 0, kind                       \
    }
#define FAST_OPT_CHOICE(config, field, standard, choices, help)                               \
    {                                                                                         \
#field, standard, help, FAST_OPTION_CHOICE, offsetof(config, field), 0, 0, 0, choices \
    }
#define FAST_OPT_END                                         \
    {                                                        \
        NULL, NULL, NULL, FAST_OPTION_BOOL, 0, 0, 0, 0, NULL \
    }
