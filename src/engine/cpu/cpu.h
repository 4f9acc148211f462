/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/conv.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/kernel_tables.h"
#include "engine/engine.h"

/*
 * The cpu engine. All activations have one layout: the batch is innermost. A value (the output of a
 * node) is rows of `lanes` floats, lanes being the batch rounded up to 16; rows are
 * [position][channel], where positions are the pixels of an image, y before x, or the steps of a
 * sequence. Lanes past the samples of a pass are zero in the input and in every gradient, so sums
 * over lanes need no masks. An image of C channels is
 *
 *     row 0        pixel (0, 0), channel 0      sample 0, sample 1, ..., sample lanes - 1
 *     row 1        pixel (0, 0), channel 1      sample 0, ...
 *     row C        pixel (0, 1), channel 0      sample 0, ...
 *
 * so that a vector instruction has 16 samples in it, whatever the layer does.
 *
 * Compiling makes steps: one node, or several that run as one pass over memory. All memory of a
 * pass is one block; every buffer has a lifetime in steps, and buffers whose lifetimes do not
 * overlap share memory.
 *
 * Where to look:
 *
 *   cpu.c                    compile and run: the engine's contract
 *   lives.c                  steps that run twice, for less memory: two lives of their buffers
 *   fuse.c, buffer.c         nodes -> steps; the layout of their memory
 *   op_x.c, ops.c            a step of each kind, forward and backward; their table
 *   slab.c                   gradients of weights, summed over positions
 *   sequence.c               products with all positions of a sequence at once
 *   x_simd.c                 the loops that steps call, compiled once per instruction set (simd.h,
 *                            vec.h); kernel_tables.h declares them
 *   gemm.c                   matrix products, by libxsmm or OpenBLAS
 *   conv.c, conv_choose.c    a convolution: its methods, the choice among them
 *   conv_xsmm.c, conv_im2col.c, conv_onednn.c, winograd.c    the methods (conv_method.h)
 *   plan.c                   the file of measured choices
 */
extern const fast_engine fast__engine_cpu;

typedef struct fast_cpu_step fast_cpu_step;
typedef struct fast_cpu_run fast_cpu_run;
typedef struct fast_cpu_compile fast_cpu_compile;

enum {
    FAST_CPU_GEMMS = 8,
    FAST_CPU_BUFFERS = 12,
    FAST_CPU_NOTE_MAX = 96,
    FAST_CPU_SLAB_GEMMS = 2 /* products of a weight's gradient, see fast__cpu_slab_plan() */
};

/* A buffer: a lifetime and the memory assigned to it. Times: the forward pass of step s is s, the
 * loss is the number of steps S, the backward pass of step s is 2 S - s; of a divided one that is
 * the time of the gradients of values, and 3 S - s that of the gradients of weights. */
typedef struct fast_cpu_buffer {
    int64_t count;              /* floats */
    int begin, end;             /* first and last time of use */
    int again_begin, again_end; /* its second life, where steps are recomputed, or have a part in
                                   both halves of a backward pass; none: 1 and 0 */
    int64_t offset;             /* in floats, a multiple of 16 */
    bool shared;                /* nothing in it is read in a later phase: it is in the part of the
                                   memory that workspaces share */
} fast_cpu_buffer;

/* The output of a step. */
typedef struct fast_cpu_value {
    int64_t rows; /* number of rows of `lanes` floats */
    bool planar;  /* an image whose rows are [channel][position], as dense layers read */
    bool needs;   /* its gradient is needed */
    int source;   /* index of the step that writes it */
    int data;     /* index of its buffer */
    int grad;     /* index of the gradient's buffer, or -1 */
    int grad2;    /* buffer of a second summand of the gradient, which the source adds; or -1 */
} fast_cpu_value;

/* How the backward pass writes the gradient of a step's input. */
typedef enum fast_cpu_how {
    FAST_CPU_SKIP,   /* the gradient is not needed */
    FAST_CPU_WRITE,  /* first contribution: overwrite */
    FAST_CPU_ADD,    /* a later one: accumulate */
    FAST_CPU_SECOND, /* overwrite the second summand, grad2 */
    FAST_CPU_ALIAS   /* the output's gradient becomes the input's, in the same buffer */
} fast_cpu_how;

