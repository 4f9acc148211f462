/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AlexNet for small images: its five convolutions and three dense layers with dropout, the strides
 * and windows of the first layers reduced to what 28x28 and 32x32 allow. Krizhevsky et al.,
 * "ImageNet Classification with Deep Convolutional Neural Networks", 2012.
 *
 *     conv 5x5, w - relu - pool 2
 *     conv 5x5, 3 w - relu - pool 2
 *     conv 3x3, 6 w - relu
 *     conv 3x3, 4 w - relu
 *     conv 3x3, 4 w - relu - pool 2
 *     (dropout - dense - relu) twice - dense
 */
#include "model/models.h"

#include <stddef.h>

typedef struct alexnet_config {
    int64_t width;  /* filters of the first convolution */
    int64_t hidden; /* width of the two hidden dense layers */
    double dropout; /* probability, before each of the two */
} alexnet_config;

static const fast_option alexnet_options[] = {
    FAST_OPT_INT(alexnet_config, width, "64", 1, 4096, "filters of the first convolution"),
    FAST_OPT_INT(alexnet_config, hidden, "1024", 1, 65536, "width of the two hidden dense layers"),
    FAST_OPT_REAL(alexnet_config, dropout, "0.5", 0, 0.99, "dropout before each of them"),
    FAST_OPT_END
};

/* Write the network's text. */
static fast_err alexnet_write(const fast_model *model, const void *config,
                              const fast_model_input *input, fast_text *text)
{
    const alexnet_config *c = config;
    const long long w = c->width;

    FAST_TRY(fast__model_need_images(model->name, input, 8));
    FAST_TRY(fast__text_add(text, "conv %lld kernel=5 pad=2 init=he\nrelu\nmax_pool 2\n", w));
    FAST_TRY(fast__text_add(text, "conv %lld kernel=5 pad=2 init=he\nrelu\nmax_pool 2\n", 3 * w));
    FAST_TRY(fast__text_add(text, "conv %lld kernel=3 pad=1 init=he\nrelu\n", 6 * w));
    FAST_TRY(fast__text_add(text, "conv %lld kernel=3 pad=1 init=he\nrelu\n", 4 * w));
    FAST_TRY(fast__text_add(text, "conv %lld kernel=3 pad=1 init=he\nrelu\nmax_pool 2\n", 4 * w));
    FAST_TRY(fast__text_add(text, "flatten\n"));
    for (int i = 0; i < 2; i++) {
        if (c->dropout > 0)
            FAST_TRY(fast__text_add(text, "dropout %g\n", c->dropout));
        FAST_TRY(fast__text_add(text, "dense %lld init=he\nrelu\n", (long long)c->hidden));
    }
    return fast__text_add(text, "dense %lld\n", (long long)input->outputs);
}

const fast_model fast__model_alexnet = {
    .name = "alexnet",
    .summary = "AlexNet cut to small images: five convolutions, three dense layers",
    .options = alexnet_options,
    .config_size = sizeof(alexnet_config),
    .write = alexnet_write,
};
