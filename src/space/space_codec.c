/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs of a space. What is added travels encoded, one flow from each writer to each range, with a
 * residual of its own where the codec feeds errors back. What is read travels encoded too: by a
 * codec that takes values as they are one flow goes from each owner to all who read; others get the
 * difference to what each reader holds (codec/shadow.c), because a reader may miss any number of
 * versions, so that differences between those would not reach it.
 *
 * Far updates and values are encoded where they become parts of messages. Near ones have no way to
 * go; they are encoded and decoded on the spot, so that a run learns the same on every transport,
 * and pays for the codec without gaining by it.
 *
 * Cost: the codec's, in simulated time as coded.c counts it. Memory: the codec's state of each
 * range written to, and two vectors of the largest range. Where differences are read, a reader
 * keeps a copy of the tensor and two vectors of each range, an owner one copy of its range for each
 * far reader, made at its first get: for P workers that is P models over all owners together.
 */
#include "base/memory.h"
#include "codec/shadow.h"
#include "space/space.h"
#include "space/space_checkpoint.h"

#include <string.h>

/* The codecs of one actor's view of a space. */
struct fast_space_codec {
    fast_chain *chains[FAST_SPACE_WAYS];  /* NULL: floats as they are */
    fast_coder **coders[FAST_SPACE_WAYS]; /* [owner]; NULL where its range is empty */
    fast_shadows **shadows;               /* [owner], likewise: of what is read; or NULL */
    fast_shadow *held;                    /* [owner]: what this reader holds */
    fast_shadow *readers;                 /* [actor], at an owner: what that one holds */
    int64_t actors;                       /* of them */
    fast_segment *segments;               /* of the first tensor */
    fast_layout layout;                   /* of those */
    uint8_t *bytes;                       /* near: an encoding */
    float *x;                             /* what was decoded last */
    int64_t epoch_rounds;                 /* 0: unknown */
    fast_coded_figures own;               /* what was done, where nobody asked */
    fast_coded_figures *figures;          /* or the asker's */
};

void fast__space_figures(fast_space *space, fast_coded_figures *figures)
{
    if (space->codec)
        space->codec->figures = figures;
}

bool fast__space_flows(const fast_space *space, fast_space_flows *out)
{
    fast_space_codec *codec = space->codec;
    *out = (fast_space_flows){ .actors = 0 };
    if (!codec)
        return false;
    *out = (fast_space_flows){ .coders = { codec->coders[FAST_SPACE_UP],
                                           codec->coders[FAST_SPACE_DOWN] },
                               .shadows = codec->shadows,
                               .held = codec->held,
                               .readers = codec->readers,
                               .actors = codec->actors };
    return true;
}

bool fast__space_is_coded(const fast_space *space, fast_space_way way, int64_t tensor)
{
    return tensor == 0 && space->codec && space->codec->chains[way];
}

bool fast__space_differs(const fast_space *space, int64_t tensor)
{
    return tensor == 0 && space->codec && space->codec->shadows;
}

/* The first tensor as matrices, or as one vector. */
static fast_err lay_out(fast_space_codec *codec, const fast_space_options *o)
{
    const fast_space_tensor *tensor = &o->tensors[0];
    const int64_t count = o->matrix_count > 0 ? o->matrix_count : 1;
    int64_t at = 0;
    FAST_TRY(fast__alloc("codecs of a space", count, sizeof *codec->segments, &codec->segments));
    codec->layout = (fast_layout){ codec->segments, count, tensor->count };
    codec->segments[0] =
        (fast_segment){ .count = tensor->count, .shape = { tensor->count }, .rank = 1 };
    for (int64_t i = 0; i < o->matrix_count; i++) {
        const fast_matrix *m = &o->matrices[i];
        int64_t size;
        if (m->rows < 1 || !fast__mul_size(m->rows, m->cols, &size) || size < 1 ||
            size > tensor->count - at)
            return fast__fail(FAST_EINVAL, "matrix %lld of tensor \"%s\" does not fit into it",
                              (long long)i, tensor->name);
        codec->segments[i] =
            (fast_segment){ .offset = at, .count = size, .shape = { m->rows, m->cols }, .rank = 2 };
        at += size;
    }
    if (o->matrix_count > 0 && at != tensor->count)
        return fast__fail(FAST_EINVAL, "the matrices of tensor \"%s\" have %lld of %lld floats",
                          tensor->name, (long long)at, (long long)tensor->count);
    return FAST_OK;
}

