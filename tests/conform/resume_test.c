/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a synchronous run that continues from a checkpoint in mid-run has the model of the run that
 * was not interrupted, and the loss and accuracy of the whole epoch, also where nothing was
 * evaluated at that step.
 *
 * Method: each strategy trains an epoch, and once more from a copy of the file of its fourth step.
 * The word "mpi" runs it over the ranks of mpirun.
 */
#include "run/team.h"
#include "small_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool mpi; /* over the ranks of mpirun */

/* Open a run of an epoch, of six steps. */
static fast_run *open_run(const char *strategy, const char *transport, const char *a, const char *b)
{
    const char *const options[] = { "model=mlp:hidden=12",
                                    "data=digits:train=160,test=24",
                                    "engine=ref",
                                    "plan=no",
                                    "batch=8",
                                    "workers=3",
                                    "steps=6",
                                    "lr=0.1",
                                    "timeout=60",
                                    "store=none",
                                    "evaluate=end",
                                    strategy,
                                    transport,
                                    a,
                                    b,
                                    NULL };
    fast_run *run = NULL;

    if (fast_run_open(options, &run))
        fail_msg("%s on %s: %s", strategy, transport, fast_error_detail());
    return run;
}

static void train(fast_run *run)
{
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
}

/* Take a copy of the checkpoint of step 4. */
static void copy_at_4(void *ctx, const fast_event *event)
{
    if (event->kind == FAST_EVENT_SAVE && event->step == 4)
        test_copy_file(event->text, ctx);
}

/* Train, and again from the checkpoint of step 4; compare both with a run that is not saved. */
static void check(const char *strategy, const char *transport)
{
    char checkpoint[64], copy[64], resume[80];
    fast_run *run = open_run(strategy, "transport=threads", "seed=1", NULL);

    train(run);
    const fast_result whole = *fast_run_result(run);
    fast_run_close(run);
    /* Ranks have one parent: the file is the same one. */
    snprintf(checkpoint, sizeof checkpoint, "checkpoint=resume-test-%d.safetensors",
             (int)getppid());
    snprintf(copy, sizeof copy, "resume-test-%d-copy.safetensors", (int)getppid());
    snprintf(resume, sizeof resume, "resume=%s", copy);
    run = open_run(strategy, transport, checkpoint, "checkpoint_every=4steps");
    fast_run_watch(run, copy_at_4, copy);
    train(run);
    fast_run_close(run);
    run = open_run(strategy, transport, resume, NULL);
    train(run);
    if (fast_run_is_first(run)) {
        const fast_result *again = fast_run_result(run);

        if (again->params_hash != whole.params_hash)
            fail_msg("%s on %s: another model", strategy, transport);
        if (memcmp(&again->loss, &whole.loss, sizeof whole.loss) != 0 ||
            memcmp(&again->train_accuracy, &whole.train_accuracy, sizeof whole.loss) != 0)
            fail_msg("%s on %s: loss %g and accuracy %g instead of %g and %g", strategy, transport,
                     again->loss, again->train_accuracy, whole.loss, whole.train_accuracy);
        unlink(checkpoint + strlen("checkpoint="));
        unlink(copy);
    }
    fast_run_close(run);
}

static void losses_are_of_the_whole_epoch(void **state)
{
    static const char *const strategies[] = { "strategy=allreduce",      "strategy=zero",
                                              "strategy=ps:slack=0",     "strategy=gossip",
                                              "strategy=local:period=4", "strategy=elastic_sync" };

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        check(strategies[i], mpi ? "transport=mpi" : "transport=threads");
        if (!mpi)
            check(strategies[i], "transport=sim");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(losses_are_of_the_whole_epoch) };

    mpi = argc > 1 && strcmp(argv[1], "mpi") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
