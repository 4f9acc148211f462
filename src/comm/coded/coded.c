/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sum over P members of vectors of n floats, each encoded to c bytes. All members end with the
 * same bits, on every transport: they decode the same bytes in the same order. The methods, of
 * which coded_way.c chooses one:
 *
 *   rounds   the codec's messages can be summed: a dense allreduce for each of its rounds
 *            (PowerSGD, Vogels et al. 2019)
 *   double, split, butterfly
 *            entries of sparse codecs: an allreduce of streams, which become dense (sparse.c)
 *   gather   encodings go around a ring, frozen, and each member adds them up by rank:
 *            P - 1 messages, (P - 1) c bytes
 *   stripes  member r owns slice r. Encoded slices go to their owners, which add them up, encode
 *            the sum with a codec of its own and send that to all: 2 (P - 1) messages,
 *            (P - 1) / P (c + d) bytes, d those of the sum. The owner has a residual of its own:
 *            error feedback on both sides (Seide et al. 2014, 1-bit SGD)
 *
 * Scales: with a codec that shares them, members first send each other the scale of each layer, and
 * all encode by the largest, rounded up to 16 bits of precision, so that sums of up to 256 members
 * are exact in any order (TernGrad, Wen et al. 2017). Slices have the scale of their layer.
 *
 * Votes: the sum's sign, P times, so that the mean over members is 1 or -1, and 0 for a tie.
 *
 * Simulated time: encoding takes the codec's `operations` for each element, and 16 bytes of memory;
 * decoding half of the operations and 8 bytes, of sparse codecs SPARSE_OPERATIONS and 8 bytes for
 * each byte of the encoding. Memory: P encodings, and where it is striped two coders for each of P
 * slices. After the first sum only pools of messages allocate.
 */
#include "comm/coded.h"

#include "base/memory.h"
#include "comm/scales.h"
#include "tensor/vector.h"

#include <inttypes.h>
#include <string.h>

enum {
    SPARSE_OPERATIONS = 2, /* of a byte to decode */
    PHASE_UP = 1,          /* messages: to an owner, or around */
    PHASE_DOWN = 2,        /* from an owner */
};

struct fast_coded {
    fast_coded_way way;         /* method of the sum */
    fast_sparse_plan plan;      /* layers of a butterfly of streams, and the bits of their values */
    fast_sparse_memory *memory; /* butterfly: indices that links remember; else NULL */
    float *dense;               /* sparse, with several blocks: [count]; else NULL */
    uint64_t seed;              /* of the run, for values of few bits */
    int64_t size;               /* of the group */
    int64_t rank;               /* in it */
    int64_t count;              /* of floats */
    unsigned traits;            /* of the codec of what is sent */
    fast_coder *up;             /* of whole vectors; NULL where striped */
    int64_t *cuts;              /* [size + 1]: first element of each slice; NULL unless striped */
    fast_coder **slices;        /* [size]: to each owner; NULL for empty slices */
    fast_coder **downs; /* [size]: from each owner, NULL for empty slices; this rank's encodes */
    const fast_chain *chains[2]; /* up, down */
    fast_allgatherv_part *parts; /* [size]: encodings, by rank */
    fast_scales *scales;         /* that all members agree on; NULL: each has its own */
    float *total;                /* EF21: [count], the sum of all estimates; else NULL */
    uint32_t *index;             /* sparse: [count] */
    float *value;                /* sparse: [count]; rounds: the longest round's vector */
    fast_coded_figures own;      /* figures, where the caller gave none */
    fast_coded_figures *figures; /* where to count: `own`, or the caller's */
};

/* One call under way. */
typedef struct coded_call {
    fast_collective collective; /* for its tag only */
    fast_coded *c;              /* the member's object */
    fast_group *group;          /* the group of this call */
    int64_t step;               /* of training */
    double progress;            /* of training, in epochs */
    int64_t deadline;           /* as a time */
} coded_call;

/* Making. */

