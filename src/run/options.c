/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a run: one table, and the checks that need more than one row of it. Parsing,
 * `--help`, the manual, completion and the documentation are all made of the table. What an option
 * names (a model, a data set, ...) is checked where it is opened, in run.c; everything is checked
 * before anything is written.
 *
 * Order: the defaults of the table, the given options from the first to the last (a later one
 * replaces an earlier one; `phases` are appended with ";"), the system's for all that was not
 * given, then checks and derived fields. Failures are FAST_EINVAL, with the option, its value and
 * what to write instead.
 *
 *     evaluate=2          every 2 epochs         evaluate=end    at the end only
 *     evaluate=500steps   every 500 steps        evaluate=no     never, also not at the end
 *     global_batch=256 workers=4 accumulate=2    batch = 256 / 4 / 2 = 32
 *     system=NAME strategy=S:a=4    a is 4, the other options of S are the system's; another
 *                                   strategy than the system's is refused
 */
#include "run/run.h"
#include "strategy/systems.h"

#include <stdio.h>
#include <string.h>

typedef fast_run_config C;

const fast_option fast__run_options[] = {
    FAST_OPT_TEXT(C, model, "auto", "model",
                  "what to train: a model by name, file:PATH or onnx:PATH; auto: lenet for images, "
                  "lstm for sequences, else mlp"),
    FAST_OPT_TEXT(C, data, "auto", "data", "what to train it on: a data set by name"),
    FAST_OPT_TEXT(C, engine, "auto", "engine", "what computes; auto is the fastest in this build"),
    FAST_OPT_CHOICE(C, device, "host", "host|check",
                    "where vectors live; check: a debug device that proves that nothing outside "
                    "kernels touches vectors; slow"),
    FAST_OPT_INT(C, workers, "1", 1, 65536, "workers that compute gradients"),
    FAST_OPT_TEXT(
        C, mesh, "", "mesh",
        "split the model: data=2,pipe=4 is two replicas of four stages each, on eight "
        "workers; tensor=2 splits pairs of dense layers and heads; strategy and codec act along "
        "data"),
    FAST_OPT_CHOICE(C, pipeline, "1f1b", FAST_PIPELINE_CHOICES,
                    "schedule of the stages of mesh, with accumulate micro-batches: 1f1b, at most "
                    "as many activations as stages; gpipe, all forward, then all backward; "
                    "pipedream, never drained, with stashed weights"),
    FAST_OPT_INT(C, epochs, "8", 0, 1e9, "passes over the training set; 0 only evaluates"),
    FAST_OPT_INT(C, steps, "0", 0, (double)FAST_STEPS_MAX,
                 "steps in all, instead of epochs; 0: by epochs"),
    FAST_OPT_INT(C, batch, "64", 1, 1 << 24, "samples per worker and step"),
    FAST_OPT_INT(C, accumulate, "1", 1, 1 << 16,
                 "batches whose mean gradient makes one step of a worker"),
    FAST_OPT_INT(C, global_batch, "0", 0, 1 << 24, "samples per step of all workers; 0: by batch"),
    FAST_OPT_TEXT(C, lr, "auto", NULL, "base learning rate; auto: one that suits the optimizer"),
    FAST_OPT_TEXT(C, optimizer, "momentum:weight_decay=0.0005", "optimizer", "update rule"),
    FAST_OPT_TEXT(C, schedule, "cosine", "schedule", "learning rate over time"),
    FAST_OPT_INT(C, seed, "1", 0, 9007199254740992.0, "seed of everything that is random"),
    FAST_OPT_REAL(C, target, "0", 0, 1,
                  "stop at this test accuracy (0.91), or of the validation set if there is one; 0: "
                  "train to the end"),
    FAST_OPT_REAL(C, holdout, "0", 0, 0.9,
                  "test on this fraction of the training set, held out of it; 0: on the test set"),
    FAST_OPT_REAL(C, validation, "0", 0, 0.9,
                  "evaluate during training on this fraction of the training set, left out of it, "
                  "and on the test set at the end only; 0: on the test set throughout"),
    FAST_OPT_CHOICE(C, monitor, "loss", "loss|accuracy|f1",
                    "figure of the validation set that decides which model is best"),
    FAST_OPT_INT(C, patience, "0", 0, 1e9,
                 "stop after this many evaluations without a better model; 0: never"),
    FAST_OPT_REAL(C, min_delta, "0", 0, 1e9, "a model is better by more than this"),
    FAST_OPT_CHOICE(C, best, "auto", "auto|yes|no",
                    "test and save the best model instead of the last; auto: with patience"),
    FAST_OPT_TEXT(C, class_weights, "none", NULL,
                  "weights of the classes in the training loss, like 1,2.5,1; balanced: rare "
                  "classes count as much as frequent ones"),
    FAST_OPT_CHOICE(
        C, shard, "sample", "sample|contiguous|label|dirichlet|all|ring",
        "how the training set is split among workers; all: each has the whole of it; ring: "
        "ranges that move to the next worker after each epoch"),
    FAST_OPT_REAL(C, alpha, "0.5", 1e-6, 1e6, "shard dirichlet: small is uneven"),
    FAST_OPT_TEXT(C, augment, "no", NULL,
                  "change images at random, like shift:2+flip+crop:4+noise:0.1"),
    FAST_OPT_TEXT(
        C, prefetch, "auto", NULL,
        "batches made ahead by a thread; auto: 2 with augment or samples on disk, else 0"),
    FAST_OPT_INT(C, preprocess, "0", 0, 1024,
                 "actors that read, decode and augment for the workers; 0: workers do it"),
    FAST_OPT_TEXT(C, evaluate, "1", NULL,
                  "test every N epochs, like 2, or steps, like 500steps; end; no"),
    FAST_OPT_TEXT(C, save, "", "file",
                  "save the weights to this file at the end (safetensors; .onnx: the network too)"),
    FAST_OPT_TEXT(C, save_codec, "none", "codec",
                  "compress the weights that save writes, like kmeans:ratio=0.1+huffman"),
    FAST_OPT_TEXT(C, load, "", "file", "start with the weights of this file (safetensors)"),
    FAST_OPT_CHOICE(C, tied, "no", "no|yes",
                    "weights that are equal in a tensor at the start stay equal, and zeros stay 0: "
                    "train the shared values of a compressed model"),
    FAST_OPT_TEXT(C, checkpoint, "", "file", "save the whole run in this file, to resume it"),
    FAST_OPT_TEXT(C, checkpoint_every, "1", NULL,
                  "save it every N epochs, like 2, or steps, like 500steps; end"),
    FAST_OPT_TEXT(C, resume, "", "file", "continue exactly where this checkpoint stopped"),
    FAST_OPT_CHOICE(C, branch, "no", "no|yes",
                    "resume as another run: its learning rate, schedule and options of the "
                    "optimizer may differ from the checkpoint's"),
    FAST_OPT_CHOICE(
        C, recompute, "no", "no|yes",
        "compute activations twice rather than store them, in sqrt(n) segments of the n "
        "layers: less memory, the same bits"),
    FAST_OPT_TEXT(C, memory, "", NULL,
                  "a size like 500MB that the process is to take at most: recompute as few "
                  "activations as it needs"),
    FAST_OPT_TEXT(C, plan, "auto", "file",
                  "file with the engine's measured choices; auto: FAST's cache; no: no file"),
    FAST_OPT_TEXT(C, method, "auto", NULL, "convolution method; auto: the fastest per layer"),
    FAST_OPT_TEXT(C, log, "", "file", "append a JSON line per evaluation to this file"),
    FAST_OPT_TEXT(C, tensorboard, "", "file",
                  "write an event file for TensorBoard into this folder"),
    FAST_OPT_TEXT(C, system, "", "system",
                  "train as this system does: sets what is not given (fast systems NAME)"),
    FAST_OPT_TEXT(C, strategy, "auto", "strategy",
                  "how workers cooperate; auto: allreduce where there are several"),
    FAST_OPT_TEXT_FORMER(
        C, phases, "then", /* old name */ "", "strategy",
        "change to this strategy during the run, like local@epoch=2, or to another codec, like "
        "@epoch=1,codec=topk; can be repeated"),
    FAST_OPT_TEXT(C, topology, "auto", "topology",
                  "who exchanges with whom; auto: the strategy's own"),
    FAST_OPT_TEXT(C, representative, "auto", "representative",
                  "which model is tested and saved where workers' replicas differ"),
    FAST_OPT_TEXT(C, codec, "none", "codec",
                  "codec of the messages, like topk:ratio=0.01, with selections before it and "
                  "stages after it; "
                  "auto: the one with the shortest step, or none"),
    FAST_OPT_TEXT(C, codec_down, "none", "codec",
                  "codec of the answers: a sum, or a server's model"),
    FAST_OPT_CHOICE(
        C, feedback, "auto", "auto|yes|no|ef21",
        "error feedback: add what a codec lost to its next message; auto: as the codec is used; "
        "ef21: encode differences to the gradient that the others know"),
    FAST_OPT_CHOICE(C, codec_scope, "auto", "auto|layer|model",
                    "encode each layer by itself, or all at once; auto: as the codec is used"),
    FAST_OPT_INT(C, codec_small, "0", 0, 1e12,
                 "by layer: tensors with fewer elements go as they are"),
    FAST_OPT_TEXT(
        C, codec_sum, "auto", NULL,
        "how encoded messages are summed: gather, stripes, double, split, "
        "butterfly:4x2; sparse: double or split; the last four also with values of bits=2, 4 "
        "or 8; auto: the cheapest"),
    FAST_OPT_TEXT(C, transport, "auto", "transport", "what runs the workers; auto: threads"),
    FAST_OPT_TEXT(C, cluster, "", "cluster", "transport sim: the cluster, a preset or a file"),
    FAST_OPT_TEXT(C, faults, "", NULL, "transport sim: a schedule of faults, random, or a file"),
    FAST_OPT_CHOICE(C, bind, "none", "none|core|numa",
                    "transport threads: bind workers to cores, or neighbours by number to NUMA "
                    "nodes (hwloc)"),
    FAST_OPT_REAL(C, timeout, "120", 1e-6, 1e9, "seconds that a worker waits for another at most"),
    FAST_OPT_INT(C, pool, "0", 0, 63, "transport sim: threads that compute"),
    FAST_OPT_TEXT(C, trace, "", "file", "write a timeline of all workers to this file (Perfetto)"),
    FAST_OPT_TEXT(C, record, "", "file",
                  "write the order of all that happens to this file, to repeat the run (threads)"),
    FAST_OPT_TEXT(C, replay, "", "file",
                  "repeat the run that was recorded in this file, to the bit; give its options"),
    FAST_OPT_TEXT(
        C, store, "", "file",
        "store the run in this file; none or no: nowhere; auto, as fast train does: runs.db in "
        "your data folder (fast runs)"),
    FAST_OPT_TEXT(C, name, "", NULL, "a name for the run in the store"),
    FAST_OPT_TEXT(C, batch_of, "", NULL, "the name of the comparison that the run is part of"),
    FAST_OPT_END,
};

