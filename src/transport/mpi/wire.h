/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/transport.h"

/*
 * A message between two ranks: a packet of a header and, if all parts together are small, their
 * bytes; larger parts follow as MPI messages of their own, out of and into their buffers. Nothing
 * here calls MPI.
 */
enum {
    FAST_WIRE_INLINE_MAX = 3840, /* bytes of all parts that travel in the packet: with the header
                                    they stay below the usual limit of eager sends, 4 KiB */
    FAST_WIRE_HEADER = 136,      /* bytes */
    FAST_WIRE_PACKET_MAX = FAST_WIRE_HEADER + FAST_WIRE_INLINE_MAX
};

/* No part is larger: a size beyond it is a damaged header. */
#define FAST_WIRE_PART_MAX ((uint64_t)1 << 44)

/* The kind of a packet. */
typedef enum fast_wire_kind {
    FAST_WIRE_MESSAGE, /* from an actor to an actor: fast_msg */
    FAST_WIRE_DONE,    /* words: 1 if actors were stopped; no message follows */
    FAST_WIRE_BYE,     /* no packet at all follows */
    FAST_WIRE_PING,    /* are you there? */
    FAST_WIRE_PONG,    /* yes */
    FAST_WIRE_READY,   /* words: key, count; a member is ready to make a team's communicator */
    FAST_WIRE_GO,      /* words: key; all members are: make it */
    FAST_WIRE_KINDS
} fast_wire_kind;

/* The header as it is in the packet, in the sender's byte order, which `magic` verifies. */
typedef struct fast_wire {
    uint32_t magic;                     /* FAST_WIRE_MAGIC: format and version */
    uint8_t kind;                       /* fast_wire_kind */
    uint8_t part_count;                 /* at most FAST_MSG_PARTS_MAX */
    uint8_t frozen;                     /* bit i: part i is frozen */
    uint8_t unreliable;                 /* 0 or 1 */
    int64_t from;                       /* actor */
    int64_t to;                         /* actor */
    uint64_t tag;                       /* of the message */
    int64_t words[FAST_MSG_WORDS];      /* of the message */
    uint64_t declared;                  /* of the message */
    uint32_t generation;                /* of the message */
    uint32_t unused;                    /* 0 */
    uint64_t proof;                     /* of the message */
    uint64_t sizes[FAST_MSG_PARTS_MAX]; /* of the parts, 0 past the last */
} fast_wire;
_Static_assert(sizeof(fast_wire) == FAST_WIRE_HEADER, "the header has no holes");

#define FAST_WIRE_MAGIC ((uint32_t)0x46535401) /* "FST", version 1 */

/* Write the packet of a message: the header, and the parts if they are small. Returns its
 * bytes. */
size_t fast__wire_pack(const fast_msg *msg, unsigned char packet[FAST_WIRE_PACKET_MAX]);
/* Write a packet without a message. */
size_t fast__wire_pack_kind(fast_wire_kind kind, int64_t word0, int64_t word1,
                            unsigned char packet[FAST_WIRE_PACKET_MAX]);

/* Read and verify the header of a packet of `size` bytes from rank `node` to rank `here`.
 * FAST_EFORMAT says what is wrong. */
fast_err fast__wire_unpack(const fast_world *world, const unsigned char *packet, size_t size,
                           int64_t node, int64_t here, fast_wire *out);

/* Return whether the parts follow outside of the packet. */
bool fast__wire_is_large(const fast_wire *wire);

/* Make the message of a verified header, with buffers for its parts. If the parts are in the
 * packet, copies them from `payload`; else the caller fills them. FAST_ENOMEM. */
fast_err fast__wire_message(fast_world *world, const fast_wire *wire, const unsigned char *payload,
                            fast_msg **out);
