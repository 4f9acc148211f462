/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"

/*
 * Entries on the wire: the format of codecs that send some elements exactly.
 *
 *     block   k (variable length), the gaps between indices (select.h), then k values, float or
 *             half
 */

/* Return the bytes of k entries of n elements at most. */
size_t fast__entries_bound(int64_t n, int64_t k, bool half);

/* Write v[index[i]] and subtract it from v, which leaves 0 or the rounding error of a half. Return
 * the bytes written. */
size_t fast__entries_put(int64_t k, const uint32_t *index, bool half, float *v, uint8_t *out);

/* The entries of an encoding, as pairs() of a codec of this name. FAST_EFORMAT. */
fast_err fast__entries_get(const char *name, const fast_decoding *d, bool half, uint32_t *index,
                           float *value, int64_t *count_out);

/* Return the scratch that decoding by entries needs for n elements. */
size_t fast__entries_scratch(int64_t n);
/* y = scale d or y += scale d, from the pairs() of a codec. FAST_EFORMAT. */
fast_err fast__entries_decode(const fast_codec *codec, const void *config, const fast_decoding *d);

/* For codecs that send indices and signs alone: `head` bytes of the codec's own, k (32 bits), then
 * gaps with the sign as the flag (1: negative). */
size_t fast__sides_bound(int64_t n, size_t head);
uint8_t *fast__sides_put(int64_t k, const uint32_t *index, const uint8_t *flags, uint8_t *at);
/* The entries with side[flag] for each, as pairs() of a codec of this name. FAST_EFORMAT. */
fast_err fast__sides_pairs(const char *name, const fast_decoding *d, size_t head,
                           const float side[2], uint32_t *index, float *value, int64_t *count_out);

/* Return how many of n elements a fraction of them is: rounded, at least 1. */
int64_t fast__entries_count(double ratio, int64_t n);
