/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Muon: momentum whose step is made orthogonal, for weight matrices; AdamW for other parameters.
 *
 *   v = mu v + g
 *   X = (g + mu v) / (|g + mu v| + 1e-7)                 nesterov=no: v instead of g + mu v
 *   X = a X + (b A + c A^2) X,  A = X X^T                `iterations` times: Newton and Schulz
 *   w = (1 - lr weight_decay) w - lr sqrt(max(1, rows / columns)) X
 *
 * with a = 3.4445, b = -4.7750, c = 2.0315, which bring all singular values to about 1 in five
 * rounds. A matrix is a tensor of rank 2 or more that decays, filters with one row for each output;
 * of a tall one the transpose is iterated. Biases and norms are AdamW's, at the rate lr `others`.
 *
 * Cost: for k rows of n >= k columns, 2 k n (2 k + k k / n) multiplications and additions a round:
 * a step of a 512 x 784 matrix takes 5 GFLOP. Sums are in a fixed order, so the bits do not depend
 * on the instruction set. Scratch: 4 times the largest matrix.
 *
 * Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
 */
#include "rule/kernel.h"

#include "tensor/vector.h"

#include <string.h>

typedef struct muon_config {
    fast_rule_common common; /* options of all rules */
    double momentum;         /* mu */
    bool nesterov;           /* look ahead: g + mu v instead of v */
    int64_t iterations;      /* rounds of Newton and Schulz */
    double others;           /* rate of AdamW over lr */
    double beta1;            /* AdamW: decay of the mean of gradients */
    double beta2;            /* AdamW: decay of the mean of squares */
    double eps;              /* AdamW: added to the root */
} muon_config;

static const fast_option muon_options[] = {
    FAST_OPT_REAL(muon_config, momentum, "0.95", 0, 1,
                  "fraction of the previous velocity that is added"),
    FAST_OPT_BOOL(muon_config, nesterov, "yes", "look ahead by the momentum"),
    FAST_OPT_INT(muon_config, iterations, "5", 1, 100, "rounds of Newton and Schulz"),
    FAST_OPT_REAL(muon_config, others, "0.015", 0, 1e3,
                  "biases and norms: learning rate of AdamW as a fraction of lr"),
    FAST_OPT_REAL(muon_config, beta1, "0.9", 0, 0.9999999, "AdamW: decay of the mean of gradients"),
    FAST_OPT_REAL(muon_config, beta2, "0.95", 0, 0.9999999, "AdamW: decay of the mean of squares"),
    FAST_OPT_REAL(muon_config, eps, "1e-8", 0, 1, "AdamW: added to the root of the mean"),
    FAST_RULE_COMMON(
        "0", "each step subtracts this times lr times the weight, decoupled from the gradient"),
    FAST_OPT_END,
};

/* y[rows][columns] += x[rows][inner] z[inner][columns], four inner terms at a time, in order. */
FAST_CLONES static void add_product(int64_t rows, int64_t inner, int64_t columns,
                                    const float *restrict x, const float *restrict z,
                                    float *restrict y)
{
    for (int64_t r = 0; r < rows; r++) {
        float *restrict to = y + r * columns;
        const float *restrict by = x + r * inner;
        int64_t l = 0;

        for (; l + 4 <= inner; l += 4) {
            const float *restrict z0 = z + l * columns;
            const float *restrict z1 = z0 + columns, *restrict z2 = z1 + columns;
            const float *restrict z3 = z2 + columns;
            const float a = by[l], b = by[l + 1], c = by[l + 2], d = by[l + 3];

            for (int64_t i = 0; i < columns; i++)
                to[i] = (((to[i] + a * z0[i]) + b * z1[i]) + c * z2[i]) + d * z3[i];
        }
        for (; l < inner; l++)
            for (int64_t i = 0; i < columns; i++)
                to[i] += by[l] * z[l * columns + i];
    }
}

/* y[columns][rows] = the transpose of x[rows][columns]. */
static void transpose(int64_t rows, int64_t columns, const float *restrict x, float *restrict y)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i++)
            y[i * rows + r] = x[r * columns + i];
}

