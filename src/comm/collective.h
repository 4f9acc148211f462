/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "fast/strategy.h"
#include "transport/transport.h"

/*
 * Groups, and how their collectives are run. A collective is a schedule: for each rank a list of
 * moves, in rounds, that a pure function of (rank, size, count, round) computes when it is needed:
 * nothing is stored or allocated. One executor (collective.c) runs any schedule: blocking, or
 * besides the actor's program as a task. Files of algorithms only say who moves what:
 *
 *   group.c                  members, generation, failure
 *   moves.h                  the moves and ranks that schedules are made of
 *   collective.c             the executor
 *   barrier.c broadcast.c …  one collective each: its schedules and its public call
 *   allreduce.h              the contract of an algorithm for allreduce, one file each
 *
 * A move sends or receives one range. Sends never block; a receive waits for its message. Each rank
 * does its moves in order, and what one rank sends to another is received in the same order.
 */
typedef enum fast_move_kind {
    FAST_MOVE_SEND,  /* x[range] to the peer: copied to a buffer, which moves */
    FAST_MOVE_ADD,   /* from the peer: y[range] += what came */
    FAST_MOVE_COPY,  /* from the peer: y[range] = what came */
    FAST_MOVE_MERGE, /* from the peer: what came += x[range]; y is as it was, unless STORE */
} fast_move_kind;

/* A buffer may be kept from one move for later ones, so that it is passed on without a copy. */
enum {
    FAST_MOVE_KEEP = 1,  /* afterwards the buffer that was sent or came is kept: what was sent is
                            frozen, what came is as it came */
    FAST_MOVE_KEPT = 2,  /* SEND: send what is kept, not a copy of x. ADD: add to what is kept, not
                            to y; it stays kept */
    FAST_MOVE_STORE = 4, /* MERGE: y[range] = the sum, too */
    FAST_MOVE_EMPTY = 8, /* move an empty range too: others of no elements are left out */
};

typedef struct fast_move {
    fast_move_kind kind; /* what */
    unsigned flags;      /* FAST_MOVE_KEEP, ... */
    int64_t peer;        /* a rank */
    int64_t offset;      /* of the range, in elements */
    int64_t count;       /* of elements */
} fast_move;

/* What a schedule is a function of. */
typedef struct fast_ask {
    int64_t rank;       /* whose moves */
    int64_t size;       /* of the group */
    int64_t count;      /* of elements */
    int64_t root;       /* where there is one; else 0 */
    const void *config; /* the algorithm's options; NULL where it has none */
    const void *state;  /* what its open() made for the group; or NULL */
} fast_ask;

enum { FAST_ROUND_MOVES = 8, FAST_ROUNDS_END = -1 };

/* The moves of one round of one rank, in their order; how many there are, perhaps 0, or
 * FAST_ROUNDS_END past the last round. A pure function: the executor calls it once for each round,
 * in order, a model or a test as it likes. */
typedef int fast_round_fn(const fast_ask *ask, int64_t round, fast_move moves[FAST_ROUND_MOVES]);

/* A collective under way at one member. What is not the caller's belongs to the executor. */
typedef struct fast_collective {
    fast_group *group;     /* whose; caller's */
    const char *doing;     /* "allreduce": for errors and timelines; caller's */
    fast_ask ask;          /* caller's */
    fast_round_fn *rounds; /* the schedule; caller's. NULL: `algorithm` advances it */
    const struct fast_algorithm *algorithm; /* of an allreduce; else NULL; caller's */
    const void *x;                          /* what is sent; NULL: only sizes travel; caller's */
    void *y;                                /* what is received: often x; caller's */
    size_t element; /* bytes of one: 4 (float), or 1 where nothing is added; caller's */
    uint64_t tag;   /* of all its messages */
    int64_t whom;   /* the actor that it waits for now, or -1 */
    int64_t since;  /* when it began to wait for it; or -1 */
    int64_t round;  /* of `moves` */
    int move;       /* the next of them */
    int move_count; /* of them; FAST_ROUNDS_END once all is done */
    fast_move moves[FAST_ROUND_MOVES]; /* of this round */
    fast_buffer *kept;                 /* see FAST_MOVE_KEEP */
    bool busy;                         /* inside advance: a charge may come back to it */
    int64_t phase;                     /* algorithms without a schedule keep here where they are */
    uint64_t words[4];                 /* likewise */
} fast_collective;

/* Begin: gives it its tag, by the order of the calls. Fails if the group failed before. The caller
 * has zeroed it and filled what is its own. */
fast_err fast__collective_begin(fast_collective *collective);
/* Do what can be done without waiting; never blocks. On failure the group is unusable. */
fast_err fast__collective_advance(fast_collective *collective, bool *done);
/* Do it all. */
fast_err fast__collective_run(fast_collective *collective, int64_t deadline);
/* One bounded wait of its actor for what it waits for, as fast__wait_once(). */
fast_err fast__collective_wait(fast_collective *collective, int64_t deadline);
/* Let go of what it holds, where it is given up. */
void fast__collective_drop(fast_collective *collective);

enum { FAST_ALLREDUCE_MAX = 12, FAST_ALLREDUCE_CONFIG = 64 };

/* What a group keeps of an algorithm that it has used. */
typedef struct fast_group_slot {
    bool open;                                                /* the rest is filled */
    _Alignas(16) unsigned char config[FAST_ALLREDUCE_CONFIG]; /* its options, parsed */
    void *state;                                              /* what its open() made; or NULL */
} fast_group_slot;

struct fast_group {
    fast_actor *actor;   /* borrowed */
    int64_t *ids;        /* members by rank; NULL: first, first + 1, ... */
    int64_t first;       /* member of rank 0 */
    int64_t size;        /* of members */
    int64_t rank;        /* the actor's own */
    uint32_t generation; /* from 1 */
    uint64_t key;        /* of members and generation, the same at all of them */
    uint32_t sequence;   /* of the next collective */
    fast_err err;        /* why it is unusable; FAST_OK while it is not */
    char detail[192];    /* the first failure's */
    int algorithm;       /* number in fast__allreduces, or -1: auto */
    fast_group_slot slots[FAST_ALLREDUCE_MAX]; /* by number in fast__allreduces */
    struct fast_price *price;    /* the fitted model of `auto`, made on first use; or NULL */
    fast_request *requests;      /* under way, in the order of their start */
    fast_request *requests_free; /* to be used again */
};

/* Fail at once if a collective of the group failed before. */
fast_err fast__group_check(const fast_group *group);
/* Remember that the group is unusable, with the actor's detail; returns err. */
fast_err fast__group_fail(fast_group *group, fast_err err);
/* FAST_EINVAL if `rank`, which is called `what`, is none of the group. */
fast_err fast__group_check_rank(const fast_group *group, const char *what, int64_t rank);
/* FAST_EINVAL if the count is negative, or its bytes are too many. */
fast_err fast__group_check_count(const char *doing, int64_t count);
/* Requests of a group that is freed: those under way are canceled, the others freed. */
void fast__group_free_requests(fast_group *group);
/* The range of [0, count) that part i of n has: as equal as possible, the first are longer. */
void fast__range(int64_t count, int64_t n, int64_t i, int64_t *offset_out, int64_t *count_out);
