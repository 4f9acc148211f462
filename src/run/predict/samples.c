/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New data through a model, one batch at a time: read by the recipe, normalise as the training set
 * was, run. Every batch but the last is full, so the outputs do not depend on how a pipe delivers
 * its bytes.
 */
#include "base/memory.h"
#include "data/sample_gather.h"
#include "run/predict/predictor.h"

#include <math.h>

struct fast_samples {
    fast_predictor *predictor; /* borrowed */
    fast_source *source;       /* owned */
    fast_data *batch;          /* the current one, whose answers are lent; or NULL */
    int64_t done;              /* samples of the batches before it */
};

fast_err fast_samples_open(fast_predictor *predictor, const char *source, bool answers,
                           fast_samples **out)
{
    fast_samples *samples;

    FAST_ASSERT(predictor != NULL && source != NULL && out != NULL);
    FAST_TRY(fast__alloc("samples", 1, sizeof *samples, &samples));
    samples->predictor = predictor;
    const fast_err err = fast__source_open(predictor->recipe, source, answers, &samples->source);
    if (err) {
        fast__free(samples);
        return err;
    }
    *out = samples;
    return FAST_OK;
}

void fast_samples_close(fast_samples *samples)
{
    if (!samples)
        return;
    fast_data_free(samples->batch);
    samples->source->close(samples->source);
    fast__free(samples);
}

const char *fast_samples_name(const fast_samples *samples, int64_t sample)
{
    const fast_source *source = samples->source;
    const int64_t seen = samples->done + (samples->batch ? samples->batch->count : 0);

    FAST_ASSERT(sample >= 0 && sample < seen);
    return source->name ? source->name(source, sample) : NULL;
}

/* Drop the last batch and read the next one. */
static fast_err read_batch(fast_samples *samples)
{
    samples->done += samples->batch ? samples->batch->count : 0;
    fast_data_free(samples->batch);
    samples->batch = NULL;
    return samples->source->next(samples->source, samples->predictor->sizes.batch, &samples->batch);
}

fast_err fast_samples_next(fast_samples *samples, fast_prediction *out)
{
    fast_predictor *p = samples->predictor;
    const fast_predictor_sizes *sizes = &p->sizes;
    const bool answers = samples->source->answers;

    FAST_TRY(read_batch(samples));
    fast_data *batch = samples->batch;
    fast_prediction prediction = { .first = samples->done, .loss = NAN };
    if (batch) {
        FAST_ASSERT(batch->features == sizes->inputs && batch->count <= sizes->batch);
        prediction.count = batch->count;
        prediction.labels = answers ? batch->labels : NULL;
        prediction.targets = answers ? batch->targets : NULL;
        fast__gather(batch, p->numbers, batch->count, p->x);
        FAST_TRY(fast__predictor_pass(p, batch->count, prediction.labels, prediction.targets,
                                      &prediction.loss));
        /* The loss is on the scale of training, all values are on that of the source. */
        if (batch->targets)
            fast__data_restore_targets(batch, batch->count * sizes->outputs, batch->targets);
        prediction.outputs = p->outputs;
        if (sizes->classes > 0) {
            fast__softmax_rows(batch->count * sizes->positions, sizes->outputs, p->outputs,
                               p->probabilities);
            prediction.probabilities = p->probabilities;
        }
    }
    *out = prediction;
    return FAST_OK;
}
