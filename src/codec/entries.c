/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries on the wire; entries.h has the format. A value that is sent as a half is off by 2^-11 of
 * itself at most, where it is between 2^-14 and 65504; larger ones become infinite, which is seen.
 *
 * Cost: k reads and writes all over the vector; decoding also fills it with zeros, which is most of
 * its time.
 */
#include "codec/entries.h"

#include "codec/bits.h"
#include "codec/select.h"
#include "tensor/vector.h"

enum { PIECE = 16384 }; /* floats that are cleared at once */

/* Bytes of a value on the wire. */
static size_t value_size(bool half)
{
    return half ? sizeof(uint16_t) : sizeof(float);
}

/* Return the bytes of k gaps within n elements at most, with a flag each: less than
 * fast__gaps_bound() for many gaps. A number g takes 1 + g / 128 bytes at most, and gaps with their
 * flags add up to 2 n. */
static size_t gaps_bound(int64_t n, int64_t k)
{
    const size_t each = fast__gaps_bound(k);
    const size_t all = (size_t)k + (size_t)n / 64 + 1;

    FAST_ASSERT(k >= 0 && k <= n);
    return each < all ? each : all;
}

size_t fast__entries_bound(int64_t n, int64_t k, bool half)
{
    return FAST_VARINT_MAX + gaps_bound(n, k) + (size_t)k * value_size(half);
}

size_t fast__entries_put(int64_t k, const uint32_t *index, bool half, float *v, uint8_t *out)
{
    uint8_t *at = fast__varint_put(out, (uint64_t)k);

    at += fast__gaps_put(k, index, NULL, at);
    for (int64_t i = 0; i < k; i++, at += value_size(half)) {
        float *value = &v[index[i]];
        float back = *value;

        if (half) {
            uint16_t bits; /* `at` may be odd */

            fast__vector_convert(1, FAST_F32, value, FAST_F16, &bits, 1);
            fast__vector_convert(1, FAST_F16, &bits, FAST_F32, &back, 1);
            memcpy(at, &bits, sizeof bits);
        } else {
            memcpy(at, value, sizeof *value);
        }
        *value = half ? *value - back : 0;
    }
    return (size_t)(at - out);
}

fast_err fast__entries_get(const char *name, const fast_decoding *d, bool half, uint32_t *index,
                           float *value, int64_t *count_out)
{
    const uint8_t *at = d->in;
    const uint8_t *const end = d->in + d->size;
    uint64_t k;

    if (!fast__varint_get(&at, end, &k) || k > (uint64_t)d->block.count ||
        !fast__gaps_get(&at, end, d->block.count, (int64_t)k, index, NULL) ||
        (size_t)(end - at) != (size_t)k * value_size(half))
        return fast__fail(FAST_EFORMAT, "codec %s: %zu bytes are not entries of %lld elements",
                          name, d->size, (long long)d->block.count);
    if (half)
        fast__vector_convert((int64_t)k, FAST_F16, at, FAST_F32, value, 1);
    else if (k > 0)
        memcpy(value, at, (size_t)k * sizeof *value);
    *count_out = (int64_t)k;
    return FAST_OK;
}

int64_t fast__entries_count(double ratio, int64_t n)
{
    const int64_t k = (int64_t)(ratio * (double)n + 0.5);

    return k < 1 ? 1 : k > n ? n : k;
}

/* Indices, values, and a byte for each that pairs() may use. */
size_t fast__entries_scratch(int64_t n)
{
    return (size_t)n * (sizeof(uint32_t) + sizeof(float) + 1);
}

/* y = scale value at the indices, 0 elsewhere. The vector is cleared piece by piece, each right
 * before its entries, which find it in the cache. */
static void set_entries(const fast_decoding *d, int64_t k, const uint32_t *index,
                        const float *value)
{
    const int64_t n = d->block.count;
    int64_t i = 0;

    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t end = n - at < PIECE ? n : at + PIECE;

        memset(d->y + at, 0, (size_t)(end - at) * sizeof *d->y);
        for (; i < k && index[i] < end; i++)
            d->y[index[i]] = 0 + d->scale * value[i]; /* 0, where it is -0 */
    }
}

fast_err fast__entries_decode(const fast_codec *codec, const void *config, const fast_decoding *d)
{
    const int64_t n = d->block.count;
    uint32_t *index = d->scratch;
    float *value = (float *)(void *)(index + n);
    fast_decoding rest = *d;
    int64_t k;

    rest.scratch = value + n;
    FAST_TRY(codec->pairs(config, &rest, index, value, &k));
    FAST_ASSERT(k >= 0 && k <= n);
    if (d->mode == FAST_DECODE_SET)
        set_entries(d, k, index, value);
    else
        for (int64_t i = 0; i < k; i++)
            d->y[index[i]] += d->scale * value[i];
    return FAST_OK;
}

size_t fast__sides_bound(int64_t n, size_t head)
{
    return head + sizeof(uint32_t) + gaps_bound(n, n);
}

uint8_t *fast__sides_put(int64_t k, const uint32_t *index, const uint8_t *flags, uint8_t *at)
{
    const uint32_t count = (uint32_t)k;

    memcpy(at, &count, sizeof count);
    at += sizeof count;
    return at + fast__gaps_put(k, index, flags, at);
}

fast_err fast__sides_pairs(const char *name, const fast_decoding *d, size_t head,
                           const float side[2], uint32_t *index, float *value, int64_t *count_out)
{
    const uint8_t *const end = d->in + d->size;
    uint8_t *flags = d->scratch;
    uint32_t k = UINT32_MAX;

    if (d->size >= head + sizeof k)
        memcpy(&k, d->in + head, sizeof k);
    const uint8_t *at = k == UINT32_MAX ? end : d->in + head + sizeof k;
    if (k > d->block.count || !fast__gaps_get(&at, end, d->block.count, k, index, flags) ||
        at != end)
        return fast__fail(FAST_EFORMAT, "codec %s: %zu bytes are not signs of %lld elements", name,
                          d->size, (long long)d->block.count);
    for (int64_t i = 0; i < k; i++)
        value[i] = side[flags[i]];
    *count_out = k;
    return FAST_OK;
}