/* The contract of a kind of step. */
typedef struct fast_cpu_op {
    const char *name;  /* for describe, if the step has no note */
    bool reads_input;  /* the backward pass reads the inputs' values */
    bool reads_output; /* the backward pass reads the output's value */
    bool overwrites;   /* cannot accumulate: FAST_CPU_SECOND is possible */
    bool sums;         /* reads the output's gradient as a sum of two */
    int alias;         /* input whose gradient may be FAST_CPU_ALIAS, or -1 */
    bool in_place;     /* so may that of a single input, which the backward pass writes there */
    /* Choose kernels, ask for buffers, write the note. NULL: the step needs nothing. */
    fast_err (*plan)(fast_cpu_compile *compile, fast_cpu_step *step);
    /* Write the output, and the values that the backward pass will read. */
    void (*forward)(fast_cpu_run *run, const fast_cpu_step *step);
    /* Write the gradients of inputs and weights, and report the latter. */
    void (*backward)(fast_cpu_run *run, const fast_cpu_step *step);
    /* The halves of a divided backward pass: write the gradients of inputs; then those of weights,
     * and report them. Both NULL: they are computed together (cpu.c). */
    void (*inputs)(fast_cpu_run *run, const fast_cpu_step *step);
    void (*weights)(fast_cpu_run *run, const fast_cpu_step *step);
    /* Of steps whose node exchanges: the first half, before `forward`, or with `back` before
     * `backward`. Sets *due, unless nothing is due. */
    void (*offer)(fast_cpu_run *run, const fast_cpu_step *step, bool back, fast_pass_due *due);
} fast_cpu_op;

/* One step of a program: a node and the nodes fused with it. */
struct fast_cpu_step {
    const fast_cpu_op *op;             /* kind of the step */
    int index;                         /* index among the program's steps */
    int node;                          /* node that does the work */
    int last;                          /* last node fused into the step: its output is the result */
    int out;                           /* index of the output value */
    int in_count;                      /* number of inputs */
    int in[FAST_INPUTS_MAX];           /* indices of the input values */
    int in_node[FAST_INPUTS_MAX];      /* nodes of the inputs: their shapes */
    fast_cpu_how how[FAST_INPUTS_MAX]; /* how the gradients of inputs are written */
    fast_act act;                      /* fused activation */
    float slope;                       /* slope of a leaky relu */
    int bias;                          /* conv whose bias this pooling adds, or -1 */
    bool no_bias;                      /* this conv leaves its bias to the pooling that follows */
    bool add;                          /* batch norm: in[1] is added before the activation */
    bool dead;                         /* no loss depends on it but detached: zero gradients */
    bool train;                        /* the backward pass is compiled */
    bool late;                         /* it has a part in the second half of a divided one */
    int grad;                          /* buffer of its gradients of weights from the first half of
                                          a divided backward pass to the second, or -1 */
    int segment;                       /* of the steps that are recomputed together */
    bool again;                        /* it is computed again before the segment's backward pass */
    int64_t count;                     /* the operator's own number */
    int buffer[FAST_CPU_BUFFERS];      /* the operator's own buffers, or -1 */
    fast_gemm gemm[FAST_CPU_GEMMS];    /* the operator's own products */
    fast_conv *conv;                   /* the convolution, or NULL */
    char note[FAST_CPU_NOTE_MAX];      /* for describe */
};

/* How the phases of a pass are used: the backward pass may run in two halves; workspaces share what
 * no later phase reads. */
enum { FAST_CPU_DIVIDED = 1, FAST_CPU_FLIGHT = 2 };

typedef struct fast_cpu_program {
    fast_program base;                         /* first: the contract's pointers convert */
    bool train;                                /* the backward pass is compiled */
    unsigned phases;                           /* FAST_CPU_DIVIDED, FAST_CPU_FLIGHT, or both */
    int64_t lanes;                             /* the batch rounded up to 16 */
    fast_isa isa;                              /* instruction set of the kernels below */
    const fast_elem_kernels *elem;             /* elementwise kernels */
    const fast_loss_kernels *loss;             /* loss and softmax */
    const fast_pool_kernels *pool;             /* pooling */
    const fast_norm_kernels *norm;             /* normalisation */
    const fast_cell_kernels *cell;             /* recurrent cells */
    const fast_attention_kernels *attention;   /* attention */
    int step_count, value_count, buffer_count; /* lengths of the three arrays */
    fast_cpu_step *steps;                      /* in the order of execution */
    fast_cpu_value *values;                    /* outputs of steps */
    fast_cpu_buffer *buffers;                  /* buffers of values, gradients and steps */
    int buffer_max;                            /* capacity of `buffers` */
    int out;                                   /* index of the value that the loss reads */
    int *step_of;                              /* per node: the step that computes it */
    int *value_of;                             /* per node: its value, or -1 inside a step */
    bool *needs;                               /* per node: the gradient of its output is needed */
    int soft;                                  /* buffer of labels and targets in lanes */
    int64_t memory_count;                      /* floats of a workspace */
    int64_t shared_count;                      /* floats of them that workspaces share */
} fast_cpu_program;

typedef struct fast_cpu_workspace {
    fast_workspace base; /* first, so that the contract's pointers convert */
    float *memory;       /* all buffers but shared ones */
    float *shared;       /* shared buffers; of the first workspace */
    void **locals;       /* per step: objects of its convolution, or NULL; of the first workspace */
    bool beside;         /* `shared` and `locals` belong to another workspace */
    int64_t *times; /* NULL, or [2 steps + 1]: nanoseconds are added at each time, for benchmarks */
} fast_cpu_workspace;

