/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct convolution by libxsmm's batch-reduce products, with the batch innermost (Georganas et
 * al., "High-Performance Deep Learning via a Single Building Block", 2019; the layout C x H x W x
 * N).
 *
 * An output pixel is a matrix [o][lanes]. Under one ky, the inputs of all kx and channels are one
 * contiguous matrix [kx][c][lanes], so a pixel is the sum over ky of products
 *
 *   Y (lanes x o) += X (lanes x (kx, c)) W ((kx, c) x o)
 *
 * which one kernel computes with the sums in registers. At the border the runs are shorter and
 * fewer: nothing is padded and no product is wasted. The gradient of the input is the same loop
 * over the taps that reach a pixel, with the weights flipped and split by phases of the stride
 * (conv_axis.h). With groups or dilation a run is one tap and the kernel sums over kx instead, once
 * for each ky. The gradient of the weights is in conv_weights.c.
 *
 *     x       row y + ky    | pixel x: c0 c1 .. | pixel x + 1: c0 c1 .. | ...      A, one run
 *     weights ky            | out 0: kx0 c0 c1 .., kx1 c0 ..  | out 1: ... |       B
 *     y       pixel         | out 0 | out 1 | ...                                  C
 *
 * Cost: the textbook's operations. Kernels are generated when opening, on the main stack.
 */
#include "engine/cpu/conv_method.h"

#ifdef FAST_HAVE_XSMM

#include "base/memory.h"
#include "engine/cpu/conv_axis.h"
#include "engine/cpu/conv_kernels.h"
#include "engine/cpu/conv_weights.h"
#include "engine/cpu/gemm.h"

#include <libxsmm.h>
#include <string.h>

/* A kernel that sums products over operands at fixed strides. */
typedef libxsmm_smmfunction_reducebatch_strd kernel_fn;

/* One direction: forward, or the gradient of the input. "in" and "out" are those of the loop. */
typedef struct xsmm_direction {
    fast_conv_axis y, x;   /* taps of each axis */
    int64_t in_c, out_c;   /* channels of all groups */
    int64_t in_g, out_g;   /* channels of one group */
    int64_t groups, lanes; /* as in the shape */
    bool runs;             /* a run spans the taps of x; otherwise it is one tap */
    int64_t weights;       /* floats of the reordered weights */
    int64_t *start;        /* [y.phases][x.phases]: where a phase's weights start */
    kernel_fn *kernel;     /* runs: [x.phases][taps of x + 1], by length of the run;
                              else [x.phases][2]: overwriting, adding */
    int64_t kernels_x;     /* kernels of one phase of x */
} xsmm_direction;

/* A convolution, shared by workspaces. */
typedef struct conv_xsmm {
    fast_conv_shape shape;            /* the convolution */
    const fast_conv_kernels *kernels; /* for bias and relu */
    xsmm_direction forward, data;     /* data only where the shape asks */
} conv_xsmm;

/* Generate a kernel for products of depth k; NULL if libxsmm declines. */
static kernel_fn make_kernel(const xsmm_direction *d, int64_t k, int64_t ldb, int64_t step_a,
                             int64_t step_b, bool accumulate)
{
    const libxsmm_blasint m = (libxsmm_blasint)d->lanes, lda = m, ldc = m;
    const libxsmm_blasint ld_b = (libxsmm_blasint)ldb;
    const float alpha = 1.0f, beta = accumulate ? 1.0f : 0.0f;
    const int flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
    const int64_t size = (int64_t)sizeof(float);
    return libxsmm_smmdispatch_reducebatch_strd(
        m, (libxsmm_blasint)d->out_g, (libxsmm_blasint)k, (libxsmm_blasint)(step_a * size),
        (libxsmm_blasint)(step_b * size), &lda, &ld_b, &ldc, &alpha, &beta, &flags, &prefetch);
}

/* Make all kernels of a direction; false if libxsmm declines one. */
static bool make_kernels(xsmm_direction *d)
{
    for (int64_t p = 0; p < d->x.phases; p++) {
        const int64_t taps = d->x.phase[p].taps;
        const int64_t ldb = taps * d->in_g;
        kernel_fn *kernel = d->kernel + p * d->kernels_x;
        if (taps == 0)
            continue;
        if (d->runs) {
            const int64_t step_a = d->y.step * d->x.inputs * d->in_c * d->lanes;
            for (int64_t count = 1; count <= taps; count++) {
                kernel[count] = make_kernel(d, count * d->in_g, ldb, step_a, d->out_g * ldb, false);
                if (!kernel[count])
                    return false;
            }
            continue;
        }
        const int64_t step_a = d->x.step * d->in_c * d->lanes;
        kernel[0] = make_kernel(d, d->in_g, ldb, step_a, d->in_g, false);
        kernel[1] = make_kernel(d, d->in_g, ldb, step_a, d->in_g, true);
        if (!kernel[0] || !kernel[1])
            return false;
    }
    return true;
}

