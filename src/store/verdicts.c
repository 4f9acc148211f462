/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparisons of the store: a row for each name under which `fast compare` stored its runs, with
 * the verdict in words and everything that a page needs of it as JSON. A comparison that is
 * continued replaces its row. Rows of runs point here by their batch_of.
 *
 *     runs          id  name   batch_of            comparisons    name     status    verdict
 *                   17  bsp    lr-study  ------------------->     lr-study complete  "Choose ..."
 *                   18  easgd  lr-study  ---'
 *
 * Runs without such a row belong to a comparison that still runs, was killed, or was made by an
 * older version. Deleting runs leaves the row: the verdict stays true without them.
 */
#include "store/sql.h"

#include <math.h>

/* Bind a text, or NULL. SQLite copies it, since the statement may outlive the caller's row. */
static int bind_text(sqlite3_stmt *stmt, int n, const char *text)
{
    return text ? sqlite3_bind_text(stmt, n, text, -1, SQLITE_TRANSIENT)
                : sqlite3_bind_null(stmt, n);
}

/* The statement is prepared for each call: a comparison writes one row. */
fast_err fast__store_comparison_put(fast_store *store, const fast_stored_comparison *row)
{
    sqlite3_stmt *stmt = NULL;

    FAST_ASSERT(store->write);
    FAST_ASSERT(row->name != NULL);
    FAST_TRY(fast__store_prepare(store,
                                 "INSERT OR REPLACE INTO comparisons "
                                 "(name, created, status, command, verdict, result) "
                                 "VALUES (?,?,?,?,?,?)",
                                 false, &stmt));
    int code = bind_text(stmt, 1, row->name);
    if (code == SQLITE_OK)
        code = sqlite3_bind_double(stmt, 2, row->created);
    if (code == SQLITE_OK)
        code = bind_text(stmt, 3, row->status);
    if (code == SQLITE_OK)
        code = bind_text(stmt, 4, row->command);
    if (code == SQLITE_OK)
        code = bind_text(stmt, 5, row->verdict);
    if (code == SQLITE_OK)
        code = bind_text(stmt, 6, row->result);
    if (code == SQLITE_OK)
        code = sqlite3_step(stmt);
    const fast_err err = code == SQLITE_DONE ? FAST_OK : fast__store_fail(store, code);
    sqlite3_finalize(stmt);
    return err;
}

/* The text of a column; NULL for no value. */
static const char *text_at(sqlite3_stmt *stmt, int i)
{
    return (const char *)sqlite3_column_text(stmt, i);
}

/* Texts of a row are SQLite's memory until the next step, so they are lent to `each` for its call.
 * A list leaves the results out: they are long, and pages ask for one at a time. */
fast_err fast_store_comparisons(fast_store *store, const char *name, fast_store_row_fn *each,
                                void *ctx)
{
    sqlite3_stmt *stmt = NULL;
    fast_err err = FAST_OK;
    int code = SQLITE_OK;

    FAST_ASSERT(each != NULL);
    /* A column that is not JSON, of another program, reads as NULL. */
    FAST_TRY(fast__store_prepare(
        store,
        name ? "SELECT name, created, status, command, verdict, CASE WHEN json_valid(result) "
               "THEN json(result) END FROM comparisons WHERE name=?1"
             : "SELECT name, created, status, command, verdict, NULL FROM comparisons "
               "ORDER BY created DESC, name",
        false, &stmt));
    if (name)
        code = bind_text(stmt, 1, name);
    while (!err && code == SQLITE_OK) {
        const int step = sqlite3_step(stmt);

        if (step == SQLITE_DONE)
            break;
        if (step != SQLITE_ROW) {
            code = step;
            break;
        }
        const fast_stored_comparison row = { .name = text_at(stmt, 0),
                                             .created = sqlite3_column_double(stmt, 1),
                                             .status = text_at(stmt, 2),
                                             .command = text_at(stmt, 3),
                                             .verdict = text_at(stmt, 4),
                                             .result = text_at(stmt, 5) };
        err = each(ctx, &row);
    }
    if (!err && code != SQLITE_OK)
        err = fast__store_fail(store, code);
    sqlite3_finalize(stmt);
    return err;
}
