/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model file opened for predictions.
 *
 *   file -> tensors and metadata (tensor/safetensors.h: bounded by the file)
 *        -> recipe of the inputs, text of the network -> graph
 *        -> every weight is there, has its shape and is finite; nothing large is taken before
 *        -> program, workspace, weights
 *
 * The program is compiled as a training run compiles it, for the batch of that run, because engines
 * choose kernels by both: so the outputs equal those of the run to the bit.
 *
 * Metadata are hostile input. A network is at most FAST_TEXT_MAX bytes, its weights are in the
 * file, and the activations of a batch are bounded by ACTIVATIONS_MAX: a file of a kilobyte cannot
 * ask for gigabytes. A batch that is too large for that is made smaller.
 *
 * A file without a description (other programs, earlier versions) needs options `model` and `data`,
 * as they were in its training; the training data are read to describe the inputs.
 */
#include "run/predict/predictor.h"

#include "base/memory.h"
#include "data/sample_gather.h"
#include "model/network.h"
#include "model/network_text.h"
#include "model/onnx/onnx.h"
#include "run/compressed.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH_DEFAULT = 64, BATCH_MAX = 65536 };
#define ACTIVATIONS_MAX ((int64_t)1 << 29) /* values of a batch in all layers: 2 GiB */

/* A file while it is opened. */
typedef struct model_file {
    const char *path;                      /* for messages */
    const fast_predictor_options *options; /* never NULL */
    fast_tensors *tensors;                 /* the file */
} model_file;

/* A member of the description that is JSON itself; null where the file has no such text. */
static fast_err set_json(const model_file *file, const char *key, json_t **tree, const char *member)
{
    const char *text = fast__tensors_meta(file->tensors, key);
    json_t *value = json_null();

    if (text && strlen(text) > FAST_RECIPE_SIZE_MAX)
        return fast__fail(FAST_EFORMAT, "%s: %s has %zu bytes; at most %d are read", file->path,
                          key, strlen(text), FAST_RECIPE_SIZE_MAX);
    if (text)
        FAST_TRY(fast__json_read(file->path, text, strlen(text), &value));
    fast__json_set(tree, member, value);
    return FAST_OK;
}

/* The tensors of the file: names, types and shapes. */
static json_t *list_tensors(const fast_tensors *tensors)
{
    json_t *list = json_array();

    for (int64_t i = 0; i < fast__tensors_count(tensors); i++) {
        const fast_tensor *tensor = fast__tensors_at(tensors, i);
        json_t *entry = json_object(), *shape = json_array();

        for (int d = 0; d < tensor->rank; d++)
            fast__json_append(&shape, json_integer(tensor->shape[d]));
        fast__json_set(&entry, "name", fast__json_text(tensor->name));
        fast__json_set(&entry, "dtype", fast__json_text(fast__dtype_name(tensor->dtype)));
        fast__json_set(&entry, "shape", shape);
        fast__json_append(&list, entry);
    }
    return list;
}

/* Describe the file; its JSON is parsed and printed again, so that a damaged one is refused. */
static fast_err describe(const model_file *file, char **out)
{
    json_t *tree = json_object();

    fast__json_set(&tree, "model",
                   fast__json_text(fast__tensors_meta(file->tensors, "fast_model")));
    fast__json_set(&tree, "network",
                   fast__json_text(fast__tensors_meta(file->tensors, "fast_network")));
    fast_err err = set_json(file, "fast_data", &tree, "data");
    if (!err)
        err = set_json(file, "fast_training", &tree, "training");
    if (err) {
        json_decref(tree);
        return err;
    }
    fast__json_set(&tree, "tensors", list_tensors(file->tensors));
    return fast__json_print(&tree, out);
}

/* Copy an option; a path becomes a spec by its ending, as in a run. */
static fast_err copy_spec(const char *option, const char *value, char spec[FAST_PATH_MAX])
{
    if (snprintf(spec, FAST_PATH_MAX, "%s", value) >= FAST_PATH_MAX)
        return fast__fail(FAST_EINVAL, "%s %.60s... is too long", option, value);
    return fast__bare_path(option, spec);
}

