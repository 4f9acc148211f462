/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/conv.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/kernels.h"
#include "engine/engine.h"

/*
 * The cpu engine. One layout for everything: the batch is innermost. A value (what a node gives) is
 * rows of `lanes` floats, lanes being the batch rounded up to 16; rows are [position][channel],
 * where positions are the pixels of an image, y before x, or the steps of a sequence. Lanes past
 * the samples of a pass are zero in the input and in every gradient, so sums over lanes need no
 * masks.
 *
 * Compiling makes steps: a node, or several that run as one pass over memory. All memory of a run
 * is one block; every buffer has a lifetime in steps, and buffers whose lifetimes are apart share
 * memory.
 *
 * Where to look:
 *
 *   cpu.c                    compile and run: the engine's contract
 *   fuse.c, buffer.c         nodes -> steps; where their memory lies
 *   op_x.c, ops.c            a step of each kind, forward and back; the table of them
 *   x_simd.c, kernels.h      the loops that steps call, compiled once per instruction set (simd.h,
 *                            vec.h)
 *   gemm.c                   matrix products, by libxsmm or OpenBLAS
 *   conv.c, conv_choose.c    a convolution: its methods, the choice among them
 *   conv_xsmm.c, conv_im2col.c, conv_onednn.c, winograd.c    the methods (conv_method.h)
 *   plan.c                   the file that choices are kept in
 */
extern const fast_engine fast__engine_cpu;

typedef struct fast_cpu_step fast_cpu_step;
typedef struct fast_cpu_run fast_cpu_run;
typedef struct fast_cpu_compile fast_cpu_compile;

enum { FAST_CPU_GEMMS = 8, FAST_CPU_BUFFERS = 8, FAST_CPU_NOTE_MAX = 96 };

/* An interval of time and the memory that it gets. Time: forward of step s is s, the loss is the
 * number of steps S, backward of step s is 2 S - s. */
typedef struct fast_cpu_buffer {
    int64_t count;  /* floats */
    int begin, end; /* first and last time that uses it */
    int64_t offset; /* in floats, a multiple of 16 */
} fast_cpu_buffer;

typedef struct fast_cpu_value {
    int64_t rows; /* of `lanes` floats */
    bool planar;  /* an image whose rows are [channel][position]: what a dense layer reads */
    bool needs;   /* somebody needs its gradient */
    int source;   /* step that writes it */
    int data;     /* buffer */
    int grad;     /* buffer, or -1 */
    int grad2;    /* a second summand of the gradient that the source adds when it reads; or -1 */
} fast_cpu_value;

/* What the way back does with the gradient of a step's input. */
typedef enum fast_cpu_how {
    FAST_CPU_SKIP,   /* nobody needs it */
    FAST_CPU_WRITE,  /* first contribution: overwrite */
    FAST_CPU_ADD,    /* a later one: accumulate */
    FAST_CPU_SECOND, /* overwrite the second summand */
    FAST_CPU_ALIAS   /* it is the memory of the output's gradient: leave it there */
} fast_cpu_how;

typedef struct fast_cpu_op {
    const char *name;  /* for describe, where a step leaves no note */
    bool reads_input;  /* the way back reads the inputs' values */
    bool reads_output; /* ... and the output's */
    bool overwrites;   /* cannot accumulate: may be asked for FAST_CPU_SECOND */
    bool sums;         /* reads the output's gradient as a sum of two */
    int alias;         /* input whose gradient may be FAST_CPU_ALIAS, or -1 */
    /* Choose kernels, ask for buffers, write the note. NULL: the step needs nothing. */
    fast_err (*plan)(fast_cpu_compile *compile, fast_cpu_step *step);
    /* Writes the output, and what the way back will read. */
    void (*forward)(fast_cpu_run *run, const fast_cpu_step *step);
    /* Writes the gradients of inputs and weights and reports the latter. */
    void (*backward)(fast_cpu_run *run, const fast_cpu_step *step);
} fast_cpu_op;

