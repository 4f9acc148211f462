/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lz4: a stage by liblz4, which shortens repeated strings: the fastest one, for bytes that repeat,
 * such as zeros; it does not shorten bytes that are only frequent.
 *
 *     pieces of 1 GiB before packing: size (variable length), then a block of LZ4
 *
 * The library's table, 16 KiB, lives in the scratch of the stage. Cost: 0.5 to 2 GB/s to pack, 2 to
 * unpack.
 */
#include "codec/bits.h"
#include "codec/codec.h"

#ifdef FAST_HAVE_LZ4

#include <lz4.h>

static const size_t PIECE = (size_t)1 << 30; /* the library counts in int */

typedef struct lz4_config {
    int64_t speed; /* against size */
} lz4_config;

static const fast_option options[] = {
    FAST_OPT_INT(lz4_config, speed, "1", 1, 64, "more is faster and larger"),
    FAST_OPT_END,
};

/* The library's worst case for each piece, and the size field before it. */
static size_t bound(const void *config, size_t size)
{
    (void)config;
    return size + size / 255 + (size / PIECE + 1) * (16 + FAST_VARINT_MAX);
}

/* The library's table. */
static size_t scratch(const void *config, size_t size)
{
    (void)config;
    (void)size;
    return (size_t)LZ4_sizeofState();
}

/* Pack piece by piece. A block is written where the longest size field would end, then moved up
 * to its own. */
static size_t pack(const void *config, const uint8_t *in, size_t size, void *memory, uint8_t *out)
{
    const int speed = (int)((const lz4_config *)config)->speed;
    uint8_t *at = out;

    for (size_t done = 0; done < size;) {
        const size_t piece = size - done < PIECE ? size - done : PIECE;
        uint8_t *begin = at + FAST_VARINT_MAX;
        const int packed =
            LZ4_compress_fast_extState(memory, (const char *)in + done, (char *)begin, (int)piece,
                                       LZ4_compressBound((int)piece), speed);

        FAST_ASSERT(packed > 0); /* out has room for the bound */
        at = fast__varint_put(at, (uint64_t)packed);
        memmove(at, begin, (size_t)packed);
        at += packed;
        done += piece;
    }
    return (size_t)(at - out);
}

/* Unpack piece by piece; sizes are checked before the library sees them. */
static fast_err unpack(const void *config, const uint8_t *in, size_t size, void *memory,
                       uint8_t *out, size_t room, size_t *size_out)
{
    const uint8_t *at = in;
    const uint8_t *const end = in + size;
    size_t done = 0;

    (void)config;
    (void)memory;
    while (at < end) {
        const size_t left = room - done < PIECE ? room - done : PIECE;
        uint64_t packed;
        int unpacked = -1;

        if (fast__varint_get(&at, end, &packed) && packed <= (uint64_t)(end - at) &&
            packed <= LZ4_MAX_INPUT_SIZE)
            unpacked =
                LZ4_decompress_safe((const char *)at, (char *)out + done, (int)packed, (int)left);
        if (unpacked < 0)
            return fast__fail(FAST_EFORMAT, "lz4: %zu bytes are not packed, or to more than %zu",
                              size, room);
        at += packed;
        done += (size_t)unpacked;
    }
    *size_out = done;
    return FAST_OK;
}

const fast_stage fast__stage_lz4 = {
    .name = "lz4",
    .summary = "lossless: shortens repeated strings, fast",
    .options = options,
    .config_size = sizeof(lz4_config),
    .bound = bound,
    .scratch = scratch,
    .pack = pack,
    .unpack = unpack,
};

#endif
