/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/allgatherv.h"
#include "strategy/strategy.h"

/*
 * Layers whose gradients are sent between workers as factors: factoring.c.
 */

enum { FAST_FACTORS_AUTO = 0, FAST_FACTORS_YES, FAST_FACTORS_NO }; /* option factors */

/* The option of a strategy that has a field `factors`. */
#define FAST_OPT_FACTORS(config)                                                                \
    FAST_OPT_CHOICE(config, factors, "no", "auto|yes|no",                                       \
                    "send a dense layer's gradient as the factors of each sample; auto: where " \
                    "that is fewer bytes")

enum { FAST_FACTORS_WORKERS_MAX = 64 };

/* One layer that is sent as factors. */
typedef struct fast_factor_layer {
    int64_t number;           /* as the trainer counts them */
    fast_factored_layer what; /* its shape */
    fast_allgatherv spread;   /* of its factors */
} fast_factor_layer;

/* All such layers of one worker. */
typedef struct fast_factoring {
    fast_trainer *t;           /* the worker's */
    int64_t count;             /* length of layers */
    fast_factor_layer *layers; /* in the order of their offsets */
} fast_factoring;

/* True if a layer is sent as factors: `factors` and `plain` are the floats of either form. */
bool fast__factors_pay(int mode, double factors, double plain);
/* Tell the user which form was chosen for layer `what`, and the bytes of both. */
void fast__factors_tell(fast_trainer *t, const fast_factored_layer *what, bool chosen,
                        double factors, double plain);

/* Return the floats that a node sends of a layer as factors, and in *plain_out as a gradient: by
 * servers, or by an allreduce where `servers` is 0. */
double fast__factoring_floats(const fast_trainer *t, int64_t servers,
                              const fast_factored_layer *what, double *plain_out);
/* Choose the layers, tell the user, and ask the trainer for their factors. Other layers are sent to
 * servers; 0: by an allreduce. FAST_EINVAL if factors=yes is impossible; FAST_ENOMEM. */
fast_err fast__factoring_open(fast_trainer *t, int mode, int64_t servers, fast_factoring *out);
/* Free the layers; their gradients are whole again. All 0 is allowed. */
void fast__factoring_close(fast_factoring *f);
/* Add the factors that a worker waits for in a step to a forecast, for the layers that
 * fast__factoring_open() would choose. */
void fast__factoring_cost(const fast_trainer *t, int mode, int64_t servers, fast_cost *out);
/* Return the layer whose gradient starts at this element of g; NULL if it is not sent as
 * factors. */
fast_factor_layer *fast__factoring_find(const fast_factoring *f, int64_t offset);
/* Send the factors of the last gradient; may be called in its report. Never blocks. */
fast_err fast__factoring_start(fast_factoring *f, fast_factor_layer *layer);
/* Wait for the factors of all workers, and compute the layer's sum in g. */
fast_err fast__factoring_finish(fast_factoring *f, fast_factor_layer *layer, int64_t deadline);
/* Free factors that arrived and were not used. */
void fast__factoring_drop(fast_factoring *f);
