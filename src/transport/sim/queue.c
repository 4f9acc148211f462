/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events and timers: two 4-ary heaps. A 4-ary heap has half the levels of a binary one and its four
 * children lie side by side; an event is 24 bytes.
 *
 *     children of i: 4 i + 1 ... 4 i + 4        parent of i: (i - 1) / 4
 *
 * Events are ordered by (time, order of making). Timers are apart, one node an actor, because a
 * deadline is set at every wait and hardly ever passes: `timer` is a lower bound of the actor's
 * deadline. Setting a later deadline touches nothing; when the bound comes to the top and is not
 * the deadline yet, it sinks to its place. A deadline costs nothing unless it is the earliest.
 */
#include "base/memory.h"
#include "transport/sim/sim.h"

#include <string.h>

static bool before(const fast_sim_event *a, const fast_sim_event *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

/* Room for one more. */
static fast_err grow(fast_sim *sim)
{
    const int64_t room = sim->event_room ? 2 * sim->event_room : 256;
    fast_sim_event *events = NULL;

    FAST_TRY(fast__alloc("simulated events", room, sizeof *events, &events));
    if (sim->event_count)
        memcpy(events, sim->events, (size_t)sim->event_count * sizeof *events);
    fast__free(sim->events);
    sim->events = events;
    sim->event_room = room;
    return FAST_OK;
}

bool fast__sim_push(fast_sim *sim, int64_t time, fast_sim_kind kind, void *what)
{
    FAST_ASSERT(time >= sim->now);
    if (sim->event_count == sim->event_room) {
        const fast_err err = grow(sim);
        if (err) {
            fast__sim_fail(sim, err);
            return false;
        }
    }
    const fast_sim_event event = { time, sim->order++ << 3 | kind, what };
    fast_sim_event *events = sim->events;
    int64_t i = sim->event_count++;

    while (i > 0 && before(&event, &events[(i - 1) / 4])) {
        events[i] = events[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    events[i] = event;
    return true;
}

bool fast__sim_pop(fast_sim *sim, int64_t until, fast_sim_event *out)
{
    fast_sim_event *events = sim->events;

    if (sim->event_count == 0 || events[0].time > until)
        return false;
    *out = events[0];
    const int64_t count = --sim->event_count;
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
    return true;
}

/* Timers of equal times go by number of actor. */
static bool timer_before(const fast_sim_actor *a, const fast_sim_actor *b)
{
    return a->timer < b->timer || (a->timer == b->timer && a->base.id < b->base.id);
}

static void timer_put(fast_sim *sim, int64_t i, fast_sim_actor *actor)
{
    sim->timers[i] = actor;
    actor->timer_slot = i;
}

static void timer_rise(fast_sim *sim, fast_sim_actor *actor)
{
    int64_t i = actor->timer_slot;

    while (i > 0 && timer_before(actor, sim->timers[(i - 1) / 4])) {
        timer_put(sim, i, sim->timers[(i - 1) / 4]);
        i = (i - 1) / 4;
    }
    timer_put(sim, i, actor);
}

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
            if (timer_before(sim->timers[child], sim->timers[least]))
                least = child;
        if (!timer_before(sim->timers[least], actor))
            break;
        timer_put(sim, i, sim->timers[least]);
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
        fast_sim_actor *first = sim->timers[0];
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
