/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points in space, two classics of classification:
 *
 *   spirals  arms in the plane: at t in [0, 1), radius t and angle 2 pi (turns t + k / classes);
 *            no straight line separates them, a small network does
 *   blobs    one normal cloud per class, around centres that the seed draws: easy, of any size
 */
#include "data/synthetic.h"

#include <math.h>

typedef struct spirals_config {
    int64_t train;   /* training samples */
    int64_t test;    /* test samples */
    int64_t classes; /* number of arms */
    double cycles;   /* option turns: rotations of each arm around the centre */
    double noise;    /* standard deviation of each coordinate */
} spirals_config;

static const fast_option spirals_options[] = {
    FAST_OPT_INT(spirals_config, train, "2000", 1, 10000000, "training samples"),
    FAST_OPT_INT(spirals_config, test, "500", 1, 10000000, "test samples"),
    FAST_OPT_INT(spirals_config, classes, "2", 2, 100, "arms, a class each"),
    { "turns", "1.25", "turns of an arm around the middle", FAST_OPTION_REAL,
      offsetof(spirals_config, cycles), 0, 0, 10, NULL },
    FAST_OPT_REAL(spirals_config, noise, "0.03", 0, 1, "standard deviation of a coordinate"),
    FAST_OPT_END,
};

/* Draw a point of a random arm. */
static void draw_spiral(const void *config, uint64_t seed, fast_rng *rng, fast_data *data,
                        int64_t i)
{
    (void)seed;
    const spirals_config *c = config;
    const double pi = 3.14159265358979323846;
    const int64_t label = (int64_t)fast__rng_below(rng, (uint64_t)c->classes);
    const double t = (double)fast__rng_uniform(rng);
    const double angle = 2 * pi * (c->cycles * t + (double)label / (double)c->classes);
    float *x = (float *)data->x + 2 * i;
    x[0] = (float)(t * cos(angle) + c->noise * (double)fast__rng_normal(rng));
    x[1] = (float)(t * sin(angle) + c->noise * (double)fast__rng_normal(rng));
    data->labels[i] = (int32_t)label;
}

/* Points of the plane, standardised. */
static fast_err spirals_open(const void *config, uint64_t seed, fast_data **train_out,
                             fast_data **test_out)
{
    const spirals_config *c = config;
    const fast_data like = {
        .rank = 1, .shape = { 2 }, .dtype = FAST_F32, .channels = 2, .classes = c->classes
    };
    return fast__synthetic_open(&like, c->train, c->test, draw_spiral, c, seed,
                                FAST_NORMALIZE_STANDARD, train_out, test_out);
}

const fast_data_kind fast__data_spirals = {
    .name = "spirals",
    .summary = "spirals in the plane, an arm a class; needs no file",
    .options = spirals_options,
    .config_size = sizeof(spirals_config),
    .open = spirals_open,
};

typedef struct blobs_config {
    int64_t train;    /* training samples */
    int64_t test;     /* test samples */
    int64_t classes;  /* number of clouds */
    int64_t features; /* number of dimensions */
    double distance;  /* standard deviation of the centres' coordinates; a cloud's is 1 */
} blobs_config;

static const fast_option blobs_options[] = {
    FAST_OPT_INT(blobs_config, train, "2000", 1, 10000000, "training samples"),
    FAST_OPT_INT(blobs_config, test, "500", 1, 10000000, "test samples"),
    FAST_OPT_INT(blobs_config, classes, "4", 2, 1000, "clouds, a class each"),
    FAST_OPT_INT(blobs_config, features, "8", 1, 100000, "dimensions"),
    FAST_OPT_REAL(blobs_config, distance, "1.5", 0, 1000,
                  "standard deviation of the centres; that of a cloud is 1"),
    FAST_OPT_END,
};

/* Draw a point of a random cloud. */
static void draw_blob(const void *config, uint64_t seed, fast_rng *rng, fast_data *data, int64_t i)
{
    const blobs_config *c = config;
    const uint64_t label = fast__rng_below(rng, (uint64_t)c->classes);
    fast_rng centre;
    fast__rng_init(&centre, seed, FAST_PURPOSE_SYNTHETIC, FAST_PART_COMMON, 0, label);
    float *x = (float *)data->x + i * data->features;
    for (int64_t k = 0; k < data->features; k++)
        x[k] = (float)c->distance * fast__rng_normal(&centre) + fast__rng_normal(rng);
    data->labels[i] = (int32_t)label;
}

/* Points of any dimension, standardised. */
static fast_err blobs_open(const void *config, uint64_t seed, fast_data **train_out,
                           fast_data **test_out)
{
    const blobs_config *c = config;
    const fast_data like = { .rank = 1,
                             .shape = { c->features },
                             .dtype = FAST_F32,
                             .channels = c->features,
                             .classes = c->classes };
    return fast__synthetic_open(&like, c->train, c->test, draw_blob, c, seed,
                                FAST_NORMALIZE_STANDARD, train_out, test_out);
}

const fast_data_kind fast__data_blobs = {
    .name = "blobs",
    .summary = "normal clouds, one a class; needs no file",
    .options = blobs_options,
    .config_size = sizeof(blobs_config),
    .open = blobs_open,
};
