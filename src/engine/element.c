/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The elementary operators, forward and backward.
 *
 *     map           y = f(x)                    dx += dy f'(x)
 *     arith         y = f(x, z), broadcast      dx += dy df/dx, dz += dy df/dz, summed over copies
 *     scale, shift  y = x w, y = x + w          as arith, with a weight for z
 *     matmul        y = x z                     dx += dy z', dz += x' dy
 *     transpose, reshape, slice, reduce         moves: dx gets dy back where y came from
 *     log_softmax   y = x - ln sum e^x          dx += dy - e^y sum dy, by rows
 *
 * All arrays are row major with three dimensions a sample; shapes of fewer have ones in front. An
 * operand that is repeated along a dimension has the step 0 there, in both passes: forward it is
 * read again, backward the gradients of its copies are added up.
 *
 *     x [3, 4, 5]   steps 20, 5, 1         z [1, 4, 1]   steps 0, 1, 0
 *
 * Backward functions add to dx, because a layer may have several readers; dx is NULL where no
 * gradient is needed, as for the input of the network and for frozen tensors.
 *
 * Cost: one pass over the elements; matmul 2 m n k operations forward and twice that backward. No
 * function allocates memory or retains any between its passes.
 */
#include "engine/element.h"

#include <math.h>
#include <string.h>

/* Return the number of elements of a shape, ones included. */
static int64_t volume(const int64_t shape[3])
{
    return shape[0] * shape[1] * shape[2];
}

/* Compute f(x) of a map. Roots and squares have instructions of their own; other powers take a
 * function call. */
static float map_value(const fast_element *e, float x)
{
    switch ((fast_map)e->kind) {
    case FAST_MAP_AFFINE:
        return e->a * x + e->b;
    case FAST_MAP_POWER:
        return e->a == 0.5F ? sqrtf(x) : e->a == 2 ? x * x : powf(x, e->a);
    case FAST_MAP_CLIP:
        return x < e->a ? e->a : x > e->b ? e->b : x;
    case FAST_MAP_EXP:
        return expf(x);
    case FAST_MAP_LOG:
        return logf(x);
    case FAST_MAP_ABS:
        return fabsf(x);
    case FAST_MAP_ERF:
        return erff(x);
    case FAST_MAP_SOFTPLUS:
        return x > 30 ? x : log1pf(expf(x));
    case FAST_MAP_ELU:
        return x < 0 ? e->a * expm1f(x) : x;
    case FAST_MAP_HARD_SIGMOID:
        return fminf(fmaxf(e->a * x + e->b, 0), 1);
    case FAST_MAP_HARD_SWISH:
        return x * fminf(fmaxf(x / 6 + 0.5F, 0), 1);
    }
    return x;
}

/* Compute f'(x) of a map from x or from y = f(x), whichever is cheaper. At a kink the slope is the
 * one that PyTorch gives. */
static float map_slope(const fast_element *e, float x, float y)
{
    switch ((fast_map)e->kind) {
    case FAST_MAP_AFFINE:
        return e->a;
    case FAST_MAP_POWER:
        return e->a == 0.5F ? 0.5F / y : e->a * powf(x, e->a - 1);
    case FAST_MAP_CLIP: /* PyTorch's choice at the bounds */
        return x >= e->a && x <= e->b ? 1 : 0;
    case FAST_MAP_EXP:
        return y;
    case FAST_MAP_LOG:
        return 1 / x;
    case FAST_MAP_ABS:
        return x > 0 ? 1 : x < 0 ? -1 : 0;
    case FAST_MAP_ERF:
        return 1.1283791671F * expf(-x * x); /* 2 / sqrt(pi) */
    case FAST_MAP_SOFTPLUS:
        return 1 / (1 + expf(-x));
    case FAST_MAP_ELU:
        return x < 0 ? y + e->a : 1;
    case FAST_MAP_HARD_SIGMOID:
        return y > 0 && y < 1 ? e->a : 0;
    case FAST_MAP_HARD_SWISH:
        return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5F;
    }
    return 1;
}

/* Compute y = f(x), element by element: shapes do not matter. */
static void map_forward(const void *config, int64_t count, const int64_t *sizes,
                        const float *const *x, float *y)
{
    const fast_element e = *(const fast_element *)config;

    for (int64_t i = 0; i < count * sizes[0]; i++)
        y[i] = map_value(&e, x[0][i]);
}

