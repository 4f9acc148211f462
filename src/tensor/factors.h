/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/device.h"

/*
 * Factors of a matrix: a dense layer's weight gradient is a sum of outer products, one for each
 * sample of the batch (times its positions), and two thin matrices say it as well as the product:
 *
 *     dW[o][i] = sum over r < rows of u[r][o] v[r][i]
 */

/* As an engine offers them, samples innermost. */
typedef struct fast_factors {
    int64_t segment;            /* of the weight, in the graph's params */
    int64_t rows;               /* samples (times positions) */
    int64_t outputs, inputs;    /* rows and columns of dW */
    const float *u;             /* [outputs][u_stride] */
    const float *v;             /* [inputs][v_stride] */
    int64_t u_stride, v_stride; /* at least `rows` */
} fast_factors;

/* Return true to take them: then the pass does not compute the product, does not write that
 * segment's gradient and does not report it. Valid during the call only. */
typedef bool fast_factor_fn(void *ctx, const fast_factors *factors);

/* As they travel: the rows of u, `outputs` floats each, then those of v, `inputs` floats each. */
void fast__factors_pack(const fast_factors *factors, float *out);

/* A summand of a matrix, samples outermost. */
typedef struct fast_outer {
    const float *u;   /* [rows][u_stride]; the columns that are asked for come first */
    const float *v;   /* [rows][inputs] */
    int64_t rows;     /* may be 0 */
    int64_t u_stride; /* between rows of u */
} fast_outer;

/* Compute elements [begin, end) of the matrix [outputs][inputs], row major; row begin / inputs of
 * the matrix is the first column of u. y[0 .. end - begin) = the sum over parts in their order, and
 * in each over its rows in order. Every element is one chain of additions from 0:
 * the same bits on every machine. The factors are the host's, as messages are; y is on any
 * device. */
void fast__factors_compose(const fast_outer *parts, int64_t part_count, int64_t inputs,
                           int64_t begin, int64_t end, float *y);
