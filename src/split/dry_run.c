/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dry runs: a few steps of a plan on the simulator, by actors that have no model. As FlexFlow's
 * execution simulator (Jia et al. 2019) it plays the tasks of a step on the cluster's nodes and
 * links; here the tasks are those of a run's workers, in their order:
 *
 *     pass        charge its operations; between sections exchange sizes over the shards, between
 *                 rounds the sizes of blocks; in the order of the schedule, each in its chunk of
 *                 the worker
 *     message     declare the bytes of the activations, or of their gradient
 *     gradient    report its ranges during the last backward pass; buckets are summed as allreduce
 *                 and zero sum theirs, by the same collectives, without vectors
 *     update      charge it
 *
 * The first step sums after its gradient and fits the group's model, as a run does; the mean of the
 * steps behind it counts. A schedule that is never drained counts from when its pipeline is full
 * until no batch enters any more; ampnet takes the message that is there, a gradient first.
 *
 * Differences to a run: servers of ps are always one for each part, of three messages' length each;
 * zero gathers all parameters before a gradient.
 */
#include "split/dry_run.h"

#include "base/memory.h"
#include "fast/strategy.h"
#include "transport/transport.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 3 }; /* that count */

/* Wait for the requests of this step, in their order. */
static fast_err finish_requests(fast_dry_worker *self)
{
    fast_err err = self->err;

    for (int64_t i = 0; i < self->request_count; i++) {
        const fast_err failed =
            fast_request_wait(&self->requests[i], err ? FAST_AT_ONCE : FAST_SOON);

        err = err ? err : failed;
    }
    self->request_count = 0;
    return err;
}

/* Gather all parameters, in units, or exchange the gradient so: `count` floats. */
static fast_err gather_units(fast_dry_worker *self)
{
    for (int64_t at = 0; at < self->params; at += FAST_DRY_BUCKET) {
        self->low = at;
        self->high = at + FAST_DRY_BUCKET < self->params ? at + FAST_DRY_BUCKET : self->params;
        fast__dry_start_bucket(self);
    }
    return finish_requests(self);
}

/* The exchange and the update of zero. */
static fast_err finish_zero(fast_dry_worker *self)
{
    const double n = (double)self->params, D = (double)self->run->plan->mesh.data;
    const bool started = self->request_count > 0 || self->low != self->high;

    fast__dry_start_bucket(self);
    FAST_TRY(started ? finish_requests(self) : gather_units(self));
    FAST_TRY(fast_charge(self->actor, n * (D - 1) / D, 3 * sizeof(float) * n * (D - 1) / D));
    FAST_TRY(fast_charge(self->actor, FAST_UPDATE_OPERATIONS * n / D, FAST_UPDATE_BYTES * n / D));
    return self->run->plan->exchange == FAST_PLAN_ZERO_3 ? FAST_OK : gather_units(self);
}

/* Exchange the gradient over the replicas, and update. */
static fast_err exchange(fast_dry_worker *self)
{
    const fast_dry_run *run = self->run;
    const double n = (double)self->params;
    const int64_t parts = run->plan->mesh.pipe * run->plan->mesh.tensor;
    const int64_t server = fast__mesh_size(&run->plan->mesh) + self->number % parts;

    if (self->shards && self->partial > 0)
        FAST_TRY(fast_allreduce(self->shards, NULL, self->partial, FAST_SOON));
    if (!self->replicas)
        return fast_charge(self->actor, FAST_UPDATE_OPERATIONS * n, FAST_UPDATE_BYTES * n);
    if (run->plan->exchange == FAST_PLAN_PS) {
        FAST_TRY(fast__dry_send(self, server, FAST_DRY_PUSH, self->params));
        return fast__dry_receive(self, server, FAST_DRY_PULL);
    }
    if (run->plan->exchange != FAST_PLAN_ALLREDUCE)
        return finish_zero(self);
    if (fast__dry_overlaps(self) && self->updated) /* ranges are charged behind the next gradient */
        FAST_TRY(fast_charge(self->actor, FAST_UPDATE_OPERATIONS * n, FAST_UPDATE_BYTES * n));
    if (fast__dry_overlaps(self) &&
        run->plan->mesh.tensor > 1) /* shards report the whole gradient at its end */
        fast__dry_report(self, 0, self->params);
    if (fast__dry_overlaps(self)) {
        fast__dry_start_bucket(self);
        FAST_TRY(finish_requests(self));
        self->updated = true;
    } else {
        FAST_TRY(fast_allreduce(self->replicas, NULL, self->params, FAST_SOON));
        FAST_TRY(fast_charge(self->actor, FAST_UPDATE_OPERATIONS * n, FAST_UPDATE_BYTES * n));
    }
    return self->state > 0 ? fast_allreduce(self->replicas, NULL, self->state, FAST_SOON) : FAST_OK;
}

