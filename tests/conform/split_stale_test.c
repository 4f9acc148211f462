/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: pipelines that are never drained compute what their papers define, with weights as old as
 * the closed forms say, and continue after a checkpoint as if there had been none.
 *
 * Method: a simulation by hand. The learners of the stages compute the two passes of each batch,
 * one batch after the other, with weights that the test chooses by the definition: those of the
 * forward pass of a step before, those of an older version, or estimates of them. Momentum, the
 * estimates and the learning rates are formulas of the test's own. The run, whose batches are in
 * flight together, ends at the same weights. Where nothing is stale it is plain SGD to the bit.
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

enum { STAGES = 3, STEPS = 9, MICRO_MAX = 4 };

static const char *const small[] = { "model=mlp:hidden=14x12x10,dropout=0.2",
                                     "data=digits:train=320,test=64",
                                     "engine=ref",
                                     "plan=no",
                                     "timeout=60",
                                     "batch=4",
                                     "steps=9",
                                     "evaluate=end",
                                     "optimizer=momentum:momentum=0.8,weight_decay=0",
                                     "schedule=constant",
                                     "lr=0.05",
                                     NULL };

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })
static const double LR = 0.05, MOMENTUM = 0.8;

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

/* A schedule as its paper defines it. */
typedef struct definition {
    const char *options[6]; /* of the run, beside the mesh */
    int64_t micro;          /* micro-batches of an update */
    int64_t delay;          /* batches that a stage is ahead of the next one */
    bool stash;             /* both passes read the weights of the forward pass */
    bool vertical;          /* those of the first stage's forward pass */
    bool two;               /* those before the last update */
    bool ahead, back;       /* estimates, forward and backward */
    double lr_steps;        /* over which the learning rate is divided */
} definition;

