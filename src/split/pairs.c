/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards of a stage: find the pairs, and make the graphs of the sections between sums.
 *
 * A pair is a range of nodes after a cut,
 *
 *     a | prefix ... | dense A | activation ... | dense B | add with a |     e
 *
 * with a cut possible behind e. The prefix (norms, activations) is computed by every shard from the
 * same input, so of its parameters each shard has a part of the gradient. A is split by rows, B by
 * columns, W [out][in]:
 *
 *     A, shard t of T   rows    [t out / T, (t + 1) out / T)     and the same part of the bias
 *     B, shard t of T   columns [t in / T, (t + 1) in / T)       bias, and the residual: shard 0
 *
 * Attention is a pair by itself, A its product for queries, keys and values, B that of its output:
 *
 *     in_proj   of each third the rows of the shard's heads       out_proj   their columns
 *
 * Everything between pairs is a section of its own. Where a pair ends the network, a section with
 * one node that copies its input has the loss, which needs the sum.
 */
#include "split/pairs.h"

#include "base/memory.h"
#include "tensor/vector.h"

#include <string.h>

/* Role of a node in a shard. */
typedef enum shard_role {
    ROLE_WHOLE,   /* computed by every shard, from the whole input */
    ROLE_PREFIX,  /* the same, and each has a part of the gradient of its parameters */
    ROLE_ROWS,    /* dense A */
    ROLE_MIDDLE,  /* an activation of the outputs of A that the shard has */
    ROLE_COLUMNS, /* dense B */
    ROLE_HEADS,   /* attention, of which the shard has some heads: a pair by itself */
    ROLE_SUMMAND, /* dropout of the output of B: the same mask for each summand */
    ROLE_RESIDUAL /* the sum with the input of the pair, in shard 0 */
} shard_role;

/* A shard under construction. */
typedef struct shard_build {
    const fast_graph *graph; /* of the stage */
    int64_t params_offset;   /* of the stage in the whole model */
    int64_t shards, shard;   /* T and t */
    shard_role *role;        /* by node of the stage */
    fast_split_shard *out;   /* the result so far */
    int64_t node_count;      /* nodes written */
    int64_t segment_count;   /* parameters' segments written */
    fast_segment *state;     /* memory of the state's segments */
    int64_t state_count;     /* segments of the state written */
} shard_build;

void fast__split_map_scatter(const fast_split_map *map, const float *whole, float *part)
{
    for (int64_t i = 0; i < map->count; i++) {
        const fast_split_piece *p = &map->pieces[i];

        for (int64_t r = 0; r < p->rows; r++)
            fast__vector_copy(p->columns, whole + p->whole + r * p->stride,
                              part + p->part + r * p->columns);
    }
}

void fast__split_map_gather(const fast_split_map *map, const float *part, float *whole)
{
    for (int64_t i = 0; i < map->count; i++) {
        const fast_split_piece *p = &map->pieces[i];

        for (int64_t r = 0; r < p->rows; r++)
            fast__vector_copy(p->columns, part + p->part + r * p->columns,
                              whole + p->whole + r * p->stride);
    }
}

/* Is it an activation of single elements? */
static bool is_activation(fast_op op)
{
    return op == FAST_OP_RELU || op == FAST_OP_LEAKY_RELU || op == FAST_OP_TANH ||
           op == FAST_OP_SIGMOID || op == FAST_OP_GELU;
}

/* Is node i a dense layer on node `in` that can be split? */
static bool is_dense(const fast_graph *graph, int i, int in)
{
    const fast_node *node = &graph->nodes[i];

    return i < graph->node_count && node->op == FAST_OP_DENSE && node->inputs[0] == in &&
           node->weight[FAST_W_GAIN] < 0;
}

/* Does a node have one input, node `in`? */
static bool follows(const fast_graph *graph, int i, int in)
{
    return i < graph->node_count && graph->nodes[i].input_count == 1 &&
           graph->nodes[i].inputs[0] == in;
}

/* Find the last product of a pair whose first one reads node i: a dense layer behind another, or
 * attention, which is both; 0: there is no pair. */
