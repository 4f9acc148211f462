/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answers of an owner's service. A get whose conditions do not hold yet stays pending until
 * they do; so does a watcher's request to be notified. Values go out as a frozen snapshot of the
 * range, which the readers of one version share; where differences are read, each reader has its
 * own. Acknowledgements are sent once all requests that have arrived were handled: one for any
 * number of updates.
 *
 *     GET, WATCH --> conditions hold? --yes--> VALUE or NOTIFY
 *                          | no
 *                          v
 *                       pending --> tried again after each update, tick, or leave
 *                          |
 *                          +------> NEVER, if no actor is left that could bring the version
 *
 * With a budget of codec_down an answer may hold elements back, those that changed least. Its
 * version and clock are then those of the last answer that held none back: every element is at
 * least as new. A get whose conditions they do not satisfy is answered with all elements, beyond
 * the budget, so that the bound of staleness holds for each.
 *
 * Cost: one message for each get and one copy for each version that is read, however many readers
 * it has. An eager owner sends one message for each reader and round, and is asked for none.
 */
#include "space/space_service.h"

#include "base/memory.h"
#include "space/space_chain.h"
#include "space/space_order.h"

#include <string.h>

/* A receiver that has ended is no error: nobody waits for this answer. */
fast_err fast__service_answer(fast_space *space, int64_t to, fast_space_kind kind, int64_t tensor,
                              int64_t a, int64_t b, int64_t c)
{
    const int64_t words[3] = { a, b, c };
    FAST_ASSERT(kind >= FAST_SPACE_ACK);
    const fast_err err = fast__space_tell(space, to, kind, tensor, space->map.me, words);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Copy a range that is locked to a new frozen snapshot, as `reader` is to receive it. */
static fast_err copy_range(fast_space *space, int64_t tensor, int64_t reader,
                           fast_space_snapshot *shot)
{
    fast_space_operation op = { .kind = FAST_SPACE_VALUE,
                                .tensor = tensor,
                                .owner = space->map.me,
                                .from = reader,
                                .x = fast__space_values(space, space->map.me, tensor) };
    fast_space_packed packed;
    fast__space_range(space, op.owner, tensor, &op.offset, &op.count);
    FAST_TRY(fast__space_pack(space, &op, &packed));
    FAST_ASSERT(packed.buffers[0] && !packed.buffers[1] && packed.declared == 0);
    if (!fast_buffer_is_frozen(packed.buffers[0]))
        fast_buffer_freeze(packed.buffers[0]);
    fast_buffer_free(shot->buffer);
    *shot = (fast_space_snapshot){ .buffer = packed.buffers[0],
                                   .size = packed.sizes[0],
                                   .copied = true,
                                   .version =
                                       atomic_load(&fast__service_range(space, tensor)->version) };
    return FAST_OK;
}

/* A snapshot of the current version is shared; else the range is copied under its lock. */
fast_err fast__service_snapshot(fast_space *space, int64_t tensor, int64_t reader,
                                fast_space_snapshot **out)
{
    FAST_ASSERT(tensor >= 0 && tensor < space->map.tensor_count);
    FAST_ASSERT(out);
    fast_space_service *s = space->owned.service;
    fast_space_snapshot *shot = &s->snapshots[tensor];
    const bool differs = fast__space_differs(space, tensor);
    *out = NULL;
    if (!differs && shot->buffer &&
        shot->version == atomic_load(&fast__service_range(space, tensor)->version)) {
        *out = shot;
        return FAST_OK;
    }
    /* One lock is queued for at a time; other ranges are tried after it was released. */
    if ((s->queued_read >= 0 && s->queued_read != tensor) || s->deferred)
        return FAST_OK;
    bool queued = s->queued_read >= 0;
    const bool locked =
        fast__space_attempt(space, space->map.me, tensor, false, FAST_SPACE_SERVICE, &queued);
    s->queued_read = queued ? tensor : -1;
    if (!locked)
        return FAST_OK;
    const bool wanted = !differs || reader >= 0;
    /* The run that this one continues has copied this version, and was charged for it. */
    const bool charged = !shot->buffer && shot->copied &&
                         shot->version == atomic_load(&fast__service_range(space, tensor)->version);
    const fast_err err = wanted ? copy_range(space, tensor, reader, shot) : FAST_OK;
    fast__space_unlock(space, space->map.me, tensor, false);
    FAST_TRY(err);
    *out = shot;
    return wanted && !charged && !fast__space_is_coded(space, FAST_SPACE_DOWN, tensor)
               ? fast_charge(space->actor, 0, 2.0 * (double)shot->size)
               : FAST_OK;
}

/* An announced update of an actor that went down never arrives: gets do not wait for it. */
int64_t fast__service_announcer(fast_space *space, int64_t reader)
{
    FAST_ASSERT(space->owned.service);
    const fast_space_service *s = space->owned.service;
    for (int64_t id = 0; s->announces && id < fast_actor_count(space->actor); id++)
        if (s->callers[id].announced && id != reader && !fast_member_is_down(space->actor, id))
            return id;
    return -1;
}

/* Gather n floats of an answer from a position on in *out. On failure *move is freed. */
static fast_err pack_rows(fast_space *space, const fast_space_operation *get,
                          const fast_space_snapshot *shot, int64_t position, int64_t n,
                          fast_msg **move, fast_buffer **out)
{
    FAST_ASSERT(n > 0);
    const fast_err err = fast_buffer_new(space->actor, (size_t)n * sizeof(float), out);
    if (err) {
        fast_msg_free(*move);
        *move = NULL;
        return err;
    }
    fast__space_order_pack(&space->owned.service->callers[get->from].order, get->offset, get->count,
                           position, n, fast_buffer_data(shot->buffer), fast_buffer_data(*out));
    return fast_charge(space->actor, 0, 8.0 * (double)n);
}

/* Send the slices of an answer, which precede its end. */
static fast_err send_slices(fast_space *space, const fast_space_operation *get,
                            const fast_space_snapshot *shot)
{
    FAST_ASSERT(get->tensor == 0 && shot);
    const fast_space_order *order = &space->owned.service->callers[get->from].order;
    const int64_t size = fast__space_order_size(order, get->offset, get->count);
    for (int64_t position = 0, n; position < size; position += n) {
        const int64_t at = fast__space_order_at(order, get->offset, get->count, position, &n);
        const int64_t left = size - position;
        fast_buffer *rows = NULL;
        /* Of a part of the tensor many short ranges are one slice. */
        n = size < get->count ? left : n;
        n = n < FAST_SPACE_SLICE ? n : FAST_SPACE_SLICE;
        const int64_t words[3] = { get->id, at, 0 };
        fast_msg *msg;
        FAST_TRY(fast__space_message(space, FAST_SPACE_SLICED, 0, space->map.me, words, &msg));
        if (size < get->count)
            FAST_TRY(pack_rows(space, get, shot, position, n, &msg, &rows));
        if (rows)
            fast_msg_add(msg, &rows);
        else
            fast_msg_add_view(msg, shot->buffer, (size_t)at * sizeof(float),
                              (size_t)n * sizeof(float));
        const fast_err err = fast_send(space->actor, get->from, &msg);
        if (err)
            return err == FAST_EPEER ? FAST_OK : err;
    }
    return FAST_OK;
}

/* Send values to a reader: a snapshot for it, or for all readers. With a budget the words of the
 * message tell the version and clock that all elements have. */
static fast_err send_snapshot(fast_space *space, int64_t to, int64_t id, int64_t clock,
                              const fast_space_snapshot *shot)
{
    FAST_ASSERT(shot);
    fast_space_caller *c = &space->owned.service->callers[to];
    const bool complete = fast__space_is_complete(space, to);
    if (complete) {
        c->held_version = shot->version;
        c->held_clock = clock;
    }
    const int64_t words[3] = { id, c->held_version, c->held_clock };
    fast_msg *msg;
    FAST_TRY(fast__space_message(space, FAST_SPACE_VALUE, 0, space->map.me, words, &msg));
    fast_msg_add_view(msg, shot->buffer, 0, shot->size);
    if (!complete)
        msg->declared = FAST_SPACE_PARTIAL;
    const fast_err err = fast_send(space->actor, to, &msg);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* With a budget, before a get is answered: all elements are sent if those that the reader holds are
 * older than it allows. */
static void limit_answer(fast_space *space, const fast_space_operation *get)
{
    FAST_ASSERT(get->kind == FAST_SPACE_GET);
    const fast_space_caller *c = &space->owned.service->callers[get->from];
    if (get->tensor == 0 && fast__space_limits(space))
        fast__space_send_all(
            space, !fast__space_satisfies(get, c->held_clock >= get->clock_min, c->held_version));
}

/* Answer a get whose conditions hold; *done_out is false while its range is locked. */
static fast_err send_value(fast_space *space, const fast_space_operation *get, int64_t version,
                           int64_t clock, bool *done_out)
{
    FAST_ASSERT(get->kind == FAST_SPACE_GET);
    const bool sliced = (get->flags & FAST_SPACE_SLICES) != 0;
    fast_space_snapshot *shot = NULL;
    /* A reader that asks for all values has lost its copy: forget it, so that no difference to it
     * is sent. */
    if (get->flags & FAST_SPACE_WHOLE)
        fast__space_forget(space, get->from);
    if (!(get->flags & FAST_SPACE_SIZES)) {
        limit_answer(space, get);
        FAST_TRY(fast__service_snapshot(space, get->tensor, get->from, &shot));
        *done_out = shot != NULL;
        if (!shot) {
            space->owned.service->dirty = true;
            return FAST_OK;
        }
        version = shot->version;
        atomic_fetch_add(&fast__service_range(space, get->tensor)->gets, 1);
        if (!sliced && get->tensor == 0)
            return send_snapshot(space, get->from, get->id, clock, shot);
    }
    if (sliced)
        FAST_TRY(send_slices(space, get, shot));
    fast_msg *msg;
    const int64_t words[3] = { get->id, version, clock };
    FAST_TRY(fast__space_message(space, FAST_SPACE_VALUE, get->tensor, space->map.me, words, &msg));
    if (shot && !sliced)
        fast_msg_add_view(msg, shot->buffer, 0, shot->size);
    else if (!shot)
        msg->declared = (size_t)get->count * sizeof(float);
    if (!shot)
        atomic_fetch_add(&fast__service_range(space, get->tensor)->gets, 1);
    const fast_err err = fast_send(space->actor, get->from, &msg);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Answer a get or a watcher if its conditions hold, or never can; *done_out says if it did. */
static fast_err try_pending(fast_space *space, fast_space_operation *op, bool *done_out)
{
    FAST_ASSERT(op->kind == FAST_SPACE_GET || op->kind == FAST_SPACE_WATCH);
    fast_space_store *store = fast__space_own_store(space);
    fast_space_range *range = fast__service_range(space, op->tensor);
    int64_t clock;
    const bool in_time = fast__space_in_time(space, store, op, &clock);
    const int64_t version = atomic_load(&range->version);
    *done_out = fast__space_satisfies(op, in_time, version);
    /* Values that are about to be overwritten are not worth sending: wait for the announced
     * update. */
    if (*done_out && op->id != 0 && op->tensor == 0 && !(op->flags & FAST_SPACE_SIZES) &&
        fast__service_announcer(space, op->from) >= 0) {
        *done_out = false;
        return FAST_OK;
    }
    if (op->id == 0)
        return *done_out ? fast__service_answer(space, op->from, FAST_SPACE_NOTIFY, op->tensor, 0,
                                                version, clock)
                         : FAST_OK;
    if (*done_out)
        return send_value(space, op, version, clock, done_out);
    /* Counted once for each get, however often it is tried. */
    if (!(op->flags & FAST_SPACE_WAITED))
        atomic_fetch_add(&range->waited, 1);
    op->flags |= FAST_SPACE_WAITED;
    *done_out = version < op->version_min && fast__space_active(space, store, op->from) < 0;
    return *done_out
               ? fast__service_answer(space, op->from, FAST_SPACE_NEVER, op->tensor, op->id, 0, 0)
               : FAST_OK;
}

/* An actor has at most one get and one watch of each tensor; a newer one means that it gave up
 * the older. */
void fast__service_drop(fast_space_service *s, int64_t from, const fast_space_operation *newer)
{
    FAST_ASSERT(s && from >= 0);
    int64_t left = 0;
    if (s->callers[from].pending == 0)
        return;
    for (int64_t i = 0; i < s->pending.count; i++) {
        const fast_space_operation *p = &s->pending.list[i];
        const bool replaced = !newer || (newer->id != 0 && p->id != 0) ||
                              (newer->id == 0 && p->id == 0 && p->tensor == newer->tensor);
        if (p->from != from || !replaced)
            s->pending.list[left++] = *p;
    }
    s->callers[from].pending -= s->pending.count - left;
    s->pending.count = left;
    FAST_ASSERT(s->callers[from].pending >= 0);
}

/* Doubles, so that a list that grows to n costs O(n) copies in all. */
fast_err fast__service_reserve(const char *what, size_t size, int64_t count, int64_t *capacity,
                               void **list)
{
    const int64_t more = *capacity > 0 ? 2 * *capacity : 64;
    void *larger;
    FAST_ASSERT(count <= *capacity);
    if (count < *capacity)
        return FAST_OK;
    FAST_TRY(fast__alloc(what, more, size, &larger));
    if (count > 0)
        memcpy(larger, *list, (size_t)count * size);
    fast__free(*list);
    *list = larger;
    *capacity = more;
    return FAST_OK;
}

/* Return the place of an actor in the order of answers, which starts behind this owner's number: a
 * worker whose server is on its own node then hears of one other server at a time. */
static int64_t place_of(const fast_space *space, int64_t id)
{
    const int64_t count = fast_actor_count(space->actor);
    FAST_ASSERT(id >= 0 && id < count && space->map.me >= 0);
    return (id + count - (space->map.me + 1) % count) % count;
}

/* Return true if actor a is answered before actor b: a worker that has made fewer updates holds up
 * the others, and is first. */
static bool is_before(const fast_space *space, int64_t a, int64_t b)
{
    const fast_space_slot *slots = fast__space_own_store(space)->slots;
    const int64_t first = atomic_load(&slots[a].updates), second = atomic_load(&slots[b].updates);
    FAST_ASSERT(a >= 0 && b >= 0);
    return first != second ? first < second : place_of(space, a) < place_of(space, b);
}

/* The newer request of an actor replaces its older one before it is tried: an answer to the older
 * one would be dropped by its receiver. */
fast_err fast__service_answer_or_wait(fast_space *space, fast_space_operation *op)
{
    FAST_ASSERT(op->from >= 0);
    fast_space_service *s = space->owned.service;
    fast_space_pending *p = &s->pending;
    bool done = false;
    fast__service_drop(s, op->from, op);
    if (!space->owned.gathers)
        FAST_TRY(try_pending(space, op, &done));
    if (done)
        return FAST_OK;
    s->dirty = true;
    void *list = p->list;
    FAST_TRY(fast__service_reserve("pending requests of a space", sizeof *p->list, p->count,
                                   &p->capacity, &list));
    p->list = list;
    int64_t at = p->count++;
    for (; at > 0 && is_before(space, op->from, p->list[at - 1].from); at--)
        p->list[at] = p->list[at - 1];
    p->list[at] = *op;
    s->callers[op->from].pending++;
    return FAST_OK;
}

/* Without a change, and without local actors, no answer can differ from the last try. */
fast_err fast__service_try_all(fast_space *space)
{
    FAST_ASSERT(space->owned.service->pending.count >= 0);
    fast_space_service *s = space->owned.service;
    fast_space_store *store = fast__space_own_store(space);
    int64_t clock;
    (void)fast__space_clock(space, store, 0, &clock);
    if (s->pending.count == 0 ||
        (!s->dirty && clock == s->clock && !space->owned.shared && !s->announces &&
         fast__space_active(space, store, -1) == s->active))
        return FAST_OK;
    s->dirty = false;
    s->clock = clock;
    s->active = fast__space_active(space, store, -1);
    int64_t left = 0;
    fast_err err = FAST_OK;
    for (int64_t i = 0; i < s->pending.count; i++) {
        fast_space_operation *p = &s->pending.list[i];
        bool done = false;
        if (!err)
            err = try_pending(space, p, &done);
        if (!done)
            s->pending.list[left++] = *p;
        else
            s->callers[p->from].pending--;
    }
    /* After a failure the rest stays pending: the task's error ends the space anyway. */
    s->pending.count = left;
    return err;
}

/* Each actor is listed once, however many of its updates were applied. */
void fast__service_note_applied(fast_space_service *s, const fast_space_operation *op)
{
    FAST_ASSERT(op->id == s->callers[op->from].sequence + 1);
    fast_space_caller *c = &s->callers[op->from];
    c->sequence = op->id;
    if (!c->unacked)
        s->unacked[s->unacked_count++] = op->from;
    c->unacked = true;
}

/* The newest sequence number of an actor acknowledges all before it. */
fast_err fast__service_send_acks(fast_space *space)
{
    FAST_ASSERT(space->owned.service);
    fast_space_service *s = space->owned.service;
    for (; s->unacked_count > 0; s->unacked_count--) {
        const int64_t to = s->unacked[s->unacked_count - 1];
        fast_space_caller *c = &s->callers[to];
        c->unacked = false;
        if (!fast__copies_answer(space))
            continue;
        FAST_TRY(
            fast__service_answer(space, to, FAST_SPACE_ACK, c->tensor, c->sequence, c->version, 0));
    }
    return FAST_OK;
}

/* One snapshot serves all readers, unless each reads differences of its own. */
fast_err fast__service_push(fast_space *space)
{
    FAST_ASSERT(space->owned.service);
    fast_space_service *s = space->owned.service;
    fast_space_snapshot *shot;
    int64_t clock, offset, count;
    (void)fast__space_clock(space, fast__space_own_store(space), 0, &clock);
    fast__space_range(space, space->map.me, 0, &offset, &count);
    if (!space->reader.eager || clock <= s->pushed || count == 0)
        return FAST_OK;
    FAST_TRY(fast__service_snapshot(space, 0, -1, &shot));
    if (!shot)
        return FAST_OK;
    s->pushed = clock;
    const int64_t actors = fast_actor_count(space->actor);
    for (int64_t i = 0; i < actors; i++) {
        const int64_t id = (space->map.me + 1 + i) % actors;
        const fast_space_caller *c = &s->callers[id];
        if (!c->greeted || !c->reads || c->pending > 0)
            continue;
        if (fast__space_limits(space))
            fast__space_send_all(space, false);
        if (fast__space_differs(space, 0))
            FAST_TRY(fast__service_snapshot(space, 0, id, &shot));
        if (!shot) /* locked meanwhile: the actors that are left out read by themselves */
            return FAST_OK;
        FAST_TRY(send_snapshot(space, id, -c->sequence, clock, shot));
    }
    return FAST_OK;
}
