/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service of an owner for remote actors: in the owner's waits it does what local actors do by
 * themselves. A table maps each kind of request to its check and its handler. Updates are applied
 * straight from their messages. A get whose conditions do not hold yet stays pending until they do;
 * so does a watcher's request to be notified. Answers to several readers of one version share one
 * frozen snapshot, made when the first of them asks.
 *
 * Nothing here blocks: a range that a local actor has locked is tried again when it is released,
 * and requests wait in their order meanwhile. Messages that are not valid requests of an actor that
 * opened the same space are dropped and counted.
 */
#include "space/space_form.h"
#include "space/space_store.h"

#include "base/memory.h"

#include <string.h>

/* One remote actor, as the service knows it. */
typedef struct space_caller {
    int64_t sequence; /* number of its last update or tick */
    int64_t version;  /* version that its last update made */
    int64_t tensor;   /* tensor of that update */
    int64_t pending;  /* its requests that are pending */
    bool greeted;     /* it opened the same space */
    bool announced;   /* its next update of tensor 0 was announced: other actors' gets wait */
    bool unacked;     /* it is to be sent an acknowledgement */
    int64_t staged;   /* floats of its next update that have arrived in pieces */
    float *stage;     /* those floats, in a copy of the range; NULL: none ever arrived */
    bool reads;       /* it has read tensor 0: an eager owner sends it new values */
} space_caller;

/* The copy of a range that is sent to readers. */
typedef struct space_snapshot {
    fast_buffer *buffer; /* frozen; or NULL */
    size_t size;         /* bytes of it that are used */
    int64_t version;     /* of the range when it was copied */
} space_snapshot;

/* Gets and watches whose conditions do not hold yet, in the order of their arrival. */
typedef struct space_pending {
    fast_space_operation *list; /* [capacity] */
    int64_t count;              /* number of operations */
    int64_t capacity;           /* room for them */
} space_pending;

/* Requests that have arrived, where the stalest is handled first. */
typedef struct space_arrivals {
    fast_msg **list;  /* [capacity] */
    int64_t count;    /* number of messages */
    int64_t capacity; /* room for them */
} space_arrivals;

typedef struct fast_space_service {
    space_caller *callers;     /* [actors] */
    int64_t *unacked;          /* [actors]: those that are to be sent an acknowledgement */
    int64_t unacked_count;     /* number of them */
    space_pending pending;     /* gets and watches */
    space_snapshot *snapshots; /* [tensors] */
    fast_msg *deferred;        /* an update whose range is locked; or NULL */
    bool queued;               /* its range's lock is queued for */
    int64_t queued_read;       /* tensor whose lock is queued for reading; or -1 */
    int64_t refused;           /* requests that were dropped */
    int64_t clock;             /* clock of the space when pending requests were last tried */
    int64_t active;            /* an actor that was in then */
    bool dirty;                /* something changed since then */
    bool announces;            /* some actor has ever announced an update */
    int64_t pushed;            /* eager: the clock at which values were last sent unasked */
    space_arrivals arrivals;   /* requests, stalest first */
} fast_space_service;

fast_err fast__service_new(fast_space *space)
{
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
        fast__free(s->callers[i].stage);
    fast__free(s->callers);
    fast__free(s->unacked);
    fast__free(s->pending.list);
    fast__free(s->snapshots);
    fast__free(s);
    space->owned.service = NULL;
}

int64_t fast__service_refused(const fast_space *space)
{
    return space->owned.service ? space->owned.service->refused : 0;
}

int64_t fast__service_staged(const fast_space *space, int64_t from, const float **x_out)
{
    FAST_ASSERT(space->owned.service && from >= 0 && from < fast_actor_count(space->actor));
    const space_caller *c = &space->owned.service->callers[from];
    *x_out = c->stage;
    return c->staged;
}

/* Send an answer without values. That the receiver has gone meanwhile is no error here. */
static fast_err answer(fast_space *space, int64_t to, fast_space_kind kind, int64_t tensor,
                       int64_t a, int64_t b, int64_t c)
{
    const int64_t words[3] = { a, b, c };
    FAST_ASSERT(kind >= FAST_SPACE_ACK);
    const fast_err err = fast__space_tell(space, to, kind, tensor, space->map.me, words);
    return err == FAST_EPEER ? FAST_OK : err;
}

