/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shadows. Goal: whatever the codec, both ends hold the same bits, a vector that stands still is
 * reached and none is ever lost sight of; what makes no sense, or comes behind a gap, changes
 * nothing. Method: all registered codecs follow a vector that stands still, then one that walks;
 * the distance is measured at each message; messages are cut, changed, lost and repeated.
 */
#include "codec/shadow.h"

#include "base/memory.h"
#include "base/rng.h"
#include "tensor/vector.h"

#include "devices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 24, COLS = 25, N = ROWS * COLS + 7 };

/* Both ends of a flow. */
typedef struct shadow_flow {
    fast_chain *chain;
    fast_shadows *ends[2];  /* sender's, receiver's */
    fast_shadow shadows[2]; /* of both ends */
    uint8_t *bytes;         /* of a message */
} shadow_flow;

static const fast_segment segments[] = {
    { .name = "a", .count = ROWS * COLS, .shape = { ROWS, COLS }, .rank = 2 },
    { .name = "b", .offset = ROWS * COLS, .count = 7, .shape = { 7 }, .rank = 1 },
};
static const fast_layout layout = { segments, 2, N };

static fast_coder_options options_of(const fast_chain *chain)
{
    return (fast_coder_options){ .chain = chain,
                                 .layout = &layout,
                                 .device = devices_now,
                                 .count = N,
                                 .small = 16,
                                 .workers = 4,
                                 .seed = 3 };
}

static void flow_open(shadow_flow *f, const char *spec)
{
    *f = (shadow_flow){ 0 };
    assert_int_equal(fast__chain_open(spec, &f->chain), FAST_OK);
    const fast_coder_options o = options_of(f->chain);
    for (int i = 0; i < 2; i++)
        if (fast__shadows_new(&o, &f->ends[i]))
            fail_msg("%s: %s", spec, fast_error_detail());
    f->bytes = malloc(fast__shadows_bound(f->ends[0]));
}

static void flow_close(shadow_flow *f)
{
    for (int i = 0; i < 2; i++) {
        fast__shadow_fini(&f->shadows[i]);
        fast__shadows_free(f->ends[i]);
    }
    fast__chain_close(f->chain);
    free(f->bytes);
}

static void draw(uint64_t seed, float scale, float *x)
{
    fast_rng rng;

    fast__rng_init(&rng, seed, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int64_t i = 0; i < N; i++)
        x[i] += scale * fast__rng_normal(&rng);
}

static size_t send(shadow_flow *f, int64_t step, const float *x)
{
    float *y = devices_put(x, N);
    size_t size = 0;

    assert_int_equal(fast__shadow_send(f->ends[0], &f->shadows[0], step, 10, y, f->bytes, &size),
                     FAST_OK);
    fast__vector_free(y);
    assert_true(size <= fast__shadows_bound(f->ends[0]));
    return size;
}

/* The values that an end holds. */
static void held_by(const shadow_flow *f, int end, float *out)
{
    fast__vector_copy(N, f->shadows[end].values, out);
}

/* One message: the distance that is left, over |x|. */
static double pass(shadow_flow *f, int64_t step, const float *x)
{
    const size_t size = send(f, step, x);
    double left = 0;
    float held[2][N];

    assert_int_equal(fast__shadow_take(f->ends[1], &f->shadows[1], f->bytes, size), FAST_OK);
    for (int i = 0; i < 2; i++)
        held_by(f, i, held[i]);
    assert_memory_equal(held[0], held[1], sizeof held[0]);
    for (int64_t i = 0; i < N; i++)
        left += pow((double)x[i] - (double)held[1][i], 2);
    return sqrt(left / fast__vector_norm2(N, x));
}

/* Each message brings the shadow closer; after 400 most codecs have arrived. */
static void follow(const char *spec)
{
    float x[N] = { 0 };
    double before, left;
    shadow_flow f;

    flow_open(&f, spec);
    draw(1, 1, x);
    assert_true(pass(&f, 0, x) == 0); /* whole */
    draw(2, 1, x);
    before = pass(&f, 1, x);
    for (int64_t step = 2; step < 400; step++, before = left) {
        left = pass(&f, step, x);
        if (left > before * (1 + 1e-5) + 1e-6)
            fail_msg("%s: message %lld goes from %g to %g", spec, (long long)step, before, left);
    }
    /* Where nothing stands out, nothing is sent: a filter leaves the rest for good. */
    if (before > (strcmp(spec, "significant") == 0 ? 0.8 : 0.1))
        fail_msg("%s: %g is left after 400 messages", spec, before);
    for (int64_t step = 400; step < 600; step++) {
        draw((uint64_t)step, 0.01f, x);
        before = pass(&f, step, x);
    }
    if (!(before < 1))
        fail_msg("%s: lost by %g", spec, before);
    flow_close(&f);
}

static void all_codecs_follow(void **state)
{
    static const char *const more[] = { "randk:ratio=0.1,unbiased=yes", "qsgd:bits=2", "topk+zstd",
                                        "terngrad:clip=0" };

    (void)state;
    for (const fast_codec *const *c = fast__codecs; *c; c++) {
        fast_chain *chain = NULL;

        assert_int_equal(fast__chain_open((*c)->name, &chain), FAST_OK);
        const bool accumulates = (fast__chain_traits(chain) & FAST_CODEC_ACCUMULATES) != 0;
        fast__chain_close(chain);
        if (!accumulates)
            follow((*c)->name);
    }
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        follow(more[i]);
}

