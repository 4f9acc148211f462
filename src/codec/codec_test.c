/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every codec promises. Goal: a codec in the registry that breaks one of them fails here
 * without a test of its own. Method: each spec of `specs` (every registered codec and stage must be
 * in it) encodes vectors of many shapes; what comes back is judged by the codec's traits:
 *
 *   the same bytes each time; never more than the bound; SET, ADD and scale agree; values that are
 *   not finite are not hidden; lossless ones to the bit; unbiased ones in the mean of many keys;
 *   with error feedback what was decoded plus what is owed is what was put in, over 1,000 steps;
 *   bytes that were cut, changed or made up give an error or a vector, and touch nothing else;
 *   no allocation that fails is a crash or a leak.
 */
#include "codec/codec.h"

#include "base/memory.h"
#include "base/rng.h"
#include "tensor/vector.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Every codec and stage, with the options that make other code run. */
static const char *const all_specs[] = {
    "none",
    "fp16",
    "bf16",
    "onebit",
    "onebit:group=7",
    "sign",
    "sign:group=50",
    "vote",
    "int8",
    "int8:group=33,round=random",
    "sketch",
    "sketch:bits=1,keep=0.25",
    "sketch:bits=8,rotate=no",
    "sketch:bits=32,keep=0.1,rotate=no",
    "structured",
    "structured:ratio=0.5",
    "structured:kind=lowrank,ratio=0.25",
    "powersgd",
    "powersgd:rank=1,warm=no",
    "powersgd:rank=4",
    "fixed",
    "fixed:bits=8,fraction=7",
    "fixed:round=nearest,fraction=10",
    "fixed:bits=8,round=nearest",
    "flexpoint",
    "flexpoint:bits=8,group=40",
    "flexpoint:bits=8,round=random",
    "natural",
    "natural:round=nearest",
    "dorefa",
    "dorefa:bits=1",
    "dorefa:bits=2",
    "dorefa:bits=8",
    "terngrad",
    "terngrad:clip=0,pack=base3",
    "terngrad:clip=0",
    "qsgd",
    "qsgd:bits=2,bucket=10",
    "qsgd:bits=8,norm=max",
    "qsgd:code=elias",
    "topk:ratio=0.1",
    "topk",
    "topk:value=fp16,ratio=0.05",
    "topk:ratio=1",
    "qsgd:code=elias,bits=8,bucket=7,norm=max",
    "randk:ratio=0.1",
    "randk:ratio=0.1,unbiased=yes",
    "randk:ratio=0.7,unbiased=yes",
    "threshold",
    "threshold:tau=0.001",
    "threshold:tau=1",
    "dgc:ratio=0.02",
    "dgc:clip=0.1,warmup=0,ratio=0.02",
    "dgc:momentum=0,value=fp16,warmup=0,ratio=0.1",
    "significant",
    "significant:factor=0",
    "adaptive",
    "adaptive:ratio=0.3",
    "entropy",
    "terngrad+entropy",
    "topk:ratio=0.1+entropy+entropy",
    "zstd",
    "qsgd+entropy+zstd:level=5",
    "lz4",
    "dgc:ratio=0.02+lz4:speed=3",
};
/* Those of this build: it may be without the libraries of some stages. */
static const char *specs[sizeof all_specs / sizeof all_specs[0]];
static int spec_count;

static int find_specs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof all_specs / sizeof all_specs[0]; i++) {
        fast_chain *chain = NULL;

        if (fast__chain_open(all_specs[i], &chain) == FAST_OK ||
            !strstr(fast_error_detail(), "without its library"))
            specs[spec_count++] = all_specs[i];
        fast__chain_close(chain);
    }
    return 0;
}

static const fast_segment segments[] = {
    { .name = "a.weight", .offset = 0, .count = 12 * 35, .shape = { 12, 35 }, .rank = 2 },
    { .name = "a.bias", .offset = 420, .count = 12, .shape = { 12 }, .rank = 1 },
    { .name = "b.weight", .offset = 432, .count = 8 * 27, .shape = { 8, 3, 3, 3 }, .rank = 4 },
    { .name = "b.bias", .offset = 648, .count = 1, .shape = { 1 }, .rank = 1 },
};
static const fast_layout layout = { segments, 4, 649 };
enum { ALL = 649 };

