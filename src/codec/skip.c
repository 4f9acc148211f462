/* SPDX-License-Identifier: Apache-2.0 */
/*
 * skip: each element waits with a probability, and adds to the next vector (Li et al. 2014, "random
 * skip"). It is not scaled up, because nothing of it is lost. The last vector of a run sends
 * everything. Cost: a pass over x with a random number for each element.
 */
#include "codec/codec.h"
#include "codec/noise.h"

#include <math.h>

typedef struct skip_config {
    double probability; /* that an element waits */
} skip_config;

static const fast_option options[] = {
    FAST_OPT_REAL(skip_config, probability, "0.1", 0, 0.9999,
                  "probability that an element waits for the next message"),
    FAST_OPT_END,
};

/* A probability of 0 holds nothing back. */
static unsigned more(const void *config)
{
    return ((const skip_config *)config)->probability > 0 ? 0
                                                          : FAST_CODEC_LOSSLESS | FAST_CODEC_RAW;
}

/* A random number for each element, whether another selection has taken it out or not: its wait
 * does not depend on the other elements. */
static void select_elements(const void *config, const fast_encoding *e, float *send, float *wait)
{
    const float probability = (float)((const skip_config *)config)->probability;

    for (int64_t i = 0; !e->model->last && i < e->block.count; i++)
        if (fast__noise_uniform(e->key, (uint32_t)i) < probability && isfinite(send[i])) {
            wait[i] += send[i];
            send[i] = 0;
        }
}

const fast_codec fast__codec_skip = {
    .name = "skip",
    .summary = "selects elements at random; the others add up",
    .options = options,
    .config_size = sizeof(skip_config),
    .more = more,
    .select = select_elements,
};
