/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport `mpi`: every rank runs the same program and calls fast_actors_run() with the same
 * arguments. Actor i of each role lives on rank i mod ranks, so that servers share the workers'
 * nodes; a node is a rank.
 *
 *   one actor on a rank      it calls MPI itself, on the thread that called run(): no thread and no
 *                            queue between the program and MPI
 *   several                  each is a thread with an inbox; the thread that called run() is the
 *                            bridge: it alone calls MPI (MPI_THREAD_FUNNELED is enough), sends the
 *                            messages to other ranks and delivers arriving ones. Messages between
 *                            actors of a rank stay pointers, and these actors share memory.
 *   none                     the rank waits for the other ranks to end
 *
 * A rank whose actors have ended receives until every rank has sent FAST_WIRE_BYE, so that nothing
 * is left in MPI and runs can follow each other in one process. Meanwhile it pings the others, and
 * leaves when all that are left are silent: for the run's timeout if an actor failed here or knows
 * of one that does not answer, else for FAST_HUNG_TIMEOUTS of them, as a rank that computes or
 * evaluates for long is silent too. MPI cannot continue without a rank: one that dies ends the job,
 * and mpirun names it.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/thread.h"
#include "transport/inbox.h"
#include "transport/mpi/join.h"
#include "transport/mpi/mpi_collective.h"
#include "transport/peers.h"
#include "transport/share.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct mpi_actor {
    fast_actor actor;   /* first: the part that all transports share */
    fast_inbox inbox;   /* messages of this rank and of the bridge */
    fast_thread thread; /* that runs it, if the rank has several actors */
    bool started;       /* the thread was started */
    atomic_bool gone;   /* its program returned */
} mpi_actor;

typedef struct mpi_world {
    fast_world world;                /* first: the part that all transports share */
    const fast_mpi_process *process; /* rank and number of ranks */
    fast_port *port;                 /* connection to other ranks; outlives an unclean world */
    mpi_actor *actors;               /* [count] of this rank */
    int64_t count;                   /* number of actors of this rank */
    fast_inbox outbox;               /* several actors: messages to other ranks */
    int64_t spin_ns;                 /* time that waits poll without a pause: at most spin_ns_max */
    int64_t spin_ns_max;             /* 0: more threads than cores */
    bool rung;                       /* all ranks of the job can ring this one's bell */
    int64_t start;                   /* the common zero of the clock */
    atomic_llong live;               /* number of actors whose threads run */
    fast_mutex mutex;                /* guards the shares */
    fast_share *shares;              /* memory that this rank's actors share */
    bool joined;                     /* all ranks have joined */
    bool ran;                        /* run() has returned */
    bool leave_last;                 /* rank 0 ends the job, which has lost a rank */
} mpi_world;

enum {
    SPIN_NS = 500 * 1000,    /* time that waits poll without a pause if every thread has a core: the
                             transfer of a megabyte, as a thread that yields on a busy machine may
                             wait for milliseconds */
    SPIN_NS_MIN = 20 * 1000, /* of waits that polling does not outlast: about what a sleep costs */
    POLLS = 8                /* polls between two readings of the clock */
};

/* Time that the ranks have at least to start MPI together, whatever a step may take. */
#define START_NS ((int64_t)5 * 1000 * 1000 * 1000)
/* Time that close() waits for the other ranks to close, if the world never ran. */
#define CLOSE_NS ((int64_t)5 * 1000 * 1000 * 1000)

static mpi_world *mpi_of(fast_world *world)
{
    return (mpi_world *)world;
}

static mpi_actor *mpi_actor_of(fast_actor *actor)
{
    return (mpi_actor *)actor;
}

static int64_t mpi_now(fast_actor *actor)
{
    return fast__clock_ns() - mpi_of(actor->world)->start;
}

/* Return whether the only actor of this rank calls MPI itself. */
static bool is_only_actor(const mpi_world *w)
{
    return w->count == 1;
}

/* Free a message for an actor that has ended; lost control messages are not counted. */
static void drop(fast_world *world, fast_msg *msg)
{
    if (msg->tag >> 56 != FAST_TAG_CONTROL >> 56)
        atomic_fetch_add_explicit(&world->lost, 1, memory_order_relaxed);
    fast_msg_free(msg);
}

