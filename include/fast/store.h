/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * store.h - the run store: one SQLite file in WAL mode, written by runs with the option
 * `store` (docs/runs.md) and read here. The rules of fast.h hold.
 *
 * Reading never disturbs a run that writes. A row is given to a callback and lent for the call, its
 * texts included. A value that was not measured is NAN, -1 or NULL (SQL: NULL).
 * fast_store_columns() has the names and kinds of all columns, so that no caller lists them again.
 */

#include "fast/fast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open store. */
typedef struct fast_store fast_store;

/* A row of `runs`: one run, its options, and its latest measures. */
typedef struct fast_stored_run {
    int64_t id;         /* 1, 2, ...: never given twice */
    const char *status; /* running, done, target, patience, canceled, diverged, failed, interrupted:
                               its process is gone and did not say why */
    const char *name;   /* the user's; or NULL */
    double created;     /* Unix seconds */
    double finished;    /* Unix seconds; NAN while it runs */
    int64_t pid;        /* number of the process that writes it */
    const char *host;   /* name of the machine of that process */
    const char *boot;   /* start of that process, as a process number may be used again */
    const char *version;     /* FAST's version */
    const char *system;      /* a preset; or NULL */
    const char *strategy;    /* of the workers; NULL for a single worker */
    const char *topology;    /* of the workers; NULL for a single worker */
    const char *model;       /* as the options name it */
    const char *data;        /* as the options name it */
    const char *transport;   /* as the options name it */
    const char *cluster;     /* simulated; or NULL */
    const char *codec;       /* a chain; or NULL */
    const char *optimizer;   /* with its options */
    double lr;               /* base learning rate */
    int64_t workers;         /* actors that compute gradients */
    int64_t batch;           /* samples per worker and step */
    int64_t seed;            /* of everything random */
    const char *batch_of;    /* the comparison that it is part of; or NULL */
    int64_t epoch;           /* epochs finished */
    int64_t steps;           /* taken */
    int64_t step_count;      /* in all */
    int64_t samples;         /* seen */
    double loss;             /* of training, mean of the last epoch so far */
    double train_accuracy;   /* of training, mean of the last epoch so far */
    double test_loss;        /* of the last evaluation */
    double test_accuracy;    /* of the last evaluation */
    double samples_per_s;    /* of training */
    double time_s;           /* of training; virtual on `sim` */
    double wall_time_s;      /* by the machine's clock */
    double time_to_target_s; /* until the target was reached */
    int64_t bytes_sent;      /* by all actors */
    double staleness_mean;   /* of applied updates */
    double divergence;       /* of the replicas */
    const char *params_hash; /* of parameters and state, 16 digits; or NULL */
    const char *weights;     /* the file in which they are saved; or NULL */
    const char *trace;       /* the file of the timeline (Perfetto); or NULL */
    int64_t dropped;         /* rows that came too fast to be stored */
    const char *error;       /* why it failed; or NULL */
    const char *command;     /* command line that repeats it, quoted for a shell */
    const char *options;     /* JSON: every option as it was resolved */
    const char *machine;     /* JSON: where it ran, with versions */
    const char *result;      /* JSON: all measures, with the names of --json */
} fast_stored_run;

/* A row of `metrics`: the measures of a run at one moment. `loss`, `train_accuracy`,
 * `samples_per_s` and `staleness_mean` are those of the interval since the last row that has them;
 * a row that comes before every worker took another step has none. */
typedef struct fast_stored_metric {
    int64_t seq;           /* 0, 1, ... within the run */
    int64_t step;          /* steps taken */
    double epoch;          /* passes over the data so far, with its fraction */
    double time_s;         /* since training began; virtual on `sim` */
    double wall_s;         /* since training began, by the machine's clock */
    int64_t samples;       /* seen */
    int64_t bytes;         /* sent by all actors */
    double loss;           /* of training, mean of the interval's batches */
    double train_accuracy; /* of training, in the interval */
    double test_loss;      /* NAN if no evaluation took place at this step */
    double test_accuracy;  /* NAN if no evaluation took place at this step */
    double samples_per_s;  /* of training, in the interval */
    double compute_s;      /* in gradients and updates; mean of the workers so far, as the next 3 */
    double exchange_s;     /* moving and summing up */
    double wait_s;         /* blocked before a peer had sent */
    double codec_s;        /* encoding and decoding */
    double staleness_mean; /* of updates that were applied in the interval */
    double divergence;     /* of the replicas */
    double validation_loss;     /* NAN if the validation set was not evaluated at this step */
    double validation_accuracy; /* NAN if the validation set was not evaluated at this step */
} fast_stored_metric;

