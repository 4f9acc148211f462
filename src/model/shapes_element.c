/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes and configurations of the elementary layers. Their functions see three dimensions: shapes
 * of fewer get ones in front.
 */
#include "base/memory.h"
#include "engine/experts.h"
#include "model/init.h"
#include "model/layer.h"

#include <math.h>
#include <string.h>

/* Put ones in front of a shape, so that it has three dimensions: [4, 5] becomes [1, 4, 5]. */
static void widen(int rank, const int64_t *shape, int64_t out[3])
{
    for (int d = 0; d < 3; d++)
        out[d] = d < 3 - rank ? 1 : shape[d - (3 - rank)];
}

/* Parse "4x16" to 1 to 3 numbers of at least `min`. The message names the option; that of a word
 * that is no number names the layer. */
static fast_err parse_dims(const fast_build *build, const char *name, const char *text, int64_t min,
                           int *rank_out, int64_t dims[3])
{
    char word[FAST_PAIR_MAX];

    *rank_out = 0;
    for (const char *at = text; at; at = strchr(at, 'x') ? strchr(at, 'x') + 1 : NULL) {
        const size_t size = strcspn(at, "x");
        if (*rank_out == 3)
            return FAST_LAYER_FAIL(build, "%s=%s has more than 3 numbers", name, text);
        memcpy(word, at, size);
        word[size] = '\0';
        FAST_TRY(fast__parse_int(build->layer->label, word, &dims[*rank_out]));
        if (dims[*rank_out] < min || dims[*rank_out] >= FAST_COUNT_MAX)
            return FAST_LAYER_FAIL(build, "%s=%s has a number out of range", name, text);
        (*rank_out)++;
    }
    return FAST_OK;
}

/* Broadcast x and z to y: a dimension of 1 takes the size of the other. */
static fast_err broadcast(const fast_build *build, fast_element *e)
{
    for (int d = 0; d < 3; d++) {
        if (e->x[d] != e->z[d] && e->x[d] != 1 && e->z[d] != 1)
            return FAST_LAYER_FAIL(build, "dimensions of %lld and %lld do not fit",
                                   (long long)e->x[d], (long long)e->z[d]);
        e->y[d] = e->x[d] == 1 ? e->z[d] : e->x[d];
    }
    return FAST_OK;
}

/* arith and matmul: two inputs.
 *
 *     arith    [C, H, W] and [C, 1, 1] -> [C, H, W]
 *     matmul   [h, m, k] and [h, k, n] -> [h, m, n] */
static fast_err infer_two(fast_build *build, fast_node *node, fast_element *e)
{
    const fast_node *x = &build->graph->nodes[node->inputs[0]];
    const fast_node *z = &build->graph->nodes[node->inputs[1]];

    if (node->input_count != 2)
        return FAST_LAYER_FAIL(build, "takes two layers, not %d", node->input_count);
    widen(z->rank, z->shape, e->z);
    node->rank = x->rank > z->rank ? x->rank : z->rank;
    if (node->op == FAST_OP_ARITH)
        return broadcast(build, e);
    if (x->rank != z->rank || x->rank < 2 || e->x[2] != e->z[1] || e->x[0] != e->z[0])
        return FAST_LAYER_FAIL(build, "takes matrices m x k and k x n of the same rank, not %d",
                               x->rank);
    e->y[0] = e->x[0], e->y[1] = e->x[1], e->y[2] = e->z[2];
    return FAST_OK;
}

/* scale and shift: a weight, or a frozen tensor in the state, of the shape that the line gives. It
 * is neutral at first: ones for a product, zeros for a sum. The input is never repeated to the
 * weight's size. */
static fast_err infer_operand(fast_build *build, fast_node *node, fast_element *e)
{
    const fast_layer_element *config = &build->layer->config.element;
    fast_segment *segment = NULL;
    int64_t shape[3] = { 0 };
    int rank = 0;

    FAST_TRY(parse_dims(build, "shape", config->shape, 1, &rank, shape));
    widen(rank, shape, e->z);
    e->shared = true;
    e->kind = node->op == FAST_OP_SCALE ? FAST_ARITH_MUL : FAST_ARITH_ADD;
    FAST_TRY(broadcast(build, e));
    if (rank > node->rank || memcmp(e->x, e->y, sizeof e->x) != 0)
        return FAST_LAYER_FAIL(build, "a weight of %s is larger than its input", config->shape);
    if (config->frozen)
        FAST_TRY(
            fast__build_state(build, node, 0, "weight", e->z[0] * e->z[1] * e->z[2], &segment));
    else
        FAST_TRY(fast__build_param(build, node, FAST_W_WEIGHT, "weight", rank, shape, &segment));
    segment->decay = false;
    segment->init = node->op == FAST_OP_SCALE ? FAST_INIT_ONES : FAST_INIT_ZEROS;
    return FAST_OK;
}

/* transpose, reshape, slice, reduce: the output's shape from the options.
 *
 *     transpose 1x0x2       [a, b, c] -> [b, a, c]
 *     slice 1 start=2 ...   [a, b, c] -> [a, count, c]
 *     reduce axes=0x2       [a, b, c] -> [b] */
