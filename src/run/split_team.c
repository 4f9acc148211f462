/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split teams: from a mesh to stages, learners and groups, and back to one model.
 *
 *     worker   (replica * pipe + stage) * shards + shard
 *     its w    pieces of the whole vector: a range of it, or slices of tensors
 *
 * Where stages have replicas of their own there is one pipeline, whose micro-batches these take
 * round-robin; its steps are those of one worker that accumulates them.
 *
 * Where a pipeline is interleaved, stages are dealt out: the worker that has stage s also has
 * s + pipe, s + 2 pipe and so on, its chunks. Of two workers with three chunks each
 *
 *     model       | stage 0 | stage 1 | stage 2 | stage 3 | stage 4 | stage 5 |
 *     worker 0    | stage 0 | stage 2 | stage 4 |
 *     worker 1    | stage 1 | stage 3 | stage 5 |
 *
 * and each has a program, a learner and a loader for each of them.
 *
 * A strategy acts on each part of the model alone: its workers are those of one part, in the order
 * of replicas, and each part has servers of its own. What is refused is in split_checks.c.
 *
 * split_model.c puts the parts together again.
 */
#include "base/memory.h"
#include "model/chunked.h"
#include "model/rounds.h"
#include "run/split_profile.h"
#include "run/team.h"
#include "split/kinds.h"
#include "split/named_cuts.h"
#include "tensor/vector.h"

#include <stdio.h>
#include <string.h>

bool fast__split_is(const fast_team *team)
{
    return team->split.mesh.pipe > 0;
}

int64_t fast__split_parts(const fast_team *team)
{
    const fast_mesh *mesh = &team->split.mesh;

    return fast__split_is(team) ? mesh->pipe * mesh->tensor : 1;
}

int64_t fast__split_part_of(const fast_team *team, int64_t worker)
{
    const fast_mesh *mesh = &team->split.mesh;

    if (!fast__split_is(team))
        return 0;
    const fast_mesh_place at = fast__mesh_place(mesh, worker);
    return at.pipe * mesh->tensor + at.tensor;
}

int64_t fast__split_rank(const fast_team *team, int64_t worker)
{
    return fast__split_is(team) ? fast__mesh_place(&team->split.mesh, worker).data : worker;
}

int64_t fast__split_first(const fast_team *team, int64_t part)
{
    const fast_mesh *mesh = &team->split.mesh;
    const fast_mesh_place at = { .pipe = part / mesh->tensor, .tensor = part % mesh->tensor };

    return fast__mesh_worker(mesh, at);
}

/* The workers of a part, in the order of replicas. Where stages have replicas of their own, these
 * are neighbours, so that the list of all is that of the numbers. */
static int64_t *workers_of(const fast_team *team, int64_t part)
{
    const fast_mesh *mesh = &team->split.mesh;

    return team->split.ids +
           (mesh->counts[0] > 0 ? fast__split_first(team, part) : part * mesh->data);
}

int64_t fast__split_leader(const fast_team *team, int64_t worker)
{
    FAST_ASSERT(team->split.mesh.counts[0] == 0);
    return worker - fast__split_part_of(team, worker);
}

fast_team_part fast__split_part(const fast_team *team, int64_t part)
{
    const fast_learner *model = team->run->learner;

    FAST_ASSERT(part >= 0 && part < fast__split_parts(team));
    if (!fast__split_is(team))
        return (fast_team_part){ &model->params, &model->state, NULL, 0 };
    const fast_split_chunks *joint = team->split.parts[part].joint;
    return (fast_team_part){ &joint->params, &joint->state, &joint->map, &joint->state_map };
}

/* Number of stages: workers of a pipeline have several each where it is interleaved. */
static int64_t stages_of(const fast_team *team)
{
    return team->split.mesh.pipe * team->split.chunks;
}

