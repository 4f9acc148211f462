/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/fiber.h"
#include "transport/share.h"
#include "transport/sim/cluster.h"
#include "transport/transport.h"

/*
 * The simulator's world. One thread runs everything: it takes the earliest event, moves the clock
 * there and resumes at most one actor, until that actor waits, computes or ends.
 *
 *   event    (time, order) -> action: a message arrives, a charge ends, a fault strikes
 *   timer    at most one for each actor, in a heap of its own: the deadline of its wait
 *   time     integer nanoseconds since the run started; a fault may shift the clock of a node
 *
 * Files: sim.c the scheduler and the transport's operations, open.c worlds and the effects of
 * faults on them, queue.c events and timers, fiber.c coroutines, sim_network.c the cost of a
 * message, sim_compute.c charges and works, cluster*.c descriptions of clusters, fault*.c faults.
 * All of it is deterministic: a pure function of programs, options, cluster and seed.
 */
typedef struct fast_sim fast_sim;
typedef struct fast_sim_actor fast_sim_actor;

/* The kind of an event; `what` is its operand. */
typedef enum fast_sim_kind {
    FAST_SIM_ARRIVE,  /* a fast_msg is complete at its receiver */
    FAST_SIM_HEAD,    /* the first byte of a fast_msg reached a receiver with a shared link */
    FAST_SIM_RESUME,  /* the charge, sleep or pause of an actor is over */
    FAST_SIM_START,   /* the program of an actor starts */
    FAST_SIM_CALL,    /* a fast_sim_call is due */
    FAST_SIM_STARTER, /* a fast_sim_call that starts an actor is due */
    FAST_SIM_TELL     /* a membership event, made by fast__sim_tell() */
} fast_sim_kind;

typedef struct fast_sim_event {
    int64_t time;   /* virtual nanoseconds */
    uint64_t order; /* serial number times 8, plus the kind: decides among equal times */
    void *what;     /* operand, by kind */
} fast_sim_event;

/* Messages that were scheduled in the order in which they arrive: see queue.c. */
enum { FAST_SIM_LANES = 2 };
typedef struct fast_sim_lane {
    fast_sim_event *events; /* a ring */
    int64_t first;          /* index of the earliest event */
    int64_t count;          /* events in the ring */
    int64_t room;           /* events that fit, a power of two; 0: not allocated */
} fast_sim_lane;

/* A callback at a time, on the scheduler's stack: faults are made of these. The memory is the
 * caller's and must live until the call. */
typedef struct fast_sim_call {
    void (*run)(fast_sim *sim, struct fast_sim_call *call);
} fast_sim_call;

typedef enum fast_sim_state {
    FAST_SIM_UNBORN,  /* not started */
    FAST_SIM_RUNNING, /* it has the thread, or will have it at this instant */
    FAST_SIM_WAITING, /* in wait(): a message, a wake() or its deadline resumes it */
    FAST_SIM_BUSY,    /* charging, computing or paused: only its own event resumes it */
    FAST_SIM_OVER     /* its program returned, or it crashed */
} fast_sim_state;

/* The state of a node during a run. */
typedef struct fast_sim_node {
    fast_node_spec spec;  /* speed, memory, jitter, cores */
    double slow;          /* charges take this many times as long; 1: normal */
    int64_t clock_ns;     /* added to the time that its actors see */
    int64_t out_free;     /* when its outgoing link is free */
    int64_t in_free;      /* when its incoming link is free */
    int64_t paused_until; /* it does not run before; 0: not paused */
    int64_t paused_ns;    /* sum of all its pauses so far */
    bool lies;            /* outgoing payloads go through fast_sim.alter */
    int64_t *core_free;   /* when each core is free; NULL: cores are no limit */
    fast_rng rng;         /* jitter of speed */
    fast_share *shares;   /* memory shared by its actors */
} fast_sim_node;

/* The last arrival at one receiver, so that pairs stay in order. */
typedef struct fast_sim_pair {
    int64_t to;          /* receiver, plus 1; 0: an empty slot */
    int64_t last;        /* when the newest message arrives */
    int64_t done;        /* when the newest message has arrived whole, on links with packets */
    int64_t stream_free; /* when the connection has sent all bytes, at its own bandwidth */
} fast_sim_pair;

/* Last arrivals by receiver: open addressing, at most half full. */
typedef struct fast_sim_pairs {
    fast_sim_pair *slots; /* [room] */
    int64_t count;        /* slots in use */
    int64_t room;         /* slots, a power of two; 0: not allocated */
} fast_sim_pairs;

/* A fast_work_report() that waits to be replayed at its virtual time. */
typedef struct fast_sim_report {
    double operations; /* of the work, done by then */
    int64_t offset;    /* first element that is ready */
    int64_t count;     /* elements that are ready */
} fast_sim_report;

/* An actor's fast_compute() call. */
typedef struct fast_sim_job {
    fast_report_sink sink;    /* stores the work's reports */
    fast_work *work;          /* requested at this instant, or NULL */
    fast_err err;             /* result of the work's run() */
    fast_err sink_err;        /* FAST_ENOMEM if a report could not be stored */
    fast_sim_report *reports; /* [report_room] */
    int64_t report_count;     /* reports in use */
    int64_t report_room;      /* reports that fit */
    fast_sim_actor *next;     /* in the list of works of this instant */
} fast_sim_job;

