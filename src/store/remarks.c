/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of users in the store: a note for each run, and saved views, which are questions to the
 * list of runs under a name.
 *
 *     notes   run  changed     text                 views   name      query
 *             17   1794868000  "lr was too large"           diverged  "status=diverged&sort=-id"
 *
 * Texts are hostile until they are checked: they are bounded, valid UTF-8, and hold no control
 * characters, which a terminal would obey. They are bound to statements, never part of them.
 */
#include "base/utf8.h"
#include "store/sql.h"

#include <string.h>

/* Bounds of views, in bytes; the list of all views is one answer of the server. */
enum { VIEW_NAME_MAX = 64, VIEW_QUERY_MAX = 2000, VIEWS_MAX = 200 };

/* FAST_EINVAL unless a text has at most `max` bytes, is UTF-8 and holds no control characters but,
 * where `lines`, tabs and line feeds. */
static fast_err check_text(const char *what, const char *text, size_t max, bool lines)
{
    const size_t size = strlen(text);

    if (size > max)
        return fast__fail(FAST_EINVAL, "%s is at most %zu bytes, this one has %zu", what, max,
                          size);
    for (const char *c = text; *c;) {
        const int length = fast__utf8_length(c, size - (size_t)(c - text));

        if (length == 0)
            return fast__fail(FAST_EINVAL, "%s is no UTF-8", what);
        if (((unsigned char)*c < ' ' && !(lines && (*c == '\n' || *c == '\t'))) || *c == 0x7f)
            return fast__fail(FAST_EINVAL, "%s holds no control characters", what);
        c += length;
    }
    return FAST_OK;
}

/* Run a statement that gives no rows, and free it. A statement of this file is used once for each
 * change of a person's, so that none is prepared for long. */
static fast_err finish(fast_store *store, sqlite3_stmt *stmt)
{
    const int code = sqlite3_step(stmt);
    const fast_err err = code == SQLITE_DONE ? FAST_OK : fast__store_fail(store, code);

    sqlite3_finalize(stmt);
    return err;
}

/* Takes the row of a run that exists: nothing but its existence is asked for, and a run that is
 * missing is an error of fast_store_find(). */
static fast_err ignore_row(void *ctx, const void *row)
{
    (void)ctx;
    (void)row;
    return FAST_OK;
}

/* A note of a run that does not exist would stay for ever, so the run is looked for first. The time
 * is SQLite's: Unix seconds from a Julian day. */
fast_err fast_store_note(fast_store *store, int64_t run, const char *text)
{
    sqlite3_stmt *stmt = NULL;

    FAST_ASSERT(store->write);
    FAST_TRY(check_text("a note", text, FAST_STORE_NOTE_MAX, true));
    FAST_TRY(fast_store_find(store, run, ignore_row, NULL));
    FAST_TRY(fast__store_prepare(store,
                                 text[0] ? "INSERT OR REPLACE INTO notes (run, changed, text)"
                                           " VALUES (?1,(julianday()-2440587.5)*86400,?2)"
                                         : "DELETE FROM notes WHERE run=?1",
                                 false, &stmt));
    sqlite3_bind_int64(stmt, 1, run);
    if (text[0])
        sqlite3_bind_text(stmt, 2, text, -1, SQLITE_TRANSIENT);
    return finish(store, stmt);
}

/* Texts of a row are SQLite's memory until the next step: lent to `each` for its call. */
fast_err fast_store_views(fast_store *store, fast_store_row_fn *each, void *ctx)
{
    sqlite3_stmt *stmt = NULL;
    fast_err err = FAST_OK;
    int code = SQLITE_ROW;

    FAST_ASSERT(each != NULL);
    FAST_TRY(
        fast__store_prepare(store, "SELECT name, query FROM views ORDER BY name", false, &stmt));
    /* A row of another program may have NULL where this one writes texts: it is no view. */
    while (!err && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        const fast_stored_view row = { (const char *)sqlite3_column_text(stmt, 0),
                                       (const char *)sqlite3_column_text(stmt, 1) };
        err = row.name && row.query ? each(ctx, &row) : FAST_OK;
    }
    if (!err && code != SQLITE_DONE)
        err = fast__store_fail(store, code);
    sqlite3_finalize(stmt);
    return err;
}

/* A new view is refused where there are VIEWS_MAX: the list is sent whole. */
fast_err fast_store_view(fast_store *store, const char *name, const char *query)
{
    sqlite3_stmt *stmt = NULL;
    int64_t count = 0;

    FAST_ASSERT(store->write);
    if (!name[0])
        return fast__fail(FAST_EINVAL, "a view needs a name");
    FAST_TRY(check_text("the name of a view", name, VIEW_NAME_MAX, false));
    if (query)
        FAST_TRY(check_text("a view", query, VIEW_QUERY_MAX, false));
    FAST_TRY(fast__store_prepare(store, "SELECT count(*) FROM views WHERE name<>?1", false, &stmt));
    sqlite3_bind_text(stmt, 1, name, -1, SQLITE_TRANSIENT);
    if (sqlite3_step(stmt) == SQLITE_ROW)
        count = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    if (query && count >= VIEWS_MAX)
        return fast__fail(FAST_EINVAL, "there are %d views; remove one first", VIEWS_MAX);
    FAST_TRY(fast__store_prepare(store,
                                 query ? "INSERT OR REPLACE INTO views (name, query) VALUES (?1,?2)"
                                       : "DELETE FROM views WHERE name=?1",
                                 false, &stmt));
    sqlite3_bind_text(stmt, 1, name, -1, SQLITE_TRANSIENT);
    if (query)
        sqlite3_bind_text(stmt, 2, query, -1, SQLITE_TRANSIENT);
    return finish(store, stmt);
}
