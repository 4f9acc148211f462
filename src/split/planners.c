/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of planners, and what they share: plans that are offered, retained by their shape,
 * and measured at the end.
 *
 *     offer     estimate --fits--> the best of its shape?
 *                  |
 *                  +--too large--> zero:stage=1, 2, 3, then recomputation, then both: the first
 *                                  that fits and is the fastest
 *     end       dry runs of the best shapes by their estimates; sort by time
 *
 * Balanced cuts, of S stages over n places with speeds v_s (Narayanan et al. 2019):
 *
 *     best(s, j) = min over i < j of max(best(s - 1, i), seconds(i, j) / v_s)
 */
#include "split/planner.h"

#include "base/memory.h"
#include "split/named_cuts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRY_STANDARD = 48, MICRO_MAX = 64, CHUNKS_MAX = 4, WATCH_EACH = 256 };

const fast_planner *const fast__planners[] = {
    &fast__planner_exhaustive, &fast__planner_pipedream,
    &fast__planner_layerwise,  &fast__planner_soap,
    &fast__planner_reinforce,  &fast__planner_list,
    &fast__planner_hand,       NULL,
};

/* Names of the planners, for fast__name_find(). */
static const char *planner_name(const void *planners, int64_t i)
{
    return ((const fast_planner *const *)planners)[i]->name;
}

/* Read "name:key=value". */
static fast_err read_spec(const char *spec, fast_planning *out)
{
    char name[64], where[96];
    const char *rest = NULL;
    int64_t count = 0;

    while (fast__planners[count])
        count++;
    FAST_TRY(fast__spec_split(spec[0] ? spec : fast__planners[0]->name, name, sizeof name, &rest));
    const int64_t i = fast__name_find(name, planner_name, fast__planners, count, NULL);
    if (i < 0)
        return fast__name_unknown("planner", name, planner_name, fast__planners, count);
    out->planner = fast__planners[i];
    snprintf(where, sizeof where, "planner %s", name);
    if (out->planner->options)
        fast__options_default(out->planner->options, &out->config);
    return fast__options_parse(where, out->planner->options, &out->config, rest);
}

bool fast__planner_next_mesh(const fast_plan_space *space, fast_mesh *mesh)
{
    const fast_plan_job *job = &space->job;
    const int64_t N = space->node_count, named = fast__split_cut_count(job->cuts) + 1;
    const int64_t stages =
        space->cut_count - 1 < FAST_PLAN_STAGES_MAX ? space->cut_count - 1 : FAST_PLAN_STAGES_MAX;

    if (mesh->data == 0)
        *mesh = (fast_mesh){ 1, 1, 0 };
    for (;;) {
        mesh->tensor++;
        if (mesh->tensor > N) {
            mesh->tensor = 1;
            mesh->pipe++;
        }
        if (mesh->pipe > stages || mesh->pipe > N) {
            mesh->pipe = 1;
            mesh->data++;
        }
        if (mesh->data > N)
            return false;
        const int64_t size = fast__mesh_size(mesh);
        if (size > N || (job->all_workers && size != N) || job->batch % mesh->data != 0 ||
            (job->mesh.data > 0 && mesh->data != job->mesh.data) ||
            (job->mesh.pipe > 0 && mesh->pipe != job->mesh.pipe) ||
            (job->mesh.tensor > 0 && mesh->tensor != job->mesh.tensor) ||
            (job->cuts[0] && (named % mesh->pipe != 0 || (mesh->pipe == 1 && named > 1))))
            continue;
        return true;
    }
}

/* The next number of micro-batches above `count`; 0 behind the last. */
static int64_t next_micro(const fast_plan_space *space, const fast_mesh *mesh, int64_t count)
{
    const fast_plan_job *job = &space->job;
    const int64_t samples = job->batch / mesh->data;

    if (job->micro_batches > 0)
        return count == 0 && samples % job->micro_batches == 0 ? job->micro_batches : 0;
    for (count++; count <= samples && count <= MICRO_MAX; count++)
        if (samples % count == 0)
            return count;
    return 0;
}

/* The number of a name in a list "a|b|c"; -1: it is not in it. */
static int choice_of(const char *list, const char *name)
{
    for (int i = 0;; i++) {
        const size_t length = strcspn(list, "|");

        if (strlen(name) == length && strncmp(list, name, length) == 0)
            return i;
        if (!list[length])
            return -1;
        list += length + 1;
    }
}

