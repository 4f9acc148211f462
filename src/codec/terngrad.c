/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terngrad: three random levels (Wen et al. 2017):
 *
 *     s = max |v_k| of the layer,   q_i = s sign(v_i) b_i,   P(b_i = 1) = |v_i| / s
 *
 * The mean over keys is v. Since one large element makes all others rare, v is first clipped at c
 * standard deviations of the layer (clip; 0: not at all, then it is unbiased). With share=yes
 * the workers of a sum agree on the largest s among them: the sum of P of them is then a whole
 * number from -P to P times s, and needs few bits. Each still clips by its own deviation.
 *
 *     block   s (float), then with pack=bits 2 bits an element: bit 0 tells whether b is 1, bit 1
 *             the sign; with pack=base3 5 elements a byte, d_0 + 3 d_1 + ... + 81 d_4, with
 *             digits 0, 1 and 2 for 0, +s and -s
 *
 * 16 or 20 times smaller. A block with an element that is not finite is decoded to NaN.
 */
#include "codec/codec.h"
#include "codec/noise.h"
#include "tensor/clones.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { WORD = 16, TRITS = 5, BYTES = 243 };

static const float ONE = 0x1p24f; /* above all draws; a clipped element may be beyond any integer */

typedef struct tern_config {
    double clip; /* standard deviations; 0: none */
    int pack;    /* 0 bits, 1 base3 */
    bool share;  /* all workers of a sum have one scale */
} tern_config;

static const fast_option options[] = {
    FAST_OPT_REAL(tern_config, clip, "2.5", 0, 1e6,
                  "largest magnitude, in standard deviations of the layer; 0: no limit"),
    FAST_OPT_CHOICE(tern_config, pack, "bits", "bits|base3",
                    "2 bits an element, or 5 elements a byte"),
    FAST_OPT_BOOL(tern_config, share, "no",
                  "workers agree on the largest scale of a layer, so that sums are exact"),
    FAST_OPT_END,
};

/* Bytes of `count` elements behind the scale, packed by bits or by digits. */
static size_t size_of(const tern_config *c, int64_t count)
{
    const int64_t packed = c->pack == 0 ? (count + WORD - 1) / WORD * (int64_t)sizeof(uint32_t)
                                        : (count + TRITS - 1) / TRITS;

    return sizeof(float) + (size_t)packed;
}

/* The size does not depend on the values. */
static size_t bound(const void *config, const fast_block *block)
{
    return size_of(config, block->count);
}

/* Clipping biases the mean. */
static unsigned more(const void *config)
{
    const tern_config *c = config;

    return (c->clip > 0 ? 0 : FAST_CODEC_UNBIASED) | (c->share ? FAST_CODEC_SHARES : 0);
}

/* The largest magnitude after clipping; NaN where an element is not finite. */
static float scale_of(const void *config, int64_t n, const float *x)
{
    const tern_config *c = config;
    float most;
    const double square = fast__vector_norm2_max(n, x, &most);

    if (!isfinite(most))
        return NAN;
    if (c->clip > 0) {
        /* Gradients of a layer have a mean close to 0: their root mean square is used. */
        const double limit = c->clip * sqrt(square / (double)n);

        if ((double)most > limit)
            most = (float)limit;
    }
    return most;
}

/* Bit 0: not zero; bit 1: negative. A draw below 2^24 |v| / s, where |v| ends at top s / 2^24. */
static inline __attribute__((always_inline)) uint32_t draw(float x, float inverse, float top,
                                                           uint64_t key, uint32_t i)
{
    uint32_t bits;
    const float part = __builtin_fabsf(x) * inverse;
    const int32_t threshold = (int32_t)(part < top ? part : top);
    const int32_t noise = (int32_t)(fast__noise(key, i) >> 8);

    memcpy(&bits, &x, sizeof bits);
    return (uint32_t)(noise < threshold) | (bits >> 31) << 1;
}

/* From element i on. */
FAST_CLONES static void put_bits(int64_t i, int64_t n, const float *x, float inverse, float top,
                                 uint64_t key, uint8_t *out)
{
    for (; i + WORD <= n; i += WORD, out += sizeof(uint32_t)) {
        uint32_t codes[WORD];
        uint32_t word = 0;

        for (int j = 0; j < WORD; j++)
            codes[j] = draw(x[i + j], inverse, top, key, (uint32_t)i + (uint32_t)j) << 2 * j;
        for (int j = 0; j < WORD; j++)
            word |= codes[j];
        memcpy(out, &word, sizeof word);
    }
    if (i < n) {
        uint32_t word = 0;

        for (int j = 0; i + j < n; j++)
            word |= draw(x[i + j], inverse, top, key, (uint32_t)i + (uint32_t)j) << 2 * j;
        memcpy(out, &word, sizeof word);
    }
}

