/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement by hand (Wu et al. 2016, GNMT): a person names the layers that stages begin with
 * (`cuts`), and the model is replicated on as many nodes as there are. The micro-batches are
 * chosen, the schedule, and whether the workers of a replica or the replicas of a stage are
 * neighbours.
 */
#include "split/planner.h"

#include "split/named_cuts.h"

#include <string.h>

/* The chunks of each worker that the cuts are of. */
static int64_t chunks_of(const fast_plan_job *job)
{
    return job->chunks > 0 ? job->chunks : strcmp(job->pipeline, "interleaved") == 0 ? 2 : 1;
}

static fast_err search(fast_planning *planning)
{
    const fast_plan_space *space = planning->space;
    fast_mesh mesh = space->job.mesh;
    fast_plan_way way = { 0 };

    if (!space->job.cuts[0])
        return fast__fail(FAST_EINVAL, "planner hand: name the first layers of the later stages "
                                       "with cuts=LAYER,LAYER");
    if (mesh.pipe == 0)
        mesh.pipe = (fast__split_cut_count(space->job.cuts) + 1) / chunks_of(&space->job);
    mesh.pipe = mesh.pipe > 0 ? mesh.pipe : 1;
    mesh.tensor = mesh.tensor > 0 ? mesh.tensor : 1;
    if (mesh.data == 0)
        mesh.data = space->node_count / (mesh.pipe * mesh.tensor);
    while (mesh.data > 1 && space->job.batch % mesh.data != 0)
        mesh.data--;
    if (mesh.data == 0)
        return fast__fail(
            FAST_EINVAL, "planner hand: cuts=%.100s are of %lld stages, and there are %lld workers",
            space->job.cuts, (long long)mesh.pipe, (long long)space->node_count);
    while (fast__planner_next_way(space, &mesh, &way)) {
        fast_plan plan;

        FAST_TRY(fast__planner_start(space, &mesh, &way, &plan));
        FAST_TRY(fast__planning_offer(planning, &plan, NULL));
        fast__planner_group(space, &plan);
        FAST_TRY(fast__planning_offer(planning, &plan, NULL));
    }
    return FAST_OK;
}

const fast_planner fast__planner_hand = {
    .name = "hand",
    .summary = "stages that begin with the layers of cuts, inside of as many replicas as there are "
               "nodes for (GNMT)",
    .missing = "",
    .search = search,
};
