/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The assembly of a shard: walk through a stage from cut to cut, ask the kinds of split for runs,
 * and copy nodes with slices of their tensors into sections.
 *
 *     stage     0 | 1  2  3 | 4  5  6  7 | 8          cuts
 *     runs            none      a kind's   none
 *     sections    s0          s1, s2 ...    s3         s1 ...: as the kind makes them
 *
 * Where a run ends the network and changes the layout of the outputs, a section with one node that
 * copies its input has the loss, which needs them whole.
 *
 * A slice of a tensor is a piece of the whole vector: rows of elements with a stride,
 *
 *     rows [t n / T, (t + 1) n / T)       one row, n / T times what follows the dimension
 *     of each of g groups of rows         g rows
 *     columns of a matrix                 as many rows as the matrix has
 */
#include "split/assembly.h"

#include "base/memory.h"
#include "engine/pass_parts.h"
#include "split/kinds.h"
#include "tensor/vector.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NODES_MAX = 16 }; /* nodes, and sections, that a node of the stage becomes at most */

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
    fast__split_map_gather_range(map, 0, INT64_MAX, part, whole);
}

void fast__split_map_gather_range(const fast_split_map *map, int64_t offset, int64_t count,
                                  const float *part, float *whole)
{
    const int64_t end = count < INT64_MAX - offset ? offset + count : INT64_MAX;

    FAST_ASSERT(offset >= 0 && count >= 0);
    for (int64_t i = 0; i < map->count; i++) {
        const fast_split_piece *p = &map->pieces[i];

        for (int64_t r = 0; r < p->rows; r++) {
            const int64_t row = p->part + r * p->columns;
            const int64_t first = row > offset ? row : offset;
            const int64_t stop = row + p->columns < end ? row + p->columns : end;

            if (first < stop)
                fast__vector_copy(stop - first, part + first - offset,
                                  whole + p->whole + r * p->stride + first - row);
        }
    }
}

bool fast__assembly_maps(const fast_assembly *b, int node)
{
    const int i = fast__layout_map_find(b->map, b->graph, node);

    return i >= 0 && b->map->entries[i].kind == b->kind;
}

bool fast__assembly_follows(const fast_assembly *b, int i, int in)
{
    const fast_graph *graph = b->graph;

    return i < graph->node_count && graph->nodes[i].input_count == 1 &&
           graph->nodes[i].inputs[0] == in;
}

/* Write the name of the layer of a node, or its operator. */
static void name_layer(const fast_graph *graph, int node, char *text, size_t size)
{
    const int64_t k = graph->nodes[node].weight[0];
    const char *name = k >= 0 ? graph->params.segments[k].name : NULL;
    const char *dot = name ? strrchr(name, '.') : NULL;

    if (dot)
        snprintf(text, size, "%.*s", (int)(dot - name), name);
    else
        snprintf(text, size, "%s", fast__op_name(graph->nodes[node].op));
}

void fast__assembly_unfit(fast_assembly *b, int node, const char *format, ...)
{
    char *text = b->out->unfit;
    const size_t size = sizeof b->out->unfit;
    va_list list;

    if (text[0])
        return;
    name_layer(b->graph, node, text, size / 2);
    const size_t used = strlen(text);
    text[used] = ' ';
    va_start(list, format);
    vsnprintf(text + used + 1, size - used - 1, format, list);
    va_end(list);
}

/* The block of a matrix that the shard has, and where it is in the whole vector. */
static void cut_block(const fast_split_slice *slice, fast_segment *s, fast_split_piece *piece)
{
    const int64_t p = slice->grid, rows = s->shape[0], columns = s->count / rows;
    const int64_t row = slice->row * rows / p, row_end = (slice->row + 1) * rows / p;
    const int64_t column = slice->column * columns / p,
                  column_end = (slice->column + 1) * columns / p;

    FAST_ASSERT(row_end > row && column_end > column);
    s->shape[0] = row_end - row;
    s->shape[1] = column_end - column;
    s->count = s->shape[0] * s->shape[1];
    piece->rows = s->shape[0];
    piece->stride = columns;
    piece->whole += row * columns + column;
}

