/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service of an owner for remote actors: in the owner's waits it does what local actors do by
 * themselves. A table maps each kind of request to its check and its handler. Updates are applied
 * straight from their messages; gets are answered, or stay pending, in space_answer.c.
 *
 * Nothing here blocks: a range that a local actor has locked is tried again when it is released,
 * and requests wait in their order meanwhile. Messages that are not valid requests of an actor that
 * opened the same space are dropped and counted.
 *
 * A request passes these stages:
 *
 *     fast__take() -> arrivals (only with `stalest`) -> is_valid() -> handle() -> freed
 *                                                           ^             |
 *                                                           +- deferred <-+ range locked
 *
 * Only one update is deferred, and only one lock is queued for, at a time: all later requests wait
 * behind it, which preserves the order of each actor's requests.
 */
#include "space/space_service.h"

#include "base/memory.h"
#include "space/space_chain.h"
#include "space/space_order.h"

#include <string.h>

/* Memory for every actor is taken at open: requests allocate nothing. */
fast_err fast__service_new(fast_space *space)
{
    FAST_ASSERT(space->map.tensor_count > 0);
    FAST_ASSERT(space->map.me >= 0 && !space->owned.service);
    const int64_t actors = fast_actor_count(space->actor);
    fast_space_service *s;
    FAST_TRY(fast__alloc("the service of a space", 1, sizeof *s, &s));
    space->owned.service = s;
    s->queued_read = -1;
    FAST_TRY(fast__alloc("the callers of a space", actors, sizeof *s->callers, &s->callers));
    FAST_TRY(fast__alloc("the callers of a space", actors, sizeof *s->unacked, &s->unacked));
    s->pending.capacity = 2 * actors;
    FAST_TRY(fast__alloc("pending requests of a space", s->pending.capacity,
                         sizeof *s->pending.list, &s->pending.list));
    return fast__alloc("snapshots of a space", space->map.tensor_count, sizeof *s->snapshots,
                       &s->snapshots);
}

/* Locks that are queued for must be given up, or their next owner is never woken. */
void fast__service_free(fast_space *space)
{
    fast_space_service *s = space->owned.service;
    if (!s)
        return;
    for (int64_t t = 0; s->snapshots && t < space->map.tensor_count; t++)
        fast_buffer_free(s->snapshots[t].buffer);
    if (s->queued)
        fast__space_cancel(space, space->map.me, s->deferred->words[FAST_SPACE_W_TENSOR], true,
                           FAST_SPACE_SERVICE);
    if (s->queued_read >= 0)
        fast__space_cancel(space, space->map.me, s->queued_read, false, FAST_SPACE_SERVICE);
    fast_msg_free(s->deferred);
    for (int64_t i = 0; i < s->arrivals.count; i++)
        fast_msg_free(s->arrivals.list[i]);
    fast__free(s->arrivals.list);
    for (int64_t i = 0; s->callers && i < fast_actor_count(space->actor); i++)
        fast__vector_free(s->callers[i].stage);
    for (int64_t i = 0; s->callers && i < fast_actor_count(space->actor); i++)
        fast__space_order_free(&s->callers[i].order);
    fast__free(s->callers);
    fast__free(s->unacked);
    fast__free(s->pending.list);
    fast__free(s->snapshots);
    fast__free(s);
    space->owned.service = NULL;
}

/* 0 for an actor without a service, which receives no requests. */
int64_t fast__service_refused(const fast_space *space)
{
    FAST_ASSERT(space);
    return space->owned.service ? space->owned.service->refused : 0;
}

/* Fewer floats than the range means that a piece was lost or refused: the update is dropped. */
int64_t fast__service_staged(const fast_space *space, int64_t from, const float **x_out)
{
    FAST_ASSERT(space->owned.service && from >= 0 && from < fast_actor_count(space->actor));
    const fast_space_caller *c = &space->owned.service->callers[from];
    *x_out = c->stage;
    return c->staged;
}

/* Requests: the operation of each has kind, tensor, owner, range, sender and the first word (id)
 * set; its check fills in the rest. */

