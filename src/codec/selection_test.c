/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selections: significance, budget, skip and kkt; decay. Goal: of every vector the elements that
 * are sent and those that wait are the whole, to the bit; exactly the right ones are sent, none
 * waits at the last step, and options that select everything are lossless; residuals fade by their
 * formula. Method: random vectors of odd sizes with ties, zeros and weights of 0, against sorting;
 * every chain of selections against its parts.
 */
#include "base/rng.h"
#include "codec/codec.h"
#include "tensor/vector.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 701 };

static float w[SIZE], x[SIZE], sent[SIZE];
static fast_codec_model model;

static void look(void *ctx, fast_codec_model *out)
{
    (void)ctx;
    *out = model;
}

static void draw(uint64_t seed)
{
    fast_rng rng;

    fast__rng_init(&rng, seed, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < SIZE; i++) {
        w[i] = fast__rng_below(&rng, 9) == 0 ? 0 : (float)fast__rng_below(&rng, 1000) / 100 - 5;
        /* Few different values: ties. */
        x[i] = (float)fast__rng_below(&rng, seed % 2 ? 5 : 100000) / 16 - 1;
    }
    model = (fast_codec_model){ .w = w, .rate = 0.5f, .taken = 1 };
}

/* One flow of a chain. */
typedef struct selecting {
    fast_chain *chain;
    fast_coder *coder;
} selecting;

static selecting begin_at(const char *spec, uint64_t seed, int64_t offset, int64_t count)
{
    static const fast_segment whole = { .name = "x", .count = SIZE, .shape = { SIZE }, .rank = 1 };
    static const fast_layout layout = { &whole, 1, SIZE };
    selecting s = { 0 };

    if (fast__chain_open(spec, &s.chain))
        fail_msg("%s: %s", spec, fast_error_detail());
    const fast_coder_options o = { .chain = s.chain,
                                   .layout = &layout,
                                   .offset = offset,
                                   .count = count,
                                   .seed = seed,
                                   .model = look };
    assert_int_equal(fast__coder_new(&o, &s.coder), FAST_OK);
    return s;
}

static selecting begin(const char *spec, uint64_t seed)
{
    return begin_at(spec, seed, 0, SIZE);
}

static void end(selecting *s)
{
    fast__coder_free(s->coder);
    fast__chain_close(s->chain);
}

/* The elements that wait. */
static const float *waiting(const selecting *s)
{
    const float *e = fast__coder_residual(s->coder);

    assert_non_null(e);
    return e;
}

/* The size that is compared. */
static double size_of(int i)
{
    return (double)(0.5f * fabsf(x[i]) / (fabsf(w[i]) + 1e-30f));
}

static void budgets_take_the_largest(void **state)
{
    static const int64_t budgets[] = { 1, 2, 7, 100, 350, 690, 701, 10000 };

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++)
        for (size_t b = 0; b < sizeof budgets / sizeof budgets[0]; b++) {
            int64_t count = 0, there = 0;
            double smallest = INFINITY, largest = 0;
            char spec[64];

            draw(seed);
            snprintf(spec, sizeof spec, "budget:bytes=%lld", (long long)budgets[b] * 8);
            selecting s = begin(spec, seed);
            fast__coder_select(s.coder, x, sent);
            const float *e = waiting(&s);
            for (int i = 0; i < SIZE; i++) {
                assert_true(sent[i] + e[i] == x[i] && (sent[i] == 0 || e[i] == 0));
                there += x[i] != 0;
                count += sent[i] != 0;
                if (sent[i] != 0)
                    smallest = fmin(smallest, size_of(i));
                else if (x[i] != 0)
                    largest = fmax(largest, size_of(i));
            }
            assert_int_equal(count, budgets[b] < there ? budgets[b] : there);
            assert_true(smallest >= largest);
            end(&s);
        }
}

/* A range has its fraction of the budget. */
static void budgets_are_shared(void **state)
{
    int64_t count = 0;

    (void)state;
    draw(2);
    selecting s = begin_at("budget:bytes=1600", 1, 100, 351);
    fast__coder_select(s.coder, x, sent);
    for (int i = 0; i < 351; i++)
        count += sent[i] != 0;
    assert_int_equal(count, 200 * 351 / SIZE);
    end(&s);
}

/* Number of elements that the next vector of zeros or of x sends, at a time. */
static int64_t count_sent(selecting *s, const float *vector, bool due, double now_s)
{
    int64_t count = 0;

    fast__coder_set_due(s->coder, due, now_s);
    fast__coder_select(s->coder, vector, sent);
    for (int i = 0; i < SIZE; i++)
        count += sent[i] != 0;
    return count;
}