/* The part that a worker has. */
static fast_team_part part_of(const fast_team *team, int64_t worker)
{
    return fast__split_part(team, fast__split_part_of(team, worker));
}

/* List the workers of each part of the model. */
static void list_workers(fast_team_split *split)
{
    const fast_mesh *mesh = &split->mesh;

    for (int64_t i = 0; i < fast__mesh_size(mesh); i++) {
        const fast_mesh_place at = fast__mesh_place(mesh, i);

        split->ids[mesh->counts[0] > 0
                       ? i
                       : (at.pipe * mesh->tensor + at.tensor) * mesh->data + at.data] = i;
    }
}

/* Refuse an entry of the layout that splits nothing, with the reason; of the standard one, whose
 * entries are alike, at least one must split something. */
static fast_err check_layout(const fast_team *team)
{
    const fast_run_config *c = &team->run->config;
    const fast_layout_map *map = &c->layout_map;
    const char *unfit = "";
    uint32_t used = 0;
    int i = 0;

    for (int64_t s = 0; s < stages_of(team); s++) {
        const fast_split_shard *shard = team->split.shards[s * c->split.tensor].shard;

        used |= shard->used;
        unfit = unfit[0] ? unfit : shard->unfit;
    }
    /* The first entry of a given map that nothing is split by. */
    while (c->layout[0] && i < map->count && (used & UINT32_C(1) << i))
        i++;
    if (c->layout[0] ? i == map->count : used != 0)
        return FAST_OK;
    if (!c->layout[0])
        return fast__fail(FAST_EINVAL,
                          "mesh=%s: no stage has heads, pairs of dense layers, experts or summed "
                          "branches that %lld shards divide%s%s; use another tensor, or a layout "
                          "that fits the model",
                          c->mesh, (long long)c->split.tensor, unfit[0] ? ": " : "", unfit);
    /* An entry that names layers, or all of them: "conv=pairs", "pairs". */
    const fast_layout_entry *entry = &map->entries[i];
    if (unfit[0])
        return fast__fail(FAST_EINVAL, "mesh=%s, layout %s%s%s: %s; use another tensor or layout",
                          c->mesh, entry->layers, entry->layers[0] ? "=" : "", entry->kind->name,
                          unfit);
    return fast__fail(FAST_EINVAL,
                      "mesh=%s, layout %s%s%s: no stage has %s that %lld shards divide; use "
                      "another tensor or layout",
                      c->mesh, entry->layers, entry->layers[0] ? "=" : "", entry->kind->name,
                      entry->kind->needs, (long long)c->split.tensor);
}

/* Refuse micro-batches of which shards cannot have as many samples each, where a section computes
 * the shard's own ones. Means over samples would weigh the shards differently, and messages would
 * have other sizes at other shards:
 *
 *     batch=6, tensor=2     samples 0 1 2 | 3 4 5
 *     batch=5, tensor=2     refused
 */
static fast_err check_batch(const fast_team *team)
{
    const fast_run_config *c = &team->run->config;

    for (int64_t s = 0; s < stages_of(team) && c->batch % c->split.tensor != 0; s++) {
        const fast_split_shard *shard = team->split.shards[s * c->split.tensor].shard;

        for (int64_t k = 0; k < shard->section_count; k++)
            if (shard->sections[k].divided)
                return fast__fail(FAST_EINVAL,
                                  "mesh=%s: a batch of %lld samples is not divided by %lld shards; "
                                  "use another batch",
                                  c->mesh, (long long)c->batch, (long long)c->split.tensor);
    }
    return FAST_OK;
}

/* Refuse micro-batches of which some shards of a grid would have no samples. */
static fast_err check_grid(const fast_team *team)
{
    const fast_run_config *c = &team->run->config;

    for (int64_t s = 0; s < stages_of(team); s++) {
        const fast_split_shard *shard = team->split.shards[s * c->split.tensor].shard;

        for (int64_t k = 0; k < shard->section_count; k++)
            if (shard->sections[k].enter.grid > c->batch)
                return fast__fail(FAST_EINVAL,
                                  "mesh=%s: a batch of %lld samples is less than %lld rows of a "
                                  "grid of shards; use a larger batch",
                                  c->mesh, (long long)c->batch,
                                  (long long)shard->sections[k].enter.grid);
    }
    return FAST_OK;
}

