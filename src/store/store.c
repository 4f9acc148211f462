/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run store: open, prepared statements, writing.
 *
 * One SQLite file in WAL mode (write-ahead log): readers see the last committed state and never
 * wait for the writer, nor it for them. With synchronous=NORMAL a commit is a write() to the log,
 * without waiting for the disk: what is committed survives the death of the process at any moment,
 * and after a loss of power the file is whole, without the last moments.
 *
 * Statements are made from the columns in tables.c and prepared once; values are bound, never
 * pasted. A file from elsewhere is not trusted: no functions or triggers of its schema run ours.
 */
#include "base/file.h"
#include "base/memory.h"
#include "store/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE_MS = 5000, WAL_RETRY_MS = 5 };

fast_err fast__store_fail(const fast_store *store, int code)
{
    const char *path = store->path;
    const char *why = store->db ? sqlite3_errmsg(store->db) : sqlite3_errstr(code);

    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return fast__fail(FAST_ENOMEM, "no memory for the run store \"%s\"", path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return fast__fail(FAST_ETIMEDOUT, "the run store \"%s\" is locked by another program",
                          path);
    case SQLITE_FULL:
        return fast__fail(FAST_EIO, "no space left for the run store \"%s\"", path);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return fast__fail(FAST_EIO, "the run store \"%s\" cannot be written: %s", path, why);
    case SQLITE_CANTOPEN:
        return fast__fail(FAST_EIO, "the run store \"%s\" cannot be opened: %s", path,
                          errno ? strerror(errno) : why);
    case SQLITE_NOTADB:
        return fast__fail(FAST_EFORMAT, "\"%s\" is not a run store", path);
    case SQLITE_CORRUPT:
    case SQLITE_ERROR:
        return fast__fail(FAST_EFORMAT, "the run store \"%s\" is damaged: %s", path, why);
    default:
        return fast__fail(FAST_EIO, "the run store \"%s\" failed: %s", path, why);
    }
}

/* Statements are the program's own text, never a user's: values of users are bound (query.c). */
fast_err fast__store_run(fast_store *store, const char *sql)
{
    const int code = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? FAST_OK : fast__store_fail(store, code);
}

/* `lasting` tells SQLite that the statement will be used many times, so that it is not taken from
 * the connection's small cache of memory. */
fast_err fast__store_prepare(fast_store *store, const char *sql, bool lasting, sqlite3_stmt **out)
{
    sqlite3_stmt *stmt = NULL;
    const int code = sqlite3_prepare_v3(store->db, sql, -1, lasting ? SQLITE_PREPARE_PERSISTENT : 0,
                                        &stmt, NULL);
    if (code != SQLITE_OK)
        return fast__store_fail(store, code);
    *out = stmt;
    return FAST_OK;
}

/* For PRAGMAs and counts. A statement without a row is an error. */
fast_err fast__store_number(fast_store *store, const char *sql, int64_t *out)
{
    sqlite3_stmt *stmt = NULL;
    FAST_TRY(fast__store_prepare(store, sql, false, &stmt));
    const int code = sqlite3_step(stmt);
    const int64_t value = code == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
    const fast_err err = code == SQLITE_ROW ? FAST_OK : fast__store_fail(store, code);
    sqlite3_finalize(stmt);
    if (!err)
        *out = value;
    return err;
}

/* A text of at most FAST_STORE_TEXT_MAX bytes, cut before a character that does not fit. */
static int bind_text(sqlite3_stmt *stmt, int n, const char *text)
{
    size_t size = strnlen(text, FAST_STORE_TEXT_MAX + 1);
    if (size > FAST_STORE_TEXT_MAX) {
        size = FAST_STORE_TEXT_MAX;
        while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80)
            size--;
    }
    return sqlite3_bind_text(stmt, n, text, (int)size, SQLITE_TRANSIENT);
}

/* -1, a number that is not finite, and NULL are stored as NULL. JSON that is too long is left out
 * and not cut, since a part of a JSON text is no JSON. */