/* The run by hand. */
typedef struct hand {
    fast_run *run;                                  /* whose stages compute */
    const definition *how;                          /* of the schedule */
    float *w[STAGES][STEPS + 1];                    /* versions of a stage's weights */
    float *v[STAGES][STEPS + 1];                    /* momentum before each step */
    float *mean[STAGES];                            /* PipeMare's mean change */
    float *estimate;                                /* of weights */
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

static void hand_open(hand *h, const definition *how)
{
    char accumulate[32];
    snprintf(accumulate, sizeof accumulate, "accumulate=%d", (int)how->micro);
    *h = (hand){ .how = how };
    h->run = test_open_run(small, LIST("mesh=pipe=3", accumulate, "steps=1", "transport=threads"));
    float *initial = vector(h->run->learner->params.count);
    memcpy(initial, h->run->learner->w, (size_t)h->run->learner->params.count * sizeof *initial);
    assert_int_equal(fast_run_train(h->run), FAST_OK); /* its workers are there now */
    for (int s = 0; s < STAGES; s++) {
        const fast_learner *learner = learner_of(h, s);
        for (int n = 0; n <= STEPS; n++) {
            h->w[s][n] = vector(learner->params.count);
            h->v[s][n] = vector(learner->params.count);
        }
        h->mean[s] = vector(learner->params.count);
        memcpy(h->w[s][0], initial + h->run->team->split.stages[s]->params_offset,
               (size_t)learner->params.count * sizeof(float));
        if (s == STAGES - 1)
            continue;
        h->between[s] = vector(learner->outputs);
        h->grads[s] = vector(learner->outputs);
    }
    free(initial);
    h->estimate = vector(h->run->learner->params.count);
}

static void hand_close(hand *h)
{
    for (int s = 0; s < STAGES; s++) {
        for (int n = 0; n <= STEPS; n++) {
            free(h->w[s][n]);
            free(h->v[s][n]);
        }
        free(h->mean[s]);
    }
    for (int s = 0; s < STAGES - 1; s++) {
        free(h->between[s]);
        free(h->grads[s]);
    }
    free(h->estimate);
    fast_run_close(h->run);
}

/* Updates that a stage makes between the two passes of a batch once the pipeline is full. */
static int64_t late_of(const definition *how, int s)
{
    return how->delay * (STAGES - 1 - s);
}

/* The step in which stage s runs the forward pass of the batch of step n. */
static int64_t step_of(const hand *h, int s, int64_t n)
{
    const int64_t step = n - late_of(h->how, s);
    return step > 0 ? step : 0;
}

static const float *forward_weights(hand *h, int s, int64_t n)
{
    const int64_t at = step_of(h, s, n), count = learner_of(h, s)->params.count;
    if (h->how->two)
        return h->w[s][n > 0 ? n - 1 : 0];
    if (h->how->vertical)
        return h->w[s][step_of(h, 0, n)];
    if (!h->how->ahead)
        return h->w[s][at];
    for (int64_t i = 0; i < count; i++) /* SpecTrain: w - k lr v */
        h->estimate[i] = h->w[s][at][i] - (float)((double)(n - at) * LR) * h->v[s][at][i];
    return h->estimate;
}

static const float *backward_weights(hand *h, int s, int64_t n)
{
    const int64_t at = step_of(h, s, n), count = learner_of(h, s)->params.count;
    const double decay = late_of(h->how, s) ? pow(0.135, 1.0 / (double)late_of(h->how, s)) : 0;
    if (h->how->two || h->how->vertical || h->how->stash)
        return forward_weights(h, s, n);
    if (!h->how->back)
        return h->w[s][n];
    for (int64_t i = 0; i < count; i++) {
        float *mean = &h->mean[s][i];
        if (n > 0)
            *mean = (float)(decay * *mean + (1 - decay) * (h->w[s][n][i] - h->w[s][n - 1][i]));
        h->estimate[i] = h->w[s][n][i] - (float)(n - at) * *mean;
    }
    return h->estimate;
}

/* One pass of a stage. */
static void run_pass(hand *h, int s, bool backward, int64_t number, const float *w)
{
    fast_learner *learner = learner_of(h, s);
    fast_stage_pass pass = { .backward = backward,
                             .number = number,
                             .w = (float *)(uintptr_t)w,
                             .inputs = s > 0 ? h->between[s - 1] : NULL };
    if (backward) {
        pass.outputs_grad = s < STAGES - 1 ? h->grads[s] : NULL;
        pass.inputs_grad = s > 0 ? h->grads[s - 1] : NULL;
    } else {
        pass.outputs = s < STAGES - 1 ? h->between[s] : NULL;
    }
    assert_int_equal(learner->sections, 1);
    assert_int_equal(learner->ops->stage(learner, &pass), FAST_OK);
}

static void hand_step(hand *h, int64_t n)
{
    for (int64_t q = n * h->how->micro; q < (n + 1) * h->how->micro; q++) {
        for (int s = 0; s < STAGES; s++)
            run_pass(h, s, false, q, forward_weights(h, s, n));
        for (int s = STAGES - 1; s >= 0; s--)
            run_pass(h, s, true, q, backward_weights(h, s, n));
    }
    for (int s = 0; s < STAGES; s++) {
        const fast_learner *learner = learner_of(h, s);
        const double late = (double)late_of(h->how, s), steps = h->how->lr_steps;
        const bool divides = late > 1 && (double)n < steps;
        const double rate = divides ? LR / pow(late, 1 - (double)n / steps) : LR;
        for (int64_t i = 0; i < learner->params.count; i++) {
            h->v[s][n + 1][i] = (float)MOMENTUM * h->v[s][n][i] + learner->g[i];
            h->w[s][n + 1][i] = h->w[s][n][i] - (float)rate * h->v[s][n + 1][i];
        }
    }
}

/* Return the largest difference of the run's weights from those by hand; 0 at other ranks. */
static double distance(const hand *h, const fast_run *run)
{
    double far = 0;
    for (int s = 0; s < STAGES && fast_run_is_first(run); s++) {
        const fast_split_stage *stage = run->team->split.stages[s];
        for (int64_t i = 0; i < stage->graph.params.count; i++)
            far = fmax(far, fabs((double)run->learner->w[stage->params_offset + i] -
                                 (double)h->w[s][STEPS][i]));
    }
    return far;
}

/* Staleness, the gap between the passes and the batches in flight, of each stage. */
static void check_counts(const fast_run *run, const definition *how)
{
    for (int s = 0; s < STAGES && !test_is_mpi(); s++) {
        const fast_pipe *pipe = &run->team->actors[s]->context.pipe;
        const int64_t late = how->two ? 1 : how->vertical ? late_of(how, 0) : late_of(how, s);
        const bool same = how->two || how->vertical || how->stash;
        assert_int_equal(pipe->staleness_max, late);
        assert_int_equal(pipe->gap_max, same ? 0 : late);
        assert_int_equal(pipe->in_flight_max, late_of(how, s) + 1);
        assert_int_equal(fast__pipe_staleness(&pipe->options.place), late);
        assert_int_equal(fast__pipe_flight(&pipe->options.place), late_of(how, s) + 1);
    }
}

static void schedules_are_their_definitions(void **state)
{
    static const definition all[] = {
        { { "pipeline=pipedream" }, .micro = 1, .delay = 1, .stash = true },
        { { "pipeline=pipedream", "pipe_delay=2" }, .micro = 1, .delay = 2, .stash = true },
        { { "pipeline=pipedream", "vertical_sync=yes" }, .micro = 1, .delay = 1, .vertical = true },
        { { "pipeline=pipedream_2bw", "accumulate=2" }, .micro = 2, .delay = 1, .two = true },
        { { "pipeline=pipedream_2bw", "accumulate=4", "pipe_delay=2" },
          .micro = 4,
          .delay = 2,
          .two = true },
        { { "pipeline=stale" }, .micro = 1, .delay = 1 },
        { { "pipeline=stale", "pipe_delay=2" }, .micro = 1, .delay = 2 },
        { { "pipeline=stale", "pipe_extrapolate=forward" }, .micro = 1, .delay = 1, .ahead = true },
        { { "pipeline=stale", "pipe_extrapolate=backward", "pipe_delay=2" },
          .micro = 1,
          .delay = 2,
          .back = true },
        { { "pipeline=stale", "pipe_lr_steps=6" }, .micro = 1, .delay = 1, .lr_steps = 6 },
    };
    (void)state;
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        const char *options[10] = { "mesh=pipe=3", test_transport() };
        hand h;
        for (int i = 0; all[k].options[i]; i++)
            options[2 + i] = all[k].options[i];
        hand_open(&h, &all[k]);
        for (int64_t n = 0; n < STEPS; n++)
            hand_step(&h, n);
        fast_run *run = test_open_run(small, options);
        if (fast_run_train(run))
            fail_msg("%s", fast_error_detail());
        const double far = distance(&h, run);
        if (!(far < 2e-6))
            fail_msg("%s %s: distance %g", options[2], options[3] ? options[3] : "", far);
        check_counts(run, &all[k]);
        fast_run_close(run);
        hand_close(&h);
    }
}