/* Refuse layers that are computed in rounds where backward passes are divided: their rounds compute
 * both gradients. */
static fast_err check_rounds(const fast_team *team)
{
    const fast_run_config *c = &team->run->config;

    if (!fast__pipe_divides((fast_pipeline)c->pipeline))
        return FAST_OK;
    for (int64_t i = 0; i < stages_of(team) * c->split.tensor; i++)
        for (int64_t k = 0; k < team->split.shards[i].shard->section_count; k++)
            if (team->split.shards[i].shard->sections[k].rounds)
                return fast__fail(FAST_EINVAL,
                                  "pipeline=zero_bubble divides backward passes, which products in "
                                  "rounds of shards do not allow; use another pipeline or layout");
    return FAST_OK;
}

/* Return whether the network has losses of heads that need no answers. Shards may have parts of
 * them, of their own samples, which are summed at the end of a step: a float more to exchange. */
static bool has_shares(const fast_graph *graph)
{
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == FAST_OP_HEAD && graph->nodes[i].loss == FAST_LOSS_BALANCE)
            return true;
    return false;
}

/* Have two shards the same elements? */
static bool is_same(const fast_split_piece *a, const fast_split_piece *b)
{
    return a->whole == b->whole && a->rows == b->rows && a->columns == b->columns &&
           (a->rows == 1 || a->stride == b->stride);
}

/* List the parameters of a worker's part, for norms. Those that a shard before it has, too, do not
 * count:
 *
 *     shard 0    dense1 [0, 8)     norm
 *     shard 1    dense1 [8, 16)    norm, which shard 0 counts
 */
static fast_err list_pieces(const fast_graph *graph, const fast_team_chunks *shards, int64_t shard,
                            fast_pipe_piece **out)
{
    const fast_split_map *map = &shards[shard].joint->map;

    FAST_TRY(fast__alloc("pieces of a shard", map->count + 1, sizeof **out, out));
    for (int64_t i = 0; i < map->count; i++) {
        const fast_split_piece *piece = &map->pieces[i];

        (*out)[i] = (fast_pipe_piece){ .offset = piece->part,
                                       .count = piece->rows * piece->columns,
                                       .segment = fast__split_segment(&graph->params, piece->whole),
                                       .counted = true };
        for (int64_t t = 0; t < shard; t++)
            for (int64_t k = 0; k < shards[t].joint->map.count; k++)
                if (is_same(piece, &shards[t].joint->map.pieces[k]))
                    (*out)[i].counted = false;
    }
    return FAST_OK;
}

/* Join the shards of each worker of a replica. */
static fast_err join_chunks(const fast_graph *graph, fast_team_split *split)
{
    const int64_t parts = split->mesh.pipe * split->mesh.tensor;
    const fast_split_shard **chunks = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(fast__alloc("chunks", parts, sizeof *split->parts, &split->parts));
    FAST_TRY(fast__alloc("chunks", split->chunks, sizeof *chunks, &chunks));
    for (int64_t i = 0; i < parts && !err; i++) {
        for (int64_t k = 0; k < split->chunks; k++)
            chunks[k] = split->shards[k * parts + i].shard;
        err = fast__split_chunks_new(chunks, split->chunks, &split->parts[i].joint);
    }
    fast__free(chunks);
    for (int64_t i = 0; i < parts && !err; i++) {
        const int64_t t = i % split->mesh.tensor;

        err = list_pieces(graph, &split->parts[i - t], t, &split->parts[i].pieces);
    }
    return err;
}

