/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "split/assembly.h"

/*
 * A kind of split: how a run of layers is divided among T shards. A kind is one file, and an entry
 * of the table in kinds.c. The assembly (assembly.h) walks through a stage from cut to cut; where
 * layers are mapped to a kind it asks whether a run of them begins there, and lets the kind append
 * the sections of the run. Everything else becomes sections that each shard computes.
 */
typedef struct fast_split_kind {
    const char *name;  /* as a layout map has it: "pairs" */
    const char *help;  /* the split, in one line */
    const char *needs; /* the layers of a run, as the end of "no stage has ..." */
    /* Return the last node of a run behind node a, after which a cut is possible, or 0. May set
     * marks of its nodes, and say by fast__assembly_unfit() why a layer that is mapped to it is not
     * divided. Changes nothing else. */
    int (*find)(fast_assembly *assembly, int a);
    /* Append the sections of nodes a + 1 .. e, the run that was found just before. Before the first
     * and behind the last one every shard has the whole value, and its whole gradient. */
    void (*make)(fast_assembly *assembly, int a, int e);
} fast_split_kind;

/* All kinds, ended by NULL; of those that fit the first one is taken. */
extern const fast_split_kind *const fast__split_kinds[];

extern const fast_split_kind fast__split_vocabulary; /* embeddings and classes */
extern const fast_split_kind fast__split_experts;    /* mixtures of experts */
extern const fast_split_kind fast__split_pairs;      /* dense layers in pairs, and heads */
extern const fast_split_kind fast__split_branches;   /* summed parts, one by one */
extern const fast_split_kind fast__split_sequence;   /* pairs, and positions between them */
extern const fast_split_kind fast__split_outputs;    /* dense layers by outputs */
extern const fast_split_kind fast__split_cannon;     /* dense layers in blocks of a grid */
extern const fast_split_kind fast__split_streaming;  /* delayed layers, all at once */
extern const fast_split_kind fast__split_ring;       /* positions, keys and values go round */
extern const fast_split_kind fast__split_ulysses;    /* positions, and heads for attention */
extern const fast_split_kind fast__split_channels;   /* convolutions by channels */
extern const fast_split_kind fast__split_spatial;    /* images by rows */
extern const fast_split_kind fast__split_redundant;  /* by rows, some of them computed twice */
extern const fast_split_kind fast__split_samples;    /* own samples */
