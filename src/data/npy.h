/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/stream.h"

enum { FAST_NPY_RANK_MAX = 4 };

/* What the header of an NPY file says. */
typedef struct fast_npy {
    char kind; /* f: floats, i: signed, u: unsigned, b: truth values */
    int width; /* bytes of an element */
    int rank;  /* dimensions */
    int64_t shape[FAST_NPY_RANK_MAX];
    int64_t count; /* product of shape */
} fast_npy;

/* Read the header; refuse what FAST cannot use and what the stream cannot hold. */
fast_err fast__npy_header(fast_stream *stream, fast_npy *out);

/* Read all elements, and see that nothing follows, into exactly one of: bytes (u1 and b1 only),
 * floats, or labels, which must be whole numbers from 0 to `limit` - 1. */
fast_err fast__npy_read(fast_stream *stream, const fast_npy *npy, uint8_t *bytes, float *floats,
                        int32_t *labels, int64_t limit);
