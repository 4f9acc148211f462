/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisation. Both compute x^ = (x - mean) / sqrt(var + eps), y = w x^ + b, and in the backward
 * pass, with m elements under one mean and d = w dy:
 *
 *     dx = (d - mean(d) - x^ mean(d x^)) / sqrt(var + eps)      dw = sum(dy x^)      db = sum(dy)
 *
 * Batch norm (Ioffe and Szegedy, ICML 2015) takes mean and variance per channel over samples and
 * pixels, or positions. In training they also update the running statistics, the variance by its
 * unbiased estimate, as PyTorch does: r = (1 - momentum) r + momentum s. Ghost batches (Hoffer et
 * al., NIPS 2017) take statistics over `ghost` consecutive samples at a time (the last group may
 * be smaller); the groups update the running statistics one after the other. Evaluation uses the
 * running statistics. Of a part of the rows or samples in a split network they are those of all
 * shards (engine/pass_parts.h). Layer norm (Ba et al., 2016) takes its own over the last dimension
 * of a row.
 */
#include "engine/pass_parts.h"
#include "engine/ref/ref.h"

#include <math.h>
#include <string.h>

/* The layout of a sample: [outer][channels][inner]. */
typedef struct ref_norm_shape {
    int64_t outer;    /* positions of a sequence; 1 for an image */
    int64_t channels; /* number of statistics */
    int64_t inner;    /* pixels of an image; 1 for a sequence */
    int64_t ghost;    /* samples that share one statistic */
} ref_norm_shape;

/* The layout of a node's samples. */
static ref_norm_shape shape_of(const fast_node *node, int64_t batch)
{
    ref_norm_shape s = { 1, node->shape[0], 1, node->ghost > 0 ? node->ghost : batch };
    if (node->rank == 2) {
        s.outer = node->shape[0];
        s.channels = node->shape[1];
    } else if (node->rank == 3) {
        s.inner = node->shape[1] * node->shape[2];
    }
    return s;
}

/* Saved per group and channel: mean, 1 / sqrt(var + eps); over shards then the number of elements.
 * Scratch: the block of the shard, and those of all. */
static fast_ref_need batch_need(const fast_graph *graph, int index, int64_t batch)
{
    const fast_reshard *how = graph->nodes[index].exchange;
    const ref_norm_shape s = shape_of(&graph->nodes[index], batch);
    const int64_t groups = (batch + s.ghost - 1) / s.ghost;
    return (fast_ref_need){ groups * 2 * s.channels + (how ? 1 : 0),
                            how ? (how->dim + 1) * fast__moments_block(s.channels) : 0 };
}

