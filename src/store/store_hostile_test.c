/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what is no store, or a damaged or foreign one, is refused with a sentence and left as it
 * is; nothing crashes; runs whose process is gone are told from those that still run.
 * Method: files of all kinds under the store's name, a store with bytes changed at random places,
 * processes that begin a run and end without a word.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "store/sql.h"
#include "store_fixture.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef FAST_SANITIZED
enum { DAMAGES = 20, MAKINGS = 5 };
#else
enum { DAMAGES = 60, MAKINGS = 40 };
#endif

static fast_err on_any(void *ctx, const void *row)
{
    (void)row;
    ++*(int64_t *)ctx;
    return FAST_OK;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static size_t read_file(const char *path, char *bytes, size_t size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t got = fread(bytes, 1, size, file);
    fclose(file);
    return got;
}

/* Opening fails both ways, and one line says why. */
static void assert_refused(const char *path, fast_err err)
{
    fast_store *store = NULL;
    assert_int_equal(fast_store_open(path, false, &store), err);
    assert_null(store);
    assert_non_null(strstr(fast_error_detail(), path));
    assert_int_equal(fast_store_open(path, true, &store), err);
    assert_null(store);
}

static void other_files(void **state)
{
    fixture *f = *state;
    char path[160];
    char bytes[4096];
    fast_store *store = NULL;

    snprintf(path, sizeof path, "%s/other", f->folder);
    assert_int_equal(fast_store_open(path, false, &store), FAST_ENOENT);
    memset(bytes, 'x', sizeof bytes);
    write_file(path, bytes, sizeof bytes);
    assert_refused(path, FAST_EFORMAT);
    assert_int_equal(read_file(path, bytes, sizeof bytes), sizeof bytes);
    assert_true(bytes[0] == 'x' && bytes[4095] == 'x');
    assert_refused(f->folder, FAST_EFORMAT);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(path, FAST_EFORMAT); /* and nobody waits for a writer */
    snprintf(path, sizeof path, "%s/other/runs.db", f->folder);
    assert_int_equal(fast_store_open(path, true, &store), FAST_ENOENT);
    /* An empty file is a store that nobody wrote to. */
    snprintf(path, sizeof path, "%s/empty", f->folder);
    write_file(path, "", 0);
    assert_int_equal(fast_store_open(path, false, &store), FAST_ENOENT);
    assert_ok(fast_store_open(path, true, &store));
    fast_store_close(store);
}

/* Processes that start at once all get a run into a store that none of them found. */
static void processes_make_a_store_together(void **state)
{
    fixture *f = *state;
    enum { PROCESSES = 6 };

    for (int round = 0; round < MAKINGS; round++) {
        char path[160];
        int start[2];
        pid_t children[PROCESSES];
        fast_store *store = NULL;
        int64_t count = 0;

        snprintf(path, sizeof path, "%s/made-%d", f->folder, round);
        assert_int_equal(pipe(start), 0);
        for (int i = 0; i < PROCESSES; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                fast_stored_run run;
                int64_t id;
                char end;
                close(start[1]);
                (void)!read(start[0], &end, 1); /* until the last one is there */
                fast__store_row_init(FAST_STORE_RUNS, &run);
                run.status = "running";
                run.created = 1.0;
                fast_err err = fast_store_open(path, true, &store);
                if (!err)
                    err = fast__store_begin(store, &run, &id);
                if (err)
                    fprintf(stderr, "%s\n", fast_error_detail());
                _exit(err ? 1 : 0);
            }
            assert_true(children[i] > 0);
        }
        close(start[0]);
        close(start[1]);
        for (int i = 0; i < PROCESSES; i++) {
            int status = -1;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_int_equal(status, 0);
        }
        assert_ok(fast_store_open(path, false, &store));
        assert_ok(fast_store_list(store, NULL, on_any, &count, NULL));
        assert_int_equal(count, PROCESSES);
        fast_store_close(store);
    }
}

/* Change a closed store with statements of our own. */
static void change(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    sqlite3_close(db);
}

