/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --codec auto: which codec makes this run's steps the shortest, or that none does.
 *
 * The run is rehearsed: for no codec and for each candidate a run like it, from the same model on
 * the same data, cluster and transport, takes a few steps. On `sim` the virtual time of a step is
 * what counts: it holds the link, the codec's charged speed on vectors of this length, what hides
 * behind the gradient, queues at servers and the strategy's own way of sending, and repeats. Real
 * machines are too noisy for that: there a step is
 *
 *     t = compute + encode + decode + bytes beta
 *
 * of what the rehearsals measured, with beta of the transport's fitted model (comm/cost_model.h).
 * Exchanges that come every few steps come at every step of a rehearsal. With the candidates c
 * in the order of the list,
 *
 *     choice <- none;   choice <- c  where  t(c) < (1 - GAIN) t(choice)
 *
 * so that one which loses more must gain more, and the choice takes at most 1 / (1 - GAIN) of the
 * shortest step. `codec_down=auto` is chosen in this way, after the other. Workers of several
 * processes add their measurements up, and so choose alike.
 *
 * Candidates lose less than a point of accuracy with the run's own rule and learning rate; other
 * codecs need settings that are not this option's to change. Workers that share memory send
 * nothing over a link, and nothing is tried. Cost: two rehearsals for each candidate, of
 * WARM_STEPS and of STEPS steps, before the run begins; the steps that the longer one takes more
 * count, for the first one differs.
 *
 * Order of events, in the thread that opens the run, before its team exists:
 *
 *     plain step --> each of `ups` with the answers' codec as it is
 *                --> each of `downs`, if a codec was chosen for messages
 *                --> each of `ups` again, if one was chosen for answers: they may be smaller now
 *
 * Example with GAIN = 0.05: none 100 ms, bf16 70 ms, int8 68 ms, topk 40 ms. bf16 is taken (70 <
 * 95), int8 is not (68 > 66.5), topk is (40 < 66.5). A candidate that the run refuses (FAST_EINVAL)
 * counts as infinitely slow; any other error of a rehearsal fails the opening of the run.
 */
#include "base/memory.h"
#include "comm/cost_model.h"
#include "run/team.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_STEPS = 1, STEPS = 5, CHOICES_MAX = 16, OPTIONS_MAX = 96 };

static const double GAIN = 0.05; /* of a step's time that a codec is to save */

typedef struct candidate {
    const char *codec; /* a chain */
    const char *why;   /* it may be taken without a look at rule and rate */
} candidate;

/* From the one that loses least to those that lose more. */
static const candidate ups[] = {
    { "bf16", "off by 2^-8 of each value" },
    { "int8", "off by half of 1/127 of the largest of 1,024 values" },
    { "qsgd:code=elias", "right in the mean" },
    { "terngrad", "right in the mean but for what is cut, which is fed back" },
    { "topk:ratio=0.01", "what is left out is fed back" },
    { NULL, NULL },
};

/* Candidates for codec_down; answers may be weights. */
static const candidate downs[] = {
    { "bf16", "off by 2^-8 of each value" },
    { "int8", "off by half of 1/127 of the largest of 1,024 values" },
    { NULL, NULL },
};

/* Settings of a rehearsal: no files, no early end, no faults and no other strategy. */
static const char *const without[] = { "save=",       "load=",
                                       "checkpoint=", "checkpoint_every=1",
                                       "resume=",     "log=",
                                       "trace=",      "target=0",
                                       "phases=",     "faults=",
                                       "holdout=0",   "evaluate=no",
                                       "epochs=1",    "representative=auto",
                                       "store=none",  "name=",
                                       "batch_of=",   NULL };

/* The run that rehearsals try out. */
typedef struct rehearsal {
    const fast_run *run;        /* whose options are tried */
    const char *const *options; /* the run's */
    fast_run_like_fn *open;     /* opens one */
    void *ctx;                  /* for it */
} rehearsal;

/* Measures of a step, on average; sums over the workers once they agreed. */
enum { STEP_COMPUTE, STEP_CODEC, STEP_BYTES, STEP_PARTS };
enum { SUMS = CHOICES_MAX * STEP_PARTS + 1 }; /* the last counts processes */

