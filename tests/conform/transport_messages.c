/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transports, messages: order and exactly once for each pair, matching by sender and tag, polling,
 * self-sends, all-to-all, floods, many actors. Every actor counts and checks what it receives.
 */
#include "conform/transport_suite.h"

#include <string.h>

#ifdef FAST_SANITIZED
enum { ROUNDS = 30, FLOOD = 50, MANY = 32 };
#else
enum { ROUNDS = 200, FLOOD = 200, MANY = 64 };
#endif

static const size_t sizes[] = { 0, 1, 7, 64, 1000, 4096, 5000, 100000 };
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Everyone sends to the next and to the first, sizes mixed; order must hold for each pair. */
static fast_err order_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    const int64_t before = (id + count - 1) % count;
    for (int64_t i = 0; i < ROUNDS; i++) {
        FAST_TRY(suite_send_bytes(actor, (id + 1) % count, 1, i, sizes[i % SIZES]));
        FAST_TRY(suite_send(actor, 0, 2, i));
    }
    for (int64_t i = 0; i < ROUNDS; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, before, 1, FAST_SOON, &msg));
        const fast_err err = suite_check_bytes(msg, i, sizes[i % SIZES]);
        fast_msg_free(msg);
        FAST_TRY(err);
    }
    for (int64_t i = 0; id == 0 && i < ROUNDS; i++)
        for (int64_t from = count - 1; from >= 0; from--)
            FAST_TRY(suite_receive(actor, from, 2, i));
    return FAST_OK;
}

static fast_err run_order(const suite *on)
{
    return suite_run(on, order_main, NULL, on->count, NULL, NULL);
}

/* All to all from anyone: each number of each sender comes exactly once, in order. */
static fast_err once_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor);
    int64_t next[SUITE_ACTORS] = { 0 };
    for (int64_t i = 0; i < ROUNDS; i++)
        for (int64_t to = 0; to < count; to++)
            FAST_TRY(suite_send_bytes(actor, to, 3, i, (size_t)(fast_random(actor) % 300)));
    for (int64_t i = 0; i < ROUNDS * count; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, FAST_ANY, 3, FAST_SOON, &msg));
        const int64_t from = msg->from, word = msg->words[0];
        const fast_err err = suite_check_bytes(msg, word, msg->parts[0].size);
        fast_msg_free(msg);
        FAST_TRY(err);
        FAST_TRY(EXPECT(word == next[from]));
        next[from]++;
    }
    FAST_TRY(suite_barrier(actor));
    fast_msg *msg = NULL;
    FAST_TRY(EXPECT_ERR(fast_receive(actor, FAST_ANY, 3, FAST_AT_ONCE, &msg), FAST_ETIMEDOUT));
    return suite_barrier(actor); /* nobody leaves before everyone has looked */
}

static fast_err run_once(const suite *on)
{
    fast_actors_result result;
    FAST_TRY(suite_run(on, once_main, NULL, on->count, NULL, &result));
    FAST_TRY(EXPECT(result.messages_stale == 0));
    FAST_TRY(EXPECT(result.actor_count == on->count));
    const int64_t sent = on->count * on->count * ROUNDS + 4 * (on->count - 1);
    return on->alone ? EXPECT(result.messages_sent == sent) : FAST_OK;
}

/* Actor 1 fills the first actor's mailbox as fast as credits come; actor 2's one message is
 * received all the same. */
static fast_err fair_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t id = fast_actor_id(actor);
    if (id == 2)
        return suite_send(actor, 0, 4, -1);
    if (id == 1)
        for (int64_t i = 0;; i++) {
            fast_msg *credit = NULL;
            for (int k = 0; k < 8; k++)
                FAST_TRY(suite_send(actor, 0, 4, i));
            FAST_TRY(fast_receive(actor, 0, 5, FAST_SOON, &credit));
            const bool last = credit->words[0] < 0;
            fast_msg_free(credit);
            if (last)
                return FAST_OK;
        }
    bool heard = false;
    for (int64_t flood = 0; id == 0;) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, FAST_ANY, 4, FAST_SOON, &msg));
        const int64_t from = msg->from;
        fast_msg_free(msg);
        heard = heard || from == 2;
        flood += from == 1;
        if (from != 1 || flood % 8 != 0)
            continue;
        FAST_TRY(suite_send(actor, 1, 5, heard ? -1 : 1));
        if (heard)
            return FAST_OK;
    }
    return FAST_OK;
}

