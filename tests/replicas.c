/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run is an ordinary one of a small model; between the team and the strategy stands a wrapper,
 * which writes the first weights, puts a learner's own gradients aside if asked to, and keeps the
 * weights when the program returns. One run at a time.
 */
#include "replicas.h"

#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const fast_strategy *inner;                 /* that is tested */
static const test_replicas_options *asked;         /* of the run */
static test_replicas *outcome;                     /* results of the run */
static fast_learner_ops made_up[TEST_WORKERS_MAX]; /* the learner's, by rank */

float test_replicas_gradient(int64_t rank, int64_t step, int64_t i)
{
    const uint32_t mixed = ((uint32_t)rank * 2654435761u) ^ ((uint32_t)step * 2246822519u) ^
                           ((uint32_t)i * 3266489917u);

    return (float)((int)((mixed ^ mixed >> 13) * 668265263u >> 27) - 16) / 16;
}

static fast_err gradient(fast_learner *learner, fast_gradient *out)
{
    const int64_t rank = learner->ops - made_up;

    for (int64_t i = 0; i < learner->params.count; i++)
        learner->g[i] = test_replicas_gradient(rank, out->step, i);
    out->loss = 1;
    out->samples = 1;
    out->positions = 1;
    out->flops = 1e6;
    return FAST_OK;
}

static float *copy_of(const float *x, int64_t count)
{
    float *y = malloc((size_t)count * sizeof *y);

    assert_non_null(y);
    memcpy(y, x, (size_t)count * sizeof *y);
    return y;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    fast_context *context = fast__context_of(t);
    fast_err err;

    if (!asked->learner)
        context->learner->ops = &made_up[t->rank];
    if (!asked->learner || asked->apart)
        memset(t->w, 0, (size_t)t->count * sizeof *t->w);
    if (asked->apart)
        t->w[t->rank] = 1;
    for (int64_t i = 0; asked->scattered && i < t->count; i++)
        t->w[i] = test_replicas_gradient(t->rank, 0, i);
    free(outcome->first[t->rank]);
    outcome->first[t->rank] = copy_of(t->w, t->count);
    if (asked->alloc_fail > 0 && t->rank == 0)
        fast__alloc_fail_after(asked->alloc_fail - 1, true);
    err = inner->worker(t, config);
    outcome->steps[t->rank] = t->step;
    if (!err)
        outcome->last[t->rank] = copy_of(t->w, t->count);
    return err;
}

void test_replicas_run(const test_replicas_options *o, test_replicas *out)
{
    char texts[9][300];
    const char *options[24] = { "model=mlp:hidden=1", "data=digits:train=320,test=20",
                                "engine=ref",         "plan=no",
                                "prefetch=0",         "batch=4",
                                "optimizer=sgd",      "schedule=constant",
                                "evaluate=no",        "timeout=60" };
    int count = 10;
    fast_strategy outer;
    fast_run *run = NULL;

    FAST_ASSERT(o->workers <= TEST_WORKERS_MAX);
    memset(out, 0, sizeof *out);
    snprintf(texts[0], sizeof texts[0], "strategy=%s", o->strategy);
    snprintf(texts[1], sizeof texts[1], "transport=%s", o->transport ? o->transport : "sim");
    snprintf(texts[2], sizeof texts[2], "topology=%s", o->topology ? o->topology : "auto");
    snprintf(texts[3], sizeof texts[3], "lr=%s", o->lr ? o->lr : "0");
    snprintf(texts[4], sizeof texts[4], "workers=%lld", (long long)o->workers);
    snprintf(texts[5], sizeof texts[5], "steps=%lld", (long long)o->steps);
    snprintf(texts[6], sizeof texts[6], "seed=%lld", (long long)(o->seed ? o->seed : 1));
    snprintf(texts[7], sizeof texts[7], "faults=%s", o->faults ? o->faults : "");
    snprintf(texts[8], sizeof texts[8], "codec=%s", o->codec ? o->codec : "none");
    for (int i = 0; i < 9; i++)
        if (i != 7 || o->faults)
            options[count++] = texts[i];
    if (o->cluster)
        options[count++] = o->cluster;
    if (fast_run_open(options, &run) != FAST_OK)
        fail_msg("%s: %s", o->strategy, fast_error_detail());
    inner = run->team->strategy;
    outer = *inner;
    outer.worker = worker;
    run->team->strategy = &outer;
    asked = o;
    outcome = out;
    for (int i = 0; i < TEST_WORKERS_MAX; i++) {
        made_up[i] = *run->learner->ops;
        made_up[i].gradient = gradient;
    }
    out->workers = o->workers;
    out->count = run->learner->params.count;
    out->err = fast_run_train(run);
    fast__alloc_fail_after(-1, true);
    out->result = *fast_run_result(run);
    fast_run_close(run);
}

void test_replicas_free(test_replicas *r)
{
    for (int i = 0; i < TEST_WORKERS_MAX; i++) {
        free(r->last[i]);
        free(r->first[i]);
    }
    memset(r, 0, sizeof *r);
}

double test_replicas_mean(float *const *w, int64_t workers, int64_t i)
{
    double sum = 0;
    int64_t count = 0;

    for (int64_t k = 0; k < workers; k++)
        if (w[k]) {
            sum += (double)w[k][i];
            count++;
        }
    return sum / (double)count;
}

double test_replicas_distance(float *const *w, int64_t workers, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++) {
        const double mean = test_replicas_mean(w, workers, i);

        for (int64_t k = 0; k < workers; k++)
            if (w[k])
                sum += ((double)w[k][i] - mean) * ((double)w[k][i] - mean);
    }
    return sqrt(sum);
}
