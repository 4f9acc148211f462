/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind `spatial`: images by their rows, as arrays that are distributed over the shards (Coates
 * et al., "Deep learning with COTS HPC systems", 2013). Shard t of T has the rows [t R / T,
 * (t + 1) R / T) of each layer of R rows. Before a window that reaches beyond them it fetches the
 * rows around its own ones from their owners, its halo; backward the owners add up the gradients
 * that come of their rows:
 *
 *     a | own rows |  halo, conv, batch norm, relu, halo, pool ... |  e: gathered
 *
 *     rows of shard 0   0 1 2 3         + 4        of a 3x3 convolution with padding
 *     rows of shard 1         + 3   4 5 6 7
 *
 * Halos, and the moments of batch norm, which are those of all rows, are exchanged in the middle of
 * one section (engine/pass_parts.h), so that a run may contain residual blocks:
 *
 *     x --- halo, conv - bn - relu - halo, conv - bn --- add - relu
 *       \------------ own rows, or halo, conv - bn -----/
 *
 * T need not divide R. Past the ends of an image are zeros, as with padding; so a maximum is not
 * padded here. Windows that the own rows cover need no exchange: those of a pool of 2 by 2 where R
 * is a multiple of 2 T.
 *
 * The kind `redundant` exchanges nothing between the layers of a run: a shard fetches all rows that
 * its rows of the last layer depend on, and computes the rows of the layers between that another
 * shard computes as well. Each has the gradient of its own rows of the last layer, whose sum is the
 * whole one. Layers behind the first have no padding: its rows would be computed, not zero.
 *
 * Floats that a shard sends for a micro-batch of B samples: B C W (halo rows of its neighbours) for
 * each layer of C channels and W columns in front of a window, forward and backward; (T - 1) / T B
 * e forward; (T - 1) (2 C + 1) for a batch norm each way. A step ends with the sum of the
 * parameters' gradients; of layers with own weights at each place (local) a shard has those of its
 * rows alone.
 */
#include "split/kinds.h"

#include "split/stage.h"

/* Has node i a window over rows? */
static bool has_window(fast_op op)
{
    return op == FAST_OP_CONV || op == FAST_OP_LOCAL || op == FAST_OP_MAX_POOL ||
           op == FAST_OP_AVG_POOL;
}

static bool is_pointwise(fast_op op)
{
    return op == FAST_OP_RELU || op == FAST_OP_LEAKY_RELU || op == FAST_OP_TANH ||
           op == FAST_OP_SIGMOID || op == FAST_OP_GELU;
}

/* Return the rows of the node before that those of node i need. */
static fast_reshard_window window_of(const fast_graph *graph, int i)
{
    const fast_node *node = &graph->nodes[i];

    if (!has_window(node->op))
        return (fast_reshard_window){ .rows = node->shape[1], .stride = 1, .reach = 1 };
    const int64_t step = node->dilation[0] > 0 ? node->dilation[0] : 1;

    return (fast_reshard_window){ .rows = node->shape[1],
                                  .stride = node->stride[0] > 0 ? node->stride[0] : 1,
                                  .pad = node->pad[0],
                                  .reach = (node->kernel[0] - 1) * step + 1 };
}

/* Return the first input of node i. */
static int input_of(const fast_graph *graph, int i)
{
    return graph->nodes[i].inputs[0];
}

/* Return the rows of node i - 1 that those of node e need, through all nodes between them. */
static fast_reshard_window windows_of(const fast_graph *graph, int i, int e)
{
    fast_reshard_window all = { .rows = graph->nodes[e].shape[1], .stride = 1, .reach = 1 };

    for (int k = e; k >= i; k--) {
        const fast_reshard_window one = window_of(graph, k);

        all.reach = (all.reach - 1) * one.stride + one.reach;
        all.pad = all.pad * one.stride + one.pad;
        all.stride *= one.stride;
    }
    return all;
}

/* Return the change of layout of an image: rows are split. */
static fast_reshard rows_of(const fast_node *node, fast_reshard_kind forward,
                            fast_reshard_kind backward)
{
    return (fast_reshard){ .forward = forward,
                           .backward = backward,
                           .outer = node->shape[0],
                           .dim = node->shape[1],
                           .inner = node->shape[2] };
}