/* Give a message to an actor of this rank. [any thread] */
static void put(fast_world *world, fast_msg *msg)
{
    mpi_actor *to = mpi_actor_of(world->actors[msg->to]);
    FAST_ASSERT(world->places[msg->to].here);
    if (atomic_load_explicit(&to->gone, memory_order_relaxed))
        drop(world, msg);
    else
        fast__inbox_push(&to->inbox, msg);
}

/* port->deliver if the only actor calls MPI: deliver at once. */
static void port_deliver_direct(void *ctx, fast_msg *msg)
{
    mpi_world *w = ctx;
    mpi_actor *a = &w->actors[0];
    if (atomic_load_explicit(&a->gone, memory_order_relaxed))
        drop(&w->world, msg);
    else
        fast__deliver(&a->actor, msg);
}

/* port->deliver of a bridge. */
static void port_deliver(void *ctx, fast_msg *msg)
{
    put(ctx, msg);
}

/* port->wake of a bridge. */
static void port_wake(void *ctx, int64_t id)
{
    mpi_world *w = ctx;
    fast__inbox_wake(&mpi_actor_of(w->world.actors[id])->inbox);
}

/* Wake the bridge, which sleeps on the outbox or on the bell of this rank. [any thread] */
static void bridge_wake(mpi_world *w)
{
    fast__inbox_wake(&w->outbox);
    fast__bells_ring(w->process->bells, w->process->rank);
}

/* transport->send: a pointer inside the rank, else by MPI, through the bridge if there is one. */
static void mpi_send(fast_actor *actor, fast_msg *msg)
{
    FAST_ASSERT(msg->from == actor->id && msg->to >= 0 && msg->to < actor->world->count);
    mpi_world *w = mpi_of(actor->world);
    if (w->world.places[msg->to].here)
        put(&w->world, msg);
    else if (is_only_actor(w))
        fast__port_send(w->port, msg);
    else {
        fast__inbox_push(&w->outbox, msg);
        fast__bells_ring(w->process->bells, w->process->rank);
    }
}

/* Deliver the messages in the inbox. True if the actor may wait for one. */
static bool take_inbox(mpi_actor *a)
{
    fast_msg *msg = fast__inbox_take(&a->inbox);
    bool matters = false;
    while (msg) {
        fast_msg *next = fast__envelope(msg)->next;
        matters |= fast__deliver(&a->actor, msg);
        msg = next;
    }
    return matters;
}

/* Poll inbox and MPI once. True if there is news. */
static bool poll_once(mpi_world *w, mpi_actor *a)
{
    bool news = fast__inbox_woken(&a->inbox);
    news |= take_inbox(a);
    if (is_only_actor(w))
        news |= fast__port_progress(w->port) > 0;
    return news;
}

/* Start the pauses of a wait. */
static fast_mpi_pause pause_new(const mpi_world *w)
{
    return (fast_mpi_pause){ .spin_ns = w->spin_ns, .rung = w->rung };
}

/* Pause between two polls of MPI, at most `left`: not at all at first, then sleep until the bell
 * has rung more often than `heard`, or without bells until `inbox` has news. */
static void port_pause(mpi_world *w, fast_inbox *inbox, fast_mpi_pause *pause, unsigned heard,
                       int64_t now, int64_t left)
{
    pause->rung = w->rung && !fast__port_is_moving(w->port);
    const int64_t sleep = fast__mpi_pause(pause, now);
    if (!sleep)
        return;
    if (!w->rung) {
        fast__inbox_sleep(inbox, sleep < left ? sleep : left);
        return;
    }
    fast__port_ring(w->port);
    fast__bells_sleep(w->process->bells, heard, sleep < left ? sleep : left);
}

/* Learn from a wait of the port's thread how long the next ones poll without a pause: a wait that
 * polling cannot outlast takes the processor from those that are waited for, and a sleep costs
 * little beside it. */
