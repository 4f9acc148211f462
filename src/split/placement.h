/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"
#include "rule/rule.h"
#include "split/cost.h"
#include "split/layout_map.h"
#include "split/mesh.h"
#include "split/pipeline.h"
#include "split/shards.h"
#include "transport/sim/cluster.h"

struct fast_split_kind;

/*
 * Plans: how a network may be trained on a cluster, and what a step costs then.
 *
 *   plan_space.c      the space of plans of a job: possible cuts, layouts, parts with their costs
 *   plan_cost.c       what a step takes, in closed form; the memory of each worker
 *   dry_run.c         what a step takes on the simulator, by actors that charge and send what the
 *                     workers of a run would, without data
 *   planner.h         searchers of plans
 *
 * All plans of a job train the same samples in a step, and except for schedules that are never
 * drained take the same step: they differ in time and memory alone. Those are planned only where
 * the job names them.
 */
enum {
    FAST_PLAN_WORKERS_MAX = 256, /* workers of a plan */
    FAST_PLAN_STAGES_MAX = 32,   /* stages of a plan, those of all chunks */
    FAST_PLAN_LAYOUTS_MAX = 32   /* layout maps of a space */
};

/* How the workers that have one part of the model cooperate. */
typedef enum fast_plan_exchange {
    FAST_PLAN_ALLREDUCE, /* strategy allreduce, with overlap across nodes */
    FAST_PLAN_ZERO_1,    /* strategy zero: the rule's state is sharded */
    FAST_PLAN_ZERO_2,    /* gradients too */
    FAST_PLAN_ZERO_3,    /* parameters too */
    FAST_PLAN_PS         /* strategy ps with a server for each part, without slack */
} fast_plan_exchange;

/* Bytes of workspaces. */
typedef struct fast_plan_room {
    double own;    /* of a micro-batch in flight without its inputs, over those of its
                      activations; 0 stands for 1 */
    double shared; /* that all of a section share, over those of its largest tensor */
} fast_plan_room;

/* Bytes of workspaces by how passes are compiled. */
typedef struct fast_plan_rooms {
    fast_plan_room plain;   /* backward passes in one */
    fast_plan_room divided; /* backward passes in two halves */
    fast_plan_room again;   /* activations are computed twice: `own` is that of a network of one
                               node, and of n nodes 1 / sqrt(n) of it */
} fast_plan_rooms;

/* A job: a network, a cluster, and choices that are made. Zero stands for a free choice. Pointers
 * are borrowed. */
typedef struct fast_plan_job {
    const fast_graph *graph; /* the network */
    const char *cluster;     /* as the option cluster has it; "": the simulator's own */
    int64_t workers;         /* at most; 0: as many as the cluster has nodes */
    bool all_workers;        /* not fewer than `workers` */
    int64_t batch;           /* samples of a step */
    int64_t granule;         /* samples that engines compute at once at least; 0 stands for 1 */
    int64_t lanes;           /* samples that a workspace has room for at least; 0 stands for 1 */
    fast_plan_rooms rooms;   /* of workspaces */
    int64_t slots;           /* vectors of the update rule's state */
    int64_t memory;          /* bytes of a worker at most; 0: the capacity of its node */
    bool shared_memory;      /* `memory` is of all workers of a plan together */
    fast_mesh mesh;          /* dimensions; 0: any */
    const char *pipeline;    /* a schedule; "": the fastest that drains */
    int64_t chunks;          /* of interleaved; 0: any */
    int64_t delay;           /* as in fast_pipe_place */
    int64_t active;          /* as in fast_pipe_place */
    bool vertical;           /* as in fast_pipe_place */
    int64_t micro_batches;   /* of a step and replica */
    const char *strategy;    /* allreduce, zero:stage=N or ps; "": allreduce, or zero for memory */
    const char *layout;      /* of shards; "": any */
    const char *cuts;        /* names of layers; "": any */
    bool recompute;          /* activations may be computed twice where memory is short */
    bool recomputes;         /* they are in all plans */
    bool undivided;          /* no schedule divides backward passes */
    int64_t seed;            /* of everything random */
} fast_plan_job;

