/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows: gradients on their way to the next proxy or server of the tree, each with a priority and a
 * rate (MLNet: Mai et al. 2015).
 *
 *   rate      a sender waits before a gradient until its earlier ones, at `rate` bytes a second,
 *             have passed: bytes that were sent, so that a codec makes it wait less
 *   priority  one flow at a time enters a receiver. A sender asks for its slot and gets it when no
 *             other one sends and none of those that wait comes before it
 *
 *     sender                      receiver
 *       | ASK priority ------------> |  the flow waits in the receiver's list
 *       | <------------------ GRANT  |  of those that wait, the smallest priority, then number
 *       | gradient ----------------> |
 *       | DONE --------------------> |  messages of one sender arrive in order: it is there
 *
 * Where links are shared, all flows at once end together, at the time at which the last one would
 * end anyway; one after the other, they end earlier on average, and the most urgent one first. A
 * sender that crashes in its slot is passed over. Cost: three short messages a gradient, and the
 * time of two.
 */
#include "base/err.h"
#include "base/memory.h"
#include "space/space.h"
#include "strategy/ps_tree.h"
#include "trainer/remember.h"
#include "transport/mailbox.h"
#include "transport/saved_actor.h"

enum { TAG_FLOW = 0x666c6f77, TAG_GRANT }; /* requests, answers */
enum { FLOW_ASK = 1, FLOW_DONE };          /* words[0] of requests */

/* A flow that waits for its slot. */
typedef struct waiting_flow {
    int64_t from;     /* its sender */
    int64_t priority; /* smaller is first */
    int64_t number;   /* of the request: answers repeat it */
} waiting_flow;

struct ps_flows {
    fast_task task;     /* posted to the receiver: requests are handled in its waits */
    fast_actor *actor;  /* the receiver */
    waiting_flow *list; /* [room] flows that wait */
    int64_t room;       /* senders */
    int64_t count;      /* flows that wait */
    int64_t active;     /* sender whose slot it is; -1: nobody sends */
};

/* Send a word, with a priority and a number. */
static fast_err tell(fast_actor *actor, int64_t to, uint64_t tag, int64_t word, int64_t priority,
                     int64_t number)
{
    fast_msg *msg = NULL;

    FAST_ASSERT(to >= 0);
    FAST_TRY(fast_msg_new(actor, tag, &msg));
    msg->words[0] = word;
    msg->words[1] = priority;
    msg->words[2] = number;
    return fast_send(actor, to, &msg);
}

/* Give the slot to the first of the flows that wait and whose senders are up. */
static fast_err grant(ps_flows *f)
{
    if (f->active >= 0 && fast_member_is_down(f->actor, f->active))
        f->active = -1;
    while (f->active < 0 && f->count > 0) {
        int64_t best = 0;

        for (int64_t i = 1; i < f->count; i++)
            if (f->list[i].priority < f->list[best].priority ||
                (f->list[i].priority == f->list[best].priority &&
                 f->list[i].from < f->list[best].from))
                best = i;
        const waiting_flow flow = f->list[best];
        f->list[best] = f->list[--f->count];
        const fast_err err = tell(f->actor, flow.from, TAG_GRANT, 0, 0, flow.number);
        if (err && err != FAST_EPEER)
            return err;
        f->active = err ? -1 : flow.from;
    }
    FAST_ASSERT(f->count >= 0);
    return FAST_OK;
}

/* A request: a flow waits, or has ended. */
static void handle(ps_flows *f, const fast_msg *msg)
{
    int64_t i = 0;

    FAST_ASSERT(f->room > 0);
    if (msg->words[0] == FLOW_DONE && f->active == msg->from)
        f->active = -1;
    while (i < f->count && f->list[i].from != msg->from)
        i++;
    if (msg->words[0] != FLOW_ASK || i == f->room)
        return;
    if (f->active == msg->from) /* it restarted in its slot */
        f->active = -1;
    f->list[i] = (waiting_flow){ msg->from, msg->words[1], msg->words[2] };
    f->count += i == f->count;
}

/* The task: handle requests that have arrived, and look whether a sender crashed in its slot. */
static fast_err advance(fast_actor *actor, fast_task *task, bool *done)
{
    ps_flows *f = (ps_flows *)task;
    fast_msg *msg;

    FAST_ASSERT(f->actor == actor);
    (void)done;
    while ((msg = fast__take(actor, FAST_ANY, TAG_FLOW))) {
        handle(f, msg);
        fast_msg_free(msg);
    }
    return grant(f);
}

