/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote owners, from the side of the actor that uses a space: requests go out, answers are handled
 * in the actor's waits. At most FAST_SPACE_WINDOW updates are in flight to an owner; it
 * acknowledges all that it has applied in one message. A get asks all owners of the tensor at once;
 * answers are copied to their places as they arrive.
 *
 *     put, add   one message and 4 bytes a float, one acknowledgement, for each owner
 *     announce   one message more for each owner, before adds of many bytes
 *     tick       one message, one acknowledgement, for each owner
 *     get        one message, one answer with 4 bytes a float, for each owner; none where an eager
 *                owner has sent values before that are new enough
 *
 *     writer                          owner
 *       | ADD 1, ADD 2, TICK 3 ------> |  applied in order; a range that is locked defers all
 *       | <--------------------- ACK 3 |  one acknowledgement for all three
 *       | GET id ------------------->  |  pending until version and clock suffice
 *       | <------------- VALUE id, x   |
 *
 * Requests of one actor are handled in their order: a GET sees the actor's own updates. An answer
 * whose id is not that of the get under way belongs to a get that was given up, and is dropped.
 */
#include "space/space_chain.h"
#include "space/space_form.h"
#include "space/space_order.h"
#include "space/space_store.h"

#include "tensor/vector.h"
#include "transport/peers.h"

#include <string.h>

/* Fail if the owner cannot be talked to. */
static fast_err check_owner(const fast_space *space, int64_t owner)
{
    const fast_space_owner *o = &space->map.owners[owner];
    FAST_ASSERT(!o->store.head);
    if (o->refused)
        return fast__fail(
            FAST_EINVAL,
            "actor %lld refuses: it opened space \"%s\" with other tensors, owners or "
            "writers, or this actor opened it before",
            (long long)o->id, space->name);
    if (o->gone)
        return fast__space_owner_left(space, owner);
    return space->task.err;
}

/* Wait until an owner has room for one more update. */
static fast_err wait_for_room(fast_space *space, const fast_space_operation *op)
{
    FAST_ASSERT(op->kind != FAST_SPACE_GET);
    fast_space_owner *o = &space->map.owners[op->owner];
    fast_wait wait = fast__space_wait(space, o->id, "space room", op->deadline);
    FAST_TRY(check_owner(space, op->owner));
    while (o->sent - o->acked >= FAST_SPACE_WINDOW) {
        wait.whom = fast__copies_whom(space, op->owner);
        const fast_err err =
            fast__copies_excuse(space, op->owner, fast__wait_once(space->actor, &wait));
        if (err == FAST_EPEER) /* Its updates are lost; if it comes back it starts anew. */
            o->acked = o->sent;
        FAST_TRY(err);
        FAST_TRY(check_owner(space, op->owner));
    }
    return FAST_OK;
}

/* Send an update or a tick; a failed send leaves no gap in the sequence. Where there are copies,
 * one that is stored counts as sent: it is sent again. */
static fast_err send_update(fast_space *space, int64_t owner, fast_msg **msg)
{
    fast_space_owner *o = &space->map.owners[owner];
    FAST_TRY(fast__copies_retain(space, owner, *msg));
    FAST_TRY(fast__copies_excuse(space, owner, fast_send(space->actor, o->id, msg)));
    o->sent++;
    FAST_ASSERT(o->sent - o->acked <= FAST_SPACE_WINDOW);
    return FAST_OK;
}

/* The message is filled after the wait: a coder must not encode what is never sent. */
fast_err fast__remote_update(fast_space *space, fast_space_operation *op)
{
    FAST_ASSERT(op->count > 0 || op->kind == FAST_SPACE_TICK);
    fast_space_owner *o = &space->map.owners[op->owner];
    fast_msg *msg;
    FAST_TRY(wait_for_room(space, op));
    const int64_t words[3] = { o->sent + 1 - o->base, op->clock, op->version_read };
    FAST_TRY(fast__space_message(space, op->kind, op->tensor, op->owner, words, &msg));
    if (op->kind != FAST_SPACE_TICK) {
        const fast_err err = fast__space_fill(space, op, msg);
        if (err) {
            fast_msg_free(msg);
            return err;
        }
    }
    if (space->announce > 0 && op->kind == FAST_SPACE_ADD && op->tensor == 0) {
        fast_msg_free(o->ready); /* of an add that failed at another owner */
        o->ready = msg;
        return FAST_OK;
    }
    return send_update(space, op->owner, &msg);
}

