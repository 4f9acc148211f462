/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: `fast bench pipeline` says of each schedule what it costs. Method: four equal stages on a
 * simulated cluster whose messages take no time, where bubbles, micro-batches in flight and
 * staleness have closed forms; a short run on threads; options that cannot be measured.
 */
#include "base/err.h"
#include "fast/lab.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS_MAX = 8 };
typedef struct rows {
    fast_pipeline_measure row[ROWS_MAX];
    char names[ROWS_MAX][32]; /* of the schedules, which are lent */
    int count;                /* rows that were reported */
} rows;

static void collect(void *ctx, const fast_pipeline_measure *m)
{
    rows *r = ctx;

    assert_true(r->count < ROWS_MAX);
    r->row[r->count] = *m;
    strncpy(r->names[r->count], m->pipeline, sizeof r->names[0] - 1);
    r->count++;
}

/* The row of a schedule. */
static const fast_pipeline_measure *row_of(const rows *r, const char *name)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->names[i], name) == 0)
            return &r->row[i];
    fail_msg("no row of %s", name);
    return NULL;
}

/* A stage is two blocks of a transformer, a chunk one; the ends are small beside them. */
static void bubbles_are_those_of_the_closed_form(void **state)
{
    static const char *const options[] = { "model=gpt:depth=8,width=16",
                                           "data=copy",
                                           "engine=ref",
                                           "batch=2",
                                           "accumulate=8",
                                           "steps=5",
                                           "cluster=ideal:nodes=4,speed=1GFLOP/s,latency=0us,"
                                           "bandwidth=0",
                                           NULL };
    rows r = { .count = 0 };

    (void)state;
    if (fast_bench_pipeline(options, collect, &r))
        fail_msg("%s", fast_error_detail());
    const fast_pipeline_measure *gpipe = row_of(&r, "gpipe"), *f1b = row_of(&r, "1f1b");
    const fast_pipeline_measure *dream = row_of(&r, "pipedream"), *two = row_of(&r, "interleaved");
    const fast_pipeline_measure *zero = row_of(&r, "zero_bubble");
    for (int i = 0; i < r.count; i++) {
        assert_int_equal(r.row[i].stages, 4);
        assert_int_equal(r.row[i].micro_batches, 8);
        assert_true(r.row[i].step_s > 0 && r.row[i].memory > 0);
    }
    assert_true(fabs(gpipe->bubble_expected - 3.0 / 11) < 1e-12);
    assert_true(fabs(gpipe->bubble - 3.0 / 11) < 0.03);
    assert_true(fabs(f1b->bubble - 3.0 / 11) < 0.03);
    assert_true(fabs(two->bubble_expected - 3.0 / 19) < 1e-12);
    assert_true(two->bubble < f1b->bubble && two->step_s < f1b->step_s);
    assert_true(fabs(zero->bubble_expected - 3.0 / 27) < 1e-12);
    assert_true(fabs(zero->bubble - 3.0 / 27) < 0.05 && zero->step_s < two->step_s);
    assert_int_equal(zero->in_flight, 4);
    assert_true(isnan(dream->bubble_expected) && dream->bubble < 0.1);
    /* Eight micro-batches without a bubble, beside the time of eleven with one. */
    assert_true(fabs(dream->step_s / f1b->step_s - 8.0 / 11) < 0.06);
    assert_int_equal(gpipe->in_flight, 8);
    assert_int_equal(two->in_flight, 11);
    assert_int_equal(f1b->in_flight, 4);
    assert_int_equal(dream->in_flight, 4);
    assert_int_equal(gpipe->staleness, 0);
    assert_int_equal(f1b->staleness, 0);
    assert_int_equal(dream->staleness, 3);
    /* No older versions of the weights; one of them; one for each batch in flight. */
    const fast_pipeline_measure *buffered = row_of(&r, "pipedream_2bw"),
                                *stale = row_of(&r, "stale");
    const fast_pipeline_measure *any = row_of(&r, "ampnet");
    assert_int_equal(buffered->staleness, 1);
    assert_int_equal(stale->staleness, 3);
    assert_true(any->staleness <= 3 && any->in_flight == 4);
    assert_true(buffered->bubble < 0.1 && stale->bubble < 0.1 && any->bubble < 0.1);
    assert_true(stale->memory < buffered->memory && buffered->memory < dream->memory);
    assert_true(gpipe->memory > f1b->memory && dream->memory > f1b->memory);
}

