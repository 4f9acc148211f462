/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An actor in a snapshot, as its transport sees it. Records (base/pack.h):
 *
 *   stream    number 0: the actor's own; 1, 2, ...: those of the transport, which another transport
 *             does not have and leaves out. Data: key[2], counter[4], block[4], left, 4 bytes each.
 *             Number -1: the time of the run, int64 ns
 *   message   in order of arrival. Data: a header of int64, then the bytes of the parts:
 *
 *             from | tag | declared | generation | unreliable | words[6] | parts | sizes[4]
 *
 * Messages of collectives and spaces are never there: their tasks take them as they arrive. Those
 * of the run itself, with tags from TAG_MAX on, belong to the snapshot's own protocol.
 */
#include "transport/saved_actor.h"

#include <string.h>

/* Words of a message's header. */
enum {
    FROM,
    TAG,
    DECLARED,
    GENERATION,
    UNRELIABLE,
    WORDS,
    PARTS = WORDS + FAST_MSG_WORDS,
    SIZES,
    HEAD = SIZES + FAST_MSG_PARTS_MAX
};

enum { TIME = -1 }; /* number of the record of the time */

/* Tags from here on are of the run. */
static const uint64_t TAG_MAX = 0x7fffff00;

/* Return stream i of an actor, its own first; NULL after the last. */
static fast_rng *stream_of(fast_actor *actor, int64_t i)
{
    const fast_transport *inner = actor->world->inner;

    FAST_ASSERT(i >= 0);
    if (i == 0)
        return &actor->rng;
    return inner->stream && i < 16 ? inner->stream(actor, (int)i - 1) : NULL;
}

int64_t fast__actor_time(fast_actor *actor)
{
    return fast__steady_now(actor) - actor->waiting.behind;
}

void fast__actor_continue(fast_actor *actor, int64_t now)
{
    actor->waiting.behind = now - actor->waiting.saved;
    /* A resumed run knows no chains of earlier waits, and asks its questions at the same times. */
    actor->blame = (fast_blame){ .deadline = 0 };
    actor->waiting.grace = -1;
}

/* Add one message. */
static void save_message(const fast_msg *msg, int64_t kind, int64_t number, fast_pack *pack)
{
    int64_t head[HEAD] = { [FROM] = msg->from,
                           [TAG] = (int64_t)msg->tag,
                           [DECLARED] = (int64_t)msg->declared,
                           [GENERATION] = msg->generation,
                           [UNRELIABLE] = msg->unreliable,
                           [PARTS] = msg->part_count };
    size_t size = sizeof head;

    memcpy(&head[WORDS], msg->words, sizeof msg->words);
    for (int i = 0; i < msg->part_count; i++) {
        head[SIZES + i] = (int64_t)msg->parts[i].size;
        size += msg->parts[i].size;
    }
    uint8_t *at = fast__pack_add(pack, kind, number, size);
    if (!at)
        return;
    memcpy(at, head, sizeof head);
    at += sizeof head;
    for (int i = 0; i < msg->part_count; i++) {
        if (msg->parts[i].size > 0)
            memcpy(at, fast_msg_data(msg, i), msg->parts[i].size);
        at += msg->parts[i].size;
    }
}

void fast__actor_save(fast_actor *actor, int64_t streams, int64_t messages, fast_pack *pack)
{
    const fast_rng *rng;
    int64_t number = 0;

    FAST_ASSERT(streams != messages);
    if (!pack->out)
        actor->waiting.saved = fast__actor_time(actor);
    fast__pack_put(pack, streams, TIME, &actor->waiting.saved, sizeof actor->waiting.saved);
    for (int64_t i = 0; (rng = stream_of(actor, i)) != NULL; i++)
        fast__pack_put(pack, streams, i, rng, sizeof *rng);
    for (const fast_msg *msg = actor->mailbox.first; msg; msg = fast__envelope(msg)->next)
        if (msg->tag < TAG_MAX)
            save_message(msg, messages, number++, pack);
}

fast_err fast__actor_load_stream(fast_actor *actor, const fast_pack_record *record)
{
    fast_rng *rng = record->number >= 0 ? stream_of(actor, record->number) : NULL;
    const int64_t time_max = INT64_MAX / 4;
    fast_rng saved;
    int64_t time = -1;

    if (record->number == TIME && record->size == sizeof time)
        memcpy(&time, record->data, sizeof time);
    if (record->number == TIME && (time < 0 || time > time_max))
        return fast__fail(FAST_EFORMAT, "the checkpoint's time of an actor is damaged");
    if (record->number == TIME) {
        actor->waiting.saved = time;
        return FAST_OK;
    }
    if (record->size != sizeof saved)
        return fast__fail(FAST_EFORMAT, "the checkpoint's random stream has %zu bytes, not %zu",
                          record->size, sizeof saved);
    memcpy(&saved, record->data, sizeof saved);
    if (saved.left < 0 || saved.left > 4)
        return fast__fail(FAST_EFORMAT, "the checkpoint's random stream is damaged");
    if (rng)
        *rng = saved;
    return FAST_OK;
}

/* Check a header, and that the parts make up the rest of the record. */
static bool is_whole(const fast_actor *actor, const int64_t head[HEAD], size_t rest)
{
    if (head[FROM] < 0 || head[FROM] >= actor->world->count || head[FROM] == actor->id ||
        head[TAG] < 0 || (uint64_t)head[TAG] >= TAG_MAX || head[DECLARED] < 0 ||
        head[GENERATION] < 0 || head[GENERATION] > UINT32_MAX || head[PARTS] < 0 ||
        head[PARTS] > FAST_MSG_PARTS_MAX)
        return false;
    for (int64_t i = 0; i < head[PARTS]; i++) {
        if (head[SIZES + i] < 0 || (uint64_t)head[SIZES + i] > rest)
            return false;
        rest -= (size_t)head[SIZES + i];
    }
    return rest == 0;
}

/* Copy the parts into buffers of the message. FAST_ENOMEM. */
static fast_err load_parts(fast_actor *actor, fast_msg *msg, const int64_t head[HEAD],
                           const uint8_t *from)
{
    for (int64_t i = 0; i < head[PARTS]; i++) {
        const size_t size = (size_t)head[SIZES + i];
        fast_buffer *buffer = NULL;

        FAST_TRY(fast_buffer_new(actor, size, &buffer));
        if (size > 0)
            memcpy(fast_buffer_data(buffer), from, size);
        fast_msg_add(msg, &buffer);
        from += size;
    }
    return FAST_OK;
}

fast_err fast__actor_load_message(fast_actor *actor, const fast_pack_record *record)
{
    int64_t head[HEAD];
    fast_msg *msg = NULL;
    fast_err err;

    if (record->size >= sizeof head)
        memcpy(head, record->data, sizeof head);
    if (record->size < sizeof head || !is_whole(actor, head, record->size - sizeof head))
        return fast__fail(FAST_EFORMAT, "the checkpoint's message %lld of an actor is damaged",
                          (long long)record->number);
    FAST_TRY(fast_msg_new(actor, (uint64_t)head[TAG], &msg));
    err = load_parts(actor, msg, head, (const uint8_t *)record->data + sizeof head);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    msg->from = head[FROM];
    msg->to = actor->id;
    msg->declared = (size_t)head[DECLARED];
    msg->generation = (uint32_t)head[GENERATION];
    msg->unreliable = head[UNRELIABLE] != 0;
    memcpy(msg->words, &head[WORDS], sizeof msg->words);
    (void)fast__deliver(actor, msg);
    return FAST_OK;
}
