/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of samples that are read in blocks: two permutations with random access, one of blocks
 * and one of the samples of a window.
 *
 *   places of blocks    | 4 | 1 | 6 | 0 | 3 | 5 | 2 | last |     permutation of this pass
 *   windows of 3        |     0     |     1     |     2    |     each shuffled by itself
 *
 * How well it mixes: two samples of different blocks are in one window with probability about
 * window / blocks, anew in each pass. Cost: two permutations a sample, as many as a set in memory
 * has, plus one.
 *
 * A function of (seed, pass, position) alone, as the shuffle of sets in memory is: workers need not
 * agree on anything, and a resumed run needs no position.
 */
#include "base/rng.h"
#include "data/rows.h"

/* Keys that make the permutations independent of each other. */
static const uint64_t block_key = 0xd1b54a32d192ed03u;
static const uint64_t window_key = 0x9e3779b97f4a7c15u;

/* Return the number of blocks; the last one may be incomplete. */
static int64_t block_count(const fast_window_order *o)
{
    return (o->count + o->block - 1) / o->block;
}

/* The last window may have fewer blocks. */
int64_t fast__window_count(const fast_window_order *o)
{
    FAST_ASSERT(o->count > 0 && o->block > 0 && o->window > 0);
    return (block_count(o) + o->window - 1) / o->window;
}

/* Only whole blocks change places: an incomplete one would shift all that follow. */
int64_t fast__window_block(const fast_window_order *o, uint64_t seed, uint64_t epoch, int64_t place)
{
    const int64_t whole = o->count / o->block;
    FAST_ASSERT(place >= 0 && place < block_count(o));
    if (place >= whole || fast__window_count(o) == 1)
        return place;
    return (int64_t)fast__rng_permute(seed + block_key, FAST_PURPOSE_SHUFFLE, epoch,
                                      (uint64_t)whole, (uint64_t)place);
}

/* Which window, where in it, then which block that place has. */
int64_t fast__window_sample(const fast_window_order *o, uint64_t seed, uint64_t epoch,
                            int64_t position)
{
    FAST_ASSERT(position >= 0 && position < o->count);
    if (fast__window_count(o) == 1)
        return (int64_t)fast__rng_permute(seed, FAST_PURPOSE_SHUFFLE, epoch, (uint64_t)o->count,
                                          (uint64_t)position);
    const int64_t span = o->block * o->window;
    const int64_t window = position / span;
    const int64_t start = window * span;
    const int64_t size = o->count - start < span ? o->count - start : span;
    const int64_t at =
        (int64_t)fast__rng_permute(seed + window_key * (uint64_t)(window + 1), FAST_PURPOSE_SHUFFLE,
                                   epoch, (uint64_t)size, (uint64_t)(position - start));
    const int64_t block = fast__window_block(o, seed, epoch, window * o->window + at / o->block);
    return block * o->block + at % o->block;
}
