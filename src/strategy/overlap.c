/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overlap: synchronous steps whose exchange starts before the gradient is complete.
 *
 *   buckets   The backward pass makes gradients from the last layer to the first. As soon as
 *             `bucket` floats of them are final their sum starts, while earlier layers are still
 *             computed (Li et al. 2020, PyTorch Distributed). A sum does not depend on how the
 *             vector is cut, so the bits are those of one sum.
 *   pieces    With a codec that encodes layer by layer, pieces of whole layers are encoded and sent
 *             as soon as they are final (comm/coded/coded_early.c). Other codecs encode the
 *             whole gradient after the backward pass.
 *   factors   Dense layers may travel as the factors of their gradients (factoring.c), posted as
 *             soon as the layer is done; the other layers are summed as above.
 *
 * The first step sums after the gradient: it counts the buckets, and the group may measure before
 * it chooses an algorithm. Only where the bits depend on the buckets (a ring) a run that continues
 * cuts them from its first step on: it has to repeat the sums of a run without a stop.
 *
 * Cost per worker and step: an allreduce for each bucket, and P - 1 messages for each layer that
 * travels as factors.
 */
#include "strategy/overlap.h"

#include "base/err.h"
#include "base/memory.h"
#include "comm/allreduces.h"

#include <stdio.h>

/* A sum that was started. */
typedef struct overlap_bucket {
    fast_request *request; /* its handle, until it is waited for */
    int64_t offset;        /* first element of the range of g */
    int64_t count;         /* elements of the range */
} overlap_bucket;

/* A piece of whole layers that the codec encodes. */
typedef struct overlap_piece {
    int64_t offset;  /* first element of the range of g */
    int64_t count;   /* elements of the range */
    int64_t missing; /* elements that are not final yet in this step */
} overlap_piece;

/* The sums of one step, in the order in which the backward pass makes the gradient final. */
typedef struct overlap {
    fast_trainer *t;           /* the worker */
    fast_factoring factors;    /* layers that travel as factors instead of sums */
    bool early;                /* start sums and factors during the backward pass */
    int64_t size;              /* elements of a bucket, at least */
    int64_t low, high;         /* range of g that is final but not started; empty if equal */
    int64_t count;             /* buckets or pieces that were started in this step */
    int64_t room;              /* buckets that fit in `buckets` */
    fast_err err;              /* first failure inside a report */
    char why[FAST_DETAIL_MAX]; /* its detail */
    overlap_bucket *buckets;   /* [room]; NULL in the first step, which counts them */
    overlap_piece *pieces;     /* [piece_count], with a codec, instead of buckets */
    int64_t piece_count;       /* number of pieces; 0: the codec encodes no layers separately */
    int64_t *started;          /* [piece_count]: indices of started pieces, in their order */
} overlap;

/* Make room for twice the buckets. Happens in the first step of a resumed run only; later steps
 * have the same number. */
static fast_err grow(overlap *o)
{
    overlap_bucket *more = NULL;

    FAST_ASSERT(o->count == o->room);
    FAST_TRY(fast__alloc("buckets of gradients", 2 * o->room + 8, sizeof *more, &more));
    for (int64_t i = 0; i < o->count; i++)
        more[i] = o->buckets[i];
    fast__free(o->buckets);
    o->buckets = more;
    o->room = 2 * o->room + 8;
    return FAST_OK;
}

/* Start the sum of the range that is final; without memory for buckets only count it. */
static void start_bucket(overlap *o)
{
    overlap_bucket *b;

    if (o->err || o->low == o->high)
        return;
    FAST_ASSERT(o->low < o->high && o->high <= o->t->count);
    if (o->buckets && o->count == o->room)
        o->err = grow(o);
    if (o->buckets && !o->err) {
        b = &o->buckets[o->count];
        *b = (overlap_bucket){ NULL, o->low, o->high - o->low };
        o->err = fast_trainer_sum_range_start(o->t, o->t->group, b->offset, b->count, &b->request);
    }
    /* The pending range is empty from here on, also after a failure. */
    o->low = o->high = 0;
    if (o->err)
        snprintf(o->why, sizeof o->why, "%s", fast_error_detail());
    else
        o->count++;
}

/* Post the factors of a layer, which are final. */
static void start_factors(overlap *o, fast_factor_layer *layer)
{
    FAST_ASSERT(layer != NULL);
    start_bucket(o); /* the pending range ends where this layer starts */
    if (o->err || !o->buckets)
        return;
    o->err = fast__factoring_start(&o->factors, layer);
    if (o->err)
        snprintf(o->why, sizeof o->why, "%s", fast_error_detail());
}

/* Report of the gradient, in the same order at every worker: extend the pending range, and start it
 * once it is as large as a bucket. */