/* dx += dy f'(x). */
static void map_backward(const void *config, int64_t count, const int64_t *sizes,
                         const float *const *x, const float *y, const float *dy, float *const *dx)
{
    const fast_element e = *(const fast_element *)config;

    for (int64_t i = 0; dx[0] && i < count * sizes[0]; i++)
        dx[0][i] += dy[i] * map_slope(&e, x[0][i], y[i]);
}

/* Steps of an operand along the dimensions of the output: 0 where it is repeated. */
typedef struct element_steps {
    int64_t sample; /* from sample to sample */
    int64_t dim[3]; /* along each dimension */
} element_steps;

/* Compute the steps of an operand of this shape. */
static element_steps steps_of(const int64_t shape[3], bool shared)
{
    element_steps s = { .sample = shared ? 0 : volume(shape),
                        .dim = { shape[1] * shape[2], shape[2], 1 } };

    for (int d = 0; d < 3; d++)
        s.dim[d] = shape[d] == 1 ? 0 : s.dim[d];
    return s;
}

/* Compute f(x, z). */
static float arith_value(int kind, float x, float z)
{
    switch ((fast_arith)kind) {
    case FAST_ARITH_ADD:
        return x + z;
    case FAST_ARITH_SUB:
        return x - z;
    case FAST_ARITH_MUL:
        return x * z;
    case FAST_ARITH_DIV:
        return x / z;
    case FAST_ARITH_MAX:
        return x > z ? x : z;
    case FAST_ARITH_MIN:
        return x < z ? x : z;
    }
    return 0;
}

/* Compute df/dx and df/dz. Equal values of max and min share the gradient, as in PyTorch. */
static void arith_slope(int kind, float x, float z, float slope[2])
{
    /* The part of the gradient that x gets where the larger value wins. */
    const float greater = x > z ? 1.0F : x == z ? 0.5F : 0.0F;

    slope[0] = 1;
    slope[1] = 1;
    if (kind == FAST_ARITH_SUB)
        slope[1] = -1;
    if (kind == FAST_ARITH_MUL) {
        slope[0] = z;
        slope[1] = x;
    }
    if (kind == FAST_ARITH_DIV) {
        slope[0] = 1 / z;
        slope[1] = -x / (z * z);
    }
    if (kind == FAST_ARITH_MAX || kind == FAST_ARITH_MIN) {
        slope[0] = kind == FAST_ARITH_MAX ? greater : 1 - greater;
        slope[1] = 1 - slope[0];
    }
}

/* Visit all elements of the output, with the places of both operands. Forward writes y; backward
 * (y NULL) adds to dx. */
static void arith_visit(const fast_element *e, int64_t count, const float *const *x, float *y,
                        const float *dy, float *const *dx)
{
    const element_steps a = steps_of(e->x, false);
    const element_steps b = steps_of(e->z, e->shared);
    int64_t i = 0;

    for (int64_t n = 0; n < count; n++)
        for (int64_t p = 0; p < e->y[0]; p++)
            for (int64_t q = 0; q < e->y[1]; q++) {
                int64_t at = n * a.sample + p * a.dim[0] + q * a.dim[1];
                int64_t to = n * b.sample + p * b.dim[0] + q * b.dim[1];
                for (int64_t r = 0; r < e->y[2]; r++, i++, at += a.dim[2], to += b.dim[2]) {
                    float slope[2];
                    if (y) {
                        y[i] = arith_value(e->kind, x[0][at], x[1][to]);
                        continue;
                    }
                    arith_slope(e->kind, x[0][at], x[1][to], slope);
                    if (dx[0])
                        dx[0][at] += dy[i] * slope[0];
                    if (dx[1])
                        dx[1][to] += dy[i] * slope[1];
                }
            }
}

/* y = f(x, z). */
static void arith_forward(const void *config, int64_t count, const int64_t *sizes,
                          const float *const *x, float *y)
{
    (void)sizes;
    arith_visit(config, count, x, y, NULL, NULL);
}

/* dx += dy df/dx, dz += dy df/dz. */
static void arith_backward(const void *config, int64_t count, const int64_t *sizes,
                           const float *const *x, const float *y, const float *dy, float *const *dx)
{
    (void)sizes, (void)y;
    arith_visit(config, count, x, NULL, dy, dx);
}

