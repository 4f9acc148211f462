/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: allreduce in shared memory gives the canonical sum to the bit whoever comes when, never
 *   touches a vector outside the call that lends it, ends by its deadline and names who is missing.
 * Method: groups of 1 to 17 threads, with delays drawn at random, small and large vectors mixed,
 *   unaligned, with guards; requests under way besides blocking calls, more of them than the board
 *   has slots; members that come late, never, with another count, or give up; memory that runs out.
 */
#include "collectives.h"

#include "base/err.h"
#include "base/memory.h"
#include "comm/allreduces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#ifdef FAST_SANITIZED
enum { ROUNDS = 40, SIZE_MAX_ODD = 9, RACE = 20000 };
#else
enum { ROUNDS = 300, SIZE_MAX_ODD = 17, RACE = 200000 };
#endif

enum { COUNT_MAX = 3000, REQUESTS = 9, GUARD = 77 };

static fast_err run_on(const char *transport, int64_t actors, fast_actor_fn *program, void *ctx,
                       const char *timeout)
{
    char first[64];
    snprintf(first, sizeof first, "transport=%s", transport);
    const bool sim = strcmp(transport, "sim") == 0;
    const char *options[] = { first, timeout, sim ? "cluster=laptop" : NULL, NULL };
    const fast_role roles[] = { { "worker", actors, program, ctx } };
    return fast_actors_run(options, roles, 1, NULL);
}

static void expect_ok(fast_err err)
{
    if (err)
        print_error("%s\n", fast_error_detail());
    assert_int_equal(err, FAST_OK);
}

static fast_err group_of(fast_actor *actor, fast_group **out)
{
    FAST_TRY(fast_group_all(actor, NULL, out));
    return fast_group_algorithm(*out, "direct");
}

/* A vector of this round, one float behind an aligned address, and a guard behind it. */
static void fill(float *x, uint64_t seed, int64_t rank, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = collectives_element(seed, rank, i);
    x[count] = GUARD;
}

static fast_err expect_values(const float *x, uint64_t seed, int64_t n, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const float want = collectives_sum(seed, n, i);
        if (memcmp(&x[i], &want, sizeof want) != 0)
            return fast__fail(FAST_EINVAL, "element %lld of %lld is %a, not %a", (long long)i,
                              (long long)count, (double)x[i], (double)want);
    }
    return FAST_OK;
}

static fast_err expect_sum(const float *x, uint64_t seed, int64_t n, int64_t count)
{
    FAST_TRY(expect_values(x, seed, n, count));
    return x[count] == GUARD ? FAST_OK : fast__fail(FAST_EINVAL, "the guard is gone");
}

/* Now and then a member is late by up to 50 microseconds. */
static fast_err dawdle(fast_actor *actor)
{
    const uint64_t random = fast_random(actor);
    if (random % 4 != 0)
        return FAST_OK;
    return fast_sleep_until(actor, fast_now(actor) + (int64_t)(random >> 8) % 50000);
}

/* The count of a round: the same at all members. Every third is small. */
static int64_t count_of(int64_t round)
{
    static const int64_t counts[] = { 129, 1, 3000, 64, 0, 1000, 7, 63, 2049, 65, 31, 513 };
    return counts[round % 12];
}

static fast_err delays_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    static const int offsets[] = { 1, 0, 3, 17 };
    fast_group *group = NULL;
    float *memory = NULL;
    FAST_TRY(group_of(actor, &group));
    const int64_t n = fast_group_size(group), rank = fast_group_rank(group);
    fast_err err = fast__alloc("vector", COUNT_MAX + 32, sizeof *memory, &memory);
    for (int64_t round = 0; round < ROUNDS && !err; round++) {
        float *x = memory + offsets[(round + rank) % 4];
        const int64_t count = count_of(round);
        fill(x, (uint64_t)round, rank, count);
        err = dawdle(actor);
        if (!err)
            err = fast_allreduce(group, x, count, FAST_SOON);
        if (!err)
            err = expect_sum(x, (uint64_t)round, n, count);
    }
    fast__free(memory);
    fast_group_free(group);
    return err;
}

static void test_delays(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= SIZE_MAX_ODD; n += n < 5 ? 1 : 4)
        expect_ok(run_on("threads", n, delays_main, NULL, "timeout=60"));
    expect_ok(run_on("sim", 5, delays_main, NULL, "timeout=60"));
}

/* Requests, more than slots, begun with pauses and waited for in another order, with a blocking
 * call in their midst. */