/* A vector like a gradient: normal, with a few large elements and some zeros. */
static void draw(uint64_t seed, int64_t n, float *x)
{
    fast_rng rng;

    fast__rng_init(&rng, seed, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int64_t i = 0; i < n; i++) {
        const float v = 0.01f * fast__rng_normal(&rng);
        const uint32_t kind = fast__rng_u32(&rng) % 16;

        x[i] = kind == 0 ? 0 : kind == 1 ? 20 * v : v;
    }
}

static fast_chain *open_chain(const char *spec)
{
    fast_chain *chain = NULL;

    if (fast__chain_open(spec, &chain))
        fail_msg("%s: %s", spec, fast_error_detail());
    return chain;
}

static fast_coder *new_coder(const fast_chain *chain, int64_t offset, int64_t count, int scope,
                             int feedback, uint64_t seed)
{
    const fast_coder_options o = { .chain = chain,
                                   .layout = &layout,
                                   .offset = offset,
                                   .count = count,
                                   .scope = scope,
                                   .feedback = feedback,
                                   .small = 2,
                                   .workers = 4,
                                   .seed = seed };
    fast_coder *coder = NULL;

    if (fast__coder_new(&o, &coder))
        fail_msg("%s: %s", fast__chain_text(chain), fast_error_detail());
    return coder;
}

static void all_are_tried(void **state)
{
    (void)state;
    for (int i = 0; fast__codecs[i] || i == 0; i++) {
        bool found = fast__codecs[i] == NULL;

        for (int k = 0; k < spec_count && !found; k++) {
            fast_chain *chain = open_chain(specs[k]);

            found = fast__chain_codec(chain) == fast__codecs[i];
            fast__chain_close(chain);
        }
        if (!found)
            fail_msg("%s is not in the list of this test", fast__codecs[i]->name);
    }
    for (int i = 0; fast__stages[i]; i++) {
        bool found = false;

        for (int k = 0; k < spec_count; k++)
            found = found || strstr(specs[k], fast__stages[i]->name) != NULL;
        if (!found)
            fail_msg("%s is not in the list of this test", fast__stages[i]->name);
    }
}

/* One vector through one coder, in all ways to decode. */
static void round_trip(const char *spec, int64_t offset, int64_t count, int scope)
{
    fast_chain *chain = open_chain(spec);
    fast_coder *one = new_coder(chain, offset, count, scope, 2, 7);
    fast_coder *two = new_coder(chain, offset, count, scope, 2, 7);
    const size_t bound = fast__coder_bound(one);
    uint8_t *a = malloc(bound + 16);
    uint8_t *b = malloc(bound + 16);
    float x[ALL], y[ALL], z[ALL];

    draw((uint64_t)(offset + 31 * count), count, x);
    memset(a, 0xA5, bound + 16);
    memset(b, 0x5A, bound + 16);
    const size_t size = fast__coder_encode(one, 3, 0.5, x, a);
    assert_true(size <= bound);
    for (int i = 0; i < 16; i++)
        assert_int_equal(a[bound + (size_t)i], 0xA5);
    /* The same in another coder and other memory. */
    if (fast__coder_encode(two, 3, 0.5, x, b) != size || memcmp(a, b, size) != 0)
        fail_msg("%s: two encodings of %lld elements differ", spec, (long long)count);

    for (int64_t i = 0; i < count; i++) {
        y[i] = NAN; /* SET reads nothing */
        z[i] = 1;
    }
    assert_int_equal(fast__coder_decode(two, a, size, FAST_DECODE_SET, 1, y), FAST_OK);
    assert_int_equal(fast__coder_decode(one, a, size, FAST_DECODE_ADD, -2, z), FAST_OK);
    for (int64_t i = 0; i < count; i++) {
        if (!(fabsf(z[i] - (1 - 2 * y[i])) <= 4e-7f * (1 + fabsf(2 * y[i]))))
            fail_msg("%s: adding -2 times %g to 1 gives %g", spec, (double)y[i], (double)z[i]);
        if ((fast__chain_traits(chain) & FAST_CODEC_LOSSLESS) &&
            memcmp(&x[i], &y[i], sizeof x[i]) != 0)
            fail_msg("%s: %g became %g", spec, (double)x[i], (double)y[i]);
    }
    free(a);
    free(b);
    fast__coder_free(one);
    fast__coder_free(two);
    fast__chain_close(chain);
}

