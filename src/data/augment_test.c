/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: augmentation does what its words say, and the same for the same epoch and sample. Method:
 * images with a pixel for every position, so that where each came from can be read off.
 */
#include "data/augment.h"

#include "data/make.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { C = 2, H = 5, W = 7, FEATURES = C * H * W };

static fast_data *images(void)
{
    const fast_data like = {
        .count = 1, .rank = 3, .shape = { C, H, W }, .dtype = FAST_F32, .classes = 1
    };
    fast_data *data;
    assert_int_equal(fast__data_make(&like, &data), FAST_OK);
    return data;
}

static void number(float *x)
{
    for (int i = 0; i < FEATURES; i++)
        x[i] = (float)(i + 1);
}

static void apply(const fast_data *data, const char *text, uint64_t epoch, uint32_t sample,
                  float *x)
{
    fast_augment augment;
    float scratch[FEATURES];
    assert_int_equal(fast__augment_parse(text, data, &augment), FAST_OK);
    assert_true(fast__augment_any(&augment));
    number(x);
    fast__augment_apply(&augment, data, 7, epoch, sample, x, scratch);
}

static void shift_moves_both_ways(void **state)
{
    (void)state;
    fast_data *data = images();
    data->mean[0] = data->mean[1] = 2;
    data->scale[0] = 0.5f;
    data->scale[1] = 3; /* the border is the normalised 0: -1 and -6 */
    int seen[5][5] = { { 0 } };
    for (uint32_t sample = 0; sample < 1000; sample++) {
        float x[FEATURES], base[FEATURES];
        apply(data, "shift:2", 3, sample, x);
        number(base);
        int found = 0;
        for (int dy = -2; dy <= 2; dy++) {
            for (int dx = -2; dx <= 2; dx++) {
                bool same = true;
                for (int i = 0; i < FEATURES; i++) {
                    const int c = i / (H * W), h = i / W % H - dy, w = i % W - dx;
                    const bool inside = h >= 0 && h < H && w >= 0 && w < W;
                    const float want = inside ? base[c * H * W + h * W + w] : c == 0 ? -1 : -6;
                    same = same && x[i] == want;
                }
                seen[dy + 2][dx + 2] += same;
                found += same;
            }
        }
        assert_int_equal(found, 1);
    }
    for (int i = 0; i < 25; i++)
        assert_in_range(seen[i / 5][i % 5], 15, 75); /* 40 expected */
    fast_data_free(data);
}

static void flip_mirrors_half(void **state)
{
    (void)state;
    fast_data *data = images();
    int flipped = 0;
    for (uint32_t sample = 0; sample < 1000; sample++) {
        float x[FEATURES];
        apply(data, "flip", 0, sample, x);
        const bool mirror = x[0] != 1;
        flipped += mirror;
        for (int i = 0; i < FEATURES; i++)
            assert_true(x[i] == (float)(mirror ? i / W * W + W - 1 - i % W + 1 : i + 1));
    }
    assert_in_range(flipped, 430, 570);
    fast_data_free(data);
}

/* The image is linear in row and column, so a stretched window is too: corners tell which. */
static void crop_stretches_a_window(void **state)
{
    (void)state;
    fast_data *data = images();
    int seen[3][3] = { { 0 } };
    for (uint32_t sample = 0; sample < 500; sample++) {
        float x[FEATURES];
        apply(data, "crop:2", 1, sample, x);
        const int top = ((int)x[0] - 1) / W, left = ((int)x[0] - 1) % W;
        assert_in_range(top, 0, 2);
        assert_in_range(left, 0, 2);
        seen[top][left]++;
        const float last = (float)((top + H - 3) * W + left + W - 3 + 1);
        assert_true(fabsf(x[H * W - 1] - last) < 1e-4f);
        for (int h = 0; h < H; h++) {
            for (int w = 0; w < W; w++) {
                const float y = (float)top + (float)(h * (H - 3)) / (H - 1);
                const float z = (float)left + (float)(w * (W - 3)) / (W - 1);
                assert_true(fabsf(x[h * W + w] - (y * W + z + 1)) < 1e-4f);
            }
        }
    }
    for (int i = 0; i < 9; i++)
        assert_true(seen[i / 3][i % 3] > 20);
    fast_data_free(data);
}

static void noise_has_its_deviation(void **state)
{
    (void)state;
    fast_data *data = images();
    double sum = 0, squares = 0;
    for (uint32_t sample = 0; sample < 200; sample++) {
        float x[FEATURES];
        apply(data, "noise:0.5", 2, sample, x);
        for (int i = 0; i < FEATURES; i++) {
            const double d = (double)x[i] - (i + 1);
            sum += d;
            squares += d * d;
        }
    }
    const double n = 200.0 * FEATURES;
    assert_true(fabs(sum / n) < 0.02 && fabs(sqrt(squares / n) - 0.5) < 0.02);
    fast_data_free(data);
}

static void epoch_and_sample_decide(void **state)
{
    (void)state;
    fast_data *data = images();
    const char *all = "shift:2+flip+crop:2+noise:0.1";
    float a[FEATURES], b[FEATURES];
    apply(data, all, 3, 4, a);
    apply(data, all, 3, 4, b);
    assert_memory_equal(a, b, sizeof a);
    apply(data, all, 4, 4, b);
    assert_memory_not_equal(a, b, sizeof a);
    apply(data, all, 3, 5, b);
    assert_memory_not_equal(a, b, sizeof a);
    fast_data_free(data);
}

static void words_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *word;
    } cases[] = { { "shfit:2", "shift" },   { "shift", "needs a value" }, { "shift:5", "0 to 4" },
                  { "shift:-1", "0 to 4" }, { "flip:1", "not take" },     { "crop:9", "0 to 4" },
                  { "noise:-1", "noise" },  { "noise:nan", "noise" },     { "flip+", "augment" },
                  { "+flip", "augment" },   { "shift:2+crop:x", "crop" } };
    fast_data *data = images();
    fast_augment augment;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(fast__augment_parse(cases[i].text, data, &augment), FAST_EINVAL);
        if (strstr(fast_error_detail(), cases[i].word) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", fast_error_detail(), cases[i].word);
    }
    data->tokens = true;
    assert_int_equal(fast__augment_parse("noise:1", data, &augment), FAST_EINVAL);
    assert_int_equal(fast__augment_parse(NULL, data, &augment), FAST_OK);
    assert_false(fast__augment_any(&augment));
    fast_data_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shift_moves_both_ways),   cmocka_unit_test(flip_mirrors_half),
        cmocka_unit_test(crop_stretches_a_window), cmocka_unit_test(noise_has_its_deviation),
        cmocka_unit_test(epoch_and_sample_decide), cmocka_unit_test(words_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
