/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The foreign learner: gradients and evaluations by the caller's functions. Tensors follow each
 * other in the flat vector in the order of their declaration; weight decay applies to those of rank
 * 2 and more, as it does to the native models' weights and not to their biases.
 *
 * A gradient is reported as one range, when it is complete. A failed call becomes one sentence; the
 * functions' error text is not trusted to be one line.
 *
 * Ownership. The caller's description is copied when it is opened; its functions and their context
 * must live as long as the run. A request lends w, g, s and the batch for the call only.
 *
 *     flat vector   | tensor 0 | tensor 1 | ...       offsets are sums of counts, without gaps
 *
 * Stacks. Transports run gradients on a thread's stack. An evaluation is requested by an actor in
 * mid-program, and simulated actors have small stacks, on which another language's interpreter
 * would crash: there the evaluation gets a thread of its own, for which the actor waits, so that
 * still nothing runs concurrently.
 */
#include "model/foreign.h"

#include "base/memory.h"
#include "base/thread.h"
#include "tensor/tree_sum.h"
#include "tensor/vector.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct foreign_learner {
    fast_learner base;            /* the contract; first, so that pointers convert */
    fast_foreign_options options; /* the caller's options; all pointers borrowed */
    fast_tree_sum fold;           /* of micro-batches' gradients; unused if there is one */
} foreign_learner;

/* Check one declared tensor and fill in its segment. */
static fast_err check_tensor(const fast_learner_tensor *tensor, fast_segment *segment)
{
    int64_t count = 1;

    if (!tensor->name || !tensor->name[0] || strlen(tensor->name) >= FAST_SEGMENT_NAME_MAX)
        return fast__fail(FAST_EINVAL,
                          "a learner's tensor needs a name of 1 to %d bytes, not "
                          "\"%.80s\"",
                          FAST_SEGMENT_NAME_MAX - 1, tensor->name ? tensor->name : "");
    if (tensor->rank < 1 || tensor->rank > FAST_RANK_MAX)
        return fast__fail(FAST_EINVAL,
                          "tensor \"%s\" of the learner has rank %" PRId64
                          ", which is not between 1 and %d",
                          tensor->name, tensor->rank, FAST_RANK_MAX);
    *segment = (fast_segment){ .rank = (int)tensor->rank, .decay = tensor->rank > 1 };
    snprintf(segment->name, sizeof segment->name, "%s", tensor->name);
    for (int d = 0; d < segment->rank; d++) {
        if (tensor->shape[d] < 1 || !fast__mul_size(count, tensor->shape[d], &count))
            return fast__fail(FAST_EINVAL, "tensor \"%s\" of the learner: dimension %d is %" PRId64,
                              tensor->name, d, tensor->shape[d]);
        segment->shape[d] = tensor->shape[d];
    }
    segment->count = count;
    return FAST_OK;
}

/* Check tensors and lay them out one after the other. */
static fast_err lay_out(const fast_learner_tensor *tensors, int64_t count, fast_segment *segments,
                        fast_layout *out)
{
    int64_t end = 0;

    for (int64_t i = 0; i < count; i++) {
        FAST_TRY(check_tensor(&tensors[i], &segments[i]));
        segments[i].offset = end;
        if (!fast__add_size(end, segments[i].count, &end))
            return fast__fail(FAST_ENOMEM, "the learner's tensors are too large together");
    }
    *out = (fast_layout){ segments, count, end };
    return FAST_OK;
}

/* Check that names are unique. */
static fast_err check_names(const fast_segment *segments, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < i; j++)
            if (strcmp(segments[i].name, segments[j].name) == 0)
                return fast__fail(FAST_EINVAL, "the learner has two tensors \"%s\"",
                                  segments[i].name);
    return FAST_OK;
}

/* Copy the initial values of tensors. */
static void copy_first(const fast_learner_tensor *tensors, const fast_layout *layout, float *out)
{
    for (int64_t i = 0; i < layout->segment_count; i++)
        if (tensors[i].initial)
            memcpy(out + layout->segments[i].offset, tensors[i].initial,
                   (size_t)layout->segments[i].count * sizeof *out);
}

