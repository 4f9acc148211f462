/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoders of the public header. Goal: every codec that needs no run is what it is in one; error
 * feedback sends what was left out; wrong options, hostile bytes and missing memory are errors.
 * Method: vectors of two matrices, each codec of the registry with its defaults.
 */
#include "base/memory.h"
#include "codec/codec.h"
#include "fast/codec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 96, BLOCKS = 2 };

static const int64_t rows[BLOCKS] = { 8, 1 }, counts[BLOCKS] = { 64, 32 };

static fast_encoder_options of(const char *codec)
{
    return (fast_encoder_options){ .size = sizeof(fast_encoder_options),
                                   .codec = codec,
                                   .count = COUNT,
                                   .rows = rows,
                                   .counts = counts,
                                   .blocks = BLOCKS,
                                   .seed = 1 };
}

/* Every codec encodes and decodes, or is refused because it needs a run. */
static void test_every_codec(void **state)
{
    float x[COUNT], y[COUNT];
    int made = 0;

    (void)state;
    for (int i = 0; i < COUNT; i++)
        x[i] = sinf((float)i);
    for (const fast_codec *const *codec = fast__codecs; *codec; codec++) {
        const fast_encoder_options options = of((*codec)->name);
        fast_encoder *encoder = NULL;

        if (fast_encoder_open(&options, &encoder)) {
            assert_non_null(strstr(fast_error_detail(), (*codec)->name));
            continue;
        }
        void *bytes = malloc(fast_encoder_bound(encoder));
        const size_t size = fast_encoder_encode(encoder, x, bytes);
        assert_true(size > 0 && size <= fast_encoder_bound(encoder));
        memset(y, 0, sizeof y);
        assert_int_equal(fast_encoder_decode(encoder, bytes, size, 1, y), FAST_OK);
        for (int i = 0; i < COUNT; i++)
            assert_true(isfinite(y[i]));
        assert_int_equal(fast_encoder_decode(encoder, bytes, 1, 1, y), FAST_EFORMAT);
        free(bytes);
        fast_encoder_close(encoder);
        made++;
    }
    assert_true(made >= 10);
}

/* The sum of what is decoded is the sum of what was encoded, but for the residual. */
static void test_error_feedback(void **state)
{
    const fast_encoder_options options = of("topk:ratio=0.1");
    fast_encoder *encoder = NULL;
    float x[COUNT], y[COUNT] = { 0 };

    (void)state;
    for (int i = 0; i < COUNT; i++)
        x[i] = 1.0f + (float)i / COUNT;
    assert_int_equal(fast_encoder_open(&options, &encoder), FAST_OK);
    void *bytes = malloc(fast_encoder_bound(encoder));
    for (int step = 0; step < 100; step++)
        assert_int_equal(
            fast_encoder_decode(encoder, bytes, fast_encoder_encode(encoder, x, bytes), 1, y),
            FAST_OK);
    for (int i = 0; i < COUNT; i++)
        assert_true(fabsf(y[i] / (100 * x[i]) - 1) < 0.3f);
    free(bytes);
    fast_encoder_close(encoder);
}

static void refuse(fast_encoder_options options, const char *part)
{
    fast_encoder *encoder = NULL;

    assert_int_equal(fast_encoder_open(&options, &encoder), FAST_EINVAL);
    assert_null(encoder);
    assert_non_null(strstr(fast_error_detail(), part));
}

static void test_refuses(void **state)
{
    static const int64_t odd[BLOCKS] = { 7, 1 }, few[BLOCKS] = { 64, 31 };
    fast_encoder_options options = of("topk");

    (void)state;
    refuse(of("topq"), "topk");
    refuse(of("significance+topk"), "weights");
    options.count = 0;
    refuse(options, "0 floats");
    options = of("topk");
    options.rows = odd;
    refuse(options, "7 rows");
    options = of("topk");
    options.counts = few;
    refuse(options, "95 floats");
    options = of("topk");
    options.size = 8;
    refuse(options, "8 bytes");
}

static void test_no_memory(void **state)
{
    const fast_encoder_options options = of("topk+lz4");
    fast_encoder *encoder = NULL;
    fast_err err = FAST_ENOMEM;

    (void)state;
    for (int64_t n = 0; err == FAST_ENOMEM; n++) {
        fast__alloc_fail_after(n, true);
        err = fast_encoder_open(&options, &encoder);
        fast__alloc_fail_after(-1, true);
    }
    assert_true(err == FAST_OK || err == FAST_EINVAL); /* a build without lz4 */
    fast_encoder_close(encoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_codec),
        cmocka_unit_test(test_error_feedback),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