static void entries_are_exact(void **state)
{
    float x[N] = { 0 }, held[N];
    shadow_flow f;

    (void)state;
    flow_open(&f, "topk:ratio=0.1");
    pass(&f, 0, x);
    draw(1, 1, x);
    for (int64_t step = 1; step <= 12; step++)
        pass(&f, step, x);
    held_by(&f, 1, held);
    assert_memory_equal(held, x, sizeof x);
    flow_close(&f);
}

static void gaps_and_nonsense_change_nothing(void **state)
{
    float x[N] = { 0 }, held[N], after[N];
    shadow_flow f;

    (void)state;
    flow_open(&f, "onebit");
    draw(1, 1, x);
    const size_t whole = send(&f, 0, x);
    for (size_t size = 0; size < whole; size += 7)
        assert_int_equal(fast__shadow_take(f.ends[1], &f.shadows[1], f.bytes, size), FAST_EFORMAT);
    assert_int_equal(fast__shadow_take(f.ends[1], &f.shadows[1], f.bytes, whole), FAST_OK);
    held_by(&f, 1, held);
    draw(2, 1, x);
    send(&f, 1, x); /* lost */
    const size_t size = send(&f, 2, x);
    assert_int_equal(fast__shadow_take(f.ends[1], &f.shadows[1], f.bytes, size), FAST_EFORMAT);
    f.shadows[0].whole = false; /* the sender begins anew */
    pass(&f, 3, x);
    held_by(&f, 1, held);
    const size_t next = send(&f, 4, x);
    for (size_t cut = 0; cut < next; cut++)
        assert_int_equal(fast__shadow_take(f.ends[1], &f.shadows[1], f.bytes, cut), FAST_EFORMAT);
    f.bytes[0] = 2;
    assert_int_equal(fast__shadow_take(f.ends[1], &f.shadows[1], f.bytes, next), FAST_EFORMAT);
    held_by(&f, 1, after);
    assert_memory_equal(after, held, sizeof held);
    f.bytes[0] = 1;
    assert_int_equal(fast__shadow_take(f.ends[1], &f.shadows[1], f.bytes, next), FAST_OK);
    assert_int_equal(fast__shadow_take(f.ends[1], &f.shadows[1], f.bytes, next), FAST_EFORMAT);
    flow_close(&f);
}

/* A budget sends the largest relative changes, and all of them when it is told to: then the
 * receiver has x to the bit. The time since its last message counts. */
static void budgets_hold_back(void **state)
{
    shadow_flow f;
    float x[N] = { 0 }, held[N];

    (void)state;
    flow_open(&f, "budget:bytes=16,bandwidth=128");
    for (int64_t i = 0; i < N; i++)
        x[i] = i == 5 ? 1000 : 1;
    fast__shadow_set_pace(f.ends[0], &f.shadows[0], false, 1);
    (void)pass(&f, 0, x);
    assert_true(f.shadows[0].complete); /* the first message is whole */
    assert_null(fast__shadows_decoded(f.ends[1]));
    for (int64_t i = 0; i < N; i++)
        x[i] += (float)(i < 3 ? 3 - i : 0) / 8;
    x[5] += 10; /* the largest change, of a large weight */
    fast__shadow_set_pace(f.ends[0], &f.shadows[0], false, 2); /* 128 bits: two entries */
    (void)pass(&f, 1, x);
    held_by(&f, 1, held);
    assert_false(f.shadows[0].complete);
    assert_true(held[0] == x[0] && held[1] == x[1] && held[2] == 1 && held[5] == 1000);
    assert_non_null(fast__shadows_decoded(f.ends[1]));
    draw(3, 0.1f, x);
    fast__shadow_set_pace(f.ends[0], &f.shadows[0], true, 2.5);
    (void)pass(&f, 2, x);
    held_by(&f, 1, held);
    assert_true(f.shadows[0].complete);
    assert_memory_equal(held, x, sizeof x);
    flow_close(&f);
}

static void what_keeps_is_refused(void **state)
{
    fast_shadows *s = NULL;
    fast_chain *chain = NULL;

    (void)state;
    assert_int_equal(fast__chain_open("dgc", &chain), FAST_OK);
    const fast_coder_options o = options_of(chain);
    assert_int_equal(fast__shadows_new(&o, &s), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "take topk"));
    fast__chain_close(chain);
}

static void without_memory(void **state)
{
    fast_chain *chain = NULL;
    fast_err err = FAST_ENOMEM;
    int64_t n = 0;

    (void)state;
    assert_int_equal(fast__chain_open("topk+zstd", &chain), FAST_OK);
    const fast_coder_options o = options_of(chain);
    for (; err; n++) {
        fast_shadows *s = NULL;

        fast__alloc_fail_after(n, true);
        err = fast__shadows_new(&o, &s);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
        fast__shadows_free(s);
    }
    assert_true(n > 4);
    fast__chain_close(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_codecs_follow),
        cmocka_unit_test(entries_are_exact),
        cmocka_unit_test(gaps_and_nonsense_change_nothing),
        cmocka_unit_test(budgets_hold_back),
        cmocka_unit_test(what_keeps_is_refused),
        cmocka_unit_test(without_memory),
    };
    return devices_run(tests, sizeof tests / sizeof tests[0], NULL, NULL);
}
