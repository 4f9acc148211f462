/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "tensor/segment.h"

/*
 * Update rules: w <- rule(w, g). A rule works on any slice of the flat vector with the same slice
 * of its own state, so that a worker can apply it to each range of gradients as soon as it is
 * reported, and a server to the shard that it owns. Formulas are PyTorch's.
 */
enum { FAST_RULE_SLOTS_MAX = 3 };

typedef struct fast_rule_slice {
    float *w;                          /* parameters, updated */
    const float *g;                    /* their gradient */
    float *state[FAST_RULE_SLOTS_MAX]; /* slot i, the same slice */
    int64_t count;                     /* elements of each */
    double lr;                         /* of this step */
    int64_t step;                      /* from 1 */
    float g_scale;                     /* multiplies g first: clipping by norm, averaging */
    float decay; /* weight decay here; 0 where it does not apply: biases and norms */
    bool adapt;  /* a by_segment rule scales its rate by norms here: likewise not for those */
} fast_rule_slice;

typedef struct fast_rule {
    const char *name;           /* as it is typed */
    const char *summary;        /* one line, for help */
    const fast_option *options; /* of its configuration */
    size_t config_size; /* the configuration begins with a fast_rule_common (rule/kernel.h) */
    int slots; /* vectors of state at most, each of the parameters' length, zero at the start */
    bool by_segment; /* needs whole segments (norms per layer): LARS, LAMB */
    double lr;       /* a base rate that usually trains: what "auto" means */

    /* How many slots this configuration needs; NULL: always `slots`. */
    int (*slots_needed)(const void *config);

    /* What this configuration keeps of its last velocity, or mean of gradients; NULL: nothing. */
    double (*momentum)(const void *config);

    /* Update w[0 .. count) and its slots. The slice may begin anywhere; by_segment rules are called
     * with whole segments. The bits do not depend on how a vector is cut. Cannot fail. */
    void (*apply)(const void *config, const fast_rule_slice *slice);
} fast_rule;

extern const fast_rule *const fast__rules[]; /* the last is NULL */

/* A rule with its configuration, clipping and state: what a learner or a server holds. */
typedef struct fast_optimizer fast_optimizer;

/* From "name:key=value,...", for a vector of this layout (borrowed). */
fast_err fast__optimizer_new(const char *spec, const fast_layout *layout, fast_optimizer **out);
void fast__optimizer_free(fast_optimizer *optimizer);

/* True if apply may be called on any range as soon as its gradient is final: an elementwise rule
 * without clipping by norm. */
bool fast__optimizer_by_range(const fast_optimizer *optimizer);

/* Update w[offset .. offset + count) from g, both whole vectors. The caller covers the vector once
 * in each step, with the same step (from 1) and lr. The whole vector at once is always allowed, and
 * required where !by_range. Allocates nothing. */
void fast__optimizer_apply(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                           const float *g, int64_t offset, int64_t count);

/* The same on a range that lies anywhere, as a server holds it: w[0 .. count) and g[0 .. count) are
 * the elements from `offset` on. g is multiplied by `scale` first. Only where by_range. */
void fast__optimizer_apply_range(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                                 const float *g, float scale, int64_t offset, int64_t count);

/* The whole vector with g multiplied by `scale` first. */
void fast__optimizer_apply_scaled(fast_optimizer *optimizer, int64_t step, double lr, float *w,
                                  const float *g, float scale);

/* State, for checkpoints: slot i is a vector of layout->count floats; NULL past the last. */
float *fast__optimizer_slot(fast_optimizer *optimizer, int i);
const fast_rule *fast__optimizer_rule(const fast_optimizer *optimizer);
/* Its momentum; 0: none. */
double fast__optimizer_momentum(const fast_optimizer *optimizer);
