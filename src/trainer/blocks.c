/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent memory of a strategy, besides replicas: masses of push-sum, the centre of elastic
 * averaging, outer momentum. It belongs to the actor's context and not to the program, so that a
 * run that continues after a cancel continues exactly. It is 0 where a replica starts: in a new
 * run, in another phase, after a restart of the worker.
 *
 * Vectors are on the device of the run's model; all other blocks are on the host.
 *
 * Memory: the sum of the blocks, allocated before the first step; a list, since a strategy has a
 * few.
 */
#include "base/memory.h"
#include "tensor/vector.h"
#include "trainer/context.h"

#include <string.h>

/* Floats that `size` bytes take. */
static int64_t floats_of(size_t size)
{
    FAST_ASSERT(size > 0);
    return (int64_t)((size + sizeof(float) - 1) / sizeof(float));
}

/* Move a block to a device: a checkpoint is read before the strategy says where its blocks are. */
static fast_err move_block(fast_memory_block *block, const fast_device *device)
{
    float *data = NULL;

    FAST_ASSERT(block->data != NULL);
    if (!device || fast__device_of(block->data) == device)
        return FAST_OK;
    FAST_TRY(fast__vector_new(device, "a strategy's block", floats_of(block->size), &data));
    fast__vector_copy(floats_of(block->size), block->data, data);
    fast__vector_free(block->data);
    block->data = data;
    return FAST_OK;
}

fast_err fast__context_block(fast_context *context, const fast_device *device, int64_t id,
                             size_t size, void **out)
{
    fast_memory_block *block = context->blocks;
    float *data = NULL;

    FAST_ASSERT(id >= 0 && size > 0 && out != NULL);
    while (block && block->id != id)
        block = block->next;
    if (block) {
        if (block->size != size)
            return fast__fail(FAST_EINVAL,
                              "strategy %s asks for %zu bytes of block %lld, which has %zu in the "
                              "run that this one continues",
                              context->options.phase.strategy, size, (long long)id, block->size);
        FAST_TRY(move_block(block, device));
        *out = block->data;
        return FAST_OK;
    }
    FAST_TRY(fast__vector_new(device ? device : &fast__host, "a strategy's block", floats_of(size),
                              &data));
    const fast_err err = fast__alloc("a strategy's block", 1, sizeof *block, &block);
    if (err) {
        fast__vector_free(data);
        return err;
    }
    *block = (fast_memory_block){ .next = context->blocks, .id = id, .size = size, .data = data };
    context->blocks = block;
    *out = data;
    return FAST_OK;
}

void fast__context_drop_blocks(fast_context *context)
{
    FAST_ASSERT(context != NULL);
    while (context->blocks) {
        fast_memory_block *block = context->blocks;

        context->blocks = block->next;
        fast__vector_free(block->data);
        fast__free(block);
    }
}

void fast__context_forget(fast_context *context)
{
    FAST_ASSERT(context != NULL);
    while (context->parts) {
        fast_memory_block *part = context->parts;

        context->parts = part->next;
        fast__free(part);
    }
    context->cut = (fast_context_cut){ .rounds = NULL };
}

/* Take the block of a checkpoint out of the list, where it waits for the program that registers
 * memory under this number; NULL if it has no such block. */
static fast_memory_block *take_block(fast_context *c, int64_t id)
{
    fast_memory_block **at = &c->blocks;

    FAST_ASSERT(id >= FAST_REMEMBERED);
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    fast_memory_block *block = *at;
    if (block)
        *at = block->next;
    return block;
}

/* Copy bytes of the host to memory of any device. */
static void copy_bytes(size_t size, const void *from, void *to)
{
    const int64_t floats = floats_of(size);

    FAST_ASSERT(from != NULL && to != NULL);
    memcpy(fast__map(to, floats, FAST_ACCESS_UPDATE), from, size);
    fast__unmap(to, floats, FAST_ACCESS_UPDATE);
}

fast_err fast__trainer_remember(fast_trainer *t, int64_t number, void *x, size_t size)
{
    fast_context *c = fast__context_of(t);
    fast_memory_block *part = NULL, *block = take_block(c, FAST_REMEMBERED + number);
    const bool fits = block && block->size == size;

    FAST_ASSERT(number >= 0);
    if (x && size > 0 && fits && c->resumed)
        copy_bytes(size, block->data, x);
    if (block) {
        fast__vector_free(block->data);
        fast__free(block);
    }
    if (block && !fits && c->resumed)
        return fast__fail(FAST_EINVAL,
                          "strategy %s has %zu bytes of state %lld, and the checkpoint others",
                          c->options.phase.strategy, size, (long long)number);
    if (!x || size == 0)
        return FAST_OK;
    FAST_TRY(fast__alloc("a program's memory", 1, sizeof *part, &part));
    *part = (fast_memory_block){ .next = c->parts, .id = number, .size = size, .data = x };
    c->parts = part;
    return FAST_OK;
}

