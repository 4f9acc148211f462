/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a message. With a link's latency L and gap G = 1 / bandwidth, m bytes of payload take
 *
 *     T = L + m G                                     (the alpha-beta model: store and forward)
 *
 * The header is free. Keys of a measured cluster (docs/real-against-simulated.md) add the terms of
 * LogGP (Alexandrov et al. 1995) and of MPI over TCP, all 0 by default:
 *
 *     o        for each message, at both ends, beside its bytes        (overhead)
 *     m (S-G)  where a connection, which sends one message at a time,
 *              has a bandwidth 1 / S of its own                        (stream)
 *     2 L      before the first byte of a message above a size         (eager): request and answer
 *
 * With contention a node's outgoing link transfers one message at a time, and
 * so does the receiver's incoming one: each is occupied for m G. The receiver's is taken when the
 * first byte arrives, which is an event of its own, so that a message over a slow link does not
 * block one that arrives before it:
 *
 *     sender    |== m G ==|
 *     wire           L ------> head
 *     receiver                 |  in_free  |== m G ==| arrival
 *
 * Inside a node a message takes the local link: memory. Loss, duplication and reordering act below
 * delivery: a lost transmission is repeated after retry_ns, then after twice that, and so on; a
 * duplicate is counted and dropped; a reordered message is delayed. In every case a pair's messages
 * arrive in their order: none before `last`, the pair's newest arrival. Unreliable messages do
 * vanish, double and overtake.
 *
 * Random events are drawn from the sender's stream (seed, network, actor, life), so that the
 * mishaps of one actor's messages do not depend on other actors.
 */
#include "base/memory.h"
#include "transport/sim/sim.h"

#include <string.h>

/* Losses in a row at most: the next transmission arrives. */
enum { LOSSES_MAX = 16 };

/* A link of one pair of nodes. */
typedef struct fast_sim_edit {
    uint64_t key;       /* from and to, plus 1; 0: an empty slot */
    fast_sim_link link; /* its properties */
} fast_sim_edit;

/* Return the first slot of a key in a table of `room` slots. */
static uint64_t slot_of(uint64_t key, int64_t room)
{
    return (key * UINT64_C(0x9E3779B97F4A7C15)) >> 32 & (uint64_t)(room - 1);
}

/* Return the slot of a pair of nodes, or the empty one where it belongs. */
static fast_sim_edit *edit_slot(const fast_sim *sim, int64_t from, int64_t to)
{
    const uint64_t key = ((uint64_t)from << 32 | (uint64_t)to) + 1;
    uint64_t i = slot_of(key, sim->network.edit_room);

    while (sim->network.edits[i].key && sim->network.edits[i].key != key)
        i = (i + 1) & (uint64_t)(sim->network.edit_room - 1);
    return &sim->network.edits[i];
}

const fast_sim_link *fast__sim_link(const fast_sim *sim, const fast_sim_node *from,
                                    const fast_sim_node *to)
{
    if (sim->network.edit_count) {
        const fast_sim_edit *edit = edit_slot(sim, from - sim->nodes, to - sim->nodes);
        if (edit->key)
            return &edit->link;
    }
    if (from == to)
        return &sim->cluster->local;
    return &sim->network.zone_links[from->spec.zone * sim->cluster->zone_count + to->spec.zone];
}

/* Double the table of edited links. */
static fast_err edits_grow(fast_sim *sim)
{
    const int64_t old_room = sim->network.edit_room;
    const int64_t room = old_room ? 2 * old_room : 64;
    fast_sim_edit *old = sim->network.edits;
    fast_sim_edit *edits = NULL;

    FAST_TRY(fast__alloc("simulated links", room, sizeof *edits, &edits));
    sim->network.edits = edits;
    sim->network.edit_room = room;
    for (int64_t i = 0; i < old_room; i++)
        if (old[i].key)
            *edit_slot(sim, (int64_t)((old[i].key - 1) >> 32),
                       (int64_t)((old[i].key - 1) & UINT32_MAX)) = old[i];
    fast__free(old);
    return FAST_OK;
}

