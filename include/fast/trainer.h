/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * trainer.h - strategies of your own: when workers exchange what with whom. The rules of fast.h,
 * actor.h and strategy.h hold.
 *
 * A strategy is a program for each of its roles, on one actor's view of a run, the trainer. What a
 * worker computes, on which data, by which rule and on which transport is none of its business:
 *
 *     static fast_err synchronous(fast_trainer *t, const void *config)
 *     {
 *         fast_err err = FAST_OK;
 *         while (!err && fast_trainer_next(t)) {
 *             err = fast_trainer_gradient(t, NULL, NULL);
 *             if (!err)
 *                 err = fast_trainer_sum(t, t->g);
 *             if (!err)
 *                 err = fast_trainer_update(t, t->g, 1.0f / (float)t->workers);
 *         }
 *         return err ? err : fast_trainer_end(t);
 *     }
 */

#include "fast/run.h"
#include "fast/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One actor's view of a run. Fields are to be read; what may be written says so. */
typedef struct fast_trainer {
    fast_actor *actor;             /* for messages, time and chance */
    fast_group *group;             /* of all workers; NULL at servers */
    const fast_topology *topology; /* over the workers' ranks; NULL where the strategy has none */
    int64_t rank;                  /* among the workers, or among the servers */
    int64_t workers;               /* their number */
    int64_t servers;               /* likewise; 0: none */
    const int64_t *worker_ids;     /* actors' numbers by rank */
    const int64_t *server_ids;     /* likewise */
    int64_t count;                 /* of w and g */
    int64_t state_count;           /* of s */
    float *w;               /* parameters of this replica; may be written between gradients. At
                                      servers the first values, the same as everywhere */
    float *g;               /* the last gradient; may be written; NULL at servers */
    float *s;               /* state that is not trained (batch norm's statistics): averaged
                                      wherever w is; may be written */
    int64_t step;           /* steps that this worker has taken */
    int64_t step_count;     /* that it is to take */
    int64_t epoch_steps;    /* steps of one pass over the data */
    int64_t parts;          /* micro-batches that make a gradient: `accumulate`, at least 1 */
    double lr;              /* of the step that goes on */
    double loss;            /* of the last gradient's batch */
    int64_t lag;            /* asynchronous: updates of the model since the weights of the last
                                      gradient were read, which the next update counts as its
                                      staleness; a gradient sets it to -1: not counted */
    int64_t aggregate;      /* servers: gradients that make one update of the model, at least 1;
                                      staleness in its space is counted in those */
    int64_t period;         /* steps between exchanges; a synchronous strategy sets it before its
                                      first step, if not 1, so that all workers stop at the same */
    bool apart;             /* synchronous: workers do not meet for long, and may stop at any step;
                                      the strategy sets and clears it, at all workers alike */
    const float *centre;    /* what stands for the run instead of the mean of replicas: w, or this
                                      worker's copy of it, of fast_trainer_centre(); a worker
                                      without one has no say then. NULL: none */
    int64_t centre_version; /* of several the largest stands: updates that it holds, or merit */
    bool rule_travels;      /* a strategy that mixes replicas sets it before its first step: the
                                      rule's state is mixed wherever w is */
    void *run;              /* the run's own */
} fast_trainer;

/* Go to the next step: true if there is one. Evaluation, target, checkpoints and a cancel happen
 * here, between steps. Workers of a synchronous strategy get the same answer at the same step.
 * False also after a failure, which fast_trainer_end() returns. */
FAST_API bool fast_trainer_next(fast_trainer *t);

/* End a worker's program: FAST_OK, or the error of fast_trainer_next(). */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_end(fast_trainer *t);

/* Compute g, the gradient of the next batch at w; counts a step. `report`, if not NULL, is called
 * for each range as soon as its gradient is final, and may start collectives and update that range,
 * not block. Never blocks on a peer. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_gradient(fast_trainer *t, fast_report_fn *report,
                                                        void *ctx);

/* Compute g while parts of w are still in transit: `need` is called before a range of w is first
 * read, from the first layer to the last, and returns once the range is final; it may wait. Its
 * error is the gradient's. On `sim` it is called before anything is computed, and the time of the
 * layers that could have been computed meanwhile is not charged again. */
typedef fast_err fast_need_fn(void *ctx, int64_t offset, int64_t count);
FAST_API FAST_MUST_CHECK fast_err fast_trainer_gradient_when(fast_trainer *t, fast_need_fn *need,
                                                             fast_report_fn *report, void *ctx);
/* Register `settle`, which is called before w is read between steps (evaluation, checkpoints) and
 * waits for the parts of w that are in transit. NULL: no part is. */
