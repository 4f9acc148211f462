/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learners of the caller's. Goal: one that is fed computes what the native one computes, under
 * every kind of strategy; one with batches of its own gives the same bits on every transport and
 * when it is resumed, and when asynchronous workers are replayed; its errors end every run with one
 * sentence; all its calls have a thread's stack; what makes no sense is refused; memory may run out
 * anywhere. Method: softmax regression in a few lines of C, beside FAST's network of one dense
 * layer, and a quadratic whose gradient is w - c.
 */
#include "base/memory.h"
#include "fast/learner.h"
#include "run/run.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Softmax regression, on what it is fed. */

enum { FEATURES = 784, CLASSES = 10 };

static fast_err softmax(void *ctx, fast_learner_request *t)
{
    const float *w = t->w, *b = t->w + CLASSES * FEATURES;

    (void)ctx;
    assert_int_equal(t->features, FEATURES);
    assert_int_equal(t->targets, 1);
    assert_true(t->count > 0 && t->count <= t->batch);
    assert_true((t->worker == -1) == (t->g == NULL));
    assert_null(t->y);
    assert_null(t->s);
    t->loss = 0;
    if (t->g)
        memset(t->g, 0, (CLASSES * FEATURES + CLASSES) * sizeof *t->g);
    for (int64_t n = 0; n < t->count; n++) {
        const float *x = t->x + n * FEATURES;
        double z[CLASSES], sum = 0;
        int best = 0;

        for (int c = 0; c < CLASSES; c++) {
            double dot = (double)b[c];
            for (int k = 0; k < FEATURES; k++)
                dot += (double)w[c * FEATURES + k] * (double)x[k];
            z[c] = dot;
            best = dot > z[best] ? c : best;
        }
        for (int c = 0; c < CLASSES; c++)
            sum += exp(z[c] - z[best]);
        t->loss += (log(sum) + z[best] - z[t->labels[n]]) / (double)t->count;
        t->correct += best == t->labels[n];
        for (int c = 0; t->g && c < CLASSES; c++) {
            const float d =
                (float)((exp(z[c] - z[best]) / sum - (c == t->labels[n])) / (double)t->count);
            for (int k = 0; k < FEATURES; k++)
                t->g[c * FEATURES + k] += d * x[k];
            t->g[CLASSES * FEATURES + c] += d;
        }
    }
    t->counted = t->samples = t->count;
    return FAST_OK;
}

#define FED                                                                                    \
    "data=digits:train=640,test=100", "batch=16", "epochs=3", "lr=0.05", "optimizer=momentum", \
        "schedule=constant", "transport=sim", "cluster=hetero"

