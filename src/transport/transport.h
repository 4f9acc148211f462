/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "base/rng.h"
#include "fast/comm.h"
#include "tensor/device.h"
#include "transport/blame/blame.h"
#include "transport/mailbox.h"
#include "transport/message_pool.h"
#include "transport/native_call.h"
#include "transport/record/replay.h"
#include "transport/snapshot.h"
#include "transport/timeline.h"

#include <stdatomic.h>

/*
 * The contract of transports, and the parts that all transports share. The path of a message:
 *
 *   fast_send()       actor_calls.c        stamps, counts, traces                    the sender
 *   transport->send   threads/ sim/ mpi/   moves it to its receiver                  the sender
 *   fast__deliver()   mailbox.c            generations, control messages, matching   the receiver
 *   fast_receive()    actor_calls.c        takes it, or waits with transport->wait   the receiver
 *
 * A transport moves messages, blocks and wakes actors and owns the clock; nothing else. Matching,
 * deadlines, membership, posted tasks, errors that follow the chain of waits (blame/), counters and
 * timelines are written once, above it. Two wrappers stand between the actors and any transport:
 * check/ verifies the contract, record/ records and replays a run.
 *
 * A world is the state that the actors of one process share; a transport's own world and actors
 * begin with these structs.
 */
typedef struct fast_world fast_world;
typedef struct fast_transport fast_transport;
struct fast_native;

/* The parsed options of a run of actors, in the order of the table in actors.c. */
typedef struct fast_actors_config {
    char transport[32];   /* name of the transport */
    int64_t seed;         /* of all random streams */
    double timeout;       /* seconds that FAST_SOON stands for */
    char cluster[4096];   /* sim: name of a preset, or a file; "": the default */
    char placement[1024]; /* sim: nodes of workers, like 3,0,1-2; "": as the cluster says */
    char faults[4096];    /* sim: a schedule, "random", or a file; "": no faults */
    int64_t pool;         /* sim: threads that compute */
    char trace[4096];     /* file for the timeline; "": no timeline */
    bool check;           /* wrap the transport in `check` */
    int bind;             /* threads: fast_bind_mode of the actors */
    char record[4096];    /* file to record the run to; "": not recorded */
    char replay[4096];    /* file with a recording to replay; "": no replay */
    bool snapshot;        /* no option: other threads watch the actors (snapshot.h) */
    bool in_flight;       /* no option: messages in flight are counted (message_pool.h) */
    bool dedicated;       /* no option: nodes of the second role follow those of the first role */
    const char *job; /* no option: further lines of name=value that a recording belongs to, lent
                           while the world is open; NULL: no such lines */
} fast_actors_config;

struct fast_transport {
    const char *name;    /* value of the option transport */
    const char *summary; /* one line for `fast info` and `fast help transports` */
    bool virtual_clock;  /* time passes in waits and charges only: deadlines are met exactly */
    bool serial; /* all actors run on one thread: an actor may read another's state, and only the
                    actors concerned are told that an actor ended (see fast__actor_main) */

    /* Make a world for these actors: set `world_out->actors` for those of this process, each with
     * fast__actor_init(), and `nodes`. Starts no program. On mpi this is collective and blocks
     * until all ranks joined, at most the timeout. A failed open leaves nothing to close. */
    fast_err (*open)(const fast_actors_config *config, const fast_role *roles, int64_t role_count,
                     fast_world **world_out);

    /* Tell other processes, which open a world, that this one will not join it, and why. Never
     * waits for them. NULL: all actors are in one process. */
    void (*decline)(const char *why);

    /* Free the world and every message in it. Never waits for a peer. NULL is allowed. */
    void (*close)(fast_world *world);

    /* Run the program of every actor of this process with fast__actor_main() until all ended.
     * Blocks. Errors of programs are in their actors; this fails only when the transport does. */
    fast_err (*run)(fast_world *world);

    /* Move a message to msg->to. Takes it in every case; never blocks. Called by the sender. A
     * message to an actor that has ended is freed and counted in its world's `lost`. */
    void (*send)(fast_actor *actor, fast_msg *msg);

