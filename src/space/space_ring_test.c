/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consistent-hash ring. Goal: ranges cover the keys once; one server more takes its share of
 * the keys from the others, and no key moves between those; more virtual servers make shares more
 * equal; a space is cut where the ring says. Method: rings of 1 to 16 servers, the owner of each of
 * many keys before and after; one space of three actors in the simulator.
 */
#include "space/space.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KEYS = 20000, VIRTUAL = 64, SERVERS_MAX = 16 };

/* Find the server of each key. */
static void assign(int64_t servers, int64_t virtual_servers, int8_t owner[KEYS])
{
    int64_t numbers[SERVERS_MAX * VIRTUAL];
    double ends[SERVERS_MAX * VIRTUAL], last = 0;

    assert_int_equal(fast_space_ring(servers, virtual_servers, numbers, ends), FAST_OK);
    bool seen[SERVERS_MAX * VIRTUAL] = { false };
    for (int64_t i = 0, k = 0; i < servers * virtual_servers; i++) {
        assert_true(ends[i] >= last && numbers[i] >= 0 && numbers[i] < servers * virtual_servers);
        assert_false(seen[numbers[i]]);
        seen[numbers[i]] = true;
        last = ends[i];
        for (; k < KEYS && (double)k < ends[i] * KEYS; k++)
            owner[k] = (int8_t)(numbers[i] % servers);
    }
    assert_true(last == 1);
}

/* Count the keys of a server. */
static int64_t share(const int8_t owner[KEYS], int64_t server)
{
    int64_t count = 0;

    for (int64_t k = 0; k < KEYS; k++)
        count += owner[k] == server;
    return count;
}

static void a_new_server_takes_its_share(void **state)
{
    static int8_t before[KEYS], after[KEYS];

    (void)state;
    for (int64_t n = 1; n < SERVERS_MAX; n++) {
        int64_t moved = 0;

        assign(n, VIRTUAL, before);
        assign(n + 1, VIRTUAL, after);
        for (int64_t k = 0; k < KEYS; k++) {
            moved += before[k] != after[k];
            if (before[k] != after[k])
                assert_int_equal(after[k], n); /* to the new server, from whichever it was */
        }
        const double expected = (double)KEYS / (double)(n + 1);
        if (fabs((double)moved - expected) > 4 / sqrt(VIRTUAL) * expected)
            fail_msg("server %lld took %lld keys, not about %g", (long long)n, (long long)moved,
                     expected);
    }
}

static void virtual_servers_make_shares_equal(void **state)
{
    static int8_t owner[KEYS];

    (void)state;
    for (int64_t n = 2; n <= SERVERS_MAX; n++) {
        assign(n, VIRTUAL, owner);
        for (int64_t s = 0; s < n; s++) {
            const double part = (double)(share(owner, s) * n) / KEYS;
            assert_true(part > 1 - 4 / sqrt(VIRTUAL) && part < 1 + 4 / sqrt(VIRTUAL));
        }
    }
    assign(1, 1, owner);
    assert_int_equal(share(owner, 0), KEYS);
}

static void rings_of_nothing_are_refused(void **state)
{
    int64_t number;
    double end;

    (void)state;
    assert_int_equal(fast_space_ring(0, 1, &number, &end), FAST_EINVAL);
    assert_int_equal(fast_space_ring(1, 0, &number, &end), FAST_EINVAL);
    assert_int_equal(fast_space_ring(INT64_MAX, 2, &number, &end), FAST_EINVAL);
}

/* A space of two owners with these ends, and one writer. */
typedef struct ring_space {
    double ends[2];    /* of the options */
    fast_err expected; /* of the open */
    int64_t first;     /* floats of the first owner */
} ring_space;

static fast_err use_space(fast_actor *actor, void *ctx)
{
    const ring_space *s = ctx;
    static const int64_t owners[] = { 0, 1 };
    static const fast_space_tensor tensors[] = { { "w", 10, NULL }, { "few", 1, NULL } };
    const fast_space_options options = { .name = "ring",
                                         .tensors = tensors,
                                         .tensor_count = 2,
                                         .owners = owners,
                                         .owner_count = 2,
                                         .ends = s->ends };
    float x[10], y[10] = { 0 };
    int64_t offset, count;
    fast_space *space = NULL;
    fast_err err = fast_space_open(actor, &options, &space);

    if (err || s->expected)
        return err == s->expected ? FAST_OK : fast__fail(FAST_EFORMAT, "opened");
    fast__space_range(space, 0, 0, &offset, &count);
    if (offset != 0 || count != s->first)
        err = fast__fail(FAST_EFORMAT, "the first owner has %lld floats", (long long)count);
    for (int i = 0; i < 10; i++)
        x[i] = (float)i;
    if (!err && fast_actor_id(actor) == 2)
        err = fast_space_add(space, 0, x, FAST_SOON);
    if (!err && fast_actor_id(actor) == 2)
        err = fast_space_get(space, 0, y, NULL, FAST_SOON);
    if (!err && fast_actor_id(actor) == 2 && memcmp(x, y, sizeof x) != 0)
        err = fast__fail(FAST_EFORMAT, "other values");
    fast_space_close(space);
    return err;
}

static void a_space_is_cut_at_its_ends(void **state)
{
    static const ring_space cases[] = {
        { { 0.3, 1 }, FAST_OK, 3 },       { { 0, 1 }, FAST_OK, 0 },
        { { 1, 1 }, FAST_OK, 10 },        { { 0.5, 0.9 }, FAST_EINVAL, 0 },
        { { 0.5, 1.1 }, FAST_EINVAL, 0 }, { { -0.1, 1 }, FAST_EINVAL, 0 },
        { { NAN, 1 }, FAST_EINVAL, 0 },   { { 0.5, INFINITY }, FAST_EINVAL, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int t = 0; t < 2; t++) {
            const fast_role roles[] = { { "worker", 3, use_space, (void *)(uintptr_t)&cases[i] } };
            const fast_err err = fast_actors_run(
                (const char *[]){ t ? "transport=threads" : "transport=sim", "timeout=60", NULL },
                roles, 1, NULL);
            if (err)
                fail_msg("case %zu: %s", i, fast_error_detail());
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_server_takes_its_share),
        cmocka_unit_test(virtual_servers_make_shares_equal),
        cmocka_unit_test(rings_of_nothing_are_refused),
        cmocka_unit_test(a_space_is_cut_at_its_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