static void other_databases(void **state)
{
    fixture *f = *state;
    char path[160];
    fast_store *store = NULL;
    int64_t count = 0;

    snprintf(path, sizeof path, "%s/foreign", f->folder);
    change(path, "CREATE TABLE runs (id INTEGER PRIMARY KEY, what TEXT)");
    assert_refused(path, FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "another program"));
    fast_store_close(f->store);
    f->store = NULL;
    change(f->path, "PRAGMA user_version=7");
    assert_refused(f->path, FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "newer"));
    /* A store whose tables are not what the version says. */
    change(f->path, "PRAGMA user_version=6; DROP TABLE tags; ALTER TABLE runs DROP COLUMN name");
    assert_ok(fast_store_open(f->path, false, &store));
    assert_int_equal(fast_store_list(store, NULL, on_any, &count, NULL), FAST_EFORMAT);
    fast_store_close(store);
}

/* A reader brings a store of the first version up to date, with its runs; one in a file that it may
 * not write is refused, and stays as it is. */
static void older_versions(void **state)
{
    fixture *f = *state;
    fast_store *store = NULL;
    fast_stored_run run;
    int64_t id = 0, count = 0;

    fast__store_row_init(FAST_STORE_RUNS, &run);
    run.created = 1;
    assert_ok(fast__store_begin(f->store, &run, &id));
    fast_store_close(f->store);
    f->store = NULL;
    change(f->path, "ALTER TABLE metrics DROP COLUMN validation_loss;"
                    "ALTER TABLE metrics DROP COLUMN validation_accuracy; DROP TABLE comparisons;"
                    "ALTER TABLE links DROP COLUMN wait_s; DROP TABLE activity; DROP TABLE usage;"
                    "DROP TABLE notes; DROP TABLE views; DROP TABLE places; DROP TABLE passes;"
                    "PRAGMA user_version=1");
    if (geteuid() != 0) {
        assert_int_equal(chmod(f->path, 0400), 0);
        assert_int_equal(fast_store_open(f->path, false, &store), FAST_EFORMAT);
        assert_non_null(strstr(fast_error_detail(), "older"));
        assert_int_equal(chmod(f->path, 0600), 0);
    }
    assert_ok(fast_store_open(f->path, false, &store));
    assert_ok(fast_store_list(store, NULL, on_any, &count, NULL));
    assert_int_equal(count, 1);
    assert_ok(fast_store_read(store, FAST_STORE_METRICS, id, -1, on_any, &count));
    fast_store_close(store);
}

typedef struct texts {
    int64_t count;   /* rows */
    char last[8192]; /* text of the last */
} texts;

static fast_err on_note(void *ctx, const void *row)
{
    texts *t = ctx;
    t->count++;
    snprintf(t->last, sizeof t->last, "%s", ((const fast_stored_note *)row)->text);
    return FAST_OK;
}

static fast_err on_view(void *ctx, const void *row)
{
    texts *t = ctx;
    t->count++;
    snprintf(t->last, sizeof t->last, "%s", ((const fast_stored_view *)row)->query);
    return FAST_OK;
}

/* Notes come back as they were; no text of a user is read as SQL or obeyed by a terminal. */
static void notes_of_anyone(void **state)
{
    static const char *const refused[] = { "\033[2J", "a\x07", "\x7f",        "\r",
                                           "\xff",    "\xc3",  "\xed\xa0\x80" };
    fixture *f = *state;
    fast_stored_run run;
    int64_t id = 0, count = 0;
    char large[FAST_STORE_NOTE_MAX + 2];
    const char *hostile = "'); DROP TABLE runs; --\n\t<script>\xc3\xa4 %s %n";
    texts t = { 0 };

    fast__store_row_init(FAST_STORE_RUNS, &run);
    run.created = 1;
    assert_ok(fast__store_begin(f->store, &run, &id));
    assert_ok(fast_store_note(f->store, id, "first"));
    assert_ok(fast_store_note(f->store, id, hostile));
    assert_ok(fast_store_read(f->store, FAST_STORE_NOTES, id, -1, on_note, &t));
    assert_int_equal(t.count, 1);
    assert_string_equal(t.last, hostile);
    assert_ok(fast_store_list(f->store, &(fast_store_query){ .search = "DROP TABLE" }, on_any,
                              &count, NULL));
    assert_int_equal(count, 1);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_int_equal(fast_store_note(f->store, id, refused[i]), FAST_EINVAL);
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    assert_int_equal(fast_store_note(f->store, id, large), FAST_EINVAL);
    large[sizeof large - 2] = '\0';
    assert_ok(fast_store_note(f->store, id, large));
    assert_int_equal(fast_store_note(f->store, id + 1, "x"), FAST_ENOENT);
    assert_ok(fast_store_note(f->store, id, ""));
    t.count = 0;
    assert_ok(fast_store_read(f->store, FAST_STORE_NOTES, id, -1, on_note, &t));
    assert_int_equal(t.count, 0);
}