static fast_err infer_move(fast_build *build, fast_node *node, fast_element *e)
{
    const fast_layer_element *config = &build->layer->config.element;
    const int front = 3 - node->rank;
    int64_t dims[3] = { 0 };
    unsigned seen = 0;
    int rank = 0;

    memcpy(e->y, e->x, sizeof e->y);
    if (node->op == FAST_OP_SLICE) {
        const int64_t d = config->axis + front;
        if (config->axis >= node->rank || config->count < 1 ||
            config->start + config->count > e->x[d])
            return FAST_LAYER_FAIL(build, "elements %lld to %lld of dimension %lld are not there",
                                   (long long)config->start,
                                   (long long)(config->start + config->count),
                                   (long long)config->axis);
        e->start[d] = config->start;
        e->y[d] = config->count;
        return FAST_OK;
    }
    FAST_TRY(parse_dims(build, node->op == FAST_OP_REDUCE ? "axes" : "shape",
                        node->op == FAST_OP_REDUCE ? config->axes : config->shape,
                        node->op == FAST_OP_RESHAPE, &rank, dims));
    if (node->op == FAST_OP_RESHAPE) {
        widen(rank, dims, e->y);
        node->rank = rank;
        return FAST_OK;
    }
    for (int d = 0; d < rank; d++)
        seen |= dims[d] < node->rank ? 1U << dims[d] : 1U << 3;
    if (seen >> 3 || __builtin_popcount(seen) != rank ||
        (node->op == FAST_OP_TRANSPOSE && rank != node->rank))
        return FAST_LAYER_FAIL(build, "its dimensions are not those of a shape of rank %d",
                               node->rank);
    for (int d = 0; d < rank && node->op == FAST_OP_TRANSPOSE; d++) {
        e->order[d + front] = dims[d] + front;
        e->y[d + front] = e->x[dims[d] + front];
    }
    for (int d = 0; d < rank && node->op == FAST_OP_REDUCE; d++)
        e->y[dims[d] + front] = 1, e->start[dims[d] + front] = 1;
    return FAST_OK;
}

/* delay and repeat: along the positions of a sequence.
 *
 *     delay 1      [T, C] -> [T, C]
 *     repeat 8     [C] or [C, H, W] -> [8, C H W] */
static fast_err infer_positions(fast_build *build, fast_node *node, fast_element *e,
                                int64_t x_count)
{
    const int64_t count = build->layer->config.element.count;

    if (node->op == FAST_OP_DELAY) {
        if (node->rank != 2 || count >= e->x[1])
            return FAST_LAYER_FAIL(build, "takes a sequence of more positions than its %lld steps",
                                   (long long)count);
        e->start[1] = count;
        return FAST_OK;
    }
    if (node->rank == 2)
        return FAST_LAYER_FAIL(build,
                               "takes a vector or an image, not a sequence of %lld positions",
                               (long long)e->x[1]);
    node->rank = 2;
    e->y[0] = 1, e->y[1] = count, e->y[2] = x_count;
    return FAST_OK;
}

/* Find the configuration of the route that is input 1 of a dispatch or a combine. It has the number
 * of experts and of their slots, which the shapes of logits and of experts follow from. */
static fast_err find_route(const fast_build *build, const fast_node *node, fast_element *e,
                           const fast_element **out)
{
    const fast_node *route = &build->graph->nodes[node->inputs[node->input_count > 1]];

    if (node->input_count != 2 || node->rank != 2 || route->op != FAST_OP_ROUTE)
        return FAST_LAYER_FAIL(build, "takes a sequence and a route, as in \"%s\"",
                               fast__layer_kind(node->op)->example);
    widen(route->rank, route->shape, e->z);
    *out = route->custom_config;
    return FAST_OK;
}

/* route, dispatch and combine. The slots of an expert are its share of the positions, times the
 * capacity, rounded up.
 *
 *     route      [T, E] -> [T, 2 top]
 *     dispatch   [T, C] and a route -> [E slots, C]
 *     combine    [E slots, C] and a route -> [T, C]
 */
static fast_err infer_route(fast_build *build, fast_node *node, fast_element *e)
{
    const fast_layer_element *config = &build->layer->config.element;
    const fast_element *route = NULL;

    if (node->op == FAST_OP_ROUTE) {
        if (node->rank != 2 || e->x[2] > FAST_EXPERTS_MAX || config->top < 1 ||
            config->top > e->x[2])
            return FAST_LAYER_FAIL(build,
                                   "takes logits of top to %d experts at each position, not %lld",
                                   FAST_EXPERTS_MAX, (long long)e->x[2]);
        e->kind = (int)config->top;
        const double slots =
            ceil(config->capacity * (double)(config->top * e->x[1]) / (double)e->x[2] - 1e-9);
        e->slots = slots < (double)e->x[1] ? (int64_t)slots : e->x[1]; /* no position twice */
        if (e->slots * e->x[2] >= (int64_t)1 << 24)
            return FAST_LAYER_FAIL(build, "%lld slots of each expert are too many",
                                   (long long)e->slots);
        e->y[2] = 2 * config->top;
        return FAST_OK;
    }
    FAST_TRY(find_route(build, node, e, &route));
    /* A position of the route is one of the sequence that is dispatched, or combined again. */
    const int64_t slots = route->x[2] * route->slots;
    if (e->x[1] != (node->op == FAST_OP_DISPATCH ? route->x[1] : slots))
        return FAST_LAYER_FAIL(build, "the route has %lld positions and %lld slots, its input %lld",
                               (long long)route->x[1], (long long)slots, (long long)e->x[1]);
    e->y[1] = node->op == FAST_OP_DISPATCH ? slots : route->x[1];
    return FAST_OK;
}

