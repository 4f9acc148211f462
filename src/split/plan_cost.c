/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a plan, in closed form.
 *
 *   pass       operations of a micro-batch / speed of the node, and the exchanges over shards
 *   pipeline   the passes of one replica in the order of the schedule, each when its worker is free
 *              and its input has come: the longest path through 2 V S M passes, or 3 S M where
 *              backward passes are divided. Activations and gradients take alpha + bytes beta to
 *              the next stage. Never drained: the passes of the worker with most
 *   exchange   gradients of a part over its D replicas, by the fastest algorithm with the canonical
 *              order at the dearest link between neighbours; sums that start during the last
 *              backward pass follow one another, and the last ends at
 *                  f_k = max(f_(k-1), ready_k) + S(n_k)
 *   update     of the parameters that a worker has, or of its slice
 *   step       the latest worker; passes of the next step wait for its own update alone
 *
 * Memory of a worker with n parameters, M micro-batches of B samples, K older versions of the
 * weights, and F micro-batches in flight in a chunk:
 *
 *     4 (n (2 + slots + log2 M + K) + state + sum over chunks of F B activations) + messages
 *
 * with the parts of g and the rule's state that zero leaves at 1/D. Activations are the outputs
 * of nodes, for whole lanes of the engine, times what a workspace of the whole network takes more
 * or less than those: engines fuse nodes, have scratch memory, which the micro-batches in flight
 * share, and in a divided backward pass hold gradients of values for its second half.
 */
#include "split/placement.h"

#include "base/memory.h"
#include "comm/cost_model.h"
#include "fast/strategy.h"

#include <math.h>
#include <string.h>

enum { BUCKET = 1 << 15, LANES = 16 };     /* floats of a sum during the backward pass */
static const double BYTES = sizeof(float); /* of a float */

/* amount / speed; 0 where the speed is not limited. */
static double per(double amount, double speed)
{
    return speed > 0 ? amount / speed : 0;
}

/* Seconds that a node works. */
static double charge(const fast_node_spec *node, double operations, double bytes)
{
    return (per(operations, node->speed) + per(bytes, node->memory)) * (1 + node->jitter / 2);
}

/* Expected seconds until the first byte of a message arrives. */
static double latency_of(const fast_sim_link *link)
{
    const double loss = (double)link->loss * 0x1p-32;

    return ((double)link->latency_ns + (double)link->overhead_ns + 0.5 * (double)link->jitter_ns +
            loss / (1 - loss) * (double)link->retry_ns) *
           1e-9;
}

/* Seconds of a byte. */
static double byte_of(const fast_sim_link *link)
{
    return fmax(link->ns_per_byte, link->stream_ns_per_byte) * 1e-9;
}

/* Seconds of a message. */
static double message_of(const fast_sim_link *link, double bytes)
{
    return latency_of(link) + bytes * byte_of(link);
}

/* A group of workers, as its collectives see it. */
typedef struct cost_group {
    fast_comm_cost cost; /* of the dearest link between neighbours */
    int64_t size;        /* number of workers */
    bool local;          /* all are on one node */
} cost_group;

/* The group of `size` workers from `first` on, `stride` apart. */
static cost_group group_of(const fast_plan_space *space, const fast_plan *plan, int64_t first,
                           int64_t stride, int64_t size)
{
    cost_group group = { .size = size, .local = true };

    for (int64_t i = 0; i < size; i++) {
        const int64_t a = plan->nodes[first + i * stride];
        const int64_t b = plan->nodes[first + (i + 1) % size * stride];
        const fast_sim_link *link = fast__plan_link(space, a, b);

        group.local = group.local && a == b;
        group.cost.alpha = fmax(group.cost.alpha, latency_of(link));
        group.cost.beta = fmax(group.cost.beta, byte_of(link));
        group.cost.gamma =
            fmax(group.cost.gamma,
                 charge(fast__plan_node(space, plan, first + i * stride), 1, 3 * BYTES));
    }
    return group;
}

