/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error bounds of codecs, on the host and on the device check. Goal: each formula at the
 * top of a codec's file holds for every element. Method: vectors of many scales, from one element
 * to several groups; each decoded element is held against its bound, and 1-bit's and sign's means
 * against values found by hand.
 */
#include "codec/codec.h"

#include "base/rng.h"

#include "devices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALL = 2500 };

/* `count` vectors x, one behind the other, to decoded ones through one block. */
static void pass_some(const char *spec, int64_t n, int count, const float *x, float *y)
{
    const fast_segment line = { .name = "x", .count = n, .shape = { n }, .rank = 1 };
    const fast_layout layout = { &line, 1, n };
    fast_chain *chain = NULL;
    fast_coder *coder = NULL;

    assert_int_equal(fast__chain_open(spec, &chain), FAST_OK);
    const fast_coder_options o = { .chain = chain,
                                   .layout = &layout,
                                   .device = devices_now,
                                   .count = n,
                                   .feedback = 2,
                                   .seed = 3 };
    assert_int_equal(fast__coder_new(&o, &coder), FAST_OK);
    uint8_t *bytes = malloc(fast__coder_bound(coder));
    for (int i = 0; i < count; i++) {
        const size_t size = devices_encode(coder, i, 0, x + i * n, bytes);

        assert_int_equal(devices_decode(coder, bytes, size, FAST_DECODE_SET, 1, y + i * n),
                         FAST_OK);
    }
    free(bytes);
    fast__coder_free(coder);
    fast__chain_close(chain);
}

/* x to decoded through one block. */
static void pass(const char *spec, int64_t n, const float *x, float *y)
{
    pass_some(spec, n, 1, x, y);
}

/* Normal, of one scale. */
static void draw(uint64_t seed, float scale, int64_t n, float *x)
{
    fast_rng rng;

    fast__rng_init(&rng, seed, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int64_t i = 0; i < n; i++)
        x[i] = scale * fast__rng_normal(&rng);
}

static double largest(int64_t n, const float *x)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

/* Bounds of one element, from it and the largest magnitude of its group. */
static double fp16_bound(double x, double most)
{
    (void)most;
    return fmax(fabs(x) * 0x1p-11, 0x1p-25);
}

static double bf16_bound(double x, double most)
{
    (void)most;
    return fabs(x) * 0x1p-8;
}

static double int8_bound(double x, double most)
{
    (void)x;
    return most / 127 / 2 * 1.0001;
}

static double int8_random_bound(double x, double most)
{
    (void)x;
    return most / 127 * 1.0001;
}

static double flex16_bound(double x, double most)
{
    (void)x;
    return most * 2 / 32767 / 2;
}

static double flex8_bound(double x, double most)
{
    (void)x;
    return most * 2 / 127 / 2;
}

static double fixed_bound(double x, double most)
{
    (void)most;
    return fmax(0x1p-15, fabs(x) - 32767 * 0x1p-14);
}

static double fixed_random_bound(double x, double most)
{
    (void)most;
    return fmax(0x1p-14, fabs(x) - 32766 * 0x1p-14); /* a saturated one may be rounded too */
}

static double fixed8_bound(double x, double most)
{
    (void)most;
    return fmax(0x1p-7, fabs(x) - 127 * 0x1p-6);
}

static double natural_bound(double x, double most)
{
    (void)most;
    return fabs(x);
}

static double natural_nearest_bound(double x, double most)
{
    (void)most;
    return fabs(x) / 3;
}

static double dorefa_bound(double x, double most)
{
    (void)x;
    return 2 * most / 15 * 1.0001;
}

