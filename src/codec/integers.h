/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"

/*
 * Integers of 1 or 2 bytes, low byte first, and levels of 1, 2, 4 or 8 bits: the kernels of codecs
 * with fixed steps. Stochastic rounding takes floor(v + u), u in [0, 1) from the key and the
 * element's number, so that the mean over keys is v.
 */

/* q = round(factor x) in `bytes` bytes each, to the nearest (ties to even), or stochastically.
 * Numbers saturate at +-(2^(8 bytes - 1) - 1); an element that is not finite becomes the number
 * below. `first` is the number of x[0]. */
void fast__integers_put(int64_t n, int bytes, const float *x, float factor, bool random,
                        uint64_t key, uint32_t first, uint8_t *out);
/* y = step q or y += step q; the number for elements that are not finite gives NaN. */
void fast__integers_take(int64_t n, int bytes, const uint8_t *in, float step, fast_decode_mode mode,
                         float *y);

/* Return the bytes of n levels: they fill words of 32 bits, the first in the lowest bits. */
size_t fast__levels_size(int64_t n, int bits);
/* l = floor((x - low) factor + u), from 0 to 2^bits - 1. All x are finite. */
void fast__levels_put(int64_t n, int bits, const float *x, float low, float factor, uint64_t key,
                      uint32_t first, uint8_t *out);
/* y = low + step l or y += low + step l. */
void fast__levels_take(int64_t n, int bits, const uint8_t *in, float low, float step,
                       fast_decode_mode mode, float *y);
