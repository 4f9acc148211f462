/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streaming rollout of a chain of layers over devices (Fischer et al. 2018): shard s of S has
 * some consecutive layers, all with a delay of one frame before them, and all shards compute each
 * frame at once. Round t is frame t:
 *
 *     layer l    a = W y_(l-1)[t-1] + b, and of an rnn V y_l[t-1] + c;   y_l[t] = f(a)
 *
 * The block that arrives has the output of the shard before at frame t - 1; the block that leaves
 * has the own output at frame t. The first shard reads the frames themselves, the last one's
 * outputs are those of the chain. W rounds of 1 / S of the layers each take 1 / S of the time that
 * one device needs; nothing is filled or drained, since the delays are those of the network.
 *
 *     round    0       1       2       3           3 layers on 3 shards, x: zeros
 *     shard 0  A0(x)   A1(x0)  A2(x1)  A3(x2)
 *     shard 1  B0(x)   B1(A0)  B2(A1)  B3(A2)
 *     shard 2  C0(x)   C1(B0)  C2(B1)  C3(B2)
 *
 * Backward the rounds are reversed. The gradient of an output at frame t comes from the layer
 * behind at frame t + 1, from the layer itself if it is an rnn, and from behind the chain; those of
 * frame t + 1 are complete then, so that all layers of a frame are independent here, too:
 *
 *     d_l[t] = dy_l[t] f'(a)      dW += d_l[t]' y_(l-1)[t-1]      dV += d_l[t]' y_l[t-1]
 *     dy_(l-1)[t-1] += d_l[t] W   dy_l[t-1] += d_l[t] V
 *
 * The section's graph is its input and the own layers: a delay, weights, perhaps an activation.
 * Cost: a block of the widest outputs that leave a shard between neighbours each round; backward it
 * has the same block beside the gradient.
 */
#include "engine/streaming_layers.h"
#include "engine/row.h"

#include <math.h>
#include <string.h>

/* The sizes of a shard. */
typedef struct streaming_shape {
    int64_t n, W, G;         /* samples, frames, own layers */
    int64_t inputs, outputs; /* elements of a frame that arrive at the own layers, and leave them */
    int64_t own;             /* elements of a frame of the outputs of all own layers */
    int64_t before, behind;  /* elements of a sample of the values around the chain */
    int64_t block;           /* elements of a block for each sample */
    bool first, last;        /* the shard has the first layers, or the last ones */
} streaming_shape;

/* An own layer. */
typedef struct streaming_layer {
    const fast_node *node; /* dense or rnn */
    fast_op activation;    /* of its outputs; FAST_OP_DENSE: none */
    int64_t inputs;        /* elements of a frame of its inputs */
    int64_t outputs;       /* and of its outputs */
    int64_t place;         /* of its outputs among those of all own layers */
} streaming_layer;

/* Where values are in `saved`, in floats from its start on. */
typedef struct streaming_saved {
    int64_t y;       /* [W][n][own] outputs of the own layers */
    int64_t arrived; /* [W][n][inputs] what arrived; nothing at the first shard */
    int64_t dy;      /* [n][own] gradients of the outputs of this round's frame */
    int64_t d;       /* [n][own] gradients in front of the activations */
    int64_t count;   /* floats in all */
} streaming_saved;

bool fast__streaming_weights(const fast_node *node)
{
    return node->op == FAST_OP_RNN || (node->op == FAST_OP_DENSE && node->weight[FAST_W_GAIN] < 0);
}

bool fast__streaming_activation(fast_op op)
{
    return op == FAST_OP_RELU || op == FAST_OP_TANH || op == FAST_OP_SIGMOID;
}

double fast__streaming_operations(const fast_graph *graph, int node)
{
    return fast__node_flops_forward(graph, node) / (double)graph->nodes[node].shape[0];
}