fast_err fast__trainer_remember_flags(fast_trainer *t, int64_t number, bool *x, int64_t count)
{
    const fast_context *c = fast__context_of(t);
    const fast_memory_block *block = c->blocks;

    FAST_ASSERT(count >= 0);
    while (block && block->id != FAST_REMEMBERED + number)
        block = block->next;
    for (size_t i = 0; block && i < block->size; i++)
        if (((const uint8_t *)block->data)[i] > 1)
            return fast__fail(FAST_EFORMAT,
                              "the checkpoint's flags %lld of strategy %s are damaged",
                              (long long)number, c->options.phase.strategy);
    return fast__trainer_remember(t, number, x, (size_t)count * sizeof *x);
}

void fast__trainer_cut_at(fast_trainer *t, const int64_t *rounds)
{
    fast_context_cut *cut = &fast__context_of(t)->cut;

    FAST_ASSERT(cut->rounds == NULL);
    cut->rounds = rounds;
    cut->at_once = rounds == NULL;
}

void fast__trainer_cut_within(fast_trainer *t, const int64_t *rounds, const int64_t *next)
{
    FAST_ASSERT(rounds != NULL && next != NULL);
    fast__trainer_cut_at(t, rounds);
    fast__context_of(t)->cut.next = next;
}

bool fast__trainer_cut_on(const fast_trainer *t)
{
    FAST_ASSERT(t != NULL);
    return fast__context_of(t)->cut.open != NULL;
}

bool fast__trainer_cut_open(const fast_trainer *t)
{
    FAST_ASSERT(t != NULL);
    return fast__trainer_cut_on(t) && atomic_load(fast__context_of(t)->cut.open);
}

int64_t fast__trainer_cuts(const fast_trainer *t)
{
    FAST_ASSERT(t != NULL);
    return fast__context_of(t)->cut.count;
}

bool fast__trainer_cut_held(const fast_trainer *t)
{
    const fast_context *c = fast__context_of(t);

    FAST_ASSERT(c->learner == NULL);
    return (c->cut.held || c->resumed) && !fast_member_is_down(t->actor, t->worker_ids[0]);
}

void fast__trainer_cut_yield(fast_trainer *t, fast_yield_fn *yield, void *ctx)
{
    fast_context_cut *cut = &fast__context_of(t)->cut;

    FAST_ASSERT(yield != NULL);
    cut->yield = yield;
    cut->yield_ctx = ctx;
}

void fast__trainer_cut_idle(fast_trainer *t, fast_idle_fn *idle, const void *ctx)
{
    fast_context_cut *cut = &fast__context_of(t)->cut;

    FAST_ASSERT(idle != NULL);
    cut->idle = idle;
    cut->idle_ctx = ctx;
}

void fast__trainer_draw(fast_trainer *t)
{
    const fast_context *c = fast__context_of(t);

    FAST_ASSERT(t->w != NULL && t->rank >= 0);
    if (t->step == 0 && !fast_trainer_resumed(t))
        c->options.host->draw(c->options.host_ctx, t->rank, t->w, t->s);
}

fast_err fast__trainer_check_saved(const fast_trainer *t, bool sane)
{
    const fast_context *c = fast__context_of(t);

    FAST_ASSERT(sane || c->resumed);
    return sane ? FAST_OK
                : fast__fail(FAST_EFORMAT, "the checkpoint's numbers of strategy %s are damaged",
                             c->options.phase.strategy);
}

fast_err fast_trainer_persist(fast_trainer *t, int64_t number, size_t size, void **out)
{
    FAST_ASSERT(number >= 0);
    return fast__context_block(fast__context_of(t), &fast__host, number, size, out);
}

fast_err fast_trainer_persist_vector(fast_trainer *t, int64_t number, fast_vector *out)
{
    fast_context *context = fast__context_of(t);
    void *x = NULL, *shares = NULL;

    FAST_ASSERT(number >= 0 && number < FAST_PERSIST_SHARES);
    FAST_TRY(fast__context_block(context, fast__context_device(context), number,
                                 (size_t)t->count * sizeof(float), &x));
    FAST_TRY(fast__context_block(context, &fast__host, FAST_PERSIST_SHARES + number,
                                 (size_t)fast_trainer_share_count(t) * sizeof(double), &shares));
    *out = (fast_vector){ .x = x, .shares = shares, .age = -1 };
    return FAST_OK;
}
