/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels over views. A device's own kernel is called where it has one; else the host's computes on
 * mapped memory. On the host mapping is nothing, so a call costs a comparison more than the
 * kernel's.
 */
#include "tensor/view.h"

#include "base/hash.h"
#include "tensor/race.h"
#include "tensor/stream_copy.h"
#include "tensor/vector.h"

#include <math.h>

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

/* An input and the vector that a kernel updates, open to the host. */
typedef struct view_pair {
    const float *x; /* read */
    float *y;       /* read and written */
} view_pair;

static view_pair open_pair(fast_view x, fast_view y)
{
    return (view_pair){ open_input(x), fast__view_map(y, FAST_ACCESS_UPDATE) };
}

static void close_pair(fast_view x, fast_view y, view_pair pair)
{
    fast__view_unmap(y, FAST_ACCESS_UPDATE, pair.y);
    close_input(x, pair.x);
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
    const view_pair p = open_pair(x, y);
    fast__vector_add(y.count, p.x, p.y);
    close_pair(x, y, p);
}

void fast__view_axpy(float a, fast_view x, fast_view y)
{
    const fast_device_kernels *own = kernels_of(x, y);

    if (own) {
        own->axpy(y.device, y.count, a, x.at, y.at);
        return;
    }
    const view_pair p = open_pair(x, y);
    fast__vector_axpy(y.count, a, p.x, p.y);
    close_pair(x, y, p);
}

void fast__view_axpby(float a, fast_view x, float b, fast_view y)
{
    const fast_device_kernels *own = kernels_of(x, y);

    if (own) {
        own->axpby(y.device, y.count, a, x.at, b, y.at);
        return;
    }
    const view_pair p = open_pair(x, y);
    fast__vector_axpby(y.count, a, p.x, b, p.y);
    close_pair(x, y, p);
}

void fast__view_mix(float a, fast_view x, fast_view y)
{
    const fast_device_kernels *own = kernels_of(x, y);

    if (own) {
        own->mix(y.device, y.count, a, x.at, y.at);
        return;
    }
    const view_pair p = open_pair(x, y);
    fast__vector_mix(y.count, a, p.x, p.y);
    close_pair(x, y, p);
}

void fast__view_difference(float a, fast_view x, fast_view y)
{
    const fast_device_kernels *own = kernels_of(x, y);

    if (own) {
        own->difference(y.device, y.count, a, x.at, y.at);
        return;
    }
    const view_pair p = open_pair(x, y);
    fast__vector_difference(y.count, a, p.x, p.y);
    close_pair(x, y, p);
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

void fast__view_compensate(float lambda, float decay, fast_view g, fast_view w, fast_view old,
                           fast_view square, fast_view y)
{
    FAST_ASSERT(g.count == y.count && w.count == y.count && old.count == y.count);
    FAST_ASSERT(!square.at || square.count == y.count);
    FAST_ASSERT(g.device == y.device && w.device == y.device && old.device == y.device);
    const view_pair gy = open_pair(g, y);
    const float *now = open_input(w), *past = open_input(old);
    float *mean = square.at ? fast__view_map(square, FAST_ACCESS_UPDATE) : NULL;

    for (int64_t i = 0; i < y.count; i++) {
        const float gi = gy.x[i];
        float a = lambda;

        if (mean) {
            mean[i] = decay * mean[i] + (1 - decay) * gi * gi;
            a /= sqrtf(mean[i] + 1e-7f);
        }
        gy.y[i] = gi + a * gi * gi * (now[i] - past[i]);
    }
    if (mean)
        fast__view_unmap(square, FAST_ACCESS_UPDATE, mean);
    close_input(old, past);
    close_input(w, now);
    close_pair(g, y, gy);
}

void fast__view_outer_step(float rate, float momentum, bool nesterov, fast_view w, fast_view z,
                           fast_view d)
{
    const fast_view views[] = { w, z, d };
    float *x[3];

    for (int k = 0; k < 3; k++) {
        FAST_ASSERT(views[k].count == w.count && views[k].device == w.device);
        x[k] = fast__view_map(views[k], FAST_ACCESS_UPDATE);
    }
    for (int64_t i = 0; i < w.count; i++) {
        const float gain = rate * (x[0][i] - x[1][i]);

        x[2][i] = momentum * x[2][i] + gain;
        x[1][i] += nesterov ? momentum * x[2][i] + gain : x[2][i];
        x[0][i] = x[1][i];
    }
    for (int k = 2; k >= 0; k--)
        fast__view_unmap(views[k], FAST_ACCESS_UPDATE, x[k]);
}

void fast__view_soft_threshold(float t, fast_view y)
{
    float *to = fast__view_map(y, FAST_ACCESS_UPDATE);

    FAST_ASSERT(t >= 0);
    for (int64_t i = 0; i < y.count; i++)
        to[i] = fabsf(to[i]) <= t ? 0 : to[i] - copysignf(t, to[i]);
    fast__view_unmap(y, FAST_ACCESS_UPDATE, to);
}

void fast__view_race_load(fast_view shared, fast_view to)
{
    FAST_ASSERT(shared.count == to.count);
    const float *from = open_input(shared);
    float *out = fast__view_map(to, FAST_ACCESS_WRITE);

    fast__race_load((const _Atomic float *)(const void *)from, out, to.count);
    fast__view_unmap(to, FAST_ACCESS_WRITE, out);
    close_input(shared, from);
}

/* The shared vector is opened for an update, although all of it is written: a device may fill
 * memory that is opened for writing alone, and another thread would read that. */
void fast__view_race_store(fast_view from, fast_view shared)
{
    FAST_ASSERT(shared.count == from.count);
    const view_pair p = open_pair(from, shared);

    fast__race_store((_Atomic float *)(void *)p.y, p.x, from.count);
    close_pair(from, shared, p);
}

/* Opened for an update for the reason above. */
void fast__view_stream(fast_view from, fast_view to)
{
    FAST_ASSERT(from.count == to.count);
    FAST_ASSERT((uintptr_t)to.at % 16 == 0);
    const view_pair p = open_pair(from, to);

    fast__stream_copy(p.y, p.x, to.count);
    close_pair(from, to, p);
}

uint64_t fast__view_hash(fast_view x, uint64_t seed)
{
    const float *from = open_input(x);
    const uint64_t hash = fast__hash(from, (size_t)x.count * sizeof *from, seed);

    close_input(x, from);
    return hash;
}
