/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every model fits the data that it is for, has PyTorch's number of parameters, and says in
 * one sentence why it does not fit others. Method: models x shapes of data; known counts; the text
 * that comes with a graph gives the same graph again; allocations that fail one after the other.
 */
#include "base/memory.h"
#include "model/models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const fast_model_input fashion = {
    .rank = 3, .shape = { 1, 28, 28 }, .outputs = 10, .positions = 1
};
static const fast_model_input cifar = {
    .rank = 3, .shape = { 3, 32, 32 }, .outputs = 10, .positions = 1
};
static const fast_model_input tiny = {
    .rank = 3, .shape = { 1, 3, 3 }, .outputs = 2, .positions = 1
};
static const fast_model_input spirals = { .rank = 1, .shape = { 2 }, .outputs = 3, .positions = 1 };
static const fast_model_input line = {
    .rank = 1, .shape = { 8 }, .outputs = 1, .regression = true
};
static const fast_model_input series = { .rank = 2, .shape = { 20, 3 }, .outputs = 4 };
static const fast_model_input text = {
    .rank = 1, .shape = { 64 }, .outputs = 65, .tokens = true, .vocabulary = 65, .positions = 64
};
static const fast_model_input mood = {
    .rank = 1, .shape = { 16 }, .outputs = 2, .tokens = true, .vocabulary = 30, .positions = 1
};
static const fast_model_input photo_age = {
    .rank = 3, .shape = { 3, 32, 32 }, .outputs = 1, .regression = true
};

static void test_counts(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        const fast_model_input *input;
        int64_t count;
    } known[] = {
        { "mlp", &fashion, 669706 },
        { "mlp:hidden=512x512", &fashion, 669706 },
        { "mlp:hidden=none", &fashion, 7850 },
        { "mlp:hidden=7", &spirals, 2 * 7 + 7 + 7 * 3 + 3 },
        { "lenet", &fashion, 431080 },
        { "resnet8", &fashion, 77754 },
        /* The paper's 0.27 M and 0.85 M, with the two projections of 1x1 and their norms. */
        { "resnet20", &cifar, 269722 + 16 * 32 + 32 * 64 + 2 * 32 + 2 * 64 },
        { "resnet56", &cifar, 853018 + 16 * 32 + 32 * 64 + 2 * 32 + 2 * 64 },
        { "lstm:hidden=100,embedding=20", &text, 65 * 20 + 4 * 100 * 122 + 65 * 101 },
        { "gru:hidden=100,embedding=20,layers=2", &text,
          65 * 20 + 3 * 100 * (122 + 202) + 65 * 101 },
        { "rnn:hidden=10", &series, 10 * (3 + 10 + 2) + 4 * 11 },
        { "gpt:width=32,depth=2,heads=4", &text,
          65 * 32 + 64 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 2 * 32 + 65 * 33 },
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        fast_graph *graph = NULL;
        char *words = NULL;
        if (fast__model_open(known[i].spec, known[i].input, &graph, &words))
            fail_msg("%s: %s", known[i].spec, fast_error_detail());
        if (graph->params.count != known[i].count)
            fail_msg("%s has %lld parameters, not %lld", known[i].spec,
                     (long long)graph->params.count, (long long)known[i].count);
        fast__graph_free(graph);
        fast__free(words);
    }
}

/* Which models take which data. A letter a model, in the order of the registry: y fits, n does not.
 * */
