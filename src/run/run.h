/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/file.h"
#include "base/option.h"
#include "data/loader.h"
#include "engine/engine.h"
#include "fast/comm.h"
#include "fast/run.h"
#include "learner/learner.h"
#include "model/foreign.h"
#include "model/network.h"
#include "rule/rule.h"
#include "rule/schedule.h"
#include "run/checkpoint/weights.h"
#include "run/run_evaluation.h"
#include "split/layout_map.h"
#include "split/mesh.h"
#include "split/pipeline.h"
#include "transport/transport.h"

#include <stdatomic.h>
#include <stdio.h>

/*
 * Types that the files of a run share. From options to results:
 *
 *   options.c        text -> fast_run_config; every option is in one table; moved_options.c:
 *                    options of strategies that became codecs
 *   run.c            config -> data, graph, program, loaders, learner, optimizer, schedule
 *   train.c          a call of fast_run_train(): events, files
 *   team.h           its workers: actors with a trainer each, on a transport; phases.c: a change of
 *                    strategy; codec_checks.c, codec_auto.c: codecs
 *   evaluation/      evaluation on the test and the validation set, early stopping; the
 *                    representative model of several replicas, ensembles, inference
 *   checkpoint/      a run -> file -> the run, to the bit; weights alone
 *   predict/         a file of weights with its description (model_meta.h) -> predictions
 *   sink/            events -> the run store, TensorBoard
 *   result.c         measures; forecast.c: the forecast of a step's time; run_json.c: both as JSON
 *   parts.c          every registry as one kind of list; features.c: the parts of this build
 *   run_clock.c      the time, asked for in one place; caller_loop.h: a loop of the caller's
 *
 * Life of a run; `stop` of the result names the edge back:
 *
 *    fast_run_open*() --> at rest --fast_run_train()--> training --+
 *                          ^  ^                                    |
 *                          |  +---- "canceled", "done" ------------+   the next call continues
 *                          +------- "target", "diverged" ----------+   `finished`: no more steps
 *
 * Threads. One thread at a time touches a fast_run: the caller of fast_run_*(), or, while a team
 * trains, the actor that holds the team's mutex (team.h). Two fields may be used from elsewhere:
 * `cancel`, which any thread and signal handlers set, and the atomic part of the store's queue.
 *
 * Invariants between steps:
 *   - `step` is the mean of the steps of this process's workers, rounded down; at rest it is the
 *     step of each worker of a synchronous team;
 *   - schedule, batches and random streams are functions of `step`: no cursor is saved elsewhere;
 *   - result.params_hash is of learner->w and s as fast__run_measure_all() last saw them.
 */

enum { FAST_SPEC_MAX = 512 };    /* bytes of name:key=value,... */
enum { FAST_PREFETCH_AUTO = 2 }; /* batches ahead where making them takes time */

/* Steps of a run at most: random streams number them with 32 bits (base/rng.h). */
#define FAST_STEPS_MAX ((int64_t)UINT32_MAX)

/* How often something happens: evaluation, checkpoints. */
typedef enum fast_period_unit {
    FAST_PERIOD_NEVER, /* not at all, also not at the end */
    FAST_PERIOD_END,   /* at the end only */
    FAST_PERIOD_STEPS,
    FAST_PERIOD_EPOCHS
} fast_period_unit;

typedef struct fast_period {
    fast_period_unit unit; /* steps, epochs, the end only, or never */
    int64_t count;         /* of steps or epochs */
} fast_period;

enum { FAST_RUN_DEVICE_HOST, FAST_RUN_DEVICE_CHECK };   /* choices of the option `device` */
enum { FAST_RUN_RECOMPUTE_NO, FAST_RUN_RECOMPUTE_YES }; /* choices of the option `recompute` */

