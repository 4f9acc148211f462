/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "split/stage.h"

/*
 * Shards: a stage whose tensors are split over T workers (Shoeybi et al. 2019). Two dense layers
 * with an activation between them are a pair: the first is split by its outputs, the second by its
 * inputs, so that a shard computes both without a message; the sum over the shards is the output:
 *
 *     y = sum over t of f(x A_t) B_t  (+ x, the residual, and the bias of B: in shard 0)
 *
 * A shard is a chain of sections, ordinary graphs. The output of a summed section, and the gradient
 * of its input, are sums over the shards; all other sections are the same at each shard, which
 * computes them whole.
 */

/* A part of a shard's vector: `rows` rows of `columns` elements, one after the other there, and
 * `stride` apart in the whole vector. */
typedef struct fast_split_piece {
    int64_t part;    /* first element in the shard's vector */
    int64_t whole;   /* first element in the whole model's vector */
    int64_t rows;    /* number of rows */
    int64_t columns; /* elements of a row */
    int64_t stride;  /* from row to row in the whole vector */
} fast_split_piece;

/* Where the elements of a worker's vector are in the whole model's. */
typedef struct fast_split_map {
    fast_split_piece *pieces; /* in the order of the worker's vector */
    int64_t count;            /* number of pieces */
} fast_split_map;

/* Copy the whole model's elements to a worker's vector, and back. */
void fast__split_map_scatter(const fast_split_map *map, const float *whole, float *part);
void fast__split_map_gather(const fast_split_map *map, const float *part, float *whole);

/* A range of a vector. */
typedef struct fast_split_range {
    int64_t offset; /* first element */
    int64_t count;  /* number of elements */
} fast_split_range;

typedef struct fast_split_section {
    fast_graph graph;      /* engines compile it like any other */
    bool summed;           /* outputs, and the gradient of the inputs, are summed over the shards */
    int64_t params_offset; /* of its parameters in the shard's vector */
    int64_t state_offset;  /* of its state in the shard's vector */
} fast_split_section;

typedef struct fast_split_shard {
    fast_split_section *sections; /* in the order of the forward pass */
    int64_t section_count;        /* number of sections */
    int64_t pair_count;           /* pairs that are split; 0: each shard has the whole stage */
    fast_layout params;           /* of all sections; names are those of the whole model */
    fast_layout state;            /* of all sections */
    fast_split_map map;           /* of the parameters */
    int64_t state_offset;         /* of the state in the whole model's */
    fast_split_range *partial; /* parameters that all shards have, of which each has a part of the
                                     gradient: it is summed over the shards */
    int64_t partial_count;     /* number of ranges */
    fast_segment *segments;    /* memory of the layouts */
    fast_node *nodes;          /* memory of the sections' nodes */
} fast_split_shard;

/* Make shard `shard` of `shards` of a stage, whose graph it borrows. With one shard it is the stage
 * in one section. FAST_ENOMEM. */
fast_err fast__split_shard_new(const fast_split_stage *stage, int64_t shards, int64_t shard,
                               fast_split_shard **out);
void fast__split_shard_free(fast_split_shard *shard); /* NULL is allowed */
