/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals of split models, each with its reason.
 *
 *   options       parts of a run that see whole models: tied weights, preprocessing actors, phases,
 *                 recordings, learners of the caller's
 *   rules         those that observe the whole gradient, or need whole matrices that shards cut
 *   strategies    those whose workers choose their steps alone, since the stages of a replica take
 *                 theirs together; those that read the outputs of whole models
 *   shards        strategies and codecs that would change the layers that all shards have in
 *                 different ways
 *   replicas      of single stages: strategies other than a mean of gradients
 *   checkpoints   of asynchronous strategies: a snapshot stops each worker between two steps
 */
#include "codec/chain.h"
#include "run/micro_sizes.h"
#include "run/team.h"

#include <stdio.h>
#include <string.h>

/* Refuse options of a run whose model is split. */
static fast_err check_options(const fast_team *team)
{
    const fast_run *run = team->run;
    const fast_run_config *c = &run->config;
    const char *what = run->foreign               ? "a learner of the caller's"
                       : c->phases[0]             ? "phases"
                       : c->tied == 1             ? "tied=yes"
                       : c->preprocess > 0        ? "preprocess"
                       : c->record[0]             ? "record"
                       : c->replay[0]             ? "replay"
                       : c->faults[0]             ? "faults"
                       : fast__run_has_micro(run) ? "micro_batch"
                                                  : NULL;

    if (what)
        return fast__fail(FAST_EINVAL,
                          "mesh=%s splits the model, which %s does not allow; leave "
                          "out one of them",
                          c->mesh, what);
    if (fast__pipe_divides((fast_pipeline)c->pipeline) && c->recompute == FAST_RUN_RECOMPUTE_YES)
        return fast__fail(FAST_EINVAL,
                          "pipeline=zero_bubble reads activations in both halves of a backward "
                          "pass, and recompute=yes has them in one; leave out recompute");
    if (strcmp(c->cuts, "measured") == 0 && strcmp(c->transport, "threads") != 0)
        return fast__fail(FAST_EINVAL,
                          "cuts=measured times layers in one process of this machine; use "
                          "transport=threads, and give the cuts in its JSON to other runs");
    return FAST_OK;
}

/* Refuse update rules that need more than the worker's part. */
static fast_err check_rule(const fast_team *team)
{
    const fast_run *run = team->run;
    const fast_run_config *c = &run->config;
    const fast_optimizer *optimizer = run->optimizer;
    const char *name = fast__optimizer_rule(optimizer)->name;

    if (c->split.tensor > 1 && fast__optimizer_measures(optimizer) &&
        !fast__optimizer_by_slice(optimizer))
        return fast__fail(FAST_EINVAL,
                          "mesh=%s: optimizer %s needs whole matrices, and shards have parts of "
                          "them; use another one, like adam or lamb",
                          c->mesh, name);
    if (c->split.pipe * c->split.tensor > 1 && fast__optimizer_rule(optimizer)->observe)
        return fast__fail(FAST_EINVAL,
                          "mesh=%s: optimizer %s observes the whole gradient, and each worker has "
                          "a part of it; use another one, like adam",
                          c->mesh, name);
    return FAST_OK;
}

/* A strategy, or one with an option, that a split model does not allow. */
typedef struct split_refusal {
    const char *strategy; /* its name */
    const char *option;   /* of it; NULL: any */
    double plain;         /* value of the option that is allowed */
    const char *why;      /* continues "strategy NAME" */
} split_refusal;

static const char alone[] =
    "lets a worker skip or repeat steps by itself, and the stages of a replica take theirs "
    "together";

static const char masters[] =
    "has a master that serves until all other actors have ended, and those of two parts would "
    "wait for each other";

static const split_refusal refusals[] = {
    { "distill", NULL, 0, "has students that learn from the outputs of whole models" },
    { "ensemble", NULL, 0, "draws a model for each worker, which has a part of one" },
    { "strads", NULL, 0,
      "chooses parts of the gradient of one micro-batch at a time, and a stage has none alone" },
    { "mpca", NULL, 0, masters },
    { "dogwild", NULL, 0, masters },
    { "federated", NULL, 0, alone },
    { "quorum", NULL, 0, alone },
    { "ps", "epochs", 1, alone },
    { "ps", "redundant", 1, alone },
    { "ps", "backup", 0, alone },
};

