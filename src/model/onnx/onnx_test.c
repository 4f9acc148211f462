/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a file imports to a network with the same outputs, an exported network has its outputs, and
 * hostile files are refused with a sentence in bounded memory. Method: the engine's outputs against
 * the evaluator's on the same file, for small files of the fuzzer's corpus, before and after an
 * export; every failing allocation in turn.
 */
#include "model/onnx/onnx.h"

#include "base/file.h"
#include "base/memory.h"
#include "engine/engine.h"
#include "model/onnx/onnx_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BATCH = 3 };

/* An imported network. */
typedef struct imported {
    fast_graph *graph;
    char *text;
    float *w; /* parameters, then state */
} imported;

/* Read a file of the corpus, or of this test. */
static void read_file(const char *name, char **data, size_t *size)
{
    char path[512];

    snprintf(path, sizeof path,
             name[0] == '/' ? "%s" : FAST_SOURCE_FOLDER "/tests/fuzz/corpus/onnx/%s", name);
    if (fast__file_read(path, (size_t)1 << 24, data, size))
        fail_msg("%s", fast_error_detail());
}

/* Import a file and build its graph. */
static imported import(const char *name)
{
    imported m = { 0 };
    fast_text text = { 0 };
    fast_onnx_weights *weights = NULL;
    char *data = NULL;
    size_t size = 0;

    read_file(name, &data, &size);
    if (fast__onnx_parse(data, size, NULL, &text, &weights) ||
        fast__graph_parse(text.data, &m.graph) || fast__onnx_weights_set(weights, m.graph))
        fail_msg("%s: %s", name, fast_error_detail());
    m.text = text.data;
    m.w = calloc((size_t)(m.graph->params.count + m.graph->state.count) + 1, sizeof(float));
    fast__graph_init(m.graph, 1, 0, m.w, m.w + m.graph->params.count);
    fast__onnx_weights_free(weights);
    fast__free(data);
    return m;
}

static void forget(imported *m)
{
    fast__graph_free(m->graph);
    fast__free(m->text);
    free(m->w);
}

/* Inputs that differ by sample: numbers, or tokens. */
static float input_at(const imported *m, int64_t i)
{
    return m->graph->tokens ? (float)(i * 5 % m->graph->vocabulary) : sinf((float)i);
}

/* The engine's outputs for BATCH samples. */
static float *outputs_of(const imported *m)
{
    const fast_engine_options options = { .batch = BATCH };
    const int64_t in = m->graph->nodes[0].count;
    const int64_t out = m->graph->nodes[m->graph->node_count - 1].count;
    float *x = calloc((size_t)(BATCH * in), sizeof *x);
    float *y = calloc((size_t)(BATCH * out), sizeof *y);
    const fast_batch batch = { .count = BATCH, .x = x };
    fast_pass pass = {
        .params = m->w, .state = m->w + m->graph->params.count, .batch = &batch, .outputs = y
    };
    fast_program *program = NULL;
    fast_workspace *workspace = NULL;

    for (int64_t i = 0; i < BATCH * in; i++)
        x[i] = input_at(m, i);
    assert_int_equal(fast__engine_ref.compile(m->graph, &options, &program), FAST_OK);
    assert_int_equal(fast__engine_ref.workspace_new(program, &workspace), FAST_OK);
    assert_int_equal(fast__engine_ref.run(program, workspace, &pass), FAST_OK);
    fast__engine_ref.workspace_free(workspace);
    fast__engine_ref.program_free(program);
    free(x);
    return y;
}

/* Compare outputs with those that the evaluator computes from a file. */
static void expect_file(const char *name, const imported *m, const float *y)
{
    const int64_t in = m->graph->nodes[0].count;
    fast_onnx_model *model = NULL;
    char *data = NULL;
    size_t size = 0;

    read_file(name, &data, &size);
    assert_int_equal(fast__onnx_open(data, size, &model), FAST_OK);
    fast_onnx_tensor *values = calloc((size_t)model->value_count, sizeof *values);
    const fast_onnx_port *port = &model->inputs[0];
    int64_t shape[FAST_ONNX_RANK_MAX] = { BATCH };
    for (int d = 1; d < port->rank; d++)
        shape[d] = port->shape[d];
    fast_onnx_tensor *x = &values[port->value];
    assert_int_equal(fast__onnx_tensor_new(port->type, port->rank, shape, x), FAST_OK);
    assert_int_equal(x->count, BATCH * in);
    for (int64_t i = 0; i < x->count; i++)
        x->values[i] = (double)input_at(m, i);
    if (onnx_fixture_run(model, values))
        fail_msg("%s: %s", name, fast_error_detail());
    const fast_onnx_tensor *out = &values[model->outputs[0].value];
    assert_int_equal(out->count, BATCH * m->graph->nodes[m->graph->node_count - 1].count);
    for (int64_t i = 0; i < out->count; i++)
        if (!(fabs(out->values[i] - (double)y[i]) < 1e-5 * fmax(1, fabs(out->values[i]))))
            fail_msg("%s: output %lld is %g instead of %g", name, (long long)i, (double)y[i],
                     out->values[i]);
    for (int v = 0; v < model->value_count; v++)
        fast__onnx_tensor_fini(&values[v]);
    free(values);
    fast__onnx_close(model);
    fast__free(data);
}

