/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport `threads`: an actor is a thread, or the caller's if it is alone; a message is a pointer
 * in its inbox (inbox.h): a send is one atomic operation, and so is taking any number of messages.
 * Where there are few actors, and a core for each, small messages take the fast lane of their pair
 * (lane.h).
 *
 * An idle actor polls its inbox for a while, if there is a core for every running actor; then it
 * sleeps, and the next sender wakes it. The time of polling adapts to how often it avoided a sleep.
 * With more actors than cores no actor polls: that would only keep other actors from computing.
 */
#include "base/binding.h"
#include "base/clock.h"
#include "base/memory.h"
#include "transport/inbox.h"
#include "transport/share.h"
#include "transport/threads/lane.h"
#include "transport/transport.h"

#include <stdalign.h>
#include <string.h>

enum {
    POLLS = 200,          /* polls of the inbox without a pause before an actor sleeps */
    SPIN_MAX = 1000,      /* polls with a pause: tens of microseconds, the cost of a wake-up */
    SPIN_MIN = 1,         /* polls with a pause after many long sleeps */
    SPIN_PAYS_NS = 50000, /* polling would have avoided a sleep that is shorter */
    NAPS = 32,            /* short sleeps in a row that suggest a shared core */
    NAP_NS = 200000,      /* a short sleep */
    LANE_ACTORS_MAX = 8,  /* larger worlds have no lanes: each actor polls a line for every other */
    ROUNDS = 32           /* rounds of a wait after which the clock is read: messages that do not
                             matter must not prolong it */
};

typedef struct threads_actor {
    fast_actor actor;   /* first: the part that all transports share */
    int64_t spin;       /* polls with a pause before it sleeps; used by its actor alone */
    int64_t naps;       /* short sleeps in a row; used by its actor alone */
    atomic_int core;    /* the core that it last ran on, read by other actors; -1: unknown */
    fast_lane *lanes;   /* [count] by sender; NULL: this world has no lanes */
    fast_msg *held;     /* taken from the inbox, oldest first, behind messages in a lane */
    fast_thread thread; /* that runs it */
    bool started;       /* the thread was started */
    alignas(FAST_ALIGN) fast_inbox inbox;   /* written by other threads, on its own cache line */
    alignas(FAST_ALIGN) atomic_bool asleep; /* a sender that uses a lane must wake it */
} threads_actor;

typedef struct threads_world {
    fast_world world;      /* first: the part that all transports share */
    threads_actor *actors; /* [count] */
    fast_lane *lanes;      /* [to][from]; NULL: no lanes */
    int64_t start;         /* the clock at the start of the run */
    int64_t cores;         /* cores that this process may use */
    int64_t core_first;    /* core of the first actor; the others start on the next ones */
    atomic_llong awake;    /* number of actors whose programs run */
    fast_mutex mutex;      /* guards the shares */
    fast_share *shares;    /* memory that the actors share */
    fast_binding *binding; /* of actors to cores or NUMA nodes; or NULL */
} threads_world;

static threads_world *world_of(const fast_actor *actor)
{
    return (threads_world *)actor->world;
}

/* Count and free a message that no actor receives. */
static void lose(fast_world *world, fast_msg *msg)
{
    /* The receiver of the news that an actor ended has ended itself: nothing is lost. */
    if (msg->tag != FAST_TAG_ENDED)
        atomic_fetch_add_explicit(&world->lost, 1, memory_order_relaxed);
    fast_msg_free(msg);
}

/* Count and free a list of messages. */
static void lose_all(fast_world *world, fast_msg *list)
{
    while (list) {
        fast_msg *next = fast__envelope(list)->next;
        lose(world, list);
        list = next;
    }
}

