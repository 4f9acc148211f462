/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options: text into the fields of a configuration, by a table.
 *
 *     value    BOOL    yes no true false on off 1 0
 *              INT     [+-]digits, then k, M or G for 10^3, 10^6, 10^9
 *              REAL    [+-]digits[.digits][e[+-]digits], finite
 *              TEXT    any bytes that fit the field
 *              CHOICE  one of a|b|c
 *     part     name[:key=value,key=value...]; a value with commas in double quotes
 *
 * A value is parsed and checked completely before it is stored, so a failure changes nothing. An
 * owner named "fast ..." is a command: messages write its options as flags. Parsing ignores the
 * locale: a decimal comma of the user's language is not valid in an options file.
 */
#include "base/option.h"

#include "base/log.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 64, VALUE_SIZE = 4096 };

/* A parsed value; the option's type tells which member is set. */
typedef struct option_value {
    bool yes;         /* BOOL */
    int64_t whole;    /* INT; CHOICE: the index */
    double real;      /* REAL */
    const char *text; /* TEXT: borrowed from the caller */
} option_value;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Parse a whole number with an optional unit; false if malformed or too large. */
static bool int_read(const char *text, int64_t *out)
{
    const char *c = text;
    const bool negative = *c == '-';
    if (*c == '-' || *c == '+')
        c++;
    if (!is_digit(*c))
        return false;
    int64_t value = 0;
    for (; is_digit(*c); c++) {
        const int64_t digit = negative ? '0' - *c : *c - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    /* k, M, G are powers of 1000; Ki, Mi, Gi of 1024. */
    static const char units[] = "kMG";
    int64_t unit = 1;
    for (int i = 0; units[i] && unit == 1; i++) {
        const bool binary = (*c == units[i] || (i == 0 && *c == 'K')) && c[1] == 'i';
        if (*c != units[i] && !binary)
            continue;
        for (int k = 0; k <= i; k++)
            unit *= binary ? 1024 : 1000;
        c += binary ? 2 : 1;
    }
    if (*c != 0 || __builtin_mul_overflow(value, unit, &value))
        return false;
    *out = value;
    return true;
}

/* Tell whether the text is [+-]digits[.digits][e[+-]digits]; one side of the point may be empty.
 * This rejects "nan", "inf", hexadecimal numbers and spaces before strtod() sees them. */
static bool real_is_plain(const char *c)
{
    if (*c == '-' || *c == '+')
        c++;
    int digits = 0;
    for (; is_digit(*c); c++)
        digits = 1;
    if (*c == '.')
        c++;
    for (; is_digit(*c); c++)
        digits = 1;
    if (!digits)
        return false;
    if (*c == 'e' || *c == 'E') {
        c++;
        if (*c == '-' || *c == '+')
            c++;
        if (!is_digit(*c))
            return false;
        while (is_digit(*c))
            c++;
    }
    return *c == 0;
}

/* Parse a finite number, independent of the locale. */
static bool real_read(const char *text, double *out)
{
    if (!real_is_plain(text))
        return false;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    FAST_ASSERT(plain != (locale_t)0);
    const double value = strtod_l(text, NULL, plain);
    freelocale(plain);
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

fast_err fast__parse_int(const char *what, const char *text, int64_t *out)
{
    if (!int_read(text, out))
        return fast__fail(FAST_EINVAL, "%s must be a whole number, not \"%.64s\"", what, text);
    return FAST_OK;
}

fast_err fast__parse_real(const char *what, const char *text, double *out)
{
    if (!real_read(text, out))
        return fast__fail(FAST_EINVAL, "%s must be a number, not \"%.64s\"", what, text);
    return FAST_OK;
}

void fast__real_text(double value, char *text, size_t size)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    FAST_ASSERT(plain != (locale_t)0);
    const locale_t before = uselocale(plain);
    double back = 0;
    for (int digits = 12; digits <= 17; digits++) { /* 17 digits are always enough */
        snprintf(text, size, "%.*g", digits, value);
        if (real_read(text, &back) && back == value)
            break;
    }
    uselocale(before);
    freelocale(plain);
}

/* Name of row `i`, for fast__name_find(). */
static const char *row_name(const void *table, int64_t i)
{
    return ((const fast_option *)table)[i].name;
}

/* Number of rows; a NULL table has none. */
static int64_t row_count(const fast_option *table)
{
    int64_t count = 0;
    while (table && table[count].name)
        count++;
    return count;
}

/* Write an option's name as messages show it: as a flag if the owner is a command. */
static const char *shown(const char *where, const char *name, char out[NAME_SIZE + 3])
{
    const bool flag = strncmp(where, "fast ", 5) == 0 && strncmp(name, "--", 2) != 0;
    snprintf(out, NAME_SIZE + 3, "%s%.*s", flag ? "--" : "", NAME_SIZE, name);
    for (char *c = out; flag && *c; c++) {
        if (*c == '_')
            *c = '-';
    }
    return out;
}

/* Fail with the list of all options, if none is similar to `name`. */
static fast_err fail_with_list(const char *where, const fast_option *table, const char *name)
{
    char list[FAST_DETAIL_MAX] = "";
    size_t used = 0;
    for (const fast_option *row = table; row->name && used < sizeof list; row++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", row == table ? "" : ", ",
                                 row->name);
    return fast__fail(FAST_EINVAL, "%s: no option \"%.*s\"; there are: %s", where, NAME_SIZE, name,
                      list);
}

/* Copy a name with underscores instead of hyphens; a longer name than any option's is cut. */
static void name_plain(const char *name, char plain[NAME_SIZE])
{
    snprintf(plain, NAME_SIZE, "%s", name);
    for (char *c = plain; *c; c++) {
        if (*c == '-')
            *c = '_';
    }
}

const fast_option *fast__options_find(const fast_option *table, const char *name)
{
    FAST_ASSERT(name != NULL);
    char plain[NAME_SIZE];
    name_plain(name, plain);
    for (const fast_option *row = table; row && row->name; row++)
        if (strlen(name) < NAME_SIZE &&
            (strcmp(row->name, plain) == 0 || (row->former && strcmp(row->former, plain) == 0)))
            return row;
    return NULL;
}

/* Find an option by name, with hyphens or underscores. FAST_EINVAL suggests the nearest. */
static fast_err row_find(const char *where, const fast_option *table, const char *name,
                         const fast_option **out)
{
    const fast_option *row = fast__options_find(table, name);
    char plain[NAME_SIZE];
    if (row) {
        *out = row;
        return FAST_OK;
    }
    name_plain(name, plain);
    const char *close_one = NULL;
    fast__name_find(plain, row_name, table, row_count(table), &close_one);
    char typed[NAME_SIZE + 3], right[NAME_SIZE + 3];
    if (close_one)
        return fast__fail(FAST_EINVAL, "%s: no option \"%s\"; did you mean \"%s\"?", where,
                          shown(where, name, typed), shown(where, close_one, right));
    if (table && strncmp(where, "fast ", 5) != 0) /* a command has help of its own */
        return fail_with_list(where, table, name);
    return fast__fail(FAST_EINVAL, "%s: no option \"%s\"", where, shown(where, name, typed));
}

/* Parse a truth value. */
static bool bool_read(const char *text, bool *out)
{
    static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i % 2;
            return true;
        }
    }
    return false;
}

