/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transport `threads`: an actor is a thread, a message is a pointer.
 *
 * The inbox is one word: a stack of messages that any sender pushes on with compare-and-swap, and
 * that its actor takes whole with one exchange and turns around, so each sender's messages are in
 * order. An actor with nothing to do spins for a while if there is a core for every actor that
 * runs; then it writes PARKED into the empty inbox and sleeps on a futex. The sender that finds
 * PARKED there wakes it; all others make no system call.
 *
 *     inbox: NULL (empty) | PARKED (empty, its actor sleeps) | newest -> ... -> oldest
 *
 * A send is one atomic operation, and so is taking any number of messages.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "transport/transport.h"

#include <stdalign.h>
#include <string.h>

/* Pauses of a spin at most: some tens of microseconds, about what a sleep and a wake-up cost. */
enum { SPIN_MAX = 1000, SPIN_MIN = 10 };

typedef struct cell {
    fast_actor actor; /* first: a fast_actor of this transport is a cell */
    int64_t spin;     /* pauses before it sleeps; its actor's alone, like all above */
    fast_thread thread;
    bool started;                              /* the thread */
    alignas(FAST_ALIGN) _Atomic(void *) inbox; /* pushed on by anyone, taken by its actor */
    atomic_uint bell;                          /* the futex: changed by whoever wakes the actor */
    atomic_bool woken;                         /* wake() was called since the last wait() */
    atomic_bool gone;                          /* its program is over */
} cell;

/* Memory that actors share under a key. */
typedef struct share {
    uint64_t key;
    size_t size;
    void *memory;
    struct share *next;
} share;

typedef struct threads_world {
    fast_world world;   /* first */
    cell *cells;        /* of all actors */
    int64_t start;      /* the clock when the run began */
    int64_t cores;      /* that this process may use */
    atomic_llong awake; /* actors whose programs run */
    fast_mutex mutex;   /* guards the shares */
    share *shares;
} threads_world;

/* What an empty inbox holds while its actor sleeps: any address that is no message's. */
static char parked_mark;
#define PARKED ((void *)&parked_mark)

static threads_world *world_of(const fast_actor *actor)
{
    return (threads_world *)actor->world;
}

/* Let a sleeping actor go on; its inbox no longer says PARKED. */
static void ring(cell *c)
{
    atomic_fetch_add_explicit(&c->bell, 1, memory_order_release);
    fast__futex_wake(&c->bell);
}

static void threads_send(fast_actor *actor, fast_msg *msg)
{
    threads_world *world = world_of(actor);
    cell *to = &world->cells[msg->to];

    if (atomic_load_explicit(&to->gone, memory_order_relaxed)) {
        if (msg->tag != FAST_TAG_ENDED)
            atomic_fetch_add_explicit(&world->world.lost, 1, memory_order_relaxed);
        fast_msg_free(msg);
        return;
    }
    void *old = atomic_load_explicit(&to->inbox, memory_order_relaxed);
    do {
        msg->next = old == PARKED ? NULL : old;
    } while (!atomic_compare_exchange_weak_explicit(&to->inbox, &old, msg, memory_order_release,
                                                    memory_order_relaxed));
    if (old == PARKED)
        ring(to);
}

/* Deliver what is in the inbox. True if the actor should look at it. */
static bool take_inbox(cell *c)
{
    bool matters = false;
    if (!atomic_load_explicit(&c->inbox, memory_order_relaxed))
        return false;
    fast_msg *msg = atomic_exchange_explicit(&c->inbox, NULL, memory_order_acquire);
    if ((void *)msg == PARKED)
        return false;
    /* The newest is on top: turn the stack around. */
    fast_msg *oldest = NULL;
    while (msg) {
        fast_msg *next = msg->next;
        msg->next = oldest;
        oldest = msg;
        msg = next;
    }
    while (oldest) {
        fast_msg *next = oldest->next;
        matters |= fast__deliver(&c->actor, oldest);
        oldest = next;
    }
    return matters;
}

/* Something is there for the actor: messages, a wake-up, or the end of the run. */
static bool has_news(cell *c)
{
    return atomic_load_explicit(&c->inbox, memory_order_relaxed) ||
           atomic_load_explicit(&c->woken, memory_order_relaxed) ||
           atomic_load_explicit(&c->actor.world->canceled, memory_order_relaxed);
}

/* Watch the inbox for a short time, if there is a core to spare. True if something came. */
static bool spin(cell *c)
{
    const threads_world *world = world_of(&c->actor);
    if (atomic_load_explicit(&world->awake, memory_order_relaxed) > world->cores)
        return has_news(c);
    for (int64_t i = 0; i < c->spin; i++) {
        if (has_news(c)) {
            c->spin = c->spin * 2 < SPIN_MAX ? c->spin * 2 : SPIN_MAX;
            return true;
        }
        fast__cpu_pause();
    }
    c->spin = c->spin / 2 > SPIN_MIN ? c->spin / 2 : SPIN_MIN;
    return has_news(c);
}

