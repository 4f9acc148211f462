/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/device.h"

/*
 * Compensation of late gradients at a server (DC-ASGD): a first-order estimate of the gradient at
 * the model that it is applied to.
 */

/* The correction. */
typedef struct fast_compensation {
    double lambda; /* weight of the correction; 0: none */
    double decay;  /* of the mean square that makes lambda adaptive; 0: lambda is constant */
} fast_compensation;

/* The models at which late gradients were computed, and the state of an adaptive lambda. */
typedef struct fast_past {
    float **models;  /* [room]: the model of version v in row v mod room */
    int64_t room;    /* versions in the ring */
    int64_t begin;   /* the first version that was stored; -1: none yet */
    float *square;   /* the running mean of g * g; NULL where lambda is constant */
    float *gradient; /* the compensated gradient, lent to the caller */
} fast_past;

/* All vectors may be on any device, and are of one length.
 *
 * Allocate for `room` models of `count` floats on a device. FAST_ENOMEM: nothing is allocated. */
fast_err fast__past_init(const fast_compensation *how, const fast_device *device, int64_t room,
                         int64_t count, fast_past *out);
/* Free the memory. All 0 is allowed. */
void fast__past_fini(fast_past *past);

/* Return g, computed at version `read`, compensated for w, the model of version `version`, which is
 * stored in the ring. Lent until the next call. */
const float *fast__past_compensate(fast_past *past, const fast_compensation *how, int64_t read,
                                   int64_t version, int64_t count, const float *g, const float *w);
