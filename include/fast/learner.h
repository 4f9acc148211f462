/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * learner.h - learners of your own: what a worker computes. A model of another framework, or a few
 * lines of C, trains under FAST's strategies, transports, rules, measures and checkpoints. The
 * rules of fast.h hold; examples/07_learner.c is a whole program in C, examples/08_pytorch.py one
 * in Python.
 *
 *     static fast_err gradient(void *ctx, fast_learner_request *request)
 *     {
 *         const float *target = ctx; // of w: the loss is (w[0] - target)^2 / 2
 *         const float error = request->w[0] - *target;
 *         request->g[0] = error; // g <- d loss / d w, the mean over a batch
 *         request->loss = 0.5 * (double)error * (double)error;
 *         request->samples = request->batch;
 *         return FAST_OK;
 *     }
 *
 *   Memory     Parameters are one vector of floats, w, and so is their gradient: the tensors of
 *              `params`, one after the other without gaps, row major. State that is not trained but
 *              averaged where weights are (batch norm's statistics) is a second one, s. FAST owns
 *              both, one for each worker; all pointers of a request are lent for the call.
 *   Data       A learner makes its batches itself, of (seed, worker, workers, step), or is fed the
 *              batches of the option `data`: shuffled, sharded, augmented and normalised by FAST.
 *   Threads    One worker without a strategy or transport of its own is called in the thread of
 *              fast_run_train(). Else calls for one worker never overlap; those for different
 *              workers do, from FAST's own threads, and so does evaluation. All have the stack of a
 *              thread, on `sim` too, where several workers' calls may come from one thread.
 *   Repeating  A worker's steps come in order, 0, 1, 2, ..., but a resumed run starts later, and a
 *              simulated worker that is restarted starts anew. If the result of a call follows from
 *              its request alone, a run repeats to the bit, also when it was resumed.
 *   Errors     A function that fails returns an error and says why in its request's `error`. That
 *              ends the run, whatever the strategy: fast_run_train() fails with it.
 */

#include "fast/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor of the parameters or of the state. */
typedef struct fast_learner_tensor {
    const char *name;     /* as it is saved: unique, at most 63 bytes: "conv1.weight" */
    int64_t rank;         /* 1 to 4. Weight decay applies to parameters from rank 2 on */
    int64_t shape[4];     /* the first `rank` count */
    const float *initial; /* first values, row major; NULL: zeros */
} fast_learner_tensor;

enum { FAST_LEARNER_ERROR_SIZE = 256 };

/* A request to a learner, and its answer. */
typedef struct fast_learner_request {
    /* In. */
    int64_t worker;  /* that asks for its gradient, from 0; -1: evaluation */
    int64_t workers; /* number of workers */
    int64_t step;    /* number of the worker's batch, from 0: its step, or with `accumulate` a
                        micro-batch of one; evaluation: 0 */
    int64_t seed;    /* of everything random in the run */
    int64_t batch;   /* samples of a batch, by the options */
    const float *w;  /* parameters */
    float *g;        /* to be written, all elements; NULL: evaluation */
    float *s;        /* state: may be written with a gradient; NULL: the learner has none */
    /* In, where the learner is fed; else 0 and NULL. */
    int64_t count;         /* samples of this batch; the last of an evaluation may be smaller */
    int64_t features;      /* values of a sample */
    int64_t targets;       /* labels, or values of y, of a sample */
    const float *x;        /* [count][features] */
    const int32_t *labels; /* [count][targets]: classification; or NULL */
    const float *y;        /* [count][targets]: regression; or NULL */
    /* Out. */
    int64_t samples;                     /* of the answer: at least 1, or the request has failed */
    double loss;                         /* mean over the samples */
    int64_t correct;                     /* right answers */
    int64_t counted;                     /* answers; 0: accuracy has no meaning here */
    char error[FAST_LEARNER_ERROR_SIZE]; /* why it failed: one line for the user */
} fast_learner_request;

/* Answer a request. Set `samples` last: a function of another language that an exception leaves may
 * return anything, FAST_OK too, and a request without samples has failed in any case. */
typedef fast_err fast_learner_request_fn(void *ctx, fast_learner_request *request);

/* A learner's declaration. Zero means none. */
typedef struct fast_learner_kind {
    size_t size;                       /* bytes of this struct, as in fast.h; 0 means sizeof */
    const char *name;                  /* one word, for messages; stands for the option model */
    const fast_learner_tensor *params; /* trained tensors */
    int64_t param_count;               /* tensors; at least 1 */
    const fast_learner_tensor *state;  /* tensors that are not trained */
    int64_t state_count;               /* tensors */
    int64_t samples;   /* of a training set of its own, which epochs are counted by: it makes its
                           batches itself. 0: it is fed */
    double operations; /* of a gradient, per sample: `sim` charges time for them */
    fast_learner_request_fn *gradient; /* of one batch at w, into g */
    fast_learner_request_fn
        *evaluate;    /* loss and answers at w: of the whole test set of its own, or of the
                                 batch that it is fed, one after the other; NULL: no evaluation */
    void *ctx;        /* argument of both functions */
    const double *lr; /* learning rate of the step, instead of the options lr and schedule: written
                         by a learner before it answers with a gradient; borrowed until close. NULL:
                         by the options */
} fast_learner_kind;

/* Open a run with a learner of your own, and perhaps a strategy (NULL: by the options). `kind` and
 * its tensors are copied; functions, ctx and strategy are borrowed until close. The options model,
 * engine, plan and method have no meaning with it, nor has fast_run_predict(); data, shard and
 * augment only where the learner is fed. FAST_EINVAL names the tensor or field that is wrong. */
FAST_API FAST_MUST_CHECK fast_err fast_run_open_learner(const char *const *options,
                                                        const fast_learner_kind *kind,
                                                        const fast_strategy *strategy,
                                                        fast_run **out);

/* A loop of the caller's. Instead of a function that FAST calls, the caller's own loop computes:
 *
 *     static fast_err train(fast_run *run, float target)
 *     {
 *         fast_learner_request *request = NULL;
 *         fast_err err;
 *         while ((err = fast_run_next(run, &request)) == FAST_OK && request) {
 *             request->g[0] = request->w[0] - target;
 *             request->loss = 0.5 * (double)(request->g[0] * request->g[0]);
 *             request->samples = request->batch;
 *         }
 *         return err;
 *     }
 *
 * Open a run whose learner has neither gradient() nor evaluate(). Else as
 * fast_run_open_learner(). */
FAST_API FAST_MUST_CHECK fast_err fast_run_open_loop(const char *const *options,
                                                     const fast_learner_kind *kind,
                                                     const fast_strategy *strategy, fast_run **out);

/* Answer the request that the call before has lent, and lend the next one in *out: of whichever
 * worker of this process asks next. The first call starts the run. *out is NULL at the end of the
 * run, and the result is that of fast_run_train(), which must not be called itself. A request
 * without samples has failed: that ends the run. All calls come from one thread. Where this process
 * has one worker and no server, or simulates its workers with pool=0, the exchange between two
 * requests happens in this thread, on a stack of its own; else FAST's threads wait for the loop.
 * fast_run_close() ends a loop that is left early. */
FAST_API FAST_MUST_CHECK fast_err fast_run_next(fast_run *run, fast_learner_request **out);

#ifdef __cplusplus
}
#endif