/* Does node i need rows that a shard does not own? Less than a stride of rows may be left over. */
static bool needs_halo(const fast_assembly *b, int i)
{
    const fast_node *before = &b->graph->nodes[input_of(b->graph, i)];
    fast_reshard how = rows_of(before, FAST_RESHARD_HALO, FAST_RESHARD_HALO_ADD);
    const fast_reshard_value value = { &how, FAST_RESHARD_HALO, 1, b->shards };

    if (!has_window(b->graph->nodes[i].op))
        return false;
    how.window = window_of(b->graph, i);
    for (int64_t t = 0; t < b->shards; t++) {
        const fast_reshard_box own = fast__reshard_before(&value, t),
                               need = fast__reshard_after(&value, t);

        if (own.first[0] != need.first[0] || own.end[0] < need.end[0] ||
            own.end[0] - need.end[0] >= how.window.stride)
            return true;
    }
    return false;
}

/* May a batch norm be split by rows? */
static bool fits_norm(fast_assembly *b, int i)
{
    const long long ghost = (long long)b->graph->nodes[i].ghost;

    if (b->kind == &fast__split_redundant)
        fast__assembly_unfit(b, i, "has statistics of rows that are computed once each");
    else if (ghost > 0)
        fast__assembly_unfit(b, i,
                             "has statistics of %lld samples each, and shards share those of "
                             "the whole batch",
                             ghost);
    else
        return true;
    return false;
}

/* May node i be split by rows? */
static bool fits(fast_assembly *b, int i)
{
    const fast_node *node = &b->graph->nodes[i];
    const bool mapped = fast__assembly_maps(b, i), norm = node->op == FAST_OP_BATCH_NORM;
    const bool joins = node->op == FAST_OP_ADD || node->op == FAST_OP_CONCAT;

    if (!mapped && ((node->weight[FAST_W_WEIGHT] >= 0 && !norm) ||
                    fast__layout_map_find(b->map, b->graph, i) >= 0))
        return false;
    if (node->rank != 3 || (!has_window(node->op) && !is_pointwise(node->op) && !norm && !joins) ||
        (norm && !fits_norm(b, i)))
        return false;
    if (node->op == FAST_OP_MAX_POOL && node->pad[0] > 0)
        fast__assembly_unfit(b, i, "has padding, which rows of zeros are not for a maximum");
    else if (node->shape[1] < b->shards)
        fast__assembly_unfit(b, i, "has %lld rows, and there are %lld shards",
                             (long long)node->shape[1], (long long)b->shards);
    else
        return true;
    return false;
}

/* May node i follow node a without an exchange: is nothing computed but rows of the image, one
 * after the other, with weights that all shards have? */
static bool fits_redundant(const fast_assembly *b, int a, int i)
{
    const fast_node *node = &b->graph->nodes[i];

    return node->op != FAST_OP_LOCAL && (i == a + 1 || node->pad[0] == 0) &&
           fast__assembly_follows(b, i, i - 1);
}

static int spatial_find(fast_assembly *b, int a)
{
    const bool once = b->kind == &fast__split_redundant;
    const fast_graph *graph = b->graph;
    const int last = graph->node_count - 1;
    int end = 0;

    if (a == last || graph->nodes[a].rank != 3 || graph->nodes[a].shape[1] < b->shards ||
        !fast__assembly_maps(b, a + 1))
        return 0;
    for (int i = a + 1; i <= last && fits(b, i); i++)
        if (once && !fits_redundant(b, a, i))
            break;
        else if (i == last || fast__split_can_cut(graph, i))
            end = i;
    return end;
}

/* Give a node of a section `rows` rows. */
static void set_rows(fast_node *node, int64_t rows)
{
    node->count = node->count / node->shape[1] * rows;
    node->shape[1] = rows;
}

/* Rows of a value of `rows` rows that the shard has. */
static int64_t own_rows(const fast_assembly *b, int64_t rows)
{
    return (b->shard + 1) * rows / b->shards - b->shard * rows / b->shards;
}

/* Start the section of a run behind node a: it enters with its own rows, or those of a window. */
static fast_split_section *begin_rows(fast_assembly *b, int a, const fast_reshard_window *window)
{
    fast_split_section *section = fast__assembly_begin(b, a);
    fast_node *input = section->graph.nodes;

    section->enter = rows_of(&b->graph->nodes[a], FAST_RESHARD_SLICE, FAST_RESHARD_GATHER);
    if (window)
        section->enter.window = *window;
    set_rows(input, window ? (own_rows(b, window->rows) - 1) * window->stride + window->reach
                           : own_rows(b, input->shape[1]));
    return section;
}