/* Return the private copy of a link, made at the first call. FAST_ENOMEM. */
static fast_err link_edit(fast_sim *sim, int64_t from, int64_t to, fast_sim_link **out)
{
    FAST_ASSERT(from >= 0 && from < sim->node_count);
    FAST_ASSERT(to >= 0 && to < sim->node_count);
    if (2 * sim->network.edit_count >= sim->network.edit_room)
        FAST_TRY(edits_grow(sim));
    fast_sim_edit *edit = edit_slot(sim, from, to);
    if (!edit->key) {
        edit->link = *fast__sim_link(sim, &sim->nodes[from], &sim->nodes[to]);
        edit->key = ((uint64_t)from << 32 | (uint64_t)to) + 1;
        sim->network.edit_count++;
    }
    *out = &edit->link;
    return FAST_OK;
}

fast_sim_link *fast__sim_link_edit(fast_sim *sim, int64_t from, int64_t to)
{
    fast_sim_link *link = NULL;
    const fast_err err = link_edit(sim, from, to, &link);

    if (err)
        fast__sim_fail(sim, err);
    return link;
}

fast_err fast__sim_network_open(fast_sim *sim)
{
    const fast_cluster *cluster = sim->cluster;
    const int64_t zones = cluster->zone_count;

    FAST_TRY(fast__alloc("links of zones", zones * zones, sizeof *sim->network.zone_links,
                         &sim->network.zone_links));
    for (int64_t i = 0; i < zones * zones; i++)
        sim->network.zone_links[i] = cluster->link;
    for (int64_t i = 0; i < cluster->link_count; i++) {
        const fast_sim_link_spec *spec = &cluster->links[i];
        if (spec->zones) {
            sim->network.zone_links[spec->from * zones + spec->to] = spec->link;
            if (spec->both)
                sim->network.zone_links[spec->to * zones + spec->from] = spec->link;
        } else if (spec->from < sim->node_count && spec->to < sim->node_count) {
            fast_sim_link *link = NULL;
            FAST_TRY(link_edit(sim, spec->from, spec->to, &link));
            *link = spec->link;
            if (spec->both) {
                FAST_TRY(link_edit(sim, spec->to, spec->from, &link));
                *link = spec->link;
            }
        }
    }
    return FAST_OK;
}

void fast__sim_network_close(fast_sim *sim)
{
    fast_msg *msg;
    while ((msg = fast__msg_pop(&sim->network.stuck)))
        fast_msg_free(msg);
    fast__free(sim->network.zone_links);
    fast__free(sim->network.edits);
}

/* Return the pair's slot in the sender's table; NULL without memory. */
static fast_sim_pair *pair_of(fast_sim *sim, fast_sim_actor *from, int64_t to)
{
    if (from->pairs.room) {
        uint64_t i = slot_of((uint64_t)to + 1, from->pairs.room);
        while (from->pairs.slots[i].to && from->pairs.slots[i].to != to + 1)
            i = (i + 1) & (uint64_t)(from->pairs.room - 1);
        if (from->pairs.slots[i].to)
            return &from->pairs.slots[i];
    }
    if (2 * from->pairs.count >= from->pairs.room) {
        const int64_t room = from->pairs.room ? 2 * from->pairs.room : 8;
        fast_sim_pair *pairs = NULL;
        const fast_err err = fast__alloc("pairs of actors", room, sizeof *pairs, &pairs);
        if (err) {
            fast__sim_fail(sim, err);
            return NULL;
        }
        for (int64_t j = 0; j < from->pairs.room; j++) {
            if (!from->pairs.slots[j].to)
                continue;
            uint64_t i = slot_of((uint64_t)from->pairs.slots[j].to, room);
            while (pairs[i].to)
                i = (i + 1) & (uint64_t)(room - 1);
            pairs[i] = from->pairs.slots[j];
        }
        fast__free(from->pairs.slots);
        from->pairs.slots = pairs;
        from->pairs.room = room;
    }
    uint64_t i = slot_of((uint64_t)to + 1, from->pairs.room);
    while (from->pairs.slots[i].to)
        i = (i + 1) & (uint64_t)(from->pairs.room - 1);
    from->pairs.slots[i] = (fast_sim_pair){ .to = to + 1 };
    from->pairs.count++;
    return &from->pairs.slots[i];
}

