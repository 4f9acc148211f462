/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs of a run: from its options to chains, and the checks that they fit.
 *
 *   codec, codec_down   opened with the run, before anything is read: unknown names and codecs that
 *                       contradict each other are found here
 *   strategies          declare what they send and whether it can be encoded: a codec that does not
 *                       fit is refused with the reason, before anything runs
 *
 * One worker sends nothing: its codec is checked, and never used. A phase may have codecs of its
 * own (phases.c): run->codecs.up is that of the current one. trainer/encoded.c uses them.
 *
 * Checks of a strategy in order, each FAST_EINVAL with the reason and what to take instead:
 *
 *     uses_codec     workers share memory, or send nothing, or send it as it is
 *     momentum       only for gradients, and in one of codec, codec_down and the optimizer
 *     shared scales  only for sums over all workers
 *     signs alone    only for gradients that all workers vote on
 *     answers        "nothing": workers send each other messages through flows
 *                    "slices": weights are read as they are, so codec_down must be none
 *                    "values": answers may get lost, so each must stand alone
 *                    "weights": sent as differences from a copy that both ends have
 *     no answers     a collective sum: fast__coded_check() of the options
 */
#include "run/team.h"

#include "base/memory.h"
#include "codec/shadow.h"
#include "space/space.h"

#include <string.h>

/* Are messages of the current phase encoded? */
static bool is_coded(const fast_run *run)
{
    return run->codecs.up && !fast__chain_is_none(run->codecs.up);
}

fast_codec_pair fast__run_codecs(const fast_run *run)
{
    return (fast_codec_pair){ .up = run->codecs.up,
                              .down = run->codecs.down,
                              .scope = run->config.codec_scope,
                              .feedback = run->config.feedback,
                              .small = run->config.codec_small,
                              .sum = run->config.codec_sum };
}

/* Is either direction encoded? */
static bool encodes(const fast_run *run)
{
    const fast_codec_pair codecs = fast__run_codecs(run);

    return fast__codec_pair_encodes(&codecs);
}

int64_t fast__codec_members(const fast_run *run)
{
    const fast_mesh *mesh = &run->config.split;
    int64_t most = run->config.replicas;

    for (int64_t s = 0; mesh->counts[0] > 0 && s < mesh->pipe; s++)
        most = mesh->counts[s] > most ? mesh->counts[s] : most;
    return most;
}

/* Options of an encoded sum of this run, for checks before anything runs. */
static fast_coded_options options_of(const fast_run *run, const fast_layout *layout, int64_t rank)
{
    const fast_codec_pair codecs = fast__run_codecs(run);

    return fast__codec_pair_options(&codecs, layout, fast__codec_members(run), rank,
                                    (uint64_t)run->config.seed);
}

fast_err fast__codec_check(const fast_run *run)
{
    const fast_coded_options options = options_of(run, NULL, 0);

    if (run->codecs.down && (fast__chain_traits(run->codecs.down) & FAST_CODEC_MODEL) &&
        !(fast__chain_traits(run->codecs.down) & FAST_CODEC_DEFERS))
        return fast__fail(FAST_EINVAL,
                          "codec_down=%s compares changes with the weights that they change, which "
                          "the sender of answers does not know; take budget, topk, or skip",
                          fast__chain_text(run->codecs.down));
    if (run->codecs.down && (fast__chain_traits(run->codecs.down) & FAST_CODEC_LOSS))
        return fast__fail(FAST_EINVAL,
                          "codec_down=%s chooses by the loss, which the sender of answers does not "
                          "have; leave out choose",
                          fast__chain_text(run->codecs.down));
    return is_coded(run) ? fast__coded_check_coder(&options) : FAST_OK;
}

