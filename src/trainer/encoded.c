/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums and flows through the codecs of a run. A worker has one encoded sum (comm/coded.h), made
 * with its first, and its flows (comm/flow.h). The residual of error feedback lives and dies with
 * the worker's replica. One worker without servers sends nothing: its codecs are never used.
 *
 * Cost without a codec: one allreduce for a sum.
 */
#include "trainer/context.h"

#include <math.h>

/* Does a direction change its messages at all? */
static bool is_encoded(const fast_chain *chain)
{
    return chain && !fast__chain_is_none(chain);
}

bool fast__codec_pair_encodes(const fast_codec_pair *codecs)
{
    FAST_ASSERT(codecs != NULL);
    return is_encoded(codecs->up) || is_encoded(codecs->down);
}

fast_coded_options fast__codec_pair_options(const fast_codec_pair *codecs,
                                            const fast_layout *layout, int64_t size, int64_t rank,
                                            uint64_t seed)
{
    FAST_ASSERT(codecs != NULL);
    FAST_ASSERT(size > 0);
    return (fast_coded_options){ .up = codecs->up,
                                 .down = codecs->down,
                                 .layout = layout,
                                 .scope = codecs->scope,
                                 .feedback = codecs->feedback,
                                 .small = codecs->small,
                                 .sum = codecs->sum,
                                 .size = size,
                                 .rank = rank,
                                 .seed = seed };
}

/* Until the program ends, or the next phase starts. */
void fast_trainer_reference(fast_trainer *t, const float *weights)
{
    FAST_ASSERT(t->w != NULL);
    fast__context_of(t)->codecs.reference = weights;
}

/* Codecs that select elements call it once for each encoding, in this actor's thread:
 *
 *     gradients     x changes its weight by about lr |x|: the rule's momentum is left out
 *     differences   x is the change of the weight
 *
 * A gradient counts its step at its end; reports come before. The last step of a phase is its last
 * vector too, since another phase starts without residuals. */
void fast__context_look(void *context, fast_codec_model *out)
{
    const fast_context *c = context;
    const fast_trainer *t = &c->trainer;
    const int64_t taken = t->step + (c->work.computing ? 1 : 0);

    FAST_ASSERT(taken >= 0);
    out->w = c->codecs.reference ? c->codecs.reference : t->w;
    out->taken = taken > 0 ? taken : 1;
    out->rate = c->options.phase.gradients ? (float)fast_trainer_lr(t, out->taken - 1) : 1;
    out->last = taken >= t->step_count;
    out->loss = t->step > 0 ? t->loss : NAN;
}

/* Return the options of this actor's encoded sums and flows; `rank` separates their random numbers.
 * */
static fast_coded_options options_of(fast_context *c, int64_t rank)
{
    fast_coded_options o = fast__codec_pair_options(&c->codecs.pair, fast__context_layout(c),
                                                    c->trainer.workers, rank, c->options.seed);

    o.device = fast__context_device(c);
    o.figures = &c->codecs.figures;
    o.model = fast__context_look;
    o.model_ctx = c;
    return o;
}

/* Passes over the data so far. */
static double progress_at(const fast_trainer *t, int64_t step)
{
    FAST_ASSERT(step >= 0);
    FAST_ASSERT(t->epoch_steps > 0);
    return (double)step / (double)t->epoch_steps;
}

fast_codec_fit fast_trainer_codec_fit(const fast_trainer *t)
{
    const fast_codec_pair *pair = &fast__context_of(t)->codecs.pair;

    if (!fast__codec_pair_encodes(pair) || (t->workers == 1 && t->servers == 0))
        return FAST_FIT_NONE;
    const unsigned both = fast__chain_traits(pair->up) & fast__chain_traits(pair->down);
    if (both & FAST_CODEC_LOSSLESS)
        return FAST_FIT_LOSSLESS;
    return both & FAST_CODEC_RAW ? FAST_FIT_WEIGHTS : FAST_FIT_CHANGES;
}

/* Flows. */

fast_err fast_trainer_flow(fast_trainer *t, const fast_flow_options *options, fast_flow **out)
{
    fast_context *c = fast__context_of(t);
    const fast_coded_options o = options_of(c, fast_actor_id(t->actor));

    FAST_ASSERT(options != NULL && out != NULL);
    FAST_TRY(fast__check_size("fast_flow_options", options->size, sizeof *options));
    return fast__flows_get(&c->codecs.flows, &o, options, out);
}

fast_err fast_trainer_encode(fast_trainer *t, fast_flow *flow, const float *x, void *out,
                             size_t *size_out)
{
    FAST_ASSERT(flow != NULL && x != NULL);
    FAST_ASSERT(out != NULL && size_out != NULL);
    return fast__flow_encode(flow, t->actor, t->step, progress_at(t, t->step), x, out, size_out);
}

