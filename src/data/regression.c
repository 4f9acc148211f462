/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regression without a file:
 *
 *   linear     y_o = sum_k w_ok x_k / sqrt(features) + b_o + noise, where x, w and b are standard
 *              normal; the seed draws w and b. The best mean squared error is noise^2.
 *   nonlinear  Friedman's first function ("Multivariate Adaptive Regression Splines", 1991),
 *              10 sin(pi x_1 x_2) + 20 (x_3 - 1/2)^2 + 10 x_4 + 5 x_5 for x uniform in [0, 1);
 *              further features have no effect. It is standardised by its mean, 14.4, and
 *              deviation, 4.9, before the noise, so that a model which answers 0 has an error of 1.
 */
#include "data/synthetic.h"

#include <math.h>

enum { FRIEDMAN_FEATURES = 5 };

typedef struct regression_config {
    int64_t train;    /* training samples */
    int64_t test;     /* test samples */
    int64_t features; /* numbers of a sample */
    int64_t outputs;  /* linear only: numbers to predict */
    double noise;     /* standard deviation of an output's noise */
} regression_config;

static const fast_option linear_options[] = {
    FAST_OPT_INT(regression_config, train, "2000", 1, 10000000, "training samples"),
    FAST_OPT_INT(regression_config, test, "500", 1, 10000000, "test samples"),
    FAST_OPT_INT(regression_config, features, "10", 1, 100000, "numbers of a sample"),
    FAST_OPT_INT(regression_config, outputs, "1", 1, 1000, "numbers to predict"),
    FAST_OPT_REAL(regression_config, noise, "0.1", 0, 1000, "standard deviation of the noise"),
    FAST_OPT_END,
};

static const fast_option nonlinear_options[] = {
    FAST_OPT_INT(regression_config, train, "5000", 1, 10000000, "training samples"),
    FAST_OPT_INT(regression_config, test, "1000", 1, 10000000, "test samples"),
    FAST_OPT_INT(regression_config, features, "10", FRIEDMAN_FEATURES, 100000,
                 "numbers of a sample; the first 5 matter"),
    FAST_OPT_REAL(regression_config, noise, "0.1", 0, 1000, "standard deviation of the noise"),
    FAST_OPT_END,
};

/* Draw one sample of the linear function. */
static void draw_linear(const void *config, uint64_t seed, fast_rng *rng, fast_data *data,
                        int64_t i)
{
    const regression_config *c = config;
    float *x = (float *)data->x + i * data->features;
    for (int64_t k = 0; k < data->features; k++)
        x[k] = fast__rng_normal(rng);
    for (int64_t o = 0; o < data->outputs; o++) {
        fast_rng weights;
        fast__rng_init(&weights, seed, FAST_PURPOSE_SYNTHETIC, FAST_PART_COMMON, 0, (uint64_t)o);
        const double b = (double)fast__rng_normal(&weights);
        double sum = 0;
        for (int64_t k = 0; k < data->features; k++)
            sum += (double)fast__rng_normal(&weights) * (double)x[k];
        data->targets[i * data->outputs + o] = (float)(sum / sqrt((double)data->features) + b +
                                                       c->noise * (double)fast__rng_normal(rng));
    }
}

/* Draw one sample of Friedman's function. */
static void draw_nonlinear(const void *config, uint64_t seed, fast_rng *rng, fast_data *data,
                           int64_t i)
{
    (void)seed;
    const regression_config *c = config;
    const double pi = 3.14159265358979323846;
    float *x = (float *)data->x + i * data->features;
    for (int64_t k = 0; k < data->features; k++)
        x[k] = fast__rng_uniform(rng);
    const double a = 10 * sin(pi * (double)x[0] * (double)x[1]);
    const double b = 20 * ((double)x[2] - 0.5) * ((double)x[2] - 0.5);
    const double y = a + b + 10 * (double)x[3] + 5 * (double)x[4];
    data->targets[i] = (float)((y - 14.4) / 4.9 + c->noise * (double)fast__rng_normal(rng));
}

/* Inputs are standard normal as they are drawn: no normalisation. */
static fast_err linear_open(const void *config, uint64_t seed, fast_data **train_out,
                            fast_data **test_out)
{
    const regression_config *c = config;
    const fast_data like = {
        .rank = 1, .shape = { c->features }, .dtype = FAST_F32, .outputs = c->outputs
    };
    return fast__synthetic_open(&like, c->train, c->test, draw_linear, c, seed, FAST_NORMALIZE_NONE,
                                train_out, test_out);
}

/* Inputs are uniform in [0, 1), and standardised. */
static fast_err nonlinear_open(const void *config, uint64_t seed, fast_data **train_out,
                               fast_data **test_out)
{
    const regression_config *c = config;
    const fast_data like = { .rank = 1, .shape = { c->features }, .dtype = FAST_F32, .outputs = 1 };
    return fast__synthetic_open(&like, c->train, c->test, draw_nonlinear, c, seed,
                                FAST_NORMALIZE_STANDARD, train_out, test_out);
}

const fast_data_kind fast__data_linear = {
    .name = "linear",
    .summary = "linear regression; needs no file",
    .options = linear_options,
    .config_size = sizeof(regression_config),
    .open = linear_open,
};

const fast_data_kind fast__data_nonlinear = {
    .name = "nonlinear",
    .summary = "nonlinear regression (Friedman's function); needs no file",
    .options = nonlinear_options,
    .config_size = sizeof(regression_config),
    .open = nonlinear_open,
};