/* The replicas of each stage; NULL: all have as many. */
static const int16_t *counts_of(const fast_team_split *split)
{
    return split->mesh.counts[0] > 0 ? split->mesh.counts : NULL;
}

/* Cut the network into stages and their tensors into shards. */
static fast_err open_stages(fast_team *team)
{
    fast_team_split *split = &team->split;
    const fast_graph *graph = team->run->graph;
    const int64_t count = stages_of(team), shards = split->mesh.tensor;
    int *ends = NULL, first = 0;

    if (team->run->config.layout[0])
        FAST_TRY(fast__layout_map_check(&team->run->config.layout_map, graph));
    FAST_TRY(fast__alloc("stages", count, sizeof *split->stages, &split->stages));
    FAST_TRY(fast__alloc("shards", count * shards, sizeof *split->shards, &split->shards));
    FAST_TRY(fast__alloc("workers of stages", fast__mesh_size(&split->mesh), sizeof *split->ids,
                         &split->ids));
    list_workers(split);
    FAST_TRY(fast__alloc("ends of stages", count, sizeof *ends, &ends));
    const char *cuts = team->run->config.cuts;
    const int16_t *replicas = counts_of(split);
    fast_err err =
        strcmp(cuts, "measured") == 0 ? fast__split_measured(team->run, count, replicas, ends)
        : cuts[0]                     ? fast__split_named(graph, cuts, count, ends)
                  : fast__split_choose(graph, count, replicas, &fast__split_speed_typical, ends);
    for (int64_t s = 0; s < count && !err; s++) {
        err = fast__split_stage_new(graph, first, ends[s], &split->stages[s]);
        for (int64_t t = 0; t < shards && !err; t++)
            err = fast__split_shard_new(split->stages[s], &team->run->config.layout_map, shards, t,
                                        &split->shards[s * shards + t].shard);
        first = ends[s];
    }
    fast__free(ends);
    if (!err)
        err = join_chunks(graph, split);
    if (err || shards == 1)
        return err;
    FAST_TRY(check_layout(team));
    FAST_TRY(check_rounds(team));
    FAST_TRY(check_batch(team));
    return check_grid(team);
}

fast_err fast__split_open(fast_team *team)
{
    const fast_run_config *c = &team->run->config;

    if (!c->mesh[0])
        return FAST_OK;
    team->split.mesh = c->split;
    team->split.chunks = c->chunks;
    FAST_TRY(fast__split_check(team));
    return open_stages(team);
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

    for (int64_t i = 0; split->parts && i < split->mesh.pipe * split->mesh.tensor; i++) {
        fast__split_chunks_free(split->parts[i].joint);
        fast__free(split->parts[i].pieces);
    }
    for (int64_t i = 0; split->shards && i < stages_of(team) * split->mesh.tensor; i++)
        free_shard(team, &split->shards[i]);
    for (int64_t s = 0; split->stages && s < stages_of(team); s++)
        fast__split_stage_free(split->stages[s]);
    fast__free(split->parts);
    fast__free(split->stages);
    fast__free(split->shards);
    fast__free(split->ids);
    fast__free(split->drawn);
    *split = (fast_team_split){ 0 };
}

/* The shard that a worker has of its stage `chunk`. Shards lie in the order of stages, and those of
 * one chunk of all workers of a replica follow each other as the workers do. */
static fast_team_shard *shard_of(const fast_team *team, int64_t worker, int64_t chunk)
{
    return &team->split.shards[chunk * fast__split_parts(team) + fast__split_part_of(team, worker)];
}

/* Copy the name of the layer that a segment belongs to. Segments are named LAYER.TENSOR, and a
 * layer's name may have dots of its own:
 *
 *     conv1.weight           conv1
 *     block3.norm1.scale     block3.norm1
 */
