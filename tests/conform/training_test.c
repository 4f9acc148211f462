/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: training is PyTorch's. 20 steps of SGD with momentum give the losses that
 * tests/oracle/make_training.py wrote, within 1e-4 relative, on every engine of the build. Method:
 * weights and batches come from the same hash on both sides (the script says how); every loss
 * depends on all gradients before it, so that one wrong derivative shows. The same with the network
 * cut into two and three stages, which run in phases.
 */
#include "base/memory.h"
#include "engine/engine.h"
#include "model/network.h"
#include "split/stage.h"
#include "tensor/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 20, STAGES = 3, BATCHES = 4, X_KEY = 1000, LABEL_KEY = 2000 };

/* Sanitizers look at memory, not at numbers, and emulators at a few of them: there some steps of
 * the small cases are enough. */
#ifdef FAST_SLOW
enum { RUN_STEPS = 3, SLOW = 1 };
#else
enum { RUN_STEPS = STEPS, SLOW = 0 };
#endif

/* The same table as the script's. */
typedef struct training_case {
    const char *name;
    const char *model;
    fast_model_input input;
    int64_t batch;
    double lr;
    bool large; /* too long for slow machines */
} training_case;

#define IMAGE(c, h, w)                                                 \
    {                                                                  \
        .rank = 3, .shape = { c, h, w }, .outputs = 10, .positions = 1 \
    }
#define TEXT(length, tokens_)                                                                      \
    {                                                                                              \
        .rank = 1, .shape = { length }, .outputs = tokens_, .tokens = true, .vocabulary = tokens_, \
        .positions = length                                                                        \
    }

static const training_case cases[] = {
    { "mlp", "mlp", IMAGE(1, 28, 28), 32, 0.02, false },
    { "mlp_mse",
      "mlp:hidden=32x24",
      { .rank = 1, .shape = { 13 }, .outputs = 3, .regression = true },
      16,
      0.05,
      false },
    { "lenet", "lenet", IMAGE(1, 28, 28), 8, 0.02, false },
    { "lenet_64", "lenet", IMAGE(1, 28, 28), 64, 0.02, true },
    { "resnet8", "resnet8", IMAGE(1, 12, 12), 32, 0.001, false },
    { "resnet8_64", "resnet8", IMAGE(1, 28, 28), 64, 0.003, true },
    { "alexnet", "alexnet:width=4,hidden=32,dropout=0", IMAGE(3, 16, 16), 8, 0.1, false },
    { "densenet", "densenet:depth=10,growth=6", IMAGE(3, 12, 12), 32, 0.003, false },
    { "rnn", "rnn:hidden=24,embedding=16", TEXT(12, 20), 8, 0.5, false },
    { "lstm", "lstm:hidden=24,embedding=16,layers=2", TEXT(12, 20), 8, 3.0, false },
    { "gru", "gru:hidden=24,embedding=16", TEXT(12, 20), 8, 1.0, false },
    { "gpt", "gpt:width=32,heads=4,depth=2", TEXT(12, 20), 8, 0.1, false },
};

static void check(fast_err err)
{
    if (err)
        fail_msg("%s", fast_error_detail());
}

static uint32_t hash32(uint32_t key, int64_t i)
{
    uint32_t h = (uint32_t)i * 0x9E3779B1u + key * 0x85EBCA77u;

    h ^= h >> 16;
    h *= 0x85EBCA6Bu;
    h ^= h >> 13;
    h *= 0xC2B2AE35u;
    return h ^ h >> 16;
}

/* Numbers in [-1, 1), exact in a float. */
static float unit(uint32_t key, int64_t i)
{
    return (float)(hash32(key, i) >> 8) * 0x1p-23f - 1.0f;
}

static void set_weights(const fast_graph *graph, float *w)
{
    for (int64_t k = 0; k < graph->params.segment_count; k++) {
        const fast_segment *segment = &graph->params.segments[k];
        const double columns = (double)(segment->count / segment->shape[0]);
        const bool gain = segment->rank == 1 && strstr(segment->name, ".weight");
        const float scale = segment->rank > 1 ? (float)(1 / sqrt(columns)) : 0.1f;
        for (int64_t i = 0; i < segment->count; i++) {
            const float u = scale * unit((uint32_t)k, i);
            w[segment->offset + i] = gain ? 1.0f + u : u;
        }
    }
}