#ifdef FAST_HAS_WIDE
/* Whole words. */
FAST_WIDE static void put_bits_wide(int64_t n, const float *x, float inverse, float top,
                                    uint64_t key, uint8_t *out)
{
    const __m512 one = _mm512_set1_ps(top);
    __m512i at = fast__wide_noise_begin(key, 0);

    for (int64_t i = 0; i + WORD <= n; i += WORD, out += sizeof(uint32_t)) {
        const __m512 v = _mm512_loadu_ps(x + i);
        const __m512 part = _mm512_mul_ps(_mm512_abs_ps(v), _mm512_set1_ps(inverse));
        const __m512i threshold = _mm512_cvttps_epi32(_mm512_min_ps(part, one));
        const __m512i noise = _mm512_srli_epi32(fast__wide_noise(key, &at), 8);
        const uint32_t drawn = _mm512_cmplt_epi32_mask(noise, threshold);
        const uint32_t signs = _mm512_movepi32_mask(_mm512_castps_si512(v));
        const uint32_t word = _pdep_u32(drawn, 0x55555555) | _pdep_u32(signs, 0xaaaaaaaa);

        memcpy(out, &word, sizeof word);
    }
}
#endif

/* The five digits' codes of a byte, so that a loop over elements may stay simple. */
FAST_CLONES static void put_trits(int64_t n, const float *x, float inverse, float top, uint64_t key,
                                  uint8_t *out)
{
    static const uint8_t weights[TRITS] = { 1, 3, 9, 27, 81 };

    for (int64_t i = 0; i < n; i += TRITS) {
        uint32_t byte = 0;

        for (int j = 0; j < TRITS && i + j < n; j++) {
            const uint32_t code = draw(x[i + j], inverse, top, key, (uint32_t)i + (uint32_t)j);

            byte += weights[j] * (code & 1 ? 1 + (code >> 1) : 0);
        }
        *out++ = (uint8_t)byte;
    }
}

/* The scale, then the drawn codes. A scale that is 0 or cannot divide sends zeros, one that is
 * not finite NaN. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const tern_config *c = config;
    const int64_t n = e->block.count;
    const float own = scale_of(c, n, e->x);
    const float scale = e->shared == 0 || !isfinite(own) ? own : e->shared;
    const float inverse = 0x1p24f / scale;
    const float top = scale == own ? ONE : fminf(own * inverse, ONE);
    const size_t size = size_of(c, n);

    memcpy(out, &scale, sizeof scale);
    if (!(scale > 0) || !isfinite(inverse)) {
        const float none = scale > 0 ? 0 : scale; /* too small to divide by */

        memcpy(out, &none, sizeof none);
        memset(out + sizeof scale, 0, size - sizeof scale);
    } else if (c->pack == 0) {
        int64_t done = 0;

#ifdef FAST_HAS_WIDE
        if (fast__is_wide()) {
            put_bits_wide(n, e->x, inverse, top, e->key, out + sizeof scale);
            done = n / WORD * WORD;
        }
#endif
        put_bits(done, n, e->x, inverse, top, e->key, out + size_of(c, done));
    } else {
        put_trits(n, e->x, inverse, top, e->key, out + sizeof scale);
    }
    return size;
}

/* y = 0 or +-scale, or y += it, 16 elements a word. */
FAST_CLONES static void take_bits(int64_t n, const uint8_t *in, float scale, bool add, float *y)
{
    for (int64_t i = 0; i < n; i += WORD, in += sizeof(uint32_t)) {
        const int64_t m = n - i < WORD ? n - i : WORD;
        uint32_t word;

        memcpy(&word, in, sizeof word);
        FAST_EACH
        for (int64_t j = 0; j < m; j++) {
            const uint32_t code = word >> 2 * j;
            const float v = (float)(code & 1) * (code & 2 ? -scale : scale);

            y[i + j] = add ? y[i + j] + v : v;
        }
    }
}

/* y = 0 or +-scale, or y += it, 5 elements a byte. FAST_EFORMAT for a byte above 242. */
static fast_err take_trits(int64_t n, const uint8_t *in, float scale, bool add, float *y)
{
    const float values[3] = { 0 * scale, scale, -scale };

    for (int64_t i = 0; i < n; i += TRITS) {
        unsigned byte = *in++;

        if (byte >= BYTES)
            return fast__fail(FAST_EFORMAT, "codec terngrad: a byte of %u is not five digits",
                              byte);
        for (int64_t j = i; j < n && j < i + TRITS; j++, byte /= 3)
            y[j] = add ? y[j] + values[byte % 3] : values[byte % 3];
    }
    return FAST_OK;
}

/* Multiply the scale in, then unpack. */
static fast_err decode(const void *config, const fast_decoding *d)
{
    const tern_config *c = config;
    const bool add = d->mode == FAST_DECODE_ADD;
    float scale;

    memcpy(&scale, d->in, sizeof scale);
    scale *= d->scale;
    if (c->pack == 1)
        return take_trits(d->block.count, d->in + sizeof scale, scale, add, d->y);
    take_bits(d->block.count, d->in + sizeof scale, scale, add, d->y);
    return FAST_OK;
}

const fast_codec fast__codec_terngrad = {
    .name = "terngrad",
    .summary = "three random levels, a scale for each layer",
    .options = options,
    .config_size = sizeof(tern_config),
    .traits = FAST_CODEC_LAYERS | FAST_CODEC_PLAIN | FAST_CODEC_EXACT,
    .more = more,
    .bound = bound,
    .encode = encode,
    .decode = decode,
    .scale = scale_of,
};