/* Play all steps. */
static fast_err play(fast_dry_worker *self)
{
    fast_dry_run *run = self->run;

    for (; self->step < run->steps; self->step++) {
        if (self->number == 0 && self->step == run->warm)
            run->begun = fast_now(self->actor);
        const int64_t begin = fast_now(self->actor);
        if (self->replicas && run->plan->exchange == FAST_PLAN_ZERO_3)
            FAST_TRY(gather_units(self));
        const int64_t passes = fast_now(self->actor);
        FAST_TRY(fast__dry_passes(self));
        const int64_t end = fast_now(self->actor);
        FAST_TRY(exchange(self));
        if (self->number == 0 && self->step >= run->warm && self->step < run->cold) {
            run->exchange_ns += fast_now(self->actor) - end + passes - begin;
            run->passes_ns += end - passes;
            run->ended = fast_now(self->actor);
        }
    }
    run->busy_ns += self->compute_ns;
    run->compute_ns = self->compute_ns > run->compute_ns ? self->compute_ns : run->compute_ns;
    return FAST_OK;
}

/* Make the groups and the memory of a worker. */
static fast_err open_worker(fast_dry_worker *self)
{
    const fast_mesh *mesh = &self->run->plan->mesh;
    const int64_t parts = mesh->pipe * mesh->tensor;
    int64_t ids[FAST_PLAN_WORKERS_MAX];

    for (int64_t k = self->at.pipe; k < fast__plan_stages(self->run->plan); k += mesh->pipe) {
        self->params += self->run->parts[k].params;
        self->state += self->run->parts[k].state;
        self->partial += self->run->parts[k].partial;
    }
    self->request_max =
        self->params / FAST_DRY_BUCKET + self->run->space->job.graph->node_count * 2 + 2;
    FAST_TRY(fast__alloc("requests", self->request_max, sizeof *self->requests, &self->requests));
    for (int64_t t = 0; t < mesh->tensor; t++)
        ids[t] = self->number - self->at.tensor + t;
    if (mesh->tensor > 1)
        FAST_TRY(fast_group_new(self->actor, ids, mesh->tensor, 1, &self->shards));
    for (int64_t d = 0; d < mesh->data; d++) {
        ids[d] = d * parts + self->number % parts;
        self->network =
            self->network || self->run->plan->nodes[ids[d]] != self->run->plan->nodes[ids[0]];
    }
    if (mesh->data > 1)
        FAST_TRY(fast_group_new(self->actor, ids, mesh->data, 1, &self->replicas));
    return self->replicas ? fast__sliced_init(&self->sliced, self->replicas) : FAST_OK;
}

/* The program of a worker. */
static fast_err worker_main(fast_actor *actor, void *ctx)
{
    fast_dry_run *run = ctx;
    fast_dry_worker self = { .run = run, .actor = actor, .number = fast_actor_id(actor) };

    self.at = fast__mesh_place(&run->plan->mesh, self.number);
    fast_err err = open_worker(&self);
    if (!err)
        err = play(&self);
    if (self.sliced.group)
        fast__sliced_fini(&self.sliced);
    fast_group_free(self.replicas);
    fast_group_free(self.shards);
    fast__free(self.requests);
    return err;
}

/* The program of a server: add the gradients of all replicas, update, answer. */
static fast_err server_main(fast_actor *actor, void *ctx)
{
    fast_dry_run *run = ctx;
    const fast_mesh *mesh = &run->plan->mesh;
    const int64_t parts = mesh->pipe * mesh->tensor;
    const int64_t part = fast_actor_id(actor) - fast__mesh_size(mesh);
    fast_dry_worker self = { .run = run, .actor = actor };
    int64_t params = 0;

    for (int64_t k = part / mesh->tensor; k < fast__plan_stages(run->plan); k += mesh->pipe)
        params += run->parts[k].params;
    const double n = (double)params;

    for (int64_t step = 0; step < run->steps; step++) {
        for (int64_t d = 0; d < mesh->data; d++) {
            FAST_TRY(fast__dry_receive(&self, d * parts + part, FAST_DRY_PUSH));
            FAST_TRY(fast_charge(actor, n, 3 * sizeof(float) * n));
        }
        FAST_TRY(fast_charge(actor, FAST_UPDATE_OPERATIONS * n, FAST_UPDATE_BYTES * n));
        for (int64_t d = 0; d < mesh->data; d++)
            FAST_TRY(fast__dry_send(&self, d * parts + part, FAST_DRY_PULL, params));
    }
    return FAST_OK;
}

