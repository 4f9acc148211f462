/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"

/* A worker's own updates that the values it reads lack, and elements that a codec defers:
 * ps_unseen.c. Part of ps.h. */
typedef struct ps_writer ps_writer; /* ps.h */

/* The last writes of a writer, as changes of the weights: values that an eager server sent, or that
 * a budget of the servers limits, may lack them. */
typedef struct ps_recent {
    int64_t room;     /* writes that are stored; 0: none is */
    int64_t count;    /* writes so far */
    int64_t shards;   /* owners of the model */
    float **x;        /* [room] changes of the weights */
    int64_t *sent;    /* [room][shards] number of the write among the requests to its owner */
    int64_t *dropped; /* [shards] that number of the newest write that is no longer stored */
    int64_t *begun;   /* [shards] requests to its owner before the newest write */
    bool open;        /* a write is being sent */
    bool mixed;       /* parts of it arrived meanwhile: the model must be read whole */
} ps_recent;

/* The bound for elements that a codec defers. */
typedef struct ps_hold {
    int64_t rounds;   /* that they may wait; 0: there is no such bound */
    int64_t complete; /* rounds whose updates have been sent whole */
} ps_hold;

/* Allocate for the writes that values within the slack may lack, after the copies were opened.
 * FAST_ENOMEM: the caller frees. FAST_EINVAL: a budget of the servers and copies of the model. */
fast_err fast__ps_recent_init(ps_writer *wr);
/* Free the writes. All 0 is allowed. */
void fast__ps_recent_fini(ps_recent *r);
/* Store the write of x: before it is sent, and after. */
void fast__ps_recent_begin(ps_writer *wr, const float *x);
void fast__ps_recent_end(ps_writer *wr);
/* With a codec that defers elements and a slack: let the next write send elements that have waited,
 * if they are due; after it, note the rounds that have been sent whole. */
void fast__ps_hold_begin(ps_writer *wr);
void fast__ps_hold_end(ps_writer *wr);
/* Read the model under a condition, and send elements that wait while the read waits and the link
 * is idle. */
fast_err fast__ps_get_or_send(ps_writer *wr, fast_space_read *read);
/* True if values that were read lack a write that is no longer stored. */
bool fast__ps_recent_lost(const ps_writer *wr);
/* Add to t->w, which was read, this writer's updates that the values lack. */
void fast__ps_add_own(ps_writer *wr);
/* Return the change of the weights by a write of 1, as a step of plain SGD. */
float fast__ps_own_scale(const ps_writer *wr);
/* With cache_age, after a step: add this step's update to t->w if the next step uses it again. */
fast_err fast__ps_cache_own(ps_writer *wr);
