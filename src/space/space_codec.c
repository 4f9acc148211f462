/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The encoded form: codecs of a space's first tensor. Adds are encoded in one flow from each writer
 * to each range, with a residual of its own where the codec has error feedback. Values that are
 * read are encoded too. A codec that is fit for values has one flow from each owner to all readers.
 * Any other codec sends each reader the difference to the values that this reader holds
 * (codec/shadow.c): a reader may skip any number of versions, so differences between versions would
 * not reach it.
 *
 * A chain that only selects elements is not encoded: the selected floats travel in the sparse form,
 * which is as short, has no cost at the owner, and can cache indices. Where it caches them, the
 * stages of the chain pack its parts.
 *
 * Values of remote ranges are encoded where they become parts of messages. Values of local ranges
 * do not travel; they are encoded and decoded in place, so that a run computes the same numbers on
 * every transport, and pays for the codec without a benefit.
 *
 * Cost: the codec's, in simulated time as coded.c counts it. Memory: the codec's state of each
 * range written to, and two vectors of the largest range. Where differences are read, a reader
 * holds a copy of the tensor and two vectors of each range, an owner one copy of its range for each
 * remote reader, made at its first get: for P workers that is P models over all owners together.
 */
#include "base/memory.h"
#include "codec/shadow.h"
#include "comm/scales.h"
#include "space/space_checkpoint.h"
#include "space/space_form.h"
#include "tensor/vector.h"
#include "transport/saved_actor.h"

#include <string.h>

/* The codecs of one actor's view of a space. */
struct fast_space_codec {
    const fast_chain *chains[FAST_SPACE_WAYS]; /* NULL: floats without a codec */
    fast_chain *opened[FAST_SPACE_WAYS];       /* chains that this space opened by name, or NULL */
    fast_coder **coders[FAST_SPACE_WAYS];      /* [owner]; NULL where its range is empty */
    bool selects;                              /* adds are selected, and travel as floats, sparse */
    bool due;                                  /* elements that have waited are sent */
    bool limits;                               /* answers hold elements back within a budget */
    bool all;                                  /* the next answer holds none back */
    fast_shadows **shadows;      /* [owner]: how differences are read, NULL where the range
                                             is empty; NULL: values are read */
    fast_shadow *held;           /* [owner]: values that this reader holds */
    fast_shadow *readers;        /* at an owner, [actor]: values that this actor holds */
    int64_t actors;              /* length of `readers` */
    fast_segment *segments;      /* matrices of the first tensor */
    fast_layout layout;          /* made of the segments */
    uint8_t *bytes;              /* scratch: the encoding of a local range */
    float *x;                    /* scratch: the values that were decoded last */
    int64_t epoch_rounds;        /* rounds of an epoch; 0: unknown */
    fast_scales *scales;         /* that writers agree on; NULL: each writer has its own */
    fast_coded_figures own;      /* figures, where the caller gave none */
    fast_coded_figures *figures; /* where to count: `own`, or the caller's */
};

/* Spaces without a codec have nothing to count. */
void fast__space_figures(fast_space *space, fast_coded_figures *figures)
{
    FAST_ASSERT(figures);
    if (space->codec)
        space->codec->figures = figures;
}

