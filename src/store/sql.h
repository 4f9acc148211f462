/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "store/store_columns.h"

#include <sqlite3.h>

/*
 * Functions that the SQL files of the store share. All of them use one connection, and so one
 * thread at a time. Text of a user never becomes part of a statement: names are looked up in the
 * table of columns, and values are bound.
 */

enum { FAST_STORE_COLUMNS_MAX = 64, FAST_STORE_SQL_MAX = 8192 };

struct fast_store {
    sqlite3 *db;                              /* the connection */
    char *path;                               /* of the file, for messages */
    bool write;                               /* opened for writing */
    bool older;                               /* the file is of an earlier version */
    sqlite3_stmt *puts[FAST_STORE_TABLES];    /* insert or replace a row; made when first used */
    sqlite3_stmt *selects[FAST_STORE_TABLES]; /* rows of a run after a number; NULL until needed */
    sqlite3_stmt *update;                     /* of a run's row; NULL until needed */
    char *scratch;                            /* FAST_STORE_SQL_MAX bytes for SQL and texts */
};

/* The error for what SQLite said, with a detail that names the file and what to do. */
fast_err fast__store_fail(const fast_store *store, int code);

/* Run statements without values and results. */
fast_err fast__store_run(fast_store *store, const char *sql);
/* Prepare a statement, which the caller finalizes; *out stays NULL on failure. `lasting`: it will
 * be used many times. */
fast_err fast__store_prepare(fast_store *store, const char *sql, bool lasting, sqlite3_stmt **out);
/* Run a statement that gives one whole number; a statement without a row is an error. */
fast_err fast__store_number(fast_store *store, const char *sql, int64_t *out);

/* Bind the value of a column in a row as the n-th parameter of a statement; NULL for a value that
 * is not set. Texts are copied. */
fast_err fast__store_bind(fast_store *store, sqlite3_stmt *stmt, int n, const fast_column *column,
                          const void *row);

/* Check that the file is a store of this program, and bring it to FAST_STORE_VERSION if it may be
 * written; schema.c. */
fast_err fast__store_schema(fast_store *store);

/* Who this process is, for the columns of a run. */
typedef struct fast_store_owner {
    int64_t pid;    /* of the process */
    char host[256]; /* name of the machine */
    char boot[128]; /* boot id, process namespace, and when the process began */
} fast_store_owner;
/* Describe this process. */
void fast__store_owner(fast_store_owner *out);

/* The SQL function gone(host, boot, pid): 1 if that process of this machine is no more, 0 if it
 * lives or cannot be seen from here. */
fast_err fast__store_owner_install(fast_store *store);
/* Mark running runs whose process is gone as interrupted. The store must be open for writing. */
fast_err fast__store_owner_mark(fast_store *store);

/* Text of a growing statement with its values: a query of the user's, read. */
enum { FAST_STORE_VALUES_MAX = 64 };
typedef struct fast_store_sql {
    char *text;                            /* FAST_STORE_SQL_MAX bytes */
    size_t used;                           /* bytes in use */
    char *values[FAST_STORE_VALUES_MAX];   /* texts, owned; NULL where it is a number */
    double numbers[FAST_STORE_VALUES_MAX]; /* where values[i] is NULL */
    int count;                             /* of values */
    bool full;                             /* something did not fit */
} fast_store_sql;
/* Append " WHERE ..." to `sql`; query.c. */
fast_err fast__store_where(fast_store_sql *sql, const fast_store_query *query);
/* Append " ORDER BY ... LIMIT ... OFFSET ...". */
fast_err fast__store_order(fast_store_sql *sql, const fast_store_query *query);
/* Append text of the program's own; sets `full` if it does not fit. */
void fast__store_sql_add(fast_store_sql *sql, const char *text);
/* Bind the values to a statement, which must not outlive `sql`. */
fast_err fast__store_sql_bind(fast_store *store, const fast_store_sql *sql, sqlite3_stmt *stmt);
/* Free the values. */
void fast__store_sql_fini(fast_store_sql *sql);

/* The status that readers see, as an expression on `runs`. */
#define FAST_STORE_STATUS \
    "CASE WHEN status='running' AND gone(host,boot,pid) THEN 'interrupted' ELSE status END"
