/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector kernels: y = a x + b y and its relatives, dot products and checks, at the speed of memory.
 *
 * Each is a plain loop that the compiler turns into vector code, three times over (clones.h). The
 * bits do not depend on which one runs: elements are independent and nothing is contracted, and a
 * sum is made of FAST_LANES partial sums, element i in lane i mod FAST_LANES, added as a balanced
 * tree:
 *
 *     for (width = 16; width; width /= 2)  lane[j] += lane[j + width],  j < width
 *
 * Sums are in double: a product of two floats is exact there, so the error of a dot product does
 * not grow with its length in any way that training would see.
 *
 * A call dispatches on the devices of its vectors: a device's own kernel where it has one and both
 * vectors are there, else the host's on mapped memory. Where only the host exists this is a branch.
 */
#include "tensor/vector.h"

#include "base/hash.h"
#include "tensor/clones.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 4096 }; /* floats that stay in the first-level cache between two looks at them */

FAST_CLONES static void fill(int64_t n, float a, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++)
        y[i] = a;
}

FAST_CLONES static void scale(int64_t n, float a, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++)
        y[i] *= a;
}

FAST_CLONES static void divide(int64_t n, float a, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++)
        y[i] /= a;
}

FAST_CLONES static void add(int64_t n, const float *x, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

FAST_CLONES static void axpy(int64_t n, float a, const float *x, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

FAST_CLONES static void axpby(int64_t n, float a, const float *x, float b, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++)
        y[i] = a * x[i] + b * y[i];
}

FAST_CLONES static void mix(int64_t n, float a, const float *x, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++)
        y[i] += a * (x[i] - y[i]);
}

FAST_CLONES static void difference(int64_t n, float a, const float *x, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++)
        y[i] = a * (x[i] - y[i]);
}

/* Add to each lane the products of its elements; n is a multiple of FAST_LANES. */
FAST_CLONES static void dot_lanes(int64_t n, const float *x, const float *y,
                                  double lane[FAST_LANES])
{
    double sum[FAST_LANES] = { 0 }; /* registers; `lane` would be memory */
    for (int64_t i = 0; i < n; i += FAST_LANES) {
        FAST_EACH
        for (int j = 0; j < FAST_LANES; j++)
            sum[j] += (double)x[i + j] * (double)y[i + j];
    }
    memcpy(lane, sum, sizeof sum);
}

/* Add to each lane the squares of its elements, which are converted once. */
FAST_CLONES static void norm2_lanes(int64_t n, const float *x, double lane[FAST_LANES])
{
    double sum[FAST_LANES];
    memcpy(sum, lane, sizeof sum);
    for (int64_t i = 0; i < n; i += FAST_LANES) {
        FAST_EACH
        for (int j = 0; j < FAST_LANES; j++) {
            const double v = (double)x[i + j];
            sum[j] += v * v;
        }
    }
    memcpy(lane, sum, sizeof sum);
}

/* Without their sign the bits of floats are ordered like the numbers, infinity above them and every
 * NaN above infinity: the largest bits are the answer to both questions. */
FAST_CLONES static uint32_t max_bits(int64_t n, const float *x)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return most;
}

/* The clones above are local, since not every compiler gives a clone a name to link with. */

/* The vectors of one call. */
typedef struct vector_pair {
    const float *x;         /* read; where the host has it */
    float *y;               /* where the host has it */
    const fast_device *own; /* computes by its own kernels; NULL: the host does */
    bool mapped;            /* they must be unmapped */
} vector_pair;

static vector_pair open_device(int64_t n, const float *x, float *y, fast_access access)
{
    const fast_device *device = fast__device_find(y);

    if (device->kernels && fast__device_find(x) == device)
        return (vector_pair){ x, y, .own = device };
    return (vector_pair){ fast__map(x, n, FAST_ACCESS_READ), fast__map(y, n, access),
                          .mapped = true };
}

/* Open x for reading and y for `access`; one vector alone is passed twice. */
static inline vector_pair open_pair(int64_t n, const float *x, float *y, fast_access access)
{
    FAST_ASSERT(n >= 0);
    return fast__devices_exist() ? open_device(n, x, y, access) : (vector_pair){ x, y };
}

static inline void close_pair(const vector_pair *p, int64_t n, const float *x, float *y,
                              fast_access access)
{
    if (p->mapped) {
        fast__unmap(y, n, access);
        fast__unmap(x, n, FAST_ACCESS_READ);
    }
}

/* An input of a call without result vector. */
static vector_pair open_input(int64_t n, const float *x)
{
    return open_pair(n, x, (float *)(uintptr_t)x, FAST_ACCESS_READ);
}

static void close_input(const vector_pair *p, int64_t n, const float *x)
{
    close_pair(p, n, x, (float *)(uintptr_t)x, FAST_ACCESS_READ);
}

