/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/*
 * Inside the reference engine: the arguments of operators, and their table. Activations are row
 * major, one sample after the other: [n][C][H][W], [n][T][C], [n][C].
 *
 * An operator is a file ref_x.c with a constant fast_ref_op. It reads x, the weights and `saved`,
 * and writes y, or adds to dx and overwrites the weights' gradients. It allocates nothing.
 */

/* The arguments of one operator on one batch, for both passes. */
typedef struct fast_ref_call {
    const fast_graph *graph;         /* the program's graph */
    const fast_node *node;           /* the node that is computed */
    const fast_node *in;             /* node of the first input */
    int index;                       /* index of the node */
    const fast_pass *pass;           /* the pass under way */
    int64_t n;                       /* number of samples */
    const float *x[FAST_INPUTS_MAX]; /* inputs */
    float *y;                        /* output */
    const float *dy;                 /* gradient of the output; backward pass only */
    float *dx[FAST_INPUTS_MAX];      /* gradients of the inputs, added to; NULL if not needed */
    float *saved;                    /* the node's memory from forward to backward */
    float *scratch;                  /* nothing in it survives a call */
    float *grad;                     /* gradients of weights, from segment offset `grad_first` on */
    int64_t grad_first;              /* 0: those of the pass */
    bool again;                      /* it is recomputed: statistics have followed already */
    double loss;                     /* out: of a head, weighted; added to that of the pass */
    bool factored; /* out: the weight's gradient left as factors and is not in `grad` */
} fast_ref_call;

/* Floats that a node needs beside its output. */
typedef struct fast_ref_need {
    int64_t saved;   /* from forward to backward */
    int64_t scratch; /* used during one call */
} fast_ref_need;

/* The contract of an operator. */
typedef struct fast_ref_op {
    /* Return its memory for batches of at most `batch`; NULL: none. */
    fast_ref_need (*need)(const fast_graph *graph, int node, int64_t batch);
    /* Compute y = f(x), and save values if pass->train. */
    void (*forward)(fast_ref_call *call);
    /* Add dy df/dx to dx, and set grad = dy df/dw for each weight, unless `weights` does. */
    void (*backward)(fast_ref_call *call);
    /* Set grad = dy df/dw for each weight, behind `backward` and perhaps after other nodes; `saved`
     * is what that has left. NULL: `backward` does both. */
    void (*weights)(fast_ref_call *call);
    /* Of nodes that exchange: the first half, before `forward`, or with `back` before `backward`.
     * Sets *due, unless nothing is due; gradients of weights may be set here. */
    void (*offer)(fast_ref_call *call, bool back, fast_pass_due *due);
} fast_ref_op;

/* The operators; ref.c has the table. */
extern const fast_ref_op fast__ref_dense, fast__ref_conv, fast__ref_embed, fast__ref_dropout;
extern const fast_ref_op fast__ref_max_pool, fast__ref_avg_pool, fast__ref_global_pool;
extern const fast_ref_op fast__ref_relu, fast__ref_leaky_relu, fast__ref_tanh, fast__ref_sigmoid;
extern const fast_ref_op fast__ref_gelu, fast__ref_softmax, fast__ref_batch_norm;
extern const fast_ref_op fast__ref_layer_norm, fast__ref_recurrent, fast__ref_attention;
extern const fast_ref_op fast__ref_add, fast__ref_concat, fast__ref_last, fast__ref_flatten;
extern const fast_ref_op fast__ref_custom, fast__ref_head, fast__ref_experts;
extern const fast_ref_op fast__ref_classes, fast__ref_attention_core, fast__ref_local;
extern const fast_ref_op fast__ref_exchange;

/* Return a weight of the node (FAST_W_...), or NULL if the node lacks it. */
static inline const float *fast__ref_weight(const fast_ref_call *call, int which)
{
    const int64_t s = call->node->weight[which];
    return s < 0 ? NULL : call->pass->params + call->graph->params.segments[s].offset;
}

/* Return the gradient of a weight, or NULL. */
static inline float *fast__ref_grad(const fast_ref_call *call, int which)
{
    const int64_t s = call->node->weight[which];
    return s < 0 ? NULL : call->grad + (call->graph->params.segments[s].offset - call->grad_first);
}

/* Return the number of elements of a weight; 0 if the node lacks it. */
static inline int64_t fast__ref_weight_count(const fast_graph *graph, const fast_node *node,
                                             int which)
{
    const int64_t s = node->weight[which];
    return s < 0 ? 0 : graph->params.segments[s].count;
}

/* A matrix seen through strides: element (i, j) is data[i * row + j * column]. */
typedef struct fast_ref_view {
    const float *data; /* element (0, 0) */
    int64_t row;       /* distance from row to row */
    int64_t column;    /* distance from column to column */
} fast_ref_view;

/* C (m x n, rows `c_row` apart) += A (m x k) B (k x n). */
void fast__ref_product(int64_t m, int64_t n, int64_t k, fast_ref_view a, fast_ref_view b, float *c,
                       int64_t c_row);

/* Compute y = x W' + b; x [rows][in], W [out][in], y [rows][out]; b may be NULL. */
void fast__ref_linear(int64_t rows, int64_t in, int64_t out, const float *x, const float *w,
                      const float *b, float *y);
/* Add dy W to dx. */
void fast__ref_linear_dx(int64_t rows, int64_t in, int64_t out, const float *dy, const float *w,
                         float *dx);
/* Set dw = dy' x and db to the sum of the rows of dy. Either may be NULL. */
void fast__ref_linear_dw(int64_t rows, int64_t in, int64_t out, const float *dy, const float *x,
                         float *dw, float *db);
