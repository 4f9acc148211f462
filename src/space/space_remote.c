/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Far owners, from the side of who uses a space: requests go out, answers are taken in the actor's
 * waits. At most FAST_SPACE_WINDOW updates are on their way to an owner; it acknowledges all that
 * it has applied in one message. A get asks all owners of the tensor at once; answers are copied to
 * their places as they arrive.
 *
 *     put, add   one message and 4 bytes a float, one acknowledgement, for each owner
 *     announce   one message for each owner
 *     tick       one message, one acknowledgement, for each owner
 *     get        one message, one answer with 4 bytes a float, for each owner; none where an eager
 *                owner has sent what is new enough before
 */
#include "space/space.h"
#include "transport/peers.h"

#include <string.h>

static fast_wait wait_for(fast_space *space, int64_t owner, const char *doing, int64_t deadline)
{
    return (fast_wait){ .waiting = true,
                        .whom = space->owners[owner].id,
                        .tag = fast__space_tag(space, true),
                        .since = fast_now(space->actor),
                        .deadline = deadline,
                        .doing = doing };
}

/* Is the owner one to talk to? */
static fast_err check_owner(const fast_space *space, int64_t owner)
{
    const fast_space_owner *o = &space->owners[owner];
    if (o->refused)
        return fast__fail(
            FAST_EINVAL,
            "actor %lld refuses: it opened space \"%s\" with other tensors, owners or "
            "writers, or this actor opened it before",
            (long long)o->id, space->name);
    if (o->gone) {
        space->actor->culprit = fast__peers_culprit(space->actor, o->id);
        return fast__fail(FAST_EPEER, "actor %lld, an owner of space \"%s\", has left it",
                          (long long)o->id, space->name);
    }
    return space->task.err;
}

fast_err fast__far_update(fast_space *space, int64_t owner, fast_space_kind kind, int64_t tensor,
                          const float *x, int64_t deadline)
{
    fast_space_owner *o = &space->owners[owner];
    const fast_wait wait = wait_for(space, owner, "space room", deadline);
    FAST_TRY(check_owner(space, owner));
    while (o->sent - o->acked >= FAST_SPACE_WINDOW) {
        const fast_err err = fast__wait_once(space->actor, &wait);
        if (err == FAST_EPEER) /* What it had is lost; if it comes back it begins anew. */
            o->acked = o->sent;
        FAST_TRY(err);
        FAST_TRY(check_owner(space, owner));
    }
    fast_msg *msg;
    const int64_t words[3] = { o->sent + 1, space->clock,
                               *fast__space_at(space, space->read, owner, tensor) };
    FAST_TRY(fast__space_message(space, kind, tensor, owner, words, &msg));
    if (kind != FAST_SPACE_TICK) {
        int64_t offset, count;
        fast__space_range(space, owner, tensor, &offset, &count);
        const fast_err err = fast__space_pack(space, msg, x ? x + offset : NULL, count);
        if (err) {
            fast_msg_free(msg);
            return err;
        }
    }
    FAST_TRY(fast_send(space->actor, o->id, &msg));
    o->sent++;
    return FAST_OK;
}

fast_err fast__space_announce(fast_space *space, const float *x)
{
    const int64_t words[3] = { 0 };
    for (int64_t owner = 0; owner < space->owner_count; owner++) {
        int64_t offset, count;
        fast__space_range(space, owner, 0, &offset, &count);
        if (space->owners[owner].store.head || fast__space_entries(x + offset, count) == 0)
            continue;
        FAST_TRY(check_owner(space, owner));
        FAST_TRY(
            fast__space_tell(space, space->owners[owner].id, FAST_SPACE_ANNOUNCE, 0, owner, words));
    }
    return FAST_OK;
}

/* Use what an eager owner sent, if it is as new as it is wanted. */
static bool take_pushed(fast_space *space, int64_t owner, const fast_space_read *read)
{
    fast_space_get_state *get = &space->get;
    const fast_msg *msg = get->tensor == 0 ? space->owners[owner].pushed : NULL;
    if (!msg)
        return false;
    const bool applied = msg->words[FAST_SPACE_W_B] >= read->version_min;
    const bool in_time = msg->words[FAST_SPACE_W_C] >= read->clock_min;
    if (read->either ? !in_time && !applied : !in_time || !applied)
        return false;
    int64_t offset, count;
    const float *x = NULL;
    fast__space_range(space, owner, 0, &offset, &count);
    if (!fast__space_unpack(space, msg, count, &x) || !x)
        return false;
    if (get->x)
        memcpy(get->x + offset, x, (size_t)count * sizeof *x);
    const int64_t version = msg->words[FAST_SPACE_W_B], clock = msg->words[FAST_SPACE_W_C];
    *fast__space_at(space, space->read, owner, 0) = version;
    get->version = version < get->version ? version : get->version;
    get->clock = clock < get->clock ? clock : get->clock;
    return true;
}

