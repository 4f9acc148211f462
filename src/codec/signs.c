/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs in words, and back to one of two values: what the codecs of one bit share (signs.h).
 *
 * Cost: a pass; with error feedback v is read, and the residual written, in the same one.
 */
#include "codec/signs.h"

FAST_CLONES static void put(int64_t n, const float *v, const float *both, float *e, uint8_t *out)
{
    const float up = both ? both[0] : 0;
    const float down = both ? both[1] : 0;

    for (int64_t i = 0; i < n; i += FAST_SIGNS, out += sizeof(uint32_t)) {
        const int64_t m = n - i < FAST_SIGNS ? n - i : FAST_SIGNS;
        const uint32_t word = fast__signs_of(v + i, m);

        memcpy(out, &word, sizeof word);
        if (!e)
            continue;
        FAST_EACH
        for (int64_t j = 0; j < m; j++) { /* not from the word, which is ready only later */
            uint32_t bits;

            memcpy(&bits, v + i + j, sizeof bits);
            e[i + j] = v[i + j] - (bits >> 31 ? down : up);
        }
    }
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

void fast__signs_put(int64_t n, const float *v, const float *both, float *e, uint8_t *out)
{
    put(n, v, both, e, out);
}

void fast__signs_take(int64_t n, const uint8_t *in, const float both[2], bool sum, float *y)
{
    if (sum)
        add(n, in, both, y);
    else
        set(n, in, both, y);
}
