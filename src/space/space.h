/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/coded.h"
#include "fast/space.h"

/*
 * Spaces, for the folders above: operations that fast/space.h does not offer to users. Inside
 * the folder:
 *
 *   space_state.h       the parts of a space, and the operation that everything works on
 *   space.c             operations: get, put, add, tick, watch
 *   space_open.c        open, serve, close; space_ring.c ranges by a consistent-hash ring
 *   space_task.c        pushes and pulls of ranges with dependencies
 *   space_store.c       memory that local actors share; space_lock.c its lock
 *   space_visit.c       work on that memory where it lies, by several actors at once
 *   space_remote.c      requests to remote owners and their answers, from the reader's side
 *   space_order.c       the order of answers in slices
 *   space_owner.c       the owner's side: a table of requests; space_answer.c their answers
 *   space_chain.h       copies of a range, one behind the other
 *   space_form.h        how values travel; dense in space_form.c, then space_sparse.c,
 *                       space_factors.c, space_codec.c, space_pieces.c
 *   space_checkpoint.h  what a checkpoint holds of a space
 *
 *     local owner    get/put/add ----------------------------------> store
 *     remote owner   get/put/add --> message --> owner's service --> store
 */

/* Set *offset_out and *count_out to the range of a tensor that an owner holds; the count is 0 if it
 * holds nothing of it. */
void fast__space_range(const fast_space *space, int64_t owner, int64_t tensor, int64_t *offset_out,
                       int64_t *count_out);

/* Return true if this owner's updates are those that count: of several copies, the first's. */
bool fast__space_leads(const fast_space *space);

/* Return the number of elements whose bits are not all 0. */
int64_t fast__space_count_nonzero(const float *x, int64_t count);

/* Work on the first tensor in the memory of its owners, in the thread of the visitor. */
typedef struct fast_space_visitor {
    /* Prepare for a range, one visitor after the other; `owner` is the ctx of its function. NULL:
     * nothing to prepare. */
    void (*begin)(void *ctx, void *owner, const fast_space_update *update);
    /* Work on a piece of the tensor, at its values; nobody else uses them meanwhile. */
    void (*piece)(void *ctx, int64_t offset, int64_t count, float *values);
    /* Called after each piece, when others may use its values; or NULL. */
    void (*after)(void *ctx, int64_t offset, int64_t count);
    void *ctx;      /* first argument of the three */
    bool reads;     /* the visit counts as a get: later updates are stale relative to it */
    int64_t *clock; /* with reads: receives the clock that all writers had reached before, whose
                       updates the visitor finds; or NULL */
} fast_space_visitor;
/* Return true if visits are possible: all actors share memory, the time is real, the run is not
 * recorded, and no codec changes the tensor. All actors of a space get the same answer. */
bool fast__space_can_visit(const fast_space *space);
/* Visit the first tensor: one update of it, with values x of the caller's or NULL. It is atomic for
 * each piece. *version_out is the smallest version of the ranges that was read. FAST_EPEER,
 * FAST_ETIMEDOUT, FAST_ECANCELED. */
fast_err fast__space_visit(fast_space *space, const float *x, const fast_space_visitor *visitor,
                           int64_t *version_out, int64_t deadline);

/* Tell remote owners that an add to the first tensor follows: gets of it by other actors wait for
 * that add, or until this actor has gone. Adds of many bytes do this (fast_space_options.announce).
 * FAST_EPEER. */
fast_err fast__space_announce(fast_space *space);

/*
 * A get of the first tensor that arrives in slices, the first floats first, so that a forward pass
 * can start before all of it is there: start, wait for ranges, and end, which waits for the rest.
 * The space allows no other get in between. Slices are floats: FAST_EINVAL with codec_down.
 */
fast_err fast__space_get_start(fast_space *space, float *x, const fast_space_read *read,
                               int64_t deadline);
fast_err fast__space_get_need(fast_space *space, int64_t offset, int64_t count);
fast_err fast__space_get_end(fast_space *space, fast_space_read *read);

/* A range of a tensor. */
typedef struct fast_space_stretch {
    int64_t offset; /* its first float */
    int64_t count;  /* its floats */
} fast_space_stretch;
/* Have slices of later gets arrive in this order of ranges of the first tensor, which do not
 * overlap; floats that are in none of them do not arrive. No get is under way. FAST_EPEER,
 * FAST_ENOMEM. */
fast_err fast__space_set_order(fast_space *space, const fast_space_stretch *list, int64_t count);

