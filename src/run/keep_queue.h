/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/thread.h"
#include "run/team.h"
#include "store/store.h"

#include <stdatomic.h>

/*
 * What the run's side (keep.c) and the writer's side (keep_writer.c) share. The run's side has one
 * caller at a time: whoever may touch the run. So the queue has one who puts and one who takes, and
 * needs no lock: `put` and `taken` count items, and who writes one of them wrote the slots before.
 */
enum {
    FAST_KEEP_QUEUE = 1024,                    /* items */
    FAST_KEEP_TEXT = 400,                      /* bytes of an event's text */
    FAST_KEEP_ACTORS_MAX = 4096,               /* whose counters are kept */
    FAST_KEEP_SPANS_MAX = 4096,                /* newest spans that a run keeps */
    FAST_KEEP_SEEN_MAX = 2 * FAST_GLANCE_SPANS /* spans of one look */
};

/* One row to be. */
typedef struct fast_keep_item {
    bool is_event; /* else it is a metric */
    union {
        fast_stored_metric metric;
        struct {
            int64_t seq;               /* as in fast_stored_event */
            double time_s;             /* likewise */
            int64_t step;              /* likewise */
            const char *kind;          /* likewise; a literal */
            char text[FAST_KEEP_TEXT]; /* likewise */
        } event;
    };
} fast_keep_item;

/* Counters of all actors, looked at about once a second. */
typedef struct fast_keep_look {
    fast_stored_worker *workers;               /* [actors] */
    char (*names)[32];                         /* [actors] of them */
    int64_t actors;                            /* of the team; 0: one worker, alone */
    int64_t staleness[FAST_STALENESS_BUCKETS]; /* updates */
    int64_t *links;          /* [actors][actors][2]: messages and bytes; NULL: not counted */
    fast_glance_seen *spans; /* [FAST_KEEP_SEEN_MAX] */
    int64_t span_count;      /* of them */
    double span_s;           /* when the actors' clock was 0 */
} fast_keep_look;

typedef struct fast_keep {
    /* Written before the writer starts. */
    char path[FAST_PATH_MAX]; /* of the store; "" for the usual one */
    fast_stored_run first;    /* the row that the run begins with */
    char *options, *machine;  /* its JSON */

    /* The run's side. */
    int64_t metric_seq, event_seq; /* of the next ones */
    int64_t dropped;               /* items that found no room */
    int64_t wall_ns;               /* when this call began */
    int64_t looked_ns;             /* when the last look was taken */
    int64_t faults;                /* of the world, seen so far */
    bool world_over;               /* what the actors counted is added up */
    int64_t *links_before;         /* like look.links, of worlds that are closed */
    bool saying;                   /* a note is being told: it is no reason for another */
    bool said;                     /* that it cannot be kept */
    int64_t step_last;             /* of the last metric */

    /* Between both. */
    fast_keep_item *items;   /* [FAST_KEEP_QUEUE] */
    atomic_llong put, taken; /* items ever */
    fast_keep_look look;     /* the run's while `looked` is false, else the writer's */
    atomic_bool looked;      /* a look waits for the writer */
    atomic_uint word;        /* changes when the writer should wake */
    atomic_bool closing;     /* `last` is ready: the writer writes it and ends */
    fast_stored_run last;    /* how the run ended */
    char *result;            /* its JSON */
    char params_hash[24];    /* likewise text */
    char weights[FAST_PATH_MAX], trace[FAST_PATH_MAX], error[FAST_DETAIL_MAX]; /* likewise */
    atomic_llong id;                     /* of the run in the store; 0: none yet */
    atomic_bool troubled;                /* `trouble` is ready */
    char trouble[FAST_DETAIL_MAX + 128]; /* why the run is not, or no further, kept */

    /* The writer's side. */
    fast_thread thread;  /* that writes */
    fast_store *store;   /* NULL: not open */
    bool hopeless;       /* no use to try again */
    int64_t retry_ns;    /* not before */
    int64_t span_seq;    /* of the next span */
    fast_stored_run now; /* what was measured last */
    bool news;           /* `now` has something to write */
} fast_keep;

/* The thread: writes what comes until `closing`. `ctx` is the fast_keep. */
void *fast__keep_writer(void *ctx);