/* transport->send: through the lane of the pair if the message is small, else through the inbox. */
static void threads_send(fast_actor *actor, fast_msg *msg)
{
    FAST_ASSERT(msg->from == actor->id && msg->to >= 0 && msg->to < actor->world->count);
    threads_actor *to = &world_of(actor)->actors[msg->to];
    if (to->lanes && fast__lane_send(&to->lanes[msg->from], msg)) {
        if (atomic_load(&to->asleep))
            fast__inbox_wake(&to->inbox);
        fast_msg_free(msg);
        return;
    }
    if (!fast__inbox_push(&to->inbox, msg))
        lose(actor->world, msg);
}

/* Deliver the messages in a sender's lane, up to the first that went through the inbox. */
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

/* Deliver the messages of lanes and inbox, each pair's in order. */
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
        /* Earlier messages of the lane have arrived by now; without memory they stay there. */
        matters |= take_lane(c, msg->from);
        if (lane->next != (uint32_t)fast__envelope(msg)->stamp)
            break;
        lane->next++;
        c->held = fast__envelope(msg)->next;
        matters |= fast__deliver(&c->actor, msg);
    }
    return matters;
}

/* Deliver all messages that have arrived. True if the actor may wait for one. */
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

/* Return whether a message has arrived or the actor was woken. */
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

/* Poll the inbox for a short time, if every actor has a core. True if there is news. */
static bool spin(threads_actor *c)
{
    const threads_world *world = world_of(&c->actor);
    if (atomic_load_explicit(&world->awake, memory_order_relaxed) <= world->cores) {
        /* A pause takes as long as a message: start without. */
        for (int64_t i = 0; i < POLLS; i++)
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

/* Move to a free core after many short sleeps: two actors that could have a core each may share
 * one, where neither runs while the other polls. The cores of other actors are hints and may be
 * old. */
static void leave_shared_core(threads_actor *c, int64_t slept)
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
        const int core = atomic_load_explicit(&world->actors[i].core, memory_order_relaxed);
        if (core >= 0 && i != c->actor.id)
            taken[core] = true;
    }
    if (here < 0 || !taken[here])
        return;
    fast__cpu_avoid(taken);
    atomic_store_explicit(&c->core, fast__cpu_number(), memory_order_relaxed);
}

/* Sleep until there is news or the deadline, and adapt the time of polling: longer after a short
 * sleep, shorter after a long one. False if the deadline has passed. */
static bool sleep_until(threads_actor *c, int64_t deadline)
{
    fast_actor *actor = &c->actor;
    const int64_t begin = threads_now(actor);
    if (begin >= deadline)
        return false;
    /* A sender writes the slot of a lane and then reads `asleep`; here the order is opposite, so
     * one of the two sees the other. */
    atomic_store(&c->asleep, true);
    if (!has_news(c))
        fast__inbox_sleep(&c->inbox, deadline - begin);
    atomic_store(&c->asleep, false);
    const int64_t slept = threads_now(actor) - begin;
    leave_shared_core(c, slept);
    if (slept < SPIN_PAYS_NS)
        c->spin = SPIN_MAX;
    else if (c->spin > SPIN_MIN)
        c->spin /= 2;
    return true;
}

/* transport->wait: deliver, poll, and sleep if polling found nothing, until a message may matter.
 * */
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
        if (!sleep_until(c, deadline))
            return FAST_OK;
    }
}

static void threads_wake(fast_actor *actor, int64_t id)
{
    fast__inbox_wake(&world_of(actor)->actors[id].inbox);
}

static fast_err threads_share(fast_actor *actor, uint64_t key, size_t size, void *out)
{
    threads_world *world = world_of(actor);
    fast__mutex_lock(&world->mutex);
    const fast_err err = fast__share_find(&world->shares, key, size, out);
    fast__mutex_unlock(&world->mutex);
    return err;
}

/* transport->close. */
static void threads_close(fast_world *base)
{
    threads_world *world = (threads_world *)base;
    if (!world)
        return;
    for (int64_t i = 0; world->actors && i < base->count; i++)
        fast__actor_fini(&world->actors[i].actor);
    fast__share_free(&world->shares);
    fast__binding_free(world->binding);
    fast__mutex_fini(&world->mutex);
    fast__free(world->actors);
    fast__free(world->lanes);
    fast__world_fini(base);
    fast__free(world);
}