struct fast_sim_actor {
    fast_actor base;      /* first: the part that all transports share */
    fast_fiber fiber;     /* its stack */
    fast_sim_node *node;  /* where it lives */
    fast_sim_state state; /* decides which events resume it */
    bool woken;           /* wake() was called while it was not waiting */
    uint64_t resume;      /* order of the event that resumes it; any other event is stale */
    int64_t polls;        /* in a row, without a wait or a charge between */
    int64_t polled_at;    /* time of the first of these polls */
    int64_t deadline;     /* of its wait, in the simulation's time */
    int64_t timer;        /* its key in the heap of timers; never later than deadline */
    int64_t timer_slot;   /* its index in the heap of timers */
    int64_t paused_ns;    /* its node's paused_ns when its charge started */
    int64_t start_ns;     /* when its program starts */
    int64_t crashed_ns;   /* when it crashed last; 0: never */
    fast_sim_pairs pairs; /* the actors that it sent to */
    fast_rng rng;         /* jitter and loss of the messages that it sends */
    fast_sim_job job;     /* its fast_compute() call */
};

/* Mishaps of the network, counted for tests. */
typedef struct fast_sim_counters {
    int64_t retransmits; /* transmissions that were lost and sent again */
    int64_t duplicates;  /* second copies, dropped if the message is reliable */
    int64_t reordered;   /* messages that were delayed at random */
    int64_t held;        /* messages that waited for a cut link */
} fast_sim_counters;

/* Events and timers: queue.c. */
typedef struct fast_sim_queue {
    uint64_t order;                      /* serial number of the next event */
    fast_sim_event *heap;                /* a 4-ary heap */
    int64_t heap_count;                  /* events in the heap */
    int64_t heap_room;                   /* events that fit */
    fast_sim_lane lanes[FAST_SIM_LANES]; /* beside the heap: FAST_SIM_ARRIVE, FAST_SIM_HEAD */
    fast_sim_actor **timers;             /* a 4-ary heap of all actors by their timers */
} fast_sim_queue;

/* Links and the messages that wait for one: sim_network.c. */
typedef struct fast_sim_network {
    fast_sim_link *zone_links;   /* [zone_count][zone_count] */
    struct fast_sim_edit *edits; /* links of single pairs of nodes: open addressing */
    int64_t edit_count;          /* slots in use */
    int64_t edit_room;           /* slots, a power of two; 0: not allocated */
    fast_msg_queue stuck;        /* messages that wait for a cut link */
    fast_sim_counters counters;  /* mishaps so far */
} fast_sim_network;

/* Works requested at this instant: sim_compute.c. */
typedef struct fast_sim_works {
    fast_sim_actor *first;      /* the oldest request; NULL: no work is requested */
    fast_sim_actor **end;       /* where the next request is linked */
    struct fast_sim_pool *pool; /* threads that compute; NULL: the scheduler's thread does */
} fast_sim_works;

struct fast_sim {
    fast_world base;              /* first: the part that all transports share */
    fast_cluster *cluster;        /* as described */
    fast_sim_node *nodes;         /* [node_count] state during the run */
    int64_t node_count;           /* nodes of the cluster */
    fast_sim_actor *actors;       /* [base.count] */
    fast_sim_actor *running;      /* the actor that has the thread; NULL: the scheduler */
    int64_t now;                  /* the clock */
    int64_t alive;                /* actors that are neither over nor waiting to restart */
    int64_t pending;              /* calls of fast__sim_at() that may still start an actor */
    fast_sim_queue queue;         /* events and timers */
    fast_sim_works works;         /* works of this instant */
    fast_sim_network network;     /* links */
    fast_stacks stacks;           /* of the actors' fibers */
    fast_err err;                 /* why the simulation itself failed */
    char detail[FAST_DETAIL_MAX]; /* text of err */
    void *faults;                 /* state of the fault schedule; NULL: no faults */
    /* Falsify a message that a lying node sends; set with the first lying node. */
    void (*alter)(fast_sim *sim, fast_sim_actor *from, fast_msg *msg);
};

/*
 * For faults. All of these run on the scheduler's stack: from a fast_sim_call, or before the run.
 */

/* Call `call` at `time`, which is not in the past. A run ends when all actors are over and no call
 * is left that was marked as `starts`: one that starts an actor. */
void fast__sim_at(fast_sim *sim, int64_t time, fast_sim_call *call, bool starts);

/* Stop an actor: its pending call and every later one return FAST_ECANCELED; the program unwinds at
 * this instant and reaches no other actor. Messages to it are lost from now on. */
void fast__sim_crash(fast_sim *sim, int64_t id);
/* Start a crashed actor again, with one more life, an empty mailbox and a fresh stack. */
void fast__sim_restart(fast_sim *sim, int64_t id);
/* Before the run: start an actor at `time` instead of 0. */
void fast__sim_start_late(fast_sim *sim, int64_t id, int64_t time);

