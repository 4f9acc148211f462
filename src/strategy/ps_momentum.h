/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Measures, at a server, the momentum that asynchrony adds to a model's updates: ps_momentum.c.
 * Versions are a ring: those of version v are in row v mod room.
 */
typedef struct fast_implicit {
    int64_t size;    /* sampled weights; 0: nothing is measured */
    int64_t stride;  /* distance between two sampled weights */
    int64_t room;    /* versions in the ring */
    int64_t lag;     /* versions between x and its instrument */
    float *steps;    /* [room][size]: lr g of the update that made a version */
    float *pulls;    /* [room][size]: x of a version */
    int64_t *pulled; /* [room]: the version of that x; -1: the row is empty */
    double yz;       /* sum of <y, z>, z the instrument */
    double xz;       /* sum of <x, z> */
    double yz_yz;    /* sum of <y, z>^2, for the standard error */
    double yz_xz;    /* sum of <y, z> <x, z> */
    double xz_xz;    /* sum of <x, z>^2 */
    int64_t pairs;   /* terms of each sum */
} fast_implicit;

/* Allocate for a range of `count` weights and this number of writers. FAST_ENOMEM: nothing is
 * allocated. */
fast_err fast__implicit_init(int64_t count, int64_t writers, fast_implicit *out);
/* Free the memory. All 0 is allowed. */
void fast__implicit_fini(fast_implicit *m);

/* Count an update: the gradient g, computed at version `read`, was applied with learning rate lr
 * and made `version` (from 1). */
void fast__implicit_see(fast_implicit *m, int64_t version, int64_t read, const float *g, double lr);
/* Return the estimate of the momentum, and its standard error; NAN if the error is larger than 1/2
 * or the updates are too few. */
double fast__implicit_estimate(const fast_implicit *m, double *error_out);
