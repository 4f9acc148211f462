/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lossless stages. Goal: bytes come back, within the bound and the room, whatever they are; the
 * order-0 coder is as small as the entropy says; hostile bytes touch nothing. Method: every stage
 * of the registry on random, constant, skewed, empty and single bytes, with guards behind all
 * memory; packed bytes that are cut, changed and made up.
 */
#include "codec/chain.h"

#include "base/memory.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const fast_stage fast__stage_entropy;
extern const fast_stage fast__stage_huffman;

enum { LONG = 20000, GUARD = 16 };

/* A stage, set up by hand. */
typedef struct rig {
    const fast_stage *stage;
    void *config;
    void *scratch;
    size_t room; /* bytes before packing, at most */
} rig;

static void rig_open(rig *r, const fast_stage *stage, size_t room)
{
    *r = (rig){ .stage = stage, .room = room };
    if (stage->options) {
        assert_int_equal(fast__alloc("config", (int64_t)stage->config_size, 1, &r->config),
                         FAST_OK);
        fast__options_default(stage->options, r->config);
    }
    const size_t size = stage->scratch ? stage->scratch(r->config, room) : 0;
    assert_int_equal(fast__alloc("scratch", (int64_t)size, 1, &r->scratch), FAST_OK);
}

static void rig_close(rig *r)
{
    fast__free(r->config);
    fast__free(r->scratch);
}

/* Kinds of input. */
static void draw(int kind, size_t size, uint8_t *out)
{
    fast_rng rng;

    fast__rng_init(&rng, 3, FAST_PURPOSE_TEST, (uint64_t)kind, 0, 0);
    for (size_t i = 0; i < size; i++) {
        const uint32_t word = fast__rng_u32(&rng);

        out[i] = kind == 0   ? (uint8_t)word                             /* random */
                 : kind == 1 ? 77                                        /* constant */
                 : kind == 2 ? (uint8_t)__builtin_ctz(word | 0x80000000) /* skewed */
                 : kind == 3 ? (uint8_t)(i % 3 ? 0 : 255)                /* repeated */
                             : (uint8_t)(word % 64 ? 0 : word >> 16);    /* rare others */
    }
}

static size_t pack(const rig *r, const uint8_t *in, size_t size, uint8_t *out)
{
    const size_t bound = r->stage->bound(r->config, size);

    memset(out + bound, 0xA5, GUARD);
    const size_t packed = r->stage->pack(r->config, in, size, r->scratch, out);
    assert_true(packed <= bound);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(out[bound + (size_t)i], 0xA5);
    return packed;
}

static void bytes_come_back(void **state)
{
    static const size_t sizes[] = { 0, 1, 2, 3, 4, 5, 7, 100, 1000, LONG };
    static uint8_t in[LONG + 1], packed[2 * LONG + 4096], out[LONG + GUARD];

    (void)state;
    for (int s = 0; fast__stages[s]; s++) {
        rig r;

        rig_open(&r, fast__stages[s], LONG);
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
            for (int kind = 0; kind < 5; kind++) {
                const size_t size = sizes[k];
                size_t unpacked = 99;

                draw(kind, size, in);
                const size_t length = pack(&r, in, size, packed);
                memset(out, 0x5A, sizeof out);
                if (r.stage->unpack(r.config, packed, length, r.scratch, out, size, &unpacked) ||
                    unpacked != size || memcmp(in, out, size) != 0)
                    fail_msg("%s: %zu bytes of kind %d do not come back", r.stage->name, size,
                             kind);
                assert_int_equal(out[size], 0x5A);
                /* One byte of room too few. */
                memset(out, 0x5A, sizeof out);
                if (size > 0)
                    assert_int_equal(r.stage->unpack(r.config, packed, length, r.scratch, out,
                                                     size - 1, &unpacked),
                                     FAST_EFORMAT);
                assert_int_equal(out[size > 0 ? size - 1 : 0], 0x5A);
            }
        rig_close(&r);
    }
}