fast_err fast__store_bind(fast_store *store, sqlite3_stmt *stmt, int n, const fast_column *column,
                          const void *row)
{
    const void *at = (const char *)row + column->offset;
    int code = SQLITE_OK;

    if (column->kind == FAST_COLUMN_INT) {
        const int64_t value = *(const int64_t *)at;
        code = value == -1 ? sqlite3_bind_null(stmt, n) : sqlite3_bind_int64(stmt, n, value);
    } else if (column->kind == FAST_COLUMN_REAL) {
        const double value = *(const double *)at;
        code = isfinite(value) ? sqlite3_bind_double(stmt, n, value) : sqlite3_bind_null(stmt, n);
    } else {
        const char *text = *(const char *const *)at;
        const bool is_json = column->kind == FAST_COLUMN_JSON;
        if (!text || (is_json && strlen(text) > FAST_STORE_JSON_MAX))
            code = sqlite3_bind_null(stmt, n);
        else
            code = is_json ? sqlite3_bind_text(stmt, n, text, -1, SQLITE_TRANSIENT)
                           : bind_text(stmt, n, text);
    }
    return code == SQLITE_OK ? FAST_OK : fast__store_fail(store, code);
}

/* Check a path before SQLite opens it: a pipe would make it wait. */
static fast_err check_path(const char *path, bool write)
{
    struct stat info;
    if (stat(path, &info)) {
        if (write && errno == ENOENT)
            return FAST_OK;
        return errno == ENOENT || errno == ENOTDIR
                   ? fast__fail(FAST_ENOENT, "there is no run store \"%s\"", path)
                   : fast__fail(FAST_EIO, "the run store \"%s\" cannot be opened: %s", path,
                                strerror(errno));
    }
    if (!S_ISREG(info.st_mode))
        return fast__fail(FAST_EFORMAT, "\"%s\" is not a run store but %s", path,
                          S_ISDIR(info.st_mode) ? "a folder" : "no regular file");
    return FAST_OK;
}

/* The folder of a store that is to be made, and whether something can be written there: SQLite's
 * own words for a file system that is read-only speak of files that do not exist. */