/* Pointers into the codec: valid until the space is closed. */
bool fast__space_flows(const fast_space *space, fast_space_flows *out)
{
    fast_space_codec *codec = space->codec;
    FAST_ASSERT(out != NULL);
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

/* Only the first tensor, which holds the model or its updates, is encoded. */
bool fast__space_is_coded(const fast_space *space, fast_space_way way, int64_t tensor)
{
    FAST_ASSERT(way < FAST_SPACE_WAYS);
    return tensor == 0 && space->codec && space->codec->chains[way] &&
           !(way == FAST_SPACE_UP && space->codec->selects);
}

/* Only chains that name nothing but selections. */
bool fast__space_selects(const fast_space *space)
{
    FAST_ASSERT(space != NULL);
    return space->codec && space->codec->selects;
}

/* One flow for all owners, so that elements are compared over the whole tensor. */
void fast__space_select(fast_space *space, const float **x)
{
    const fast_space_codec *codec = space->codec;
    FAST_ASSERT(x != NULL);
    if (!*x || !codec || !codec->selects)
        return;
    const int64_t begin = fast__steady_now(space->actor), count = space->map.counts[0];
    fast__coder_set_due(codec->coders[FAST_SPACE_UP][0], codec->due,
                        1e-9 * (double)fast__actor_time(space->actor));
    fast__coder_select(codec->coders[FAST_SPACE_UP][0], *x, codec->x);
    *x = codec->x;
    const int64_t entries = fast__space_count_nonzero(*x, count);
    const int64_t sent = entries < count / 2 ? 2 * entries : count;
    fast__count(&codec->figures->bytes_in, count * (int64_t)sizeof **x);
    if (!space->sparse.staging || fast__space_is_local(space)) /* else its messages are counted */
        fast__count(&codec->figures->bytes_out, sent * (int64_t)sizeof **x);
    fast__count(&codec->figures->encode_ns, fast__steady_now(space->actor) - begin);
}

/* Set at open, by the traits of the codec of reads. */
bool fast__space_differs(const fast_space *space, int64_t tensor)
{
    FAST_ASSERT(space);
    return tensor == 0 && space->codec && space->codec->shadows;
}

/* Describe the first tensor as matrices, or as one vector. */
static fast_err lay_out(fast_space_codec *codec, const fast_space_options *o)
{
    FAST_ASSERT(o->tensor_count > 0 && o->matrix_count >= 0);
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

/* Borrow the chains, or open those that the options name; "none" counts as no codec. */
static fast_err open_chains(fast_space_codec *codec, const fast_space_options *o,
                            const fast_space_chains *chains)
{
    FAST_ASSERT(codec);
    const char *const names[FAST_SPACE_WAYS] = { o->codec, o->codec_down };
    for (int way = 0; way < FAST_SPACE_WAYS; way++) {
        if (!chains && names[way])
            FAST_TRY(fast__chain_open_with(names[way], o->filter, &codec->opened[way]));
        const fast_chain *chain = chains ? chains->way[way] : codec->opened[way];
        codec->chains[way] = chain && !fast__chain_is_none(chain) ? chain : NULL;
    }
    const fast_chain *up = codec->chains[FAST_SPACE_UP], *down = codec->chains[FAST_SPACE_DOWN];
    codec->selects =
        up && !o->pieces &&
        (o->cache_indices ? fast__chain_selects_exactly(up) : fast__chain_only_selects(up));
    if (up && (fast__chain_traits(up) & FAST_CODEC_MODEL) && !(chains && chains->model))
        return fast__fail(FAST_EINVAL,
                          "codec %s compares updates with the weights, which space \"%s\" does not "
                          "know: open it by fast_trainer_space()",
                          fast__chain_text(up), o->name);
    return down ? fast__shadow_check(down, "codec_down") : FAST_OK;
}

/* Make the state of differences: how they are read, and which values each reader holds. */
static fast_err make_shadows(fast_space *space)
{
    FAST_ASSERT(space->codec && !space->codec->shadows);
    fast_space_codec *codec = space->codec;
    const int64_t owners = space->map.owner_count;
    FAST_TRY(fast__alloc("shadows of a space", owners, sizeof *codec->shadows, &codec->shadows));
    FAST_TRY(fast__alloc("shadows of a space", owners, sizeof *codec->held, &codec->held));
    codec->limits = (fast__chain_traits(codec->chains[FAST_SPACE_DOWN]) & FAST_CODEC_DEFERS) != 0;
    if (space->map.me < 0)
        return FAST_OK;
    codec->actors = fast_actor_count(space->actor);
    return fast__alloc("readers of a space", codec->actors, sizeof *codec->readers,
                       &codec->readers);
}

/* Make a coder for each owner's range that is not empty. */
static fast_err make_coders(fast_space *space, const fast_space_options *o, fast_space_way way,
                            const fast_space_chains *chains, uint64_t seed, size_t *bound,
                            int64_t *largest)
{
    FAST_ASSERT(space->codec->chains[way]);
    fast_space_codec *codec = space->codec;
    FAST_TRY(fast__alloc("codecs of a space", space->map.owner_count, sizeof(fast_coder *),
                         &codec->coders[way]));
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        fast_coder **coder = &codec->coders[way][owner];
        fast_coder_options options = { .chain = codec->chains[way],
                                       .layout = &codec->layout,
                                       .device = fast__space_device(space),
                                       .scope = o->codec_scope,
                                       .small = o->codec_small,
                                       .feedback = way == FAST_SPACE_UP ? o->feedback : 2,
                                       .workers = o->writer_count,
                                       .seed = seed,
                                       .flow = (uint64_t)(owner * FAST_SPACE_WAYS + way),
                                       .model = chains ? chains->model : NULL,
                                       .model_ctx = chains ? chains->model_ctx : NULL };
        fast__space_range(space, owner, 0, &options.offset, &options.count);
        if (way == FAST_SPACE_UP && codec->selects) { /* all ranges, in the first flow */
            options.offset = 0;
            options.count = owner == 0 ? space->map.counts[0] : 0;
        }
        if (options.count == 0)
            continue;
        const bool differs = way == FAST_SPACE_DOWN && codec->shadows;
        if (differs) /* its flows are told apart by their readers, at both ends */
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

/* Let the coders of adds encode by scales that all writers agree on, where their codec shares
 * (comm/scales.h). Owners' ranges cut layers, whose scale all their parts have. */
static fast_err open_scales(fast_space *space, const fast_space_options *o)
{
    fast_space_codec *codec = space->codec;
    const fast_chain *up = codec->chains[FAST_SPACE_UP];
    const fast_coder_options whole = { .chain = up,
                                       .layout = &codec->layout,
                                       .count = space->map.counts[0],
                                       .scope = o->codec_scope,
                                       .small = o->codec_small };
    FAST_ASSERT(!codec->scales);
    if (!up || !(fast__chain_traits(up) & FAST_CODEC_SHARES))
        return FAST_OK;
    if (o->pieces)
        return fast__fail(FAST_EINVAL,
                          "codec %s: writers agree on scales of whole updates, and space \"%s\" is "
                          "written in pieces; leave out share, or overlap",
                          fast__chain_text(up), o->name);
    FAST_TRY(fast__scales_new(&whole, o->writer_count, &codec->scales));
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        int64_t offset, count;
        fast__space_range(space, owner, 0, &offset, &count);
        if (codec->coders[FAST_SPACE_UP][owner])
            FAST_TRY(
                fast__scales_serve(codec->scales, offset, codec->coders[FAST_SPACE_UP][owner]));
    }
    return FAST_OK;
}

fast_err fast__space_agree(fast_space *space, fast_group *group, const float *x)
{
    FAST_ASSERT(x != NULL);
    return space->codec && space->codec->scales
               ? fast__scales_agree(space->codec->scales, group, x, FAST_SOON)
               : FAST_OK;
}

/* Scratch memory is as large as the longest encoding and the longest range. */
fast_err fast__space_codec_new(fast_space *space, const fast_space_options *o,
                               const fast_space_chains *chains)
{
    FAST_ASSERT(o);
    FAST_ASSERT(!space->codec);
    size_t bound = 0;
    int64_t largest = 0;
    FAST_TRY(fast__alloc("codecs of a space", 1, sizeof *space->codec, &space->codec));
    space->codec->epoch_rounds = o->epoch_rounds;
    space->codec->figures = &space->codec->own;
    FAST_TRY(open_chains(space->codec, o, chains));
    space->sparse.enabled |= space->codec->selects;
    if (!space->codec->chains[FAST_SPACE_UP] && !space->codec->chains[FAST_SPACE_DOWN])
        return FAST_OK;
    FAST_TRY(lay_out(space->codec, o));
    /* Replicas of a space draw the same random numbers, so that they stay equal. */
    const uint64_t seed = (uint64_t)space->actor->world->config.seed +
                          (uint64_t)fast_actor_id(space->actor) * UINT64_C(0x9e3779b97f4a7c15);
    const fast_chain *down = space->codec->chains[FAST_SPACE_DOWN];
    if (down && fast__shadow_needed(down))
        FAST_TRY(make_shadows(space));
    for (int way = 0; way < FAST_SPACE_WAYS; way++)
        if (space->codec->chains[way])
            FAST_TRY(make_coders(space, o, (fast_space_way)way, chains, seed, &bound, &largest));
    FAST_TRY(open_scales(space, o));
    if (space->codec->selects)
        FAST_TRY(fast__space_sparse_stage(space, space->codec->chains[FAST_SPACE_UP]));
    FAST_TRY(fast__alloc("an encoding", (int64_t)bound, 1, &space->codec->bytes));
    return fast__vector_new(fast__space_device(space), "a decoding", largest, &space->codec->x);
}

/* Also frees a codec that was made in part. Borrowed chains stay open. */
void fast__space_codec_free(fast_space *space)
{
    fast_space_codec *codec = space->codec;
    if (!codec)
        return;
    fast__scales_free(codec->scales);
    for (int way = 0; way < FAST_SPACE_WAYS; way++) {
        for (int64_t i = 0; codec->coders[way] && i < space->map.owner_count; i++)
            fast__coder_free(codec->coders[way][i]);
        fast__free(codec->coders[way]);
        fast__chain_close(codec->opened[way]);
    }
    for (int64_t i = 0; codec->shadows && i < space->map.owner_count; i++) {
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
    fast__vector_free(codec->x);
    fast__free(codec);
    space->codec = NULL;
}

/* In epochs of this actor's own clock: codecs warm up by it. */
double fast__space_progress(const fast_space *space)
{
    FAST_ASSERT(space->codec);
    const int64_t rounds = space->codec->epoch_rounds;
    return rounds > 0 ? (double)space->clocks.own / (double)rounds : 0;
}

fast_coded_figures *fast__space_counts(const fast_space *space)
{
    FAST_ASSERT(space->codec);
    return space->codec->figures;
}

fast_coder *fast__space_coder(const fast_space *space, int64_t owner, const fast_chain **chain_out,
                              fast_coded_figures **figures_out)
{
    const fast_space_codec *codec = space->codec;
    FAST_ASSERT(codec && owner >= 0 && owner < space->map.owner_count);
    if (chain_out)
        *chain_out = codec->chains[FAST_SPACE_UP];
    if (figures_out)
        *figures_out = codec->figures;
    return codec->coders[FAST_SPACE_UP][owner];
}

/* Encode a range and charge for it: the difference to `shadow`, or the values if that is NULL. */
static fast_err encode(fast_space *space, fast_space_way way, int64_t owner, fast_shadow *shadow,
                       const float *x, uint8_t *out, size_t *size_out)
{
    fast_space_codec *codec = space->codec;
    const int64_t begin = fast__steady_now(space->actor);
    const double progress = fast__space_progress(space);
    int64_t offset, count;
    fast__space_range(space, owner, 0, &offset, &count);
    FAST_ASSERT(x && count > 0);
    if (way == FAST_SPACE_UP)
        fast__coder_set_due(codec->coders[way][owner], codec->due,
                            1e-9 * (double)fast__actor_time(space->actor));
    if (shadow && codec->limits)
        fast__shadow_set_pace(codec->shadows[owner], shadow, codec->all,
                              1e-9 * (double)fast__actor_time(space->actor));
    if (shadow)
        FAST_TRY(fast__shadow_send(codec->shadows[owner], shadow, space->clocks.own, progress, x,
                                   out, size_out));
    else
        *size_out =
            fast__coder_encode(codec->coders[way][owner], space->clocks.own, progress, x, out);
    fast__count(&codec->figures->bytes_in, count * (int64_t)sizeof *x);
    fast__count(&codec->figures->bytes_out, (int64_t)*size_out);
    FAST_TRY(fast__charge_encode(space->actor, codec->chains[way], begin, count, *size_out,
                                 codec->figures));
    /* The sender decodes as well, and compares. */
    return shadow ? fast__charge_decode(space->actor, codec->chains[way],
                                        fast__steady_now(space->actor), count, *size_out,
                                        codec->figures)
                  : FAST_OK;
}

/* Return the direction in which the operation's values travel. */
static fast_space_way way_of(const fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_ADD || op->kind == FAST_SPACE_VALUE);
    return op->kind == FAST_SPACE_ADD ? FAST_SPACE_UP : FAST_SPACE_DOWN;
}

/* Return true if the operation's values are differences to those that a reader holds. */
static bool sends_differences(const fast_space *space, const fast_space_operation *op)
{
    FAST_ASSERT(space->codec);
    return op->kind == FAST_SPACE_VALUE && space->codec->shadows;
}

/* The bound of the coder, or of differences, of this owner's range. */
static size_t encoded_bound(const fast_space *space, const fast_space_operation *op)
{
    FAST_ASSERT(op->tensor == 0);
    const fast_space_codec *codec = space->codec;
    return sends_differences(space, op) ? fast__shadows_bound(codec->shadows[op->owner])
                                        : fast__coder_bound(codec->coders[way_of(op)][op->owner]);
}

/* Encode to a frozen buffer. Differences are encoded for op->from, to which they must be sent. */
static fast_err encoded_pack(fast_space *space, const fast_space_operation *op,
                             fast_space_packed *out)
{
    fast_space_codec *codec = space->codec;
    fast_shadow *shadow = NULL;
    fast_buffer *buffer;
    FAST_TRY(fast_buffer_new(space->actor, encoded_bound(space, op), &buffer));
    if (sends_differences(space, op)) {
        FAST_ASSERT(op->from >= 0 && op->from < codec->actors);
        shadow = &codec->readers[op->from];
        shadow->flow = (uint32_t)op->from;
    }
    const fast_err err = encode(space, way_of(op), op->owner, shadow, op->x,
                                fast_buffer_data(buffer), &out->sizes[0]);
    if (err) {
        fast_buffer_free(buffer);
        return err;
    }
    fast_buffer_freeze(buffer);
    out->buffers[0] = buffer;
    return FAST_OK;
}

/* Decode to memory that lasts until the next decoding; false if the bytes make no sense. */
static bool decode(fast_space *space, fast_space_way way, int64_t owner, const void *in,
                   size_t size, const float **x_out)
{
    FAST_ASSERT(in && x_out);
    fast_space_codec *codec = space->codec;
    fast_coder *coder = codec->coders[way][owner];
    const int64_t begin = fast__steady_now(space->actor);
    if (!coder || fast__coder_decode(coder, in, size, FAST_DECODE_SET, 1, codec->x) != FAST_OK)
        return false;
    fast__count(&codec->figures->decode_ns, fast__steady_now(space->actor) - begin);
    *x_out = codec->x;
    return true;
}

/* Values are lent from the scratch vector, or from the copy that the reader holds. */
static bool encoded_unpack(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->tensor == 0);
    if (sends_differences(space, op)) {
        /* They were added to the held values when they arrived. */
        const fast_shadow *held = &space->codec->held[op->owner];
        op->x = held->whole ? held->values : NULL;
        return op->x != NULL;
    }
    return msg->part_count == 1 && msg->declared == 0 &&
           decode(space, way_of(op), op->owner, fast_msg_data(msg, 0), msg->parts[0].size, &op->x);
}

/* Charged after the values were used: a charge may handle other messages, which decode too. */
static fast_err encoded_cost(fast_space *space, const fast_msg *msg, const fast_space_operation *op)
{
    FAST_ASSERT(msg->part_count == 1);
    return fast__space_pay(space, way_of(op), op->owner, msg->parts[0].size);
}

const fast_space_form fast__space_form_encoded = {
    .name = "encoded",
    .bound = encoded_bound,
    .pack = encoded_pack,
    .unpack = encoded_unpack,
    .cost = encoded_cost,
};

/* Set with the shadows: other codecs of answers bring every element. */
bool fast__space_limits(const fast_space *space)
{
    FAST_ASSERT(space->map.owner_count > 0);
    return space->codec && space->codec->limits;
}

/* Set before each answer, since readers are of different ages. */
void fast__space_send_all(fast_space *space, bool all)
{
    FAST_ASSERT(fast__space_limits(space));
    space->codec->all = all;
}

/* Without a budget every answer is complete. */
bool fast__space_is_complete(const fast_space *space, int64_t reader)
{
    FAST_ASSERT(reader >= 0 && reader < fast_actor_count(space->actor));
    return !fast__space_limits(space) || space->codec->readers[reader].complete;
}

/* The next answer to this reader brings all values. */
void fast__space_forget(fast_space *space, int64_t id)
{
    FAST_ASSERT(id >= 0 && id < fast_actor_count(space->actor));
    if (space->codec && space->codec->readers)
        space->codec->readers[id].whole = false;
}

void fast__space_add_waiting(const fast_space *space, float scale, float *y)
{
    const fast_chain *up = space->codec ? space->codec->chains[FAST_SPACE_UP] : NULL;
    FAST_ASSERT(y != NULL);
    for (int64_t i = 0; up && fast__chain_selects(up) && i < space->map.owner_count; i++) {
        const float *waiting = fast__space_residual(space, i);
        int64_t offset, count;
        fast__space_range(space, i, 0, &offset, &count);
        if (waiting)
            fast__vector_axpy(count, scale, waiting, y + offset);
    }
}

bool fast__space_defers(const fast_space *space)
{
    const fast_chain *up = space->codec ? space->codec->chains[FAST_SPACE_UP] : NULL;
    FAST_ASSERT(space->map.owner_count > 0);
    return up && (fast__chain_traits(up) & FAST_CODEC_DEFERS);
}

void fast__space_set_due(fast_space *space, bool due)
{
    FAST_ASSERT(space->codec != NULL);
    space->codec->due = due;
}

bool fast__space_due(const fast_space *space)
{
    FAST_ASSERT(space->codec != NULL);
    return space->codec->due;
}

bool fast__space_is_waiting(const fast_space *space)
{
    FAST_ASSERT(space->map.owner_count > 0);
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        const float *waiting = fast__space_residual(space, i);
        int64_t offset, count;
        fast__space_range(space, i, 0, &offset, &count);
        if (waiting && count > 0 && fast__vector_max_abs(count, waiting) != 0)
            return true;
    }
    return false;
}