/* Return `size` times `ns_per_byte` in whole nanoseconds. One product and one sum: equal on every
 * machine. */
static int64_t bytes_ns(size_t size, double ns_per_byte)
{
    const double ns = (double)size * ns_per_byte + 0.5;
    return ns < 1e18 ? (int64_t)ns : INT64_C(1000000000000000000);
}

/* Return o + m G: the time for which a message occupies each end. */
static int64_t transfer_ns(const fast_sim_link *link, size_t size)
{
    return link->overhead_ns + bytes_ns(size, link->ns_per_byte);
}

/* Return the delay by a connection that is slower than its ends and sends one message at a time. */
static int64_t stream_ns(const fast_sim *sim, const fast_sim_link *link, size_t size,
                         fast_sim_pair *pair)
{
    const int64_t begin = pair->stream_free > sim->now ? pair->stream_free : sim->now;
    const int64_t took = bytes_ns(size, link->stream_ns_per_byte);
    const int64_t ends = bytes_ns(size, link->ns_per_byte);

    pair->stream_free = begin + took;
    return begin - sim->now + (took > ends ? took - ends : 0);
}

/* Free and count a message that is lost. */
static void drop(fast_sim *sim, fast_msg *msg)
{
    fast_msg_free(msg);
    atomic_fetch_add_explicit(&sim->base.lost, 1, memory_order_relaxed);
}

/* Return a random number in [0, bound), from 32 random bits. */
static int64_t draw_below(fast_rng *rng, int64_t bound)
{
    const uint64_t u = fast__rng_u32(rng);
    const uint64_t high = (uint64_t)bound >> 32, low = (uint64_t)bound & UINT32_MAX;
    return (int64_t)(high * u + (low * u >> 32));
}

/* Return true with a probability given as a multiple of 2^-32. */
static bool draw_event(fast_rng *rng, uint32_t probability)
{
    return probability && fast__rng_u32(rng) < probability;
}

/* Draw jitter, reordering and loss of a transmission; returns the delay. */
static int64_t mishaps(fast_sim *sim, fast_sim_actor *from, const fast_sim_link *link,
                       bool *lost_out)
{
    int64_t late = 0;

    *lost_out = draw_event(&from->rng, link->loss);
    if (link->jitter_ns)
        late += draw_below(&from->rng, link->jitter_ns);
    if (draw_event(&from->rng, link->reorder)) {
        late += draw_below(&from->rng, link->reorder_ns);
        sim->network.counters.reordered++;
    }
    return late;
}

/* Return the delay of repeating a lost transmission until it arrives. */
static int64_t retries(fast_sim *sim, fast_sim_actor *from, const fast_sim_link *link)
{
    int64_t late = 0;

    for (int i = 0; i < LOSSES_MAX; i++) {
        late += link->retry_ns << i;
        sim->network.counters.retransmits++;
        if (!draw_event(&from->rng, link->loss))
            break;
    }
    return late;
}