const fast_part fast__run_part = { "train", "train a model", fast__run_options };

/* "no", "end", "3", "3epochs", "500steps". */
static fast_err period_parse(const char *name, const char *text, fast_period *out)
{
    static const struct {
        const char *suffix;
        fast_period_unit unit;
    } units[] = { { "", FAST_PERIOD_EPOCHS },
                  { "epochs", FAST_PERIOD_EPOCHS },
                  { "epoch", FAST_PERIOD_EPOCHS },
                  { "steps", FAST_PERIOD_STEPS },
                  { "step", FAST_PERIOD_STEPS } };
    if (strcmp(text, "no") == 0 || strcmp(text, "0") == 0) {
        *out = (fast_period){ FAST_PERIOD_NEVER, 0 };
        return FAST_OK;
    }
    if (strcmp(text, "end") == 0) {
        *out = (fast_period){ FAST_PERIOD_END, 0 };
        return FAST_OK;
    }
    const size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (digits == 0 || digits > 15 || strcmp(text + digits, units[i].suffix) != 0)
            continue;
        char number[16];
        memcpy(number, text, digits);
        number[digits] = '\0';
        int64_t count = 0;
        FAST_TRY(fast__parse_int(name, number, &count));
        if (count < 1)
            break;
        *out = (fast_period){ units[i].unit, count };
        return FAST_OK;
    }
    return fast__fail(FAST_EINVAL,
                      "%s=%s: write N epochs as \"2\", steps as \"500steps\", or "
                      "\"end\" or \"no\"",
                      name, text);
}