fast_err fast_trainer_decode(fast_trainer *t, fast_flow *flow, const void *in, size_t size,
                             float scale, float *y)
{
    FAST_ASSERT(flow != NULL);
    FAST_ASSERT(y != NULL);
    return fast__flow_decode(flow, t->actor, in, size, scale, y);
}

fast_err fast_trainer_decode_values(fast_trainer *t, fast_flow *flow, const void *in, size_t size,
                                    const float **out)
{
    FAST_ASSERT(flow != NULL && out != NULL);
    return fast__flow_follow(flow, t->actor, in, size, out);
}

/* Sums. */

/* Make the worker's encoded sum when it is first needed. */
static fast_err open_sum(fast_context *c)
{
    const fast_coded_options o = options_of(c, c->trainer.rank);

    if (c->codecs.sum)
        return FAST_OK;
    FAST_TRY(fast__coded_new(&o, &c->codecs.sum));
    fast__coded_restart(c->codecs.sum, c->step_begun);
    return FAST_OK;
}

fast_err fast__context_load_codec(fast_context *context, bool flow, const fast_pack_record *record)
{
    const fast_trainer *t = &context->trainer;
    /* The random numbers of a flow depend on the actor, which does not run yet. */
    const fast_coded_options o =
        options_of(context, (context->learner ? t->worker_ids : t->server_ids)[t->rank]);

    FAST_ASSERT(record != NULL);
    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return fast__fail(FAST_EFORMAT,
                          "the checkpoint holds the state of a codec, and the run uses none");
    if (flow)
        return fast__flows_unpack(&context->codecs.flows, &o, record);
    FAST_TRY(open_sum(context));
    return fast__coded_unpack(context->codecs.sum, record);
}

fast_err fast__context_sum(fast_context *context, float *x)
{
    const fast_trainer *t = &context->trainer;

    FAST_ASSERT(x != NULL && t->group != NULL);
    fast__context_summed(context, x);
    fast__context_sum_floats(context, t->count, false);
    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return fast_allreduce(t->group, x, t->count, FAST_SOON);
    FAST_TRY(open_sum(context));
    return fast__coded_sum(context->codecs.sum, t->group, t->step, progress_at(t, t->step), x,
                           FAST_SOON);
}

fast_err fast_trainer_sum(fast_trainer *t, float *x)
{
    FAST_ASSERT(x != NULL);
    return fast__context_sum(fast__context_of(t), x);
}

void fast__context_uncut(fast_context *context)
{
    FAST_ASSERT(context->codecs.piece_count >= 0);
    fast__coded_cut_free(context->codecs.pieces, context->codecs.piece_count);
    context->codecs.pieces = NULL;
    context->codecs.piece_count = 0;
}

fast_err fast_trainer_sum_cut(fast_trainer *t, int64_t least, int64_t *count_out)
{
    fast_context *c = fast__context_of(t);
    fast_context_codecs *k = &c->codecs;

    FAST_ASSERT(count_out != NULL);
    FAST_ASSERT(least >= 0);
    *count_out = 0;
    fast__context_uncut(c);
    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    FAST_TRY(open_sum(c));
    FAST_TRY(fast__coded_cut(k->sum, t->group, least, &k->pieces, &k->piece_count));
    k->pieces_left = k->piece_count;
    *count_out = k->piece_count;
    return FAST_OK;
}

/* Piece i of the context's sum. */
static fast_coded_piece *piece_at(const fast_context *c, int64_t i)
{
    FAST_ASSERT(i >= 0 && i < c->codecs.piece_count);
    return &c->codecs.pieces[i];
}

void fast_trainer_sum_piece(const fast_trainer *t, int64_t i, int64_t *offset_out,
                            int64_t *count_out)
{
    const fast_coded_piece *piece = piece_at(fast__context_of(t), i);

    FAST_ASSERT(offset_out != NULL && count_out != NULL);
    *offset_out = piece->offset;
    *count_out = piece->count;
}

fast_err fast_trainer_sum_start(fast_trainer *t, int64_t i, const float *x)
{
    fast_context *c = fast__context_of(t);
    /* A gradient counts its step at its end. */
    const int64_t step = t->step + (c->work.computing ? 1 : 0);

    FAST_ASSERT(x != NULL);
    FAST_ASSERT(c->codecs.sum != NULL);
    fast__context_summed(c, t->g);
    return fast__coded_start(c->codecs.sum, piece_at(c, i), step, progress_at(t, step), x);
}

fast_err fast_trainer_sum_finish(fast_trainer *t, int64_t i, float *x)
{
    fast_context *c = fast__context_of(t);

    FAST_ASSERT(x != NULL);
    FAST_ASSERT(c->codecs.pieces_left > 0);
    FAST_TRY(fast__coded_finish(c->codecs.sum, piece_at(c, i), x, FAST_SOON));
    if (--c->codecs.pieces_left == 0) {
        c->codecs.pieces_left = c->codecs.piece_count;
        fast__coded_end(c->codecs.sum);
    }
    return FAST_OK;
}