/* A running pass, as steps see it. */
struct fast_cpu_run {
    const fast_cpu_program *program; /* the program that runs */
    fast_cpu_workspace *workspace;   /* memory of this thread */
    fast_pass *pass;                 /* the caller's pass */
    const fast_graph *graph;         /* the program's graph */
    int64_t lanes;                   /* the program's lanes */
    int64_t count;                   /* samples of this pass */
    bool again;                      /* steps are recomputed: statistics have followed already */
    float *grad;                     /* gradients of weights, from offset `grad_first` on */
    int64_t grad_first;              /* 0: those of the pass */
    double head_loss;                /* losses of heads so far, weighted */
};

/* A program under construction. */
struct fast_cpu_compile {
    const fast_graph *graph;            /* the graph that is compiled */
    const fast_engine_options *options; /* the caller's options */
    fast_cpu_program *program;          /* the result so far */
    fast_conv_plan *plan;               /* measured choices */
    int conv_count;                     /* convolutions so far */
    int fitted_count;                   /* of which the method of the options fits */
};

/* Make the steps, fusing nodes. fuse.c */
fast_err fast__cpu_fuse(fast_cpu_compile *compile);

/* Allocate buffers for values and gradients, and place all buffers. buffer.c */
fast_err fast__cpu_gradients(fast_cpu_compile *compile);
fast_err fast__cpu_buffer_new(fast_cpu_compile *compile, int64_t count, int begin, int end,
                              int *out);
fast_err fast__cpu_buffers_place(fast_cpu_program *program);
/* Choose the steps that are recomputed, by the rule or the budget of the options, and place all
 * buffers. lives.c */
fast_err fast__cpu_recompute(fast_cpu_compile *compile);

/* Return the time of a step's backward pass; of its last part, where that is divided. */
static inline int fast__cpu_back(const fast_cpu_program *program, const fast_cpu_step *step)
{
    return 2 * program->step_count - step->index;
}

static inline int fast__cpu_back_end(const fast_cpu_program *program, const fast_cpu_step *step)
{
    return fast__cpu_back(program, step) + (step->late ? program->step_count : 0);
}

/* Find the parameters whose gradients the backward pass of a step writes; false if it has none. */
bool fast__cpu_step_params(const fast_graph *graph, const fast_cpu_step *step, int64_t *offset_out,
                           int64_t *count_out);

/* Allocate memory of a step for its forward pass, its backward pass (each half of it), from the
 * first half of that to the second (`between`), or from the forward pass to the end of the backward
 * pass (`saved`). Without a backward pass the last is like the first. */
fast_err fast__cpu_scratch_forward(fast_cpu_compile *compile, fast_cpu_step *step, int64_t count,
                                   int *out);
fast_err fast__cpu_scratch_back(fast_cpu_compile *compile, fast_cpu_step *step, int64_t count,
                                int *out);
fast_err fast__cpu_between(fast_cpu_compile *compile, fast_cpu_step *step, int64_t count, int *out);
fast_err fast__cpu_saved(fast_cpu_compile *compile, fast_cpu_step *step, int64_t count, int *out);

/* Number of channels and of positions of a node's output. */
static inline int64_t fast__cpu_channels(const fast_graph *graph, int node)
{
    const fast_node *n = &graph->nodes[node];
    return n->rank == 2 ? n->shape[1] : n->shape[0];
}

/* Pixels of an image, steps of a sequence, 1 for a vector. */
static inline int64_t fast__cpu_positions(const fast_graph *graph, int node)
{
    const fast_node *n = &graph->nodes[node];
    return n->rank == 3 ? n->shape[1] * n->shape[2] : n->rank == 2 ? n->shape[0] : 1;
}

/* Address of a buffer while a pass runs. */
static inline float *fast__cpu_memory(const fast_cpu_run *run, int buffer)
{
    const fast_cpu_buffer *b = &run->program->buffers[buffer];

    FAST_ASSERT(buffer >= 0);
    return (b->shared ? run->workspace->shared : run->workspace->memory) + b->offset;
}

/* The output, its gradient, and input i of a step. */
static inline float *fast__cpu_out(const fast_cpu_run *run, const fast_cpu_step *step)
{
    return fast__cpu_memory(run, run->program->values[step->out].data);
}

/* The gradient of a step's output, complete before its backward pass. */
static inline float *fast__cpu_out_grad(const fast_cpu_run *run, const fast_cpu_step *step)
{
    return fast__cpu_memory(run, run->program->values[step->out].grad);
}

