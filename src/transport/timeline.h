/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "fast/comm.h"

/*
 * Timelines of the actors: spans and instants in a bounded ring per actor, written by the actor
 * alone, exported for Perfetto and Chrome (the JSON trace-event format). An actor without a
 * timeline pays one comparison.
 */
typedef enum fast_span {
    FAST_SPAN_COMPUTE, /* a work or a charge */
    FAST_SPAN_CODEC,   /* encoding or decoding */
    FAST_SPAN_SEND,    /* fast_send() */
    FAST_SPAN_RECEIVE, /* fast_receive(), with the wait inside */
    FAST_SPAN_WAIT,    /* blocked */
    FAST_SPAN_FAULT,   /* an instant: a fault of sim starts or ends, or a peer is lost or back */
    FAST_SPAN_COUNT    /* number of kinds */
} fast_span;

typedef struct fast_timeline fast_timeline;

/* Allocate a ring of `events_max` events. FAST_ENOMEM. */
fast_err fast__timeline_new(int64_t events_max, fast_timeline **out);
void fast__timeline_free(fast_timeline *timeline); /* NULL is allowed */

/* Add a span of the actor from `begin` to now. `name` is a literal. `peer` is the other actor, or
 * -1. Does nothing without a timeline. */
void fast__timeline_add(fast_actor *actor, fast_span span, const char *name, int64_t begin,
                        int64_t peer, size_t size);

/* Write all timelines of a world as one JSON file, atomically. FAST_EIO, FAST_ENOMEM. */
struct fast_world;
fast_err fast__timeline_write(const struct fast_world *world, const char *path);
