/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * strategy.h - strategies of your own: when workers exchange what with whom. The rules of fast.h,
 * comm.h and space.h hold.
 *
 * A strategy is a program for each of its roles, on one actor's view of a run: the trainer. It does
 * not know the model, the data, the update rule or the transport:
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
 *
 *     static const fast_strategy mine = { .name = "mine", .synchronous = true,
 *                                         .worker = synchronous };
 *     fast_run *run = NULL;
 *     const char *options[] = { "data=digits", "workers=4", NULL };
 *     if (fast_run_open_strategy(options, &mine, &run) != FAST_OK)
 *         puts(fast_error_detail());
 *     fast_run_close(run);
 *
 * Sections: a first strategy; exchange by spaces and flows; more control over gradients, sums and
 * updates; the declaration. kernel.h has vectors with contributions and kernels with costs.
 * Staleness, contributions, bytes and costs follow from the calls; a strategy reports nothing.
 */

#include "fast/kernel.h"
#include "fast/run.h"
#include "fast/space.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A first strategy: next, gradient, sum, update, end.
 */

/* One actor's view of a run. Read the fields; write only those whose comment allows it. */
typedef struct fast_trainer {
    fast_actor *actor;             /* for messages, time and random numbers */
    fast_group *group;             /* of all workers; NULL at servers */
    const fast_topology *topology; /* over the workers' ranks; NULL if the strategy has none */
    int64_t rank;                  /* of this actor among the workers, or among the servers */
    int64_t workers;               /* number of workers */
    int64_t servers;               /* number of servers; 0 if the strategy has none */
    const int64_t *worker_ids;     /* [workers] actor numbers by rank */
    const int64_t *server_ids;     /* [servers] actor numbers by rank */
    /* The vectors may be in the memory of a device: kernel.h. */
    int64_t count;          /* floats of w and of g */
    int64_t state_count;    /* floats of s */
    float *w;               /* parameters of this replica; may be written between gradients. At
                               servers the initial values, equal at all actors */
    float *g;               /* the last gradient; may be written; NULL at servers */
    float *s;               /* state that is not trained (batch-norm statistics), averaged wherever
                               w is; may be written */
    int64_t step;           /* steps that this worker has taken */
    int64_t step_count;     /* steps that it is to take */
    int64_t epoch_steps;    /* steps of one pass over the data */
    int64_t micro_batches;  /* micro-batches of a gradient: the option accumulate, at least 1 */
    double lr;              /* learning rate of the current step */
    double loss;            /* mean loss of the last gradient's batch */
    int64_t staleness;      /* may be written by asynchronous workers after a gradient: updates of
                               the model since its weights were read, counted by the next update.
                               A gradient sets it to -1: not counted */
    int64_t period;         /* steps between exchanges; a synchronous strategy writes it before its
                               first step, if it is not 1, so that all workers stop at one step */
    bool free_running;      /* written by synchronous strategies, at all workers alike: no exchange
                               is pending for long, and workers may stop at any step */
    const float *centre;    /* may be written: the model that is evaluated instead of the mean of
                               the replicas: w, or the memory of fast_trainer_centre(). Workers
                               with NULL have no part in it. NULL at all: the mean */
    int64_t centre_version; /* may be written: of several centres the one with the largest version
                               is evaluated: the updates that it holds, or its merit */
    bool mixes_rule_state;  /* written before the first step by strategies that mix replicas: the
                               rule's state is mixed wherever w is */
} fast_trainer;

/* Go to the next step: return true if one is left. Evaluation, the target, checkpoints and a cancel
 * take place here. Workers of a synchronous strategy get the same answer at the same step. Also
 * returns false after a failure, which fast_trainer_end() returns. */
FAST_API bool fast_trainer_next(fast_trainer *t);

/* Compute g, the gradient of the next batch at w, and count a step. `report`, if not NULL, is
 * called for each range as soon as its gradient is final: it may start collectives and update that
 * range, but not wait. Waits for no other actor. Fails as the learner does; FAST_ECANCELED. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_gradient(fast_trainer *t, fast_report_fn *report,
                                                        void *ctx);

/* Replace x, t->count floats, by the sum over all workers, the same bits at each: in encoded
 * messages if the run has a codec (`codec`, `codec_down`), else by fast_allreduce(). A codec adds
 * its residual in the next call, so all calls are for one kind of vector. Fails as a collective
 * does. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum(fast_trainer *t, float *x);

/* Update the replica: w <- rule(w, scale g), with this actor's state of the rule. g may be any
 * vector of t->count floats. FAST_ECANCELED. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_update(fast_trainer *t, const float *g, float scale);

/* End a worker's program: return FAST_OK, or the error that fast_trainer_next() found. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_end(fast_trainer *t);

/* Return the scheduled learning rate of a step, from 0. */
FAST_API double fast_trainer_lr(const fast_trainer *t, int64_t step);

