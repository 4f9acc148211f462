/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent layers [T, C] -> [T, H], from a zero state, with h' and c' of the step before:
 *
 *     rnn    h = tanh(a)                     a = Wih x + bih + Whh h' + bhh
 *     lstm   i, f, o = sigmoid, g = tanh of a's four parts; c = f c' + i g; h = o tanh(c)
 *     gru    r, z = sigmoid(a); n = tanh(a_n + r u), u = Whn h' + bhn; h = (1 - z) n + z h'
 *
 * Each step has two products with the batch as m (gates [G][L]), then the pointwise part. The
 * backward pass visits the steps in reverse, passes dh and dc along and computes the gates'
 * gradients da (and du, the state's part, which a gru stores separately); the weights' gradients
 * are then sums of a product a step (slab.c), on sample-major copies of x and h.
 */
#include "engine/cpu/cpu.h"

#include <stdio.h>
#include <string.h>

/* Products of one step of time; those of weights sum over lanes, and over steps. */
enum {
    INPUT,                          /* a = Wih x */
    STATE,                          /* a += Whh h', or u = Whh h' where it is separate */
    DATA,                           /* dx = Wih' da */
    STATE_DATA,                     /* dh' = Whh' du, added to the direct part of a gru */
    WIH,                            /* dWih = sum of da x' */
    WHH = WIH + FAST_CPU_SLAB_GEMMS /* dWhh = sum of du h'', without the first step */
};

/* Buffers, T steps of L lanes. */
enum {
    GATES,          /* [T][G][L]: gates after their activation; saved */
    STATE_PART,     /* [T][G][L]: u, of a gru alone; saved */
    CELLS,          /* [T][H][L]: c, of an lstm alone; saved */
    GATES_GRAD,     /* [T][G][L]: da */
    STATE_GRAD,     /* [T][G][L]: du, of a gru alone; else du is da */
    RECURRENT_GRAD, /* [2][H][L]: dh and dc, passed from step to step */
    TRANSPOSED,     /* [T][L][C or H]: sample-major, for products over lanes */
    SUMS,           /* two vectors a row, for bias gradients */
    PACKED,         /* the input's weights as a sequence's product reads them, backward */
    TERMS           /* of a slab of weights */
};

typedef struct cpu_recurrent_shape {
    fast_op op;   /* rnn, lstm or gru */
    int64_t T, C; /* steps, and channels of the input */
    int64_t H, G; /* hidden units, and rows of all gates */
    int64_t L;    /* lanes */
    bool split;   /* the state's part of the gates is stored separately */
} cpu_recurrent_shape;

/* The sizes of a layer; G counts the rows of all gates. */
static cpu_recurrent_shape shape_of(const fast_graph *graph, const fast_cpu_step *step,
                                    int64_t lanes)
{
    const fast_node *node = &graph->nodes[step->node];
    cpu_recurrent_shape s = { .op = node->op,
                              .T = node->shape[0],
                              .C = fast__cpu_channels(graph, step->in_node[0]),
                              .H = node->shape[1],
                              .L = lanes,
                              .split = node->op == FAST_OP_GRU };
    s.G = s.H * (node->op == FAST_OP_RNN ? 1 : node->op == FAST_OP_GRU ? 3 : 4);
    return s;
}

/* Memory for the sums of either weights' gradient. */
static fast_err slab_memory(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const fast_gemm *wih = &step->gemm[WIH], *whh = &step->gemm[WHH];
    const int64_t x = fast__cpu_slab_floats(wih), h = fast__cpu_slab_floats(whh);
    const int64_t a = fast__cpu_slab_scratch(wih), b = fast__cpu_slab_scratch(whh);

    FAST_TRY(fast__cpu_scratch_back(compile, step, x > h ? x : h, &step->buffer[TRANSPOSED]));
    return fast__cpu_scratch_back(compile, step, a > b ? a : b, &step->buffer[TERMS]);
}

/* Two products a step, their gradients, and memory for gates and states. */
static fast_err recurrent_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const cpu_recurrent_shape s = shape_of(compile->graph, step, compile->program->lanes);
    const int L = (int)s.L, G = (int)s.G, H = (int)s.H, C = (int)s.C;
    fast_gemm *gemm = step->gemm;

    gemm[INPUT] = (fast_gemm){ .m = L, .n = G, .k = C, .lda = L, .ldb = C, .ldc = L };
    gemm[STATE] =
        (fast_gemm){ .m = L, .n = G, .k = H, .lda = L, .ldb = H, .ldc = L, .accumulate = !s.split };
    gemm[DATA] = (fast_gemm){ .m = L,
                              .n = C,
                              .k = G,
                              .lda = L,
                              .ldb = C,
                              .ldc = L,
                              .trans_b = true,
                              .accumulate = step->how[0] == FAST_CPU_ADD,
                              .positions = s.T };
    gemm[STATE_DATA] = (fast_gemm){
        .m = L, .n = H, .k = G, .lda = L, .ldb = H, .ldc = L, .trans_b = true, .accumulate = s.split
    };
    for (int i = INPUT; i <= (step->train ? STATE_DATA : STATE); i++)
        FAST_TRY(fast__gemm_choose(&gemm[i], compile->plan));
    if (step->train) {
        FAST_TRY(fast__cpu_slab_plan(compile, s.C, s.G, s.T, &gemm[WIH]));
        FAST_TRY(fast__cpu_slab_plan(compile, s.H, s.G, s.T, &gemm[WHH]));
        FAST_TRY(slab_memory(compile, step));
        FAST_TRY(
            fast__cpu_sequence_memory(compile, step, true, &gemm[DATA], 1, &step->buffer[PACKED]));
    }
    FAST_TRY(fast__cpu_saved(compile, step, s.T * s.G * s.L, &step->buffer[GATES]));
    FAST_TRY(
        fast__cpu_saved(compile, step, s.split ? s.T * s.G * s.L : 0, &step->buffer[STATE_PART]));
    FAST_TRY(fast__cpu_saved(compile, step, s.op == FAST_OP_LSTM ? s.T * s.H * s.L : 0,
                             &step->buffer[CELLS]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, s.T * s.G * s.L, &step->buffer[GATES_GRAD]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, s.split ? s.T * s.G * s.L : 0,
                                    &step->buffer[STATE_GRAD]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, 2 * s.H * s.L, &step->buffer[RECURRENT_GRAD]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, s.G * 2 * FAST_VEC, &step->buffer[SUMS]));
    snprintf(step->note, sizeof step->note, "%s, two products a step",
             fast__gemm_name(&gemm[INPUT]));
    return FAST_OK;
}

