/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * The momentum that asynchrony gives a model's updates, measured at a server.
 */
typedef struct fast_implicit {
    int64_t size;    /* weights that are looked at; 0: it measures nothing */
    int64_t stride;  /* between them */
    int64_t room;    /* versions that are kept */
    int64_t lag;     /* of the instrument, in versions */
    float *steps;    /* [room][size]: lr g of the update that made a version */
    float *pulls;    /* [room][size]: x of a version */
    int64_t *pulled; /* [room]: the version of that x; -1: none */
    double yz;       /* sums of the regression: <y, z> */
    double xz;       /* <x, z> */
    double yz_yz;    /* of their squares and product, for the error */
    double yz_xz;    /* likewise */
    double xz_xz;    /* likewise */
    int64_t pairs;   /* that are in the sums */
} fast_implicit;

/* For a range of `count` weights and so many writers. FAST_ENOMEM, and nothing is held. */
fast_err fast__implicit_init(int64_t count, int64_t writers, fast_implicit *out);
void fast__implicit_fini(fast_implicit *m);

/* The gradient g of version `read` was applied with rate lr, and made `version` (from 1). */
void fast__implicit_see(fast_implicit *m, int64_t version, int64_t read, const float *g, double lr);
/* What the updates so far say, and its standard error; NAN where that is larger than 1/2, or they
 * are too few to tell. */
double fast__implicit_estimate(const fast_implicit *m, double *error_out);