static void vectors_come_back(void **state)
{
    static const int64_t ranges[][2] = { { 0, ALL }, { 0, 1 },    { 5, 2 },    { 0, 31 },
                                         { 35, 70 }, { 1, 33 },   { 420, 12 }, { 400, 100 },
                                         { 0, 420 }, { 432, 216 } };

    (void)state;
    for (int s = 0; s < spec_count; s++)
        for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
            for (int scope = 0; scope < 3; scope++)
                round_trip(specs[s], ranges[i][0], ranges[i][1], scope);
}

/* Zeros stay zeros, and nothing is divided by them. */
static void zeros_stay(void **state)
{
    (void)state;
    for (int s = 0; s < spec_count; s++) {
        fast_chain *chain = open_chain(specs[s]);
        if (fast__chain_traits(chain) & FAST_CODEC_VOTES) { /* nobody abstains */
            fast__chain_close(chain);
            continue;
        }
        fast_coder *coder = new_coder(chain, 0, ALL, 0, 2, 1);
        uint8_t *bytes = malloc(fast__coder_bound(coder));
        float x[ALL] = { 0 }, y[ALL];

        const size_t size = fast__coder_encode(coder, 0, 0, x, bytes);
        assert_int_equal(fast__coder_decode(coder, bytes, size, FAST_DECODE_SET, 1, y), FAST_OK);
        for (int i = 0; i < ALL; i++)
            if (y[i] != 0)
                fail_msg("%s: 0 became %g", specs[s], (double)y[i]);
        free(bytes);
        fast__coder_free(coder);
        fast__chain_close(chain);
    }
}

/* A run that diverges must be seen to. */
static void what_is_not_finite_is_seen(void **state)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };

    (void)state;
    for (int s = 0; s < spec_count; s++)
        for (int k = 0; k < 3; k++) {
            fast_chain *chain = open_chain(specs[s]);
            fast_coder *coder = new_coder(chain, 0, ALL, 0, 2, 1);
            uint8_t *bytes = malloc(fast__coder_bound(coder));
            float x[ALL], y[ALL];

            draw(5, ALL, x);
            x[17] = bad[k];
            const size_t size = fast__coder_encode(coder, 0, 0, x, bytes);
            assert_int_equal(fast__coder_decode(coder, bytes, size, FAST_DECODE_SET, 1, y),
                             FAST_OK);
            if (fast__vector_finite(ALL, y))
                fail_msg("%s hides %g", specs[s], (double)bad[k]);
            free(bytes);
            fast__coder_free(coder);
            fast__chain_close(chain);
        }
}

