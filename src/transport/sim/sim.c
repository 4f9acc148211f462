/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport `sim`: actors are coroutines in virtual time.
 *
 * The scheduler takes the earliest event and resumes the actor that it concerns, on the actor's own
 * stack, until that actor blocks:
 *
 *     fast_receive -> wait ---yield---> scheduler: next event ---resume---> another actor
 *
 * Virtual time passes only in waits and charges: between two calls of an actor the clock stands
 * still. Deadlines are met to the nanosecond; if there is no earlier event, the clock jumps to the
 * first deadline, so that no program hangs. A program that polls in a loop without waiting would
 * stop the clock: after POLLS_MAX polls in a row all other events of this instant go first, and
 * then the actor sleeps for POLL_NS, or for a small fraction of the time that it has polled.
 *
 * A crash unwinds the program at once: its calls return FAST_ECANCELED without leaving the thread,
 * and its messages are dropped. A restart runs the program again on the same stack.
 */
#include "transport/sim/sim.h"
#include "base/memory.h"

#include <stdio.h>

enum {
    POLLS_MAX = 64, /* polls in a row that cost no virtual time */
    POLL_NS = 1000  /* virtual time of a longer series, at least */
};

/* Mix a number into a hash: a multiplication and a shift, since every event pays for it. */
static uint64_t mix(uint64_t hash, uint64_t x)
{
    hash = (hash ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

void fast__sim_trace(fast_sim *sim, uint64_t kind, int64_t who, int64_t whom, uint64_t tag,
                     uint64_t size)
{
    uint64_t hash = sim->base.trace_hash;
    hash = mix(hash, (uint64_t)sim->now);
    hash = mix(hash, kind << 56 ^ (uint64_t)who << 28 ^ (uint64_t)whom);
    hash = mix(hash, tag);
    sim->base.trace_hash = mix(hash, size);
    sim->base.events++;
}

void fast__sim_fail(fast_sim *sim, fast_err err)
{
    FAST_ASSERT(err != FAST_OK);
    if (!sim->err) {
        sim->err = err;
        snprintf(sim->detail, sizeof sim->detail, "%s", fast_error_detail());
    }
    atomic_store(&sim->base.canceled, true);
}

/* The program of a fiber. */
static void actor_main(void *ctx)
{
    fast_sim_actor *actor = ctx;
    fast__actor_main(&actor->base);
}

void fast__sim_resume_at(fast_sim *sim, fast_sim_actor *actor, int64_t time, fast_sim_kind kind)
{
    actor->resume = sim->queue.order << 3 | kind;
    fast__sim_push(sim, time, kind, actor);
}

/* Run an actor until it blocks or ends. */
static void run_fiber(fast_sim *sim, fast_sim_actor *actor)
{
    FAST_ASSERT(!sim->running);
    actor->state = FAST_SIM_RUNNING;
    sim->running = actor;
    fast__fail_buffer(actor->base.detail);
    fast__fiber_resume(&actor->fiber);
    fast__fail_buffer(NULL);
    sim->running = NULL;
    if (!actor->fiber.alive) {
        actor->state = FAST_SIM_OVER;
        sim->alive--;
        fast__sim_trace(sim, FAST_SIM_START, actor->base.id, 1, 0, 0);
    }
}

void fast__sim_unwind(fast_sim *sim, fast_sim_actor *actor)
{
    FAST_ASSERT(actor->base.stopped);
    run_fiber(sim, actor);
    FAST_ASSERT(actor->state == FAST_SIM_OVER);
}

void fast__sim_resume(fast_sim *sim, fast_sim_actor *actor)
{
    if (actor->node->paused_until > sim->now) {
        actor->state = FAST_SIM_BUSY;
        actor->paused_ns = actor->node->paused_ns;
        fast__sim_resume_at(sim, actor, actor->node->paused_until, FAST_SIM_RESUME);
        return;
    }
    run_fiber(sim, actor);
}

fast_err fast__sim_block(fast_sim_actor *actor, fast_sim_state state)
{
    fast_sim *sim = (fast_sim *)actor->base.world;

    FAST_ASSERT(sim->running == actor);
    if (!actor->base.stopped) {
        actor->state = state;
        actor->polls = 0;
        fast__fiber_yield(&actor->fiber);
    }
    return actor->base.stopped ? fast__fail(FAST_ECANCELED, "the actor was stopped") : FAST_OK;
}

/* Resume a busy actor, later if its node was paused meanwhile. */
static void on_resume(fast_sim *sim, fast_sim_actor *actor)
{
    const int64_t paused = actor->node->paused_ns - actor->paused_ns;

    actor->paused_ns = actor->node->paused_ns;
    if (paused > 0) {
        fast__sim_resume_at(sim, actor, sim->now + paused, FAST_SIM_RESUME);
        return;
    }
    fast__sim_trace(sim, FAST_SIM_RESUME, actor->base.id, 0, 0, 0);
    fast__sim_resume(sim, actor);
}

/* Start the program of an actor. */
static void on_start(fast_sim *sim, fast_sim_actor *actor)
{
    fast__sim_trace(sim, FAST_SIM_START, actor->base.id, 0, (uint64_t)actor->base.life, 0);
    fast__fiber_begin(&actor->fiber, &sim->stacks, actor->base.id, actor_main, actor);
    fast__sim_resume(sim, actor);
}

/* Move the clock to an event and handle it. */
static void handle(fast_sim *sim, const fast_sim_event *event)
{
    fast_sim_actor *actor = event->what;

    sim->now = event->time;
    switch ((fast_sim_kind)(event->order & 7)) {
    case FAST_SIM_ARRIVE:
        fast__sim_arrive(sim, event->what);
        break;
    case FAST_SIM_HEAD:
        fast__sim_head(sim, event->what);
        break;
    case FAST_SIM_RESUME:
        if (actor->resume == event->order)
            on_resume(sim, actor);
        break;
    case FAST_SIM_START:
        if (actor->resume == event->order)
            on_start(sim, actor);
        break;
    case FAST_SIM_CALL:
    case FAST_SIM_STARTER:
        sim->pending -= (event->order & 7) == FAST_SIM_STARTER;
        fast__sim_trace(sim, FAST_SIM_CALL, 0, 0, 0, 0);
        ((fast_sim_call *)event->what)->run(sim, event->what);
        break;
    case FAST_SIM_TELL:
        fast__sim_tell_now(sim, event->what);
        break;
    }
}

/* Stop all actors: the run was canceled, or the simulation failed. */
static void stop_all(fast_sim *sim)
{
    for (int64_t i = 0; i < sim->base.count; i++)
        fast__sim_crash(sim, i);
    sim->pending = 0;
}

/* Handle the next event, or a deadline that is before all events. False if the run has neither. */
static bool advance(fast_sim *sim)
{
    const int64_t next = fast__sim_next(sim);
    fast_sim_actor *late;

    /* Works run when no other actor can request one at this instant. */
    if (sim->works.first && next > sim->now) {
        late = fast__sim_timer_first(sim);
        if (!late || late->deadline > sim->now) {
            fast__sim_run_works(sim);
            return true;
        }
    }
    /* The first timer is a lower bound of all deadlines: usually no deadline passes. */
    if (next > sim->queue.timers[0]->timer) {
        late = fast__sim_timer_first(sim);
        if (late && late->deadline < next) {
            sim->now = late->deadline > sim->now ? late->deadline : sim->now;
            fast__sim_trace(sim, FAST_SIM_RESUME, late->base.id, 1, 0, 0);
            fast__sim_resume(sim, late);
            return true;
        }
    }
    if (next == INT64_MAX)
        return false;
    const fast_sim_event event = fast__sim_pop(sim);
    handle(sim, &event);
    return true;
}

/* transport->run: start all actors and handle events until none is alive and none will restart. If
 * actors wait without any event or deadline, the run fails instead of hanging. */
static fast_err sim_run(fast_world *world)
{
    fast_sim *sim = (fast_sim *)world;
    FAST_ASSERT(!sim->running);

    for (int64_t i = 0; i < world->count; i++)
        fast__sim_resume_at(sim, &sim->actors[i], sim->actors[i].start_ns, FAST_SIM_START);
    fast__pool_enter(world->pool);
    while (sim->alive > 0 || sim->pending > 0) {
        if (atomic_load_explicit(&world->canceled, memory_order_relaxed))
            stop_all(sim);
        else if (!advance(sim))
            break;
    }
    if (sim->alive > 0 && !sim->err) {
        fast__sim_fail(sim, fast__fail(FAST_ETIMEDOUT, "%lld simulated actors wait without an end",
                                       (long long)sim->alive));
        stop_all(sim);
    }
    fast__sim_drop_events(sim);
    fast__pool_leave(world->pool);
    return sim->err ? fast__fail(sim->err, "%s", sim->detail) : FAST_OK;
}

/* transport->wait: block until a message, a wake-up or the deadline. A deadline in the past is a
 * poll, which returns at once but for every POLLS_MAX-th in a row. */
static fast_err sim_wait(fast_actor *base, int64_t deadline)
{
    fast_sim_actor *actor = (fast_sim_actor *)base;
    fast_sim *sim = (fast_sim *)base->world;
    const int64_t shift = actor->node->clock_ns;
    int64_t polls = 0;

    if (actor->base.stopped)
        return fast__fail(FAST_ECANCELED, "the actor was stopped");
    if (actor->woken) {
        actor->woken = false;
        return FAST_OK;
    }
    if (deadline <= sim->now + shift) {
        if (actor->polls == 0)
            actor->polled_at = sim->now;
        if (++actor->polls % POLLS_MAX != 0)
            return FAST_OK;
        polls = actor->polls;
        /* Other events of this instant go first; without any, time passes. */
        const int64_t polled = (sim->now - actor->polled_at) / POLLS_MAX;
        deadline = sim->now + shift;
        if (fast__sim_next(sim) != sim->now)
            deadline += polled > POLL_NS ? polled : POLL_NS;
    }
    fast__sim_timer_set(sim, actor,
                        shift < 0 && deadline > INT64_MAX + shift ? INT64_MAX : deadline - shift);
    const fast_err err = fast__sim_block(actor, FAST_SIM_WAITING);
    actor->woken = false;
    if (sim->now == actor->deadline)
        actor->polls = polls; /* no message arrived: it still polls */
    return err;
}

/* transport->wake: resume a waiting actor of the same node at this instant. */
static void sim_wake(fast_actor *actor, int64_t id)
{
    fast_sim *sim = (fast_sim *)actor->world;
    FAST_ASSERT(id >= 0 && id < sim->base.count);
    fast_sim_actor *other = &sim->actors[id];

    FAST_ASSERT(other->node == ((fast_sim_actor *)actor)->node);
    if (actor->stopped || other->state == FAST_SIM_OVER || other->woken)
        return;
    other->woken = true;
    /* The waker continues; the other actor is resumed at this instant, after it. */
    if (other->state == FAST_SIM_WAITING) {
        other->state = FAST_SIM_BUSY;
        other->paused_ns = other->node->paused_ns;
        fast__sim_resume_at(sim, other, sim->now, FAST_SIM_RESUME);
    }
}

/* transport->now: virtual time, shifted by clock jumps of the node. */
static int64_t sim_now(fast_actor *actor)
{
    return ((fast_sim *)actor->world)->now + ((fast_sim_actor *)actor)->node->clock_ns;
}

/* transport->steady: virtual time. */
static int64_t sim_steady(fast_actor *actor)
{
    return ((fast_sim *)actor->world)->now;
}

/* transport->share: actors of one node share memory. */
static fast_err sim_share(fast_actor *actor, uint64_t key, size_t size, void *out)
{
    return fast__share_find(&((fast_sim_actor *)actor)->node->shares, key, size, out);
}

/* transport->stream: jitter and loss of its messages, jitter of its node's speed. */
static fast_rng *sim_stream(fast_actor *actor, int i)
{
    fast_sim_actor *self = (fast_sim_actor *)actor;

    return i == 0 ? &self->rng : i == 1 ? &self->node->rng : NULL;
}

const fast_transport fast__transport_sim = {
    .name = "sim",
    .summary = "simulated cluster in virtual time: any speed, link and fault, repeatable",
    .virtual_clock = true,
    .serial = true,
    .open = fast__sim_open,
    .close = fast__sim_close,
    .run = sim_run,
    .send = fast__sim_send,
    .wait = sim_wait,
    .wake = sim_wake,
    .on_way = fast__sim_on_way,
    .now = sim_now,
    .steady = sim_steady,
    .charge = fast__sim_charge,
    .compute = fast__sim_compute,
    .stream = sim_stream,
    .share = sim_share,
};
