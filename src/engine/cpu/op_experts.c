/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Experts: a dense layer for each range of S positions of a sequence. The slots of an expert are
 * next to each other, and so are the samples of a slot, so that its positions of the whole batch
 * are one product:
 *
 *     Y_e [S][O][L] = W_e X_e [S][C][L] + b_e      dX_e = W_e' dY_e      dW_e = sum_s dY_s X_s'
 *
 * Free slots are computed with the others: sizes are those of the compilation.
 */
#include "engine/cpu/cpu.h"

#include <stdio.h>

enum {
    FORWARD, /* y */
    DATA,    /* dx */
    WEIGHTS  /* dw: FAST_CPU_SLAB_GEMMS products */
};
/* Buffers, of one expert at a time. */
enum {
    TRANSPOSED,  /* [S][L][C]: X sample-major */
    SUMS,        /* two vectors a row, for the bias gradient */
    PACKED,      /* the weights as a sequence's product reads them, forward */
    PACKED_BACK, /* and backward */
    TERMS        /* of a slab of weights */
};

/* The letters of the formulas. */
typedef struct experts_shape {
    int64_t E, S; /* experts, and slots of each */
    int64_t C, O; /* columns of x and of y */
} experts_shape;

static experts_shape shape_of(const fast_graph *graph, const fast_cpu_step *step)
{
    const fast_node *node = &graph->nodes[step->node];

    FAST_ASSERT(node->groups > 0 && node->shape[0] % node->groups == 0);
    return (experts_shape){ .E = node->groups,
                            .S = node->shape[0] / node->groups,
                            .C = graph->nodes[step->in_node[0]].shape[1],
                            .O = node->shape[1] };
}

/* Products forward, of the data and of the weights of one expert. */
static fast_err experts_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const experts_shape s = shape_of(compile->graph, step);
    const int L = (int)compile->program->lanes, C = (int)s.C, O = (int)s.O;
    fast_gemm *gemm = step->gemm;

    gemm[FORWARD] =
        (fast_gemm){ .m = L, .n = O, .k = C, .lda = L, .ldb = C, .ldc = L, .positions = s.S };
    gemm[DATA] = (fast_gemm){ .m = L,
                              .n = C,
                              .k = O,
                              .lda = L,
                              .ldb = C,
                              .ldc = L,
                              .trans_b = true,
                              .accumulate = step->how[0] == FAST_CPU_ADD,
                              .positions = s.S };
    FAST_TRY(fast__gemm_choose(&gemm[FORWARD], compile->plan));
    FAST_TRY(
        fast__cpu_sequence_memory(compile, step, false, &gemm[FORWARD], 1, &step->buffer[PACKED]));
    snprintf(step->note, sizeof step->note, "%s, %d experts", fast__gemm_name(&gemm[FORWARD]),
             (int)s.E);
    if (!step->train)
        return FAST_OK;
    FAST_TRY(fast__gemm_choose(&gemm[DATA], compile->plan));
    FAST_TRY(fast__cpu_slab_plan(compile, s.C, s.O, s.S, &gemm[WEIGHTS]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, fast__cpu_slab_floats(&gemm[WEIGHTS]),
                                    &step->buffer[TRANSPOSED]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, fast__cpu_slab_scratch(&gemm[WEIGHTS]),
                                    &step->buffer[TERMS]));
    FAST_TRY(
        fast__cpu_sequence_memory(compile, step, true, &gemm[DATA], 1, &step->buffer[PACKED_BACK]));
    return fast__cpu_scratch_back(compile, step, s.O * 2 * FAST_VEC, &step->buffer[SUMS]);
}

/* Expert by expert: product and bias. */
static void experts_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const experts_shape s = shape_of(run->graph, step);
    const float *w = fast__cpu_param(run, step->node, FAST_W_WEIGHT);
    const float *b = fast__cpu_param(run, step->node, FAST_W_BIAS);
    const int64_t L = run->lanes;

    for (int64_t e = 0; e < s.E; e++) {
        const fast_cpu_finish finish = { .bias = b ? b + e * s.O : NULL };

        fast__cpu_sequence(run, &step->gemm[FORWARD], s.S,
                           fast__cpu_in(run, step, 0) + e * s.S * s.C * L, w + e * s.O * s.C,
                           step->buffer[PACKED], &finish,
                           fast__cpu_out(run, step) + e * s.S * s.O * L);
    }
}

/* Expert by expert: sums for the bias, dX, then dW. */
static void experts_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const experts_shape s = shape_of(run->graph, step);
    const float *w = fast__cpu_param(run, step->node, FAST_W_WEIGHT);
    float *dw = fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT);
    float *db = fast__cpu_param_grad(run, step->node, FAST_W_BIAS);
    float *dx = fast__cpu_in_grad(run, step, 0);
    float *transposed = fast__cpu_memory(run, step->buffer[TRANSPOSED]);
    const int64_t L = run->lanes;

    for (int64_t e = 0; e < s.E; e++) {
        float *dy = fast__cpu_out_grad(run, step) + e * s.S * s.O * L;

        run->program->elem->bias_act_back(s.S, s.O, L, NULL, FAST_ACT_NONE, 0, dy,
                                          db ? db + e * s.O : NULL,
                                          fast__cpu_memory(run, step->buffer[SUMS]));
        if (dx)
            fast__cpu_sequence(run, &step->gemm[DATA], s.S, dy, w + e * s.O * s.C,
                               step->buffer[PACKED_BACK], NULL, dx + e * s.S * s.C * L);
        fast__cpu_slab_transpose(run, &step->gemm[WEIGHTS], s.S,
                                 fast__cpu_in(run, step, 0) + e * s.S * s.C * L, transposed);
        fast__cpu_slab_all(&step->gemm[WEIGHTS], s.O, s.S, transposed, dy,
                           fast__cpu_memory(run, step->buffer[TERMS]), dw + e * s.O * s.C);
    }
    fast__cpu_report(run, step->node, FAST_W_WEIGHT);
    fast__cpu_report(run, step->node, FAST_W_BIAS);
}

const fast_cpu_op fast__cpu_experts = { .name = "experts",
                                        .reads_input = true,
                                        .alias = -1,
                                        .plan = experts_plan,
                                        .forward = experts_forward,
                                        .backward = experts_backward };
