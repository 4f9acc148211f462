/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One flow of vectors. The range is cut in blocks: one, or one for each segment (scope layer), of
 * which those with fewer than `small` elements go as they are. Of a segment that the range cuts
 * within its rows the whole rows are a block, so that codecs of matrices work on shards too.
 *
 * Error feedback is a layer of its own: with e the residual, which begins at 0, and C the codec,
 *
 *     v = x + e,   send C(v),   e <- v - decode(C(v))
 *
 * so that what was decoded in all plus e is the sum of all x, up to rounding (Seide et al. 2014;
 * Karimireddy et al. 2019). Codecs that feed do it in their own pass; for others it is done here,
 * at the price of a decoding. It is on unless the codec loses nothing, is unbiased, keeps a
 * residual itself, is precise enough to send raw values, or is put to a vote.
 *
 *     frame   byte 0: stages that were applied, from the first; then, after those, the blocks
 *     block   one alone: its bytes; several: the size of each (variable length), then its bytes
 *
 * A stage that makes the frame larger, and those after it, are left out. Cost: the codec's; nothing
 * is allocated after fast__coder_new(). A key is drawn for each block and encoding from (seed,
 * flow, encodings so far, block).
 */
#include "base/memory.h"
#include "base/rng.h"
#include "codec/bits.h"
#include "codec/chain.h"
#include "tensor/vector.h"

#include <string.h>

/* A block of the flow. */
typedef struct part {
    fast_block block;
    int64_t at;    /* first element, in the range */
    int64_t state; /* its state, from the begin of all blocks' */
    bool raw;      /* goes as it is: too small, or there is no codec */
} part;

struct fast_coder {
    const fast_chain *chain;
    int64_t count;       /* elements of the range */
    part *parts;         /* the blocks, in order */
    int64_t part_count;  /* of them */
    bool feedback;       /* there is a residual */
    float *residual;     /* [count] if so, then the blocks' state: one allocation */
    int64_t state_count; /* floats of both */
    float *state;        /* behind the residual */
    void *scratch;       /* of the codec */
    float *sum;          /* generic feedback: [largest block] v, then its decoding; or NULL */
    uint8_t *bytes[2];   /* [room] each: frames between stages; NULL without */
    void *stage_scratch; /* of the stages */
    size_t room;         /* bytes of a frame without its first byte, at most, in any stage */
    size_t plain;        /* likewise, before stages */
    uint64_t seed;       /* of the run */
    uint64_t flow;       /* of this flow */
    uint64_t encodings;  /* so far */
    int64_t workers;     /* that send such vectors */
};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Blocks of one segment at most: of a matrix that a range cuts within rows the whole ones are one
 * block, and what is left of a row before and behind them two more. */
enum { CUTS = 3 };

/* The part of segment s that lies in the range, as blocks: their number. */
static int64_t cut_segment(const fast_coder_options *o, const fast_segment *s, part out[CUTS])
{
    const int64_t begin = s->offset > o->offset ? s->offset : o->offset;
    const int64_t end = min64(s->offset + s->count, o->offset + o->count);
    const int64_t cols = s->rank > 1 && s->shape[0] > 0 ? s->count / s->shape[0] : s->count;
    const int64_t count = end > begin ? end - begin : 0;
    const int64_t head = cols > 0 ? min64((cols - (begin - s->offset) % cols) % cols, count) : 0;
    const int64_t rows = cols > 0 ? (count - head) / cols : 0, tail = count - head - rows * cols;
    const int64_t counts[CUTS] = { head, rows * cols, tail };
    int64_t n = 0, at = begin - o->offset;

    if (count == 0)
        return 0;
    if (rows < 2) {
        out[0] = (part){ .block = { 1, count, count }, .at = at };
        return 1;
    }
    for (int i = 0; i < CUTS; at += counts[i++])
        if (counts[i] > 0)
            out[n++] = (part){ .block = { i == 1 ? rows : 1, i == 1 ? cols : counts[i], counts[i] },
                               .at = at };
    return n;
}

/* Cut the range in blocks; with parts NULL only count them. */
static int64_t cut(const fast_coder_options *o, bool layers, part *parts)
{
    int64_t count = 0;

    if (!layers) {
        if (parts)
            parts[0] = (part){ .block = { 1, o->count, o->count } };
        return 1;
    }
    for (int64_t i = 0; i < o->layout->segment_count; i++) {
        part cuts[CUTS];
        const int64_t n = cut_segment(o, &o->layout->segments[i], cuts);

        if (parts)
            memcpy(parts + count, cuts, (size_t)n * sizeof *cuts);
        count += n;
    }
    return count;
}

