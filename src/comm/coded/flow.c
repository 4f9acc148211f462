/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows: vectors that a strategy sends encoded in messages of its own, to one actor or to many.
 *
 * Changes, which receivers add up. Only the sender's half has a state, so that a receiver decodes
 * what comes from anyone by one flow:
 *
 *     sender      C(x + e) -> bytes,  e <- x + e - decode(bytes)     where the codec feeds back
 *     receiver    y <- y + scale decode(bytes)
 *
 * Values, of which the newest counts. A codec that loses nothing sends x. Any other gets the
 * difference to h, what receivers hold, with a length that fits (codec/shadow.h):
 *
 *     sender      s C(x - h) -> bytes,  h <- h + s decode(bytes)
 *     receiver    h <- h + s decode(bytes)
 *
 * Raw, values that are no differences: by codecs that are fit for weights.
 *
 * One flow has one residual e, or one h: a sender takes one flow where the same bytes go to all,
 * and one for each receiver where they differ.
 *
 * Cost: the codec's, in simulated time as coded.c counts it, twice that to send a difference, which
 * is decoded there too. Memory: the codec's state; h for each flow of values, and two vectors for
 * all of them. Nothing is allocated after a flow is made.
 */
#include "comm/flow.h"

#include "base/memory.h"
#include "tensor/vector.h"

#include <string.h>

struct fast_flow {
    fast_flow *next;             /* in the list */
    fast_flow_options options;   /* as they were asked for */
    const fast_chain *chain;     /* its codec */
    int64_t count;               /* of floats */
    fast_coder *coder;           /* of the range; NULL for differences of values */
    float *values;               /* values as they are: [count], those that came last; or NULL */
    fast_shadows *shadows;       /* differences of values: how they are sent; else NULL */
    fast_shadow shadow;          /* differences of values: the receivers' copy */
    fast_coded_figures *figures; /* where to count bytes and time; borrowed */
};

/* Checked before a run starts too, so that a strategy is refused early and not at its first
 * message. */
fast_err fast__flow_check(const fast_chain *chain, bool values, bool raw)
{
    FAST_ASSERT(chain);
    const unsigned traits = fast__chain_traits(chain);

    if (raw && !(traits & (FAST_CODEC_RAW | FAST_CODEC_LOSSLESS)))
        return fast__fail(FAST_EINVAL,
                          "weights are sent as they are, since a message may be the only one, and "
                          "codec %s does not keep them; take fp16, bf16, int8 or one that loses "
                          "nothing",
                          fast__chain_text(chain));
    if (traits & FAST_CODEC_VOTES)
        return fast__fail(FAST_EINVAL,
                          "codec %s takes the votes of all workers in one sum, and here each "
                          "message stands alone; take sign",
                          fast__chain_text(chain));
    return values ? fast__shadow_check(chain, "codec") : FAST_OK;
}

/* Make the flow's coder, or the shadows that all flows of values share. */
static fast_err open_codec(fast_flows *flows, const fast_coder_options *coder, fast_flow *flow)
{
    FAST_ASSERT(!flow->coder && !flow->shadows);
    fast_shadows **shadows = &flows->shadows[flow->options.down];

    if (!flow->options.values || (fast__chain_traits(coder->chain) & FAST_CODEC_LOSSLESS)) {
        FAST_TRY(fast__coder_new(coder, &flow->coder));
        return flow->options.decodes && (flow->options.values || flow->options.raw)
                   ? fast__vector_new(coder->device ? coder->device : &fast__host, "values",
                                      flow->count, &flow->values)
                   : FAST_OK;
    }
    if (!*shadows)
        FAST_TRY(fast__shadows_new(coder, shadows));
    flow->shadows = *shadows;
    flow->shadow.flow = (uint32_t)flow->options.number + 1;
    return fast__shadow_reserve(flow->shadows, &flow->shadow);
}

/* Free a flow, as much of it as was made. */
static void flow_free(fast_flow *flow)
{
    FAST_ASSERT(flow);
    fast__coder_free(flow->coder);
    fast__shadow_fini(&flow->shadow);
    fast__vector_free(flow->values);
    fast__free(flow);
}

/* Make the flow of these options. */
static fast_err flow_new(fast_flows *flows, const fast_coded_options *o,
                         const fast_flow_options *options, fast_flow **out)
{
    const int64_t rest = o->layout->count - options->offset;
    const int64_t count = options->count > 0 ? options->count : rest;
    fast_flow *flow = NULL;

    FAST_ASSERT(options->offset >= 0 && count > 0 && count <= rest && o->figures != NULL);
    FAST_ASSERT(!options->values || count == o->layout->count);
    fast_coder_options coder = fast__coded_coder(o, options->offset, count);
    coder.flow |= (uint64_t)(options->number + 1) << 32; /* sums and spaces have those below */
    if (options
            ->down) { /* the option `feedback` is for `up`; `down` follows it where its codec can */
        const unsigned exact = FAST_CODEC_ACCUMULATES | FAST_CODEC_LOSSLESS | FAST_CODEC_UNBIASED;

        coder.chain = o->down;
        if (coder.feedback == 1 && (fast__chain_traits(o->down) & exact))
            coder.feedback = 0;
    }
    if (options->decodes || options->raw)
        coder.feedback = 2;
    FAST_TRY(fast__flow_check(coder.chain, options->values, options->raw));
    FAST_TRY(fast__alloc("a flow", 1, sizeof *flow, &flow));
    flow->options = *options;
    flow->chain = coder.chain;
    flow->count = count;
    flow->figures = o->figures;
    const fast_err err = open_codec(flows, &coder, flow);
    if (err)
        flow_free(flow);
    else
        *out = flow;
    return err;
}

