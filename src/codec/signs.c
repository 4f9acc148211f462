/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs in words, and back to one of two values: the kernels of 1-bit codecs (signs.h).
 *
 * A group is encoded in two passes, sums and signs. The first brings it to the cache, the second
 * finds it there and fetches the start of the next one, so that memory is busy in both. Cost: x and
 * the residual are read, and the residual is written, once.
 */
#include "codec/signs.h"

#include "base/err.h"
#include "tensor/wide.h"

enum { LINE = 16, LANES = 32 }; /* floats of a cache line, and partial sums */

/* Plain loops, for compilers to make vectors of. */
FAST_CLONES static void sum(bool all, int64_t n, const float *x, float *e, fast_signs_sums *out)
{
    float sums[LANES] = { 0 };
    float sizes[LANES] = { 0 };
    uint32_t signs[LANES] = { 0 };
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        FAST_EACH
        for (int j = 0; j < LANES; j++) {
            const float v = e ? x[i + j] + e[i + j] : x[i + j];
            uint32_t bits;

            if (e)
                e[i + j] = v;
            sizes[j] += __builtin_fabsf(v);
            if (all) {
                memcpy(&bits, &v, sizeof bits);
                signs[j] += bits >> 31;
                sums[j] += v;
            }
        }
    }
    for (; i < n; i++) {
        const float v = e ? x[i] + e[i] : x[i];

        if (e)
            e[i] = v;
        signs[i % LANES] += __builtin_signbitf(v) ? 1 : 0;
        sums[i % LANES] += v;
        sizes[i % LANES] += __builtin_fabsf(v);
    }
    for (int width = LANES / 2; width; width /= 2)
        for (int j = 0; j < width; j++) {
            sums[j] += sums[j + width];
            sizes[j] += sizes[j + width];
            signs[j] += signs[j + width];
        }
    *out = (fast_signs_sums){ sums[0], sizes[0], signs[0] };
}

/* Fetch the next words of x and e. Half a group ahead is best: from there on the processor predicts
 * the streams, and fetches more lines at once than by instructions. */
FAST_SIGNS_INLINE void fetch(const float *x, const float *e)
{
    for (int j = 0; j < FAST_SIGNS; j += LINE) {
        __builtin_prefetch(x + j);
        __builtin_prefetch(e + j);
    }
}

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

/* Write the signs of n elements, word by word; with e also the loss, and fetch the next group. */
FAST_CLONES static void put(int64_t n, const float *v, const float *both, float *e,
                            const float *ahead, uint8_t *out)
{
    const float up = both ? both[0] : 0;
    const float down = both ? both[1] : 0;
    int64_t i = 0;

    for (; i + FAST_SIGNS <= n; i += FAST_SIGNS, out += sizeof(uint32_t)) {
        if (ahead && i < n / 2)
            fetch(ahead + i, e + n + i);
        put_word(FAST_SIGNS, v + i, up, down, e ? e + i : NULL, out);
    }
    if (i < n)
        put_word(n - i, v + i, up, down, e ? e + i : NULL, out);
}

/* y = both[sign] or y += it; `add` is known where this is inlined. */
FAST_SIGNS_INLINE void take_words(int64_t n, const uint8_t *in, const float both[2], bool add,
                                  float *y)
{
    const float up = both[0];
    const float down = both[1];

    for (int64_t i = 0; i < n; i += FAST_SIGNS, in += sizeof(uint32_t)) {
        const int64_t m = n - i < FAST_SIGNS ? n - i : FAST_SIGNS;
        uint32_t word;

        memcpy(&word, in, sizeof word);
        FAST_EACH
        for (int64_t j = 0; j < m; j++) {
            const float v = word >> j & 1 ? down : up;

            y[i + j] = add ? y[i + j] + v : v;
        }
    }
}

/* Choose the loop by `add` once, outside of it. */
FAST_CLONES static void take_signs(int64_t n, const uint8_t *in, const float both[2], bool add,
                                   float *y)
{
    if (add)
        take_words(n, in, both, true, y);
    else
        take_words(n, in, both, false, y);
}

#ifdef FAST_HAS_WIDE
/* Lanes 0 to 15 and 16 to 31, folded in halves. */
FAST_WIDE static inline float fold(__m512 low, __m512 high)
{
    const __m512 x = _mm512_add_ps(low, high);
    const __m256 y = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));

    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(z, _mm_shuffle_ps(z, z, 1)));
}

/* v = x + e of a vector, into e, of the lanes that are there; 0 in the others. */
FAST_WIDE static inline __m512 take(const float *x, float *e, __mmask16 there)
{
    const __m512 v =
        _mm512_add_ps(_mm512_maskz_loadu_ps(there, x), _mm512_maskz_loadu_ps(there, e));

    _mm512_mask_storeu_ps(e, there, v);
    return v;
}

