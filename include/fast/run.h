/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * run.h - train a model. The rules of fast.h hold.
 *
 *     fast_run *run = NULL;
 *     const char *options[] = { "model=lenet", "epochs=3", NULL };
 *     if (fast_run_open(options, &run) == FAST_OK && fast_run_train(run) == FAST_OK)
 *         printf("%.2f%%\n", 100 * fast_run_result(run)->test_accuracy);
 *     fast_run_close(run);
 */

#include "fast/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A run: one training job, from its options to its result. */
typedef struct fast_run fast_run;

enum { FAST_STALENESS_BUCKETS = 16 };

/* Measures of a run. NAN and -1 mean that a measure does not apply. */
typedef struct fast_result {
    int64_t steps;              /* steps taken, those before a resume included */
    int64_t samples;            /* samples seen, those before a resume included */
    int64_t epoch;              /* epochs finished */
    double samples_per_s;       /* of training: without loading, tuning and evaluation */
    double time_s;              /* of this process's training, evaluation included */
    double compute_s;           /* in gradients and updates; mean of the workers */
    double loss;                /* mean of the last epoch's batches so far */
    double train_accuracy;      /* mean of the last epoch's batches so far */
    double test_loss;           /* of the last evaluation; NAN before one */
    double test_accuracy;       /* of the last evaluation; NAN for regression */
    double validation_loss;     /* of the last evaluation; NAN without a validation set */
    double validation_accuracy; /* of the last evaluation; NAN for regression */
    int64_t best_step;          /* of the best evaluation of the validation set; -1: none */
    double time_to_target_s;    /* NAN while the target is not reached */
    uint64_t params_hash;       /* of parameters and state */
    uint64_t plan_hash;         /* of the engine's measured choices; 0 where none were made */
    int64_t param_count;        /* trainable numbers of the model */
    int64_t memory_peak;        /* bytes resident at most, of the whole process */
    int64_t predicted_memory;   /* memory_peak as it was predicted when the run was opened; 0: of a
                                   learner of the caller's */
    int64_t model_state_bytes; /* of a worker's parameters, gradients and optimizer state at most */
    /* Several workers; what another process did is not in these. On `sim` all times above and below
       are virtual, but for wall_time_s. */
    double virtual_time_s; /* equal to time_s on `sim`, else NAN */
    double wall_time_s;    /* by the machine's clock */
    double exchange_s;     /* neither computing nor waiting: messages in transit, copied or
                               summed; mean of the workers */
    double wait_s;   /* blocked before a peer had sent the awaited message; mean of the workers */
    double codec_s;  /* encoding and decoding what is sent; mean of the workers */
    double encode_s; /* the part of it that is encoding */
    double decode_s; /* the rest of it */
    int64_t codec_bytes_in;       /* of the vectors that workers of this process encoded */
    int64_t codec_bytes_out;      /* of their encodings */
    double break_even_mbit_per_s; /* a link below this is faster with the codec; NAN without one */
    const char *codec_sum;  /* how encoded messages were summed: "gather", "double"; NULL: none
                                     were */
    const char *codec_note; /* codec=auto: what was chosen, and why; NULL otherwise */
    int64_t bytes_sent;     /* by all actors, headers and servers included */
    int64_t messages_sent;  /* by all actors; shared memory takes no messages */
    double bytes_per_step;  /* bytes_sent by the steps of all workers; NAN before one */
    const char *waited_for; /* whom others waited for most: "worker 3"; NULL: nobody */
    double waited_share;    /* its part of all that waiting; NAN */
    double staleness_mean;  /* of applied updates, in updates of the model; NAN if none was told */
    int64_t staleness_p50;  /* half of the updates were at most that stale; -1. Above 3 the end of
                               its bucket */
    int64_t staleness_p95;  /* 95 of 100 updates were at most that stale; -1 */
    int64_t staleness_max;  /* of all; -1 */
    int64_t staleness[FAST_STALENESS_BUCKETS]; /* updates by staleness: 0, 1, 2, 3, 4 to 7, 8 to
                               15, ..., 8192 and above */
    double divergence;       /* of the last mean of replicas: the root of the mean square of their
                               distances from it; NAN where no mean was taken */
    double completeness;     /* of what each replica carries of each worker: the mean of
                               min(1, c_ij / mean_i c_ij); NAN where the strategy does not tell */
    double work;             /* arithmetic operations of a worker's step */
    double depth;            /* of those that wait for one another; work / depth could be done
                                     at once */
    double predicted_step_s; /* step time by the cost model (docs/measures.md): the sum
                                     of the next three; NAN where a strategy does not tell */
    double predicted_compute_s;   /* of a worker, on average */
    double predicted_exchange_s;  /* that is not hidden behind computing */
    double predicted_straggler_s; /* until the slowest is there */
    double step_s;                /* a worker's step, evaluation apart; mean of the workers */
    double momentum;       /* that late gradients gave the model, as it was measured; NAN where the
                               strategy does not tell */
    double momentum_error; /* its standard error */
    int64_t workers_lost;  /* workers that did not come to the end: they crashed, failed, or no
                               longer answer; where they are most, the model is of little use. Of a
                               run that failed: those that crashed or were missing to the one
                               whose error is told */
    bool canceled;         /* fast_run_cancel() ended it; a checkpoint was saved where asked */
    const char *stop; /* why it ended: "done", "target","patience" (no better model for that many
                                evaluations), "canceled", "diverged" (the loss is not a finite
                                number); "" while it runs */
} fast_result;

