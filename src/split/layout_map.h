/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/graph.h"

/*
 * A layout map: which kind of split each layer of a stage has over the mesh dimension `tensor`. As
 * in Mesh-TensorFlow (Shazeer et al. 2018) it is a choice beside the model, which changes what is
 * exchanged and never what is computed:
 *
 *     conv=samples,dense=pairs      layers by operator, as the network file writes it
 *     dense3=outputs,dense=pairs    a layer by its name; the first entry that matches counts
 *     output=vocabulary             the last layer
 *     samples                       all layers
 *     vocab,heads,hidden            dimensions: vocabularies, heads, units between dense layers;
 *                                   batch, rows
 *
 * Layers that no entry names, and such as their kind does not fit, are computed by every shard.
 *
 * To choose a map takes the graph of a stage, the number of shards and what a shard of each choice
 * computes, holds and sends: fast__split_shard_new() makes it without an engine or values. Its
 * sections have the graphs (cost.h has their operations and bytes) and the changes of layout
 * between them, of which tensor/reshard.h counts the floats; `partial` is summed once a step.
 */
struct fast_split_kind;

typedef struct fast_layout_entry {
    char layers[FAST_SEGMENT_NAME_MAX]; /* an operator, or the name of a layer; "": all layers */
    const struct fast_split_kind *kind; /* how they are split */
} fast_layout_entry;

enum { FAST_LAYOUT_ENTRIES_MAX = 16 };

typedef struct fast_layout_map {
    fast_layout_entry entries[FAST_LAYOUT_ENTRIES_MAX]; /* the first that matches counts */
    int count;                                          /* of entries */
} fast_layout_map;

/* Parse "conv=samples,dense=pairs"; "" is the standard: attention and dense layers in pairs,
 * experts, and branches that are summed. FAST_EINVAL names the word that is no kind. */
fast_err fast__layout_map_parse(const char *text, fast_layout_map *out);

/* FAST_EINVAL if an entry names no layer of a network, or none that earlier entries do not name;
 * the detail lists what the network has. */
fast_err fast__layout_map_check(const fast_layout_map *map, const fast_graph *graph);

/* Return the entry of a node, or -1. */
int fast__layout_map_find(const fast_layout_map *map, const fast_graph *graph, int node);
