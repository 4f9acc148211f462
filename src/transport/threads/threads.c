/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport `threads`: an actor is a thread, a message is a pointer in its inbox (inbox.h): a send
 * is one atomic operation, and so is taking any number of messages. Where there are few actors, and
 * a core for each, small messages take the fast lane of their pair (lane.h).
 *
 * An actor with nothing to do watches its inbox for a while, if there is a core for every actor
 * that runs; then it sleeps, and the next sender wakes it. How long it watches follows how often
 * that paid. With more actors than cores nobody watches: that would only keep others from
 * computing.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "transport/inbox.h"
#include "transport/share.h"
#include "transport/threads/lane.h"
#include "transport/transport.h"

#include <stdalign.h>
#include <string.h>

/* Looks at the inbox before an actor sleeps: at most some tens of microseconds, which is what a
 * sleep and a wake-up cost; and the length of a sleep that watching would have saved. */
enum { NAPS = 32, NAP_NS = 200000 }; /* short sleeps in a row that are suspicious */
enum { LOOKS = 200, SPIN_MAX = 1000, SPIN_MIN = 1, SPIN_PAYS_NS = 50000 };

/* Actors of a world with lanes: each looks at a line for every other. And the rounds of a wait
 * after which the clock is asked, lest messages that do not matter prolong it. */
enum { LANE_ACTORS_MAX = 8, ROUNDS = 32 };

typedef struct threads_actor {
    fast_actor actor; /* first: a fast_actor of this transport is a cell */
    int64_t spin;     /* pauses before it sleeps; its actor's alone, like all above */
    int64_t naps;     /* short sleeps in a row */
    atomic_int core;  /* where it was last seen; -1: nowhere. For the others to read */
    fast_lane *lanes; /* [count] to it, by sender; NULL: there are none */
    fast_msg *held;   /* of the inbox, oldest first: those before it are still in a lane */
    fast_thread thread;
    bool started;                           /* the thread */
    alignas(FAST_ALIGN) fast_inbox inbox;   /* what others touch, on a cache line of its own */
    alignas(FAST_ALIGN) atomic_bool asleep; /* likewise: who sends by a lane has to wake it */
} threads_actor;

typedef struct threads_world {
    fast_world world;     /* first */
    threads_actor *cells; /* of all actors */
    fast_lane *lanes;     /* [to][from], or NULL */
    int64_t start;        /* the clock when the run began */
    int64_t cores;        /* that this process may use */
    int64_t core_first;   /* where the first actor starts; the others on the next ones, around */
    atomic_llong awake;   /* actors whose programs run */
    fast_mutex mutex;     /* guards the shares */
    fast_share *shares;   /* of all actors */
} threads_world;

static threads_world *world_of(const fast_actor *actor)
{
    return (threads_world *)actor->world;
}

/* A message that nobody receives. */
static void lose(fast_world *world, fast_msg *msg)
{
    /* Nobody is left to be told of an end. */
    if (msg->tag != FAST_TAG_ENDED)
        atomic_fetch_add_explicit(&world->lost, 1, memory_order_relaxed);
    fast_msg_free(msg);
}

static void lose_all(fast_world *world, fast_msg *list)
{
    while (list) {
        fast_msg *next = fast__envelope(list)->next;
        lose(world, list);
        list = next;
    }
}

static void threads_send(fast_actor *actor, fast_msg *msg)
{
    threads_actor *to = &world_of(actor)->cells[msg->to];
    if (to->lanes && fast__lane_send(&to->lanes[msg->from], msg)) {
        if (atomic_load(&to->asleep))
            fast__inbox_wake(&to->inbox);
        fast_msg_free(msg);
        return;
    }
    if (!fast__inbox_push(&to->inbox, msg))
        lose(actor->world, msg);
}

/* Deliver what is in a sender's lane, up to what went through the inbox. */
static bool take_lane(threads_actor *c, int64_t from)
{
    bool matters = false;
    fast_msg *msg;
    while ((msg = fast__lane_take(&c->lanes[from], c->actor.world->pool)) != NULL) {
        msg->from = from;
        msg->to = c->actor.id;
        matters |= fast__deliver(&c->actor, msg);
    }
    return matters;
}