/* Two files of one name would replace each other at the end of a run. */
static fast_err check_files(const C *c)
{
    const struct {
        const char *name;
        const char *path;
    } files[] = { { "save", c->save },
                  { "checkpoint", c->checkpoint },
                  { "log", c->log },
                  { "resume", c->resume } };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        for (size_t j = 0; j < i; j++) {
            const bool continues =
                strcmp(files[j].name, "checkpoint") == 0 && strcmp(files[i].name, "resume") == 0;
            if (files[i].path[0] && strcmp(files[i].path, files[j].path) == 0 && !continues)
                return fast__fail(FAST_EINVAL, "%s and %s are both %.100s; name two files",
                                  files[j].name, files[i].name, files[i].path);
        }
    return FAST_OK;
}

/* A branch needs a run that it leaves. */
static fast_err check_branch(const C *c)
{
    return c->branch && !c->resume[0]
               ? fast__fail(FAST_EINVAL, "branch=yes continues a checkpoint: give resume=FILE too")
               : FAST_OK;
}

/* Refuse options that describe the use of a codec where the run has none. */
static fast_err check_codec(C *c)
{
    const bool none = strcmp(c->codec, "none") == 0 && strcmp(c->codec_down, "none") == 0 &&
                      !strstr(c->phases, "codec=");

    if (none && (c->feedback != 0 || c->codec_scope != 0 || c->codec_small != 0 ||
                 strcmp(c->codec_sum, "auto") != 0))
        return fast__fail(FAST_EINVAL, "%s says how a codec is used: give codec=NAME too",
                          c->feedback != 0      ? "feedback"
                          : c->codec_scope != 0 ? "codec_scope"
                          : c->codec_small != 0 ? "codec_small"
                                                : "codec_sum");
    if (c->codec_small > 0 && c->codec_scope == 2)
        return fast__fail(FAST_EINVAL,
                          "codec_small=%lld is of layers, and codec_scope=model encodes all at "
                          "once; leave one out",
                          (long long)c->codec_small);
    if (c->codec_small > 0)
        c->codec_scope = 1;
    return FAST_OK;
}

