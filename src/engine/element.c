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
 *     delay         y[t] = x[t - s], 0 before   dx[t] += dy[t + s]
 *     repeat        y[t] = x                    dx += sum over t of dy[t]
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

#include "engine/experts.h"

#include <math.h>
#include <string.h>

/* Return the number of elements of a shape, ones included. */
static int64_t volume(const int64_t shape[3])
{
    return shape[0] * shape[1] * shape[2];
}

/* Compute x^a. Squares, cubes, roots and inverses, which formulas have, need no function call. */
static inline float power(float x, float a)
{
    return a == 2      ? x * x
           : a == 3    ? x * x * x
           : a == 0.5F ? sqrtf(x)
           : a == -1   ? 1 / x
           : a == 1    ? x
                       : powf(x, a);
}

/* A case of the function below: one loop for each kind, so that none asks for the kind at each
 * element. */
#define MAP_CASE(kind, value)             \
    case kind:                            \
        for (int64_t i = 0; i < n; i++) { \
            const float x = in[i];        \
            out[i] = value;               \
        }                                 \
        break;

/* Compute y = f(x), element by element: shapes do not matter. */
static void map_forward(const void *config, int64_t count, const int64_t *sizes,
                        const float *const *inputs, float *out)
{
    const fast_element e = *(const fast_element *)config;
    const int64_t n = count * sizes[0];
    const float *in = inputs[0];

    switch ((fast_map)e.kind) {
        MAP_CASE(FAST_MAP_AFFINE, e.a * x + e.b)
        MAP_CASE(FAST_MAP_POWER, power(x, e.a))
        MAP_CASE(FAST_MAP_CLIP, x < e.a ? e.a : x > e.b ? e.b : x)
        MAP_CASE(FAST_MAP_EXP, expf(x))
        MAP_CASE(FAST_MAP_LOG, logf(x))
        MAP_CASE(FAST_MAP_ABS, fabsf(x))
        MAP_CASE(FAST_MAP_ERF, erff(x))
        MAP_CASE(FAST_MAP_SOFTPLUS, x > 30 ? x : log1pf(expf(x)))
        MAP_CASE(FAST_MAP_ELU, x < 0 ? e.a * expm1f(x) : x)
        MAP_CASE(FAST_MAP_HARD_SIGMOID, fminf(fmaxf(e.a * x + e.b, 0), 1))
        MAP_CASE(FAST_MAP_HARD_SWISH, x * fminf(fmaxf(x / 6 + 0.5F, 0), 1))
    }
}

/* The same for the slope f'(x), from x or from y = f(x), whichever is cheaper. At a kink it is the
 * one that PyTorch gives. */
#define SLOPE_CASE(kind, slope)           \
    case kind:                            \
        for (int64_t i = 0; i < n; i++) { \
            const float x = in[i];        \
            const float y = out[i];       \
            (void)x, (void)y;             \
            dx[0][i] += dy[i] * (slope);  \
        }                                 \
        break;