const float *fast__space_residual(const fast_space *space, int64_t owner)
{
    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count);
    fast_space_codec *codec = space->codec;
    const bool selects = codec && codec->selects;
    fast_coder *coder = codec && codec->coders[FAST_SPACE_UP]
                            ? codec->coders[FAST_SPACE_UP][selects ? 0 : owner]
                            : NULL;
    const float *residual = coder ? fast__coder_residual(coder) : NULL;
    int64_t offset, count;
    fast__space_range(space, owner, 0, &offset, &count);
    return residual && selects ? residual + offset : residual;
}

/* As fast__space_forget(), at the end of a reader that shares memory with the owner. */
void fast__space_drop(fast_space *space, int64_t owner)
{
    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count);
    if (space->codec && space->codec->held)
        space->codec->held[owner].whole = false;
}

/* Order and completeness are checked by the shadow: each message has a number. */
bool fast__space_take(fast_space *space, int64_t owner, const void *in, size_t size)
{
    FAST_ASSERT(in);
    FAST_ASSERT(space->codec && space->codec->shadows);
    fast_space_codec *codec = space->codec;
    const int64_t begin = fast__steady_now(space->actor);
    if (!codec->shadows[owner] ||
        fast__shadow_take(codec->shadows[owner], &codec->held[owner], in, size) != FAST_OK)
        return false;
    fast__count(&codec->figures->decode_ns, fast__steady_now(space->actor) - begin);
    return true;
}