/* 8,000 bits per second are 125 elements: the time since the last vector counts. Without a clock it
 * is the number of bytes. */
static void bandwidths_take_time(void **state)
{
    static const float zeros[SIZE];

    (void)state;
    draw(4);
    selecting s = begin("budget:bandwidth=8000,bytes=80", 1);
    fast__coder_select(s.coder, x, sent);
    assert_true(fast__vector_max_abs(SIZE, sent) > 0);
    assert_int_equal(count_sent(&s, zeros, false, 100), 1); /* a first time: nothing has passed */
    assert_int_equal(count_sent(&s, zeros, false, 101), 125);
    assert_int_equal(count_sent(&s, zeros, false, 101.5), 62);
    assert_int_equal(count_sent(&s, zeros, false, 90), 1); /* a clock that starts anew */
    end(&s);
}

/* Elements that have waited are sent when they are due, beyond the budget and before all others;
 * new ones are not. */
static void elements_are_due(void **state)
{
    (void)state;
    draw(6);
    selecting s = begin("budget:bytes=80", 1);
    const int64_t first = count_sent(&s, x, false, 0);
    static bool waited[SIZE];
    int64_t waits = 0;

    assert_int_equal(first, 10);
    for (int i = 0; i < SIZE; i++)
        waits += waited[i] = waiting(&s)[i] != 0;
    assert_int_equal(count_sent(&s, x, true, 1), waits);
    for (int i = 0; i < SIZE; i++)
        assert_true((sent[i] != 0) == waited[i] && (sent[i] == 0 || sent[i] == x[i] + x[i]));
    end(&s);
}

static void significance_takes_what_matters(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        draw(seed);
        model.taken = 4;
        selecting s = begin("significance:threshold=4", seed);
        fast__coder_select(s.coder, x, sent);
        const float *e = waiting(&s);
        for (int i = 0; i < SIZE; i++) {
            const bool matters = 0.5f * fabsf(x[i]) >= 2 * fabsf(w[i]);

            assert_true(sent[i] == (matters ? x[i] : 0) && e[i] == (matters ? 0 : x[i]));
        }
        end(&s);
    }
    /* A value that is not a number is never held back. */
    draw(1);
    x[3] = NAN;
    selecting s = begin("significance:threshold=2+skip:probability=0.9+budget:bytes=8", 1);
    fast__coder_select(s.coder, x, sent);
    assert_true(isnan(sent[3]) && waiting(&s)[3] == 0);
    end(&s);
}

/* Every entry is sent or waits, to the bit, and about the right part of them waits. */
static void skips_keep_everything(void **state)
{
    int64_t held = 0, there = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        draw(seed);
        selecting s = begin("skip:probability=0.75", seed);
        x[5] = seed == 0 ? NAN : seed == 1 ? INFINITY : x[5];
        fast__coder_select(s.coder, x, sent);
        assert_true(seed > 1 || !isfinite(sent[5])); /* always sent */
        const float *e = waiting(&s);
        for (int i = 0; i < SIZE; i++) {
            assert_true(!isfinite(x[i]) || (sent[i] + e[i] == x[i] && sent[i] * e[i] == 0));
            held += e[i] != 0;
            there += x[i] != 0;
        }
        end(&s);
    }
    assert_true(fabs((double)held / (double)there - 0.75) < 0.02);
}

/* Gradients that a proximal step would undo are dropped; they do not wait. */
static void kkt_drops_what_moves_nothing(void **state)
{
    const float l1 = 2;
    int dropped = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        draw(seed);
        model.last = seed % 3 == 0; /* dropped at the end too */
        selecting s = begin("kkt:l1=2", seed);
        fast__coder_select(s.coder, x, sent);
        for (int i = 0; i < SIZE; i++) {
            const bool moves = w[i] != 0 || fabsf(x[i]) > l1;

            assert_true(waiting(&s)[i] == 0 && sent[i] == (moves ? x[i] : 0));
            dropped += !moves && x[i] != 0;
        }
        end(&s);
    }
    assert_true(dropped > 10);
}