/* Does the schedule that is given rule out a mesh or a number of micro-batches, whatever the stages
 * are? ampnet has no order of messages, which shards need; pipedream updates after each batch. */
static bool rules_out(const fast_plan_space *space, const fast_mesh *mesh, const fast_plan_way *way)
{
    const int given = choice_of(FAST_PIPELINE_CHOICES, space->job.pipeline);

    return (given == FAST_PIPELINE_AMPNET && mesh->tensor > 1) ||
           (given == FAST_PIPELINE_PIPEDREAM && way->micro_batches > 1);
}

/* Can the stages of a mesh have a schedule, with the cuts that the job names? */
static bool can_be(const fast_plan_space *space, const fast_mesh *mesh, const fast_plan_way *way)
{
    const fast_plan_job *job = &space->job;
    const int64_t stages = mesh->pipe * way->chunks, M = way->micro_batches;

    if (stages > FAST_PLAN_STAGES_MAX || stages > space->cut_count - 1 ||
        rules_out(space, mesh, way) ||
        (job->cuts[0] && stages != fast__split_cut_count(job->cuts) + 1))
        return false;
    switch (way->pipeline) {
    case FAST_PIPELINE_INTERLEAVED:
        return way->chunks > 1 && M % mesh->pipe == 0 &&
               (job->chunks == 0 || way->chunks == job->chunks);
    case FAST_PIPELINE_ZERO_BUBBLE:
        return !job->undivided;
    case FAST_PIPELINE_2BW:
        return M >= (job->delay > 1 ? job->delay : 1) * (mesh->pipe - 1);
    default:
        return true;
    }
}

/* Set the next schedule that was not tried yet with the way's micro-batches; false behind the last.
 * Without stages there is one; those that are never drained are tried by name alone. */
static bool next_schedule(const fast_plan_space *space, const fast_mesh *mesh, fast_plan_way *way)
{
    static const fast_pipeline searched[] = { FAST_PIPELINE_1F1B, FAST_PIPELINE_GPIPE,
                                              FAST_PIPELINE_ZERO_BUBBLE,
                                              FAST_PIPELINE_INTERLEAVED };
    const int searched_count = mesh->pipe == 1 ? 1 : (int)(sizeof searched / sizeof *searched);
    const char *name = mesh->pipe > 1 ? space->job.pipeline : "";
    const fast_pipeline given = (fast_pipeline)choice_of(FAST_PIPELINE_CHOICES, name);
    int i = 0;

    if (way->chunks > 0 && way->pipeline == FAST_PIPELINE_INTERLEAVED) {
        const int64_t most = space->job.chunks > 0 ? space->job.chunks : CHUNKS_MAX;

        for (way->chunks++; way->chunks <= most; way->chunks++)
            if (can_be(space, mesh, way))
                return true;
    }
    if (way->chunks > 0 && name[0])
        return false;
    while (way->chunks > 0 && searched[i] != way->pipeline)
        i++;
    for (i += way->chunks > 0; i < (name[0] ? 1 : searched_count); i++) {
        way->pipeline = name[0] ? given : searched[i];
        way->chunks = 1;
        if (way->pipeline == FAST_PIPELINE_INTERLEAVED)
            return next_schedule(space, mesh, way);
        if (can_be(space, mesh, way))
            return true;
    }
    return false;
}

bool fast__planner_next_way(const fast_plan_space *space, const fast_mesh *mesh, fast_plan_way *way)
{
    for (;;) {
        if (way->micro_batches > 0 && next_schedule(space, mesh, way))
            return true;
        way->micro_batches = next_micro(space, mesh, way->micro_batches);
        way->chunks = 0;
        if (way->micro_batches == 0)
            return false;
    }
}

int fast__planner_layouts(const fast_plan_space *space, const fast_mesh *mesh)
{
    return mesh->tensor > 1 ? space->layout_count : 1;
}

/* Seconds of the nodes between two cuts on a node that makes `speed` operations a second. */
static double seconds_between(const fast_plan_space *space, int i, int j, double speed)
{
    const fast_split_cost *a = &space->prefixes[i], *b = &space->prefixes[j];
    const double operations = b->forward - a->forward + b->backward - a->backward;

    return speed > 0 ? operations / speed : operations * 1e-12;
}

/* The best way to cover a prefix with some stages. */
typedef struct balance_cell {
    double slowest;  /* seconds of its slowest stage; INFINITY: there is no way */
    double crossing; /* floats that cross its cuts */
    int from;        /* cut before its last stage */
} balance_cell;

