/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routing of positions to experts and back, as functions of samples.
 *
 *     route      [T, E] -> [T, 2 k]       slots s_1 .. s_k, then gates g_1 .. g_k of a position
 *     dispatch   [T, C], [T, 2 k] -> [E S, C]      y[s_i(t)] = x[t]
 *     combine    [E S, C], [T, 2 k] -> [T, C]      y[t] = sum_i g_i(t) x[s_i(t)]
 *
 * Expert e has the slots e S to (e + 1) S - 1. First choices of all positions are placed before
 * second ones, each in the order of positions, as GShard does (Lepikhin et al. 2020, algorithm 1);
 * who finds no slot has -1. With k = 1 the gate is the probability of the expert, as in the Switch
 * Transformer; with more, those of the chosen experts are normalised to 1, before any is dropped:
 *
 *     k = 1   g = p_1             dl_j = dg p_1 ([j = 1] - p_j)
 *     k > 1   g = softmax(l_1 .. l_k)      dl_i = g_i (dg_i - sum_m g_m dg_m)
 *
 * Slots are whole numbers without a gradient.
 */
#include "engine/experts.h"

#include "engine/element.h"

#include <math.h>
#include <string.h>

/* Find the k largest of n values, the largest first; among equal ones the first wins. */
static void choose(int64_t n, const float *values, int k, int *chosen)
{
    for (int i = 0; i < k; i++) {
        int best = -1;

        for (int e = 0; e < n; e++) {
            bool taken = false;

            for (int m = 0; m < i; m++)
                taken = taken || chosen[m] == e;
            if (!taken && (best < 0 || values[e] > values[best]))
                best = e;
        }
        chosen[i] = best;
    }
}

/* Write the softmax of n values. */
static void softmax(int64_t n, const float *values, float *out)
{
    float max = values[0], sum = 0;

    for (int64_t e = 1; e < n; e++)
        max = values[e] > max ? values[e] : max;
    for (int64_t e = 0; e < n; e++)
        sum += out[e] = expf(values[e] - max);
    for (int64_t e = 0; e < n; e++)
        out[e] /= sum;
}

/* Write the gates of one position. */
static void gates_of(int64_t E, int k, const float *logits, const int *chosen, float *gates)
{
    float values[FAST_EXPERTS_MAX];

    if (k == 1) {
        softmax(E, logits, values);
        gates[0] = values[chosen[0]];
        return;
    }
    for (int i = 0; i < k; i++)
        values[i] = logits[chosen[i]];
    softmax(k, values, gates);
}

/* Slots and gates, sample by sample. */
static void route_forward(const void *config, int64_t count, const int64_t *sizes,
                          const float *const *x, float *y)
{
    const fast_element *e = config;
    const int64_t T = e->x[1], E = e->x[2];
    const int k = e->kind;

    (void)sizes;
    FAST_ASSERT(E <= FAST_EXPERTS_MAX && k <= FAST_ROUTES_MAX && k <= E);
    for (int64_t n = 0; n < count; n++) {
        const float *logits = x[0] + n * T * E;
        float *out = y + n * T * 2 * k;
        int64_t used[FAST_EXPERTS_MAX] = { 0 };

        for (int i = 0; i < k; i++)
            for (int64_t t = 0; t < T; t++) {
                int chosen[FAST_ROUTES_MAX];

                choose(E, logits + t * E, i + 1, chosen);
                const int64_t at = chosen[i];
                out[t * 2 * k + i] =
                    used[at] < e->slots ? (float)(at * e->slots + used[at]++) : -1.0F;
                if (i == k - 1)
                    gates_of(E, k, logits + t * E, chosen, out + t * 2 * k + k);
            }
    }
}

/* Gradients of the logits of one position from those of its gates. */
static void back_gates(int64_t E, int k, const float *logits, const float *gates, const float *dg,
                       float *dl)
{
    int chosen[FAST_ROUTES_MAX];
    float p[FAST_EXPERTS_MAX], sum = 0;

    choose(E, logits, k, chosen);
    if (k == 1) {
        softmax(E, logits, p);
        for (int64_t j = 0; j < E; j++)
            dl[j] += dg[0] * gates[0] * ((j == chosen[0] ? 1.0F : 0.0F) - p[j]);
        return;
    }
    for (int i = 0; i < k; i++)
        sum += gates[i] * dg[i];
    for (int i = 0; i < k; i++)
        dl[chosen[i]] += gates[i] * (dg[i] - sum);
}

static void route_backward(const void *config, int64_t count, const int64_t *sizes,
                           const float *const *x, const float *y, const float *dy, float *const *dx)
{
    const fast_element *e = config;
    const int64_t E = e->x[2];
    const int k = e->kind;

    (void)sizes;
    for (int64_t r = 0; dx[0] && r < count * e->x[1]; r++)
        back_gates(E, k, x[0] + r * E, y + r * 2 * k + k, dy + r * 2 * k + k, dx[0] + r * E);
}

/* Return choice i of a position: its slot below `slots`, or -1. */
static int64_t slot_of(const float *route, int i, int64_t slots)
{
    return route[i] >= 0.0F && route[i] < (float)slots ? (int64_t)route[i] : -1;
}

