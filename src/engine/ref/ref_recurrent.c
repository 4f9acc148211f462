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

/* One kind of cell: the pointwise part of a step, for one sample. */
typedef struct ref_cell {
    int64_t gates; /* blocks of H rows in Wih and Whh */
    bool memory;   /* has a second state c beside h */
    bool split;    /* the state's part of the gates is separate: the gru's r scales a piece of it */
    /* a: pre-activations of the input's part, become the gates; u: of the state's part, where it is
     * split. h, c: out, of this step. */
    void (*forward)(int64_t H, float *a, const float *u, const float *h_before,
                    const float *c_before, float *h, float *c);
    /* dh: gradient of h, in; becomes the direct gradient of h_before. dc: gradient of c, updated in
     * place. da, du: out. */
    void (*backward)(int64_t H, const float *a, const float *u, const float *h,
                     const float *h_before, const float *c, const float *c_before, float *dh,
                     float *dc, float *da, float *du);
} ref_cell;

/* 1 / (1 + exp(-x)) */
static float sigmoid(float x)
{
    return 1.0F / (1.0F + expf(-x));
}

static void rnn_step(int64_t H, float *a, const float *u, const float *h_before,
                     const float *c_before, float *h, float *c)
{
    (void)u, (void)h_before, (void)c_before, (void)c;
    for (int64_t j = 0; j < H; j++)
        h[j] = tanhf(a[j]);
}

static void rnn_back(int64_t H, const float *a, const float *u, const float *h,
                     const float *h_before, const float *c, const float *c_before, float *dh,
                     float *dc, float *da, float *du)
{
    (void)a, (void)u, (void)h_before, (void)c, (void)c_before, (void)dc, (void)du;
    for (int64_t j = 0; j < H; j++) {
        da[j] = dh[j] * (1.0F - h[j] * h[j]);
        dh[j] = 0.0F;
    }
}

static void lstm_step(int64_t H, float *a, const float *u, const float *h_before,
                      const float *c_before, float *h, float *c)
{
    (void)u, (void)h_before;
    float *i = a;
    float *f = a + H;
    float *g = a + 2 * H;
    float *o = a + 3 * H;
    for (int64_t j = 0; j < H; j++) {
        i[j] = sigmoid(i[j]);
        f[j] = sigmoid(f[j]);
        g[j] = tanhf(g[j]);
        o[j] = sigmoid(o[j]);
        c[j] = (c_before ? f[j] * c_before[j] : 0.0F) + i[j] * g[j];
        h[j] = o[j] * tanhf(c[j]);
    }
}

static void lstm_back(int64_t H, const float *a, const float *u, const float *h,
                      const float *h_before, const float *c, const float *c_before, float *dh,
                      float *dc, float *da, float *du)
{
    (void)u, (void)h, (void)h_before, (void)du;
    for (int64_t j = 0; j < H; j++) {
        const float i = a[j];
        const float f = a[H + j];
        const float g = a[2 * H + j];
        const float o = a[3 * H + j];
        const float t = tanhf(c[j]);
        const float d = dc[j] + dh[j] * o * (1.0F - t * t);
        da[j] = d * g * i * (1.0F - i);
        da[H + j] = c_before ? d * c_before[j] * f * (1.0F - f) : 0.0F;
        da[2 * H + j] = d * i * (1.0F - g * g);
        da[3 * H + j] = dh[j] * t * o * (1.0F - o);
        dc[j] = d * f;
        dh[j] = 0.0F;
    }
}

static void gru_step(int64_t H, float *a, const float *u, const float *h_before,
                     const float *c_before, float *h, float *c)
{
    (void)c_before, (void)c;
    float *r = a;
    float *z = a + H;
    float *n = a + 2 * H;
    for (int64_t j = 0; j < H; j++) {
        r[j] = sigmoid(r[j] + u[j]);
        z[j] = sigmoid(z[j] + u[H + j]);
        n[j] = tanhf(n[j] + r[j] * u[2 * H + j]);
        h[j] = (1.0F - z[j]) * n[j] + (h_before ? z[j] * h_before[j] : 0.0F);
    }
}

static void gru_back(int64_t H, const float *a, const float *u, const float *h,
                     const float *h_before, const float *c, const float *c_before, float *dh,
                     float *dc, float *da, float *du)
{
    (void)h, (void)c, (void)c_before, (void)dc;
    for (int64_t j = 0; j < H; j++) {
        const float r = a[j];
        const float z = a[H + j];
        const float n = a[2 * H + j];
        const float before = h_before ? h_before[j] : 0.0F;
        const float dn = dh[j] * (1.0F - z) * (1.0F - n * n);
        da[j] = dn * u[2 * H + j] * r * (1.0F - r);
        da[H + j] = dh[j] * (before - n) * z * (1.0F - z);
        da[2 * H + j] = dn;
        du[j] = da[j];
        du[H + j] = da[H + j];
        du[2 * H + j] = dn * r;
        dh[j] *= z;
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
    const ref_cell *cell;
    int64_t T, C, H, G; /* G = gates H */
    float *a, *u, *c;   /* u is a, and c is unused, if the cell lacks them */
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

/* All inputs at once, then step by step. */
static void recurrent_forward(fast_ref_call *call)
{
    const ref_recurrent_shape s = shape_of(call);
    fast__ref_linear(call->n * s.T, s.C, s.G, call->x[0], fast__ref_weight(call, FAST_W_WEIGHT),
                     fast__ref_weight(call, FAST_W_BIAS), s.a);
    for (int64_t t = 0; t < s.T; t++) {
        add_state_part(call, &s, t);
        for (int64_t i = 0; i < call->n; i++) {
            const int64_t at = i * s.T + t;
            float *h = call->y + at * s.H;
            float *c = s.cell->memory ? s.c + at * s.H : NULL;
            s.cell->forward(s.H, s.a + at * s.G, s.u + at * s.G, t > 0 ? h - s.H : NULL,
                            c && t > 0 ? c - s.H : NULL, h, c);
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
            const float *h = call->y + at * s->H;
            const float *c = s->cell->memory ? s->c + at * s->H : NULL;
            for (int64_t j = 0; j < s->H; j++)
                dh[i * s->H + j] += call->dy[at * s->H + j];
            s->cell->backward(s->H, s->a + at * s->G, s->u + at * s->G, h, t > 0 ? h - s->H : NULL,
                              c, c && t > 0 ? c - s->H : NULL, dh + i * s->H, dc + i * s->H,
                              da + at * s->G, du + at * s->G);
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
