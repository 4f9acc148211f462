/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a change of layout gives each shard what is its own of the value, and its transpose is that
 *   of a linear map: <A x, y> = <x, A' y>.
 * Method: every kind, with 1 to 5 shards of dimensions that they do and do not divide, on threads
 *   and on sim. The elements of a whole value are their own numbers, which are looked for by loops
 *   over indices; for transposes each shard has whole numbers of its own, whose products are exact.
 */
#include "base/err.h"
#include "base/memory.h"
#include "comm/resharding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SAMPLES = 3, SHARDS_MAX = 5 };

/* A value and what happens to it, for all actors of a test. */
static const struct reshard_case {
    fast_reshard_kind kind;      /* forward */
    fast_reshard_kind transpose; /* of gradients of which each shard has a part */
    fast_reshard how;            /* its shape */
} cases[] = {
    { FAST_RESHARD_SUM, FAST_RESHARD_SUM, { .inner = 7 } },
    { FAST_RESHARD_NONE, FAST_RESHARD_NONE, { .inner = 7 } },
    { FAST_RESHARD_GATHER, FAST_RESHARD_SCATTER, { .outer = 2, .dim = 8, .inner = 3 } },
    { FAST_RESHARD_GATHER, FAST_RESHARD_SCATTER, { .samples = true, .inner = 5 } },
    { FAST_RESHARD_SCATTER, FAST_RESHARD_GATHER, { .dim = 7 } },
    { FAST_RESHARD_HALO,
      FAST_RESHARD_HALO_ADD,
      { .outer = 2, .dim = 8, .inner = 3, .window = { 8, 1, 1, 3 } } },
    { FAST_RESHARD_HALO,
      FAST_RESHARD_HALO_ADD,
      { .dim = 14, .inner = 2, .window = { 10, 1, 0, 5 } } },
    { FAST_RESHARD_HALO, FAST_RESHARD_HALO_ADD, { .dim = 16, .window = { 8, 2, 1, 3 } } },
    { FAST_RESHARD_HALO, FAST_RESHARD_HALO_ADD, { .dim = 5, .window = { 5, 1, 2, 5 } } },
    { FAST_RESHARD_SWAP,
      FAST_RESHARD_SWAP_BACK,
      { .outer = 2, .dim = 4, .middle = 3, .other = 6, .inner = 2 } },
    { FAST_RESHARD_SWAP_BACK, FAST_RESHARD_SWAP, { .dim = 5, .other = 7 } },
    { FAST_RESHARD_SWAP, FAST_RESHARD_SWAP_BACK, { .samples = true, .other = 6, .inner = 2 } },
};

static int64_t length(int64_t n)
{
    return n > 0 ? n : 1;
}

/* The number of an element of a whole value; 0 past the ends of dim. Numbers begin with 1. */
static float number_of(const fast_reshard *how, int64_t o, int64_t d, int64_t m, int64_t e,
                       int64_t i)
{
    const int64_t dim = how->samples ? SAMPLES : length(how->dim);

    if (d < 0 || d >= dim)
        return 0;
    return (float)((((o * dim + d) * length(how->middle) + m) * length(how->other) + e) *
                       length(how->inner) +
                   i + 1);
}

/* Fill a box of a whole value, or compare it; false: it differs. */
static bool visit(const fast_reshard *how, const fast_reshard_box *box, bool fill, float *x)
{
    const int64_t outer = how->samples ? 1 : SAMPLES * length(how->outer);
    bool same = true;

    for (int64_t o = 0; o < outer; o++)
        for (int64_t d = box->first[0]; d < box->end[0]; d++)
            for (int64_t m = 0; m < length(how->middle); m++)
                for (int64_t e = box->first[1]; e < box->end[1]; e++)
                    for (int64_t i = 0; i < length(how->inner); i++, x++) {
                        const float number = number_of(how, o, d, m, e, i);

                        if (fill)
                            *x = number;
                        same = same && *x == number;
                    }
    return same;
}

/* Whole numbers that differ between shards. */
static void fill_own(int64_t count, int64_t t, int salt, float *x)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)((i * 7 + t * 13 + salt * 5) % 11 - 5);
}

static double dot(int64_t count, const float *x, const float *y)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* Memory of an actor's side of a case. */
typedef struct side {
    int64_t before, after;  /* floats */
    float *x, *ax, *y, *ay; /* x and A' y before, A x and y after */
} side;

