/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of the store and its versions.
 *
 * A store says what it is in the header of its file: `application_id` is "FAST" in ASCII, and
 * `user_version` counts the migrations below that were applied. Opening for writing applies those
 * that are missing, in one transaction: a crash leaves the old form. A file of another program, or
 * one with a version above ours, is left alone. A reader of an older store that may be written
 * brings it up to date first (store.c).
 *
 * Wide JSON columns come last, so that listing runs does not read the pages they spill to. Rows of
 * a run lie together, by the key (run, number), without a second tree. Columns that a later version
 * adds are the last ones of their table, and NULL in the rows of earlier ones:
 *
 *     version 5    passes   run seq worker kind number step staleness start_s end_s
 *     version 6    passes   run seq worker kind number step staleness start_s end_s chunk
 */
#include "store/sql.h"

enum { APPLICATION_ID = 0x46415354 }; /* "FAST" */

/* From version i to i + 1. Never changed once released: a new form is a new row. */
static const char *const migrations[] = {
    "CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT, status TEXT NOT NULL, name TEXT,"
    " created REAL NOT NULL, finished REAL, pid INTEGER, host TEXT, boot TEXT, version TEXT,"
    " system TEXT, strategy TEXT, topology TEXT, model TEXT, data TEXT, transport TEXT,"
    " cluster TEXT, codec TEXT, optimizer TEXT, lr REAL, workers INTEGER, batch INTEGER,"
    " seed INTEGER, batch_of TEXT, epoch INTEGER, steps INTEGER, step_count INTEGER,"
    " samples INTEGER, loss REAL, train_accuracy REAL, test_loss REAL, test_accuracy REAL,"
    " samples_per_s REAL, time_s REAL, wall_time_s REAL, time_to_target_s REAL,"
    " bytes_sent INTEGER, staleness_mean REAL, divergence REAL, params_hash TEXT, weights TEXT,"
    " trace TEXT, dropped INTEGER, error TEXT, command TEXT, options TEXT, machine TEXT,"
    " result TEXT);"
    "CREATE INDEX runs_created ON runs (created);"
    "CREATE INDEX runs_status ON runs (status);"
    "CREATE INDEX runs_test_accuracy ON runs (test_accuracy);"
    "CREATE INDEX runs_time_to_target_s ON runs (time_to_target_s);"
    "CREATE INDEX runs_batch_of ON runs (batch_of);"
    "CREATE TABLE metrics (run INTEGER, seq INTEGER, step INTEGER, epoch REAL, time_s REAL,"
    " wall_s REAL, samples INTEGER, bytes INTEGER, loss REAL, train_accuracy REAL,"
    " test_loss REAL, test_accuracy REAL, samples_per_s REAL, compute_s REAL, exchange_s REAL,"
    " wait_s REAL, codec_s REAL, staleness_mean REAL, divergence REAL,"
    " PRIMARY KEY (run, seq)) WITHOUT ROWID;"
    "CREATE TABLE events (run INTEGER, seq INTEGER, time_s REAL, step INTEGER, kind TEXT,"
    " text TEXT, PRIMARY KEY (run, seq)) WITHOUT ROWID;"
    "CREATE TABLE workers (run INTEGER, rank INTEGER, name TEXT, steps INTEGER, compute_s REAL,"
    " exchange_s REAL, wait_s REAL, codec_s REAL, bytes_sent INTEGER, messages_sent INTEGER,"
    " PRIMARY KEY (run, rank)) WITHOUT ROWID;"
    "CREATE TABLE links (run INTEGER, sender INTEGER, receiver INTEGER, messages INTEGER,"
    " bytes INTEGER, PRIMARY KEY (run, sender, receiver)) WITHOUT ROWID;"
    "CREATE TABLE staleness (run INTEGER, bucket INTEGER, updates INTEGER,"
    " PRIMARY KEY (run, bucket)) WITHOUT ROWID;"
    "CREATE TABLE spans (run INTEGER, seq INTEGER, actor INTEGER, kind TEXT, start_s REAL,"
    " end_s REAL, PRIMARY KEY (run, seq)) WITHOUT ROWID;"
    "CREATE TABLE tags (run INTEGER, tag TEXT, PRIMARY KEY (run, tag)) WITHOUT ROWID;"
    "CREATE INDEX tags_tag ON tags (tag);",
    "ALTER TABLE metrics ADD COLUMN validation_loss REAL;"
    "ALTER TABLE metrics ADD COLUMN validation_accuracy REAL;",
    "CREATE TABLE comparisons (name TEXT PRIMARY KEY, created REAL, status TEXT, command TEXT,"
    " verdict TEXT, result TEXT) WITHOUT ROWID;",
    "ALTER TABLE links ADD COLUMN wait_s REAL;"
    "CREATE TABLE activity (run INTEGER, world INTEGER, actor INTEGER, start_s REAL, bin_s REAL,"
    " bins TEXT, PRIMARY KEY (run, world, actor)) WITHOUT ROWID;"
    "CREATE TABLE usage (run INTEGER, seq INTEGER, wall_s REAL, cpu REAL, machine_cpu REAL,"
    " memory INTEGER, received_per_s REAL, sent_per_s REAL, PRIMARY KEY (run, seq)) WITHOUT ROWID;"
    "CREATE TABLE notes (run INTEGER PRIMARY KEY, changed REAL, text TEXT);"
    "CREATE TABLE views (name TEXT PRIMARY KEY, query TEXT NOT NULL) WITHOUT ROWID;",
    "CREATE TABLE places (run INTEGER, worker INTEGER, replica INTEGER, stage INTEGER,"
    " shard INTEGER, layers TEXT, params INTEGER, PRIMARY KEY (run, worker)) WITHOUT ROWID;"
    "CREATE TABLE passes (run INTEGER, seq INTEGER, worker INTEGER, kind TEXT, number INTEGER,"
    " step INTEGER, staleness INTEGER, start_s REAL, end_s REAL,"
    " PRIMARY KEY (run, seq)) WITHOUT ROWID;",
    "ALTER TABLE passes ADD COLUMN chunk INTEGER;",
};
_Static_assert(sizeof migrations / sizeof *migrations == FAST_STORE_VERSION,
               "a migration to every version");

