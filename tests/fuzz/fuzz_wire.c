/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the packets that a rank receives from other ranks: any bytes give an error in one line, or
 * a message that its receiver can take. The first byte selects the sending rank, the rest is the
 * packet. As random bytes rarely have the magic number and the length that the header claims, the
 * packet is also read with both corrected.
 */
#include "base/memory.h"
#include "transport/mpi/wire.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ACTORS = 6, RANKS = 3, HERE = 1 };

static fast_err no_main(fast_actor *actor, void *ctx)
{
    (void)actor, (void)ctx;
    return FAST_OK;
}

static int64_t no_clock(fast_actor *actor)
{
    (void)actor;
    return 1;
}

static void drop(fast_actor *actor, fast_msg *msg)
{
    (void)actor;
    fast_msg_free(msg);
}

/* A transport without a network: answers of the receiver are dropped. */
static const fast_transport silent = { .name = "silent", .now = no_clock, .send = drop };

/* Deliver the message of a packet, and receive it. */
static void take(fast_world *world, const fast_wire *wire, const uint8_t *payload)
{
    fast_msg *msg = NULL;

    FAST_ASSERT(world->places[wire->from].node != HERE && world->places[wire->to].node == HERE);
    if (fast__wire_is_large(wire))
        return; /* its parts follow outside of the packet */
    FAST_ASSERT(fast__wire_message(world, wire, payload, &msg) == FAST_OK);
    FAST_ASSERT(fast_msg_size(msg) >= msg->declared);
    fast__deliver(world->actors[wire->to], msg);
    fast_msg_free(fast__take(world->actors[wire->to], wire->from, wire->tag));
}

/* Read a copy of exactly the packet's size, so that a sanitizer sees a read past its end. */
static void try_it(fast_world *world, const uint8_t *data, size_t size, int64_t rank)
{
    fast_wire wire;
    uint8_t *packet = NULL;

    FAST_ASSERT(fast__alloc("a packet", (int64_t)size, 1, &packet) == FAST_OK);
    if (size > 0)
        memcpy(packet, data, size);
    const fast_err err = fast__wire_unpack(world, packet, size, rank, HERE, &wire);
    if (err) {
        FAST_ASSERT(err == FAST_EFORMAT);
        FAST_ASSERT(strlen(fast_error_detail()) > 0);
        FAST_ASSERT(strchr(fast_error_detail(), '\n') == NULL);
    } else if (wire.kind == FAST_WIRE_MESSAGE) {
        take(world, &wire, packet + sizeof wire);
    }
    fast__free(packet);
}

/* Set the magic number, and the size of the last part so that the packet has the right length. */
static void mend(uint8_t *packet, size_t size)
{
    fast_wire wire;
    uint64_t before = 0;

    memcpy(&wire, packet, sizeof wire);
    wire.magic = FAST_WIRE_MAGIC;
    wire.kind %= FAST_WIRE_KINDS;
    wire.part_count %= FAST_MSG_PARTS_MAX + 1;
    wire.frozen &= (uint8_t)((1u << wire.part_count) - 1);
    wire.unreliable &= 1;
    wire.unused = 0;
    for (int i = 0; i < FAST_MSG_PARTS_MAX; i++)
        wire.sizes[i] = i + 1 < wire.part_count ? wire.sizes[i] % 64 : 0;
    for (int i = 0; i + 1 < wire.part_count; i++)
        before += wire.sizes[i];
    if (wire.part_count > 0 && size - sizeof wire >= before)
        wire.sizes[wire.part_count - 1] = size - sizeof wire - before;
    memcpy(packet, &wire, sizeof wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const fast_actors_config config = { .transport = "silent", .timeout = 1, .seed = 1 };
    const fast_role role = { "worker", ACTORS, no_main, NULL };
    fast_actor actors[ACTORS] = { 0 };
    fast_world world = { 0 };

    if (size == 0)
        return 0;
    FAST_ASSERT(fast__world_init(&world, &silent, &config, &role, 1) == FAST_OK);
    for (int i = 0; i < ACTORS; i++) {
        world.places[i] = (fast_place){ .node = i % RANKS, .here = i % RANKS == HERE };
        FAST_ASSERT(fast__actor_init(&actors[i], &world, i) == FAST_OK);
    }
    const int64_t rank = data[0] % 2 ? 2 : 0;
    try_it(&world, data + 1, size - 1, rank);
    if (size - 1 >= sizeof(fast_wire) && size - 1 <= FAST_WIRE_PACKET_MAX) {
        uint8_t packet[FAST_WIRE_PACKET_MAX];
        memcpy(packet, data + 1, size - 1);
        mend(packet, size - 1);
        try_it(&world, packet, size - 1, rank);
    }
    for (int i = 0; i < ACTORS; i++)
        fast__actor_fini(&actors[i]);
    fast__world_fini(&world);
    return 0;
}
