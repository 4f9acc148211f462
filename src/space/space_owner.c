/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service of an owner for far actors: it does in the owner's waits what near actors do by
 * themselves. Updates are applied from the message that carried them. A get that asks for more than
 * there is stays parked here until there is; so does the wish to be told of a new version. Answers
 * to several readers of one version share one frozen copy, made when the first of them asks.
 *
 * Nothing here blocks: a range that a near actor has locked is tried again when it is released, and
 * requests wait in their order meanwhile. What is not a request of an actor that opened the same
 * space is dropped and counted.
 */
#include "space/space.h"

#include "base/memory.h"

#include <string.h>

/* What the service knows of one far actor. */
typedef struct caller {
    int64_t sequence; /* of its last update or tick */
    int64_t version;  /* that this update made */
    int64_t tensor;   /* of that update */
    int64_t parked;   /* wishes of it that wait */
    bool greeted;     /* it opened the same space */
    bool announced;   /* an update of tensor 0 is on its way: others' reads wait for it */
    bool due;         /* it is owed an acknowledgement */
    int64_t staged;   /* floats of its next update that have come in pieces */
    float *stage;     /* the range, for those; NULL: none came */
    bool reads; /* it has asked for tensor 0: new values are sent to it, where that is eager */
} caller;

/* A get, or a wish to be told, that waits. */
typedef struct parked {
    int64_t from;        /* who */
    int64_t id;          /* of a get; 0: of a watcher */
    int64_t tensor;      /* which */
    int64_t version_min; /* waited for */
    int64_t clock_min;   /* likewise */
    bool sizes;          /* no floats are wanted */
    bool whole;          /* no difference is wanted */
    bool either;         /* the version will do, or the clock */
    bool sliced;         /* the answer goes in slices */
    bool waited;         /* it was counted as one that had to */
} parked;

/* The copy of a range that is sent to readers. */
typedef struct snapshot {
    fast_buffer *buffer; /* frozen; or NULL */
    size_t size;         /* bytes of it that count */
    int64_t version;     /* of it */
} snapshot;

typedef struct fast_space_service {
    caller *callers;      /* of all actors */
    int64_t *due;         /* actors that are owed an acknowledgement */
    int64_t due_count;    /* of them */
    parked *parked;       /* what waits */
    int64_t parked_count; /* of them */
    int64_t parked_space; /* that fit */
    snapshot *snapshots;  /* of all tensors */
    fast_msg *deferred;   /* an update whose range is locked */
    bool queued;          /* for that lock */
    int64_t queued_read;  /* the tensor whose lock is queued for reading; or -1 */
    int64_t refused;      /* requests that were dropped */
    int64_t clock;        /* the space's when what is parked was last looked at */
    int64_t hope;         /* someone who was in then */
    bool dirty;           /* something changed since then */
    bool barrier;         /* somebody has ever announced an update */
    int64_t pushed;       /* eager: the clock at which values were last sent unasked */
    fast_msg **queue;     /* stalest first: requests that have arrived */
    int64_t queue_count;  /* of them */
    int64_t queue_space;  /* that fit */
} service;

fast_err fast__service_new(fast_space *space)
{
    const int64_t actors = fast_actor_count(space->actor);
    service *s;
    FAST_TRY(fast__alloc("the service of a space", 1, sizeof *s, &s));
    space->service = s;
    s->queued_read = -1;
    FAST_TRY(fast__alloc("the callers of a space", actors, sizeof *s->callers, &s->callers));
    FAST_TRY(fast__alloc("the callers of a space", actors, sizeof *s->due, &s->due));
    s->parked_space = 2 * actors;
    FAST_TRY(fast__alloc("what waits at a space", s->parked_space, sizeof *s->parked, &s->parked));
    return fast__alloc("what a space sends", space->tensor_count, sizeof *s->snapshots,
                       &s->snapshots);
}

