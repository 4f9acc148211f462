/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * comm.h - actors that exchange messages on any transport, groups with collectives, and topologies:
 * moving tensors without a strategy or a model. The rules of fast.h hold; space.h has spaces.
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
 * it lives on a node. It is written as a blocking straight-line program. The transport decides how
 * it runs: as a thread (`threads`; alone in the caller's), a coroutine in virtual time (`sim`), a
 * thread of a rank (`mpi`).
 *
 *   Threads    A fast_actor may be used by its own program only.
 *   Delivery   In order and exactly once for each pair of actors while both are up. Only messages
 *              marked unreliable may vanish, double or overtake.
 *   Deadlines  Every wait has one: a time of fast_now(), or FAST_SOON (the run's timeout from now),
 *              or FAST_AT_ONCE (do not wait). When it passes, the call fails with FAST_ETIMEDOUT
 *              and fast_error_detail() names the actor that waited, the actor it waited for, the
 *              step, the tensor, and the actor at the end of the chain of waits.
 *   Crashes    FAST_EPEER: the peer is down as far as this actor can tell. FAST_ECANCELED: this
 *              actor itself was stopped (a crash in `sim`, a canceled run): every further call
 *              fails with it and reaches no other actor, so that the program frees its memory and
 *              returns.
 */

#include "fast/fast.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fast_actor fast_actor;

/* An actor's program. The actor ends with its result: FAST_OK, or an error with its detail. */
typedef fast_err fast_actor_fn(fast_actor *actor, void *ctx);

/* Actors of one kind. Actors are numbered consecutively through all roles, in their order. */
typedef struct fast_role {
    const char *name;    /* "worker", "server", ... */
    int64_t count;       /* number of actors, at least 1 */
    fast_actor_fn *main; /* runs once for each actor; in `sim` again after a restart */
    void *ctx;           /* passed to main; shared by the actors of one process */
} fast_role;

/* Measurements of a run of actors. */
typedef struct fast_actors_result {
    int64_t time_ns;        /* from the first start to the last end, on the transport's clock */
    int64_t actor_count;    /* actors of all processes */
    int64_t ended_count;    /* actors of this process whose program returned FAST_OK */
    int64_t messages_sent;  /* by this process's actors, like all fields below */
    int64_t bytes_sent;     /* headers, parts and declared bytes */
    int64_t messages_stale; /* dropped because their group was of an old generation */
    int64_t messages_lost;  /* vanished unreliable messages, and messages to ended actors */
    int64_t copies;         /* payloads that the transport copied */
    int64_t compute_ns;     /* charged or spent in fast_compute() and fast_charge() */
    int64_t wait_ns;        /* blocked in waits */
    int64_t events;         /* sim: events of the simulation */
    uint64_t trace_hash;    /* sim: hash of all events' times, actors, tags and sizes; else 0 */
} fast_actors_result;

/* Run every actor to its end. `options` are "name=value", ended by NULL; fast_part_list("actors")
 * lists them: transport, seed, timeout, cluster, faults, trace, check... All are optional. Returns
 * the first failure by actor number; its detail begins with "worker 3: ". *result_out, which may be
 * NULL, is set in every case once the actors ran. On `mpi` every rank calls it with the same
 * arguments. */
FAST_API FAST_MUST_CHECK fast_err fast_actors_run(const char *const *options,
                                                  const fast_role *roles, int64_t role_count,
                                                  fast_actors_result *result_out);

/* The identity of this actor and of any other. */
FAST_API int64_t fast_actor_id(const fast_actor *actor);    /* from 0 */
FAST_API int64_t fast_actor_count(const fast_actor *actor); /* in all roles and processes */
FAST_API const char *fast_actor_role(const fast_actor *actor, int64_t id);
FAST_API int64_t fast_actor_index(const fast_actor *actor, int64_t id);       /* within its role */
FAST_API int64_t fast_actor_node(const fast_actor *actor, int64_t id);        /* of the actor */
FAST_API int64_t fast_actor_first(const fast_actor *actor, const char *role); /* -1: no such role */
FAST_API int64_t fast_actor_size(const fast_actor *actor, const char *role);  /* 0: no such role */
FAST_API int64_t fast_actor_life(const fast_actor *actor); /* number of restarts */

/* True if this actor and `id` share memory: each reads what the other writes to a
 * fast_actor_share() block. */
FAST_API bool fast_actor_is_local(const fast_actor *actor, int64_t id);

/* Set the actor's step and the name of what it exchanges ("weights"), for errors and timelines.
 * `what` is copied and cut at 47 bytes; NULL leaves the name unchanged. */
FAST_API void fast_actor_at(fast_actor *actor, int64_t step, const char *what);

/* Return the transport's clock: nanoseconds since the run started. In `sim` a fault may let the
 * clock of a node jump. */
FAST_API int64_t fast_now(fast_actor *actor);

/* Return the next number of the actor's own random stream, keyed by (seed, actor, life). */
FAST_API uint64_t fast_random(fast_actor *actor);

enum {
    FAST_ANY = -1,    /* receive: from any actor */
    FAST_SOON = 0,    /* a deadline: the run's timeout from now */
    FAST_AT_ONCE = -1 /* a deadline: do not wait */
};

/* Sleep until `time` of fast_now(); posted collectives and services make progress. FAST_ECANCELED.
 * */
FAST_API FAST_MUST_CHECK fast_err fast_sleep_until(fast_actor *actor, int64_t time);

/*
 * Memory for messages. A buffer is private (one owner, which may write) or frozen (counted,
 * read-only, shared). It never moves and is never copied between actors that share memory.
 */
typedef struct fast_buffer fast_buffer;

/* Allocate a private buffer of at least `size` bytes, not cleared. FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_buffer_new(fast_actor *actor, size_t size,
                                                  fast_buffer **out);
/* Make the buffer read-only, for every holder and for good. */
FAST_API void fast_buffer_freeze(fast_buffer *buffer);
/* Add a holder to a frozen buffer; returns the buffer. [any thread] */
FAST_API fast_buffer *fast_buffer_hold(fast_buffer *buffer);
/* Remove a holder; the last one frees the buffer. NULL is allowed. [any thread] */
FAST_API void fast_buffer_free(fast_buffer *buffer);
FAST_API void *fast_buffer_data(fast_buffer *buffer); /* read-only once it is frozen */
FAST_API size_t fast_buffer_size(const fast_buffer *buffer);
FAST_API bool fast_buffer_is_frozen(const fast_buffer *buffer);

enum { FAST_MSG_WORDS = 6, FAST_MSG_PARTS_MAX = 4 };
#define FAST_MSG_DECLARED_MAX ((size_t)1 << 50) /* sums of it do not overflow */

/* Tags of programs are below this; tags from here on belong to groups and spaces. */
#define FAST_TAG_MAX ((uint64_t)1 << 32)
#define FAST_TAG_ANY UINT64_MAX /* receive: any tag below FAST_TAG_MAX */

/* A range of bytes of a buffer. */
typedef struct fast_msg_part {
    fast_buffer *buffer; /* held by the message */
    size_t offset;       /* of the first byte */
    size_t size;         /* number of bytes */
} fast_msg_part;

/* A message: a header and up to four parts. Make it with fast_msg_new(): the transport keeps fields
 * of its own beside it. */
typedef struct fast_msg {
    int64_t from;                            /* sender; set by fast_send() */
    int64_t to;                              /* receiver; set by fast_send() */
    uint64_t tag;                            /* matched by fast_receive() */
    size_t declared;                         /* bytes that are charged but not transferred */
    int part_count;                          /* number of parts in use */
    uint32_t generation;                     /* of its group; 0: it belongs to no group */
    bool unreliable;                         /* it may vanish, double or overtake */
    bool in_flight;                          /* the transport's: counted as not yet delivered */
    int64_t words[FAST_MSG_WORDS];           /* the sender's to use: small values need no part */
    fast_msg_part parts[FAST_MSG_PARTS_MAX]; /* moved or frozen, never copied */
} fast_msg;

/* Allocate an empty message. FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_msg_new(fast_actor *actor, uint64_t tag, fast_msg **out);
/* Add a whole buffer, private or frozen, as a part; takes it. At most FAST_MSG_PARTS_MAX. */
FAST_API void fast_msg_add(fast_msg *msg, fast_buffer **move);
/* Add a range of a frozen buffer as a part; the caller keeps its hold. */
FAST_API void fast_msg_add_view(fast_msg *msg, fast_buffer *frozen, size_t offset, size_t size);
/* Remove part `i` and return its buffer, which the caller now owns or holds. */
FAST_API fast_buffer *fast_msg_take(fast_msg *msg, int i);
FAST_API const void *fast_msg_data(const fast_msg *msg, int i); /* first byte of part i */
FAST_API size_t fast_msg_size(const fast_msg *msg); /* bytes of header and parts, and declared */
FAST_API void fast_msg_free(fast_msg *msg);         /* NULL is allowed */

/* Send a message. Takes *move in every case; never blocks. FAST_EPEER if `to` is down: not sent.
 * FAST_EINVAL if it declares more than FAST_MSG_DECLARED_MAX bytes. FAST_ECANCELED. A message to
 * the actor itself is delivered like any other. */
FAST_API FAST_MUST_CHECK fast_err fast_send(fast_actor *actor, int64_t to, fast_msg **move);

/* Receive the oldest message from `from` (or FAST_ANY) with `tag`. The caller frees it. Blocks
 * until the deadline: FAST_ETIMEDOUT. Fails at once with FAST_EPEER if `from` is down and none of
 * its messages is left, or if no other actor is up. FAST_ECANCELED. */
FAST_API FAST_MUST_CHECK fast_err fast_receive(fast_actor *actor, int64_t from, uint64_t tag,
                                               int64_t deadline, fast_msg **out);

/* Serve the messages of a tag in all waits of this actor: `serve` is called for each, in the order
 * of arrival. It may send and charge, but not wait. The message is freed after the call unless
 * *move was set to NULL. A failure ends the service. FAST_ENOMEM. */
typedef struct fast_service fast_service;
typedef fast_err fast_serve_fn(void *ctx, fast_msg **move);
FAST_API FAST_MUST_CHECK fast_err fast_serve(fast_actor *actor, uint64_t tag, fast_serve_fn *serve,
                                             void *ctx, fast_service **out);
/* Serve the messages that have arrived. Returns the failure that ended the service, if any. */
FAST_API FAST_MUST_CHECK fast_err fast_service_poll(fast_service *service);
FAST_API void fast_service_end(fast_service *service); /* NULL is allowed */

/* A membership event as this actor sees it: `down` is a suspicion, of the transport or after a wait
 * that timed out, and may be revoked. */
typedef struct fast_member {
    int64_t id;      /* the actor that changed */
    bool down;       /* false: it is up again */
    bool ended;      /* its program returned: it will not be up again */
    fast_err err;    /* the result of its program, if it ended */
    int64_t culprit; /* the actor that it failed because of; or -1 */
    int64_t time;    /* when this actor learned of it */
} fast_member;

/* Take the oldest membership event that was not taken yet; false if no event is left. Never
 * blocks. */
FAST_API bool fast_member_next(fast_actor *actor, fast_member *out);
FAST_API bool fast_member_is_down(const fast_actor *actor, int64_t id);

/*
 * Computing. On `threads` and `mpi` a computation takes the time that it takes; on `sim` its time
 * follows from its cost and the node's speed and memory bandwidth.
 */

/* Charge arithmetic operations and bytes moved through memory. On `sim` the actor is busy while
 * other actors continue; elsewhere the cost is only counted. FAST_ECANCELED. */
FAST_API FAST_MUST_CHECK fast_err fast_charge(fast_actor *actor, double operations, double bytes);

/* An atomic computation: it never blocks, and no call of the actor is made inside. */
typedef struct fast_work fast_work;
typedef void fast_report_fn(void *ctx, int64_t offset, int64_t count);
struct fast_work {
    fast_err (*run)(fast_work *work); /* the computation; in `sim` perhaps on a thread of a pool */
    fast_report_fn *report;           /* called by the actor for each fast_work_report(); it may
                                         post collectives, but not block; or NULL */
    void *ctx;                        /* passed to report */
    const char *name;                 /* for timelines: "gradient"; or NULL */
    double operations;                /* cost in operations; set before or by run() */
    double bytes;                     /* cost in bytes of memory traffic; set before or by run() */
    void *sink;                       /* reserved for the transport */
};

/* Run the work and charge its cost. Returns the result of run(), or FAST_ECANCELED. */
FAST_API FAST_MUST_CHECK fast_err fast_compute(fast_actor *actor, fast_work *work);

/* Report from inside run() that a range is ready, after `operations` of the work's cost. On `sim`
 * the report is replayed at its virtual time. */
FAST_API void fast_work_report(fast_work *work, double operations, int64_t offset, int64_t count);

/* Return the block of `size` bytes that all local actors with this `key` share; it is cleared when
 * it is made and freed when the run ends. FAST_EINVAL if another size was asked for, FAST_ENOMEM.
 * */
FAST_API FAST_MUST_CHECK fast_err fast_actor_share(fast_actor *actor, uint64_t key, size_t size,
                                                   void *out);

/* Enclose every access to shared memory that other actors may change: a critical section that does
 * not wait, send or nest. Does nothing unless the run is recorded or replayed (record=FILE,
 * replay=FILE): then sections with equal keys exclude each other, and a replay repeats their order.
 * `key` is that of the memory, or any number that is equal in every run. */
FAST_API void fast_critical_begin(fast_actor *actor, uint64_t key);
FAST_API void fast_critical_end(fast_actor *actor);

/*
 * Groups of actors and their collectives, and topologies.
 *
 *   Numbers    Vectors are float. A NULL vector with a count moves sizes without values: the cost
 *              of an exchange can be simulated without the memory that it would take.
 *   Order      Sums follow one canonical order: with n = 2^k + r members, ranks 2i and 2i+1 are
 *              added first for i < r; then the 2^k sums as a perfect binary tree, element by
 *              element. tree, butterfly, rabenseifner and direct compute exactly it; ring, chain,
 *              dimensions, native and hierarchical with members that are not whole aligned powers
 *              of two do not.
 *   Failures   A collective that failed leaves its group unusable: make a new one with the next
 *              generation.
 */

/* An ordered, immutable set of actors with a generation. */
typedef struct fast_group fast_group;

/* Every member makes the group with the same list and the same generation (from 1); two groups of
 * the same list and generation are two, made in the same order by all. Messages of older
 * generations between members are dropped and counted from then on. FAST_EINVAL if the actor is not
 * in the list, or the list names one twice. The group borrows the actor. */
FAST_API FAST_MUST_CHECK fast_err fast_group_new(fast_actor *actor, const int64_t *ids,
                                                 int64_t count, uint32_t generation,
                                                 fast_group **out);
/* All actors of a role, or all where role is NULL, as generation 1. */
FAST_API FAST_MUST_CHECK fast_err fast_group_all(fast_actor *actor, const char *role,
                                                 fast_group **out);
FAST_API void fast_group_free(fast_group *group); /* NULL is allowed */
FAST_API int64_t fast_group_rank(const fast_group *group);
FAST_API int64_t fast_group_size(const fast_group *group);
FAST_API int64_t fast_group_member(const fast_group *group, int64_t rank); /* an actor's number */
FAST_API uint32_t fast_group_generation(const fast_group *group);

/* Wait for all members. */
FAST_API FAST_MUST_CHECK fast_err fast_barrier(fast_group *group, int64_t deadline);
/* Copy `size` bytes from the root's `data` to every member's. */
FAST_API FAST_MUST_CHECK fast_err fast_broadcast(fast_group *group, int64_t root, void *data,
                                                 size_t size, int64_t deadline);
/* Sum all vectors to the root's; the other members' do not change. */
FAST_API FAST_MUST_CHECK fast_err fast_reduce(fast_group *group, int64_t root, float *x,
                                              int64_t count, int64_t deadline);
/* Replace every member's vector by the sum of all, by the group's algorithm. */
FAST_API FAST_MUST_CHECK fast_err fast_allreduce(fast_group *group, float *x, int64_t count,
                                                 int64_t deadline);
/* Set rank r's range of [0, count) for reduce-scatter and allgather: as equal as possible. */
FAST_API void fast_group_range(const fast_group *group, int64_t count, int64_t rank,
                               int64_t *offset_out, int64_t *count_out);
/* Sum all vectors; rank r gets its range of the sum in place, the rest of x is undefined. */
FAST_API FAST_MUST_CHECK fast_err fast_reduce_scatter(fast_group *group, float *x, int64_t count,
                                                      int64_t deadline);
/* Copy every rank's range to all members, in place. */
FAST_API FAST_MUST_CHECK fast_err fast_allgather(fast_group *group, float *x, int64_t count,
                                                 int64_t deadline);
/* x holds `count` floats for each rank in order; y receives as many from each. */
FAST_API FAST_MUST_CHECK fast_err fast_alltoall(fast_group *group, const float *x, int64_t count,
                                                float *y, int64_t deadline);
/* Send x to each of the ranks in `to`, receive as many floats from each of `from`, one after the
 * other, into y. */
FAST_API FAST_MUST_CHECK fast_err fast_neighbour_exchange(fast_group *group, const int64_t *to,
                                                          int64_t to_count, const int64_t *from,
                                                          int64_t from_count, const float *x,
                                                          int64_t count, float *y,
                                                          int64_t deadline);

/* How this group's allreduce works: "auto", or one of fast_part_list("allreduce"): tree, butterfly,
 * ring, chain, rabenseifner, hierarchical, dimensions, direct, native, with options
 * ("ring:chunk=65536"). auto takes the fastest of those with the canonical order by a model of the
 * transport's latency, cost per byte and cost per addition (T = alpha messages + beta bytes +
 * gamma additions), fitted by a few exchanges on first use, the same for all members. FAST_EINVAL,
 * FAST_ENOTSUP if the transport cannot. */
FAST_API FAST_MUST_CHECK fast_err fast_group_algorithm(fast_group *group, const char *spec);
/* Return the algorithm that is used for vectors of `count` floats, and the seconds that the model
 * predicts. */
FAST_API const char *fast_group_choice(fast_group *group, int64_t count, double *seconds_out);

/* A collective under way. Its actor advances it in its waits, and when its work reports. */
typedef struct fast_request fast_request;

/* Start an allreduce of x[0 .. count), which is lent until the request is done. Members start their
 * requests in the same order. */
FAST_API FAST_MUST_CHECK fast_err fast_allreduce_start(fast_group *group, float *x, int64_t count,
                                                       fast_request **out);
/* Advance everything that the actor has posted; true in *done_out once this one is finished. */
FAST_API FAST_MUST_CHECK fast_err fast_request_test(fast_request *request, bool *done_out);
/* Wait for it and free it, also when it fails. */
FAST_API FAST_MUST_CHECK fast_err fast_request_wait(fast_request **move, int64_t deadline);

/* A sparse vector: sorted distinct indices below `size`, and their values. */
typedef struct fast_sparse {
    int64_t size;    /* elements of the dense vector */
    int64_t count;   /* number of entries */
    int64_t space;   /* room for entries */
    uint32_t *index; /* of the entries, ascending */
    float *value;    /* values of the entries */
} fast_sparse;

/* Sum all sparse vectors to a dense y at every member: index-value streams are merged pairwise and
 * become dense where that is shorter (SparCML's split by density). x is lent and does not change; y
 * has x->size floats. */
FAST_API FAST_MUST_CHECK fast_err fast_allreduce_sparse(fast_group *group, const fast_sparse *x,
                                                        float *y, int64_t deadline);
/* The same, nonblocking, as fast_allreduce_start(): x is lent for the call only, y until the wait
 * for the request ends. */
FAST_API FAST_MUST_CHECK fast_err fast_allreduce_sparse_start(fast_group *group,
                                                              const fast_sparse *x, float *y,
                                                              fast_request **out);

/* A graph of ranks that exchange with each other, with weights; static, or another graph at each
 * step. */
typedef struct fast_topology fast_topology;

/* "ring", "torus:rows=4", "file:PATH": fast_part_list("topology"). Random ones are drawn from
 * `seed`. All members make the same. FAST_EINVAL if no such graph of this size exists. */
FAST_API FAST_MUST_CHECK fast_err fast_topology_new(const char *spec, int64_t size, uint64_t seed,
                                                    fast_topology **out);
FAST_API void fast_topology_free(fast_topology *topology); /* NULL is allowed */
FAST_API int64_t fast_topology_size(const fast_topology *topology);
FAST_API int64_t fast_topology_degree_max(const fast_topology *topology); /* over all steps */
FAST_API int64_t fast_topology_period(const fast_topology *topology);     /* 1: static */
/* List the ranks that `rank` sends to at `step`, and return their number. weights[i] is the share
 * of ranks[i]'s value that it takes when it mixes, *self_out the share of its own. Both arrays hold
 * fast_topology_degree_max(). Graphs are symmetric unless fast_topology_is_directed(). */
FAST_API int64_t fast_topology_out(const fast_topology *topology, int64_t step, int64_t rank,
                                   int64_t *ranks, double *weights, double *self_out);
FAST_API int64_t fast_topology_in(const fast_topology *topology, int64_t step, int64_t rank,
                                  int64_t *ranks, double *weights, double *self_out);
FAST_API bool fast_topology_is_directed(const fast_topology *topology);
/* Check the mixing weights of a step: rows and columns sum to 1, none is negative, and over a
 * period every rank is reached. FAST_EINVAL says which rank is wrong. */
FAST_API FAST_MUST_CHECK fast_err fast_topology_check(const fast_topology *topology);
/* 1 - the second largest modulus of the eigenvalues of a period's mixing: how fast averages
 * spread. */
FAST_API double fast_topology_gap(const fast_topology *topology);

#ifdef __cplusplus
}
#endif