/* Without batches in flight, or without updates, all schedules are plain SGD. */
static void nothing_stale_is_sgd(void **state)
{
    (void)state;
    static const char *const pipelines[] = { "pipeline=pipedream", "pipeline=stale",
                                             "pipeline=pipedream_2bw", "pipeline=ampnet" };
    const char *const t = test_transport();
    const uint64_t one = hash_of(LIST("workers=1", "schedule=cosine")),
                   two = hash_of(LIST("workers=2", "schedule=cosine"));
    for (int p = 0; p < 4; p++) {
        const uint64_t alone = hash_of(LIST("mesh=pipe=1", pipelines[p], "schedule=cosine", t));
        const uint64_t both =
            hash_of(LIST("mesh=data=2,pipe=1", pipelines[p], "schedule=cosine", t));
        assert_true(alone == 0 || alone == one);
        assert_true(both == 0 || both == two);
    }
    /* With learning rate 0 an estimate is the weights. */
    const char *const rest = "lr=0";
    const uint64_t still = hash_of(LIST("workers=1", rest));
    static const char *const estimates[] = { "pipe_extrapolate=forward",
                                             "pipe_extrapolate=backward" };
    for (int e = 0; e < 2; e++) {
        const uint64_t got = hash_of(LIST("mesh=pipe=3", "pipeline=stale", estimates[e], rest, t));
        assert_true(got == 0 || got == still);
    }
}

