/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Small matrix products, kernels made once: libxsmm's just-in-time code where it runs, otherwise
 * OpenBLAS, otherwise plain loops. Column major, as both libraries think: C (m x n) = A (m x k)
 * B (k x n), plus C where `accumulate`. With the batch innermost, m is the lanes: A is activations
 * [k][lanes], B is weights, B[j][i] at j * ldb + i, which is a weight matrix [n][k] as it lies in
 * the parameters.
 */
typedef struct fast_gemm {
    int m, n, k;       /* C is m x n, A m x k, B k x n */
    int lda, ldb, ldc; /* floats from one column to the next */
    bool trans_b;      /* B lies as [k][n]: element (i, j) at i * ldb + j */
    bool accumulate;   /* C += A B */
    void *kernel;      /* libxsmm's code, or NULL */
} fast_gemm;

/* Choose the kernel for the fields above. Never fails: there is always a way, if a slow one. Call
 * it when compiling, on a large stack: libxsmm's code generator needs 136 KB of it. */
void fast__gemm_init(fast_gemm *gemm);

/* Any thread, allocates nothing. */
void fast__gemm_run(const fast_gemm *gemm, const float *a, const float *b, float *c);

/* One-time set-up of the libraries for a process: one thread each. Cheap to repeat. */
void fast__gemm_setup(void);
