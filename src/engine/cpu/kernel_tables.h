/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/simd.h"

/*
 * The kernels of the cpu engine, a table per file x_simd.c and instruction set. Arrays of
 * activations are rows of `lanes` floats, 64-byte aligned; a row is one channel at one position. n
 * counts floats and is a multiple of 16.
 */
/* Activations. */
typedef enum fast_act {
    FAST_ACT_NONE,    /* y = x */
    FAST_ACT_RELU,    /* max(x, 0) */
    FAST_ACT_LEAKY,   /* x, or slope x below 0 */
    FAST_ACT_TANH,    /* tanh(x) */
    FAST_ACT_SIGMOID, /* 1 / (1 + exp(-x)); up to here the derivative follows from the output */
    FAST_ACT_GELU     /* x Phi(x): its derivative needs x */
} fast_act;

/* Elementwise kernels and transposition. elem_simd.c */
typedef struct fast_elem_kernels {
    /* dst[f * dst_stride + i] = src[i * src_stride + f] for i < count, 0 for count <= i < lanes;
     * f < columns. src needs the alignment of a float only. */
    void (*to_lanes)(const float *src, int64_t src_stride, int64_t count, int64_t columns,
                     int64_t lanes, float *dst, int64_t dst_stride);
    /* dst[i * dst_stride + f] = src[f * src_stride + i], i < count, f < rows. */
    void (*from_lanes)(const float *src, int64_t src_stride, int64_t rows, int64_t count,
                       float *dst, int64_t dst_stride);
    void (*copy)(int64_t n, const float *x, float *y);                /* y = x */
    void (*add)(int64_t n, const float *x, float *y);                 /* y += x */
    void (*sum)(int64_t n, const float *a, const float *b, float *y); /* y = a + b */
    /* y = a b, or y += a b with `accumulate`. */
    void (*multiply)(int64_t n, const float *a, const float *b, float *y, bool accumulate);
    /* y = act(y + bias[c]) on positions x channels rows. bias may be NULL. */
    void (*bias_act)(int64_t positions, int64_t channels, int64_t lanes, const float *bias,
                     fast_act act, float slope, float *y);
    /* dy *= act'(y), and db[c] = sum of dy over positions and lanes; y unused for FAST_ACT_NONE; db
     * may be NULL. scratch: channels * 32 floats. */
    void (*bias_act_back)(int64_t positions, int64_t channels, int64_t lanes, const float *y,
                          fast_act act, float slope, float *dy, float *db, float *scratch);
    void (*act)(int64_t n, fast_act act, float slope, const float *x, float *y); /* y = act(x) */
    /* dx = or += dy act'; x is the input, y the output. */
    void (*act_back)(int64_t n, fast_act act, float slope, const float *x, const float *y,
                     const float *dy, float *dx, bool accumulate);
} fast_elem_kernels;

/* Loss over lanes: x [classes][lanes], labels one float per lane (a whole number; below 0: no
 * label). */
typedef struct fast_loss_kernels {
    /* Softmax over `classes` rows. y may be x. */
    void (*softmax)(int64_t classes, int64_t lanes, const float *x, float *y);
    /* dx = or += y (dy - sum over classes of y dy). */
    void (*softmax_back)(int64_t classes, int64_t lanes, const float *y, const float *dy, float *dx,
                         bool accumulate);
    /* dx = scale (softmax(x) - target) where lane < count, else 0; adds the summed loss of the
     * lanes and counts those whose largest output (the first of equals) is the label. Target: 1 -
     * smoothing at the label plus smoothing / classes everywhere; soft: [classes][lanes] or NULL.
     * weights [classes] multiply the targets, and then dx = scale (softmax(x) sum(target) -
     * target); NULL: all 1. dx may be NULL. */
    void (*cross_entropy)(int64_t classes, int64_t lanes, int64_t count, const float *x,
                          const float *labels, const float *soft, float smoothing,
                          const float *weights, float scale, float *dx, double *loss,
                          int64_t *correct);
    /* dx = scale (x - target); adds the sum of squares. */
    void (*squared)(int64_t rows, int64_t lanes, int64_t count, const float *x, const float *target,
                    float scale, float *dx, double *loss);
} fast_loss_kernels;

