/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every strategy acts along `data` on each part of a split model as it does on whole models.
 *
 * Method: synchronous strategies are compared to the bit with the same strategy on whole models,
 * under several meshes; shards within rounding, since their sums have another order. Limit cases
 * are compared with each other. Of asynchronous ones the run in virtual time repeats, staleness
 * keeps its bound, evaluations see whole replicas, and a cancel stops all stages of one at one
 * step. Checkpoints of different replicas continue to the bit; what cannot be is refused.
 *
 * All on threads and on sim; with the word "mpi" over the ranks of mpirun, where only worker 0's
 * process has the hash.
 */
#include "run/team.h"

#ifdef FAST_HAVE_MPI
#include "base/clock.h"
#include "transport/mpi/process.h"
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

static const char *transport = "transport=threads";
static bool mpi;
static int64_t rank;

static const char *const small[] = { "model=mlp:hidden=14x12x10",
                                     "data=digits:train=320,test=64",
                                     "engine=ref",
                                     "plan=no",
                                     "timeout=60",
                                     "batch=4",
                                     "accumulate=2",
                                     "steps=8",
                                     "evaluate=3steps",
                                     "optimizer=adam",
                                     "lr=0.01",
                                     "schedule=constant",
                                     NULL };

static fast_err try_open(const char *const *more, fast_run **out)
{
    const char *options[40];
    int used = 0;
    for (int i = 0; small[i]; i++)
        options[used++] = small[i];
    options[used++] = transport;
    for (int i = 0; more[i]; i++)
        options[used++] = more[i];
    options[used] = NULL;
    return fast_run_open(options, out);
}

static fast_run *train(const char *const *more)
{
    fast_run *run = NULL;
    if (try_open(more, &run) || fast_run_train(run))
        fail_msg("%s %s: %s", more[0], more[1], fast_error_detail());
    return run;
}

static uint64_t hash_of(const char *const *more)
{
    fast_run *run = train(more);
    const uint64_t hash = fast_run_result(run)->params_hash;
    assert_true(rank > 0 || isfinite(fast_run_result(run)->loss));
    fast_run_close(run);
    return hash;
}

static void check_same(const char *const *a, const char *const *b)
{
    const uint64_t one = hash_of(a), other = hash_of(b);
    if (rank == 0 && one != other)
        fail_msg("%s %s has other bits than %s %s", a[0], a[1], b[0], b[1]);
}

static const char *const together[] = { "strategy=local:period=1", "strategy=local:period=3",
                                        "strategy=gossip",         "strategy=elastic_sync",
                                        "strategy=ps:slack=0",     "strategy=ps:slack=0,servers=2",
                                        "strategy=zero:stage=1",   "strategy=zero:stage=2",
                                        "strategy=zero:stage=3" };
enum { TOGETHER = sizeof together / sizeof *together };

static void stages_equal_whole_models(void **state)
{
    (void)state;
    for (int i = 0; i < TOGETHER; i++) {
        check_same(LIST(together[i], "mesh=data=2,pipe=2"), LIST(together[i], "workers=2"));
        check_same(LIST(together[i], "mesh=data=2,pipe=2", "pipeline=gpipe"),
                   LIST(together[i], "workers=2"));
    }
    check_same(LIST(together[1], "mesh=data=3,pipe=2"), LIST(together[1], "workers=3"));
    check_same(LIST(together[5], "mesh=data=3,pipe=3"), LIST(together[5], "workers=3"));
    check_same(LIST(together[8], "mesh=data=3,pipe=3"), LIST(together[8], "workers=3"));
}

/* Statistics of batch norm are averaged with the parameters of their stage. */
static void statistics_belong_to_their_stage(void **state)
{
    (void)state;
    check_same(
        LIST("strategy=local:period=2", "mesh=data=2,pipe=2", "model=resnet8:width=4", "steps=3"),
        LIST("strategy=local:period=2", "workers=2", "model=resnet8:width=4", "steps=3"));
}

/* Without slack servers are allreduce; averages at each step of plain SGD are it to rounding. */
static void limit_cases_agree(void **state)
{
    (void)state;
    const char *const right[] = { "strategy=allreduce", "workers=2", NULL };
    check_same(LIST("strategy=ps:slack=0", "mesh=data=2,pipe=2"), right);
    check_same(LIST("strategy=ps:slack=0,servers=3", "mesh=data=2,pipe=3"), right);
    check_same(LIST("strategy=zero:stage=3", "mesh=data=2,pipe=3"), right);
    /* One replica has nobody to exchange with. */
    static const char *const one[] = { "strategy=ps:slack=2", "strategy=local", "strategy=zero" };
    for (int i = 0; i < 3; i++)
        check_same(LIST(one[i], "mesh=data=1,pipe=2"), LIST("workers=1", "strategy=auto"));
}