static fast_err run_fair(const suite *on)
{
    return suite_run(on, fair_main, NULL, SUITE_ACTORS, NULL, NULL);
}

/* Messages from any sender are received in the order of arrival. */
static fast_err oldest_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    for (int64_t i = 0; id != 0 && i < 20; i++)
        FAST_TRY(suite_send(actor, 0, 1 + (uint64_t)i % 3, i));
    FAST_TRY(suite_barrier(actor));
    uint64_t last = 0;
    for (int64_t i = 0; id == 0 && i < 20 * (count - 1); i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, FAST_ANY, FAST_TAG_ANY, FAST_AT_ONCE, &msg));
        const uint64_t stamp = fast__envelope(msg)->stamp;
        fast_msg_free(msg);
        FAST_TRY(EXPECT(i == 0 || stamp > last));
        last = stamp;
    }
    return FAST_OK;
}

static fast_err run_oldest(const suite *on)
{
    return suite_run(on, oldest_main, NULL, SUITE_ACTORS, NULL, NULL);
}

/* Tags are found in any order, and FAST_TAG_ANY leaves those of groups and spaces alone. */
static fast_err tags_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t id = fast_actor_id(actor);
    const uint64_t group = FAST_TAG_GROUP + 5;
    if (id == 1) {
        FAST_TRY(suite_send(actor, 0, group, 50));
        for (int64_t tag = 1; tag <= 20; tag++)
            FAST_TRY(suite_send(actor, 0, (uint64_t)tag, tag));
        FAST_TRY(suite_send(actor, 0, FAST_TAG_MAX - 1, 51));
    }
    FAST_TRY(suite_barrier(actor));
    if (id != 0)
        return suite_barrier(actor);
    for (int64_t tag = 20; tag >= 11; tag--)
        FAST_TRY(suite_receive(actor, tag % 2 ? 1 : FAST_ANY, (uint64_t)tag, tag));
    for (int64_t tag = 1; tag <= 11; tag++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, tag % 2 ? 1 : FAST_ANY, FAST_TAG_ANY, FAST_SOON, &msg));
        const uint64_t got = msg->tag;
        fast_msg_free(msg);
        FAST_TRY(EXPECT(got == (tag == 11 ? FAST_TAG_MAX - 1 : (uint64_t)tag)));
    }
    fast_msg *msg = NULL;
    FAST_TRY(EXPECT_ERR(fast_receive(actor, 1, FAST_TAG_ANY, FAST_AT_ONCE, &msg), FAST_ETIMEDOUT));
    FAST_TRY(suite_receive(actor, 1, group, 50));
    return suite_barrier(actor);
}

static fast_err run_tags(const suite *on)
{
    return suite_run(on, tags_main, NULL, SUITE_ACTORS, NULL, NULL);
}

/* A poll of nothing fails at once, and of something finds it; others' messages do not match. */
static fast_err poll_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t id = fast_actor_id(actor);
    fast_msg *msg = NULL;
    for (int i = 0; i < 100; i++)
        FAST_TRY(EXPECT_ERR(fast_receive(actor, FAST_ANY, 9, FAST_AT_ONCE, &msg), FAST_ETIMEDOUT));
    FAST_TRY(EXPECT(msg == NULL));
    FAST_TRY(suite_barrier(actor)); /* nobody sends before everyone has looked */
    if (id == 1)
        FAST_TRY(suite_send(actor, 0, 9, 77));
    FAST_TRY(suite_barrier(actor));
    if (id != 0)
        return suite_barrier(actor);
    FAST_TRY(EXPECT_ERR(fast_receive(actor, 2, 9, FAST_AT_ONCE, &msg), FAST_ETIMEDOUT));
    FAST_TRY(EXPECT_ERR(fast_receive(actor, 1, 8, FAST_AT_ONCE, &msg), FAST_ETIMEDOUT));
    FAST_TRY(fast_receive(actor, 1, 9, FAST_AT_ONCE, &msg));
    const bool right = msg->words[0] == 77 && msg->words[5] == 82;
    fast_msg_free(msg);
    FAST_TRY(EXPECT(right));
    return suite_barrier(actor);
}

static fast_err run_poll(const suite *on)
{
    return suite_run(on, poll_main, NULL, SUITE_ACTORS, NULL, NULL);
}

