/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the evaluator computes what ONNX says. Method: ONNX's own node tests (Debian's
 * libonnx-testdata): every test whose operators are all in the evaluator's table must give the
 * recorded outputs, within the tolerance of ONNX's test runner; and every test whose first input
 * can be a batch of samples must do so as an imported network. Skipped where the data are missing.
 */
#include "base/file.h"
#include "base/memory.h"
#include "engine/engine.h"
#include "model/onnx/onnx.h"
#include "model/onnx/onnx_eval.h"
#include "model/onnx/onnx_fixture.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char folder[] = "/usr/share/libonnx-testdata/data/node";

/* Parts of the names of tests that cannot pass. */
static const char *const excused[] = {
    "test_training_dropout", /* masks are drawn by numpy's generator */
    "BFLOAT16",              /* a type that the evaluator has not */
    "STRING",                /* texts are no numbers */
};

/* Read a file of a test; false if it does not exist. */
static bool read_part(const char *test, const char *part, int i, char **out, size_t *size)
{
    char path[512];
    char name[64];

    snprintf(name, sizeof name, part, i);
    snprintf(path, sizeof path, "%s/%s/%s", folder, test, name);
    return fast__file_read(path, (size_t)1 << 28, out, size) == FAST_OK;
}

/* Tell whether the evaluator has an operator. */
static bool has_operator(const fast_onnx_node *node)
{
    for (int i = 0; fast__onnx_operator(i); i++)
        if (node->domain.size == 0 && fast__span_is(node->op, fast__onnx_operator(i)))
            return true;
    return false;
}

/* Compare with the recorded output: relative 1e-3, absolute 1e-7, as ONNX's runner does. */
static bool same(const fast_onnx_tensor *a, const fast_onnx_tensor *b)
{
    if (!a->values || a->type != b->type || a->rank != b->rank || a->count != b->count ||
        memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) != 0)
        return false;
    for (int64_t i = 0; i < a->count; i++)
        if (!(a->values[i] == b->values[i] || (isnan(a->values[i]) && isnan(b->values[i])) ||
              fabs(a->values[i] - b->values[i]) <= 1e-7 + 1e-3 * fabs(b->values[i])))
            return false;
    return true;
}

/* Load the inputs, compute, compare. Returns NULL, or why the test fails. */
static const char *run_node_test(const char *test, const fast_onnx_model *model)
{
    fast_onnx_tensor *values = calloc((size_t)model->value_count + 1, sizeof *values);
    const char *failure = NULL;
    char *data = NULL;
    size_t size = 0;

    for (int i = 0; i < model->graph_inputs && !failure; i++)
        if (read_part(test, "test_data_set_0/input_%d.pb", i, &data, &size)) {
            if (fast__onnx_tensor_decode((fast_span){ (uint8_t *)data, size },
                                         &values[model->inputs[i].value]))
                failure = fast_error_detail();
            fast__free(data);
        }
    if (!failure && onnx_fixture_run(model, values))
        failure = fast_error_detail();
    for (int i = 0; i < model->graph_outputs && !failure; i++) {
        fast_onnx_tensor wanted = { 0 };
        if (!read_part(test, "test_data_set_0/output_%d.pb", i, &data, &size) ||
            fast__onnx_tensor_decode((fast_span){ (uint8_t *)data, size }, &wanted))
            failure = "no recorded output";
        else if (!same(&values[model->outputs[i].value], &wanted))
            failure = "the output differs";
        fast__onnx_tensor_fini(&wanted);
        fast__free(data);
        data = NULL;
    }
    for (int v = 0; v < model->value_count; v++)
        fast__onnx_tensor_fini(&values[v]);
    free(values);
    return failure;
}