/* How a replica makes a step. */
typedef struct fast_plan_way {
    int64_t micro_batches;  /* of a step and replica */
    fast_pipeline pipeline; /* schedule of its stages */
    int64_t chunks;         /* V: stages of each worker; 1 unless it is interleaved */
} fast_plan_way;

/* A plan. Cuts and layouts are numbers in its space. Stage k S + s is chunk k of worker s. */
typedef struct fast_plan {
    fast_mesh mesh;                       /* its dimensions */
    fast_plan_way way;                    /* its schedule */
    fast_plan_exchange exchange;          /* along data */
    bool recompute;                       /* activations are computed twice */
    int layout;                           /* of shards; 0 without */
    int cuts[FAST_PLAN_STAGES_MAX];       /* [stages] cut behind each, the last one included */
    int16_t nodes[FAST_PLAN_WORKERS_MAX]; /* [workers] where each of them lives */
} fast_plan;

/* The cost of a plan. */
typedef struct fast_plan_cost {
    double step_s;     /* seconds of a step */
    double compute_s;  /* of it passes of the worker with most */
    double exchange_s; /* of it gradients and updates, as far as no pass hides them */
    double bubble;     /* fraction of the passes' time in which workers wait */
    int64_t memory;    /* bytes of the worker with most */
    int64_t fullest;   /* number of that worker */
    bool fits;         /* no worker takes more than it may */
} fast_plan_cost;

/* One stage of a plan, or shard of one. */
typedef struct fast_plan_part {
    double forward;           /* operations of one sample, of a shard */
    double backward;          /* the same of the backward pass */
    double weights;           /* of it the second half of a divided one */
    int64_t params;           /* elements of the parameters */
    int64_t state;            /* elements of the state that is not trained */
    int64_t activations;      /* floats of one sample that are retained */
    int64_t copied;           /* floats of one sample of the inputs, of all sections */
    int64_t largest;          /* of the largest tensor, the sum over sections */
    int64_t inputs;           /* floats of one sample that arrive; 0: the first stage */
    int64_t outputs;          /* floats of one sample that leave; 0: the last stage */
    double exchange_forward;  /* floats of one sample that a shard sends to others */
    double exchange_backward; /* the same of the backward pass */
    int64_t messages;         /* exchanges over shards of a micro-batch, both passes */
    int64_t partial;          /* parameters whose gradients are summed over the shards */
    bool divided;             /* shards have samples of their own */
    int64_t grid;             /* rows of a grid of shards, each of some samples; 0: none */
    bool rounds;              /* layers are computed in rounds, whose passes are not divided */
    fast_split_stage *stage;  /* with shards; else NULL */
    fast_split_shard *shard;  /* the first one; NULL: stage and shard are the same */
} fast_plan_part;

/* Micro-batches in flight of a schedule. */
typedef struct fast_plan_flights {
    fast_plan_way way;                    /* of which they are; micro_batches 0: of none yet */
    int64_t pipe;                         /* workers of the pipeline */
    int64_t counts[FAST_PLAN_STAGES_MAX]; /* [stages] at most */
} fast_plan_flights;

/* The space of a job's plans. */
typedef struct fast_plan_space {
    fast_plan_job job;         /* a copy, with workers filled in */
    fast_cluster *cluster;     /* parsed */
    int64_t node_count;        /* workers at most */
    int64_t *places;           /* [node_count] node of each worker, where none is chosen */
    int *cuts;                 /* [cut_count] nodes, from 0 to the last */
    int cut_count;             /* at least 2 */
    fast_split_cost *prefixes; /* [cut_count] cost of the nodes up to each cut */
    int64_t *states;           /* [cut_count] elements of the state up to each cut */
    int64_t *largest;          /* [cut_count] floats of the largest tensor since the cut before */
    fast_layout_map layouts[FAST_PLAN_LAYOUTS_MAX]; /* of shards */
    char layout_texts[FAST_PLAN_LAYOUTS_MAX][192];  /* as the option has them; "": the standard */
    int layout_count;                               /* at least 1 */
    int64_t *classes; /* [node_count] number of the first place that is like this one */
    struct fast_plan_cache *cache; /* parts of shards that were made */
    fast_plan_flights flights;     /* that were counted last */
} fast_plan_space;

/* Fill in the rule's state of a job, and the dimensions that the rule does not allow, unless they
 * are given. */