/* Fill the row of stage s, whose node has this speed. */
static void balance_row(const fast_plan_space *space, const balance_cell *before, double speed,
                        balance_cell *row)
{
    const fast_graph *graph = space->job.graph;

    for (int j = 0; j < space->cut_count; j++) {
        row[j] = (balance_cell){ .slowest = INFINITY };
        for (int i = 0; i < j; i++) {
            const double slowest = fmax(before[i].slowest, seconds_between(space, i, j, speed));
            const double crossing = before[i].crossing + (double)graph->nodes[space->cuts[j]].count;

            if (space->prefixes[j].params == space->prefixes[i].params || !isfinite(slowest) ||
                slowest > row[j].slowest ||
                (slowest >= row[j].slowest && crossing > row[j].crossing))
                continue;
            row[j] = (balance_cell){ slowest, crossing, i };
        }
    }
}

fast_err fast__planner_balance(const fast_plan_space *space, fast_plan *plan)
{
    const int64_t S = fast__plan_stages(plan), parts = plan->mesh.pipe * plan->mesh.tensor;
    const int n = space->cut_count;
    balance_cell *cells = NULL;
    int at = n - 1;

    FAST_TRY(fast__alloc("cuts", (S + 1) * n, sizeof *cells, &cells));
    for (int j = 0; j < n; j++)
        cells[j] = (balance_cell){ .slowest = j == 0 ? 0 : INFINITY };
    for (int64_t s = 0; s < S; s++) {
        const int64_t first = s % plan->mesh.pipe * plan->mesh.tensor;
        double speed = INFINITY;

        for (int64_t d = 0; d < plan->mesh.data; d++)
            for (int64_t t = 0; t < plan->mesh.tensor; t++)
                speed = fmin(speed, fast__plan_node(space, plan, d * parts + first + t)->speed);
        balance_row(space, cells + s * n, speed, cells + (s + 1) * n);
    }
    const bool found = isfinite(cells[S * n + at].slowest);
    for (int64_t s = S; s > 0 && found; s--) {
        plan->cuts[s - 1] = at;
        at = cells[s * n + at].from;
    }
    fast__free(cells);
    return found
               ? FAST_OK
               : fast__fail(FAST_EINVAL, "the model cannot be cut into %lld stages", (long long)S);
}

void fast__planner_group(const fast_plan_space *space, fast_plan *plan)
{
    const int64_t parts = plan->mesh.pipe * plan->mesh.tensor, D = plan->mesh.data;

    for (int64_t i = 0; i < D * parts; i++)
        plan->nodes[i] = (int16_t)space->places[i % parts * D + i / parts];
}

/* Set the cuts that the job names. */
static fast_err given_cuts(const fast_plan_space *space, fast_plan *plan)
{
    const int64_t stages = fast__plan_stages(plan);
    int ends[FAST_PLAN_STAGES_MAX];

    FAST_TRY(fast__split_named(space->job.graph, space->job.cuts, stages, ends));
    for (int64_t s = 0; s < stages; s++)
        for (int k = 0; k < space->cut_count; k++)
            if (space->cuts[k] == ends[s])
                plan->cuts[s] = k;
    return FAST_OK;
}

/* Refuse schedules that there are no plans of. */
static fast_err check_schedule(const fast_plan_job *job)
{
    const int i = choice_of(FAST_PIPELINE_CHOICES, job->pipeline);

    if (job->pipeline[0] && i < 0)
        return fast__fail(
            FAST_EINVAL,
            "pipeline=%.40s: there is no such schedule; choose one of " FAST_PIPELINE_CHOICES,
            job->pipeline);
    if (job->chunks > 0 && i != FAST_PIPELINE_INTERLEAVED)
        return fast__fail(FAST_EINVAL,
                          "chunks=%lld is of interleaved pipelines: give pipeline=interleaved too",
                          (long long)job->chunks);
    if (job->chunks == 1)
        return fast__fail(FAST_EINVAL, "chunks=1: an interleaved pipeline has two or more of each "
                                       "worker; take pipeline=1f1b");
    if (i == FAST_PIPELINE_PIPEDREAM && job->micro_batches > 1)
        return fast__fail(FAST_EINVAL,
                          "pipeline=pipedream updates after each batch; take pipedream_2bw, or "
                          "leave out accumulate=%lld",
                          (long long)job->micro_batches);
    if (i == FAST_PIPELINE_ZERO_BUBBLE && job->recomputes)
        return fast__fail(FAST_EINVAL,
                          "pipeline=zero_bubble reads activations in both halves of a backward "
                          "pass, and recompute=yes has them in one; leave out recompute");
    return FAST_OK;
}

