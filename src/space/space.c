/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces: put, get and add on named tensors that some actors own and all reach: the tensor-moving
 * interface. A tensor is cut into one range for each owner, as equal as possible, or lives whole at
 * one. Every operation treats the ranges one by one: near ones in memory (space_store.c), far ones
 * by messages (space_far.c); a get asks all far owners first and copies from the near ones while
 * their answers travel.
 *
 * Bounded staleness is a read with a clock: clock_min = own clock - s lets the fastest writer be at
 * most s rounds ahead of the slowest (Ho et al. 2013, stale synchronous parallel).
 */
#include "space/space_visit.h"

#include "base/memory.h"

#include <string.h>

void fast__space_range(const fast_space *space, int64_t owner, int64_t tensor, int64_t *offset_out,
                       int64_t *count_out)
{
    FAST_ASSERT(owner >= 0 && owner < space->owner_count);
    FAST_ASSERT(tensor >= 0 && tensor < space->tensor_count);
    const int64_t count = space->counts[tensor], parts = space->owner_count;
    if (space->whole) {
        *offset_out = 0;
        *count_out = tensor % parts == owner ? count : 0;
        return;
    }
    const int64_t part = count / parts, more = count % parts;
    *offset_out = owner * part + (owner < more ? owner : more);
    *count_out = part + (owner < more);
}

int64_t fast_space_find(const fast_space *space, const char *tensor)
{
    FAST_ASSERT(space && tensor);
    for (int64_t t = 0; t < space->tensor_count; t++)
        if (strcmp(space->names + t * FAST_SPACE_NAME_MAX, tensor) == 0)
            return t;
    return -1;
}

/* Every operation begins with a look at what has arrived: who uses near memory alone would never
 * wait, and not hear that an owner ended or that the run was canceled. */
static fast_err begin(fast_space *space, int64_t tensor)
{
    FAST_ASSERT(space);
    fast__progress(space->actor);
    if (space->actor->stopped)
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    if (tensor < 0 || tensor >= space->tensor_count)
        return fast__fail(FAST_EINVAL, "space \"%s\" has no tensor %lld of %lld", space->name,
                          (long long)tensor, (long long)space->tensor_count);
    return space->task.err;
}

/* Take a near range that is locked, and count it. */
static void near_take(fast_space *space, int64_t owner, int64_t tensor, float *x)
{
    fast_space_range *range = &space->owners[owner].store.ranges[tensor];
    int64_t offset, count;
    fast__space_range(space, owner, tensor, &offset, &count);
    if (x)
        memcpy(x + offset, fast__space_values(space, owner, tensor), (size_t)count * sizeof *x);
    *fast__space_at(space, space->read, owner, tensor) = atomic_load(&range->version);
    atomic_fetch_add(&range->gets, 1);
}

/* Update a near range: in place, in this thread. */
static fast_err near_update(fast_space *space, int64_t owner, bool put, int64_t tensor,
                            const float *x, int64_t deadline)
{
    fast_space_update update = { .tensor = tensor,
                                 .from = fast_actor_id(space->actor),
                                 .clock = space->clock,
                                 .read = *fast__space_at(space, space->read, owner, tensor) };
    fast__space_range(space, owner, tensor, &update.offset, &update.count);
    update.x = x ? x + update.offset : NULL;
    FAST_TRY(fast__space_ready(space, owner, deadline));
    if (x && !put && fast__space_is_coded(space, FAST_SPACE_UP, tensor))
        FAST_TRY(fast__space_recode(space, FAST_SPACE_UP, owner, update.x, &update.x));
    fast__space_begin(space, owner);
    const fast_err err = fast__space_lock(space, owner, tensor, true, deadline);
    if (!err) {
        fast__space_apply(space, owner, put, &update);
        if (space->back)
            near_take(space, owner, tensor, space->back);
        fast__space_unlock(space, owner, tensor, true);
        fast__space_changed(space, &space->owners[owner].store);
    }
    fast__space_end(space);
    FAST_TRY(err);
    return fast__space_charge(space, put, update.count);
}

