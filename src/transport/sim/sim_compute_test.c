/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: works are computed for real, take the time of their cost, report at their virtual times on
 * the actor's own stack, and a pool of threads changes nothing. Method: works with known costs and
 * results; a run without a pool and with pools of several sizes must agree in hash and results; the
 * works of one instant do run on several threads.
 */
#include "transport/sim/sim.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ACTORS = 8, STEPS = 5, TAG = 9, SIZE = 1000 };

typedef struct job {
    fast_work work; /* first: run() gets it */
    fast_actor *actor;
    int64_t reports[4][2]; /* offset, time */
    int report_count;
    double sum;       /* the result */
    int64_t seed;     /* of the numbers */
    fast_err fails;   /* error that run() returns */
    pthread_t thread; /* that ran it */
} job;

static fast_err job_run(fast_work *work)
{
    job *j = (job *)work;
    j->thread = pthread_self();
    for (int64_t i = 0; i < SIZE; i++) {
        j->sum += 1.0 / (double)(i + j->seed + 1);
        if (i % 250 == 249)
            fast_work_report(work, (double)(i + 1) * 1e6, i - 249, 250);
    }
    work->operations = SIZE * 1e6;
    return j->fails ? fast__fail(j->fails, "as was asked for") : FAST_OK;
}

static void job_report(void *ctx, int64_t offset, int64_t count)
{
    job *j = ctx;
    assert_int_equal(count, 250);
    assert_true(j->report_count < 4);
    j->reports[j->report_count][0] = offset;
    j->reports[j->report_count++][1] = fast_now(j->actor);
}

static fast_err one(fast_actor *actor, void *ctx)
{
    job *j = ctx;
    j->actor = actor;
    j->work = (fast_work){ .run = job_run, .report = job_report, .ctx = j, .name = "sum" };
    const fast_err err = fast_compute(actor, &j->work);
    assert_int_equal(fast_now(actor), j->fails ? 0 : 1000000000);
    assert_null(j->work.sink);
    return err;
}

static fast_err run_one(job *j)
{
    const fast_role role = { "worker", 1, one, j };
    const char *options[] = { "transport=sim", "cluster=ideal:speed=1GFLOP/s", NULL };
    return fast_actors_run(options, &role, 1, NULL);
}

static void test_reports_come_at_their_times(void **state)
{
    (void)state;
    job j = { .seed = 0 };
    assert_int_equal(run_one(&j), FAST_OK);
    assert_int_equal(j.report_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(j.reports[i][0], 250 * i);
        assert_int_equal(j.reports[i][1], 250000000 * (i + 1));
    }
}

static void test_a_failing_work(void **state)
{
    (void)state;
    job j = { .fails = FAST_EFORMAT };
    assert_int_equal(run_one(&j), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "as was asked for"));
    assert_int_equal(j.report_count, 0);
}

/* Compute, tell the neighbour, hear from the other one. */
static fast_err mesh(fast_actor *actor, void *ctx)
{
    job *jobs = ctx;
    const int64_t id = fast_actor_id(actor);
    job *j = &jobs[id];

    j->actor = actor;
    for (int64_t step = 0; step < STEPS; step++) {
        fast_msg *msg = NULL;
        j->work = (fast_work){ .run = job_run, .report = job_report, .ctx = j };
        j->seed = id + step;
        j->report_count = 0;
        FAST_TRY(fast_compute(actor, &j->work));
        FAST_TRY(fast_msg_new(actor, TAG, &msg));
        memcpy(msg->words, &j->sum, sizeof j->sum);
        FAST_TRY(fast_send(actor, (id + 1) % ACTORS, &msg));
        FAST_TRY(fast_receive(actor, (id + ACTORS - 1) % ACTORS, TAG, FAST_SOON, &msg));
        double other;
        memcpy(&other, msg->words, sizeof other);
        j->sum = (j->sum + other) / 2;
        fast_msg_free(msg);
    }
    return FAST_OK;
}

static uint64_t run_mesh(int pool, job jobs[ACTORS])
{
    char option[32];
    snprintf(option, sizeof option, "pool=%d", pool);
    const fast_role role = { "worker", ACTORS, mesh, jobs };
    const char *options[] = { "transport=sim", "cluster=hetero:speed_jitter=0.5", option,
                              "timeout=1000", NULL };
    fast_actors_result result;
    memset(jobs, 0, ACTORS * sizeof *jobs);
    if (fast_actors_run(options, &role, 1, &result))
        fail_msg("%s", fast_error_detail());
    return result.trace_hash;
}

static void test_a_pool_changes_nothing(void **state)
{
    (void)state;
    static job alone[ACTORS], pooled[ACTORS];
    const uint64_t hash = run_mesh(0, alone);
    for (int pool = 1; pool <= 4; pool++) {
        assert_int_equal(run_mesh(pool, pooled), hash);
        for (int i = 0; i < ACTORS; i++) {
            assert_memory_equal(&pooled[i].sum, &alone[i].sum, sizeof alone[i].sum);
            assert_memory_equal(pooled[i].reports, alone[i].reports, sizeof alone[i].reports);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports_come_at_their_times),
        cmocka_unit_test(test_a_failing_work),
        cmocka_unit_test(test_a_pool_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
