/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "fast/actor.h"

/*
 * What has arrived at an actor and was not received yet, found by sender and tag in constant time,
 * or in order of arrival. Touched by its actor only (on `sim`, by the scheduler while the actor
 * sleeps). Membership lives here too: what the actor has heard about others.
 */
enum { FAST_BUCKETS = 16 };

/* Tags from FAST_TAG_MAX on. The top byte says whose they are. */
#define FAST_TAG_CONTROL ((uint64_t)1 << 56) /* of transports: below */
#define FAST_TAG_GROUP   ((uint64_t)2 << 56) /* of collectives */
#define FAST_TAG_SPACE   ((uint64_t)3 << 56) /* of spaces */

/* Control messages are acted on when they are delivered and never reach a program. */
#define FAST_TAG_ENDED \
    (FAST_TAG_CONTROL + 1) /* words: err, culprit; the sender's program is over */
#define FAST_TAG_DOWN   (FAST_TAG_CONTROL + 2) /* words[0]: who is suspected */
#define FAST_TAG_UP     (FAST_TAG_CONTROL + 3) /* words[0]: who is back */
#define FAST_TAG_WHO    (FAST_TAG_CONTROL + 4) /* whom do you wait for? words: see blame.c */
#define FAST_TAG_ANSWER (FAST_TAG_CONTROL + 5) /* its answer */

/* What is known of another actor. */
typedef struct fast_peer {
    bool down;       /* suspected, or ended */
    bool ended;      /* its program is over */
    fast_err err;    /* how */
    int64_t culprit; /* whom it blamed; or -1 */
    int64_t heard;   /* when there was last news of it: down, up, ended; -1: never */
    uint32_t life;   /* restarts heard of */
    uint32_t unused; /* padding */
} fast_peer;

/* Messages of one hash of (from, tag), in order of arrival, linked by `chain`. */
typedef struct fast_bucket {
    fast_msg *first; /* the oldest */
    fast_msg *last;  /* the newest, if there is one */
} fast_bucket;

typedef struct fast_mailbox {
    fast_bucket few[FAST_BUCKETS]; /* the table while there are few messages */
    fast_bucket *table;            /* a larger one, or NULL: `few` */
    uint64_t mask;                 /* buckets of the table in use, less one */
    fast_msg *first;               /* the oldest of all, linked by `next` and `back` */
    fast_msg *last;                /* the newest of all */
    uint64_t stamp;                /* arrivals so far: whoever waits sees whether there are more */
    int64_t count;                 /* of messages in it */
    uint32_t fence;                /* messages of generations below are dropped; 0: none */
    struct fast_peers *peers;      /* what is known of others, made when first needed */
    int64_t down_count;            /* of others that are down */
} fast_mailbox;

/* Free what it holds. */
void fast__mailbox_fini(fast_mailbox *mailbox);

/* Put an arrived message where it is found: act on control messages, drop old generations. Takes
 * it. True if it may be what the actor waits for, or something posted is: then it must be woken. */
bool fast__deliver(fast_actor *actor, fast_msg *msg);

/* Raise the fence: what arrived of older generations is dropped and counted now, what still comes
 * when it comes. */
void fast__mailbox_fence(fast_actor *actor, uint32_t generation);

/* What the actor knows of another; lent until the next delivery. */
const fast_peer *fast__peer(const fast_actor *actor, int64_t id);