/* Steps in order: both products, then the cell. */
static void recurrent_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const cpu_recurrent_shape s = shape_of(run->graph, step, run->lanes);
    const fast_cell_kernels *cell = run->program->cell;
    const float *wih = fast__cpu_param(run, step->node, FAST_W_WEIGHT);
    const float *whh = fast__cpu_param(run, step->node, FAST_W_WEIGHT2);
    const float *ba = fast__cpu_param(run, step->node, FAST_W_BIAS);
    const float *bu = fast__cpu_param(run, step->node, FAST_W_BIAS2);
    const float *x = fast__cpu_in(run, step, 0);
    float *h = fast__cpu_out(run, step), *a = fast__cpu_memory(run, step->buffer[GATES]);
    float *u = s.split ? fast__cpu_memory(run, step->buffer[STATE_PART]) : a;
    float *c = fast__cpu_memory(run, step->buffer[CELLS]);
    const int64_t gates = s.G * s.L, units = s.H * s.L;

    for (int64_t t = 0; t < s.T; t++, h += units, a += gates, u += gates) {
        const float *before = t ? h - units : NULL;
        fast__gemm_run(&step->gemm[INPUT], x + t * s.C * s.L, wih, a);
        if (before)
            fast__gemm_run(&step->gemm[STATE], before, whh, u);
        else if (s.split)
            memset(u, 0, (size_t)gates * sizeof *u);
        if (s.op == FAST_OP_RNN)
            cell->rnn(s.H, s.L, a, ba, bu, h);
        else if (s.op == FAST_OP_LSTM)
            cell->lstm(s.H, s.L, a, ba, bu, t ? c + (t - 1) * units : NULL, c + t * units, h);
        else
            cell->gru(s.H, s.L, a, u, ba, bu, before, h);
    }
}