void fast__vector_copy(int64_t n, const void *x, void *y)
{
    if (x == y)
        return;
    const vector_pair p = open_pair(n, x, y, FAST_ACCESS_WRITE);
    if (p.own)
        p.own->kernels->copy(p.own, n, x, y);
    else if (n > 0)
        memcpy(p.y, p.x, (size_t)n * sizeof *p.y);
    close_pair(&p, n, x, y, FAST_ACCESS_WRITE);
}

void fast__vector_fill(int64_t n, float a, float *y)
{
    const vector_pair p = open_pair(n, y, y, FAST_ACCESS_UPDATE);
    const float zero = 0; /* the bits, not the value: -0 is not all zeros */

    if (p.own)
        p.own->kernels->fill(p.own, n, a, y);
    else if (n > 0 && memcmp(&a, &zero, sizeof a) == 0)
        memset(p.y, 0, (size_t)n * sizeof *y); /* writes without reading first where that pays */
    else
        fill(n, a, p.y);
    close_pair(&p, n, y, y, FAST_ACCESS_UPDATE);
}

void fast__vector_scale(int64_t n, float a, float *y)
{
    const vector_pair p = open_pair(n, y, y, FAST_ACCESS_UPDATE);

    if (p.own)
        p.own->kernels->scale(p.own, n, a, y);
    else
        scale(n, a, p.y);
    close_pair(&p, n, y, y, FAST_ACCESS_UPDATE);
}

void fast__vector_divide(int64_t n, float a, float *y)
{
    FAST_ASSERT(n >= 0);
    divide(n, a, fast__map(y, n, FAST_ACCESS_UPDATE));
    fast__unmap(y, n, FAST_ACCESS_UPDATE);
}

void fast__vector_add(int64_t n, const float *x, float *y)
{
    const vector_pair p = open_pair(n, x, y, FAST_ACCESS_UPDATE);

    if (p.own)
        p.own->kernels->add(p.own, n, x, y);
    else
        add(n, p.x, p.y);
    close_pair(&p, n, x, y, FAST_ACCESS_UPDATE);
}

void fast__vector_axpy(int64_t n, float a, const float *x, float *y)
{
    const vector_pair p = open_pair(n, x, y, FAST_ACCESS_UPDATE);

    if (p.own)
        p.own->kernels->axpy(p.own, n, a, x, y);
    else
        axpy(n, a, p.x, p.y);
    close_pair(&p, n, x, y, FAST_ACCESS_UPDATE);
}

void fast__vector_axpby(int64_t n, float a, const float *x, float b, float *y)
{
    const vector_pair p = open_pair(n, x, y, FAST_ACCESS_UPDATE);

    if (p.own)
        p.own->kernels->axpby(p.own, n, a, x, b, y);
    else
        axpby(n, a, p.x, b, p.y);
    close_pair(&p, n, x, y, FAST_ACCESS_UPDATE);
}

void fast__vector_mix(int64_t n, float a, const float *x, float *y)
{
    const vector_pair p = open_pair(n, x, y, FAST_ACCESS_UPDATE);

    if (p.own)
        p.own->kernels->mix(p.own, n, a, x, y);
    else
        mix(n, a, p.x, p.y);
    close_pair(&p, n, x, y, FAST_ACCESS_UPDATE);
}

void fast__vector_difference(int64_t n, float a, const float *x, float *y)
{
    const vector_pair p = open_pair(n, x, y, FAST_ACCESS_UPDATE);

    if (p.own)
        p.own->kernels->difference(p.own, n, a, x, y);
    else
        difference(n, a, p.x, p.y);
    close_pair(&p, n, x, y, FAST_ACCESS_UPDATE);
}

/* Add the products of the last n < FAST_LANES elements, and the lanes. */
static double sum_lanes(int64_t n, const float *x, const float *y, double lane[FAST_LANES])
{
    FAST_ASSERT(n < FAST_LANES);
    for (int64_t i = 0; i < n; i++)
        lane[i] += (double)x[i] * (double)y[i];
    for (int width = FAST_LANES / 2; width > 0; width /= 2) {
        for (int j = 0; j < width; j++)
            lane[j] += lane[j + width];
    }
    return lane[0];
}

/* The sum of products; both vectors are the host's. */
static double host_dot(int64_t n, const float *x, const float *y)
{
    double lane[FAST_LANES];
    const int64_t whole = n - n % FAST_LANES;

    dot_lanes(whole, x, y, lane);
    return sum_lanes(n - whole, x + whole, y + whole, lane);
}

double fast__vector_dot(int64_t n, const float *x, const float *y)
{
    float *other = (float *)(uintptr_t)y;
    const vector_pair p = open_pair(n, x, other, FAST_ACCESS_READ);
    const double sum = p.own ? p.own->kernels->dot(p.own, n, x, y) : host_dot(n, p.x, p.y);

    close_pair(&p, n, x, other, FAST_ACCESS_READ);
    return sum;
}