/* Result of one rehearsal. */
typedef struct trial {
    const char *codec;        /* the chain */
    double step_s;            /* seconds of a step; INFINITY: refused */
    double parts[STEP_PARTS]; /* seconds of computing and of codecs, and bytes sent */
    double pays_below;        /* break-even bandwidth, Mbit/s; NAN without a codec */
} trial;

/* "local:period=50" -> "local:period=1": exchanges at every step. In place: it gets no longer. */
static void exchange_always(char *spec)
{
    static const char *const periods[] = { "period=", "fetch=", "push=" };

    for (size_t i = 0; i < sizeof periods / sizeof periods[0]; i++) {
        char *at = strstr(spec, periods[i]);
        char *value = at ? at + strlen(periods[i]) : NULL;

        if (!at || (at[-1] != ':' && at[-1] != ',') || strtoll(value, NULL, 10) < 2)
            continue;
        *value++ = '1';
        memmove(value, value + strspn(value, "0123456789"),
                strlen(value + strspn(value, "0123456789")) + 1);
    }
}

/* The options of a rehearsal: the run's, and over them its own. `texts` holds what is made here. */
static fast_err list_options(const fast_run *run, const char *const *options, const char *codec,
                             const char *down, int steps, char (*texts)[FAST_SPEC_MAX + 16],
                             const char **list)
{
    int64_t count = 0;

    for (; options && *options; options++) {
        if (count == OPTIONS_MAX - 24)
            return fast__fail(FAST_EINVAL, "codec=auto: more than %lld options", (long long)count);
        list[count++] = *options;
    }
    for (const char *const *word = without; *word; word++)
        list[count++] = *word;
    if (strchr(run->config.strategy, ':')) {
        snprintf(texts[0], sizeof texts[0], "strategy=%s", run->config.strategy);
        exchange_always(texts[0]);
        list[count++] = texts[0];
    }
    snprintf(texts[1], sizeof texts[1], "codec=%s", codec);
    snprintf(texts[2], sizeof texts[2], "codec_down=%s", down);
    snprintf(texts[3], sizeof texts[3], "steps=%d", steps);
    for (int i = 1; i <= 3; i++)
        list[count++] = texts[i];
    if (strcmp(codec, "none") == 0) {
        list[count++] = "feedback=auto";
        list[count++] = "codec_scope=auto";
        list[count++] = "codec_small=0";
    }
    list[count] = NULL;
    return FAST_OK;
}

/* Take `steps` steps. */
static fast_err take_steps(const rehearsal *h, const char *codec, const char *down, int steps,
                           fast_result *out)
{
    char(*texts)[FAST_SPEC_MAX + 16] = NULL;
    const char *list[OPTIONS_MAX];
    fast_run *like = NULL;
    fast_err err;

    FAST_TRY(fast__alloc("options of a rehearsal", 4, sizeof *texts, &texts));
    err = list_options(h->run, h->options, codec, down, steps, texts, list);
    if (!err)
        err = h->open(h->ctx, list, &like);
    if (!err)
        err = fast_run_train(like);
    if (!err)
        *out = *fast_run_result(like);
    fast_run_close(like);
    fast__free(texts);
    return err;
}

/* Rehearse one choice of codecs. A choice that is refused is no candidate; other failures are the
 * run's. */
static fast_err rehearse(const rehearsal *h, const char *codec, const char *down, trial *out)
{
    const double more = STEPS - WARM_STEPS;
    fast_result warm = { 0 }, all = { 0 };
    fast_err err = take_steps(h, codec, down, WARM_STEPS, &warm);

    if (!err)
        err = take_steps(h, codec, down, STEPS, &all);
    out->step_s = (all.step_s * STEPS - warm.step_s * WARM_STEPS) / more;
    out->parts[STEP_COMPUTE] = all.compute_s / STEPS;
    out->parts[STEP_CODEC] = all.codec_s / STEPS;
    out->parts[STEP_BYTES] = (double)(all.bytes_sent - warm.bytes_sent) / more;
    out->pays_below = all.break_even_mbit_per_s;
    if (err != FAST_EINVAL)
        return err;
    out->step_s = INFINITY;
    return FAST_OK;
}

/* Over processes: one world in which all workers add up what they measured, and fit the model of
 * the link. */

typedef struct agreement {
    float sums[SUMS]; /* of each trial's parts */
    double beta;      /* seconds a byte */
    fast_mutex mutex; /* workers of this process write the same */
    bool told;        /* one of them has put its process's parts in */
} agreement;

