/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of an actor's program: identity, sending and receiving, clock and random stream; and
 * the run of the program. wait.c blocks, mailbox.c matches, peers.c tracks membership, work.c
 * computes.
 *
 * The common case of a small message is a few tens of nanoseconds here: no lock, no allocation, no
 * text, and only an actor that has to wait reads the clock.
 */
#include "base/memory.h"
#include "transport/peers.h"
#include "transport/transport.h"

#include <stdio.h>
#include <string.h>

int64_t fast_actor_id(const fast_actor *actor)
{
    FAST_ASSERT(actor != NULL);
    return actor->id;
}

int64_t fast_actor_count(const fast_actor *actor)
{
    FAST_ASSERT(actor != NULL);
    return actor->world->count;
}

/* Return the row of an actor in the table of places. */
static const fast_place *place_of(const fast_actor *actor, int64_t id)
{
    FAST_ASSERT(actor != NULL);
    FAST_ASSERT(id >= 0 && id < actor->world->count);
    return &actor->world->places[id];
}

/* Lent: the table of roles outlives the run. */
const char *fast_actor_role(const fast_actor *actor, int64_t id)
{
    return actor->world->roles[place_of(actor, id)->role].name;
}

/* Return the number of a role's first actor. */
static int64_t role_first(const fast_world *world, int64_t role)
{
    int64_t first = 0;
    for (int64_t i = 0; i < role; i++)
        first += world->roles[i].count;
    return first;
}

/* Actors of a role are numbered consecutively. */
int64_t fast_actor_index(const fast_actor *actor, int64_t id)
{
    return id - role_first(actor->world, place_of(actor, id)->role);
}

int64_t fast_actor_node(const fast_actor *actor, int64_t id)
{
    return place_of(actor, id)->node;
}

/* Return the number of a role; -1: no such role. */
static int64_t role_find(const fast_world *world, const char *role)
{
    for (int64_t i = 0; i < world->role_count; i++)
        if (strcmp(world->roles[i].name, role) == 0)
            return i;
    return -1;
}

int64_t fast_actor_first(const fast_actor *actor, const char *role)
{
    FAST_ASSERT(actor != NULL && role != NULL);
    const int64_t i = role_find(actor->world, role);
    return i < 0 ? -1 : role_first(actor->world, i);
}

int64_t fast_actor_size(const fast_actor *actor, const char *role)
{
    FAST_ASSERT(actor != NULL && role != NULL);
    const int64_t i = role_find(actor->world, role);
    return i < 0 ? 0 : actor->world->roles[i].count;
}

/* 0 until the first restart, which only the simulator does. */
int64_t fast_actor_life(const fast_actor *actor)
{
    FAST_ASSERT(actor != NULL);
    return actor->life;
}

/* The inner transport decides: decorators share what it shares. */
bool fast_actor_is_local(const fast_actor *actor, int64_t id)
{
    const fast_place *place = place_of(actor, id);
    if (id == actor->id)
        return true;
    return actor->world->inner->share != NULL && place->here &&
           place->node == actor->world->places[actor->id].node;
}

/* Compared first: most steps do not change the text. */
void fast_actor_at(fast_actor *actor, int64_t step, const char *what)
{
    FAST_ASSERT(actor != NULL);
    actor->step = step;
    if (what && strncmp(actor->what, what, sizeof actor->what - 1) != 0)
        snprintf(actor->what, sizeof actor->what, "%s", what);
}

int64_t fast_now(fast_actor *actor)
{
    FAST_ASSERT(actor != NULL);
    return actor->world->transport->now(actor);
}

int64_t fast__steady_now(fast_actor *actor)
{
    FAST_ASSERT(actor != NULL);
    const fast_transport *inner = actor->world->inner;
    return inner->steady ? inner->steady(actor) : fast_now(actor);
}

/* Two draws of 32 bits from the actor's own stream, which depends on seed, actor and life. */
uint64_t fast_random(fast_actor *actor)
{
    FAST_ASSERT(actor != NULL);
    const uint64_t high = fast__rng_u32(&actor->rng);
    return high << 32 | fast__rng_u32(&actor->rng);
}