static void views_of_anyone(void **state)
{
    fixture *f = *state;
    char name[80];
    texts t = { 0 };

    assert_ok(fast_store_view(f->store, "a'); --", "q=1"));
    assert_ok(fast_store_view(f->store, "a'); --", "q=<b>"));
    assert_ok(fast_store_views(f->store, on_view, &t));
    assert_int_equal(t.count, 1);
    assert_string_equal(t.last, "q=<b>");
    assert_int_equal(fast_store_view(f->store, "", "q"), FAST_EINVAL);
    assert_int_equal(fast_store_view(f->store, "a\nb", "q"), FAST_EINVAL);
    assert_int_equal(fast_store_view(f->store, "a", "q\n"), FAST_EINVAL);
    memset(name, 'x', sizeof name);
    name[65] = '\0';
    assert_int_equal(fast_store_view(f->store, name, "q"), FAST_EINVAL);
    for (int i = 0; i < 199; i++) {
        snprintf(name, sizeof name, "view %d", i);
        assert_ok(fast_store_view(f->store, name, "q"));
    }
    assert_int_equal(fast_store_view(f->store, "one more", "q"), FAST_EINVAL);
    assert_ok(fast_store_view(f->store, "a'); --", NULL));
    t.count = 0;
    assert_ok(fast_store_views(f->store, on_view, &t));
    assert_int_equal(t.count, 199);
}

/* Numbers of runs, and nothing else. */
static void ids_are_numbers(void **state)
{
    static const char *const refused[] = { "x",  "1,",  ",1",  "1,,2", "1 2", "-1",
                                           "1)", "1;2", "1,x", "+1",   "0x1" };
    fixture *f = *state;
    fast_stored_run run;
    int64_t id = 0, count = 0;

    fast__store_row_init(FAST_STORE_RUNS, &run);
    run.created = 1;
    for (int i = 0; i < 3; i++)
        assert_ok(fast__store_begin(f->store, &run, &id));
    assert_ok(
        fast_store_list(f->store, &(fast_store_query){ .ids = "1,3,99" }, on_any, &count, NULL));
    assert_int_equal(count, 2);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (fast_store_list(f->store, &(fast_store_query){ .ids = refused[i] }, on_any, &count,
                            NULL) != FAST_EINVAL)
            fail_msg("\"%s\" was taken", refused[i]);
}

/* A schema from elsewhere runs nothing of its own. */
static void triggers_do_not_run(void **state)
{
    fixture *f = *state;
    fast_stored_run run;
    int64_t id = 0, count = 0;

    fast_store_close(f->store);
    f->store = NULL;
    change(f->path, "CREATE TRIGGER trap AFTER INSERT ON runs BEGIN DELETE FROM runs; END");
    assert_ok(fast_store_open(f->path, true, &f->store));
    fast__store_row_init(FAST_STORE_RUNS, &run);
    run.created = 1;
    assert_ok(fast__store_begin(f->store, &run, &id));
    assert_ok(fast_store_list(f->store, NULL, on_any, &count, NULL));
    assert_int_equal(count, 1);
}