/* Refuse early stopping that would look at the test set, or never look at all. */
static fast_err check_early(const C *c)
{
    const bool watches = c->patience > 0 || c->best == 1 || c->monitor != 0 || c->min_delta > 0;
    const char *option = c->patience > 0  ? "patience"
                         : c->best == 1   ? "best"
                         : c->monitor > 0 ? "monitor"
                                          : "min_delta";

    if (watches && !(c->validation > 0))
        return fast__fail(FAST_EINVAL,
                          "%s chooses a model, and the test set must not: give validation=0.1 too, "
                          "a fraction of the training set",
                          option);
    if (c->validation > 0 && c->evaluate_period.unit == FAST_PERIOD_NEVER)
        return fast__fail(FAST_EINVAL, "validation=%g needs evaluation; leave out evaluate=%s",
                          c->validation, c->evaluate);
    if (c->patience > 0 && c->evaluate_period.unit == FAST_PERIOD_END)
        return fast__fail(FAST_EINVAL,
                          "patience=%lld counts evaluations during the run; leave out evaluate=end",
                          (long long)c->patience);
    return FAST_OK;
}

/* Read the mesh, which gives the number of workers. */
static fast_err check_mesh(C *c)
{
    c->replicas = c->workers;
    if (!c->mesh[0] && c->pipeline != FAST_PIPELINE_1F1B)
        return fast__fail(FAST_EINVAL, "pipeline needs stages: give mesh=pipe=2 too");
    if (!c->mesh[0])
        return FAST_OK;
    FAST_TRY(fast__mesh_parse(c->mesh, c->workers, &c->split));
    c->workers = fast__mesh_size(&c->split);
    c->replicas = c->split.data;
    if (c->pipeline == FAST_PIPELINE_PIPEDREAM && c->accumulate > 1)
        return fast__fail(FAST_EINVAL,
                          "pipeline=pipedream updates after each batch; leave out accumulate=%lld",
                          (long long)c->accumulate);
    return FAST_OK;
}

