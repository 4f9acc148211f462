/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short runs of a plan: the model is trained for k steps, and for a few more,
 *
 *     seconds of a step = (time of k + n steps - time of k steps) / n
 *
 * so that the first step, which differs, and the start and the end of a run do not count: k is 1,
 * and as many more as fill the pipeline where that is not drained after each step. On the
 * simulator both repeat to the bit. Memory is that of the worker with most: its state, and
 * workspaces of the micro-batches that it has in flight.
 */
#include "lab/planning.h"

#include "run/run.h"
#include "run/team.h"

/* Bytes of the rows that sum the gradients of micro-batches, besides the gradient. */
static int64_t sum_bytes(int64_t params, int64_t micro_batches)
{
    int64_t bytes = 0;

    for (int64_t rows = 1; rows < micro_batches; rows *= 2)
        bytes += params * (int64_t)sizeof(float);
    return bytes;
}

/* Bytes of the worker with most, of a run that ended. */
static int64_t memory_of(const fast_run *run)
{
    int64_t most = 0;

    for (int64_t i = 0; i < run->config.workers; i++) {
        const fast_context *context = &run->team->actors[i]->context;
        const int64_t bytes = fast__context_state_bytes(context) +
                              fast__split_workspace_bytes(run->team, i) +
                              sum_bytes(context->learner->params.count, run->config.accumulate);

        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Train for a number of steps. */
static fast_err train(const fast_words *options, int64_t steps, double *seconds, int64_t *memory)
{
    fast_words words = { 0 };
    fast_run *run = NULL;
    fast_err err = FAST_OK;

    for (int64_t i = 0; i < options->count && !err; i++)
        err = fast__words_add(&words, options->items[i]);
    if (!err)
        err = fast__words_format(&words, "steps=%lld", (long long)steps);
    if (!err)
        err = fast_run_open((const char *const *)words.items, &run);
    if (!err)
        err = fast_run_train(run);
    if (!err) {
        *seconds = run->result.time_s;
        *memory = memory_of(run);
    }
    fast_run_close(run);
    fast__words_fini(&words);
    return err;
}

fast_err fast__plan_verify(const fast_words *options, int64_t before, int64_t steps,
                           double *seconds_out, int64_t *memory_out)
{
    double first, all; /* times of both runs */
    int64_t memory;

    FAST_ASSERT(before >= 1 && steps >= 1);
    FAST_TRY(train(options, before, &first, &memory));
    FAST_TRY(train(options, before + steps, &all, &memory));
    *seconds_out = (all - first) / (double)steps;
    *memory_out = memory;
    return FAST_OK;
}
