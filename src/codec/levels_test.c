/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random levels: terngrad and qsgd. Goal: the bytes are those of the formulas, whatever vectors
 * the machine has, so that they are the same everywhere. Method: against loops over single elements
 * with the scale that was sent, for lengths around whole words and buckets; and an element so far
 * beyond the limit that its part is no whole number any more is sent as the limit.
 */
#include "base/rng.h"
#include "codec/codec.h"
#include "codec/noise.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const fast_codec fast__codec_terngrad, fast__codec_qsgd;

enum { MANY = 1700, SPIKE = 200000, BUCKET = 512, TOP = 7 };

static const uint64_t KEY = UINT64_C(0x1234567890abcdef);

static void draw(int64_t n, float *x)
{
    fast_rng rng;

    fast__rng_init(&rng, 9, FAST_PURPOSE_SYNTHETIC, 0, 0, 0);
    for (int64_t i = 0; i < n; i++)
        x[i] = i % 13 == 4 ? -0.0f : 0.01f * fast__rng_normal(&rng);
}

/* Encode with the codec's default options; the bytes written. */
static size_t encode(const fast_codec *codec, int64_t n, const float *x, uint8_t *out)
{
    const fast_encoding e = { .block = { 1, n, n }, .x = x, .key = KEY, .workers = 1 };
    void *config = calloc(1, codec->config_size);

    fast__options_default(codec->options, config);
    const size_t size = codec->encode(config, &e, out);
    assert_true(size <= codec->bound(config, &e.block));
    free(config);
    return size;
}

/* By a scale of all workers, an element ends at the limit of its own worker. */
static void shared_scales_clip_as_own(void **state)
{
    static float x[MANY];
    static uint8_t own[MANY], out[MANY];
    fast_encoding e = { .block = { 1, MANY, MANY }, .x = x, .key = KEY, .workers = 1 };
    float limit, scale;
    void *config = calloc(1, fast__codec_terngrad.config_size);

    (void)state;
    draw(MANY, x);
    fast__options_default(fast__codec_terngrad.options, config);
    fast__codec_terngrad.encode(config, &e, own);
    memcpy(&limit, own, sizeof limit);
    e.shared = 3 * limit;
    fast__codec_terngrad.encode(config, &e, out);
    memcpy(&scale, out, sizeof scale);
    assert_true(scale == 3 * limit);
    for (int64_t i = 0; i < MANY; i++) {
        const float inverse = 0x1p24f / scale;
        const float part = fminf(fabsf(x[i]) * inverse, limit * inverse);
        const unsigned one = fast__noise(KEY, (uint32_t)i) >> 8 < (uint32_t)part;

        assert_int_equal(out[sizeof scale + (size_t)i / 4] >> i % 4 * 2 & 3,
                         one | (signbit(x[i]) ? 2u : 0u));
    }
    free(config);
}

static void try_terngrad(int64_t n, const float *x)
{
    uint8_t *out = calloc((size_t)n + 64, 1);
    const size_t size = encode(&fast__codec_terngrad, n, x, out);
    float scale;

    memcpy(&scale, out, sizeof scale);
    assert_int_equal(size, sizeof scale + (size_t)(n + 15) / 16 * 4);
    for (int64_t i = 0; i < n; i++) {
        const double part = fmin((double)(fabsf(x[i]) * (0x1p24f / scale)), 0x1p24);
        const unsigned one = fast__noise(KEY, (uint32_t)i) >> 8 < (uint32_t)part;
        const unsigned code = out[sizeof scale + (size_t)i / 4] >> i % 4 * 2 & 3;

        assert_int_equal(code, one | (signbit(x[i]) ? 2u : 0u));
    }
    free(out);
}

static void terngrad_is_its_formula(void **state)
{
    static float x[MANY];

    (void)state;
    draw(MANY, x);
    for (int64_t n = 1; n <= 70; n++)
        try_terngrad(n, x);
    try_terngrad(MANY, x);
}

static void far_beyond_the_limit(void **state)
{
    float *x = calloc(SPIKE, sizeof *x);
    uint8_t *out = calloc(SPIKE, 1);

    (void)state;
    x[3] = 1e6f;
    x[SPIKE - 1] = -1e6f;
    encode(&fast__codec_terngrad, SPIKE, x, out);
    assert_int_equal(out[sizeof(float)], 1 << 6);
    assert_int_equal(out[sizeof(float) + SPIKE / 4 - 1], 3 << 6);
    free(x);
    free(out);
}

static void try_qsgd(int64_t n, const float *x)
{
    uint8_t *out = calloc((size_t)n + 64, 1);
    const uint8_t *at = out;

    encode(&fast__codec_qsgd, n, x, out);
    for (int64_t first = 0; first < n; first += BUCKET) {
        const int64_t m = n - first < BUCKET ? n - first : BUCKET;
        float norm;

        memcpy(&norm, at, sizeof norm);
        at += sizeof norm;
        for (int64_t i = 0; i < m; i++) {
            const float u = fast__noise_uniform(KEY, (uint32_t)(first + i));
            const float part = fabsf(x[first + i]) * ((float)TOP / norm);
            const int level = (int)(part + u);
            const unsigned field = at[i / 2] >> i % 2 * 4 & 15;

            assert_int_equal(field, (unsigned)(level < TOP ? level : TOP) |
                                        (signbit(x[first + i]) ? 8u : 0u));
        }
        at += (m + 7) / 8 * 4;
    }
    free(out);
}

static void qsgd_is_its_formula(void **state)
{
    static float x[MANY];

    (void)state;
    draw(MANY, x);
    for (int64_t n = 1; n <= 70; n++)
        try_qsgd(n, x);
    try_qsgd(2 * BUCKET, x);
    try_qsgd(2 * BUCKET + 16, x);
    try_qsgd(MANY, x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terngrad_is_its_formula),
        cmocka_unit_test(far_beyond_the_limit),
        cmocka_unit_test(shared_scales_clip_as_own),
        cmocka_unit_test(qsgd_is_its_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
