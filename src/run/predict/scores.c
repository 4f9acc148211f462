/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss and figures of a model on samples with answers: batches are predicted one after the other,
 * and only sums stay (learner/figures.h). The loss is the mean over the samples, as an evaluation
 * during training computes it: each batch is weighted by its size.
 */
#include "base/memory.h"
#include "run/predict/predictor.h"

#include <math.h>

enum { SCORES_MAX = 1 << 21 }; /* scores that are ranked for the AUC: 16 MiB */

/* Print the result as one object: samples and loss before the figures. */
static fast_err print_scores(const fast_predictor *p, const fast_scores *scores, char **out)
{
    json_t *tree = json_object();

    fast__json_set(&tree, "samples", json_integer(scores->samples));
    fast__json_set(&tree, "loss", fast__json_real(scores->loss));
    if (p->sizes.text)
        fast__json_set(&tree, "perplexity", fast__json_real(exp(scores->loss)));
    fast__json_set(&tree, "figures",
                   fast__figures_json(&scores->figures, FAST_FIGURES_CONFUSION_MAX));
    return fast__json_print(&tree, out);
}

/* Predict all batches and add them up. */
static fast_err add_all(fast_predictor *p, fast_samples *samples, fast_scores *scores)
{
    double sum = 0;

    for (;;) {
        fast_prediction batch;

        FAST_TRY(fast_samples_next(samples, &batch));
        if (batch.count == 0)
            break;
        fast__figures_add(p->sums, batch.count * p->sizes.positions, batch.outputs, batch.labels,
                          batch.targets);
        sum += batch.loss * (double)batch.count;
        scores->samples += batch.count;
    }
    scores->loss = sum / (double)scores->samples;
    return FAST_OK;
}

fast_err fast_predictor_evaluate(fast_predictor *predictor, const char *source, fast_scores *out)
{
    fast_predictor *p = predictor;
    const int64_t outputs = p->sizes.outputs;
    const fast_figures_options options = { .classes = p->sizes.classes,
                                           .outputs = outputs,
                                           .rows = SCORES_MAX / outputs };
    fast_samples *samples = NULL;
    fast_scores scores = { 0 };

    fast__figures_free(p->sums);
    fast__free(p->scores);
    p->sums = NULL;
    p->scores = NULL;
    FAST_TRY(fast_samples_open(p, source, true, &samples));
    fast_err err = fast__figures_new(&options, &p->sums);
    if (!err)
        err = add_all(p, samples, &scores);
    fast_samples_close(samples);
    if (!err && scores.samples == 0)
        err = fast__fail(FAST_EFORMAT, "%s has no samples", source);
    FAST_TRY(err);
    fast__figures_compute(p->sums, &scores.figures);
    FAST_TRY(print_scores(p, &scores, &p->scores));
    scores.json = p->scores;
    *out = scores;
    return FAST_OK;
}
