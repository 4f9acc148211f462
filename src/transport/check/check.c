/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check: wraps any other transport and verifies the contract while it runs.
 *
 * Every message has a proof, made when it is sent and verified when it is delivered:
 *
 *     sum of header and parts (32 bits) | sender's life (4 bits) | its number in the pair (28 bits)
 *
 * The number must be the next one of its pair: no message is lost, doubled or overtaken. The sum
 * must be equal: no actor wrote to a moved or frozen buffer. Besides:
 *
 *     wait    ends by its deadline: exactly on a virtual clock, within SLACK_NS on a real one;
 *             after FAST_ECANCELED it returns nothing else
 *     now     is not negative and never decreases
 *     charge  has a finite, non-negative cost
 *     compute contains no call that blocks
 *     all     are called on the actor's own thread, in its own program
 *     run     ends with every message and buffer freed, or in the mailbox of its receiver
 *
 * Faults of a simulation excuse their effects: messages that vanish at a crash or are falsified by
 * a node that lies, clocks that jump, nodes that pause.
 *
 * The run fails with the first violation. Cost: one reading of every byte sent and received, and 8
 * bytes for each pair of actors. The actors see no difference.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "transport/transport.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define SLACK_NS ((int64_t)10000000000) /* delay of a wait on a busy machine */
#define POLL_NS  ((int64_t)1000) /* a poll may take this time, so that polling moves the clock */

enum {
    NUMBER_BITS = 28,                     /* bits of the number of a message in its pair */
    NUMBER_MASK = (1 << NUMBER_BITS) - 1, /* selects the number */
    LIFE_MASK = 15                        /* the sender's life modulo 16 */
};

/* The state of one actor. Used by its own program, and by the thread that delivers to it. */
typedef struct check_actor {
    uint32_t *sent;     /* [count] last number sent to each actor */
    uint32_t *seen;     /* [count] life and number of the last message from each actor */
    bool *fresh;        /* [count] no message arrived in this life: any number may be next */
    int64_t life;       /* life that `fresh` refers to */
    int64_t now;        /* the latest reading of its clock */
    const void *thread; /* that runs it; NULL before its first call */
    bool computing;     /* inside compute() */
    bool canceled;      /* a wait returned FAST_ECANCELED in this life */
} check_actor;

typedef struct check_state {
    bool faulty;                 /* the run has faults, which excuse violations */
    atomic_llong violations;     /* number of violations */
    char first[FAST_DETAIL_MAX]; /* the first violation, written by the thread that counted it */
    int64_t count;               /* number of actors */
    check_actor *actors;         /* [count]; those of other processes are unused */
} check_state;

/* Its address identifies the thread. */
static _Thread_local char this_thread;

/* Count a violation; the first one is stored. */
__attribute__((format(printf, 2, 3))) static void violate(fast_world *world, const char *format,
                                                          ...)
{
    check_state *state = world->check;
    if (atomic_fetch_add(&state->violations, 1) > 0)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(state->first, sizeof state->first, format, args);
    va_end(args);
}

/* Return the state of an actor. */
static check_actor *find(fast_actor *actor)
{
    check_state *state = actor->world->check;
    FAST_ASSERT(state != NULL);
    FAST_ASSERT(actor->id >= 0 && actor->id < state->count);
    return &state->actors[actor->id];
}

/* Reset the state of a restarted actor: its messages are numbered again, and it missed some. */
static void notice_life(const check_state *state, check_actor *c, int64_t life)
{
    if (c->life == life)
        return;
    c->life = life;
    c->canceled = false;
    c->computing = false;
    for (int64_t i = 0; i < state->count; i++) {
        c->sent[i] = 0;
        c->fresh[i] = true;
    }
}

/* Verify that a call is on the actor's thread and, if it blocks, not inside fast_compute(). */
static check_actor *enter(fast_actor *actor, const char *call, bool blocks)
{
    check_actor *c = find(actor);
    notice_life(actor->world->check, c, actor->life);
    if (!c->thread)
        c->thread = &this_thread;
    if (c->thread != &this_thread)
        violate(actor->world, "%s() of actor %" PRId64 " was called on a thread of others", call,
                actor->id);
    else if (blocks && c->computing)
        violate(actor->world, "%s() of actor %" PRId64 " was called inside its fast_compute()",
                call, actor->id);
    return c;
}

