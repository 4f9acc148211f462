/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"

/* A block of the flow. */
typedef struct coder_block {
    fast_block block; /* its shape */
    int64_t at;       /* first element, in the range */
    int64_t state;    /* offset of its state in that of all blocks */
    bool raw;         /* sent as floats: too small, or the chain has no codec */
} coder_block;

/* Cut the range of the options in blocks and return their number; with `blocks` NULL only count
 * them. One for all, or with `layers` for each segment. */
int64_t fast__blocks_cut(const fast_coder_options *o, bool layers, coder_block *blocks);
