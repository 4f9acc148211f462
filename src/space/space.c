/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces: get, put and add on named tensors that some actors own and all can reach. A tensor is cut
 * into one range for each owner, as equal as possible or where the options say (space_ring.c), or
 * lives whole at one owner. Each call fills
 * in one fast_space_operation; fast__space_execute() carries it out range by range: local ranges in
 * memory (space_store.c), remote ones by messages (space_remote.c). A get asks all remote owners
 * first and copies from the local ones while the answers travel.
 *
 * Bounded staleness is a read with a clock: clock_min = own clock - s lets the fastest writer be at
 * most s rounds ahead of the slowest (Ho et al. 2013, stale synchronous parallel).
 *
 *     call              operation                 local range                remote range
 *     fast_space_put    PUT                       lock, copy, unlock         message, acknowledged
 *     fast_space_add    ADD                       lock, apply, unlock        message, acknowledged
 *     fast_space_tick   TICK                      store the clock            message, acknowledged
 *     fast_space_get    GET                       wait, lock, copy, unlock   message, answer
 *
 * With `causal` an update waits for its acknowledgements (fast__remote_settle()).
 *
 * An update is atomic for each range, not for a tensor: a reader may see an add in one owner's
 * range and not yet in another's. version_seen and clock_seen are the smallest over the ranges,
 * so that a condition on them holds for all.
 */
#include "space/space_form.h"
#include "space/space_store.h"

#include "base/memory.h"
#include "tensor/vector.h"

#include <string.h>

/* Return the first float behind an owner's range, by the fractions of the options. */
static int64_t end_of(const fast_space_map *map, int64_t owner, int64_t tensor)
{
    FAST_ASSERT(map->ends && owner >= -1 && owner < map->owner_count);
    if (owner < 0)
        return 0;
    return owner == map->owner_count - 1
               ? map->counts[tensor]
               : (int64_t)(map->ends[owner] * (double)map->counts[tensor]);
}

/* Of equal ranges the first have one float more where the count does not divide evenly. */
void fast__space_range(const fast_space *space, int64_t owner, int64_t tensor, int64_t *offset_out,
                       int64_t *count_out)
{
    FAST_ASSERT(space && offset_out && count_out);
    const fast_space_map *map = &space->map;
    FAST_ASSERT(owner >= 0 && owner < map->owner_count);
    FAST_ASSERT(tensor >= 0 && tensor < map->tensor_count);
    if (map->ends && !map->whole) {
        *offset_out = end_of(map, owner - 1, tensor);
        *count_out = end_of(map, owner, tensor) - *offset_out;
        return;
    }
    if (!map->whole) {
        fast__range(map->counts[tensor], map->owner_count, owner, offset_out, count_out);
        return;
    }
    *offset_out = 0;
    *count_out = tensor % map->owner_count == owner ? map->counts[tensor] : 0;
}

/* A copy of the operation with the addresses moved to the range; the caller's stays whole. */
fast_space_operation fast__space_part(const fast_space *space, const fast_space_operation *op,
                                      int64_t owner)
{
    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count);
    FAST_ASSERT(op->tensor >= 0 && op->tensor < space->map.tensor_count);
    fast_space_operation part = *op;
    part.owner = owner;
    fast__space_range(space, owner, op->tensor, &part.offset, &part.count);
    part.version_read = *fast__space_at(space, space->clocks.read, owner, op->tensor);
    if (op->x)
        part.x = op->x + part.offset;
    if (op->result)
        part.result = op->result + part.offset;
    return part;
}

/* EITHER is for readers that accept a late writer if enough updates have arrived. */
bool fast__space_satisfies(const fast_space_operation *op, bool in_time, int64_t version)
{
    FAST_ASSERT(version >= 0);
    const bool applied = version >= op->version_min;
    return op->flags & FAST_SPACE_EITHER ? in_time || applied : in_time && applied;
}

/* The smallest over the ranges: what a reader may rely on everywhere. */
void fast__space_saw(fast_space_operation *get, int64_t version, int64_t clock)
{
    FAST_ASSERT(get->kind == FAST_SPACE_GET);
    get->version_seen = version < get->version_seen ? version : get->version_seen;
    get->clock_seen = clock < get->clock_seen ? clock : get->clock_seen;
}