/* One of the batches that are used in rotation. */
typedef struct batch_memory {
    fast_batch batch;
    float *x;
    int32_t *labels;
    float *targets;
} batch_memory;

static void *take(int64_t count)
{
    void *memory = calloc((size_t)count + 1, 4);

    assert_non_null(memory);
    return memory;
}

static void make_tokens(const training_case *c, uint32_t b, batch_memory *m)
{
    const int64_t length = c->input.shape[0];
    const uint32_t vocabulary = (uint32_t)c->input.vocabulary;

    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t t = 0; t < length; t++) {
            const int64_t i = n * (length + 1) + t;
            m->x[n * length + t] = (float)(hash32(X_KEY + b, i) % vocabulary);
            m->labels[n * length + t] = (int32_t)(hash32(X_KEY + b, i + 1) % vocabulary);
        }
}

static void make_batch(const training_case *c, const fast_graph *graph, uint32_t b, batch_memory *m)
{
    const int64_t features = graph->nodes[0].count;

    m->x = take(c->batch * features);
    m->labels = take(c->batch * graph->positions);
    m->targets = take(c->batch * graph->outputs);
    m->batch = (fast_batch){ .count = c->batch,
                             .x = m->x,
                             .labels = c->input.regression ? NULL : m->labels,
                             .targets = c->input.regression ? m->targets : NULL };
    if (c->input.tokens) {
        make_tokens(c, b, m);
        return;
    }
    for (int64_t i = 0; i < c->batch * features; i++)
        m->x[i] = unit(X_KEY + b, i);
    for (int64_t i = 0; i < c->batch; i++)
        m->labels[i] = (int32_t)(hash32(LABEL_KEY + b, i) % (uint32_t)graph->outputs);
    for (int64_t i = 0; i < c->batch * graph->outputs; i++)
        m->targets[i] = unit(LABEL_KEY + b, i);
}

/* A network as stages; one is the whole. */
typedef struct staged {
    const fast_engine *engine;
    int count;
    fast_split_stage *stages[STAGES];
    fast_program *programs[STAGES];
    fast_workspace *workspaces[STAGES];
    float *y[STAGES], *dx[STAGES];
} staged;

/* False if the network cannot be cut into this number of stages. */
static bool staged_open(staged *s, const training_case *c, const fast_graph *graph,
                        const fast_engine *engine, int count)
{
    const fast_engine_options options = { .batch = c->batch, .train = true, .plan_path = "" };
    int ends[STAGES], first = 0;

    *s = (staged){ .engine = engine, .count = count };
    if (fast__split_choose(graph, count, NULL, &fast__split_speed_typical, ends))
        return false;
    for (int i = 0; i < count; i++) {
        check(fast__split_stage_new(graph, first, ends[i], &s->stages[i]));
        check(engine->compile(&s->stages[i]->graph, &options, &s->programs[i]));
        check(engine->workspace_new(s->programs[i], &s->workspaces[i]));
        s->y[i] = take(c->batch * graph->nodes[ends[i]].count);
        s->dx[i] = take(c->batch * graph->nodes[first].count);
        first = ends[i];
    }
    return true;
}

static void staged_close(staged *s)
{
    for (int i = 0; i < s->count; i++) {
        s->engine->workspace_free(s->workspaces[i]);
        s->engine->program_free(s->programs[i]);
        fast__split_stage_free(s->stages[i]);
        free(s->y[i]);
        free(s->dx[i]);
    }
}

/* The gradient of a batch; returns the loss. */
static double staged_run(const staged *s, const fast_batch *batch, const float *w, float *state,
                         float *g)
{
    const int last = s->count - 1;
    fast_pass pass[STAGES] = { 0 };
    fast_batch part[STAGES];

    for (int i = 0; i <= last; i++) {
        part[i] = (fast_batch){ .count = batch->count,
                                .x = i == 0 ? batch->x : s->y[i - 1],
                                .labels = i == last ? batch->labels : NULL,
                                .targets = i == last ? batch->targets : NULL };
        pass[i] = (fast_pass){ .phase = FAST_PASS_FORWARD,
                               .params = w + s->stages[i]->params_offset,
                               .state = state + s->stages[i]->state_offset,
                               .batch = &part[i],
                               .outputs = s->y[i],
                               .train = true };
        check(s->engine->run(s->programs[i], s->workspaces[i], &pass[i]));
    }
    const double loss = pass[last].loss;
    for (int i = last; i >= 0; i--) {
        pass[i].phase = FAST_PASS_BACKWARD;
        pass[i].grad = g + s->stages[i]->params_offset;
        pass[i].outputs_grad = i == last ? NULL : s->dx[i + 1];
        pass[i].inputs_grad = i == 0 ? NULL : s->dx[i];
        check(s->engine->run(s->programs[i], s->workspaces[i], &pass[i]));
    }
    return loss;
}

