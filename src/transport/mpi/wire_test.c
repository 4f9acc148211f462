/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what is packed is unpacked as it was, and no packet, however wrong, is believed.
 * Method: messages of every shape go through a packet; then a good packet is damaged in each way
 * that the header has, and in random ways: what passes the check must be safe to act on.
 */
#include "transport/mpi/wire.h"

#include "base/rng.h"
#include "transport/message_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { ACTORS = 6, RANKS = 3, HERE = 1, THERE = 2 };

/* A world of six actors on three ranks: actors 1 and 4 live here, 2 and 5 there. */
static fast_place places[ACTORS];
static fast_world world = { .count = ACTORS, .places = places };

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < ACTORS; i++)
        places[i] = (fast_place){ .node = i % RANKS, .here = i % RANKS == HERE };
    return fast__pool_new(&world.pool) != FAST_OK;
}

static int teardown(void **state)
{
    (void)state;
    fast__pool_free(world.pool);
    return 0;
}

/* A message from 5 to 1 with parts of these sizes; part 1 is frozen. */
static fast_msg *message(const size_t *sizes, int count)
{
    fast_msg *msg = NULL;
    assert_int_equal(fast__pool_msg(world.pool, 77, &msg), FAST_OK);
    for (int i = 0; i < count; i++) {
        fast_buffer *buffer = NULL;
        assert_int_equal(fast__pool_buffer(world.pool, sizes[i], &buffer), FAST_OK);
        memset(fast_buffer_data(buffer), 'a' + i, sizes[i]);
        if (i == 1)
            fast_buffer_freeze(buffer);
        fast_msg_add(msg, &buffer);
    }
    msg->from = 5;
    msg->to = 1;
    msg->declared = 12345;
    msg->generation = 3;
    msg->unreliable = true;
    for (int i = 0; i < FAST_MSG_WORDS; i++)
        msg->words[i] = -i;
    return msg;
}

static void test_round_trip(void **state)
{
    const size_t shapes[][FAST_MSG_PARTS_MAX] = {
        { 0 }, { 1, 2, 3, 4 }, { 3840 }, { 3839, 1 }, { 0, 0, 0, 0 }, { 3841 }, { 1000, 2000, 900 },
    };
    const int counts[] = { 0, 4, 1, 2, 4, 1, 3 };
    (void)state;
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        unsigned char packet[FAST_WIRE_PACKET_MAX];
        fast_msg *msg = message(shapes[k], counts[k]);
        fast_msg *got = NULL;
        fast_wire wire;
        const size_t size = fast__wire_pack(msg, packet);
        assert_int_equal(fast__wire_unpack(&world, packet, size, THERE, HERE, &wire), FAST_OK);
        assert_int_equal(fast__wire_message(&world, &wire, packet + FAST_WIRE_HEADER, &got),
                         FAST_OK);
        assert_int_equal(got->from, 5);
        assert_int_equal(got->to, 1);
        assert_int_equal(got->tag, 77);
        assert_int_equal(got->declared, 12345);
        assert_int_equal(got->generation, 3);
        assert_true(got->unreliable);
        assert_memory_equal(got->words, msg->words, sizeof got->words);
        assert_int_equal(wire.part_count, counts[k]);
        assert_int_equal(wire.frozen, counts[k] > 1 ? 2 : 0);
        assert_int_equal(fast__msg_payload(got), fast__msg_payload(msg));
        const bool large = fast__wire_is_large(&wire);
        assert_int_equal(large, fast__msg_payload(msg) - msg->declared > FAST_WIRE_INLINE_MAX);
        for (int i = 0; i < counts[k]; i++)
            assert_int_equal(fast_buffer_is_frozen(got->parts[i].buffer), i == 1);
        const unsigned char *at = packet + FAST_WIRE_HEADER;
        for (int i = 0; i < counts[k] && size > FAST_WIRE_HEADER; i++) {
            assert_int_equal(wire.sizes[i], shapes[k][i]);
            assert_memory_equal(fast_msg_data(got, i), at, shapes[k][i]);
            for (size_t j = 0; j < shapes[k][i]; j++)
                assert_int_equal(*at++, 'a' + i);
        }
        assert_true(size == FAST_WIRE_HEADER || at == packet + size);
        fast_msg_free(msg);
        fast_msg_free(got);
    }
}

