/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"

/*
 * The model's state of a worker that holds a part of it: its slices of the rule's vectors, and
 * perhaps of g and w. Vectors own their addresses: a range that is dropped takes no memory until
 * it is written again.
 */

/* A range of w and g, and the slice of it that this worker owns. */
typedef struct fast_slice {
    int64_t offset;     /* of the range */
    int64_t count;      /* of its elements */
    int64_t own_offset; /* of the slice */
    int64_t own_count;  /* of its elements; perhaps 0 */
} fast_slice;

/* The part that is left of the rule's state when a worker's program ends. */
typedef enum fast_state_end {
    FAST_STATE_OWN,   /* each worker's slices: nobody reads more */
    FAST_STATE_FIRST, /* all of it at worker 0: a checkpoint may be written */
    FAST_STATE_ALL    /* all of it at all workers: another strategy follows */
} fast_state_end;
fast_state_end fast__trainer_state_end(const fast_trainer *t);
/* Say whether worker 0 has all of the rule's state: else the run cannot be saved now. */
void fast__trainer_state_is_whole(fast_trainer *t, bool whole);

/* True where each worker's vectors are its own; false in the simulator, whose equal replicas are
 * one copy that nobody may drop. */
bool fast__trainer_owns_model(const fast_trainer *t);
/* Prepare x, w, g or a vector of the rule, for ranges that are dropped. */
void fast__trainer_will_drop(float *x, int64_t count);
/* Give the memory of x[offset .. offset + count) back, but for [own, own + own_count).
 * Vectors of a device are left as they are. */
void fast__trainer_drop(float *x, int64_t offset, int64_t count, int64_t own, int64_t own_count);

/* Note that this worker holds a number of floats of w and g; the rule's state is counted with
 * `slices` of it. The most at any time is the result's model_state_bytes. */
void fast__trainer_holds(fast_trainer *t, int64_t floats, int64_t state_floats);

/* True if the pass asks for ranges of w before it reads them, in both directions, so that others
 * may be dropped meanwhile; true of a pass that would, but takes one instant of virtual time.
 * Neither where w is read at once, or by several micro-batches. */
bool fast__trainer_reads_layers(const fast_trainer *t);
bool fast__trainer_would_read_layers(const fast_trainer *t);
/* As fast_trainer_gradient_when(); with `again` need is called before the backward pass reads a
 * range, too. */
fast_err fast__trainer_gradient_again(fast_trainer *t, fast_need_fn *need, fast_report_fn *report,
                                      void *ctx, bool again);

/* FAST_EINVAL if the rule needs whole matrices (muon). */
fast_err fast__trainer_can_slice(const fast_trainer *t);
/* True if slices can be updated one by one, as soon as they are summed. */
bool fast__trainer_slices_alone(const fast_trainer *t);
/* A range of g is about to be summed: for measures and the forecast. */
void fast__trainer_slice_summed(fast_trainer *t, int64_t count);
/* Update one slice of w by its slice of g; of all slices at once where they are not alone, which
 * exchanges the squares of the norms. The rule's step is t->step. */
void fast__trainer_update_slice(fast_trainer *t, const fast_slice *slice, float scale);
fast_err fast__trainer_update_slices(fast_trainer *t, const fast_slice *slices, int64_t count,
                                     float scale);
/* All slices of all workers are updated: count contributions, and charge the time. */
fast_err fast__trainer_slices_done(fast_trainer *t, float scale);