static void layer_name(const fast_segment *segment, char *text, size_t size)
{
    const char *dot = strrchr(segment->name, '.');
    const int length = dot ? (int)(dot - segment->name) : (int)strlen(segment->name);

    snprintf(text, size, "%.*s", length, segment->name);
}

/* Segments are in the order of layers, so the first and the last one name the range. A shard has
 * slices of the same layers as the others of its stage, with other counts of parameters where a
 * layer is not divided.
 *
 *     one stage     conv1 to dense2
 *     two chunks    dense1 to dense2, dense5 to dense6
 */
static void describe_range(const fast_layout *params, char *text, size_t size)
{
    char first[64] = "", last[64] = "";

    if (params->segment_count > 0) {
        layer_name(&params->segments[0], first, sizeof first);
        layer_name(&params->segments[params->segment_count - 1], last, sizeof last);
    }
    if (strcmp(first, last) == 0)
        snprintf(text, size, "%s", first);
    else
        snprintf(text, size, "%s to %s", first, last);
}

int64_t fast__split_describe(const fast_team *team, int64_t worker, char *text, size_t size)
{
    int64_t count = 0;
    size_t used = 0;

    FAST_ASSERT(size > 0);
    text[0] = '\0';
    for (int64_t k = 0; k < team->split.chunks && used < size; k++) {
        const fast_layout *params = &shard_of(team, worker, k)->shard->params;

        used += (size_t)snprintf(text + used, size - used, "%s", k > 0 ? ", " : "");
        if (used >= size)
            break;
        describe_range(params, text + used, size - used);
        used += strlen(text + used);
        count += params->count;
    }
    return count;
}

int64_t fast__split_section_bytes(const fast_team *team, int64_t worker,
                                  const fast_staged_section *section, int64_t slot)
{
    const fast_mesh *mesh = &team->split.mesh;

    if (!section->rounds)
        return section->program->memory - (slot > 0 ? section->program->memory_shared : 0);
    return fast__rounds_bytes(
        &(fast_rounds_options){ .op = section->rounds,
                                .graph = section->program->graph,
                                .samples = team->run->config.batch,
                                .shards = mesh->tensor,
                                .shard = fast__mesh_place(mesh, worker).tensor });
}

/* A slot of the schedule has a workspace of each section, with or without a micro-batch in it. A
 * pipeline that is never drained also has older versions of its weights. What arrives from a
 * neighbour is in the workspace or is the message, whose bytes are not counted. */
int64_t fast__split_workspace_bytes(const fast_team *team, int64_t worker)
{
    const fast_pipe *pipe = &team->actors[worker]->context.pipe;
    int64_t bytes = fast__pipe_versions_bytes(&pipe->versions);

    for (int64_t c = 0; c < pipe->chunk_count; c++) {
        const fast_pipe_chunk *chunk = &pipe->chunks[c];
        const fast_team_shard *shared = shard_of(team, worker, c);

        FAST_ASSERT(shared->sections != NULL);
        for (int64_t i = 0; i < chunk->slot_count; i++)
            for (int64_t k = 0; k < shared->shard->section_count; k++)
                bytes += fast__split_section_bytes(team, worker, &shared->sections[k], i);
    }
    return bytes;
}

fast_team_shard *fast__split_shard(const fast_team *team, int64_t worker, int64_t chunk)
{
    return shard_of(team, worker, chunk);
}

void fast__split_place(const fast_team_actor *self, bool worker, fast_context_options *o)
{
    const fast_team *team = self->team;
    const int64_t servers = o->phase.servers;

    if (!fast__split_is(team))
        return;
    const int64_t index = worker ? fast__split_part_of(team, self->number)
                                 : self->number / (servers > 0 ? servers : 1);
    const fast_team_part part = fast__split_part(team, index);
    o->rank = worker ? fast__split_rank(team, self->number) : self->number - index * servers;
    o->workers = fast__mesh_replicas(&team->split.mesh, index / team->split.mesh.tensor);
    o->worker_ids = workers_of(team, index);
    o->server_ids = team->ids + team->workers + index * servers;
    o->params = part.params;
    o->state = part.state;
    o->map = part.map;
    o->state_map = part.state_map;
}