/* Run one test if all of its operators are supported. Returns 1 passed, 0 not run, -1 failed. */
static int try_test(const char *test)
{
    fast_onnx_model *model = NULL;
    char *data = NULL;
    size_t size = 0;
    int result = 1;

    for (size_t i = 0; i < sizeof excused / sizeof excused[0]; i++)
        if (strstr(test, excused[i]) && !strstr(test, "zero_ratio"))
            return 0;
    if (!read_part(test, "model.onnx", 0, &data, &size))
        return 0;
    if (fast__onnx_open(data, size, &model)) {
        fast__free(data);
        return 0; /* sequences and optionals have inputs that are no tensors */
    }
    for (int n = 0; n < model->node_count; n++)
        result = has_operator(&model->nodes[n]) ? result : 0;
    for (int i = 0; i < model->graph_inputs; i++)
        result = model->inputs[i].type == 0 ? 0 : result;
    const char *failure = result ? run_node_test(test, model) : NULL;
    if (failure) {
        print_error("%s: %s\n", test, failure);
        result = -1;
    }
    fast__onnx_close(model);
    fast__free(data);
    return result;
}

/* Copy a file's graph with the inputs from 1 on as initialisers: a network of one input. */
static void bind_inputs(const char *test, const fast_onnx_model *model, fast_span file,
                        fast_proto_out *out)
{
    fast_proto_out graph = { 0 };
    fast_proto whole = fast__proto_open(file);
    fast_proto_field field;

    while (fast__proto_next(&whole, &field))
        if (field.number == 7) {
            const fast_proto_out old = { .data = (uint8_t *)(uintptr_t)field.bytes.data,
                                         .size = field.bytes.size };
            fast__proto_put_fields(&graph, &old);
        }
    for (int i = 1; i < model->graph_inputs; i++) {
        const fast_span name = model->values[model->inputs[i].value].name;
        fast_proto_out tensor = { 0 };
        char *data = NULL;
        size_t size = 0;
        if (!read_part(test, "test_data_set_0/input_%d.pb", i, &data, &size))
            continue;
        const fast_proto_out old = { .data = (uint8_t *)data, .size = size };
        fast__proto_put_fields(&tensor, &old);
        fast__proto_put_bytes(&tensor, 8, name.data, name.size); /* the last name counts */
        fast__proto_put_message(&graph, 5, &tensor);
        fast__free(data);
    }
    fast__proto_put_message(out, 7, &graph);
    fast_proto_out opset = { 0 };
    fast__proto_put_int(&opset, 2, model->opset);
    fast__proto_put_message(out, 8, &opset);
}

/* Build the graph of an imported text; outputs are flattened if the loss needs it. */
static fast_graph *build(fast_text *text)
{
    fast_graph *graph = NULL;
    const size_t size = text->size;

    if (fast__text_add(text, "loss mse\n") || fast__graph_parse(text->data, &graph) == FAST_OK)
        return graph;
    text->size = size;
    if (fast__text_add(text, "flatten\nloss mse\n") || fast__graph_parse(text->data, &graph))
        return NULL;
    return graph;
}

/* Run a graph on the samples of input 0, and compare with output 0. */
static bool outputs_equal(const fast_graph *graph, const fast_onnx_tensor *x,
                          const fast_onnx_tensor *wanted)
{
    const int64_t batch = x->shape[0];
    const fast_engine_options options = { .batch = batch };
    const int64_t params = graph->params.count;
    float *w = calloc((size_t)(params + graph->state.count) + 1, sizeof *w);
    float *in = calloc((size_t)x->count, sizeof *in);
    float *out = calloc((size_t)wanted->count, sizeof *out);
    const fast_batch samples = { .count = batch, .x = in };
    fast_pass pass = { .params = w, .state = w + params, .batch = &samples, .outputs = out };
    fast_program *program = NULL;
    fast_workspace *workspace = NULL;
    bool good = batch * graph->nodes[graph->node_count - 1].count == wanted->count &&
                batch * graph->nodes[0].count == x->count;

    fast__graph_init(graph, 1, 0, w, w + params);
    for (int64_t i = 0; i < x->count; i++)
        in[i] = (float)x->values[i];
    assert_int_equal(fast__engine_ref.compile(graph, &options, &program), FAST_OK);
    assert_int_equal(fast__engine_ref.workspace_new(program, &workspace), FAST_OK);
    assert_int_equal(fast__engine_ref.run(program, workspace, &pass), FAST_OK);
    for (int64_t i = 0; i < wanted->count && good; i++)
        good = fabs((double)out[i] - wanted->values[i]) <= 1e-6 + 1e-3 * fabs(wanted->values[i]);
    fast__engine_ref.workspace_free(workspace);
    fast__engine_ref.program_free(program);
    free(w);
    free(in);
    free(out);
    return good;
}