/* PUT, ADD. */
static bool update_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_PUT || op->kind == FAST_SPACE_ADD);
    op->clock = msg->words[FAST_SPACE_W_B];
    op->version_read = msg->words[FAST_SPACE_W_C];
    return op->count > 0 && op->id == space->owned.service->callers[op->from].sequence + 1 &&
           op->clock >= 0 && op->version_read >= 0 &&
           (space->owned.follows ||
            op->version_read <= atomic_load(&fast__service_range(space, op->tensor)->version)) &&
           fast__space_unpack(space, msg, op);
}

/* Apply an update. Where a local actor has locked the range, s->queued is true afterwards, and the
 * update must be tried again. */
static fast_err handle_update(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->form);
    fast_space_service *s = space->owned.service;
    fast_space_caller *c = &s->callers[op->from];
    if (!fast__space_attempt(space, op->owner, op->tensor, true, FAST_SPACE_SERVICE, &s->queued))
        return FAST_OK;
    fast__space_apply(space, op);
    c->version = atomic_load(&fast__service_range(space, op->tensor)->version);
    c->tensor = op->tensor;
    fast__space_unlock(space, op->owner, op->tensor, true);
    fast__space_changed(space, fast__space_own_store(space));
    fast__service_note_applied(s, op);
    c->staged = 0;
    if (op->tensor == 0)
        c->announced = false;
    if (op->form->cost)
        FAST_TRY(op->form->cost(space, msg, op));
    return fast__space_charge(space, op);
}

/* HELLO: admit the actor if it opened this space, and for the first time in its life. Its updates
 * are numbered from 1 again, and it holds no values, unless this is its first life in a resumed
 * run: then it may hold those of the checkpoint, and an eager owner sends it more. */
static fast_err handle_hello(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_HELLO);
    fast_space_service *s = space->owned.service;
    fast_space_caller *c = &s->callers[op->from];
    fast_space_slot *slot = &fast__space_own_store(space)->slots[op->from];
    const int64_t life = msg->words[FAST_SPACE_W_B], clock = msg->words[FAST_SPACE_W_C];
    const uint32_t member = atomic_load(&slot->member);
    /* A copy that took another's place may know it already. */
    if (space->copies.link && c->greeted && life >= 0 && 2 * ((uint64_t)life + 1) == member)
        return FAST_OK;
    if ((uint64_t)op->id != space->signature || life < 0 || life > UINT32_MAX / 2 - 1 ||
        clock < 0 || 2 * ((uint32_t)life + 1) <= member) {
        s->refused++;
        return fast__service_answer(space, op->from, FAST_SPACE_REFUSED, 0, 0, 0, 0);
    }
    fast__service_drop(s, op->from, NULL);
    if (life > 0) /* a restarted actor holds no values; a new one may hold a checkpoint's */
        fast__space_forget(space, op->from);
    fast__space_order_free(&c->order);
    *c = (fast_space_caller){
        .greeted = true,
        .unacked = c->unacked,
        .stage = c->stage,
        .reads = life == 0 && c->reads,
        .held_version = life == 0 ? c->held_version : 0,
        .held_clock = life == 0 ? c->held_clock : 0,
    }; /* in a snapshot */
    atomic_store(&slot->clock, clock);
    atomic_store(&slot->member, 2 * ((uint32_t)life + 1));
    /* It looks for the first copy where it was at the start of the run. */
    return space->copies.link && space->copies.link->first && space->copies.link->me > 0
               ? fast__service_answer(space, op->from, FAST_SPACE_ROLE, 0, 0, life + 1, 1)
               : FAST_OK;
}

/* PIECE. */
static bool piece_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_PIECE);
    (void)op;
    return fast__space_is_piece(space, msg);
}

/* Stage a piece until its update ends. */
static fast_err handle_piece(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    fast_space_caller *c = &space->owned.service->callers[op->from];
    int64_t floats;
    FAST_ASSERT(op->tensor == 0);
    if (!c->stage)
        FAST_TRY(fast__vector_new(fast__space_device(space), "pieces of an update", op->count,
                                  &c->stage));
    FAST_TRY(fast__space_take_piece(space, msg, c->stage, &floats));
    c->staged += floats;
    space->owned.service->refused += floats == 0;
    return FAST_OK;
}