/* A row of `events`. */
typedef struct fast_stored_event {
    int64_t seq;      /* 0, 1, ... within the run */
    double time_s;    /* since training began; virtual on `sim` */
    int64_t step;     /* steps taken */
    const char *kind; /* start, note, fault, join, phase, save, evaluate, stop */
    const char *text; /* one line */
} fast_stored_event;

/* A row of `workers`: an actor's counters; servers count too. */
typedef struct fast_stored_worker {
    int64_t rank;          /* actors of the run are counted, workers first */
    const char *name;      /* "worker 3" */
    int64_t steps;         /* taken */
    double compute_s;      /* in gradients and updates */
    double exchange_s;     /* moving and summing up */
    double wait_s;         /* blocked before a peer had sent */
    double codec_s;        /* encoding and decoding */
    int64_t bytes_sent;    /* with headers */
    int64_t messages_sent; /* of messages */
} fast_stored_worker;

/* A row of `links`: messages of one actor to another, and waiting for them. */
typedef struct fast_stored_link {
    int64_t sender;   /* rank */
    int64_t receiver; /* rank */
    int64_t messages; /* sent */
    int64_t bytes;    /* with headers */
    double wait_s;    /* that the receiver was blocked for the sender, without times of flight */
} fast_stored_link;

/* A row of `staleness`. */
typedef struct fast_stored_staleness {
    int64_t bucket;  /* as in fast_result: 0, 1, 2, 3, 4 to 7, 8 to 15, ... */
    int64_t updates; /* that were that stale */
} fast_stored_staleness;

/* A row of `spans`: one activity of an actor; only the newest of a run are stored. */
typedef struct fast_stored_span {
    int64_t seq;      /* grows within the run */
    int64_t actor;    /* rank */
    const char *kind; /* compute, codec, send or wait */
    double start_s;   /* since training began; virtual on `sim` */
    double end_s;     /* since training began */
} fast_stored_span;

/* A row of `activity`: the whole timeline of an actor in bins of equal length, of one world: each
 * phase of a run is one. */
typedef struct fast_stored_activity {
    int64_t world;    /* 1, 2, ... */
    int64_t actor;    /* rank */
    double start_s;   /* of the first bin, since training began; virtual on `sim` */
    double bin_s;     /* length of a bin */
    const char *bins; /* JSON: thousandths of a bin in compute, codec, send and wait, bin by bin */
} fast_stored_activity;

/* A row of `usage`: the machine and the run's process, about once a second. */
typedef struct fast_stored_usage {
    int64_t seq;           /* 0, 1, ... within the run */
    double wall_s;         /* since training began, by the machine's clock */
    double cpu;            /* cores that the process used since the row before, as the next 4 */
    double machine_cpu;    /* cores that were busy in the machine */
    int64_t memory;        /* bytes of the process that are resident */
    double received_per_s; /* bytes by network interfaces of the machine, without loopback */
    double sent_per_s;     /* bytes by network interfaces of the machine, without loopback */
} fast_stored_usage;

/* A row of `notes`: at most one for each run. */
typedef struct fast_stored_note {
    double changed;   /* Unix seconds */
    const char *text; /* of a user; several lines */
} fast_stored_note;

/* A row of `places`: the part of a split model that a worker has. */
typedef struct fast_stored_place {
    int64_t worker;     /* rank */
    int64_t replica;    /* along `data` of the mesh */
    int64_t stage;      /* along `pipe`, from the input on */
    int64_t shard;      /* along `tensor` */
    const char *layers; /* with parameters, "conv1 to dense2" */
    int64_t params;     /* elements of its parameters */
} fast_stored_place;

/* A row of `passes`: a pass of a micro-batch through the part of a worker; the first ones of a run
 * are stored. */
