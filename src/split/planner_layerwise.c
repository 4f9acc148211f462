/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer-wise parallelisation (Jia, Lin, Qi, Aiken 2018): each layer has a configuration of its own,
 * here a kind of split over `tensor` shards, or the whole layer, and the sum of the costs of layers
 * and of the edges between them is minimised by reducing the graph of layers:
 *
 *     cost = sum over layers of t(i, c_i) + sum over edges of t(i, j, c_i, c_j)
 *
 *     node elimination   a layer with two neighbours becomes an edge between them:
 *                        t'(a, b, c_a, c_b) = min over c_i of t(i, c_i) + t(a, i) + t(i, b)
 *     edge elimination   two edges between the same layers are added
 *
 * until no layer with less than three neighbours is left; of the layers that are left all
 * combinations are tried. What was eliminated follows from its neighbours, in reverse. Costs are
 * those of shards that the assembly makes, with one or two layers mapped (cost.h counts operations,
 * tensor/reshard.h the floats of changes of layout), in seconds of the slowest node and link:
 *
 *     t(i, c) = cost(i = c) - cost(nothing)
 *     t(i, j, c, d) = cost(i = c, j = d) - cost(nothing) - t(i, c) - t(j, d)
 *
 * The layout is then offered with every mesh of that number of shards and all micro-batches. A
 * configuration is of all replicas alike. Cost: L K + E K^2 shards for L layers, E edges, K kinds.
 */
#include "split/planner.h"

#include "base/memory.h"
#include "split/kinds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS_MAX = 64, KINDS_MAX = 16, LEFT_MAX = 4 };

/* A layer of the graph. */
typedef struct layerwise_layer {
    char name[FAST_SEGMENT_NAME_MAX]; /* as a layout map has it */
    double cost[KINDS_MAX];           /* of each configuration; the first: the whole layer */
    int neighbours[2];                /* when it was eliminated; -1: none */
    bool gone;                        /* it was eliminated */
    int best;                         /* its configuration */
} layerwise_layer;

/* The costs of an edge. */
typedef struct layerwise_edge {
    bool there;                        /* the layers are neighbours */
    double cost[KINDS_MAX][KINDS_MAX]; /* by the configurations of the first and the second */
} layerwise_edge;

/* A search for the layout of one number of shards. */
typedef struct layerwise {
    fast_planning *planning;                /* takes the plans */
    int64_t shards;                         /* T */
    layerwise_layer layers[LAYERS_MAX];     /* in the order of the network */
    int count;                              /* of layers */
    int kinds;                              /* configurations: none, and each kind */
    const fast_split_kind *kind[KINDS_MAX]; /* of configuration i + 1 */
    layerwise_edge *edges;                  /* [LAYERS_MAX][LAYERS_MAX], first < second */
    int order[LAYERS_MAX];                  /* in which layers were eliminated */
    int gone;                               /* number of them */
    double whole;                           /* cost without shards */
} layerwise;

/* The edge between two layers. */
static layerwise_edge *edge_of(const layerwise *l, int a, int b)
{
    return &l->edges[a < b ? a * LAYERS_MAX + b : b * LAYERS_MAX + a];
}

/* The cost of an edge, whichever of its layers is named first. */
static double edge_cost(const layerwise *l, int a, int b, int c, int d)
{
    const layerwise_edge *edge = edge_of(l, a, b);

    return !edge->there ? 0 : a < b ? edge->cost[c][d] : edge->cost[d][c];
}

/* Seconds of a step of a network with a layout, on the slowest node and link; INFINITY: the layout
 * divides nothing. */