/* Over many vectors everything arrives, at the latest with the last one, whatever encodes it. */
static void nothing_is_lost(void **state)
{
    static const char *const chains[] = {
        "significance:threshold=3",
        "budget:bytes=160",
        "skip:probability=0.9",
        "significance:threshold=1+skip:probability=0.5+budget:bytes=400",
        "significance:threshold=3+entropy",
        "budget:bytes=400+nonzero+entropy",
        "significance:threshold=1+topk:ratio=0.2",
        "skip+int8",
        "significance+sign",
    };

    (void)state;
    for (size_t c = 0; c < sizeof chains / sizeof chains[0]; c++) {
        selecting s = begin(chains[c], 5);
        const bool exact = c < 6; /* elements arrive as they were sent */
        uint8_t *bytes = malloc(fast__coder_bound(s.coder));
        double in[SIZE] = { 0 }, out[SIZE] = { 0 };
        float y[SIZE];

        for (uint64_t step = 0; step < 30; step++) {
            draw(step);
            model.taken = (int64_t)step + 1;
            model.last = step == 29;
            const size_t size = fast__coder_encode(s.coder, (int64_t)step, 0, x, bytes);
            assert_int_equal(fast__coder_decode(s.coder, bytes, size, FAST_DECODE_SET, 1, y),
                             FAST_OK);
            for (int i = 0; i < SIZE; i++) {
                in[i] += (double)x[i];
                out[i] += (double)y[i];
            }
        }
        for (int i = 0; i < SIZE; i++) {
            assert_true(!exact || waiting(&s)[i] == 0);
            if (fabs(in[i] - out[i] - (double)waiting(&s)[i]) > 1e-3 * (1 + fabs(in[i])))
                fail_msg("%s: put in %g, decoded %g, waiting %g", chains[c], in[i], out[i],
                         (double)waiting(&s)[i]);
        }
        free(bytes);
        end(&s);
    }
}

/* An unbiased codec's error is not fed back: only the elements that wait are. */
static void unbiased_codecs_have_no_residual(void **state)
{
    uint8_t *bytes = NULL;

    (void)state;
    draw(4);
    selecting s = begin("significance:threshold=2+qsgd:bits=2", 1);
    bytes = malloc(fast__coder_bound(s.coder));
    (void)!fast__coder_encode(s.coder, 0, 0, x, bytes);
    for (int i = 0; i < SIZE; i++)
        assert_true(waiting(&s)[i] == (0.5f * fabsf(x[i]) >= 2 * fabsf(w[i]) ? 0 : x[i]));
    free(bytes);
    end(&s);
}

/* e <- x + rate e - decoded, whatever encodes it, and wherever selections have moved elements. */
static void residuals_fade(void **state)
{
    static const char *const chains[] = { "decay:rate=0.25+sign", "decay:rate=0.25+topk:ratio=0.1",
                                          "decay:rate=0.25+onebit:group=9+entropy",
                                          "skip:probability=0.5+decay:rate=0.25+int8" };

    (void)state;
    for (size_t c = 0; c < sizeof chains / sizeof chains[0]; c++) {
        selecting s = begin(chains[c], 5);
        uint8_t *bytes = malloc(fast__coder_bound(s.coder));
        double before[SIZE] = { 0 };
        float y[SIZE];

        for (uint64_t step = 0; step < 20; step++) {
            double most = 0;

            draw(2 * step);
            const size_t size = fast__coder_encode(s.coder, (int64_t)step, 0, x, bytes);
            assert_int_equal(fast__coder_decode(s.coder, bytes, size, FAST_DECODE_SET, 1, y),
                             FAST_OK);
            for (int i = 0; i < SIZE; i++) {
                const double e = (double)waiting(&s)[i];

                if (fabs((double)x[i] + 0.25 * before[i] - (double)y[i] - e) > 0.1)
                    fail_msg("%s: %g + %g / 4, decoded %g, residual %g", chains[c], (double)x[i],
                             before[i], (double)y[i], e);
                most = fmax(most, fabs(e));
                before[i] = e;
            }
            assert_true(most > 1);
        }
        free(bytes);
        end(&s);
    }
}

/* Encode 20 vectors by a chain and return their bytes, one after another; the caller frees them. */
static uint8_t *encode_some(const char *spec, int feedback, size_t *size_out)
{
    static const fast_layout layout = { NULL, 0, SIZE };
    fast_chain *chain = NULL;
    fast_coder *coder = NULL;

    assert_int_equal(fast__chain_open(spec, &chain), FAST_OK);
    const fast_coder_options o = {
        .chain = chain, .layout = &layout, .count = SIZE, .feedback = feedback, .model = look
    };
    assert_int_equal(fast__coder_new(&o, &coder), FAST_OK);
    uint8_t *bytes = malloc(20 * fast__coder_bound(coder));
    *size_out = 0;
    for (uint64_t step = 0; step < 20; step++) {
        draw(2 * step);
        *size_out += fast__coder_encode(coder, (int64_t)step, 0, x, bytes + *size_out);
    }
    fast__coder_free(coder);
    fast__chain_close(chain);
    return bytes;
}