/* A part of a vector or a sequence.
 *
 *     part 8 shape=4x3     [C] or [T, C] -> [4, 3], elements 8 to 19
 */
fast_err fast__layer_infer_part(fast_build *build, fast_node *node)
{
    const fast_node *x = &build->graph->nodes[node->inputs[0]];
    const fast_layer_element *config = &build->layer->config.element;
    int64_t shape[3] = { 0 };

    if (x->op == FAST_OP_INPUT && build->graph->tokens)
        return FAST_LAYER_FAIL(build, "takes numbers, but its input is tokens%s", "");
    FAST_TRY(parse_dims(build, "shape", config->shape, 1, &node->rank, shape));
    memcpy(node->shape, shape, sizeof shape);
    node->columns[0] = config->start;
    const int64_t count = shape[0] * (node->rank == 2 ? shape[1] : 1);
    if (node->rank > 2 || x->rank > 2 || config->start > x->count ||
        count > x->count - config->start)
        return FAST_LAYER_FAIL(build,
                               "shape=%s from %lld on is no part of a vector or a sequence "
                               "of %lld elements",
                               config->shape, (long long)config->start, (long long)x->count);
    return FAST_OK;
}

/* Write the output's shape to the node. A reduction drops its dimensions, but leaves one if it
 * reduces all; a reshape must have the elements of its input. */
static fast_err set_shape(const fast_build *build, fast_node *node, const fast_element *e,
                          int64_t x_count)
{
    const int front = 3 - node->rank;
    int64_t count = 1;
    int rank = 0;

    for (int d = front; d < 3; d++) {
        if (node->op == FAST_OP_REDUCE && e->start[d] == 1)
            continue;
        node->shape[rank++] = e->y[d];
    }
    if (rank == 0)
        node->shape[rank++] = 1;
    node->rank = rank;
    for (int d = 0; d < rank; d++)
        if (!fast__mul_size(count, node->shape[d], &count))
            return FAST_LAYER_FAIL(build, "its output is too large%s", "");
    if (node->op == FAST_OP_RESHAPE && count != x_count)
        return FAST_LAYER_FAIL(build, "its input has %lld elements, the new shape %lld",
                               (long long)x_count, (long long)count);
    return FAST_OK;
}

/* The configuration is in the graph's block, because the engine reads it as long as the graph
 * lives. Elementary functions take numbers: tokens need an embedding first. */
fast_err fast__layer_infer_element(fast_build *build, fast_node *node)
{
    const fast_node *x = &build->graph->nodes[node->inputs[0]];
    fast_element *e = &build->elements[build->element_count++];

    /* Elements are taken in the order of the layers: the block has one for each. */
    *e = (fast_element){ .kind = build->layer->config.kind,
                         .a = (float)build->layer->config.element.a,
                         .b = (float)build->layer->config.element.b,
                         .order = { 0, 1, 2 } };
    for (int i = 0; i < node->input_count; i++)
        if (build->graph->nodes[node->inputs[i]].op == FAST_OP_INPUT && build->graph->tokens)
            return FAST_LAYER_FAIL(build, "takes numbers, but its input is tokens%s", "");
    node->custom = fast__element_operator(node->op);
    node->custom_config = e;
    node->rank = x->rank;
    widen(x->rank, x->shape, e->x);
    memcpy(e->y, e->x, sizeof e->y);
    switch (node->op) {
    case FAST_OP_ARITH:
    case FAST_OP_MATMUL:
        FAST_TRY(infer_two(build, node, e));
        break;
    case FAST_OP_SCALE:
    case FAST_OP_SHIFT:
        FAST_TRY(infer_operand(build, node, e));
        break;
    case FAST_OP_ROUTE:
    case FAST_OP_DISPATCH:
    case FAST_OP_COMBINE:
        FAST_TRY(infer_route(build, node, e));
        break;
    case FAST_OP_DELAY:
    case FAST_OP_REPEAT:
        FAST_TRY(infer_positions(build, node, e, x->count));
        break;
    case FAST_OP_MAP:
    case FAST_OP_LOG_SOFTMAX:
        break;
    default:
        e->mean = build->layer->config.kind == 0; /* read by reduce only */
        FAST_TRY(infer_move(build, node, e));
    }
    return set_shape(build, node, e, x->count);
}
