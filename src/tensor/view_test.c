/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the kernels of the strategies give, on the host and on the device `check`, the bits of the
 * plain loop that defines each. Method: random vectors at odd offsets, each result against a loop
 * in this file; sums of 1 to 19 vectors against a tree that is written recursively; a thread that
 * stores while another loads.
 */
#include "tensor/view.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/thread.h"
#include "tensor/device_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 1037, SUMMANDS = 19, VECTORS = SUMMANDS + 1 };

static const fast_device *devices[2]; /* the host and `check`, open during all tests */
static float host[VECTORS][COUNT];    /* the vectors as drawn */

static int open_devices(void **state)
{
    (void)state;
    devices[0] = &fast__host;
    return fast__device_check_open(&devices[1]);
}

static int close_devices(void **state)
{
    (void)state;
    fast__device_check_close(devices[1]);
    return 0;
}

/* Draw all vectors; some elements of the first two are equal, some are 0. */
static void draw_all(void)
{
    fast_rng rng;

    fast__rng_init(&rng, 5, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int v = 0; v < VECTORS; v++)
        for (int i = 0; i < COUNT; i++)
            host[v][i] = i % 7 == v % 7 ? host[0][i] : fast__rng_normal(&rng);
    for (int i = 0; i < COUNT; i += 5)
        host[2][i] = 0;
}

/* Put the first `n` vectors on a device. */
static void put(const fast_device *device, int n, fast_view *out)
{
    for (int v = 0; v < n; v++) {
        out[v] = (fast_view){ 0 };
        assert_int_equal(fast__view_new(device, "a test's vector", COUNT, &out[v]), FAST_OK);
        fast__view_copy(fast__view_input(host[v], COUNT), out[v]);
    }
}

static void free_all(int n, fast_view *views)
{
    for (int v = 0; v < n; v++)
        fast__view_free(&views[v]);
}

/* True if the view has these bits. */
static bool equals(fast_view x, const float *expected)
{
    static float got[COUNT];

    fast__view_copy(x, fast__view_host(got, COUNT));
    return memcmp(got, expected, sizeof got) == 0;
}

static void test_compensate(void **state)
{
    const float lambda = 0.4f, decay = 0.95f;
    static float square[COUNT], fixed[COUNT], adaptive[COUNT];
    fast_view v[5];

    (void)state;
    draw_all();
    for (int i = 0; i < COUNT; i++) {
        const float g = host[0][i];
        float a = lambda;

        fixed[i] = g + a * g * g * (host[1][i] - host[2][i]);
        square[i] = decay * fabsf(host[3][i]) + (1 - decay) * g * g;
        a /= sqrtf(square[i] + 1e-7f);
        adaptive[i] = g + a * g * g * (host[1][i] - host[2][i]);
        host[3][i] = fabsf(host[3][i]); /* a mean of squares is not negative */
    }
    for (int d = 0; d < 2; d++) {
        put(devices[d], 5, v);
        fast__view_compensate(lambda, 0, v[0], v[1], v[2], (fast_view){ 0 }, v[4]);
        assert_true(equals(v[4], fixed));
        fast__view_compensate(lambda, decay, v[0], v[1], v[2], v[3], v[4]);
        assert_true(equals(v[4], adaptive) && equals(v[3], square));
        fast__view_compensate(lambda, 0, v[0], v[1], v[1], (fast_view){ 0 }, v[0]); /* no change */
        assert_true(equals(v[0], host[0]));
        free_all(5, v);
    }
}

static void test_outer_step(void **state)
{
    const float rate = 0.7f, momentum = 0.9f;
    static float moved[2][COUNT], speed[COUNT];
    fast_view v[3];

    (void)state;
    draw_all();
    for (int i = 0; i < COUNT; i++) {
        const float gain = rate * (host[0][i] - host[1][i]);

        speed[i] = momentum * host[2][i] + gain;
        moved[0][i] = host[1][i] + speed[i];
        moved[1][i] = host[1][i] + (momentum * speed[i] + gain);
    }
    for (int d = 0; d < 2; d++)
        for (int nesterov = 0; nesterov < 2; nesterov++) {
            put(devices[d], 3, v);
            fast__view_outer_step(rate, momentum, nesterov, v[0], v[1], v[2]);
            assert_true(equals(v[0], moved[nesterov]) && equals(v[1], moved[nesterov]));
            assert_true(equals(v[2], speed));
            free_all(3, v);
        }
}

