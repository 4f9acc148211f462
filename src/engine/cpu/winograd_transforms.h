/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/vec.h"

/*
 * The one-dimensional transforms of Winograd's convolutions (Lavin and Gray, "Fast Algorithms for
 * Convolutional Neural Networks", 2015), made and checked by tools/winograd.py: change that.
 * F(m, r) is m outputs of a filter with r taps, from n = m + r - 1 inputs:
 *
 *   y = A' ((G g) . (B' d))
 *
 * Points: n = 4: 0, 1, -1; n = 6: 0, 3/4, -3/4, 3/2, -3/2; n = 8: 0, 1, -1, 2, -2, 1/2, -1/2; and
 * infinity. x and y may not overlap.
 */
#define WINOGRAD_INLINE static inline __attribute__((always_inline, unused))
/* clang-format off */

/* Rows of two points that differ in sign: the even terms plus and minus the odd ones. */
#define WINOGRAD_PAIR(even, odd, y)            \
    do {                                       \
        const fast_vec e_ = (even), o_ = (odd); \
        (y)[0] = e_ + o_;                      \
        (y)[1] = e_ - o_;                      \
    } while (0)

/* B', n = 4: inputs.
 *      1  0 -1  0
 *      0  1  1  0
 *      0 -1  1  0
 *      0 -1  0  1
 */
WINOGRAD_INLINE void winograd_bt_4(const fast_vec x[4], fast_vec y[4])
{
    WINOGRAD_PAIR(x[2], x[1], y + 1);
    y[0] = x[0] - x[2];
    y[3] = x[3] - x[1];
}

/* B, n = 4: gradient of inputs. */
WINOGRAD_INLINE void winograd_b_4(const fast_vec x[4], fast_vec y[4])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    y[0] = x[0];
    y[1] = d1 - x[3];
    y[2] = s1 - x[0];
    y[3] = x[3];
}

/* B', n = 6: inputs.
 *      81/64      0 -45/16      0      1      0
 *          0 -27/16   -9/4    3/4      1      0
 *          0  27/16   -9/4   -3/4      1      0
 *          0 -27/32  -9/16    3/2      1      0
 *          0  27/32  -9/16   -3/2      1      0
 *          0  81/64      0 -45/16      0      1
 */
WINOGRAD_INLINE void winograd_bt_6(const fast_vec x[6], fast_vec y[6])
{
    WINOGRAD_PAIR(x[4] - 2.25f * x[2], -1.6875f * x[1] + 0.75f * x[3], y + 1);
    WINOGRAD_PAIR(x[4] - 0.5625f * x[2], -0.84375f * x[1] + 1.5f * x[3], y + 3);
    y[0] = x[4] + 1.265625f * x[0] - 2.8125f * x[2];
    y[5] = x[5] + 1.265625f * x[1] - 2.8125f * x[3];
}

/* B, n = 6: gradient of inputs. */
WINOGRAD_INLINE void winograd_b_6(const fast_vec x[6], fast_vec y[6])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    const fast_vec s3 = x[3] + x[4], d3 = x[3] - x[4];
    y[0] = 1.265625f * x[0];
    y[1] = 1.265625f * x[5] - 1.6875f * d1 - 0.84375f * d3;
    y[2] = -2.8125f * x[0] - 2.25f * s1 - 0.5625f * s3;
    y[3] = -2.8125f * x[5] + 0.75f * d1 + 1.5f * d3;
    y[4] = x[0] + s1 + s3;
    y[5] = x[5];
}

/* B', n = 8: inputs.
 *         1     0 -21/4     0  21/4     0    -1     0
 *         0     1     1 -17/4 -17/4     1     1     0
 *         0    -1     1  17/4 -17/4    -1     1     0
 *         0   1/2   1/4  -5/2  -5/4     2     1     0
 *         0  -1/2   1/4   5/2  -5/4    -2     1     0
 *         0     2     4  -5/2    -5   1/2     1     0
 *         0    -2     4   5/2    -5  -1/2     1     0
 *         0    -1     0  21/4     0 -21/4     0     1
 */
