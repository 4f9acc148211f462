/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: stages with replicas of their own, which take micro-batches round-robin, train the model
 * that one worker trains which accumulates them, and use all their workers.
 *
 * Method: parameters are compared on engine ref. Where replicas are as many of each stage, and
 * where a sum of micro-batches has the same order, they have the same bits; else they are equal
 * within rounding. pipedream is compared with a simulation by hand: the learners of the stages
 * compute the passes of one micro-batch after the other with the version of the weights that the
 * test chooses by the definition. Bytes are counted by hand. In virtual time a slow stage with two
 * workers takes half of the time, by a closed form.
 */
#include "split_runs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const small[] = { "model=mlp:hidden=14x12x10,dropout=0.2",
                                     "data=digits:train=320,test=64",
                                     "engine=ref",
                                     "plan=no",
                                     "timeout=60",
                                     "batch=4",
                                     "steps=8",
                                     "evaluate=end",
                                     "optimizer=momentum",
                                     "schedule=constant",
                                     "lr=0.05",
                                     NULL };

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Run to the end; gives the parameters' hash, 0 at ranks that do not have them. */
static uint64_t hash_of(const char *const *more)
{
    fast_run *run = test_open_run(small, more);
    if (fast_run_train(run))
        fail_msg("%s %s: %s", more[0], more[1], fast_error_detail());
    const uint64_t hash = fast_run_is_first(run) ? fast_run_result(run)->params_hash : 0;
    fast_run_close(run);
    return hash;
}

/* As many replicas of each stage are replicas of the model: with one micro-batch for each, step by
 * step the same bits, whatever the schedule, the rule, the codec and its residuals. */
static void equal_numbers_are_replicas_of_the_model(void **state)
{
    static const char *const jobs[][3] = {
        { "pipeline=1f1b", "evaluate=3steps", "optimizer=momentum" },
        { "pipeline=gpipe", "strategy=allreduce:overlap=yes,bucket=256", "optimizer=adam" },
        { "pipeline=pipedream", "schedule=cosine", "optimizer=momentum" },
        { "pipeline=pipedream", "vertical_sync=yes", "pipe_delay=2" },
        { "pipeline=pipedream", "pipe_lr_steps=5", "lr=0.1" },
        { "codec=fp16", "codec_scope=layer", "pipeline=1f1b" },
        { "codec=topk:ratio=0.1", "codec_scope=layer", "pipeline=pipedream" },
        { "optimizer=momentum:clip_norm=0.05", "pipeline=1f1b", "lr=0.1" },
        { "optimizer=lars", "recompute=yes", "pipeline=1f1b" },
        { "model=resnet8:width=4", "steps=2", "pipeline=1f1b" },
        { "model=gpt:width=16,heads=2,depth=3,dropout=0.1", "data=copy", "pipeline=1f1b" },
    };
    (void)state;
    for (size_t k = 0; k < sizeof jobs / sizeof jobs[0]; k++) {
        const uint64_t right = hash_of(
            LIST(jobs[k][0], jobs[k][1], jobs[k][2], "mesh=data=2,pipe=3", test_transport()));
        const uint64_t got = hash_of(LIST(jobs[k][0], jobs[k][1], jobs[k][2], "accumulate=2",
                                          "mesh=pipe=3,replicas=2x2x2", test_transport()));
        if (got != right)
            fail_msg("%s %s %s: other bits", jobs[k][0], jobs[k][1], jobs[k][2]);
    }
}

