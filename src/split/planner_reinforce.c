/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement by reinforcement learning (Mirhoseini et al. 2017): a policy draws plans, and learns
 * from the time of their steps by REINFORCE,
 *
 *     reward = -sqrt(seconds of a step)          measured by a dry run
 *     theta += rate (reward - baseline) / scale grad log p(plan)
 *
 * with the mean of the rewards so far as the baseline, and their deviation as the scale. The policy
 * is a product of softmax distributions: the mesh, the micro-batches, the schedule, the layout, how
 * far each cut is from its balanced place, and the node of each worker among those that are free:
 *
 *     logits    mesh[m]  micro[M]  schedule[k]  layout[l]  cut[s][-2 .. 2]  node[worker][place]
 *
 * An update is made after each `batch` of plans. A plan that does not fit is as slow as the slowest
 * so far, times two.
 */
#include "split/planner.h"

#include "base/memory.h"

#include <math.h>

enum { MESHES = 128, MICROS = 64, SCHEDULES = 16, SHIFTS = 5 };

static const fast_option options[] = {
    FAST_OPT_INT(fast_planner_config, budget, "400", 1, 1e6, "plans that are drawn"),
    FAST_OPT_REAL(fast_planner_config, rate, "0.3", 0, 100, "learning rate of the policy"),
    FAST_OPT_INT(fast_planner_config, batch, "10", 1, 1000, "plans of an update"),
    FAST_OPT_END,
};

/* The policy: logits, one array after the other. */
typedef struct reinforce {
    fast_planning *planning;            /* takes the plans */
    fast_mesh meshes[MESHES];           /* that can be drawn */
    int64_t mesh_count;                 /* number of meshes */
    int64_t places;                     /* of workers */
    int64_t micro_at, schedule_at;      /* where logits start; the meshes' at 0 */
    int64_t layout_at, cut_at, node_at; /* where logits start */
    int64_t size;                       /* logits of all */
    double *logits;                     /* [size] */
    double *traces;                     /* [batch][size] grad log p of each plan of the batch */
    double rewards[1000];               /* of the batch */
    double mean, square;                /* of all rewards so far */
    int64_t count;                      /* of rewards so far */
    double slowest;                     /* seconds of the slowest plan so far */
} reinforce;

/* Draw one of `count` choices by their logits, of which `open` says which can be drawn, and add the
 * gradient of its log probability to `trace`. */
static int64_t draw(reinforce *r, int64_t at, int64_t count, const bool *open, double *trace)
{
    double most = -INFINITY, sum = 0, u;
    int64_t drawn = -1;

    for (int64_t i = 0; i < count; i++)
        if (!open || open[i])
            most = fmax(most, r->logits[at + i]);
    for (int64_t i = 0; i < count; i++)
        sum += !open || open[i] ? exp(r->logits[at + i] - most) : 0;
    u = (double)fast__rng_uniform(&r->planning->rng) * sum;
    for (int64_t i = 0; i < count; i++) {
        if (open && !open[i])
            continue;
        const double p = exp(r->logits[at + i] - most);

        trace[at + i] -= p / sum;
        if (u >= 0)
            drawn = i;
        u -= p;
    }
    FAST_ASSERT(drawn >= 0);
    trace[at + drawn] += 1;
    return drawn;
}

/* Draw the micro-batches, only numbers that divide the samples, then a schedule of those that they
 * allow. 0 micro-batches: the mesh has no schedule. */
static fast_plan_way draw_way(reinforce *r, const fast_mesh *mesh, double *trace)
{
    fast_plan_way way = { 0 }, allowed[SCHEDULES];
    bool open[MICROS] = { false };
    int64_t any = 0, count = 0;

    while (fast__planner_next_way(r->planning->space, mesh, &way))
        if (way.micro_batches <= MICROS) {
            open[way.micro_batches - 1] = true;
            any = way.micro_batches;
        }
    if (any == 0)
        return (fast_plan_way){ .micro_batches = 0 };
    const int64_t drawn = 1 + draw(r, r->micro_at, MICROS, open, trace);
    way = (fast_plan_way){ .micro_batches = 0 };
    while (fast__planner_next_way(r->planning->space, mesh, &way))
        if (way.micro_batches == drawn && count < SCHEDULES)
            allowed[count++] = way;
    return allowed[draw(r, r->schedule_at, count, NULL, trace)];
}

/* Draw the nodes of all workers. */
static void draw_nodes(reinforce *r, fast_plan *plan, double *trace)
{
    bool open[FAST_PLAN_WORKERS_MAX];

    for (int64_t i = 0; i < r->places; i++)
        open[i] = true;
    for (int64_t i = 0; i < fast__mesh_size(&plan->mesh); i++) {
        const int64_t place = draw(r, r->node_at + i * r->places, r->places, open, trace);

        plan->nodes[i] = (int16_t)r->planning->space->places[place];
        open[place] = false;
    }
}

