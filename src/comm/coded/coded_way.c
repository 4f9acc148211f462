/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a coded sum is made, and what is refused. With P members, n floats, and for each float b
 * bytes of its encoding and d entries of it, as a probe has them,
 *
 *     gather    (P - 1) (b n + M)
 *     double    sum over log2 P rounds j of (min((4 + v) u_j, v) n + M),  u_j = 1 - (1 - d)^(2^j)
 *     split     (P - 1) (min((4 + v) d, v) n / P + M + min((4 + v) u, v) n / P + M),
 *               u = 1 - (1 - d)^P
 *     stripes   (P - 1) (b n / P + M + 4 n / P + M)
 *
 * is what a member sends, v = 4, or less with values of few bits. M bytes are what a message costs
 * besides its own: about latency times bandwidth, on networks as in memory. Entries of different
 * members are taken to be independent. All of it is the same at every member and on every
 * transport, so the sum has the same bits everywhere; a cost that is measured would choose other
 * ways, and other bits, from run to run. The least cost wins, before others in the order above.
 * `auto` chooses among gather, double and stripes, `sparse` between double and split, as SparCML
 * does; each can be asked for by its name.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "comm/coded.h"

#include <math.h>
#include <stdlib.h>
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
                                 .feedback = o->feedback == FAST_FEEDBACK_EF21 ? 1 : o->feedback,
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
    if (pairs && fast__coder_block_count(coder) > 1) {
        err = fast__coder_decode(coder, out, size, FAST_DECODE_SET, 1, x);
        for (int64_t i = 0; i < n; i++)
            count += x[i] != 0;
    } else if (pairs) {
        FAST_TRY(fast__alloc("entries of a probe", n, sizeof *index, &index));
        err = fast__coder_pairs(coder, out, size, index, x, &count);
        fast__free(index);
    }
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
static double cost_sparse(double members, double n, double entries, double v)
{
    FAST_ASSERT(members >= 1 && entries >= 0 && entries <= 1);
    double cost = 0;
    double left = 1 - entries; /* of elements that no entry is for */

    for (double reach = 1; reach < members; reach *= 2, left *= left)
        cost += fmin((4 + v) * (1 - left), v) * n + MESSAGE_BYTES;
    return cost;
}

/* Return the bytes of split and allgather: the parts of the own entries to their owners, then the
 * sum of the own part, which has the entries of all members, to all others. */
static double cost_split(double members, double n, double entries, double v)
{
    FAST_ASSERT(members >= 1 && entries >= 0 && entries <= 1);
    const double sum = 1 - pow(1 - entries, members);

    return (members - 1) * ((fmin((4 + v) * entries, v) + fmin((4 + v) * sum, v)) * n / members +
                            2 * MESSAGE_BYTES);
}

/* As they are typed and told; MERGED is `sparse`, the name of SparCML's choice. */
static const char *const names[FAST_CODED_WAYS] = {
    [FAST_CODED_AUTO] = "auto",     [FAST_CODED_ROUNDS] = "rounds",
    [FAST_CODED_SPARSE] = "double", [FAST_CODED_SPLIT] = "split",
    [FAST_CODED_MERGED] = "sparse", [FAST_CODED_BUTTERFLY] = "butterfly",
    [FAST_CODED_GATHER] = "gather", [FAST_CODED_STRIPED] = "stripes",
};

const char *fast__coded_way_name(fast_coded_way way)
{
    FAST_ASSERT(way >= 0 && way < FAST_CODED_WAYS);
    return names[way];
}

/* Read "4x3x2", the degrees of a butterfly, up to a comma or the end, which *text then is at. */
static fast_err parse_degrees(const char **text, fast_sparse_plan *plan)
{
    FAST_ASSERT(text && plan->count == 0);
    for (const char *at = *text;;) {
        char *end = NULL;
        const long long degree = strtoll(at, &end, 10);

        if (end == at || (*end && *end != 'x' && *end != ',') || degree < 2 ||
            degree > FAST_SPARSE_DEGREE_MAX || plan->count == FAST_SPARSE_LAYERS_MAX)
            return fast__fail(FAST_EINVAL,
                              "codec_sum=butterfly:%.40s: degrees are up to %d numbers from 2 to "
                              "%d, like 4x3",
                              *text, FAST_SPARSE_LAYERS_MAX, FAST_SPARSE_DEGREE_MAX);
        plan->degrees[plan->count++] = degree;
        /* The list ends after a degree, never after an x. */
        if (*end != 'x') {
            *text = end;
            return FAST_OK;
        }
        at = end + 1;
    }
}