/* What an owner changed may be what far actors wait for. */
static fast_err answer_far(fast_space *space)
{
    if (space->service) {
        fast__service_touch(space);
        fast__progress(space->actor);
    }
    return space->task.err;
}

static fast_err update(fast_space *space, fast_space_kind kind, int64_t tensor, const float *x,
                       int64_t deadline)
{
    FAST_TRY(begin(space, tensor));
    const int64_t until = fast__deadline(space->actor, deadline);
    for (int64_t i = 0; i < space->owner_count; i++) {
        const int64_t owner = (space->first + i) % space->owner_count;
        int64_t offset, count;
        fast__space_range(space, owner, tensor, &offset, &count);
        if (count == 0)
            continue;
        if (space->owners[owner].store.head)
            FAST_TRY(near_update(space, owner, kind == FAST_SPACE_PUT, tensor, x, until));
        else
            FAST_TRY(fast__far_update(space, owner, kind, tensor, x, until));
    }
    return answer_far(space);
}

fast_err fast_space_put(fast_space *space, int64_t tensor, const float *x, int64_t deadline)
{
    return update(space, FAST_SPACE_PUT, tensor, x, deadline);
}

fast_err fast_space_add(fast_space *space, int64_t tensor, const float *x, int64_t deadline)
{
    return update(space, FAST_SPACE_ADD, tensor, x, deadline);
}

fast_err fast_space_add_end(fast_space *space, const float *x, int64_t deadline)
{
    FAST_TRY(fast__space_pieces_end(space));
    space->ending = true;
    const fast_err err = update(space, FAST_SPACE_ADD, 0, x, deadline);
    space->ending = false;
    return err;
}

bool fast__space_is_at_hand(const fast_space *space)
{
    return space->far_count == 0 && !space->actor->world->transport->virtual_clock &&
           !fast__space_is_coded(space, FAST_SPACE_DOWN, 0);
}

fast_err fast__space_add_get(fast_space *space, const float *x, float *w, int64_t *version_out,
                             int64_t deadline)
{
    FAST_ASSERT(x && w && fast__space_is_at_hand(space));
    space->back = w;
    const fast_err err = update(space, FAST_SPACE_ADD, 0, x, deadline);
    space->back = NULL;
    FAST_TRY(err);
    *version_out = INT64_MAX;
    for (int64_t owner = 0; owner < space->owner_count; owner++) {
        const int64_t version = *fast__space_at(space, space->read, owner, 0);
        int64_t offset, count;
        fast__space_range(space, owner, 0, &offset, &count);
        if (count > 0 && version < *version_out)
            *version_out = version;
    }
    return FAST_OK;
}

fast_err fast_space_tick(fast_space *space, int64_t clock)
{
    FAST_TRY(begin(space, 0));
    if (!space->writer)
        return fast__fail(FAST_EINVAL,
                          "this actor is not a writer of space \"%s\": it has no clock",
                          space->name);
    if (clock < space->clock)
        return fast__fail(FAST_EINVAL, "a clock does not go back from %lld to %lld",
                          (long long)space->clock, (long long)clock);
    space->clock = clock;
    const int64_t until = fast__deadline(space->actor, FAST_SOON);
    for (int64_t owner = 0; owner < space->owner_count; owner++) {
        fast_space_store *store = &space->owners[owner].store;
        if (!store->head) {
            FAST_TRY(fast__far_update(space, owner, FAST_SPACE_TICK, 0, NULL, until));
            continue;
        }
        fast__space_begin(space, owner);
        atomic_store(&store->slots[fast_actor_id(space->actor)].clock, clock);
        fast__space_changed(space, store);
        fast__space_end(space);
    }
    return answer_far(space);
}