/* Copy a message. Its parts are shared, hence frozen. */
static fast_msg *copy_of(fast_sim *sim, fast_sim_actor *from, const fast_msg *msg)
{
    fast_msg *copy = NULL;
    const fast_err err = fast_msg_new(&from->base, msg->tag, &copy);

    if (err) {
        fast__sim_fail(sim, err);
        return NULL;
    }
    copy->from = msg->from;
    copy->to = msg->to;
    memcpy(copy->words, msg->words, sizeof copy->words);
    copy->declared = msg->declared;
    copy->unreliable = msg->unreliable;
    copy->generation = msg->generation;
    if (msg->in_flight)
        fast__pool_depart(sim->base.pool, copy);
    fast__envelope(copy)->stamp = fast__envelope(msg)->stamp;
    fast__envelope(copy)->sent = fast__envelope(msg)->sent;
    for (int i = 0; i < msg->part_count; i++) {
        if (!fast_buffer_is_frozen(msg->parts[i].buffer))
            fast_buffer_freeze(msg->parts[i].buffer);
        fast_msg_add_view(copy, msg->parts[i].buffer, msg->parts[i].offset, msg->parts[i].size);
    }
    return copy;
}

/* Return whether a message passes larger ones at the ends of its link. */
static bool is_packet(const fast_sim_link *link, const fast_msg *msg)
{
    return link->packet && fast__msg_payload(msg) <= (size_t)link->packet;
}

/* Schedule the arrival of a message: `late` is the delay by mishaps; `pair` orders it, or is NULL.
 * */
static void transmit(fast_sim *sim, fast_sim_actor *from, const fast_sim_link *link, fast_msg *msg,
                     int64_t late, fast_sim_pair *pair)
{
    const int64_t took = transfer_ns(link, fast__msg_payload(msg));
    int64_t time = sim->now + link->latency_ns + late;

    if (link->contention) {
        fast_sim_node *node = from->node;
        const int64_t begin = node->out_free > sim->now ? node->out_free : sim->now;
        node->out_free = begin + took;
        time += is_packet(link, msg) ? 0 : begin - sim->now;
    } else {
        time += took;
    }
    if (pair) {
        time = time > pair->last ? time : pair->last;
        pair->last = time;
    }
    if (!fast__sim_push(sim, time, link->contention ? FAST_SIM_HEAD : FAST_SIM_ARRIVE, msg))
        fast_msg_free(msg);
}

void fast__sim_send(fast_actor *actor, fast_msg *msg)
{
    fast_sim_actor *from = (fast_sim_actor *)actor;
    fast_sim *sim = (fast_sim *)actor->world;
    FAST_ASSERT(msg->to >= 0 && msg->to < sim->base.count);
    fast_sim_actor *to = &sim->actors[msg->to];
    const fast_sim_link *link = fast__sim_link(sim, from->node, to->node);
    int64_t late = 0;
    bool lost = false;

    /* A crashed actor reaches no other, and an actor that is over does not receive in this life. */
    if (actor->stopped || to->state == FAST_SIM_OVER) {
        drop(sim, msg);
        return;
    }
    fast__envelope(msg)->stamp = (uint64_t)to->base.life;
    fast__envelope(msg)->sent = sim->now;
    if (from->node->lies && sim->alter)
        sim->alter(sim, from, msg);
    if (link->jitter_ns || link->loss || link->reorder || link->duplicate) {
        late = mishaps(sim, from, link, &lost);
        if (draw_event(&from->rng, link->duplicate)) {
            sim->network.counters.duplicates++;
            fast_msg *copy = msg->unreliable ? copy_of(sim, from, msg) : NULL;
            if (copy)
                transmit(sim, from, link, copy, late + draw_below(&from->rng, link->retry_ns),
                         NULL);
        }
    }
    if (link->eager && fast__msg_payload(msg) > (size_t)link->eager)
        late += 2 * link->latency_ns; /* the rendezvous: may I send? do */
    if (msg->unreliable) {
        if (lost)
            drop(sim, msg);
        else
            transmit(sim, from, link, msg, late, NULL);
        return;
    }
    if (lost)
        late += retries(sim, from, link);
    fast_sim_pair *pair = pair_of(sim, from, msg->to);
    if (pair && link->stream_ns_per_byte > 0)
        late += stream_ns(sim, link, fast__msg_payload(msg), pair);
    if (pair)
        transmit(sim, from, link, msg, late, pair);
    else
        fast_msg_free(msg);
}