/* The version of the file: 0 if it is empty. Anything that is no store is refused. Called within a
 * transaction: another process may be making the store, and the three numbers must be of one time.
 */
static fast_err read_version(fast_store *store, int64_t *out)
{
    int64_t version, application, objects;

    FAST_TRY(fast__store_number(store, "PRAGMA user_version", &version));
    FAST_TRY(fast__store_number(store, "PRAGMA application_id", &application));
    FAST_TRY(fast__store_number(store, "SELECT count(*) FROM sqlite_schema", &objects));
    /* An empty database: a file that was just made, or one of no bytes. */
    if (objects == 0 && application == 0 && version == 0) {
        *out = 0;
        return FAST_OK;
    }
    if (application != APPLICATION_ID || version < 1)
        return fast__fail(FAST_EFORMAT, "\"%s\" is a database of another program, not a run store",
                          store->path);
    if (version > FAST_STORE_VERSION)
        return fast__fail(FAST_EFORMAT,
                          "\"%s\" was written by a newer fast (store version %lld, this one knows "
                          "%d); use that or another --store",
                          store->path, (long long)version, FAST_STORE_VERSION);
    *out = version;
    return FAST_OK;
}

/* Bring the schema to this version, step by step, in one transaction: a crash in the middle leaves
 * the old version whole. */
static fast_err migrate(fast_store *store)
{
    char sql[96];
    int64_t version;

    /* Another process may have done it while this one waited for the lock. */
    FAST_TRY(read_version(store, &version));
    /* Each step takes the file from one version to the next, so that any older file gets here. The
     * version is written last. */
    for (; version < FAST_STORE_VERSION; version++)
        FAST_TRY(fast__store_run(store, migrations[version]));
    sqlite3_snprintf(sizeof sql, sql, "PRAGMA application_id=%d; PRAGMA user_version=%d",
                     APPLICATION_ID, FAST_STORE_VERSION);
    return fast__store_run(store, sql);
}

/* End the transaction that is open; a failure of before is what is told. */
static fast_err end_transaction(fast_store *store, fast_err err)
{
    if (!err)
        return fast__store_run(store, "COMMIT");
    sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return err;
}

/* The version is read twice: here for reading, so that a store that is up to date is never locked,
 * and in migrate() under the lock. */
fast_err fast__store_schema(fast_store *store)
{
    int64_t version;

    FAST_TRY(fast__store_run(store, "BEGIN"));
    FAST_TRY(end_transaction(store, read_version(store, &version)));
    store->older = version > 0 && version < FAST_STORE_VERSION;
    if (version == FAST_STORE_VERSION)
        return FAST_OK;
    if (!store->write)
        return version == 0
                   ? fast__fail(FAST_ENOENT, "no runs are stored in \"%s\" yet", store->path)
                   : fast__fail(FAST_EFORMAT,
                                "\"%s\" is of an older fast (store version %lld); a run that is "
                                "stored in it brings it up to date",
                                store->path, (long long)version);
    FAST_TRY(fast__store_run(store, "BEGIN IMMEDIATE"));
    return end_transaction(store, migrate(store));
}
