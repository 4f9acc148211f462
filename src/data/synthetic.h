/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/rng.h"
#include "data/make.h"

/* Streams of a synthetic set: samples of its two parts, and the constants of both. */
enum { FAST_PART_TRAIN, FAST_PART_TEST, FAST_PART_COMMON };

/* Draw sample `i` of `data`: x and its labels or targets. `rng` is the sample's own stream. */
typedef void fast_draw_fn(const void *config, uint64_t seed, fast_rng *rng, fast_data *data,
                          int64_t i);

/* Make sets of `train` and `test` samples like `like`, draw and check them: the open() of a
 * synthetic kind. Sample i depends on (seed, i) alone. */
fast_err fast__synthetic_open(const fast_data *like, int64_t train, int64_t test,
                              fast_draw_fn *draw, const void *config, uint64_t seed,
                              fast_normalize how, fast_data **train_out, fast_data **test_out);