static double distance_of(const char *const *a, const char *const *b)
{
    fast_run *one = train(a), *other = train(b);
    double far = 0, large = 0;
    for (int64_t i = 0; i < one->learner->params.count; i++) {
        far = fmax(far, fabs((double)one->learner->w[i] - (double)other->learner->w[i]));
        large = fmax(large, fabs((double)one->learner->w[i]));
    }
    fast_run_close(one);
    fast_run_close(other);
    return rank == 0 ? far / large : 0;
}

static void shards_stay_close_to_whole_models(void **state)
{
    (void)state;
    for (int i = 0; i < TOGETHER; i++) {
        const double far = distance_of(LIST(together[i], "mesh=data=2,tensor=2", "optimizer=sgd"),
                                       LIST(together[i], "workers=2", "optimizer=sgd"));
        if (!(far < 1e-5))
            fail_msg("%s: distance %g", together[i], far);
    }
    assert_true(distance_of(LIST("strategy=local:period=1", "mesh=data=2,pipe=2", "optimizer=sgd"),
                            LIST("strategy=allreduce", "workers=2", "optimizer=sgd")) < 1e-6);
}

/* Norms of the whole gradient, and of layers of which shards have slices, are those of the whole
 * model: sums of squares over stages and shards, where layers that all shards have count once. */
static void norms_are_of_the_whole_model(void **state)
{
    (void)state;
    static const char *const rules[] = { "optimizer=sgd:clip_norm=0.05",
                                         "optimizer=momentum:clip_norm=0.1",
                                         "optimizer=lars:clip_norm=0.5", "optimizer=lamb" };
    static const char *const ways[][2] = { { "strategy=allreduce", "mesh=data=2,pipe=2" },
                                           { "strategy=allreduce", "mesh=data=2,tensor=2" },
                                           { "strategy=zero:stage=3", "mesh=data=2,tensor=2" },
                                           { "strategy=zero:stage=2", "mesh=data=2,pipe=2" },
                                           { "strategy=local", "mesh=data=2,pipe=2,tensor=2" } };
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 5; k++) {
            if (mpi && k == 4)
                continue; /* ranks that share cores are slow */
            const double far = distance_of(LIST(ways[k][0], ways[k][1], rules[i], "lr=0.05"),
                                           LIST(ways[k][0], "workers=2", rules[i], "lr=0.05"));
            if (!(far < 1e-5))
                fail_msg("%s %s %s: distance %g", ways[k][0], ways[k][1], rules[i], far);
        }
    /* A replica whose stages would clip by themselves differs. */
    const char *const mesh[] = { "strategy=allreduce", "mesh=data=2,pipe=2", rules[0], "lr=0.05",
                                 NULL };
    assert_true(distance_of(mesh, LIST("workers=2", "strategy=allreduce", "optimizer=sgd",
                                       "lr=0.05")) > 1e-3 ||
                rank > 0);
}

static void codecs_act_on_each_stage(void **state)
{
    (void)state;
    const char *const half[] = { "codec=fp16", "codec_scope=layer" };
    check_same(LIST("strategy=ps:slack=0", "mesh=data=2,pipe=2", half[0], half[1]),
               LIST("strategy=ps:slack=0", "workers=2", half[0], half[1]));
    check_same(LIST("strategy=gossip", "mesh=data=2,pipe=2", half[0], half[1]),
               LIST("strategy=gossip", "mesh=data=2,pipe=2", half[0], half[1]));
    static const char *const lossy[] = { "codec=topk:ratio=0.1", "codec=qsgd", "codec=int8" };
    for (int i = 0; i < 3; i++) {
        const char *const options[] = { "strategy=ps:slack=0", "mesh=data=2,pipe=2", lossy[i],
                                        NULL };
        check_same(options, options); /* each part has residuals and random numbers of its own */
        (void)hash_of(LIST("strategy=ps:slack=2", "mesh=data=2,pipe=2", lossy[i]));
    }
}

static const char *const freely[] = {
    "strategy=ps:slack=2",   "strategy=ps:slack=-1,servers=2", "strategy=elastic:period=2",
    "strategy=elastic_tree", "strategy=gossip_async",          "strategy=partial",
    "strategy=broadcast",
};
enum { FREELY = sizeof freely / sizeof *freely };

static void asynchronous_replicas_learn(void **state)
{
    (void)state;
    for (int i = 0; i < FREELY; i++) {
        fast_run *run = train(
            LIST(freely[i], "mesh=data=2,pipe=2", "steps=60", "evaluate=20steps", "lr=0.003"));
        const fast_result *r = fast_run_result(run);
        if (rank == 0 && !(r->loss < 2.3))
            fail_msg("%s: loss %g", freely[i], r->loss);
        assert_int_equal(r->workers_lost, 0);
        fast_run_close(run);
    }
}

