/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "split/layout_map.h"
#include "split/shards.h"

/*
 * A shard under construction: what kinds of split (kinds.h) see of a stage, and the calls by which
 * they append sections to a shard,
 *
 *     section = fast__assembly_begin(b, a);           its input is node a
 *     node = fast__assembly_add(b, section, i, s);    node i, with slices of its tensors
 *     fast__assembly_end(b, section);                 enter and leave are set before
 *
 * There is one section under construction at a time.
 */
typedef struct fast_assembly {
    const fast_graph *graph;            /* of the stage */
    const fast_layout_map *map;         /* which layers have which kind */
    const struct fast_split_kind *kind; /* that is asked, or makes sections */
    int64_t params_offset;              /* of the stage in the whole model */
    int64_t state_offset;               /* of the stage's state in the whole model */
    int64_t shards, shard;              /* T and t */
    int *marks;                         /* by node of the stage: for the kind that is asked */
    int *index;                         /* by node of the stage: its number in the section; -1 */
    fast_split_shard *out;              /* the result so far */
    bool loss;                          /* the last section has the stage's loss */
    int64_t node_count;                 /* nodes written */
    int64_t node_max;                   /* room for nodes, and for sections */
    int64_t exchange_count;             /* exchanges inside of sections */
    int64_t segment_count;              /* segments of parameters written */
    int64_t segment_max;                /* room for them */
    fast_segment *state;                /* memory of the state's segments */
    int64_t state_count;                /* segments of the state written */
} fast_assembly;

/* The slice of a tensor that a shard has: of dimension `axis`, which consists of `groups` equal
 * ranges, the shard's range of each. */
typedef struct fast_split_slice {
    bool absent;    /* the shard has nothing of the tensor */
    bool split;     /* it has a slice; else all of it */
    bool partial;   /* of its gradient each shard has a part: they are summed at a step's end */
    int axis;       /* the dimension that is split: 0 or 1 */
    int64_t groups; /* ranges that are split each; 0 means 1. Only of dimension 0 */
    int64_t unit;   /* positions that stay together; 0 means 1 */
    int64_t grid;   /* of a matrix it has a block, of grid times grid; 0: a range of `axis` */
    int64_t row, column; /* which one */
} fast_split_slice;

/* Return whether a node is mapped to the kind that is asked. */
bool fast__assembly_maps(const fast_assembly *b, int node);
/* Return whether node i has one input, node `in`. */
bool fast__assembly_follows(const fast_assembly *b, int i, int in);
/* Say why node i, which is mapped to the kind, is not divided: the end of "conv1 ...". The first
 * reason counts, and only if nothing at all is divided. */
void fast__assembly_unfit(fast_assembly *b, int node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Start a section whose input is node a of the stage, with that node's shape. */
fast_split_section *fast__assembly_begin(fast_assembly *b, int a);
/* Append node i of the stage; slices[w] are those of its tensors, NULL: the shard has all of them.
 * Statistics are split as its first tensor is.
 * Returns the copy, whose shape and attributes the kind may change before the next call. */
fast_node *fast__assembly_add(fast_assembly *b, fast_split_section *section, int i,
                              const fast_split_slice slices[FAST_WEIGHTS_MAX]);
/* Append a node that the stage does not have, with the output of node `in` of the section as its
 * input and its shape; node i of the stage, if i >= 0, is this one for nodes that follow. */
fast_node *fast__assembly_insert(fast_assembly *b, fast_split_section *section, fast_op op, int in,
                                 int i);
/* Let a node exchange in the middle of a pass: return the change of layout, all 0, for the kind to
 * fill in. */
fast_reshard *fast__assembly_exchange(fast_assembly *b, fast_node *node);
/* Let a batch norm have the statistics of all shards. */
void fast__assembly_share_moments(fast_assembly *b, fast_node *node);
/* End a section whose last node is the stage's node e; with `leave` NONE it has the stage's loss if
 * e is the stage's last. Sets `inner` of both ends, which is the count of the first and the last
 * node, unless the kind has given them a shape. */
void fast__assembly_end(fast_assembly *b, fast_split_section *section, int e);
/* Append the section that every shard computes, nodes a + 1 .. e. */
void fast__assembly_whole(fast_assembly *b, int a, int e);