/*
 * Causal order by construction. Without it an update and a later message of the same writer take
 * different ways, and the message may be the faster one:
 *
 *     writer   add(x) - - - - - - - - slow link - - - - - - - -> owner
 *       |                                                          ^
 *       +- message --> reader --- get(x), without the update ------+
 *
 * All owners have been sent their parts before the first wait, so that it costs one round trip.
 */
fast_err fast__remote_settle(fast_space *space, int64_t deadline)
{
    FAST_ASSERT(space->map.causal);
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        const fast_space_owner *o = &space->map.owners[owner];
        fast_wait wait = fast__space_wait(space, o->id, "space update", deadline);
        while (!o->store.head && o->acked < o->sent) {
            wait.whom = fast__copies_whom(space, owner);
            FAST_TRY(fast__copies_excuse(space, owner, fast__wait_once(space->actor, &wait)));
            FAST_TRY(check_owner(space, owner));
        }
    }
    return FAST_OK;
}

/* Only remote owners: local ranges are changed at once. */
fast_err fast__space_announce(fast_space *space)
{
    const int64_t words[3] = { 0 };
    FAST_ASSERT(space->map.remote_count > 0);
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        const fast_space_owner *o = &space->map.owners[owner];
        if (o->store.head)
            continue;
        FAST_TRY(check_owner(space, owner));
        FAST_TRY(fast__space_tell(space, o->id, FAST_SPACE_ANNOUNCE, 0, owner, words));
    }
    return FAST_OK;
}

/* All ranges are announced before the first is sent, which may take long. */
fast_err fast__remote_flush(fast_space *space)
{
    int64_t bytes = 0;
    FAST_ASSERT(space->announce > 0);
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        const fast_msg *msg = space->map.owners[owner].ready;
        for (int i = 0; msg && i < msg->part_count; i++)
            bytes += (int64_t)msg->parts[i].size;
    }
    if (bytes > space->announce)
        FAST_TRY(fast__space_announce(space));
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        const int64_t owner = (space->map.first + i) % space->map.owner_count;
        fast_space_owner *o = &space->map.owners[owner];
        if (o->ready)
            FAST_TRY(send_update(space, owner, &o->ready));
    }
    return FAST_OK;
}

/* Record the range that an answer brings, in its get and in the one that waits for all ranges;
 * `seen`: this actor's updates and ticks that it holds. */
static void saw_answer(fast_space *space, int64_t owner, const fast_msg *msg, int64_t seen)
{
    FAST_ASSERT(msg->words[FAST_SPACE_W_B] >= 0);
    const int64_t version = msg->words[FAST_SPACE_W_B];
    fast_space_owner *o = &space->map.owners[owner];
    const fast_space_operation *get = &o->get;
    fast__space_saw(&o->get, version, msg->words[FAST_SPACE_W_C]);
    if (get->id == space->reader.get.id)
        fast__space_saw(&space->reader.get, version, msg->words[FAST_SPACE_W_C]);
    space->reader.newest = version > space->reader.newest ? version : space->reader.newest;
    if (space->reader.peeks)
        return;
    *fast__space_at(space, space->clocks.read, owner, get->tensor) = version;
    /* Of differences the newest held values are read, whatever message they came with. */
    if (get->tensor == 0 && fast__space_differs(space, 0))
        o->seen = o->complete;
    else if (get->tensor == 0)
        o->seen = seen < o->sent ? seen : o->sent;
}

/* Unpack the range that an owner was asked for from its answer; part->x is NULL if only its size
 * travelled. */
static bool unpack_answer(fast_space *space, int64_t owner, const fast_msg *msg,
                          fast_space_operation *part)
{
    FAST_ASSERT(space->map.owners[owner].get.kind == FAST_SPACE_GET);
    *part = space->map.owners[owner].get;
    part->kind = FAST_SPACE_VALUE;
    return fast__space_unpack(space, msg, part);
}