/* y[m, n] = x[m, k] z[k, n] for each matrix of each sample. */
static void matmul_forward(const void *config, int64_t count, const int64_t *sizes,
                           const float *const *x, float *y)
{
    const fast_element *e = config;
    const int64_t m = e->y[1];
    const int64_t n = e->y[2];
    const int64_t k = e->x[2];

    /* Rows of z are added to rows of y, so that the inner loop is over adjacent elements. */
    memset(y, 0, (size_t)(count * sizes[2]) * sizeof *y);
    for (int64_t h = 0; h < count * e->y[0]; h++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t p = 0; p < k; p++) {
                const float a = x[0][(h * m + i) * k + p];
                for (int64_t j = 0; j < n; j++)
                    y[(h * m + i) * n + j] += a * x[1][(h * k + p) * n + j];
            }
}

/* dx += dy z', dz += x' dy. */
static void matmul_backward(const void *config, int64_t count, const int64_t *sizes,
                            const float *const *x, const float *y, const float *dy,
                            float *const *dx)
{
    const fast_element *e = config;
    const int64_t m = e->y[1];
    const int64_t n = e->y[2];
    const int64_t k = e->x[2];

    /* dx needs dy times the columns of z', which are its rows; dz the outer products of rows. */
    (void)y, (void)sizes;
    for (int64_t h = 0; h < count * e->y[0]; h++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t p = 0; p < k; p++) {
                const float *g = dy + (h * m + i) * n;
                const float a = x[0][(h * m + i) * k + p];
                float sum = 0;
                for (int64_t j = 0; dx[0] && j < n; j++)
                    sum += g[j] * x[1][(h * k + p) * n + j];
                if (dx[0])
                    dx[0][(h * m + i) * k + p] += sum;
                for (int64_t j = 0; dx[1] && j < n; j++)
                    dx[1][(h * k + p) * n + j] += a * g[j];
            }
}

/* Visit the elements of the output of a move, each with the element of the input it comes from:
 * copy it forward, add its gradient backward (`from` NULL). */
static void move_visit(const fast_element *e, const int64_t step[3], int64_t first, int64_t count,
                       const float *from, float *y, const float *dy, float *dx)
{
    int64_t i = 0;

    for (int64_t n = 0; n < count; n++)
        for (int64_t p = 0; p < e->y[0]; p++)
            for (int64_t q = 0; q < e->y[1]; q++) {
                int64_t at = n * volume(e->x) + first + p * step[0] + q * step[1];
                for (int64_t r = 0; r < e->y[2]; r++, i++, at += step[2]) {
                    if (from)
                        y[i] = from[at];
                    else
                        dx[at] += dy[i];
                }
            }
}

/* Steps of a move's input along the output's dimensions, and its first element. A transpose has
 * start 0, a slice the order 0, 1, 2. */
static int64_t move_steps(const fast_element *e, int64_t step[3])
{
    const int64_t own[3] = { e->x[1] * e->x[2], e->x[2], 1 };

    for (int d = 0; d < 3; d++)
        step[d] = own[e->order[d]];
    return e->start[0] * own[0] + e->start[1] * own[1] + e->start[2];
}

/* y = the elements of x in another order, or some of them. */
static void move_forward(const void *config, int64_t count, const int64_t *sizes,
                         const float *const *x, float *y)
{
    int64_t step[3];
    const int64_t first = move_steps(config, step);

    (void)sizes;
    move_visit(config, step, first, count, x[0], y, NULL, NULL);
}

/* dx += dy, each where its element came from. */
static void move_backward(const void *config, int64_t count, const int64_t *sizes,
                          const float *const *x, const float *y, const float *dy, float *const *dx)
{
    int64_t step[3];
    const int64_t first = move_steps(config, step);

    (void)sizes, (void)x, (void)y;
    if (dx[0])
        move_visit(config, step, first, count, NULL, NULL, dy, dx[0]);
}

/* y = x in another shape. */
static void reshape_forward(const void *config, int64_t count, const int64_t *sizes,
                            const float *const *x, float *y)
{
    (void)config;
    memcpy(y, x[0], (size_t)(count * sizes[0]) * sizeof *y);
}

/* dx += dy. */
static void reshape_backward(const void *config, int64_t count, const int64_t *sizes,
                             const float *const *x, const float *y, const float *dy,
                             float *const *dx)
{
    (void)config, (void)x, (void)y;
    for (int64_t i = 0; dx[0] && i < count * sizes[0]; i++)
        dx[0][i] += dy[i];
}

