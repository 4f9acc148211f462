/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs that send some elements. Goal: what each says at the top of its file, beyond what all
 * promise (codec_test.c). Method: small vectors by hand; dgc beside a plain reference, to the bit;
 * sent values and residuals against the documented bounds; entries against decodings; sizes.
 */
#include "codec/codec.h"

#include "base/rng.h"

#include "devices.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 300 };

/* A flow of n elements in one block, and room for an encoding. */
typedef struct sparse_flow {
    fast_chain *chain;
    fast_coder *coder;
    uint8_t *bytes;
    fast_layout layout;
} sparse_flow;

static void flow_open(sparse_flow *f, const char *spec, int64_t n, int feedback)
{
    f->chain = NULL;
    f->coder = NULL;
    f->layout = (fast_layout){ NULL, 0, n };
    if (fast__chain_open(spec, &f->chain))
        fail_msg("%s: %s", spec, fast_error_detail());
    const fast_coder_options o = { .chain = f->chain,
                                   .layout = &f->layout,
                                   .device = devices_now,
                                   .count = n,
                                   .scope = 2,
                                   .feedback = feedback,
                                   .workers = 4,
                                   .seed = 5 };
    if (fast__coder_new(&o, &f->coder))
        fail_msg("%s: %s", spec, fast_error_detail());
    f->bytes = malloc(fast__coder_bound(f->coder));
}

static void flow_close(sparse_flow *f)
{
    free(f->bytes);
    fast__coder_free(f->coder);
    fast__chain_close(f->chain);
}

/* Encode x and decode it to y: the size. */
static size_t pass(sparse_flow *f, int64_t step, double progress, const float *x, float *y)
{
    const size_t size = devices_encode(f->coder, step, progress, x, f->bytes);

    assert_int_equal(devices_decode(f->coder, f->bytes, size, FAST_DECODE_SET, 1, y), FAST_OK);
    return size;
}

/* Copy the flow's residual to the host. */
static void residual_of(const sparse_flow *f, float *out)
{
    fast__vector_copy(devices_count(f->coder), fast__coder_residual(f->coder), out);
}

static void draw(uint64_t seed, int64_t n, float *x)
{
    fast_rng rng;

    fast__rng_init(&rng, seed, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int64_t i = 0; i < n; i++)
        x[i] = fast__rng_normal(&rng);
}

static void threshold_by_hand(void **state)
{
    const float x[6] = { 0.5f, -0.5f, 0.25f, 1.75f, -0.125f, 0 };
    const float first[6] = { 0.5f, -0.5f, 0, 0.5f, 0, 0 };
    const float residual[6] = { 0, 0, 0.25f, 1.25f, -0.125f, 0 };
    const float second[6] = { 0.5f, -0.5f, 0.5f, 0.5f, 0, 0 };
    float y[6];
    sparse_flow f;

    (void)state;
    for (int bits = 0; bits < 2; bits++) {
        flow_open(&f, bits ? "threshold:tau=0.5,pack=bits" : "threshold:tau=0.5", 6, 0);
        /* The frame's byte, tau, k, and a byte for each of three; or 2 bits for each of 6. */
        assert_int_equal(pass(&f, 0, 0, x, y), bits ? 1 + 4 + 2 : 1 + 4 + 4 + 3);
        assert_memory_equal(y, first, sizeof y);
        residual_of(&f, y);
        assert_memory_equal(y, residual, sizeof residual);
        assert_int_equal(pass(&f, 1, 0, x, y), bits ? 1 + 4 + 2 : 1 + 4 + 4 + 4);
        assert_memory_equal(y, second, sizeof y);
        flow_close(&f);
    }
}

/* Two bits an element are the list of entries in another form, for any number of elements; a sign
 * without an element, and bits behind the last, are no such form. */