/* Is a near range, with its owner's clocks, as new as it is wanted? */
static bool is_new(fast_space *space, int64_t owner, int64_t tensor, const fast_space_read *read,
                   int64_t *clock_out)
{
    fast_space_store *store = &space->owners[owner].store;
    /* The clock first: what was added before a tick is in what is read after it. */
    const bool in_time = fast__space_clock(space, store, read->clock_min, clock_out);
    const bool applied = atomic_load(&store->ranges[tensor].version) >= read->version_min;
    return read->either ? in_time || applied : in_time && applied;
}

static fast_err near_wait(fast_space *space, int64_t owner, int64_t tensor,
                          const fast_space_read *read, int64_t deadline, int64_t *clock_out)
{
    fast_actor *actor = space->actor;
    fast_space_store *store = &space->owners[owner].store;
    fast_space_range *range = &store->ranges[tensor];
    const int64_t me = fast_actor_id(actor);
    fast_wait wait = { .waiting = true,
                       .tag = fast__space_tag(space, true),
                       .since = fast_now(actor),
                       .deadline = deadline,
                       .doing = "space get" };
    atomic_fetch_add(&range->waited, 1);
    for (;;) {
        fast__space_begin(space, owner);
        fast__space_arm(space, store);
        const bool done = is_new(space, owner, tensor, read, clock_out);
        if (!done)
            wait.whom = fast__space_behind(space, store, me);
        if (!done && wait.whom < 0)
            wait.whom = fast__space_hope(space, store, me);
        fast__space_end(space);
        if (done)
            return FAST_OK;
        if (wait.whom < 0)
            return fast__fail(FAST_EPEER,
                              "nobody is left in space \"%s\" who could bring tensor %lld from "
                              "version %lld to %lld",
                              space->name, (long long)tensor,
                              (long long)atomic_load(&range->version),
                              (long long)read->version_min);
        const fast_err err = fast__wait_once(actor, &wait);
        /* Who went down no longer holds anybody back: look again. */
        if (err && (err != FAST_EPEER || !fast_member_is_down(actor, wait.whom)))
            return err;
    }
}

static fast_err near_get(fast_space *space, int64_t owner, int64_t tensor, float *x,
                         fast_space_read *read, int64_t deadline)
{
    int64_t offset, count, clock;
    fast__space_range(space, owner, tensor, &offset, &count);
    FAST_TRY(fast__space_ready(space, owner, deadline));
    fast__space_begin(space, owner);
    const bool ready = is_new(space, owner, tensor, read, &clock);
    fast__space_end(space);
    if (!ready)
        FAST_TRY(near_wait(space, owner, tensor, read, deadline, &clock));
    fast__space_begin(space, owner);
    const fast_err err = fast__space_lock(space, owner, tensor, false, deadline);
    if (!err) {
        near_take(space, owner, tensor, x);
        fast__space_unlock(space, owner, tensor, false);
    }
    fast__space_end(space);
    FAST_TRY(err);
    const int64_t version = *fast__space_at(space, space->read, owner, tensor);
    read->version = version < read->version ? version : read->version;
    read->clock = clock < read->clock ? clock : read->clock;
    if (x && fast__space_is_coded(space, FAST_SPACE_DOWN, tensor)) {
        const float *coded;
        if (read->whole)
            fast__space_drop(space, owner);
        FAST_TRY(fast__space_recode(space, FAST_SPACE_DOWN, owner, x + offset, &coded));
        memcpy(x + offset, coded, (size_t)count * sizeof *x);
    }
    return fast_charge(space->actor, 0, 8.0 * (double)count);
}