/* The exchange of "zero:stage=N", of which 2 is the standard; FAST_PLAN_ALLREDUCE if N is not 1 to
 * 3. */
static fast_plan_exchange zero_of(const char *strategy)
{
    const char *stage = strstr(strategy, "stage=");
    const char *digit = stage ? stage + strlen("stage=") : "2";

    return strspn(digit, "123") == 1 && strspn(digit, "0123456789") == 1
               ? (fast_plan_exchange)(FAST_PLAN_ZERO_1 + (*digit - '1'))
               : FAST_PLAN_ALLREDUCE;
}

/* Set what the job says of the strategy. */
static fast_err given_strategy(const fast_plan_job *job, fast_plan *plan)
{
    const char *strategy = job->strategy;

    if (strncmp(strategy, "zero", 4) == 0)
        plan->exchange = zero_of(strategy);
    else if (strncmp(strategy, "ps:", 3) == 0 && strstr(strategy, "slack=0"))
        plan->exchange = FAST_PLAN_PS;
    else if (strategy[0] && strncmp(strategy, "allreduce", 9) != 0 && strcmp(strategy, "auto") != 0)
        return fast__fail(FAST_EINVAL,
                          "strategy=%.60s: plans are of allreduce, zero and ps:slack=0; choose one "
                          "of them",
                          strategy);
    if (strncmp(strategy, "zero", 4) == 0 && plan->exchange == FAST_PLAN_ALLREDUCE)
        return fast__fail(FAST_EINVAL, "strategy=%.60s: stages of zero are 1 to 3", strategy);
    if (plan->mesh.data == 1)
        plan->exchange = FAST_PLAN_ALLREDUCE;
    return FAST_OK;
}

fast_err fast__planner_start(const fast_plan_space *space, const fast_mesh *mesh,
                             const fast_plan_way *way, fast_plan *out)
{
    fast_plan plan = { .mesh = *mesh, .way = *way };

    for (int64_t i = 0; i < fast__mesh_size(mesh); i++)
        plan.nodes[i] = (int16_t)space->places[i];
    FAST_TRY(given_strategy(&space->job, &plan));
    if (space->job.cuts[0])
        FAST_TRY(given_cuts(space, &plan));
    else
        FAST_TRY(fast__planner_balance(space, &plan));
    *out = plan;
    return FAST_OK;
}

/* Are two plans of one shape? */
static bool same_shape(const fast_plan *a, const fast_plan *b)
{
    return a->mesh.data == b->mesh.data && a->mesh.pipe == b->mesh.pipe &&
           a->mesh.tensor == b->mesh.tensor && a->way.pipeline == b->way.pipeline &&
           a->way.chunks == b->way.chunks && a->way.micro_batches == b->way.micro_batches &&
           a->exchange == b->exchange && a->recompute == b->recompute && a->layout == b->layout;
}

/* Retain a plan if it is the best of its shape. Where shapes are too many the slowest goes. */
static void retain(fast_planning *planning, const fast_planned *planned)
{
    int64_t slowest = 0;

    for (int64_t i = 0; i < planning->count; i++) {
        fast_planned *other = &planning->plans[i];

        if (same_shape(&other->plan, &planned->plan)) {
            const double seconds =
                other->dry == planned->dry ? other->cost.step_s : other->estimate.step_s;
            const double mine =
                other->dry == planned->dry ? planned->cost.step_s : planned->estimate.step_s;

            if (mine < seconds)
                *other = *planned;
            return;
        }
        if (other->cost.step_s > planning->plans[slowest].cost.step_s)
            slowest = i;
    }
    if (planning->count < FAST_PLANS_MAX)
        planning->plans[planning->count++] = *planned;
    else if (planned->cost.step_s < planning->plans[slowest].cost.step_s)
        planning->plans[slowest] = *planned;
}

/* Remember what was left out for its memory. */
static void note_unfit(fast_planning *planning, const fast_plan *plan, const fast_plan_cost *cost)
{
    planning->unfit++;
    if (planning->unfit == 1 || cost->step_s < planning->fastest_unfit.cost.step_s)
        planning->fastest_unfit = (fast_planned){ *plan, *cost, *cost, false };
}

