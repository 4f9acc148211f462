/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "split/assembly.h"

/*
 * Sequences in slices: what the kinds `sequence`, `ulysses` and `ring` have in common. Shard t of T
 * has positions [t P / T, (t + 1) P / T) of each sequence [P, C]. Layers of single positions are
 * computed on the own slice; layers that relate positions are crossings, each with sections of its
 * own, in which a kind has its way of bringing positions together:
 *
 *     a | norm ... | crossing | add, norm ... | crossing | add ... |     e
 *       own slice              own slice                  own slice
 *
 * Values that are read behind a crossing, as the sum of a residual, stay at the shard meanwhile.
 * Tensors of layers on slices are whole at each shard, which has a part of their gradient. Where
 * the run ends with the network, so does the loss: of the logits of the own positions the shards
 * exchange figures (engine/class_range.h).
 */
typedef struct fast_sequence_way {
    /* Return the last node of a crossing that begins with node i, 0: none does. Its first node has
     * one input, and no other node of it is read behind. */
    int (*find)(fast_assembly *assembly, int i);
    /* Append nodes to the section before the crossing, and say what its output is and how it
     * leaves; NULL: the input of the first node, gathered. */
    void (*before)(fast_assembly *assembly, fast_split_section *section, int first);
    /* Append the section of the crossing. Its outputs are those of node `last`, or what `behind`
     * makes of them; each shard has its slice. */
    void (*cross)(fast_assembly *assembly, int first, int last);
    /* Append nodes to the section behind the crossing, where node `last` is the value that came.
     * NULL: none. */
    void (*behind)(fast_assembly *assembly, fast_split_section *section, int last);
} fast_sequence_way;

/* find() and make() of a kind. */
int fast__sequence_find(fast_assembly *assembly, const fast_sequence_way *way, int a);
void fast__sequence_make(fast_assembly *assembly, const fast_sequence_way *way, int a, int e);

/* Positions of the sequences that node i is of; the shard's first one, and its number of them. */
int64_t fast__sequence_positions(const fast_assembly *assembly, int i);
int64_t fast__sequence_first(const fast_assembly *assembly, int i);
int64_t fast__sequence_own(const fast_assembly *assembly, int i);
/* Give a node of a section the shape [rows, columns]. */
void fast__sequence_shape(fast_node *node, int64_t rows, int64_t columns);
/* A change of layout between slices of node i's positions, `columns` elements each. */
fast_reshard fast__sequence_layout(const fast_assembly *assembly, int i, int64_t columns,
                                   fast_reshard_kind forward, fast_reshard_kind backward);
/* Append the product of an attention node for queries, keys and values, or with `second` that of
 * its output, whose input is node `in` of the section. */
void fast__sequence_product(fast_assembly *assembly, fast_split_section *section, int i, int in,
                            bool second);
