/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a run is stored as it was; storing changes nothing of it; no store, however bad, stops it;
 * and a kill at any moment loses nothing that was committed.
 * Method: small runs with and without a store; stores that are locked, deleted, or on a full disk
 * (a limit on the size of files); processes that train and are killed at random moments, while
 * another connection looks at how far they are. FAST_KILLS says how many, for long runs of this.
 */
#include "base/rng.h"
#include "fast/run.h"
#include "store/sql.h"
#include "store/store_fixture.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef FAST_SANITIZED
enum { KILLS = 2, FULL_STEPS = 1000 };
#define FULL_OPTION "steps=1000"
#else
enum { KILLS = 5, FULL_STEPS = 4000 };
#define FULL_OPTION "steps=4000"
#endif

/* Notes of a run. */
typedef struct notes {
    int count;      /* number of notes */
    char last[512]; /* the text of the last */
} notes;

static void on_event(void *ctx, const fast_event *event)
{
    notes *n = ctx;
    if (event->kind != FAST_EVENT_NOTE)
        return;
    n->count++;
    snprintf(n->last, sizeof n->last, "%s", event->text);
}

/* Train a small job with a store, "" for none, and further options. */
static fast_run *open_small(const char *store, const char *a, const char *b)
{
    char option[256];
    fast_run *run = NULL;

    snprintf(option, sizeof option, "store=%s", store);
    const char *const options[] = { "engine=ref",
                                    "model=mlp:hidden=8",
                                    "data=digits:train=64,test=16",
                                    "batch=8",
                                    option,
                                    "plan=no",
                                    a,
                                    a ? b : NULL,
                                    NULL };
    assert_ok(fast_run_open(options, &run));
    return run;
}

/* Rows of a table. */
static int64_t rows(fast_store *store, const char *sql)
{
    int64_t count = -1;
    assert_ok(fast__store_number(store, sql, &count));
    return count;
}

/* A number of a table. */
static double real(fast_store *store, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    assert_ok(fast__store_prepare(store, sql, false, &stmt));
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    const double value = sqlite3_column_double(stmt, 0);
    sqlite3_finalize(stmt);
    return value;
}

typedef struct copy {
    char status[32], hash[32], result[4096], command[512];
    int64_t steps;
    double accuracy;
} copy;

static fast_err on_run(void *ctx, const void *row)
{
    const fast_stored_run *run = row;
    copy *c = ctx;
    snprintf(c->status, sizeof c->status, "%s", run->status);
    snprintf(c->hash, sizeof c->hash, "%s", run->params_hash ? run->params_hash : "");
    snprintf(c->result, sizeof c->result, "%s", run->result ? run->result : "");
    snprintf(c->command, sizeof c->command, "%s", run->command);
    c->steps = run->steps;
    c->accuracy = run->test_accuracy;
    return FAST_OK;
}

static void stored_as_it_was(void **state)
{
    fixture *f = *state;
    static const char *const ways[][2] = { { "steps=24", NULL },
                                           { "steps=24", "workers=2" },
                                           { "steps=12", "system=ssp" } };
    for (int i = 0; i < 3; i++) {
        fast_run *with = open_small(f->path, ways[i][0], ways[i][1]);
        fast_run *without = open_small("", ways[i][0], ways[i][1]);
        copy c = { 0 };
        char hash[32];

        assert_ok(fast_run_train(with));
        assert_ok(fast_run_train(without));
        assert_int_equal(fast_run_id(with), i + 1);
        assert_int_equal(fast_run_id(without), 0);
        assert_ok(fast_store_find(f->store, i + 1, on_run, &c));
        snprintf(hash, sizeof hash, "%016llx",
                 (unsigned long long)fast_run_result(without)->params_hash);
        if (i < 2) /* the last one is asynchronous */
            assert_string_equal(c.hash, hash);
        assert_string_equal(c.status, "done");
        assert_int_equal(c.steps, fast_run_result(with)->steps);
        assert_true(c.accuracy == fast_run_result(with)->test_accuracy);
        assert_non_null(strstr(c.command, "fast train --engine ref --model mlp:hidden=8 "));
        fast_run_close(with);
        fast_run_close(without);
    }
    assert_int_equal(rows(f->store, "SELECT count(*) FROM workers WHERE run=2"), 2);
    assert_int_equal(rows(f->store, "SELECT count(*) FROM events WHERE kind='stop'"), 3);
    assert_true(rows(f->store, "SELECT count(*) FROM metrics WHERE test_loss IS NOT NULL") >= 3);
    assert_true(rows(f->store, "SELECT count(*) FROM spans WHERE run=2 AND kind='compute'") > 0);
    assert_int_equal(rows(f->store, "SELECT count(*) FROM spans WHERE end_s<start_s"), 0);
}