static int find_second(const shard_build *b, int i)
{
    const fast_graph *graph = b->graph;
    const int first = i + 1;

    if (follows(graph, first, i) && graph->nodes[first].op == FAST_OP_ATTENTION)
        return graph->nodes[first].heads % b->shards == 0 ? first : 0;
    if (!is_dense(graph, first, i) || fast__dense_shape(graph, first).outputs % b->shards != 0)
        return 0;
    for (i = first; follows(graph, i + 1, i) && is_activation(graph->nodes[i + 1].op);)
        i++;
    return is_dense(graph, i + 1, i) ? i + 1 : 0;
}

/* Find a pair that begins after node a; returns its last node, and sets the roles; 0: there is no
 * pair. */
static int find_pair(const shard_build *b, int a)
{
    const fast_graph *graph = b->graph;
    int i = a;

    while (follows(graph, i + 1, i) &&
           (is_activation(graph->nodes[i + 1].op) || graph->nodes[i + 1].op == FAST_OP_LAYER_NORM ||
            graph->nodes[i + 1].op == FAST_OP_FLATTEN))
        i++;
    const int first = i + 1, second = find_second(b, i);
    int end = second;
    if (second == 0)
        return 0;
    if (follows(graph, end + 1, end) && graph->nodes[end + 1].op == FAST_OP_DROPOUT)
        end++;
    if (end + 1 < graph->node_count && graph->nodes[end + 1].op == FAST_OP_ADD &&
        graph->nodes[end + 1].input_count == 2) {
        const int *in = graph->nodes[end + 1].inputs;

        if ((in[0] == a && in[1] == end) || (in[0] == end && in[1] == a))
            end++;
    }
    if (end < graph->node_count - 1 && !fast__split_can_cut(graph, end))
        return 0;
    for (int k = a + 1; k <= end; k++)
        b->role[k] = k < first                                 ? ROLE_PREFIX
                     : graph->nodes[k].op == FAST_OP_ATTENTION ? ROLE_HEADS
                     : k == first                              ? ROLE_ROWS
                     : k < second                              ? ROLE_MIDDLE
                     : k == second                             ? ROLE_COLUMNS
                     : graph->nodes[k].op == FAST_OP_DROPOUT   ? ROLE_SUMMAND
                                                               : ROLE_RESIDUAL;
    return end;
}

/* The slice of a segment that the shard has, as a piece of the whole vector; false: it has none. */
static bool slice(const shard_build *b, const fast_segment *s, shard_role role, int which,
                  fast_segment *out, fast_split_piece *piece)
{
    const int64_t T = b->shards, t = b->shard;
    const bool output = role == ROLE_COLUMNS || (role == ROLE_HEADS && which >= FAST_W_WEIGHT2);
    const bool bias = which == FAST_W_BIAS || which == FAST_W_BIAS2;

    *out = *s;
    *piece = (fast_split_piece){ .whole = b->params_offset + s->offset, .rows = 1 };
    if (output && bias && t > 0)
        return false;
    if (role == ROLE_ROWS) {
        out->shape[0] = s->shape[0] / T;
        out->count = s->count / T;
        piece->whole += t * out->count;
    } else if (role == ROLE_HEADS && !output) { /* of queries, keys and values each */
        out->shape[0] = s->shape[0] / T;
        out->count = s->count / T;
        piece->rows = 3;
        piece->stride = s->count / 3;
        piece->whole += t * out->count / 3;
    } else if (output && !bias) {
        out->shape[1] = s->shape[1] / T;
        out->count = s->count / T;
        piece->rows = s->shape[0];
        piece->stride = s->shape[1];
        piece->whole += t * out->shape[1];
    }
    piece->columns = out->count / piece->rows;
    return true;
}

/* Copy the parameters of a node to the section: layouts, pieces, and what is partial. */
static void copy_params(shard_build *b, fast_split_section *section, int i, fast_node *node)
{
    fast_split_shard *shard = b->out;
    fast_layout *layout = &section->graph.params;

    for (int64_t k = 0; k < b->graph->params.segment_count; k++) {
        const fast_segment *s = &b->graph->params.segments[k];
        fast_segment *out = &shard->segments[b->segment_count];
        fast_split_piece *piece = &shard->map.pieces[b->segment_count];
        int which = 0;

        if (s->layer != i)
            continue;
        while (b->graph->nodes[i].weight[which] != k)
            which++;
        FAST_ASSERT(which < FAST_WEIGHTS_MAX);
        node->weight[which] = -1;
        if (!slice(b, s, b->role[i], which, out, piece))
            continue;
        node->weight[which] = layout->segment_count++;
        out->layer = section->graph.node_count;
        out->offset = layout->count;
        piece->part = section->params_offset + layout->count;
        if (b->role[i] == ROLE_PREFIX)
            shard->partial[shard->partial_count++] = (fast_split_range){ piece->part, out->count };
        layout->count += out->count;
        b->segment_count++;
    }
}