static void fill(fast_store *store)
{
    fast_stored_run run;
    int64_t id = 0;

    fast__store_row_init(FAST_STORE_RUNS, &run);
    run.created = 1;
    run.options = "{\"a\": 1}";
    run.machine = "not JSON";
    for (int k = 0; k < 8; k++) {
        assert_ok(fast__store_begin(store, &run, &id));
        for (int i = 0; i < 50; i++) {
            fast_stored_metric metric;
            fast__store_row_init(FAST_STORE_METRICS, &metric);
            metric.seq = i;
            metric.loss = i;
            assert_ok(fast__store_put(store, FAST_STORE_METRICS, id, &metric));
        }
    }
}

/* Everything that a reader can ask; nothing but errors may come of it. */
static void read_all(const char *path)
{
    fast_store *store = NULL;
    fast_store_series *series = NULL;
    int64_t count = 0, total = 0;

    if (fast_store_open(path, false, &store))
        return;
    (void)!fast_store_list(store, &(fast_store_query){ .sort = "-test_accuracy" }, on_any, &count,
                           &total);
    for (int64_t id = 1; id < 9; id++) {
        (void)!fast_store_find(store, id, on_any, &count);
        for (int t = FAST_STORE_METRICS; t < FAST_STORE_TABLES; t++)
            (void)!fast_store_read(store, (fast_store_table)t, id, -1, on_any, &count);
        if (fast_store_series_new(store, id, -1, 1, 0, &series) == FAST_OK)
            fast_store_series_free(series);
    }
    fast_store_close(store);
}

static void damaged_stores(void **state)
{
    enum { SIZE = 1 << 19 };
    fixture *f = *state;
    char path[160];
    char *bytes = malloc(SIZE);
    fast_rng rng;

    fill(f->store);
    fast_store_close(f->store);
    f->store = NULL;
    const size_t size = read_file(f->path, bytes, SIZE);
    assert_true(size > 4096 && size < SIZE);
    snprintf(path, sizeof path, "%s/damaged", f->folder);
    fast__rng_init(&rng, 1, 0, 0, 0, 0);
    for (int i = 0; i < DAMAGES; i++) {
        char *copy = malloc(size);
        memcpy(copy, bytes, size);
        for (int k = 0; k < 1 + i % 16; k++)
            copy[fast__rng_below(&rng, size)] = (char)fast__rng_below(&rng, 256);
        write_file(path, copy, i % 3 == 0 ? fast__rng_below(&rng, size) : size);
        free(copy);
        read_all(path);
        fast_store *store = NULL;
        if (fast_store_open(path, true, &store) == FAST_OK) {
            (void)!fast_store_tag(store, 1, "x");
            fast_store_close(store);
        }
    }
    free(bytes);
}

/* Text that is not JSON is not given to readers. */
static fast_err on_json(void *ctx, const void *row)
{
    const fast_stored_run *run = row;
    (void)ctx;
    assert_string_equal(run->options, "{\"a\":1}");
    assert_null(run->machine);
    return FAST_OK;
}

static void broken_json_is_none(void **state)
{
    fixture *f = *state;
    fill(f->store);
    assert_ok(fast_store_find(f->store, 1, on_json, NULL));
}

/* Somebody else writes: after the patience it is an error, and then it works again. */
static void locked_store(void **state)
{
    fixture *f = *state;
    fast_store *other = NULL;

    assert_ok(fast_store_open(f->path, true, &other));
    fast__store_patience(f->store, 10);
    assert_ok(fast__store_transaction_begin(other));
    assert_int_equal(fast__store_transaction_begin(f->store), FAST_ETIMEDOUT);
    fast__store_transaction_undo(f->store);
    assert_ok(fast__store_transaction_end(other));
    assert_ok(fast__store_transaction_begin(f->store));
    fast__store_transaction_undo(f->store);
    fast_store_close(other);
}

static void no_memory(void **state)
{
    fixture *f = *state;
    fast_store *store = NULL;
    fast_err err = FAST_ENOMEM;
    int64_t count = 0;

    for (int n = 0; err; n++) {
        fast__alloc_fail_after(n, true);
        err = fast_store_open(f->path, false, &store);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
        assert_true(n < 100);
    }
    for (err = FAST_ENOMEM; err;) {
        static int n;
        fast__alloc_fail_after(n++, true);
        err = fast_store_list(store, &(fast_store_query){ .where = "model=a,model~b" }, on_any,
                              &count, NULL);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
    }
    fast_store_close(store);
}

