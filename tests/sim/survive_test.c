/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults under strategies. Goal: under random crashes, pauses and partitions asynchronous, elastic
 * and gossip strategies finish and learn with the survivors, and synchronous ones stop within the
 * deadline and name a culprit (99% of them), or are not touched. Method: small runs in sim, each
 * with a member, a number of workers and a schedule that the seed draws. Where there are servers,
 * their nodes are spared: an asynchronous strategy does not outlive those. A worker that neither
 * crashed nor stood still nor was cut off must come to its end. A failing seed prints its faults.
 *
 *     survive_test [COUNT [SEED]]     more schedules, from another seed on
 */
#include "base/memory.h"
#include "base/rng.h"
#include "matrix.h"
#include "run/team.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef FAST_SLOW
enum { COUNT = 40 };
#else
enum { COUNT = 240 };
#endif

enum { WORKERS_MAX = 7, FAULTS_MAX = 3, SPAN_US = 4000 };

static int64_t schedule_count = COUNT;
static int64_t schedule_seed = 1;
static double first_loss;

static const char *const asynchronous[] = { "ps",
                                            "ps:slack=3",
                                            "ps:slack=3,staleness=inverse,servers=2,cache_age=3",
                                            "ps:slack=3,tasks=yes,ring=2",
                                            "ps:softsync=2",
                                            "ps:fetch=4,push=4,send=mean",
                                            "ps:compensate=0.04",
                                            "ps:slack=3,eager=yes",
                                            "ps:reject=4,stalest=yes",
                                            "elastic",
                                            "elastic_tree",
                                            "mpca",
                                            "federated:period=2",
                                            "dogwild",
                                            "ensemble",
                                            "gossip_async",
                                            "gossip_async:overlap=no",
                                            "gossip_async:how=push,p=0.1",
                                            "gossip_async:how=pull,p=0.5",
                                            "partial",
                                            "partial:how=scatter,sends=gradients",
                                            "partial:how=states" };
static const char *const synchronous[] = { "allreduce",      "allreduce:algorithm=ring",
                                           "ps:slack=0",     "local:period=4",
                                           "elastic_sync",   "gossip",
                                           "gossip:push=yes" };

/* A schedule of faults, drawn from a seed. */
typedef struct schedule {
    const char *strategy; /* a member */
    int64_t workers;      /* number of workers */
    int64_t spared; /* workers 0 to spared - 1, which share nodes with servers, are not faulty */
    bool crashed[WORKERS_MAX]; /* who crashes, at least once */
    bool paused[WORKERS_MAX];  /* who stands still for a while */
    bool cut[WORKERS_MAX];     /* who is on the named side of a partition */
    char faults[512];          /* as an option */
} schedule;

static int64_t below(fast_rng *rng, int64_t bound)
{
    return (int64_t)fast__rng_below(rng, (uint64_t)bound);
}

