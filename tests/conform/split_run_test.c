/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a run whose model is split trains the model that the whole one trains, and its pipelines
 * are those of the papers.
 *
 * Method: on engine ref parameters are compared to the bit with runs of whole models that
 * accumulate as many micro-batches, for several models, meshes, schedules, rules and codecs.
 * pipedream is compared with a simulation by hand of its definition: each stage's gradient at the
 * weights that its forward pass had. The bubble in virtual time is compared with the closed form,
 * and micro-batches in flight and staleness with their bounds. Checkpoints move between splits.
 *
 * The word "mpi" runs all that does not need virtual time over the ranks of mpirun.
 */
#include "run/team.h"
#include "split_runs.h"
#include "tensor/vector.h"

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

static const char *transport = "transport=threads";
static bool mpi; /* over the ranks of mpirun */
static int64_t rank;
static int64_t ranks = 1;

static const char *const small[] = { "model=mlp:hidden=14x12x10,dropout=0.2",
                                     "data=digits:train=320,test=64",
                                     "engine=ref",
                                     "plan=no",
                                     "timeout=60",
                                     "batch=4",
                                     "accumulate=4",
                                     "steps=10",
                                     "evaluate=end",
                                     "optimizer=momentum",
                                     "lr=0.05",
                                     NULL };

static fast_run *open_run(const char *const *more)
{
    return test_open_run(small, more);
}

/* Run to the end; gives the mean loss, and the parameters' hash, at the process of worker 0. */
static uint64_t result_of(const char *const *more, double *loss_out)
{
    fast_run *run = open_run(more);
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    const uint64_t hash = fast_run_result(run)->params_hash;
    *loss_out = fast_run_result(run)->loss;
    fast_run_close(run);
    return hash;
}

static uint64_t hash_of(const char *const *more)
{
    double loss;
    return result_of(more, &loss);
}

/* A split run and a whole one with the same replicas have the same bits. */
static void check_equal(const char *const *base, const char *replicas, const char *mesh,
                        const char *pipeline)
{
    const char *whole[24], *split[24];
    int n = 0;
    for (; base && base[n]; n++)
        whole[n] = split[n] = base[n];
    whole[n] = replicas;
    whole[n + 1] = NULL;
    split[n] = mesh;
    split[n + 1] = pipeline;
    split[n + 2] = transport;
    split[n + 3] = NULL;
    const uint64_t got = hash_of(split), right = hash_of(whole);
    if (rank == 0 && got != right)
        fail_msg("%s %s %s: other bits than %s", base ? base[0] : "mlp", mesh, pipeline, replicas);
}

static void splits_equal_the_whole(void **state)
{
    (void)state;
    static const char *const pipelines[] = { "pipeline=1f1b", "pipeline=gpipe" };
    for (int p = 0; p < 2; p++) {
        check_equal(NULL, "workers=1", "mesh=pipe=1", pipelines[p]);
        check_equal(NULL, "workers=1", "mesh=pipe=2", pipelines[p]);
        check_equal(NULL, "workers=1", "mesh=pipe=4", pipelines[p]);
        check_equal(NULL, "workers=2", "mesh=data=2,pipe=2", pipelines[p]);
    }
}

/* Convolutions with statistics, a transformer, a recurrent network; other rules; one micro-batch;
 * fewer micro-batches than stages; evaluations in mid-run. */
