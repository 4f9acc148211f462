/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling of [C, H, W]:
 *
 *     max      y = largest of a window; the first among equals gets the gradient; NaN wins, padding
 *              never does
 *     avg      y = sum of a window / (kh kw): padding counts as zeros
 *     global   y[c] = mean over H, W; of a sequence [T, C], mean over T
 *
 * Max saves, per output, the index of the winner in its channel. Windows that lie wholly in the
 * padding do not exist: padding is smaller than the window.
 */
#include "engine/ref/ref.h"

#include <math.h>

/* A window clipped to the input. */
typedef struct ref_window {
    int64_t y, y_end, x, x_end; /* rows [y, y_end) and columns [x, x_end) */
    int64_t y_step, x_step;     /* dilation */
} ref_window;

/* Set the first and the end input row (or column) of output o, in steps of the dilation. */
static void clip(int64_t o, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                 int64_t size, int64_t *first, int64_t *end)
{
    int64_t i = o * stride - pad;
    const int64_t stop = i + (kernel - 1) * dilation + 1;
    if (i < 0)
        i += (-i + dilation - 1) / dilation * dilation;
    *first = i;
    *end = stop < size ? stop : size;
}

/* Return the window of one output. */
static ref_window window_of(const fast_node *node, const fast_node *in, int64_t oy, int64_t ox)
{
    ref_window w;
    w.y_step = node->dilation[0] > 0 ? node->dilation[0] : 1;
    w.x_step = node->dilation[1] > 0 ? node->dilation[1] : 1;
    clip(oy, node->kernel[0], node->stride[0], node->pad[0], w.y_step, in->shape[1], &w.y,
         &w.y_end);
    clip(ox, node->kernel[1], node->stride[1], node->pad[1], w.x_step, in->shape[2], &w.x,
         &w.x_end);
    return w;
}

/* Max saves the winners. */
static fast_ref_need max_need(const fast_graph *graph, int index, int64_t batch)
{
    return (fast_ref_need){ batch * graph->nodes[index].count, 0 };
}

/* Return the index of the largest value of a window in its channel. */
static int32_t winner(const ref_window *w, int64_t width, const float *x)
{
    int64_t best = w->y * width + w->x;
    for (int64_t iy = w->y; iy < w->y_end; iy += w->y_step)
        for (int64_t ix = w->x; ix < w->x_end; ix += w->x_step) {
            const int64_t at = iy * width + ix;
            if (x[at] > x[best] || (isnan(x[at]) && !isnan(x[best])))
                best = at;
        }
    return (int32_t)best;
}

/* Save the winner of every window. */
static void max_forward(fast_ref_call *call)
{
    const fast_node *node = call->node;
    const int64_t plane = call->in->shape[1] * call->in->shape[2];
    int32_t *won = (int32_t *)(void *)call->saved;
    int64_t i = 0;
    for (int64_t c = 0; c < call->n * node->shape[0]; c++)
        for (int64_t oy = 0; oy < node->shape[1]; oy++)
            for (int64_t ox = 0; ox < node->shape[2]; ox++, i++) {
                const ref_window w = window_of(node, call->in, oy, ox);
                won[i] = winner(&w, call->in->shape[2], call->x[0] + c * plane);
                call->y[i] = call->x[0][c * plane + won[i]];
            }
}

/* The gradient of an output goes to its winner. */
static void max_backward(fast_ref_call *call)
{
    const int64_t plane = call->in->shape[1] * call->in->shape[2];
    const int64_t out = call->node->shape[1] * call->node->shape[2];
    const int32_t *won = (const int32_t *)(const void *)call->saved;
    if (!call->dx[0])
        return;
    for (int64_t c = 0; c < call->n * call->node->shape[0]; c++)
        for (int64_t i = c * out; i < (c + 1) * out; i++)
            call->dx[0][c * plane + won[i]] += call->dy[i];
}

const fast_ref_op fast__ref_max_pool = { max_need, max_forward, max_backward };

/* Average forward (dx == NULL) or backward, which differ only in the direction of the inner
 * line. */
static void average(const fast_ref_call *call, const float *x, float *y, const float *dy, float *dx)
{
    const fast_node *node = call->node;
    const int64_t width = call->in->shape[2];
    const int64_t plane = call->in->shape[1] * width;
    const float scale = 1.0F / (float)(node->kernel[0] * node->kernel[1]);
    int64_t i = 0;
    for (int64_t c = 0; c < call->n * node->shape[0]; c++)
        for (int64_t oy = 0; oy < node->shape[1]; oy++)
            for (int64_t ox = 0; ox < node->shape[2]; ox++, i++) {
                const ref_window w = window_of(node, call->in, oy, ox);
                float sum = 0;
                for (int64_t iy = w.y; iy < w.y_end; iy += w.y_step)
                    for (int64_t ix = w.x; ix < w.x_end; ix += w.x_step) {
                        if (dx)
                            dx[c * plane + iy * width + ix] += dy[i] * scale;
                        else
                            sum += x[c * plane + iy * width + ix];
                    }
                if (!dx)
                    y[i] = sum * scale;
            }
}

/* y = the mean of each window. */
static void avg_forward(fast_ref_call *call)
{
    average(call, call->x[0], call->y, NULL, NULL);
}

/* dx += dy / window at every pixel of it. */
static void avg_backward(fast_ref_call *call)
{
    if (call->dx[0])
        average(call, NULL, NULL, call->dy, call->dx[0]);
}

const fast_ref_op fast__ref_avg_pool = { NULL, avg_forward, avg_backward };

/* Images are [C][pixels], sequences [T][C]: strides of the averaged elements and of the
 * channels. */
typedef struct ref_global_shape {
    int64_t count, step;            /* averaged elements, and the distance between them */
    int64_t channels, channel_step; /* channels, and the distance between them */
} ref_global_shape;

/* The strides of an image or a sequence. */
static ref_global_shape global_of(const fast_node *in)
{
    FAST_ASSERT(in->rank == 2 || in->rank == 3);
    if (in->rank == 2)
        return (ref_global_shape){ in->shape[0], in->shape[1], in->shape[1], 1 };
    const int64_t pixels = in->shape[1] * in->shape[2];
    return (ref_global_shape){ pixels, 1, in->shape[0], pixels };
}

/* y[c] = the mean over positions, summed in double. */
static void global_forward(fast_ref_call *call)
{
    const ref_global_shape s = global_of(call->in);
    for (int64_t i = 0; i < call->n; i++)
        for (int64_t c = 0; c < s.channels; c++) {
            const float *x = call->x[0] + i * call->in->count + c * s.channel_step;
            double sum = 0;
            for (int64_t p = 0; p < s.count; p++)
                sum += (double)x[p * s.step];
            call->y[i * s.channels + c] = (float)(sum / (double)s.count);
        }
}

/* dx += dy / positions at every position. */
static void global_backward(fast_ref_call *call)
{
    const ref_global_shape s = global_of(call->in);
    if (!call->dx[0])
        return;
    for (int64_t i = 0; i < call->n; i++)
        for (int64_t c = 0; c < s.channels; c++) {
            float *dx = call->dx[0] + i * call->in->count + c * s.channel_step;
            const float share = call->dy[i * s.channels + c] / (float)s.count;
            for (int64_t p = 0; p < s.count; p++)
                dx[p * s.step] += share;
        }
}

const fast_ref_op fast__ref_global_pool = { NULL, global_forward, global_backward };
