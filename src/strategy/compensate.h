/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Compensation of late gradients at a server (DC-ASGD): what the gradient would be at the model
 * that it meets, to first order.
 */

/* How it is done. Zeros: not at all. */
typedef struct fast_compensation {
    double lambda; /* how much of the correction counts; 0: none */
    double decay;  /* of the mean square that makes lambda adaptive; 0: lambda is constant */
} fast_compensation;

/* The models that late gradients were computed at, and what makes lambda adaptive. */
typedef struct fast_past {
    float **models;  /* [room]: that of version v in v mod room */
    int64_t room;    /* versions that are kept */
    int64_t begin;   /* the first version that was kept */
    float *square;   /* the running mean of g * g; NULL where lambda is constant */
    float *gradient; /* the one that is compensated */
} fast_past;

/* Room for `room` models of `count` floats. FAST_ENOMEM, and nothing is held. */
fast_err fast__past_init(const fast_compensation *how, int64_t room, int64_t count, fast_past *out);
void fast__past_fini(fast_past *past);

/* The gradient g of the model of version `read`, at the model w of version `version`, which is kept
 * from then on. Lent until the next call. */
const float *fast__past_compensate(fast_past *past, const fast_compensation *how, int64_t read,
                                   int64_t version, int64_t count, const float *g, const float *w);
