/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every engine weights the classes of a cross-entropy as PyTorch's
 * CrossEntropyLoss(weight=...) does, the divisor of the mean included, and has its gradient; an
 * evaluation has no weights.
 *
 * Method: one dense layer with the identity as its weights, so that outputs are the inputs; losses
 * and gradients of PyTorch 1.13, in double, of
 *
 *     torch.nn.functional.cross_entropy(y, target, weight=w, label_smoothing=s)
 *
 * and central differences along every parameter, for samples and for positions of sequences.
 */
#include "graphs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { K = 3, ROWS = 4, PARAMS = K * K + K };

static float weights[K] = { 1.0f, 2.5f, 0.5f };
static const float outputs[ROWS * K] = { 0.5f, -1.0f, 2.0f,  1.5f, 0.25f, -0.75f,
                                         0.0f, 0.5f,  -2.0f, 3.0f, 1.0f,  0.5f };
static const int32_t labels[ROWS] = { 2, 0, 1, 1 };
static const float soft[ROWS * K] = {
    0.2f, 0.3f, 0.5f, 1, 0, 0, 0.25f, 0.5f, 0.25f, 0, 0.9f, 0.1f
};

/* PyTorch's numbers: the loss, and the gradient of the bias, the sum over rows of that of y. */
static const struct oracle {
    bool soft;       /* targets are `soft` */
    float smoothing; /* of labels */
    double loss;     /* weighted mean */
    double bias[K];  /* gradient */
} oracles[] = {
    { false, 0.0f, 1.115836329305325, { 0.424242822, -0.464029289, 0.039786466 } },
    { false, 0.2f, 1.1636486351022666, { 0.383469248, -0.434882268, 0.051413019 } },
    { true, 0.0f, 2.3841467011508204, { 0.487927557, -0.694805159, 0.206877602 } },
    { true, 0.1f, 2.3659029330078685, { 0.474945731, -0.677047447, 0.202101718 } },
};

/* A program of a dense layer on `shape`, with class weights. */
typedef struct program {
    test_graph g;              /* its graph */
    const fast_engine *engine; /* that compiled it */
    fast_program *program;     /* for 4 samples */
    fast_workspace *workspace; /* of the program */
    float w[PARAMS];           /* parameters: the identity, and no bias */
} program;

static void program_open(program *p, const fast_engine *engine, const char *shape, float smoothing)
{
    const fast_engine_options options = { .batch = ROWS, .train = true, .plan_path = "" };

    memset(p, 0, sizeof *p);
    p->engine = engine;
    test_graph_begin(&p->g, shape, 0);
    test_graph_then(&p->g, "dense out=3");
    test_graph_end(&p->g, FAST_LOSS_CROSS_ENTROPY, smoothing);
    p->g.graph.class_weights = weights;
    assert_int_equal(p->g.graph.params.count, PARAMS);
    for (int k = 0; k < K; k++)
        p->w[k * K + k] = 1;
    assert_int_equal(engine->compile(&p->g.graph, &options, &p->program), FAST_OK);
    assert_int_equal(engine->workspace_new(p->program, &p->workspace), FAST_OK);
}

static void program_close(program *p)
{
    p->engine->workspace_free(p->workspace);
    p->engine->program_free(p->program);
}

/* The loss of a pass, and its gradient if g is not NULL. */
static double loss_of(const program *p, const fast_batch *batch, bool train, float *g)
{
    fast_pass pass = { .params = p->w, .batch = batch, .train = train, .grad = g };

    assert_int_equal(p->engine->run(p->program, p->workspace, &pass), FAST_OK);
    return pass.loss;
}

static void close_to(const char *what, double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance))
        fail_msg("%s: %.9g is not %.9g", what, a, b);
}

static void losses_are_those_of_pytorch(void **state)
{
    (void)state;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (size_t i = 0; i < sizeof oracles / sizeof *oracles; i++) {
            const struct oracle *o = &oracles[i];
            const fast_batch batch = { .count = ROWS,
                                       .x = outputs,
                                       .labels = o->soft ? NULL : labels,
                                       .targets = o->soft ? soft : NULL };
            float g[PARAMS];
            program p;

            program_open(&p, *engine, "3", o->smoothing);
            close_to("loss", loss_of(&p, &batch, true, g), o->loss, 2e-6);
            for (int k = 0; k < K; k++)
                close_to("bias", (double)g[K * K + k], o->bias[k], 1e-6);
            /* Without weights: the evaluation's loss is the plain mean. */
            const double evaluated = loss_of(&p, &batch, false, NULL);
            p.g.graph.class_weights = NULL;
            close_to("evaluation", evaluated, loss_of(&p, &batch, true, NULL), 0);
            program_close(&p);
        }
}

/* (L(w + h) - L(w - h)) / 2h along every parameter. */
static void check_slopes(program *p, const fast_batch *batch)
{
    const float h = 1.0f / 128;
    float g[PARAMS];

    loss_of(p, batch, true, g);
    for (int i = 0; i < PARAMS; i++) {
        const float before = p->w[i];

        p->w[i] = before + h;
        const double above = loss_of(p, batch, true, NULL);
        p->w[i] = before - h;
        const double below = loss_of(p, batch, true, NULL);
        p->w[i] = before;
        close_to("slope", (double)g[i], (above - below) / (2 * (double)h), 2e-4);
    }
}

static void gradients_are_the_slopes(void **state)
{
    (void)state;
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (int kind = 0; kind < 3; kind++) {
            const bool sequence = kind == 2; /* two samples of two positions */
            const fast_batch batch = { .count = sequence ? 2 : ROWS,
                                       .x = outputs,
                                       .labels = kind == 1 ? NULL : labels,
                                       .targets = kind == 1 ? soft : NULL };
            program p;

            program_open(&p, *engine, sequence ? "2x3" : "3", 0.1f);
            assert_int_equal(p.g.graph.positions, sequence ? 2 : 1);
            check_slopes(&p, &batch);
            program_close(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_pytorch),
        cmocka_unit_test(gradients_are_the_slopes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
