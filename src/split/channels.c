/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind `channels`: convolutions by their channels. Two with layers of single channels between
 * them are a pair, as dense layers are (pairs.c): the first is split by its outputs, the second by
 * its inputs, and the sum over the shards is the output:
 *
 *     y = sum over t of conv(f(conv(x, A_t)), B_t)     f: batch norm, activation, pooling, dropout
 *
 *     A, shard t of T   output channels [t C / T, (t + 1) C / T)    batch norm: the same channels
 *     B, shard t of T   input channels of these; bias: shard 0      B may be a dense layer
 *
 * One without a partner is split by its outputs, which are gathered behind what follows it channel
 * by channel. T need not divide C.
 *
 *     a | A, f |  own channels      e: gathered
 *
 * What is between the sum and the next cut, with a residual around the pair, is computed by every
 * shard from the sum and a, which stays at the shard in the meantime:
 *
 *     a | A, f, B |  sum | batch norm, shortcut, add, activation |      e: a block of a ResNet
 *
 * There every shard has the whole gradient of a; shard 0 alone adds its own to that of A.
 *
 * Floats that a shard sends for a micro-batch, in a ring: the sum of B's outputs forward, 2 (T - 1)
 * / T each, or (T - 1) / T of e; the sum of the gradient of a backward.
 */
#include "split/kinds.h"

#include "engine/element.h"
#include "split/stage.h"

/* A run behind node a; its first node is a + 1. */
typedef struct channels_run {
    int last;         /* of the split layers: B, or the last layer whose channels are gathered */
    bool pair;        /* it is B */
    int end;          /* of the run: last, or the end of what follows the sum */
    int64_t channels; /* C */
} channels_run;

static bool is_middle(fast_op op)
{
    return op == FAST_OP_RELU || op == FAST_OP_LEAKY_RELU || op == FAST_OP_TANH ||
           op == FAST_OP_SIGMOID || op == FAST_OP_GELU || op == FAST_OP_MAX_POOL ||
           op == FAST_OP_AVG_POOL || op == FAST_OP_GLOBAL_POOL || op == FAST_OP_BATCH_NORM ||
           op == FAST_OP_FLATTEN || op == FAST_OP_DROPOUT;
}

/* Is node i a layer of single channels that may be split with those of node i - 1? */
static bool continues(const fast_assembly *b, int i)
{
    return fast__assembly_follows(b, i, i - 1) && is_middle(b->graph->nodes[i].op) &&
           (fast__assembly_maps(b, i) || fast__layout_map_find(b->map, b->graph, i) < 0);
}

/* Is node i a convolution, or with `dense` a dense layer, that may be split? */
static bool is_product(const fast_assembly *b, int i, bool dense)
{
    const fast_node *node = &b->graph->nodes[i];
    const bool conv = i < b->graph->node_count && node->op == FAST_OP_CONV && node->groups == 1;

    return fast__assembly_follows(b, i, i - 1) && node->weight[FAST_W_GAIN] < 0 &&
           fast__assembly_maps(b, i) && (conv || (dense && node->op == FAST_OP_DENSE));
}

static bool is_end(const fast_graph *graph, int i)
{
    return i == graph->node_count - 1 || fast__split_can_cut(graph, i);
}

/* Return the end of what follows the pair, whose last layer is B; 0: it reads what is split. */
static int find_rest(const fast_graph *graph, int a, int B)
{
    int e = B;

    for (; !is_end(graph, e); e++)
        for (int k = 0; k < graph->nodes[e + 1].input_count; k++)
            if (graph->nodes[e + 1].inputs[k] > a && graph->nodes[e + 1].inputs[k] < B)
                return 0;
    return e;
}

/* Find the layers of a run behind node a. */
static bool find_run(fast_assembly *b, int a, channels_run *run)
{
    const fast_graph *graph = b->graph;
    int i = a + 1;

    if (!is_product(b, i, false))
        return false;
    *run = (channels_run){ .channels = graph->nodes[i].shape[0] };
    if (run->channels < b->shards) {
        fast__assembly_unfit(b, i, "has %lld channels, and there are %lld shards",
                             (long long)run->channels, (long long)b->shards);
        return false;
    }
    while (continues(b, i + 1))
        i++;
    run->pair = is_product(b, i + 1, true);
    run->last = run->pair ? i + 1 : i;
    run->end = run->pair ? find_rest(graph, a, i + 1) : 0;
    if (run->end > 0)
        return true;
    run->pair = false;
    while (i > a && !is_end(graph, i))
        i--;
    run->last = run->end = i;
    if (i == a)
        fast__assembly_unfit(b, a + 1, "is in a block of which it is not the first of two layers");
    return i > a;
}

static int channels_find(fast_assembly *b, int a)
{
    channels_run run;

    return find_run(b, a, &run) ? run.end : 0;
}

/* Append node i of the run: its slice of the channels, or with `inputs` all outputs of its slice of
 * the inputs. */