/* Refuse a chain that cannot compress a file, which is one vector: codecs that add up, or vote. */
static fast_err check_file_codec(const char *spec)
{
    const unsigned messages = FAST_CODEC_ACCUMULATES | FAST_CODEC_VOTES | FAST_CODEC_RULE;
    fast_chain *chain = NULL;

    FAST_TRY(fast__chain_open(spec, &chain));
    const bool fits = !(fast__chain_traits(chain) & messages) && !fast__chain_selects(chain);
    fast__chain_close(chain);
    return fits ? FAST_OK
                : fast__fail(FAST_EINVAL,
                             "save_codec=%.100s is for messages, which follow one another; take "
                             "kmeans, fp16 or a lossless stage",
                             spec);
}

fast_err fast__run_codec_open(fast_run *run)
{
    FAST_ASSERT(run->codecs.chains[0] == NULL && run->codecs.chains[1] == NULL);
    FAST_TRY(check_file_codec(run->config.save_codec));
    FAST_TRY(fast__chain_open_with(run->config.codec, run->codecs.filter, &run->codecs.chains[0]));
    FAST_TRY(
        fast__chain_open_with(run->config.codec_down, run->codecs.filter, &run->codecs.chains[1]));
    run->codecs.up = run->codecs.chains[0];
    run->codecs.down = run->codecs.chains[1];
    return fast__codec_check(run);
}

void fast__run_codec_close(fast_run *run)
{
    for (int i = 0; i < 2; i++) {
        fast__chain_close(run->codecs.chains[i]);
        run->codecs.chains[i] = NULL;
    }
    run->codecs.up = run->codecs.down = NULL;
}

/* Refuse codecs with a strategy that does not encode `what` it sends. */
static fast_err refuse(const fast_run *run, const fast_strategy *strategy, const char *what)
{
    const bool up = is_coded(run);
    const char *option = up ? "codec" : "codec_down";
    const char *text = fast__chain_text(up ? run->codecs.up : run->codecs.down);

    if (strategy->shares_memory)
        return fast__fail(FAST_EINVAL,
                          "workers of strategy %s share one model in memory and send no message "
                          "that %s=%s could encode; leave it out",
                          strategy->name, option, text);
    if (strategy->sends && strcmp(strategy->sends, "nothing") == 0)
        return fast__fail(FAST_EINVAL,
                          "strategy %s sends nothing that %s=%s could encode; leave it out",
                          strategy->name, option, text);
    return fast__fail(FAST_EINVAL,
                      "strategy %s does not encode the %s that it sends; leave out %s=%s",
                      strategy->name, what ? what : "vectors", option, text);
}

/* Momentum is for gradients, and of the codecs and the rule one has it. */
static fast_err check_momentum(const fast_run *run, const fast_strategy *strategy, const char *what)
{
    const bool up = (fast__chain_traits(run->codecs.up) & FAST_CODEC_MOMENTUM) != 0;
    const bool down = (fast__chain_traits(run->codecs.down) & FAST_CODEC_MOMENTUM) != 0;
    const bool rule = fast__optimizer_momentum(run->optimizer) > 0;
    const char *text = fast__chain_text(up ? run->codecs.up : run->codecs.down);

    if (!up && !down)
        return FAST_OK;
    if (!what || strcmp(what, "gradients") != 0)
        return fast__fail(FAST_EINVAL,
                          "strategy %s sends %s, and codec %s adds momentum, which is for "
                          "gradients; take dgc:momentum=0, or topk",
                          strategy->name, what ? what : "vectors", text);
    if (rule)
        return fast__fail(FAST_EINVAL,
                          "codec %s has the momentum that optimizer %s has as well: it would count "
                          "twice; take optimizer=sgd, or dgc:momentum=0",
                          text, fast__optimizer_rule(run->optimizer)->name);
    if (up && down)
        return fast__fail(FAST_EINVAL,
                          "codec %s has momentum on both ways: it would count twice; "
                          "take codec_down=dgc:momentum=0, or topk",
                          text);
    return FAST_OK;
}

