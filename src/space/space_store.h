/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "space/space_state.h"

/*
 * A store: the memory of one owner, which local actors use directly. space_store.c has its layout
 * and how actors sleep and wake.
 *
 * Reads and changes of a store are ordered where the run is recorded: fast__space_begin()
 * and fast__space_end() enclose one. An update or a copy takes and releases the range's lock
 * between them, so that the lock is always free where a section starts.
 */
static inline void fast__space_begin(fast_space *space, int64_t owner)
{
    fast_critical_begin(space->actor, space->key + (uint64_t)owner);
}
static inline void fast__space_end(fast_space *space)
{
    fast_critical_end(space->actor);
}

/* Copy the values of op's range, which is locked for reading or writing, to op->result.
 * space_visit.c */
void fast__space_copy(const fast_space *space, const fast_space_operation *op);
/* Set *size_out to the bytes of an owner's store; false if they overflow. */
bool fast__space_store_size(const fast_space *space, int64_t owner, int64_t *size_out);
/* Find the pieces of a store in its memory; memory NULL: their distances from its start. */
void fast__space_store_map(const fast_space *space, void *memory, fast_space_store *store);
/* At an owner's open: take memory for the values on the space's device, if that is not the host.
 * FAST_ENOMEM. */
fast_err fast__space_store_values(fast_space *space);
/* At an owner's open: set initial values and the function. */
void fast__space_store_fill(fast_space *space, const fast_space_options *options);
/* Then let other actors in: values and the function do not change from outside of updates from now
 * on. In between a snapshot may restore values and versions. */
void fast__space_store_open(fast_space *space);
/* At an owner's close: let no more updates in, and wait until none is being applied. From then on
 * no actor calls the owner's function. Works for a stopped actor too. */
void fast__space_store_shut(fast_space *space);
/* Return the floats of a tensor's range at a local owner. */
float *fast__space_values(const fast_space *space, int64_t owner, int64_t tensor);

/* Wait until a local owner has opened its store. FAST_EPEER if it left or ended, FAST_EINVAL if it
 * opened another space by that name, FAST_ETIMEDOUT. */
fast_err fast__space_ready(fast_space *space, int64_t owner, int64_t deadline);
/* Fail with FAST_EPEER because an owner closed the space or ended, and name it. */
fast_err fast__space_owner_left(const fast_space *space, int64_t owner);

/* Which of an actor's two parts waits for a lock. */
enum { FAST_SPACE_PROGRAM = 0, FAST_SPACE_SERVICE = 1 };

/* Lock a range, waiting until the deadline. */
fast_err fast__space_lock(fast_space *space, int64_t owner, int64_t tensor, bool write,
                          int64_t deadline);
/* Lock a range for an update, as above; FAST_EPEER if its owner has left. */
fast_err fast__space_lock_update(fast_space *space, int64_t owner, int64_t tensor,
                                 int64_t deadline);
/* Try to lock a range; queue for it if that fails, so that the actor is woken when it may be free.
 * The caller tries again with the same *queued until it has the lock, or cancels. */
bool fast__space_attempt(fast_space *space, int64_t owner, int64_t tensor, bool write, int who,
                         bool *queued);
void fast__space_cancel(fast_space *space, int64_t owner, int64_t tensor, bool write, int who);
void fast__space_unlock(fast_space *space, int64_t owner, int64_t tensor, bool write);

/* Apply a PUT or ADD to a range that is locked for writing. op->x NULL: it only counts. */
void fast__space_apply(fast_space *space, const fast_space_operation *op);
/* Charge this actor for a PUT or ADD. */
fast_err fast__space_charge(fast_space *space, const fast_space_operation *op);

/* Wake the actors that are armed: the store changed. To be woken, arm first and look then. */
void fast__space_changed(fast_space *space, fast_space_store *store);
void fast__space_arm(fast_space *space, fast_space_store *store);

/* Return true if every writer that is still in has finished `clock_min` rounds. *clock_out is the
 * smallest clock; where no writer is left the largest ever, at least clock_min. */
bool fast__space_clock(fast_space *space, fast_space_store *store, int64_t clock_min,
                       int64_t *clock_out);
/* Return true if the writers that a get waits for have finished enough rounds, as above. */
bool fast__space_in_time(fast_space *space, fast_space_store *store,
                         const fast_space_operation *get, int64_t *clock_out);
/* Return the writer, other than its sender, that a get waits for and that is furthest behind; or
 * -1. */
int64_t fast__space_slowest(fast_space *space, fast_space_store *store,
                            const fast_space_operation *get);
/* Return an actor other than `reader` that is in the space or will join; or -1. */
int64_t fast__space_active(fast_space *space, fast_space_store *store, int64_t reader);
/* Record that an actor left an owner's store: its clock counts no longer. */
void fast__space_left(fast_space *space, int64_t owner, int64_t id);