static void models_and_rules_are_equal_too(void **state)
{
    (void)state;
    static const char *const resnet[] = { "model=resnet8:width=4", "steps=3", "accumulate=2",
                                          NULL };
    static const char *const gpt[] = { "model=gpt:width=16,heads=2,depth=2,dropout=0.1",
                                       "data=copy", "steps=4", NULL };
    static const char *const lars[] = { "optimizer=lars", "accumulate=1", NULL };
    static const char *const adam[] = { "optimizer=adam", "lr=0.01", "accumulate=3",
                                        "evaluate=2steps", NULL };
    static const char *const priority[] = { "strategy=allreduce:priority=yes,bucket=256", NULL };
    static const char *const early[] = { "strategy=allreduce:overlap=yes,bucket=256", NULL };
    check_equal(priority, "workers=2", "mesh=data=2,pipe=2", "pipeline=1f1b");
    check_equal(early, "workers=2", "mesh=data=2,pipe=2", "pipeline=1f1b");
    check_equal(resnet, "workers=1", "mesh=pipe=3", "pipeline=1f1b");
    check_equal(resnet, "workers=2", "mesh=data=2,pipe=2", "pipeline=gpipe");
    check_equal(gpt, "workers=1", "mesh=pipe=3", "pipeline=1f1b");
    check_equal(lars, "workers=1", "mesh=pipe=3", "pipeline=gpipe");
    check_equal(adam, "workers=1", "mesh=pipe=4", "pipeline=1f1b");
    check_equal(adam, "workers=3", "mesh=data=3,pipe=2", "pipeline=1f1b");
}

/* Codecs act along data on the range of each stage; by layer they have no residual of others. */
static void codecs_act_along_data(void **state)
{
    (void)state;
    static const char *const half[] = { "codec=fp16", "codec_scope=layer", NULL };
    check_equal(half, "workers=2", "mesh=data=2,pipe=2", "pipeline=1f1b");
    const char *const sparse[] = { "codec=topk:ratio=0.1", "codec_scope=layer",
                                   "mesh=data=2,pipe=2", transport, NULL };
    const uint64_t first = hash_of(sparse), second = hash_of(sparse);
    if (rank == 0)
        assert_true(first == second);
}

/* The engine of users: losses of a split run stay with those of the whole one. */
static void fast_engines_stay_close(void **state)
{
    (void)state;
    static const char *const models[] = { "model=mlp:hidden=64x64", "model=resnet8:width=8",
                                          "model=lenet" };
    for (int m = 0; m < 3; m++) {
        const char *const whole[] = { models[m],  "engine=auto", "steps=20", "accumulate=2",
                                      "batch=16", "lr=0.005",    NULL };
        const char *const split[] = { models[m],      "engine=auto", "steps=20",
                                      "accumulate=2", "batch=16",    "lr=0.005",
                                      "mesh=pipe=2",  transport,     NULL };
        fast_run *a = open_run(whole), *b = open_run(split);
        assert_int_equal(fast_run_train(a), FAST_OK);
        assert_int_equal(fast_run_train(b), FAST_OK);
        const double off =
            fabs(fast_run_result(a)->loss - fast_run_result(b)->loss) / fast_run_result(a)->loss;
        if (rank == 0 && !(off < 1e-4))
            fail_msg("%s: loss off by %g", models[m], off);
        fast_run_close(a);
        fast_run_close(b);
    }
}

/* pipedream by its definition. The weights of stage s at version v are w_s(v); the gradient of
 * batch n is computed at w_s(max(0, n - (S - 1 - s))) for all s, and updates w_s(n). */
