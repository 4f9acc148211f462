/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exclusions: pairs of options that a part refuses, evaluated from a table.
 *
 * A term's value is parsed by the option's own row, so that `slack=0` and `send=mean` compare as
 * the fields do. Cost: one pass over the terms of the table, when a run is opened.
 */
#include "base/exclusion.h"

#include <stdio.h>
#include <string.h>

enum { TERM_MAX = 96, VALUE_MAX = 64 };

/* One field of a configuration, whatever its type. */
typedef union exclusion_value {
    bool truth;           /* BOOL */
    int64_t whole;        /* INT */
    double real;          /* REAL */
    int choice;           /* CHOICE */
    char text[VALUE_MAX]; /* TEXT */
} exclusion_value;

/* A term of the table, taken apart. */
typedef struct exclusion_term {
    const fast_option *option; /* that it names */
    char value[VALUE_MAX];     /* behind the sign; "": the default, with the sign reversed */
    bool equal;                /* the term holds where the option has the value */
} exclusion_term;

static const fast_option *find_option(const fast_option *options, const char *name)
{
    while (options->name && strcmp(options->name, name) != 0)
        options++;
    FAST_ASSERT(options->name != NULL);
    return options;
}

static exclusion_term term_parse(const fast_option *options, const char *text, size_t size)
{
    char name[TERM_MAX];
    exclusion_term term = { .equal = true };

    FAST_ASSERT(size > 0 && size < sizeof name);
    memcpy(name, text, size);
    name[size] = 0;
    char *sign = strchr(name, '=');
    if (sign) {
        snprintf(term.value, sizeof term.value, "%s", sign + 1);
        term.equal = sign == name || sign[-1] != '!';
        sign[term.equal ? 0 : -1] = 0;
    }
    term.option = find_option(options, name);
    if (!sign) {
        snprintf(term.value, sizeof term.value, "%s", term.option->standard);
        term.equal = false;
    }
    return term;
}

/* Size of the field of an option that is not text. */
static size_t field_size(fast_option_type type)
{
    static const size_t sizes[] = { [FAST_OPTION_BOOL] = sizeof(bool),
                                    [FAST_OPTION_INT] = sizeof(int64_t),
                                    [FAST_OPTION_REAL] = sizeof(double),
                                    [FAST_OPTION_CHOICE] = sizeof(int) };

    return sizes[type];
}

static bool term_holds(const exclusion_term *term, const void *config)
{
    const char *field = (const char *)config + term->option->offset;
    fast_option row[2] = { *term->option, FAST_OPT_END };
    exclusion_value value = { .whole = 0 };

    if (term->option->type == FAST_OPTION_TEXT)
        return (strcmp(field, term->value) == 0) == term->equal;
    row[0].offset = 0;
    const fast_err err =
        fast__options_set("an exclusion", row, &value, term->option->name, term->value);
    FAST_ASSERT(err == FAST_OK);
    return (memcmp(field, &value, field_size(term->option->type)) == 0) == term->equal;
}

/* The first term of a list joined by `sign` that holds as wanted; false: none does. */
static bool find_term(const fast_option *options, const char *list, char sign, const void *config,
                      bool wanted, exclusion_term *out)
{
    while (*list) {
        const char *end = strchr(list, sign);
        const size_t size = end ? (size_t)(end - list) : strlen(list);

        *out = term_parse(options, list, size);
        if (term_holds(out, config) == wanted)
            return true;
        list += size + (end != NULL);
    }
    return false;
}

/* Write the option with its present value, as it was typed. */
static void term_text(const exclusion_term *term, const void *config, char *out, size_t size)
{
    const fast_option *o = term->option;
    const char *field = (const char *)config + o->offset;
    exclusion_value value = { .whole = 0 };
    char number[40];

    if (o->type != FAST_OPTION_TEXT)
        memcpy(&value, field, field_size(o->type));
    if (o->type == FAST_OPTION_REAL)
        fast__real_text(value.real, number, sizeof number);
    else
        snprintf(number, sizeof number, "%lld", (long long)value.whole);
    const char *word = o->type == FAST_OPTION_TEXT   ? field
                       : o->type == FAST_OPTION_BOOL ? (value.truth ? "yes" : "no")
                                                     : number;
    int length = (int)strlen(word);
    if (o->type == FAST_OPTION_CHOICE) {
        word = o->choices;
        for (int i = 0; i < value.choice; i++)
            word = strchr(word, '|') + 1;
        length = (int)strcspn(word, "|");
    }
    snprintf(out, size, "%s=%.*s", o->name, length, word);
}

/* Write a list of alternatives: "a or b or c". */
static void list_text(const char *list, char *out, size_t size)
{
    size_t used = 0;

    for (; *list && used + sizeof " or " < size; list++)
        if (*list == '|')
            used += (size_t)snprintf(out + used, size - used, " or ");
        else
            out[used++] = *list;
    out[used] = 0;
}

static fast_err check_row(const char *where, const fast_option *options, const fast_exclusion *row,
                          const void *config)
{
    exclusion_term first, other;
    char text[TERM_MAX], second[TERM_MAX];

    if (find_term(options, row->when, '&', config, false, &other))
        return FAST_OK;
    first = term_parse(options, row->when, strcspn(row->when, "&"));
    term_text(&first, config, text, sizeof text);
    if (row->excludes && find_term(options, row->excludes, '|', config, true, &other)) {
        term_text(&other, config, second, sizeof second);
        return fast__fail(FAST_EINVAL, "%s: %s does not go with %s: %s; leave out one of them",
                          where, text, second, row->why);
    }
    if (row->needs && !find_term(options, row->needs, '|', config, true, &other)) {
        list_text(row->needs, second, sizeof second);
        return fast__fail(FAST_EINVAL, "%s: %s needs %s: %s", where, text, second, row->why);
    }
    return FAST_OK;
}

fast_err fast__exclusions_check(const char *where, const fast_option *options,
                                const fast_exclusion *rows, const void *config)
{
    FAST_ASSERT(options != NULL && rows != NULL && config != NULL);
    for (; rows->when; rows++) {
        FAST_ASSERT(rows->excludes != NULL || rows->needs != NULL);
        FAST_TRY(check_row(where, options, rows, config));
    }
    return FAST_OK;
}
