/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Question: do the vector kernels reach memory bandwidth?
 * Bound: what memcpy() moves on the same bytes in the same run. A kernel moves the bytes that it
 * reads and writes; one that reads more than it writes can be faster than memcpy.
 * Method: vectors far larger than the caches, and again ones that fit into the second cache; the
 * kernels alternate, and the best of the rounds counts, since other programs disturb some of them.
 * Expected: 0.9 or more of memcpy out of the caches.
 */
#include "tensor/vector.h"
#include "base/clock.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 15, KERNELS = 17 };

static float *x, *y;
static volatile double sink; /* keeps results from being optimised away */

static const struct {
    const char *name;
    int bytes; /* moved for each element */
    fast_dtype from, to;
} kernels[KERNELS] = {
    { "memcpy", 8, 0, 0 },
    { "memset", 4, 0, 0 },
    { "fill", 4, 0, 0 },
    { "scale", 8, 0, 0 },
    { "add", 12, 0, 0 },
    { "axpy", 12, 0, 0 },
    { "axpby", 12, 0, 0 },
    { "dot", 8, 0, 0 },
    { "norm2", 4, 0, 0 },
    { "max_abs", 4, 0, 0 },
    { "f32 to f16", 6, FAST_F32, FAST_F16 },
    { "f16 to f32", 6, FAST_F16, FAST_F32 },
    { "f32 to bf16", 6, FAST_F32, FAST_BF16 },
    { "bf16 to f32", 6, FAST_BF16, FAST_F32 },
    { "f32 to i8", 5, FAST_F32, FAST_I8 },
    { "i8 to f32", 5, FAST_I8, FAST_F32 },
    { "u8 to f32", 5, FAST_U8, FAST_F32 },
};

static void run(int kernel, int64_t n)
{
    switch (kernel) {
    case 0:
        memcpy(y, x, (size_t)n * sizeof *x);
        break;
    case 1:
        memset(y, 0, (size_t)n * sizeof *y);
        break;
    case 2:
        fast__vector_fill(n, 1.5f, y);
        break;
    case 3:
        fast__vector_scale(n, 1.0000001f, y);
        break;
    case 4:
        fast__vector_add(n, x, y);
        break;
    case 5:
        fast__vector_axpy(n, 0.5f, x, y);
        break;
    case 6:
        fast__vector_axpby(n, 0.5f, x, 0.5f, y);
        break;
    case 7:
        sink = fast__vector_dot(n, x, y);
        break;
    case 8:
        sink = fast__vector_norm2(n, x);
        break;
    case 9:
        sink = (double)fast__vector_max_abs(n, x);
        break;
    default:
        fast__vector_convert(n, kernels[kernel].from, x, kernels[kernel].to, y, 100);
    }
}

static int compare(const void *a, const void *b)
{
    const double x1 = *(const double *)a, x2 = *(const double *)b;
    return (x1 > x2) - (x1 < x2);
}

static void measure(int64_t n, int repeats)
{
    static double rates[KERNELS][ROUNDS];
    for (int round = -1; round < ROUNDS; round++) { /* the first warms up */
        for (int k = 0; k < KERNELS; k++) {
            for (int64_t i = 0; i < n; i++)
                x[i] = (float)(i % 97) * 0.01f;
            memcpy(y, x, (size_t)n * sizeof *x);
            run(k, n);
            const int64_t start = fast__clock_ns();
            for (int r = 0; r < repeats; r++)
                run(k, n);
            const double ns = (double)(fast__clock_ns() - start);
            if (round >= 0)
                rates[k][round] = (double)kernels[k].bytes * (double)n * repeats / ns;
        }
    }
    printf("%lld floats (%.1f MB)\n", (long long)n, (double)n * 4e-6);
    for (int k = 0; k < KERNELS; k++)
        qsort(rates[k], ROUNDS, sizeof(double), compare);
    for (int k = 0; k < KERNELS; k++) {
        const double best = rates[k][ROUNDS - 1], base = rates[0][ROUNDS - 1];
        printf("  %-12s %7.1f GB/s (median %.1f), %.2f of memcpy\n", kernels[k].name, best,
               rates[k][ROUNDS / 2], best / base);
    }
}

int main(void)
{
    const int64_t large = 32 << 20, small = 60000;
    if (fast__alloc("x", large, sizeof *x, &x) || fast__alloc("y", large, sizeof *y, &y)) {
        fprintf(stderr, "%s\n", fast_error_detail());
        return 1;
    }
    measure(large, 1);
    measure(small, 200);
    fast__free(x);
    fast__free(y);
    return 0;
}