/* Messages to oneself are like any others. */
static fast_err self_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t id = fast_actor_id(actor);
    for (int64_t i = 0; i < 50; i++)
        FAST_TRY(suite_send_bytes(actor, id, 1, i, (size_t)i * 100));
    for (int64_t i = 0; i < 50; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, i % 2 ? id : FAST_ANY, 1, FAST_SOON, &msg));
        const fast_err err = suite_check_bytes(msg, i, (size_t)i * 100);
        const bool own = msg->from == id && msg->to == id;
        fast_msg_free(msg);
        FAST_TRY(err);
        FAST_TRY(EXPECT(own));
    }
    return suite_barrier(actor);
}

static fast_err run_self(const suite *on)
{
    return suite_run(on, self_main, NULL, on->count, NULL, NULL);
}

/* Rounds of a flood to one slow receiver, with credits: the pool's memory is bounded by the most
 * that a round can have under way. */
static fast_err flood_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    for (int64_t round = 0; round < 20; round++) {
        for (int64_t i = 0; id != 0 && i < FLOOD; i++)
            FAST_TRY(suite_send_bytes(actor, 0, 6, i, 1000));
        for (int64_t i = 0; id == 0 && i < FLOOD; i++)
            for (int64_t from = 1; from < count; from++) {
                if (i % 64 == 0)
                    FAST_TRY(fast_charge(actor, 1e4, 1e4));
                FAST_TRY(suite_receive(actor, from, 6, i));
            }
        FAST_TRY(suite_barrier(actor));
    }
    /* Messages in use, and the stocks of threads. */
    const int64_t bytes = fast__pool_used(actor->world->pool).bytes;
    return EXPECT(bytes < (int64_t)FLOOD * count * 2048 * 2 + 4000000);
}

static fast_err run_flood(const suite *on)
{
    return suite_run(on, flood_main, NULL, on->count, NULL, NULL);
}

/* Many more actors than cores: a token goes round, then everyone sends to everyone. */
static fast_err many_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    const int64_t before = (id + count - 1) % count, after = (id + 1) % count;
    for (int64_t round = 0; round < 5; round++) {
        if (id == 0)
            FAST_TRY(suite_send(actor, after, 1, round));
        FAST_TRY(suite_receive(actor, before, 1, round));
        if (id != 0)
            FAST_TRY(suite_send(actor, after, 1, round));
    }
    for (int64_t to = 0; to < count; to++)
        FAST_TRY(suite_send(actor, to, 2, id * count + to));
    for (int64_t from = 0; from < count; from++)
        FAST_TRY(suite_receive(actor, from, 2, from * count + id));
    return FAST_OK;
}

static fast_err run_many(const suite *on)
{
    fast_actors_result result;
    FAST_TRY(suite_run(on, many_main, NULL, MANY, NULL, &result));
    FAST_TRY(EXPECT(result.actor_count == MANY));
    return on->alone ? EXPECT(result.ended_count == MANY) : FAST_OK;
}

/* Unreliable messages may vanish, but never change, and never harm the others. */
static fast_err unreliable_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t id = fast_actor_id(actor);
    for (int64_t i = 0; id == 1 && i < ROUNDS; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_msg_new(actor, 1, &msg));
        msg->unreliable = true;
        msg->words[0] = i;
        msg->words[1] = ~i;
        FAST_TRY(fast_send(actor, 0, &msg));
        FAST_TRY(suite_send(actor, 0, 2, i));
    }
    for (int64_t i = 0; id == 0 && i < ROUNDS; i++)
        FAST_TRY(suite_receive(actor, 1, 2, i));
    FAST_TRY(suite_barrier(actor));
    fast_msg *msg = NULL;
    while (id == 0 && !fast_receive(actor, 1, 1, FAST_AT_ONCE, &msg)) {
        const bool right = msg->words[0] == ~msg->words[1] && msg->unreliable;
        fast_msg_free(msg);
        FAST_TRY(EXPECT(right));
    }
    return FAST_OK;
}

static fast_err run_unreliable(const suite *on)
{
    return suite_run(on, unreliable_main, NULL, SUITE_ACTORS, NULL, NULL);
}

const suite_case suite_messages[] = {
    { "order of each pair, sizes mixed", run_order, true },
    { "exactly once, all to all", run_once, true },
    { "a flood starves nobody", run_fair, false },
    { "the oldest first from anyone", run_oldest, false },
    { "tags out of order, any tag", run_tags, false },
    { "polling", run_poll, false },
    { "messages to oneself", run_self, true },
    { "a flood to one, with bounded memory", run_flood, true },
    { "many actors", run_many, false },
    { "unreliable messages", run_unreliable, false },
    { NULL, NULL, false },
};