/* Pack a good message with two small parts, let `damage` change it, and look at it. */
static fast_err damaged(void (*damage)(fast_wire *wire), int64_t change)
{
    unsigned char packet[FAST_WIRE_PACKET_MAX];
    const size_t sizes[] = { 10, 20 };
    fast_msg *msg = message(sizes, 2);
    const size_t size = fast__wire_pack(msg, packet);
    fast_wire wire;
    fast_msg_free(msg);
    memcpy(&wire, packet, sizeof wire);
    if (damage)
        damage(&wire);
    memcpy(packet, &wire, sizeof wire);
    return fast__wire_unpack(&world, packet, (size_t)((int64_t)size + change), THERE, HERE, &wire);
}

static void bad_magic(fast_wire *w)
{
    w->magic++;
}
static void bad_kind(fast_wire *w)
{
    w->kind = FAST_WIRE_KINDS;
}
static void bad_ping(fast_wire *w)
{
    w->kind = FAST_WIRE_PING;
}
static void bad_flag(fast_wire *w)
{
    w->unreliable = 2;
}
static void bad_unused(fast_wire *w)
{
    w->unused = 1;
}
static void bad_parts(fast_wire *w)
{
    w->part_count = FAST_MSG_PARTS_MAX + 1;
}
static void bad_fewer(fast_wire *w)
{
    w->part_count = 1;
}
static void bad_frozen(fast_wire *w)
{
    w->frozen = 4;
}
static void bad_size(fast_wire *w)
{
    w->sizes[0] = 11;
}
static void bad_huge(fast_wire *w)
{
    w->sizes[1] = UINT64_MAX;
}
static void bad_hidden(fast_wire *w)
{
    w->sizes[3] = 1;
}
static void bad_from(fast_wire *w)
{
    w->from = ACTORS;
}
static void bad_from_here(fast_wire *w)
{
    w->from = 4;
}
static void bad_to(fast_wire *w)
{
    w->to = -1;
}
static void bad_to_there(fast_wire *w)
{
    w->to = 0;
}
static void bad_control(fast_wire *w)
{
    w->tag = FAST_TAG_CONTROL + 99;
}
static void bad_down(fast_wire *w)
{
    w->tag = FAST_TAG_DOWN, w->words[0] = ACTORS;
}
static void bad_ended(fast_wire *w)
{
    w->tag = FAST_TAG_ENDED, w->words[1] = ACTORS;
}

static void test_damage(void **state)
{
    void (*const damages[])(fast_wire *) = {
        bad_magic, bad_kind,      bad_ping, bad_flag,     bad_unused,  bad_parts,
        bad_fewer, bad_frozen,    bad_size, bad_huge,     bad_hidden,  bad_from,
        bad_to,    bad_from_here, bad_down, bad_to_there, bad_control, bad_ended,
    };
    (void)state;
    assert_int_equal(damaged(NULL, 0), FAST_OK);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        assert_int_equal(damaged(damages[i], 0), FAST_EFORMAT);
        assert_non_null(strstr(fast_error_detail(), "rank 2"));
    }
    assert_int_equal(damaged(NULL, -1), FAST_EFORMAT);
    assert_int_equal(damaged(NULL, 1), FAST_EFORMAT);
    for (int64_t size = 0; size < FAST_WIRE_HEADER; size++)
        assert_int_equal(damaged(NULL, size - FAST_WIRE_HEADER - 30), FAST_EFORMAT);
}

static void test_random(void **state)
{
    fast_rng rng;
    int64_t passed = 0;
    (void)state;
    fast__rng_init(&rng, 1, FAST_PURPOSE_ACTOR, 0, 0, 0);
    for (int n = 0; n < 100000; n++) {
        unsigned char packet[FAST_WIRE_PACKET_MAX];
        const size_t sizes[] = { 10, 20 };
        fast_msg *msg = message(sizes, 2);
        const size_t size = fast__wire_pack(msg, packet);
        fast_wire wire;
        fast_msg_free(msg);
        for (uint32_t flips = 1 + fast__rng_u32(&rng) % 3; flips > 0; flips--)
            packet[fast__rng_u32(&rng) % FAST_WIRE_HEADER] ^=
                (unsigned char)(1u << fast__rng_u32(&rng) % 8);
        if (fast__wire_unpack(&world, packet, size, THERE, HERE, &wire))
            continue;
        passed++;
        assert_true(wire.part_count <= FAST_MSG_PARTS_MAX && wire.kind < FAST_WIRE_KINDS);
        assert_int_equal(wire.sizes[0] + wire.sizes[1] + wire.sizes[2] + wire.sizes[3], 30);
        assert_int_equal(places[wire.from].node, THERE);
        assert_int_equal(places[wire.to].node, HERE);
    }
    assert_true(passed > 1000 && passed < 90000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
