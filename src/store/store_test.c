/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what is put into a store comes out of it, in the order and selection that is asked for, and
 * nothing that a user types or a file holds is read as SQL.
 * Method: a store in a folder of its own per test; rows with known values; the schema is compared
 * with the columns that statements are made of.
 */
#include "base/memory.h"
#include "store/sql.h"
#include "store_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Rows of one kind as they come. */
typedef struct seen {
    int64_t count;      /* of rows */
    int64_t ids[64];    /* of runs */
    char text[64][128]; /* of what the test looks at */
    double real;        /* of the last row */
} seen;

static fast_err on_run(void *ctx, const void *row)
{
    seen *s = ctx;
    const fast_stored_run *run = row;
    assert_true(s->count < 64);
    s->ids[s->count] = run->id;
    snprintf(s->text[s->count++], sizeof s->text[0], "%s", run->status);
    s->real = run->test_accuracy;
    return FAST_OK;
}

static int64_t add_run(fast_store *store, const char *model, double accuracy, int64_t workers)
{
    fast_stored_run run;
    int64_t id = 0;
    fast__store_row_init(FAST_STORE_RUNS, &run);
    run.created = 1000;
    run.model = model;
    run.test_accuracy = accuracy;
    run.workers = workers;
    run.command = "fast train --model x";
    assert_ok(fast__store_begin(store, &run, &id));
    return id;
}

static void finish_run(fast_store *store, int64_t id, const char *status)
{
    fast_stored_run run;
    fast__store_row_init(FAST_STORE_RUNS, &run);
    run.status = status;
    run.finished = 2000;
    assert_ok(fast__store_update(store, id, &run));
}

/* The columns of the tables are those of the schema, in the same order. */
static void columns_are_the_schemas(void **state)
{
    fixture *f = *state;
    for (int t = 0; t < FAST_STORE_TABLES; t++) {
        const fast_store_form *form = &fast__store_tables[t];
        sqlite3_stmt *stmt = NULL;
        char sql[64];
        int64_t i = t == FAST_STORE_RUNS ? 0 : -1;
        snprintf(sql, sizeof sql, "SELECT name, type FROM pragma_table_info('%s')", form->name);
        assert_ok(fast__store_prepare(f->store, sql, false, &stmt));
        for (; sqlite3_step(stmt) == SQLITE_ROW; i++) {
            const char *name = (const char *)sqlite3_column_text(stmt, 0);
            const char *type = (const char *)sqlite3_column_text(stmt, 1);
            static const char *const types[] = { "INTEGER", "REAL", "TEXT", "TEXT" };
            assert_string_equal(name, i < 0 ? "run" : form->columns[i].name);
            assert_string_equal(type, i < 0 ? "INTEGER" : types[form->columns[i].kind]);
        }
        sqlite3_finalize(stmt);
        assert_int_equal(i, form->count);
    }
}

/* Words of the last comparison that was given; rows are counted. */
typedef struct seen_comparison {
    int count;        /* rows */
    char verdict[64]; /* of the last row */
    char result[64];  /* of the last row; "": none */
} seen_comparison;

static fast_err on_comparison(void *ctx, const void *row)
{
    const fast_stored_comparison *c = row;
    seen_comparison *s = ctx;

    s->count++;
    snprintf(s->verdict, sizeof s->verdict, "%s", c->verdict ? c->verdict : "");
    snprintf(s->result, sizeof s->result, "%s", c->result ? c->result : "");
    return FAST_OK;
}

/* A comparison is replaced under its name; hostile names and texts are values; JSON of another
 * program that is damaged reads as none. */
static void comparisons_come_back(void **state)
{
    fixture *f = *state;
    seen_comparison s = { 0 };
    fast_stored_comparison row = { .name = "a'; DROP TABLE runs; --",
                                   .created = 5,
                                   .status = "incomplete",
                                   .verdict = "Incomplete",
                                   .result = "{\"best\": null}" };

    assert_ok(fast__store_comparison_put(f->store, &row));
    row.verdict = "Choose bsp";
    assert_ok(fast__store_comparison_put(f->store, &row));
    row.name = "b";
    row.result = "{broken";
    assert_ok(fast__store_comparison_put(f->store, &row));
    assert_ok(fast_store_comparisons(f->store, NULL, on_comparison, &s));
    assert_int_equal(s.count, 2);
    assert_string_equal(s.result, "");
    assert_ok(fast_store_comparisons(f->store, "a'; DROP TABLE runs; --", on_comparison, &s));
    assert_int_equal(s.count, 3);
    assert_string_equal(s.verdict, "Choose bsp");
    assert_string_equal(s.result, "{\"best\":null}");
    assert_ok(fast_store_comparisons(f->store, "b", on_comparison, &s));
    assert_string_equal(s.result, "");
    assert_ok(fast_store_comparisons(f->store, "c", on_comparison, &s));
    assert_int_equal(s.count, 4);
}

