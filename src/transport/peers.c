/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Membership as one actor sees it: actors that are suspected, up again, or ended. Events arrive as
 * control messages, so they take time and stay behind the earlier messages of the peer.
 *
 * An actor is down if the transport says so, and silent if a wait for it timed out without any
 * answer. Silence is told to everybody, so that a peer that hangs costs one timeout and not one for
 * each actor and step. It is a guess: a peer that computes for long is silent too. So messages are
 * still sent to it, one of them asks whether it is there, and whatever arrives from it ends the
 * suspicion.
 *
 * Most actors hear nothing about most others, so only actors with an event have a row: a list in
 * the order of first events, found through a table of (id, row) with linear probing, at most half
 * full. Events that the program has not taken yet are a queue through the rows.
 */
#include "transport/peers.h"

#include "base/memory.h"
#include "transport/transport.h"

#include <string.h>

enum {
    ROWS_MIN = 8, /* rows of the first table */
    NONE = -1,    /* no row */
    BUSY = -2     /* word of FAST_TAG_STOOD: the sender stands still from now on, until it tells */
};
static const int64_t BUSY_NS_MAX = 3600000000000; /* that others wait for an actor that is busy */

typedef struct peer_row {
    int64_t id;         /* number of the actor */
    fast_peer peer;     /* its state */
    int64_t next_event; /* the next row in the queue of events; or NONE */
    bool queued;        /* it is in the queue of events */
} peer_row;

struct fast_peers {
    peer_row *rows;      /* [space] in the order of first events */
    int64_t count;       /* rows in use */
    int64_t space;       /* rows that fit, a power of two */
    int64_t *table;      /* [2 * space]: index of a row plus 1; 0: free */
    int64_t event_first; /* row of the oldest event; or NONE */
    int64_t event_last;  /* row of the newest event */
};

/* State of an actor without a row: up, and never heard of. */
static const fast_peer unknown = { .culprit = -1, .heard = -1 };

void fast__peers_free(fast_peers *peers)
{
    if (!peers)
        return;
    fast__free(peers->rows);
    fast__free(peers->table);
    fast__free(peers);
}

/* Return the entry of `id` in the table, or the free one where it belongs. */
static int64_t *slot_of(const fast_peers *peers, int64_t id)
{
    const uint64_t mask = (uint64_t)peers->space * 2 - 1;
    uint64_t i = (uint64_t)id * 0x9e3779b97f4a7c15u >> 20;
    for (;; i++) {
        int64_t *slot = &peers->table[i & mask];
        if (*slot == 0 || peers->rows[*slot - 1].id == id)
            return slot;
    }
}

/* Return the row of `id`; NULL if there was no event about it. */
static peer_row *find(const fast_peers *peers, int64_t id)
{
    if (!peers || peers->space == 0)
        return NULL;
    const int64_t *slot = slot_of(peers, id);
    return *slot ? &peers->rows[*slot - 1] : NULL;
}

/* Make room for one more row. FAST_ENOMEM: nothing changed. */
static fast_err reserve(fast_peers *peers)
{
    if (peers->count < peers->space)
        return FAST_OK;
    const int64_t space = peers->space ? peers->space * 2 : ROWS_MIN;
    peer_row *rows;
    int64_t *table;
    FAST_TRY(fast__alloc("membership", space, sizeof *rows, &rows));
    const fast_err err = fast__alloc("membership", space * 2, sizeof *table, &table);
    if (err) {
        fast__free(rows);
        return err;
    }
    if (peers->count)
        memcpy(rows, peers->rows, (size_t)peers->count * sizeof *rows);
    fast__free(peers->rows);
    fast__free(peers->table);
    peers->rows = rows;
    peers->table = table;
    peers->space = space;
    for (int64_t i = 0; i < peers->count; i++)
        *slot_of(peers, rows[i].id) = i + 1;
    return FAST_OK;
}

/* Return the row of `id`, made at the first event; NULL without memory. */
static peer_row *make(fast_actor *actor, int64_t id)
{
    fast_peers *peers = actor->mailbox.peers;
    peer_row *found = find(peers, id);
    if (found)
        return found;
    if (!peers) {
        if (fast__alloc("membership", 1, sizeof *peers, &peers))
            return NULL;
        peers->event_first = NONE;
        actor->mailbox.peers = peers;
    }
    if (reserve(peers))
        return NULL;
    peer_row *r = &peers->rows[peers->count++];
    *r = (peer_row){ .id = id, .peer = unknown, .next_event = NONE };
    *slot_of(peers, id) = peers->count;
    return r;
}