/* Lent until the next message of this owner. */
const float *fast__space_changed_part(const fast_space *space, int64_t owner)
{
    FAST_ASSERT(space->codec && space->codec->shadows && space->codec->shadows[owner]);
    return fast__shadows_decoded(space->codec->shadows[owner]);
}

/* The time of unpacking was measured there; here simulated time is charged. */
fast_err fast__space_pay(fast_space *space, fast_space_way way, int64_t owner, size_t size)
{
    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count);
    FAST_ASSERT(space->codec && space->codec->chains[way]);
    fast_space_codec *codec = space->codec;
    int64_t offset, count;
    fast__space_range(space, owner, 0, &offset, &count);
    fast__count(&codec->figures->bytes_dec, count * (int64_t)sizeof *codec->x);
    return fast__charge_decode(space->actor, codec->chains[way], fast__steady_now(space->actor),
                               count, size, codec->figures);
}

/* A reader of differences holds the owner's values already: both ends share one shadow. */
fast_err fast__space_recode(fast_space *space, fast_space_way way, int64_t owner, const float *x,
                            const float **out)
{
    FAST_ASSERT(x && out);
    fast_shadow *shadow =
        way == FAST_SPACE_DOWN && space->codec->shadows ? &space->codec->held[owner] : NULL;
    size_t size;
    if (shadow)
        shadow->flow = (uint32_t)fast_actor_id(space->actor);
    if (shadow && space->codec->limits) /* memory is no link: it has no budget */
        space->codec->all = true;
    FAST_TRY(encode(space, way, owner, shadow, x, space->codec->bytes, &size));
    if (shadow) { /* this actor is both ends */
        *out = shadow->values;
        return FAST_OK;
    }
    const bool good = decode(space, way, owner, space->codec->bytes, size, out);
    FAST_ASSERT(good); /* this coder encoded it */
    return fast__space_pay(space, way, owner, size);
}