static void add(schedule *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(schedule *s, const char *format, ...)
{
    const size_t used = strlen(s->faults);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(s->faults + used, sizeof s->faults - used, format, arguments);
    va_end(arguments);
}

static int64_t draw_worker(const schedule *s, fast_rng *rng)
{
    return s->spared + below(rng, s->workers - s->spared);
}

static void draw_crash(schedule *s, fast_rng *rng)
{
    const int64_t who = draw_worker(s, rng);
    const int64_t at = 1 + below(rng, SPAN_US);
    int64_t up = 0;

    for (int64_t i = 0; i < s->workers; i++)
        up += !s->crashed[i] && !s->cut[i];
    if (up <= 2 || s->crashed[who])
        return;
    s->crashed[who] = true;
    add(s, "%scrash %" PRId64 " at %" PRId64 "us", s->faults[7] ? "; " : "", who, at);
    if (below(rng, 3) == 0)
        add(s, "; restart %" PRId64 " at %" PRId64 "us", who, at + 100 + below(rng, SPAN_US));
}

static void draw_pause(schedule *s, fast_rng *rng)
{
    const int64_t who = draw_worker(s, rng);

    s->paused[who] = true;
    add(s, "%spause %" PRId64 " at %" PRId64 "us for %" PRId64 "us", s->faults[7] ? "; " : "", who,
        1 + below(rng, SPAN_US), 50 + below(rng, 4 * SPAN_US));
}

/* Cut one or two workers off from all others. */
static void draw_partition(schedule *s, fast_rng *rng)
{
    const int64_t a = draw_worker(s, rng);
    const int64_t b = below(rng, 2) ? draw_worker(s, rng) : a;
    int64_t up = 0;

    for (int64_t i = 0; i < s->workers; i++)
        up += !s->crashed[i] && !s->cut[i] && i != a && i != b;
    if (up < 2)
        return;
    s->cut[a] = s->cut[b] = true;
    add(s, "%spartition %" PRId64, s->faults[7] ? "; " : "", a);
    if (b != a)
        add(s, ",%" PRId64, b);
    add(s, " at %" PRId64 "us for %" PRId64 "us", 1 + below(rng, SPAN_US),
        100 + below(rng, 4 * SPAN_US));
}

/* Servers that an asynchronous member has. */
static int64_t servers_of(const char *member, int64_t workers)
{
    const fast_strategy *strategy = NULL;
    void *config = NULL;
    int64_t count;

    assert_int_equal(fast__strategy_open(member, NULL, &strategy, &config), FAST_OK);
    count = strategy->servers ? strategy->servers(config, workers) : 0;
    fast__free(config);
    return count;
}

static schedule draw(int64_t seed, const char *const *members, int64_t count)
{
    schedule s = { .strategy = members[seed % count], .faults = "faults=" };
    fast_rng rng;
    int64_t faults;

    fast__rng_init(&rng, (uint64_t)seed, FAST_PURPOSE_TEST, 7, 0, 0);
    s.workers = 4 + below(&rng, WORKERS_MAX - 3);
    s.spared = servers_of(s.strategy, s.workers);
    faults = 1 + below(&rng, FAULTS_MAX);
    for (int64_t i = 0; i < faults; i++) {
        const int64_t kind = below(&rng, 3);

        if (kind == 0)
            draw_crash(&s, &rng);
        else if (kind == 1)
            draw_pause(&s, &rng);
        else
            draw_partition(&s, &rng);
    }
    if (!s.faults[7]) /* nothing fitted */
        draw_pause(&s, &rng);
    return s;
}

static fast_run *open_run(const schedule *s, int64_t seed, const char *more)
{
    char strategy[128], workers[32], text[32];
    const char *options[] = { "model=mlp:hidden=12", "engine=ref", "plan=no", "transport=sim",
                              "cluster=ethernet-10g:detection=2ms", "timeout=0.5", "batch=4",
                              "optimizer=sgd",
                              /* Where all changes add up, what was held back comes at once. */
                              strcmp(s->strategy, "dogwild") == 0 ? "lr=0.01" : "lr=0.05",
                              "schedule=constant", "evaluate=end", "steps=80", strategy, workers,
                              text, s->faults, more, NULL };
    fast_run *run = NULL;

    snprintf(strategy, sizeof strategy, "strategy=%s", s->strategy);
    snprintf(workers, sizeof workers, "workers=%" PRId64, s->workers);
    snprintf(text, sizeof text, "seed=%" PRId64, seed);
    if (fast_run_open_with(options, NULL, test_train_points, test_test_points, &run))
        fail_msg("%s %s: %s", strategy, s->faults, fast_error_detail());
    return run;
}

/* Return the fault of a run that should have survived, or NULL. */
static const char *check_survivor(const schedule *s, const fast_run *run, fast_err err,
                                  char why[TEST_CELL_TEXT])
{
    const fast_result *r = fast_run_result(run);

    why[0] = '\0';
    if (err)
        snprintf(why, TEST_CELL_TEXT, "it ended: %s", fast_error_detail());
    else if (strcmp(r->stop, "done") != 0 || !(r->test_loss < 0.97 * first_loss))
        snprintf(why, TEST_CELL_TEXT, "%s, test loss %g after %g", r->stop, r->test_loss,
                 first_loss);
    else if (r->time_s > 5)
        snprintf(why, TEST_CELL_TEXT, "it took %g s", r->time_s);
    for (int64_t i = 0; !why[0] && i < s->workers; i++)
        if (run->team->actors[i]->lost && !s->crashed[i] && !s->cut[i] && !s->paused[i])
            snprintf(why, TEST_CELL_TEXT, "worker %" PRId64 " gave up though it was well: %.200s",
                     i, run->team->actors[i]->why);
    return why[0] ? why : NULL;
}

static void asynchronous_ones_survive(void **state)
{
    const int64_t count = (int64_t)(sizeof asynchronous / sizeof *asynchronous);
    int64_t broken = 0, lost = 0;

    (void)state;
    for (int64_t seed = schedule_seed; seed < schedule_seed + schedule_count; seed++) {
        const schedule s = draw(seed, asynchronous, count);
        fast_run *run = open_run(&s, seed, NULL);
        const fast_err err = fast_run_train(run);
        char why[TEST_CELL_TEXT];

        if (check_survivor(&s, run, err, why)) {
            print_error("seed %" PRId64 ", %s, %" PRId64 " workers, %s: %s\n", seed, s.strategy,
                        s.workers, s.faults, why);
            broken++;
        }
        for (int64_t i = 0; i < s.workers; i++)
            lost += run->team->actors[i]->lost;
        fast_run_close(run);
    }
    print_message("%" PRId64 " schedules, %" PRId64 " workers lost\n", schedule_count, lost);
    assert_int_equal(broken, 0);
    assert_true(lost > schedule_count / 10);
}

/* Whether an error names one who was not well. */
static bool names_one(const schedule *s, const char *detail)
{
    for (int64_t i = 0; i < s->workers; i++) {
        char name[32];

        snprintf(name, sizeof name, "worker %" PRId64, i);
        if ((s->crashed[i] || s->paused[i] || s->cut[i]) && strstr(detail, name))
            return true;
    }
    return false;
}

static void synchronous_ones_stop(void **state)
{
    const int64_t count = (int64_t)(sizeof synchronous / sizeof *synchronous);
    int64_t broken = 0, stopped = 0, misnamed = 0;

    (void)state;
    for (int64_t seed = schedule_seed; seed < schedule_seed + schedule_count; seed++) {
        const schedule s = draw(seed, synchronous, count);
        fast_run *run = open_run(&s, seed, NULL);
        const fast_err err = fast_run_train(run);
        const char *detail = err ? fast_error_detail() : "";
        const double time = fast_run_result(run)->time_s;
        char why[TEST_CELL_TEXT] = "";

        misnamed += err && !names_one(&s, detail);
        if (time > 3)
            snprintf(why, sizeof why, "it took %g s", time);
        else if (!err && !(fast_run_result(run)->test_loss < 0.97 * first_loss))
            snprintf(why, sizeof why, "test loss %g", fast_run_result(run)->test_loss);
        if (why[0])
            print_error("seed %" PRId64 ", %s, %" PRId64 " workers, %s: %s\n", seed, s.strategy,
                        s.workers, s.faults, why);
        broken += why[0] != 0;
        stopped += err != FAST_OK;
        fast_run_close(run);
    }
    print_message("%" PRId64 " schedules, %" PRId64 " stopped, %" PRId64
                  " name a worker that was well\n",
                  schedule_count, stopped, misnamed);
    assert_int_equal(broken, 0);
    assert_true(misnamed * 100 <= stopped); /* as in faults_test: at least 99% are right */
    assert_in_range(stopped, schedule_count / 4, schedule_count - 1);
}

static int begin(void **state)
{
    const schedule still = { .strategy = "allreduce", .workers = 1, .faults = "faults=" };
    fast_run *run;

    (void)test_points_begin(state);
    run = open_run(&still, 1, "lr=0");
    if (fast_run_train(run))
        return 1;
    first_loss = fast_run_result(run)->test_loss;
    fast_run_close(run);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asynchronous_ones_survive),
        cmocka_unit_test(synchronous_ones_stop),
    };

    if (argc > 1)
        schedule_count = strtoll(argv[1], NULL, 10);
    if (argc > 2)
        schedule_seed = strtoll(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, begin, test_points_end);
}