static void two_bits_are_the_list(void **state)
{
    enum { HEAD = 1 + 4 };
    float x[N], a[N], b[N];

    (void)state;
    for (int64_t n = 1; n <= N; n += n < 70 ? 1 : 97) {
        sparse_flow list, bits;

        flow_open(&list, "threshold:tau=0.8", n, 0);
        flow_open(&bits, "threshold:tau=0.8,pack=bits", n, 0);
        for (int step = 0; step < 3; step++) {
            draw((uint64_t)(n + step), n, x);
            pass(&list, step, 0, x, a);
            const size_t size = pass(&bits, step, 0, x, b);

            assert_int_equal(size, HEAD + (size_t)(2 * n + 7) / 8);
            assert_memory_equal(a, b, (size_t)n * sizeof *a);
            bits.bytes[HEAD] = 2; /* a sign alone */
            assert_int_equal(devices_decode(bits.coder, bits.bytes, size, FAST_DECODE_SET, 1, b),
                             FAST_EFORMAT);
            bits.bytes[HEAD] = 0;
            bits.bytes[size - 1] |= 0xc0; /* the last of four elements in a byte */
            assert_int_equal(devices_decode(bits.coder, bits.bytes, size, FAST_DECODE_SET, 1, b),
                             n % 4 == 0 ? FAST_OK : FAST_EFORMAT);
            assert_int_equal(
                devices_decode(bits.coder, bits.bytes, size - 1, FAST_DECODE_SET, 1, b),
                FAST_EFORMAT);
        }
        flow_close(&list);
        flow_close(&bits);
    }
}

/* Unsent values are below tau, and sent ones are decoded to tau, over many steps. */
static void threshold_keeps_its_bound(void **state)
{
    const float tau = 1.5f;
    float x[N], y[N], residual[N], before[N] = { 0 };
    sparse_flow f;

    (void)state;
    flow_open(&f, "threshold:tau=1.5", N, 0);
    for (int step = 0; step < 100; step++) {
        draw((uint64_t)step, N, x);
        pass(&f, step, 0, x, y);
        residual_of(&f, residual);
        for (int i = 0; i < N; i++) {
            const float v = x[i] + before[i];

            assert_true(y[i] == (fabsf(v) >= tau ? copysignf(tau, v) : 0));
            assert_true(residual[i] == v - y[i]);
        }
        memcpy(before, residual, sizeof before);
    }
    flow_close(&f);
}

static void adaptive_by_hand(void **state)
{
    /* Half of the 4 positive and of the 3 negative elements (2: 1.5 is rounded up). */
    const float x[8] = { 1, -2, 3, 0.5f, 0, -8, 5, -1 };
    const float want[8] = { 0, -5, 4, 0, 0, -5, 4, 0 };
    const float residual[8] = { 1, 3, -1, 0.5f, 0, -3, 1, -1 };
    const float up[3] = { 7, 1, 0 };
    const float up_want[3] = { 7, 0, 0 };
    float y[8];
    sparse_flow f;

    (void)state;
    flow_open(&f, "adaptive:ratio=0.5", 8, 0);
    assert_int_equal(pass(&f, 0, 0, x, y), 1 + 8 + 4 + 4);
    assert_memory_equal(y, want, sizeof y);
    residual_of(&f, y);
    assert_memory_equal(y, residual, sizeof residual);
    flow_close(&f);
    /* One side alone, and at least one element of it. */
    flow_open(&f, "adaptive:ratio=0.01", 3, 0);
    pass(&f, 0, 0, up, y);
    assert_memory_equal(y, up_want, sizeof up_want);
    flow_close(&f);
}

/* Each side is the mean of its largest, whatever the vector. */
static void adaptive_sends_the_largest(void **state)
{
    float x[N], y[N];
    sparse_flow f;

    (void)state;
    flow_open(&f, "adaptive:ratio=0.1", N, 2);
    for (uint64_t seed = 0; seed < 20; seed++) {
        draw(seed, N, x);
        pass(&f, 0, 0, x, y);
        for (int side = -1; side < 2; side += 2) {
            int count = 0, sent = 0;
            float least = INFINITY, most = 0, mean = 0;
            double sum = 0;

            for (int i = 0; i < N; i++) {
                const float v = x[i] * (float)side;
                const float q = y[i] * (float)side;

                count += v > 0;
                if (q > 0) {
                    sent++;
                    sum += (double)v;
                    mean = q;
                    least = fminf(least, v);
                } else {
                    most = fmaxf(most, v);
                }
            }
            assert_int_equal(sent, (int)(0.1 * count + 0.5));
            assert_true(least >= most);
            assert_true(fabs((double)mean - sum / sent) <= 1e-6 * sum / sent);
        }
    }
    flow_close(&f);
}