typedef struct fast_stored_pass {
    int64_t seq;    /* grows within the run */
    int64_t worker; /* rank */
    const char
        *kind;      /* forward or backward; gradients of weights that are computed later: weights */
    int64_t number; /* of the micro-batch, over the run */
    int64_t step;   /* of the worker */
    int64_t staleness; /* backward: updates since its weights were read; -1 */
    double start_s;    /* since training began; virtual on `sim` */
    double end_s;      /* since training began */
    int64_t chunk;     /* of the worker's stages, from 0: several where a pipeline is interleaved */
} fast_stored_pass;

/* A row of `tags`. */
typedef struct fast_stored_tag {
    const char *tag; /* a word of the user's */
} fast_stored_tag;

/* A row of `comparisons`: a comparison whose runs have its name as batch_of. */
typedef struct fast_stored_comparison {
    const char *name;    /* of the comparison */
    double created;      /* Unix seconds of its verdict */
    const char *status;  /* complete, or incomplete: it was stopped and recommends nothing */
    const char *command; /* the user's command line; or NULL */
    const char *verdict; /* one paragraph */
    const char *result;  /* JSON: the facts of the verdict, lines, trials and runs */
} fast_stored_comparison;

/* A row of `views`: a question to the list of runs that a user gave a name. */
typedef struct fast_stored_view {
    const char *name;  /* of the view */
    const char *query; /* text of the page that shows runs: its fields and columns */
} fast_stored_view;

/* The tables, each with the row of the same name. */
typedef enum fast_store_table {
    FAST_STORE_RUNS,
    FAST_STORE_METRICS,
    FAST_STORE_EVENTS,
    FAST_STORE_WORKERS,
    FAST_STORE_LINKS,
    FAST_STORE_STALENESS,
    FAST_STORE_SPANS,
    FAST_STORE_TAGS,
    FAST_STORE_ACTIVITY,
    FAST_STORE_USAGE,
    FAST_STORE_NOTES,
    FAST_STORE_PLACES,
    FAST_STORE_PASSES,
    FAST_STORE_TABLES /* their number */
} fast_store_table;

typedef enum fast_column_kind {
    FAST_COLUMN_INT,  /* int64_t, -1: none */
    FAST_COLUMN_REAL, /* double, NAN: none */
    FAST_COLUMN_TEXT, /* const char *, NULL: none */
    FAST_COLUMN_JSON  /* const char * to JSON, NULL: none */
} fast_column_kind;

/* A column: the field of the same name in the row. */
typedef struct fast_column {
    const char *name;      /* in SQL, JSON and C */
    fast_column_kind kind; /* the field's type */
    size_t offset;         /* of the field in its row */
} fast_column;

/* Return the columns of a table, in the order of its row. [any thread] */
FAST_API const fast_column *fast_store_columns(fast_store_table table, int64_t *count_out);

/* Write the path of a store to `out`: `path`, or for NULL, "" and "auto"
 * $XDG_DATA_HOME/fast/runs.db, else ~/.local/share/fast/runs.db. FAST_ENOENT if no folder is known,
 * FAST_EINVAL if it does not fit, and for "none" and "no", which mean no store. [any thread] */
FAST_API FAST_MUST_CHECK fast_err fast_store_path(const char *path, char *out, size_t size);

/* Open a store, `path` as above. To write, the file is created if it does not exist, brought to
 * this version's schema, and runs whose process is gone are marked as interrupted; to read, it
 * stays as it is. FAST_ENOENT: no such file. FAST_EFORMAT: not a store, damaged, or of a newer
 * FAST. FAST_EIO, FAST_ETIMEDOUT: it cannot be read or locked. FAST_ENOTSUP: this build has no
 * SQLite. */
FAST_API FAST_MUST_CHECK fast_err fast_store_open(const char *path, bool write, fast_store **out);
FAST_API void fast_store_close(fast_store *store); /* NULL is allowed */

/* Takes one row. An error that it returns ends the reading with that error. */
typedef fast_err fast_store_row_fn(void *ctx, const void *row);

/* Which runs, in which order; zero means all runs, newest first. */
typedef struct fast_store_query {
    size_t size;        /* bytes of this struct, as in fast.h; 0 means sizeof */
    const char *search; /* text that occurs in the name, the command, the tags, the note or the
                           system; NULL */
    const char *where;  /* "status=done,workers>=4,model~net": columns of `runs` and `tag`, with
                           =, !=, <, <=, >, >= or ~ (contains); all must hold. A text also equals
                           what stands before its colon: strategy=ps. NULL */
    const char *status; /* one or more, separated by commas; NULL */
    const char *tag;    /* only runs with this tag; NULL */
    const char *ids;    /* only these runs, like "3,5,8"; at most 200; NULL */
    const char *sort;   /* a column, with - before it from the largest down; NULL: "-id" */
    int64_t limit;      /* rows at most; 0: all */
    int64_t offset;     /* rows to leave out before */
} fast_store_query;

