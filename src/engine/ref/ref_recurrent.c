/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent layers over sequences [T, C] -> [T, H], with PyTorch's weights, from a zero state:
 *
 *     rnn    h = tanh(a)                     a = Wih x + bih + Whh h' + bhh   (Elman 1990)
 *     lstm   i, f, o = sigmoid, g = tanh of a's four parts; c = f c' + i g; h = o tanh(c)
 *            (Hochreiter and Schmidhuber 1997, with forget gates)
 *     gru    r, z = sigmoid(a); n = tanh(a_n + r u), u = Whn h' + bhn; h = (1 - z) n + z h'
 *            (Cho et al. 2014)
 *
 * where h' and c' are those of the step before. The input's part of all gates is one product over
 * all steps; the state's part is one product a step. Back-propagation through time visits the steps
 * in reverse, passes dh (and dc) along, collects the gates' gradients da of all steps, and computes
 * the weights' gradients from them by products over all steps at once.
 */
#include "engine/ref/ref.h"

#include <math.h>
#include <string.h>

/* One step of one sample; each array has H elements, or gates H where it says "gates". Gradients
 * are those of the backward pass alone. */
typedef struct ref_step {
    int64_t H;             /* hidden units */
    float *a;              /* gates: pre-activations of the input's part; become the gates */
    const float *u;        /* gates: of the state's part, where it is split; else equal to a */
    const float *h_before; /* state of the step before; NULL at the first */
    const float *c_before; /* second state of the step before; NULL at the first */
    float *h, *c;          /* states of this step, written in the forward pass; c may be NULL */
    float *dh;             /* gradient of h; becomes the direct gradient of h_before */
    float *dc;             /* gradient of c, updated in place */
    float *da, *du;        /* gates: gradients of a and u, written */
} ref_step;

/* One kind of cell: the pointwise part of a step. */
typedef struct ref_cell {
    int64_t gates; /* blocks of H rows in Wih and Whh */
    bool memory;   /* has a second state c beside h */
    bool split;    /* the state's part of the gates is separate: the gru's r scales a piece of it */
    /* Compute the gates and the states of one step. */
    void (*forward)(const ref_step *s);
    /* Compute da and du, and the gradients that reach the step before directly. */
    void (*backward)(const ref_step *s);
} ref_cell;

/* 1 / (1 + exp(-x)) */
static float sigmoid(float x)
{
    return 1.0F / (1.0F + expf(-x));
}

/* h = tanh(a) */
static void rnn_step(const ref_step *s)
{
    for (int64_t j = 0; j < s->H; j++)
        s->h[j] = tanhf(s->a[j]);
}

/* da = dh (1 - h^2); the state before is reached through the gates alone. */
static void rnn_back(const ref_step *s)
{
    for (int64_t j = 0; j < s->H; j++) {
        s->da[j] = s->dh[j] * (1.0F - s->h[j] * s->h[j]);
        s->dh[j] = 0.0F;
    }
}

/* a becomes i, f, g, o;   c = f c' + i g;   h = o tanh(c) */
static void lstm_step(const ref_step *s)
{
    const int64_t H = s->H;
    float *i = s->a, *f = i + H, *g = f + H, *o = g + H, *c = s->c;
    for (int64_t j = 0; j < H; j++) {
        i[j] = sigmoid(i[j]);
        f[j] = sigmoid(f[j]);
        g[j] = tanhf(g[j]);
        o[j] = sigmoid(o[j]);
        c[j] = (s->c_before ? f[j] * s->c_before[j] : 0.0F) + i[j] * g[j];
        s->h[j] = o[j] * tanhf(c[j]);
    }
}

/* d, the gradient of c, has the parts of the next step and of h; each gate's part of da has the
 * derivative of its sigmoid or tanh, by its value. */
static void lstm_back(const ref_step *s)
{
    const int64_t H = s->H;
    float *da = s->da;
    for (int64_t j = 0; j < H; j++) {
        const float i = s->a[j], f = s->a[H + j], g = s->a[2 * H + j], o = s->a[3 * H + j];
        const float t = tanhf(s->c[j]);
        const float d = s->dc[j] + s->dh[j] * o * (1.0F - t * t);
        da[j] = d * g * i * (1.0F - i);
        da[H + j] = s->c_before ? d * s->c_before[j] * f * (1.0F - f) : 0.0F;
        da[2 * H + j] = d * i * (1.0F - g * g);
        da[3 * H + j] = s->dh[j] * t * o * (1.0F - o);
        s->dc[j] = d * f;
        s->dh[j] = 0.0F;
    }
}

