/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines that know the difference between a slow peer, a dead one and one's own standstill.
 * Goal: after a fault the others either continue, or end at once and name the one that is missing;
 * what happened is told while it happens. Method: runs of milliseconds in sim, whose own detection
 * of faults is switched off, with one fault each; notes are collected by a watcher.
 */
#include "matrix.h"
#include "run/team.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The notes of a run, in order. */
typedef struct story {
    char notes[4096]; /* one a line */
    double first_s;   /* when the first was told; NAN: none was */
} story;

static void watch(void *ctx, const fast_event *event)
{
    story *s = ctx;
    const size_t used = strlen(s->notes);

    if (event->kind != FAST_EVENT_NOTE)
        return;
    if (isnan(s->first_s))
        s->first_s = event->result->time_s;
    snprintf(s->notes + used, sizeof s->notes - used, "%s\n", event->text);
}

/* Run four workers with a timeout of 0.5 s; NULL: no faults. */
static fast_run *run_with(const char *strategy, const char *faults, story *s, fast_err *err_out)
{
    char member[128], plan[256], cluster[64];
    const char *options[] = { "model=mlp:hidden=12",
                              "engine=ref",
                              "plan=no",
                              "transport=sim",
                              cluster,
                              "timeout=0.5",
                              "batch=4",
                              "optimizer=sgd",
                              "lr=0.05",
                              "schedule=constant",
                              "evaluate=end",
                              "steps=400",
                              "workers=4",
                              "seed=5",
                              member,
                              plan,
                              NULL };
    fast_run *run = NULL;

    *s = (story){ .first_s = NAN };
    snprintf(member, sizeof member, "strategy=%s", strategy);
    /* Crashes are detected; what hangs, or is cut off, is not. */
    snprintf(cluster, sizeof cluster, "cluster=ethernet-10g:detection=%s",
             faults && strstr(faults, "crash") ? "100ms" : "1000000s");
    snprintf(plan, sizeof plan, "faults=%s", faults ? faults : "");
    if (fast_run_open_with(options, NULL, test_train_points, test_test_points, &run))
        fail_msg("%s %s: %s", strategy, plan, fast_error_detail());
    fast_run_watch(run, watch, s);
    *err_out = fast_run_train(run);
    return run;
}

/* A worker of rounds leaves with an error: the others must not train without effect. */
static void rounds_end_with_the_worker_that_left(void **state)
{
    story s;
    fast_err err;
    fast_run *run = run_with("ps:slack=0", "cut 0>1 at 1ms", &s, &err);

    (void)state;
    assert_true(err == FAST_ETIMEDOUT || err == FAST_EPEER);
    assert_non_null(strstr(fast_error_detail(), "worker 1"));
    assert_true(fast_run_result(run)->steps < 40);
    assert_true(fast_run_result(run)->time_s < 0.6);
    fast_run_close(run);
}

/* A jump in a gradient, an update, an encoding or a wait is no part of the measures. */
static void a_jump_is_not_measured(void **state)
{
    static const char *const members[] = { "gossip_async", "ps:slack=3", "allreduce" };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof *members * 12; i++) {
        char faults[80];
        story s;
        fast_err err;

        snprintf(faults, sizeof faults, "jump 1 at %dus by %s100s", (int)(700 + i / 3 * 171),
                 i % 2 ? "-" : "");
        fast_run *run = run_with(members[i % 3], faults, &s, &err);
        const fast_result *r = fast_run_result(run);

        if (err)
            fail_msg("%s: %s", members[i % 3], fast_error_detail());
        if (!(r->step_s < 0.01 && r->wait_s < 1 && r->compute_s < 1 && r->compute_s > 0 &&
              r->wait_s + r->compute_s < r->time_s))
            fail_msg("%s, %s: step %g s, wait %g s, compute %g s of %g s", members[i % 3], faults,
                     r->step_s, r->wait_s, r->compute_s, r->time_s);
        fast_run_close(run);
    }
}

/* A clock that jumps ends nothing, whoever waits. */
static void a_jump_ends_nothing(void **state)
{
    static const char *const members[] = { "allreduce",    "ps:slack=0", "local:period=4", "gossip",
                                           "elastic_sync", "ps:slack=3", "gossip_async",   "mpca" };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        story s;
        fast_err err;
        fast_run *run = run_with(members[i], "jump 1 at 1ms by 100s", &s, &err);

        if (err)
            fail_msg("%s: %s", members[i], fast_error_detail());
        if (strstr(s.notes, "worker"))
            fail_msg("%s: %s", members[i], s.notes);
        /* Nor does it count as time of the run, or of a step, or of a wait. */
        assert_true(fast_run_result(run)->time_s < 1);
        assert_true(fast_run_result(run)->step_s < 0.01);
        assert_true(fast_run_result(run)->wait_s < 1);
        fast_run_close(run);
    }
}

/* A worker that hangs for longer than a timeout is told of when it does, and when it is back;
 * nobody is lost, and its steps count. */
static void a_worker_that_is_back_is_told_of(void **state)
{
    static const char *const members[] = { "ps:slack=3", "gossip_async", "ps:slack=3,eager=yes" };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        story s;
        fast_err err;
        fast_run *run = run_with(members[i], "pause 2 at 1ms for 502ms", &s, &err);

        if (err)
            fail_msg("%s: %s", members[i], fast_error_detail());
        if (!strstr(s.notes, "worker 2 does not answer") || !strstr(s.notes, "worker 2 is back") ||
            strstr(s.notes, "did not come to the end"))
            fail_msg("%s: %s", members[i], s.notes);
        assert_true(s.first_s < 0.6);
        for (int64_t k = 0; k < 4; k++)
            assert_false(run->team->actors[k]->lost);
        fast_run_close(run);
    }
}