/* y[s_i(t)] = x[t]; free slots are zero. */
static void dispatch_forward(const void *config, int64_t count, const int64_t *sizes,
                             const float *const *x, float *y)
{
    const fast_element *e = config;
    const int64_t T = e->x[1], C = e->x[2], slots = e->y[1], k = e->z[2] / 2;

    memset(y, 0, (size_t)(count * sizes[2]) * sizeof *y);
    for (int64_t r = 0; r < count * T; r++)
        for (int i = 0; i < k; i++) {
            const int64_t s = slot_of(x[1] + r * 2 * k, i, slots);

            if (s >= 0)
                memcpy(y + (r / T * slots + s) * C, x[0] + r * C, (size_t)C * sizeof *y);
        }
}

/* dx[t] += dy[s_i(t)]. */
static void dispatch_backward(const void *config, int64_t count, const int64_t *sizes,
                              const float *const *x, const float *y, const float *dy,
                              float *const *dx)
{
    const fast_element *e = config;
    const int64_t T = e->x[1], C = e->x[2], slots = e->y[1], k = e->z[2] / 2;

    (void)sizes, (void)y;
    for (int64_t r = 0; dx[0] && r < count * T; r++)
        for (int i = 0; i < k; i++) {
            const int64_t s = slot_of(x[1] + r * 2 * k, i, slots);

            for (int64_t c = 0; s >= 0 && c < C; c++)
                dx[0][r * C + c] += dy[(r / T * slots + s) * C + c];
        }
}

/* y[t] = sum_i g_i x[s_i]. */
static void combine_forward(const void *config, int64_t count, const int64_t *sizes,
                            const float *const *x, float *y)
{
    const fast_element *e = config;
    const int64_t T = e->y[1], C = e->y[2], slots = e->x[1], k = e->z[2] / 2;

    memset(y, 0, (size_t)(count * sizes[2]) * sizeof *y);
    for (int64_t r = 0; r < count * T; r++)
        for (int i = 0; i < k; i++) {
            const float *route = x[1] + r * 2 * k;
            const int64_t s = slot_of(route, i, slots);

            for (int64_t c = 0; s >= 0 && c < C; c++)
                y[r * C + c] += route[k + i] * x[0][(r / T * slots + s) * C + c];
        }
}

/* dx[s_i] += g_i dy[t]; dg_i = x[s_i] . dy[t]. */
static void combine_backward(const void *config, int64_t count, const int64_t *sizes,
                             const float *const *x, const float *y, const float *dy,
                             float *const *dx)
{
    const fast_element *e = config;
    const int64_t T = e->y[1], C = e->y[2], slots = e->x[1], k = e->z[2] / 2;

    (void)sizes, (void)y;
    for (int64_t r = 0; r < count * T; r++)
        for (int i = 0; i < k; i++) {
            const float *route = x[1] + r * 2 * k, *grad = dy + r * C;
            const int64_t s = slot_of(route, i, slots), at = (r / T * slots + s) * C;
            float dot = 0;

            for (int64_t c = 0; s >= 0 && dx[0] && c < C; c++)
                dx[0][at + c] += route[k + i] * grad[c];
            for (int64_t c = 0; s >= 0 && dx[1] && c < C; c++)
                dot += x[0][at + c] * grad[c];
            if (dx[1])
                dx[1][r * 2 * k + k + i] += dot;
        }
}

const fast_operator fast__route = { .name = "route",
                                    .forward = route_forward,
                                    .backward = route_backward };
const fast_operator fast__dispatch = { .name = "dispatch",
                                       .forward = dispatch_forward,
                                       .backward = dispatch_backward };
const fast_operator fast__combine = { .name = "combine",
                                      .forward = combine_forward,
                                      .backward = combine_backward };

double fast__balance_loss(const fast_node *head, int64_t count, const float *y, float weight,
                          float *dy)
{
    const int64_t T = head->count / head->shape[head->rank - 1], E = head->shape[head->rank - 1];
    double sum = 0;

    FAST_ASSERT(E <= FAST_EXPERTS_MAX && count > 0);
    for (int64_t n = 0; n < count; n++) {
        const float *logits = y + n * T * E;
        float slope[FAST_EXPERTS_MAX] = { 0 }, p[FAST_EXPERTS_MAX]; /* dL/dP of a sample */
        double loss = 0;

        for (int64_t t = 0; t < T; t++) {
            int first;

            choose(E, logits + t * E, 1, &first);
            slope[first] += (float)E / ((float)T * (float)T);
        }
        for (int64_t t = 0; t < T; t++) {
            float mean = 0;

            softmax(E, logits + t * E, p);
            for (int64_t e = 0; e < E; e++)
                mean += p[e] * slope[e];
            loss += (double)mean;
            for (int64_t e = 0; dy && e < E; e++)
                dy[(n * T + t) * E + e] = weight / (float)count * p[e] * (slope[e] - mean);
        }
        sum += loss;
    }
    return sum / (double)count;
}
