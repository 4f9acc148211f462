/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Question: how much of the speed of workers that exchange nothing can workers reach that wait for
 * each other at every step, if the exchange itself is free? Each thread trains a model of its own;
 * `free` lets it run, `barrier` makes all wait for the slowest at the end of each step. Bound: the
 * mean time of a step over the mean of the largest of the threads' times, from the free runs.
 *
 *     bench_barrier [model [threads [steps [batch [rounds]]]]]
 *
 * Rounds of free and barrier alternate; `core` binds the threads. Times are wall times: on a
 * machine with other programs the bound falls, for every synchronous program.
 */
#include "base/binding.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "engine/cpu/cpu.h"
#include "model/network.h"
#include "rule/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench bench;

/* One thread: a model, its rule and the times of its steps. */
typedef struct bench_worker {
    bench *shared;                 /* the run, of all threads */
    int64_t index;                 /* its number */
    fast_workspace *workspace;     /* of its passes */
    fast_optimizer *optimizer;     /* its rule */
    float *w, *g, *state;          /* its model */
    int64_t step;                  /* steps so far, for the rule */
    int64_t *times;                /* [steps] ns of the steps, waits left out */
    int64_t update_ns;             /* of its updates in the last run */
    int64_t end;                   /* when the last run ended */
    fast_thread thread;            /* that runs it */
    _Alignas(128) atomic_llong at; /* steps that it has ended: the barrier */
} bench_worker;

/* A run. */
struct bench {
    int64_t threads, steps;         /* numbers of them */
    fast_program *program;          /* of all */
    fast_batch data;                /* the batch that all train on */
    bool barrier;                   /* wait for all at the end of each step */
    fast_binding *binding;          /* to cores; or NULL */
    _Alignas(128) atomic_int ready; /* threads that have warmed up */
    bench_worker *workers;          /* [threads] */
};

static void must(fast_err err)
{
    if (err) {
        fprintf(stderr, "%s\n", fast_error_detail());
        exit(1);
    }
}

static void *blocks(int64_t count, size_t size)
{
    void *p;
    must(fast__alloc("bench", count, size, &p));
    return p;
}

static void update(void *ctx, int64_t offset, int64_t count)
{
    bench_worker *w = ctx;
    const int64_t start = fast__clock_ns();

    fast__optimizer_apply(w->optimizer, w->step, 1e-4, w->w, w->g, offset, count);
    w->update_ns += fast__clock_ns() - start;
}

/* Train one step. */
static void train(bench_worker *w)
{
    fast_pass pass = { .params = w->w,
                       .state = w->state,
                       .batch = &w->shared->data,
                       .grad = w->g,
                       .train = true,
                       .report = update,
                       .ctx = w };

    w->step++;
    must(fast__engine_cpu.run(w->shared->program, w->workspace, &pass));
}

/* Wait until all threads have ended `steps` steps. */
static void wait_for_all(bench *b, int64_t steps)
{
    for (int64_t i = 0; i < b->threads; i++)
        while (atomic_load_explicit(&b->workers[i].at, memory_order_acquire) < steps)
            fast__cpu_pause();
}