/* Sizes against the entropy, and constants that cost nothing. */
static void entropy_is_reached(void **state)
{
    static uint8_t in[LONG], packed[2 * LONG + 4096];
    rig r;

    (void)state;
    rig_open(&r, &fast__stage_entropy, LONG);
    for (int kind = 1; kind < 5; kind++) {
        double counts[256] = { 0 };
        double bits = 0;

        draw(kind, LONG, in);
        for (int i = 0; i < LONG; i++)
            counts[in[i]]++;
        for (int i = 0; i < 256; i++)
            bits -= counts[i] > 0 ? counts[i] * log2(counts[i] / LONG) : 0;
        const size_t size = pack(&r, in, LONG, packed);
        if ((double)size > bits / 8 * 1.02 + 400)
            fail_msg("kind %d: %zu bytes, where the entropy is %g", kind, size, bits / 8);
    }
    draw(1, LONG, in);
    assert_true(pack(&r, in, LONG, packed) < 64);
    draw(0, LONG, in); /* nothing to gain: the bytes as they are */
    assert_int_equal(pack(&r, in, LONG, packed), LONG + 1);
    rig_close(&r);
}

/* Codes by hand: counts 4, 2, 1 and 1 have lengths 1, 2, 3 and 3, and codes 0, 10, 110 and 111. */
static void huffman_by_hand(void **state)
{
    static const uint8_t unit[8] = { 'a', 'b', 'a', 'c', 'a', 'd', 'b', 'a' };
    static uint8_t in[64 * 8], packed[2 * sizeof in + 64], out[sizeof in];
    enum { HEAD = 1 + 2 + 32 + 2 };
    size_t unpacked;
    rig r;

    (void)state;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = unit[i % 8];
    rig_open(&r, &fast__stage_huffman, sizeof in);
    /* A unit has 14 bits: 0 10 0 110 0 111 10 0, the first in the lowest bit. */
    assert_int_equal(pack(&r, in, sizeof in, packed), HEAD + 64 * 14 / 8);
    assert_int_equal(packed[HEAD - 2], 1 | 2 << 4);
    assert_int_equal(packed[HEAD - 1], 3 | 3 << 4);
    assert_int_equal(packed[HEAD], 0x32);            /* 0 10 0 110 0, from the lowest bit */
    assert_int_equal(packed[HEAD + 1] & 0x3f, 0x0f); /* 111 10 0 */
    for (int i = 0; i < 4; i++) { /* lengths that are no tree's, bits that are left */
        uint8_t bad[sizeof packed];
        size_t size = HEAD + 64 * 14 / 8;

        memcpy(bad, packed, sizeof bad);
        if (i == 0)
            bad[HEAD - 2] = 1 | 1 << 4; /* too many */
        else if (i == 1)
            bad[HEAD - 2] = 2 | 2 << 4; /* too few */
        else if (i == 2)
            bad[HEAD - 2] = 0 | 2 << 4; /* a byte that occurs has no code */
        else
            size++;
        if (r.stage->unpack(r.config, bad, size, r.scratch, out, sizeof out, &unpacked) !=
            FAST_EFORMAT)
            fail_msg("code %d is taken", i);
    }
    /* Counts like Fibonacci's make codes as long as possible: they are limited. */
    static uint8_t deep[30000], shut[40000], back[30000];
    size_t n = 0;
    for (uint32_t s = 0, a = 1, b = 1; s < 22; s++, b += a, a = b - a)
        for (uint32_t i = 0; i < a && n < sizeof deep; i++)
            deep[n++] = (uint8_t)s;
    const size_t size = r.stage->pack(r.config, deep, n, r.scratch, shut);
    assert_true(size < n / 2);
    assert_int_equal(r.stage->unpack(r.config, shut, size, r.scratch, back, n, &unpacked), FAST_OK);
    assert_memory_equal(deep, back, n);
    rig_close(&r);
}