static fast_err check(const fast_coder_options *o)
{
    const unsigned traits = fast__chain_traits(o->chain);

    FAST_ASSERT(o->offset >= 0 && o->count > 0 && o->offset + o->count <= o->layout->count);
    if (o->count > INT32_MAX)
        return fast__fail(FAST_EINVAL, "codec %s: %lld elements are too many for one flow",
                          o->chain->text, (long long)o->count);
    if (o->feedback == 1 && (traits & (FAST_CODEC_KEEPS | FAST_CODEC_LOSSLESS)))
        return fast__fail(FAST_EINVAL, "codec %s: there is nothing to feed back; %s",
                          o->chain->text,
                          traits & FAST_CODEC_KEEPS ? "it keeps what it has not sent itself"
                                                    : "it loses nothing");
    if (o->feedback == 1 && (traits & FAST_CODEC_UNBIASED) && !(traits & FAST_CODEC_RAW))
        return fast__fail(FAST_EINVAL,
                          "codec %s is right in the mean, but far off each time: what "
                          "error feedback owes would grow without end",
                          o->chain->text);
    return FAST_OK;
}

/* Sizes of everything, from the blocks. */
static void measure(fast_coder *c, const fast_coder_options *o, size_t *scratch_out,
                    int64_t *largest_out, size_t *stage_out)
{
    const fast_codec *codec = o->chain->codec;
    size_t scratch = 0;
    int64_t largest = 0;
    size_t size = 0;

    for (int64_t i = 0; i < c->part_count; i++) {
        part *p = &c->parts[i];

        p->raw = !codec || (c->part_count > 1 && p->block.count < o->small);
        if (p->block.count > largest)
            largest = p->block.count;
        size += c->part_count > 1 ? FAST_VARINT_MAX : 0;
        if (p->raw) {
            size += (size_t)p->block.count * sizeof(float);
            continue;
        }
        size += codec->bound(o->chain->config, &p->block);
        p->state = c->state_count;
        c->state_count += codec->state ? codec->state(o->chain->config, &p->block) : 0;
        const size_t need = codec->scratch ? codec->scratch(o->chain->config, &p->block) : 0;
        if (need > scratch)
            scratch = need;
    }
    c->plain = c->room = size;
    *stage_out = 0;
    for (int i = 0; i < o->chain->stage_count; i++) {
        const fast_stage *stage = o->chain->stages[i];
        const size_t need =
            stage->scratch ? stage->scratch(o->chain->stage_configs[i], c->room) : 0;

        if (need > *stage_out)
            *stage_out = need;
        size = stage->bound(o->chain->stage_configs[i], c->room);
        if (size > c->room)
            c->room = size;
    }
    *scratch_out = scratch;
    *largest_out = largest;
}

static fast_err build(fast_coder *c, const fast_coder_options *o)
{
    const fast_codec *codec = o->chain->codec;
    const unsigned traits = fast__chain_traits(o->chain);
    const unsigned exact = FAST_CODEC_LOSSLESS | FAST_CODEC_UNBIASED | FAST_CODEC_KEEPS |
                           FAST_CODEC_RAW | FAST_CODEC_VOTES | FAST_CODEC_PLAIN;
    const bool layers = codec && o->layout->segment_count > 0 &&
                        (o->scope == 1 || (o->scope == 0 && (traits & FAST_CODEC_LAYERS) != 0));
    size_t scratch;
    size_t stage_scratch;
    int64_t largest;

    c->part_count = cut(o, layers, NULL);
    FAST_TRY(fast__alloc("blocks of a codec", c->part_count, sizeof *c->parts, &c->parts));
    cut(o, layers, c->parts);
    measure(c, o, &scratch, &largest, &stage_scratch);
    c->feedback = o->feedback == 1 || (o->feedback == 0 && (traits & exact) == 0);
    if (c->feedback)
        c->state_count += c->count;
    FAST_TRY(fast__alloc("state of a codec", c->state_count, sizeof(float), &c->residual));
    c->state = c->residual + (c->feedback ? c->count : 0);
    FAST_TRY(fast__alloc("scratch of a codec", (int64_t)scratch, 1, &c->scratch));
    if (c->feedback && !(traits & FAST_CODEC_FEEDS))
        FAST_TRY(fast__alloc("feedback of a codec", 2 * largest, sizeof(float), &c->sum));
    if (o->chain->stage_count == 0)
        return FAST_OK;
    for (int i = 0; i < 2; i++)
        FAST_TRY(fast__alloc("stages of a codec", (int64_t)c->room, 1, &c->bytes[i]));
    return fast__alloc("scratch of stages", (int64_t)stage_scratch, 1, &c->stage_scratch);
}