static fast_err on_status(void *ctx, const void *row)
{
    const fast_stored_run *run = row;
    snprintf(ctx, 32, "%s", run->status);
    return FAST_OK;
}

/* The status of a run as a reader sees it, and as it is in the file. */
static void assert_status(const char *path, int64_t id, const char *seen, const char *stored)
{
    char status[32] = "";
    char sql[96];
    fast_store *reader = NULL;
    sqlite3_stmt *stmt = NULL;

    assert_ok(fast_store_open(path, false, &reader));
    assert_ok(fast_store_find(reader, id, on_status, status));
    assert_string_equal(status, seen);
    snprintf(sql, sizeof sql, "SELECT status FROM runs WHERE id=%d", (int)id);
    assert_ok(fast__store_prepare(reader, sql, false, &stmt));
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(stmt, 0), stored);
    sqlite3_finalize(stmt);
    fast_store_close(reader);
}

static void gone_processes(void **state)
{
    fixture *f = *state;
    fast_stored_run run;
    int64_t id = 0, count = 0;
    fast_store *store = NULL;

    fast_store_close(f->store);
    f->store = NULL;
    const pid_t child = fork();
    if (child == 0) {
        fast__store_row_init(FAST_STORE_RUNS, &run);
        run.created = 1;
        if (fast_store_open(f->path, true, &store) || fast__store_begin(store, &run, &id))
            _exit(1);
        kill(getpid(), SIGKILL);
    }
    assert_true(child > 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(info.si_status, SIGKILL);
    /* Whether its parent has asked for it yet makes no difference. */
    assert_status(f->path, 1, "interrupted", "running");
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_status(f->path, 1, "interrupted", "running");
    assert_ok(fast_store_open(f->path, false, &store));
    assert_ok(fast_store_list(store, &(fast_store_query){ .where = "status=interrupted" }, on_any,
                              &count, NULL));
    assert_ok(
        fast_store_list(store, &(fast_store_query){ .status = "running" }, on_any, &count, NULL));
    assert_int_equal(count, 1);
    fast_store_close(store);
    assert_ok(fast_store_open(f->path, true, &f->store));
    assert_status(f->path, 1, "interrupted", "interrupted");
    /* This process's own run is running, and so is one that cannot be seen from here. */
    fast__store_row_init(FAST_STORE_RUNS, &run);
    run.created = 1;
    assert_ok(fast__store_begin(f->store, &run, &id));
    assert_status(f->path, id, "running", "running");
    assert_ok(fast__store_run(f->store, "UPDATE runs SET host='elsewhere', pid=1 WHERE id=2"));
    assert_status(f->path, id, "running", "running");
    assert_ok(fast__store_begin(f->store, &run, &id));
    assert_ok(fast__store_run(f->store, "UPDATE runs SET boot='another/boot/1' WHERE id=3"));
    assert_status(f->path, id, "interrupted", "running");
}

/* Words that say where runs are stored are no names of files. */
static void words_are_no_paths(void **state)
{
    char usual[256], place[256];

    (void)state;
    assert_refused("none", FAST_EINVAL);
    assert_refused("no", FAST_EINVAL);
    assert_ok(fast_store_path(NULL, usual, sizeof usual));
    assert_ok(fast_store_path("auto", place, sizeof place));
    assert_string_equal(place, usual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(other_files, setup, teardown),
        cmocka_unit_test_setup_teardown(processes_make_a_store_together, setup, teardown),
        cmocka_unit_test_setup_teardown(other_databases, setup, teardown),
        cmocka_unit_test_setup_teardown(older_versions, setup, teardown),
        cmocka_unit_test_setup_teardown(notes_of_anyone, setup, teardown),
        cmocka_unit_test_setup_teardown(views_of_anyone, setup, teardown),
        cmocka_unit_test_setup_teardown(ids_are_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(triggers_do_not_run, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_stores, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_json_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(locked_store, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(gone_processes, setup, teardown),
        cmocka_unit_test(words_are_no_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