/* Count the operations of a stage's sections. */
static fast_err open_sections(fast_dry_run *run, int64_t s)
{
    const fast_plan_part *part = &run->parts[s];
    const fast_split_shard *shard = part->shard;

    FAST_TRY(fast__alloc("sections", shard ? shard->section_count : 1, sizeof(fast_dry_section),
                         &run->sections[s]));
    if (!shard)
        run->sections[s][0] = (fast_dry_section){ part->forward, part->backward, part->weights };
    for (int64_t k = 0; shard && k < shard->section_count; k++) {
        const fast_graph *graph = &shard->sections[k].graph;
        const double share = shard->sections[k].divided ? 1 / (double)run->plan->mesh.tensor : 1;
        bool *needs = NULL;

        FAST_TRY(fast__alloc("needs", graph->node_count, sizeof *needs, &needs));
        fast__graph_needs(graph, needs);
        const double forward = fast__graph_flops_forward(graph);
        run->sections[s][k] =
            (fast_dry_section){ share * forward,
                                share * (fast__graph_flops_train(graph, needs) - forward), 0 };
        for (int i = 1; i < graph->node_count; i++)
            run->sections[s][k].weights += share * fast__split_weights(graph, needs, i);
        fast__free(needs);
    }
    return FAST_OK;
}

/* Write the nodes of all workers as a placement. */
static void put_placement(const fast_dry_run *run, char *text, size_t size)
{
    size_t used = 0;

    for (int64_t i = 0; i < fast__mesh_size(&run->plan->mesh); i++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", i > 0 ? "," : "",
                                 run->plan->nodes[i]);
    FAST_ASSERT(used < size);
}

/* Run the actors. */
static fast_err run_actors(fast_dry_run *run)
{
    const int64_t workers = fast__mesh_size(&run->plan->mesh);
    const bool serves = run->plan->exchange == FAST_PLAN_PS && run->plan->mesh.data > 1;
    const fast_role roles[] = { { "worker", workers, worker_main, run },
                                { "server", run->plan->mesh.pipe * run->plan->mesh.tensor,
                                  server_main, run } };
    fast_actors_config config;
    fast_world *world = NULL;

    memset(&config, 0, sizeof config);
    fast__options_default(fast__actors_options, &config);
    snprintf(config.transport, sizeof config.transport, "sim");
    snprintf(config.cluster, sizeof config.cluster, "%s", run->space->job.cluster);
    put_placement(run, config.placement, sizeof config.placement);
    config.seed = run->space->job.seed;
    config.timeout = 1e9;
    FAST_TRY(fast__world_open(&config, roles, serves ? 2 : 1, &world));
    const fast_err err = fast__world_run(world, NULL);
    fast__world_close(world);
    return err;
}

/* Turn the times of the actors into a cost. */
static void read_times(const fast_dry_run *run, fast_plan_cost *out)
{
    const double counted = (double)(run->cold - run->warm);
    const double workers = (double)fast__mesh_size(&run->plan->mesh);

    out->step_s = (double)(run->ended - run->begun) * 1e-9 / counted;
    out->compute_s = (double)run->compute_ns * 1e-9 / counted;
    out->exchange_s = (double)run->exchange_ns * 1e-9 / counted;
    out->bubble = run->passes_ns > 0
                      ? fmax(0, 1 - (double)run->busy_ns / ((double)run->passes_ns * workers))
                      : 0;
}

/* Set which steps are played, and which of them count. */
static void choose_steps(fast_dry_run *run)
{
    run->warm = fast__plan_warm(run->space, run->plan);
    run->cold = run->warm + STEPS;
    run->steps = run->cold + run->warm - 1;
}

fast_err fast__plan_dry_run(fast_plan_space *space, const fast_plan *plan, fast_plan_cost *out)
{
    fast_dry_run run = { .space = space,
                         .plan = plan,
                         .batch = fast__plan_micro_batch(space, plan) };
    fast_plan_cost cost;
    fast_err err = FAST_OK;

    FAST_TRY(fast__plan_estimate(space, plan, &cost));
    choose_steps(&run);
    for (int64_t s = 0; s < fast__plan_stages(plan) && !err; s++) {
        err = fast__plan_part(space, plan, s, &run.parts[s]);
        if (!err)
            err = open_sections(&run, s);
    }
    if (!err)
        err = run_actors(&run);
    for (int64_t s = 0; s < fast__plan_stages(plan); s++)
        fast__free(run.sections[s]);
    if (err)
        return err;
    read_times(&run, &cost);
    *out = cost;
    return FAST_OK;
}
