/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overlap: synchronous steps whose exchange starts before the gradient is complete.
 *
 *   buckets   The backward pass makes gradients from the last layer to the first. As soon as
 *             `bucket` floats of them are final their sum starts, while earlier layers are still
 *             computed (Li et al. 2020, PyTorch Distributed). A sum does not depend on how the
 *             vector is cut, so the bits are those of one sum.
 *   pieces    With a codec that encodes layer by layer, pieces of whole layers are encoded and sent
 *             in the same way (comm/coded/coded_early.c). Other codecs encode a gradient whole, after the
 *             backward pass.
 *   factors   Dense layers may travel as the factors of their gradients (factoring.c), posted as
 *             soon as the layer is done; the other layers are summed as above.
 *
 * The first step sums after the gradient: it counts the buckets, and the group may measure before
 * it chooses an algorithm.
 *
 * Cost per worker and step: an allreduce for each bucket, and P - 1 messages for each layer that
 * travels as factors.
 */
#include "strategy/overlap.h"

#include "base/err.h"
#include "base/memory.h"

#include <stdio.h>

/* A sum under way. */
typedef struct bucket {
    fast_request *request;
    int64_t offset; /* of the range in g */
    int64_t count;  /* of its elements */
} bucket;

/* A piece of whole layers that goes through the codec. */
typedef struct piece {
    int64_t offset;  /* of its range in g */
    int64_t count;   /* of its elements */
    int64_t missing; /* of them: not final yet */
} piece;

/* The gradient of a step, cut as it comes. */
typedef struct overlap {
    fast_trainer *t;
    fast_factoring factors;    /* layers that are not summed but composed */
    bool early;                /* sums and factors begin during the gradient, not after it */
    int64_t size;              /* elements that a bucket has at least */
    int64_t low, high;         /* range that is final and not begun; empty where equal */
    int64_t count;             /* of buckets */
    int64_t room;              /* for buckets */
    fast_err err;              /* the first failure to begin one */
    char why[FAST_DETAIL_MAX]; /* its detail */
    bucket *buckets;           /* [room]; NULL while they are only counted */
    piece *pieces;             /* with a codec, instead of buckets: */
    int64_t piece_count;       /* of them */
    int64_t *begun;            /* [piece_count]: those that are under way, in their order */
} overlap;

/* Begin the sum of the range that waits. */
static void begin(overlap *o)
{
    bucket *b;

    if (o->err || o->low == o->high)
        return;
    FAST_ASSERT(!o->buckets || o->count < o->room);
    if (o->buckets) {
        b = &o->buckets[o->count];
        *b = (bucket){ NULL, o->low, o->high - o->low };
        o->err = fast_trainer_sum_range_start(o->t, o->t->group, b->offset, b->count, &b->request);
    }
    o->low = o->high = 0;
    if (o->err)
        snprintf(o->why, sizeof o->why, "%s", fast_error_detail());
    else
        o->count++;
}

/* A layer's factors are final: they go out. */
static void begin_factors(overlap *o, fast_factor_layer *layer)
{
    begin(o); /* what waits is below or above it */
    if (o->err || !o->buckets)
        return;
    o->err = fast__factoring_start(&o->factors, layer);
    if (o->err)
        snprintf(o->why, sizeof o->why, "%s", fast_error_detail());
}

/* A report of the gradient: ranges come in the same order at every worker. */
static void report(void *ctx, int64_t offset, int64_t count)
{
    overlap *o = ctx;
    fast_factor_layer *layer = fast__factoring_find(&o->factors, offset);
    const bool below = offset + count == o->low;
    const bool above = offset == o->high;

    if (layer) {
        begin_factors(o, layer);
        return;
    }
    if (o->low != o->high && !below && !above)
        begin(o);
    if (o->low == o->high) {
        o->low = offset;
        o->high = offset + count;
    } else if (below) {
        o->low = offset;
    } else {
        o->high = offset + count;
    }
    if (o->high - o->low >= o->size)
        begin(o);
}

/* The same where pieces are encoded: each begins when all of it is final. */
static void report_piece(void *ctx, int64_t offset, int64_t count)
{
    overlap *o = ctx;

    for (int64_t i = 0; i < o->piece_count && !o->err; i++) {
        piece *p = &o->pieces[i];
        const int64_t low = offset > p->offset ? offset : p->offset;
        const int64_t high =
            offset + count < p->offset + p->count ? offset + count : p->offset + p->count;

        if (low >= high)
            continue;
        p->missing -= high - low;
        if (p->missing > 0)
            continue;
        o->err = fast_trainer_sum_start(o->t, i, o->t->g);
        if (o->err)
            snprintf(o->why, sizeof o->why, "%s", fast_error_detail());
        else
            o->begun[o->count++] = i;
    }
}