/* The first half of a get: far owners are asked, near ones copied from. */
static fast_err start_get(fast_space *space, int64_t tensor, float *x, fast_space_read *read,
                          bool sliced, int64_t deadline)
{
    int64_t offset, count;
    space->get = (fast_space_get_state){ .id = space->get.id + 1,
                                         .tensor = tensor,
                                         .x = x,
                                         .version = INT64_MAX,
                                         .clock = INT64_MAX,
                                         .sliced = sliced,
                                         .deadline = deadline };
    for (int64_t owner = 0; space->far_count > 0 && owner < space->owner_count; owner++) {
        fast__space_range(space, owner, tensor, &offset, &count);
        if (count > 0 && !space->owners[owner].store.head)
            FAST_TRY(fast__far_get_start(space, owner, read));
    }
    for (int64_t i = 0; i < space->owner_count; i++) {
        const int64_t owner = (space->first + i) % space->owner_count;
        fast__space_range(space, owner, tensor, &offset, &count);
        if (count > 0 && space->owners[owner].store.head)
            FAST_TRY(near_get(space, owner, tensor, x, read, deadline));
    }
    return FAST_OK;
}

/* The second: what far owners answer. */
static fast_err end_get(fast_space *space, fast_space_read *read)
{
    const int64_t tensor = space->get.tensor;
    if (space->get.missing > 0)
        FAST_TRY(fast__far_get_wait(space, space->get.deadline));
    for (int64_t owner = 0; space->get.x && owner < space->owner_count; owner++)
        if (!space->owners[owner].store.head &&
            fast__space_is_coded(space, FAST_SPACE_DOWN, tensor))
            FAST_TRY(fast__space_pay(space, FAST_SPACE_DOWN, owner, 0));
    read->version = read->version < space->get.version ? read->version : space->get.version;
    read->clock = read->clock < space->get.clock ? read->clock : space->get.clock;
    return FAST_OK;
}

/* Answers that are still on their way belong to nobody, and x is the caller's again. */
static void leave_get(fast_space *space)
{
    space->get.missing = 0;
    space->get.x = NULL;
}

/* May this actor ask for so much? */
static fast_err begin_get(fast_space *space, int64_t tensor, fast_space_read *read)
{
    FAST_TRY(begin(space, tensor));
    if (space->writer && read->clock_min > space->clock)
        return fast__fail(FAST_EINVAL,
                          "a get in space \"%s\" asks for clock %lld, but this actor, a writer, is "
                          "at %lld: it would wait for itself",
                          space->name, (long long)read->clock_min, (long long)space->clock);
    read->version = read->clock = INT64_MAX;
    return FAST_OK;
}

fast_err fast_space_get(fast_space *space, int64_t tensor, float *x, fast_space_read *read,
                        int64_t deadline)
{
    fast_space_read seen = read ? *read : (fast_space_read){ 0 };
    FAST_TRY(begin_get(space, tensor, &seen));
    fast_err err =
        start_get(space, tensor, x, &seen, false, fast__deadline(space->actor, deadline));
    if (!err)
        err = end_get(space, &seen);
    leave_get(space);
    FAST_TRY(err);
    if (read)
        *read = seen;
    return FAST_OK;
}

fast_err fast__space_get_start(fast_space *space, float *x, const fast_space_read *read,
                               int64_t deadline)
{
    fast_space_read seen = *read;
    FAST_ASSERT(x != NULL);
    if (fast__space_is_coded(space, FAST_SPACE_DOWN, 0))
        return fast__fail(FAST_EINVAL,
                          "space \"%s\": slices are read as they are; leave out codec_down",
                          space->name);
    FAST_TRY(begin_get(space, 0, &seen));
    const fast_err err =
        start_get(space, 0, x, &seen, true, fast__deadline(space->actor, deadline));
    if (err)
        leave_get(space);
    space->get.read = seen;
    return err;
}

fast_err fast__space_get_need(fast_space *space, int64_t offset, int64_t count)
{
    FAST_ASSERT(space->get.sliced);
    return space->get.missing > 0 ? fast__far_get_need(space, offset, count) : FAST_OK;
}

fast_err fast__space_get_end(fast_space *space, fast_space_read *read)
{
    FAST_ASSERT(space->get.sliced);
    const fast_err err = end_get(space, &space->get.read);
    leave_get(space);
    space->get.sliced = false;
    FAST_TRY(err);
    *read = space->get.read;
    return FAST_OK;
}

