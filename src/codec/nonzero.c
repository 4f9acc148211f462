/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nonzero: the elements other than 0, exactly: for gradients of embeddings, and behind selections.
 *
 *     block   0 (a byte), entries (entries.h); or, where that is shorter,
 *             1 (a byte), all floats
 *
 * 5 bytes for each element other than 0 where they are close, 4 for each element at most. Cost: a
 * pass over x, and k writes.
 */
#include "codec/codec.h"
#include "codec/entries.h"

#include <string.h>

enum { ENTRIES, FLOATS };

/* All floats, or fewer than 4/5 of the elements with a gap of a byte or more each. */
static size_t bound(const void *config, const fast_block *block)
{
    const size_t floats = (size_t)block->count * sizeof(float);
    const size_t entries = fast__entries_bound(block->count, block->count * 4 / 5, false);

    (void)config;
    return 1 + (entries > floats ? entries : floats);
}

/* Indices of the elements, and a copy of x to write them from. */
static size_t scratch(const void *config, const fast_block *block)
{
    (void)config;
    return fast__entries_scratch(block->count);
}

/* Collect the indices, then write entries if they are few. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const int64_t n = e->block.count;
    uint32_t *index = e->scratch;
    float *v = (float *)(void *)(index + n);
    int64_t k = 0;

    (void)config;
    for (int64_t i = 0; i < n; i++) {
        index[k] = (uint32_t)i;
        k += e->x[i] != 0;
    }
    out[0] = k < n * 4 / 5 ? ENTRIES : FLOATS;
    memcpy(out[0] == FLOATS ? (void *)(out + 1) : v, e->x, (size_t)n * sizeof *v);
    return 1 + (out[0] == FLOATS ? (size_t)n * sizeof *v
                                 : fast__entries_put(k, index, false, v, out + 1));
}

/* Entries as they are, or every float as an entry. */
static fast_err pairs(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out)
{
    const size_t floats = (size_t)d->block.count * sizeof *value;
    fast_decoding rest = *d;

    (void)config;
    if (d->size < 1 || d->in[0] > FLOATS || (d->in[0] == FLOATS && d->size != 1 + floats))
        return fast__fail(FAST_EFORMAT, "codec nonzero: %zu bytes are not %lld elements", d->size,
                          (long long)d->block.count);
    rest.in++;
    rest.size--;
    if (d->in[0] == ENTRIES)
        return fast__entries_get("nonzero", &rest, false, index, value, count_out);
    memcpy(value, rest.in, floats);
    for (int64_t i = 0; i < d->block.count; i++)
        index[i] = (uint32_t)i;
    *count_out = d->block.count;
    return FAST_OK;
}

const fast_codec fast__codec_nonzero = {
    .name = "nonzero",
    .summary = "the elements other than 0, exactly",
    .traits = FAST_CODEC_LOSSLESS | FAST_CODEC_RAW | FAST_CODEC_SPARSE,
    .operations = 2,
    .bound = bound,
    .scratch = scratch,
    .encode = encode,
    .pairs = pairs,
};
