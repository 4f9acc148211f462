/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "base/rng.h"
#include "fast/comm.h"

struct fast_world;

/*
 * Fault schedules: faults with their times, on nodes or links of a simulated cluster. As text, one
 * fault a line or separated by semicolons; # starts a comment:
 *
 *     crash 3 at 1.5s                    all actors of node 3 stop
 *     restart 3 at 2s                    they start again, after a crash
 *     pause 2 at 1s for 500ms            nothing runs there; arriving messages wait
 *     slow 1 at 0s for 10s by 4          computing takes 4 times as long
 *     cut 0-3 at 1s for 2s               no message passes; 0>3: only in that direction
 *     partition 0,1|2,3 at 1s for 2s     no side reaches another; 0,1>2,3: left to right only;
 *                                        a single side is cut off from all other nodes
 *     lossy 0-1 at 0s for 5s loss 0.2    a fifth of the packets vanish; 0>1: one direction
 *     jump 2 at 1s by -3s                the clock of node 2 jumps
 *     join 4 at 2s                       node 4 starts late
 *     lie 3 at 0s for 10s how negate     its payloads are false: negate, scale, random or nan
 *
 * Without `for` a fault lasts to the end; a pause needs `for`. Units are ns, us, ms, s, min, h.
 */
typedef enum fast_fault_kind {
    FAST_FAULT_CRASH,     /* the actors of a node stop */
    FAST_FAULT_RESTART,   /* the actors of a crashed node start again */
    FAST_FAULT_PAUSE,     /* a node does not run for a while */
    FAST_FAULT_SLOW,      /* charges of a node take longer */
    FAST_FAULT_CUT,       /* a link passes no messages */
    FAST_FAULT_PARTITION, /* links between sets of nodes pass no messages */
    FAST_FAULT_LOSSY,     /* a link loses transmissions */
    FAST_FAULT_JUMP,      /* the clock of a node jumps */
    FAST_FAULT_JOIN,      /* a node starts late */
    FAST_FAULT_LIE,       /* a node sends false numbers */
    FAST_FAULT_KINDS      /* number of kinds */
} fast_fault_kind;

/* How a lying node falsifies the numbers that it sends. */
typedef enum fast_lie {
    FAST_LIE_NEGATE, /* opposite sign */
    FAST_LIE_SCALE,  /* ten times as large */
    FAST_LIE_RANDOM, /* uniform in [-1, 1) */
    FAST_LIE_NAN     /* not a number */
} fast_lie;

typedef struct fast_fault {
    fast_fault_kind kind; /* kind of the fault */
    int64_t at;           /* start, nanoseconds of virtual time */
    int64_t length;       /* duration in nanoseconds; 0: to the end, or an instant */
    int64_t node;         /* node; CUT, LOSSY: first end of the link; PARTITION: -1 */
    int64_t other;        /* CUT, LOSSY: second end of the link; else -1 */
    bool one_way;         /* CUT, LOSSY, PARTITION: only from first to second */
    double by;            /* SLOW: factor; LOSSY: probability of loss; else 0 */
    int64_t jump;         /* JUMP: nanoseconds, may be negative; else 0 */
    fast_lie how;         /* LIE: how payloads are falsified */
    int64_t side_first;   /* PARTITION: its first row in `sides` */
    int64_t side_count;   /* PARTITION: number of its rows; else 0 */
} fast_fault;

/* A node of a partition and its side. */
typedef struct fast_fault_side {
    int64_t node; /* each node at most once in a partition */
    int64_t side; /* number of the side, from 0 */
} fast_fault_side;

/* A schedule, in the order in which it was written. */
typedef struct fast_faults {
    fast_fault *list;       /* [count] */
    int64_t count;          /* number of faults */
    fast_fault_side *sides; /* [side_count] of all partitions, one after the other */
    int64_t side_count;     /* number of rows */
} fast_faults;

enum {
    FAST_FAULTS_MAX = 4096,       /* faults of a schedule */
    FAST_FAULT_SIDES_MAX = 65536, /* nodes in the partitions of a schedule */
    FAST_FAULT_TEXT_MAX = 1 << 20 /* bytes of a schedule's text */
};

/* The longest time that is allowed, a year: sums of a few of them do not overflow. */
#define FAST_FAULT_TIME_MAX ((int64_t)365 * 24 * 3600 * 1000000000)

/* Allocate an empty schedule with room for these counts. FAST_ENOMEM. */
fast_err fast__faults_new(int64_t count, int64_t side_count, fast_faults **out);

/* Parse a schedule for nodes 0 to node_count - 1. FAST_EINVAL names the fault that is wrong and
 * says why. */
fast_err fast__faults_parse(const char *text, size_t size, int64_t node_count, fast_faults **out);

/* Make a schedule from the option faults: "", a schedule, a file that holds one, or
 * "random:count=3,kinds=crash+pause,span=10s", drawn from the seed. */
fast_err fast__faults_make(const char *spec, uint64_t seed, int64_t node_count, fast_faults **out);

/* Draw a random schedule: see fault_random.c for the options. */
fast_err fast__faults_random(const char *options, uint64_t seed, int64_t node_count,
                             fast_faults **out);

/* Return the schedule as text that parses to an equal schedule, with "; " between faults; the
 * caller frees it. FAST_ENOMEM. */
fast_err fast__faults_text(const fast_faults *faults, char **out);
/* Write one fault as text, cut if it does not fit; returns the length of the whole text. */
int64_t fast__fault_text(const fast_faults *faults, const fast_fault *fault, char *text,
                         size_t size);

/* FAST_EINVAL if the faults contradict each other: a restart follows a crash, a node joins once. */
fast_err fast__faults_check(const fast_faults *faults);

/* Copy the faults i with chosen[i], or all of them if `chosen` is NULL. FAST_ENOMEM. */
fast_err fast__faults_pick(const fast_faults *faults, const bool *chosen, fast_faults **out);

void fast__faults_free(fast_faults *faults); /* NULL is allowed */

/* Return the schedule of an open world of the transport sim, lent; NULL if it has no faults. */
const fast_faults *fast__faults_of(const struct fast_world *world);

/* Return the kinds of faults, for fast_part_list("fault"). */
const fast_part *fast__fault_list(int64_t *count_out);

/* Return the name of a kind ("crash") and of a lie ("negate"). */
const char *fast__fault_kind_name(fast_fault_kind kind);
const char *fast__lie_name(fast_lie how);

/* Falsify the numbers of a message that is being sent. Parts are taken for floats; frozen parts are
 * copied first. Without memory the message stays true. */
void fast__fault_lie(fast_actor *actor, fast_msg *msg, fast_lie how, fast_rng *rng);

/* Times with units: "1.5s". The text is exact and the shortest that parses to the same time. */
enum { FAST_TIME_TEXT = 48 };
fast_err fast__time_parse(const char *what, const char *text, int64_t *out);
void fast__time_text(int64_t time, char text[FAST_TIME_TEXT]);