/* Return the first element of slice r: slices are as equal as whole rows allow, for codecs that use
 * rows. */
static int64_t cut_at(const fast_layout *layout, int64_t size, int64_t r)
{
    FAST_ASSERT(r >= 0 && r <= size);
    const fast_segment *s = layout->segments;
    int64_t at = 0, count = 0;

    if (r == size)
        return layout->count;
    fast__range(layout->count, size, r, &at, &count);
    for (int64_t i = 0; i < layout->segment_count; i++, s++)
        if (at >= s->offset && at < s->offset + s->count && s->rank > 1 && s->shape[0] > 0)
            return at - (at - s->offset) % (s->count / s->shape[0]);
    return at;
}

/* Make the coders of all slices. Of those that decode sums only this rank's encodes too: the
 * others have no residual. */
static fast_err open_stripes(fast_coded *c, const fast_coded_options *o)
{
    FAST_ASSERT(c->size == o->size && !c->slices);
    const unsigned exact = FAST_CODEC_ACCUMULATES | FAST_CODEC_LOSSLESS | FAST_CODEC_UNBIASED;
    const bool feeds = (fast__chain_traits(o->down) & exact) == 0;
    const int feedback = o->feedback == FAST_FEEDBACK_EF21 ? 1 : o->feedback;

    FAST_TRY(fast__alloc("coders of slices", c->size, sizeof *c->slices, &c->slices));
    FAST_TRY(fast__alloc("coders of slices", c->size, sizeof *c->downs, &c->downs));
    FAST_TRY(fast__alloc("slices", c->size + 1, sizeof *c->cuts, &c->cuts));
    for (int64_t r = 0; r <= c->size; r++)
        c->cuts[r] = cut_at(o->layout, c->size, r);
    for (int64_t r = 0; r < c->size; r++) {
        const int64_t offset = c->cuts[r], count = c->cuts[r + 1] - offset;

        if (count == 0)
            continue;
        fast_coder_options options = fast__coded_coder(o, offset, count);
        options.flow |= (uint64_t)(r + 1) << 32;
        FAST_TRY(fast__coder_new(&options, &c->slices[r]));
        options.chain = o->down;
        options.flow = (uint64_t)(r + 1) << 32;
        options.workers = 1;
        options.feedback = r != c->rank ? 2 : feedback == 1 && !feeds ? 0 : feedback;
        FAST_TRY(fast__coder_new(&options, &c->downs[r]));
    }
    return FAST_OK;
}

/* Let the coders of vectors, or of slices, encode by scales that all members agree on. */
static fast_err open_scales(fast_coded *c, const fast_coded_options *o)
{
    const fast_coder_options whole = fast__coded_coder(o, 0, c->count);

    FAST_ASSERT(!c->scales && (c->up || c->slices));
    FAST_TRY(fast__scales_new(&whole, c->size, &c->scales));
    if (c->up)
        FAST_TRY(fast__scales_serve(c->scales, 0, c->up));
    for (int64_t r = 0; c->slices && r < c->size; r++)
        if (c->slices[r])
            FAST_TRY(fast__scales_serve(c->scales, c->cuts[r], c->slices[r]));
    return FAST_OK;
}

