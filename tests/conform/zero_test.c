/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy zero. Goal: with sharded optimizer state, gradients and parameters a run is
 * allreduce to the bit for every rule that sees one element at a time, and to rounding for those
 * with norms; each worker sends the bytes and holds the model states that the papers say; a run
 * resumes with another number of workers and strategy. Method: small models, compared by
 * params_hash and weights; closed forms in sim, where bytes are counted without evaluation.
 *
 * With the argument "mpi", under mpirun: the same hash on the ranks as on threads.
 */
#include "base/memory.h"
#include "run/team.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPTIONS_MAX = 32, STEPS = 6 };

static bool on_ranks; /* under mpirun */

#define LIST(...) ((const char *[]){ __VA_ARGS__, NULL })

static fast_err open_with(const char *const *more, fast_run **run)
{
    static const char *const always[] = { "engine=ref",  "data=digits:train=160,test=24",
                                          "batch=4",     "steps=6",
                                          "evaluate=no", "plan=no",
                                          "lr=0.01",     "store=none" };
    const char *options[OPTIONS_MAX] = { NULL };
    int count = 0;

    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        options[count++] = always[i];
    for (; *more; more++)
        options[count++] = *more;
    assert_true(count < OPTIONS_MAX);
    return fast_run_open(options, run);
}

static fast_run *open_run(const char *const *more)
{
    fast_run *run = NULL;

    if (open_with(more, &run))
        fail_msg("%s", fast_error_detail());
    return run;
}

static fast_result result_of(const char *const *more)
{
    fast_run *run = open_run(more);
    fast_result result;

    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    result = *fast_run_result(run);
    fast_run_close(run);
    return result;
}

/* About 20,000 parameters: five units of 4 KiB and more. */
static const char *const mlp = "model=mlp:hidden=24";
static const char *const lenet = "model=lenet";
static const char *const stages[] = { "strategy=zero:stage=1,bucket=4096",
                                      "strategy=zero:stage=2,bucket=4096",
                                      "strategy=zero:stage=3,bucket=4096" };

/* Every rule that sees one element at a time. */
static void equals_allreduce_to_the_bit(void **state)
{
    static const char *const rules[] = { "optimizer=sgd",     "optimizer=momentum",
                                         "optimizer=adam",    "optimizer=adamw",
                                         "optimizer=adagrad", "optimizer=adadelta",
                                         "optimizer=rmsprop", "optimizer=lion" };
    static const char *const workers[] = { "workers=2", "workers=3", "workers=5" };

    (void)state;
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        const char *n = workers[r % 3];
        const uint64_t hash = result_of(LIST(mlp, rules[r], n)).params_hash;

        for (int s = 0; s < 3; s++) {
            assert_true(result_of(LIST(mlp, rules[r], n, stages[s])).params_hash == hash);
            assert_true(result_of(LIST(mlp, rules[r], n, stages[s], "transport=sim")).params_hash ==
                        hash);
        }
    }
}

/* Convolutions, batch norm, several micro-batches, memory of a device, one worker. */
static void equals_allreduce_elsewhere(void **state)
{
    static const char *const more[] = { "model=lenet",  "model=resnet20", "accumulate=2",
                                        "device=check", "engine=cpu",     "workers=1" };

    (void)state;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const uint64_t hash =
            result_of(LIST(mlp, "workers=3", "steps=3", "plan=/tmp/fast_zero_test.plan", more[i],
                           "strategy=allreduce"))
                .params_hash;

        for (int s = 0; s < 3; s++)
            assert_true(result_of(LIST(mlp, "workers=3", "steps=3", "plan=/tmp/fast_zero_test.plan",
                                       more[i], stages[s]))
                            .params_hash == hash);
    }
    unlink("/tmp/fast_zero_test.plan");
}