/* Update a range of the sum. */
static void update(fast_trainer *t, int64_t offset, int64_t count)
{
    fast_trainer_update_range(t, t->step, t->lr, t->w + offset, t->g + offset,
                              1.0f / (float)t->workers, offset, count);
}

/* Wait for every sum, in the order of their beginning, and update what has come. All are waited
 * for, also after a failure: a request that is begun is freed by its wait. */
static fast_err finish(overlap *o, fast_err err)
{
    fast_trainer *t = o->t;
    const bool by_range = fast_trainer_can_update_range(t);

    for (int64_t i = 0; i < o->count; i++) {
        bucket *b = &o->buckets[i];
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

/* A step whose sums begin during the gradient. */
static fast_err step_overlapped(fast_trainer *t, overlap *o)
{
    fast_err err;

    o->count = 0;
    err = fast_trainer_gradient(t, report, o);
    fast_actor_at(t->actor, t->step, "gradient");
    if (!err) {
        begin(o);
        if (o->err)
            err = fast__fail(o->err, "%s", o->why);
    }
    return finish(o, err);
}

/* Sum what is not sent as factors: the ranges between those layers. A sum does not depend on how
 * the vector is cut. */
static fast_err sum_rest(overlap *o)
{
    fast_trainer *t = o->t;

    for (int64_t i = 0, at = 0; i <= o->factors.count; i++) {
        const fast_factored_layer *what = &o->factors.layers[i].what;
        const int64_t end = i < o->factors.count ? what->offset : t->count;

        if (end > at)
            FAST_TRY(fast_trainer_sum_range(t, t->group, at, end - at));
        if (i < o->factors.count)
            at = end + what->outputs * what->inputs;
    }
    return FAST_OK;
}

/* A step with one sum after the gradient. Where others are to overlap, it counts their buckets. */
static fast_err step_at_once(fast_trainer *t, overlap *o)
{
    const bool factored = o->factors.count > 0;

    FAST_TRY(fast_trainer_gradient(t, o->early ? report : NULL, o));
    if (o->early) {
        begin(o);
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

/* A step whose pieces are encoded and sent during the gradient. */
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
        const piece *p = &o->pieces[o->begun[i]];

        FAST_TRY(fast_trainer_sum_finish(t, o->begun[i], t->g));
        if (by_range)
            update(t, p->offset, p->count);
    }
    return by_range ? FAST_OK : fast_trainer_update(t, t->g, 1.0f / (float)t->workers);
}

/* Factors are sent as they are, by messages of their own. */
static fast_err open_factors(fast_trainer *t, int mode, bool coded, overlap *o)
{
    if (coded && mode == FAST_FACTORS_YES)
        return fast__fail(FAST_EINVAL, "allreduce: factors are sent as they are, and a codec "
                                       "encodes the whole gradient; leave out one of them");
    if (coded && mode == FAST_FACTORS_AUTO) {
        fast_trainer_note(t, "the codec encodes whole gradients: none is sent as factors");
        mode = FAST_FACTORS_NO;
    }
    return fast__factoring_open(t, mode, &o->factors);
}

/* Where the codec takes layers apart, cut the gradient in pieces of them. */
static fast_err open_pieces(overlap *o)
{
    FAST_TRY(fast_trainer_sum_cut(o->t, o->size, &o->piece_count));
    FAST_TRY(fast__alloc("pieces", o->piece_count, sizeof *o->pieces, &o->pieces));
    FAST_TRY(fast__alloc("pieces", o->piece_count, sizeof *o->begun, &o->begun));
    for (int64_t i = 0; i < o->piece_count; i++)
        fast_trainer_sum_piece(o->t, i, &o->pieces[i].offset, &o->pieces[i].count);
    return FAST_OK;
}

static fast_err train(fast_trainer *t, overlap *o)
{
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

    return t->workers == 1 || (options->factors == FAST_FACTORS_NO && !starts);
}

fast_err fast__overlap_train(fast_trainer *t, const fast_overlap_options *options)
{
    const bool coded = fast_trainer_codec_fit(t) != FAST_FIT_NONE;
    overlap o = { .t = t, .size = options->bucket };
    fast_err err = coded && options->early && t->workers > 1 ? open_pieces(&o) : FAST_OK;

    o.early = options->early && t->workers > 1 && !coded && !options->native;
    if (!err)
        err = open_factors(t, options->factors, coded, &o);
    if (!err)
        err = train(t, &o);
    fast__free(o.pieces);
    fast__free(o.begun);
    fast__free(o.buckets);
    fast__factoring_close(&o.factors);
    return err;
}
