/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a coded sum is made, and what is refused. With P members, n floats, and for each float b
 * bytes of its encoding and d entries of it, as a probe has them,
 *
 *     gather    (P - 1) (b n + M)
 *     sparse    sum over log2 P rounds j of (min(8 u_j, 4) n + M),  u_j = 1 - (1 - d)^(2^j)
 *     striped   (P - 1) (b n / P + M + 4 n / P + M)
 *
 * is what a member sends, where M bytes are what a message costs besides its own: about latency
 * times bandwidth, on networks as in memory. Entries of different members are taken to be
 * independent. All of it is the same at every member and on every transport, so the sum has the
 * same bits everywhere; a cost that is measured would choose other ways, and other bits, from run
 * to run. The least cost wins, before others in the order above.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "comm/coded.h"

#include <math.h>
#include <string.h>

enum { MESSAGE_BYTES = 8192, PROBE_MAX = 1 << 16 };

/* The encoding of a random normal vector, for each element. */
typedef struct probe {
    double bytes;   /* bytes of its encoding */
    double entries; /* entries of it; 0 where the codec has none */
} probe;

/* Flow numbers from 1: 0 is for probes. */
fast_coder_options fast__coded_coder(const fast_coded_options *o, int64_t offset, int64_t count)
{
    FAST_ASSERT(offset >= 0 && count > 0);
    return (fast_coder_options){ .chain = o->up,
                                 .layout = o->layout,
                                 .device = o->device,
                                 .offset = offset,
                                 .count = count,
                                 .scope = o->scope,
                                 .feedback = o->feedback,
                                 .small = o->small,
                                 .workers = o->size,
                                 .seed = o->seed,
                                 .flow = (uint64_t)o->rank + 1,
                                 .model = o->model,
                                 .model_ctx = o->model_ctx };
}

/* Encode a random normal vector and count its bytes and entries. */
static fast_err probe_coder(fast_coder *coder, bool pairs, int64_t n, float *x, uint8_t *out,
                            probe *p)
{
    FAST_ASSERT(n > 0 && p);
    uint32_t *index = NULL;
    int64_t count = 0;
    fast_rng rng;
    fast_err err = FAST_OK;

    fast__rng_init(&rng, 1, FAST_PURPOSE_CODEC, 0, 0, 0);
    for (int64_t i = 0; i < n; i++)
        x[i] = fast__rng_normal(&rng);
    const size_t size = fast__coder_encode(coder, 0, 1e6, x, out);
    if (pairs)
        FAST_TRY(fast__alloc("entries of a probe", n, sizeof *index, &index));
    if (pairs)
        err = fast__coder_pairs(coder, out, size, index, x, &count);
    fast__free(index);
    FAST_TRY(err);
    *p = (probe){ (double)size / (double)n, (double)count / (double)n };
    return FAST_OK;
}

/* Encode part of a vector with a coder that no member uses. */
static fast_err probe_chain(const fast_coded_options *o, bool pairs, probe *p)
{
    FAST_ASSERT(o->layout->count > 0);
    const int64_t n = o->layout->count < PROBE_MAX ? o->layout->count : PROBE_MAX;
    fast_coder_options options = fast__coded_coder(o, 0, n);
    fast_coder *coder = NULL;
    uint8_t *out = NULL;
    float *x = NULL;

    options.flow = 0;
    options.feedback = 2;
    options.model = NULL; /* it may differ between members */
    FAST_TRY(fast__coder_new(&options, &coder));
    fast_err err = fast__alloc("a probe", n, sizeof *x, &x);
    if (!err)
        err = fast__alloc("a probe's bytes", (int64_t)fast__coder_bound(coder), 1, &out);
    if (!err)
        err = probe_coder(coder, pairs, n, x, out, p);
    fast__free(out);
    fast__free(x);
    fast__coder_free(coder);
    return err;
}