static fast_err open_chains(fast_space *space, const fast_space_options *o)
{
    const char *const names[FAST_SPACE_WAYS] = { o->codec, o->codec_down };
    for (int way = 0; way < FAST_SPACE_WAYS; way++) {
        fast_chain **chain = &space->codec->chains[way];
        if (!names[way])
            continue;
        FAST_TRY(fast__chain_open(names[way], chain));
        if (fast__chain_is_none(*chain)) {
            fast__chain_close(*chain);
            *chain = NULL;
        }
    }
    const fast_chain *down = space->codec->chains[FAST_SPACE_DOWN];
    return down ? fast__shadow_check(down, "codec_down") : FAST_OK;
}

/* Of what is read as differences, and who holds what. */
static fast_err make_shadows(fast_space *space)
{
    fast_space_codec *codec = space->codec;
    const int64_t owners = space->owner_count;
    FAST_TRY(fast__alloc("shadows of a space", owners, sizeof *codec->shadows, &codec->shadows));
    FAST_TRY(fast__alloc("shadows of a space", owners, sizeof *codec->held, &codec->held));
    if (space->me < 0)
        return FAST_OK;
    codec->actors = fast_actor_count(space->actor);
    return fast__alloc("readers of a space", codec->actors, sizeof *codec->readers,
                       &codec->readers);
}

/* A coder for each owner's range that is not empty. */
static fast_err make_coders(fast_space *space, const fast_space_options *o, fast_space_way way,
                            uint64_t seed, size_t *bound, int64_t *largest)
{
    fast_space_codec *codec = space->codec;
    FAST_TRY(fast__alloc("codecs of a space", space->owner_count, sizeof(fast_coder *),
                         &codec->coders[way]));
    for (int64_t owner = 0; owner < space->owner_count; owner++) {
        fast_coder **coder = &codec->coders[way][owner];
        fast_coder_options options = { .chain = codec->chains[way],
                                       .layout = &codec->layout,
                                       .scope = o->codec_scope,
                                       .small = o->codec_small,
                                       .feedback = way == FAST_SPACE_UP ? o->feedback : 2,
                                       .workers = o->writer_count,
                                       .seed = seed,
                                       .flow = (uint64_t)(owner * FAST_SPACE_WAYS + way) };
        fast__space_range(space, owner, 0, &options.offset, &options.count);
        if (options.count == 0)
            continue;
        const bool differs = way == FAST_SPACE_DOWN && codec->shadows;
        if (differs) /* its flows are told apart by who reads, wherever that is done */
            options.seed = (uint64_t)space->actor->world->config.seed;
        FAST_TRY(differs ? fast__shadows_new(&options, &codec->shadows[owner])
                         : fast__coder_new(&options, coder));
        const size_t size =
            differs ? fast__shadows_bound(codec->shadows[owner]) : fast__coder_bound(*coder);
        *bound = size > *bound ? size : *bound;
        *largest = options.count > *largest ? options.count : *largest;
    }
    return FAST_OK;
}