static void test_models_and_data(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const fast_model_input *input;
        const char
            *fits; /* mlp lenet alexnet resnet8 20 56 densenet rnn lstm gru gpt treenet dsn cots
                   * rollout */
    } data[] = {
        { "fashion", &fashion, "yyyyyyynnnnyyyyn" },
        { "cifar", &cifar, "yyyyyyynnnnyyyyn" },
        { "tiny", &tiny, "ynnnnnnnnnnyynyn" },
        { "spirals", &spirals, "ynnnnnnnnnnyynyn" },
        { "line", &line, "ynnnnnnnnnnyynyn" },
        { "series", &series, "ynnnnnnyyynyynyn" },
        { "text", &text, "nnnnnnnyyyynnnnn" },
        { "mood", &mood, "ynnnnnnyyyyyynyn" },
        { "photo_age", &photo_age, "yyyyyyynnnnyyyyn" },
    };

    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++) {
        const fast_model_input *input = data[i].input;
        for (int m = 0; fast__models[m]; m++) {
            const char *name = fast__models[m]->name;
            fast_graph *graph = NULL;
            fast_graph *again = NULL;
            char *words = NULL;
            const fast_err err = fast__model_open(name, input, &graph, &words);
            if ((err == FAST_OK) != (data[i].fits[m] == 'y'))
                fail_msg("%s on %s: %d %s", name, data[i].name, err, fast_error_detail());
            if (err) {
                assert_int_equal(err, FAST_EINVAL);
                assert_non_null(strstr(fast_error_detail(), name));
                continue;
            }
            assert_int_equal(fast__graph_check(graph), FAST_OK);
            assert_int_equal(graph->loss == FAST_LOSS_MSE, input->regression);
            assert_int_equal(graph->outputs, input->outputs);
            assert_int_equal(graph->positions, input->positions ? input->positions : 1);
            assert_int_equal(fast__graph_parse(words, &again), FAST_OK);
            assert_int_equal(again->params.count, graph->params.count);
            assert_int_equal(again->node_count, graph->node_count);
            fast__graph_free(again);
            fast__graph_free(graph);
            fast__free(words);
        }
    }
}

static void test_options(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        const fast_model_input *input;
        const char *says; /* NULL: right */
    } cases[] = {
        { "lennet", &fashion, "did you mean \"lenet\"" },
        { "resnet8:witdh=3", &fashion, "did you mean \"width\"" },
        { "resnet8:width=0", &fashion, "width" },
        { "mlp:hidden=512y", &fashion, "hidden" },
        { "mlp:hidden=512x", &fashion, "write up to 64 widths" },
        { "mlp:hidden=0", &fashion, "write up to 64 widths" },
        { "mlp:hidden=x3", &fashion, "hidden" },
        { "densenet:depth=20", &fashion, "not 3 n + 4; try 19" },
        { "gpt:heads=3", &text, "heads 3 do not divide width 128" },
        { "treenet:branches=9", &fashion, "branches" },
        { "treenet:hidden=8x8,junction=3", &fashion, "junction 3 is above its 2 hidden layers" },
        { "treenet:filters=8", &line, "images" },
        { "dsn:modules=0", &fashion, "modules" },
        { "cots:kernel=4", &fashion, "kernel must be odd" },
        { "cots:filters=none", &fashion, "filters names no width" },
        { "cots:filters=4x4x4x4x4", &fashion, "images" },
        { "file:", &fashion, "file:PATH" },
        { "", &fashion, "" },
        { ":a", &fashion, "" },
        { "mlp:hidden=3x4x5,dropout=0.5", &fashion, NULL },
        { "mlp:embedding=3", &mood, NULL },
        { "lenet:dropout=0.5", &fashion, NULL },
        { "alexnet:width=4,hidden=16,dropout=0", &cifar, NULL },
        { "resnet20:width=4,ghost=8", &cifar, NULL },
        { "densenet:depth=40,growth=4,compression=0.01,dropout=0.2", &cifar, NULL },
        { "densenet:depth=400", &cifar, NULL },
        { "treenet:branches=8,filters=8x4,hidden=none,junction=2", &fashion, NULL },
        { "treenet:branches=2,junction=0,loss=members", &mood, NULL },
        { "treenet:branches=2,loss=members", &photo_age, NULL },
        { "dsn:modules=9,hidden=3,detach=no", &line, NULL },
        { "dsn:modules=1", &mood, NULL },
        { "cots:filters=3x2,kernel=3", &cifar, NULL },
        { "lstm:layers=3,dropout=0.1", &text, NULL },
        { "gpt:depth=256,width=8,heads=8,dropout=0.1", &text, NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fast_graph *graph = NULL;
        char *words = NULL;
        const fast_err err = fast__model_open(cases[i].spec, cases[i].input, &graph, &words);
        if (err != (cases[i].says ? FAST_EINVAL : FAST_OK) ||
            (err && !strstr(fast_error_detail(), cases[i].says)))
            fail_msg("%s: %d %s", cases[i].spec, err, fast_error_detail());
        fast__graph_free(graph);
        fast__free(words);
    }
}