/* Append a row to the queue of events, unless it is there already. */
static void queue(fast_peers *peers, peer_row *r)
{
    const int64_t i = r - peers->rows;
    if (r->queued)
        return;
    r->queued = true;
    r->next_event = NONE;
    if (peers->event_first == NONE)
        peers->event_first = i;
    else
        peers->rows[peers->event_last].next_event = i;
    peers->event_last = i;
}

/* Set whether an actor is silent; it has a row. */
static void set_silent(fast_actor *actor, peer_row *r, bool silent)
{
    if (r->peer.silent == silent)
        return;
    actor->mailbox.silent_count += silent ? 1 : -1;
    actor->mailbox.news++;
    r->peer.silent = silent;
    r->peer.heard = fast_now(actor);
    queue(actor->mailbox.peers, r);
}

/* Bits of actors, as of `met`. */
static bool bit_get(const uint64_t *bits, int64_t id)
{
    return bits[id / 64] >> (id % 64) & 1;
}

static void bit_set(uint64_t *bits, int64_t id)
{
    bits[id / 64] |= (uint64_t)1 << (id % 64);
}

/* Send a control message with one word to every other actor that it may concern: on a serial
 * transport to those that exchanged messages with this one. */
static void spread(fast_actor *actor, uint64_t tag, int64_t word, bool remote)
{
    const fast_world *world = actor->world;
    for (int64_t id = 0; id < world->count; id++) {
        fast_msg *msg;
        if (id == actor->id || id == word || fast__peer(actor, id)->down ||
            (remote && !world->inner->serial && world->places[id].here) ||
            (actor->met && !bit_get(actor->met, id)))
            continue;
        /* Without memory the news is lost, and the receiver waits on its own. */
        if (fast__pool_msg(world->pool, tag, &msg))
            return;
        msg->from = actor->id;
        msg->to = id;
        msg->words[0] = word;
        world->transport->send(actor, msg);
    }
}

/* Note that an actor is silent. False if it was known, or is down. */
static bool note_silent(fast_actor *actor, int64_t id)
{
    peer_row *r = id == actor->id ? NULL : make(actor, id);
    if (!r || r->peer.down || r->peer.silent)
        return false;
    set_silent(actor, r, true);
    fast__blame_probe(actor, id);
    return true;
}

void fast__peers_suspect(fast_actor *actor, int64_t id)
{
    FAST_ASSERT(id >= 0 && id < actor->world->count);
    if (!note_silent(actor, id))
        return;
    fast__timeline_add(actor, FAST_SPAN_FAULT, "does not answer", fast_now(actor), id, 0);
    spread(actor, FAST_TAG_SILENT, id, false);
}

void fast__peers_heard(fast_actor *actor, int64_t from)
{
    peer_row *r = find(actor->mailbox.peers, from);
    if (r)
        set_silent(actor, r, false);
}

void fast__peers_tell_stood(fast_actor *actor)
{
    spread(actor, FAST_TAG_STOOD, -1, true);
}

void fast__peers_tell_busy(fast_actor *actor)
{
    spread(actor, FAST_TAG_STOOD, BUSY, true);
}

/* Handle a message about silence or a standstill, which is not of the membership itself. */
static void deliver_silence(fast_actor *actor, fast_msg *msg)
{
    const int64_t id = msg->words[0];
    if (msg->tag == FAST_TAG_STOOD) {
        actor->waiting.hold = fast_now(actor) + (id == BUSY ? BUSY_NS_MAX : 0);
        fast__blame_forget(actor);
    } else if (id >= 0 && id < actor->world->count) {
        (void)note_silent(actor, id);
    }
    fast_msg_free(msg);
}

