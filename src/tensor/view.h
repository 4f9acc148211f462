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
