/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/data.h"

/* How samples vary from epoch to epoch. Zero means no variation. */
typedef struct fast_augment {
    int64_t shift; /* largest shift in pixels, in all four directions */
    bool flip;     /* mirror left to right with probability 1/2 */
    int64_t crop;  /* pixels by which the window is smaller than the image */
    double noise;  /* standard deviation, after normalisation */
} fast_augment;

/* Parse "shift:2+flip+crop:4+noise:0.1" for samples like those of `data`; NULL and "" mean none.
 * FAST_EINVAL. */
fast_err fast__augment_parse(const char *text, const fast_data *data, fast_augment *out);

/* Tell whether anything varies. */
bool fast__augment_any(const fast_augment *augment);

/* Vary one normalised sample in place, by draws of (seed, epoch, sample) alone. `scratch` holds one
 * sample. */
void fast__augment_apply(const fast_augment *augment, const fast_data *data, uint64_t seed,
                         uint64_t epoch, uint32_t sample, float *x, float *scratch);
