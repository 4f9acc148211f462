/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint: a run at rest between two steps, as a safetensors file.
 *
 *   tensors    NAME                the parameters and the state, as in a file of weights
 *              optimizer/I/NAME    slot I of the update rule's state
 *              best/NAME           the best model by the validation set, where it is retained
 *              worker/RANK         saved state of a worker (saved_states.c), where it has any
 *              server/RANK         saved state of a server, where it has any
 *   metadata   fast_checkpoint     version of this format: 1
 *              step                steps taken; the batches, the learning rate and every random
 *                                  stream are functions of it, so it is their whole position
 *              step_count          of the whole run
 *              sums                of the epoch so far: loss (bits), batches, correct, positions
 *              EVALUATION_KEY      the last evaluation: step, loss (bits), accuracy (bits)
 *              validation          with a validation set: its last loss and accuracy (bits), the
 *                                  best value (bits) and its step, evaluations since
 *              data_hash           of the training set's samples and labels
 *              network             hash of the network's text
 *              engine, plan_hash   what computed; another one is allowed, with a note
 *              option.NAME         every option that must be the same (see `matching`)
 *              hash                of all the above, metadata and tensors: finds damage
 *
 * Doubles are written as their 64 bits in hexadecimal: what is resumed is equal to the bit. The
 * file is replaced atomically: after a crash there is the old one or the new one.
 *
 * Example: 12 batches of 64 in the current epoch with a sum of losses of 72, 700 of 768 right; the
 * last evaluation at step 1,000 gave loss 0.3 and accuracy 0.92:
 *
 *     "step": "1012"     "sums": "4052000000000000 12 700 768"
 *     EVALUATION_KEY: "1000 3fd3333333333333 3fed70a3d70a3d71"
 *
 * Loading checks in this order and copies nothing before all checks have passed:
 *
 *     no fast_checkpoint, another version        FAST_EINVAL
 *     numbers that do not parse, step < 0        FAST_EFORMAT
 *     another option, network or data set        FAST_EINVAL, with both values of the option;
 *                                                workers, strategy and topology may differ
 *     a tensor too few, too many, not F32        FAST_EINVAL
 *     the hash                                   FAST_EFORMAT: the file is damaged
 *
 * The process with worker 0 writes, in the thread that may touch the run; the others send their
 * state to it first (collect_states.c).
 */
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "run/checkpoint/moved.h"
#include "run/run.h"
#include "run/team.h"
#include "tensor/safetensors.h"
#include "tensor/vector.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Options that decide what is computed. The number of epochs or steps may change: a longer run is
 * the usual reason to resume a finished one. */
static const char *const matching[] = {
    "model",    "data",       "workers",  "batch",       "optimizer",   "lr",
    "schedule", "seed",       "shard",    "alpha",       "augment",     "strategy",
    "topology", "accumulate", "then", /* old name of phases: files of this version have it */
    "codec",    "codec_down", "feedback", "codec_scope", "codec_small", NULL
};

/* Those of them that say how workers cooperate: a run with others continues with the model, and
 * the state of actors is dropped. */
static const char *const cooperation[] = { "workers", "strategy", "topology", "then",
                                           "mesh",    "layout",   "pipeline", NULL };

/* Those that may be others in a branch of a run; of the optimizer its options. */
static const char *const branching[] = { "lr", "schedule", "optimizer", NULL };

/* Later options that must be the same, and later keys: written where they are not the default, so
 * that files without them keep their hash. */
static const char *const matching_later[] = { "validation",    "monitor",     "best",
                                              "class_weights", "codec_sum",   "tied",
                                              "mesh",          "layout",      "pipeline",
                                              "vertical_sync", "pipe_delay",  "pipe_extrapolate",
                                              "pipe_lr_steps", "pipe_active", NULL };
static const char VALIDATION_KEY[] = "validation";

/* Key of the last evaluation. */
#define EVALUATION_KEY "judged" /* old name: files of this version have it */

/* The metadata without the options and the hash. */
static const char *const described[] = { "fast_checkpoint", "step",      "step_count", "sums",
                                         EVALUATION_KEY,    "data_hash", "network",    "engine",
                                         "plan_hash",       NULL };

enum { META_MAX = 64, VALUE_MAX = FAST_PATH_MAX };

