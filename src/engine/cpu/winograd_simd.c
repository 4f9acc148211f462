/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Winograd transforms of tiles with the batch innermost: every operation is on a register of lanes,
 * so a transform is the scalar formula and needs no shuffles. The variants differ in their
 * constants only; winograd_tile.inc is expanded for each. The vectors of one map, up to 8 in and 8
 * out, are all that registers hold; the block between the two maps is in memory.
 */
#define VEC_INLINE static inline __attribute__((always_inline))
#include "engine/cpu/vec.h"
#include "engine/cpu/winograd_kernels.h"
#include "engine/cpu/winograd_transforms.h"

#define UNROLL _Pragma("GCC unroll 8")

/* Load a vector, times a weight if `scale` is not NULL. */
VEC_INLINE fast_vec scaled(const float *from, const float *scale)
{
    return scale ? vec_load(from) * vec_set(*scale) : vec_load(from);
}

/* Tell whether the whole tile, of `extent` pixels a side, is inside the image. */
VEC_INLINE bool is_inside(const fast_winograd_tile *tile, int extent)
{
    return tile->first[0] == 0 && tile->first[1] == 0 && tile->end[0] == extent &&
           tile->end[1] == extent;
}

/* Prefetch to the second-level cache what is `floats` after an address, maybe past an array's end:
 * an integer, since a pointer must not be formed there. */
VEC_INLINE void prefetch(const float *at, int64_t floats, const bool write)
{
    const void *to = (const void *)((uintptr_t)at + (uintptr_t)floats * sizeof *at);

    if (write)
        __builtin_prefetch(to, 1, 2);
    else
        __builtin_prefetch(to, 0, 2);
}

/* Names and maps of a variant, from M, R and N as winograd_tile.inc finds them. */
#define JOIN(a, b)      JOIN_(a, b)
#define JOIN_(a, b)     a##b
#define JOIN3(a, m, r)  JOIN3_(a, m, r)
#define JOIN3_(a, m, r) a##_##m##_##r
#define NAME(x)         JOIN3(x, M, R)
#define MAP_BT          JOIN(winograd_bt_, N)
#define MAP_B           JOIN(winograd_b_, N)
#define MAP_AT          JOIN3(winograd_at, M, R)
#define MAP_A           JOIN3(winograd_a, M, R)
#define MAP_G           JOIN3(winograd_g, M, R)
#define MAP_GT          JOIN3(winograd_gt, M, R)

#define M 2
#define R 3
#define N 4
#include "engine/cpu/winograd_tile.inc"

#define M 4
#define R 3
#define N 6
#include "engine/cpu/winograd_tile.inc"

#define M 6
#define R 3
#define N 8
#include "engine/cpu/winograd_tile.inc"

#define M 2
#define R 5
#define N 6
#include "engine/cpu/winograd_tile.inc"

#define M 4
#define R 5
#define N 8
#include "engine/cpu/winograd_tile.inc"

#define KERNELS(m_, r_)                                                                  \
    {                                                                                    \
        .m = m_, .r = r_, .n = m_ + r_ - 1, .input = input_##m_##_##r_,                  \
        .output = output_##m_##_##r_, .output_grad = output_grad_##m_##_##r_,            \
        .input_grad = input_grad_##m_##_##r_, .weights = weights_##m_##_##r_,            \
        .weights_grad = weights_grad_##m_##_##r_, .weights_one = weights_one_##m_##_##r_ \
    }

const fast_winograd_list_kernels FAST_SIMD(fast__winograd_list_kernels) = {
    KERNELS(2, 3), KERNELS(4, 3), KERNELS(6, 3), KERNELS(2, 5), KERNELS(4, 5),
};