static fast_err cost_of(const layerwise *l, const char *text, double *out)
{
    fast_plan_space *space = l->planning->space;
    fast_layout_map map;
    fast_split_stage *stage = NULL;
    fast_split_shard *shard = NULL;
    fast_plan_part part;

    *out = INFINITY;
    fast_err err = fast__layout_map_parse(text, &map);
    if (!err)
        err = fast__split_stage_new(space->job.graph, 0, space->job.graph->node_count - 1, &stage);
    if (!err)
        err = fast__split_shard_new(stage, &map, l->shards, 0, &shard);
    if (!err)
        err = fast__plan_measure_shard(shard, l->shards, true, &part);
    if (!err && shard->run_count > 0) {
        const fast_plan plan = { .mesh = { 1, 1, l->shards } };
        double speed = INFINITY;
        const fast_sim_link *link = &space->cluster->link;

        for (int64_t i = 0; i < space->node_count; i++)
            speed = fmin(
                speed, space->cluster->nodes[space->places[i] % space->cluster->spec_count].speed);
        if (space->node_count > 1)
            link = fast__plan_link(space, space->places[0], space->places[1]);
        const double samples = (double)space->job.batch / (double)plan.mesh.data;
        *out = samples * (part.forward + part.backward) / (speed > 0 ? speed : 1e18) +
               (samples * (part.exchange_forward + part.exchange_backward) +
                2 * (double)part.partial) *
                   4e-9 * fmax(link->ns_per_byte, link->stream_ns_per_byte) +
               (double)part.messages * (double)link->latency_ns * 1e-9;
    }
    fast__split_shard_free(shard);
    fast__split_stage_free(stage);
    return err == FAST_ENOMEM ? err : FAST_OK;
}

/* Append "LAYER=KIND". */
static void put_entry(const layerwise *l, int layer, int kind, char *text, size_t size)
{
    const size_t used = strlen(text);

    if (kind > 0)
        snprintf(text + used, size - used, "%s%s=%s", used > 0 ? "," : "", l->layers[layer].name,
                 l->kind[kind - 1]->name);
}

/* List the layers with parameters. */
static void list_layers(layerwise *l)
{
    const fast_graph *graph = l->planning->space->job.graph;

    l->kinds = 1;
    for (int i = 0; l->kinds < KINDS_MAX && fast__split_kinds[i]; i++)
        if (fast__plan_times(fast__split_kinds[i]))
            l->kind[l->kinds++ - 1] = fast__split_kinds[i];
    for (int i = 1; i < graph->node_count && l->count < LAYERS_MAX; i++) {
        const int64_t k = graph->nodes[i].weight[0];
        const char *name = k >= 0 ? graph->params.segments[k].name : "";
        const char *dot = strrchr(name, '.');

        if (dot)
            snprintf(l->layers[l->count++].name, sizeof l->layers[0].name, "%.*s",
                     (int)(dot - name), name);
    }
}

/* Fill in the costs of layers, and of edges between neighbours in the order of the network: a
 * residual sum joins a block to the one before, whose last layer is its neighbour there. */
static fast_err fill_costs(layerwise *l)
{
    for (int i = 0; i < l->count; i++)
        for (int c = 1; c < l->kinds; c++) {
            char text[192] = "";

            put_entry(l, i, c, text, sizeof text);
            FAST_TRY(cost_of(l, text, &l->layers[i].cost[c]));
            l->layers[i].cost[c] -= l->whole;
        }
    for (int i = 0; i + 1 < l->count; i++) {
        layerwise_edge *edge = edge_of(l, i, i + 1);

        edge->there = true;
        for (int c = 1; c < l->kinds; c++)
            for (int d = 1; d < l->kinds; d++) {
                const double a = l->layers[i].cost[c], b = l->layers[i + 1].cost[d];
                char text[192] = "";
                double both;

                if (c != d && !(isfinite(a) && isfinite(b)))
                    continue; /* only layers of one kind are divided together alone */
                put_entry(l, i, c, text, sizeof text);
                put_entry(l, i + 1, d, text, sizeof text);
                FAST_TRY(cost_of(l, text, &both));
                edge->cost[c][d] =
                    isfinite(both) ? both - l->whole - (isfinite(a) ? a : 0) - (isfinite(b) ? b : 0)
                                   : 0;
            }
    }
    /* A layer that is not divided by itself costs nothing: it is computed by every shard. */
    for (int i = 0; i < l->count; i++)
        for (int c = 1; c < l->kinds; c++)
            if (!isfinite(l->layers[i].cost[c]))
                l->layers[i].cost[c] = 0;
    return FAST_OK;
}