/* Read the options of a method that merges streams: degrees of a butterfly, and bits. */
static fast_err parse_merged(const char *text, const char *options, fast_coded_way way,
                             fast_sparse_plan *plan)
{
    static const char *const widths[] = { "bits=2", "bits=4", "bits=8", "bits=32" };
    static const int bits[] = { 2, 4, 8, 0 };

    FAST_ASSERT(way >= FAST_CODED_SPARSE && way <= FAST_CODED_MERGED);
    if (way == FAST_CODED_BUTTERFLY && *options >= '0' && *options <= '9') {
        FAST_TRY(parse_degrees(&options, plan));
        if (!*options)
            return FAST_OK;
        options++; /* the comma */
    }
    for (int i = 0; i < 4; i++)
        if (strcmp(options, widths[i]) == 0) {
            plan->bits = bits[i];
            return FAST_OK;
        }
    return fast__fail(FAST_EINVAL, "codec_sum=%.60s: options are bits=2, 4, 8 or 32%s", text,
                      way == FAST_CODED_BUTTERFLY ? " and degrees before it, like 4x3" : "");
}

/* The split is a butterfly of one layer, as wide as the group; more members make a second layer. */
fast_err fast__coded_way_parse(const char *text, fast_coded_way *way_out,
                               fast_sparse_plan *plan_out)
{
    const size_t length = strcspn(text, ":");
    int way = 0;

    FAST_ASSERT(way_out && plan_out);
    while (way < FAST_CODED_WAYS && (way == FAST_CODED_ROUNDS || strlen(names[way]) != length ||
                                     memcmp(names[way], text, length) != 0))
        way++;
    const bool merges = way >= FAST_CODED_SPARSE && way <= FAST_CODED_MERGED;
    if (way == FAST_CODED_WAYS || (text[length] && !merges))
        return fast__fail(
            FAST_EINVAL,
            "no codec_sum \"%.60s\"; it is one of auto, gather, stripes, sparse, double, "
            "split, butterfly and butterfly:4x2, the last five also with bits=8",
            text);
    *plan_out = (fast_sparse_plan){ 0 };
    if (way == FAST_CODED_SPLIT)
        *plan_out = (fast_sparse_plan){ .count = 1, .degrees = { FAST_SPARSE_DEGREE_MAX } };
    if (text[length])
        FAST_TRY(parse_merged(text, text + length + 1, (fast_coded_way)way, plan_out));
    if (way == FAST_CODED_BUTTERFLY && plan_out->count == 0) {
        plan_out->count = 2;
        plan_out->degrees[0] = 4;
        plan_out->degrees[1] = 2;
    }
    *way_out = (fast_coded_way)way;
    return FAST_OK;
}

/* Refuse a method that the codec does not allow. */
static fast_err check_way(const fast_coded_options *o, fast_coded_way way, bool pairs)
{
    const fast_codec *codec = fast__chain_codec(o->up);
    const bool merges = way >= FAST_CODED_SPARSE && way <= FAST_CODED_MERGED;

    FAST_ASSERT(way != FAST_CODED_AUTO);
    if ((way == FAST_CODED_ROUNDS) != (codec && codec->rounds))
        return fast__fail(FAST_EINVAL, "codec %s: only codecs with rounds are summed by rounds",
                          fast__chain_text(o->up));
    if (merges && !pairs)
        return fast__fail(FAST_EINVAL,
                          "codec %s: there are no entries to be merged by %s, which needs a sparse "
                          "codec like topk",
                          fast__chain_text(o->up), names[way]);
    if (way != FAST_CODED_STRIPED && !fast__chain_is_none(o->down))
        return fast__fail(FAST_EINVAL,
                          "codec_down=%s encodes the sums of stripes, and no member owns one with "
                          "codec_sum=%s; leave one out",
                          fast__chain_text(o->down), names[way]);
    return FAST_OK;
}

