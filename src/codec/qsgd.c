/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qsgd: random levels (Alistarh et al. 2017). For each bucket, with s levels,
 *
 *     l_i = floor(s |v_i| / |v| + u_i),   q_i = |v| sign(v_i) l_i / s
 *
 * with |v| the bucket's 2-norm, or its largest magnitude (norm=max), and u_i in [0, 1) from the
 * key: the mean over keys is v. bits counts sign and level: s = 2^(bits - 1) - 1.
 *
 *     code=none    a bucket is its norm (float), then `bits` an element: the level, and above it
 *                  the sign; fields fill words of 32 bits
 *     code=elias   a bucket is its norm, then for each element whose level is not 0: the number of
 *                  zeros before it plus 1, its sign, its level, the numbers in Elias' gamma code;
 *                  the last run ends at the bucket's end. Buckets follow without gaps
 *
 * With the 2-norm of 512 elements most levels are 0 or 1, and coding pays. A bucket with an element
 * that is not finite is decoded to NaN.
 */
#include "codec/bits.h"
#include "codec/codec.h"
#include "codec/noise.h"
#include "tensor/clones.h"
#include "tensor/vector.h"

#include <math.h>

enum { BUCKET_MAX = 65536 };

typedef struct qsgd_config {
    int bits;       /* of sign and level: 0 is 2, 1 is 4, 2 is 8 */
    int64_t bucket; /* elements that share a norm */
    int norm;       /* 0 l2, 1 max */
    int code;       /* 0 none, 1 elias */
} qsgd_config;

static const fast_option options[] = {
    FAST_OPT_CHOICE(qsgd_config, bits, "4", "2|4|8", "bits of an element: sign and level"),
    FAST_OPT_INT(qsgd_config, bucket, "512", 1, BUCKET_MAX, "elements that share a norm"),
    FAST_OPT_CHOICE(qsgd_config, norm, "l2", "l2|max", "norm that the levels divide"),
    FAST_OPT_CHOICE(qsgd_config, code, "none", "none|elias",
                    "fields of equal length, or Elias' code"),
    FAST_OPT_END,
};

/* Bits of a field: sign and level. */
static int bits_of(const qsgd_config *c)
{
    return 2 << c->bits;
}

/* Without Elias' code the size does not depend on the values. */
static unsigned more(const void *config)
{
    return ((const qsgd_config *)config)->code == 0 ? FAST_CODEC_EXACT : 0;
}

/* s, the highest level. */
static int32_t top_of(const qsgd_config *c)
{
    return (1 << (bits_of(c) - 1)) - 1;
}

/* Bytes of a bucket of n elements in fields: whole words. */
static size_t fields_size(const qsgd_config *c, int64_t n)
{
    const int64_t in_word = 32 / bits_of(c);

    return sizeof(float) + (size_t)((n + in_word - 1) / in_word) * sizeof(uint32_t);
}

/* Bytes of a block in fields. */
static size_t fixed_size(const qsgd_config *c, int64_t count)
{
    const int64_t rest = count % c->bucket;

    return (size_t)(count / c->bucket) * fields_size(c, c->bucket) +
           (rest ? fields_size(c, rest) : 0);
}

/* Gamma codes of a run of 1 and of a level below 2^7, and a sign, take 1 + 13 + 1 bits; longer runs
 * are cheaper an element. */
static size_t bound(const void *config, const fast_block *block)
{
    const qsgd_config *c = config;
    const size_t buckets = (size_t)((block->count + c->bucket - 1) / c->bucket);

    if (c->code == 0)
        return fixed_size(c, block->count);
    return ((size_t)block->count * 16 + buckets * 64) / 8 + 8;
}

/* Levels and signs of a bucket, a byte each: the sign in bit 7. */
FAST_CLONES static void draw(int64_t n, const float *x, float factor, int32_t top, uint64_t key,
                             uint32_t first, uint8_t *out)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++) {
        const float u = fast__noise_uniform(key, first + (uint32_t)i);
        const int32_t level = (int32_t)(__builtin_fabsf(x[i]) * factor + u);
        uint32_t bits;

        memcpy(&bits, x + i, sizeof bits);
        out[i] = (uint8_t)((uint32_t)(level < top ? level : top) | (bits >> 31) << 7);
    }
}

/* draw(), and zeros for a bucket whose norm is 0. */
static void quantise(int64_t n, const float *x, float factor, int32_t top, uint64_t key,
                     uint32_t first, uint8_t *out)
{
    if (factor > 0)
        draw(n, x, factor, top, key, first, out);
    else
        memset(out, 0, (size_t)n);
}

/* Bytes of quantise() to fields of 4 bits, 8 a word, and of 2 bits, 16 a word. */
FAST_CLONES static void put_fields(int64_t n, int bits, const uint8_t *q, uint8_t *out)
{
    const int in_word = 32 / bits;

    for (int64_t i = 0; i < n; i += in_word, out += sizeof(uint32_t)) {
        const int64_t m = n - i < in_word ? n - i : in_word;
        uint32_t word = 0;

        for (int64_t j = 0; j < m; j++) {
            const uint32_t field = (q[i + j] & 0x7fu) | (uint32_t)(q[i + j] >> 7) << (bits - 1);

            word |= field << bits * j;
        }
        memcpy(out, &word, sizeof word);
    }
}