/* Return whether this program continues a snapshot between two steps: blocks, spaces, flows and
 * unread messages are as they were. True until the first fast_trainer_next() returns. */
FAST_API bool fast_trainer_resumed(const fast_trainer *t);

/* Return the zero-initialised block `number` of `size` bytes, owned by this actor's replica, for
 * all state of a strategy besides w, s and the rule's state, also at servers. Its contents survive
 * cancel and resume: checkpoints include it. Call it before the first step. FAST_ENOMEM;
 * FAST_EINVAL if the block has another size. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_persist(fast_trainer *t, int64_t number, size_t size,
                                                       void **out);

/* Tell the user something once, in a line without a full stop; only worker 0's line is shown. */
FAST_API void fast_trainer_note(fast_trainer *t, const char *text);

/*
 * Exchange: spaces at servers, and encoded vectors in messages of your own.
 */

/* Vectors that the run's codec can encode. */
typedef enum fast_codec_fit {
    FAST_FIT_NONE,     /* the run has no codec */
    FAST_FIT_LOSSLESS, /* any vector: the codec loses nothing */
    FAST_FIT_WEIGHTS,  /* any vector: the codec encodes weights as they are */
    FAST_FIT_CHANGES,  /* gradients and differences only */
} fast_codec_fit;
/* Return the fit of the run's codec, for strategies that send both kinds of vectors. */
FAST_API fast_codec_fit fast_trainer_codec_fit(const fast_trainer *t);

/* Open a space whose first tensor has t->count floats, to which gradients or differences are added:
 * encoded if the run has a codec, whose options are set here. Fails as fast_space_open() does. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_space(fast_trainer *t,
                                                     const fast_space_options *options,
                                                     fast_space **out);
/* Close the space as fast_space_close() does and save its state: the next space of its name starts
 * with the residuals of codecs, the copies that readers hold, and at owners the values of tensors
 * that start with t->w or t->s. Resumable strategies close their spaces with it; an owner calls
 * fast_space_serve() before. NULL is allowed. FAST_ENOMEM: the state is lost. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_space_close(fast_trainer *t, fast_space *space);

/* Let codecs compare changes with these weights, borrowed until the program ends, where w holds the
 * changes themselves while they are sent; NULL: with w. */
FAST_API void fast_trainer_reference(fast_trainer *t, const float *weights);

/* Flows: vectors in messages of the strategy's own, encoded if the run has a codec. One sends,
 * any number receive. A sender has one flow if all receivers get the same bytes, else one for each
 * receiver.
 *
 * Of changes (gradients, differences) each counts: the residual of a codec is sent later, and
 * receivers decode messages of any sender by one flow. Of values (weights) the newest counts: a
 * lossy codec encodes their difference to the values that the receivers hold, of which both ends
 * have a copy. So a receiver has a flow for each sender, and follows all its messages in order; the
 * message after a lost one fails. */
typedef struct fast_flow fast_flow;
typedef struct fast_flow_options {
    size_t size;    /* bytes of this struct, as in fast.h; 0 means sizeof */
    int64_t number; /* of the flow, among those of this actor: each has its own random stream */
    bool values;    /* weights, of the whole model */
    bool raw;       /* weights of any range, each message alone: without differences, and with a
                       codec that encodes weights as they are, or none */
    bool down;      /* encoded by codec_down instead of codec */
    bool decodes;   /* this end only decodes: it has no residual */
    int64_t offset; /* first float of the range of the model */
    int64_t count;  /* floats of the range; 0: all from the offset on */
} fast_flow_options;
/* Return the flow of these options, owned by the trainer and made at the first call. Its residual
 * lasts as long as the worker's replica. FAST_EINVAL if the codec cannot encode such vectors. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_flow(fast_trainer *t,
                                                    const fast_flow_options *options,
                                                    fast_flow **out);
/* Return the largest number of bytes that one encoded vector takes. */
FAST_API size_t fast_flow_bound(const fast_flow *flow);
/* Encode x, the range, to out[bound], which may lie anywhere; store the bytes written in *size_out.
 * The message must be sent. Charged. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_encode(fast_trainer *t, fast_flow *flow,
                                                      const float *x, void *out, size_t *size_out);
/* Decode changes: y, the range, becomes y + scale x. Charged. FAST_EFORMAT: y is undefined. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_decode(fast_trainer *t, fast_flow *flow,
                                                      const void *in, size_t size, float scale,
                                                      float *y);
/* Decode values (`values` or `raw`): *out is this end's copy of x until the next call. Charged.
 * FAST_EFORMAT also if a message before it is missing. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_decode_values(fast_trainer *t, fast_flow *flow,
                                                             const void *in, size_t size,
                                                             const float **out);
/* Return the receivers' copy of values after the last encoding; NULL if the codec is lossless and
 * the copy equals x. */
