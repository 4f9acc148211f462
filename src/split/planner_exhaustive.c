/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every plan: all meshes, micro-batches, schedules and layouts; all cuts, and all orders of the
 * nodes that differ, as far as both together are few. Where they are many, and for the schedules
 * that 1f1b has shown the cuts of, cuts are balanced for each order, then moved one by one while
 * that makes the estimate shorter; of the orders the first ones are tried.
 *
 *     orders     sequences of classes of nodes: two nodes of a class give the same plan. Replicas
 *                are alike, and so are the shards of a stage: of sequences that differ in their
 *                order alone one is tried
 *     cuts       each choice of S - 1 of the places, or V S - 1 of an interleaved schedule
 *
 * Cost: (meshes) (micro-batches) (schedules) (orders) (cuts) estimates of a few microseconds.
 */
#include "split/planner.h"

#include <string.h>

enum { ORDERS_MAX = 5000, PLANS_MAX = 20000, CLIMB_MAX = 50 }; /* of one mesh and schedule */

/* A search of one mesh. */
typedef struct exhaustive {
    fast_planning *planning;               /* takes the plans */
    fast_plan plan;                        /* that is changed */
    bool used[FAST_PLAN_WORKERS_MAX];      /* places that have a worker */
    int64_t choice[FAST_PLAN_WORKERS_MAX]; /* class of each worker */
    int64_t orders;                        /* that were tried */
    double cuts;                           /* choices of cuts */
    bool counts;                           /* count orders only */
} exhaustive;

/* Offer the plan with all layouts. */
static fast_err offer(exhaustive *x)
{
    const int layouts = fast__planner_layouts(x->planning->space, &x->plan.mesh);

    for (x->plan.layout = 0; x->plan.layout < layouts; x->plan.layout++)
        FAST_TRY(fast__planning_offer(x->planning, &x->plan, NULL));
    return FAST_OK;
}

/* Offer the plan with all cuts of the stages from s on. */
static fast_err try_cuts(exhaustive *x, int64_t s)
{
    const fast_plan_space *space = x->planning->space;
    const int64_t S = fast__plan_stages(&x->plan);

    if (s == S - 1) {
        x->plan.cuts[s] = space->cut_count - 1;
        return offer(x);
    }
    for (int k = s > 0 ? x->plan.cuts[s - 1] + 1 : 1; k + (S - 1 - s) < space->cut_count; k++) {
        x->plan.cuts[s] = k;
        FAST_TRY(try_cuts(x, s + 1));
    }
    return FAST_OK;
}

/* Move the cuts of the plan by one place each, as long as its step gets shorter. */
static fast_err climb(exhaustive *x)
{
    int *cuts = x->plan.cuts;
    double best, tried;
    bool better = true;

    FAST_TRY(fast__planning_offer(x->planning, &x->plan, &best));
    while (better) {
        better = false;
        for (int64_t s = 0; s + 1 < fast__plan_stages(&x->plan); s++)
            for (int by = -1; by <= 1; by += 2) {
                const int at = cuts[s];

                if (at + by <= (s > 0 ? cuts[s - 1] : 0) || at + by >= cuts[s + 1])
                    continue;
                cuts[s] = at + by;
                FAST_TRY(fast__planning_offer(x->planning, &x->plan, &tried));
                if (tried < best * (1 - 1e-9)) {
                    best = tried;
                    better = true;
                } else {
                    cuts[s] = at;
                }
            }
    }
    return FAST_OK;
}

/* The nodes are chosen: try all cuts, or the balanced ones. */
static fast_err try_order(exhaustive *x, double orders)
{
    const fast_plan_space *space = x->planning->space;

    if (space->job.cuts[0])
        return offer(x);
    if (x->cuts * orders <= (x->plan.way.pipeline == FAST_PIPELINE_1F1B ? PLANS_MAX : CLIMB_MAX))
        return try_cuts(x, 0);
    const int layouts = fast__planner_layouts(space, &x->plan.mesh);
    for (x->plan.layout = 0; x->plan.layout < layouts; x->plan.layout++) {
        const fast_err err = fast__planner_balance(space, &x->plan);

        if (err)
            return err == FAST_EINVAL ? FAST_OK : err;
        FAST_TRY(climb(x));
    }
    return FAST_OK;
}

/* May worker i have this class? Shards of a stage, and replicas, are in one order only. */
static bool in_order(const exhaustive *x, int64_t i, int64_t class)
{
    const fast_mesh *mesh = &x->plan.mesh;
    const int64_t parts = mesh->pipe * mesh->tensor;
    const fast_mesh_place at = fast__mesh_place(mesh, i);

    if (i > 0 && at.tensor > 0 && class < x->choice[i - 1])
        return false;
    /* Equal to the replica before up to this worker: not below it here. */
    for (int64_t k = i - i % parts; i >= parts && k < i; k++)
        if (x->choice[k] != x->choice[k - parts])
            return true;
    return i < parts || class >= x->choice[i - parts];
}

/* Choose the nodes of the workers from i on. */
static fast_err try_nodes(exhaustive *x, int64_t i, double orders)
{
    const fast_plan_space *space = x->planning->space;

    if (x->orders >= ORDERS_MAX)
        return FAST_OK;
    if (i == fast__mesh_size(&x->plan.mesh)) {
        x->orders++;
        return x->counts ? FAST_OK : try_order(x, orders);
    }
    for (int64_t class = 0; class < space->node_count; class ++) {
        int64_t place = class;

        if (space->classes[class] != class || !in_order(x, i, class))
            continue;
        while (place < space->node_count && (x->used[place] || space->classes[place] != class))
            place++;
        if (place == space->node_count)
            continue;
        x->used[place] = true;
        x->choice[i] = class;
        x->plan.nodes[i] = (int16_t)space->places[place];
        const fast_err err = try_nodes(x, i + 1, orders);
        x->used[place] = false;
        FAST_TRY(err);
    }
    return FAST_OK;
}

/* The number of choices of S - 1 of n places. */
static double choices(int64_t n, int64_t k)
{
    double count = 1;

    for (int64_t i = 0; i < k; i++)
        count *= (double)(n - i) / (double)(i + 1);
    return count;
}

/* All plans of a mesh. */
static fast_err try_mesh(fast_planning *planning, const fast_mesh *mesh)
{
    exhaustive x = { .planning = planning };
    fast_plan_way way = { 0 };

    while (fast__planner_next_way(planning->space, mesh, &way)) {
        const fast_err err = fast__planner_start(planning->space, mesh, &way, &x.plan);

        if (err == FAST_EINVAL && !planning->space->job.cuts[0])
            continue; /* it cannot be cut so */
        FAST_TRY(err);
        x.cuts = choices(planning->space->cut_count - 2, fast__plan_stages(&x.plan) - 1);
        x.counts = true;
        x.orders = 0;
        FAST_TRY(try_nodes(&x, 0, 0));
        const double orders = (double)x.orders;
        x.counts = false;
        x.orders = 0;
        FAST_TRY(try_nodes(&x, 0, orders));
    }
    return FAST_OK;
}

static fast_err search(fast_planning *planning)
{
    fast_mesh mesh = { 0, 0, 0 };

    while (fast__planner_next_mesh(planning->space, &mesh))
        FAST_TRY(try_mesh(planning, &mesh));
    return FAST_OK;
}

const fast_planner fast__planner_exhaustive = {
    .name = "exhaustive",
    .summary =
        "every mesh, cut, layout, schedule, number of micro-batches and order of uneven nodes",
    .missing = "",
    .search = search,
};
