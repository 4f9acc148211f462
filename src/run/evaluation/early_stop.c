/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Early stopping: the best model by the validation set, and how long none was better.
 *
 *     better     loss < best - min_delta;  accuracy or F1 > best + min_delta
 *     waited     evaluations since the best one; at `patience` the run stops
 *
 * A figure that is not a number is not better. The first evaluation is the best so far.
 *
 * The best model is copied when it is found: a team evaluates a copy of its replicas, the run's own
 * learner, so there is one place for it in either case. After training it changes places with the
 * last one; a checkpoint that is saved then changes them back for its time, because a run continues
 * from its last model. Cost: one model in memory and a copy of it for each better evaluation.
 *
 * Evaluations are at fixed steps and the same to the bit in a synchronous run, so it stops at the
 * same step whenever it is repeated; checkpoints hold all of it (checkpoint.c).
 */
#include "run/run.h"

#include "tensor/vector.h"

#include <math.h>

enum { BLOCK = 4096 }; /* floats that change places at once */

/* Is a value of the monitored figure better than the best so far? */
static bool is_better(const fast_run *run, double value)
{
    const double best = run->evaluation.best.value, delta = run->config.min_delta;

    if (run->result.best_step < 0)
        return true;
    if (isnan(best))
        return !isnan(value);
    return run->config.monitor == FAST_MONITOR_LOSS ? value < best - delta : value > best + delta;
}

void fast__best_look(fast_run *run, double value)
{
    fast_run_best *best = &run->evaluation.best;
    const fast_learner *learner = run->learner;

    FAST_ASSERT(!best->swapped);
    if (!is_better(run, value)) {
        best->waited++;
        return;
    }
    best->value = value;
    best->waited = 0;
    run->result.best_step = run->step;
    if (!best->model)
        return;
    fast__vector_copy(learner->params.count, learner->w, best->model);
    fast__vector_copy(learner->state.count, learner->s, best->model + learner->params.count);
}

/* Exchange two vectors, of any device, by blocks. */
static void exchange(int64_t count, float *a, float *b)
{
    float block[BLOCK];

    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t n = count - at < BLOCK ? count - at : BLOCK;

        fast__vector_copy(n, a + at, block);
        fast__vector_copy(n, b + at, a + at);
        fast__vector_copy(n, block, b + at);
    }
}

void fast__best_swap(fast_run *run)
{
    fast_run_best *best = &run->evaluation.best;
    const fast_learner *learner = run->learner;

    FAST_ASSERT(best->model != NULL);
    exchange(learner->params.count, learner->w, best->model);
    exchange(learner->state.count, learner->s, best->model + learner->params.count);
    best->swapped = !best->swapped;
}
