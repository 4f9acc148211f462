/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal multi-head self-attention [T, C] -> [T, C] (the formulas are in attention_simd.c): one
 * product per position for q, k and v, the heads with samples in the lanes, one product for the
 * output. Saved for the backward pass: q, k, v, the probabilities and the heads' outputs.
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

/* Buffers, T positions of L lanes; H heads of W channels together: C, or less where the node has a
 * part of the heads. */
enum {
    QKV,        /* [T][3 W][L]: queries, keys and values; saved */
    P,          /* [H][T][T][L] in the kernels' order: probabilities; saved */
    Z,          /* [T][W][L]: outputs of the heads; saved */
    DZ,         /* [T][W][L]: gradient of z */
    DQKV,       /* [T][3 W][L]: gradients of queries, keys and values */
    HEAD,       /* 3 [T][D + 1][16]: operands of one head and 16 samples, forward */
    HEAD_BACK,  /* [T][T][16], 4 [T][D + 1][16]: the scores' gradients and operands, backward */
    TRANSPOSED, /* [T][L][C]: sample-major, for products over lanes */
    SUMS        /* two vectors a row, for bias gradients */
};

/* Products of q, k, v and the output; memory for the saved values and their gradients. */
static fast_err attention_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const fast_node *node = &compile->graph->nodes[step->node];
    const int64_t T = node->shape[0], C = node->shape[1], L = compile->program->lanes;
    const int64_t W = fast__attention_width(compile->graph, step->node);
    const int64_t head = T * (W / node->heads + 1) * FAST_VEC; /* floats of one operand */
    const int c = (int)C, w = (int)W, l = (int)L;
    fast_gemm *gemm = step->gemm;

    FAST_ASSERT(node->heads > 0 && W % node->heads == 0);
    gemm[IN] = (fast_gemm){ .m = l, .n = 3 * w, .k = c, .lda = l, .ldb = c, .ldc = l };
    gemm[OUT] = (fast_gemm){ .m = l, .n = c, .k = w, .lda = l, .ldb = w, .ldc = l };
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
    if (step->train) {
        FAST_TRY(fast__cpu_slab_plan(compile, W, C, &gemm[OUT_W]));
        FAST_TRY(fast__cpu_slab_plan(compile, C, 3 * W, &gemm[IN_W]));
    }
    FAST_TRY(fast__cpu_saved(compile, step, T * 3 * W * L, &step->buffer[QKV]));
    FAST_TRY(fast__cpu_saved(compile, step, node->heads * T * T * L, &step->buffer[P]));
    FAST_TRY(fast__cpu_saved(compile, step, T * W * L, &step->buffer[Z]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, T * W * L, &step->buffer[DZ]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, T * 3 * W * L, &step->buffer[DQKV]));
    FAST_TRY(fast__cpu_scratch_forward(compile, step, 3 * head, &step->buffer[HEAD]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, T * T * FAST_VEC + 4 * head,
                                    &step->buffer[HEAD_BACK]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, T * C * L, &step->buffer[TRANSPOSED]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, (3 * W > C ? 3 * W : C) * 2 * FAST_VEC,
                                    &step->buffer[SUMS]));
    snprintf(step->note, sizeof step->note, "%s, heads in lanes", fast__gemm_name(&gemm[IN]));
    return FAST_OK;
}

/* qkv = Win x + bin, heads, y = Wout z + bout. */
static void attention_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t T = node->shape[0], C = node->shape[1], L = run->lanes;
    const int64_t W = fast__attention_width(run->graph, step->node);
    const float *x = fast__cpu_in(run, step, 0);
    float *qkv = fast__cpu_memory(run, step->buffer[QKV]), *y = fast__cpu_out(run, step);
    float *z = fast__cpu_memory(run, step->buffer[Z]);

    for (int64_t t = 0; t < T; t++)
        fast__gemm_run(&step->gemm[IN], x + t * C * L,
                       fast__cpu_param(run, step->node, FAST_W_WEIGHT), qkv + t * 3 * W * L);
    run->program->elem->bias_act(T, 3 * W, L, fast__cpu_param(run, step->node, FAST_W_BIAS),
                                 FAST_ACT_NONE, 0, qkv);
    run->program->attention->forward(T, W, node->heads, L, qkv,
                                     fast__cpu_memory(run, step->buffer[P]), z,
                                     fast__cpu_memory(run, step->buffer[HEAD]));
    for (int64_t t = 0; t < T; t++)
        fast__gemm_run(&step->gemm[OUT], z + t * W * L,
                       fast__cpu_param(run, step->node, FAST_W_WEIGHT2), y + t * C * L);
    run->program->elem->bias_act(T, C, L, fast__cpu_param(run, step->node, FAST_W_BIAS2),
                                 FAST_ACT_NONE, 0, y);
}

