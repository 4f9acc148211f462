/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One flow of vectors. The range is cut in blocks (block_cut.c), of which those with fewer than
 * `small` elements go as they are.
 *
 * Error feedback is a layer of its own: with e the residual, which starts at 0, and C the codec,
 *
 *     v = x + e,   send C(v),   e <- v - decode(C(v))
 *
 * so that the sum of all decoded vectors plus e is the sum of all x, up to rounding (Seide et al.
 * 2014; Karimireddy et al. 2019). Codecs with FAST_CODEC_FEEDBACK do it in their own pass; for
 * others it is done here, at the cost of a decoding. It is on unless the codec is lossless or
 * unbiased, has a residual of its own, is precise enough to send raw values, or is put to a vote.
 *
 * Selections S come before the codec: C(S(v)) is sent, and e has the elements that wait, v - S(v),
 * besides the loss of C where C feeds back.
 *
 *     frame   byte 0: stages that were applied, from the first; then, after those, the blocks
 *     block   one alone: its bytes; several: the size of each (variable length), then its bytes
 *
 * A stage that makes the frame larger, and those after it, are left out. Cost: the codec's; nothing
 * is allocated after fast__coder_new(). A key is drawn for each block and encoding from (seed,
 * flow, encodings so far, block).
 *
 * The state is on the coder's device. A call maps the elements that its blocks cover, once, and the
 * codec, which is a kernel, works on the mapped memory.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "codec/bits.h"
#include "codec/block_cut.h"
#include "codec/chain.h"
#include "codec/entries.h"
#include "codec/stages.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

struct fast_coder {
    const fast_chain *chain; /* borrowed */
    unsigned traits;         /* of the chain */
    int64_t count;           /* elements of the range */
    coder_block *blocks;     /* in the order of the range */
    int64_t block_count;     /* number of blocks */
    bool gapless;            /* the blocks cover the range: its layout has no padding there */
    bool feedback;           /* the coder holds a residual */
    bool corrects;           /* the residual has the codec's loss, not only what waits */
    int64_t state_count;     /* elements of `state` */
    float *state;            /* the residual, [count], if there is one; then the blocks' state */
    void *scratch;           /* of the codec */
    float *sum;              /* generic feedback, selections: [largest block] v, then its decoding;
                                  or NULL */
    fast_stages stages;      /* lossless ones over frames */
    uint64_t seed;           /* of the run and this flow */
    const float *shared;     /* [block_count] scales of all senders; NULL: none. Borrowed */
    uint64_t encodings;      /* vectors encoded so far */
    int64_t workers;         /* number of workers that send such vectors */
    int64_t offset;          /* first element of the range, in the whole vector */
    int64_t whole;           /* elements of the whole vector */
    fast_codec_model_fn *look; /* at the model that the vectors change; NULL: not known */
    void *look_ctx;            /* argument of look */
    fast_coder_pace pace;      /* how urgent the next encoding is */
};

/* Memory of one call, mapped for the codec. */
typedef struct coder_access {
    const float *part;      /* the blocks' part of x or y */
    int64_t count;          /* elements of it */
    int64_t from;           /* first element of it, in the range */
    float *elements;        /* [count], mapped */
    float *state;           /* the whole state, mapped; NULL: not needed */
    fast_codec_model model; /* that the vector changes, as its sender knows it; w is mapped */
    const float *w;         /* address of model.w before; NULL: not known */
    int64_t w_from;         /* first element of the range in w */
    int64_t w_count;        /* elements of w */
} coder_access;

/* The lesser of two counts. */
static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Refuse options that contradict the codec: too many elements, or error feedback for a codec
 * that needs none or whose error would make the residual grow. */
