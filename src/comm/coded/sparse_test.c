/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the sum of sparse vectors is the dense canonical sum to the bit, -0 included; it sends less
 *   where vectors are sparse and never more than dense ones; wrong input is refused.
 * Method: groups of 1 to 9 and densities from none to all, by recursive doubling, by split and by
 *   butterflies of any degrees, beside a dense allreduce by butterfly of the same vectors; values
 *   of very different sizes, some of them -0; counters of bytes.
 */
#include "base/err.h"
#include "base/memory.h"
#include "base/rng.h"
#include "comm/coded.h"
#include "fast/comm.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 600 };

static const double densities[] = { 0, 0.002, 0.02, 0.1, 0.3, 0.49, 0.5, 0.51, 0.9, 1 };
enum { DENSITIES = sizeof densities / sizeof densities[0] };

/* Each member's vector of a round, sparse and dense. */
typedef struct vectors {
    uint32_t index[SIZE];
    float value[SIZE];
    float dense[SIZE];
    float sum[SIZE + 1];
    fast_sparse x;
} vectors;

static void fill(vectors *v, int64_t rank, uint64_t round, double density, int64_t size)
{
    static const float scales[4] = { 1e-6f, 1, 1e3f, 1e7f };
    fast_rng rng;
    fast__rng_init(&rng, 9, FAST_PURPOSE_TEST, (uint64_t)rank, 0, round);
    v->x = (fast_sparse){ .size = size, .space = SIZE, .index = v->index, .value = v->value };
    for (int64_t i = 0; i < size; i++) {
        const float draw = fast__rng_normal(&rng);
        const bool there = (double)(fast__rng_below(&rng, 1000)) < 1000 * density;
        const uint64_t kind = fast__rng_below(&rng, 8);
        v->dense[i] = 0;
        if (!there)
            continue;
        /* Zeros of both signs are entries like others, where several members have them too. */
        v->dense[i] = kind == 0 || i % 16 == 3 ? -0.0f : draw * scales[kind % 4];
        v->index[v->x.count] = (uint32_t)i;
        v->value[v->x.count++] = v->dense[i];
    }
    v->sum[size] = 77;
}

static fast_err compare(const vectors *v, double density)
{
    for (int64_t i = 0; i < v->x.size; i++)
        if (memcmp(&v->sum[i], &v->dense[i], sizeof v->sum[i]) != 0)
            return fast__fail(FAST_EINVAL, "density %g: element %lld is %a, not %a", density,
                              (long long)i, (double)v->sum[i], (double)v->dense[i]);
    return v->sum[v->x.size] == 77 ? FAST_OK : fast__fail(FAST_EINVAL, "the guard is gone");
}

static fast_err bits_main(fast_actor *actor, void *ctx)
{
    const fast_sparse_plan *plan = ctx;
    static const int64_t sizes[] = { SIZE, 33, 2, 1, 0 };
    fast_group *group = NULL;
    vectors *v = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = fast_group_algorithm(group, "butterfly");
    if (!err)
        err = fast__alloc("vectors", 1, sizeof *v, &v);
    for (int round = 0; round < DENSITIES * 5 && !err; round++) {
        const double density = densities[round % DENSITIES];
        fill(v, fast_group_rank(group), (uint64_t)round, density, sizes[round / DENSITIES]);
        err = fast__allreduce_sparse(group, &v->x, plan, v->sum, FAST_SOON);
        if (!err)
            err = fast_allreduce(group, v->dense, v->x.size, FAST_SOON);
        if (!err)
            err = compare(v, density);
    }
    fast__free(v);
    fast_group_free(group);
    return err;
}

static fast_err run_by(const char *transport, int64_t actors, fast_actor_fn *program,
                       const fast_sparse_plan *plan)
{
    char option[64];
    snprintf(option, sizeof option, "transport=%s", transport);
    const char *options[] = { option, "timeout=60", NULL };
    const fast_role roles[] = { { "worker", actors, program, (void *)(uintptr_t)plan } };
    const fast_err err = fast_actors_run(options, roles, 1, NULL);
    if (err)
        print_error("%lld actors on %s: %s\n", (long long)actors, transport, fast_error_detail());
    return err;
}

static fast_err run(const char *transport, int64_t actors, fast_actor_fn *program)
{
    return run_by(transport, actors, program, NULL);
}

static void test_bits(void **state)
{
    static const fast_sparse_plan plans[] = {
        { 0 }, { 1, { FAST_SPARSE_DEGREE_MAX } }, { 1, { 2 } }, { 2, { 4, 2 } }
    };
    (void)state;
    for (int64_t n = 1; n <= 9; n++)
        for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
            assert_int_equal(run_by("sim", n, bits_main, &plans[i]), FAST_OK);
            if (n < 6)
                assert_int_equal(run_by("threads", n, bits_main, &plans[i]), FAST_OK);
        }
    assert_int_equal(run_by("sim", 32, bits_main, &plans[3]), FAST_OK);
}

