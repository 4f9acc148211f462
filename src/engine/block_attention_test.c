/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: attention over blocks of keys is attention over all of them, causal and full, forward and
 * backward.
 *
 * Method: rows of random numbers, cut at every place into two blocks that come in both orders,
 * beside the whole softmax in double precision and its derivatives by differences.
 */
#include "engine/block_attention.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { P = 7, D = 3, N = P * D };

/* Queries, keys, values and the gradient of the outputs. */
typedef struct rows {
    float q[N], k[N], v[N], dz[N];
} rows;

static rows draw(void)
{
    rows r;
    float *all[] = { r.q, r.k, r.v, r.dz };
    fast_rng rng;
    fast__rng_init(&rng, 1, FAST_PURPOSE_INIT, 0, 0, 0);
    for (int a = 0; a < 4; a++)
        for (int i = 0; i < N; i++)
            all[a][i] = fast__rng_normal(&rng);
    return r;
}

static double product(const float *x, const float *y)
{
    double sum = 0;
    for (int d = 0; d < D; d++)
        sum += (double)x[d] * (double)y[d];
    return sum;
}

/* The sum of dz z of the whole softmax; z is written unless it is NULL. */
static double whole(const rows *r, bool causal, double *z)
{
    double sum = 0;
    for (int i = 0; i < P; i++) {
        const int keys = causal ? i + 1 : P;
        double all = 0, out[D] = { 0 };
        for (int j = 0; j < keys; j++)
            all += exp(product(r->q + i * D, r->k + j * D) * 0.5);
        for (int j = 0; j < keys; j++)
            for (int d = 0; d < D; d++)
                out[d] +=
                    exp(product(r->q + i * D, r->k + j * D) * 0.5) / all * (double)r->v[j * D + d];
        for (int d = 0; d < D; d++) {
            sum += out[d] * (double)r->dz[i * D + d];
            if (z)
                z[i * D + d] = out[d];
        }
    }
    return sum;
}

/* The block of keys [first, end). */
static fast_attention_block block_of(int first, int end, bool causal)
{
    return (fast_attention_block){ .queries = P,
                                   .keys = end - first,
                                   .D = D,
                                   .ahead = causal ? -first : INT64_MAX,
                                   .q_stride = D,
                                   .kv_stride = D,
                                   .z_stride = D,
                                   .scale = 0.5F };
}

/* Compare blocks [0, cut) and [cut, P), the second one first if `swap`, with the whole. */
static void check(bool causal, int cut, bool swap)
{
    rows r = draw();
    const int ends[3] = { 0, cut, P };
    float z[N] = { 0 }, stats[2 * P], row[P], grads[3][N] = { { 0 } };
    double expected[N];
    (void)whole(&r, causal, expected);
    for (int i = 0; i < P; i++)
        stats[2 * i] = -INFINITY, stats[2 * i + 1] = 0;
    for (int n = 0; n < 2; n++) {
        const int b = swap ? 1 - n : n, at = ends[b] * D;
        const fast_attention_block block = block_of(ends[b], ends[b + 1], causal);
        fast__attention_add(&block, r.q, r.k + at, r.v + at, stats, z, row);
        if (n == 1)
            fast__attention_end(&block, stats, z);
    }
    for (int i = 0; i < N; i++)
        assert_true(fabs((double)z[i] - expected[i]) < 1e-6);
    for (int i = 0; i < P; i++)
        stats[2 * i + 1] = (float)product(z + i * D, r.dz + i * D);
    for (int b = 0; b < 2; b++) {
        const fast_attention_block block = block_of(ends[b], ends[b + 1], causal);
        const int at = ends[b] * D;
        fast__attention_back(&block, r.q, r.k + at, r.v + at, stats, r.dz, grads[0], grads[1] + at,
                             grads[2] + at);
    }
    float *inputs[] = { r.q, r.k, r.v };
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < N; i++) {
            const float step = 1.0F / 64, was = inputs[a][i];
            inputs[a][i] = was + step;
            const double up = whole(&r, causal, NULL);
            inputs[a][i] = was - step;
            const double down = whole(&r, causal, NULL);
            inputs[a][i] = was;
            assert_true(fabs((up - down) * 32 - (double)grads[a][i]) < 1e-3);
        }
}

static void blocks_are_the_whole(void **state)
{
    (void)state;
    for (int cut = 1; cut < P; cut++)
        for (int n = 0; n < 4; n++)
            check(n / 2 == 0, cut, n % 2 == 1);
}

/* A query that is not finite has outputs NaN, whose loss ends the run; others keep theirs. */
static void queries_that_are_not_finite(void **state)
{
    (void)state;
    rows r = draw();
    float z[N] = { 0 }, stats[2 * P], row[P];
    const fast_attention_block block = block_of(0, P, true);

    for (int i = 0; i < P; i++)
        stats[2 * i] = -INFINITY, stats[2 * i + 1] = 0;
    r.q[2 * D] = NAN;
    r.q[4 * D] = INFINITY;
    fast__attention_add(&block, r.q, r.k, r.v, stats, z, row);
    fast__attention_end(&block, stats, z);
    for (int i = 0; i < P; i++)
        assert_true(isnan(z[i * D]) == (i == 2 || i == 4));
}

/* A block behind all queries is not seen. */
static void later_keys_are_hidden(void **state)
{
    (void)state;
    const fast_attention_block block = { .queries = 2, .keys = 3, .D = D, .ahead = -2 };
    assert_int_equal(fast__attention_sees(&block, 0), 0);
    assert_int_equal(fast__attention_sees(&block, 1), 0);
    assert_int_equal(fast__attention_sees(&block, 2), 1);
    assert_int_equal(fast__attention_sees(&block, 9), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_the_whole),
        cmocka_unit_test(queries_that_are_not_finite),
        cmocka_unit_test(later_keys_are_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