/* The recipe of the file, or of the training data that the options name. */
static fast_err open_recipe(const model_file *file, fast_predictor *p)
{
    const char *text = fast__tensors_meta(file->tensors, "fast_data");
    fast_data *train = NULL, *test = NULL;
    char *made = NULL, spec[FAST_PATH_MAX];

    if (!file->options->data && text)
        return fast__recipe_read(file->path, text, &p->recipe);
    if (!file->options->data)
        return fast__fail(FAST_EINVAL,
                          "%s does not describe its inputs, as files of other programs and of "
                          "earlier versions; give --model and --data as they were in its training",
                          file->path);
    FAST_TRY(copy_spec("data", file->options->data, spec));
    FAST_TRY(fast__data_open(spec, 1, &train, &test, NULL));
    fast_err err = fast__recipe_write(train, &made);
    if (!err)
        err = fast__recipe_read(file->path, made, &p->recipe);
    fast__free(made);
    fast_data_free(train);
    fast_data_free(test);
    return err;
}

/* The graph of the file's network, or of the one that the options name. */
static fast_err open_graph(const model_file *file, fast_predictor *p)
{
    const fast_data *like = p->recipe->like;
    const char *text = fast__tensors_meta(file->tensors, "fast_network");
    fast_model_input input = { .rank = like->rank,
                               .outputs = like->outputs,
                               .tokens = like->tokens,
                               .vocabulary = like->vocabulary,
                               .regression = like->classes == 0,
                               .positions = like->positions };
    fast_network *network = NULL;
    char *made = NULL, spec[FAST_PATH_MAX];

    memcpy(input.shape, like->shape, sizeof input.shape);
    if (file->options->model) {
        FAST_TRY(copy_spec("model", file->options->model, spec));
        FAST_TRY(fast__model_open(spec, &input, &p->graph, &made));
        fast__free(made);
        return FAST_OK;
    }
    if (!text)
        return fast__fail(FAST_EINVAL,
                          "%s does not describe its network; give --model as in its training",
                          file->path);
    if (strlen(text) > FAST_TEXT_MAX)
        return fast__fail(FAST_EFORMAT, "%s has a network of %zu bytes; at most %d are read",
                          file->path, strlen(text), FAST_TEXT_MAX);
    fast_err err = fast__network_parse(text, strlen(text), &network);
    if (!err)
        err = fast__network_fit(network, &input, &p->graph);
    fast_network_free(network);
    return err == FAST_EINVAL ? fast__fail_in(FAST_EFORMAT, file->path) : err;
}

/* Check the file's tensors against the graph. */
static fast_err check_weights(const model_file *file, const fast_graph *graph)
{
    const fast_layout *const layouts[] = { &graph->params, &graph->state };

    for (int i = 0; i < 2; i++) {
        FAST_TRY(fast__weights_check(file->path, file->tensors, layouts[i], ""));
        FAST_TRY(fast__weights_check_finite(file->path, file->tensors, layouts[i]));
    }
    return FAST_OK;
}

/* Return the values of one sample in all layers; attention also has a weight for each pair of
 * positions. INT64_MAX where they overflow. */
static int64_t count_values(const fast_graph *graph)
{
    int64_t values = 0;

    for (int i = 0; i < graph->node_count; i++) {
        const fast_node *node = &graph->nodes[i];
        int64_t pairs = 0;

        if (node->op == FAST_OP_ATTENTION &&
            (!fast__mul_size(node->shape[0], node->shape[0], &pairs) ||
             !fast__mul_size(pairs, node->heads, &pairs)))
            return INT64_MAX;
        if (!fast__add_size(values, node->count, &values) ||
            !fast__add_size(values, pairs, &values))
            return INT64_MAX;
    }
    return values;
}

/* The batch that was asked for, or of the training; smaller where activations would be too large.
 */