static fast_err check(const fast_coder_options *o)
{
    const unsigned traits = fast__chain_traits(o->chain);

    FAST_ASSERT(o->offset >= 0 && o->count > 0 && o->offset + o->count <= o->layout->count);
    if (o->count > INT32_MAX)
        return fast__fail(FAST_EINVAL, "codec %s: %lld elements are too many for one flow",
                          o->chain->text, (long long)o->count);
    if (o->feedback == 1 && (traits & (FAST_CODEC_ACCUMULATES | FAST_CODEC_LOSSLESS)))
        return fast__fail(
            FAST_EINVAL, "codec %s needs no error feedback: it %s; leave it out", o->chain->text,
            traits & FAST_CODEC_ACCUMULATES ? "has a residual of its own" : "is lossless");
    if (o->feedback == 1 && (traits & FAST_CODEC_UNBIASED) && !(traits & FAST_CODEC_RAW))
        return fast__fail(FAST_EINVAL,
                          "codec %s is unbiased, but its error is larger than the vector: the "
                          "residual of error feedback would grow without bound; leave it out",
                          o->chain->text);
    return FAST_OK;
}

/* Sizes of everything, from the blocks. */
static void measure(fast_coder *c, const fast_coder_options *o, size_t *scratch_out,
                    int64_t *largest_out, size_t *plain_out)
{
    const fast_codec *codec = o->chain->codec;
    size_t scratch = 0, size = 0;
    int64_t largest = 0, covered = 0;

    for (int64_t i = 0; i < c->block_count; i++) {
        coder_block *p = &c->blocks[i];

        p->raw = !codec || (c->block_count > 1 && p->block.count < o->small);
        covered += p->block.count;
        largest = p->block.count > largest ? p->block.count : largest;
        size += c->block_count > 1 ? FAST_VARINT_MAX : 0;
        if (p->raw) {
            size += (size_t)p->block.count * sizeof(float);
            continue;
        }
        size += codec->bound(o->chain->config, &p->block);
        p->state = c->state_count;
        c->state_count += codec->state ? codec->state(o->chain->config, &p->block) : 0;
        const size_t need = codec->scratch ? codec->scratch(o->chain->config, &p->block) : 0;
        const size_t entries = codec->decode ? 0 : fast__entries_scratch(p->block.count);
        scratch = need > scratch ? need : scratch;
        scratch = entries > scratch ? entries : scratch;
    }
    c->gapless = covered == c->count;
    *plain_out = size;
    *scratch_out = scratch;
    *largest_out = largest;
}

/* Cut the range, measure the blocks and allocate everything that encoding and decoding use. On
 * failure the caller frees the coder. */
static fast_err build(fast_coder *c, const fast_coder_options *o)
{
    const fast_device *device = o->device ? o->device : &fast__host;
    const fast_codec *codec = o->chain->codec;
    const unsigned traits = c->traits, own = fast__chain_codec_traits(o->chain);
    const unsigned exact = FAST_CODEC_LOSSLESS | FAST_CODEC_UNBIASED | FAST_CODEC_ACCUMULATES |
                           FAST_CODEC_RAW | FAST_CODEC_VOTES | FAST_CODEC_PLAIN;
    const bool selects = o->chain->select_count > 0;
    const bool layers = codec && o->layout->segment_count > 0 &&
                        (o->scope == 1 || (o->scope == 0 && (traits & FAST_CODEC_LAYERS) != 0));
    size_t scratch, plain;
    int64_t largest;

    c->block_count = fast__blocks_cut(o, layers, NULL);
    FAST_TRY(fast__alloc("blocks of a codec", c->block_count, sizeof *c->blocks, &c->blocks));
    fast__blocks_cut(o, layers, c->blocks);
    measure(c, o, &scratch, &largest, &plain);
    c->feedback = o->feedback == 1 || (o->feedback == 0 && (traits & exact) == 0);
    c->corrects = !selects || !((own & (FAST_CODEC_LOSSLESS | FAST_CODEC_PLAIN)) ||
                                ((own & FAST_CODEC_UNBIASED) && !(own & FAST_CODEC_RAW)));
    if (c->feedback)
        c->state_count += c->count;
    FAST_TRY(fast__vector_new(device, "state of a codec", c->state_count, &c->state));
    FAST_TRY(fast__alloc("scratch of a codec", (int64_t)scratch, 1, &c->scratch));
    if (selects || (c->feedback && !(traits & FAST_CODEC_FEEDBACK)))
        FAST_TRY(fast__alloc("feedback of a codec", 2 * largest, sizeof(float), &c->sum));
    return fast__stages_init(o->chain, plain, &c->stages);
}