typedef fast_err fast_settle_fn(void *ctx);
FAST_API void fast_trainer_settle(fast_trainer *t, fast_settle_fn *settle, void *ctx);

/* Compute g of one micro-batch alone, for strategies that exchange before a gradient is whole:
 * `number` counts this worker's micro-batches over the run (a whole gradient has those from
 * step * parts on). Counts no step: fast_trainer_count() does. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_part(fast_trainer *t, int64_t number);
/* Count a step: that of the micro-batches since the last one, or, without any, a step of the other
 * workers that this one missed. lr becomes that step's. */
FAST_API void fast_trainer_count(fast_trainer *t);
/* Continue at another step, from 0 to step_count: steps between are left out, or taken again. */
FAST_API void fast_trainer_move(fast_trainer *t, int64_t step);

/* A layer whose gradient is a sum of outer products, one for each sample of the batch: its part of
 * g, [outputs][inputs] row major, has the element sum over r < rows of u[r][o] v[r][i]. */
typedef struct fast_factored {
    const char *name; /* of its weights */
    int64_t offset;   /* of them in w and g */
    int64_t outputs;  /* rows of the matrix */
    int64_t inputs;   /* columns */
    int64_t samples;  /* rows of its factors in a gradient */
    int64_t rows;     /* at most, with such as are all 0 */
} fast_factored;
/* Describe layer i of those with factors; false past the last. Gradients of other layers, of
 * learners of your own and of several micro-batches have no factors. Works at servers too. */
FAST_API bool fast_trainer_factored(const fast_trainer *t, int64_t i, fast_factored *out);
/* From the next gradient on leave layer i's gradient as its factors, or no longer: its part of g is
 * not written, but its range is reported. FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_factor(fast_trainer *t, int64_t i, bool wanted);
/* The factors of the last gradient, or in reports of the current one: the rows of u, `outputs`
 * floats each, followed by those of v, `inputs` each. Lent until the next gradient. */
FAST_API const float *fast_trainer_factors(const fast_trainer *t, int64_t i, int64_t *rows_out);
/* Multiply out: y[outputs][inputs] = the sum over `count` factors of layer i in their order, and in
 * each over its rows in order, the same bits everywhere. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_compose(fast_trainer *t, int64_t i,
                                                       const float *const *factors,
                                                       const int64_t *rows, int64_t count,
                                                       float *y);
/* Tell the user something once, in a line without a full stop; that of worker 0 stands. */
FAST_API void fast_trainer_note(fast_trainer *t, const char *text);

/* Which vectors the run's codecs are fit for. */
typedef enum fast_codes {
    FAST_CODES_NONE,    /* the run has no codec */
    FAST_CODES_EXACT,   /* it loses nothing */
    FAST_CODES_WEIGHTS, /* it is fit for weights as they are */
    FAST_CODES_CHANGES, /* only for gradients and differences */
} fast_codes;
FAST_API fast_codes fast_trainer_codes(const fast_trainer *t);
/* x, count floats, becomes the sum over all workers, the same bits at each: encoded in messages
 * where the run has a codec (`codec`, `codec_down`), else by fast_allreduce(). The residual of a
 * codec is added in the next call: every call is for the same kind of vector. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum(fast_trainer *t, float *x);

/* Cut sums into pieces that start before the vector is whole, for strategies that start them in
 * reports: pieces of whole layers, `least` floats at least, from the last layer to the first;
 * *count_out is 0 where the run has no codec, or one that does not encode layers separately. The
 * bits are those of fast_trainer_sum(). A step starts every piece, all workers in the same order,
 * and afterwards finishes every piece. FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum_cut(fast_trainer *t, int64_t least,
                                                       int64_t *count_out);
FAST_API void fast_trainer_sum_piece(const fast_trainer *t, int64_t i, int64_t *offset_out,
                                     int64_t *count_out);
/* Start the sum of piece i. x is the whole vector, of which the piece is final. Never blocks. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum_start(fast_trainer *t, int64_t i,
                                                         const float *x);
/* Wait for the sum of piece i, which replaces the piece of x. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum_finish(fast_trainer *t, int64_t i, float *x);

/* Open a space whose first tensor has the length of w, and to which gradients or differences are
 * added: encoded where the run has a codec. The codecs' options are set here. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_space(fast_trainer *t,
                                                     const fast_space_options *options,
                                                     fast_space **out);
/* Close it as fast_space_close() does, which is enough where a strategy cannot be resumed; NULL is
 * allowed. The next space of its name starts with the state of this one: residuals of codecs,
 * copies that readers hold, and at owners the values of tensors that start with t->w or t->s. An
 * owner calls fast_space_serve() before. FAST_ENOMEM: that state is lost. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_space_close(fast_trainer *t, fast_space *space);

/* Flows: vectors in messages of the strategy's own, encoded where the run has a codec. One sends,
 * any number receive. Where the same bytes go to all, a sender has one flow; where they differ, one
 * for each receiver.
 *
 * Of changes (gradients, differences) each counts: the residual of a codec is sent later, and
 * receivers decode messages of any sender by one flow. Of values (weights) the newest counts: a
 * lossy codec encodes their difference to the values that the receivers hold, of which both ends
 * have a copy. So a receiver has a flow for each sender, and follows all its messages in order; the
 * message after a lost one fails. */
