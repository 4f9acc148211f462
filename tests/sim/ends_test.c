/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends that come early. Goal: when a target is reached or the run is canceled, nobody waits for
 * somebody who has stopped; not one deadline passes, whatever the strategy. Method: nodes of unlike
 * speeds, so that workers hear of the stop at unlike moments; a step takes microseconds of virtual
 * time, and a deadline is 1000 s, so that the time in all tells whether one has passed.
 */
#include "fast/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const specs[] = {
    "allreduce",
    "allreduce:overlap=yes,bucket=1000",
    "quorum",
    "quorum:quorum=1",
    "quorum:quorum=1,partial=yes",
    "quorum:backup=1,late=add",
    "quorum:backup=2,servers=0",
    "local:period=3",
    "local:period=0",
    "local:period=4,delay=yes",
    "ps",
    "ps:slack=0",
    "ps:slack=0,tasks=yes,ring=2",
    "ps:slack=1,tasks=yes,ring=2,groups=2",
    "ps:slack=0,backup=1",
    "ps:slack=0,backup=3",
    "ps:slack=0,backup=1,eager=yes",
    "ps:servers=0,slack=0,backup=1",
    "ps:servers=0,slack=0,backup=2,overlap=yes",
    "ps:servers=0,proxies=2",
    "ps:proxies=2,slack=1",
    "ps:proxies=2,slack=3,cache_age=3,rows=yes",
    "ps:proxies=2,slack=0",
    "ps:servers=2,slack=8,replicas=1",
    "ps:slack=0,replicas=1",
    "ps:slack=3,eager=yes",
    "ps:value=0.05",
    "ps:value=0.05,weak=yes",
    "ps:softsync=2",
    "ps:fetch=4,push=4,send=mean",
    "ps:servers=2,epochs=0.75",
    "elastic",
    "elastic_sync:period=4",
    "elastic_tree",
    "elastic_tree:slack=0",
    "mpca",
    "federated:period=4",
    "federated:period=2,part=0.5",
    "hogwild",
    "dogwild",
    "ensemble",
    "distill",
    "gossip",
    "gossip:push=yes,first=adapt",
    "gossip_async",
    "gossip_async:how=average,overlap=yes",
    "gossip_async:how=average,overlap=no",
    "gossip_async:how=pull,p=0.5",
    "partial",
    "partial:how=scatter",
    "partial:how=parts,parts=0",
    "partial:how=states",
    "broadcast",
    "broadcast:how=gossip",
};

#ifdef FAST_SANITIZED
enum { EVERY = 3, TURNS = 1 }; /* instrumented runs are slow */
#else
enum { EVERY = 1, TURNS = 3 };
#endif

/* A run that would be long. */
static fast_run *open_run(const char *spec, const char *evaluate, const char *target)
{
    const bool shares = strncmp(spec, "hogwild", 7) == 0; /* which needs one memory */
    const bool bounds = strstr(spec, "value=") != NULL;   /* steps of plain SGD */
    char strategy[128];
    const char *options[] = { strategy,
                              "engine=ref",
                              "model=mlp:hidden=12",
                              "data=digits:train=160,test=24",
                              "batch=8",
                              "plan=no",
                              "workers=5",
                              "transport=sim",
                              shares ? "cluster=laptop" : "cluster=hetero",
                              "timeout=1000",
                              "steps=2000",
                              bounds ? "optimizer=sgd" : "optimizer=momentum:weight_decay=0.0005",
                              evaluate,
                              target,
                              NULL };
    fast_run *run = NULL;

    snprintf(strategy, sizeof strategy, "strategy=%s", spec);
    if (fast_run_open(options, &run))
        fail_msg("%s: %s", spec, fast_error_detail());
    return run;
}

/* Train, stop early, and see that it took no deadline. */
static void end(fast_run *run, const char *spec, const char *why)
{
    const fast_result *r;

    if (fast_run_train(run))
        fail_msg("%s: %s", spec, fast_error_detail());
    r = fast_run_result(run);
    if (strcmp(r->stop, why) != 0)
        fail_msg("%s: it ended by %s, not %s", spec, r->stop, why);
    if (r->virtual_time_s > 100)
        fail_msg("%s, %s: it took %g s", spec, why, r->virtual_time_s);
}

/* Notes tell of workers that did not come to the end: there must be none. */
static void watch(void *ctx, const fast_event *event)
{
    if (event->kind == FAST_EVENT_NOTE && strstr(event->text, "did not come to the end"))
        snprintf(ctx, 256, "%s", event->text);
}

static void targets_take_no_deadline(void **state)
{
    static const char *const moments[] = { "evaluate=1steps", "evaluate=5steps",
                                           "evaluate=12steps" };

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i += EVERY)
        for (int k = 0; k < TURNS; k++) {
            fast_run *run = open_run(specs[i], moments[k], "target=0.001");
            char note[256] = "";

            fast_run_watch(run, watch, note);
            end(run, specs[i], "target");
            if (note[0])
                fail_msg("%s: %s", specs[i], note);
            fast_run_close(run);
        }
}

