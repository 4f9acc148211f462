/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/allgatherv.h"
#include "strategy/strategy.h"

/* Layers whose gradients travel as factors between workers: factoring.c. */

enum { FAST_FACTORS_AUTO = 0, FAST_FACTORS_YES, FAST_FACTORS_NO };

/* The option of a strategy that has a field `factors`. */
#define FAST_OPT_FACTORS(config)                                                                \
    FAST_OPT_CHOICE(config, factors, "no", "auto|yes|no",                                       \
                    "send a dense layer's gradient as the factors of each sample; auto: where " \
                    "that is fewer bytes")

enum { FAST_FACTORS_WORKERS_MAX = 64 };

typedef struct fast_factor_layer {
    int64_t number;           /* as the trainer counts them */
    fast_factored_layer what; /* its shape */
    fast_allgatherv spread;   /* of its factors */
} fast_factor_layer;

/* All of them at one worker. */
typedef struct fast_factoring {
    fast_trainer *t;
    int64_t count;             /* of layers that travel as factors */
    fast_factor_layer *layers; /* in the order of their offsets */
} fast_factoring;

/* Does a layer pay as factors, of `sent` floats a float of which `plain` would be sent? */
bool fast__factors_pay(int mode, double factors, double plain);
/* Tell the user what was chosen for layer `what`: floats as factors, or as a gradient. */
void fast__factors_tell(fast_trainer *t, const fast_factored_layer *what, bool chosen,
                        double factors, double plain);

/* Choose, tell, and ask for the factors. FAST_EINVAL where they cannot be. */
fast_err fast__factoring_open(fast_trainer *t, int mode, fast_factoring *out);
void fast__factoring_close(fast_factoring *f);
/* Add the factors that a worker waits for in a step to a forecast, by the same choice. */
void fast__factoring_cost(const fast_trainer *t, int mode, fast_cost *out);
/* The layer that begins at this element of g; or NULL. */
fast_factor_layer *fast__factoring_find(const fast_factoring *f, int64_t offset);
/* Post the factors of the last gradient, or in its report. Never blocks. */
fast_err fast__factoring_start(fast_factoring *f, fast_factor_layer *layer);
/* Wait for everybody's, and make the sum in g. */
fast_err fast__factoring_finish(fast_factoring *f, fast_factor_layer *layer, int64_t deadline);
/* Let go of what came. */
void fast__factoring_drop(fast_factoring *f);
