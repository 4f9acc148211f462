/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of codecs. Goal: a codec in the registry that breaks it fails here without a test of
 * its own. Method: each registered codec and stage, and each variant of `variants`, encodes vectors
 * of many shapes, on the host and on the device check; the decoded vectors are checked by traits:
 *
 *   the same bytes each time and on each device; never more than the bound; SET, ADD and scale
 *   agree; a value that is not finite makes one in the decoded vector; lossless ones to the bit;
 *   unbiased ones in the mean of many keys; with error feedback the decoded vectors plus the
 *   residual are the encoded ones, over 1,000 steps; bytes that were cut, changed or made up give
 *   an error or a vector, and touch nothing else; no allocation that fails is a crash or a leak.
 */
#include "codec/codec.h"

#include "base/memory.h"
#include "base/rng.h"
#include "tensor/vector.h"

#include "devices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Options that make other code run; every codec and stage runs with its defaults besides. */
static const char *const variants[] = {
    "none",
    "onebit:group=7",
    "onebit:warmup=2",
    "onebit:adagrad=yes,beta=0.5",
    "vote:beta1=0.9,beta2=0.99",
    "dct:chunk=7,top=3,beta=0.5",
    "sign:group=50",
    "int8:group=33,round=random",
    "sketch:bits=1,keep=0.25",
    "sketch:bits=8,rotate=no",
    "sketch:bits=32,keep=0.1,rotate=no",
    "structured:ratio=0.5",
    "structured:kind=lowrank,ratio=0.25",
    "powersgd:rank=1,warm=no",
    "powersgd:rank=4",
    "fixed:bits=8,fraction=7",
    "fixed:round=nearest,fraction=10",
    "fixed:bits=8,round=nearest",
    "flexpoint:bits=8,group=40",
    "flexpoint:bits=8,round=random",
    "flexpoint:exponent=predicted",
    "flexpoint:exponent_bits=3",
    "flexpoint:bits=8,group=40,exponent=predicted",
    "kmeans:ratio=1",
    "kmeans:ratio=0.05,clusters=3,rounds=0",
    "natural:round=nearest",
    "dorefa:bits=1",
    "dorefa:bits=2",
    "dorefa:bits=8",
    "terngrad:clip=0,pack=base3",
    "terngrad:clip=0",
    "terngrad:share=yes",
    "qsgd:bits=2,bucket=10",
    "qsgd:bits=8,norm=max",
    "qsgd:code=elias",
    "topk:ratio=0.1",
    "topk:value=fp16,ratio=0.05",
    "topk:ratio=1",
    "qsgd:code=elias,bits=8,bucket=7,norm=max",
    "randk:ratio=0.1",
    "randk:ratio=0.1,unbiased=yes",
    "randk:ratio=0.7,unbiased=yes",
    "threshold:tau=0.001",
    "threshold:tau=1",
    "threshold:tau=0.01,pack=bits",
    "dgc:ratio=0.02",
    "dgc:clip=0.1,warmup=0,ratio=0.02",
    "dgc:momentum=0,value=fp16,warmup=0,ratio=0.1",
    "significant:factor=0",
    "adaptive:ratio=0.3",
    "terngrad+entropy",
    "topk:ratio=0.1+entropy+entropy",
    "qsgd+entropy+zstd:level=5",
    "dgc:ratio=0.02,choose=loss",
    "dgc:ratio=0.02,threshold=sample",
    "dgc:ratio=0.02+lz4:speed=3",
    "significance:threshold=0.5+skip:probability=0.5+budget:bytes=1000",
    "skip:probability=0.3+topk:ratio=0.1+entropy",
    "budget:bytes=400+int8",
    "decay:rate=1+sign",
};
/* The variants and names of this build: it may be without the libraries of some stages. */
enum { SPECS_MAX = 256 };
static const char *specs[SPECS_MAX];
static int spec_count;