/* The conditions are those of the get. */
bool fast__space_has_pushed(const fast_space *space, const fast_space_read *read)
{
    FAST_ASSERT(space->map.owner_count > 0 && read);
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        const fast_msg *msg = space->map.owners[i].pushed;
        int64_t offset, count;
        fast__space_range(space, i, 0, &offset, &count);
        if (count > 0 && (!msg || msg->words[FAST_SPACE_W_C] < read->clock_min ||
                          msg->words[FAST_SPACE_W_B] < read->version_min))
            return false;
    }
    return true;
}

/* Use the values that an eager owner sent, if they satisfy the get. */
static bool take_pushed(fast_space *space, int64_t owner)
{
    const fast_space_operation *get = &space->map.owners[owner].get;
    FAST_ASSERT(get->kind == FAST_SPACE_GET);
    const fast_msg *msg = get->tensor == 0 ? space->map.owners[owner].pushed : NULL;
    fast_space_operation part;
    if (!msg || !fast__space_satisfies(get, msg->words[FAST_SPACE_W_C] >= get->clock_min,
                                       msg->words[FAST_SPACE_W_B]))
        return false;
    if (!unpack_answer(space, owner, msg, &part) || !part.x)
        return false;
    if (part.result)
        fast__vector_copy(part.count, part.x, part.result);
    saw_answer(space, owner, msg, space->map.owners[owner].base - msg->words[FAST_SPACE_W_A]);
    return true;
}

/* Retain values that an eager owner sent unasked; false if the message is another. */
static bool retain_pushed(fast_space *space, fast_msg *msg)
{
    const int64_t *w = msg->words, owner = w[FAST_SPACE_W_OWNER];
    if (!space->reader.eager || w[FAST_SPACE_W_KIND] != FAST_SPACE_VALUE || w[FAST_SPACE_W_A] > 0 ||
        w[FAST_SPACE_W_A] < -INT64_MAX / 2 || w[FAST_SPACE_W_TENSOR] != 0 || owner < 0 ||
        owner >= space->map.owner_count || space->map.owners[owner].id != msg->from ||
        w[FAST_SPACE_W_B] < 0)
        return false;
    fast_msg_free(space->map.owners[owner].pushed);
    space->map.owners[owner].pushed = msg;
    return true;
}

/* The flags travel as declared bytes. */
fast_err fast__remote_ask(fast_space *space, int64_t owner)
{
    const fast_space_operation *get = &space->map.owners[owner].get;
    FAST_ASSERT(get->kind == FAST_SPACE_GET);
    fast_msg *msg;
    const bool grouped = (get->flags & FAST_SPACE_GROUP) != 0;
    const int64_t words[3] = { get->id,
                               grouped ? get->group << 32 | get->group_count : get->version_min,
                               get->clock_min };
    FAST_TRY(fast__space_message(space, FAST_SPACE_GET, get->tensor, owner, words, &msg));
    msg->declared = get->flags & (FAST_SPACE_SIZES | FAST_SPACE_WHOLE | FAST_SPACE_EITHER |
                                  FAST_SPACE_SLICES | FAST_SPACE_GROUP);
    if (get->flags & FAST_SPACE_SIZES) /* without values there are no differences */
        msg->declared &= ~(size_t)FAST_SPACE_WHOLE;
    return fast_send(space->actor, space->map.owners[owner].id, &msg);
}

/* Values that an eager owner sent before answer the get without a message. */
fast_err fast__remote_get_start(fast_space *space, int64_t owner, const fast_space_operation *get)
{
    FAST_ASSERT(get->kind == FAST_SPACE_GET);
    fast_space_owner *o = &space->map.owners[owner];
    FAST_TRY(check_owner(space, owner));
    o->get = fast__space_part(space, get, owner);
    o->get.version_seen = o->get.clock_seen = INT64_MAX;
    o->asked = 0;
    o->never = false;
    if (!(get->flags & FAST_SPACE_WHOLE) && take_pushed(space, owner))
        return FAST_OK;
    FAST_TRY(fast__copies_excuse(space, owner, fast__remote_ask(space, owner)));
    if (get->tensor == 0)
        o->asked_after = o->sent;
    o->asked = get->id;
    o->received = 0;
    return FAST_OK;
}

