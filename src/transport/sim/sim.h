/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/share.h"
#include "transport/sim/cluster.h"
#include "transport/sim/fiber.h"
#include "transport/transport.h"

/*
 * The simulator's world. One thread runs everything: it takes the earliest event, moves the clock
 * there and resumes at most one actor, until that actor waits, computes or ends.
 *
 *   event    (time, order) -> what happens: a message arrives, a charge ends, a fault strikes
 *   timer    at most one an actor, in a heap of its own: the deadline of its wait
 *   time     integer nanoseconds since the run began; nodes may see it shifted (clock jumps)
 *
 * Files: sim.c the scheduler and the transport's operations, open.c worlds and the effects of
 * faults on them, queue.c events and timers, fiber.c coroutines, sim_network.c the cost of a message,
 * sim_compute.c charges and works, cluster*.c descriptions of clusters, fault*.c faults. All of it is
 * deterministic: a pure function of programs, options, cluster and seed.
 */
typedef struct fast_sim fast_sim;
typedef struct fast_sim_actor fast_sim_actor;

/* What an event is. */
typedef enum fast_sim_kind {
    FAST_SIM_ARRIVE, /* what: a fast_msg, whole, at its receiver */
    FAST_SIM_HEAD,   /* what: a fast_msg whose first byte is there; its receiver's link is shared */
    FAST_SIM_RESUME, /* what: an actor whose charge, sleep or pause is over */
    FAST_SIM_START,  /* what: an actor that begins */
    FAST_SIM_CALL,   /* what: a fast_sim_call */
    FAST_SIM_STARTER, /* likewise, one that starts an actor */
    FAST_SIM_TELL     /* what: news about an actor, made by fast__sim_tell() */
} fast_sim_kind;

typedef struct fast_sim_event {
    int64_t time;   /* when */
    uint64_t order; /* of making, times 8, plus the kind: decides among equal times */
    void *what;     /* by kind */
} fast_sim_event;

/* Messages on their way that were planned in the order in which they come: see queue.c. */
enum { FAST_SIM_LANES = 2 };
typedef struct fast_sim_lane {
    fast_sim_event *events; /* a ring */
    int64_t first;          /* the earliest */
    int64_t count;          /* in it */
    int64_t room;           /* of it, a power of two, or 0 */
} fast_sim_lane;

/* Something to do at a time, on the scheduler's stack: faults are made of these. The memory is the
 * caller's and must live until it was called. */
typedef struct fast_sim_call {
    void (*run)(fast_sim *sim, struct fast_sim_call *call);
} fast_sim_call;

typedef enum fast_sim_state {
    FAST_SIM_UNBORN,  /* not begun */
    FAST_SIM_RUNNING, /* it has the thread, or will have it at this instant */
    FAST_SIM_WAITING, /* in wait(): a message, a wake() or its deadline resumes it */
    FAST_SIM_BUSY,    /* charging, computing or held up: only its own event resumes it */
    FAST_SIM_OVER     /* its program returned, or it crashed */
} fast_sim_state;

/* A node, live. */
typedef struct fast_sim_node {
    fast_node_spec spec;  /* speed, memory, jitter, cores */
    double slow;          /* charges take this many times as long; 1 */
    int64_t clock_ns;     /* added to the time that its actors see */
    int64_t out_free;     /* when its outgoing link is free */
    int64_t in_free;      /* when its incoming link is free */
    int64_t paused_until; /* it does not run before; 0: not paused */
    int64_t paused_ns;    /* of all its pauses so far */
    bool lies;            /* outgoing payloads go through fast_sim.alter */
    int64_t *core_free;   /* when each core is free; NULL: cores are no limit */
    fast_rng rng;         /* jitter of speed */
    fast_share *shares;   /* memory of its actors */
} fast_sim_node;

/* The last arrival at one receiver, so that pairs stay in order. */
typedef struct fast_sim_pair {
    int64_t to;   /* receiver, plus 1; 0: an empty slot */
    int64_t last; /* when the newest message arrives */
} fast_sim_pair;

/* One replayed fast_work_report(). */
typedef struct fast_sim_report {
    double operations;     /* of the work, done by then */
    int64_t offset, count; /* what is ready */
} fast_sim_report;

