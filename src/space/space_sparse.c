/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates with many zeros: two parts, the places of what is not +0 (32 bits, rising) and the values
 * there: 8 bytes for each.
 *
 * With `cache` both ends remember the last list of places of a sender (Li et al. 2014, "key
 * caching"). A list that comes again is sent as its hash, 8 bytes in the first part, and then each
 * entry costs 4. The sender compares the lists themselves, so that two lists with one hash do no
 * harm; the owner refuses a hash that is not of the list it has. Only of the first tensor, and only
 * lists of more than two entries: there the two forms are told apart by the sizes of their parts.
 *
 * Memory: half a range at a sender, and at an owner for each sender, from the first list on.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "space/space.h"

#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

int64_t fast__space_entries(const float *x, int64_t count)
{
    int64_t entries = 0;
    for (int64_t i = 0; i < count; i++)
        entries += bits_of(x[i]) != 0;
    return entries;
}

/* The list of `lists` for `at` is there, with room for any list of the owner's range. */
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

static void remember(fast_space_places *p, const uint32_t *list, int64_t entries)
{
    const size_t size = (size_t)entries * sizeof *list;
    memcpy(p->list, list, size);
    p->count = entries;
    p->hash = fast__hash(list, size, (uint64_t)entries);
}

/* Are the places of the vector's entries those that were sent last? There are as many. */
static bool is_known(const fast_space_places *p, const float *x, int64_t entries)
{
    if (entries <= 2 || p->count != entries)
        return false;
    for (int64_t i = 0; i < entries; i++)
        if (bits_of(x[p->list[i]]) == 0)
            return false;
    return true;
}

fast_err fast__space_pack_entries(fast_space *space, fast_msg *msg, const float *x, int64_t count,
                                  int64_t entries)
{
    const int64_t owner = msg->words[FAST_SPACE_W_OWNER];
    const bool cached = space->cache && msg->words[FAST_SPACE_W_TENSOR] == 0;
    if (cached)
        FAST_TRY(reserve(space, &space->places_sent, space->owner_count, owner, owner));
    fast_space_places *last = cached ? &space->places_sent[owner] : NULL;
    const bool known = last && is_known(last, x, entries);
    fast_buffer *places, *values;
    FAST_TRY(fast_buffer_new(
        space->actor, known ? sizeof last->hash : (size_t)entries * sizeof(uint32_t), &places));
    const fast_err err = fast_buffer_new(space->actor, (size_t)entries * sizeof *x, &values);
    if (err) {
        fast_buffer_free(places);
        return err;
    }
    uint32_t *place = fast_buffer_data(places);
    float *value = fast_buffer_data(values);
    for (int64_t i = 0, used = 0; used < entries; i++) {
        FAST_ASSERT(i < count);
        if (bits_of(x[i]) == 0)
            continue;
        if (!known)
            place[used] = (uint32_t)i;
        value[used++] = x[i];
    }
    if (known)
        memcpy(place, &last->hash, sizeof last->hash);
    else if (last)
        remember(last, place, entries);
    fast_msg_add(msg, &places);
    fast_msg_add(msg, &values);
    return FAST_OK;
}

/* The places of a message: its own, or those that its sender sent last; NULL if there are none that
 * make sense for `entries` of `count`. */
static const uint32_t *places_of(fast_space *space, const fast_msg *msg, int64_t entries,
                                 int64_t count)
{
    const int64_t actors = fast_actor_count(space->actor);
    const uint32_t *place = fast_msg_data(msg, 0);
    const size_t size = msg->parts[0].size;
    const bool cached = space->cache && msg->words[FAST_SPACE_W_TENSOR] == 0;
    uint64_t hash;
    if (cached && size == sizeof hash && entries > 2) {
        const fast_space_places *p = space->places_got ? &space->places_got[msg->from] : NULL;
        memcpy(&hash, place, sizeof hash);
        return p && p->count == entries && p->hash == hash ? p->list : NULL;
    }
    if (size != (size_t)entries * sizeof *place || (uintptr_t)place % sizeof *place != 0)
        return NULL;
    for (int64_t i = 0; i < entries; i++)
        if (place[i] >= count || (i > 0 && place[i] <= place[i - 1]))
            return NULL;
    if (cached) {
        if (reserve(space, &space->places_got, actors, msg->from, space->me))
            return NULL;
        remember(&space->places_got[msg->from], place, entries);
    }
    return place;
}

bool fast__space_unpack_entries(fast_space *space, const fast_msg *msg, int64_t count,
                                const float **x_out)
{
    const size_t size = msg->parts[1].size;
    const float *value = fast_msg_data(msg, 1);
    const int64_t entries = (int64_t)(size / sizeof *value);
    if (!space->dense || size % sizeof *value != 0 || msg->declared != 0 || entries > count ||
        (uintptr_t)value % sizeof *value != 0)
        return false;
    const uint32_t *place = places_of(space, msg, entries, count);
    if (!place)
        return false;
    memset(space->dense, 0, (size_t)count * sizeof *space->dense);
    for (int64_t i = 0; i < entries; i++)
        space->dense[place[i]] = value[i];
    *x_out = space->dense;
    return true;
}

void fast__space_places_free(fast_space *space)
{
    for (int64_t i = 0; space->places_sent && i < space->owner_count; i++)
        fast__free(space->places_sent[i].list);
    for (int64_t i = 0; space->places_got && i < fast_actor_count(space->actor); i++)
        fast__free(space->places_got[i].list);
    fast__free(space->places_sent);
    fast__free(space->places_got);
}
