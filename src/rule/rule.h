/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "tensor/device.h"
#include "tensor/segment.h"

/*
 * Update rules: w <- rule(w, g). A rule works on any slice of the flat vector with the same slice
 * of its own state, so that a worker can apply it to each range of gradients as soon as it is
 * reported, and a server to the shard that it owns. Formulas are PyTorch's.
 *
 * A rule's file is a kernel: apply() gets addresses that the host can read. An optimizer, which
 * everything else uses, takes vectors of any device and maps them around it.
 */
enum { FAST_RULE_SLOTS_MAX = 3 };

typedef struct fast_rule_slice {
    float *w;                          /* [count]: parameters, updated */
    const float *g;                    /* [count]: their gradient */
    float *state[FAST_RULE_SLOTS_MAX]; /* [count] each: this slice of the rule's state vectors */
    int64_t count;                     /* elements; at least 1 */
    double lr;                         /* learning rate of this step */
    int64_t step;                      /* from 1 */
    float g_scale;                     /* multiplies g first: clipping by norm, averaging */
    float decay;                       /* weight decay; 0 in biases and norms */
    int64_t rows;   /* by_segment rules: rows of a matrix that decays; 0: it is no matrix */
    float *scratch; /* as many floats as the rule asked for; NULL if it did not */
    bool adapt; /* a by_segment rule scales the learning rate by norms; false in biases and norms */
    float *record; /* measures of the whole vector; NULL: the rule has none, or no room for them */
    const double *squares; /* sums by measure() over the whole segment, of which the slice may be a
                              part; NULL: it was not called */
} fast_rule_slice;

enum { FAST_RULE_SQUARES = 2 }; /* norms of a segment */

typedef struct fast_rule {
    const char *name;           /* as users type it */
    const char *summary;        /* one line, for help */
    const fast_option *options; /* of its configuration */
    size_t config_size;         /* bytes; it begins with a fast_rule_common (rule/kernel.h) */
    int slots;                  /* state vectors at most, each zero at the start */
    bool by_segment;            /* needs whole segments, for norms of a layer: LARS, LAMB */
    double lr;                  /* learning rate that "auto" means: one that usually trains */
    size_t momentum_offset;     /* of the configuration's momentum, a double; 0: it has none */

    /* Observe the whole gradient before the slices of a step are updated, and write the record: the
     * first `record` elements of the last state vector. NULL: nothing is observed. */
    void (*observe)(const void *config, const fast_rule_slice *whole);
    int64_t record; /* floats of the record; a vector with fewer elements has none */

    /* Return how many state vectors this configuration needs; NULL: always `slots`. */
    int (*slots_needed)(const void *config);

    /* Return the floats of scratch memory that an update needs, for the `largest` segment; NULL:
     * none. */
    int64_t (*scratch)(int64_t largest);

    /* A by_segment rule whose norms are sums over elements: the first half of an update. Add the
     * squares of the norms of a part of a segment, and move the state where they depend on it. The
     * parts of a segment cover it once; apply() gets the sums. NULL: it needs whole segments. */
    void (*measure)(const void *config, const fast_rule_slice *slice,
                    double squares[FAST_RULE_SQUARES]);

    /* Update w[0 .. count) and its state. The slice may begin anywhere; by_segment rules are called
     * with whole segments, or after measure(). The bits do not depend on how a vector is cut.
     * Cannot fail. */
    void (*apply)(const void *config, const fast_rule_slice *slice);
} fast_rule;

extern const fast_rule *const fast__rules[]; /* NULL ends the list */

/* A rule with its configuration, clipping and state: what a learner or a server holds. */
typedef struct fast_optimizer fast_optimizer;

/* Make an optimizer from "name:key=value,..." for a vector of this layout, which is borrowed; its
 * state is on the device, zero. FAST_EINVAL for unknown names and options, FAST_ENOMEM. */
fast_err fast__optimizer_new(const fast_device *device, const char *spec, const fast_layout *layout,
                             fast_optimizer **out);
void fast__optimizer_free(fast_optimizer *optimizer); /* NULL is allowed */

/* True if a range may be updated as soon as its gradient is final: an elementwise rule without
 * clipping by norm. */
bool fast__optimizer_by_range(const fast_optimizer *optimizer);

/* Update a range of which w[0] and g[0] are element `offset`, with g multiplied by `scale` first.
 * The calls of a step, from 1, cover the vector once, with the same step and lr. The whole vector
 * is always allowed, and required where !by_range. Allocates nothing. */
void fast__optimizer_apply_range(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                                 const float *g, float scale, int64_t offset, int64_t count);
/* True if the update of a range can be made in the two halves below: all rules but those that need
 * whole matrices. */
bool fast__optimizer_by_slice(const fast_optimizer *optimizer);
/* True if the rule scales by norms of layers, so that the first half is needed. */
bool fast__optimizer_measures(const fast_optimizer *optimizer);
/* Return `scale` so that the gradient, of which norm2 is the sum of squares before, is no longer
 * than clip_norm. Where that is off (fast__optimizer_clips() is false) it is `scale`. */
bool fast__optimizer_clips(const fast_optimizer *optimizer);
float fast__optimizer_clipped(const fast_optimizer *optimizer, float scale, double norm2);
/* An update in two halves, for vectors of which each worker has a range: add the squares of the
 * range's parts of all segments to squares[FAST_RULE_SQUARES * segment]; then, with their sums over
 * all ranges, update the range. Arguments as above. Both do not clip by norm. */
void fast__optimizer_measure_range(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                                   const float *g, float scale, int64_t offset, int64_t count,
                                   double *squares);
void fast__optimizer_apply_measured(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                                    const float *g, float scale, int64_t offset, int64_t count,
                                    const double *squares);
/* Update the whole vector with g multiplied by `scale` first. */
void fast__optimizer_apply_scaled(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                                  const float *g, float scale);
/* Update w[offset .. offset + count) from g; both are whole vectors. */
void fast__optimizer_apply(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                           const float *g, int64_t offset, int64_t count);

/* Return true if weight decay changes all elements of a range but those that are 0. */
bool fast__optimizer_decays(const fast_optimizer *optimizer, int64_t offset, int64_t count);

/* Return state vector i, of layout->count elements, for checkpoints; NULL past the last. */
float *fast__optimizer_slot(const fast_optimizer *optimizer, int i);
const fast_rule *fast__optimizer_rule(const fast_optimizer *optimizer);
/* Return the coefficient of its momentum, or of its mean of gradients; 0: it has none. */
double fast__optimizer_momentum(const fast_optimizer *optimizer);