/* On threads, the schedule that is asked for alone. */
static void one_schedule_on_this_machine(void **state)
{
    static const char *const options[] = { "model=mlp:hidden=16x16",
                                           "data=digits:train=64,test=16",
                                           "engine=ref",
                                           "batch=4",
                                           "accumulate=2",
                                           "mesh=data=2,pipe=2",
                                           "transport=threads",
                                           "steps=4",
                                           "pipeline=gpipe",
                                           NULL };
    rows r = { .count = 0 };

    (void)state;
    if (fast_bench_pipeline(options, collect, &r))
        fail_msg("%s", fast_error_detail());
    assert_int_equal(r.count, 1);
    assert_string_equal(r.names[0], "gpipe");
    assert_int_equal(r.row[0].in_flight, 2);
    assert_true(r.row[0].step_s > 0 && r.row[0].bubble > 0 && r.row[0].bubble < 1);
    assert_true(fabs(r.row[0].bubble_expected - 1.0 / 3) < 1e-12);
}

/* Logs that hold less than two steps: the time is the run's, and the bubble is not known. */
static void short_logs(void **state)
{
    static const char *const options[] = { "model=mlp:hidden=8x8",
                                           "data=digits:train=1024,test=16",
                                           "engine=ref",
                                           "batch=1",
                                           "accumulate=600",
                                           "mesh=pipe=2",
                                           "steps=3",
                                           "pipeline=1f1b",
                                           NULL };
    rows r = { .count = 0 };

    (void)state;
    if (fast_bench_pipeline(options, collect, &r))
        fail_msg("%s", fast_error_detail());
    assert_true(r.row[0].step_s > 0);
    assert_true(isnan(r.row[0].bubble) && isnan(r.row[0].bubble_expected));
}

/* Groups of four do not divide six micro-batches: no row, or a reason. */
static void what_does_not_fit_has_no_row(void **state)
{
    const char *options[] = { "model=gpt:depth=4,width=16",
                              "data=copy",
                              "engine=ref",
                              "accumulate=6",
                              "steps=3",
                              NULL,
                              NULL };
    rows r = { .count = 0 };

    (void)state;
    if (fast_bench_pipeline(options, collect, &r))
        fail_msg("%s", fast_error_detail());
    assert_int_equal(r.count, 7);
    options[5] = "pipeline=interleaved";
    assert_int_equal(fast_bench_pipeline(options, collect, &r), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "groups of 4"));
}

/* Options of some schedules leave out the others. */
static void options_of_schedules(void **state)
{
    static const char *const options[] = { "model=gpt:depth=4,width=16",
                                           "data=copy",
                                           "engine=ref",
                                           "accumulate=6",
                                           "steps=4",
                                           "pipe_delay=2",
                                           NULL };
    rows r = { .count = 0 };

    (void)state;
    if (fast_bench_pipeline(options, collect, &r))
        fail_msg("%s", fast_error_detail());
    assert_int_equal(r.count, 3); /* pipedream, pipedream_2bw, stale */
    assert_int_equal(row_of(&r, "pipedream")->staleness, 6);
    assert_int_equal(row_of(&r, "pipedream_2bw")->staleness, 1);
    assert_int_equal(row_of(&r, "stale")->in_flight, 7);
}

static void refused(void **state)
{
    static const struct {
        const char *options[4]; /* beside a small model */
        const char *why;        /* part of the sentence */
    } cases[] = {
        { { "mesh=tensor=2" }, "mesh=tensor=2 has no stages" },
        { { "steps=2" }, "give at least 3" },
        { { "pipeline=gpip" }, "gpip" },
        { { "nonsense=1" }, "nonsense" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *options[8] = { "model=mlp:hidden=8x8x8x8", "data=digits:train=64,test=16",
                                   "engine=ref" };
        rows r = { .count = 0 };

        for (int k = 0; cases[i].options[k]; k++)
            options[3 + k] = cases[i].options[k];
        assert_int_equal(fast_bench_pipeline(options, collect, &r), FAST_EINVAL);
        if (!strstr(fast_error_detail(), cases[i].why))
            fail_msg("\"%s\" is not in \"%s\"", cases[i].why, fast_error_detail());
        assert_int_equal(r.count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bubbles_are_those_of_the_closed_form),
        cmocka_unit_test(one_schedule_on_this_machine),
        cmocka_unit_test(short_logs),
        cmocka_unit_test(what_does_not_fit_has_no_row),
        cmocka_unit_test(options_of_schedules),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
