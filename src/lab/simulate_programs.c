/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small programs of `fast simulate`, straight-line as strategies are. In every round each
 * worker computes (`work` operations), then exchanges `size` bytes:
 *
 *     ping        to its right neighbour, from its left: one message a worker and round
 *     master      to worker 0, which takes from anyone and answers all: two messages
 *     allreduce   the sum at everyone, checked: as many as the algorithm needs
 *     space       a tensor at worker 0, which only serves: get, at most two rounds old, then add
 *     gossip      to another one each round; what fails is tried again; in the end everyone must
 *                 hear of everyone who is there: the program that gets over faults
 *
 * All but gossip give up with the first error, which names whom they blame. Every message carries
 * the sender's life and a number, so that the receiver sees what came twice, too early or never.
 *
 * A restarted worker runs its program from round 0 in a new life. In ping and master its neighbours
 * notice that its round is not theirs and end with FAST_EPEER; a worker that waits for one that is
 * down ends with FAST_EPEER or FAST_ETIMEDOUT. Neither breaks a promise: simulate_check.c asks only
 * that the end comes in time and that the sums and messages before it were right.
 *
 * Payloads are declared, not sent, except for the vectors of allreduce and space: `size` may be a
 * terabyte and costs virtual time alone.
 */
#include "base/memory.h"
#include "fast/space.h"
#include "lab/simulate.h"

#include <string.h>

enum { TAG_ROUND = 1, TAG_ANSWER = 2, TAG_LAST = 3 };
enum { WORD_LIFE, WORD_NUMBER, WORD_ROUND };
enum { TRIES_MAX = 50, STALENESS = 2 };

/* The contents of a message. */
typedef struct seen_words {
    int64_t from;  /* who sent it */
    int64_t life;  /* in which life */
    int64_t round; /* and in which round */
} seen_words;

/* The record of the calling actor. */
static fast_simulate_actor *self(fast_actor *actor, fast_simulate_outcome *o)
{
    return &o->actors[fast_actor_id(actor)];
}

/* The counters of a pair; NULL if there are too many workers. */
static fast_simulate_pair *pair_of(fast_simulate_outcome *o, int64_t to, int64_t from)
{
    return o->pairs ? &o->pairs[to * o->config->workers + from] : NULL;
}

/* Charge the work of a round. */
static fast_err compute(fast_actor *actor, const fast_simulate_outcome *o)
{
    return o->config->work > 0 ? fast_charge(actor, o->config->work, 0) : FAST_OK;
}

/* Send one message of a round, and count it. */
static fast_err send_one(fast_actor *actor, fast_simulate_outcome *o, int64_t to, uint64_t tag,
                         int64_t round)
{
    fast_simulate_pair none = { 0 };
    fast_simulate_pair *pair = pair_of(o, to, fast_actor_id(actor));
    fast_msg *msg = NULL;
    pair = pair && tag != TAG_LAST ? pair : &none;
    FAST_TRY(fast_msg_new(actor, tag, &msg));
    msg->declared = (size_t)o->config->size;
    msg->words[WORD_LIFE] = fast_actor_life(actor);
    msg->words[WORD_NUMBER] = pair->sent;
    msg->words[WORD_ROUND] = round;
    FAST_TRY(fast_send(actor, to, &msg));
    pair->sent++;
    return FAST_OK;
}

/*
 * Whether a message is the next one of its sender. The first one of a life may have any number if
 * the receiver was restarted, since it missed some, or if the sender was. Examples (life, number):
 *
 *   (0,0) (0,1) (0,2)    in order
 *   (0,0) (0,2)          disorder: (0,1) is missing or late
 *   (0,0) (0,0)          disorder: delivered twice
 *   (0,4) (1,0)          in order: the sender was restarted
 *   (1,0) (0,5)          disorder: a message of an earlier life
 *
 * The last messages of gossip are repeated on purpose and are not counted.
 */
static void note_order(fast_actor *actor, fast_simulate_outcome *o, const fast_msg *msg)
{
    fast_simulate_pair *pair = pair_of(o, msg->to, msg->from);
    if (!pair || msg->tag == TAG_LAST)
        return;
    const int64_t life = msg->words[WORD_LIFE];
    const int64_t number = msg->words[WORD_NUMBER];
    bool right = number == pair->got + 1;
    if (life != pair->from_life)
        right = life > pair->from_life && (fast_actor_life(actor) > 0 || life > 0 || number == 0);
    if (!right)
        self(actor, o)->disorder++;
    pair->from_life = life;
    pair->got = number;
}

