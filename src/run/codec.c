/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs of a run: from its options to what a worker's sums go through.
 *
 *   codec, codec_down     opened with the run, before anything is read: wrong words and what does
 *                         not go together are found there
 *   strategies            declare whether what they send goes through fast_trainer_sum(), flows
 *                         or spaces
 *   a seat                has a coded sum of its own (comm/coded.h), made at the first, and its
 *                         flows (comm/flow.h). What it still owes, the residual of error feedback,
 *                         lives and dies with the seat's replica
 *
 * One worker sends nothing: its codec is checked, and never used. A checkpoint holds what each
 * worker owes and what receivers hold (owed.c): it is resumed to the bit, because chance is drawn
 * by the number of the encoding. A phase of the run may have codecs of its own (then.c):
 * run->codec is that of the phase that goes on.
 */
#include "run/team.h"

#include "base/memory.h"
#include "codec/shadow.h"
#include "space/space.h"

#include <string.h>

static bool is_coded(const fast_run *run)
{
    return run->codec && !fast__chain_is_none(run->codec);
}

static fast_coded_options options_of(const fast_run *run, const fast_layout *layout, int64_t rank)
{
    const fast_run_config *c = &run->config;

    return (fast_coded_options){ .up = run->codec,
                                 .down = run->codec_down,
                                 .layout = layout,
                                 .scope = c->codec_scope,
                                 .feedback = c->feedback,
                                 .small = c->codec_small,
                                 .size = c->workers,
                                 .rank = rank,
                                 .seed = (uint64_t)c->seed };
}

fast_err fast__codec_check(const fast_run *run)
{
    const fast_coded_options options = options_of(run, NULL, 0);

    return is_coded(run) ? fast__coded_check_coder(&options) : FAST_OK;
}

fast_err fast__run_codec_open(fast_run *run)
{
    FAST_ASSERT(run->chains[0] == NULL && run->chains[1] == NULL);
    FAST_TRY(fast__chain_open(run->config.codec, &run->chains[0]));
    FAST_TRY(fast__chain_open(run->config.codec_down, &run->chains[1]));
    run->codec = run->chains[0];
    run->codec_down = run->chains[1];
    return fast__codec_check(run);
}

void fast__run_codec_close(fast_run *run)
{
    for (int i = 0; i < 2; i++) {
        fast__chain_close(run->chains[i]);
        run->chains[i] = NULL;
    }
    run->codec = run->codec_down = NULL;
}

/* A strategy that has nothing to do with codecs. */
static fast_err refuse(const fast_run *run, const fast_strategy *strategy)
{
    const bool up = is_coded(run);
    const char *option = up ? "codec" : "codec_down";
    const char *text = fast__chain_text(up ? run->codec : run->codec_down);

    if (strategy->near)
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
                      strategy->name, strategy->sends ? strategy->sends : "vectors", option, text);
}