/* Return true if two requests are for the same flow. */
static bool is_same(const fast_flow_options *a, const fast_flow_options *b)
{
    FAST_ASSERT(a && b);
    return a->number == b->number && a->values == b->values && a->raw == b->raw &&
           a->down == b->down && a->decodes == b->decodes && a->offset == b->offset &&
           a->count == b->count;
}

/* A linear search: an actor has a few flows, and asks once for each. */
fast_err fast__flows_get(fast_flows *flows, const fast_coded_options *o,
                         const fast_flow_options *options, fast_flow **out)
{
    FAST_ASSERT(flows && out);
    fast_flow **at = &flows->list;

    while (*at && !is_same(&(*at)->options, options))
        at = &(*at)->next;
    if (!*at) /* at the end: the order of creation decides the shadows' random numbers */
        FAST_TRY(flow_new(flows, o, options, at));
    *out = *at;
    return FAST_OK;
}

/* Flows first: they borrow the shadows. */
void fast__flows_drop(fast_flows *flows)
{
    while (flows->list) {
        fast_flow *flow = flows->list;

        flows->list = flow->next;
        flow_free(flow);
    }
    for (int i = 0; i < 2; i++) {
        fast__shadows_free(flows->shadows[i]);
        flows->shadows[i] = NULL;
    }
}

/* A flow in a record: these words, then floats: the coder's, or what receivers hold. */
enum {
    WORD_NUMBER,
    WORD_WAY, /* bits: values, raw, down, decodes */
    WORD_OFFSET,
    WORD_COUNT,
    WORD_SENT,     /* encodings; of differences: messages */
    WORD_WHOLE,    /* differences: something was sent */
    WORD_FRACTION, /* differences: bits of the fraction that was sent */
    WORDS
};

/* Return the floats that a checkpoint saves of a flow; NULL: none. */
static float *floats_of(const fast_flow *flow, int64_t *count_out)
{
    FAST_ASSERT(flow->coder || flow->shadows);
    if (!flow->shadows)
        return fast__coder_state(flow->coder, count_out);
    *count_out = fast__shadows_floats(flow->shadows);
    return flow->shadow.values;
}

/* Called twice: to count the bytes, and to write them. */
void fast__flows_pack(const fast_flows *flows, fast_pack *pack, int64_t kind)
{
    FAST_ASSERT(pack);
    for (const fast_flow *f = flows->list; f; f = f->next) {
        const fast_flow_options *o = &f->options;
        const int64_t sent =
            f->shadows ? (int64_t)f->shadow.number : fast__coder_encodings(f->coder);
        int64_t words[WORDS] = {
            o->number, o->values | o->raw << 1 | o->down << 2 | o->decodes << 3,
            o->offset, o->count,
            sent,      f->shadow.whole
        };
        int64_t count = 0;
        const float *floats = floats_of(f, &count);
        const size_t size = (size_t)count * sizeof *floats;
        uint8_t *at = fast__pack_add(pack, kind, o->number, sizeof words + size);

        if (!at)
            continue;
        memcpy(&words[WORD_FRACTION], &f->shadow.sent, sizeof f->shadow.sent);
        memcpy(at, words, sizeof words);
        if (count > 0)
            fast__vector_copy(count, floats, at + sizeof words);
    }
}

/* Read the options of a flow from a record; false if no flow can have them. */
static bool read_options(const int64_t *words, const fast_layout *layout, fast_flow_options *out)
{
    FAST_ASSERT(layout->count > 0);
    const int64_t way = words[WORD_WAY], count = words[WORD_COUNT], offset = words[WORD_OFFSET];

    *out = (fast_flow_options){ .number = words[WORD_NUMBER],
                                .values = way & 1,
                                .raw = way & 2,
                                .down = way & 4,
                                .decodes = way & 8,
                                .offset = offset,
                                .count = count };
    return way >= 0 && way < 16 && out->number >= 0 && out->number < INT32_MAX && offset >= 0 &&
           offset < layout->count && count >= 0 && count <= layout->count - offset &&
           (!out->values || (offset == 0 && (count == 0 || count == layout->count)));
}

/* Makes the flow, if the strategy has not asked for it yet: its state must be there when it
 * does. */