/* Deliver what came by lanes and through the inbox, each pair's in order. */
static bool take_lanes(threads_actor *c)
{
    bool matters = false;
    for (int64_t from = 0; from < c->actor.world->count; from++)
        matters |= take_lane(c, from);
    fast_msg **end = &c->held;
    while (*end)
        end = &fast__envelope(*end)->next;
    *end = fast__inbox_take(&c->inbox);
    while (c->held) {
        fast_msg *msg = c->held;
        fast_lane *lane = &c->lanes[msg->from];
        if (msg->part_count > 0)
            __builtin_prefetch(msg->parts[0].buffer, 1);
        /* What was sent before it is there by now, unless there is no memory to take it. */
        matters |= take_lane(c, msg->from);
        if (lane->next != (uint32_t)fast__envelope(msg)->stamp)
            break;
        lane->next++;
        c->held = fast__envelope(msg)->next;
        matters |= fast__deliver(&c->actor, msg);
    }
    return matters;
}

/* Deliver what has come. True if the actor should look at it. */
static bool take_all(threads_actor *c)
{
    if (c->lanes)
        return take_lanes(c);
    bool matters = false;
    fast_msg *oldest = fast__inbox_take(&c->inbox);
    while (oldest) {
        fast_msg *next = fast__envelope(oldest)->next;
        if (oldest->part_count > 0)
            __builtin_prefetch(oldest->parts[0].buffer, 1);
        matters |= fast__deliver(&c->actor, oldest);
        oldest = next;
    }
    return matters;
}

static bool has_news(threads_actor *c)
{
    if (fast__inbox_has_news(&c->inbox))
        return true;
    for (int64_t from = 0; c->lanes && from < c->actor.world->count; from++)
        if (fast__lane_has_news(&c->lanes[from]))
            return true;
    return false;
}

static int64_t threads_now(fast_actor *actor)
{
    return fast__clock_ns() - world_of(actor)->start;
}

/* Watch the inbox for a short time, if there is a core to spare. True if something came. */
static bool spin(threads_actor *c)
{
    const threads_world *world = world_of(&c->actor);
    if (atomic_load_explicit(&world->awake, memory_order_relaxed) <= world->cores) {
        /* A pause is as long as the way of a message: at first, do without. */
        for (int64_t i = 0; i < LOOKS; i++)
            if (has_news(c))
                return true;
        for (int64_t i = 0; i < c->spin; i++) {
            if (has_news(c))
                return true;
            fast__cpu_pause();
        }
    }
    return has_news(c);
}

/* Actors that have a core each and still sleep shortly over and over may have been put on one core,
 * where neither sees the other while it looks: then one goes to a core that nobody was last seen
 * on. Where others were seen is a hint and may be old. */
static void part_ways(threads_actor *c, int64_t slept)
{
    const threads_world *world = world_of(&c->actor);
    bool taken[FAST_CPU_MAX] = { false };

    c->naps = slept < NAP_NS ? c->naps + 1 : 0;
    if (c->naps < NAPS || world->world.count > world->cores)
        return;
    c->naps = 0;
    const int here = fast__cpu_number();
    atomic_store_explicit(&c->core, here, memory_order_relaxed);
    for (int64_t i = 0; i < world->world.count; i++) {
        const int core = atomic_load_explicit(&world->cells[i].core, memory_order_relaxed);
        if (core >= 0 && i != c->actor.id)
            taken[core] = true;
    }
    if (here < 0 || !taken[here])
        return;
    fast__cpu_avoid(taken);
    atomic_store_explicit(&c->core, fast__cpu_number(), memory_order_relaxed);
}

/* Sleep until there is news or the deadline, and learn from it: after a short sleep it pays to
 * watch longer the next time, after a long one it does not. False if the deadline has passed. */
static bool doze(threads_actor *c, int64_t deadline)
{
    fast_actor *actor = &c->actor;
    const int64_t begin = threads_now(actor);
    if (begin >= deadline)
        return false;
    /* Who sends by a lane writes the slot and then looks at `asleep`: here it is the other way
     * round, so one of the two sees the other. */
    atomic_store(&c->asleep, true);
    if (!has_news(c))
        fast__inbox_sleep(&c->inbox, deadline - begin);
    atomic_store(&c->asleep, false);
    const int64_t slept = threads_now(actor) - begin;
    part_ways(c, slept);
    if (slept < SPIN_PAYS_NS)
        c->spin = SPIN_MAX;
    else if (c->spin > SPIN_MIN)
        c->spin /= 2;
    return true;
}

static fast_err threads_wait(fast_actor *actor, int64_t deadline)
{
    threads_actor *c = (threads_actor *)actor;
    actor->waiting.brief = true;
    for (int64_t round = 1;; round++) {
        if (atomic_load_explicit(&actor->world->canceled, memory_order_relaxed))
            return fast__fail(FAST_ECANCELED, "the run was canceled");
        const bool woken = fast__inbox_woken(&c->inbox);
        if (take_all(c) || woken || deadline < 0)
            return FAST_OK;
        if (round % ROUNDS == 0 && threads_now(actor) >= deadline)
            return FAST_OK;
        if (spin(c))
            continue;
        actor->waiting.brief = false;
        if (!doze(c, deadline))
            return FAST_OK;
    }
}

