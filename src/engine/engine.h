/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/graph.h"
#include "tensor/batch.h"
#include "tensor/factors.h"

/*
 * An engine executes the arithmetic of a native model. It compiles a graph, for batches of at most
 * `batch` samples, to a program. A program is immutable: any number of threads may run it at once,
 * each with a workspace of its own and with any parameters of the graph's layout; so a thousand
 * replicas can share one program and one workspace. Running allocates nothing, never blocks and
 * repeats to the bit.
 *
 *     fast_program *program;
 *     fast_workspace *workspace;
 *     engine->compile(graph, &(fast_engine_options){ .batch = 64, .train = true }, &program);
 *     engine->workspace_new(program, &workspace);              one for each thread that runs
 *     fast_pass pass = { .params = w, .state = s, .batch = batch, .grad = g, .train = true };
 *     engine->run(program, workspace, &pass);                  pass.loss, and g, are set
 *     engine->workspace_free(workspace);                       before its program
 *     engine->program_free(program);                           before its graph
 */

/* The part of a program that every engine shares. An engine's own program embeds it as the first
 * member and casts. */
typedef struct fast_program {
    const struct fast_engine *engine; /* the engine that compiled it */
    const fast_graph *graph;          /* borrowed: lives longer than the program */
    int64_t batch;                    /* largest number of samples in a pass */
    double flops_forward;  /* textbook operations of one sample: a multiply and an add are two */
    double flops_train;    /* operations of forward and backward pass together */
    uint64_t plan_hash;    /* hash of the measured choices; 0 if nothing was measured */
    int64_t memory;        /* bytes of a workspace */
    int64_t memory_shared; /* part of them that workspaces share, compiled with `flight`; else 0 */
    int64_t memory_least;  /* the fewest possible, where the options' `memory` is less; else 0 */
    double flops_again;    /* operations of one sample that are recomputed, part of flops_train */
    int segments;          /* that are recomputed one by one; 0: nothing is */
    int micro_batches;     /* of a whole batch, where it is computed in several; else 0 */
    double flops_weights;  /* operations of one sample in a pass's phase WEIGHTS, part of
                             flops_train; 0: the backward pass is not divided */
} fast_program;

/* The part of a workspace that every engine shares; embedded in the same way. */
typedef struct fast_workspace {
    const fast_program *program; /* the program it was made for */
} fast_workspace;

/* How a graph is compiled. */
typedef struct fast_engine_options {
    int64_t batch;         /* largest batch; at least 1 */
    bool train;            /* compile the backward pass too */
    const char *plan_path; /* file of measured choices; NULL: cache folder; "": none */
    bool recompute;        /* compute activations twice rather than store them (recompute.h) */
    int64_t memory;        /* with recompute: as little as fits this many bytes of a workspace; 0:
                              in sqrt(n) segments */
    const char *method;    /* force one convolution method by name; NULL: the fastest */
    bool divide;           /* the backward pass may run in two phases, INPUTS and WEIGHTS: not with
                              recompute */
    bool flight;           /* several micro-batches are between their phases at once: memory that is
                              used within one phase alone is apart, and workspaces share it */
} fast_engine_options;

/* Called inside a pass as soon as gradients[offset .. offset + count) are final: the pass reads
 * neither them nor the parameters of that range again. Ranges never overlap, cover the vector
 * exactly once, and may be smaller than a segment. The callback may only post: never block, never
 * run a pass. */
typedef void fast_report_fn(void *ctx, int64_t offset, int64_t count);

/* Called before the forward pass first reads params[offset .. offset + count): the values may still
 * be in flight, and must be there when the callback returns. Ranges are those of nodes with
 * weights, in order. With need_again also before the backward pass reads them, in its order;
 * between the two calls values of nodes before the last two that were asked for may change. */
typedef void fast_pass_need_fn(void *ctx, int64_t offset, int64_t count);

/*
 * A network may be split: each part is an ordinary graph, whose input is the output of the part
 * before (graph.input_grad) and whose last node is the input of the next. Its pass runs in phases,
 * and its loss is elsewhere:
 *
 *     fast_pass pass = { .params = w, .state = s, .batch = batch, .train = true, ... };
 *     pass.phase = FAST_PASS_FORWARD, pass.outputs = y;        batch->x: activations that came
 *     engine->run(program, workspace, &pass);                  y goes to the next part
 *     pass.phase = FAST_PASS_BACKWARD, pass.grad = g;
 *     pass.outputs_grad = dy, pass.inputs_grad = dx;           dy came from the next part
 *     engine->run(program, workspace, &pass);                  dx goes to the part before
 *
 * Between its two phases a workspace belongs to this micro-batch alone: there is one for each that
 * is in flight. Parameters are read at each call, so that older ones can be given to both phases.
 *
 * The backward pass may be divided further, as zero-bubble pipelines do (Qi et al. 2023): the part
 * before needs dx soon, and nobody needs g before the update.
 *
 *     pass.phase = FAST_PASS_INPUTS;                           dx, and what the next phase reads
 *     pass.phase = FAST_PASS_WEIGHTS, pass.grad = g;           g; dy is not read any more
 *
 * Operators whose weights take a product (dense layers, convolutions, attention) compute it in the
 * second phase. Others compute both gradients in the first one, and the workspace holds those of
 * the weights; where no gradient of their input is needed, both are in the second phase. The bits
 * are those of one phase.
 */
