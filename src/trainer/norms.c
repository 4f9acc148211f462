/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates that need norms of more than a worker has.
 *
 *   slices      strategy zero: each worker of a group has slices of w, and the squares are summed
 *               over the group
 *   parts       of a split model: the square of the gradient is summed over all parts of the
 *               replica, those of a layer over the shards of its stage. Layers that all shards have
 *               count at the first one
 *
 * Where stages have replicas of their own the sum is over all workers, and of equal replicas the
 * first one counts.
 *
 * Both may be: first the sum over the group, then over the parts. Sums are of doubles, in the order
 * of ranks, before any element is updated: the same bits at all, which differ from those of a whole
 * vector by the rounding of doubles.
 *
 * Cost: P - 1 messages a worker, of one double with clip_norm, and of two a tensor with norms of
 * layers; P workers in the group, then in the replica, then in the stage.
 */
#include "trainer/norms.h"

#include "base/memory.h"
#include "comm/sliced.h"
#include "tensor/vector.h"
#include "trainer/context.h"

bool fast__norms_are_shared(const fast_context *context)
{
    const fast_optimizer *optimizer = context->optimizer;

    FAST_ASSERT(optimizer != NULL);
    return (context->pipe.replica && fast__optimizer_clips(optimizer)) ||
           (context->pipe.shards && fast__optimizer_measures(optimizer));
}

/* A range of w whose elements count, or do not. */
typedef struct norm_range {
    int64_t offset;  /* of the first element */
    int64_t count;   /* number of elements */
    int64_t segment; /* of the whole model; -1: of any */
    bool counted;    /* at this worker */
} norm_range;

/* The range behind `offset`, up to `end` at most. Of a model that is not split all counts. */
static norm_range range_at(const fast_context *c, int64_t offset, int64_t end)
{
    const fast_pipe_options *o = &c->pipe.options;
    int64_t i = 0;

    FAST_ASSERT(offset >= 0 && offset < end);
    if (!c->pipe.shards)
        return (norm_range){ offset, end - offset, -1, true };
    while (i < o->piece_count && o->pieces[i].offset + o->pieces[i].count <= offset)
        i++;
    FAST_ASSERT(i < o->piece_count && o->pieces[i].offset <= offset);
    const int64_t stop = o->pieces[i].offset + o->pieces[i].count;
    return (norm_range){ offset, (stop < end ? stop : end) - offset, o->pieces[i].segment,
                         o->pieces[i].counted };
}

/* The scale with which the gradient of the whole model is not too long. */
static fast_err clip(fast_context *c, const float *g, fast_group *group, const fast_slice *slices,
                     int64_t count, float *scale)
{
    double norm2 = 0;

    FAST_ASSERT(*scale > 0);
    if (!fast__optimizer_clips(c->optimizer))
        return FAST_OK;
    for (int64_t i = 0; i < count; i++) {
        const int64_t end = slices[i].own_offset + slices[i].own_count;

        for (int64_t at = slices[i].own_offset; at < end;) {
            const norm_range range = range_at(c, at, end);

            if (range.counted)
                norm2 += fast__vector_norm2(range.count, g + at);
            at += range.count;
        }
    }
    if (group)
        FAST_TRY(fast__sum_doubles(group, &norm2, 1));
    /* Sums over other numbers of replicas have other scales; each stage's first one counts. */
    const double unit = c->pipe.options.place.replicas ? (double)*scale * (double)*scale : 1;
    if (c->pipe.options.place.replicas)
        norm2 *= c->trainer.rank == 0 ? unit : 0;
    if (c->pipe.replica)
        FAST_TRY(fast__sum_doubles(c->pipe.replica, &norm2, 1));
    norm2 /= unit;
    *scale = fast__optimizer_clipped(c->optimizer, *scale, norm2);
    return FAST_OK;
}

/* The norms of a worker's tensors: its own, and of the whole model's where it is split over shards.
 * One block of memory. */
typedef struct norm_squares {
    double *own;    /* [FAST_RULE_SQUARES * segments of the worker] */
    double *others; /* as `own`: of elements that do not count here, which nobody reads */
    double *whole;  /* [FAST_RULE_SQUARES * segments of the model] */
} norm_squares;

