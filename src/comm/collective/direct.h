/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The board that members of a group share in memory, and waits for its counters.
 * allreduce_direct.c says how members use it for sums, direct_use.c for updates of shared vectors.
 */
#include "base/thread.h"
#include "comm/allreduces.h"

enum {
    SLOTS = 4,   /* operations of a member under way at once */
    LINES = 128, /* bytes that are fetched together: two cache lines */
    RANGES = 64  /* ranges that a member offers in one use, at most */
};

/* A vector that is lent. */
typedef struct direct_slot {
    float *x;      /* the member's, or its copy on the board; NULL: without values */
    int64_t count; /* of floats */
} direct_slot;

/* A range of a vector that is final. */
typedef struct direct_range {
    int64_t offset; /* first element */
    int64_t count;  /* elements */
} direct_range;

/* A member's row, which all read and only the member writes. */
typedef struct direct_row {
    _Alignas(LINES) atomic_ullong posted; /* see above */
    atomic_ullong done;                   /* see above */
    direct_slot slots[SLOTS];             /* of operation k: slots[k % SLOTS] */
    _Alignas(LINES) atomic_bool touching; /* it may read and write other members' vectors */
    atomic_llong awaits;                  /* 1 + a rank that it blocks on, ANYONE, LAST; 0: none */
    uint64_t next;      /* number of its next operation; private, like the next two */
    uint64_t finished;  /* operations that it has summed: `done`, if not told yet */
    int64_t task_count; /* operations that are advanced as tasks */
    _Alignas(LINES) atomic_ullong offered; /* ranges of its vector that it has offered for use */
    atomic_ullong settled;                 /* uses of which nothing is left to it */
    const float *lent;                     /* the vector that is used now */
    direct_range ranges[RANGES];           /* offered range k: ranges[k % RANGES] */
    /* Pieces of the member's part of a range that someone has taken, as range << 24 | pieces;
     * written by all. */
    _Alignas(LINES) atomic_ullong taken[RANGES];
} direct_row;

/* Shared by the members of groups with the same key, one group after the other; zeroed at first. */
typedef struct direct_board {
    _Alignas(LINES) atomic_llong sleepers; /* rows that await someone */
    atomic_llong broken;                   /* 1 + the rank that gave up first; 0: none */
    /* Where waits are expensive: posts, and sums, of each slot so far. */
    _Alignas(LINES) atomic_ullong posted[SLOTS];
    atomic_ullong done[SLOTS];
    atomic_ullong offered; /* the same of uses that members have offered, */
    atomic_ullong settled; /* and settled */
    direct_row rows[];     /* by rank; behind them, SLOTS small vectors of each */
} direct_board;

/* Where a member is in the use of a vector; `begun` is false if none is under way. */
typedef struct direct_progress {
    bool begun;         /* ranges may have been offered */
    bool counted;       /* a use has counted its ranges */
    bool early;         /* ranges are offered one by one; the same at all members */
    int64_t odd;        /* 1 + a rank that has offered another range; 0: none */
    uint64_t first;     /* number of its first range */
    uint64_t own;       /* ranges below have no piece of the member's own part left */
    uint64_t others;    /* ranges below have no piece left */
    int64_t low, high;  /* range that is final but not offered; empty if equal */
    int64_t covered;    /* elements that are final */
    int64_t used;       /* elements that this member has used */
    int64_t count;      /* ranges so far */
    const float **lent; /* of all members; scratch */
} direct_progress;

/* A member's private side: the state of its group. */
typedef struct direct_member {
    fast_group *group;   /* lent */
    direct_board *board; /* shared */
    direct_row *own;     /* the member's row */
    int64_t small;       /* floats of a small vector; the same at all members */
    bool crowded;        /* actors outnumber cores; the same at all members */
    int64_t spin_ns;     /* ns of the next spin; 0: no member spins */
    uint64_t spin_count; /* number of spins */
    float *copies;       /* SLOTS small vectors of the member, on the board */
    uint64_t done_min;   /* all members' done was at least this */
    int64_t stuck;       /* the rank that its first operation waits for */
    float **vectors;     /* of all members, in one operation */
    direct_progress use; /* of the use under way */
} direct_member;

/* BEGIN takes a number, POST lends the vector, SUM adds the slice, END waits for all slices; an
 * operation that was given up has LEFT. */
typedef enum direct_phase { BEGIN, POST, SUM, END, LEFT } direct_phase;

/* An operation under way. */
typedef struct direct_op {
    direct_phase phase;           /* its next phase */
    uint64_t number;              /* of the operation */
    int64_t scan;                 /* ranks above it have what the phase waits for */
    float *x;                     /* the member's vector */
    int64_t count;                /* of floats */
    const atomic_ullong *awaited; /* the counter that it waits for; NULL: none */
    uint64_t target;              /* value that the counter must reach */
    int64_t since;                /* when a call that blocks first blocked; or -1 */
} direct_op;

/* Set op->awaited to a counter of a member that has not reached the target, or return true if all
 * have: `counter` is one of the caller's own row. op->scan is size - 1 at first. */
bool fast__direct_reached(direct_member *d, direct_op *op, const atomic_ullong *counter,
                          uint64_t target);
/* Wake the members that wait for this member's new counter; where waits are expensive, `count` it,
 * and wake all members if it is the last one. */
void fast__direct_tell(const direct_member *d, atomic_ullong *count);
/* Spin, then block, until op->awaited has its target or something else happens. */
fast_err fast__direct_wait(direct_member *d, direct_op *op, int64_t deadline);
/* May this member touch other members' vectors, until fast__direct_exit()? False once a member gave
 * up. */
bool fast__direct_enter(direct_member *d);
void fast__direct_exit(direct_member *d);
/* Give up: afterwards no other member touches this member's vectors. */
void fast__direct_leave(direct_member *d, direct_op *op);
/* The member's state in a group, whose algorithm `direct` is open. */
direct_member *fast__direct_member(fast_group *group);
