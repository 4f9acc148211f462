/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Presets do what their papers say. Goal: the property that a paper is known for holds for the
 * options of its preset. Method: the options are read from the table of systems, and the part that
 * they name is measured; a limit case equals a simpler system to the bit.
 */
#include "fast/comm.h"
#include "fast/learner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_SIZE = 256, RANKS_MAX = 40 };

/* Copy the value of one option of a preset; fail if the preset does not set it. */
static void preset_value(const char *system, const char *option, char value[TEXT_SIZE])
{
    const size_t length = strlen(option);
    int64_t count = 0;
    const fast_system *systems = fast_system_list(&count);

    for (int64_t i = 0; i < count; i++) {
        if (strcmp(systems[i].name, system) != 0)
            continue;
        for (const char *at = systems[i].flags; *at; at += strcspn(at, " "), at += *at == ' ')
            if (strncmp(at, option, length) == 0 && at[length] == '=') {
                snprintf(value, TEXT_SIZE, "%.*s", (int)(strcspn(at, " ") - length - 1),
                         at + length + 1);
                return;
            }
    }
    fail_msg("%s does not set %s", system, option);
}

/* Spread sets of ranks over the links of one step: a rank receives the sets of its senders. */
static void spread(const fast_topology *topology, int64_t step, uint64_t sets[RANKS_MAX])
{
    const int64_t size = fast_topology_size(topology);
    uint64_t next[RANKS_MAX];

    for (int64_t r = 0; r < size; r++) {
        int64_t ranks[RANKS_MAX];
        double weights[RANKS_MAX], self = 0;
        const int64_t count = fast_topology_in(topology, step, r, ranks, weights, &self);

        assert_true(count <= 1); /* one partner a step */
        next[r] = sets[r];
        for (int64_t i = 0; i < count; i++)
            next[r] |= sets[ranks[i]];
    }
    memcpy(sets, next, sizeof next);
}

/* GossipGraD: any value is at all workers after ceil(log2 P) steps, from the start of each pass;
 * partners differ from pass to pass; samples move around a ring. */
static void gossipgrad_spreads_in_log_steps(void **state)
{
    char spec[TEXT_SIZE], shard[TEXT_SIZE];

    (void)state;
    preset_value("gossipgrad", "topology", spec);
    for (int64_t size = 2; size < RANKS_MAX; size++) {
        fast_topology *topology = NULL;
        uint64_t partners = 0;
        int64_t steps = 0;

        while ((int64_t)1 << steps < size)
            steps++;
        assert_int_equal(fast_topology_new(spec, size, 1, &topology), FAST_OK);
        assert_int_equal(fast_topology_check(topology), FAST_OK);
        for (int64_t pass = 0; pass < 4; pass++) {
            uint64_t sets[RANKS_MAX] = { 0 };

            for (int64_t r = 0; r < size; r++)
                sets[r] = (uint64_t)1 << r;
            for (int64_t t = 0; t < steps; t++) {
                int64_t ranks[RANKS_MAX];
                double weights[RANKS_MAX], self;

                spread(topology, pass * steps + t, sets);
                if (fast_topology_out(topology, pass * steps + t, 0, ranks, weights, &self) == 1)
                    partners |= (uint64_t)1 << ranks[0];
            }
            for (int64_t r = 0; r < size; r++)
                assert_true(sets[r] == ((uint64_t)1 << size) - 1);
        }
        if (size > 8) /* more than one pass has */
            assert_true(__builtin_popcountll(partners) > steps);
        fast_topology_free(topology);
    }
    preset_value("gossipgrad", "shard", shard);
    assert_string_equal(shard, "ring");
}

/* Train a preset for a number of steps; fail if it does not. The caller closes *out. */
static void train_for(const char *system, const char *model, int64_t workers, int64_t steps,
                      fast_run **out)
{
    char preset[64], count[32], length[32];
    const char *options[] = {
        preset,    count,  "transport=sim", model, "data=digits:train=600,test=50",
        "batch=4", length, "store=none",    NULL
    };

    snprintf(preset, sizeof preset, "system=%s", system);
    snprintf(count, sizeof count, "workers=%lld", (long long)workers);
    snprintf(length, sizeof length, "steps=%lld", (long long)steps);
    if (fast_run_open(options, out) || fast_run_train(*out))
        fail_msg("%s: %s", system, fast_error_detail());
}

