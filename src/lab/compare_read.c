/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that `fast train --json` prints -> numbers, by table. A member that is missing or is not
 * a number is NAN; every number of a NULL object is.
 */
#include "lab/compare.h"

#include <stddef.h>

/* A member of a structure of doubles. */
typedef struct read_field {
    const char *name; /* in JSON and in C */
    size_t offset;    /* of the double */
} read_field;

#define MEASURE(name)                                \
    {                                                \
#name, offsetof(fast_compare_measures, name) \
    }
#define POINT(name)                               \
    {                                             \
#name, offsetof(fast_compare_point, name) \
    }

static const read_field measures[] = {
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
    MEASURE(workers),          MEASURE(batch),
};
_Static_assert(sizeof measures / sizeof *measures == sizeof(fast_compare_measures) / sizeof(double),
               "every measure is read");

static const read_field points[] = {
    POINT(time_s),    POINT(samples),    POINT(bytes_sent),     POINT(test_accuracy),
    POINT(test_loss), POINT(divergence), POINT(staleness_mean), POINT(progress),
};
_Static_assert(sizeof points / sizeof *points == sizeof(fast_compare_point) / sizeof(double),
               "every number of a point is read");

/* Copy the numbers of an object into a struct, by a table of keys and offsets; missing ones are
 * NAN. */
static void read_fields(const json_t *object, const read_field *fields, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++) {
        double *to = (double *)(void *)((char *)out + fields[i].offset);

        *to = fast__json_number(object, fields[i].name);
    }
}

void fast__read_measures(const json_t *object, fast_compare_measures *out)
{
    read_fields(object, measures, sizeof measures / sizeof *measures, out);
}

void fast__read_point(const json_t *object, fast_compare_point *out)
{
    read_fields(object, points, sizeof points / sizeof *points, out);
}
