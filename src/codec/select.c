/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selecting elements by their magnitude, and their indices as gaps; select.h has the idea.
 *
 * Without their sign the bits of floats are ordered like the numbers, with NaN above all: keys are
 * whole numbers of 31 bits. The k-th largest of some is found digit by digit, 8 bits at a time,
 * by counting. The threshold of a sample of s elements out of n is its r-th largest key with
 *
 *     r = m + 4 sqrt(m) + 8,   m = k s / n
 *
 * which four standard deviations make too low to miss any of the k in all but one of 30,000 tries;
 * then everything is collected and counted instead.
 */
#include "codec/select.h"

#include "codec/bits.h"
#include "codec/noise.h"
#include "tensor/clones.h"

#include <math.h>

enum {
    SAMPLE_MIN = 4096,
    SAMPLE_MAX = 65536,
    DRAWN_MIN = 1024,
    WORD = 32,
    DIGIT = 8,
    DIGITS = 1 << DIGIT
};

size_t fast__select_scratch(int64_t n)
{
    return ((size_t)n * 2 + SAMPLE_MAX) * sizeof(uint32_t);
}

/* The bits without the sign: ordered like the magnitudes, NaN above all. */
static uint32_t key_of(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    return bits & 0x7fffffff;
}

/* The k-th largest of n keys, from 1. */
static uint32_t kth_largest(int64_t n, int64_t k, const uint32_t *keys)
{
    uint32_t prefix = 0;
    uint32_t mask = 0;

    for (int shift = 32 - DIGIT; shift >= 0; shift -= DIGIT) {
        int64_t counts[DIGITS] = { 0 };
        int digit = DIGITS - 1;

        for (int64_t i = 0; i < n; i++)
            if ((keys[i] & mask) == prefix)
                counts[keys[i] >> shift & (DIGITS - 1)]++;
        while (digit > 0 && counts[digit] < k)
            k -= counts[digit--];
        prefix |= (uint32_t)digit << shift;
        mask |= (uint32_t)(DIGITS - 1) << shift;
    }
    return prefix;
}

/* v += x unless x is NULL; return a bit for each of 32 elements whose key is at least `limit`. */
static inline __attribute__((always_inline)) uint32_t look(const float *x, float *v, uint32_t limit)
{
    uint32_t bits[WORD];
    uint32_t word = 0;

    if (x) {
        FAST_EACH
        for (int j = 0; j < WORD; j++)
            v[j] += x[j];
    }
    memcpy(bits, v, sizeof bits);
    for (int j = 0; j < WORD; j++)
        bits[j] = (uint32_t)((bits[j] & 0x7fffffff) >= limit) << j;
    for (int j = 0; j < WORD; j++)
        word |= bits[j];
    return word;
}

/* Write the indices of all keys of at least `limit`, ascending; return their number. */
FAST_CLONES static int64_t collect(int64_t n, uint32_t limit, const float *x, float *v,
                                   uint32_t *index)
{
    int64_t count = 0;
    int64_t i = 0;

    for (; i + WORD <= n; i += WORD)
        for (uint32_t word = look(x ? x + i : NULL, v + i, limit); word; word &= word - 1)
            index[count++] = (uint32_t)i + (uint32_t)__builtin_ctz(word);
    for (; i < n; i++) {
        if (x)
            v[i] += x[i];
        if (key_of(v[i]) >= limit)
            index[count++] = (uint32_t)i;
    }
    return count;
}

/* Return the key that `rank` of `size` elements of v + x reach, drawn one from each stretch. */
static uint32_t sample_key(int64_t n, int64_t size, int64_t rank, uint64_t key, const float *x,
                           const float *v, uint32_t *sample)
{
    const int64_t stride = n / size;

    for (int64_t i = 0; i < size; i++) {
        const int64_t at = i * stride + (int64_t)(fast__noise(key, (uint32_t)i) % (uint32_t)stride);

        sample[i] = key_of(x ? v[at] + x[at] : v[at]);
    }
    return kth_largest(size, rank, sample);
}

