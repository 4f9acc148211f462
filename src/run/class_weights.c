/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights of the classes in the training loss (engine/loss.h has the formula):
 *
 *     none         the plain mean
 *     1,2.5,1      a weight for each class, in their order
 *     balanced     N / (K n_k) for the n_k of N labels that are of class k, K the number of classes
 *                  that occur, as scikit-learn's compute_class_weight("balanced"); 1 for a class
 *                  that does not occur
 *
 * Labels are counted in the whole training set, whichever worker has them. Each worker divides by
 * the weights of its own batch, as DistributedDataParallel does with such a loss.
 */
#include "base/memory.h"
#include "data/data.h"
#include "run/run.h"

#include <string.h>

/* Weights by the frequency of labels. */
static fast_err balance(const fast_data *data, float *weights)
{
    int64_t *counts = NULL, present = 0;
    const int64_t rows = data->count * data->positions;

    FAST_TRY(fast__alloc("counts of labels", data->classes, sizeof *counts, &counts));
    for (int64_t i = 0; i < rows; i++)
        present += counts[data->labels[i]]++ == 0;
    for (int64_t k = 0; k < data->classes; k++)
        weights[k] =
            counts[k] > 0 ? (float)((double)rows / ((double)present * (double)counts[k])) : 1.0f;
    fast__free(counts);
    return FAST_OK;
}

/* Weights of a list. */
static fast_err read_list(const char *text, int64_t classes, float *weights)
{
    int64_t count = 0;

    for (const char *at = text; at; count++) {
        const size_t length = strcspn(at, ",");
        char number[32];
        double value = 0;

        if (length == 0 || length >= sizeof number)
            return fast__fail(FAST_EINVAL,
                              "class_weights=%.60s: write none, balanced, or a number for each "
                              "class, like 1,2.5,1",
                              text);
        memcpy(number, at, length);
        number[length] = '\0';
        FAST_TRY(fast__parse_real("class_weights", number, &value));
        if (!(value >= 1e-6 && value <= 1e6))
            return fast__fail(FAST_EINVAL, "class_weights: %s is not between 1e-6 and 1e6", number);
        if (count < classes)
            weights[count] = (float)value;
        at = at[length] ? at + length + 1 : NULL;
    }
    if (count != classes)
        return fast__fail(FAST_EINVAL,
                          "class_weights=%.60s has %lld numbers, and the data has %lld classes",
                          text, (long long)count, (long long)classes);
    return FAST_OK;
}

fast_err fast__run_class_weights(fast_run *run)
{
    const char *text = run->config.class_weights;
    const fast_data *data = run->data.train;

    if (strcmp(text, "none") == 0)
        return FAST_OK;
    if (run->foreign)
        return fast__fail(FAST_EINVAL, "class_weights=%.60s: learner %s has its own loss", text,
                          run->foreign->name);
    if (data->classes == 0 || run->graph->loss != FAST_LOSS_CROSS_ENTROPY)
        return fast__fail(FAST_EINVAL, "class_weights=%.60s: data %s is a regression", text,
                          run->config.data);
    FAST_ASSERT(run->graph->outputs == data->classes);
    FAST_TRY(
        fast__alloc("class weights", data->classes, sizeof(float), &run->graph->class_weights));
    return strcmp(text, "balanced") == 0
               ? balance(data, run->graph->class_weights)
               : read_list(text, data->classes, run->graph->class_weights);
}
