/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/strategy.h"
#include "strategy/via_master.h"

/*
 * Inside the family local:
 *
 *   local.c            options, local steps, and exchanges of whole models
 *   local_fragments.c  exchanges of fragments, which may overlap with later steps
 */

enum { OUTER_NONE, OUTER_CLASSICAL, OUTER_NESTEROV };

typedef struct local_config {
    int64_t period;      /* steps between exchanges; 0: one exchange, at the end */
    int outer;           /* OUTER_*: momentum of the outer step */
    double momentum;     /* m of the outer step */
    double rate;         /* r of the outer step */
    double after;        /* first epochs, with an exchange at each step */
    int state;           /* fast_rule_state: the rule's state at an exchange */
    bool delay;          /* one update a period, by the mean gradient */
    double grow;         /* delay: epochs after which the period grows; 0: never */
    char milestones[64]; /* delay: epochs at which the period grows, "1+3+4.5"; empty: never */
    double noise;        /* delay: relative deviation of the mean at which it grows; 0: never */
    bool shrink;         /* noise: the period shrinks again where a shorter one is enough */
    int64_t factor;      /* by which the period grows and shrinks */
    int64_t longest;     /* the longest period that grow and noise lead to */
    double polyak;       /* epoch from which models are averaged over time; -1: never */
    int64_t fragments;   /* ranges of the model that are exchanged in turn */
    int64_t overlap;     /* fragments: steps between the start and the end of an exchange */
    double mix;          /* overlap: fraction of the own weights that remains */
    int master;          /* fast_via: the path to a master that makes the average */
    char algorithm[64];  /* collective that makes the average */
} local_config;

/* Persistent numbers of a worker. */
typedef struct local_numbers {
    int64_t set;        /* 1: the numbers below are set */
    int64_t sum_count;  /* gradients since the last exchange */
    int64_t mean_count; /* models in the mean over time */
    int64_t versions;   /* exchanges since the start of that mean's vector */
    int64_t period;     /* current steps between exchanges; 0: one exchange, at the end */
    int64_t grown;      /* times that the period grew because of epochs */
} local_numbers;

/* Persistent vectors of a worker besides its replica; `x` is NULL where they are not needed. */
typedef struct local_state {
    local_numbers *numbers; /* counters */
    fast_vector z;          /* outer step: the model after the last exchange */
    fast_vector d;          /* outer step: its momentum D */
    fast_vector base;       /* codecs for differences: the model that changes are relative to */
    fast_vector sum;        /* delay: gradients since the last exchange */
    fast_vector mean;       /* polyak: models averaged over time, the run's centre */
    fast_via_master *via;   /* this end of the path to the master; NULL without a master */
} local_state;

/* The exchange of a worker's fragments. */
typedef struct local_fragments {
    fast_trainer *t;       /* the worker's */
    const local_config *c; /* the options */
    local_state *o;        /* the worker's vectors */
    float *a;              /* [count]: the average of a fragment, while it is made */
    fast_flow **flows;     /* [2 fragments]: sent and received; NULL: the run has no codec */
    fast_request *request; /* sum under way; NULL: none, or by messages */
    int64_t pending;       /* fragment whose exchange is under way; -1: none */
    int64_t started;       /* the step after which that exchange started */
} local_fragments;

/* Allocate the vectors and flows. FAST_EINVAL for codecs that cannot encode differences,
 * FAST_ENOMEM: fini() is still to be called. */
fast_err fast__fragments_init(fast_trainer *t, const local_config *c, local_state *o,
                              local_fragments *out);
void fast__fragments_fini(local_fragments *k);
/* Start and end the exchanges that are due after a step; `all`: of all fragments, at once. */
fast_err fast__fragments_step(local_fragments *k, bool all);
