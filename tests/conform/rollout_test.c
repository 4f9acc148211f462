/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: networks that are rolled out over frames compute what their rollout pattern says, learn
 * from the frames that have an answer, and answer when the paper's theory says.
 *
 * Method: a small network is unrolled by hand, frame by frame and in double, for patterns with and
 * without delays, skip edges and recurrent layers: its answers and its loss are compared with those
 * of all engines, and its slopes, by central differences, with their gradients. Without delays the
 * outputs are those of the plain network, to the bit. A change of one frame is followed to the
 * first answer that shows it.
 */
#include "base/memory.h"
#include "engine/engine.h"
#include "model/network.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { POINTS = 3, FRAMES = 7, FEATURES = 3, CLASSES = 4, PARAMS_MAX = 400, LAYERS = 3, WIDE = 16 };

static const int32_t labels[POINTS] = { 2, 0, 3 };

/* A pattern, and the same in numbers. */
typedef struct test_pattern {
    const char *spec;
    int delays[LAYERS];
    bool skips[LAYERS]; /* a layer reads the frames and all layers before it */
    bool recurrent;
    int first; /* first frame with an answer */
} test_pattern;

static const test_pattern patterns[] = {
    { "rollout:hidden=5x4", { 1, 1, 1 }, { false }, true, 3 },
    { "rollout:hidden=5x4,recurrent=no", { 1, 1, 1 }, { false }, false, 3 },
    { "rollout:hidden=5x4,pattern=sequential", { 0, 0, 0 }, { false }, true, 0 },
    { "rollout:hidden=5x4,pattern=1x0x1", { 1, 0, 1 }, { false }, true, 2 },
    { "rollout:hidden=5x4,skip=output", { 1, 1, 1 }, { false, false, true }, true, 1 },
    { "rollout:hidden=5x4,skip=all,recurrent=no", { 1, 1, 1 }, { false, true, true }, false, 1 },
    { "rollout:hidden=5x4,skip=output,pattern=0x1x0",
      { 0, 1, 0 },
      { false, false, true },
      true,
      0 },
};
enum { PATTERNS = sizeof patterns / sizeof patterns[0] };

static const int widths[LAYERS] = { 5, 4, CLASSES };

/* A network with its parameters. */
typedef struct test_net {
    const fast_engine *engine;
    fast_graph *graph;
    fast_program *program;
    fast_workspace *workspace;
    float w[PARAMS_MAX], g[PARAMS_MAX], y[POINTS * CLASSES];
} test_net;

static void net_compile(test_net *net, const fast_engine *engine)
{
    const fast_engine_options options = { .batch = POINTS, .train = true, .plan_path = "" };
    net->engine = engine;
    assert_true(net->graph->params.count <= PARAMS_MAX);
    assert_int_equal(engine->compile(net->graph, &options, &net->program), FAST_OK);
    assert_int_equal(engine->workspace_new(net->program, &net->workspace), FAST_OK);
    fast__graph_init(net->graph, 3, 0, net->w, NULL);
    for (int64_t i = 0; i < net->graph->params.count; i++) /* biases are 0 at first */
        net->w[i] += 0.1f * cosf((float)i);
}

static void net_open(test_net *net, const fast_engine *engine, const char *spec)
{
    const fast_model_input input = { .rank = 2, .shape = { FRAMES, FEATURES }, .outputs = CLASSES };
    char *text = NULL;
    if (fast__model_open(spec, &input, &net->graph, &text))
        fail_msg("%s: %s", spec, fast_error_detail());
    fast__free(text);
    net_compile(net, engine);
}

static void net_close(test_net *net)
{
    net->engine->workspace_free(net->workspace);
    net->engine->program_free(net->program);
    fast__graph_free(net->graph);
}

static void fill(float *x, int count)
{
    for (int i = 0; i < count; i++)
        x[i] = sinf((float)(3 * i + 1));
}

/* Run a pass over samples; gives the loss, and fills y and g. */
static double net_run(test_net *net, const float *x)
{
    const fast_batch batch = { .count = POINTS, .x = x, .labels = labels };
    fast_pass pass = {
        .params = net->w, .batch = &batch, .grad = net->g, .train = true, .outputs = net->y
    };
    assert_int_equal(net->engine->run(net->program, net->workspace, &pass), FAST_OK);
    return pass.loss;
}

/* Add W x + b to y; b follows W where it is not elsewhere. */
static void product(int out, int in, const double *w, const double *b, const double *x, double *y)
{
    for (int o = 0; o < out; o++) {
        y[o] += b[o];
        for (int i = 0; i < in; i++)
            y[o] += w[o * in + i] * x[i];
    }
}