static void pause_learn(mpi_world *w, const fast_mpi_pause *pause, int64_t now)
{
    if (!w->rung || !w->spin_ns_max || pause->since == 0)
        return;
    if (now - pause->since > w->spin_ns_max)
        w->spin_ns = w->spin_ns / 2 > SPIN_NS_MIN ? w->spin_ns / 2 : SPIN_NS_MIN;
    else
        w->spin_ns = 2 * w->spin_ns < w->spin_ns_max ? 2 * w->spin_ns : w->spin_ns_max;
}

/* Pause between polls, `left` before the deadline: an actor that calls MPI must poll, one with a
 * bridge sleeps until it is woken. */
static void wait_pause(mpi_world *w, mpi_actor *a, fast_mpi_pause *pause, unsigned heard,
                       int64_t now, int64_t left)
{
    if (is_only_actor(w)) {
        port_pause(w, &a->inbox, pause, heard, now, left);
        return;
    }
    if (pause->since == 0)
        pause->since = now;
    if (now - pause->since < pause->spin_ns)
        fast__cpu_pause();
    else
        fast__inbox_sleep(&a->inbox, left);
}

/* transport->wait: poll and pause until there is news or the deadline. */
static fast_err mpi_wait(fast_actor *actor, int64_t deadline)
{
    mpi_world *w = mpi_of(actor->world);
    mpi_actor *a = mpi_actor_of(actor);
    fast_mpi_pause pause = pause_new(w);
    /* Reading the clock takes as long as a poll. */
    const int polls = w->spin_ns ? POLLS : 1;
    for (;;) {
        const unsigned heard = fast__bells_heard(w->process->bells);
        if (atomic_load_explicit(&w->world.canceled, memory_order_relaxed))
            return fast__fail(FAST_ECANCELED, "the run was canceled");
        for (int i = 0; i < polls; i++)
            if (poll_once(w, a) || deadline < 0) {
                if (is_only_actor(w) && pause.since)
                    pause_learn(w, &pause, mpi_now(actor));
                return FAST_OK;
            }
        const int64_t now = mpi_now(actor);
        if (now >= deadline)
            return FAST_OK;
        wait_pause(w, a, &pause, heard, now, deadline - now);
    }
}

/* transport->flush: MPI moves the parts of large messages in calls of this process only, so that a
 * receiver would wait for the end of this actor's computation. A bridge does it by itself. */
static void mpi_flush(fast_actor *actor)
{
    mpi_world *w = mpi_of(actor->world);
    fast_mpi_pause pause = pause_new(w);
    const int64_t deadline = mpi_now(actor) + w->world.timeout_ns;

    while (is_only_actor(w) && !w->port->err && fast__port_is_sending(w->port)) {
        const unsigned heard = fast__bells_heard(w->process->bells);
        const int64_t now = mpi_now(actor);
        if (atomic_load_explicit(&w->world.canceled, memory_order_relaxed) || now >= deadline)
            return;
        if (fast__port_progress(w->port) > 0)
            pause.since = 0;
        else
            wait_pause(w, mpi_actor_of(actor), &pause, heard, now, deadline - now);
    }
}

static void mpi_wake(fast_actor *actor, int64_t id)
{
    FAST_ASSERT(actor->world->places[id].here);
    port_wake(actor->world, id);
}

static fast_err mpi_share(fast_actor *actor, uint64_t key, size_t size, void *out)
{
    mpi_world *w = mpi_of(actor->world);
    fast__mutex_lock(&w->mutex);
    const fast_err err = fast__share_find(&w->shares, key, size, out);
    fast__mutex_unlock(&w->mutex);
    return err;
}

/* Tell the bridge about a request; an only actor advances it in its own wait. */
static void notify(fast_world *world)
{
    mpi_world *w = mpi_of(world);
    if (!is_only_actor(w))
        bridge_wake(w);
}

/* transport->native. */
static fast_err mpi_native(fast_actor *actor, const fast_native *native)
{
    return fast__mpi_native(mpi_of(actor->world)->port, actor, native, notify);
}

