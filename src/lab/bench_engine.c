/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast bench engine`: training steps of a whole model, then its layers one by one, beside what the
 * core's multiply-adds allow (peak.c).
 *
 * A layer is timed by itself (layer_time.c), in small networks whose operands are in the cache, so
 * that the parts do not add up to the whole: the whole is the figure that counts. Only layers with
 * matrix products are shown.
 *
 * Question: what fraction of the core's arithmetic does training reach? A model of F operations a
 * sample, forward and backward, cannot exceed peak / F samples a second: at 96 GFLOP/s and F = 1
 * million that is 96,000. Expected: layers with large products come close to the bound, the whole
 * model stays below its layers, as it also moves activations, applies the update and reads data.
 *
 * The whole model counts by its median step, because that is what a user waits for; layers count by
 * their fastest pass, because a difference of two times has the noise of both. A difference
 * below 2% of the pass is lost in that noise and is shown as 2%.
 */
#include "base/clock.h"
#include "lab/bench.h"
#include "lab/layer_time.h"
#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES_MAX = 512, PASSES_MIN = 5, LAYER_NS = 300000000 };

/* Order of times, for qsort(). */
static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The median of times, in seconds; sorts them. */
static double median_s(int64_t *times_ns, int count)
{
    FAST_ASSERT(count > 0);
    qsort(times_ns, (size_t)count, sizeof *times_ns, compare);
    return (double)times_ns[count / 2] * 1e-9;
}

/* Measure one layer of the model and report it beside the bound. */
static fast_err bench_layer(const fast_run *run, int node, double peak, fast_measure_fn *report,
                            void *ctx)
{
    const fast_graph *graph = run->graph;
    const bool input_needed = graph->nodes[node].inputs[0] != 0;
    const double flops = fast__node_flops_forward(graph, node) +
                         fast__node_flops_backward(graph, node, input_needed);
    double seconds = 0;
    const fast_layer_bench bench = { run->engine, fast__run_engine_options(run), graph, LAYER_NS,
                                     PASSES_MIN };
    FAST_TRY(fast__layer_time(&bench, node, &seconds));

    char layer[FAST_SEGMENT_NAME_MAX];
    const fast_segment *segment = &graph->params.segments[graph->nodes[node].weight[0]];
    snprintf(layer, sizeof layer, "%s", segment->name);
    char *dot = strrchr(layer, '.');
    if (dot)
        *dot = '\0';
    const double rate = (double)run->config.batch / seconds;
    const fast_engine *by = run->program->engine;
    const fast_measure measure = {
        .model = run->config.model,
        .layer = layer,
        .method = by->describe ? by->describe(run->program, node) : NULL,
        .samples_per_s = rate,
        .gflops = flops * rate * 1e-9,
        .bound_fraction = flops * rate / peak,
    };
    report(ctx, &measure);
    return FAST_OK;
}

/* Report of a gradient: update the range, as a run of one worker does. */
static void update_range(void *ctx, int64_t offset, int64_t count)
{
    const fast_run *run = ctx;
    fast__optimizer_apply(run->optimizer, run->step + 1, run->config.rate, run->learner->w,
                          run->learner->g, offset, count);
}

/* One training step of the whole model: gradient and update. */
static fast_err take_step(fast_run *run)
{
    const bool by_range = fast__optimizer_by_range(run->optimizer);
    fast_gradient gradient = { .step = run->step,
                               .report = by_range ? update_range : NULL,
                               .ctx = run };
    FAST_TRY(run->learner->ops->gradient(run->learner, &gradient));
    if (!by_range)
        update_range(run, 0, run->learner->params.count);
    run->step++;
    return FAST_OK;
}

fast_err fast__bench_step(fast_run *run, double *median_out, double *least_out)
{
    int64_t times_ns[PASSES_MAX], least_ns = INT64_MAX;
    int count = 0;
    FAST_TRY(take_step(run)); /* the first one pays for pages and caches */
    for (int64_t total_ns = 0;
         count < PASSES_MAX && (count < PASSES_MIN || total_ns < 1500000000);) {
        const int64_t begin_ns = fast__run_now(run), thread_ns = fast__clock_thread_ns();
        FAST_TRY(take_step(run));
        const int64_t spent_ns = fast__clock_thread_ns() - thread_ns;
        least_ns = spent_ns < least_ns ? spent_ns : least_ns;
        times_ns[count] = fast__run_now(run) - begin_ns;
        total_ns += times_ns[count++];
    }
    *median_out = median_s(times_ns, count);
    *least_out = (double)least_ns * 1e-9;
    return FAST_OK;
}

/* Training steps of the whole model, updates included. */
static fast_err bench_model(fast_run *run, double peak, fast_measure_fn *report, void *ctx)
{
    double seconds = 0, least = 0;
    FAST_TRY(fast__bench_step(run, &seconds, &least));
    const double rate = (double)run->config.batch / seconds;
    const double flops = run->program->flops_train;
    const fast_measure measure = { .model = run->config.model,
                                   .samples_per_s = rate,
                                   .gflops = flops * rate * 1e-9,
                                   .bound_fraction = flops * rate / peak };
    report(ctx, &measure);
    return FAST_OK;
}

fast_err fast_bench_engine(const char *const *options, fast_measure_fn *report, void *ctx)
{
    FAST_ASSERT(report != NULL);
    fast_run *run = NULL;
    FAST_TRY(fast_run_open(options, &run));
    const double peak = fast__peak_flops();
    fast_err err = bench_model(run, peak, report, ctx);
    for (int node = 1; !err && node < run->graph->node_count; node++)
        if (run->graph->nodes[node].weight[0] >= 0 &&
            fast__node_flops_forward(run->graph, node) > 0)
            err = bench_layer(run, node, peak, report, ctx);
    fast_run_close(run);
    return err;
}