/* The slice of a segment that the shard has, and where it is in the whole vector. */
static void cut_segment(const fast_assembly *b, const fast_split_slice *slice, fast_segment *s,
                        fast_split_piece *piece)
{
    const int64_t T = b->shards, t = b->shard, n = s->shape[slice->axis];
    const int64_t groups = slice->groups > 0 ? slice->groups : 1;
    const int64_t unit = slice->unit > 0 ? slice->unit : 1, units = n / groups / unit;
    const int64_t first = t * units / T * unit, end = (t + 1) * units / T * unit;

    if (slice->split && slice->grid > 0)
        cut_block(slice, s, piece);
    if (!slice->split || slice->grid > 0)
        return;
    FAST_ASSERT(slice->axis == 0 || (slice->axis == 1 && groups == 1));
    FAST_ASSERT(n % (groups * unit) == 0 && end > first);
    const int64_t before = slice->axis == 0 ? 1 : s->shape[0]; /* rows around the dimension */
    const int64_t inner = s->count / (before * n);             /* elements behind it */
    s->shape[slice->axis] = (end - first) * groups;
    s->count = before * (end - first) * groups * inner;
    piece->rows = before * groups;
    piece->stride = n / groups * inner;
    piece->whole += first * inner;
}

/* Note a range of which each shard has a part of the gradient; those that touch are one. */
static void add_partial(fast_split_shard *shard, int64_t offset, int64_t count)
{
    const int64_t n = shard->partial_count;

    if (n > 0 && shard->partial[n - 1].offset + shard->partial[n - 1].count == offset)
        shard->partial[n - 1].count += count;
    else
        shard->partial[shard->partial_count++] = (fast_split_range){ offset, count };
}

/* Copy the parameters of a node to the section: layouts, pieces, and what is partial. */
static void copy_params(fast_assembly *b, fast_split_section *section, int i, fast_node *node,
                        const fast_split_slice *slices)
{
    static const fast_split_slice all = { .split = false };
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
        FAST_ASSERT(which < FAST_WEIGHTS_MAX && b->segment_count < b->segment_max);
        const fast_split_slice *slice = slices ? &slices[which] : &all;
        node->weight[which] = -1;
        if (slice->absent)
            continue;
        *out = *s;
        *piece = (fast_split_piece){ .whole = b->params_offset + s->offset, .rows = 1 };
        cut_segment(b, slice, out, piece);
        piece->columns = out->count / piece->rows;
        node->weight[which] = layout->segment_count++;
        out->layer = section->graph.node_count;
        out->offset = layout->count;
        piece->part = section->params_offset + layout->count;
        if (slice->partial)
            add_partial(shard, piece->part, out->count);
        layout->count += out->count;
        b->segment_count++;
    }
}

/* Copy the state of a node to the section; a slice of it where there is one of its weights. */
static void copy_state(fast_assembly *b, fast_split_section *section, int i, fast_node *node,
                       const fast_split_slice *slices)
{
    fast_layout *layout = &section->graph.state;

    for (int k = 0; k < 2; k++) {
        const int64_t index = b->graph->nodes[i].state[k];

        if (index < 0)
            continue;
        fast_segment *out = &b->state[b->state_count];
        fast_split_piece *piece = &b->out->state_map.pieces[b->state_count++];
        *out = b->graph->state.segments[index];
        *piece = (fast_split_piece){ .whole = b->state_offset + out->offset, .rows = 1 };
        if (slices)
            cut_segment(b, &slices[FAST_W_WEIGHT], out, piece);
        piece->columns = out->count / piece->rows;
        out->layer = section->graph.node_count;
        out->offset = layout->count;
        piece->part = section->state_offset + layout->count;
        node->state[k] = layout->segment_count++;
        layout->count += out->count;
    }
}

/* The next free node. */
static fast_node *next_node(fast_assembly *b)
{
    FAST_ASSERT(b->node_count < b->node_max);
    return &b->out->nodes[b->node_count++];
}

/* A node without tensors and exchanges of its own. */
static void clear_tensors(fast_node *node)
{
    node->exchange = NULL;
    memset(node->weight, -1, sizeof node->weight);
    memset(node->state, -1, sizeof node->state);
}

fast_split_section *fast__assembly_begin(fast_assembly *b, int a)
{
    fast_split_shard *shard = b->out;
    fast_split_section *section = &shard->sections[shard->section_count++];
    fast_graph *graph = &section->graph;
    fast_node *input = next_node(b);

    FAST_ASSERT(shard->section_count <= b->node_max);
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
    clear_tensors(input);
    for (int i = 0; i < b->graph->node_count; i++)
        b->index[i] = -1;
    b->index[a] = 0;
    return section;
}

fast_node *fast__assembly_add(fast_assembly *b, fast_split_section *section, int i,
                              const fast_split_slice slices[FAST_WEIGHTS_MAX])
{
    fast_node *node = next_node(b);

    *node = b->graph->nodes[i];
    node->global = fast__node_number(b->graph, i) + 1;
    for (int k = 0; k < node->input_count; k++) {
        node->inputs[k] = b->index[node->inputs[k]];
        FAST_ASSERT(node->inputs[k] >= 0);
    }
    copy_params(b, section, i, node, slices);
    copy_state(b, section, i, node, slices);
    b->index[i] = section->graph.node_count++;
    return node;
}