/* Native and foreign, from the same weights: how far apart do they end? */
static void test_like_native(void **state)
{
    static const char *const strategies[] = { "strategy=allreduce", "strategy=ps:slack=2",
                                              "strategy=local:period=4", "strategy=gossip" };
    static float first[CLASSES * FEATURES + CLASSES];
    const fast_learner_tensor tensors[] = {
        { "dense1.weight", 2, { CLASSES, FEATURES }, first },
        { "dense1.bias", 1, { CLASSES }, first + CLASSES * FEATURES },
    };
    /* As many operations as the native one counts: in asynchronous runs time decides. */
    fast_learner_kind kind = { .size = sizeof kind,
                               .name = "softmax",
                               .params = tensors,
                               .param_count = 2,
                               .gradient = softmax,
                               .evaluate = softmax };

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        const char *options[] = { FED,
                                  "workers=3",
                                  strategies[i],
                                  i == 0 ? "accumulate=3" : "accumulate=1",
                                  "engine=ref",
                                  i >= 2 ? "validation=0.2" : "validation=0",
                                  i >= 2 ? "best=yes" : "best=no",
                                  NULL };
        fast_network *network = NULL;
        fast_run *native = NULL, *own = NULL;

        assert_int_equal(fast_network_new(&network), FAST_OK);
        assert_int_equal(fast_network_add(network, "dense 10"), FAST_OK);
        if (fast_run_open_with(options, network, NULL, NULL, &native))
            fail_msg("%s", fast_error_detail());
        assert_int_equal(native->learner->params.count, CLASSES * FEATURES + CLASSES);
        memcpy(first, native->learner->w, sizeof first);
        kind.operations = native->learner->flops / 16 / (double)native->learner->parts;
        if (fast_run_open_learner(options, &kind, NULL, &own))
            fail_msg("%s", fast_error_detail());
        assert_int_equal(fast_run_train(native), FAST_OK);
        assert_int_equal(fast_run_train(own), FAST_OK);
        for (int64_t k = 0; k < native->learner->params.count; k++)
            if (!(fabsf(native->learner->w[k] - own->learner->w[k]) < 1e-4f))
                fail_msg("%s: %g and %g at %d", strategies[i], (double)native->learner->w[k],
                         (double)own->learner->w[k], (int)k);
        assert_true(fabs(native->result.loss - own->result.loss) < 1e-4);
        assert_true(fabs(native->result.test_loss - own->result.test_loss) < 1e-4);
        assert_true(fabs(native->result.test_accuracy - own->result.test_accuracy) < 0.011);
        assert_true(native->result.test_accuracy > 0.2);
        assert_int_equal(native->result.best_step, own->result.best_step);
        assert_true((native->result.best_step >= 0) == (i >= 2));
        assert_true(i < 2 ||
                    fabs(native->result.validation_loss - own->result.validation_loss) < 1e-4);
        assert_true(fast_run_figures(native) != NULL && fast_run_figures(own) == NULL);
        assert_true(native->result.virtual_time_s == own->result.virtual_time_s);
        assert_string_equal(fast_run_option(own, "model"), "softmax");
        assert_int_equal(fast_run_inputs(own), FEATURES);
        fast_run_close(own);
        fast_run_close(native);
        fast_network_free(network);
    }
}

/* A quadratic with batches of its own: |w - c(worker, step)|^2 / 2, and a state that follows it. */

enum { COUNT = 37 };

typedef struct quadratic {
    int64_t fail_worker;    /* whose gradient fails; -1: an evaluation; -2: none */
    int64_t fail_step;      /* then */
    int answer;             /* with this */
    const char *error;      /* and that; NULL: nothing is said */
    size_t stack;           /* bytes of it that each call takes */
    pthread_t home;         /* the caller's thread */
    atomic_llong away;      /* calls in other threads */
    atomic_llong calls;     /* of gradient */
    atomic_llong evaluated; /* calls without a gradient */
    atomic_llong watched;   /* events */
    int64_t drift;          /* of c: another learner under the same name */
} quadratic;

/* Touch `size` bytes of stack. */
static int deep(size_t size)
{
    volatile char block[4096];

    memset((char *)(uintptr_t)block, (int)size, sizeof block);
    return size > sizeof block ? deep(size - sizeof block) + block[7] : block[9];
}

static fast_err step_down(void *ctx, fast_learner_request *t)
{
    quadratic *q = ctx;
    const int64_t worker = t->g ? t->worker : -1;

    if (q->stack)
        deep(q->stack);
    if (!pthread_equal(q->home, pthread_self()))
        atomic_fetch_add(&q->away, 1);
    atomic_fetch_add(t->g ? &q->calls : &q->evaluated, 1);
    if (q->fail_worker == worker && (!t->g || q->fail_step == t->step)) {
        snprintf(t->error, sizeof t->error, "%s", q->error ? q->error : "");
        return (fast_err)q->answer;
    }
    /* On a thread of a worker's nothing can be asserted. A worker that has not begun may be all
     * that an evaluation is of when another one has failed. */
    if (t->x || t->count != 0 || t->s[1] != 5 ||
        (!t->g && q->fail_worker == -2 && !(t->s[0] > 0))) {
        snprintf(t->error, sizeof t->error, "the batch is wrong");
        return FAST_EFORMAT;
    }
    t->loss = 0;
    for (int i = 0; i < COUNT; i++) {
        const float c =
            (float)((i * 7 + (t->g ? t->worker * 3 + t->step : 0) + t->seed + q->drift) % 11);
        const float d = t->w[i] - c;

        t->loss += (double)(d * d) / 2 / COUNT;
        if (t->g)
            t->g[i] = d;
    }
    if (t->g)
        t->s[0] += 1;
    t->samples = t->g ? t->batch : 10;
    return FAST_OK;
}