/* Metadata under construction: pairs of texts in one block. */
typedef struct meta {
    const char *pairs[2 * META_MAX + 1];
    int count;               /* texts in pairs */
    char *values;            /* [META_MAX][VALUE_MAX] */
    char keys[META_MAX][32]; /* texts of the keys in pairs */
} meta;

static void meta_put(meta *m, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Add a pair to the metadata. Texts are formatted into the block of values; a text that is too long
 * is cut. */
static void meta_put(meta *m, const char *key, const char *format, ...)
{
    const int i = m->count / 2;
    FAST_ASSERT(i < META_MAX);
    char *value = m->values + (size_t)i * VALUE_MAX;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, VALUE_MAX, format, arguments);
    va_end(arguments);
    snprintf(m->keys[i], sizeof m->keys[i], "%s", key);
    m->pairs[m->count++] = m->keys[i];
    m->pairs[m->count++] = value;
    m->pairs[m->count] = NULL;
}

/* The bits of a number: text of them reads back exactly. */
static uint64_t bits_of(double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The number that has these bits. */
static double value_of(uint64_t bits)
{
    double value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Samples and labels of the training set. Computed once: tens of megabytes take milliseconds. */
uint64_t fast__run_data_hash(fast_run *run)
{
    if (run->data.hash)
        return run->data.hash;
    const fast_data *d = run->data.train;
    if (!d) /* of a learner's own data only their number is known */
        return (uint64_t)run->foreign->kind.samples;
    uint64_t hash = (uint64_t)d->count;
    if (d->rows)
        hash = fast__hash(&d->rows->hash, sizeof d->rows->hash, hash);
    else
        hash =
            fast__hash(d->x, (size_t)(d->count * d->features) * fast__dtype_size(d->dtype), hash);
    if (d->labels)
        hash = fast__hash(d->labels, (size_t)(d->count * d->positions) * sizeof *d->labels, hash);
    if (d->targets)
        hash = fast__hash(d->targets, (size_t)(d->count * d->outputs) * sizeof *d->targets, hash);
    run->data.hash = hash ? hash : 1;
    return run->data.hash;
}

/* A hash of the network's text, so that a network that was changed under the same name is noticed;
 * 0 for a learner of the caller's. */
static uint64_t network_hash(const fast_run *run)
{
    return run->text.model ? fast__hash(run->text.model, strlen(run->text.model), 0) : 0;
}

/* The text that a file without this option stands for. */
static const char *default_text(const fast_option *option)
{
    return strcmp(option->name, "best") == 0 ? "no" : option->standard; /* "auto" is resolved */
}

/* Does the run have an option's default value? */
static bool is_default(const fast_run *run, const char *name)
{
    const fast_option *option = fast__options_find(fast__run_options, name);
    char text[FAST_SPEC_MAX];

    fast__config_text(option, &run->config, text, sizeof text);
    return strcmp(text, default_text(option)) == 0;
}

/* Add an option that must be the same. */
static void describe_option(const fast_run *run, const char *name, meta *m)
{
    char key[32];
    char *value = m->values + (size_t)(META_MAX - 1) * VALUE_MAX;

    snprintf(key, sizeof key, "option.%s", name);
    fast__config_text(fast__options_find(fast__run_options, name), &run->config, value, VALUE_MAX);
    if (value[0]) /* a missing key cannot be damaged */
        meta_put(m, key, "%s", value);
}

/* Fill in all metadata but the hash. */
static void describe_run(fast_run *run, meta *m)
{
    const fast_run_sums *sums = &run->progress.sums;
    meta_put(m, "fast_checkpoint", "1");
    meta_put(m, "step", "%" PRId64, run->step);
    meta_put(m, "step_count", "%" PRId64, run->step_count);
    meta_put(m, "sums", "%016" PRIx64 " %" PRId64 " %" PRId64 " %" PRId64, bits_of(sums->loss),
             sums->batches, sums->correct, sums->positions);
    meta_put(m, EVALUATION_KEY, "%" PRId64 " %016" PRIx64 " %016" PRIx64,
             run->progress.step_evaluated, bits_of(run->result.test_loss),
             bits_of(run->result.test_accuracy));
    meta_put(m, "data_hash", "%016" PRIx64, fast__run_data_hash(run));
    meta_put(m, "network", "%016" PRIx64, network_hash(run));
    meta_put(m, "engine", "%s", run->config.engine);
    meta_put(m, "plan_hash", "%016" PRIx64, fast__run_plan_hash(run));
    for (const char *const *name = matching; *name; name++)
        describe_option(run, *name, m);
    if (run->data.validation) {
        const fast_run_best *best = &run->evaluation.best;
        meta_put(m, VALIDATION_KEY,
                 "%016" PRIx64 " %016" PRIx64 " %016" PRIx64 " %" PRId64 " %" PRId64,
                 bits_of(run->result.validation_loss), bits_of(run->result.validation_accuracy),
                 bits_of(best->value), run->result.best_step, best->waited);
    }
    for (const char *const *name = matching_later; *name; name++)
        if (!is_default(run, *name))
            describe_option(run, *name, m);
    FAST_ASSERT(m->count / 2 < META_MAX - 1);
}

/* The value of a key, in a file or in metadata under construction; "" where it has none. */
typedef const char *get_fn(const void *from, const char *key);

/* A key of metadata under construction, for hash_meta(). */
static const char *get_described(const void *from, const char *key)
{
    const meta *m = from;
    for (int i = 0; i < m->count; i += 2)
        if (strcmp(m->pairs[i], key) == 0)
            return m->pairs[i + 1];
    return "";
}

/* A key of a file's metadata; "" if the file has it not. */
static const char *get_saved(const void *from, const char *key)
{
    const char *value = fast__tensors_meta(from, key);
    return value ? value : "";
}

/* Hash all keys of this format in their fixed order, so that the order in a file does not
 * matter. */
static uint64_t hash_meta(get_fn *get, const void *from)
{
    uint64_t hash = 0;
    for (const char *const *key = described; *key; key++)
        hash = fast__hash(get(from, *key), strlen(get(from, *key)), hash);
    for (const char *const *name = matching; *name; name++) {
        char key[32];
        snprintf(key, sizeof key, "option.%s", *name);
        hash = fast__hash(get(from, key), strlen(get(from, key)), hash);
    }
    const char *validation = get(from, VALIDATION_KEY);
    if (validation[0])
        hash = fast__hash(validation, strlen(validation), hash);
    for (const char *const *name = matching_later; *name; name++) {
        char key[32];
        snprintf(key, sizeof key, "option.%s", *name);
        if (get(from, key)[0])
            hash = fast__hash(get(from, key), strlen(get(from, key)), hash);
    }
    return hash;
}

/* Add a tensor's bytes to a hash. Its name is not hashed: a wrong name is a missing tensor. */
static uint64_t hash_tensor(const fast_tensor *tensor, uint64_t hash)
{
    return fast__vector_hash(tensor->count, tensor->data, hash);
}

/* Number of vectors of the optimizer's state that a checkpoint holds. */
static int slot_count(const fast_run *run)
{
    int count = 0;
    while (fast__optimizer_slot(run->optimizer, count))
        count++;
    return count;
}

/* Number of tensors of the best model that a checkpoint holds. */
static int64_t best_count(const fast_run *run)
{
    const fast_learner *learner = run->learner;

    return run->evaluation.best.model ? learner->params.segment_count + learner->state.segment_count
                                      : 0;
}

/* The list of weights, then the best model, and behind it the saved states of actors. */
static fast_err list_all(fast_run *run, fast_weights *weights)
{
    const int64_t more = fast__saved_states_count(run);
    const fast_learner *learner = run->learner;
    const float *best = run->evaluation.best.model;
    fast_weights w = { 0 }, all = { 0 };

    FAST_TRY(fast__weights_list(run, slot_count(run), &w));
    const int64_t count = w.count + best_count(run) + more;
    fast_err err = fast__alloc("tensors of a checkpoint", count, sizeof *all.tensors, &all.tensors);
    if (!err)
        err = fast__alloc("names of a checkpoint", count, sizeof *all.names, &all.names);
    all.count = w.count;
    for (int64_t i = 0; i < w.count && !err; i++) {
        memcpy(all.names[i], w.names[i], sizeof *all.names);
        all.tensors[i] = w.tensors[i];
        all.tensors[i].name = all.names[i];
    }
    fast__weights_fini(&w);
    if (!err && best) {
        fast__weights_add(&all, &learner->params, best, FAST_BEST_PREFIX);
        fast__weights_add(&all, &learner->state, best + learner->params.count, FAST_BEST_PREFIX);
    }
    if (!err)
        err = fast__saved_states_list(run, all.tensors + all.count, all.names + all.count);
    all.count += more;
    if (err)
        fast__weights_fini(&all);
    else
        *weights = all;
    return err;
}

/* Write tensors and metadata to a file, with the hash over both: a checkpoint that is damaged or
 * cut is refused when it is read. */
static fast_err save_described(fast_run *run, const char *path, meta *m)
{
    fast_weights weights;
    FAST_TRY(fast__split_model_complete(run->team));
    FAST_TRY(list_all(run, &weights));
    uint64_t hash = hash_meta(get_described, m);
    for (int64_t i = 0; i < weights.count; i++)
        hash = hash_tensor(&weights.tensors[i], hash);
    meta_put(m, "hash", "%016" PRIx64, hash);
    const fast_err err = fast__tensors_save(path, weights.tensors, weights.count, m->pairs);
    fast__weights_fini(&weights);
    return err;
}

fast_err fast__checkpoint_save(fast_run *run, const char *path)
{
    meta m = { .count = 0 };
    /* After training the best model is in the place of the last one, from which a run continues. */
    const bool swapped = run->evaluation.best.swapped;
    FAST_TRY(fast__alloc("checkpoint metadata", META_MAX, VALUE_MAX, &m.values));
    if (swapped)
        fast__best_swap(run);
    describe_run(run, &m);
    const fast_err err = save_described(run, path, &m);
    if (swapped)
        fast__best_swap(run);
    fast__free(m.values);
    return err;
}

/* Metadata of a checkpoint, before any of it is trusted. */
typedef struct saved {
    int64_t step;           /* at which it was saved */
    int64_t step_count;     /* of the run that saved it */
    fast_run_sums sums;     /* of the epoch under way */
    int64_t step_evaluated; /* of the last evaluation; -1 before the first */
    double test_loss;       /* of the last evaluation */
    double test_accuracy;   /* of the last evaluation */
    /* With a validation set; else NAN, -1 and 0. */
    double validation_loss;     /* of the last evaluation */
    double validation_accuracy; /* of the last evaluation */
    double best;                /* best value of the monitored figure */
    int64_t best_step;          /* of that evaluation */
    int64_t waited;             /* evaluations since */
} saved;

/* Parse the key of the validation set, which a file without one has not. */
static bool read_validation(const fast_tensors *tensors, saved *out)
{
    const char *text = get_saved(tensors, VALIDATION_KEY);
    uint64_t loss = 0, accuracy = 0, best = 0;

    out->validation_loss = out->validation_accuracy = out->best = NAN;
    out->best_step = -1;
    out->waited = 0;
    if (!text[0])
        return true;
    if (sscanf(text, "%" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNd64 " %" SCNd64, &loss, &accuracy,
               &best, &out->best_step, &out->waited) != 5)
        return false;
    out->validation_loss = value_of(loss);
    out->validation_accuracy = value_of(accuracy);
    out->best = value_of(best);
    return out->best_step >= -1 && out->waited >= 0;
}

/* Parse the metadata of a file. FAST_EINVAL if it is no checkpoint of this version, FAST_EFORMAT if
 * it is damaged. */
static fast_err read_meta(const char *path, const fast_tensors *tensors, saved *out)
{
    const char *version = fast__tensors_meta(tensors, "fast_checkpoint");
    if (!version)
        return fast__fail(FAST_EINVAL, "%s is not a checkpoint; to begin with its weights use load",
                          path);
    if (strcmp(version, "1") != 0)
        return fast__fail(FAST_EINVAL, "%s is a checkpoint of version %.20s; this program reads 1",
                          path, version);
    uint64_t loss = 0;
    uint64_t test_loss = 0;
    uint64_t test_accuracy = 0;
    const bool whole =
        sscanf(get_saved(tensors, "step"), "%" SCNd64, &out->step) == 1 &&
        sscanf(get_saved(tensors, "step_count"), "%" SCNd64, &out->step_count) == 1 &&
        sscanf(get_saved(tensors, "sums"), "%" SCNx64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &loss,
               &out->sums.batches, &out->sums.correct, &out->sums.positions) == 4 &&
        sscanf(get_saved(tensors, EVALUATION_KEY), "%" SCNd64 " %" SCNx64 " %" SCNx64,
               &out->step_evaluated, &test_loss, &test_accuracy) == 3;
    if (!whole || !read_validation(tensors, out) || out->step < 0 || out->step > FAST_STEPS_MAX)
        return fast__fail(FAST_EFORMAT, "%s: the checkpoint's metadata is damaged", path);
    out->sums.loss = value_of(loss);
    out->test_loss = value_of(test_loss);
    out->test_accuracy = value_of(test_accuracy);
    return FAST_OK;
}

/* Is an option in a list? */
static bool is_in(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* May an option be another in a branch? Another rule has other state. */
static bool may_branch(const fast_run *run, const char *name, const char *theirs, const char *ours)
{
    const size_t rule = strcspn(ours, ":");

    return run->config.branch && is_in(branching, name) &&
           (strcmp(name, "optimizer") != 0 ||
            (strcspn(theirs, ":") == rule && strncmp(theirs, ours, rule) == 0));
}

/* Options of cooperation that are others, as the file has them: "workers=4, topology=ring". */
typedef struct changes {
    char text[256]; /* "": none is another */
    bool branch;    /* an option of a branch is another */
} changes;

/* Compare one option; `ours` has room for its text. One of cooperation may be another. */
static fast_err check_option(const fast_run *run, const char *path, const fast_tensors *tensors,
                             const char *name, char *ours, changes *changed)
{
    const fast_option *option = fast__options_find(fast__run_options, name);
    char key[32];

    snprintf(key, sizeof key, "option.%s", name);
    const char *theirs = get_saved(tensors, key);
    if (!theirs[0]) /* the default, or of a version that had no such option */
        theirs = default_text(option);
    fast__config_text(option, &run->config, ours, VALUE_MAX);
    if (strcmp(theirs, ours) == 0)
        return FAST_OK;
    if (may_branch(run, name, theirs, ours)) {
        changed->branch = true;
        return FAST_OK;
    }
    if (is_in(cooperation, name)) {
        const size_t used = strlen(changed->text);

        snprintf(changed->text + used, sizeof changed->text - used, "%s%s=%.60s",
                 used > 0 ? ", " : "", name, theirs);
        return FAST_OK;
    }
    return fast__fail(
        FAST_EINVAL, "%s was saved with %s=%.100s, and this run has %s=%.100s; give the same%s",
        path, option->name, theirs, option->name, ours,
        is_in(branching, name) && !run->config.branch ? ", or branch=yes for a branch of that run"
                                                      : "");
}

/* Compare the options of the file with the run's, as canonical text: lr=0.10 equals lr=0.1. Fails
 * with one sentence that names the first difference. */
static fast_err check_options(fast_run *run, const char *path, const fast_tensors *tensors,
                              changes *changed)
{
    char *ours = NULL;
    FAST_TRY(fast__alloc("an option's text", VALUE_MAX, 1, &ours));
    fast_err err = FAST_OK;
    for (const char *const *name = matching; *name && !err; name++)
        err = check_option(run, path, tensors, *name, ours, changed);
    for (const char *const *name = matching_later; *name && !err; name++)
        err = check_option(run, path, tensors, *name, ours, changed);
    fast__free(ours);
    return err;
}

/* Refuse a checkpoint of another network or of other training data. */
static fast_err check_hashes(fast_run *run, const char *path, const fast_tensors *tensors)
{
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, network_hash(run));
    if (strcmp(get_saved(tensors, "network"), text) != 0)
        return fast__fail(FAST_EINVAL, "%s was saved with another network under the name %.100s",
                          path, run->config.model);
    snprintf(text, sizeof text, "%016" PRIx64, fast__run_data_hash(run));
    if (strcmp(get_saved(tensors, "data_hash"), text) != 0)
        return fast__fail(FAST_EINVAL,
                          "%s was saved with other training data under the name %.100s", path,
                          run->config.data);
    return FAST_OK;
}

/* Number of tensors that hold the state of actors, of any strategy. */
static int64_t state_count(const fast_tensors *tensors)
{
    int64_t count = 0;

    for (int64_t i = 0; i < fast__tensors_count(tensors); i++) {
        const char *name = fast__tensors_at(tensors, i)->name;

        count += strncmp(name, "worker/", 7) == 0 || strncmp(name, "server/", 7) == 0;
    }
    return count;
}

/* Refuse a file that lacks a tensor, or has one of another shape; `changed`: the state of actors
 * is of no use. */
static fast_err check_tensors(fast_run *run, const char *path, const fast_tensors *tensors,
                              bool changed)
{
    const fast_learner *learner = run->learner;
    FAST_TRY(fast__weights_check(path, tensors, &learner->params, ""));
    FAST_TRY(fast__weights_check(path, tensors, &learner->state, ""));
    const int slots = slot_count(run);
    for (int slot = 0; slot < slots; slot++) {
        char prefix[FAST_SLOT_PREFIX_MAX];
        fast__weights_slot_prefix(slot, prefix);
        FAST_TRY(fast__weights_check(path, tensors, &learner->params, prefix));
    }
    if (run->evaluation.best.model) {
        FAST_TRY(fast__weights_check(path, tensors, &learner->params, FAST_BEST_PREFIX));
        FAST_TRY(fast__weights_check(path, tensors, &learner->state, FAST_BEST_PREFIX));
    }
    const int64_t count = learner->params.segment_count * (1 + slots) +
                          learner->state.segment_count + best_count(run) +
                          (changed ? state_count(tensors) : fast__saved_states_count(run));
    for (int64_t i = 0; i < fast__tensors_count(tensors); i++)
        if (fast__tensors_at(tensors, i)->dtype != FAST_F32)
            return fast__fail(FAST_EINVAL, "%s: \"%s\" is not F32, as a checkpoint's tensors are",
                              path, fast__tensors_at(tensors, i)->name);
    if (!changed)
        FAST_TRY(fast__saved_states_check(run, path, tensors));
    if (fast__tensors_count(tensors) != count)
        return fast__fail(FAST_EINVAL, "%s has %lld tensors, and this run's checkpoint has %lld",
                          path, (long long)fast__tensors_count(tensors), (long long)count);
    return FAST_OK;
}

/* Everything that the file says, against its hash: damage is found before anything is touched. The
 * tensors are hashed in the file's order, which is that of saving. */
static fast_err check_content(const char *path, const fast_tensors *tensors)
{
    uint64_t hash = hash_meta(get_saved, tensors);
    for (int64_t i = 0; i < fast__tensors_count(tensors); i++)
        hash = hash_tensor(fast__tensors_at(tensors, i), hash);
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    if (strcmp(get_saved(tensors, "hash"), text) != 0)
        return fast__fail(FAST_EFORMAT, "%s is damaged: it is not what was saved", path);
    return FAST_OK;
}

/* Return whether a finished run may have exchanged at its end though no period ended there. */
static bool exchanges_at_end(const fast_run *run)
{
    const char *sends = run->team ? run->team->strategy->sends : "";
    return run->config.workers > 1 &&
           (strcmp(sends, "weights") == 0 || strcmp(sends, "differences") == 0);
}

/* Return whether the file has the optimizer's state: only of workers that are equal it is one. */
static bool has_rule_state(const fast_run *run)
{
    for (int slot = 0; slot < slot_count(run); slot++)
        if (fast__vector_max_abs(run->learner->params.count,
                                 fast__optimizer_slot(run->optimizer, slot)) > 0)
            return true;
    return false;
}

/* Say what other workers, or those of another strategy or topology, continue with. */
static void note_cooperation(fast_run *run, const fast_tensors *tensors, const saved *s,
                             const changes *changed)
{
    const bool rule = has_rule_state(run), lost = slot_count(run) > 0 && !rule;

    snprintf(run->text.resume_note, sizeof run->text.resume_note,
             "the checkpoint was saved with %s, after step %lld: this run continues with its "
             "model%s, at step %lld, after as many samples%s%s",
             changed->text, (long long)s->step, rule ? " and the optimizer's state" : "",
             (long long)run->step,
             state_count(tensors) == 0 ? ""
             : lost                    ? "; replicas, optimizer states, residuals and messages of "
                                         "its actors are dropped"
                                       : "; replicas, residuals and messages of its actors are "
                                         "dropped",
             run->step >= run->step_count ? "; no step is left: give more steps or epochs" : "");
}

/* Say why the resumed run does not repeat to the bit: another engine, other measured choices,
 * another length, faults; or why it trains nothing. */
static void note_changes(fast_run *run, const fast_tensors *tensors, const saved *s,
                         const changes *changed)
{
    char plan[32];
    snprintf(plan, sizeof plan, "%016" PRIx64, fast__run_plan_hash(run));
    if (changed->text[0]) { /* the bits are others in any case */
        note_cooperation(run, tensors, s, changed);
        return;
    }
    if (strcmp(get_saved(tensors, "engine"), run->config.engine) != 0)
        snprintf(
            run->text.resume_note, sizeof run->text.resume_note,
            "the checkpoint was computed by engine %.30s, this run by %s: it continues, but not "
            "to the bit",
            get_saved(tensors, "engine"), run->config.engine);
    else if (strcmp(get_saved(tensors, "plan_hash"), plan) != 0)
        snprintf(
            run->text.resume_note, sizeof run->text.resume_note,
            "the engine's measured choices are not those of the checkpoint: the run continues, "
            "but not to the bit");
    else if (run->step >= run->step_count && s->step_count != run->step_count)
        snprintf(run->text.resume_note, sizeof run->text.resume_note,
                 "the checkpoint is at step %lld and this run ends at step %lld: nothing is "
                 "trained; give more steps or epochs to continue",
                 (long long)run->step, (long long)run->step_count);
    else if (changed->branch)
        snprintf(run->text.resume_note, sizeof run->text.resume_note,
                 "a branch of the checkpoint's run after step %lld: other learning rate, schedule "
                 "or options of the optimizer",
                 (long long)s->step);
    else if (s->step_count != run->step_count)
        snprintf(
            run->text.resume_note, sizeof run->text.resume_note,
            "the checkpoint's run had %lld steps, this one has %lld: the learning rate follows "
            "the new length%s",
            (long long)s->step_count, (long long)run->step_count,
            s->step == s->step_count && exchanges_at_end(run)
                ? ", and the exchange of workers at the former end, inside a period, stays"
                : "");
    else if (run->config.faults[0])
        snprintf(run->text.resume_note, sizeof run->text.resume_note,
                 "the schedule of faults starts again, at time 0 of this run: it continues, but "
                 "not to the bit where faults change the model");
}

/* Does the option have one of two values in the file's run and in this one? NULL: any, but the same
 * one. */
static bool is_alike(const fast_run *run, const fast_tensors *tensors, const char *name,
                     const char *one, const char *other)
{
    const fast_option *option = fast__options_find(fast__run_options, name);
    char key[32], ours[FAST_PATH_MAX];

    snprintf(key, sizeof key, "option.%s", name);
    const char *theirs = get_saved(tensors, key);
    if (!theirs[0])
        theirs = default_text(option);
    fast__config_text(option, &run->config, ours, sizeof ours);
    if (!one)
        return strcmp(theirs, ours) == 0;
    return (strcmp(theirs, one) == 0 || strcmp(theirs, other) == 0) &&
           (strcmp(ours, one) == 0 || strcmp(ours, other) == 0);
}

/* Did the file's run and this one sum the same gradients? */
static bool sums_alike(const fast_run *run, const fast_tensors *tensors)
{
    return is_alike(run, tensors, "strategy", "auto", "allreduce") ||
           (strncmp(run->config.strategy, "zero", 4) == 0 &&
            is_alike(run, tensors, "strategy", NULL, NULL));
}

/* Did the file's run take the same steps, with its model split in another way? Its replicas are as
 * many, its updates are synchronous, and its actors had no state of their own. */
static bool is_split_otherwise(const fast_run *run, const fast_tensors *tensors)
{
    return fast__moved_replicas(tensors) == run->config.replicas && state_count(tensors) == 0 &&
           sums_alike(run, tensors) && fast__moved_flushed(run, tensors) &&
           is_alike(run, tensors, "topology", NULL, NULL) &&
           is_alike(run, tensors, "phases", NULL, NULL);
}

/* Take over the values of a file whose metadata, options and tensors all fit. Before that only
 * run->step and the team's phase change: which tensors belong to the file depends on them, and a
 * run whose checkpoint is refused is closed. */
static fast_err load_checked(fast_run *run, const char *path, const fast_tensors *tensors)
{
    saved s = { 0 };
    changes others = { "", false };
    FAST_TRY(read_meta(path, tensors, &s));
    FAST_TRY(check_options(run, path, tensors, &others));
    FAST_TRY(check_hashes(run, path, tensors));
    if (others.text[0] && is_split_otherwise(run, tensors))
        others.text[0] = '\0';
    const bool changed = others.text[0] != 0;
    run->step = changed ? fast__moved_step(run, tensors, s.step) : s.step;
    FAST_TRY(fast__phase_find(run->team));
    FAST_TRY(check_tensors(run, path, tensors, changed));
    FAST_TRY(check_content(path, tensors));

    fast_learner *learner = run->learner;
    fast__weights_copy(tensors, &learner->params, "", learner->w);
    fast__weights_copy(tensors, &learner->state, "", learner->s);
    for (int slot = 0; slot < slot_count(run); slot++) {
        char prefix[FAST_SLOT_PREFIX_MAX];
        fast__weights_slot_prefix(slot, prefix);
        fast__weights_copy(tensors, &learner->params, prefix,
                           fast__optimizer_slot(run->optimizer, slot));
    }
    if (run->evaluation.best.model) {
        float *best = run->evaluation.best.model;
        fast__weights_copy(tensors, &learner->params, FAST_BEST_PREFIX, best);
        fast__weights_copy(tensors, &learner->state, FAST_BEST_PREFIX,
                           best + learner->params.count);
    }
    if (!changed)
        FAST_TRY(fast__saved_states_load(run, tensors));
    run->result.validation_loss = s.validation_loss;
    run->result.validation_accuracy = s.validation_accuracy;
    run->result.best_step = s.best_step;
    run->evaluation.best.value = s.best;
    run->evaluation.best.waited = s.waited;
    run->progress.sums = changed ? (fast_run_sums){ 0 } : fast__moved_sums(run, tensors, s.sums);
    run->progress.step_evaluated = changed ? -1 : s.step_evaluated;
    run->result.test_loss = s.test_loss;
    run->result.test_accuracy = s.test_accuracy;
    note_changes(run, tensors, &s, &others);
    return FAST_OK;
}

fast_err fast__checkpoint_load(fast_run *run, const char *path)
{
    fast_tensors *tensors = NULL;
    FAST_TRY(fast__tensors_open(path, &tensors));
    const fast_err err = load_checked(run, path, tensors);
    fast__tensors_close(tensors);
    return err;
}

/* Hash the value of an option, after `hash`. */
static uint64_t hash_option(const fast_run *run, const char *name, uint64_t hash)
{
    char text[FAST_PATH_MAX];

    fast__config_text(fast__options_find(fast__run_options, name), &run->config, text, sizeof text);
    return fast__hash(text, strlen(text), hash);
}

fast_err fast__checkpoint_path(const fast_run *run, bool weights, char *path, size_t size)
{
    char folder[FAST_PATH_MAX];
    FAST_TRY(fast__file_cache_folder(folder, sizeof folder));
    size_t used = strlen(folder);
    snprintf(folder + used, sizeof folder - used, "/checkpoints");
    FAST_TRY(fast__file_make_folder(folder));
    uint64_t hash = 0;
    for (const char *const *name = matching; *name; name++)
        hash = hash_option(run, *name, hash);
    for (const char *const *name = matching_later; *name; name++)
        if (!is_default(run, *name))
            hash = hash_option(run, *name, fast__hash(*name, strlen(*name), hash));
    const int length = snprintf(path, size, "%s/%.*s-%08" PRIx64 "%s.safetensors", folder,
                                (int)strcspn(run->config.model, ":"), run->config.model,
                                hash & 0xffffffff, weights ? "-weights" : "");
    if (length < 0 || (size_t)length >= size)
        return fast__fail(FAST_EIO, "the path of FAST's cache folder is too long");
    return FAST_OK;
}
