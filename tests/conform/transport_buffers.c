/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transports, what messages carry: nothing, one byte, a mebibyte, four parts, words, declared
 * sizes; private parts move (the same pointer between local actors), frozen ones are shared by all
 * that receive them, stretches stay stretches, and old generations are dropped.
 */
#include "base/hash.h"
#include "conform/transport_suite.h"

#include <stdint.h>
#include <string.h>

#ifdef FAST_SANITIZED
enum { LARGE = 1 << 20, ROUNDS = 3 };
#else
enum { LARGE = 1 << 20, ROUNDS = 10 };
#endif

/* To the next, from the one before. */
static int64_t after(fast_actor *actor)
{
    return (fast_actor_id(actor) + 1) % fast_actor_count(actor);
}

static int64_t before(fast_actor *actor)
{
    const int64_t count = fast_actor_count(actor);
    return (fast_actor_id(actor) + count - 1) % count;
}

static fast_err sizes_main(fast_actor *actor, void *ctx)
{
    static const size_t sizes[] = { 0, 1, 2, 63, 64, 65, 3840, 3841, 4096, 65537, LARGE };
    (void)ctx;
    for (int round = 0; round < ROUNDS; round++)
        for (int64_t i = 0; i < (int64_t)(sizeof sizes / sizeof *sizes); i++) {
            fast_msg *msg = NULL;
            FAST_TRY(suite_send_bytes(actor, after(actor), 1, i, sizes[i]));
            FAST_TRY(fast_receive(actor, before(actor), 1, FAST_SOON, &msg));
            const fast_err err = suite_check_bytes(msg, i, sizes[i]);
            fast_msg_free(msg);
            FAST_TRY(err);
        }
    return FAST_OK;
}

static fast_err run_sizes(const suite *on)
{
    return suite_run(on, sizes_main, NULL, on->count, NULL, NULL);
}

/* A message without parts; every word; and who it was from. */
static fast_err words_main(fast_actor *actor, void *ctx)
{
    static const int64_t words[FAST_MSG_WORDS] = { INT64_MIN, -1, 0, 1, INT64_MAX, 42 };
    (void)ctx;
    fast_msg *msg = NULL;
    FAST_TRY(fast_msg_new(actor, FAST_TAG_MAX - 1, &msg));
    memcpy(msg->words, words, sizeof words);
    FAST_TRY(fast_send(actor, after(actor), &msg));
    FAST_TRY(EXPECT(msg == NULL));
    FAST_TRY(fast_receive(actor, before(actor), FAST_TAG_MAX - 1, FAST_SOON, &msg));
    const bool right = memcmp(msg->words, words, sizeof words) == 0 && msg->part_count == 0 &&
                       msg->from == before(actor) && msg->to == fast_actor_id(actor) &&
                       msg->declared == 0 && msg->generation == 0 && !msg->unreliable;
    fast_msg_free(msg);
    return EXPECT(right);
}

static fast_err run_words(const suite *on)
{
    return suite_run(on, words_main, NULL, on->count, NULL, NULL);
}

/* Four parts, private and frozen, some empty, arrive in their order. */
static fast_err parts_main(fast_actor *actor, void *ctx)
{
    static const size_t sizes[FAST_MSG_PARTS_MAX] = { 5000, 0, 1, 70000 };
    (void)ctx;
    fast_msg *msg = NULL;
    FAST_TRY(fast_msg_new(actor, 2, &msg));
    for (int i = 0; i < FAST_MSG_PARTS_MAX; i++) {
        fast_buffer *buffer = NULL;
        FAST_TRY(fast_buffer_new(actor, sizes[i], &buffer));
        memset(fast_buffer_data(buffer), 'a' + i, sizes[i]);
        if (i % 2)
            fast_buffer_freeze(buffer);
        fast_msg_add(msg, &buffer);
    }
    const size_t size = fast_msg_size(msg);
    FAST_TRY(fast_send(actor, after(actor), &msg));
    FAST_TRY(fast_receive(actor, before(actor), 2, FAST_SOON, &msg));
    fast_err err = EXPECT(msg->part_count == FAST_MSG_PARTS_MAX && fast_msg_size(msg) == size);
    for (int i = 0; !err && i < FAST_MSG_PARTS_MAX; i++) {
        const char *bytes = fast_msg_data(msg, i);
        err = EXPECT(msg->parts[i].size == sizes[i]);
        for (size_t k = 0; !err && k < sizes[i]; k++)
            err = EXPECT(bytes[k] == 'a' + i);
        if (!err)
            err = EXPECT(fast_buffer_is_frozen(msg->parts[i].buffer) == (i % 2 == 1));
    }
    fast_msg_free(msg);
    return err;
}