/* A space has few tensors: a linear search. */
int64_t fast_space_find(const fast_space *space, const char *tensor)
{
    FAST_ASSERT(space->map.names);
    FAST_ASSERT(space && tensor);
    for (int64_t t = 0; t < space->map.tensor_count; t++)
        if (strcmp(space->map.names + t * FAST_SPACE_NAME_MAX, tensor) == 0)
            return t;
    return -1;
}

/* Every operation starts by handling what has arrived: an actor that only uses local memory would
 * never wait, and not learn that an owner ended or that the run was canceled. */
fast_err fast__space_check_open(fast_space *space, int64_t tensor)
{
    FAST_ASSERT(space);
    fast__progress(space->actor);
    if (space->actor->stopped)
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    if (tensor < 0 || tensor >= space->map.tensor_count)
        return fast__fail(FAST_EINVAL, "space \"%s\" has no tensor %lld of %lld", space->name,
                          (long long)tensor, (long long)space->map.tensor_count);
    return space->task.err;
}

/* Let remote actors have what this owner changed, if they wait for it. */
static fast_err answer_remote(fast_space *space)
{
    FAST_ASSERT(!space->owned.service || space->map.me >= 0);
    if (space->owned.service) {
        fast__service_touch(space);
        fast__progress(space->actor);
    }
    return space->task.err;
}

/* Copy a local range, which is locked, to op->result, and count it as read. */
static void copy_local(fast_space *space, const fast_space_operation *op)
{
    FAST_ASSERT(op->count > 0);
    fast_space_range *range = &space->map.owners[op->owner].store.ranges[op->tensor];
    if (op->result)
        fast__space_copy(space, op);
    const int64_t version = atomic_load(&range->version);
    if (!space->reader.peeks)
        *fast__space_at(space, space->clocks.read, op->owner, op->tensor) = version;
    space->reader.newest = version > space->reader.newest ? version : space->reader.newest;
    atomic_fetch_add(&range->gets, 1);
}

/* Put or add to a local range: in place, in this thread. */
static fast_err update_local(fast_space *space, fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_PUT || op->kind == FAST_SPACE_ADD);
    FAST_TRY(fast__space_ready(space, op->owner, op->deadline));
    if (op->x && op->kind == FAST_SPACE_ADD &&
        fast__space_is_coded(space, FAST_SPACE_UP, op->tensor))
        FAST_TRY(fast__space_recode(space, FAST_SPACE_UP, op->owner, op->x, &op->x));
    fast__space_begin(space, op->owner);
    const fast_err err = fast__space_lock_update(space, op->owner, op->tensor, op->deadline);
    if (!err) {
        fast__space_apply(space, op);
        if (op->result)
            copy_local(space, op);
        fast__space_unlock(space, op->owner, op->tensor, true);
        fast__space_changed(space, &space->map.owners[op->owner].store);
    }
    fast__space_end(space);
    FAST_TRY(err);
    return fast__space_charge(space, op);
}

/* PUT and ADD. */
static fast_err execute_update(fast_space *space, fast_space_operation *op)
{
    FAST_ASSERT(op->from == fast_actor_id(space->actor));
    const fast_space_map *map = &space->map;
    if (op->kind == FAST_SPACE_ADD && op->tensor == 0)
        fast__space_select(space, &op->x);
    for (int64_t i = 0; i < map->owner_count; i++) {
        const int64_t owner = (map->first + i) % map->owner_count;
        fast_space_operation part = fast__space_part(space, op, owner);
        part.clock = map->owners[owner].ticked;
        if (part.count > 0 && fast__space_covers(op, owner))
            FAST_TRY(map->owners[owner].store.head ? update_local(space, &part)
                                                   : fast__remote_update(space, &part));
    }
    if (space->announce > 0 && op->kind == FAST_SPACE_ADD && op->tensor == 0)
        FAST_TRY(fast__remote_flush(space));
    if (map->causal && map->remote_count > 0)
        FAST_TRY(fast__remote_settle(space, op->deadline));
    return answer_remote(space);
}

