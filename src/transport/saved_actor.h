/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/pack.h"
#include "transport/transport.h"

/*
 * The transport's side of an actor in a snapshot: its random streams and the messages that have
 * arrived and were not received. saved_actor.c has the records. Called by the actor itself while
 * nothing is in flight.
 */

/* Return the actor's time of the run, in ns: it stands still from when a snapshot is taken until
 * the workers continue, and continues in a resumed run. Times that are in a snapshot are of it. */
int64_t fast__actor_time(fast_actor *actor);
/* The actor continues after a snapshot, or from one that was loaded; `now` is of its clock. */
void fast__actor_continue(fast_actor *actor, int64_t now);

/* Add the streams, the time and the messages as records of these two kinds. */
void fast__actor_save(fast_actor *actor, int64_t streams, int64_t messages, fast_pack *pack);
/* Take over a stream, or the time. FAST_EFORMAT. */
fast_err fast__actor_load_stream(fast_actor *actor, const fast_pack_record *record);
/* Put a message into the mailbox again, behind those that are there. FAST_EFORMAT, FAST_ENOMEM. */
fast_err fast__actor_load_message(fast_actor *actor, const fast_pack_record *record);
