/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/*
 * Inside the reference engine: what an operator gets, and the table of operators. Activations are
 * row major, one sample after the other: [n][C][H][W], [n][T][C], [n][C].
 */

/* One operator on one batch. The same struct serves the way there and the way back. */
typedef struct fast_ref_call {
    const fast_graph *graph;         /* of the program */
    const fast_node *node;           /* that is computed */
    const fast_node *in;             /* the first input's node */
    int index;                       /* of the node */
    const fast_pass *pass;           /* that this is a part of */
    int64_t n;                       /* samples */
    const float *x[FAST_INPUTS_MAX]; /* inputs */
    float *y;                        /* output */
    const float *dy;                 /* gradient of the output: backward only */
    float *dx[FAST_INPUTS_MAX];      /* gradients of the inputs, added to; NULL: nobody needs it */
    float *keep;                     /* the node's memory from forward to backward */
    float *scratch;                  /* nothing in it survives a call */
    bool factored; /* out: the weight's gradient went away as factors, and is not in `grad` */
} fast_ref_call;

/* Floats that a node needs beyond its output. */
typedef struct fast_ref_need {
    int64_t keep;    /* from forward to backward */
    int64_t scratch; /* during one call */
} fast_ref_need;

typedef struct fast_ref_op {
    /* What it needs for batches of at most `batch`; NULL: nothing. */
    fast_ref_need (*need)(const fast_graph *graph, int node, int64_t batch);
    /* y = f(x); fills keep when pass->train. */
    void (*forward)(fast_ref_call *call);
    /* dx += dy df/dx, and grad = dy df/dw for each weight. */
    void (*backward)(fast_ref_call *call);
} fast_ref_op;

/* The operators; ref.c has the table. */
extern const fast_ref_op fast__ref_dense, fast__ref_conv, fast__ref_embed, fast__ref_dropout;
extern const fast_ref_op fast__ref_max_pool, fast__ref_avg_pool, fast__ref_global_pool;
extern const fast_ref_op fast__ref_relu, fast__ref_leaky_relu, fast__ref_tanh, fast__ref_sigmoid;
extern const fast_ref_op fast__ref_gelu, fast__ref_softmax, fast__ref_batch_norm;
extern const fast_ref_op fast__ref_layer_norm, fast__ref_recurrent, fast__ref_attention;
extern const fast_ref_op fast__ref_add, fast__ref_concat, fast__ref_last, fast__ref_flatten;
extern const fast_ref_op fast__ref_custom;

/* A weight of the node (FAST_W_...), or NULL where it has none. */
static inline const float *fast__ref_weight(const fast_ref_call *call, int which)
{
    const int64_t s = call->node->weight[which];
    return s < 0 ? NULL : call->pass->params + call->graph->params.segments[s].offset;
}

/* Its gradient. */
static inline float *fast__ref_grad(const fast_ref_call *call, int which)
{
    const int64_t s = call->node->weight[which];
    return s < 0 ? NULL : call->pass->grad + call->graph->params.segments[s].offset;
}

/* Elements of a weight; 0 where the node has none. */
static inline int64_t fast__ref_weight_count(const fast_graph *graph, const fast_node *node,
                                             int which)
{
    const int64_t s = node->weight[which];
    return s < 0 ? 0 : graph->params.segments[s].count;
}

/* A matrix seen through strides: element (i, j) is at data[i * row + j * column]. */
typedef struct fast_ref_view {
    const float *data;
    int64_t row;
    int64_t column;
} fast_ref_view;

/* C (m x n, rows `c_row` apart) += A (m x k) B (k x n). */
void fast__ref_product(int64_t m, int64_t n, int64_t k, fast_ref_view a, fast_ref_view b, float *c,
                       int64_t c_row);

/* The three products of a linear map y = x W' + b; x [rows][in], W [out][in], y [rows][out]. */
void fast__ref_linear(int64_t rows, int64_t in, int64_t out, const float *x, const float *w,
                      const float *b, float *y);
/* dx += dy W. */
void fast__ref_linear_dx(int64_t rows, int64_t in, int64_t out, const float *dy, const float *w,
                         float *dx);
/* dw = dy' x; db = sum of the rows of dy. Either may be NULL. */
void fast__ref_linear_dw(int64_t rows, int64_t in, int64_t out, const float *dy, const float *x,
                         float *dw, float *db);
