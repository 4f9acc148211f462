/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "graphs.h"

/*
 * Networks as people build them, and everything that a pass over one needs: parameters, state and a
 * batch, random but the same for the same seed; and room for what comes out, with guards around it.
 */
typedef struct test_network {
    const char *name;
    void (*build)(test_graph *g);
} test_network;

extern const test_network test_networks[]; /* the last has no name */

enum { TEST_GUARD = 64 }; /* floats before and after each output */

typedef struct test_job {
    const fast_graph *graph;
    int64_t n; /* samples */
    float *params, *state, *x, *targets;
    int32_t *labels;
    /* Written by test_job_run(). */
    fast_pass pass;
    fast_batch batch;
    float *grad, *outputs, *state_after; /* with guards; point at the first element */
} test_job;

/* x may be random numbers, or tokens. */
void test_job_open(test_job *job, const fast_graph *graph, int64_t n, uint64_t seed);
/* From a case: parameters away from kinks, as test_graph_init() makes them. */
void test_job_open_case(test_job *job, const test_graph *g, uint64_t seed);
void test_job_close(test_job *job);

/* Options of a run; zero is a training pass with gradients over the whole batch. */
typedef struct test_job_options {
    int64_t count; /* samples of it; 0: all */
    bool evaluate; /* evaluation mode, forward only */
    bool forward;  /* training mode without a backward pass */
    uint64_t step;
    const uint32_t *ids;
    fast_report_fn *report;
    fast_factor_fn *factor;
    void *ctx;
} test_job_options;

/* Poison the outputs, run, check the guards. Gives the engine's code. */
fast_err test_job_run(test_job *job, const test_runner *runner, const test_job_options *options);

/* Deviation of two jobs' results: the largest over outputs, state and each segment's gradient,
 * relative to the largest element of `b`'s. */
double test_job_distance(const test_job *a, const test_job *b);

/* Whether two jobs' results are the same bits. */
bool test_job_same(const test_job *a, const test_job *b);