static fast_err check_case(fast_actor *actor, fast_group *group, const struct reshard_case *c,
                           side *s)
{
    const int64_t t = fast_group_rank(group), T = fast_group_size(group);
    const fast_reshard_value value = { &c->how, c->kind, SAMPLES, T },
                             back = { &c->how, c->transpose, SAMPLES, T };
    const fast_reshard_box before = fast__reshard_before(&value, t),
                           after = fast__reshard_after(&value, t);
    float products[2];

    if (!fast__reshard_adds(c->kind) && c->kind != FAST_RESHARD_SUM) {
        visit(&c->how, &before, true, s->x);
        FAST_TRY(fast__reshard(group, actor, &value, s->x, s->ax));
        if (!visit(&c->how, &after, false, s->ax))
            return fast__fail(FAST_EINVAL, "wrong elements");
    }
    fill_own(s->before, t, 1, s->x);
    fill_own(s->after, t, 2, s->y);
    FAST_TRY(fast__reshard(group, actor, &value, s->x, s->ax));
    FAST_TRY(fast__reshard(group, actor, &back, s->y, s->ay));
    products[0] = (float)dot(s->after, s->ax, s->y);
    products[1] = (float)dot(s->before, s->x, s->ay);
    FAST_TRY(fast_allreduce(group, products, 2, FAST_SOON));
    return products[0] == products[1] && products[0] != 0
               ? FAST_OK
               : fast__fail(FAST_EINVAL, "<Ax, y> = %g, <x, A'y> = %g", (double)products[0],
                            (double)products[1]);
}

static fast_err all_cases(fast_actor *actor, void *ctx)
{
    fast_group *group = NULL;
    (void)ctx;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = FAST_OK;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0] && !err; i++) {
        const fast_reshard_value value = { &cases[i].how, cases[i].kind, SAMPLES,
                                           fast_group_size(group) };
        const fast_reshard_box before = fast__reshard_before(&value, fast_group_rank(group)),
                               after = fast__reshard_after(&value, fast_group_rank(group));
        side s = { fast__reshard_count(&value, &before),
                   fast__reshard_count(&value, &after),
                   NULL,
                   NULL,
                   NULL,
                   NULL };
        float *all = malloc((size_t)(2 * (s.before + s.after) + 4) * sizeof(float));
        s.x = all, s.ay = s.x + s.before + 1, s.y = s.ay + s.before + 1;
        s.ax = s.y + s.after + 1;
        err = check_case(actor, group, &cases[i], &s);
        free(all);
        if (err)
            print_error("case %d, %d shards: %s\n", (int)i, (int)fast_group_size(group),
                        fast_error_detail());
    }
    fast_group_free(group);
    return err;
}

static void layouts_change(void **state)
{
    static const char *const transports[] = { "transport=threads", "transport=sim" };
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int64_t shards = 1; shards <= SHARDS_MAX; shards++) {
            const fast_role roles[] = { { "worker", shards, all_cases, NULL } };
            const char *options[] = { transports[i], "timeout=20", NULL };
            assert_int_equal(fast_actors_run(options, roles, 1, NULL), FAST_OK);
        }
}

/* A shard sends as many floats as the formulas of resharding.c say: T = 4, N = 3 x 8 x 4 floats. */
static void bytes_are_counted(void **state)
{
    (void)state;
    const fast_reshard how = { .dim = 8, .inner = 4, .window = { 8, 1, 1, 3 } };
    const fast_reshard swap = { .dim = 8, .other = 4 };
    const fast_reshard_value gather = { &how, FAST_RESHARD_GATHER, SAMPLES, 4 },
                             halo = { &how, FAST_RESHARD_HALO, SAMPLES, 4 },
                             swapped = { &swap, FAST_RESHARD_SWAP, SAMPLES, 4 };
    int64_t sent[3] = { 0 };
    for (int64_t u = 0; u < 4; u++)
        for (int i = 0; i < 3; i++) {
            const fast_reshard_value *value = i == 0 ? &gather : i == 1 ? &halo : &swapped;
            const fast_reshard_box part = fast__reshard_common(value, 1, u);
            sent[i] += u == 1 ? 0 : fast__reshard_count(value, &part);
        }
    assert_int_equal(sent[0], 3 * (SAMPLES * 8 * 4 / 4));
    assert_int_equal(sent[1], SAMPLES * 2 * 4); /* a row to each neighbour */
    assert_int_equal(sent[2], 3 * SAMPLES * 8 * 4 / 16);
}

/* A shard's own slice, with the rows that a window adds. */
static void slices_need_no_message(void **state)
{
    (void)state;
    const fast_reshard how = { .dim = 6, .inner = 1, .window = { 6, 1, 1, 3 } };
    const fast_reshard_value value = { &how, FAST_RESHARD_SLICE, 2, 3 };
    const float x[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    const float right[3][8] = { { 0, 1, 2, 3, 0, 7, 8, 9 },
                                { 2, 3, 4, 5, 8, 9, 10, 11 },
                                { 4, 5, 6, 0, 10, 11, 12, 0 } };
    for (int64_t t = 0; t < 3; t++) {
        float y[8];
        fast__reshard_slice(&value, t, x, y);
        assert_memory_equal(y, right[t], sizeof y);
    }
}

/* A collective can run out of memory anywhere; no shard hangs. */
static void memory_can_run_out(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 3, all_cases, NULL } };
    const char *options[] = { "transport=sim", "timeout=20", NULL };
    for (int64_t n = 0;; n += 7) {
        fast__alloc_fail_after(n, true);
        const fast_err err = fast_actors_run(options, roles, 1, NULL);
        fast__alloc_fail_after(-1, true);
        if (!err)
            break;
        assert_true(n < 100000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_change),
        cmocka_unit_test(bytes_are_counted),
        cmocka_unit_test(slices_need_no_message),
        cmocka_unit_test(memory_can_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