FAST_API const float *fast_flow_receiver_copy(const fast_flow *flow);
/* Return the fraction of the last difference that was sent, by its squared norm: 1 is all of it. */
FAST_API double fast_flow_sent_fraction(const fast_flow *flow);
/* Send all of x, not encoded, in the next message of values: the receivers have no copy. */
FAST_API void fast_flow_reset(fast_flow *flow);

/* Return memory for this worker's copy of a centre, owned by the run and set as t->centre: count
 * floats, initially w, and fast_trainer_share_count() more, initially 0, for its contributions
 * where they are sent with it. FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_centre(fast_trainer *t, float **out);

/*
 * More control over gradients, sums and updates.
 */

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
 * step * micro_batches on). Counts no step: fast_trainer_count_step() does. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_micro_gradient(fast_trainer *t, int64_t number);
/* Count a step: that of the micro-batches since the last one, or, without any, a step of the other
 * workers that this one missed. lr becomes that step's. */
FAST_API void fast_trainer_count_step(fast_trainer *t);
/* Continue at another step, from 0 to step_count: steps between are left out, or taken again. */
FAST_API void fast_trainer_set_step(fast_trainer *t, int64_t step);

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

/* A layer whose gradient is a sum of outer products, one for each sample of the batch: its part of
 * g, [outputs][inputs] row major, has the element sum over r < rows of u[r][o] v[r][i]. */
typedef struct fast_factored_layer {
    const char *name; /* name of its weights */
    int64_t offset;   /* of its weights in w and g */
    int64_t outputs;  /* rows of the matrix */
    int64_t inputs;   /* columns */
    int64_t samples;  /* rows of its factors in a gradient */
    int64_t rows;     /* largest number of rows, those that are all 0 included */
} fast_factored_layer;
/* Describe layer i of those with factors; false past the last. Gradients of other layers, of
 * learners of your own and of several micro-batches have no factors. Works at servers too. */
FAST_API bool fast_trainer_factored_layer(const fast_trainer *t, int64_t i,
                                          fast_factored_layer *out);
/* From the next gradient on leave layer i's gradient as its factors, or no longer: its part of g is
 * not written, but its range is reported. FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_use_factors(fast_trainer *t, int64_t i, bool wanted);
/* Return the factors of the last gradient, or in reports of the current one: the rows of u,
 * `outputs` floats each, followed by those of v, `inputs` each. Lent until the next gradient. */
FAST_API const float *fast_trainer_factors(const fast_trainer *t, int64_t i, int64_t *rows_out);
/* Multiply out: y[outputs][inputs] = the sum over `count` factors of layer i in their order, and in
 * each over its rows in order, the same bits everywhere. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_multiply_factors(fast_trainer *t, int64_t i,
                                                                const float *const *factors,
                                                                const int64_t *rows, int64_t count,
                                                                float *y);

/* Return true if ranges can be updated one by one: the rule needs no norm of the whole vector. */
FAST_API bool fast_trainer_can_update_range(const fast_trainer *t);

/* Update a range: w and g point to `count` elements, those of the whole vector from `offset` on.
 * Requires fast_trainer_can_update_range(); may be called in reports. `step` (from 1) and `lr` are
 * those of the worker that computed g, or of the server's own count. */
FAST_API void fast_trainer_update_range(fast_trainer *t, int64_t step, double lr, float *w,
                                        const float *g, float scale, int64_t offset, int64_t count);

/* The cost of an update for each element: operations, and the bytes of w, g and the rule's state.
 * The owner of a space declares it there; fast_trainer_update*() charge it themselves. */
enum { FAST_UPDATE_OPERATIONS = 4, FAST_UPDATE_BYTES = 16 };

/* Let all workers share w and the rule's state in memory, if they run in one process: *out is true
 * at all workers or at none. Each worker calls it before its first step, while replicas are equal;
 * a shared w is written by fast_trainer_update_shared() alone. FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_share(fast_trainer *t, bool *out);
/* Update the shared model: w <- rule(w, scale sum of all workers' g). Each worker sums and updates
 * a slice; returns when all slices are updated. Fails as a collective does. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_update_shared(fast_trainer *t, const float *g,
                                                             float scale, int64_t deadline);

/* Set the rule's state (momentum) to 0, as some strategies do when models are replaced. */
FAST_API void fast_trainer_reset_rule(fast_trainer *t);

/* Return vector i of the rule's state (momentum, ...), from 0: t->count floats, which may be
 * written between updates. NULL past the last. */
FAST_API float *fast_trainer_rule_slot(fast_trainer *t, int i);