static void pipedream_is_its_definition(void **state)
{
    (void)state;
    enum { STEPS = 9, STAGES = 3 };
    const char *const plain[] = { "accumulate=1", "optimizer=sgd:weight_decay=0",
                                  "schedule=constant", "steps=9", NULL };
    const char *const flow[] = { "accumulate=1",      "optimizer=sgd:weight_decay=0",
                                 "schedule=constant", "steps=9",
                                 "mesh=pipe=3",       "pipeline=pipedream",
                                 transport,           NULL };
    fast_run *hand = open_run(plain), *run = open_run(flow);
    fast_learner *learner = hand->learner;
    const fast_layout *layout = &learner->params;
    const size_t size = (size_t)layout->count * sizeof(float);
    float *versions[STEPS + 1];
    for (int v = 0; v <= STEPS; v++)
        assert_non_null(versions[v] = malloc(size));
    memcpy(versions[0], learner->w, size);
    for (int64_t n = 0; n < STEPS; n++) {
        fast_gradient gradient = { .step = n };
        for (int s = 0; s < STAGES; s++) {
            const fast_split_stage *stage = run->team->split.stages[s];
            const int64_t late = STAGES - 1 - s, at = n > late ? n - late : 0;
            memcpy(learner->w + stage->params_offset, versions[at] + stage->params_offset,
                   (size_t)stage->graph.params.count * sizeof(float));
        }
        assert_int_equal(learner->ops->gradient(learner, &gradient), FAST_OK);
        for (int64_t i = 0; i < layout->count; i++)
            versions[n + 1][i] = versions[n][i] - 0.05f * learner->g[i];
    }
    assert_int_equal(fast_run_train(run), FAST_OK);
    if (rank == 0)
        for (int64_t i = 0; i < layout->count; i++)
            assert_true(fabsf(run->learner->w[i] - versions[STEPS][i]) < 1e-6F);
    if (!mpi) {
        /* Stage s sees S - 1 - s updates once the pipeline is full, and fewer before. */
        const fast_staleness *stale = &run->team->measures.staleness;
        assert_int_equal(stale->max, STAGES - 1);
        assert_int_equal(stale->counts[2], STEPS - 2);
        assert_int_equal(stale->counts[1], STEPS - 1 + 1);
        assert_int_equal(stale->counts[0], STEPS + 1 + 1);
        assert_int_equal(stale->count, STEPS * STAGES);
    }
    for (int v = 0; v <= STEPS; v++)
        free(versions[v]);
    fast_run_close(hand);
    fast_run_close(run);
}

static void pipedream_of_one_stage_is_sgd(void **state)
{
    (void)state;
    static const char *const one[] = { "accumulate=1", NULL };
    check_equal(one, "workers=1", "mesh=pipe=1", "pipeline=pipedream");
    check_equal(one, "workers=2", "mesh=data=2,pipe=1", "pipeline=pipedream");
}

/* In virtual time: equal layers, no time for messages. */
static void bubbles_in_virtual_time(void **state)
{
    (void)state;
    enum { S = 4 };
    char network[4096], path[] = "/tmp/fast_split_XXXXXX", model[64];
    const int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (mpi)
        skip();
    assert_non_null(file);
    int used = snprintf(network, sizeof network, "embed 16\n");
    for (int i = 0; i < 8; i++)
        used += snprintf(network + used, sizeof network - (size_t)used, "dense %d\n", 16);
    fputs(network, file);
    fclose(file);
    snprintf(model, sizeof model, "model=file:%s", path);
    for (int p = 0; p < 2; p++)
        for (int64_t M = 1; M <= 8; M *= 2) {
            char accumulate[32];
            snprintf(accumulate, sizeof accumulate, "accumulate=%d", (int)M);
            const char *const options[] = {
                model,
                "data=copy:symbols=14",
                accumulate,
                "batch=8",
                "steps=12",
                "evaluate=no",
                "transport=sim",
                "cluster=ideal:nodes=4,speed=1GFLOP/s,latency=0us,bandwidth=0",
                "mesh=pipe=4",
                p ? "pipeline=gpipe" : "pipeline=1f1b",
                NULL
            };
            fast_run *run = open_run(options);
            assert_int_equal(fast_run_train(run), FAST_OK);
            const fast_pipe_place place = { p ? FAST_PIPELINE_GPIPE : FAST_PIPELINE_1F1B, S, 0, M };
            const double right = fast__pipe_bubble(&place);
            const double bubble =
                1 - fast_run_result(run)->compute_s / fast_run_result(run)->virtual_time_s;
            if (!(fabs(bubble - right) < 0.01))
                fail_msg("%s with %d micro-batches: bubble %g, not %g", options[9], (int)M, bubble,
                         right);
            for (int64_t s = 0; s < S; s++) {
                const fast_pipe_place at = { place.pipeline, S, s, M };
                assert_int_equal(run->team->actors[s]->context.pipe.in_flight_max,
                                 fast__pipe_flight(&at));
                assert_true(p || run->team->actors[s]->context.pipe.in_flight_max <= S - s);
            }
            fast_run_close(run);
        }
    remove(path);
}