/* Return the bytes of streams that double, and become dense. */
static double cost_sparse(double members, double n, double entries)
{
    FAST_ASSERT(members >= 1 && entries >= 0 && entries <= 1);
    double cost = 0;
    double left = 1 - entries; /* of elements that no entry is for */

    for (double reach = 1; reach < members; reach *= 2, left *= left)
        cost += fmin(8 * (1 - left), 4) * n + MESSAGE_BYTES;
    return cost;
}

/* Equal at all members: nothing that differs between them is used. */
fast_err fast__coded_choose(const fast_coded_options *o, int64_t blocks, fast_coded_way *out)
{
    FAST_ASSERT(blocks > 0 && out);
    const fast_codec *codec = fast__chain_codec(o->up);
    const bool pairs = codec && codec->pairs && blocks == 1;
    const double members = (double)o->size, n = (double)o->layout->count;
    probe p = { 0 };

    *out = o->way;
    if (o->way == FAST_CODED_SPARSE && !pairs)
        return fast__fail(FAST_EINVAL, "codec %s: there are no entries to be merged",
                          fast__chain_text(o->up));
    if ((o->way == FAST_CODED_ROUNDS) != (codec && codec->rounds) && o->way != FAST_CODED_AUTO)
        return fast__fail(FAST_EINVAL, "codec %s: only codecs with rounds are summed by rounds",
                          fast__chain_text(o->up));
    if (o->way != FAST_CODED_AUTO)
        return FAST_OK;
    *out = codec && codec->rounds         ? FAST_CODED_ROUNDS
           : fast__chain_is_none(o->down) ? FAST_CODED_GATHER
                                          : FAST_CODED_STRIPED;
    if (*out != FAST_CODED_GATHER || o->size <= 2)
        return FAST_OK;
    FAST_TRY(probe_chain(o, pairs, &p));
    const double gather = (members - 1) * (p.bytes * n + MESSAGE_BYTES);
    const double striped = (members - 1) * ((p.bytes + 4) * n / members + 2 * MESSAGE_BYTES);
    const double sparse = pairs ? cost_sparse(members, n, p.entries) : INFINITY;
    if (sparse < gather && sparse <= striped)
        *out = FAST_CODED_SPARSE;
    else if (striped < gather)
        *out = FAST_CODED_STRIPED;
    return FAST_OK;
}

/* A coder of one element is made and freed: it checks its own options. */
fast_err fast__coded_check_coder(const fast_coded_options *o)
{
    FAST_ASSERT(o->up);
    const fast_segment whole = { .name = "x", .count = 1, .shape = { 1 }, .rank = 1 };
    const fast_layout layout = { &whole, 1, 1 };
    fast_coder_options options = fast__coded_coder(o, 0, 1);
    fast_coder *coder = NULL;

    options.layout = &layout;
    FAST_TRY(fast__coder_new(&options, &coder));
    fast__coder_free(coder);
    return FAST_OK;
}

/* Errors name the option to change. */
fast_err fast__coded_check(const fast_coded_options *o)
{
    FAST_ASSERT(o->up && o->down);
    const fast_codec *codec = fast__chain_codec(o->up);
    const char *text = fast__chain_text(o->up);

    if (fast__chain_is_none(o->up) && !fast__chain_is_none(o->down))
        return fast__fail(FAST_EINVAL,
                          "codec_down=%s encodes sums that come back, but updates have no codec: "
                          "give codec too, as in "
                          "codec=%s",
                          fast__chain_text(o->down), fast__chain_text(o->down));
    if (codec && codec->rounds && !fast__chain_is_none(o->down))
        return fast__fail(
            FAST_EINVAL,
            "codec %s is summed on the way, and nothing comes back that codec_down=%s "
            "could encode; leave it out",
            text, fast__chain_text(o->down));
    if (codec && codec->rounds && strchr(text, '+'))
        return fast__fail(FAST_EINVAL, "codec %s: what is summed on the way has no stages", text);
    return fast__coded_check_coder(o);
}