fast_node *fast__assembly_insert(fast_assembly *b, fast_split_section *section, fast_op op, int in,
                                 int i)
{
    fast_node *node = next_node(b);

    FAST_ASSERT(in >= 0 && in < section->graph.node_count);
    *node = section->graph.nodes[in];
    node->op = op;
    node->input_count = 1;
    node->inputs[0] = in;
    clear_tensors(node);
    if (i >= 0)
        b->index[i] = section->graph.node_count;
    section->graph.node_count++;
    return node;
}

fast_reshard *fast__assembly_exchange(fast_assembly *b, fast_node *node)
{
    FAST_ASSERT(b->exchange_count < b->node_max);
    fast_reshard *how = &b->out->exchanges[b->exchange_count++];

    node->exchange = how;
    return how;
}

/* A block of each shard, which all have after it, forward and backward. */
void fast__assembly_share_moments(fast_assembly *b, fast_node *node)
{
    FAST_ASSERT(node->op == FAST_OP_BATCH_NORM && node->ghost == 0);
    const int64_t channels = node->rank == 2 ? node->shape[1] : node->shape[0];

    *fast__assembly_exchange(b, node) = (fast_reshard){ .forward = FAST_RESHARD_GATHER,
                                                        .backward = FAST_RESHARD_GATHER,
                                                        .dim = b->shards,
                                                        .inner = fast__moments_block(channels) };
}

/* Does a change of layout have the shape of its value? */
static bool has_shape(const fast_reshard *how)
{
    return how->outer > 0 || how->dim > 0 || how->middle > 0 || how->other > 0 || how->inner > 0;
}

void fast__assembly_end(fast_assembly *b, fast_split_section *section, int e)
{
    fast_graph *graph = &section->graph;

    if (!has_shape(&section->enter))
        section->enter.inner = graph->nodes[0].count;
    if (!has_shape(&section->leave))
        section->leave.inner = graph->nodes[graph->node_count - 1].count;
    b->out->params.count += graph->params.count;
    b->out->state.count += graph->state.count;
    b->loss = e == b->graph->node_count - 1 && section->leave.forward == FAST_RESHARD_NONE;
    if (b->loss)
        return;
    graph->loss = FAST_LOSS_MSE;
    graph->loss_use = FAST_LOSS_ELSEWHERE;
    graph->label_smoothing = 0;
    graph->positions = 1;
    graph->outputs = graph->nodes[graph->node_count - 1].count;
}

void fast__assembly_whole(fast_assembly *b, int a, int e)
{
    fast_split_section *section = fast__assembly_begin(b, a);

    for (int i = a + 1; i <= e; i++)
        (void)fast__assembly_add(b, section, i, NULL);
    fast__assembly_end(b, section, e);
}

/* The section that has the loss behind a run: it copies its input. */
static void make_copy(fast_assembly *b)
{
    const int last = b->graph->node_count - 1;
    fast_split_section *section = fast__assembly_begin(b, last);

    (void)fast__assembly_insert(b, section, FAST_OP_ADD, 0, -1);
    fast__assembly_end(b, section, last);
}

/* Return the last node of a run behind node a, and set its kind; 0: no run begins there. */
static int find_run(fast_assembly *b, int a)
{
    if (b->shards == 1 || (a > 0 && !fast__split_can_cut(b->graph, a)))
        return 0;
    for (const fast_split_kind *const *kind = fast__split_kinds; *kind; kind++) {
        b->kind = *kind;
        const int end = b->kind->find(b, a);
        if (end > 0) {
            FAST_ASSERT(end > a && end < b->graph->node_count);
            return end;
        }
    }
    return 0;
}

/* Note which entries of the map a run is mapped by. */
static void note_used(fast_assembly *b, int a, int e)
{
    for (int i = a + 1; i <= e; i++)
        if (fast__assembly_maps(b, i))
            b->out->used |= UINT32_C(1) << fast__layout_map_find(b->map, b->graph, i);
}

/* Join the change of layout behind a section with that before the next one, where both are one
 * collective of fewer floats:
 *
 *     forward, gather | nothing     backward, slice of | the sum       becomes a reduce-scatter
 *     forward, the sum | its slice  backward, gather | nothing         as well
 */
