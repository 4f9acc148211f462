/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/batch.h"
#include "tensor/factors.h"
#include "tensor/reshard.h"
#include "tensor/segment.h"

/*
 * The learner contract: parameters w, gradient g, "compute the gradient of the next batch". It is
 * all that a strategy sees of the model, the data and the engine. A learner belongs to one actor.
 * The contract is below the models that implement it; src/trainer drives it.
 */
typedef struct fast_learner fast_learner;

/* As in an engine's pass: g[offset .. offset + count) is final and w of that range is not read
 * again by this gradient. Ranges cover the vector exactly once. May only post: never block. */
typedef void fast_learner_report_fn(void *ctx, int64_t offset, int64_t count);

typedef struct fast_gradient {
    int64_t step;                   /* in: which batch */
    bool alone;                     /* in: of one micro-batch only, number `step` of the run's */
    fast_learner_report_fn *report; /* in: may be NULL */
    fast_factor_fn *factor;         /* in: may be NULL; takes a layer's gradient as factors, which
                                       then is neither written nor reported */
    fast_learner_report_fn *need;   /* in: may be NULL; called before the forward pass first reads a
                                       range of w, and waits until it is final. Only with `reads` */
    bool need_again;                /* in: call need before the backward pass reads a range, too */
    void *ctx;                      /* in: argument of the three functions */
    double loss;                    /* out: mean over the batch */
    int64_t correct;                /* out: right positions, by the largest output */
    int64_t positions;              /* out: counted in `correct` or not */
    int64_t samples;                /* out: of the batch */
    double flops;                   /* out: operations spent, for a transport that charges them */
} fast_gradient;

typedef struct fast_evaluation {
    bool validation;                  /* in: on the validation set instead of the test set */
    struct fast_figure_sums *figures; /* in: cleared, then given all rows; may be NULL. A learner
                                         that does not see outputs leaves it as it is */
    double loss;                      /* out: mean over the set */
    double accuracy;                  /* out: NAN for regression */
    int64_t samples;                  /* out: of the set */
} fast_evaluation;

/* The gradients that a backward pass computes: it may be divided, as an engine's (engine.h). */
typedef enum fast_stage_half {
    FAST_STAGE_BOTH,   /* all of it */
    FAST_STAGE_INPUTS, /* gradients of values alone; the other half is a pass of its own */
    FAST_STAGE_WEIGHTS /* then those of weights */
} fast_stage_half;

/* A forward or backward pass of one micro-batch, of a learner that has a stage of a split model. */
typedef struct fast_stage_pass {
    bool backward;             /* in: else forward */
    fast_stage_half half;      /* in: of a backward pass */
    int64_t section;           /* in: of a shard's stage, from 0; backward from the last on */
    int64_t slot;              /* in: where its activations are from forward to backward */
    int64_t number;            /* in: of the micro-batch, over the run */
    const float *w;            /* in: parameters, the same for both passes */
    const float *inputs;       /* in: [inputs] that arrived, unchanged until the backward pass;
                                       NULL at the first stage */
    float *outputs;            /* out: [outputs] that leave; NULL at the last stage */
    const float *outputs_grad; /* in: backward: [outputs] that came; NULL at the last stage */
    float *inputs_grad;        /* out: backward: [inputs] that leave; NULL at the first stage */
    fast_learner_report_fn *report; /* in: may be NULL: ranges of g are final, in the backward pass
                                       of the step's last micro-batch */
    void *ctx;                      /* in: argument of report */
    double loss;                    /* out: forward: mean over the micro-batch at the last stage,
                                       and the losses of heads that need no answers */
    double share;                   /* out: forward: this shard's part of such losses: the sum over
                                       the shards joins the loss */
    int64_t correct;                /* out: right positions there */
    int64_t positions;              /* out: counted there */
    int64_t samples;                /* out: of the micro-batch */
    double flops;                   /* out: operations spent */
} fast_stage_pass;

/* A change of layout over the shards of a stage, before or behind a section's pass. */
typedef struct fast_stage_exchange {
    fast_reshard_value value; /* the change, and the value's shape; `shards` is the caller's */
    const float *from;        /* the floats before it */
    float *to;                /* receives those after it; may be `from` with NONE and SUM */
} fast_stage_exchange;

/* Models that a learner learns from besides its labels. */
typedef struct fast_teachers {
    const float *models; /* [count][params + state], lent until the next call */
    int64_t count;       /* number of models; 0: none */
    /* Models of other networks: store the outputs of one of them for a batch. NULL: `models`. */
    fast_err (*ask)(void *ctx, int64_t i, const fast_batch *batch, float *outputs);
    void *ctx;          /* of `ask` */
    double flops;       /* of all of them for a sample, with `ask` */
    double temperature; /* divides their outputs before the softmax */
    double share;       /* weight of their mean prediction in the targets; labels: 1 - share */
} fast_teachers;