    /* Move arrived messages to the actor's mailbox with fast__deliver(). If none has arrived,
     * block until one does, until wake(), or until `deadline`; FAST_AT_ONCE or a deadline in the
     * past means to poll. Returns FAST_OK in all these cases: the caller checks its mailbox and
     * the clock. FAST_ECANCELED once the actor was stopped. */
    fast_err (*wait)(fast_actor *actor, int64_t deadline);

    /* Let the wait() of a local actor return, now or when it is next called. Never blocks. */
    void (*wake)(fast_actor *actor, int64_t id);

    /* Send all of the actor's messages that the transport still holds, at most until the timeout:
     * before a long computation in a program whose receivers wait for them. NULL: messages leave by
     * themselves. */
    void (*flush)(fast_actor *actor);

    /* Return whether a message of the actor to `to` has not arrived yet, as far as the sender's
     * side can tell. For errors only. NULL: the transport cannot tell. */
    bool (*on_way)(fast_actor *actor, int64_t to);

    /* Return the clock: nanoseconds since the run started, never negative. */
    int64_t (*now)(fast_actor *actor);

    /* Return the clock as if it had never been set: durations of a whole run are measured by it.
     * NULL: the clock is never set. */
    int64_t (*steady)(fast_actor *actor);

    /* As fast_charge(), without counters. NULL: computing takes real time, nothing is charged. */
    fast_err (*charge)(fast_actor *actor, double operations, double bytes);

    /* As fast_compute(), without counters. NULL: work->run() is called and reports at once. */
    fast_err (*compute)(fast_actor *actor, fast_work *work);

    /* Return the i-th random stream, besides the actor's own, that decides what happens to it:
     * jitter, loss; NULL after the last. NULL: the transport draws no random numbers. */
    fast_rng *(*stream)(fast_actor *actor, int i);

    /* As fast_actor_share(). NULL: no two actors share memory. */
    fast_err (*share)(fast_actor *actor, uint64_t key, size_t size, void *out);

    /* Run a collective of the machine's own library. Blocks. FAST_ENOTSUP for groups that it does
     * not support. NULL: the transport has no native collectives. */
    fast_err (*native)(fast_actor *actor, const struct fast_native *native);
};

/* An actor's row in the table that all processes agree on. */
typedef struct fast_place {
    int64_t node; /* number of its node */
    int role;     /* number of its role */
    bool here;    /* it lives in this process */
} fast_place;

/* A counter that one actor writes; other threads may read it at any time. */
typedef _Atomic int64_t fast_counter;

typedef struct fast_world_vector fast_world_vector; /* world.c */

/* Figures of a process of several: mpi. */
typedef struct fast_world_sums {
    atomic_llong copies; /* payloads that were copied */
    atomic_llong own;    /* a sum that the actors of this process add to before they end */
    atomic_llong others; /* the sums of all other processes, told when they leave the world */
} fast_world_sums;

struct fast_world {
    const fast_transport *transport; /* called by the actors: perhaps a wrapper */
    const fast_transport *inner;     /* the transport without wrappers */
    fast_actors_config config;       /* with every default filled in */
    const fast_role *roles;          /* [role_count] lent for the run */
    int64_t role_count;              /* number of roles */
    int64_t count;                   /* number of actors in all processes */
    fast_place *places;              /* [count] */
    fast_actor **actors;             /* [count]; NULL for actors of other processes */
    int64_t timeout_ns;              /* nanoseconds that FAST_SOON stands for */
    int64_t spins;                   /* polls of shared memory that pay before an actor blocks; set
                                        by open(): 0 where actors outnumber cores, and on sim */
    atomic_llong lost;               /* messages that were dropped */
    fast_world_sums sums;            /* of processes */
    atomic_bool canceled;            /* every wait returns FAST_ECANCELED */
    atomic_llong hold;               /* see fast__world_hold(); 0: never held */
    int64_t events;                  /* sim: number of events */
    uint64_t trace_hash;             /* sim: hash of all events */
    void *check;                     /* state of the wrapper `check`; NULL: not wrapped */
    fast_record_state *record;       /* NULL: neither recorded nor replayed */
    fast_pool *pool;                 /* of messages and buffers */
    const fast_device *device;       /* of vectors that actors allocate; messages are the host's */
    fast_world_vector *_Atomic vectors; /* of fast__world_vector(), a list */
    int64_t ended_count;                /* serial transports: actors whose program returned */
    uint64_t *watchers; /* serial transports: a bit for each actor that ever waited for any other or
                           posted a task that watches; else NULL */
    fast_snapshot *snapshot; /* live view for other threads; NULL: nobody watches */
    fast_counter *waited;    /* [count] ns that actors were blocked for this actor, without
                                        the time of flight of its messages */
};