/* Pause a node until `until`; messages arrive but no actor receives them. */
void fast__sim_pause(fast_sim *sim, int64_t node, int64_t until);
/* Let charges that start from now on take `factor` times as long; 1 is normal. */
void fast__sim_slow(fast_sim *sim, int64_t node, double factor);
/* Shift the clock that the node's actors see, never below 0. */
void fast__sim_clock_jump(fast_sim *sim, int64_t node, int64_t delta_ns);

/* Return a private copy of this direction's link, to be changed. `cut` holds reliable messages back
 * and loses unreliable ones. `contention` must stay, or messages would overtake. Returns NULL only
 * without memory: then the run ends with FAST_ENOMEM. */
fast_sim_link *fast__sim_link_edit(fast_sim *sim, int64_t from, int64_t to);
/* After links were mended: deliver the messages that waited on links that are no longer cut. */
void fast__sim_links_mended(fast_sim *sim);

/* Deliver FAST_TAG_DOWN or FAST_TAG_UP about an actor to another one, or, with `to` = FAST_ANY, to
 * all that are up, `delay_ns` from now (usually cluster->detection_ns). */
void fast__sim_tell(fast_sim *sim, int64_t to, int64_t about, bool down, int64_t delay_ns);

/* fault_plan.c: read config.faults, which may be empty, and schedule it; free it. */
fast_err fast__faults_open(fast_sim *sim);
void fast__faults_close(fast_sim *sim);

/*
 * Between the simulator's own files.
 */

/* queue.c: schedule an event; false, and the run fails, without memory. */
bool fast__sim_push(fast_sim *sim, int64_t time, fast_sim_kind kind, void *what);
/* Return the time of the earliest event; INT64_MAX if the queue is empty. */
int64_t fast__sim_next(const fast_sim *sim);
/* Remove the earliest event of a queue that is not empty. */
fast_sim_event fast__sim_pop(fast_sim *sim);
/* Free the queue and every message in it. */
void fast__sim_queue_close(fast_sim *sim);
/* Set the deadline of an actor's wait. */
void fast__sim_timer_set(fast_sim *sim, fast_sim_actor *actor, int64_t deadline);
/* Return the actor whose deadline is first, or NULL if no actor waits with a deadline. */
fast_sim_actor *fast__sim_timer_first(fast_sim *sim);

/* sim_network.c: return the link from one node to another. */
const fast_sim_link *fast__sim_link(const fast_sim *sim, const fast_sim_node *from,
                                    const fast_sim_node *to);
/* transport->send and transport->on_way. */
void fast__sim_send(fast_actor *actor, fast_msg *msg);
bool fast__sim_on_way(fast_actor *actor, int64_t to);
/* Handle FAST_SIM_HEAD and FAST_SIM_ARRIVE. Both take the message. */
void fast__sim_head(fast_sim *sim, fast_msg *msg);
void fast__sim_arrive(fast_sim *sim, fast_msg *msg);
fast_err fast__sim_network_open(fast_sim *sim);
void fast__sim_network_close(fast_sim *sim);

/* sim_compute.c: transport->charge and transport->compute. */
fast_err fast__sim_charge(fast_actor *actor, double operations, double bytes);
fast_err fast__sim_compute(fast_actor *actor, fast_work *work);
fast_err fast__sim_pool_open(fast_sim *sim);
void fast__sim_pool_close(fast_sim *sim);
/* Run the works of this instant; their actors charge the cost afterwards. */
void fast__sim_run_works(fast_sim *sim);
/* Withdraw the work of an actor that crashed before it ran. */
void fast__sim_forget_work(fast_sim *sim, fast_sim_actor *actor);

/* open.c: transport->open and transport->close. */
fast_err fast__sim_open(const fast_actors_config *config, const fast_role *roles,
                        int64_t role_count, fast_world **world_out);
void fast__sim_close(fast_world *world);
/* Free all events and their messages: after the run no actor waits for them. */
void fast__sim_drop_events(fast_sim *sim);
/* Handle FAST_SIM_TELL. Takes `news`. */
void fast__sim_tell_now(fast_sim *sim, void *news);

/* sim.c: run an actor that was stopped until its program has returned. */
void fast__sim_unwind(fast_sim *sim, fast_sim_actor *actor);
/* Continue an actor now, or after its node's pause. */
void fast__sim_resume(fast_sim *sim, fast_sim_actor *actor);
/* Continue a busy actor at `time`. */
void fast__sim_resume_at(fast_sim *sim, fast_sim_actor *actor, int64_t time, fast_sim_kind kind);
/* Leave the thread to the scheduler until the actor is resumed. FAST_ECANCELED. */
fast_err fast__sim_block(fast_sim_actor *actor, fast_sim_state state);
/* Mix an event into the trace hash. */
void fast__sim_trace(fast_sim *sim, uint64_t kind, int64_t who, int64_t whom, uint64_t tag,
                     uint64_t size);
/* End the run with `err` and its detail: every actor is stopped. */
void fast__sim_fail(fast_sim *sim, fast_err err);