/* The sum over one micro-batch of each replica has the order of one that a worker accumulates. */
static void a_round_has_the_bits_of_one_worker(void **state)
{
    static const char *const cases[][3] = {
        { "mesh=pipe=2,replicas=2x1", "accumulate=2", "optimizer=momentum" },
        { "mesh=pipe=2,replicas=1x2", "accumulate=2", "optimizer=adam" },
        { "mesh=pipe=2,replicas=4x1", "accumulate=4", "optimizer=momentum" },
        { "mesh=pipe=2,replicas=1x3", "accumulate=3", "optimizer=momentum" },
        { "mesh=pipe=3,replicas=1x2x1", "accumulate=2", "optimizer=lars" },
        { "mesh=pipe=4,replicas=2x1x1x2", "accumulate=2", "optimizer=momentum" },
        { "mesh=pipe=1,replicas=3", "accumulate=3", "optimizer=momentum" },
    };
    static const char *const pipelines[] = { "pipeline=1f1b", "pipeline=gpipe" };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const uint64_t right = hash_of(LIST("workers=1", cases[k][1], cases[k][2]));
        for (int p = 0; p < 2; p++) {
            const uint64_t got = hash_of(
                LIST(cases[k][0], cases[k][1], cases[k][2], pipelines[p], test_transport()));
            if (got != 0 && got != right)
                fail_msg("%s %s: other bits", cases[k][0], pipelines[p]);
        }
    }
}

/* Several micro-batches of each replica are summed in another order. */
static void steps_are_those_of_one_worker(void **state)
{
    static const char *const jobs[][3] = {
        { "accumulate=12", "optimizer=momentum", "data=digits:train=320,test=64" },
        { "accumulate=6", "optimizer=momentum:clip_norm=0.05", "evaluate=3steps" },
        { "accumulate=6", "model=gpt:width=16,heads=2,depth=3,dropout=0.1", "data=copy" },
        { "accumulate=12", "optimizer=adam:eps=1e-3", "lr=0.01" },
    };
    static const char *const meshes[] = { "mesh=pipe=3,replicas=3x1x2",
                                          "mesh=pipe=3,replicas=1x1x6",
                                          "mesh=pipe=2,replicas=2x3" };
    static const char *const pipelines[] = { "pipeline=1f1b", "pipeline=gpipe" };
    (void)state;
    for (size_t k = 0; k < sizeof jobs / sizeof jobs[0]; k++)
        for (int m = 0; m < 3; m++)
            for (int p = 0; p < 2; p++) {
                double loss = 0;
                const double far = test_split_distance(
                    small, LIST("workers=1", jobs[k][0], jobs[k][1], jobs[k][2]),
                    LIST(jobs[k][0], jobs[k][1], jobs[k][2], meshes[m], pipelines[p],
                         test_transport()),
                    &loss);
                if (!(far < 1e-6) || !(loss < 1e-6))
                    fail_msg("%s %s %s %s: parameters off by %g, loss by %g", jobs[k][0],
                             jobs[k][1], meshes[m], pipelines[p], far, loss);
            }
}

/* Transports give the same bits. */
static void transports_agree(void **state)
{
    static const char *const pipelines[] = { "pipeline=1f1b", "pipeline=pipedream" };
    (void)state;
    for (int p = 0; p < 2; p++) {
        const uint64_t right = hash_of(
            LIST("mesh=pipe=3,replicas=3x1x2", "accumulate=6", pipelines[p], "transport=threads"));
        const uint64_t got = hash_of(
            LIST("mesh=pipe=3,replicas=3x1x2", "accumulate=6", pipelines[p], test_transport()));
        assert_true(got == 0 || got == right);
    }
}

/* The run by hand. */
enum { STAGES = 3, STEPS = 8, ROUND = 6 };
static const int64_t replicas[STAGES] = { 3, 1, 2 };
static const int64_t later[STAGES] = { 3, 2, 0 }; /* workers of the stages behind */

typedef struct hand {
    fast_run *run;                                  /* whose stages compute */
    int64_t delay;                                  /* batches that a stage is ahead */
    bool vertical;                                  /* the first stage's version everywhere */
    float *w[STAGES][STEPS + 1];                    /* versions of a stage's weights */
    float *between[STAGES - 1], *grads[STAGES - 1]; /* of a cut: activations, their gradient */
} hand;

static float *vector(int64_t count)
{
    float *x = calloc((size_t)count, sizeof *x);
    assert_non_null(x);
    return x;
}

static fast_learner *learner_of(const hand *h, int s)
{
    return h->run->team->actors[s]->context.pipe.chunks[0].learner;
}