static fast_err requests_round(fast_actor *actor, fast_group *group, float *x, int64_t round)
{
    const int64_t n = fast_group_size(group), rank = fast_group_rank(group);
    fast_request *requests[REQUESTS] = { NULL };
    fast_err err = FAST_OK;
    for (int64_t k = 0; k < REQUESTS && !err; k++) {
        float *at = x + k * (COUNT_MAX + 1);
        fill(at, (uint64_t)(round * 100 + k), rank, count_of(round + k));
        err = dawdle(actor);
        if (!err && k == 5)
            err = fast_allreduce(group, at, count_of(round + k), FAST_SOON);
        else if (!err)
            err = fast_allreduce_start(group, at, count_of(round + k), &requests[k]);
    }
    for (int64_t i = 0; i < REQUESTS; i++) {
        const int64_t k = (i * 4 + rank) % REQUESTS;
        if (requests[k]) {
            const fast_err waited = fast_request_wait(&requests[k], FAST_SOON);
            err = err ? err : waited;
        }
    }
    for (int64_t k = 0; k < REQUESTS && !err; k++)
        err = expect_sum(x + k * (COUNT_MAX + 1), (uint64_t)(round * 100 + k), n,
                         count_of(round + k));
    return err;
}

static fast_err requests_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_group *group = NULL;
    float *x = NULL;
    FAST_TRY(group_of(actor, &group));
    fast_err err = fast__alloc("vectors", REQUESTS * (COUNT_MAX + 1), sizeof *x, &x);
    for (int64_t round = 0; round < ROUNDS / 10 && !err; round++)
        err = requests_round(actor, group, x, round);
    fast_group_free(group);
    fast__free(x);
    return err;
}

static void test_requests(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 6; n++)
        expect_ok(run_on("threads", n, requests_main, NULL, "timeout=60"));
    expect_ok(run_on("sim", 5, requests_main, NULL, "timeout=60"));
}

/* A group that is freed, and another with the same members and generation after it. */
static fast_err again_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    float x[501];
    for (int64_t round = 0; round < 7; round++) {
        fast_group *group = NULL;
        FAST_TRY(group_of(actor, &group));
        fast_err err = FAST_OK;
        for (int64_t i = 0; i <= round && !err; i++) {
            const int64_t count = i % 2 ? 500 : 100;
            fill(x, (uint64_t)i, fast_group_rank(group), count);
            err = fast_allreduce(group, x, count, FAST_SOON);
            if (!err)
                err = expect_sum(x, (uint64_t)i, fast_group_size(group), count);
        }
        fast_group_free(group);
        FAST_TRY(err);
    }
    return FAST_OK;
}

/* Two groups with the same members and generation, used in turn, with requests under way in one. */
static fast_err twins_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_group *groups[2] = { NULL, NULL };
    float x[501], y[501];
    fast_err err = group_of(actor, &groups[0]);
    if (!err)
        err = group_of(actor, &groups[1]);
    for (int64_t i = 0; i < 20 && !err; i++) {
        fast_request *request = NULL;
        const int64_t n = fast_group_size(groups[0]), rank = fast_group_rank(groups[0]);
        fill(x, (uint64_t)i, rank, 500);
        fill(y, (uint64_t)i + 100, rank, 400);
        err = fast_allreduce_start(groups[i % 2], x, 500, &request);
        if (!err)
            err = fast_allreduce(groups[1 - i % 2], y, 400, FAST_SOON);
        if (request) {
            const fast_err waited = fast_request_wait(&request, FAST_SOON);
            err = err ? err : waited;
        }
        if (!err)
            err = expect_sum(x, (uint64_t)i, n, 500);
        if (!err)
            err = expect_sum(y, (uint64_t)i + 100, n, 400);
    }
    fast_group_free(groups[1]);
    fast_group_free(groups[0]);
    return err;
}

static void test_twins(void **state)
{
    (void)state;
    expect_ok(run_on("threads", 3, twins_main, NULL, "timeout=60"));
    expect_ok(run_on("sim", 4, twins_main, NULL, "timeout=60"));
}

static void keep_piece(void *ctx, int64_t offset, int64_t count, const float *sum)
{
    memcpy((float *)ctx + offset, sum, (size_t)count * sizeof *sum);
}

/* Members share one result, of which each writes a slice: whoever leaves finds all of it, and no
 * slice of an operation is written before everyone has left the one before. */