struct fast_cpu_step {
    const fast_cpu_op *op; /* what it does */
    int index;             /* among the program's steps */
    int node;              /* that does the work */
    int last;              /* node that gives the result: the last one that is part of this step */
    int out;               /* value */
    int in_count;          /* inputs */
    int in[FAST_INPUTS_MAX];           /* values */
    int in_node[FAST_INPUTS_MAX];      /* the nodes that they belong to: their shapes */
    fast_cpu_how how[FAST_INPUTS_MAX]; /* gradients of inputs */
    fast_act act;                      /* fused activation */
    float slope;                       /* of a leaky one */
    int bias;                          /* conv whose bias this pooling adds, or -1 */
    bool no_bias;                      /* this conv leaves its bias to the pooling after it */
    bool add;                          /* batch norm: in[1] is added before the activation */
    bool dead;                         /* nothing depends on it: its weights' gradients are zero */
    bool train;                        /* a way back is compiled */
    int64_t count;                     /* operator's own number */
    int buffer[FAST_CPU_BUFFERS];      /* operator's own memory */
    fast_gemm gemm[FAST_CPU_GEMMS];    /* operator's own products */
    fast_conv *conv;                   /* of a convolution; else NULL */
    char note[FAST_CPU_NOTE_MAX];      /* for describe */
};

typedef struct fast_cpu_program {
    fast_program base;
    bool train;    /* a way back is compiled */
    int64_t lanes; /* the batch rounded up */
    fast_isa isa;  /* of the kernels: */
    const fast_elem_kernels *elem;
    const fast_loss_kernels *loss;
    const fast_pool_kernels *pool;
    const fast_norm_kernels *norm;
    const fast_cell_kernels *cell;
    const fast_attention_kernels *attention;
    int step_count, value_count, buffer_count; /* of the three arrays */
    fast_cpu_step *steps;                      /* in the order of running */
    fast_cpu_value *values;                    /* what steps give */
    fast_cpu_buffer *buffers;                  /* of values, gradients and steps */
    int buffer_max;                            /* room for them */
    int out;                                   /* value that the loss judges */
    int *step_of;                              /* per node: step that computes it */
    int *value_of;                             /* per node: its value, or -1 inside a step */
    bool *needs;          /* per node: somebody needs the gradient of its output */
    int soft;             /* buffer of labels and targets in lanes */
    int64_t memory_count; /* floats of a workspace */
} fast_cpu_program;

typedef struct fast_cpu_workspace {
    fast_workspace base; /* first, so that the contract's pointers convert */
    float *memory;       /* all buffers */
    void **locals;       /* per step: what a convolution keeps beside memory */
    int64_t *times; /* NULL, or [2 steps + 1]: nanoseconds are added at each time, for benchmarks */
} fast_cpu_workspace;

/* A pass that goes on: what steps are given. */
struct fast_cpu_run {
    const fast_cpu_program *program;
    fast_cpu_workspace *workspace;
    fast_pass *pass;
    const fast_graph *graph; /* the program's */
    int64_t lanes;           /* likewise */
    int64_t count;           /* samples of this pass */
};

/* A program under construction. */
struct fast_cpu_compile {
    const fast_graph *graph;
    const fast_engine_options *options;
    fast_cpu_program *program;
    fast_conv_plan *plan;
};

/* Steps from nodes: what is fused with what. fuse.c */
fast_err fast__cpu_fuse(fast_cpu_compile *compile);

/* Buffers: values, gradients, and offsets for all. buffer.c */
fast_err fast__cpu_gradients(fast_cpu_compile *compile);
fast_err fast__cpu_buffer_new(fast_cpu_compile *compile, int64_t count, int begin, int end,
                              int *out);
fast_err fast__cpu_buffers_place(fast_cpu_program *program);

