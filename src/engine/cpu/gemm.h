/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Small matrix products with kernels made once: libxsmm's generated code if it runs, otherwise
 * OpenBLAS, otherwise plain loops. Column major, as in both libraries: C (m x n) = A (m x k)
 * B (k x n), plus C if `accumulate`. With the batch innermost, m is the lanes: A is activations
 * [k][lanes], B is weights, B[j][i] at j * ldb + i, which is a weight matrix [n][k] as it is stored
 * in the parameters.
 */
typedef struct fast_gemm {
    int m, n, k;       /* C is m x n, A m x k, B k x n */
    int lda, ldb, ldc; /* floats from one column to the next */
    bool trans_b;      /* B is stored as [k][n]: element (i, j) at i * ldb + j */
    bool accumulate;   /* C += A B */
    void *kernel;      /* libxsmm's code, or NULL: another library */
} fast_gemm;

/* Choose the kernel for the fields above. Cannot fail. Call it when compiling, on a large stack:
 * libxsmm's code generator needs 136 KB. */
void fast__gemm_init(fast_gemm *gemm);

/* Compute the product. [any thread], allocates nothing. */
void fast__gemm_run(const fast_gemm *gemm, const float *a, const float *b, float *c);

/* Limit the libraries to one thread each. Cheap to repeat; every thread that computes calls it. */
void fast__gemm_setup(void);