static fast_err use_main(fast_actor *actor, void *ctx)
{
    float *shared = ctx;
    fast_group *group = NULL;
    float *x = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    const int64_t n = fast_group_size(group), rank = fast_group_rank(group);
    fast_err err = fast__alloc("vector", COUNT_MAX + 1, sizeof *x, &x);
    for (int64_t round = 0; round < ROUNDS / 4 && !err; round++) {
        const int64_t count = count_of(round);
        fill(x, (uint64_t)round, rank, count);
        err = dawdle(actor);
        if (!err)
            err = fast__direct_use(group, &(fast_direct_use){ x, count, keep_piece, shared },
                                   FAST_SOON);
        if (!err)
            err = expect_values(shared, (uint64_t)round, n, count);
        for (int64_t i = 0; i < count && !err; i++)
            if (x[i] != collectives_element((uint64_t)round, rank, i))
                err = fast__fail(FAST_EINVAL, "a vector that is only used was written");
        if (!err && round % 3 == 0) /* other operations in between keep their order */
            err = fast_allreduce(group, x, count, FAST_SOON);
    }
    fast__free(x);
    fast_group_free(group);
    return err;
}

static void test_use(void **state)
{
    static float shared[COUNT_MAX];
    (void)state;
    for (int64_t n = 1; n <= SIZE_MAX_ODD; n += n < 5 ? 1 : 4)
        expect_ok(run_on("threads", n, use_main, shared, "timeout=60"));
    expect_ok(run_on("sim", 5, use_main, shared, "timeout=60"));
}

/* Ranges are offered from the end of the vector, as a backward pass makes them final: each element
 * is used once, and with its final value. Some uses offer no range. In the last round, member 1
 * gives up after its first range: the others fail, and nobody reads its vector any more. */
enum { RANGED = 120000 };

static fast_err ranges_main(fast_actor *actor, void *ctx)
{
    static const int64_t cuts[] = { RANGED, 70001, 69990, 30000, 1000, 0 };
    float *shared = ctx, *x = NULL;
    fast_group *group = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    const int64_t n = fast_group_size(group), rank = fast_group_rank(group);
    fast_err err = fast__alloc("vector", RANGED + 1, sizeof *x, &x); /* fill() has a guard */
    if (!err)
        err = fast__direct_use_open(group);
    for (int64_t round = 0; round < 8 && !err; round++) {
        const bool last = round == 7 && n > 1;
        const fast_direct_use u = { x, RANGED, keep_piece, shared };

        for (int i = 1; i < 6 && !err && round != 4; i++) {
            for (int64_t k = cuts[i]; k < cuts[i - 1]; k++)
                x[k] = collectives_element((uint64_t)round, rank, k);
            fast__direct_use_range(group, &u, cuts[i], cuts[i - 1] - cuts[i]);
            if (last && rank == 1)
                break;
            err = dawdle(actor);
        }
        if (last && rank == 1) {
            fast__direct_use_drop(group);
            memset(x, 0xff, RANGED * sizeof *x);
            break;
        }
        if (round == 4)
            fill(x, (uint64_t)round, rank, RANGED);
        if (!err)
            err = fast__direct_use(group, &u, last ? fast_now(actor) + 20000000 : FAST_SOON);
        if (last)
            err = err ? FAST_OK : fast__fail(FAST_EINVAL, "a use without a member succeeds");
        else if (!err)
            err = expect_values(shared, (uint64_t)round, n, RANGED);
        if (!err && !last) /* a member that is fast does not write what others still compare */
            err = fast_barrier(group, FAST_SOON);
    }
    fast__free(x);
    fast_group_free(group);
    return err;
}

static void test_ranges(void **state)
{
    static float shared[RANGED];
    (void)state;
    for (int64_t n = 1; n <= 3; n++)
        expect_ok(run_on("threads", n, ranges_main, shared, "timeout=60"));
    expect_ok(run_on("sim", 5, ranges_main, shared, "timeout=60"));
}

static void test_again(void **state)
{
    (void)state;
    expect_ok(run_on("threads", 3, again_main, NULL, "timeout=60"));
}

/* Actor 2 does not come. The others give up by their deadline, name it, and say how long they
 * waited in all, however often they woke up (exact in virtual time); what they then write to their
 * vectors nobody disturbs. */