/* Train on one engine, in stages; gives the losses and the last weights. False if the network
 * cannot be cut so. */
static bool train(const training_case *c, const fast_graph *graph, const fast_engine *engine,
                  int stages, double losses[RUN_STEPS], float *w)
{
    const int64_t n = graph->params.count;
    staged s;
    float *g = take(n);
    float *v = take(n);
    float *state = take(graph->state.count);
    batch_memory batches[BATCHES];

    set_weights(graph, w);
    for (int64_t k = 0; k < graph->state.segment_count; k++)
        for (int64_t i = 0; i < graph->state.segments[k].count; i++)
            state[graph->state.segments[k].offset + i] = k % 2 ? 1.0f : 0.0f;
    for (int b = 0; b < BATCHES; b++)
        make_batch(c, graph, (uint32_t)b, &batches[b]);
    const bool cut = staged_open(&s, c, graph, engine, stages);
    for (int step = 0; step < RUN_STEPS && cut; step++) {
        losses[step] = staged_run(&s, &batches[step % BATCHES].batch, w, state, g);
        for (int64_t i = 0; i < n; i++) {
            v[i] = 0.9f * v[i] + g[i];
            w[i] -= (float)c->lr * v[i];
        }
    }
    if (cut)
        staged_close(&s);
    for (int b = 0; b < BATCHES; b++) {
        free(batches[b].x);
        free(batches[b].labels);
        free(batches[b].targets);
    }
    free(g);
    free(v);
    free(state);
    return cut;
}

static double expected(const fast_tensors *oracle, const char *name, int step)
{
    const fast_tensor *tensor = fast__tensors_find(oracle, name);
    double loss = 0;

    assert_non_null(tensor);
    assert_int_equal(tensor->dtype, FAST_F64);
    assert_int_equal(tensor->count, STEPS);
    memcpy(&loss, (const char *)tensor->data + (size_t)step * sizeof loss, sizeof loss);
    return loss;
}

static void test_losses(void **state)
{
    const training_case *c = *state;
    if (SLOW && c->large)
        skip();
    fast_tensors *oracle = NULL;
    fast_graph *graph = NULL;
    char *text = NULL;

    check(fast__tensors_open(FAST_SOURCE_FOLDER "/tests/oracle/training.safetensors", &oracle));
    check(fast__model_open(c->model, &c->input, &graph, &text));
    float *w = take(graph->params.count);
    for (int e = 0, stages = 1; fast__engines[e];
         e += stages == STAGES, stages = stages % STAGES + 1) {
        double losses[RUN_STEPS];
        double worst = 0;
        if (!train(c, graph, fast__engines[e], stages, losses, w)) {
            assert_true(stages > 2); /* every network of the list can be cut once */
            continue;
        }
        for (int step = 0; step < RUN_STEPS; step++) {
            const double right = expected(oracle, c->name, step);
            const double off = fabs(losses[step] - right) / right;
            worst = fmax(worst, off);
            if (!(off <= 1e-4))
                fail_msg("%s on %s, stages %d: step %d has loss %.9g, PyTorch %.9g", c->name,
                         fast__engines[e]->name, stages, step, losses[step], right);
        }
        print_message("%-10s on %-3s in %d stages off by at most %.1e\n", c->name,
                      fast__engines[e]->name, stages, worst);
    }
    free(w);
    fast__graph_free(graph);
    fast__free(text);
    fast__tensors_close(oracle);
}

int main(void)
{
    enum { COUNT = sizeof cases / sizeof cases[0] };
    struct CMUnitTest tests[COUNT];

    for (int i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){ .name = cases[i].name,
                                        .test_func = test_losses,
                                        .initial_state = (void *)(uintptr_t)&cases[i] };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