/* The shape of a pooling of [in_h][in_w][channels] rows; the output row of (p, c) is p * row_p + c
 * * row_c. */
typedef struct fast_pool_shape {
    int64_t channels, in_h, in_w, out_h, out_w, lanes; /* sizes of input and output */
    int64_t kernel[2], stride[2], pad[2], dilation[2]; /* y, x */
    int64_t row_p, row_c; /* strides of output rows by position and by channel */
    int64_t high;         /* windows above FAST_POOL_BYTE_MAX: offset of the high bytes of `won` */
} fast_pool_shape;

enum { FAST_POOL_BYTE_MAX = 255, FAST_POOL_WINDOW_MAX = 65535 };

/* Pooling kernels. pool_simd.c */
typedef struct fast_pool_kernels {
    /* y = act(max(window) + bias[c]); won: the winner's index in its window, one byte per output
     * (two for large windows), all ones if relu clipped it. bias may be NULL. */
    void (*max)(const fast_pool_shape *s, const float *x, const float *bias, bool relu, float *y,
                uint8_t *won);
    /* dx = or += dy at the winners; db[c] = the sum of the gradients that passed. db may be NULL.
     * scratch: channels * 32 floats. */
    void (*max_back)(const fast_pool_shape *s, const uint8_t *won, const float *dy, float *dx,
                     bool accumulate, float *db, float *scratch);
    /* The mean of each window, in which padding counts as zeros. */
    void (*average)(const fast_pool_shape *s, const float *x, float *y);
    void (*average_back)(const fast_pool_shape *s, const float *dy, float *dx); /* adds */
    /* The mean over positions, and its gradient. */
    void (*global)(int64_t positions, int64_t channels, int64_t lanes, const float *x, float *y);
    void (*global_back)(int64_t positions, int64_t channels, int64_t lanes, const float *dy,
                        float *dx, bool accumulate);
} fast_pool_kernels;

/* Normalisation over positions and the lanes [lo, hi), per channel. */
typedef struct fast_norm_shape {
    int64_t positions, channels, lanes; /* rows are [position][channel], of `lanes` floats */
    int64_t lo, hi;                     /* lanes of the samples that share one statistic */
    int64_t end; /* lanes to `end` are written too: hi, or all to the last lane */
} fast_norm_shape;

/* Normalisation kernels. norm_simd.c */
typedef struct fast_norm_kernels {
    /* mean[c] and the sum of squared differences from it, squares[c]. scratch: channels * 64. */
    void (*moments)(const fast_norm_shape *s, const float *x, float *scratch, double *mean,
                    double *squares);
    /* y = act((x - mean[c]) * scale[c] + shift[c] + add); bits: one bit per element that relu
     * passed. add and bits may be NULL. */
    void (*apply)(const fast_norm_shape *s, const float *x, const float *mean, const float *scale,
                  const float *shift, const float *add, bool relu, float *y, uint16_t *bits);
    /* dz = (dy + dy2) where bits; sum[c] of dz and dot[c] of dz (x - mean[c]); dz replaces dy if
     * `store`. dy2 and bits may be NULL. scratch: channels * 64. */
    void (*sums)(const fast_norm_shape *s, const float *x, const float *mean, float *dy,
                 const float *dy2, const uint16_t *bits, bool store, float *scratch, double *sum,
                 double *dot);
    /* dx = or += a[c] dz + b[c] (x - mean[c]) + c[c] on lanes [lo, hi), 0 on the rest to end. */
    void (*apply_back)(const fast_norm_shape *s, const float *x, const float *mean, const float *dy,
                       const uint16_t *bits, const float *a, const float *b, const float *c,
                       float *dx, bool accumulate);
    /* Layer norm over channels, per position and lane; saved: mean and 1 / deviation,
     * [positions][2][lanes]. weight and bias may be NULL. */
    void (*layer)(int64_t positions, int64_t channels, int64_t lanes, const float *x,
                  const float *weight, const float *bias, float eps, float *y, float *saved);
    /* dw, db may be NULL; so may dx. scratch: channels * 32. */
    void (*layer_back)(int64_t positions, int64_t channels, int64_t lanes, const float *x,
                       const float *weight, const float *saved, const float *dy, float *dx,
                       bool accumulate, float *dw, float *db, float *scratch);
} fast_norm_kernels;