/* How far a call went past its deadline, by the actor's own clock. */
static void note_end(fast_actor *actor, fast_simulate_outcome *o, int64_t begin)
{
    const int64_t over = fast_now(actor) - begin - (int64_t)(o->config->timeout * 1e9);
    fast_simulate_actor *a = self(actor, o);
    if (over > a->overrun_ns)
        a->overrun_ns = over;
}

/* Receive one message and check that it is the expected one. */
static fast_err receive_one(fast_actor *actor, fast_simulate_outcome *o, int64_t from, uint64_t tag,
                            seen_words *seen_out)
{
    const int64_t begin = fast_now(actor);
    fast_msg *msg = NULL;
    const fast_err err = fast_receive(actor, from, tag, FAST_SOON, &msg);
    note_end(actor, o, begin);
    if (err)
        return err;
    note_order(actor, o, msg);
    *seen_out = (seen_words){ .from = msg->from,
                              .life = msg->words[WORD_LIFE],
                              .round = msg->words[WORD_ROUND] };
    fast_msg_free(msg);
    return FAST_OK;
}

/* A peer that was restarted is at another round: the program ends and blames it. */
static fast_err out_of_step(fast_actor *actor, const seen_words *seen, int64_t round)
{
    actor->culprit = seen->life == 0 && fast_actor_life(actor) > 0 ? actor->id : seen->from;
    return fast__fail(FAST_EPEER, "worker %lld is at round %lld, not %lld: worker %lld began again",
                      (long long)seen->from, (long long)seen->round, (long long)round,
                      (long long)actor->culprit);
}

/* The program ping: in each round every actor sends to the next one in a ring and receives from the
 * one before. */
static fast_err ping(fast_actor *actor, fast_simulate_outcome *o)
{
    const int64_t n = o->config->workers;
    const int64_t me = fast_actor_id(actor);
    for (int64_t round = 0; round < o->config->rounds; round++) {
        seen_words seen = { 0 };
        fast_actor_at(actor, round, "ping");
        FAST_TRY(compute(actor, o));
        FAST_TRY(send_one(actor, o, (me + 1) % n, TAG_ROUND, round));
        FAST_TRY(receive_one(actor, o, (me + n - 1) % n, TAG_ROUND, &seen));
        if (seen.round != round)
            return out_of_step(actor, &seen, round);
        self(actor, o)->rounds++;
    }
    return FAST_OK;
}

/* A round of the master: receive a message of every worker, in any order, then answer all. */
static fast_err serve(fast_actor *actor, fast_simulate_outcome *o, int64_t round)
{
    const int64_t n = o->config->workers;
    seen_words seen = { 0 };
    for (int64_t i = 1; i < n; i++) {
        FAST_TRY(receive_one(actor, o, FAST_ANY, TAG_ROUND, &seen));
        if (seen.round != round)
            return out_of_step(actor, &seen, round);
    }
    for (int64_t i = 1; i < n; i++)
        FAST_TRY(send_one(actor, o, i, TAG_ANSWER, round));
    return FAST_OK;
}

/* The program master: actor 0 serves all others. */
static fast_err master(fast_actor *actor, fast_simulate_outcome *o)
{
    for (int64_t round = 0; round < o->config->rounds; round++) {
        seen_words seen = { 0 };
        fast_actor_at(actor, round, "gather");
        if (fast_actor_id(actor) == 0) {
            FAST_TRY(serve(actor, o, round));
        } else {
            FAST_TRY(compute(actor, o));
            FAST_TRY(send_one(actor, o, 0, TAG_ROUND, round));
            FAST_TRY(receive_one(actor, o, 0, TAG_ANSWER, &seen));
            if (seen.round != round)
                return out_of_step(actor, &seen, round);
        }
        self(actor, o)->rounds++;
    }
    return FAST_OK;
}

/* Whole numbers, small enough that every order of summing gives the same bits: 65536 workers sum to
 * at most 6 * 65536, below the 2^24 up to which floats hold every whole number. */
static float value_of(int64_t id, int64_t i, int64_t round)
{
    return (float)((id + i + round) % 7);
}