/* a becomes r, z, n;   h = (1 - z) n + z h' */
static void gru_step(const ref_step *s)
{
    const int64_t H = s->H;
    float *r = s->a, *z = r + H, *n = z + H;
    const float *u = s->u;
    for (int64_t j = 0; j < H; j++) {
        r[j] = sigmoid(r[j] + u[j]);
        z[j] = sigmoid(z[j] + u[H + j]);
        n[j] = tanhf(n[j] + r[j] * u[2 * H + j]);
        s->h[j] = (1.0F - z[j]) * n[j] + (s->h_before ? z[j] * s->h_before[j] : 0.0F);
    }
}

/* da and du are equal but for the candidate n, of which r scales the state's part alone. */
static void gru_back(const ref_step *s)
{
    const int64_t H = s->H;
    float *da = s->da, *du = s->du;
    for (int64_t j = 0; j < H; j++) {
        const float r = s->a[j], z = s->a[H + j], n = s->a[2 * H + j];
        const float before = s->h_before ? s->h_before[j] : 0.0F;
        const float dn = s->dh[j] * (1.0F - z) * (1.0F - n * n);
        da[j] = dn * s->u[2 * H + j] * r * (1.0F - r);
        da[H + j] = s->dh[j] * (before - n) * z * (1.0F - z);
        da[2 * H + j] = dn;
        du[j] = da[j];
        du[H + j] = da[H + j];
        du[2 * H + j] = dn * r;
        s->dh[j] *= z;
    }
}

static const ref_cell rnn_cell = { 1, false, false, rnn_step, rnn_back };
static const ref_cell lstm_cell = { 4, true, false, lstm_step, lstm_back };
static const ref_cell gru_cell = { 3, false, true, gru_step, gru_back };

/* The cell of an operator. */
static const ref_cell *cell_of(const fast_node *node)
{
    FAST_ASSERT(node->op == FAST_OP_RNN || node->op == FAST_OP_LSTM || node->op == FAST_OP_GRU);
    return node->op == FAST_OP_RNN ? &rnn_cell : node->op == FAST_OP_LSTM ? &lstm_cell : &gru_cell;
}

/* The letters and the saved arrays: a [n][T][G], u like a if the cell is split, c [n][T][H]. */
typedef struct ref_recurrent_shape {
    const ref_cell *cell; /* the kind of cell */
    int64_t T, C;         /* steps, and channels of the input */
    int64_t H, G;         /* hidden units, and G = gates H */
    float *a, *u, *c;     /* u is a, and c is unused, if the cell lacks them */
} ref_recurrent_shape;

/* The letters and saved arrays of a call. */
static ref_recurrent_shape shape_of(const fast_ref_call *call)
{
    ref_recurrent_shape s = { .cell = cell_of(call->node),
                              .T = call->node->shape[0],
                              .C = call->in->shape[1],
                              .H = call->node->shape[1] };
    s.G = s.cell->gates * s.H;
    s.a = call->saved;
    s.u = s.cell->split ? s.a + call->n * s.T * s.G : s.a;
    s.c = s.u + call->n * s.T * s.G;
    return s;
}

/* Saved: gates and cell states; scratch: their gradients, dh and dc. */
static fast_ref_need recurrent_need(const fast_graph *graph, int index, int64_t batch)
{
    const fast_node *node = &graph->nodes[index];
    const ref_cell *kind = cell_of(node);
    const int64_t T = node->shape[0];
    const int64_t H = node->shape[1];
    const int64_t gates = batch * T * kind->gates * H * (kind->split ? 2 : 1);
    return (fast_ref_need){ gates + (kind->memory ? batch * T * H : 0), gates + 2 * batch * H };
}

/* Add the state's part of the gates of step t: u[t] += bhh + Whh h[t - 1]. If the cell is not
 * split, u is a and already holds the input's part. */
static void add_state_part(const fast_ref_call *call, const ref_recurrent_shape *s, int64_t t)
{
    const float *b = fast__ref_weight(call, FAST_W_BIAS2);
    for (int64_t i = 0; i < call->n; i++) {
        float *u = s->u + (i * s->T + t) * s->G;
        for (int64_t g = 0; g < s->G; g++)
            u[g] = (s->cell->split ? 0.0F : u[g]) + (b ? b[g] : 0.0F);
    }
    if (t > 0)
        fast__ref_product(call->n, s->G, s->H,
                          (fast_ref_view){ call->y + (t - 1) * s->H, s->T * s->H, 1 },
                          (fast_ref_view){ fast__ref_weight(call, FAST_W_WEIGHT2), 1, s->H },
                          s->u + t * s->G, s->T * s->G);
}