static fast_space_range *range_of(fast_space *space, int64_t tensor)
{
    return &fast__space_own_store(space)->ranges[tensor];
}

/* Copy a range that is locked to a new frozen snapshot, as `reader` is to receive it. */
static fast_err copy_range(fast_space *space, int64_t tensor, int64_t reader, space_snapshot *shot)
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
    *shot = (space_snapshot){ .buffer = packed.buffers[0],
                              .size = packed.sizes[0],
                              .version = atomic_load(&range_of(space, tensor)->version) };
    return FAST_OK;
}

/* Set *out to a snapshot of the newest version of a range; where differences are read, to the one
 * that `reader` lacks, which must then be sent to it (-1: only the lock is wanted). *out is NULL
 * while another actor has the range locked. */
static fast_err take_snapshot(fast_space *space, int64_t tensor, int64_t reader,
                              space_snapshot **out)
{
    fast_space_service *s = space->owned.service;
    space_snapshot *shot = &s->snapshots[tensor];
    const bool differs = fast__space_differs(space, tensor);
    *out = NULL;
    if (!differs && shot->buffer &&
        shot->version == atomic_load(&range_of(space, tensor)->version)) {
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
    const fast_err err = wanted ? copy_range(space, tensor, reader, shot) : FAST_OK;
    fast__space_unlock(space, space->map.me, tensor, false);
    FAST_TRY(err);
    *out = shot;
    return wanted && !fast__space_is_coded(space, FAST_SPACE_DOWN, tensor)
               ? fast_charge(space->actor, 0, 2.0 * (double)shot->size)
               : FAST_OK;
}

/* Return another actor, still in, whose announced update has not arrived; or -1. */
static int64_t announcer(fast_space *space, int64_t reader)
{
    const fast_space_service *s = space->owned.service;
    for (int64_t id = 0; s->announces && id < fast_actor_count(space->actor); id++)
        if (s->callers[id].announced && id != reader && !fast_member_is_down(space->actor, id))
            return id;
    return -1;
}

/* Send the slices of an answer, which precede its end. */
static fast_err send_slices(fast_space *space, const fast_space_operation *get,
                            const space_snapshot *shot)
{
    for (int64_t at = 0; at < get->count; at += FAST_SPACE_SLICE) {
        const int64_t n = get->count - at < FAST_SPACE_SLICE ? get->count - at : FAST_SPACE_SLICE;
        const int64_t words[3] = { get->id, at, 0 };
        fast_msg *msg;
        FAST_TRY(fast__space_message(space, FAST_SPACE_SLICED, 0, space->map.me, words, &msg));
        fast_msg_add_view(msg, shot->buffer, (size_t)at * sizeof(float), (size_t)n * sizeof(float));
        const fast_err err = fast_send(space->actor, get->from, &msg);
        if (err)
            return err == FAST_EPEER ? FAST_OK : err;
    }
    return FAST_OK;
}

/* Answer a get whose conditions hold; *done_out is false while its range is locked. */
static fast_err send_value(fast_space *space, const fast_space_operation *get, int64_t version,
                           int64_t clock, bool *done_out)
{
    const bool sliced = (get->flags & FAST_SPACE_SLICES) != 0;
    space_snapshot *shot = NULL;
    if (get->flags & FAST_SPACE_WHOLE)
        fast__space_forget(space, get->from);
    if (!(get->flags & FAST_SPACE_SIZES)) {
        FAST_TRY(take_snapshot(space, get->tensor, get->from, &shot));
        *done_out = shot != NULL;
        if (!shot) {
            space->owned.service->dirty = true;
            return FAST_OK;
        }
        version = shot->version;
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
    atomic_fetch_add(&range_of(space, get->tensor)->gets, 1);
    const fast_err err = fast_send(space->actor, get->from, &msg);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Answer a get or a watcher if its conditions hold, or never can; *done_out says if it did. */
static fast_err try_pending(fast_space *space, fast_space_operation *op, bool *done_out)
{
    fast_space_store *store = fast__space_own_store(space);
    fast_space_range *range = range_of(space, op->tensor);
    int64_t clock;
    const bool in_time = fast__space_clock(space, store, op->clock_min, &clock);
    const int64_t version = atomic_load(&range->version);
    *done_out = fast__space_satisfies(op, in_time, version);
    if (*done_out && op->id != 0 && op->tensor == 0 && !(op->flags & FAST_SPACE_SIZES) &&
        announcer(space, op->from) >= 0) {
        *done_out = false;
        return FAST_OK;
    }
    if (op->id == 0)
        return *done_out ? answer(space, op->from, FAST_SPACE_NOTIFY, op->tensor, 0, version, clock)
                         : FAST_OK;
    if (*done_out)
        return send_value(space, op, version, clock, done_out);
    if (!(op->flags & FAST_SPACE_WAITED))
        atomic_fetch_add(&range->waited, 1);
    op->flags |= FAST_SPACE_WAITED;
    *done_out = version < op->version_min && fast__space_active(space, store, op->from) < 0;
    return *done_out ? answer(space, op->from, FAST_SPACE_NEVER, op->tensor, op->id, 0, 0)
                     : FAST_OK;
}

/* Drop pending requests of an actor: all, or those that a newer one replaces. */
static void drop_pending(fast_space_service *s, int64_t from, const fast_space_operation *newer)
{
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

/* Make room for one more element of `size` bytes in a list. */
static fast_err reserve(const char *what, size_t size, int64_t count, int64_t *capacity,
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

/* Answer a get or a watcher now, or add it to the pending ones. */
static fast_err answer_or_wait(fast_space *space, fast_space_operation *op)
{
    fast_space_service *s = space->owned.service;
    space_pending *p = &s->pending;
    bool done;
    drop_pending(s, op->from, op);
    FAST_TRY(try_pending(space, op, &done));
    if (done)
        return FAST_OK;
    void *list = p->list;
    FAST_TRY(
        reserve("pending requests of a space", sizeof *p->list, p->count, &p->capacity, &list));
    p->list = list;
    p->list[p->count++] = *op;
    s->callers[op->from].pending++;
    return FAST_OK;
}

/* Try all pending requests, in the order of their arrival, if anything changed: an update, a clock,
 * which actors are in. Changes by local actors are not announced. */
static fast_err advance_pending(fast_space *space)
{
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
    s->pending.count = left;
    return err;
}

/* Note that an actor's updates up to this one are applied: it is told after all that has arrived
 * was handled. */
static void note_applied(fast_space_service *s, const fast_space_operation *op)
{
    space_caller *c = &s->callers[op->from];
    c->sequence = op->id;
    if (!c->unacked)
        s->unacked[s->unacked_count++] = op->from;
    c->unacked = true;
}

static fast_err send_acks(fast_space *space)
{
    fast_space_service *s = space->owned.service;
    for (; s->unacked_count > 0; s->unacked_count--) {
        const int64_t to = s->unacked[s->unacked_count - 1];
        space_caller *c = &s->callers[to];
        c->unacked = false;
        FAST_TRY(answer(space, to, FAST_SPACE_ACK, c->tensor, c->sequence, c->version, 0));
    }
    return FAST_OK;
}

/* Requests: the operation of each has kind, tensor, owner, range, sender and the first word (id)
 * set; its check fills in the rest. */

/* PUT, ADD. */
static bool update_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    op->clock = msg->words[FAST_SPACE_W_B];
    op->version_read = msg->words[FAST_SPACE_W_C];
    return op->count > 0 && op->id == space->owned.service->callers[op->from].sequence + 1 &&
           op->clock >= 0 && op->version_read >= 0 &&
           (space->owned.follows ||
            op->version_read <= atomic_load(&range_of(space, op->tensor)->version)) &&
           fast__space_unpack(space, msg, op);
}

/* Apply an update; *done_out is false if its range is locked by a local actor. */
static fast_err handle_update(fast_space *space, const fast_msg *msg, fast_space_operation *op,
                              bool *done_out)
{
    fast_space_service *s = space->owned.service;
    space_caller *c = &s->callers[op->from];
    *done_out =
        fast__space_attempt(space, op->owner, op->tensor, true, FAST_SPACE_SERVICE, &s->queued);
    if (!*done_out)
        return FAST_OK;
    fast__space_apply(space, op);
    c->version = atomic_load(&range_of(space, op->tensor)->version);
    c->tensor = op->tensor;
    fast__space_unlock(space, op->owner, op->tensor, true);
    fast__space_changed(space, fast__space_own_store(space));
    note_applied(s, op);
    c->staged = 0;
    if (op->tensor == 0)
        c->announced = false;
    if (op->form->cost)
        FAST_TRY(op->form->cost(space, msg, op));
    return fast__space_charge(space, op);
}

/* HELLO: an actor opens the space. Any actor may; the handler decides. */
static bool hello_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    (void)space;
    (void)msg;
    (void)op;
    return true;
}

/* Admit the actor if it opened this space, and for the first time in its life. */
static fast_err handle_hello(fast_space *space, const fast_msg *msg, fast_space_operation *op,
                             bool *done_out)
{
    fast_space_service *s = space->owned.service;
    space_caller *c = &s->callers[op->from];
    fast_space_slot *slot = &fast__space_own_store(space)->slots[op->from];
    const int64_t life = msg->words[FAST_SPACE_W_B];
    const uint32_t member = atomic_load(&slot->member);
    (void)done_out;
    if ((uint64_t)op->id != space->signature || life < 0 || life > UINT32_MAX / 2 - 1 ||
        2 * ((uint32_t)life + 1) <= member) {
        s->refused++;
        return answer(space, op->from, FAST_SPACE_REFUSED, 0, 0, 0, 0);
    }
    drop_pending(s, op->from, NULL);
    if (life > 0) /* what it held before is gone; in its first life it may hold a checkpoint's */
        fast__space_forget(space, op->from);
    *c = (space_caller){ .greeted = true, .unacked = c->unacked, .stage = c->stage };
    atomic_store(&slot->clock, 0);
    atomic_store(&slot->member, 2 * ((uint32_t)life + 1));
    return FAST_OK;
}

/* PIECE. */
static bool piece_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    (void)op;
    return fast__space_is_piece(space, msg);
}

/* Stage a piece until its update ends. */
static fast_err handle_piece(fast_space *space, const fast_msg *msg, fast_space_operation *op,
                             bool *done_out)
{
    space_caller *c = &space->owned.service->callers[op->from];
    int64_t floats;
    (void)done_out;
    FAST_ASSERT(op->tensor == 0);
    if (!c->stage)
        FAST_TRY(fast__alloc("pieces of an update", op->count, sizeof *c->stage, &c->stage));
    FAST_TRY(fast__space_take_piece(space, msg, c->stage, &floats));
    c->staged += floats;
    space->owned.service->refused += floats == 0;
    return FAST_OK;
}

/* TICK. */
static bool tick_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    op->clock = msg->words[FAST_SPACE_W_B];
    return op->id == space->owned.service->callers[op->from].sequence + 1 && op->clock >= 0;
}

static fast_err handle_tick(fast_space *space, const fast_msg *msg, fast_space_operation *op,
                            bool *done_out)
{
    fast_space_store *store = fast__space_own_store(space);
    (void)msg;
    (void)done_out;
    if (op->clock > atomic_load(&store->slots[op->from].clock))
        atomic_store(&store->slots[op->from].clock, op->clock);
    note_applied(space->owned.service, op);
    fast__space_changed(space, store);
    return FAST_OK;
}

/* GET. Flags that do not apply are dropped. */
static bool get_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    const unsigned asked = (unsigned)msg->declared;
    op->version_min = msg->words[FAST_SPACE_W_B];
    op->clock_min = msg->words[FAST_SPACE_W_C];
    op->flags = asked & (FAST_SPACE_SIZES | FAST_SPACE_EITHER);
    if (op->tensor == 0)
        op->flags |= asked & FAST_SPACE_WHOLE;
    if (op->tensor == 0 && !(asked & FAST_SPACE_SIZES) &&
        !fast__space_is_coded(space, FAST_SPACE_DOWN, 0))
        op->flags |= asked & FAST_SPACE_SLICES;
    return op->count > 0 && op->id > 0;
}

