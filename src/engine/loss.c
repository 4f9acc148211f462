/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Losses, shared by the engines, on row-major outputs y [rows][K]; a row is a sample, or a position
 * of one.
 *
 *   cross-entropy   p = softmax(y);  L = mean over rows of -sum_k q_k log p_k
 *                   q = (1 - s) t + s / K, with t the one-hot label or the given probabilities and
 *                   s the label smoothing;  dL/dy = (p sum(q) - q) / rows
 *                   with class weights v, in training: v_k q_k for q_k, and the mean is divided by
 *                   the sum of the labels' weights; by the rows if the targets are soft. This is
 *                   CrossEntropyLoss(weight=v, label_smoothing=s) of PyTorch
 *   mean squares    L = mean over rows and k of (y - t)^2;  dL/dy = 2 (y - t) / (rows K)
 *
 * Sums are in double, because losses are compared across engines and with other frameworks. log p
 * is y - max - log(sum(exp(y - max))), which neither overflows nor loses small probabilities.
 */
#include "engine/loss.h"

#include <math.h>
#include <string.h>

/* Strictly greater: the first among equals wins, as in the vector kernels. */
int64_t fast__argmax(int64_t n, const float *y)
{
    FAST_ASSERT(n > 0);
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (y[i] > y[best])
            best = i;
    return best;
}

const float *fast__loss_weights(const fast_graph *graph, const fast_pass *pass)
{
    return pass->train ? graph->class_weights : NULL;
}

double fast__loss_divisor(const fast_graph *graph, const fast_pass *pass)
{
    const float *v = fast__loss_weights(graph, pass);
    const int64_t rows = pass->batch->count * graph->positions;
    double sum = 0;
    if (!v || !pass->batch->labels)
        return (double)rows;
    for (int64_t r = 0; r < rows; r++)
        sum += (double)v[pass->batch->labels[r]];
    return sum;
}

/* The target q_k of a row with its class weight; t NULL: the label is the target. */
static float target_of(const fast_graph *graph, const float *v, const float *t, int32_t label,
                       int64_t k)
{
    const float target = t ? t[k] : k == label ? 1.0F : 0.0F;
    const float floor = graph->label_smoothing / (float)graph->outputs;
    const float q = (1.0F - graph->label_smoothing) * target + floor;
    return v ? v[k] * q : q;
}

/* Return the cross-entropy of one row, and write its gradient if dy is not NULL. `t` may be NULL:
 * then the label is the target. `v` are the class weights, or NULL. */
static double cross_entropy_row(const fast_graph *graph, const float *v, const float *y,
                                int32_t label, const float *t, float scale, float *dy)
{
    const int64_t K = graph->outputs;
    const float max = y[fast__argmax(K, y)];
    double sum = 0;
    for (int64_t k = 0; k < K; k++)
        sum += exp((double)y[k] - (double)max);
    /* log p[k] = y[k] - log_sum, for every k without a second exponential. */
    const double log_sum = log(sum) + (double)max;
    double loss = 0;
    double q_sum = 0;
    for (int64_t k = 0; k < K; k++) {
        const float q = target_of(graph, v, t, label, k);
        q_sum += (double)q;
        if (q != 0.0F)
            loss -= (double)q * ((double)y[k] - log_sum);
    }
    /* q_sum is 1, but for class weights, and soft targets that do not add up to it. */
    for (int64_t k = 0; dy && k < K; k++) {
        const float q = target_of(graph, v, t, label, k);
        const double p = exp((double)y[k] - log_sum);
        dy[k] = (float)(q_sum * p - (double)q) * scale;
    }
    return loss;
}

/* Cross-entropy over all rows of a batch. */
static void cross_entropy_run(const fast_graph *graph, fast_pass *pass, const float *y, float *dy)
{
    const fast_batch *batch = pass->batch;
    const int64_t K = graph->outputs;
    const int64_t rows = batch->count * graph->positions;
    const float *v = fast__loss_weights(graph, pass);
    const double divisor = fast__loss_divisor(graph, pass);
    const float scale = 1.0F / (float)divisor;
    double sum = 0;
    int64_t correct = 0;
    for (int64_t r = 0; r < rows; r++) {
        const float *t = batch->targets ? batch->targets + r * K : NULL;
        const int32_t label = t ? (int32_t)fast__argmax(K, t) : batch->labels[r];
        sum += cross_entropy_row(graph, v, y + r * K, label, t, scale, dy ? dy + r * K : NULL);
        correct += fast__argmax(K, y + r * K) == label;
    }
    pass->loss = sum / divisor;
    pass->correct = correct;
    pass->positions = rows;
}