/* Their sum over n workers: whole sevens of neighbours have one of each, 21 together. */
static float sum_of(int64_t n, int64_t i, int64_t round)
{
    float sum = (float)(n / 7 * 21);
    for (int64_t id = n - n % 7; id < n; id++)
        sum += value_of(id, i, round);
    return sum;
}

/* Sums over all workers, each checked against the known result. */
static fast_err allreduce_rounds(fast_actor *actor, fast_simulate_outcome *o, fast_group *group,
                                 float *x, int64_t count)
{
    const int64_t n = o->config->workers;
    const int64_t me = fast_actor_id(actor);
    FAST_TRY(fast_group_algorithm(group, o->config->algorithm));
    for (int64_t round = 0; round < o->config->rounds; round++) {
        fast_actor_at(actor, round, "sum");
        for (int64_t i = 0; i < count; i++)
            x[i] = value_of(me, i, round);
        FAST_TRY(compute(actor, o));
        const int64_t begin = fast_now(actor);
        const fast_err err = fast_allreduce(group, x, count, FAST_SOON);
        note_end(actor, o, begin);
        if (err)
            return err;
        for (int64_t i = 0; i < count; i++) {
            if (!(x[i] == sum_of(n, i, round))) {
                self(actor, o)->wrong++;
                break;
            }
        }
        self(actor, o)->rounds++;
    }
    return FAST_OK;
}

/* The program allreduce: open a group and sum in rounds. */
static fast_err allreduce(fast_actor *actor, fast_simulate_outcome *o)
{
    const int64_t count = o->config->size < 4 ? 1 : o->config->size / 4;
    fast_group *group = NULL;
    float *x = NULL;
    FAST_TRY(fast__alloc("a vector", count, sizeof *x, &x));
    fast_err err = fast_group_all(actor, NULL, &group);
    if (!err)
        err = allreduce_rounds(actor, o, group, x, count);
    fast_group_free(group);
    fast__free(x);
    return err;
}

/* Read what is at most two rounds old, compute, add. The version never goes back, and the slowest
 * writer's clock is what was asked for. */
static fast_err space_rounds(fast_actor *actor, fast_simulate_outcome *o, fast_space *space,
                             float *x, int64_t count)
{
    int64_t version = 0;
    for (int64_t round = 0; round < o->config->rounds; round++) {
        fast_space_read read = { .clock_min = round > STALENESS ? round - STALENESS : 0 };
        fast_actor_at(actor, round, "weights");
        int64_t begin = fast_now(actor);
        fast_err err = fast_space_get(space, 0, x, &read, FAST_SOON);
        note_end(actor, o, begin);
        if (err)
            return err;
        self(actor, o)->disorder += read.clock < read.clock_min || read.version < version;
        version = read.version;
        FAST_TRY(compute(actor, o));
        for (int64_t i = 0; i < count; i++)
            x[i] = 1;
        begin = fast_now(actor);
        err = fast_space_add(space, 0, x, FAST_SOON);
        note_end(actor, o, begin);
        if (err)
            return err;
        FAST_TRY(fast_space_tick(space, round + 1));
        self(actor, o)->rounds++;
    }
    return FAST_OK;
}

/* The program space: workers add to a space and read it. */
static fast_err use_space(fast_actor *actor, fast_simulate_outcome *o)
{
    const int64_t count = o->config->size < 4 ? 1 : o->config->size / 4;
    const fast_space_tensor tensor = { "w", count, NULL };
    const int64_t owner = 0;
    const fast_space_options options = { .name = "simulate",
                                         .tensors = &tensor,
                                         .tensor_count = 1,
                                         .owners = &owner,
                                         .owner_count = 1 };
    fast_space *space = NULL;
    float *x = NULL;
    FAST_TRY(fast__alloc("a vector", count, sizeof *x, &x));
    fast_err err = fast_space_open(actor, &options, &space);
    if (!err && fast_actor_id(actor) == owner) {
        /* It serves as long as the others may need: each round of theirs has two waits. */
        const int64_t longest = actor->world->timeout_ns * 2 * (o->config->rounds + 1);
        fast_actor_at(actor, 0, "serve");
        err = fast_space_serve(space, fast_now(actor) + longest);
    } else if (!err) {
        err = space_rounds(actor, o, space, x, count);
    }
    fast_space_close(space);
    fast__free(x);
    return err;
}

