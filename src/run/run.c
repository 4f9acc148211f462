/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open and close a run: from options to the parts that train.
 *
 *   options -> engine's name, rule, schedule     wrong words are found before anything is read
 *           -> data -> graph -> loaders          a model is made to fit its data
 *           -> optimizer, schedule
 *           -> program, workspace                may measure for seconds, so it comes late
 *           -> learner -> team -> weights or checkpoint
 *
 * Everything is checked here and nothing is written: a run that opens has files that can be read,
 * folders that can be written and parts that fit together.
 *
 * What is refused, in this order, always before the first step:
 *
 *     FAST_EINVAL    options: unknown names, contradictions, paths in folders that do not exist
 *     data/          data sets that cannot be read or are damaged, with the reader's error
 *     FAST_EINVAL    a model, a target or a batch that does not fit the data
 *     FAST_ENOTSUP   checkpoints of a strategy whose state they do not hold
 *     FAST_EINVAL    a checkpoint or weights of another model (weights.c, checkpoint.c)
 *
 * The first failure closes the parts that are open, so fast_run_close() must take a run at any
 * stage: each part is NULL until it is made. Rehearsals of codec=auto open runs inside this one;
 * they borrow its training set, and are over before the team is made.
 */
#include "run/caller_loop.h"
#include "run/memory_budget.h"

#include "base/memory.h"
#include "model/onnx/onnx.h"
#include "run/micro_sizes.h"
#include "run/sink/store_sink.h"
#include "run/sink/tensorboard.h"
#include "run/team.h"
#include "tensor/device_check.h"
#include "tensor/device_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that the run will write must have a folder that can be written. One that is replaced whole
 * must be a plain file, and its name leave room for that of the new file beside it. */