void fast__service_free(fast_space *space)
{
    service *s = space->service;
    if (!s)
        return;
    for (int64_t t = 0; s->snapshots && t < space->tensor_count; t++)
        fast_buffer_free(s->snapshots[t].buffer);
    if (s->queued)
        fast__space_give_up(space, space->me, s->deferred->words[FAST_SPACE_W_TENSOR], true,
                            FAST_SPACE_SERVICE);
    if (s->queued_read >= 0)
        fast__space_give_up(space, space->me, s->queued_read, false, FAST_SPACE_SERVICE);
    fast_msg_free(s->deferred);
    for (int64_t i = 0; i < s->queue_count; i++)
        fast_msg_free(s->queue[i]);
    fast__free(s->queue);
    for (int64_t i = 0; s->callers && i < fast_actor_count(space->actor); i++)
        fast__free(s->callers[i].stage);
    fast__free(s->callers);
    fast__free(s->due);
    fast__free(s->parked);
    fast__free(s->snapshots);
    fast__free(s);
    space->service = NULL;
}

int64_t fast__service_refused(const fast_space *space)
{
    return space->service ? space->service->refused : 0;
}

/* An answer. That the other is gone meanwhile is its own affair. */
static fast_err answer(fast_space *space, int64_t to, fast_space_kind kind, int64_t tensor,
                       int64_t a, int64_t b, int64_t c)
{
    const int64_t words[3] = { a, b, c };
    const fast_err err = fast__space_tell(space, to, kind, tensor, space->me, words);
    return err == FAST_EPEER ? FAST_OK : err;
}

static fast_space_range *range_of(fast_space *space, int64_t tensor)
{
    return &space->owners[space->me].store.ranges[tensor];
}

/* The frozen copy of the newest version of a range, made if there is none, or where differences are
 * read the one to what `reader` holds, to be sent to it; -1: the lock is all that is wanted. *out
 * is NULL while someone else has the range locked. */
static fast_err take_snapshot(fast_space *space, int64_t tensor, int64_t reader, snapshot **out)
{
    service *s = space->service;
    snapshot *shot = &s->snapshots[tensor];
    const bool differs = fast__space_differs(space, tensor);
    *out = NULL;
    if (!differs && shot->buffer &&
        shot->version == atomic_load(&range_of(space, tensor)->version)) {
        *out = shot;
        return FAST_OK;
    }
    /* One lock is queued for at a time; others are tried when it was had. */
    if (s->queued_read >= 0 && s->queued_read != tensor)
        return FAST_OK;
    bool queued = s->queued_read >= 0;
    if (s->deferred)
        return FAST_OK;
    const bool locked =
        fast__space_attempt(space, space->me, tensor, false, FAST_SPACE_SERVICE, &queued);
    s->queued_read = queued ? tensor : -1;
    if (!locked)
        return FAST_OK;
    if (differs && reader < 0) {
        fast__space_unlock(space, space->me, tensor, false);
        *out = shot;
        return FAST_OK;
    }
    int64_t offset, count;
    fast__space_range(space, space->me, tensor, &offset, &count);
    const float *values = fast__space_values(space, space->me, tensor);
    const bool coded = fast__space_is_coded(space, FAST_SPACE_DOWN, tensor);
    size_t size = (size_t)count * sizeof(float);
    fast_buffer *buffer = NULL;
    fast_err err = coded ? fast__space_encode(space, FAST_SPACE_DOWN, space->me, reader, values,
                                              &buffer, &size)
                         : fast_buffer_new(space->actor, size, &buffer);
    if (!err && !coded)
        memcpy(fast_buffer_data(buffer), values, size);
    const int64_t version = atomic_load(&range_of(space, tensor)->version);
    fast__space_unlock(space, space->me, tensor, false);
    FAST_TRY(err);
    if (!coded)
        fast_buffer_freeze(buffer);
    fast_buffer_free(shot->buffer);
    *shot = (snapshot){ .buffer = buffer, .size = size, .version = version };
    *out = shot;
    return coded ? FAST_OK : fast_charge(space->actor, 0, 2.0 * (double)size);
}

/* Somebody else, still in, whose announced update has not come; or -1. */
static int64_t awaited(fast_space *space, int64_t reader)
{
    const service *s = space->service;
    for (int64_t id = 0; s->barrier && id < fast_actor_count(space->actor); id++)
        if (s->callers[id].announced && id != reader && !fast_member_is_down(space->actor, id))
            return id;
    return -1;
}