/* Check the caller's description. */
static fast_err check_kind(const fast_learner_kind *kind)
{
    enum { TENSORS_MAX = 8192 };

    FAST_TRY(fast__check_size("fast_learner_kind", kind->size, sizeof *kind));
    if (!kind->name || strlen(kind->name) == 0 || strlen(kind->name) >= 64 ||
        strpbrk(kind->name, "/:,= \t\n"))
        return fast__fail(FAST_EINVAL,
                          "the learner's name \"%.80s\" is not one word of at most 63 "
                          "bytes",
                          kind->name ? kind->name : "");
    if (!kind->gradient)
        return fast__fail(FAST_EINVAL, "learner %s has no function gradient", kind->name);
    if (kind->param_count < 1 || kind->param_count > TENSORS_MAX || kind->state_count < 0 ||
        kind->state_count > TENSORS_MAX)
        return fast__fail(FAST_EINVAL,
                          "learner %s has %" PRId64 " tensors to train and %" PRId64
                          " of state; 1 and 0 to %d are possible",
                          kind->name, kind->param_count, kind->state_count, TENSORS_MAX);
    if (!kind->params || (kind->state_count > 0 && !kind->state))
        return fast__fail(FAST_EINVAL, "learner %s counts tensors and does not list them",
                          kind->name);
    if (kind->samples < 0 || !(kind->operations >= 0) || !isfinite(kind->operations))
        return fast__fail(FAST_EINVAL,
                          "learner %s: samples=%" PRId64 " and operations=%g must not be negative",
                          kind->name, kind->samples, kind->operations);
    return FAST_OK;
}

/* Lay out the tensors and copy their initial values. */
static fast_err open_kind(fast_foreign *self)
{
    const fast_learner_kind *kind = &self->kind;
    const int64_t count = kind->param_count + kind->state_count;

    FAST_TRY(fast__alloc("a learner's tensors", count, sizeof *self->segments, &self->segments));
    FAST_TRY(lay_out(kind->params, kind->param_count, self->segments, &self->params));
    FAST_TRY(
        lay_out(kind->state, kind->state_count, self->segments + kind->param_count, &self->state));
    FAST_TRY(check_names(self->segments, count));
    FAST_TRY(fast__alloc("a learner's first values", self->params.count + self->state.count,
                         sizeof *self->first, &self->first));
    copy_first(kind->params, &self->params, self->first);
    copy_first(kind->state, &self->state, self->first + self->params.count);
    return FAST_OK;
}

/* Check and copy the caller's description: tensors are laid out, and their names and initial
 * values copied, so that the caller's arrays may go. */
fast_err fast__foreign_open(const fast_learner_kind *kind, fast_foreign **out)
{
    fast_foreign *self = NULL;
    fast_err err;

    FAST_ASSERT(kind != NULL);
    FAST_TRY(check_kind(kind));
    FAST_TRY(fast__alloc("a learner", 1, sizeof *self, &self));
    self->kind = *kind;
    err = open_kind(self);
    if (err) {
        fast__foreign_close(self);
        return err;
    }
    snprintf(self->name, sizeof self->name, "%s", kind->name);
    self->kind.name = self->name;
    self->kind.params = self->kind.state = NULL;
    *out = self;
    return FAST_OK;
}

void fast__foreign_close(fast_foreign *foreign)
{
    if (!foreign)
        return;
    fast__free(foreign->segments);
    fast__free(foreign->first);
    fast__free(foreign);
}

/* Describe one call of the caller's functions. */
static fast_learner_request request_of(const foreign_learner *self, const fast_batch *batch)
{
    const fast_foreign_options *o = &self->options;
    fast_learner_request request = { .worker = o->worker,
                                     .workers = o->workers,
                                     .seed = (int64_t)o->seed,
                                     .batch = o->batch,
                                     .loss = NAN };

    if (batch) {
        request.count = batch->count;
        request.features = o->data->features;
        request.targets = batch->labels ? o->data->positions : o->data->outputs;
        request.x = batch->x;
        request.labels = batch->labels;
        request.y = batch->targets;
    }
    return request;
}

/* Open w and s to the caller's functions, which are the host's. */
static void map_model(const foreign_learner *self, fast_access state, fast_learner_request *request)
{
    const fast_learner *base = &self->base;

    request->w = fast__map(base->w, base->params.count, FAST_ACCESS_READ);
    request->s = base->state.count > 0 ? fast__map(base->s, base->state.count, state) : NULL;
}

/* Close w and s; `state` as above. */
static void unmap_model(const foreign_learner *self, fast_access state)
{
    fast__unmap(self->base.s, self->base.state.count, state);
    fast__unmap(self->base.w, self->base.params.count, FAST_ACCESS_READ);
}

