/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: all that workers of synchronous strategies keep from one step to the next lasts: replicas,
 * rules, centres, outer momentum, masses, the places in changing graphs, what codecs owe and what
 * neighbours hold. A run that was stopped and goes on ends with the bits of the one that was not.
 * Method: small runs of every such member of the families, with and without codecs, in sim and on
 * threads, are canceled at evaluations and go on.
 */
#include "fast/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 16, OPTIONS_MAX = 24 };

#ifdef FAST_SANITIZED
enum { BRIEF = 1 };
#else
enum { BRIEF = 0 };
#endif

/* Runs, by what matters here. */
typedef struct job {
    const char *strategy;
    const char *more; /* another option */
    const char *codec;
} job;

static const job jobs[] = {
    { "strategy=gossip", "seed=1", "codec=none" },
    { "strategy=gossip:drop=0.3", "seed=1", "codec=none" },
    { "strategy=gossip:first=adapt,rounds=2", "topology=hypercube:one=yes", "codec=none" },
    { "strategy=gossip:push=yes", "topology=exponential:one=yes", "codec=none" },
    { "strategy=gossip:push=yes,drop=0.2", "topology=exponential:one=yes", "codec=topk:ratio=0.1" },
    { "strategy=gossip:period=3,correct=1", "topology=pairs", "codec=qsgd" },
    { "strategy=gossip", "seed=1", "codec=powersgd" },
    { "strategy=gossip", "seed=1", "codec=randk:ratio=0.2" },
    { "strategy=gossip:sends=gradients", "topology=full", "codec=dgc:ratio=0.05" },
    { "strategy=gossip:sends=gradients", "seed=1", "codec=qsgd" },
    { "strategy=local:period=4", "seed=1", "codec=none" },
    { "strategy=local:period=3,outer=nesterov", "optimizer=momentum", "codec=none" },
    { "strategy=local:period=2,outer=classical,polyak=0.1", "seed=1", "codec=topk:ratio=0.1" },
    { "strategy=local:period=2,delay=yes,grow=0.2", "seed=1", "codec=onebit" },
    { "strategy=local:period=3,state=average", "optimizer=momentum", "codec=qsgd" },
    { "strategy=elastic_sync", "optimizer=momentum", "codec=none" },
    { "strategy=elastic_sync:mu=0.9,restart=7", "seed=1", "codec=none" },
    { "strategy=elastic_sync:mu=0.9,period=2", "seed=1", "codec=qsgd" },
    { "strategy=elastic_sync:period=2", "seed=1", "codec=powersgd" },
    { "strategy=allreduce", "optimizer=momentum", "codec=onebit" },
};

/* Who cancels a run at evaluations. */
typedef struct stopper {
    fast_run *run;
    int64_t count; /* how often so far */
} stopper;

static void stop(void *ctx, const fast_event *event)
{
    stopper *s = ctx;

    if (event->kind != FAST_EVENT_EVALUATE || event->step >= STEPS || event->step % 5 != 0)
        return;
    s->count++;
    fast_run_cancel(s->run);
}

static fast_run *open_job(const job *j, const char *const *extra)
{
    const char *options[OPTIONS_MAX] = { "data=digits:train=480,test=40",
                                         "model=mlp:hidden=12",
                                         "workers=4",
                                         "batch=8",
                                         "lr=0.05",
                                         "steps=16",
                                         "evaluate=5steps",
                                         "engine=ref",
                                         "optimizer=sgd",
                                         j->strategy,
                                         j->codec,
                                         j->more };
    int count = 12;
    fast_run *run = NULL;

    if (strncmp(j->more, "optimizer=", 10) == 0) { /* an option is given once */
        options[8] = j->more;
        options[11] = "seed=1";
    }
    for (; *extra; extra++)
        options[count++] = *extra;
    if (fast_run_open(options, &run))
        fail_msg("%s %s: %s", j->strategy, j->codec, fast_error_detail());
    return run;
}

/* Train to the end, however often it is stopped on the way. */
static uint64_t train(const job *j, const char *transport, bool stops)
{
    fast_run *run = open_job(j, (const char *const[]){ transport, NULL });
    stopper s = { .run = run };
    uint64_t hash;

    if (stops)
        fast_run_watch(run, stop, &s);
    do {
        if (fast_run_train(run))
            fail_msg("%s %s: %s", j->strategy, j->codec, fast_error_detail());
    } while (fast_run_result(run)->canceled);
    assert_int_equal(fast_run_result(run)->steps, STEPS);
    assert_true(!stops || s.count > 0);
    hash = fast_run_result(run)->params_hash;
    fast_run_close(run);
    return hash;
}

static void a_canceled_run_goes_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i += BRIEF ? 3 : 1) {
        const uint64_t hash = train(&jobs[i], "transport=sim", false);

        if (train(&jobs[i], "transport=sim", true) != hash)
            fail_msg("%s %s %s: another model after a cancel", jobs[i].strategy, jobs[i].more,
                     jobs[i].codec);
        if (i % 4 == 0 && train(&jobs[i], "transport=threads", true) != hash)
            fail_msg("%s %s %s: another model after a cancel on threads", jobs[i].strategy,
                     jobs[i].more, jobs[i].codec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_canceled_run_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