static const float state_first[] = { 0, 5 };
static const fast_learner_tensor quadratic_w = { "w", 1, { COUNT }, NULL };
static const fast_learner_tensor quadratic_s = { "s", 1, { 2 }, state_first };

static fast_learner_kind quadratic_kind(quadratic *q)
{
    return (fast_learner_kind){ .size = sizeof(fast_learner_kind),
                                .name = "quadratic",
                                .params = &quadratic_w,
                                .param_count = 1,
                                .state = &quadratic_s,
                                .state_count = 1,
                                .samples = 200,
                                .operations = 1e6,
                                .gradient = step_down,
                                .evaluate = step_down,
                                .ctx = q };
}

static void watch(void *ctx, const fast_event *event)
{
    quadratic *q = ctx;

    (void)event;
    if (q->stack)
        deep(q->stack);
    atomic_fetch_add(&q->watched, 1);
}

/* Train by these options; the error, and the result in *out. */
static fast_err train(quadratic *q, const char *const *options, fast_result *out)
{
    const fast_learner_kind kind = quadratic_kind(q);
    fast_run *run = NULL;
    fast_err err = fast_run_open_learner(options, &kind, NULL, &run);

    if (err)
        fail_msg("%s", fast_error_detail());
    fast_run_watch(run, watch, q);
    err = fast_run_train(run);
    *out = *fast_run_result(run);
    fast_run_close(run);
    return err;
}

static const quadratic healthy = { .fail_worker = -2 };

static void test_same_bits(void **state)
{
    static const char *const one[] = { "workers=1", "lr=0.1", "batch=10", "epochs=3", NULL };
    static const char *const transports[] = { "transport=threads", "transport=sim" };
    fast_result results[2], alone;
    quadratic q = healthy;

    (void)state;
    assert_int_equal(train(&q, one, &alone), FAST_OK);
    assert_int_equal(alone.steps, 60);
    assert_int_equal(q.calls, 60);
    assert_int_equal(q.evaluated, 3);
    assert_true(isnan(alone.test_accuracy) && isnan(alone.train_accuracy));
    assert_true(alone.test_loss > 0);
    for (int i = 0; i < 2; i++) {
        const char *options[] = { "workers=3",   "lr=0.1", "batch=10",   "epochs=3",
                                  transports[i], "seed=4", "evaluate=2", NULL };
        assert_int_equal(train(&q, options, &results[i]), FAST_OK);
        assert_int_equal(results[i].steps, 18); /* 200 / 3 / 10 = 6 in an epoch */
    }
    assert_true(results[0].params_hash == results[1].params_hash);
    assert_true(results[0].params_hash != alone.params_hash);
    assert_true(results[1].virtual_time_s > 0);
}

/* The order of asynchronous workers on threads is recorded, and a replay gives the same bits; a
 * learner that computes something else is told from it. */
