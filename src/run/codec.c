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
 * One worker sends nothing: its codec is checked, and never used. A checkpoint holds one model, and
 * what each worker owes is no part of it: codecs that owe nothing may be resumed, and do so to the
 * bit, because chance is drawn by the number of the sum.
 */
#include "run/team.h"

#include "base/memory.h"
#include "comm/flow.h"
#include "comm/space.h"

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

fast_err fast__run_codec_open(fast_run *run)
{
    FAST_ASSERT(run->codec == NULL && run->codec_down == NULL);
    FAST_TRY(fast__chain_open(run->config.codec, &run->codec));
    FAST_TRY(fast__chain_open(run->config.codec_down, &run->codec_down));
    const fast_coded_options options = options_of(run, NULL, 0);
    if (!is_coded(run) && fast__chain_is_none(run->codec_down))
        return FAST_OK;
    return fast__coded_check(&options);
}

void fast__run_codec_close(fast_run *run)
{
    fast__chain_close(run->codec);
    fast__chain_close(run->codec_down);
    run->codec = run->codec_down = NULL;
}

fast_err fast__codec_check_strategy(const fast_run *run, const fast_strategy *strategy)
{
    const bool down = run->codec_down && !fast__chain_is_none(run->codec_down);

    if (strategy->codes && strategy->servers && down &&
        !(fast__chain_traits(run->codec_down) & FAST_CODEC_RAW))
        return fast__fail(FAST_EINVAL,
                          "servers of strategy %s answer with weights, which codec_down=%s does "
                          "not keep; take fp16, bf16, int8 or one that loses nothing",
                          strategy->name, fast__chain_text(run->codec_down));
    if (!is_coded(run) || strategy->codes)
        return FAST_OK;
    if (strategy->sends && strcmp(strategy->sends, "nothing") == 0)
        return fast__fail(FAST_EINVAL,
                          "strategy %s sends nothing that codec=%s could encode; leave it out",
                          strategy->name, fast__chain_text(run->codec));
    return fast__fail(
        FAST_EINVAL,
        "strategy %s does not encode the %s that it sends yet; leave out codec=%s, or "
        "use strategy allreduce, local, elastic_sync or ps",
        strategy->name, strategy->sends ? strategy->sends : "vectors",
        fast__chain_text(run->codec));
}

void fast__codec_drop(fast_seat *seat)
{
    while (seat->flows) {
        fast_flow *flow = seat->flows;

        seat->flows = *fast__flow_next(flow);
        fast__flow_free(flow);
    }
}

fast_err fast_trainer_flow(fast_trainer *t, const fast_flow_options *options, fast_flow **out)
{
    fast_seat *seat = t->run;
    const fast_run *run = seat->team->run;
    const int64_t actor = fast_actor_id(t->actor);
    const fast_coded_options o = options_of(run, fast__run_params(run), actor);
    fast_flow *flow = seat->flows;

    if (seat->flow_phase != seat->team->phase) /* those of another strategy */
        fast__codec_drop(seat);
    seat->flow_phase = seat->team->phase;
    for (flow = seat->flows; flow && !fast__flow_is(flow, options);)
        flow = *fast__flow_next(flow);
    if (!flow) {
        FAST_TRY(fast__flow_new(&o, options, &seat->figures, &flow));
        *fast__flow_next(flow) = seat->flows;
        seat->flows = flow;
    }
    *out = flow;
    return FAST_OK;
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

fast_err fast_trainer_space(fast_trainer *t, const fast_space_options *options, fast_space **out)
{
    fast_seat *seat = t->run;
    const fast_run *run = seat->team->run;
    fast_space_options o = *options;
    fast_matrix *matrices = NULL;
    fast_err err;

    FAST_ASSERT(options->tensors[0].count == t->count);
    if (!is_coded(run) && (!run->codec_down || fast__chain_is_none(run->codec_down)))
        return fast_space_open(t->actor, options, out);
    FAST_TRY(list_matrices(fast__run_params(run), &matrices, &o.matrix_count));
    o.matrices = matrices;
    o.codec = fast__chain_text(run->codec);
    o.codec_down = fast__chain_text(run->codec_down);
    o.feedback = run->config.feedback;
    o.codec_scope = run->config.codec_scope;
    o.codec_small = run->config.codec_small;
    o.epoch_rounds = t->epoch_steps;
    err = fast_space_open(t->actor, &o, out);
    if (!err)
        fast__space_figures(*out, &seat->figures);
    fast__free(matrices);
    return err;
}

fast_err fast__codec_can_resume(const fast_team *team, const char *option)
{
    const fast_run *run = team->run;
    fast_coded *coded = NULL;

    if (!is_coded(run) || team->workers == 1)
        return FAST_OK;
    const fast_coded_options options = options_of(run, fast__run_params(run), 0);
    FAST_TRY(fast__coded_new(&options, &coded));
    const bool owes = fast__coded_remembers(coded);
    fast__coded_free(coded);
    if (!owes)
        return FAST_OK;
    return fast__fail(FAST_ENOTSUP,
                      "codec %s keeps what a worker has not sent yet, which a checkpoint does not "
                      "hold: leave out %s",
                      fast__chain_text(run->codec), option);
}

fast_codes fast_trainer_codes(const fast_trainer *t)
{
    const fast_seat *seat = t->run;
    const fast_run *run = seat->team->run;

    if (!is_coded(run) || t->workers == 1)
        return FAST_CODES_NONE;
    const unsigned both = fast__chain_traits(run->codec) & fast__chain_traits(run->codec_down);
    if (both & FAST_CODEC_LOSSLESS)
        return FAST_CODES_EXACT;
    return both & FAST_CODEC_RAW ? FAST_CODES_WEIGHTS : FAST_CODES_CHANGES;
}

fast_err fast_trainer_sum(fast_trainer *t, float *x)
{
    fast_seat *seat = t->run;
    const fast_run *run = seat->team->run;
    const double progress = (double)t->step / (double)t->epoch_steps;

    FAST_ASSERT(x != NULL && t->group != NULL);
    if (fast_trainer_codes(t) == FAST_CODES_NONE)
        return fast_allreduce(t->group, x, t->count, FAST_SOON);
    if (!seat->coded) {
        fast_coded_options o = options_of(run, fast__run_params(run), t->rank);

        o.figures = &seat->figures;
        FAST_TRY(fast__coded_new(&o, &seat->coded));
        fast__coded_restart(seat->coded, seat->step_begun);
    }
    return fast__coded_sum(seat->coded, t->group, t->step, progress, x, FAST_SOON);
}