/* The same for a few steps. */
static void train(const char *system, const char *model, int64_t workers, fast_run **out)
{
    train_for(system, model, workers, 4, out);
}

/* SparCML and Kylix merge streams of entries, whatever the cost of other methods is: at four and
 * eight workers an allgather is cheaper for this model. */
static void sparse_sums_are_the_papers(void **state)
{
    static const struct {
        const char *system, *sums[2];
    } cases[] = { { "sparcml", { "double", "split" } },
                  { "kylix", { "butterfly", "butterfly" } },
                  { "top-k", { "gather", "gather" } } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int64_t workers = 4; workers <= 8; workers *= 2) {
            fast_run *run = NULL;

            train(cases[i].system, "model=mlp:hidden=512", workers, &run);
            const char *sum = fast_run_result(run)->codec_sum;
            assert_non_null(sum);
            if (strcmp(sum, cases[i].sums[0]) != 0 && strcmp(sum, cases[i].sums[1]) != 0)
                fail_msg("%s sums by %s", cases[i].system, sum);
            fast_run_close(run);
        }
}

/* Kylix' layers of degree 4, then 2: in a step each of eight workers sends 3 messages and 1 to
 * merge entries, and as many to gather sums. */
static void kylix_sends_a_message_for_each_link(void **state)
{
    int64_t sent[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        fast_run *run = NULL;

        train_for("kylix", "model=mlp:hidden=512", 8, 4 + 4 * i, &run);
        sent[i] = fast_run_result(run)->messages_sent;
        fast_run_close(run);
    }
    assert_int_equal(sent[1] - sent[0], 4 * 8 * (2 * (3 + 1)));
}

/* SparCML's nonblocking sums of layers have the bits of blocking ones, on every transport, and take
 * less time. */
static void sparse_sums_may_overlap(void **state)
{
    static const char *const how[] = { "strategy=allreduce:overlap=no",
                                       "strategy=allreduce:overlap=yes,bucket=1024",
                                       "strategy=allreduce:overlap=yes,bucket=1024" };
    static const char *const where[] = { "cluster=ethernet-1g", "cluster=ethernet-1g",
                                         "transport=threads" };
    fast_result results[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        const char *const options[] = { how[i],
                                        where[i],
                                        i < 2 ? "transport=sim" : "timeout=60",
                                        "workers=4",
                                        "model=mlp:hidden=300x100",
                                        "data=digits:train=600,test=50",
                                        "batch=16",
                                        "steps=6",
                                        "store=none",
                                        "codec=topk:ratio=0.02",
                                        "codec_scope=layer",
                                        "codec_sum=double",
                                        NULL };
        fast_run *run = NULL;

        if (fast_run_open(options, &run) || fast_run_train(run))
            fail_msg("%s: %s", how[i], fast_error_detail());
        results[i] = *fast_run_result(run);
        assert_string_equal(results[i].codec_sum, "double");
        fast_run_close(run);
    }
    assert_true(results[0].params_hash == results[1].params_hash);
    assert_true(results[0].params_hash == results[2].params_hash);
    assert_true(results[1].time_s < results[0].time_s);
    assert_true(results[1].messages_sent > results[0].messages_sent);
}

/* Limit cases: a quadratic whose gradient is a (w - target) with noise of the step, the same at all
 * workers or different; the last weights are those of the evaluation. */
enum { SIDE = 12, WEIGHTS = SIDE * SIDE };
typedef struct quadratic {
    bool differ;      /* workers have targets of their own */
    bool still;       /* without noise: full gradients */
    float w[WEIGHTS]; /* at the last evaluation */
} quadratic;