/* Wait for the first `floats` of an owner's range of the get. */
static fast_err wait_for_part(fast_space *space, int64_t owner, int64_t floats)
{
    FAST_ASSERT(floats > 0);
    const fast_space_operation *get = &space->reader.get;
    const fast_space_owner *o = &space->map.owners[owner];
    fast_wait wait = fast__space_wait(space, o->id, "space get", get->deadline);
    while (o->asked == get->id && o->received < floats) {
        wait.whom = fast__copies_whom(space, owner);
        FAST_TRY(fast__copies_excuse(space, owner, fast__wait_once(space->actor, &wait)));
        FAST_TRY(check_owner(space, owner));
        if (o->never)
            return fast__fail(FAST_EPEER,
                              "nobody is left in space \"%s\" who could bring tensor %lld to "
                              "the version that is waited for",
                              space->name, (long long)get->tensor);
    }
    return FAST_OK;
}

/* In the order of the owners; answers that arrive out of order are copied at once all the same. */
fast_err fast__remote_get_wait(fast_space *space)
{
    for (int64_t owner = 0; owner < space->map.owner_count; owner++)
        FAST_TRY(wait_for_part(space, owner, INT64_MAX));
    FAST_ASSERT(space->reader.missing == 0);
    return FAST_OK;
}

/* Slices arrive in order: the last of the range's floats is waited for. */
fast_err fast__remote_get_need(fast_space *space, int64_t offset, int64_t count)
{
    FAST_ASSERT(offset >= 0 && count >= 0);
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        int64_t low, size;
        fast__space_range(space, owner, 0, &low, &size);
        const int64_t end = fast__space_order_end(&space->reader.order, low, size, offset, count);
        if (end > 0)
            FAST_TRY(wait_for_part(space, owner, end));
    }
    return FAST_OK;
}

/* A watch is for one version: take_notice() renews it after each notification. */
fast_err fast__remote_watch(fast_space *space, int64_t owner, int64_t tensor)
{
    FAST_ASSERT(tensor >= 0 && tensor < space->map.tensor_count);
    FAST_TRY(check_owner(space, owner));
    const int64_t words[3] = { 0, *fast__space_at(space, space->clocks.told, owner, tensor), 0 };
    return fast__space_tell(space, space->map.owners[owner].id, FAST_SPACE_WATCH, tensor, owner,
                            words);
}

/* Return true if a message answers the get that this owner was asked for. */
static bool answers_get(const fast_space *space, int64_t owner, const fast_msg *msg)
{
    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count);
    const fast_space_owner *o = &space->map.owners[owner];
    return o->asked != 0 && msg->words[FAST_SPACE_W_A] == o->asked &&
           msg->words[FAST_SPACE_W_TENSOR] == o->get.tensor;
}

/* SLICED: the next slice of an owner's part of the get. */
static fast_err take_slice(fast_space *space, int64_t owner, const fast_msg *msg)
{
    fast_space_owner *o = &space->map.owners[owner];
    const fast_space_operation *get = &o->get;
    const fast_space_order *order = &space->reader.order;
    int64_t most;
    const int64_t size = fast__space_order_size(order, get->offset, get->count);
    if (!(get->flags & FAST_SPACE_SLICES) || !answers_get(space, owner, msg) ||
        o->received >= size || msg->part_count != 1 ||
        msg->parts[0].size % sizeof *get->result != 0)
        return FAST_OK;
    const int64_t floats = (int64_t)(msg->parts[0].size / sizeof *get->result);
    const int64_t at = fast__space_order_at(order, get->offset, get->count, o->received, &most);
    if (msg->words[FAST_SPACE_W_B] != at || floats > size - o->received)
        return FAST_OK;
    if (floats <= most)
        fast__vector_copy(floats, fast_msg_data(msg, 0), get->result + at);
    else
        fast__space_order_unpack(order, get->offset, get->count, o->received, floats,
                                 fast_msg_data(msg, 0), get->result);
    o->received += floats;
    return FAST_OK;
}