/* Two fields of 4 bits to a byte. */
FAST_CLONES static void put_nibbles(int64_t n, const uint8_t *q, uint8_t *out)
{
    FAST_EACH
    for (int64_t i = 0; i < n / 2; i++) {
        const unsigned low = q[2 * i];
        const unsigned high = q[2 * i + 1];

        out[i] = (uint8_t)((low & 7) | (low >> 4 & 8) | (high & 7) << 4 | (high & 0x80));
    }
}

#ifdef FAST_HAS_WIDE
/* quantise() and put_nibbles() in one; n is a multiple of 16. */
FAST_WIDE static void put_nibbles_wide(int64_t n, const float *x, float factor, int32_t top,
                                       uint64_t key, uint32_t first, uint8_t *out)
{
    const __m128i weights = _mm_set1_epi16(0x1001); /* 1 and 16: two fields to a byte */
    __m512i at = fast__wide_noise_begin(key, first);

    for (int64_t i = 0; i < n; i += FAST_WIDE_LANES, out += FAST_WIDE_LANES / 2) {
        const __m512 v = _mm512_loadu_ps(x + i);
        const __m512i noise = _mm512_srli_epi32(fast__wide_noise(key, &at), 8);
        const __m512 u = _mm512_mul_ps(_mm512_cvtepi32_ps(noise), _mm512_set1_ps(0x1p-24f));
        const __m512 part = _mm512_mul_ps(_mm512_abs_ps(v), _mm512_set1_ps(factor));
        const __m512i level = _mm512_cvttps_epi32(_mm512_add_ps(part, u));
        const __m512i least = _mm512_min_epi32(level, _mm512_set1_epi32(top));
        const __m512i field = _mm512_mask_add_epi32(
            least, _mm512_movepi32_mask(_mm512_castps_si512(v)), least, _mm512_set1_epi32(8));
        const __m128i pairs = _mm_maddubs_epi16(_mm512_cvtepi32_epi8(field), weights);

        _mm_storel_epi64((__m128i *)(void *)out, _mm_cvtepi16_epi8(pairs));
    }
}
#endif

/* Write a number of at least 1 in Elias' gamma code, at most 63 bits. */
static void put_gamma(fast_bit_writer *w, uint32_t value)
{
    const unsigned bits = 31 - (unsigned)__builtin_clz(value);

    /* `bits` zeros, then the value from its highest bit: written with the lowest bits first, the
     * highest bit comes first and the rest as they are. */
    fast__bits_put(w, UINT64_C(1) << bits, bits + 1);
    if (bits > 0)
        fast__bits_put(w, value, bits);
}

/* Read a number in gamma code; 1 and `bad` if more than 30 zeros lead it. */
static uint32_t get_gamma(fast_bit_reader *r)
{
    unsigned bits = 0;

    while (fast__bits_get(r, 1) == 0) {
        if (r->bad || ++bits > 30) {
            r->bad = true;
            return 1;
        }
    }
    return bits == 0 ? 1 : (uint32_t)(1u << bits | fast__bits_get(r, bits));
}

/* Write the runs, signs and levels of a bucket. */
static void put_elias(fast_bit_writer *w, int64_t n, const uint8_t *q)
{
    uint32_t run = 1;

    for (int64_t i = 0; i < n; i++) {
        if ((q[i] & 0x7f) == 0) {
            run++;
            continue;
        }
        put_gamma(w, run);
        fast__bits_put(w, q[i] >> 7, 1);
        put_gamma(w, q[i] & 0x7f);
        run = 1;
    }
    if (run > 1)
        put_gamma(w, run);
}

/* The bucket's norm; NaN if an element is not finite. */
static float norm_of(const qsgd_config *c, int64_t n, const float *x)
{
    if (c->norm == 1) {
        const float most = fast__vector_max_abs(n, x);

        return isfinite(most) ? most : NAN;
    }
    const double square = fast__vector_norm2(n, x); /* no square of a float is beyond a double */
    return isfinite(square) ? (float)sqrt(square) : NAN;
}

/* Write a bucket in fields; q is scratch. */
static void put_bucket(const qsgd_config *c, int64_t n, const float *x, float factor, uint64_t key,
                       uint32_t first, uint8_t *q, uint8_t *out)
{
    const int32_t top = top_of(c);

#ifdef FAST_HAS_WIDE
    if (bits_of(c) == 4 && n % FAST_WIDE_LANES == 0 && factor > 0 && fast__is_wide()) {
        put_nibbles_wide(n, x, factor, top, key, first, out);
        return;
    }
#endif
    quantise(n, x, factor, top, key, first, q);
    if (bits_of(c) == 4 && n % 8 == 0)
        put_nibbles(n, q, out);
    else
        put_fields(n, bits_of(c), q, out);
}

