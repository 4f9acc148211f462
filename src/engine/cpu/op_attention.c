/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal multi-head self-attention [T, C] -> [T, C] (the formulas are in attention_simd.c): one
 * product for q, k and v, the heads sample by sample, one product for the output. Saved for the
 * backward pass: q, k, v and the heads' outputs.
 */
#include "engine/cpu/cpu.h"

#include <stdio.h>

/* Products of one position, [rows][lanes]; those of weights sum over lanes, and over positions. */
enum {
    IN,                                /* qkv = Win x */
    OUT,                               /* y = Wout z */
    OUT_DATA,                          /* dz = Wout' dy */
    IN_DATA,                           /* dx = Win' dqkv */
    OUT_W,                             /* dWout = sum of dy z' */
    IN_W = OUT_W + FAST_CPU_SLAB_GEMMS /* dWin = sum of dqkv x' */
};

/* Buffers, T positions of L lanes; the heads have W channels together: C, or less where the node
 * has a part of the heads. */
enum {
    QKV,         /* [T][3 W][L]: queries, keys and values; saved */
    Z,           /* [T][W][L]: outputs of the heads; saved */
    DZ,          /* [T][W][L]: gradient of z */
    DQKV,        /* [T][3 W][L]: gradients of queries, keys and values */
    HEAD,        /* operands of one head and 16 samples, forward */
    HEAD_BACK,   /* the same and the scores' gradients, backward */
    TRANSPOSED,  /* sample-major, for products over lanes */
    SUMS,        /* two vectors a row, for bias gradients */
    PACKED,      /* weights as a sequence's product reads them, of one product at a time, forward */
    PACKED_BACK, /* and backward */
    TERMS        /* of a slab of weights */
};

/* Return the larger of two counts. */
static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Products of q, k, v and the output; memory for the saved values and their gradients. */
static fast_err attention_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const fast_node *node = &compile->graph->nodes[step->node];
    const int64_t T = node->shape[0], C = node->shape[1], L = compile->program->lanes;
    const int64_t W = fast__attention_width(compile->graph, step->node);
    const int64_t D = W / node->heads, row = fast__attention_row(T);
    const int64_t each = FAST_VEC * fast__attention_each(T, D);
    const int64_t panels = fast__attention_panels(T, D);
    const int c = (int)C, w = (int)W, l = (int)L;
    fast_gemm *gemm = step->gemm;

    FAST_ASSERT(node->heads > 0 && W % node->heads == 0);
    gemm[IN] =
        (fast_gemm){ .m = l, .n = 3 * w, .k = c, .lda = l, .ldb = c, .ldc = l, .positions = T };
    gemm[OUT] = (fast_gemm){ .m = l, .n = c, .k = w, .lda = l, .ldb = w, .ldc = l, .positions = T };
    gemm[OUT_DATA] = gemm[OUT];
    gemm[OUT_DATA].trans_b = true;
    gemm[OUT_DATA].n = w;
    gemm[OUT_DATA].k = c;
    gemm[IN_DATA] = gemm[OUT_DATA];
    gemm[IN_DATA].n = gemm[IN_DATA].ldb = c;
    gemm[IN_DATA].k = 3 * w;
    gemm[IN_DATA].accumulate = step->how[0] == FAST_CPU_ADD;
    for (int i = IN; i <= (step->train ? IN_DATA : OUT); i++)
        FAST_TRY(fast__gemm_choose(&gemm[i], compile->plan));
    FAST_TRY(fast__cpu_sequence_memory(compile, step, false, &gemm[IN], 2, &step->buffer[PACKED]));
    FAST_TRY(fast__cpu_sequence_memory(compile, step, true, &gemm[OUT_DATA], 2,
                                       &step->buffer[PACKED_BACK]));
    if (step->train) {
        FAST_TRY(fast__cpu_slab_plan(compile, W, C, T, &gemm[OUT_W]));
        FAST_TRY(fast__cpu_slab_plan(compile, C, 3 * W, T, &gemm[IN_W]));
        FAST_TRY(fast__cpu_scratch_back(
            compile, step,
            larger(fast__cpu_slab_floats(&gemm[IN_W]), fast__cpu_slab_floats(&gemm[OUT_W])),
            &step->buffer[TRANSPOSED]));
        FAST_TRY(fast__cpu_scratch_back(
            compile, step,
            larger(fast__cpu_slab_scratch(&gemm[IN_W]), fast__cpu_slab_scratch(&gemm[OUT_W])),
            &step->buffer[TERMS]));
    }
    FAST_TRY(fast__cpu_saved(compile, step, T * 3 * W * L, &step->buffer[QKV]));
    FAST_TRY(fast__cpu_saved(compile, step, T * W * L, &step->buffer[Z]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, T * W * L, &step->buffer[DZ]));
    FAST_TRY(fast__cpu_between(compile, step, T * 3 * W * L, &step->buffer[DQKV]));
    FAST_TRY(fast__cpu_scratch_forward(
        compile, step, 3 * each + panels + FAST_ATTENTION_BLOCK * row, &step->buffer[HEAD]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, 4 * each + 2 * panels + 2 * T * row,
                                    &step->buffer[HEAD_BACK]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, larger(3 * W, C) * 2 * FAST_VEC,
                                    &step->buffer[SUMS]));
    snprintf(step->note, sizeof step->note, "%s, heads by sample", fast__gemm_name(&gemm[IN]));
    return FAST_OK;
}