/* Seconds of a sum of `count` floats over a group: by the fastest algorithm that `auto` may take.
 */
static double sum_of(const cost_group *group, int64_t count)
{
    const fast_ask ask = { .size = group->size, .count = count };
    double best = INFINITY;

    if (group->size == 1 || count == 0)
        return 0;
    if (group->local) /* each reads all vectors of its slice, and writes the sum to all */
        return 2 * group->cost.gamma * (double)count;
    for (int i = 0; fast__allreduces[i]; i++) {
        const fast_algorithm *a = fast__allreduces[i];

        if (a->canonical && a->rounds && a->seconds)
            best = fmin(best, a->seconds(&group->cost, &ask));
    }
    return best;
}

/* The state of an estimate. */
typedef struct estimate {
    fast_plan_space *space;                     /* of the plan */
    const fast_plan *plan;                      /* that is estimated */
    fast_plan_part parts[FAST_PLAN_STAGES_MAX]; /* of its stages */
    int64_t batch;                              /* samples of a micro-batch */
    double forward[FAST_PLAN_STAGES_MAX];       /* seconds of a forward pass, by stage */
    double backward[FAST_PLAN_STAGES_MAX];      /* of a backward pass, or its first half */
    double weights[FAST_PLAN_STAGES_MAX];       /* of its second half, where it is divided */
    double link[FAST_PLAN_STAGES_MAX];          /* of a message to the stage behind */
    double free[FAST_PLAN_STAGES_MAX];          /* when a worker of the pipeline is free */
} estimate;

/* Seconds of the passes and messages of a stage of one replica. */
static void time_stage(estimate *e, int64_t replica, int64_t stage)
{
    const fast_plan *plan = e->plan;
    const fast_plan_part *part = &e->parts[stage];
    const int64_t S = plan->mesh.pipe, T = plan->mesh.tensor;
    const fast_mesh_place at = { .data = replica, .pipe = stage % S };
    const fast_mesh_place behind = { .data = replica, .pipe = (stage + 1) % S };
    const int64_t first = fast__mesh_worker(&plan->mesh, at);
    const int64_t next = fast__mesh_worker(&plan->mesh, behind);
    const cost_group shards = group_of(e->space, plan, first, 1, T);
    const double n = (double)e->batch, computed = fast__plan_computed(e->space, plan);
    const double trips = 0.5 * (double)part->messages * shards.cost.alpha;
    const double late = fast__pipe_divides(plan->way.pipeline) ? part->weights : 0;
    double worst = 0, link = 0;

    for (int64_t t = 0; t < T; t++) {
        worst = fmax(worst, charge(fast__plan_node(e->space, plan, first + t), 1, 0));
        if (part->outputs > 0)
            link = fmax(link, message_of(fast__plan_link(e->space, plan->nodes[first + t],
                                                         plan->nodes[next + t]),
                                         n * (double)part->outputs * BYTES));
    }
    e->forward[stage] = computed * part->forward * worst + trips +
                        n * part->exchange_forward * BYTES * shards.cost.beta;
    e->weights[stage] = computed * late * worst;
    e->backward[stage] = computed * (part->backward - late) * worst + trips +
                         n * part->exchange_backward * BYTES * shards.cost.beta;
    if (plan->recompute || e->space->job.recomputes)
        e->backward[stage] += computed * part->forward * worst;
    e->link[stage] = link;
}

/* The place of a worker in the pipeline; a schedule that is not drained is estimated as 1f1b. */
static fast_pipe_place place_of(const estimate *e, int64_t s)
{
    fast_pipe_place place = fast__plan_place(e->space, e->plan, s);

    if (!fast__pipe_drains(place.pipeline))
        place.pipeline = FAST_PIPELINE_1F1B;
    return place;
}

