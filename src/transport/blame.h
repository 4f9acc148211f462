/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "fast/actor.h"

/*
 * Who waits for whom: what makes the detail of FAST_ETIMEDOUT. Some time before a wait's deadline
 * the actor asks whom it waits for what that one waits for (FAST_TAG_WHO), and follows the answers
 * (FAST_TAG_ANSWER) to the end of the chain.
 */
struct fast_wait;

/* What an actor has found out. A part of fast_actor, zeroed when it is made. */
typedef struct fast_blame {
    int64_t asked; /* the `since` of the wait that it asked about, plus 1; 0: none */
} fast_blame;

/* When to call fast__blame_ask() for this wait: a time, or INT64_MAX once it was or need not be. */
int64_t fast__blame_ask_at(const fast_actor *actor, const struct fast_wait *wait);
/* Ask whom the actor waits for. Never blocks. */
void fast__blame_ask(fast_actor *actor, const struct fast_wait *wait);
/* A question or an answer has arrived. Takes it. Called by fast__deliver(). */
void fast__blame_deliver(fast_actor *actor, fast_msg *msg);
/* The deadline passed: FAST_ETIMEDOUT with its detail; sets actor->culprit. */
fast_err fast__blame_timeout(fast_actor *actor, const struct fast_wait *wait);