/* Import a test whose input 0 holds samples. Returns 1 passed, 0 no layers for it, -1 failed. */
static int try_layers(const char *test)
{
    const fast_model_input input = { .regression = true };
    fast_onnx_model *model = NULL;
    fast_onnx_weights *weights = NULL;
    fast_onnx_tensor x = { 0 };
    fast_onnx_tensor y = { 0 };
    fast_text text = { 0 };
    fast_proto_out bound = { 0 };
    fast_graph *graph = NULL;
    char *parts[3] = { NULL, NULL, NULL };
    size_t sizes[3] = { 0 };
    int result = 0;

    if (strstr(test, "training")) /* an evaluation pass has no such mode */
        return 0;
    if (read_part(test, "model.onnx", 0, &parts[0], &sizes[0]) &&
        read_part(test, "test_data_set_0/input_%d.pb", 0, &parts[1], &sizes[1]) &&
        read_part(test, "test_data_set_0/output_%d.pb", 0, &parts[2], &sizes[2]) &&
        !fast__onnx_open(parts[0], sizes[0], &model) &&
        !fast__onnx_tensor_decode((fast_span){ (uint8_t *)parts[1], sizes[1] }, &x) &&
        !fast__onnx_tensor_decode((fast_span){ (uint8_t *)parts[2], sizes[2] }, &y) &&
        x.type == FAST_ONNX_FLOAT && y.type == FAST_ONNX_FLOAT && x.rank > 1) {
        bind_inputs(test, model, (fast_span){ (uint8_t *)parts[0], sizes[0] }, &bound);
        if (!fast__onnx_parse(bound.data, bound.size, &input, &text, &weights) &&
            (graph = build(&text)) != NULL) {
            assert_int_equal(fast__onnx_weights_set(weights, graph), FAST_OK);
            result = outputs_equal(graph, &x, &y) ? 1 : -1;
            if (result < 0)
                print_error("%s: the layers' output differs\n%s", test, text.data);
        }
    }
    fast__graph_free(graph);
    fast__onnx_weights_free(weights);
    fast__text_fini(&text);
    fast__proto_fini(&bound);
    fast__onnx_tensor_fini(&x);
    fast__onnx_tensor_fini(&y);
    fast__onnx_close(model);
    for (int i = 0; i < 3; i++)
        fast__free(parts[i]);
    return result;
}

/* Run a function on every test. */
static void for_each_test(int (*run)(const char *test), int least)
{
    DIR *dir = opendir(folder);
    int passed = 0;
    int failed = 0;

    if (!dir) {
        print_message("%s is missing (libonnx-testdata)\n", folder);
        skip();
    }
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        const int result = entry->d_name[0] == '.' ? 0 : run(entry->d_name);
        passed += result > 0;
        failed += result < 0;
    }
    closedir(dir);
    print_message("%d node tests pass, %d fail\n", passed, failed);
    assert_int_equal(failed, 0);
    assert_true(passed >= least);
}

/* Tests whose input can be a batch of samples pass as layers, too. */
static void test_layers(void **state)
{
    (void)state;
    for_each_test(try_layers, 100);
}

/* Every supported node test passes, and there are many. */
static void test_nodes(void **state)
{
    (void)state;
    for_each_test(try_test, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_nodes),
                                        cmocka_unit_test(test_layers) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
