/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/thread.h"
#include "base/usage.h"
#include "run/team.h"
#include "store/store.h"

#include <stdatomic.h>

/*
 * The queue between the run's side (store_sink.c) and the writer's side (store_writer.c). The run's
 * side has one caller at a time, the thread that may touch the run. So the queue has one producer
 * and one consumer and needs no lock: `put` and `taken` count items, and a side writes its counter
 * after the slots that it stands for.
 *
 *     items[]    . . . o o o o . . .      put = 7, taken = 3: rows 3 to 6 wait
 *                      ^       ^          row i lies in items[i % FAST_STORE_SINK_QUEUE]
 *                      taken   put
 *
 *     run's side      fill items[put], then put + 1 (release); full if put - taken == the length
 *     writer's side   read put (acquire), commit rows taken to put - 1, then taken = put (release)
 *
 * The release of a counter publishes the slots before it, so neither side sees a half-filled slot,
 * and the run's side never overwrites a row that is not committed. The look is handed over by one
 * flag: `looked` false: the run's side may fill it; true: the writer owns it until its commit.
 */
enum {
    FAST_STORE_SINK_QUEUE = 1024,                      /* items */
    FAST_STORE_SINK_TEXT = 400,                        /* bytes of an event's text */
    FAST_STORE_SINK_ACTORS_MAX = 4096,                 /* actors whose counters are stored */
    FAST_STORE_SINK_PASSES_MAX = 4096,                 /* passes of one look */
    FAST_STORE_SINK_SPANS_MAX = 4096,                  /* newest spans of a run that are stored */
    FAST_STORE_SINK_SEEN_MAX = 2 * FAST_SNAPSHOT_SPANS /* spans of one look */
};

/* A row that is to be written. */
typedef struct fast_store_item {
    bool is_event; /* else it is a metric */
    union {
        struct {
            fast_stored_metric metric; /* of the interval since the one before */
            double loss;               /* of the epoch, for the run's row, as the next one */
            double train_accuracy;     /* of the epoch */
            double samples_per_s;      /* of the run, as the next one */
            double staleness_mean;     /* of the run */
        };                             /* if !is_event */
        struct {
            int64_t seq;                     /* number of the event */
            double time_s;                   /* since the run started */
            int64_t step;                    /* of the run */
            const char *kind;                /* a literal, as in fast_stored_event */
            char text[FAST_STORE_SINK_TEXT]; /* text of the event */
        } event;                             /* if is_event */
    };
} fast_store_item;

/* The whole timeline of an actor. */
typedef struct fast_store_bins {
    int64_t count;         /* number of bins; 0: none were read */
    int64_t bin_ns;        /* length of a bin */
    const uint16_t *parts; /* [count][FAST_ACTIVITY_KINDS] thousandths */
} fast_store_bins;

/* A pass of a worker. */
typedef struct fast_store_pass {
    int64_t worker;        /* rank */
    fast_pipe_entry entry; /* as its worker wrote it down */
} fast_store_pass;

/* Counters of all actors, read about once a second. */
typedef struct fast_store_look {
    fast_stored_worker *workers;               /* [actors] */
    char (*names)[32];                         /* [actors] */
    int64_t actors;                            /* of the team; 0: a single worker */
    int64_t staleness[FAST_STALENESS_BUCKETS]; /* updates */
    fast_snapshot_traffic *links;              /* [actors][actors]; NULL: not counted */
    fast_store_bins *bins;                     /* [actors] */
    uint16_t *parts; /* [actors][FAST_SNAPSHOT_BINS][FAST_ACTIVITY_KINDS], or fewer bins */
    int64_t world;   /* that the bins are of: 1, 2, ... */
    fast_snapshot_span *spans; /* [FAST_STORE_SINK_SEEN_MAX] */
    int64_t span_count;        /* length of spans */
    double span_s;             /* when the actors' clock was 0 */
    fast_stored_place *places; /* [place_count] of a split model; else NULL */
    int64_t place_count;       /* length of places: workers */
    char (*layers)[64];        /* [actors] texts of places */
    fast_store_pass *passes;   /* [FAST_STORE_SINK_PASSES_MAX] of a split model; else NULL */
    int64_t pass_count;        /* length of passes: those since the look before */
} fast_store_look;