static int find_specs(void **state)
{
    (void)state;
    spec_count = 0;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        fast_chain *chain = NULL;

        if (fast__chain_open(variants[i], &chain) == FAST_OK ||
            !strstr(fast_error_detail(), "without its library"))
            specs[spec_count++] = variants[i];
        fast__chain_close(chain);
    }
    for (int i = 0; fast__codecs[i]; i++)
        specs[spec_count++] = fast__codecs[i]->name;
    for (int i = 0; fast__stages[i]; i++)
        specs[spec_count++] = fast__stages[i]->name;
    FAST_ASSERT(spec_count <= SPECS_MAX);
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
                                   .device = devices_now,
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
    const size_t size = devices_encode(one, 3, 0.5, x, a);
    assert_true(size <= bound);
    for (int i = 0; i < 16; i++)
        assert_int_equal(a[bound + (size_t)i], 0xA5);
    /* The same in another coder and other memory. */
    if (devices_encode(two, 3, 0.5, x, b) != size || memcmp(a, b, size) != 0)
        fail_msg("%s: two encodings of %lld elements differ", spec, (long long)count);

    /* The same on the host. */
    const fast_device *here = devices_now;
    devices_now = &fast__host;
    fast_coder *host = new_coder(chain, offset, count, scope, 2, 7);
    if (devices_encode(host, 3, 0.5, x, b) != size || memcmp(a, b, size) != 0)
        fail_msg("%s: %lld elements have other bytes on %s", spec, (long long)count, here->name);
    fast__coder_free(host);
    devices_now = here;

    for (int64_t i = 0; i < count; i++) {
        y[i] = NAN; /* SET reads nothing */
        z[i] = 1;
    }
    assert_int_equal(devices_decode(two, a, size, FAST_DECODE_SET, 1, y), FAST_OK);
    assert_int_equal(devices_decode(one, a, size, FAST_DECODE_ADD, -2, z), FAST_OK);
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

        const size_t size = devices_encode(coder, 0, 0, x, bytes);
        assert_int_equal(devices_decode(coder, bytes, size, FAST_DECODE_SET, 1, y), FAST_OK);
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
            const size_t size = devices_encode(coder, 0, 0, x, bytes);
            assert_int_equal(devices_decode(coder, bytes, size, FAST_DECODE_SET, 1, y), FAST_OK);
            if (fast__vector_finite(ALL, y))
                fail_msg("%s hides %g", specs[s], (double)bad[k]);
            free(bytes);
            fast__coder_free(coder);
            fast__chain_close(chain);
        }
}

/* The sum of all decoded vectors, plus the residual, is the sum of all encoded ones. */
static void feedback_loses_nothing(void **state)
{
    (void)state;
    for (int s = 0; s < spec_count; s++) {
        fast_chain *chain = open_chain(specs[s]);
        const unsigned traits = fast__chain_traits(chain);
        if ((traits & (FAST_CODEC_ACCUMULATES | FAST_CODEC_LOSSLESS | FAST_CODEC_RULE)) ||
            ((traits & FAST_CODEC_UNBIASED) && !(traits & FAST_CODEC_RAW))) {
            fast__chain_close(chain);
            continue;
        }
        fast_coder *coder = new_coder(chain, 0, ALL, 0, 1, 3);
        uint8_t *bytes = malloc(fast__coder_bound(coder));
        double in[ALL] = { 0 }, out[ALL] = { 0 };
        float x[ALL], y[ALL], largest = 0;

        for (int step = 0; step < (devices_now == &fast__host ? 1000 : 100); step++) {
            draw((uint64_t)step + 100, ALL, x);
            const size_t size = devices_encode(coder, step, step / 100.0, x, bytes);
            assert_int_equal(devices_decode(coder, bytes, size, FAST_DECODE_SET, 1, y), FAST_OK);
            for (int i = 0; i < ALL; i++) {
                in[i] += (double)x[i];
                out[i] += (double)y[i];
                largest = fmaxf(largest, fabsf(y[i]));
            }
        }
        float residual[ALL];
        assert_non_null(fast__coder_residual(coder));
        fast__vector_copy(ALL, fast__coder_residual(coder), residual);
        for (int i = 0; i < ALL; i++) /* each step rounds once, at the size of what it sends */
            if (!(fabs(in[i] - out[i] - (double)residual[i]) <=
                  1000 * 0x1p-24 * (1 + (double)largest)))
                fail_msg("%s: put in %g, decoded %g, residual %g", specs[s], in[i], out[i],
                         (double)residual[i]);
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
    if (devices_now != &fast__host) /* the bytes are the host's, as vectors_come_back() shows */
        return;
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
            const size_t size = devices_encode(coder, t, 0, x, bytes);
            assert_int_equal(devices_decode(coder, bytes, size, FAST_DECODE_SET, 1, y), FAST_OK);
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
    const fast_err err = devices_decode(coder, copy, size, FAST_DECODE_ADD, 1, y + GUARD);
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
        const size_t size = devices_encode(coder, 0, 0, x, good);
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
                const fast_coder_options o = { .chain = chain,
                                               .layout = &layout,
                                               .device = devices_now,
                                               .count = ALL,
                                               .seed = 1 };
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
    assert_non_null(strstr(fast_error_detail(), "unbiased"));
    fast__chain_close(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_come_back),
        cmocka_unit_test(zeros_stay),
        cmocka_unit_test(what_is_not_finite_is_seen),
        cmocka_unit_test(feedback_loses_nothing),
        cmocka_unit_test(unbiased_ones_are),
        cmocka_unit_test(hostile_bytes_are_harmless),
        cmocka_unit_test(memory_may_end),
        cmocka_unit_test(nonsense_is_refused),
    };
    return devices_run(tests, sizeof tests / sizeof tests[0], find_specs, NULL);
}
