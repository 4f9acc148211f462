/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropout masks (Srivastava et al., JMLR 2014), shared by the engines: element i of sample s at
 * node v is dropped if the i-th number of the stream (seed, dropout, v, step, s) is below p. The
 * other values are scaled by 1 / (1 - p), so that evaluation needs no scaling. A mask is a pure
 * function of its key: the same for every engine, every division of a batch and every resumed run.
 */
#include "engine/dropout.h"

#include "base/rng.h"

/* Fill the mask of one sample. Its stream is named by the sample's id, not by its place in the
 * batch, so that a batch cut among workers has the same masks. */
void fast__dropout_mask(const fast_pass *pass, int node, int64_t sample, float p, int64_t first,
                        int64_t count, float *mask)
{
    FAST_ASSERT(sample >= 0 && sample < pass->batch->count);
    FAST_ASSERT(p >= 0.0F && p < 1.0F && first >= 0);
    const uint32_t *ids = pass->batch->ids;
    const uint64_t id = ids ? ids[sample] : (uint64_t)sample;
    const float scale = 1.0F / (1.0F - p);
    fast_rng rng;
    fast__rng_init(&rng, pass->seed, FAST_PURPOSE_DROPOUT, (uint64_t)node, pass->step, id);
    for (int64_t i = 0; i < first; i++)
        (void)fast__rng_uniform(&rng);
    for (int64_t i = 0; i < count; i++)
        mask[i] = fast__rng_uniform(&rng) < p ? 0.0F : scale;
}