/* The neighbours of a layer that are left; at most three are counted. */
static int neighbours_of(const layerwise *l, int i, int out[3])
{
    int count = 0;

    for (int k = 0; k < l->count && count < 3; k++)
        if (k != i && !l->layers[k].gone && edge_of(l, i, k)->there)
            out[count++] = k;
    return count;
}

/* The best configuration of a layer between its neighbours'; its cost in *cost. */
static int best_between(const layerwise *l, int i, int a, int ca, int b, int cb, double *cost)
{
    int best = 0;

    *cost = INFINITY;
    for (int c = 0; c < l->kinds; c++) {
        const double sum = l->layers[i].cost[c] + (a >= 0 ? edge_cost(l, a, i, ca, c) : 0) +
                           (b >= 0 ? edge_cost(l, i, b, c, cb) : 0);

        if (sum < *cost) {
            *cost = sum;
            best = c;
        }
    }
    return best;
}

/* Eliminate a layer with at most two neighbours: its cost goes to the edge between them, to the
 * neighbour, or to nobody. */
static void eliminate(layerwise *l, int i, int a, int b)
{
    layerwise_layer *layer = &l->layers[i];
    double cost;

    layer->gone = true;
    layer->neighbours[0] = a;
    layer->neighbours[1] = b;
    l->order[l->gone++] = i;
    for (int c = 0; c < l->kinds && a >= 0 && b < 0; c++) {
        (void)best_between(l, i, a, c, -1, 0, &cost);
        l->layers[a].cost[c] += cost;
    }
    if (b < 0)
        return;
    layerwise_edge *edge = edge_of(l, a, b);
    edge->there = true;
    for (int c = 0; c < l->kinds; c++)
        for (int d = 0; d < l->kinds; d++) {
            (void)best_between(l, i, a, c, b, d, &cost);
            *(a < b ? &edge->cost[c][d] : &edge->cost[d][c]) += cost; /* edge elimination */
        }
}

/* Reduce the graph; what is left has three neighbours each. */
static void reduce(layerwise *l)
{
    bool changed = true;

    while (changed) {
        changed = false;
        for (int i = 0; i < l->count; i++) {
            int around[3] = { -1, -1, -1 };

            if (l->layers[i].gone || neighbours_of(l, i, around) > 2)
                continue;
            eliminate(l, i, around[0], around[1]);
            changed = true;
        }
    }
}

/* Choose configurations: those that were eliminated last are first. */
static void choose(layerwise *l)
{
    for (int k = l->gone - 1; k >= 0; k--) {
        layerwise_layer *layer = &l->layers[l->order[k]];
        const int a = layer->neighbours[0], b = layer->neighbours[1];
        double cost;

        layer->best = best_between(l, l->order[k], a, a >= 0 ? l->layers[a].best : 0, b,
                                   b >= 0 ? l->layers[b].best : 0, &cost);
    }
}

/* Write the layout of the choices; layers beyond its room stay whole. */
static void put_layout(const layerwise *l, uint64_t taken, char *text, size_t size)
{
    int entries = 0;

    text[0] = '\0';
    for (int i = 0; i < l->count && entries < FAST_LAYOUT_ENTRIES_MAX; i++) {
        const int kind = l->layers[i].best;

        if (kind == 0 || !(taken & UINT64_C(1) << i) ||
            strlen(text) + strlen(l->layers[i].name) + strlen(l->kind[kind - 1]->name) + 3 > size)
            continue;
        put_entry(l, i, kind, text, size);
        entries++;
    }
}

/* Leave out the layers that shards do not divide by their entries: pairs overlap, of which the
 * first one counts. */
