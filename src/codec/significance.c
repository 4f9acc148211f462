/* SPDX-License-Identifier: Apache-2.0 */
/*
 * significance: elements that change their weight by more than a fraction of it; the others add up
 * until they do (Li et al. 2014, "significantly modified"; Gaia: Hsieh et al. 2017, whose fraction
 * falls with the root of the step). With x + e the elements that wait and those of this vector,
 *
 *     send x_i + e_i where rate |x_i + e_i| >= threshold / sqrt(t) |w_i|
 *
 * The rate is the learning rate if x is a gradient, 1 if it is a difference of weights; momentum is
 * left out. The last vector of a run sends everything. Cost: a pass over x, e and w.
 */
#include "codec/codec.h"

#include <math.h>

typedef struct significance_config {
    double threshold; /* fraction of the weight at step 1 */
} significance_config;

static const fast_option options[] = {
    FAST_OPT_REAL(significance_config, threshold, "0.01", 0, 1e6,
                  "smallest change that is sent, as a fraction of the weight, at step 1; it falls "
                  "with the root of the step. 0: send all"),
    FAST_OPT_END,
};

/* A threshold of 0 holds nothing back. */
static unsigned more(const void *config)
{
    return ((const significance_config *)config)->threshold > 0
               ? 0
               : FAST_CODEC_LOSSLESS | FAST_CODEC_RAW;
}

/* A value that is not a number is never smaller, and is sent. */
static void select_elements(const void *config, const fast_encoding *e, float *send, float *wait)
{
    const double threshold = ((const significance_config *)config)->threshold;
    const float bound = (float)(threshold / sqrt((double)e->model->taken)), rate = e->model->rate;

    for (int64_t i = 0; e->w && !e->model->last && i < e->block.count; i++) {
        const bool sent = !(rate * fabsf(send[i]) < bound * fabsf(e->w[i]));

        wait[i] += sent ? 0 : send[i];
        send[i] = sent ? send[i] : 0;
    }
}

const fast_codec fast__codec_significance = {
    .name = "significance",
    .summary = "selects changes that are large next to their weight (Gaia)",
    .options = options,
    .config_size = sizeof(significance_config),
    .traits = FAST_CODEC_MODEL,
    .more = more,
    .select = select_elements,
};
