/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients that are left as factors. A strategy names the layers; while a gradient is computed the
 * learner offers the factors of each dense layer, and those of the named ones are copied, samples
 * outermost, to memory of the context: the product is never made here. A strategy composes it from
 * its own factors and those of other workers.
 *
 * Memory: rows (outputs + inputs) floats for each layer that is named. Simulated time: a gradient
 * is charged with its product in any case, so composing charges for the rows of other workers
 * alone: 2 outputs inputs operations for each, and the matrix once through memory.
 */
#include "base/err.h"
#include "base/memory.h"
#include "trainer/context.h"

/* A layer that has factors. */
typedef struct fast_layer_factors {
    fast_factored_layer layer; /* its place in w and its dimensions */
    int64_t segment;           /* number in the layout of w */
    bool wanted;               /* from the next gradient on */
    int64_t rows;              /* rows of the last gradient's factors */
    float *memory;             /* of its factors; NULL: it was never wanted */
} fast_layer_factors;

/* Describe the i-th layer with factors, by the layout of w; false: the model has no such layer, or
 * the worker has a part of it, whose passes offer none. */
static bool describe(const fast_context *c, int64_t i, fast_factored_layer *out,
                     int64_t *segment_out)
{
    const fast_learner *learner = c->learner ? c->learner : c->options.model;
    fast_factorable layer;

    FAST_ASSERT(i >= 0);
    if (c->options.params || !learner->ops->factorable ||
        !learner->ops->factorable(learner, i, &layer))
        return false;
    const fast_segment *s = &learner->params.segments[layer.segment];
    FAST_ASSERT(s->rank >= 2 && s->shape[0] > 0);
    *out = (fast_factored_layer){ .name = s->name,
                                  .offset = s->offset,
                                  .outputs = s->shape[0],
                                  .inputs = s->count / s->shape[0],
                                  .samples = layer.samples,
                                  .rows = layer.rows };
    *segment_out = layer.segment;
    return true;
}

bool fast_trainer_factored_layer(const fast_trainer *t, int64_t i, fast_factored_layer *out)
{
    int64_t segment;

    FAST_ASSERT(out != NULL);
    return describe(fast__context_of(t), i, out, &segment);
}

/* An entry for every layer that could be asked for. */
static fast_err list_layers(fast_context *c)
{
    fast_factored_layer layer;
    int64_t segment, count = 0;

    FAST_ASSERT(c->layers == NULL);
    while (describe(c, count, &layer, &segment))
        count++;
    FAST_TRY(fast__alloc("layers with factors", count, sizeof *c->layers, &c->layers));
    c->layer_count = count;
    for (int64_t i = 0; i < count; i++)
        (void)describe(c, i, &c->layers[i].layer, &c->layers[i].segment);
    return FAST_OK;
}

fast_err fast_trainer_use_factors(fast_trainer *t, int64_t i, bool wanted)
{
    fast_context *c = fast__context_of(t);
    int64_t size;

    FAST_ASSERT(c->learner != NULL);
    if (wanted && c->options.tied)
        return fast__fail(FAST_EINVAL,
                          "factors of a layer do not tie its weights: leave out factors or tied");
    if (!c->layers)
        FAST_TRY(list_layers(c));
    FAST_ASSERT(i >= 0 && i < c->layer_count);
    fast_layer_factors *f = &c->layers[i];
    if (wanted && !f->memory) {
        if (!fast__mul_size(f->layer.rows, f->layer.outputs + f->layer.inputs, &size))
            return fast__fail(FAST_ENOMEM, "factors of %lld rows", (long long)f->layer.rows);
        FAST_TRY(fast__alloc("a layer's factors", size, sizeof(float), &f->memory));
    }
    f->wanted = wanted;
    f->rows = 0;
    return FAST_OK;
}

void fast__context_factors_start(fast_context *context)
{
    FAST_ASSERT(context != NULL);
    for (int64_t i = 0; context->layers && i < context->layer_count; i++)
        context->layers[i].rows = 0;
}

bool fast__context_factors_take(fast_context *context, const fast_factors *factors,
                                int64_t *offset_out, int64_t *count_out)
{
    FAST_ASSERT(factors != NULL);
    FAST_ASSERT(offset_out != NULL && count_out != NULL);
    for (int64_t i = 0; i < context->layer_count; i++) {
        fast_layer_factors *f = &context->layers[i];

        if (!f->wanted || f->segment != factors->segment)
            continue;
        FAST_ASSERT(factors->rows <= f->layer.rows);
        fast__factors_pack(factors, f->memory);
        f->rows = factors->rows;
        *offset_out = f->layer.offset;
        *count_out = f->layer.outputs * f->layer.inputs;
        return true;
    }
    return false;
}

void fast__context_factors_refuse(fast_context *context)
{
    FAST_ASSERT(context != NULL);
    for (int64_t i = 0; context->layers && i < context->layer_count; i++)
        context->layers[i].wanted = false;
}

void fast__context_factors_free(fast_context *context)
{
    for (int64_t i = 0; context->layers && i < context->layer_count; i++)
        fast__free(context->layers[i].memory);
    fast__free(context->layers);
    context->layers = NULL;
}

const float *fast_trainer_factors(const fast_trainer *t, int64_t i, int64_t *rows_out)
{
    const fast_context *c = fast__context_of(t);

    FAST_ASSERT(rows_out != NULL);
    FAST_ASSERT(c->layers != NULL && i >= 0 && i < c->layer_count);
    FAST_ASSERT(c->layers[i].wanted);
    *rows_out = c->layers[i].rows;
    return c->layers[i].memory;
}

enum { COMPOSE_MAX = 64 }; /* factors that are composed at a time */

fast_err fast_trainer_multiply_factors(fast_trainer *t, int64_t i, const float *const *factors,
                                       const int64_t *rows, int64_t count, float *y)
{
    fast_factored_layer layer;
    fast_outer parts[COMPOSE_MAX];
    const int64_t begin = fast__steady_now(t->actor);
    double remote = 0; /* rows of other workers */

    FAST_ASSERT(y != NULL);
    if (count < 0 || count > COMPOSE_MAX)
        return fast__fail(FAST_EINVAL, "factors of %lld workers; at most %d are multiplied out",
                          (long long)count, COMPOSE_MAX);
    if (!fast_trainer_factored_layer(t, i, &layer))
        return fast__fail(FAST_EINVAL, "there is no layer %lld with factors", (long long)i);
    const int64_t size = layer.outputs * layer.inputs;
    for (int64_t p = 0; p < count; p++) {
        parts[p] = (fast_outer){ factors[p], factors[p] + rows[p] * layer.outputs, rows[p],
                                 layer.outputs };
        remote += p > 0 ? (double)rows[p] : 0;
    }
    fast__factors_compose(parts, count, layer.inputs, 0, size, y);
    if (count > 1)
        fast__context_summed(fast__context_of(t), t->g);
    fast__count(&t->actor->counters.compute_ns, fast__steady_now(t->actor) - begin);
    return fast_charge(t->actor, 2 * remote * (double)size, (double)sizeof(float) * (double)size);
}