static void test_replays(void **state)
{
    static const char *const strategies[] = { "strategy=ps", "strategy=gossip_async",
                                              "strategy=hogwild", "strategy=elastic",
                                              "strategy=partial" };
    char folder[] = "learner_test.XXXXXX", record[64], replay[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(record, sizeof record, "record=%s/r", folder);
    snprintf(replay, sizeof replay, "replay=%s/r", folder);
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        const char *options[] = {
            "workers=3",         "lr=0.05",     "batch=10", "steps=30", "evaluate=7steps",
            "transport=threads", strategies[i], record,     NULL
        };
        fast_result first, again;
        quadratic q = healthy, other = { .fail_worker = -2, .drift = 3 };

        if (train(&q, options, &first))
            fail_msg("%s: %s", strategies[i], fast_error_detail());
        options[7] = replay;
        if (train(&q, options, &again))
            fail_msg("%s: %s", strategies[i], fast_error_detail());
        assert_true(first.params_hash == again.params_hash && first.loss == again.loss);
        assert_true(first.test_loss == again.test_loss && first.steps == again.steps);
        assert_int_not_equal(train(&other, options, &again), FAST_OK);
        assert_non_null(strstr(fast_error_detail(), "recording"));
    }
    assert_int_equal(unlink(record + strlen("record=")), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void test_resumes(void **state)
{
    char path[64], keep[80], resume[80];
    const char *const whole[] = { "workers=2", "lr=0.1", "batch=10", "steps=24", NULL };
    const char *const begin[] = { "workers=2",         "lr=0.1",      "batch=10", "steps=24", keep,
                                  "schedule=constant", "evaluate=no", NULL };
    const char *const rest[] = { "workers=2",         "lr=0.1",      "batch=10", "steps=40", resume,
                                 "schedule=constant", "evaluate=no", NULL };
    const char *const all[] = { "workers=2",         "lr=0.1",      "batch=10", "steps=40",
                                "schedule=constant", "evaluate=no", NULL };
    quadratic q = healthy;
    fast_result result, other;
    fast_learner_kind kind = quadratic_kind(&q);
    fast_learner_tensor wider = quadratic_w;
    fast_run *run = NULL;

    (void)state;
    snprintf(path, sizeof path, "learner_test_%d.safetensors", (int)getpid());
    snprintf(keep, sizeof keep, "checkpoint=%s", path);
    snprintf(resume, sizeof resume, "resume=%s", path);
    assert_int_equal(train(&q, begin, &result), FAST_OK);
    q.calls = 0;
    assert_int_equal(train(&q, rest, &result), FAST_OK);
    assert_int_equal(q.calls, 2 * (40 - 24));
    assert_int_equal(train(&q, all, &other), FAST_OK);
    assert_true(result.params_hash == other.params_hash);
    assert_int_equal(train(&q, whole, &other), FAST_OK);
    assert_true(result.params_hash != other.params_hash);
    wider.shape[0]++;
    kind.params = &wider;
    assert_int_equal(fast_run_open_learner(rest, &kind, NULL, &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "\"w\" is [37], and the model's is [38]"));
    remove(path);
}

static void test_errors_end_the_run(void **state)
{
    static const char *const strategies[] = { "strategy=allreduce", "strategy=ps",
                                              "strategy=gossip", "strategy=local:period=4",
                                              "strategy=hogwild" };
    static const char *const transports[] = { "transport=threads", "transport=sim" };
    fast_result result;

    (void)state;
    for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; s++)
        for (int i = 0; i < 2; i++) {
            const char *options[] = { "workers=3",   "lr=0.01",     "batch=10",       "epochs=1000",
                                      strategies[s], transports[i], "cluster=laptop", NULL };
            if (i == 0)
                options[6] = NULL;
            quadratic q = {
                .fail_worker = 1, .fail_step = 3, .answer = FAST_EIO, .error = "ValueError:\n lost"
            };
            assert_int_equal(train(&q, options, &result), FAST_EIO);
            assert_string_equal(fast_error_detail(), "worker 1: learner quadratic: gradient at "
                                                     "step 3: ValueError:  lost");
            q = (quadratic){ .fail_worker = 2, .fail_step = 0 }; /* answers 0 */
            assert_int_equal(train(&q, options, &result), FAST_EINVAL);
            assert_non_null(strstr(fast_error_detail(), "worker 2: learner quadratic: gradient at "
                                                        "step 0 answered for no samples"));
            q = (quadratic){ .fail_worker = -1, .answer = FAST_EPEER, .error = "bad" };
            assert_int_equal(train(&q, options, &result), FAST_EINVAL);
            assert_non_null(strstr(fast_error_detail(), "evaluation at step 0: bad"));
            assert_in_range(q.evaluated, 1,
                            2); /* where steps are not in step, another may be due */
        }
}

static void test_alone_fails(void **state)
{
    static const char *const options[] = { "batch=10", "lr=0.01", NULL };
    quadratic q = { .fail_worker = 0, .fail_step = 5, .answer = FAST_ENOMEM };
    fast_result result;

    (void)state;
    assert_int_equal(train(&q, options, &result), FAST_ENOMEM);
    assert_string_equal(fast_error_detail(),
                        "learner quadratic: gradient at step 5: out of memory");
    q.answer = -1234567; /* as an exception may leave it */
    assert_int_equal(train(&q, options, &result), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "at step 5 answered for no samples"));
}

