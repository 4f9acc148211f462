/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor of schedules. It makes one move after the other until one has to wait for a message,
 * and continues there the next time: the same code for calls that block and for tasks that are
 * advanced in the actor's waits and reports.
 *
 *   tag of all messages of a collective:  2 (8 bits) | key of the group (32) | its number (24)
 *
 * The number counts the collectives of the group, which all members start in the same order. Within
 * one, messages of a pair are matched by their order. Each says how many bytes it stands for in
 * words[0], so that members that do not agree on a count find out instead of adding wrong numbers.
 *
 * A sum of n floats is charged as n operations and 12 n bytes: two are read, one is written.
 *
 * A collective owns at most one buffer between two moves, `retained`: the partial sum that it adds
 * to, or the frozen copy that it passes on. With it, an interior rank of a tree copies nothing.
 */
#include "comm/allreduces.h"
#include "tensor/vector.h"

#include <string.h>

enum {
    SEQUENCE_BITS = 24, /* bits of the number of a collective in its tag */
    KEY_BITS = 32       /* bits of the key of a group in its tag */
};

/* Numbers wrap around after 2^24 collectives, long after their messages were received. */
fast_err fast__collective_begin(fast_collective *collective)
{
    fast_group *group = collective->group;
    FAST_ASSERT(collective->element == 4 || collective->element == 1);
    FAST_ASSERT(collective->retained == NULL && collective->round == 0);
    FAST_TRY(fast__group_check(group));
    const uint64_t key = group->key & (((uint64_t)1 << KEY_BITS) - 1);
    const uint64_t number = group->sequence++ & (((uint64_t)1 << SEQUENCE_BITS) - 1);
    collective->tag = FAST_TAG_GROUP | key << SEQUENCE_BITS | number;
    collective->whom = -1;
    collective->since = -1;
    return FAST_OK;
}

/* Safe to call after success, failure, or before the start. */
void fast__collective_drop(fast_collective *collective)
{
    FAST_ASSERT(collective->group);
    if (collective->algorithm && collective->algorithm->drop)
        collective->algorithm->drop(collective);
    fast_buffer_free(collective->retained);
    collective->retained = NULL;
}

/* Return true if values travel, and not only their sizes. */
static bool has_values(const fast_collective *collective)
{
    FAST_ASSERT(collective->group);
    return collective->x != NULL || collective->y != NULL;
}

/* Retain a buffer instead of the one that was retained; NULL: none. */
static void retain(fast_collective *collective, fast_buffer *buffer)
{
    FAST_ASSERT(!buffer || buffer != collective->retained);
    fast_buffer_free(collective->retained);
    collective->retained = buffer;
}

/* Copy floats of any device, or bytes of the host: a vector is never cut inside an element. */
static void copy(size_t size, const void *from, void *to)
{
    FAST_ASSERT(from != NULL && to != NULL);
    if (size % sizeof(float) == 0)
        fast__vector_copy((int64_t)(size / sizeof(float)), from, to);
    else
        memcpy(to, from, size);
}

/* Add the part of a SEND to its message. */
static fast_err fill(fast_collective *collective, const fast_move *move, size_t size, fast_msg *msg)
{
    const unsigned char *x = collective->x;
    if (move->flags & FAST_MOVE_RETAINED) {
        FAST_ASSERT(collective->retained != NULL);
    } else {
        fast_buffer *buffer = NULL;
        FAST_TRY(fast_buffer_new(collective->group->actor, size, &buffer));
        copy(size, x + (size_t)move->offset * collective->element, fast_buffer_data(buffer));
        retain(collective, buffer);
    }
    if (move->flags & FAST_MOVE_RETAIN) {
        if (!fast_buffer_is_frozen(collective->retained))
            fast_buffer_freeze(collective->retained);
        fast_msg_add_view(msg, collective->retained, 0, size);
    } else {
        fast_msg_add(msg, &collective->retained);
        msg->parts[0].size = size;
    }
    return FAST_OK;
}

/* Do a SEND. */
static fast_err send(fast_collective *collective, const fast_move *move, size_t size)
{
    FAST_ASSERT(move->kind == FAST_MOVE_SEND);
    const fast_group *group = collective->group;
    fast_msg *msg = NULL;
    FAST_TRY(fast__collective_message(collective, &msg));
    msg->words[0] = (int64_t)size;
    if (!has_values(collective)) {
        msg->declared = size;
    } else if (size > 0) {
        const fast_err err = fill(collective, move, size, msg);
        if (err) {
            fast_msg_free(msg);
            return err;
        }
    }
    return fast_send(group->actor, fast_group_member(group, move->peer), &msg);
}

