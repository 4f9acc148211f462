/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Experts: a dense layer for each of E ranges of positions, with S positions each.
 *
 *     y[e S + s] = x[e S + s] W_e' + b_e      dx += dy W_e    dW_e = dy_e' x_e    db_e = sum dy_e
 */
#include "engine/ref/ref.h"

#include <string.h>

/* The letters, and the weights of all experts. */
typedef struct ref_experts_shape {
    int64_t E, S;           /* experts, and positions of each */
    int64_t in, out;        /* columns of x and of y */
    const float *w, *b;     /* [E][out][in] and [E][out]; b may be NULL */
    int64_t sample, answer; /* elements of one sample of x and y */
} ref_experts_shape;

static ref_experts_shape shape_of(const fast_ref_call *call)
{
    const fast_node *node = call->node;

    FAST_ASSERT(node->groups > 0 && node->shape[0] % node->groups == 0);
    return (ref_experts_shape){ .E = node->groups,
                                .S = node->shape[0] / node->groups,
                                .in = call->in->shape[1],
                                .out = node->shape[1],
                                .w = fast__ref_weight(call, FAST_W_WEIGHT),
                                .b = fast__ref_weight(call, FAST_W_BIAS),
                                .sample = call->in->count,
                                .answer = node->count };
}

/* Expert by expert, sample by sample. */
static void experts_forward(fast_ref_call *call)
{
    const ref_experts_shape s = shape_of(call);

    for (int64_t i = 0; i < s.E * call->n; i++) {
        const int64_t e = i / call->n, n = i % call->n;

        fast__ref_linear(s.S, s.in, s.out, call->x[0] + n * s.sample + e * s.S * s.in,
                         s.w + e * s.out * s.in, s.b ? s.b + e * s.out : NULL,
                         call->y + n * s.answer + e * s.S * s.out);
    }
}

/* Sums over the samples of an expert; dx first, since weights are not read after a report. */
static void experts_backward(fast_ref_call *call)
{
    const ref_experts_shape s = shape_of(call);
    float *dw = fast__ref_grad(call, FAST_W_WEIGHT), *db = fast__ref_grad(call, FAST_W_BIAS);

    memset(dw, 0, (size_t)(s.E * s.out * s.in) * sizeof *dw);
    if (db)
        memset(db, 0, (size_t)(s.E * s.out) * sizeof *db);
    for (int64_t i = 0; i < s.E * call->n; i++) {
        const int64_t e = i / call->n, n = i % call->n;
        const float *x = call->x[0] + n * s.sample + e * s.S * s.in;
        const float *dy = call->dy + n * s.answer + e * s.S * s.out;

        if (call->dx[0])
            fast__ref_linear_dx(s.S, s.in, s.out, dy, s.w + e * s.out * s.in,
                                call->dx[0] + n * s.sample + e * s.S * s.in);
        fast__ref_product(s.out, s.in, s.S, (fast_ref_view){ dy, 1, s.out },
                          (fast_ref_view){ x, s.in, 1 }, dw + e * s.out * s.in, s.in);
        for (int64_t r = 0; db && r < s.S * s.out; r++)
            db[e * s.out + r % s.out] += dy[r];
    }
}

const fast_ref_op fast__ref_experts = { NULL, experts_forward, experts_backward };