/* One worker needs no thread: a learner that belongs to the caller's thread, as an interpreter's
 * does, is called there. */
static void test_alone_stays_home(void **state)
{
    static const char *const options[] = { "batch=10", "lr=0.01", NULL };
    quadratic q = { .fail_worker = -2, .home = pthread_self() };
    fast_result result;

    (void)state;
    assert_int_equal(train(&q, options, &result), FAST_OK);
    assert_true(atomic_load(&q.calls) > 0 && atomic_load(&q.evaluated) > 0);
    assert_int_equal(atomic_load(&q.away), 0);
}

/* More than a simulated actor has, 256 KB, and less than the smallest thread's stack. */
static void test_has_stack(void **state)
{
    static const char *const pools[] = { "pool=0", "pool=3" };
    static const char *const strategies[] = { "strategy=allreduce", "strategy=gossip" };
    fast_result result;

    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *options[] = { "workers=4",  "batch=10",        "epochs=2", "transport=sim",
                                  pools[i % 2], strategies[i / 2], NULL };
        quadratic q = { .fail_worker = -2, .stack = 1 << 20 };

        assert_int_equal(train(&q, options, &result), FAST_OK);
        assert_int_equal(q.calls, 4 * 10);
        assert_int_equal(q.evaluated, 2);
        assert_true(q.watched >= 3);
    }
}

static void refuse(const fast_learner_kind *kind, const char *option, const char *why)
{
    const char *options[] = { "batch=10", option, NULL };
    fast_run *run = NULL;
    const fast_err err = fast_run_open_learner(options, kind, NULL, &run);

    assert_null(run);
    assert_int_equal(err, FAST_EINVAL);
    if (!strstr(fast_error_detail(), why))
        fail_msg("\"%s\" is not in \"%s\"", why, fast_error_detail());
}

static void test_refuses(void **state)
{
    quadratic q = healthy;
    const fast_learner_kind good = quadratic_kind(&q);
    const fast_learner_tensor twice[] = { quadratic_w, quadratic_w };
    fast_learner_kind kind = good;
    fast_learner_tensor tensor = quadratic_w;

    (void)state;
    kind.size -= 8;
    refuse(&kind, NULL, "set size");
    kind = good;
    kind.name = "two words";
    refuse(&kind, NULL, "is not one word");
    kind = good;
    kind.gradient = NULL;
    refuse(&kind, NULL, "has no function gradient");
    kind = good;
    kind.param_count = 0;
    refuse(&kind, NULL, "0 tensors to train");
    kind = good;
    kind.samples = -1;
    refuse(&kind, NULL, "must not be negative");
    kind = good;
    kind.operations = NAN;
    refuse(&kind, NULL, "must not be negative");
    kind = good;
    kind.samples = 9;
    refuse(&kind, NULL, "the 9 samples of learner quadratic are not enough");
    kind = good;
    kind.state = &quadratic_w;
    refuse(&kind, NULL, "two tensors \"w\"");
    kind.params = twice;
    kind.param_count = 2;
    refuse(&kind, NULL, "two tensors \"w\"");
    kind = good;
    kind.evaluate = NULL;
    refuse(&kind, "target=0.5", "target=0.5 needs a test set");
    kind = good;
    kind.params = &tensor;
    tensor.rank = 5;
    refuse(&kind, NULL, "\"w\" of the learner has rank 5");
    tensor = (fast_learner_tensor){ "w", 2, { 3, 0 }, NULL };
    refuse(&kind, NULL, "dimension 1 is 0");
    tensor = (fast_learner_tensor){ "w", 4, { 1 << 20, 1 << 20, 1 << 20, 1 << 20 }, NULL };
    refuse(&kind, NULL, "dimension 3 is 1048576");
    tensor.name = "a_name_that_is_much_longer_than_the_sixty_three_bytes_that_are_allowed";
    refuse(&kind, NULL, "needs a name of 1 to 63 bytes");
    refuse(&good, "holdout=0.1", "has its own");
    refuse(&good, "validation=0.1", "has its own");
    refuse(&good, "class_weights=balanced", "has its own loss");
}