/* Collect the inputs of a layer at a frame: zeros before the first. */
static int gather(const test_pattern *p, int layer, int frame, const double x[FRAMES][FEATURES],
                  double u[LAYERS][FRAMES][WIDE], double in[WIDE])
{
    int count = 0;
    memset(in, 0, WIDE * sizeof *in);
    for (int from = p->skips[layer] ? -1 : layer - 1; from < layer; from++) {
        const int width = from < 0 ? FEATURES : widths[from];
        for (int i = 0; frame >= 0 && i < width; i++)
            in[count + i] = from < 0 ? x[frame][i] : u[from][frame][i];
        count += width;
    }
    return count;
}

/* Unroll the network for one sample: u[LAYERS - 1] has the answers. */
static void unroll(const test_pattern *p, const double *w, const double x[FRAMES][FEATURES],
                   double u[LAYERS][FRAMES][WIDE])
{
    memset(u, 0, LAYERS * sizeof *u);
    for (int t = 0; t < FRAMES; t++) {
        const double *at = w;
        for (int l = 0; l < LAYERS; l++) {
            const bool cell = p->recurrent && l < LAYERS - 1;
            double in[WIDE], none[WIDE] = { 0 }, *y = u[l][t];
            const int count = gather(p, l, t - p->delays[l], x, u, in), n = widths[l];
            const double *v = at + n * count, *b = v + (cell ? n * n : 0);
            product(n, count, at, b, in, y);
            if (cell)
                product(n, n, v, b + n, t > 0 ? u[l][t - 1] : none, y);
            for (int i = 0; i < n && l < LAYERS - 1; i++)
                y[i] = cell ? tanh(y[i]) : fmax(y[i], 0);
            at = b + (cell ? 2 : 1) * n;
        }
    }
}

/* The mean loss of the frames that have an answer, over all samples; fills the last answers. */
static double loss_by_hand(const test_pattern *p, const double *w, const float *data, double *last)
{
    static double u[LAYERS][FRAMES][WIDE];
    double loss = 0;
    for (int s = 0; s < POINTS; s++) {
        double x[FRAMES][FEATURES];
        for (int i = 0; i < FRAMES * FEATURES; i++)
            x[i / FEATURES][i % FEATURES] = (double)data[s * FRAMES * FEATURES + i];
        unroll(p, w, (const double(*)[FEATURES])x, u);
        for (int t = p->first; t < FRAMES; t++) {
            double sum = 0;
            for (int k = 0; k < CLASSES; k++)
                sum += exp(u[LAYERS - 1][t][k]);
            loss += (log(sum) - u[LAYERS - 1][t][labels[s]]) / (FRAMES - p->first) / POINTS;
        }
        memcpy(last + s * CLASSES, u[LAYERS - 1][FRAMES - 1], CLASSES * sizeof *last);
    }
    return loss;
}

static void patterns_by_hand(void **state)
{
    (void)state;
    static test_net net;
    static float x[POINTS * FRAMES * FEATURES];
    static double w[PARAMS_MAX], last[POINTS * CLASSES], unused[POINTS * CLASSES];
    const double h = 1e-5;
    fill(x, POINTS * FRAMES * FEATURES);
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (int k = 0; k < PATTERNS; k++) {
            const test_pattern *p = &patterns[k];
            net_open(&net, *engine, p->spec);
            const double loss = net_run(&net, x);
            for (int64_t i = 0; i < net.graph->params.count; i++)
                w[i] = (double)net.w[i];
            const double right = loss_by_hand(p, w, x, last);
            if (!(fabs(loss - right) < 1e-5))
                fail_msg("%s on %s: loss %g, not %g", p->spec, (*engine)->name, loss, right);
            for (int i = 0; i < POINTS * CLASSES; i++)
                assert_true(fabs((double)net.y[i] - last[i]) < 1e-5);
            for (int64_t i = 0; i < net.graph->params.count; i++) {
                const double before = w[i];
                w[i] = before + h;
                const double above = loss_by_hand(p, w, x, unused);
                w[i] = before - h;
                const double slope = (above - loss_by_hand(p, w, x, unused)) / (2 * h);
                w[i] = before;
                if (!(fabs(slope - (double)net.g[i]) < 1e-5))
                    fail_msg("%s on %s: gradient %d is %g, not %g", p->spec, (*engine)->name,
                             (int)i, (double)net.g[i], slope);
            }
            net_close(&net);
        }
}