/* Return a threshold that k of n elements of v + x reach, most likely a few more. */
static uint32_t guess(int64_t n, int64_t k, uint64_t key, const float *x, const float *v,
                      uint32_t *sample)
{
    int64_t size = n / 256;

    size = size < SAMPLE_MIN ? SAMPLE_MIN : size > SAMPLE_MAX ? SAMPLE_MAX : size;
    const double share = (double)k * (double)size / (double)n;
    const int64_t rank = (int64_t)(share + 4 * sqrt(share) + 8);
    if (n < 2 * SAMPLE_MIN || rank >= size)
        return 0;
    return sample_key(n, size, rank, key, x, v, sample);
}

/* Leave the k largest of index[count] and return k; the keys of all are in the scratch behind. */
static int64_t leave_largest(int64_t k, const float *v, int64_t count, uint32_t *index,
                             uint32_t *keys)
{
    int64_t equal = k; /* number of elements at the limit that are selected: the first ones */
    int64_t selected = 0;

    for (int64_t i = 0; i < count; i++)
        keys[i] = key_of(v[index[i]]);
    const uint32_t limit = kth_largest(count, k, keys);
    for (int64_t i = 0; i < count; i++)
        equal -= keys[i] > limit;
    for (int64_t i = 0; i < count; i++)
        if (keys[i] > limit || (keys[i] == limit && equal-- > 0))
            index[selected++] = index[i];
    FAST_ASSERT(selected == k);
    return selected;
}

const uint32_t *fast__select_top(int64_t n, int64_t k, uint64_t key, const float *x, float *v,
                                 void *scratch)
{
    uint32_t *index = scratch;
    uint32_t *keys = index + n;
    uint32_t *sample = keys + n;

    FAST_ASSERT(k >= 1 && k <= n);
    int64_t count = collect(n, guess(n, k, key, x, v, sample), x, v, index);
    if (count < k)
        count = collect(n, 0, NULL, v, index);
    if (count > k)
        leave_largest(k, v, count, index, keys);
    return index;
}

const uint32_t *fast__select_sampled(int64_t n, int64_t k, uint64_t key, const float *x, float *v,
                                     void *scratch, int64_t *count_out)
{
    uint32_t *index = scratch;
    uint32_t *keys = index + n;
    int64_t size = n / 100;

    FAST_ASSERT(k >= 1 && k <= n);
    size = size < DRAWN_MIN ? DRAWN_MIN : size > SAMPLE_MAX ? SAMPLE_MAX : size;
    size = size < n ? size : n;
    const int64_t rank = (int64_t)((double)k * (double)size / (double)n);
    const uint32_t limit = sample_key(n, size, rank > 1 ? rank : 1, key, x, v, keys + n);
    const int64_t count = collect(n, limit, x, v, index);
    *count_out = count > k ? leave_largest(k, v, count, index, keys) : count;
    return index;
}

const uint32_t *fast__select_above(int64_t n, float limit, const float *x, float *v, void *scratch,
                                   int64_t *count_out)
{
    FAST_ASSERT(limit >= 0);
    *count_out = collect(n, key_of(limit), x, v, scratch);
    return scratch;
}

size_t fast__gaps_bound(int64_t k)
{
    return (size_t)k * 5; /* 32 bits and a flag */
}

size_t fast__gaps_put(int64_t k, const uint32_t *index, const uint8_t *flags, uint8_t *out)
{
    uint8_t *at = out;
    uint32_t next = 0;

    for (int64_t i = 0; i < k; i++) {
        const uint64_t gap = index[i] - next;

        at = fast__varint_put(at, flags ? gap << 1 | flags[i] : gap);
        next = index[i] + 1;
    }
    return (size_t)(at - out);
}

bool fast__gaps_get(const uint8_t **at, const uint8_t *end, int64_t n, int64_t k, uint32_t *index,
                    uint8_t *flags)
{
    uint64_t next = 0;

    for (int64_t i = 0; i < k; i++) {
        uint64_t gap;

        if (!fast__varint_get(at, end, &gap))
            return false;
        if (flags) {
            flags[i] = (uint8_t)(gap & 1);
            gap >>= 1;
        }
        if (gap >= (uint64_t)n || next + gap >= (uint64_t)n)
            return false;
        index[i] = (uint32_t)(next + gap);
        next += gap + 1;
    }
    return true;
}
