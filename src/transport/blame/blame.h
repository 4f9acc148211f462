/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "fast/comm.h"

/*
 * The chain of waits, which makes the detail of FAST_ETIMEDOUT. In the last quarter of its wait an
 * actor asks the actor that it waits for what that one waits for (FAST_TAG_WHO), and follows the
 * answers (FAST_TAG_ANSWER) to the end of the chain; blame.c has the algorithm.
 */
struct fast_wait;

enum {
    FAST_BLAME_SHOWN = 4,   /* hops at each end of a chain that are stored, for the text */
    FAST_BLAME_PENDING = 8, /* questions that are stored until the actor waits; older are dropped */
    FAST_BLAME_SURVEY = 256 /* actors that an actor which waits for any asks, at most */
};

/* How a chain of waits ends. */
typedef enum fast_blame_end {
    FAST_BLAME_OPEN,     /* not known yet */
    FAST_BLAME_SILENT,   /* the last actor does not answer */
    FAST_BLAME_DOWN,     /* the last actor is suspected to be down */
    FAST_BLAME_ENDED,    /* the program of the last actor returned */
    FAST_BLAME_SENT,     /* the last actor has sent the message, which has not arrived */
    FAST_BLAME_CIRCLE,   /* the last actor waits for one that is in the chain already */
    FAST_BLAME_ANYONE,   /* the last actor waits for any actor */
    FAST_BLAME_EVERYONE, /* all actors wait for the last one */
    FAST_BLAME_LONG      /* the chain is too long to be followed */
} fast_blame_end;

/* A walk along the chain. */
typedef struct fast_blame_walk {
    int64_t first[FAST_BLAME_SHOWN]; /* the first hops */
    int64_t last[FAST_BLAME_SHOWN];  /* the last hops: hop i is last[i % FAST_BLAME_SHOWN] */
    int64_t count;                   /* hops so far; the last one was asked, or is the end */
    int64_t anchor;                  /* a hop that closes a circle if it is reached again */
    int64_t anchor_at;               /* index of the anchor, a power of two */
    fast_blame_end end;              /* how the walk ends */
    int64_t culprit;                 /* the actor to blame; or -1 */
} fast_blame_walk;

/* A survey: an actor that waits for any actor asks all of them. */
typedef struct fast_blame_survey {
    int64_t question;                         /* number of the question; 0: no survey was made */
    int64_t since;                            /* start of the wait that it is about, plus 1 */
    int64_t asked_at;                         /* time of the question */
    int64_t other;                            /* an actor that waits for a third one; or -1 */
    int64_t sender;                           /* an actor whose message has not arrived; or -1 */
    int64_t suspect;                          /* result of the survey before; or -1 */
    uint64_t answers[FAST_BLAME_SURVEY / 64]; /* a bit for each actor that answered */
    uint64_t alive[FAST_BLAME_SURVEY / 64];   /* of all surveys of the wait together */
} fast_blame_survey;

/* Questions that arrived while the actor did not wait: a ring of the newest. */
typedef struct fast_blame_pending {
    struct {
        int64_t from;           /* the asking actor */
        int64_t question;       /* number of the question there */
        int64_t origin;         /* the actor that waits for this one */
    } ring[FAST_BLAME_PENDING]; /* question i is ring[i % FAST_BLAME_PENDING] */
    int64_t count;              /* questions so far */
    int64_t answered;           /* questions that were answered or dropped */
} fast_blame_pending;

/* An actor's knowledge of the chain of its waits: a part of fast_actor, zeroed at first. */
typedef struct fast_blame {
    int64_t deadline;           /* identifies an operation: all of its waits share the deadline */
    int64_t begin;              /* start of the operation's first wait */
    int64_t since;              /* start of the wait whose chain is walked */
    bool asking;                /* a question was asked in this operation */
    int64_t next;               /* time of the next action */
    int64_t asked;              /* time of the open question */
    int64_t question;           /* number of the newest question */
    int64_t origin;             /* the hop before the one that was asked */
    int64_t origin_ns;          /* time for which that hop has waited */
    fast_blame_walk walk;       /* the current walk */
    fast_blame_walk best;       /* the result of most walks of this operation */
    int64_t weight;             /* nanoseconds by which `best` leads over all other results */
    int64_t ended_at;           /* time at which a walk last ended */
    fast_blame_survey survey;   /* of a wait for any actor */
    fast_blame_pending pending; /* questions of other actors */
} fast_blame;

/* Answer pending questions; called just before the actor blocks. Returns the time at which to call
 * fast__blame_ask() for this wait, or INT64_MAX. */
int64_t fast__blame_ask_at(fast_actor *actor, const struct fast_wait *wait);
/* Ask the actor that this one waits for. Never blocks. */
void fast__blame_ask(fast_actor *actor, const struct fast_wait *wait);
/* Handle a question or an answer. Takes it. Called by fast__deliver(). */
void fast__blame_deliver(fast_actor *actor, fast_msg *msg);
/* Ask an actor whether it is there: any answer will do. */
void fast__blame_probe(fast_actor *actor, int64_t id);
/* Forget the questions of the current operation: the actor stood still meanwhile. */
void fast__blame_forget(fast_actor *actor);
/* Return FAST_ETIMEDOUT with the chain of waits as its detail; sets actor->culprit. An
 * actor at its end that does not answer is suspected from then on if `suspects`. */
fast_err fast__blame_timeout(fast_actor *actor, const struct fast_wait *wait, bool suspects);
/* Return FAST_EPEER for a wait for an actor that let another wait time out; sets actor->culprit. */
fast_err fast__blame_silent(fast_actor *actor, const struct fast_wait *wait);
