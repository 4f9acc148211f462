/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"

/*
 * Entries on the wire: what the codecs that send some elements as they are have in common.
 *
 *     block   k (variable length), the gaps between indices (select.h), then k values, float or
 *             half
 */

/* Bytes of k entries of n elements at most. */
size_t fast__entries_bound(int64_t n, int64_t k, bool half);

/* Bytes of k gaps within n elements at most, with a flag each: less than fast__gaps_bound() where
 * the gaps are many, because they add up to n. */
size_t fast__entries_gaps_bound(int64_t n, int64_t k);

/* Write v[index[i]], and take from v what was sent: 0 is left, or what a half has lost. Bytes. */
size_t fast__entries_put(int64_t k, const uint32_t *index, bool half, float *v, uint8_t *out);

/* The entries of an encoding, as pairs() of a codec of this name. FAST_EFORMAT. */
fast_err fast__entries_get(const char *name, const fast_decoding *d, bool half, uint32_t *index,
                           float *value, int64_t *count_out);

/* Scratch that decode needs for n elements, and y = scale d or y += scale d. FAST_EFORMAT. */
size_t fast__entries_scratch(int64_t n);
fast_err fast__entries_decode(const char *name, const fast_decoding *d, bool half);

/* y += scale value at the indices; y = 0 before where that is the mode. */
void fast__entries_spread(const fast_decoding *d, int64_t k, const uint32_t *index,
                          const float *value);

/* Likewise for codecs that send indices and signs alone: `head` bytes of the codec's own, k
 * (32 bits), then gaps with the sign as the flag (1: negative). FAST_EFORMAT. */
size_t fast__sides_bound(int64_t n, size_t head);
uint8_t *fast__sides_put(int64_t k, const uint32_t *index, const uint8_t *flags, uint8_t *at);
fast_err fast__sides_get(const char *name, const fast_decoding *d, size_t head, uint32_t *index,
                         uint8_t *flags, int64_t *count_out);
/* The entries with side[flag] for each, as pairs() of a codec of this name. */
fast_err fast__sides_pairs(const char *name, const fast_decoding *d, size_t head,
                           const float side[2], uint32_t *index, float *value, int64_t *count_out);
/* Decode with value[flag] for each; with the scratch of entries. */
fast_err fast__sides_decode(const char *name, const fast_decoding *d, size_t head,
                            const float value[2]);