static fast_err choose_batch(const model_file *file, const fast_predictor *p, int64_t *out)
{
    const char *text = fast__tensors_meta(file->tensors, "fast_training");
    json_t *training = NULL;
    const int64_t values = count_values(p->graph);
    int64_t batch = file->options->batch;

    if (batch < 0 || batch > BATCH_MAX)
        return fast__fail(FAST_EINVAL, "a batch has 1 to %d samples, not %lld", BATCH_MAX,
                          (long long)batch);
    if (batch == 0 && text) {
        FAST_TRY(fast__json_read(file->path, text, strlen(text), &training));
        batch = json_integer_value(json_object_get(training, "batch"));
        json_decref(training);
    }
    if (batch < 1 || batch > BATCH_MAX)
        batch = BATCH_DEFAULT;
    if (values > ACTIVATIONS_MAX)
        return fast__fail(FAST_EFORMAT,
                          "%s: one sample takes %lld values in its layers; at most "
                          "%lld are computed",
                          file->path, (long long)values, (long long)ACTIVATIONS_MAX);
    *out = batch * values > ACTIVATIONS_MAX ? ACTIVATIONS_MAX / values : batch;
    return FAST_OK;
}

/* Compile the network and take the memory of a batch. */
static fast_err open_program(const model_file *file, fast_predictor *p)
{
    const char *plan = file->options->plan;
    fast_engine_options options = { .train = true };
    const fast_graph *graph = p->graph;

    FAST_TRY(choose_batch(file, p, &options.batch));
    options.plan_path = !plan || strcmp(plan, "auto") == 0 ? NULL : strcmp(plan, "no") ? plan : "";
    FAST_TRY(fast__engine_find(file->options->engine ? file->options->engine : "auto", &p->engine));
    FAST_TRY(p->engine->compile(graph, &options, &p->program));
    FAST_TRY(p->engine->workspace_new(p->program, &p->workspace));
    const fast_data *like = p->recipe->like;
    p->sizes = (fast_predictor_sizes){ .inputs = like->features,
                                       .positions = graph->positions,
                                       .outputs = graph->outputs,
                                       .classes = like->classes,
                                       .batch = options.batch,
                                       .params = graph->params.count,
                                       .text = like->alphabet != NULL };
    const int64_t outputs = options.batch * graph->positions * graph->outputs;
    FAST_TRY(fast__alloc("parameters", graph->params.count, sizeof(float), &p->w));
    FAST_TRY(fast__alloc("statistics", graph->state.count, sizeof(float), &p->s));
    FAST_TRY(fast__alloc("samples", options.batch * like->features, sizeof(float), &p->x));
    FAST_TRY(fast__alloc("outputs", outputs, sizeof(float), &p->outputs));
    FAST_TRY(fast__alloc("probabilities", outputs, sizeof(float), &p->probabilities));
    FAST_TRY(fast__alloc("numbers", options.batch, sizeof(uint32_t), &p->numbers));
    for (int64_t i = 0; i < options.batch; i++)
        p->numbers[i] = (uint32_t)i;
    return FAST_OK;
}

/* Open all parts of a file that was read. */
static fast_err open_parts(const model_file *file, fast_predictor *p)
{
    FAST_TRY(describe(file, &p->json));
    if (file->options->describe)
        return FAST_OK;
    FAST_TRY(open_recipe(file, p));
    FAST_TRY(open_graph(file, p));
    FAST_TRY(check_weights(file, p->graph));
    FAST_TRY(open_program(file, p));
    fast__weights_copy(file->tensors, &p->graph->params, "", p->w);
    fast__weights_copy(file->tensors, &p->graph->state, "", p->s);
    return FAST_OK;
}

fast_err fast_predictor_open(const char *path, const fast_predictor_options *options,
                             fast_predictor **out)
{
    const fast_predictor_options standard = { 0 };
    model_file file = { .path = path, .options = options ? options : &standard };
    fast_predictor *p;

    FAST_ASSERT(path != NULL && out != NULL);
    FAST_TRY(fast__check_size("fast_predictor_options", file.options->size, sizeof *file.options));
    FAST_TRY(file.options->bytes
                 ? fast__tensors_parse(file.options->bytes, file.options->byte_count, &file.tensors)
                 : fast__tensors_open(path, &file.tensors));
    fast_err err = fast__decompress(path, file.tensors);
    if (!err)
        err = fast__alloc("a model", 1, sizeof *p, &p);
    if (!err) {
        err = open_parts(&file, p);
        if (err)
            fast_predictor_close(p);
        else
            *out = p;
    }
    fast__tensors_close(file.tensors);
    return err;
}