/* Give the runs of a query to `each`: rows are fast_stored_run, with `options`, `machine` and
 * `result` NULL. *total_out, which may be NULL, is the number without limit and offset. FAST_EINVAL
 * if the query is malformed. */
FAST_API FAST_MUST_CHECK fast_err fast_store_list(fast_store *store, const fast_store_query *query,
                                                  fast_store_row_fn *each, void *ctx,
                                                  int64_t *total_out);

/* Give one run with all its columns to `each`. FAST_ENOENT: no such run. */
FAST_API FAST_MUST_CHECK fast_err fast_store_find(fast_store *store, int64_t run,
                                                  fast_store_row_fn *each, void *ctx);

/* Give the rows of a run in another table to `each`, in the order of their first column and only
 * those whose first column is above `after` (-1: all; ignored for tags). */
FAST_API FAST_MUST_CHECK fast_err fast_store_read(fast_store *store, fast_store_table table,
                                                  int64_t run, int64_t after,
                                                  fast_store_row_fn *each, void *ctx);

/* Metrics of a run by column: values[i] is the i-th of fast_store_columns(FAST_STORE_METRICS). */
enum { FAST_STORE_METRIC_COLUMNS = 20 };
typedef struct fast_store_series {
    int64_t count;                             /* number of rows */
    double *values[FAST_STORE_METRIC_COLUMNS]; /* [count] each; NAN where not measured */
} fast_store_series;

/* Read metrics after the row `after` (-1: all): every `every`-th row by `seq` (1: each), and always
 * rows of evaluations; at most `limit` rows (0: all). */
FAST_API FAST_MUST_CHECK fast_err fast_store_series_new(fast_store *store, int64_t run,
                                                        int64_t after, int64_t every, int64_t limit,
                                                        fast_store_series **out);
FAST_API void fast_store_series_free(fast_store_series *series); /* NULL is allowed */

/* Give the comparison of this name to `each`, as a fast_stored_comparison with its result; for NULL
 * all of them, newest first, with `result` NULL. No such comparison is no error. */
FAST_API FAST_MUST_CHECK fast_err fast_store_comparisons(fast_store *store, const char *name,
                                                         fast_store_row_fn *each, void *ctx);

/* Give a run a tag, or take it away; a tag is 1 to 64 bytes. FAST_ENOENT: no such run. */
FAST_API FAST_MUST_CHECK fast_err fast_store_tag(fast_store *store, int64_t run, const char *tag);
FAST_API FAST_MUST_CHECK fast_err fast_store_untag(fast_store *store, int64_t run, const char *tag);

/* Replace the note of a run; "" removes it. A note is at most FAST_STORE_NOTE_MAX bytes of UTF-8
 * without control characters but tabs and line feeds. FAST_ENOENT: no such run. */
enum { FAST_STORE_NOTE_MAX = 4096 };
FAST_API FAST_MUST_CHECK fast_err fast_store_note(fast_store *store, int64_t run, const char *text);

/* Give all saved views to `each` by their names, as fast_stored_view. */
FAST_API FAST_MUST_CHECK fast_err fast_store_views(fast_store *store, fast_store_row_fn *each,
                                                   void *ctx);
/* Save a view, or replace the one of this name; a query of NULL removes it. A name has 1 to 64
 * bytes, a query at most 2000. FAST_EINVAL: it has more, or there are 200 views already. */
FAST_API FAST_MUST_CHECK fast_err fast_store_view(fast_store *store, const char *name,
                                                  const char *query);

/* Delete a run with all its rows. FAST_ENOENT: no such run; FAST_EINVAL: it still runs. */
FAST_API FAST_MUST_CHECK fast_err fast_store_delete(fast_store *store, int64_t run);

/* Return a number that changes when another connection has changed the store. Cheap. */
FAST_API FAST_MUST_CHECK fast_err fast_store_changes(fast_store *store, int64_t *out);

#ifdef __cplusplus
}
#endif