/* Only writers have clocks, and clocks only rise. */
fast_err fast__space_check_tick(const fast_space *space, const fast_space_operation *op)
{
    FAST_ASSERT(space->map.owner_count > 0);
    if (space->clocks.rank < 0)
        return fast__fail(FAST_EINVAL,
                          "this actor is not a writer of space \"%s\": it has no clock",
                          space->name);
    for (int64_t i = 0; i < space->map.owner_count; i++)
        if (fast__space_covers(op, i) && op->clock < space->map.owners[i].ticked)
            return fast__fail(FAST_EINVAL, "a clock does not go back from %lld to %lld",
                              (long long)space->map.owners[i].ticked, (long long)op->clock);
    return FAST_OK;
}

/* TICK: this actor has finished op->clock rounds. */
static fast_err execute_tick(fast_space *space, fast_space_operation *op)
{
    FAST_ASSERT(op->tensor == 0);
    FAST_TRY(fast__space_check_tick(space, op));
    if (op->clock > space->clocks.own)
        space->clocks.own = op->clock;
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        const int64_t owner = (space->map.first + i) % space->map.owner_count;
        fast_space_store *store = &space->map.owners[owner].store;
        if (!fast__space_covers(op, owner))
            continue;
        space->map.owners[owner].ticked = op->clock;
        if (!store->head) {
            fast_space_operation part = fast__space_part(space, op, owner);
            FAST_TRY(fast__remote_update(space, &part));
            continue;
        }
        fast__space_begin(space, owner);
        atomic_store(&store->slots[op->from].clock, op->clock);
        fast__space_changed(space, store);
        fast__space_end(space);
    }
    return answer_remote(space);
}

/* Return true if a local range, with its owner's clocks, satisfies the conditions of a get. */
static bool is_new_enough(fast_space *space, const fast_space_operation *op, int64_t *clock_out)
{
    FAST_ASSERT(space->map.owners[op->owner].store.head != NULL);
    fast_space_store *store = &space->map.owners[op->owner].store;
    /* The clock first: a reader that sees a tick also sees the updates before it. */
    const bool in_time = fast__space_in_time(space, store, op, clock_out);
    /* An owner waits for announced updates to its own range, as readers of it do. */
    if (op->owner == space->map.me && op->tensor == 0 && fast__service_awaits(space))
        return false;
    return fast__space_satisfies(op, in_time, atomic_load(&store->ranges[op->tensor].version));
}

/* Wait until a local range is new enough. */
static fast_err wait_local(fast_space *space, const fast_space_operation *op, int64_t *clock_out)
{
    FAST_ASSERT(op->from == fast_actor_id(space->actor));
    fast_actor *actor = space->actor;
    fast_space_store *store = &space->map.owners[op->owner].store;
    fast_space_range *range = &store->ranges[op->tensor];
    fast_wait wait = fast__space_wait(space, -1, "space get", op->deadline);
    atomic_fetch_add(&range->waited, 1);
    for (;;) {
        fast__space_begin(space, op->owner);
        fast__space_arm(space, store);
        const bool done = is_new_enough(space, op, clock_out);
        /* For the error of a timeout: the slowest writer, else any actor that could still write. */
        if (!done)
            wait.whom = fast__space_slowest(space, store, op);
        if (!done && wait.whom < 0)
            wait.whom = fast__space_active(space, store, op->from);
        fast__space_end(space);
        if (done)
            return FAST_OK;
        if (wait.whom < 0)
            return fast__fail(FAST_EPEER,
                              "nobody is left in space \"%s\" who could bring tensor %lld from "
                              "version %lld to %lld",
                              space->name, (long long)op->tensor,
                              (long long)atomic_load(&range->version), (long long)op->version_min);
        const fast_err err = fast__wait_once(actor, &wait);
        /* An actor that went down no longer holds anybody back: look again. */
        if (err && (err != FAST_EPEER || !fast_member_is_down(actor, wait.whom)))
            return err;
    }
}