/* Try ways to take less memory; *out is the fastest that fits. Each is a shape of its own, and is
 * retained: the fastest may turn out too large when it is run. */
static fast_err shrink(fast_planning *planning, const fast_plan *plan, fast_planned *out)
{
    const fast_plan_job *job = &planning->space->job;
    const bool shards =
        plan->mesh.data > 1 && plan->exchange == FAST_PLAN_ALLREDUCE && !job->strategy[0];

    const bool again_too = job->recompute && !fast__pipe_divides(plan->way.pipeline);

    for (int again = 0; again <= again_too; again++)
        for (int zero = 0; zero <= (shards ? 3 : 0); zero++) {
            fast_planned tried = { .plan = *plan };

            if (again == 0 && zero == 0)
                continue;
            tried.plan.recompute = again;
            if (shards)
                tried.plan.exchange = (fast_plan_exchange)zero;
            FAST_TRY(fast__plan_estimate(planning->space, &tried.plan, &tried.estimate));
            tried.cost = tried.estimate;
            if (tried.estimate.fits)
                retain(planning, &tried);
            if (tried.estimate.fits &&
                (!out->estimate.fits || tried.estimate.step_s < out->estimate.step_s))
                *out = tried;
        }
    return FAST_OK;
}

/* Tell the caller now and then. */
static fast_err tell(fast_planning *planning)
{
    if (planning->watch && !planning->watch(planning->watch_ctx, planning))
        return fast__fail(FAST_ECANCELED, "the search was stopped");
    return FAST_OK;
}

/* Estimate a plan, and make it fit; estimate.fits says whether it does. */
static fast_err fit(fast_planning *planning, const fast_plan *plan, fast_planned *out)
{
    const char *why = NULL;

    *out = (fast_planned){ .plan = *plan };
    planning->offered++;
    if (planning->offered % WATCH_EACH == 0)
        FAST_TRY(tell(planning));
    FAST_TRY(fast__plan_refusal(planning->space, plan, &why));
    if (why)
        return FAST_OK;
    FAST_TRY(fast__plan_estimate(planning->space, plan, &out->estimate));
    out->cost = out->estimate;
    if (out->estimate.fits)
        return FAST_OK;
    note_unfit(planning, plan, &out->estimate);
    return shrink(planning, plan, out);
}

fast_err fast__planning_offer(fast_planning *planning, const fast_plan *plan, double *seconds_out)
{
    fast_planned planned;

    if (seconds_out)
        *seconds_out = INFINITY;
    FAST_TRY(fit(planning, plan, &planned));
    if (!planned.estimate.fits)
        return FAST_OK;
    retain(planning, &planned);
    if (seconds_out)
        *seconds_out = planned.estimate.step_s;
    return FAST_OK;
}

fast_err fast__planning_measure(fast_planning *planning, const fast_plan *plan, double *seconds_out)
{
    fast_planned planned;

    *seconds_out = INFINITY;
    FAST_TRY(fit(planning, plan, &planned));
    if (!planned.estimate.fits)
        return FAST_OK;
    planning->dry_runs++;
    FAST_TRY(fast__plan_dry_run(planning->space, &planned.plan, &planned.cost));
    planned.dry = true;
    retain(planning, &planned);
    *seconds_out = planned.cost.step_s;
    return tell(planning);
}

/* Seconds to four digits: plans that differ by less take the same time. */
static double rounded(double seconds)
{
    const double unit = pow(10, floor(log10(fmax(seconds, 1e-12))) - 3);

    return round(seconds / unit) * unit;
}

/* The order of plans: dry runs first, then by time, then by fewer workers and less memory. */
static int compare(const void *a, const void *b)
{
    const fast_planned *x = a, *y = b;
    const int64_t m = fast__mesh_size(&x->plan.mesh), n = fast__mesh_size(&y->plan.mesh);
    const double s = rounded(x->cost.step_s), t = rounded(y->cost.step_s);

    if (x->dry != y->dry)
        return x->dry ? -1 : 1;
    if (s < t || s > t)
        return s < t ? -1 : 1;
    if (m != n)
        return m < n ? -1 : 1;
    if (x->cost.memory != y->cost.memory)
        return x->cost.memory < y->cost.memory ? -1 : 1;
    return x->plan.layout - y->plan.layout;
}