/* The slices of an answer, before its end. */
static fast_err send_slices(fast_space *space, const parked *p, const snapshot *shot, int64_t count)
{
    for (int64_t at = 0; at < count; at += FAST_SPACE_SLICE) {
        const int64_t n = count - at < FAST_SPACE_SLICE ? count - at : FAST_SPACE_SLICE;
        const int64_t words[3] = { p->id, at, 0 };
        fast_msg *msg;
        FAST_TRY(fast__space_message(space, FAST_SPACE_SLICED, 0, space->me, words, &msg));
        fast_msg_add_view(msg, shot->buffer, (size_t)at * sizeof(float), (size_t)n * sizeof(float));
        const fast_err err = fast_send(space->actor, p->from, &msg);
        if (err)
            return err == FAST_EPEER ? FAST_OK : err;
    }
    return FAST_OK;
}

/* Answer what is parked, if it can be; *done_out tells. */
static fast_err try_parked(fast_space *space, parked *p, bool *done_out)
{
    fast_space_store *store = &space->owners[space->me].store;
    fast_space_range *range = range_of(space, p->tensor);
    int64_t clock;
    const bool in_time = fast__space_clock(space, store, p->clock_min, &clock);
    int64_t version = atomic_load(&range->version);
    const bool applied = version >= p->version_min;
    *done_out = p->either ? in_time || applied : in_time && applied;
    if (*done_out && p->id != 0 && p->tensor == 0 && !p->sizes && awaited(space, p->from) >= 0) {
        *done_out = false;
        return FAST_OK;
    }
    if (p->id == 0)
        return *done_out ? answer(space, p->from, FAST_SPACE_NOTIFY, p->tensor, 0, version, clock)
                         : FAST_OK;
    if (!*done_out) {
        if (!p->waited)
            atomic_fetch_add(&range->waited, 1);
        p->waited = true;
        *done_out = version < p->version_min && fast__space_hope(space, store, p->from) < 0;
        return *done_out ? answer(space, p->from, FAST_SPACE_NEVER, p->tensor, p->id, 0, 0)
                         : FAST_OK;
    }
    int64_t offset, count;
    snapshot *shot = NULL;
    fast__space_range(space, space->me, p->tensor, &offset, &count);
    if (p->whole)
        fast__space_forget(space, p->from);
    if (!p->sizes) {
        FAST_TRY(take_snapshot(space, p->tensor, p->from, &shot));
        *done_out = shot != NULL;
        if (!shot) {
            space->service->dirty = true;
            return FAST_OK;
        }
        version = shot->version;
    }
    if (p->sliced)
        FAST_TRY(send_slices(space, p, shot, count));
    fast_msg *msg;
    const int64_t words[3] = { p->id, version, clock };
    FAST_TRY(fast__space_message(space, FAST_SPACE_VALUE, p->tensor, space->me, words, &msg));
    if (p->sliced)
        FAST_ASSERT(msg->part_count == 0); /* all is there */
    else if (shot)
        fast_msg_add_view(msg, shot->buffer, 0, shot->size);
    else
        msg->declared = (size_t)count * sizeof(float);
    atomic_fetch_add(&range->gets, 1);
    const fast_err err = fast_send(space->actor, p->from, &msg);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Forget what an actor waits for: all of it, or what a newer wish replaces. */
static void unpark(service *s, int64_t from, const parked *newer)
{
    int64_t kept = 0;
    if (s->callers[from].parked == 0)
        return;
    for (int64_t i = 0; i < s->parked_count; i++) {
        const parked *p = &s->parked[i];
        const bool same = !newer || (newer->id != 0 && p->id != 0) ||
                          (newer->id == 0 && p->id == 0 && p->tensor == newer->tensor);
        if (p->from != from || !same)
            s->parked[kept++] = *p;
    }
    s->callers[from].parked -= s->parked_count - kept;
    s->parked_count = kept;
}

/* Answer a wish now, or keep it. */
static fast_err wish(fast_space *space, parked *p)
{
    service *s = space->service;
    bool done;
    unpark(s, p->from, p);
    FAST_TRY(try_parked(space, p, &done));
    if (done)
        return FAST_OK;
    if (s->parked_count == s->parked_space) {
        parked *larger;
        FAST_TRY(
            fast__alloc("what waits at a space", 2 * s->parked_space, sizeof *larger, &larger));
        memcpy(larger, s->parked, (size_t)s->parked_count * sizeof *larger);
        fast__free(s->parked);
        s->parked = larger;
        s->parked_space *= 2;
    }
    s->parked[s->parked_count++] = *p;
    s->callers[p->from].parked++;
    return FAST_OK;
}

/* Look at all that waits, in the order in which it came, if anything changed: an update, a clock,
 * who is in. What near actors change is not announced. */
static fast_err advance_parked(fast_space *space)
{
    service *s = space->service;
    fast_space_store *store = &space->owners[space->me].store;
    int64_t clock;
    (void)fast__space_clock(space, store, 0, &clock);
    if (s->parked_count == 0 || (!s->dirty && clock == s->clock && !space->shared && !s->barrier &&
                                 fast__space_hope(space, store, -1) == s->hope))
        return FAST_OK;
    s->dirty = false;
    s->clock = clock;
    s->hope = fast__space_hope(space, store, -1);
    int64_t kept = 0;
    fast_err err = FAST_OK;
    for (int64_t i = 0; i < s->parked_count; i++) {
        bool done = false;
        if (!err)
            err = try_parked(space, &s->parked[i], &done);
        if (!done)
            s->parked[kept++] = s->parked[i];
        else
            s->callers[s->parked[i].from].parked--;
    }
    s->parked_count = kept;
    return err;
}

/* Apply an update; false if its range is locked by a near actor: again later. */
static bool take_update(fast_space *space, const fast_msg *msg, const float *x)
{
    service *s = space->service;
    caller *c = &s->callers[msg->from];
    const bool put = msg->words[FAST_SPACE_W_KIND] == FAST_SPACE_PUT;
    fast_space_update update = { .tensor = msg->words[FAST_SPACE_W_TENSOR],
                                 .x = x,
                                 .from = msg->from,
                                 .clock = msg->words[FAST_SPACE_W_B],
                                 .read = msg->words[FAST_SPACE_W_C] };
    fast__space_range(space, space->me, update.tensor, &update.offset, &update.count);
    if (!fast__space_attempt(space, space->me, update.tensor, true, FAST_SPACE_SERVICE, &s->queued))
        return false;
    fast__space_apply(space, space->me, put, &update);
    c->version = atomic_load(&range_of(space, update.tensor)->version);
    c->tensor = update.tensor;
    fast__space_unlock(space, space->me, update.tensor, true);
    fast__space_changed(space, &space->owners[space->me].store);
    return true;
}

/* The actor's updates up to this one are done: it is told so after all that has arrived. */
static void owe(service *s, const fast_msg *msg)
{
    caller *c = &s->callers[msg->from];
    c->sequence = msg->words[FAST_SPACE_W_A];
    if (!c->due)
        s->due[s->due_count++] = msg->from;
    c->due = true;
}

static fast_err pay(fast_space *space)
{
    service *s = space->service;
    for (; s->due_count > 0; s->due_count--) {
        const int64_t to = s->due[s->due_count - 1];
        caller *c = &s->callers[to];
        c->due = false;
        FAST_TRY(answer(space, to, FAST_SPACE_ACK, c->tensor, c->sequence, c->version, 0));
    }
    return FAST_OK;
}

/* Someone opens the space: is it this one, and for the first time in its life? */
static fast_err greet(fast_space *space, const fast_msg *msg)
{
    service *s = space->service;
    fast_space_slot *slot = &space->owners[space->me].store.slots[msg->from];
    const int64_t life = msg->words[FAST_SPACE_W_B];
    const uint32_t member = atomic_load(&slot->member);
    if ((uint64_t)msg->words[FAST_SPACE_W_A] != space->signature || life < 0 ||
        life > UINT32_MAX / 2 - 1 || 2 * ((uint32_t)life + 1) <= member) {
        s->refused++;
        return answer(space, msg->from, FAST_SPACE_REFUSED, 0, 0, 0, 0);
    }
    unpark(s, msg->from, NULL);
    if (life > 0) /* what it held before is gone; at first it may hold what it left */
        fast__space_forget(space, msg->from);
    s->callers[msg->from] = (caller){ .greeted = true,
                                      .due = s->callers[msg->from].due,
                                      .stage = s->callers[msg->from].stage };
    atomic_store(&slot->clock, 0);
    atomic_store(&slot->member, 2 * ((uint32_t)life + 1));
    return FAST_OK;
}

/* Keep a piece until its update ends. */
static fast_err take_piece(fast_space *space, const fast_msg *msg)
{
    caller *c = &space->service->callers[msg->from];
    int64_t offset, count, floats;
    fast__space_range(space, space->me, 0, &offset, &count);
    if (!c->stage)
        FAST_TRY(fast__alloc("pieces of an update", count, sizeof *c->stage, &c->stage));
    FAST_TRY(fast__space_take_piece(space, msg, c->stage, &floats));
    c->staged += floats;
    space->service->refused += floats == 0;
    return FAST_OK;
}

/* What an update carries, or what came before it in pieces. */
static bool open_update(fast_space *space, const fast_msg *msg, int64_t count, const float **x_out)
{
    const caller *c = &space->service->callers[msg->from];
    const bool ends = space->pieces && msg->words[FAST_SPACE_W_KIND] == FAST_SPACE_ADD &&
                      msg->words[FAST_SPACE_W_TENSOR] == 0 && msg->part_count == 0 &&
                      msg->declared == 0;
    if (!ends)
        return fast__space_unpack(space, msg, count, x_out);
    *x_out = c->stage;
    return c->staged == count;
}

/* Is this a request that makes sense? What an update carries comes out. */
static bool is_sane(fast_space *space, const fast_msg *msg, const float **x_out)
{
    const int64_t *w = msg->words, tensor = w[FAST_SPACE_W_TENSOR];
    const caller *c = &space->service->callers[msg->from];
    int64_t offset, count;
    if (tensor < 0 || tensor >= space->tensor_count || w[FAST_SPACE_W_OWNER] != space->me)
        return false;
    fast__space_range(space, space->me, tensor, &offset, &count);
    switch (w[FAST_SPACE_W_KIND]) {
    case FAST_SPACE_PUT:
    case FAST_SPACE_ADD:
        return c->greeted && count > 0 && w[FAST_SPACE_W_A] == c->sequence + 1 &&
               w[FAST_SPACE_W_B] >= 0 && w[FAST_SPACE_W_C] >= 0 &&
               (space->follows ||
                w[FAST_SPACE_W_C] <= atomic_load(&range_of(space, tensor)->version)) &&
               open_update(space, msg, count, x_out);
    case FAST_SPACE_PIECE:
        return c->greeted && fast__space_is_piece(space, msg);
    case FAST_SPACE_TICK:
        return c->greeted && w[FAST_SPACE_W_A] == c->sequence + 1 && w[FAST_SPACE_W_B] >= 0;
    case FAST_SPACE_GET:
        return c->greeted && count > 0 && w[FAST_SPACE_W_A] > 0;
    case FAST_SPACE_WATCH:
        return c->greeted && count > 0 && w[FAST_SPACE_W_B] >= 0 && w[FAST_SPACE_W_B] < INT64_MAX;
    case FAST_SPACE_ANNOUNCE:
        return c->greeted && count > 0 && tensor == 0;
    case FAST_SPACE_LEAVE:
        return c->greeted;
    default:
        return w[FAST_SPACE_W_KIND] == FAST_SPACE_HELLO;
    }
}

/* Room for one more request in the queue. */
static fast_err reserve(service *s)
{
    const int64_t more = s->queue_space > 0 ? 2 * s->queue_space : 64;
    fast_msg **larger;
    if (s->queue_count < s->queue_space)
        return FAST_OK;
    FAST_TRY(fast__alloc("requests to a space", more, sizeof *larger, &larger));
    if (s->queue_count > 0)
        memcpy(larger, s->queue, (size_t)s->queue_count * sizeof *larger);
    fast__free(s->queue);
    s->queue = larger;
    s->queue_space = more;
    return FAST_OK;
}

/* Do one request. *done_out is false if it must be tried again. */
static fast_err handle(fast_space *space, const fast_msg *msg, bool *done_out)
{
    service *s = space->service;
    fast_space_store *store = &space->owners[space->me].store;
    const int64_t *w = msg->words;
    const float *x = NULL;
    space->composed = 0;
    *done_out = true;
    s->dirty |= w[FAST_SPACE_W_KIND] != FAST_SPACE_GET && w[FAST_SPACE_W_KIND] != FAST_SPACE_WATCH;
    if (!is_sane(space, msg, &x)) {
        s->refused++;
        return FAST_OK;
    }
    parked p = { .from = msg->from, .tensor = w[FAST_SPACE_W_TENSOR] };
    switch (w[FAST_SPACE_W_KIND]) {
    case FAST_SPACE_HELLO:
        return greet(space, msg);
    case FAST_SPACE_PIECE:
        return take_piece(space, msg);
    case FAST_SPACE_TICK:
        if (w[FAST_SPACE_W_B] > atomic_load(&store->slots[msg->from].clock))
            atomic_store(&store->slots[msg->from].clock, w[FAST_SPACE_W_B]);
        owe(s, msg);
        fast__space_changed(space, store);
        return FAST_OK;
    case FAST_SPACE_GET:
        p.id = w[FAST_SPACE_W_A];
        p.version_min = w[FAST_SPACE_W_B];
        p.clock_min = w[FAST_SPACE_W_C];
        p.sizes = (msg->declared & FAST_SPACE_SIZES) != 0;
        p.whole = (msg->declared & FAST_SPACE_WHOLE) != 0 && p.tensor == 0;
        p.either = (msg->declared & FAST_SPACE_EITHER) != 0;
        p.sliced = (msg->declared & FAST_SPACE_SLICES) != 0 && p.tensor == 0 && !p.sizes &&
                   !fast__space_is_coded(space, FAST_SPACE_DOWN, 0);
        s->callers[msg->from].reads |= p.tensor == 0 && !p.sizes;
        return wish(space, &p);
    case FAST_SPACE_WATCH:
        p.version_min = w[FAST_SPACE_W_B] + 1;
        return wish(space, &p);
    case FAST_SPACE_ANNOUNCE:
        s->callers[msg->from].announced = s->barrier = true;
        return FAST_OK;
    case FAST_SPACE_LEAVE:
        s->callers[msg->from].announced = false;
        unpark(s, msg->from, NULL);
        s->callers[msg->from].greeted = false;
        fast__space_left(space, space->me, msg->from);
        FAST_TRY(pay(space));
        return answer(space, msg->from, FAST_SPACE_LEFT, 0, 0, 0, 0);
    default: /* an update */
        *done_out = take_update(space, msg, x);
        if (*done_out) {
            int64_t offset, count;
            owe(s, msg);
            s->callers[msg->from].staged = 0;
            if (p.tensor == 0)
                s->callers[msg->from].announced = false;
            if (msg->part_count > 0 &&
                fast__space_is_coded(space, FAST_SPACE_UP, w[FAST_SPACE_W_TENSOR]))
                FAST_TRY(fast__space_pay(space, FAST_SPACE_UP, space->me, msg->parts[0].size));
            if (space->composed > 0)
                FAST_TRY(fast_charge(space->actor, space->composed, 0));
            fast__space_range(space, space->me, p.tensor, &offset, &count);
            return fast__space_charge(space, w[FAST_SPACE_W_KIND] == FAST_SPACE_PUT, count);
        }
        return FAST_OK;
    }
}

/* The next request: the oldest, or of those that have arrived the oldest of whom is furthest
 * behind; *out is NULL if there is none. */
static fast_err next_request(fast_space *space, fast_msg **out)
{
    service *s = space->service;
    const uint64_t tag = fast__space_tag(space, false);
    const fast_space_slot *slots = space->owners[space->me].store.slots;
    int64_t best = 0;
    fast_msg *msg = s->deferred;
    s->deferred = NULL;
    if (msg || !space->stalest) {
        *out = msg ? msg : fast__take(space->actor, FAST_ANY, tag);
        return FAST_OK;
    }
    *out = NULL;
    while ((msg = fast__take(space->actor, FAST_ANY, tag))) {
        const fast_err err = reserve(s);
        if (err) {
            fast_msg_free(msg);
            return err;
        }
        s->queue[s->queue_count++] = msg;
    }
    for (int64_t i = 1; i < s->queue_count; i++)
        if (atomic_load(&slots[s->queue[i]->from].clock) <
            atomic_load(&slots[s->queue[best]->from].clock))
            best = i;
    if (s->queue_count == 0)
        return FAST_OK;
    *out = s->queue[best];
    s->queue_count--;
    memmove(&s->queue[best], &s->queue[best + 1],
            (size_t)(s->queue_count - best) * sizeof *s->queue);
    return FAST_OK;
}

/* Eager: when the slowest writer has ticked, everyone who has read before and does not wait for an
 * answer now is sent the new values. */
static fast_err push_values(fast_space *space)
{
    service *s = space->service;
    snapshot *shot;
    int64_t clock, offset, count;
    (void)fast__space_clock(space, &space->owners[space->me].store, 0, &clock);
    fast__space_range(space, space->me, 0, &offset, &count);
    if (!space->eager || clock <= s->pushed || count == 0)
        return FAST_OK;
    FAST_TRY(take_snapshot(space, 0, -1, &shot));
    if (!shot)
        return FAST_OK;
    s->pushed = clock;
    for (int64_t id = 0; id < fast_actor_count(space->actor); id++) {
        const caller *c = &s->callers[id];
        fast_msg *msg;
        if (!c->greeted || !c->reads || c->parked > 0)
            continue;
        if (fast__space_differs(space, 0))
            FAST_TRY(take_snapshot(space, 0, id, &shot));
        if (!shot) /* it was locked meanwhile: who is left out reads by itself */
            return FAST_OK;
        const int64_t words[3] = { 0, shot->version, clock };
        FAST_TRY(fast__space_message(space, FAST_SPACE_VALUE, 0, space->me, words, &msg));
        fast_msg_add_view(msg, shot->buffer, 0, shot->size);
        const fast_err err = fast_send(space->actor, id, &msg);
        if (err && err != FAST_EPEER)
            return err;
    }
    return FAST_OK;
}

fast_err fast__service_advance(fast_space *space)
{
    service *s = space->service;
    fast_space_store *store = &space->owners[space->me].store;
    for (;;) {
        /* A lock that is queued for reading comes first: one lock at a time. */
        if (s->queued_read >= 0) {
            snapshot *shot;
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
    FAST_TRY(pay(space));
    /* Armed before it looks: near actors change things too. */
    if (s->parked_count > 0 || space->eager)
        fast__space_arm(space, store);
    FAST_TRY(push_values(space));
    return advance_parked(space);
}

void fast__service_touch(fast_space *space)
{
    space->service->dirty = true;
}

int64_t fast__service_explain(fast_space *space, int64_t origin)
{
    const service *s = space->service;
    for (int64_t i = 0; i < s->parked_count; i++)
        if (s->parked[i].from == origin && s->parked[i].id != 0) {
            const int64_t id = awaited(space, origin);
            return id >= 0 ? id
                           : fast__space_behind(space, &space->owners[space->me].store, origin);
        }
    return -1;
}

void fast__service_close(fast_space *space)
{
    for (int64_t id = 0; id < fast_actor_count(space->actor); id++)
        if (space->service->callers[id].greeted &&
            answer(space, id, FAST_SPACE_GONE, 0, 0, 0, 0) != FAST_OK)
            return;
}