/* Copy a local range, which is new enough, to op->result, and note in `seen` that it was read. */
static fast_err read_local(fast_space *space, const fast_space_operation *op, int64_t clock,
                           fast_space_operation *seen)
{
    FAST_ASSERT(op->count > 0);
    fast__space_begin(space, op->owner);
    const fast_err err = fast__space_lock(space, op->owner, op->tensor, false, op->deadline);
    if (!err) {
        copy_local(space, op);
        fast__space_unlock(space, op->owner, op->tensor, false);
    }
    fast__space_end(space);
    FAST_TRY(err);
    fast__space_saw(seen, *fast__space_at(space, space->clocks.read, op->owner, op->tensor), clock);
    if (op->result && fast__space_is_coded(space, FAST_SPACE_DOWN, op->tensor)) {
        const float *coded;
        if (op->flags & FAST_SPACE_WHOLE)
            fast__space_drop(space, op->owner);
        FAST_TRY(fast__space_recode(space, FAST_SPACE_DOWN, op->owner, op->result, &coded));
        fast__vector_copy(op->count, coded, op->result);
    }
    return fast_charge(space->actor, 0, 8.0 * (double)op->count);
}

/* Return true if a local range is new enough now, and its clock. */
static fast_err look_local(fast_space *space, const fast_space_operation *op, bool *ready_out,
                           int64_t *clock_out)
{
    FAST_ASSERT(op->count > 0);
    FAST_TRY(fast__space_ready(space, op->owner, op->deadline));
    fast__space_begin(space, op->owner);
    *ready_out = is_new_enough(space, op, clock_out);
    fast__space_end(space);
    return FAST_OK;
}

/* Copy a local range to op->result, once it is new enough. */
static fast_err get_local(fast_space *space, const fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_GET);
    int64_t clock;
    bool ready;
    /* The common case first: no wait, and no arming of the slot. */
    FAST_TRY(look_local(space, op, &ready, &clock));
    if (!ready)
        FAST_TRY(wait_local(space, op, &clock));
    return read_local(space, op, clock, &space->reader.get);
}

/* For tasks, which wait for many ranges at once. */
fast_err fast__space_try_local(fast_space *space, fast_space_operation *op, bool *done_out)
{
    FAST_ASSERT(op->kind == FAST_SPACE_GET && done_out);
    int64_t clock;
    FAST_TRY(look_local(space, op, done_out, &clock));
    return *done_out ? read_local(space, op, clock, op) : FAST_OK;
}

/* Its own clock is the smallest of its clocks on the ranges that are read. */
fast_err fast__space_check_get(const fast_space *space, const fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_GET);
    const fast_space_clocks *c = &space->clocks;
    const bool grouped = (op->flags & FAST_SPACE_GROUP) != 0;
    if (grouped && (op->group < 0 || op->group_count < 1 ||
                    op->group_count > c->writer_count - op->group || op->version_min > 0))
        return fast__fail(FAST_EINVAL,
                          "a get in space \"%s\" waits for the clocks of writers %lld to %lld of "
                          "%lld, or for a version as well",
                          space->name, (long long)op->group,
                          (long long)(op->group + op->group_count - 1), (long long)c->writer_count);
    const bool awaits_itself =
        grouped ? c->rank >= op->group && c->rank < op->group + op->group_count : c->rank >= 0;
    for (int64_t i = 0; awaits_itself && i < space->map.owner_count; i++)
        if (fast__space_covers(op, i) && op->clock_min > space->map.owners[i].ticked)
            return fast__fail(FAST_EINVAL,
                              "a get in space \"%s\" asks for clock %lld, but this actor, a "
                              "writer, is at %lld: it would wait for itself",
                              space->name, (long long)op->clock_min,
                              (long long)space->map.owners[i].ticked);
    return FAST_OK;
}

