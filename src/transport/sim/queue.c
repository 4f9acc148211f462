/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events and timers: two 4-ary heaps. A 4-ary heap has half the levels of a binary one and its four
 * children lie side by side; an event is 24 bytes.
 *
 *     children of i: 4 i + 1 ... 4 i + 4        parent of i: (i - 1) / 4
 *
 * Events are ordered by (time, serial number). Most of them are messages, and most messages are
 * scheduled in the order in which they arrive, because a link delays all by about the same time.
 * Such a message is appended to a lane, a plain queue, one for arrivals and one for heads; a
 * message that is earlier than the lane's last goes to the heap. The earliest event is that of the
 * heap or of a lane.
 *
 * Timers have a heap of their own, one entry an actor, because a deadline is set at every wait and
 * hardly ever passes: `timer` is a lower bound of the actor's deadline. Setting a later deadline
 * changes nothing; when the bound reaches the top before the deadline, it sinks to its place. A
 * deadline costs nothing unless it is the earliest.
 */
#include "base/memory.h"
#include "transport/sim/sim.h"

/* Half of the range: no single cost is over 1e18, so that sums of times do not overflow. */
static const int64_t TIME_MAX = INT64_MAX / 2;

/* Return whether event a is before event b: serial numbers decide among equal times, so that a run
 * is deterministic. */