/* Keep what an eager owner sent; true if the message is such. */
static bool keep_pushed(fast_space *space, fast_msg *msg)
{
    const int64_t *w = msg->words, owner = w[FAST_SPACE_W_OWNER];
    if (!space->eager || w[FAST_SPACE_W_KIND] != FAST_SPACE_VALUE || w[FAST_SPACE_W_A] != 0 ||
        w[FAST_SPACE_W_TENSOR] != 0 || owner < 0 || owner >= space->owner_count ||
        space->owners[owner].id != msg->from || w[FAST_SPACE_W_B] < 0)
        return false;
    fast_msg_free(space->owners[owner].pushed);
    space->owners[owner].pushed = msg;
    return true;
}

fast_err fast__far_get_start(fast_space *space, int64_t owner, const fast_space_read *read)
{
    FAST_TRY(check_owner(space, owner));
    if (!read->whole && take_pushed(space, owner, read))
        return FAST_OK;
    fast_msg *msg;
    const int64_t words[3] = { space->get.id, read->version_min, read->clock_min };
    FAST_TRY(fast__space_message(space, FAST_SPACE_GET, space->get.tensor, owner, words, &msg));
    /* What else is wanted is said with declared bytes: their number is a sum of flags. */
    msg->declared = (!space->get.x ? FAST_SPACE_SIZES
                     : read->whole ? FAST_SPACE_WHOLE
                                   : 0) +
                    (read->either ? FAST_SPACE_EITHER : 0) +
                    (space->get.sliced ? FAST_SPACE_SLICES : 0);
    FAST_TRY(fast_send(space->actor, space->owners[owner].id, &msg));
    space->owners[owner].asked = space->get.id;
    space->owners[owner].came = 0;
    space->get.missing++;
    return FAST_OK;
}

/* Wait for the first `floats` of an owner's part of the get. */
static fast_err wait_for_part(fast_space *space, int64_t owner, int64_t floats, int64_t deadline)
{
    const fast_space_owner *o = &space->owners[owner];
    const fast_wait wait = wait_for(space, owner, "space get", deadline);
    while (o->asked == space->get.id && o->came < floats) {
        FAST_TRY(fast__wait_once(space->actor, &wait));
        FAST_TRY(check_owner(space, owner));
        if (space->get.never)
            return fast__fail(FAST_EPEER,
                              "nobody is left in space \"%s\" who could bring tensor %lld to "
                              "the version that is waited for",
                              space->name, (long long)space->get.tensor);
    }
    return FAST_OK;
}

fast_err fast__far_get_wait(fast_space *space, int64_t deadline)
{
    for (int64_t owner = 0; owner < space->owner_count; owner++)
        FAST_TRY(wait_for_part(space, owner, INT64_MAX, deadline));
    FAST_ASSERT(space->get.missing == 0);
    return FAST_OK;
}

fast_err fast__far_get_need(fast_space *space, int64_t offset, int64_t count)
{
    for (int64_t owner = 0; owner < space->owner_count; owner++) {
        int64_t low, size;
        fast__space_range(space, owner, 0, &low, &size);
        const int64_t end = offset + count < low + size ? offset + count : low + size;
        if (end > low && offset < low + size)
            FAST_TRY(wait_for_part(space, owner, end - low, space->get.deadline));
    }
    return FAST_OK;
}

fast_err fast__far_watch(fast_space *space, int64_t owner, int64_t tensor)
{
    FAST_TRY(check_owner(space, owner));
    const int64_t words[3] = { 0, *fast__space_at(space, space->told, owner, tensor), 0 };
    return fast__space_tell(space, space->owners[owner].id, FAST_SPACE_WATCH, tensor, owner, words);
}

/* A slice of an owner's part of the get under way: the next one. */
static void take_slice(fast_space *space, int64_t owner, const fast_msg *msg)
{
    fast_space_owner *o = &space->owners[owner];
    const fast_space_get_state *get = &space->get;
    int64_t offset, count;
    if (!get->sliced || get->missing == 0 || o->asked != get->id ||
        msg->words[FAST_SPACE_W_A] != get->id || msg->words[FAST_SPACE_W_TENSOR] != 0 ||
        msg->words[FAST_SPACE_W_B] != o->came || msg->part_count != 1 ||
        msg->parts[0].size % sizeof *get->x != 0)
        return;
    const int64_t floats = (int64_t)(msg->parts[0].size / sizeof *get->x);
    fast__space_range(space, owner, 0, &offset, &count);
    if (floats > count - o->came)
        return;
    memcpy(get->x + offset + o->came, fast_msg_data(msg, 0), msg->parts[0].size);
    o->came += floats;
}

/* An owner's part of the get under way. */
static void take_value(fast_space *space, int64_t owner, const fast_msg *msg)
{
    fast_space_owner *o = &space->owners[owner];
    fast_space_get_state *get = &space->get;
    const int64_t version = msg->words[FAST_SPACE_W_B], clock = msg->words[FAST_SPACE_W_C];
    int64_t offset, count;
    const float *x;
    if (o->asked != get->id || msg->words[FAST_SPACE_W_A] != get->id ||
        msg->words[FAST_SPACE_W_TENSOR] != get->tensor || get->missing == 0)
        return;
    fast__space_range(space, owner, get->tensor, &offset, &count);
    if (get->sliced && msg->part_count == 0 && msg->declared == 0 && o->came == count)
        x = NULL; /* it is there */
    else if (!fast__space_unpack(space, msg, count, &x) || (!x && get->x))
        return;
    if (version < 0)
        return;
    if (x && get->x)
        memcpy(get->x + offset, x, (size_t)count * sizeof *x);
    *fast__space_at(space, space->read, owner, get->tensor) = version;
    get->version = version < get->version ? version : get->version;
    get->clock = clock < get->clock ? clock : get->clock;
    get->missing--;
    o->asked = 0;
}

