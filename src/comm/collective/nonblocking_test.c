/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: nonblocking allreduces advance while their actor computes and waits for other messages;
 * several may be under way, on several groups, and be waited for in any order; one that fails says
 * whom it waited for and fails the other requests of its group.
 * Method: small programs on threads and on sim; virtual time shows that computing and reducing
 * overlap.
 */
#include "base/err.h"
#include "base/memory.h"
#include "fast/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A condition of an actor's program, which cmocka's own checks must not jump out of. */
#define EXPECT(cond) expect((cond), __LINE__, #cond)

static fast_err expect(bool holds, int line, const char *what)
{
    if (holds)
        return FAST_OK;
    char last[256];
    snprintf(last, sizeof last, "%s", fast_error_detail());
    return fast__fail(FAST_EINVAL, "line %d: %s; last error: %s", line, what, last);
}

static fast_actors_result run(const char *transport, const char *cluster, int64_t actors,
                              fast_actor_fn *program)
{
    const fast_role roles[] = { { "worker", actors, program, NULL } };
    const char *options[] = { transport, "timeout=20", cluster, NULL };
    fast_actors_result result;
    const fast_err err = fast_actors_run(options, roles, 1, &result);
    if (err)
        print_error("%s: %s\n", transport, fast_error_detail());
    assert_int_equal(err, FAST_OK);
    return result;
}

/* A gradient of four segments, the last ready first, as a backward pass has them. */
enum { SEGMENTS = 4, SEGMENT = 250000 };

typedef struct gradient {
    fast_work work;                   /* first: it is the gradient */
    fast_group *group;                /* that reduces it */
    float *g;                         /* SEGMENTS * SEGMENT floats */
    fast_request *requests[SEGMENTS]; /* begun so far */
    int begun;                        /* how many */
    fast_err err;                     /* of beginning */
} gradient;

static fast_err gradient_run(fast_work *work)
{
    gradient *what = (gradient *)work;
    for (int64_t s = SEGMENTS - 1; s >= 0; s--) {
        for (int64_t i = 0; i < SEGMENT; i++)
            what->g[s * SEGMENT + i] = (float)(s + 1);
        fast_work_report(work, work->operations * (double)(SEGMENTS - s) / SEGMENTS, s * SEGMENT,
                         SEGMENT);
    }
    return FAST_OK;
}

static void gradient_report(void *ctx, int64_t offset, int64_t count)
{
    gradient *what = ctx;
    if (!what->err)
        what->err = fast_allreduce_start(what->group, what->g + offset, count,
                                         &what->requests[what->begun]);
    if (!what->err)
        what->begun++;
}

/* 100 ms of computing on a node of 20 GFLOP/s; a segment's reduction takes a few ms. */
static fast_err overlap(fast_actor *actor, void *ctx)
{
    gradient what = { .work = { .run = gradient_run,
                                .report = gradient_report,
                                .name = "gradient",
                                .operations = 2e9 } };
    const float n = (float)fast_actor_count(actor);
    (void)ctx;
    what.work.ctx = &what;
    FAST_TRY(fast_group_all(actor, NULL, &what.group));
    FAST_TRY(fast_group_algorithm(what.group, "rabenseifner"));
    FAST_TRY(fast__alloc("a test's gradient", SEGMENTS * SEGMENT, sizeof *what.g, &what.g));
    fast_err err = fast_compute(actor, &what.work);
    if (!err)
        err = what.err;
    for (int k = 0; k < what.begun; k++) {
        const fast_err waited = fast_request_wait(&what.requests[k], FAST_SOON);
        err = err ? err : waited;
    }
    FAST_TRY(err);
    FAST_TRY(EXPECT(what.begun == SEGMENTS));
    for (int64_t i = 0; i < SEGMENTS * SEGMENT; i++)
        if (what.g[i] != n * (float)(i / SEGMENT + 1))
            return fast__fail(FAST_EINVAL, "element %lld is %g", (long long)i, (double)what.g[i]);
    fast_group_free(what.group);
    fast__free(what.g);
    return FAST_OK;
}

static void test_overlap(void **state)
{
    (void)state;
    run("transport=threads", NULL, 3, overlap);
    /* 1 MB a segment, at 1.25 GB/s: 2 * 3/4 of 0.8 ms and its sums; only the last is not hidden. */
    const fast_actors_result result = run("transport=sim", "cluster=ethernet-10g", 4, overlap);
    assert_in_range(result.time_ns, 101000000, 105000000);
}