static void join_changes(fast_reshard *leave, fast_reshard *enter)
{
    if (leave->forward == FAST_RESHARD_GATHER && leave->backward == FAST_RESHARD_SLICE &&
        enter->forward == FAST_RESHARD_NONE && enter->backward == FAST_RESHARD_SUM) {
        leave->backward = FAST_RESHARD_SCATTER;
        enter->backward = FAST_RESHARD_NONE;
    } else if (leave->forward == FAST_RESHARD_SUM && leave->backward == FAST_RESHARD_NONE &&
               enter->forward == FAST_RESHARD_SLICE && enter->backward == FAST_RESHARD_GATHER &&
               enter->window.rows == 0) {
        *leave = *enter;
        leave->forward = FAST_RESHARD_SCATTER;
        enter->forward = enter->backward = FAST_RESHARD_NONE;
    }
}

/* Join the changes of layout of neighbours, of which nothing passes by. */
static void join_sections(fast_split_shard *shard)
{
    for (int64_t k = 0; k + 1 < shard->section_count; k++)
        if (shard->sections[k].retained == 0 && (k == 0 || shard->sections[k - 1].retained == 0))
            join_changes(&shard->sections[k].leave, &shard->sections[k + 1].enter);
}

/* Walk through the stage from cut to cut. */
static void make_sections(fast_assembly *b)
{
    const int last = b->graph->node_count - 1;
    int from = 0, at = 0; /* of the whole section under way; of a possible run */

    while (at < last) {
        const int end = find_run(b, at);

        if (end == 0) {
            at++;
            continue;
        }
        if (at > from)
            fast__assembly_whole(b, from, at);
        b->kind->make(b, at, end);
        note_used(b, at, end);
        from = at = end;
        b->out->run_count++;
    }
    if (from < last)
        fast__assembly_whole(b, from, last);
    else if (!b->loss)
        make_copy(b);
}

/* Allocate a shard: no more sections, nodes and segments than these. */
static fast_err allocate(fast_assembly *b)
{
    const fast_graph *graph = b->graph;
    const int64_t count = graph->node_count, params = graph->params.segment_count;
    fast_split_shard *out = b->out;

    b->node_max = NODES_MAX * (count + 1);
    b->segment_max = params;
    FAST_TRY(fast__alloc("marks of nodes", 2 * count, sizeof *b->marks, &b->marks));
    b->index = b->marks + count;
    FAST_TRY(fast__alloc("sections", b->node_max, sizeof *out->sections, &out->sections));
    FAST_TRY(fast__alloc("nodes of a shard", b->node_max, sizeof *out->nodes, &out->nodes));
    FAST_TRY(fast__alloc("exchanges", b->node_max, sizeof *out->exchanges, &out->exchanges));
    FAST_TRY(fast__alloc("tensors of a shard", params + graph->state.segment_count + 1,
                         sizeof *out->segments, &out->segments));
    FAST_TRY(fast__alloc("partial tensors", params + 1, sizeof *out->partial, &out->partial));
    b->state = out->segments + params;
    FAST_TRY(fast__alloc("pieces of a state", graph->state.segment_count + 1,
                         sizeof *out->state_map.pieces, &out->state_map.pieces));
    return fast__alloc("pieces of a shard", params + 1, sizeof *out->map.pieces, &out->map.pieces);
}

/* All pieces are there: check the graphs. */
static fast_err finish(fast_assembly *b)
{
    fast_split_shard *out = b->out;

    out->map.count = b->segment_count;
    out->state_map.count = b->state_count;
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

fast_err fast__split_shard_new(const fast_split_stage *stage, const fast_layout_map *map,
                               int64_t shards, int64_t shard, fast_split_shard **out)
{
    fast_assembly b = { .graph = &stage->graph,
                        .map = map,
                        .params_offset = stage->params_offset,
                        .state_offset = stage->state_offset,
                        .shards = shards,
                        .shard = shard };
    fast_err err;

    FAST_ASSERT(shards >= 1 && shard >= 0 && shard < shards);
    FAST_TRY(fast__alloc("a shard", 1, sizeof *b.out, &b.out));
    err = allocate(&b);
    if (!err) {
        make_sections(&b);
        join_sections(b.out);
        err = finish(&b);
    }
    if (!err)
        err = make_layouts(b.out, b.segment_count, b.state_count);
    fast__free(b.marks);
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
    fast__free(shard->exchanges);
    fast__free(shard->segments);
    fast__free(shard->partial);
    fast__free(shard->map.pieces);
    fast__free(shard->state_map.pieces);
    fast__free((void *)(uintptr_t)shard->params.segments);
    fast__free(shard);
}