/* Slack s lets a replica be s steps ahead of the slowest: with two of them at most 2 s + 1 updates
 * of the other one are missing, at every stage. In virtual time runs repeat. */
static void slack_bounds_staleness(void **state)
{
    (void)state;
    if (mpi)
        skip();
    for (int s = 1; s <= 3; s += 2) {
        char strategy[64];
        snprintf(strategy, sizeof strategy, "strategy=ps:slack=%d", s);
        fast_run *run = train(LIST(strategy, "mesh=data=2,pipe=2", "steps=40"));
        assert_true(fast_run_result(run)->staleness_max <= 2 * s + 1);
        assert_int_equal(run->team->measures.staleness.count, 2L * 2 * 40);
        fast_run_close(run);
    }
    if (strcmp(transport, "transport=sim") != 0)
        return;
    for (int i = 0; i < FREELY; i++) {
        const char *const options[] = { freely[i], "mesh=data=2,pipe=2", NULL };
        check_same(options, options);
    }
}

static void cancel(void *ctx, const fast_event *event)
{
    if (event->kind == FAST_EVENT_EVALUATE && event->result->steps < 20)
        fast_run_cancel(ctx);
}

/* A cancel at an evaluation in mid-run ends all stages of a replica at one step. No checkpoint is
 * written that could not be resumed. */
static void a_cancel_stops_replicas_as_one(void **state)
{
    (void)state;
    if (mpi)
        skip();
    for (int i = 0; i < FREELY; i++) {
        fast_run *run = NULL;
        const fast_err err =
            try_open(LIST(freely[i], "mesh=data=2,pipe=3", "steps=4000", "evaluate=5steps"), &run);
        assert_int_equal(err, FAST_OK);
        fast_run_watch(run, cancel, run);
        if (fast_run_train(run))
            fail_msg("%s: %s", freely[i], fast_error_detail());
        assert_true(fast_run_result(run)->canceled);
        for (int64_t w = 0; w < 6; w++) {
            const int64_t step = run->team->actors[w]->context.trainer.step;
            assert_true(step < 4000);
            assert_int_equal(step, run->team->actors[w / 3 * 3]->context.trainer.step);
        }
        assert_int_equal(fast_run_checkpoint(run, "/tmp/fast_split_canceled"), FAST_EINVAL);
        assert_non_null(strstr(fast_error_detail(), "between two steps"));
        fast_run_close(run);
    }
}

/* A checkpoint has the state of every worker and server; zero's moves to other meshes. */
static void checkpoints_continue(void **state)
{
    (void)state;
    char path[] = "/tmp/fast_split_XXXXXX", checkpoint[64], resume[64];
    if (mpi)
        skip();
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(checkpoint, sizeof checkpoint, "checkpoint=%s", path);
    snprintf(resume, sizeof resume, "resume=%s", path);
    static const char *const saved[][2] = { { "strategy=gossip", "codec=none" },
                                            { "strategy=elastic_sync", "codec=none" },
                                            { "strategy=ps:slack=0,servers=2", "codec=none" },
                                            { "strategy=allreduce", "codec=topk:ratio=0.1" } };
    for (int i = 0; i < 4; i++) {
        const char *mesh = "mesh=data=2,pipe=2";
        (void)hash_of(LIST(saved[i][0], mesh, saved[i][1], "steps=5", checkpoint));
        const uint64_t got = hash_of(LIST(saved[i][0], mesh, saved[i][1], resume));
        if (got != hash_of(LIST(saved[i][0], mesh, saved[i][1])))
            fail_msg("%s does not continue to the bit", saved[i][0]);
        /* Another mesh continues with the model alone. */
        (void)hash_of(LIST(saved[i][0], "mesh=data=2,pipe=3", saved[i][1], resume));
    }
    const uint64_t right = hash_of(LIST("strategy=allreduce", "workers=2"));
    (void)hash_of(LIST("strategy=zero:stage=3", "mesh=data=2,pipe=2", "steps=5", checkpoint));
    assert_true(hash_of(LIST("strategy=zero:stage=1", "mesh=data=2,pipe=3", resume)) == right);
    assert_true(hash_of(LIST("strategy=allreduce", "workers=2", resume)) == right);
    (void)hash_of(LIST("strategy=zero:stage=2", "workers=2", "steps=5", checkpoint));
    assert_true(hash_of(LIST("strategy=zero:stage=3", "mesh=data=2,pipe=4", resume)) == right);
    remove(path);
}

/* Stages and shards that compute their activations twice have the same bits, dropout and statistics
 * included, and smaller workspaces. */
