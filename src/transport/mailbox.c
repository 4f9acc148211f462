/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mailbox: arrived messages of an actor, found by (from, tag), or in order of arrival.
 *
 *   arrival    first <-> ... <-> last            linked by `next` and `back`
 *   table      hash(from, tag) -> first .. last  linked by `chain`, in order of arrival
 *   tags       hash(tag) -> first <-> .. last    linked by `tag_next` and `tag_back`
 *
 * A message is in all three. Matching a sender and a tag, or a tag of any sender, searches one
 * bucket, which has few messages of other keys because the tables grow with the mailbox; matching
 * any tag walks the arrivals from the oldest. The first tables are inside the mailbox; they grow
 * when there are twice as many messages as buckets and never shrink. Without memory for larger
 * tables, matching is only slower.
 */
#include "transport/mailbox.h"

#include "base/memory.h"
#include "transport/peers.h"
#include "transport/transport.h"

/* Return the bucket of a key. */
static fast_bucket *bucket_of(fast_mailbox *box, int64_t from, uint64_t tag)
{
    const uint64_t hash = (tag ^ ((uint64_t)from << 40) ^ (uint64_t)from) * 0x9e3779b97f4a7c15u;
    /* A mailbox that was never used is zeroed: its mask is set at the first arrival. */
    fast_bucket *table = box->table ? box->table : box->few;
    return &table[(hash >> 40) & box->mask];
}

/* Return the bucket of a tag, in the second table. */
static fast_bucket *bucket_of_tag(fast_mailbox *box, uint64_t tag)
{
    fast_bucket *table = box->table ? box->table : box->few;
    const uint64_t hash = tag * 0x9e3779b97f4a7c15u;
    return &table[box->mask + 1 + ((hash >> 40) & box->mask)];
}

/* Append a message to the bucket of its tag. */
static void tag_add(fast_bucket *bucket, fast_msg *msg)
{
    fast__envelope(msg)->tag_next = NULL;
    fast__envelope(msg)->tag_back = bucket->first ? bucket->last : NULL;
    if (bucket->first)
        fast__envelope(bucket->last)->tag_next = msg;
    else
        bucket->first = msg;
    bucket->last = msg;
}

/* Remove a message from the bucket of its tag. */
static void tag_leave(fast_bucket *bucket, fast_msg *msg)
{
    const fast_envelope *e = fast__envelope(msg);

    if (e->tag_back)
        fast__envelope(e->tag_back)->tag_next = e->tag_next;
    else
        bucket->first = e->tag_next;
    if (e->tag_next)
        fast__envelope(e->tag_next)->tag_back = e->tag_back;
    else
        bucket->last = e->tag_back;
}

/* Append a message to a bucket. */
static void bucket_add(fast_bucket *bucket, fast_msg *msg)
{
    fast__envelope(msg)->chain = NULL;
    if (bucket->first)
        fast__envelope(bucket->last)->chain = msg;
    else
        bucket->first = msg;
    bucket->last = msg;
}

/* Make tables with four times as many buckets; messages move in order of arrival. */
static void grow(fast_mailbox *box)
{
    const uint64_t mask = box->mask * 4 + 3;
    fast_bucket *table;
    if (mask >> 24 || fast__alloc("a mailbox", 2 * ((int64_t)mask + 1), sizeof *table, &table))
        return;
    fast__free(box->table);
    box->table = table;
    box->mask = mask;
    for (fast_msg *msg = box->first; msg; msg = fast__envelope(msg)->next) {
        bucket_add(bucket_of(box, msg->from, msg->tag), msg);
        tag_add(bucket_of_tag(box, msg->tag), msg);
    }
}

/* Append a message to the arrivals and to its buckets. */
static void put(fast_mailbox *box, fast_msg *msg)
{
    if (box->mask == 0)
        box->mask = FAST_BUCKETS - 1;
    if ((uint64_t)box->count > 2 * box->mask)
        grow(box);
    fast__envelope(msg)->stamp = box->stamp++;
    fast__envelope(msg)->next = NULL;
    fast__envelope(msg)->back = box->last;
    if (box->last)
        fast__envelope(box->last)->next = msg;
    else
        box->first = msg;
    box->last = msg;
    bucket_add(bucket_of(box, msg->from, msg->tag), msg);
    tag_add(bucket_of_tag(box, msg->tag), msg);
    box->count++;
}

/* Remove a message, which is in no bucket of (from, tag) any more, from its tag and arrivals. */
static fast_msg *leave(fast_mailbox *box, fast_msg *msg)
{
    tag_leave(bucket_of_tag(box, msg->tag), msg);
    if (fast__envelope(msg)->back)
        fast__envelope(fast__envelope(msg)->back)->next = fast__envelope(msg)->next;
    else
        box->first = fast__envelope(msg)->next;
    if (fast__envelope(msg)->next)
        fast__envelope(fast__envelope(msg)->next)->back = fast__envelope(msg)->back;
    else
        box->last = fast__envelope(msg)->back;
    box->count--;
    return msg;
}