static void report(void *ctx, int64_t offset, int64_t count)
{
    overlap *o = ctx;
    fast_factor_layer *layer = fast__factoring_find(&o->factors, offset);
    const bool below = offset + count == o->low;
    const bool above = offset == o->high;

    FAST_ASSERT(offset >= 0 && count > 0 && offset + count <= o->t->count);
    if (layer) {
        start_factors(o, layer);
        return;
    }
    if (o->low != o->high && !below && !above)
        start_bucket(o);
    if (o->low == o->high) {
        o->low = offset;
        o->high = offset + count;
    } else if (below) {
        o->low = offset;
    } else {
        o->high = offset + count;
    }
    if (o->high - o->low >= o->size)
        start_bucket(o);
}

/* Report of the gradient where pieces are encoded: start each piece once all of it is final. */
static void report_piece(void *ctx, int64_t offset, int64_t count)
{
    overlap *o = ctx;

    for (int64_t i = 0; i < o->piece_count && !o->err; i++) {
        overlap_piece *p = &o->pieces[i];
        const int64_t low = offset > p->offset ? offset : p->offset;
        const int64_t high =
            offset + count < p->offset + p->count ? offset + count : p->offset + p->count;

        if (low >= high)
            continue;
        p->missing -= high - low;
        FAST_ASSERT(p->missing >= 0);
        if (p->missing > 0)
            continue;
        o->err = fast_trainer_sum_start(o->t, i, o->t->g);
        if (o->err)
            snprintf(o->why, sizeof o->why, "%s", fast_error_detail());
        else
            o->started[o->count++] = i;
    }
}

/* Update a range of w by its summed gradient. */
static void update(fast_trainer *t, int64_t offset, int64_t count)
{
    FAST_ASSERT(offset >= 0 && count > 0 && offset + count <= t->count);
    fast_trainer_update_range(t, t->step, t->lr, t->w + offset, t->g + offset,
                              1.0f / (float)t->workers, offset, count);
}

/* Wait for every sum in the order of their start, and update its range. Sums are waited for also
 * after a failure, because only the wait frees a request. */
static fast_err finish(overlap *o, fast_err err)
{
    fast_trainer *t = o->t;
    const bool by_range = fast_trainer_can_update_range(t);

    FAST_ASSERT(o->count <= o->room);
    for (int64_t i = 0; i < o->count; i++) {
        overlap_bucket *b = &o->buckets[i];
        const fast_err failed = fast_request_wait(&b->request, err ? FAST_AT_ONCE : FAST_SOON);

        if (!err)
            err = failed;
        if (!err && by_range)
            update(t, b->offset, b->count);
    }
    for (int64_t i = 0; i < o->factors.count && !err; i++) {
        fast_factor_layer *layer = &o->factors.layers[i];

        err = fast__factoring_finish(&o->factors, layer, FAST_SOON);
        if (!err && by_range)
            update(t, layer->what.offset, layer->what.outputs * layer->what.inputs);
    }
    fast__factoring_drop(&o->factors);
    FAST_TRY(err);
    return by_range ? FAST_OK : fast_trainer_update(t, t->g, 1.0f / (float)t->workers);
}

/* A step whose sums start during the backward pass. */
static fast_err step_overlapped(fast_trainer *t, overlap *o)
{
    fast_err err;

    FAST_ASSERT(o->early && o->low == o->high);
    o->count = 0;
    err = fast_trainer_gradient(t, report, o);
    fast_actor_at(t->actor, t->step, "gradient");
    if (!err) {
        start_bucket(o);
        if (o->err)
            err = fast__fail(o->err, "%s", o->why);
    }
    return finish(o, err);
}

/* Sum the ranges between the layers that travel as factors. A sum does not depend on how the vector
 * is cut. */
static fast_err sum_rest(overlap *o)
{
    fast_trainer *t = o->t;

    for (int64_t i = 0, at = 0; i <= o->factors.count; i++) {
        const fast_factored_layer *what = &o->factors.layers[i].what;
        const int64_t end = i < o->factors.count ? what->offset : t->count;

        FAST_ASSERT(end >= at); /* layers are in the order of their offsets */
        if (end > at)
            FAST_TRY(fast_trainer_sum_range(t, t->group, at, end - at));
        if (i < o->factors.count)
            at = end + what->outputs * what->inputs;
    }
    return FAST_OK;
}

/* A step with one sum after the gradient. With `early` it also counts the buckets of later steps.
 * */