typedef enum fast_pass_phase {
    FAST_PASS_WHOLE,   /* forward pass, loss and, with grad, backward pass */
    FAST_PASS_FORWARD, /* forward pass, and the loss if the batch has answers: the workspace retains
                          what the backward pass reads. Needs a program and a pass for training */
    FAST_PASS_BACKWARD, /* backward pass of the last forward phase in this workspace: with the same
                           batch, parameters, seed and step */
    FAST_PASS_INPUTS,   /* its first half, without grad: gradients of values. Needs a program that
                           is compiled with `divide` */
    FAST_PASS_WEIGHTS   /* its second half: gradients of weights, which are reported. The batch is
                           still the same */
} fast_pass_phase;

/* Floats that a pass asks its caller to exchange with other shards (pass_parts.h). */
typedef struct fast_pass_due {
    int node;          /* whose `exchange` says how; 0: nothing is due */
    const float *from; /* the floats before */
    float *to;         /* receives those after it */
} fast_pass_due;

/* One pass over one batch: inputs first, then outputs. Without `grad` it is a forward pass only. */
typedef struct fast_pass {
    fast_pass_phase phase;     /* which phase of the pass runs */
    int64_t part;              /* which part of the phase, where nodes exchange; else 0 */
    const float *params;       /* parameters in the graph's layout */
    float *state;              /* batch-norm statistics: read in evaluation, updated in training */
    const fast_batch *batch;   /* the samples */
    float *grad;               /* NULL: forward only; else overwritten, mean over the batch */
    bool train;                /* dropout on, batch statistics; required with grad */
    uint64_t seed;             /* seed of the run; with the step it keys the dropout masks */
    uint64_t step;             /* step of the run */
    fast_report_fn *report;    /* called as gradients become final; may be NULL */
    fast_factor_fn *factor;    /* offered gradients as factors; may be NULL */
    fast_pass_need_fn *need;   /* called before parameters are read; may be NULL */
    bool need_again;           /* call need in the backward pass, too */
    void *ctx;                 /* context of the three callbacks */
    float *outputs;            /* NULL, or receives [count][outputs of the last node], row major */
    const float *outputs_grad; /* gradient of the outputs, in their layout: the loss is elsewhere;
                                  NULL: the graph's loss gives it */
    float *inputs_grad;        /* NULL, or receives the gradient of batch->x, in its layout;
                                  requires graph.input_grad, and grad or the phase INPUTS */
    fast_pass_due due;         /* out: the exchange that is due before the next part */
    double loss;               /* out: mean over the batch; NAN for a forward pass over a batch that
                               has neither labels nor targets (a prediction) */
    double head_loss;  /* out: the losses of heads, part of `loss`; without answers those that need
                         none */
    int64_t correct;   /* out: correct positions, by the largest output; 0: regression */
    int64_t positions; /* out: positions counted: samples times positions of each */
} fast_pass;

/* The contract of an engine: one row of fast__engines. */
typedef struct fast_engine {
    const char *name;    /* as the user types it */
    const char *summary; /* one line, for help */

    /* Compile a graph. May measure for seconds if the plan file does not know a shape yet.
     * FAST_ENOTSUP names the operator or shape that the engine lacks. */
    fast_err (*compile)(const fast_graph *graph, const fast_engine_options *options,
                        fast_program **out);
    void (*program_free)(fast_program *program); /* NULL is allowed */

    /* Allocate the memory of one running thread: activations, scratch, per-thread library
     * objects. */
    fast_err (*workspace_new)(const fast_program *program, fast_workspace **out);
    void (*workspace_free)(fast_workspace *workspace); /* NULL is allowed */
    /* Allocate a workspace for another micro-batch in flight on the same thread, which shares with
     * `first` what a phase leaves behind for nobody. It is freed before that. NULL: a new one. */
    fast_err (*workspace_beside)(fast_workspace *first, fast_workspace **out);

    /* Run one pass. FAST_EINVAL for labels or tokens out of range; nothing is written then. */
    fast_err (*run)(const fast_program *program, fast_workspace *workspace, fast_pass *pass);

    /* Describe the choice made for a node, one line, for `fast bench engine`; NULL past the last
     * node. Lent until the program is freed. The operation may be NULL. */
    const char *(*describe)(const fast_program *program, int node);
} fast_engine;

/* The engines of this build, fastest first; ends with NULL. */
extern const fast_engine *const fast__engines[];
extern const fast_engine fast__engine_ref;

/* Find an engine by name; "auto" is the first. FAST_EINVAL with the nearest name, FAST_ENOTSUP if
 * the name is known but not in this build. */
fast_err fast__engine_find(const char *name, const fast_engine **out);
