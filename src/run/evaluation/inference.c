/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outputs of the model for samples of the caller's, in batches of the size that the program was
 * compiled for. The samples are normalised as the training set is:
 *
 *   x' = (x - mean[c]) * scale[c]     per channel c; tokens have mean 0 and scale 1
 *
 * Values of a regression are on the scale of the source's targets.
 *
 * A batch without labels and targets is a prediction: the engine computes no loss. An ensemble that
 * stands for the run predicts with all its members.
 *
 * The call uses the run's own workspace and predict_x: one call at a time, and not while the run
 * trains. It allocates nothing, but where processes have parts of the model: there the first call
 * makes the workspace. FAST_ENOTSUP for a learner of the caller's, which has no graph here.
 */
#include "run/representative.h"
#include "run/run.h"
#include "run/team.h"

/* Normalise samples as the training set was normalised. */
static void normalize(const fast_data *data, int64_t count, const float *x, float *out)
{
    const int64_t plane = data->features / data->channels;
    for (int64_t n = 0; n < count; n++)
        for (int64_t c = 0; c < data->channels; c++)
            for (int64_t i = 0; i < plane; i++, x++, out++)
                *out = (*x - data->mean[c]) * data->scale[c];
}

fast_err fast_run_predict(fast_run *run, int64_t count, const float *x, float *outputs)
{
    FAST_ASSERT(run != NULL && count >= 0);
    if (run->foreign)
        return fast__fail(FAST_ENOTSUP, "learner %s is your own: ask it for its outputs",
                          run->foreign->name);
    const int64_t inputs = fast_run_inputs(run);
    const int64_t each = fast_run_outputs(run);
    if (run->evaluation.file)
        FAST_TRY(fast__split_model_complete(run->team));
    if (!run->workspace)
        FAST_TRY(run->program->engine->workspace_new(run->program, &run->workspace));
    for (int64_t done = 0; done < count;) {
        const int64_t left = count - done;
        const fast_batch batch = { .count = left < run->config.batch ? left : run->config.batch,
                                   .x = run->data.predict_x };
        normalize(run->data.train, batch.count, x + done * inputs, run->data.predict_x);
        fast_learner *model = run->learner;
        fast_pass pass = { .params = fast__map(model->w, model->params.count, FAST_ACCESS_READ),
                           .state = fast__map(model->s, model->state.count, FAST_ACCESS_READ),
                           .batch = &batch,
                           .seed = (uint64_t)run->config.seed,
                           .outputs = outputs + done * each };
        const fast_err err = fast__members_stand(run)
                                 ? fast__members_predict(run, &batch, pass.outputs)
                                 : run->program->engine->run(run->program, run->workspace, &pass);
        fast__unmap(model->s, model->state.count, FAST_ACCESS_READ);
        fast__unmap(model->w, model->params.count, FAST_ACCESS_READ);
        FAST_TRY(err);
        fast__data_restore_targets(run->data.train, batch.count * each, pass.outputs);
        done += batch.count;
    }
    return FAST_OK;
}