static fast_err step_at_once(fast_trainer *t, overlap *o)
{
    const bool factored = o->factors.count > 0;

    FAST_ASSERT(o->buckets == NULL && o->piece_count == 0);
    FAST_TRY(fast_trainer_gradient(t, o->early ? report : NULL, o));
    if (o->early) {
        start_bucket(o);
        o->room = o->count;
        FAST_TRY(fast__alloc("buckets of gradients", o->room + 1, sizeof *o->buckets, &o->buckets));
    }
    fast_actor_at(t->actor, t->step, "gradient");
    for (int64_t i = 0; i < o->factors.count; i++)
        FAST_TRY(fast__factoring_start(&o->factors, &o->factors.layers[i]));
    FAST_TRY(factored ? sum_rest(o) : fast_trainer_sum(t, t->g));
    for (int64_t i = 0; i < o->factors.count; i++)
        FAST_TRY(fast__factoring_finish(&o->factors, &o->factors.layers[i], FAST_SOON));
    return fast_trainer_update(t, t->g, 1.0f / (float)t->workers);
}

/* A step whose pieces are encoded and sent during the backward pass. */
static fast_err step_pieces(fast_trainer *t, overlap *o)
{
    const bool by_range = fast_trainer_can_update_range(t);

    o->count = 0;
    for (int64_t i = 0; i < o->piece_count; i++)
        o->pieces[i].missing = o->pieces[i].count;
    FAST_TRY(fast_trainer_gradient(t, report_piece, o));
    fast_actor_at(t->actor, t->step, "gradient");
    if (o->err)
        return fast__fail(o->err, "%s", o->why);
    FAST_ASSERT(o->count == o->piece_count);
    for (int64_t i = 0; i < o->count; i++) {
        const overlap_piece *p = &o->pieces[o->started[i]];

        FAST_TRY(fast_trainer_sum_finish(t, o->started[i], t->g));
        if (by_range)
            update(t, p->offset, p->count);
    }
    return by_range ? FAST_OK : fast_trainer_update(t, t->g, 1.0f / (float)t->workers);
}

/* Open the layers that travel as factors. FAST_EINVAL if the run also has a codec. */
static fast_err open_factors(fast_trainer *t, int mode, bool coded, overlap *o)
{
    FAST_ASSERT(o->factors.count == 0);
    if (coded && mode == FAST_FACTORS_YES)
        return fast__fail(FAST_EINVAL, "allreduce: factors are sent without a codec, and the codec "
                                       "encodes the whole gradient; leave out factors or codec");
    if (coded && mode == FAST_FACTORS_AUTO) {
        fast_trainer_note(t, "the codec encodes whole gradients, so no layer is sent as factors");
        mode = FAST_FACTORS_NO;
    }
    return fast__factoring_open(t, mode, 0, &o->factors);
}

/* Cut the gradient into pieces of whole layers, if the codec encodes layers separately. */
static fast_err open_pieces(overlap *o)
{
    FAST_TRY(fast_trainer_sum_cut(o->t, o->size, &o->piece_count));
    FAST_ASSERT(o->piece_count >= 0);
    FAST_TRY(fast__alloc("pieces", o->piece_count, sizeof *o->pieces, &o->pieces));
    FAST_TRY(fast__alloc("pieces", o->piece_count, sizeof *o->started, &o->started));
    for (int64_t i = 0; i < o->piece_count; i++)
        fast_trainer_sum_piece(o->t, i, &o->pieces[i].offset, &o->pieces[i].count);
    return FAST_OK;
}

/* Train to the end; the first step without pieces counts the buckets. */
static fast_err train(fast_trainer *t, overlap *o)
{
    FAST_ASSERT(o->t == t && !(o->early && o->piece_count > 0));
    while (fast_trainer_next(t)) {
        FAST_TRY(o->piece_count > 0 ? step_pieces(t, o)
                 : o->buckets       ? step_overlapped(t, o)
                                    : step_at_once(t, o));
        FAST_TRY(fast__allreduce_state(t));
    }
    return fast_trainer_end(t);
}

bool fast__overlap_is_plain(const fast_trainer *t, const fast_overlap_options *options)
{
    const bool coded = fast_trainer_codec_fit(t) != FAST_FIT_NONE;
    const bool starts = options->early && (coded || !options->native);

    FAST_ASSERT(t->workers > 1);
    return options->factors == FAST_FACTORS_NO && !starts;
}

/* One call: buckets are counted anew by its first step. */
fast_err fast__overlap_train(fast_trainer *t, const fast_overlap_options *options)
{
    const bool coded = fast_trainer_codec_fit(t) != FAST_FIT_NONE;
    overlap o = { .t = t, .size = options->bucket };
    fast_err err = coded && options->early ? open_pieces(&o) : FAST_OK;

    FAST_ASSERT(options->bucket > 0);
    /* A native collective cannot be started, and a codec starts its own pieces. */
    o.early = options->early && !coded && !options->native;
    /* Without counting: the step is not the first of the run. */
    if (!err && o.early && t->step > 0 && fast__group_is_by_place(t->group))
        err = grow(&o);
    if (!err)
        err = open_factors(t, options->factors, coded, &o);
    if (!err)
        err = train(t, &o);
    fast__free(o.pieces);
    fast__free(o.started);
    fast__free(o.buckets);
    fast__factoring_close(&o.factors);
    return err;
}
