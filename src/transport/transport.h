/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "base/rng.h"
#include "fast/actor.h"
#include "transport/blame/blame.h"
#include "transport/mailbox.h"
#include "transport/message_pool.h"
#include "transport/record/replay.h"
#include "transport/snapshot.h"
#include "transport/timeline.h"

#include <stdatomic.h>

/*
 * What a transport provides, and what all of them share. The way of a message:
 *
 *   fast_send()       actor_calls.c  stamps, counts, traces                     the sender
 *   transport->send   threads/ sim/ mpi/   carries it                        the sender
 *   fast__deliver()   mailbox.c   generations, control messages, matching    the receiver
 *   fast_receive()    actor_calls.c  takes it, or waits with transport->wait    the receiver
 *
 * A transport carries messages, blocks and wakes actors and owns the clock; nothing else. Matching,
 * deadlines, membership, posted tasks, errors that follow the chain of waits, counters and
 * timelines are written once, above it. `check` wraps any other transport and verifies the
 * contract.
 *
 * A world is what the actors of one process share; a transport's own world and actors begin with
 * these structs.
 */
typedef struct fast_world fast_world;
typedef struct fast_transport fast_transport;
struct fast_native;

/* The options of a run of actors, parsed; the fields of actors.c's table in its order. */
typedef struct fast_actors_config {
    char transport[32]; /* name */
    int64_t seed;       /* of everything random */
    double timeout;     /* seconds: what FAST_SOON means */
    char cluster[4096]; /* sim: a preset's name or a file; "" */
    char faults[4096];  /* sim: a schedule, "random", or a file; "" */
    int64_t pool;       /* sim: threads that compute */
    char trace[4096];   /* a file for the timeline; "" */
    bool check;         /* wrap the transport in `check` */
    char record[4096];  /* write a recording to this file; "" */
    char replay[4096];  /* repeat the recording in this file; "" */
    bool glance;        /* no option: others look at the actors while they run (snapshot.h) */
    const char *job;    /* no option: lines of name=value that a recording belongs to, besides these
                           options, lent while the world is open; NULL: none */
} fast_actors_config;

struct fast_transport {
    const char *name;    /* as it is typed */
    const char *summary; /* one line for `fast info` and `fast help transports` */
    bool virtual_clock;  /* time passes in waits and charges only: deadlines are met exactly */
    bool serial; /* all actors run on one thread: others may look at an actor's state, and only
                    those whom it concerns are told that an actor ended (see fast__actor_main) */

    /* Make a world for these actors: fill `world_out->actors` for those of this process, each with
     * fast__actor_init(), and `nodes`. Nothing runs yet. On mpi this is collective and blocks until
     * all ranks joined, at most the timeout. A failed open leaves nothing to close. */
    fast_err (*open)(const fast_actors_config *config, const fast_role *roles, int64_t role_count,
                     fast_world **world_out);

    /* Free the world and every message in it. Never waits for a peer. NULL is allowed. */
    void (*close)(fast_world *world);

    /* Run the program of every actor of this process with fast__actor_main() until all ended.
     * Blocks. Errors of programs are in their actors; this fails only when the transport does. */
    fast_err (*run)(fast_world *world);

    /* Carry a message to msg->to. Takes it in every case; never blocks. Called by the sender. What
     * was sent to an actor that has ended is freed and counted in its world's `lost`. */
    void (*send)(fast_actor *actor, fast_msg *msg);

    /* Take what has arrived to the actor's mailbox with fast__deliver(). If nothing has, block
     * until something does, until wake(), or until `deadline`; a deadline that has passed, or
     * FAST_AT_ONCE, means to poll. FAST_OK in all these cases: the caller looks at its mailbox and
     * at the clock. FAST_ECANCELED once the actor was stopped. */
    fast_err (*wait)(fast_actor *actor, int64_t deadline);

    /* Let a near actor's wait() return, now or when it is next called. Never blocks. */
    void (*wake)(fast_actor *actor, int64_t id);

    /* Whether something that the actor sent to another is still on its way, as far as the sender's
     * side can tell. For errors only. NULL: it cannot. */
    bool (*on_way)(fast_actor *actor, int64_t to);

