/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics of a run by column, for curves: one pass over the run's rows, which lie together, and one
 * block of memory that doubles as it fills. A curve of many rows is thinned by the caller's
 * `every`, but evaluations, which are rare, always stay.
 */
#include "base/memory.h"
#include "store/sql.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_FIRST = 256 };

/* Rows as they come, one after the other. */
typedef struct series_rows {
    double *values; /* [room][FAST_STORE_METRIC_COLUMNS] */
    int64_t count;  /* of rows */
    int64_t room;   /* for rows */
} series_rows;

/* Double the room for rows. On failure the rows stay as they are. */
static fast_err grow(series_rows *rows)
{
    double *values = NULL;
    const int64_t room = rows->room ? 2 * rows->room : ROWS_FIRST;
    const size_t size = FAST_STORE_METRIC_COLUMNS * sizeof(double);

    FAST_TRY(fast__alloc("metrics of a run", room, size, &values));
    if (rows->count > 0)
        memcpy(values, rows->values, (size_t)rows->count * size);
    fast__free(rows->values);
    rows->values = values;
    rows->room = room;
    return FAST_OK;
}

/* Read all rows of a statement as doubles; NULL becomes NAN. */
static fast_err read_rows(fast_store *store, sqlite3_stmt *stmt, series_rows *rows)
{
    for (;;) {
        const int code = sqlite3_step(stmt);
        if (code == SQLITE_DONE)
            return FAST_OK;
        if (code != SQLITE_ROW)
            return fast__store_fail(store, code);
        if (rows->count == rows->room)
            FAST_TRY(grow(rows));
        double *row = rows->values + rows->count * FAST_STORE_METRIC_COLUMNS;
        for (int i = 0; i < FAST_STORE_METRIC_COLUMNS; i++)
            row[i] =
                sqlite3_column_type(stmt, i) == SQLITE_NULL ? NAN : sqlite3_column_double(stmt, i);
        rows->count++;
    }
}

/* The rows as columns, in one block with the series. */
static fast_err transpose(const series_rows *rows, fast_store_series **out)
{
    fast_store_series *series = NULL;
    double *values = NULL;

    FAST_TRY(fast__alloc("a series", 1, sizeof *series, &series));
    const fast_err err = fast__alloc("values of a series", rows->count,
                                     FAST_STORE_METRIC_COLUMNS * sizeof(double), &values);
    if (err) {
        fast__free(series);
        return err;
    }
    /* Rows of all columns lie one after the other; a column of the series is contiguous. */
    series->count = rows->count;
    for (int i = 0; i < FAST_STORE_METRIC_COLUMNS; i++) {
        series->values[i] = values + i * rows->count;
        for (int64_t j = 0; j < rows->count; j++)
            series->values[i][j] = rows->values[j * FAST_STORE_METRIC_COLUMNS + i];
    }
    *out = series;
    return FAST_OK;
}

/* Rows are read first and transposed at the end, because their number is known only then; both
 * copies exist for a moment. Rows of evaluations are never left out by `every`. */
fast_err fast_store_series_new(fast_store *store, int64_t run, int64_t after, int64_t every,
                               int64_t limit, fast_store_series **out)
{
    const fast_store_form *form = &fast__store_tables[FAST_STORE_METRICS];
    fast_store_sql sql = { .text = store->scratch };
    series_rows rows = { 0 };
    sqlite3_stmt *stmt = NULL;
    char where[256];

    /* Every K-th row by its number, so that a second call after the first gives the same rows. */
    if (every < 1 || limit < 0)
        return fast__fail(FAST_EINVAL, "every is 1 or more, and limit not negative");
    for (int64_t i = 0; i < form->count; i++) {
        fast__store_sql_add(&sql, i ? "," : "SELECT ");
        fast__store_sql_add(&sql, form->columns[i].name);
    }
    snprintf(
        where, sizeof where,
        " FROM metrics WHERE run=%lld AND seq>%lld AND (seq%%%lld=0 OR test_loss IS NOT NULL OR"
        " validation_loss IS NOT NULL)"
        " ORDER BY seq LIMIT %lld",
        (long long)run, (long long)after, (long long)every, limit ? (long long)limit : -1LL);
    fast__store_sql_add(&sql, where);
    FAST_ASSERT(!sql.full);
    /* Not a lasting statement: its numbers are part of its text. */
    FAST_TRY(fast__store_prepare(store, sql.text, false, &stmt));
    fast_err err = read_rows(store, stmt, &rows);
    sqlite3_finalize(stmt);
    if (!err)
        err = transpose(&rows, out);
    fast__free(rows.values);
    return err;
}

/* All columns are one block, which starts with the first column. */
void fast_store_series_free(fast_store_series *series)
{
    if (!series)
        return;
    fast__free(series->values[0]);
    fast__free(series);
}
