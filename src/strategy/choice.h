/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/exchange.h"

/*
 * The neighbour that a worker exchanges with, chosen at random with the probabilities of the
 * option `edges`.
 */
enum { FAST_EDGES_UNIFORM, FAST_EDGES_WEIGHTS, FAST_EDGES_BEST };
#define FAST_EDGES_CHOICES "uniform|weights|best"
#define FAST_EDGES_HELP                                                                            \
    "probabilities of neighbours: uniform; weights: in proportion to the topology's weights "      \
    "(--topology file:PATH); best: those that reach consensus fastest, for at most 1024 workers, " \
    "above 256 by fewer steps of the search"

typedef struct fast_choice {
    fast_trainer *t; /* the worker */
    int64_t *ranks;  /* [count] neighbours; NULL: each has the same probability */
    double *p;       /* [count] probability of each */
    int64_t count;   /* number of neighbours */
} fast_choice;

/* Set up the choice of a worker. With at most FAST_EDGES_SIZE_MAX workers tell the user the second
 * largest eigenvalue of the expected mixing matrix, unless neighbours are chosen uniformly.
 * FAST_EINVAL if the neighbours change at each step, or are too many to optimise; FAST_ENOMEM. */
fast_err fast__choice_init(fast_trainer *t, int edges, fast_choice *out);
void fast__choice_fini(fast_choice *choice);

/* Return a random neighbour that is up; -1 if none is up that may be chosen. */
int64_t fast__choice_draw(const fast_choice *choice);