/* Workers hold the ranges of their stages and nothing else. */
static void workers_hold_their_own_ranges(void **state)
{
    (void)state;
    const char *const options[] = { "mesh=data=2,pipe=3", transport, NULL };
    fast_run *run = open_run(options);
    int64_t params = 0, slots = 0;
    assert_int_equal(fast_run_train(run), FAST_OK);
    for (int64_t i = 0; i < 3 && !mpi; i++) {
        const fast_context *c = &run->team->actors[i]->context;
        assert_int_equal(c->trainer.count, c->learner->params.count);
        assert_int_equal(c->trainer.count, run->team->actors[i + 3]->context.trainer.count);
        assert_true(c->trainer.count < run->learner->params.count);
        params += c->trainer.count;
        slots += c->learner->slots;
    }
    if (!mpi) {
        assert_int_equal(params, run->learner->params.count);
        assert_int_equal(slots, 3 + 2 + 1);
    }
    fast_run_close(run);
}

/* Parameters of a run at the process of worker 0, for comparison within rounding. */
static double distance_of(const char *const *whole, const char *const *split)
{
    fast_run *a = open_run(whole), *b = open_run(split);
    double far = 0, large = 0;
    assert_int_equal(fast_run_train(a), FAST_OK);
    if (fast_run_train(b))
        fail_msg("%s", fast_error_detail());
    for (int64_t i = 0; i < a->learner->params.count; i++) {
        far = fmax(far, fabs((double)a->learner->w[i] - (double)b->learner->w[i]));
        large = fmax(large, fabs((double)a->learner->w[i]));
    }
    fast_run_close(a);
    fast_run_close(b);
    return rank == 0 ? far / large : 0;
}

/* Shards of pairs of dense layers sum in another order: equal within rounding, also where a pair
 * has a norm before it and a residual, ends the network, or lies in a stage. */
static void shards_equal_the_whole(void **state)
{
    (void)state;
    static const char *const models[] = { "model=mlp:hidden=24", "model=mlp:hidden=24x16",
                                          "model=mlp:hidden=16x24x20x8x12",
                                          "model=gpt:width=16,heads=4,depth=2,dropout=0.1" };
    static const char *const meshes[][2] = { { "mesh=tensor=2", "workers=1" },
                                             { "mesh=tensor=4", "workers=1" },
                                             { "mesh=data=2,tensor=2", "workers=2" },
                                             { "mesh=pipe=2,tensor=2", "workers=1" } };
    for (int m = 0; m < 4; m++)
        for (int k = 0; k < 4; k++) {
            const char *data = m == 3 ? "data=copy" : "data=digits:train=320,test=64";
            const char *const whole[] = { models[m], data, meshes[k][1], "steps=20", NULL };
            const char *const split[] = {
                models[m], data, meshes[k][0], transport, "steps=20", NULL
            };
            if (m == 0 && k == 3) /* its one pair is cut by the stages */
                continue;
            const double far = distance_of(whole, split);
            if (!(far < 1e-5))
                fail_msg("%s %s: distance %g", models[m], meshes[k][0], far);
        }
}

/* A layout that splits the standard layers is the standard one, to the bit; one of a single layer
 * leaves the others whole; an entry that splits nothing is refused. */
static void layouts_choose_layers(void **state)
{
    (void)state;
    const char *options[] = { "model=mlp:hidden=16x24x20x8", "mesh=tensor=2", transport, NULL,
                              NULL };
    fast_run *run = NULL;
    const uint64_t standard = hash_of(options);
    options[3] = "layout=dense=pairs";
    assert_true(hash_of(options) == standard);
    options[3] = "layout=pairs";
    assert_true(hash_of(options) == standard);
    options[3] = "layout=dense3=pairs,dense4=pairs";
    run = open_run(options);
    assert_int_equal(run->team->split.shards[0].shard->run_count, 1);
    assert_string_equal(run->team->split.shards[0].shard->sections[1].graph.params.segments[0].name,
                        "dense3.weight");
    fast_run_close(run);
    options[3] = "layout=dense=pairs,conv=pairs";
    const char *all[32];
    int used = 0;
    for (int i = 0; small[i]; i++)
        all[used++] = small[i];
    for (int i = 0; options[i]; i++)
        all[used++] = options[i];
    all[used] = NULL;
    assert_int_equal(fast_run_open(all, &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "layout conv=pairs: the model has no layer conv"));
}

