/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/staged.h"
#include "split/chunks.h"
#include "split/mesh.h"
#include "trainer/context.h"

/*
 * A team whose workers have stages of the model, or shards of them (--mesh). Those of one part are
 * a group of their own, in which the run's strategy acts; to the rest of the run they are workers
 * like others.
 *
 * The run's own learner has the whole model: where it is evaluated or saved, the stages of replica
 * 0 send their ranges to worker 0, and at the end their last ones.
 */
struct fast_team;
struct fast_team_actor;

/* A shard of a stage, and what its workers of this process share. */
typedef struct fast_team_shard {
    fast_split_shard *shard;       /* its sections */
    fast_staged_section *sections; /* with programs, compiled where a worker has them; else NULL */
} fast_team_shard;

/* The shards of a worker as one part. */
typedef struct fast_team_chunks {
    fast_split_chunks *joint; /* their vectors, one after the other */
    fast_pipe_piece *pieces;  /* [joint->map.count]: of its parameters */
} fast_team_chunks;

typedef struct fast_team_split {
    fast_mesh mesh; /* all 0: every worker has the whole model */
    int64_t chunks; /* stages of each worker; worker s of a pipeline has s + i mesh.pipe */
    fast_split_stage **stages; /* [chunks * mesh.pipe] */
    fast_team_shard *shards;   /* [chunks * mesh.pipe][mesh.tensor] */
    fast_team_chunks *parts;   /* [mesh.pipe][mesh.tensor]: of the chunks of each worker */
    int64_t *ids;              /* [mesh.pipe][mesh.tensor][replicas]: actors' numbers */
    bool *drawn;               /* [nodes of the graph]: layers that the run's model has, where it is
                                  on disk; NULL before the first */
} fast_team_split;

/* A part of the model, of which the workers of a stage's shard have replicas. */
typedef struct fast_team_part {
    const fast_layout *params;       /* of w and g; lent */
    const fast_layout *state;        /* of s; lent */
    const fast_split_map *map;       /* of w in the whole model's; NULL: it is all of it; lent */
    const fast_split_map *state_map; /* of s, with `map`; lent */
} fast_team_part;

/* Is the model of this team split? */
bool fast__split_is(const struct fast_team *team);
/* Return the number of parts, 1 where the model is whole; one of them; the part that a worker has,
 * and its rank among those that have it too; and the worker that has a part first. */
int64_t fast__split_parts(const struct fast_team *team);
fast_team_part fast__split_part(const struct fast_team *team, int64_t part);
int64_t fast__split_part_of(const struct fast_team *team, int64_t worker);
int64_t fast__split_rank(const struct fast_team *team, int64_t worker);
int64_t fast__split_first(const struct fast_team *team, int64_t part);
/* Return the first worker of the replica that a worker belongs to, itself where that is whole. */
int64_t fast__split_leader(const struct fast_team *team, int64_t worker);
/* Cut the model of a run with a mesh, and refuse what a split model cannot do: FAST_EINVAL with the
 * reason. Nothing happens without a mesh. FAST_ENOMEM. */
fast_err fast__split_open(struct fast_team *team);
void fast__split_close(struct fast_team *team); /* also after a failure */

/* Write the layers of a worker's part that have parameters, "conv1 to dense2"; return the number of
 * its parameters. */
int64_t fast__split_describe(const struct fast_team *team, int64_t worker, char *text, size_t size);

/* Return the bytes of a section for micro-batch `slot` in flight: of its workspace, or of its
 * rounds. Slot 0 has the memory that all slots share. */
int64_t fast__split_section_bytes(const struct fast_team *team, int64_t worker,
                                  const fast_staged_section *section, int64_t slot);
/* Return the bytes of the engine's workspaces of a worker's part: one for each micro-batch that its
 * schedule has in flight, and the stashed weights. */
int64_t fast__split_workspace_bytes(const struct fast_team *team, int64_t worker);

/* Return the shard that a worker has of its stage `chunk`. */
fast_team_shard *fast__split_shard(const struct fast_team *team, int64_t worker, int64_t chunk);

/* Give the context's options of an actor its part of the model, with the workers and servers that
 * have it, and its rank among them. */
void fast__split_place(const struct fast_team_actor *self, bool worker,
                       fast_context_options *options);
/* Return the place of a worker in its pipeline. */
fast_pipe_place fast__split_pipe_place(const struct fast_team *team, int64_t worker);
/* Make the learner of a worker's stages; its place in the pipeline goes into the context's options.
 * What the learner borrows is freed after it, also after a failure. */
fast_err fast__split_learner(struct fast_team_actor *self, fast_context_options *options,
                             fast_pipe_options *pipe);
void fast__split_unlearn(struct fast_team_actor *self);
/* run.c: open a loader as fast__run_loader(), of every `stride`th micro-batch of worker 0, from
 * `offset` on. */
fast_err fast__run_loader_strided(const fast_run *run, int64_t stride, int64_t offset,
                                  fast_loader **out);
/* Make the groups of a worker: of its part of the model, of the shards of its stage, and of all
 * workers; and free all but the first. */
fast_err fast__split_groups(struct fast_team_actor *self);
void fast__split_ungroup(struct fast_team_actor *self);

/* split_checks.c: refuse what a split model cannot do, with the reason: FAST_EINVAL. */
fast_err fast__split_check(const struct fast_team *team);

/* Refuse to save or resume a split model whose replicas do not wait for each other; `option` is the
 * one to leave out, or NULL. */
fast_err fast__split_can_resume(const struct fast_team *team, const char *option);

/* split_steps.c: steps of asynchronous workers, which those of one replica take together. The first
 * one decides before each step whether to take it, and whether to take part in a vote before, and
 * tells the others. */
fast_err fast__split_lead(const struct fast_team_actor *self, bool more, bool votes);
fast_err fast__split_follow(const struct fast_team_actor *self, bool *more_out, bool *votes_out);

/* split_model.c: the whole model. The run's own is on disk where processes have parts of it
 * (run->evaluation.file); then no process draws or holds more than its parts, and worker 0's
 * gathers them piece by piece. */

/* Return the tensor of a layout in which an element lies. */
int64_t fast__split_segment(const fast_layout *layout, int64_t element);
/* Take room on disk for what worker 0 gathers. FAST_EIO. */
fast_err fast__split_model_open(struct fast_team *team);
/* Draw the layers of a part into the run's model; nothing where that is in memory. FAST_EIO. */
fast_err fast__split_model_draw(struct fast_team *team, const fast_team_part *part);
/* Take room on disk for the run's model, all of which will be read from a file. FAST_EIO. */
fast_err fast__split_model_reserve(struct fast_team *team);
/* Draw what is not there yet of the run's model, before it is used without training. FAST_EIO. */
fast_err fast__split_model_complete(struct fast_team *team);

/* Return the bytes of shared memory through which the parts of other processes come to this one. */
double fast__split_gather_bytes(const struct fast_team *team);
/* The model is due at this step: a stage of replica 0 sends its part to worker 0, which takes its
 * own and receives the others'; workers of other replicas do nothing. */
fast_err fast__split_send(const struct fast_team_actor *self);
fast_err fast__split_gather(const struct fast_team_actor *self);
/* As both, of the workers that are in other processes than worker 0, when their programs end. */
fast_err fast__split_leave(const struct fast_team_actor *self);
/* All actors have ended: the parts of this process become the run's. */
void fast__split_take_ends(struct fast_team *team);
