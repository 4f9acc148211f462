/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the sum of sparse vectors is the dense canonical sum to the bit, -0 included; it sends less
 *   where vectors are sparse and never more than dense ones; wrong input is refused.
 * Method: groups of 1 to 9 and densities from none to all, by recursive doubling, by split and by
 *   butterflies of any degrees, beside a dense allreduce by butterfly of the same vectors; values
 *   of very different sizes, some of them -0; counters of bytes and messages.
 */
#include "base/err.h"
#include "base/memory.h"
#include "base/rng.h"
#include "comm/coded.h"
#include "comm/collective.h"
#include "fast/comm.h"
#include "transport/sim/sim.h"
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
        err = fast__allreduce_sparse(group, &v->x, &(fast_sparse_call){ .plan = plan }, v->sum,
                                     FAST_SOON);
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
        { 0 },
        { .count = 1, .degrees = { FAST_SPARSE_DEGREE_MAX } },
        { .count = 1, .degrees = { 2 } },
        { .count = 2, .degrees = { 4, 2 } },
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

/* Sums of values that are exact in any order: small whole numbers. */
static void fill_whole(vectors *v, int64_t rank, uint64_t round, double density)
{
    fill(v, rank, round, density, SIZE);
    for (int64_t i = 0; i < v->x.count; i++) {
        v->value[i] = (float)((int64_t)(v->index[i] * 7 + (uint32_t)rank) % 15 - 7);
        v->dense[v->index[i]] = v->value[i];
    }
}

/* Degrees that are no powers of two: 3 x 2, 5, 6 x 3, of as many members and of more. */
static fast_err degrees_main(fast_actor *actor, void *ctx)
{
    const fast_sparse_call how = { .plan = ctx };
    fast_group *group = NULL;
    vectors *v = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = fast__alloc("vectors", 1, sizeof *v, &v);
    for (int round = 0; round < DENSITIES && !err; round++) {
        fill_whole(v, fast_group_rank(group), (uint64_t)round, densities[round]);
        err = fast__allreduce_sparse(group, &v->x, &how, v->sum, FAST_SOON);
        if (!err)
            err = fast_allreduce(group, v->dense, SIZE, FAST_SOON);
        for (int64_t i = 0; i < SIZE && !err; i++)
            if (v->sum[i] != v->dense[i])
                err = fast__fail(FAST_EINVAL, "element %lld is %g, not %g", (long long)i,
                                 (double)v->sum[i], (double)v->dense[i]);
    }
    fast__free(v);
    fast_group_free(group);
    return err;
}

static void test_degrees(void **state)
{
    static const fast_sparse_plan plans[] = { { .count = 2, .degrees = { 3, 2 } },
                                              { .count = 1, .degrees = { 5 } },
                                              { .count = 2, .degrees = { 6, 3 } } };
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        for (int64_t n = 1; n <= 19; n += n < 8 ? 1 : 3) {
            assert_int_equal(run_by("sim", n, degrees_main, &plans[i]), FAST_OK);
            if (n == 6)
                assert_int_equal(run_by("threads", n, degrees_main, &plans[i]), FAST_OK);
        }
}

/* Kylix: in a layer of degree d a member sends a message to the d - 1 others of its group when
 * entries are merged, and another when sums are gathered, however much is in them. */
static fast_err layers_main(fast_actor *actor, void *ctx)
{
    const fast_sparse_plan *plan = ctx;
    const fast_sparse_call how = { .plan = plan };
    int64_t expected = 0;
    fast_group *group = NULL;
    vectors *v = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    for (int64_t i = 0; i < plan->count; i++)
        expected += 2 * (plan->degrees[i] - 1);
    fast_err err = fast__alloc("vectors", 1, sizeof *v, &v);
    for (int round = 0; round < DENSITIES && !err; round++) {
        fill(v, fast_group_rank(group), (uint64_t)round, densities[round], SIZE);
        const int64_t before = actor->counters.messages_sent;
        err = fast__allreduce_sparse(group, &v->x, &how, v->sum, FAST_SOON);
        const int64_t sent = actor->counters.messages_sent - before;
        if (!err && sent != expected)
            err = fast__fail(FAST_EINVAL, "density %g: %lld messages, not %lld", densities[round],
                             (long long)sent, (long long)expected);
    }
    fast__free(v);
    fast_group_free(group);
    return err;
}