static fast_err handle_get(fast_space *space, const fast_msg *msg, fast_space_operation *op,
                           bool *done_out)
{
    (void)msg;
    (void)done_out;
    space->owned.service->callers[op->from].reads |=
        op->tensor == 0 && !(op->flags & FAST_SPACE_SIZES);
    return answer_or_wait(space, op);
}

/* WATCH: pending like a get, with id 0. */
static bool watch_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    const int64_t known = msg->words[FAST_SPACE_W_B];
    (void)space;
    if (op->count == 0 || known < 0 || known == INT64_MAX)
        return false;
    op->id = 0;
    op->version_min = known + 1;
    return true;
}

static fast_err handle_watch(fast_space *space, const fast_msg *msg, fast_space_operation *op,
                             bool *done_out)
{
    (void)msg;
    (void)done_out;
    return answer_or_wait(space, op);
}

/* ANNOUNCE. */
static bool announce_is_valid(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    (void)space;
    (void)msg;
    return op->count > 0 && op->tensor == 0;
}

static fast_err handle_announce(fast_space *space, const fast_msg *msg, fast_space_operation *op,
                                bool *done_out)
{
    fast_space_service *s = space->owned.service;
    (void)msg;
    (void)done_out;
    s->callers[op->from].announced = s->announces = true;
    return FAST_OK;
}

