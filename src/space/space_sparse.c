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
 * With `cache` and lossless stages in the chain (Li et al.'s compression of messages whose keys are
 * cached) each part is packed by the stages:
 *
 *     part 0   the gaps between the places, which repeat more than places do; or the hash
 *     part 1   the values
 *
 * Then all updates of the first tensor travel in this form, also those with few zeros, so that a
 * list which is sent again costs nothing however long it is. Packing is charged as two passes over
 * the bytes.
 *
 * Memory: half a range at a sender, and at an owner for each sender, from the first list on.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "space/space_form.h"
#include "tensor/vector.h"

#include <string.h>

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

/* Return true if the parts of updates of this tensor are packed by stages. */
static bool is_packed(const fast_space *space, int64_t tensor)
{
    return space->sparse.packers[0] && tensor == 0;
}

/* More entries than this are not packed: the dense form is as short. */
static size_t sparse_bound(const fast_space *space, const fast_space_operation *op)
{
    if (is_packed(space, op->tensor))
        return fast__packer_bound(space->sparse.packers[0]) +
               fast__packer_bound(space->sparse.packers[1]);
    return (size_t)op->count * sizeof *op->x;
}

/* Replace places by their distances, or distances by places; sums that overflow do not ascend. */
static void to_gaps(uint32_t *list, size_t count)
{
    FAST_ASSERT(count == 0 || list);
    for (size_t i = count; i-- > 1;)
        list[i] -= list[i - 1];
}
static void to_places(uint32_t *list, size_t count)
{
    FAST_ASSERT(count == 0 || list);
    for (size_t i = 1; i < count; i++)
        list[i] += list[i - 1];
}

/* Replace both parts by their packed bytes, and charge for it: a pass to read and one to write. */
static fast_err pack_parts(fast_space *space, fast_space_packed *out)
{
    const double before = (double)(out->sizes[0] + out->sizes[1]);

    FAST_ASSERT(space->sparse.packers[0] && space->sparse.packers[1]);
    for (int i = 0; i < 2; i++) {
        fast_packer *packer = space->sparse.packers[i];
        fast_buffer *packed;

        FAST_TRY(fast_buffer_new(space->actor, fast__packer_bound(packer), &packed));
        out->sizes[i] = fast__packer_pack(packer, fast_buffer_data(out->buffers[i]), out->sizes[i],
                                          fast_buffer_data(packed));
        fast_buffer_free(out->buffers[i]);
        out->buffers[i] = packed;
    }
    fast__space_count_sent(space, out->sizes[0] + out->sizes[1]);
    return fast_charge(space->actor, 0, 2 * before);
}

/* Return true if lists of places of this tensor are remembered. */
static bool is_cached(const fast_space *space, int64_t tensor)
{
    return space->sparse.cache && tensor == 0;
}

/* One pass over the range writes both parts. */
static fast_err sparse_pack(fast_space *space, const fast_space_operation *op,
                            fast_space_packed *out)
{
    FAST_ASSERT(op->x);
    const int64_t entries = op->entries;
    const bool cached = is_cached(space, op->tensor);
    FAST_ASSERT(entries > 0 && (entries < op->count / 2 || is_packed(space, op->tensor)));
    if (cached)
        FAST_TRY(reserve(space, &space->sparse.sent, space->map.owner_count, op->owner, op->owner));
    fast_space_places *last = cached ? &space->sparse.sent[op->owner] : NULL;
    const bool known = last && is_known(last, op->x, op->count, entries);
    out->sizes[0] = known ? sizeof last->hash : (size_t)entries * sizeof(uint32_t);
    out->sizes[1] = (size_t)entries * sizeof *op->x;
    FAST_TRY(fast_buffer_new(space->actor, out->sizes[0], &out->buffers[0]));
    const fast_err err = fast_buffer_new(space->actor, out->sizes[1], &out->buffers[1]);
    if (err) {
        fast_buffer_free(out->buffers[0]);
        return err;
    }
    uint32_t *place = fast_buffer_data(out->buffers[0]);
    float *value = fast_buffer_data(out->buffers[1]);
    if (entries == 1) { /* which may be the 0 of an empty update */
        place[0] = 0;
        value[0] = 0;
    }
    const float *x = fast__map(op->x, op->count, FAST_ACCESS_READ);
    for (int64_t i = 0, used = 0; used < entries && i < op->count; i++) {
        if (bits_of(x[i]) == 0)
            continue;
        if (!known)
            place[used] = (uint32_t)i;
        value[used++] = x[i];
    }
    fast__unmap(op->x, op->count, FAST_ACCESS_READ);
    if (known)
        memcpy(place, &last->hash, sizeof last->hash);
    else if (last)
        remember(last, place, entries);
    if (is_packed(space, op->tensor) && !known)
        to_gaps(place, (size_t)entries);
    const fast_err packed = is_packed(space, op->tensor) ? pack_parts(space, out) : FAST_OK;
    for (int i = 0; packed && i < 2; i++)
        fast_buffer_free(out->buffers[i]);
    return packed;
}