fast_err fast__coder_new(const fast_coder_options *options, fast_coder **out)
{
    fast_coder *c = NULL;

    FAST_TRY(check(options));
    FAST_TRY(fast__alloc("codec", 1, sizeof *c, &c));
    c->chain = options->chain;
    c->count = options->count;
    c->seed = options->seed;
    c->flow = options->flow;
    c->workers = options->workers > 0 ? options->workers : 1;
    const fast_err err = build(c, options);
    if (err)
        fast__coder_free(c);
    else
        *out = c;
    return err;
}

void fast__coder_free(fast_coder *c)
{
    if (!c)
        return;
    fast__free(c->parts);
    fast__free(c->residual);
    fast__free(c->scratch);
    fast__free(c->sum);
    fast__free(c->bytes[0]);
    fast__free(c->bytes[1]);
    fast__free(c->stage_scratch);
    fast__free(c);
}

size_t fast__coder_bound(const fast_coder *c)
{
    return 1 + c->room;
}

float *fast__coder_residual(fast_coder *c)
{
    return c->feedback ? c->residual : NULL;
}

float *fast__coder_state(fast_coder *c, int64_t *count_out)
{
    *count_out = c->state_count;
    return c->residual;
}

int64_t fast__coder_encodings(const fast_coder *c)
{
    return (int64_t)c->encodings;
}

void fast__coder_restart(fast_coder *c, int64_t encodings)
{
    FAST_ASSERT(encodings >= 0);
    if (c->state_count > 0)
        memset(c->residual, 0, (size_t)c->state_count * sizeof *c->residual);
    c->encodings = (uint64_t)encodings;
}

int64_t fast__coder_block_count(const fast_coder *c)
{
    return c->part_count;
}

/* What an encoding of block i is made of. */
static fast_encoding encoding_of(fast_coder *c, int64_t i, int64_t step, double progress,
                                 const float *x)
{
    const part *p = &c->parts[i];
    fast_rng rng;

    /* Three words of a stream's name are of 32 bits: fold the flow into the seed. */
    fast__rng_init(&rng, c->seed ^ (c->flow * UINT64_C(0x9e3779b97f4a7c15)), FAST_PURPOSE_CODEC,
                   (uint64_t)i, c->encodings & UINT32_MAX, c->encodings >> 32);
    const uint64_t low = fast__rng_u32(&rng);
    return (fast_encoding){ .block = p->block,
                            .x = x + p->at,
                            .error = c->feedback ? c->residual + p->at : NULL,
                            .state = c->state + p->state,
                            .scratch = c->scratch,
                            .key = (uint64_t)fast__rng_u32(&rng) << 32 | low,
                            .step = step,
                            .progress = progress,
                            .workers = c->workers };
}

/* Generic feedback around a codec that does none. */
static size_t encode_with_feedback(fast_coder *c, fast_encoding *e, uint8_t *out)
{
    const int64_t n = e->block.count;
    float *error = e->error;
    float *decoded = c->sum + n;
    size_t size;

    memcpy(c->sum, e->x, (size_t)n * sizeof(float));
    fast__vector_add(n, error, c->sum);
    e->x = c->sum;
    e->error = NULL;
    size = c->chain->codec->encode(c->chain->config, e, out);
    const fast_decoding d = { e->block, out, size, FAST_DECODE_SET, 1, decoded, c->scratch };
    const fast_err err = c->chain->codec->decode(c->chain->config, &d);
    FAST_ASSERT(!err); /* it is its own encoding */
    memcpy(error, c->sum, (size_t)n * sizeof(float));
    fast__vector_axpy(n, -1, decoded, error);
    return size;
}

static size_t encode_block(fast_coder *c, int64_t i, int64_t step, double progress, const float *x,
                           uint8_t *out)
{
    const part *p = &c->parts[i];
    const size_t raw = (size_t)p->block.count * sizeof(float);

    if (p->raw) {
        memcpy(out, x + p->at, raw);
        return raw;
    }
    fast_encoding e = encoding_of(c, i, step, progress, x);
    return c->sum ? encode_with_feedback(c, &e, out)
                  : c->chain->codec->encode(c->chain->config, &e, out);
}