/* LEAVE. */
static fast_err handle_leave(fast_space *space, const fast_msg *msg, fast_space_operation *op,
                             bool *done_out)
{
    fast_space_service *s = space->owned.service;
    (void)msg;
    (void)done_out;
    s->callers[op->from].announced = false;
    drop_pending(s, op->from, NULL);
    s->callers[op->from].greeted = false;
    fast__space_left(space, space->map.me, op->from);
    FAST_TRY(send_acks(space));
    return answer(space, op->from, FAST_SPACE_LEFT, 0, 0, 0, 0);
}

/* How a kind of request is checked and handled. */
typedef struct space_request {
    /* Fill in the operation; false if the request makes no sense. */
    bool (*is_valid)(fast_space *space, const fast_msg *msg, fast_space_operation *op);
    /* Carry it out; *done_out, true before, becomes false if it must be tried again later. NULL: no
     * request has this kind. */
    fast_err (*handle)(fast_space *space, const fast_msg *msg, fast_space_operation *op,
                       bool *done_out);
    bool reads; /* it changes nothing that a pending request could wait for */
} space_request;

static const space_request requests[FAST_SPACE_KINDS] = {
    [FAST_SPACE_HELLO] = { hello_is_valid, handle_hello, false },
    [FAST_SPACE_PUT] = { update_is_valid, handle_update, false },
    [FAST_SPACE_ADD] = { update_is_valid, handle_update, false },
    [FAST_SPACE_PIECE] = { piece_is_valid, handle_piece, false },
    [FAST_SPACE_TICK] = { tick_is_valid, handle_tick, false },
    [FAST_SPACE_GET] = { get_is_valid, handle_get, true },
    [FAST_SPACE_WATCH] = { watch_is_valid, handle_watch, true },
    [FAST_SPACE_ANNOUNCE] = { announce_is_valid, handle_announce, false },
    [FAST_SPACE_LEAVE] = { hello_is_valid, handle_leave, false },
};