/* Return a sum of the fields and bytes that the receiver must see unchanged. */
static uint32_t message_sum(const fast_msg *msg)
{
    uint64_t sum = fast__hash(msg->words, sizeof msg->words, msg->tag);
    const uint64_t head[] = { msg->declared, msg->generation, (uint64_t)msg->part_count };
    sum = fast__hash(head, sizeof head, sum);
    for (int i = 0; i < msg->part_count; i++) {
        if (!msg->parts[i].buffer)
            continue; /* removed before it was sent */
        sum = fast__hash(&msg->parts[i].size, sizeof msg->parts[i].size, sum);
        sum = fast__hash(fast_msg_data(msg, i), msg->parts[i].size, sum);
    }
    return (uint32_t)(sum ^ sum >> 32);
}

/* Verify a message that is sent: an error of the caller must not reach the transport. */
static bool message_is_sound(fast_actor *actor, const fast_msg *msg)
{
    fast_world *world = actor->world;
    if (msg->from != actor->id || msg->to < 0 || msg->to >= world->count) {
        violate(world, "actor %" PRId64 " sent a message from %" PRId64 " to %" PRId64, actor->id,
                msg->from, msg->to);
        return false;
    }
    if (msg->part_count < 0 || msg->part_count > FAST_MSG_PARTS_MAX) {
        violate(world, "actor %" PRId64 " sent a message of %d parts", actor->id, msg->part_count);
        return false;
    }
    for (int i = 0; i < msg->part_count; i++) {
        const fast_msg_part *part = &msg->parts[i];
        const size_t size = part->buffer ? fast_buffer_size(part->buffer) : 0;
        if (part->offset > size || part->size > size - part->offset) {
            violate(world, "actor %" PRId64 " sent a part outside of its buffer", actor->id);
            return false;
        }
    }
    return true;
}

/* Verify a message, add its proof and send it. */
static void check_send(fast_actor *actor, fast_msg *msg)
{
    check_actor *c = enter(actor, "send", false);
    if (!message_is_sound(actor, msg)) {
        fast_msg_free(msg);
        return;
    }
    uint32_t number = 0;
    if (!msg->unreliable) {
        number = (c->sent[msg->to] + 1) & NUMBER_MASK;
        c->sent[msg->to] = number;
    }
    fast__envelope(msg)->proof = (uint64_t)message_sum(msg) << 32 |
                                 (uint64_t)(actor->life & LIFE_MASK) << NUMBER_BITS | number;
    actor->world->inner->send(actor, msg);
}

/* Verify that a message is the next of its pair. */
static void check_number(fast_actor *actor, check_actor *c, const fast_msg *msg, uint32_t stamp)
{
    const check_state *state = actor->world->check;
    const uint32_t seen = c->seen[msg->from];
    const bool fresh = c->fresh[msg->from] || (seen ^ stamp) & ~(uint32_t)NUMBER_MASK;
    const uint32_t number = stamp & NUMBER_MASK;
    const uint32_t next = fresh && seen >> NUMBER_BITS != stamp >> NUMBER_BITS
                              ? 1
                              : ((seen & NUMBER_MASK) + 1) & NUMBER_MASK;
    const uint32_t ahead = (number - next) & NUMBER_MASK;
    c->seen[msg->from] = stamp;
    c->fresh[msg->from] = false;
    if (ahead == 0 || (state->faulty && (fresh || ahead <= NUMBER_MASK / 2)))
        return;
    if (ahead <= NUMBER_MASK / 2)
        violate(actor->world,
                "actor %" PRId64 " got message %" PRIu32 " of actor %" PRId64 " (tag %" PRIu64
                ") where %" PRIu32 " was next: others were lost or overtaken",
                actor->id, number, msg->from, msg->tag, next);
    else
        violate(actor->world,
                "actor %" PRId64 " got message %" PRIu32 " of actor %" PRId64 " (tag %" PRIu64
                ") again or late: %" PRIu32 " was next",
                actor->id, number, msg->from, msg->tag, next);
}