static fast_err quadratic_gradient(void *ctx, fast_learner_request *request)
{
    const quadratic *q = ctx;
    const int64_t who = q->differ ? request->worker : 0;

    for (int64_t i = 0; i < WEIGHTS; i++) {
        const double target = sin((double)(3 * i + 17 * who)) + 0.2 * (double)who;
        const double wave = cos((double)(7 * i + 5 * who + 11 * request->step));
        const double noise = q->still ? 0 : wave;

        request->g[i] =
            (float)(((double)request->w[i] - target) * (1 + (double)(i % 5)) / 4 + noise / 4);
    }
    request->loss = 1;
    request->samples = request->batch;
    return FAST_OK;
}

static fast_err quadratic_evaluate(void *ctx, fast_learner_request *request)
{
    quadratic *q = ctx;

    memcpy(q->w, request->w, sizeof q->w);
    request->loss = 1;
    request->samples = 1;
    return FAST_OK;
}

/* Train the quadratic by these options, three workers unless they say otherwise. */
static void train_quadratic(bool differ, const char *const *more, quadratic *q)
{
    const char *options[24] = { "workers=3",    "transport=sim", "schedule=constant",
                                "lr=0.05",      "steps=40",      "batch=1",
                                "evaluate=end", "store=none",    "optimizer=sgd" };
    int used = 9;
    const fast_learner_tensor weights = { .name = "w", .rank = 2, .shape = { SIDE, SIDE } };
    const fast_learner_kind kind = { .name = "quadratic",
                                     .params = &weights,
                                     .param_count = 1,
                                     .samples = 300,
                                     .operations = 1e4,
                                     .gradient = quadratic_gradient,
                                     .evaluate = quadratic_evaluate,
                                     .ctx = q };
    fast_run *run = NULL;

    *q = (quadratic){ .differ = differ };
    for (int i = 0; more[i]; i++)
        q->still |= strcmp(more[i], "name=still") == 0; /* a name has no effect on a run */
    for (int i = 0; more[i]; i++)
        options[used++] = more[i];
    if (fast_run_open_learner(options, &kind, NULL, &run) || fast_run_train(run))
        fail_msg("%s: %s", more[0], fast_error_detail());
    fast_run_close(run);
}

/* Train by both options; return the largest difference of a weight. */
static double differ_by(bool differ, const char *const *a, const char *const *b)
{
    static quadratic one, two;
    double most = 0;

    train_quadratic(differ, a, &one);
    train_quadratic(differ, b, &two);
    for (int i = 0; i < WEIGHTS; i++)
        most = fmax(most, fabs((double)one.w[i] - (double)two.w[i]));
    assert_true(fabs((double)one.w[1]) > 1e-3);
    return most;
}

#define LIST(...)         \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

/* EF21 with a codec that loses nothing is synchronous SGD; with one that loses most it comes to the
 * same minimum by full gradients, as it is proved to, by every method of the sum. */
static void ef21_has_its_limits(void **state)
{
    static const char *const sums[] = { "codec_sum=gather", "codec_sum=double",
                                        "codec_sum=stripes" };

    (void)state;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        assert_true(differ_by(true, LIST("codec=topk:ratio=0.9999", "feedback=ef21", sums[i]),
                              LIST("strategy=allreduce")) < 2e-5);
        const double away = differ_by(
            true, LIST("codec=topk:ratio=0.1", "feedback=ef21", sums[i], "steps=800", "name=still"),
            LIST("strategy=allreduce", "steps=800", "name=still"));
        if (!(away < 1e-3))
            fail_msg("%s: %g from synchronous SGD", sums[i], away);
    }
    /* Its estimates are not error feedback. */
    assert_true(differ_by(true, LIST("codec=topk:ratio=0.1", "feedback=ef21"),
                          LIST("codec=topk:ratio=0.1", "feedback=yes")) > 1e-3);
}

/* DeMo sends all of its momentum if it sends all coefficients, and is synchronous SGD. */
static void demo_has_its_limits(void **state)
{
    (void)state;
    assert_true(differ_by(true, LIST("codec=dct:chunk=10,top=10"), LIST("strategy=allreduce")) <
                1e-4);
    assert_true(differ_by(true, LIST("codec=dct:chunk=12,top=2"), LIST("strategy=allreduce")) >
                1e-3);
}

