/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: any mixture of collectives, blocking and not, on groups that overlap, gives the right sums,
 *   whatever the links do to the messages.
 * Method: random programs, the same at all actors because they are drawn from the run's number.
 *   Each begins and waits for requests in any order, changes algorithms, and does other collectives
 *   in between, on the simulator with jitter, loss and reordering, and on threads. Values are small
 *   whole numbers, so that every order of a sum has the same bits. With faults, collectives fail or
 *   are right.
 */
#include "collectives.h"

#include "base/err.h"
#include "base/rng.h"
#include "fast/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { REQUESTS = 6, COUNT_MAX = 40, OPS = 60, GROUPS = 2 };

/* An allreduce that was begun. */
typedef struct begun {
    fast_request *request; /* NULL: this place is free */
    fast_group *group;     /* whose */
    int64_t count;         /* of floats */
    int scale;             /* of the values */
    float x[COUNT_MAX];    /* lent to it */
} begun;

static void fill(const fast_group *group, float *x, int64_t count, int scale)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)((fast_group_rank(group) + 1) * (i % 7 + 1) * scale);
}

static fast_err expect(const fast_group *group, const char *what, const float *x, int64_t begin,
                       int64_t end, int scale)
{
    const int64_t n = fast_group_size(group);
    for (int64_t i = begin; i < end; i++)
        if (x[i] != (float)(n * (n + 1) / 2 * (i % 7 + 1) * scale))
            return fast__fail(FAST_EINVAL, "%s: element %lld is %g", what, (long long)i,
                              (double)x[i]);
    return FAST_OK;
}

static fast_err wait_for(begun *one)
{
    FAST_TRY(fast_request_wait(&one->request, FAST_SOON));
    return expect(one->group, "allreduce_start", one->x, 0, one->count, one->scale);
}

/* One blocking collective. */
static fast_err block(fast_group *group, int kind, int64_t root, int64_t count, int scale)
{
    const int64_t n = fast_group_size(group);
    float x[COUNT_MAX];
    int64_t offset, own;
    fill(group, x, count, scale);
    switch (kind) {
    case 0:
        FAST_TRY(fast_allreduce(group, x, count, FAST_SOON));
        return expect(group, "allreduce", x, 0, count, scale);
    case 1:
        FAST_TRY(fast_reduce(group, root % n, x, count, FAST_SOON));
        FAST_TRY(fast_broadcast(group, root % n, x, (size_t)count * sizeof *x, FAST_SOON));
        return expect(group, "reduce and broadcast", x, 0, count, scale);
    case 2:
        fast_group_range(group, count, fast_group_rank(group), &offset, &own);
        FAST_TRY(fast_reduce_scatter(group, x, count, FAST_SOON));
        FAST_TRY(expect(group, "reduce_scatter", x, offset, offset + own, scale));
        FAST_TRY(fast_allgather(group, x, count, FAST_SOON));
        return expect(group, "allgather", x, 0, count, scale);
    default:
        return fast_barrier(group, FAST_SOON);
    }
}