/* Figures of one class against all others. */
typedef struct fast_class_figures {
    int64_t actual;    /* rows of this class (the support) */
    int64_t predicted; /* rows for which the model predicted it */
    int64_t correct;   /* rows in both counts */
    double precision;  /* correct / predicted; 0 where it was never predicted */
    double recall;     /* correct / actual; 0 where it never occurs */
    double f1;         /* harmonic mean of both; all three NAN where both counts are 0 */
    double auc;        /* area under the ROC curve; NAN without rows in and outside the class */
} fast_class_figures;

/* Figures of a model on a set, as scikit-learn defines them. A row is a sample, or a position of
 * one. NAN means that a figure does not apply. */
typedef struct fast_figures {
    int64_t rows;                       /* counted */
    int64_t invalid;                    /* rows with an output that is not a finite number */
    int64_t classes;                    /* 0: regression */
    const fast_class_figures *by_class; /* [classes]; NULL: regression */
    const int64_t *confusion;           /* [classes][classes], rows actual, columns predicted; NULL:
                                 regression, or more than 1,024 classes */
    double accuracy;                    /* rows whose largest output is their class */
    double precision; /* macro average: mean over the classes that occur or were predicted */
    double recall;    /* macro average over the same classes */
    double f1;        /* macro average over the same classes */
    double auc;       /* mean of the classes' one against all others; of two classes that of
                                 either. NAN: more than 64 classes, a set too large for the ranks,
                                 or an invalid row */
    double mae;       /* regression: mean absolute error over rows and outputs */
    double rmse;      /* regression: root of the mean squared error */
    double r2;        /* regression: 1 - squared errors / squared distances from the mean;
                                 mean over the outputs */
} fast_figures;

/* Kinds of events that the callback of fast_run_watch() gets. */
typedef enum fast_event_kind {
    FAST_EVENT_START,    /* everything is open; training begins */
    FAST_EVENT_PROGRESS, /* at most ten a second; and with `text` before an evaluation that may be
                            long: the activity that interrupts training */
    FAST_EVENT_EVALUATE, /* test_loss and test_accuracy are new; with a validation set its loss and
                            accuracy, and those of the test set are NAN until the end */
    FAST_EVENT_SAVE,     /* a file was written: `text` is its path */
    FAST_EVENT_NOTE      /* `text` says something that the user should know */
} fast_event_kind;

