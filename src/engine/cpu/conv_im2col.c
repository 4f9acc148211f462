/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution by im2col and a matrix product: the method that fits every shape and needs no library
 * but one for products.
 *
 * The window under an output pixel is copied to a matrix [(c, ky, kx)][lanes], with zeros outside
 * the image; the weights are a matrix [o][(c, ky, kx)] as in the parameters:
 *
 *   Y = col W',   dcol = dY W (then added to the pixels of the window),   dW = sum dY' col
 *
 *     x under a 2 x 2 window       a b     col, one row of lanes each:   a  b  c  d
 *     of one channel               c d     W, one row an output:         w0 w1 w2 w3
 *
 * One pixel at a time, or a few for dW, so that the copy stays in cache: for O output channels it
 * costs about 3 / O of the product.
 */
#include "engine/cpu/conv_method.h"

#include "base/memory.h"
#include "engine/cpu/conv_kernels.h"
#include "engine/cpu/gemm.h"

#include <string.h>

enum { COLUMNS_MAX = 1 << 17 }; /* floats of the copied windows for dW: half a level-2 cache */

typedef struct conv_im2col {
    fast_conv_shape shape;            /* the convolution */
    const fast_conv_kernels *kernels; /* kernels of this processor */
    int64_t depth;                    /* elements of a window: (c, ky, kx) of one group */
    int64_t in_g, out_g;              /* channels of a group */
    int64_t pixels;                   /* windows copied together for dW */
    fast_gemm forward, data; /* products of the forward pass and of the gradient of the input */
} conv_im2col;

/* Every shape fits whose products have int sizes. */
static bool im2col_fits(const fast_conv_shape *shape)
{
    const int64_t depth = shape->in_c / shape->groups * shape->kernel[0] * shape->kernel[1];
    return depth * shape->lanes < INT32_MAX / 4 && shape->out_c < INT32_MAX / 4;
}

/* Everything is in one block. */
static void im2col_close(void *self)
{
    fast__free(self);
}

/* Prepare both products, and choose how many windows are copied together for dW. */
static fast_err im2col_open(const fast_conv_shape *shape, void **out)
{
    conv_im2col *self;
    FAST_TRY(fast__alloc("a convolution", 1, sizeof *self, &self));
    self->shape = *shape;
    self->kernels = fast__conv_kernels();
    self->in_g = shape->in_c / shape->groups;
    self->out_g = shape->out_c / shape->groups;
    self->depth = self->in_g * shape->kernel[0] * shape->kernel[1];
    self->pixels = COLUMNS_MAX / (self->depth * shape->lanes);
    if (self->pixels < 1)
        self->pixels = 1;
    if (self->pixels > shape->out_w)
        self->pixels = shape->out_w;
    const int m = (int)shape->lanes, depth = (int)self->depth, n = (int)self->out_g;
    self->forward = (fast_gemm){ .m = m, .n = n, .k = depth, .lda = m, .ldb = depth, .ldc = m };
    fast__gemm_init(&self->forward);
    self->data = (fast_gemm){
        .m = m, .n = depth, .k = n, .lda = m, .ldb = depth, .ldc = m, .trans_b = true
    };
    fast__gemm_init(&self->data);
    *out = self;
    return FAST_OK;
}

/* The windows that are copied together. */
static int64_t im2col_scratch(const void *memory)
{
    const conv_im2col *self = memory;
    return self->pixels * self->depth * self->shape.lanes;
}

/* Return the index of the pixel that tap (ky, kx) of output (y, x) reads, or -1 outside the
 * image. */
static int64_t tap_pixel(const fast_conv_shape *s, int64_t y, int64_t x, int64_t ky, int64_t kx)
{
    const int64_t in_y = y * s->stride[0] + ky * s->dilation[0] - s->pad[0];
    const int64_t in_x = x * s->stride[1] + kx * s->dilation[1] - s->pad[1];
    if (in_y < 0 || in_y >= s->in_h || in_x < 0 || in_x >= s->in_w)
        return -1;
    return in_y * s->in_w + in_x;
}

/* Copy the window of one output pixel and group to `col`. */
static void copy_window(const conv_im2col *self, const float *x, int64_t group, int64_t out_y,
                        int64_t out_x, float *col)
{
    const fast_conv_shape *s = &self->shape;
    const int64_t area = s->kernel[0] * s->kernel[1];
    const size_t size = (size_t)s->lanes * sizeof *col;
    for (int64_t tap = 0; tap < area; tap++) {
        const int64_t pixel = tap_pixel(s, out_y, out_x, tap / s->kernel[1], tap % s->kernel[1]);
        float *to = col + tap * s->lanes;
        const float *from = x + (pixel * s->in_c + group * self->in_g) * s->lanes;
        for (int64_t c = 0; c < self->in_g; c++) {
            if (pixel < 0)
                memset(to + c * area * s->lanes, 0, size);
            else
                memcpy(to + c * area * s->lanes, from + c * s->lanes, size);
        }
    }
}