/* Set the teachers of distillation: from the next gradient on, targets are share * mean prediction
 * of these models + (1 - share) * labels. Each model is count + state_count floats, w and s, lent
 * until the next call; 0 models end it. Class outputs, its own too, are divided by the temperature.
 * FAST_ENOTSUP if the learner takes no teachers. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_teach(fast_trainer *t, const float *models,
                                                     int64_t model_count, double temperature,
                                                     double share);

/* Report the momentum that asynchrony gave this server's range, and its standard error. */
FAST_API void fast_trainer_momentum(fast_trainer *t, double momentum, double error);

/*
 * The declaration of a strategy.
 */

/* The exchange of a step as the forecast sees it, on average; models are of t->count floats. The
 * trainer counts the first four from the calls. */
typedef struct fast_cost {
    double allreduces;      /* sums of a model over all workers */
    const int64_t *buckets; /* floats of each sum that starts during the backward pass, in their
                             order, instead of allreduces; lent for the call; or NULL */
    int64_t bucket_count;   /* length of parts */
    double moved;           /* bytes moved through memory by kernels, for each parameter */
    double round_trips;     /* messages that are waited for, one after the other */
    double waits;           /* models whose transfer to or from this worker is waited for */
    double served;          /* models that the servers receive, or send if that is more */
    double hidden;          /* models whose transfer hides behind the gradient, while that lasts */
    double barrier;         /* steps after which all wait for the slowest; 0: they never do */
} fast_cost;

/* The declaration of a strategy. Zero-initialised fields mean: does not apply. */
typedef struct fast_strategy {
    size_t size;                /* bytes of this struct, as in fast.h; 0 means sizeof */
    const char *name;           /* as it is typed */
    const char *summary;        /* one line, no full stop */
    const fast_option *options; /* table of its configuration; NULL if it has no options. With an
                                   option redundant=n worker i has the data of worker i mod
                                   workers / n: the strategy takes the first result */
    size_t config_size;         /* bytes of its configuration */
    bool synchronous;           /* workers take their steps, or periods of steps, together */
    bool identical;             /* all replicas are equal after each step, so one is evaluated */
    bool resumable;       /* between steps the state of a worker is its replica, the rule's state,
                                   blocks of fast_trainer_persist(), sums, flows, spaces and unread
                                   messages. Synchronous: servers change only when all workers have
                                   finished a step. Else: requests are answered in all waits */
    bool shares_memory;   /* its workers must run in one process */
    bool uses_codec;      /* the run may have a codec: it sends by sums, flows or spaces of t */
    const char *topology; /* default topology; NULL if it uses none */
    const char *sends;    /* "gradients", "weights" or "differences"; "values": weights in
                             messages that may be lost; "sums" on their way: no codec; "nothing" */
    const char *answers;  /* replies, encoded by codec_down: "weights", "slices" of them, "values",
                             "sums" of vectors, "nothing"; NULL: sums over all workers */
    const char *representative; /* policy of representative=auto; NULL: the centre, or the mean */

    /* Return the declaration for these options, if it depends on them: of the same name, options
     * and programs. NULL: this one. */
    const struct fast_strategy *(*member)(const void *config);
    /* Return `sends` and `answers` for these options. NULL: as declared above. */
    const char *(*sends_by)(const void *config);
    const char *(*answers_by)(const void *config);
    /* Fill in the messages of a step, from `round_trips` to `barrier`, as worker 0 sees them. NULL:
     * workers exchange by sums alone, and a synchronous strategy waits at each `period`. */
    void (*cost)(const void *config, const fast_trainer *t, fast_cost *cost);
    /* Return the number of servers for this number of workers. NULL: no servers. */
    int64_t (*servers)(const void *config, int64_t workers);
    /* Refuse options that contradict each other: FAST_EINVAL with a reason. NULL: accept all. */
    fast_err (*check)(const void *config, int64_t workers, const char *optimizer);
    /* The program of a worker. `config` is parsed from the options and shared by all actors. */
    fast_err (*worker)(fast_trainer *t, const void *config);
    /* The program of a server. NULL if the strategy has no servers. */
    fast_err (*server)(fast_trainer *t, const void *config);
    const fast_exclusion *exclusions; /* options that do not go together: refused before check();
                                         NULL if all pairs do */
    /* Return whether workers take weighted means of their neighbours, so that the weights of
     * a directed topology must sum to 1 in both directions. NULL: any graph will do. */
    bool (*mixes)(const void *config);
    /* Return whether servers live on nodes of their own. NULL: server i is at worker i's node. */
    bool (*dedicated)(const void *config);
} fast_strategy;

/* Open a run with a strategy of your own, borrowed until close. The option strategy is its name,
 * with its options ("mine:period=4"), or is left out; another name selects that strategy. Fails as
 * fast_run_open() does. */
FAST_API FAST_MUST_CHECK fast_err fast_run_open_strategy(const char *const *options,
                                                         const fast_strategy *strategy,
                                                         fast_run **out);

#ifdef __cplusplus
}
#endif
