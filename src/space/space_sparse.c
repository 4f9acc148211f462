/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sparse form, for updates with many zeros. Two parts: the places of elements that are not +0
 * (32 bits each, ascending), and their values. An entry costs 8 bytes. An update of zeros has one
 * entry, a 0: it counts as an update all the same.
 *
 * With `cache` both ends remember the last list of places of a sender (Li et al. 2014, "key
 * caching"). A list that is sent again travels as its hash, 8 bytes in the first part, and then an
 * entry costs 4 bytes. The sender compares the lists themselves, so that two lists with one hash do
 * no harm; the owner refuses a hash that is not of the list it has. This is done for the first
 * tensor, and for lists of more than two entries: there the sizes of the parts tell a list from a
 * hash.
 *
 * Stages: the stages of the codec's chain (lz4, zstd, entropy) pack both parts, whose bytes before
 * the packing (codec/stages.c) are
 *
 *     part 0   0, then the gaps between places, of variable length (codec/select.h)
 *              or 1, then the hash of the list that was sent last, 8 bytes
 *     part 1   the values
 *
 * Then any number of entries is sent in this form, since places that follow one another are packed
 * to almost nothing, and the owner is charged for the unpacking. Only with `cache`: without it such
 * a chain is the encoded form.
 *
 * Memory: half a range at a sender, and at an owner for each sender, from the first list on.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "codec/select.h"
#include "codec/stages.h"
#include "space/space_form.h"
#include "tensor/vector.h"

#include <string.h>

/* Stages over the parts of a message. */
typedef struct fast_space_staging {
    fast_stages stages;      /* their memory is for a part of the largest range */
    const fast_chain *chain; /* of these stages; borrowed */
    uint32_t *places;        /* at an owner: those of the last message */
    float *values;           /* at an owner: those of the last message */
} fast_space_staging;

/* Return the bits of a float: -0 is an entry, +0 is not. */
static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

int64_t fast__space_count_nonzero(const float *x, int64_t count)
{
    FAST_ASSERT(count == 0 || x != NULL);
    const float *at = fast__map(x, count, FAST_ACCESS_READ);
    int64_t entries = 0;
    for (int64_t i = 0; i < count; i++)
        entries += bits_of(at[i]) != 0;
    fast__unmap(x, count, FAST_ACCESS_READ);
    return entries;
}

/* Make room in list `at` of `lists` for any list of places of the owner's range. */
static fast_err reserve(const fast_space *space, fast_space_places **lists, int64_t list_count,
                        int64_t at, int64_t owner)
{
    int64_t offset, count;
    FAST_ASSERT(at >= 0 && at < list_count);
    fast__space_range(space, owner, 0, &offset, &count);
    if (!*lists)
        FAST_TRY(fast__alloc("lists of places", list_count, sizeof **lists, lists));
    fast_space_places *p = &(*lists)[at];
    return p->list ? FAST_OK : fast__alloc("a list of places", count, sizeof *p->list, &p->list);
}

/* Store the list of places that was sent or received last. */
static void remember(fast_space_places *p, const uint32_t *list, int64_t entries)
{
    FAST_ASSERT(p->list && entries >= 0);
    const size_t size = (size_t)entries * sizeof *list;
    memcpy(p->list, list, size);
    p->count = entries;
    p->hash = fast__hash(list, size, (uint64_t)entries);
}

/* Return true if the places of x's entries are those that were sent last. */
static bool is_known(const fast_space_places *p, const float *x, int64_t count, int64_t entries)
{
    FAST_ASSERT(entries > 0);
    if (entries <= 2 || p->count != entries)
        return false;
    const float *at = fast__map(x, count, FAST_ACCESS_READ);
    int64_t i = 0;
    while (i < entries && bits_of(at[p->list[i]]) != 0)
        i++;
    fast__unmap(x, count, FAST_ACCESS_READ);
    return i == entries;
}

/* Return the floats of the largest range of the first tensor: memory of the stages serves the parts
 * of any owner's message. */
static int64_t largest_range(const fast_space *space)
{
    int64_t largest = 0;
    FAST_ASSERT(space->map.owner_count > 0);
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        int64_t offset, count;
        fast__space_range(space, owner, 0, &offset, &count);
        largest = count > largest ? count : largest;
    }
    return largest;
}

