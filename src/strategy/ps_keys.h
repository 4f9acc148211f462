/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/ps.h"

/* Ranges of keys and groups of workers (Li et al. 2014). */

/* The ranges of a consistent-hash ring, in their order; all 0 if ranges are equal. */
typedef struct ps_ring {
    int64_t *owners; /* [shards] actor of each range, of one copy of the model; or NULL */
    double *ends;    /* [shards] where each range ends, as a fraction of the model; or NULL */
    double widest;   /* the largest fraction that a range has */
} ps_ring;
/* Make the ring of a copy of the model, if the options ask for one. FAST_ENOMEM. */
fast_err fast__ps_ring_new(const ps_config *c, const fast_trainer *t, int64_t replica,
                           ps_ring *out);
/* Free the lists. All 0 is allowed. */
void fast__ps_ring_free(ps_ring *ring);
/* Set the group of a worker: its first rank and its size. Groups are as equal as possible. */
void fast__ps_group_of(int64_t groups, int64_t workers, int64_t rank, int64_t *first_out,
                       int64_t *size_out);

/* ps_tasks.c: with `tasks`. */
/* Submit a pull of each range to t->w, under this condition. */
fast_err fast__ps_pull(ps_writer *wr, const fast_space_read *condition);
/* Wait for the pulls of the ranges that hold some floats. */
fast_err fast__ps_await_pulls(ps_writer *wr, int64_t offset, int64_t count);
/* Submit a push of x for each range, which sets the writer's clock there. */
fast_err fast__ps_push_ranges(ps_writer *wr, const float *x);

/* ps_placement.c: copies, for tasks. */
/* After an error of copy `i`: true if its owner is down, and other copies are left: it is lost. */
bool fast__ps_copy_lose(ps_copies *copies, int64_t i, fast_err err);
/* With a slack: true if a read timed out because of a writer that does not answer, and is to be
 * repeated. *blamed, at first -1, is the writer that was missed last. */
bool fast__ps_missed_writer(const ps_copies *copies, fast_err err, int64_t *blamed);
