/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residual networks for small images: a convolution, three stages of n blocks with width, 2 width
 * and 4 width channels, global pooling, a dense layer; 6 n + 2 layers with weights.
 *
 *     x --- conv 3x3 - bn - relu - conv 3x3 - bn --- add - relu
 *       \------- conv 1x1 - bn if the shape changes ------/
 *
 * He et al., "Deep Residual Learning for Image Recognition", 2016, section 4.2, with projections
 * (option B) in the two shortcuts that change the shape.
 */
#include "model/models.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct resnet_config {
    int64_t width; /* channels of the first stage */
    int64_t ghost; /* samples per statistic of every batch norm */
} resnet_config;

static const fast_option resnet_options[] = {
    FAST_OPT_INT(resnet_config, width, "16", 1, 4096, "channels of the first stage"),
    FAST_OPT_INT(resnet_config, ghost, "0", 0, 1 << 24,
                 "samples per statistic of batch norm; 0: the whole batch"),
    FAST_OPT_END
};

/* The parameters of one block. */
typedef struct resnet_block {
    int number;         /* index of the block, from 1 */
    long long from;     /* input channels */
    long long to;       /* output channels */
    int stride;         /* stride of the first convolution */
    long long ghost;    /* samples per statistic of batch norm */
    const char *input;  /* name of the layer before the block */
    const char *output; /* name of its last layer */
} resnet_block;

/* Write one block: two convolutions with batch norm, and a shortcut that is projected where the
 * shape changes. The last relu has the name that the next block reads. */
static fast_err add_block(const resnet_block *b, fast_text *text)
{
    const bool project = b->stride != 1 || b->from != b->to;
    const char *const input = b->input;
    const int n = b->number;

    FAST_TRY(fast__text_add(text,
                            "block%d.conv1: conv %lld kernel=3 stride=%d pad=1 bias=no "
                            "from %s\n",
                            n, b->to, b->stride, input));
    FAST_TRY(fast__text_add(text, "block%d.bn1: batch_norm ghost=%lld\n", n, b->ghost));
    FAST_TRY(fast__text_add(text, "block%d.relu1: relu\n", n));
    FAST_TRY(fast__text_add(text, "block%d.conv2: conv %lld kernel=3 pad=1 bias=no\n", n, b->to));
    FAST_TRY(fast__text_add(text, "block%d.bn2: batch_norm ghost=%lld\n", n, b->ghost));
    if (project) {
        FAST_TRY(fast__text_add(text,
                                "block%d.shortcut.conv: conv %lld kernel=1 stride=%d bias=no "
                                "from %s\n",
                                n, b->to, b->stride, input));
        FAST_TRY(fast__text_add(text, "block%d.shortcut.bn: batch_norm ghost=%lld\n", n, b->ghost));
        FAST_TRY(
            fast__text_add(text, "block%d.add: add block%d.bn2 block%d.shortcut.bn\n", n, n, n));
    } else {
        FAST_TRY(fast__text_add(text, "block%d.add: add block%d.bn2 %s\n", n, n, input));
    }
    return fast__text_add(text, "%s: relu\n", b->output);
}

/* The text of all sizes: three stages of model->blocks blocks. */
static fast_err resnet_write(const fast_model *model, const void *config_of_model,
                             const fast_model_input *input, fast_text *text)
{
    const resnet_config *config = config_of_model;
    const int blocks = model->blocks;
    char last[32] = "relu";
    char next[32];
    long long channels = config->width;

    FAST_TRY(fast__model_need_images(model->name, input, 4));
    FAST_TRY(fast__text_add(text, "conv: conv %lld kernel=3 pad=1 bias=no\n", channels));
    FAST_TRY(fast__text_add(text, "bn: batch_norm ghost=%lld\n", (long long)config->ghost));
    FAST_TRY(fast__text_add(text, "relu: relu\n"));
    for (int i = 0; i < 3 * blocks; i++) {
        const bool widen = i > 0 && i % blocks == 0;
        const resnet_block b = { .number = i + 1,
                                 .from = channels,
                                 .to = widen ? 2 * channels : channels,
                                 .stride = widen ? 2 : 1,
                                 .ghost = config->ghost,
                                 .input = last,
                                 .output = next };
        snprintf(next, sizeof next, "block%d.relu2", i + 1);
        FAST_TRY(add_block(&b, text));
        channels = b.to;
        memcpy(last, next, sizeof last);
    }
    return fast__text_add(text, "global_pool\ndense: dense %lld\n", (long long)input->outputs);
}

#define RESNET(layers, count)                                                  \
    const fast_model fast__model_resnet##layers = {                            \
        .name = "resnet" #layers,                                              \
        .summary = "residual network of " #layers " layers, for small images", \
        .options = resnet_options,                                             \
        .config_size = sizeof(resnet_config),                                  \
        .blocks = count,                                                       \
        .write = resnet_write,                                                 \
    };

RESNET(8, 1)
RESNET(20, 3)
RESNET(56, 9)