/* Return true if the strategy's option has another value than the plain one. */
static bool is_set(const fast_team *team, const split_refusal *r)
{
    const fast_option *o =
        r->option ? fast__options_find(team->strategy->options, r->option) : NULL;
    char text[FAST_PATH_MAX];
    double value = 0;

    if (!r->option)
        return true;
    if (!o)
        return false;
    fast__config_text(o, team->config, text, sizeof text);
    return sscanf(text, "%lf", &value) == 1 && value != r->plain;
}

fast_err fast__split_can_resume(const fast_team *team, const char *option)
{
    const fast_run_config *c = &team->run->config;

    if (!c->mesh[0] || team->strategy->synchronous)
        return FAST_OK;
    return fast__fail(FAST_EINVAL,
                      "mesh=%s: a checkpoint of strategy %s stops each worker between two steps of "
                      "its own, and the stages of a replica wait for each other inside of one; "
                      "take a synchronous strategy%s%s",
                      c->mesh, team->strategy->name, option ? ", or leave out " : "",
                      option ? option : "");
}

/* Refuse a strategy that does not act on parts of a model. */
static fast_err check_strategy(const fast_team *team)
{
    const fast_strategy *s = team->strategy;
    const fast_run_config *c = &team->run->config;

    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const split_refusal *r = &refusals[i];

        if (strcmp(s->name, r->strategy) == 0 && is_set(team, r))
            return fast__fail(FAST_EINVAL,
                              "mesh=%s: strategy %s%s%s %s; use allreduce, ps or local", c->mesh,
                              s->name, r->option ? ":" : "", r->option ? r->option : "", r->why);
    }
    if (!s->synchronous && c->split.pipe > 1 && !fast__pipe_drains((fast_pipeline)c->pipeline)) {
        char pipeline[32];

        fast__config_text(fast__options_find(fast__run_options, "pipeline"), c, pipeline,
                          sizeof pipeline);
        return fast__fail(FAST_EINVAL,
                          "pipeline=%s: its stages are at different batches, and those of "
                          "an asynchronous replica stop and are evaluated at one step; use 1f1b "
                          "with strategy %s",
                          pipeline, s->name);
    }
    if (c->checkpoint[0] || c->resume[0])
        return fast__split_can_resume(team, c->checkpoint[0] ? "checkpoint" : "resume");
    return FAST_OK;
}

/* Refuse strategies that do not take the mean of the gradients of a stage's replicas at each step:
 * those of other stages are not as many. */
static fast_err check_replicas(const fast_team *team)
{
    const fast_run_config *c = &team->run->config;

    if (c->split.counts[0] == 0 || strcmp(team->strategy->name, "allreduce") == 0)
        return FAST_OK;
    return fast__fail(FAST_EINVAL,
                      "mesh=%s: strategy %s needs as many replicas of every stage; use allreduce, "
                      "or give data instead of replicas",
                      c->mesh, team->strategy->name);
}

/* Refuse what would make the layers differ that all shards of a stage have. */
static fast_err check_shards(const fast_team *team)
{
    const fast_run *run = team->run;
    const fast_run_config *c = &run->config;
    const fast_chain *chains[2] = { run->codecs.up, run->codecs.down };

    if (c->split.tensor == 1 || c->split.data == 1)
        return FAST_OK;
    if (!team->strategy->synchronous)
        return fast__fail(FAST_EINVAL,
                          "mesh=%s: shards have some layers in common, to which strategy %s "
                          "applies updates in an order that differs from shard to shard; use pipe "
                          "instead of tensor, or a synchronous strategy",
                          c->mesh, team->strategy->name);
    for (int i = 0; i < 2; i++)
        if (chains[i] && !fast__chain_is_none(chains[i]) &&
            !(fast__chain_traits(chains[i]) & FAST_CODEC_LOSSLESS))
            return fast__fail(
                FAST_EINVAL,
                "mesh=%s: shards have some layers in common, which codec %s rounds or "
                "selects in another way at each shard; use pipe instead of tensor, or "
                "a lossless codec",
                c->mesh, fast__chain_text(chains[i]));
    return FAST_OK;
}

fast_err fast__split_check(const fast_team *team)
{
    FAST_TRY(check_options(team));
    FAST_TRY(check_rule(team));
    FAST_TRY(check_strategy(team));
    FAST_TRY(check_replicas(team));
    return check_shards(team);
}
