/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dgc:choose=loss. Goal: elements whose updates lowered the loss are sent sooner, others by their
 * accumulated size, and nothing is lost. Method: 60 gradients with losses that fall and rise,
 * beside a plain loop; with a loss that never falls, and with none, the bytes are those of
 * choose=largest.
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

enum { N = 200, K = 20, STEPS = 60, BOUND = 4096 };

/* A worker that sends gradients; its loss is as the test says. */
typedef struct sender {
    fast_chain *chain; /* owned */
    fast_coder *coder; /* owned */
    double loss;       /* of the next gradient */
} sender;

static void look(void *ctx, fast_codec_model *out)
{
    out->loss = ((const sender *)ctx)->loss;
}

static void open_sender(sender *s, const char *spec)
{
    static const fast_segment all = { .name = "x", .count = N, .shape = { N }, .rank = 1 };
    static const fast_layout layout = { &all, 1, N };
    fast_coder_options o = { .layout = &layout, .count = N, .model = look, .model_ctx = s };

    assert_int_equal(fast__chain_open(spec, &s->chain), FAST_OK);
    o.chain = s->chain;
    assert_int_equal(fast__coder_new(&o, &s->coder), FAST_OK);
    assert_true(fast__coder_bound(s->coder) <= BOUND);
}

static void close_sender(sender *s)
{
    fast__coder_free(s->coder);
    fast__chain_close(s->chain);
}

static void draw(int step, float *g)
{
    fast_rng rng;

    fast__rng_init(&rng, 8, FAST_PURPOSE_TEST, (uint64_t)step, 0, 0);
    for (int i = 0; i < N; i++)
        g[i] = fast__rng_normal(&rng);
}

/* Mark the K largest magnitudes, which differ. */
static void largest(const float *v, bool *sent)
{
    for (int i = 0; i < N; i++) {
        int above = 0;

        for (int j = 0; j < N; j++)
            above += fabsf(v[j]) > fabsf(v[i]);
        sent[i] = above < K;
    }
}

static void hidden_weights_last(void **state)
{
    sender s = { 0 };
    float g[N], u[N] = { 0 }, v[N] = { 0 }, h[N] = { 0 }, sizes[N], y[N];
    bool sent[N] = { false }, plain[N];
    uint8_t bytes[BOUND];
    int fallen = 0, sooner = 0;

    (void)state;
    open_sender(&s, "dgc:ratio=0.1,momentum=0.5,warmup=0,choose=loss,beta=0.75");
    for (int step = 0; step < STEPS; step++) {
        const double loss = 2 + sin(step); /* falls and rises for about three steps each */

        draw(step, g);
        const bool fell = step > 0 && loss < s.loss;
        s.loss = loss;
        const size_t size = fast__coder_encode(s.coder, step, 9, g, bytes);
        assert_int_equal(fast__coder_decode(s.coder, bytes, size, FAST_DECODE_SET, 1, y), FAST_OK);
        for (int i = 0; i < N; i++) {
            u[i] = 0.5f * u[i] + g[i];
            v[i] += u[i];
            h[i] = sent[i] ? 0.75f * h[i] + 0.25f * (float)fell : h[i];
            sizes[i] = v[i] * (1 + h[i]);
        }
        fallen += fell;
        largest(sizes, sent);
        largest(v, plain);
        for (int i = 0; i < N; i++) {
            sooner += sent[i] && !plain[i];
            assert_true(fabsf(y[i] - (sent[i] ? v[i] : 0)) < 1e-5f);
            u[i] = sent[i] ? 0 : u[i];
            v[i] = sent[i] ? 0 : v[i];
        }
    }
    assert_in_range(fallen, STEPS / 4, 3 * STEPS / 4);
    assert_true(sooner > STEPS / 2);
    close_sender(&s);
}

static void without_a_falling_loss_it_is_dgc(void **state)
{
    static const double slope[] = { 1, 0, NAN };
    float g[N];
    uint8_t a[BOUND], b[BOUND];

    (void)state;
    for (int k = 0; k < 3; k++) {
        sender one = { 0 }, two = { 0 };

        open_sender(&one, "dgc:ratio=0.1,warmup=0,choose=loss");
        open_sender(&two, "dgc:ratio=0.1,warmup=0");
        for (int step = 0; step < STEPS; step++) {
            draw(step, g);
            one.loss = slope[k] * step;
            const size_t size = fast__coder_encode(one.coder, step, 9, g, a);
            assert_int_equal(fast__coder_encode(two.coder, step, 9, g, b), size);
            assert_memory_equal(a, b, size);
        }
        close_sender(&one);
        close_sender(&two);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_weights_last),
        cmocka_unit_test(without_a_falling_loss_it_is_dgc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