fast_err fast__flows_unpack(fast_flows *flows, const fast_coded_options *o,
                            const fast_pack_record *record)
{
    FAST_ASSERT(record);
    int64_t words[WORDS] = { 0 }, count = 0;
    fast_flow_options options;
    fast_flow *flow = NULL;

    if (record->size >= sizeof words)
        memcpy(words, record->data, sizeof words);
    if (record->size < sizeof words || !read_options(words, o->layout, &options))
        return fast__fail(FAST_EFORMAT, "%zu bytes are not the state of a flow", record->size);
    const size_t size = record->size - sizeof words;
    FAST_TRY(fast__flows_get(flows, o, &options, &flow));
    float *floats = floats_of(flow, &count);
    if (size != (size_t)count * sizeof *floats)
        return fast__fail(FAST_EFORMAT, "flow %lld has %lld floats, not %zu bytes",
                          (long long)options.number, (long long)count, size);
    if (flow->shadows) {
        flow->shadow.number = (uint32_t)words[WORD_SENT];
        flow->shadow.whole = words[WORD_WHOLE] != 0;
        memcpy(&flow->shadow.sent, &words[WORD_FRACTION], sizeof flow->shadow.sent);
    } else {
        fast__coder_restart(flow->coder, words[WORD_SENT] & INT64_MAX);
    }
    fast__vector_copy(count, (const uint8_t *)record->data + sizeof words, floats);
    return FAST_OK;
}

/* Constant while the flow lives: senders size their buffers once. */
size_t fast_flow_bound(const fast_flow *flow)
{
    FAST_ASSERT(flow);
    return flow->shadows ? fast__shadows_bound(flow->shadows) : fast__coder_bound(flow->coder);
}

const float *fast_flow_receiver_copy(const fast_flow *flow)
{
    FAST_ASSERT(flow);
    return flow->shadow.values;
}

const float *fast__flow_residual(const fast_flow *flow)
{
    FAST_ASSERT(flow);
    return flow->coder ? fast__coder_residual(flow->coder) : NULL;
}

bool fast__flow_projects(const fast_flow *flow)
{
    FAST_ASSERT(flow);
    return flow->coder && fast__coder_projects(flow->coder);
}

void fast__flow_project(fast_flow *flow, float *x)
{
    FAST_ASSERT(!flow->options.decodes && x != NULL);
    fast__coder_project(flow->coder, x);
}

double fast_flow_sent_fraction(const fast_flow *flow)
{
    FAST_ASSERT(flow);
    return flow->shadows ? flow->shadow.sent : 1;
}

void fast_flow_reset(fast_flow *flow)
{
    FAST_ASSERT(flow->options.values);
    flow->shadow.whole = false;
}

/* A difference is decoded at the sender too, hence twice the work. */
fast_err fast__flow_encode(fast_flow *flow, fast_actor *actor, int64_t step, double progress,
                           const float *x, uint8_t *out, size_t *size_out)
{
    const int64_t begin = fast__steady_now(actor);
    const int64_t work = flow->shadows ? 2 * flow->count : flow->count;

    FAST_ASSERT(!flow->options.decodes && x != NULL);
    if (flow->shadows)
        FAST_TRY(fast__shadow_send(flow->shadows, &flow->shadow, step, progress, x, out, size_out));
    else
        *size_out = fast__coder_encode(flow->coder, step, progress, x, out);
    fast__count(&flow->figures->bytes_in, flow->count * (int64_t)sizeof *x);
    fast__count(&flow->figures->bytes_out, (int64_t)*size_out);
    return fast__charge_encode(actor, flow->chain, begin, work, *size_out, flow->figures);
}

/* Count and charge a decoding of `size` bytes that started at `begin`. */
static fast_err count_decoding(const fast_flow *flow, fast_actor *actor, int64_t begin, size_t size)
{
    FAST_ASSERT(flow->figures);
    fast__count(&flow->figures->bytes_dec, flow->count * (int64_t)sizeof(float));
    return fast__charge_decode(actor, flow->chain, begin, flow->count, size, flow->figures);
}

/* Stateless: one flow decodes the changes of any number of senders. */
fast_err fast__flow_decode(fast_flow *flow, fast_actor *actor, const uint8_t *in, size_t size,
                           float scale, float *y)
{
    const int64_t begin = fast__steady_now(actor);

    FAST_ASSERT(!flow->options.values && !flow->options.raw);
    FAST_TRY(fast__coder_decode(flow->coder, in, size, FAST_DECODE_ADD, scale, y));
    return count_decoding(flow, actor, begin, size);
}

/* Stateful: differences of one sender, each once and in their order. */
fast_err fast__flow_follow(fast_flow *flow, fast_actor *actor, const uint8_t *in, size_t size,
                           const float **out)
{
    const int64_t begin = fast__steady_now(actor);

    FAST_ASSERT((flow->options.values || flow->options.raw) && flow->options.decodes);
    if (flow->shadows)
        FAST_TRY(fast__shadow_take(flow->shadows, &flow->shadow, in, size));
    else
        FAST_TRY(fast__coder_decode(flow->coder, in, size, FAST_DECODE_SET, 1, flow->values));
    *out = flow->shadows ? flow->shadow.values : flow->values;
    return count_decoding(flow, actor, begin, size);
}