/* Deep gradient compression as the paper writes it, with a search for the largest in O(k n). */
static void reference(int64_t k, float clip, float momentum, const float *x, float *u, float *v,
                      float *y)
{
    double square = 0;
    float factor = 1;

    for (int i = 0; i < N; i++)
        square += (double)x[i] * (double)x[i];
    if (sqrt(square) > (double)clip)
        factor = (float)((double)clip / sqrt(square));
    for (int i = 0; i < N; i++) {
        u[i] = momentum * u[i] + factor * x[i];
        v[i] += u[i];
        y[i] = 0;
    }
    for (int64_t sent = 0; sent < k; sent++) {
        int best = 0;

        for (int i = 1; i < N; i++)
            if (fabsf(v[i]) > fabsf(v[best]))
                best = i;
        y[best] = v[best];
        u[best] = 0;
        v[best] = 0;
    }
}

static void follow_dgc(const char *spec)
{
    static const int64_t counts[] = { 75, 19, 6 }; /* of 300, by epochs; 0.02 from then on */
    float x[N], y[N], want[N], u[N] = { 0 }, v[N] = { 0 };
    sparse_flow f;

    /* The limit is 20 / sqrt(4); normal vectors of 300 have a norm of 17. */
    flow_open(&f, spec, N, 0);
    assert_null(fast__coder_residual(f.coder));
    for (int step = 0; step < 50; step++) {
        const int epoch = step / 10 < 2 ? step / 10 : 2;

        draw((uint64_t)step, N, x);
        if (step % 7 == 3)
            for (int i = 0; i < N; i++)
                x[i] *= 0.01f; /* this one is not cut */
        pass(&f, step, step / 10.0, x, y);
        reference(counts[epoch], 10, 0.75f, x, u, v, want);
        for (int i = 0; i < N; i++)
            if (!(fabsf(y[i] - want[i]) <= 1e-5f * fabsf(want[i])))
                fail_msg("step %d, element %d: %g, not %g", step, i, (double)y[i], (double)want[i]);
    }
    float held[2 * N];
    int64_t count = 0;
    fast__vector_copy(2 * N, fast__coder_state(f.coder, &count), held);
    assert_int_equal(count, 2 * N);
    for (int i = 0; i < N; i++) {
        assert_true(fabsf(held[i] - u[i]) <= 1e-5f * (1 + fabsf(u[i])));
        assert_true(fabsf(held[N + i] - v[i]) <= 1e-5f * (1 + fabsf(v[i])));
    }
    flow_close(&f);
}

/* A sample of a vector this small is the whole. */
static void dgc_is_the_reference(void **state)
{
    (void)state;
    follow_dgc("dgc:ratio=0.02,momentum=0.75,clip=20,warmup=2");
    follow_dgc("dgc:ratio=0.02,momentum=0.75,clip=20,warmup=2,threshold=sample");
}

/* Sent elements are v, and those above their threshold; the number varies with the sample. */
static void dgc_samples_its_threshold(void **state)
{
    enum { MANY = 20000, K = 200 };
    float *x = calloc(MANY, sizeof *x), *y = malloc(MANY * sizeof *y);
    double *v = calloc(MANY, sizeof *v);
    int fewer = 0;
    sparse_flow f;

    (void)state;
    flow_open(&f, "dgc:ratio=0.01,momentum=0,warmup=0,threshold=sample", MANY, 0);
    for (int step = 0; step < 20; step++) {
        double least = INFINITY, most = 0;
        int sent = 0;

        draw((uint64_t)step, MANY, x);
        pass(&f, step, 10, x, y);
        for (int i = 0; i < MANY; i++) {
            v[i] += (double)x[i];
            assert_true(y[i] == 0 || fabs(v[i] - (double)y[i]) < 1e-4);
            least = y[i] != 0 ? fmin(least, fabs(v[i])) : least;
            most = y[i] == 0 ? fmax(most, fabs(v[i])) : most;
            sent += y[i] != 0;
            v[i] = y[i] != 0 ? 0 : v[i];
        }
        assert_true(least >= most - 1e-4);
        assert_in_range(sent, K / 4, K);
        fewer += sent < K;
    }
    assert_in_range(fewer, 1, 19);
    flow_close(&f);
    free(x);
    free(y);
    free(v);
}

