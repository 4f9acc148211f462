/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent models: embed (for tokens), a stack of rnn, lstm or gru layers, a dense layer. Data
 * with an answer at each position (a language model, the copy task) read every position; data with
 * one answer read the last position.
 *
 *     tokens [T] - embed -> [T, E] - lstm -> [T, H] - dense -> [T, outputs]
 *                                                   - last -> [H] - dense -> [outputs]
 */
#include "model/models.h"

#include "model/layer.h"

#include <stddef.h>

typedef struct recurrent_config {
    int64_t hidden;    /* width of the hidden state */
    int64_t layers;    /* stacked layers */
    int64_t embedding; /* width of a token's vector */
    double dropout;    /* probability, before the dense layer */
} recurrent_config;

static const fast_option recurrent_options[] = {
    FAST_OPT_INT(recurrent_config, hidden, "128", 1, 65536, "width of the hidden state"),
    FAST_OPT_INT(recurrent_config, layers, "1", 1, FAST_STACK_MAX, "layers on top of each other"),
    FAST_OPT_INT(recurrent_config, embedding, "64", 1, 65536, "width of a token's vector"),
    FAST_OPT_REAL(recurrent_config, dropout, "0", 0, 0.99, "dropout before the dense layer"),
    FAST_OPT_END
};

/* The text of all three; the model's name is the name of its layer. */
static fast_err recurrent_write(const fast_model *model, const void *config,
                                const fast_model_input *input, fast_text *text)
{
    const recurrent_config *c = config;
    const char *name = model->name;
    char shape[64];

    if (!input->tokens && input->rank != 2)
        return fast__fail(FAST_EINVAL,
                          "%s takes sequences, but these data have the shape %s; use %s", name,
                          fast__shape_text(input->rank, input->shape, shape),
                          input->rank == 3 ? "lenet, resnet8 or mlp" : "mlp");
    if (input->tokens)
        FAST_TRY(fast__text_add(text, "embed %lld\n", (long long)c->embedding));
    FAST_TRY(fast__text_add(text, "%s: %s %lld layers=%lld\n", name, name, (long long)c->hidden,
                            (long long)c->layers));
    if (input->positions <= 1)
        FAST_TRY(fast__text_add(text, "last\n"));
    if (c->dropout > 0)
        FAST_TRY(fast__text_add(text, "dropout %g\n", c->dropout));
    return fast__text_add(text, "dense: dense %lld\n", (long long)input->outputs);
}

#define RECURRENT(kind, text)                    \
    const fast_model fast__model_##kind = {      \
        .name = #kind,                           \
        .summary = text,                         \
        .options = recurrent_options,            \
        .config_size = sizeof(recurrent_config), \
        .write = recurrent_write,                \
    };

RECURRENT(rnn, "recurrent network of Elman, for sequences and text")
RECURRENT(lstm, "long short-term memory, for sequences and text")
RECURRENT(gru, "gated recurrent units, for sequences and text")