/* Draw how far cuts are from where they balance the stages. */
static void draw_cuts(reinforce *r, fast_plan *plan, double *trace)
{
    for (int64_t s = 0; s < fast__plan_stages(plan) - 1 && !r->planning->space->job.cuts[0]; s++) {
        const int shift = (int)draw(r, r->cut_at + s * SHIFTS, SHIFTS, NULL, trace) - SHIFTS / 2;
        const int at = plan->cuts[s] + shift;

        if (at > (s > 0 ? plan->cuts[s - 1] : 0) && at < plan->cuts[s + 1])
            plan->cuts[s] = at;
    }
}

/* Draw a plan; false if it cannot be made. */
static fast_err draw_plan(reinforce *r, fast_plan *plan, double *trace, bool *made)
{
    const fast_plan_space *space = r->planning->space;
    const fast_mesh mesh = r->meshes[draw(r, 0, r->mesh_count, NULL, trace)];
    const fast_plan_way way = draw_way(r, &mesh, trace);

    *made = false;
    if (way.micro_batches == 0)
        return FAST_OK;
    fast_err err = fast__planner_start(space, &mesh, &way, plan);
    if (err == FAST_EINVAL && !space->job.cuts[0])
        return FAST_OK;
    FAST_TRY(err);
    draw_nodes(r, plan, trace);
    err = space->job.cuts[0] ? FAST_OK : fast__planner_balance(space, plan);
    if (err == FAST_EINVAL)
        return FAST_OK;
    FAST_TRY(err);
    draw_cuts(r, plan, trace);
    plan->layout = (int)draw(r, r->layout_at, fast__planner_layouts(space, &mesh), NULL, trace);
    *made = true;
    return FAST_OK;
}

/* Learn from a batch. */
static void learn(reinforce *r, int64_t count)
{
    const double deviation = sqrt(
        fmax(r->square / (double)r->count - r->mean / (double)r->count * r->mean / (double)r->count,
             1e-18));

    for (int64_t i = 0; i < count; i++) {
        const double advantage = (r->rewards[i] - r->mean / (double)r->count) / deviation;

        for (int64_t k = 0; k < r->size; k++)
            r->logits[k] += r->planning->config.rate * advantage * r->traces[i * r->size + k];
    }
}

/* Draw, measure and learn. */
static fast_err run(reinforce *r)
{
    const fast_planner_config *config = &r->planning->config;

    for (int64_t n = 0; n < config->budget;) {
        int64_t i = 0;

        for (int64_t k = 0; k < r->size * config->batch; k++)
            r->traces[k] = 0;
        for (; i < config->batch && n < config->budget; i++, n++) {
            fast_plan plan;
            double seconds = INFINITY;
            bool made;

            FAST_TRY(draw_plan(r, &plan, r->traces + i * r->size, &made));
            if (made)
                FAST_TRY(fast__planning_measure(r->planning, &plan, &seconds));
            if (isfinite(seconds))
                r->slowest = fmax(r->slowest, seconds);
            r->rewards[i] = -sqrt(isfinite(seconds) ? seconds : 2 * r->slowest);
            r->mean += r->rewards[i];
            r->square += r->rewards[i] * r->rewards[i];
            r->count++;
        }
        learn(r, i);
    }
    return FAST_OK;
}

/* Lay out the logits. */
static fast_err open_policy(reinforce *r)
{
    const fast_plan_space *space = r->planning->space;
    fast_mesh mesh = { 0, 0, 0 };

    while (r->mesh_count < MESHES && fast__planner_next_mesh(space, &mesh))
        r->meshes[r->mesh_count++] = mesh;
    r->places = space->node_count;
    r->micro_at = r->mesh_count;
    r->schedule_at = r->micro_at + MICROS;
    r->layout_at = r->schedule_at + SCHEDULES;
    r->cut_at = r->layout_at + FAST_PLAN_LAYOUTS_MAX;
    r->node_at = r->cut_at + FAST_PLAN_STAGES_MAX * SHIFTS;
    r->size = r->node_at + r->places * r->places;
    FAST_TRY(fast__alloc("a policy", r->size, sizeof *r->logits, &r->logits));
    return fast__alloc("gradients of a policy", r->size * r->planning->config.batch,
                       sizeof *r->traces, &r->traces);
}

static fast_err search(fast_planning *planning)
{
    reinforce *r = NULL;

    FAST_TRY(fast__alloc("a policy", 1, sizeof *r, &r));
    r->planning = planning;
    r->slowest = 1e-9;
    fast_err err = open_policy(r);
    if (!err && r->mesh_count > 0)
        err = run(r);
    fast__free(r->logits);
    fast__free(r->traces);
    fast__free(r);
    return err;
}

const fast_planner fast__planner_reinforce = {
    .name = "reinforce",
    .summary = "a policy over meshes, cuts and nodes that learns from the time of steps "
               "(REINFORCE)",
    .missing = "a recurrent network as the policy, and devices of single operators",
    .options = options,
    .measures = true,
    .search = search,
};