/* Bytes that a member sends for one call, headers included. */
static fast_err count_bytes(fast_actor *actor, fast_group *group, vectors *v, double density,
                            int64_t *out)
{
    fill(v, fast_group_rank(group), 1, density, SIZE);
    const int64_t before = actor->counters.bytes_sent;
    FAST_TRY(fast_allreduce_sparse(group, &v->x, v->sum, FAST_SOON));
    *out = actor->counters.bytes_sent - before;
    return FAST_OK;
}

static fast_err bytes_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_group *group = NULL;
    vectors *v = NULL;
    int64_t none = 0, few = 0, some = 0, all = 0;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = fast__alloc("vectors", 1, sizeof *v, &v);
    if (!err)
        err = count_bytes(actor, group, v, 0, &none);
    if (!err)
        err = count_bytes(actor, group, v, 0.02, &few);
    if (!err)
        err = count_bytes(actor, group, v, 0.1, &some);
    if (!err)
        err = count_bytes(actor, group, v, 1, &all);
    /* Two steps of 4 SIZE bytes each where all is dense; `none` is what the headers take. */
    if (!err && (all - none != 2 * 4 * SIZE || few - none > (all - none) / 10 ||
                 some - none > (all - none) / 2 || few <= none))
        err = fast__fail(FAST_EINVAL, "bytes: %lld, %lld, %lld, %lld", (long long)none,
                         (long long)few, (long long)some, (long long)all);
    fast__free(v);
    fast_group_free(group);
    return err;
}

static void test_bytes(void **state)
{
    (void)state;
    assert_int_equal(run("sim", 4, bytes_main), FAST_OK);
}

/* Vectors that must be refused before anything is sent. */
static fast_err hostile_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    uint32_t index[4] = { 1, 5, 5, 9 };
    float value[4] = { 1, 2, 3, 4 };
    float y[10];
    uint32_t unsorted[3] = { 5, 1, 7 };
    const fast_sparse wrong[] = {
        { 10, 4, 4, index, value },               /* an index twice */
        { 10, 3, 3, unsorted, value },            /* not in order */
        { 9, 1, 1, index + 3, value },            /* an index of the size */
        { 10, 11, 11, index, value },             /* more entries than elements */
        { 10, 2, 1, index, value },               /* more entries than fit */
        { 10, -1, 4, index, value },              /* negative */
        { -1, 0, 4, index, value },               /* negative */
        { (int64_t)1 << 33, 0, 4, index, value }, /* beyond what an index can say */
        { 10, 1, 4, NULL, value },                /* no indices */
        { 10, 1, 4, index, NULL },                /* no values */
    };
    fast_group *group = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = FAST_OK;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0] && !err; i++)
        if (fast_allreduce_sparse(group, &wrong[i], y, FAST_SOON) != FAST_EINVAL)
            err = fast__fail(FAST_EINVAL, "input %zu was taken", i);
    /* The group is as good as before. */
    const fast_sparse right = { 10, 2, 4, index, value };
    if (!err)
        err = fast_allreduce_sparse(group, &right, y, FAST_SOON);
    if (!err && y[5] != 4)
        err = fast__fail(FAST_EINVAL, "the sum is %g", (double)y[5]);
    fast_group_free(group);
    return err;
}

static void test_hostile(void **state)
{
    (void)state;
    assert_int_equal(run("sim", 2, hostile_main), FAST_OK);
}

/* Members that do not agree on the size find out. */
static fast_err sizes_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    uint32_t index[2] = { 1, 3 };
    float value[2] = { 1, 2 };
    float y[20];
    const fast_sparse x = { actor->id == 1 ? 20 : 10, 2, 2, index, value };
    fast_group *group = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = fast_allreduce_sparse(group, &x, y, FAST_SOON);
    err = err == FAST_EINVAL || err == FAST_EPEER ? FAST_OK : FAST_EIO;
    fast_group_free(group);
    return err;
}

static void test_sizes(void **state)
{
    (void)state;
    assert_int_equal(run("sim", 2, sizes_main), FAST_OK);
    assert_int_equal(run("threads", 2, sizes_main), FAST_OK);
}

/* A member that does not come is named. */
static fast_err missing_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    float y[10];
    const fast_sparse x = { .size = 10 };
    fast_group *group = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = FAST_OK;
    if (actor->id == 1)
        err = fast_sleep_until(actor, 3000000000);
    else if (fast_allreduce_sparse(group, &x, y, 1000000000) != FAST_ETIMEDOUT ||
             !strstr(fast_error_detail(), "worker 1"))
        err = fast__fail(FAST_EINVAL, "%s", fast_error_detail());
    fast_group_free(group);
    return err;
}

static void test_missing(void **state)
{
    (void)state;
    assert_int_equal(run("sim", 2, missing_main), FAST_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),    cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