fast_err fast_space_watch(fast_space *space, int64_t tensor, fast_space_watch_fn *watch, void *ctx)
{
    FAST_TRY(begin(space, tensor));
    if (!space->watched)
        FAST_TRY(fast__alloc("the watchers of a space", space->tensor_count, sizeof *space->watched,
                             &space->watched));
    space->watched[tensor] = (fast_space_watched){ .watch = watch, .ctx = ctx };
    for (int64_t owner = 0; watch && owner < space->owner_count; owner++) {
        int64_t offset, count;
        fast__space_range(space, owner, tensor, &offset, &count);
        if (count > 0 && !space->owners[owner].store.head)
            FAST_TRY(fast__far_watch(space, owner, tensor));
        if (count > 0 && space->owners[owner].store.head) {
            fast__space_begin(space, owner);
            fast__space_arm(space, &space->owners[owner].store);
            fast__space_end(space);
        }
    }
    return FAST_OK;
}

/* Look whether near ranges of a watched tensor changed, and what all of them are at. */
static void look(fast_space *space, int64_t tensor, int64_t *version_out, int64_t *clock_out)
{
    *version_out = *clock_out = INT64_MAX;
    for (int64_t owner = 0; owner < space->owner_count; owner++) {
        int64_t offset, count, clock = space->owners[owner].clock;
        fast_space_store *store = &space->owners[owner].store;
        int64_t *told = fast__space_at(space, space->told, owner, tensor);
        fast__space_range(space, owner, tensor, &offset, &count);
        if (count == 0)
            continue;
        if (store->head) {
            /* Armed first: what changes after the look wakes this actor. */
            fast__space_begin(space, owner);
            fast__space_arm(space, store);
            (void)fast__space_clock(space, store, 0, &clock);
            const int64_t version = atomic_load(&store->ranges[tensor].version);
            fast__space_end(space);
            space->watched[tensor].changed |= version > *told;
            *told = version;
        }
        *version_out = *told < *version_out ? *told : *version_out;
        *clock_out = clock < *clock_out ? clock : *clock_out;
    }
}

void fast__space_told(fast_space *space)
{
    for (int64_t t = 0; t < space->tensor_count; t++) {
        int64_t version, clock;
        fast_space_watched *watched = &space->watched[t];
        if (!watched->watch)
            continue;
        look(space, t, &version, &clock);
        if (!watched->changed)
            continue;
        watched->changed = false;
        watched->watch(watched->ctx, t, version, clock);
    }
}

void fast__space_follow(fast_space *space, const fast_space *leader, int64_t tensor)
{
    FAST_ASSERT(space->owner_count == leader->owner_count);
    FAST_ASSERT(tensor < space->tensor_count && tensor < leader->tensor_count);
    for (int64_t owner = 0; owner < space->owner_count; owner++)
        *fast__space_at(space, space->read, owner, tensor) =
            leader->read[owner * leader->tensor_count + tensor];
}

void fast_space_count(const fast_space *space, fast_space_counters *out)
{
    FAST_ASSERT(space && out);
    *out = (fast_space_counters){ .refused = fast__service_refused(space) };
    if (space->me >= 0)
        fast_turn_begin(space->actor, space->key + (uint64_t)space->me);
    for (int64_t t = 0; space->me >= 0 && t < space->tensor_count; t++) {
        fast_space_range *range = &space->owners[space->me].store.ranges[t];
        out->gets += atomic_load(&range->gets);
        out->waited += atomic_load(&range->waited);
        out->applied += atomic_load(&range->applied);
        out->rejected += atomic_load(&range->rejected);
        out->staleness_sum += atomic_load(&range->staleness_sum);
        const int64_t largest = atomic_load(&range->staleness_max);
        out->staleness_max = largest > out->staleness_max ? largest : out->staleness_max;
    }
    if (space->me >= 0)
        fast_turn_end(space->actor);
}
