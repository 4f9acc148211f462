/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * actor.h - programs of actors that exchange messages, on any transport. The rules of fast.h hold.
 *
 *     static fast_err hello(fast_actor *actor, void *ctx)
 *     {
 *         fast_msg *msg = NULL;
 *         fast_err err = FAST_OK;
 *         if (fast_actor_id(actor) == 1) {
 *             err = fast_msg_new(actor, 7, &msg);
 *             return err ? err : fast_send(actor, 0, &msg);
 *         }
 *         err = fast_receive(actor, 1, 7, FAST_SOON, &msg);
 *         fast_msg_free(msg);
 *         return err;
 *     }
 *     const fast_role roles[] = { { "worker", 2, hello, NULL } };
 *     if (fast_actors_run((const char *[]){ "transport=sim", NULL }, roles, 1, NULL) != FAST_OK)
 *         puts(fast_error_detail());
 *
 * An actor is a sequential program with a number, a role, a mailbox, a clock and a random stream;
 * it lives on a node. It is written as a blocking straight-line program. The transport decides what
 * runs it: a thread (`threads`), a coroutine in virtual time (`sim`), a thread of a rank (`mpi`).
 *
 *   Threads    A fast_actor may be used by its own program only.
 *   Delivery   In order and exactly once for each pair of actors while both are up. Only messages
 *              marked unreliable may vanish, double or overtake.
 *   Deadlines  Every wait has one: a time of fast_now(), or FAST_SOON (the run's timeout from now),
 *              or FAST_AT_ONCE (do not wait). When it passes, the call fails with FAST_ETIMEDOUT
 *              and fast_error_detail() names who waited for whom, at which step, for what, and who
 *              is at the end of the chain of waits.
 *   Crashes    FAST_EPEER: the peer is down as far as this actor can tell. FAST_ECANCELED: this
 *              actor itself was stopped (a crash in `sim`, a canceled run): every further call
 *              fails the same way and reaches nobody, so that the program frees what it has and
 *              returns.
 */

#include "fast/fast.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fast_actor fast_actor;

/* An actor's program. What it returns is the actor's end: FAST_OK, or why it gave up. */
typedef fast_err fast_actor_fn(fast_actor *actor, void *ctx);

/* Actors of one kind. They are numbered through all roles in their order. */
typedef struct fast_role {
    const char *name;    /* "worker", "server", ... */
    int64_t count;       /* of actors, at least 1 */
    fast_actor_fn *main; /* runs once for each; in `sim` again after a restart */
    void *ctx;           /* given to each; shared by the actors of one process */
} fast_role;

/* What a run of actors measured. */
typedef struct fast_actors_result {
    int64_t time_ns;        /* from the first start to the last end, by the transport's clock */
    int64_t actor_count;    /* of all processes */
    int64_t ended_count;    /* actors of this process whose program returned FAST_OK */
    int64_t messages_sent;  /* of this process's actors, like all that follows */
    int64_t bytes_sent;     /* with what was declared and not carried */
    int64_t messages_stale; /* dropped: of an old generation */
    int64_t messages_lost;  /* unreliable ones that vanished, and those to actors that are gone */
    int64_t copies;         /* payloads that were copied on their way */
    int64_t compute_ns;     /* charged or spent in fast_compute() and fast_charge() */
    int64_t wait_ns;        /* blocked */
    int64_t events;         /* sim: events of the simulation */
    uint64_t trace_hash;    /* sim: of all events' times, actors, tags and sizes; else 0 */
} fast_actors_result;

/* Run every actor to its end. Options are "name=value", ended by NULL: those of
 * fast_part_list("actors"), all optional: transport, seed, timeout, cluster, faults, trace,
 * check... Returns the first failure by actor number, its detail begins with "worker 3: ";
 * *result_out, which may be NULL, is filled in every case once the actors ran. On `mpi` every rank
 * calls it alike. */
FAST_API FAST_MUST_CHECK fast_err fast_actors_run(const char *const *options,
                                                  const fast_role *roles, int64_t role_count,
                                                  fast_actors_result *result_out);

/* Who this actor is, and who the others are. */
FAST_API int64_t fast_actor_id(const fast_actor *actor);    /* from 0 */
FAST_API int64_t fast_actor_count(const fast_actor *actor); /* of all roles and processes */
FAST_API const char *fast_actor_role(const fast_actor *actor, int64_t id);
FAST_API int64_t fast_actor_index(const fast_actor *actor, int64_t id);       /* within its role */
FAST_API int64_t fast_actor_node(const fast_actor *actor, int64_t id);        /* where it lives */
FAST_API int64_t fast_actor_first(const fast_actor *actor, const char *role); /* number, or -1 */
FAST_API int64_t fast_actor_size(const fast_actor *actor, const char *role);  /* 0: no such role */
FAST_API int64_t fast_actor_life(const fast_actor *actor); /* 0, and one more for each restart */

/* True if the two share memory: what one writes to a fast_actor_share() the other can read. */
FAST_API bool fast_actor_is_near(const fast_actor *actor, int64_t id);

/* What the actor is about, for errors and timelines: its step, and what it exchanges ("weights").
 * `what` is copied, cut at 47 bytes; NULL leaves it. */
FAST_API void fast_actor_at(fast_actor *actor, int64_t step, const char *what);

/* The transport's clock: nanoseconds since the run began. A node's clock may jump in `sim`. */
FAST_API int64_t fast_now(fast_actor *actor);

/* The next number of the actor's own random stream: of (seed, actor, life), on any transport. */
FAST_API uint64_t fast_random(fast_actor *actor);

enum {
    FAST_ANY = -1,    /* receive: from any actor */
    FAST_SOON = 0,    /* a deadline: the run's timeout from now */
    FAST_AT_ONCE = -1 /* a deadline: do not wait */
};

/* Do nothing until `time` of fast_now(), but serve what was posted. FAST_ECANCELED. */
FAST_API FAST_MUST_CHECK fast_err fast_sleep_until(fast_actor *actor, int64_t time);

/*
 * Memory for messages. A buffer is private (one owner, who may write) or frozen (counted,
 * read-only, shared). It never moves and is never copied between actors that share memory.
 */
typedef struct fast_buffer fast_buffer;

/* A private buffer of at least `size` bytes, not cleared. FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_buffer_new(fast_actor *actor, size_t size,
                                                  fast_buffer **out);
/* Freeze it: from now on it is read-only for everyone, for good. */
FAST_API void fast_buffer_freeze(fast_buffer *buffer);
/* One more holder of a frozen buffer; returns it. [any thread] */
FAST_API fast_buffer *fast_buffer_hold(fast_buffer *buffer);
/* Let go of it; the last holder gives it back. NULL is allowed. [any thread] */
FAST_API void fast_buffer_free(fast_buffer *buffer);
FAST_API void *fast_buffer_data(fast_buffer *buffer); /* to be read only once it is frozen */
FAST_API size_t fast_buffer_size(const fast_buffer *buffer);
FAST_API bool fast_buffer_is_frozen(const fast_buffer *buffer);

enum { FAST_MSG_WORDS = 6, FAST_MSG_PARTS_MAX = 4 };
#define FAST_MSG_DECLARED_MAX \
    ((size_t)1 << 50) /* more than anyone sends, and sums do not overflow */

/* Tags of programs are below this; those above belong to groups and spaces. */
#define FAST_TAG_MAX ((uint64_t)1 << 32)
#define FAST_TAG_ANY UINT64_MAX /* receive: any tag below FAST_TAG_MAX */

/* A stretch of a buffer. */
typedef struct fast_msg_part {
    fast_buffer *buffer; /* held by the message */
    size_t offset;       /* of the stretch in it */
    size_t size;         /* of the stretch */
} fast_msg_part;

/* A message: a header and up to four parts. The header's words are the sender's to use. What small
 * messages need is in the first two cache lines. */
typedef struct fast_msg {
    int64_t from;                            /* set when it is sent */
    int64_t to;                              /* likewise */
    uint64_t tag;                            /* what it is matched by */
    size_t declared;                         /* bytes that travel in price only: not carried */
    int part_count;                          /* of parts in use */
    uint32_t generation;                     /* of the group it belongs to; 0: of none */
    bool unreliable;                         /* may vanish, double or overtake */
    struct fast_msg *next;                   /* the transport's: a link */
    void *origin;                            /* the transport's: the pool that it goes back to */
    int64_t words[FAST_MSG_WORDS];           /* small things need no part */
    struct fast_msg *back;                   /* the transport's: the link in the other direction */
    struct fast_msg *chain;                  /* the transport's: a second link, for matching */
    uint64_t stamp;                          /* order of arrival */
    fast_msg_part parts[FAST_MSG_PARTS_MAX]; /* moved or frozen, never copied */
    uint64_t proof;                          /* the checking wrapper's */
    int64_t sent;                            /* the transport's: when, where time is virtual */
} fast_msg;

/* An empty message. FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_msg_new(fast_actor *actor, uint64_t tag, fast_msg **out);
/* Add a part: the whole buffer moves in, private or frozen. At most FAST_MSG_PARTS_MAX. */
FAST_API void fast_msg_add(fast_msg *msg, fast_buffer **move);
/* Add a stretch of a frozen buffer, which stays the caller's too. */
FAST_API void fast_msg_add_view(fast_msg *msg, fast_buffer *frozen, size_t offset, size_t size);
/* Take part `i` out as it is, to write to it if it is private; the message keeps none. */
FAST_API fast_buffer *fast_msg_take(fast_msg *msg, int i);
FAST_API const void *fast_msg_data(const fast_msg *msg, int i); /* of part i */
FAST_API size_t fast_msg_size(const fast_msg *msg);             /* header, parts and declared */
FAST_API void fast_msg_free(fast_msg *msg);                     /* NULL is allowed */

/* Send. Takes *move in every case; never blocks. FAST_EPEER if `to` is down: not sent. FAST_EINVAL
 * if it declares more than FAST_MSG_DECLARED_MAX. FAST_ECANCELED. A message to oneself is delivered
 * like any other. */
FAST_API FAST_MUST_CHECK fast_err fast_send(fast_actor *actor, int64_t to, fast_msg **move);

/* Receive the oldest message from `from` (or FAST_ANY) with `tag`. The caller frees it. Blocks
 * until the deadline: FAST_ETIMEDOUT. FAST_EPEER at once if `from` is down and nothing of it is
 * left, or if nobody else is up. FAST_ECANCELED. */
FAST_API FAST_MUST_CHECK fast_err fast_receive(fast_actor *actor, int64_t from, uint64_t tag,
                                               int64_t deadline, fast_msg **out);

/* Serve the messages of a tag in all waits of this actor, whatever it waits for: `serve` is called
 * for each in the order of arrival. It may send and charge, not wait; the message is freed after
 * it, unless it was taken and *move set to NULL. A failure ends the service. FAST_ENOMEM. */
typedef struct fast_service fast_service;
typedef fast_err fast_serve_fn(void *ctx, fast_msg **move);
FAST_API FAST_MUST_CHECK fast_err fast_serve(fast_actor *actor, uint64_t tag, fast_serve_fn *serve,
                                             void *ctx, fast_service **out);
/* Serve what has arrived; how the service failed, if it did. */
FAST_API FAST_MUST_CHECK fast_err fast_service_poll(fast_service *service);
FAST_API void fast_service_end(fast_service *service); /* NULL is allowed */

/* Membership, as this actor sees it: `down` is a suspicion and may be revoked by `up`. */
typedef struct fast_member {
    int64_t id;      /* of whom */
    bool down;       /* or up again */
    bool ended;      /* its program returned: it does not come back */
    int64_t culprit; /* whom it gave up on, when it failed for another; or -1 */
    int64_t time;    /* when this actor heard of it */
} fast_member;

/* The next change that this actor has not seen; false if there is none. Never blocks. */
FAST_API bool fast_member_next(fast_actor *actor, fast_member *out);
FAST_API bool fast_member_is_down(const fast_actor *actor, int64_t id);

/*
 * Computing. What is computed for real takes the time that a transport says: on `threads` and `mpi`
 * as long as it takes, on `sim` what the node's speed and memory make of its cost.
 */

/* Charge arithmetic operations and bytes moved through memory. On `sim` other actors go on
 * meanwhile; elsewhere it only counts. FAST_ECANCELED. */
FAST_API FAST_MUST_CHECK fast_err fast_charge(fast_actor *actor, double operations, double bytes);

/* A piece of computing that is atomic: it never blocks and no call of the actor is made inside. */
typedef struct fast_work fast_work;
typedef void fast_report_fn(void *ctx, int64_t offset, int64_t count);
struct fast_work {
    fast_err (*run)(fast_work *work); /* the computing; in `sim` perhaps on a thread of a pool */
    fast_report_fn *report;           /* called for each fast_work_report(), by the actor, which may
                                         post there (start collectives), not block; or NULL */
    void *ctx;                        /* for report */
    const char *name;                 /* for timelines: "gradient" */
    double operations;                /* cost, set before or by run() */
    double bytes;                     /* likewise */
    void *recorder;                   /* the transport's */
};

/* Do the work and charge it. Returns what run() returned, or FAST_ECANCELED. */
FAST_API FAST_MUST_CHECK fast_err fast_compute(fast_actor *actor, fast_work *work);

/* From inside run(): the range is ready, after `operations` of the work's cost. On `sim` the report
 * is replayed at its virtual time. */
FAST_API void fast_work_report(fast_work *work, double operations, int64_t offset, int64_t count);

/* Memory shared by the near actors that ask for the same key, cleared when it is made, until the
 * run ends. FAST_EINVAL if another size was asked for, FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_actor_share(fast_actor *actor, uint64_t key, size_t size,
                                                   void *out);

/* Around every look at, and every change of, shared memory that others may change meanwhile: a
 * piece of work that waits for nobody, sends nothing and is not inside another. Does nothing,
 * unless the run is recorded or replayed (record=FILE, replay=FILE): then pieces with equal keys
 * come one after the other, in a replay in the order of the recording. `key` is the memory's, or
 * any number that is the same in every run. */
FAST_API void fast_turn_begin(fast_actor *actor, uint64_t key);
FAST_API void fast_turn_end(fast_actor *actor);

#ifdef __cplusplus
}
#endif
