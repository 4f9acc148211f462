/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of layers whose sequences are in slices: which layers belong to one, and its sections.
 *
 *     section k        [own slice]    main | retained       leaves for the crossing; retained stays
 *     section k + 1    the crossing
 *     section k + 2    [own slice]    main | retained       came from the crossing, and stayed
 *
 * A value is retained over a crossing if it was there before and a node behind the crossing reads
 * it. Masks of dropout are those of the whole sequence, from the first own element on.
 */
#include "split/positions.h"

#include "engine/class_range.h"
#include "split/kinds.h"

enum { RETAINED_MAX = 3 };

/* Values that stay at the shard over a crossing. */
typedef struct sequence_retained {
    int nodes[RETAINED_MAX]; /* in their order */
    int count;               /* length of nodes */
} sequence_retained;

int64_t fast__sequence_positions(const fast_assembly *b, int i)
{
    return b->graph->nodes[i].shape[0];
}

int64_t fast__sequence_first(const fast_assembly *b, int i)
{
    return b->shard * fast__sequence_positions(b, i) / b->shards;
}

int64_t fast__sequence_own(const fast_assembly *b, int i)
{
    return (b->shard + 1) * fast__sequence_positions(b, i) / b->shards - fast__sequence_first(b, i);
}

void fast__sequence_shape(fast_node *node, int64_t rows, int64_t columns)
{
    node->rank = 2;
    node->shape[0] = rows;
    node->shape[1] = columns;
    node->shape[2] = 0;
    node->count = rows * columns;
}

/* Change a node to a vector. */
static void set_vector(fast_node *node, int64_t count)
{
    node->rank = 1;
    node->shape[0] = node->count = count;
    node->shape[1] = node->shape[2] = 0;
}

fast_reshard fast__sequence_layout(const fast_assembly *b, int i, int64_t columns,
                                   fast_reshard_kind forward, fast_reshard_kind backward)
{
    return (fast_reshard){ .forward = forward,
                           .backward = backward,
                           .dim = fast__sequence_positions(b, i),
                           .inner = columns };
}

void fast__sequence_product(fast_assembly *b, fast_split_section *section, int i, int in,
                            bool second)
{
    const int input = b->graph->nodes[i].inputs[0], was = b->index[input];
    const int64_t rows = fast__sequence_own(b, i), columns = b->graph->nodes[i].shape[1];
    fast_split_slice slices[FAST_WEIGHTS_MAX];

    for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
        slices[w] =
            (fast_split_slice){ .partial = true, .absent = second != (w >= FAST_W_WEIGHT2) };
    b->index[input] = in;
    fast_node *node = fast__assembly_add(b, section, i, slices);
    b->index[input] = was;
    node->op = FAST_OP_DENSE;
    node->heads = 0;
    for (int w = FAST_W_WEIGHT; second && w <= FAST_W_BIAS; w++) {
        node->weight[w] = node->weight[w + FAST_W_WEIGHT2];
        node->weight[w + FAST_W_WEIGHT2] = -1;
    }
    fast__sequence_shape(node, rows, second ? columns : 3 * columns);
}

/* Does an operator compute each position by itself? */
static bool is_single(const fast_node *node)
{
    switch (node->op) {
    case FAST_OP_RELU:
    case FAST_OP_LEAKY_RELU:
    case FAST_OP_TANH:
    case FAST_OP_SIGMOID:
    case FAST_OP_GELU:
    case FAST_OP_LAYER_NORM:
    case FAST_OP_DROPOUT:
    case FAST_OP_ADD:
    case FAST_OP_EMBED:
        return true;
    case FAST_OP_DENSE:
        return node->weight[FAST_W_GAIN] < 0;
    default:
        return false;
    }
}

/* May node i be computed on slices of P positions? */
static bool is_sliced(const fast_assembly *b, int i, int64_t P)
{
    const fast_node *node = &b->graph->nodes[i];

    return is_single(node) && node->rank == 2 && node->shape[0] == P && fast__assembly_maps(b, i);
}

/* Return the values before node `first` that are read behind node `last`, up to node e; -1 if they
 * are too many. */
static int find_retained(const fast_assembly *b, int a, int first, int last, int e,
                         sequence_retained *out)
{
    const fast_graph *graph = b->graph;

    out->count = 0;
    for (int v = a; v < first; v++) {
        bool read = false;

        for (int i = last + 1; i <= e && !read; i++)
            for (int k = 0; k < graph->nodes[i].input_count; k++)
                read = read || graph->nodes[i].inputs[k] == v;
        if (read && out->count == RETAINED_MAX)
            return -1;
        if (read)
            out->nodes[out->count++] = v;
    }
    return out->count;
}