/* Compute dW [rows][C] and db of one product per position: x [T][C][L], d [T][rows][L]. */
static void weights_back(fast_cpu_run *run, const fast_cpu_step *step, int gemm, int64_t rows,
                         int64_t C, const float *x, const float *d, float *dw, float *db)
{
    const int64_t T = run->graph->nodes[step->node].shape[0], L = run->lanes;
    float *transposed = fast__cpu_memory(run, step->buffer[TRANSPOSED]);

    for (int64_t t = 0; t < T; t++)
        run->program->elem->from_lanes(x + t * C * L, L, C, L, transposed + t * C * L, C);
    fast__cpu_slab_all(&step->gemm[gemm], C, rows, T, L, transposed, d, dw);
    /* Only sums: without an activation nothing is written to d. */
    run->program->elem->bias_act_back(T, rows, L, NULL, FAST_ACT_NONE, 0, (float *)(uintptr_t)d, db,
                                      fast__cpu_memory(run, step->buffer[SUMS]));
}

/* The output's product, the heads, then the product of q, k and v; weights as soon as possible. */
static void attention_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_node *node = &run->graph->nodes[step->node];
    const int64_t T = node->shape[0], C = node->shape[1], L = run->lanes;
    const int64_t W = fast__attention_width(run->graph, step->node);
    const float *dy = fast__cpu_out_grad(run, step);
    float *dz = fast__cpu_memory(run, step->buffer[DZ]);
    float *dqkv = fast__cpu_memory(run, step->buffer[DQKV]), *dx = fast__cpu_in_grad(run, step, 0);

    for (int64_t t = 0; t < T; t++)
        fast__gemm_run(&step->gemm[OUT_DATA], dy + t * C * L,
                       fast__cpu_param(run, step->node, FAST_W_WEIGHT2), dz + t * W * L);
    weights_back(run, step, OUT_W, C, W, fast__cpu_memory(run, step->buffer[Z]), dy,
                 fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT2),
                 fast__cpu_param_grad(run, step->node, FAST_W_BIAS2));
    fast__cpu_report(run, step->node, FAST_W_WEIGHT2);
    fast__cpu_report(run, step->node, FAST_W_BIAS2);
    run->program->attention->backward(T, W, node->heads, L,
                                      fast__cpu_memory(run, step->buffer[QKV]),
                                      fast__cpu_memory(run, step->buffer[P]), dz, dqkv,
                                      fast__cpu_memory(run, step->buffer[HEAD_BACK]));
    for (int64_t t = 0; t < T && dx; t++)
        fast__gemm_run(&step->gemm[IN_DATA], dqkv + t * 3 * W * L,
                       fast__cpu_param(run, step->node, FAST_W_WEIGHT), dx + t * C * L);
    weights_back(run, step, IN_W, 3 * W, C, fast__cpu_in(run, step, 0), dqkv,
                 fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT),
                 fast__cpu_param_grad(run, step->node, FAST_W_BIAS));
    fast__cpu_report(run, step->node, FAST_W_WEIGHT);
    fast__cpu_report(run, step->node, FAST_W_BIAS);
}

const fast_cpu_op fast__cpu_attention = { .name = "attention",
                                          .reads_input = true,
                                          .alias = -1,
                                          .plan = attention_plan,
                                          .forward = attention_forward,
                                          .backward = attention_backward };
