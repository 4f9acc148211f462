/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The detail of a wait that timed out: who waited for whom, how long, at which step, for what.
 *
 *     worker 1 waited 2.0 s for worker 3: step 12, weights
 */
#include "transport/blame.h"

#include "transport/transport.h"

int64_t fast__blame_ask_at(const fast_actor *actor, const fast_wait *wait)
{
    (void)actor;
    (void)wait;
    return INT64_MAX;
}

void fast__blame_ask(fast_actor *actor, const fast_wait *wait)
{
    actor->blame.asked = wait->since + 1;
}

void fast__blame_deliver(fast_actor *actor, fast_msg *msg)
{
    FAST_ASSERT(actor->id == msg->to);
    fast_msg_free(msg);
}

fast_err fast__blame_timeout(fast_actor *actor, const fast_wait *wait)
{
    char me[64], whom[64];
    const double seconds = (double)(fast_now(actor) - wait->since) * 1e-9;

    actor->culprit = wait->whom;
    fast__actor_name(actor->world, actor->id, me, sizeof me);
    fast__actor_name(actor->world, wait->whom, whom, sizeof whom);
    return fast__fail(FAST_ETIMEDOUT, "%s waited %.1f s for %s: step %lld, %s", me, seconds, whom,
                      (long long)actor->step, actor->what[0] ? actor->what : wait->doing);
}
