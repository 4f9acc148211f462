/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: losses, the count of right answers, dropout masks and weight norm at their limits, where
 * comparisons with other frameworks do not reach.
 *
 * Method: values worked out by hand; properties (gradients of a row sum to zero, masks are pure
 * functions of their key with the right rate, v stays orthogonal to its gradient).
 */
#include "engine/loss.h"

#include "engine/dropout.h"
#include "engine/weight_norm.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void close_to(double a, double b)
{
    if (!(fabs(a - b) <= 1e-6 * fmax(1.0, fabs(b))))
        fail_msg("%.9g is not %.9g", a, b);
}

static void cross_entropy_by_hand(void **state)
{
    (void)state;
    const fast_graph graph = { .outputs = 2, .positions = 1 };
    const float y[] = { 0, logf(3), 5, 5 }; /* p = 1/4, 3/4; 1/2, 1/2 */
    const int32_t labels[] = { 0, 1 };
    const fast_batch batch = { .count = 2, .labels = labels };
    fast_pass pass = { .batch = &batch };
    float dy[4];
    fast__loss_run(&graph, &pass, y, dy);
    close_to(pass.loss, (log(4) + log(2)) / 2);
    close_to((double)dy[0], (0.25 - 1) / 2);
    close_to((double)dy[1], 0.75 / 2);
    close_to((double)dy[2], 0.5 / 2);
    close_to((double)dy[3], -0.5 / 2);
    /* Sample 0 is wrong; sample 1 is a tie, which goes to the lowest index: also wrong. */
    assert_int_equal(pass.correct, 0);
    assert_int_equal(pass.positions, 2);
}

static void ties_go_to_the_lowest_index(void **state)
{
    (void)state;
    assert_int_equal(fast__argmax(1, (const float[]){ -7 }), 0);
    assert_int_equal(fast__argmax(4, (const float[]){ 1, 3, 3, 3 }), 1);
    assert_int_equal(fast__argmax(3, (const float[]){ -INFINITY, -INFINITY, -FLT_MAX }), 2);
}

/* Outputs of any size neither overflow nor lose the answer. */
static void huge_outputs_stay_finite(void **state)
{
    (void)state;
    const fast_graph graph = { .outputs = 3, .positions = 1, .label_smoothing = 0 };
    const float y[] = { 1e30F, -1e30F, 0, -3e38F, 3e38F, 0 };
    const int32_t labels[] = { 0, 1 };
    const fast_batch batch = { .count = 2, .labels = labels };
    fast_pass pass = { .batch = &batch };
    float dy[6];
    fast__loss_run(&graph, &pass, y, dy);
    assert_true(pass.loss == 0);
    assert_int_equal(pass.correct, 2);
    for (int i = 0; i < 6; i++)
        assert_true(dy[i] == 0);
}

static void smoothing_and_soft_targets(void **state)
{
    (void)state;
    const fast_graph graph = { .outputs = 4, .positions = 2, .label_smoothing = 0.2F };
    const float y[] = { 1, 2, 3, 4, 0, -1, 5, 2 };
    const float soft[] = { 0.1F, 0.2F, 0.3F, 0.4F, 0, 0, 1, 0 };
    const int32_t labels[] = { 3, 2 };
    fast_batch batch = { .count = 1, .targets = soft };
    fast_pass pass = { .batch = &batch };
    float dy[8];
    fast__loss_run(&graph, &pass, y, dy);
    assert_int_equal(pass.correct, 2); /* the largest target is the right answer */
    for (int r = 0; r < 2; r++)
        assert_true(fabsf(dy[4 * r] + dy[4 * r + 1] + dy[4 * r + 2] + dy[4 * r + 3]) < 1e-6F);
    /* A one-hot soft target is a label. */
    const float hot[] = { 0, 0, 0, 1, 0, 0, 1, 0 };
    batch.targets = hot;
    fast__loss_run(&graph, &pass, y, dy);
    const double loss = pass.loss;
    batch = (fast_batch){ .count = 1, .labels = labels };
    fast__loss_run(&graph, &pass, y, NULL);
    close_to(pass.loss, loss);
}

/* A head's loss and gradient are its weight times those of outputs in its place; the loss of
 * outputs that training does not minimise counts in evaluation only. */
static void heads_by_hand(void **state)
{
    (void)state;
    fast_node nodes[3] = { { .op = FAST_OP_INPUT },
                           { .op = FAST_OP_HEAD,
                             .rank = 1,
                             .shape = { 2 },
                             .count = 2,
                             .loss = FAST_LOSS_CROSS_ENTROPY,
                             .a = 0.5F },
                           { .op = FAST_OP_HEAD,
                             .rank = 1,
                             .shape = { 2 },
                             .count = 2,
                             .loss = FAST_LOSS_MSE,
                             .columns = { 1, 3 },
                             .a = 2 } };
    fast_graph graph = { .nodes = nodes,
                         .node_count = 3,
                         .outputs = 2,
                         .positions = 1,
                         .loss_use = FAST_LOSS_EVALUATED };
    const float y[] = { 0, logf(3) }, targets[] = { 9, 1, 2 };
    const int32_t labels[] = { 0 };
    fast_batch batch = { .count = 1, .labels = labels };
    fast_pass pass = { .batch = &batch, .train = true };
    float dy[2];
    close_to(fast__head_loss(&graph, 1, &pass, y, dy), 0.5 * log(4));
    close_to((double)dy[0], 0.5 * (0.25 - 1));
    close_to((double)dy[1], 0.5 * 0.75);
    fast__loss_run(&graph, &pass, y, NULL);
    assert_true(pass.loss == 0 && pass.positions == 1 && pass.correct == 0);
    pass.train = false;
    fast__loss_run(&graph, &pass, y, NULL);
    close_to(pass.loss, log(4));
    batch = (fast_batch){ .count = 1, .targets = targets };
    close_to(fast__head_loss(&graph, 2, &pass, y, dy),
             1 + pow(log(3) - 2, 2)); /* 2 times the mean of two squares */
    close_to((double)dy[0], 2 * (0 - 1));
    close_to((double)dy[1], 2 * (log(3) - 2));
}

