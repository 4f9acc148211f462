/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "fast/comm.h"
#include "transport/transport.h"

/*
 * Groups, and how their collectives are run. A collective is a schedule: for each rank a list of
 * moves, in rounds, that a pure function of (rank, size, count, round) computes when it is needed:
 * nothing is stored or allocated. One executor (collective/collective.c) runs any schedule:
 * blocking, or as a task beside the actor's program. Files of algorithms only say which rank moves
 * what. In collective/:
 *
 *   group.c                  members, generation, failure
 *   moves.h                  the moves and ranks that schedules are made of
 *   collective.c             the executor
 *   barrier.c broadcast.c …  one collective each: its schedules and its public call
 *   allreduce_*.c            one algorithm for allreduce each, by the contract of allreduces.h
 *   nonblocking.c            collectives as tasks
 *   cost_model.c             which algorithm is the fastest
 *
 * A move sends or receives one range. Sends never block; a receive waits for its message. Each rank
 * does its moves in order, and what one rank sends to another is received in the same order.
 */
typedef enum fast_move_kind {
    FAST_MOVE_SEND,  /* x[range] to the peer: copied to a buffer, which moves */
    FAST_MOVE_ADD,   /* from the peer: y[range] += the message */
    FAST_MOVE_COPY,  /* from the peer: y[range] = the message */
    FAST_MOVE_MERGE, /* from the peer: the message += x[range]; y only changes with STORE */
} fast_move_kind;

/* A move may retain its buffer for later ones, so that it is passed on without a copy. */
enum {
    FAST_MOVE_RETAIN = 1, /* retain the buffer that was sent, which is frozen, or that arrived */
    FAST_MOVE_RETAINED =
        2, /* SEND: send the retained buffer, not a copy of x. ADD: add to it, not to y; it
                            stays retained */
    FAST_MOVE_STORE = 4, /* MERGE: y[range] = the sum, too */
    FAST_MOVE_EMPTY = 8, /* move an empty range too: without it such moves are left out */
};

/* One step of a schedule at one rank. */
typedef struct fast_move {
    fast_move_kind kind; /* send, or what to do with the message */
    unsigned flags;      /* FAST_MOVE_RETAIN, ... */
    int64_t peer;        /* a rank */
    int64_t offset;      /* of the range, in elements */
    int64_t count;       /* of elements */
} fast_move;

/* The arguments of a schedule. */
typedef struct fast_ask {
    int64_t rank;       /* the rank whose moves are asked for */
    int64_t size;       /* of the group */
    int64_t count;      /* of elements */
    int64_t root;       /* of a broadcast or reduce; else 0 */
    const void *config; /* the algorithm's options; NULL where it has none */
    const void *state;  /* state that its open() made for the group; or NULL */
} fast_ask;

enum {
    FAST_ROUND_MOVES = 8, /* moves of a round at most */
    FAST_ROUNDS_END = -1  /* the schedule has no such round */
};

/* Write the moves of one round of one rank, in their order; return their number, perhaps 0, or
 * FAST_ROUNDS_END past the last round. A pure function: the executor calls it once for each round,
 * in order; a model or a test calls it in any order. */
typedef int fast_round_fn(const fast_ask *ask, int64_t round, fast_move moves[FAST_ROUND_MOVES]);

/* A collective under way at one member. Fields are the executor's unless they say caller's. */
typedef struct fast_collective {
    fast_group *group;     /* the group; caller's */
    const char *doing;     /* "allreduce": for errors and timelines; caller's */
    fast_ask ask;          /* the schedule's arguments; caller's */
    fast_round_fn *rounds; /* the schedule; caller's. NULL: `algorithm` advances it */
    const struct fast_algorithm *algorithm; /* of an allreduce; else NULL; caller's */
    const void *x;                          /* vector to send; NULL: only sizes travel; caller's */
    void *y;                                /* vector to receive to, often x; caller's */
    size_t element; /* bytes of one: 4 (float), or 1 where nothing is added; caller's */
    uint64_t tag;   /* tag of all its messages */
    int64_t whom;   /* the actor that it waits for now, or -1 */
    int64_t since;  /* when it started to wait for that actor; or -1 */
    int64_t round;  /* number of the next round */
    int move;       /* index of the next move */
    int move_count; /* moves of this round; FAST_ROUNDS_END once all is done */
    fast_move moves[FAST_ROUND_MOVES]; /* moves of this round */
    fast_buffer *retained;             /* by FAST_MOVE_RETAIN; or NULL */
    bool busy;                         /* inside advance, which a charge may call again */
    int64_t phase;                     /* state of algorithms without a schedule */
    uint64_t words[4];                 /* state of algorithms without a schedule */
} fast_collective;

