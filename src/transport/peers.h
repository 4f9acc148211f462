/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/mailbox.h"

/* The membership as one actor sees it: a row for each actor about which an event arrived. */
typedef struct fast_peers fast_peers;

void fast__peers_free(fast_peers *peers); /* NULL is allowed */

/* Handle a control message about membership. Takes it. Called by fast__deliver(). */
void fast__peers_deliver(fast_actor *actor, fast_msg *msg);

/* A wait for `id` timed out, and `id` did not answer: from now on waits for it fail at once, until
 * it sends anything. Asks it whether it is there, and tells all other actors. */
void fast__peers_suspect(fast_actor *actor, int64_t id);
/* A message of a silent actor arrived: it is silent no more. Called by fast__deliver(). */
void fast__peers_heard(fast_actor *actor, int64_t from);
/* Tell the actors of other processes, on a serial transport those that exchanged messages with this
 * one, that it stood still: their waits are extended. */
void fast__peers_tell_stood(fast_actor *actor);
/* Tell actors of other processes that this one is busy from now on, with an evaluation: their waits
 * do not end until fast__peers_tell_stood(), or for an hour. */
void fast__peers_tell_busy(fast_actor *actor);

/* Timeouts after which an actor that is silent is taken for lost by those that serve it, and a rank
 * by those that leave. A peer that computes or evaluates for long is silent too. */
enum { FAST_HUNG_TIMEOUTS = 10 };

/* Return FAST_EPEER with its detail and set actor->culprit if `id` is down or silent, or, for
 * FAST_ANY, if all other actors are down or silent for FAST_HUNG_TIMEOUTS. Else FAST_OK. */
fast_err fast__peers_check(fast_actor *actor, int64_t id);

/* On serial transports: have `id` tell this actor, which waits for it, that it has ended: now if it
 * has ended and has not done so, else at its end. */
void fast__peers_ask(fast_actor *actor, int64_t id);

/* From now on, actors that end tell this one if it waits for any, or has a task that watches. Does
 * nothing on transports that are not serial. */
void fast__peers_watch(fast_actor *actor);

/* Tell the other actors that this one's program returned. On a serial transport: those with which
 * it exchanged messages, those that wait for it or for any, and tasks that watch; of a failure also
 * every actor with a task. Others learn it when they ask. So it costs as many messages as the actor
 * has peers, and a look at one bit for each actor. */
void fast__peers_tell_end(fast_actor *actor);

/* Return the actor to blame for the absence of `id`: the one that `id` blamed, or `id`; or this
 * actor itself, which is late, if `id` finished its program. */
int64_t fast__peers_culprit(const fast_actor *actor, int64_t id);