/* Memory lives as long as the world: an actor that ends leaves it to the others. */
fast_err fast_actor_share(fast_actor *actor, uint64_t key, size_t size, void *out)
{
    FAST_ASSERT(actor != NULL && out != NULL);
    const fast_transport *transport = actor->world->transport;
    if (!transport->share)
        return fast__fail(FAST_ENOTSUP, "actors share no memory on %s", actor->world->inner->name);
    return transport->share(actor, key, size, out);
}

/* FAST_ANY has the name "anyone". */
void fast__actor_name(const fast_world *world, int64_t id, char *name, size_t size)
{
    if (id < 0 || id >= world->count) {
        snprintf(name, size, "anyone");
        return;
    }
    const int role = world->places[id].role;
    snprintf(name, size, "%s %lld", world->roles[role].name,
             (long long)(id - role_first(world, role)));
}

/* Return whether this actor was stopped or its run canceled. */
static bool is_stopped(const fast_actor *actor)
{
    return actor->stopped || atomic_load_explicit(&actor->world->canceled, memory_order_relaxed);
}

/* Never blocks. The order of the checks decides which error a caller sees. */
fast_err fast_send(fast_actor *actor, int64_t to, fast_msg **move)
{
    FAST_ASSERT(actor != NULL && move != NULL && *move != NULL);
    FAST_ASSERT(to >= 0 && to < actor->world->count);
    fast_msg *msg = *move;
    *move = NULL;

    /* In every case below the message is taken: an error frees it. */
    if (is_stopped(actor)) {
        fast_msg_free(msg);
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    }
    if (actor->mailbox.down_count > 0 && fast__peer(actor, to)->down) {
        const fast_err err = fast__peers_check(actor, to);
        if (err) {
            fast_msg_free(msg);
            return err;
        }
    }
    if (msg->declared > FAST_MSG_DECLARED_MAX) {
        const size_t declared = msg->declared;
        fast_msg_free(msg);
        return fast__fail(FAST_EINVAL, "a message declares %zu bytes; at most %zu are allowed",
                          declared, FAST_MSG_DECLARED_MAX);
    }
    msg->from = actor->id;
    msg->to = to;
    fast__count(&actor->counters.messages_sent, 1);
    const size_t size = fast_msg_size(msg);
    fast__count(&actor->counters.bytes_sent, (int64_t)size);
    if (actor->world->config.in_flight)
        fast__pool_depart(actor->world->pool, msg);
    /* On a serial transport the receiver will be told when this actor ends. */
    if (actor->met)
        actor->met[to / 64] |= (uint64_t)1 << (to % 64);
    if (actor->world->snapshot)
        fast__snapshot_add_sent(actor->world->snapshot, actor->id, to, (int64_t)size);
    /* The clock is read only for a timeline or a snapshot. */
    if (actor->seen) {
        const int64_t begin = fast__record_peek_now(actor);
        actor->world->transport->send(actor, msg);
        fast__timeline_add(actor, FAST_SPAN_SEND, "send", begin, to, size);
    } else {
        actor->world->transport->send(actor, msg);
    }
    return FAST_OK;
}

/* Poll once, then wait until the deadline for a message that is not in the mailbox. */
static fast_err receive_wait(fast_actor *actor, int64_t from, uint64_t tag, int64_t deadline,
                             fast_msg **out)
{
    const fast_transport *transport = actor->world->transport;
    const fast_err err = transport->wait(actor, FAST_AT_ONCE);
    if (err) {
        actor->stopped = true;
        return err;
    }
    fast_msg *msg = fast__take(actor, from, tag);
    if (msg) {
        *out = msg;
        return FAST_OK;
    }
    /* FAST_AT_ONCE: a peer that is down is an error of its own. */
    if (deadline < 0) {
        FAST_TRY(fast__peers_check(actor, from));
        return fast__fail(FAST_ETIMEDOUT, "no such message has arrived yet");
    }
    fast_wait wait = { .waiting = true, .whom = from, .tag = tag, .doing = "receive" };
    wait.since = transport->now(actor);
    wait.deadline = deadline;
    if (deadline == FAST_SOON)
        wait.deadline = fast__soon(actor, wait.since);
    while (!(msg = fast__take(actor, from, tag)))
        FAST_TRY(fast__wait_once(actor, &wait));
    *out = msg;
    return FAST_OK;
}