fast_err fast__space_codec_new(fast_space *space, const fast_space_options *o)
{
    size_t bound = 0;
    int64_t largest = 0;
    FAST_TRY(fast__alloc("codecs of a space", 1, sizeof *space->codec, &space->codec));
    space->codec->epoch_rounds = o->epoch_rounds;
    space->codec->figures = &space->codec->own;
    FAST_TRY(open_chains(space, o));
    if (!space->codec->chains[FAST_SPACE_UP] && !space->codec->chains[FAST_SPACE_DOWN])
        return FAST_OK;
    FAST_TRY(lay_out(space->codec, o));
    /* Copies of a space draw alike, so that they stay equal. */
    const uint64_t seed = (uint64_t)space->actor->world->config.seed +
                          (uint64_t)fast_actor_id(space->actor) * UINT64_C(0x9e3779b97f4a7c15);
    const fast_chain *down = space->codec->chains[FAST_SPACE_DOWN];
    if (down && fast__shadow_needed(down))
        FAST_TRY(make_shadows(space));
    for (int way = 0; way < FAST_SPACE_WAYS; way++)
        if (space->codec->chains[way])
            FAST_TRY(make_coders(space, o, (fast_space_way)way, seed, &bound, &largest));
    FAST_TRY(fast__alloc("an encoding", (int64_t)bound, 1, &space->codec->bytes));
    return fast__alloc("a decoding", largest, sizeof *space->codec->x, &space->codec->x);
}

void fast__space_codec_free(fast_space *space)
{
    fast_space_codec *codec = space->codec;
    if (!codec)
        return;
    for (int way = 0; way < FAST_SPACE_WAYS; way++) {
        for (int64_t i = 0; codec->coders[way] && i < space->owner_count; i++)
            fast__coder_free(codec->coders[way][i]);
        fast__free(codec->coders[way]);
        fast__chain_close(codec->chains[way]);
    }
    for (int64_t i = 0; codec->shadows && i < space->owner_count; i++) {
        fast__shadows_free(codec->shadows[i]);
        fast__shadow_fini(codec->held ? &codec->held[i] : NULL);
    }
    for (int64_t i = 0; codec->readers && i < codec->actors; i++)
        fast__shadow_fini(&codec->readers[i]);
    fast__free(codec->shadows);
    fast__free(codec->held);
    fast__free(codec->readers);
    fast__free(codec->segments);
    fast__free(codec->bytes);
    fast__free(codec->x);
    fast__free(codec);
    space->codec = NULL;
}

double fast__space_progress(const fast_space *space)
{
    const int64_t rounds = space->codec->epoch_rounds;
    return rounds > 0 ? (double)space->clock / (double)rounds : 0;
}

fast_coder *fast__space_coder(const fast_space *space, int64_t owner, const fast_chain **chain_out,
                              fast_coded_figures **figures_out)
{
    const fast_space_codec *codec = space->codec;
    if (chain_out)
        *chain_out = codec->chains[FAST_SPACE_UP];
    if (figures_out)
        *figures_out = codec->figures;
    return codec->coders[FAST_SPACE_UP][owner];
}

/* Encode, and pay for it: for `shadow` where differences are read. */
static fast_err encode(fast_space *space, fast_space_way way, int64_t owner, fast_shadow *shadow,
                       const float *x, uint8_t *out, size_t *size_out)
{
    fast_space_codec *codec = space->codec;
    const int64_t begin = fast_now(space->actor);
    const double progress = fast__space_progress(space);
    int64_t offset, count;
    fast__space_range(space, owner, 0, &offset, &count);
    if (shadow)
        FAST_TRY(fast__shadow_send(codec->shadows[owner], shadow, space->clock, progress, x, out,
                                   size_out));
    else
        *size_out = fast__coder_encode(codec->coders[way][owner], space->clock, progress, x, out);
    fast__count(&codec->figures->bytes_in, count * (int64_t)sizeof *x);
    fast__count(&codec->figures->bytes_out, (int64_t)*size_out);
    FAST_TRY(fast__charge_encode(space->actor, codec->chains[way], begin, count, *size_out,
                                 codec->figures));
    /* The sender decodes as well, and compares. */
    return shadow ? fast__charge_decode(space->actor, codec->chains[way], fast_now(space->actor),
                                        count, *size_out, codec->figures)
                  : FAST_OK;
}