/* When passes of a replica end, of all stages and micro-batches. */
typedef struct pass_ends {
    double *forward;  /* [stages][micro_batches]; -1: not yet */
    double *backward; /* [stages][micro_batches] of backward passes */
} pass_ends;

/* Make the next passes of worker s whose inputs have come; returns how many. */
static int64_t advance(estimate *e, const pass_ends *ends, int64_t s, int64_t *next)
{
    const int64_t M = e->plan->way.micro_batches, last = fast__plan_stages(e->plan) - 1;
    const fast_pipe_place place = place_of(e, s);
    const int64_t count = fast__pipe_moves(&place);
    int64_t made = 0;

    for (; *next < count; (*next)++, made++) {
        const fast_pipe_move move = fast__pipe_move(&place, *next);
        const int64_t stage = move.chunk * place.stages + s, m = move.micro_batch;
        double input = 0, sent = 0;

        if (move.kind == FAST_PIPE_FORWARD && stage > 0) {
            input = ends->forward[(stage - 1) * M + m];
            sent = e->link[stage - 1];
        } else if (move.kind == FAST_PIPE_BACKWARD && stage < last) {
            input = ends->backward[(stage + 1) * M + m];
            sent = e->link[stage];
        }
        if (input < 0)
            break;
        e->free[s] = fmax(e->free[s], input + sent) +
                     (move.kind == FAST_PIPE_FORWARD    ? e->forward[stage]
                      : move.kind == FAST_PIPE_BACKWARD ? e->backward[stage]
                                                        : e->weights[stage]);
        if (move.kind == FAST_PIPE_FORWARD)
            ends->forward[stage * M + m] = e->free[s];
        else if (move.kind == FAST_PIPE_BACKWARD)
            ends->backward[stage * M + m] = e->free[s];
    }
    return made;
}

/* Run the schedule of a replica: the longest path through its passes. */
static fast_err run_schedule(estimate *e)
{
    const int64_t M = e->plan->way.micro_batches, S = e->plan->mesh.pipe;
    const int64_t passes = fast__plan_stages(e->plan) * M;
    const fast_pipe_place first = place_of(e, 0);
    int64_t next[FAST_PLAN_STAGES_MAX] = { 0 };
    pass_ends ends = { NULL, NULL };
    int64_t made = 1;

    FAST_TRY(fast__alloc("passes", 2 * passes, sizeof *ends.forward, &ends.forward));
    ends.backward = ends.forward + passes;
    for (int64_t i = 0; i < 2 * passes; i++)
        ends.forward[i] = -1;
    memset(e->free, 0, sizeof e->free);
    while (made > 0) {
        made = 0;
        for (int64_t s = 0; s < S; s++)
            made += advance(e, &ends, s, &next[s]);
    }
    fast__free(ends.forward);
    FAST_ASSERT(next[0] == fast__pipe_moves(&first));
    return FAST_OK;
}

/* Sums over the chunks of a worker. */
typedef struct worker_sum {
    double params;  /* elements of the parameters */
    int64_t state;  /* elements of the state */
    double partial; /* parameters whose gradients are summed over the shards */
    double passes;  /* seconds of a micro-batch's passes */
    double hidden;  /* seconds of its last backward passes, in which sums may start */
} worker_sum;

static worker_sum sum_worker(const estimate *e, int64_t s)
{
    const bool divides = fast__pipe_divides(e->plan->way.pipeline);
    worker_sum sum = { .params = 0 };

    for (int64_t k = s; k < fast__plan_stages(e->plan); k += e->plan->mesh.pipe) {
        sum.params += (double)e->parts[k].params;
        sum.state += e->parts[k].state;
        sum.partial += (double)e->parts[k].partial;
        sum.passes += e->forward[k] + e->backward[k] + e->weights[k];
        sum.hidden += divides ? e->weights[k] : e->backward[k];
    }
    return sum;
}