/* First half of a get: ask remote owners, copy from local ones. */
static fast_err start_get(fast_space *space, const fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_GET);
    const fast_space_map *map = &space->map;
    fast_space_operation *get = &space->reader.get;
    FAST_TRY(fast__space_check_get(space, op));
    for (int64_t i = 0; space->tasks && i < map->owner_count; i++)
        if (map->owners[i].asked)
            return fast__fail(FAST_EINVAL,
                              "a task pulls from space \"%s\": wait for it before a get",
                              space->name);
    *get = *op;
    get->id = ++space->reader.ids;
    get->version_seen = get->clock_seen = INT64_MAX;
    space->reader.missing = 0;
    /* Remote owners first: their answers travel while local ranges are copied. */
    for (int64_t i = 0; map->remote_count > 0 && i < map->owner_count; i++) {
        const int64_t owner = (map->first + i) % map->owner_count;
        int64_t offset, count;
        fast__space_range(space, owner, get->tensor, &offset, &count);
        if (count == 0 || map->owners[owner].store.head)
            continue;
        FAST_TRY(fast__remote_get_start(space, owner, get));
        space->reader.missing += map->owners[owner].asked != 0;
    }
    for (int64_t i = 0; i < map->owner_count; i++) {
        const int64_t owner = (map->first + i) % map->owner_count;
        const fast_space_operation part = fast__space_part(space, get, owner);
        if (part.count > 0 && map->owners[owner].store.head)
            FAST_TRY(get_local(space, &part));
    }
    return FAST_OK;
}

/* Second half of a get: wait for remote owners' answers, and charge for them. */
static fast_err end_get(fast_space *space)
{
    FAST_ASSERT(space->reader.missing >= 0);
    const fast_space_operation *get = &space->reader.get;
    if (space->reader.missing > 0)
        FAST_TRY(fast__remote_get_wait(space));
    for (int64_t owner = 0; get->result && owner < space->map.owner_count; owner++)
        if (!space->map.owners[owner].store.head &&
            fast__space_is_coded(space, FAST_SPACE_DOWN, get->tensor))
            FAST_TRY(fast__space_pay(space, FAST_SPACE_DOWN, owner, 0));
    return FAST_OK;
}

/* Forget the get under way: answers that still travel are dropped, and its memory is the caller's
 * again. */
static void leave_get(fast_space *space)
{
    FAST_ASSERT(space->reader.missing >= 0);
    for (int64_t i = 0; space->reader.missing > 0 && i < space->map.owner_count; i++)
        if (space->map.owners[i].asked == space->reader.get.id)
            space->map.owners[i].asked = 0;
    space->reader.missing = 0;
    space->reader.get.result = NULL;
}

/* GET: copy the whole tensor. */
static fast_err execute_get(fast_space *space, fast_space_operation *op)
{
    FAST_ASSERT(op->x == NULL);
    fast_err err = start_get(space, op);
    if (!err)
        err = end_get(space);
    leave_get(space);
    op->version_seen = space->reader.get.version_seen;
    op->clock_seen = space->reader.get.clock_seen;
    return err;
}

/* The function that carries out an operation, by its kind. */
static fast_err (*const executors[FAST_SPACE_KINDS])(fast_space *, fast_space_operation *) = {
    [FAST_SPACE_PUT] = execute_update,
    [FAST_SPACE_ADD] = execute_update,
    [FAST_SPACE_TICK] = execute_tick,
    [FAST_SPACE_GET] = execute_get,
};

/* The part of an operation that is the same for all kinds. */
static fast_err begin_operation(fast_space *space, fast_space_operation *op)
{
    FAST_ASSERT(op->kind < FAST_SPACE_KINDS);
    FAST_TRY(fast__space_check_open(space, op->tensor));
    op->from = fast_actor_id(space->actor);
    op->deadline = fast__deadline(space->actor, op->deadline);
    return FAST_OK;
}

/* Check what all kinds have in common, then dispatch by kind. */
fast_err fast__space_execute(fast_space *space, fast_space_operation *op)
{
    FAST_ASSERT(op->kind > FAST_SPACE_SERVE && op->kind < FAST_SPACE_KINDS);
    FAST_ASSERT(executors[op->kind] != NULL);
    FAST_TRY(begin_operation(space, op));
    return executors[op->kind](space, op);
}

/* A put replaces the values: it is not encoded, and counts as one update. */
fast_err fast_space_put(fast_space *space, int64_t tensor, const float *x, int64_t deadline)
{
    FAST_ASSERT(space);
    return fast__space_execute(
        space, &(fast_space_operation){
                   .kind = FAST_SPACE_PUT, .tensor = tensor, .x = x, .deadline = deadline });
}