/* Visit the steps in reverse: fills da, and du if it is separate. */
static void back_through_time(fast_cpu_run *run, const fast_cpu_step *step,
                              const cpu_recurrent_shape *s, float *da, float *du)
{
    const fast_cell_kernels *cell = run->program->cell;
    const float *whh = fast__cpu_param(run, step->node, FAST_W_WEIGHT2);
    const float *a = fast__cpu_memory(run, step->buffer[GATES]);
    const float *u = fast__cpu_memory(run, step->buffer[STATE_PART]);
    const float *c = fast__cpu_memory(run, step->buffer[CELLS]);
    const float *h = fast__cpu_out(run, step), *dy = fast__cpu_out_grad(run, step);
    const int64_t gates = s->G * s->L, units = s->H * s->L;
    float *dh = fast__cpu_memory(run, step->buffer[RECURRENT_GRAD]), *dc = dh + units;

    memset(dh, 0, (size_t)(2 * units) * sizeof *dh);
    for (int64_t t = s->T - 1; t >= 0; t--) {
        const float *before = t ? h + (t - 1) * units : NULL, *d = dy + t * units;
        const float *at = a + t * gates;
        if (s->op == FAST_OP_RNN)
            cell->rnn_back(s->H, s->L, h + t * units, d, dh, da + t * gates);
        else if (s->op == FAST_OP_LSTM)
            cell->lstm_back(s->H, s->L, at, t ? c + (t - 1) * units : NULL, c + t * units, d, dh,
                            dc, da + t * gates);
        else
            cell->gru_back(s->H, s->L, at, u + t * gates, before, d, dh, da + t * gates,
                           du + t * gates);
        if (t)
            fast__gemm_run(&step->gemm[STATE_DATA], du + t * gates, whh, dh);
    }
}

/* Back-propagation through time, then the gradients of inputs and weights. */
static void recurrent_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const cpu_recurrent_shape s = shape_of(run->graph, step, run->lanes);
    const fast_elem_kernels *elem = run->program->elem;
    const int64_t gates = s.G * s.L;
    const float *wih = fast__cpu_param(run, step->node, FAST_W_WEIGHT);
    const float *x = fast__cpu_in(run, step, 0), *h = fast__cpu_out(run, step);
    float *dwih = fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT);
    float *dwhh = fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT2);
    float *dba = fast__cpu_param_grad(run, step->node, FAST_W_BIAS);
    float *dbu = fast__cpu_param_grad(run, step->node, FAST_W_BIAS2);
    float *da = fast__cpu_memory(run, step->buffer[GATES_GRAD]);
    float *du = s.split ? fast__cpu_memory(run, step->buffer[STATE_GRAD]) : da;
    float *transposed = fast__cpu_memory(run, step->buffer[TRANSPOSED]);
    float *terms = fast__cpu_memory(run, step->buffer[TERMS]);
    float *sums = fast__cpu_memory(run, step->buffer[SUMS]), *dx = fast__cpu_in_grad(run, step, 0);

    back_through_time(run, step, &s, da, du);
    if (s.T == 1) /* there was no earlier state */
        memset(dwhh, 0, (size_t)(s.G * s.H) * sizeof *dwhh);
    if (dx)
        fast__cpu_sequence(run, &step->gemm[DATA], s.T, da, wih, step->buffer[PACKED], NULL, dx);
    fast__cpu_slab_transpose(run, &step->gemm[WIH], s.T, x, transposed);
    fast__cpu_slab_all(&step->gemm[WIH], s.G, s.T, transposed, da, terms, dwih);
    if (s.T > 1) {
        fast__cpu_slab_transpose(run, &step->gemm[WHH], s.T - 1, h, transposed);
        fast__cpu_slab_all(&step->gemm[WHH], s.G, s.T - 1, transposed, du + gates, terms, dwhh);
    }
    elem->bias_act_back(s.T, s.G, s.L, NULL, FAST_ACT_NONE, 0, da, dba, sums);
    if (s.split || !dba)
        elem->bias_act_back(s.T, s.G, s.L, NULL, FAST_ACT_NONE, 0, du, dbu, sums);
    else if (dbu) /* of the same da */
        memcpy(dbu, dba, (size_t)s.G * sizeof *dbu);
    fast__cpu_report(run, step->node, FAST_W_WEIGHT);
    fast__cpu_report(run, step->node, FAST_W_BIAS);
    fast__cpu_report(run, step->node, FAST_W_WEIGHT2);
    fast__cpu_report(run, step->node, FAST_W_BIAS2);
}

const fast_cpu_op fast__cpu_recurrent = { .name = "recurrent",
                                          .reads_input = true,
                                          .reads_output = true,
                                          .alias = -1,
                                          .plan = recurrent_plan,
                                          .forward = recurrent_forward,
                                          .backward = recurrent_backward };