/* Remove a message from its bucket: `before` is its predecessor there, or NULL. */
static void unchain(fast_bucket *bucket, fast_msg *before, fast_msg *msg)
{
    if (before)
        fast__envelope(before)->chain = fast__envelope(msg)->chain;
    else
        bucket->first = fast__envelope(msg)->chain;
    if (bucket->last == msg)
        bucket->last = before;
}

/* Remove the oldest message with this sender and tag; NULL if none has arrived. */
static fast_msg *take_exact(fast_mailbox *box, int64_t from, uint64_t tag)
{
    fast_bucket *bucket = bucket_of(box, from, tag);
    fast_msg *before = NULL;
    for (fast_msg *msg = bucket->first; msg; before = msg, msg = fast__envelope(msg)->chain)
        if (msg->from == from && msg->tag == tag) {
            unchain(bucket, before, msg);
            return leave(box, msg);
        }
    return NULL;
}

/* Remove a message that was found by walking the arrivals. */
static fast_msg *take_found(fast_mailbox *box, fast_msg *msg)
{
    fast_bucket *bucket = bucket_of(box, msg->from, msg->tag);
    fast_msg *before = NULL;
    for (fast_msg *other = bucket->first; other != msg; other = fast__envelope(other)->chain)
        before = other;
    unchain(bucket, before, msg);
    return leave(box, msg);
}

/* Remove the oldest message with this tag of any sender; NULL if none has arrived. */
static fast_msg *take_tag(fast_mailbox *box, uint64_t tag)
{
    for (fast_msg *msg = bucket_of_tag(box, tag)->first; msg; msg = fast__envelope(msg)->tag_next)
        if (msg->tag == tag)
            return take_found(box, msg);
    return NULL;
}

/* Remove the oldest message of a sender, or of any, with any tag of programs; NULL if none has
 * arrived. */
static fast_msg *take_oldest(fast_mailbox *box, int64_t from)
{
    for (fast_msg *msg = box->first; msg; msg = fast__envelope(msg)->next)
        if ((from == FAST_ANY || msg->from == from) && msg->tag < FAST_TAG_MAX)
            return take_found(box, msg);
    return NULL;
}

/* Return whether the message belongs to a generation before the fence. */
static bool is_stale(const fast_mailbox *box, const fast_msg *msg)
{
    return msg->generation != 0 && msg->generation < box->fence;
}

void fast__mailbox_fence(fast_actor *actor, uint32_t generation)
{
    fast_mailbox *box = &actor->mailbox;
    if (generation <= box->fence)
        return;
    box->fence = generation;
    for (fast_msg *msg = box->first, *next; msg; msg = next) {
        next = fast__envelope(msg)->next;
        if (is_stale(box, msg)) {
            fast__count(&actor->counters.messages_stale, 1);
            fast_msg_free(take_found(box, msg));
        }
    }
}

fast_msg *fast__take(fast_actor *actor, int64_t from, uint64_t tag)
{
    fast_mailbox *box = &actor->mailbox;
    FAST_ASSERT(from >= FAST_ANY && from < actor->world->count);
    if (box->count == 0)
        return NULL;
    if (tag == FAST_TAG_ANY)
        return take_oldest(box, from);
    return from == FAST_ANY ? take_tag(box, tag) : take_exact(box, from, tag);
}

bool fast__deliver(fast_actor *actor, fast_msg *msg)
{
    const fast_wait *wait = &actor->wait;

    FAST_ASSERT(msg->to == actor->id);
    FAST_ASSERT(msg->from >= 0 && msg->from < actor->world->count);
    fast__pool_arrive(msg);
    if (actor->world->check)
        fast__check_deliver(actor, msg);
    if (actor->trace && fast__record_deliver(actor, msg))
        return true;
    if (actor->met)
        actor->met[msg->from / 64] |= (uint64_t)1 << (msg->from % 64);
    if (actor->mailbox.silent_count > 0)
        fast__peers_heard(actor, msg->from);
    if (msg->tag >> 56 == FAST_TAG_CONTROL >> 56) {
        if (msg->tag == FAST_TAG_WHO || msg->tag == FAST_TAG_ANSWER) {
            fast__blame_deliver(actor, msg);
            return false;
        }
        fast__peers_deliver(actor, msg);
        return true;
    }
    if (is_stale(&actor->mailbox, msg)) {
        fast__count(&actor->counters.messages_stale, 1);
        fast_msg_free(msg);
        return false;
    }
    put(&actor->mailbox, msg);
    return actor->tasks || (wait->waiting && (wait->whom == FAST_ANY || wait->whom == msg->from));
}

void fast__mailbox_fini(fast_mailbox *mailbox)
{
    for (fast_msg *msg = mailbox->first; msg;) {
        fast_msg *next = fast__envelope(msg)->next;
        fast_msg_free(msg);
        msg = next;
    }
    fast__free(mailbox->table);
    fast__peers_free(mailbox->peers);
    *mailbox = (fast_mailbox){ 0 };
}