/* Free a direction, also one that was only partly prepared. */
static void direction_fini(xsmm_direction *d)
{
    fast__conv_axis_fini(&d->y);
    fast__conv_axis_fini(&d->x);
    fast__free(d->start);
    fast__free(d->kernel);
}

/* Prepare one direction. On failure the caller still calls direction_fini(). */
static fast_err direction_init(xsmm_direction *d, const fast_conv_shape *s, bool data)
{
    d->in_c = data ? s->out_c : s->in_c;
    d->out_c = data ? s->in_c : s->out_c;
    d->groups = s->groups;
    d->in_g = d->in_c / d->groups;
    d->out_g = d->out_c / d->groups;
    d->lanes = s->lanes;
    FAST_TRY(fast__conv_axis_init(&d->y, s, 0, data));
    FAST_TRY(fast__conv_axis_init(&d->x, s, 1, data));
    d->runs = d->groups == 1 && d->x.step == 1;
    d->kernels_x = d->runs ? s->kernel[1] + 1 : 2;
    FAST_TRY(fast__alloc("a convolution's phases", d->y.phases * d->x.phases, sizeof *d->start,
                         &d->start));
    FAST_TRY(fast__alloc("a convolution's kernels", d->x.phases * d->kernels_x, sizeof *d->kernel,
                         &d->kernel));
    for (int64_t py = 0; py < d->y.phases; py++) {
        for (int64_t px = 0; px < d->x.phases; px++) {
            d->start[py * d->x.phases + px] = d->weights;
            d->weights += d->y.phase[py].taps * d->x.phase[px].taps * d->in_c * d->out_g;
        }
    }
    if (!make_kernels(d))
        return fast__fail(FAST_ENOTSUP, "libxsmm makes no kernel for %lld x %lld channels",
                          (long long)d->in_g, (long long)d->out_g);
    return FAST_OK;
}

/* Reorder w [o][c][ky][kx] to [phase][group][ty][out][tx][in]. */
static void order_weights(const xsmm_direction *d, const fast_conv_shape *s, bool data,
                          const float *w, float *to)
{
    const int64_t kw = s->kernel[1], area = s->kernel[0] * kw, in_g = s->in_c / s->groups;
    for (int64_t py = 0; py < d->y.phases; py++) {
        for (int64_t px = 0; px < d->x.phases; px++) {
            const fast_conv_phase y = d->y.phase[py], x = d->x.phase[px];
            for (int64_t i = 0; i < d->groups * y.taps * d->out_g * x.taps; i++) {
                const int64_t tx = i % x.taps, out = i / x.taps % d->out_g;
                const int64_t ty = i / x.taps / d->out_g % y.taps;
                const int64_t g = i / x.taps / d->out_g / y.taps;
                const int64_t ky = y.kernel + ty * d->y.kernel_step;
                const int64_t kx = x.kernel + tx * d->x.kernel_step;
                /* A step through the loop's input channels is a step through w's o or c. */
                const int64_t o = data ? g * d->in_g : g * d->out_g + out;
                const int64_t c = data ? out : 0;
                const float *from = w + (o * in_g + c) * area + ky * kw + kx;
                const int64_t step = data ? in_g * area : area;
                for (int64_t in = 0; in < d->in_g; in++)
                    *to++ = from[in * step];
            }
        }
    }
}

/* Compute one output pixel of one group. */
static void pixel(const xsmm_direction *d, const fast_conv_point *y, const fast_conv_point *x,
                  int64_t group, const float *in, const float *weights, float *out)
{
    const int64_t taps_x = d->x.phase[x->phase].taps, taps_y = d->y.phase[y->phase].taps;
    const int64_t row = d->x.inputs * d->in_c * d->lanes; /* floats of an input row */
    const kernel_fn *kernel = d->kernel + x->phase * d->kernels_x;
    if (x->count == 0 || y->count == 0) {
        memset(out, 0, (size_t)(d->out_g * d->lanes) * sizeof *out);
        return;
    }
    const float *a = in + y->first * row + (x->first * d->in_c + group * d->in_g) * d->lanes;
    const float *b = weights + d->start[y->phase * d->x.phases + x->phase] +
                     ((group * taps_y + y->tap) * d->out_g * taps_x + x->tap) * d->in_g;
    if (d->runs) {
        const unsigned long long count = (unsigned long long)y->count;
        kernel[x->count](a, b, out, &count);
        return;
    }
    const unsigned long long count = (unsigned long long)x->count;
    for (int64_t t = 0; t < y->count; t++)
        kernel[t > 0](a + t * d->y.step * row, b + t * d->out_g * taps_x * d->in_g, out, &count);
}

