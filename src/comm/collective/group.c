/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups: the members, their order and their generation. A list of consecutive actors, as roles
 * are, is stored as its first one: a thousand simulated members then need no thousand lists.
 *
 * The key of a group is a hash of its members, its generation, and how many groups of both its
 * actor has made before: all members make them in the same order. It is part of all tags, so that
 * groups that overlap, or are the same twice, do not take each other's messages. Making a group
 * raises its actor's fence: what older generations still send is dropped and counted when it
 * arrives.
 *
 * After a collective failed, members do not agree any more on what was sent and received. The group
 * then refuses every call, with the first failure's code, until its owner makes a new one.
 *
 * Cost: making a group sends nothing. It takes O(members) time, and memory for the list of members
 * where they are not consecutive.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "comm/allreduces.h"

#include <string.h>

/* Return true if the list is first, first + 1, ... */
static bool is_consecutive(const int64_t *ids, int64_t count)
{
    FAST_ASSERT(ids && count > 0);
    for (int64_t i = 1; i < count; i++)
        if (ids[i] != ids[0] + i)
            return false;
    return true;
}

/* Refuse unknown actors and ones that are named twice; *rank_out is this actor's rank. */
static fast_err check_members(const fast_actor *actor, const int64_t *ids, int64_t count,
                              int64_t *rank_out)
{
    FAST_ASSERT(rank_out);
    const int64_t actors = fast_actor_count(actor);
    uint64_t *seen;
    int64_t rank = -1;
    fast_err err = FAST_OK;
    FAST_TRY(fast__alloc("a group's members", actors / 64 + 1, sizeof *seen, &seen));
    for (int64_t i = 0; i < count && !err; i++) {
        if (ids[i] < 0 || ids[i] >= actors) {
            err = fast__fail(FAST_EINVAL, "member %lld of the group is actor %lld, of %lld actors",
                             (long long)i, (long long)ids[i], (long long)actors);
            break;
        }
        const uint64_t bit = (uint64_t)1 << (ids[i] % 64);
        if (seen[ids[i] / 64] & bit)
            err = fast__fail(FAST_EINVAL, "the group names actor %lld twice", (long long)ids[i]);
        seen[ids[i] / 64] |= bit;
        if (ids[i] == fast_actor_id(actor))
            rank = i;
    }
    fast__free(seen);
    if (!err && rank < 0)
        err = fast__fail(FAST_EINVAL, "actor %lld makes a group that it is not a member of",
                         (long long)fast_actor_id(actor));
    if (!err)
        *rank_out = rank;
    return err;
}

/* Find the actor's row for this key; a new one replaces one of a generation before the fence. */
static fast_err row_of(fast_actor *actor, uint64_t key, uint32_t generation, fast_made **out)
{
    FAST_ASSERT(generation > 0);
    fast_made *old = NULL;
    for (fast_made *made = actor->made; made; made = made->next) {
        if (made->key == key && made->generation == generation) {
            *out = made;
            return FAST_OK;
        }
        if (made->generation < actor->mailbox.fence)
            old = made;
    }
    if (!old) {
        FAST_TRY(fast__alloc("a group", 1, sizeof *old, &old));
        old->next = actor->made;
        actor->made = old;
    }
    old->key = key;
    old->generation = generation;
    old->count = 0;
    *out = old;
    return FAST_OK;
}

/* Set the key of a group: a hash of its members, its generation, and the number of groups with both
 * that were made before. */
static fast_err key_of(fast_actor *actor, const int64_t *ids, int64_t first, int64_t count,
                       uint32_t generation, uint64_t *out)
{
    FAST_ASSERT(ids || count > 0);
    const int64_t shape[] = { first, count };
    /* Seeds differ: the list {0, 2} has the bytes of the two actors from 0 on. */
    const uint64_t key = ids ? fast__hash(ids, (size_t)count * sizeof *ids, ~(uint64_t)generation)
                             : fast__hash(shape, sizeof shape, generation);
    fast_made *made;
    FAST_TRY(row_of(actor, key, generation, &made));
    *out = fast__hash(&made->count, sizeof made->count, key);
    made->count++;
    return FAST_OK;
}

/* Make the group of ids[0 .. count), or of first, first + 1, ... where ids is NULL. The caller has
 * checked the members. */
static fast_err make(fast_actor *actor, const int64_t *ids, int64_t first, int64_t count,
                     int64_t rank, uint32_t generation, fast_group **out)
{
    fast_group *group;
    FAST_ASSERT(rank >= 0 && rank < count);
    FAST_TRY(fast__alloc("a group", 1, sizeof *group, &group));
    fast_err err = FAST_OK;
    if (ids) {
        err = fast__alloc("a group's members", count, sizeof *ids, &group->ids);
        if (err)
            goto undo_group;
        memcpy(group->ids, ids, (size_t)count * sizeof *ids);
    }
    err = key_of(actor, ids, first, count, generation, &group->key);
    if (err)
        goto undo_ids;
    group->actor = actor;
    group->first = first;
    group->size = count;
    group->rank = rank;
    group->generation = generation;
    group->algorithm = -1;
    fast__mailbox_fence(actor, generation);
    *out = group;
    return FAST_OK;

undo_ids:
    fast__free(group->ids);
undo_group:
    fast__free(group);
    return err;
}

