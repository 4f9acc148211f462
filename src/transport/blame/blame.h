/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "fast/actor.h"

/*
 * Who waits for whom: what makes the detail of FAST_ETIMEDOUT. In the last quarter of its wait an
 * actor asks the one it waits for what that one waits for (FAST_TAG_WHO), and follows the answers
 * (FAST_TAG_ANSWER) to the end of the chain; blame.c says how.
 */
struct fast_wait;

enum {
    FAST_BLAME_SHOWN = 4,   /* hops at each end of a chain that are remembered, for the text */
    FAST_BLAME_PENDING = 8, /* questions that wait until the actor waits; older ones are dropped */
    FAST_BLAME_SURVEY = 256 /* actors at most that one asks who waits for anyone */
};

/* How a chain of waits ends. */
typedef enum fast_blame_end {
    FAST_BLAME_OPEN,     /* it is not known yet */
    FAST_BLAME_SILENT,   /* the last one does not answer */
    FAST_BLAME_DOWN,     /* it is suspected to be down */
    FAST_BLAME_ENDED,    /* its program is over */
    FAST_BLAME_SENT,     /* it has sent what is waited for, which has not arrived */
    FAST_BLAME_CIRCLE,   /* it waits for one that is in the chain already */
    FAST_BLAME_ANYONE,   /* it waits for anyone */
    FAST_BLAME_EVERYONE, /* everyone waits for it */
    FAST_BLAME_LONG      /* it is too long to be followed */
} fast_blame_end;

/* A walk along the chain. */
typedef struct fast_blame_walk {
    int64_t first[FAST_BLAME_SHOWN]; /* the first hops */
    int64_t last[FAST_BLAME_SHOWN];  /* the last ones: hop i is last[i % FAST_BLAME_SHOWN] */
    int64_t count;                   /* of hops; the last one is asked, or is the end */
    int64_t anchor;                  /* a hop that closes a circle if it comes again */
    int64_t anchor_at;               /* its number, a power of two */
    fast_blame_end end;              /* how it ends */
    int64_t culprit;                 /* who is to blame; or -1 */
} fast_blame_walk;

/* What an actor has found out. A part of fast_actor, zeroed when it is made. */
typedef struct fast_blame {
    int64_t deadline;     /* of the waits that it is about: those of one operation share it */
    int64_t begin;        /* when the first of them began */
    int64_t since;        /* when the one began whose chain is walked */
    bool asked_once;      /* in this operation */
    int64_t next;         /* when to act next */
    int64_t asked;        /* when the open question was asked */
    int64_t question;     /* number of the newest question */
    int64_t origin;       /* the hop before the one that is asked */
    int64_t origin_ns;    /* how long that one has waited */
    fast_blame_walk walk; /* under way */
    fast_blame_walk best; /* what most walks of this wait came to */
    int64_t weight;       /* nanoseconds that `best` is ahead of all others together */
    int64_t judged;       /* when a walk last ended */
    int64_t survey;       /* number of the question to everyone; 0: none */
    int64_t survey_since; /* the wait that it was for, plus 1 */
    int64_t survey_at;    /* when it was asked */
    int64_t survey_other; /* one that waits for somebody else; or -1 */
    int64_t survey_sent;  /* one that has sent something that has not arrived; or -1 */
    int64_t survey_last;  /* whom the survey before it pointed at; or -1 */
    uint64_t survey_answers[FAST_BLAME_SURVEY / 64]; /* a bit for each who answered */
    struct {
        int64_t from;              /* who asks */
        int64_t question;          /* its number there */
        int64_t origin;            /* who waits for this actor */
    } pending[FAST_BLAME_PENDING]; /* questions to be answered once it waits */
    int64_t pending_count;         /* of all so far; the newest are kept */
    int64_t pending_done;          /* of those answered or dropped */
} fast_blame;

/* Just before the actor blocks: answer questions that came meanwhile. Returns when to call
 * fast__blame_ask() for this wait: a time, or INT64_MAX. */
int64_t fast__blame_ask_at(fast_actor *actor, const struct fast_wait *wait);
/* Ask whom the actor waits for. Never blocks. */
void fast__blame_ask(fast_actor *actor, const struct fast_wait *wait);
/* A question or an answer has arrived. Takes it. Called by fast__deliver(). */
void fast__blame_deliver(fast_actor *actor, fast_msg *msg);
/* The deadline passed: FAST_ETIMEDOUT with its detail; sets actor->culprit. */
fast_err fast__blame_timeout(fast_actor *actor, const struct fast_wait *wait);
