/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "split/shards.h"

/*
 * The part of the model that a worker has: a shard of one stage, or of several stages, its chunks,
 * where a pipeline is interleaved. The vectors of the chunks follow each other:
 *
 *     whole    | stage 0 | stage 1 | stage 2 | stage 3 |
 *     w        | stage 1 | stage 3 |                       worker 1 of 2, with two chunks
 */
typedef struct fast_split_chunks {
    fast_layout params;        /* of all chunks; names are those of the whole model */
    fast_layout state;         /* of all chunks */
    fast_split_map map;        /* of the parameters in the whole model's */
    fast_split_map state_map;  /* of the state in the whole model's */
    fast_split_range *partial; /* as in a shard */
    int64_t partial_count;     /* number of ranges */
    fast_segment *segments;    /* memory of the layouts */
} fast_split_chunks;

/* Join shards, in the order of the model. FAST_ENOMEM. */
fast_err fast__split_chunks_new(const fast_split_shard *const *shards, int64_t count,
                                fast_split_chunks **out);
void fast__split_chunks_free(fast_split_chunks *chunks); /* NULL is allowed */