/* Seconds from the end of a worker's last pass to that of its update. */
static double after_passes(const estimate *e, const worker_sum *sum, int64_t worker)
{
    const fast_plan *plan = e->plan;
    const int64_t D = plan->mesh.data, parts = plan->mesh.pipe * plan->mesh.tensor;
    const cost_group group = group_of(e->space, plan, worker % parts, parts, D);
    const fast_node_spec *node = fast__plan_node(e->space, plan, worker);
    const double n = sum->params, m = n * BYTES, hidden = sum->hidden;
    const double all = charge(node, FAST_UPDATE_OPERATIONS * n, FAST_UPDATE_BYTES * n);
    const double share = (double)(D - 1) / (double)D;
    double left;

    if (D == 1)
        return all;
    switch (plan->exchange) {
    case FAST_PLAN_PS: /* models of all workers pass the server's link, both ways */
        return 2 * (group.cost.alpha + (double)D * m * group.cost.beta) +
               (double)D * n * group.cost.gamma + all;
    case FAST_PLAN_ZERO_1:
    case FAST_PLAN_ZERO_2:
    case FAST_PLAN_ZERO_3:
        left = 2 * share * m * group.cost.beta + 2 * (double)(D - 1) * group.cost.alpha +
               share * n * group.cost.gamma + all / (double)D;
        if (plan->exchange == FAST_PLAN_ZERO_2)
            left -= fmin(share * m * group.cost.beta, hidden);
        return left;
    case FAST_PLAN_ALLREDUCE:
        break;
    }
    left = sum_of(&group, (int64_t)n);
    if (!group.local && plan->mesh.tensor == 1 && n > BUCKET) {
        const double each = sum_of(&group, BUCKET), small = sum_of(&group, 1);
        double finish = 0;

        for (int64_t done = BUCKET; done <= (int64_t)n; done += BUCKET)
            finish = fmax(finish, hidden * (double)done / n) + fmax(each - small, 0);
        left = fmax(finish + small - hidden, 0);
    }
    return left + sum_of(&group, sum->state) + all;
}

/* Estimate one replica, whose figures are those of the plan if it is the slowest. */
static fast_err estimate_replica(estimate *e, int64_t replica, fast_plan_cost *out)
{
    const fast_plan *plan = e->plan;
    const double M = (double)plan->way.micro_batches;
    double busy = 0, end = 0, step = 0, exchange = 0, most = 0;

    for (int64_t s = 0; s < fast__plan_stages(plan); s++)
        time_stage(e, replica, s);
    FAST_TRY(run_schedule(e));
    for (int64_t s = 0; s < plan->mesh.pipe; s++) {
        const fast_mesh_place at = { .data = replica, .pipe = s };
        const int64_t worker = fast__mesh_worker(&plan->mesh, at);
        const worker_sum sum = sum_worker(e, s);
        const double partial = sum.partial * 2 * BYTES *
                               group_of(e->space, plan, worker, 1, plan->mesh.tensor).cost.beta;
        const double after = partial + after_passes(e, &sum, worker);

        busy += M * sum.passes;
        most = fmax(most, M * sum.passes);
        end = fmax(end, e->free[s]);
        if (e->free[s] + after > step) {
            step = e->free[s] + after;
            exchange = after;
        }
    }
    if (!fast__pipe_drains(plan->way.pipeline))
        step = most + exchange;
    if (step < out->step_s)
        return FAST_OK;
    out->step_s = step;
    out->exchange_s = exchange;
    out->compute_s = most;
    out->bubble = end > 0 ? fmax(0, 1 - busy / (end * (double)plan->mesh.pipe)) : 0;
    return FAST_OK;
}

void fast__plan_job_rule(fast_plan_job *job, const fast_optimizer *optimizer)
{
    const bool observes = fast__optimizer_rule(optimizer)->observe != NULL;
    const bool whole = fast__optimizer_measures(optimizer) && !fast__optimizer_by_slice(optimizer);

    while (fast__optimizer_slot(optimizer, (int)job->slots))
        job->slots++;
    if ((observes || whole) && job->mesh.tensor == 0)
        job->mesh.tensor = 1;
    if (observes && job->mesh.pipe == 0)
        job->mesh.pipe = 1;
}