/* Set *out to the index of `text` in "a|b|c"; false if it is not among them. */
static bool choice_read(const char *choices, const char *text, int64_t *out)
{
    const size_t length = strlen(text);
    int64_t i = 0;
    for (const char *c = choices;; i++) {
        const size_t width = strcspn(c, "|");
        if (width == length && memcmp(c, text, length) == 0) {
            *out = i;
            return true;
        }
        if (c[width] == 0)
            return false;
        c += width + 1;
    }
}

/* Fail with the range that a number missed. Limits beyond +-9e15 mean none and are not shown. */
static fast_err fail_range(const char *where, const fast_option *row, const char *text)
{
    char name[NAME_SIZE + 3];
    const char *kind = row->type == FAST_OPTION_INT ? "a whole number" : "a number";
    const bool low = row->min < row->max && row->min > -9e15;
    const bool high = row->min < row->max && row->max < 9e15;
    shown(where, row->name, name);
    if (low && high)
        return fast__fail(FAST_EINVAL, "%s: %s must be %s between %.15g and %.15g, not \"%.64s\"",
                          where, name, kind, row->min, row->max, text);
    if (low)
        return fast__fail(FAST_EINVAL, "%s: %s must be %s, at least %.15g, not \"%.64s\"", where,
                          name, kind, row->min, text);
    if (high)
        return fast__fail(FAST_EINVAL, "%s: %s must be %s, at most %.15g, not \"%.64s\"", where,
                          name, kind, row->max, text);
    return fast__fail(FAST_EINVAL, "%s: %s must be %s, not \"%.64s\"", where, name, kind, text);
}

