/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "transport/timeline.h"

#include <stdatomic.h>

/*
 * What others may see of actors while they run: the newest spans of each, what each sent to each,
 * and faults. A world whose configuration asks for it has one; all of it is bounded, and costs an
 * actor a few stores for each span and message.
 */
enum {
    FAST_GLANCE_LINKED_MAX = 256, /* actors of a world whose links are counted, at most */
    FAST_GLANCE_FAULTS = 64,      /* that are kept, the first ones */
    FAST_GLANCE_SPANS = 1024      /* of all actors together, about */
};

typedef struct fast_glance fast_glance;

fast_err fast__glance_new(int64_t actors, fast_glance **out);
void fast__glance_free(fast_glance *glance); /* NULL is allowed */

/* Called by the actor itself. A receive is none of the spans: what it waited for is. */
void fast__glance_span(fast_glance *glance, int64_t actor, fast_span span, int64_t begin,
                       int64_t end);
void fast__glance_sent(fast_glance *glance, int64_t from, int64_t to, int64_t bytes);
/* Called by the simulator. `name` is lent for good. */
void fast__glance_fault(fast_glance *glance, const char *name, int64_t node, int64_t time);

/* Looking, by one at a time. [any thread] */

/* A span that was seen. */
typedef struct fast_glance_seen {
    int64_t actor;      /* whose */
    fast_span span;     /* its kind */
    int64_t begin, end; /* of the actor's clock */
} fast_glance_seen;

/* The spans of an actor that are there and were not yet, oldest first: at most `count_max`. Returns
 * their count. */
int64_t fast__glance_spans(fast_glance *glance, int64_t actor, fast_glance_seen *spans,
                           int64_t count_max);

/* What was sent from one to another; false where links are not counted. */
bool fast__glance_link(const fast_glance *glance, int64_t from, int64_t to, int64_t *messages_out,
                       int64_t *bytes_out);

/* The i-th fault; false if there are not that many. */
bool fast__glance_fault_at(const fast_glance *glance, int64_t i, const char **name_out,
                           int64_t *node_out, int64_t *time_out);