static void recomputed_stages_are_equal(void **state)
{
    (void)state;
    static const char *const models[][3] = {
        { "model=mlp:hidden=14x12x10x12x14,dropout=0.2", "data=digits:train=320,test=64",
          "mesh=data=2,pipe=2" },
        { "model=resnet8:width=4", "data=digits:train=320,test=64", "mesh=pipe=2" },
        { "model=gpt:width=16,heads=2,depth=4,dropout=0.1", "data=copy", "mesh=pipe=2" },
        { "model=gpt:width=16,heads=2,depth=4,dropout=0.1", "data=copy", "mesh=tensor=2" },
    };
    static const char *const engines[] = { "engine=ref", "engine=cpu" };
    for (int i = 0; i < 8; i++) {
        const char *const *m = models[i / 2];
        const char *plan = i % 2 ? "plan=auto" : "plan=no";
        const char *const plain[] = { m[0], m[1], m[2], engines[i % 2], plan, "steps=4", NULL };
        const char *const again[] = {
            m[0], m[1], m[2], engines[i % 2], plan, "steps=4", "recompute=yes", NULL
        };
        /* Kernels are measured once, by a first run: two measures may choose different ones. */
        if (i % 2) {
            (void)hash_of(plain);
            (void)hash_of(again);
        }
        check_same(again, plain);
        fast_run *one = train(plain), *two = train(again);
        int64_t bytes[2] = { 0 };
        for (int64_t w = 0; w < fast__split_parts(one->team) && !mpi; w++) {
            bytes[0] += fast__split_workspace_bytes(one->team, w);
            bytes[1] += fast__split_workspace_bytes(two->team, w);
        }
        if (!mpi && !(bytes[1] < bytes[0]))
            fail_msg("%s %s %s: %lld bytes instead of %lld", m[0], m[2], engines[i % 2],
                     (long long)bytes[1], (long long)bytes[0]);
        fast_run_close(one);
        fast_run_close(two);
    }
}

static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { "strategy=quorum:backup=1", "mesh=data=2,pipe=2", "skip or repeat" },
        { "strategy=federated", "mesh=data=2,pipe=2", "skip or repeat" },
        { "strategy=ps:epochs=0.5", "mesh=data=2,pipe=2", "skip or repeat" },
        { "strategy=distill", "mesh=data=2,pipe=2", "outputs of whole models" },
        { "strategy=mpca", "mesh=data=2,pipe=2", "master" },
        { "strategy=dogwild", "mesh=data=2,pipe=2", "master" },
        { "strategy=ps:slack=2", "mesh=data=2,tensor=2", "differs from shard to shard" },
        { "strategy=gossip_async", "mesh=data=2,tensor=2", "differs from shard to shard" },
    };
    fast_run *run = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(try_open(LIST(bad[i][0], bad[i][1]), &run), FAST_EINVAL);
        if (!strstr(fast_error_detail(), bad[i][2]))
            fail_msg("%s: %s", bad[i][0], fast_error_detail());
    }
    assert_int_equal(
        try_open(LIST("strategy=ps", "mesh=data=2,pipe=2", "optimizer=sgd:clip_norm=1"), &run),
        FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "whole gradient"));
    assert_int_equal(try_open(LIST("codec=topk", "mesh=data=2,tensor=2"), &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "at each shard"));
    assert_int_equal(try_open(LIST("strategy=ps:slack=2", "mesh=data=2,pipe=2", "accumulate=1",
                                   "pipeline=pipedream"),
                              &run),
                     FAST_EINVAL);
    assert_int_equal(
        try_open(LIST("strategy=ps:slack=2", "mesh=data=2,pipe=2", "checkpoint=x"), &run),
        FAST_EINVAL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_equal_whole_models),
        cmocka_unit_test(statistics_belong_to_their_stage),
        cmocka_unit_test(limit_cases_agree),
        cmocka_unit_test(shards_stay_close_to_whole_models),
        cmocka_unit_test(norms_are_of_the_whole_model),
        cmocka_unit_test(codecs_act_on_each_stage),
        cmocka_unit_test(asynchronous_replicas_learn),
        cmocka_unit_test(slack_bounds_staleness),
        cmocka_unit_test(a_cancel_stops_replicas_as_one),
        cmocka_unit_test(checkpoints_continue),
        cmocka_unit_test(recomputed_stages_are_equal),
        cmocka_unit_test(the_rest_is_refused),
    };
    mpi = argc > 1 && strcmp(argv[1], "mpi") == 0;
#ifdef FAST_HAVE_MPI
    if (mpi) {
        const fast_mpi_process *process = NULL;
        transport = "transport=mpi";
        if (fast__mpi_begin(fast__clock_ns() + (int64_t)60 * 1000 * 1000 * 1000, &process))
            return 1;
        rank = process->rank;
    }
#endif
    if (mpi)
        return cmocka_run_group_tests_name("mpi", tests, NULL, NULL);
    const int failed = cmocka_run_group_tests_name("threads", tests, NULL, NULL);
    transport = "transport=sim";
    return failed + cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