/* Apply a message that arrived. */
static void apply(fast_collective *collective, const fast_move *move, size_t size, fast_msg *msg)
{
    const size_t at = (size_t)move->offset * collective->element;
    unsigned char *y = (unsigned char *)collective->y + at;
    const int64_t n = move->count;
    if (move->kind == FAST_MOVE_ADD) {
        void *sum = y;
        if (move->flags & FAST_MOVE_RETAINED) {
            FAST_ASSERT(collective->retained != NULL &&
                        !fast_buffer_is_frozen(collective->retained));
            sum = fast_buffer_data(collective->retained);
        }
        fast__vector_add(n, fast_msg_data(msg, 0), sum);
    } else if (move->kind == FAST_MOVE_COPY) {
        copy(size, fast_msg_data(msg, 0), y);
    } else {
        FAST_ASSERT(move->kind == FAST_MOVE_MERGE && !fast_buffer_is_frozen(msg->parts[0].buffer));
        float *sum = fast_buffer_data(msg->parts[0].buffer);
        const unsigned char *x = collective->x;
        fast__vector_add(n, (const float *)(const void *)(x + at), sum);
        if (move->flags & FAST_MOVE_STORE)
            copy(size, sum, y);
    }
    if (move->flags & FAST_MOVE_RETAIN) {
        FAST_ASSERT(msg->parts[0].offset == 0);
        retain(collective, fast_msg_take(msg, 0));
    }
}

/* Members may have made different calls. */
fast_err fast__collective_check(const fast_collective *collective, size_t size, const fast_msg *msg)
{
    FAST_ASSERT(msg);
    const bool expected = has_values(collective) && size > 0;
    const bool whole =
        expected ? msg->part_count == 1 && msg->parts[0].size == size : msg->part_count == 0;
    if (msg->words[0] == (int64_t)size && whole)
        return FAST_OK;
    char name[FAST_WHAT_MAX];
    fast__actor_name(collective->group->actor->world, msg->from, name, sizeof name);
    return fast__fail(FAST_EINVAL,
                      "%s: %s sent %lld bytes where this member expects %lld%s; all members must "
                      "make the same calls with the same counts",
                      collective->doing, name, (long long)msg->words[0], (long long)size,
                      whole ? "" : ", or one of the two has no vector");
}

/* A message that has arrived, counted; if not, it is what the collective waits for. */
fast_msg *fast__collective_take(fast_collective *collective, int64_t rank)
{
    FAST_ASSERT(collective->group);
    fast_actor *actor = collective->group->actor;
    collective->whom = fast_group_member(collective->group, rank);
    fast_msg *msg = fast__take(actor, collective->whom, collective->tag);
    if (!msg)
        return NULL;
    collective->whom = -1;
    collective->since = -1;
    fast__count(&actor->counters.messages_received, 1);
    if (actor->timeline)
        fast__timeline_add(actor, FAST_SPAN_RECEIVE, collective->doing, fast_now(actor), msg->from,
                           fast_msg_size(msg));
    return msg;
}

/* Make a receiving move; *done is false if its message has not arrived. */
static fast_err receive(fast_collective *collective, const fast_move *move, size_t size, bool *done)
{
    FAST_ASSERT(move->kind != FAST_MOVE_SEND);
    fast_msg *msg = fast__collective_take(collective, move->peer);
    *done = msg != NULL;
    if (!msg)
        return FAST_OK;
    const fast_err err = fast__collective_check(collective, size, msg);
    if (err == FAST_OK && has_values(collective) && size > 0)
        apply(collective, move, size, msg);
    fast_msg_free(msg);
    if (err || move->kind == FAST_MOVE_COPY)
        return err;
    return fast_charge(collective->group->actor, (double)move->count, 12.0 * (double)move->count);
}

/* Make moves until the schedule ends or a message is missing. */
static fast_err advance(fast_collective *collective, bool *done)
{
    FAST_ASSERT(collective->move <= collective->move_count);
    for (;;) {
        if (collective->move == collective->move_count) {
            collective->move = 0;
            collective->move_count =
                collective->rounds(&collective->ask, collective->round++, collective->moves);
            FAST_ASSERT(collective->move_count <= FAST_ROUND_MOVES);
            if (collective->move_count == FAST_ROUNDS_END)
                break;
            continue;
        }
        const fast_move *move = &collective->moves[collective->move];
        const size_t size = (size_t)move->count * collective->element;
        FAST_ASSERT(move->count >= 0 && move->offset >= 0);
        if (move->count > 0 || (move->flags & FAST_MOVE_EMPTY)) {
            bool there = true;
            if (move->kind == FAST_MOVE_SEND)
                FAST_TRY(send(collective, move, size));
            else
                FAST_TRY(receive(collective, move, size, &there));
            if (!there)
                return FAST_OK;
        }
        collective->move++;
    }
    retain(collective, NULL);
    *done = true;
    return FAST_OK;
}