/* The event, its result and its text are lent for the call. */
typedef struct fast_event {
    fast_event_kind kind;      /* kind of the event */
    int64_t step;              /* steps taken */
    int64_t step_count;        /* in all */
    int64_t epoch;             /* from 0 */
    double seconds_left;       /* estimate; NAN at first */
    const fast_result *result; /* measures so far */
    const char *text;          /* SAVE, NOTE, some PROGRESS; START: how the files of the data were
                                * understood; otherwise NULL */
} fast_event;

/* It may call fast_run_cancel() and what takes a const fast_run, and nothing else on the run. */
typedef void fast_event_fn(void *ctx, const fast_event *event);

/* Open a run. Options are "name=value", in the words of `fast train` (docs/options.md), ended by
 * NULL. Everything is checked, read and compiled here; nothing trains before fast_run_train(). */
FAST_API FAST_MUST_CHECK fast_err fast_run_open(const char *const *options, fast_run **out);

/* The same with a network and data of your own: any may be NULL, and is then taken from the
 * options. They are borrowed until close. Without a test set there is no evaluation. */
FAST_API FAST_MUST_CHECK fast_err fast_run_open_with(const char *const *options,
                                                     const fast_network *network,
                                                     const fast_data *train, const fast_data *test,
                                                     fast_run **out);

/* The same with a filter of your own, which the options codec and codec_down may name. It is
 * borrowed until close. FAST_EINVAL if it is neither a selection nor a packing, or has the name of
 * a codec. */
FAST_API FAST_MUST_CHECK fast_err fast_run_open_filter(const char *const *options,
                                                       const fast_filter *filter, fast_run **out);

/* Call `watch` during the run, never twice at once, on a thread that trains, or, on `sim`, on
 * one of its own; NULL stops that. */
FAST_API void fast_run_watch(fast_run *run, fast_event_fn *watch, void *ctx);

/* Train to the end, the target, a cancel or a loss that is not finite; all are FAST_OK, and the
 * result says which. A canceled run continues where it was when this is called again. With several
 * processes (`mpi`) every one calls this alike. */
FAST_API FAST_MUST_CHECK fast_err fast_run_train(fast_run *run);

/* Let fast_run_train() finish its step, save where asked and return; before it is called, let it
 * return at once. [any thread, and signal handlers] */
FAST_API void fast_run_cancel(fast_run *run);

/* Return the measures so far. Lent until the next call on the run. */
FAST_API const fast_result *fast_run_result(const fast_run *run);

/* Figures of the run's model on the test set, as of the end of fast_run_train(): of the best model
 * where it is tested, else of the last evaluation. NULL before, without a test set and for a
 * learner of the caller's. Lent until the next call on the run. */
FAST_API const fast_figures *fast_run_figures(const fast_run *run);

/* The result as one JSON object in one line, in the words of `fast train --json`; null is what has
 * no meaning. Lent until the next call of this function; NULL where memory is missing. */
FAST_API const char *fast_run_json(fast_run *run);

/* Return the run's number in the store; 0 if it is not stored, or not yet. */
FAST_API int64_t fast_run_id(const fast_run *run);

/* Measures of one worker; times as in fast_result. */
typedef struct fast_worker {
    int64_t steps;         /* taken in this process's calls */
    double compute_s;      /* in gradients and updates */
    double exchange_s;     /* messages in transit, copied or summed */
    double wait_s;         /* blocked before a peer had sent */
    int64_t bytes_sent;    /* with headers */
    int64_t messages_sent; /* of messages */
} fast_worker;

/* Set *out to the measures of a rank, when the run does not train; false if there is no such worker
 * in this process. */
FAST_API bool fast_run_worker(const fast_run *run, int64_t rank, fast_worker *out);

/* An option's value as text, the default where it was not given and what "auto" stands for (engine,
 * data); NULL for an unknown name. */
