/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `fast train --json` prints -> numbers. A line is one JSON object whose members are numbers,
 * texts, null and lists of numbers; lists and objects inside are stepped over. The members of a
 * result and of a point are found by table. A line that is no such object has no members: every
 * number is then NAN. Cost: one pass over the line for each member.
 */
#include "lab/compare.h"

#include "base/option.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* A member of a structure of doubles. */
typedef struct field {
    const char *name; /* in JSON and in C */
    size_t offset;    /* of the double */
} field;

#define MEASURE(name)                                \
    {                                                \
#name, offsetof(fast_compare_measures, name) \
    }
#define POINT(name)                               \
    {                                             \
#name, offsetof(fast_compare_point, name) \
    }

static const field measures[] = {
    MEASURE(test_accuracy),    MEASURE(test_loss),
    MEASURE(time_to_target_s), MEASURE(time_s),
    MEASURE(wall_time_s),      MEASURE(steps),
    MEASURE(samples),          MEASURE(samples_per_s),
    MEASURE(bytes_sent),       MEASURE(compute_s),
    MEASURE(exchange_s),       MEASURE(wait_s),
    MEASURE(codec_s),          MEASURE(staleness_p95),
    MEASURE(staleness_mean),   MEASURE(staleness_max),
    MEASURE(divergence),       MEASURE(completeness),
    MEASURE(step_s),           MEASURE(lr),
    MEASURE(predicted_step_s), MEASURE(virtual_time_s),
    MEASURE(workers),
};
_Static_assert(sizeof measures / sizeof *measures == sizeof(fast_compare_measures) / sizeof(double),
               "every measure is read");

static const field points[] = {
    POINT(time_s),    POINT(samples),    POINT(bytes_sent),     POINT(test_accuracy),
    POINT(test_loss), POINT(divergence), POINT(staleness_mean),
};
_Static_assert(sizeof points / sizeof *points == sizeof(fast_compare_point) / sizeof(double),
               "every number of a point is read");

/* Behind the text that begins at its quote; NULL if it does not end. */
static const char *skip_text(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1])
            at++;
    return *at ? at + 1 : NULL;
}

/* Behind a value: at the comma or the brace that follows it; NULL if the line ends before. */
static const char *skip_value(const char *at)
{
    int depth = 0;

    while (at && *at) {
        if (*at == '"') {
            at = skip_text(at);
            continue;
        }
        if (depth == 0 && (*at == ',' || *at == '}'))
            return at;
        depth += *at == '[' || *at == '{';
        depth -= *at == ']' || *at == '}';
        at++;
    }
    return NULL;
}

/* The value of a member, or NULL. */
static const char *find(const char *object, const char *key)
{
    const size_t length = strlen(key);
    const char *at = object;

    if (*at != '{')
        return NULL;
    do {
        at += 1 + strspn(at + 1, " ");
        if (*at != '"')
            return NULL;
        const char *name = at + 1;
        at = skip_text(at);
        if (!at)
            return NULL;
        const bool same = (size_t)(at - 1 - name) == length && strncmp(name, key, length) == 0;
        at += strspn(at, " ");
        if (*at != ':')
            return NULL;
        at += 1 + strspn(at + 1, " ");
        if (same)
            return at;
        at = skip_value(at);
    } while (at && *at == ',');
    return NULL;
}

double fast__read_number(const char *object, const char *key)
{
    const char *value = find(object, key);
    const size_t length = value ? strcspn(value, ",} ]") : 0;
    char text[64];
    double number;

    if (length == 0 || length >= sizeof text || !strchr("-0123456789", *value))
        return NAN;
    snprintf(text, sizeof text, "%.*s", (int)length, value);
    return fast__parse_real(key, text, &number) == FAST_OK ? number : NAN;
}

bool fast__read_text(const char *object, const char *key, char *text, size_t size)
{
    const char *value = find(object, key);
    size_t used = 0;

    FAST_ASSERT(size > 0);
    if (!value || *value != '"')
        return false;
    for (value++; *value && *value != '"' && used + 1 < size; value++) {
        if (*value == '\\' && value[1])
            value++;
        text[used++] = *value;
    }
    text[used] = '\0';
    return true;
}

static void read_fields(const char *object, const field *fields, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++) {
        double *to = (double *)(void *)((char *)out + fields[i].offset);

        *to = fast__read_number(object, fields[i].name);
    }
}

void fast__read_measures(const char *object, fast_compare_measures *out)
{
    read_fields(object, measures, sizeof measures / sizeof *measures, out);
}

void fast__read_point(const char *object, fast_compare_point *out)
{
    read_fields(object, points, sizeof points / sizeof *points, out);
}