/* A codec that does part of a rule's work is for gradients that no other codec has changed. */
static fast_err check_rule(const fast_run *run, const fast_strategy *strategy, const char *what)
{
    const bool up = (fast__chain_traits(run->codecs.up) & FAST_CODEC_RULE) != 0;
    const bool down = (fast__chain_traits(run->codecs.down) & FAST_CODEC_RULE) != 0;
    const bool gradients = what && strcmp(what, "gradients") == 0;

    return !down && (!up || gradients)
               ? FAST_OK
               : fast__fail(FAST_EINVAL,
                            "%s=%s changes gradients as an update rule does, and strategy %s sends "
                            "%s; leave out its options beta and adagrad",
                            up && !gradients ? "codec" : "codec_down",
                            fast__chain_text(up && !gradients ? run->codecs.up : run->codecs.down),
                            strategy->name,
                            up && !gradients ? (what ? what : "vectors") : "answers by it");
}

/* Bare signs say nothing of lengths: for gradients the rate does, for nothing else. */
static fast_err check_votes(const fast_run *run, const fast_strategy *strategy, const char *what)
{
    const bool gradients = what && strcmp(what, "gradients") == 0;
    const bool sums = strategy->answers && strcmp(strategy->answers, "sums") == 0;

    if ((fast__chain_traits(run->codecs.up) & FAST_CODEC_VOTES) && (!gradients || sums))
        return fast__fail(FAST_EINVAL,
                          "codec=%s sends signs alone, which is enough for gradients that all "
                          "workers vote on, not for %s of strategy %s; take sign",
                          fast__chain_text(run->codecs.up), sums ? "parts of a vote" : what,
                          strategy->name);
    if ((fast__chain_traits(run->codecs.down) & FAST_CODEC_VOTES) && sums)
        return fast__fail(FAST_EINVAL,
                          "codec_down=%s sends signs alone, where strategy %s answers with sums; "
                          "take sign",
                          fast__chain_text(run->codecs.down), strategy->name);
    return FAST_OK;
}

/* Workers agree on scales before a sum of all of them, which servers may make; other messages go
 * when they are ready. */
static fast_err check_shares(const fast_run *run, const fast_strategy *strategy, bool sums)
{
    const bool up = (fast__chain_traits(run->codecs.up) & FAST_CODEC_SHARES) != 0;
    const bool down = (fast__chain_traits(run->codecs.down) & FAST_CODEC_SHARES) != 0;

    if (down || (up && !sums))
        return fast__fail(
            FAST_EINVAL,
            "%s=%s: the workers of a sum share a scale, and strategy %s does not sum "
            "%s; use it as codec of allreduce, local or ps:slack=0, or leave out share",
            down ? "codec_down" : "codec",
            fast__chain_text(down ? run->codecs.down : run->codecs.up), strategy->name,
            down ? "its answers" : "over all workers");
    return FAST_OK;
}

/* Strategies whose workers send each other messages, through flows. */
static fast_err check_peers(const fast_run *run, const fast_strategy *strategy, const char *what)
{
    const bool exact = (fast__chain_traits(run->codecs.up) & FAST_CODEC_LOSSLESS) != 0;
    const bool values = strcmp(what, "values") == 0;

    if (!fast__chain_is_none(run->codecs.down))
        return fast__fail(FAST_EINVAL,
                          "workers of strategy %s send each other one kind of message, which codec "
                          "encodes; leave out codec_down=%s",
                          strategy->name, fast__chain_text(run->codecs.down));
    if (run->config.feedback != 0 && strcmp(what, "gradients") != 0 && !exact)
        return fast__fail(FAST_EINVAL, "strategy %s sends weights %s; leave out feedback",
                          strategy->name,
                          values ? "as they are, without a residual"
                                 : "as differences, which include earlier losses by themselves");
    return fast__flow_check(run->codecs.up, strcmp(what, "weights") == 0, values);
}