/* TICK. */
static bool tick_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_TICK);
    op->clock = msg->words[FAST_SPACE_W_B];
    return op->id == space->owned.service->callers[op->from].sequence + 1 && op->clock >= 0;
}

/* Set the sender's clock. */
static fast_err handle_tick(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->clock >= 0);
    fast_space_store *store = fast__space_own_store(space);
    (void)msg;
    if (op->clock > atomic_load(&store->slots[op->from].clock))
        atomic_store(&store->slots[op->from].clock, op->clock);
    fast__service_note_applied(space->owned.service, op);
    fast__space_changed(space, store);
    return FAST_OK;
}

/* GET. Flags that do not apply are dropped. */
static bool get_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_GET);
    const unsigned asked = (unsigned)msg->declared;
    op->version_min = msg->words[FAST_SPACE_W_B];
    op->clock_min = msg->words[FAST_SPACE_W_C];
    op->flags = asked & (FAST_SPACE_SIZES | FAST_SPACE_EITHER | FAST_SPACE_GROUP);
    if (op->flags & FAST_SPACE_GROUP) {
        op->group = op->version_min >> 32;
        op->group_count = op->version_min & UINT32_MAX;
        op->version_min = 0;
        if (op->group < 0 || op->group_count < 1 ||
            op->group_count > space->clocks.writer_count - op->group)
            return false;
    }
    if (op->tensor == 0)
        op->flags |= asked & FAST_SPACE_WHOLE;
    if (op->tensor == 0 && !(asked & FAST_SPACE_SIZES) &&
        !fast__space_is_coded(space, FAST_SPACE_DOWN, 0))
        op->flags |= asked & FAST_SPACE_SLICES;
    return op->count > 0 && op->id > 0;
}

/* Answer the get, or notify the watcher, now or later. */
static fast_err handle_get(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->id >= 0);
    (void)msg;
    space->owned.service->callers[op->from].reads |=
        op->id > 0 && op->tensor == 0 && !(op->flags & FAST_SPACE_SIZES);
    return fast__service_answer_or_wait(space, op);
}

/* WATCH: handled like a get, with id 0. */
static bool watch_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_WATCH);
    const int64_t known = msg->words[FAST_SPACE_W_B];
    (void)space;
    if (op->count == 0 || known < 0 || known == INT64_MAX)
        return false;
    op->id = 0;
    op->version_min = known + 1;
    return true;
}

/* ANNOUNCE. */
static bool announce_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_ANNOUNCE);
    (void)space;
    (void)msg;
    return op->count > 0 && op->tensor == 0;
}

/* Let gets of other actors wait for the sender's next update. */
static fast_err handle_announce(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->tensor == 0);
    fast_space_service *s = space->owned.service;
    (void)msg;
    s->callers[op->from].announced = s->announces = true;
    return FAST_OK;
}

/* ORDER. */
static bool order_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_ORDER);
    (void)space;
    return op->tensor == 0 && msg->declared == 0;
}

/* Send slices to this actor in its order from now on. */
static fast_err handle_order(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->tensor == 0);
    return fast__space_take_order(space, msg, &space->owned.service->callers[op->from].order);
}

/* LEAVE. */
static fast_err handle_leave(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_LEAVE);
    fast_space_service *s = space->owned.service;
    (void)msg;
    s->callers[op->from].announced = false;
    fast__service_drop(s, op->from, NULL);
    s->callers[op->from].greeted = false;
    fast__space_left(space, space->map.me, op->from);
    FAST_TRY(fast__service_send_acks(space));
    return fast__copies_answer(space)
               ? fast__service_answer(space, op->from, FAST_SPACE_LEFT, 0, 0, 0, 0)
               : FAST_OK;
}

/* How a kind of request is checked and handled. */
typedef struct space_request {
    /* Fill in the operation; false if the request makes no sense. NULL: always valid. */
    bool (*is_valid)(fast_space *space, const fast_msg *msg, fast_space_operation *op);
    /* Execute it; never blocks. NULL: no request has this kind. */
    fast_err (*handle)(fast_space *space, const fast_msg *msg, fast_space_operation *op);
    bool reads; /* it changes nothing that a pending request could wait for */
} space_request;