/* All members call it with the same list, in the same order of calls. */
fast_err fast_group_new(fast_actor *actor, const int64_t *ids, int64_t count, uint32_t generation,
                        fast_group **out)
{
    FAST_ASSERT(actor != NULL && out != NULL);
    if (!ids || count < 1)
        return fast__fail(FAST_EINVAL, "a group has at least 1 member, not %lld", (long long)count);
    if (generation < 1)
        return fast__fail(FAST_EINVAL, "generations of groups begin at 1");
    int64_t rank = 0;
    FAST_TRY(check_members(actor, ids, count, &rank));
    return make(actor, is_consecutive(ids, count) ? NULL : ids, ids[0], count, rank, generation,
                out);
}

/* Roles have consecutive actors: no list is stored. */
fast_err fast_group_all(fast_actor *actor, const char *role, fast_group **out)
{
    FAST_ASSERT(actor != NULL && out != NULL);
    const int64_t first = role ? fast_actor_first(actor, role) : 0;
    const int64_t count = role ? fast_actor_size(actor, role) : fast_actor_count(actor);
    const int64_t rank = fast_actor_id(actor) - first;
    if (count < 1 || first < 0)
        return fast__fail(FAST_EINVAL, "no actor has the role \"%s\"", role);
    if (rank < 0 || rank >= count)
        return fast__fail(FAST_EINVAL, "actor %lld makes the group of role \"%s\" and is a \"%s\"",
                          (long long)fast_actor_id(actor), role,
                          fast_actor_role(actor, fast_actor_id(actor)));
    return make(actor, NULL, first, count, rank, 1, out);
}

/* Requests and the state of algorithms go first: they borrow the group. */
void fast_group_free(fast_group *group)
{
    if (!group)
        return;
    fast__group_free_requests(group);
    for (int i = 0; fast__allreduces[i]; i++)
        if (group->slots[i].open && fast__allreduces[i]->close)
            fast__allreduces[i]->close(group, group->slots[i].state);
    fast__free(group->cost);
    fast__free(group->ids);
    fast__free(group);
}

int64_t fast_group_rank(const fast_group *group)
{
    FAST_ASSERT(group != NULL);
    return group->rank;
}

int64_t fast_group_size(const fast_group *group)
{
    FAST_ASSERT(group != NULL);
    return group->size;
}

int64_t fast_group_member(const fast_group *group, int64_t rank)
{
    FAST_ASSERT(group != NULL);
    FAST_ASSERT(rank >= 0 && rank < group->size);
    return group->ids ? group->ids[rank] : group->first + rank;
}

uint32_t fast_group_generation(const fast_group *group)
{
    FAST_ASSERT(group != NULL);
    return group->generation;
}

/* The same cut as in reduce-scatter and allgather. */
void fast_group_range(const fast_group *group, int64_t count, int64_t rank, int64_t *offset_out,
                      int64_t *count_out)
{
    FAST_ASSERT(group != NULL && offset_out != NULL && count_out != NULL);
    fast__range(count, group->size, rank, offset_out, count_out);
}

/* Repeats the first failure with its detail, so that the cause is not lost behind later calls. */
fast_err fast__group_check(const fast_group *group)
{
    FAST_ASSERT(group);
    if (group->err == FAST_OK)
        return FAST_OK;
    return fast__fail(group->err,
                      "generation %u of this group is unusable, make a new one with the next; it "
                      "failed first with: %s",
                      (unsigned)group->generation, group->detail);
}

/* Only the first failure is stored: later ones are its consequences. */
fast_err fast__group_fail(fast_group *group, fast_err err)
{
    FAST_ASSERT(err != FAST_OK);
    if (group->err == FAST_OK) {
        const char *detail = fast_error_detail();
        size_t size = strlen(detail);
        if (size >= sizeof group->detail)
            size = sizeof group->detail - 1;
        memcpy(group->detail, detail, size);
        group->detail[size] = 0;
        group->err = err;
    }
    return err;
}

fast_err fast__group_check_rank(const fast_group *group, const char *what, int64_t rank)
{
    FAST_ASSERT(group && what);
    if (rank >= 0 && rank < group->size)
        return FAST_OK;
    return fast__fail(FAST_EINVAL, "%s %lld is not a rank of a group of %lld", what,
                      (long long)rank, (long long)group->size);
}

/* INT64_MAX / 16 leaves room for bytes of floats and for sums over members. */
fast_err fast__group_check_count(const char *doing, int64_t count)
{
    FAST_ASSERT(doing);
    if (count >= 0 && count <= INT64_MAX / 16)
        return FAST_OK;
    return fast__fail(FAST_EINVAL, "%s of %lld elements", doing, (long long)count);
}
