/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/round_op.h"
#include "split/layout_map.h"
#include "split/stage.h"
#include "tensor/reshard.h"

/*
 * Shards: a stage whose tensors are split over T workers. A layout map (layout_map.h) says which
 * layers are split in which way (kinds.h).
 *
 * A shard is a chain of sections, ordinary graphs, with changes of layout before and behind each
 * (tensor/reshard.h):
 *
 *     value | enter | x | section | y | leave | value | enter | ...
 *
 * Inside of a section nodes may exchange as well (engine/pass_parts.h): values on other ways
 * through the graph, as those of residuals, stay where they are meanwhile.
 *
 * Before and behind a run of layers that are split in one way every shard has the whole value and
 * its whole gradient, so that kinds do not depend on their neighbours. Layers that are not split
 * are computed by each shard, in sections that enter and leave with NONE.
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

/* Where the elements of a worker's vector, parameters or state, are in the whole model's. */
typedef struct fast_split_map {
    fast_split_piece *pieces; /* in the order of the worker's vector */
    int64_t count;            /* number of pieces */
} fast_split_map;

/* Copy the whole model's elements to a worker's vector, and back. */
void fast__split_map_scatter(const fast_split_map *map, const float *whole, float *part);
void fast__split_map_gather(const fast_split_map *map, const float *part, float *whole);
/* As gather, of `count` elements from `offset` of the worker's vector, which begin at `part`. */
void fast__split_map_gather_range(const fast_split_map *map, int64_t offset, int64_t count,
                                  const float *part, float *whole);

/* A range of a vector. */
typedef struct fast_split_range {
    int64_t offset; /* first element */
    int64_t count;  /* number of elements */
} fast_split_range;

typedef struct fast_split_section {
    fast_graph graph;            /* engines compile it like any other */
    const fast_round_op *rounds; /* NULL, or it is computed in rounds, with moves between them */
    fast_reshard enter;          /* from the value before the section to its inputs */
    fast_reshard leave;          /* from its outputs to the value behind */
    int64_t params_offset;       /* of its parameters in the shard's vector */
    int64_t state_offset;        /* of its state in the shard's vector */
    int64_t retained;  /* elements of a sample at the end of its outputs that stay at the shard:
                              they follow the inputs of the section after next */
    int64_t first_row; /* number of the section's first label in a sample */
    int64_t rows;      /* labels of a sample that it has; 0: all */
    bool divided;      /* it computes the shard's samples, not all */
} fast_split_section;

typedef struct fast_split_shard {
    fast_split_section *sections; /* in the order of the forward pass */
    int64_t section_count;        /* number of sections */
    int64_t run_count;            /* runs that are split; 0: each shard has the whole stage */
    uint32_t used;                /* bits of the map's entries that have split something */
    char unfit[160];              /* why a layer that an entry names is not divided; or "" */
    fast_layout params;           /* of all sections; names are those of the whole model */
    fast_layout state;            /* of all sections */
    fast_split_map map;           /* of the parameters */
    fast_split_map state_map;     /* of the state */
    fast_split_range *partial; /* parameters that all shards have, of which each has a part of the
                                     gradient: it is summed over the shards */
    int64_t partial_count;     /* number of ranges */
    fast_segment *segments;    /* memory of the layouts */
    fast_node *nodes;          /* memory of the sections' nodes */
    fast_reshard *exchanges;   /* memory of what nodes exchange in the middle of a section */
} fast_split_shard;

/* Make shard `shard` of `shards` of a stage, whose graph it borrows. With one shard it is the stage
 * in one section. FAST_ENOMEM. */
fast_err fast__split_shard_new(const fast_split_stage *stage, const fast_layout_map *map,
                               int64_t shards, int64_t shard, fast_split_shard **out);
void fast__split_shard_free(fast_split_shard *shard); /* NULL is allowed */