/* Heads and dense layers of a transformer are split, on the engine of users too. */
static void transformers_are_halved(void **state)
{
    (void)state;
    const char *const whole[] = { "model=gpt:width=32,heads=4,depth=3",
                                  "data=copy",
                                  "engine=auto",
                                  "accumulate=2",
                                  "steps=20",
                                  NULL };
    const char *const split[] = { "model=gpt:width=32,heads=4,depth=3",
                                  "data=copy",
                                  "engine=auto",
                                  "accumulate=2",
                                  "steps=20",
                                  "mesh=tensor=2",
                                  transport,
                                  NULL };
    assert_true(distance_of(whole, split) < 1e-4);
    fast_run *run = open_run(split);
    const fast_split_shard *shard = run->team->split.shards[1].shard;
    assert_int_equal(shard->run_count, 2 * 3);
    assert_true((double)shard->params.count < 0.6 * (double)run->learner->params.count);
    fast_run_close(run);
}

/* Each shard has half of a pair; each micro-batch sums the pair's outputs forward, and the gradient
 * of its inputs backward where there is a layer before. */
static void shards_send_what_is_counted(void **state)
{
    (void)state;
    enum { STEPS = 8, MICRO = 4, BATCH = 4, HIDDEN = 16, MIDDLE = 24, OUT = 10 };
    fast_run *run = NULL;
    double bytes[2];
    if (mpi)
        skip();
    /* dense 784 -> 16 -> 24 is the pair, its input is the batch; 24 -> 10 is whole. The difference
     * of two lengths is without what is measured once, at the start. */
    for (int i = 0; i < 2; i++) {
        const char *const options[] = { "model=mlp:hidden=16x24",
                                        "mesh=tensor=2",
                                        i ? "steps=16" : "steps=8",
                                        "evaluate=no",
                                        "transport=sim",
                                        NULL };
        fast_run_close(run);
        run = open_run(options);
        assert_int_equal(fast_run_train(run), FAST_OK);
        bytes[i] = (double)fast_run_result(run)->bytes_sent;
    }
    const double floats = (double)STEPS * MICRO * BATCH * MIDDLE * 2; /* both shards send it */
    const double headers = bytes[1] - bytes[0] - 4 * floats;
    assert_true(headers == 64.0 * 2 * STEPS * MICRO); /* a message a shard and sum */
    const int64_t pair = 784 * HIDDEN + HIDDEN + HIDDEN * MIDDLE, rest = MIDDLE * OUT + OUT;
    assert_int_equal(run->team->actors[0]->context.trainer.count, pair / 2 + MIDDLE + rest);
    assert_int_equal(run->team->actors[1]->context.trainer.count, pair / 2 + rest);
    fast_run_close(run);
}

/* Splits that checkpoints move between. */
typedef struct moves {
    const char *strategy; /* of all */
    const char *whole;    /* the run that is not split */
    int count;            /* number of splits */
    struct {
        const char *mesh, *pipeline;
    } splits[4];
} moves;

/* A checkpoint of one split continues under any other: parameters to the bit, and the mean loss of
 * the epoch in which it was saved. */