/* Tell whether a number respects the row's limits. */
static bool in_range(const fast_option *row, double value)
{
    return row->min == row->max || (value >= row->min && value <= row->max);
}

/* Fail with the list of choices. */
static fast_err fail_choice(const char *where, const fast_option *row, const char *text)
{
    char name[NAME_SIZE + 3], list[FAST_DETAIL_MAX];
    size_t used = 0;
    for (const char *c = row->choices; *c && used + 3 < sizeof list; c++) {
        list[used++] = *c == '|' ? ',' : *c;
        if (*c == '|')
            list[used++] = ' ';
    }
    list[used] = 0;
    return fast__fail(FAST_EINVAL, "%s: %s must be one of %s, not \"%.64s\"", where,
                      shown(where, row->name, name), list, text);
}

/* Parse and check a value by its row; *out is set on success only. */
static fast_err value_parse(const char *where, const fast_option *row, const char *text,
                            option_value *out)
{
    char name[NAME_SIZE + 3];
    option_value value = { .text = text };
    switch (row->type) {
    case FAST_OPTION_BOOL:
        if (!bool_read(text, &value.yes))
            return fast__fail(FAST_EINVAL, "%s: %s must be yes or no, not \"%.64s\"", where,
                              shown(where, row->name, name), text);
        break;
    case FAST_OPTION_INT:
        if (!int_read(text, &value.whole) || !in_range(row, (double)value.whole))
            return fail_range(where, row, text);
        break;
    case FAST_OPTION_REAL:
        if (!real_read(text, &value.real) || !in_range(row, value.real))
            return fail_range(where, row, text);
        break;
    case FAST_OPTION_TEXT:
        if (strlen(text) >= row->size)
            return fast__fail(FAST_EINVAL, "%s: %s is longer than %zu bytes: \"%.32s...\"", where,
                              shown(where, row->name, name), row->size - 1, text);
        break;
    case FAST_OPTION_CHOICE:
        if (!choice_read(row->choices, text, &value.whole))
            return fail_choice(where, row, text);
        break;
    }
    *out = value;
    return FAST_OK;
}

/* Store a parsed value in its field. */
static void value_store(const fast_option *row, const option_value *value, void *config)
{
    unsigned char *field = (unsigned char *)config + row->offset;
    const int index = (int)value->whole;
    switch (row->type) {
    case FAST_OPTION_BOOL:
        memcpy(field, &value->yes, sizeof value->yes);
        break;
    case FAST_OPTION_INT:
        memcpy(field, &value->whole, sizeof value->whole);
        break;
    case FAST_OPTION_REAL:
        memcpy(field, &value->real, sizeof value->real);
        break;
    case FAST_OPTION_TEXT:
        /* The rest of the field is zeroed, so that equal configurations have equal bytes. */
        memset(field, 0, row->size);
        memcpy(field, value->text, strlen(value->text));
        break;
    case FAST_OPTION_CHOICE:
        memcpy(field, &index, sizeof index);
        break;
    }
}

