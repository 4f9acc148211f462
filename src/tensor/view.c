/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels over views. A device's own kernel is called where it has one; else the host's computes on
 * mapped memory. On the host mapping is nothing, so a call costs a comparison more than the
 * kernel's.
 */
#include "tensor/view.h"

#include "tensor/vector.h"

/* The kernels of both views' device; NULL: the host computes. */
static const fast_device_kernels *kernels_of(fast_view x, fast_view y)
{
    FAST_ASSERT(x.count == y.count);
    FAST_ASSERT(x.device == y.device);
    return x.count > 0 ? x.device->kernels : NULL;
}

static const float *open_input(fast_view x)
{
    return fast__view_map(x, FAST_ACCESS_READ);
}

static void close_input(fast_view x, const float *mapped)
{
    fast__view_unmap(x, FAST_ACCESS_READ, (float *)(uintptr_t)mapped);
}

void fast__view_fill(float a, fast_view y)
{
    const fast_device_kernels *own = kernels_of(y, y);

    if (own) {
        own->fill(y.device, y.count, a, y.at);
        return;
    }
    float *to = fast__view_map(y, FAST_ACCESS_WRITE);
    fast__vector_fill(y.count, a, to);
    fast__view_unmap(y, FAST_ACCESS_WRITE, to);
}

void fast__view_scale(float a, fast_view y)
{
    const fast_device_kernels *own = kernels_of(y, y);

    if (own) {
        own->scale(y.device, y.count, a, y.at);
        return;
    }
    float *to = fast__view_map(y, FAST_ACCESS_UPDATE);
    fast__vector_scale(y.count, a, to);
    fast__view_unmap(y, FAST_ACCESS_UPDATE, to);
}

void fast__view_add(fast_view x, fast_view y)
{
    const fast_device_kernels *own = kernels_of(x, y);

    if (own) {
        own->add(y.device, y.count, x.at, y.at);
        return;
    }
    const float *from = open_input(x);
    float *to = fast__view_map(y, FAST_ACCESS_UPDATE);
    fast__vector_add(y.count, from, to);
    fast__view_unmap(y, FAST_ACCESS_UPDATE, to);
    close_input(x, from);
}

void fast__view_axpy(float a, fast_view x, fast_view y)
{
    const fast_device_kernels *own = kernels_of(x, y);

    if (own) {
        own->axpy(y.device, y.count, a, x.at, y.at);
        return;
    }
    const float *from = open_input(x);
    float *to = fast__view_map(y, FAST_ACCESS_UPDATE);
    fast__vector_axpy(y.count, a, from, to);
    fast__view_unmap(y, FAST_ACCESS_UPDATE, to);
    close_input(x, from);
}

void fast__view_axpby(float a, fast_view x, float b, fast_view y)
{
    const fast_device_kernels *own = kernels_of(x, y);

    if (own) {
        own->axpby(y.device, y.count, a, x.at, b, y.at);
        return;
    }
    const float *from = open_input(x);
    float *to = fast__view_map(y, FAST_ACCESS_UPDATE);
    fast__vector_axpby(y.count, a, from, b, to);
    fast__view_unmap(y, FAST_ACCESS_UPDATE, to);
    close_input(x, from);
}

void fast__view_mix(float a, fast_view x, fast_view y)
{
    const fast_device_kernels *own = kernels_of(x, y);

    if (own) {
        own->mix(y.device, y.count, a, x.at, y.at);
        return;
    }
    const float *from = open_input(x);
    float *to = fast__view_map(y, FAST_ACCESS_UPDATE);
    fast__vector_mix(y.count, a, from, to);
    fast__view_unmap(y, FAST_ACCESS_UPDATE, to);
    close_input(x, from);
}

void fast__view_difference(float a, fast_view x, fast_view y)
{
    const fast_device_kernels *own = kernels_of(x, y);

    if (own) {
        own->difference(y.device, y.count, a, x.at, y.at);
        return;
    }
    const float *from = open_input(x);
    float *to = fast__view_map(y, FAST_ACCESS_UPDATE);
    fast__vector_difference(y.count, a, from, to);
    fast__view_unmap(y, FAST_ACCESS_UPDATE, to);
    close_input(x, from);
}

double fast__view_dot(fast_view x, fast_view y)
{
    const fast_device_kernels *own = kernels_of(x, y);

    if (own)
        return own->dot(x.device, x.count, x.at, y.at);
    const float *a = open_input(x), *b = open_input(y);
    const double dot = fast__vector_dot(x.count, a, b);
    close_input(y, b);
    close_input(x, a);
    return dot;
}

double fast__view_norm2(fast_view x)
{
    const fast_device_kernels *own = kernels_of(x, x);

    if (own)
        return own->norm2(x.device, x.count, x.at);
    const float *from = open_input(x);
    const double norm2 = fast__vector_norm2(x.count, from);
    close_input(x, from);
    return norm2;
}

float fast__view_max_abs(fast_view x)
{
    const fast_device_kernels *own = kernels_of(x, x);

    if (own)
        return own->max_abs(x.device, x.count, x.at);
    const float *from = open_input(x);
    const float most = fast__vector_max_abs(x.count, from);
    close_input(x, from);
    return most;
}

bool fast__view_finite(fast_view x)
{
    return __builtin_isfinite(fast__view_max_abs(x));
}

void fast__view_store(fast_view x, fast_dtype to, float scale, void *bytes)
{
    const float *from = open_input(x);

    fast__vector_convert(x.count, FAST_F32, from, to, bytes, scale);
    close_input(x, from);
}

void fast__view_load(fast_dtype from, const void *bytes, float scale, fast_view y)
{
    float *to = fast__view_map(y, FAST_ACCESS_WRITE);

    fast__vector_convert(y.count, from, bytes, FAST_F32, to, scale);
    fast__view_unmap(y, FAST_ACCESS_WRITE, to);
}

void fast__view_gather(fast_view x, int64_t count, const uint32_t *index, float *value)
{
    const float *from = open_input(x);

    for (int64_t i = 0; i < count; i++) {
        FAST_ASSERT(index[i] < x.count);
        value[i] = from[index[i]];
    }
    close_input(x, from);
}

void fast__view_scatter_add(int64_t count, const uint32_t *index, const float *value, float a,
                            fast_view y)
{
    float *to = fast__view_map(y, FAST_ACCESS_UPDATE);

    for (int64_t i = 0; i < count; i++) {
        FAST_ASSERT(index[i] < y.count);
        to[index[i]] += a * value[i];
    }
    fast__view_unmap(y, FAST_ACCESS_UPDATE, to);
}