/* What was decoded in all, and what is still owed, is the sum of what was put in. */
static void feedback_loses_nothing(void **state)
{
    (void)state;
    for (int s = 0; s < spec_count; s++) {
        fast_chain *chain = open_chain(specs[s]);
        const unsigned traits = fast__chain_traits(chain);
        if ((traits & (FAST_CODEC_KEEPS | FAST_CODEC_LOSSLESS)) ||
            ((traits & FAST_CODEC_UNBIASED) && !(traits & FAST_CODEC_RAW))) {
            fast__chain_close(chain);
            continue;
        }
        fast_coder *coder = new_coder(chain, 0, ALL, 0, 1, 3);
        uint8_t *bytes = malloc(fast__coder_bound(coder));
        double in[ALL] = { 0 }, out[ALL] = { 0 };
        float x[ALL], y[ALL], largest = 0;

        for (int step = 0; step < 1000; step++) {
            draw((uint64_t)step + 100, ALL, x);
            const size_t size = fast__coder_encode(coder, step, step / 100.0, x, bytes);
            assert_int_equal(fast__coder_decode(coder, bytes, size, FAST_DECODE_SET, 1, y),
                             FAST_OK);
            for (int i = 0; i < ALL; i++) {
                in[i] += (double)x[i];
                out[i] += (double)y[i];
                largest = fmaxf(largest, fabsf(y[i]));
            }
        }
        const float *owed = fast__coder_residual(coder);
        assert_non_null(owed);
        for (int i = 0; i < ALL; i++) /* each step rounds once, at the size of what it sends */
            if (!(fabs(in[i] - out[i] - (double)owed[i]) <= 1000 * 0x1p-24 * (1 + (double)largest)))
                fail_msg("%s: put in %g, decoded %g and owes %g", specs[s], in[i], out[i],
                         (double)owed[i]);
        free(bytes);
        fast__coder_free(coder);
        fast__chain_close(chain);
    }
}

/* The mean of many encodings is the input, within five standard errors that are measured too. */
static void unbiased_ones_are(void **state)
{
#ifdef FAST_SANITIZED
    enum { TRIALS = 2000 };
#else
    enum { TRIALS = 100000 };
#endif
    enum { N = 35 };

    (void)state;
    for (int s = 0; s < spec_count; s++) {
        fast_chain *chain = open_chain(specs[s]);
        if (!(fast__chain_traits(chain) & FAST_CODEC_UNBIASED)) {
            fast__chain_close(chain);
            continue;
        }
        fast_coder *coder = new_coder(chain, 0, N, 0, 2, 11);
        uint8_t *bytes = malloc(fast__coder_bound(coder));
        double sum[N] = { 0 }, square[N] = { 0 };
        float x[N], y[N];

        draw(99, N, x);
        for (int t = 0; t < TRIALS; t++) {
            const size_t size = fast__coder_encode(coder, t, 0, x, bytes);
            assert_int_equal(fast__coder_decode(coder, bytes, size, FAST_DECODE_SET, 1, y),
                             FAST_OK);
            for (int i = 0; i < N; i++) {
                const double off = (double)y[i] - (double)x[i];

                sum[i] += off;
                square[i] += off * off;
            }
        }
        for (int i = 0; i < N; i++) {
            const double error = sqrt(square[i] / TRIALS / TRIALS);

            if (fabs(sum[i] / TRIALS) > 5 * error + 1e-6 * fabs((double)x[i]))
                fail_msg("%s: the mean of %d is off by %g for %g, which is %.1f standard errors",
                         specs[s], TRIALS, sum[i] / TRIALS, (double)x[i], sum[i] / TRIALS / error);
        }
        free(bytes);
        fast__coder_free(coder);
        fast__chain_close(chain);
    }
}

/* A vector with guards; a decoding that writes elsewhere is caught here or by a sanitizer. */
static void try_bytes(const char *spec, fast_coder *coder, const uint8_t *bytes, size_t size)
{
    enum { GUARD = 16 };
    float y[GUARD + ALL + GUARD];
    uint8_t *copy = malloc(size ? size : 1); /* its end is the end of memory */

    memcpy(copy, bytes, size);
    for (int i = 0; i < GUARD + ALL + GUARD; i++)
        y[i] = 3;
    const fast_err err = fast__coder_decode(coder, copy, size, FAST_DECODE_ADD, 1, y + GUARD);
    if (err && err != FAST_EFORMAT)
        fail_msg("%s: hostile bytes give error %d", spec, (int)err);
    for (int i = 0; i < GUARD; i++)
        assert_true(y[i] == 3 && y[GUARD + ALL + i] == 3);
    free(copy);
}