static void elements_keep_their_bounds(void **state)
{
    static const struct {
        const char *codec;                      /* with its options */
        double (*bound)(double x, double most); /* of its error */
    } cases[] = {
        { "fp16", fp16_bound },
        { "bf16", bf16_bound },
        { "int8:group=2500", int8_bound },
        { "int8:group=2500,round=random", int8_random_bound },
        { "flexpoint", flex16_bound },
        { "flexpoint:bits=8", flex8_bound },
        { "fixed:round=nearest", fixed_bound },
        { "fixed", fixed_random_bound },
        { "fixed:bits=8,round=nearest", fixed8_bound },
        { "natural", natural_bound },
        { "natural:round=nearest", natural_nearest_bound },
        { "dorefa", dorefa_bound },
    };
    static const float scales[] = { 1e-7f, 1e-3f, 0.3f, 1, 40 };
    static const int64_t counts[] = { 1, 2, 33, ALL };
    float x[ALL], y[ALL];

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int s = 0; s < 5; s++)
            for (int k = 0; k < 4; k++) {
                draw((uint64_t)s, scales[s], counts[k], x);
                pass(cases[c].codec, counts[k], x, y);
                const double most = largest(counts[k], x);
                for (int64_t i = 0; i < counts[k]; i++) {
                    const double bound = cases[c].bound((double)x[i], most);

                    if (!(fabs((double)y[i] - (double)x[i]) <= bound))
                        fail_msg("%s: %g became %g, off by more than %g", cases[c].codec,
                                 (double)x[i], (double)y[i], bound);
                }
            }
}

/* 1-bit: the mean of those that are not negative, and of the others. */
static void means_are_right(void **state)
{
    const float x[6] = { 1, -2, 3, 0, -4, -0.0f };
    float y[6];

    (void)state;
    pass("onebit", 6, x, y);
    for (int i = 0; i < 6; i++) /* (1 + 3 + 0) / 3 and (-2 - 4 - 0) / 3 */
        assert_true(fabsf(y[i] - (signbit(x[i]) ? -2.0f : 4.0f / 3)) < 1e-6f);
    pass("sign", 6, x, y);
    for (int i = 0; i < 6; i++) /* 10 / 6 */
        assert_true(fabsf(y[i] - (signbit(x[i]) ? -5.0f : 5.0f) / 3) < 1e-6f);
    pass("vote", 6, x, y);
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == (signbit(x[i]) ? -1.0f : 1.0f));
}

/* AdaGrad comes before the means: x / sqrt(sum of squares), in the warm start too. */
static void adagrad_comes_first(void **state)
{
    const float x[9] = { 3, -4, 0, 4, 3, 2, 12, 0, -1.5f };
    const float want[9] = { 1, -1, 0, 0.8f, 0.6f, 1, 12.0f / 13, 0, -0.6f };
    float y[9];

    (void)state;
    pass_some("onebit:adagrad=yes,group=1", 3, 3, x, y);
    for (int i = 0; i < 9; i++)
        assert_true(fabsf(y[i] - want[i]) < 1e-6f);
    pass_some("onebit:adagrad=yes,warmup=1", 3, 3, x, y);
    for (int i = 0; i < 6; i++)
        assert_true(fabsf(y[i] - want[i]) < 1e-6f);
    for (int i = 6; i < 9; i++) /* the mean of 12 / 13 and 0 */
        assert_true(fabsf(y[i] - (i == 8 ? -0.6f : 6.0f / 13)) < 1e-6f);
}

/* Exponents of few bits have a least step, and a largest value. */
static void exponents_are_limited(void **state)
{
    const float x[4] = { 0.3f, -0.001f, 0x1p-9f, -0.26f };
    const float large[2] = { 1e6f, -40000 };
    float y[4];

    (void)state;
    pass("flexpoint:exponent_bits=3", 4, x, y); /* steps of 2^-7 */
    for (int i = 0; i < 4; i++)
        assert_true(y[i] == rintf(x[i] * 128) / 128);
    pass("flexpoint:exponent_bits=5", 4, x, y); /* of 2^-16, as without a limit */
    for (int i = 0; i < 4; i++)
        assert_true(fabsf(y[i] - x[i]) <= 0x1p-17f);
    pass("flexpoint:exponent_bits=5", 2, large, y);
    assert_true(y[0] == 32767 && y[1] == -32767);
}