/* Append an exchange of the rows around those of node `in` of the stage; return its number. */
static int add_halo(fast_assembly *b, fast_split_section *section, int in,
                    fast_reshard_window window)
{
    fast_node *node = fast__assembly_insert(b, section, FAST_OP_EXCHANGE, b->index[in], -1);
    fast_reshard *how = fast__assembly_exchange(b, node);

    *how = rows_of(&b->graph->nodes[in], FAST_RESHARD_HALO, FAST_RESHARD_HALO_ADD);
    how->window = window;
    set_rows(node, (own_rows(b, window.rows) - 1) * window.stride + window.reach);
    return section->graph.node_count - 1;
}

/* Append node i of the stage with its own rows; `in` is its first input, or -1. */
static void add_rows(fast_assembly *b, fast_split_section *section, int i, int in)
{
    const fast_node *whole = &b->graph->nodes[i];
    const bool own = whole->op == FAST_OP_LOCAL && whole->groups == 0; /* weights of own rows */
    fast_split_slice slices[FAST_WEIGHTS_MAX];

    for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
        slices[w] = (fast_split_slice){ .split = own, .partial = !own };
    fast_node *node = fast__assembly_add(b, section, i, slices);
    if (in >= 0)
        node->inputs[0] = in;
    set_rows(node, own_rows(b, node->shape[1]));
    node->pad[0] = 0; /* rows of zeros have come with the halo */
    if (node->op == FAST_OP_LOCAL)
        node->columns[0] = b->shard * whole->shape[1] / b->shards;
    if (node->op == FAST_OP_BATCH_NORM)
        fast__assembly_share_moments(b, node);
}

/* Does only node a + 1 read node a, among those up to e? */
static bool is_read_once(const fast_graph *graph, int a, int e)
{
    for (int i = a + 2; i <= e; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            if (graph->nodes[i].inputs[k] == a)
                return false;
    return true;
}

/* Each shard has the whole batch, so that the rows around its own ones are no message. */
static void spatial_make(fast_assembly *b, int a, int e)
{
    const fast_graph *graph = b->graph;
    const fast_reshard_window first = window_of(graph, a + 1);
    const bool lent =
        a == 0 && !graph->input_grad && needs_halo(b, a + 1) && is_read_once(graph, a, e);
    fast_split_section *section = begin_rows(b, a, lent ? &first : NULL);

    for (int i = a + 1; i <= e; i++) {
        const bool halo = needs_halo(b, i) && !(lent && i == a + 1);

        add_rows(b, section, i,
                 halo ? add_halo(b, section, input_of(graph, i), window_of(graph, i)) : -1);
    }
    section->leave = rows_of(&graph->nodes[e], FAST_RESHARD_GATHER, FAST_RESHARD_SLICE);
    fast__assembly_end(b, section, e);
}

/* Start a run of redundant rows. Where the value before it has a gradient, its own rows are sliced
 * and gathered, and the others fetched. */
static fast_split_section *begin_redundant(fast_assembly *b, int a, fast_reshard_window window)
{
    if (a == 0 && !b->graph->input_grad)
        return begin_rows(b, a, &window);
    fast_split_section *section = begin_rows(b, a, NULL);
    b->index[a] = add_halo(b, section, a, window);
    return section;
}

static void redundant_make(fast_assembly *b, int a, int e)
{
    const fast_graph *graph = b->graph;
    const int64_t rows = own_rows(b, graph->nodes[e].shape[1]);
    fast_split_section *section = begin_redundant(b, a, windows_of(graph, a + 1, e));

    for (int i = a + 1; i <= e; i++) {
        const fast_reshard_window behind = windows_of(graph, i + 1, e);
        fast_split_slice slices[FAST_WEIGHTS_MAX];

        for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
            slices[w] = (fast_split_slice){ .partial = true };
        fast_node *node = fast__assembly_add(b, section, i, slices);
        set_rows(node, (rows - 1) * behind.stride + behind.reach);
        node->pad[0] = 0; /* rows of zeros have come with the first window */
    }
    section->leave = rows_of(&graph->nodes[e], FAST_RESHARD_GATHER, FAST_RESHARD_SLICE);
    fast__assembly_end(b, section, e);
}

const fast_split_kind fast__split_redundant = {
    .name = "redundant",
    .help = "images by rows: all rows that the last layer of a run depends on, fetched once",
    .needs = "convolutions or pools of images with enough rows",
    .find = spatial_find,
    .make = redundant_make,
};

const fast_split_kind fast__split_spatial = {
    .name = "spatial",
    .help = "images by rows: convolutions and pools fetch rows around the own ones",
    .needs = "convolutions or pools of images with enough rows",
    .find = spatial_find,
    .make = spatial_make,
};
