/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one actor's context: where it starts, what a restart and another phase leave of it,
 * and its end.
 *
 *   reset   values of the run's model, state of the run's rule, no residuals, no blocks, no spaces:
 *           a new run, a restarted worker
 *   enter   values of the run's model; the rule's state stays unless the phase resets it
 *   start   a program on it: nothing changes but what belongs to the program before
 *
 * The vectors of a context are on the device of the run's model, which a strategy does not see:
 * kernels find the device of a vector by its address.
 */
#include "trainer/context.h"

#include "base/memory.h"
#include "tensor/vector.h"
#include "trainer/ties.h"

#include <stdio.h>
#include <string.h>

void fast__rule_state_clear(fast_optimizer *optimizer, int64_t count)
{
    float *slot;

    FAST_ASSERT(optimizer != NULL);
    FAST_ASSERT(count >= 0);
    for (int i = 0; (slot = fast__optimizer_slot(optimizer, i)) != NULL; i++)
        fast__vector_fill(count, 0, slot);
}

/* Copy the blocks of a vector that differ. */
static void copy_changed(int64_t count, const float *from, float *to)
{
    enum { BLOCK = 1024 }; /* 4 KiB: a page */

    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t n = count - i < BLOCK ? count - i : BLOCK;

        if (!fast__vector_equal(n, from + i, to + i))
            fast__vector_copy(n, from + i, to + i);
    }
}

/* Copy all of a vector of the model, or the elements that a map names. */
static void copy_range(const fast_split_map *map, int64_t count, const float *from, float *to)
{
    if (map)
        fast__split_map_scatter(map, from, to);
    else
        copy_changed(count, from, to);
}

void fast__rule_state_copy(fast_optimizer *to, fast_optimizer *from, const fast_split_map *map,
                           int64_t count)
{
    float *slot;

    FAST_ASSERT(to != NULL && from != NULL);
    FAST_ASSERT(count >= 0);
    for (int i = 0; to != from && (slot = fast__optimizer_slot(to, i)) != NULL; i++)
        copy_range(map, count, fast__optimizer_slot(from, i), slot);
}

/* Point the strategy's view to this actor's vectors. */
static fast_err make_vectors(fast_context *c)
{
    fast_trainer *t = &c->trainer;

    FAST_ASSERT(t->workers > 0);
    if (c->learner) {
        t->w = c->learner->w;
        t->g = c->learner->g;
        t->s = c->learner->s;
        FAST_TRY(fast__alloc("contributions", fast_trainer_share_count(t), sizeof(double),
                             &c->shares.w));
        return fast__alloc("contributions", fast_trainer_share_count(t), sizeof(double),
                           &c->shares.g);
    }
    FAST_TRY(fast__vector_new(fast__context_device(c), "a server's parameters",
                              t->count + t->state_count, &c->memory));
    t->w = c->memory;
    t->s = c->memory + t->count;
    return FAST_OK;
}

/* Take over all that a phase has its own of. */
static void take_phase(fast_context *c, const fast_context_phase *phase)
{
    fast_trainer *t = &c->trainer;

    FAST_ASSERT(phase->step >= 0 && phase->step_count >= 0 && phase->servers >= 0);
    c->options.phase = *phase;
    c->codecs.pair = phase->codecs;
    t->topology = phase->topology;
    t->servers = phase->servers;
    t->step_count = phase->step_count;
    t->period = 1;
}

fast_err fast__context_init(fast_context *context, const fast_context_options *options)
{
    const fast_learner *model = options->model;
    const fast_layout *params = options->params ? options->params : &model->params;
    const fast_layout *state = options->params ? options->state : &model->state;

    FAST_ASSERT(options->host != NULL && model != NULL && options->rates != NULL);
    FAST_ASSERT(options->rank >= 0 && options->workers > 0);
    *context = (fast_context){ .options = *options, .learner = options->learner };
    context->trainer = (fast_trainer){ .rank = options->rank,
                                       .workers = options->workers,
                                       .worker_ids = options->worker_ids,
                                       .server_ids = options->server_ids,
                                       .count = params->count,
                                       .state_count = state->count,
                                       .epoch_steps = model->epoch_steps,
                                       .micro_batches = model->parts > 1 ? model->parts : 1 };
    take_phase(context, &options->phase);
    FAST_TRY(make_vectors(context));
    if (options->pipe)
        FAST_TRY(fast__pipe_init(context, options->pipe));
    context->optimizer = options->rule;
    return options->rule ? FAST_OK
                         : fast__optimizer_new(fast__context_device(context), options->optimizer,
                                               params, &context->optimizer);
}