static void runs_come_back(void **state)
{
    fixture *f = *state;
    seen s = { 0 };
    const int64_t id = add_run(f->store, "lenet", 0.5, 2);
    assert_int_equal(id, 1);
    assert_ok(fast_store_find(f->store, id, on_run, &s));
    assert_string_equal(s.text[0], "running");
    finish_run(f->store, id, "done");
    assert_ok(fast_store_find(f->store, id, on_run, &s));
    assert_string_equal(s.text[1], "done");
    /* An update leaves alone what it has no value for. */
    assert_true(s.real == 0.5);
    assert_int_equal(fast_store_find(f->store, 7, on_run, &s), FAST_ENOENT);
}

static void lists_select_and_sort(void **state)
{
    fixture *f = *state;
    int64_t total = 0;
    for (int i = 0; i < 10; i++) {
        const int64_t id =
            add_run(f->store, i % 2 ? "lenet" : "mlp:hidden=3", i == 5 ? (double)NAN : i, i);
        if (i < 6)
            finish_run(f->store, id, i < 3 ? "done" : "failed");
    }
    seen s = { 0 };
    assert_ok(fast_store_list(f->store, NULL, on_run, &s, &total));
    assert_int_equal(total, 10);
    assert_int_equal(s.ids[0], 10);
    static const struct {
        fast_store_query query;
        int64_t total;
        int64_t first;
    } cases[] = {
        { { .where = "status=done" }, 3, 3 },
        { { .where = "model=mlp" }, 5, 9 },
        { { .where = "model=mlp:hidden=3,workers>=4" }, 3, 9 },
        { { .where = "model!=mlp" }, 5, 10 },
        { { .where = "model~ENE" }, 5, 10 },
        { { .where = "workers<2", .sort = "id" }, 2, 1 },
        { { .status = "done,failed" }, 6, 6 },
        { { .sort = "-test_accuracy" }, 10, 10 },
        { { .sort = "test_accuracy" }, 10, 1 },
        { { .sort = "-test_accuracy", .limit = 3, .offset = 9 }, 10, 6 }, /* none come last */
        { { .sort = "test_accuracy", .offset = 9 }, 10, 6 },
        { { .search = "--model" }, 10, 10 },
        { { .search = "%" }, 0, 0 },
        { { .search = "_" }, 0, 0 },
        { { .where = "model=x' OR 1=1 --" }, 0, 0 },
        { { .tag = "' OR 1=1 --" }, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s = (seen){ 0 };
        assert_ok(fast_store_list(f->store, &cases[i].query, on_run, &s, &total));
        assert_int_equal(total, cases[i].total);
        assert_int_equal(s.ids[0], cases[i].first);
    }
}

static void bad_queries_are_refused(void **state)
{
    fixture *f = *state;
    static const fast_store_query bad[] = {
        { .size = 8 },
        { .where = "id" },
        { .where = "=3" },
        { .where = "models=x" },
        { .where = "id;DROP TABLE runs=1" },
        { .where = "lr=1 OR 1=1" },
        { .where = "lr~1" },
        { .where = "model<3" },
        { .where = "tag>3" },
        { .sort = "id; DROP TABLE runs" },
        { .sort = "-" },
        { .sort = "options" },
        { .limit = -1 },
        { .where =
              "id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,"
              "id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,"
              "id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,"
              "id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,id=1,"
              "id=1" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        seen s = { 0 };
        assert_int_equal(fast_store_list(f->store, &bad[i], on_run, &s, NULL), FAST_EINVAL);
        assert_int_equal(s.count, 0);
    }
}

static fast_err on_event(void *ctx, const void *row)
{
    seen *s = ctx;
    const fast_stored_event *event = row;
    s->ids[s->count] = event->seq;
    snprintf(s->text[s->count++], sizeof s->text[0], "%s", event->text);
    return FAST_OK;
}

static fast_err on_count(void *ctx, const void *row)
{
    seen *s = ctx;
    (void)row;
    s->count++;
    return FAST_OK;
}

static void rows_of_a_run(void **state)
{
    fixture *f = *state;
    const int64_t id = add_run(f->store, "mlp", NAN, 1);
    const int64_t other = add_run(f->store, "mlp", NAN, 1);
    assert_ok(fast__store_transaction_begin(f->store));
    for (int i = 0; i < 20; i++) {
        fast_stored_event event = { i, i, i, "note", i == 7 ? "it's \"here\"; --" : "x" };
        fast_stored_metric metric;
        fast__store_row_init(FAST_STORE_METRICS, &metric);
        metric.seq = i;
        metric.loss = 1.0 / (i + 1);
        metric.test_loss = i == 13 ? 0.25 : NAN;
        assert_ok(fast__store_put(f->store, FAST_STORE_EVENTS, id, &event));
        assert_ok(fast__store_put(f->store, FAST_STORE_METRICS, id, &metric));
        assert_ok(fast__store_put(f->store, FAST_STORE_SPANS, id,
                                  &(fast_stored_span){ i, 0, "wait", i, i + 1 }));
        assert_ok(fast__store_put(f->store, FAST_STORE_STALENESS, other,
                                  &(fast_stored_staleness){ 3, i }));
    }
    assert_ok(fast__store_trim(f->store, id, 15));
    assert_ok(fast__store_transaction_end(f->store));
    seen s = { 0 };
    assert_ok(fast_store_read(f->store, FAST_STORE_EVENTS, id, 4, on_event, &s));
    assert_int_equal(s.count, 15);
    assert_int_equal(s.ids[0], 5);
    assert_string_equal(s.text[2], "it's \"here\"; --");
    s = (seen){ 0 };
    assert_ok(fast_store_read(f->store, FAST_STORE_SPANS, id, -1, on_count, &s));
    assert_int_equal(s.count, 5);
    s = (seen){ 0 };
    assert_ok(fast_store_read(f->store, FAST_STORE_STALENESS, other, -1, on_count, &s));
    assert_int_equal(s.count, 1);

    fast_store_series *series = NULL;
    assert_ok(fast_store_series_new(f->store, id, -1, 5, 0, &series));
    assert_int_equal(series->count, 5); /* 0, 5, 10, 13 (evaluated), 15 */
    assert_true(series->values[0][3] == 13);
    assert_true(isnan(series->values[9][0]) && series->values[9][3] == 0.25);
    fast_store_series_free(series);
}

static void tags_and_deletion(void **state)
{
    fixture *f = *state;
    const int64_t id = add_run(f->store, "mlp", NAN, 1);
    seen s = { 0 };
    assert_ok(fast_store_tag(f->store, id, "good"));
    assert_ok(fast_store_tag(f->store, id, "good"));
    assert_ok(fast_store_read(f->store, FAST_STORE_TAGS, id, -1, on_count, &s));
    assert_int_equal(s.count, 1);
    assert_int_equal(fast_store_tag(f->store, 99, "x"), FAST_ENOENT);
    assert_int_equal(fast_store_tag(f->store, id, ""), FAST_EINVAL);
    assert_int_equal(fast_store_tag(f->store, id, "a\033[2J"), FAST_EINVAL);
    assert_int_equal(fast_store_delete(f->store, id), FAST_EINVAL); /* it runs */
    finish_run(f->store, id, "done");
    assert_ok(fast_store_delete(f->store, id));
    s = (seen){ 0 };
    assert_ok(fast_store_read(f->store, FAST_STORE_TAGS, id, -1, on_count, &s));
    assert_int_equal(s.count, 0);
    assert_int_equal(fast_store_delete(f->store, id), FAST_ENOENT);
    /* A number is never given twice. */
    assert_int_equal(add_run(f->store, "mlp", NAN, 1), id + 1);
}

/* A reader sees what is committed, and that something changed. */
static void readers_see_commits(void **state)
{
    fixture *f = *state;
    fast_store *reader = NULL;
    int64_t before = 0, after = 0, total = 0;
    seen s = { 0 };
    add_run(f->store, "mlp", NAN, 1);
    assert_ok(fast_store_open(f->path, false, &reader));
    assert_ok(fast_store_changes(reader, &before));
    assert_ok(fast__store_transaction_begin(f->store));
    add_run(f->store, "mlp", NAN, 1);
    assert_ok(fast_store_list(reader, NULL, on_run, &s, &total));
    assert_int_equal(total, 1);
    assert_ok(fast__store_transaction_end(f->store));
    assert_ok(fast_store_changes(reader, &after));
    assert_true(before != after);
    s = (seen){ 0 };
    assert_ok(fast_store_list(reader, NULL, on_run, &s, &total));
    assert_int_equal(total, 2);
    assert_int_not_equal(fast_store_tag(reader, 1, "x"), FAST_OK);
    fast_store_close(reader);
}

/* Other users read neither the store nor its log. */
static void files_are_private(void **state)
{
    static const char *const ends[] = { "", "-wal", "-shm" };
    fixture *f = *state;
    char path[128];
    struct stat info;

    add_run(f->store, "mlp", 0.5, 1);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", f->path, ends[i]);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
    }
    /* A store that was made before loses the rights of others when its owner writes to it. */
    assert_int_equal(chmod(f->path, 0644), 0);
    fast_store *again = NULL;
    assert_ok(fast_store_open(f->path, true, &again));
    fast_store_close(again);
    assert_int_equal(stat(f->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(columns_are_the_schemas, setup, teardown),
        cmocka_unit_test_setup_teardown(comparisons_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(runs_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(lists_select_and_sort, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_queries_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_of_a_run, setup, teardown),
        cmocka_unit_test_setup_teardown(tags_and_deletion, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_see_commits, setup, teardown),
        cmocka_unit_test_setup_teardown(files_are_private, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