/* A split model: which part each worker has, and its passes, one after the other; later batches of
 * a pipeline without flush have stale gradients. */
static void passes_of_a_split_run(void **state)
{
    fixture *f = *state;
    static const char *const ways[][6] = {
        { "mesh=pipe=2", "pipeline=gpipe", "accumulate=3", "steps=4", NULL },
        { "mesh=pipe=2", "pipeline=pipedream", "steps=6", NULL },
    };

    for (int i = 0; i < 2; i++) {
        char option[160];
        const char *options[16] = { "engine=ref", "model=mlp:hidden=8x8",
                                    "plan=no",    "data=digits:train=64,test=16",
                                    "batch=4",    "transport=sim",
                                    option };
        fast_run *run = NULL;

        snprintf(option, sizeof option, "store=%s", f->path);
        for (int k = 0; ways[i][k]; k++)
            options[7 + k] = ways[i][k];
        assert_ok(fast_run_open(options, &run));
        assert_ok(fast_run_train(run));
        fast_run_close(run);
    }
    assert_int_equal(rows(f->store, "SELECT count(*) FROM places WHERE run=1 AND stage=worker"), 2);
    assert_int_equal(rows(f->store, "SELECT count(*) FROM places WHERE run=1 AND worker=0 AND"
                                    " layers LIKE 'dense1%'"),
                     1);
    assert_int_equal(rows(f->store, "SELECT sum(params) FROM places WHERE run=1"), 6442);
    for (int i = 0; i < 2; i++) {
        char sql[160];

        snprintf(sql, sizeof sql,
                 "SELECT count(*) FROM passes WHERE run=1 AND kind='%s' AND worker=%d",
                 i ? "backward" : "forward", i);
        assert_int_equal(rows(f->store, sql), 12);
    }
    assert_int_equal(rows(f->store, "SELECT count(*) FROM passes a, passes b USING (run, worker)"
                                    " WHERE a.seq<b.seq AND a.end_s>b.start_s"),
                     0);
    assert_int_equal(rows(f->store, "SELECT max(staleness) FROM passes WHERE run=1"), 0);
    assert_int_equal(rows(f->store, "SELECT max(staleness) FROM passes WHERE run=2 AND worker=0"),
                     1);
    assert_int_equal(rows(f->store, "SELECT max(staleness) FROM passes WHERE run=2 AND worker=1"),
                     0);
}

