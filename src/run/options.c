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
#include "split/named_cuts.h"
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
    FAST_OPT_TEXT(C, mesh, "", "mesh",
                  "split the model: data=2,pipe=4 is two replicas of four stages each, on eight "
                  "workers; pipe=2,replicas=3x1 has three workers of the first stage; tensor=2 "
                  "splits tensors by layout; strategy and codec act along data; auto: the fastest "
                  "by prediction"),
    FAST_OPT_TEXT(
        C, layout, "", NULL,
        "how mesh tensor=T splits layers, like conv=samples,dense=pairs: LAYERS=KIND, layers by "
        "operator or name, output: the last; the standard is attention=pairs, dense=pairs, "
        "experts=experts, add=branches"),
    FAST_OPT_TEXT(C, cuts, "", NULL,
                  "where mesh pipe=S cuts the model: the first layers of all stages but the first, "
                  "like conv2,dense1; measured: so that the slowest stage is the fastest by times "
                  "of this machine; else by operations and bytes"),
    FAST_OPT_CHOICE(C, pipeline, "1f1b", FAST_PIPELINE_CHOICES,
                    "schedule of the stages of mesh, with accumulate micro-batches: 1f1b, at most "
                    "as many activations as stages; gpipe, all forward, then all backward; "
                    "pipedream, never drained, with stashed weights; interleaved, 1f1b of several "
                    "chunks of each worker; pipedream_2bw, never drained, with two versions of the "
                    "weights; stale, with the newest ones alone; ampnet, in the order of "
                    "messages; zero_bubble, gradients of weights fill the end"),
    FAST_OPT_INT(C, chunks, "0", 0, 1024,
                 "stages of each worker with pipeline interleaved; 0: two"),
    FAST_OPT_BOOL(C, vertical_sync, "no",
                  "pipedream: a batch uses the weights of one step at all stages"),
    FAST_OPT_INT(C, pipe_delay, "1", 1, 16,
                 "batches that a stage is ahead of the next one, in a pipeline that is never "
                 "drained; 2 hides the messages behind passes"),
    FAST_OPT_CHOICE(C, pipe_extrapolate, "no", FAST_PIPE_EXTRAPOLATE_CHOICES,
                    "pipeline=stale: estimate the weights of the other pass of a batch by the last "
                    "updates; forward: the forward pass uses later ones (SpecTrain); backward: the "
                    "backward pass uses older ones (PipeMare)"),
    FAST_OPT_INT(C, pipe_lr_steps, "0", 0, (double)FAST_STEPS_MAX,
                 "divide a stage's learning rate by its staleness, less and less over the first "
                 "steps (PipeMare)"),
    FAST_OPT_INT(C, pipe_active, "0", 0, 1024,
                 "pipeline=ampnet: micro-batches in flight at most; 0: as many as stages"),
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
    FAST_OPT_TEXT(C, micro_batch, "no", NULL,
                  "compute a batch in micro-batches of N samples inside a pass, with the same "
                  "gradient; auto: the fastest sizes by measurement, within memory; no: whole"),
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
    FAST_OPT_TEXT(C, placement, "", NULL,
                  "transport sim: nodes of the workers in their order, like 3,0,1-2; else as the "
                  "cluster says"),
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

/* An option of some schedules of a pipeline. */
typedef struct pipe_fit {
    bool given;         /* not the default */
    bool fits;          /* the schedule that was chosen */
    const char *option; /* its name */
    const char *of;     /* the schedules that have it */
} pipe_fit;

/* Check options of pipelines that are never drained: each is of some schedules alone. Two versions
 * of the weights are enough if the batches in flight are of two steps, the one whose gradient is
 * summed and the next: the first stage is `ahead` micro-batches ahead of its backward passes, which
 * a step must cover.
 *
 *     mesh=pipe=3 pipe_delay=2 accumulate=4    ahead 4: batch n enters, n - 4 leaves
 *     mesh=pipe=3 pipe_delay=2 accumulate=3    refused
 */
