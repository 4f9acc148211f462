/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/comm.h"

/*
 * Probabilities of edges in randomised gossip (Boyd et al. 2006): rank i, which wakes up at random,
 * averages with its neighbour j with probability P_ij; edges.c has the formulas.
 */
typedef struct fast_edges {
    int64_t size;   /* ranks */
    int64_t *start; /* [size + 1]: index of each rank's first edge */
    int64_t *peer;  /* rank at the other end */
    double *p;      /* P_ij; those of a rank sum to 1, or to 0 if it chooses nobody */
} fast_edges;

/* Ranks at most: a factorisation of the dense mixing matrix takes a second with as many. */
enum { FAST_EDGES_SIZE_MAX = 1024 };

/* List the edges of a static topology of at most FAST_EDGES_SIZE_MAX ranks: chosen uniformly, or
 * `weighted` in proportion to the weights of the topology. FAST_ENOMEM. */
fast_err fast__edges_new(const fast_topology *topology, bool weighted, fast_edges **out);
void fast__edges_free(fast_edges *edges); /* NULL is allowed */

/* Change the probabilities so that the second largest eigenvalue falls; it never rises. Above 256
 * ranks fewer steps are taken, of about the same time in all. FAST_ENOMEM. */
fast_err fast__edges_optimise(fast_edges *edges);

/* Find the second largest eigenvalue of the expected mixing matrix; 1 where ranks are not
 * connected, 0 for one rank. FAST_ENOMEM. */
fast_err fast__edges_eigenvalue(const fast_edges *edges, double *out);
