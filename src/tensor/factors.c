/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From factors to their product. Blocks of ROWS x COLS elements stay in registers while all
 * samples of all parts are added to them:
 *
 *     y[o][i] = (((u_0[o] v_0[i]) + u_1[o] v_1[i]) + ...),  samples in order, parts in order
 *
 * Nothing is contracted and each element is a chain of its own, so neither the block's size nor the
 * instruction set changes a bit. Cost: 2 rows outputs inputs operations; v is read once for each
 * ROWS rows of y.
 */
#include "tensor/factors.h"

#include "base/err.h"
#include "tensor/clones.h"

#include <string.h>

enum { ROWS = 4, COLS = 32, TILE = 32 };

void fast__factors_pack(const fast_factors *f, float *out)
{
    const float *from[2] = { f->u, f->v };
    const int64_t stride[2] = { f->u_stride, f->v_stride }, count[2] = { f->outputs, f->inputs };

    FAST_ASSERT(f->rows >= 0 && f->u_stride >= f->rows && f->v_stride >= f->rows);
    for (int k = 0; k < 2; out += f->rows * count[k], k++)
        for (int64_t c = 0; c < count[k]; c += TILE)
            for (int64_t r = 0; r < f->rows; r++)
                for (int64_t i = c; i < count[k] && i < c + TILE; i++)
                    out[r * count[k] + i] = from[k][i * stride[k] + r];
}

/* A whole block: u and v are at its first row and column. */
FAST_CLONES static void block(const fast_outer *parts, int64_t part_count, int64_t row, int64_t col,
                              int64_t inputs, float *restrict y)
{
    float sum[ROWS][COLS] = { { 0 } };

    for (int64_t p = 0; p < part_count; p++) {
        const float *u = parts[p].u + row, *v = parts[p].v + col;

        for (int64_t r = 0; r < parts[p].rows; r++, u += parts[p].u_stride, v += inputs)
            for (int k = 0; k < ROWS; k++)
                for (int j = 0; j < COLS; j++)
                    sum[k][j] += u[k] * v[j];
    }
    for (int k = 0; k < ROWS; k++)
        memcpy(y + k * inputs, sum[k], sizeof sum[k]);
}

/* A rectangle smaller than a block. */
static void rest(const fast_outer *parts, int64_t part_count, int64_t row, int64_t rows,
                 int64_t col, int64_t cols, int64_t inputs, float *restrict y)
{
    for (int64_t k = 0; k < rows; k++)
        memset(y + k * inputs, 0, (size_t)cols * sizeof *y);
    for (int64_t p = 0; p < part_count; p++) {
        const float *u = parts[p].u + row, *v = parts[p].v + col;

        for (int64_t r = 0; r < parts[p].rows; r++, u += parts[p].u_stride, v += inputs)
            for (int64_t k = 0; k < rows; k++)
                for (int64_t j = 0; j < cols; j++)
                    y[k * inputs + j] += u[k] * v[j];
    }
}

/* Rows and columns of the matrix; rows count from u's first. */
static void rectangle(const fast_outer *parts, int64_t part_count, int64_t row, int64_t rows,
                      int64_t col, int64_t cols, int64_t inputs, float *y)
{
    const int64_t whole = cols / COLS * COLS;
    int64_t k = 0;

    for (; k + ROWS <= rows; k += ROWS) {
        for (int64_t j = 0; j < whole; j += COLS)
            block(parts, part_count, row + k, col + j, inputs, y + k * inputs + j);
        if (whole < cols)
            rest(parts, part_count, row + k, ROWS, col + whole, cols - whole, inputs,
                 y + k * inputs + whole);
    }
    if (k < rows)
        rest(parts, part_count, row + k, rows - k, col, cols, inputs, y + k * inputs);
}

/* Compose into host memory. */
static void compose(const fast_outer *parts, int64_t part_count, int64_t inputs, int64_t begin,
                    int64_t end, float *y)
{
    const int64_t first = begin / inputs, last = end / inputs;
    const int64_t head = begin % inputs, tail = end % inputs;
    const int64_t from = head > 0 ? first + 1 : first;

    FAST_ASSERT(inputs > 0 && begin >= 0 && begin <= end);
    if (begin == end)
        return;
    if (first == last) { /* a piece of one row */
        rectangle(parts, part_count, 0, 1, head, end - begin, inputs, y);
        return;
    }
    if (head > 0)
        rectangle(parts, part_count, 0, 1, head, inputs - head, inputs, y);
    if (last > from)
        rectangle(parts, part_count, from - first, last - from, 0, inputs, inputs,
                  y + (from * inputs - begin));
    if (tail > 0)
        rectangle(parts, part_count, last - first, 1, 0, tail, inputs, y + (last * inputs - begin));
}

void fast__factors_compose(const fast_outer *parts, int64_t part_count, int64_t inputs,
                           int64_t begin, int64_t end, float *y)
{
    float *to = fast__map(y, end - begin, FAST_ACCESS_WRITE);

    compose(parts, part_count, inputs, begin, end, to);
    fast__unmap(y, end - begin, FAST_ACCESS_WRITE);
}