static const space_request requests[FAST_SPACE_KINDS] = {
    [FAST_SPACE_HELLO] = { NULL, handle_hello, false },
    [FAST_SPACE_PUT] = { update_is_valid, handle_update, false },
    [FAST_SPACE_ADD] = { update_is_valid, handle_update, false },
    [FAST_SPACE_PIECE] = { piece_is_valid, handle_piece, false },
    [FAST_SPACE_TICK] = { tick_is_valid, handle_tick, false },
    [FAST_SPACE_GET] = { get_is_valid, handle_get, true },
    [FAST_SPACE_WATCH] = { watch_is_valid, handle_get, true },
    [FAST_SPACE_ANNOUNCE] = { announce_is_valid, handle_announce, false },
    [FAST_SPACE_ORDER] = { order_is_valid, handle_order, true },
    [FAST_SPACE_LEAVE] = { NULL, handle_leave, false },
};

/* Handle one request. If s->queued is true afterwards, it must be tried again. */
static fast_err handle(fast_space *space, const fast_msg *msg)
{
    FAST_ASSERT(msg->from >= 0 && msg->from < fast_actor_count(space->actor));
    fast_space_service *s = space->owned.service;
    const int64_t *w = msg->words, kind = w[FAST_SPACE_W_KIND], tensor = w[FAST_SPACE_W_TENSOR];
    const bool known = kind >= 0 && kind < FAST_SPACE_KINDS && requests[kind].handle;
    s->dirty |= !known || !requests[kind].reads;
    /* A LEAVE may come again, where the copy that answered it is down. */
    const bool again = space->copies.link && kind == FAST_SPACE_LEAVE;
    if (!known || tensor < 0 || tensor >= space->map.tensor_count ||
        w[FAST_SPACE_W_OWNER] != space->map.me ||
        (kind != FAST_SPACE_HELLO && !again && !s->callers[msg->from].greeted)) {
        s->refused++;
        return FAST_OK;
    }
    fast_space_operation op = { .kind = (fast_space_kind)kind,
                                .tensor = tensor,
                                .owner = space->map.me,
                                .from = msg->from,
                                .id = w[FAST_SPACE_W_A] };
    fast__space_range(space, op.owner, tensor, &op.offset, &op.count);
    if (requests[kind].is_valid && !requests[kind].is_valid(space, msg, &op)) {
        s->refused++;
        return FAST_OK;
    }
    /* Gets are answered by the last copy. */
    if (fast__copies_answer(space) || !requests[kind].reads)
        FAST_TRY(requests[kind].handle(space, msg, &op));
    return fast__copies_pass(space, msg);
}

/* Set *out to the next request: the oldest, or with `stalest` the oldest of the actor with the
 * smallest clock; NULL if none has arrived. */
static fast_err next_request(fast_space *space, fast_msg **out)
{
    FAST_ASSERT(out);
    fast_space_service *s = space->owned.service;
    fast_space_arrivals *a = &s->arrivals;
    const uint64_t tag = fast__space_tag(space, false);
    const fast_space_slot *slots = fast__space_own_store(space)->slots;
    int64_t best = 0;
    fast_msg *msg = s->deferred;
    s->deferred = NULL;
    if (msg || !space->owned.stalest) {
        *out = msg ? msg : fast__take(space->actor, FAST_ANY, tag);
        return FAST_OK;
    }
    *out = NULL;
    while ((msg = fast__take(space->actor, FAST_ANY, tag))) {
        void *list = a->list;
        const fast_err err = fast__service_reserve("requests to a space", sizeof *a->list, a->count,
                                                   &a->capacity, &list);
        a->list = list;
        if (err) {
            fast_msg_free(msg);
            return err;
        }
        a->list[a->count++] = msg;
    }
    for (int64_t i = 1; i < a->count; i++)
        if (atomic_load(&slots[a->list[i]->from].clock) <
            atomic_load(&slots[a->list[best]->from].clock))
            best = i;
    if (a->count == 0)
        return FAST_OK;
    *out = a->list[best];
    a->count--;
    memmove(&a->list[best], &a->list[best + 1], (size_t)(a->count - best) * sizeof *a->list);
    return FAST_OK;
}