static bool before(const fast_sim_event *a, const fast_sim_event *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

/* Double the room of the heap or of a lane, whose ring then starts at 0. FAST_ENOMEM. */
static fast_err grow(fast_sim_event **events, int64_t *room, int64_t first, int64_t count)
{
    const int64_t more = *room ? 2 * *room : 256;
    fast_sim_event *grown = NULL;

    FAST_TRY(fast__alloc("simulated events", more, sizeof *grown, &grown));
    for (int64_t i = 0; i < count; i++)
        grown[i] = (*events)[(first + i) & (*room - 1)];
    fast__free(*events);
    *events = grown;
    *room = more;
    return FAST_OK;
}

/* Append an event to a lane. */
static fast_err lane_add(fast_sim_lane *lane, fast_sim_event event)
{
    if (lane->count == lane->room) {
        FAST_TRY(grow(&lane->events, &lane->room, lane->first, lane->count));
        lane->first = 0;
    }
    lane->events[(lane->first + lane->count++) & (lane->room - 1)] = event;
    return FAST_OK;
}

/* Insert an event into the heap. */
static fast_err heap_add(fast_sim *sim, fast_sim_event event)
{
    if (sim->queue.heap_count == sim->queue.heap_room)
        FAST_TRY(grow(&sim->queue.heap, &sim->queue.heap_room, 0, sim->queue.heap_count));
    fast_sim_event *events = sim->queue.heap;
    int64_t i = sim->queue.heap_count++;

    while (i > 0 && before(&event, &events[(i - 1) / 4])) {
        events[i] = events[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    events[i] = event;
    return FAST_OK;
}

bool fast__sim_push(fast_sim *sim, int64_t time, fast_sim_kind kind, void *what)
{
    FAST_ASSERT(time >= sim->now);
    const fast_sim_event event = { time, sim->queue.order++ << 3 | kind, what };
    fast_sim_lane *lane = (int)kind < FAST_SIM_LANES ? &sim->queue.lanes[kind] : NULL;

    if (lane && lane->count > 0 &&
        time < lane->events[(lane->first + lane->count - 1) & (lane->room - 1)].time)
        lane = NULL;
    fast_err err;
    if (time > TIME_MAX)
        err = fast__fail(FAST_EINVAL, "the simulated time passes 146 years");
    else
        err = lane ? lane_add(lane, event) : heap_add(sim, event);
    if (err)
        fast__sim_fail(sim, err);
    return !err;
}

/* Return the lane whose first event is the earliest; NULL: the heap has it. *event_out is that
 * event, or NULL if the queue is empty. */
static fast_sim_lane *earliest(const fast_sim *sim, const fast_sim_event **event_out)
{
    const fast_sim_event *least = sim->queue.heap_count ? &sim->queue.heap[0] : NULL;
    const fast_sim_lane *found = NULL;

    for (int i = 0; i < FAST_SIM_LANES; i++) {
        const fast_sim_lane *lane = &sim->queue.lanes[i];
        if (lane->count == 0 || (least && before(least, &lane->events[lane->first])))
            continue;
        least = &lane->events[lane->first];
        found = lane;
    }
    *event_out = least;
    return (fast_sim_lane *)found;
}

int64_t fast__sim_next(const fast_sim *sim)
{
    const fast_sim_event *event;

    earliest(sim, &event);
    return event ? event->time : INT64_MAX;
}

/* Remove the top of the heap: the last event sinks from there to its place. */
static void heap_drop(fast_sim *sim)
{
    fast_sim_event *events = sim->queue.heap;
    const int64_t count = --sim->queue.heap_count;
    const fast_sim_event last = events[count];
    int64_t i = 0;

    for (;;) {
        const int64_t first = 4 * i + 1;
        const int64_t end = first + 4 < count ? first + 4 : count;
        int64_t least = first;
        if (first >= count)
            break;
        for (int64_t child = first + 1; child < end; child++)
            if (before(&events[child], &events[least]))
                least = child;
        if (!before(&events[least], &last))
            break;
        events[i] = events[least];
        i = least;
    }
    events[i] = last;
}

fast_sim_event fast__sim_pop(fast_sim *sim)
{
    const fast_sim_event *event;
    fast_sim_lane *lane = earliest(sim, &event);

    FAST_ASSERT(event != NULL);
    const fast_sim_event taken = *event;
    if (lane) {
        lane->first = (lane->first + 1) & (lane->room - 1);
        lane->count--;
    } else {
        heap_drop(sim);
    }
    return taken;
}

void fast__sim_drop_events(fast_sim *sim)
{
    while (fast__sim_next(sim) < INT64_MAX) {
        const fast_sim_event event = fast__sim_pop(sim);
        const fast_sim_kind kind = (fast_sim_kind)(event.order & 7);
        if (kind == FAST_SIM_ARRIVE || kind == FAST_SIM_HEAD)
            fast_msg_free(event.what);
        if (kind == FAST_SIM_TELL)
            fast__free(event.what);
    }
}

void fast__sim_queue_close(fast_sim *sim)
{
    fast__sim_drop_events(sim);
    fast__free(sim->queue.heap);
    for (int i = 0; i < FAST_SIM_LANES; i++)
        fast__free(sim->queue.lanes[i].events);
    fast__free(sim->queue.timers);
}

/* Order timers by time, then by number of actor. */
static bool timer_before(const fast_sim_actor *a, const fast_sim_actor *b)
{
    return a->timer < b->timer || (a->timer == b->timer && a->base.id < b->base.id);
}

/* Store an actor at an index of the heap of timers. */
static void timer_put(fast_sim *sim, int64_t i, fast_sim_actor *actor)
{
    sim->queue.timers[i] = actor;
    actor->timer_slot = i;
}

/* Move an actor up to its place. */
static void timer_rise(fast_sim *sim, fast_sim_actor *actor)
{
    int64_t i = actor->timer_slot;

    while (i > 0 && timer_before(actor, sim->queue.timers[(i - 1) / 4])) {
        timer_put(sim, i, sim->queue.timers[(i - 1) / 4]);
        i = (i - 1) / 4;
    }
    timer_put(sim, i, actor);
}

/* Move an actor down to its place. */
static void timer_sink(fast_sim *sim, fast_sim_actor *actor)
{
    const int64_t count = sim->base.count;
    int64_t i = actor->timer_slot;

    for (;;) {
        const int64_t first = 4 * i + 1;
        const int64_t end = first + 4 < count ? first + 4 : count;
        int64_t least = first;
        if (first >= count)
            break;
        for (int64_t child = first + 1; child < end; child++)
            if (timer_before(sim->queue.timers[child], sim->queue.timers[least]))
                least = child;
        if (!timer_before(sim->queue.timers[least], actor))
            break;
        timer_put(sim, i, sim->queue.timers[least]);
        i = least;
    }
    timer_put(sim, i, actor);
}

void fast__sim_timer_set(fast_sim *sim, fast_sim_actor *actor, int64_t deadline)
{
    actor->deadline = deadline;
    if (deadline < actor->timer) {
        actor->timer = deadline;
        timer_rise(sim, actor);
    }
}

fast_sim_actor *fast__sim_timer_first(fast_sim *sim)
{
    for (;;) {
        fast_sim_actor *first = sim->queue.timers[0];
        const int64_t due = first->state == FAST_SIM_WAITING ? first->deadline : INT64_MAX;

        if (first->timer == INT64_MAX)
            return NULL;
        if (first->timer == due)
            return first;
        FAST_ASSERT(first->timer < due);
        first->timer = due;
        timer_sink(sim, first);
    }
}
