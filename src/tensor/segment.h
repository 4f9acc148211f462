/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/dtype.h"

enum { FAST_RANK_MAX = 4, FAST_SEGMENT_NAME_MAX = 64 };

/* A named tensor inside a flat vector. All parameters of a learner are one vector of floats, and
 * so are their gradients and each slot of an optimizer's state: the same table describes them. */
typedef struct fast_segment {
    char name[FAST_SEGMENT_NAME_MAX]; /* "conv1.weight": unique, as it is saved */
    int64_t offset;                   /* first element in the vector */
    int64_t count;                    /* product of shape */
    int64_t shape[FAST_RANK_MAX];     /* row major, PyTorch's order */
    int rank;                         /* dimensions */
    int layer;                        /* node of the graph that owns it */
    bool decay;                       /* weight decay applies: not to biases and norms */
    int init;                         /* kind of initialisation (model/init.h) */
    float init_a;                     /* parameter of the initialisation */
} fast_segment;

/* A flat vector's layout. */
typedef struct fast_layout {
    const fast_segment *segments; /* in the order of their offsets */
    int64_t segment_count;        /* number of segments */
    int64_t count;                /* elements in the vector */
} fast_layout;
