/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums and gathers of slices. Goal: a sum leaves the canonical bits in every member's own slice,
 * and a gather copies all slices to all members, or to one; several are under way at a time; each
 * member sends exactly (P - 1) / P of the vector; who makes another call is told. Method: programs
 * on threads and sim, for group sizes that are and are not powers of two and for vectors shorter
 * than the group, compared with sums that each actor computes alone.
 */
#include "comm/sliced.h"

#include "base/memory.h"
#include "collectives.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LENGTH = 5000, FLIGHTS = 3 };

/* A condition of an actor's program, which cmocka's own checks must not jump out of. */
#define EXPECT(cond) expect((cond), __LINE__, #cond)

static fast_err expect(bool holds, int line, const char *what)
{
    return holds ? FAST_OK : fast__fail(FAST_EINVAL, "line %d: %s", line, what);
}

static fast_err run(const char *transport, int64_t actors, fast_actor_fn *program, void *ctx,
                    fast_actors_result *result)
{
    const fast_role roles[] = { { "worker", actors, program, ctx } };

    return fast_actors_run((const char *[]){ transport, "timeout=20", NULL }, roles, 1, result);
}

/* Several sums under way at a time, then a gather of each. */
static fast_err exchange(fast_group *group, fast_sliced *s, float *x, int64_t count)
{
    const int64_t rank = fast_group_rank(group), size = fast_group_size(group);
    fast_request *requests[FLIGHTS];
    int64_t offset, own;

    fast__range(count, size, rank, &offset, &own);
    for (int k = 0; k < FLIGHTS; k++) {
        for (int64_t i = 0; i < count; i++)
            x[k * LENGTH + i] = collectives_element(7 + (uint64_t)k, rank, i);
        FAST_TRY(fast__sliced_sum(&s[k], x + k * LENGTH, count, &requests[k]));
        /* The others' slices are free at once. */
        for (int64_t i = 0; i < count; i++)
            if (i < offset || i >= offset + own)
                x[k * LENGTH + i] = -1;
    }
    for (int k = FLIGHTS - 1; k >= 0; k--) {
        FAST_TRY(fast_request_wait(&requests[k], FAST_SOON));
        for (int64_t i = offset; i < offset + own; i++)
            FAST_TRY(EXPECT(x[k * LENGTH + i] == collectives_sum(7 + (uint64_t)k, size, i)));
    }
    for (int k = 0; k < FLIGHTS; k++)
        FAST_TRY(fast__sliced_gather(&s[0], x + k * LENGTH, count, k == 1 ? size - 1 : -1,
                                     &requests[k]));
    for (int k = 0; k < FLIGHTS; k++) {
        FAST_TRY(fast_request_wait(&requests[k], FAST_SOON));
        for (int64_t i = 0; i < count && (k != 1 || rank == size - 1); i++)
            FAST_TRY(EXPECT(x[k * LENGTH + i] == collectives_sum(7 + (uint64_t)k, size, i)));
    }
    return FAST_OK;
}

static fast_err exchange_main(fast_actor *actor, void *ctx)
{
    static const int64_t counts[] = { 0, 1, 3, 64, LENGTH };
    fast_sliced s[FLIGHTS] = { { 0 } };
    fast_group *group = NULL;
    float *x = NULL;
    double norms[2];

    (void)ctx;
    FAST_TRY(fast__alloc("a vector", (int64_t)FLIGHTS * LENGTH, sizeof *x, &x));
    fast_err err = fast_group_all(actor, NULL, &group);
    for (int k = 0; k < FLIGHTS && !err; k++)
        err = fast__sliced_init(&s[k], group);
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !err; i++)
        err = exchange(group, s, x, counts[i]);
    norms[0] = (double)fast_actor_id(actor) + 1;
    norms[1] = 0.25;
    if (!err)
        err = fast__sum_doubles(group, norms, 2);
    const double n = (double)fast_actor_count(actor);
    if (!err)
        err = EXPECT(norms[0] == n * (n + 1) / 2 && norms[1] == n / 4);
    for (int k = 0; k < FLIGHTS; k++)
        fast__sliced_fini(&s[k]);
    fast_group_free(group);
    fast__free(x);
    return err;
}

static void sums_are_canonical(void **state)
{
    fast_actors_result result;

    (void)state;
    for (int64_t n = 1; n <= 7; n++)
        for (int t = 0; t < 2; t++)
            if (run(t ? "transport=sim" : "transport=threads", n, exchange_main, NULL, &result))
                fail_msg("%lld actors: %s", (long long)n, fast_error_detail());
}

/* One sum and one gather of LENGTH floats. */
static fast_err once_main(fast_actor *actor, void *ctx)
{
    fast_sliced s = { 0 };
    fast_group *group = NULL;
    fast_request *request = NULL;
    float *x = NULL;
    const int64_t count = fast_actor_id(actor) == 0 ? *(int64_t *)ctx : LENGTH;

    FAST_TRY(fast__alloc("a vector", LENGTH, sizeof *x, &x));
    fast_err err = fast_group_all(actor, NULL, &group);
    if (!err)
        err = fast__sliced_init(&s, group);
    if (!err)
        err = fast__sliced_sum(&s, x, count, &request);
    if (!err)
        err = fast_request_wait(&request, FAST_SOON);
    if (!err)
        err = fast__sliced_gather(&s, x, count, -1, &request);
    if (!err)
        err = fast_request_wait(&request, FAST_SOON);
    fast__sliced_fini(&s);
    fast_group_free(group);
    fast__free(x);
    return err;
}

/* Twice (P - 1) messages and (P - 1) / P of the vector from each member; the rest are headers. */
static void bytes_are_exact(void **state)
{
    fast_actors_result result;
    int64_t count = LENGTH;

    (void)state;
    for (int64_t n = 2; n <= 5; n++) {
        assert_int_equal(run("transport=sim", n, once_main, &count, &result), FAST_OK);
        assert_int_equal(result.messages_sent, 2 * n * (n - 1));
        const int64_t values = 2 * (n - 1) * (int64_t)sizeof(float) * LENGTH;
        assert_true(result.bytes_sent >= values);
        assert_true(result.bytes_sent <= values + 256 * result.messages_sent);
    }
}

static void other_counts_are_told(void **state)
{
    fast_actors_result result;
    int64_t count = LENGTH / 2;

    (void)state;
    assert_int_equal(run("transport=threads", 3, once_main, &count, &result), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "all members must make the same calls"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sums_are_canonical),
                                        cmocka_unit_test(bytes_are_exact),
                                        cmocka_unit_test(other_counts_are_told) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