/* Are two plans the same but for a layout that divides the same layers? */
static bool same_plan(const fast_planned *a, const fast_planned *b)
{
    fast_plan plan = b->plan;

    plan.layout = a->plan.layout;
    return same_shape(&a->plan, &plan) && a->cost.memory == b->cost.memory &&
           !(rounded(a->cost.step_s) < rounded(b->cost.step_s)) &&
           !(rounded(a->cost.step_s) > rounded(b->cost.step_s));
}

/* Leave out the later ones of plans that are the same. They are sorted: neighbours. */
static void leave_out_same(fast_planning *planning)
{
    int64_t count = 0;

    for (int64_t i = 0; i < planning->count; i++)
        if (count == 0 || !same_plan(&planning->plans[count - 1], &planning->plans[i]))
            planning->plans[count++] = planning->plans[i];
    planning->count = count;
}

/* Sort the plans, then make dry runs of the best ones and sort again. */
static fast_err finish(fast_planning *planning)
{
    int64_t count = 0;

    qsort(planning->plans, (size_t)planning->count, sizeof *planning->plans, compare);
    leave_out_same(planning);
    for (int64_t i = 0; i < planning->count && count < planning->dry_max; i++) {
        fast_planned *planned = &planning->plans[i];

        if (planned->dry)
            continue;
        FAST_TRY(fast__plan_dry_run(planning->space, &planned->plan, &planned->cost));
        planned->dry = true;
        planning->dry_runs++;
        count++;
        FAST_TRY(tell(planning));
    }
    qsort(planning->plans, (size_t)planning->count, sizeof *planning->plans, compare);
    leave_out_same(planning);
    return FAST_OK;
}

/* Say why no plan was found. */
static fast_err none_found(const fast_planning *planning)
{
    const fast_planned *fastest = &planning->fastest_unfit;
    const fast_plan_cost *cost = &fastest->cost;

    if (planning->unfit > 0)
        return fast__fail(
            FAST_EINVAL,
            "none of %lld plans fits the memory of its workers: the fastest takes "
            "%.3g MB on worker %lld, which may take %.3g MB; allow more memory, "
            "workers or micro-batches",
            (long long)planning->unfit, (double)cost->memory * 1e-6, (long long)cost->fullest,
            1e-6 * (double)fast__plan_memory_max(planning->space, &fastest->plan, cost->fullest));
    const fast_plan_job *job = &planning->space->job;
    const bool given = job->mesh.data + job->mesh.pipe + job->mesh.tensor > 0 || job->cuts[0] ||
                       job->layout[0] || job->micro_batches > 0;
    return fast__fail(
        FAST_EINVAL,
        "no plan of %lld worker%s%s divides the model and a batch of %lld samples%s%s%.40s; "
        "allow other numbers of workers, or another batch%s",
        (long long)planning->space->node_count, planning->space->node_count == 1 ? "" : "s",
        job->all_workers ? "" : " at most", (long long)job->batch,
        given ? " as it is asked for" : "", job->pipeline[0] ? " with pipeline=" : "",
        job->pipeline, given ? ", or leave out mesh, cuts, layout or accumulate" : "");
}

fast_err fast__plan_search(fast_plan_space *space, const fast_planning_options *options,
                           fast_planning *out)
{
    fast_planning planning = { .space = space,
                               .dry_max = options->dry_runs > 0 ? options->dry_runs : DRY_STANDARD,
                               .watch = options->watch,
                               .watch_ctx = options->watch_ctx };

    fast_plan words = { .mesh = { 2, 2, 1 } };

    FAST_TRY(read_spec(options->planner, &planning));
    FAST_TRY(check_schedule(&space->job));
    FAST_TRY(given_strategy(&space->job, &words));
    FAST_TRY(fast__alloc("plans", FAST_PLANS_MAX, sizeof *planning.plans, &planning.plans));
    fast__rng_init(&planning.rng, (uint64_t)space->job.seed, FAST_PURPOSE_TEST, 1, 0, 0);
    fast_err err = planning.planner->search(&planning);
    if (!err)
        err = planning.count > 0 ? finish(&planning) : none_found(&planning);
    if (err) {
        fast__planning_fini(&planning);
        return err;
    }
    *out = planning;
    return FAST_OK;
}

void fast__planning_fini(fast_planning *planning)
{
    fast__free(planning->plans);
    planning->plans = NULL;
    planning->count = 0;
}