static fast_err random_program(fast_actor *actor, void *ctx)
{
    static const char *const algorithms[] = {
        "tree", "butterfly", "ring", "rabenseifner", "hierarchical:members=2", "chain", "dimensions"
    };
    const int64_t n = fast_actor_count(actor), self = fast_actor_id(actor);
    int64_t mates[16], mate_count = 0;
    begun all[REQUESTS] = { { 0 } };
    fast_group *groups[GROUPS] = { NULL, NULL };
    fast_rng rng; /* of all actors: nothing of it may depend on who asks */
    fast__rng_init(&rng, *(const uint64_t *)ctx, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int64_t id = 0; id < n; id++)
        if (id % 2 == self % 2)
            mates[mate_count++] = id;
    FAST_TRY(fast_group_all(actor, NULL, &groups[0]));
    FAST_TRY(fast_group_new(actor, mates, mate_count, 1, &groups[1]));
    for (int op = 0; op < OPS; op++) {
        fast_group *group = groups[fast__rng_below(&rng, GROUPS)];
        begun *one = &all[fast__rng_below(&rng, REQUESTS)];
        const int kind = (int)fast__rng_below(&rng, 8);
        const int64_t root = (int64_t)fast__rng_below(&rng, 16);
        const int64_t count = (int64_t)fast__rng_below(&rng, COUNT_MAX + 1);
        FAST_TRY(fast_group_algorithm(group, algorithms[fast__rng_below(&rng, 7)]));
        if (kind < 4) {
            FAST_TRY(block(group, kind, root, count, op + 1));
        } else if (one->request) {
            FAST_TRY(wait_for(one));
        } else {
            one->group = group;
            one->count = count;
            one->scale = op + 1;
            fill(group, one->x, count, one->scale);
            FAST_TRY(fast_allreduce_start(group, one->x, count, &one->request));
        }
    }
    for (int i = REQUESTS - 1; i >= 0; i--)
        if (all[i].request)
            FAST_TRY(wait_for(&all[i]));
    fast_group_free(groups[0]);
    fast_group_free(groups[1]);
    return FAST_OK;
}

static void run(uint64_t seed, const char *transport, const char *cluster)
{
    const fast_role roles[] = { { "worker", (int64_t)(seed % 9) + 1, random_program, &seed } };
    char text[32];
    snprintf(text, sizeof text, "seed=%llu", (unsigned long long)seed);
    const char *options[] = { transport, text, "timeout=600", cluster, NULL };
    const fast_err err = fast_actors_run(options, roles, 1, NULL);
    if (err)
        print_error("program %llu, %s: %s\n", (unsigned long long)seed, transport,
                    fast_error_detail());
    assert_int_equal(err, FAST_OK);
}

static void test_random_programs(void **state)
{
    (void)state;
    const char *seeds = getenv("FAST_SEEDS");
    const uint64_t count = seeds ? strtoull(seeds, NULL, 10) : 200;
    for (uint64_t seed = 1; seed <= count; seed++) {
        run(seed, "transport=sim",
            seed % 4 ? "cluster=edge:loss=0.1,reorder=0.2,jitter=4" : "cluster=hetero:nodes=3");
        if (seed % 10 == 0)
            run(seed, "transport=threads", NULL);
    }
}

/* Crashes, restarts, pauses, cuts, jumps of clocks: a collective ends with the right numbers, or
 * with an error that says who is gone; wrong numbers are collectives_main()'s FAST_EINVAL. */
static void test_faults(void **state)
{
    (void)state;
    static const char *const algorithms[] = { "tree", "butterfly", "ring", "rabenseifner", "auto" };
    static const int64_t counts[] = { 1, 100, 3000 };
    const char *seeds = getenv("FAST_SEEDS");
    const int count = seeds ? atoi(seeds) : 60;
    int failed = 0;
    for (int seed = 1; seed <= count; seed++) {
        collectives what = { .algorithm = algorithms[seed % 5],
                             .counts = counts,
                             .count_count = 3 };
        const fast_role roles[] = { { "worker", 2 + seed % 9, collectives_main, &what } };
        char text[32];
        snprintf(text, sizeof text, "seed=%d", seed);
        const char *options[] = { "transport=sim",
                                  text,
                                  "timeout=5",
                                  "cluster=edge",
                                  "faults=random:span=2s,kinds=crash+restart+pause+slow+cut+"
                                  "partition+lossy+jump+join",
                                  NULL };
        const fast_err err = fast_actors_run(options, roles, 1, NULL);
        failed += err != FAST_OK;
        if (err != FAST_OK && err != FAST_ETIMEDOUT && err != FAST_EPEER && err != FAST_ECANCELED)
            fail_msg("seed %d: %s", seed, fast_error_detail());
    }
    assert_in_range(failed, 1, count - 1); /* some do and some do not: the faults mattered */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_programs),
                                        cmocka_unit_test(test_faults) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