static void write_text(const char *path, const char *words)
{
    FILE *stream = fopen(path, "w");

    assert_non_null(stream);
    fputs(words, stream);
    fclose(stream);
}

/* A file may leave out what the data know; the text that comes back has it. */
static void test_files(void **state)
{
    (void)state;
    char path[] = "models_test_XXXXXX";
    char spec[64];
    fast_graph *graph = NULL;
    fast_graph *again = NULL;
    char *words = NULL;

    assert_true(mkstemp(path) >= 0);
    snprintf(spec, sizeof spec, "file:%s", path);
    write_text(path, "conv 4 kernel=3\nrelu\ndense 1");
    assert_int_equal(fast__model_open(spec, &photo_age, &graph, &words), FAST_OK);
    assert_int_equal(graph->loss, FAST_LOSS_MSE);
    assert_string_equal(words, "input 3 32 32\nconv 4 kernel=3\nrelu\ndense 1\nloss mse\n");
    assert_int_equal(fast__graph_parse(words, &again), FAST_OK);
    fast__graph_free(again);
    fast__graph_free(graph);
    fast__free(words);
    write_text(path, "input 8\ndense 1\nloss mse\n");
    assert_int_equal(fast__model_open(spec, &line, &graph, &words), FAST_OK);
    assert_string_equal(words, "input 8\ndense 1\nloss mse\n");
    fast__graph_free(graph);
    fast__free(words);
    graph = NULL;
    words = NULL;
    assert_int_equal(fast__model_open(spec, &fashion, &graph, &words), FAST_EINVAL);
    write_text(path, "# nothing\n");
    assert_int_equal(fast__model_open(spec, &fashion, &graph, &words), FAST_EINVAL);
    remove(path);
    assert_int_equal(fast__model_open(spec, &fashion, &graph, &words), FAST_ENOENT);
    assert_null(graph);
    assert_null(words);
}

/* The networks that users see first. */
static void test_examples(void **state)
{
    (void)state;
    static const fast_model_input lines = {
        .rank = 1, .shape = { 64 }, .outputs = 96, .tokens = true, .vocabulary = 96, .positions = 64
    };
    static const struct {
        const char *name;
        const fast_model_input *input;
        int64_t count; /* of parameters; 0: any */
    } examples[] = { { "lenet", &fashion, 431080 },
                     { "residual", &cifar, 0 },
                     { "transformer", &lines, 0 },
                     { "regression", &line, 0 } };

    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        char spec[512];
        fast_graph *graph = NULL;
        char *words = NULL;
        snprintf(spec, sizeof spec, "file:%s/examples/networks/%s.net", FAST_SOURCE_FOLDER,
                 examples[i].name);
        if (fast__model_open(spec, examples[i].input, &graph, &words))
            fail_msg("%s: %s", spec, fast_error_detail());
        if (examples[i].count > 0)
            assert_int_equal(graph->params.count, examples[i].count);
        fast__graph_free(graph);
        fast__free(words);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    fast_graph *graph = NULL;
    char *words = NULL;
    fast_err err = FAST_ENOMEM;
    int64_t n = 0;

    for (; err == FAST_ENOMEM; n++) {
        fast__alloc_fail_after(n, true);
        err = fast__model_open("resnet20", &cifar, &graph, &words);
        fast__alloc_fail_after(-1, false);
        if (err) {
            assert_null(graph);
            assert_null(words);
        }
    }
    assert_int_equal(err, FAST_OK);
    assert_true(n > 5);
    fast__graph_free(graph);
    fast__free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),   cmocka_unit_test(test_models_and_data),
        cmocka_unit_test(test_options),  cmocka_unit_test(test_files),
        cmocka_unit_test(test_examples), cmocka_unit_test(test_out_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