void fast__peers_deliver(fast_actor *actor, fast_msg *msg)
{
    if (msg->tag == FAST_TAG_SILENT || msg->tag == FAST_TAG_STOOD) {
        deliver_silence(actor, msg);
        return;
    }
    const bool ended = msg->tag == FAST_TAG_ENDED;
    const bool down = ended || msg->tag == FAST_TAG_DOWN;
    const int64_t id = ended ? msg->from : msg->words[0];

    FAST_ASSERT(down || msg->tag == FAST_TAG_UP);
    FAST_ASSERT(id >= 0 && id < actor->world->count);
    /* Without memory the event is lost, and waits end by their deadlines. */
    peer_row *r = id == actor->id ? NULL : make(actor, id);
    if (r)
        set_silent(actor, r, false);
    if (r && !r->peer.ended && (ended || r->peer.down != down)) {
        actor->mailbox.news += !ended || msg->words[0] != FAST_OK;
        actor->mailbox.down_count += down - r->peer.down;
        r->peer.down = down;
        r->peer.ended = ended;
        r->peer.err = ended ? (fast_err)msg->words[0] : FAST_OK;
        r->peer.culprit = ended ? msg->words[1] : -1;
        r->peer.life += !down;
        r->peer.heard = fast_now(actor);
        queue(actor->mailbox.peers, r);
    }
    fast_msg_free(msg);
}

const fast_peer *fast__peer(const fast_actor *actor, int64_t id)
{
    const peer_row *r = find(actor->mailbox.peers, id);
    return r ? &r->peer : &unknown;
}

const fast_peer *fast__peers_row(const fast_actor *actor, int64_t row, int64_t *id_out)
{
    const fast_peers *peers = actor->mailbox.peers;
    if (!peers || row >= peers->count)
        return NULL;
    *id_out = peers->rows[row].id;
    return &peers->rows[row].peer;
}

bool fast_member_is_down(const fast_actor *actor, int64_t id)
{
    FAST_ASSERT(actor != NULL && id >= 0 && id < actor->world->count);
    const fast_peer *peer = fast__peer(actor, id);
    return peer->down || peer->silent;
}

bool fast_member_next(fast_actor *actor, fast_member *out)
{
    FAST_ASSERT(actor != NULL && out != NULL);
    fast_peers *peers = actor->mailbox.peers;
    if (!peers || peers->event_first == NONE)
        return false;
    peer_row *r = &peers->rows[peers->event_first];
    peers->event_first = r->next_event;
    r->queued = false;
    *out = (fast_member){ .id = r->id,
                          .down = r->peer.down || r->peer.silent,
                          .ended = r->peer.ended,
                          .err = r->peer.err,
                          .culprit = r->peer.culprit,
                          .time = r->peer.heard };
    return true;
}

int64_t fast__peers_culprit(const fast_actor *actor, int64_t id)
{
    const fast_peer *peer = fast__peer(actor, id);
    if (peer->silent)
        return id;
    if (!peer->down || (peer->ended && peer->err == FAST_OK))
        return actor->id;
    return peer->ended && peer->culprit >= 0 ? peer->culprit : id;
}

/* Return the actor to blame if no other is up: one that is down or silent, else the one
 * that a failed actor blamed, else the first that ended. */
static int64_t culprit_of_all(const fast_peers *peers)
{
    int64_t blamed = -1;
    for (int64_t i = 0; peers && i < peers->count; i++) {
        const fast_peer *peer = &peers->rows[i].peer;
        if ((peer->down && !peer->ended) || peer->silent)
            return peers->rows[i].id;
        if (blamed < 0 && peer->ended && peer->err != FAST_OK)
            blamed = peer->culprit >= 0 ? peer->culprit : peers->rows[i].id;
    }
    return blamed >= 0 || !peers || peers->count == 0 ? blamed : peers->rows[0].id;
}

/* Count the actors that have been silent for so long that waits for any actor do not wait for them,
 * unless some other actor is neither down nor silent. */
static int64_t count_hung(fast_actor *actor)
{
    const fast_mailbox *box = &actor->mailbox;
    int64_t count = 0;

    if (box->silent_count == 0 || box->down_count + box->silent_count < actor->world->count - 1)
        return 0;
    const int64_t before = fast_now(actor) - FAST_HUNG_TIMEOUTS * actor->world->timeout_ns;
    for (int64_t i = 0; i < box->peers->count; i++)
        count += box->peers->rows[i].peer.silent && box->peers->rows[i].peer.heard <= before;
    return count;
}