static void add_part(fast_assembly *b, fast_split_section *section, int i, int64_t channels,
                     bool inputs)
{
    const fast_node *whole = &b->graph->nodes[i];
    const int64_t first = b->shard * channels / b->shards,
                  own = (b->shard + 1) * channels / b->shards - first;
    fast_split_slice slices[FAST_WEIGHTS_MAX];

    for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
        slices[w] = (fast_split_slice){ .split = true };
    if (inputs) {
        const bool dense = whole->op == FAST_OP_DENSE;
        const int64_t unit = dense ? b->graph->nodes[whole->inputs[0]].count / channels : 1;

        slices[FAST_W_WEIGHT] = (fast_split_slice){ .split = true, .axis = 1, .unit = unit };
        slices[FAST_W_BIAS] = (fast_split_slice){ .absent = b->shard > 0 };
    }
    fast_node *node = fast__assembly_add(b, section, i, slices);
    if (inputs)
        return;
    node->columns[0] = node->op == FAST_OP_DROPOUT ? node->count / channels * first : 0;
    node->shape[0] = node->shape[0] / channels * own;
    node->count = node->count / channels * own;
}

/* Make a node a vector of `count` elements. */
static void set_vector(fast_node *node, int64_t count)
{
    node->rank = 1;
    node->shape[0] = node->count = count;
    node->shape[1] = node->shape[2] = 0;
}

/* Append a vector of the elements of node `in` of the section; return its number. */
static int add_vector(fast_assembly *b, fast_split_section *section, int in)
{
    fast_node *node = fast__assembly_insert(b, section, FAST_OP_FLATTEN, in, -1);

    set_vector(node, node->count);
    return section->graph.node_count - 1;
}

/* Let node a stay at the shard behind the section: shard 0 passes its gradient on. */
static void retain_input(fast_assembly *b, fast_split_section *section, int a, int last)
{
    const int64_t count = b->graph->nodes[a].count;
    const int y = add_vector(b, section, b->index[last]);
    int x = 0;

    if (b->shard > 0) {
        (void)fast__assembly_insert(b, section, FAST_OP_DETACH, x, -1);
        x = section->graph.node_count - 1;
    }
    x = add_vector(b, section, x);
    fast_node *both = fast__assembly_insert(b, section, FAST_OP_CONCAT, y, -1);
    both->inputs[both->input_count++] = x;
    set_vector(both, both->count + count);
    section->retained = count;
    section->leave.inner = both->count - count;
}

/* Append node i of the stage as the elements of the section's inputs from `first` on. */
static void take_part(fast_assembly *b, fast_split_section *section, int i, int64_t first)
{
    const fast_node *whole = &b->graph->nodes[i];
    fast_node *node = fast__assembly_insert(b, section, FAST_OP_PART, 0, i);

    set_vector(node, whole->count);
    node->columns[0] = first;
    if (whole->rank == 1)
        return;
    node = fast__assembly_insert(b, section, FAST_OP_RESHAPE, b->index[i], i);
    node->custom = fast__element_operator(FAST_OP_RESHAPE);
    node->rank = whole->rank;
    for (int d = 0; d < whole->rank; d++)
        node->shape[d] = whole->shape[d];
}

/* The sections behind the sum: a has stayed while it was made. */
static void make_rest(fast_assembly *b, int a, const channels_run *run)
{
    const int64_t y = b->graph->nodes[run->last].count, x = b->graph->nodes[a].count;
    fast_split_section *section = fast__assembly_begin(b, run->last);

    (void)fast__assembly_insert(b, section, FAST_OP_ADD, 0, -1);
    fast__assembly_end(b, section, run->last);

    section = fast__assembly_begin(b, run->last);
    section->enter.inner = y;
    take_part(b, section, run->last, 0);
    take_part(b, section, a, y);
    set_vector(section->graph.nodes, y + x);
    for (int i = run->last + 1; i <= run->end; i++)
        (void)fast__assembly_add(b, section, i, NULL);
    fast__assembly_end(b, section, run->end);
}

static void channels_make(fast_assembly *b, int a, int e)
{
    channels_run run = { .end = e };
    const bool found = find_run(b, a, &run);
    fast_split_section *section = fast__assembly_begin(b, a);

    FAST_ASSERT(found && run.end == e);
    for (int i = a + 1; i <= run.last; i++)
        add_part(b, section, i, run.channels, run.pair && i == run.last);
    section->enter.backward = FAST_RESHARD_SUM;
    section->leave.forward = FAST_RESHARD_SUM;
    if (!run.pair)
        section->leave = (fast_reshard){ .forward = FAST_RESHARD_GATHER,
                                         .backward = FAST_RESHARD_SLICE,
                                         .dim = run.channels,
                                         .inner = b->graph->nodes[run.last].count / run.channels };
    if (run.end > run.last)
        retain_input(b, section, a, run.last);
    fast__assembly_end(b, section, run.last);
    if (run.end > run.last)
        make_rest(b, a, &run);
}

const fast_split_kind fast__split_channels = {
    .name = "channels",
    .help =
        "convolutions by channels: in pairs by outputs and by inputs, or gathered; ResNet blocks",
    .needs = "a convolution of one group",
    .find = channels_find,
    .make = channels_make,
};