/* Measure the workspaces of a program with several micro-batches in flight. */
static fast_err measure_room(fast_plan_job *job, const fast_engine *engine,
                             const fast_engine_options *options, fast_plan_room *out)
{
    const fast_graph *graph = job->graph;
    const double lanes = ceil((double)options->batch / (double)job->lanes) * (double)job->lanes;
    fast_program *program = NULL;
    const double inputs = (double)graph->nodes[0].count;
    double floats = 0, largest = 1;

    for (int i = 1; i < graph->node_count; i++) {
        floats += (double)graph->nodes[i].count;
        largest = fmax(largest, (double)graph->nodes[i].count);
    }
    FAST_TRY(engine->compile(graph, options, &program));
    const double own = (double)(program->memory - program->memory_shared) / (lanes * BYTES);
    out->own = fmax(own - inputs, 0.1 * own) / floats;
    out->shared = (double)program->memory_shared / (lanes * largest * BYTES);
    engine->program_free(program);
    return FAST_OK;
}

fast_err fast__plan_job_engine(fast_plan_job *job, const fast_engine *engine,
                               const fast_engine_options *options)
{
    fast_engine_options asked = *options;

    job->lanes = strcmp(engine->name, "cpu") == 0 ? LANES : 1;
    asked.train = true;
    asked.recompute = false;
    asked.flight = true;
    FAST_TRY(measure_room(job, engine, &asked, &job->rooms.plain));
    asked.divide = true;
    FAST_TRY(measure_room(job, engine, &asked, &job->rooms.divided));
    asked.divide = false;
    asked.recompute = true;
    FAST_TRY(measure_room(job, engine, &asked, &job->rooms.again));
    job->rooms.again.own *= sqrt((double)job->graph->node_count);
    return FAST_OK;
}

/* Rows of the sum of micro-batches besides the gradient. */
static int64_t sum_rows(int64_t micro_batches)
{
    int64_t rows = 0;

    while (((int64_t)1 << rows) < micro_batches)
        rows++;
    return rows;
}

/* Count the micro-batches in flight of all stages, unless the last plan had the same schedule. */
static const int64_t *flights_of(fast_plan_space *space, const fast_plan *plan)
{
    fast_plan_flights *f = &space->flights;

    if (f->pipe == plan->mesh.pipe && f->way.micro_batches == plan->way.micro_batches &&
        f->way.pipeline == plan->way.pipeline && f->way.chunks == plan->way.chunks)
        return f->counts;
    f->pipe = plan->mesh.pipe;
    f->way = plan->way;
    for (int64_t k = 0; k < fast__plan_stages(plan); k++) {
        const fast_pipe_place place = fast__plan_place(space, plan, k % plan->mesh.pipe);

        f->counts[k] = fast__pipe_chunk_flight(&place, k / plan->mesh.pipe);
    }
    return f->counts;
}

/* Floats of the workspaces of a stage, and of what arrives. */
static double stage_floats(const fast_plan_space *space, const fast_plan *plan,
                           const fast_plan_part *part, int64_t stage, int64_t flight)
{
    const fast_plan_job *job = &space->job;
    const fast_plan_room *room =
        fast__pipe_divides(plan->way.pipeline) ? &job->rooms.divided : &job->rooms.plain;
    const double batch = (double)fast__plan_micro_batch(space, plan);
    const double each = job->lanes > 0 ? (double)job->lanes : 1;
    const double lanes = ceil(batch / each) * each, own = room->own > 0 ? room->own : 1;
    const int *cuts = space->cuts;
    const int nodes = cuts[plan->cuts[stage]] - (stage > 0 ? cuts[plan->cuts[stage - 1]] : 0);
    const bool again = plan->recompute || job->recomputes;
    const double shared = again ? fmax(room->shared, job->rooms.again.shared) : room->shared;
    double retained = own * (double)part->activations;

    if (again)
        retained = fmin(retained, job->rooms.again.own * (double)part->activations / sqrt(nodes));
    retained += (double)part->copied;
    return lanes * ((double)flight * retained + shared * (double)part->largest) +
           (double)flight * batch * (double)part->inputs;
}

