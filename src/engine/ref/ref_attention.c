/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal multi-head self-attention (Vaswani et al., NIPS 2017), with PyTorch's weights:
 *
 *     q, k, v = x Win' + bin, split in three, each in heads of D = C / heads columns
 *     S[t][s] = q[t] . k[s] / sqrt(D) for s <= t      P = softmax(S), 0 for s > t
 *     z = P v, heads concatenated                     y = z Wout' + bout
 *
 * Backward, per head:  dP = dz v'   dv = P' dz   dS = P (dP - sum(P dP))   dq = dS k / sqrt(D)
 * dk = dS' q / sqrt(D), then through the two linear maps. Saved: qkv, P and z. The whole T x T
 * square is computed; for the lengths this engine is meant for, skipping half would not pay.
 *
 * The core of it, between the two linear maps, is an operator by itself: of split networks.
 */
#include "engine/ref/ref.h"

#include <math.h>
#include <string.h>

/* The letters of the formulas, and the saved arrays. */
typedef struct ref_attention_shape {
    int64_t T, C;     /* positions, and channels of x and y */
    int64_t W;        /* channels of all heads: C, or less with a part of the heads */
    int64_t heads, D; /* heads, and channels of one */
    float scale;      /* 1 / sqrt(D) */
    const float *qkv; /* [n][T][3W] */
    float *p;         /* [n][heads][T][T] */
    float *z;         /* [n][T][W] */
    float *dqkv;      /* [n][T][3W], of the backward pass */
} ref_attention_shape;

/* The letters and saved arrays of a call. */
static ref_attention_shape shape_of(const fast_ref_call *call)
{
    const fast_node *node = call->node;
    ref_attention_shape s = { .T = node->shape[0], .C = node->shape[1], .heads = node->heads };
    s.W = fast__attention_width(call->graph, call->index);
    FAST_ASSERT(s.heads > 0 && s.W % s.heads == 0);
    s.D = s.W / s.heads;
    s.scale = 1.0F / sqrtf((float)s.D);
    s.qkv = call->saved;
    s.p = call->saved + call->n * s.T * 3 * s.W;
    s.z = s.p + call->n * s.heads * s.T * s.T;
    s.dqkv = s.z + call->n * s.T * s.W;
    return s;
}

/* Saved: qkv, P and z, and dqkv for the gradients of the weights. */
static fast_ref_need attention_need(const fast_graph *graph, int index, int64_t batch)
{
    const fast_node *node = &graph->nodes[index];
    const int64_t T = node->shape[0];
    const int64_t W = fast__attention_width(graph, index);
    /* Scratch: dz [n][T][W], dP [T][T]. */
    return (fast_ref_need){ batch * (7 * T * W + node->heads * T * T), batch * T * W + T * T };
}

/* Softmax of row t over s <= t, in place; later positions get 0. */
static void softmax_row(int64_t T, int64_t t, float scale, float *row)
{
    float max = row[0];
    for (int64_t s = 1; s <= t; s++)
        max = row[s] > max ? row[s] : max;
    float sum = 0;
    for (int64_t s = 0; s <= t; s++) {
        row[s] = expf((row[s] - max) * scale);
        sum += row[s];
    }
    for (int64_t s = 0; s <= t; s++)
        row[s] /= sum;
    for (int64_t s = t + 1; s < T; s++)
        row[s] = 0.0F;
}

/* The heads of all samples: z = P v. */
static void heads_forward(const ref_attention_shape *s, int64_t n)
{
    const int64_t wide = 3 * s->W;
    memset(s->p, 0, (size_t)(n * s->heads * s->T * s->T) * sizeof(float));
    memset(s->z, 0, (size_t)(n * s->T * s->W) * sizeof(float));
    for (int64_t i = 0; i < n * s->heads; i++) {
        const float *q = s->qkv + i / s->heads * s->T * wide + i % s->heads * s->D;
        const float *k = q + s->W;
        const float *v = k + s->W;
        float *p = s->p + i * s->T * s->T;
        float *z = s->z + i / s->heads * s->T * s->W + i % s->heads * s->D;
        fast__ref_product(s->T, s->T, s->D, (fast_ref_view){ q, wide, 1 },
                          (fast_ref_view){ k, 1, wide }, p, s->T);
        for (int64_t t = 0; t < s->T; t++)
            softmax_row(s->T, t, s->scale, p + t * s->T);
        fast__ref_product(s->T, s->D, s->T, (fast_ref_view){ p, s->T, 1 },
                          (fast_ref_view){ v, wide, 1 }, z, s->W);
    }
}

/* One linear map, heads sample by sample, one linear map. */
static void attention_forward(fast_ref_call *call)
{
    const ref_attention_shape s = shape_of(call);
    const int64_t rows = call->n * s.T;
    fast__ref_linear(rows, s.C, 3 * s.W, call->x[0], fast__ref_weight(call, FAST_W_WEIGHT),
                     fast__ref_weight(call, FAST_W_BIAS), call->saved);
    heads_forward(&s, call->n);
    fast__ref_linear(rows, s.W, s.C, s.z, fast__ref_weight(call, FAST_W_WEIGHT2),
                     fast__ref_weight(call, FAST_W_BIAS2), call->y);
}