/* One message at a time is plain SGD to the bit, whatever is accumulated. */
static void ampnet_of_one_message_is_sgd(void **state)
{
    static const char *const meshes[] = { "mesh=pipe=2", "mesh=pipe=4" };
    static const char *const accumulate[] = { "accumulate=1", "accumulate=3" };
    (void)state;
    for (int a = 0; a < 2; a++) {
        const uint64_t one = hash_of(LIST("workers=1", accumulate[a]));
        const uint64_t two = hash_of(LIST("workers=2", accumulate[a]));
        for (int m = 0; m < 2; m++) {
            const uint64_t got = hash_of(LIST(meshes[m], "pipeline=ampnet", "pipe_active=1",
                                              accumulate[a], test_transport()));
            assert_true(got == 0 || got == one);
        }
        const uint64_t both = hash_of(LIST("mesh=data=2,pipe=2", "pipeline=ampnet", "pipe_active=1",
                                           accumulate[a], test_transport()));
        assert_true(both == 0 || both == two);
    }
}

/* Batches in flight are bounded, and the weights of a gradient are no older than they allow. In
 * virtual time the run repeats, and a slow last stage has more in flight before it. */
static void ampnet_is_bounded(void **state)
{
    static const struct {
        const char *active, *accumulate;
        int64_t flight, micro;
    } cases[] = { { "pipe_active=2", "accumulate=1", 2, 1 },
                  { "pipe_active=5", "accumulate=1", 5, 1 },
                  { "pipe_active=5", "accumulate=3", 5, 3 },
                  { "pipe_active=0", "accumulate=1", STAGES, 1 } };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *const options[] = { "mesh=pipe=3",
                                        "pipeline=ampnet",
                                        cases[k].active,
                                        cases[k].accumulate,
                                        "steps=40",
                                        test_transport(),
                                        NULL };
        fast_run *run = test_open_run(small, options);
        if (fast_run_train(run))
            fail_msg("%s", fast_error_detail());
        const uint64_t hash = fast_run_result(run)->params_hash;
        for (int s = 0; s < STAGES && !test_is_mpi(); s++) {
            const fast_pipe *pipe = &run->team->actors[s]->context.pipe;
            const int64_t late = (cases[k].flight - 1 + cases[k].micro - 1) / cases[k].micro;
            assert_true(pipe->in_flight_max <= cases[k].flight);
            assert_true(pipe->staleness_max <= late);
            assert_int_equal(pipe->gap_max, pipe->staleness_max);
            assert_true(s < STAGES - 1 || (pipe->staleness_max == 0 && pipe->in_flight_max == 1));
            assert_true(s > 0 || pipe->in_flight_max == cases[k].flight);
        }
        if (strcmp(test_transport(), "transport=sim") == 0)
            assert_true(hash == hash_of(options));
        fast_run_close(run);
    }
}

/* Nothing is in flight at a checkpoint: the run that continues and the one that resumes have the
 * same bits. */
static void checkpoints_drain(void **state)
{
    static const char *const cases[][3] = {
        { "pipeline=pipedream", "pipe_delay=1", "accumulate=1" },
        { "pipeline=pipedream", "vertical_sync=yes", "accumulate=1" },
        { "pipeline=pipedream_2bw", "pipe_delay=1", "accumulate=2" },
        { "pipeline=stale", "pipe_extrapolate=no", "accumulate=1" },
        { "pipeline=stale", "pipe_extrapolate=forward", "accumulate=1" },
        { "pipeline=stale", "pipe_extrapolate=backward", "accumulate=1" },
        { "pipeline=ampnet", "pipe_active=1", "accumulate=2" },
    };
    char path[] = "/tmp/fast_stale_XXXXXX", checkpoint[64], resume[64];
    (void)state;
    if (test_is_mpi())
        skip();
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(checkpoint, sizeof checkpoint, "checkpoint=%s", path);
    snprintf(resume, sizeof resume, "resume=%s", path);
    const bool sim = strcmp(test_transport(), "transport=sim") == 0;
    for (size_t k = sim ? 5 : 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *const mesh = k % 2 == 0 ? "mesh=pipe=3" : "mesh=data=2,pipe=2";
        const char *all[] = { cases[k][0], cases[k][1],      cases[k][2], mesh,
                              "steps=11",  test_transport(), checkpoint,  "checkpoint_every=4steps",
                              NULL };
        const uint64_t right = hash_of(all);
        all[4] = "steps=8";
        (void)hash_of(all);
        all[4] = "steps=11";
        all[6] = resume; /* the next pause would be at step 12 */
        all[7] = NULL;
        if (hash_of(all) != right)
            fail_msg("%s %s %s: other bits after a checkpoint", all[0], all[1], mesh);
    }
    remove(path);
}