    /* The clock: nanoseconds since the run began, never negative. */
    int64_t (*now)(fast_actor *actor);

    /* As fast_charge(), counters apart. */
    fast_err (*charge)(fast_actor *actor, double operations, double bytes);

    /* As fast_compute(), counters apart. NULL: work->run() is called, reports are made at once. */
    fast_err (*compute)(fast_actor *actor, fast_work *work);

    /* As fast_actor_share(). NULL: no two actors are near. */
    fast_err (*share)(fast_actor *actor, uint64_t key, size_t size, void *out);

    /* A collective of the machine's own. Blocks. FAST_ENOTSUP for groups that it cannot do. NULL:
     * there are none. */
    fast_err (*native)(fast_actor *actor, const struct fast_native *native);
};

/* What native() is asked for. */
typedef enum fast_native_kind { FAST_NATIVE_ALLREDUCE, FAST_NATIVE_BARRIER } fast_native_kind;
typedef struct fast_native {
    fast_native_kind kind;
    const int64_t *ids; /* members in their order */
    int64_t count;      /* of members */
    uint64_t key;       /* of the group, the same at all members */
    float *x;           /* summed in place */
    int64_t size;       /* of x, in floats */
    int64_t deadline;   /* as everywhere */
} fast_native;

/* An actor's row in the table that all processes agree on. */
typedef struct fast_place {
    int64_t node; /* where it lives */
    int role;     /* number of its role */
    bool here;    /* in this process */
} fast_place;

/* A count that one actor makes; others may look at any time. */
typedef _Atomic int64_t fast_counter;

struct fast_world {
    const fast_transport *transport; /* what the actors call: perhaps `check`, `record` */
    const fast_transport *inner;     /* what those wrap; else equal to transport */
    fast_actors_config config;       /* with every default filled in */
    const fast_role *roles;          /* lent for the run */
    int64_t role_count;              /* of roles */
    int64_t count;                   /* of actors, in all processes */
    fast_place *places;              /* of all actors */
    fast_actor **actors;             /* of all actors; NULL for those of other processes */
    int64_t timeout_ns;              /* what FAST_SOON means */
    int64_t spins;                   /* looks at shared memory that pay before an actor blocks; set
                                        by open(): 0 where actors outnumber cores, and on sim */
    atomic_llong lost;               /* messages that were dropped */
    atomic_llong copies;             /* payloads that were copied */
    atomic_bool canceled;            /* every wait returns FAST_ECANCELED */
    atomic_llong hold;               /* see fast__world_hold(); 0: never held */
    int64_t events;                  /* sim */
    uint64_t trace_hash;             /* sim */
    void *check;                     /* the wrapper's own */
    fast_record_state *record;       /* likewise; NULL: neither recorded nor replayed */
    fast_pool *pool;                 /* of messages and buffers */
    int64_t ended_count;             /* serial transports: actors whose program is over */
    fast_glance *glance;             /* what others may see meanwhile; NULL: nobody looks */
    fast_counter *waited; /* [count]: ns that actors were blocked for each, flight apart */
};

/* Something that goes on besides the actor's program: a nonblocking collective, an owner's service.
 * Advanced by fast__progress() in the actor's waits and reports. */
typedef struct fast_task {
    /* Do what can be done without blocking. Returns FAST_OK and sets *done once finished; a failure
     * ends the task too, and is kept in `err`. */
    fast_err (*advance)(fast_actor *actor, struct fast_task *task, bool *done);
    /* Whom a wait of `origin` on this actor really hangs on: an actor's number, or -1. An owner
     * knows which writer a read waits for. May be NULL. */
    int64_t (*explain)(fast_actor *actor, struct fast_task *task, int64_t origin);
    bool background;        /* does not keep its actor busy: an owner's service */
    fast_err err;           /* how it failed */
    bool done;              /* finished, or failed */
    struct fast_task *next; /* in the actor's list, in the order of posting */
} fast_task;

