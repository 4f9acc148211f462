/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A push where writer and owners share memory, and each write is an update by itself: one visit of
 * the model (space/space_visit.c), block by block while the block is in the cache.
 *
 *     each block    w <- rule(w, scale g)           the model, with the owner's rule and its state
 *                   w_i <- w                        with `fetched`: the next read of this worker
 *                   w_i <- w_i - lr g               with cache_age: read-my-writes (ps_unseen.c)
 *
 * Against an add, a get and a pass over the worker's weights, g is read once instead of twice, the
 * model once instead of twice, and several workers are in the model at once, each in a piece.
 */
#include "strategy/ps_visit.h"
#include "space/space.h"
#include "tensor/vector.h"
#include "trainer/in_place.h"

enum { BLOCK = 2048 }; /* floats; of four vectors they fit the first-level cache */

/* A push under way. */
typedef struct ps_push {
    const ps_writer *wr; /* who pushes */
    ps_owner *owner;     /* of the range that is visited */
    ps_change change;    /* of that range */
    float own;           /* with cache_age: the change of t->w by a gradient of 1; 0: none */
} ps_push;

/* Count the write at its owner, and get the rate and scale of the change. */
static void begin(void *ctx, void *owner, const fast_space_update *update)
{
    ps_push *p = ctx;

    FAST_ASSERT(owner != NULL);
    p->owner = owner;
    p->change = fast__ps_change_begin(p->owner, update);
}

/* Update a piece of the model, and the worker's weights with it. */
static void change_piece(void *ctx, int64_t offset, int64_t count, float *values)
{
    const ps_push *p = ctx;
    const ps_writer *wr = p->wr;
    const ps_change *c = &p->change;

    FAST_ASSERT(offset >= 0 && offset + count <= wr->t->count);
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t n = count - at < BLOCK ? count - at : BLOCK, here = offset + at;

        fast_trainer_update_range(p->owner->t, c->number, c->lr, values + at, wr->g + here,
                                  c->scale, here, n);
        if (wr->visit.fetched)
            fast__vector_copy(n, values + at, wr->t->w + here);
        else if (p->own != 0)
            fast__vector_axpy(n, p->own, wr->g + here, wr->t->w + here);
    }
}

bool fast__ps_can_visit(const ps_writer *wr)
{
    const ps_config *c = wr->c;
    const bool update_by_update = fast__ps_batch(c, wr->writer_count) == 1 && c->slack != 0 &&
                                  c->redundant == 1 && c->reject < 0 && c->value == 0;
    const bool plain_rule = c->send == PS_SEND_GRADIENTS && c->push == 1 && c->momentum == 0 &&
                            c->l1 == 0 && c->compensate == 0;

    FAST_ASSERT(wr->copies.count > 0);
    return update_by_update && plain_rule && c->replicas == 0 && c->proxies == 0 && !c->tasks &&
           c->flows == PS_FLOWS_SHARED && !wr->pieces.on && wr->layers.count == 0 &&
           wr->layers.hybrid.count == 0 && wr->recent.room == 0 && wr->hold.rounds == 0 &&
           fast__space_can_visit(wr->copies.spaces[0]);
}

fast_err fast__ps_push_visit(ps_writer *wr)
{
    ps_push push = { .wr = wr };
    int64_t version = 0;

    FAST_ASSERT(wr->visit.direct && wr->copies.count == 1);
    if (fast__ps_is_cached(wr)) {
        push.own = fast__ps_own_scale(wr);
        wr->visit.added = true;
    }
    const fast_space_visitor visitor = {
        .begin = begin, .piece = change_piece, .ctx = &push, .reads = wr->visit.fetched
    };
    FAST_TRY(fast__trainer_visit(wr->copies.spaces[0], wr->g, &visitor, &version, FAST_SOON));
    if (wr->visit.fetched)
        wr->version = version;
    return FAST_OK;
}