/* Make the coder of whole vectors, or those of slices where the sum is striped. */
static fast_err open_whole(fast_coded *c, const fast_coded_options *o)
{
    FAST_ASSERT(!c->up);
    const fast_coder_options options = fast__coded_coder(o, 0, c->count);
    int64_t longest = 0;

    FAST_TRY(fast__coder_new(&options, &c->up));
    FAST_TRY(fast__coded_choose(o, fast__coder_block_count(c->up), &c->way, &c->plan));
    atomic_store(&c->figures->way, c->way);
    if (c->way == FAST_CODED_STRIPED) {
        fast__coder_free(c->up);
        c->up = NULL;
        FAST_TRY(open_stripes(c, o));
    }
    if (c->traits & FAST_CODEC_SHARES)
        FAST_TRY(open_scales(c, o));
    if (c->way == FAST_CODED_STRIPED)
        return FAST_OK;
    if (c->way >= FAST_CODED_SPARSE && c->way <= FAST_CODED_BUTTERFLY) {
        longest = c->count;
        FAST_TRY(fast__alloc("entries", c->count, sizeof *c->index, &c->index));
        if (fast__coder_block_count(c->up) > 1)
            FAST_TRY(fast__vector_new(&fast__host, "decoded entries", c->count, &c->dense));
    }
    if (c->way == FAST_CODED_BUTTERFLY)
        FAST_TRY(fast__sparse_memory_new(&c->memory));
    for (int r = 0; c->way == FAST_CODED_ROUNDS && r < fast__coder_round_count(c->up); r++)
        if (fast__coder_round_size(c->up, r) > longest)
            longest = fast__coder_round_size(c->up, r);
    /* Entries are the host's, as messages are. */
    const bool vectors = c->way == FAST_CODED_ROUNDS && o->device;
    return fast__vector_new(vectors ? o->device : &fast__host, "values", longest, &c->value);
}

/* Nothing is sent: members make their objects independently, from equal options. */
fast_err fast__coded_new(const fast_coded_options *o, fast_coded **out)
{
    fast_coded *c = NULL;

    FAST_ASSERT(o->layout->count > 0 && o->rank >= 0 && o->rank < o->size);
    FAST_TRY(fast__alloc("a coded sum", 1, sizeof *c, &c));
    c->size = o->size;
    c->rank = o->rank;
    c->count = o->layout->count;
    c->traits = fast__chain_traits(o->up);
    c->seed = o->seed;
    c->chains[0] = o->up;
    c->chains[1] = o->down;
    c->figures = o->figures ? o->figures : &c->own;
    fast_err err = fast__alloc("encodings", c->size, sizeof *c->parts, &c->parts);
    if (!err)
        err = open_whole(c, o);
    if (!err && o->feedback == FAST_FEEDBACK_EF21)
        err = fast__vector_new(o->device ? o->device : &fast__host, "the sum of estimates",
                               c->count, &c->total);
    if (err)
        fast__coded_free(c);
    else
        *out = c;
    return err;
}

/* Also frees an object that was made in part. */
void fast__coded_free(fast_coded *c)
{
    if (!c)
        return;
    fast__coder_free(c->up);
    for (int64_t r = 0; r < c->size; r++) {
        if (c->slices)
            fast__coder_free(c->slices[r]);
        if (c->downs)
            fast__coder_free(c->downs[r]);
    }
    fast__free(c->cuts);
    fast__free(c->slices);
    fast__free(c->downs);
    fast__free(c->parts);
    fast__free(c->index);
    fast__sparse_memory_free(c->memory);
    fast__vector_free(c->dense);
    fast__scales_free(c->scales);
    fast__vector_free(c->total);
    fast__vector_free(c->value);
    fast__free(c);
}

/* Pieces use the coder of whole vectors, so that residuals are the same with and without them. */
fast_coder *fast__coded_whole(fast_coded *c, const fast_chain **chain_out,
                              fast_coded_figures **figures_out)
{
    FAST_ASSERT(chain_out && figures_out);
    *chain_out = c->chains[0];
    *figures_out = c->figures;
    return c->up;
}

/* Never AUTO: the method is chosen when the object is made. */
fast_coded_way fast__coded_way(const fast_coded *c)
{
    FAST_ASSERT(c->way != FAST_CODED_AUTO);
    return c->way;
}

/* Estimates need the whole vector: the residual is changed after its last block. */
bool fast__coded_estimates(const fast_coded *c)
{
    FAST_ASSERT(c->size > 0);
    return c->total != NULL;
}

/* Counted since the object was made, or since the caller's figures were. */
const fast_coded_figures *fast__coded_figures(const fast_coded *c)
{
    FAST_ASSERT(c->figures);
    return c->figures;
}

