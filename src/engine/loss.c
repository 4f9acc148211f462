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
 * A head is an output with a loss of its own: L = L of the outputs + sum over heads of a_h L_h. Its
 * squares may be of a range of the targets, where several heads answer a row together.
 *
 * Sums are in double, because losses are compared across engines and with other frameworks. log p
 * is y - max - log(sum(exp(y - max))), which neither overflows nor loses small probabilities.
 */
#include "engine/loss.h"

#include "engine/class_range.h"
#include "engine/experts.h"

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

/* Multiple choice learning (Guzman-Rivera, Batra and Kohli 2012): of the members whose scores are
 * y, one behind the other, the best of each sample alone has a loss and a gradient. */
static double best_member(const fast_node *head, const fast_batch *batch, const float *y, float *dy)
{
    const int64_t K = head->columns[1], members = head->count / K;
    const fast_graph member = { .label_smoothing = head->b, .outputs = K };
    double sum = 0;

    FAST_ASSERT(K > 0 && members * K == head->count);
    for (int64_t i = 0; i < batch->count; i++) {
        const float *t = batch->targets ? batch->targets + i * K : NULL, *own = y + i * head->count;
        const int32_t label = t ? 0 : batch->labels[i];
        double least = INFINITY;
        int64_t best = 0;

        for (int64_t m = 0; m < members; m++) {
            const double loss = cross_entropy_row(&member, NULL, own + m * K, label, t, 0, NULL);

            best = loss < least ? m : best;
            least = loss < least ? loss : least;
        }
        sum += least;
        if (!dy)
            continue;
        memset(dy + i * head->count, 0, (size_t)head->count * sizeof *dy);
        (void)cross_entropy_row(&member, NULL, own + best * K, label, t,
                                head->a / (float)batch->count, dy + i * head->count + best * K);
    }
    return sum / (double)batch->count;
}

/* Mean squared error over all outputs of a batch; rows of the targets are `stride` apart. */
static double mse_rows(int64_t rows, int64_t columns, const float *y, const float *targets,
                       int64_t stride, float scale, float *dy)
{
    const int64_t count = rows * columns;
    const float slope = scale * (2.0F / (float)count);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const float difference = y[i] - targets[i / columns * stride + i % columns];
        sum += (double)difference * (double)difference;
        if (dy)
            dy[i] = slope * difference;
    }
    return sum / (double)count;
}

/* Mean squared error of the outputs. */
static void mse_run(const fast_graph *graph, fast_pass *pass, const float *y, float *dy)
{
    const fast_batch *batch = pass->batch;
    const int64_t rows = batch->count * graph->positions;
    pass->loss = mse_rows(rows, graph->outputs, y, batch->targets, graph->outputs, 1, dy);
    pass->correct = 0;
    pass->positions = rows;
}

int64_t fast__head_rows(const fast_node *head)
{
    return head->rank == 2 ? head->shape[0] : 1;
}

int64_t fast__head_columns(const fast_node *head)
{
    return head->shape[head->rank - 1];
}

const fast_node *fast__head_answered(const fast_graph *graph)
{
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == FAST_OP_HEAD && graph->nodes[i].loss != FAST_LOSS_BALANCE)
            return &graph->nodes[i];
    return NULL;
}

bool fast__loss_trains(const fast_graph *graph, const fast_pass *pass)
{
    return graph->loss_use == FAST_LOSS_TRAINED ||
           (graph->loss_use == FAST_LOSS_EVALUATED && !pass->train);
}

bool fast__head_counts(const fast_node *head, const fast_pass *pass)
{
    return pass->train &&
           (head->loss == FAST_LOSS_BALANCE || pass->batch->labels || pass->batch->targets);
}

double fast__head_loss(const fast_graph *graph, int node, const fast_pass *pass, const float *y,
                       float *dy)
{
    const fast_node *head = &graph->nodes[node];
    const int64_t positions = fast__head_rows(head), columns = fast__head_columns(head);
    const double weight = (double)head->a;
    FAST_ASSERT(head->loss == FAST_LOSS_BALANCE || pass->batch->labels || pass->batch->targets);
    if (head->loss == FAST_LOSS_BALANCE)
        return weight * fast__balance_loss(head, pass->batch->count, y, head->a, dy);
    if (head->loss == FAST_LOSS_BEST)
        return weight * best_member(head, pass->batch, y, dy);
    if (head->loss == FAST_LOSS_MSE)
        return weight * mse_rows(pass->batch->count * positions, columns, y,
                                 pass->batch->targets + head->columns[0], head->columns[1], head->a,
                                 dy);
    /* The same loss with the head in the place of the outputs. */
    const fast_graph as_outputs = { .nodes = graph->nodes,
                                    .node_count = graph->node_count,
                                    .loss = head->loss,
                                    .label_smoothing = head->b,
                                    .class_weights = graph->class_weights,
                                    .positions = positions,
                                    .outputs = columns };
    fast_pass figures = *pass;
    cross_entropy_run(&as_outputs, &figures, y, dy);
    for (int64_t i = 0; dy && i < pass->batch->count * positions * columns; i++)
        dy[i] *= head->a;
    return weight * figures.loss;
}