/* Without delays the answers are those of the plain network, to the bit. */
static void sequential_is_the_plain_network(void **state)
{
    (void)state;
    static test_net net, plain;
    static float x[POINTS * FRAMES * FEATURES];
    fill(x, POINTS * FRAMES * FEATURES);
    for (const fast_engine *const *engine = fast__engines; *engine; engine++) {
        net_open(&net, *engine, "rollout:hidden=5x4,pattern=sequential");
        assert_int_equal(fast__graph_parse("input 7 3\nrnn 5\nrnn 4\ndense 4\nlast", &plain.graph),
                         FAST_OK);
        net_compile(&plain, *engine);
        assert_int_equal(plain.graph->params.count, net.graph->params.count);
        memcpy(plain.w, net.w, sizeof plain.w);
        (void)net_run(&net, x);
        (void)net_run(&plain, x);
        assert_memory_equal(net.y, plain.y, sizeof net.y);
        net_close(&net);
        net_close(&plain);
    }
}

/* The first frame whose answer changes when frame `changed` does; FRAMES: none. */
static int first_change(const test_pattern *p, int changed)
{
    static test_net net;
    static float x[POINTS * FRAMES * FEATURES], before[POINTS * CLASSES];
    for (int t = p->first; t < FRAMES; t++) {
        char spec[96];
        snprintf(spec, sizeof spec, "%s,answer=%d", p->spec, t);
        net_open(&net, &fast__engine_ref, spec);
        fill(x, POINTS * FRAMES * FEATURES);
        (void)net_run(&net, x);
        memcpy(before, net.y, sizeof before);
        x[changed * FEATURES] += 0.5f;
        (void)net_run(&net, x);
        const bool same = memcmp(before, net.y, sizeof before) == 0;
        net_close(&net);
        if (!same)
            return t;
    }
    return FRAMES;
}

/* An answer to a frame comes as many frames later as the shortest path has delays. */
static void answers_come_after_the_shortest_path(void **state)
{
    (void)state;
    for (int k = 0; k < PATTERNS; k++)
        for (int t = 0; t < FRAMES; t++) {
            const int due = t + patterns[k].first;
            const int came = first_change(&patterns[k], t);
            if (came != (due < FRAMES ? due : FRAMES))
                fail_msg("%s: frame %d changes answer %d, not %d", patterns[k].spec, t, came, due);
        }
}

/* An image is shown for as many frames as the option says, or twice the layers. */
static void images_are_repeated(void **state)
{
    (void)state;
    const fast_model_input input = { .rank = 3, .shape = { 1, 4, 5 }, .outputs = 3 };
    static const char *const specs[] = { "rollout:hidden=6", "rollout:hidden=6,frames=9" };
    for (int k = 0; k < 2; k++) {
        fast_graph *graph = NULL;
        char *text = NULL;
        assert_int_equal(fast__model_open(specs[k], &input, &graph, &text), FAST_OK);
        assert_int_equal(graph->nodes[1].rank, 2);
        assert_int_equal(graph->nodes[1].shape[0], k ? 9 : 4);
        assert_int_equal(graph->nodes[1].shape[1], 20);
        fast__free(text);
        fast__graph_free(graph);
    }
}

static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        { "rollout:hidden=5x4,answer=2", "the frames 3 to 6 have an answer" },
        { "rollout:hidden=5x4,answer=7", "the frames 3 to 6 have an answer" },
        { "rollout:hidden=5x4,frames=7", "sequences of 7 frames; leave frames out" },
        { "rollout:hidden=5x4,pattern=1x1", "3 times 0 or 1" },
        { "rollout:hidden=5x4,pattern=1x2x1", "3 times 0 or 1" },
        { "rollout:hidden=5x4x3x3x3x3", "comes after 7 frames, and there are 7" },
        { "rollout:hidden=2x2x2x2x2x2x2x2,skip=all", "at most 7, or skip=no" },
    };
    static const char *const lines[][2] = {
        { "input 4\ndelay\ndense 2", "takes a sequence of more positions than its 1 steps" },
        { "input 4 3\ndelay 4\nlast\ndense 2", "more positions than its 4 steps" },
        { "input 4 3\nrepeat 2\nlast\ndense 2", "takes a vector or an image" },
        { "input 4 tokens=9\nrepeat 2\nlast\ndense 2", "takes numbers" },
    };
    const fast_model_input input = { .rank = 2, .shape = { FRAMES, FEATURES }, .outputs = CLASSES };
    fast_graph *graph = NULL;
    char *text = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(fast__model_open(bad[i][0], &input, &graph, &text), FAST_EINVAL);
        if (!strstr(fast_error_detail(), bad[i][1]))
            fail_msg("%s: %s", bad[i][0], fast_error_detail());
    }
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_int_equal(fast__graph_parse(lines[i][0], &graph), FAST_EINVAL);
        if (!strstr(fast_error_detail(), lines[i][1]))
            fail_msg("%s: %s", lines[i][0], fast_error_detail());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_by_hand),
        cmocka_unit_test(sequential_is_the_plain_network),
        cmocka_unit_test(answers_come_after_the_shortest_path),
        cmocka_unit_test(images_are_repeated),
        cmocka_unit_test(the_rest_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