fast_err fast__space_sparse_stage(fast_space *space, const fast_chain *chain)
{
    const int64_t count = largest_range(space);
    fast_space_staging *g = NULL;
    FAST_ASSERT(!space->sparse.staging && count > 0);
    if (fast__chain_only_selects(chain)) /* it has no stages */
        return FAST_OK;
    FAST_TRY(fast__alloc("stages of a space", 1, sizeof *g, &g));
    space->sparse.staging = g;
    g->chain = chain;
    FAST_TRY(fast__stages_init(chain, 1 + fast__gaps_bound(count), &g->stages));
    if (space->map.me < 0)
        return FAST_OK;
    FAST_TRY(fast__alloc("places of an update", count, sizeof *g->places, &g->places));
    return fast__alloc("values of an update", count, sizeof *g->values, &g->values);
}

/* Return the stages of an operation's form; NULL: its parts are not packed. Only the first tensor
 * has a codec. */
static fast_space_staging *staging_of(const fast_space *space, int64_t tensor)
{
    FAST_ASSERT(tensor >= 0);
    return tensor == 0 ? space->sparse.staging : NULL;
}

/* More entries than this are not sent without stages: the dense form is as short. */
static size_t sparse_bound(const fast_space *space, const fast_space_operation *op)
{
    const fast_space_staging *g = staging_of(space, op->tensor);
    return g ? 2 * (1 + g->stages.room) : (size_t)op->count * sizeof *op->x;
}

/* Return true if lists of places of this tensor are remembered. */
static bool is_cached(const fast_space *space, int64_t tensor)
{
    return space->sparse.cache && tensor == 0;
}

/* Write the values of entries and, unless `place` is NULL, their places: one pass over the range,
 * which may be on a device. */
static void list_entries(const fast_space_operation *op, uint32_t *place, float *value)
{
    const float *x = fast__map(op->x, op->count, FAST_ACCESS_READ);
    FAST_ASSERT(value != NULL);
    if (op->entries == 1) { /* which may be the 0 of an empty update */
        value[0] = 0;
        if (place)
            place[0] = 0;
    }
    for (int64_t i = 0, used = 0; used < op->entries && i < op->count; i++) {
        if (bits_of(x[i]) == 0)
            continue;
        if (place)
            place[used] = (uint32_t)i;
        value[used++] = x[i];
    }
    fast__unmap(op->x, op->count, FAST_ACCESS_READ);
}

/* Pack `size` bytes, which are in the first of the stages' blocks, to a new buffer, of which
 * *size_out bytes are used. FAST_ENOMEM. */
static fast_err pack_part(fast_space *space, size_t size, fast_buffer **out, size_t *size_out)
{
    fast_stages *stages = &space->sparse.staging->stages;
    FAST_ASSERT(size <= stages->plain);
    FAST_TRY(fast_buffer_new(space->actor, 1 + stages->room, out));
    *size_out = fast__stages_pack(stages, size, fast_buffer_data(*out));
    return FAST_OK;
}

/* Pack both parts by the stages; `last` has the places that were sent before. The values are
 * written first, so that the places can be remembered with them. */
static fast_err staged_pack(fast_space *space, const fast_space_operation *op,
                            fast_space_places *last, bool known, fast_space_packed *out)
{
    fast_space_staging *g = space->sparse.staging;
    const int64_t begin = fast__steady_now(space->actor), entries = op->entries;
    FAST_ASSERT(last != NULL);
    list_entries(op, known ? NULL : last->list, (float *)(void *)g->stages.bytes[0]);
    FAST_TRY(pack_part(space, (size_t)entries * sizeof(float), &out->buffers[1], &out->sizes[1]));
    if (!known) {
        last->count = entries;
        last->hash =
            fast__hash(last->list, (size_t)entries * sizeof *last->list, (uint64_t)entries);
    }
    uint8_t *list = g->stages.bytes[0];
    size_t size = sizeof last->hash;
    list[0] = known;
    /* A list that the owner has is 9 bytes; new ones are mostly gaps of a byte. */
    if (known)
        memcpy(list + 1, &last->hash, size);
    else
        size = fast__gaps_put(entries, last->list, NULL, list + 1);
    const fast_err err = pack_part(space, 1 + size, &out->buffers[0], &out->sizes[0]);
    if (err) {
        fast_buffer_free(out->buffers[1]);
        out->buffers[1] = NULL;
        return err;
    }
    /* The selection has counted the floats before, and its own time. */
    size = out->sizes[0] + out->sizes[1];
    fast__count(&fast__space_counts(space)->bytes_out, (int64_t)size);
    return fast__charge_encode(space->actor, g->chain, begin, op->count, size,
                               fast__space_counts(space));
}

