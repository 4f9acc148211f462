/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Return XXH64 of `size` bytes: identifies parameters and plans; not for security. */
uint64_t fast__hash(const void *bytes, size_t size, uint64_t seed);

/* A hash of bytes that come in blocks: the same as that of all of them. Every block but the last is
 * a multiple of FAST_HASH_STRIPE bytes. */
enum { FAST_HASH_STRIPE = 32 };
typedef struct fast_hash_sum {
    uint64_t sums[4]; /* of the words so far */
    uint64_t seed;    /* as in fast__hash() */
    uint64_t size;    /* bytes so far */
} fast_hash_sum;
void fast__hash_begin(fast_hash_sum *hash, uint64_t seed);
void fast__hash_add(fast_hash_sum *hash, const void *bytes, size_t size);
/* Add the last block, of any size, and return the hash. */
uint64_t fast__hash_end(fast_hash_sum *hash, const void *bytes, size_t size);
