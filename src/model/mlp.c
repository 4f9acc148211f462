/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A multilayer perceptron: dense layers with ReLU between them, of the widths in `hidden`. Images
 * and sequences are flattened; tokens are embedded first.
 */
#include "model/models.h"

#include <stddef.h>

typedef struct mlp_config {
    char hidden[256];  /* widths as "512x512"; empty: no hidden layer */
    int64_t embedding; /* width of a token's vector */
    double dropout;    /* probability, after each hidden layer */
} mlp_config;

static const fast_option mlp_options[] = {
    FAST_OPT_TEXT(mlp_config, hidden, "512x512", NULL,
                  "widths of the hidden layers, joined by x; none: no hidden layer"),
    FAST_OPT_INT(mlp_config, embedding, "32", 1, 65536, "width of a token's vector"),
    FAST_OPT_REAL(mlp_config, dropout, "0", 0, 0.99, "dropout after each hidden layer"),
    FAST_OPT_END
};

/* Write the hidden layers: "512x256" is two, of 512 and 256 units. */
static fast_err add_hidden(const mlp_config *config, fast_text *text)
{
    int64_t widths[FAST_WIDTHS_MAX];
    int count = 0;

    FAST_TRY(fast__model_widths("model mlp: hidden", config->hidden, widths, &count));
    for (int i = 0; i < count; i++) {
        FAST_TRY(fast__text_add(text, "dense %lld\nrelu\n", (long long)widths[i]));
        if (config->dropout > 0)
            FAST_TRY(fast__text_add(text, "dropout %g\n", config->dropout));
    }
    return FAST_OK;
}

/* Write an embedding for tokens, the hidden layers and the output layer. Images need no flatten:
 * dense takes any shape. */
static fast_err mlp_write(const fast_model *model, const void *config,
                          const fast_model_input *input, fast_text *text)
{
    const mlp_config *c = config;

    FAST_TRY(fast__model_need_one_answer(model->name, input));
    FAST_TRY(fast__model_add_vector(input, c->embedding, text));
    FAST_TRY(add_hidden(c, text));
    return fast__text_add(text, "dense %lld\n", (long long)input->outputs);
}

const fast_model fast__model_mlp = {
    .name = "mlp",
    .summary = "multilayer perceptron: dense layers with ReLU",
    .options = mlp_options,
    .config_size = sizeof(mlp_config),
    .write = mlp_write,
};