/* A run that stops before its end leaves batches in the pipeline: all stages end at one step. */
static void runs_stop_with_batches_in_flight(void **state)
{
    static const char *const pipelines[] = { "pipeline=pipedream", "pipeline=pipedream_2bw",
                                             "pipeline=stale", "pipeline=ampnet" };
    (void)state;
    for (int p = 0; p < 4; p++)
        for (int why = 0; why < 2; why++) {
            const char *const options[] = { "mesh=pipe=3",
                                            pipelines[p],
                                            p == 1 ? "accumulate=2" : "accumulate=1",
                                            "steps=60",
                                            "evaluate=5steps",
                                            why ? "lr=1e8" : "target=0.01",
                                            test_transport(),
                                            NULL };
            fast_run *run = test_open_run(small, options);
            if (fast_run_train(run))
                fail_msg("%s %s: %s", options[1], options[5], fast_error_detail());
            if (fast_run_is_first(run)) {
                assert_string_equal(fast_run_result(run)->stop, why ? "diverged" : "target");
                assert_true(fast_run_result(run)->steps < 60);
            }
            fast_run_close(run);
        }
}

static void the_rest_is_refused(void **state)
{
    static const char *const bad[][4] = {
        { "pipeline=pipedream", "accumulate=2", "pipe_delay=1", "pipedream_2bw" },
        { "pipeline=pipedream_2bw", "accumulate=1", "pipe_delay=1", "accumulate=2" },
        { "pipeline=stale", "vertical_sync=yes", "pipe_delay=1", "vertical_sync is of" },
        { "pipeline=1f1b", "pipe_delay=2", "accumulate=2", "pipe_delay is of" },
        { "pipeline=gpipe", "pipe_lr_steps=2", "accumulate=2", "pipe_lr_steps is of" },
        { "pipeline=ampnet", "pipe_extrapolate=forward", "pipe_active=2", "is of pipeline=stale" },
        { "pipeline=stale", "pipe_active=2", "pipe_delay=1", "pipe_active is of" },
        { "pipeline=ampnet", "mesh=pipe=2,tensor=2", "pipe_active=2", "tensor=2" },
        { "pipeline=stale", "strategy=elastic", "pipe_delay=1", "pipeline=stale" },
        { "mesh=", "pipe_delay=1", "pipe_active=2", "pipe_active is of" },
        { "mesh=", "pipe_delay=2", "pipe_active=0", "pipe_delay is of" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *why =
            test_refusal(small, LIST("mesh=data=2,pipe=3", bad[i][0], bad[i][1], bad[i][2]));
        if (!strstr(why, bad[i][3]))
            fail_msg("%s %s: %s", bad[i][0], bad[i][1], why);
    }
}

static void memory_can_run_out(void **state)
{
    static const char *const cases[][2] = { { "pipeline=pipedream", "vertical_sync=yes" },
                                            { "pipeline=stale", "pipe_extrapolate=backward" },
                                            { "pipeline=ampnet", "pipe_active=2" } };
    (void)state;
    if (test_is_mpi())
        skip();
#ifdef FAST_SLOW
    const int all = 1;
#else
    const int all = 3;
#endif
    for (int k = 0; k < all; k++)
        test_out_of_memory(small, LIST("model=mlp:hidden=8x8", "data=digits:train=64,test=16",
                                       "steps=2", "evaluate=no", "mesh=pipe=2", "transport=sim",
                                       cases[k][0], cases[k][1]));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_are_their_definitions),
        cmocka_unit_test(nothing_stale_is_sgd),
        cmocka_unit_test(ampnet_of_one_message_is_sgd),
        cmocka_unit_test(ampnet_is_bounded),
        cmocka_unit_test(checkpoints_drain),
        cmocka_unit_test(runs_stop_with_batches_in_flight),
        cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(memory_can_run_out),
    };
    return test_split_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
