/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast bench pipeline`: what do the schedules of a pipeline cost, side by side?
 *
 * Each schedule trains the same model with the same micro-batches for a few steps, on threads or on
 * a simulated cluster; the log of passes of each worker says when it computed. Of the steps behind
 * the first one, which pays for memory and connections,
 *
 *     step      from the end of a step on the first worker to the end of the next one
 *     bubble    1 - time in passes / (workers * time of the steps), each from its first pass to its
 *               last one on any worker
 *
 * beside (S - 1) / (V M + S - 1), the bubble of S equal workers with V stages each, M micro-batches
 * and messages that take no time; of zero_bubble (S - 1) / (3 M + S - 1). A schedule that is never
 * drained updates after each micro-batch: its step is the time of M updates, which are in its
 * bubble, too, and the pipeline is full all the time; that of pipedream_2bw updates once.
 *
 * Expected: gpipe, 1f1b, interleaved and zero_bubble have the bubble of the closed form and what
 * messages and unequal stages add to it; gpipe holds M micro-batches, interleaved more than S of
 * smaller stages, the others at most S; those that are never drained have next to no bubble, and
 * gradients that are up to S - 1 updates old, of pipedream_2bw one. A schedule that the model or
 * the options do not fit has no row, unless it is asked for by name: interleaved needs
 * micro-batches in groups of S, and twice as many stages.
 *
 * Memory is that of the worker with most: parameters, gradients, optimizer state and the stashed
 * weights, and a workspace of the engine for each micro-batch in flight.
 */
#include "fast/lab.h"

#include "base/memory.h"
#include "run/run.h"
#include "run/team.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OWN = 8, STEPS_MIN = 3 };

/* The measured job; the caller's options come behind these and win. */
static const char *const standard[] = { "model=gpt:depth=8,width=64",
                                        "data=copy",
                                        "batch=4",
                                        "accumulate=8",
                                        "mesh=pipe=4",
                                        "transport=sim",
                                        "steps=12",
                                        "evaluate=no",
                                        "store=none" };
enum { STANDARD = sizeof standard / sizeof standard[0] };

/* A schedule that all models with stages have, without the options that only others have. */
static const char *const plain[] = { "pipeline=1f1b",       "chunks=0",
                                     "vertical_sync=no",    "pipe_delay=1",
                                     "pipe_extrapolate=no", "pipe_lr_steps=0",
                                     "pipe_active=0" };
enum { PLAIN = sizeof plain / sizeof plain[0] };
_Static_assert((int)PLAIN < (int)OWN, "they fit behind the caller's options");

/* The schedules, in the order of the table. */
static const char *const schedules[] = { "gpipe",     "1f1b",          "interleaved", "zero_bubble",
                                         "pipedream", "pipedream_2bw", "stale",       "ampnet" };
enum { SCHEDULES = sizeof schedules / sizeof schedules[0] };

/* A measurement under way. */
typedef struct pipeline_bench {
    const char **options;    /* the standard ones, the caller's, then OWN of the schedule's */
    int64_t count;           /* options before the schedule's own */
    int64_t steps;           /* of a drained schedule */
    int64_t micro_batches;   /* of one of its steps */
    bool named;              /* the caller asked for one schedule */
    const fast_run *run;     /* of the schedule; NULL between two */
    int64_t from, to;        /* steps that count; to < from: the logs are too short */
    fast_pipeline_measure m; /* of the schedule */
} pipeline_bench;

/* The log of a worker. */
static const fast_pipe_log *log_of(const fast_run *run, int64_t worker)
{
    FAST_ASSERT(run->team->actors[worker] != NULL);
    return &run->team->actors[worker]->context.pipe.log;
}

/* The last step of which a log has all passes; -1: none. */
static int64_t last_step(const fast_pipe_log *log)
{
    const int64_t count = atomic_load(&log->count);

    return count == 0 ? -1 : log->entries[count - 1].step - (count == log->size);
}

/* Time of a log's passes between two times, ns. */
static double busy_ns(const fast_pipe_log *log, double from, double to)
{
    double sum = 0;

    for (int64_t i = 0; i < atomic_load(&log->count); i++)
        sum += fmax(0, fmin((double)log->entries[i].end, to) -
                           fmax((double)log->entries[i].begin, from));
    return sum;
}

/* When the passes of a step begin and end in a log. */
static void span_of(const fast_pipe_log *log, int64_t step, double *begin, double *end)
{
    for (int64_t i = 0; i < atomic_load(&log->count); i++)
        if (log->entries[i].step == step) {
            *begin = fmin(*begin, (double)log->entries[i].begin);
            *end = fmax(*end, (double)log->entries[i].end);
        }
}

/* Time of all workers' passes between two times, ns. */
static double all_busy_ns(const fast_run *run, double from, double to)
{
    double sum = 0;

    for (int64_t i = 0; i < run->config.workers; i++)
        sum += busy_ns(log_of(run, i), from, to);
    return sum;
}

/* The bubble of workers that were busy for a part of a time; NAN where passes take no time. */
static double bubble_of(const pipeline_bench *b, double busy_ns, double time_ns)
{
    return busy_ns > 0 ? 1 - busy_ns / (time_ns * (double)b->run->config.workers) : NAN;
}

/* The bubble of steps that are drained: the time between two of them is not in it. */
static double drained_bubble(const pipeline_bench *b)
{
    double busy = 0, all = 0;

    for (int64_t step = b->from; step <= b->to; step++) {
        double begin = INFINITY, end = 0;

        for (int64_t i = 0; i < b->run->config.workers; i++)
            span_of(log_of(b->run, i), step, &begin, &end);
        busy += all_busy_ns(b->run, begin, end);
        all += end - begin;
    }
    return bubble_of(b, busy, all);
}

/* Step time and bubble by the logs of all workers. */
static void read_logs(pipeline_bench *b, const fast_pipe_place *place)
{
    const fast_pipe_log *first = log_of(b->run, 0);
    const bool drains = fast__pipe_drains(place->pipeline);
    double begin = INFINITY, end = 0, before = 0;

    b->to = INT64_MAX;
    for (int64_t i = 0; i < b->run->config.workers; i++) {
        const int64_t last = last_step(log_of(b->run, i));

        b->to = last < b->to ? last : b->to;
    }
    const int64_t fill = (place->stages + place->micro_batches - 1) / place->micro_batches;
    b->from = drains ? 1 : fill;
    b->to -= drains ? 0 : fill;
    if (b->to < b->from)
        return;
    span_of(first, b->from - 1, &begin, &before);
    span_of(first, b->to, &begin, &end);
    b->m.step_s = (end - before) * 1e-9 / (double)(b->to - b->from + 1) *
                  (double)(b->micro_batches / place->micro_batches);
    b->m.bubble =
        drains ? drained_bubble(b) : bubble_of(b, all_busy_ns(b->run, before, end), end - before);
    b->m.bubble_expected = drains ? fast__pipe_bubble(place) : NAN;
}

/* Bytes of a worker: its state, and a workspace for each micro-batch in flight. */
static int64_t memory_of(const fast_run *run, int64_t worker)
{
    const fast_context *context = &run->team->actors[worker]->context;
    const int64_t state = fast__context_state_bytes(context);

    return state + fast__split_workspace_bytes(run->team, worker);
}

/* Read what a run that ended tells. */
static void read_run(pipeline_bench *b)
{
    const fast_run *run = b->run;
    const fast_pipe_place *place = &run->team->actors[0]->context.pipe.options.place;
    const double samples = (double)(b->micro_batches * run->config.batch * run->config.split.data);

    b->m.stages = run->config.split.pipe;
    b->m.micro_batches = b->micro_batches;
    b->m.step_s = samples / run->result.samples_per_s;
    b->m.bubble = b->m.bubble_expected = NAN;
    b->m.staleness = run->result.staleness_max > 0 ? run->result.staleness_max : 0;
    for (int64_t i = 0; i < run->config.workers; i++) {
        const int64_t flight = run->team->actors[i]->context.pipe.in_flight_max;
        const int64_t memory = memory_of(run, i);

        b->m.in_flight = flight > b->m.in_flight ? flight : b->m.in_flight;
        b->m.memory = memory > b->m.memory ? memory : b->m.memory;
    }
    read_logs(b, place);
}

/* Does the schedule update after each micro-batch? The others accumulate. */
static bool updates_each(const char *pipeline)
{
    return strcmp(pipeline, "pipedream") == 0 || strcmp(pipeline, "stale") == 0 ||
           strcmp(pipeline, "ampnet") == 0;
}

/* Train with one schedule. */
static fast_err measure(pipeline_bench *b, const char *pipeline, fast_pipeline_fn *report,
                        void *ctx)
{
    const bool single = updates_each(pipeline);
    char own[3][128];
    fast_run *run = NULL;

    snprintf(own[0], sizeof own[0], "pipeline=%s", pipeline);
    snprintf(own[1], sizeof own[1], "accumulate=%lld", single ? 1 : (long long)b->micro_batches);
    snprintf(own[2], sizeof own[2], "steps=%lld",
             (long long)(b->steps * (single ? b->micro_batches : 1)));
    for (int64_t i = 0; i < 3; i++)
        b->options[b->count + i] = own[i];
    b->options[b->count + 3] = NULL;
    fast_err err = fast_run_open(b->options, &run);
    if (err)
        return err == FAST_EINVAL && !b->named ? FAST_OK : err;
    err = fast_run_train(run);
    if (!err) {
        b->run = run;
        b->m = (fast_pipeline_measure){ .pipeline = pipeline,
                                        .transport = fast_run_option(run, "transport") };
        read_run(b);
        report(ctx, &b->m);
        b->run = NULL;
    }
    fast_run_close(run);
    return err;
}

/* Check what all schedules share; the name of the only one that is asked for, or "". */
static fast_err read_shared(pipeline_bench *b, char *only, size_t size)
{
    fast_run *run = NULL;
    fast_err err = FAST_OK;

    only[0] = '\0';
    for (int64_t i = STANDARD; i < b->count; i++)
        if (strncmp(b->options[i], "pipeline=", 9) == 0)
            snprintf(only, size, "%s", b->options[i] + 9);
    for (int64_t i = 0; i < PLAIN; i++)
        b->options[b->count + i] = plain[i];
    b->options[b->count + PLAIN] = NULL;
    FAST_TRY(fast_run_open(b->options, &run));
    b->steps = run->config.steps;
    b->micro_batches = run->config.accumulate;
    if (run->config.split.pipe < 2)
        err = fast__fail(FAST_EINVAL,
                         "fast bench pipeline: mesh=%s has no stages; give mesh=pipe=2, or more",
                         run->config.mesh);
    else if (run->config.split.replicas[0]) /* most schedules refuse them */
        err = fast__fail(FAST_EINVAL,
                         "fast bench pipeline: mesh=%s has replicas of single stages, and the "
                         "schedules are compared with as many of each; give data",
                         run->config.mesh);
    else if (b->steps < STEPS_MIN)
        err = fast__fail(FAST_EINVAL,
                         "fast bench pipeline: steps=%lld, but the first one does not count; "
                         "give at least %d",
                         (long long)b->steps, STEPS_MIN);
    else if (strcmp(fast_run_option(run, "transport"), "mpi") == 0)
        err = fast__fail(FAST_EINVAL, "fast bench pipeline: the passes of other processes are not "
                                      "seen; take transport=threads or sim");
    fast_run_close(run);
    return err;
}

fast_err fast_bench_pipeline(const char *const *options, fast_pipeline_fn *report, void *ctx)
{
    pipeline_bench b = { .count = STANDARD };
    char only[128];
    fast_err err;

    FAST_ASSERT(report != NULL);
    for (int64_t i = 0; options && options[i]; i++)
        b.count++;
    FAST_TRY(fast__alloc("options", b.count + OWN, sizeof *b.options, &b.options));
    memcpy(b.options, standard, sizeof standard);
    for (int64_t i = STANDARD; i < b.count; i++)
        b.options[i] = options[i - STANDARD];
    err = read_shared(&b, only, sizeof only);
    b.named = only[0] != '\0';
    for (int64_t i = 0; !err && !only[0] && i < SCHEDULES; i++)
        err = measure(&b, schedules[i], report, ctx);
    if (!err && only[0])
        err = measure(&b, only, report, ctx);
    fast__free(b.options);
    return err;
}