void fast__check_deliver(fast_actor *actor, const fast_msg *msg)
{
    const check_state *state = actor->world->check;
    check_actor *c = find(actor);
    notice_life(state, c, actor->life);
    if (msg->to != actor->id || msg->from < 0 || msg->from >= state->count) {
        violate(actor->world,
                "a message from actor %" PRId64 " to actor %" PRId64 " was delivered to %" PRId64,
                msg->from, msg->to, actor->id);
        return;
    }
    if (msg->tag == FAST_TAG_DOWN || msg->tag == FAST_TAG_UP)
        return; /* made by the transport, not sent by an actor */
    if (c->thread && c->thread != &this_thread)
        violate(actor->world, "a message was delivered to actor %" PRId64 " on a thread of others",
                actor->id);
    if (!msg->unreliable)
        check_number(actor, c, msg, (uint32_t)fast__envelope(msg)->proof);
    if (message_sum(msg) != fast__envelope(msg)->proof >> 32 && !state->faulty)
        violate(actor->world,
                "a message of actor %" PRId64 " to actor %" PRId64 " (tag %" PRIu64
                ") was changed after it was sent",
                msg->from, actor->id, msg->tag);
}

/* Verify that the clock is not negative and does not decrease. */
static int64_t check_now(fast_actor *actor)
{
    check_actor *c = enter(actor, "now", false);
    const int64_t now = actor->world->inner->now(actor);
    const check_state *state = actor->world->check;
    if (now < 0)
        violate(actor->world, "the clock of actor %" PRId64 " reads %" PRId64, actor->id, now);
    else if (now < c->now && !state->faulty)
        violate(actor->world,
                "the clock of actor %" PRId64 " went back from %" PRId64 " to %" PRId64, actor->id,
                c->now, now);
    c->now = now;
    return now;
}

/* Verify that a wait ends by its deadline, with an allowed result. */
static fast_err check_wait(fast_actor *actor, int64_t deadline)
{
    check_actor *c = enter(actor, "wait", deadline > 0);
    const check_state *state = actor->world->check;
    const fast_transport *inner = actor->world->inner;
    const int64_t begin = check_now(actor);
    const fast_err err = inner->wait(actor, deadline);
    const int64_t end = check_now(actor);
    const int64_t due = deadline > begin ? deadline : begin + POLL_NS;
    if (end - due > (inner->virtual_clock ? 0 : SLACK_NS) && !state->faulty)
        violate(actor->world,
                "a wait of actor %" PRId64 " from %" PRId64 " ended at %" PRId64
                ", past its deadline %" PRId64,
                actor->id, begin, end, due);
    if (err && err != FAST_ECANCELED)
        violate(actor->world, "a wait of actor %" PRId64 " failed with %s", actor->id,
                fast_err_name(err));
    if (c->canceled && !err)
        violate(actor->world, "a wait of actor %" PRId64 " returned FAST_OK after it was canceled",
                actor->id);
    c->canceled = c->canceled || err == FAST_ECANCELED;
    return err;
}

/* Verify that an actor wakes only actors with which it shares memory. */
static void check_wake(fast_actor *actor, int64_t id)
{
    enter(actor, "wake", false);
    if (id < 0 || id >= actor->world->count || !fast_actor_is_local(actor, id)) {
        violate(actor->world, "actor %" PRId64 " woke %" PRId64 ", with which it shares no memory",
                actor->id, id);
        return;
    }
    actor->world->inner->wake(actor, id);
}

/* Verify that a cost is finite and not negative. */
static bool cost_is_sound(fast_actor *actor, double operations, double bytes)
{
    if (isfinite(operations) && isfinite(bytes) && operations >= 0 && bytes >= 0)
        return true;
    violate(actor->world, "actor %" PRId64 " charged %g operations and %g bytes", actor->id,
            operations, bytes);
    return false;
}

static fast_err check_charge(fast_actor *actor, double operations, double bytes)
{
    enter(actor, "charge", true);
    if (!cost_is_sound(actor, operations, bytes))
        return fast__fail(FAST_EINVAL, "a cost of %g operations and %g bytes", operations, bytes);
    const fast_transport *inner = actor->world->inner;
    return inner->charge ? inner->charge(actor, operations, bytes) : FAST_OK;
}

/* Run a work; calls that block inside it are violations. */
static fast_err check_compute(fast_actor *actor, fast_work *work)
{
    check_actor *c = enter(actor, "compute", true);
    const fast_transport *inner = actor->world->inner;
    c->computing = true;
    const fast_err err =
        inner->compute ? inner->compute(actor, work) : fast__compute_direct(actor, work);
    c->computing = false;
    if (!err)
        (void)cost_is_sound(actor, work->operations, work->bytes);
    return err;
}