/* Virtual time, faults, changes of strategy, a checkpoint: all are events of the run. */
static void events_of_a_simulated_run(void **state)
{
    fixture *f = *state;
    fast_run *run = open_small(f->path, "workers=4", "steps=8");
    fast_run_close(run);
    char option[256];
    snprintf(option, sizeof option, "store=%s", f->path);
    const char *const faulty[] = { "engine=ref",
                                   "model=mlp:hidden=8",
                                   "data=digits:train=64,test=16",
                                   "batch=8",
                                   option,
                                   "plan=no",
                                   "workers=4",
                                   "steps=20",
                                   "strategy=gossip_async",
                                   "transport=sim",
                                   "cluster=hetero",
                                   "faults=crash 3 at 1ms",
                                   NULL };
    assert_ok(fast_run_open(faulty, &run));
    assert_ok(fast_run_train(run));
    fast_run_close(run);
    assert_int_equal(
        rows(f->store, "SELECT count(*) FROM events WHERE kind='fault' AND text LIKE 'crash%'"), 1);
    assert_int_equal(rows(f->store, "SELECT count(*) FROM events WHERE kind='fault' AND "
                                    "text='worker 3 is lost' AND time_s>0"),
                     1);
    assert_int_equal(rows(f->store, "SELECT count(*) FROM events WHERE kind='fault' AND "
                                    "text='crash, node 3 (worker 3)'"),
                     1);
    assert_int_equal(rows(f->store, "SELECT count(*) FROM links WHERE receiver>3"), 0);
    const char *const phases[] = { "engine=ref",
                                   "model=mlp:hidden=8",
                                   "data=digits:train=64,test=16",
                                   "batch=8",
                                   option,
                                   "plan=no",
                                   "workers=2",
                                   "steps=8",
                                   "phases=local@step=4",
                                   "transport=sim",
                                   NULL };
    assert_ok(fast_run_open(phases, &run));
    assert_ok(fast_run_train(run));
    fast_run_close(run);
    assert_int_equal(rows(f->store, "SELECT count(*) FROM events WHERE kind='phase' AND run=2"), 1);
    assert_true(rows(f->store, "SELECT sum(bytes) FROM links WHERE run=2") > 0);
    /* Each phase has its own timeline, the second one starts when the first has ended. */
    assert_int_equal(rows(f->store, "SELECT count(*) FROM activity WHERE run=2"), 4);
    assert_int_equal(rows(f->store, "SELECT count(DISTINCT start_s) FROM activity WHERE run=2"), 2);
    /* Waits by pair are the waits of the workers, but for those for nobody in particular. */
    assert_true(real(f->store, "SELECT sum(wait_s) FROM links WHERE run=2") > 0);
    assert_true(real(f->store, "SELECT sum(wait_s) FROM links WHERE run=2") <=
                real(f->store, "SELECT sum(wait_s) FROM workers WHERE run=2") + 1e-9);
    assert_int_equal(rows(f->store, "SELECT sum(bytes_sent) FROM workers WHERE run=2"),
                     rows(f->store, "SELECT sum(bytes) FROM links WHERE run=2"));
}

/* Curves are values of intervals: those of the last epoch have its mean, and speeds times their
 * intervals are the samples, though a worker becomes slow. */
static void curves_are_of_intervals(void **state)
{
    fixture *f = *state;
    fast_run *run = open_small(f->path, "steps=24", "evaluate=4steps");

    assert_ok(fast_run_train(run));
    const double loss =
        real(f->store, "SELECT sum(loss*(step-before))/8 FROM (SELECT step, loss,"
                       " coalesce(lag(step) OVER (ORDER BY seq),0) AS before FROM metrics"
                       " WHERE run=1 AND loss IS NOT NULL) WHERE step>16");
    assert_true(fabs(loss - fast_run_result(run)->loss) < 1e-9);
    assert_true(real(f->store, "SELECT loss FROM runs WHERE id=1") == fast_run_result(run)->loss);
    fast_run_close(run);
    char option[256];
    snprintf(option, sizeof option, "store=%s", f->path);
    const char *const slow[] = { "engine=ref",
                                 "model=mlp:hidden=8",
                                 "data=digits:train=64,test=16",
                                 "batch=8",
                                 option,
                                 "plan=no",
                                 "workers=2",
                                 "steps=32",
                                 "evaluate=2steps",
                                 "strategy=ps",
                                 "transport=sim",
                                 "faults=slow 1 at 1ms by 10",
                                 NULL };
    assert_ok(fast_run_open(slow, &run));
    assert_ok(fast_run_train(run));
    const double samples =
        real(f->store, "SELECT sum(samples_per_s*(time_s-before)) FROM (SELECT time_s,"
                       " samples_per_s, coalesce(lag(time_s) OVER (ORDER BY seq),0) AS before"
                       " FROM metrics WHERE run=2 AND samples_per_s IS NOT NULL)");
    assert_true(fabs(samples - 2 * 32 * 8) < 1e-6);
    /* The whole timeline is there: its parts add up to the worker's counter. */
    assert_int_equal(rows(f->store, "SELECT count(*) FROM activity WHERE run=2"), 3);
    const double part =
        real(f->store, "SELECT sum(value)*bin_s/1000 FROM activity, json_each(bins) WHERE run=2 AND"
                       " actor=1 AND key%4=0");
    const double whole = real(f->store, "SELECT compute_s FROM workers WHERE run=2 AND rank=1");
    assert_true(fabs(part - whole) < 0.05 * whole);
    assert_true(real(f->store, "SELECT max(samples_per_s)/min(samples_per_s) FROM metrics"
                               " WHERE run=2") > 2);
    fast_run_close(run);
}