/* Return coder k: of slices to owners, then from owners; NULL for an empty slice, or
 * past the last coder. */
static fast_coder *coder_at(const fast_coded *c, int64_t k)
{
    FAST_ASSERT(k >= 0);
    if (!c->slices)
        return k == 0 ? c->up : NULL;
    return k < c->size ? c->slices[k] : k < 2 * c->size ? c->downs[k - c->size] : NULL;
}

/* Return true if a coder has a residual, or vectors of its codec. */
bool fast__coded_remembers(const fast_coded *c)
{
    FAST_ASSERT(c->size > 0);
    int64_t floats = 0;

    for (int64_t k = 0; k < 2 * c->size && floats == 0; k++)
        if (coder_at(c, k))
            (void)fast__coder_state(coder_at(c, k), &floats);
    return floats > 0 || c->total;
}

/* A record of each coder: the number of its encodings, then its floats. */
void fast__coded_pack(const fast_coded *c, fast_pack *pack, int64_t kind)
{
    FAST_ASSERT(c && pack);
    for (int64_t k = 0; k < 2 * c->size; k++) {
        fast_coder *coder = coder_at(c, k);
        int64_t count = 0;
        const float *state = coder ? fast__coder_state(coder, &count) : NULL;
        const int64_t encodings = coder ? fast__coder_encodings(coder) : 0;
        const size_t size = (size_t)count * sizeof *state;
        uint8_t *at = coder ? fast__pack_add(pack, kind, k, sizeof encodings + size) : NULL;

        if (!at)
            continue;
        memcpy(at, &encodings, sizeof encodings);
        if (count > 0)
            fast__vector_copy(count, state, at + sizeof encodings);
    }
    uint8_t *at = c->total
                      ? fast__pack_add(pack, kind, 2 * c->size, (size_t)c->count * sizeof *c->total)
                      : NULL;
    if (at)
        fast__vector_copy(c->count, c->total, at);
}

/* The record may come from a damaged file: its number and size are checked before it is used. */
fast_err fast__coded_unpack(fast_coded *c, const fast_pack_record *record)
{
    FAST_ASSERT(c && record);
    fast_coder *coder =
        record->number >= 0 && record->number < 2 * c->size ? coder_at(c, record->number) : NULL;
    int64_t count = 0, encodings = 0;
    float *state = coder ? fast__coder_state(coder, &count) : NULL;
    const size_t size = (size_t)count * sizeof *state;

    /* The record after those of the coders is the sum of estimates. */
    if (c->total && record->number == 2 * c->size &&
        record->size == (size_t)c->count * sizeof *c->total) {
        fast__vector_copy(c->count, record->data, c->total);
        return FAST_OK;
    }
    if (!coder || record->size != sizeof encodings + size)
        return fast__fail(FAST_EFORMAT, "%zu bytes are not the codec's state of sum %lld",
                          record->size, (long long)record->number);
    memcpy(&encodings, record->data, sizeof encodings);
    fast__coder_restart(coder, encodings & INT64_MAX);
    fast__vector_copy(count, (const uint8_t *)record->data + sizeof encodings, state);
    return FAST_OK;
}

/* For a run that continues from another step: random numbers follow the number of the sum. */
void fast__coded_restart(fast_coded *c, int64_t sums)
{
    FAST_ASSERT(sums >= 0);
    for (int64_t k = 0; k < 2 * c->size; k++)
        if (coder_at(c, k))
            fast__coder_restart(coder_at(c, k), sums);
    if (c->total)
        fast__vector_fill(c->count, 0, c->total);
    if (c->memory)
        fast__sparse_memory_clear(c->memory);
}

/* Codecs at work. */

/* Return the operations of a chain's encoding, for each element. */
static double operations_of(const fast_chain *chain)
{
    FAST_ASSERT(chain);
    const fast_codec *codec = fast__chain_codec(chain);

    if (!codec)
        return 1;
    return codec->operations > 0 ? codec->operations : FAST_CODEC_OPERATIONS;
}