/* Written before the writer starts. */
typedef struct fast_store_start {
    char path[FAST_PATH_MAX]; /* of the store; "" for the standard one */
    fast_stored_run run;      /* the row that the run starts with */
    char *options, *machine;  /* its JSON */
    int64_t opened_ns;        /* when the sink was opened, by the machine's clock */
} fast_store_start;

/* Counts of a run when an interval of its curves started. */
typedef struct fast_store_mark {
    int64_t samples;   /* of this process */
    double time_s;     /* without evaluation and saving */
    int64_t updates;   /* that were applied */
    int64_t staleness; /* sum of theirs */
} fast_store_mark;

/* The run's side. */
typedef struct fast_store_feed {
    int64_t metric_seq, event_seq;       /* of the next ones */
    int64_t dropped;                     /* items that found no room */
    int64_t wall_ns;                     /* when this call of fast_run_train() started */
    int64_t looked_ns;                   /* when the last look was taken */
    int64_t faults;                      /* of the world, seen so far */
    bool world_over;                     /* the actors' counters are added up */
    fast_snapshot_traffic *links_before; /* like fast_store_look.links, of worlds that are closed */
    int64_t world;                       /* number of the current world */
    int64_t looks;                       /* taken so far */
    int64_t *passes;                     /* [actors] entries of their logs that were looked at */
    bool saying;                         /* a note is being told: it is no reason for another */
    bool said;                           /* the user knows that the run cannot be stored */
    int64_t step_last;                   /* of the last metric */
    fast_store_mark mark;                /* at the last metric with values of an interval */
} fast_store_feed;

/* Both sides. */
typedef struct fast_store_queue {
    fast_store_item *items;              /* [FAST_STORE_SINK_QUEUE] */
    atomic_llong put, taken;             /* items ever */
    fast_store_look look;                /* the run's while `looked` is false, else the writer's */
    atomic_bool looked;                  /* a look waits for the writer */
    atomic_uint word;                    /* changes when the writer should wake */
    atomic_bool closing;                 /* the end is ready: the writer writes it and stops */
    atomic_llong id;                     /* of the run in the store; 0: none yet */
    atomic_bool troubled;                /* `trouble` is ready */
    char trouble[FAST_DETAIL_MAX + 128]; /* why the run is not, or no longer, stored */
} fast_store_queue;

/* How the run ended. Written by the run's side before `closing`. */
typedef struct fast_store_end {
    fast_stored_run run;         /* the row that the run ends with */
    char *result;                /* its JSON */
    char params_hash[24];        /* of the model, as text */
    char weights[FAST_PATH_MAX]; /* file of the weights; "" */
    char trace[FAST_PATH_MAX];   /* file of the timeline; "" */
    char error[FAST_DETAIL_MAX]; /* of the run; "": none */
} fast_store_end;

/* The writer's side. */
typedef struct fast_store_writer {
    fast_thread thread;  /* that writes */
    fast_store *store;   /* NULL: not open */
    bool hopeless;       /* no use to try again */
    int64_t retry_ns;    /* not before */
    int64_t span_seq;    /* of the next span */
    int64_t pass_seq;    /* of the next pass */
    int64_t usage_seq;   /* of the next row of usage */
    int64_t usage_ns;    /* when usage was read last; 0: never */
    fast_usage usage;    /* counters at that time */
    fast_stored_run now; /* the last measures */
    bool news;           /* `now` has changed since it was written */
} fast_store_writer;

typedef struct fast_store_sink {
    fast_store_start start;   /* read-only for both sides */
    fast_store_feed feed;     /* of the run's side */
    fast_store_queue queue;   /* of both sides */
    fast_store_end end;       /* the run's side while !queue.closing, else the writer's */
    fast_store_writer writer; /* of the writer's side */
} fast_store_sink;

/* The thread: writes items until `closing`. `ctx` is the fast_store_sink. */
void *fast__store_writer(void *ctx);
