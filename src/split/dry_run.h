/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers of a dry run (dry_run.c), and their passes (dry_pass.c).
 */
#ifndef FAST_SPLIT_DRY_RUN_H
#define FAST_SPLIT_DRY_RUN_H

#include "comm/sliced.h"
#include "split/placement.h"

enum { FAST_DRY_BUCKET = 1 << 15 }; /* floats that are summed at once during a backward pass */
enum {
    FAST_DRY_FORWARD = 1, /* tags: activations, */
    FAST_DRY_BACKWARD,    /* their gradients, */
    FAST_DRY_ANY,         /* either of them, in any order, */
    FAST_DRY_SHARD,       /* blocks and values of shards, */
    FAST_DRY_PUSH,        /* a gradient to a server, */
    FAST_DRY_PULL         /* parameters from it */
};

/* Operations of a section for one sample. */
typedef struct fast_dry_section {
    double forward;  /* of its forward pass, of a shard */
    double backward; /* of its backward pass */
    double weights;  /* of that the second half, where it is divided */
} fast_dry_section;

/* A dry run. */
typedef struct fast_dry_run {
    fast_plan_space *space;                           /* of the plan */
    const fast_plan *plan;                            /* that is played */
    fast_plan_part parts[FAST_PLAN_STAGES_MAX];       /* of its stages */
    fast_dry_section *sections[FAST_PLAN_STAGES_MAX]; /* of their shards; one without */
    int64_t batch;                                    /* samples of a micro-batch */
    int64_t steps;                                    /* updates */
    int64_t warm;                                     /* steps before those that count */
    int64_t cold;                                     /* first step behind those that count */
    int64_t begun;                                    /* time of the first step that counts, ns */
    int64_t ended;       /* time of the end of the last one of worker 0 */
    int64_t compute_ns;  /* passes of the worker with most, per step */
    int64_t exchange_ns; /* of worker 0 behind its passes, in all steps */
    int64_t passes_ns;   /* between its first and last pass, in all steps */
    int64_t busy_ns;     /* sum over workers of their passes */
} fast_dry_run;

/* A worker of a dry run. */
typedef struct fast_dry_worker {
    fast_dry_run *run;       /* the run that it plays */
    fast_actor *actor;       /* itself */
    int64_t number;          /* of all workers */
    fast_mesh_place at;      /* its place */
    int64_t params;          /* elements of all of its chunks */
    int64_t state;           /* the same of what is not trained */
    int64_t partial;         /* parameters whose gradients are summed over the shards */
    fast_group *shards;      /* of its stage; NULL: it has none */
    fast_group *replicas;    /* of its part; NULL: there is one */
    bool network;            /* they are on several nodes */
    fast_sliced sliced;      /* with zero */
    fast_request **requests; /* [request_max] of this step */
    int64_t request_count;   /* started in this step */
    int64_t request_max;     /* room */
    int64_t low, high;       /* range of the gradient that is final and not started */
    bool updated;            /* the last update is not charged yet */
    fast_err err;            /* first failure inside a report */
    int64_t step;            /* number of the update */
    int64_t next;            /* never drained: the next micro-batch to enter */
    int64_t done;            /* never drained: micro-batches whose gradient is there */
    int64_t compute_ns;      /* in passes, of steps that count */
} fast_dry_worker;

/* Play all passes of an update, with their messages. */
fast_err fast__dry_passes(fast_dry_worker *self);

/* Tell whether the gradient is exchanged while it is computed. */
bool fast__dry_overlaps(const fast_dry_worker *self);

/* Start to exchange the range of the gradient that is final and not started; nothing if it is
 * empty. A failure is in `err` of the worker. */
void fast__dry_start_bucket(fast_dry_worker *self);

/* Add a range of the gradient that became final; `ctx` is the worker. */
void fast__dry_report(void *ctx, int64_t offset, int64_t count);

/* Send `floats` of each sample to a worker, or receive what one sent. */
fast_err fast__dry_send(fast_dry_worker *self, int64_t to, uint64_t tag, int64_t floats);
fast_err fast__dry_receive(fast_dry_worker *self, int64_t from, uint64_t tag);

#endif