/* The state of a strategy, which another one has no use for. */
static void drop_strategy(fast_context *c)
{
    FAST_ASSERT(c != NULL);
    fast__flows_drop(&c->codecs.flows);
    fast__context_drop_blocks(c);
    fast__context_forget(c);
    fast__context_forget_spaces(c);
    fast__context_uncut(c);
}

void fast__context_fini(fast_context *context)
{
    FAST_ASSERT(context != NULL);
    if (context->own_w)
        fast__context_unshare(context);
    drop_strategy(context);
    fast__pipe_fini(&context->pipe);
    fast__coded_free(context->codecs.sum);
    fast__context_factors_free(context);
    fast__ties_free(context->ties);
    if (!context->options.rule)
        fast__optimizer_free(context->optimizer);
    fast__vector_free(context->memory);
    fast__vector_free(context->centre);
    fast__free(context->shares.w);
    fast__free(context->shares.g);
    *context = (fast_context){ 0 };
}

void fast__context_take_model(fast_context *context)
{
    const fast_learner *model = context->options.model;
    fast_trainer *t = &context->trainer;

    FAST_ASSERT(context->options.map || model->params.count == t->count);
    FAST_ASSERT(t->count <= model->params.count);
    FAST_ASSERT(t->state_count <= model->state.count);
    if (t->w == model->w)
        return;
    copy_range(context->options.map, t->count, model->w, t->w);
    if (context->options.map)
        fast__split_map_scatter(context->options.state_map, model->s, t->s);
    else
        fast__vector_copy(t->state_count, model->s, t->s);
}

void fast__context_reset(fast_context *context, fast_optimizer *rule, int64_t step)
{
    fast_trainer *t = &context->trainer;

    FAST_ASSERT(step >= 0);
    fast__context_take_model(context);
    fast__ties_free(context->ties); /* of other values, perhaps */
    context->ties = NULL;
    if (rule)
        fast__rule_state_copy(context->optimizer, rule, context->options.map, t->count);
    else if (t->actor) /* else it is new, and takes no memory where it is not touched */
        fast__rule_state_clear(context->optimizer, t->count);
    if (context->shares.w)
        memset(context->shares.w, 0,
               (size_t)fast_trainer_share_count(t) * sizeof *context->shares.w);
    if (context->codecs.sum)
        fast__coded_restart(context->codecs.sum, step);
    drop_strategy(context);
    fast__context_factors_refuse(context);
    context->work.settle = NULL;
    t->step = context->step_begun = step;
    context->resumed = false;
    t->centre = NULL;
    fast_trainer_reference(t, NULL);
}

void fast__context_enter(fast_context *context, const fast_context_phase *phase, bool reset_rule)
{
    fast_trainer *t = &context->trainer;

    FAST_ASSERT(phase != NULL);
    FAST_ASSERT(phase->step <= phase->step_count);
    fast__context_take_model(context);
    if (reset_rule)
        fast__rule_state_clear(context->optimizer, t->count);
    take_phase(context, phase);
    t->step = context->step_begun = phase->step;
    context->resumed = false;
    t->free_running = false;
    t->centre = NULL;
    fast_trainer_reference(t, NULL);
    t->centre_version = 0;
    /* Flows, blocks and spaces belong to the old strategy. */
    drop_strategy(context);
    context->work.settle = NULL;
    fast__coded_free(context->codecs.sum); /* its residual is of the old strategy's vectors */
    context->codecs.sum = NULL;
}

void fast__context_start(fast_context *context, fast_actor *actor)
{
    FAST_ASSERT(actor != NULL);
    context->trainer.actor = actor;
    context->err = FAST_OK;
    context->work.uncharged = context->work.operations = context->work.bytes = 0;
    context->work.part_count = 0;
    fast__context_forget(context);
    context->shares.summed_step = 0;
    context->traffic = (fast_context_traffic){ .step_first = context->trainer.step };
    fast__context_close_spaces(context);
}

void fast__context_stop(fast_context *context)
{
    FAST_ASSERT(context->learner != NULL || context->own_w == NULL);
    if (context->own_w)
        fast__context_unshare(context);
    fast__pipe_drop(&context->pipe);
    fast__context_uncut(context);
}

fast_err fast__context_settle(fast_context *context)
{
    FAST_ASSERT(context != NULL);
    return context->work.settle ? context->work.settle(context->work.settle_ctx) : FAST_OK;
}
