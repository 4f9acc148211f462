/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split teams: from a mesh to stages, learners and groups, and back to one model.
 *
 *     worker   (replica * stages + stage) * shards + shard
 *     its w    pieces of the whole vector: a range of it, or slices of tensors
 *
 * What is refused, each with its reason: strategies whose replicas differ or that have servers,
 * since the representative of several is voted on whole models; codecs with residuals in
 * checkpoints; rules that clip by the norm of the whole gradient; parts that see whole models only
 * (tied weights, preprocessing actors, phases, recordings, learners of the caller's).
 *
 * Message, between steps and at the end:
 *
 *     TAG_RANGE    worker of replica 0 to worker 0; words[0] step; part 0: w, s and, where a
 *                  checkpoint is due, the slots of the rule
 */
#include "base/memory.h"
#include "run/team.h"
#include "tensor/vector.h"

#include <string.h>

enum { TAG_RANGE = 0x7fffff20 }; /* messages between processes */

bool fast__split_is(const fast_team *team)
{
    return team->split.mesh.pipe > 0;
}

/* Refuse options of a run whose model is split. */
static fast_err check_options(const fast_team *team)
{
    const fast_run *run = team->run;
    const fast_run_config *c = &run->config;
    const char *what = run->foreign        ? "a learner of the caller's"
                       : c->phases[0]      ? "phases"
                       : c->tied == 1      ? "tied=yes"
                       : c->preprocess > 0 ? "preprocess"
                       : c->record[0]      ? "record"
                       : c->replay[0]      ? "replay"
                       : c->faults[0]      ? "faults"
                       : c->memory[0]      ? "memory"
                       : c->recompute      ? "recompute=yes"
                                           : NULL;

    if (what)
        return fast__fail(FAST_EINVAL,
                          "mesh=%s splits the model, which %s does not allow; leave "
                          "out one of them",
                          c->mesh, what);
    if (c->split.pipe > 1 && c->pipeline == FAST_PIPELINE_PIPEDREAM &&
        (c->checkpoint[0] || c->resume[0]))
        return fast__fail(FAST_EINVAL,
                          "pipeline=pipedream has batches in flight between steps, "
                          "which a checkpoint does not hold; leave out %s",
                          c->checkpoint[0] ? "checkpoint" : "resume");
    if (c->split.tensor > 1 && fast__optimizer_rule(run->optimizer)->by_segment)
        return fast__fail(
            FAST_EINVAL,
            "mesh=%s: optimizer %s needs norms of whole layers, and shards have parts "
            "of them; use another one, like adam",
            c->mesh, fast__optimizer_rule(run->optimizer)->name);
    if (c->split.pipe * c->split.tensor > 1 && fast__optimizer_rule(run->optimizer)->observe)
        return fast__fail(FAST_EINVAL,
                          "mesh=%s: optimizer %s observes the whole gradient, and each worker has "
                          "a part of it; use another one, like adam",
                          c->mesh, fast__optimizer_rule(run->optimizer)->name);
    if (c->split.pipe * c->split.tensor > 1 && fast__optimizer_clips(run->optimizer))
        return fast__fail(
            FAST_EINVAL,
            "mesh=%s: clip_norm needs the norm of the whole gradient, and each worker "
            "has a part of it; use clip_value",
            c->mesh);
    return FAST_OK;
}

/* Refuse a strategy that does not act on parts of a model. */
static fast_err check_strategy(const fast_team *team)
{
    const fast_strategy *s = team->strategy;
    const char *why = !s->synchronous || !s->identical ? "keeps replicas that differ"
                      : team->servers > 0              ? "has servers"
                      : s->shares_memory               ? "writes to one memory"
                      : strcmp(s->name, "zero") == 0   ? "shards replicas of whole models"
                                                       : NULL;

    if (why)
        return fast__fail(FAST_EINVAL,
                          "mesh=%s: strategy %s %s, and the stages of a split model need replicas "
                          "that are equal after each step; use allreduce",
                          team->run->config.mesh, s->name, why);
    return FAST_OK;
}

/* List the workers of each part of the model. */
static void list_workers(fast_team_split *split)
{
    const fast_mesh *mesh = &split->mesh;

    for (int64_t i = 0; i < fast__mesh_size(mesh); i++) {
        const fast_mesh_place at = fast__mesh_place(mesh, i);

        split->ids[(at.pipe * mesh->tensor + at.tensor) * mesh->data + at.data] = i;
    }
}

/* Cut the network into stages and their tensors into shards. */
static fast_err open_stages(fast_team *team)
{
    fast_team_split *split = &team->split;
    const fast_graph *graph = team->run->graph;
    const int64_t count = split->mesh.pipe, shards = split->mesh.tensor;
    int *ends = NULL, first = 0;
    int64_t pairs = 0;

    FAST_TRY(fast__alloc("stages", count, sizeof *split->stages, &split->stages));
    FAST_TRY(fast__alloc("shards", count * shards, sizeof *split->shards, &split->shards));
    FAST_TRY(fast__alloc("workers of stages", fast__mesh_size(&split->mesh), sizeof *split->ids,
                         &split->ids));
    list_workers(split);
    FAST_TRY(fast__alloc("ends of stages", count, sizeof *ends, &ends));
    fast_err err = fast__split_choose(graph, count, &fast__split_speed_typical, ends);
    for (int64_t s = 0; s < count && !err; s++) {
        err = fast__split_stage_new(graph, first, ends[s], &split->stages[s]);
        for (int64_t t = 0; t < shards && !err; t++)
            err = fast__split_shard_new(split->stages[s], shards, t,
                                        &split->shards[s * shards + t].shard);
        pairs += err ? 0 : split->shards[s * shards].shard->pair_count;
        first = ends[s];
    }
    fast__free(ends);
    if (!err && shards > 1 && pairs == 0)
        return fast__fail(FAST_EINVAL,
                          "mesh=%s: no stage has attention, or two dense layers with an activation "
                          "between them, that %lld shards divide; use another tensor",
                          team->run->config.mesh, (long long)shards);
    return err;
}

fast_err fast__split_open(fast_team *team)
{
    const fast_run_config *c = &team->run->config;

    if (!c->mesh[0])
        return FAST_OK;
    FAST_TRY(check_options(team));
    FAST_TRY(check_strategy(team));
    team->split.mesh = c->split;
    return open_stages(team);
}

fast_err fast__split_check_saved(const fast_team *team)
{
    if (!fast__split_is(team) || !team->saved.on)
        return FAST_OK;
    return fast__fail(
        FAST_EINVAL,
        "mesh=%s: a codec with residuals has state that a checkpoint of a split model "
        "does not hold; leave out checkpoint and resume, or give feedback=no",
        team->run->config.mesh);
}

/* Free the sections of a shard with their programs. */
static void free_shard(const fast_team *team, const fast_team_shard *shared)
{
    for (int64_t k = 0; shared->sections && k < shared->shard->section_count; k++)
        team->run->engine->program_free((fast_program *)(uintptr_t)shared->sections[k].program);
    fast__free(shared->sections);
    fast__split_shard_free(shared->shard);
}

void fast__split_close(fast_team *team)
{
    fast_team_split *split = &team->split;

    for (int64_t i = 0; split->shards && i < split->mesh.pipe * split->mesh.tensor; i++)
        free_shard(team, &split->shards[i]);
    for (int64_t s = 0; split->stages && s < split->mesh.pipe; s++)
        fast__split_stage_free(split->stages[s]);
    fast__free(split->stages);
    fast__free(split->shards);
    fast__free(split->ids);
    *split = (fast_team_split){ 0 };
}

/* The part of the model that a worker has. */
static fast_team_shard *shard_of(const fast_team *team, int64_t worker)
{
    const fast_mesh_place at = fast__mesh_place(&team->split.mesh, worker);

    return &team->split.shards[at.pipe * team->split.mesh.tensor + at.tensor];
}

/* Compile the sections of a shard, unless another worker of it was made before. */
static fast_err compile_shard(const fast_run *run, fast_team_shard *shared)
{
    const fast_engine_options options = fast__run_engine_options(run);
    const fast_split_shard *shard = shared->shard;

    if (shared->sections)
        return FAST_OK;
    FAST_TRY(
        fast__alloc("sections", shard->section_count, sizeof *shared->sections, &shared->sections));
    for (int64_t k = 0; k < shard->section_count; k++) {
        const fast_split_section *section = &shard->sections[k];
        fast_program *program = NULL;

        FAST_TRY(run->engine->compile(&section->graph, &options, &program));
        shared->sections[k] =
            (fast_staged_section){ program, section->summed, section->params_offset,
                                   section->state_offset };
    }
    return FAST_OK;
}

fast_err fast__split_learner(fast_team_actor *self, fast_context_options *o,
                             fast_pipe_options *pipe)
{
    fast_team *team = self->team;
    const fast_run *run = team->run;
    const fast_mesh *mesh = &team->split.mesh;
    const fast_mesh_place at = fast__mesh_place(mesh, self->number);
    fast_team_shard *shared = shard_of(team, self->number);
    const fast_split_shard *shard = shared->shard;
    const bool first = at.pipe == 0, last = at.pipe == mesh->pipe - 1;

    *pipe = (fast_pipe_options){
        .place = { .pipeline = (fast_pipeline)run->config.pipeline,
                   .stages = mesh->pipe,
                   .stage = at.pipe,
                   .micro_batches = run->config.accumulate },
        .before = first ? -1 : self->number - mesh->tensor,
        .behind = last ? -1 : self->number + mesh->tensor,
        .partial = shard->partial,
        .partial_count = shard->partial_count,
    };
    FAST_TRY(compile_shard(run, shared));
    if (first || last || team->split.stages[at.pipe]->draws)
        FAST_TRY(fast__run_loader(run, at.data, false, &self->loader));
    o->rank = at.data;
    o->workers = mesh->data;
    o->worker_ids = team->split.ids + (at.pipe * mesh->tensor + at.tensor) * mesh->data;
    o->shared = NULL;
    o->map = &shard->map;
    o->state_offset = shard->state_offset;
    o->pipe = pipe;
    return fast__staged_new(&(fast_staged_options){ .sections = shared->sections,
                                                    .section_count = shard->section_count,
                                                    .params = shard->params,
                                                    .state = shard->state,
                                                    .device = run->device,
                                                    .loader = self->loader,
                                                    .first = first,
                                                    .last = last,
                                                    .slots = fast__pipe_flight(&pipe->place),
                                                    .accumulate = run->config.accumulate,
                                                    .seed = (uint64_t)run->config.seed,
                                                    .model = run->learner },
                            &o->learner);
}

fast_err fast__split_groups(fast_team_actor *self)
{
    const fast_mesh *mesh = &self->team->split.mesh;
    const fast_mesh_place at = fast__mesh_place(mesh, self->number);
    const int64_t *ids = self->team->ids + self->number - at.tensor;
    fast_trainer *t = &self->context.trainer;

    FAST_TRY(fast_group_all(t->actor, "worker", &self->everyone));
    if (mesh->tensor > 1)
        FAST_TRY(fast_group_new(t->actor, ids, mesh->tensor, 1, &self->context.pipe.shards));
    return fast_group_new(t->actor, t->worker_ids, t->workers, 1, &t->group);
}

void fast__split_ungroup(fast_team_actor *self)
{
    fast_group_free(self->everyone);
    fast_group_free(self->context.pipe.shards);
    self->everyone = self->context.pipe.shards = NULL;
}

/* One model again. */

/* Workers of a replica. Those of replica 0 are the first ones. */
static int64_t parts_of(const fast_team *team)
{
    return team->split.mesh.pipe * team->split.mesh.tensor;
}

/* Number of vectors of the rule's state that a range has: all where a checkpoint is due. */
static int slots_due(const fast_team_actor *self)
{
    const fast_run *run = self->team->run;
    int count = 0;

    if (!run->config.checkpoint[0])
        return 0;
    while (fast__optimizer_slot(run->optimizer, count))
        count++;
    return count;
}

/* Set the elements of a shard in the run's model. */
static void put_range(fast_team *team, const fast_split_shard *shard, const float *w,
                      const float *s)
{
    fast_run *run = team->run;

    fast__split_map_gather(&shard->map, w, run->learner->w);
    fast__vector_copy(shard->state.count, s, run->learner->s + shard->state_offset);
}

/* Take over the elements of a worker of this process, with the rule's state. */
static void take_own(fast_team *team, const fast_team_actor *self)
{
    const fast_split_shard *shard = shard_of(team, self->number)->shard;
    float *slot;

    put_range(team, shard, self->context.trainer.w, self->context.trainer.s);
    for (int i = 0; (slot = fast__optimizer_slot(self->context.optimizer, i)) != NULL; i++)
        fast__split_map_gather(&shard->map, slot, fast__optimizer_slot(team->run->optimizer, i));
}

/* One message, TAG_RANGE, with words[0] = step and one part: the worker's elements of w, its state,
 * then its elements of each vector of the rule's state if a checkpoint is due. Replicas of stages
 * are equal: the first one sends, and worker 0, which receives, takes its own elements over. */
fast_err fast__split_send(const fast_team_actor *self)
{
    fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    const int slots = slots_due(self);
    const size_t floats = (size_t)(t->count * (1 + slots) + t->state_count);
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;

    if (fast__mesh_place(&team->split.mesh, self->number).data > 0 || self->number == 0)
        return FAST_OK;
    FAST_TRY(fast_msg_new(t->actor, TAG_RANGE, &msg));
    const fast_err err = fast_buffer_new(t->actor, floats * sizeof(float), &buffer);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    float *out = fast_buffer_data(buffer);
    fast__vector_copy(t->count, t->w, out);
    fast__vector_copy(t->state_count, t->s, out + t->count);
    for (int i = 0; i < slots; i++)
        fast__vector_copy(t->count, fast__optimizer_slot(self->context.optimizer, i),
                          out + t->count * (i + 1) + t->state_count);
    msg->words[0] = t->step;
    fast_msg_add(msg, &buffer);
    return fast_send(t->actor, team->ids[0], &msg);
}

/* Receive the range of one worker. A stage is as far as the first one, or a few messages behind. */
static fast_err receive_range(const fast_team_actor *self, int64_t worker)
{
    fast_team *team = self->team;
    const fast_split_shard *shard = shard_of(team, worker)->shard;
    const fast_trainer *t = &self->context.trainer;
    const int slots = slots_due(self);
    const int64_t count = shard->params.count, state = shard->state.count;
    fast_msg *msg = NULL;

    fast_actor_at(t->actor, t->step, "the weights of a stage");
    FAST_TRY(fast_receive(t->actor, team->ids[worker], TAG_RANGE, FAST_SOON, &msg));
    if (msg->words[0] != t->step || msg->part_count != 1 ||
        msg->parts[0].size != (size_t)(count * (1 + slots) + state) * sizeof(float)) {
        const long long step = (long long)msg->words[0];

        fast_msg_free(msg);
        return fast__fail(FAST_EFORMAT, "worker %lld sent its stage of step %lld, not %lld",
                          (long long)worker, step, (long long)t->step);
    }
    const float *in = fast_msg_data(msg, 0);
    fast__mutex_lock(&team->mutex);
    put_range(team, shard, in, in + count);
    for (int i = 0; i < slots; i++)
        fast__split_map_gather(&shard->map, in + count * (i + 1) + state,
                               fast__optimizer_slot(team->run->optimizer, i));
    fast__mutex_unlock(&team->mutex);
    fast_msg_free(msg);
    return FAST_OK;
}

fast_err fast__split_gather(const fast_team_actor *self)
{
    fast_team *team = self->team;

    FAST_ASSERT(self->number == 0);
    for (int64_t i = 1; i < parts_of(team); i++)
        FAST_TRY(receive_range(self, i));
    fast__mutex_lock(&team->mutex);
    take_own(team, self);
    team->measures.divergence = 0;
    fast__mutex_unlock(&team->mutex);
    return FAST_OK;
}

fast_err fast__split_leave(const fast_team_actor *self)
{
    fast_team *team = self->team;

    if (!team->place.first)
        return fast__split_send(self);
    for (int64_t i = 1; self->number == 0 && i < parts_of(team); i++)
        if (!team->actors[i])
            FAST_TRY(receive_range(self, i));
    return FAST_OK;
}

void fast__split_take_ends(fast_team *team)
{
    for (int64_t i = 0; i < parts_of(team); i++)
        if (team->actors[i])
            take_own(team, team->actors[i]);
    team->measures.divergence = 0;
}