/* Own layer g. */
static streaming_layer layer_at(const fast_graph *graph, int64_t g)
{
    int64_t place = 0;
    int i = 1;

    for (; !fast__streaming_weights(&graph->nodes[i]) || g > 0; i++)
        if (fast__streaming_weights(&graph->nodes[i])) {
            place += graph->nodes[i].shape[1];
            g--;
        }
    FAST_ASSERT(i < graph->node_count);
    const fast_node *node = &graph->nodes[i];
    const bool active =
        i + 1 < graph->node_count && fast__streaming_activation(graph->nodes[i + 1].op);
    const fast_op own = node->op == FAST_OP_RNN ? FAST_OP_TANH : FAST_OP_DENSE;

    return (streaming_layer){ .node = node,
                              .activation = active ? graph->nodes[i + 1].op : own,
                              .inputs = graph->nodes[node->inputs[0]].shape[1],
                              .outputs = node->shape[1],
                              .place = place };
}

static streaming_shape shape_of(const fast_round_call *call)
{
    const fast_graph *graph = call->graph;
    const fast_node *input = &graph->nodes[0], *last = &graph->nodes[graph->node_count - 1];
    streaming_shape s = { .n = call->samples,
                          .W = last->shape[0],
                          .inputs = input->shape[1],
                          .outputs = last->shape[1],
                          .before = input->columns[0],
                          .behind = input->columns[1],
                          .block = input->groups,
                          .first = call->shard == 0,
                          .last = call->shard == call->shards - 1 };

    for (int i = 1; i < graph->node_count; i++)
        if (fast__streaming_weights(&graph->nodes[i])) {
            s.own += graph->nodes[i].shape[1];
            s.G++;
        }
    FAST_ASSERT(s.G > 0 && (s.first || s.inputs <= s.block) && (s.last || s.outputs <= s.block));
    return s;
}

static streaming_saved saved_of(const streaming_shape *s)
{
    const int64_t frame = s->n * s->own;
    streaming_saved at = { .y = 0, .arrived = s->W * frame };

    at.dy = at.arrived + (s->first ? 0 : s->W * s->n * s->inputs);
    at.d = at.dy + frame;
    at.count = at.d + frame;
    return at;
}

static int64_t streaming_rounds(const fast_round_call *call)
{
    return shape_of(call).W;
}

/* To the shard with the next layers; the block of the last one goes round, and is not read. */
static int64_t streaming_next(const fast_round_call *call, int visitor, bool back)
{
    FAST_ASSERT(visitor == 0);
    return (call->shard + (back ? call->shards - 1 : 1)) % call->shards;
}

static int64_t streaming_floats(const fast_round_call *call, int visitor)
{
    const streaming_shape s = shape_of(call);

    return visitor == 0 ? s.n * s.block : 0;
}

static int64_t streaming_saved_floats(const fast_round_call *call)
{
    const streaming_shape s = shape_of(call);

    return saved_of(&s).count;
}

/* Nothing has arrived yet. Of the outputs behind the chain only the last shard has a part. */
static void streaming_start(const fast_round_call *call)
{
    const streaming_shape s = shape_of(call);

    memset(call->visit[0], 0, (size_t)(s.n * s.block) * sizeof(float));
    memset(call->y, 0, (size_t)(s.n * s.behind) * sizeof(float));
}

/* A weight of a layer, in the parameters or their gradient; NULL: the layer lacks it. */
static float *weight_of(const fast_round_call *call, const fast_node *node, int which,
                        const float *vector)
{
    const int64_t k = node->weight[which];

    return k < 0 ? NULL : (float *)(uintptr_t)vector + call->graph->params.segments[k].offset;
}

/* Outputs of an own layer at a frame, of sample i. */
static float *output_of(const fast_round_call *call, const streaming_shape *s,
                        const streaming_layer *layer, int64_t frame, int64_t i)
{
    return call->saved + saved_of(s).y + (frame * s->n + i) * s->own + layer->place;
}

/* The inputs of an own layer in this round, of the frame before; NULL in round 0: zeros. The
 * outputs of the own layer before it are in front of its own. */
static const float *input_of(const fast_round_call *call, const streaming_shape *s,
                             const streaming_layer *layer, int64_t i)
{
    if (call->round == 0)
        return NULL;
    if (layer->place > 0)
        return output_of(call, s, layer, call->round - 1, i) - layer->inputs;
    return s->first ? call->x + (i * s->W + call->round - 1) * s->inputs
                    : call->saved + saved_of(s).arrived + (call->round * s->n + i) * s->inputs;
}