/* The largest distance of two runs' weights after training, relative to the largest weight. */
static double distance(const char *const *a, const char *const *b)
{
    fast_run *runs[2] = { open_run(a), open_run(b) };
    double largest = 0, weight = 0;

    for (int i = 0; i < 2; i++)
        assert_int_equal(fast_run_train(runs[i]), FAST_OK);
    for (int64_t i = 0; i < runs[0]->learner->params.count; i++) {
        const double x = (double)runs[0]->learner->w[i], y = (double)runs[1]->learner->w[i];

        largest = fmax(largest, fabs(x - y));
        weight = fmax(weight, fabs(x));
    }
    for (int i = 0; i < 2; i++)
        fast_run_close(runs[i]);
    return largest / weight;
}

/* Rules with norms: sums of squares over slices round otherwise than over layers. The gradient is
 * clipped in fact: without the norm of all slices the results would differ by percents. */
static void norms_are_of_all_slices(void **state)
{
    static const char *const rules[] = { "optimizer=lars", "optimizer=lamb",
                                         "optimizer=adam:clip_norm=0.01",
                                         "optimizer=lamb:clip_norm=0.01",
                                         "optimizer=lars:clip_value=0.001" };
    fast_run *run = NULL;

    (void)state;
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        for (int s = 0; s < 3; s++)
            assert_true(distance(LIST(mlp, rules[r], "workers=3"),
                                 LIST(mlp, rules[r], "workers=3", stages[s])) < 1e-6);
    run = open_run(LIST(mlp, "optimizer=muon", "workers=2", stages[0]));
    assert_int_equal(fast_run_train(run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "muon needs whole matrices"));
    fast_run_close(run);
}

/* Bytes of a step and model, from the difference of two runs: what happens once does not count. */
static double bytes_of_a_step(const char *strategy, const char *workers, const char *model,
                              double n)
{
    const fast_result few = result_of(LIST(model, workers, strategy, "transport=sim", "steps=2"));
    const fast_result many = result_of(LIST(model, workers, strategy, "transport=sim", "steps=6"));

    return (double)(many.bytes_sent - few.bytes_sent) / 4 / n / 4 / (double)few.param_count;
}

/* The papers' volumes, headers of messages included. The last two layers of lenet hold most of it,
 * so that stage 3 gathers little twice; a deep network of equal layers comes close to 3. */
static void bytes_are_the_closed_form(void **state)
{
    static const char *const deep = "model=resnet20";

    (void)state;
    for (int s = 0; s < 2; s++) {
        const char *whole = s ? "strategy=zero:stage=2" : "strategy=zero:stage=1";

        assert_true(fabs(bytes_of_a_step(whole, "workers=4", lenet, 4) - 2 * 0.75) < 0.01);
        assert_true(fabs(bytes_of_a_step(whole, "workers=3", lenet, 3) - 2 * 2 / 3.0) < 0.01);
    }
    const double three =
        bytes_of_a_step("strategy=zero:stage=3,bucket=65536", "workers=4", deep, 4);
    const double two = bytes_of_a_step("strategy=zero:stage=2,bucket=65536", "workers=4", deep, 4);

    /* The gather of all units but those of the last two layers. */
    assert_true(three - two > 0.75 * 0.8 && three - two < 0.75 * 1.01);
}

/* Bytes of w, g and two slots at a worker, over those of one vector. */
static double states(const char *strategy, const char *workers, const char *transport)
{
    const fast_result r = result_of(LIST("model=resnet20", "optimizer=adam", "batch=2", "steps=2",
                                         workers, transport, strategy));

    return (double)r.model_state_bytes / 4 / (double)r.param_count;
}

static void a_worker_holds_its_part(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *t = i ? "transport=sim" : "transport=threads";

        assert_true(fabs(states("strategy=allreduce", "workers=4", t) - 4) < 1e-9);
        assert_true(fabs(states(stages[0], "workers=4", t) - (2 + 2 / 4.0)) < 0.01);
        assert_true(fabs(states(stages[1], "workers=4", t) - (1 + 3 / 4.0)) < 0.1);
        /* The largest layer of 272,000 parameters has 37,000; the next unit is on its way. */
        assert_true(states(stages[2], "workers=4", t) < 4 / 4.0 + 0.45);
        assert_true(states(stages[2], "workers=8", t) < 4 / 8.0 + 0.45);
    }
}

