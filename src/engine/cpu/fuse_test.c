/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what the cpu engine fuses, aliases and permutes computes what the nodes say, at every batch
 * and with every instruction set. Method: networks made of each fusion, and near misses of them,
 * run on `cpu` and on `ref`; outputs, state and gradients must agree within 1e-4 of the largest
 * element, some hundred times the rounding of such sums. What was fused is read from the
 * descriptions.
 */
#include "engine/cpu/cpu.h"
#include "jobs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void pool_then_relu(test_graph *g)
{
    test_graph_begin(g, "2x9x10", 0);
    test_graph_then(g, "conv out=5 kernel=3");
    test_graph_then(g, "max_pool kernel=2");
    test_graph_then(g, "relu");
    test_graph_then(g, "dense out=4");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

static void relu_then_pool(test_graph *g)
{
    test_graph_begin(g, "2x9x9", 0);
    test_graph_then(g, "conv out=5 kernel=3 pad=1");
    test_graph_then(g, "relu");
    test_graph_then(g, "max_pool kernel=2");
    test_graph_then(g, "conv out=3 kernel=1 bias=0");
    test_graph_then(g, "max_pool kernel=3 stride=1 pad=1");
    test_graph_then(g, "flatten");
    test_graph_then(g, "dense out=4");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

/* The relu after the norm is the norm's; the one after the sum is the pooling's. */
static void norm_relu_pool(test_graph *g)
{
    test_graph_begin(g, "3x8x6", 0);
    const int a = test_graph_then(g, "conv out=6 kernel=3 pad=1 bias=0");
    test_graph_then(g, "batch_norm");
    test_graph_then(g, "relu");
    const int b = test_graph_then(g, "max_pool kernel=2");
    const int c = test_graph_add1(g, "max_pool kernel=2", a);
    test_graph_add2(g, "concat", b, c);
    test_graph_then(g, "relu");
    test_graph_then(g, "max_pool kernel=2");
    test_graph_then(g, "dense out=3");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

/* A conv with two readers keeps its bias; both readers pool it. */
static void shared_conv(test_graph *g)
{
    test_graph_begin(g, "1x8x8", 0);
    const int a = test_graph_then(g, "conv out=4 kernel=3 pad=1");
    const int b = test_graph_then(g, "relu");
    const int c = test_graph_then(g, "max_pool kernel=2");
    const int d = test_graph_add1(g, "avg_pool kernel=2", a);
    test_graph_add2(g, "add", c, d);
    const int e = test_graph_then(g, "global_pool");
    const int f = test_graph_add1(g, "global_pool", b);
    test_graph_add2(g, "add", e, f);
    test_graph_then(g, "dense out=3");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

/* Sums of norms, with and without relu, chained so that gradients alias and have two summands. */
static void residuals(test_graph *g)
{
    test_graph_begin(g, "4x6x6", 0);
    test_graph_then(g, "conv out=4 kernel=3 pad=1 bias=0");
    test_graph_then(g, "batch_norm");
    int at = test_graph_then(g, "relu");
    for (int block = 0; block < 3; block++) {
        test_graph_add1(g, "conv out=4 kernel=3 pad=1 bias=0", at);
        const int main = test_graph_then(g, "batch_norm");
        at = test_graph_add2(g, "add", block == 1 ? at : main, block == 1 ? main : at);
        if (block != 1)
            at = test_graph_then(g, "relu");
    }
    test_graph_add1(g, "conv out=4 kernel=1", at);
    const int left = test_graph_then(g, "batch_norm ghost=5");
    test_graph_add1(g, "conv out=4 kernel=3 pad=1", at);
    const int right = test_graph_then(g, "batch_norm");
    test_graph_add2(g, "add", left, right);
    test_graph_then(g, "relu");
    test_graph_then(g, "global_pool");
    test_graph_then(g, "dense out=5");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0.1F);
}

/* Sums of the same value, of three values, and a value that everybody reads. */
static void sums(test_graph *g)
{
    test_graph_begin(g, "9", 0);
    const int a = test_graph_then(g, "dense out=6");
    const int twice = test_graph_add2(g, "add", a, a);
    const int b = test_graph_add1(g, "tanh", a);
    const int c = test_graph_add1(g, "gelu", twice);
    test_graph_add(g, "add", 3, (int[]){ b, twice, c });
    const int d = test_graph_then(g, "sigmoid");
    test_graph_add2(g, "concat", d, a);
    test_graph_then(g, "dense out=4");
    test_graph_end(g, FAST_LOSS_MSE, 0);
}

/* An image is the output: rows must come out as [C, H, W]. */
static void image_out(test_graph *g)
{
    test_graph_begin(g, "2x5x4", 0);
    test_graph_then(g, "conv out=3 kernel=3 pad=1");
    test_graph_then(g, "tanh");
    test_graph_then(g, "conv out=2 kernel=3 pad=1");
    test_graph_end(g, FAST_LOSS_MSE, 0);
}

/* A dense layer on an image that others read as an image, and on the input itself. */
static void dense_on_image(test_graph *g)
{
    test_graph_begin(g, "3x4x5", 0);
    const int direct = test_graph_then(g, "dense out=7");
    const int image = test_graph_add1(g, "conv out=4 kernel=3", 0);
    const int flat = test_graph_add1(g, "dense out=7", image);
    const int pooled = test_graph_add1(g, "global_pool", image);
    test_graph_add1(g, "dense out=7", pooled);
    test_graph_add(g, "add", 3, (int[]){ direct, flat, pooled + 1 });
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

/* A window whose places do not fit a byte. */
static void large_window(test_graph *g)
{
    test_graph_begin(g, "2x18x18", 0);
    test_graph_then(g, "conv out=3 kernel=1");
    test_graph_then(g, "max_pool kernel=17 stride=1");
    test_graph_then(g, "relu");
    test_graph_then(g, "dense out=4");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

/* The rows of an image are read twice; only the hidden layer's have a gradient. */
static void detached_rows(test_graph *g)
{
    test_graph_begin(g, "2x5x4", 0);
    const int image = test_graph_then(g, "conv out=3 kernel=3");
    const int hidden = test_graph_then(g, "dense out=4");
    test_graph_add1(g, "flatten", image);
    const int rows = test_graph_then(g, "detach");
    test_graph_add2(g, "concat", hidden, rows);
    test_graph_then(g, "dense out=3");
    test_graph_end(g, FAST_LOSS_CROSS_ENTROPY, 0);
}

static const test_network fusions[] = {
    { "pool_then_relu", pool_then_relu },
    { "relu_then_pool", relu_then_pool },
    { "norm_relu_pool", norm_relu_pool },
    { "shared_conv", shared_conv },
    { "residuals", residuals },
    { "sums", sums },
    { "image_out", image_out },
    { "dense_on_image", dense_on_image },
    { "large_window", large_window },
    { "detached_rows", detached_rows },
    { NULL, NULL },
};

static void compare(const test_network *network, int64_t batch, int64_t count)
{
    static test_graph g;
    test_runner cpu, ref;
    test_job a, b;

    network->build(&g);
    test_runner_open(&cpu, &fast__engine_cpu, &g.graph, batch);
    test_runner_open(&ref, &fast__engine_ref, &g.graph, batch);
    test_job_open(&a, &g.graph, batch, 5);
    test_job_open(&b, &g.graph, batch, 5);
    for (int evaluate = 0; evaluate < 2; evaluate++) {
        const test_job_options options = { .count = count, .evaluate = evaluate, .step = 3 };
        assert_int_equal(test_job_run(&a, &cpu, &options), FAST_OK);
        assert_int_equal(test_job_run(&b, &ref, &options), FAST_OK);
        const double far = test_job_distance(&a, &b);
        if (!(far < 1e-4))
            fail_msg("%s, %lld of %lld samples%s: differs by %g", network->name, (long long)count,
                     (long long)batch, evaluate ? ", evaluation" : "", far);
        assert_int_equal(a.pass.correct, b.pass.correct);
    }
    test_job_close(&a);
    test_job_close(&b);
    test_runner_close(&cpu);
    test_runner_close(&ref);
}

static void test_fusions_at_every_batch(void **state)
{
    static const int64_t batches[] = { 2, 3, 16, 17, 63, 64, 100 };

    (void)state;
    for (const test_network *network = fusions; network->name; network++)
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
            compare(network, batches[i], batches[i]);
            compare(network, batches[i], batches[i] / 2 + 1);
        }
}

static void test_every_instruction_set(void **state)
{
    static const char *const isas[] = { "base", "avx2" };

    (void)state;
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        assert_int_equal(setenv("FAST_ISA", isas[i], 1), 0);
        for (const test_network *network = fusions; network->name; network++)
            compare(network, 19, 19);
        for (const test_network *network = test_networks; network->name; network++)
            compare(network, 18, 5);
    }
    assert_int_equal(unsetenv("FAST_ISA"), 0);
}

/* The descriptions of a network's nodes, one a line. */
static void describe(const test_network *network, char *text, size_t size)
{
    static test_graph g;
    test_runner cpu;

    network->build(&g);
    test_runner_open(&cpu, &fast__engine_cpu, &g.graph, 4);
    text[0] = 0;
    for (int i = 0; fast__engine_cpu.describe(cpu.program, i); i++) {
        strncat(text, fast__engine_cpu.describe(cpu.program, i), size - strlen(text) - 1);
        strncat(text, "\n", size - strlen(text) - 1);
    }
    test_runner_close(&cpu);
}

static void test_fusions_happen(void **state)
{
    char text[4096];

    (void)state;
    describe(&fusions[0], text, sizeof text);
    assert_non_null(strstr(text, "max_pool + bias + relu, rows for dense"));
    describe(&fusions[1], text, sizeof text);
    assert_non_null(strstr(text, "max_pool + bias + relu\n"));
    describe(&fusions[2], text, sizeof text);
    assert_non_null(strstr(text, "batch_norm + relu"));
    describe(&fusions[3], text, sizeof text);
    assert_null(strstr(text, "bias in pooling"));
    describe(&fusions[4], text, sizeof text);
    assert_non_null(strstr(text, "batch_norm + add + relu"));
}

/* A norm writes the gradient of its input in place, unless a sum has left its own there. */
static void test_norm_gradients_replace_others(void **state)
{
    static test_graph g;
    test_runner cpu;
    int with = 0, without = 0;

    (void)state;
    residuals(&g);
    test_runner_open(&cpu, &fast__engine_cpu, &g.graph, 4);
    const fast_cpu_program *program = (const fast_cpu_program *)cpu.program;
    for (int s = 0; s < program->step_count; s++) {
        const fast_cpu_step *step = &program->steps[s];
        if (step->op != &fast__cpu_batch_norm)
            continue;
        const bool same = program->values[step->in[0]].grad == program->values[step->out].grad;
        assert_int_equal(same, !step->add);
        with += step->add;
        without += !step->add;
    }
    assert_true(with > 0 && without > 0);
    test_runner_close(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fusions_at_every_batch),
        cmocka_unit_test(test_every_instruction_set),
        cmocka_unit_test(test_fusions_happen),
        cmocka_unit_test(test_norm_gradients_replace_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