/* The parameters of lenet: 0.1% of them, with everything around, 300 times smaller at least. */
static void sizes_are_small(void **state)
{
    static const struct {
        const char *spec;
        double smaller; /* at least */
    } wanted[] = {
        { "dgc:ratio=0.001", 300 }, { "dgc:ratio=0.001,value=fp16", 500 },
        { "topk:ratio=0.01", 40 },  { "randk:ratio=0.01", 99 },
        { "adaptive", 200 },        { "dgc:ratio=0.001+entropy", 300 },
    };
    enum { LENET = 431080 };
    float *x = malloc(LENET * sizeof *x);
    float *y = malloc(LENET * sizeof *y);

    (void)state;
    draw(1, LENET, x);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        sparse_flow f;

        flow_open(&f, wanted[i].spec, LENET, 0);
        const size_t size = pass(&f, 0, 10, x, y);
        if ((double)LENET * 4 / (double)size < wanted[i].smaller)
            fail_msg("%s: %zu bytes are only %g times smaller", wanted[i].spec, size,
                     (double)LENET * 4 / (double)size);
        flow_close(&f);
    }
    free(x);
    free(y);
}

static void significant_keeps_its_bound(void **state)
{
    float x[N], y[N], residual[N], before[N] = { 0 };
    int sent = 0;
    sparse_flow f;

    (void)state;
    flow_open(&f, "significant:factor=2", N, 0);
    for (int step = 0; step < 100; step++) {
        double square = 0;

        draw((uint64_t)step, N, x);
        for (int i = 0; i < N; i++)
            square += (double)x[i] * (double)x[i];
        const double limit = 2 * sqrt(square / N);
        pass(&f, step, 0, x, y);
        residual_of(&f, residual);
        for (int i = 0; i < N; i++) {
            const float v = x[i] + before[i];

            if (fabs(fabs((double)v) - limit) > 1e-5) /* not on the edge */
                assert_true(y[i] == (fabs((double)v) > limit ? v : 0));
            assert_true(residual[i] == v - y[i]);
            sent += y[i] != 0;
        }
        memcpy(before, residual, sizeof before);
    }
    assert_true(sent > 1000 && sent < 15000); /* of 30,000 */
    flow_close(&f);
    /* A step without any change sends the residual, and no zeros. */
    flow_open(&f, "significant", N, 0);
    memset(x, 0, sizeof x);
    fast__vector_fill(1, 1e-6f, fast__coder_residual(f.coder) + 7);
    assert_int_equal(pass(&f, 0, 0, x, y), 1 + 1 + 1 + 4);
    assert_true(y[7] == 1e-6f);
    flow_close(&f);
}

/* One of each run of ten, times ten where it is to be unbiased; every element is drawn at times. */
static void randk_draws_one_of_each_run(void **state)
{
    for (int unbiased = 0; unbiased < 2; unbiased++) {
        float x[N], y[N];
        int seen = 0, times[N] = { 0 };
        sparse_flow f;

        (void)state;
        flow_open(&f, unbiased ? "randk:ratio=0.1,unbiased=yes" : "randk:ratio=0.1", N, 2);
        draw(3, N, x);
        for (int step = 0; step < 200; step++) {
            assert_int_equal(pass(&f, step, 0, x, y), 1 + 8 + 4 * N / 10);
            for (int run = 0; run < N; run += 10) {
                int count = 0;

                for (int i = run; i < run + 10; i++) {
                    if (y[i] == 0)
                        continue;
                    assert_true(y[i] == (unbiased ? 10 * x[i] : x[i]));
                    count++;
                    times[i]++;
                }
                assert_int_equal(count, 1);
            }
        }
        for (int i = 0; i < N; i++)
            seen += times[i] > 0;
        assert_int_equal(seen, N);
        flow_close(&f);
    }
}