/* A run of 6 steps in two parts is one of 6 steps, whatever strategy the parts have; the file of
 * sharded workers is that of allreduce. */
static void resumes_across_strategies(void **state)
{
    static const char *const strategies[] = { "strategy=allreduce",
                                              "strategy=zero:stage=1,bucket=4096",
                                              "strategy=zero:stage=2,bucket=4096",
                                              "strategy=zero:stage=3,bucket=4096" };
    char path[64], save[96], resume[96];
    const char *const job[] = { mlp, "optimizer=adam", "workers=4", "schedule=constant" };
    const uint64_t hash = result_of(LIST(job[0], job[1], job[2], job[3])).params_hash;

    (void)state;
    snprintf(path, sizeof path, "/tmp/fast_zero_%lld.safetensors", (long long)getpid());
    snprintf(save, sizeof save, "checkpoint=%s", path);
    snprintf(resume, sizeof resume, "resume=%s", path);
    for (int i = 0; i < 4; i++) {
        result_of(LIST(job[0], job[1], job[2], job[3], "steps=3", save, strategies[i]));
        for (int k = 0; k < 4; k++)
            assert_true(result_of(LIST(job[0], job[1], job[2], job[3], resume, strategies[k]))
                            .params_hash == hash);
        /* With two workers the same number of samples is six steps; six more are taken. */
        const uint64_t two =
            result_of(LIST(job[0], job[1], "workers=2", job[3], resume, "steps=12", strategies[0]))
                .params_hash;
        assert_true(
            result_of(LIST(job[0], job[1], "workers=2", job[3], resume, "steps=12", strategies[3]))
                .params_hash == two);
    }
    unlink(path);
}

/* At the end of a run without a checkpoint nobody has the whole state. */
static void saves_only_what_is_whole(void **state)
{
    fast_run *run = open_run(LIST(mlp, "optimizer=adam", "workers=2", stages[0]));

    (void)state;
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_int_equal(fast_run_checkpoint(run, "/tmp/fast_zero_test.safetensors"), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "option checkpoint"));
    fast_run_close(run);
}

static void same_bits_on_ranks(void **state)
{
    const char *n = getenv("OMPI_COMM_WORLD_SIZE");
    char workers[32];

    (void)state;
    if (!n)
        skip();
    snprintf(workers, sizeof workers, "workers=%s", n);
    for (int m = 0; m < 2; m++) {
        const char *model = m ? "model=resnet20" : mlp;
        const uint64_t hash =
            result_of(LIST(model, "optimizer=adam", workers, "steps=3")).params_hash;

        for (int s = 0; s < 3; s++) {
            const fast_result r = result_of(
                LIST(model, "optimizer=adam", workers, "steps=3", stages[s], "transport=mpi"));

            if (strcmp(getenv("OMPI_COMM_WORLD_RANK"), "0") == 0)
                assert_true(r.params_hash == hash);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest ranks[] = { cmocka_unit_test(same_bits_on_ranks) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_allreduce_to_the_bit), cmocka_unit_test(equals_allreduce_elsewhere),
        cmocka_unit_test(norms_are_of_all_slices),     cmocka_unit_test(bytes_are_the_closed_form),
        cmocka_unit_test(a_worker_holds_its_part),     cmocka_unit_test(resumes_across_strategies),
        cmocka_unit_test(saves_only_what_is_whole),
    };

    on_ranks = argc > 1 && strcmp(argv[1], "mpi") == 0;
    return on_ranks ? cmocka_run_group_tests(ranks, NULL, NULL)
                    : cmocka_run_group_tests(tests, NULL, NULL);
}