static fast_err run_parts(const suite *on)
{
    return suite_run(on, parts_main, NULL, on->count, NULL, NULL);
}

/* Declared bytes are counted but not sent. */
static fast_err declared_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_msg *msg = NULL;
    FAST_TRY(fast_msg_new(actor, 3, &msg));
    const size_t bare = fast_msg_size(msg);
    msg->declared = (size_t)1 << 30;
    FAST_TRY(EXPECT(fast_msg_size(msg) == bare + msg->declared));
    FAST_TRY(fast_send(actor, after(actor), &msg));
    FAST_TRY(fast_receive(actor, before(actor), 3, FAST_SOON, &msg));
    const bool right = msg->declared == (size_t)1 << 30 && msg->part_count == 0;
    fast_msg_free(msg);
    return EXPECT(right);
}

static fast_err run_declared(const suite *on)
{
    fast_actors_result result;
    FAST_TRY(suite_run(on, declared_main, NULL, on->count, NULL, &result));
    return on->alone ? EXPECT(result.bytes_sent >> 30 == on->count) : FAST_OK;
}

/* A private part is the receiver's to write, and between local actors the very same memory. It
 * goes round with everyone's mark. */
static fast_err private_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    enum { SIZE = 10000 };
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    fast_msg *msg = NULL;
    fast_buffer *buffer = NULL;
    if (id == 0) {
        FAST_TRY(fast_buffer_new(actor, SIZE, &buffer));
        memset(fast_buffer_data(buffer), 0, SIZE);
    } else {
        FAST_TRY(fast_receive(actor, id - 1, 4, FAST_SOON, &msg));
        const uintptr_t address = (uintptr_t)msg->words[0];
        buffer = fast_msg_take(msg, 0);
        fast_msg_free(msg);
        FAST_TRY(EXPECT(!fast_buffer_is_frozen(buffer)));
        FAST_TRY(EXPECT(fast_buffer_size(buffer) == SIZE));
        if (fast_actor_is_local(actor, id - 1))
            FAST_TRY(EXPECT((uintptr_t)fast_buffer_data(buffer) == address));
    }
    char *bytes = fast_buffer_data(buffer);
    for (int64_t i = 0; i < id; i++)
        FAST_TRY(EXPECT(bytes[i * 1000] == 'x'));
    bytes[id * 1000] = 'x';
    FAST_TRY(fast_msg_new(actor, id == count - 1 ? 5 : 4, &msg));
    msg->words[0] = (int64_t)(uintptr_t)bytes;
    fast_msg_add(msg, &buffer);
    FAST_TRY(EXPECT(buffer == NULL));
    FAST_TRY(fast_send(actor, after(actor), &msg));
    if (id != 0)
        return FAST_OK;
    FAST_TRY(fast_receive(actor, count - 1, 5, FAST_SOON, &msg));
    bytes = fast_buffer_data(msg->parts[0].buffer);
    int64_t marks = 0;
    for (int64_t i = 0; i < SIZE; i++)
        marks += bytes[i] == 'x';
    fast_msg_free(msg);
    return EXPECT(marks == count);
}

static fast_err run_private(const suite *on)
{
    fast_actors_result result;
    FAST_TRY(suite_run(on, private_main, NULL, on->count, NULL, &result));
    return on->alone ? EXPECT(result.copies == 0) : FAST_OK;
}

/* One frozen buffer to everyone, whole and in stretches: the same memory at all local actors, equal
 * bytes everywhere, and it outlives its maker. */
