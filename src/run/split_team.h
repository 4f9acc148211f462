/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/staged.h"
#include "split/mesh.h"
#include "split/pairs.h"
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
    fast_staged_section *sections; /* with programs, compiled when the first worker of it is made */
} fast_team_shard;

typedef struct fast_team_split {
    fast_mesh mesh;            /* all 0: every worker has the whole model */
    fast_split_stage **stages; /* [mesh.pipe] */
    fast_team_shard *shards;   /* [mesh.pipe][mesh.tensor] */
    int64_t *ids;              /* [mesh.pipe][mesh.tensor][mesh.data]: actors' numbers */
} fast_team_split;

/* Is the model of this team split? */
bool fast__split_is(const struct fast_team *team);
/* Cut the model of a run with a mesh, and refuse what a split model cannot do: FAST_EINVAL with the
 * reason. Nothing happens without a mesh. FAST_ENOMEM. */
fast_err fast__split_open(struct fast_team *team);
/* Refuse a checkpoint of actors' own state, such as residuals of a codec: FAST_EINVAL. */
fast_err fast__split_check_saved(const struct fast_team *team);
void fast__split_close(struct fast_team *team); /* also after a failure */

/* Make the learner of a worker's stage; its place in the mesh goes into the context's options. */
fast_err fast__split_learner(struct fast_team_actor *self, fast_context_options *options,
                             fast_pipe_options *pipe);
/* Make the groups of a worker: of its part of the model, of the shards of its stage, and of all
 * workers; and free all but the first. */
fast_err fast__split_groups(struct fast_team_actor *self);
void fast__split_ungroup(struct fast_team_actor *self);

/* The model is due at this step: a stage of replica 0 sends its range to worker 0, which takes its
 * own and receives the others'; workers of other replicas do nothing. */
fast_err fast__split_send(const struct fast_team_actor *self);
fast_err fast__split_gather(const struct fast_team_actor *self);
/* As both, of the workers that are in other processes than worker 0, when their programs end. */
fast_err fast__split_leave(const struct fast_team_actor *self);
/* All actors have ended: the ranges of this process become the run's. */
void fast__split_take_ends(struct fast_team *team);
