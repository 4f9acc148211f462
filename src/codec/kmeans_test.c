/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared values of kmeans. Goal: the largest elements are sent, each as the closest of the shared
 * values, and those are the means of their elements. Method: values of few kinds come back exactly;
 * drawn ones are checked against the two conditions that Lloyd's algorithm ends with, and the error
 * against that of the linear levels that it starts from.
 */
#include "base/rng.h"
#include "codec/codec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 3000, CLUSTERS = 8 };

/* One vector through the codec, as one block without a residual. */
static void pass(const char *spec, const float *x, float *y)
{
    const fast_segment all = { .name = "x", .count = N, .shape = { N }, .rank = 1 };
    const fast_layout layout = { &all, 1, N };
    fast_coder_options o = { .layout = &layout, .count = N, .feedback = 2 };
    fast_chain *chain = NULL;
    fast_coder *coder = NULL;

    assert_int_equal(fast__chain_open(spec, &chain), FAST_OK);
    o.chain = chain;
    assert_int_equal(fast__coder_new(&o, &coder), FAST_OK);
    uint8_t *bytes = malloc(fast__coder_bound(coder));
    const size_t size = fast__coder_encode(coder, 0, 0, x, bytes);
    assert_int_equal(fast__coder_decode(coder, bytes, size, FAST_DECODE_SET, 1, y), FAST_OK);
    free(bytes);
    fast__coder_free(coder);
    fast__chain_close(chain);
}

static void draw(float *x)
{
    fast_rng rng;

    fast__rng_init(&rng, 4, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < N; i++)
        x[i] = fast__rng_normal(&rng);
}

static double error_of(const float *x, const float *y)
{
    double sum = 0;

    for (int i = 0; i < N; i++)
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sum;
}

/* Values in clusters that are apart: the centroids find them, whatever their spacing. */
static void few_values_come_back(void **state)
{
    static const float kinds[] = { -9, -8.5f, 0.25f, 3, 7 };
    static float x[N], y[N];

    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = i % 3 == 0 ? kinds[i % 5] : 0.001f * (float)(i % 2);
    pass("kmeans:clusters=200,ratio=0.3333333", x, y);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == (i % 3 == 0 ? x[i] : 0));
}

static void lloyd_ends_where_it_should(void **state)
{
    static float x[N], y[N], linear[N];
    float values[CLUSTERS] = { 0 };
    double sums[CLUSTERS] = { 0 };
    int counts[CLUSTERS] = { 0 }, found = 0;

    (void)state;
    draw(x);
    pass("kmeans:clusters=8,ratio=1,rounds=1000", x, y);
    pass("kmeans:clusters=8,ratio=1,rounds=0", x, linear);
    assert_true(error_of(x, y) < 0.7 * error_of(x, linear));
    for (int i = 0; i < N; i++) {
        int j = 0;

        while (j < found && values[j] != y[i])
            j++;
        assert_in_range(j, 0, CLUSTERS - 1);
        found = j == found ? found + 1 : found;
        values[j] = y[i];
        sums[j] += (double)x[i];
        counts[j]++;
    }
    assert_int_equal(found, CLUSTERS);
    for (int j = 0; j < CLUSTERS; j++)
        assert_true(fabs(sums[j] / counts[j] - (double)values[j]) < 1e-5);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < CLUSTERS; j++)
            assert_true(fabsf(x[i] - y[i]) <= fabsf(x[i] - values[j]) + 1e-5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_values_come_back),
        cmocka_unit_test(lloyd_ends_where_it_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