/* A canceled run continues in the same row. */
static void cancel_and_continue(void **state)
{
    fixture *f = *state;
    fast_run *run = open_small(f->path, "steps=8", NULL);
    copy c = { 0 };

    fast_run_cancel(run);
    assert_ok(fast_run_train(run));
    assert_ok(fast_store_find(f->store, 1, on_run, &c));
    assert_string_equal(c.status, "canceled");
    assert_ok(fast_run_train(run));
    assert_ok(fast_store_find(f->store, 1, on_run, &c));
    assert_string_equal(c.status, "done");
    assert_int_equal(rows(f->store, "SELECT count(*) FROM runs"), 1);
    fast_run_close(run);
}

/* Somebody holds the lock all the time: the run ends all the same, and one note says why. */
static void locked(void **state)
{
    fixture *f = *state;
    fast_run *run = open_small(f->path, "steps=8", NULL);
    notes n = { 0 };

    fast_run_watch(run, on_event, &n);
    assert_ok(fast__store_transaction_begin(f->store));
    assert_ok(fast_run_train(run));
    fast__store_transaction_undo(f->store);
    assert_int_equal(n.count, 1);
    assert_non_null(strstr(n.last, "locked by another program; training continues"));
    assert_int_equal(fast_run_id(run), 0);
    fast_run_close(run);
}

static void sleep_us(int64_t us)
{
    nanosleep(&(struct timespec){ us / 1000000, us % 1000000 * 1000 }, NULL);
}

/* A run whose store is deleted while it trains. */
typedef struct deletion {
    fast_run *run;  /* whose */
    char path[128]; /* of the store */
    notes notes;    /* of the run */
    bool deleted;   /* its files are gone */
} deletion;

static void delete_store(void *ctx, const fast_event *event)
{
    deletion *d = ctx;
    char file[160];

    on_event(&d->notes, event);
    if (d->deleted || event->kind != FAST_EVENT_EVALUATE)
        return;
    for (int i = 0; i < 60000 && fast_run_id(d->run) == 0; i++)
        sleep_us(1000); /* until it has begun there */
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof file, "%s%s", d->path, i == 0 ? "" : i == 1 ? "-wal" : "-shm");
        unlink(file);
    }
    d->deleted = true;
}

/* Somebody deletes the store under the run: its end is in a new one, and one note says so. */
static void deleted(void **state)
{
    fixture *f = *state;
    fast_store *store = NULL;
    copy c = { 0 };
    deletion d = { .deleted = false };

    snprintf(d.path, sizeof d.path, "%s/deleted.db", f->folder);
    fast_run *run = open_small(d.path, "steps=40", "evaluate=20steps");
    d.run = run;
    fast_run_watch(run, delete_store, &d);
    assert_ok(fast_run_train(run));
    assert_true(d.deleted);
    assert_int_equal(d.notes.count, 1);
    assert_ok(fast_store_open(d.path, false, &store));
    assert_ok(fast_store_find(store, fast_run_id(run), on_run, &c));
    assert_string_equal(c.status, "done");
    fast_store_close(store);
    fast_run_close(run);
}