static fast_err new_squares(const fast_context *c, norm_squares *out)
{
    const int64_t own = FAST_RULE_SQUARES * fast__context_layout(c)->segment_count;
    const int64_t whole = FAST_RULE_SQUARES * c->pipe.options.segment_count;

    FAST_ASSERT(own >= 0 && whole >= 0);
    FAST_TRY(fast__alloc("norms of layers", 2 * own + whole + 1, sizeof *out->own, &out->own));
    out->others = out->own + own;
    out->whole = out->others + own;
    return FAST_OK;
}

/* Move the norms of this worker's tensors to those of the whole model, or back. */
static void move_squares(const fast_context *c, const norm_squares *s, bool back)
{
    const fast_layout *layout = fast__context_layout(c);

    FAST_ASSERT(c->pipe.options.segment_count > 0);
    for (int64_t i = 0; i < layout->segment_count; i++) {
        const fast_segment *segment = &layout->segments[i];

        if (segment->count == 0)
            continue;
        const int64_t at = range_at(c, segment->offset, segment->offset + 1).segment;
        for (int k = 0; k < FAST_RULE_SQUARES; k++) {
            double *own = &s->own[FAST_RULE_SQUARES * i + k];
            double *whole = &s->whole[FAST_RULE_SQUARES * at + k];

            if (back)
                *own = *whole;
            else
                *whole += *own;
        }
    }
}

/* Measure the norms of all tensors. The state of elements that do not count moves all the same. */
static fast_err measure(fast_context *c, const float *g, fast_group *group,
                        const fast_slice *slices, int64_t count, float scale,
                        const norm_squares *out)
{
    const fast_trainer *t = &c->trainer;

    FAST_ASSERT(out->own != NULL);
    for (int64_t i = 0; i < count; i++) {
        const int64_t end = slices[i].own_offset + slices[i].own_count;

        for (int64_t at = slices[i].own_offset; at < end;) {
            const norm_range range = range_at(c, at, end);

            fast__optimizer_measure_range(c->optimizer, t->step, t->lr, t->w + at, g + at, scale,
                                          at, range.count, range.counted ? out->own : out->others);
            at += range.count;
        }
    }
    if (group)
        FAST_TRY(fast__sum_doubles(group, out->own,
                                   FAST_RULE_SQUARES * fast__context_layout(c)->segment_count));
    if (!c->pipe.shards)
        return FAST_OK;
    move_squares(c, out, false);
    FAST_TRY(fast__sum_doubles(c->pipe.shards, out->whole,
                               FAST_RULE_SQUARES * c->pipe.options.segment_count));
    move_squares(c, out, true);
    return FAST_OK;
}

/* Apply the rule to the slices; the squares are those of whole layers, or NULL. */
static void apply(fast_context *c, const float *g, const fast_slice *slices, int64_t count,
                  float scale, const double *squares)
{
    fast_trainer *t = &c->trainer;
    const int64_t begin = fast__steady_now(t->actor);

    FAST_ASSERT(t->step >= 1);
    for (int64_t i = 0; i < count; i++) {
        const int64_t offset = slices[i].own_offset, n = slices[i].own_count;

        FAST_ASSERT(offset + n <= t->count);
        if (n > 0)
            fast__optimizer_apply_measured(c->optimizer, t->step, t->lr, t->w + offset, g + offset,
                                           scale, offset, n, squares);
        c->work.uncharged += (double)n;
    }
    fast__count(&t->actor->counters.compute_ns, fast__steady_now(t->actor) - begin);
}

fast_err fast__norms_update(fast_context *context, const float *g, fast_group *group,
                            const fast_slice *slices, int64_t count, float scale)
{
    norm_squares squares = { NULL, NULL, NULL };
    fast_err err = FAST_OK;

    FAST_ASSERT(context->learner != NULL);
    FAST_TRY(clip(context, g, group, slices, count, &scale));
    if (fast__optimizer_measures(context->optimizer)) {
        FAST_TRY(new_squares(context, &squares));
        err = measure(context, g, group, slices, count, scale, &squares);
    }
    if (!err)
        apply(context, g, slices, count, scale, squares.own);
    fast__free(squares.own);
    return err;
}
