/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cannon's product (1969) of a dense layer, on a grid of p x p shards: y = x W' + b, T = p^2,
 * with x [B][in], W [out][in] and y [B][out] in blocks of p x p. Shard (i, j) computes block (i, j)
 * of y in p rounds, round r with
 *
 *     k = (i + j + r) mod p     y(i, j) += x(i, k) W(j, k)'
 *
 * Then blocks of x move along the row, from (i, j) to (i, j - 1), and those of W along the column,
 * to (i - 1, j). Blocks are owned where round 0 needs them. Backward the blocks move the other way,
 * with their gradients,
 *
 *     dx(i, k) += dy(i, j) W(j, k)     dW(j, k) += dy(i, j)' x(i, k)
 *
 * Messages of a shard: 2 (p - 1) blocks forward, as many with their gradients backward. The bias is
 * whole at each shard, which has the part of its gradient that is of its block of y.
 */
#include "engine/round_op.h"
#include "engine/row.h"

#include <string.h>

/* The letters: block (i, j); rows of x, columns of x and of W, rows of W. */
typedef struct cannon_shape {
    int64_t p, i, j;      /* the grid, and the shard's place */
    int64_t rows, in;     /* of a block of x */
    int64_t first, count; /* own outputs, rows of W */
} cannon_shape;

static int64_t side_of(int64_t shards)
{
    int64_t p = 1;

    while (p * p < shards)
        p++;
    FAST_ASSERT(p * p == shards);
    return p;
}

static cannon_shape shape_of(const fast_round_call *call)
{
    const fast_graph *graph = call->graph;
    const int64_t p = side_of(call->shards), bias = graph->nodes[1].weight[FAST_W_BIAS];
    cannon_shape s = { .p = p, .i = call->shard / p, .j = call->shard % p };

    s.rows = (s.i + 1) * call->samples / p - s.i * call->samples / p;
    s.in = graph->nodes[0].count;
    s.count = graph->nodes[1].count;
    s.first = bias >= 0 ? s.j * graph->params.segments[bias].count / p : 0;
    return s;
}

/* The bias of the own outputs, in the parameters or their gradient; NULL: the layer has no bias. */
static float *bias_of(const fast_round_call *call, const cannon_shape *s, const float *vector)
{
    const int64_t bias = call->graph->nodes[1].weight[FAST_W_BIAS];

    if (bias < 0)
        return NULL;
    return (float *)(uintptr_t)vector + call->graph->params.segments[bias].offset + s->first;
}

static float *weight_of(const fast_round_call *call, const float *vector)
{
    const int64_t weight = call->graph->nodes[1].weight[FAST_W_WEIGHT];

    return (float *)(uintptr_t)vector + call->graph->params.segments[weight].offset;
}

static int64_t cannon_rounds(const fast_round_call *call)
{
    return side_of(call->shards);
}

static int64_t cannon_next(const fast_round_call *call, int visitor, bool back)
{
    const cannon_shape s = shape_of(call);
    const int64_t step = back ? 1 : s.p - 1;

    return visitor == 0 ? s.i * s.p + (s.j + step) % s.p : (s.i + step) % s.p * s.p + s.j;
}

static int64_t cannon_floats(const fast_round_call *call, int visitor)
{
    const cannon_shape s = shape_of(call);

    return visitor == 0 ? s.rows * s.in : s.count * s.in;
}

static int64_t cannon_saved(const fast_round_call *call)
{
    (void)call;
    return 0;
}

static void cannon_start(const fast_round_call *call)
{
    const cannon_shape s = shape_of(call);

    memcpy(call->visit[0], call->x, (size_t)(s.rows * s.in) * sizeof(float));
    memcpy(call->visit[1], weight_of(call, call->w), (size_t)(s.count * s.in) * sizeof(float));
}

static void cannon_finish(const fast_round_call *call)
{
    const cannon_shape s = shape_of(call);

    if (call->dx)
        memcpy(call->dx, call->visit_grad[0], (size_t)(s.rows * s.in) * sizeof(float));
    memcpy(weight_of(call, call->dw), call->visit_grad[1],
           (size_t)(s.count * s.in) * sizeof(float));
}

static void cannon_forward(const fast_round_call *call)
{
    const cannon_shape s = shape_of(call);
    const float *x = call->visit[0], *w = call->visit[1], *bias = bias_of(call, &s, call->w);

    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t o = 0; o < s.count; o++) {
            float *y = call->y + r * s.count + o;

            if (call->round == 0)
                *y = bias ? bias[o] : 0;
            *y += fast__row_dot(s.in, x + r * s.in, w + o * s.in);
        }
}

/* The gradient of the bias, before the first round: zeros but for the own outputs. */
static void begin_back(const fast_round_call *call, const cannon_shape *s)
{
    float *bias = bias_of(call, s, call->dw);

    memset(call->dw, 0, (size_t)call->graph->params.count * sizeof(float));
    for (int64_t r = 0; bias && r < s->rows; r++)
        fast__row_add(s->count, 1, call->dy + r * s->count, bias);
}

static void cannon_backward(const fast_round_call *call)
{
    const cannon_shape s = shape_of(call);
    const float *x = call->visit[0], *w = call->visit[1];
    float *dx = call->visit_grad[0], *dw = call->visit_grad[1];

    FAST_ASSERT(call->dw != NULL);
    if (call->round == s.p - 1)
        begin_back(call, &s);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t o = 0; o < s.count; o++) {
            const float dy = call->dy[r * s.count + o];

            fast__row_add(s.in, dy, w + o * s.in, dx + r * s.in);
            fast__row_add(s.in, dy, x + r * s.in, dw + o * s.in);
        }
}

static double cannon_operations(const fast_round_call *call)
{
    const cannon_shape s = shape_of(call);

    return 2.0 * (double)(s.rows * s.in) * (double)s.count;
}

const fast_round_op fast__cannon = {
    .rounds = cannon_rounds,
    .next = cannon_next,
    .floats = cannon_floats,
    .saved = cannon_saved,
    .start = cannon_start,
    .forward = cannon_forward,
    .backward = cannon_backward,
    .finish = cannon_finish,
    .operations = cannon_operations,
};
