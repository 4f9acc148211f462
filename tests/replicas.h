/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/team.h"

/*
 * A strategy's worker programs on replicas that a test has laid out, with gradients that it made
 * up: replica i starts with the weights that a test sets, and its last weights are copied. So
 * theorems about mixing and about sums are tested without a model.
 */
enum { TEST_WORKERS_MAX = 16 };

typedef struct test_replicas {
    int64_t workers;
    int64_t count;                 /* of parameters */
    float *last[TEST_WORKERS_MAX]; /* [count]: each replica at its end; NULL: it did not end well */
    float *first[TEST_WORKERS_MAX];  /* [count]: at its beginning */
    int64_t steps[TEST_WORKERS_MAX]; /* that each took */
    fast_result result;              /* of the run */
    fast_err err;                    /* of fast_run_train() */
} test_replicas;

typedef struct test_replicas_options {
    const char *strategy;  /* "gossip:first=adapt" */
    const char *topology;  /* NULL: the strategy's own */
    const char *transport; /* NULL: sim */
    const char *faults;    /* NULL: none */
    const char *cluster;   /* NULL: the standard one */
    const char *lr;        /* NULL: 0 */
    const char *codec;     /* NULL: none */
    int64_t workers;       /* at least 1 */
    int64_t steps;         /* of each */
    int64_t seed;          /* 0: 1 */
    bool learner;          /* gradients are the model's; else made up, on a dyadic grid */
    bool apart;            /* replica i begins with 1 at element i and 0 elsewhere, instead of
                                    the model's first weights (learner) or zeros */
    bool scattered;        /* replica i begins with its made-up gradient of step 0, all over */
    int64_t alloc_fail;    /* the n-th allocation (from 1) after worker 0 begins fails; 0: none */
} test_replicas_options;

/* Run it; a run that cannot be opened fails the test. */
void test_replicas_run(const test_replicas_options *options, test_replicas *out);
void test_replicas_free(test_replicas *r);

/* The made-up gradient of a worker at a step (from 0): a multiple of 2^-4 in [-1, 1). */
float test_replicas_gradient(int64_t rank, int64_t step, int64_t i);

/* The mean of element i over the replicas that ended, and the root of the sum over elements and
 * replicas of their squared distance to it. */
double test_replicas_mean(float *const *w, int64_t workers, int64_t i);
double test_replicas_distance(float *const *w, int64_t workers, int64_t count);
