/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PowerSGD. Goal: it finds the low rank that there is, its rounds are its encoding, and workers
 * that average lose nothing together, on every device. Method: matrices of known rank; one worker
 * in rounds beside one that encodes; three workers over 200 steps, of whom the sums of decoded
 * vectors and of residuals must be the sums of the encoded vectors.
 */
#include "codec/codec.h"

#include "base/rng.h"
#include "tensor/vector.h"

#include "devices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 24, COLS = 50, BIAS = 9, ALL = ROWS * COLS + BIAS, WORKERS = 3 };

static const fast_segment segments[] = {
    { .name = "weight", .count = ROWS * COLS, .shape = { ROWS, 5, 10 }, .rank = 3 },
    { .name = "bias", .offset = ROWS * COLS, .count = BIAS, .shape = { BIAS }, .rank = 1 },
};
static const fast_layout layout = { segments, 2, ALL };

static void draw(uint64_t seed, int64_t n, float *x)
{
    fast_rng rng;

    fast__rng_init(&rng, seed, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int64_t i = 0; i < n; i++)
        x[i] = fast__rng_normal(&rng);
}

static fast_coder *coder_of(const char *spec, fast_chain **chain, uint64_t flow, int feedback)
{
    fast_coder *coder = NULL;

    assert_int_equal(fast__chain_open(spec, chain), FAST_OK);
    const fast_coder_options o = { .chain = *chain,
                                   .layout = &layout,
                                   .device = devices_now,
                                   .count = ALL,
                                   .feedback = feedback,
                                   .seed = 1,
                                   .flow = flow };
    assert_int_equal(fast__coder_new(&o, &coder), FAST_OK);
    return coder;
}

/* A matrix of rank 2 is decoded from rank 2, and the bias to the bit. */
static void low_rank_is_found(void **state)
{
    fast_chain *chain;
    fast_coder *coder = coder_of("powersgd:rank=2", &chain, 0, 2);
    uint8_t *bytes = malloc(fast__coder_bound(coder));
    float u[2 * ROWS], v[2 * COLS], x[ALL], y[ALL];

    (void)state;
    draw(1, 2 * ROWS, u);
    draw(2, 2 * COLS, v);
    draw(3, ALL, x);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++)
            x[i * COLS + j] = u[i] * v[j] + u[ROWS + i] * v[COLS + j];
    const size_t size = devices_encode(coder, 0, 0, x, bytes);
    /* A byte for the frame, 2 and 1 for the blocks' sizes. */
    assert_int_equal(size, 1 + 2 + 1 + sizeof(float) * (2 * (ROWS + COLS) + BIAS));
    assert_int_equal(devices_decode(coder, bytes, size, FAST_DECODE_SET, 1, y), FAST_OK);
    for (int i = 0; i < ROWS * COLS; i++)
        if (!(fabsf(x[i] - y[i]) <= 2e-5f))
            fail_msg("element %d: %g became %g", i, (double)x[i], (double)y[i]);
    assert_memory_equal(x + ROWS * COLS, y + ROWS * COLS, BIAS * sizeof *x);
    free(bytes);
    fast__coder_free(coder);
    fast__chain_close(chain);
}

/* The warm start goes towards the largest singular vectors: the same matrix loses less and less. */
static void warm_start_improves(void **state)
{
    double error[2];

    (void)state;
    for (int cold = 0; cold < 2; cold++) {
        fast_chain *chain;
        fast_coder *coder = coder_of(cold ? "powersgd:warm=no" : "powersgd", &chain, 0, 2);
        uint8_t *bytes = malloc(fast__coder_bound(coder));
        float x[ALL], y[ALL];

        draw(7, ALL, x);
        for (int step = 0; step < 30; step++) {
            const size_t size = devices_encode(coder, step, 0, x, bytes);

            assert_int_equal(devices_decode(coder, bytes, size, FAST_DECODE_SET, 1, y), FAST_OK);
        }
        fast__vector_axpy(ALL, -1, x, y);
        error[cold] = fast__vector_norm2(ALL, y);
        free(bytes);
        fast__coder_free(coder);
        fast__chain_close(chain);
    }
    if (!(error[0] < 0.98 * error[1]))
        fail_msg("warm %g, cold %g", error[0], error[1]);
}

