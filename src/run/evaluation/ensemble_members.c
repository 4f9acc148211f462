/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ensemble: several models that stand for a run together. It predicts with the mean of what its
 * M members predict,
 *
 *   classes      p(k | x) = 1/M sum_m softmax(z_m(x))_k;   loss - sum_k q_k log p_k
 *   regression   y(x) = 1/M sum_m y_m(x);                  loss (y - t)^2
 *
 * with q the label, smoothed as the network's loss says. Members that err independently err less
 * together, which no mean of their weights gives: they sit in different basins.
 *
 * Cost of an evaluation: M passes over the test set. Sums are in the order of ranks and in double:
 * the same members give the same bits. Memory was taken when the run was opened.
 *
 * Predictions have the form of one model's outputs: log p_k for classes, so that softmax and argmax
 * of them are those of the mean; y for regression. p_k below 1e-300 counts as 1e-300: no log of 0.
 *
 * Files: save=model.safetensors also writes model.0.safetensors, model.1.safetensors, ... in the
 * order of ranks, without gaps for workers that were lost. FAST_EIO if a path is too long.
 */
#include "run/model_meta.h"
#include "run/representative.h"

#include "base/memory.h"
#include "learner/figures.h"
#include "run/team.h"
#include "tensor/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool fast__members_stand(const fast_run *run)
{
    return run->team->representative.member_count > 0;
}

/* Add the probabilities of one row of outputs. */
static void add_softmax(int64_t classes, const float *z, double *sum)
{
    float max = z[0];
    double total = 0;

    for (int64_t k = 1; k < classes; k++)
        max = z[k] > max ? z[k] : max;
    for (int64_t k = 0; k < classes; k++)
        total += exp((double)z[k] - (double)max);
    for (int64_t k = 0; k < classes; k++)
        sum[k] += exp((double)z[k] - (double)max) / total;
}

/* The mean of the members' predictions for a batch, in represent.mean. */
static fast_err predict(fast_run *run, const fast_batch *batch)
{
    fast_representative *r = &run->team->representative;
    const fast_graph *graph = run->graph;
    const int64_t rows = batch->count * graph->positions;
    const int64_t count = graph->params.count + graph->state.count;
    const bool classes = graph->loss == FAST_LOSS_CROSS_ENTROPY;

    FAST_ASSERT(batch->count <= run->config.batch);
    memset(r->mean, 0, (size_t)(rows * graph->outputs) * sizeof *r->mean);
    for (int64_t m = 0; m < r->member_count; m++) {
        float *member = r->members + m * count;
        fast_pass pass = { .params = member,
                           .state = member + graph->params.count,
                           .batch = batch,
                           .seed = (uint64_t)run->config.seed,
                           .outputs = r->outputs };

        FAST_TRY(run->program->engine->run(run->program, run->workspace, &pass));
        for (int64_t i = 0; i < rows && classes; i++)
            add_softmax(graph->outputs, r->outputs + i * graph->outputs,
                        r->mean + i * graph->outputs);
        for (int64_t i = 0; i < rows * graph->outputs && !classes; i++)
            r->mean[i] += (double)r->outputs[i];
    }
    for (int64_t i = 0; i < rows * graph->outputs; i++)
        r->mean[i] /= (double)r->member_count;
    return FAST_OK;
}

/* Write the mean prediction of a batch as outputs of one model: logarithms of probabilities, or
 * values. */
static void put_outputs(const fast_run *run, const fast_batch *batch, float *outputs)
{
    const fast_graph *graph = run->graph;
    const int64_t count = batch->count * graph->positions * graph->outputs;
    const double *mean = run->team->representative.mean;

    for (int64_t i = 0; i < count; i++)
        outputs[i] = graph->loss == FAST_LOSS_CROSS_ENTROPY ? (float)log(fmax(mean[i], 1e-300))
                                                            : (float)mean[i];
}

/* The loss of one row, and whether its largest probability is the label's. */
static double evaluate_row(const fast_graph *graph, const double *p, const float *target,
                           int64_t label, int64_t *correct)
{
    const double floor = (double)graph->label_smoothing / (double)graph->outputs;
    double loss = 0;
    int64_t best = 0;

    for (int64_t k = 0; k < graph->outputs; k++) {
        if (graph->loss == FAST_LOSS_CROSS_ENTROPY) {
            const double is = target ? (double)target[k] : k == label ? 1 : 0;
            const double q = (1 - (double)graph->label_smoothing) * is + floor;

            loss -= q > 0 ? q * log(fmax(p[k], 1e-300)) : 0;
        } else {
            loss += (p[k] - (double)target[k]) * (p[k] - (double)target[k]);
        }
        best = p[k] > p[best] ? k : best;
    }
    *correct += best == label;
    return graph->loss == FAST_LOSS_CROSS_ENTROPY ? loss : loss / (double)graph->outputs;
}