void fast__options_default(const fast_option *table, void *config)
{
    FAST_ASSERT(config != NULL || table == NULL);
    for (const fast_option *row = table; row && row->name; row++) {
        option_value value;
        FAST_ASSERT(row->standard != NULL);
        const fast_err err = value_parse("defaults", row, row->standard, &value);
        FAST_ASSERT(err == FAST_OK);
        value_store(row, &value, config);
    }
}

fast_err fast__options_set(const char *where, const fast_option *table, void *config,
                           const char *name, const char *value)
{
    FAST_ASSERT(name != NULL);
    FAST_ASSERT(value != NULL);
    const fast_option *row;
    option_value parsed;
    FAST_TRY(row_find(where, table, name, &row));
    FAST_TRY(value_parse(where, row, value, &parsed));
    if (!config)
        return FAST_OK;
    value_store(row, &parsed, config);
    char typed[NAME_SIZE];
    name_plain(name, typed);
    if (strcmp(typed, row->name) != 0)
        fast__log(FAST_LOG_WARN,
                  "%s: option %s is called %s now; the old name works in this version only", where,
                  row->former, row->name);
    return FAST_OK;
}

/* Read a value up to the comma after it; "..." may have commas inside, and a quote doubled. Returns
 * the bytes read, or 0 if a quote is not closed, text follows it, or the value does not fit. */
static size_t value_read(const char *text, char out[VALUE_SIZE])
{
    const bool quoted = *text == '"';
    const char *c = text + quoted;
    bool closed = !quoted;
    size_t used = 0;
    for (; *c != 0 && (quoted || *c != ','); c++) {
        closed = quoted && *c == '"' && *++c != '"';
        if (closed)
            break;
        if (used + 1 == VALUE_SIZE)
            return 0;
        out[used++] = *c;
    }
    out[used] = 0;
    return (closed || !quoted) && (*c == 0 || *c == ',') ? (size_t)(c - text) : 0;
}

/* Apply all pairs; `config` NULL only checks them. */
static fast_err pairs_apply(const char *where, const fast_option *table, void *config,
                            const char *text)
{
    while (*text) {
        char name[NAME_SIZE], value[VALUE_SIZE];
        const size_t length = strcspn(text, ",");
        const size_t name_length = strcspn(text, "=,");
        if (text[name_length] != '=' || name_length == 0)
            return fast__fail(FAST_EINVAL, "%s: \"%.*s\" is not written key=value", where,
                              length < 64 ? (int)length : 64, text);
        text += name_length + 1;
        const size_t value_length = value_read(text, value);
        if (name_length >= sizeof name || (value_length == 0 && *text != 0 && *text != ','))
            return fast__fail(FAST_EINVAL,
                              "%s: \"%.64s...\" is too long, or a quote in it is not closed", where,
                              text - name_length - 1);
        memcpy(name, text - name_length - 1, name_length);
        name[name_length] = 0;
        FAST_TRY(fast__options_set(where, table, config, name, value));

        text += value_length;
        if (*text == ',' && *++text == 0)
            return fast__fail(FAST_EINVAL, "%s: nothing follows the last comma", where);
    }
    return FAST_OK;
}

fast_err fast__options_parse(const char *where, const fast_option *table, void *config,
                             const char *text)
{
    if (!text)
        return FAST_OK;
    FAST_ASSERT(where != NULL);
    FAST_TRY(pairs_apply(where, table, NULL, text));
    return pairs_apply(where, table, config, text);
}

fast_err fast__spec_split(const char *spec, char *name, size_t name_size, const char **rest_out)
{
    FAST_ASSERT(spec != NULL);
    FAST_ASSERT(name_size > 0);
    const size_t length = strcspn(spec, ":");
    if (length == 0)
        return fast__fail(FAST_EINVAL, "no name in \"%.64s\"; write name:key=value,...", spec);
    if (length >= name_size)
        return fast__fail(FAST_EINVAL, "the name in \"%.64s\" is longer than %zu bytes", spec,
                          name_size - 1);
    memcpy(name, spec, length);
    name[length] = 0;
    *rest_out = spec[length] == ':' ? spec + length + 1 : NULL;
    return FAST_OK;
}