/* Is a node of a crossing, but for the last one, read behind it? */
static bool is_read_behind(const fast_graph *graph, int first, int last)
{
    for (int i = last + 1; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            if (graph->nodes[i].inputs[k] >= first && graph->nodes[i].inputs[k] < last)
                return true;
    return false;
}

/* Return the last node of the crossing that begins with node i; 0: none does. */
static int crossing_at(fast_assembly *b, const fast_sequence_way *way, int i, int64_t P)
{
    const fast_node *node = &b->graph->nodes[i];

    if (node->rank != 2 || node->shape[0] != P || !fast__assembly_maps(b, i))
        return 0;
    const int last = way->find(b, i);
    return last > 0 && !is_read_behind(b->graph, i, last) ? last : 0;
}

int fast__sequence_find(fast_assembly *b, const fast_sequence_way *way, int a)
{
    const fast_graph *graph = b->graph;
    const fast_node *input = &graph->nodes[a];
    const int64_t P = input->shape[0];
    int end = 0, crossings = 0, first = 0, last = 0;
    sequence_retained retained;

    if (input->rank > 2 || (input->rank == 1 && !(a == 0 && graph->tokens)) || P < b->shards)
        return 0;
    for (int i = a + 1; i < graph->node_count; i++) {
        const int crossing = crossing_at(b, way, i, P);

        if (crossing == 0 && !is_sliced(b, i, P))
            break;
        if (crossing > 0) {
            first = i;
            i = last = crossing;
            crossings++;
        }
        if (crossings > 0 && find_retained(b, a, first, last, i, &retained) < 0)
            break;
        if (crossings > 0 && (i == graph->node_count - 1 || fast__split_can_cut(graph, i)))
            end = i;
    }
    return end;
}

/* The slices of the tensors of a layer on own positions: of an embedding's positions the own rows,
 * and of all other tensors a part of the gradient. */
static void add_sliced(fast_assembly *b, fast_split_section *section, int i)
{
    const fast_node *from = &b->graph->nodes[i];
    fast_split_slice slices[FAST_WEIGHTS_MAX];

    for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
        slices[w] = (fast_split_slice){ .partial = true };
    if (from->op == FAST_OP_EMBED)
        slices[FAST_W_BIAS] = (fast_split_slice){ .split = true };
    fast_node *node = fast__assembly_add(b, section, i, slices);
    fast__sequence_shape(node, fast__sequence_own(b, i), from->shape[1]);
    if (from->op == FAST_OP_DROPOUT)
        node->columns[0] = fast__sequence_first(b, i) * from->shape[1];
}

/* Give the section its inputs: the own slice of node `input`, and what has stayed. */
static void add_inputs(fast_assembly *b, fast_split_section *section, int input,
                       const sequence_retained *stayed)
{
    fast_node *x = section->graph.nodes;
    int64_t first = 0;

    if (b->graph->nodes[input].rank == 1) /* tokens */
        set_vector(x, fast__sequence_own(b, input));
    else
        fast__sequence_shape(x, fast__sequence_own(b, input), b->graph->nodes[input].shape[1]);
    for (int k = -1; stayed->count > 0 && k < stayed->count; k++) {
        const int i = k < 0 ? input : stayed->nodes[k];
        fast_node *part = fast__assembly_insert(b, section, FAST_OP_PART, 0, i);

        fast__sequence_shape(part, fast__sequence_own(b, i), b->graph->nodes[i].shape[1]);
        part->columns[0] = first;
        first += part->count;
    }
    if (stayed->count > 0)
        set_vector(x, first);
}

/* End a section before a crossing: what stays follows its last node in one vector. */
static void add_outputs(fast_assembly *b, fast_split_section *section,
                        const sequence_retained *stays)
{
    const int main = section->graph.node_count - 1;
    int flat[RETAINED_MAX + 1] = { main };

    if (stays->count == 0)
        return;
    for (int k = 0; k <= stays->count; k++) {
        fast_node *node = fast__assembly_insert(b, section, FAST_OP_FLATTEN,
                                                k == 0 ? main : b->index[stays->nodes[k - 1]], -1);

        set_vector(node, node->count);
        section->retained += k > 0 ? node->count : 0;
        flat[k] = section->graph.node_count - 1;
    }
    fast_node *all = fast__assembly_insert(b, section, FAST_OP_CONCAT, flat[0], -1);
    for (int k = 1; k <= stays->count; k++)
        all->inputs[all->input_count++] = flat[k];
    set_vector(all, all->count + section->retained);
}

/* Make node i of the stage the section's last: a copy of it, unless it is. */
static void add_main(fast_assembly *b, fast_split_section *section, int i)
{
    const int at = b->index[i];

    if (at != section->graph.node_count - 1 || at == 0)
        (void)fast__assembly_insert(b, section, FAST_OP_ADD, at, -1);
}

/* Do figures of the own positions give the loss of the last node? */
static bool has_figures(const fast_assembly *b, int e)
{
    const fast_graph *graph = b->graph;

    return e == graph->node_count - 1 && graph->loss == FAST_LOSS_CROSS_ENTROPY &&
           graph->loss_use == FAST_LOSS_TRAINED && !graph->class_weights &&
           graph->positions == fast__sequence_positions(b, e);
}

/* End the run: every shard has the whole value behind it, or the loss. */
static void end_run(fast_assembly *b, fast_split_section *section, int e)
{
    const int64_t P = fast__sequence_positions(b, e), own = fast__sequence_own(b, e);
    const bool figures = has_figures(b, e);
    fast_node *node = NULL;

    if (figures) {
        node = fast__assembly_insert(b, section, FAST_OP_CLASS_FIGURES, b->index[e], -1);
        fast__sequence_shape(node, own, FAST_FIGURES);
        section->first_row = fast__sequence_first(b, e);
        section->rows = own;
    } else {
        add_main(b, section, e);
    }
    section->leave =
        fast__sequence_layout(b, e, figures ? FAST_FIGURES : b->graph->nodes[e].shape[1],
                              FAST_RESHARD_GATHER, FAST_RESHARD_SLICE);
    fast__assembly_end(b, section, e);
    if (!figures)
        return;
    section = fast__assembly_begin(b, e);
    fast__sequence_shape(section->graph.nodes, P, FAST_FIGURES);
    node = fast__assembly_insert(b, section, FAST_OP_ADD, 0, -1);
    node->columns[1] = b->graph->outputs;
    section->graph.loss = FAST_LOSS_FIGURES;
    section->graph.positions = P;
    section->graph.outputs = FAST_FIGURES;
    fast__assembly_end(b, section, e);
}

/* Append the section of nodes behind a crossing, up to the next one. */
static fast_split_section *make_slice(fast_assembly *b, const fast_sequence_way *way, int input,
                                      int to, bool crossed, const sequence_retained *stayed)
{
    fast_split_section *section = fast__assembly_begin(b, input);

    add_inputs(b, section, input, stayed);
    if (!crossed)
        section->enter = fast__sequence_layout(
            b, input, b->graph->nodes[input].rank == 2 ? b->graph->nodes[input].shape[1] : 1,
            FAST_RESHARD_SLICE, FAST_RESHARD_GATHER);
    else if (way->behind)
        way->behind(b, section, input);
    for (int i = input + 1; i <= to; i++)
        add_sliced(b, section, i);
    return section;
}

void fast__sequence_make(fast_assembly *b, const fast_sequence_way *way, int a, int e)
{
    sequence_retained stayed = { .count = 0 };
    const int64_t P = fast__sequence_positions(b, a);
    int input = a;

    for (int i = a + 1; i <= e; i++) {
        const int last = crossing_at(b, way, i, P);
        sequence_retained stays;

        if (last == 0)
            continue;
        fast_split_section *section = make_slice(b, way, input, i - 1, input > a, &stayed);
        (void)find_retained(b, a, i, last, e, &stays);
        if (way->before) {
            way->before(b, section, i);
        } else {
            const int in = b->graph->nodes[i].inputs[0];

            add_main(b, section, in);
            section->leave = fast__sequence_layout(b, in, b->graph->nodes[in].shape[1],
                                                   FAST_RESHARD_GATHER, FAST_RESHARD_SCATTER);
        }
        add_outputs(b, section, &stays);
        fast__assembly_end(b, section, i - 1);
        way->cross(b, i, last);
        stayed = stays;
        input = i = last;
    }
    end_run(b, make_slice(b, way, input, e, input > a, &stayed), e);
}
