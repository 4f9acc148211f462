/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that workers of `ps` compute with. Goal: read-my-writes, the staleness bound for every
 * coordinate, the value bound at every moment. Method: a learner whose worker i has coordinates of
 * its own, all with the gradient -1: a coordinate of i is then the learning rate times the steps of
 * i that the reader sees, an exact number; on the simulator, with latencies and uneven speeds.
 */
#include "fast/learner.h"
#include "fast/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WORKERS = 4, EACH = 8, COUNT = WORKERS * EACH, STEPS = 40 };

/* Figures of the views that the learner was asked with, over a whole run. */
typedef struct views {
    int64_t slack;      /* staleness bound; -1: none */
    int64_t calls;      /* gradients */
    int64_t stale;      /* steps of another worker that the reader's view lacked, largest */
    int64_t own_wrong;  /* coordinates of the reader's own that were not its own steps */
    int64_t over_bound; /* coordinates that were older than the bound */
} views;

/* Learning rate 1: a coordinate is a number of steps. */
static fast_err look(void *ctx, fast_learner_request *r)
{
    views *v = ctx;

    for (int64_t i = 0; i < COUNT; i++) {
        const int64_t of = i / EACH, seen = (int64_t)r->w[i];

        if (of == r->worker)
            v->own_wrong += r->w[i] != (float)r->step;
        else
            v->stale = r->step - seen > v->stale ? r->step - seen : v->stale;
        v->over_bound += v->slack >= 0 && seen < r->step - v->slack;
        r->g[i] = of == r->worker ? -1 : 0;
    }
    v->calls++;
    r->loss = 1;
    r->samples = 1;
    return FAST_OK;
}

/* Train with a codec, or NULL, on a cluster. */
static views run(const char *strategy, const char *codec, const char *cluster, int64_t slack)
{
    static const fast_learner_tensor tensors[] = { { "w", 1, { COUNT }, NULL } };
    views v = { .slack = slack };
    const fast_learner_kind kind = { .size = sizeof kind,
                                     .name = "views",
                                     .params = tensors,
                                     .param_count = 1,
                                     .samples = STEPS * WORKERS,
                                     .operations = 1e5,
                                     .gradient = look,
                                     .ctx = &v };
    char how[128], with[128], where[128];
    const char *options[] = { how,
                              with,
                              where,
                              "workers=4",
                              "batch=1",
                              "steps=40",
                              "transport=sim",
                              "lr=1",
                              "schedule=constant",
                              "optimizer=sgd",
                              NULL };
    fast_run *opened = NULL;

    snprintf(how, sizeof how, "strategy=%s", strategy);
    snprintf(with, sizeof with, "codec=%s", codec ? codec : "none");
    snprintf(where, sizeof where, "cluster=%s", cluster);
    if (fast_run_open_learner(options, &kind, NULL, &opened) || fast_run_train(opened))
        fail_msg("%s: %s", strategy, fast_error_detail());
    if (v.calls != WORKERS * STEPS)
        fail_msg("%s: %lld gradients, stop %s", strategy, (long long)v.calls,
                 fast_run_result(opened)->stop);
    fast_run_close(opened);
    return v;
}

static const char *const clusters[] = { "hetero", "hetero:latency=200us,jitter=0.3", "wan",
                                        "ethernet-10g" };
enum { CLUSTERS = sizeof clusters / sizeof clusters[0] };

/* SSP's read-my-writes: a worker's view has all of its own updates, each once, also where a server
 * sent the values before it had them. */
static void workers_see_their_own_updates(void **state)
{
    static const struct {
        const char *strategy;
        int64_t slack;
    } cases[] = { { "ps:slack=3", 3 },
                  { "ps:slack=3,eager=yes", 3 },
                  { "ps:slack=3,eager=yes,servers=0", 3 },
                  { "ps:slack=1,eager=yes,servers=3", 1 },
                  { "ps:slack=30,eager=yes,servers=2", 30 },
                  { "ps:slack=0,eager=yes", -1 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int k = 0; k < CLUSTERS; k++) {
            const views v = run(cases[i].strategy, NULL, clusters[k], cases[i].slack);

            if ((v.own_wrong > 0 && cases[i].slack > 0) || v.over_bound > 0)
                fail_msg("%s on %s: %lld own values wrong, %lld older than the bound",
                         cases[i].strategy, clusters[k], (long long)v.own_wrong,
                         (long long)v.over_bound);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_see_their_own_updates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