/* Another version is there: tell the watcher, and ask to be told again. */
static fast_err take_notice(fast_space *space, int64_t owner, const fast_msg *msg)
{
    const int64_t tensor = msg->words[FAST_SPACE_W_TENSOR];
    int64_t *told = fast__space_at(space, space->told, owner, tensor);
    if (!space->watched || !space->watched[tensor].watch || msg->words[FAST_SPACE_W_B] <= *told)
        return FAST_OK;
    *told = msg->words[FAST_SPACE_W_B];
    space->owners[owner].clock = msg->words[FAST_SPACE_W_C];
    space->watched[tensor].changed = true;
    const fast_err err = fast__far_watch(space, owner, tensor);
    return err == FAST_EPEER ? FAST_OK : err;
}

static fast_err take(fast_space *space, const fast_msg *msg)
{
    const int64_t owner = msg->words[FAST_SPACE_W_OWNER], tensor = msg->words[FAST_SPACE_W_TENSOR];
    if (owner < 0 || owner >= space->owner_count || space->owners[owner].id != msg->from ||
        tensor < 0 || tensor >= space->tensor_count)
        return FAST_OK;
    fast_space_owner *o = &space->owners[owner];
    switch (msg->words[FAST_SPACE_W_KIND]) {
    case FAST_SPACE_ACK:
        if (msg->words[FAST_SPACE_W_A] > o->acked && msg->words[FAST_SPACE_W_A] <= o->sent)
            o->acked = msg->words[FAST_SPACE_W_A];
        return FAST_OK;
    case FAST_SPACE_VALUE:
        take_value(space, owner, msg);
        return FAST_OK;
    case FAST_SPACE_SLICED:
        take_slice(space, owner, msg);
        return FAST_OK;
    case FAST_SPACE_NOTIFY:
        return take_notice(space, owner, msg);
    case FAST_SPACE_NEVER:
        space->get.never |= msg->words[FAST_SPACE_W_A] == space->get.id;
        return FAST_OK;
    case FAST_SPACE_LEFT:
        o->left = true;
        return FAST_OK;
    case FAST_SPACE_GONE:
        o->gone = true;
        return FAST_OK;
    case FAST_SPACE_REFUSED:
        o->refused = true;
        return FAST_OK;
    default:
        return FAST_OK;
    }
}

/* Differences are taken in as they come, also by who no longer waits for them: each is to what the
 * one before it made. False if the message is to be dropped. */
static bool follow_value(fast_space *space, const fast_msg *msg)
{
    const int64_t *w = msg->words, owner = w[FAST_SPACE_W_OWNER];
    if (w[FAST_SPACE_W_KIND] != FAST_SPACE_VALUE || msg->part_count == 0 ||
        !fast__space_differs(space, w[FAST_SPACE_W_TENSOR]))
        return true;
    return owner >= 0 && owner < space->owner_count && space->owners[owner].id == msg->from &&
           msg->part_count == 1 &&
           fast__space_take(space, owner, fast_msg_data(msg, 0), msg->parts[0].size);
}

fast_err fast__far_advance(fast_space *space)
{
    fast_msg *msg;
    while ((msg = fast__take(space->actor, FAST_ANY, fast__space_tag(space, true)))) {
        if (!follow_value(space, msg)) {
            fast_msg_free(msg);
            continue;
        }
        if (keep_pushed(space, msg))
            continue;
        const fast_err err = take(space, msg);
        fast_msg_free(msg);
        FAST_TRY(err);
    }
    return FAST_OK;
}

fast_err fast__far_leave(fast_space *space)
{
    const int64_t deadline = fast__deadline(space->actor, FAST_SOON);
    const int64_t words[3] = { 0 };
    for (int64_t owner = 0; owner < space->owner_count; owner++) {
        fast_space_owner *o = &space->owners[owner];
        if (o->store.head || o->refused || o->gone || o->left || o->leaving)
            continue;
        const fast_err err = fast__space_tell(space, o->id, FAST_SPACE_LEAVE, 0, owner, words);
        if (err == FAST_ECANCELED)
            return err;
        o->leaving = err == FAST_OK;
    }
    for (int64_t owner = 0; owner < space->owner_count; owner++) {
        fast_space_owner *o = &space->owners[owner];
        const fast_wait wait = wait_for(space, owner, "space close", deadline);
        while (o->leaving && !o->left && !o->gone && !o->refused) {
            const fast_err err = fast__wait_once(space->actor, &wait);
            if (err == FAST_EPEER)
                break;
            FAST_TRY(err);
        }
    }
    return FAST_OK;
}