static void hand_open(hand *h)
{
    h->run = test_open_run(small, LIST("mesh=pipe=3", "accumulate=6", "cuts=dense2,dense3",
                                       "steps=1", "transport=threads"));
    float *initial = vector(h->run->learner->params.count);
    memcpy(initial, h->run->learner->w, (size_t)h->run->learner->params.count * sizeof *initial);
    assert_int_equal(fast_run_train(h->run), FAST_OK); /* its workers are there now */
    for (int s = 0; s < STAGES; s++) {
        const fast_learner *learner = learner_of(h, s);
        for (int n = 0; n <= STEPS; n++)
            h->w[s][n] = vector(learner->params.count);
        memcpy(h->w[s][0], initial + h->run->team->split.stages[s]->params_offset,
               (size_t)learner->params.count * sizeof(float));
        if (s == STAGES - 1)
            continue;
        h->between[s] = vector(learner->outputs);
        h->grads[s] = vector(learner->outputs);
    }
    free(initial);
}

static void hand_close(hand *h)
{
    for (int s = 0; s < STAGES; s++) {
        for (int n = 0; n <= STEPS; n++)
            free(h->w[s][n]);
        if (s == STAGES - 1)
            continue;
        free(h->between[s]);
        free(h->grads[s]);
    }
    fast_run_close(h->run);
}

/* Own micro-batches that a worker of stage s is ahead: its share of the workers behind. */
static int64_t ahead_of(const hand *h, int s)
{
    return h->delay * ((later[s] + replicas[s] - 1) / replicas[s]);
}

/* The version of stage s that both passes of micro-batch n read: replica n mod r runs its forward
 * pass before the backward pass of its own micro-batch n / r - ahead. */
static int64_t version_of(const hand *h, int s, int64_t n)
{
    const int at = h->vertical ? 0 : s;
    const int64_t own = n / replicas[at] - ahead_of(h, at), micro = ROUND / replicas[at];
    return own < 0 ? 0 : own / micro;
}

static void run_pass(hand *h, int s, bool backward, int64_t number)
{
    fast_learner *learner = learner_of(h, s);
    fast_stage_pass pass = { .backward = backward,
                             .number = number,
                             .w = h->w[s][version_of(h, s, number)],
                             .inputs = s > 0 ? h->between[s - 1] : NULL };
    if (backward) {
        pass.outputs_grad = s < STAGES - 1 ? h->grads[s] : NULL;
        pass.inputs_grad = s > 0 ? h->grads[s - 1] : NULL;
    } else {
        pass.outputs = s < STAGES - 1 ? h->between[s] : NULL;
    }
    assert_int_equal(learner->ops->stage(learner, &pass), FAST_OK);
}

static void hand_step(hand *h, int64_t n)
{
    for (int64_t q = n * ROUND; q < (n + 1) * ROUND; q++) {
        for (int s = 0; s < STAGES; s++)
            run_pass(h, s, false, q);
        for (int s = STAGES - 1; s >= 0; s--)
            run_pass(h, s, true, q);
    }
    for (int s = 0; s < STAGES; s++) {
        const fast_learner *learner = learner_of(h, s);
        for (int64_t i = 0; i < learner->params.count; i++)
            h->w[s][n + 1][i] = h->w[s][n][i] - 0.05F * learner->g[i];
    }
}

/* Staleness, versions and micro-batches in flight of each worker. */
static void check_counts(const fast_run *run, const hand *h)
{
    for (int64_t i = 0; i < fast__mesh_size(&run->config.split) && !test_is_mpi(); i++) {
        const fast_pipe *pipe = &run->team->actors[i]->context.pipe;
        const int s = (int)fast__mesh_place(&run->config.split, i).pipe, at = h->vertical ? 0 : s;
        const int64_t micro = ROUND / replicas[at], late = (ahead_of(h, at) + micro - 1) / micro;
        const int64_t flight = ahead_of(h, s) + 1, all = STEPS * ROUND / replicas[s];
        assert_int_equal(pipe->versions.room, late);
        assert_int_equal(pipe->staleness_max, late);
        assert_int_equal(pipe->gap_max, 0);
        assert_int_equal(pipe->in_flight_max, flight < all ? flight : all);
    }
}