/* 16 bytes of memory traffic an element: values and residual, read and written. */
fast_err fast__charge_encode(fast_actor *actor, const fast_chain *chain, int64_t begin,
                             int64_t count, size_t size, fast_coded_figures *figures)
{
    FAST_ASSERT(count >= 0 && figures);
    return fast__charge_codec(actor, "encode", begin, operations_of(chain) * (double)count,
                              16 * (double)count + (double)size, &figures->encode_ns);
}

/* A sparse codec costs by the bytes of its encoding, any other by the elements. */
fast_err fast__charge_decode(fast_actor *actor, const fast_chain *chain, int64_t begin,
                             int64_t count, size_t size, fast_coded_figures *figures)
{
    FAST_ASSERT(count >= 0 && figures);
    const bool sparse = (fast__chain_traits(chain) & FAST_CODEC_SPARSE) != 0;
    const double bytes = (double)size;

    return fast__charge_codec(actor, "decode", begin,
                              sparse ? SPARSE_OPERATIONS * bytes
                                     : operations_of(chain) * (double)count / 2,
                              bytes + 8 * (sparse ? bytes : (double)count), &figures->decode_ns);
}

/* Encode x, `count` floats, to a frozen buffer in *out. */
static fast_err encode(coded_call *k, const fast_chain *chain, fast_coder *coder, int64_t count,
                       const float *x, fast_allgatherv_part *out)
{
    fast_coded_figures *f = k->c->figures;
    fast_actor *actor = k->group->actor;
    const int64_t begin = fast__steady_now(actor);
    fast_buffer *buffer = NULL;

    FAST_ASSERT(out->buffer == NULL);
    FAST_TRY(fast_buffer_new(actor, fast__coder_bound(coder), &buffer));
    uint8_t *data = fast_buffer_data(buffer);
    const size_t size = fast__coder_encode(coder, k->step, k->progress, x, data);
    /* EF21 in terms of the residual e = -h, which is now x + e - C(x + e): h grows by C(x + e). */
    if (k->c->total && chain == k->c->chains[0])
        fast__vector_axpy(count, -1, x, fast__coder_residual(coder));
    fast_buffer_freeze(buffer);
    *out = (fast_allgatherv_part){ buffer, data, size };
    fast__count(&f->bytes_in, count * (int64_t)sizeof *x);
    fast__count(&f->bytes_out, (int64_t)size);
    return fast__charge_encode(actor, chain, begin, count, size, f);
}

/* Decode to y, or add to y; then release the encoding. */
static fast_err decode(coded_call *k, const fast_chain *chain, fast_coder *coder, int64_t count,
                       fast_decode_mode mode, float *y, fast_allgatherv_part *from)
{
    FAST_ASSERT(from->buffer);
    fast_coded_figures *f = k->c->figures;
    fast_actor *actor = k->group->actor;
    const int64_t begin = fast__steady_now(actor);
    const size_t size = from->size;

    FAST_TRY(fast__coder_decode(coder, from->data, from->size, mode, 1, y));
    fast_buffer_free(from->buffer);
    *from = (fast_allgatherv_part){ 0 };
    fast__count(&f->bytes_dec, count * (int64_t)sizeof *y);
    return fast__charge_decode(actor, chain, begin, count, size, f);
}

/* NaN stays NaN. */
void fast__coded_vote(const fast_coded *c, int64_t count, float *y)
{
    FAST_ASSERT(count >= 0 && y);
    const float all = (float)c->size;

    if (!(c->traits & FAST_CODEC_VOTES))
        return;
    float *at = fast__map(y, count, FAST_ACCESS_UPDATE);
    for (int64_t i = 0; i < count; i++)
        at[i] = at[i] > 0 ? all : at[i] < 0 ? -all : at[i];
    fast__unmap(y, count, FAST_ACCESS_UPDATE);
}

/* Messages: words are the phase, the bytes of part 0, and the floats of the whole vector. */