/* qkv = Win x + bin, heads, y = Wout z + bout. */
static void attention_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t T = node->shape[0], L = run->lanes;
    const int64_t W = fast__attention_width(run->graph, step->node);
    const fast_cpu_finish in = { .bias = fast__cpu_param(run, step->node, FAST_W_BIAS) };
    const fast_cpu_finish out = { .bias = fast__cpu_param(run, step->node, FAST_W_BIAS2) };
    float *qkv = fast__cpu_memory(run, step->buffer[QKV]);
    float *z = fast__cpu_memory(run, step->buffer[Z]);

    fast__cpu_sequence(run, &step->gemm[IN], T, fast__cpu_in(run, step, 0),
                       fast__cpu_param(run, step->node, FAST_W_WEIGHT), step->buffer[PACKED], &in,
                       qkv);
    run->program->attention->forward(T, W, node->heads, L, run->count, qkv, z,
                                     fast__cpu_memory(run, step->buffer[HEAD]));
    fast__cpu_sequence(run, &step->gemm[OUT], T, z,
                       fast__cpu_param(run, step->node, FAST_W_WEIGHT2), step->buffer[PACKED], &out,
                       fast__cpu_out(run, step));
}

/* Compute dW [rows][C] and db of one product per position: x [T][C][L], d [T][rows][L]. */
static void weights_back(fast_cpu_run *run, const fast_cpu_step *step, int gemm, int64_t rows,
                         const float *x, const float *d, float *dw, float *db)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t T = node->shape[0], L = run->lanes;
    float *transposed = fast__cpu_memory(run, step->buffer[TRANSPOSED]);

    fast__cpu_slab_transpose(run, &step->gemm[gemm], T, x, transposed);
    fast__cpu_slab_all(&step->gemm[gemm], rows, T, transposed, d,
                       fast__cpu_memory(run, step->buffer[TERMS]), dw);
    /* Only sums: without an activation nothing is written to d. */
    run->program->elem->bias_act_back(T, rows, L, NULL, FAST_ACT_NONE, 0, (float *)(uintptr_t)d, db,
                                      fast__cpu_memory(run, step->buffer[SUMS]));
}

/* The output's product. */
static void out_data(fast_cpu_run *run, const fast_cpu_step *step)
{
    fast__cpu_sequence(run, &step->gemm[OUT_DATA], run->graph->nodes[step->node].shape[0],
                       fast__cpu_out_grad(run, step),
                       fast__cpu_param(run, step->node, FAST_W_WEIGHT2), step->buffer[PACKED_BACK],
                       NULL, fast__cpu_memory(run, step->buffer[DZ]));
}

/* Gradients of the output projection's weights. */
static void out_weights(fast_cpu_run *run, const fast_cpu_step *step)
{
    weights_back(run, step, OUT_W, run->graph->nodes[step->node].shape[1],
                 fast__cpu_memory(run, step->buffer[Z]), fast__cpu_out_grad(run, step),
                 fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT2),
                 fast__cpu_param_grad(run, step->node, FAST_W_BIAS2));
    fast__cpu_report(run, step->node, FAST_W_WEIGHT2);
    fast__cpu_report(run, step->node, FAST_W_BIAS2);
}

/* The heads, then the product of q, k and v. */
static void in_data(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t T = node->shape[0], W = fast__attention_width(run->graph, step->node);
    float *dqkv = fast__cpu_memory(run, step->buffer[DQKV]), *dx = fast__cpu_in_grad(run, step, 0);

    run->program->attention->backward(T, W, node->heads, run->lanes, run->count,
                                      fast__cpu_memory(run, step->buffer[QKV]),
                                      fast__cpu_memory(run, step->buffer[DZ]), dqkv,
                                      fast__cpu_memory(run, step->buffer[HEAD_BACK]));
    if (dx)
        fast__cpu_sequence(run, &step->gemm[IN_DATA], T, dqkv,
                           fast__cpu_param(run, step->node, FAST_W_WEIGHT),
                           step->buffer[PACKED_BACK], NULL, dx);
}

/* Gradients of the weights of queries, keys and values. */
static void in_weights(fast_cpu_run *run, const fast_cpu_step *step)
{
    weights_back(run, step, IN_W, 3 * fast__attention_width(run->graph, step->node),
                 fast__cpu_in(run, step, 0), fast__cpu_memory(run, step->buffer[DQKV]),
                 fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT),
                 fast__cpu_param_grad(run, step->node, FAST_W_BIAS));
    fast__cpu_report(run, step->node, FAST_W_WEIGHT);
    fast__cpu_report(run, step->node, FAST_W_BIAS);
}

/* From the output to the input; weights as soon as possible. */
static void attention_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    out_data(run, step);
    out_weights(run, step);
    in_data(run, step);
    in_weights(run, step);
}

/* The halves of a divided backward pass. */
static void attention_inputs(fast_cpu_run *run, const fast_cpu_step *step)
{
    out_data(run, step);
    in_data(run, step);
}

static void attention_weights(fast_cpu_run *run, const fast_cpu_step *step)
{
    out_weights(run, step);
    in_weights(run, step);
}

const fast_cpu_op fast__cpu_attention = { .name = "attention",
                                          .reads_input = true,
                                          .alias = -1,
                                          .plan = attention_plan,
                                          .forward = attention_forward,
                                          .backward = attention_backward,
                                          .inputs = attention_inputs,
                                          .weights = attention_weights };