/* Many at once on two groups, waited for from the last to the first. */
static fast_err crossing(fast_actor *actor, void *ctx)
{
    enum { COUNT = 8 };
    const int64_t self = fast_actor_id(actor), n = fast_actor_count(actor);
    int64_t backwards[16];
    fast_group *all = NULL, *turned = NULL;
    fast_request *requests[2][COUNT];
    float x[2][COUNT][3];
    (void)ctx;
    for (int64_t i = 0; i < n; i++)
        backwards[i] = n - 1 - i;
    FAST_TRY(fast_group_all(actor, NULL, &all));
    FAST_TRY(fast_group_new(actor, backwards, n, 1, &turned));
    FAST_TRY(fast_group_algorithm(all, "butterfly"));
    FAST_TRY(fast_group_algorithm(turned, "ring"));
    for (int k = 0; k < COUNT; k++)
        for (int g = 0; g < 2; g++) {
            x[g][k][0] = (float)k;
            x[g][k][1] = (float)(self * g);
            x[g][k][2] = 1;
            FAST_TRY(fast_allreduce_start(g ? turned : all, x[g][k], 3, &requests[g][k]));
        }
    /* A blocking one in between does not mind. */
    float y = 1;
    FAST_TRY(fast_allreduce(all, &y, 1, FAST_SOON));
    FAST_TRY(EXPECT(y == (float)n));
    for (int k = COUNT - 1; k >= 0; k--)
        for (int g = 0; g < 2; g++) {
            bool done = false;
            while (k % 2 && !done) {
                FAST_TRY(fast_request_test(requests[g][k], &done));
                if (!done)
                    FAST_TRY(fast_sleep_until(actor, fast_now(actor) + 200000));
            }
            FAST_TRY(fast_request_wait(&requests[g][k], FAST_SOON));
            FAST_TRY(EXPECT(requests[g][k] == NULL));
            FAST_TRY(EXPECT(x[g][k][0] == (float)(k * n) && x[g][k][2] == (float)n));
            FAST_TRY(EXPECT(x[g][k][1] == (float)(g * n * (n - 1) / 2)));
        }
    fast_group_free(all);
    fast_group_free(turned);
    return FAST_OK;
}

static void test_crossing(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 6; n++) {
        run("transport=threads", NULL, n, crossing);
        run("transport=sim", "cluster=ideal", n, crossing);
        run("transport=sim", "cluster=wan", n, crossing);
    }
}

/* Worker 1 begins only the first: the second waits in vain, and the third fails with it. */
static fast_err deserted(fast_actor *actor, void *ctx)
{
    fast_group *group = NULL;
    fast_request *requests[3] = { NULL, NULL, NULL };
    float x[3] = { 1, 1, 1 };
    (void)ctx;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    FAST_TRY(fast_group_algorithm(group, "ring"));
    FAST_TRY(fast_allreduce_start(group, &x[0], 1, &requests[0]));
    if (fast_actor_id(actor) == 1) {
        FAST_TRY(fast_request_wait(&requests[0], FAST_SOON));
        fast_group_free(group);
        return fast_sleep_until(actor, fast_now(actor) + 200000000);
    }
    FAST_TRY(fast_allreduce_start(group, &x[1], 1, &requests[1]));
    FAST_TRY(fast_allreduce_start(group, &x[2], 1, &requests[2]));
    /* Options that are in use stay as they are. */
    FAST_TRY(fast_group_algorithm(group, "ring"));
    FAST_TRY(EXPECT(fast_group_algorithm(group, "ring:chunk=2") == FAST_EINVAL));
    FAST_TRY(EXPECT(fast_request_wait(&requests[1], fast_now(actor) + 50000000) == FAST_ETIMEDOUT));
    FAST_TRY(EXPECT(strstr(fast_error_detail(), "worker 1") != NULL));
    FAST_TRY(EXPECT(strstr(fast_error_detail(), "allreduce") != NULL));
    /* The first was done in that wait. */
    FAST_TRY(fast_request_wait(&requests[0], FAST_AT_ONCE));
    FAST_TRY(EXPECT(x[0] == 2));
    FAST_TRY(EXPECT(fast_request_wait(&requests[2], FAST_SOON) == FAST_ETIMEDOUT));
    FAST_TRY(EXPECT(strstr(fast_error_detail(), "worker 1") != NULL));
    fast_group_free(group);
    return FAST_OK;
}

static void test_deserted(void **state)
{
    (void)state;
    run("transport=threads", NULL, 2, deserted);
    run("transport=sim", "cluster=ideal", 2, deserted);
}

/* A peer that ended cannot be waited for: at once FAST_EPEER, long before the deadline. */
static fast_err ended(fast_actor *actor, void *ctx)
{
    fast_group *group = NULL;
    fast_request *request = NULL;
    float x = 1;
    (void)ctx;
    if (fast_actor_id(actor) == 1)
        return FAST_OK;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    FAST_TRY(fast_group_algorithm(group, "tree"));
    FAST_TRY(fast_allreduce_start(group, &x, 1, &request));
    FAST_TRY(EXPECT(fast_request_wait(&request, FAST_SOON) == FAST_EPEER));
    FAST_TRY(EXPECT(strstr(fast_error_detail(), "worker 1") != NULL));
    FAST_TRY(EXPECT(fast_allreduce(group, &x, 1, FAST_SOON) == FAST_EPEER));
    fast_group_free(group);
    return FAST_OK;
}

static void test_ended(void **state)
{
    (void)state;
    run("transport=threads", NULL, 2, ended);
    run("transport=sim", "cluster=ideal", 2, ended);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_crossing),
        cmocka_unit_test(test_deserted),
        cmocka_unit_test(test_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
