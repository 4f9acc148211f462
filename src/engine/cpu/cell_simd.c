/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pointwise parts of the recurrent cells (the formulas are at the top of op_recurrent.c), 16
 * samples at a time: per hidden unit four exponentials for an LSTM, three for a GRU.
 */
#include "engine/cpu/kernel_tables.h"
#include "engine/cpu/vec.h"

/* The sum of both biases of gate row g; either may be NULL. */
static inline fast_vec bias_of(const float *ba, const float *bu, int64_t g)
{
    return vec_set((ba ? ba[g] : 0) + (bu ? bu[g] : 0));
}

/* The state of the step before, or zeros at the first step. */
static inline fast_vec load_or_zero(const float *p, int64_t at)
{
    return p ? vec_load(p + at) : vec_set(0);
}

/* Loop over hidden units j and vectors of 16 samples at offset `at`. */
#define FOR_UNITS(j, at)            \
    for (int64_t j = 0; j < H; j++) \
        for (int64_t at = j * L; at < (j + 1) * L; at += VEC)

/* h = tanh(a + biases). */
static void rnn(int64_t H, int64_t L, const float *a, const float *ba, const float *bu, float *h)
{
    FOR_UNITS(j, at)
    vec_store(h + at, vec_tanh(vec_load(a + at) + bias_of(ba, bu, j)));
}

/* da = (dh + dy) (1 - h^2). */
static void rnn_back(int64_t H, int64_t L, const float *h, const float *dy, const float *dh,
                     float *da)
{
    FOR_UNITS(j, at)
    {
        const fast_vec y = vec_load(h + at);
        vec_store(da + at, (vec_load(dh + at) + vec_load(dy + at)) * (1.0f - y * y));
    }
}

/* The gates replace a; c and h are written. */
static void lstm(int64_t H, int64_t L, float *a, const float *ba, const float *bu,
                 const float *c_before, float *c, float *h)
{
    const int64_t gate = H * L;

    FOR_UNITS(j, at)
    {
        const fast_vec i = vec_sigmoid(vec_load(a + at) + bias_of(ba, bu, j));
        const fast_vec f = vec_sigmoid(vec_load(a + gate + at) + bias_of(ba, bu, H + j));
        const fast_vec g = vec_tanh(vec_load(a + 2 * gate + at) + bias_of(ba, bu, 2 * H + j));
        const fast_vec o = vec_sigmoid(vec_load(a + 3 * gate + at) + bias_of(ba, bu, 3 * H + j));
        const fast_vec state = f * load_or_zero(c_before, at) + i * g;
        vec_store(a + at, i);
        vec_store(a + gate + at, f);
        vec_store(a + 2 * gate + at, g);
        vec_store(a + 3 * gate + at, o);
        vec_store(c + at, state);
        vec_store(h + at, o * vec_tanh(state));
    }
}

/* da from the gates; dc becomes the gradient of the cell state before. */
static void lstm_back(int64_t H, int64_t L, const float *a, const float *c_before, const float *c,
                      const float *dy, const float *dh, float *dc, float *da)
{
    const int64_t gate = H * L;

    FOR_UNITS(j, at)
    {
        const fast_vec i = vec_load(a + at), f = vec_load(a + gate + at);
        const fast_vec g = vec_load(a + 2 * gate + at), o = vec_load(a + 3 * gate + at);
        const fast_vec t = vec_tanh(vec_load(c + at));
        const fast_vec e = vec_load(dh + at) + vec_load(dy + at);
        const fast_vec d = vec_load(dc + at) + e * o * (1.0f - t * t);
        vec_store(da + at, d * g * i * (1.0f - i));
        vec_store(da + gate + at, d * load_or_zero(c_before, at) * f * (1.0f - f));
        vec_store(da + 2 * gate + at, d * i * (1.0f - g * g));
        vec_store(da + 3 * gate + at, e * t * o * (1.0f - o));
        vec_store(dc + at, d * f);
    }
}

/* The gates replace a; u's last part becomes the biased candidate of the state. */
static void gru(int64_t H, int64_t L, float *a, float *u, const float *ba, const float *bu,
                const float *h_before, float *h)
{
    const int64_t gate = H * L;

    FOR_UNITS(j, at)
    {
        const fast_vec r = vec_sigmoid(vec_load(a + at) + vec_load(u + at) + bias_of(ba, bu, j));
        const fast_vec z =
            vec_sigmoid(vec_load(a + gate + at) + vec_load(u + gate + at) + bias_of(ba, bu, H + j));
        const fast_vec s = vec_load(u + 2 * gate + at) + vec_set(bu ? bu[2 * H + j] : 0);
        const fast_vec n =
            vec_tanh(vec_load(a + 2 * gate + at) + vec_set(ba ? ba[2 * H + j] : 0) + r * s);
        vec_store(a + at, r);
        vec_store(a + gate + at, z);
        vec_store(a + 2 * gate + at, n);
        vec_store(u + 2 * gate + at, s);
        vec_store(h + at, (1.0f - z) * n + z * load_or_zero(h_before, at));
    }
}

/* da and du from the gates; dh becomes the direct gradient of the state before. */
static void gru_back(int64_t H, int64_t L, const float *a, const float *u, const float *h_before,
                     const float *dy, float *dh, float *da, float *du)
{
    const int64_t gate = H * L;

    FOR_UNITS(j, at)
    {
        const fast_vec r = vec_load(a + at), z = vec_load(a + gate + at);
        const fast_vec n = vec_load(a + 2 * gate + at), s = vec_load(u + 2 * gate + at);
        const fast_vec e = vec_load(dh + at) + vec_load(dy + at);
        const fast_vec dn = e * (1.0f - z) * (1.0f - n * n);
        const fast_vec dr = dn * s * r * (1.0f - r);
        const fast_vec dz = e * (load_or_zero(h_before, at) - n) * z * (1.0f - z);
        vec_store(da + at, dr);
        vec_store(da + gate + at, dz);
        vec_store(da + 2 * gate + at, dn);
        vec_store(du + at, dr);
        vec_store(du + gate + at, dz);
        vec_store(du + 2 * gate + at, dn * r);
        vec_store(dh + at, e * z);
    }
}

const fast_cell_kernels FAST_SIMD(fast__cell_kernels) = {
    .rnn = rnn,
    .lstm = lstm,
    .gru = gru,
    .rnn_back = rnn_back,
    .lstm_back = lstm_back,
    .gru_back = gru_back,
};