/* Invented input gives an error or bytes, and nothing is written behind the room. */
static void try_bytes(const rig *r, const uint8_t *bytes, size_t size)
{
    enum { ROOM = 700 };
    uint8_t *copy = malloc(size ? size : 1); /* its end is the end of memory */
    uint8_t out[ROOM + GUARD];
    size_t unpacked = 0;

    memcpy(copy, bytes, size);
    memset(out, 0x5A, sizeof out);
    const fast_err err = r->stage->unpack(r->config, copy, size, r->scratch, out, ROOM, &unpacked);
    assert_true(err == FAST_OK || err == FAST_EFORMAT);
    assert_true(unpacked <= ROOM);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(out[ROOM + i], 0x5A);
    free(copy);
}

static void hostile_bytes_are_harmless(void **state)
{
    static uint8_t in[1000], good[8192], bad[8192];

    (void)state;
    for (int s = 0; fast__stages[s]; s++) {
        fast_rng rng;
        rig r;

        fast__rng_init(&rng, 1, FAST_PURPOSE_TEST, 1, 0, 0);
        rig_open(&r, fast__stages[s], sizeof in);
        for (int kind = 0; kind < 5; kind++) {
            draw(kind, 600, in);
            const size_t size = pack(&r, in, 600, good);

            for (size_t cut = 0; cut < size; cut++)
                try_bytes(&r, good, cut);
            for (int t = 0; t < 2000; t++) {
                memcpy(bad, good, size);
                for (uint32_t k = fast__rng_u32(&rng) % 4 + 1; k > 0; k--)
                    bad[fast__rng_below(&rng, t % 2 || size < 40 ? size : 40)] =
                        (uint8_t)fast__rng_u32(&rng);
                try_bytes(&r, bad, size);
            }
        }
        rig_close(&r);
    }
}

/* Tables that do not add up, states that do not end, sizes that are not there. */
static void hostile_tables_are_refused(void **state)
{
    uint8_t bytes[128] = { 0, 8 }; /* 8 bytes, then the map */
    uint8_t out[16];
    size_t unpacked;
    rig r;

    (void)state;
    rig_open(&r, &fast__stage_entropy, 64);
    bytes[2] = 1; /* byte 0 alone */
    uint8_t *f = bytes + 2 + 32;
    f[0] = 0xff; /* 4095 + 1: right */
    f[1] = 0x1f;
    const uint32_t low = 1 << 16;
    for (int i = 0; i < 4; i++)
        memcpy(f + 2 + 4 * i, &low, sizeof low);
    const size_t size = 2 + 32 + 2 + 16;
    assert_int_equal(r.stage->unpack(r.config, bytes, size, r.scratch, out, 16, &unpacked),
                     FAST_OK);
    assert_int_equal(unpacked, 8);
    for (int i = 0; i < 6; i++) {
        uint8_t bad[128];
        size_t length = size;

        memcpy(bad, bytes, sizeof bad);
        if (i == 0)
            bad[34] = 0xfe, bad[1] = 0; /* one slot is nobody's, though none is used */
        else if (i == 1)
            bad[35] = 0x20; /* one too many */
        else if (i == 2)
            bad[2] = 3; /* a second byte, for which no slot is left */
        else if (i == 3)
            bad[38] = 2; /* a state that does not end where it began */
        else if (i == 4)
            bad[1] = 17; /* more than there is room for */
        else
            length++; /* a byte behind the end */
        if (r.stage->unpack(r.config, bad, length, r.scratch, out, 16, &unpacked) != FAST_EFORMAT)
            fail_msg("table %d is taken", i);
    }
    rig_close(&r);
}

/* A stage of which this build has no library is refused with the package that brings it. */
static void packages_are_named(void **state)
{
    (void)state;
    assert_string_equal(fast__stage_package("zstd"), "libzstd-dev");
    assert_string_equal(fast__stage_package("lz4"), "liblz4-dev");
    assert_null(fast__stage_package("entropy"));
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "zstd" : "lz4";
        fast_chain *chain = NULL;

        if (fast__chain_open(name, &chain))
            assert_non_null(strstr(fast_error_detail(), fast__stage_package(name)));
        fast__chain_close(chain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_back),
        cmocka_unit_test(entropy_is_reached),
        cmocka_unit_test(huffman_by_hand),
        cmocka_unit_test(hostile_bytes_are_harmless),
        cmocka_unit_test(hostile_tables_are_refused),
        cmocka_unit_test(packages_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