static fast_err leave_out_unused(const layerwise *l, char *text, size_t size)
{
    fast_split_stage *stage = NULL;
    fast_split_shard *shard = NULL;
    const fast_graph *graph = l->planning->space->job.graph;
    uint64_t taken = 0;
    fast_layout_map map;
    int entry = 0;

    if (!text[0])
        return FAST_OK;
    fast_err err = fast__layout_map_parse(text, &map);
    if (!err)
        err = fast__split_stage_new(graph, 0, graph->node_count - 1, &stage);
    if (!err)
        err = fast__split_shard_new(stage, &map, l->shards, 0, &shard);
    for (int i = 0; i < l->count && !err && entry < map.count; i++)
        if (l->layers[i].best > 0 && strcmp(map.entries[entry].layers, l->layers[i].name) == 0) {
            taken |= shard->used & UINT32_C(1) << entry ? UINT64_C(1) << i : 0;
            entry++;
        }
    fast__split_shard_free(shard);
    fast__split_stage_free(stage);
    if (!err)
        put_layout(l, taken, text, size);
    return err;
}

/* Find the layout of T shards; "" if none pays. */
static fast_err find_layout(fast_planning *planning, int64_t shards, char *text, size_t size)
{
    fast_plan_space *space = planning->space;
    layerwise *l = NULL;

    FAST_TRY(fast__alloc("layers", 1, sizeof *l, &l));
    l->planning = planning;
    l->shards = shards;
    fast_err err =
        fast__alloc("edges of layers", LAYERS_MAX * LAYERS_MAX, sizeof *l->edges, &l->edges);
    if (!err) {
        const fast_split_cost *all = &space->prefixes[space->cut_count - 1];
        double speed = INFINITY;

        for (int64_t i = 0; i < space->node_count; i++)
            speed = fmin(
                speed, space->cluster->nodes[space->places[i] % space->cluster->spec_count].speed);
        l->whole =
            (double)space->job.batch * (all->forward + all->backward) / (speed > 0 ? speed : 1e18);
        list_layers(l);
        err = fill_costs(l);
    }
    if (!err) {
        reduce(l);
        choose(l);
        put_layout(l, UINT64_MAX, text, size);
        err = leave_out_unused(l, text, size);
    }
    fast__free(l->edges);
    fast__free(l);
    return err;
}

/* Offer a mesh with a layout and all micro-batches and schedules. */
static fast_err offer(fast_planning *planning, const fast_mesh *mesh, int layout)
{
    fast_plan_way way = { 0 };

    while (fast__planner_next_way(planning->space, mesh, &way)) {
        fast_plan plan;
        const fast_err err = fast__planner_start(planning->space, mesh, &way, &plan);

        if (err == FAST_EINVAL && !planning->space->job.cuts[0])
            continue;
        FAST_TRY(err);
        plan.layout = layout;
        FAST_TRY(fast__planning_offer(planning, &plan, NULL));
        fast__planner_group(planning->space, &plan);
        FAST_TRY(fast__planning_offer(planning, &plan, NULL));
    }
    return FAST_OK;
}

static fast_err search(fast_planning *planning)
{
    fast_plan_space *space = planning->space;
    char layouts[FAST_PLAN_WORKERS_MAX + 1][192];
    fast_mesh mesh = { 0, 0, 0 };

    for (int64_t t = 2; t <= space->node_count; t++) {
        layouts[t][0] = '\0';
        if (space->job.layout[0] || (space->job.mesh.tensor > 0 && t != space->job.mesh.tensor) ||
            t > FAST_PLAN_STAGES_MAX)
            continue;
        FAST_TRY(find_layout(planning, t, layouts[t], sizeof layouts[t]));
    }
    while (fast__planner_next_mesh(space, &mesh)) {
        int layout = 0;

        if (mesh.tensor > 1 && !space->job.layout[0]) {
            if (!layouts[mesh.tensor][0] ||
                fast__plan_layout_add(space, layouts[mesh.tensor], &layout))
                continue; /* no layer is worth dividing */
        }
        FAST_TRY(offer(planning, &mesh, layout));
    }
    return FAST_OK;
}

const fast_planner fast__planner_layerwise = {
    .name = "layerwise",
    .summary = "a kind of split for each layer, by dynamic programming with graph reduction "
               "(Jia et al.)",
    .missing = "a number of devices for each layer: all layers have as many shards",
    .search = search,
};