typedef struct fast_flow fast_flow;
typedef struct fast_flow_options {
    int64_t number; /* of the flow, among those of this actor: each has its own random stream */
    bool values;    /* weights, of the whole model */
    bool raw;       /* weights of any range, each message alone: no differences, and no codec that
                       is not fit for weights as they are */
    bool down;      /* encoded by codec_down instead of codec */
    bool decodes;   /* this end only decodes: it has no residual */
    int64_t offset; /* first float of the range of the model */
    int64_t count;  /* floats of the range; 0: all from the offset on */
} fast_flow_options;
/* The flow of these options, owned by the trainer: it is made at the first call, and its residual
 * lasts as long as the worker's replica. FAST_EINVAL if the codec does not fit. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_flow(fast_trainer *t,
                                                    const fast_flow_options *options,
                                                    fast_flow **out);
/* Bytes that one vector takes at most. */
FAST_API size_t fast_flow_bound(const fast_flow *flow);
/* Encode x, the range, to out[bound], which may lie anywhere; store the bytes written in *size_out.
 * The message must be sent. Charged. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_encode(fast_trainer *t, fast_flow *flow,
                                                      const float *x, void *out, size_t *size_out);
/* Changes: y, the range, becomes y + scale x. Charged. FAST_EFORMAT: y is of no meaning then. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_decode(fast_trainer *t, fast_flow *flow,
                                                      const void *in, size_t size, float scale,
                                                      float *y);
/* Values and raw: decode a message; *out, until the next call, is this end's copy of x. Charged.
 * FAST_EFORMAT also if a message before it is missing. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_follow(fast_trainer *t, fast_flow *flow,
                                                      const void *in, size_t size,
                                                      const float **out);
/* Values that are sent as differences: the receivers' copy after the last encoding; NULL where the
 * codec is lossless, and that copy is x. */
FAST_API const float *fast_flow_held(const fast_flow *flow);
/* The fraction of the last difference's square that was sent: 1 is all of it. */
FAST_API double fast_flow_kept(const fast_flow *flow);
/* Values: the receivers have no copy: the next message has all of x, not encoded. */
FAST_API void fast_flow_renew(fast_flow *flow);

/* w <- rule(w, scale g), with this actor's state of the rule; all of it. g may be any vector. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_update(fast_trainer *t, const float *g, float scale);
/* Update a range that lies anywhere: w[0 .. count) and g[0 .. count) are the elements of the whole
 * from `offset` on. Only where fast_trainer_by_range(). May be called in reports. `step` (from 1)
 * and `lr` are the update's: those of the worker that computed g, or the server's own count. */
FAST_API void fast_trainer_update_range(fast_trainer *t, int64_t step, double lr, float *w,
                                        const float *g, float scale, int64_t offset, int64_t count);
/* Let all workers share one model in memory, w and the rule's state, where that is possible: all
 * workers find the same in *out. Each calls it before its first step, while replicas are equal; a
 * shared w is written by the next function alone. FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_share(fast_trainer *t, bool *out);
/* w <- rule(w, scale sum of all workers' g), the shared one: each worker sums and updates a slice.
 * Returns once all have. Fails as a collective does. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_update_shared(fast_trainer *t, const float *g,
                                                             float scale, int64_t deadline);
/* The cost of an update by element: arithmetic, and the bytes of w, g and the rule's state. The
 * owner of a space sets it there; elsewhere fast_trainer_update*() charge it. */
enum { FAST_UPDATE_OPERATIONS = 4, FAST_UPDATE_BYTES = 16 };

/* True if the rule is elementwise and needs no norm of the whole: ranges can be updated alone. */
FAST_API bool fast_trainer_by_range(const fast_trainer *t);
/* The schedule's rate at a step (from 0). */
FAST_API double fast_trainer_lr(const fast_trainer *t, int64_t step);
/* Set the rule's state (momentum) to 0, as some strategies do when models are replaced. */
FAST_API void fast_trainer_reset_rule(fast_trainer *t);