/* The value of input i. */
static inline const float *fast__cpu_in(const fast_cpu_run *run, const fast_cpu_step *step, int i)
{
    return fast__cpu_memory(run, run->program->values[step->in[i]].data);
}

/* Destination of the gradient of input i; NULL if it is not needed. */
static inline float *fast__cpu_in_grad(const fast_cpu_run *run, const fast_cpu_step *step, int i)
{
    const fast_cpu_value *value = &run->program->values[step->in[i]];
    if (step->how[i] == FAST_CPU_SKIP)
        return NULL;
    return fast__cpu_memory(run, step->how[i] == FAST_CPU_SECOND ? value->grad2 : value->grad);
}

/* Return weight `which` of a node in the parameters, or its place in the gradient; NULL if the node
 * lacks it. */
const float *fast__cpu_param(const fast_cpu_run *run, int node, int which);
float *fast__cpu_param_grad(const fast_cpu_run *run, int node, int which);
/* Report that the gradient of a weight, or a range of the gradient, is final. */
void fast__cpu_report(const fast_cpu_run *run, int node, int which);
void fast__cpu_report_range(const fast_cpu_run *run, int64_t offset, int64_t count);

/* Bias and activation after a product of a sequence. */
typedef struct fast_cpu_finish {
    const float *bias; /* of each output, or NULL */
    fast_act act;      /* activation */
    float slope;       /* of a leaky relu */
} fast_cpu_finish;

/* Products of W with P positions: a buffer for W, `packed`, that `count` products share in turns,
 * forward or back; and y [P][n][L] = W x [P][k][L], finished unless `finish` is NULL. sequence.c */
fast_err fast__cpu_sequence_memory(fast_cpu_compile *compile, fast_cpu_step *step, bool back,
                                   const fast_gemm *gemm, int count, int *out);
void fast__cpu_sequence(const fast_cpu_run *run, const fast_gemm *gemm, int64_t P, const float *x,
                        const float *w, int packed, const fast_cpu_finish *finish, float *y);

/* Gradients of weights, dw [O][C] = sum over P positions of dy [P][O][L] x [P][L][C], in slabs of
 * rows that fit a cache: return the rows of a slab, prepare the products, return the floats of x
 * and of scratch memory, write x, sample-major, from rows of lanes; compute the slab that starts at
 * row `first`, or all of them. P may be less than what was planned. slab.c */
int64_t fast__cpu_slab_rows(int64_t C, int64_t O, int64_t P);
fast_err fast__cpu_slab_plan(fast_cpu_compile *compile, int64_t C, int64_t O, int64_t P,
                             fast_gemm gemm[FAST_CPU_SLAB_GEMMS]);
int64_t fast__cpu_slab_floats(const fast_gemm gemm[FAST_CPU_SLAB_GEMMS]);
int64_t fast__cpu_slab_scratch(const fast_gemm gemm[FAST_CPU_SLAB_GEMMS]);
void fast__cpu_slab_transpose(const fast_cpu_run *run, const fast_gemm gemm[FAST_CPU_SLAB_GEMMS],
                              int64_t P, const float *x, float *to);
void fast__cpu_slab_run(const fast_gemm gemm[FAST_CPU_SLAB_GEMMS], int64_t first, int64_t O,
                        int64_t P, const float *x, const float *dy, float *scratch, float *dw);
void fast__cpu_slab_all(const fast_gemm gemm[FAST_CPU_SLAB_GEMMS], int64_t O, int64_t P,
                        const float *x, const float *dy, float *scratch, float *dw);

/* Convert a node's value to row-major samples [count][C][H][W], and back to rows of lanes. */
void fast__cpu_to_samples(const fast_cpu_run *run, int node, const float *value, float *samples);
void fast__cpu_to_lanes(const fast_cpu_run *run, int node, const float *samples, float *value);

/* The operators, by file op_x.c. */
extern const fast_cpu_op fast__cpu_input, fast__cpu_permute, fast__cpu_dense, fast__cpu_act;
extern const fast_cpu_op fast__cpu_conv, fast__cpu_max_pool, fast__cpu_avg_pool;
extern const fast_cpu_op fast__cpu_global_pool, fast__cpu_batch_norm, fast__cpu_layer_norm;
extern const fast_cpu_op fast__cpu_softmax, fast__cpu_dropout, fast__cpu_embed;
extern const fast_cpu_op fast__cpu_recurrent, fast__cpu_attention, fast__cpu_custom;
extern const fast_cpu_op fast__cpu_head, fast__cpu_experts, fast__cpu_classes;
extern const fast_cpu_op fast__cpu_attention_core, fast__cpu_local, fast__cpu_exchange;
extern const fast_cpu_op fast__cpu_add, fast__cpu_concat, fast__cpu_last;

/* Return the operator of a node, or NULL. ops.c */
const fast_cpu_op *fast__cpu_op_find(fast_op op);
