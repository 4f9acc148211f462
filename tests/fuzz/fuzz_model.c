/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the descriptions of model files: the first line of the input is the recipe of the inputs,
 * the second one the training, the rest the network. They become the metadata of a file without
 * tensors, which is opened from memory. Any bytes give an error of one line, or a model of a few
 * values, and no allocation is out of proportion to the input. Then the rest is new data, which the
 * recipe reads in batches of three.
 */
#include "data_file.h"

#include "base/json.h"
#include "data/recipe.h"
#include "fast/predict.h"

#include <stdlib.h>
#include <string.h>

enum { SIZE_MAX_FUZZED = 1 << 16, SAMPLE_MAX_FUZZED = 1 << 16, ALLOCATION_MAX = 1 << 29 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The next line of the input as a text; *rest is moved behind it. */
static json_t *take(const uint8_t **rest, size_t *left, bool all)
{
    const uint8_t *end = all ? NULL : memchr(*rest, '\n', *left);
    const size_t size = end ? (size_t)(end - *rest) : *left;
    json_t *text = json_stringn((const char *)*rest, size);

    *rest += size + (end != NULL);
    *left -= size + (end != NULL);
    return text;
}

/* The bytes of a safetensors file whose header is `tree`. */
static char *make_file(json_t *tree, size_t *size_out)
{
    char *header = json_dumps(tree, JSON_COMPACT);
    const uint64_t size = header ? strlen(header) : 0;
    char *file = header ? malloc(size + 8) : NULL;

    if (file) {
        memcpy(file, &size, 8);
        memcpy(file + 8, header, size);
    }
    free(header);
    *size_out = size + 8;
    return file;
}

/* Read the rest of the input as new data of the recipe. */
static void read_data(const json_t *text, const uint8_t *rest, size_t left)
{
    fast_recipe *recipe = NULL;
    fast_source *source = NULL;
    fast_data *batch = NULL;
    fast_err err = FAST_OK;

    if (!text || fast__recipe_read("fuzzed", json_string_value(text), &recipe))
        return;
    data_file file = data_file_make(rest, left);
    if (recipe->like->features < SAMPLE_MAX_FUZZED &&
        !fast__source_open(recipe, file.path, false, &source)) {
        do {
            err = source->next(source, 3, &batch);
            if (!err && batch && (batch->count > 3 || batch->features != recipe->like->features))
                abort();
            const bool more = !err && batch;
            fast_data_free(batch);
            batch = NULL;
            if (!more)
                break;
        } while (true);
        source->close(source);
    }
    data_file_drop(&file);
    fast__recipe_free(recipe);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *rest = data;
    size_t left = size, file_size = 0;
    fast_predictor *predictor = NULL;

    if (size > SIZE_MAX_FUZZED)
        return 0;
    json_t *recipe = take(&rest, &left, false), *training = take(&rest, &left, false);
    read_data(recipe, rest, left);
    json_t *network = take(&rest, &left, true);
    json_t *tree = json_pack("{s: {s: o*, s: o*, s: o*}}", "__metadata__", "fast_data", recipe,
                             "fast_training", training, "fast_network", network);
    char *file = tree ? make_file(tree, &file_size) : NULL;
    json_decref(tree);
    if (!file)
        return 0;
    fast__alloc_largest();
    const fast_predictor_options options = {
        .bytes = file, .byte_count = file_size, .engine = "ref", .plan = "no"
    };
    if (fast_predictor_open("fuzzed", &options, &predictor) == FAST_OK) {
        if (!fast_predictor_json(predictor))
            abort();
    } else if (predictor || !fast_error_detail()[0] || strchr(fast_error_detail(), '\n')) {
        abort();
    }
    if (fast__alloc_largest() > ALLOCATION_MAX)
        abort();
    fast_predictor_close(predictor);
    free(file);
    return 0;
}
