/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hung peers. Goal: a worker that stops answering for good costs the others at most two timeouts
 * in all, whatever the strategy: the first wait for it takes a timeout, and then everybody knows.
 * Method: small runs in sim with nodes that stand still for longer than the run, while the
 * cluster's own detection is switched off. The steps of workers that were well must end at most two
 * timeouts later than the same run's without faults, none of them may give up, and the run must
 * name the hung workers while it trains. A failing seed prints its schedule.
 *
 *     hung_test [COUNT [SEED]]     more schedules, from another seed on
 */
#include "base/memory.h"
#include "base/rng.h"
#include "matrix.h"
#include "run/team.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 50, WORKERS_MAX = 7, SPAN_US = 4000 };

static const double TIMEOUT_S = 0.5;

static int64_t schedule_count = COUNT;
static int64_t schedule_seed = 1;

static const char *const members[] = { "gossip_async",
                                       "gossip_async:overlap=no",
                                       "gossip_async:how=push,p=0.1",
                                       "gossip_async:how=pull,p=0.5",
                                       "ps",
                                       "ps:slack=3",
                                       "ps:slack=3,eager=yes",
                                       "ps:slack=2,global=yes,servers=2",
                                       "ps:slack=3,tasks=yes,ring=2",
                                       "ps:softsync=2",
                                       "ps:fetch=4,push=4,send=mean",
                                       "elastic",
                                       "elastic_tree",
                                       "mpca",
                                       "dogwild",
                                       "ensemble",
                                       "partial",
                                       "partial:how=scatter,sends=gradients",
                                       "partial:how=states" };

/* A schedule of hung workers, drawn from a seed. */
typedef struct schedule {
    const char *strategy;   /* a member */
    int64_t workers;        /* number of workers */
    bool hung[WORKERS_MAX]; /* who stands still */
    char faults[256];       /* as an option */
} schedule;

/* Notes of a run that name a hung worker. */
typedef struct notes {
    const schedule *s;       /* that the run has */
    bool named[WORKERS_MAX]; /* a note says that it does not answer */
} notes;

static int64_t below(fast_rng *rng, int64_t bound)
{
    return (int64_t)fast__rng_below(rng, (uint64_t)bound);
}

/* Servers that a member has: workers on their nodes are not hung. */
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

static schedule draw(int64_t seed)
{
    schedule s = { .strategy = members[seed % (int64_t)(sizeof members / sizeof *members)],
                   .faults = "faults=" };
    fast_rng rng;

    fast__rng_init(&rng, (uint64_t)seed, FAST_PURPOSE_TEST, 11, 0, 0);
    s.workers = 4 + below(&rng, WORKERS_MAX - 3);
    const int64_t spared = servers_of(s.strategy, s.workers);
    const int64_t count = 1 + below(&rng, 2);
    for (int64_t i = 0; i < count; i++) {
        const int64_t who = spared + below(&rng, s.workers - spared);
        const size_t used = strlen(s.faults);

        if (s.hung[who])
            continue;
        s.hung[who] = true;
        snprintf(s.faults + used, sizeof s.faults - used,
                 "%spause %" PRId64 " at %" PRId64 "us for 100000s", i ? "; " : "", who,
                 1 + below(&rng, SPAN_US));
    }
    return s;
}

static fast_run *open_run(const schedule *s, int64_t seed, const char *faults)
{
    char strategy[128], workers[32], text[32], timeout[32];
    const char *options[] = { "model=mlp:hidden=12",
                              "engine=ref",
                              "plan=no",
                              "transport=sim",
                              "cluster=ethernet-10g:detection=1000000s",
                              timeout,
                              "batch=4",
                              "optimizer=sgd",
                              "lr=0.01",
                              "schedule=constant",
                              "evaluate=end",
                              "steps=80",
                              strategy,
                              workers,
                              text,
                              faults,
                              NULL };
    fast_run *run = NULL;

    snprintf(strategy, sizeof strategy, "strategy=%s", s->strategy);
    snprintf(workers, sizeof workers, "workers=%" PRId64, s->workers);
    snprintf(text, sizeof text, "seed=%" PRId64, seed);
    snprintf(timeout, sizeof timeout, "timeout=%g", TIMEOUT_S);
    if (fast_run_open_with(options, NULL, test_train_points, test_test_points, &run))
        fail_msg("%s %s: %s", strategy, s->faults, fast_error_detail());
    return run;
}

/* Return when the last of the workers that were well has taken its last step. */
static double last_step(const schedule *s, const fast_run *run)
{
    int64_t last = 0;

    for (int64_t i = 0; i < s->workers; i++) {
        const int64_t life = run->team->actors[i]->measures.tally.life_ns;

        if (!s->hung[i] && life > last)
            last = life;
    }
    return (double)last * 1e-9;
}

/* The watcher of a run. */
static void watch(void *ctx, const fast_event *event)
{
    notes *n = ctx;

    for (int64_t i = 0; event->kind == FAST_EVENT_NOTE && i < n->s->workers; i++) {
        char text[64];

        snprintf(text, sizeof text, "worker %" PRId64 " does not answer", i);
        if (strstr(event->text, text))
            n->named[i] = true;
    }
}

/* Write what is wrong with the run of a schedule, or "". */
static void check(const schedule *s, int64_t seed, char why[TEST_CELL_TEXT])
{
    notes n = { .s = s };
    fast_run *well = open_run(s, seed, NULL), *run = open_run(s, seed, s->faults);
    const fast_err failed = fast_run_train(well);
    fast_run_watch(run, watch, &n);
    const fast_err err = fast_run_train(run);
    const double lost = last_step(s, run) - last_step(s, well);
    bool named = false;

    why[0] = '\0';
    for (int64_t i = 0; i < s->workers; i++) {
        named = named || n.named[i];
        if (n.named[i] && !s->hung[i])
            snprintf(why, TEST_CELL_TEXT, "worker %" PRId64 " was accused though it was well", i);
    }
    if (failed || err)
        snprintf(why, TEST_CELL_TEXT, "it ended: %s", fast_error_detail());
    else if (lost > 2 * TIMEOUT_S + 0.01)
        snprintf(why, TEST_CELL_TEXT, "it lost %g s", lost);
    else if (lost > TIMEOUT_S / 2 && !named)
        snprintf(why, TEST_CELL_TEXT, "it lost %g s and named nobody", lost);
    for (int64_t i = 0; !why[0] && i < s->workers; i++)
        if (run->team->actors[i]->lost && !s->hung[i])
            snprintf(why, TEST_CELL_TEXT, "worker %" PRId64 " gave up though it was well", i);
    fast_run_close(well);
    fast_run_close(run);
}

static void a_hung_peer_costs_two_timeouts_at_most(void **state)
{
    int64_t broken = 0;

    (void)state;
    for (int64_t seed = schedule_seed; seed < schedule_seed + schedule_count; seed++) {
        const schedule s = draw(seed);
        char why[TEST_CELL_TEXT];

        check(&s, seed, why);
        if (!why[0])
            continue;
        print_error("seed %" PRId64 ", %s, %" PRId64 " workers, %s: %s\n", seed, s.strategy,
                    s.workers, s.faults, why);
        broken++;
    }
    print_message("%" PRId64 " schedules, %" PRId64 " broken\n", schedule_count, broken);
    assert_int_equal(broken, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hung_peer_costs_two_timeouts_at_most),
    };

    if (argc > 1)
        schedule_count = strtoll(argv[1], NULL, 10);
    if (argc > 2)
        schedule_seed = strtoll(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, test_points_begin, test_points_end);
}