/* Momentum is for gradients, and of the codecs and the rule one has it. */
static fast_err check_momentum(const fast_run *run, const fast_strategy *strategy, const char *what)
{
    const bool up = (fast__chain_traits(run->codec) & FAST_CODEC_MOMENTUM) != 0;
    const bool down = (fast__chain_traits(run->codec_down) & FAST_CODEC_MOMENTUM) != 0;
    const bool rule = fast__optimizer_momentum(run->optimizer) > 0;
    const char *text = fast__chain_text(up ? run->codec : run->codec_down);

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

/* Bare signs say nothing of lengths: for gradients the rate does, for nothing else. */
static fast_err check_votes(const fast_run *run, const fast_strategy *strategy, const char *what)
{
    const bool gradients = what && strcmp(what, "gradients") == 0;
    const bool sums = strategy->answers && strcmp(strategy->answers, "sums") == 0;

    if ((fast__chain_traits(run->codec) & FAST_CODEC_VOTES) && (!gradients || sums))
        return fast__fail(FAST_EINVAL,
                          "codec=%s sends signs alone, which is enough for gradients that all "
                          "workers vote on, not for %s of strategy %s; take sign",
                          fast__chain_text(run->codec), sums ? "parts of a vote" : what,
                          strategy->name);
    if ((fast__chain_traits(run->codec_down) & FAST_CODEC_VOTES) && sums)
        return fast__fail(FAST_EINVAL,
                          "codec_down=%s sends signs alone, where strategy %s answers with sums; "
                          "take sign",
                          fast__chain_text(run->codec_down), strategy->name);
    return FAST_OK;
}

/* Strategies whose workers send each other messages, through flows. */
static fast_err check_peers(const fast_run *run, const fast_strategy *strategy, const char *what)
{
    const bool exact = (fast__chain_traits(run->codec) & FAST_CODEC_LOSSLESS) != 0;
    const bool values = strcmp(what, "values") == 0;

    if (!fast__chain_is_none(run->codec_down))
        return fast__fail(FAST_EINVAL,
                          "workers of strategy %s send each other one kind of message, which codec "
                          "encodes; leave out codec_down=%s",
                          strategy->name, fast__chain_text(run->codec_down));
    if (run->config.feedback != 0 && strcmp(what, "gradients") != 0 && !exact)
        return fast__fail(FAST_EINVAL, "strategy %s sends weights %s; leave out feedback",
                          strategy->name,
                          values ? "as they are, and nothing is owed"
                                 : "as differences, which hold what was lost before by themselves");
    return fast__flow_check(run->codec, strcmp(what, "weights") == 0, values);
}

/* Of strategies whose messages each stand alone. */
static fast_err check_answers(const fast_run *run, const fast_strategy *strategy, const char *what,
                              const char *answers)
{
    const unsigned exact = FAST_CODEC_RAW | FAST_CODEC_LOSSLESS;
    const unsigned down = fast__chain_traits(run->codec_down);
    const bool values = strcmp(answers, "values") == 0;

    if (strcmp(answers, "nothing") == 0)
        return check_peers(run, strategy, what);
    if (strcmp(answers, "slices") == 0 && !fast__chain_is_none(run->codec_down))
        return fast__fail(FAST_EINVAL,
                          "strategy %s: priority reads the weights in slices as they are; leave "
                          "out codec_down=%s, or priority",
                          strategy->name, fast__chain_text(run->codec_down));
    if (what && strcmp(what, "weights") == 0) {
        FAST_TRY(fast__shadow_check(run->codec, "codec"));
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
                          strategy->name, fast__chain_text(run->codec_down));
    return strcmp(answers, "weights") == 0 ? fast__shadow_check(run->codec_down, "codec_down")
                                           : FAST_OK;
}

fast_err fast__codec_check_strategy(const fast_run *run, const fast_strategy *strategy,
                                    const void *config)
{
    const fast_coded_options options = options_of(run, NULL, 0);
    const char *what = strategy->sends_by ? strategy->sends_by(config) : strategy->sends;
    const char *answers = strategy->answers_by ? strategy->answers_by(config) : strategy->answers;

    if (!is_coded(run) && (!run->codec_down || fast__chain_is_none(run->codec_down)))
        return FAST_OK;
    if (!strategy->codes)
        return refuse(run, strategy);
    FAST_TRY(check_momentum(run, strategy, what));
    FAST_TRY(check_votes(run, strategy, what));
    return answers ? check_answers(run, strategy, what, answers) : fast__coded_check(&options);
}

fast_err fast_trainer_flow(fast_trainer *t, const fast_flow_options *options, fast_flow **out)
{
    fast_seat *seat = t->run;
    const fast_run *run = seat->team->run;
    fast_coded_options o = options_of(run, fast__run_params(run), fast_actor_id(t->actor));

    if (seat->flows.phase != seat->team->phase) /* those of another strategy */
        fast__flows_drop(&seat->flows);
    seat->flows.phase = seat->team->phase;
    o.figures = &seat->figures;
    return fast__flows_get(&seat->flows, &o, options, out);
}

fast_err fast_trainer_encode(fast_trainer *t, fast_flow *flow, const float *x, void *out,
                             size_t *size_out)
{
    const double progress = (double)t->step / (double)t->epoch_steps;

    return fast__flow_encode(flow, t->actor, t->step, progress, x, out, size_out);
}

fast_err fast_trainer_decode(fast_trainer *t, fast_flow *flow, const void *in, size_t size,
                             float scale, float *y)
{
    return fast__flow_decode(flow, t->actor, in, size, scale, y);
}

fast_err fast_trainer_follow(fast_trainer *t, fast_flow *flow, const void *in, size_t size,
                             const float **out)
{
    return fast__flow_follow(flow, t->actor, in, size, out);
}

/* The layers, and what lies between them, as matrices one after the other. */
static fast_err list_matrices(const fast_layout *layout, fast_matrix **out, int64_t *count_out)
{
    int64_t at = 0, count = 0;

    FAST_TRY(fast__alloc("layers", 2 * layout->segment_count + 1, sizeof **out, out));
    for (int64_t i = 0; i < layout->segment_count; i++) {
        const fast_segment *s = &layout->segments[i];
        const int64_t rows = s->rank > 1 && s->shape[0] > 0 ? s->shape[0] : 1;

        if (s->offset > at)
            (*out)[count++] = (fast_matrix){ 1, s->offset - at };
        if (s->count > 0)
            (*out)[count++] = (fast_matrix){ rows, s->count / rows };
        at = s->offset + s->count;
    }
    if (layout->count > at)
        (*out)[count++] = (fast_matrix){ 1, layout->count - at };
    *count_out = count;
    return FAST_OK;
}

fast_err fast__codec_space_open(fast_trainer *t, const fast_space_options *options,
                                fast_space_first_fn *first, void *ctx, fast_space **out)
{
    fast_seat *seat = t->run;
    const fast_run *run = seat->team->run;
    fast_space_options o = *options;
    fast_matrix *matrices = NULL;
    fast_err err;

    if (!is_coded(run) && (!run->codec_down || fast__chain_is_none(run->codec_down)))
        return fast__space_open(t->actor, options, first, ctx, out);
    FAST_TRY(list_matrices(fast__run_params(run), &matrices, &o.matrix_count));
    o.matrices = matrices;
    o.codec = fast__chain_text(run->codec);
    o.codec_down = fast__chain_text(run->codec_down);
    o.feedback = run->config.feedback;
    o.codec_scope = run->config.codec_scope;
    o.codec_small = run->config.codec_small;
    o.epoch_rounds = t->epoch_steps;
    err = fast__space_open(t->actor, &o, first, ctx, out);
    if (!err)
        fast__space_figures(*out, &seat->figures);
    fast__free(matrices);
    return err;
}

fast_codes fast_trainer_codes(const fast_trainer *t)
{
    const fast_seat *seat = t->run;
    const fast_run *run = seat->team->run;

    if ((!is_coded(run) && (!run->codec_down || fast__chain_is_none(run->codec_down))) ||
        (t->workers == 1 && t->servers == 0))
        return FAST_CODES_NONE;
    const unsigned both = fast__chain_traits(run->codec) & fast__chain_traits(run->codec_down);
    if (both & FAST_CODEC_LOSSLESS)
        return FAST_CODES_EXACT;
    return both & FAST_CODEC_RAW ? FAST_CODES_WEIGHTS : FAST_CODES_CHANGES;
}

static fast_err sum_new(const fast_run *run, int64_t rank, fast_coded_figures *figures,
                        fast_coded **out)
{
    fast_coded_options o = options_of(run, fast__run_params(run), rank);

    o.figures = figures;
    return fast__coded_new(&o, out);
}

fast_err fast__codec_sum_new(const fast_run *run, int64_t rank, fast_coded **out)
{
    *out = NULL;
    if (!is_coded(run) && (!run->codec_down || fast__chain_is_none(run->codec_down)))
        return FAST_OK;
    return sum_new(run, rank, NULL, out);
}

/* The seat's sums, made when they are first needed. */
static fast_err open_sums(fast_trainer *t)
{
    fast_seat *seat = t->run;

    if (seat->coded)
        return FAST_OK;
    FAST_TRY(sum_new(seat->team->run, t->rank, &seat->figures, &seat->coded));
    fast__coded_restart(seat->coded, seat->step_begun);
    return FAST_OK;
}

fast_err fast__codec_unpack(fast_seat *seat, bool flow, const fast_record *record)
{
    const fast_run *run = seat->team->run;
    fast_coded_options o = options_of(run, fast__run_params(run), seat->trainer.rank);

    if (fast_trainer_codes(&seat->trainer) == FAST_CODES_NONE)
        return fast__fail(FAST_EFORMAT,
                          "the checkpoint holds what a codec keeps, and none is used");
    if (!flow) {
        FAST_TRY(open_sums(&seat->trainer));
        return fast__coded_unpack(seat->coded, record);
    }
    o.figures = &seat->figures;
    seat->flows.phase = seat->team->phase;
    return fast__flows_unpack(&seat->flows, &o, record);
}

fast_err fast_trainer_sum(fast_trainer *t, float *x)
{
    fast_seat *seat = t->run;
    const double progress = (double)t->step / (double)t->epoch_steps;

    FAST_ASSERT(x != NULL && t->group != NULL);
    if (fast_trainer_codes(t) == FAST_CODES_NONE)
        return fast_allreduce(t->group, x, t->count, FAST_SOON);
    FAST_TRY(open_sums(t));
    return fast__coded_sum(seat->coded, t->group, t->step, progress, x, FAST_SOON);
}

void fast__codec_uncut(fast_seat *seat)
{
    fast__coded_cut_free(seat->pieces, seat->piece_count);
    seat->pieces = NULL;
    seat->piece_count = 0;
}

fast_err fast_trainer_sum_cut(fast_trainer *t, int64_t least, int64_t *count_out)
{
    fast_seat *seat = t->run;

    *count_out = 0;
    fast__codec_uncut(seat);
    if (fast_trainer_codes(t) == FAST_CODES_NONE)
        return FAST_OK;
    FAST_TRY(open_sums(t));
    FAST_TRY(fast__coded_cut(seat->coded, t->group, least, &seat->pieces, &seat->piece_count));
    seat->pieces_left = seat->piece_count;
    *count_out = seat->piece_count;
    return FAST_OK;
}

void fast_trainer_sum_piece(const fast_trainer *t, int64_t i, int64_t *offset_out,
                            int64_t *count_out)
{
    const fast_seat *seat = t->run;

    FAST_ASSERT(i >= 0 && i < seat->piece_count);
    *offset_out = seat->pieces[i].offset;
    *count_out = seat->pieces[i].count;
}

fast_err fast_trainer_sum_start(fast_trainer *t, int64_t i, const float *x)
{
    fast_seat *seat = t->run;
    /* A gradient counts its step at its end. */
    const int64_t step = t->step + (seat->computing ? 1 : 0);

    FAST_ASSERT(i >= 0 && i < seat->piece_count);
    return fast__coded_start(seat->coded, &seat->pieces[i], step,
                             (double)step / (double)t->epoch_steps, x);
}

fast_err fast_trainer_sum_finish(fast_trainer *t, int64_t i, float *x)
{
    fast_seat *seat = t->run;

    FAST_ASSERT(i >= 0 && i < seat->piece_count);
    FAST_TRY(fast__coded_finish(seat->coded, &seat->pieces[i], x, FAST_SOON));
    if (--seat->pieces_left == 0) {
        seat->pieces_left = seat->piece_count;
        fast__coded_end(seat->coded);
    }
    return FAST_OK;
}