/* sum() with a residual in AVX-512: lanes 0 to 15 and 16 to 31 in two registers, as the plain
 * loop has them, so that the bits are equal. */
FAST_WIDE static void sum_wide(bool all, int64_t n, const float *x, float *e, fast_signs_sums *out)
{
    __m512 sum_low = _mm512_setzero_ps(), sum_high = sum_low, size_low = sum_low,
           size_high = sum_low;
    __m512i signs = _mm512_setzero_si512();

    for (int64_t i = 0; i < n; i += LANES) {
        __m512 low, high;

        if (i + LANES <= n) {
            low = _mm512_add_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(e + i));
            high = _mm512_add_ps(_mm512_loadu_ps(x + i + LINE), _mm512_loadu_ps(e + i + LINE));
            _mm512_storeu_ps(e + i, low);
            _mm512_storeu_ps(e + i + LINE, high);
        } else {
            const uint32_t there = (1u << (n - i)) - 1;

            low = take(x + i, e + i, (__mmask16)there);
            high = take(x + i + LINE, e + i + LINE, (__mmask16)(there >> LINE));
        }
        size_low = _mm512_add_ps(size_low, _mm512_abs_ps(low));
        size_high = _mm512_add_ps(size_high, _mm512_abs_ps(high));
        if (all) {
            sum_low = _mm512_add_ps(sum_low, low);
            sum_high = _mm512_add_ps(sum_high, high);
            signs = _mm512_add_epi32(signs, _mm512_srli_epi32(_mm512_castps_si512(low), 31));
            signs = _mm512_add_epi32(signs, _mm512_srli_epi32(_mm512_castps_si512(high), 31));
        }
    }
    out->size = fold(size_low, size_high);
    out->sum = fold(sum_low, sum_high);
    out->negative = all ? _mm512_reduce_add_epi32(signs) : 0;
}

/* Write whole words of a group with error feedback, and fetch the next group meanwhile. */
FAST_WIDE static void put_wide(int64_t n, const float *v, const float both[2], float *e,
                               const float *ahead, uint8_t *out)
{
    const __m512 up = _mm512_set1_ps(both[0]);
    const __m512 down = _mm512_set1_ps(both[1]);

    for (int64_t i = 0; i + FAST_SIGNS <= n; i += FAST_SIGNS, out += sizeof(uint32_t)) {
        const __m512 low = _mm512_loadu_ps(v + i);
        const __m512 high = _mm512_loadu_ps(v + i + LINE);
        const __mmask16 below = _mm512_movepi32_mask(_mm512_castps_si512(low));
        const __mmask16 above = _mm512_movepi32_mask(_mm512_castps_si512(high));
        const uint32_t word = (uint32_t)below | (uint32_t)above << LINE;

        if (ahead && i < n / 2)
            fetch(ahead + i, e + n + i);
        memcpy(out, &word, sizeof word);
        _mm512_storeu_ps(e + i, _mm512_sub_ps(low, _mm512_mask_blend_ps(below, up, down)));
        _mm512_storeu_ps(e + i + LINE, _mm512_sub_ps(high, _mm512_mask_blend_ps(above, up, down)));
    }
}
#endif

/* The clones above are local, since not every compiler gives a clone a name to link with. */

void fast__signs_sum(fast_signs_what what, int64_t n, const float *x, float *e,
                     fast_signs_sums *out)
{
    FAST_ASSERT(n > 0);
#ifdef FAST_HAS_WIDE
    if (e && fast__is_wide()) {
        if (what == FAST_SIGNS_ALL)
            sum_wide(true, n, x, e, out);
        else
            sum_wide(false, n, x, e, out);
        return;
    }
#endif
    sum(what == FAST_SIGNS_ALL, n, x, e, out);
}

void fast__signs_put(int64_t n, const float *v, const float *both, float *e, const float *ahead,
                     uint8_t *out)
{
    int64_t done = 0;

    FAST_ASSERT(!ahead || e);
#ifdef FAST_HAS_WIDE
    if (e && fast__is_wide()) {
        put_wide(n, v, both, e, ahead, out);
        done = n / FAST_SIGNS * FAST_SIGNS;
        ahead = NULL;
    }
#endif
    if (done < n)
        put(n - done, v + done, both, e ? e + done : NULL, ahead, out + fast__signs_size(done));
}

void fast__signs_take(int64_t n, const uint8_t *in, const float both[2], bool sum, float *y)
{
    take_signs(n, in, both, sum, y);
}
