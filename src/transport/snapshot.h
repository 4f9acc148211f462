/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "transport/timeline.h"

#include <stdatomic.h>

/*
 * A live view of running actors for other threads: the newest spans of each actor, its whole
 * timeline in bins, traffic and waits by link, and faults. A world has one if its configuration
 * asks for it; it is bounded, and costs an actor a few stores for each span and message.
 */
enum {
    FAST_SNAPSHOT_LINKED_MAX = 256, /* larger worlds do not count links */
    FAST_SNAPSHOT_FAULTS = 64,      /* faults that are stored, the first ones */
    FAST_SNAPSHOT_SPANS = 1024,     /* spans that are stored for all actors together, about */
    FAST_SNAPSHOT_BINS = 512        /* bins of an actor's whole timeline, at most */
};

/* Kinds of activity in a bin; the rest of the bin was not recorded. */
enum {
    FAST_ACTIVITY_COMPUTE,
    FAST_ACTIVITY_CODEC,
    FAST_ACTIVITY_SEND,
    FAST_ACTIVITY_WAIT,
    FAST_ACTIVITY_KINDS
};

typedef struct fast_snapshot fast_snapshot;

fast_err fast__snapshot_new(int64_t actors, fast_snapshot **out);
void fast__snapshot_free(fast_snapshot *snapshot); /* NULL is allowed */

/* Add a span; called by the actor itself. Receives and faults are not stored. */
void fast__snapshot_add_span(fast_snapshot *snapshot, int64_t actor, fast_span span, int64_t begin,
                             int64_t end);
/* Count a message; called by its sender. */
void fast__snapshot_add_sent(fast_snapshot *snapshot, int64_t from, int64_t to, int64_t bytes);
/* Count a wait for another actor; called by the actor that waits. */
void fast__snapshot_add_wait(fast_snapshot *snapshot, int64_t waiter, int64_t whom, int64_t ns);
/* Add a fault; called by the simulator. `name` is a literal. */
void fast__snapshot_add_fault(fast_snapshot *snapshot, const char *name, int64_t node,
                              int64_t time);

/* Readers: any thread, but one at a time. */

/* A span as a reader gets it. */
typedef struct fast_snapshot_span {
    int64_t actor;      /* number of the actor */
    fast_span span;     /* kind of the span */
    int64_t begin, end; /* times of the actor's clock */
} fast_snapshot_span;

/* Copy the spans of an actor that were not read before, oldest first, at most `count_max`. Returns
 * their count. */
int64_t fast__snapshot_spans(fast_snapshot *snapshot, int64_t actor, fast_snapshot_span *spans,
                             int64_t count_max);

/* Number of bins of an actor's timeline in a world of this many actors. */
int64_t fast__snapshot_bins_of(int64_t actors);
/* Copy the whole timeline of an actor: thousandths of each bin by kind, [bins][kinds]. Returns the
 * number of bins up to the last that is not empty; 0 also if they changed meanwhile. */
int64_t fast__snapshot_activity(const fast_snapshot *snapshot, int64_t actor, uint16_t *parts,
                                int64_t *bin_ns_out);

/* Traffic from one actor to another. */
typedef struct fast_snapshot_traffic {
    int64_t messages; /* sent */
    int64_t bytes;    /* sent */
    int64_t wait_ns;  /* for which the receiver was blocked, without times of flight */
} fast_snapshot_traffic;

/* Return the traffic from one actor to another; false if links are not counted. */
bool fast__snapshot_link(const fast_snapshot *snapshot, int64_t from, int64_t to,
                         fast_snapshot_traffic *out);

/* Return the i-th fault; false if there are fewer. */
bool fast__snapshot_fault_at(const fast_snapshot *snapshot, int64_t i, const char **name_out,
                             int64_t *node_out, int64_t *time_out);