void fast__plan_job_rule(fast_plan_job *job, const fast_optimizer *optimizer);
/* Fill in lanes and workspaces of a job by programs of its whole network, compiled as `options`
 * say: the passes of its plans are a part of those. */
fast_err fast__plan_job_engine(fast_plan_job *job, const fast_engine *engine,
                               const fast_engine_options *options);

/* Open the space of a job, whose pointers outlive it. FAST_EINVAL says why nothing can be planned.
 */
fast_err fast__plan_space_open(const fast_plan_job *job, fast_plan_space **out);
void fast__plan_space_close(fast_plan_space *space); /* NULL is allowed */

/* Do plans know the time of a kind of split? */
bool fast__plan_times(const struct fast_split_kind *kind);
/* Add a layout map to the space, unless it has it; sets its number. FAST_EINVAL for a wrong one or
 * too many. */
fast_err fast__plan_layout_add(fast_plan_space *space, const char *text, int *out);

/* Return the stages of a plan, those of all chunks; and the place of a worker in its pipeline. */
int64_t fast__plan_stages(const fast_plan *plan);
fast_pipe_place fast__plan_place(const fast_plan_space *space, const fast_plan *plan,
                                 int64_t stage);

/* Return the steps at the start of a run that are not like the others: the first one, and those in
 * which a pipeline that is never drained fills. */
int64_t fast__plan_warm(const fast_plan_space *space, const fast_plan *plan);

/* Make the part of a plan's stage, which the space owns. With shards FAST_EINVAL if its layout
 * divides nothing of the stage, or not the micro-batches. */
fast_err fast__plan_part(fast_plan_space *space, const fast_plan *plan, int64_t stage,
                         fast_plan_part *out);

/* Fill in what a shard computes, retains and exchanges; `first`: its stage is the first one. */
fast_err fast__plan_measure_shard(const fast_split_shard *shard, int64_t shards, bool first,
                                  fast_plan_part *out);

/* Set why a plan cannot be run: too few samples, dimensions that do not fit; or NULL. FAST_ENOMEM.
 */
fast_err fast__plan_refusal(fast_plan_space *space, const fast_plan *plan, const char **why_out);

/* Return the samples of a micro-batch that a pass computes: whole granules. */
double fast__plan_computed(const fast_plan_space *space, const fast_plan *plan);
/* Return the samples of a micro-batch, and the speed of a worker's node. */
int64_t fast__plan_micro_batch(const fast_plan_space *space, const fast_plan *plan);
const fast_node_spec *fast__plan_node(const fast_plan_space *space, const fast_plan *plan,
                                      int64_t worker);
/* Return the link between the nodes of two workers. */
const fast_sim_link *fast__plan_link(const fast_plan_space *space, int64_t from, int64_t to);

/* Return the bytes that a worker takes: parameters, gradients, the rule's state, activations of
 * the micro-batches in flight, and what an exchange needs. `parts` are those of all stages. */
int64_t fast__plan_memory(fast_plan_space *space, const fast_plan *plan,
                          const fast_plan_part *parts, int64_t worker);
/* Return the bytes that a worker may take; 0: any number. */
int64_t fast__plan_memory_max(const fast_plan_space *space, const fast_plan *plan, int64_t worker);

/* Estimate the cost of a plan in closed form: microseconds of work. FAST_EINVAL as
 * fast__plan_part(). */
fast_err fast__plan_estimate(fast_plan_space *space, const fast_plan *plan, fast_plan_cost *out);
/* Measure a plan on the simulator without data: a millisecond of work. The memory is that of the
 * estimate. FAST_EINVAL as fast__plan_part(). */
fast_err fast__plan_dry_run(fast_plan_space *space, const fast_plan *plan, fast_plan_cost *out);

/* Write the options of a run that a plan stands for, as "name=value" one after the other, each
 * ended by a zero byte, the list by an empty text: mesh, cuts, layout, pipeline, chunks, batch,
 * accumulate, strategy, recompute, placement. Options at their defaults are left out, except mesh,
 * batch and accumulate. Returns the bytes that all need. */
size_t fast__plan_options(const fast_plan_space *space, const fast_plan *plan, char *text,
                          size_t size);
