/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages that one worker has. Strategies, rules and codecs see the vectors of all of them as one;
 * passes are those of the stages, whose vectors are ranges of these:
 *
 *     w    | chunk 0 | chunk 1 | ... |
 */
#include "model/chunked.h"

#include "base/memory.h"
#include "tensor/vector.h"

typedef struct chunked_learner {
    fast_learner base;     /* first: the contract's pointers convert */
    fast_learner **stages; /* [count] */
    int64_t count;         /* number of stages */
} chunked_learner;

/* The contract's gradient(): it takes messages to other workers. */
static fast_err chunked_gradient(fast_learner *learner, fast_gradient *gradient)
{
    FAST_ASSERT(learner->slots > 0);
    (void)gradient;
    return fast__fail(FAST_ENOTSUP, "a stage of a split model has no gradient of one micro-batch");
}

/* The contract's evaluate(): the whole model is evaluated. */
static fast_err chunked_evaluate(fast_learner *learner, fast_evaluation *inout)
{
    FAST_ASSERT(learner->slots > 0);
    (void)inout;
    return fast__fail(FAST_ENOTSUP, "a stage of a split model cannot be evaluated by itself");
}

/* Free the stages before the vectors. */
static void chunked_free(fast_learner *learner)
{
    chunked_learner *self = (chunked_learner *)learner;

    if (!learner)
        return;
    for (int64_t i = 0; self->stages && i < self->count; i++)
        if (self->stages[i])
            self->stages[i]->ops->free(self->stages[i]);
    fast__free(self->stages);
    fast__vector_free(learner->w);
    fast__vector_free(learner->g);
    fast__vector_free(learner->s);
    fast__free(learner);
}

static const fast_learner_ops chunked_ops = {
    .name = "stages",
    .gradient = chunked_gradient,
    .evaluate = chunked_evaluate,
    .free = chunked_free,
};

/* Allocate the vectors, and make the stages. */
static fast_err fill(const fast_chunked_options *o, chunked_learner *self)
{
    const fast_device *device = o->device ? o->device : &fast__host;
    fast_learner *base = &self->base;
    int64_t params = 0, state = 0;

    FAST_TRY(fast__vector_new(device, "the parameters", base->params.count, &base->w));
    FAST_TRY(fast__vector_new(device, "the gradients", base->params.count, &base->g));
    FAST_TRY(fast__vector_new(device, "the state", base->state.count, &base->s));
    FAST_TRY(fast__alloc("stages", o->count, sizeof(fast_learner *), &self->stages));
    for (int64_t i = 0; i < o->count; i++) {
        fast_staged_options chunk = o->chunks[i];

        chunk.w = base->w + params;
        chunk.g = base->g + params;
        chunk.s = base->s + state;
        FAST_TRY(fast__staged_new(&chunk, &self->stages[i]));
        params += chunk.params.count;
        state += chunk.state.count;
        base->flops += self->stages[i]->flops;
        base->slots += self->stages[i]->slots;
    }
    FAST_ASSERT(params == base->params.count && state == base->state.count);
    const fast_learner *first = self->stages[0];
    base->epoch_steps = first->epoch_steps;
    base->own_samples = first->own_samples;
    base->batch = first->batch;
    base->parts = first->parts;
    return FAST_OK;
}

fast_err fast__chunked_new(const fast_chunked_options *options, fast_learner **out)
{
    chunked_learner *self = NULL;

    FAST_ASSERT(options->count >= 1);
    FAST_TRY(fast__alloc("a learner", 1, sizeof *self, &self));
    self->base =
        (fast_learner){ .ops = &chunked_ops, .params = options->params, .state = options->state };
    self->count = options->count;
    const fast_err err = fill(options, self);
    if (err) {
        chunked_free(&self->base);
        return err;
    }
    *out = &self->base;
    return FAST_OK;
}

fast_learner *const *fast__chunked_stages(const fast_learner *learner)
{
    FAST_ASSERT(learner->ops == &chunked_ops);
    return ((const chunked_learner *)learner)->stages;
}