/* The silent worker does not finish alone: the others continue without it. */
static void the_healthy_ones_continue(void **state)
{
    story s;
    fast_err err;
    fast_run *run = run_with("ps:slack=3", "pause 2 at 1ms for 1000s", &s, &err);

    (void)state;
    assert_int_equal(err, FAST_OK);
    assert_non_null(strstr(s.notes, "worker 2 does not answer"));
    for (int64_t k = 0; k < 4; k++) {
        if (k == 2)
            continue;
        assert_false(run->team->actors[k]->lost);
        assert_true(run->team->actors[k]->measures.tally.life_ns < INT64_C(600000000));
    }
    fast_run_close(run);
}

/* A run that lost most of its workers says so, and what its model is worth. */
static void most_workers_are_lost(void **state)
{
    story s;
    fast_err err;
    fast_run *run = run_with("ps", "crash 1 at 1ms; crash 2 at 1.5ms; crash 3 at 2ms", &s, &err);

    (void)state;
    assert_int_equal(err, FAST_OK);
    assert_int_equal(fast_run_result(run)->workers_lost, 3);
    assert_non_null(strstr(fast_run_json(run), "\"workers_lost\": 3"));
    assert_non_null(strstr(s.notes, "3 of 4 workers did not come to the end"));
    assert_non_null(strstr(s.notes, "the model has seen"));
    fast_run_close(run);
}

/* Workers that are too few for a round wait for each other, and name one that is missing. */
static void backup_workers_name_the_missing(void **state)
{
    story s;
    fast_err err;
    fast_run *run = run_with("ps:slack=0,backup=1", "crash 1 at 1ms; crash 2 at 1ms", &s, &err);

    (void)state;
    assert_int_equal(err, FAST_ETIMEDOUT);
    assert_non_null(strstr(fast_error_detail(), "2 are missing: worker 1 is down"));
    fast_run_close(run);
}

/* Messages of a server do not arrive at two workers, which give up; the others are too few. */
static void backup_workers_do_not_end_silently(void **state)
{
    static const char *const members[] = { "ps:slack=0,backup=1", "ps:slack=0,backup=1,servers=2",
                                           "ps:slack=0,backup=1,servers=2" };
    static const char *const faults[] = { "partition 0>2,3 at 1ms", "partition 0>2,3 at 1ms",
                                          "partition 1>2,3 at 1ms" };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        story s;
        fast_err err;
        fast_run *run = run_with(members[i], faults[i], &s, &err);

        if (!err || !strstr(fast_error_detail(), i == 0 ? "2 are missing: worker 2 " : "worker 2"))
            fail_msg("%s, %s: %s", members[i], faults[i], err ? fast_error_detail() : s.notes);
        assert_non_null(strstr(fast_run_json(run), "\"usable\": false"));
        fast_run_close(run);
    }
}

/* A run that failed counts and names those that crashed, not all that ended because of them; it
 * has no model whose hash could be compared. */
static void failed_runs_name_who_crashed(void **state)
{
    story s;
    fast_err err;
    fast_run *run = run_with("allreduce", "crash 1 at 1ms; crash 2 at 1ms", &s, &err);

    (void)state;
    assert_int_not_equal(err, FAST_OK);
    assert_int_equal(fast_run_result(run)->workers_lost, 2);
    assert_non_null(strstr(fast_run_json(run), "\"lost\": \"worker 1, worker 2\""));
    assert_non_null(strstr(fast_run_json(run), "\"params_hash\": null"));
    fast_run_close(run);
    run = run_with("ps:slack=0,backup=1", "partition 0,1|2,3 at 1ms; crash 3 at 2s", &s, &err);
    assert_int_not_equal(err, FAST_OK);
    assert_non_null(strstr(fast_run_json(run), "\"lost\": \"worker 2, worker 3\""));
    fast_run_close(run);
}

/* Users of a strategy know no groups: the error names the worker and what to use instead. */
static void allreduce_says_what_continues(void **state)
{
    static const char *const members[] = { "allreduce", "allreduce:overlap=yes,bucket=64",
                                           "allreduce:priority=yes,bucket=64", "local", "gossip" };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        story s;
        fast_err err;
        fast_run *run = run_with(members[i], "crash 2 at 1ms", &s, &err);
        char text[160];

        snprintf(text, sizeof text,
                 "worker 2 crashed at 1 ms; %.*s cannot continue without it; use "
                 "quorum:backup=1, ps or gossip_async",
                 (int)strcspn(members[i], ":"), members[i]);
        if (err != FAST_EPEER || !strstr(fast_error_detail(), text))
            fail_msg("%s: %s", members[i], fast_error_detail());
        fast_run_close(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_end_with_the_worker_that_left),
        cmocka_unit_test(a_jump_ends_nothing),
        cmocka_unit_test(a_jump_is_not_measured),
        cmocka_unit_test(a_worker_that_is_back_is_told_of),
        cmocka_unit_test(the_healthy_ones_continue),
        cmocka_unit_test(most_workers_are_lost),
        cmocka_unit_test(backup_workers_name_the_missing),
        cmocka_unit_test(backup_workers_do_not_end_silently),
        cmocka_unit_test(failed_runs_name_who_crashed),
        cmocka_unit_test(allreduce_says_what_continues),
    };

    return cmocka_run_group_tests(tests, test_points_begin, test_points_end);
}