fast_err fast__peers_check(fast_actor *actor, int64_t id)
{
    const fast_world *world = actor->world;
    char name[64], culprit[64];

    if (actor->mailbox.down_count == 0 && actor->mailbox.silent_count == 0)
        return FAST_OK;
    if (id == FAST_ANY) {
        if (actor->mailbox.down_count + count_hung(actor) < world->count - 1)
            return FAST_OK;
        actor->culprit = culprit_of_all(actor->mailbox.peers);
        fast__actor_name(world, actor->culprit, culprit, sizeof culprit);
        return fast__fail(FAST_EPEER, "everyone else has left, is down or silent, because of %s",
                          culprit);
    }
    const fast_peer *peer = fast__peer(actor, id);
    if (!peer->down && !peer->silent)
        return FAST_OK;
    fast__actor_name(world, id, name, sizeof name);
    actor->culprit = fast__peers_culprit(actor, id);
    if (peer->silent)
        return fast__fail(FAST_EPEER, "%s does not answer", name);
    if (!peer->ended)
        return fast__fail(FAST_EPEER, "%s is down", name);
    if (peer->err == FAST_OK)
        return fast__fail(FAST_EPEER, "%s has ended", name);
    if (peer->culprit < 0)
        return fast__fail(FAST_EPEER, "%s left: %s", name, fast_err_text(peer->err));
    fast__actor_name(world, peer->culprit, culprit, sizeof culprit);
    return fast__fail(FAST_EPEER, "%s left: it had waited for %s", name, culprit);
}

/* Tell another actor that this one's program returned. */
static void tell(fast_actor *actor, int64_t id)
{
    fast_msg *msg;
    if (actor->met)
        bit_set(actor->met, id);
    /* Without memory the event is lost, and waits end by their deadlines. */
    if (fast__pool_msg(actor->world->pool, FAST_TAG_ENDED, &msg))
        return;
    msg->from = actor->id;
    msg->to = id;
    msg->words[0] = actor->err;
    msg->words[1] = actor->culprit;
    actor->world->transport->send(actor, msg);
}

/* Have `id` tell the actor that it ended, unless it has done so. */
static void ask(fast_actor *actor, int64_t id)
{
    fast_actor *other = actor->world->actors[id];
    if (id == actor->id || !other || other->stopped || bit_get(other->met, actor->id))
        return;
    if (other->ended)
        tell(other, actor->id);
    else
        bit_set(other->met, actor->id);
}

void fast__peers_ask(fast_actor *actor, int64_t id)
{
    const fast_world *world = actor->world;
    FAST_ASSERT(actor->met != NULL);
    if (id != FAST_ANY) {
        ask(actor, id);
        return;
    }
    fast__peers_watch(actor);
    if (world->ended_count >= world->count - 1)
        for (int64_t i = 0; i < world->count; i++)
            ask(actor, i);
}

void fast__peers_watch(fast_actor *actor)
{
    FAST_ASSERT(actor->id >= 0 && actor->id < actor->world->count);
    if (actor->world->watchers)
        bit_set(actor->world->watchers, actor->id);
}

/* Return whether an actor that ends tells `id`, with which it exchanged no messages. */
static bool concerns(const fast_actor *actor, int64_t id)
{
    const fast_actor *other = actor->world->actors[id];
    if (!other)
        return false;
    if (actor->err && other->tasks)
        return true;
    for (const fast_task *task = other->tasks; task; task = task->next)
        if (task->watches)
            return true;
    return other->wait.waiting && other->wait.whom == FAST_ANY;
}

void fast__peers_tell_end(fast_actor *actor)
{
    const fast_world *world = actor->world;
    FAST_ASSERT(actor->ended);
    for (int64_t word = 0; word * 64 < world->count; word++) {
        const uint64_t met = actor->met ? actor->met[word] : ~UINT64_C(0);
        uint64_t left = met | (actor->err ? ~UINT64_C(0) : actor->met ? world->watchers[word] : 0);
        for (; left; left &= left - 1) {
            const int bit = __builtin_ctzll(left);
            const int64_t id = word * 64 + bit;
            if (id < world->count && id != actor->id && (met >> bit & 1 || concerns(actor, id)))
                tell(actor, id);
        }
    }
}