/* The options of a run, parsed; the fields of options.c's table in its order. */
typedef struct fast_run_config {
    char model[FAST_PATH_MAX];     /* name:key=value,... or file:PATH */
    char data[FAST_PATH_MAX];      /* name:key=value,... or file:PATH; auto */
    char engine[32];               /* name; auto */
    int device;                    /* FAST_RUN_DEVICE_* */
    int64_t workers;               /* actors that compute gradients */
    bool workers_given;            /* by the user or the system: `mesh` must not change them */
    char mesh[64];                 /* data=2,pipe=4; "": every worker has the whole model */
    char layout[192];              /* conv=samples,dense=pairs; "": the standard one */
    char cuts[512];                /* conv2,dense1: first layers of the later stages; "" */
    int pipeline;                  /* fast_pipeline of a mesh */
    bool pipeline_given;           /* it is not the default: mesh auto does not choose it */
    int64_t chunks;                /* stages of each worker of a pipeline, at least 1 */
    bool vertical_sync;            /* pipedream: one version of the weights at all stages */
    int64_t pipe_delay;            /* never drained: batches that a stage is ahead of the next */
    int pipe_extrapolate;          /* fast_pipe_extrapolate */
    int64_t pipe_lr_steps;         /* in which the learning rate is divided by the staleness */
    int64_t pipe_active;           /* ampnet: micro-batches in flight; 0: as many as stages */
    int64_t epochs;                /* unless `steps` is given */
    int64_t steps;                 /* 0: by epochs */
    int64_t batch;                 /* samples per worker and step */
    int64_t accumulate;            /* batches of a worker that make one step */
    int64_t global_batch;          /* 0: by batch */
    char lr[32];                   /* base learning rate, or "auto" until the rule is known */
    double rate;                   /* the same as a number; 0 while it is "auto" */
    char optimizer[FAST_SPEC_MAX]; /* name:key=value,... */
    char schedule[FAST_SPEC_MAX];  /* name:key=value,... */
    int64_t seed;                  /* of everything random */
    double target;                 /* test accuracy that ends the run; 0: none */
    double holdout;                /* part of the training set to test on instead; 0: none */
    double validation;             /* part of the training set to validate on; 0: none */
    int monitor;                   /* fast_monitor */
    int64_t patience;              /* evaluations without a better model; 0: any number */
    double min_delta;              /* by which a model is better */
    int best;                      /* 1: the best model is tested and saved; 2: the last; 0: auto */
    char class_weights[FAST_SPEC_MAX]; /* none, balanced, or a list */
    int shard;                         /* fast_shard */
    double alpha;                      /* Dirichlet's */
    char augment[FAST_SPEC_MAX];       /* as the loader takes it; "no" */
    char prefetch[32];                 /* auto, or a count */
    int64_t preprocess;                /* actors that make batches; 0: workers do */
    char evaluate[32];                 /* a period */
    char save[FAST_PATH_MAX];          /* weights at the end; "" */
    char save_codec[FAST_SPEC_MAX];    /* a chain that compresses saved weights; none */
    char load[FAST_PATH_MAX];          /* weights at the start; "" */
    int tied;                          /* 1: equal weights share their values; 0: no */
    char checkpoint[FAST_PATH_MAX];    /* "" */
    char checkpoint_every[32];         /* a period */
    char resume[FAST_PATH_MAX];        /* a checkpoint; "" */
    int branch;                        /* 1: resume with another rate, schedule, ... */
    char memory[32];                   /* a size, "500MB"; "" */
    int recompute;                     /* FAST_RUN_RECOMPUTE_* */
    char micro_batch[32];              /* auto, no, or samples */
    char plan[FAST_PATH_MAX];          /* auto, no, or a path */
    char method[64];                   /* auto, or a convolution method */
    char log[FAST_PATH_MAX];           /* a line per evaluation; "" */
    char system[64];                   /* a preset by name; "" */
    char strategy[FAST_SPEC_MAX];      /* name:key=value,... or auto */
    char phases[FAST_PATH_MAX];        /* SPEC@WHEN;SPEC@WHEN...; "" */
    char topology[FAST_PATH_MAX];      /* name:key=value,... or auto */
    char representative[64];           /* policy:key=value; auto */
    char codec[FAST_SPEC_MAX];         /* a chain; none */
    char codec_down[FAST_SPEC_MAX];    /* a chain; none */
    int feedback;                      /* auto, yes, no */
    int codec_scope;                   /* auto, layer, model */
    int64_t codec_small;               /* elements */
    char codec_sum[64];                /* method of encoded sums; auto */
    char transport[32];                /* name; auto */
    char cluster[FAST_PATH_MAX];       /* sim: preset or file; "" */
    char placement[1024];              /* sim: nodes of workers; "" */
    char faults[FAST_PATH_MAX];        /* sim: schedule or file; "" */
    int bind;                          /* transport threads: fast_bind_mode of the workers */
    double timeout;                    /* seconds that a wait takes at most */
    int64_t pool;                      /* sim: threads that compute */
    char trace[FAST_PATH_MAX];         /* a file for the timeline; "" */
    char record[FAST_PATH_MAX];        /* a file for a recording; "" */
    char replay[FAST_PATH_MAX];        /* a recording to repeat; "" */
    char store[FAST_PATH_MAX];         /* the run store: a file, auto, none or "" */
    char name[128];                    /* of the run; "" */
    char batch_of[128];                /* the comparison that it is part of; "" */

    /* Read from the texts above when they are parsed. */
    fast_mesh split;               /* `mesh`, parsed; all 0: not split */
    fast_layout_map layout_map;    /* `layout`, parsed; of a mesh with tensor */
    int64_t replicas;              /* of the model: workers, or those along `data` */
    fast_period evaluate_period;   /* `evaluate`, parsed */
    fast_period checkpoint_period; /* `checkpoint_every`, parsed */
    int64_t prefetch_count;        /* batches ahead */
    /* A folder for event files of TensorBoard; "". */
    char tensorboard[FAST_PATH_MAX]; /* folder of the event file; "" */
} fast_run_config;