/* Start: give it its tag, by the order of the calls. Fails if the group failed before. The caller
 * has zeroed it and filled in its fields. */
fast_err fast__collective_begin(fast_collective *collective);
/* Make all moves that need not wait; never blocks. On failure the group is unusable. */
fast_err fast__collective_advance(fast_collective *collective, bool *done);
/* Run it to the end, or until the deadline. */
fast_err fast__collective_run(fast_collective *collective, int64_t deadline);
/* Run the schedule of floats `rounds` over x, to y: ask has the count, and the root or state if the
 * schedule needs them; rank and size are the group's. FAST_EINVAL for a count out of range. */
fast_err fast__collective_floats(fast_group *group, const char *doing, fast_round_fn *rounds,
                                 fast_ask ask, const float *x, float *y, int64_t deadline);
/* Start this collective as a task, and make at once the moves that need not wait. */
fast_err fast__request_start(const fast_collective *collective, fast_request **out);
/* Wait once, as fast__wait_once(), for the message that it needs next. */
fast_err fast__collective_wait(fast_collective *collective, int64_t deadline);
/* Wait until the time `until` for the next message of a rank in this collective. For collectives
 * without a schedule, which send and receive by themselves. */
fast_err fast__collective_receive(fast_collective *collective, int64_t rank, int64_t until,
                                  fast_msg **out);
/* Take this collective's message of a rank, for algorithms without a schedule that never wait; NULL
 * if it has not arrived, which then is what the collective waits for. */
fast_msg *fast__collective_take(fast_collective *collective, int64_t rank);
/* FAST_EINVAL if a message has not one part of this size. */
fast_err fast__collective_check(const fast_collective *collective, size_t size,
                                const fast_msg *msg);
/* Make an empty message of this collective. */
fast_err fast__collective_message(fast_collective *collective, fast_msg **out);
/* Release its buffers, where it is given up. */
void fast__collective_drop(fast_collective *collective);

enum {
    FAST_ALLREDUCE_MAX = 12,   /* algorithms at most */
    FAST_ALLREDUCE_CONFIG = 64 /* bytes of the options of one */
};

/* The state of an algorithm that a group has used. */
typedef struct fast_group_slot {
    bool open;                                                /* the other fields are set */
    _Alignas(16) unsigned char config[FAST_ALLREDUCE_CONFIG]; /* its options, parsed */
    void *state; /* state that its open() made; or NULL */
} fast_group_slot;

/* A member's view of its group; used by that actor only. */
struct fast_group {
    fast_actor *actor;   /* the member; borrowed */
    int64_t *ids;        /* members by rank; NULL: first, first + 1, ... */
    int64_t first;       /* member of rank 0 */
    int64_t size;        /* number of members */
    int64_t rank;        /* the actor's rank */
    uint32_t generation; /* from 1 */
    uint64_t key;        /* hash of members and generation, the same at all members */
    uint32_t sequence;   /* number of the next collective */
    fast_err err;        /* the first failure, after which it is unusable; or FAST_OK */
    char detail[192];    /* error detail of the first failure */
    int algorithm;       /* number in fast__allreduces, or -1: auto */
    fast_group_slot slots[FAST_ALLREDUCE_MAX]; /* by number in fast__allreduces */
    struct fast_comm_cost *cost; /* the fitted model of `auto`, made on first use; or NULL */
    fast_request *requests;      /* requests under way, in the order of their start */
    fast_request *requests_free; /* finished requests, to be used again */
};

/* Fail at once if a collective of the group failed before. */
fast_err fast__group_check(const fast_group *group);
/* Remember that the group is unusable, with the actor's detail; returns err. */
fast_err fast__group_fail(fast_group *group, fast_err err);
/* FAST_EINVAL if `rank`, called `what` in the error, is not a rank of the group. */
fast_err fast__group_check_rank(const fast_group *group, const char *what, int64_t rank);
/* FAST_EINVAL if the count is negative, or its bytes overflow. */
fast_err fast__group_check_count(const char *doing, int64_t count);
/* When a group is freed: cancel requests under way, free finished ones. */
void fast__group_free_requests(fast_group *group);
/* Set the range of [0, count) of part i of n: as equal as possible, the first ones longer. */
void fast__range(int64_t count, int64_t n, int64_t i, int64_t *offset_out, int64_t *count_out);
/* Return the smallest k with 2^k >= n, for n >= 1. */
int fast__log2_ceil(int64_t n);