/* Import, compare, export, compare the export, import that, compare once more. */
static void round_trip(const char *name)
{
    char path[] = "/tmp/fast_onnx_XXXXXX";
    imported m = import(name);
    float *y = outputs_of(&m);

    close(mkstemp(path));
    expect_file(name, &m, y);
    if (fast__onnx_save(m.graph, m.w, m.w + m.graph->params.count, path))
        fail_msg("%s: %s", name, fast_error_detail());
    expect_file(path, &m, y);
    imported again = import(path);
    float *z = outputs_of(&again);
    for (int64_t i = 0; i < BATCH * m.graph->nodes[m.graph->node_count - 1].count; i++)
        assert_true(fabsf(y[i] - z[i]) < 1e-5F * fmaxf(1, fabsf(y[i])));
    free(y);
    free(z);
    forget(&m);
    forget(&again);
    unlink(path);
}

/* Four files with most operators keep their outputs. */
static void outputs_survive(void **state)
{
    static const char *const names[] = { "mlp.onnx", "conv.onnx", "gpt.onnx", "misc.onnx" };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        round_trip(names[i]);
}

/* Layers are named after their weights, a product and its bias are one layer. */
static void text_is_readable(void **state)
{
    imported m = import("mlp.onnx");

    (void)state;
    assert_string_equal(m.text, "input 4\n"
                                "a: dense 5 bias=yes from input\n"
                                "relu_2: relu from a\n"
                                "dense_3: dense 3 bias=yes from relu_2\n");
    assert_string_equal(m.graph->params.segments[0].name, "a.weight");
    forget(&m);
}

/* Every layer of the language but the recurrent ones can be saved and gives the same outputs. */
static void layers_are_saved(void **state)
{
    static const char *const texts[] = {
        "input 3 8 8\nconv 4 kernel=3 pad=1 weight_norm=yes\nbatch_norm eps=0.1\nleaky_relu "
        "0.2\navg_pool "
        "2 "
        "pad=1\na: max_pool 2\nb: tanh from a\nconcat a b\nglobal_pool\ndropout 0.5\ndense 5\n",
        "input 6 tokens=9\nembed 8 position=yes\na: layer_norm eps=0.1\nattention 2\nadd a "
        "attention1\n"
        "gelu\ndense 7 bias=no\nlast\nsigmoid\nsoftmax\nloss mse\n",
        "input 2 3 4\nt: transpose 2x0x1\nreshape 4x6\na: slice 1 start=2 count=3\nreduce sum "
        "axes=0\n"
        "map softplus\nb: map clip a=0.5 b=2\nc: reduce mean axes=1 from a\nc2: reshape 1x4\n"
        "b2: reshape 3x1 from b\nmatmul b2 c2\nd: scale 1x4\ne: shift 3x1 frozen=yes\n"
        "arith d e kind=div\nmap hswish\nflatten\nlog_softmax\n",
    };
    char path[] = "/tmp/fast_onnx_XXXXXX";

    (void)state;
    close(mkstemp(path));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        imported m = { 0 };
        if (fast__graph_parse(texts[i], &m.graph))
            fail_msg("%s", fast_error_detail());
        m.w = calloc((size_t)(m.graph->params.count + m.graph->state.count) + 1, sizeof(float));
        fast__graph_init(m.graph, 7, 0, m.w, m.w + m.graph->params.count);
        /* Weights and statistics that no layer starts with. */
        for (int64_t k = 0; k < m.graph->params.count + m.graph->state.count; k++)
            m.w[k] += 0.1F + 0.05F * (float)(k % 7);
        float *y = outputs_of(&m);
        if (fast__onnx_save(m.graph, m.w, m.w + m.graph->params.count, path))
            fail_msg("%s", fast_error_detail());
        expect_file(path, &m, y);
        free(y);
        forget(&m);
    }
    unlink(path);
}