/* Add dy f'(x) to dx. */
static void map_backward(const void *config, int64_t count, const int64_t *sizes,
                         const float *const *inputs, const float *out, const float *dy,
                         float *const *dx)
{
    const fast_element e = *(const fast_element *)config;
    const int64_t n = dx[0] ? count * sizes[0] : 0;
    const float *in = inputs[0];

    switch ((fast_map)e.kind) {
        SLOPE_CASE(FAST_MAP_AFFINE, e.a)
        SLOPE_CASE(FAST_MAP_POWER, e.a == 0.5F ? 0.5F / y : e.a * power(x, e.a - 1))
        SLOPE_CASE(FAST_MAP_CLIP, x >= e.a && x <= e.b ? 1.0F : 0.0F)
        SLOPE_CASE(FAST_MAP_EXP, y)
        SLOPE_CASE(FAST_MAP_LOG, 1 / x)
        SLOPE_CASE(FAST_MAP_ABS, x > 0 ? 1.0F : x < 0 ? -1.0F : 0.0F)
        SLOPE_CASE(FAST_MAP_ERF, 1.1283791671F * expf(-x * x)) /* 2 / sqrt(pi) */
        SLOPE_CASE(FAST_MAP_SOFTPLUS, 1 / (1 + expf(-x)))
        SLOPE_CASE(FAST_MAP_ELU, x < 0 ? y + e.a : 1.0F)
        SLOPE_CASE(FAST_MAP_HARD_SIGMOID, y > 0 && y < 1 ? e.a : 0.0F)
        SLOPE_CASE(FAST_MAP_HARD_SWISH, x <= -3 ? 0.0F : x >= 3 ? 1.0F : x / 3 + 0.5F)
    }
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

/* A row of the output: both operands advance by their own step, 0 or more. */
typedef struct element_row {
    int64_t n;       /* number of elements */
    const float *x;  /* first element of x */
    const float *z;  /* first element of z */
    int64_t x_step;  /* of x along the row */
    int64_t z_step;  /* of z along the row */
    float *y;        /* output; forward pass */
    const float *dy; /* gradient of the output; backward pass */
    float *dx, *dz;  /* gradients of both, added to; or NULL */
} element_row;

/* A loop over a row, with the steps known where both are 1, so that it becomes vector code. */
#define ROW_LOOP(statement)                  \
    if (r->x_step == 1 && r->z_step == 1) {  \
        for (int64_t i = 0; i < r->n; i++) { \
            const int64_t a = i;             \
            const int64_t b = i;             \
            (void)a, (void)b;                \
            statement;                       \
        }                                    \
    } else {                                 \
        for (int64_t i = 0; i < r->n; i++) { \
            const int64_t a = i * r->x_step; \
            const int64_t b = i * r->z_step; \
            (void)a, (void)b;                \
            statement;                       \
        }                                    \
    }

/* Compute y = f(x, z) along a row. */
static void row_forward(int kind, const element_row *r)
{
    switch ((fast_arith)kind) {
    case FAST_ARITH_ADD:
        ROW_LOOP(r->y[i] = r->x[a] + r->z[b])
        break;
    case FAST_ARITH_SUB:
        ROW_LOOP(r->y[i] = r->x[a] - r->z[b])
        break;
    case FAST_ARITH_MUL:
        ROW_LOOP(r->y[i] = r->x[a] * r->z[b])
        break;
    case FAST_ARITH_DIV:
        ROW_LOOP(r->y[i] = r->x[a] / r->z[b])
        break;
    case FAST_ARITH_MAX:
        ROW_LOOP(r->y[i] = r->x[a] > r->z[b] ? r->x[a] : r->z[b])
        break;
    case FAST_ARITH_MIN:
        ROW_LOOP(r->y[i] = r->x[a] < r->z[b] ? r->x[a] : r->z[b])
        break;
    }
}

/* The part of the gradient that x gets where the larger value wins; equal values share it, as in
 * PyTorch. */
static inline float larger(float x, float z)
{
    return x > z ? 1.0F : x == z ? 0.5F : 0.0F;
}

/* Add dy df/dx to dx along a row. */
static void row_backward_x(int kind, const element_row *r)
{
    switch ((fast_arith)kind) {
    case FAST_ARITH_ADD:
    case FAST_ARITH_SUB:
        ROW_LOOP(r->dx[a] += r->dy[i])
        break;
    case FAST_ARITH_MUL:
        ROW_LOOP(r->dx[a] += r->dy[i] * r->z[b])
        break;
    case FAST_ARITH_DIV:
        ROW_LOOP(r->dx[a] += r->dy[i] / r->z[b])
        break;
    case FAST_ARITH_MAX:
        ROW_LOOP(r->dx[a] += r->dy[i] * larger(r->x[a], r->z[b]))
        break;
    case FAST_ARITH_MIN:
        ROW_LOOP(r->dx[a] += r->dy[i] * larger(r->z[b], r->x[a]))
        break;
    }
}

/* Add dy df/dz to dz along a row. */
static void row_backward_z(int kind, const element_row *r)
{
    switch ((fast_arith)kind) {
    case FAST_ARITH_ADD:
        ROW_LOOP(r->dz[b] += r->dy[i])
        break;
    case FAST_ARITH_SUB:
        ROW_LOOP(r->dz[b] -= r->dy[i])
        break;
    case FAST_ARITH_MUL:
        ROW_LOOP(r->dz[b] += r->dy[i] * r->x[a])
        break;
    case FAST_ARITH_DIV:
        ROW_LOOP(r->dz[b] -= r->dy[i] * r->x[a] / (r->z[b] * r->z[b]))
        break;
    case FAST_ARITH_MAX:
        ROW_LOOP(r->dz[b] += r->dy[i] * larger(r->z[b], r->x[a]))
        break;
    case FAST_ARITH_MIN:
        ROW_LOOP(r->dz[b] += r->dy[i] * larger(r->x[a], r->z[b]))
        break;
    }
}

/* Visit all rows of the output, with the places of both operands. Forward writes y; backward (y
 * NULL) adds to dx. */
static void arith_visit(const fast_element *e, int64_t count, const float *const *x, float *y,
                        const float *dy, float *const *dx)
{
    const element_steps a = steps_of(e->x, false);
    const element_steps b = steps_of(e->z, e->shared);
    const int64_t rows = count * e->y[0] * e->y[1];

    for (int64_t i = 0; i < rows; i++) {
        const int64_t q = i % e->y[1];
        const int64_t p = i / e->y[1] % e->y[0];
        const int64_t n = i / e->y[1] / e->y[0];
        const int64_t at = n * a.sample + p * a.dim[0] + q * a.dim[1];
        const int64_t to = n * b.sample + p * b.dim[0] + q * b.dim[1];
        element_row r = {
            .n = e->y[2], .x = x[0] + at, .z = x[1] + to, .x_step = a.dim[2], .z_step = b.dim[2]
        };
        if (y) {
            r.y = y + i * e->y[2];
            row_forward(e->kind, &r);
            continue;
        }
        r.dy = dy + i * e->y[2];
        if (dx[0]) {
            r.dx = dx[0] + at;
            row_backward_x(e->kind, &r);
        }
        if (dx[1]) {
            r.dz = dx[1] + to;
            row_backward_z(e->kind, &r);
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

enum { BLOCK = 16 }; /* columns that are summed in registers */

/* Compute columns j to j + width of one matrix product: y[m, n] = x[m, k] z[k, n]. */
static void product_block(int64_t m, int64_t n, int64_t k, int64_t width, const float *restrict x,
                          const float *restrict z, float *restrict y)
{
    for (int64_t i = 0; i < m; i++) {
        float sum[BLOCK] = { 0 };
        for (int64_t p = 0; p < k; p++) {
            const float a = x[i * k + p];
            if (width == BLOCK) {
                for (int64_t j = 0; j < BLOCK; j++)
                    sum[j] += a * z[p * n + j];
            } else {
                for (int64_t j = 0; j < width; j++)
                    sum[j] += a * z[p * n + j];
            }
        }
        for (int64_t j = 0; j < width; j++)
            y[i * n + j] = sum[j];
    }
}

/* y[m, n] = x[m, k] z[k, n] for each matrix of each sample. */
static void matmul_forward(const void *config, int64_t count, const int64_t *sizes,
                           const float *const *x, float *y)
{
    const fast_element *e = config;
    const int64_t m = e->y[1];
    const int64_t n = e->y[2];
    const int64_t k = e->x[2];

    (void)sizes;
    for (int64_t h = 0; h < count * e->y[0]; h++)
        for (int64_t j = 0; j < n; j += BLOCK)
            product_block(m, n, k, n - j < BLOCK ? n - j : BLOCK, x[0] + h * m * k,
                          x[1] + h * k * n + j, y + h * m * n + j);
}

/* Return the product of two rows, in eight sums so that the additions overlap. */
static float dot(int64_t n, const float *a, const float *b)
{
    float sum[8] = { 0 };
    int64_t j = 0;

    for (; j + 8 <= n; j += 8)
        for (int64_t l = 0; l < 8; l++)
            sum[l] += a[j + l] * b[j + l];
    for (; j < n; j++)
        sum[0] += a[j] * b[j];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* Add a row, times a, to another. */
static void add_row(int64_t n, float a, const float *restrict from, float *restrict to)
{
    for (int64_t j = 0; j < n; j++)
        to[j] += a * from[j];
}

/* dx += dy z', dz += x' dy: products of the rows of dy with those of z, and sums of rows of dy. */
static void matmul_backward(const void *config, int64_t count, const int64_t *sizes,
                            const float *const *x, const float *y, const float *dy,
                            float *const *dx)
{
    const fast_element *e = config;
    const int64_t m = e->y[1];
    const int64_t n = e->y[2];
    const int64_t k = e->x[2];

    (void)y, (void)sizes;
    for (int64_t h = 0; h < count * e->y[0]; h++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t p = 0; p < k; p++) {
                const float *g = dy + (h * m + i) * n;
                if (dx[0])
                    dx[0][(h * m + i) * k + p] += dot(n, g, x[1] + (h * k + p) * n);
                if (dx[1])
                    add_row(n, x[0][(h * m + i) * k + p], g, dx[1] + (h * k + p) * n);
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

/* Return the elements of a sample that a delay moves: those of all positions but the last ones. */
static int64_t delayed_count(const fast_element *e)
{
    FAST_ASSERT(e->start[1] > 0 && e->start[1] < e->x[1]);
    return (e->x[1] - e->start[1]) * e->x[2];
}

/* y = x some positions later, behind zeros. */
static void delay_forward(const void *config, int64_t count, const int64_t *sizes,
                          const float *const *x, float *y)
{
    const int64_t moved = delayed_count(config), zeros = sizes[0] - moved;

    for (int64_t n = 0; n < count; n++) {
        memset(y + n * sizes[0], 0, (size_t)zeros * sizeof *y);
        memcpy(y + n * sizes[0] + zeros, x[0] + n * sizes[0], (size_t)moved * sizeof *y);
    }
}

/* dx += dy some positions earlier: nobody reads the last ones. */
static void delay_backward(const void *config, int64_t count, const int64_t *sizes,
                           const float *const *x, const float *y, const float *dy, float *const *dx)
{
    const int64_t moved = delayed_count(config), zeros = sizes[0] - moved;

    (void)x, (void)y;
    for (int64_t n = 0; dx[0] && n < count; n++)
        for (int64_t i = 0; i < moved; i++)
            dx[0][n * sizes[0] + i] += dy[n * sizes[0] + zeros + i];
}

/* y = x at each position. */
static void repeat_forward(const void *config, int64_t count, const int64_t *sizes,
                           const float *const *x, float *y)
{
    const int64_t T = ((const fast_element *)config)->y[1];

    for (int64_t r = 0; r < count * T; r++)
        memcpy(y + r * sizes[0], x[0] + r / T * sizes[0], (size_t)sizes[0] * sizeof *y);
}

/* dx += the gradients of all positions. */
static void repeat_backward(const void *config, int64_t count, const int64_t *sizes,
                            const float *const *x, const float *y, const float *dy,
                            float *const *dx)
{
    const int64_t T = ((const fast_element *)config)->y[1];

    (void)x, (void)y;
    for (int64_t r = 0; dx[0] && r < count * T; r++)
        add_row(sizes[0], 1, dy + r * sizes[0], dx[0] + r / T * sizes[0]);
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
        [FAST_OP_DELAY] = { 0, "delay", NULL, delay_forward, delay_backward },
        [FAST_OP_REPEAT] = { 0, "repeat", NULL, repeat_forward, repeat_backward },
    };

    return op == FAST_OP_ROUTE      ? &fast__route
           : op == FAST_OP_DISPATCH ? &fast__dispatch
           : op == FAST_OP_COMBINE  ? &fast__combine
           : rows[op].name          ? &rows[op]
                                    : NULL;
}