/* State of the rule, vector i from 0 (momentum, ...): count floats, which may be written between
 * updates; NULL past the last. */
FAST_API float *fast_trainer_rule_slot(fast_trainer *t, int i);

/* Distillation: from the next gradient on the targets are share * mean prediction of these models +
 * (1 - share) * labels. Each model is count + state_count floats, w and s; they are lent until the
 * next call, which may have none. Outputs of classes are divided by the temperature. FAST_ENOTSUP
 * where the learner takes no teachers. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_teach(fast_trainer *t, const float *models,
                                                     int64_t model_count, double temperature,
                                                     double share);

/* Room for this worker's copy of a centre: count floats, first w's, and `workers` more, first 0,
 * for what it carries where that travels along. It is the run's, and set as t->centre.
 * FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_centre(fast_trainer *t, float **out);

/* Return the zero-initialised block `number` of `size` bytes, owned by this actor's replica. Its
 * contents survive cancel and resume: checkpoints include it. For all state of a strategy between
 * steps besides w, s and the rule's state, at servers too. Called before the first step.
 * FAST_ENOMEM; FAST_EINVAL if the block has another size. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_persist(fast_trainer *t, int64_t number, size_t size,
                                                       void **out);

/*
 * Vectors and kernels. Measures follow from the operations: a strategy reports nothing by hand.
 *
 * A vector has values and, by worker, the weight of the updates that it holds: its contributions.
 * An update of w by this worker's whole gradient has the weight `workers`, so that the mean of all
 * replicas holds 1 of every worker's. A kernel is an operation that is linear in its vectors, with
 * its cost: applied, it changes the values and the contributions alike, simulated nodes take its
 * time, and the forecast counts it.
 */
typedef struct fast_vector {
    float *x;       /* values: t->count floats, or a range of them */
    double *shares; /* [workers] contributions; NULL: none */
    int64_t age;    /* of values that arrived: updates by which they are late, counted as staleness
                       when they are merged; negative: not counted */
} fast_vector;

/* This replica: w and its contributions; NULL in `shares` at servers. */
FAST_API fast_vector fast_trainer_model(const fast_trainer *t);
/* g and its contributions: those of this worker alone, or after fast_trainer_sum() of all. */
FAST_API fast_vector fast_trainer_grad(const fast_trainer *t);
/* Set `shares` to those of one whole gradient of worker `rank`. */
FAST_API void fast_trainer_shares_of(const fast_trainer *t, int64_t rank, double *shares);

enum { FAST_KERNEL_VECTORS = 5 };
typedef struct fast_kernel {
    const char *name;  /* for messages */
    double operations; /* for each element */
    double bytes;      /* moved through memory for each element */
    int vectors;       /* that run() takes, at most FAST_KERNEL_VECTORS; the first is the result */
    int written;       /* of them, from the first on, those that run() changes */
    bool deferred;     /* its time is spent after the messages that follow it: charged by the next
                          step, gradient or update */
    /* Change x[0 .. written), n elements each. Never blocks. */
    void (*run)(const void *ctx, int64_t n, float *const *x);
} fast_kernel;
/* Apply a kernel `rows` times, to vectors v[row * kernel->vectors + i] of `count` elements each: a
 * range of w counts as its fraction. Fails as fast_charge() does. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_apply_range(fast_trainer *t,
                                                           const fast_kernel *kernel,
                                                           const void *ctx, const fast_vector *v,
                                                           int64_t rows, int64_t count);
/* y <- the sum of `n` vectors of `count` elements in the canonical order, at most FAST_SUM_LIST_MAX;
 * charged. */
enum { FAST_SUM_LIST_MAX = 4096 };
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum_list(fast_trainer *t, const float *const *x,
                                                        int64_t n, int64_t count, float *y);
/* Apply it once, to whole vectors. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_apply(fast_trainer *t, const fast_kernel *kernel,
                                                     const void *ctx, const fast_vector *v);
/* w becomes v, which may be w itself with contributions that are known now. `shares` NULL: v holds
 * t->step updates of every worker. No cost. */