static void pipedream_is_its_definition(void **state)
{
    static const struct {
        const char *options[2];
        int64_t delay;
        bool vertical;
    } cases[] = { { { "vertical_sync=no", "pipe_delay=1" }, 1, false },
                  { { "vertical_sync=yes", "pipe_delay=1" }, 1, true },
                  { { "vertical_sync=no", "pipe_delay=3" }, 3, false },
                  { { "vertical_sync=yes", "pipe_delay=3" }, 3, true } };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        hand h = { .delay = cases[k].delay, .vertical = cases[k].vertical };
        double far = 0;
        hand_open(&h);
        for (int64_t n = 0; n < STEPS; n++)
            hand_step(&h, n);
        fast_run *run = test_open_run(
            small, LIST("mesh=pipe=3,replicas=3x1x2", "accumulate=6", "pipeline=pipedream",
                        "cuts=dense2,dense3", "optimizer=sgd:weight_decay=0", "schedule=constant",
                        cases[k].options[0], cases[k].options[1], test_transport()));
        if (fast_run_train(run))
            fail_msg("%s", fast_error_detail());
        for (int s = 0; s < STAGES && fast_run_is_first(run); s++) {
            const fast_split_stage *stage = run->team->split.stages[s];
            for (int64_t i = 0; i < stage->graph.params.count; i++)
                far = fmax(far, fabs((double)run->learner->w[stage->params_offset + i] -
                                     (double)h.w[s][STEPS][i]));
        }
        if (!(far < 1e-6))
            fail_msg("%s %s: distance %g", cases[k].options[0], cases[k].options[1], far);
        check_counts(run, &h);
        fast_run_close(run);
        hand_close(&h);
    }
}

/* Of the passes of one worker: micro-batch n is that of replica n mod r. */
static void micro_batches_go_round(void **state)
{
    (void)state;
    if (test_is_mpi())
        skip();
    fast_run *run = test_open_run(small, LIST("mesh=pipe=3,replicas=3x1x2", "accumulate=6",
                                              "pipeline=pipedream", test_transport()));
    assert_int_equal(fast_run_train(run), FAST_OK);
    for (int64_t i = 0; i < 6; i++) {
        const fast_pipe_log *log = &run->team->actors[i]->context.pipe.log;
        const fast_mesh_place at = fast__mesh_place(&run->config.split, i);
        int64_t next[2] = { at.data, at.data };
        assert_int_equal(log->count, 2 * STEPS * ROUND / replicas[at.pipe]);
        for (int64_t k = 0; k < log->count; k++) {
            int64_t *due = &next[log->entries[k].kind == FAST_PIPE_BACKWARD];
            assert_int_equal(log->entries[k].number, *due);
            *due += replicas[at.pipe];
        }
    }
    fast_run_close(run);
}

/* Each micro-batch crosses the cut once each way; the two replicas of stage 0 exchange its
 * gradient, each half of it twice. Stage 1 sums nothing. */
static void bytes_are_counted_by_hand(void **state)
{
    enum { MICRO = 4, BATCH = 4, WIDTH = 14, LENGTH = 8 };
    double bytes[2], messages[2];
    int64_t params = 0;
    (void)state;
    if (test_is_mpi())
        skip();
    for (int i = 0; i < 2; i++) {
        fast_run *run = test_open_run(
            small, LIST("model=mlp:hidden=14x12x10", "mesh=pipe=2,replicas=2x1", "cuts=dense2",
                        "accumulate=4", i ? "steps=16" : "steps=8", "evaluate=no",
                        "strategy=allreduce:algorithm=ring,overlap=no", "transport=sim"));
        assert_int_equal(fast_run_train(run), FAST_OK);
        bytes[i] = (double)fast_run_result(run)->bytes_sent;
        messages[i] = (double)fast_run_result(run)->messages_sent;
        params = run->team->actors[0]->context.trainer.count;
        assert_int_equal(run->team->actors[1]->context.trainer.count, params);
        assert_int_equal(params + run->team->actors[2]->context.trainer.count,
                         run->learner->params.count);
        fast_run_close(run);
    }
    assert_int_equal(params, 784 * WIDTH + WIDTH);
    const double crossing = 2.0 * MICRO * BATCH * WIDTH, summed = 2.0 * (double)params;
    const double payload = 4.0 * LENGTH * (crossing + summed);
    const double headers = 64.0 * (messages[1] - messages[0]);
    assert_true(messages[1] - messages[0] == LENGTH * (2.0 * MICRO + 4));
    if (bytes[1] - bytes[0] != payload + headers)
        fail_msg("%g bytes, not %g", bytes[1] - bytes[0], payload + headers);
}