/* Send the messages in the outbox. Returns their number. */
static int64_t take_outbox(mpi_world *w)
{
    int64_t count = 0;
    fast_msg *msg = fast__inbox_take(&w->outbox);
    while (msg) {
        fast_msg *next = fast__envelope(msg)->next;
        fast__port_send(w->port, msg);
        count++;
        msg = next;
    }
    return count;
}

/* Move messages until all actors of this rank have ended. */
static void bridge(mpi_world *w)
{
    fast_mpi_pause pause = pause_new(w);
    bool told = false;
    fast__pool_enter(w->world.pool);
    while (atomic_load(&w->live) > 0) {
        const unsigned heard = fast__bells_heard(w->process->bells);
        const bool woken = fast__inbox_woken(&w->outbox);
        const int64_t events = take_outbox(w) + fast__port_progress(w->port);
        if (!told && atomic_load_explicit(&w->world.canceled, memory_order_relaxed)) {
            told = true;
            for (int64_t i = 0; i < w->count; i++)
                fast__inbox_wake(&w->actors[i].inbox);
        }
        const int64_t now = fast__clock_ns();
        if (events > 0 || woken) {
            pause_learn(w, &pause, now);
            pause = pause_new(w);
        } else {
            port_pause(w, &w->outbox, &pause, heard, now, INT64_MAX);
        }
    }
    take_outbox(w);
    fast__pool_leave(w->world.pool);
}

/* Return whether an actor of this rank failed, was stopped or knows of one that does not answer. */
static bool is_troubled(const mpi_world *w)
{
    bool troubled = atomic_load(&w->world.canceled);
    for (int64_t i = 0; i < w->count; i++)
        troubled = troubled || w->actors[i].actor.err || !w->actors[i].actor.ended ||
                   w->actors[i].actor.mailbox.silent_count > 0;
    return troubled;
}

/* Leave the world: receive until all ranks have left, or those that have not are silent: for
 * `patience_ns` where there was trouble, else for FAST_HUNG_TIMEOUTS times that. A rank does not
 * receive once its port failed. */
static void drain(mpi_world *w, int64_t patience_ns)
{
    fast_mpi_pause pause = pause_new(w);
    const int64_t tries_max = is_troubled(w) ? 1 : FAST_HUNG_TIMEOUTS;
    int64_t until = fast__clock_ns() + patience_ns, tries = 0;
    fast__port_leave(w->port, atomic_load(&w->world.canceled));
    fast__port_ping(w->port);
    while (!fast__port_is_over(w->port)) {
        const unsigned heard = fast__bells_heard(w->process->bells);
        if (fast__port_progress(w->port) > 0)
            pause.since = 0;
        else
            port_pause(w, &w->outbox, &pause, heard, fast__clock_ns(), INT64_MAX);
        if (fast__clock_ns() < until)
            continue;
        tries = fast__port_ping(w->port) ? 0 : tries + 1;
        if (w->port->err || tries >= tries_max)
            return;
        until = fast__clock_ns() + patience_ns;
    }
}

/* After a drain that left silent ranks: their actors are down, for the run's account of lost
 * workers. FAST_EPEER on ranks without the result, which the first one had. */
static fast_err note_silent_ranks(mpi_world *w)
{
    const fast_port *port = w->port;
    bool failed = false;

    for (int64_t id = 0; id < w->world.count; id++)
        for (int64_t i = 0; i < w->count && !port->lanes[w->world.places[id].node].done_heard &&
                            !w->world.places[id].here;
             i++) {
            fast_msg *msg = NULL;
            if (fast__pool_msg(w->world.pool, FAST_TAG_DOWN, &msg))
                break; /* without memory it is not counted */
            msg->from = msg->words[0] = id;
            msg->to = w->actors[i].actor.id;
            fast__peers_deliver(&w->actors[i].actor, msg);
        }
    for (int64_t i = 0; i < w->count; i++)
        failed = failed || w->actors[i].actor.err;
    if (failed || w->process->rank == 0 || port->err)
        return FAST_OK;
    if (!port->lanes[0].done_heard)
        return fast__fail(FAST_EPEER, "mpi: rank 0 (on %s) does not answer, and it has the result",
                          w->process->hosts[0]);
    w->leave_last = true;
    return FAST_OK;
}