/* Allocate a vector of zeros on the world's device; the world frees it at its end, so that all
 * actors of the process may use it. FAST_ENOMEM. */
fast_err fast__world_vector(fast_world *world, const char *what, int64_t count, float **out);

/* Work in the background of the actor's program: a nonblocking collective, an owner's service.
 * Advanced by fast__progress() in the actor's waits and reports. */
typedef struct fast_task {
    /* Make progress without blocking. Sets *done once the task is finished; a failure ends the task
     * too and is stored in `err`. */
    fast_err (*advance)(fast_actor *actor, struct fast_task *task, bool *done);
    /* Return the actor that a wait of `origin` for this actor depends on, or -1. An owner knows
     * which writer a read waits for. May be NULL. */
    int64_t (*explain)(fast_actor *actor, struct fast_task *task, int64_t origin);
    bool background;        /* an endless service: its actor may end before it is done */
    bool watches;           /* its actor is told of every actor that ends, not only of failures and
                               of actors that it waits for or exchanged messages with */
    fast_err err;           /* its failure */
    bool done;              /* finished or failed */
    struct fast_task *next; /* in the actor's list, in the order of posting */
} fast_task;

/* The operation that an actor waits in. Other actors ask for it to follow the chain of waits. */
typedef struct fast_wait {
    bool waiting;      /* inside a blocking call */
    int64_t whom;      /* the actor that it waits for, or FAST_ANY */
    uint64_t tag;      /* of the message */
    int64_t since;     /* time at which the operation started */
    int64_t deadline;  /* time at which it fails */
    const char *doing; /* "allreduce", "get", "receive" */
} fast_wait;

/* Counted by the actor itself. */
typedef struct fast_counters {
    fast_counter messages_sent;     /* without control messages */
    fast_counter bytes_sent;        /* headers, parts and declared bytes */
    fast_counter messages_received; /* taken by fast_receive() */
    fast_counter messages_stale;    /* dropped because of an old generation */
    fast_counter compute_ns;        /* charged or spent computing */
    fast_counter wait_ns;           /* blocked; brief waits are sampled */
    fast_counter flight_ns;         /* time of flight of the messages that ended waits: part of
                                       wait_ns; known in virtual time, else 0 */
    fast_counter waits;             /* number of waits that blocked */
} fast_counters;

/* Add to a counter. It has one writer, so a load and a store do, without a locked addition. */
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

/* Number of groups with equal members and generation that an actor has made: comm's. */
typedef struct fast_made {
    uint64_t key;           /* hash of the members and the generation */
    uint32_t generation;    /* of the groups; rows of old generations are reused */
    uint32_t count;         /* number of groups */
    struct fast_made *next; /* of this actor */
} fast_made;

enum {
    FAST_SOONS = 4,
    FAST_PATIENCE = 4 /* timeouts for which a server waits for a message of any actor: workers that
                         exchange nothing for a while compute for several steps in a row */
};