/* Seconds of a step in virtual time, of layers that are equal, of which the first stage has two
 * thirds, without time for messages. */
static double step_of(const char *model, const char *mesh, const char *pipeline, int64_t micro,
                      int64_t steps, double *pass_out)
{
    char accumulate[32], length[32];
    double busy = 0;
    snprintf(accumulate, sizeof accumulate, "accumulate=%d", (int)micro);
    snprintf(length, sizeof length, "steps=%d", (int)steps);
    fast_run *run =
        test_open_run(small, LIST(model, "data=copy:symbols=14", accumulate, "batch=8", length,
                                  "evaluate=no", "optimizer=sgd", "transport=sim",
                                  "cluster=ideal:nodes=4,speed=1GFLOP/s,latency=0us,bandwidth=0",
                                  mesh, pipeline, "cuts=dense9"));
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    const int64_t last = run->config.workers - 1; /* has all micro-batches of the short stage */
    const fast_pipe_log *log = &run->team->actors[last]->context.pipe.log;
    for (int64_t i = 0; i < log->count && i < 2 * micro; i++)
        busy += (double)(log->entries[i].end - log->entries[i].begin) * 1e-9 / (double)micro;
    *pass_out = busy;
    const double seconds = fast_run_result(run)->virtual_time_s / (double)steps;
    fast_run_close(run);
    return seconds;
}

/* With t for both passes of a micro-batch in the short stage, which take 2 t in the long one, and
 * backward passes twice as long as forward ones, M micro-batches take M t and the first and the
 * last pass of the long stage, 2 t, where that has two workers; with one 2 M t and t / 3. */
static void a_slow_stage_is_twice_as_fast_with_two(void **state)
{
    char network[4096], path[] = "/tmp/fast_replicas_XXXXXX", model[64];
    const int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    (void)state;
    if (test_is_mpi())
        skip();
    assert_non_null(file);
    int used = snprintf(network, sizeof network, "embed 16\n");
    for (int i = 0; i < 12; i++)
        used += snprintf(network + used, sizeof network - (size_t)used, "dense %d\n", 16);
    fputs(network, file);
    fclose(file);
    snprintf(model, sizeof model, "model=file:%s", path);
    for (int64_t M = 8; M <= 32; M *= 2) {
        double t = 0, t2 = 0;
        const double one = step_of(model, "mesh=pipe=2", "pipeline=1f1b", M, 4, &t);
        const double two = step_of(model, "mesh=pipe=2,replicas=2x1", "pipeline=1f1b", M, 4, &t2);
        const double right = ((double)M + 2) / (2 * (double)M + 1.0 / 3);
        assert_true(fabs(t2 / t - 1) < 1e-6);
        assert_true(fabs(one / t / (2 * (double)M + 1.0 / 3) - 1) < 0.03);
        assert_true(fabs(two / one / right - 1) < 0.03);
    }
    double t = 0;
    const double flow = step_of(model, "mesh=pipe=2", "pipeline=pipedream", 1, 64, &t);
    const double both = step_of(model, "mesh=pipe=2,replicas=2x1", "pipeline=pipedream", 2, 32, &t);
    assert_true(fabs(both / 2 / flow - 0.5) < 0.03);
    remove(path);
}

/* Stages that are cut by the cost model have work for their workers: with three replicas of the
 * first one, three quarters. */
