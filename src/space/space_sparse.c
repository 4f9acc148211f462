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

/* More entries than this are not packed: the dense form is as short. */
static size_t sparse_bound(const fast_space *space, const fast_space_operation *op)
{
    (void)space;
    return (size_t)op->count * sizeof *op->x;
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
    FAST_ASSERT(entries > 0 && entries < op->count / 2);
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
    return FAST_OK;
}

/* Return the places of a message: its own list, or the one that its sender sent last; NULL if
 * that list does not fit `entries` of `op->count` elements. */
static const uint32_t *places_of(fast_space *space, const fast_msg *msg, int64_t entries,
                                 const fast_space_operation *op)
{
    FAST_ASSERT(entries >= 0 && entries <= op->count);
    const int64_t actors = fast_actor_count(space->actor);
    const uint32_t *place = fast_msg_data(msg, 0);
    const size_t size = msg->parts[0].size;
    const bool cached = is_cached(space, op->tensor);
    uint64_t hash;
    if (cached && size == sizeof hash && entries > 2) {
        const fast_space_places *p =
            space->sparse.received ? &space->sparse.received[msg->from] : NULL;
        memcpy(&hash, place, sizeof hash);
        return p && p->count == entries && p->hash == hash ? p->list : NULL;
    }
    if (size != (size_t)entries * sizeof *place || (uintptr_t)place % sizeof *place != 0)
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
    const size_t size = msg->parts[1].size;
    const float *value = fast_msg_data(msg, 1);
    const int64_t entries = (int64_t)(size / sizeof *value);
    FAST_ASSERT(msg->part_count == 2);
    /* The owner has room for one of its own ranges. */
    if (!space->dense || size % sizeof *value != 0 || msg->declared != 0 || entries > op->count ||
        (uintptr_t)value % sizeof *value != 0)
        return false;
    const uint32_t *place = places_of(space, msg, entries, op);
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

const fast_space_form fast__space_form_sparse = {
    .name = "sparse",
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
}