/* The table, and its one part for fast_part_list("train"). */
extern const fast_option fast__run_options[];
extern const fast_part fast__run_part;

/* Parse "name=value", ..., NULL over the defaults; check each option, and pairs of them. */
fast_err fast__config_parse(const char *const *options, fast_run_config *out);
/* Read the mesh, its workers and its layout, once they are not `auto`. */
fast_err fast__config_mesh(fast_run_config *config);
/* mesh_auto.c: is a mesh to be chosen? Choose it, once the network is known, with all that follows
 * from it: workers, cuts, batch, accumulate, placement. FAST_EINVAL if no plan fits. */
bool fast__mesh_is_auto(const fast_run_config *config);
fast_err fast__run_mesh_auto(fast_run *run);
/* Move options of strategy ps that became codecs from its spec to the chain, with a warning. */
fast_err fast__options_moved(char *strategy, char *codec, size_t codec_size);

/* Make a path a spec by its ending: option "data", "my.csv" -> "csv:file=my.csv". Names of parts
 * are unchanged. FAST_ENOENT; FAST_EINVAL says how to write a file that needs more; bare_path.c. */
fast_err fast__bare_path(const char *option, char value[FAST_PATH_MAX]);

/* The value of one option of the table as canonical text: equal values give equal text. */
void fast__config_text(const fast_option *option, const fast_run_config *config, char *text,
                       size_t size);

/* Sums over the current epoch, from which the result's means are made. */
typedef struct fast_run_sums {
    double loss;       /* of the batches' means */
    int64_t batches;   /* summed so far */
    int64_t correct;   /* positions */
    int64_t positions; /* counted */
} fast_run_sums;

/* Where the time of this process went. */
typedef struct fast_run_times {
    int64_t start_ns;      /* of the current call of fast_run_train(); 0 between calls */
    int64_t compute_ns;    /* in gradients and updates */
    fast_counter pause_ns; /* evaluation and saving, which samples_per_s leaves out */
    int64_t evaluate_ns;   /* the part of it that is evaluation */
    int64_t evaluations;   /* their number */
    int64_t tested_ns;     /* that the last of them took, by the machine's clock */
    int64_t total_ns;      /* of finished calls of fast_run_train() */
    int64_t samples;       /* trained by this process */
    int64_t wall_ns;       /* of finished calls, by the machine's clock */
    int64_t begun[2];      /* when this call started: by the machine's clock, and in steps */
} fast_run_times;

/* Texts that a run owns. */
typedef struct fast_run_text {
    char *options;         /* canonical text of every option, one after the other */
    const char *data_note; /* told at the start; NULL: nothing to tell. Not owned */
    char memory_note[192]; /* told at the start: what is recomputed; "" */
    char micro_note[256];  /* told at the start: micro-batches of a pass; "" */
    char resume_note[768]; /* told at the start; "": nothing to tell */
    char mesh_note[384];   /* told at the start: what mesh=auto chose; "" */
    char codec_note[512];  /* told at the start: what codec=auto chose, and why; "" */
    char *model;           /* the network in its language; NULL for a network of the caller's */
    char *command;         /* the words that repeat the run, quoted for a shell */
    char checkpoint[FAST_PATH_MAX]; /* file of the last checkpoint of this process; "" before */
    char weights[FAST_PATH_MAX];    /* file of the weights at the end; "" before */
    char error[FAST_DETAIL_MAX];    /* why the run failed, or its files were not saved; "" */
    char lost[256];                 /* workers that did not come to the end, by name; "" */
} fast_run_text;

