/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LeNet in the form that Caffe made common: two convolutions of 5x5 with max pooling, two dense
 * layers; 431,080 parameters on images of 28x28 with 10 classes. LeCun et al., "Gradient-Based
 * Learning Applied to Document Recognition", 1998.
 *
 *     1x28x28 - conv 5x5 -> 20x24x24 - pool -> 20x12x12 - conv 5x5 -> 50x8x8 - pool -> 50x4x4
 *             - dense -> 500 - relu - dense -> 10
 */
#include "model/models.h"

#include <stddef.h>

typedef struct lenet_config {
    double dropout; /* probability, before the last layer */
} lenet_config;

static const fast_option lenet_options[] = { FAST_OPT_REAL(lenet_config, dropout, "0", 0, 0.99,
                                                           "dropout before the last layer"),
                                             FAST_OPT_END };

/* Write the layers in Caffe's order: pooling comes before relu, which saves three quarters of
 * it. */
static fast_err lenet_write(const fast_model *model, const void *config,
                            const fast_model_input *input, fast_text *text)
{
    const lenet_config *c = config;

    FAST_TRY(fast__model_need_images(model->name, input, 16));
    FAST_TRY(fast__text_add(text, "conv 20 kernel=5\n"
                                  "max_pool 2\n"
                                  "relu\n"
                                  "conv 50 kernel=5\n"
                                  "max_pool 2\n"
                                  "relu\n"
                                  "dense 500\n"
                                  "relu\n"));
    if (c->dropout > 0)
        FAST_TRY(fast__text_add(text, "dropout %g\n", c->dropout));
    return fast__text_add(text, "dense %lld\n", (long long)input->outputs);
}

const fast_model fast__model_lenet = {
    .name = "lenet",
    .summary = "LeNet-5: two convolutions and two dense layers, for small images",
    .options = lenet_options,
    .config_size = sizeof(lenet_config),
    .write = lenet_write,
};