/* The clock side of an actor's waits. */
typedef struct fast_waiting {
    bool brief;    /* set by a transport whose wait() did not sleep: too short to time each */
    int64_t grace; /* deadline after which the last poll was made; -1: none */
    int64_t soon[FAST_SOONS]; /* the last deadlines that were made of FAST_SOON, a ring */
    int64_t soon_count;       /* deadlines made so far */
    int64_t patient;          /* the last deadline of fast__patience() */
    int64_t looked;           /* when the actor last began a wait, or returned from one */
    int64_t hold;             /* as the world's, for this actor alone */
    int64_t behind;           /* ns by which fast__actor_time() is behind its clock */
    int64_t saved;            /* fast__actor_time() of the last snapshot */
    int64_t sent; /* virtual time of the message that ended the wait; INT64_MAX: none did */
} fast_waiting;

/* An iteration of fast__progress(). */
typedef struct fast_progress {
    bool active;       /* inside fast__progress() */
    fast_task *cursor; /* the task that is advanced next */
} fast_progress;

struct fast_actor {
    fast_world *world;            /* its world */
    int64_t id;                   /* its number */
    int64_t life;                 /* number of restarts */
    fast_mailbox mailbox;         /* arrived messages */
    fast_task *tasks;             /* posted, in the order of posting */
    fast_progress progress;       /* iteration over the tasks */
    fast_wait wait;               /* its current or last wait */
    fast_waiting waiting;         /* clock of its waits */
    fast_counters counters;       /* written by this actor */
    fast_timeline *timeline;      /* NULL: not traced */
    bool seen;                    /* it has a timeline, or its world a snapshot: spans are stored */
    fast_trace *trace;            /* NULL: neither recorded nor replayed */
    fast_rng rng;                 /* of fast_random() */
    int64_t step;                 /* of fast_actor_at() */
    char what[FAST_WHAT_MAX];     /* of fast_actor_at() */
    char detail[FAST_DETAIL_MAX]; /* text of err; the error detail of actors that are no threads */
    fast_err err;                 /* result of its program */
    bool ended;                   /* its program returned */
    bool stopped;     /* every call returns FAST_ECANCELED: set by its transport, or once
                                     wait() returned it */
    int64_t culprit;  /* the actor that its last failed wait blames; or -1 */
    int64_t begin;    /* time at which its program started */
    int64_t end;      /* time at which its program returned */
    uint64_t *met;    /* serial transports: a bit for each actor that it sent to, heard of or was
                         waited for by; after its end: that it told. Else NULL */
    fast_made *made;  /* groups that it made, counted by comm; freed with the actor */
    fast_blame blame; /* its view of the chain of waits */
};

/* The receiver of fast_work_report(): work->sink points to one, set by compute(). */
typedef struct fast_report_sink {
    void (*report)(struct fast_report_sink *sink, fast_work *work, double operations,
                   int64_t offset, int64_t count);
} fast_report_sink;

/* As fast_compute(), without counters, for transports that leave it to the actor: calls work->run()
 * and reports at once. */
fast_err fast__compute_direct(fast_actor *actor, fast_work *work);

/* The transports of this build in the order of `fast info`; the last is NULL. */
extern const fast_transport *const fast__transports[];
/* Find a transport by name. FAST_EINVAL: unknown; FAST_ENOTSUP: not built in, names the switch. */
fast_err fast__transport_find(const char *name, const fast_transport **out);

/* Wrap an open world's transport in `check`, before it runs: from then on every call of its actors
 * is verified. A transport that breaks the contract fails the run with the first violation.
 * FAST_ENOMEM. */
fast_err fast__check_wrap(fast_world *world);
/* Verify that a message is delivered as it was sent, once and in order. First in fast__deliver()
 * where world->check is set. */
void fast__check_deliver(fast_actor *actor, const fast_msg *msg);
extern const fast_transport fast__transport_threads;
extern const fast_transport fast__transport_sim;
extern const fast_transport fast__transport_mpi;

/* Parse "name=value", ..., NULL over the defaults. FAST_EINVAL. */
fast_err fast__actors_parse(const char *const *options, fast_actors_config *out);
extern const fast_option fast__actors_options[];
/* FAST_EINVAL if options contradict each other. */
fast_err fast__actors_check(const fast_actors_config *config);
extern const fast_part fast__actors_part;

/* The steps of fast_actors_run(), with parsed options: between run and close the caller may read
 * the world. */
