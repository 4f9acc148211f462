/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dense layers, per position of a sequence if the input is one:
 *
 *     Y [O][L] = act(W [O][C] X [C][L] + b)      m = lanes, B = W
 *     dX [C][L] = W' dY                          m = lanes, B = W transposed
 *     dW [O][C] = dY [O][L] X' [L][C]            m = C, k = lanes, A = X sample-major
 *
 * dW is computed in slabs of output rows that fit the second-level cache (slab.c), and each slab is
 * reported at once: an optimizer that runs in the report finds it in cache. A first layer takes X
 * sample-major from the batch itself; others transpose. dX comes before dW, because after a report
 * the weights must not be read.
 */
#include "engine/cpu/cpu.h"
#include "engine/weight_norm.h"

#include <stdio.h>

enum {
    FORWARD, /* y */
    DATA,    /* dx */
    WEIGHTS  /* dw: FAST_CPU_SLAB_GEMMS products */
};
/* Buffers. */
enum {
    TRANSPOSED,  /* [P][L][C]: X sample-major */
    SUMS,        /* two vectors a row, for the bias gradient */
    WEIGHT,      /* [O][C]: effective weight of a weight norm; saved */
    WEIGHT_GRAD, /* [O][C]: its gradient */
    FACTOR,      /* [O + C][P][L]: factors of a sequence, positions side by side */
    PACKED,      /* the weights as a sequence's product reads them, forward */
    PACKED_BACK, /* and backward */
    TERMS        /* of a slab of weights */
};

/* Tell whether the layer has weight norm. */
static bool weight_normed(const fast_graph *graph, const fast_cpu_step *step)
{
    return graph->nodes[step->node].weight[FAST_W_GAIN] >= 0;
}

/* Products forward, of the data and of slabs of weights. */
static fast_err dense_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const fast_dense_shape shape = fast__dense_shape(compile->graph, step->node);
    const int64_t C = shape.inputs, O = shape.outputs, P = shape.rows;
    const int L = (int)compile->program->lanes;
    fast_gemm *gemm = step->gemm;

    gemm[FORWARD] = (fast_gemm){
        .m = L, .n = (int)O, .k = (int)C, .lda = L, .ldb = (int)C, .ldc = L, .positions = P
    };
    gemm[DATA] = (fast_gemm){ .m = L,
                              .n = (int)C,
                              .k = (int)O,
                              .lda = L,
                              .ldb = (int)C,
                              .ldc = L,
                              .trans_b = true,
                              .accumulate = step->how[0] == FAST_CPU_ADD,
                              .positions = P };
    FAST_TRY(fast__gemm_choose(&gemm[FORWARD], compile->plan));
    if (step->train) {
        FAST_TRY(fast__gemm_choose(&gemm[DATA], compile->plan));
        FAST_TRY(fast__cpu_slab_plan(compile, C, O, P, &gemm[WEIGHTS]));
        FAST_TRY(fast__cpu_scratch_back(compile, step, fast__cpu_slab_floats(&gemm[WEIGHTS]),
                                        &step->buffer[TRANSPOSED]));
        FAST_TRY(fast__cpu_scratch_back(compile, step, fast__cpu_slab_scratch(&gemm[WEIGHTS]),
                                        &step->buffer[TERMS]));
        FAST_TRY(fast__cpu_sequence_memory(compile, step, true, &gemm[DATA], 1,
                                           &step->buffer[PACKED_BACK]));
    }
    step->count = fast__cpu_slab_rows(C, O, P);
    FAST_TRY(
        fast__cpu_sequence_memory(compile, step, false, &gemm[FORWARD], 1, &step->buffer[PACKED]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, O * 2 * FAST_VEC, &step->buffer[SUMS]));
    if (P > 1)
        FAST_TRY(fast__cpu_scratch_back(compile, step, P * L * (C + O), &step->buffer[FACTOR]));
    if (weight_normed(compile->graph, step)) {
        FAST_TRY(fast__cpu_saved(compile, step, C * O, &step->buffer[WEIGHT]));
        FAST_TRY(fast__cpu_scratch_back(compile, step, C * O, &step->buffer[WEIGHT_GRAD]));
    }
    snprintf(step->note, sizeof step->note, "%s%s, slabs of %d rows",
             fast__gemm_name(&gemm[FORWARD]), step->act ? " + activation" : "", (int)step->count);
    return FAST_OK;
}