/* Sleep until someone rings, or for `time` nanoseconds. */
static void park(cell *c, int64_t time)
{
    void *empty = NULL;
    const unsigned bell = atomic_load_explicit(&c->bell, memory_order_relaxed);
    /* Whoever wakes first sets `woken` and then looks for PARKED; here it is the other way round,
     * in one total order, so one of the two sees the other. */
    if (!atomic_compare_exchange_strong(&c->inbox, &empty, PARKED))
        return;
    if (!atomic_load(&c->woken) && !atomic_load(&c->actor.world->canceled))
        fast__futex_wait(&c->bell, bell, time);
    void *parked = PARKED;
    atomic_compare_exchange_strong(&c->inbox, &parked, NULL);
}

static fast_err threads_wait(fast_actor *actor, int64_t deadline)
{
    cell *c = (cell *)actor;
    for (;;) {
        if (atomic_load_explicit(&actor->world->canceled, memory_order_relaxed))
            return fast__fail(FAST_ECANCELED, "the run was canceled");
        const bool woken = atomic_load_explicit(&c->woken, memory_order_relaxed) &&
                           atomic_exchange(&c->woken, false);
        if (take_inbox(c) || woken || deadline < 0)
            return FAST_OK;
        if (spin(c))
            continue;
        const int64_t left = deadline - actor->world->inner->now(actor);
        if (left <= 0)
            return FAST_OK;
        park(c, left);
    }
}

static void threads_wake(fast_actor *actor, int64_t id)
{
    cell *c = &world_of(actor)->cells[id];
    void *parked = PARKED;
    atomic_store(&c->woken, true);
    if (atomic_load(&c->inbox) == PARKED &&
        atomic_compare_exchange_strong(&c->inbox, &parked, NULL))
        ring(c);
}

static int64_t threads_now(fast_actor *actor)
{
    return fast__clock_ns() - world_of(actor)->start;
}

/* Real computing takes the time that it takes. */
static fast_err threads_charge(fast_actor *actor, double operations, double bytes)
{
    (void)actor;
    (void)operations;
    (void)bytes;
    return FAST_OK;
}

/* The share of the key, made if there is none; under the mutex. */
static fast_err find_share(threads_world *world, uint64_t key, size_t size, share **out)
{
    for (share *s = world->shares; s; s = s->next)
        if (s->key == key) {
            *out = s;
            return FAST_OK;
        }
    share *s;
    FAST_TRY(fast__alloc("shared memory", 1, sizeof *s, &s));
    const fast_err err = fast__alloc("shared memory", (int64_t)size, 1, &s->memory);
    if (err) {
        fast__free(s);
        return err;
    }
    s->key = key;
    s->size = size;
    s->next = world->shares;
    world->shares = s;
    *out = s;
    return FAST_OK;
}

static fast_err threads_share(fast_actor *actor, uint64_t key, size_t size, void *out)
{
    threads_world *world = world_of(actor);
    share *found = NULL;
    fast__mutex_lock(&world->mutex);
    const fast_err err = find_share(world, key, size, &found);
    fast__mutex_unlock(&world->mutex);
    if (err)
        return err;
    if (found->size != size)
        return fast__fail(FAST_EINVAL, "shared memory %llu has %zu bytes, not %zu",
                          (unsigned long long)key, found->size, size);
    memcpy(out, &found->memory, sizeof found->memory);
    return FAST_OK;
}

static void threads_close(fast_world *base)
{
    threads_world *world = (threads_world *)base;
    if (!world)
        return;
    for (int64_t i = 0; world->cells && i < base->count; i++)
        fast__actor_fini(&world->cells[i].actor);
    while (world->shares) {
        share *s = world->shares;
        world->shares = s->next;
        fast__free(s->memory);
        fast__free(s);
    }
    fast__mutex_fini(&world->mutex);
    fast__free(world->cells);
    fast__world_fini(base);
    fast__free(world);
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
    for (int64_t i = 0; !err && i < count; i++) {
        world->cells[i].spin = SPIN_MAX;
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
    cell *c = ctx;
    fast__actor_main(&c->actor);
    atomic_store(&c->gone, true);
    atomic_fetch_sub(&world_of(&c->actor)->awake, 1);
    return NULL;
}

/* What came after an actor had ended. */
static void drop_inbox(cell *c)
{
    fast_msg *msg = atomic_exchange(&c->inbox, NULL);
    while (msg && (void *)msg != PARKED) {
        fast_msg *next = msg->next;
        if (msg->tag != FAST_TAG_ENDED)
            atomic_fetch_add(&c->actor.world->lost, 1);
        fast_msg_free(msg);
        msg = next;
    }
}

static fast_err threads_run(fast_world *base)
{
    threads_world *world = (threads_world *)base;
    fast_err err = FAST_OK;

    world->start = fast__clock_ns();
    atomic_store(&world->awake, base->count);
    for (int64_t i = 0; i < base->count && !err; i++) {
        cell *c = &world->cells[i];
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
    for (int64_t i = 0; i < base->count; i++)
        drop_inbox(&world->cells[i]);
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
    .charge = threads_charge,
    .share = threads_share,
};
