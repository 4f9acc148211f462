/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "split/pipeline.h"

#include <stdatomic.h>

/*
 * The first passes of a worker with a part of a split model, for pictures: written by the worker,
 * and read by any thread while it runs. An entry does not change once it is counted.
 */
enum {
    FAST_PIPE_LOG_ALL = 1024, /* entries of all workers together, about */
    FAST_PIPE_LOG_MIN = 16    /* entries of a worker, at least */
};

typedef struct fast_pipe_entry {
    fast_pipe_kind kind; /* of the pass */
    int64_t number;      /* of the micro-batch, over the run */
    int64_t step;        /* of the worker */
    int64_t staleness;   /* backward: updates since its weights were read; -1 */
    int64_t begin, end;  /* times of the actor's clock, ns */
    int64_t chunk;       /* of the worker's stages, from 0 */
} fast_pipe_entry;

typedef struct fast_pipe_log {
    fast_pipe_entry *entries; /* [size]; NULL: nothing is recorded */
    int64_t size;             /* entries that are recorded at most */
    atomic_llong count;       /* entries that readers may read */
} fast_pipe_log;

/* Allocate a log for one of `workers` workers. FAST_ENOMEM. */
fast_err fast__pipe_log_init(fast_pipe_log *log, int64_t workers);
void fast__pipe_log_fini(fast_pipe_log *log); /* all 0 is allowed */

/* Append an entry, unless the log is full. Only the worker itself calls it. */
void fast__pipe_log_add(fast_pipe_log *log, const fast_pipe_entry *entry);
/* Copy entries from `from` on, at most `count_max`; returns their number. Any thread. */
int64_t fast__pipe_log_read(const fast_pipe_log *log, int64_t from, int64_t count_max,
                            fast_pipe_entry *out);
/* Return the name of a kind, as in the run store. */
const char *fast__pipe_kind_name(fast_pipe_kind kind);