/* Index of the largest of `count` numbers: the class that a model predicts. */
static int64_t largest(int64_t count, const float *x)
{
    int64_t best = 0;

    for (int64_t i = 1; i < count; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

/* Give the figures the rows of a batch: what the members predict together, as outputs of one
 * model. */
static void add_figures(fast_run *run, const fast_batch *batch, fast_figure_sums *figures)
{
    fast_representative *r = &run->team->representative;

    put_outputs(run, batch, r->outputs);
    fast__figures_add(figures, batch->count * run->graph->positions, r->outputs, batch->labels,
                      batch->targets);
}

fast_err fast__members_evaluate(fast_run *run, fast_evaluation *inout)
{
    fast_loader *loader = inout->validation ? run->data.validation_loader : run->data.test_loader;
    const fast_graph *graph = run->graph;
    const int64_t K = graph->outputs;
    const bool classes = graph->loss == FAST_LOSS_CROSS_ENTROPY;
    double loss = 0;
    int64_t correct = 0, rows = 0, samples = 0;

    FAST_ASSERT(fast__members_stand(run) && loader != NULL);
    if (inout->figures)
        fast__figures_clear(inout->figures);
    for (int64_t i = 0; i < fast__loader_steps(loader); i++) {
        const fast_batch *batch = NULL;

        FAST_TRY(fast__loader_get(loader, i, &batch));
        FAST_TRY(predict(run, batch));
        if (inout->figures)
            add_figures(run, batch, inout->figures);
        for (int64_t r = 0; r < batch->count * graph->positions; r++) {
            const float *target = batch->targets ? batch->targets + r * K : NULL;
            const int64_t label = target ? largest(K, target) : batch->labels[r];

            loss += evaluate_row(graph, run->team->representative.mean + r * K, target, label,
                                 &correct);
        }
        rows += batch->count * graph->positions;
        samples += batch->count;
    }
    FAST_ASSERT(rows > 0);
    inout->loss = loss / (double)rows;
    inout->accuracy = classes ? (double)correct / (double)rows : NAN;
    inout->samples = samples;
    return FAST_OK;
}

fast_err fast__members_predict(fast_run *run, const fast_batch *batch, float *outputs)
{
    FAST_TRY(predict(run, batch));
    put_outputs(run, batch, outputs);
    return FAST_OK;
}

/* PATH of member m: its number goes before what follows the last dot of the file's name. */
static fast_err member_path(const char *path, int64_t m, char *text, size_t size)
{
    const char *name = strrchr(path, '/');
    const char *dot = strrchr(name ? name : path, '.');
    const int head = dot ? (int)(dot - path) : (int)strlen(path);
    const int length =
        snprintf(text, size, "%.*s.%lld%s", head, path, (long long)m, dot ? dot : "");

    if (length < 0 || (size_t)length >= size)
        return fast__fail(FAST_EIO, "%.100s...: the path is too long for a file for each member",
                          path);
    return FAST_OK;
}

/* The tensors of the run's model, as those of a member: the same layout elsewhere. */
static void move_tensors(const fast_run *run, fast_weights *weights, const float *member)
{
    const fast_learner *learner = run->learner;
    const int64_t params = learner->params.segment_count;

    for (int64_t i = 0; i < weights->count; i++) {
        const float *from = i < params ? learner->w : learner->s;
        const float *to = i < params ? member : member + learner->params.count;

        weights->tensors[i].data = to + ((const float *)weights->tensors[i].data - from);
    }
}

fast_err fast__members_save(const fast_run *run, const char *path)
{
    const fast_representative *r = &run->team->representative;
    const int64_t count = run->graph->params.count + run->graph->state.count;
    char text[FAST_PATH_MAX];
    fast_err err = FAST_OK;

    fast_model_meta meta;

    FAST_TRY(fast__model_meta_init(run, &meta));
    for (int64_t m = 0; m < r->member_count && !err; m++) {
        fast_weights weights;

        err = member_path(path, m, text, sizeof text);
        if (!err)
            err = fast__weights_list(run, 0, &weights);
        if (err)
            break;
        move_tensors(run, &weights, r->members + m * count);
        err = fast__tensors_save(text, weights.tensors, weights.count, meta.pairs);
        fast__weights_fini(&weights);
    }
    fast__model_meta_fini(&meta);
    return err;
}