static fast_err check_undrained(const C *c)
{
    const bool ampnet = c->pipeline == FAST_PIPELINE_AMPNET;
    const bool flows = !fast__pipe_drains((fast_pipeline)c->pipeline) && !ampnet;
    const int64_t ahead = c->pipe_delay * (c->split.pipe - 1);
    const pipe_fit fits[] = {
        { c->vertical_sync, c->pipeline == FAST_PIPELINE_PIPEDREAM, "vertical_sync", "pipedream" },
        { c->pipe_delay > 1, flows, "pipe_delay", "pipedream, pipedream_2bw or stale" },
        { c->pipe_extrapolate > 0, c->pipeline == FAST_PIPELINE_STALE, "pipe_extrapolate",
          "stale" },
        { c->pipe_lr_steps > 0, flows, "pipe_lr_steps", "pipedream, pipedream_2bw or stale" },
        { c->pipe_active > 0, ampnet, "pipe_active", "ampnet" },
    };

    for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++)
        if (fits[i].given && !fits[i].fits)
            return fast__fail(FAST_EINVAL, "%s is of pipeline=%s; choose that, or leave out %s",
                              fits[i].option, fits[i].of, fits[i].option);
    if (c->pipeline == FAST_PIPELINE_PIPEDREAM && c->accumulate > 1 && c->split.counts[0] == 0)
        return fast__fail(FAST_EINVAL,
                          "pipeline=pipedream updates after each batch; take pipedream_2bw, or "
                          "leave out accumulate=%lld",
                          (long long)c->accumulate);
    if (c->pipeline == FAST_PIPELINE_2BW && c->accumulate < ahead)
        return fast__fail(FAST_EINVAL,
                          "pipeline=pipedream_2bw has two versions of the weights: mesh=%s with "
                          "pipe_delay=%lld needs accumulate=%lld or more, not %lld",
                          c->mesh, (long long)c->pipe_delay, (long long)ahead,
                          (long long)c->accumulate);
    if (ampnet && c->split.tensor > 1)
        return fast__fail(FAST_EINVAL,
                          "pipeline=ampnet takes messages as they come, and the shards of a stage "
                          "need one order; leave out tensor=%lld",
                          (long long)c->split.tensor);
    return FAST_OK;
}

/* Check the stages of each worker. An interleaved pipeline moves micro-batches in groups of as many
 * as workers, which are whole; other schedules have one stage a worker:
 *
 *     mesh=pipe=4, accumulate=8, pipeline=1f1b                    4 stages
 *     mesh=pipe=4, accumulate=8, pipeline=interleaved             8 stages, two groups
 *     mesh=pipe=4, accumulate=8, pipeline=interleaved, chunks=3   12 stages, two groups
 *     mesh=pipe=4, accumulate=6, pipeline=interleaved             refused
 *
 * What was not given is set: later code and stored runs see the number. */
static fast_err check_chunks(C *c)
{
    const bool several = c->pipeline == FAST_PIPELINE_INTERLEAVED;

    if (!several && c->chunks > 1)
        return fast__fail(FAST_EINVAL,
                          "chunks=%lld is of interleaved pipelines: give pipeline=interleaved too",
                          (long long)c->chunks);
    if (several && c->split.pipe < 2)
        return fast__fail(FAST_EINVAL,
                          "pipeline=interleaved needs several workers of a pipeline: give "
                          "mesh=pipe=2 or more");
    if (several && c->accumulate % c->split.pipe != 0)
        return fast__fail(FAST_EINVAL,
                          "pipeline=interleaved takes micro-batches in groups of %lld, one for "
                          "each worker of a pipeline, and accumulate=%lld is no multiple of that; "
                          "give accumulate=%lld",
                          (long long)c->split.pipe, (long long)c->accumulate,
                          (long long)((c->accumulate / c->split.pipe + 1) * c->split.pipe));
    c->chunks = c->chunks > 0 ? c->chunks : several ? 2 : 1;
    return FAST_OK;
}

/* Write the name of the schedule. */
static void pipeline_text(const C *c, char *text, size_t size)
{
    fast__config_text(fast__options_find(fast__run_options, "pipeline"), c, text, size);
}

/* Refuse cuts that name another number of stages than the mesh has. */
static fast_err check_cuts(const C *c)
{
    const int64_t stages = c->split.pipe * c->chunks, named = fast__split_cut_count(c->cuts) + 1;
    char chunks[32] = "";

    if (!c->cuts[0] || strcmp(c->cuts, "measured") == 0 || stages == named)
        return FAST_OK;
    if (c->chunks > 1)
        snprintf(chunks, sizeof chunks, ", chunks=%lld", (long long)c->chunks);
    return fast__fail(FAST_EINVAL,
                      "cuts=%s make %lld stages, and mesh=%s%s has %lld; name the first "
                      "layer of each stage but the first",
                      c->cuts, (long long)named, c->mesh, chunks, (long long)stages);
}