/* Send an encoding to a rank. */
static fast_err send(coded_call *k, int64_t rank, int phase, const fast_allgatherv_part *what)
{
    FAST_ASSERT(what->buffer && rank != k->c->rank);
    fast_actor *actor = k->group->actor;
    fast_msg *msg = NULL;

    FAST_TRY(fast__collective_message(&k->collective, &msg));
    msg->words[0] = phase;
    msg->words[1] = (int64_t)what->size;
    msg->words[2] = k->c->count;
    fast_msg_add_view(msg, what->buffer, 0, what->size);
    return fast_send(actor, fast_group_member(k->group, rank), &msg);
}

/* Wait for the message of a rank. */
static fast_err receive(coded_call *k, int64_t rank, int phase, fast_allgatherv_part *out)
{
    FAST_ASSERT(rank != k->c->rank);
    fast_msg *msg = NULL;

    FAST_TRY(fast__collective_receive(&k->collective, rank, k->deadline, &msg));
    if (msg->words[0] == phase && msg->words[2] == k->c->count && msg->part_count == 1 &&
        msg->words[1] == (int64_t)msg->parts[0].size) {
        FAST_ASSERT(out->buffer == NULL);
        out->data = fast_msg_data(msg, 0);
        out->size = msg->parts[0].size;
        out->buffer = fast_msg_take(msg, 0);
        fast_msg_free(msg);
        return FAST_OK;
    }
    const fast_err err = fast__fail(FAST_EINVAL,
                                    "coded sum of %" PRId64 " floats here and %" PRId64
                                    " at actor %" PRId64 "; all members must make the same calls",
                                    k->c->count, msg->words[2], msg->from);
    fast_msg_free(msg);
    return err;
}

/* Release the encodings of a call. */
static void drop_parts(fast_coded *c)
{
    FAST_ASSERT(c->parts);
    for (int64_t r = 0; r < c->size; r++) {
        fast_buffer_free(c->parts[r].buffer);
        c->parts[r] = (fast_allgatherv_part){ 0 };
    }
}

/* The ways. */

/* Rounds: the codec's dense vectors are summed, one allreduce each. */
static fast_err sum_rounds(coded_call *k, float *x)
{
    FAST_ASSERT(k->c->up && k->c->value);
    fast_coded *c = k->c;
    fast_coded_figures *f = c->figures;
    fast_actor *actor = k->group->actor;
    const int count = fast__coder_round_count(c->up);
    const double operations = operations_of(c->chains[0]) * (double)c->count / count;

    for (int r = 0; r < count; r++) {
        const int64_t size = fast__coder_round_size(c->up, r);
        int64_t begin = fast__steady_now(actor);

        fast__coder_round_send(c->up, k->step, k->progress, r, x, c->value);
        FAST_TRY(fast__charge_codec(actor, "encode", begin, operations, 16 * (double)c->count,
                                    &f->encode_ns));
        FAST_TRY(fast_allreduce(k->group, c->value, size, k->deadline));
        begin = fast__steady_now(actor);
        fast__vector_scale(size, 1.0f / (float)c->size, c->value);
        fast__coder_round_take(c->up, r, c->value, x);
        fast__count(&f->bytes_out, size * (int64_t)sizeof *x);
        FAST_TRY(fast__charge_codec(actor, "decode", begin, operations / 2, 8 * (double)c->count,
                                    &f->decode_ns));
    }
    fast__count(&f->bytes_in, c->count * (int64_t)sizeof *x);
    fast__count(&f->bytes_dec, c->count * (int64_t)sizeof *x);
    fast__vector_scale(c->count, (float)c->size, x);
    return FAST_OK;
}

float *fast__coded_dense(const fast_coded *c)
{
    FAST_ASSERT(c->dense);
    return c->dense;
}