static void test_layers(void **state)
{
    static const struct {
        fast_sparse_plan plan;
        int64_t members; /* the product of the degrees */
    } cases[] = { { { .count = 2, .degrees = { 4, 2 } }, 8 },
                  { { .count = 2, .degrees = { 2, 4 } }, 8 },
                  { { .count = 3, .degrees = { 2, 2, 2 } }, 8 },
                  { { .count = 1, .degrees = { 5 } }, 5 },
                  { { .count = 2, .degrees = { 6, 3 } }, 18 } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(run_by("sim", cases[i].members, layers_main, &cases[i].plan), FAST_OK);
}

/* Indices are sent once: the second sum of the same entries sends 4 bytes an entry less in every
 * stream, the third, of other entries, all again. Sums are those without memory. */
static fast_err memory_main(fast_actor *actor, void *ctx)
{
    static const uint64_t rounds[] = { 1, 1, 2, 2, 2 };
    int64_t bytes[5] = { 0 }, plain[5] = { 0 };
    fast_sparse_call how = { .plan = ctx };
    fast_group *group = NULL;
    vectors *v = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = fast__alloc("vectors", 1, sizeof *v, &v);
    for (int i = 0; i < 10 && !err; i++) {
        if (i == 5)
            err = fast__sparse_memory_new(&how.memory);
        fill_whole(v, fast_group_rank(group), rounds[i % 5], 0.02);
        for (int64_t k = 0; k < v->x.count; k++)
            v->value[k] += (float)(i % 5); /* values differ from sum to sum */
        const int64_t before = actor->counters.bytes_sent;
        if (!err)
            err = fast__allreduce_sparse(group, &v->x, &how, v->sum, FAST_SOON);
        (i < 5 ? plain : bytes)[i % 5] = actor->counters.bytes_sent - before;
        for (int64_t k = 0; k < v->x.count; k++)
            v->dense[v->index[k]] = v->value[k];
        if (!err)
            err = fast_allreduce(group, v->dense, SIZE, FAST_SOON);
        if (!err && memcmp(v->sum, v->dense, SIZE * sizeof(float)) != 0)
            err = fast__fail(FAST_EINVAL, "sum %d is another", i);
    }
    /* `none` are the headers: 2 layers, 1 + 3 messages down and as many up. */
    const int64_t none = 8 * 64;
    const int64_t first = plain[0] - none, second = plain[2] - none;
    if (!err && (bytes[0] != plain[0] || bytes[1] - none != first / 2 || bytes[2] != plain[2] ||
                 bytes[3] - none != second / 2 || bytes[4] != bytes[3] || first <= 0))
        err = fast__fail(FAST_EINVAL, "bytes %lld, %lld, %lld, %lld of %lld, %lld",
                         (long long)bytes[0], (long long)bytes[1], (long long)bytes[2],
                         (long long)bytes[3], (long long)plain[0], (long long)plain[2]);
    fast__sparse_memory_free(how.memory);
    fast__free(v);
    fast_group_free(group);
    return err;
}

static void test_memory(void **state)
{
    static const fast_sparse_plan plan = { .count = 2, .degrees = { 4, 2 } };
    (void)state;
    assert_int_equal(run_by("sim", 8, memory_main, &plan), FAST_OK);
}

/* Values of few bits: equal bits at all members, fewer bytes, and a mean over many sums that is the
 * sum of the vectors. */
enum { TIMES = 100 };
static fast_err bits_few_main(fast_actor *actor, void *ctx)
{
    const fast_sparse_plan *plan = ctx;
    fast_group *group = NULL;
    vectors *v = NULL, *mean = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = fast__alloc("vectors", 1, sizeof *v, &v);
    if (!err)
        err = fast__alloc("vectors", 1, sizeof *mean, &mean);
    int64_t bytes[2] = { 0 };
    float most = 0, worst = 0;
    for (int i = 0; i < TIMES && !err; i++) {
        fill_whole(v, fast_group_rank(group), 3, 0.05);
        const int64_t before = actor->counters.bytes_sent;
        const fast_sparse_call how = { .plan = plan, .key = 77 + (uint64_t)i };
        err = fast__allreduce_sparse(group, &v->x, &how, v->sum, FAST_SOON);
        bytes[0] = actor->counters.bytes_sent - before;
        for (int64_t k = 0; k < SIZE; k++)
            mean->sum[k] += v->sum[k] / TIMES;
        memcpy(mean->dense, v->sum, SIZE * sizeof(float));
        if (!err && i < 3)
            err = fast_broadcast(group, 0, mean->dense, SIZE * sizeof(float), FAST_SOON);
        if (!err && i < 3 && memcmp(mean->dense, v->sum, SIZE * sizeof(float)) != 0)
            err = fast__fail(FAST_EINVAL, "not the bits of rank 0");
    }
    const fast_sparse_plan floats = { .count = plan->count, .degrees = { plan->degrees[0] } };
    const int64_t before = actor->counters.bytes_sent;
    const fast_sparse_call how = { .plan = &floats };
    if (!err)
        err = fast__allreduce_sparse(group, &v->x, &how, v->sum, FAST_SOON);
    bytes[1] = actor->counters.bytes_sent - before;
    for (int64_t k = 0; k < SIZE && !err; k++) {
        most = most > v->sum[k] ? most : v->sum[k];
        const float error =
            v->sum[k] > mean->sum[k] ? v->sum[k] - mean->sum[k] : mean->sum[k] - v->sum[k];
        worst = worst > error ? worst : error;
    }
    /* Members that are folded in get the sum as floats. */
    const int64_t n = fast_group_size(group);
    if (!err && (worst > (plan->bits == 2 ? 0.6f : 0.2f) * most ||
                 (bytes[0] >= bytes[1] && (n == 2 || n == 4) && plan->degrees[0] != 3)))
        err = fast__fail(FAST_EINVAL, "mean off by %g of %g, %lld bytes of %lld", (double)worst,
                         (double)most, (long long)bytes[0], (long long)bytes[1]);
    fast__free(v);
    fast__free(mean);
    fast_group_free(group);
    return err;
}

static void test_few_bits(void **state)
{
    static const fast_sparse_plan plans[] = {
        { .bits = 8 },
        { .bits = 4 },
        { .count = 1, .degrees = { FAST_SPARSE_DEGREE_MAX }, .bits = 4 },
        { .count = 1, .degrees = { 2 }, .bits = 8 },
        { .count = 1, .degrees = { 3 }, .bits = 2 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        for (int64_t n = 2; n <= 6; n += 1 + (n == 4))
            assert_int_equal(run_by("sim", n, bits_few_main, &plans[i]), FAST_OK);
}

/* Three nonblocking sums under way at once, which computing overlaps: the bits of blocking ones,
 * and less time. */
static fast_err start_main(fast_actor *actor, void *ctx)
{
    enum { CALLS = 3 };
    vectors *v[CALLS] = { NULL };
    fast_request *requests[CALLS] = { NULL };
    int64_t took[2] = { 0 };
    fast_group *group = NULL;
    (void)ctx;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = fast_group_algorithm(group, "butterfly");
    for (int i = 0; i < CALLS && !err; i++)
        err = fast__alloc("vectors", 1, sizeof *v[i], &v[i]);
    for (int later = 0; later < 2 && !err; later++) {
        err = fast_barrier(group, FAST_SOON);
        const int64_t begin = fast_now(actor);
        for (int i = 0; i < CALLS && !err; i++) {
            fill(v[i], fast_group_rank(group), (uint64_t)i, 0.1, SIZE);
            err = later ? fast_allreduce_sparse_start(group, &v[i]->x, v[i]->sum, &requests[i])
                        : fast_allreduce_sparse(group, &v[i]->x, v[i]->sum, FAST_SOON);
            v[i]->x = (fast_sparse){ .size = SIZE }; /* x was lent for the call only */
            if (!err)
                err = fast_charge(actor, 2e6, 0);
        }
        for (int i = CALLS - 1; i >= 0; i--)
            if (requests[i]) {
                const fast_err failed = fast_request_wait(&requests[i], FAST_SOON);
                err = err ? err : failed;
            }
        took[later] = fast_now(actor) - begin;
        for (int i = 0; i < CALLS && !err; i++)
            err = fast_allreduce(group, v[i]->dense, SIZE, FAST_SOON);
        for (int i = 0; i < CALLS && !err; i++)
            err = compare(v[i], 0.1);
    }
    if (!err && actor->world->inner == &fast__transport_sim && took[1] >= took[0])
        err = fast__fail(FAST_EINVAL, "%lld ns, blocking %lld", (long long)took[1],
                         (long long)took[0]);
    for (int i = 0; i < CALLS; i++)
        fast__free(v[i]);
    fast_group_free(group);
    return err;
}

static void test_start(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 5; n++) {
        assert_int_equal(run(n > 1 ? "sim" : "threads", n, start_main), FAST_OK);
        assert_int_equal(run("threads", n, start_main), FAST_OK);
    }
}

/* A member that sends streams by hand: of indices past the range or not in order, with a list that
 * no member sent, and of other sizes. */
static fast_err forge_main(fast_actor *actor, void *ctx)
{
    static const uint32_t past[] = { 3, 60 }, back[] = { 5, 4 };
    const int how = *(const int *)ctx;
    float y[60] = { 0 };
    uint32_t index[2] = { 1, 2 };
    float value[2] = { 1, 2 };
    const fast_sparse x = { 60, 2, 2, index, value };
    fast_group *group = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = FAST_OK;
    if (actor->id == 1) {
        fast_collective c = { .group = group, .doing = "forgery", .element = 1 };
        fast_buffer *buffer = NULL;
        fast_msg *msg = NULL;
        FAST_TRY(fast__collective_begin(&c));
        FAST_TRY(fast__collective_message(&c, &msg));
        FAST_TRY(fast_buffer_new(actor, 16, &buffer));
        memcpy(fast_buffer_data(buffer), how == 0 ? past : back, sizeof past);
        memcpy((char *)fast_buffer_data(buffer) + sizeof past, value, sizeof value);
        const int64_t words[] = { how == 3 ? 12 : 16, how == 4 ? -1 : 2, 60, how == 2 ? 2 : 0, 9 };
        memcpy(msg->words, words, sizeof words);
        fast_msg_add(msg, &buffer);
        err = fast_send(actor, 0, &msg);
    } else if (fast_allreduce_sparse(group, &x, y, FAST_SOON) != FAST_EINVAL) {
        err = fast__fail(FAST_EFORMAT, "forgery %d was taken", how);
    }
    fast_group_free(group);
    return err;
}

static void test_forged(void **state)
{
    (void)state;
    for (int how = 0; how < 5; how++) {
        const fast_role roles[] = { { "worker", 2, forge_main, &how } };
        const char *options[] = { "transport=sim", "timeout=5", NULL };
        const fast_err err = fast_actors_run(options, roles, 1, NULL);
        if (err)
            fail_msg("forgery %d: %s", how, fast_error_detail());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),    cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_missing), cmocka_unit_test(test_degrees),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_few_bits),
        cmocka_unit_test(test_start),   cmocka_unit_test(test_forged),
        cmocka_unit_test(test_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