/* Fill in the options of a worker's stage, and make its loader. Chunks do not share one: it makes
 * the batches that follow ahead of time, and they are at different ones. */
static fast_err fill_chunk(fast_team_actor *self, const fast_pipe_place *place, int64_t chunk,
                           fast_staged_options *out)
{
    const fast_team *team = self->team;
    const fast_run *run = team->run;
    const fast_mesh *mesh = &team->split.mesh;
    const fast_mesh_place at = fast__mesh_place(mesh, self->number);
    const int64_t number = chunk * mesh->pipe + at.pipe;
    fast_team_shard *shared = shard_of(team, self->number, chunk);
    const fast_split_stage *stage = team->split.stages[number];
    const bool first = number == 0, last = number == stages_of(team) - 1;

    FAST_ASSERT(shared->sections != NULL);
    if (first || last || stage->draws || stage->answers)
        FAST_TRY(place->replicas ? fast__run_loader_strided(run, place->replicas[at.pipe], at.data,
                                                            &self->loaders[chunk])
                                 : fast__run_loader(run, at.data, false, &self->loaders[chunk]));
    *out = (fast_staged_options){ .sections = shared->sections,
                                  .section_count = shared->shard->section_count,
                                  .params = shared->shard->params,
                                  .state = shared->shard->state,
                                  .loader = self->loaders[chunk],
                                  .first = first,
                                  .last = last,
                                  .shards = mesh->tensor,
                                  .shard = at.tensor,
                                  .batch = run->config.batch,
                                  .rows = run->graph->positions,
                                  .slots = fast__pipe_chunk_flight(place, chunk),
                                  .accumulate = place->micro_batches,
                                  .seed = (uint64_t)run->config.seed,
                                  .model = run->learner };
    return FAST_OK;
}

/* Make the stages of a worker, and a learner of them. */
static fast_err make_chunks(fast_team_actor *self, const fast_pipe_place *place, fast_learner **out)
{
    const fast_team *team = self->team;
    const int64_t count = team->split.chunks;
    const fast_team_part part = part_of(team, self->number);
    fast_staged_options *chunks = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(fast__alloc("loaders", count, sizeof *self->loaders, &self->loaders));
    FAST_TRY(fast__alloc("chunks", count, sizeof *chunks, &chunks));
    for (int64_t k = 0; k < count && !err; k++)
        err = fill_chunk(self, place, k, &chunks[k]);
    if (!err)
        err = fast__chunked_new(&(fast_chunked_options){ .chunks = chunks,
                                                         .count = count,
                                                         .params = *part.params,
                                                         .state = *part.state,
                                                         .device = team->run->device },
                                out);
    fast__free(chunks);
    return err;
}

/* Return the steps between two checkpoints, at which no micro-batch is in flight; 0: the run saves
 * none before its end. A cancel stops between two steps, too, and drops the batches that are in
 * flight: the run that resumes lets them enter again. */
static int64_t pause_of(const fast_run *run)
{
    const fast_period period = run->config.checkpoint_period;

    if (!run->config.checkpoint[0] ||
        (period.unit != FAST_PERIOD_STEPS && period.unit != FAST_PERIOD_EPOCHS))
        return 0;
    return period.count * (period.unit == FAST_PERIOD_EPOCHS ? run->learner->epoch_steps : 1);
}