fast_err fast__coder_new(const fast_coder_options *options, fast_coder **out)
{
    fast_coder *c = NULL;

    FAST_TRY(check(options));
    FAST_TRY(fast__alloc("codec", 1, sizeof *c, &c));
    c->chain = options->chain;
    c->traits = fast__chain_traits(options->chain);
    c->count = options->count;
    /* A stream's name has words of 32 bits: fold the flow into the seed. */
    c->seed = options->seed ^ (options->flow * UINT64_C(0x9e3779b97f4a7c15));
    c->workers = options->workers > 0 ? options->workers : 1;
    c->offset = options->offset;
    c->whole = options->layout->count;
    c->look = options->model;
    c->look_ctx = options->model_ctx;
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
    fast__free(c->blocks);
    fast__vector_free(c->state);
    fast__free(c->scratch);
    fast__free(c->sum);
    fast__stages_fini(&c->stages);
    fast__free(c);
}

size_t fast__coder_bound(const fast_coder *c)
{
    return 1 + c->stages.room;
}

float *fast__coder_residual(const fast_coder *c)
{
    return c->feedback ? c->state : NULL;
}

float *fast__coder_state(const fast_coder *c, int64_t *count_out)
{
    *count_out = c->state_count;
    return c->state;
}

int64_t fast__coder_encodings(const fast_coder *c)
{
    return (int64_t)c->encodings;
}

void fast__coder_restart(fast_coder *c, int64_t encodings)
{
    FAST_ASSERT(encodings >= 0);
    fast__vector_fill(c->state_count, 0, c->state);
    c->encodings = (uint64_t)encodings;
}

void fast__coder_share(fast_coder *c, const float *scales)
{
    c->shared = scales;
}

int64_t fast__coder_block_count(const fast_coder *c)
{
    return c->block_count;
}

void fast__coder_block_at(const fast_coder *c, int64_t i, int64_t *at_out, int64_t *count_out)
{
    FAST_ASSERT(i >= 0 && i < c->block_count);
    *at_out = c->blocks[i].at;
    *count_out = c->blocks[i].block.count;
}

/* Map the elements of some blocks of a vector of the range. */
static coder_access map_blocks(const fast_coder *c, int64_t first, int64_t count,
                               const float *vector, fast_access access)
{
    coder_access a = { .part = vector };

    FAST_ASSERT(first >= 0 && count >= 0);
    FAST_ASSERT(count <= c->block_count - first);
    if (count > 0) {
        const coder_block *last = &c->blocks[first + count - 1];

        a.from = c->blocks[first].at;
        a.part = vector + a.from;
        a.count = last->at + last->block.count - a.from;
    }
    a.elements = fast__map(a.part, a.count, access);
    return a;
}

/* Unmap everything that a call has mapped. */
static void unmap(const fast_coder *c, const coder_access *a, fast_access access)
{
    if (a->w)
        fast__unmap(a->w, a->w_count, FAST_ACCESS_READ);
    if (a->state)
        fast__unmap(c->state, c->state_count, FAST_ACCESS_UPDATE);
    fast__unmap(a->part, a->count, access);
}

/* Where block i begins in the mapped elements. */
static float *elements_of(const fast_coder *c, const coder_access *a, int64_t i)
{
    return a->elements + (c->blocks[i].at - a->from);
}