struct fast_sim_actor {
    fast_actor base;           /* what all transports share */
    fast_fiber fiber;          /* its stack */
    fast_sim_node *node;       /* where it lives */
    fast_sim_state state;      /* what may resume it */
    bool woken;                /* wake() came while it was not waiting */
    uint64_t resume;           /* order of the event that resumes it; another one is stale */
    int64_t polls;             /* in a row: it neither waited nor computed between them */
    int64_t polled_at;         /* when the first of them was */
    int64_t deadline;          /* of its wait, in the simulation's time */
    int64_t timer;             /* its key in the heap of timers; never later than deadline */
    int64_t timer_slot;        /* where it is there */
    int64_t paused_ns;         /* its node's, when its charge began */
    int64_t start_ns;          /* when it begins */
    fast_sim_pair *pairs;      /* open addressing; whom it sent to */
    int64_t pair_count;        /* of them */
    int64_t pair_room;         /* of slots, a power of two; 0: none yet */
    fast_rng rng;              /* jitter and loss of what it sends */
    fast_report_sink recorder; /* of the work's reports */
    fast_work *work;           /* asked for at this instant, or NULL */
    fast_err work_err;         /* what its run() returned */
    fast_err record_err;       /* no memory for its reports */
    fast_sim_report *reports;  /* of the work */
    int64_t report_count;      /* of them */
    int64_t report_room;       /* of them */
    fast_sim_actor *work_next; /* in the list of works of this instant */
};

/* Counted for tests and for `fast simulate`. */
typedef struct fast_sim_counters {
    int64_t retransmits; /* transmissions that were lost and sent again */
    int64_t duplicates;  /* that arrived and were dropped, or of unreliable messages */
    int64_t reordered;   /* messages that were late */
    int64_t held;        /* messages that waited for a cut link */
} fast_sim_counters;

struct fast_sim {
    fast_world base;                     /* what all transports share */
    fast_cluster *cluster;               /* as described */
    fast_sim_node *nodes;                /* live */
    int64_t node_count;                  /* of them */
    fast_sim_actor *actors;              /* all */
    fast_sim_actor *running;             /* who has the thread; NULL: the scheduler */
    int64_t now;                         /* the clock */
    uint64_t order;                      /* of the next event */
    fast_sim_event *events;              /* a 4-ary heap */
    int64_t event_count;                 /* in it */
    int64_t event_room;                  /* of it */
    fast_sim_lane lanes[FAST_SIM_LANES]; /* beside the heap: FAST_SIM_ARRIVE, FAST_SIM_HEAD */
    fast_sim_actor **timers;             /* a 4-ary heap of all actors by their timers */
    int64_t alive;                       /* actors not over and not waiting to restart */
    fast_sim_actor *works;               /* asked for at this instant, the first */
    fast_sim_actor **works_end;          /* where the next is linked */
    struct fast_sim_pool *pool;          /* threads that compute; NULL: this one does */
    fast_sim_link *zone_links;           /* zone_count squared */
    struct fast_sim_edit *edits;         /* links of single pairs of nodes: open addressing */
    int64_t edit_count;                  /* of them */
    int64_t edit_room;                   /* of slots */
    fast_msg *stuck;                     /* messages that wait for a cut link, in their order */
    fast_msg **stuck_end;                /* where the next is linked */
    fast_stacks stacks;                  /* of the actors */
    fast_sim_counters counters;          /* of the network */
    fast_err err;                        /* why the simulation itself gave up */
    char detail[FAST_DETAIL_MAX];        /* likewise */
    void *faults;                        /* the schedule's own */
    /* What a lying node does to a message that it sends; set with the first lying node. */
    void (*alter)(fast_sim *sim, fast_sim_actor *from, fast_msg *msg);
    int64_t pending; /* calls of fast__sim_at() that may still start something */
};

/*
 * For faults. All of these run on the scheduler's stack: from a fast_sim_call, or before the run.
 */

/* Call `call` at `time`, which is not in the past. A run ends when all actors are over and no call
 * is left that was marked as `starts`: one that starts an actor. */
void fast__sim_at(fast_sim *sim, int64_t time, fast_sim_call *call, bool starts);

/* Stop an actor: its pending call returns FAST_ECANCELED, and so does every other one; the program
 * unwinds at this instant, as a ghost that reaches nobody. Messages to it are lost from now on. */
void fast__sim_crash(fast_sim *sim, int64_t id);
/* Begin it again, with one more life, an empty mailbox and a fresh stack. Only after a crash. */
void fast__sim_restart(fast_sim *sim, int64_t id);
/* Before the run: let an actor begin only then. */
void fast__sim_start_late(fast_sim *sim, int64_t id, int64_t time);

