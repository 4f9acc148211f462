/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exponents that flexpoint predicts. Goal: the exponent of a vector depends on the vectors before
 * it alone, by the formula of Autoflex. Method: 200 vectors whose maxima grow, jump and fall are
 * encoded; each exponent must be that of a loop here, which remembers all maxima and looks at the
 * last 16 since the last saturation. One vector that is a thousand times larger has the exponent
 * of its twin and saturates; the vectors after it do not.
 */
#include "codec/codec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const fast_codec fast__codec_flexpoint;

enum { N = 8, STEPS = 200, STATE_MAX = 64, WINDOW = 16 };

/* A flow of vectors of N elements. */
typedef struct flow {
    void *config;           /* of the codec */
    float state[STATE_MAX]; /* of the codec */
    float y[N];             /* the last vector, decoded */
} flow;

static flow open_flow(const char *options)
{
    flow f = { .config = calloc(1, fast__codec_flexpoint.config_size) };
    const fast_block block = { 1, N, N };

    fast__options_default(fast__codec_flexpoint.options, f.config);
    assert_int_equal(
        fast__options_parse("flexpoint", fast__codec_flexpoint.options, f.config, options), 0);
    assert_in_range(fast__codec_flexpoint.state(f.config, &block), 1, STATE_MAX);
    return f;
}

/* Send a vector with this maximum; return its exponent. */
static int send(flow *f, float most)
{
    const float x[N] = { most / 2, -most, 0, most / 3, -most / 7, most / 5, 0, most / 11 };
    const fast_encoding e = { .block = { 1, N, N }, .x = x, .state = f->state, .workers = 1 };
    uint8_t out[2 + 2 * N];
    int16_t exponent;
    const size_t size = fast__codec_flexpoint.encode(f->config, &e, out);
    const fast_decoding d = { e.block, out, size, FAST_DECODE_SET, 1, f->y, NULL };

    assert_int_equal(fast__codec_flexpoint.decode(f->config, &d), FAST_OK);
    memcpy(&exponent, out, sizeof exponent);
    return exponent;
}

/* The exponent after maxima m[first..end), the last of which had the step s. */
static int next_of(const double *m, int first, int end, double s, int bits)
{
    double most = 0, mean = 0, square = 0;

    first = end - first > WINDOW ? end - WINDOW : first;
    for (int i = first; i < end; i++)
        mean += m[i] / (end - first);
    for (int i = first; i < end; i++) {
        most = fmax(most, m[i]);
        square += (m[i] - mean) * (m[i] - mean) / (end - first);
    }
    const double room = bits == 16 ? 100 : 100 / 256.0;
    return (int)ceil(log2(2 * (most + 3 * sqrt(square) + room * s))) - (bits - 1);
}

/* Maxima that grow, with jumps, and then fall. */
static float maximum(int step)
{
    const float size = step < 100 ? powf(1.1f, (float)step) : powf(0.9f, (float)(step - 100));

    return size * (step % 37 == 36 ? 900 : 1) * (1 + 0.3f * sinf((float)step));
}

static void try_bits(const char *text, int bits)
{
    const double top = ldexp(1, bits - 1) - 1;
    double m[STEPS];
    int first = 0, want = 0, saturated = 0;
    flow f = open_flow(text);

    for (int step = 0; step < STEPS; step++) {
        const int exponent = send(&f, maximum(step));

        if (step > 0)
            assert_int_equal(exponent, want);
        const double s = ldexp(1, exponent);
        const double whole = fmin(rint((double)maximum(step) / s), top);
        const bool full = step > 0 && whole == top;

        saturated += full;
        m[step] = whole * s * (full ? 2 : 1);
        first = full ? step : first;
        want = next_of(m, first, step + 1, s, bits);
    }
    assert_true(saturated > 0 && saturated < STEPS / 4);
    free(f.config);
}

static void exponents_are_the_formula(void **state)
{
    (void)state;
    try_bits("bits=16,exponent=predicted", 16);
    try_bits("bits=8,exponent=predicted", 8);
}

static void the_vector_itself_has_no_part(void **state)
{
    flow a = open_flow("bits=16,exponent=predicted"), b = open_flow("bits=16,exponent=predicted");

    (void)state;
    for (int step = 0; step < 5; step++)
        assert_int_equal(send(&a, 1), send(&b, 1));
    assert_int_equal(send(&a, 1), send(&b, 1000));
    assert_true(fabsf(a.y[1] + 1) < 1e-3f);
    assert_true(b.y[1] < 0 && b.y[1] > -100); /* it saturated */
    int tries = 1;
    for (; tries < 20 && !(fabsf(b.y[1] + 1000) < 1); tries++)
        send(&b, 1000);
    assert_in_range(tries, 2, 12); /* twice the room at least, each time */
    free(a.config);
    free(b.config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponents_are_the_formula),
        cmocka_unit_test(the_vector_itself_has_no_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