/* A watcher that cancels its run at a step. */
typedef struct canceler {
    fast_run *run;
    int64_t step; /* of the evaluation that it waits for; 0: training begins */
} canceler;

static void cancel(void *ctx, const fast_event *event)
{
    const canceler *c = ctx;

    if (c->step == 0 ? event->kind == FAST_EVENT_START
                     : event->kind == FAST_EVENT_EVALUATE && event->step >= c->step)
        fast_run_cancel(c->run);
}

static void cancels_take_no_deadline(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i += EVERY)
        for (int k = 0; k < TURNS; k++) {
            fast_run *run = open_run(specs[i], "evaluate=1steps", "target=0");
            canceler c = { run, 3 * k };

            fast_run_watch(run, cancel, &c);
            end(run, specs[i], "canceled");
            if (k > 0) { /* it continues, and is canceled once more */
                c.step = 3 * k + 7;
                end(run, specs[i], "canceled");
            }
            fast_run_close(run);
        }
}

/* Backup workers in memory that is shared: who waits there looks by itself. */
static void threads_take_no_deadline(void **state)
{
    static const char *const members[] = { "strategy=ps:slack=0,backup=1",
                                           "strategy=ps:servers=0,slack=0,backup=2" };

    (void)state;
    for (int k = 0; k < 2 * TURNS; k++) {
        const char *options[] = { members[k % 2],
                                  "engine=ref",
                                  "model=mlp:hidden=12",
                                  "data=digits:train=160,test=24",
                                  "batch=8",
                                  "plan=no",
                                  "workers=4",
                                  "transport=threads",
                                  "steps=2000",
                                  "evaluate=10steps",
                                  "target=0.001",
                                  NULL };
        fast_run *run = NULL;
        char note[256] = "";

        if (fast_run_open(options, &run))
            fail_msg("%s", fast_error_detail());
        fast_run_watch(run, watch, note);
        if (fast_run_train(run) || note[0])
            fail_msg("%s: %s", members[k % 2], note[0] ? note : fast_error_detail());
        assert_string_equal(fast_run_result(run)->stop, "target");
        fast_run_close(run);
    }
}

/* Too few for an update because of crashes: that is no end while one may come back. */
static void who_comes_back_is_waited_for(void **state)
{
    const char *options[] = { "strategy=ps:slack=0,backup=1",
                              "faults=crash 1 at 1ms; crash 2 at 1.2ms; restart 1 at 900ms",
                              "engine=ref",
                              "model=mlp:hidden=12",
                              "data=digits:train=160,test=24",
                              "batch=8",
                              "plan=no",
                              "workers=4",
                              "transport=sim",
                              "timeout=5",
                              "steps=200",
                              "evaluate=end",
                              NULL };
    fast_run *run = NULL;

    (void)state;
    if (fast_run_open(options, &run) || fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    assert_true(fast_run_result(run)->steps > 100);
    fast_run_close(run);
}

/* A worker that is cut off for good has nobody who waits for it: servers give up on it too. */
static void who_is_cut_off_holds_nobody(void **state)
{
    static const char *const faults[] = { "faults=partition 2 at 1ms",
                                          "faults=partition 1,2,3 at 1ms",
                                          "faults=partition 2 at 1ms; crash 1 at 2ms" };

    (void)state;
    alarm(300); /* a run that hangs fails */
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i += EVERY) {
        char strategy[128];
        const char *options[] = { strategy,
                                  faults[i % 3],
                                  strstr(specs[i], "value=") ? "optimizer=sgd" : "engine=ref",
                                  "engine=ref",
                                  "model=mlp:hidden=12",
                                  "data=digits:train=160,test=24",
                                  "batch=8",
                                  "plan=no",
                                  "workers=4",
                                  "transport=sim",
                                  "cluster=ethernet-10g:detection=1000000s",
                                  "timeout=2",
                                  "steps=200",
                                  "evaluate=end",
                                  NULL };
        fast_run *run = NULL;

        if (strncmp(specs[i], "hogwild", 7) == 0) /* needs one memory */
            continue;
        snprintf(strategy, sizeof strategy, "strategy=%s", specs[i]);
        if (fast_run_open(options, &run))
            fail_msg("%s: %s", specs[i], fast_error_detail());
        const fast_err err = fast_run_train(run);
        /* Synchronous workers fail, and say for whom they waited. */
        if (err && !strstr(fast_error_detail(), "worker"))
            fail_msg("%s: %s", specs[i], fast_error_detail());
        if (!err && fast_run_result(run)->virtual_time_s > 100)
            fail_msg("%s: it took %g s", specs[i], fast_run_result(run)->virtual_time_s);
        fast_run_close(run);
    }
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_take_no_deadline),
        cmocka_unit_test(cancels_take_no_deadline),
        cmocka_unit_test(threads_take_no_deadline),
        cmocka_unit_test(who_comes_back_is_waited_for),
        cmocka_unit_test(who_is_cut_off_holds_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