/* Step t of sample i: where its arrays lie in those of the whole batch. */
static ref_step step_at(const fast_ref_call *call, const ref_recurrent_shape *s, int64_t i,
                        int64_t t)
{
    const int64_t at = i * s->T + t;
    float *h = call->y + at * s->H;
    float *c = s->cell->memory ? s->c + at * s->H : NULL;
    return (ref_step){ .H = s->H,
                       .a = s->a + at * s->G,
                       .u = s->u + at * s->G,
                       .h = h,
                       .c = c,
                       .h_before = t > 0 ? h - s->H : NULL,
                       .c_before = c && t > 0 ? c - s->H : NULL };
}

/* All inputs at once, then step by step. */
static void recurrent_forward(fast_ref_call *call)
{
    const ref_recurrent_shape s = shape_of(call);
    fast__ref_linear(call->n * s.T, s.C, s.G, call->x[0], fast__ref_weight(call, FAST_W_WEIGHT),
                     fast__ref_weight(call, FAST_W_BIAS), s.a);
    for (int64_t t = 0; t < s.T; t++) {
        add_state_part(call, &s, t);
        for (int64_t i = 0; i < call->n; i++) {
            const ref_step step = step_at(call, &s, i, t);
            s.cell->forward(&step);
        }
    }
}

/* Visit all steps in reverse: fills da, and du if the cell is split. */
static void back_through_time(const fast_ref_call *call, const ref_recurrent_shape *s, float *da,
                              float *du, float *dh, float *dc)
{
    const float *w = fast__ref_weight(call, FAST_W_WEIGHT2);
    memset(dh, 0, (size_t)(2 * call->n * s->H) * sizeof(float)); /* dh and dc */
    for (int64_t t = s->T - 1; t >= 0; t--) {
        for (int64_t i = 0; i < call->n; i++) {
            const int64_t at = i * s->T + t;
            ref_step step = step_at(call, s, i, t);
            step.dh = dh + i * s->H;
            step.dc = dc + i * s->H;
            step.da = da + at * s->G;
            step.du = du + at * s->G;
            for (int64_t j = 0; j < s->H; j++)
                step.dh[j] += call->dy[at * s->H + j];
            s->cell->backward(&step);
        }
        fast__ref_product(call->n, s->H, s->G, (fast_ref_view){ du + t * s->G, s->T * s->G, 1 },
                          (fast_ref_view){ w, s->H, 1 }, dh, s->H);
    }
}

/* Through time, then the gradients of weights and inputs over all steps at once. */
static void recurrent_backward(fast_ref_call *call)
{
    const ref_recurrent_shape s = shape_of(call);
    const int64_t rows = call->n * s.T;
    float *da = call->scratch;
    float *du = s.cell->split ? da + rows * s.G : da;
    float *dh = du + rows * s.G;
    float *dc = dh + call->n * s.H;
    float *dwhh = fast__ref_grad(call, FAST_W_WEIGHT2);
    float *dbhh = fast__ref_grad(call, FAST_W_BIAS2);
    back_through_time(call, &s, da, du, dh, dc);
    fast__ref_linear_dw(rows, s.C, s.G, da, call->x[0], fast__ref_grad(call, FAST_W_WEIGHT),
                        fast__ref_grad(call, FAST_W_BIAS));
    /* Step t read the state of step t - 1; the first step read zeros. */
    memset(dwhh, 0, (size_t)(s.G * s.H) * sizeof(float));
    for (int64_t i = 0; i < call->n; i++)
        fast__ref_product(s.G, s.H, s.T - 1, (fast_ref_view){ du + (i * s.T + 1) * s.G, 1, s.G },
                          (fast_ref_view){ call->y + i * s.T * s.H, s.H, 1 }, dwhh, s.H);
    fast__ref_linear_dw(rows, s.H, s.G, du, call->y, NULL, dbhh);
    if (call->dx[0])
        fast__ref_linear_dx(rows, s.C, s.G, da, fast__ref_weight(call, FAST_W_WEIGHT), call->dx[0]);
}

const fast_ref_op fast__ref_recurrent = { recurrent_need, recurrent_forward, recurrent_backward };
