/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small networks of every family, with what engines find hard: odd channels, branches and joins, a
 * node with several consumers, a node that nobody uses, the same node twice, strides, a loss over
 * positions; and jobs, which run them between guards.
 */
#include "jobs.h"

#include "base/memory.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void mlp(test_graph *g)
{
    test_graph_begin(g, "13", 0);
    test_graph_then(g, "dense out=19");
    test_graph_then(g, "relu");
    test_graph_then(g, "dense out=17 norm=1");
    test_graph_then(g, "tanh");
    test_graph_then(g, "dropout a=0.3");
    test_graph_then(g, "dense out=5");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0.1F);
}

static void lenet(test_graph *g)
{
    test_graph_begin(g, "1x28x28", 0);
    test_graph_then(g, "conv out=20 kernel=5");
    test_graph_then(g, "max_pool kernel=2");
    test_graph_then(g, "relu");
    test_graph_then(g, "conv out=50 kernel=5");
    test_graph_then(g, "max_pool kernel=2");
    test_graph_then(g, "relu");
    test_graph_then(g, "dense out=500");
    test_graph_then(g, "relu");
    test_graph_then(g, "dense out=10");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

/* The other order of activation and pool, odd images, a leaky one. */
static void odd_net(test_graph *g)
{
    test_graph_begin(g, "3x11x9", 0);
    test_graph_then(g, "conv out=7 kernel=3 pad=1 stride=2x1");
    test_graph_then(g, "relu");
    test_graph_then(g, "max_pool kernel=3 stride=2 pad=1");
    test_graph_then(g, "conv out=6 kernel=3x1 norm=1");
    test_graph_then(g, "leaky_relu a=0.2");
    test_graph_then(g, "avg_pool kernel=1x2 stride=1");
    test_graph_then(g, "flatten");
    test_graph_then(g, "dense out=4");
    test_graph_end(g, FAST_LOSS_MSE, 0);
}

static int residual(test_graph *g, int in, const char *first, const char *shortcut)
{
    test_graph_add1(g, first, in);
    test_graph_then(g, "batch_norm");
    test_graph_then(g, "relu");
    test_graph_then(g, "conv out=10 kernel=3 pad=1 bias=0");
    const int main = test_graph_then(g, "batch_norm ghost=4");
    const int side = shortcut ? test_graph_add1(g, shortcut, in) : in;
    test_graph_add2(g, "add", main, side);
    return test_graph_then(g, "relu");
}

static void resnet(test_graph *g)
{
    test_graph_begin(g, "3x8x8", 0);
    test_graph_then(g, "conv out=10 kernel=3 pad=1 bias=0");
    test_graph_then(g, "batch_norm");
    int at = test_graph_then(g, "relu");
    at = residual(g, at, "conv out=10 kernel=3 pad=1 bias=0", NULL);
    at = residual(g, at, "conv out=10 kernel=3 pad=1 stride=2 bias=0",
                  "conv out=10 kernel=1 stride=2 bias=0");
    test_graph_add1(g, "global_pool", at);
    test_graph_then(g, "dense out=6");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

static void densenet(test_graph *g)
{
    test_graph_begin(g, "2x6x6", 0);
    int at = test_graph_then(g, "conv out=5 kernel=3 pad=1");
    for (int i = 0; i < 3; i++) {
        test_graph_add1(g, "batch_norm", at);
        test_graph_then(g, "relu");
        const int made = test_graph_then(g, "conv out=3 kernel=3 pad=1 bias=0");
        at = test_graph_add2(g, "concat", at, made);
    }
    test_graph_then(g, "avg_pool kernel=2");
    test_graph_then(g, "gelu");
    test_graph_then(g, "dense out=7");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0.05F);
}

static void language(test_graph *g, const char *kind)
{
    test_graph_begin(g, "6", 13);
    test_graph_then(g, "embed out=8");
    test_graph_then(g, kind);
    test_graph_then(g, "dropout a=0.2");
    test_graph_then(g, kind);
    test_graph_then(g, "dense out=13");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

static void rnn(test_graph *g)
{
    language(g, "rnn out=9");
}

static void lstm(test_graph *g)
{
    language(g, "lstm out=9");
}

static void gru(test_graph *g)
{
    language(g, "gru out=9");
}

static void gpt(test_graph *g)
{
    test_graph_begin(g, "7", 11);
    int at = test_graph_then(g, "embed out=12 position=1");
    for (int i = 0; i < 2; i++) {
        test_graph_add1(g, "layer_norm", at);
        test_graph_then(g, "attention heads=3");
        at = test_graph_add2(g, "add", at, test_graph_then(g, "dropout a=0.1"));
        test_graph_add1(g, "layer_norm", at);
        test_graph_then(g, "dense out=48");
        test_graph_then(g, "gelu");
        at = test_graph_add2(g, "add", at, test_graph_then(g, "dense out=12"));
    }
    test_graph_add1(g, "layer_norm", at);
    test_graph_then(g, "dense out=11 bias=0");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

/* One node with many consumers, one that nobody uses, one taken twice by the same node; branches
 * of the input itself; sequences reduced to vectors. */
static void branches(test_graph *g)
{
    test_graph_begin(g, "5x6", 0);
    const int a = test_graph_add1(g, "dense out=6", 0);
    const int b = test_graph_add1(g, "sigmoid", a);
    test_graph_add1(g, "dense out=3", a); /* nobody uses it */
    const int twice = test_graph_add2(g, "add", b, b);
    const int sum = test_graph_add(g, "add", 3, (const int[]){ a, twice, 0 });
    const int soft = test_graph_add1(g, "softmax", sum);
    const int joined = test_graph_add(g, "concat", 3, (const int[]){ soft, 0, a });
    const int last = test_graph_add1(g, "last", joined);
    const int mean = test_graph_add1(g, "global_pool", joined);
    test_graph_add2(g, "concat", last, mean);
    test_graph_then(g, "batch_norm");
    test_graph_then(g, "dense out=3");
    test_graph_end(g, FAST_LOSS_MSE, 0);
}

/* An operator of the user's between layers. */
static void custom(test_graph *g)
{
    test_graph_begin(g, "4x3x5", 0);
    test_graph_then(g, "conv out=6 kernel=3 pad=1");
    test_graph_reshape(g, "15x6", g->graph.node_count - 1);
    test_graph_then(g, "dense out=4");
    test_graph_reshape(g, "60", g->graph.node_count - 1);
    test_graph_then(g, "dense out=8");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

/* Losses on the way: of an output that nobody reads, of one that others read, of one that is the
 * input of the last layer too. */
static void heads(test_graph *g)
{
    test_graph_begin(g, "9", 0);
    const int trunk = test_graph_add1(g, "dense out=11", 0);
    const int base = test_graph_add1(g, "tanh", trunk);
    const int side = test_graph_add1(g, "dense out=4", base);
    test_graph_add1(g, "head a=0.3 b=0.1", side); /* nobody uses it */
    const int a = test_graph_add1(g, "dense out=4", base);
    const int b = test_graph_add1(g, "head a=0.5", a);
    test_graph_add(g, "concat", 3, (const int[]){ b, a, base });
    test_graph_then(g, "dense out=4");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0.05F);
}

/* Modules that learn from a loss each, and no gradient between them; together they answer a row of
 * targets, and the loss of all is for evaluation. */
static void stacked(test_graph *g)
{
    test_graph_begin(g, "7", 0);
    test_graph_add1(g, "dense out=9", 0);
    test_graph_then(g, "sigmoid");
    test_graph_then(g, "dense out=2");
    test_graph_then(g, "head a=1.5 first=1");
    const int below = test_graph_then(g, "detach");
    test_graph_add2(g, "concat", below, 0);
    test_graph_then(g, "dense out=8");
    test_graph_then(g, "tanh");
    test_graph_then(g, "dense out=3");
    test_graph_then(g, "head a=0.7");
    test_graph_end(g, FAST_LOSS_MSE, 0);
    g->graph.loss_use = FAST_LOSS_EVALUATED;
}

/* A loss at each position of a sequence. */
static void head_rows(test_graph *g)
{
    test_graph_begin(g, "6x3", 0);
    test_graph_then(g, "rnn out=7");
    const int middle = test_graph_then(g, "dense out=3");
    const int head = test_graph_add1(g, "head a=0.4 b=0.2", middle);
    test_graph_add1(g, "rnn out=5", head);
    test_graph_then(g, "dense out=3");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

/* A mixture of experts: each of 9 positions has `top` of 3 experts with 4 slots, so that some find
 * none. */
static void mixture(test_graph *g, int top)
{
    char text[40];

    test_graph_begin(g, "9x6", 0);
    const int x = test_graph_add1(g, "dense out=6", 0);
    const int norm = test_graph_add1(g, "layer_norm", x);
    test_graph_then(g, "dense out=3 bias=0");
    test_graph_then(g, "head a=0.3 balance=1");
    snprintf(text, sizeof(text), "route kind=%d slots=4", top);
    const int route = test_graph_then(g, text);
    test_graph_add2(g, "dispatch slots=12", norm, route);
    test_graph_then(g, "experts out=10 count=3");
    test_graph_then(g, "gelu");
    const int out = test_graph_then(g, "experts out=6 count=3");
    const int back = test_graph_add2(g, "combine", out, route);
    test_graph_add2(g, "add", back, x);
    test_graph_then(g, "dense out=7");
    test_graph_then(g, "tanh");
    test_graph_then(g, "dense out=5");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

static void experts(test_graph *g)
{
    mixture(g, 1);
}

static void experts2(test_graph *g)
{
    mixture(g, 2);
}

const test_network test_networks[] = {
    { "mlp", mlp },           { "lenet", lenet },
    { "odd", odd_net },       { "resnet", resnet },
    { "densenet", densenet }, { "rnn", rnn },
    { "lstm", lstm },         { "gru", gru },
    { "gpt", gpt },           { "branches", branches },
    { "custom", custom },     { "heads", heads },
    { "stacked", stacked },   { "head_rows", head_rows },
    { "experts", experts },   { "experts2", experts2 },
    { NULL, NULL },
};

static float *guarded(int64_t count)
{
    return test_floats(count + 2 * TEST_GUARD) + TEST_GUARD;
}

static void open_memory(test_job *job, const fast_graph *graph, int64_t n)
{
    const fast_node *last = &graph->nodes[graph->node_count - 1];
    *job = (test_job){ .graph = graph, .n = n };
    job->params = test_floats(graph->params.count);
    job->state = test_floats(graph->state.count);
    job->x = test_floats(n * graph->nodes[0].count);
    job->targets = test_floats(n * last->count);
    job->labels = (int32_t *)(void *)test_floats(n * graph->positions);
    job->grad = guarded(graph->params.count);
    job->outputs = guarded(n * last->count);
    job->state_after = guarded(graph->state.count);
    test_fill(99, n * last->count, 1.0F, job->targets);
    for (int64_t i = 0; i < n * graph->positions; i++)
        job->labels[i] = (int32_t)(i * 5 % graph->outputs);
}

void test_job_open(test_job *job, const fast_graph *graph, int64_t n, uint64_t seed)
{
    open_memory(job, graph, n);
    for (int64_t s = 0; s < graph->params.segment_count; s++) {
        const fast_segment *segment = &graph->params.segments[s];
        const float fan = (float)(segment->count / segment->shape[0]);
        test_fill(seed + (uint64_t)s, segment->count, fan > 1 ? 2.0F / sqrtf(fan) : 0.9F,
                  job->params + segment->offset);
    }
    for (int64_t s = 0; s < graph->state.segment_count; s++)
        for (int64_t i = 0; i < graph->state.segments[s].count; i++)
            job->state[graph->state.segments[s].offset + i] = s % 2 ? 1.2F : 0.1F;
    const int64_t count = job->n * graph->nodes[0].count;
    test_fill(seed + 1000, count, 1.5F, job->x);
    for (int64_t i = 0; graph->tokens && i < count; i++)
        job->x[i] = (float)(i * 7 % graph->vocabulary);
}

void test_job_open_case(test_job *job, const test_graph *g, uint64_t seed)
{
    open_memory(job, &g->graph, g->n);
    test_graph_init(g, seed, job->params, job->state, job->x);
}

void test_job_close(test_job *job)
{
    float *all[] = { job->params,
                     job->state,
                     job->x,
                     job->targets,
                     (float *)(void *)job->labels,
                     job->grad - TEST_GUARD,
                     job->outputs - TEST_GUARD,
                     job->state_after - TEST_GUARD };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        fast__free(all[i]);
}

static const float poison = 1.25e30F;

static void fill_poison(int64_t count, float *inside)
{
    for (int64_t i = -TEST_GUARD; i < count + TEST_GUARD; i++)
        inside[i] = poison;
}

/* Nothing before the first nor after element `count` was written. */
static void check_guards(const char *what, int64_t count, int64_t room, const float *inside)
{
    for (int64_t i = -TEST_GUARD; i < room + TEST_GUARD; i++)
        if ((i < 0 || i >= count) && inside[i] != poison)
            fail_msg("%s: element %lld of %lld was written", what, (long long)i, (long long)count);
}

fast_err test_job_run(test_job *job, const test_runner *runner, const test_job_options *options)
{
    const fast_graph *graph = job->graph;
    const int64_t out = graph->nodes[graph->node_count - 1].count;
    const bool labels = graph->loss == FAST_LOSS_CROSS_ENTROPY;
    const int64_t count = options->count ? options->count : job->n;
    fill_poison(graph->params.count, job->grad);
    fill_poison(job->n * out, job->outputs);
    fill_poison(graph->state.count, job->state_after);
    memcpy(job->state_after, job->state, (size_t)graph->state.count * sizeof(float));
    job->batch = (fast_batch){ .count = count,
                               .x = job->x,
                               .labels = labels ? job->labels : NULL,
                               .targets = labels ? NULL : job->targets,
                               .ids = options->ids };
    job->pass = (fast_pass){ .params = job->params,
                             .state = job->state_after,
                             .batch = &job->batch,
                             .grad = options->evaluate || options->forward ? NULL : job->grad,
                             .train = !options->evaluate,
                             .seed = 7,
                             .step = options->step,
                             .report = options->report,
                             .factor = options->factor,
                             .ctx = options->ctx,
                             .outputs = job->outputs,
                             .loss = -1,
                             .correct = -1,
                             .positions = -1 };
    const fast_err err = runner->engine->run(runner->program, runner->workspace, &job->pass);
    check_guards("outputs", err ? 0 : count * out, job->n * out, job->outputs);
    check_guards("gradient", err || !job->pass.grad ? 0 : graph->params.count, graph->params.count,
                 job->grad);
    check_guards("state", graph->state.count, graph->state.count, job->state_after);
    return err;
}

double test_job_distance(const test_job *a, const test_job *b)
{
    const fast_graph *graph = a->graph;
    const int64_t out = a->batch.count * graph->nodes[graph->node_count - 1].count;
    double far = test_distance(out, a->outputs, b->outputs, 1e-3);
    far = fmax(far, test_distance(graph->state.count, a->state_after, b->state_after, 1e-3));
    far = fmax(far, fabs(a->pass.loss - b->pass.loss) / fmax(1e-3, fabs(b->pass.loss)));
    double large = 0;
    for (int64_t i = 0; a->pass.grad && i < graph->params.count; i++)
        large = fmax(large, fabs((double)b->grad[i]));
    for (int64_t s = 0; a->pass.grad && s < graph->params.segment_count; s++) {
        const fast_segment *segment = &graph->params.segments[s];
        far = fmax(far, test_distance(segment->count, a->grad + segment->offset,
                                      b->grad + segment->offset, fmax(large * 1e-2, 1e-6)));
    }
    return far;
}

bool test_job_same(const test_job *a, const test_job *b)
{
    const fast_graph *graph = a->graph;
    const int64_t out = a->n * graph->nodes[graph->node_count - 1].count;
    return memcmp(a->outputs, b->outputs, (size_t)out * sizeof(float)) == 0 &&
           memcmp(a->grad, b->grad, (size_t)graph->params.count * sizeof(float)) == 0 &&
           memcmp(a->state_after, b->state_after, (size_t)graph->state.count * sizeof(float)) ==
               0 &&
           memcmp(&a->pass.loss, &b->pass.loss, sizeof(double)) == 0 &&
           a->pass.correct == b->pass.correct && a->pass.positions == b->pass.positions;
}