fast_pipe_place fast__split_pipe_place(const fast_team *team, int64_t worker)
{
    const fast_run_config *c = &team->run->config;
    const fast_mesh_place at = fast__mesh_place(&team->split.mesh, worker);
    const int16_t *replicas = counts_of(&team->split);

    return (fast_pipe_place){ .pipeline = (fast_pipeline)c->pipeline,
                              .stages = team->split.mesh.pipe,
                              .stage = at.pipe,
                              .micro_batches = c->accumulate / (replicas ? replicas[at.pipe] : 1),
                              .chunks = team->split.chunks,
                              .delay = c->pipe_delay,
                              .active = c->pipe_active,
                              .vertical = c->vertical_sync,
                              .replicas = replicas,
                              .replica = replicas ? at.data : 0 };
}

fast_err fast__split_learner(fast_team_actor *self, fast_context_options *o,
                             fast_pipe_options *pipe)
{
    fast_team *team = self->team;
    const fast_run *run = team->run;
    const fast_mesh *mesh = &team->split.mesh;
    const fast_mesh_place at = fast__mesh_place(mesh, self->number);
    const fast_team_chunks *part = &team->split.parts[fast__split_part_of(team, self->number)];
    fast_mesh_place before = at, behind = at;

    before.pipe = (at.pipe + mesh->pipe - 1) % mesh->pipe;
    behind.pipe = (at.pipe + 1) % mesh->pipe;
    if (mesh->counts[0] > 0)
        before.data = behind.data = 0;
    *pipe = (fast_pipe_options){
        .place = fast__split_pipe_place(team, self->number),
        .extrapolate = (fast_pipe_extrapolate)run->config.pipe_extrapolate,
        .rate_steps = run->config.pipe_lr_steps,
        .pause = pause_of(run),
        .workers = fast__mesh_size(mesh),
        .before = fast__mesh_worker(mesh, before),
        .behind = fast__mesh_worker(mesh, behind),
        .partial = part->joint->partial,
        .partial_count = part->joint->partial_count,
        .shares = mesh->tensor > 1 && has_shares(run->graph),
        .pieces = part->pieces,
        .piece_count = part->joint->map.count,
        .segment_count = run->graph->params.segment_count,
    };
    /* Stages follow each other around a ring of the workers: behind the last worker's first stage
     * is the first worker's second one. */
    FAST_TRY(make_chunks(self, &pipe->place, &o->learner));
    pipe->chunks = fast__chunked_stages(o->learner);
    o->shared = NULL;
    o->pipe = pipe;
    return FAST_OK;
}

void fast__split_unlearn(fast_team_actor *self)
{
    for (int64_t k = 0; self->loaders && k < self->team->split.chunks; k++)
        fast__loader_free(self->loaders[k]);
    fast__free(self->loaders);
    self->loaders = NULL;
}

fast_err fast__split_groups(fast_team_actor *self)
{
    const fast_team *team = self->team;
    const fast_mesh *mesh = &team->split.mesh;
    const fast_mesh_place at = fast__mesh_place(mesh, self->number);
    const int64_t *ids = team->ids + self->number - at.tensor;
    fast_trainer *t = &self->context.trainer;

    FAST_TRY(fast_group_all(t->actor, "worker", &self->everyone));
    if (mesh->tensor > 1)
        FAST_TRY(fast_group_new(t->actor, ids, mesh->tensor, 1, &self->context.pipe.shards));
    if (mesh->counts[0] > 0)
        FAST_TRY(
            fast_group_new(t->actor, team->ids, team->workers, 1, &self->context.pipe.replica));
    else if (mesh->pipe * mesh->tensor > 1)
        FAST_TRY(fast_group_new(t->actor, team->ids + fast__split_leader(team, self->number),
                                mesh->pipe * mesh->tensor, 1, &self->context.pipe.replica));
    return fast_group_new(t->actor, t->worker_ids, t->workers, 1, &t->group);
}

void fast__split_ungroup(fast_team_actor *self)
{
    fast_group_free(self->everyone);
    fast_group_free(self->context.pipe.shards);
    fast_group_free(self->context.pipe.replica);
    self->everyone = self->context.pipe.shards = self->context.pipe.replica = NULL;
}