/* Check what one row of the table cannot: values that depend on one another. */
static fast_err config_check(C *c)
{
    FAST_TRY(check_mesh(c));
    if (c->global_batch > 0) {
        if (c->global_batch % (c->replicas * c->accumulate) != 0)
            return fast__fail(FAST_EINVAL, "global_batch=%lld does not divide over %lld %s%s",
                              (long long)c->global_batch, (long long)c->replicas,
                              c->mesh[0] ? "replicas" : "workers",
                              c->accumulate > 1 ? " and what they accumulate" : "");
        c->batch = c->global_batch / c->replicas / c->accumulate;
    }
    if (strcmp(c->lr, "auto") != 0) {
        FAST_TRY(fast__parse_real("lr", c->lr, &c->rate));
        if (!(c->rate >= 0 && c->rate <= 1e9))
            return fast__fail(FAST_EINVAL, "lr=%s is not between 0 and 1e9", c->lr);
        fast__real_text(c->rate, c->lr, sizeof c->lr);
    }
    FAST_TRY(period_parse("evaluate", c->evaluate, &c->evaluate_period));
    FAST_TRY(period_parse("checkpoint_every", c->checkpoint_every, &c->checkpoint_period));
    if (!c->checkpoint[0] && strcmp(c->checkpoint_every, "1") != 0)
        return fast__fail(FAST_EINVAL, "checkpoint_every=%s needs a file: give checkpoint=FILE too",
                          c->checkpoint_every);
    if (c->target > 0 && c->evaluate_period.unit == FAST_PERIOD_NEVER)
        return fast__fail(FAST_EINVAL, "target=%g needs evaluation; leave out evaluate=%s",
                          c->target, c->evaluate);
    FAST_TRY(check_early(c));
    if (strcmp(c->prefetch, "auto") == 0)
        c->prefetch_count = strcmp(c->augment, "no") == 0 ? 0 : FAST_PREFETCH_AUTO;
    else
        FAST_TRY(fast__parse_int("prefetch", c->prefetch, &c->prefetch_count));
    if (c->prefetch_count < 0 || c->prefetch_count > 1024)
        return fast__fail(FAST_EINVAL, "prefetch=%s is not between 0 and 1024", c->prefetch);
    FAST_TRY(check_files(c));
    FAST_TRY(check_branch(c));
    FAST_TRY(check_codec(c));
    if (strcmp(c->save_codec, "none") != 0 && (!c->save[0] || strstr(c->save, ".onnx")))
        return fast__fail(FAST_EINVAL,
                          "save_codec compresses the weights of save=FILE.safetensors; %s",
                          c->save[0] ? "an .onnx file has its own format" : "give save too");
    if (c->load[0] && c->resume[0])
        return fast__fail(FAST_EINVAL,
                          "load=%s and resume=%s: a checkpoint has its own weights; "
                          "give one of them",
                          c->load, c->resume);
    return FAST_OK;
}