/* The model that selections compare with. */
static fast_codec_model model_of(const fast_coder *c)
{
    fast_codec_model model = { .rate = 1, .taken = 1, .loss = NAN };

    if (c->look && (c->chain->select_count > 0 || (c->traits & FAST_CODEC_LOSS)))
        c->look(c->look_ctx, &model);
    model.due = c->pace.due;
    model.last = model.last || c->pace.all;
    if (c->pace.weights)
        model.w = c->pace.weights;
    model.elapsed_s = c->pace.timed ? c->pace.elapsed_s : -1;
    return model;
}

void fast__coder_set_due(fast_coder *c, bool due, double now_s)
{
    const double last_s = c->pace.now_s;
    const double elapsed_s = last_s > 0 && now_s > last_s ? now_s - last_s : 0;

    c->pace =
        (fast_coder_pace){ .due = due, .timed = true, .now_s = now_s, .elapsed_s = elapsed_s };
}

void fast__coder_set_pace(fast_coder *c, const fast_coder_pace *pace)
{
    c->pace = *pace;
}

double *fast__coder_last_s(fast_coder *c)
{
    return &c->pace.now_s;
}

/* Map the state as well, for rounds and encoding. */
static void map_state(const fast_coder *c, coder_access *a)
{
    a->state = fast__map(c->state, c->state_count, FAST_ACCESS_UPDATE);
}

/* Map the model that selections compare with. */
static void map_model(const fast_coder *c, coder_access *a)
{
    a->model = model_of(c);
    a->w = a->model.w;
    a->w_from = c->pace.weights ? 0 : c->offset;
    a->w_count = c->pace.weights ? c->count : c->whole;
    if (a->w)
        a->model.w = fast__map(a->w, a->w_count, FAST_ACCESS_READ);
}

/* The arguments of the codec for block i. */
static fast_encoding encoding_of(fast_coder *c, int64_t i, int64_t step, double progress,
                                 const coder_access *a)
{
    const coder_block *p = &c->blocks[i];
    fast_rng rng;

    fast__rng_init(&rng, c->seed, FAST_PURPOSE_CODEC, (uint64_t)i, c->encodings & UINT32_MAX,
                   c->encodings >> 32);
    const uint64_t low = fast__rng_u32(&rng);
    return (fast_encoding){ .block = p->block,
                            .x = elements_of(c, a, i),
                            .error = c->feedback ? a->state + p->at : NULL,
                            .state = a->state + (c->feedback ? c->count : 0) + p->state,
                            .scratch = c->scratch,
                            .key = (uint64_t)fast__rng_u32(&rng) << 32 | low,
                            .step = step,
                            .progress = progress,
                            .workers = c->workers,
                            .shared = c->shared ? c->shared[i] : 0,
                            .fraction = (double)p->block.count / (double)c->whole,
                            .w = a->model.w ? a->model.w + a->w_from + p->at : NULL,
                            .model = &a->model };
}

/* Refuse an encoding whose size cannot be right. */
static fast_err check_size(const fast_coder *c, const fast_decoding *d)
{
    const fast_codec *codec = c->chain->codec;
    const size_t bound = codec->bound(c->chain->config, &d->block);

    return d->size == bound || !(c->traits & FAST_CODEC_EXACT)
               ? FAST_OK
               : fast__fail(FAST_EFORMAT, "codec %s: %zu bytes, not the %zu of %lld elements",
                            codec->name, d->size, bound, (long long)d->block.count);
}

/* Decode a block by the codec, or by its entries. */
static fast_err decode_codec(const fast_coder *c, const fast_decoding *d)
{
    const fast_codec *codec = c->chain->codec;

    FAST_ASSERT(codec->decode || codec->pairs);
    FAST_TRY(check_size(c, d));
    return codec->decode ? codec->decode(c->chain->config, d)
                         : fast__entries_decode(codec, c->chain->config, d);
}