/* The pointwise part of recurrent cells: H rows per gate. ba, bu are the two biases, [gates H] or
 * NULL; arguments of the step before are NULL at the first step. cell_simd.c */
typedef struct fast_cell_kernels {
    /* a: sums of both products; they become the gates. */
    void (*rnn)(int64_t H, int64_t L, const float *a, const float *ba, const float *bu, float *h);
    void (*lstm)(int64_t H, int64_t L, float *a, const float *ba, const float *bu,
                 const float *c_before, float *c, float *h);
    /* u: the state's product; its last part, with bias, is saved for the backward pass. */
    void (*gru)(int64_t H, int64_t L, float *a, float *u, const float *ba, const float *bu,
                const float *h_before, float *h);
    /* dh, dc: gradients from the step after; dy is added to dh. da, du: out. */
    void (*rnn_back)(int64_t H, int64_t L, const float *h, const float *dy, const float *dh,
                     float *da);
    void (*lstm_back)(int64_t H, int64_t L, const float *a, const float *c_before, const float *c,
                      const float *dy, const float *dh, float *dc, float *da);
    void (*gru_back)(int64_t H, int64_t L, const float *a, const float *u, const float *h_before,
                     const float *dy, float *dh, float *da, float *du);
} fast_cell_kernels;

/* Sizes of attention over T positions with D channels a head, in floats: a row of one sample's
 * head, a row of its probabilities, one operand of it, and an operand in panels of up to 64
 * positions. The odd blocks spread rows and samples over the sets of a cache. */
static inline int64_t fast__attention_wide(int64_t D)
{
    return (D + FAST_VEC - 1) / FAST_VEC * FAST_VEC;
}
static inline int64_t fast__attention_row(int64_t T)
{
    return (T + FAST_VEC - 1) / FAST_VEC * FAST_VEC + FAST_VEC;
}
static inline int64_t fast__attention_each(int64_t T, int64_t D)
{
    return T * fast__attention_wide(D) + FAST_VEC;
}
static inline int64_t fast__attention_panels(int64_t T, int64_t D)
{
    return (T + 63) / 64 * 64 * fast__attention_wide(D);
}

enum { FAST_ATTENTION_BLOCK = 24 /* rows of probabilities that a forward pass has at once */ };

/* Causal attention between its two products. qkv [T][3 C][L]; z [T][C][L]; D = C / heads. Samples
 * past `count` get zeros. scratch is aligned to 64 bytes. attention_simd.c */
typedef struct fast_attention_kernels {
    /* z = softmax of the scaled scores for s <= t, times v, head by head. scratch: 48 operands, one
     * in panels, a block of rows. */
    void (*forward)(int64_t T, int64_t C, int64_t heads, int64_t L, int64_t count, const float *qkv,
                    float *z, float *scratch);
    /* dqkv is overwritten. scratch: 64 operands, two in panels, 2 T rows. */
    void (*backward)(int64_t T, int64_t C, int64_t heads, int64_t L, int64_t count,
                     const float *qkv, const float *dz, float *dqkv, float *scratch);
} fast_attention_kernels;

FAST_KERNELS(elem)
FAST_KERNELS(loss)
FAST_KERNELS(pool)
FAST_KERNELS(norm)
FAST_KERNELS(cell)
FAST_KERNELS(attention)