static void cuts_follow_the_replicas(void **state)
{
    static const char *const meshes[] = { "mesh=pipe=2", "mesh=pipe=2,replicas=3x1",
                                          "mesh=pipe=2,replicas=1x3" };
    int64_t params[3];
    (void)state;
    for (int m = 0; m < 3; m++) {
        fast_run *run = test_open_run(small, LIST("model=gpt:width=16,heads=2,depth=8", "data=copy",
                                                  "accumulate=3", meshes[m], "transport=threads"));
        params[m] =
            run->team->split.stages[0]->graph.params.count * 100 / run->learner->params.count;
        fast_run_close(run);
    }
    assert_in_range(params[0], 40, 60);
    assert_in_range(params[1], 65, 85);
    assert_in_range(params[2], 15, 35);
}

/* A run that resumes has the bits of the one that made the checkpoint; one worker continues it, and
 * is continued, within rounding and with the same mean loss. */
static void checkpoints_continue(void **state)
{
    static const char *const cases[][3] = {
        { "pipeline=1f1b", "codec=none", "pipeline=1f1b" },
        { "pipeline=pipedream", "codec=none", "vertical_sync=yes" },
        { "pipeline=1f1b", "codec=topk:ratio=0.1", "codec_scope=layer" },
    };
    char path[] = "/tmp/fast_replicas_XXXXXX", checkpoint[64], resume[64];
    const char *const t = test_transport(), *const mesh = "mesh=pipe=3,replicas=3x1x2";
    (void)state;
    if (test_is_mpi())
        skip();
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(checkpoint, sizeof checkpoint, "checkpoint=%s", path);
    snprintf(resume, sizeof resume, "resume=%s", path);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *const *c = cases[k];
        const uint64_t right = hash_of(LIST(c[0], c[1], c[2], mesh, "accumulate=6", t, "steps=11",
                                            checkpoint, "checkpoint_every=4steps"));
        (void)hash_of(LIST(c[0], c[1], c[2], mesh, "accumulate=6", t, "steps=8", checkpoint,
                           "checkpoint_every=4steps"));
        if (hash_of(LIST(c[0], c[1], c[2], mesh, "accumulate=6", t, "steps=11", resume)) != right)
            fail_msg("%s %s: other bits after a checkpoint", c[0], c[1]);
    }
    static const char *const moves[][2] = { { "mesh=", "mesh=pipe=3,replicas=3x1x2" },
                                            { "mesh=pipe=3,replicas=3x1x2", "mesh=" },
                                            { "mesh=pipe=2", "mesh=pipe=3,replicas=3x1x2" },
                                            { "mesh=pipe=4", "mesh=pipe=2,replicas=3x1" },
                                            { "mesh=pipe=2,replicas=6x1", "mesh=pipe=2" } };
    for (size_t k = 0; k < sizeof moves / sizeof moves[0]; k++) {
        fast_run *whole = test_open_run(small, LIST("accumulate=6", "steps=11", "lr=0.1"));
        assert_int_equal(fast_run_train(whole), FAST_OK);
        (void)hash_of(LIST(moves[k][0], "accumulate=6", moves[k][0][5] ? t : "transport=auto",
                           "steps=8", checkpoint, "lr=0.1"));
        fast_run *moved = test_open_run(small, LIST(moves[k][1], "accumulate=6",
                                                    moves[k][1][5] ? t : "transport=auto",
                                                    "steps=11", resume, "lr=0.1"));
        assert_int_equal(fast_run_train(moved), FAST_OK);
        const fast_result *right = fast_run_result(whole), *got = fast_run_result(moved);
        double far = 0;
        for (int64_t i = 0; i < whole->learner->params.count; i++)
            far = fmax(far, fabs((double)whole->learner->w[i] - (double)moved->learner->w[i]));
        if (!(far < 1e-6) || !(fabs(got->loss - right->loss) < 1e-6) ||
            !(fabs(got->train_accuracy - right->train_accuracy) < 1e-12))
            fail_msg("%s to %s: parameters off by %g, loss %g, accuracy %g", moves[k][0],
                     moves[k][1], far, got->loss - right->loss,
                     got->train_accuracy - right->train_accuracy);
        fast_run_close(whole);
        fast_run_close(moved);
    }
    remove(path);
}