/* Greatest common divisor. */
static int64_t divisor_of(int64_t a, int64_t b)
{
    FAST_ASSERT(a > 0 && b > 0);
    while (b > 0) {
        const int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Check replicas of single stages: of a step each takes as many micro-batches as the others of its
 * stage, so that the mean of their gradients is that of the step. pipedream updates after a round,
 * the fewest micro-batches of which that is true.
 *
 *     mesh=pipe=2,replicas=3x2 accumulate=6     2 micro-batches for each of 3, 3 for each of 2
 *     mesh=pipe=2,replicas=3x2 accumulate=12    with pipedream refused
 */
static fast_err check_replicas(const C *c)
{
    const fast_mesh *mesh = &c->split;
    int64_t round = 1;

    if (mesh->counts[0] == 0)
        return FAST_OK;
    if (c->pipeline != FAST_PIPELINE_1F1B && c->pipeline != FAST_PIPELINE_GPIPE &&
        c->pipeline != FAST_PIPELINE_PIPEDREAM)
        return fast__fail(FAST_EINVAL,
                          "mesh=%s: replicas of a stage take micro-batches round-robin, which "
                          "pipeline=1f1b, gpipe and pipedream allow; take one of them",
                          c->mesh);
    for (int64_t s = 0; s < mesh->pipe; s++) {
        if (c->accumulate % mesh->counts[s] != 0)
            return fast__fail(FAST_EINVAL,
                              "mesh=%s: accumulate=%lld micro-batches of a step do not divide over "
                              "the %d replicas of stage %lld; give a multiple",
                              c->mesh, (long long)c->accumulate, (int)mesh->counts[s],
                              (long long)s);
        round *= mesh->counts[s] / divisor_of(round, mesh->counts[s]);
    }
    if (c->pipeline == FAST_PIPELINE_PIPEDREAM && c->accumulate != round)
        return fast__fail(FAST_EINVAL,
                          "pipeline=pipedream updates after each round of mesh=%s: give "
                          "accumulate=%lld, not %lld",
                          c->mesh, (long long)round, (long long)c->accumulate);
    return FAST_OK;
}

/* Read the mesh, which gives the number of workers, and the layout of its shards. The words of a
 * layout are checked here; whether they fit the model, where the model is cut (split_team.c). A
 * layout without shards is refused: it would change nothing. */
fast_err fast__config_mesh(C *c)
{
    c->replicas = c->workers;
    if (!c->mesh[0] && c->chunks > 0)
        return fast__fail(FAST_EINVAL, "chunks=%lld needs stages: give mesh=pipe=2 too",
                          (long long)c->chunks);
    if (!c->mesh[0] && c->pipeline != FAST_PIPELINE_1F1B) {
        char pipeline[32];

        pipeline_text(c, pipeline, sizeof pipeline);
        return fast__fail(FAST_EINVAL, "pipeline=%s needs stages: give mesh=pipe=2 too", pipeline);
    }
    if (!c->mesh[0] && c->layout[0])
        return fast__fail(FAST_EINVAL, "layout=%s is of shards: give mesh=tensor=2 too", c->layout);
    if (!c->mesh[0] && c->cuts[0])
        return fast__fail(FAST_EINVAL, "cuts=%s are of stages: give mesh=pipe=%lld too", c->cuts,
                          (long long)fast__split_cut_count(c->cuts) + 1);
    if (!c->mesh[0])
        return check_undrained(c);
    FAST_TRY(fast__layout_map_parse(c->layout, &c->layout_map));
    FAST_TRY(fast__mesh_parse(c->mesh, c->workers_given ? c->workers : 0, &c->split));
    if (c->split.tensor == 1 && c->layout[0])
        return fast__fail(FAST_EINVAL, "layout=%s is of shards, and mesh=%s has one: give tensor=2",
                          c->layout, c->mesh);
    FAST_TRY(check_chunks(c));
    FAST_TRY(check_cuts(c));
    FAST_TRY(check_replicas(c));
    c->workers = fast__mesh_size(&c->split);
    c->replicas = c->split.data;
    return check_undrained(c);
}

/* Refuse a schedule of stages that the mesh does not have, unless it says so itself: pipe=1. */
static fast_err check_schedule(const C *c)
{
    char pipeline[32];

    if (!c->mesh[0] || fast__mesh_is_auto(c) || c->split.pipe > 1 || strstr(c->mesh, "pipe=") ||
        c->pipeline == FAST_PIPELINE_1F1B)
        return FAST_OK;
    pipeline_text(c, pipeline, sizeof pipeline);
    return fast__fail(FAST_EINVAL,
                      "pipeline=%s is of stages, and mesh=%.100s has one: give pipe=2 in it, or "
                      "leave out pipeline",
                      pipeline, c->mesh);
}

/* Check what one row of the table cannot: values that depend on one another. */
static fast_err config_check(C *c)
{
    if (fast__mesh_is_auto(c)) /* once the network is known */
        c->replicas = c->workers;
    else
        FAST_TRY(fast__config_mesh(c));
    FAST_TRY(check_schedule(c));
    if (c->global_batch > 0 && !fast__mesh_is_auto(c)) {
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
    c->pipeline_given = c->pipeline_given || (row && strcmp(row->name, "pipeline") == 0);
    if (row && strcmp(row->name, "phases") == 0 && c->phases[0] && equal[1]) { /* appended */
        const size_t used = strlen(c->phases);
        if (used + strlen(equal) + 1 > sizeof c->phases)
            return fast__fail(FAST_EINVAL, "phases=%.60s...: too many changes", c->phases);
        snprintf(c->phases + used, sizeof c->phases - used, ";%s", equal + 1);
        return FAST_OK;
    }
    c->workers_given = c->workers_given || (row && strcmp(row->name, "workers") == 0);
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