bool fast__sim_on_way(fast_actor *actor, int64_t to)
{
    const fast_sim_actor *from = (const fast_sim_actor *)actor;
    const fast_sim *sim = (const fast_sim *)actor->world;

    for (const fast_msg *msg = sim->network.stuck.first; msg; msg = fast__envelope(msg)->next)
        if (msg->from == actor->id && msg->to == to)
            return true;
    for (int64_t i = 0; i < from->pairs.room; i++)
        if (from->pairs.slots[i].to == to + 1)
            return from->pairs.slots[i].last > sim->now;
    return false;
}

/* Return when a message on a link with packets has arrived whole: one packet does not wait for
 * larger messages, except those of its own pair, whose order stays. */
static int64_t packet_end(fast_sim *sim, const fast_sim_link *link, const fast_msg *msg,
                          int64_t took, int64_t queued)
{
    fast_sim_pair *pair = NULL;
    int64_t end = is_packet(link, msg) ? sim->now + took : queued;

    if (!msg->unreliable)
        pair = pair_of(sim, &sim->actors[msg->from], msg->to);
    if (pair) {
        end = end > pair->done ? end : pair->done;
        pair->done = end;
    }
    return end;
}

void fast__sim_head(fast_sim *sim, fast_msg *msg)
{
    fast_sim_node *from = sim->actors[msg->from].node;
    fast_sim_node *to = sim->actors[msg->to].node;
    const fast_sim_link *link = fast__sim_link(sim, from, to);
    const int64_t took = transfer_ns(link, fast__msg_payload(msg));
    const int64_t free = to->in_free;

    to->in_free = (free > sim->now ? free : sim->now) + took;
    const int64_t end = link->packet ? packet_end(sim, link, msg, took, to->in_free) : to->in_free;
    /* If the transfer before ends at this instant, its event has not been handled yet. */
    if (free < sim->now && took == 0 && end == sim->now)
        fast__sim_arrive(sim, msg);
    else if (!fast__sim_push(sim, end, FAST_SIM_ARRIVE, msg))
        fast_msg_free(msg);
}

void fast__sim_arrive(fast_sim *sim, fast_msg *msg)
{
    fast_sim_actor *from = &sim->actors[msg->from];
    fast_sim_actor *to = &sim->actors[msg->to];

    if (to->state == FAST_SIM_OVER || (uint64_t)to->base.life != fast__envelope(msg)->stamp) {
        drop(sim, msg);
        return;
    }
    if (sim->network.edit_count && fast__sim_link(sim, from->node, to->node)->cut) {
        if (msg->unreliable) {
            drop(sim, msg);
            return;
        }
        sim->network.counters.held++;
        fast__msg_push(&sim->network.stuck, msg);
        return;
    }
    /* A paused node does not answer questions either. */
    if (msg->tag == FAST_TAG_WHO && to->node->paused_until > sim->now) {
        if (!fast__sim_push(sim, to->node->paused_until, FAST_SIM_ARRIVE, msg))
            fast_msg_free(msg);
        return;
    }
    fast__sim_trace(sim, FAST_SIM_ARRIVE, msg->from, msg->to, msg->tag, fast__msg_payload(msg));
    to->base.waiting.sent = fast__envelope(msg)->sent + to->node->clock_ns;
    if (fast__deliver(&to->base, msg) && to->state == FAST_SIM_WAITING)
        fast__sim_resume(sim, to);
}

void fast__sim_links_mended(fast_sim *sim)
{
    /* At once and in their order, so that no later message overtakes. Messages on links that are
     * still cut are stuck again. */
    fast_msg_queue stuck = sim->network.stuck;
    fast_msg *msg;

    sim->network.stuck = (fast_msg_queue){ NULL, NULL };
    while ((msg = fast__msg_pop(&stuck)))
        fast__sim_arrive(sim, msg);
}