/* What an actor waits for. Published, so that others can follow the chain. */
typedef struct fast_wait {
    bool waiting;      /* inside a blocking call */
    int64_t whom;      /* an actor, or FAST_ANY */
    uint64_t tag;      /* of the message */
    int64_t since;     /* when it began */
    int64_t deadline;  /* when it ends */
    const char *doing; /* "allreduce", "get", "receive" */
} fast_wait;

/* Counted by the actor itself. */
typedef struct fast_counters {
    fast_counter messages_sent;     /* control messages apart */
    fast_counter bytes_sent;        /* headers, parts and what was declared */
    fast_counter messages_received; /* taken by fast_receive() */
    fast_counter messages_stale;    /* dropped: of an old generation */
    fast_counter compute_ns;        /* charged or spent computing */
    fast_counter wait_ns;           /* blocked; of brief waits one stands for many */
    fast_counter flight_ns;         /* the part of it in which what ended a wait was on its way;
                                       known where time is virtual, else 0 */
    fast_counter waits;             /* that blocked */
} fast_counters;

/* One writer: a load and a store, not a locked addition. */
static inline void fast__count(fast_counter *counter, int64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}
static inline int64_t fast__counted(const fast_counter *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

enum { FAST_WHAT_MAX = 48 };

/* How many groups with the same members and generation an actor has made: comm's. */
typedef struct fast_made {
    uint64_t key;           /* of the members and the generation */
    uint32_t generation;    /* of the groups: those of an old one are forgotten */
    uint32_t count;         /* of groups */
    struct fast_made *next; /* of the same actor */
} fast_made;

struct fast_actor {
    fast_world *world;
    int64_t id;
    int64_t life;             /* restarts */
    fast_mailbox mailbox;     /* what arrived */
    fast_task *tasks;         /* posted */
    fast_wait wait;           /* what it waits for now */
    fast_counters counters;   /* of this actor */
    fast_timeline *timeline;  /* NULL: not traced */
    bool seen;                /* it has a timeline, or its world a glance: spans are told */
    fast_trace *tape;         /* NULL: neither recorded nor replayed */
    fast_rng rng;             /* fast_random()'s */
    int64_t step;             /* of fast_actor_at() */
    char what[FAST_WHAT_MAX]; /* likewise */
    char detail
        [FAST_DETAIL_MAX]; /* why it failed; transports whose actors are no threads swap to it */
    fast_err err;          /* what its program returned */
    bool ended;            /* it returned */
    bool stopped;          /* FAST_ECANCELED from every call: set by its transport, or once wait()
                              returned it */
    bool advancing;        /* inside fast__progress() */
    bool brief;            /* set by a transport whose wait() did not sleep: so brief that not
                              each one is timed */
    int64_t culprit;       /* whom its last failed wait blames; or -1 */
    int64_t begin;         /* when its program began */
    int64_t end;           /* when it returned */
    int64_t grace;         /* the deadline after which a last look was taken */
    int64_t soon;          /* the last deadline that was made of FAST_SOON */
    int64_t sent;          /* virtual time: when the message was sent that ended a wait;
                              INT64_MAX: none did */
    fast_task *cursor;     /* the task that fast__progress() comes to next */
    uint64_t *met;         /* serial transports: a bit for each actor that it sent to or heard of */
    fast_made *made;       /* groups that it made, counted by comm; freed with the actor */
    fast_blame blame;      /* what it knows of the chain of waits */
};

/* What fast_work_report() calls: work->recorder points to one, set by compute(). */
typedef struct fast_report_sink {
    void (*report)(struct fast_report_sink *recorder, fast_work *work, double operations,
                   int64_t offset, int64_t count);
} fast_report_sink;

/* As fast_compute(), counters apart, where the transport leaves it to the actor: work->run() is
 * called, and reports are made at once. */
fast_err fast__compute_direct(fast_actor *actor, fast_work *work);

/* The transports of this build, in the order that `fast info` lists them; the last is NULL. */
extern const fast_transport *const fast__transports[];
/* FAST_EINVAL for an unknown name, FAST_ENOTSUP, which names the switch, for one not built in. */
fast_err fast__transport_find(const char *name, const fast_transport **out);

/* Put `check` around an open world's transport, before it runs: from then on every call of its
 * actors is verified. A world that broke the contract fails its run with the first violation.
 * FAST_ENOMEM. */
fast_err fast__check_wrap(fast_world *world);
/* For fast__deliver(), first, where world->check is set: is it what was sent, once and in order? */
void fast__check_deliver(fast_actor *actor, const fast_msg *msg);
extern const fast_transport fast__transport_check;
extern const fast_transport fast__transport_record;
extern const fast_transport fast__transport_threads;
extern const fast_transport fast__transport_sim;
extern const fast_transport fast__transport_mpi;

/* Parse "name=value", ..., NULL over the defaults; the table, and its one part. */
fast_err fast__actors_parse(const char *const *options, fast_actors_config *out);
extern const fast_option fast__actors_options[];
/* Options that do not fit together: FAST_EINVAL. */
fast_err fast__actors_check(const fast_actors_config *config);
extern const fast_part fast__actors_part;

/* fast_actors_run() with parsed options; the world stays open for the caller to look at, and is
 * closed with fast__world_close(). */
fast_err fast__world_open(const fast_actors_config *config, const fast_role *roles,
                          int64_t role_count, fast_world **out);
fast_err fast__world_run(fast_world *world, fast_actors_result *result_out);
void fast__world_close(fast_world *world); /* NULL is allowed */

/* For transports: fill what all worlds share (places by role order, node 0; config; timeout), and
 * free it. `world` is zeroed memory whose first member is a fast_world. */
fast_err fast__world_init(fast_world *world, const fast_transport *transport,
                          const fast_actors_config *config, const fast_role *roles,
                          int64_t role_count);
void fast__world_fini(fast_world *world);
/* For transports: prepare a zeroed actor, and free what it holds. After a restart: fini, zero, set
 * `life`, init again. */
fast_err fast__actor_init(fast_actor *actor, fast_world *world, int64_t id);
void fast__actor_fini(fast_actor *actor);
/* For transports: run the actor's program, keep how it ended, tell the others that it has
 * (FAST_TAG_ENDED), unless it was stopped. On a serial transport, where there may be thousands,
 * only those are told who wait for it or for anyone, or who have met it: one sent to the other.
 * Whoever waits for it later is told then, by a message that takes its way like any other. */
void fast__actor_main(fast_actor *actor);

/* Post a task, which stays the caller's until it is done; take what arrived and advance all; take
 * one back. */
void fast__post(fast_actor *actor, fast_task *task);
void fast__progress(fast_actor *actor);
void fast__unpost(fast_actor *actor, fast_task *task);

/* One bounded wait of the actor: progress, transport->wait, progress. For loops that wait for
 * something else than a message: `wait` says for what; its deadline is a time, its `since` stays
 * the same through the loop. FAST_ETIMEDOUT, with the chain of waits, once the deadline passed;
 * FAST_EPEER if wait->whom is down. The caller loops. */
fast_err fast__wait_once(fast_actor *actor, const fast_wait *wait);
/* As fast_charge(), for a codec's work since `begin`, which counts as no computing: what it took is
 * added to *spent and is a span of its own. */
fast_err fast__charge_codec(fast_actor *actor, const char *name, int64_t begin, double operations,
                            double bytes, fast_counter *spent);
/* FAST_SOON and FAST_AT_ONCE as times. */
int64_t fast__deadline(fast_actor *actor, int64_t deadline);
/* Something that is no part of the actors' programs keeps one of them from going on, at most until
 * `time` of its clock (INT64_MAX: nobody knows how long): no wait of this process that was to end
 * FAST_SOON fails for it. Each gets its whole timeout once the time has come, or the next call says
 * an earlier one. [any thread] */
void fast__world_hold(fast_world *world, int64_t time);

/* A message that has arrived, if any: never waits and does not poll the transport. */
fast_msg *fast__take(fast_actor *actor, int64_t from, uint64_t tag);

/* "worker 3" of an actor's number. */
void fast__actor_name(const fast_world *world, int64_t id, char *name, size_t size);
