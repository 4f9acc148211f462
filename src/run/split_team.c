/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split teams: from a mesh to stages, learners and groups, and back to one model.
 *
 *     worker          = replica * stages + stage
 *     range of stage  = [params_offset, params_offset + count) of the whole vector
 *
 * What is refused, each with its reason: strategies whose replicas differ or that have servers,
 * since the representative of several is voted on whole models; codecs with residuals in
 * checkpoints; rules that clip by the norm of the whole gradient; parts that see whole models only
 * (tied weights, preprocessing actors, phases, recordings, learners of the caller's).
 *
 * Message, between steps and at the end:
 *
 *     TAG_RANGE    stage of replica 0 to worker 0; words[0] step; part 0: w, s and, where a
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
    if (c->split.pipe > 1 && fast__optimizer_clips(run->optimizer))
        return fast__fail(FAST_EINVAL,
                          "mesh=%s: clip_norm needs the norm of the whole gradient, and each stage "
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
                                                       : NULL;

    if (why)
        return fast__fail(FAST_EINVAL,
                          "mesh=%s: strategy %s %s, and the stages of a split model need replicas "
                          "that are equal after each step; use allreduce",
                          team->run->config.mesh, s->name, why);
    return FAST_OK;
}

/* Cut the network, and list the workers of each stage. */
static fast_err open_stages(fast_team *team)
{
    fast_team_split *split = &team->split;
    const fast_graph *graph = team->run->graph;
    const int64_t count = split->mesh.pipe;
    int *ends = NULL, first = 0;

    FAST_TRY(fast__alloc("stages", count, sizeof *split->stages, &split->stages));
    FAST_TRY(fast__alloc("workers of stages", fast__mesh_size(&split->mesh), sizeof *split->ids,
                         &split->ids));
    for (int64_t i = 0; i < fast__mesh_size(&split->mesh); i++) {
        const fast_mesh_place place = fast__mesh_place(&split->mesh, i);

        split->ids[place.pipe * split->mesh.data + place.data] = i;
    }
    FAST_TRY(fast__alloc("ends of stages", count, sizeof *ends, &ends));
    fast_err err = fast__split_choose(graph, count, &fast__split_speed_typical, ends);
    for (int64_t s = 0; s < count && !err; s++) {
        err = fast__split_stage_new(graph, first, ends[s], &split->stages[s].stage);
        first = ends[s];
    }
    fast__free(ends);
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

void fast__split_close(fast_team *team)
{
    fast_team_split *split = &team->split;

    for (int64_t s = 0; split->stages && s < split->mesh.pipe; s++) {
        if (split->stages[s].program)
            team->run->engine->program_free(split->stages[s].program);
        fast__split_stage_free(split->stages[s].stage);
    }
    fast__free(split->stages);
    fast__free(split->ids);
    *split = (fast_team_split){ 0 };
}

/* The stage of a worker. */
static fast_team_stage *stage_of(const fast_team *team, int64_t worker)
{
    return &team->split.stages[fast__mesh_place(&team->split.mesh, worker).pipe];
}

fast_err fast__split_learner(fast_team_actor *self, fast_context_options *o,
                             fast_pipe_options *pipe)
{
    fast_team *team = self->team;
    const fast_run *run = team->run;
    const fast_mesh *mesh = &team->split.mesh;
    const fast_mesh_place at = fast__mesh_place(mesh, self->number);
    fast_team_stage *shared = stage_of(team, self->number);
    const fast_split_stage *stage = shared->stage;
    const bool first = at.pipe == 0, last = at.pipe == mesh->pipe - 1;
    const fast_engine_options engine = fast__run_engine_options(run);

    *pipe = (fast_pipe_options){
        .place = { .pipeline = (fast_pipeline)run->config.pipeline,
                   .stages = mesh->pipe,
                   .stage = at.pipe,
                   .micro_batches = run->config.accumulate },
        .before = first ? -1 : self->number - 1,
        .behind = last ? -1 : self->number + 1,
    };
    if (!shared->program)
        FAST_TRY(run->engine->compile(&stage->graph, &engine, &shared->program));
    if (first || last || stage->draws)
        FAST_TRY(fast__run_loader(run, at.data, false, &self->loader));
    o->rank = at.data;
    o->workers = mesh->data;
    o->worker_ids = team->split.ids + at.pipe * mesh->data;
    o->shared = NULL;
    o->params_offset = stage->params_offset;
    o->state_offset = stage->state_offset;
    o->pipe = pipe;
    return fast__staged_new(&(fast_staged_options){ .program = shared->program,
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
    fast_trainer *t = &self->context.trainer;

    FAST_TRY(fast_group_all(t->actor, "worker", &self->everyone));
    return fast_group_new(t->actor, t->worker_ids, t->workers, 1, &t->group);
}

/* One model again. */

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

/* Set the range of a stage in the run's model; `slots` is one after the other, NULL: the worker's
 * own. */
static void put_range(fast_team *team, const fast_split_stage *stage, const float *w,
                      const float *s)
{
    fast_run *run = team->run;

    fast__vector_copy(stage->graph.params.count, w, run->learner->w + stage->params_offset);
    fast__vector_copy(stage->graph.state.count, s, run->learner->s + stage->state_offset);
}

/* Take over the range of a worker of this process, with the rule's state. */
static void take_own(fast_team *team, const fast_team_actor *self)
{
    const fast_split_stage *stage = stage_of(team, self->number)->stage;
    const int64_t count = stage->graph.params.count;
    float *slot;

    put_range(team, stage, self->context.trainer.w, self->context.trainer.s);
    for (int i = 0; (slot = fast__optimizer_slot(self->context.optimizer, i)) != NULL; i++)
        fast__vector_copy(count, slot,
                          fast__optimizer_slot(team->run->optimizer, i) + stage->params_offset);
}

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
    const fast_split_stage *stage = stage_of(team, worker)->stage;
    const fast_trainer *t = &self->context.trainer;
    const int slots = slots_due(self);
    const int64_t count = stage->graph.params.count, state = stage->graph.state.count;
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
    put_range(team, stage, in, in + count);
    for (int i = 0; i < slots; i++)
        fast__vector_copy(count, in + count * (i + 1) + state,
                          fast__optimizer_slot(team->run->optimizer, i) + stage->params_offset);
    fast__mutex_unlock(&team->mutex);
    fast_msg_free(msg);
    return FAST_OK;
}

fast_err fast__split_gather(const fast_team_actor *self)
{
    fast_team *team = self->team;

    FAST_ASSERT(self->number == 0);
    for (int64_t i = 1; i < team->split.mesh.pipe; i++)
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
    for (int64_t i = 1; self->number == 0 && i < team->split.mesh.pipe; i++)
        if (!team->actors[i])
            FAST_TRY(receive_range(self, i));
    return FAST_OK;
}

void fast__split_take_ends(fast_team *team)
{
    for (int64_t i = 0; i < team->split.mesh.pipe; i++)
        if (team->actors[i])
            take_own(team, team->actors[i]);
    team->measures.divergence = 0;
}