/* v = x + e in c->sum, of which the selections move elements to the residual; e->x becomes the
 * rest, and e->error NULL. Without a residual they are lost. */
static void select_block(fast_coder *c, fast_encoding *e)
{
    const int64_t n = e->block.count;
    float *wait = e->error ? e->error : c->sum + n;

    memcpy(c->sum, e->x, (size_t)n * sizeof(float));
    if (e->error)
        fast__vector_add(n, e->error, c->sum);
    if (c->chain->select_count > 0)
        memset(wait, 0, (size_t)n * sizeof(float));
    for (int i = 0; i < c->chain->select_count; i++)
        c->chain->selects[i]->select(c->chain->select_configs[i], e, c->sum, wait);
    e->x = c->sum;
    e->error = NULL;
}

/* Selections, and generic feedback around a codec without its own. */
static size_t encode_with_feedback(fast_coder *c, fast_encoding *e, uint8_t *out)
{
    const int64_t n = e->block.count;
    float *error = e->error, *decoded = c->sum + n;

    select_block(c, e);
    const size_t size = c->chain->codec->encode(c->chain->config, e, out);
    if (!error || !c->corrects)
        return size;
    const fast_decoding d = { e->block, out, size, FAST_DECODE_SET, 1, decoded, c->scratch };
    const fast_err err = decode_codec(c, &d);
    FAST_ASSERT(!err); /* it is its own encoding */
    if (c->chain->select_count > 0)
        fast__vector_add(n, c->sum, error);
    else
        memcpy(error, c->sum, (size_t)n * sizeof(float));
    fast__vector_axpy(n, -1, decoded, error);
    return size;
}

/* Encode block i to out and return its bytes: raw floats, the codec with its own feedback, or
 * the codec inside the generic feedback. */
static size_t encode_block(fast_coder *c, int64_t i, int64_t step, double progress,
                           const coder_access *a, uint8_t *out)
{
    const coder_block *p = &c->blocks[i];
    const size_t raw = (size_t)p->block.count * sizeof(float);

    if (p->raw) {
        memcpy(out, elements_of(c, a, i), raw);
        return raw;
    }
    const fast_codec *codec = c->chain->codec;
    fast_encoding e = encoding_of(c, i, step, progress, a);
    const size_t size =
        c->sum ? encode_with_feedback(c, &e, out) : codec->encode(c->chain->config, &e, out);
    const size_t bound = codec->bound(c->chain->config, &p->block);
    FAST_ASSERT(size <= bound);
    FAST_ASSERT(size == bound || !(c->traits & FAST_CODEC_EXACT));
    return size;
}

/* Some blocks, framed. A block is written where the longest size field would end: its own size is
 * known only afterwards. */
static size_t encode_frame(fast_coder *c, int64_t first, int64_t count, int64_t step,
                           double progress, const coder_access *a, uint8_t *out)
{
    uint8_t *at = out;

    if (c->block_count == 1)
        return encode_block(c, 0, step, progress, a, out);
    for (int64_t i = first; i < first + count; i++) {
        uint8_t head[FAST_VARINT_MAX];
        const size_t size = encode_block(c, i, step, progress, a, at + FAST_VARINT_MAX);
        const size_t head_size = (size_t)(fast__varint_put(head, size) - head);

        memmove(at + head_size, at + FAST_VARINT_MAX, size);
        memcpy(at, head, head_size);
        at += head_size + size;
    }
    return (size_t)(at - out);
}

size_t fast__coder_encode_part(fast_coder *c, int64_t first, int64_t count, int64_t step,
                               double progress, const float *x, uint8_t *out)
{
    const bool staged = c->chain->stage_count > 0;
    coder_access a = map_blocks(c, first, count, x, FAST_ACCESS_READ);

    map_state(c, &a);
    map_model(c, &a);
    const size_t size =
        encode_frame(c, first, count, step, progress, &a, staged ? c->stages.bytes[0] : out + 1);
    unmap(c, &a, FAST_ACCESS_READ);
    FAST_ASSERT(size <= c->stages.plain);
    if (staged)
        return fast__stages_pack(&c->stages, size, out);
    out[0] = 0;
    return 1 + size;
}