/* Entries of several blocks are those that are not 0 in the decoded vector. */
fast_err fast__coded_entries(fast_coded *c, int64_t first, int64_t count, const void *data,
                             size_t size, fast_sparse *out)
{
    FAST_ASSERT(c->index && out->size > 0);
    *out = (fast_sparse){ out->size, 0, out->size, c->index, c->value };
    if (fast__coder_block_count(c->up) == 1)
        return fast__coder_pairs(c->up, data, size, out->index, out->value, &out->count);
    FAST_TRY(
        fast__coder_decode_part(c->up, first, count, data, size, FAST_DECODE_SET, 1, c->dense));
    int64_t at, length;
    fast__coder_block_at(c->up, first, &at, &length);
    for (int64_t i = 0; i < out->size; i++)
        if (c->dense[at + i] != 0) {
            out->index[out->count] = (uint32_t)i;
            out->value[out->count++] = c->dense[at + i];
        }
    return FAST_OK;
}

/* The random numbers of rounding follow the number of the sum and the piece. */
fast_sparse_call fast__coded_call(const fast_coded *c, int64_t piece)
{
    const uint64_t sum = (uint64_t)fast__coder_encodings(c->up) << 16;
    FAST_ASSERT(piece >= 0);
    return (fast_sparse_call){ .plan = &c->plan,
                               .memory = piece == 0 ? c->memory : NULL,
                               .key = c->seed ^ (sum + (uint64_t)piece) * 0x9e3779b97f4a7c15u };
}

/* Sparse: streams of entries are merged. */
static fast_err sum_sparse(coded_call *k, float *x)
{
    FAST_ASSERT(k->c->up && k->c->index);
    fast_coded *c = k->c;
    fast_allgatherv_part *own = &c->parts[c->rank];
    fast_sparse s = { .size = c->count };

    FAST_TRY(encode(k, c->chains[0], c->up, c->count, x, own));
    const int64_t begin = fast__steady_now(k->group->actor);
    FAST_TRY(fast__coded_entries(c, 0, fast__coder_block_count(c->up), own->data, own->size, &s));
    FAST_TRY(fast__charge_codec(k->group->actor, "decode", begin,
                                SPARSE_OPERATIONS * (double)own->size, 3 * (double)own->size,
                                &c->figures->decode_ns));
    fast__count(&c->figures->bytes_dec, c->count * (int64_t)sizeof *x);
    const fast_sparse_call how = fast__coded_call(c, 0);
    return fast__allreduce_sparse(k->group, &s, &how, x, k->deadline);
}

/* Gather: encodings go around a ring, and all members decode all of them. */
static fast_err sum_gather(coded_call *k, float *x)
{
    FAST_ASSERT(k->c->up);
    fast_coded *c = k->c;
    const int64_t n = c->size, right = (c->rank + 1) % n, left = (c->rank + n - 1) % n;

    FAST_TRY(encode(k, c->chains[0], c->up, c->count, x, &c->parts[c->rank]));
    for (int64_t i = 0; i + 1 < n; i++) {
        FAST_TRY(send(k, right, PHASE_UP, &c->parts[(c->rank + n - i) % n]));
        FAST_TRY(receive(k, left, PHASE_UP, &c->parts[(c->rank + n - i - 1) % n]));
    }
    for (int64_t r = 0; r < n; r++)
        FAST_TRY(decode(k, c->chains[0], c->up, c->count, r ? FAST_DECODE_ADD : FAST_DECODE_SET, x,
                        &c->parts[r]));
    fast__coded_vote(c, c->count, x);
    return FAST_OK;
}