/* In a process of its own, whose files may not grow: nothing of the run is lost but the rows. */
static void full_disk(void **state)
{
    fixture *f = *state;
    const pid_t child = fork();

    if (child == 0) {
        /* The log holds 21 pages of the schema and 10 of the run's first row; the rest is full
         * after a few transactions. */
        const struct rlimit limit = { 192 * 1024, 192 * 1024 };
        notes n = { 0 };
        signal(SIGXFSZ, SIG_IGN);
        fast_run *run = open_small(f->path, FULL_OPTION, "evaluate=2steps");
        fast_run_watch(run, on_event, &n);
        if (setrlimit(RLIMIT_FSIZE, &limit) || fast_run_train(run) ||
            fast_run_result(run)->steps != FULL_STEPS)
            _exit(1);
        _exit(n.count == 1 && strstr(n.last, "training continues") ? 0 : 2);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(rows(f->store, "SELECT count(*) FROM pragma_integrity_check "
                               "WHERE integrity_check='ok'") == 1);
    assert_true(rows(f->store, "SELECT count(*) FROM runs WHERE status='done' AND dropped>0") == 1);
}

/* A process that trains until it is killed. */
static pid_t start_victim(const char *path)
{
    const pid_t child = fork();

    if (child == 0) {
        fast_run *run = open_small(path, "steps=100000000", "evaluate=500steps");
        (void)!fast_run_train(run);
        _exit(1);
    }
    return child;
}

/* The store after a kill: whole, marked, with every row that was there before. */
static void assert_survived(const char *path, int64_t id, int64_t metrics, int64_t events)
{
    fast_store *store = NULL;
    char sql[160];
    copy c = { 0 };

    assert_ok(fast_store_open(path, true, &store));
    assert_int_equal(rows(store, "SELECT count(*) FROM pragma_integrity_check "
                                 "WHERE integrity_check='ok'"),
                     1);
    assert_ok(fast_store_find(store, id, on_run, &c));
    assert_string_equal(c.status, "interrupted");
    for (int i = 0; i < 2; i++) {
        snprintf(sql, sizeof sql, "SELECT count(*)-coalesce(max(seq),-1)-1 FROM %s WHERE run=%d",
                 i ? "events" : "metrics", (int)id);
        assert_int_equal(rows(store, sql), 0); /* without a hole */
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE run=%d", i ? "events" : "metrics",
                 (int)id);
        assert_true(rows(store, sql) >= (i ? events : metrics));
    }
    fast_store_close(store);
}

static void killed(void **state)
{
    fixture *f = *state;
    const char *asked = getenv("FAST_KILLS");
    const int kills = asked ? atoi(asked) : KILLS;
    fast_rng rng;
    char sql[96];

    fast__rng_init(&rng, (uint64_t)getpid(), 0, 0, 0, 0);
    for (int i = 0; i < kills; i++) {
        const pid_t victim = start_victim(f->path);
        int64_t metrics = 0, events = 0;

        assert_true(victim > 0);
        snprintf(sql, sizeof sql, "SELECT count(*) FROM runs WHERE pid=%d", (int)victim);
        for (int k = 0; k < 60000 && rows(f->store, sql) == 0; k++)
            sleep_us(1000); /* until it has begun */
        sleep_us(fast__rng_below(&rng, 700000));
        snprintf(sql, sizeof sql, "SELECT count(*) FROM metrics WHERE run=%d", i + 1);
        metrics = rows(f->store, sql);
        snprintf(sql, sizeof sql, "SELECT count(*) FROM events WHERE run=%d", i + 1);
        events = rows(f->store, sql);
        sleep_us(fast__rng_below(&rng, 1000));
        assert_int_equal(kill(victim, SIGKILL), 0);
        assert_int_equal(waitpid(victim, NULL, 0), victim);
        assert_survived(f->path, i + 1, metrics, events);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed, setup, teardown),
        cmocka_unit_test_setup_teardown(full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(stored_as_it_was, setup, teardown),
        cmocka_unit_test_setup_teardown(passes_of_a_split_run, setup, teardown),
        cmocka_unit_test_setup_teardown(events_of_a_simulated_run, setup, teardown),
        cmocka_unit_test_setup_teardown(curves_are_of_intervals, setup, teardown),
        cmocka_unit_test_setup_teardown(cancel_and_continue, setup, teardown),
        cmocka_unit_test_setup_teardown(locked, setup, teardown),
        cmocka_unit_test_setup_teardown(deleted, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
