/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates by slices: each worker applies the rule to the part of the model that it owns.
 *
 *   elementwise rules   slice by slice, the bits of an update of the whole
 *   norms               of layers (lars, lamb) and of the gradient (clip_norm): norms.c
 */
#include "trainer/sharded.h"

#include "base/memory.h"
#include "trainer/context.h"
#include "trainer/norms.h"

fast_state_end fast__trainer_state_end(const fast_trainer *t)
{
    return fast__context_of(t)->options.state_end;
}

void fast__trainer_state_is_whole(fast_trainer *t, bool whole)
{
    fast__context_of(t)->sharded.parted = !whole;
}

/* Does the learner tell which ranges of w its only pass reads? */
static bool tells_reads(const fast_context *c)
{
    FAST_ASSERT(c->learner != NULL);
    return c->learner->ops->reads && c->trainer.micro_batches == 1;
}

bool fast__trainer_reads_layers(const fast_trainer *t)
{
    const fast_context *c = fast__context_of(t);

    return tells_reads(c) && !c->options.is_virtual;
}

bool fast__trainer_would_read_layers(const fast_trainer *t)
{
    const fast_context *c = fast__context_of(t);

    return tells_reads(c) && c->options.is_virtual;
}

bool fast__trainer_owns_model(const fast_trainer *t)
{
    return fast__context_of(t)->options.equal == NULL;
}

void fast__trainer_will_drop(float *x, int64_t count)
{
    FAST_ASSERT(x != NULL && count >= 0);
    if (fast__device_of(x) == &fast__host)
        fast__memory_small_pages(x, count * (int64_t)sizeof *x);
}

void fast__trainer_drop(float *x, int64_t offset, int64_t count, int64_t own, int64_t own_count)
{
    const int64_t end = offset + count, size = (int64_t)sizeof *x;

    FAST_ASSERT(own_count == 0 || (own >= offset && own + own_count <= end));
    if (!x || count == 0 || fast__device_of(x) != &fast__host)
        return;
    if (own_count == 0) {
        fast__memory_drop(x + offset, count * size);
        return;
    }
    fast__memory_drop(x + offset, (own - offset) * size);
    fast__memory_drop(x + own + own_count, (end - own - own_count) * size);
}

/* Number of vectors of the rule's state. */
static int64_t slot_count(const fast_context *c)
{
    int64_t slots = 0;

    FAST_ASSERT(c->optimizer != NULL);
    while (fast__optimizer_slot(c->optimizer, (int)slots))
        slots++;
    return slots;
}

int64_t fast__context_state_bytes(const fast_context *context)
{
    const int64_t sharded = atomic_load(&context->sharded.bytes);

    return sharded > 0
               ? sharded
               : (2 + slot_count(context)) * context->trainer.count * (int64_t)sizeof(float);
}

void fast__trainer_holds(fast_trainer *t, int64_t floats, int64_t state_floats)
{
    fast_context *c = fast__context_of(t);
    const int64_t bytes = (floats + slot_count(c) * state_floats) * (int64_t)sizeof(float);

    FAST_ASSERT(floats >= 0 && state_floats >= 0);
    if (bytes > atomic_load(&c->sharded.bytes))
        atomic_store(&c->sharded.bytes, bytes);
}

fast_err fast__trainer_can_slice(const fast_trainer *t)
{
    const fast_optimizer *optimizer = fast__context_of(t)->optimizer;

    if (fast__optimizer_by_slice(optimizer))
        return FAST_OK;
    return fast__fail(FAST_EINVAL,
                      "strategy zero: optimizer %s needs whole matrices, of which a worker holds a "
                      "part; use another optimizer, like adam or lamb, or strategy allreduce",
                      fast__optimizer_rule(optimizer)->name);
}

bool fast__trainer_slices_alone(const fast_trainer *t)
{
    return fast__optimizer_by_range(fast__context_of(t)->optimizer);
}

void fast__trainer_slice_summed(fast_trainer *t, int64_t count)
{
    fast_context *c = fast__context_of(t);

    FAST_ASSERT(count >= 0 && count <= t->count);
    fast__context_summed(c, t->g);
    fast__context_sum_floats(c, count, c->work.computing);
}

void fast__trainer_update_slice(fast_trainer *t, const fast_slice *slice, float scale)
{
    fast_context *c = fast__context_of(t);
    const int64_t begin = fast__steady_now(t->actor), offset = slice->own_offset;

    FAST_ASSERT(fast__trainer_slices_alone(t));
    FAST_ASSERT(t->step >= 1 && offset + slice->own_count <= t->count);
    if (slice->own_count == 0)
        return;
    fast__optimizer_apply_measured(c->optimizer, t->step, t->lr, t->w + offset, t->g + offset,
                                   scale, offset, slice->own_count, NULL);
    c->work.uncharged += (double)slice->own_count;
    fast__count(&t->actor->counters.compute_ns, fast__steady_now(t->actor) - begin);
}

fast_err fast__trainer_update_slices(fast_trainer *t, const fast_slice *slices, int64_t count,
                                     float scale)
{
    return fast__norms_update(fast__context_of(t), t->g, t->group, slices, count, scale);
}

fast_err fast__trainer_slices_done(fast_trainer *t, float scale)
{
    fast_context *c = fast__context_of(t);

    fast__context_update_shares(c, t->step, scale, t->count);
    return fast__context_charge(c);
}