static void squares_by_hand(void **state)
{
    (void)state;
    const fast_graph graph = { .outputs = 2, .positions = 1, .loss = FAST_LOSS_MSE };
    const float y[] = { 1, 2, 3, 4 };
    const float targets[] = { 1, 0, 3, 8 };
    const fast_batch batch = { .count = 2, .targets = targets };
    fast_pass pass = { .batch = &batch };
    float dy[4];
    fast__loss_run(&graph, &pass, y, dy);
    close_to(pass.loss, (4.0 + 16.0) / 4);
    close_to((double)dy[0], 0);
    close_to((double)dy[1], 2.0 * 2 / 4);
    close_to((double)dy[3], -2.0 * 4 / 4);
    assert_int_equal(pass.correct, 0);
}

enum { MASK = 40000 };

static void masks_have_their_rate_and_key(void **state)
{
    (void)state;
    static float a[MASK];
    static float b[MASK];
    const uint32_t ids[] = { 9, 1 };
    const fast_batch plain = { .count = 2 };
    const fast_batch named = { .count = 2, .ids = ids };
    const fast_pass pass = { .batch = &plain, .seed = 5, .step = 6 };
    const fast_pass same = { .batch = &named, .seed = 5, .step = 6 };
    const fast_pass next = { .batch = &plain, .seed = 5, .step = 7 };
    fast__dropout_mask(&pass, 3, 1, 0.3F, 0, MASK, a);
    int64_t dropped = 0;
    for (int64_t i = 0; i < MASK; i++) {
        assert_true(a[i] == 0 || a[i] == 1.0F / (1.0F - 0.3F));
        dropped += a[i] == 0;
    }
    /* Five standard deviations of a binomial. */
    assert_true(fabs((double)dropped - 0.3 * MASK) < 5 * sqrt(MASK * 0.3 * 0.7));
    fast__dropout_mask(&same, 3, 1, 0.3F, 0, MASK, b);
    assert_memory_equal(a, b, sizeof(a));
    fast__dropout_mask(&same, 3, 0, 0.3F, 0, MASK, b);
    assert_memory_not_equal(a, b, sizeof(a));
    fast__dropout_mask(&pass, 4, 1, 0.3F, 0, MASK, b);
    assert_memory_not_equal(a, b, sizeof(a));
    fast__dropout_mask(&next, 3, 1, 0.3F, 0, MASK, b);
    assert_memory_not_equal(a, b, sizeof(a));
    /* A shorter mask is the beginning of a longer one. */
    fast__dropout_mask(&pass, 3, 1, 0.3F, 0, 7, b);
    assert_memory_equal(a, b, 7 * sizeof(float));
    fast__dropout_mask(&pass, 3, 1, 0, 0, MASK, b);
    for (int64_t i = 0; i < MASK; i++)
        assert_true(b[i] == 1.0F);
}

static void weight_norm_by_hand(void **state)
{
    (void)state;
    const float v[] = { 3, 4, 0, 0 };
    const float g[] = { 10, 7 };
    const float dw[] = { 1, 2, 5, 6 };
    float w[4];
    float dv[4];
    float dg[2];
    fast__weight_norm_forward(2, 2, v, g, w);
    close_to((double)w[0], 6);
    close_to((double)w[1], 8);
    assert_true(w[2] == 0 && w[3] == 0); /* no direction */
    fast__weight_norm_backward(2, 2, v, g, dw, dv, dg);
    close_to((double)dg[0], 11.0 / 5);
    assert_true(fabsf(dv[0] * v[0] + dv[1] * v[1]) < 1e-5F); /* orthogonal to v */
    close_to((double)dv[0], 10.0 / 5 * (1 - 11.0 / 25 * 3));
    assert_true(dg[1] == 0 && dv[2] == 0 && dv[3] == 0);
    memcpy(w, dw, sizeof(w));
    fast__weight_norm_backward(2, 2, v, g, w, w, dg); /* in place */
    assert_memory_equal(w, dv, sizeof(w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_entropy_by_hand),
        cmocka_unit_test(ties_go_to_the_lowest_index),
        cmocka_unit_test(huge_outputs_stay_finite),
        cmocka_unit_test(smoothing_and_soft_targets),
        cmocka_unit_test(heads_by_hand),
        cmocka_unit_test(squares_by_hand),
        cmocka_unit_test(masks_have_their_rate_and_key),
        cmocka_unit_test(weight_norm_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