fast_err fast__ps_flows_open(fast_actor *actor, int64_t senders, ps_flows **out)
{
    ps_flows *f = NULL;
    fast_err err;

    FAST_ASSERT(senders > 0);
    FAST_TRY(fast__alloc("flows", 1, sizeof *f, &f));
    *f = (ps_flows){ .actor = actor, .room = senders, .active = -1 };
    err = fast__alloc("flows that wait", senders, sizeof *f->list, &f->list);
    if (err) {
        fast__free(f);
        return err;
    }
    f->task = (fast_task){ .advance = advance, .background = true, .watches = true };
    fast__post(actor, &f->task);
    *out = f;
    return FAST_OK;
}

void fast__ps_flows_close(ps_flows *f)
{
    if (!f)
        return;
    FAST_ASSERT(f->count <= f->room);
    fast__unpost(f->actor, &f->task);
    fast__free(f->list);
    fast__free(f);
}

/* Wait for the slot. Without a receiver there is no order, and the gradient's own send fails. */
static fast_err wait_for_slot(ps_flow *flow, int64_t priority)
{
    fast_actor *actor = flow->actor;
    const int64_t deadline = fast__deadline(actor, FAST_SOON);
    fast_err err = tell(actor, flow->to, TAG_FLOW, FLOW_ASK, priority, ++flow->number);
    bool granted = false;

    FAST_ASSERT(flow->to >= 0);
    while (!err && !granted) {
        fast_msg *msg = NULL;

        err = fast_receive(actor, flow->to, TAG_GRANT, deadline, &msg);
        granted = !err && msg->words[2] == flow->number;
        fast_msg_free(msg);
    }
    return err == FAST_EPEER ? FAST_OK : err;
}

fast_err fast__ps_flow_begin(ps_flow *flow, int64_t priority)
{
    FAST_ASSERT(flow->actor != NULL);
    const int64_t left = flow->free_at - fast__actor_time(flow->actor);

    if (flow->rate > 0 && left > 0)
        FAST_TRY(fast_sleep_until(flow->actor, fast_now(flow->actor) + left));
    flow->began_at = fast__actor_time(flow->actor);
    flow->sent = fast__counted(&flow->actor->counters.bytes_sent);
    return flow->ordered ? wait_for_slot(flow, priority) : FAST_OK;
}

fast_err fast__ps_flow_end(ps_flow *flow)
{
    const int64_t bytes = fast__counted(&flow->actor->counters.bytes_sent) - flow->sent;
    fast_err err = FAST_OK;

    FAST_ASSERT(bytes >= 0);
    if (flow->rate > 0)
        flow->free_at = flow->began_at + (int64_t)(1e9 * (double)bytes / flow->rate);
    if (flow->ordered)
        err = tell(flow->actor, flow->to, TAG_FLOW, FLOW_DONE, 0, flow->number);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Between two steps no flow waits or has a slot, and receivers have nothing to remember. */
fast_err fast__ps_flow_init(fast_trainer *t, const ps_config *c, int64_t to, ps_flow *flow)
{
    enum {
        FREE_AT = 26
    }; /* its number in snapshots, which programs with flows do not use otherwise */

    FAST_ASSERT(to >= 0);
    *flow = (ps_flow){ .to = to, .ordered = c->flows != PS_FLOWS_SHARED, .rate = c->rate };
    if (flow->ordered || flow->rate > 0)
        flow->actor = t->actor;
    if (!(flow->rate > 0))
        return FAST_OK;
    FAST_TRY(fast__trainer_remember(t, FREE_AT, &flow->free_at, sizeof flow->free_at));
    return fast__trainer_check_saved(t, flow->free_at >= 0 && flow->free_at <= INT64_MAX / 4);
}

void fast__ps_flow_note(fast_trainer *t, const ps_config *c, const fast_space *space)
{
    FAST_ASSERT(space != NULL);
    if (c->rate > 0 && fast__space_is_local(space))
        fast_trainer_note(t, "ps:rate is of messages, and the workers and servers of this run "
                             "share memory: it has no effect");
}

fast_err fast__ps_flows_init(fast_trainer *t, const ps_config *c, int64_t senders, ps_flows **out)
{
    FAST_ASSERT(senders > 0);
    return c->flows == PS_FLOWS_SHARED ? FAST_OK : fast__ps_flows_open(t->actor, senders, out);
}

int64_t fast__ps_priority(const fast_trainer *t, const ps_config *c)
{
    FAST_ASSERT(t->step >= 0);
    return c->flows == PS_FLOWS_BEHIND ? t->step : 0;
}