/* Some blocks, framed. A block is written where it may stay: its size is known only afterwards. */
static size_t encode_blocks(fast_coder *c, int64_t first, int64_t count, int64_t step,
                            double progress, const float *x, uint8_t *out)
{
    uint8_t *at = out;

    if (c->part_count == 1)
        return encode_block(c, 0, step, progress, x, out);
    for (int64_t i = first; i < first + count; i++) {
        uint8_t head[FAST_VARINT_MAX];
        const size_t size = encode_block(c, i, step, progress, x, at + FAST_VARINT_MAX);
        const size_t head_size = (size_t)(fast__varint_put(head, size) - head);

        memmove(at + head_size, at + FAST_VARINT_MAX, size);
        memcpy(at, head, head_size);
        at += head_size + size;
    }
    return (size_t)(at - out);
}

void fast__coder_block_at(const fast_coder *c, int64_t i, int64_t *at_out, int64_t *count_out)
{
    FAST_ASSERT(i >= 0 && i < c->part_count);
    *at_out = c->parts[i].at;
    *count_out = c->parts[i].block.count;
}

size_t fast__coder_encode(fast_coder *c, int64_t step, double progress, const float *x,
                          uint8_t *out)
{
    const size_t size = fast__coder_encode_part(c, 0, c->part_count, step, progress, x, out);

    c->encodings++;
    return size;
}

void fast__coder_encode_end(fast_coder *c)
{
    c->encodings++;
}

size_t fast__coder_encode_part(fast_coder *c, int64_t first, int64_t count, int64_t step,
                               double progress, const float *x, uint8_t *out)
{
    const fast_chain *chain = c->chain;
    const bool staged = chain->stage_count > 0;
    size_t size = encode_blocks(c, first, count, step, progress, x, staged ? c->bytes[0] : out + 1);
    int done = 0;

    out[0] = 0;
    FAST_ASSERT(size <= c->plain);
    if (!staged)
        return 1 + size;
    for (; done < chain->stage_count; done++) {
        const size_t packed = chain->stages[done]->pack(chain->stage_configs[done], c->bytes[0],
                                                        size, c->stage_scratch, c->bytes[1]);
        uint8_t *swap = c->bytes[0];

        if (packed >= size)
            break;
        c->bytes[0] = c->bytes[1];
        c->bytes[1] = swap;
        size = packed;
    }
    out[0] = (uint8_t)done;
    memcpy(out + 1, c->bytes[0], size);
    return 1 + size;
}

/* Undo the stages: *in and *size become the blocks'. */
static fast_err unstage(fast_coder *c, const uint8_t **in, size_t *size)
{
    const fast_chain *chain = c->chain;

    if (*size < 1 || **in > chain->stage_count)
        return fast__fail(FAST_EFORMAT, "codec %s: the frame begins with no number of stages",
                          chain->text);
    int done = *(*in)++;
    --*size;
    while (done-- > 0) {
        uint8_t *out = *in == c->bytes[0] ? c->bytes[1] : c->bytes[0];
        size_t unpacked;

        FAST_TRY(chain->stages[done]->unpack(chain->stage_configs[done], *in, *size,
                                             c->stage_scratch, out, c->room, &unpacked));
        *in = out;
        *size = unpacked;
    }
    return FAST_OK;
}

static fast_err decode_raw(const fast_decoding *d)
{
    enum { PIECE = 1024 };
    float piece[PIECE];

    if (d->size != (size_t)d->block.count * sizeof(float))
        return fast__fail(FAST_EFORMAT, "%zu bytes are not %lld floats", d->size,
                          (long long)d->block.count);
    for (int64_t i = 0; i < d->block.count; i += PIECE) {
        const int64_t n = min64(PIECE, d->block.count - i);

        const bool add = d->mode == FAST_DECODE_ADD;
        memcpy(add ? piece : d->y + i, d->in + i * (int64_t)sizeof(float),
               (size_t)n * sizeof(float));
        if (add)
            fast__vector_axpy(n, d->scale, piece, d->y + i);
        else
            fast__vector_scale(n, d->scale, d->y + i);
    }
    return FAST_OK;
}

