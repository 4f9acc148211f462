/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "engine/cpu/plan.h"

/*
 * Small matrix products with kernels made once: libxsmm's generated code, FAST's own micro-kernel
 * (gemm_simd.c) or OpenBLAS. Column major, as in both libraries: C (m x n) = A (m x k) B (k x n),
 * plus C if `accumulate`. With the batch innermost, m is the lanes: A is activations
 * [k][lanes], B is weights, B[j][i] at j * ldb + i, which is a weight matrix [n][k] as it is stored
 * in the parameters.
 */
typedef enum fast_gemm_method {
    FAST_GEMM_OWN,   /* fits everything */
    FAST_GEMM_XSMM,  /* where libxsmm has a kernel; the same bits as OWN, with multiply-add */
    FAST_GEMM_BLAS,  /* OpenBLAS, if this build has it */
    FAST_GEMM_PARTS, /* libxsmm, part by part of a long k; the same bits as XSMM */
    FAST_GEMM_WHOLE  /* all positions of a sequence at once, of packed B; the same bits as OWN */
} fast_gemm_method;

typedef struct fast_gemm {
    int m, n, k;                         /* C is m x n, A m x k, B k x n */
    int lda, ldb, ldc;                   /* floats from one column to the next */
    bool trans_b;                        /* B is stored as [k][n]: element (i, j) at i * ldb + j */
    bool accumulate;                     /* C += A B */
    int64_t positions;                   /* of a sequence, each with A and C of its own; 0 is 1 */
    void *kernel;                        /* libxsmm's code, or NULL */
    void *parts[2];                      /* its code of a part: the first, and one that adds */
    fast_gemm_method method;             /* who computes it */
    const struct fast_gemm_kernels *own; /* FAST's, for this processor */
    const struct fast_sequence_kernels *sequence; /* its products with whole sequences */
} fast_gemm;

/* Prepare a product of the fields above `kernel`: by libxsmm where it has a kernel, else by FAST's
 * own. Cannot fail. Call it when compiling, on a large stack: libxsmm's code generator needs 136
 * KB. */
void fast__gemm_init(fast_gemm *gemm);

/* Prepare it by the fastest method: the plan's choice, or a measurement of about 5 ms that is
 * stored there. plan may be NULL: then the choice is made again by every run. */
fast_err fast__gemm_choose(fast_gemm *gemm, fast_conv_plan *plan);

/* Return "own", "xsmm", "blas", "xsmm_parts" or "whole". */
const char *fast__gemm_name(const fast_gemm *gemm);

/* Write the instruction set and the versions of the libraries, which choices depend on. */
void fast__gemm_machine(char *text, size_t size);

/* Compute the product of one position. [any thread], allocates nothing. */
void fast__gemm_run(const fast_gemm *gemm, const float *a, const float *b, float *c);

/* Products of a sequence, A and C without gaps: prepare B once a pass in memory of
 * fast__gemm_packed() floats (0: none is needed), then compute `count` positions at a time. The
 * caller that has more to do with C does so block by block of fast__gemm_block() positions: they
 * fit a cache. */
int64_t fast__gemm_packed(const fast_gemm *gemm);
int64_t fast__gemm_block(const fast_gemm *gemm);
void fast__gemm_pack(const fast_gemm *gemm, const float *b, float *packed);
void fast__gemm_sequence(const fast_gemm *gemm, int64_t count, const float *a, const float *b,
                         const float *packed, float *c);

/* Limit the libraries to one thread each. Cheap to repeat; every thread that computes calls it. */
void fast__gemm_setup(void);
