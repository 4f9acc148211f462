/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/dtype.h"

enum { FAST_RANK_MAX = 4, FAST_SEGMENT_NAME_MAX = 64 };

/* A named tensor inside a flat vector. All parameters of a learner are one vector of floats, and
 * so are their gradients and each slot of an optimiser's state: the same table describes them. */
typedef struct fast_segment {
    char name[FAST_SEGMENT_NAME_MAX]; /* "conv1.weight": unique, as it is saved */
    int64_t offset;                   /* first element in the vector */
    int64_t count;                    /* product of shape */
    int64_t shape[FAST_RANK_MAX];     /* row major, PyTorch's order */
    int rank;
    int layer;    /* node of the graph that owns it */
    bool decay;   /* weight decay applies: matrices and filters, not biases and norms */
    float init_a; /* see model/init.h: parameters of the initialisation */
    int init;
} fast_segment;

/* A flat vector's layout. */
typedef struct fast_layout {
    const fast_segment *segments;
    int64_t segment_count;
    int64_t count; /* elements in the vector */
} fast_layout;
