/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/pack.h"
#include "transport/transport.h"

/*
 * The transport's side of an actor in a snapshot: its random streams and the messages that have
 * arrived and were not received. saved_actor.c has the records. Called by the actor itself while
 * nothing is in flight.
 */

/* Add the streams and messages as records of these two kinds. */
void fast__actor_save(fast_actor *actor, int64_t streams, int64_t messages, fast_pack *pack);
/* Take over a stream. FAST_EFORMAT. */
fast_err fast__actor_load_stream(fast_actor *actor, const fast_pack_record *record);
/* Put a message into the mailbox again, behind those that are there. FAST_EFORMAT, FAST_ENOMEM. */
fast_err fast__actor_load_message(fast_actor *actor, const fast_pack_record *record);
