/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/device.h"
#include "tensor/dtype.h"

/*
 * Kernels over views: those of tensor/vector.h, which are the host's, dispatched on the device.
 * Both views of a call have the same count and device; anything else is an assertion. They may be
 * equal but must not overlap otherwise. The bits are the host's on every device that has no kernels
 * of its own.
 */
void fast__view_fill(float a, fast_view y);                        /* y = a */
void fast__view_scale(float a, fast_view y);                       /* y *= a */
void fast__view_add(fast_view x, fast_view y);                     /* y += x */
void fast__view_axpy(float a, fast_view x, fast_view y);           /* y += a x */
void fast__view_axpby(float a, fast_view x, float b, fast_view y); /* y = a x + b y */
void fast__view_mix(float a, fast_view x, fast_view y);            /* y += a (x - y) */
void fast__view_difference(float a, fast_view x, fast_view y);     /* y = a (x - y) */
double fast__view_dot(fast_view x, fast_view y);                   /* sum of x_i y_i */
double fast__view_norm2(fast_view x);                              /* sum of squares */
float fast__view_max_abs(fast_view x);                             /* NaN if x has one */
bool fast__view_finite(fast_view x);                               /* neither inf nor NaN */

/* Write x as elements of another type to bytes of the host, and read them back; `scale` as in
 * fast__vector_convert(). The bytes need not be aligned: messages and files have them anywhere. */
void fast__view_store(fast_view x, fast_dtype to, float scale, void *bytes);
void fast__view_load(fast_dtype from, const void *bytes, float scale, fast_view y);

/* value[i] = x[index[i]], and y[index[i]] += a value[i]. Indices and values are the host's; every
 * index is below the view's count. */
void fast__view_gather(fast_view x, int64_t count, const uint32_t *index, float *value);
void fast__view_scatter_add(int64_t count, const uint32_t *index, const float *value, float a,
                            fast_view y);

/*
 * Kernels of the strategies. All views of a call have one count and one device; each element of a
 * result depends on the elements of its own index alone. They compute on mapped memory.
 */

/* Compensate a gradient g, taken at the model `old`, for the updates up to w (Zheng et al. 2017):
 *
 *     a = lambda                                            if `square` is empty
 *     square = decay square + (1 - decay) g g,   a = lambda / sqrt(square + 1e-7)      otherwise
 *     y = g + a g g (w - old)
 *
 * y may be g. Where w is old, y is g to the bit. */
void fast__view_compensate(float lambda, float decay, fast_view g, fast_view w, fast_view old,
                           fast_view square, fast_view y);

/* Take the outer step of local SGD: w holds the average of the workers' models, z the model of the
 * last outer step and d its momentum.
 *
 *     gain = rate (w - z),   d = momentum d + gain
 *     z += d, or momentum d + gain if `nesterov`;   w = z
 */
void fast__view_outer_step(float rate, float momentum, bool nesterov, fast_view w, fast_view z,
                           fast_view d);

/* y = sign(y) max(|y| - t, 0), the proximal step of an L1 penalty. Results of 0 are +0. */
void fast__view_soft_threshold(float t, fast_view y);

/* y = the canonical sum of x[0 .. n): with n = 2^k + r, x[2i] and x[2i+1] are added first for
 * i < r, then the 2^k sums as a perfect binary tree. 1 <= n <= FAST_VIEW_SUM_MAX. y overlaps no x.
 * fast__view_sum_all() makes every x[i] the sum; no two overlap. Neither allocates: a block of each
 * level's sum is on the stack, 24 KiB in all. */
enum { FAST_VIEW_SUM_MAX = 4096 };
void fast__view_sum(const fast_view *x, int64_t n, fast_view y);
void fast__view_sum_all(const fast_view *x, int64_t n);

/* Copy from, or to, a vector that other threads read and write at the same time. Every element of
 * the result is one that was stored at some time; there is no order between elements (race.h). The
 * shared vector is on a device whose mapped memory is the vector itself. */
void fast__view_race_load(fast_view shared, fast_view to);
void fast__view_race_store(fast_view from, fast_view shared);

/* Copy past the caches, for other cores to read (stream_copy.h). `to` is aligned to 16 bytes. A
 * thread that sees a later store of this thread sees the copy. */
void fast__view_stream(fast_view from, fast_view to);

/* Return XXH64 of the elements' bytes, as fast__hash() does for host memory. */
uint64_t fast__view_hash(fast_view x, uint64_t seed);
