/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: conversions are exact where they can be and nearest, ties to even, where they cannot.
 * Method: all 65536 values of F16 and BF16 through a decoder written with ldexp(), there and back;
 * for rounding, the midpoint between every two neighbours and its own two neighbours; whole numbers
 * at their limits. Lengths and offsets are odd, so that every variant's ends are run through.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "tensor/vector.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ALL = 65536 };

/* A number of 16 bits by its definition: sign, exponent, mantissa. */
static double decode(uint16_t h, int exponent_bits)
{
    const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = h >> mantissa_bits & ((1 << exponent_bits) - 1);
    const int mantissa = h & ((1 << mantissa_bits) - 1);
    double x;
    if (exponent == (1 << exponent_bits) - 1)
        x = mantissa ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        x = ldexp(mantissa, 1 - bias - mantissa_bits);
    else
        x = ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
    return h & 0x8000 ? -x : x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Every value to F32 and back. */
static void check_round_trip(fast_dtype dtype, int exponent_bits)
{
    static uint16_t h[ALL + 1], back[ALL];
    static float x[ALL];
    for (int i = 0; i < ALL; i++)
        h[i] = (uint16_t)i;
    fast__vector_convert(ALL, dtype, h, FAST_F32, x, 0);
    fast__vector_convert(ALL, FAST_F32, x, dtype, back, 0);
    for (int i = 0; i < ALL; i++) {
        const double expected = decode((uint16_t)i, exponent_bits);
        if (isnan(expected)) {
            assert_true(isnan(x[i]));
            assert_true(isnan(decode(back[i], exponent_bits)));
            assert_int_equal(back[i] & 0x8000, i & 0x8000);
        } else {
            assert_true(bits_of(x[i]) == bits_of((float)expected));
            assert_int_equal(back[i], i);
        }
    }
}

static uint16_t convert_one(float x, fast_dtype dtype)
{
    float many[37];
    uint16_t h[37];
    for (int i = 0; i < 37; i++)
        many[i] = x;
    fast__vector_convert(37, FAST_F32, many, dtype, h, 0);
    for (int i = 1; i < 37; i++)
        assert_int_equal(h[i], h[0]); /* the vector part and the rest agree */
    return h[0];
}

/* Around the midpoint of every two neighbours; the last one's upper neighbour is infinity. */
static void check_rounding(fast_dtype dtype, int exponent_bits)
{
    const int infinity = 0x7fff & ~((1 << (15 - exponent_bits)) - 1);
    for (int i = 0; i < infinity; i++) {
        const double low = decode((uint16_t)i, exponent_bits);
        const double high = i + 1 < infinity ? decode((uint16_t)(i + 1), exponent_bits)
                                             : 2 * low - decode((uint16_t)(i - 1), exponent_bits);
        const float middle = (float)((low + high) / 2);
        if ((double)middle != (low + high) / 2)
            continue; /* BF16's smallest ones have no midpoint in F32 */
        const int even = i % 2 == 0 ? i : i + 1;
        for (int sign = 0; sign < 2; sign++) {
            const float s = sign ? -1 : 1;
            const int bit = sign ? 0x8000 : 0;
            assert_int_equal(convert_one(s * middle, dtype), even | bit);
            assert_int_equal(convert_one(s * nextafterf(middle, 0), dtype), i | bit);
            assert_int_equal(convert_one(s * nextafterf(middle, INFINITY), dtype), (i + 1) | bit);
        }
    }
}

static void test_f16(void **state)
{
    (void)state;
    check_round_trip(FAST_F16, 5);
    check_rounding(FAST_F16, 5);
    assert_int_equal(convert_one(65519.996f, FAST_F16), 0x7bff);
    assert_int_equal(convert_one(65520.0f, FAST_F16), 0x7c00);
    assert_int_equal(convert_one(-1e30f, FAST_F16), 0xfc00);
    assert_int_equal(convert_one(INFINITY, FAST_F16), 0x7c00);
    assert_int_equal(convert_one(0x1p-25f, FAST_F16), 0); /* a tie with zero */
    assert_int_equal(convert_one(1e-40f, FAST_F16), 0);
    assert_int_equal(convert_one(-0.0f, FAST_F16), 0x8000);
}

static void test_bf16(void **state)
{
    (void)state;
    check_round_trip(FAST_BF16, 8);
    check_rounding(FAST_BF16, 8);
    assert_int_equal(convert_one(3.4e38f, FAST_BF16), 0x7f80);
    /* A NaN whose only bit is in the lost half must not become infinity. */
    const uint32_t bits = 0x7f800001;
    float nan;
    memcpy(&nan, &bits, sizeof nan);
    assert_true(isnan(decode(convert_one(nan, FAST_BF16), 8)));
    assert_true(isnan(decode(convert_one(nan, FAST_F16), 5)));
}

static void test_bytes(void **state)
{
    (void)state;
    static const struct {
        float x;
        int8_t i8;
        uint8_t u8;
    } cases[] = {
        { 0, 0, 0 },       { 0.5f, 0, 0 },        { 1.5f, 2, 2 },         { 2.5f, 2, 2 },
        { -0.5f, 0, 0 },   { -1.5f, -2, 0 },      { -2.5f, -2, 0 },       { 126.5f, 126, 126 },
        { 127, 127, 127 }, { 127.5f, 127, 128 },  { 128, 127, 128 },      { -127.5f, -128, 0 },
        { -128, -128, 0 }, { -129, -128, 0 },     { 254.5f, 127, 254 },   { 255, 127, 255 },
        { 256, 127, 255 }, { 1e30f, 127, 255 },   { INFINITY, 127, 255 }, { -INFINITY, -128, 0 },
        { NAN, 0, 0 },     { 0.49999997f, 0, 0 },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        float x[37], scaled[37];
        int8_t i8[37];
        uint8_t u8[37];
        for (int i = 0; i < 37; i++) {
            x[i] = cases[c].x;
            scaled[i] = cases[c].x / 4;
        }
        fast__vector_convert(37, FAST_F32, scaled, FAST_I8, i8, 4);
        fast__vector_convert(37, FAST_F32, x, FAST_U8, u8, 0);
        for (int i = 0; i < 37; i++) {
            assert_int_equal(i8[i], cases[c].i8);
            assert_int_equal(u8[i], cases[c].u8);
        }
    }
    /* A NaN whose last byte is not zero. */
    const uint32_t bits = 0xffc00055;
    float nan;
    int8_t zero = 1;
    memcpy(&nan, &bits, sizeof nan);
    fast__vector_convert(1, FAST_F32, &nan, FAST_I8, &zero, 1);
    assert_int_equal(zero, 0);

    int8_t i8[256];
    uint8_t u8[256];
    float from_i8[256], from_u8[256];
    for (int i = 0; i < 256; i++) {
        i8[i] = (int8_t)(i - 128);
        u8[i] = (uint8_t)i;
    }
    fast__vector_convert(256, FAST_I8, i8, FAST_F32, from_i8, 0.25f);
    fast__vector_convert(256, FAST_U8, u8, FAST_F32, from_u8, 0);
    for (int i = 0; i < 256; i++) {
        assert_true(from_i8[i] == 0.25f * (float)(i - 128));
        assert_true(from_u8[i] == (float)i);
    }
}

static void test_wide(void **state)
{
    (void)state;
    const float x[] = { 0.5f,    1.5f,     -2.5f,    0x1p31f,   -0x1p31f, -0x1.1p31f,
                        0x1p63f, -0x1p63f, INFINITY, -INFINITY, NAN,      16777216.0f };
    const int32_t i32[] = { 0,         2,         -2,        INT32_MAX, INT32_MIN, INT32_MIN,
                            INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0,         16777216 };
    const int64_t i64[] = { 0,
                            2,
                            -2,
                            0x80000000,
                            -(int64_t)0x80000000,
                            -(int64_t)0x88000000,
                            INT64_MAX,
                            INT64_MIN,
                            INT64_MAX,
                            INT64_MIN,
                            0,
                            16777216 };
    enum { N = sizeof x / sizeof *x };
    int32_t y32[N];
    int64_t y64[N];
    fast__vector_convert(N, FAST_F32, x, FAST_I32, y32, 0);
    fast__vector_convert(N, FAST_F32, x, FAST_I64, y64, 0);
    assert_memory_equal(y32, i32, sizeof i32);
    assert_memory_equal(y64, i64, sizeof i64);

    const int32_t from32[] = { 0, -1, 16777217, INT32_MAX };
    const int64_t from64[] = { 0, -1, ((int64_t)1 << 40) + 1, INT64_MAX };
    const double from_f64[] = { 0.1, 1e300, -0.0, 1 + 0x1p-25 };
    float y[4];
    fast__vector_convert(4, FAST_I32, from32, FAST_F32, y, 0);
    assert_true(y[1] == -1 && y[2] == 16777216.0f && y[3] == 0x1p31f);
    fast__vector_convert(4, FAST_I64, from64, FAST_F32, y, 0);
    assert_true(y[1] == -1 && y[2] == 0x1p40f && y[3] == 0x1p63f);
    fast__vector_convert(4, FAST_F64, from_f64, FAST_F32, y, 0);
    assert_true(y[0] == 0.1f && isinf(y[1]) && signbit(y[2]) && y[3] == 1);
    double back[4];
    fast__vector_convert(4, FAST_F32, y, FAST_F64, back, 0);
    assert_true(back[0] == (double)0.1f);
    float copy[4];
    fast__vector_convert(4, FAST_F32, y, FAST_F32, copy, 0);
    assert_memory_equal(copy, y, sizeof y);
    fast__vector_convert(0, FAST_F32, NULL, FAST_F64, NULL, 0);
}

/* Tensors of a file lie at any byte. */
static void test_unaligned(void **state)
{
    (void)state;
    unsigned char bytes[1 + 100 * 8];
    float aligned[100], y[100];
    for (int i = 0; i < 100; i++)
        aligned[i] = (float)i - 50.5f;
    for (int d = 0; d < FAST_DTYPE_COUNT; d++) {
        _Alignas(8) unsigned char stored[100 * 8];
        float expected[100];
        fast__vector_convert(100, FAST_F32, aligned, (fast_dtype)d, stored, 1);
        fast__vector_convert(100, (fast_dtype)d, stored, FAST_F32, expected, 1);
        memcpy(bytes + 1, stored, sizeof stored);
        fast__vector_convert(100, (fast_dtype)d, bytes + 1, FAST_F32, y, 1);
        assert_memory_equal(y, expected, sizeof y);
    }
}

/* Many at once are what each is alone, to the bit: any bits, NaN of all kinds among them. */
static void check_alone(fast_dtype dtype)
{
    static uint32_t x[ALL];
    static uint16_t h[ALL];
    static float y[ALL];
    uint16_t half;
    float one;
    fast_rng rng;
    fast__rng_init(&rng, 7, FAST_PURPOSE_SYNTHETIC, 0, 0, 0);
    for (int i = 0; i < ALL; i++)
        x[i] = fast__rng_u32(&rng) | (i % 8 == 0 ? 0x7f800000 : 0);
    fast__vector_convert(ALL, FAST_F32, x, dtype, h, 0);
    for (int i = 0; i < ALL; i++) {
        fast__vector_convert(1, FAST_F32, &x[i], dtype, &half, 0);
        assert_int_equal(h[i], half);
        h[i] = (uint16_t)i;
    }
    fast__vector_convert(ALL, dtype, h, FAST_F32, y, 0);
    for (int i = 0; i < ALL; i++) {
        fast__vector_convert(1, dtype, &h[i], FAST_F32, &one, 0);
        assert_int_equal(bits_of(y[i]), bits_of(one));
    }
}

static void test_alone(void **state)
{
    (void)state;
    check_alone(FAST_F16);
    check_alone(FAST_BF16);
}

static void test_types(void **state)
{
    (void)state;
    static const size_t sizes[FAST_DTYPE_COUNT] = { 4, 2, 2, 1, 1, 4, 8, 8 };
    fast_dtype found = FAST_I8;
    for (int d = 0; d < FAST_DTYPE_COUNT; d++) {
        assert_int_equal(fast__dtype_size((fast_dtype)d), sizes[d]);
        assert_true(fast__dtype_find(fast__dtype_name((fast_dtype)d), &found));
        assert_int_equal(found, d);
    }
    found = FAST_I8;
    assert_false(fast__dtype_find("f32", &found));
    assert_false(fast__dtype_find("", &found));
    assert_int_equal(found, FAST_I8);
    assert_string_equal(fast__dtype_name(FAST_BF16), "BF16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16),       cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_bytes),     cmocka_unit_test(test_wide),
        cmocka_unit_test(test_unaligned), cmocka_unit_test(test_alone),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