static fast_err missing_main(fast_actor *actor, void *ctx)
{
    const bool nonblocking = *(const bool *)ctx;
    fast_group *group = NULL;
    static float room[4][COUNT_MAX];
    float *x = room[fast_actor_id(actor)];
    FAST_TRY(group_of(actor, &group));
    fast_err err = FAST_OK;
    const int64_t deadline = fast_now(actor) + 30000000;
    if (fast_actor_id(actor) == 2) {
        err = fast_sleep_until(actor, deadline + 100000000);
    } else {
        fast_request *request = NULL;
        if (nonblocking)
            err = fast_allreduce_start(group, x, COUNT_MAX, &request);
        if (!err)
            err = nonblocking ? fast_request_wait(&request, deadline)
                              : fast_allreduce(group, x, COUNT_MAX, deadline);
        memset(x, 0, sizeof room[0]);
        const bool sim = actor->world->inner == &fast__transport_sim;
        const bool named = strstr(fast_error_detail(), "worker 2") != NULL &&
                           (!sim || strstr(fast_error_detail(), " waited 0.03 s") != NULL);
        err = err == FAST_ETIMEDOUT && named
                  ? FAST_OK
                  : fast__fail(FAST_EINVAL, "%s: %s", fast_err_name(err), fast_error_detail());
        /* And the group is not to be used any more. */
        if (!err && fast_allreduce(group, x, 10, FAST_SOON) == FAST_OK)
            err = fast__fail(FAST_EINVAL, "a group that failed works");
    }
    fast_group_free(group);
    return err;
}

static void test_missing(void **state)
{
    (void)state;
    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        bool ctx = nonblocking != 0;
        expect_ok(run_on("threads", 4, missing_main, &ctx, "timeout=5"));
        expect_ok(run_on("sim", 4, missing_main, &ctx, "timeout=5"));
    }
}

/* Actor 1 ends instead of coming: the others are told so at once. */
static fast_err ended_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_group *group = NULL;
    static float room[3][COUNT_MAX];
    FAST_TRY(group_of(actor, &group));
    fast_err err = FAST_OK;
    if (fast_actor_id(actor) != 1)
        err = fast_allreduce(group, room[fast_actor_id(actor)], COUNT_MAX, FAST_SOON);
    fast_group_free(group);
    return err;
}

static void test_ended(void **state)
{
    (void)state;
    assert_int_equal(run_on("threads", 3, ended_main, NULL, "timeout=60"), FAST_EPEER);
    assert_non_null(strstr(fast_error_detail(), "worker 1"));
}

/* One member gives up again and again while others come just then: nobody's vector is written
 * after its call, which the sanitizers and the pattern would show. Long vectors, so that deadlines
 * pass in the middle of a sum. */
static fast_err race_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = actor->world->count;
    int64_t ids[8];
    float *x = NULL;
    FAST_ASSERT(count <= 8);
    for (int64_t i = 0; i < count; i++)
        ids[i] = i;
    for (uint32_t round = 1; round <= ROUNDS / 4; round++) {
        fast_group *group = NULL;
        FAST_TRY(fast_group_new(actor, ids, count, round, &group));
        FAST_TRY(fast__alloc("vector", RACE, sizeof *x, &x));
        fast_err err = fast_group_algorithm(group, "direct");
        if (!err)
            err = dawdle(actor);
        if (!err)
            err = fast_allreduce(group, x, RACE, fast_now(actor) + 20000);
        for (int64_t i = 0; i < RACE; i++)
            x[i] = (float)round;
        for (int64_t i = 0; i < RACE; i++)
            FAST_ASSERT(x[i] == (float)round);
        fast_group_free(group);
        fast__free(x);
        if (err != FAST_OK && err != FAST_ETIMEDOUT && err != FAST_EPEER)
            return err;
    }
    return FAST_OK;
}

static void test_race(void **state)
{
    (void)state;
    expect_ok(run_on("threads", 2, race_main, NULL, "timeout=60"));
    expect_ok(run_on("threads", 5, race_main, NULL, "timeout=60"));
}

/* The node crashes amid sums and comes back: the members of the second life start over with a group
 * of the same number, and its sums are right. */
static fast_err crash_main(fast_actor *actor, void *ctx)
{
    int64_t *summed = ctx;
    fast_group *group = NULL;
    float *x = NULL;
    FAST_TRY(group_of(actor, &group));
    const int64_t n = fast_group_size(group), rank = fast_group_rank(group);
    fast_err err = fast__alloc("vector", COUNT_MAX + 1, sizeof *x, &x);
    for (int64_t round = 0; round < 100 && !err; round++) {
        fill(x, (uint64_t)round, rank, COUNT_MAX);
        err = fast_charge(actor, 1e5 * (double)(rank + 1), 0);
        if (!err)
            err = fast_allreduce(group, x, COUNT_MAX, FAST_SOON);
        if (!err)
            err = expect_sum(x, (uint64_t)round, n, COUNT_MAX);
        summed[fast_actor_life(actor)] += !err;
    }
    fast_group_free(group);
    fast__free(x);
    return err;
}