WINOGRAD_INLINE void winograd_bt_8(const fast_vec x[8], fast_vec y[8])
{
    WINOGRAD_PAIR(x[2] + x[6] - 4.25f * x[4], x[1] + x[5] - 4.25f * x[3], y + 1);
    WINOGRAD_PAIR(x[6] + 0.25f * x[2] - 1.25f * x[4], 0.5f * x[1] - 2.5f * x[3] + 2.0f * x[5],
        y + 3);
    WINOGRAD_PAIR(x[6] + 4.0f * x[2] - 5.0f * x[4], 2.0f * x[1] - 2.5f * x[3] + 0.5f * x[5], y + 5);
    y[0] = x[0] - x[6] - 5.25f * x[2] + 5.25f * x[4];
    y[7] = x[7] - x[1] + 5.25f * x[3] - 5.25f * x[5];
}

/* B, n = 8: gradient of inputs. */
WINOGRAD_INLINE void winograd_b_8(const fast_vec x[8], fast_vec y[8])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    const fast_vec s3 = x[3] + x[4], d3 = x[3] - x[4];
    const fast_vec s5 = x[5] + x[6], d5 = x[5] - x[6];
    y[0] = x[0];
    y[1] = d1 - x[7] + 0.5f * d3 + 2.0f * d5;
    y[2] = s1 - 5.25f * x[0] + 0.25f * s3 + 4.0f * s5;
    y[3] = 5.25f * x[7] - 4.25f * d1 - 2.5f * d3 - 2.5f * d5;
    y[4] = 5.25f * x[0] - 4.25f * s1 - 1.25f * s3 - 5.0f * s5;
    y[5] = d1 - 5.25f * x[7] + 2.0f * d3 + 0.5f * d5;
    y[6] = s1 + s3 + s5 - x[0];
    y[7] = x[7];
}

/* A', F(2, 3): outputs.
 *      1  1  1  0
 *      0  1 -1  1
 */
WINOGRAD_INLINE void winograd_at_2_3(const fast_vec x[4], fast_vec y[2])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    y[0] = x[0] + s1;
    y[1] = x[3] + d1;
}

/* A, F(2, 3): gradient of outputs. */
WINOGRAD_INLINE void winograd_a_2_3(const fast_vec x[2], fast_vec y[4])
{
    WINOGRAD_PAIR(x[0], x[1], y + 1);
    y[0] = x[0];
    y[3] = x[1];
}

/* G, F(2, 3): weights.
 *        1    0    0
 *      1/2  1/2  1/2
 *      1/2 -1/2  1/2
 *        0    0    1
 */
WINOGRAD_INLINE void winograd_g_2_3(const fast_vec x[3], fast_vec y[4])
{
    WINOGRAD_PAIR(0.5f * x[0] + 0.5f * x[2], 0.5f * x[1], y + 1);
    y[0] = x[0];
    y[3] = x[2];
}

/* G', F(2, 3): gradient of weights. */
WINOGRAD_INLINE void winograd_gt_2_3(const fast_vec x[4], fast_vec y[3])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    y[0] = x[0] + 0.5f * s1;
    y[1] = 0.5f * d1;
    y[2] = x[3] + 0.5f * s1;
}

/* A', F(4, 3): outputs.
 *          1      1      1      1      1      0
 *          0    3/4   -3/4    3/2   -3/2      0
 *          0   9/16   9/16    9/4    9/4      0
 *          0  27/64 -27/64   27/8  -27/8      1
 */
WINOGRAD_INLINE void winograd_at_4_3(const fast_vec x[6], fast_vec y[4])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    const fast_vec s3 = x[3] + x[4], d3 = x[3] - x[4];
    y[0] = x[0] + s1 + s3;
    y[1] = 0.75f * d1 + 1.5f * d3;
    y[2] = 0.5625f * s1 + 2.25f * s3;
    y[3] = x[5] + 0.421875f * d1 + 3.375f * d3;
}