/* A residual that does not fade is plain error feedback; one that fades at once is lost. */
static void limits_of_a_decay(void **state)
{
    static const struct {
        const char *spec, *same; /* chains whose bytes are equal */
        int feedback;            /* of the second chain */
    } cases[] = { { "decay:rate=1+topk:ratio=0.1", "topk:ratio=0.1", 1 },
                  { "decay:rate=0+topk:ratio=0.1", "topk:ratio=0.1", 2 },
                  { "decay:rate=0+sign", "sign", 2 } };

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        size_t one, two;
        uint8_t *a = encode_some(cases[c].spec, 1, &one);
        uint8_t *b = encode_some(cases[c].same, cases[c].feedback, &two);

        if (one != two || memcmp(a, b, one) != 0)
            fail_msg("%s differs from %s", cases[c].spec, cases[c].same);
        free(a);
        free(b);
    }
}

/* Options that select everything are lossless, and say so. */
static void limits_are_lossless(void **state)
{
    static const char *const chains[] = { "significance:threshold=0",
                                          "skip:probability=0",
                                          "kkt:l1=0",
                                          "decay:rate=1",
                                          "budget:bytes=5608",
                                          "nonzero" };

    (void)state;
    for (size_t c = 0; c < sizeof chains / sizeof chains[0]; c++) {
        selecting s = begin(chains[c], 5);
        const bool says = (fast__chain_traits(s.chain) & FAST_CODEC_LOSSLESS) != 0;
        uint8_t *bytes = malloc(fast__coder_bound(s.coder));

        draw(6);
        const size_t size = fast__coder_encode(s.coder, 0, 0, x, bytes);
        assert_int_equal(fast__coder_decode(s.coder, bytes, size, FAST_DECODE_SET, 1, sent),
                         FAST_OK);
        assert_memory_equal(x, sent, sizeof x);
        assert_true(says || strncmp(chains[c], "budget", 6) == 0);
        free(bytes);
        end(&s);
    }
}

/* Vectors with many zeros are short, others hardly longer than floats; bytes are checked. */
static void zeros_are_not_sent(void **state)
{
    selecting s = begin("nonzero", 1);
    uint8_t *bytes = malloc(fast__coder_bound(s.coder));
    float thin[SIZE] = { [3] = 1, [500] = NAN };

    (void)state;
    draw(0);
    assert_true(fast__coder_encode(s.coder, 0, 0, x, bytes) <= sizeof x + 2);
    const size_t size = fast__coder_encode(s.coder, 0, 0, thin, bytes);
    assert_true(size < 16);
    assert_int_equal(fast__coder_decode(s.coder, bytes, size, FAST_DECODE_SET, 1, sent), FAST_OK);
    assert_true(sent[3] == 1 && isnan(sent[500]));
    for (size_t i = 0; i < size; i++)
        assert_int_equal(fast__coder_decode(s.coder, bytes, i, FAST_DECODE_SET, 1, sent),
                         FAST_EFORMAT);
    for (int kind = 1; kind < 256; kind++) { /* the byte behind the number of stages */
        bytes[1] = (uint8_t)kind;
        assert_int_equal(fast__coder_decode(s.coder, bytes, size, FAST_DECODE_SET, 1, sent),
                         FAST_EFORMAT);
    }
    free(bytes);
    end(&s);
}

/* Parts in an order that makes no sense, and codecs that need every element. */
static void chains_are_refused(void **state)
{
    static const char *const bad[][2] = {
        { "topk+skip", "must come before topk" },
        { "entropy+skip", "must come before entropy" },
        { "skip+powersgd", "encodes all elements; leave out skip" },
        { "skip+dgc", "encodes all elements" },
        { "skip+vote", "encodes all elements" },
        { "skip+skip+skip+skip+skip", "more than 4 selections" },
        { "skip:p=0.1", "probability" },
        { "budget:bytes=7", "bytes" },
        { "significance:threshold=-1", "threshold" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fast_chain *chain = NULL;

        assert_int_equal(fast__chain_open(bad[i][0], &chain), FAST_EINVAL);
        if (!strstr(fast_error_detail(), bad[i][1]))
            fail_msg("%s: %s", bad[i][0], fast_error_detail());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_take_the_largest),
        cmocka_unit_test(budgets_are_shared),
        cmocka_unit_test(bandwidths_take_time),
        cmocka_unit_test(elements_are_due),
        cmocka_unit_test(significance_takes_what_matters),
        cmocka_unit_test(skips_keep_everything),
        cmocka_unit_test(kkt_drops_what_moves_nothing),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(unbiased_codecs_have_no_residual),
        cmocka_unit_test(residuals_fade),
        cmocka_unit_test(limits_of_a_decay),
        cmocka_unit_test(limits_are_lossless),
        cmocka_unit_test(zeros_are_not_sent),
        cmocka_unit_test(chains_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