/* Turn the caller's text into one printable line. */
static void make_line(char text[FAST_LEARNER_ERROR_SIZE])
{
    text[FAST_LEARNER_ERROR_SIZE - 1] = '\0';
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
}

/* Turn the result of a function into an error code and a detail. */
static fast_err check_answer(const foreign_learner *self, int answer, const char *what,
                             fast_learner_request *request)
{
    const char *name = self->options.foreign->name;
    const bool known = answer < 0 && answer >= FAST_ENOENT;
    fast_err err = FAST_EINVAL;

    if (answer == FAST_OK && request->samples > 0)
        return FAST_OK;
    make_line(request->error);
    if (request->samples <= 0 && !request->error[0] && !known)
        return fast__fail(FAST_EINVAL,
                          "learner %s: %s at step %" PRId64 " answered for no samples; an "
                          "uncaught exception looks like this",
                          name, what, request->step);
    /* A strategy would take a learner's EPEER for another worker's, and ECANCELED for a crash. */
    if (answer == FAST_ENOMEM || answer == FAST_ENOTSUP || answer == FAST_EIO ||
        answer == FAST_EFORMAT || answer == FAST_ENOENT)
        err = (fast_err)answer;
    return fast__fail(err, "learner %s: %s at step %" PRId64 ": %s", name, what, request->step,
                      request->error[0] ? request->error : fast_err_text(err));
}

/* Compute the gradient of batch `number` in g; adds to the gradient's measures. */
static fast_err learn_part(const foreign_learner *self, fast_gradient *gradient, int64_t number,
                           float *g)
{
    const fast_learner_kind *kind = &self->options.foreign->kind;
    const fast_batch *batch = NULL;
    fast_learner_request request;
    fast_err answer;

    if (self->options.loader)
        FAST_TRY(fast__loader_get(self->options.loader, number, &batch));
    request = request_of(self, batch);
    map_model(self, FAST_ACCESS_UPDATE, &request);
    request.g = fast__map(g, self->base.params.count, FAST_ACCESS_UPDATE);
    request.step = number;
    answer = kind->gradient(kind->ctx, &request);
    fast__unmap(g, self->base.params.count, FAST_ACCESS_UPDATE);
    unmap_model(self, FAST_ACCESS_UPDATE);
    FAST_TRY(check_answer(self, (int)answer, "gradient", &request));
    gradient->loss += request.loss;
    gradient->correct += request.correct;
    gradient->positions += request.counted;
    gradient->samples += request.samples;
    gradient->flops += kind->operations * (double)request.samples;
    return FAST_OK;
}

/* Compute the mean of micro-batches' gradients, summed in the canonical order. */
static fast_err learn_parts(foreign_learner *self, fast_gradient *gradient)
{
    const int64_t parts = self->base.parts;
    const int64_t count = self->base.params.count;

    fast__tree_sum_clear(&self->fold);
    for (int64_t i = 0; i < parts; i++) {
        FAST_TRY(learn_part(self, gradient, gradient->step * parts + i,
                            fast__tree_sum_next(&self->fold)));
        if (i < parts - 1)
            fast__tree_sum_put(&self->fold);
    }
    fast__tree_sum_finish(&self->fold, 0, count);
    fast__vector_scale(count, 1.0f / (float)parts, self->base.g);
    gradient->loss /= (double)parts;
    return FAST_OK;
}

/* The contract's gradient(). */
static fast_err foreign_gradient(fast_learner *learner, fast_gradient *gradient)
{
    foreign_learner *self = (foreign_learner *)learner;

    FAST_ASSERT(gradient->step >= 0);
    gradient->loss = 0;
    gradient->correct = 0;
    gradient->positions = 0;
    gradient->samples = 0;
    gradient->flops = 0;
    if (learner->parts > 1 && !gradient->alone)
        FAST_TRY(learn_parts(self, gradient));
    else
        FAST_TRY(learn_part(self, gradient, gradient->step, learner->g));
    if (gradient->report)
        gradient->report(gradient->ctx, 0, learner->params.count);
    return FAST_OK;
}

/* A call of evaluate(), on whatever thread it runs. */
typedef struct foreign_evaluation {
    const fast_learner_kind *kind; /* the caller's functions */
    fast_learner_request request;  /* arguments and results */
    fast_err answer;               /* the function's result */
} foreign_evaluation;