/* Make a lane for every pair; not under `check`, whose proofs do not fit into a slot. */
static fast_err make_lanes(threads_world *world)
{
    const int64_t count = world->world.count;
    if (count > world->cores || count > LANE_ACTORS_MAX || world->world.config.check)
        return FAST_OK;
    FAST_TRY(fast__alloc("lanes", count * count, sizeof *world->lanes, &world->lanes));
    for (int64_t i = 0; i < count * count; i++)
        fast__lane_init(&world->lanes[i]);
    for (int64_t to = 0; to < count; to++)
        world->actors[to].lanes = &world->lanes[to * count];
    return FAST_OK;
}

/* transport->open: actors and lanes, but no threads yet. */
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
    err = fast__alloc("actors", count, sizeof *world->actors, &world->actors);
    if (!err && config->bind != FAST_BIND_NONE)
        err = fast__binding_new((fast_bind_mode)config->bind, NULL, &world->binding);
    if (!err)
        err = make_lanes(world);
    for (int64_t i = 0; !err && i < count; i++) {
        world->actors[i].spin = SPIN_MAX;
        atomic_init(&world->actors[i].core, -1);
        err = fast__actor_init(&world->actors[i].actor, &world->world, i);
    }
    if (err) {
        threads_close(&world->world);
        return err;
    }
    *world_out = &world->world;
    return FAST_OK;
}

/* Run an actor in the calling thread, and drop the messages that arrive too late. */
static void run_actor(threads_actor *c)
{
    threads_world *world = world_of(&c->actor);
    fast__actor_main(&c->actor);
    lose_all(&world->world, fast__inbox_close(&c->inbox));
    lose_all(&world->world, c->held);
    c->held = NULL;
    atomic_fetch_sub(&world->awake, 1);
}

/* Bind the thread of an actor, by its number in its role: workers are placed as if they were
 * alone, and servers beside them. Where the system does not let it, the thread stays free. */
static void bind_actor(const threads_world *world, int64_t id)
{
    int64_t first = 0, role = 0;
    while (id >= first + world->world.roles[role].count)
        first += world->world.roles[role++].count;
    FAST_ASSERT(role < world->world.role_count);
    const int64_t count = world->world.roles[role].count;
    (void)fast__binding_apply(world->binding,
                              fast__binding_place(world->binding, id - first, count));
}

/* The thread of an actor, on a core of its own. */
static void *thread_main(void *ctx)
{
    threads_actor *c = ctx;
    const threads_world *world = world_of(&c->actor);
    fast__cpu_go(world->core_first, c->actor.id);
    if (world->binding)
        bind_actor(world, c->actor.id);
    atomic_store(&c->core, fast__cpu_number());
    run_actor(c);
    return NULL;
}

/* transport->run: one thread for each actor; an actor alone runs in the caller's. If one cannot be
 * started, the others are canceled. */
static fast_err threads_run(fast_world *base)
{
    threads_world *world = (threads_world *)base;
    fast_err err = FAST_OK;

    world->core_first = fast__cpu_here();
    world->start = fast__clock_ns();
    atomic_store(&world->awake, base->count);
    if (base->count == 1)
        run_actor(&world->actors[0]);
    for (int64_t i = 0; i < base->count && base->count > 1 && !err; i++) {
        threads_actor *c = &world->actors[i];
        err = fast__thread_start(&c->thread, thread_main, c);
        c->started = !err;
    }
    if (err) {
        atomic_store(&base->canceled, true);
        for (int64_t i = 0; i < base->count; i++)
            threads_wake(&world->actors[0].actor, i);
    }
    for (int64_t i = 0; i < base->count; i++)
        if (world->actors[i].started)
            fast__thread_join(&world->actors[i].thread);
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