static void test_cannot_predict(void **state)
{
    static const char *const options[] = { "batch=10", NULL };
    quadratic q = healthy;
    const fast_learner_kind kind = quadratic_kind(&q);
    fast_run *run = NULL;
    float x = 0, y = 0;

    (void)state;
    assert_int_equal(fast_run_open_learner(options, &kind, NULL, &run), FAST_OK);
    assert_int_equal(fast_run_predict(run, 1, &x, &y), FAST_ENOTSUP);
    assert_int_equal(fast_run_inputs(run) + fast_run_outputs(run), 0);
    fast_run_close(run);
}

static void test_no_memory(void **state)
{
    static const char *const options[] = { "batch=10", "workers=2", "transport=sim", NULL };
    quadratic q = healthy;
    const fast_learner_kind kind = quadratic_kind(&q);
    fast_run *run = NULL;
    int64_t n = 0;

    (void)state;
    for (fast_err err = FAST_ENOMEM; err; n++) {
        fast__alloc_fail_after(n, true);
        err = fast_run_open_learner(options, &kind, NULL, &run);
        if (!err)
            err = fast_run_train(run);
        fast__alloc_fail_after(-1, true);
        fast_run_close(run);
        run = NULL;
        if (err && err != FAST_ENOMEM)
            fail_msg("allocation %d: %s", (int)n, fast_error_detail());
        assert_true(n < 10000);
    }
    assert_true(n > 20);
}

/* A learner whose gradient is 1 and whose rate of step n is 2^-n: w falls by the sum of the rates,
 * exactly. */
static fast_err halving(void *ctx, fast_learner_request *t)
{
    double *rate = ctx, fallen = 0;

    for (int64_t i = 0; i < t->step; i++)
        fallen += ldexp(1, (int)-i);
    assert_float_equal(t->w[0], -fallen, 0);
    *rate = ldexp(1, (int)-t->step);
    t->g[0] = 1;
    t->loss = 0;
    t->samples = t->batch;
    return FAST_OK;
}

/* The rate that a learner writes before it answers is that of the step, wherever w is updated. */
static void test_decides_the_rate(void **state)
{
    static const char *const strategies[] = { "workers=1", "strategy=allreduce",
                                              "strategy=ps:slack=0", "strategy=local:period=1" };

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        double rate = 7;
        const fast_learner_tensor tensor = { "w", 1, { 1 }, NULL };
        const fast_learner_kind kind = { .size = sizeof kind,
                                         .name = "halving",
                                         .params = &tensor,
                                         .param_count = 1,
                                         .samples = 8,
                                         .gradient = halving,
                                         .ctx = &rate,
                                         .lr = &rate };
        const char *options[] = { "workers=2",     "batch=1",     "steps=6",
                                  "optimizer=sgd", "evaluate=no", "transport=sim",
                                  "pool=0",        strategies[i], NULL };
        fast_run *run = NULL;

        if (fast_run_open_learner(options, &kind, NULL, &run) || fast_run_train(run))
            fail_msg("%s: %s", strategies[i], fast_error_detail());
        assert_int_equal(fast_run_result(run)->steps, 6);
        fast_run_close(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_like_native),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_replays),
        cmocka_unit_test(test_resumes),
        cmocka_unit_test(test_errors_end_the_run),
        cmocka_unit_test(test_alone_fails),
        cmocka_unit_test(test_alone_stays_home),
        cmocka_unit_test(test_has_stack),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_cannot_predict),
        cmocka_unit_test(test_decides_the_rate),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