size_t fast__coder_encode(fast_coder *c, int64_t step, double progress, const float *x,
                          uint8_t *out)
{
    const size_t size = fast__coder_encode_part(c, 0, c->block_count, step, progress, x, out);

    c->encodings++;
    return size;
}

void fast__coder_select(fast_coder *c, const float *x, float *y)
{
    coder_access a = map_blocks(c, 0, c->block_count, x, FAST_ACCESS_READ);

    FAST_ASSERT(c->chain->select_count > 0);
    map_state(c, &a);
    map_model(c, &a);
    for (int64_t i = 0; i < c->block_count; i++) {
        fast_encoding e = encoding_of(c, i, 0, 0, &a);

        if (!c->blocks[i].raw)
            select_block(c, &e);
        fast__vector_copy(e.block.count, e.x, y + c->blocks[i].at);
    }
    unmap(c, &a, FAST_ACCESS_READ);
    c->encodings++;
}

bool fast__coder_projects(const fast_coder *c)
{
    return c->chain->codec && c->chain->codec->project && c->chain->select_count == 0;
}

void fast__coder_project(fast_coder *c, float *x)
{
    const fast_codec *codec = c->chain->codec;

    FAST_ASSERT(fast__coder_projects(c));
    coder_access a = map_blocks(c, 0, c->block_count, x, FAST_ACCESS_UPDATE);
    map_state(c, &a);
    for (int64_t i = 0; i < c->block_count; i++) {
        const fast_encoding e = encoding_of(c, i, 0, 0, &a);

        if (!c->blocks[i].raw)
            codec->project(c->chain->config, &e, elements_of(c, &a, i));
    }
    unmap(c, &a, FAST_ACCESS_UPDATE);
}

void fast__coder_encode_end(fast_coder *c)
{
    c->encodings++;
}

/* Decode floats that were sent as they are. Bytes have any alignment, so a sum goes through a
 * small piece on the stack. */
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

/* Read the size of block i's bytes, which begin at *in then. */
static fast_err next_block(const fast_coder *c, int64_t i, const uint8_t **in, const uint8_t *end,
                           size_t *size_out)
{
    uint64_t size = (uint64_t)(end - *in);

    if (c->block_count > 1 && (!fast__varint_get(in, end, &size) || size > (uint64_t)(end - *in)))
        return fast__fail(FAST_EFORMAT, "codec %s: block %lld of %lld is cut off", c->chain->text,
                          (long long)i, (long long)c->block_count);
    *size_out = (size_t)size;
    return FAST_OK;
}

/* Decode the blocks of a frame without its stages. */
static fast_err decode_frame(fast_coder *c, int64_t first, int64_t count, const coder_access *a,
                             fast_decode_mode mode, float scale, const uint8_t *in,
                             const uint8_t *end)
{
    for (int64_t i = first; i < first + count; i++) {
        const coder_block *p = &c->blocks[i];
        fast_decoding d = { p->block, NULL, 0, mode, scale, elements_of(c, a, i), c->scratch };

        FAST_TRY(next_block(c, i, &in, end, &d.size));
        d.in = in;
        FAST_TRY(p->raw ? decode_raw(&d) : decode_codec(c, &d));
        in += d.size;
    }
    return in == end ? FAST_OK
                     : fast__fail(FAST_EFORMAT, "codec %s: %zu bytes follow the last block",
                                  c->chain->text, (size_t)(end - in));
}