static fast_err check_share(fast_actor *actor, uint64_t key, size_t size, void *out)
{
    enter(actor, "share", false);
    if (!actor->world->inner->share)
        return fast__fail(FAST_ENOTSUP, "no two actors of transport %s share memory",
                          actor->world->inner->name);
    return actor->world->inner->share(actor, key, size, out);
}

static fast_err check_native(fast_actor *actor, const fast_native *native)
{
    enter(actor, "native", true);
    if (!actor->world->inner->native)
        return fast__fail(FAST_ENOTSUP, "transport %s has no collectives of its own",
                          actor->world->inner->name);
    return actor->world->inner->native(actor, native);
}

/* Verify that a run without errors freed all messages and buffers but those in mailboxes. A frozen
 * buffer may be in several mailboxes, so a negative rest proves nothing. */
static void check_leaks(fast_world *world)
{
    const check_state *state = world->check;
    fast_pool_use use = fast__pool_used(world->pool);
    if (state->faulty)
        return; /* a crash drops the memory of its actor */
    for (int64_t id = 0; id < world->count; id++) {
        const fast_actor *actor = world->actors[id];
        if (actor && actor->err)
            return;
        for (const fast_msg *msg = actor ? actor->mailbox.first : NULL; msg;
             msg = fast__envelope(msg)->next) {
            use.messages--;
            use.buffers -= msg->part_count;
        }
    }
    if (use.messages != 0)
        violate(world, "%" PRId64 " messages were not given back", use.messages);
    if (use.buffers > 0)
        violate(world, "%" PRId64 " buffers were not given back", use.buffers);
}

/* Run the actors, look for leaks, and fail with the first violation. */
static fast_err check_run(fast_world *world)
{
    const fast_err err = world->inner->run(world);
    check_state *state = world->check;
    if (!err)
        check_leaks(world);
    const int64_t violations = atomic_load(&state->violations);
    if (err || violations == 0)
        return err;
    return fast__fail(FAST_EINVAL, "transport %s broke its contract: %s (%" PRId64 " %s)",
                      world->inner->name, state->first, violations,
                      violations == 1 ? "violation" : "violations");
}

static void state_free(check_state *state)
{
    if (!state)
        return;
    for (int64_t id = 0; state->actors && id < state->count; id++) {
        fast__free(state->actors[id].sent);
        fast__free(state->actors[id].seen);
        fast__free(state->actors[id].fresh);
    }
    fast__free(state->actors);
    fast__free(state);
}

static void check_close(fast_world *world)
{
    if (!world)
        return;
    check_state *state = world->check;
    world->transport = world->inner;
    world->check = NULL;
    world->inner->close(world);
    state_free(state);
}

/* Allocate the state of all actors of this process. */
static fast_err state_init(check_state *state, const fast_world *world)
{
    state->count = world->count;
    state->faulty = world->config.faults[0] != 0;
    FAST_TRY(fast__alloc("check's actors", world->count, sizeof(check_actor), &state->actors));
    for (int64_t id = 0; id < world->count; id++) {
        check_actor *c = &state->actors[id];
        if (!world->places[id].here)
            continue;
        FAST_TRY(fast__alloc("check's numbers", world->count, sizeof *c->sent, &c->sent));
        FAST_TRY(fast__alloc("check's numbers", world->count, sizeof *c->seen, &c->seen));
        FAST_TRY(fast__alloc("check's numbers", world->count, sizeof *c->fresh, &c->fresh));
    }
    return FAST_OK;
}

/* The operations that wrap those of any transport. */
static const fast_transport wrapper = {
    .name = "check",
    .summary = "wraps another transport and verifies the contract",
    .close = check_close,
    .run = check_run,
    .send = check_send,
    .wait = check_wait,
    .wake = check_wake,
    .now = check_now,
    .charge = check_charge,
    .compute = check_compute,
    .share = check_share,
    .native = check_native,
};

fast_err fast__check_wrap(fast_world *world)
{
    FAST_ASSERT(world != NULL);
    FAST_ASSERT(world->check == NULL);
    check_state *state = NULL;
    FAST_TRY(fast__alloc("the checking wrapper", 1, sizeof *state, &state));
    const fast_err err = state_init(state, world);
    if (err) {
        state_free(state);
        return err;
    }
    world->inner = world->transport;
    world->transport = &wrapper;
    world->check = state;
    return FAST_OK;
}