/* The update is encoded here, also for local owners, so that all transports give the same bits. */
fast_err fast_space_add(fast_space *space, int64_t tensor, const float *x, int64_t deadline)
{
    FAST_ASSERT(space);
    return fast__space_execute(
        space, &(fast_space_operation){
                   .kind = FAST_SPACE_ADD, .tensor = tensor, .x = x, .deadline = deadline });
}

/* Local owners have seen no piece: x is the whole update for them. */
fast_err fast_space_add_end(fast_space *space, const float *x, int64_t deadline)
{
    FAST_ASSERT(space);
    FAST_TRY(fast__space_pieces_end(space));
    return fast__space_execute(space, &(fast_space_operation){ .kind = FAST_SPACE_ADD,
                                                               .flags = FAST_SPACE_ENDS,
                                                               .x = x,
                                                               .deadline = deadline });
}

/* A tick never overtakes this actor's updates: an owner gets both in the order of the calls. */
fast_err fast_space_tick(fast_space *space, int64_t clock)
{
    FAST_ASSERT(space);
    return fast__space_execute(
        space,
        &(fast_space_operation){ .kind = FAST_SPACE_TICK, .clock = clock, .deadline = FAST_SOON });
}

/* With virtual time a combined operation would hide its cost from the simulator. */
bool fast__space_is_local(const fast_space *space)
{
    FAST_ASSERT(space);
    return space->map.remote_count == 0 && !space->actor->world->transport->virtual_clock &&
           !fast__space_is_coded(space, FAST_SPACE_DOWN, 0);
}

/* execute_update() copies each range before it releases the lock. */
fast_err fast__space_add_get(fast_space *space, const float *x, float *w, int64_t *version_out,
                             int64_t deadline)
{
    FAST_ASSERT(version_out);
    fast_space_operation op = { .kind = FAST_SPACE_ADD, .x = x, .result = w, .deadline = deadline };
    FAST_ASSERT(x && w && fast__space_is_local(space));
    FAST_TRY(fast__space_execute(space, &op));
    *version_out = INT64_MAX;
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        const int64_t version = *fast__space_at(space, space->clocks.read, owner, 0);
        int64_t offset, count;
        fast__space_range(space, owner, 0, &offset, &count);
        if (count > 0 && version < *version_out)
            *version_out = version;
    }
    return FAST_OK;
}

/* Without conditions: as it is. */
fast_space_operation fast__space_get_of(int64_t tensor, float *x, const fast_space_read *read,
                                        int64_t deadline)
{
    return (fast_space_operation){ .kind = FAST_SPACE_GET,
                                   .flags = (x ? 0u : FAST_SPACE_SIZES) |
                                            (read && read->full_values ? FAST_SPACE_WHOLE : 0u) |
                                            (read && read->either ? FAST_SPACE_EITHER : 0u) |
                                            (read && read->writer_count ? FAST_SPACE_GROUP : 0u),
                                   .tensor = tensor,
                                   .group = read ? read->writer : 0,
                                   .group_count = read ? read->writer_count : 0,
                                   .version_min = read ? read->version_min : 0,
                                   .clock_min = read ? read->clock_min : 0,
                                   .result = x,
                                   .deadline = deadline };
}

/* Conditions become fields of the operation; what was seen comes back from it. */
fast_err fast_space_get(fast_space *space, int64_t tensor, float *x, fast_space_read *read,
                        int64_t deadline)
{
    FAST_ASSERT(space);
    fast_space_operation op = fast__space_get_of(tensor, x, read, deadline);
    FAST_TRY(fast__space_execute(space, &op));
    if (read) {
        read->version = op.version_seen;
        read->clock = op.clock_seen;
    }
    return FAST_OK;
}

int64_t fast__space_read_newest(const fast_space *space, int64_t tensor)
{
    int64_t newest = 0;
    FAST_ASSERT(tensor >= 0 && tensor < space->map.tensor_count);
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        const int64_t version = *fast__space_at(space, space->clocks.read, i, tensor);
        newest = version > newest ? version : newest;
    }
    return newest;
}