static fast_err make_folder(const char *path)
{
    char folder[FAST_PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    const size_t size = slash ? (size_t)(slash - path) + (slash == path) : 0;
    if (size >= sizeof folder)
        return fast__fail(FAST_EINVAL, "the path of the run store is too long");
    if (size > 0) {
        memcpy(folder, path, size);
        folder[size] = '\0';
        FAST_TRY(fast__file_make_folder(folder));
    }
    const bool there = access(path, F_OK) == 0;
    if (access(there ? path : folder, W_OK))
        return fast__fail(FAST_EIO, "the run store \"%s\" cannot be %s: %s", path,
                          there ? "written" : "made", strerror(errno));
    return FAST_OK;
}

/* WAL lets readers read while the run writes. SQLite does not wait for a lock here: a process that
 * makes the store at the same time is waited for between tries. */
static fast_err use_log(fast_store *store)
{
    for (int left = PATIENCE_MS / WAL_RETRY_MS;; left--) {
        const fast_err err = fast__store_run(store, "PRAGMA journal_mode=WAL");
        if (err != FAST_ETIMEDOUT || left == 0)
            return err;
        sqlite3_sleep(WAL_RETRY_MS);
    }
}

/* Settings of the connection; the first ones before anything of the file is believed. */
static fast_err configure(fast_store *store)
{
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, PATIENCE_MS);
    /* A file from elsewhere must not run code of its own: no functions in its schema, no triggers,
     * no views; and no statement may write to the file behind SQLite's back. */
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(store->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    FAST_TRY(fast__store_owner_install(store));
    if (!store->write)
        return fast__store_schema(store);
    /* A file that is no store stays as it is: looked at before it is changed to WAL. */
    FAST_TRY(fast__store_schema(store));
    FAST_TRY(use_log(store));
    /* NORMAL may lose the last transactions in a power failure, never the file. */
    FAST_TRY(fast__store_run(store, "PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=1000"));
    return fast__store_owner_mark(store);
}

/* "file:PATH?immutable=1", for a store in a folder where no -shm file can be made. */
static void immutable_uri(const char *path, char *uri, size_t size)
{
    size_t used = (size_t)snprintf(uri, size, "file:");
    for (const unsigned char *c = (const unsigned char *)path; *c && used + 32 < size; c++)
        used += (size_t)snprintf(uri + used, size - used,
                                 *c == '?' || *c == '#' || *c == '%' ? "%%%02x" : "%c", *c);
    snprintf(uri + used, size - used, "?immutable=1");
}

/* Open and configure a connection. errno is cleared before, so that fast__store_fail() can add the
 * reason of the system. */
static fast_err connect(fast_store *store, const char *name, int flags)
{
    errno = 0;
    const int code = sqlite3_open_v2(name, &store->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    const fast_err err = code == SQLITE_OK ? configure(store) : fast__store_fail(store, code);
    if (err) {
        sqlite3_close_v2(store->db);
        store->db = NULL;
    }
    return err;
}

/* Make the file of a new store, for its owner alone: options and commands of runs may hold what
 * other users are not to read. SQLite gives its log the same mode. An existing file of this user
 * loses the rights of others, with its log; what cannot be made here fails in SQLite. True if it
 * was made. */
static bool make_private(const char *path)
{
    static const char *const ends[] = { "", "-wal", "-shm" };
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    char name[FAST_PATH_MAX + 8];
    struct stat info;

    if (fd >= 0)
        close(fd);
    for (int i = 0; fd < 0 && i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        /* A link stays: it may lead to a file that somebody shares on purpose. A file system
         * without modes refuses, and the store can be used all the same. */
        if (lstat(name, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
            (info.st_mode & 077) != 0)
            (void)!chmod(name, info.st_mode & 0700);
    }
    return fd >= 0;
}

/* Apply the migrations that an older store lacks, for a reader: after an upgrade the runs of before
 * can be listed at once. */
static fast_err bring_up_to_date(fast_store *store)
{
    store->write = true;
    const fast_err err = connect(store, store->path, SQLITE_OPEN_READWRITE);
    store->write = false;
    if (!err)
        sqlite3_close_v2(store->db);
    store->db = NULL;
    return err;
}

/* Connect in the way that fits: a reader of a store on a read-only file system, beside whose file
 * nobody can be writing, reads it as a file that does not change. */
static fast_err connect_any(fast_store *store)
{
    char uri[3 * FAST_PATH_MAX + 64];
    char wal[FAST_PATH_MAX + 8];
    struct stat info;

    if (store->write) {
        const bool made = make_private(store->path);
        const fast_err failed =
            connect(store, store->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);

        if (failed && made && stat(store->path, &info) == 0 && info.st_size == 0)
            unlink(store->path);
        return failed;
    }
    fast_err err = connect(store, store->path, SQLITE_OPEN_READONLY);
    if (err == FAST_EFORMAT && store->older && access(store->path, W_OK) == 0) {
        FAST_TRY(bring_up_to_date(store));
        err = connect(store, store->path, SQLITE_OPEN_READONLY);
    }
    if (err != FAST_EIO)
        return err;
    /* With a log beside it the file alone is not the whole store. */
    snprintf(wal, sizeof wal, "%s-wal", store->path);
    if (stat(wal, &info) == 0 && info.st_size > 0)
        return err;
    immutable_uri(store->path, uri, sizeof uri);
    return connect(store, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
}

/* Checks come before SQLite touches anything: a failed open leaves no file and no lock behind. */
fast_err fast_store_open(const char *path, bool write, fast_store **out)
{
    char place[FAST_PATH_MAX];
    fast_store *store = NULL;

    /* Nothing is created before the path is known to be usable. */
    FAST_TRY(fast_store_path(path, place, sizeof place));
    FAST_TRY(check_path(place, write));
    if (write)
        FAST_TRY(make_folder(place));
    FAST_TRY(fast__alloc("a store", 1, sizeof *store, &store));
    store->write = write;
    fast_err err = fast__alloc("a store's path", (int64_t)strlen(place) + 1, 1, &store->path);
    if (!err) {
        memcpy(store->path, place, strlen(place) + 1);
        err = fast__alloc("a store's statements", FAST_STORE_SQL_MAX, 1, &store->scratch);
    }
    if (!err)
        err = connect_any(store);
    if (err) {
        fast_store_close(store);
        return err;
    }
    *out = store;
    return FAST_OK;
}

/* Statements are finalized before the connection. SQLite checkpoints the log when the last
 * connection closes. */
void fast_store_close(fast_store *store)
{
    if (!store)
        return;
    for (int i = 0; i < FAST_STORE_TABLES; i++) {
        sqlite3_finalize(store->puts[i]);
        sqlite3_finalize(store->selects[i]);
    }
    sqlite3_finalize(store->update);
    sqlite3_close_v2(store->db);
    fast__free(store->scratch);
    fast__free(store->path);
    fast__free(store);
}

/* The wait is SQLite's busy handler, which sleeps between tries. */
void fast__store_patience(fast_store *store, int milliseconds)
{
    FAST_ASSERT(milliseconds >= 0);
    sqlite3_busy_timeout(store->db, milliseconds);
}

bool fast__store_has_moved(fast_store *store)
{
    int moved = 0;
    const int code = sqlite3_file_control(store->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return code == SQLITE_OK && moved;
}

/* Run a statement that gives no rows, and make it ready for the next time: bound texts are let go,
 * since their memory may not outlive this call. */
static fast_err finish(fast_store *store, sqlite3_stmt *stmt)
{
    const int code = sqlite3_step(stmt);
    const fast_err err =
        code == SQLITE_DONE || code == SQLITE_ROW ? FAST_OK : fast__store_fail(store, code);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return err;
}

/* INSERT OR REPLACE INTO metrics (run, seq, ...) VALUES (?, ?, ...); runs have no `run`. */
static fast_err prepare_put(fast_store *store, fast_store_table table)
{
    const fast_store_form *form = &fast__store_tables[table];
    const bool is_run = table == FAST_STORE_RUNS;
    const char *first = is_run ? "" : "run,";
    sqlite3_str *sql = sqlite3_str_new(store->db);

    sqlite3_str_appendf(sql, "INSERT OR REPLACE INTO %s (%s", form->name, first);
    for (int64_t i = 0; i < form->count; i++)
        sqlite3_str_appendf(sql, "%s%s", i ? "," : "", form->columns[i].name);
    sqlite3_str_appendf(sql, ") VALUES (%s", is_run ? "" : "?,");
    for (int64_t i = 0; i < form->count; i++)
        sqlite3_str_appendall(sql, i ? ",?" : "?");
    sqlite3_str_appendall(sql, ")");
    char *text = sqlite3_str_finish(sql);
    if (!text)
        return fast__store_fail(store, SQLITE_NOMEM);
    const fast_err err = fast__store_prepare(store, text, true, &store->puts[table]);
    sqlite3_free(text);
    return err;
}

/* The statement of a table is prepared when it is first used and lasts as long as the store. */
fast_err fast__store_put(fast_store *store, fast_store_table table, int64_t run, const void *row)
{
    const fast_store_form *form = &fast__store_tables[table];
    FAST_ASSERT(store->write && row);

    /* Prepared once for each table: a run writes thousands of rows. */
    if (!store->puts[table])
        FAST_TRY(prepare_put(store, table));
    sqlite3_stmt *stmt = store->puts[table];
    const int first = table == FAST_STORE_RUNS ? 1 : 2;
    fast_err err = FAST_OK;
    /* The first parameter of all tables but `runs` is the number of the run. */
    if (first == 2 && sqlite3_bind_int64(stmt, 1, run) != SQLITE_OK)
        err = fast__store_fail(store, SQLITE_NOMEM);
    for (int64_t i = 0; i < form->count && !err; i++)
        err = fast__store_bind(store, stmt, first + (int)i, &form->columns[i], row);
    if (err) {
        sqlite3_clear_bindings(stmt);
        return err;
    }
    return finish(store, stmt);
}

/* The row is inserted with the facts of this process, by which other readers tell whether it still
 * runs (owner.c). */
fast_err fast__store_begin(fast_store *store, const fast_stored_run *run, int64_t *id_out)
{
    fast_store_owner self;
    fast_stored_run row = *run;

    fast__store_owner(&self);
    /* Without a number SQLite chooses the next one. */
    row.id = -1;
    row.status = "running";
    row.pid = self.pid;
    row.host = self.host;
    row.boot = self.boot;
    FAST_TRY(fast__store_put(store, FAST_STORE_RUNS, 0, &row));
    *id_out = sqlite3_last_insert_rowid(store->db);
    return FAST_OK;
}

/* UPDATE runs SET x=coalesce(?,x), ... WHERE id=?1; the parameters are the columns' numbers. */
static fast_err prepare_update(fast_store *store)
{
    const fast_store_form *form = &fast__store_tables[FAST_STORE_RUNS];
    sqlite3_str *sql = sqlite3_str_new(store->db);

    sqlite3_str_appendall(sql, "UPDATE runs SET ");
    for (int64_t i = 1; i < form->count; i++)
        sqlite3_str_appendf(sql, "%s%s=coalesce(?%lld,%s)", i > 1 ? "," : "", form->columns[i].name,
                            (long long)i + 1, form->columns[i].name);
    sqlite3_str_appendall(sql, " WHERE id=?1");
    char *text = sqlite3_str_finish(sql);
    if (!text)
        return fast__store_fail(store, SQLITE_NOMEM);
    const fast_err err = fast__store_prepare(store, text, true, &store->update);
    sqlite3_free(text);
    return err;
}

/* Columns without a value are bound as NULL, and coalesce() leaves the stored value as it is. */
fast_err fast__store_update(fast_store *store, int64_t id, const fast_stored_run *run)
{
    const fast_store_form *form = &fast__store_tables[FAST_STORE_RUNS];
    fast_stored_run row = *run;
    FAST_ASSERT(store->write && id > 0);

    /* Prepared once; the row of a run is updated at every look of the writer. */
    if (!store->update)
        FAST_TRY(prepare_update(store));
    row.id = id;
    for (int64_t i = 0; i < form->count; i++)
        FAST_TRY(fast__store_bind(store, store->update, (int)i + 1, &form->columns[i], &row));
    return finish(store, store->update);
}

/* Numbers need no binding: they cannot hold SQL. */
fast_err fast__store_trim(fast_store *store, int64_t run, int64_t seq)
{
    char sql[128];
    snprintf(sql, sizeof sql, "DELETE FROM spans WHERE run=%lld AND seq<%lld", (long long)run,
             (long long)seq);
    return fast__store_run(store, sql);
}

/* IMMEDIATE takes the write lock at once: a lock taken later might fail in the middle of the
 * rows. */
fast_err fast__store_transaction_begin(fast_store *store)
{
    return fast__store_run(store, "BEGIN IMMEDIATE");
}

/* A commit that fails is undone, so that the next transaction can begin. */
fast_err fast__store_transaction_end(fast_store *store)
{
    const fast_err err = fast__store_run(store, "COMMIT");
    if (err)
        fast__store_transaction_undo(store);
    return err;
}

void fast__store_transaction_undo(fast_store *store)
{
    /* Some failures have undone it already. */
    if (!sqlite3_get_autocommit(store->db))
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
}

void fast__store_make_room(fast_store *store)
{
    sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}
