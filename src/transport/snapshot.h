/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "transport/timeline.h"

#include <stdatomic.h>

/*
 * A live view of running actors for other threads: the newest spans of each actor, traffic by link,
 * and faults. A world has one if its configuration asks for it; it is bounded, and costs an actor a
 * few stores for each span and message.
 */
enum {
    FAST_SNAPSHOT_LINKED_MAX = 256, /* larger worlds do not count links */
    FAST_SNAPSHOT_FAULTS = 64,      /* faults that are stored, the first ones */
    FAST_SNAPSHOT_SPANS = 1024      /* spans that are stored for all actors together, about */
};

typedef struct fast_snapshot fast_snapshot;

fast_err fast__snapshot_new(int64_t actors, fast_snapshot **out);
void fast__snapshot_free(fast_snapshot *snapshot); /* NULL is allowed */

/* Add a span; called by the actor itself. Receives and faults are not stored. */
void fast__snapshot_add_span(fast_snapshot *snapshot, int64_t actor, fast_span span, int64_t begin,
                             int64_t end);
/* Count a message; called by its sender. */
void fast__snapshot_add_sent(fast_snapshot *snapshot, int64_t from, int64_t to, int64_t bytes);
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

/* Return the traffic from one actor to another; false if links are not counted. */
bool fast__snapshot_link(const fast_snapshot *snapshot, int64_t from, int64_t to,
                         int64_t *messages_out, int64_t *bytes_out);

/* Return the i-th fault; false if there are fewer. */
bool fast__snapshot_fault_at(const fast_snapshot *snapshot, int64_t i, const char **name_out,
                             int64_t *node_out, int64_t *time_out);