/* One pass over the range writes both parts. */
static fast_err sparse_pack(fast_space *space, const fast_space_operation *op,
                            fast_space_packed *out)
{
    FAST_ASSERT(op->x);
    const int64_t entries = op->entries;
    const bool cached = is_cached(space, op->tensor);
    FAST_ASSERT(entries > 0);
    if (cached)
        FAST_TRY(reserve(space, &space->sparse.sent, space->map.owner_count, op->owner, op->owner));
    fast_space_places *last = cached ? &space->sparse.sent[op->owner] : NULL;
    const bool known = last && is_known(last, op->x, op->count, entries);
    if (staging_of(space, op->tensor))
        return staged_pack(space, op, last, known, out);
    FAST_ASSERT(entries < op->count / 2);
    out->sizes[0] = known ? sizeof last->hash : (size_t)entries * sizeof(uint32_t);
    out->sizes[1] = (size_t)entries * sizeof *op->x;
    FAST_TRY(fast_buffer_new(space->actor, out->sizes[0], &out->buffers[0]));
    const fast_err err = fast_buffer_new(space->actor, out->sizes[1], &out->buffers[1]);
    if (err) {
        fast_buffer_free(out->buffers[0]);
        return err;
    }
    uint32_t *place = fast_buffer_data(out->buffers[0]);
    list_entries(op, known ? NULL : place, fast_buffer_data(out->buffers[1]));
    if (known)
        memcpy(place, &last->hash, sizeof last->hash);
    else if (last)
        remember(last, place, entries);
    return FAST_OK;
}

/* Both parts of a message, unpacked. */
typedef struct sparse_parts {
    const uint32_t *place; /* places, or the hash of a list */
    size_t place_size;     /* bytes of place */
    const float *value;    /* values */
    size_t value_size;     /* bytes of value */
} sparse_parts;

/* Unpack the values; false if they make no sense. */
static bool unpack_values(fast_space_staging *g, const fast_msg *msg, size_t room,
                          sparse_parts *out)
{
    const uint8_t *in = fast_msg_data(msg, 1);
    size_t size = msg->parts[1].size;
    FAST_ASSERT(g->values != NULL);
    if (fast__stages_unpack(&g->stages, &in, &size) || size > room)
        return false;
    memcpy(g->values, in, size);
    out->value = g->values;
    out->value_size = size;
    return true;
}

/* Unpack the places of as many values, or a hash; false if they make no sense. */
static bool unpack_places(fast_space_staging *g, const fast_msg *msg, int64_t count,
                          sparse_parts *out)
{
    const uint8_t *in = fast_msg_data(msg, 0);
    const int64_t entries = (int64_t)(out->value_size / sizeof *out->value);
    size_t size = msg->parts[0].size;
    FAST_ASSERT(entries <= count);
    if (fast__stages_unpack(&g->stages, &in, &size) || size < 1 || *in > 1)
        return false;
    const uint8_t *at = in + 1, *end = in + size;
    const bool hash = *in == 1;
    /* places_of() tells a hash by its size: lists of two entries, which have it too, are never
     * sent as a hash. */
    out->place = g->places;
    out->place_size = hash ? sizeof(uint64_t) : (size_t)entries * sizeof *g->places;
    if (hash && (size_t)(end - at) == sizeof(uint64_t) && entries > 2)
        memcpy(g->places, at, sizeof(uint64_t));
    else if (hash || !fast__gaps_get(&at, end, count, entries, g->places, NULL) || at != end)
        return false;
    return true;
}

/* Find the parts of a message, unpacked by the stages if there are any; false if they make no sense
 * as bytes. Whether the places fit the values is checked by places_of(). */