/* The program of an actor that adds up the measures of all processes and fits the cost of their
 * links, so that all choose the same codec. */
static fast_err agree_main(fast_actor *actor, void *ctx)
{
    agreement *a = ctx;
    fast_group *all = NULL;
    float sums[SUMS] = { 0 };
    fast_err err;

    fast__mutex_lock(&a->mutex); /* measures are of a process, not of each of its workers */
    if (!a->told)
        memcpy(sums, a->sums, sizeof sums);
    a->told = true;
    fast__mutex_unlock(&a->mutex);
    FAST_TRY(fast_group_all(actor, NULL, &all));
    err = fast__model_fit(all, FAST_SOON);
    if (!err)
        err = fast_allreduce(all, sums, SUMS, FAST_SOON);
    const double beta = !err && all->cost ? all->cost->beta : 0;
    fast_group_free(all);
    FAST_TRY(err);
    fast__mutex_lock(&a->mutex);
    memcpy(a->sums, sums, sizeof sums);
    a->beta = beta;
    fast__mutex_unlock(&a->mutex);
    return FAST_OK;
}

/* The trials' times, the same at all processes: *compute of the first ever (NAN before), and the
 * link's speed. */
static fast_err agree(const fast_run *run, trial *trials, int count, double *compute, double *mbit)
{
    const fast_run_config *c = &run->config;
    fast_actors_config config;
    fast_actors_result result = { 0 };
    fast_world *world = NULL;
    agreement a = { .beta = 0 };
    const fast_role role = { "worker", c->workers, agree_main, &a };
    fast_err err;

    for (int i = 0; i < count * STEP_PARTS; i++)
        a.sums[i] = (float)trials[i / STEP_PARTS].parts[i % STEP_PARTS];
    a.sums[SUMS - 1] = 1;
    memset(&config, 0, sizeof config);
    fast__options_default(fast__actors_options, &config);
    snprintf(config.transport, sizeof config.transport, "%s", c->transport);
    config.timeout = c->timeout;
    fast__mutex_init(&a.mutex);
    err = fast__world_open(&config, &role, 1, &world);
    if (!err)
        err = fast__world_run(world, &result);
    fast__world_close(world);
    fast__mutex_fini(&a.mutex);
    FAST_TRY(err);
    if (isnan(*compute)) /* the first one's stands for all */
        *compute = (double)(a.sums[STEP_COMPUTE] / a.sums[SUMS - 1]);
    *mbit = a.beta > 0 ? 8e-6 / a.beta : NAN;
    for (int i = 0; i < count; i++) {
        const float *sums = a.sums + (ptrdiff_t)i * STEP_PARTS;

        if (!isinf(trials[i].step_s))
            trials[i].step_s = *compute + (double)(sums[STEP_CODEC] / a.sums[SUMS - 1]) +
                               a.beta * (double)sums[STEP_BYTES] / (double)c->workers;
    }
    return FAST_OK;
}

/* Choosing. */

/* Best choice so far. */
typedef struct choice {
    const char *up; /* the chains */
    const char *down;
    double step_s;     /* with them */
    double pays_below; /* as in trial */
    double plain_s;    /* as it would be with nothing chosen */
    double other_s;    /* the shortest of those that were not taken at the time */
    const char *other; /* its chain */
    double compute_s;  /* of a step, where time is not virtual */
    double mbit_per_s; /* of the link; NAN: unknown */
} choice;

/* Try a list in one direction, while the other's chain stays. */
static fast_err try_list(const rehearsal *h, const candidate *list, bool up, choice *best)
{
    trial trials[CHOICES_MAX];
    int count = 0;

    for (; list[count].codec; count++) {
        const char *codec = list[count].codec;

        FAST_ASSERT(count < CHOICES_MAX);
        trials[count] = (trial){ .codec = codec, .pays_below = NAN };
        FAST_TRY(rehearse(h, up ? codec : best->up, up ? best->down : codec, &trials[count]));
    }
    if (strcmp(h->run->config.transport, "sim") != 0)
        FAST_TRY(agree(h->run, trials, count, &best->compute_s, &best->mbit_per_s));
    for (int i = 0; i < count; i++) {
        const trial *t = &trials[i];

        if (t->step_s < (1 - GAIN) * best->step_s) {
            *(up ? &best->up : &best->down) = t->codec;
            best->step_s = t->step_s;
            best->pays_below = t->pays_below;
        } else if (t->step_s < best->other_s) {
            best->other_s = t->step_s;
            best->other = t->codec;
        }
    }
    return FAST_OK;
}