FAST_API const char *fast_run_option(const fast_run *run, const char *name);

/* True if this process speaks for the run: it holds the first worker, evaluates, and writes the
 * files. Always true but on `mpi`, where it is one rank's. */
FAST_API bool fast_run_is_first(const fast_run *run);

/* Save the weights as safetensors, or the network with its weights as ONNX if the path ends with
 * ".onnx". FAST_ENOTSUP for a network that ONNX cannot hold. */
FAST_API FAST_MUST_CHECK fast_err fast_run_save(const fast_run *run, const char *path);

/* Save the whole run, to continue with resume=PATH exactly where it is. path NULL: a file of FAST's
 * own cache folder, named by an event FAST_EVENT_SAVE. Not while the run trains: for that there is
 * checkpoint=PATH. FAST_ENOTSUP where workers are not synchronous: messages in transit are not
 * saved. / */
FAST_API FAST_MUST_CHECK fast_err fast_run_checkpoint(fast_run *run, const char *path);

/* Outputs of the model for `count` samples, row major: [count][outputs]: logits of classes, before
 * the softmax, or values of a regression, on the scale of its source. Samples are as the data set
 * holds them; its normalisation is applied here. */
FAST_API FAST_MUST_CHECK fast_err fast_run_predict(fast_run *run, int64_t count, const float *x,
                                                   float *outputs);
FAST_API int64_t fast_run_inputs(const fast_run *run);  /* elements of one sample; 0: unknown */
FAST_API int64_t fast_run_outputs(const fast_run *run); /* outputs of one sample; 0: unknown */

/* Close the run and free it. NULL is allowed. */
FAST_API void fast_run_close(fast_run *run);

/* An optional library that this build has, or has not. */
typedef struct fast_feature {
    const char *name;    /* "oneDNN" */
    bool present;        /* in this build */
    const char *version; /* that is running; or NULL */
    const char *brings;  /* its purpose, or the parts that are missing without it */
} fast_feature;

/* The list, and its length. [any thread] */
FAST_API const fast_feature *fast_feature_list(int64_t *count_out);

/* The processor's name where /proc tells it, else "unknown processor", cut to `size`. */
FAST_API void fast_processor_name(char *text, size_t size);

/* A named system of the literature: what it is, and the options of a run that it stands for. All
 * texts are constant. The columns are those of Langer et al., "Distributed Training of Deep
 * Learning Models: A Taxonomic Perspective", 2020; "-" where one has no meaning. */
typedef struct fast_system {
    const char *name;         /* as it is typed: "pytorch-ddp" */
    const char *title;        /* one line: the idea of the system */
    const char *by;           /* who wrote of it, and when: "Dean et al. 2012" */
    int64_t row;              /* of docs/systems.md; 0: a later system that has none */
    const char *flags;        /* "strategy=ps:slack=3 optimizer=sgd": options of a run */
    const char *parallelism;  /* of the original, data and model: "DP", "MP + DP" */
    const char *optimisation; /* "central": one model; "decentral": a model at each worker */
    const char *scheduling;   /* "sync.", "async.", "bounded", "soft-bounded" */
    const char *exchange;     /* how parameters travel: "allreduce", "scatter-reduce", "ad hoc" */
    const char *topology;     /* "distributed PS, k = n", "closed ring" */
    const char *consistency;  /* of replicas: "synchronous", "periodic", "bounded",
                                 "asynchronous", "partial", "none" */
    const char *remarks;      /* one or two sentences */
    const char *missing;      /* parts of the original that its flags lack; or NULL */
    const char *alias_of;     /* a system with the same flags; or NULL */
    const char *differs;      /* its difference from that system; or NULL */
} fast_system;

/* The systems of --system NAME, and their number. [any thread] */
FAST_API const fast_system *fast_system_list(int64_t *count_out);

#ifdef __cplusplus
}
#endif
