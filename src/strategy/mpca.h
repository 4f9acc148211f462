/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/strategy.h"

/*
 * Inside the family mpca: mpca.c has the options, the step of a worker, and programs in which every
 * worker sends to the master when it can; mpca_tree.c programs that gather the models of a round
 * along a binomial tree.
 */
typedef struct mpca_config {
    double rho;     /* weight of the penalty */
    double share;   /* of a model that is merged; < 0: 1 / workers */
    double length;  /* of the extrapolation, in rounds */
    int64_t period; /* steps between models at least */
    bool tree;      /* models are gathered along a binomial tree */
} mpca_config;

/* Parameters of a merge. */
typedef struct mpca_merge {
    float share;  /* weight of the model that arrives */
    float length; /* of the extrapolation, in rounds */
    bool ends;    /* the merge ends a round */
} mpca_merge;

/* Merge at the master, by mpca_merge: m, m', v, z and the model x become
 *   m + share (x - m);  at the end of a round v = m - m', m' = m;  z = m + length v. */
extern const fast_kernel fast__mpca_merge;

/* Take a worker's step with the penalty for the distance to z. `shares` are two lists: the
 * contributions of z, and scratch. */
fast_err fast__mpca_step(fast_trainer *t, const mpca_config *c, float *z, double *shares);

/* Programs with a tree: of a worker, and of the master. */
fast_err fast__mpca_tree_worker(fast_trainer *t, const mpca_config *c);
fast_err fast__mpca_tree_master(fast_trainer *t, const mpca_config *c);