void fast_predictor_close(fast_predictor *predictor)
{
    fast_predictor *p = predictor;

    if (!p)
        return;
    if (p->engine) {
        p->engine->workspace_free(p->workspace);
        p->engine->program_free(p->program);
    }
    fast__graph_free(p->graph);
    fast__recipe_free(p->recipe);
    fast__free(p->w);
    fast__free(p->s);
    fast__free(p->x);
    fast__free(p->outputs);
    fast__free(p->probabilities);
    fast__free(p->numbers);
    fast__free(p->json);
    fast__figures_free(p->sums);
    fast__free(p->scores);
    fast__free(p);
}

const fast_predictor_sizes *fast_predictor_get_sizes(const fast_predictor *predictor)
{
    return &predictor->sizes;
}

const char *fast_predictor_class(const fast_predictor *predictor, int64_t i)
{
    const char *name = predictor->recipe->like->class_names;

    FAST_ASSERT(i >= 0 && i < predictor->sizes.classes);
    for (; name && i > 0; i--)
        name += strlen(name) + 1;
    return name;
}

const char *fast_predictor_json(const fast_predictor *predictor)
{
    return predictor->json;
}

/* A predictor that was opened to be described has no weights, and nothing to write. */
fast_err fast_predictor_export(const fast_predictor *predictor, const char *path)
{
    if (!predictor->graph || !predictor->w)
        return fast__fail(FAST_EINVAL, "the model was opened without its weights");
    return fast__onnx_save(predictor->graph, predictor->w, predictor->s, path);
}

fast_err fast__predictor_pass(fast_predictor *predictor, int64_t count, const int32_t *labels,
                              const float *targets, double *loss_out)
{
    const fast_batch batch = {
        .count = count, .x = predictor->x, .labels = labels, .targets = targets
    };
    fast_pass pass = { .params = predictor->w,
                       .state = predictor->s,
                       .batch = &batch,
                       .outputs = predictor->outputs };

    FAST_ASSERT(count > 0 && count <= predictor->sizes.batch);
    FAST_TRY(predictor->engine->run(predictor->program, predictor->workspace, &pass));
    fast__data_restore_targets(predictor->recipe->like,
                               count * predictor->sizes.positions * predictor->sizes.outputs,
                               predictor->outputs);
    if (loss_out)
        *loss_out = pass.loss;
    return FAST_OK;
}

void fast__softmax_rows(int64_t rows, int64_t count, const float *logits, float *out)
{
    for (int64_t r = 0; r < rows; r++, logits += count, out += count) {
        float top = logits[0];
        double sum = 0;

        for (int64_t k = 1; k < count; k++)
            top = logits[k] > top ? logits[k] : top;
        for (int64_t k = 0; k < count; k++)
            sum += exp((double)(logits[k] - top));
        for (int64_t k = 0; k < count; k++)
            out[k] = (float)(exp((double)(logits[k] - top)) / sum);
    }
}

fast_err fast_predictor_run(fast_predictor *predictor, int64_t count, const float *x,
                            float *outputs, float *probabilities)
{
    const fast_predictor_sizes *sizes = &predictor->sizes;
    const int64_t each = sizes->positions * sizes->outputs;
    fast_data *batch = NULL;

    FAST_ASSERT(count >= 0);
    for (int64_t done = 0; done < count;) {
        const int64_t left = count - done;
        const int64_t part = left < sizes->batch ? left : sizes->batch;

        FAST_TRY(fast__recipe_set(predictor->recipe, FAST_F32, part, &batch));
        memcpy(batch->x, x + done * sizes->inputs, (size_t)(part * sizes->inputs) * sizeof *x);
        fast__gather(batch, predictor->numbers, part, predictor->x);
        fast_data_free(batch);
        FAST_TRY(fast__predictor_pass(predictor, part, NULL, NULL, NULL));
        memcpy(outputs + done * each, predictor->outputs, (size_t)(part * each) * sizeof(float));
        if (probabilities && sizes->classes > 0)
            fast__softmax_rows(part * sizes->positions, sizes->outputs, predictor->outputs,
                               probabilities + done * each);
        done += part;
    }
    return FAST_OK;
}
