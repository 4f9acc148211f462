/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the loss of classes that are split is the cross-entropy of all of them, with its gradient
 * and its number of right answers.
 *
 * Method: random logits of V classes in T ranges of unequal size, with and without label smoothing,
 * against the loss of the whole rows. Logits of 200 would overflow without the largest.
 */
#include "engine/class_range.h"

#include "engine/loss.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ROWS = 9, V = 11, T = 3 };

/* Compare at one smoothing and size of the logits. */
static void check(float smoothing, float spread)
{
    float z[ROWS * V], right[ROWS * V], figures[ROWS * T * FAST_FIGURES], own[T][ROWS];
    int32_t labels[ROWS];
    fast_rng rng;
    fast__rng_init(&rng, 3, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < ROWS * V; i++)
        z[i] = spread * (2 * fast__rng_uniform(&rng) - 1);
    for (int r = 0; r < ROWS; r++)
        labels[r] = r * 5 % V;
    fast_node node = { .rank = 1, .shape = { V }, .count = V, .columns = { 0, V } };
    fast_graph whole = { .nodes = &node,
                         .node_count = 1,
                         .label_smoothing = smoothing,
                         .positions = 1,
                         .outputs = V },
               parts = whole;
    fast_batch batch = { .count = ROWS, .labels = labels };
    fast_pass pass = { .batch = &batch, .train = true };
    fast__loss_run(&whole, &pass, z, right);
    for (int t = 0; t < T; t++) {
        const int64_t first = t * V / T, K = (t + 1) * V / T - first;
        float slice[ROWS * V], f[ROWS * FAST_FIGURES];
        for (int64_t i = 0; i < ROWS * K; i++)
            slice[i] = z[i / K * V + first + i % K];
        fast__class_figures(ROWS, K, first, slice, labels, own[t], f);
        for (int i = 0; i < ROWS * FAST_FIGURES; i++)
            figures[(i / FAST_FIGURES * T + t) * FAST_FIGURES + i % FAST_FIGURES] = f[i];
    }
    float grad[ROWS * T * FAST_FIGURES];
    int64_t correct = -1;
    parts.outputs = T * FAST_FIGURES;
    const double loss = fast__figures_loss(&parts, ROWS, figures, &correct, grad);
    assert_true(fabs(loss - pass.loss) < 1e-6 * fmax(1, pass.loss));
    assert_int_equal(correct, pass.correct);
    for (int t = 0; t < T; t++) {
        const int64_t first = t * V / T, K = (t + 1) * V / T - first;
        float slice[ROWS * V], f[ROWS * FAST_FIGURES], g[ROWS * FAST_FIGURES], dz[ROWS * V] = { 0 };
        for (int64_t i = 0; i < ROWS * K; i++)
            slice[i] = z[i / K * V + first + i % K];
        for (int i = 0; i < ROWS * FAST_FIGURES; i++) {
            const int at = (i / FAST_FIGURES * T + t) * FAST_FIGURES + i % FAST_FIGURES;
            f[i] = figures[at], g[i] = grad[at];
        }
        fast__class_figures_back(ROWS, K, slice, own[t], f, g, dz);
        for (int64_t i = 0; i < ROWS * K; i++)
            assert_true(fabsf(dz[i] - right[i / K * V + first + i % K]) < 1e-6F);
    }
}

static void split_classes_have_the_loss_of_all(void **state)
{
    (void)state;
    check(0, 2);
    check(0.2F, 2);
    check(0, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(split_classes_have_the_loss_of_all) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
