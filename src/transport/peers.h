/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/mailbox.h"

/* What an actor has heard about others: rows for those only of whom there was news. */
typedef struct fast_peers fast_peers;

void fast__peers_free(fast_peers *peers); /* NULL is allowed */

/* A control message about membership has arrived. Takes it. Called by fast__deliver(). */
void fast__peers_deliver(fast_actor *actor, fast_msg *msg);

/* FAST_EPEER with its detail if `id` is down, or, for FAST_ANY, if everyone else is; sets
 * actor->culprit. Else FAST_OK. */
fast_err fast__peers_check(fast_actor *actor, int64_t id);

/* On serial transports: let those be told who wait for an actor that has ended without knowing it
 * (see fast__actor_main). */
void fast__peers_ask(fast_actor *actor, int64_t id);

/* Tell another actor that this one's program is over. */
void fast__peers_tell(fast_actor *actor, int64_t id);

/* Who is to blame that `id` is not there for this actor: it, or whom it blamed; or, if it finished
 * its program, the actor itself, which is late. */
int64_t fast__peers_culprit(const fast_actor *actor, int64_t id);
