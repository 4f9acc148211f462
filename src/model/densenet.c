/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DenseNet for small images: three blocks in which every layer reads all layers before it,
 * depth = 3 n + 4.
 *
 *     layer        x -> concat(x, conv 3x3 (relu (bn x)))          adds `growth` channels
 *     transition   bn - relu - conv 1x1 to `compression` of the channels - average pool 2
 *
 * With growth g the first convolution has 2 g channels, and layer i of a block reads all that the
 * block got, plus (i - 1) g. "block1.layer2" names the concatenation after a layer, which the next
 * one reads.
 *
 * Huang et al., "Densely Connected Convolutional Networks", 2017.
 */
#include "model/models.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct densenet_config {
    int64_t depth;      /* layers with weights: 3 n + 4 */
    int64_t growth;     /* channels that a layer adds */
    double compression; /* fraction of the channels after a transition */
    double dropout;     /* probability, after each convolution of a block */
} densenet_config;

static const fast_option densenet_options[] = {
    FAST_OPT_INT(densenet_config, depth, "22", 7, 400, "layers with weights, 3 n + 4"),
    FAST_OPT_INT(densenet_config, growth, "12", 1, 1024, "channels that a layer adds"),
    FAST_OPT_REAL(densenet_config, compression, "0.5", 0.01, 1, "channels that a transition keeps"),
    FAST_OPT_REAL(densenet_config, dropout, "0", 0, 0.99, "dropout after each convolution"),
    FAST_OPT_END
};

/* Write one layer of a block: `last` is the name of its input, and then of its output. */
static fast_err add_layer(const densenet_config *c, int b, int i, char last[48], fast_text *text)
{
    char name[40];

    snprintf(name, sizeof name, "block%d.layer%d", b, i);
    FAST_TRY(fast__text_add(text, "%s.bn: batch_norm from %s\n%s.relu: relu\n", name, last, name));
    FAST_TRY(fast__text_add(text, "%s.conv: conv %lld kernel=3 pad=1 bias=no init=he\n", name,
                            (long long)c->growth));
    if (c->dropout > 0)
        FAST_TRY(fast__text_add(text, "%s.dropout: dropout %g\n", name, c->dropout));
    FAST_TRY(fast__text_add(text, "%s: concat %s %s.%s\n", name, last, name,
                            c->dropout > 0 ? "dropout" : "conv"));
    snprintf(last, 48, "%s", name);
    return FAST_OK;
}

/* Write three blocks with transitions between them. Channels grow by `growth` a layer and shrink
 * by `compression` a transition. */
static fast_err densenet_write(const fast_model *model, const void *config,
                               const fast_model_input *input, fast_text *text)
{
    const densenet_config *c = config;
    const int layers = (int)(c->depth - 4) / 3;
    int64_t channels = 2 * c->growth;
    char last[48] = "conv";

    FAST_TRY(fast__model_need_images(model->name, input, 4));
    if ((c->depth - 4) % 3)
        return fast__fail(FAST_EINVAL, "model densenet: depth %lld is not 3 n + 4; try %d",
                          (long long)c->depth, 3 * layers + 4);
    FAST_TRY(fast__text_add(text, "conv: conv %lld kernel=3 pad=1 bias=no init=he\n",
                            (long long)channels));
    for (int b = 1; b <= 3; b++) {
        for (int i = 1; i <= layers; i++)
            FAST_TRY(add_layer(c, b, i, last, text));
        channels += layers * c->growth;
        if (b == 3)
            break;
        channels = (int64_t)((double)channels * c->compression);
        channels = channels > 0 ? channels : 1;
        FAST_TRY(
            fast__text_add(text, "transition%d.bn: batch_norm\ntransition%d.relu: relu\n", b, b));
        FAST_TRY(fast__text_add(text, "transition%d.conv: conv %lld kernel=1 bias=no init=he\n", b,
                                (long long)channels));
        snprintf(last, sizeof last, "transition%d", b);
        FAST_TRY(fast__text_add(text, "%s: avg_pool 2\n", last));
    }
    return fast__text_add(text, "bn: batch_norm\nrelu: relu\nglobal_pool\ndense: dense %lld\n",
                          (long long)input->outputs);
}

const fast_model fast__model_densenet = {
    .name = "densenet",
    .summary = "densely connected network, for small images",
    .options = densenet_options,
    .config_size = sizeof(densenet_config),
    .write = densenet_write,
};
