/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the hash is XXH64, to the bit, on any alignment and length.
 * Method: values of xxhsum 0.8.1 and of python's xxhash for every branch: short, words, stripes.
 */
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
static void test_known_answers(void **state)
{
    (void)state;
    static const struct {
        size_t size;       /* of the first bytes of 7 i + 3 */
        uint64_t seed;     /* of the hash */
        uint64_t expected; /* by the original */
    } cases[] = {
        { 0, 0x0, 0xef46db3751d8e999 },   { 0, 0x9e3779b185ebca87, 0x6ec6d05f61c7e7a7 },
        { 1, 0x0, 0x1f25c8d0bc1f4bb6 },   { 1, 0x9e3779b185ebca87, 0xc9605b95df42dc9b },
        { 3, 0x0, 0x31d2363f52e564c9 },   { 3, 0x9e3779b185ebca87, 0x01e45ca3ec3eb0cc },
        { 4, 0x0, 0x9bb64b7d66ee9fda },   { 4, 0x9e3779b185ebca87, 0x37da6d964719cae7 },
        { 5, 0x0, 0xc7608efddb7051fe },   { 5, 0x9e3779b185ebca87, 0x7c6d558a0b5fa098 },
        { 7, 0x0, 0x9a7b149959ce60d8 },   { 7, 0x9e3779b185ebca87, 0xcab876a70dc46b71 },
        { 8, 0x0, 0xdab99d95c6f90092 },   { 8, 0x9e3779b185ebca87, 0x9468866ad01ed76f },
        { 11, 0x0, 0x7a52cc9457cf1a1f },  { 11, 0x9e3779b185ebca87, 0x32b3a55b01316dcc },
        { 12, 0x0, 0xd52e407833af5133 },  { 12, 0x9e3779b185ebca87, 0xee9735b901676a51 },
        { 15, 0x0, 0x1b47cb8243cc8e32 },  { 15, 0x9e3779b185ebca87, 0x55bff360c339f7a5 },
        { 16, 0x0, 0x434850232b787be2 },  { 16, 0x9e3779b185ebca87, 0x1537847d3b6d0609 },
        { 31, 0x0, 0xa2aa5f33cc4a6119 },  { 31, 0x9e3779b185ebca87, 0xe8cbf0e00f190c6e },
        { 32, 0x0, 0x23c3c17ef790fd97 },  { 32, 0x9e3779b185ebca87, 0x7ce1c68e13aae778 },
        { 33, 0x0, 0x50a7cfc7ba588784 },  { 33, 0x9e3779b185ebca87, 0x89d57d87d9f50a9d },
        { 39, 0x0, 0x880bbeea606e4b37 },  { 39, 0x9e3779b185ebca87, 0x59ee178392b0effb },
        { 63, 0x0, 0x5e3e54b431c7493c },  { 63, 0x9e3779b185ebca87, 0x542d1a3fc194a1cc },
        { 64, 0x0, 0x0eb64b3ef6eeb01f },  { 64, 0x9e3779b185ebca87, 0xf92fa17e1a94a799 },
        { 100, 0x0, 0xa61f8d4c170fe531 }, { 100, 0x9e3779b185ebca87, 0x9869d9ef85051be9 },
        { 101, 0x0, 0xbad4d3bf033bda4c }, { 101, 0x9e3779b185ebca87, 0xb3c8b9058de2ba80 },
    };
    unsigned char bytes[101], moved[109];
    for (int i = 0; i < 101; i++)
        bytes[i] = (unsigned char)(i * 7 + 3);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const uint64_t hash = fast__hash(bytes, cases[c].size, cases[c].seed);
        assert_true(hash == cases[c].expected);
        /* In blocks: whole stripes, then the rest. */
        fast_hash_sum sum;
        const size_t whole = cases[c].size / FAST_HASH_STRIPE * FAST_HASH_STRIPE;
        fast__hash_begin(&sum, cases[c].seed);
        for (size_t at = 0; at < whole; at += FAST_HASH_STRIPE)
            fast__hash_add(&sum, bytes + at, FAST_HASH_STRIPE);
        assert_true(fast__hash_end(&sum, bytes + whole, cases[c].size - whole) == hash);
        for (size_t shift = 1; shift < 8; shift++) {
            memcpy(moved + shift, bytes, cases[c].size);
            assert_true(fast__hash(moved + shift, cases[c].size, cases[c].seed) == hash);
        }
    }
    assert_true(fast__hash("abc", 3, 0) == 0x44bc2cf5ad770999);
    assert_true(fast__hash(NULL, 0, 0) == 0xef46db3751d8e999);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_known_answers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