/* Loop over the positions `at` of channel c in samples [first, end). */
#define FOR_RUNS(s, c, first, end, at)                                                    \
    for (int64_t at_row_ = (first) * (s)->outer; at_row_ < (end) * (s)->outer; at_row_++) \
        for (int64_t at = (at_row_ * (s)->channels + (c)) * (s)->inner,                   \
                     at##_end = at + (s)->inner;                                          \
             at < at##_end; at++)

/* Compute mean and variance of one channel. */
static void moments(const ref_norm_shape *s, int64_t c, int64_t first, int64_t end, const float *x,
                    double *mean_out, double *var_out)
{
    const double m = (double)((end - first) * s->outer * s->inner);
    double sum = 0;
    FOR_RUNS (s, c, first, end, i)
        sum += (double)x[i];
    const double mean = sum / m;
    double squares = 0;
    FOR_RUNS (s, c, first, end, i)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    *mean_out = mean;
    *var_out = squares / m;
}

/* Update a running statistic. */
static void follow(float *running, double value, float momentum)
{
    *running = (float)((1.0 - (double)momentum) * (double)*running + (double)momentum * value);
}

/* Compute y of one channel. */
static void apply(const ref_norm_shape *s, int64_t c, int64_t first, int64_t end, const float *x,
                  float mean, float inverse, float w, float b, float *y)
{
    FOR_RUNS (s, c, first, end, i)
        y[i] = (x[i] - mean) * inverse * w + b;
}

/* Sum dy and dy x^ of one channel. */
static void back_sums(const ref_norm_shape *s, int64_t c, int64_t first, int64_t end,
                      const fast_ref_call *call, const float *saved, double *sum_out,
                      double *dot_out)
{
    double sum = 0;
    double dot = 0;
    FOR_RUNS (s, c, first, end, i) {
        sum += (double)call->dy[i];
        dot += (double)call->dy[i] * (double)((call->x[0][i] - saved[0]) * saved[1]);
    }
    *sum_out = sum;
    *dot_out = dot;
}

/* Add dx of one channel, from the means of dy and of dy x^. */
static void back_apply(const ref_norm_shape *s, int64_t c, int64_t first, int64_t end,
                       const fast_ref_call *call, const float *saved, float sum_mean,
                       float dot_mean)
{
    const float *w = fast__ref_weight(call, FAST_W_WEIGHT);
    const float *x = call->x[0];
    const float scale = saved[1] * (w ? w[c] : 1.0F);
    FOR_RUNS (s, c, first, end, i)
        call->dx[0][i] +=
            scale * (call->dy[i] - sum_mean - (x[i] - saved[0]) * saved[1] * dot_mean);
}

/* Over shards, first half: the moments of the own elements, or the sums of their gradients. */
static void batch_offer(fast_ref_call *call, bool back, fast_pass_due *due)
{
    const ref_norm_shape s = shape_of(call->node, call->n);
    const int64_t C = s.channels;
    const double m = (double)(call->n * s.outer * s.inner);
    float *own = call->scratch;
    float *dw = back ? fast__ref_grad(call, FAST_W_WEIGHT) : NULL;
    float *db = back ? fast__ref_grad(call, FAST_W_BIAS) : NULL;
    for (int64_t c = 0; c < C; c++) {
        double first, second;
        if (back) {
            back_sums(&s, c, 0, call->n, call, call->saved + 2 * c, &first, &second);
        } else {
            moments(&s, c, 0, call->n, call->x[0], &first, &second);
            second *= m;
        }
        own[c] = (float)first;
        own[C + c] = (float)second;
        if (db)
            db[c] = (float)first;
        if (dw)
            dw[c] = (float)second;
    }
    own[2 * C] = (float)m;
    if (!back || call->dx[0])
        *due = (fast_pass_due){ call->index, own, own + fast__moments_block(C) };
}

/* Over shards, second half: the moments of all. Computed again they are those that were saved. */
static void shared_forward(const fast_ref_call *call)
{
    const fast_node *node = call->node;
    const ref_norm_shape s = shape_of(node, call->n);
    const int64_t C = s.channels;
    const float *w = fast__ref_weight(call, FAST_W_WEIGHT);
    const float *b = fast__ref_weight(call, FAST_W_BIAS);
    const float *all = call->scratch + fast__moments_block(C);
    const fast_segment *state = call->graph->state.segments;
    for (int64_t c = 0; c < C; c++) {
        float *saved = call->saved + 2 * c;
        double mean, squares;
        if (!call->again) {
            const double m = fast__moments_join(node->exchange, C, c, all, &mean, &squares);
            follow(call->pass->state + state[node->state[0]].offset + c, mean, node->b);
            follow(call->pass->state + state[node->state[1]].offset + c,
                   squares / (m > 1 ? m - 1 : m), node->b);
            saved[0] = (float)mean;
            saved[1] = (float)(1.0 / sqrt(squares / m + (double)node->a));
            call->saved[2 * C] = (float)m;
        }
        apply(&s, c, 0, call->n, call->x[0], saved[0], saved[1], w ? w[c] : 1.0F, b ? b[c] : 0.0F,
              call->y);
    }
}

static void shared_backward(const fast_ref_call *call)
{
    const ref_norm_shape s = shape_of(call->node, call->n);
    const int64_t C = s.channels;
    const float *all = call->scratch + fast__moments_block(C);
    const double m = (double)call->saved[2 * C];
    for (int64_t c = 0; call->dx[0] && c < C; c++) {
        const double sum = fast__moments_sum(call->node->exchange, C, c, all);
        const double dot = fast__moments_sum(call->node->exchange, C, C + c, all);
        back_apply(&s, c, 0, call->n, call, call->saved + 2 * c, (float)(sum / m),
                   (float)(dot / m));
    }
}

/* Group by group, channel by channel. */
static void batch_forward(fast_ref_call *call)
{
    if (call->node->exchange) {
        shared_forward(call);
        return;
    }
    const fast_node *node = call->node;
    const ref_norm_shape s = shape_of(node, call->n);
    const float *w = fast__ref_weight(call, FAST_W_WEIGHT);
    const float *b = fast__ref_weight(call, FAST_W_BIAS);
    const fast_segment *state = call->graph->state.segments;
    float *mean_run = call->pass->state + state[node->state[0]].offset;
    float *var_run = call->pass->state + state[node->state[1]].offset;
    const int64_t step = call->pass->train ? s.ghost : call->n;
    float *saved = call->saved;
    for (int64_t first = 0; first < call->n; first += step, saved += 2 * s.channels) {
        const int64_t end = first + step < call->n ? first + step : call->n;
        for (int64_t c = 0; c < s.channels; c++) {
            double mean = (double)mean_run[c];
            double var = (double)var_run[c];
            if (call->pass->train) {
                const double m = (double)((end - first) * s.outer * s.inner);
                moments(&s, c, first, end, call->x[0], &mean, &var);
                if (!call->again) {
                    follow(&mean_run[c], mean, node->b);
                    follow(&var_run[c], m > 1 ? var * m / (m - 1) : var, node->b);
                }
            }
            const float inverse = (float)(1.0 / sqrt(var + (double)node->a));
            apply(&s, c, first, end, call->x[0], (float)mean, inverse, w ? w[c] : 1.0F,
                  b ? b[c] : 0.0F, call->y);
            if (call->pass->train) {
                saved[2 * c] = (float)mean;
                saved[2 * c + 1] = inverse;
            }
        }
    }
}

/* Channel by channel, group by group: dw and db sum over all groups. */
static void batch_backward(fast_ref_call *call)
{
    if (call->node->exchange) {
        shared_backward(call);
        return;
    }
    const ref_norm_shape s = shape_of(call->node, call->n);
    float *dw = fast__ref_grad(call, FAST_W_WEIGHT);
    float *db = fast__ref_grad(call, FAST_W_BIAS);
    for (int64_t c = 0; c < s.channels; c++) {
        const float *saved = call->saved + 2 * c;
        double dw_sum = 0;
        double db_sum = 0;
        for (int64_t first = 0; first < call->n; first += s.ghost, saved += 2 * s.channels) {
            const int64_t end = first + s.ghost < call->n ? first + s.ghost : call->n;
            double sum, dot;
            back_sums(&s, c, first, end, call, saved, &sum, &dot);
            dw_sum += dot;
            db_sum += sum;
            if (!call->dx[0])
                continue;
            const double m = (double)((end - first) * s.outer * s.inner);
            back_apply(&s, c, first, end, call, saved, (float)(sum / m), (float)(dot / m));
        }
        if (dw)
            dw[c] = (float)dw_sum;
        if (db)
            db[c] = (float)db_sum;
    }
}

const fast_ref_op fast__ref_batch_norm = {
    .need = batch_need, .forward = batch_forward, .backward = batch_backward, .offer = batch_offer
};

/* Saved per row: mean, 1 / sqrt(var + eps). */
static fast_ref_need layer_need(const fast_graph *graph, int index, int64_t batch)
{
    const fast_node *node = &graph->nodes[index];
    return (fast_ref_need){ 2 * batch * node->count / node->shape[node->rank - 1], 0 };
}

/* Row by row. */
static void layer_forward(fast_ref_call *call)
{
    const int64_t K = call->node->shape[call->node->rank - 1];
    const float *w = fast__ref_weight(call, FAST_W_WEIGHT);
    const float *b = fast__ref_weight(call, FAST_W_BIAS);
    for (int64_t r = 0; r < call->n * call->node->count / K; r++) {
        const float *x = call->x[0] + r * K;
        double sum = 0;
        for (int64_t k = 0; k < K; k++)
            sum += (double)x[k];
        const double mean = sum / (double)K;
        double squares = 0;
        for (int64_t k = 0; k < K; k++)
            squares += ((double)x[k] - mean) * ((double)x[k] - mean);
        const float middle = (float)mean;
        const float inverse = (float)(1.0 / sqrt(squares / (double)K + (double)call->node->a));
        for (int64_t k = 0; k < K; k++)
            call->y[r * K + k] = (x[k] - middle) * inverse * (w ? w[k] : 1.0F) + (b ? b[k] : 0.0F);
        call->saved[2 * r] = middle;
        call->saved[2 * r + 1] = inverse;
    }
}

/* Add the gradient of one row's input. */
static void layer_row_dx(int64_t K, const float *x, const float *w, const float *dy, float mean,
                         float inverse, float *dx)
{
    double sum = 0;
    double dot = 0;
    for (int64_t k = 0; k < K; k++) {
        const float d = dy[k] * (w ? w[k] : 1.0F);
        sum += (double)d;
        dot += (double)d * (double)((x[k] - mean) * inverse);
    }
    const float sum_mean = (float)(sum / (double)K);
    const float dot_mean = (float)(dot / (double)K);
    for (int64_t k = 0; k < K; k++) {
        const float d = dy[k] * (w ? w[k] : 1.0F);
        dx[k] += inverse * (d - sum_mean - (x[k] - mean) * inverse * dot_mean);
    }
}

/* Row by row; dw and db sum over all rows. */
static void layer_backward(fast_ref_call *call)
{
    const int64_t K = call->node->shape[call->node->rank - 1];
    const float *w = fast__ref_weight(call, FAST_W_WEIGHT);
    float *dw = fast__ref_grad(call, FAST_W_WEIGHT);
    float *db = fast__ref_grad(call, FAST_W_BIAS);
    if (dw)
        memset(dw, 0, (size_t)K * sizeof(float));
    if (db)
        memset(db, 0, (size_t)K * sizeof(float));
    for (int64_t r = 0; r < call->n * call->node->count / K; r++) {
        const float *x = call->x[0] + r * K;
        const float *dy = call->dy + r * K;
        const float mean = call->saved[2 * r];
        const float inverse = call->saved[2 * r + 1];
        for (int64_t k = 0; dw && k < K; k++)
            dw[k] += dy[k] * (x[k] - mean) * inverse;
        for (int64_t k = 0; db && k < K; k++)
            db[k] += dy[k];
        if (call->dx[0])
            layer_row_dx(K, x, w, dy, mean, inverse, call->dx[0] + r * K);
    }
}

const fast_ref_op fast__ref_layer_norm = { layer_need, layer_forward, layer_backward };
