/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products of the reference engine, C += A B, for operands seen through strides, so that a
 * transposed operand is a view.
 *
 * 16 columns of B are packed into a panel of at most DEPTH rows on the stack; then 4 rows of A at a
 * time are multiplied with the panel, with the 4 x 16 sums in registers. There is no other tuning:
 * the loop over 16 columns becomes vector code of the compiler's instruction set, and every element
 * is summed in the order of k, so that results do not depend on it.
 */
#include "engine/ref/ref.h"

#include "tensor/clones.h"

#include <string.h>

enum {
    ROWS = 4,     /* of A at a time */
    COLUMNS = 16, /* of B in a panel */
    DEPTH = 256   /* rows of a panel: 16 KB */
};

typedef float vec __attribute__((vector_size(COLUMNS * sizeof(float)), aligned(sizeof(float))));

/* panel[p][j] = B(p, j), zero beyond `columns`. */
static void pack(int64_t depth, int64_t columns, fast_ref_view b, float *panel)
{
    for (int64_t p = 0; p < depth; p++) {
        const float *from = b.data + p * b.row;
        float *to = panel + p * COLUMNS;
        if (b.column == 1 && columns == COLUMNS) {
            memcpy(to, from, COLUMNS * sizeof(float));
            continue;
        }
        for (int64_t j = 0; j < columns; j++)
            to[j] = from[j * b.column];
        for (int64_t j = columns; j < COLUMNS; j++)
            to[j] = 0.0F;
    }
}

/* sums (4 x 16) = A (4 x depth) panel. */
FAST_CLONES static void multiply4(int64_t depth, fast_ref_view a, const float *panel, float *sums)
{
    const float *a0 = a.data;
    const float *a1 = a0 + a.row;
    const float *a2 = a1 + a.row;
    const float *a3 = a2 + a.row;
    vec s0 = { 0 };
    vec s1 = { 0 };
    vec s2 = { 0 };
    vec s3 = { 0 };
    for (int64_t p = 0; p < depth; p++) {
        const vec b = *(const vec *)(const void *)(panel + p * COLUMNS);
        s0 += a0[p * a.column] * b;
        s1 += a1[p * a.column] * b;
        s2 += a2[p * a.column] * b;
        s3 += a3[p * a.column] * b;
    }
    memcpy(sums, &s0, sizeof(s0));
    memcpy(sums + COLUMNS, &s1, sizeof(s1));
    memcpy(sums + 2 * COLUMNS, &s2, sizeof(s2));
    memcpy(sums + 3 * COLUMNS, &s3, sizeof(s3));
}

/* sums (1 x 16) = A (1 x depth) panel. */
FAST_CLONES static void multiply1(int64_t depth, fast_ref_view a, const float *panel, float *sums)
{
    vec s = { 0 };
    for (int64_t p = 0; p < depth; p++)
        s += a.data[p * a.column] * *(const vec *)(const void *)(panel + p * COLUMNS);
    memcpy(sums, &s, sizeof(s));
}

/* Columns of B outermost, so that a panel is packed once and all rows of A pass over it. */
void fast__ref_product(int64_t m, int64_t n, int64_t k, fast_ref_view a, fast_ref_view b, float *c,
                       int64_t c_row)
{
    FAST_ASSERT(m >= 0 && n >= 0 && k >= 0);
    FAST_ASSERT(c != NULL);
    float panel[DEPTH * COLUMNS];
    float sums[ROWS * COLUMNS];
    for (int64_t j = 0; j < n; j += COLUMNS) {
        const int64_t columns = n - j < COLUMNS ? n - j : COLUMNS;
        for (int64_t p = 0; p < k; p += DEPTH) {
            const int64_t depth = k - p < DEPTH ? k - p : DEPTH;
            pack(depth, columns,
                 (fast_ref_view){ b.data + p * b.row + j * b.column, b.row, b.column }, panel);
            /* Rows of A in fours; the last one to three one by one. */
            for (int64_t i = 0; i < m;) {
                const int64_t rows = m - i < ROWS ? 1 : ROWS;
                const fast_ref_view from = { a.data + i * a.row + p * a.column, a.row, a.column };
                if (rows == ROWS)
                    multiply4(depth, from, panel, sums);
                else
                    multiply1(depth, from, panel, sums);
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t q = 0; q < columns; q++)
                        c[(i + r) * c_row + j + q] += sums[r * COLUMNS + q];
                i += rows;
            }
        }
    }
}

/* Start from the bias, then add the product with W transposed. */
void fast__ref_linear(int64_t rows, int64_t in, int64_t out, const float *x, const float *w,
                      const float *b, float *y)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out; o++)
            y[r * out + o] = b ? b[o] : 0.0F;
    fast__ref_product(rows, out, in, (fast_ref_view){ x, in, 1 }, (fast_ref_view){ w, 1, in }, y,
                      out);
}

/* dx += dy W. */
void fast__ref_linear_dx(int64_t rows, int64_t in, int64_t out, const float *dy, const float *w,
                         float *dx)
{
    fast__ref_product(rows, in, out, (fast_ref_view){ dy, out, 1 }, (fast_ref_view){ w, in, 1 }, dx,
                      in);
}

/* dw = dy' x and db = the sum of dy over rows; each is overwritten. */
void fast__ref_linear_dw(int64_t rows, int64_t in, int64_t out, const float *dy, const float *x,
                         float *dw, float *db)
{
    if (dw) {
        memset(dw, 0, (size_t)(in * out) * sizeof(float));
        fast__ref_product(out, in, rows, (fast_ref_view){ dy, 1, out }, (fast_ref_view){ x, in, 1 },
                          dw, in);
    }
    if (db) {
        memset(db, 0, (size_t)out * sizeof(float));
        for (int64_t r = 0; r < rows; r++)
            for (int64_t o = 0; o < out; o++)
                db[o] += dy[r * out + o];
    }
}