/* Run an actor on its thread, and tell the bridge that it ended. */
static void *actor_thread(void *ctx)
{
    mpi_actor *a = ctx;
    mpi_world *w = mpi_of(a->actor.world);
    fast__actor_main(&a->actor);
    atomic_store(&a->gone, true);
    atomic_fetch_sub(&w->live, 1);
    bridge_wake(w);
    return NULL;
}

/* Run several actors: a thread for each, and the bridge on this one. */
static fast_err run_several(mpi_world *w)
{
    fast_err err = FAST_OK;
    for (int64_t i = 0; i < w->count && !err; i++) {
        mpi_actor *a = &w->actors[i];
        atomic_fetch_add(&w->live, 1);
        err = fast__thread_start(&a->thread, actor_thread, a);
        a->started = !err;
        if (err) {
            atomic_fetch_sub(&w->live, 1);
            atomic_store(&w->world.canceled, true);
        }
    }
    bridge(w);
    for (int64_t i = 0; i < w->count; i++)
        if (w->actors[i].started)
            fast__thread_join(&w->actors[i].thread);
    return err;
}

/* transport->run: the actors, and then the protocol of leaving. */
static fast_err mpi_run(fast_world *world)
{
    mpi_world *w = mpi_of(world);
    fast_err err = FAST_OK;
    if (is_only_actor(w)) {
        fast__actor_main(&w->actors[0].actor);
        atomic_store(&w->actors[0].gone, true);
    } else {
        err = run_several(w);
    }
    drain(w, world->timeout_ns);
    w->ran = true;
    if (!fast__port_is_over(w->port)) {
        const fast_err silent = note_silent_ranks(w);
        err = err ? err : silent;
    }
    for (int64_t i = 0; i < w->count; i++)
        for (fast_msg *msg = fast__inbox_take(&w->actors[i].inbox); msg;) {
            fast_msg *next = fast__envelope(msg)->next;
            drop(world, msg);
            msg = next;
        }
    if (w->port->err)
        return fast__fail(w->port->err, "%s", w->port->detail);
    return err;
}

/* transport->close. If MPI may still use memory of the port or of messages, it is retained for the
 * life of the process instead of freed. */
static void mpi_close(fast_world *world)
{
    mpi_world *w = mpi_of(world);
    if (!w)
        return;
    if (w->joined && !w->ran) {
        atomic_store(&world->canceled, true);
        drain(w, world->timeout_ns < CLOSE_NS ? world->timeout_ns : CLOSE_NS);
    }
    for (int64_t i = 0; w->actors && i < w->count; i++)
        fast__actor_fini(&w->actors[i].actor);
    const bool clean = !w->port || fast__port_fini(w->port);
    if (clean) {
        fast__free(w->port);
    } else {
        fast__mpi_retain(w->port);
        fast__mpi_retain(world->pool);
        world->pool = NULL;
    }
    if (w->joined)
        fast__mpi_leave(clean, w->leave_last ? FAST_HUNG_TIMEOUTS * world->timeout_ns : 0);
    fast__free(w->actors);
    fast__share_free(&w->shares);
    fast__mutex_fini(&w->mutex);
    fast__world_fini(world);
    fast__free(w);
}

/* Actor i of each role lives on rank i mod ranks; dedicated servers follow the workers. */
static void place(mpi_world *w)
{
    int64_t id = 0;
    for (int64_t role = 0; role < w->world.role_count; role++)
        for (int64_t i = 0; i < w->world.roles[role].count; i++, id++) {
            w->world.places[id].node =
                (fast__world_first_node(&w->world, role) + i) % w->process->ranks;
            w->world.places[id].here = w->world.places[id].node == w->process->rank;
            w->count += w->world.places[id].here;
        }
    FAST_ASSERT(id == w->world.count);
}

/* Return a hash of the properties that must be equal on all ranks. */
static uint64_t world_hash(const fast_world *world)
{
    uint64_t hash = fast__hash(fast_version(), strlen(fast_version()), FAST_WIRE_MAGIC);
    hash = fast__hash(&world->config.seed, sizeof world->config.seed, hash);
    for (int64_t i = 0; i < world->role_count; i++) {
        const fast_role *role = &world->roles[i];
        hash = fast__hash(role->name, strlen(role->name), hash);
        hash = fast__hash(&role->count, sizeof role->count, hash);
    }
    return hash;
}