/* A step in rounds: x[w] in, the mean of what was decoded out. */
static void step_in_rounds(fast_coder **coders, int workers, int64_t step, float (*x)[ALL],
                           float *y)
{
    static float dense[ALL], mean[ALL];

    assert_int_equal(fast__coder_round_count(coders[0]), 2);
    for (int round = 0; round < 2; round++) {
        const int64_t n = fast__coder_round_size(coders[0], round);

        assert_true(n <= ALL);
        memset(mean, 0, sizeof mean);
        for (int w = 0; w < workers; w++) {
            float *from = devices_put(x[w], ALL), *to = devices_put(dense, n);

            fast__coder_round_send(coders[w], step, 0, round, from, to);
            fast__vector_free(from);
            devices_get(to, n, dense);
            fast__vector_axpy(n, 1 / (float)workers, dense, mean);
        }
        for (int w = 0; w < workers; w++) {
            float *from = devices_put(mean, n), *to = devices_put(y, ALL);

            fast__coder_round_take(coders[w], round, from, to);
            fast__vector_free(from);
            devices_get(to, ALL, y);
        }
    }
}

static void rounds_are_the_encoding(void **state)
{
    fast_chain *chains[2];
    fast_coder *coders[2] = { coder_of("powersgd", &chains[0], 0, 1),
                              coder_of("powersgd", &chains[1], 0, 1) };
    uint8_t *bytes = malloc(fast__coder_bound(coders[1]));
    static float x[1][ALL], y[ALL], z[ALL];

    (void)state;
    for (int step = 0; step < 20; step++) {
        draw((uint64_t)step, ALL, x[0]);
        step_in_rounds(coders, 1, step, x, y);
        const size_t size = devices_encode(coders[1], step, 0, x[0], bytes);
        assert_int_equal(devices_decode(coders[1], bytes, size, FAST_DECODE_SET, 1, z), FAST_OK);
        assert_memory_equal(y, z, sizeof y);
    }
    free(bytes);
    for (int i = 0; i < 2; i++) {
        fast__coder_free(coders[i]);
        fast__chain_close(chains[i]);
    }
}

static void workers_lose_nothing_together(void **state)
{
    fast_chain *chains[WORKERS];
    fast_coder *coders[WORKERS];
    static float x[WORKERS][ALL], y[ALL];
    static double in[ALL], out[ALL];

    (void)state;
    memset(in, 0, sizeof in);
    memset(out, 0, sizeof out);
    for (int w = 0; w < WORKERS; w++)
        coders[w] = coder_of("powersgd", &chains[w], (uint64_t)w, 1);
    for (int step = 0; step < 200; step++) {
        for (int w = 0; w < WORKERS; w++) {
            draw((uint64_t)(step * WORKERS + w), ALL, x[w]);
            for (int i = 0; i < ALL; i++)
                in[i] += (double)x[w][i];
        }
        step_in_rounds(coders, WORKERS, step, x, y);
        for (int i = 0; i < ALL; i++)
            out[i] += WORKERS * (double)y[i];
    }
    for (int w = 0; w < WORKERS; w++)
        fast__vector_copy(ALL, fast__coder_residual(coders[w]), x[w]);
    for (int i = 0; i < ALL; i++) {
        double residual = 0;

        for (int w = 0; w < WORKERS; w++)
            residual += (double)x[w][i];
        if (!(fabs(in[i] - out[i] - residual) <= 2e-3))
            fail_msg("encoded %g, decoded %g, residual %g", in[i], out[i], residual);
    }
    for (int w = 0; w < WORKERS; w++) {
        fast__coder_free(coders[w]);
        fast__chain_close(chains[w]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(low_rank_is_found),
        cmocka_unit_test(warm_start_improves),
        cmocka_unit_test(rounds_are_the_encoding),
        cmocka_unit_test(workers_lose_nothing_together),
    };
    return devices_run(tests, sizeof tests / sizeof tests[0], NULL, NULL);
}
