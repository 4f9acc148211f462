/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Causal attention with samples in the lanes: per head and register of samples, every product of
 * two vectors over D is D multiply-adds of registers, four results at a time to read one operand
 * once.
 *
 *     S[t][s] = q[t] . k[s] / sqrt(D), s <= t     P = softmax(S)     z[t] = sum_s P[t][s] v[s]
 *     dP = dz . v    dS = P (dP - sum(P dP)) / sqrt(D)
 *     dq[t] = sum_s dS k[s]    dk[s] = sum_t dS q[t]    dv[s] = sum_t P dz[t]
 *
 * Shapes: qkv [T][3 C][L] holds q, k and v of all heads side by side, so that one channel of two
 * neighbouring positions is `wide` = 3 C L floats apart; p [heads][T][T][L] has row t of head h at
 * (h T + t) T L.
 */
#include "engine/cpu/kernel_tables.h"
#include "engine/cpu/vec.h"

#include <math.h>

/* out[j] = a . b[j] for `count` rows b + j * step, over D elements L apart. */
static inline void dots(int64_t D, int64_t L, const float *a, const float *b, int64_t step,
                        int64_t count, float *out, int64_t out_step)
{
    for (int64_t j = 0; j < count; j += 4) {
        const int64_t n = count - j < 4 ? count - j : 4;
        fast_vec r[4] = { vec_set(0), vec_set(0), vec_set(0), vec_set(0) };
        const float *b0 = b + j * step, *b1 = n > 1 ? b0 + step : b0;
        const float *b2 = n > 2 ? b1 + step : b0, *b3 = n > 3 ? b2 + step : b0;
        for (int64_t d = 0; d < D; d++) {
            const fast_vec v = vec_load(a + d * L);
            r[0] += v * vec_load(b0 + d * L);
            r[1] += v * vec_load(b1 + d * L);
            r[2] += v * vec_load(b2 + d * L);
            r[3] += v * vec_load(b3 + d * L);
        }
        for (int64_t i = 0; i < n; i++)
            vec_store(out + (j + i) * out_step, r[i]);
    }
}

/* out[d] = sum over j < count of a[j] b[j][d], d < D, L apart. */
static inline void blend(int64_t D, int64_t L, const float *a, int64_t a_step, const float *b,
                         int64_t step, int64_t count, float *out)
{
    for (int64_t d = 0; d < D; d += 4) {
        const int64_t n = D - d < 4 ? D - d : 4;
        const int64_t d1 = n > 1 ? L : 0, d2 = n > 2 ? 2 * L : 0, d3 = n > 3 ? 3 * L : 0;
        fast_vec r[4] = { vec_set(0), vec_set(0), vec_set(0), vec_set(0) };
        for (int64_t j = 0; j < count; j++) {
            const fast_vec v = vec_load(a + j * a_step);
            const float *at = b + j * step + d * L;
            r[0] += v * vec_load(at);
            r[1] += v * vec_load(at + d1);
            r[2] += v * vec_load(at + d2);
            r[3] += v * vec_load(at + d3);
        }
        for (int64_t i = 0; i < n; i++)
            vec_store(out + (d + i) * L, r[i]);
    }
}

/* Softmax of `count` scores times `scale`, in place. */
static inline void softmax_row(int64_t count, int64_t L, float scale, float *row)
{
    fast_vec max = vec_load(row), sum = vec_set(0);

    for (int64_t s = 1; s < count; s++)
        max = vec_max(max, vec_load(row + s * L));
    for (int64_t s = 0; s < count; s++) {
        const fast_vec e = vec_exp((vec_load(row + s * L) - max) * scale);
        vec_store(row + s * L, e);
        sum += e;
    }
    sum = 1.0f / sum;
    for (int64_t s = 0; s < count; s++)
        vec_store(row + s * L, vec_load(row + s * L) * sum);
}

/* All heads forward: scores, probabilities, and the weighted sums of v. */
static void forward(int64_t T, int64_t C, int64_t heads, int64_t L, const float *qkv, float *p,
                    float *z)
{
    const int64_t D = C / heads, wide = 3 * C * L;
    const float scale = 1.0f / sqrtf((float)D);

    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < L; i += VEC) {
            const float *q = qkv + h * D * L + i, *k = q + C * L, *v = k + C * L;
            for (int64_t t = 0; t < T; t++) {
                float *row = p + (h * T + t) * T * L + i;
                dots(D, L, q + t * wide, k, wide, t + 1, row, L);
                softmax_row(t + 1, L, scale, row);
                blend(D, L, row, L, v, wide, t + 1, z + (t * C + h * D) * L + i);
            }
        }
}

/* Backward pass of one head for a register of samples. ds [T][T][VEC] is scratch. */
static void back_head(int64_t T, int64_t C, int64_t D, int64_t L, const float *q, const float *p,
                      const float *dz, float *dq, float *ds)
{
    const int64_t wide = 3 * C * L, row = T * VEC;
    const float *k = q + C * L, *v = k + C * L;
    float *dk = dq + C * L, *dv = dk + C * L;
    const float scale = 1.0f / sqrtf((float)D);

    for (int64_t t = 0; t < T; t++) {
        fast_vec dot = vec_set(0);
        dots(D, L, dz + t * C * L, v, wide, t + 1, ds + t * row, VEC);
        for (int64_t s = 0; s <= t; s++)
            dot += vec_load(p + (t * T + s) * L) * vec_load(ds + t * row + s * VEC);
        for (int64_t s = 0; s <= t; s++) {
            float *at = ds + t * row + s * VEC;
            vec_store(at, vec_load(p + (t * T + s) * L) * (vec_load(at) - dot) * scale);
        }
        blend(D, L, ds + t * row, VEC, k, wide, t + 1, dq + t * wide);
    }
    for (int64_t s = 0; s < T; s++) {
        blend(D, L, ds + s * row + s * VEC, row, q + s * wide, wide, T - s, dk + s * wide);
        blend(D, L, p + (s * T + s) * L, T * L, dz + s * C * L, C * L, T - s, dv + s * wide);
    }
}

/* All heads backward. */
static void backward(int64_t T, int64_t C, int64_t heads, int64_t L, const float *qkv,
                     const float *p, const float *dz, float *dqkv, float *scratch)
{
    const int64_t D = C / heads;

    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < L; i += VEC) {
            const int64_t at = h * D * L + i;
            back_head(T, C, D, L, qkv + at, p + h * T * T * L + i, dz + at, dqkv + at, scratch);
        }
}

const fast_attention_kernels FAST_SIMD(fast__attention_kernels) = {
    .forward = forward,
    .backward = backward,
};