/* VALUE: an owner's part of the get. Answers that make no sense are dropped. */
static fast_err take_value(fast_space *space, int64_t owner, const fast_msg *msg)
{
    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count);
    fast_space_owner *o = &space->map.owners[owner];
    const fast_space_operation *get = &o->get;
    fast_space_operation part;
    if (!answers_get(space, owner, msg))
        return FAST_OK;
    const bool unpacked = unpack_answer(space, owner, msg, &part);
    const bool ends_slices =
        (get->flags & FAST_SPACE_SLICES) && msg->part_count == 0 && msg->declared == 0 &&
        o->received == fast__space_order_size(&space->reader.order, part.offset, part.count);
    /* The end of a sliced answer has no values: they arrived before it. */
    if (!ends_slices && (!unpacked || (!part.x && get->result)))
        return FAST_OK;
    if (msg->words[FAST_SPACE_W_B] < 0)
        return FAST_OK;
    if (!ends_slices && part.x && part.result)
        fast__vector_copy(part.count, part.x, part.result);
    /* It holds all of this actor's updates, since an owner handles requests in order. */
    saw_answer(space, owner, msg, o->sent);
    space->reader.missing -= o->asked == space->reader.get.id;
    o->asked = 0;
    return FAST_OK;
}

/* NOTIFY: another version is there. Note it for the watcher, and ask to be notified again. */
static fast_err take_notice(fast_space *space, int64_t owner, const fast_msg *msg)
{
    const int64_t tensor = msg->words[FAST_SPACE_W_TENSOR];
    fast_space_watched *watched = space->reader.watched;
    int64_t *told = fast__space_at(space, space->clocks.told, owner, tensor);
    if (!watched || !watched[tensor].watch || msg->words[FAST_SPACE_W_B] <= *told)
        return FAST_OK;
    *told = msg->words[FAST_SPACE_W_B];
    space->map.owners[owner].clock = msg->words[FAST_SPACE_W_C];
    watched[tensor].changed = true;
    const fast_err err = fast__remote_watch(space, owner, tensor);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* ACK: the owner has applied this actor's updates up to a sequence number. */
static fast_err take_ack(fast_space *space, int64_t owner, const fast_msg *msg)
{
    FAST_ASSERT(space->map.owners[owner].acked <= space->map.owners[owner].sent);
    fast_space_owner *o = &space->map.owners[owner];
    const int64_t sequence = msg->words[FAST_SPACE_W_A], before = o->acked;
    if (sequence > o->acked - o->base && sequence <= o->sent - o->base)
        o->acked = o->base + sequence;
    fast__copies_acked(space, owner, before);
    return FAST_OK;
}

/* Answers without values: NEVER to the get that the owner was asked for, and LEFT, GONE and
 * REFUSED, after which the owner sends nothing more. */
static fast_err take_end(fast_space *space, int64_t owner, const fast_msg *msg)
{
    FAST_ASSERT(fast__copies_owns(space, owner, msg->from));
    fast_space_owner *o = &space->map.owners[owner];
    const int64_t kind = msg->words[FAST_SPACE_W_KIND];
    o->never |= kind == FAST_SPACE_NEVER && o->asked != 0 && msg->words[FAST_SPACE_W_A] == o->asked;
    o->left |= kind == FAST_SPACE_LEFT;
    o->gone |= kind == FAST_SPACE_GONE && space->copies.count == 0;
    o->refused |= kind == FAST_SPACE_REFUSED;
    return FAST_OK;
}

/* The function that handles an answer, by its kind. */
static fast_err (*const answers[FAST_SPACE_KINDS])(fast_space *, int64_t, const fast_msg *) = {
    [FAST_SPACE_ACK] = take_ack,
    [FAST_SPACE_VALUE] = take_value,
    [FAST_SPACE_SLICED] = take_slice,
    [FAST_SPACE_NOTIFY] = take_notice,
    [FAST_SPACE_LEFT] = take_end,
    [FAST_SPACE_NEVER] = take_end,
    [FAST_SPACE_GONE] = take_end,
    [FAST_SPACE_REFUSED] = take_end,
    [FAST_SPACE_ROLE] = fast__copies_follow,
};

/* Handle an answer; one that makes no sense is dropped. */
static fast_err take(fast_space *space, const fast_msg *msg)
{
    const int64_t *w = msg->words, owner = w[FAST_SPACE_W_OWNER], kind = w[FAST_SPACE_W_KIND];
    if (owner < 0 || owner >= space->map.owner_count ||
        !fast__copies_owns(space, owner, msg->from) || w[FAST_SPACE_W_TENSOR] < 0 ||
        w[FAST_SPACE_W_TENSOR] >= space->map.tensor_count || kind < 0 || kind >= FAST_SPACE_KINDS ||
        !answers[kind])
        return FAST_OK;
    return answers[kind](space, owner, msg);
}

/* Called before the message counts as read: a program may look at parts that no get asked for. */
void fast__space_on_arrival(fast_space *space, fast_space_arrival_fn *arrival, void *ctx)
{
    FAST_ASSERT(space);
    space->reader.arrival = arrival;
    space->reader.arrival_ctx = ctx;
}

/* Note which of this actor's updates the held values have after a message from an owner. */
static void note_held(fast_space *space, int64_t owner, const fast_msg *msg)
{
    fast_space_owner *o = &space->map.owners[owner];
    const int64_t id = msg->words[FAST_SPACE_W_A];
    const int64_t held = id > 0 ? o->asked_after : id >= o->base - o->sent ? o->base - id : o->sent;
    FAST_ASSERT(held <= o->sent);
    if (msg->declared != FAST_SPACE_PARTIAL)
        o->complete = held > o->complete ? held : o->complete;
    else if (space->reader.arrival && fast__space_changed_part(space, owner))
        space->reader.arrival(space->reader.arrival_ctx, owner, held,
                              fast__space_changed_part(space, owner));
}

/* Add differences to the held values as they arrive, also where no get waits for them any more:
 * each is relative to the one before it. False if the message is to be dropped. */
static bool follow_value(fast_space *space, const fast_msg *msg)
{
    const int64_t *w = msg->words, owner = w[FAST_SPACE_W_OWNER];
    if (w[FAST_SPACE_W_KIND] != FAST_SPACE_VALUE || msg->part_count == 0 ||
        !fast__space_differs(space, w[FAST_SPACE_W_TENSOR]))
        return true;
    if (owner < 0 || owner >= space->map.owner_count || space->map.owners[owner].id != msg->from ||
        msg->part_count != 1 ||
        !fast__space_take(space, owner, fast_msg_data(msg, 0), msg->parts[0].size))
        return false;
    note_held(space, owner, msg);
    return true;
}

/* Differences first: they count even if the answer itself is late. */
fast_err fast__remote_advance(fast_space *space)
{
    fast_msg *msg;
    FAST_ASSERT(space->map.remote_count > 0);
    while ((msg = fast__take(space->actor, FAST_ANY, fast__space_tag(space, true)))) {
        if (!follow_value(space, msg)) {
            fast_msg_free(msg);
            continue;
        }
        if (retain_pushed(space, msg))
            continue;
        const fast_err err = take(space, msg);
        fast_msg_free(msg);
        FAST_TRY(err);
    }
    return FAST_OK;
}

/* All LEAVEs are sent before the first wait, so that no two owners wait for each other. */
fast_err fast__remote_leave(fast_space *space)
{
    FAST_ASSERT(space->map.remote_count > 0);
    const int64_t deadline = fast__deadline(space->actor, FAST_SOON);
    const int64_t words[3] = { 0 };
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        fast_space_owner *o = &space->map.owners[owner];
        if (o->store.head || o->refused || o->gone || o->left || o->leaving)
            continue;
        const fast_err err = fast__copies_excuse(
            space, owner, fast__space_tell(space, o->id, FAST_SPACE_LEAVE, 0, owner, words));
        if (err == FAST_ECANCELED)
            return err;
        o->leaving = err == FAST_OK;
    }
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        fast_space_owner *o = &space->map.owners[owner];
        fast_wait wait = fast__space_wait(space, o->id, "space close", deadline);
        while (o->leaving && !o->left && !o->gone && !o->refused) {
            wait.whom = fast__copies_whom(space, owner);
            const fast_err err =
                fast__copies_excuse(space, owner, fast__wait_once(space->actor, &wait));
            if (err == FAST_EPEER)
                break;
            FAST_TRY(err);
            if (space->owned.gathers) /* an owner serves meanwhile */
                FAST_TRY(fast__service_gather(space));
        }
    }
    return FAST_OK;
}