/* Stand still until `until`; messages arrive but nobody looks. */
void fast__sim_pause(fast_sim *sim, int64_t node, int64_t until);
/* Charges that begin from now on take `factor` times as long; 1 is normal. */
void fast__sim_slow(fast_sim *sim, int64_t node, double factor);
/* The clock that the node's actors see jumps by this much, never below 0. */
void fast__sim_clock_jump(fast_sim *sim, int64_t node, int64_t delta_ns);

/* The link of this direction, for changing: a copy of its own. `cut` holds reliable messages back
 * and loses the others. `contention` must stay, or messages on their way would overtake. NULL only
 * without memory: then the run ends with FAST_ENOMEM. */
fast_sim_link *fast__sim_link_edit(fast_sim *sim, int64_t from, int64_t to);
/* After links were mended: send what waited on those that are no longer cut. */
void fast__sim_links_mended(fast_sim *sim);

/* Deliver FAST_TAG_DOWN or FAST_TAG_UP about an actor to another one, or, with `to` = FAST_ANY, to
 * all who are up, `delay_ns` from now (cluster->detection_ns is the usual). */
void fast__sim_tell(fast_sim *sim, int64_t to, int64_t about, bool down, int64_t delay_ns);

/* What fault.c provides: read config.faults, which may be empty, and plan it; free it. */
fast_err fast__faults_open(fast_sim *sim);
void fast__faults_close(fast_sim *sim);

/*
 * Between the simulator's own files.
 */

/* queue.c: plan an event, or give up the run without memory; when the earliest is, INT64_MAX if
 * there is none; take it, which is there. */
bool fast__sim_push(fast_sim *sim, int64_t time, fast_sim_kind kind, void *what);
int64_t fast__sim_next(const fast_sim *sim);
fast_sim_event fast__sim_pop(fast_sim *sim);
void fast__sim_queue_close(fast_sim *sim); /* with every message in it */
/* Set the deadline of an actor's wait; the actor whose deadline is first, or NULL. */
void fast__sim_timer_set(fast_sim *sim, fast_sim_actor *actor, int64_t deadline);
fast_sim_actor *fast__sim_timer_first(fast_sim *sim);

/* sim_network.c: the link between two nodes; carry a message; what its events do. */
const fast_sim_link *fast__sim_link(const fast_sim *sim, const fast_sim_node *from,
                                    const fast_sim_node *to);
void fast__sim_send(fast_actor *actor, fast_msg *msg);
bool fast__sim_on_way(fast_actor *actor, int64_t to);
void fast__sim_head(fast_sim *sim, fast_msg *msg);
void fast__sim_arrive(fast_sim *sim, fast_msg *msg);
fast_err fast__sim_network_open(fast_sim *sim);
void fast__sim_network_close(fast_sim *sim);

/* sim_compute.c */
fast_err fast__sim_charge(fast_actor *actor, double operations, double bytes);
fast_err fast__sim_compute(fast_actor *actor, fast_work *work);
fast_err fast__sim_pool_open(fast_sim *sim);
void fast__sim_pool_close(fast_sim *sim);
void fast__sim_run_works(fast_sim *sim); /* those of this instant; then their actors charge */
void fast__sim_forget_work(fast_sim *sim, fast_sim_actor *actor); /* it crashed before it ran */

/* open.c */
fast_err fast__sim_open(const fast_actors_config *config, const fast_role *roles,
                        int64_t role_count, fast_world **world_out);
void fast__sim_close(fast_world *world);
/* Free what is still under way: once the run is over nobody waits for it. */
void fast__sim_drop_events(fast_sim *sim);
void fast__sim_tell_now(fast_sim *sim, void *tell); /* what a FAST_SIM_TELL does */

/* sim.c: let an actor that was stopped unwind. */
void fast__sim_run_ghost(fast_sim *sim, fast_sim_actor *actor);
/* Let an actor go on now; leave the thread to the scheduler, until resumed. */
void fast__sim_resume(fast_sim *sim, fast_sim_actor *actor);
/* Let a busy actor go on at `time`. */
void fast__sim_resume_at(fast_sim *sim, fast_sim_actor *actor, int64_t time, fast_sim_kind kind);
fast_err fast__sim_block(fast_sim_actor *actor, fast_sim_state state);
/* Mix an event into the trace hash. */
void fast__sim_trace(fast_sim *sim, uint64_t kind, int64_t who, int64_t whom, uint64_t tag,
                     uint64_t size);
/* Give up: every actor is stopped, and the run returns this. */
void fast__sim_fail(fast_sim *sim, fast_err err);