/* Round all singular values of x[k][n], k <= n, to about 1. Scratch of 3 k n floats. */
static void orthogonalise(int64_t k, int64_t n, int64_t iterations, float *x, float *scratch)
{
    const float a = 3.4445f, b = -4.7750f, c = 2.0315f;
    float *turned = scratch, *square = turned + k * n, *fourth = square + k * k;

    FAST_ASSERT(k <= n);
    fast__vector_scale(k * n, (float)(1 / (sqrt(fast__vector_norm2(k * n, x)) + 1e-7)), x);
    for (int64_t round = 0; round < iterations; round++) {
        transpose(k, n, x, turned);
        memset(square, 0, (size_t)(k * k) * sizeof *square);
        add_product(k, n, k, x, turned, square);
        for (int64_t i = 0; i < k * k; i++)
            fourth[i] = 0;
        add_product(k, k, k, square, square, fourth);
        for (int64_t i = 0; i < k * k; i++)
            fourth[i] = b * square[i] + c * fourth[i];
        for (int64_t i = 0; i < k * n; i++)
            turned[i] = a * x[i];
        add_product(k, k, n, fourth, x, turned);
        memcpy(x, turned, (size_t)(k * n) * sizeof *x);
    }
}

/* The velocity, and the direction that is to be made orthogonal. */
FAST_CLONES static void muon_direction(int64_t n, float *restrict v, const float *restrict g,
                                       float *restrict out, float mu, bool nesterov,
                                       fast_rule_terms terms)
{
    for (int64_t i = 0; i < n; i++) {
        const float grad = fast__rule_grad(&terms, false, g[i], 0.0f);

        v[i] = mu * v[i] + grad;
        out[i] = nesterov ? grad + mu * v[i] : v[i];
    }
}

/* w = shrink w - rate x */
FAST_CLONES static void muon_step(int64_t n, float *restrict w, const float *restrict x,
                                  float shrink, float rate)
{
    for (int64_t i = 0; i < n; i++)
        w[i] = shrink * w[i] - rate * x[i];
}

static void matrix_apply(const muon_config *c, const fast_rule_slice *slice)
{
    const int64_t rows = slice->rows, columns = slice->count / rows;
    const bool tall = rows > columns;
    const double scale = tall ? sqrt((double)rows / (double)columns) : 1;
    float *x = slice->scratch, *rest = x + slice->count;

    FAST_ASSERT(rows * columns == slice->count);
    muon_direction(slice->count, slice->state[0], slice->g, tall ? rest : x, (float)c->momentum,
                   c->nesterov, fast__rule_terms(&c->common, slice, 0));
    if (tall)
        transpose(rows, columns, rest, x);
    orthogonalise(tall ? columns : rows, tall ? rows : columns, c->iterations, x, rest);
    if (tall) {
        transpose(columns, rows, x, rest);
        x = rest;
    }
    muon_step(slice->count, slice->w, x, (float)(1 - slice->lr * (double)slice->decay),
              (float)(slice->lr * scale));
}

/* AdamW on a bias, which has few elements. */
static void vector_apply(const muon_config *c, const fast_rule_slice *slice)
{
    const fast_rule_terms terms = fast__rule_terms(&c->common, slice, 0);
    const double t = (double)slice->step, lr = slice->lr * c->others;
    const float rate = (float)(lr / (1 - pow(c->beta1, t)));
    const float root = (float)(1 / sqrt(1 - pow(c->beta2, t)));
    const float shrink = (float)(1 - lr * (double)slice->decay);
    float *m = slice->state[0], *v = slice->state[1], *w = slice->w;

    FAST_ASSERT(slice->step >= 1);
    for (int64_t i = 0; i < slice->count; i++) {
        const float grad = fast__rule_grad(&terms, false, slice->g[i], 0.0f);

        m[i] = (float)c->beta1 * m[i] + (float)(1 - c->beta1) * grad;
        v[i] = (float)c->beta2 * v[i] + (float)(1 - c->beta2) * (grad * grad);
        w[i] = shrink * w[i] - rate * (m[i] / (sqrtf(v[i]) * root + (float)c->eps));
    }
}

/* Biases and norms have one row, or do not decay. */
static void muon_apply(const void *config, const fast_rule_slice *slice)
{
    if (slice->rows > 0)
        matrix_apply(config, slice);
    else
        vector_apply(config, slice);
}

/* Room for the direction, its transpose, and two squares of the shorter side. */
static int64_t muon_scratch(int64_t largest)
{
    return 4 * largest;
}

const fast_rule fast__rule_muon = {
    .name = "muon",
    .summary = "momentum made orthogonal, for matrices; adamw for biases and norms",
    .options = muon_options,
    .config_size = sizeof(muon_config),
    .slots = 2,
    .lr = 0.02,
    .by_segment = true,
    .momentum_offset = offsetof(muon_config, momentum),
    .scratch = muon_scratch,
    .apply = muon_apply,
};
