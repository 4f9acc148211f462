/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/simd.h"

/*
 * Transforms of tiles; a call does some vectors of 16 lanes and all channels. A tile of an image is
 * n x n inputs or m x m outputs; its transform is n x n planes, so that the products of all tiles
 * in one plane are one matrix product.
 */
enum { FAST_WINOGRAD_VARIANTS = 5, FAST_WINOGRAD_VECTORS = 4 };

/* The arguments of a transform. */
typedef struct fast_winograd_tile {
    float *image;          /* the tile's first pixel, which may lie outside; never written through
                                where a transform only reads */
    int64_t row, column;   /* floats from row to row, from pixel to pixel */
    int64_t channel;       /* floats from channel to channel */
    int64_t channels;      /* number of channels */
    int64_t vectors;       /* vectors of 16 lanes, adjacent in image and planes; up to 4 */
    int first[2], end[2];  /* the part inside the image, y and x, in pixels of the tile */
    int known[2];          /* rows and columns at the start that earlier tiles have written: a
                                gradient is added there and written elsewhere */
    bool ahead;            /* prefetch the image, channel by channel */
    float *plane;          /* plane 0, channel 0 */
    int64_t plane_step;    /* floats from plane to plane */
    int64_t plane_channel; /* floats from channel to channel in a plane */
    const float *scale;    /* outputs only: NULL, or the weights that the planes of a single input
                              channel are multiplied by: [plane][channel], scale_step apart */
    int64_t scale_step;    /* floats from plane to plane of `scale` */
    const float *bias;     /* [channels] or NULL; outputs only */
    bool relu;             /* outputs only: apply max(0, .) */
} fast_winograd_tile;

/* The transforms of one variant. */
typedef struct fast_winograd_kernels {
    int m, r, n;                                    /* outputs, taps and inputs along one axis */
    void (*input)(const fast_winograd_tile *tile);  /* planes = B' image B */
    void (*output)(const fast_winograd_tile *tile); /* image = A' planes A + bias */
    void (*output_grad)(const fast_winograd_tile *tile); /* planes = A image A' */
    void (*input_grad)(const fast_winograd_tile *tile);  /* image = or += B planes B' */

    /* For a single input channel, whose planes are tile->plane: add the products of (A image A')
     * with them to sums[channel][n n][16]. The gradient of the planes themselves is not stored. */
    void (*weights_one)(const fast_winograd_tile *tile, float *sums);

    /* to[n n][count] = G from[r r][count] G', and from = G' to G: count is a multiple of 16. */
    void (*weights)(const float *from, float *to, int64_t count);
    void (*weights_grad)(const float *from, float *to, int64_t count);
} fast_winograd_kernels;

/* The variants of one instruction set. */
typedef fast_winograd_kernels fast_winograd_list_kernels[FAST_WINOGRAD_VARIANTS];
FAST_KERNELS(winograd_list)