static void check_moves(const moves *m, const char *checkpoint, const char *resume)
{
    double loss, right_loss;
    const uint64_t right = result_of(
        (const char *const[]){ "optimizer=adam", "schedule=constant", m->strategy, m->whole, NULL },
        &right_loss);
    for (int a = 0; a < m->count; a++)
        for (int b = 0; b < m->count; b++) {
            const char *const first[] = {
                "optimizer=adam",      "schedule=constant", m->strategy, m->splits[a].mesh,
                m->splits[a].pipeline, checkpoint,          "steps=6",   NULL
            };
            const char *const second[] = { "optimizer=adam",
                                           "schedule=constant",
                                           m->strategy,
                                           m->splits[b].mesh,
                                           m->splits[b].pipeline,
                                           resume,
                                           NULL };
            (void)hash_of(first);
            if (result_of(second, &loss) != right)
                fail_msg("%s: saved with %s, resumed with %s: other bits", m->strategy,
                         m->splits[a].mesh, m->splits[b].mesh);
            if (!(fabs(loss - right_loss) < 1e-6))
                fail_msg("%s: saved with %s, resumed with %s: loss %.9g instead of %.9g",
                         m->strategy, m->splits[a].mesh, m->splits[b].mesh, loss, right_loss);
        }
}

static void checkpoints_move_between_splits(void **state)
{
    (void)state;
    static const moves all[] = {
        { "strategy=allreduce",
          "workers=1",
          4,
          { { "workers=1", "pipeline=1f1b" },
            { "mesh=pipe=1", "pipeline=1f1b" },
            { "mesh=pipe=2", "pipeline=gpipe" },
            { "mesh=pipe=4", "pipeline=zero_bubble" } } },
        { "strategy=zero:stage=1",
          "workers=2",
          2,
          { { "workers=2", "pipeline=1f1b" }, { "mesh=data=2,pipe=2", "pipeline=1f1b" } } },
    };
    char path[] = "/tmp/fast_split_XXXXXX", checkpoint[64], resume[64];
    if (mpi)
        skip();
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(checkpoint, sizeof checkpoint, "checkpoint=%s", path);
    snprintf(resume, sizeof resume, "resume=%s", path);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        check_moves(&all[i], checkpoint, resume);
    remove(path);
}

/* Stages that recompute to fit a budget have the same bits, and take no more than it. */
static void budgets_recompute_stages(void **state)
{
    (void)state;
    const char *options[] = { "model=gpt:width=32,heads=2,depth=4,dropout=0.1",
                              "data=copy",
                              "batch=64",
                              "accumulate=1",
                              "steps=2",
                              "mesh=pipe=2",
                              transport,
                              NULL,
                              NULL };
#ifdef FAST_SANITIZED
    skip(); /* resident memory, which is predicted, is the sanitizer's */
#endif
    if (ranks > 2)
        skip(); /* a rank without a stage has no activations */
    fast_run *plain = open_run(options);
    const int64_t predicted = fast_run_result(plain)->predicted_memory;
    int64_t activations = 0;
    char memory[64];
    assert_int_equal(fast_run_train(plain), FAST_OK);
    for (int64_t i = 0; i < 2; i++)
        if (plain->team->actors[i])
            activations += fast__split_workspace_bytes(plain->team, i);
    assert_true(activations > 4000000 && predicted > activations);
    snprintf(memory, sizeof memory, "memory=%lld", (long long)(predicted - activations / 4));
    options[7] = memory;
    const uint64_t right = fast_run_result(plain)->params_hash;
    fast_run_close(plain);
    fast_run *fitted = open_run(options);
    assert_true(fast_run_result(fitted)->predicted_memory <= predicted - activations / 4 + 4096);
    assert_non_null(strstr(fitted->text.memory_note, "computed twice"));
    assert_int_equal(fast_run_train(fitted), FAST_OK);
    if (rank == 0)
        assert_true(fast_run_result(fitted)->params_hash == right);
    fast_run_close(fitted);
}