/* Set one "name=value". */
static fast_err config_set(C *c, const char *option)
{
    const char *equal = strchr(option, '=');
    char name[64];
    if (!equal || equal == option || (size_t)(equal - option) >= sizeof name)
        return fast__fail(FAST_EINVAL, "option \"%.60s\" is not name=value", option);
    memcpy(name, option, (size_t)(equal - option));
    name[equal - option] = '\0';
    const fast_option *row = fast__options_find(fast__run_options, name);
    if (row && strcmp(row->name, "phases") == 0 && c->phases[0] && equal[1]) { /* appended */
        const size_t used = strlen(c->phases);
        if (used + strlen(equal) + 1 > sizeof c->phases)
            return fast__fail(FAST_EINVAL, "phases=%.60s...: too many changes", c->phases);
        snprintf(c->phases + used, sizeof c->phases - used, ";%s", equal + 1);
        return FAST_OK;
    }
    return fast__options_set("train", fast__run_options, c, name, equal + 1);
}

/* The value of the last option that begins with `flag` up to its '='; NULL: it was not given. */
static const char *config_given(const char *const *options, const char *flag)
{
    const size_t length = strcspn(flag, "=") + 1;
    const char *value = NULL;
    for (; options && *options; options++)
        if (strncmp(*options, flag, length) == 0)
            value = *options + length;
    return value;
}

/* Set what a system stands for and the user did not give. A strategy that was given, too, keeps its
 * own options and takes the others of the system's; another strategy contradicts it. */
static fast_err config_system(C *c, const char *const *options)
{
    const fast_system *system = NULL;
    char flag[FAST_SPEC_MAX], text[FAST_SPEC_MAX];
    if (!c->system[0])
        return FAST_OK;
    FAST_TRY(fast__system_find(c->system, &system));
    for (const char *rest = system->flags;
         (rest = fast__system_flag(rest, flag, sizeof flag)) != NULL;) {
        const char *given = config_given(options, flag);
        const bool strategy = strncmp(flag, "strategy=", 9) == 0;
        if (!given || (strategy && strcmp(given, "auto") == 0)) {
            FAST_TRY(config_set(c, flag));
        } else if (strategy) {
            FAST_TRY(fast__system_merge(system, "strategy", flag + 9, given, text, sizeof text));
            snprintf(c->strategy, sizeof c->strategy, "%s", text);
        }
    }
    return FAST_OK;
}

fast_err fast__config_parse(const char *const *options, fast_run_config *out)
{
    FAST_ASSERT(out != NULL);
    memset(out, 0, sizeof *out);
    fast__options_default(fast__run_options, out);
    for (const char *const *option = options; option && *option; option++)
        FAST_TRY(config_set(out, *option));
    FAST_TRY(config_system(out, options));
    FAST_TRY(fast__options_moved(out->strategy, out->codec, sizeof out->codec));
    return config_check(out);
}

/* The i-th of "a|b|c". */
static void choice_text(const char *choices, int i, char *text, size_t size)
{
    for (; i > 0; i--) {
        choices = strchr(choices, '|');
        FAST_ASSERT(choices != NULL);
        choices++;
    }
    snprintf(text, size, "%.*s", (int)strcspn(choices, "|"), choices);
}

void fast__config_text(const fast_option *option, const fast_run_config *config, char *text,
                       size_t size)
{
    FAST_ASSERT(option->name != NULL);
    const char *field = (const char *)config + option->offset;
    switch (option->type) {
    case FAST_OPTION_BOOL:
        snprintf(text, size, "%s", *(const bool *)(const void *)field ? "yes" : "no");
        break;
    case FAST_OPTION_INT:
        snprintf(text, size, "%lld", (long long)*(const int64_t *)(const void *)field);
        break;
    case FAST_OPTION_REAL:
        fast__real_text(*(const double *)(const void *)field, text, size);
        break;
    case FAST_OPTION_TEXT:
        snprintf(text, size, "%s", field);
        break;
    case FAST_OPTION_CHOICE:
        choice_text(option->choices, *(const int *)(const void *)field, text, size);
        break;
    }
}
