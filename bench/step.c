/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Question: where does a training step spend its time, step by step of the compiled program,
 * measured in sequence (isolated timings mislead: caches), with the update applied to every
 * reported range? Bound: the textbook's operations at the core's peak; what is printed beside each
 * step is its share.
 *
 *     bench_step [model [batch [steps [optimizer [size]]]]]
 *
 * size: positions of a text, or pixels along a side of an image.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "engine/cpu/cpu.h"
#include "model/network.h"
#include "rule/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    fast_optimizer *optimizer;
    float *w, *g;
    int64_t step;
    int64_t update_ns;
} bench;

static void update(void *ctx, int64_t offset, int64_t count)
{
    bench *b = ctx;
    const int64_t start = fast__clock_thread_ns();

    fast__optimizer_apply(b->optimizer, b->step, 0.01, b->w, b->g, offset, count);
    b->update_ns += fast__clock_thread_ns() - start;
}

static void must(fast_err err)
{
    if (err) {
        fprintf(stderr, "%s\n", fast_error_detail());
        exit(1);
    }
}

static void *floats(int64_t count)
{
    void *p;
    must(fast__alloc("bench", count, sizeof(float), &p));
    return p;
}

/* The least of every time: what the machine's other work did not disturb. */
static void keep_least(int count, int64_t *times, int64_t *least)
{
    for (int i = 0; i < count; i++) {
        if (times[i] < least[i] || !least[i])
            least[i] = times[i];
        times[i] = 0;
    }
}

static void print_steps(const fast_cpu_program *program, const int64_t *times)
{
    const fast_graph *graph = program->base.graph;
    const int S = program->step_count;

    printf("%4s %-12s %10s %9s  %s\n", "step", "node", "forward us", "backward", "by");
    for (int s = 0; s < S; s++)
        printf("%4d %-12s %10.1f %9.1f  %s\n", s,
               fast__op_name(graph->nodes[program->steps[s].node].op), (double)times[s] / 1e3,
               (double)times[2 * S - s] / 1e3, program->steps[s].note);
    printf("     loss         %9.1f\n", (double)times[S] / 1e3);
}

/* Tell whether the model reads text. */
static bool is_text(const char *model)
{
    static const char *const names[] = { "rnn", "lstm", "gru", "gpt" };

    for (int i = 0; i < 4; i++)
        if (strncmp(model, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* A text of `size` tokens, each with an answer, or an image of `size` pixels a side. */
static fast_model_input input_of(bool text, int64_t size)
{
    const fast_model_input image = {
        .rank = 3, .shape = { 1, size, size }, .outputs = 10, .positions = 1
    };
    const fast_model_input tokens = { .rank = 1,
                                      .shape = { size },
                                      .outputs = 96,
                                      .tokens = true,
                                      .vocabulary = 96,
                                      .positions = size };

    return text ? tokens : image;
}

int main(int argc, char **argv)
{
    const char *model = argc > 1 ? argv[1] : "mlp";
    const int64_t batch = argc > 2 ? atoll(argv[2]) : 64, steps = argc > 3 ? atoll(argv[3]) : 200;
    const bool text = is_text(model);
    const fast_model_input input = input_of(text, argc > 5 ? atoll(argv[5]) : text ? 64 : 28);
    fast_graph *graph;
    char *source;
    fast_program *program;
    fast_workspace *workspace;
    bench b = { 0 };

    must(fast__model_open(model, &input, &graph, &source));
    must(fast__optimizer_new(&fast__host, argc > 4 ? argv[4] : "momentum:momentum=0.9",
                             &graph->params, &b.optimizer));
    must(fast__engine_cpu.compile(
        graph, &(fast_engine_options){ .batch = batch, .train = true, .plan_path = getenv("PLAN") },
        &program));
    must(fast__engine_cpu.workspace_new(program, &workspace));
    b.w = floats(graph->params.count);
    b.g = floats(graph->params.count);
    float *state = floats(graph->state.count), *x = floats(batch * graph->nodes[0].count);
    int32_t *labels = floats(batch * graph->positions);
    fast__graph_init(graph, 1, 0, b.w, state);
    for (int64_t i = 0; i < batch * graph->nodes[0].count; i++)
        x[i] = text ? (float)(i * 7 % 96) : (float)(i * 2654435761u % 1000u) / 1000.0f - 0.3f;
    for (int64_t i = 0; i < batch * graph->positions; i++)
        labels[i] = (int32_t)(i * 7 % graph->outputs);
    const fast_batch data = { .count = batch, .x = x, .labels = labels };
    fast_pass pass = { .params = b.w,
                       .state = state,
                       .batch = &data,
                       .grad = b.g,
                       .train = true,
                       .report = update,
                       .ctx = &b };
    const int time_count = 2 * ((fast_cpu_program *)program)->step_count + 2;
    int64_t *times = floats(2 * time_count), *least = floats(2 * time_count);
    int64_t best = INT64_MAX, total = 0;

    for (int64_t s = -steps / 10 - 1; s < steps; s++) {
        ((fast_cpu_workspace *)workspace)->times = times;
        b.update_ns = 0;
        const int64_t start = fast__clock_thread_ns();
        b.step++;
        must(fast__engine_cpu.run(program, workspace, &pass));
        const int64_t time = fast__clock_thread_ns() - start;
        best = time < best ? time : best;
        total += s < 0 ? 0 : time;
        times[time_count - 1] = b.update_ns;
        keep_least(time_count, times, least);
    }
    print_steps((fast_cpu_program *)program, least);
    const double mean = (double)total / (double)steps;
    printf("%s: update %.1f us of %.1f us a step (best %.1f); %.0f samples/s (best %.0f); %.1f "
           "GFLOP/s of the textbook's at best; workspace %.1f MB; loss %g\n",
           model, (double)least[time_count - 1] / 1e3, mean / 1e3, (double)best / 1e3,
           1e9 * (double)batch / mean, 1e9 * (double)batch / (double)best,
           program->flops_train * (double)batch / (double)best,
           (double)((fast_cpu_program *)program)->memory_count * 4e-6, pass.loss);
    return 0;
}