/* A layer whose gradient can be left as factors. */
typedef struct fast_factorable {
    int64_t segment; /* of its weights in `params`, [outputs][inputs] */
    int64_t samples; /* rows of factors that a gradient has */
    int64_t rows;    /* at most, with such as are all 0 */
} fast_factorable;

/* A range of w, in the order in which the forward pass reads it. */
typedef struct fast_reading {
    int64_t offset;    /* of the range */
    int64_t count;     /* of its elements */
    double operations; /* of the gradient before it is read */
} fast_reading;

/* An operator of the forward pass. */
enum { FAST_LEARNER_INPUTS_MAX = 8 };
typedef struct fast_learner_node {
    int64_t offset;                      /* of its parameters in w */
    int64_t count;                       /* number of its parameters; 0: it has none */
    double operations;                   /* that it computes for a batch */
    int input_count;                     /* length of inputs */
    int inputs[FAST_LEARNER_INPUTS_MAX]; /* numbers of earlier operators */
} fast_learner_node;

typedef struct fast_learner_ops {
    const char *name; /* of the kind of learner */
    /* Compute the gradient of batch `step` at w into g; atomic, never blocks on a peer. This and
     * evaluate() are NULL where stage() is not. */
    fast_err (*gradient)(fast_learner *learner, fast_gradient *gradient);
    /* Loss and accuracy of w on the set that *inout asks for; FAST_ENOTSUP without one. */
    fast_err (*evaluate)(fast_learner *learner, fast_evaluation *inout);
    /* Learn from these models from the next gradient on. May be NULL. FAST_ENOMEM. */
    fast_err (*teach)(fast_learner *learner, const fast_teachers *teachers);
    /* Layer i of those that offer factors; false past the last. May be NULL: none does. */
    bool (*factorable)(const fast_learner *learner, int64_t i, fast_factorable *out);
    /* Range i of w in the order of reading; false past the last. May be NULL: w is read at once. */
    bool (*reads)(const fast_learner *learner, int64_t i, fast_reading *out);
    /* Operator i in the order of the forward pass; false past the last. May be NULL: not known. */
    bool (*node)(const fast_learner *learner, int64_t i, fast_learner_node *out);
    /* Call `mark` with each range of w that the gradient of batch `step` reads; nothing is
     * computed. May be NULL: it reads all of w. */
    fast_err (*rows)(fast_learner *learner, int64_t step, fast_learner_report_fn *mark, void *ctx);
    /* Run a pass of a stage, atomic as gradient(). NULL where the learner is not that of a stage.
     * The gradient of a step is the mean of its micro-batches', whose backward passes come in their
     * order, and so do the halves that compute gradients of weights. */
    fast_err (*stage)(fast_learner *learner, fast_stage_pass *pass);
    /* The exchange that the caller makes before the pass of a section, or behind it, in the order
     * of the pass; false: none is due. NULL where stage() is. */
    bool (*exchange)(const fast_learner *learner, const fast_stage_pass *pass, bool behind,
                     fast_stage_exchange *out);
    void (*free)(fast_learner *learner); /* NULL is allowed */
} fast_learner_ops;

/* Every learner begins with this. */
struct fast_learner {
    const fast_learner_ops *ops; /* its operations */
    fast_layout params;          /* of w, g and each slot of an optimizer */
    fast_layout state;           /* of s: not trainable, averaged where weights are averaged */
    float *w;                    /* parameters; a strategy may write them between gradients */
    float *g;                    /* the last gradient */
    float *s;                    /* state */
    int64_t epoch_steps;         /* batches of an epoch */
    int64_t own_samples;         /* that it draws its batches from; 0: not known */
    int64_t batch;               /* samples of a (micro-)batch; 0: not known */
    double flops;                /* operations of a gradient, known before the first */
    int64_t parts;               /* micro-batches that a gradient is the mean of: the last reports,
                                    and each can be asked for alone; 0: it has none */
    int64_t passes;              /* of the engine for a gradient, of which the last reports; 0: as
                                    many as parts */
    int64_t sections;            /* of a stage: passes of a micro-batch, with exchanges between */
    int64_t slots;               /* of a stage: micro-batches in flight; 0: the model is whole */
    int64_t inputs;              /* of a stage: floats of a micro-batch that arrive; 0: the first */
    int64_t outputs;             /* of a stage: floats of one that leave; 0: the last */
    bool moves;                  /* w may be pointed elsewhere between gradients, and back before
                                      it is freed */
};
