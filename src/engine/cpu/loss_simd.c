/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax, cross-entropy and squared error with samples in the lanes: the classes are rows, so
 * every reduction over classes is vertical and needs no shuffles. Per class and lane: one
 * exponential.
 */
#include "engine/cpu/kernel_tables.h"
#include "engine/cpu/vec.h"

#include <math.h>

/* The maximum over classes, per lane. */
static fast_vec largest(int64_t classes, int64_t lanes, const float *x)
{
    fast_vec m = vec_load(x);
    for (int64_t c = 1; c < classes; c++)
        m = vec_max(m, vec_load(x + c * lanes));
    return m;
}

/* Three passes over the classes of a register of lanes: maximum, exponentials, scale. */
static void softmax(int64_t classes, int64_t lanes, const float *x, float *y)
{
    for (int64_t i = 0; i < lanes; i += VEC) {
        const fast_vec m = largest(classes, lanes, x + i);
        fast_vec s = vec_set(0);
        for (int64_t c = 0; c < classes; c++) {
            const fast_vec t = vec_load(x + c * lanes + i) - m;
            /* e^-80 is as good as 0; smaller ones would become denormal when they are scaled. */
            const fast_vec e = vec_select(t < -80.0f, vec_set(0), vec_exp(t));
            vec_store(y + c * lanes + i, e);
            s += e;
        }
        const fast_vec scale = 1.0f / s;
        for (int64_t c = 0; c < classes; c++)
            vec_store(y + c * lanes + i, vec_load(y + c * lanes + i) * scale);
    }
}

/* dx = y (dy - sum(y dy)). */
static void softmax_back(int64_t classes, int64_t lanes, const float *y, const float *dy, float *dx,
                         bool accumulate)
{
    for (int64_t i = 0; i < lanes; i += VEC) {
        fast_vec s = vec_set(0);
        for (int64_t c = 0; c < classes; c++)
            s += vec_load(y + c * lanes + i) * vec_load(dy + c * lanes + i);
        for (int64_t c = 0; c < classes; c++) {
            const int64_t at = c * lanes + i;
            const fast_vec d = vec_load(y + at) * (vec_load(dy + at) - s);
            vec_store(dx + at, accumulate ? vec_load(dx + at) + d : d);
        }
    }
}

/* Write the exponentials of a register of lanes to e; return their sum, and the first row with the
 * maximum. */
static fast_vec exponentials(int64_t classes, int64_t lanes, const float *x, fast_vec m, float *e,
                             fast_vec *best_out)
{
    fast_vec s = vec_set(0), best = vec_set((float)classes);

    for (int64_t c = 0; c < classes; c++) {
        const fast_vec v = vec_load(x + c * lanes), t = vec_exp(v - m);
        best = vec_select((v == m) & (best > (float)c), vec_set((float)c), best);
        if (e)
            vec_store(e + c * lanes, t);
        s += t;
    }
    *best_out = best;
    return s;
}

/* Targets of a register of lanes for class c, smoothed and weighted. */
static fast_vec target_of(int64_t c, fast_vec label, const float *soft, fast_vec hit, fast_vec even,
                          const float *weights)
{
    const fast_vec t = soft ? vec_load(soft) : vec_and(label == (float)c, vec_set(1));
    const fast_vec q = t * hit + even;
    return weights ? q * weights[c] : q;
}

/* dx holds the exponentials until their sum is known; then it becomes the gradient. */
static void cross_entropy(int64_t classes, int64_t lanes, int64_t count, const float *x,
                          const float *labels, const float *soft, float smoothing,
                          const float *weights, float scale, float *dx, double *loss,
                          int64_t *correct)
{
    const fast_vec even = vec_set(smoothing / (float)classes), hit = vec_set(1 - smoothing);

    for (int64_t i = 0; i < lanes; i += VEC) {
        const vec_int valid = vec_lanes(0, count - i);
        const fast_vec m = largest(classes, lanes, x + i);
        const fast_vec label = labels ? vec_load(labels + i) : vec_set(-1);
        fast_vec best, top = vec_set(-1), wanted = label, weighted = vec_set(0);
        fast_vec mass = vec_set(soft || weights ? 0 : 1);
        fast_vec s = exponentials(classes, lanes, x + i, m, dx ? dx + i : NULL, &best);
        float log_s[VEC], term[VEC];
        const fast_vec inverse = 1.0f / s;

        for (int64_t c = 0; soft && c < classes; c++) {
            const fast_vec t = vec_load(soft + c * lanes + i);
            wanted = vec_select(t > top, vec_set((float)c), wanted);
            top = vec_max(t, top);
        }
        for (int64_t c = 0; (soft || weights) && c < classes; c++)
            mass += target_of(c, label, soft ? soft + c * lanes + i : NULL, hit, even, weights);
        for (int64_t c = 0; c < classes; c++) {
            const int64_t at = c * lanes + i;
            const fast_vec t = target_of(c, label, soft ? soft + at : NULL, hit, even, weights);
            weighted += t * (vec_load(x + at) - m);
            if (dx)
                vec_store(dx + at,
                          vec_and(valid, scale * (vec_load(dx + at) * inverse * mass - t)));
        }
        memcpy(log_s, &s, sizeof s);
        for (int l = 0; l < VEC; l++)
            log_s[l] = logf(log_s[l]);
        const fast_vec value = mass * vec_loadu(log_s) - weighted;
        memcpy(term, &value, sizeof term);
        for (int l = 0; l < VEC && i + l < count; l++) {
            *loss += (double)term[l];
            *correct += best[l] == wanted[l];
        }
    }
}

/* dx = scale (x - target); lanes past `count` count as equal. */
static void squared(int64_t rows, int64_t lanes, int64_t count, const float *x, const float *target,
                    float scale, float *dx, double *loss)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < lanes; i += FAST_VEC) {
            _Alignas(64) float squares[FAST_VEC];
            FOR_PARTS(k)
            {
                const int64_t at = r * lanes + i + k;
                const fast_vec d =
                    vec_and(vec_lanes(0, count - i - k), vec_load(x + at) - vec_load(target + at));
                if (dx)
                    vec_store(dx + at, scale * d);
                vec_store(squares + k, d * d);
            }
            *loss += (double)vec_sum(squares);
        }
}

const fast_loss_kernels FAST_SIMD(fast__loss_kernels) = {
    .softmax = softmax,
    .softmax_back = softmax_back,
    .cross_entropy = cross_entropy,
    .squared = squared,
};