/* The product, bias and activation. */
static void dense_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_dense_shape shape = fast__dense_shape(run->graph, step->node);
    const fast_cpu_finish finish = { .bias = fast__cpu_param(run, step->node, FAST_W_BIAS),
                                     .act = step->act,
                                     .slope = step->slope };
    const float *w = fast__cpu_param(run, step->node, FAST_W_WEIGHT);

    if (weight_normed(run->graph, step)) {
        float *effective = fast__cpu_memory(run, step->buffer[WEIGHT]);
        fast__weight_norm_forward(shape.outputs, shape.inputs, w,
                                  fast__cpu_param(run, step->node, FAST_W_GAIN), effective);
        w = effective;
    }
    fast__cpu_sequence(run, &step->gemm[FORWARD], shape.rows, fast__cpu_in(run, step, 0), w,
                       step->buffer[PACKED], &finish, fast__cpu_out(run, step));
}

/* Offer dW as factors; the positions of a sequence are first copied next to each other. */
static bool offer_factors(fast_cpu_run *run, const fast_cpu_step *step, const float *x,
                          const float *dy)
{
    const fast_dense_shape shape = fast__dense_shape(run->graph, step->node);
    const int64_t C = shape.inputs, O = shape.outputs, P = shape.rows, L = run->lanes;
    fast_factors factors = { .segment = run->graph->nodes[step->node].weight[FAST_W_WEIGHT],
                             .rows = P > 1 ? P * L : run->count,
                             .outputs = O,
                             .inputs = C,
                             .u = dy,
                             .v = x,
                             .u_stride = P * L,
                             .v_stride = P * L };

    if (!run->pass->factor || weight_normed(run->graph, step))
        return false;
    if (P > 1) {
        float *u = fast__cpu_memory(run, step->buffer[FACTOR]), *v = u + O * P * L;
        for (int64_t p = 0; p < P; p++) {
            for (int64_t o = 0; o < O; o++)
                run->program->elem->copy(L, dy + (p * O + o) * L, u + (o * P + p) * L);
            for (int64_t c = 0; c < C; c++)
                run->program->elem->copy(L, x + (p * C + c) * L, v + (c * P + p) * L);
        }
        factors.u = u;
        factors.v = v;
    }
    return run->pass->factor(run->pass->ctx, &factors);
}

/* Return X sample-major. */
static const float *transposed(fast_cpu_run *run, const fast_cpu_step *step, const float *x)
{
    const fast_dense_shape shape = fast__dense_shape(run->graph, step->node);
    const int64_t P = shape.rows, L = run->lanes;
    const fast_node *in = &run->graph->nodes[step->in_node[0]];
    float *t = fast__cpu_memory(run, step->buffer[TRANSPOSED]);

    if (in->op == FAST_OP_INPUT && P == 1 && (in->rank == 1 || in->shape[0] == 1) &&
        run->count == L)
        return run->pass->batch->x;
    fast__cpu_slab_transpose(run, &step->gemm[WEIGHTS], P, x, t);
    return t;
}

/* Compute dW slab by slab, reporting each slab if `report`. */
static void dense_slabs(fast_cpu_run *run, const fast_cpu_step *step, const float *x,
                        const float *dy, float *dw, bool report)
{
    const fast_dense_shape shape = fast__dense_shape(run->graph, step->node);
    const int64_t C = shape.inputs, O = shape.outputs, P = shape.rows;
    const int64_t segment = run->graph->nodes[step->node].weight[FAST_W_WEIGHT];
    const int64_t offset = run->graph->params.segments[segment].offset;
    const float *t = transposed(run, step, x);

    for (int64_t o = 0; o < O; o += step->count) {
        const int64_t rows = O - o < step->count ? O - o : step->count;
        fast__cpu_slab_run(&step->gemm[WEIGHTS], o, O, P, t, dy,
                           fast__cpu_memory(run, step->buffer[TERMS]), dw);
        if (report)
            fast__cpu_report_range(run, offset + o * C, rows * C);
    }
}