/* The activation, and its slope by its value. */
static float activate(fast_op op, float a)
{
    return op == FAST_OP_TANH      ? tanhf(a)
           : op == FAST_OP_SIGMOID ? 1 / (1 + expf(-a))
           : op == FAST_OP_RELU    ? fmaxf(a, 0)
                                   : a;
}

static float slope(fast_op op, float y)
{
    return op == FAST_OP_TANH      ? 1 - y * y
           : op == FAST_OP_SIGMOID ? y * (1 - y)
           : op == FAST_OP_RELU    ? (y > 0 ? 1.0F : 0.0F)
                                   : 1;
}

/* Add W x to the outputs of a layer, and b; x and b may be NULL. */
static void add_product(int64_t outputs, int64_t inputs, const float *w, const float *b,
                        const float *x, float *y)
{
    for (int64_t o = 0; o < outputs; o++)
        y[o] += (b ? b[o] : 0) + (x ? fast__row_dot(inputs, x, w + o * inputs) : 0);
}

/* Compute an own layer at this round's frame. */
static void compute_layer(const fast_round_call *call, const streaming_shape *s,
                          const streaming_layer *layer)
{
    const fast_node *node = layer->node;
    const int64_t N = layer->outputs;
    const float *w = weight_of(call, node, FAST_W_WEIGHT, call->w);
    const float *b = weight_of(call, node, FAST_W_BIAS, call->w);
    const float *v = weight_of(call, node, FAST_W_WEIGHT2, call->w);
    const float *c = weight_of(call, node, FAST_W_BIAS2, call->w);

    for (int64_t i = 0; i < s->n; i++) {
        float *y = output_of(call, s, layer, call->round, i);

        memset(y, 0, (size_t)N * sizeof *y);
        add_product(N, layer->inputs, w, b, input_of(call, s, layer, i), y);
        if (v)
            add_product(N, N, v, c, call->round > 0 ? y - s->n * s->own : NULL, y);
        for (int64_t o = 0; o < N; o++)
            y[o] = activate(layer->activation, y[o]);
    }
}

static void streaming_forward(const fast_round_call *call)
{
    const streaming_shape s = shape_of(call);
    const streaming_layer last = layer_at(call->graph, s.G - 1);
    float *arrived = call->saved + saved_of(&s).arrived + call->round * s.n * s.inputs;
    const size_t size = (size_t)s.outputs * sizeof(float);

    for (int64_t i = 0; !s.first && i < s.n; i++)
        memcpy(arrived + i * s.inputs, call->visit[0] + i * s.block,
               (size_t)s.inputs * sizeof(float));
    for (int64_t g = 0; g < s.G; g++) {
        const streaming_layer layer = layer_at(call->graph, g);

        compute_layer(call, &s, &layer);
    }
    for (int64_t i = 0; i < s.n; i++)
        memcpy(s.last ? call->y + (i * s.W + call->round) * s.outputs
                      : call->visit[0] + i * s.block,
               output_of(call, &s, &last, call->round, i), size);
}

/* Add d' x to the gradient of a layer's weights, and d to that of its bias. */
static void add_gradient(int64_t outputs, int64_t inputs, const float *d, const float *x, float *dw,
                         float *db)
{
    for (int64_t o = 0; x && o < outputs; o++)
        fast__row_add(inputs, d[o], x, dw + o * inputs);
    if (db)
        fast__row_add(outputs, 1, d, db);
}

/* Add W' d to the gradient of a layer's inputs. */
static void add_back(int64_t outputs, int64_t inputs, const float *w, const float *d, float *dx)
{
    for (int64_t o = 0; dx && o < outputs; o++)
        fast__row_add(inputs, d[o], w + o * inputs, dx);
}

/* The gradient of the inputs of an own layer, of sample i; NULL: nobody asks for it. */
static float *input_grad_of(const fast_round_call *call, const streaming_shape *s,
                            const streaming_layer *layer, int64_t i)
{
    if (call->round == 0)
        return NULL;
    if (layer->place > 0)
        return call->saved + saved_of(s).dy + i * s->own + layer->place - layer->inputs;
    if (!s->first)
        return call->visit_grad[0] + i * s->block;
    return call->dx && call->graph->input_grad ? call->dx + (i * s->W + call->round - 1) * s->inputs
                                               : NULL;
}