/* Take whatever has arrived. */
static fast_err drain(fast_actor *actor, fast_simulate_outcome *o)
{
    for (;;) {
        fast_msg *msg = NULL;
        const fast_err err = fast_receive(actor, FAST_ANY, TAG_ROUND, FAST_AT_ONCE, &msg);
        if (err == FAST_ETIMEDOUT || err == FAST_EPEER)
            return FAST_OK;
        if (err)
            return err;
        note_order(actor, o, msg);
        fast_msg_free(msg);
    }
}

/* Who is up again may have lost what was sent to it: it is told again. */
static fast_err tell_again(fast_actor *actor, fast_simulate_outcome *o)
{
    fast_member member;
    while (fast_member_next(actor, &member)) {
        const fast_err err =
            member.down ? FAST_OK : send_one(actor, o, member.id, TAG_LAST, o->config->rounds);
        if (err && err != FAST_EPEER)
            return err;
    }
    return FAST_OK;
}

/* Hear of one peer in the end, however often it takes: up to TRIES_MAX waits of `timeout` each, so
 * faults that end within 50 timeouts are outlasted. A peer that has ended counts as heard, since it
 * may have ended before this worker was up again. */
static fast_err hear_last(fast_actor *actor, fast_simulate_outcome *o, int64_t peer, bool *heard)
{
    for (int64_t i = 0; i < TRIES_MAX && !*heard; i++) {
        seen_words seen = { 0 };
        FAST_TRY(tell_again(actor, o));
        const fast_err err = receive_one(actor, o, peer, TAG_LAST, &seen);
        if (err && err != FAST_ETIMEDOUT && err != FAST_EPEER)
            return err;
        *heard = !err || (err == FAST_EPEER && fast__peer(actor, peer)->ended);
        if (err == FAST_EPEER && !*heard)
            FAST_TRY(fast_sleep_until(actor, fast_now(actor) + actor->world->timeout_ns));
    }
    return FAST_OK;
}

/* Messages to one that is down are not sent: they are tried again with the next round. */
static fast_err gossip(fast_actor *actor, fast_simulate_outcome *o)
{
    const int64_t n = o->config->workers;
    const int64_t me = fast_actor_id(actor);
    for (int64_t round = 0; round < o->config->rounds && n > 1; round++) {
        fast_actor_at(actor, round, "gossip");
        FAST_TRY(compute(actor, o));
        const fast_err err = send_one(actor, o, (me + 1 + round % (n - 1)) % n, TAG_ROUND, round);
        if (err && err != FAST_EPEER)
            return err;
        FAST_TRY(drain(actor, o));
        self(actor, o)->rounds++;
    }
    for (int64_t i = 1; i < n; i++) {
        /* Who is down now is told when it is up again. */
        const fast_err err = send_one(actor, o, (me + i) % n, TAG_LAST, o->config->rounds);
        if (err && err != FAST_EPEER)
            return err;
    }
    for (int64_t i = 1; i < n; i++) {
        bool heard = false;
        FAST_TRY(hear_last(actor, o, (me + i) % n, &heard));
        self(actor, o)->missed += !heard;
    }
    return FAST_OK;
}

/* A life begins with nothing received and nothing sent. */
static void begin_life(fast_actor *actor, fast_simulate_outcome *o)
{
    const int64_t n = o->config->workers;
    const int64_t me = fast_actor_id(actor);
    fast_simulate_actor *a = self(actor, o);
    a->rounds = 0;
    a->missed = 0;
    for (int64_t i = 0; i < n && o->pairs; i++) {
        pair_of(o, i, me)->sent = 0;
        pair_of(o, me, i)->from_life = -1;
        pair_of(o, me, i)->got = -1;
    }
}

fast_err fast__simulate_main(fast_actor *actor, void *ctx)
{
    fast_simulate_outcome *o = ctx;
    FAST_ASSERT(fast_actor_count(actor) == o->config->workers);
    begin_life(actor, o);
    switch ((fast_simulate_program)o->config->program) {
    case FAST_SIMULATE_PING:
        return ping(actor, o);
    case FAST_SIMULATE_MASTER:
        return master(actor, o);
    case FAST_SIMULATE_ALLREDUCE:
        return allreduce(actor, o);
    case FAST_SIMULATE_SPACE:
        return use_space(actor, o);
    default:
        return gossip(actor, o);
    }
}
