/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures of a run. The running means are those of the current epoch, or of the last one right
 * after it ended:
 *
 *   loss           = sum of the batches' mean losses / batches
 *   train_accuracy = correct positions / counted positions
 *   samples_per_s  = samples of this process / (time - evaluation - saving)
 *
 * Reading and tuning happen in fast_run_open(), before the clock starts. What several workers add
 * is measured by their team.
 *
 * fast__run_measure() runs at every event, under the team's mutex while actors run, and
 * allocates nothing; fast__run_measure_all() also hashes the whole model, so it runs when the run
 * is at rest.
 *
 *     params_hash    hash of the bytes of w, continued over those of s: equal models, equal hashes
 *     step_s         batch * workers / samples_per_s; of a team the mean of its workers (measure.c)
 */
#include "run/run.h"
#include "run/team.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

void fast__run_measure(fast_run *run)
{
    const fast_run_sums *sums = &run->progress.sums;
    const fast_run_times *times = &run->progress.times;
    fast_result *r = &run->result;
    r->steps = run->step;
    r->samples = run->step * run->config.batch * run->config.accumulate * run->config.replicas;
    r->epoch = run->step / run->learner->epoch_steps;
    r->loss = sums->batches > 0 ? sums->loss / (double)sums->batches : NAN;
    const bool counted = sums->positions > 0 && (run->foreign || run->data.train->classes > 0);
    r->train_accuracy = counted ? (double)sums->correct / (double)sums->positions : NAN;

    int64_t total = times->total_ns;
    if (times->start_ns)
        total += fast__run_now(run) - times->start_ns;
    if (total < 0) /* an actor that has not started: its clock is 0 and start_ns 1 */
        total = 0;
    const int64_t training = total - fast__counted(&times->pause_ns);
    r->time_s = (double)total * 1e-9;
    r->compute_s = (double)times->compute_ns * 1e-9;
    r->virtual_time_s = run->clock.is_virtual ? r->time_s : NAN;
    r->samples_per_s = training > 0 && times->samples > 0
                           ? (double)times->samples / ((double)training * 1e-9)
                           : NAN;
    r->step_s = (double)(run->config.batch * run->config.replicas) / r->samples_per_s;
    fast__team_measure(run->team);
}

/* Bytes that this program had resident at most. VmHWM starts with the program; ru_maxrss would
 * include the process that executed it, and is used where there is no /proc. */
static int64_t memory_peak(void)
{
    struct rusage usage;
    long long kib = -1;
    char line[128];
    FILE *file = fopen("/proc/self/status", "re");

    while (file && kib < 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lld kB", &kib) != 1)
            kib = -1;
    if (file)
        fclose(file);
    if (kib < 0)
        kib = getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss : 0;
    return (int64_t)kib * 1024;
}

/* The most that a worker of this process held of parameters, gradients and optimizer state. */
static int64_t model_state_bytes(const fast_team *team)
{
    int64_t most = 0;

    for (int64_t i = 0; team && team->actors && i < team->workers; i++) {
        const int64_t bytes =
            team->actors[i] ? fast__context_state_bytes(&team->actors[i]->context) : 0;

        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The hash of a model: parameters, then the state. */
static uint64_t hash_model(const fast_learner *learner)
{
    const uint64_t hash = fast__vector_hash(learner->params.count, learner->w, 0);

    return learner->state.count > 0 ? fast__vector_hash(learner->state.count, learner->s, hash)
                                    : hash;
}

void fast__run_measure_all(fast_run *run)
{
    if (run->team)
        run->team->measures.figures_due = 0;
    fast__run_measure(run);
    const fast_learner *learner = run->learner;
    fast_result *r = &run->result;
    r->param_count = learner->params.count;
    if (!run->evaluation.file || !run->evaluation.partial)
        r->params_hash = hash_model(learner);
    r->plan_hash = fast__run_plan_hash(run);
    r->memory_peak = memory_peak();
    r->model_state_bytes = model_state_bytes(run->team);
}

const fast_result *fast_run_result(const fast_run *run)
{
    FAST_ASSERT(run != NULL);
    return &run->result;
}

bool fast_run_is_first(const fast_run *run)
{
    FAST_ASSERT(run != NULL);
    return run->team->place.first;
}

int64_t fast_run_inputs(const fast_run *run)
{
    return run->data.train ? run->data.train->features : 0;
}

int64_t fast_run_outputs(const fast_run *run)
{
    return run->graph ? run->graph->nodes[run->graph->node_count - 1].count : 0;
}