/* One head of one sample: from dz to dq, dk, dv. `ds` is T x T of scratch. */
static void back_head(const ref_attention_shape *s, const float *q, const float *p, const float *dz,
                      float *ds, float *dq)
{
    const int64_t T = s->T;
    const int64_t wide = 3 * s->W;
    const float *k = q + s->W;
    const float *v = k + s->W;
    memset(ds, 0, (size_t)(T * T) * sizeof(float));
    fast__ref_product(T, T, s->D, (fast_ref_view){ dz, s->W, 1 }, (fast_ref_view){ v, 1, wide }, ds,
                      T);
    for (int64_t t = 0; t < T; t++) {
        float dot = 0;
        for (int64_t i = 0; i < T; i++)
            dot += p[t * T + i] * ds[t * T + i];
        for (int64_t i = 0; i < T; i++)
            ds[t * T + i] = p[t * T + i] * (ds[t * T + i] - dot) * s->scale;
    }
    fast__ref_product(T, s->D, T, (fast_ref_view){ ds, T, 1 }, (fast_ref_view){ k, wide, 1 }, dq,
                      wide);
    fast__ref_product(T, s->D, T, (fast_ref_view){ ds, 1, T }, (fast_ref_view){ q, wide, 1 },
                      dq + s->W, wide);
    fast__ref_product(T, s->D, T, (fast_ref_view){ p, 1, T }, (fast_ref_view){ dz, s->W, 1 },
                      dq + 2 * s->W, wide);
}

/* The heads of all samples: dz to dqkv, which is added to. `ds` is T x T of scratch. */
static void heads_backward(const ref_attention_shape *s, int64_t n, const float *dz, float *ds,
                           float *dqkv)
{
    for (int64_t i = 0; i < n * s->heads; i++) {
        const int64_t at = i / s->heads * s->T * 3 * s->W + i % s->heads * s->D;
        back_head(s, s->qkv + at, s->p + i * s->T * s->T,
                  dz + i / s->heads * s->T * s->W + i % s->heads * s->D, ds, dqkv + at);
    }
}

/* The second linear map, the heads, then the first linear map. */
static void attention_backward(fast_ref_call *call)
{
    const ref_attention_shape s = shape_of(call);
    const int64_t rows = call->n * s.T;
    const int64_t wide = 3 * s.W;
    float *dz = call->scratch;
    float *ds = dz + rows * s.W;
    memset(dz, 0, (size_t)(rows * s.W) * sizeof(float));
    memset(s.dqkv, 0, (size_t)(rows * wide) * sizeof(float));
    fast__ref_linear_dx(rows, s.W, s.C, call->dy, fast__ref_weight(call, FAST_W_WEIGHT2), dz);
    heads_backward(&s, call->n, dz, ds, s.dqkv);
    if (call->dx[0])
        fast__ref_linear_dx(rows, s.C, wide, s.dqkv, fast__ref_weight(call, FAST_W_WEIGHT),
                            call->dx[0]);
}

/* Both linear maps. */
static void attention_weights(fast_ref_call *call)
{
    const ref_attention_shape s = shape_of(call);
    const int64_t rows = call->n * s.T;
    fast__ref_linear_dw(rows, s.W, s.C, call->dy, s.z, fast__ref_grad(call, FAST_W_WEIGHT2),
                        fast__ref_grad(call, FAST_W_BIAS2));
    fast__ref_linear_dw(rows, s.C, 3 * s.W, s.dqkv, call->x[0], fast__ref_grad(call, FAST_W_WEIGHT),
                        fast__ref_grad(call, FAST_W_BIAS));
}

const fast_ref_op fast__ref_attention = { .need = attention_need,
                                          .forward = attention_forward,
                                          .backward = attention_backward,
                                          .weights = attention_weights };

/* The letters of the core: its input is qkv, its output z. */
static ref_attention_shape core_of(const fast_ref_call *call)
{
    const fast_node *node = call->node;
    ref_attention_shape s = {
        .T = node->shape[0], .C = node->shape[1], .W = node->shape[1], .heads = node->heads
    };
    FAST_ASSERT(s.heads > 0 && s.W % s.heads == 0);
    s.D = s.W / s.heads;
    s.scale = 1.0F / sqrtf((float)s.D);
    s.qkv = call->x[0];
    s.p = call->saved;
    s.z = call->y;
    return s;
}

/* Saved: P. Scratch: dP. */
static fast_ref_need core_need(const fast_graph *graph, int index, int64_t batch)
{
    const fast_node *node = &graph->nodes[index];
    const int64_t T = node->shape[0];
    return (fast_ref_need){ batch * node->heads * T * T, T * T };
}

static void core_forward(fast_ref_call *call)
{
    const ref_attention_shape s = core_of(call);
    heads_forward(&s, call->n);
}

static void core_backward(fast_ref_call *call)
{
    const ref_attention_shape s = core_of(call);
    if (call->dx[0])
        heads_backward(&s, call->n, call->dy, call->scratch, call->dx[0]);
}

const fast_ref_op fast__ref_attention_core = { core_need, core_forward, core_backward };