static void hostile_bytes_are_harmless(void **state)
{
    (void)state;
    for (int s = 0; s < spec_count; s++) {
        fast_chain *chain = open_chain(specs[s]);
        fast_coder *coder = new_coder(chain, 0, ALL, 0, 2, 1);
        const size_t bound = fast__coder_bound(coder);
        uint8_t *good = malloc(bound);
        uint8_t *bad = malloc(bound);
        float x[ALL];
        fast_rng rng;

        draw(1, ALL, x);
        fast__rng_init(&rng, 1, FAST_PURPOSE_TEST, 1, 0, 0);
        const size_t size = fast__coder_encode(coder, 0, 0, x, good);
        for (size_t cut = 0; cut < size; cut += 1 + cut / 16)
            try_bytes(specs[s], coder, good, cut);
        for (int t = 0; t < 2000; t++) {
            memcpy(bad, good, size);
            for (uint32_t k = fast__rng_u32(&rng) % 4 + 1; k > 0; k--)
                bad[fast__rng_below(&rng, t % 2       ? size
                                          : size < 24 ? size
                                                      : 24)] = (uint8_t)fast__rng_u32(&rng);
            try_bytes(specs[s], coder, bad, size);
        }
        for (int t = 0; t < 200; t++) {
            const size_t length = (size_t)fast__rng_below(&rng, bound);

            for (size_t i = 0; i < length; i++)
                bad[i] = (uint8_t)fast__rng_u32(&rng);
            if (length > 0)
                bad[0] = (uint8_t)(t % 2);
            try_bytes(specs[s], coder, bad, length);
        }
        free(good);
        free(bad);
        fast__coder_free(coder);
        fast__chain_close(chain);
    }
}

static void memory_may_end(void **state)
{
    (void)state;
    for (int s = 0; s < spec_count; s++)
        for (int n = 0; n < 64; n++) {
            fast_chain *chain = NULL;
            fast_coder *coder = NULL;

            fast__alloc_fail_after(n, true);
            fast_err err = fast__chain_open(specs[s], &chain);
            if (!err) {
                const fast_coder_options o = {
                    .chain = chain, .layout = &layout, .count = ALL, .feedback = 0, .seed = 1
                };
                err = fast__coder_new(&o, &coder);
            }
            fast__alloc_fail_after(-1, true);
            assert_true(err == FAST_OK || err == FAST_ENOMEM);
            fast__coder_free(coder);
            fast__chain_close(chain);
            if (!err)
                break;
            assert_true(n < 63);
        }
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[][2] = {
        { "fp61", "did you mean \"fp16\"" },
        { "fp16+bf16", "fp16 encodes already" },
        { "fp16:x=1", "has no options" },
        { "", "name" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fast_chain *chain = NULL;

        assert_int_equal(fast__chain_open(bad[i][0], &chain), FAST_EINVAL);
        assert_null(chain);
        if (!strstr(fast_error_detail(), bad[i][1]))
            fail_msg("\"%s\" is refused with: %s", bad[i][0], fast_error_detail());
    }
    /* Error feedback where nothing is lost. */
    fast_chain *chain = open_chain("none");
    fast_coder *coder = NULL;
    const fast_coder_options o = { .chain = chain, .layout = &layout, .count = ALL, .feedback = 1 };
    assert_int_equal(fast__coder_new(&o, &coder), FAST_EINVAL);
    fast__chain_close(chain);
    chain = open_chain("qsgd");
    const fast_coder_options grows = {
        .chain = chain, .layout = &layout, .count = ALL, .feedback = 1
    };
    assert_int_equal(fast__coder_new(&grows, &coder), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "right in the mean"));
    fast__chain_close(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_tried),
        cmocka_unit_test(vectors_come_back),
        cmocka_unit_test(zeros_stay),
        cmocka_unit_test(what_is_not_finite_is_seen),
        cmocka_unit_test(feedback_loses_nothing),
        cmocka_unit_test(unbiased_ones_are),
        cmocka_unit_test(hostile_bytes_are_harmless),
        cmocka_unit_test(memory_may_end),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, find_specs, NULL);
}