static inline int fast__cpu_back(const fast_cpu_program *program, const fast_cpu_step *step)
{
    return 2 * program->step_count - step->index;
}

/* Memory for one direction of a step, or from forward to backward. In a program without a way back
 * the latter is the former. */
fast_err fast__cpu_scratch_forward(fast_cpu_compile *compile, fast_cpu_step *step, int64_t count,
                                   int *out);
fast_err fast__cpu_scratch_back(fast_cpu_compile *compile, fast_cpu_step *step, int64_t count,
                                int *out);
fast_err fast__cpu_keep(fast_cpu_compile *compile, fast_cpu_step *step, int64_t count, int *out);

/* Positions and channels of a node's output. */
static inline int64_t fast__cpu_channels(const fast_graph *graph, int node)
{
    const fast_node *n = &graph->nodes[node];
    return n->rank == 2 ? n->shape[1] : n->shape[0];
}

static inline int64_t fast__cpu_positions(const fast_graph *graph, int node)
{
    const fast_node *n = &graph->nodes[node];
    return n->rank == 3 ? n->shape[1] * n->shape[2] : n->rank == 2 ? n->shape[0] : 1;
}

/* While running. */
static inline float *fast__cpu_memory(const fast_cpu_run *run, int buffer)
{
    FAST_ASSERT(buffer >= 0);
    return run->workspace->memory + run->program->buffers[buffer].offset;
}

static inline float *fast__cpu_out(const fast_cpu_run *run, const fast_cpu_step *step)
{
    return fast__cpu_memory(run, run->program->values[step->out].data);
}

static inline float *fast__cpu_out_grad(const fast_cpu_run *run, const fast_cpu_step *step)
{
    return fast__cpu_memory(run, run->program->values[step->out].grad);
}

static inline const float *fast__cpu_in(const fast_cpu_run *run, const fast_cpu_step *step, int i)
{
    return fast__cpu_memory(run, run->program->values[step->in[i]].data);
}

/* Where the gradient of input i goes; NULL if it is not needed. */
static inline float *fast__cpu_in_grad(const fast_cpu_run *run, const fast_cpu_step *step, int i)
{
    const fast_cpu_value *value = &run->program->values[step->in[i]];
    if (step->how[i] == FAST_CPU_SKIP)
        return NULL;
    return fast__cpu_memory(run, step->how[i] == FAST_CPU_SECOND ? value->grad2 : value->grad);
}

/* Weight `which` of a node in the parameters, and in the gradient; NULL if it has none. */
const float *fast__cpu_param(const fast_cpu_run *run, int node, int which);
float *fast__cpu_param_grad(const fast_cpu_run *run, int node, int which);
void fast__cpu_report(const fast_cpu_run *run, int node, int which);
void fast__cpu_report_range(const fast_cpu_run *run, int64_t offset, int64_t count);

/* A node's value to samples one after the other, [count][C][H][W], and back to rows of lanes. */
void fast__cpu_to_samples(const fast_cpu_run *run, int node, const float *value, float *samples);
void fast__cpu_to_lanes(const fast_cpu_run *run, int node, const float *samples, float *value);

/* The operators. */
extern const fast_cpu_op fast__cpu_input, fast__cpu_permute, fast__cpu_dense, fast__cpu_act;
extern const fast_cpu_op fast__cpu_conv, fast__cpu_max_pool, fast__cpu_avg_pool;
extern const fast_cpu_op fast__cpu_global_pool, fast__cpu_batch_norm, fast__cpu_layer_norm;
extern const fast_cpu_op fast__cpu_softmax, fast__cpu_dropout, fast__cpu_embed;
extern const fast_cpu_op fast__cpu_recurrent, fast__cpu_attention, fast__cpu_custom;
extern const fast_cpu_op fast__cpu_add, fast__cpu_concat, fast__cpu_last;

/* The operator of a node, or NULL. ops.c */
const fast_cpu_op *fast__cpu_op_find(fast_op op);