/* A message that has arrived is received even if its sender has ended since. */
fast_err fast_receive(fast_actor *actor, int64_t from, uint64_t tag, int64_t deadline,
                      fast_msg **out)
{
    FAST_ASSERT(actor != NULL && out != NULL);
    if (is_stopped(actor))
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    const int64_t begin = actor->timeline ? fast__record_peek_now(actor) : 0;
    fast_msg *msg = fast__take(actor, from, tag);
    if (!msg)
        FAST_TRY(receive_wait(actor, from, tag, deadline, &msg));
    fast__count(&actor->counters.messages_received, 1);
    if (actor->timeline)
        fast__timeline_add(actor, FAST_SPAN_RECEIVE, "receive", begin, msg->from,
                           fast_msg_size(msg));
    *out = msg;
    return FAST_OK;
}

/* Events of an actor's ring: 3.5 MiB. */
enum { TIMELINE_EVENTS_MAX = 1 << 16 };

/* Let ended actors tell this one, which was restarted, once more that they ended. */
static void forget_told(fast_actor *actor)
{
    for (int64_t i = 0; i < actor->world->count; i++) {
        fast_actor *other = actor->world->actors[i];
        if (other && other != actor && other->ended && other->met)
            other->met[actor->id / 64] &= ~((uint64_t)1 << (actor->id % 64));
    }
}

fast_err fast__actor_init(fast_actor *actor, fast_world *world, int64_t id)
{
    FAST_ASSERT(actor != NULL && world != NULL);
    FAST_ASSERT(id >= 0 && id < world->count);
    actor->world = world;
    actor->id = id;
    actor->culprit = -1;
    actor->waiting.grace = -1;
    fast__rng_init(&actor->rng, (uint64_t)world->config.seed, FAST_PURPOSE_ACTOR, (uint64_t)id,
                   (uint64_t)actor->life, 0);
    if (world->inner->serial) {
        FAST_TRY(fast__alloc("an actor", (world->count + 63) / 64, sizeof(uint64_t), &actor->met));
        if (actor->life > 0)
            forget_told(actor);
    }
    if (world->config.trace[0]) {
        const fast_err err = fast__timeline_new(TIMELINE_EVENTS_MAX, &actor->timeline);
        if (err) {
            fast__actor_fini(actor);
            return err;
        }
    }
    actor->seen = actor->timeline || world->snapshot;
    world->actors[id] = actor;
    return FAST_OK;
}

/* Safe to call twice, and after a failed init. */
void fast__actor_fini(fast_actor *actor)
{
    if (!actor)
        return;
    fast__mailbox_fini(&actor->mailbox);
    fast__timeline_free(actor->timeline);
    fast__free(actor->met);
    for (fast_made *made = actor->made, *next; made; made = next) {
        next = made->next;
        fast__free(made);
    }
    actor->timeline = NULL;
    actor->met = NULL;
    actor->made = NULL;
}

/* Runs in the actor's own thread or fiber. */
void fast__actor_main(fast_actor *actor)
{
    fast_world *world = actor->world;
    const fast_role *role = &world->roles[world->places[actor->id].role];

    fast__pool_enter(world->pool);
    actor->begin = fast__steady_now(actor);
    const fast_err err = role->main(actor, role->ctx);
    actor->end = fast__steady_now(actor);
    actor->err = err;
    if (err && fast_error_detail() != actor->detail)
        snprintf(actor->detail, sizeof actor->detail, "%s", fast_error_detail());
    /* The culprit matters only if the program failed because of it. */
    if (err != FAST_ETIMEDOUT && err != FAST_EPEER)
        actor->culprit = -1;
    /* Tasks belong to the program, which has returned: they must not be advanced any more. */
    actor->tasks = NULL;
    actor->wait.waiting = false;
    actor->ended = true;
    if (world->inner->serial)
        world->ended_count++;
    if (!is_stopped(actor))
        fast__peers_tell_end(actor);
    fast__pool_leave(world->pool);
}