/* A, F(4, 3): gradient of outputs. */
WINOGRAD_INLINE void winograd_a_4_3(const fast_vec x[4], fast_vec y[6])
{
    WINOGRAD_PAIR(x[0] + 0.5625f * x[2], 0.75f * x[1] + 0.421875f * x[3], y + 1);
    WINOGRAD_PAIR(x[0] + 2.25f * x[2], 1.5f * x[1] + 3.375f * x[3], y + 3);
    y[0] = x[0];
    y[5] = x[3];
}

/* G, F(4, 3): weights.
 *        64/81        0        0
 *     -128/243   -32/81    -8/27
 *     -128/243    32/81    -8/27
 *       32/243    16/81     8/27
 *       32/243   -16/81     8/27
 *            0        0        1
 */
WINOGRAD_INLINE void winograd_g_4_3(const fast_vec x[3], fast_vec y[6])
{
    WINOGRAD_PAIR(-0.5267489711934157f * x[0] - 0.2962962962962963f * x[2],
        -0.3950617283950617f * x[1], y + 1);
    WINOGRAD_PAIR(0.13168724279835392f * x[0] + 0.2962962962962963f * x[2],
        0.19753086419753085f * x[1], y + 3);
    y[0] = 0.7901234567901234f * x[0];
    y[5] = x[2];
}

/* G', F(4, 3): gradient of weights. */
WINOGRAD_INLINE void winograd_gt_4_3(const fast_vec x[6], fast_vec y[3])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    const fast_vec s3 = x[3] + x[4], d3 = x[3] - x[4];
    y[0] = 0.7901234567901234f * x[0] - 0.5267489711934157f * s1 + 0.13168724279835392f * s3;
    y[1] = -0.3950617283950617f * d1 + 0.19753086419753085f * d3;
    y[2] = x[5] - 0.2962962962962963f * s1 + 0.2962962962962963f * s3;
}

/* A', F(6, 3): outputs.
 *         1     1     1     1     1     1     1     0
 *         0     1    -1     2    -2   1/2  -1/2     0
 *         0     1     1     4     4   1/4   1/4     0
 *         0     1    -1     8    -8   1/8  -1/8     0
 *         0     1     1    16    16  1/16  1/16     0
 *         0     1    -1    32   -32  1/32 -1/32     1
 */
WINOGRAD_INLINE void winograd_at_6_3(const fast_vec x[8], fast_vec y[6])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    const fast_vec s3 = x[3] + x[4], d3 = x[3] - x[4];
    const fast_vec s5 = x[5] + x[6], d5 = x[5] - x[6];
    y[0] = x[0] + s1 + s3 + s5;
    y[1] = d1 + 2.0f * d3 + 0.5f * d5;
    y[2] = s1 + 4.0f * s3 + 0.25f * s5;
    y[3] = d1 + 8.0f * d3 + 0.125f * d5;
    y[4] = s1 + 16.0f * s3 + 0.0625f * s5;
    y[5] = x[7] + d1 + 32.0f * d3 + 0.03125f * d5;
}

/* A, F(6, 3): gradient of outputs. */
WINOGRAD_INLINE void winograd_a_6_3(const fast_vec x[6], fast_vec y[8])
{
    WINOGRAD_PAIR(x[0] + x[2] + x[4], x[1] + x[3] + x[5], y + 1);
    WINOGRAD_PAIR(x[0] + 4.0f * x[2] + 16.0f * x[4], 2.0f * x[1] + 8.0f * x[3] + 32.0f * x[5],
        y + 3);
    WINOGRAD_PAIR(x[0] + 0.25f * x[2] + 0.0625f * x[4], 0.5f * x[1] + 0.125f * x[3] +
        0.03125f * x[5], y + 5);
    y[0] = x[0];
    y[7] = x[5];
}

/* G, F(6, 3): weights.
 *          1      0      0
 *       -2/9   -2/9   -2/9
 *       -2/9    2/9   -2/9
 *       1/90   1/45   2/45
 *       1/90  -1/45   2/45
 *      32/45  16/45   8/45
 *      32/45 -16/45   8/45
 *          0      0      1
 */