/* Copy the state of a node to the section. */
static void copy_state(shard_build *b, fast_split_section *section, int i, fast_node *node)
{
    fast_layout *layout = &section->graph.state;

    for (int k = 0; k < 2; k++) {
        const int64_t index = b->graph->nodes[i].state[k];

        if (index < 0)
            continue;
        fast_segment *out = &b->state[b->state_count++];
        *out = b->graph->state.segments[index];
        out->layer = section->graph.node_count;
        out->offset = layout->count;
        node->state[k] = layout->segment_count++;
        layout->count += out->count;
    }
}

/* Start a section whose input is node a of the stage. */
static fast_split_section *begin_section(shard_build *b, int a)
{
    fast_split_shard *shard = b->out;
    fast_split_section *section = &shard->sections[shard->section_count++];
    fast_graph *graph = &section->graph;
    fast_node *input = &shard->nodes[b->node_count++];

    *graph = *b->graph;
    graph->nodes = input;
    graph->node_count = 1;
    graph->params = (fast_layout){ .segments = shard->segments + b->segment_count };
    graph->state = (fast_layout){ .segments = b->state + b->state_count };
    graph->initial = NULL;
    graph->input_grad = a > 0 || b->graph->input_grad;
    graph->tokens = a == 0 && b->graph->tokens;
    section->params_offset = shard->params.count;
    section->state_offset = shard->state.count;
    *input = b->graph->nodes[a];
    input->op = FAST_OP_INPUT;
    input->input_count = 0;
    input->global = fast__node_number(b->graph, a) + 1;
    memset(input->weight, -1, sizeof input->weight);
    memset(input->state, -1, sizeof input->state);
    return section;
}

/* Append node i of the stage to a section that begins with node a. */
static void add_node(shard_build *b, fast_split_section *section, int i, int a)
{
    fast_node *node = &b->out->nodes[b->node_count++];
    const shard_role role = b->role[i];

    *node = b->graph->nodes[i];
    node->global = fast__node_number(b->graph, i) + 1;
    for (int k = 0; k < node->input_count; k++)
        node->inputs[k] -= a;
    if (role == ROLE_ROWS || role == ROLE_MIDDLE) {
        node->shape[node->rank - 1] /= b->shards;
        node->count /= b->shards;
    }
    if (role == ROLE_HEADS)
        node->heads /= b->shards;
    if (role == ROLE_RESIDUAL && b->shard > 0) {
        node->input_count = 1;
        node->inputs[0] = i - 1 - a;
    }
    copy_params(b, section, i, node);
    copy_state(b, section, i, node);
    section->graph.node_count++;
}

/* End a section: its loss is the stage's, or elsewhere. */
static void end_section(shard_build *b, fast_split_section *section, bool summed, bool last)
{
    fast_graph *graph = &section->graph;

    section->summed = summed;
    b->out->params.count += graph->params.count;
    b->out->state.count += graph->state.count;
    if (last && !summed)
        return;
    graph->loss = FAST_LOSS_MSE;
    graph->label_smoothing = 0;
    graph->class_weights = NULL;
    graph->positions = 1;
    graph->outputs = graph->nodes[graph->node_count - 1].count;
}

/* The section of nodes a + 1 .. e. */
static void make_section(shard_build *b, int a, int e, bool summed)
{
    fast_split_section *section = begin_section(b, a);

    for (int i = a + 1; i <= e; i++)
        add_node(b, section, i, a);
    end_section(b, section, summed, e == b->graph->node_count - 1);
}

/* The section that has the loss behind a pair: it copies its input. */
static void make_copy(shard_build *b)
{
    const int last = b->graph->node_count - 1;
    fast_split_section *section = begin_section(b, last);
    fast_node *node = &b->out->nodes[b->node_count++];

    *node = section->graph.nodes[0];
    node->op = FAST_OP_ADD;
    node->input_count = 1;
    node->inputs[0] = 0;
    section->graph.node_count++;
    end_section(b, section, false, true);
}