/* Dispatch on the loss; a batch without answers, a prediction, has neither loss nor gradient. */
void fast__loss_run(const fast_graph *graph, fast_pass *pass, const float *y, float *dy)
{
    FAST_ASSERT(pass->batch->count > 0);
    FAST_ASSERT(y != NULL);
    FAST_ASSERT(dy == NULL || fast__loss_trains(graph, pass));
    pass->correct = 0;
    pass->positions = 0;
    if (!pass->batch->labels && !pass->batch->targets) {
        FAST_ASSERT(dy == NULL);
        pass->loss = NAN;
    } else if (graph->loss_use == FAST_LOSS_ELSEWHERE) {
        pass->loss = 0;
    } else if (graph->loss == FAST_LOSS_FIGURES) {
        pass->positions = pass->batch->count * graph->positions;
        pass->loss = fast__figures_loss(graph, pass->positions, y, &pass->correct, dy);
    } else if (graph->loss == FAST_LOSS_CROSS_ENTROPY) {
        cross_entropy_run(graph, pass, y, dy);
    } else {
        mse_run(graph, pass, y, dy);
    }
    if (!fast__loss_trains(graph, pass))
        pass->loss *= 0; /* a prediction's stays NAN */
}

/* Check that all labels are below the number of outputs. */
static fast_err check_labels(const fast_batch *batch, int64_t positions, int64_t outputs)
{
    const int64_t count = batch->count * positions;
    for (int64_t i = 0; i < count; i++)
        if (batch->labels[i] < 0 || batch->labels[i] >= outputs)
            return fast__fail(FAST_EINVAL, "label %d of sample %lld is not below %lld",
                              batch->labels[i], (long long)(i / positions), (long long)outputs);
    return FAST_OK;
}

/* Check that the answers of a batch fit the loss of the outputs, and those of heads. */
static fast_err check_answers(const fast_graph *graph, const fast_pass *pass)
{
    const fast_batch *b = pass->batch;
    if (b->labels && graph->loss_use != FAST_LOSS_ELSEWHERE && graph->loss != FAST_LOSS_FIGURES) {
        if (graph->loss == FAST_LOSS_MSE)
            return fast__fail(FAST_EINVAL, "the mean squared error needs targets, not labels");
        FAST_TRY(check_labels(b, graph->positions, graph->outputs));
    }
    for (int i = 0; i < graph->node_count && b->labels && pass->train; i++) {
        const fast_node *head = &graph->nodes[i];
        if (head->op != FAST_OP_HEAD || head->loss == FAST_LOSS_BALANCE)
            continue;
        if (head->loss == FAST_LOSS_MSE)
            return fast__fail(FAST_EINVAL, "a head with the mean squared error needs targets, not "
                                           "labels");
        FAST_TRY(check_labels(b, fast__head_rows(head),
                              head->loss == FAST_LOSS_BEST ? head->columns[1]
                                                           : fast__head_columns(head)));
    }
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
    const bool inputs = pass->phase == FAST_PASS_INPUTS, weights = pass->phase == FAST_PASS_WEIGHTS;

    if (pass->phase != FAST_PASS_WHOLE && (!train || !pass->train))
        return fast__fail(FAST_EINVAL, "phases need a program and a pass for training");
    if (((pass->phase == FAST_PASS_FORWARD || inputs) && pass->grad) ||
        ((pass->phase == FAST_PASS_BACKWARD || weights) && !pass->grad))
        return fast__fail(FAST_EINVAL, "the gradient belongs to the backward phase");
    if (pass->inputs_grad && ((!pass->grad && !inputs) || weights || !graph->input_grad))
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
    if (pass->phase != FAST_PASS_WHOLE && pass->phase != FAST_PASS_FORWARD)
        return FAST_OK; /* the forward phase has checked the batch */
    if (!b->labels && !b->targets && !pass->outputs_grad && pass->grad)
        return fast__fail(FAST_EINVAL, "gradients need labels or targets");
    FAST_TRY(check_answers(graph, pass));
    if (graph->tokens)
        FAST_TRY(check_tokens(graph, b));
    return FAST_OK;
}