/* Parts that a split model does not allow are refused with one sentence. */
static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { "strategy=quorum", "skip or repeat" },
        { "optimizer=yellowfin", "yellowfin" },
        { "memory=1MB", "memory=1MB is too small" },
        { "memory=1MB", "cannot compute them again", "pipeline=zero_bubble" },
        { "tied=yes", "tied" },
        { "faults=random", "faults" },
        { "preprocess=1", "preprocess" },
        { "phases=local@step=5", "phases" },
        { "workers=3", "leave out workers" },
        { "mesh=pipe=40", "cannot be cut" },
        { "pipeline=pipedream", "accumulate" },
        { "mesh=depth=2", "depth" },
        { "mesh=tensor=9", "no stage has heads" },
        { "layout=pairs", "tensor=2" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *options[32];
        fast_run *run = NULL;
        int used = 0;
        for (int k = 0; small[k]; k++)
            options[used++] = small[k];
        options[used++] = "mesh=pipe=2";
        options[used++] = bad[i][0];
        if (bad[i][2])
            options[used++] = bad[i][2];
        options[used] = NULL;
        assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
        if (!strstr(fast_error_detail(), bad[i][1]))
            fail_msg("%s: %s", bad[i][0], fast_error_detail());
    }
}

/* Memory can run out at every allocation of an opening, and of the first steps. */
static void memory_can_run_out(void **state)
{
    (void)state;
    if (mpi)
        skip();
    test_out_of_memory(small, (const char *const[]){ "model=mlp:hidden=8x8x8",
                                                     "data=digits:train=64,test=16", "steps=2",
                                                     "transport=sim", "mesh=data=2,pipe=2,tensor=2",
                                                     NULL });
}

/* Files that are saved elsewhere, as the disk is full, are of one run each. */
static void saved_files_have_names_of_their_own(void **state)
{
    static const char *const splits[][2] = {
        { "workers=2", "seed=1" },     { "mesh=pipe=2", "seed=1" },
        { "mesh=data=2", "seed=1" },   { "mesh=pipe=2", "pipeline=gpipe" },
        { "mesh=tensor=2", "seed=1" }, { "mesh=tensor=2", "layout=outputs" }
    };
    enum { COUNT = sizeof splits / sizeof splits[0] };
    char paths[COUNT][FAST_PATH_MAX];

    (void)state;
    if (mpi)
        skip();
    for (int i = 0; i < COUNT; i++) {
        fast_run *run = open_run((const char *const[]){ splits[i][0], splits[i][1], NULL });

        assert_int_equal(fast__checkpoint_path(run, false, paths[i], sizeof paths[i]), FAST_OK);
        fast_run_close(run);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(paths[i], paths[k]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_can_run_out),
        cmocka_unit_test(splits_equal_the_whole),
        cmocka_unit_test(models_and_rules_are_equal_too),
        cmocka_unit_test(codecs_act_along_data),
        cmocka_unit_test(fast_engines_stay_close),
        cmocka_unit_test(pipedream_is_its_definition),
        cmocka_unit_test(pipedream_of_one_stage_is_sgd),
        cmocka_unit_test(bubbles_in_virtual_time),
        cmocka_unit_test(workers_hold_their_own_ranges),
        cmocka_unit_test(shards_equal_the_whole),
        cmocka_unit_test(layouts_choose_layers),
        cmocka_unit_test(transformers_are_halved),
        cmocka_unit_test(shards_send_what_is_counted),
        cmocka_unit_test(checkpoints_move_between_splits),
        cmocka_unit_test(budgets_recompute_stages),
        cmocka_unit_test(saved_files_have_names_of_their_own),
        cmocka_unit_test(the_rest_is_refused),
    };
    mpi = argc > 1 && strcmp(argv[1], "mpi") == 0;
    if (argc > 1 && strcmp(argv[1], "sim") == 0)
        transport = "transport=sim";
#ifdef FAST_HAVE_MPI
    if (mpi) {
        const fast_mpi_process *process = NULL;
        transport = "transport=mpi";
        if (fast__mpi_begin(fast__clock_ns() + (int64_t)60 * 1000 * 1000 * 1000, &process))
            return 1;
        rank = process->rank;
        ranks = process->ranks;
    }
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