/* The next block's bytes; `left` is what the frame still has. */
static fast_err next_block(const fast_coder *c, int64_t i, const uint8_t **in, const uint8_t *end,
                           size_t *size_out)
{
    uint64_t size = (uint64_t)(end - *in);

    if (c->part_count > 1 && (!fast__varint_get(in, end, &size) || size > (uint64_t)(end - *in)))
        return fast__fail(FAST_EFORMAT, "codec %s: block %lld of %lld is cut off", c->chain->text,
                          (long long)i, (long long)c->part_count);
    *size_out = (size_t)size;
    return FAST_OK;
}

fast_err fast__coder_decode(fast_coder *c, const uint8_t *in, size_t size, fast_decode_mode mode,
                            float scale, float *y)
{
    return fast__coder_decode_part(c, 0, c->part_count, in, size, mode, scale, y);
}

fast_err fast__coder_decode_part(fast_coder *c, int64_t first, int64_t count, const uint8_t *in,
                                 size_t size, fast_decode_mode mode, float scale, float *y)
{
    FAST_ASSERT(first >= 0 && count >= 0 && first + count <= c->part_count);
    FAST_TRY(unstage(c, &in, &size));
    const uint8_t *const end = in + size;

    for (int64_t i = first; i < first + count; i++) {
        const part *p = &c->parts[i];
        fast_decoding d = { p->block, NULL, 0, mode, scale, y + p->at, c->scratch };

        FAST_TRY(next_block(c, i, &in, end, &d.size));
        d.in = in;
        FAST_TRY(p->raw ? decode_raw(&d) : c->chain->codec->decode(c->chain->config, &d));
        in += d.size;
    }
    return in == end ? FAST_OK
                     : fast__fail(FAST_EFORMAT, "codec %s: %zu bytes follow the last block",
                                  c->chain->text, (size_t)(end - in));
}

fast_err fast__coder_pairs(fast_coder *c, const uint8_t *in, size_t size, uint32_t *index,
                           float *value, int64_t *count_out)
{
    const fast_codec *codec = c->chain->codec;

    if (!codec || !codec->pairs || c->part_count != 1)
        return fast__fail(FAST_ENOTSUP, "codec %s has no entries over %lld blocks", c->chain->text,
                          (long long)c->part_count);
    FAST_TRY(unstage(c, &in, &size));
    const fast_decoding d = { c->parts[0].block, in, size, FAST_DECODE_SET, 1, NULL, c->scratch };
    return codec->pairs(c->chain->config, &d, index, value, count_out);
}

int fast__coder_round_count(const fast_coder *c)
{
    const fast_codec *codec = c->chain->codec;

    return codec && codec->rounds ? codec->rounds->count : 0;
}

/* Floats of one block in a round: blocks that go as they are do so in the first. */
static int64_t round_part(const fast_coder *c, int64_t i, int round)
{
    const part *p = &c->parts[i];

    if (p->raw)
        return round == 0 ? p->block.count : 0;
    return c->chain->codec->rounds->size(c->chain->config, &p->block, round);
}

int64_t fast__coder_round_size(const fast_coder *c, int round)
{
    int64_t size = 0;

    for (int64_t i = 0; i < c->part_count; i++)
        size += round_part(c, i, round);
    return size;
}

void fast__coder_round_send(fast_coder *c, int64_t step, double progress, int round, const float *x,
                            float *dense)
{
    for (int64_t i = 0; i < c->part_count; dense += round_part(c, i, round), i++) {
        const part *p = &c->parts[i];

        if (p->raw) {
            if (round == 0)
                memcpy(dense, x + p->at, (size_t)p->block.count * sizeof *dense);
            continue;
        }
        const fast_encoding e = encoding_of(c, i, step, progress, x);
        c->chain->codec->rounds->send(c->chain->config, &e, round, dense);
    }
}

void fast__coder_round_take(fast_coder *c, int round, const float *dense, float *y)
{
    const bool last = round + 1 == fast__coder_round_count(c);

    for (int64_t i = 0; i < c->part_count; dense += round_part(c, i, round), i++) {
        const part *p = &c->parts[i];

        if (p->raw) {
            if (round == 0)
                memcpy(y + p->at, dense, (size_t)p->block.count * sizeof *dense);
            continue;
        }
        const fast_encoding e = encoding_of(c, i, 0, 0, y);
        c->chain->codec->rounds->take(c->chain->config, &e, round, dense, last ? y + p->at : NULL);
    }
    if (last)
        c->encodings++;
}
