/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes that are measured. A network runs forward, loss and backward in one; a stage, whose loss
 * is elsewhere, runs its two phases with values of the same sizes as in a pipeline:
 *
 *     network    x -> loss -> gradient
 *     stage      x -> outputs       outputs_grad -> gradient, inputs_grad
 */
#include "run/pass_trial.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "model/network.h"
#include "tensor/vector.h"

enum {
    PASSES = 8,   /* that are measured at most: the first only warms up, */
    MOST_MS = 300 /* and no more after this time, but one */
};

uint64_t fast__pass_trial_hash(const fast_graph *graph)
{
    uint64_t hash = (uint64_t)graph->params.count;

    FAST_ASSERT(graph->node_count > 0);
    for (int i = 0; i < graph->node_count; i++) {
        const fast_node *n = &graph->nodes[i];
        const int64_t words[] = { (int64_t)n->op, n->input_count, n->inputs[0],     n->inputs[1],
                                  n->shape[0],    n->shape[1],    n->shape[2],      n->kernel[0],
                                  n->kernel[1],   n->stride[0],   n->stride[1],     n->pad[0],
                                  n->pad[1],      n->dilation[0], n->dilation[1],   n->groups,
                                  n->heads,       n->ghost,       n->weight[1] >= 0 };

        hash = fast__hash(words, sizeof words, hash);
    }
    return hash;
}

void fast__pass_trial_close(fast_pass_trial *trial)
{
    FAST_ASSERT(!trial->workspace || trial->program != NULL);
    if (trial->workspace)
        trial->program->engine->workspace_free(trial->workspace);
    if (trial->program)
        trial->program->engine->program_free(trial->program);
    fast__free(trial->memory);
    fast__free(trial->labels);
    *trial = (fast_pass_trial){ 0 };
}

/* Is the loss in another part of the network? */
static bool is_stage(const fast_graph *graph)
{
    return graph->loss_use == FAST_LOSS_ELSEWHERE;
}

/* Floats of the answers of a pass: targets, also of heads, or a stage's outputs and gradients. */
static int64_t answers_of(const fast_graph *graph, int64_t size)
{
    const int64_t answers = size * graph->positions;
    const int64_t inputs = graph->input_grad ? size * graph->nodes[0].count : 0;
    int64_t count = answers * graph->outputs;

    FAST_ASSERT(size > 0);
    if (is_stage(graph))
        return size * 2 * graph->nodes[graph->node_count - 1].count + inputs;
    for (int i = 0; i < graph->node_count; i++) /* heads may have more */
        if (graph->nodes[i].op == FAST_OP_HEAD)
            count += answers * graph->nodes[i].columns[1];
    return count + inputs;
}

/* Point the pass of a stage to its values, from `at` on. */
static void fill_stage(const fast_graph *graph, float *at, fast_pass_trial *trial)
{
    const int64_t size = trial->program->batch;
    const int64_t outputs = size * graph->nodes[graph->node_count - 1].count;

    for (int64_t i = 0; i < outputs; i++)
        at[outputs + i] = (float)(i % 7 - 3) * 1e-3f;
    trial->pass.outputs = at;
    trial->pass.outputs_grad = at + outputs;
}

fast_err fast__pass_trial_open(const fast_graph *graph, fast_pass_trial *trial)
{
    const int64_t size = trial->program->batch, params = graph->params.count;
    const int64_t inputs = size * graph->nodes[0].count, positions = size * graph->positions;
    const int64_t answers = answers_of(graph, size);

    FAST_TRY(trial->program->engine->workspace_new(trial->program, &trial->workspace));
    FAST_TRY(fast__alloc("a pass to measure", 3 * params + graph->state.count + inputs + answers,
                         sizeof(float), &trial->memory));
    FAST_TRY(fast__alloc("a pass to measure", positions, sizeof(int32_t), &trial->labels));
    float *w = trial->memory, *state = w + 3 * params, *x = state + graph->state.count;
    fast__graph_init(graph, 1, 0, w, state);
    for (int64_t i = 0; i < inputs; i++)
        x[i] = graph->tokens ? (float)(i % graph->vocabulary) : (float)(i % 11 - 5) * 0.1f;
    for (int64_t i = 0; i < positions; i++)
        trial->labels[i] = (int32_t)(i % graph->outputs);
    const bool labels = graph->loss == FAST_LOSS_CROSS_ENTROPY;
    trial->batch = (fast_batch){ .count = size,
                                 .x = x,
                                 .labels = labels ? trial->labels : NULL,
                                 .targets = labels || is_stage(graph) ? NULL : x + inputs };
    trial->pass = (fast_pass){
        .params = w, .state = state, .batch = &trial->batch, .grad = w + params, .train = true
    };
    if (is_stage(graph))
        fill_stage(graph, x + inputs, trial);
    if (graph->input_grad)
        trial->pass.inputs_grad = x + inputs + answers - inputs;
    return FAST_OK;
}

/* Run the pass, or both phases of a stage's. */
static fast_err run(fast_pass_trial *trial)
{
    const fast_engine *engine = trial->program->engine;

    FAST_ASSERT(trial->workspace != NULL);
    if (!is_stage(trial->program->graph) && !trial->program->graph->input_grad)
        return engine->run(trial->program, trial->workspace, &trial->pass);
    fast_pass ahead = trial->pass, back = trial->pass;
    ahead.phase = FAST_PASS_FORWARD;
    ahead.grad = ahead.inputs_grad = NULL;
    ahead.outputs_grad = NULL;
    back.phase = FAST_PASS_BACKWARD;
    back.outputs = NULL;
    FAST_TRY(engine->run(trial->program, trial->workspace, &ahead));
    return engine->run(trial->program, trial->workspace, &back);
}

fast_err fast__pass_trial_time(fast_pass_trial *trial, double *seconds_out)
{
    const int64_t params = trial->program->graph->params.count, start = fast__clock_thread_ns();
    int64_t best = INT64_MAX;

    FAST_ASSERT(trial->workspace != NULL);
    /* The shortest: other passes had to share caches with other programs. */
    for (int i = 0; i < PASSES; i++) {
        const int64_t begin = fast__clock_thread_ns();

        FAST_TRY(run(trial));
        fast__vector_axpby(params, 0.5f, trial->pass.grad, 1, trial->pass.grad + params);
        const int64_t end = fast__clock_thread_ns();
        if (i > 0 && end - begin < best)
            best = end - begin;
        if (i > 0 && end - start > (int64_t)MOST_MS * 1000000)
            break;
    }
    *seconds_out = (double)(best > 0 ? best : 1) * 1e-9;
    return FAST_OK;
}
