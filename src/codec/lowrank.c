/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of codecs of low rank. A row of M is read once for all vectors while it is in the
 * cache: rank passes of arithmetic, one of memory. Cost: 2 rank count operations for each product.
 */
#include "codec/lowrank.h"

#include "codec/noise.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

void fast__lowrank_left(const fast_block *m, int64_t rank, const float *matrix, const float *q,
                        float *p)
{
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t k = 0; k < rank; k++)
            p[k * m->rows + i] =
                (float)fast__vector_dot(m->cols, matrix + i * m->cols, q + k * m->cols);
}

void fast__lowrank_right(const fast_block *m, int64_t rank, const float *matrix, const float *p,
                         float *q)
{
    memset(q, 0, (size_t)(rank * m->cols) * sizeof *q);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t k = 0; k < rank; k++)
            fast__vector_axpy(m->cols, p[k * m->rows + i], matrix + i * m->cols, q + k * m->cols);
}

void fast__lowrank_product(const fast_block *m, int64_t rank, float a, const float *p,
                           const float *q, fast_decode_mode mode, float *y)
{
    for (int64_t i = 0; i < m->rows; i++) {
        float *row = y + i * m->cols;

        if (mode == FAST_DECODE_SET)
            memset(row, 0, (size_t)m->cols * sizeof *row);
        for (int64_t k = 0; k < rank; k++)
            fast__vector_axpy(m->cols, a * p[k * m->rows + i], q + k * m->cols, row);
    }
}

/* Subtract from v its component along the unit vector u. */
static void project_out(int64_t n, const float *u, float *v)
{
    fast__vector_axpy(n, -(float)fast__vector_dot(n, u, v), u, v);
}

void fast__lowrank_orthonormal(int64_t n, int64_t rank, float *v)
{
    for (int64_t k = 0; k < rank; k++) {
        float *vk = v + k * n;
        const double before = fast__vector_norm2(n, vk);

        for (int pass = 0; pass < 2; pass++) /* the second removes what rounding left */
            for (int64_t j = 0; j < k; j++)
                project_out(n, v + j * n, vk);
        const double after = fast__vector_norm2(n, vk);
        if (after <= 1e-10 * before || after < 1e-60) /* nothing new; NaN is not less */
            memset(vk, 0, (size_t)n * sizeof *vk);
        else
            fast__vector_scale(n, (float)(1 / sqrt(after)), vk);
    }
}

void fast__lowrank_random(int64_t n, uint64_t key, float *v)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = 2 * fast__noise_uniform(key, (uint32_t)i) - 1;
}
