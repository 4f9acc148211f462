/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The models by name. A model is a function that writes the network language for given data, so
 * that there is one way to build a graph, and `fast train` can show the text of a model.
 * "file:PATH" reads that language from a file, "onnx:PATH" writes it for an ONNX file.
 */
#include "model/models.h"

#include "base/file.h"
#include "base/memory.h"
#include "model/layer.h"
#include "model/onnx/onnx.h"

#include <stdio.h>
#include <string.h>

/* "file" without a path is an error. */
static fast_err file_write(const fast_model *model, const void *config,
                           const fast_model_input *input, fast_text *text)
{
    (void)model, (void)config, (void)input, (void)text;
    return fast__fail(FAST_EINVAL, "file needs the path of a network file: file:PATH");
}

/* No model, but a way to name one; in the list so that help and messages know it. */
static const fast_model model_file = {
    .name = "file",
    .summary = "a network file: file:PATH",
    .config_size = 1,
    .write = file_write,
};

/* "onnx" without a path is an error. */
static fast_err onnx_write(const fast_model *model, const void *config,
                           const fast_model_input *input, fast_text *text)
{
    (void)model, (void)config, (void)input, (void)text;
    return fast__fail(FAST_EINVAL, "onnx needs the path of an ONNX file: onnx:PATH");
}

/* Another way to name a model, in the list for the same reason. */
static const fast_model model_onnx = {
    .name = "onnx",
    .summary = "an ONNX file with its weights: onnx:PATH, or PATH.onnx",
    .config_size = 1,
    .write = onnx_write,
};

const fast_model *const fast__models[] = {
    &fast__model_mlp,      &fast__model_lenet,    &fast__model_alexnet,
    &fast__model_resnet8,  &fast__model_resnet20, &fast__model_resnet56,
    &fast__model_densenet, &fast__model_rnn,      &fast__model_lstm,
    &fast__model_gru,      &fast__model_gpt,      &fast__model_treenet,
    &fast__model_dsn,      &fast__model_cots,     &fast__model_rollout,
    &model_file,           &model_onnx,           NULL,
};

/* Models that end in one vector cannot answer at each position. */
fast_err fast__model_need_one_answer(const char *model, const fast_model_input *input)
{
    if (input->positions > 1)
        return fast__fail(FAST_EINVAL,
                          "%s answers once a sample, but these data ask for %lld answers; use "
                          "rnn, lstm, gru or gpt",
                          model, (long long)input->positions);
    return FAST_OK;
}

/* The least size is that at which no pooling window is empty. */
fast_err fast__model_need_images(const char *model, const fast_model_input *input, int64_t size)
{
    char text[64];

    if (input->rank != 3 || input->tokens)
        return fast__fail(FAST_EINVAL,
                          "%s takes images, but these data have the shape %s; use mlp, or lstm for "
                          "sequences",
                          model, fast__shape_text(input->rank, input->shape, text));
    if (input->shape[1] < size || input->shape[2] < size)
        return fast__fail(
            FAST_EINVAL, "%s takes images of at least %lldx%lld, but these have %lldx%lld; use mlp",
            model, (long long)size, (long long)size, (long long)input->shape[1],
            (long long)input->shape[2]);
    return fast__model_need_one_answer(model, input);
}

/* The words between the letters x. */
fast_err fast__model_widths(const char *what, const char *text, int64_t *widths, int *count_out)
{
    const char *c = strcmp(text, "none") == 0 ? "" : text;
    int count = 0;

    while (*c) {
        const size_t length = strcspn(c, "x");
        char word[32] = { 0 };
        int64_t width = 0;

        memcpy(word, c, length < sizeof word ? length : sizeof word - 1);
        FAST_TRY(fast__parse_int(what, word, &width));
        if (width < 1 || width > 1 << 20 || count >= FAST_WIDTHS_MAX ||
            (c[length] && !c[length + 1]))
            return fast__fail(FAST_EINVAL, "%s \"%s\"; write up to %d widths as in 512x512", what,
                              text, FAST_WIDTHS_MAX);
        widths[count++] = width;
        c += length + (c[length] == 'x');
    }
    *count_out = count;
    return FAST_OK;
}

fast_err fast__model_add_vector(const fast_model_input *input, int64_t embedding, fast_text *text)
{
    if (input->tokens)
        FAST_TRY(fast__text_add(text, "embed %lld\n", (long long)embedding));
    return input->tokens || input->rank == 2 ? fast__text_add(text, "flatten\n") : FAST_OK;
}

/* Name of model `i`, for fast__name_find(). */
static const char *model_name(const void *ctx, int64_t i)
{
    (void)ctx;
    return fast__models[i]->name;
}

/* Write the `input` line. */
static fast_err add_input_line(const fast_model_input *input, fast_text *text)
{
    FAST_TRY(fast__text_add(text, "input"));
    for (int i = 0; i < input->rank; i++)
        FAST_TRY(fast__text_add(text, " %lld", (long long)input->shape[i]));
    if (input->tokens)
        FAST_TRY(fast__text_add(text, " tokens=%lld", (long long)input->vocabulary));
    return fast__text_add(text, "\n");
}

