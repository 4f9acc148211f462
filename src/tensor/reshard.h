/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * How a value that T shards of a mesh dimension share changes its layout: one of them holds all of
 * it, a slice of one of its dimensions, or a summand. As in Mesh-TensorFlow (Shazeer et al. 2018) a
 * dimension of the tensor is mapped to the dimension of the mesh; a change of the mapping is a
 * collective, and its transpose is that of the gradients:
 *
 *     forward                                   backward, of the gradient
 *     NONE      nothing                         SUM       if each shard has a part of it
 *     SUM       of summands, at each            NONE
 *     SLICE     the own slice of equal values   GATHER
 *     GATHER    all slices, at each             SLICE     if all have the same; else SCATTER
 *     SCATTER   the own slice of the sum        GATHER
 *     HALO      own rows, and rows around them  HALO_ADD  the owner adds what came of its rows
 *     SWAP      slices of another dimension     SWAP_BACK
 *     SHIFT     that of another shard           SHIFT     the other way
 *
 * A value of a micro-batch is
 *
 *     [samples][outer][dim][middle][other][inner]
 *
 * dim is the split dimension, and with SWAP after it and `other` before it. Shard t owns the range
 * [t dim / T, (t + 1) dim / T). If it is the samples that are split, they take the place of dim.
 * With `grid` the T = grid^2 shards have blocks in the place of ranges of dim: shard t that of
 * samples t / grid and of `other` t mod grid, or if it is skewed (t / grid + t) mod grid.
 *
 * SUM, SCATTER and HALO_ADD add in the order of shards.
 */
typedef enum fast_reshard_kind {
    FAST_RESHARD_NONE,      /* the same memory before and after */
    FAST_RESHARD_SUM,       /* allreduce */
    FAST_RESHARD_SLICE,     /* no message */
    FAST_RESHARD_GATHER,    /* allgather */
    FAST_RESHARD_SCATTER,   /* reduce-scatter */
    FAST_RESHARD_HALO,      /* rows from the shards that own them, zeros past the ends */
    FAST_RESHARD_HALO_ADD,  /* the transpose of that */
    FAST_RESHARD_SWAP,      /* all-to-all: dim is whole after it, other before it */
    FAST_RESHARD_SWAP_BACK, /* the transpose of that */
    FAST_RESHARD_SHIFT      /* the value moves to another shard */
} fast_reshard_kind;

/* Rows that a shard needs for its own rows [a, b) of a layer's output, `rows` over all shards:
 * from a stride - pad on, up to (b - 1) stride - pad + reach. All 0: the rows that it owns. */
typedef struct fast_reshard_window {
    int64_t rows;   /* of the layer's output; 0: no window */
    int64_t stride; /* rows of the input from one row of the output to the next */
    int64_t pad;    /* rows of zeros before the first */
    int64_t reach;  /* rows of the input that a row of the output reads */
} fast_reshard_window;

typedef struct fast_reshard {
    fast_reshard_kind forward;  /* of the values */
    fast_reshard_kind backward; /* of their gradients */
    bool samples;               /* samples are split: outer and dim are not used */
    int64_t outer;              /* elements of a sample before dim; here and below 0 means 1 */
    int64_t dim;                /* length of the split dimension over all shards */
    int64_t middle;             /* elements between dim and other */
    int64_t other;              /* SWAP: length of the dimension that is split before it */
    int64_t inner;              /* elements behind */
    int64_t grid;               /* rows of a grid of shards; 0: ranges, not blocks */
    bool skewed;                /* blocks are those that Cannon's product starts with */
    fast_reshard_window window; /* HALO, and SLICE of what it needs */
    int64_t to, from; /* SHIFT: shards that the own value goes to, and another comes from */
} fast_reshard;

/* Ranges of dim and of other. */
typedef struct fast_reshard_box {
    int64_t first[2]; /* of dim, of other; may be negative with a window */
    int64_t end[2];   /* of both */
} fast_reshard_box;

/* A value of some samples among T shards. */
typedef struct fast_reshard_value {
    const fast_reshard *how; /* its shape */
    fast_reshard_kind kind;  /* the change: how->forward or how->backward */
    int64_t samples;         /* of the micro-batch, over all shards if they are split */
    int64_t shards;          /* T */
} fast_reshard_value;

/* Return the range of shard t before and after it, and what the one before and another after have
 * in common: first >= end if there is nothing. */
fast_reshard_box fast__reshard_before(const fast_reshard_value *value, int64_t t);
fast_reshard_box fast__reshard_after(const fast_reshard_value *value, int64_t t);
fast_reshard_box fast__reshard_common(const fast_reshard_value *value, int64_t from, int64_t to);
/* Return whether what arrives is added. */
bool fast__reshard_adds(fast_reshard_kind kind);
/* Return the floats in a box: all samples and other dimensions; 0 if it is empty. */
int64_t fast__reshard_count(const fast_reshard_value *value, const fast_reshard_box *box);

/* Return the floats that shard t has before a change, or after it. */
int64_t fast__reshard_floats(fast_reshard_value value, int64_t t, bool after);

/* Copy `part`, which is inside both boxes, from the floats of one to those of the other, or add it
 * there. A message has the floats of `part` itself. */
void fast__reshard_move(const fast_reshard_value *value, const fast_reshard_box *part,
                        const fast_reshard_box *from_box, const float *from,
                        const fast_reshard_box *to_box, bool add, float *to);
/* Copy what shard t has before and after, or add it with SCATTER and HALO_ADD. */
void fast__reshard_own(const fast_reshard_value *value, int64_t t, const float *from, float *to);
/* SLICE of shard t: no other shard takes part. Rows past the ends are zeros. */
void fast__reshard_slice(const fast_reshard_value *value, int64_t t, const float *from, float *to);