static void test_soft_threshold(void **state)
{
    const float t = 0.5f;
    static float expected[COUNT];
    fast_view v[1];

    (void)state;
    draw_all();
    host[0][0] = -0.0f;
    host[0][1] = -0.5f;
    host[0][2] = -0.75f;
    for (int i = 0; i < COUNT; i++)
        expected[i] = fabsf(host[0][i]) <= t ? 0 : host[0][i] - copysignf(t, host[0][i]);
    assert_true(expected[2] == -0.25f && !signbit(expected[1]));
    for (int d = 0; d < 2; d++) {
        put(devices[d], 1, v);
        fast__view_soft_threshold(t, v[0]);
        assert_true(equals(v[0], expected));
        free_all(1, v);
    }
}

/* Element i of the leaves [begin, begin + count) of a tree over 2^k + r vectors. */
static float sum_tree(int i, int begin, int count, int r)
{
    if (count == 1)
        return begin < r ? host[2 * begin][i] + host[2 * begin + 1][i] : host[begin + r][i];
    return sum_tree(i, begin, count / 2, r) + sum_tree(i, begin + count / 2, count / 2, r);
}

static void test_sum(void **state)
{
    static float expected[COUNT];
    fast_view v[VECTORS];

    (void)state;
    draw_all();
    for (int n = 1; n <= SUMMANDS; n++) {
        int leaves = 1;

        while (leaves * 2 <= n)
            leaves *= 2;
        for (int i = 0; i < COUNT; i++)
            expected[i] = sum_tree(i, 0, leaves, n - leaves);
        for (int d = 0; d < 2; d++) {
            put(devices[d], VECTORS, v);
            fast__view_sum(v, n, v[SUMMANDS]);
            assert_true(equals(v[SUMMANDS], expected));
            assert_true(equals(v[n - 1], host[n - 1]));
            fast__view_sum_all(v, n);
            for (int k = 0; k < n; k++)
                assert_true(equals(v[k], expected));
            free_all(VECTORS, v);
        }
    }
}

static void test_copies_and_hash(void **state)
{
    fast_view v[3];

    (void)state;
    draw_all();
    for (int d = 0; d < 2; d++) {
        put(devices[d], 3, v);
        fast__view_race_store(v[0], v[1]);
        fast__view_race_load(v[1], v[2]);
        assert_true(equals(v[1], host[0]) && equals(v[2], host[0]));
        fast__view_stream(fast__view_slice(v[2], 0, COUNT - 4),
                          fast__view_slice(v[1], 4, COUNT - 4));
        fast__view_copy(fast__view_slice(v[1], 4, COUNT - 4), fast__view_slice(v[2], 0, COUNT - 4));
        assert_true(equals(v[2], host[0]));
        assert_true(fast__view_hash(v[2], 3) == fast__hash(host[0], sizeof host[0], 3));
        assert_true(fast__view_hash(fast__view_slice(v[2], 0, 0), 3) == fast__hash("", 0, 3));
        free_all(3, v);
    }
}

/* Two vectors that a thread stores one after the other, and the place that both go to. */
typedef struct view_race {
    fast_view from[2];
    fast_view shared;
} view_race;

static void *store_both(void *ctx)
{
    const view_race *race = ctx;

    for (int i = 0; i < 400; i++)
        fast__view_race_store(race->from[i % 2], race->shared);
    return NULL;
}

/* A load during stores sees old and new elements, and nothing else. */
static void test_race(void **state)
{
    static float got[COUNT];

    (void)state;
    draw_all();
    for (int d = 0; d < 2; d++) {
        view_race race;
        fast_view v[3];
        fast_thread thread;

        put(devices[d], 3, v);
        race = (view_race){ { v[0], v[1] }, v[2] };
        fast__view_race_store(v[1], v[2]);
        assert_int_equal(fast__thread_start(&thread, store_both, &race), FAST_OK);
        for (int k = 0; k < 200; k++) {
            fast__view_race_load(v[2], fast__view_host(got, COUNT));
            for (int i = 0; i < COUNT; i++)
                assert_true(got[i] == host[0][i] || got[i] == host[1][i]);
        }
        fast__thread_join(&thread);
        free_all(3, v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compensate),      cmocka_unit_test(test_outer_step),
        cmocka_unit_test(test_soft_threshold),  cmocka_unit_test(test_sum),
        cmocka_unit_test(test_copies_and_hash), cmocka_unit_test(test_race),
    };

    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