WINOGRAD_INLINE void winograd_g_6_3(const fast_vec x[3], fast_vec y[8])
{
    WINOGRAD_PAIR(-0.2222222222222222f * x[0] - 0.2222222222222222f * x[2],
        -0.2222222222222222f * x[1], y + 1);
    WINOGRAD_PAIR(0.011111111111111112f * x[0] + 0.044444444444444446f * x[2],
        0.022222222222222223f * x[1], y + 3);
    WINOGRAD_PAIR(0.7111111111111111f * x[0] + 0.17777777777777778f * x[2],
        0.35555555555555557f * x[1], y + 5);
    y[0] = x[0];
    y[7] = x[2];
}

/* G', F(6, 3): gradient of weights. */
WINOGRAD_INLINE void winograd_gt_6_3(const fast_vec x[8], fast_vec y[3])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    const fast_vec s3 = x[3] + x[4], d3 = x[3] - x[4];
    const fast_vec s5 = x[5] + x[6], d5 = x[5] - x[6];
    y[0] = x[0] - 0.2222222222222222f * s1 + 0.011111111111111112f * s3 + 0.7111111111111111f * s5;
    y[1] = -0.2222222222222222f * d1 + 0.022222222222222223f * d3 + 0.35555555555555557f * d5;
    y[2] = x[7] - 0.2222222222222222f * s1 + 0.044444444444444446f * s3 + 0.17777777777777778f * s5;
}

/* A', F(2, 5): outputs.
 *        1    1    1    1    1    0
 *        0  3/4 -3/4  3/2 -3/2    1
 */
WINOGRAD_INLINE void winograd_at_2_5(const fast_vec x[6], fast_vec y[2])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    const fast_vec s3 = x[3] + x[4], d3 = x[3] - x[4];
    y[0] = x[0] + s1 + s3;
    y[1] = x[5] + 0.75f * d1 + 1.5f * d3;
}

/* A, F(2, 5): gradient of outputs. */
WINOGRAD_INLINE void winograd_a_2_5(const fast_vec x[2], fast_vec y[6])
{
    WINOGRAD_PAIR(x[0], 0.75f * x[1], y + 1);
    WINOGRAD_PAIR(x[0], 1.5f * x[1], y + 3);
    y[0] = x[0];
    y[5] = x[1];
}

/* G, F(2, 5): weights.
 *        64/81        0        0        0        0
 *     -128/243   -32/81    -8/27     -2/9     -1/6
 *     -128/243    32/81    -8/27      2/9     -1/6
 *       32/243    16/81     8/27      4/9      2/3
 *       32/243   -16/81     8/27     -4/9      2/3
 *            0        0        0        0        1
 */
WINOGRAD_INLINE void winograd_g_2_5(const fast_vec x[5], fast_vec y[6])
{
    WINOGRAD_PAIR(-0.5267489711934157f * x[0] - 0.2962962962962963f * x[2] -
        0.16666666666666666f * x[4], -0.3950617283950617f * x[1] - 0.2222222222222222f * x[3],
        y + 1);
    WINOGRAD_PAIR(0.13168724279835392f * x[0] + 0.2962962962962963f * x[2] +
        0.6666666666666666f * x[4], 0.19753086419753085f * x[1] + 0.4444444444444444f * x[3], y +
        3);
    y[0] = 0.7901234567901234f * x[0];
    y[5] = x[4];
}

/* G', F(2, 5): gradient of weights. */
WINOGRAD_INLINE void winograd_gt_2_5(const fast_vec x[6], fast_vec y[5])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    const fast_vec s3 = x[3] + x[4], d3 = x[3] - x[4];
    y[0] = 0.7901234567901234f * x[0] - 0.5267489711934157f * s1 + 0.13168724279835392f * s3;
    y[1] = -0.3950617283950617f * d1 + 0.19753086419753085f * d3;
    y[2] = -0.2962962962962963f * s1 + 0.2962962962962963f * s3;
    y[3] = -0.2222222222222222f * d1 + 0.4444444444444444f * d3;
    y[4] = x[5] - 0.16666666666666666f * s1 + 0.6666666666666666f * s3;
}