static void threads_wake(fast_actor *actor, int64_t id)
{
    fast__inbox_wake(&world_of(actor)->cells[id].inbox);
}

static fast_err threads_share(fast_actor *actor, uint64_t key, size_t size, void *out)
{
    threads_world *world = world_of(actor);
    fast__mutex_lock(&world->mutex);
    const fast_err err = fast__share_find(&world->shares, key, size, out);
    fast__mutex_unlock(&world->mutex);
    return err;
}

static void threads_close(fast_world *base)
{
    threads_world *world = (threads_world *)base;
    if (!world)
        return;
    for (int64_t i = 0; world->cells && i < base->count; i++)
        fast__actor_fini(&world->cells[i].actor);
    fast__share_free(&world->shares);
    fast__mutex_fini(&world->mutex);
    fast__free(world->cells);
    fast__free(world->lanes);
    fast__world_fini(base);
    fast__free(world);
}

/* Lanes for every pair. Not under `check`, whose proofs do not fit in. */
static fast_err make_lanes(threads_world *world)
{
    const int64_t count = world->world.count;
    if (count > world->cores || count > LANE_ACTORS_MAX || world->world.config.check)
        return FAST_OK;
    FAST_TRY(fast__alloc("lanes", count * count, sizeof *world->lanes, &world->lanes));
    for (int64_t i = 0; i < count * count; i++)
        fast__lane_init(&world->lanes[i]);
    for (int64_t to = 0; to < count; to++)
        world->cells[to].lanes = &world->lanes[to * count];
    return FAST_OK;
}

static fast_err threads_open(const fast_actors_config *config, const fast_role *roles,
                             int64_t role_count, fast_world **world_out)
{
    threads_world *world;
    FAST_TRY(fast__alloc("a world", 1, sizeof *world, &world));
    fast_err err =
        fast__world_init(&world->world, &fast__transport_threads, config, roles, role_count);
    if (err) {
        fast__free(world);
        return err;
    }
    fast__mutex_init(&world->mutex);
    world->cores = fast__cpu_count();
    const int64_t count = world->world.count;
    world->world.spins = count <= world->cores ? SPIN_MAX : 0;
    err = fast__alloc("actors", count, sizeof *world->cells, &world->cells);
    if (!err)
        err = make_lanes(world);
    for (int64_t i = 0; !err && i < count; i++) {
        world->cells[i].spin = SPIN_MAX;
        atomic_init(&world->cells[i].core, -1);
        err = fast__actor_init(&world->cells[i].actor, &world->world, i);
    }
    if (err) {
        threads_close(&world->world);
        return err;
    }
    *world_out = &world->world;
    return FAST_OK;
}

static void *cell_main(void *ctx)
{
    threads_actor *c = ctx;
    threads_world *world = world_of(&c->actor);
    fast__cpu_go(world->core_first, c->actor.id);
    atomic_store(&c->core, fast__cpu_number());
    fast__actor_main(&c->actor);
    lose_all(&world->world, fast__inbox_close(&c->inbox));
    lose_all(&world->world, c->held);
    c->held = NULL;
    atomic_fetch_sub(&world->awake, 1);
    return NULL;
}

static fast_err threads_run(fast_world *base)
{
    threads_world *world = (threads_world *)base;
    fast_err err = FAST_OK;

    world->core_first = fast__cpu_here();
    world->start = fast__clock_ns();
    atomic_store(&world->awake, base->count);
    for (int64_t i = 0; i < base->count && !err; i++) {
        threads_actor *c = &world->cells[i];
        err = fast__thread_start(&c->thread, cell_main, c);
        c->started = !err;
    }
    if (err) {
        atomic_store(&base->canceled, true);
        for (int64_t i = 0; i < base->count; i++)
            threads_wake(&world->cells[0].actor, i);
    }
    for (int64_t i = 0; i < base->count; i++)
        if (world->cells[i].started)
            fast__thread_join(&world->cells[i].thread);
    for (int64_t i = 0; world->lanes && i < base->count * base->count; i++)
        atomic_fetch_add(&base->lost, fast__lane_left(&world->lanes[i], FAST_TAG_ENDED));
    return err;
}

const fast_transport fast__transport_threads = {
    .name = "threads",
    .summary = "an actor is a thread of this process; messages are pointers",
    .open = threads_open,
    .close = threads_close,
    .run = threads_run,
    .send = threads_send,
    .wait = threads_wait,
    .wake = threads_wake,
    .now = threads_now,
    .share = threads_share,
};