/* Send slices to their owners; sum this rank's own in place. */
static fast_err sum_own(coded_call *k, float *x, int64_t own, int64_t own_count)
{
    FAST_ASSERT(own_count >= 0);
    fast_coded *c = k->c;
    const int64_t n = c->size;

    for (int64_t i = 1; i <= n; i++) {
        const int64_t r = (c->rank + i) % n;
        const int64_t offset = c->cuts[r], count = c->cuts[r + 1] - offset;
        fast_allgatherv_part slice = { 0 };

        if (count == 0)
            continue;
        fast_err err = encode(k, c->chains[0], c->slices[r], count, x + offset, &slice);
        if (r == c->rank && !err)
            c->parts[r] = slice;
        else if (!err)
            err = send(k, r, PHASE_UP, &slice);
        if (r != c->rank || err)
            fast_buffer_free(slice.buffer);
        FAST_TRY(err);
    }
    if (own_count == 0)
        return FAST_OK;
    for (int64_t i = 1; i < n; i++)
        FAST_TRY(receive(k, (c->rank + i) % n, PHASE_UP, &c->parts[(c->rank + i) % n]));
    for (int64_t r = 0; r < n; r++)
        FAST_TRY(decode(k, c->chains[0], c->slices[c->rank], own_count,
                        r ? FAST_DECODE_ADD : FAST_DECODE_SET, x + own, &c->parts[r]));
    fast__coded_vote(c, own_count, x + own);
    return FAST_OK;
}

/* Striped: each member sums its slice and sends it to all. */
static fast_err sum_striped(coded_call *k, float *x)
{
    FAST_ASSERT(k->c->cuts && k->c->slices);
    fast_coded *c = k->c;
    const int64_t n = c->size;
    const int64_t own = c->cuts[c->rank], own_count = c->cuts[c->rank + 1] - own;

    FAST_TRY(sum_own(k, x, own, own_count));
    if (own_count > 0)
        FAST_TRY(
            encode(k, c->chains[1], c->downs[c->rank], own_count, x + own, &c->parts[c->rank]));
    for (int64_t i = 1; i < n && own_count > 0; i++)
        FAST_TRY(send(k, (c->rank + i) % n, PHASE_DOWN, &c->parts[c->rank]));
    for (int64_t i = 0; i < n; i++) {
        const int64_t r = (c->rank + i) % n;
        const int64_t offset = c->cuts[r], count = c->cuts[r + 1] - offset;

        if (count == 0)
            continue;
        if (i > 0)
            FAST_TRY(receive(k, r, PHASE_DOWN, &c->parts[r]));
        FAST_TRY(
            decode(k, c->chains[1], c->downs[r], count, FAST_DECODE_SET, x + offset, &c->parts[r]));
    }
    return FAST_OK;
}

/* The methods. */
static fast_err (*const sums[])(coded_call *k, float *x) = {
    [FAST_CODED_ROUNDS] = sum_rounds, [FAST_CODED_SPARSE] = sum_sparse,
    [FAST_CODED_SPLIT] = sum_sparse,  [FAST_CODED_BUTTERFLY] = sum_sparse,
    [FAST_CODED_GATHER] = sum_gather, [FAST_CODED_STRIPED] = sum_striped,
};

fast_err fast__coded_sum(fast_coded *c, fast_group *group, int64_t step, double progress, float *x,
                         int64_t deadline)
{
    coded_call k = { .collective = { .group = group, .doing = "coded sum", .element = 1 },
                     .c = c,
                     .group = group,
                     .step = step,
                     .progress = progress };

    FAST_ASSERT(x != NULL && group->size == c->size && group->rank == c->rank);
    if (c->size == 1) /* nothing is sent */
        return FAST_OK;
    FAST_TRY(fast__collective_begin(&k.collective));
    k.deadline = fast__deadline(group->actor, deadline);
    fast_err err = c->scales ? fast__scales_agree(c->scales, group, x, k.deadline) : FAST_OK;
    if (!err)
        err = sums[c->way](&k, x);
    /* EF21: x is the sum of the differences that were sent. It becomes that of the estimates, which
     * all members hold with the same bits. */
    if (!err && c->total) {
        fast__vector_add(c->count, x, c->total);
        fast__vector_copy(c->count, c->total, x);
        err = fast_charge(group->actor, (double)c->count, 12 * (double)c->count);
    }
    drop_parts(c);
    return err ? fast__group_fail(group, err) : FAST_OK;
}
