/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/file.h"
#include "fast/serve.h"
#include "fast/store.h"
#include "serve/http.h"

#include <stdatomic.h>

/*
 * The state and the functions that the files of the server share. A request goes through http.c
 * and guard.c to a row of the table in server.c, and from there to one of these:
 *
 *   serve_runs.c  runs, one run, tags, deletion   launch.c        starts runs
 *   serve_comparisons.c  comparisons and verdicts   compare_job.c   starts a comparison
 *   serve_access.c       login, and what this server may do
 *   serve_groups.c  runs in groups                serve_remarks.c  notes, views, trace files
 *   serve_usage.c   use of the machine over time
 *   metrics.c     metrics by column               halt.c          stops runs
 *   live.c        events of a run as they happen  serve_tables.c  systems, options, clusters
 *   watch.c       events of all runs              scrape.c        OpenMetrics
 *
 * The pages are constants that cmake/ui.cmake makes.
 */
enum {
    SERVE_LIVES_MAX = 48,   /* event streams at once */
    SERVE_LAUNCHES_MAX = 8, /* runs of this server's at once */
    SERVE_HALTS_MAX = 32,   /* runs that were told to stop and have not */
    SERVE_LIST_MAX = 10000, /* runs in one answer */
    SERVE_LIST_STANDARD = 100,
    SERVE_USAGE_MAX = 1000, /* rows of usage in one answer */
    SERVE_RUNNING_MAX = 256 /* running runs that event streams and scrapes look at */
};

/* An event stream; live.c and watch.c have more behind it. */
typedef struct serve_live {
    fast_http_stream stream; /* the answer; first, so that one is the other */
    fast_server *server;     /* its server */
    struct serve_live *next; /* of the server's list */
    int64_t said;            /* when something was sent last; nanoseconds */
    int64_t changes;         /* the store's count when it was read last; -1: never */
    int64_t looked;          /* when that was; nanoseconds */
    bool begun;              /* the first piece was sent */
    bool again;              /* there was more than one piece had room for, or it was too early */
} serve_live;

/* A stream says something at least that often, and looks at the store that often even if that has
 * not changed: a process that is killed changes its run without a write. Nanoseconds. */
#define SERVE_HEARTBEAT ((int64_t)10000000000)
#define SERVE_LOOK      ((int64_t)3000000000)

/* A run that this server started. */
typedef struct serve_launch serve_launch;

/* The comparison that this server started last. */
typedef struct serve_compare serve_compare;

/* A run that was told to stop. */
typedef struct serve_halt {
    int64_t run;   /* its number; 0: this place is free */
    int fd;        /* handle of its process */
    int64_t since; /* when; nanoseconds */
} serve_halt;

/* The server of the dashboard: one thread uses all of it, but for `stop`. */
struct fast_server {
    fast_http *http;                     /* connections */
    fast_store *store;                   /* read only */
    char path[FAST_PATH_MAX];            /* of the store */
    char program[FAST_PATH_MAX];         /* that trains; "" */
    char url[FAST_HTTP_ORIGIN_MAX + 64]; /* with the token */
    bool read_only;                      /* nothing can be changed or started */
    bool open_metrics;                   /* /metrics needs no token */
    const fast_option_group *groups;     /* of options; or NULL */
    int64_t changes;                     /* the store's count of changes */
    int64_t ticked;                      /* when tick() ran last; nanoseconds */
    serve_live *lives;                   /* event streams */
    int live_count;                      /* number of event streams */
    serve_launch *launches;              /* runs that were started here and have not ended */
    serve_compare *compare;              /* the comparison that was started last; or NULL */
    serve_halt halts[SERVE_HALTS_MAX];   /* runs that were told to stop */
    atomic_bool stop;                    /* set by anybody */
};

/* Answers a request on the run `id`, where its path has one. */
typedef void serve_answer_fn(fast_server *server, fast_http_request *request, int64_t id);

serve_answer_fn fast__serve_runs, fast__serve_run, fast__serve_spans, fast__serve_tags,
    fast__serve_delete, fast__serve_metrics, fast__serve_live, fast__serve_watch,
    fast__serve_launch, fast__serve_stop, fast__serve_systems, fast__serve_options,
    fast__serve_clusters, fast__serve_comparisons, fast__serve_scrape, fast__serve_compare,
    fast__serve_comparing, fast__serve_compare_stop, fast__serve_server, fast__serve_login,
    fast__serve_groups, fast__serve_note, fast__serve_views, fast__serve_view, fast__serve_trace;

/* Read the conditions of a list of runs from the arguments: q, where, status, tag, ids and sort. */
void fast__serve_query(fast_http_request *request, fast_store_query *query);

/* True if an option is a file, or its value names one; every element of a list is looked at. */
bool fast__serve_names_file(const fast_option *option, const char *value);

/* FAST_ENOENT, with a detail, if the store has no such run. */
fast_err fast__serve_find(fast_store *store, int64_t run);

/* Rows as JSON; NULL if memory is missing or the store cannot be read. A row of a table is an
 * object of its columns, without those of JSON; a run's row also has its tags and its note. */
json_t *fast__serve_row(fast_store_table table, const void *row);
json_t *fast__serve_run_row(fast_server *server, const fast_stored_run *run);
/* All rows of a run in a table, as an array. */
json_t *fast__serve_rows(fast_server *server, fast_store_table table, int64_t run);
/* How much of the machine a run used, by column, at most SERVE_USAGE_MAX rows: means of more. */
json_t *fast__serve_usage(fast_server *server, int64_t run);
/* {"actors": [...], "spans": [...], "activity": [...]}, the newest `max` spans. */
json_t *fast__serve_span_rows(fast_server *server, int64_t run, int64_t max);

/* Append the metrics of a run after the row *seq, at most `max` rows, by column, as one object;
 * *seq becomes the number of the last row, *count_out the number of rows. */
fast_err fast__serve_metric_rows(fast_server *server, fast_page *text, int64_t run, int64_t max,
                                 int64_t *seq, int64_t *count_out);

/* A new event stream in the server's list, of `size` bytes that begin with a serve_live; or NULL,
 * and the request was answered. */
void *fast__live_new(fast_server *server, fast_http_request *request, size_t size,
                     fast_http_stream_state (*next)(fast_http_stream *stream, fast_page *text));
/* `event: name`, `id: id` unless that is NULL, and data, which has one line. */
void fast__live_say(serve_live *live, fast_page *text, const char *name, const char *id,
                    const char *data);
/* Wake the streams that have something to say. */
void fast__live_tick(fast_server *server, int64_t now);

/* Look after the runs that were started here, and after those that were told to stop. */
void fast__launch_tick(fast_server *server, int64_t now);
void fast__launch_fini(fast_server *server); /* forgets them; they continue */
void fast__compare_tick(fast_server *server);
void fast__compare_fini(fast_server *server); /* ends it */
void fast__halt_tick(fast_server *server, int64_t now);
void fast__halt_fini(fast_server *server);

/* The pages, by path; NULL if there is no such file. */
const fast_asset *fast__asset_find(const char *path);
extern const fast_asset fast__assets[]; /* made by cmake/ui.cmake; the last has no path */
