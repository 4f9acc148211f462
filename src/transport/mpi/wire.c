/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire format between ranks. A packet is
 *
 *   byte   0  magic and version       4   (also detects another byte order)
 *          4  kind, parts, frozen bits, unreliable   1 each
 *          8  from, to                8 each
 *         24  tag                     8
 *         32  six words               8 each
 *         80  declared                8
 *         88  generation, unused      4 each
 *         96  proof                   8
 *        104  sizes of four parts     8 each
 *        136  all parts, one after the other, if together at most FAST_WIRE_INLINE_MAX bytes
 *
 * Larger payloads follow outside: one stream of MPI messages for each pair of ranks, in the order
 * of the packets. Every packet is verified before it is used: a wrong packet is an error, never a
 * crash, and never an allocation that no rank could have asked for.
 */
#include "transport/mpi/wire.h"

#include <string.h>

size_t fast__wire_pack(const fast_msg *msg, unsigned char packet[FAST_WIRE_PACKET_MAX])
{
    FAST_ASSERT(msg->part_count >= 0 && msg->part_count <= FAST_MSG_PARTS_MAX);
    FAST_ASSERT(msg->from >= 0 && msg->to >= 0 && msg->declared <= FAST_MSG_DECLARED_MAX);
    fast_wire wire = {
        .magic = FAST_WIRE_MAGIC,
        .kind = FAST_WIRE_MESSAGE,
        .part_count = (uint8_t)msg->part_count,
        .unreliable = msg->unreliable ? 1 : 0,
        .from = msg->from,
        .to = msg->to,
        .tag = msg->tag,
        .declared = msg->declared,
        .generation = msg->generation,
        .proof = fast__envelope(msg)->proof,
    };
    memcpy(wire.words, msg->words, sizeof wire.words);
    for (int i = 0; i < msg->part_count; i++) {
        wire.sizes[i] = msg->parts[i].size;
        if (msg->parts[i].buffer && fast_buffer_is_frozen(msg->parts[i].buffer))
            wire.frozen = (uint8_t)(wire.frozen | 1u << i);
    }
    memcpy(packet, &wire, sizeof wire);
    size_t used = sizeof wire;
    if (fast__wire_is_large(&wire))
        return used;
    for (int i = 0; i < msg->part_count; i++) {
        if (msg->parts[i].size)
            memcpy(packet + used, fast_msg_data(msg, i), msg->parts[i].size);
        used += msg->parts[i].size;
    }
    FAST_ASSERT(used <= FAST_WIRE_PACKET_MAX);
    return used;
}

size_t fast__wire_pack_kind(fast_wire_kind kind, int64_t word0, int64_t word1,
                            unsigned char packet[FAST_WIRE_PACKET_MAX])
{
    FAST_ASSERT(kind != FAST_WIRE_MESSAGE && kind < FAST_WIRE_KINDS);
    fast_wire wire = { .magic = FAST_WIRE_MAGIC, .kind = (uint8_t)kind };
    wire.words[0] = word0;
    wire.words[1] = word1;
    memcpy(packet, &wire, sizeof wire);
    return sizeof wire;
}

/* Return the bytes of all parts. Sizes are at most FAST_WIRE_PART_MAX, so the sum fits. */
static uint64_t payload_of(const fast_wire *wire)
{
    uint64_t sum = 0;
    for (int i = 0; i < wire->part_count; i++)
        sum += wire->sizes[i];
    return sum;
}

bool fast__wire_is_large(const fast_wire *wire)
{
    return payload_of(wire) > FAST_WIRE_INLINE_MAX;
}

/* FAST_EFORMAT if a part is too large, or has a size behind the last part. */
static fast_err sizes_check(const fast_wire *wire, int64_t node)
{
    if (wire->part_count > FAST_MSG_PARTS_MAX || wire->frozen >> wire->part_count)
        return fast__fail(FAST_EFORMAT, "rank %lld sent a message of %d parts; at most %d",
                          (long long)node, wire->part_count, FAST_MSG_PARTS_MAX);
    for (int i = 0; i < FAST_MSG_PARTS_MAX; i++)
        if (wire->sizes[i] > (i < wire->part_count ? FAST_WIRE_PART_MAX : 0))
            return fast__fail(FAST_EFORMAT, "rank %lld sent a message whose part %d has %llu bytes",
                              (long long)node, i, (unsigned long long)wire->sizes[i]);
    return FAST_OK;
}

/* FAST_EFORMAT if a control message, which is handled without further checks, names actors that do
 * not exist. */