fast_err fast__space_encode(fast_space *space, fast_space_way way, int64_t owner, int64_t reader,
                            const float *x, fast_buffer **out, size_t *size_out)
{
    fast_space_codec *codec = space->codec;
    const bool differs = way == FAST_SPACE_DOWN && codec->shadows;
    fast_buffer *buffer;
    FAST_TRY(fast_buffer_new(space->actor,
                             differs ? fast__shadows_bound(codec->shadows[owner])
                                     : fast__coder_bound(codec->coders[way][owner]),
                             &buffer));
    FAST_ASSERT(!differs || (reader >= 0 && reader < codec->actors));
    if (differs)
        codec->readers[reader].flow = (uint32_t)reader;
    const fast_err err = encode(space, way, owner, differs ? &codec->readers[reader] : NULL, x,
                                fast_buffer_data(buffer), size_out);
    if (err) {
        fast_buffer_free(buffer);
        return err;
    }
    fast_buffer_freeze(buffer);
    *out = buffer;
    return FAST_OK;
}

void fast__space_forget(fast_space *space, int64_t reader)
{
    if (space->codec && space->codec->readers)
        space->codec->readers[reader].whole = false;
}

const float *fast__space_owed(const fast_space *space, int64_t owner)
{
    fast_space_codec *codec = space->codec;
    fast_coder *coder =
        codec && codec->coders[FAST_SPACE_UP] ? codec->coders[FAST_SPACE_UP][owner] : NULL;
    return coder ? fast__coder_residual(coder) : NULL;
}

void fast__space_drop(fast_space *space, int64_t owner)
{
    if (space->codec && space->codec->held)
        space->codec->held[owner].whole = false;
}

bool fast__space_take(fast_space *space, int64_t owner, const void *in, size_t size)
{
    fast_space_codec *codec = space->codec;
    const int64_t begin = fast_now(space->actor);
    if (!codec->shadows[owner] ||
        fast__shadow_take(codec->shadows[owner], &codec->held[owner], in, size) != FAST_OK)
        return false;
    fast__count(&codec->figures->decode_ns, fast_now(space->actor) - begin);
    return true;
}

const float *fast__space_held(const fast_space *space, int64_t owner)
{
    const fast_shadow *held = &space->codec->held[owner];
    return held->whole ? held->values : NULL;
}

bool fast__space_decode(fast_space *space, fast_space_way way, int64_t owner, const void *in,
                        size_t size, const float **x_out)
{
    fast_space_codec *codec = space->codec;
    fast_coder *coder = codec->coders[way][owner];
    const int64_t begin = fast_now(space->actor);
    if (!coder || fast__coder_decode(coder, in, size, FAST_DECODE_SET, 1, codec->x) != FAST_OK)
        return false;
    fast__count(&codec->figures->decode_ns, fast_now(space->actor) - begin);
    *x_out = codec->x;
    return true;
}

fast_err fast__space_pay(fast_space *space, fast_space_way way, int64_t owner, size_t size)
{
    fast_space_codec *codec = space->codec;
    int64_t offset, count;
    fast__space_range(space, owner, 0, &offset, &count);
    fast__count(&codec->figures->bytes_dec, count * (int64_t)sizeof *codec->x);
    return fast__charge_decode(space->actor, codec->chains[way], fast_now(space->actor), count,
                               size, codec->figures);
}

fast_err fast__space_recode(fast_space *space, fast_space_way way, int64_t owner, const float *x,
                            const float **out)
{
    fast_shadow *shadow =
        way == FAST_SPACE_DOWN && space->codec->shadows ? &space->codec->held[owner] : NULL;
    size_t size;
    if (shadow)
        shadow->flow = (uint32_t)fast_actor_id(space->actor);
    FAST_TRY(encode(space, way, owner, shadow, x, space->codec->bytes, &size));
    if (shadow) { /* both ends are here */
        *out = shadow->values;
        return FAST_OK;
    }
    const bool good = fast__space_decode(space, way, owner, space->codec->bytes, size, out);
    FAST_ASSERT(good); /* it is its own encoding */
    return fast__space_pay(space, way, owner, size);
}