/* Powers of two are natural; values outside of the range go to its ends. */
static void limits_hold(void **state)
{
    const float x[6] = { 0.5f, -0x1p-96f, 0x1p29f, 0x1p100f, 0x1p-110f, -0x1p-126f };
    const float want[6] = { 0.5f, -0x1p-96f, 0x1p29f, 0x1p29f, 0, 0 };
    const float wide[3] = { 5, -5, 0.25f };
    float y[6];

    (void)state;
    pass("natural", 6, x, y);
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == want[i]);
    pass("fixed:bits=8,fraction=5", 3, wide, y);
    assert_true(y[0] == 127.0f / 32 && y[1] == -127.0f / 32 && y[2] == 0.25f);
    /* Floats at the ends of their range have an exponent too. */
    const float ends[2] = { 3.4e38f, 1e38f };
    pass("flexpoint", 2, ends, y);
    assert_true(fabsf(y[0] / 3.4e38f - 1) < 1e-4f && fabsf(y[1] / 1e38f - 1) < 1e-4f);
    const float low[2] = { 1e-44f, -1e-40f };
    pass("flexpoint", 2, low, y);
    assert_true(fabsf(y[0]) < 1e-35f && fabsf(y[1]) < 1e-35f);
}

/* A rotation without levels gives back what it was given. */
static void rotation_is_orthonormal(void **state)
{
    static const int64_t counts[] = { 1, 3, 64, ALL };
    float x[ALL], y[ALL];

    (void)state;
    for (int k = 0; k < 4; k++) {
        draw(9, 1, counts[k], x);
        pass("sketch:bits=32", counts[k], x, y);
        for (int64_t i = 0; i < counts[k]; i++)
            assert_true(fabsf(x[i] - y[i]) < 1e-5f);
    }
}

/* A vector in the space of the next encoding, which a projection finds, is encoded without loss;
 * the encoding of any other is its projection. */
static void projections_are_encoded(void **state)
{
    static const char *const specs[] = { "structured:ratio=0.3",
                                         "structured:kind=lowrank,ratio=0.3" };
    static const fast_segment matrix = {
        .name = "x", .count = 600, .shape = { 20, 30 }, .rank = 2
    };
    static const fast_layout layout = { &matrix, 1, 600 };
    float x[600], p[600], y[600];

    (void)state;
    draw(4, 1, 600, x);
    for (int k = 0; k < 2; k++)
        for (int inside = 0; inside < 2; inside++) {
            fast_chain *chain = NULL;
            fast_coder *coder = NULL;
            double out = 0;

            assert_int_equal(fast__chain_open(specs[k], &chain), FAST_OK);
            const fast_coder_options o = {
                .chain = chain, .layout = &layout, .count = 600, .feedback = 2, .seed = 3
            };
            assert_int_equal(fast__coder_new(&o, &coder), FAST_OK);
            uint8_t *bytes = malloc(fast__coder_bound(coder));
            memcpy(p, x, sizeof p);
            assert_true(fast__coder_projects(coder));
            fast__coder_project(coder, p);
            const size_t size = fast__coder_encode(coder, 0, 0, inside ? p : x, bytes);
            assert_int_equal(fast__coder_decode(coder, bytes, size, FAST_DECODE_SET, 1, y),
                             FAST_OK);
            for (int i = 0; i < 600; i++) {
                assert_true(fabsf(y[i] - p[i]) < 1e-5f);
                out += fabs((double)x[i] - (double)p[i]);
            }
            assert_true(out > 100);
            free(bytes);
            fast__coder_free(coder);
            fast__chain_close(chain);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_keep_their_bounds),
        cmocka_unit_test(means_are_right),
        cmocka_unit_test(adagrad_comes_first),
        cmocka_unit_test(exponents_are_limited),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(rotation_is_orthonormal),
        cmocka_unit_test(projections_are_encoded),
    };
    return devices_run(tests, sizeof tests / sizeof tests[0], NULL, NULL);
}