/* Walk through the stage from cut to cut. */
static int64_t make_sections(shard_build *b)
{
    const int last = b->graph->node_count - 1;
    int from = 0, at = 0; /* of the whole section under way; of a possible pair */
    int64_t pairs = 0;

    while (at < last) {
        const int end =
            b->shards > 1 && (at == 0 || fast__split_can_cut(b->graph, at)) ? find_pair(b, at) : 0;

        if (end == 0) {
            at++;
            continue;
        }
        if (at > from)
            make_section(b, from, at, false);
        make_section(b, at, end, true);
        from = at = end;
        pairs++;
    }
    if (from < last)
        make_section(b, from, last, false);
    else if (pairs > 0)
        make_copy(b);
    return pairs;
}

/* Allocate a shard: no more sections, nodes and segments than these. */
static fast_err allocate(shard_build *b)
{
    const fast_graph *graph = b->graph;
    const int64_t nodes = 2 * (int64_t)graph->node_count + 2, params = graph->params.segment_count;
    fast_split_shard *out = b->out;

    FAST_TRY(fast__alloc("roles of nodes", nodes, sizeof *b->role, &b->role));
    FAST_TRY(fast__alloc("sections", nodes, sizeof *out->sections, &out->sections));
    FAST_TRY(fast__alloc("nodes of a shard", nodes, sizeof *out->nodes, &out->nodes));
    FAST_TRY(fast__alloc("tensors of a shard", params + graph->state.segment_count + 1,
                         sizeof *out->segments, &out->segments));
    FAST_TRY(fast__alloc("partial tensors", params + 1, sizeof *out->partial, &out->partial));
    b->state = out->segments + params;
    return fast__alloc("pieces of a shard", params + 1, sizeof *out->map.pieces, &out->map.pieces);
}

/* Layouts of the shard: the sections' segments, one after the other. */
static fast_err finish(shard_build *b)
{
    fast_split_shard *out = b->out;

    out->map.count = b->segment_count;
    for (int64_t k = 0; k < out->section_count; k++)
        FAST_TRY(fast__graph_check(&out->sections[k].graph));
    return FAST_OK;
}

/* The same segments with offsets in the shard's vectors: for rules and codecs. */
static fast_err make_layouts(fast_split_shard *shard, int64_t segments, int64_t states)
{
    fast_segment *all = NULL;
    int64_t n = 0, m = 0;

    FAST_TRY(fast__alloc("tensors of a shard", segments + states + 1, sizeof *all, &all));
    shard->params.segments = all;
    shard->state.segments = all + segments;
    for (int64_t k = 0; k < shard->section_count; k++) {
        const fast_split_section *section = &shard->sections[k];

        for (int64_t i = 0; i < section->graph.params.segment_count; i++) {
            all[n] = section->graph.params.segments[i];
            all[n++].offset += section->params_offset;
        }
        for (int64_t i = 0; i < section->graph.state.segment_count; i++) {
            all[segments + m] = section->graph.state.segments[i];
            all[segments + m++].offset += section->state_offset;
        }
    }
    shard->params.segment_count = n;
    shard->state.segment_count = m;
    return FAST_OK;
}

fast_err fast__split_shard_new(const fast_split_stage *stage, int64_t shards, int64_t shard,
                               fast_split_shard **out)
{
    shard_build b = { .graph = &stage->graph,
                      .params_offset = stage->params_offset,
                      .shards = shards,
                      .shard = shard };
    fast_err err;

    FAST_ASSERT(shards >= 1 && shard >= 0 && shard < shards);
    FAST_TRY(fast__alloc("a shard", 1, sizeof *b.out, &b.out));
    b.out->state_offset = stage->state_offset;
    err = allocate(&b);
    if (!err) {
        b.out->pair_count = make_sections(&b);
        err = finish(&b);
    }
    if (!err)
        err = make_layouts(b.out, b.segment_count, b.state_count);
    fast__free(b.role);
    if (err) {
        fast__split_shard_free(b.out);
        return err;
    }
    *out = b.out;
    return FAST_OK;
}

void fast__split_shard_free(fast_split_shard *shard)
{
    if (!shard)
        return;
    fast__free(shard->sections);
    fast__free(shard->nodes);
    fast__free(shard->segments);
    fast__free(shard->partial);
    fast__free(shard->map.pieces);
    fast__free((void *)(uintptr_t)shard->params.segments);
    fast__free(shard);
}
