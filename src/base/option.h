/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Parsing by table. `where` names the owner in messages ("fast train", "optimizer adam"). A table
 * ends with a row whose name is NULL; a NULL table has no options.
 */

/* Set every field of `config` to its default. A default that does not parse is a bug. */
void fast__options_default(const fast_option *table, void *config);

/* Return the row that `name` names by its name, or by its former name; NULL if no row does. */
const fast_option *fast__options_find(const fast_option *table, const char *name);

/* Set one field from text; `config` NULL only checks the value. A former name works and is logged
 * as a warning when the field is set. FAST_EINVAL for an unknown name
 * (the detail suggests the nearest), a malformed value or one out of range; `config` is then
 * unchanged. */
fast_err fast__options_set(const char *where, const fast_option *table, void *config,
                           const char *name, const char *value);

/* Apply "key=value,key=value" (may be NULL or empty) to `config`; on failure nothing is changed. A
 * value in double quotes may have commas inside, and quotes that are doubled. */
fast_err fast__options_parse(const char *where, const fast_option *table, void *config,
                             const char *text);

/* Split "name:key=value,..." at the first colon. *rest_out points into `spec`, or is NULL if there
 * is no colon. FAST_EINVAL if the name is empty or does not fit. */
fast_err fast__spec_split(const char *spec, char *name, size_t name_size, const char **rest_out);

/* Return the index of `name` among `count` names, given by name_at(ctx, i); -1 if it is absent:
 * then *nearest_out (may be NULL) is the most similar name, or NULL if none is similar. */
int64_t fast__name_find(const char *name, const char *(*name_at)(const void *ctx, int64_t i),
                        const void *ctx, int64_t count, const char **nearest_out);

/* Return FAST_EINVAL for an unknown `kind` named `name`; the detail has the nearest name and the
 * list: no model "lennet"; did you mean "lenet"? (mlp, lenet, ...). */
fast_err fast__name_unknown(const char *kind, const char *name,
                            const char *(*name_at)(const void *ctx, int64_t i), const void *ctx,
                            int64_t count);

/* Parse a whole string as a number, independent of the locale. FAST_EINVAL; `what` names the
 * value. */
fast_err fast__parse_int(const char *what, const char *text, int64_t *out);
fast_err fast__parse_real(const char *what, const char *text, double *out);

/* Write a finite number as a short text that fast__parse_real() reads back to the bit. */
void fast__real_text(double value, char *text, size_t size);

/* Rows of a table, so that it reads as data. `config` is the type of the configuration struct. */
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
/* A text option that was called `former` in the version before. */
#define FAST_OPT_TEXT_FORMER(config, field, former, standard, kind, help)  \
    {                                                                      \
#field, standard, help, FAST_OPTION_TEXT, offsetof(config, field), \
            sizeof(((config *)0)->field), 0, 0, kind, former               \
    }
#define FAST_OPT_CHOICE(config, field, standard, choices, help)                               \
    {                                                                                         \
#field, standard, help, FAST_OPTION_CHOICE, offsetof(config, field), 0, 0, 0, choices \
    }
#define FAST_OPT_END                                         \
    {                                                        \
        NULL, NULL, NULL, FAST_OPTION_BOOL, 0, 0, 0, 0, NULL \
    }
