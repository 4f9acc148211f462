/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring attention (Liu et al. 2023): a shard has the queries of a slice of the positions, and the
 * keys and values of all slices visit it, one in a round; they come from the shard before and move
 * on to the one behind:
 *
 *     round r, shard t:   queries t, keys and values (t - r) mod T
 *
 * A block has [samples][rows][2 W] keys and values, of ceil(P / T) rows; the last ones of a shorter
 * slice are not used. Attention is causal: slices behind that of the queries are passed on only.
 * Saved: two figures of each row and head (engine/block_attention.h), and a row of scores.
 */
#include "engine/block_attention.h"
#include "engine/round_op.h"

#include <math.h>
#include <string.h>

/* The letters: P positions, n samples, own rows from `first` on, W channels in heads of D. */
typedef struct ring_shape {
    int64_t P, W, D, heads, n; /* over all shards, channels, channels of a head, heads, samples */
    int64_t first, rows;       /* own positions */
    int64_t visitor;           /* first position that visits */
    int64_t visitors;          /* number of them */
    int64_t most;              /* rows of a block */
} ring_shape;

static ring_shape shape_of(const fast_round_call *call)
{
    const fast_node *node = &call->graph->nodes[1];
    const int64_t T = call->shards, t = call->shard, u = ((t - call->round) % T + T) % T;
    ring_shape s = { .P = node->columns[1],
                     .W = node->shape[1],
                     .heads = node->heads,
                     .D = node->shape[1] / node->heads,
                     .n = call->samples };

    s.first = t * s.P / T;
    s.rows = (t + 1) * s.P / T - s.first;
    s.visitor = u * s.P / T;
    s.visitors = (u + 1) * s.P / T - s.visitor;
    s.most = (s.P + T - 1) / T;
    FAST_ASSERT(s.rows == node->shape[0] && s.rows <= s.most);
    return s;
}

static int64_t ring_rounds(const fast_round_call *call)
{
    return call->shards;
}

static int64_t ring_next(const fast_round_call *call, int visitor, bool back)
{
    FAST_ASSERT(visitor == 0);
    return (call->shard + (back ? call->shards - 1 : 1)) % call->shards;
}

static int64_t ring_floats(const fast_round_call *call, int visitor)
{
    const ring_shape s = shape_of(call);

    return visitor == 0 ? s.n * s.most * 2 * s.W : 0;
}

static int64_t ring_saved(const fast_round_call *call)
{
    const ring_shape s = shape_of(call);

    return s.n * s.heads * s.rows * 2 + s.most;
}

/* Copy the own keys and values, a gradient of them back. */
static void ring_start(const fast_round_call *call)
{
    const ring_shape s = shape_of(call);

    memset(call->visit[0], 0, (size_t)ring_floats(call, 0) * sizeof(float));
    for (int64_t i = 0; i < s.n; i++)
        for (int64_t r = 0; r < s.rows; r++)
            memcpy(call->visit[0] + (i * s.most + r) * 2 * s.W,
                   call->x + (i * s.rows + r) * 3 * s.W + s.W, (size_t)(2 * s.W) * sizeof(float));
}

static void ring_finish(const fast_round_call *call)
{
    const ring_shape s = shape_of(call);

    for (int64_t i = 0; i < s.n; i++)
        for (int64_t r = 0; r < s.rows; r++)
            memcpy(call->dx + (i * s.rows + r) * 3 * s.W + s.W,
                   call->visit_grad[0] + (i * s.most + r) * 2 * s.W,
                   (size_t)(2 * s.W) * sizeof(float));
}

static fast_attention_block block_of(const ring_shape *s)
{
    return (fast_attention_block){ .queries = s->rows,
                                   .keys = s->visitors,
                                   .D = s->D,
                                   .ahead = s->first - s->visitor,
                                   .q_stride = 3 * s->W,
                                   .kv_stride = 2 * s->W,
                                   .z_stride = s->W,
                                   .scale = 1.0F / sqrtf((float)s->D) };
}

/* Where a head of a sample is. */
typedef struct ring_head {
    int64_t q, kv, z, stats; /* floats from the start of each */
} ring_head;

static ring_head head_at(const ring_shape *s, int64_t i)
{
    const int64_t sample = i / s->heads, column = i % s->heads * s->D;

    return (ring_head){ .q = sample * s->rows * 3 * s->W + column,
                        .kv = sample * s->most * 2 * s->W + column,
                        .z = sample * s->rows * s->W + column,
                        .stats = i * s->rows * 2 };
}

static void ring_forward(const fast_round_call *call)
{
    const ring_shape s = shape_of(call);
    const fast_attention_block block = block_of(&s);
    const int64_t count = s.n * s.heads * s.rows;
    float *row = call->saved + 2 * count;

    if (call->round == 0) {
        memset(call->y, 0, (size_t)(s.n * s.rows * s.W) * sizeof(float));
        for (int64_t i = 0; i < count; i++)
            call->saved[2 * i] = -INFINITY, call->saved[2 * i + 1] = 0;
    }
    for (int64_t i = 0; i < s.n * s.heads; i++) {
        const ring_head at = head_at(&s, i);
        const float *k = call->visit[0] + at.kv;

        fast__attention_add(&block, call->x + at.q, k, k + s.W, call->saved + at.stats,
                            call->y + at.z, row);
        if (call->round == call->shards - 1)
            fast__attention_end(&block, call->saved + at.stats, call->y + at.z);
    }
}

/* Before the first round of the backward pass: the second figure of a row becomes dz . z. */
static void begin_back(const fast_round_call *call, const ring_shape *s)
{
    memset(call->dx, 0, (size_t)(s->n * s->rows * 3 * s->W) * sizeof(float));
    for (int64_t i = 0; i < s->n * s->heads; i++) {
        const ring_head at = head_at(s, i);

        for (int64_t r = 0; r < s->rows; r++) {
            const float *z = call->y + at.z + r * s->W, *dz = call->dy + at.z + r * s->W;
            float sum = 0;

            for (int64_t d = 0; d < s->D; d++)
                sum += z[d] * dz[d];
            call->saved[at.stats + 2 * r + 1] = sum;
        }
    }
}

static void ring_backward(const fast_round_call *call)
{
    const ring_shape s = shape_of(call);
    const fast_attention_block block = block_of(&s);

    FAST_ASSERT(call->dx != NULL);
    if (call->round == call->shards - 1)
        begin_back(call, &s);
    for (int64_t i = 0; i < s.n * s.heads; i++) {
        const ring_head at = head_at(&s, i);
        const float *k = call->visit[0] + at.kv;
        float *dk = call->visit_grad[0] + at.kv;

        fast__attention_back(&block, call->x + at.q, k, k + s.W, call->saved + at.stats,
                             call->dy + at.z, call->dx + at.q, dk, dk + s.W);
    }
}

/* Two products of each query and key that it sees. */
static double ring_operations(const fast_round_call *call)
{
    const ring_shape s = shape_of(call);
    const fast_attention_block block = block_of(&s);
    double seen = 0;

    for (int64_t i = 0; i < s.rows; i++)
        seen += (double)fast__attention_sees(&block, i);
    return 4.0 * seen * (double)(s.W * s.n);
}

const fast_round_op fast__ring_attention = {
    .rounds = ring_rounds,
    .next = ring_next,
    .floats = ring_floats,
    .saved = ring_saved,
    .start = ring_start,
    .forward = ring_forward,
    .backward = ring_backward,
    .finish = ring_finish,
    .operations = ring_operations,
};