/* Handle all requests, then acknowledge, push and try pending gets: in this order an actor hears
 * of its own update before it reads. */
fast_err fast__service_advance(fast_space *space)
{
    FAST_ASSERT(space->owned.service);
    fast_space_service *s = space->owned.service;
    bool asked = false; /* a get was handled, and no update after it */
    FAST_TRY(fast__copies_advance(space));
    s->postponed = space->owned.gathers;
    for (;;) {
        /* A lock that is queued for reading comes first: one lock at a time. */
        if (s->queued_read >= 0) {
            fast_space_snapshot *shot;
            FAST_TRY(fast__service_snapshot(space, s->queued_read, -1, &shot));
            if (!shot)
                break;
        }
        fast_msg *msg;
        FAST_TRY(next_request(space, &msg));
        if (!msg)
            break;
        const int64_t kind = msg->words[FAST_SPACE_W_KIND];
        fast_err err = FAST_OK;
        /* An update takes time: gets that arrived before it do not wait for it. */
        if (fast__copies_handle(space, msg, &err) || !fast__copies_accept(space, msg)) {
            fast_msg_free(msg);
            FAST_TRY(err);
            continue;
        }
        if (s->postponed && asked && kind == FAST_SPACE_ADD)
            err = fast__service_try_all(space);
        asked = kind == FAST_SPACE_GET || (asked && kind != FAST_SPACE_ADD);
        if (!err)
            err = handle(space, msg);
        if (s->queued) {
            s->deferred = msg;
            break;
        }
        fast_msg_free(msg);
        FAST_TRY(err);
    }
    FAST_TRY(fast__service_send_acks(space));
    /* Armed before it looks: local actors change things too. */
    if (s->pending.count > 0 || space->reader.eager)
        fast__space_arm(space, fast__space_own_store(space));
    s->postponed &= s->pending.count > 0;
    if (s->postponed)
        return FAST_OK;
    FAST_TRY(fast__service_push(space));
    return fast__service_try_all(space);
}

/* Requests of one instant arrive one by one; one nanosecond later all are there. */
fast_err fast__service_gather(fast_space *space)
{
    FAST_ASSERT(space->owned.service && space->owned.gathers);
    if (!space->owned.service->postponed)
        return FAST_OK;
    FAST_TRY(fast_sleep_until(space->actor, fast_now(space->actor) + 1));
    space->owned.gathers = false;
    const fast_err err = fast__service_advance(space);
    space->owned.gathers = true;
    return err;
}

/* The next fast__service_try_all() looks at all pending requests. */
void fast__service_touch(fast_space *space)
{
    FAST_ASSERT(space->owned.service != NULL);
    space->owned.service->dirty = true;
}

/* A reader waits for the announced update of another actor, or for the slowest writer. */
int64_t fast__service_explain(fast_space *space, int64_t origin)
{
    FAST_ASSERT(origin >= 0);
    FAST_ASSERT(space->owned.service);
    const fast_space_service *s = space->owned.service;
    for (int64_t i = 0; i < s->pending.count; i++)
        if (s->pending.list[i].from == origin && s->pending.list[i].id != 0) {
            const int64_t id = fast__service_announcer(space, origin);
            return id >= 0 ? id
                           : fast__space_slowest(space, fast__space_own_store(space),
                                                 &s->pending.list[i]);
        }
    return -1;
}

/* False where no actor is remote. */
bool fast__service_awaits(fast_space *space)
{
    FAST_ASSERT(space->map.me >= 0);
    return space->owned.service && fast__service_announcer(space, fast_actor_id(space->actor)) >= 0;
}

/* Actors that have left get no message; a failed send ends the loop, as the owner was stopped. */
void fast__service_close(fast_space *space)
{
    FAST_ASSERT(space->owned.service);
    for (int64_t id = 0; id < fast_actor_count(space->actor); id++)
        if (space->owned.service->callers[id].greeted &&
            fast__service_answer(space, id, FAST_SPACE_GONE, 0, 0, 0, 0) != FAST_OK)
            return;
}
