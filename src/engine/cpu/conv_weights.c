/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of a convolution's weights with the batch innermost:
 *
 *   dW[o][c][ky][kx] = sum over y, x, l of dY[y][x][o][l] X[y s + ky d - p][x s + kx d - p][c][l]
 *
 * One row of dY at a time, so that it is read from memory once and stays in the second-level cache
 * while all taps and blocks of channels use it. Under one ky the taps (kx, c) are consecutive rows
 * of lanes in X, so that blocks of sums may span several kx: a first layer with one channel is as
 * fast as a wide one. Pixels where part of such a block is outside the image are done separately,
 * tap by tap. Sums are collected as [ky][o][kx][c] and transposed at the end.
 *
 * Cost: 2 C O K K H W lanes operations; X and dY are read from memory once.
 */
#include "engine/cpu/conv_weights.h"

#include "engine/cpu/conv_kernels.h"
#include "engine/cpu/conv_method.h"

#include <string.h>

enum {
    CACHED = 1 << 19 /* floats of an image that the caches still have in the backward pass */
};

/* Set [*first, *end) to the output columns whose input column under tap `k` lies inside the image;
 * the range is empty if *first >= *end. */
static void valid_columns(const fast_conv_shape *s, int64_t k, int64_t *first, int64_t *end)
{
    const int64_t stride = s->stride[1];
    const int64_t offset = k * s->dilation[1] - s->pad[1]; /* input column = o stride + offset */
    *first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    *end = s->in_w - 1 - offset < 0 ? 0 : (s->in_w - 1 - offset) / stride + 1;
    if (*end > s->out_w)
        *end = s->out_w;
}

/* The sums, in an order of their own: as many as there are weights. */
int64_t fast__conv_weights_scratch(const fast_conv_shape *s)
{
    return s->kernel[0] * s->kernel[1] * s->out_c * (s->in_c / s->groups);
}

/* The variables that the loops over one row of dY share. */
typedef struct conv_row_sums {
    const fast_conv_shape *shape;     /* the convolution */
    const fast_conv_kernels *kernels; /* kernels of this processor */
    const float *x;                   /* input row under the tap, first channel of the group */
    const float *dy;                  /* row of dY, first channel of the group */
    float *sums;                      /* [o][kx][c] of this ky and group */
    int64_t in_c, out_c;              /* channels of the group */
    bool ahead;                       /* X is prefetched */
} conv_row_sums;

/* Add the pixels [first, end) of the row to the sums of taps [tap, tap + taps), all channels. */
static void add_pixels(const conv_row_sums *row, int64_t tap, int64_t taps, int64_t first,
                       int64_t end)
{
    const fast_conv_shape *s = row->shape;
    if (first >= end)
        return;
    const fast_dot dot = {
        .m = row->out_c,
        .n = taps * row->in_c,
        .count = end - first,
        .length = s->lanes,
        .a_step = s->out_c * s->lanes,
        .b_step = s->stride[1] * s->in_c * s->lanes,
        .a_row = s->lanes,
        .b_row = s->lanes,
        .ldc = s->kernel[1] * row->in_c,
        .ahead = row->ahead,
    };
    const int64_t column = first * s->stride[1] + tap * s->dilation[1] - s->pad[1];
    row->kernels->dot(&dot, row->dy + first * dot.a_step, row->x + column * s->in_c * s->lanes,
                      row->sums + tap * row->in_c);
}

/* Add one row of dY under one ky: all taps and pixels. */
static void add_row(const conv_row_sums *row)
{
    const fast_conv_shape *s = row->shape;
    const int64_t taps = s->kernel[1];
    if (s->groups != 1 || s->dilation[1] != 1) {
        for (int64_t k = 0; k < taps; k++) {
            int64_t first, end;
            valid_columns(s, k, &first, &end);
            add_pixels(row, k, 1, first, end);
        }
        return;
    }
    /* All taps together for pixels where all are inside the image. */
    int64_t inner_first, inner_end, unused;
    valid_columns(s, 0, &inner_first, &unused);
    valid_columns(s, taps - 1, &unused, &inner_end);
    if (inner_end < inner_first)
        inner_end = inner_first;
    add_pixels(row, 0, taps, inner_first, inner_end);
    for (int64_t k = 0; k < taps; k++) {
        int64_t first, end;
        valid_columns(s, k, &first, &end);
        add_pixels(row, k, 1, first, end < inner_first ? end : inner_first);
        add_pixels(row, k, 1, first > inner_end ? first : inner_end, end);
    }
}

/* Transpose [ky][o][kx][c], in which the taps and channels of a run are next to each other, to
 * [o][c][ky][kx], the order of the parameters. */
static void transpose_sums(const fast_conv_shape *s, const float *sums, float *dw)
{
    const int64_t in_c = s->in_c / s->groups, kh = s->kernel[0], kw = s->kernel[1];
    for (int64_t o = 0; o < s->out_c; o++)
        for (int64_t c = 0; c < in_c; c++)
            for (int64_t ky = 0; ky < kh; ky++)
                for (int64_t kx = 0; kx < kw; kx++)
                    *dw++ = sums[((ky * s->out_c + o) * kw + kx) * in_c + c];
}

/* Row by row of dY, so that the row and the input rows under it stay in the cache for all taps;
 * the sums are transposed to dw at the end. */
void fast__conv_weights(const fast_conv_shape *shape, const float *x, const float *dy,
                        float *scratch, float *dw)
{
    const fast_conv_shape *s = shape;
    const int64_t count = fast__conv_weights_scratch(s);
    conv_row_sums row = { .shape = s,
                          .kernels = fast__conv_kernels(),
                          .in_c = s->in_c / s->groups,
                          .out_c = s->out_c / s->groups,
                          .ahead = s->in_h * s->in_w * s->in_c * s->lanes > CACHED };
    FAST_ASSERT(s->lanes % FAST_VEC == 0);
    memset(scratch, 0, (size_t)count * sizeof *scratch);
    for (int64_t y = 0; y < s->out_h; y++) {
        for (int64_t ky = 0; ky < s->kernel[0]; ky++) {
            const int64_t in_y = y * s->stride[0] + ky * s->dilation[0] - s->pad[0];
            if (in_y < 0 || in_y >= s->in_h)
                continue;
            for (int64_t g = 0; g < s->groups; g++) {
                row.x = x + (in_y * s->in_w * s->in_c + g * row.in_c) * s->lanes;
                row.dy = dy + (y * s->out_w * s->out_c + g * row.out_c) * s->lanes;
                row.sums = scratch + (ky * s->out_c + g * row.out_c) * s->kernel[1] * row.in_c;
                add_row(&row);
            }
        }
    }
    transpose_sums(s, scratch, dw);
}
