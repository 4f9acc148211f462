/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A multilayer perceptron: dense layers with ReLU between them, of the widths in `hidden`. Images
 * and sequences are flattened; tokens are embedded first.
 */
#include "model/models.h"

#include <stddef.h>
#include <string.h>

enum { WIDTHS_MAX = 64 };

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

/* Write the hidden layers: "512x256" is two, of 512 and 256 units. FAST_EINVAL for a width that is
 * not a number from 1 to 2^20, and for more than WIDTHS_MAX of them. */
static fast_err add_hidden(const mlp_config *config, fast_text *text)
{
    const char *c = strcmp(config->hidden, "none") == 0 ? "" : config->hidden;

    for (int i = 0; *c; i++) {
        const size_t length = strcspn(c, "x");
        char word[32] = { 0 };
        int64_t width = 0;
        memcpy(word, c, length < sizeof word ? length : sizeof word - 1);
        FAST_TRY(fast__parse_int("model mlp: hidden", word, &width));
        if (width < 1 || width > 1 << 20 || i >= WIDTHS_MAX || (c[length] && !c[length + 1]))
            return fast__fail(FAST_EINVAL,
                              "model mlp: hidden \"%s\"; write up to %d widths as in 512x512",
                              config->hidden, WIDTHS_MAX);
        FAST_TRY(fast__text_add(text, "dense %lld\nrelu\n", (long long)width));
        if (config->dropout > 0)
            FAST_TRY(fast__text_add(text, "dropout %g\n", config->dropout));
        c += length + (c[length] == 'x');
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
    if (input->tokens)
        FAST_TRY(fast__text_add(text, "embed %lld\n", (long long)c->embedding));
    if (input->tokens || input->rank == 2)
        FAST_TRY(fast__text_add(text, "flatten\n"));
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