/* Of strategies whose messages each stand alone. */
static fast_err check_answers(const fast_run *run, const fast_strategy *strategy, const char *what,
                              const char *answers)
{
    const unsigned exact = FAST_CODEC_RAW | FAST_CODEC_LOSSLESS;
    const unsigned down = fast__chain_traits(run->codecs.down);
    const bool values = strcmp(answers, "values") == 0;

    if (strcmp(answers, "nothing") == 0)
        return check_peers(run, strategy, what);
    if (strcmp(answers, "slices") == 0 && !fast__chain_is_none(run->codecs.down))
        return fast__fail(FAST_EINVAL,
                          "strategy %s: priority and rows read the weights in slices as they are; "
                          "leave out codec_down=%s, or these options",
                          strategy->name, fast__chain_text(run->codecs.down));
    if (what && strcmp(what, "weights") == 0) {
        FAST_TRY(fast__shadow_check(run->codecs.up, "codec"));
        if (run->config.feedback != 0)
            return fast__fail(FAST_EINVAL,
                              "strategy %s sends weights as differences, which hold what was lost "
                              "before by themselves; leave out feedback",
                              strategy->name);
    }
    if (values && !(down & exact))
        return fast__fail(FAST_EINVAL,
                          "answers of strategy %s may get lost, so they are weights as they are, "
                          "which codec_down=%s does not keep; take fp16, bf16 or int8",
                          strategy->name, fast__chain_text(run->codecs.down));
    return strcmp(answers, "weights") == 0 ? fast__shadow_check(run->codecs.down, "codec_down")
                                           : FAST_OK;
}

fast_err fast__codec_check_strategy(const fast_run *run, const fast_strategy *strategy,
                                    const void *config)
{
    const fast_coded_options options = options_of(run, NULL, 0);
    const char *what = strategy->sends_by ? strategy->sends_by(config) : strategy->sends;
    const char *answers = strategy->answers_by ? strategy->answers_by(config) : strategy->answers;

    if (!encodes(run))
        return FAST_OK;
    if (!strategy->uses_codec || (what && strcmp(what, "sums") == 0))
        return refuse(run, strategy, what);
    if (answers && strcmp(run->config.codec_sum, "auto") != 0)
        return fast__fail(FAST_EINVAL,
                          "codec_sum=%s is how workers sum their messages, and those of strategy "
                          "%s do not; use allreduce or local, or leave it out",
                          run->config.codec_sum, strategy->name);
    if (answers && run->config.feedback == FAST_FEEDBACK_EF21)
        return fast__fail(FAST_EINVAL,
                          "feedback=ef21 is for sums over all workers, which strategy %s does not "
                          "make; use allreduce, or feedback=yes",
                          strategy->name);
    if ((fast__chain_traits(run->codecs.down) & FAST_CODEC_DEFERS) &&
        (!answers || strcmp(answers, "weights") != 0))
        return fast__fail(FAST_EINVAL,
                          "codec_down=%s has a budget for weights that are answers, and strategy "
                          "%s has none; leave it out, or take topk",
                          fast__chain_text(run->codecs.down), strategy->name);
    FAST_TRY(check_momentum(run, strategy, what));
    FAST_TRY(check_rule(run, strategy, what));
    FAST_TRY(check_votes(run, strategy, what));
    FAST_TRY(check_shares(run, strategy,
                          !answers || (strategy->synchronous && strategy->servers && what &&
                                       strcmp(what, "gradients") == 0)));
    return answers ? check_answers(run, strategy, what, answers) : fast__coded_check(&options);
}

fast_err fast__codec_check_directed(const fast_run *run, const fast_strategy *strategy,
                                    const void *config)
{
    const char *what = strategy->sends_by ? strategy->sends_by(config) : strategy->sends;

    if (!encodes(run) || run->config.workers == 1 || !what || strcmp(what, "weights") != 0 ||
        (fast__chain_traits(run->codecs.up) & fast__chain_traits(run->codecs.down) &
         FAST_CODEC_LOSSLESS))
        return FAST_OK;
    return fast__fail(FAST_EINVAL,
                      "%s: a lossy codec conserves the mean on a directed graph only with masses; "
                      "give push=yes or an undirected topology",
                      strategy->name);
}

fast_err fast__codec_sum_new(const fast_run *run, int64_t rank, fast_coded **out)
{
    const fast_coded_options o = options_of(run, fast__run_params(run), rank);

    *out = NULL;
    return encodes(run) ? fast__coded_new(&o, out) : FAST_OK;
}