/* Try codecs for messages, then for answers, then for messages again: they may be smaller now. */
static fast_err try_all(const rehearsal *h, bool up, bool down, choice *best)
{
    trial plain = { .codec = best->up };

    FAST_TRY(rehearse(h, best->up, best->down, &plain));
    if (strcmp(h->run->config.transport, "sim") != 0)
        FAST_TRY(agree(h->run, &plain, 1, &best->compute_s, &best->mbit_per_s));
    best->step_s = best->plain_s = plain.step_s;
    if (isinf(plain.step_s)) /* the given options are refused: opening the run tells why */
        return FAST_OK;
    if (up)
        FAST_TRY(try_list(h, ups, true, best));
    if (down && strcmp(best->up, "none") != 0) {
        FAST_TRY(try_list(h, downs, false, best));
        if (up && strcmp(best->down, "none") != 0)
            FAST_TRY(try_list(h, ups, true, best));
    }
    return FAST_OK;
}

/* Say in the run's note which codec was chosen, and by what measures. */
static void explain(fast_run *run, const choice *best)
{
    const bool back = strcmp(best->down, "none") != 0;
    char *note = run->text.codec_note;
    const size_t size = sizeof run->text.codec_note;

    if (best->step_s < best->plain_s)
        snprintf(note, size,
                 "codec=auto: %s%s%s, %.3g ms a step instead of %.3g; below %.4g Mbit/s it pays",
                 best->up, back ? ", back " : "", back ? best->down : "", best->step_s * 1e3,
                 best->plain_s * 1e3, best->pays_below);
    else if (best->other)
        snprintf(note, size,
                 "codec=auto: no codec pays, the link is faster than they are: %.3g ms a step, "
                 "with %s %.3g",
                 best->plain_s * 1e3, best->other, best->other_s * 1e3);
    else
        snprintf(note, size, "codec=auto: none, for no candidate goes with the run");
    const size_t used = strlen(note);
    if (isfinite(best->mbit_per_s))
        snprintf(note + used, size - used, "; the link has %.4g", best->mbit_per_s);
}

/* Why nothing has to be tried; NULL: it has. */
static const char *needless(const fast_run *run)
{
    const fast_run_config *c = &run->config;
    const bool threads = strcmp(c->transport, "auto") == 0 || strcmp(c->transport, "threads") == 0;

    if (c->workers == 1)
        return "one worker sends nothing";
    if (threads)
        return "workers share memory, and nothing goes over a link";
    if (run->foreign)
        return "it would take steps of your own learner to try";
    return c->steps == 0 && c->epochs == 0 ? "nothing is trained" : NULL;
}

bool fast__codec_is_auto(const fast_run *run)
{
    return strcmp(run->config.codec, "auto") == 0 || strcmp(run->config.codec_down, "auto") == 0;
}

fast_err fast__run_codec_auto(fast_run *run, const char *const *options, fast_run_like_fn *open,
                              void *ctx)
{
    fast_run_config *c = &run->config;
    const bool up = strcmp(c->codec, "auto") == 0, down = strcmp(c->codec_down, "auto") == 0;
    const rehearsal h = { run, options, open, ctx };
    const char *why = needless(run);

    choice best = { .up = up ? "none" : c->codec,
                    .down = down ? "none" : c->codec_down,
                    .pays_below = NAN,
                    .other_s = INFINITY,
                    .compute_s = NAN,
                    .mbit_per_s = NAN };

    FAST_ASSERT(up || down);
    if (c->record[0] || c->replay[0])
        return fast__fail(FAST_EINVAL,
                          "codec=auto: a recording is of one codec; give the one that is chosen");
    if (why) {
        snprintf(run->text.codec_note, sizeof run->text.codec_note, "codec=auto: no codec pays: %s",
                 why);
    } else {
        FAST_TRY(try_all(&h, up, down, &best));
        explain(run, &best);
    }
    if (up)
        snprintf(c->codec, sizeof c->codec, "%s", best.up);
    if (down)
        snprintf(c->codec_down, sizeof c->codec_down, "%s", best.down);
    run->result.codec_note = run->text.codec_note;
    return fast__run_codec_open(run);
}
