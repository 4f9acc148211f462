/* SPDX-License-Identifier: Apache-2.0 */
/*
 * significant: accumulated changes are sent once they are significant (the filter of Gaia, Hsieh et
 * al. 2017, and of Li et al. 2014). With v = x + e, s the root mean square of x over the block,
 *
 *     q_i = v_i where |v_i| >= factor s, else 0,   e <- v - q
 *
 * A change is compared to the usual changes of the block at this step, so that no weights are
 * needed; significance.c compares it to its weight, as Gaia does. Every unsent value is below
 * factor s.
 *
 *     block   entries (entries.h)
 *
 * The number of entries varies: about 0.3% of normal values for a factor of 3, 3 to 5% with the
 * residual. Values that are not finite are sent. Cost: a pass over x, one over x
 * and e, and k writes.
 */
#include "codec/codec.h"
#include "codec/entries.h"
#include "codec/select.h"
#include "tensor/vector.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct significant_config {
    double factor; /* of the root mean square */
} significant_config;

static const fast_option options[] = {
    FAST_OPT_REAL(significant_config, factor, "3", 0, 1e6,
                  "threshold over the block's root mean square"),
    FAST_OPT_END,
};

/* Entries of all elements. */
static size_t bound(const void *config, const fast_block *block)
{
    (void)config;
    return fast__entries_bound(block->count, block->count, false);
}

/* Indices, and values or, where there is no residual to select in, a copy of x. */
static size_t scratch(const void *config, const fast_block *block)
{
    (void)config;
    return fast__entries_scratch(block->count);
}

/* The size at which an element is sent: never 0, because zeros need not be sent. */
static float limit_of(const significant_config *c, const fast_encoding *e)
{
    const double square = fast__vector_norm2(e->block.count, e->x) / (double)e->block.count;
    const double limit = c->factor * sqrt(square);

    if (!(limit <= (double)FLT_MAX))
        return INFINITY; /* only values that are not finite are sent */
    return fmaxf((float)limit, FLT_TRUE_MIN);
}

/* Select by the threshold while x is added to the residual; the sent elements are subtracted
 * from it. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const int64_t n = e->block.count;
    uint32_t *index = e->scratch;
    float *v = e->error ? e->error : (float *)(void *)(index + n);
    int64_t k;

    if (!e->error)
        memcpy(v, e->x, (size_t)n * sizeof *v);
    fast__select_above(n, limit_of(config, e), e->error ? e->x : NULL, v, index, &k);
    return fast__entries_put(k, index, false, v, out);
}

/* Exact values of the sent elements. */
static fast_err pairs(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out)
{
    (void)config;
    return fast__entries_get("significant", d, false, index, value, count_out);
}

const fast_codec fast__codec_significant = {
    .name = "significant",
    .summary = "changes above a multiple of the block's root mean square",
    .options = options,
    .config_size = sizeof(significant_config),
    .traits = FAST_CODEC_SPARSE | FAST_CODEC_FEEDBACK,
    .bound = bound,
    .scratch = scratch,
    .encode = encode,
    .pairs = pairs,
};