static bool open_parts(fast_space *space, const fast_msg *msg, const fast_space_operation *op,
                       sparse_parts *out)
{
    fast_space_staging *g = staging_of(space, op->tensor);
    const size_t room = (size_t)op->count * sizeof(float);
    FAST_ASSERT(msg->part_count == 2);
    *out = (sparse_parts){ fast_msg_data(msg, 0), msg->parts[0].size, fast_msg_data(msg, 1),
                           msg->parts[1].size };
    if (!g)
        return (uintptr_t)out->value % sizeof *out->value == 0 &&
               (uintptr_t)out->place % sizeof *out->place == 0;
    const int64_t begin = fast__steady_now(space->actor);
    /* Places last: they must be as many as the values. Both are copied, since stages lend their
     * memory until the next call, and parts of a message have any alignment. */
    const bool sane =
        g->values && unpack_values(g, msg, room, out) && unpack_places(g, msg, op->count, out);
    fast__count(&fast__space_counts(space)->decode_ns, fast__steady_now(space->actor) - begin);
    return sane;
}

/* Return the places of a message: its own list, or the one that its sender sent last; NULL if
 * that list does not fit `entries` of `op->count` elements. */
static const uint32_t *places_of(fast_space *space, const fast_msg *msg, const sparse_parts *parts,
                                 int64_t entries, const fast_space_operation *op)
{
    FAST_ASSERT(entries >= 0 && entries <= op->count);
    const int64_t actors = fast_actor_count(space->actor);
    const uint32_t *place = parts->place;
    const size_t size = parts->place_size;
    const bool cached = is_cached(space, op->tensor);
    uint64_t hash;
    if (cached && size == sizeof hash && entries > 2) {
        const fast_space_places *p =
            space->sparse.received ? &space->sparse.received[msg->from] : NULL;
        memcpy(&hash, place, sizeof hash);
        return p && p->count == entries && p->hash == hash ? p->list : NULL;
    }
    if (size != (size_t)entries * sizeof *place)
        return NULL;
    for (int64_t i = 0; i < entries; i++)
        if (place[i] >= op->count || (i > 0 && place[i] <= place[i - 1]))
            return NULL;
    if (cached) {
        if (reserve(space, &space->sparse.received, actors, msg->from, space->map.me))
            return NULL;
        remember(&space->sparse.received[msg->from], place, entries);
    }
    return place;
}

/* Unpacked to a dense range: the owner's function sees a whole update. */
static bool sparse_unpack(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    sparse_parts parts;
    FAST_ASSERT(op->count > 0);
    /* The owner has room for one of its own ranges. */
    if (!space->dense || msg->declared != 0 || !open_parts(space, msg, op, &parts))
        return false;
    const float *value = parts.value;
    const int64_t entries = (int64_t)(parts.value_size / sizeof *value);
    if (parts.value_size % sizeof *value != 0 || entries > op->count)
        return false;
    const uint32_t *place = places_of(space, msg, &parts, entries, op);
    if (!place)
        return false;
    float *dense = fast__map(space->dense, op->count, FAST_ACCESS_WRITE);
    memset(dense, 0, (size_t)op->count * sizeof *dense);
    for (int64_t i = 0; i < entries; i++)
        dense[place[i]] = value[i];
    fast__unmap(space->dense, op->count, FAST_ACCESS_WRITE);
    op->x = space->dense;
    return true;
}

/* Stages are paid for. */
static fast_err sparse_cost(fast_space *space, const fast_msg *msg, const fast_space_operation *op)
{
    FAST_ASSERT(msg->part_count == 2);
    return staging_of(space, op->tensor) ? fast__space_pay(space, FAST_SPACE_UP, op->owner,
                                                           msg->parts[0].size + msg->parts[1].size)
                                         : FAST_OK;
}

const fast_space_form fast__space_form_sparse = {
    .name = "sparse",
    .bound = sparse_bound,
    .pack = sparse_pack,
    .unpack = sparse_unpack,
    .cost = sparse_cost,
};

void fast__space_sparse_free(fast_space *space)
{
    fast_space_sparse *s = &space->sparse;
    for (int64_t i = 0; s->sent && i < space->map.owner_count; i++)
        fast__free(s->sent[i].list);
    for (int64_t i = 0; s->received && i < fast_actor_count(space->actor); i++)
        fast__free(s->received[i].list);
    fast__free(s->sent);
    fast__free(s->received);
    if (!s->staging)
        return;
    fast__stages_fini(&s->staging->stages);
    fast__free(s->staging->places);
    fast__free(s->staging->values);
    fast__free(s->staging);
    s->staging = NULL;
}