FAST_API void fast_trainer_adopt(fast_trainer *t, const fast_vector *v);
/* Make the sum over all workers of a range of g, or start it, also in reports: fast_request_wait()
 * ends it. `group` has all workers; requests of one group end in the order of their start. Without
 * codecs only. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum_range(fast_trainer *t, fast_group *group,
                                                         int64_t offset, int64_t count);
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum_range_start(fast_trainer *t, fast_group *group,
                                                               int64_t offset, int64_t count,
                                                               fast_request **out);
/* v becomes the sum over all workers, as in fast_trainer_sum(); workers of a synchronous strategy
 * hold equal shares of their own updates and equal ones of all others', which are summed alike. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum_vector(fast_trainer *t, const fast_vector *v);
/* w <- rule(w, scale v.x), as fast_trainer_update(), with the contributions of v. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_update_by(fast_trainer *t, const fast_vector *v,
                                                         float scale);

/* The momentum that asynchrony gave this server's part of the model, and its standard error. */
FAST_API void fast_trainer_momentum(fast_trainer *t, double momentum, double error);

/* The exchange of a step as the forecast sees it, on average; models are of t->count floats. The
 * trainer counts the first four from the calls. */
typedef struct fast_cost {
    double allreduces;    /* sums of a model over all workers */
    const int64_t *parts; /* floats of each sum that starts during the backward pass, in their
                             order, instead of allreduces; lent for the call; or NULL */
    int64_t part_count;   /* length of parts */
    double moved;         /* bytes moved through memory by kernels, for each parameter */
    double trips;         /* messages that are waited for, one after the other */
    double waits;         /* models whose transfer to or from this worker is waited for */
    double served;        /* models that the servers receive, or send if that is more */
    double behind;        /* models whose transfer hides behind the gradient, while that lasts */
    double barrier;       /* steps after which all wait for the slowest; 0: they never do */
} fast_cost;

/* What a strategy declares. */
typedef struct fast_strategy {
    const char *name;           /* as it is typed */
    const char *summary;        /* one line, no full stop */
    const fast_option *options; /* of its configuration; NULL: none */
    size_t config_size;         /* bytes of it */
    bool synchronous;           /* workers take their steps, or periods of them, together */
    bool identical;             /* all replicas are equal after each step: one stands for all */
    bool resumes;               /* between steps all that a worker keeps is its replica, the rule's
                                   state, what fast_trainer_persist() gave and what sums, flows and
                                   spaces owe; what servers keep, likewise, changes only when all
                                   workers have gone on: checkpoints hold it. Synchronous ones
                                   only */
    bool near;                  /* its workers must share memory */
    bool codes;                 /* what it sends goes through fast_trainer_sum() or flows, or with
                                   servers through a space of fast_trainer_space() */
    const char *topology;       /* the standard one; NULL: it has none */
    const char *sends;          /* "gradients", "weights", "differences"; "values", weights
                                   of which a message may be the only one; "nothing" */
    const char *answers;        /* what comes back in messages of their own, by codec_down:
                                   "weights"; "slices" of them, as they are; "values", which are
                                   weights that may get lost; "sums" of what was sent; "nothing"
                                   between workers alone. NULL: only the sum of all */
    const char *representative; /* the policy that "auto" stands for; NULL: centre or mean */

    /* The member of its family that the options make, where its declaration is another one: of the
     * same name, options and programs. NULL: this one. */
    const struct fast_strategy *(*member)(const void *config);
    /* What it sends, and what comes back, where the options say it; NULL: `sends`, `answers`. */
    const char *(*sends_by)(const void *config);
    const char *(*answers_by)(const void *config);
    /* Fill in the messages of a step, from `trips` to `barrier`, as worker 0 sees them. NULL: workers
     * send none besides sums, and a synchronous strategy waits at each `period`. */
    void (*cost)(const void *config, const fast_trainer *t, fast_cost *cost);
    /* Servers that it needs for so many workers; NULL: none. Asked before anything runs. */
    int64_t (*servers)(const void *config, int64_t workers);
    /* Refuse what makes no sense, with a reason: FAST_EINVAL. May be NULL. */
    fast_err (*check)(const void *config, int64_t workers, const char *optimizer);
    /* The programs. `config` is parsed from the options and shared by all. */
    fast_err (*worker)(fast_trainer *t, const void *config);
    fast_err (*server)(fast_trainer *t, const void *config); /* NULL: none */
    const fast_exclusion *exclusions; /* options that do not go together: refused before check();
                                         NULL if all pairs do */
} fast_strategy;

/* Open a run with a strategy of your own, which is borrowed until close. The option strategy is its
 * name, with its options ("mine:period=4"), or is left out; another name takes that one. */
FAST_API FAST_MUST_CHECK fast_err fast_run_open_strategy(const char *const *options,
                                                         const fast_strategy *strategy,
                                                         fast_run **out);

#ifdef __cplusplus
}
#endif
