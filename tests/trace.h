/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Counts of the events in a timeline's file. */
typedef struct trace_summary {
    int64_t spans;     /* complete events */
    int64_t instants;  /* of faults and drops */
    int64_t counters;  /* samples */
    int64_t arrows;    /* from a send to a receive */
    int64_t names;     /* of processes and threads */
    int64_t last_ns;   /* the latest end of a span */
    int64_t depth_max; /* spans inside spans */
    bool dropped;      /* it says that events were dropped */
} trace_summary;

/* Read a timeline's file. True if it is valid JSON as a strict reader sees it, every actor's spans
 * are ordered by their begin and nest, and every arrow has both ends, the head not before the tail;
 * else `why` says what is wrong. */
bool trace_check(const char *path, trace_summary *out, char why[256]);