fast_err fast__space_peek(fast_space *space, int64_t *newest_out, int64_t deadline)
{
    fast_space_read read = { .version_min = 0 };
    FAST_ASSERT(newest_out);
    space->reader.peeks = true;
    space->reader.newest = 0;
    const fast_err err = fast_space_get(space, 0, NULL, &read, deadline);
    space->reader.peeks = false;
    FAST_TRY(err);
    *newest_out = space->reader.newest;
    return FAST_OK;
}

/* Local ranges are copied at once; remote owners send slices as the network takes them. */
fast_err fast__space_get_start(fast_space *space, float *x, const fast_space_read *read,
                               int64_t deadline)
{
    FAST_ASSERT(read);
    fast_space_operation op = fast__space_get_of(0, x, read, deadline);
    FAST_ASSERT(x != NULL);
    if (fast__space_is_coded(space, FAST_SPACE_DOWN, 0))
        return fast__fail(FAST_EINVAL,
                          "space \"%s\": slices are read as they are; leave out codec_down",
                          space->name);
    op.flags |= FAST_SPACE_SLICES;
    FAST_TRY(begin_operation(space, &op));
    const fast_err err = start_get(space, &op);
    if (err)
        leave_get(space);
    return err;
}

/* With local owners only, everything is there. */
fast_err fast__space_get_need(fast_space *space, int64_t offset, int64_t count)
{
    FAST_ASSERT(offset >= 0 && count >= 0);
    FAST_ASSERT(space->reader.get.flags & FAST_SPACE_SLICES);
    return space->reader.missing > 0 ? fast__remote_get_need(space, offset, count) : FAST_OK;
}

/* The conditions are returned as they were given to get_start. */
fast_err fast__space_get_end(fast_space *space, fast_space_read *read)
{
    FAST_ASSERT(read);
    fast_space_operation *get = &space->reader.get;
    FAST_ASSERT(get->flags & FAST_SPACE_SLICES);
    const fast_err err = end_get(space);
    leave_get(space);
    get->flags &= ~(unsigned)FAST_SPACE_SLICES;
    FAST_TRY(err);
    *read = (fast_space_read){ .version_min = get->version_min,
                               .clock_min = get->clock_min,
                               .either = (get->flags & FAST_SPACE_EITHER) != 0,
                               .writer = get->group,
                               .writer_count = get->group_count,
                               .full_values = (get->flags & FAST_SPACE_WHOLE) != 0,
                               .version = get->version_seen,
                               .clock = get->clock_seen };
    return FAST_OK;
}

/* Local owners wake this actor by its armed slot, remote ones by a message. */
fast_err fast_space_watch(fast_space *space, int64_t tensor, fast_space_watch_fn *watch, void *ctx)
{
    FAST_ASSERT(space);
    FAST_TRY(fast__space_check_open(space, tensor));
    if (space->copies.count > 0)
        return fast__fail(FAST_EINVAL,
                          "space \"%s\" has copies, and none of them notifies watchers",
                          space->name);
    if (!space->reader.watched)
        FAST_TRY(fast__alloc("the watchers of a space", space->map.tensor_count,
                             sizeof *space->reader.watched, &space->reader.watched));
    space->reader.watched[tensor] = (fast_space_watched){ .watch = watch, .ctx = ctx };
    for (int64_t owner = 0; watch && owner < space->map.owner_count; owner++) {
        fast_space_store *store = &space->map.owners[owner].store;
        int64_t offset, count;
        fast__space_range(space, owner, tensor, &offset, &count);
        if (count > 0 && !store->head)
            FAST_TRY(fast__remote_watch(space, owner, tensor));
        if (count > 0 && store->head) {
            fast__space_begin(space, owner);
            fast__space_arm(space, store);
            fast__space_end(space);
        }
    }
    return FAST_OK;
}

/* Note whether local ranges of a watched tensor changed; set the smallest version and clock over
 * all of its ranges. */
