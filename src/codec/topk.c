/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topk: the k largest elements by magnitude, k = ratio n, at least one; the others are 0 (Aji and
 * Heafield 2017; Stich et al. 2018). It is a contraction, |v - C(v)|^2 <= (1 - k/n) |v|^2, so with
 * error feedback, which is fused into the selection, it converges at the rate of SGD.
 *
 *     block   entries (entries.h), float or (value=fp16) half
 *
 * With hold=N the indices are chosen anew only in every N-th step, so that those of a sum on a
 * butterfly are sent once in N steps (comm/coded/sparse.c). The state has each index, plus 1.
 *
 * At 1% a gap is a byte or two, and 5.3 bytes a value sent: 75 times smaller. Values that are not
 * finite are the largest of all, and are sent. Cost: about a pass over x and e, and k writes.
 */
#include "codec/codec.h"
#include "codec/entries.h"
#include "codec/select.h"
#include "tensor/vector.h"

#include <string.h>

typedef struct topk_config {
    double ratio; /* fraction of the elements that is sent */
    int value;    /* 0 fp32, 1 fp16 */
    int64_t hold; /* steps for which indices stay the same */
} topk_config;

static const fast_option options[] = {
    FAST_OPT_REAL(topk_config, ratio, "0.01", 1e-9, 1, "fraction of the elements that is sent"),
    FAST_OPT_CHOICE(topk_config, value, "fp32", "fp32|fp16", "type of the values on the wire"),
    FAST_OPT_INT(topk_config, hold, "1", 1, 1e9, "steps for which the elements stay the same"),
    FAST_OPT_END,
};

/* A ratio of 1 is lossless. */
static unsigned more(const void *config)
{
    const topk_config *c = config;

    return c->ratio >= 1 && c->value == 0 ? FAST_CODEC_LOSSLESS | FAST_CODEC_RAW : 0;
}

/* k entries with their gaps and values. */
static size_t bound(const void *config, const fast_block *block)
{
    const topk_config *c = config;

    return fast__entries_bound(block->count, fast__entries_count(c->ratio, block->count),
                               c->value == 1);
}

/* Scratch of the selection, and a copy of x without a residual to select in. */
static size_t scratch(const void *config, const fast_block *block)
{
    (void)config;
    return fast__select_scratch(block->count) + (size_t)block->count * sizeof(float);
}

/* A float for each index, where they stay the same for some steps. */
static int64_t state(const void *config, const fast_block *block)
{
    const topk_config *c = config;

    return c->hold > 1 ? fast__entries_count(c->ratio, block->count) : 0;
}

/* Return the indices of the last choice, in memory of the scratch, and add x to v; NULL if it is
 * time to choose anew, or a value is not finite, which must be seen. */
static const uint32_t *held(const topk_config *c, const fast_encoding *e, int64_t k, float *v)
{
    uint32_t *index = e->scratch;

    if (c->hold == 1 || e->step % c->hold == 0 || !fast__vector_finite(e->block.count, e->x))
        return NULL;
    memcpy(index, e->state, (size_t)k * sizeof *index);
    if (index[k - 1] == 0) /* none was chosen yet */
        return NULL;
    for (int64_t i = 0; i < k; i++)
        index[i]--;
    if (e->error)
        fast__vector_add(e->block.count, e->x, v);
    return index;
}

/* Remember the indices of a choice. */
static void hold(const fast_encoding *e, int64_t k, const uint32_t *index)
{
    for (int64_t i = 0; i < k; i++) {
        const uint32_t next = index[i] + 1;

        memcpy(&e->state[i], &next, sizeof next);
    }
}

/* Select the k largest of v = x + e, or of a copy of x; what is sent is subtracted from v. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const topk_config *c = config;
    const int64_t n = e->block.count;
    const int64_t k = fast__entries_count(c->ratio, n);
    float *v = e->error;

    if (!v) {
        v = (float *)(void *)((char *)e->scratch + fast__select_scratch(n));
        memcpy(v, e->x, (size_t)n * sizeof *v);
    }
    const uint32_t *index = held(c, e, k, v);
    if (!index) {
        index = fast__select_top(n, k, e->key, e->error ? e->x : NULL, v, e->scratch);
        if (c->hold > 1)
            hold(e, k, index);
    }
    return fast__entries_put(k, index, c->value == 1, v, out);
}

/* The values of the sent elements, exact or as halves. */
static fast_err pairs(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out)
{
    return fast__entries_get("topk", d, ((const topk_config *)config)->value == 1, index, value,
                             count_out);
}

const fast_codec fast__codec_topk = {
    .name = "topk",
    .summary = "the largest elements",
    .options = options,
    .config_size = sizeof(topk_config),
    .traits = FAST_CODEC_SPARSE | FAST_CODEC_FEEDBACK,
    .operations = 8,
    .more = more,
    .bound = bound,
    .state = state,
    .scratch = scratch,
    .encode = encode,
    .pairs = pairs,
};