int64_t fast__plan_memory(fast_plan_space *space, const fast_plan *plan,
                          const fast_plan_part *parts, int64_t worker)
{
    const int64_t s = fast__mesh_place(&plan->mesh, worker).pipe, D = plan->mesh.data;
    const int64_t *flights = flights_of(space, plan);
    const fast_pipe_place place = fast__plan_place(space, plan, s);
    const bool stores =
        place.pipeline == FAST_PIPELINE_PIPEDREAM || place.pipeline == FAST_PIPELINE_2BW;
    const int zero = plan->exchange == FAST_PLAN_PS ? 0 : (int)plan->exchange;
    int64_t n = 0, floats = 0;

    for (int64_t k = s; k < fast__plan_stages(plan); k += plan->mesh.pipe) {
        n += parts[k].params;
        floats += parts[k].state;
        floats += (int64_t)stage_floats(space, plan, &parts[k], k, flights[k]);
    }
    floats += n * sum_rows(place.micro_batches);
    floats += n; /* a stage reads all of its parameters in a pass: zero gathers them whole */
    floats += zero >= FAST_PLAN_ZERO_2 ? n / D : n;
    floats += space->job.slots * (zero >= FAST_PLAN_ZERO_1 ? n / D : n);
    floats += stores ? fast__pipe_staleness(&place) * n : 0;
    return floats * (int64_t)sizeof(float);
}

int64_t fast__plan_memory_max(const fast_plan_space *space, const fast_plan *plan, int64_t worker)
{
    const double capacity = fast__plan_node(space, plan, worker)->capacity;
    int64_t sharing = 0;

    if (space->job.memory > 0)
        return space->job.memory / (space->job.shared_memory ? fast__mesh_size(&plan->mesh) : 1);
    for (int64_t i = 0; i < fast__mesh_size(&plan->mesh); i++)
        sharing += plan->nodes[i] == plan->nodes[worker];
    return (int64_t)(capacity / (double)sharing);
}

/* Fill in the memory of the worker with most, or that is the fullest. */
static void weigh(const estimate *e, fast_plan_cost *out)
{
    const fast_plan *plan = e->plan;
    double fullest = 0;

    out->fits = true;
    for (int64_t i = 0; i < fast__mesh_size(&plan->mesh); i++) {
        const int64_t bytes = fast__plan_memory(e->space, plan, e->parts, i);
        const int64_t most = fast__plan_memory_max(e->space, plan, i);
        const double full = most > 0 ? (double)bytes / (double)most : (double)bytes * 1e-18;

        out->fits = out->fits && (most == 0 || bytes <= most);
        if (full > fullest) {
            fullest = full;
            out->memory = bytes;
            out->fullest = i;
        }
    }
}

fast_err fast__plan_estimate(fast_plan_space *space, const fast_plan *plan, fast_plan_cost *out)
{
    estimate e = { .space = space, .plan = plan, .batch = fast__plan_micro_batch(space, plan) };
    fast_plan_cost cost = { .step_s = 0 };

    for (int64_t s = 0; s < fast__plan_stages(plan); s++)
        FAST_TRY(fast__plan_part(space, plan, s, &e.parts[s]));
    for (int64_t d = 0; d < plan->mesh.data; d++)
        FAST_TRY(estimate_replica(&e, d, &cost));
    weigh(&e, &cost);
    *out = cost;
    return FAST_OK;
}
