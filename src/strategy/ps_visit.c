/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A push where writer and owners share memory, and each write is an update by itself: one visit of
 * the model (space/space_visit.c), block by block while the block is in the cache.
 *
 *     each block    w <- rule(w, scale g)           the model, with the owner's rule and its state
 *                   w_i <- w                        with `fetched`: the next read of this worker,
 *                                                   with cache_age: a newer cache, whose clock is
 *                                                   that of the slowest writer before the visit
 *
 * With cache_age a worker so reads on its own only where that clock is too old for its next step:
 * where the slack makes it wait. Against an add and a get, g is read once instead of twice, the
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
    bool reads;          /* copy the model to t->w */
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
        if (p->reads)
            fast__vector_copy(n, values + at, wr->t->w + here);
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
    const bool cached = wr->c->cache_age > 0;
    ps_push push = { .wr = wr, .reads = wr->visit.fetched || cached };
    int64_t version = 0, clock = 0;

    FAST_ASSERT(wr->visit.direct && wr->copies.count == 1);
    FAST_ASSERT(!wr->visit.fetched || !cached);
    const fast_space_visitor visitor = { .begin = begin,
                                         .piece = change_piece,
                                         .ctx = &push,
                                         .reads = push.reads,
                                         .clock = cached ? &clock : NULL };
    FAST_TRY(fast__trainer_visit(wr->copies.spaces[0], wr->g, &visitor, &version, FAST_SOON));
    if (push.reads)
        wr->version = version;
    if (cached) {
        wr->cached = clock > wr->cached ? clock : wr->cached;
        wr->visit.added = true;
    }
    return FAST_OK;
}