/* A', F(4, 5): outputs.
 *        1    1    1    1    1    1    1    0
 *        0    1   -1    2   -2  1/2 -1/2    0
 *        0    1    1    4    4  1/4  1/4    0
 *        0    1   -1    8   -8  1/8 -1/8    1
 */
WINOGRAD_INLINE void winograd_at_4_5(const fast_vec x[8], fast_vec y[4])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    const fast_vec s3 = x[3] + x[4], d3 = x[3] - x[4];
    const fast_vec s5 = x[5] + x[6], d5 = x[5] - x[6];
    y[0] = x[0] + s1 + s3 + s5;
    y[1] = d1 + 2.0f * d3 + 0.5f * d5;
    y[2] = s1 + 4.0f * s3 + 0.25f * s5;
    y[3] = x[7] + d1 + 8.0f * d3 + 0.125f * d5;
}

/* A, F(4, 5): gradient of outputs. */
WINOGRAD_INLINE void winograd_a_4_5(const fast_vec x[4], fast_vec y[8])
{
    WINOGRAD_PAIR(x[0] + x[2], x[1] + x[3], y + 1);
    WINOGRAD_PAIR(x[0] + 4.0f * x[2], 2.0f * x[1] + 8.0f * x[3], y + 3);
    WINOGRAD_PAIR(x[0] + 0.25f * x[2], 0.5f * x[1] + 0.125f * x[3], y + 5);
    y[0] = x[0];
    y[7] = x[3];
}

/* G, F(4, 5): weights.
 *          1      0      0      0      0
 *       -2/9   -2/9   -2/9   -2/9   -2/9
 *       -2/9    2/9   -2/9    2/9   -2/9
 *       1/90   1/45   2/45   4/45   8/45
 *       1/90  -1/45   2/45  -4/45   8/45
 *      32/45  16/45   8/45   4/45   2/45
 *      32/45 -16/45   8/45  -4/45   2/45
 *          0      0      0      0      1
 */
WINOGRAD_INLINE void winograd_g_4_5(const fast_vec x[5], fast_vec y[8])
{
    WINOGRAD_PAIR(-0.2222222222222222f * x[0] - 0.2222222222222222f * x[2] -
        0.2222222222222222f * x[4], -0.2222222222222222f * x[1] - 0.2222222222222222f * x[3], y +
        1);
    WINOGRAD_PAIR(0.011111111111111112f * x[0] + 0.044444444444444446f * x[2] +
        0.17777777777777778f * x[4], 0.022222222222222223f * x[1] + 0.08888888888888889f * x[3],
        y + 3);
    WINOGRAD_PAIR(0.7111111111111111f * x[0] + 0.17777777777777778f * x[2] +
        0.044444444444444446f * x[4], 0.35555555555555557f * x[1] + 0.08888888888888889f * x[3],
        y + 5);
    y[0] = x[0];
    y[7] = x[4];
}

/* G', F(4, 5): gradient of weights. */
WINOGRAD_INLINE void winograd_gt_4_5(const fast_vec x[8], fast_vec y[5])
{
    const fast_vec s1 = x[1] + x[2], d1 = x[1] - x[2];
    const fast_vec s3 = x[3] + x[4], d3 = x[3] - x[4];
    const fast_vec s5 = x[5] + x[6], d5 = x[5] - x[6];
    y[0] = x[0] - 0.2222222222222222f * s1 + 0.011111111111111112f * s3 + 0.7111111111111111f * s5;
    y[1] = -0.2222222222222222f * d1 + 0.022222222222222223f * d3 + 0.35555555555555557f * d5;
    y[2] = -0.2222222222222222f * s1 + 0.044444444444444446f * s3 + 0.17777777777777778f * s5;
    y[3] = -0.2222222222222222f * d1 + 0.08888888888888889f * d3 + 0.08888888888888889f * d5;
    y[4] = x[7] - 0.2222222222222222f * s1 + 0.17777777777777778f * s3 + 0.044444444444444446f * s5;
}
/* clang-format on */