/* One thread's run. */
static void *run(void *ctx)
{
    bench_worker *w = ctx;
    bench *b = w->shared;

    fast__cpu_go(0, w->index);
    if (b->binding)
        fast__binding_apply(b->binding, fast__binding_place(b->binding, w->index, b->threads));
    for (int i = 0; i < 3; i++)
        train(w);
    w->update_ns = 0;
    atomic_store(&w->at, 0);
    atomic_fetch_add(&b->ready, 1);
    while (atomic_load(&b->ready) < b->threads)
        fast__cpu_pause();
    for (int64_t s = 0; s < b->steps; s++) {
        const int64_t start = fast__clock_ns();

        train(w);
        w->times[s] = fast__clock_ns() - start;
        atomic_store_explicit(&w->at, s + 1, memory_order_release);
        if (b->barrier)
            wait_for_all(b, s + 1);
    }
    w->end = fast__clock_ns();
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* Run all threads once and print a line; return the time of a step. */
static double measure(bench *b, const char *what)
{
    const int64_t all = b->threads * b->steps, start = fast__clock_ns();
    int64_t *times = blocks(all, sizeof *times), end = start, update_ns = 0;
    double mean = 0, largest = 0, slowest = 0, fastest = 1e30;

    atomic_store(&b->ready, 0);
    for (int64_t i = 0; i < b->threads; i++)
        must(fast__thread_start(&b->workers[i].thread, run, &b->workers[i]));
    for (int64_t i = 0; i < b->threads; i++)
        fast__thread_join(&b->workers[i].thread);
    for (int64_t i = 0; i < b->threads; i++) {
        const bench_worker *w = &b->workers[i];
        double own = 0;

        for (int64_t s = 0; s < b->steps; s++)
            own += (double)(times[i * b->steps + s] = w->times[s]);
        update_ns += w->update_ns;
        mean += own / (double)all;
        slowest = own > slowest ? own : slowest;
        fastest = own < fastest ? own : fastest;
        end = w->end > end ? w->end : end;
    }
    for (int64_t s = 0; s < b->steps; s++) {
        int64_t most = 0;

        for (int64_t i = 0; i < b->threads; i++)
            most = b->workers[i].times[s] > most ? b->workers[i].times[s] : most;
        largest += (double)most / (double)b->steps;
    }
    qsort(times, (size_t)all, sizeof *times, by_value);
    const double steps = (double)b->steps;
    printf("%-14s step %7.0f us (update %5.0f; 10%% %7.0f, 50%% %7.0f, 90%% %7.0f, 99%% %7.0f); "
           "threads %.0f to %.0f; largest of a step %7.0f: bound %.2f\n",
           what, mean / 1e3, (double)update_ns / 1e3 / (double)all, (double)times[all / 10] / 1e3,
           (double)times[all / 2] / 1e3, (double)times[all * 9 / 10] / 1e3,
           (double)times[all * 99 / 100] / 1e3, fastest / steps / 1e3, slowest / steps / 1e3,
           largest / 1e3, mean / largest);
    fflush(stdout);
    fast__free(times);
    return b->barrier ? largest : mean;
}

int main(int argc, char **argv)
{
    const char *model = argc > 1 ? argv[1] : "mlp";
    const int64_t threads = argc > 2 ? atoll(argv[2]) : fast__cpu_count();
    const int64_t steps = argc > 3 ? atoll(argv[3]) : 200, batch = argc > 4 ? atoll(argv[4]) : 64;
    const int rounds = argc > 5 ? atoi(argv[5]) : 3;
    const fast_model_input input = {
        .rank = 3, .shape = { 1, 28, 28 }, .outputs = 10, .positions = 1
    };
    bench b = { .threads = threads, .steps = steps };
    fast_graph *graph;
    char *source;

    must(fast__model_open(model, &input, &graph, &source));
    must(fast__engine_cpu.compile(
        graph, &(fast_engine_options){ .batch = batch, .train = true, .plan_path = getenv("PLAN") },
        &b.program));
    float *x = blocks(batch * graph->nodes[0].count, sizeof *x);
    int32_t *labels = blocks(batch, sizeof *labels);
    for (int64_t i = 0; i < batch * graph->nodes[0].count; i++)
        x[i] = (float)(i * 2654435761u % 1000u) / 1000.0f - 0.3f;
    for (int64_t i = 0; i < batch; i++)
        labels[i] = (int32_t)(i * 7 % graph->outputs);
    b.data = (fast_batch){ .count = batch, .x = x, .labels = labels };
    b.workers = blocks(threads, sizeof *b.workers);
    for (int64_t i = 0; i < threads; i++) {
        bench_worker *w = &b.workers[i];

        *w = (bench_worker){ .shared = &b, .index = i };
        must(fast__engine_cpu.workspace_new(b.program, &w->workspace));
        must(fast__optimizer_new(&fast__host, "momentum:momentum=0.9", &graph->params,
                                 &w->optimizer));
        w->w = blocks(graph->params.count, sizeof *w->w);
        w->g = blocks(graph->params.count, sizeof *w->g);
        w->state = blocks(graph->state.count, sizeof *w->state);
        w->times = blocks(steps, sizeof *w->times);
        fast__graph_init(graph, 1, (uint64_t)i, w->w, w->state);
    }
    printf("%s, %lld threads, %lld steps of %lld samples\n", model, (long long)threads,
           (long long)steps, (long long)batch);
    for (int r = 0; r < rounds; r++)
        for (int bound = 0; bound < 2; bound++) {
            double times[2];

            if (bound && !b.binding && fast__binding_new(FAST_BIND_CORE, NULL, &b.binding))
                continue;
            fast_binding *const binding = b.binding;
            b.binding = bound ? binding : NULL;
            for (int barrier = 0; barrier < 2; barrier++) {
                char what[32];

                b.barrier = barrier;
                snprintf(what, sizeof what, "%s%s", barrier ? "barrier" : "free",
                         bound ? ", core" : "");
                times[barrier] = measure(&b, what);
            }
            b.binding = binding;
            printf("%-14s %.2f of the speed without\n", bound ? "barrier, core" : "barrier",
                   times[0] / times[1]);
        }
    return 0;
}