/* Data sets and their loaders. */
typedef struct fast_run_data {
    int64_t agents; /* workers with data of their own: others repeat their batches */
    fast_data *train_own, *test_own; /* NULL where the caller's is borrowed */
    fast_data *validation;           /* taken out of the training set; NULL without validation */
    const fast_data *train;          /* NULL: a learner makes its batches itself */
    const fast_data *test;           /* NULL: no evaluation */
    fast_loader *loader;             /* of one worker; NULL without data */
    fast_loader *test_loader;        /* NULL without a test set */
    fast_loader *validation_loader;  /* NULL without a validation set */
    float *predict_x; /* [batch][features]: normalised samples of fast_run_predict() */
    uint64_t hash;    /* of the training set; 0 until it is asked for */
} fast_run_data;

/* Progress of the training. */
typedef struct fast_run_progress {
    fast_run_sums sums;     /* of the current epoch */
    fast_run_times times;   /* of this process */
    int64_t step_saved;     /* of the last checkpoint; -1 before one */
    int64_t step_evaluated; /* of the last evaluation; -1 before one */
    bool save_failed;       /* the last checkpoint in mid-run was not written, which was told */
    bool awaited;           /* ranks of mpi wait for this one where they train next */
    bool single_only;       /* mesh=auto may choose a single worker alone */
    bool budgeted;          /* mesh=auto chose several, which share a budget of memory */
} fast_run_progress;

/* Where events go. */
typedef struct fast_run_sinks {
    void *log;                      /* FILE of --log, or NULL */
    fast_event_fn *watch;           /* the caller's; or NULL */
    void *watch_ctx;                /* argument of watch */
    int64_t shown_ns;               /* of the last progress event, by the machine's clock */
    struct fast_store_sink *store;  /* the store writer; or NULL */
    struct fast_tensorboard *board; /* the event file for TensorBoard; or NULL */
} fast_run_sinks;

/* Codecs of a run. */
typedef struct fast_run_codecs {
    struct fast_chain *chains[2];  /* of the options codec and codec_down */
    const struct fast_chain *up;   /* of messages that workers send, in the current phase */
    const struct fast_chain *down; /* of answers, in the current phase */
    const fast_filter *filter;     /* of the caller, that codecs may name; NULL: none */
} fast_run_codecs;

/* The run's clock. */
typedef struct fast_run_clock {
    fast_actor *actor; /* whose clock is the run's just now; NULL: the machine's is */
    bool is_virtual;   /* time is simulated: whatever actors do not do takes none */
} fast_run_clock;

struct fast_run {
    fast_run_config config; /* options */
    fast_run_text text;     /* canonical options, notes, command */

    /* Parts, in the order in which they are made; freed in reverse. */
    const fast_device *device; /* of all vectors; `check` is the run's own */
    fast_run_data data;        /* sets and loaders */
    fast_foreign *foreign;     /* a learner of the caller's instead of the next four; or NULL */
    fast_graph *graph;         /* of the network */
    const fast_engine *engine; /* that runs it */
    fast_program *program;     /* the graph compiled for the engine */
    fast_workspace *workspace; /* of the run's own learner */
    fast_learner *learner;     /* of a single worker, or the representative model of several */
    fast_optimizer *optimizer; /* of `learner` */
    fast_schedule *schedule;   /* learning rates */

    int64_t step;                   /* steps taken: the next batch's number */
    int64_t step_count;             /* steps to take */
    fast_run_progress progress;     /* since it was opened */
    fast_result result;             /* as of the last measurement */
    fast_run_evaluation evaluation; /* figures, early stopping */
    char *json;                     /* the result as text that was lent; or NULL */
    bool finished;                  /* the target was reached, or the loss is not a number */
    atomic_bool cancel;             /* set by any thread and by signal handlers */
    fast_run_sinks sinks;           /* of events */

    /* Workers. */
    const struct fast_strategy *strategy; /* the caller's own; or NULL */
    fast_run_codecs codecs;               /* of messages */
    struct fast_team *team;               /* its actors; NULL until it is made, as the last part */
    fast_run_clock clock;                 /* of the run */
};

/* The time, as the run sees it: that of the actor who drives it just now, else the machine's. */
int64_t fast__run_now(const fast_run *run);
/* The machine's clock. It decides nothing. */
int64_t fast__run_wall(void);

