/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Resizing of a picture that arrives row by row, so that memory depends on the result and on one
 * row of the source alone. Bilinear where it grows; where it shrinks every pixel of the source
 * counts by the area that it covers under a triangle, so that nothing aliases.
 */
typedef struct fast_resample {
    int64_t source_height; /* rows that will arrive */
    int64_t source_width;  /* pixels of such a row */
    int64_t height;        /* rows of the result */
    int64_t width;         /* pixels of a row of the result */
    int64_t channels;      /* bytes of a pixel, of both */
    int64_t row;           /* number of rows that have arrived */
    float *sums;           /* [height][width][channels]: weighted sums of rows */
    float *line;           /* [width][channels]: the newest row, resized */
    float *norms;          /* [height]: 1 / sum of a row's weights */
    float *weights;        /* of all columns, one column after the other; each column sums to 1 */
    int64_t *firsts;       /* [width]: first pixel of the source that a column uses */
    int64_t *counts;       /* [width]: number of pixels of the source that a column uses */
} fast_resample;

/* Prepare for a source; the sizes and channels of `out` are set by the caller, and at least 1.
 * FAST_ENOMEM. */
fast_err fast__resample_init(fast_resample *out);
void fast__resample_fini(fast_resample *resample);

/* Add the next row, source_width pixels of `channels` bytes. */
void fast__resample_add(fast_resample *resample, const uint8_t *pixels);

/* Write the result, rounded, as planes: [channels][height][width]. All rows have arrived. */
void fast__resample_write(const fast_resample *resample, uint8_t *out);
