/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "fast/comm.h"

/*
 * Messages that arrived at an actor and were not received yet, found by sender and tag in constant
 * time, or in order of arrival. Used by its actor only (on `sim`, by the scheduler while the actor
 * sleeps). It also holds the actor's view of the membership.
 */
enum { FAST_BUCKETS = 16 };

/* Tags from FAST_TAG_MAX on. The top byte says which layer uses them. */
#define FAST_TAG_CONTROL ((uint64_t)1 << 56) /* of transports: see below */
#define FAST_TAG_GROUP   ((uint64_t)2 << 56) /* of collectives */
#define FAST_TAG_SPACE   ((uint64_t)3 << 56) /* of spaces */
#define FAST_TAG_CUT     ((uint64_t)4 << 56) /* of snapshots: run/checkpoint/cut.c */

/* Control messages are handled when they are delivered and never reach a program. */
#define FAST_TAG_ENDED \
    (FAST_TAG_CONTROL + 1) /* words: err, culprit; the sender's program returned */
#define FAST_TAG_DOWN   (FAST_TAG_CONTROL + 2) /* words[0]: the actor that is suspected */
#define FAST_TAG_UP     (FAST_TAG_CONTROL + 3) /* words[0]: the actor that is up again */
#define FAST_TAG_WHO    (FAST_TAG_CONTROL + 4) /* asks for the receiver's wait */
#define FAST_TAG_ANSWER (FAST_TAG_CONTROL + 5) /* answers FAST_TAG_WHO */
#define FAST_TAG_SILENT (FAST_TAG_CONTROL + 6) /* words[0]: an actor that let the sender time out */
#define FAST_TAG_STOOD  (FAST_TAG_CONTROL + 7) /* the sender stood still and is back, or will */

/* The state of another actor, as far as this one knows. */
typedef struct fast_peer {
    bool down;       /* the transport suspects it, or it has ended */
    bool silent;     /* an actor waited for it in vain; until its next message arrives */
    bool ended;      /* its program returned */
    fast_err err;    /* result of its program */
    int64_t culprit; /* the actor that it blamed; or -1 */
    int64_t heard;   /* time of the last membership event about it; -1: never */
    uint32_t life;   /* restarts that this actor learned of */
} fast_peer;

/* Messages of one hash, in order of arrival: of (from, tag), linked by `chain`, or of the tag,
 * linked by `tag_next` and `tag_back`. */
typedef struct fast_bucket {
    fast_msg *first; /* the oldest */
    fast_msg *last;  /* the newest, if the bucket is not empty */
} fast_bucket;

typedef struct fast_mailbox {
    fast_bucket few[2 * FAST_BUCKETS]; /* the tables while the mailbox is small */
    fast_bucket *table;                /* larger tables, of (from, tag) and of tags; NULL: `few` */
    uint64_t mask;                     /* number of buckets of a table minus one */
    fast_msg *first;                   /* the oldest message, linked by `next` and `back` */
    fast_msg *last;                    /* the newest message */
    uint64_t stamp;                    /* arrivals so far: a change means news for a wait */
    int64_t count;                     /* messages in the mailbox */
    uint32_t fence;                    /* messages of older generations are dropped; 0: none */
    struct fast_peers *peers;          /* membership, made at the first event; or NULL */
    int64_t down_count;                /* other actors that are down */
    int64_t silent_count;              /* other actors that are silent */
    int64_t news;                      /* changes so far, but for programs that came to their end */
} fast_mailbox;

/* Free the messages and the memory of a mailbox. */
void fast__mailbox_fini(fast_mailbox *mailbox);

/* Put an arrived message into the mailbox; handle control messages, drop old generations. Takes it.
 * Returns true if the actor or one of its tasks may wait for it: then the actor must be woken. */
bool fast__deliver(fast_actor *actor, fast_msg *msg);

/* Raise the fence: drop and count messages of older generations, those in the mailbox now, later
 * ones when they arrive. */
void fast__mailbox_fence(fast_actor *actor, uint32_t generation);

/* Return the state of another actor; lent until the next delivery. */
const fast_peer *fast__peer(const fast_actor *actor, int64_t id);
/* Return the state of the actor in a row of those that ever changed, and its number; NULL after the
 * last. Lent until the next delivery. */
const fast_peer *fast__peers_row(const fast_actor *actor, int64_t row, int64_t *id_out);