/* Add `col` to the pixels of a window: the inverse of copy_window() for gradients. */
static void add_window(const conv_im2col *self, const float *col, int64_t group, int64_t out_y,
                       int64_t out_x, float *dx)
{
    const fast_conv_shape *s = &self->shape;
    const int64_t area = s->kernel[0] * s->kernel[1];
    for (int64_t tap = 0; tap < area; tap++) {
        const int64_t pixel = tap_pixel(s, out_y, out_x, tap / s->kernel[1], tap % s->kernel[1]);
        if (pixel < 0)
            continue;
        float *to = dx + (pixel * s->in_c + group * self->in_g) * s->lanes;
        for (int64_t c = 0; c < self->in_g; c++) {
            const float *from = col + (c * area + tap) * s->lanes;
            for (int64_t l = 0; l < s->lanes; l++)
                to[c * s->lanes + l] += from[l];
        }
    }
}

/* One product per output pixel and group, then bias and relu. */
static void im2col_forward(const void *memory, const fast_conv_io *io)
{
    const conv_im2col *self = memory;
    const fast_conv_shape *s = &self->shape;
    float *y = io->y;
    for (int64_t i = 0; i < s->out_h * s->out_w; i++) {
        for (int64_t g = 0; g < s->groups; g++) {
            copy_window(self, io->x, g, i / s->out_w, i % s->out_w, io->scratch);
            fast__gemm_run(&self->forward, io->scratch, io->w + g * self->out_g * self->depth,
                           y + g * self->out_g * s->lanes);
        }
        if (io->bias || io->relu)
            self->kernels->finish(y, io->bias, s->out_c, s->lanes, io->relu);
        y += s->out_c * s->lanes;
    }
}

/* dx from dy and the weights. */
static void data_gradient(const conv_im2col *self, const fast_conv_io *io)
{
    const fast_conv_shape *s = &self->shape;
    const float *dy = io->dy;
    memset(io->dx, 0, (size_t)(s->in_h * s->in_w * s->in_c * s->lanes) * sizeof *io->dx);
    for (int64_t i = 0; i < s->out_h * s->out_w; i++) {
        for (int64_t g = 0; g < s->groups; g++) {
            fast__gemm_run(&self->data, dy, io->w + g * self->out_g * self->depth, io->scratch);
            add_window(self, io->scratch, g, i / s->out_w, i % s->out_w, io->dx);
            dy += self->out_g * s->lanes;
        }
    }
}

/* dw from x and dy, a few windows at a time. */
static void weight_gradient(const conv_im2col *self, const fast_conv_io *io)
{
    const fast_conv_shape *s = &self->shape;
    fast_dot dot = {
        .m = self->out_g,
        .n = self->depth,
        .length = s->lanes,
        .a_step = s->out_c * s->lanes,
        .b_step = self->depth * s->lanes,
        .a_row = s->lanes,
        .b_row = s->lanes,
        .ldc = self->depth,
    };
    memset(io->dw, 0, (size_t)(s->out_c * self->depth) * sizeof *io->dw);
    for (int64_t y = 0; y < s->out_h; y++) {
        for (int64_t x = 0; x < s->out_w; x += self->pixels) {
            dot.count = s->out_w - x < self->pixels ? s->out_w - x : self->pixels;
            for (int64_t g = 0; g < s->groups; g++) {
                for (int64_t i = 0; i < dot.count; i++)
                    copy_window(self, io->x, g, y, x + i, io->scratch + i * dot.b_step);
                const int64_t pixel = y * s->out_w + x;
                self->kernels->dot(&dot, io->dy + (pixel * s->out_c + g * self->out_g) * s->lanes,
                                   io->scratch, io->dw + g * self->out_g * self->depth);
            }
        }
    }
}

/* The gradients are independent: each has loops of its own. */
static void im2col_backward(const void *memory, const fast_conv_io *io)
{
    if (io->dx)
        data_gradient(memory, io);
    if (io->dw)
        weight_gradient(memory, io);
}

const fast_conv_method fast__conv_im2col = {
    .name = "im2col",
    .fits = im2col_fits,
    .open = im2col_open,
    .close = im2col_close,
    .scratch = im2col_scratch,
    .forward = im2col_forward,
    .backward = im2col_backward,
};
