/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/graph.h"
#include "tensor/batch.h"
#include "tensor/factors.h"

/*
 * What executes the arithmetic of a native model. An engine compiles a graph, for batches of at
 * most `batch` samples, to a program. A program is immutable: any number of threads may run it at
 * once, each with a workspace of its own and with any parameters of the graph's layout; so a
 * thousand replicas can share one program and one workspace. Running allocates nothing, blocks
 * nowhere and repeats to the bit.
 */

/* The part of a program that every engine shares. An engine's own program embeds it as the first
 * member and casts. */
typedef struct fast_program {
    const struct fast_engine *engine; /* the engine that compiled it */
    const fast_graph *graph;          /* borrowed: lives longer than the program */
    int64_t batch;                    /* largest number of samples in a pass */
    double flops_forward; /* textbook operations of one sample: a multiply and an add are two */
    double flops_train;   /* operations of forward and backward pass together */
    uint64_t plan_hash;   /* hash of the measured choices; 0 if nothing was measured */
} fast_program;

/* The part of a workspace that every engine shares; embedded in the same way. */
typedef struct fast_workspace {
    const fast_program *program; /* the program it was made for */
} fast_workspace;

typedef struct fast_engine_options {
    int64_t batch;         /* largest batch; at least 1 */
    bool train;            /* also compile the way back */
    const char *plan_path; /* where measured choices are kept; NULL: FAST's cache folder;
                              "" keeps none. Only `cpu` measures */
    const char *method;    /* force one convolution method by name; NULL picks the fastest */
} fast_engine_options;

/* Called inside a pass as soon as gradients[offset .. offset + count) are final: the pass reads
 * neither them nor the parameters of that range again. Ranges never overlap, cover the vector
 * exactly once, and may be smaller than a segment. May only post: never block, never run a pass. */
typedef void fast_report_fn(void *ctx, int64_t offset, int64_t count);

/* Called before the way forward first reads params[offset .. offset + count): they may still be on
 * their way, and are there when it returns. Ranges are those of nodes with weights, in order. */
typedef void fast_pass_need_fn(void *ctx, int64_t offset, int64_t count);

/* One pass over one batch: in, then out. Without `grad` it goes forward only. */
typedef struct fast_pass {
    const float *params;     /* in the graph's layout */
    float *state;            /* batch-norm statistics: read in evaluation, updated in training */
    const fast_batch *batch; /* what to compute on */
    float *grad;             /* NULL: forward only; else overwritten, mean over the batch */
    bool train;              /* dropout on, batch statistics; required with grad */
    uint64_t seed;           /* of the run; with the step it keys the dropout masks */
    uint64_t step;           /* of the run */
    fast_report_fn *report;  /* may be NULL */
    fast_factor_fn *factor;  /* may be NULL */
    fast_pass_need_fn *need; /* may be NULL */
    void *ctx;               /* for the three */
    float *outputs;          /* NULL, or receives [count][outputs of the last node], row major */
    double loss;             /* out: mean over the batch; NAN for a forward pass over a batch that
                               has neither labels nor targets (a prediction) */
    int64_t correct;         /* out: right positions, by the largest output; 0 for regression */
    int64_t positions;       /* out: positions judged: samples times positions of each */
} fast_pass;

typedef struct fast_engine {
    const char *name;    /* as it is typed */
    const char *summary; /* one line, for help */

    /* Compile. May measure (seconds) where the plan file knows a shape not yet. FAST_ENOTSUP names
     * what the engine cannot do. */
    fast_err (*compile)(const fast_graph *graph, const fast_engine_options *options,
                        fast_program **out);
    void (*program_free)(fast_program *program); /* NULL is allowed */

    /* Memory of one running thread: activations, scratch, kernels that belong to a thread. */
    fast_err (*workspace_new)(const fast_program *program, fast_workspace **out);
    void (*workspace_free)(fast_workspace *workspace); /* NULL is allowed */

    /* Run one pass. FAST_EINVAL for labels or tokens out of range (nothing is written then). */
    fast_err (*run)(const fast_program *program, fast_workspace *workspace, fast_pass *pass);

    /* A line a node: what was chosen for it, for `fast bench engine`; NULL past the end. May be
     * NULL. Lent until the program is freed. */
    const char *(*describe)(const fast_program *program, int node);
} fast_engine;

/* The engines in this build, fastest first; the last is NULL. */
extern const fast_engine *const fast__engines[];
extern const fast_engine fast__engine_ref;

/* Find by name; "auto" is the first. FAST_EINVAL with the nearest name, FAST_ENOTSUP if the name is
 * known but not in this build. */
fast_err fast__engine_find(const char *name, const fast_engine **out);

/* Former names, for callers that still use them. */
typedef fast_program fast_program_head;
#define fast__program_head(program) (program)