/* The group fails with its collective: later calls return the same error at once. */
fast_err fast__collective_advance(fast_collective *collective, bool *done)
{
    FAST_ASSERT(collective->rounds || collective->algorithm);
    *done = false;
    /* Charging a sum lets time pass in `sim`, and the actor's tasks with it: once is enough. */
    if (collective->busy)
        return FAST_OK;
    fast_err err = fast__group_check(collective->group);
    if (err == FAST_OK) {
        collective->busy = true;
        err = collective->rounds ? advance(collective, done)
                                 : collective->algorithm->advance(collective, done);
        collective->busy = false;
    }
    return err ? fast__group_fail(collective->group, err) : FAST_OK;
}

/* `since` is the time of the first wait for this actor: errors tell the whole wait. */
fast_err fast__collective_wait(fast_collective *collective, int64_t deadline)
{
    FAST_ASSERT(collective->group);
    fast_actor *actor = collective->group->actor;
    if (collective->since < 0)
        collective->since = fast_now(actor);
    const fast_wait wait = { .whom = collective->whom,
                             .tag = collective->tag,
                             .since = collective->since,
                             .deadline = deadline,
                             .doing = collective->doing };
    return fast__wait_once(actor, &wait);
}

/* The message is looked for before the first wait and after each, also after one that failed. */
fast_err fast__collective_receive(fast_collective *collective, int64_t rank, int64_t until,
                                  fast_msg **out)
{
    fast_actor *actor = collective->group->actor;
    const fast_wait wait = { .whom = fast_group_member(collective->group, rank),
                             .tag = collective->tag,
                             .since = fast_now(actor),
                             .deadline = until,
                             .doing = collective->doing };
    fast_err err = FAST_OK;
    FAST_ASSERT(collective->rounds == NULL);
    *out = fast__take(actor, wait.whom, wait.tag);
    while (!*out && !err) {
        err = fast__wait_once(actor, &wait);
        /* A message that came together with the news of its sender's end still counts. */
        *out = fast__take(actor, wait.whom, wait.tag);
    }
    return *out ? FAST_OK : err;
}

/* The generation lets receivers drop messages of a group that was replaced. */
fast_err fast__collective_message(fast_collective *collective, fast_msg **out)
{
    FAST_TRY(fast_msg_new(collective->group->actor, collective->tag, out));
    FAST_ASSERT((*out)->part_count == 0);
    (*out)->generation = collective->group->generation;
    return FAST_OK;
}

/* A deadline becomes a time only if there is something to wait for: most short collectives read no
 * clock. */
fast_err fast__collective_run(fast_collective *collective, int64_t deadline)
{
    FAST_ASSERT(collective->group);
    fast_actor *actor = collective->group->actor;
    fast_err err = fast__collective_begin(collective);
    bool done = false;
    int64_t until = -1; /* asked for when something has to be waited for */
    while (!err && !done) {
        err = fast__collective_advance(collective, &done);
        if (err || done)
            break;
        if (until < 0)
            until = fast__deadline(actor, deadline);
        const int64_t whom = collective->whom;
        const fast_err failed = fast__collective_wait(collective, until);
        if (failed) {
            /* A message that came together with the news of a peer's end still counts. */
            err = fast__collective_advance(collective, &done);
            if (!err && !done && collective->whom == whom)
                err = fast__group_fail(collective->group, failed);
        }
    }
    fast__collective_drop(collective);
    return err;
}

fast_err fast__collective_floats(fast_group *group, const char *doing, fast_round_fn *rounds,
                                 fast_ask ask, const float *x, float *y, int64_t deadline)
{
    FAST_ASSERT(rounds);
    FAST_TRY(fast__group_check_count(doing, ask.count));
    ask.rank = group->rank;
    ask.size = group->size;
    fast_collective collective = { .group = group,
                                   .doing = doing,
                                   .ask = ask,
                                   .rounds = rounds,
                                   .x = x,
                                   .y = y,
                                   .element = sizeof *x };
    return fast__collective_run(&collective, deadline);
}
