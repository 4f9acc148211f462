/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "base/rng.h"
#include "fast/actor.h"

struct fast_world;

/*
 * Fault schedules: what goes wrong when, on which node or link of a simulated cluster. As text, one
 * fault a line or separated by semicolons; # begins a comment:
 *
 *     crash 3 at 1.5s                    all actors of node 3 stop
 *     restart 3 at 2s                    they begin again, after a crash
 *     pause 2 at 1s for 500ms            nothing runs there; what arrives waits
 *     slow 1 at 0s for 10s by 4          computing takes 4 times as long
 *     cut 0-3 at 1s for 2s               nothing passes; 0>3: only that way
 *     partition 0,1|2,3 at 1s for 2s     no side reaches another; 0,1>2,3: left to right only;
 *                                        one side alone is cut off from all other nodes
 *     lossy 0-1 at 0s for 5s loss 0.2    a fifth of the packets vanish; 0>1: only that way
 *     jump 2 at 1s by -3s                the clock of node 2 jumps
 *     join 4 at 2s                       node 4 begins late
 *     lie 3 at 0s for 10s how negate     its payloads are false: negate, scale, random or nan
 *
 * Without `for` it lasts to the end; a pause has an end. Times are ns, us, ms, s, min or h.
 */
typedef enum fast_fault_kind {
    FAST_FAULT_CRASH,
    FAST_FAULT_RESTART,
    FAST_FAULT_PAUSE,
    FAST_FAULT_SLOW,
    FAST_FAULT_CUT,
    FAST_FAULT_PARTITION,
    FAST_FAULT_LOSSY,
    FAST_FAULT_JUMP,
    FAST_FAULT_JOIN,
    FAST_FAULT_LIE,
    FAST_FAULT_KINDS
} fast_fault_kind;

/* What a lying node does to the numbers that it sends. */
typedef enum fast_lie { FAST_LIE_NEGATE, FAST_LIE_SCALE, FAST_LIE_RANDOM, FAST_LIE_NAN } fast_lie;

typedef struct fast_fault {
    fast_fault_kind kind; /* what happens */
    int64_t at;           /* when it begins, nanoseconds from the start */
    int64_t length;       /* how long it lasts; 0: to the end, or an instant */
    int64_t node;         /* where; CUT, LOSSY: the first end; PARTITION: -1 */
    int64_t other;        /* CUT, LOSSY: the second end; else -1 */
    bool one_way;         /* CUT, LOSSY, PARTITION: only from the first to the second */
    double by;            /* SLOW: times slower; LOSSY: the part that vanishes; else 0 */
    int64_t jump;         /* JUMP: nanoseconds, maybe negative; else 0 */
    fast_lie how;         /* LIE */
    int64_t side_first;   /* PARTITION: its rows in `sides` */
    int64_t side_count;   /* likewise; else 0 */
} fast_fault;

/* A node of a partition, and the side that it is on. */
typedef struct fast_fault_side {
    int64_t node; /* each at most once */
    int64_t side; /* from 0 */
} fast_fault_side;

/* A schedule, in the order in which it was written. */
typedef struct fast_faults {
    fast_fault *list;       /* what goes wrong */
    int64_t count;          /* of it */
    fast_fault_side *sides; /* of all partitions, one after the other */
    int64_t side_count;     /* of them */
} fast_faults;

enum {
    FAST_FAULTS_MAX = 4096,       /* faults of a schedule */
    FAST_FAULT_SIDES_MAX = 65536, /* nodes in the partitions of a schedule */
    FAST_FAULT_TEXT_MAX = 1 << 20 /* bytes of a schedule's text */
};

/* The longest time that is allowed, a year: sums of a few of them do not overflow. */
#define FAST_FAULT_TIME_MAX ((int64_t)365 * 24 * 3600 * 1000000000)

/* An empty schedule with room for so many. FAST_ENOMEM. */
fast_err fast__faults_new(int64_t count, int64_t side_count, fast_faults **out);

/* Parse a schedule for nodes 0 to node_count - 1. FAST_EINVAL says which fault is
 * wrong, and why. */
fast_err fast__faults_parse(const char *text, size_t size, int64_t node_count, fast_faults **out);

/* What `--faults` takes: "", a schedule, the name of a file that holds one, or
 * "random:count=3,kinds=crash+pause,span=10s", drawn from the seed. */
fast_err fast__faults_make(const char *spec, uint64_t seed, int64_t node_count, fast_faults **out);

/* Draw a schedule: see fault_random.c for the options. */
fast_err fast__faults_random(const char *options, uint64_t seed, int64_t node_count,
                             fast_faults **out);

/* The schedule as text that parses to the same schedule, "; " between faults; the caller frees it
 * with fast__free(). */
fast_err fast__faults_text(const fast_faults *faults, char **out);
/* One fault as text, cut if it does not fit; returns the length that it has. */
int64_t fast__fault_text(const fast_faults *faults, const fast_fault *fault, char *text,
                         size_t size);

/* Check that the faults go together: a restart follows a crash, a node joins once. */
fast_err fast__faults_check(const fast_faults *faults);

/* The faults for which keep[i] is true, as a schedule of its own. */
fast_err fast__faults_pick(const fast_faults *faults, const bool *keep, fast_faults **out);

void fast__faults_free(fast_faults *faults); /* NULL is allowed */

/* The schedule of an open world of the transport sim, lent; NULL without one. */
const fast_faults *fast__faults_of(const struct fast_world *world);

/* The kinds, for fast_part_list("fault"). */
const fast_part *fast__fault_list(int64_t *count_out);

/* "crash", ...; "negate", ... */
const char *fast__fault_kind_name(fast_fault_kind kind);
const char *fast__lie_name(fast_lie how);

/* Make the numbers of a message that is being sent false. Parts are taken for floats; those that
 * others share are copied before. Without memory the message stays true. */
void fast__fault_lie(fast_actor *actor, fast_msg *msg, fast_lie how, fast_rng *rng);

/* Times as people write them: "1.5s". The text is exact, the shortest, and parses back. */
enum { FAST_TIME_TEXT = 48 };
fast_err fast__time_parse(const char *what, const char *text, int64_t *out);
void fast__time_text(int64_t time, char text[FAST_TIME_TEXT]);