static void look(fast_space *space, int64_t tensor, int64_t *version_out, int64_t *clock_out)
{
    FAST_ASSERT(space->reader.watched && space->reader.watched[tensor].watch);
    *version_out = *clock_out = INT64_MAX;
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        int64_t offset, count, clock = space->map.owners[owner].clock;
        fast_space_store *store = &space->map.owners[owner].store;
        int64_t *told = fast__space_at(space, space->clocks.told, owner, tensor);
        fast__space_range(space, owner, tensor, &offset, &count);
        if (count == 0)
            continue;
        if (store->head) {
            /* Armed first: a change after the look wakes this actor. */
            fast__space_begin(space, owner);
            fast__space_arm(space, store);
            (void)fast__space_clock(space, store, 0, &clock);
            const int64_t version = atomic_load(&store->ranges[tensor].version);
            fast__space_end(space);
            space->reader.watched[tensor].changed |= version > *told;
            *told = version;
        }
        *version_out = *told < *version_out ? *told : *version_out;
        *clock_out = clock < *clock_out ? clock : *clock_out;
    }
}

/* Called whenever the actor waits: one look at each watched tensor. */
void fast__space_told(fast_space *space)
{
    FAST_ASSERT(space->reader.watched != NULL);
    for (int64_t t = 0; t < space->map.tensor_count; t++) {
        int64_t version, clock;
        fast_space_watched *watched = &space->reader.watched[t];
        if (!watched->watch)
            continue;
        look(space, t, &version, &clock);
        if (!watched->changed)
            continue;
        watched->changed = false;
        watched->watch(watched->ctx, t, version, clock);
    }
}

/* Updates to a replica name the version that was read from the leader. */
void fast__space_follow(fast_space *space, const fast_space *leader, int64_t tensor)
{
    FAST_ASSERT(space->map.owner_count == leader->map.owner_count);
    FAST_ASSERT(tensor < space->map.tensor_count && tensor < leader->map.tensor_count);
    for (int64_t owner = 0; owner < space->map.owner_count; owner++)
        *fast__space_at(space, space->clocks.read, owner, tensor) =
            *fast__space_at(leader, leader->clocks.read, owner, tensor);
}

/* Ranges of a tensor have versions of their own, and a writer names for each the one that it read.
 * None counts as newer than it was. */
void fast__space_read_as(fast_space *space, int64_t tensor, int64_t version)
{
    FAST_ASSERT(tensor >= 0 && tensor < space->map.tensor_count && version >= 0);
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        int64_t *read = fast__space_at(space, space->clocks.read, owner, tensor);

        *read = version < *read ? version : *read;
    }
}

int64_t fast__space_sent(const fast_space *space, int64_t owner, int64_t *seen_out)
{
    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count && seen_out);
    *seen_out = space->map.owners[owner].seen;
    return space->map.owners[owner].sent;
}

bool fast__space_is_idle(const fast_space *space)
{
    FAST_ASSERT(space->map.owner_count > 0);
    for (int64_t i = 0; i < space->map.owner_count; i++)
        if (space->map.owners[i].acked < space->map.owners[i].sent)
            return false;
    return true;
}

bool fast__space_reached(fast_space *space, int64_t clock)
{
    int64_t smallest;

    FAST_ASSERT(clock >= 0);
    return fast__space_clock(space, fast__space_own_store(space), clock, &smallest);
}

/* Ordered as one read of the store where the run is recorded. */
void fast_space_count(const fast_space *space, fast_space_counters *out)
{
    FAST_ASSERT(space && out);
    const int64_t me = space->map.me;
    *out = (fast_space_counters){ .refused = fast__service_refused(space) };
    if (me < 0)
        return;
    fast_critical_begin(space->actor, space->key + (uint64_t)me);
    for (int64_t t = 0; t < space->map.tensor_count; t++) {
        fast_space_range *range = &space->map.owners[me].store.ranges[t];
        out->gets += atomic_load(&range->gets);
        out->waited += atomic_load(&range->waited);
        out->applied += atomic_load(&range->applied);
        out->rejected += atomic_load(&range->rejected);
        out->staleness_sum += atomic_load(&range->staleness_sum);
        const int64_t largest = atomic_load(&range->staleness_max);
        out->staleness_max = largest > out->staleness_max ? largest : out->staleness_max;
    }
    fast_critical_end(space->actor);
}