/* Handle one request. *done_out is false if it must be tried again. */
static fast_err handle(fast_space *space, const fast_msg *msg, bool *done_out)
{
    fast_space_service *s = space->owned.service;
    const int64_t *w = msg->words, kind = w[FAST_SPACE_W_KIND], tensor = w[FAST_SPACE_W_TENSOR];
    const bool known = kind >= 0 && kind < FAST_SPACE_KINDS && requests[kind].handle;
    *done_out = true;
    s->dirty |= !known || !requests[kind].reads;
    if (!known || tensor < 0 || tensor >= space->map.tensor_count ||
        w[FAST_SPACE_W_OWNER] != space->map.me ||
        (kind != FAST_SPACE_HELLO && !s->callers[msg->from].greeted)) {
        s->refused++;
        return FAST_OK;
    }
    fast_space_operation op = { .kind = (fast_space_kind)kind,
                                .tensor = tensor,
                                .owner = space->map.me,
                                .from = msg->from,
                                .id = w[FAST_SPACE_W_A] };
    fast__space_range(space, op.owner, tensor, &op.offset, &op.count);
    if (!requests[kind].is_valid(space, msg, &op)) {
        s->refused++;
        return FAST_OK;
    }
    return requests[kind].handle(space, msg, &op, done_out);
}