/* libxsmm needs AVX and 32-bit strides. */
static bool xsmm_fits(const fast_conv_shape *shape)
{
    fast__gemm_setup();
    /* The strides between a kernel's operands are 32-bit numbers of bytes. */
    const int64_t row =
        shape->lanes * 4 *
        (shape->in_c * shape->in_w > shape->out_c * shape->out_w ? shape->in_c * shape->in_w
                                                                 : shape->out_c * shape->out_w);
    const int64_t filter = shape->in_c * shape->out_c * shape->kernel[1] * 4;
    const int64_t dilation =
        shape->dilation[0] > shape->dilation[1] ? shape->dilation[0] : shape->dilation[1];
    return libxsmm_get_target_archid() >= LIBXSMM_X86_AVX && dilation < 64 &&
           row < INT32_MAX / 64 && filter < INT32_MAX;
}

/* Free both directions, also those that were not prepared. */
static void xsmm_close(void *memory)
{
    conv_xsmm *self = memory;
    if (!self)
        return;
    direction_fini(&self->forward);
    direction_fini(&self->data);
    fast__free(self);
}

/* Generate the kernels of both directions. FAST_ENOTSUP if libxsmm declines one. */
static fast_err xsmm_open(const fast_conv_shape *shape, void **out)
{
    conv_xsmm *self;
    FAST_TRY(fast__alloc("a convolution", 1, sizeof *self, &self));
    self->shape = *shape;
    self->kernels = fast__conv_kernels();
    fast_err err = direction_init(&self->forward, shape, false);
    if (!err && shape->train && shape->data)
        err = direction_init(&self->data, shape, true);
    if (err) {
        xsmm_close(self);
        return err;
    }
    *out = self;
    return FAST_OK;
}

/* Reordered weights, or the sums of their gradient: not both at once. */
static int64_t xsmm_scratch(const void *memory)
{
    const conv_xsmm *self = memory;
    return fast__conv_weights_scratch(&self->shape); /* as many as the weights */
}

/* One kernel call per output pixel and group, then bias and relu. */
static void xsmm_forward(const void *memory, const fast_conv_io *io)
{
    const conv_xsmm *self = memory;
    const xsmm_direction *d = &self->forward;
    float *y = io->y;
    order_weights(d, &self->shape, false, io->w, io->scratch);
    for (int64_t i = 0; i < d->y.outputs; i++) {
        for (int64_t j = 0; j < d->x.outputs; j++) {
            for (int64_t g = 0; g < d->groups; g++)
                pixel(d, &d->y.point[i], &d->x.point[j], g, io->x, io->scratch,
                      y + g * d->out_g * d->lanes);
            if (io->bias || io->relu)
                self->kernels->finish(y, io->bias, d->out_c, d->lanes, io->relu);
            y += d->out_c * d->lanes;
        }
    }
}

/* The gradient of the input by the same loop; that of the weights by conv_weights.c. */
static void xsmm_backward(const void *memory, const fast_conv_io *io)
{
    const conv_xsmm *self = memory;
    if (io->dx) {
        const xsmm_direction *d = &self->data;
        float *dx = io->dx;
        FAST_ASSERT(d->start);
        order_weights(d, &self->shape, true, io->w, io->scratch);
        for (int64_t i = 0; i < d->y.outputs; i++) {
            for (int64_t j = 0; j < d->x.outputs; j++) {
                for (int64_t g = 0; g < d->groups; g++) {
                    pixel(d, &d->y.point[i], &d->x.point[j], g, io->dy, io->scratch, dx);
                    dx += d->out_g * d->lanes;
                }
            }
        }
    }
    if (io->dw)
        fast__conv_weights(&self->shape, io->x, io->dy, io->scratch, io->dw);
}

const fast_conv_method fast__conv_xsmm = {
    .name = "xsmm",
    .fits = xsmm_fits,
    .open = xsmm_open,
    .close = xsmm_close,
    .scratch = xsmm_scratch,
    .forward = xsmm_forward,
    .backward = xsmm_backward,
};

#endif