/*
 * An add to the first tensor and a get of it under one acquisition of each range's lock. No other
 * actor's update comes between the two, so workers that contend for a lock contend once and are
 * out of phase from then on. With two acquisitions a worker that has added waits for the other's
 * add before it can read, both continue together, and contend again after every step. The values
 * are read while they are in the cache.
 */

/* Return true if all owners are local, time is real, and values are read without a codec. */
bool fast__space_is_local(const fast_space *space);
/* Add x and copy the values after it to w; they include x unless the owner's function rejected it.
 * *version_out is the smallest version over the ranges. */
fast_err fast__space_add_get(fast_space *space, const float *x, float *w, int64_t *version_out,
                             int64_t deadline);

/* Count as read here the version of a tensor that was read from `leader`, of which this space is a
 * replica with the same owners. */
void fast__space_follow(fast_space *space, const fast_space *leader, int64_t tensor);
/* Let the next updates count as made from this version of a tensor, until the next read, if it is
 * older than the one that was read: they hold gradients of another actor's older copy. */
void fast__space_read_as(fast_space *space, int64_t tensor, int64_t version);

/* Return the largest version over the ranges of a tensor that this actor last read. */
int64_t fast__space_read_newest(const fast_space *space, int64_t tensor);

/* Set *newest_out to the largest version over the ranges of the first tensor, which includes all of
 * this actor's updates. It reads no values, and does not count as a read. Fails as a get does. */
fast_err fast__space_peek(fast_space *space, int64_t *newest_out, int64_t deadline);

/* Return the number of updates and ticks that this actor has sent to an owner, and in *seen_out how
 * many of them the values hold that it last read of the first tensor: values that an eager owner
 * sent may lack the newest. Both are 0 for a local owner, whose values lack nothing. */
int64_t fast__space_sent(const fast_space *space, int64_t owner, int64_t *seen_out);

/* Return the residual of error feedback that this writer has for an owner's range; NULL if its
 * codec has none. */
const float *fast__space_residual(const fast_space *space, int64_t owner);
/* y += scale times the elements of the first tensor that this writer's codec holds back by its
 * selections. */
void fast__space_add_waiting(const fast_space *space, float scale, float *y);
/* Return true if a codec selects elements of whole updates of the first tensor. */
bool fast__space_selects(const fast_space *space);
/* Return true if the codec of adds holds elements back for a while, until they are due. */
bool fast__space_defers(const fast_space *space);
/* Let the next adds to the first tensor send all elements that have waited, or not. */
void fast__space_set_due(fast_space *space, bool due);
/* Return whether they are due, as it was set last. */
bool fast__space_due(const fast_space *space);
/* Return true if the codec of adds holds elements back now. */
bool fast__space_is_waiting(const fast_space *space);
/* With a codec of adds whose writers share scales: agree on those of x, which is added next, with
 * the group of all writers. A collective; otherwise nothing is done. */
fast_err fast__space_agree(fast_space *space, fast_group *group, const float *x);
/* Return true if all owners are remote and eager, and have sent values of the first tensor unasked
 * that satisfy the conditions: a get of them does not wait. */
bool fast__space_has_pushed(const fast_space *space, const fast_space_read *read);
/* Return true if remote owners have acknowledged all updates of this actor. */
bool fast__space_is_idle(const fast_space *space);
/* Return true if owners hold back elements of the first tensor that they send: codec_down has a
 * budget. Then a get brings all elements only where its conditions demand it. */
bool fast__space_limits(const fast_space *space);
/* Have a function called, in this actor's waits, when an owner has sent a part of its range:
 * `changed`, of that range, is not 0 where new values arrived, which hold the first `held` updates
 * and ticks of this actor. It must not wait. */
typedef void fast_space_arrival_fn(void *ctx, int64_t owner, int64_t held, const float *changed);
void fast__space_on_arrival(fast_space *space, fast_space_arrival_fn *arrival, void *ctx);
/* At an owner: return whether every writer has finished `clock` rounds. */
bool fast__space_reached(fast_space *space, int64_t clock);
/* Count in `figures`, which is lent, what the space's codecs do. */
void fast__space_figures(fast_space *space, fast_coded_figures *figures);

/* For tests: free the handle as if the actor had ended without a message. */
void fast__space_abandon(fast_space *space);
/* For tests: let the owner of a copy, which was just opened, start as after a crash. */
fast_err fast__space_start_anew(fast_space *space);