/* The body of the evaluation's thread. */
static void *evaluate_main(void *ctx)
{
    foreign_evaluation *e = ctx;

    e->answer = e->kind->evaluate(e->kind->ctx, &e->request);
    return NULL;
}

/* Evaluate one batch, on a thread of its own if this stack is small. */
static fast_err evaluate_batch(const foreign_learner *self, const fast_batch *batch,
                               foreign_evaluation *e)
{
    *e = (foreign_evaluation){ .kind = &self->options.foreign->kind,
                               .request = request_of(self, batch) };
    fast_err err = FAST_OK;

    map_model(self, FAST_ACCESS_UPDATE, &e->request);
    e->request.worker = -1;
    if (self->options.small_stack)
        err = fast__thread_call(evaluate_main, e);
    else
        evaluate_main(e);
    unmap_model(self, FAST_ACCESS_UPDATE);
    FAST_TRY(err);
    return check_answer(self, (int)e->answer, "evaluation", &e->request);
}

/* The contract's evaluate(). */
static fast_err foreign_evaluate(fast_learner *learner, fast_evaluation *inout)
{
    foreign_learner *self = (foreign_learner *)learner;
    fast_loader *test = inout->validation ? self->options.validation : self->options.test;
    const int64_t batches = test ? fast__loader_steps(test) : 1;
    double loss = 0;
    int64_t correct = 0, counted = 0, samples = 0;

    if (!self->options.foreign->kind.evaluate || (self->options.data && !test))
        return fast__fail(FAST_ENOTSUP, "there is no test set to evaluate on");
    for (int64_t i = 0; i < batches; i++) {
        const fast_batch *batch = NULL;
        foreign_evaluation e;

        if (test)
            FAST_TRY(fast__loader_get(test, i, &batch));
        FAST_TRY(evaluate_batch(self, batch, &e));
        loss += e.request.loss * (double)e.request.samples;
        correct += e.request.correct;
        counted += e.request.counted;
        samples += e.request.samples;
    }
    FAST_ASSERT(samples > 0);
    inout->loss = loss / (double)samples;
    inout->accuracy = counted > 0 ? (double)correct / (double)counted : NAN;
    inout->samples = samples;
    return FAST_OK;
}

static void foreign_free(fast_learner *learner)
{
    if (!learner)
        return;
    fast__tree_sum_fini(&((foreign_learner *)learner)->fold);
    fast__vector_free(learner->w);
    fast__vector_free(learner->g);
    fast__vector_free(learner->s);
    fast__free(learner);
}

static const fast_learner_ops foreign_ops = {
    .name = "foreign",
    .gradient = foreign_gradient,
    .evaluate = foreign_evaluate,
    .free = foreign_free,
};

fast_err fast__foreign_new(const fast_foreign_options *options, fast_learner **out)
{
    const fast_foreign *kind = options->foreign;
    const int64_t count = kind->params.count;
    const int64_t state = kind->state.count;
    const fast_device *device = options->device ? options->device : &fast__host;
    foreign_learner *self = NULL;
    fast_err err;

    FAST_ASSERT(options->epoch_steps > 0);
    FAST_ASSERT(!options->loader || options->data);
    FAST_TRY(fast__alloc("a learner", 1, sizeof *self, &self));
    self->options = *options;
    self->base.ops = &foreign_ops;
    self->base.params = kind->params;
    self->base.state = kind->state;
    self->base.moves = true;
    self->base.parts = options->accumulate > 1 ? options->accumulate : 1;
    self->base.epoch_steps = options->epoch_steps;
    self->base.batch = options->batch;
    self->base.own_samples =
        options->loader ? fast__loader_own(options->loader, &self->base.batch) : 0;
    self->base.flops = kind->kind.operations * (double)options->batch * (double)self->base.parts;
    err = fast__vector_new(device, "the parameters", count, &self->base.w);
    if (!err)
        err = fast__vector_new(device, "the gradients", count, &self->base.g);
    if (!err)
        err = fast__vector_new(device, "the state", state, &self->base.s);
    if (!err && self->base.parts > 1)
        err = fast__tree_sum_init(&self->fold, count, self->base.parts, self->base.g);
    if (err) {
        foreign_free(&self->base);
        return err;
    }
    fast__vector_copy(count, kind->first, self->base.w);
    fast__vector_copy(state, kind->first + count, self->base.s);
    *out = &self->base;
    return FAST_OK;
}