/* Visit all elements of the input of a reduction: e->y has ones where it is reduced. */
static void reduce_visit(const fast_element *e, int64_t count, const float *x, float *y,
                         const float *dy, float *dx)
{
    /* A reduced dimension has size 1 in y: its step is 0, and its elements are added up there. */
    const element_steps out = steps_of(e->y, false);
    const float factor = e->mean ? (float)volume(e->y) / (float)volume(e->x) : 1;
    int64_t i = 0;

    for (int64_t n = 0; n < count; n++)
        for (int64_t p = 0; p < e->x[0]; p++)
            for (int64_t q = 0; q < e->x[1]; q++)
                for (int64_t r = 0; r < e->x[2]; r++, i++) {
                    const int64_t to =
                        n * out.sample + p * out.dim[0] + q * out.dim[1] + r * out.dim[2];
                    if (y)
                        y[to] += x[i] * factor;
                    else
                        dx[i] += dy[to] * factor;
                }
}

/* y = sum or mean of x over some dimensions. */
static void reduce_forward(const void *config, int64_t count, const int64_t *sizes,
                           const float *const *x, float *y)
{
    memset(y, 0, (size_t)(count * sizes[1]) * sizeof *y);
    reduce_visit(config, count, x[0], y, NULL, NULL);
}

/* Each element gets the gradient of its sum. */
static void reduce_backward(const void *config, int64_t count, const int64_t *sizes,
                            const float *const *x, const float *y, const float *dy,
                            float *const *dx)
{
    (void)sizes, (void)x, (void)y;
    if (dx[0])
        reduce_visit(config, count, NULL, NULL, dy, dx[0]);
}

/* y = x - max - ln sum e^(x - max), by rows of the last dimension. */
static void log_softmax_forward(const void *config, int64_t count, const int64_t *sizes,
                                const float *const *x, float *y)
{
    const int64_t K = ((const fast_element *)config)->x[2];

    for (int64_t r = 0; r < count * sizes[0] / K; r++) {
        const float *in = x[0] + r * K;
        float max = in[0];
        float sum = 0;
        for (int64_t k = 1; k < K; k++)
            max = in[k] > max ? in[k] : max;
        for (int64_t k = 0; k < K; k++)
            sum += expf(in[k] - max);
        for (int64_t k = 0; k < K; k++)
            y[r * K + k] = in[k] - max - logf(sum);
    }
}

/* dx += dy - e^y sum dy. */
static void log_softmax_backward(const void *config, int64_t count, const int64_t *sizes,
                                 const float *const *x, const float *y, const float *dy,
                                 float *const *dx)
{
    const int64_t K = ((const fast_element *)config)->x[2];

    (void)x;
    for (int64_t r = 0; dx[0] && r < count * sizes[0] / K; r++) {
        float sum = 0;
        for (int64_t k = 0; k < K; k++)
            sum += dy[r * K + k];
        for (int64_t k = 0; k < K; k++)
            dx[0][r * K + k] += dy[r * K + k] - expf(y[r * K + k]) * sum;
    }
}

/* Rows by operator; operators that are not elementary have no name here. The shapes are computed
 * where networks are built (model/shapes_element.c), so that the rows need no function for it. */
const fast_operator *fast__element_operator(fast_op op)
{
    static const fast_operator rows[FAST_OP_COUNT] = {
        [FAST_OP_MAP] = { 0, "map", NULL, map_forward, map_backward },
        [FAST_OP_ARITH] = { 0, "arith", NULL, arith_forward, arith_backward },
        [FAST_OP_SCALE] = { 0, "scale", NULL, arith_forward, arith_backward },
        [FAST_OP_SHIFT] = { 0, "shift", NULL, arith_forward, arith_backward },
        [FAST_OP_MATMUL] = { 0, "matmul", NULL, matmul_forward, matmul_backward },
        [FAST_OP_TRANSPOSE] = { 0, "transpose", NULL, move_forward, move_backward },
        [FAST_OP_RESHAPE] = { 0, "reshape", NULL, reshape_forward, reshape_backward },
        [FAST_OP_SLICE] = { 0, "slice", NULL, move_forward, move_backward },
        [FAST_OP_REDUCE] = { 0, "reduce", NULL, reduce_forward, reduce_backward },
        [FAST_OP_LOG_SOFTMAX] = { 0, "log_softmax", NULL, log_softmax_forward,
                                  log_softmax_backward },
    };

    return rows[op].name ? &rows[op] : NULL;
}