fast_err fast__world_open(const fast_actors_config *config, const fast_role *roles,
                          int64_t role_count, fast_world **out);
fast_err fast__world_run(fast_world *world, fast_actors_result *result_out);
void fast__world_close(fast_world *world); /* NULL is allowed */
/* In the place of fast__world_open(), by a process that cannot join: those that do fail at once
 * with FAST_EPEER and `why`, a sentence, instead of waiting for it. */
void fast__world_decline(const char *transport, const char *why);

/* For transports: initialise the part that all worlds share (places by role order, node 0; config;
 * timeout). `world` is zeroed memory whose first member is a fast_world. */
fast_err fast__world_init(fast_world *world, const fast_transport *transport,
                          const fast_actors_config *config, const fast_role *roles,
                          int64_t role_count);
/* For transports: return the node of the first actor of a role, to be taken modulo the number of
 * nodes: 0, or the one after the first role's if the config says that servers are dedicated. */
int64_t fast__world_first_node(const fast_world *world, int64_t role);
void fast__world_fini(fast_world *world);
/* For transports: initialise a zeroed actor; free its memory. For a restart: fini, zero, set
 * `life`, init again. */
fast_err fast__actor_init(fast_actor *actor, fast_world *world, int64_t id);
void fast__actor_fini(fast_actor *actor);
/* For transports: run the actor's program, store its result and tell the other actors that it ended
 * (FAST_TAG_ENDED), unless it was stopped. On a serial transport, where there may be thousands, it
 * tells only actors that wait for it or for any actor, or that exchanged messages with it. An actor
 * that waits for it later is told then, by a message that takes its time like any other. */
void fast__actor_main(fast_actor *actor);

/* Append a task to the actor's list; it stays the caller's until it is done or removed. */
void fast__post(fast_actor *actor, fast_task *task);
/* Deliver arrived messages and advance all tasks once. Never blocks. */
void fast__progress(fast_actor *actor);
/* Remove a task; does nothing if it is not posted. */
void fast__unpost(fast_actor *actor, fast_task *task);

/* Wait once, at most until the deadline: progress, transport->wait, progress. The caller loops
 * until its condition holds. `wait` says what it waits for; its deadline is a time, and its `since`
 * is equal in all rounds of the loop. FAST_ETIMEDOUT, with the chain of waits, once the deadline
 * passed; FAST_EPEER if wait->whom is down; FAST_ECANCELED. */
fast_err fast__wait_once(fast_actor *actor, const fast_wait *wait);
/* As fast_charge(), for the work of a codec since `begin`: its time is added to *spent instead of
 * compute_ns, and is a span of its own. */
fast_err fast__charge_codec(fast_actor *actor, const char *name, int64_t begin, double operations,
                            double bytes, fast_counter *spent);
/* Return a deadline as a time, for FAST_SOON and FAST_AT_ONCE too. */
int64_t fast__deadline(fast_actor *actor, int64_t deadline);
/* Return the transport's clock without its jumps. */
int64_t fast__steady_now(fast_actor *actor);
/* Return the deadline that FAST_SOON stands for, of an operation that starts at `now`. */
int64_t fast__soon(fast_actor *actor, int64_t now);
/* Return the deadline of a server's wait for any actor, `timeouts` timeouts from now. When it
 * passes, all actors that do not answer are suspected, so that a server ends once nobody is left
 * that may need it. */
int64_t fast__patience(fast_actor *actor, int64_t timeouts);
/* Extend the waits of this process that end FAST_SOON: something outside the programs delays an
 * actor, at most until `time` of its clock (INT64_MAX: unknown). Each such wait gets its whole
 * timeout after that time, or after the earlier time of the next call. [any thread] */
void fast__world_hold(fast_world *world, int64_t time);

/* Take a message out of the mailbox; NULL if it has none. Does not poll the transport. */
fast_msg *fast__take(fast_actor *actor, int64_t from, uint64_t tag);

/* Write the name of an actor: "worker 3", or "anyone" for FAST_ANY. */
void fast__actor_name(const fast_world *world, int64_t id, char *name, size_t size);
