/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locally connected layers: weights of their own at each place p. The window of a place is copied
 * to rows of lanes in the order of its weights, k = (c, ky, kx), for a product as a dense layer's:
 *
 *     Y_p [O][L] = W_p [O][K] U_p [K][L] + b_p     dU_p = W_p' dY_p     dW_p = dY_p U_p'
 *
 * Places of a tiled layer with equal weights add up their gradients. A weight is read once for the
 * lanes of a batch, so that the layer is as fast as memory: what counts is the number of weights.
 */
#include "engine/cpu/cpu.h"
#include "tensor/vector.h"

#include <stdio.h>
#include <string.h>

enum {
    FORWARD, /* y */
    DATA,    /* dU */
    WEIGHTS  /* dw: FAST_CPU_SLAB_GEMMS products */
};
/* Buffers, of one place at a time. */
enum {
    WINDOW,      /* [K][L]: forward */
    WINDOW_BACK, /* and backward */
    WINDOW_GRAD, /* [K][L] */
    TRANSPOSED,  /* [L][K]: the window sample-major */
    SUMS,        /* two vectors a row, for the bias gradient */
    PACKED,      /* the weights as a product reads them, forward */
    PACKED_BACK, /* and backward */
    TERMS,       /* of a slab of weights */
    GRADS        /* [O][K + 1]: of a place, where several have equal weights */
};

/* The letters of the formulas. */
typedef struct local_shape {
    const fast_node *node; /* window, strides and padding */
    const fast_node *in;   /* the image before */
    int64_t O, K, P;       /* outputs of a place, elements of a window, places */
    int64_t L;             /* lanes */
} local_shape;

static local_shape shape_of(const fast_graph *graph, const fast_cpu_step *step, int64_t lanes)
{
    const fast_node *node = &graph->nodes[step->node], *in = &graph->nodes[step->in_node[0]];

    FAST_ASSERT(in->rank == 3 && node->rank == 3);
    return (local_shape){ .node = node,
                          .in = in,
                          .O = node->shape[0],
                          .K = in->shape[0] * node->kernel[0] * node->kernel[1],
                          .P = node->shape[1] * node->shape[2],
                          .L = lanes };
}

/* Products of one place: forward, of the data and of the weights. */
static fast_err local_plan(fast_cpu_compile *compile, fast_cpu_step *step)
{
    const local_shape s = shape_of(compile->graph, step, compile->program->lanes);
    const int L = (int)s.L, K = (int)s.K, O = (int)s.O;
    fast_gemm *gemm = step->gemm;

    gemm[FORWARD] = (fast_gemm){ .m = L, .n = O, .k = K, .lda = L, .ldb = K, .ldc = L };
    gemm[DATA] =
        (fast_gemm){ .m = L, .n = K, .k = O, .lda = L, .ldb = K, .ldc = L, .trans_b = true };
    FAST_TRY(fast__gemm_choose(&gemm[FORWARD], compile->plan));
    FAST_TRY(fast__cpu_scratch_forward(compile, step, s.K * s.L, &step->buffer[WINDOW]));
    FAST_TRY(
        fast__cpu_sequence_memory(compile, step, false, &gemm[FORWARD], 1, &step->buffer[PACKED]));
    snprintf(step->note, sizeof step->note, "%s, %d places", fast__gemm_name(&gemm[FORWARD]),
             (int)s.P);
    if (!step->train)
        return FAST_OK;
    FAST_TRY(fast__gemm_choose(&gemm[DATA], compile->plan));
    FAST_TRY(fast__cpu_slab_plan(compile, s.K, s.O, 1, &gemm[WEIGHTS]));
    if (s.node->groups > 0)
        FAST_TRY(fast__cpu_scratch_back(compile, step, s.O * (s.K + 1), &step->buffer[GRADS]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, s.K * s.L, &step->buffer[WINDOW_BACK]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, s.K * s.L, &step->buffer[WINDOW_GRAD]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, fast__cpu_slab_floats(&gemm[WEIGHTS]),
                                    &step->buffer[TRANSPOSED]));
    FAST_TRY(fast__cpu_scratch_back(compile, step, fast__cpu_slab_scratch(&gemm[WEIGHTS]),
                                    &step->buffer[TERMS]));
    FAST_TRY(
        fast__cpu_sequence_memory(compile, step, true, &gemm[DATA], 1, &step->buffer[PACKED_BACK]));
    return fast__cpu_scratch_back(compile, step, s.O * 2 * FAST_VEC, &step->buffer[SUMS]);
}

/* u = the window of place p, rows of lanes [y][x][C] of the image; or with `fold` dx += u. */
static void move_window(const fast_cpu_run *run, const local_shape *s, int64_t p, bool fold,
                        float *x, float *u)
{
    const fast_node *n = s->node;
    const int64_t C = s->in->shape[0], H = s->in->shape[1], W = s->in->shape[2], L = s->L;
    const int64_t area = n->kernel[0] * n->kernel[1];

    for (int64_t k = 0; k < area; k++) {
        const int64_t iy =
            p / n->shape[2] * n->stride[0] - n->pad[0] + k / n->kernel[1] * n->dilation[0];
        const int64_t ix =
            p % n->shape[2] * n->stride[1] - n->pad[1] + k % n->kernel[1] * n->dilation[1];
        const bool inside = iy >= 0 && iy < H && ix >= 0 && ix < W;

        for (int64_t c = 0; c < C; c++) {
            float *row = u + (c * area + k) * L;

            if (!inside && !fold)
                memset(row, 0, (size_t)L * sizeof *row);
            else if (inside && !fold)
                memcpy(row, x + ((iy * W + ix) * C + c) * L, (size_t)L * sizeof *row);
            else if (inside)
                run->program->elem->add(L, row, x + ((iy * W + ix) * C + c) * L);
        }
    }
}