static fast_err check_writable(const char *option, const char *path, bool replaced)
{
    enum { NAME_LENGTH_MAX = 255 - 25 }; /* of what file systems take; ".PID.N.tmp" */
    if (!path[0])
        return FAST_OK;
    struct stat st;
    const bool is_there = stat(path, &st) == 0;
    if (is_there && S_ISDIR(st.st_mode))
        return fast__fail(FAST_EINVAL, "%s=%s is a folder; name a file in it", option, path);
    if (replaced && is_there && !S_ISREG(st.st_mode))
        return fast__fail(FAST_EINVAL, "%s=%s is not a regular file; it is not replaced", option,
                          path);
    const char *name = strrchr(path, '/');
    if (replaced && strlen(name ? name + 1 : path) > NAME_LENGTH_MAX)
        return fast__fail(FAST_EINVAL, "%s=%.100s...: the file's name is longer than %d bytes",
                          option, path, NAME_LENGTH_MAX);
    char folder[FAST_PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (!slash)
        snprintf(folder, sizeof folder, ".");
    else
        slash[slash == folder] = '\0';
    if (stat(folder, &st) != 0 || !S_ISDIR(st.st_mode))
        return fast__fail(FAST_EINVAL, "%s=%s: there is no folder %s; make it first", option, path,
                          folder);
    if (access(folder, W_OK) != 0)
        return fast__fail(FAST_EINVAL, "%s=%s: the folder %s cannot be written", option, path,
                          folder);
    return FAST_OK;
}

/* Refuse options whose names or words are wrong, before a data set is read. */
static fast_err check_words(fast_run *run)
{
    fast_run_config *c = &run->config;
    FAST_TRY(fast__engine_find(c->engine, &run->engine));
    const fast_layout nothing = { NULL, 0, 0 };
    fast_optimizer *optimizer = NULL;
    FAST_TRY(fast__optimizer_new(&fast__host, c->optimizer, &nothing, &optimizer));
    if (strcmp(c->lr, "auto") == 0) {
        c->rate = fast__optimizer_rule(optimizer)->lr;
        fast__real_text(c->rate, c->lr, sizeof c->lr);
    }
    fast__optimizer_free(optimizer);
    fast_schedule *schedule = NULL;
    FAST_TRY(fast__schedule_new(&(fast_schedule_options){ c->schedule, c->rate, 1, 1, c->batch },
                                &schedule));
    fast__schedule_free(schedule);
    if (c->best == 0)
        c->best = c->patience > 0 ? 1 : 2;
    FAST_TRY(check_writable("save", c->save, true));
    FAST_TRY(check_writable("checkpoint", c->checkpoint, true));
    FAST_TRY(check_writable("trace", c->trace, true));
    FAST_TRY(check_writable("record", c->record, true));
    return check_writable("log", c->log, false);
}

/* Take the validation set out of the training set. Constants of normalisation are of the remaining
 * samples; sets of the caller retain theirs, since its test set cannot be changed. */
static fast_err open_validation(fast_run *run)
{
    fast_data *train = NULL;

    if (!(run->config.validation > 0))
        return FAST_OK;
    FAST_TRY(fast__data_validation(run->data.train, run->config.validation, &train,
                                   &run->data.validation));
    const bool own = run->data.train == run->data.train_own;
    fast_data_free(run->data.train_own);
    run->data.train = run->data.train_own = train;
    return own ? fast__data_refit(train, run->data.validation, run->data.test_own) : FAST_OK;
}

/* Open the data sets, or take those of the caller, and hold out samples where asked for. */
static fast_err open_data(fast_run *run, const fast_data *train, const fast_data *test)
{
    if (!train) {
        const uint64_t seed = (uint64_t)run->config.seed;
        FAST_TRY(fast__data_open(run->config.data, seed, &run->data.train_own, &run->data.test_own,
                                 &run->text.data_note));
        if (strcmp(run->config.data, "auto") == 0)
            snprintf(run->config.data, sizeof run->config.data, "%s",
                     run->text.data_note ? "digits" : "fashion-mnist");
        if (run->config.holdout > 0)
            FAST_TRY(fast__data_hold_out(run->config.holdout, &run->data.train_own,
                                         &run->data.test_own));
    } else {
        if (run->config.holdout > 0)
            return fast__fail(FAST_EINVAL,
                              "holdout=%g splits data that FAST opened; split your "
                              "own and give both parts",
                              run->config.holdout);
        snprintf(run->config.data, sizeof run->config.data, "own");
    }
    run->data.train = train ? train : run->data.train_own;
    run->data.test = test ? test : train ? NULL : run->data.test_own;
    FAST_TRY(open_validation(run));
    if (!run->data.test && !run->data.validation)
        run->config.evaluate_period.unit = FAST_PERIOD_NEVER;
    FAST_ASSERT(run->data.train != NULL);
    /* Samples that are read from disk are worth a thread. */
    if (strcmp(run->config.prefetch, "auto") == 0 && run->data.train->rows)
        run->config.prefetch_count = FAST_PREFETCH_AUTO;

    const fast_data *a = run->data.train;
    const fast_data *b = run->data.test;
    if (b && (b->features != a->features || b->positions != a->positions ||
              b->outputs != a->outputs || b->classes != a->classes || b->tokens != a->tokens))
        return fast__fail(FAST_EINVAL,
                          "the test set's samples (%lld values, %lld outputs) are not "
                          "like the training set's (%lld values, %lld outputs)",
                          (long long)b->features, (long long)b->outputs, (long long)a->features,
                          (long long)a->outputs);
    return FAST_OK;
}

/* A target is an accuracy of a test set. A learner of the caller's decides what it counts. */
static fast_err check_target(const fast_run *run)
{
    const fast_data *a = run->data.train;
    const bool has_set = run->data.test || run->data.validation;
    const bool counted = run->foreign ? run->foreign->kind.evaluate && (!a || has_set) : has_set;

    if (run->config.target > 0 && !counted)
        return fast__fail(FAST_EINVAL, "target=%g needs a test set, and data %s has none",
                          run->config.target, run->config.data);
    if (run->config.target > 0 && a && a->classes == 0)
        return fast__fail(FAST_EINVAL, "target=%g is an accuracy, and data %s is a regression",
                          run->config.target, run->config.data);
    return FAST_OK;
}

/* A learner of the caller's stands for data, where it makes its own batches, model and engine. */
static fast_err open_foreign(fast_run *run, const fast_learner_kind *kind, bool loop)
{
    FAST_TRY(loop ? fast__caller_loop_open(run, kind) : fast__foreign_open(kind, &run->foreign));
    snprintf(run->config.model, sizeof run->config.model, "%s", run->foreign->name);
    snprintf(run->config.engine, sizeof run->config.engine, "own");
    if (run->foreign->kind.samples == 0) {
        FAST_TRY(open_data(run, NULL, NULL));
    } else {
        snprintf(run->config.data, sizeof run->config.data, "own");
        if (run->config.holdout > 0 || run->config.validation > 0)
            return fast__fail(FAST_EINVAL,
                              "%s=%g splits data that FAST opened, and learner "
                              "%s has its own",
                              run->config.holdout > 0 ? "holdout" : "validation",
                              run->config.holdout > 0 ? run->config.holdout
                                                      : run->config.validation,
                              run->foreign->name);
    }
    if (!run->foreign->kind.evaluate)
        run->config.evaluate_period.unit = FAST_PERIOD_NEVER;
    return FAST_OK;
}

/* Return the model that "auto" stands for: lenet for images that are large enough for it, lstm for
 * sequences, mlp for everything else. */
static const char *auto_model(const fast_model_input *input)
{
    enum { SIDE_MIN = 16 }; /* pixels that lenet needs */

    if (input->tokens || input->rank == 2 || input->positions > 1)
        return "lstm";
    return input->rank == 3 && input->shape[1] >= SIDE_MIN && input->shape[2] >= SIDE_MIN ? "lenet"
                                                                                          : "mlp";
}

/* A graph, by name or of the caller's. The model's level checks that it fits the data. */
static fast_err open_graph(fast_run *run, const fast_network *network)
{
    const fast_data *data = run->data.train;
    fast_model_input input = { .rank = data->rank,
                               .outputs = data->outputs,
                               .tokens = data->tokens,
                               .vocabulary = data->vocabulary,
                               .regression = data->classes == 0,
                               .positions = data->positions };
    memcpy(input.shape, data->shape, sizeof input.shape);
    if (network) {
        snprintf(run->config.model, sizeof run->config.model, "own");
        FAST_TRY(fast__network_fit(network, &input, &run->graph));
    } else {
        if (strcmp(run->config.model, "auto") == 0)
            snprintf(run->config.model, sizeof run->config.model, "%s", auto_model(&input));
        FAST_TRY(fast__model_open(run->config.model, &input, &run->graph, &run->text.model));
    }
    return fast__onnx_path(run->config.save) ? fast__onnx_check(run->graph) : FAST_OK;
}

/* Simulated workers read ahead nothing: threads would disturb the simulation. */
/* The options of a loader of training batches. */
static fast_loader_options loader_options(const fast_run *run, int64_t worker)
{
    const fast_run_config *c = &run->config;
    const bool is_sim = strcmp(c->transport, "sim") == 0;
    return (fast_loader_options){ .seed = (uint64_t)c->seed,
                                  .batch = c->batch,
                                  .workers = run->data.agents,
                                  .worker = worker % run->data.agents,
                                  .accumulate = c->accumulate,
                                  .shard = (fast_shard)c->shard,
                                  .alpha = c->alpha,
                                  .augment = strcmp(c->augment, "no") == 0 ? NULL : c->augment,
                                  .prefetch = is_sim ? 0 : c->prefetch_count,
                                  .shuffle = true };
}

fast_err fast__run_loader(const fast_run *run, int64_t worker, bool remote, fast_loader **out)
{
    fast_loader_options options = loader_options(run, worker);

    options.remote = remote;
    return run->data.train ? fast__loader_new(run->data.train, &options, out) : FAST_OK;
}

fast_err fast__run_loader_strided(const fast_run *run, int64_t stride, int64_t offset,
                                  fast_loader **out)
{
    fast_loader_options options = loader_options(run, 0);

    FAST_ASSERT(stride >= 1);
    options.stride = stride;
    options.offset = offset;
    return run->data.train ? fast__loader_new(run->data.train, &options, out) : FAST_OK;
}

/* Open the loader of a set that is evaluated: in its order, all samples. */
static fast_err open_test(const fast_run *run, const fast_data *data, fast_loader **out)
{
    const int64_t batch = data && data->count < run->config.batch ? data->count : run->config.batch;
    const fast_loader_options options = { .seed = (uint64_t)run->config.seed,
                                          .batch = batch,
                                          .partial = true };

    return data ? fast__loader_new(data, &options, out) : FAST_OK;
}

int64_t fast__run_redundancy(const fast_strategy *strategy, const void *config)
{
    char text[FAST_PATH_MAX];
    for (const fast_option *o = strategy->options; o && o->name; o++)
        if (strcmp(o->name, "redundant") == 0) {
            fast__config_text(o, config, text, sizeof text);
            return strtoll(text, NULL, 10) > 0 ? strtoll(text, NULL, 10) : 1;
        }
    return 1;
}

/* Ask the strategy how many workers compute each batch. Errors in its options are found later. */
static void count_agents(fast_run *run)
{
    const int64_t workers = run->config.replicas;
    const fast_strategy *strategy = NULL;
    void *config = NULL;

    run->data.agents = workers;
    if (fast__strategy_open(run->config.strategy, run->strategy, &strategy, &config) != FAST_OK)
        return;
    const int64_t n = fast__run_redundancy(strategy, config);
    if (n > 0 && workers % n == 0)
        run->data.agents = workers / n;
    fast__free(config);
}

/* Open the loaders of training, test and validation batches. */
static fast_err open_loaders(fast_run *run)
{
    count_agents(run);
    FAST_TRY(fast__run_loader(run, 0, false, &run->data.loader));
    FAST_TRY(open_test(run, run->data.test, &run->data.test_loader));
    return open_test(run, run->data.validation, &run->data.validation_loader);
}

const fast_layout *fast__run_params(const fast_run *run)
{
    return run->foreign ? &run->foreign->params : &run->graph->params;
}

/* Steps that make one epoch; 0 where a batch does not fit into it. */
static int64_t epoch_steps_of(const fast_run *run)
{
    const fast_run_config *c = &run->config;

    return run->data.loader
               ? fast__loader_steps(run->data.loader)
               : run->foreign->kind.samples / run->data.agents / c->accumulate / c->batch;
}

/* Open the optimizer and the schedule, with the learning rate that suits them. */
static fast_err open_rule(fast_run *run)
{
    const fast_run_config *c = &run->config;
    const int64_t epoch_steps = epoch_steps_of(run);
    if (epoch_steps < 1)
        return fast__fail(FAST_EINVAL,
                          "the %lld samples of learner %s are not enough for a batch "
                          "of %lld of each of %lld workers",
                          (long long)run->foreign->kind.samples, run->foreign->name,
                          (long long)c->batch, (long long)c->workers);
    run->step_count = c->steps;
    if (c->steps == 0 && (!fast__mul_size(c->epochs, epoch_steps, &run->step_count) ||
                          run->step_count > FAST_STEPS_MAX))
        return fast__fail(FAST_EINVAL, "epochs=%lld of %lld steps are more than %lld steps",
                          (long long)c->epochs, (long long)epoch_steps, (long long)FAST_STEPS_MAX);
    FAST_TRY(fast__optimizer_new(run->evaluation.file ? run->evaluation.file : run->device,
                                 c->optimizer, fast__run_params(run), &run->optimizer));
    const fast_schedule_options options = { .spec = c->schedule,
                                            .lr = c->rate,
                                            .steps = run->step_count > 0 ? run->step_count : 1,
                                            .epoch_steps = epoch_steps,
                                            .global_batch =
                                                c->batch * c->accumulate * run->data.agents,
                                            .live = run->foreign ? run->foreign->kind.lr : NULL };
    return fast__schedule_new(&options, &run->schedule);
}

fast_engine_options fast__run_engine_options(const fast_run *run)
{
    const fast_run_config *c = &run->config;
    const char *path = c->plan;
    if (strcmp(path, "auto") == 0)
        path = NULL;
    else if (strcmp(path, "no") == 0)
        path = "";
    return (fast_engine_options){ .batch = c->batch,
                                  .train = true,
                                  .plan_path = path,
                                  .method = strcmp(c->method, "auto") == 0 ? NULL : c->method };
}

uint64_t fast__run_plan_hash(const fast_run *run)
{
    return run->program ? run->program->plan_hash : 0;
}

fast_err fast__run_foreign(const fast_run *run, int64_t worker, fast_loader *loader,
                           fast_learner **out)
{
    const fast_foreign_options options = { .foreign = run->foreign,
                                           .device = run->device,
                                           .loader = loader,
                                           .test = run->data.test_loader,
                                           .validation = run->data.validation_loader,
                                           .data = run->data.train,
                                           .worker = worker % run->data.agents,
                                           .workers = run->data.agents,
                                           .batch = run->config.batch,
                                           .accumulate = run->config.accumulate,
                                           .epoch_steps = epoch_steps_of(run),
                                           .seed = (uint64_t)run->config.seed,
                                           .small_stack =
                                               strcmp(run->config.transport, "sim") == 0 };
    return fast__foreign_new(&options, out);
}

/* Where processes have parts of the model, none has memory for all of it: the run's own, which is
 * saved and evaluated, is on disk. The file has room for
 *
 *     w, s                  the model
 *     the rule's vectors    as many as any rule has; those that this one has not take no room
 *     w, s                  the best model by the validation set
 *
 * of which pages that nobody reserves are never written. */
static fast_err open_model_file(fast_run *run)
{
    const fast_run_config *c = &run->config;
    const int64_t vectors = 2 + FAST_RULE_SLOTS_MAX; /* w, the rule's, the best model */

    if (strcmp(c->transport, "mpi") != 0 || !c->mesh[0] || c->split.pipe * c->split.tensor == 1)
        return FAST_OK;
    run->evaluation.partial = true;
    return fast__device_file_open(
        (vectors * run->graph->params.count + 2 * run->graph->state.count) * (int64_t)sizeof(float),
        &run->evaluation.file);
}

/* Open the learner: the engine's on the network, or the caller's. */
static fast_err open_learner(fast_run *run)
{
    const fast_run_config *c = &run->config;
    if (run->foreign &&
        (c->memory[0] || c->recompute == FAST_RUN_RECOMPUTE_YES || fast__run_has_micro(run)))
        return fast__fail(FAST_EINVAL, "activations of learner %s are its own: leave out %s",
                          run->foreign->name,
                          c->memory[0]                             ? "memory"
                          : c->recompute == FAST_RUN_RECOMPUTE_YES ? "recompute"
                                                                   : "micro_batch");
    if (run->foreign)
        return fast__run_foreign(run, 0, run->data.loader, &run->learner);
    FAST_TRY(fast__run_compile(run));
    snprintf(run->config.engine, sizeof run->config.engine, "%s", run->engine->name);
    if (!run->evaluation.file)
        FAST_TRY(run->program->engine->workspace_new(run->program, &run->workspace));
    const fast_native_options native = { .graph = run->graph,
                                         .device = run->evaluation.file ? run->evaluation.file
                                                                        : run->device,
                                         .engine = run->engine,
                                         .program = run->program,
                                         .workspace = run->workspace,
                                         .late = run->evaluation.file ? &run->workspace : NULL,
                                         .blank = run->evaluation.file != NULL,
                                         .loader = run->data.loader,
                                         .test = run->data.test_loader,
                                         .validation = run->data.validation_loader,
                                         .accumulate = c->accumulate,
                                         .seed = (uint64_t)c->seed };
    return fast__native_new(&native, &run->learner);
}

/* Memory of fast_run_predict(), taken here so that nothing is allocated later. */
static fast_err open_predict(fast_run *run)
{
    int64_t count = 0;
    if (run->foreign)
        return FAST_OK;
    if (!fast__mul_size(run->config.batch, run->data.train->features, &count))
        return fast__fail(FAST_ENOMEM, "batch=%lld is too large", (long long)run->config.batch);
    return fast__alloc("samples to predict", count, sizeof(float), &run->data.predict_x);
}

/* The text of every option, "auto" resolved, for fast_run_option(). */
static fast_err open_texts(fast_run *run)
{
    char text[FAST_PATH_MAX];
    size_t size = 0;
    for (const fast_option *o = fast__run_options; o->name; o++) {
        fast__config_text(o, &run->config, text, sizeof text);
        size += strlen(text) + 1;
    }
    FAST_TRY(fast__alloc("option texts", (int64_t)size, 1, &run->text.options));
    char *end = run->text.options;
    for (const fast_option *o = fast__run_options; o->name; o++) {
        fast__config_text(o, &run->config, text, sizeof text);
        memcpy(end, text, strlen(text) + 1);
        end += strlen(text) + 1;
    }
    FAST_ASSERT(end == run->text.options + size);
    return FAST_OK;
}

/* Parts that a caller may bring: each NULL if the options name it. */
typedef struct own_parts {
    const fast_network *network;   /* instead of `model` */
    const fast_data *train;        /* instead of `data` */
    const fast_data *test;         /* its test set; may be NULL with train */
    const fast_learner_kind *kind; /* without a network and data */
    const fast_strategy *strategy; /* that `strategy` may name */
    const fast_filter *filter;     /* that `codec` may name */
    bool loop;                     /* `kind` is computed by a loop of the caller's */
} own_parts;

/* A run that is opened inside the opening of another: codec=auto. */
static fast_err open_like(void *ctx, const char *const *options, fast_run **out);

/* Refuse a file that cannot be read before processes synchronise: a rank that does not find it, on
 * a machine of its own, ends at once and says so. "" is allowed. */
static fast_err check_file(const char *path)
{
    int fd = -1;
    int64_t size = 0;

    if (!path[0])
        return FAST_OK;
    FAST_TRY(fast__file_open(path, &fd, &size));
    close(fd);
    return FAST_OK;
}

/* Remove temporary files that killed processes have left beside the files of this run. */
static void sweep_files(const fast_run_config *c)
{
    const char *const paths[] = { c->checkpoint, c->resume, c->save };

    for (int i = 0; i < 3; i++)
        if (paths[i][0])
            fast__file_sweep(paths[i]);
}

/* Open everything in the order in which the parts need each other. The first failure ends it;
 * fast_run_close() frees what is open. */
static fast_err open_parts(fast_run *run, const char *const *options, const own_parts *own)
{
    FAST_TRY(fast__config_parse(options, &run->config));
    if (run->config.device == FAST_RUN_DEVICE_CHECK)
        FAST_TRY(fast__device_check_open(&run->device));
    FAST_TRY(fast__command_words(options, &run->text.command));
    if (!own->kind && !own->network)
        FAST_TRY(fast__bare_path("model", run->config.model));
    if (!own->train)
        FAST_TRY(fast__bare_path("data", run->config.data));
    FAST_TRY(check_words(run));
    if (!fast__codec_is_auto(run))
        FAST_TRY(fast__run_codec_open(run));
    if (own->kind) {
        FAST_TRY(open_foreign(run, own->kind, own->loop));
    } else {
        FAST_TRY(open_data(run, own->train, own->test));
        FAST_TRY(open_graph(run, own->network));
    }
    FAST_TRY(fast__run_mesh_auto(run));
    FAST_TRY(check_target(run));
    FAST_TRY(fast__run_class_weights(run));
    FAST_TRY(open_loaders(run));
    if (run->graph)
        FAST_TRY(open_model_file(run));
    FAST_TRY(open_rule(run));
    FAST_TRY(open_learner(run));
    FAST_TRY(open_predict(run));
    if (fast__codec_is_auto(run)) {
        const own_parts same = { own->network, run->data.train, NULL,
                                 NULL,         own->strategy,   own->filter };
        FAST_TRY(fast__run_codec_auto(run, options, open_like, (void *)(uintptr_t)&same));
    }
    sweep_files(&run->config);
    FAST_TRY(check_file(run->config.load));
    FAST_TRY(check_file(run->config.resume));
    FAST_TRY(fast__team_new(run, &run->team));
    FAST_TRY(fast__run_evaluation_open(run));
    FAST_TRY(fast__split_compile(run));
    fast__run_predict_memory(run);
    FAST_TRY(open_texts(run));
    if (run->config.load[0] || run->config.resume[0])
        FAST_TRY(fast__split_model_reserve(run->team));
    if (run->config.load[0])
        FAST_TRY(fast__weights_load(run, run->config.load));
    if (run->config.resume[0])
        FAST_TRY(fast__checkpoint_load(run, run->config.resume));
    fast__run_measure_all(run);
    return FAST_OK;
}

/* Parse the options and open the run. On failure nothing is left open, and *budgeted_out says
 * whether mesh=auto had chosen several workers that share a budget of memory. */
static fast_err open_once(const char *const *options, const own_parts *own, bool single_only,
                          bool *budgeted_out, fast_run **out)
{
    FAST_ASSERT(out != NULL);
    fast_run *run = NULL;
    FAST_TRY(fast__alloc("a run", 1, sizeof *run, &run));
    run->device = &fast__host;
    run->progress.step_saved = -1;
    run->progress.step_evaluated = -1;
    run->result.test_loss = run->result.test_accuracy = NAN;
    run->result.validation_loss = run->result.validation_accuracy = NAN;
    run->result.best_step = -1;
    run->evaluation.best.value = NAN;
    run->result.time_to_target_s = NAN;
    run->result.staleness_mean = run->result.divergence = run->result.completeness = NAN;
    run->result.break_even_mbit_per_s = NAN;
    run->result.momentum = run->result.momentum_error = NAN;
    run->result.staleness_max = run->result.staleness_p50 = run->result.staleness_p95 = -1;
    run->result.predicted_step_s = run->result.predicted_compute_s = NAN;
    run->result.predicted_exchange_s = run->result.predicted_straggler_s = NAN;
    run->result.bytes_per_step = run->result.waited_share = run->result.step_s = NAN;
    run->result.stop = "";
    run->strategy = own->strategy;
    run->codecs.filter = own->filter;
    run->progress.single_only = single_only;
    atomic_init(&run->cancel, false);
    fast_err err = open_parts(run, options, own);
    if (err) {
        err = fast__team_decline(run, err);
        *budgeted_out = run->progress.budgeted;
        fast_run_close(run);
        return err;
    }
    *out = run;
    return FAST_OK;
}

/* Open a run. The mesh that mesh=auto chooses within a budget of memory is chosen by estimates: if
 * its workers do not fit after all, there is one. */
static fast_err open_run(const char *const *options, const own_parts *own, fast_run **out)
{
    bool budgeted = false;
    fast_err err = open_once(options, own, false, &budgeted, out);

    if (err == FAST_EINVAL && budgeted) {
        fast__memory_trim(); /* resident memory counts */
        err = open_once(options, own, true, &budgeted, out);
    }
    return err;
}

/* Open another run with the parts of this one, for rehearsals of codecs. */
static fast_err open_like(void *ctx, const char *const *options, fast_run **out)
{
    return open_run(options, ctx, out);
}

fast_err fast_run_open_with(const char *const *options, const fast_network *network,
                            const fast_data *train, const fast_data *test, fast_run **out)
{
    return open_run(options, &(own_parts){ .network = network, .train = train, .test = test }, out);
}

fast_err fast_run_open_strategy(const char *const *options, const fast_strategy *strategy,
                                fast_run **out)
{
    FAST_ASSERT(strategy != NULL);
    FAST_TRY(fast__check_size("fast_strategy", strategy->size, sizeof *strategy));
    FAST_ASSERT(strategy->worker != NULL && strategy->name != NULL && strategy->name[0] != '\0');
    return open_run(options, &(own_parts){ .strategy = strategy }, out);
}

fast_err fast_run_open_filter(const char *const *options, const fast_filter *filter, fast_run **out)
{
    FAST_ASSERT(filter != NULL);
    return open_run(options, &(own_parts){ .filter = filter }, out);
}

/* Open a run with a learner: its functions, or a loop. */
static fast_err open_own(const char *const *options, const fast_learner_kind *kind,
                         const fast_strategy *strategy, bool loop, fast_run **out)
{
    FAST_ASSERT(kind != NULL);
    if (strategy)
        FAST_TRY(fast__check_size("fast_strategy", strategy->size, sizeof *strategy));
    FAST_TRY(fast__check_size("fast_learner_kind", kind->size, sizeof *kind));
    FAST_ASSERT(!strategy || (strategy->worker && strategy->name && strategy->name[0]));
    return open_run(options, &(own_parts){ .kind = kind, .strategy = strategy, .loop = loop }, out);
}

fast_err fast_run_open_learner(const char *const *options, const fast_learner_kind *kind,
                               const fast_strategy *strategy, fast_run **out)
{
    return open_own(options, kind, strategy, false, out);
}

fast_err fast_run_open_loop(const char *const *options, const fast_learner_kind *kind,
                            const fast_strategy *strategy, fast_run **out)
{
    return open_own(options, kind, strategy, true, out);
}

fast_err fast_run_open(const char *const *options, fast_run **out)
{
    return open_run(options, &(own_parts){ 0 }, out);
}

void fast_run_close(fast_run *run)
{
    if (!run)
        return;
    (void)fast__team_decline(run, FAST_OK);
    fast__caller_loop_close(run);
    if (run->sinks.log)
        fclose(run->sinks.log);
    fast__tensorboard_free(run);
    fast__team_free(run->team);
    fast__run_codec_close(run);
    fast__free(run->text.options);
    fast__free(run->json);
    fast__store_sink_free(run);
    fast__free(run->text.command);
    fast__free(run->data.predict_x);
    fast__run_evaluation_close(run);
    if (run->learner)
        run->learner->ops->free(run->learner);
    if (run->program) {
        if (run->workspace)
            run->program->engine->workspace_free(run->workspace);
        run->program->engine->program_free(run->program);
    }
    fast__schedule_free(run->schedule);
    fast__optimizer_free(run->optimizer);
    fast__loader_free(run->data.validation_loader);
    fast__loader_free(run->data.test_loader);
    fast__loader_free(run->data.loader);
    fast__graph_free(run->graph);
    fast__foreign_close(run->foreign);
    fast__free(run->text.model);
    fast__device_file_close(run->evaluation.file);
    fast_data_free(run->data.validation);
    fast_data_free(run->data.test_own);
    fast_data_free(run->data.train_own);
    if (run->device != &fast__host)
        fast__device_check_close(run->device);
    fast__free(run);
}

/* Texts of all options lie one after the other, in the order of the table. */
const char *fast_run_option(const fast_run *run, const char *name)
{
    FAST_ASSERT(run != NULL);
    const char *text = run->text.options;
    const fast_option *row = fast__options_find(fast__run_options, name);
    for (const fast_option *o = fast__run_options; row && o < row; o++)
        text += strlen(text) + 1;
    return row ? text : NULL;
}

void fast_run_watch(fast_run *run, fast_event_fn *watch, void *ctx)
{
    FAST_ASSERT(run != NULL);
    run->sinks.watch = watch;
    run->sinks.watch_ctx = ctx;
}

void fast_run_cancel(fast_run *run)
{
    atomic_store(&run->cancel, true);
}