/* How the vectors w and g of every learner of the run are laid out. */
const fast_layout *fast__run_params(const fast_run *run);
/* Return a hash of the engine's plan: 0 for a learner of the caller's. */
uint64_t fast__run_plan_hash(const fast_run *run);

/* Make the loader of a worker's shard of the training set; a remote one gets its batches from a
 * preprocessing actor. NULL in *out without data. */
fast_err fast__run_loader(const fast_run *run, int64_t worker, bool remote, fast_loader **out);
/* A foreign learner for one worker; `loader` is its own, or NULL. */
fast_err fast__run_foreign(const fast_run *run, int64_t worker, fast_loader *loader,
                           fast_learner **out);

/* Bring the result up to date: means, rates, times. Cheap: no hash, no memory. */
void fast__run_measure(fast_run *run);
/* Also the hash of parameters and state, and the peak of memory. */
void fast__run_measure_all(fast_run *run);
/* JSON of a run, as text that the caller frees with fast__free(): its result, its options as they
 * were resolved, the machine with the versions of libraries; run_json.c. */
fast_err fast__run_json_result(const fast_run *run, char **out);
fast_err fast__run_json_options(const fast_run *run, char **out);
fast_err fast__run_json_machine(char **out);
/* Write the line of --log for an evaluation; `several` adds the measures of several workers,
 * `step_count` are the steps of the whole run. FAST_EIO, FAST_ENOMEM. */
fast_err fast__run_json_log(const fast_result *r, bool several, int64_t step_count, FILE *file);

/* How this run's engine compiles. Texts are lent by the run. */
fast_engine_options fast__run_engine_options(const fast_run *run);

/* Open a run with these options on the data and with the parts of another that is being opened. */
typedef fast_err fast_run_like_fn(void *ctx, const char *const *options, fast_run **out);
/* codec_auto.c: is a codec to be chosen? Choose it by rehearsals of the run, which has all but its
 * team, and open it. `options` are the run's. */
bool fast__codec_is_auto(const fast_run *run);
fast_err fast__run_codec_auto(fast_run *run, const char *const *options, fast_run_like_fn *open,
                              void *ctx);

/* Write the cost model's forecast of a step into the run's result; forecast.c. */
void fast__run_forecast(fast_run *run);
/* Return the depth of a step: dependent operations on the longest path through the network, forward
 * and backward; NAN if the run has no graph. */
double fast__run_depth(const fast_run *run);

/* True if ten times a second something may be shown; by the machine's clock. */
bool fast__run_is_time(fast_run *run);
/* How often something with this period was due in the first `step` steps, without the end:
 * floor(step / N) for N steps, floor(floor(step / steps of an epoch) / N) for N epochs. */
int64_t fast__run_dues(const fast_run *run, fast_period period, int64_t step);
/* Is it due after `step` steps? The end counts, unless never: with evaluate=500steps and 1,200
 * steps it is due at 500, 1,000 and 1,200. */
bool fast__run_is_due(const fast_run *run, fast_period period, int64_t step);

/* class_weights.c: set the weights of the option in the run's graph. FAST_EINVAL, FAST_ENOMEM. */
fast_err fast__run_class_weights(fast_run *run);

/* Save a checkpoint if one is due at run->step, or now. A failure is told, not returned. */
void fast__run_save_due(fast_run *run);
void fast__run_save_now(fast_run *run, const char *path);

/* Hand an event to the watcher, if there is one. */
void fast__run_tell(fast_run *run, fast_event_kind kind, const char *text);
/* Of the training set's samples and labels. Computed once. */
uint64_t fast__run_data_hash(fast_run *run);
/* Save everything that a resumed run needs; atomically. */
fast_err fast__checkpoint_save(fast_run *run, const char *path);
/* Continue from a checkpoint. FAST_EINVAL, and nothing changed, if it is of another run. */
fast_err fast__checkpoint_load(fast_run *run, const char *path);
/* A path of FAST's own for a run without one: CACHE/checkpoints/MODEL-HASH.safetensors for a
 * checkpoint, MODEL-HASH-weights.safetensors for the weights alone. */
fast_err fast__checkpoint_path(const fast_run *run, bool weights, char *path, size_t size);

/* Weights alone. Loading takes checkpoints too, and files of other programs: names and shapes must
 * be the model's. Nothing changes on failure. */
fast_err fast__weights_save(const fast_run *run, const char *path);
fast_err fast__weights_load(fast_run *run, const char *path);