/* Entries are the decoding, in order. */
static void entries_are_the_decoding(void **state)
{
    static const char *const specs[] = { "topk:ratio=0.1",         "randk:ratio=0.1",
                                         "threshold:tau=1",        "adaptive:ratio=0.1",
                                         "dgc:ratio=0.1",          "significant:factor=1",
                                         "threshold:tau=1+entropy" };
    float x[N], y[N], value[N];
    uint32_t index[N];

    (void)state;
    draw(8, N, x);
    for (size_t s = 0; s < sizeof specs / sizeof specs[0]; s++) {
        int64_t k;
        sparse_flow f;

        flow_open(&f, specs[s], N, 0);
        const size_t size = pass(&f, 0, 10, x, y);
        assert_int_equal(fast__coder_pairs(f.coder, f.bytes, size, index, value, &k), FAST_OK);
        assert_true(k > 0 && k < N);
        for (int64_t i = 0; i < k; i++) {
            assert_true(i == 0 || index[i] > index[i - 1]);
            assert_true(y[index[i]] == value[i]);
            y[index[i]] = 0;
        }
        for (int i = 0; i < N; i++)
            assert_true(y[i] == 0);
        assert_int_equal(fast__coder_pairs(f.coder, f.bytes, size - 1, index, value, &k),
                         FAST_EFORMAT);
        flow_close(&f);
    }
}

/* topk:hold=3: the elements of steps 0, 3, 6, ... are sent in the two steps after them too, as
 * x + e has them then; what is sent and the residual add up to all that was given. A value that is
 * not finite is sent at once. */
static void topk_holds_its_elements(void **state)
{
    float x[N], y[N], residual[N], total[N] = { 0 };
    bool chosen[N] = { false };
    sparse_flow f;

    (void)state;
    flow_open(&f, "topk:ratio=0.1,hold=3", N, 1);
    for (int step = 0; step < 9; step++) {
        draw(100 + (uint64_t)step, N, x);
        (void)pass(&f, step, 10, x, y);
        residual_of(&f, residual);
        for (int i = 0; i < N; i++) {
            total[i] += x[i] - y[i];
            assert_true(fabsf(total[i] - residual[i]) < 1e-5f);
            if (step % 3 == 0)
                chosen[i] = y[i] != 0;
            assert_true(chosen[i] || y[i] == 0);
            assert_true(!chosen[i] || residual[i] == 0);
        }
    }
    draw(200, N, x);
    x[7] = INFINITY;
    (void)pass(&f, 10, 10, x, y);
    assert_false(isfinite(y[7]));
    flow_close(&f);
}

/* Chains that send every element lose only the sign of zeros, and have no residual. */
static void all_is_lossless(void **state)
{
    static const char *const specs[] = { "topk:ratio=1", "randk:ratio=1",
                                         "randk:ratio=1,unbiased=yes", "topk:ratio=1+lz4" };
    static const char *const others[] = { "topk:ratio=0.999", "topk:ratio=1,value=fp16",
                                          "randk:ratio=0.999" };
    float x[N], y[N];

    (void)state;
    draw(3, N, x);
    x[7] = 0;
    x[8] = -0.0f;
    x[9] = 1e-42f;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        sparse_flow f;

        flow_open(&f, specs[i], N, 0);
        assert_true((fast__chain_traits(f.chain) & FAST_CODEC_LOSSLESS) != 0);
        assert_true((fast__chain_traits(f.chain) & FAST_CODEC_RAW) != 0);
        int64_t count = -1;
        (void)fast__coder_state(f.coder, &count);
        assert_int_equal(count, 0);
        for (int step = 0; step < 3; step++) {
            memset(y, 0x7f, sizeof y);
            pass(&f, step, 0, x, y);
            for (int k = 0; k < N; k++)
                assert_true(x[k] == y[k]);
        }
        flow_close(&f);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        sparse_flow f;

        flow_open(&f, others[i], N, 0);
        assert_true((fast__chain_traits(f.chain) & FAST_CODEC_LOSSLESS) == 0);
        flow_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threshold_by_hand),
        cmocka_unit_test(two_bits_are_the_list),
        cmocka_unit_test(threshold_keeps_its_bound),
        cmocka_unit_test(adaptive_by_hand),
        cmocka_unit_test(adaptive_sends_the_largest),
        cmocka_unit_test(dgc_is_the_reference),
        cmocka_unit_test(dgc_samples_its_threshold),
        cmocka_unit_test(sizes_are_small),
        cmocka_unit_test(significant_keeps_its_bound),
        cmocka_unit_test(randk_draws_one_of_each_run),
        cmocka_unit_test(all_is_lossless),
        cmocka_unit_test(entries_are_the_decoding),
        cmocka_unit_test(topk_holds_its_elements),
    };
    return devices_run(tests, sizeof tests / sizeof tests[0], NULL, NULL);
}
