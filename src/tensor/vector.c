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
 */
#include "tensor/vector.h"

#include "tensor/clones.h"

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

void fast__vector_fill(int64_t n, float a, float *y)
{
    FAST_ASSERT(n >= 0);
    const float zero = 0; /* the bits, not the value: -0 is not all zeros */
    if (n > 0 && memcmp(&a, &zero, sizeof a) == 0)
        memset(y, 0, (size_t)n * sizeof *y); /* writes without reading first where that pays */
    else
        fill(n, a, y);
}

void fast__vector_scale(int64_t n, float a, float *y)
{
    FAST_ASSERT(n >= 0);
    scale(n, a, y);
}

void fast__vector_add(int64_t n, const float *x, float *y)
{
    FAST_ASSERT(n >= 0);
    add(n, x, y);
}

void fast__vector_axpy(int64_t n, float a, const float *x, float *y)
{
    FAST_ASSERT(n >= 0);
    axpy(n, a, x, y);
}

void fast__vector_axpby(int64_t n, float a, const float *x, float b, float *y)
{
    FAST_ASSERT(n >= 0);
    axpby(n, a, x, b, y);
}

void fast__vector_mix(int64_t n, float a, const float *x, float *y)
{
    FAST_ASSERT(n >= 0);
    mix(n, a, x, y);
}

void fast__vector_difference(int64_t n, float a, const float *x, float *y)
{
    FAST_ASSERT(n >= 0);
    difference(n, a, x, y);
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

double fast__vector_dot(int64_t n, const float *x, const float *y)
{
    FAST_ASSERT(n >= 0);
    double lane[FAST_LANES];
    const int64_t whole = n - n % FAST_LANES;
    dot_lanes(whole, x, y, lane);
    return sum_lanes(n - whole, x + whole, y + whole, lane);
}

double fast__vector_norm2(int64_t n, const float *x)
{
    FAST_ASSERT(n >= 0);
    double lane[FAST_LANES] = { 0 };
    const int64_t whole = n - n % FAST_LANES;
    norm2_lanes(whole, x, lane);
    return sum_lanes(n - whole, x + whole, x + whole, lane);
}

double fast__vector_norm2_max(int64_t n, const float *x, float *max_out)
{
    FAST_ASSERT(n >= 0);
    double lane[FAST_LANES] = { 0 };
    const int64_t whole = n - n % FAST_LANES;
    uint32_t most = max_bits(n - whole, x + whole);
    for (int64_t i = 0; i < whole; i += BLOCK) {
        const int64_t m = whole - i < BLOCK ? whole - i : BLOCK;
        const uint32_t bits = max_bits(m, x + i);
        most = bits > most ? bits : most;
        norm2_lanes(m, x + i, lane);
    }
    memcpy(max_out, &most, sizeof most);
    return sum_lanes(n - whole, x + whole, x + whole, lane);
}

float fast__vector_max_abs(int64_t n, const float *x)
{
    FAST_ASSERT(n >= 0);
    const uint32_t bits = max_bits(n, x);
    float most;
    memcpy(&most, &bits, sizeof most);
    return most;
}

bool fast__vector_finite(int64_t n, const float *x)
{
    FAST_ASSERT(n >= 0);
    return max_bits(n, x) < 0x7f800000;
}