static fast_err frozen_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    enum { SIZE = 300000 };
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    if (id == 0) {
        fast_buffer *buffer = NULL;
        FAST_TRY(fast_buffer_new(actor, SIZE, &buffer));
        unsigned char *bytes = fast_buffer_data(buffer);
        for (size_t i = 0; i < SIZE; i++)
            bytes[i] = (unsigned char)(i * 7 >> 3);
        fast_buffer_freeze(buffer);
        for (int64_t to = 1; to < count; to++) {
            fast_msg *msg = NULL;
            FAST_TRY(fast_msg_new(actor, 6, &msg));
            msg->words[0] = (int64_t)(uintptr_t)bytes;
            fast_msg_add_view(msg, buffer, 0, SIZE);
            fast_msg_add_view(msg, buffer, 1000 + (size_t)to, 5000);
            fast_msg_add_view(msg, buffer, SIZE, 0);
            FAST_TRY(fast_send(actor, to, &msg));
        }
        fast_buffer_free(buffer);
        return FAST_OK; /* its program is over before the others read */
    }
    fast_msg *msg = NULL;
    FAST_TRY(fast_receive(actor, 0, 6, FAST_SOON, &msg));
    const unsigned char *bytes = fast_msg_data(msg, 0), *view = fast_msg_data(msg, 1);
    fast_err err = EXPECT(msg->part_count == 3 && msg->parts[0].size == SIZE &&
                          msg->parts[1].size == 5000 && msg->parts[2].size == 0);
    if (!err)
        err = EXPECT(fast_buffer_is_frozen(msg->parts[0].buffer));
    if (!err && fast_actor_is_local(actor, 0))
        err = EXPECT((uintptr_t)bytes == (uintptr_t)msg->words[0] && view == bytes + 1000 + id);
    for (size_t i = 0; !err && i < SIZE; i++)
        err = EXPECT(bytes[i] == (unsigned char)(i * 7 >> 3));
    for (size_t i = 0; !err && i < 5000; i++)
        err = EXPECT(view[i] == (unsigned char)((i + 1000 + (size_t)id) * 7 >> 3));
    fast_msg_free(msg);
    return err;
}

static fast_err run_frozen(const suite *on)
{
    fast_actors_result result;
    FAST_TRY(suite_run(on, frozen_main, NULL, on->count, NULL, &result));
    return on->alone ? EXPECT(result.copies == 0) : FAST_OK;
}

/* Messages of generations below the fence are dropped and counted, before and after it is raised;
 * those of none pass. */
static fast_err fence_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t id = fast_actor_id(actor);
    for (int late = 0; late < 2; late++) {
        for (uint32_t generation = 0; id != 0 && generation < 5; generation++) {
            fast_msg *msg = NULL;
            FAST_TRY(fast_msg_new(actor, 7, &msg));
            msg->generation = generation;
            FAST_TRY(fast_send(actor, 0, &msg));
        }
        FAST_TRY(suite_barrier(actor));
        if (id == 0)
            fast__mailbox_fence(actor, 3);
        FAST_TRY(suite_barrier(actor));
    }
    for (int64_t i = 0; id == 0 && i < 2 * 3 * (fast_actor_count(actor) - 1); i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, FAST_ANY, 7, FAST_AT_ONCE, &msg));
        const uint32_t generation = msg->generation;
        fast_msg_free(msg);
        FAST_TRY(EXPECT(generation == 0 || generation >= 3));
    }
    fast_msg *msg = NULL;
    FAST_TRY(EXPECT_ERR(fast_receive(actor, FAST_ANY, 7, FAST_AT_ONCE, &msg), FAST_ETIMEDOUT));
    FAST_TRY(suite_barrier(actor)); /* nobody leaves before everyone has looked */
    return id == 0 ? EXPECT(actor->counters.messages_stale == 2 * 2 * (fast_actor_count(actor) - 1))
                   : FAST_OK;
}

static fast_err run_fence(const suite *on)
{
    fast_actors_result result;
    FAST_TRY(suite_run(on, fence_main, NULL, on->count, NULL, &result));
    return on->alone ? EXPECT(result.messages_stale == 2 * 2 * (on->count - 1)) : FAST_OK;
}

const suite_case suite_buffers[] = {
    { "empty, one byte, a mebibyte", run_sizes, true },
    { "words and no parts", run_words, true },
    { "four parts", run_parts, true },
    { "declared sizes", run_declared, true },
    { "private parts move", run_private, true },
    { "frozen parts are shared", run_frozen, true },
    { "the fence of generations", run_fence, true },
    { NULL, NULL, false },
};