/* Mean squared error over all outputs of a batch. */
static void mse_run(const fast_graph *graph, fast_pass *pass, const float *y, float *dy)
{
    const fast_batch *batch = pass->batch;
    const int64_t rows = batch->count * graph->positions;
    const int64_t count = rows * graph->outputs;
    const float scale = 2.0F / (float)count;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const float difference = y[i] - batch->targets[i];
        sum += (double)difference * (double)difference;
        if (dy)
            dy[i] = scale * difference;
    }
    pass->loss = sum / (double)count;
    pass->correct = 0;
    pass->positions = rows;
}

/* Dispatch on the loss; a batch without answers, a prediction, has neither loss nor gradient. */
void fast__loss_run(const fast_graph *graph, fast_pass *pass, const float *y, float *dy)
{
    FAST_ASSERT(pass->batch->count > 0);
    FAST_ASSERT(y != NULL);
    if (!pass->batch->labels && !pass->batch->targets) {
        FAST_ASSERT(dy == NULL);
        pass->loss = NAN;
        pass->correct = 0;
        pass->positions = 0;
    } else if (graph->loss == FAST_LOSS_CROSS_ENTROPY) {
        cross_entropy_run(graph, pass, y, dy);
    } else {
        mse_run(graph, pass, y, dy);
    }
}

/* Check that all labels are below the number of outputs. */
static fast_err check_labels(const fast_graph *graph, const fast_batch *batch)
{
    const int64_t count = batch->count * graph->positions;
    for (int64_t i = 0; i < count; i++)
        if (batch->labels[i] < 0 || batch->labels[i] >= graph->outputs)
            return fast__fail(FAST_EINVAL, "label %d of sample %lld is not below %lld",
                              batch->labels[i], (long long)(i / graph->positions),
                              (long long)graph->outputs);
    return FAST_OK;
}

/* Check that all tokens are whole numbers below the vocabulary. */
static fast_err check_tokens(const fast_graph *graph, const fast_batch *batch)
{
    const int64_t features = graph->nodes[0].count;
    const float vocabulary = (float)graph->vocabulary;
    for (int64_t i = 0; i < batch->count * features; i++) {
        const float token = batch->x[i];
        /* Written so that NaN fails, and before a conversion that NaN would make undefined. */
        if (!(token >= 0.0F && token < vocabulary) || token != floorf(token))
            return fast__fail(
                FAST_EINVAL, "token %g of sample %lld is not a whole number below %lld",
                (double)token, (long long)(i / features), (long long)graph->vocabulary);
    }
    return FAST_OK;
}

/* Check that a phase has what it needs, and no more. */
static fast_err check_phase(const fast_graph *graph, bool train, const fast_pass *pass)
{
    if (pass->phase != FAST_PASS_WHOLE && (!train || !pass->train))
        return fast__fail(FAST_EINVAL, "phases need a program and a pass for training");
    if ((pass->phase == FAST_PASS_FORWARD && pass->grad) ||
        (pass->phase == FAST_PASS_BACKWARD && !pass->grad))
        return fast__fail(FAST_EINVAL, "the gradient belongs to the backward phase");
    if (pass->inputs_grad && (!pass->grad || !graph->input_grad))
        return fast__fail(FAST_EINVAL, "the gradient of the inputs needs a backward pass and a "
                                       "graph that asks for it");
    return FAST_OK;
}

/* Sizes and combinations first, then every label and token: nothing is written before all are
 * known to be valid. */
fast_err fast__pass_check(const fast_graph *graph, int64_t batch, bool train, const fast_pass *pass)
{
    FAST_ASSERT(pass->batch != NULL);
    FAST_ASSERT(pass->params != NULL || graph->params.count == 0);
    const fast_batch *b = pass->batch;
    if (b->count < 1 || b->count > batch)
        return fast__fail(FAST_EINVAL, "a batch of %lld samples, compiled for 1 to %lld",
                          (long long)b->count, (long long)batch);
    if (pass->grad && (!train || !pass->train))
        return fast__fail(FAST_EINVAL, "gradients need a program and a pass for training");
    if (b->labels && b->targets)
        return fast__fail(FAST_EINVAL, "a batch has labels or targets, not both");
    FAST_TRY(check_phase(graph, train, pass));
    if (pass->phase == FAST_PASS_BACKWARD) /* the forward phase has checked the batch */
        return FAST_OK;
    if (!b->labels && !b->targets && !pass->outputs_grad && pass->grad)
        return fast__fail(FAST_EINVAL, "gradients need labels or targets");
    if (b->labels && graph->loss == FAST_LOSS_MSE)
        return fast__fail(FAST_EINVAL, "the mean squared error needs targets, not labels");
    if (b->labels)
        FAST_TRY(check_labels(graph, b));
    if (graph->tokens)
        FAST_TRY(check_tokens(graph, b));
    return FAST_OK;
}