/* The sum of squares; the vector is the host's. */
static double host_norm2(int64_t n, const float *x)
{
    double lane[FAST_LANES] = { 0 };
    const int64_t whole = n - n % FAST_LANES;

    norm2_lanes(whole, x, lane);
    return sum_lanes(n - whole, x + whole, x + whole, lane);
}

double fast__vector_norm2(int64_t n, const float *x)
{
    const vector_pair p = open_input(n, x);
    const double sum = p.own ? p.own->kernels->norm2(p.own, n, x) : host_norm2(n, p.x);

    close_input(&p, n, x);
    return sum;
}

/* The sum of squares, and the largest bits in *most, of a vector of the host's. */
static double host_norm2_max(int64_t n, const float *x, uint32_t *most)
{
    double lane[FAST_LANES] = { 0 };
    const int64_t whole = n - n % FAST_LANES;

    *most = max_bits(n - whole, x + whole);
    for (int64_t i = 0; i < whole; i += BLOCK) {
        const int64_t m = whole - i < BLOCK ? whole - i : BLOCK;
        const uint32_t bits = max_bits(m, x + i);

        *most = bits > *most ? bits : *most;
        norm2_lanes(m, x + i, lane);
    }
    return sum_lanes(n - whole, x + whole, x + whole, lane);
}

double fast__vector_norm2_max(int64_t n, const float *x, float *max_out)
{
    const float *from = fast__map(x, n, FAST_ACCESS_READ);
    uint32_t most;

    FAST_ASSERT(n >= 0);
    const double sum = host_norm2_max(n, from, &most);
    fast__unmap(x, n, FAST_ACCESS_READ);
    memcpy(max_out, &most, sizeof most);
    return sum;
}

/* The largest element without its sign, of a vector of the host's. */
static float host_max_abs(int64_t n, const float *x)
{
    const uint32_t bits = max_bits(n, x);
    float most;

    memcpy(&most, &bits, sizeof most);
    return most;
}

float fast__vector_max_abs(int64_t n, const float *x)
{
    const vector_pair p = open_input(n, x);
    const float most = p.own ? p.own->kernels->max_abs(p.own, n, x) : host_max_abs(n, p.x);

    close_input(&p, n, x);
    return most;
}

bool fast__vector_finite(int64_t n, const float *x)
{
    return __builtin_isfinite(fast__vector_max_abs(n, x));
}

bool fast__vector_equal(int64_t n, const void *x, const void *y)
{
    const void *a = fast__map(x, n, FAST_ACCESS_READ), *b = fast__map(y, n, FAST_ACCESS_READ);
    const bool equal = n == 0 || memcmp(a, b, (size_t)n * sizeof(float)) == 0;

    fast__unmap(y, n, FAST_ACCESS_READ);
    fast__unmap(x, n, FAST_ACCESS_READ);
    return equal;
}

void fast__vector_clear(int64_t n, const float *x, float *y)
{
    const float *from = fast__map(x, n, FAST_ACCESS_READ);
    float *to = fast__map(y, n, FAST_ACCESS_UPDATE);

    for (int64_t i = 0; i < n; i++)
        to[i] = from[i] != 0 ? 0 : to[i];
    fast__unmap(y, n, FAST_ACCESS_UPDATE);
    fast__unmap(x, n, FAST_ACCESS_READ);
}

/* In blocks, so that a vector that is not in memory is mapped part by part. */
uint64_t fast__vector_hash(int64_t n, const float *x, uint64_t seed)
{
    enum { PART = 1 << 20 };
    fast_hash_sum hash;
    int64_t at = 0;

    _Static_assert(PART * sizeof *x % FAST_HASH_STRIPE == 0, "blocks are whole stripes");
    fast__hash_begin(&hash, seed);
    for (; n - at > PART; at += PART) {
        fast__hash_add(&hash, fast__map(x + at, PART, FAST_ACCESS_READ), PART * sizeof *x);
        fast__unmap(x + at, PART, FAST_ACCESS_READ);
    }
    const uint64_t sum = fast__hash_end(&hash, fast__map(x + at, n - at, FAST_ACCESS_READ),
                                        (size_t)(n - at) * sizeof *x);
    fast__unmap(x + at, n - at, FAST_ACCESS_READ);
    return sum;
}

void fast__vector_extent(int64_t n, const float *x, int64_t *first, int64_t *end)
{
    const float *at = fast__map(x, n, FAST_ACCESS_READ);
    int64_t low = 0, high = n;

    while (low < high && max_bits(1, at + low) == 0 && !signbit(at[low]))
        low++;
    while (low < high && max_bits(1, at + high - 1) == 0 && !signbit(at[high - 1]))
        high--;
    fast__unmap(x, n, FAST_ACCESS_READ);
    *first = low < high ? low : 0;
    *end = low < high ? high : 0;
}