/* After an export and an import the same tensors are trained: a causal mask and a frozen tensor are
 * not, and a bias of one number is. */
static void weights_stay_weights(void **state)
{
    static const char *const texts[] = {
        "input 6 tokens=9\nembed 8 position=yes\nattention 2\ndense 7\n",
        "input 2 3\nshift 2x3 frozen=yes\nscale 2x3 frozen=yes\nshift 1x3\nflatten\ndense 2\n",
        "input 4 3\ndense 1\nflatten\ndense 2\n",
    };
    char path[] = "/tmp/fast_onnx_XXXXXX";

    (void)state;
    close(mkstemp(path));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        imported m = { 0 };
        if (fast__graph_parse(texts[i], &m.graph))
            fail_msg("%s", fast_error_detail());
        m.w = calloc((size_t)(m.graph->params.count + m.graph->state.count) + 1, sizeof(float));
        fast__graph_init(m.graph, 7, 0, m.w, m.w + m.graph->params.count);
        if (fast__onnx_save(m.graph, m.w, m.w + m.graph->params.count, path))
            fail_msg("%s", fast_error_detail());
        imported again = import(path);
        assert_int_equal(again.graph->params.count, m.graph->params.count);
        forget(&m);
        forget(&again);
    }
    unlink(path);
}

/* Hostile and unsupported files: a sentence with the right words, and little memory. */
static void hostile_files_are_refused(void **state)
{
    static const char *const files[][2] = {
        { "cycle.onnx", "cycle" },
        { "twice.onnx", "\"y\" twice" },
        { "external.onnx", "other files" },
        { "huge_dims.onnx", "too large" },
        { "bomb_shape.onnx", "too large for this file" },
        { "bomb_concat.onnx", "too large for this file" },
        { "deep.onnx", "version" },
        { "raw_length.onnx", "malformed" },
        { "truncated.onnx", "malformed" },
        { "resize.onnx", "node 0 \"/up/Resize\" (Resize): operator Resize is not supported" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        fast_text text = { 0 };
        fast_onnx_weights *weights = NULL;
        char *data = NULL;
        size_t size = 0;
        read_file(files[i][0], &data, &size);
        fast__alloc_largest();
        const fast_err err = fast__onnx_parse(data, size, NULL, &text, &weights);
        if (err != FAST_EFORMAT && err != FAST_ENOTSUP)
            fail_msg("%s: %d", files[i][0], err);
        if (!strstr(fast_error_detail(), files[i][1]))
            fail_msg("%s: %s", files[i][0], fast_error_detail());
        assert_true(fast__alloc_largest() < (int64_t)64 << 20);
        assert_null(weights);
        fast__text_fini(&text);
        fast__free(data);
    }
}

/* Each allocation fails once: FAST_ENOMEM, and nothing is lost. */
static void memory_may_run_out(void **state)
{
    char *data = NULL;
    size_t size = 0;
    fast_err err = FAST_ENOMEM;

    (void)state;
    read_file("gpt.onnx", &data, &size);
    for (int64_t n = 0; err; n++) {
        fast_text text = { 0 };
        fast_onnx_weights *weights = NULL;
        fast__alloc_fail_after(n, true);
        err = fast__onnx_parse(data, size, NULL, &text, &weights);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
        fast__onnx_weights_free(weights);
        fast__text_fini(&text);
        assert_true(n < 10000);
    }
    fast__free(data);
}

/* Names of models that are ONNX files. */
static void specs_are_told_apart(void **state)
{
    const char *path = NULL;

    (void)state;
    assert_true(fast__onnx_spec("a/net.onnx", &path));
    assert_string_equal(path, "a/net.onnx");
    assert_true(fast__onnx_spec("onnx:net", &path));
    assert_string_equal(path, "net");
    assert_true(fast__onnx_spec("onnx:file=a,b.onnx", &path));
    assert_string_equal(path, "a,b.onnx");
    assert_false(fast__onnx_spec("lenet", &path));
    assert_false(fast__onnx_spec("file:net.onnx", &path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_survive),      cmocka_unit_test(text_is_readable),
        cmocka_unit_test(layers_are_saved),     cmocka_unit_test(hostile_files_are_refused),
        cmocka_unit_test(memory_may_run_out),   cmocka_unit_test(specs_are_told_apart),
        cmocka_unit_test(weights_stay_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
