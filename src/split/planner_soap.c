/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOAP by Markov chain Monte Carlo (FlexFlow, Jia et al. 2019): a plan is changed at random, and
 * the change is accepted with probability
 *
 *     min(1, exp(beta (1 - step(new) / step(old))))
 *
 * where the execution simulator is a dry run. The dimensions of SOAP are those of the mesh and the
 * layout: samples (data, and layouts that split them), operations (pipe and its cuts), attributes
 * and parameters (tensor and layouts). A change is of one of them: another mesh and its cuts, a cut
 * moved by one place, other micro-batches or another schedule, another layout, two nodes exchanged.
 * The chain starts with each of the standard meshes of one dimension, of which the best continues,
 * as FlexFlow starts with data parallelism.
 *
 * Cost: `budget` dry runs of about a millisecond.
 */
#include "split/planner.h"

#include <math.h>

static const fast_option options[] = {
    FAST_OPT_INT(fast_planner_config, budget, "400", 1, 1e6, "dry runs"),
    FAST_OPT_REAL(fast_planner_config, beta, "20", 0, 1e6,
                  "of the acceptance exp(beta (1 - new / old)); large is greedy"),
    FAST_OPT_END,
};

/* Draw a number below `count`. */
static int64_t below(fast_planning *planning, int64_t count)
{
    return fast__rng_below(&planning->rng, (uint64_t)count);
}

/* Draw a mesh of those that the job allows. */
static fast_mesh draw_mesh(fast_planning *planning)
{
    fast_mesh mesh = { 0, 0, 0 }, drawn = { 0, 0, 0 };
    int64_t count = 0;

    while (fast__planner_next_mesh(planning->space, &mesh))
        if (below(planning, ++count) == 0)
            drawn = mesh;
    return drawn;
}

/* Draw micro-batches and a schedule; none of them is that of 0 micro-batches. */
static fast_plan_way draw_way(fast_planning *planning, const fast_mesh *mesh)
{
    fast_plan_way way = { 0 }, drawn = { 0 };
    int64_t count = 0;

    while (fast__planner_next_way(planning->space, mesh, &way))
        if (below(planning, ++count) == 0)
            drawn = way;
    return drawn;
}

/* Take another mesh, with balanced cuts and the cluster's places. */
static fast_err change_mesh(fast_planning *planning, fast_plan *plan)
{
    const fast_mesh mesh = draw_mesh(planning);
    const fast_plan_way way =
        mesh.data > 0 ? draw_way(planning, &mesh) : (fast_plan_way){ .micro_batches = 0 };

    if (way.micro_batches == 0)
        return FAST_OK;
    const fast_err err = fast__planner_start(planning->space, &mesh, &way, plan);
    if (!err && below(planning, 2) == 0)
        fast__planner_group(planning->space, plan);
    return err == FAST_EINVAL ? FAST_OK : err;
}

/* Move a cut by one place. */
static void change_cut(fast_planning *planning, fast_plan *plan)
{
    if (plan->mesh.pipe == 1 || planning->space->job.cuts[0])
        return;
    const int64_t s = below(planning, fast__plan_stages(plan) - 1);
    const int at = plan->cuts[s] + (below(planning, 2) == 0 ? -1 : 1);

    if (at > (s > 0 ? plan->cuts[s - 1] : 0) && at < plan->cuts[s + 1])
        plan->cuts[s] = at;
}

/* Take other micro-batches and another schedule. Other chunks have other cuts. */
static fast_err change_way(fast_planning *planning, fast_plan *plan)
{
    const int64_t stages = fast__plan_stages(plan);
    fast_plan changed = *plan;

    changed.way = draw_way(planning, &plan->mesh);
    if (changed.way.micro_batches > 0 && fast__plan_stages(&changed) != stages) {
        const fast_err err = fast__planner_balance(planning->space, &changed);

        if (err)
            return err == FAST_EINVAL ? FAST_OK : err;
    }
    *plan = changed;
    return FAST_OK;
}

/* Exchange the nodes of two workers, or take a node that has none. */
static void change_nodes(fast_planning *planning, fast_plan *plan)
{
    const int64_t workers = fast__mesh_size(&plan->mesh);
    const int64_t i = below(planning, workers),
                  place = below(planning, planning->space->node_count);
    const int16_t node = (int16_t)planning->space->places[place];

    for (int64_t k = 0; k < workers; k++)
        if (plan->nodes[k] == node) {
            plan->nodes[k] = plan->nodes[i];
            break;
        }
    plan->nodes[i] = node;
}

/* Change a plan at random. */
static fast_err change(fast_planning *planning, fast_plan *plan)
{
    const int layouts = fast__planner_layouts(planning->space, &plan->mesh);

    switch (below(planning, 5)) {
    case 0:
        return change_mesh(planning, plan);
    case 1:
        return change_way(planning, plan);
    case 2:
        plan->layout = (int)below(planning, layouts);
        return FAST_OK;
    case 3:
        change_nodes(planning, plan);
        return FAST_OK;
    default:
        change_cut(planning, plan);
        return FAST_OK;
    }
}

/* Start with the best of the meshes of one dimension. */
static fast_err start(fast_planning *planning, fast_plan *best, double *seconds)
{
    fast_mesh mesh = { 0, 0, 0 };

    *seconds = INFINITY;
    while (fast__planner_next_mesh(planning->space, &mesh)) {
        const int dimensions = (mesh.data > 1) + (mesh.pipe > 1) + (mesh.tensor > 1);
        fast_plan_way way = { 0 };
        fast_plan plan;
        double tried;

        if ((dimensions > 1 && isfinite(*seconds)) ||
            !fast__planner_next_way(planning->space, &mesh, &way))
            continue;
        const fast_err err = fast__planner_start(planning->space, &mesh, &way, &plan);
        if (err == FAST_EINVAL && !planning->space->job.cuts[0])
            continue;
        FAST_TRY(err);
        FAST_TRY(fast__planning_measure(planning, &plan, &tried));
        if (tried < *seconds || best->mesh.data == 0) {
            *best = plan;
            *seconds = tried;
        }
    }
    return FAST_OK;
}

static fast_err search(fast_planning *planning)
{
    fast_plan now = { .mesh = { 0, 0, 0 } };
    double seconds;

    FAST_TRY(start(planning, &now, &seconds));
    for (int64_t i = 0; i < planning->config.budget && now.mesh.data > 0; i++) {
        fast_plan plan = now;
        double tried;

        FAST_TRY(change(planning, &plan));
        if (plan.way.micro_batches == 0)
            continue;
        FAST_TRY(fast__planning_measure(planning, &plan, &tried));
        const double accept = isfinite(seconds) ? exp(planning->config.beta * (1 - tried / seconds))
                                                : isfinite(tried);
        if (tried <= seconds || (double)fast__rng_uniform(&planning->rng) < accept) {
            now = plan;
            seconds = tried;
        }
    }
    return FAST_OK;
}

const fast_planner fast__planner_soap = {
    .name = "soap",
    .summary = "random changes of meshes, cuts, layouts and nodes by Markov chain Monte Carlo "
               "(FlexFlow)",
    .missing = "a degree of each split for each operator: the mesh is one for all; a simulation "
               "that only repeats what a change affects",
    .options = options,
    .measures = true,
    .search = search,
};
