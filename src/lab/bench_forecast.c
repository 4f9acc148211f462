/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast bench forecast`: the time of a training step by three models, beside measurements, for each
 * operator of a network and for all of it, forward and backward over a batch.
 *
 *   work and depth   W operations, of which D wait for one another (Blelloch 1996). On P processors
 *                    max(W / P, D) <= T_P <= W / P + D, in operations of one processor (Brent 1974)
 *   device           W / (peak share) + bytes / bandwidth, of a table of devices, or of this core,
 *                    whose share of the peak is that of one product, 256 x 256, and of the largest
 *                    layer in its table for convolutions of each kernel, above 1 where fast ones
 *                    make fewer operations than are counted (Paleo: Qi et al. 2017). Bytes: inputs,
 *                    outputs and weights, once forward and twice backward
 *   table            by interpolation in a table of layers that were timed on this core: dense
 *                    layers by rows, inputs and outputs, convolutions of each kernel by the side of
 *                    the image and the channels; other operators as `device` (time_table.c)
 *   measured         layers with matrix products alone (layer_time.c), and steps of the whole
 *                    model: the least CPU time of each, which other work on the machine disturbs
 *                    least
 *
 * The whole step is the sum over the operators, and the update: FAST_UPDATE_OPERATIONS and
 * FAST_UPDATE_BYTES for each parameter.
 *
 * Question: how good are forecasts of computing? Expected: 10 to 30% for the device, 5 to 19% for
 * the table where a network is made of large products. Small layers are dominated by costs that
 * neither counts.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "lab/bench.h"
#include "lab/layer_time.h"
#include "lab/time_table.h"
#include "run/run.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES_MIN = 5, ENTRIES = FAST_TABLE_SIZES * FAST_TABLE_SIZES * FAST_TABLE_SIZES };
enum { KERNELS_MAX = 4 }; /* tables of convolutions; further kernels use the last */
enum { ENTRY_NS = 10000000, LAYER_NS = 100000000, BUS_FLOATS = 1 << 18, BUS_TRIES = 20 };

/* A device: single precision, as its maker states it. */
typedef struct forecast_device {
    const char *name; /* as users type it */
    double peak;      /* operations a second */
    double bandwidth; /* of its memory, bytes a second */
    double share;     /* of the peak that products reach */
} forecast_device;

/* Shares are those that Paleo found for cuDNN on the first of them, about a half. */
static const forecast_device devices[] = {
    { "titan-x", 6.1e12, 336e9, 0.5 },   { "k80", 4.37e12, 240e9, 0.5 },
    { "p100", 10.6e12, 732e9, 0.5 },     { "v100", 15.7e12, 900e9, 0.5 },
    { "a100", 19.5e12, 1555e9, 0.5 },    { "h100", 66.9e12, 3350e9, 0.5 },
    { "h200", 66.9e12, 4800e9, 0.5 },    { "core-avx2", 96e9, 12e9, 0.7 },
    { "core-avx512", 192e9, 12e9, 0.7 },
};

/* One call. */
typedef struct forecast_bench {
    fast_run *run;                     /* the model, data and engine */
    double processors;                 /* P of Brent's bounds */
    bool here;                         /* this core: measured, and compared with measurements */
    forecast_device device;            /* whose times are forecast */
    fast_layer_bench layers;           /* how layers are timed */
    fast_time_table dense;             /* rows, inputs, outputs */
    int kernels;                       /* sizes of kernels that have a table */
    int64_t kernel[KERNELS_MAX];       /* these sizes */
    int64_t pad[KERNELS_MAX];          /* their padding */
    fast_time_table conv[KERNELS_MAX]; /* side, channels in, channels out */
    fast_forecast_measure whole;       /* sums over the operators */
    fast_forecast_fn *report;          /* the caller's */
    void *ctx;                         /* argument of report */
} forecast_bench;

/* A network of one layer behind an input and a norm, in memory of its own. */
typedef struct layer_graph {
    fast_graph graph;       /* points to the arrays below */
    fast_node nodes[3];     /* input, a node that stands for the rest, the layer */
    fast_segment params[2]; /* of the layer */
} layer_graph;

/* Make a dense layer (kernel 0), or a convolution of images of this side. */
static void make_layer(layer_graph *g, int64_t kernel, int64_t pad, int64_t side, int64_t inputs,
                       int64_t outputs)
{
    const int64_t before = side + kernel - 1 - 2 * pad; /* side of the layer's input */
    const bool conv = kernel > 0;

    FAST_ASSERT(side > 0 && inputs > 0 && outputs > 0);
    *g = (layer_graph){ .graph = { .nodes = g->nodes, .node_count = 3 } };
    g->graph.params =
        (fast_layout){ g->params, 2, outputs * inputs * (conv ? kernel * kernel : 1) + outputs };
    for (int i = 0; i < 3; i++) {
        fast_node *node = &g->nodes[i];
        const int64_t channels = i == 2 ? outputs : inputs, length = i == 2 ? side : before;

        *node = (fast_node){ .op = i == 0   ? FAST_OP_INPUT
                                   : i == 1 ? FAST_OP_RELU
                                   : conv   ? FAST_OP_CONV
                                            : FAST_OP_DENSE,
                             .input_count = i > 0,
                             .inputs = { i > 0 ? i - 1 : 0 },
                             .rank = conv ? 3 : 1,
                             .shape = { channels, conv ? length : 0, conv ? length : 0 },
                             .count = channels * (conv ? length * length : 1),
                             .state = { -1, -1 } };
        for (int k = 0; k < FAST_WEIGHTS_MAX; k++)
            node->weight[k] = i == 2 && k < 2 ? k : -1;
    }
    if (conv)
        for (int d = 0; d < 2; d++) {
            g->nodes[2].kernel[d] = kernel;
            g->nodes[2].pad[d] = pad;
            g->nodes[2].stride[d] = g->nodes[2].dilation[d] = 1;
        }
    g->nodes[2].groups = 1;
    g->params[0] = (fast_segment){ .name = "weight",
                                   .count = g->graph.params.count - outputs,
                                   .shape = { outputs, inputs, kernel, kernel },
                                   .rank = conv ? 4 : 2,
                                   .layer = 2 };
    g->params[1] = (fast_segment){ .name = "bias",
                                   .offset = g->params[0].count,
                                   .count = outputs,
                                   .shape = { outputs },
                                   .rank = 1,
                                   .layer = 2 };
}

/* Time a layer of these sizes, a batch of `rows`. */
static fast_err time_sizes(const forecast_bench *b, int64_t kernel, int64_t pad, int64_t rows,
                           int64_t side, int64_t inputs, int64_t outputs, double *seconds_out)
{
    const bool calibrates = kernel == 0 && rows == 256 && b->device.share == 1;
    layer_graph g;
    fast_layer_bench bench = b->layers;

    make_layer(&g, kernel, pad, side, inputs, outputs);
    bench.graph = &g.graph;
    bench.options.batch = rows;
    bench.limit_ns = calibrates ? 3 * LAYER_NS : ENTRY_NS;
    bench.passes = calibrates ? PASSES_MIN : 1;
    FAST_ASSERT(rows > 0);
    return fast__layer_time(&bench, 2, seconds_out);
}

/* Measure a table of dense layers (kernel 0) or convolutions: 64 layers, about two seconds. */
static fast_err measure_table(const forecast_bench *b, int64_t kernel, int64_t pad,
                              fast_time_table *t)
{
    static const double dense[] = { 16, 64, 256, 1024 }, side[] = { 4, 8, 16, 28 },
                        channels[] = { 1, 4, 16, 48 };

    for (int i = 0; i < FAST_TABLE_SIZES; i++)
        for (int d = 0; d < 3; d++)
            t->sizes[d][i] = kernel == 0 ? dense[i] : d == 0 ? side[i] : channels[i];
    /* Two rounds, of which the shorter time counts: other work on the machine comes in bursts. */
    for (int i = 0; i < 2 * ENTRIES; i++) {
        const int u = i % ENTRIES / 16, v = i / 4 % 4, w = i % 4;
        const int64_t first = (int64_t)t->sizes[0][u];
        double seconds = 0;

        FAST_TRY(time_sizes(b, kernel, pad, kernel == 0 ? first : b->run->config.batch,
                            kernel == 0 ? 1 : first, (int64_t)t->sizes[1][v],
                            (int64_t)t->sizes[2][w], &seconds));
        t->seconds[u][v][w] = i < ENTRIES ? seconds : fmin(seconds, t->seconds[u][v][w]);
    }
    return FAST_OK;
}

/* Find the table of a node's kernel; measure it first if that is new. */
static fast_err table_of(forecast_bench *b, const fast_node *n, const fast_time_table **out)
{
    const int64_t kernel = n->kernel[0], pad = n->pad[0];
    int i = 0;

    FAST_ASSERT(n->op == FAST_OP_CONV);
    while (i < b->kernels && (b->kernel[i] != kernel || b->pad[i] != pad))
        i++;
    if (i == b->kernels && i < KERNELS_MAX) {
        FAST_TRY(measure_table(b, kernel, pad, &b->conv[i]));
        b->pad[i] = pad;
        b->kernel[b->kernels++] = kernel;
    }
    *out = &b->conv[i < KERNELS_MAX ? i : KERNELS_MAX - 1];
    return FAST_OK;
}

/* Measure this core: its peak, its memory, and the share of the peak that a product reaches. */
static fast_err measure_core(forecast_bench *b)
{
    float *x = NULL;
    double seconds = 0, best = INFINITY;

    FAST_TRY(fast__alloc("a vector to measure with", 2 * BUS_FLOATS, sizeof *x, &x));
    for (int i = 0; i < BUS_TRIES; i++) {
        const int64_t begin = fast__clock_thread_ns();

        fast__vector_add(BUS_FLOATS, x, x + BUS_FLOATS);
        best = fmin(best, (double)(fast__clock_thread_ns() - begin) * 1e-9);
    }
    fast__free(x);
    b->device = (forecast_device){ "this", fast__peak_flops(), 12.0 * BUS_FLOATS / best, 1 };
    FAST_TRY(time_sizes(b, 0, 0, 256, 1, 256, 256, &seconds));
    FAST_ASSERT(seconds > 0);
    b->device.share = fmin(1, 6.0 * 256 * 256 * 256 / seconds / b->device.peak);
    return FAST_OK;
}

/* Set the share of the peak that the products of a node reach: that of its kind of operator. */
static fast_err share_of(forecast_bench *b, const fast_node *n, double *out)
{
    enum { LAST = FAST_TABLE_SIZES - 1 };
    const fast_time_table *t = NULL;

    *out = b->device.share;
    if (!b->here || n->op != FAST_OP_CONV)
        return FAST_OK;
    FAST_TRY(table_of(b, n, &t));
    const double products = t->sizes[0][LAST] * t->sizes[0][LAST] * t->sizes[1][LAST] *
                            t->sizes[2][LAST] * (double)(n->kernel[0] * n->kernel[1]);
    FAST_ASSERT(t->seconds[LAST][LAST][LAST] > 0);
    *out =
        6 * (double)b->run->config.batch * products / t->seconds[LAST][LAST][LAST] / b->device.peak;
    return FAST_OK;
}

/* Fill in the counts of a node, forward and backward for a batch. An operator without products
 * takes an operation for each element of its output, and two backward. */
static fast_err count_node(forecast_bench *b, int node, fast_forecast_measure *m)
{
    const fast_graph *graph = b->run->graph;
    const fast_node *n = &graph->nodes[node];
    const double batch = (double)b->run->config.batch;
    const bool needed = n->inputs[0] != 0;
    const double flops =
        fast__node_flops_forward(graph, node) + fast__node_flops_backward(graph, node, needed);
    double elements = (double)n->count, share;
    int64_t offset, weights = 0;

    for (int i = 0; i < n->input_count; i++)
        elements += (double)graph->nodes[n->inputs[i]].count;
    if (!fast__node_params(graph, node, &offset, &weights))
        weights = 0;
    m->work = batch * (flops > 0 ? flops : 3 * (double)n->count);
    m->depth = 3 * fast__node_depth(graph, node) + (weights > 0 ? ceil(log2(batch)) : 0);
    m->bytes = 3 * sizeof(float) * (batch * elements + (double)weights);
    FAST_TRY(share_of(b, n, &share));
    m->device_s =
        (flops > 0 ? m->work / (b->device.peak * share) : 0) + m->bytes / b->device.bandwidth;
    return FAST_OK;
}

/* Set the seconds of a node by the tables; operators without products as by the device. */
static fast_err set_table_seconds(forecast_bench *b, int node, fast_forecast_measure *m)
{
    const fast_graph *graph = b->run->graph;
    const fast_node *n = &graph->nodes[node];
    const double batch = (double)b->run->config.batch;
    const double forward = batch * fast__node_flops_forward(graph, node);
    const double all = forward > 0 ? m->work / (3 * forward) : 1; /* the first layer needs 2 of 3 */

    m->table_s = m->device_s;
    if (forward <= 0)
        return FAST_OK;
    if (n->op == FAST_OP_CONV) {
        const double pixels = (double)(n->shape[1] * n->shape[2]), out = (double)n->shape[0];
        const double inner = forward / (2 * batch * pixels * out); /* of the products */
        const fast_time_table *table = NULL;

        FAST_TRY(table_of(b, n, &table));
        const double area = (double)(n->kernel[0] * n->kernel[1]);
        const double at[3] = { sqrt(pixels), fmax(1, inner / area), out };
        m->table_s = all * fast__table_seconds(table, at);
        return FAST_OK;
    }
    const fast_dense_shape d =
        n->op == FAST_OP_DENSE ? fast__dense_shape(graph, node) : (fast_dense_shape){ 0 };
    const double rows = batch * (d.rows > 0 ? (double)d.rows : (double)n->count / 64);
    const double side = sqrt(forward / (2 * rows)); /* of an operator of another kind */
    const double at[3] = { rows, d.rows > 0 ? (double)d.inputs : side,
                           d.rows > 0 ? (double)d.outputs : side };

    m->table_s = all * fast__table_seconds(&b->dense, at);
    return FAST_OK;
}

/* Set Brent's bounds, in operations. */
static void bound(const forecast_bench *b, fast_forecast_measure *m)
{
    FAST_ASSERT(b->processors >= 1);
    m->brent_low = fmax(m->work / b->processors, m->depth);
    m->brent_high = m->work / b->processors + m->depth;
}

/* Forecast and measure one operator. */
static fast_err forecast_node(forecast_bench *b, int node)
{
    const fast_graph *graph = b->run->graph;
    const fast_node *n = &graph->nodes[node];
    fast_forecast_measure m = { .model = b->run->config.model, .table_s = NAN, .measured_s = NAN };
    char name[96];

    snprintf(name, sizeof name, "%d %s", node, fast__op_name(n->op));
    m.operator_name = name;
    FAST_TRY(count_node(b, node, &m));
    bound(b, &m);
    if (b->here)
        FAST_TRY(set_table_seconds(b, node, &m));
    if (b->here && n->weight[0] >= 0 && fast__node_flops_forward(graph, node) > 0)
        FAST_TRY(fast__layer_time(&b->layers, node, &m.measured_s));
    b->whole.work += m.work;
    b->whole.bytes += m.bytes;
    b->whole.device_s += m.device_s;
    b->whole.table_s += m.table_s;
    b->report(b->ctx, &m);
    return FAST_OK;
}

/* Forecast the whole step with its update, and measure it. */
static fast_err forecast_step(forecast_bench *b)
{
    const double n = (double)b->run->learner->params.count;
    const double update =
        FAST_UPDATE_OPERATIONS * n / b->device.peak + FAST_UPDATE_BYTES * n / b->device.bandwidth;

    b->whole.work += FAST_UPDATE_OPERATIONS * n;
    b->whole.bytes += FAST_UPDATE_BYTES * n;
    b->whole.depth = fast__run_depth(b->run);
    b->whole.device_s += update;
    b->whole.table_s = b->here ? b->whole.table_s + update : NAN;
    b->whole.measured_s = NAN;
    bound(b, &b->whole);
    double median = 0;
    if (b->here)
        FAST_TRY(fast__bench_step(b->run, &median, &b->whole.measured_s));
    b->report(b->ctx, &b->whole);
    return FAST_OK;
}

/* Find the device of a name. */
static fast_err find_device(const char *name, forecast_device *out)
{
    FAST_ASSERT(name != NULL);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (strcmp(devices[i].name, name) == 0) {
            *out = devices[i];
            return FAST_OK;
        }
    return fast__fail(FAST_EINVAL,
                      "no machine \"%.40s\" to forecast; it is one of this, titan-x, k80, p100, "
                      "v100, a100, h100, h200, core-avx2 and core-avx512",
                      name);
}

/* Run it, with the run open. */
static fast_err forecast(forecast_bench *b)
{
    const fast_run *run = b->run;

    if (!run->graph)
        return fast__fail(FAST_ENOTSUP, "a forecast by operators needs a model with a graph");
    b->layers = (fast_layer_bench){ run->engine, fast__run_engine_options(run), run->graph,
                                    LAYER_NS, PASSES_MIN };
    b->whole = (fast_forecast_measure){ .model = run->config.model };
    if (b->here)
        FAST_TRY(measure_core(b));
    if (b->here)
        FAST_TRY(measure_table(b, 0, 0, &b->dense));
    for (int node = 1; node < run->graph->node_count; node++)
        FAST_TRY(forecast_node(b, node));
    return forecast_step(b);
}

fast_err fast_bench_forecast(const char *const *options, fast_forecast_fn *report, void *ctx)
{
    forecast_bench b = { .processors = 16, .report = report, .ctx = ctx };
    const char *machine = "this", **rest = NULL;
    int64_t count = 0, used = 0;

    FAST_ASSERT(report != NULL);
    while (options && options[count])
        count++;
    FAST_TRY(fast__alloc("options", count + 1, sizeof *rest, &rest));
    for (int64_t i = 0; i < count; i++) {
        if (strncmp(options[i], "machine=", 8) == 0)
            machine = options[i] + 8;
        else if (strncmp(options[i], "processors=", 11) == 0)
            b.processors = strtod(options[i] + 11, NULL);
        else
            rest[used++] = options[i];
    }
    fast_err err = b.processors >= 1
                       ? FAST_OK
                       : fast__fail(FAST_EINVAL, "processors are 1 or more, not %g", b.processors);
    b.here = strcmp(machine, "this") == 0;
    if (!err && !b.here)
        err = find_device(machine, &b.device);
    if (!err)
        err = fast_run_open(rest, &b.run);
    fast__free(rest);
    FAST_TRY(err);
    err = forecast(&b);
    fast_run_close(b.run);
    return err;
}