/* Allocate the actors of this rank and the port, before other ranks learn that this one joined. */
static fast_err prepare(mpi_world *w)
{
    fast_world *world = &w->world;
    int64_t next = 0;
    place(w);
    if (w->count > 1 && w->process->level < MPI_THREAD_FUNNELED)
        return fast__fail(FAST_ENOTSUP,
                          "mpi: %lld actors on rank %d are threads, and MPI was "
                          "initialised without; use MPI_THREAD_FUNNELED",
                          (long long)w->count, w->process->rank);
    FAST_TRY(fast__alloc("actors", w->count, sizeof *w->actors, &w->actors));
    for (int64_t id = 0; id < world->count; id++)
        if (world->places[id].here)
            FAST_TRY(fast__actor_init(&w->actors[next++].actor, world, id));
    fast_port *port = NULL;
    FAST_TRY(fast__alloc("a port", 1, sizeof *port, &port));
    port->world = world;
    port->process = w->process;
    port->deliver = is_only_actor(w) ? port_deliver_direct : port_deliver;
    port->wake = is_only_actor(w) ? NULL : port_wake;
    port->ctx = w;
    const fast_err err = fast__port_init(port);
    if (err) {
        fast__free(port);
        return err;
    }
    w->port = port;
    const int64_t threads = is_only_actor(w) ? 1 : w->count + 1;
    w->spin_ns_max =
        threads * (w->process->bound ? 1 : w->process->beside) <= w->process->cores ? SPIN_NS : 0;
    w->spin_ns = w->spin_ns_max;
    w->rung = fast__bells_are_all(w->process->bells);
    /* Each rank writes the timelines of its own actors. */
    const size_t used = strlen(world->config.trace);
    if (used && w->process->rank > 0)
        snprintf(world->config.trace + used, sizeof world->config.trace - used, ".%d",
                 w->process->rank);
    return FAST_OK;
}

/* transport->open: initialise MPI, allocate all memory, then join the other ranks. */
static fast_err mpi_open(const fast_actors_config *config, const fast_role *roles,
                         int64_t role_count, fast_world **world_out)
{
    mpi_world *w = NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    FAST_TRY(fast__alloc("a world", 1, sizeof *w, &w));
    fast_err err = fast__world_init(&w->world, &fast__transport_mpi, config, roles, role_count);
    if (err) {
        fast__free(w);
        return err;
    }
    fast__mutex_init(&w->mutex);
    const int64_t timeout = w->world.timeout_ns;
    err = fast__mpi_begin(timeout > START_NS ? timeout : START_NS, &w->process);
    if (!err)
        err = prepare(w);
    if (!err) {
        err = fast__mpi_join(w->process, world_hash(&w->world), fast__clock_ns() + timeout, &comm);
        if (err == FAST_ETIMEDOUT)
            fast__mpi_missed();
    }
    if (err) {
        mpi_close(&w->world);
        return err;
    }
    fast__port_start(w->port, comm);
    fast__mpi_enter();
    w->joined = true;
    w->start = fast__clock_ns();
    *world_out = &w->world;
    return FAST_OK;
}

/* transport->decline: MPI has begun, since the process joined a world before this one. */
static void mpi_decline(const char *why)
{
    const fast_mpi_process *process = NULL;

    if (fast__mpi_begin(START_NS, &process) == FAST_OK)
        fast__mpi_decline(process, why);
}

const fast_transport fast__transport_mpi = {
    .name = "mpi",
    .summary = "an actor is a thread of a rank: existing clusters, started by mpirun or srun",
    .open = mpi_open,
    .decline = mpi_decline,
    .close = mpi_close,
    .run = mpi_run,
    .send = mpi_send,
    .wait = mpi_wait,
    .flush = mpi_flush,
    .wake = mpi_wake,
    .now = mpi_now,
    .share = mpi_share,
    .native = mpi_native,
};