/* Place by place: window, product and bias. The window is of scratch memory that is written whole
 * each time, padding too, so that no lane has elements of the place before. */
static void local_forward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const local_shape s = shape_of(run->graph, step, run->lanes);
    const float *w = fast__cpu_param(run, step->node, FAST_W_WEIGHT);
    const float *b = fast__cpu_param(run, step->node, FAST_W_BIAS);
    float *x = (float *)(uintptr_t)fast__cpu_in(run, step, 0); /* only read */
    float *u = fast__cpu_memory(run, step->buffer[WINDOW]);

    for (int64_t p = 0; p < s.P; p++) {
        const int64_t q = fast__local_filter(s.node, p);
        const fast_cpu_finish finish = { .bias = b ? b + q * s.O : NULL };

        move_window(run, &s, p, false, x, u);
        fast__cpu_sequence(run, &step->gemm[FORWARD], 1, u, w + q * s.O * s.K, step->buffer[PACKED],
                           &finish, fast__cpu_out(run, step) + p * s.O * s.L);
    }
}

/* The gradients of one place, dy [O][L], in dw [O][K] and db [O]; db may be NULL. */
static void place_backward(fast_cpu_run *run, const fast_cpu_step *step, const local_shape *s,
                           int64_t p, float *dw, float *db)
{
    const int64_t q = fast__local_filter(s->node, p);
    const float *w = fast__cpu_param(run, step->node, FAST_W_WEIGHT) + q * s->O * s->K;
    float *x = (float *)(uintptr_t)fast__cpu_in(run, step, 0); /* only read */
    float *dx = fast__cpu_in_grad(run, step, 0);
    float *u = fast__cpu_memory(run, step->buffer[WINDOW_BACK]);
    float *du = fast__cpu_memory(run, step->buffer[WINDOW_GRAD]);
    float *transposed = fast__cpu_memory(run, step->buffer[TRANSPOSED]);
    float *dy = fast__cpu_out_grad(run, step) + p * s->O * s->L;

    run->program->elem->bias_act_back(1, s->O, s->L, NULL, FAST_ACT_NONE, 0, dy, db,
                                      fast__cpu_memory(run, step->buffer[SUMS]));
    if (dx) {
        fast__cpu_sequence(run, &step->gemm[DATA], 1, dy, w, step->buffer[PACKED_BACK], NULL, du);
        move_window(run, s, p, true, dx, du);
    }
    move_window(run, s, p, false, x, u);
    fast__cpu_slab_transpose(run, &step->gemm[WEIGHTS], 1, u, transposed);
    fast__cpu_slab_all(&step->gemm[WEIGHTS], s->O, 1, transposed, dy,
                       fast__cpu_memory(run, step->buffer[TERMS]), dw);
}

/* Place by place; those with equal weights are added. All are reported together at the end, since
 * an optimizer that runs in the report may change them. */
static void local_backward(fast_cpu_run *run, const fast_cpu_step *step)
{
    const local_shape s = shape_of(run->graph, step, run->lanes);
    const bool tiled = s.node->groups > 0;
    const int64_t filters = fast__local_filters(s.node), size = s.O * s.K;
    float *dw = fast__cpu_param_grad(run, step->node, FAST_W_WEIGHT);
    float *db = fast__cpu_param_grad(run, step->node, FAST_W_BIAS);
    float *grads = tiled ? fast__cpu_memory(run, step->buffer[GRADS]) : NULL;
    float *dx = fast__cpu_in_grad(run, step, 0);

    if (dx && step->how[0] != FAST_CPU_ADD)
        memset(dx, 0, (size_t)(s.in->count * s.L) * sizeof *dx);
    if (tiled)
        memset(dw, 0, (size_t)(filters * size) * sizeof *dw);
    if (tiled && db)
        memset(db, 0, (size_t)(filters * s.O) * sizeof *db);
    for (int64_t p = 0; p < s.P; p++) {
        const int64_t q = fast__local_filter(s.node, p);

        if (!tiled) {
            place_backward(run, step, &s, p, dw + q * size, db ? db + q * s.O : NULL);
            continue;
        }
        place_backward(run, step, &s, p, grads, db ? grads + size : NULL);
        fast__vector_add(size, grads, dw + q * size);
        if (db)
            fast__vector_add(s.O, grads + size, db + q * s.O);
    }
    fast__cpu_report(run, step->node, FAST_W_WEIGHT);
    fast__cpu_report(run, step->node, FAST_W_BIAS);
}

const fast_cpu_op fast__cpu_local = { .name = "local",
                                      .reads_input = true,
                                      .alias = -1,
                                      .plan = local_plan,
                                      .forward = local_forward,
                                      .backward = local_backward };
