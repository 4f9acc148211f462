/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dorefa: gradients of k bits with noise (DoReFa-Net, Zhou et al. 2016). With m = max |v_k| of the
 * layer, N uniform in +-1/2 / (2^k - 1) and Q the rounding to multiples of 1 / (2^k - 1),
 *
 *     q_i = 2 m (Q(v_i / 2m + 1/2 + N_i) - 1/2)
 *
 * which is level l_i = floor((v_i + m) (2^k - 1) / 2m + u_i) with u in [0, 1) from the key: the
 * mean over keys is v, and the error of an element is less than 2m / (2^k - 1). 0 is not a level,
 * the closest ones are +-m / (2^k - 1). The paper takes the maximum of each sample of a mini-batch
 * inside the network; a gradient on the wire has only layers.
 *
 *     block   m (float), then k bits an element in words of 32 bits, k = 1, 2, 4 or 8
 *
 * 32 / k times smaller. A block with an element that is not finite is decoded to NaN. Cost: a pass
 * for the maximum, one for the levels.
 */
#include "codec/codec.h"
#include "codec/integers.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

typedef struct dorefa_config {
    int bits; /* log2 of k */
} dorefa_config;

static const fast_option options[] = {
    FAST_OPT_CHOICE(dorefa_config, bits, "4", "1|2|4|8", "bits of an element"),
    FAST_OPT_END,
};

/* The maximum, then k bits an element in whole words. */
static size_t bound(const void *config, const fast_block *block)
{
    return sizeof(float) +
           fast__levels_size(block->count, 1 << ((const dorefa_config *)config)->bits);
}

/* Levels between -m and m. A maximum of 0 decodes to 0, one that is not finite to NaN; the
 * levels are then zeros that mean nothing. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const int bits = 1 << ((const dorefa_config *)config)->bits;
    const size_t size = bound(config, &e->block);
    float most = fast__vector_max_abs(e->block.count, e->x);
    const float factor = (float)((1 << bits) - 1) / (2 * most);

    if (!isfinite(factor) || !(factor > 0)) /* 0, too small or too large to divide by, or NaN */
        most = isfinite(most) && most < 1 ? 0 : NAN;
    memcpy(out, &most, sizeof most);
    if (most > 0)
        fast__levels_put(e->block.count, bits, e->x, -most, factor, e->key, 0, out + sizeof most);
    else
        memset(out + sizeof most, 0, size - sizeof most);
    return size;
}

/* y = -m + 2 m l / (2^k - 1), with the scale folded into m. */
static fast_err decode(const void *config, const fast_decoding *d)
{
    const int bits = 1 << ((const dorefa_config *)config)->bits;
    float most;

    memcpy(&most, d->in, sizeof most);
    most *= d->scale;
    fast__levels_take(d->block.count, bits, d->in + sizeof most, -most,
                      2 * most / (float)((1 << bits) - 1), d->mode, d->y);
    return FAST_OK;
}

const fast_codec fast__codec_dorefa = {
    .name = "dorefa",
    .summary = "levels of 1 to 8 bits with noise, a maximum for each layer (DoReFa-Net)",
    .options = options,
    .config_size = sizeof(dorefa_config),
    .traits = FAST_CODEC_UNBIASED | FAST_CODEC_LAYERS | FAST_CODEC_EXACT,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