static fast_err control_check(const fast_world *world, const fast_wire *wire, int64_t node)
{
    const int64_t *w = wire->words;
    bool good = true;
    if (wire->tag >> 56 != FAST_TAG_CONTROL >> 56)
        return FAST_OK;
    if (wire->tag == FAST_TAG_ENDED)
        good = w[0] <= 0 && w[0] > INT32_MIN && w[1] >= -1 && w[1] < world->count;
    else if (wire->tag == FAST_TAG_DOWN || wire->tag == FAST_TAG_UP || wire->tag == FAST_TAG_SILENT)
        good = w[0] >= 0 && w[0] < world->count;
    else
        good = wire->tag == FAST_TAG_WHO || wire->tag == FAST_TAG_ANSWER ||
               wire->tag == FAST_TAG_STOOD;
    if (!good)
        return fast__fail(FAST_EFORMAT, "rank %lld sent a control message %llx with wrong words",
                          (long long)node, (unsigned long long)wire->tag);
    return FAST_OK;
}

/* FAST_EFORMAT unless sender and receiver exist and live on the ranks of the packet. */
static fast_err ends_check(const fast_world *world, const fast_wire *wire, int64_t node,
                           int64_t here)
{
    if (wire->from < 0 || wire->from >= world->count || world->places[wire->from].node != node)
        return fast__fail(FAST_EFORMAT, "rank %lld sent a message of actor %lld, which it is not",
                          (long long)node, (long long)wire->from);
    if (wire->to < 0 || wire->to >= world->count || world->places[wire->to].node != here)
        return fast__fail(FAST_EFORMAT,
                          "rank %lld sent a message for actor %lld to rank %lld, where it is not",
                          (long long)node, (long long)wire->to, (long long)here);
    return FAST_OK;
}

fast_err fast__wire_unpack(const fast_world *world, const unsigned char *packet, size_t size,
                           int64_t node, int64_t here, fast_wire *out)
{
    fast_wire wire;
    if (size < sizeof wire)
        return fast__fail(FAST_EFORMAT, "rank %lld sent a packet of %zu bytes; at least %zu",
                          (long long)node, size, sizeof wire);
    memcpy(&wire, packet, sizeof wire);
    if (wire.magic != FAST_WIRE_MAGIC)
        return fast__fail(FAST_EFORMAT,
                          "rank %lld speaks another version (%08x, here %08x); run the same build "
                          "on every rank",
                          (long long)node, (unsigned)wire.magic, (unsigned)FAST_WIRE_MAGIC);
    if (wire.kind >= FAST_WIRE_KINDS || wire.unreliable > 1 || wire.unused != 0)
        return fast__fail(FAST_EFORMAT, "rank %lld sent a packet of an unknown kind, %d",
                          (long long)node, wire.kind);
    FAST_TRY(sizes_check(&wire, node));
    if (wire.kind == FAST_WIRE_MESSAGE) {
        FAST_TRY(ends_check(world, &wire, node, here));
        FAST_TRY(control_check(world, &wire, node));
    } else if (wire.part_count) {
        return fast__fail(FAST_EFORMAT, "rank %lld sent a packet of kind %d with parts",
                          (long long)node, wire.kind);
    }
    const size_t expected = sizeof wire + (fast__wire_is_large(&wire) ? 0 : payload_of(&wire));
    if (size != expected)
        return fast__fail(FAST_EFORMAT, "rank %lld sent a packet of %zu bytes that should have %zu",
                          (long long)node, size, expected);
    if (wire.declared > FAST_MSG_DECLARED_MAX)
        return fast__fail(FAST_EFORMAT, "rank %lld declares %llu bytes; at most %zu are allowed",
                          (long long)node, (unsigned long long)wire.declared,
                          FAST_MSG_DECLARED_MAX);
    *out = wire;
    return FAST_OK;
}

/* Copy the header's fields to a message without its parts. */
static void header_copy(const fast_wire *wire, fast_msg *msg)
{
    msg->from = wire->from;
    msg->to = wire->to;
    msg->tag = wire->tag;
    memcpy(msg->words, wire->words, sizeof msg->words);
    msg->declared = (size_t)wire->declared;
    msg->unreliable = wire->unreliable != 0;
    msg->generation = wire->generation;
    fast__envelope(msg)->proof = wire->proof;
}

fast_err fast__wire_message(fast_world *world, const fast_wire *wire, const unsigned char *payload,
                            fast_msg **out)
{
    const bool large = fast__wire_is_large(wire);
    fast_msg *msg = NULL;

    FAST_ASSERT(wire->kind == FAST_WIRE_MESSAGE && wire->part_count <= FAST_MSG_PARTS_MAX);
    FAST_TRY(fast__pool_msg(world->pool, wire->tag, &msg));
    header_copy(wire, msg);
    for (int i = 0; i < wire->part_count; i++) {
        fast_buffer *buffer = NULL;
        const size_t size = wire->sizes[i];
        const fast_err err = fast__pool_buffer(world->pool, size, &buffer);
        if (err) {
            fast_msg_free(msg);
            return err;
        }
        if (!large && size > 0) {
            memcpy(fast_buffer_data(buffer), payload, size);
            payload += size;
            atomic_fetch_add_explicit(&world->sums.copies, 1, memory_order_relaxed);
        }
        if (wire->frozen >> i & 1)
            fast_buffer_freeze(buffer);
        fast_msg_add(msg, &buffer);
    }
    *out = msg;
    return FAST_OK;
}
