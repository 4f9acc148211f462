/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "space/space_form.h"
#include "space/space_store.h"

/* The service of an owner: its state, and the answers (space_answer.c) that its requests
 * (space_owner.c) lead to. Nothing in it blocks. */

/* One remote actor, as the service knows it. */
typedef struct fast_space_caller {
    int64_t sequence;       /* number of its last update or tick */
    int64_t version;        /* version that its last update made */
    int64_t tensor;         /* tensor of that update */
    int64_t pending;        /* its requests that are pending */
    bool greeted;           /* it opened the same space */
    bool announced;         /* its next update of tensor 0 was announced: other actors' gets wait */
    bool unacked;           /* it is to be sent an acknowledgement */
    int64_t staged;         /* floats of its next update that have arrived in pieces */
    float *stage;           /* those floats, in a copy of the range; NULL: none ever arrived */
    fast_space_order order; /* of sliced answers to it */
    bool reads;             /* it has read tensor 0: an eager owner sends it new values */
    int64_t held_version;   /* of tensor 0 that all elements have which it was sent */
    int64_t held_clock;     /* of the space that they have */
} fast_space_caller;

/* The copy of a range that is sent to readers. */
typedef struct fast_space_snapshot {
    fast_buffer *buffer; /* frozen; or NULL */
    size_t size;         /* bytes of it that are used */
    int64_t version;     /* of the range when it was copied */
    bool copied;         /* it was, here or in the run that this one continues */
} fast_space_snapshot;

/* Gets and watches whose conditions do not hold yet: fewest updates first, and of equally many the
 * actors after this owner's number, so that owners which answer all at once use all links
 * evenly. */
typedef struct fast_space_pending {
    fast_space_operation *list; /* [capacity] */
    int64_t count;              /* number of operations */
    int64_t capacity;           /* room for them */
} fast_space_pending;

/* Requests that have arrived, where the stalest is handled first. */
typedef struct fast_space_arrivals {
    fast_msg **list;  /* [capacity] */
    int64_t count;    /* number of messages */
    int64_t capacity; /* room for them */
} fast_space_arrivals;

typedef struct fast_space_service {
    fast_space_caller *callers;     /* [actors] */
    int64_t *unacked;               /* [actors]: those that are to be sent an acknowledgement */
    int64_t unacked_count;          /* number of them */
    fast_space_pending pending;     /* gets and watches */
    fast_space_snapshot *snapshots; /* [tensors] */
    fast_msg *deferred;             /* an update whose range is locked; or NULL */
    bool queued;                    /* its range's lock is queued for */
    int64_t queued_read;            /* tensor whose lock is queued for reading; or -1 */
    int64_t refused;                /* requests that were dropped */
    int64_t clock;                  /* clock of the space when pending requests were last tried */
    int64_t active;                 /* an actor that was in then */
    bool dirty;                     /* something changed since then */
    bool postponed;                 /* answers wait for the other requests of this instant */
    bool announces;                 /* some actor has ever announced an update */
    int64_t pushed;                 /* eager: the clock at which values were last sent unasked */
    fast_space_arrivals arrivals;   /* requests, stalest first */
} fast_space_service;

/* Return the owner's range of a tensor. */
static inline fast_space_range *fast__service_range(const fast_space *space, int64_t tensor)
{
    FAST_ASSERT(tensor >= 0 && tensor < space->map.tensor_count);
    return &fast__space_own_store(space)->ranges[tensor];
}

/* Send an answer without values. That the receiver has gone meanwhile is no error. */
fast_err fast__service_answer(fast_space *space, int64_t to, fast_space_kind kind, int64_t tensor,
                              int64_t a, int64_t b, int64_t c);
/* Set *out to a snapshot of the newest version of a range; where differences are read, to the one
 * that `reader` lacks, which must then be sent to it (-1: only the lock is wanted). *out is NULL
 * while another actor has the range locked. */
fast_err fast__service_snapshot(fast_space *space, int64_t tensor, int64_t reader,
                                fast_space_snapshot **out);
/* Return another actor, still in, whose announced update has not arrived; or -1. */
int64_t fast__service_announcer(fast_space *space, int64_t reader);
/* Drop pending requests of an actor: all, or those that a newer one replaces. */
void fast__service_drop(fast_space_service *s, int64_t from, const fast_space_operation *newer);
/* Make room for one more element of `size` bytes in a list. */
fast_err fast__service_reserve(const char *what, size_t size, int64_t count, int64_t *capacity,
                               void **list);
/* Answer a get or a watcher now, or add it to the pending ones. */
fast_err fast__service_answer_or_wait(fast_space *space, fast_space_operation *op);
/* Try all pending requests, in their order, if anything changed: an update, a clock, which actors
 * are in. Changes by local actors are not announced. */
fast_err fast__service_try_all(fast_space *space);
/* Note that an actor's updates up to this one are applied: it is told after all requests that have
 * arrived were handled. */
void fast__service_note_applied(fast_space_service *s, const fast_space_operation *op);
/* Acknowledge the updates and ticks that were applied. */
fast_err fast__service_send_acks(fast_space *space);
/* Eager: when the slowest writer has ticked, send the new values to every actor that has read
 * before and has no get pending. */
fast_err fast__service_push(fast_space *space);
