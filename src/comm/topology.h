/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "fast/comm.h"

/*
 * Topologies inside. A topology has one of three shapes:
 *
 *   circulant   rank r sends to r + o for every offset o of the step, modulo the size: ring, full,
 *               halton, exponential. Memory of the offsets alone, exact eigenvalues. Its ranks
 *               may be renumbered after each pass over the steps.
 *   list        links in lists by rank, one list for each step of a period: all other graphs
 *   pairs       each rank exchanges with one other at each step, computed from the step
 *
 * w(i, j) is the share of i's value that j takes when it mixes. On undirected graphs it is
 * Metropolis and Hastings' 1 / (1 + max(degree i, degree j)), which is symmetric and leaves
 * 1 - sum for the rank itself; on directed ones 1 / (1 + out-degree of i), so that the shares that
 * i gives away sum to 1 (push-sum needs no more); both sums are 1 where in- and out-degrees are all
 * equal.
 */

/* The links of one step, sorted by rank. */
typedef struct fast_topology_links {
    int64_t *start; /* [size + 1]: index of each rank's first link */
    int64_t *peer;  /* ranks at the other ends */
    double *weight; /* shares of the peers' values */
    double *self;   /* [size]: share of its own value */
} fast_topology_links;

/* How the peers of a rank are found: one table of functions for each shape. */
typedef struct fast_shape {
    /* As fast_topology_out() and, with `in`, fast_topology_in(). */
    int64_t (*peers)(const fast_topology *topology, int64_t step, int64_t rank, bool in,
                     int64_t *ranks, double *weights, double *self_out);
    /* As fast__topology_out_at(). */
    int64_t (*out_at)(const fast_topology *topology, int64_t step, int64_t rank, int64_t i,
                      int64_t *count_out);
} fast_shape;

/* Immutable once it is made; fields that a shape does not use are 0. */
struct fast_topology {
    const fast_shape *shape; /* how the fields below are read */
    int64_t size;            /* of the group */
    int64_t degree_max;      /* of the peers of a rank in one direction, over all steps */
    int64_t period;          /* steps until it repeats; 0: never */
    bool directed;           /* i sends to j does not mean that j sends to i */
    int64_t *offset;         /* circulant: of all steps, one after the other */
    int64_t *offset_start;   /* circulant: [steps + 1] */
    int64_t steps;           /* circulant: of one pass over the offsets */
    int64_t numberings;      /* circulant: used in turn, a pass each; 0: ranks are not renumbered */
    uint32_t *number;        /* circulant: [numberings][2][size]: ranks to numbers, and back */
    fast_topology_links *out; /* list: [period] */
    fast_topology_links *in;  /* list: [period]; equal to out where not directed */
    bool shuffled;            /* pairs: rounds in random order */
    uint64_t seed;            /* pairs: of that order */
};

/* A link while a graph is made. A negative weight is to be computed from the degrees. */
typedef struct fast_topology_link {
    int64_t from;  /* rank that sends */
    int64_t to;    /* rank that receives */
    double weight; /* share; negative: by the degrees */
} fast_topology_link;

/* Return out-neighbour number i of a rank, modulo their number, in the order of
 * fast_topology_out(), without listing all; -1 if the rank has none. *count_out is their number. */
int64_t fast__topology_out_at(const fast_topology *topology, int64_t step, int64_t rank, int64_t i,
                              int64_t *count_out);

/* Circulant of one step's offsets after the other: counts[t] of them in 1 .. size - 1 at step t. */
fast_err fast__topology_circulant(int64_t size, int64_t period, const int64_t *counts,
                                  const int64_t *offsets, fast_topology **out);

/* Renumber the ranks of a circulant at random: each of `numberings` permutations, drawn from the
 * seed, is used for one pass over its steps, in turn. FAST_ENOMEM: the topology is as before. */
fast_err fast__topology_renumber(fast_topology *topology, int64_t numberings, uint64_t seed);

/* A graph by its links; links of step t are those from starts[t] to starts[t + 1]. Undirected ones
 * are given once, in any direction. FAST_EINVAL for doubled links and for links to oneself, with
 * which rank. */
fast_err fast__topology_list(int64_t size, int64_t period, const int64_t *starts,
                             const fast_topology_link *links, bool directed, fast_topology **out);

/* Each rank exchanges with every other once in a period: a tournament by the circle method. */
fast_err fast__topology_pairs(int64_t size, bool shuffled, uint64_t seed, fast_topology **out);

/* Parse the text of a topology file (topology_file.c says how it looks). `size` 0: the file's. */
fast_err fast__topology_parse(const char *text, size_t bytes, int64_t size, fast_topology **out);

/* A topology that can be chosen by name. */
typedef struct fast_topology_kind {
    const char *name;           /* as it is typed */
    const char *summary;        /* one line for help */
    const fast_option *options; /* over topology_config; NULL: none */
    fast_err (*make)(const void *config, int64_t size, uint64_t seed, fast_topology **out);
} fast_topology_kind;

/* In the order of `fast help topologies`; the last is NULL. */
extern const fast_topology_kind *const fast__topologies[];

/* Ranks at most: more actors than a simulation holds. */
enum { FAST_TOPOLOGY_SIZE_MAX = 1 << 20 };
