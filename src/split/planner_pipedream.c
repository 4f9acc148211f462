/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PipeDream's partition (Narayanan et al. 2019): stages, each on D workers, by dynamic programming
 * for the steady state, in which the slowest stage or link decides:
 *
 *     best(s, j) = min over i < j of max(best(s - 1, i), time(i, j, s), 2 a_i beta_s)
 *     time(i, j, s) = max(sum of the layers / speed of stage s, 2 (D - 1) / D |w| beta)
 *
 * a_i are the activations that cross cut i. Levels of the cluster: workers are sorted by zone, then
 * by speed, and the replicas of a stage are neighbours in that order, so that weights are exchanged
 * inside a zone and activations between zones. Of all D and S, micro-batches and schedules the
 * estimate decides; interleaved stages go around the nodes. Profiles of layers are their counted
 * operations.
 *
 * Cost: S n^2 steps for each D and S.
 */
#include "split/planner.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* A place of a worker, to be sorted. */
typedef struct pipedream_place {
    int16_t node; /* where it is */
    int zone;     /* of the node */
    double speed; /* of the node */
} pipedream_place;

/* The best way to cover a prefix. */
typedef struct pipedream_cell {
    double slowest; /* seconds of its slowest stage or link; INFINITY: there is no way */
    int from;       /* cut before its last stage */
} pipedream_cell;

/* The order of workers: zones together, fast nodes first. */
static int compare(const void *a, const void *b)
{
    const pipedream_place *x = a, *y = b;

    if (x->zone != y->zone)
        return x->zone - y->zone;
    return x->speed > y->speed ? -1 : x->speed < y->speed ? 1 : x->node - y->node;
}

/* Put the replicas of each stage on neighbours. */
static fast_err place(const fast_plan_space *space, fast_plan *plan)
{
    pipedream_place *places = NULL;

    FAST_TRY(fast__alloc("places", space->node_count, sizeof *places, &places));
    for (int64_t i = 0; i < space->node_count; i++) {
        const fast_node_spec *node =
            &space->cluster->nodes[space->places[i] % space->cluster->spec_count];

        places[i] = (pipedream_place){ (int16_t)space->places[i], node->zone, node->speed };
    }
    qsort(places, (size_t)space->node_count, sizeof *places, compare);
    for (int64_t s = 0; s < plan->mesh.pipe; s++)
        for (int64_t d = 0; d < plan->mesh.data; d++)
            plan->nodes[d * plan->mesh.pipe + s] = places[s * plan->mesh.data + d].node;
    fast__free(places);
    return FAST_OK;
}

/* Seconds of a byte between the first replicas of two stages, or of two replicas of one. */
static double byte_of(const fast_plan_space *space, int64_t a, int64_t b)
{
    const fast_sim_link *link = fast__plan_link(space, a, b);

    return fmax(link->ns_per_byte, link->stream_ns_per_byte) * 1e-9;
}

/* Seconds of a stage with the nodes between two cuts, for all samples of a step. */
static double stage_time(const fast_plan_space *space, const fast_plan *plan, int64_t s, int i,
                         int j)
{
    const fast_split_cost *a = &space->prefixes[i], *b = &space->prefixes[j];
    const double samples = (double)space->job.batch / (double)plan->mesh.data;
    const double operations = b->forward - a->forward + b->backward - a->backward;
    const double bytes = 4 * (double)(b->params - a->params);
    const int64_t D = plan->mesh.data, S = plan->mesh.pipe, first = s % S;
    double slowest = 0, beta = 0;

    for (int64_t d = 0; d < D; d++) {
        const double speed = fast__plan_node(space, plan, d * S + first)->speed;

        slowest = fmax(slowest, speed > 0 ? samples * operations / speed : 0);
        beta = fmax(beta, byte_of(space, plan->nodes[first], plan->nodes[d * S + first]));
    }
    return fmax(slowest, D > 1 ? 2 * (double)(D - 1) / (double)D * bytes * beta : 0);
}

/* Fill the row of stage s. */
static void fill_row(const fast_plan_space *space, const fast_plan *plan, int64_t s,
                     const pipedream_cell *before, pipedream_cell *row)
{
    const double samples = (double)space->job.batch / (double)plan->mesh.data;
    const int64_t S = plan->mesh.pipe;
    const double beta = s > 0 ? byte_of(space, plan->nodes[(s - 1) % S], plan->nodes[s % S]) : 0;

    for (int j = 0; j < space->cut_count; j++) {
        row[j] = (pipedream_cell){ .slowest = INFINITY };
        for (int i = 0; i < j; i++) {
            const double crossing =
                s > 0
                    ? 2 * 4 * samples * (double)space->job.graph->nodes[space->cuts[i]].count * beta
                    : 0;
            const double slowest =
                fmax(fmax(before[i].slowest, crossing),
                     isfinite(before[i].slowest) ? stage_time(space, plan, s, i, j) : INFINITY);

            if (space->prefixes[j].params > space->prefixes[i].params && slowest < row[j].slowest)
                row[j] = (pipedream_cell){ slowest, i };
        }
    }
}

/* Set the cuts of a plan whose workers are placed; FAST_EINVAL if it cannot be cut. */
static fast_err partition(const fast_plan_space *space, fast_plan *plan)
{
    const int n = space->cut_count;
    const int64_t S = fast__plan_stages(plan);
    pipedream_cell *cells = NULL;
    int at = n - 1;

    FAST_TRY(fast__alloc("partitions", (S + 1) * n, sizeof *cells, &cells));
    for (int j = 0; j < n; j++)
        cells[j] = (pipedream_cell){ .slowest = j == 0 ? 0 : INFINITY };
    for (int64_t s = 0; s < S; s++)
        fill_row(space, plan, s, cells + s * n, cells + (s + 1) * n);
    const bool found = isfinite(cells[S * n + at].slowest);
    for (int64_t s = S; s > 0 && found; s--) {
        plan->cuts[s - 1] = at;
        at = cells[s * n + at].from;
    }
    fast__free(cells);
    return found ? FAST_OK : fast__fail(FAST_EINVAL, "no partition into %lld stages", (long long)S);
}

static fast_err search(fast_planning *planning)
{
    const fast_plan_space *space = planning->space;
    fast_mesh mesh = { 0, 0, 0 };

    while (fast__planner_next_mesh(space, &mesh)) {
        fast_plan_way way = { 0 };

        if (mesh.tensor > 1)
            continue;
        while (fast__planner_next_way(space, &mesh, &way)) {
            fast_plan plan;
            fast_err err = fast__planner_start(space, &mesh, &way, &plan);

            if (!err)
                err = place(space, &plan);
            if (!err && !space->job.cuts[0])
                err = partition(space, &plan);
            if (err == FAST_EINVAL)
                continue;
            FAST_TRY(err);
            FAST_TRY(fast__planning_offer(planning, &plan, NULL));
        }
    }
    return FAST_OK;
}

const fast_planner fast__planner_pipedream = {
    .name = "pipedream",
    .summary = "stages and replicas by dynamic programming over layers, zones and speeds "
               "(PipeDream); no shards",
    .missing = "stages with different numbers of replicas",
    .search = search,
};