/* Mask the gradient of the output by the activation, if `masks`, and sum it for the bias, if
 * `sums`: one pass for both. */
static void dense_bias(fast_cpu_run *run, const fast_cpu_step *step, bool masks, bool sums)
{
    const fast_dense_shape shape = fast__dense_shape(run->graph, step->node);

    run->program->elem->bias_act_back(
        shape.rows, shape.outputs, run->lanes, fast__cpu_out(run, step),
        masks ? step->act : FAST_ACT_NONE, step->slope, fast__cpu_out_grad(run, step),
        sums ? fast__cpu_param_grad(run, step->node, FAST_W_BIAS) : NULL,
        fast__cpu_memory(run, step->buffer[SUMS]));
    if (sums)
        fast__cpu_report(run, step->node, FAST_W_BIAS);
}

/* Compute dX. */
static void dense_data(fast_cpu_run *run, const fast_cpu_step *step)
{
    const float *w = weight_normed(run->graph, step)
                         ? fast__cpu_memory(run, step->buffer[WEIGHT])
                         : fast__cpu_param(run, step->node, FAST_W_WEIGHT);
    float *dx = fast__cpu_in_grad(run, step, 0);

    if (dx)
        fast__cpu_sequence(run, &step->gemm[DATA], fast__dense_shape(run->graph, step->node).rows,
                           fast__cpu_out_grad(run, step), w, step->buffer[PACKED_BACK], NULL, dx);
}

/* Compute dW: as factors, or in slabs, or through the weight norm. */
static void dense_weight(fast_cpu_run *run, const fast_cpu_step *step)
{
    const fast_dense_shape shape = fast__dense_shape(run->graph, step->node);
    const bool normed = weight_normed(run->graph, step);
    const float *x = fast__cpu_in(run, step, 0), *dy = fast__cpu_out_grad(run, step);
    float *dw = fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT);

    if (offer_factors(run, step, x, dy))
        return;
    dense_slabs(run, step, x, dy, normed ? fast__cpu_memory(run, step->buffer[WEIGHT_GRAD]) : dw,
                !normed);
    if (normed) {
        fast__weight_norm_backward(shape.outputs, shape.inputs,
                                   fast__cpu_param(run, step->node, FAST_W_WEIGHT),
                                   fast__cpu_param(run, step->node, FAST_W_GAIN),
                                   fast__cpu_memory(run, step->buffer[WEIGHT_GRAD]), dw,
                                   fast__cpu_param_grad(run, step->node, FAST_W_GAIN));
        fast__cpu_report(run, step->node, FAST_W_WEIGHT);
        fast__cpu_report(run, step->node, FAST_W_GAIN);
    }
}

/* Bias and mask, dX, then dW. */
static void dense_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    dense_bias(run, step, true, true);
    dense_data(run, step);
    dense_weight(run, step);
}

/* The mask, then dX; later the bias and dW. */
static void dense_inputs(fast_cpu_run *run, const fast_cpu_step *step)
{
    dense_bias(run, step, true, false);
    dense_data(run, step);
}

static void dense_weights(fast_cpu_run *run, const fast_cpu_step *step)
{
    dense_bias(run, step, false, true);
    dense_weight(run, step);
}

const fast_cpu_op fast__cpu_dense = { .name = "dense",
                                      .reads_input = true,
                                      .reads_output = true,
                                      .alias = -1,
                                      .plan = dense_plan,
                                      .forward = dense_forward,
                                      .backward = dense_backward,
                                      .inputs = dense_inputs,
                                      .weights = dense_weights };