/* Write the `loss` line. */
fast_err fast__model_add_loss(const fast_model_input *input, bool train, fast_text *text)
{
    return fast__text_add(text, "loss %s%s\n", input->regression ? "mse" : "cross_entropy",
                          train ? "" : " train=no");
}

/* Write the text of a named model: the input line of the data, the model's layers, the loss line
 * that fits the answers. */
static fast_err write_model(const fast_model *model, const char *options,
                            const fast_model_input *input, fast_text *text)
{
    void *config = NULL;
    fast_err err = FAST_OK;
    char where[64] = "model ";

    FAST_TRY(fast__alloc("a model's options", 1, model->config_size, &config));
    strncat(where, model->name, sizeof where - strlen(where) - 1);
    fast__options_default(model->options, config);
    err = fast__options_parse(where, model->options, config, options);
    if (!err)
        err = add_input_line(input, text);
    if (!err)
        err = model->write(model, config, input, text);
    if (!err && !model->writes_loss)
        err = fast__model_add_loss(input, true, text);
    fast__free(config);
    return err;
}

/* Read a network file and complete its text: lines that follow from the data are added. */
static fast_err write_file(const char *path, const fast_model_input *input, fast_text *text,
                           fast_network **out)
{
    fast_network *network = NULL;
    char *bytes = NULL;
    size_t size = 0;
    fast_err err = FAST_OK;

    FAST_TRY(fast__file_read(path, FAST_TEXT_MAX / 2, &bytes, &size));
    err = fast__network_parse(bytes, size, &network);
    if (!err && network->layer_count > 0 && network->layers[0].line == 0)
        err = add_input_line(input, text);
    if (!err)
        err = fast__text_add(text, "%s%s", bytes, size > 0 && bytes[size - 1] != '\n' ? "\n" : "");
    if (!err && !network->loss_given)
        err = fast__model_add_loss(input, true, text);
    fast__free(bytes);
    if (err) {
        fast_network_free(network);
        return err;
    }
    *out = network;
    return FAST_OK;
}

/* Write the text of a spec and parse it. "file:PATH" is not split at commas: a path may have
 * any. *weights_out receives the weights of an ONNX file. */
static fast_err open_network(const char *spec, const fast_model_input *input, fast_text *text,
                             fast_network **out, fast_onnx_weights **weights_out)
{
    int64_t count = 0;
    int64_t i = 0;
    const char *rest = NULL;
    char name[64];

    /* An ONNX file is a network and its weights: the text is written, the weights follow. */
    if (fast__onnx_spec(spec, &rest) && *rest) {
        FAST_TRY(fast__onnx_import(rest, input, text, weights_out));
        FAST_TRY(fast__model_add_loss(input, true, text));
        return fast__network_parse(text->data, text->size, out);
    }

    while (fast__models[count])
        count++;
    FAST_TRY(fast__spec_split(spec, name, sizeof name, &rest));
    i = fast__name_find(name, model_name, NULL, count, NULL);
    if (i < 0)
        return fast__name_unknown("model", name, model_name, NULL, count);
    if (fast__models[i] == &model_file && rest && *rest)
        return write_file(rest, input, text, out);
    FAST_TRY(write_model(fast__models[i], rest, input, text));
    return fast__network_parse(text->data, text->size, out);
}

/* Say where an error is: in a file, or in a model by name, whose lines the user never wrote. */
static fast_err fail_in_model(fast_err err, const char *spec)
{
    char text[FAST_DETAIL_MAX];
    int skipped = 0;

    if (strncmp(spec, "file:", 5) == 0)
        return spec[5] ? fast__fail_in(err, spec + 5) : err;
    snprintf(text, sizeof text, "%s", fast_error_detail());
    sscanf(text, "line %*d: %n", &skipped);
    return skipped > 0 ? fast__fail(err, "model %.100s: %s", spec, text + skipped) : err;
}

/* Write the text of a spec, parse it and fit it to the data. *text_out is what `fast train`
 * shows; the caller frees it. */
fast_err fast__model_open(const char *spec, const fast_model_input *input, fast_graph **out,
                          char **text_out)
{
    fast_text text = { 0 };
    fast_network *network = NULL;
    fast_graph *graph = NULL;
    fast_onnx_weights *weights = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(input->rank >= 1);
    FAST_ASSERT(input->rank <= 3);
    err = open_network(spec, input, &text, &network, &weights);
    if (!err)
        err = fast__network_fit(network, input, &graph);
    if (!err && weights)
        err = fast__onnx_weights_set(weights, graph);
    fast__onnx_weights_free(weights);
    fast_network_free(network);
    if (err) {
        fast__graph_free(graph);
        fast__text_fini(&text);
        return err == FAST_EINVAL ? fail_in_model(err, spec) : err;
    }
    *out = graph;
    *text_out = text.data;
    return FAST_OK;
}