/* Set *out to the next request: the oldest, or with `stalest` the oldest of the actor whose clock is
 * smallest; NULL if none has arrived. */
static fast_err next_request(fast_space *space, fast_msg **out)
{
    fast_space_service *s = space->owned.service;
    space_arrivals *a = &s->arrivals;
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
        const fast_err err =
            reserve("requests to a space", sizeof *a->list, a->count, &a->capacity, &list);
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

/* Eager: when the slowest writer has ticked, send the new values to every actor that has read
 * before and has no get pending. */
static fast_err push_values(fast_space *space)
{
    fast_space_service *s = space->owned.service;
    space_snapshot *shot;
    int64_t clock, offset, count;
    (void)fast__space_clock(space, fast__space_own_store(space), 0, &clock);
    fast__space_range(space, space->map.me, 0, &offset, &count);
    if (!space->reader.eager || clock <= s->pushed || count == 0)
        return FAST_OK;
    FAST_TRY(take_snapshot(space, 0, -1, &shot));
    if (!shot)
        return FAST_OK;
    s->pushed = clock;
    for (int64_t id = 0; id < fast_actor_count(space->actor); id++) {
        const space_caller *c = &s->callers[id];
        fast_msg *msg;
        if (!c->greeted || !c->reads || c->pending > 0)
            continue;
        if (fast__space_differs(space, 0))
            FAST_TRY(take_snapshot(space, 0, id, &shot));
        if (!shot) /* locked meanwhile: the actors that are left out read by themselves */
            return FAST_OK;
        const int64_t words[3] = { 0, shot->version, clock };
        FAST_TRY(fast__space_message(space, FAST_SPACE_VALUE, 0, space->map.me, words, &msg));
        fast_msg_add_view(msg, shot->buffer, 0, shot->size);
        const fast_err err = fast_send(space->actor, id, &msg);
        if (err && err != FAST_EPEER)
            return err;
    }
    return FAST_OK;
}

fast_err fast__service_advance(fast_space *space)
{
    fast_space_service *s = space->owned.service;
    for (;;) {
        /* A lock that is queued for reading comes first: one lock at a time. */
        if (s->queued_read >= 0) {
            space_snapshot *shot;
            FAST_TRY(take_snapshot(space, s->queued_read, -1, &shot));
            if (!shot)
                break;
        }
        fast_msg *msg;
        FAST_TRY(next_request(space, &msg));
        if (!msg)
            break;
        bool done;
        const fast_err err = handle(space, msg, &done);
        if (!done) {
            s->deferred = msg;
            break;
        }
        fast_msg_free(msg);
        FAST_TRY(err);
    }
    FAST_TRY(send_acks(space));
    /* Armed before it looks: local actors change things too. */
    if (s->pending.count > 0 || space->reader.eager)
        fast__space_arm(space, fast__space_own_store(space));
    FAST_TRY(push_values(space));
    return advance_pending(space);
}

void fast__service_touch(fast_space *space)
{
    FAST_ASSERT(space->owned.service != NULL);
    space->owned.service->dirty = true;
}

int64_t fast__service_explain(fast_space *space, int64_t origin)
{
    const fast_space_service *s = space->owned.service;
    for (int64_t i = 0; i < s->pending.count; i++)
        if (s->pending.list[i].from == origin && s->pending.list[i].id != 0) {
            const int64_t id = announcer(space, origin);
            return id >= 0 ? id : fast__space_slowest(space, fast__space_own_store(space), origin);
        }
    return -1;
}

void fast__service_close(fast_space *space)
{
    for (int64_t id = 0; id < fast_actor_count(space->actor); id++)
        if (space->owned.service->callers[id].greeted &&
            answer(space, id, FAST_SPACE_GONE, 0, 0, 0, 0) != FAST_OK)
            return;
}
