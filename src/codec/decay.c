/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decay: residuals of error feedback fade. With e the residual, x the vector and C the rest of the
 * chain,
 *
 *     v = x + rate e,   send C(v),   e <- v - decode(C(v))
 *
 * so that a loss of k vectors ago counts rate^k: errors that are stale, or that a biased codec
 * repeats, cannot pile up (sigma-delta modulation with a leaky integrator). rate=1 is plain error
 * feedback, rate=0 none. It comes first in a chain, like a selection, and holds no element back:
 * decay:rate=0.9+sign. Cost: a pass over x and v.
 */
#include "codec/codec.h"

typedef struct decay_config {
    double rate; /* of the residual that is added to the next vector */
} decay_config;

static const fast_option options[] = {
    FAST_OPT_REAL(decay_config, rate, "0.9", 0, 1,
                  "fraction of the residual that is added to the next message"),
    FAST_OPT_END,
};

/* Without a decay nothing is lost. */
static unsigned more(const void *config)
{
    return ((const decay_config *)config)->rate < 1 ? 0 : FAST_CODEC_LOSSLESS | FAST_CODEC_RAW;
}

/* v = x + e is in `send`, or in `wait` where a selection before has moved it: it becomes
 * rate v + (1 - rate) x. */
static void fade(const void *config, const fast_encoding *e, float *send, float *wait)
{
    const float rate = (float)((const decay_config *)config)->rate;

    for (int64_t i = 0; rate < 1 && i < e->block.count; i++) {
        float *v = wait[i] != 0 ? &wait[i] : &send[i];

        *v = rate * *v + (1 - rate) * e->x[i];
    }
}

const fast_codec fast__codec_decay = {
    .name = "decay",
    .summary = "residuals of error feedback fade: a fraction of each is added to the next vector",
    .options = options,
    .config_size = sizeof(decay_config),
    .more = more,
    .select = fade,
};