/* CocktailSGD that drops nothing is synchronous SGD. */
static void cocktail_has_its_limit(void **state)
{
    (void)state;
    assert_true(differ_by(true, LIST("codec=skip:probability=0+topk:ratio=0.9999"),
                          LIST("strategy=allreduce")) < 1e-4);
}

/* Streaming DiLoCo: the first fragment is exchanged at the end of each period, as DiLoCo exchanges
 * the whole model; a gradient of the quadratic is one of each weight alone, so its weights have the
 * same bits. Other fragments are exchanged at other steps. One fragment is DiLoCo. */
static void streaming_diloco_is_staggered(void **state)
{
#define DILOCO "strategy=local:period=8,outer=nesterov,momentum=0.9,rate=0.7"
    static quadratic one, four;

    (void)state;
    assert_true(differ_by(true, LIST(DILOCO ",fragments=1"), LIST(DILOCO)) == 0);
    train_quadratic(true, LIST(DILOCO), &one);
    train_quadratic(true, LIST(DILOCO ",fragments=4"), &four);
    assert_memory_equal(one.w, four.w, WEIGHTS / 4 * sizeof *one.w);
    for (int f = 1; f < 4; f++)
        assert_memory_not_equal(one.w + WEIGHTS / 4 * f, four.w + WEIGHTS / 4 * f,
                                WEIGHTS / 4 * sizeof *one.w);
}

/* 1-bit Adam is Adam while it warms up, and still learns by one bit afterwards: at a small rate it
 * comes to the minimum of Adam. */
static void one_bit_adam_warms_up(void **state)
{
    static const char *const adam[] = { "strategy=allreduce", "optimizer=adam", "lr=0.01", NULL };

    (void)state;
    assert_true(differ_by(true,
                          LIST("codec=onebit:beta=0.9,warmup=40", "codec_down=onebit:warmup=40",
                               "optimizer=adam:freeze=40", "lr=0.01"),
                          adam) < 1e-5);
    /* eps bounds the steps of weights whose squares are frozen at tiny values. */
    const double away =
        differ_by(true,
                  LIST("codec=onebit:beta=0.9,warmup=20", "codec_down=onebit:warmup=20",
                       "optimizer=adam:freeze=20,eps=0.5", "lr=0.01", "steps=2000", "name=still"),
                  LIST("strategy=allreduce", "lr=0.01", "steps=2000", "name=still",
                       "optimizer=adam:eps=0.5"));
    if (!(away < 0.1))
        fail_msg("1-bit Adam is %g from Adam", away);
}

/* Workers with equal gradients vote as one: Lion. */
static void distributed_lion_is_lion(void **state)
{
    (void)state;
    assert_true(differ_by(false,
                          LIST("codec=vote:beta1=0.9,beta2=0.99", "optimizer=sgd:weight_decay=0.1"),
                          LIST("workers=1", "optimizer=lion:weight_decay=0.1")) < 1e-5);
}

/* One group of Moshpit SGD is all workers: their models are averaged at each step, and with plain
 * SGD that is the mean of the gradients. */
static void moshpit_in_one_group_is_allreduce(void **state)
{
    (void)state;
    assert_true(differ_by(true, LIST("strategy=gossip:first=adapt", "topology=grid:axes=1"),
                          LIST("strategy=gossip:first=adapt", "topology=full")) < 1e-6);
    assert_true(differ_by(true, LIST("strategy=gossip:first=adapt", "topology=grid:axes=1"),
                          LIST("strategy=allreduce")) < 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gossipgrad_spreads_in_log_steps),
        cmocka_unit_test(sparse_sums_are_the_papers),
        cmocka_unit_test(kylix_sends_a_message_for_each_link),
        cmocka_unit_test(sparse_sums_may_overlap),
        cmocka_unit_test(ef21_has_its_limits),
        cmocka_unit_test(demo_has_its_limits),
        cmocka_unit_test(cocktail_has_its_limit),
        cmocka_unit_test(one_bit_adam_warms_up),
        cmocka_unit_test(streaming_diloco_is_staggered),
        cmocka_unit_test(distributed_lion_is_lion),
        cmocka_unit_test(moshpit_in_one_group_is_allreduce),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
