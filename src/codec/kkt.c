/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kkt: leaves out gradients that the proximal step of an l1 penalty would undo (Li et al. 2014, for
 * sparse models). Where a weight is 0 and |x| <= l1, the step
 *
 *     w <- sign(w - lr x) max(|w - lr x| - lr l1, 0)
 *
 * leaves it at 0: the optimality (Karush-Kuhn-Tucker) condition holds there, and x is dropped for
 * good. For updates that end with this step: ps:l1. Cost: a pass over x and w.
 */
#include "codec/codec.h"

#include <math.h>

typedef struct kkt_config {
    double l1; /* weight of the penalty */
} kkt_config;

static const fast_option options[] = {
    FAST_OPT_REAL(kkt_config, l1, "0.0001", 0, 1e6,
                  "weight of the l1 penalty: gradients up to it of weights that are 0 are dropped"),
    FAST_OPT_END,
};

/* Without a penalty only zeros are dropped. */
static unsigned more(const void *config)
{
    return ((const kkt_config *)config)->l1 > 0 ? 0 : FAST_CODEC_LOSSLESS | FAST_CODEC_RAW;
}

/* Dropped elements do not wait. */
static void select_elements(const void *config, const fast_encoding *e, float *send, float *wait)
{
    const float l1 = (float)((const kkt_config *)config)->l1;

    (void)wait;
    for (int64_t i = 0; e->w && i < e->block.count; i++)
        if (e->w[i] == 0 && fabsf(send[i]) <= l1)
            send[i] = 0;
}

const fast_codec fast__codec_kkt = {
    .name = "kkt",
    .summary = "leaves out gradients of zero weights that an l1 step would undo",
    .options = options,
    .config_size = sizeof(kkt_config),
    .traits = FAST_CODEC_MODEL,
    .more = more,
    .select = select_elements,
};