/* Bucket by bucket: the norm, the levels, their code. A norm that cannot divide sends zeros. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const qsgd_config *c = config;
    fast_bit_writer w = { .at = out };
    uint8_t q[BUCKET_MAX];

    for (int64_t i = 0; i < e->block.count; i += c->bucket) {
        const int64_t n = e->block.count - i < c->bucket ? e->block.count - i : c->bucket;
        const float *x = e->x + i;
        float norm = norm_of(c, n, x);
        float factor = (float)top_of(c) / norm;
        uint32_t word;

        if (!isfinite(factor)) { /* 0, too small to divide by, or not a number */
            norm = norm >= 0 ? 0 : norm;
            factor = 0;
        }
        memcpy(&word, &norm, sizeof word);
        if (c->code == 1) {
            quantise(n, x, factor, top_of(c), e->key, (uint32_t)i, q);
            fast__bits_put(&w, word, 32);
            put_elias(&w, n, q);
        } else {
            memcpy(w.at, &word, sizeof word);
            put_bucket(c, n, x, factor, e->key, (uint32_t)i, q, w.at + sizeof word);
            w.at += fields_size(c, n);
        }
    }
    return (size_t)(fast__bits_flush(&w) - out);
}

/* y = scale level with its sign, or y += it, a word at a time. */
FAST_CLONES static void take_fields(int64_t n, int bits, const uint8_t *in, float scale, bool add,
                                    float *y)
{
    const int in_word = 32 / bits;
    const uint32_t top = (1u << (bits - 1)) - 1;

    for (int64_t i = 0; i < n; i += in_word, in += sizeof(uint32_t)) {
        const int64_t m = n - i < in_word ? n - i : in_word;
        uint32_t word;

        memcpy(&word, in, sizeof word);
        FAST_EACH
        for (int64_t j = 0; j < m; j++) {
            const uint32_t field = word >> bits * j;
            const float v =
                (float)(int32_t)(field & top) * (field >> (bits - 1) & 1 ? -scale : scale);

            y[i + j] = add ? y[i + j] + v : v;
        }
    }
}

/* One bucket of Elias' code. */
static void take_elias(fast_bit_reader *r, int64_t n, int32_t top, float scale, bool add, float *y)
{
    const float zero = 0 * scale; /* NaN where the norm is */
    int64_t i = 0;

    while (i < n && !r->bad) {
        const int64_t run = (int64_t)get_gamma(r) - 1;

        if (run > n - i) {
            r->bad = true;
            return;
        }
        for (int64_t end = i + run; i < end; i++)
            y[i] = add ? y[i] + zero : zero;
        if (i == n || r->bad)
            return;
        const bool negative = fast__bits_get(r, 1) != 0;
        const uint32_t level = get_gamma(r);
        if (level > (uint32_t)top) {
            r->bad = true;
            return;
        }
        const float v = (float)level * (negative ? -scale : scale);
        y[i] = add ? y[i] + v : v;
        i++;
    }
}

/* Decode all buckets. Damage is remembered by the reader and reported once, at the end. */
static fast_err decode_elias(const qsgd_config *c, const fast_decoding *d)
{
    const int32_t top = top_of(c);
    fast_bit_reader r = { .at = d->in, .end = d->in + d->size };

    for (int64_t i = 0; i < d->block.count && !r.bad; i += c->bucket) {
        const int64_t n = d->block.count - i < c->bucket ? d->block.count - i : c->bucket;
        const uint32_t word = (uint32_t)fast__bits_get(&r, 32);
        float norm;

        memcpy(&norm, &word, sizeof norm);
        take_elias(&r, n, top, d->scale * norm / (float)top, d->mode == FAST_DECODE_ADD, d->y + i);
    }
    if (r.bad || r.at != r.end)
        return fast__fail(FAST_EFORMAT, "codec qsgd: %zu bytes are not a code of %lld elements",
                          d->size, (long long)d->block.count);
    return FAST_OK;
}

/* Decode buckets of fields, whose size is known, or of Elias' code. */
static fast_err decode(const void *config, const fast_decoding *d)
{
    const qsgd_config *c = config;
    const int32_t top = top_of(c);
    const uint8_t *at = d->in;

    if (c->code == 1)
        return decode_elias(c, d);
    for (int64_t i = 0; i < d->block.count; i += c->bucket) {
        const int64_t n = d->block.count - i < c->bucket ? d->block.count - i : c->bucket;
        float norm;

        memcpy(&norm, at, sizeof norm);
        take_fields(n, bits_of(c), at + sizeof norm, d->scale * norm / (float)top,
                    d->mode == FAST_DECODE_ADD, d->y + i);
        at += fields_size(c, n);
    }
    return FAST_OK;
}

const fast_codec fast__codec_qsgd = {
    .name = "qsgd",
    .summary = "random levels, a norm for each bucket, Elias' code on request",
    .options = options,
    .config_size = sizeof(qsgd_config),
    .traits = FAST_CODEC_UNBIASED,
    .more = more,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