/* A run that stops before its end leaves micro-batches in the pipeline: all workers end at one
 * step. */
static void runs_stop_with_batches_in_flight(void **state)
{
    static const char *const pipelines[] = { "pipeline=1f1b", "pipeline=pipedream" };
    (void)state;
    for (int p = 0; p < 2; p++)
        for (int why = 0; why < 2; why++) {
            fast_run *run = test_open_run(
                small, LIST("mesh=pipe=3,replicas=3x1x2", "accumulate=6", pipelines[p], "steps=60",
                            "evaluate=5steps", why ? "lr=1e8" : "target=0.01", test_transport()));
            if (fast_run_train(run))
                fail_msg("%s: %s", pipelines[p], fast_error_detail());
            if (fast_run_is_first(run)) {
                assert_string_equal(fast_run_result(run)->stop, why ? "diverged" : "target");
                assert_true(fast_run_result(run)->steps < 60);
            }
            fast_run_close(run);
        }
}

static void the_rest_is_refused(void **state)
{
    static const char *const bad[][3] = {
        { "pipeline=stale", "accumulate=6", "pipeline=1f1b, gpipe and pipedream" },
        { "pipeline=pipedream_2bw", "accumulate=6", "pipeline=1f1b, gpipe and pipedream" },
        { "pipeline=ampnet", "accumulate=6", "pipeline=1f1b, gpipe and pipedream" },
        { "pipeline=zero_bubble", "accumulate=6", "pipeline=1f1b, gpipe and pipedream" },
        { "pipeline=interleaved", "accumulate=6", "pipeline=1f1b, gpipe and pipedream" },
        { "pipeline=1f1b", "accumulate=4", "3 replicas of stage 0; give a multiple" },
        { "pipeline=1f1b", "accumulate=3", "2 replicas of stage 2; give a multiple" },
        { "pipeline=pipedream", "accumulate=12", "give accumulate=6, not 12" },
        { "pipeline=pipedream", "accumulate=1", "3 replicas of stage 0" },
        { "accumulate=6", "strategy=zero", "as many replicas of every stage; use allreduce" },
        { "accumulate=6", "strategy=ps", "as many replicas of every stage" },
        { "accumulate=6", "strategy=local", "as many replicas of every stage" },
        { "accumulate=6", "strategy=gossip_async", "as many replicas of every stage" },
        { "accumulate=6", "workers=5", "6 workers" },
        { "accumulate=6", "optimizer=yellowfin", "yellowfin" },
        { "accumulate=6", "tied=yes", "tied" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *why =
            test_refusal(small, LIST("mesh=pipe=3,replicas=3x1x2", bad[i][0], bad[i][1]));
        if (!strstr(why, bad[i][2]))
            fail_msg("%s %s: %s", bad[i][0], bad[i][1], why);
    }
}

static void memory_can_run_out(void **state)
{
    (void)state;
    if (test_is_mpi())
        skip();
    test_out_of_memory(small, LIST("model=mlp:hidden=8x8", "data=digits:train=64,test=16",
                                   "steps=2", "evaluate=no", "mesh=pipe=2,replicas=2x1",
                                   "accumulate=2", "transport=sim", "pipeline=pipedream"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_numbers_are_replicas_of_the_model),
        cmocka_unit_test(a_round_has_the_bits_of_one_worker),
        cmocka_unit_test(steps_are_those_of_one_worker),
        cmocka_unit_test(transports_agree),
        cmocka_unit_test(pipedream_is_its_definition),
        cmocka_unit_test(micro_batches_go_round),
        cmocka_unit_test(bytes_are_counted_by_hand),
        cmocka_unit_test(a_slow_stage_is_twice_as_fast_with_two),
        cmocka_unit_test(cuts_follow_the_replicas),
        cmocka_unit_test(checkpoints_continue),
        cmocka_unit_test(runs_stop_with_batches_in_flight),
        cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(memory_can_run_out),
    };
    return test_split_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
