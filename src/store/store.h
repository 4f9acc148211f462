/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "fast/store.h"

/*
 * The store's writing side, for the store writer of a run (run/sink/store_writer.c). It knows
 * tables and rows, and nothing of what a run is. fast/store.h has the reading side and the rows.
 *
 *   store_columns.c  the columns of every table
 *   schema.c         versions and migrations
 *   store.c          open, prepared statements, writing
 *   owner.c          is the process of a run still there
 *   path.c           where the store is
 *   query.c          conditions of a user as SQL with values
 *   store_read.c     rows for callers
 *   series.c         metrics by column
 *   verdicts.c       comparisons and their verdicts
 *   remarks.c        notes on runs and saved views
 *   store_none.c     all of it for builds without SQLite
 */
enum {
    FAST_STORE_VERSION = 6,           /* of the schema: PRAGMA user_version */
    FAST_STORE_TEXT_MAX = 16384,      /* bytes of a text; longer ones are cut */
    FAST_STORE_JSON_MAX = 1024 * 1024 /* bytes of a JSON text; longer ones are left out */
};

/* Set a row of a table to no values: -1, NAN and NULL. */
void fast__store_row_init(fast_store_table table, void *row);

/* How long a call may wait for another process's transaction; 5000 ms unless told. */
void fast__store_patience(fast_store *store, int milliseconds);

/* Whether the file of an open store was moved or deleted: what is written now, nobody finds. */
bool fast__store_has_moved(fast_store *store);

/* Begin a run: `id`, `status`, `pid`, `host` and `boot` of the row are not looked at; the run is
 * `running` and this process's. */
fast_err fast__store_begin(fast_store *store, const fast_stored_run *run, int64_t *id_out);

/* Bring a run's row up to date: all that was measured (epoch to dropped), status, finished, error
 * and result; columns without a value here stay as they are. */
fast_err fast__store_update(fast_store *store, int64_t id, const fast_stored_run *run);

/* Add a row of the table's type to a run; one with the same key is replaced. Not for runs. */
fast_err fast__store_put(fast_store *store, fast_store_table table, int64_t run, const void *row);

/* Store a comparison; one of the same name is replaced. */
fast_err fast__store_comparison_put(fast_store *store, const fast_stored_comparison *row);

/* Forget the spans of a run with a `seq` below this. */
fast_err fast__store_trim(fast_store *store, int64_t run, int64_t seq);

/* Rows between these become visible, and safe from a crash of the process, together. A failed end
 * takes them back; so does undo, which never fails and is allowed at any time. */
fast_err fast__store_transaction_begin(fast_store *store);
fast_err fast__store_transaction_end(fast_store *store);
void fast__store_transaction_undo(fast_store *store);

/* Make room where a disk is full: what was committed moves to its place, its log is emptied. Never
 * fails: without room it does nothing. */
void fast__store_make_room(fast_store *store);
