/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scales that the senders of a sum agree on: the largest among them of each layer of their vectors,
 * so that the sum of P quantised vectors is a whole number of steps (TernGrad, Wen et al. 2017).
 *
 *     member i:  s_i = scale(x_i) of each layer;  all: s = max s_i, rounded up to 16 bits
 *
 * The scale is that of x without a residual: where error feedback adds one, elements beyond the
 * scale remain in it. A layer of zeros at all members has the scale 0, with which each member finds
 * the same by itself. A coder of a range that begins or ends within a layer has the scale of that
 * layer. Cost: an allgather of a float for each layer, log2 P messages, and a pass over x.
 */
#include "comm/scales.h"

#include "base/err.h"
#include "base/memory.h"
#include "comm/collective.h"

#include <math.h>
#include <string.h>

/* A coder that encodes by the scales. */
typedef struct scales_reader {
    struct scales_reader *next; /* in the list */
    fast_coder *coder;          /* borrowed */
    int64_t offset;             /* of its range in the whole vector */
    float *scales;              /* of its blocks */
} scales_reader;

struct fast_scales {
    const fast_chain *chain; /* measures scales; borrowed */
    fast_coder *whole;       /* for its blocks alone, the layers */
    int64_t size;            /* of the group */
    int64_t count;           /* floats of a vector */
    float *members;          /* [size, blocks]: scales of each member */
    float *shared;           /* [blocks]: those of all */
    scales_reader *readers;  /* coders that encode by them */
};

fast_err fast__scales_new(const fast_coder_options *whole, int64_t size, fast_scales **out)
{
    fast_coder_options options = *whole;
    fast_scales *s = NULL;

    FAST_ASSERT(size > 0 && whole->offset == 0);
    FAST_TRY(fast__alloc("scales", 1, sizeof *s, &s));
    *s = (fast_scales){ .chain = whole->chain, .size = size, .count = whole->count };
    options.feedback = 2;
    fast_err err = fast__coder_new(&options, &s->whole);
    if (!err)
        err = fast__alloc("scales", size * fast__coder_block_count(s->whole), sizeof *s->members,
                          &s->members);
    if (!err)
        err =
            fast__alloc("scales", fast__coder_block_count(s->whole), sizeof *s->shared, &s->shared);
    if (err)
        fast__scales_free(s);
    else
        *out = s;
    return err;
}

void fast__scales_free(fast_scales *s)
{
    if (!s)
        return;
    while (s->readers) {
        scales_reader *reader = s->readers;

        s->readers = reader->next;
        fast__free(reader->scales);
        fast__free(reader);
    }
    fast__coder_free(s->whole);
    fast__free(s->members);
    fast__free(s->shared);
    fast__free(s);
}

fast_err fast__scales_serve(fast_scales *s, int64_t offset, fast_coder *coder)
{
    scales_reader *reader = NULL;

    FAST_ASSERT(offset >= 0 && coder);
    FAST_TRY(fast__alloc("a reader of scales", 1, sizeof *reader, &reader));
    *reader = (scales_reader){ .next = s->readers, .coder = coder, .offset = offset };
    s->readers = reader;
    FAST_TRY(fast__alloc("scales", fast__coder_block_count(coder), sizeof *reader->scales,
                         &reader->scales));
    fast__coder_share(coder, reader->scales);
    return FAST_OK;
}

/* Return the largest of `count` scales, `stride` apart, rounded up to 16 bits of precision; NaN if
 * one is not finite. */
static float largest_scale(int64_t count, int64_t stride, const float *scales)
{
    FAST_ASSERT(count > 0 && stride > 0);
    float most = 0;
    uint32_t bits;

    for (int64_t r = 0; r < count; r++) {
        if (!isfinite(scales[r * stride]))
            return NAN;
        most = fmaxf(most, scales[r * stride]);
    }
    memcpy(&bits, &most, sizeof bits);
    /* The 8 bits that are left hold the factors of a sum. */
    bits = (bits + 0xff) & ~UINT32_C(0xff);
    memcpy(&most, &bits, sizeof most);
    return most;
}

/* Give a coder's blocks the scales of their layers; both ascend together. */
static void give(const fast_scales *s, const scales_reader *reader)
{
    int64_t layer = 0, at, count, from, n;

    FAST_ASSERT(reader->scales);
    fast__coder_block_at(s->whole, layer, &at, &count);
    for (int64_t i = 0; i < fast__coder_block_count(reader->coder); i++) {
        fast__coder_block_at(reader->coder, i, &from, &n);
        while (reader->offset + from >= at + count)
            fast__coder_block_at(s->whole, ++layer, &at, &count);
        reader->scales[i] = s->shared[layer];
    }
}

fast_err fast__scales_agree(fast_scales *s, fast_group *group, const float *x, int64_t deadline)
{
    const int64_t blocks = fast__coder_block_count(s->whole), rank = fast_group_rank(group);
    const float *v = fast__map(x, s->count, FAST_ACCESS_READ);

    FAST_ASSERT(fast_group_size(group) == s->size);
    for (int64_t i = 0; i < blocks; i++) {
        int64_t at, count;

        fast__coder_block_at(s->whole, i, &at, &count);
        s->members[rank * blocks + i] = fast__chain_scale(s->chain, count, v + at);
    }
    fast__unmap(x, s->count, FAST_ACCESS_READ);
    FAST_TRY(fast_charge(group->actor, 2 * (double)s->count, 4 * (double)s->count));
    FAST_TRY(fast_allgather(group, s->members, s->size * blocks, deadline));
    for (int64_t i = 0; i < blocks; i++)
        s->shared[i] = largest_scale(s->size, blocks, s->members + i);
    for (const scales_reader *r = s->readers; r; r = r->next)
        give(s, r);
    return FAST_OK;
}