/* Return the places of a message: its own list, or the one that its sender sent last; NULL if
 * that list does not fit `entries` of `op->count` elements. */
static const uint32_t *places_of(fast_space *space, const uint32_t *place, size_t size,
                                 int64_t entries, const fast_space_operation *op)
{
    FAST_ASSERT(entries >= 0 && entries <= op->count);
    const int64_t actors = fast_actor_count(space->actor);
    const bool cached = is_cached(space, op->tensor);
    uint64_t hash;
    if (cached && size == sizeof hash && entries > 2) {
        const fast_space_places *p =
            space->sparse.received ? &space->sparse.received[op->from] : NULL;
        memcpy(&hash, place, sizeof hash);
        return p && p->count == entries && p->hash == hash ? p->list : NULL;
    }
    if (size != (size_t)entries * sizeof *place || (uintptr_t)place % sizeof *place != 0)
        return NULL;
    for (int64_t i = 0; i < entries; i++)
        if (place[i] >= op->count || (i > 0 && place[i] <= place[i - 1]))
            return NULL;
    if (cached) {
        if (reserve(space, &space->sparse.received, actors, op->from, space->map.me))
            return NULL;
        remember(&space->sparse.received[op->from], place, entries);
    }
    return place;
}

/* Set the parts of a message, as they are or unpacked; false if they make no sense. */
static bool unpack_parts(const fast_space *space, const fast_msg *msg,
                         const fast_space_operation *op, const void *parts[2], size_t sizes[2])
{
    void *unpacked[2];
    FAST_ASSERT(msg->part_count == 2);
    for (int i = 0; i < 2; i++) {
        parts[i] = fast_msg_data(msg, i);
        sizes[i] = msg->parts[i].size;
    }
    if (!is_packed(space, op->tensor))
        return true;
    for (int i = 0; i < 2; i++) {
        if (fast__packer_unpack(space->sparse.packers[i], parts[i], sizes[i], &unpacked[i],
                                &sizes[i]))
            return false;
        parts[i] = unpacked[i];
    }
    /* A list has as many bytes as the values. A hash has less: it is of more than two places. */
    if (sizes[0] == sizes[1])
        to_places(unpacked[0], sizes[0] / sizeof(uint32_t));
    return true;
}

/* Unpacked to a dense range: the owner's function sees a whole update. */
static bool sparse_unpack(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(msg->part_count == 2);
    const void *parts[2];
    size_t sizes[2];
    if (!unpack_parts(space, msg, op, parts, sizes))
        return false;
    const size_t size = sizes[1];
    const float *value = parts[1];
    const int64_t entries = (int64_t)(size / sizeof *value);
    /* The owner has room for one of its own ranges. */
    if (!space->dense || size % sizeof *value != 0 || msg->declared != 0 || entries > op->count ||
        (uintptr_t)value % sizeof *value != 0)
        return false;
    const uint32_t *place = places_of(space, parts[0], sizes[0], entries, op);
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

/* Unpacking by stages costs a pass; places and values as they are cost nothing. */
static fast_err sparse_cost(fast_space *space, const fast_msg *msg, const fast_space_operation *op)
{
    FAST_ASSERT(msg->part_count == 2);
    return is_packed(space, op->tensor)
               ? fast_charge(space->actor, 0,
                             2.0 * (double)(msg->parts[0].size + msg->parts[1].size))
               : FAST_OK;
}

const fast_space_form fast__space_form_sparse = {
    .name = "sparse",
    .cost = sparse_cost,
    .bound = sparse_bound,
    .pack = sparse_pack,
    .unpack = sparse_unpack,
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
    for (int i = 0; i < 2; i++)
        fast__packer_free(s->packers[i]);
}