/* Choose by cost: among gather, double and stripes, or with `merged` between double and split. */
static fast_err choose_cheapest(const fast_coded_options *o, bool pairs, bool merged, int bits,
                                fast_coded_way *out)
{
    const double v = bits > 0 ? bits / 8.0 : 4; /* bytes of a value in a stream */
    const double members = (double)o->size, n = (double)o->layout->count;
    probe p = { 0 };

    FAST_ASSERT(o->size > 1);
    FAST_TRY(probe_chain(o, pairs, &p));
    const double gather = (members - 1) * (p.bytes * n + MESSAGE_BYTES);
    const double striped = (members - 1) * ((p.bytes + 4) * n / members + 2 * MESSAGE_BYTES);
    const double doubled = pairs ? cost_sparse(members, n, p.entries, v) : INFINITY;

    if (merged)
        *out =
            cost_split(members, n, p.entries, v) < doubled ? FAST_CODED_SPLIT : FAST_CODED_SPARSE;
    else if (doubled < gather && doubled <= striped)
        *out = FAST_CODED_SPARSE;
    else if (striped < gather)
        *out = FAST_CODED_STRIPED;
    return FAST_OK;
}

/* Equal at all members: nothing that differs between them is used. */
fast_err fast__coded_choose(const fast_coded_options *o, int64_t blocks, fast_coded_way *out,
                            fast_sparse_plan *plan_out)
{
    FAST_ASSERT(blocks > 0 && out);
    const fast_codec *codec = fast__chain_codec(o->up);
    const bool pairs = codec && codec->pairs;
    fast_coded_way way = o->way;

    /* A name wins over the number, which tests and other callers in C give. */
    *plan_out = (fast_sparse_plan){ 0 };
    if (o->sum)
        FAST_TRY(fast__coded_way_parse(o->sum, &way, plan_out));
    if (way != FAST_CODED_AUTO)
        FAST_TRY(check_way(o, way, pairs));
    if (way == FAST_CODED_AUTO) {
        way = codec && codec->rounds         ? FAST_CODED_ROUNDS
              : fast__chain_is_none(o->down) ? FAST_CODED_GATHER
                                             : FAST_CODED_STRIPED;
        if (way == FAST_CODED_GATHER && o->size > 2)
            FAST_TRY(choose_cheapest(o, pairs && blocks == 1, false, 0, &way));
    } else if (way == FAST_CODED_MERGED) {
        way = FAST_CODED_SPARSE;
        if (o->size > 2)
            FAST_TRY(choose_cheapest(o, pairs, true, plan_out->bits, &way));
        if (way == FAST_CODED_SPLIT)
            *plan_out = (fast_sparse_plan){ .count = 1,
                                            .degrees = { FAST_SPARSE_DEGREE_MAX },
                                            .bits = plan_out->bits };
    }
    *out = way;
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

    if (o->sum) {
        fast_coded_way way = FAST_CODED_AUTO;
        fast_sparse_plan plan;

        FAST_TRY(fast__coded_way_parse(o->sum, &way, &plan));
        if (way >= FAST_CODED_SPARSE && way <= FAST_CODED_MERGED)
            FAST_TRY(check_way(o, way, codec && codec->pairs));
    }
    if (o->feedback == FAST_FEEDBACK_EF21 &&
        ((codec && codec->rounds) || (fast__chain_traits(o->up) & FAST_CODEC_VOTES) ||
         fast__chain_selects(o->up) || o->small > 0))
        return fast__fail(FAST_EINVAL,
                          "codec %s: feedback=ef21 encodes differences to an estimate, which needs "
                          "a codec that approximates all its elements, like topk or sign, without "
                          "selections and codec_small",
                          text);
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
