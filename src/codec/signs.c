/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs in words, and back to one of two values: what the codecs of one bit share (signs.h).
 *
 * Cost: a pass; with error feedback v is read, and the residual written, in the same one.
 */
#include "codec/signs.h"

#include "base/err.h"

enum { LINE = 16 }; /* floats of a cache line */

/* One word; m is known where this is inlined, but at the end. */
FAST_SIGNS_INLINE void put_word(int64_t m, const float *v, float up, float down, float *e,
                                uint8_t *out)
{
    const uint32_t word = fast__signs_of(v, m);

    memcpy(out, &word, sizeof word);
    if (!e)
        return;
    FAST_EACH
    for (int64_t j = 0; j < m; j++) { /* not from the word, which is ready only later */
        uint32_t bits;

        memcpy(&bits, v + j, sizeof bits);
        e[j] = v[j] - (bits >> 31 ? down : up);
    }
}

FAST_CLONES static void put(int64_t n, const float *v, const float *both, float *e,
                            const float *ahead, uint8_t *out)
{
    const float up = both ? both[0] : 0;
    const float down = both ? both[1] : 0;
    int64_t i = 0;

    for (; i + FAST_SIGNS <= n; i += FAST_SIGNS, out += sizeof(uint32_t)) {
        for (int64_t j = 0; j < FAST_SIGNS && ahead; j += LINE) {
            __builtin_prefetch(ahead + i + j);
            __builtin_prefetch(e + n + i + j, 1);
        }
        put_word(FAST_SIGNS, v + i, up, down, e ? e + i : NULL, out);
    }
    if (i < n)
        put_word(n - i, v + i, up, down, e ? e + i : NULL, out);
}

FAST_CLONES static void set(int64_t n, const uint8_t *in, const float both[2], float *y)
{
    const float up = both[0];
    const float down = both[1];

    for (int64_t i = 0; i < n; i += FAST_SIGNS, in += sizeof(uint32_t)) {
        const int64_t m = n - i < FAST_SIGNS ? n - i : FAST_SIGNS;
        uint32_t word;

        memcpy(&word, in, sizeof word);
        FAST_EACH
        for (int64_t j = 0; j < m; j++)
            y[i + j] = word >> j & 1 ? down : up;
    }
}

FAST_CLONES static void add(int64_t n, const uint8_t *in, const float both[2], float *y)
{
    const float up = both[0];
    const float down = both[1];

    for (int64_t i = 0; i < n; i += FAST_SIGNS, in += sizeof(uint32_t)) {
        const int64_t m = n - i < FAST_SIGNS ? n - i : FAST_SIGNS;
        uint32_t word;

        memcpy(&word, in, sizeof word);
        FAST_EACH
        for (int64_t j = 0; j < m; j++)
            y[i + j] += word >> j & 1 ? down : up;
    }
}

/* The clones above are local, since not every compiler gives a clone a name to link with. */

void fast__signs_put(int64_t n, const float *v, const float *both, float *e, const float *ahead,
                     uint8_t *out)
{
    FAST_ASSERT(!ahead || e);
    put(n, v, both, e, ahead, out);
}

void fast__signs_take(int64_t n, const uint8_t *in, const float both[2], bool sum, float *y)
{
    if (sum)
        add(n, in, both, y);
    else
        set(n, in, both, y);
}