/* The gradients in front of the activations at this round's frame: those of the outputs are
 * complete, since all that read them did so a frame later. */
static void begin_frame(const fast_round_call *call, const streaming_shape *s)
{
    const streaming_saved at = saved_of(s);
    float *dy = call->saved + at.dy, *d = call->saved + at.d;

    for (int64_t i = 0; i < s->n; i++)
        fast__row_add(s->outputs, 1,
                      s->last ? call->dy + (i * s->W + call->round) * s->outputs
                              : call->visit_grad[0] + i * s->block,
                      dy + (i + 1) * s->own - s->outputs);
    for (int64_t g = 0; g < s->G; g++) {
        const streaming_layer layer = layer_at(call->graph, g);

        for (int64_t i = 0; i < s->n; i++) {
            const float *y = output_of(call, s, &layer, call->round, i);
            const int64_t place = i * s->own + layer.place;

            for (int64_t o = 0; o < layer.outputs; o++)
                d[place + o] = dy[place + o] * slope(layer.activation, y[o]);
        }
    }
    memset(dy, 0, (size_t)(s->n * s->own) * sizeof *dy);
    memset(call->visit_grad[0], 0, (size_t)(s->n * s->block) * sizeof(float));
}

/* The gradients of an own layer: of its weights, and of what it has read at the frame before. */
static void back_layer(const fast_round_call *call, const streaming_shape *s,
                       const streaming_layer *layer)
{
    const fast_node *node = layer->node;
    const streaming_saved at = saved_of(s);
    const int64_t N = layer->outputs;

    for (int64_t i = 0; i < s->n; i++) {
        const int64_t place = i * s->own + layer->place;
        const float *d = call->saved + at.d + place;
        const float *before =
            call->round > 0 ? output_of(call, s, layer, call->round - 1, i) : NULL;

        add_gradient(N, layer->inputs, d, input_of(call, s, layer, i),
                     weight_of(call, node, FAST_W_WEIGHT, call->dw),
                     weight_of(call, node, FAST_W_BIAS, call->dw));
        add_back(N, layer->inputs, weight_of(call, node, FAST_W_WEIGHT, call->w), d,
                 input_grad_of(call, s, layer, i));
        if (node->op != FAST_OP_RNN)
            continue;
        add_gradient(N, N, d, before, weight_of(call, node, FAST_W_WEIGHT2, call->dw),
                     weight_of(call, node, FAST_W_BIAS2, call->dw));
        if (before)
            add_back(N, N, weight_of(call, node, FAST_W_WEIGHT2, call->w), d,
                     call->saved + at.dy + place);
    }
}

static void streaming_backward(const fast_round_call *call)
{
    const streaming_shape s = shape_of(call);

    FAST_ASSERT(call->dw != NULL);
    if (call->round == s.W - 1) {
        memset(call->dw, 0, (size_t)call->graph->params.count * sizeof(float));
        memset(call->saved + saved_of(&s).dy, 0, (size_t)(s.n * s.own) * sizeof(float));
        if (call->dx)
            memset(call->dx, 0, (size_t)(s.n * s.before) * sizeof(float));
    }
    begin_frame(call, &s);
    for (int64_t g = 0; g < s.G; g++) {
        const streaming_layer layer = layer_at(call->graph, g);

        back_layer(call, &s, &layer);
    }
}

/* The gradients of blocks have been used frame by frame. */
static void streaming_finish(const fast_round_call *call)
{
    (void)call;
}

static double streaming_operations(const fast_round_call *call)
{
    const streaming_shape s = shape_of(call);
    double sum = 0;

    for (int64_t g = 0; g < s.G; g++)
        sum += fast__streaming_operations(
            call->graph, (int)(layer_at(call->graph, g).node - call->graph->nodes));
    return sum * (double)s.n;
}

const fast_round_op fast__streaming_layers = {
    .rounds = streaming_rounds,
    .next = streaming_next,
    .floats = streaming_floats,
    .saved = streaming_saved_floats,
    .start = streaming_start,
    .forward = streaming_forward,
    .backward = streaming_backward,
    .finish = streaming_finish,
    .operations = streaming_operations,
};