fast_err fast__coder_decode_part(fast_coder *c, int64_t first, int64_t count, const uint8_t *in,
                                 size_t size, fast_decode_mode mode, float scale, float *y)
{
    const fast_access access =
        mode == FAST_DECODE_SET && c->gapless ? FAST_ACCESS_WRITE : FAST_ACCESS_UPDATE;

    FAST_TRY(fast__stages_unpack(&c->stages, &in, &size));
    const coder_access a = map_blocks(c, first, count, y, access);
    const fast_err err = decode_frame(c, first, count, &a, mode, scale, in, in + size);
    unmap(c, &a, access);
    return err;
}

fast_err fast__coder_decode(fast_coder *c, const uint8_t *in, size_t size, fast_decode_mode mode,
                            float scale, float *y)
{
    return fast__coder_decode_part(c, 0, c->block_count, in, size, mode, scale, y);
}

fast_err fast__coder_pairs(fast_coder *c, const uint8_t *in, size_t size, uint32_t *index,
                           float *value, int64_t *count_out)
{
    const fast_codec *codec = c->chain->codec;

    if (!codec || !codec->pairs || c->block_count != 1)
        return fast__fail(FAST_ENOTSUP, "codec %s has no entries over %lld blocks", c->chain->text,
                          (long long)c->block_count);
    FAST_TRY(fast__stages_unpack(&c->stages, &in, &size));
    const fast_decoding d = { c->blocks[0].block, in, size, FAST_DECODE_SET, 1, NULL, c->scratch };
    FAST_TRY(check_size(c, &d));
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
    const coder_block *p = &c->blocks[i];

    if (p->raw)
        return round == 0 ? p->block.count : 0;
    return c->chain->codec->rounds->size(c->chain->config, &p->block, round);
}

int64_t fast__coder_round_size(const fast_coder *c, int round)
{
    int64_t size = 0;

    for (int64_t i = 0; i < c->block_count; i++)
        size += round_part(c, i, round);
    return size;
}

void fast__coder_round_send(fast_coder *c, int64_t step, double progress, int round, const float *x,
                            float *dense)
{
    const int64_t size = fast__coder_round_size(c, round);
    coder_access a = map_blocks(c, 0, c->block_count, x, FAST_ACCESS_READ);
    float *out = fast__map(dense, size, FAST_ACCESS_WRITE);

    map_state(c, &a);
    for (int64_t i = 0; i < c->block_count; out += round_part(c, i, round), i++) {
        const coder_block *p = &c->blocks[i];

        if (p->raw) {
            if (round == 0)
                memcpy(out, elements_of(c, &a, i), (size_t)p->block.count * sizeof *out);
            continue;
        }
        const fast_encoding e = encoding_of(c, i, step, progress, &a);
        c->chain->codec->rounds->send(c->chain->config, &e, round, out);
    }
    fast__unmap(dense, size, FAST_ACCESS_WRITE);
    unmap(c, &a, FAST_ACCESS_READ);
}

void fast__coder_round_take(fast_coder *c, int round, const float *dense, float *y)
{
    const int64_t size = fast__coder_round_size(c, round);
    const bool last = round + 1 == fast__coder_round_count(c);
    coder_access a = map_blocks(c, 0, c->block_count, y, FAST_ACCESS_UPDATE);
    const float *in = fast__map(dense, size, FAST_ACCESS_READ);

    map_state(c, &a);
    for (int64_t i = 0; i < c->block_count; in += round_part(c, i, round), i++) {
        const coder_block *p = &c->blocks[i];
        float *to = elements_of(c, &a, i);

        if (p->raw) {
            if (round == 0)
                memcpy(to, in, (size_t)p->block.count * sizeof *in);
            continue;
        }
        const fast_encoding e = encoding_of(c, i, 0, 0, &a);
        c->chain->codec->rounds->take(c->chain->config, &e, round, in, last ? to : NULL);
    }
    fast__unmap(dense, size, FAST_ACCESS_READ);
    unmap(c, &a, FAST_ACCESS_UPDATE);
    if (last)
        c->encodings++;
}
