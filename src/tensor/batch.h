/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/dtype.h"

/*
 * Input of an engine from a data set: `count` samples, row major, one sample after the other.
 * Exactly one of labels and targets is set. Tokens are floats in x with integer values.
 */
typedef struct fast_batch {
    int64_t count;         /* samples; at most the batch that the program was compiled for */
    const float *x;        /* [count][features] */
    const int32_t *labels; /* [count][positions]: class per sample, or per position of a sequence */
    const float *targets;  /* [count][outputs]: regression, or soft targets (probabilities) */
    const uint32_t *ids;   /* [count]: position of each sample in the global batch order of this
                               step; keys the dropout masks; NULL means 0, 1, 2, ... */
} fast_batch;