static void test_crash(void **state)
{
    (void)state;
    int64_t summed[2] = { 0, 0 };
    const char *options[] = { "transport=sim", "cluster=laptop",
                              "faults=crash 0 at 1ms; restart 0 at 2ms", NULL };
    const fast_role roles[] = { { "worker", 4, crash_main, summed } };
    const fast_err err = fast_actors_run(options, roles, 1, NULL);
    if (err)
        print_error("%s\n", fast_error_detail());
    assert_int_equal(err, FAST_OK);
    assert_true(summed[0] > 0 && summed[0] < 400);
    assert_int_equal(summed[1], 400);
}

static fast_err counts_main(fast_actor *actor, void *ctx)
{
    const int64_t count = *(const int64_t *)ctx;
    fast_group *group = NULL;
    static float room[3][COUNT_MAX];
    FAST_TRY(group_of(actor, &group));
    const int64_t id = fast_actor_id(actor);
    const fast_err err = fast_allreduce(group, room[id], count + (id == 1), FAST_SOON);
    fast_group_free(group);
    return err;
}

static void test_counts(void **state)
{
    (void)state;
    for (int64_t count = 10; count <= 2000; count += 1990) {
        int64_t ctx = count;
        const fast_err err = run_on("threads", 3, counts_main, &ctx, "timeout=60");
        assert_true(err == FAST_EINVAL || err == FAST_EPEER);
        if (err == FAST_EINVAL)
            assert_non_null(strstr(fast_error_detail(), "floats"));
    }
}

/* Rounds allocate nothing once they are warm. A wait that is long, because the machine is busy, may
 * ask others what they wait for, which takes memory the first time: one of several stretches must
 * be without. */
static fast_err memory_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_group *group = NULL;
    static float room[2][COUNT_MAX];
    float *x = room[fast_actor_id(actor)];
    FAST_TRY(group_of(actor, &group));
    fast_err err = FAST_OK;
    int64_t fewest = INT64_MAX;
    for (int stretch = 0; stretch < 8 && !err; stretch++) {
        const int64_t before = fast__alloc_count();
        for (int round = 0; round < 10 && !err; round++) {
            fast_request *request = NULL;
            err = fast_allreduce(group, x, round % 2 ? 100 : COUNT_MAX, FAST_SOON);
            if (!err)
                err = fast_allreduce_start(group, x, COUNT_MAX, &request);
            if (!err)
                err = fast_request_wait(&request, FAST_SOON);
        }
        const int64_t allocated = fast__alloc_count() - before;
        fewest = allocated < fewest ? allocated : fewest;
    }
    if (!err && fewest > 0)
        err = fast__fail(FAST_EINVAL, "%lld allocations in ten rounds", (long long)fewest);
    fast_group_free(group);
    return err;
}

static void test_memory(void **state)
{
    (void)state;
    expect_ok(run_on("threads", 2, memory_main, NULL, "timeout=60"));
}

/* The n-th allocation of opening fails: an error, no leak, and a later try works. */
static fast_err oom_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_group *group = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = FAST_ENOMEM;
    for (int64_t n = 0; err == FAST_ENOMEM && n < 20; n++) {
        fast__alloc_fail_after(n, true);
        err = fast_group_algorithm(group, "direct");
        fast__alloc_fail_after(-1, true);
        if (n == 0 && err != FAST_ENOMEM)
            err = fast__fail(FAST_EINVAL, "opened without memory");
    }
    float x[2] = { 1, 2 };
    if (!err)
        err = fast_allreduce(group, x, 2, FAST_SOON);
    fast_group_free(group);
    return err;
}

static void test_oom(void **state)
{
    (void)state;
    expect_ok(run_on("threads", 1, oom_main, NULL, "timeout=60"));
}

/* Where there is no shared memory, or no collective of the machine's own: one clear sentence. */
static fast_err refuse_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_group *group = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = FAST_OK;
    if (fast_group_algorithm(group, "native") != FAST_ENOTSUP ||
        !strstr(fast_error_detail(), "native needs mpi"))
        err = fast__fail(FAST_EINVAL, "native: %s", fast_error_detail());
    fast_group_free(group);
    return err;
}

static void test_refuse(void **state)
{
    (void)state;
    expect_ok(run_on("threads", 2, refuse_main, NULL, "timeout=60"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delays),  cmocka_unit_test(test_requests),
        cmocka_unit_test(test_again),   cmocka_unit_test(test_twins),
        cmocka_unit_test(test_missing), cmocka_unit_test(test_ended),
        cmocka_unit_test(test_race),    cmocka_unit_test(test_counts),
        cmocka_unit_test(test_crash),   cmocka_unit_test(test_memory),
        cmocka_unit_test(test_oom),     cmocka_unit_test(test_refuse),
        cmocka_unit_test(test_use),     cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
