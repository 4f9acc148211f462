/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The saved state of one actor, as records.
 *
 *   worker   w, s, the rule's vectors, contributions, the residuals of its sums, spaces, memory
 *            blocks and flows, with the copies that receivers hold
 *   server   the rule's vectors, spaces with their values, memory blocks and flows
 *
 * Random numbers are drawn by the number of an encoding, which is part of a codec's record, so that
 * a resumed run repeats to the bit. Of a rule's vector only the range between its first and its
 * last number that is not 0 is written: a server's rule covers its own range of the model only.
 */
#include "trainer/saved.h"

#include "base/memory.h"
#include "tensor/vector.h"
#include "trainer/context.h"

#include <string.h>

fast_err fast__saved_reserve(fast_saved *saved, size_t size)
{
    FAST_ASSERT(saved != NULL);
    if (size > saved->room) {
        fast__free(saved->bytes);
        *saved = (fast_saved){ .step = -1 };
        FAST_TRY(fast__alloc("saved state", (int64_t)size, 1, &saved->bytes));
        saved->room = size;
    }
    saved->size = size;
    return FAST_OK;
}

/* The rule's vectors: for each the offset of its first number that is not 0, and the numbers. */
static void save_rule(const fast_context *c, fast_pack *pack)
{
    const int64_t count = c->trainer.count;
    const float *slot;

    FAST_ASSERT(pack != NULL);
    for (int i = 0; (slot = fast__optimizer_slot(c->optimizer, i)) != NULL; i++) {
        int64_t low, high;

        fast__vector_extent(count, slot, &low, &high);
        const size_t size = (size_t)(high - low) * sizeof *slot;
        uint8_t *at = fast__pack_add(pack, FAST_SAVED_RULE, i, sizeof low + size);
        if (!at)
            continue;
        memcpy(at, &low, sizeof low);
        fast__vector_copy(high - low, slot + low, at + sizeof low);
    }
}

/* Add a record of a block's or a vector's bytes, on any device. */
static void put_record(fast_pack *pack, int64_t kind, int64_t number, const void *x, size_t size)
{
    uint8_t *at = fast__pack_add(pack, kind, number, size);
    const int64_t floats = (int64_t)((size + sizeof(float) - 1) / sizeof(float));

    FAST_ASSERT(x != NULL || size == 0);
    if (!at || size == 0)
        return;
    memcpy(at, fast__map(x, floats, FAST_ACCESS_READ), size);
    fast__unmap(x, floats, FAST_ACCESS_READ);
}

/* Blocks that outlast a program, and with `parts` the memory that it has remembered. */
static void save_blocks(const fast_context *c, bool parts, fast_pack *pack)
{
    FAST_ASSERT(pack != NULL);
    for (const fast_memory_block *block = c->blocks; block; block = block->next)
        put_record(pack, FAST_SAVED_BLOCK, block->id, block->data, block->size);
    for (const fast_memory_block *part = c->parts; parts && part; part = part->next)
        put_record(pack, FAST_SAVED_BLOCK, FAST_REMEMBERED + part->id, part->data, part->size);
}

void fast__context_save_program(const fast_context *context, fast_pack *pack)
{
    FAST_ASSERT(!context->learner);
    save_rule(context, pack);
    save_blocks(context, true, pack);
}

void fast__context_save(const fast_context *context, fast_saved_extent extent, fast_pack *pack)
{
    const fast_trainer *t = &context->trainer;

    FAST_ASSERT(pack != NULL);
    FAST_ASSERT(extent != FAST_SAVE_NONE);
    /* Equal replicas are the run's model, and only their residuals are saved; between two phases
     * the rule's state alone travels. */
    if (extent != FAST_SAVE_SUMS)
        save_rule(context, pack);
    if (extent != FAST_SAVE_RULE && context->codecs.sum)
        fast__coded_pack(context->codecs.sum, pack, FAST_SAVED_SUM);
    if (extent < FAST_SAVE_ALL)
        return;
    if (context->learner) {
        put_record(pack, FAST_SAVED_WEIGHTS, 0, t->w, (size_t)t->count * sizeof *t->w);
        put_record(pack, FAST_SAVED_STATE, 0, t->s, (size_t)t->state_count * sizeof *t->s);
        fast__pack_put(pack, FAST_SAVED_CONTRIBUTIONS, 0, context->shares.w,
                       (size_t)fast_trainer_share_count(t) * sizeof *context->shares.w);
    }
    fast__context_pack_spaces(context, extent == FAST_SAVE_CUT, pack, FAST_SAVED_SPACE);
    save_blocks(context, extent == FAST_SAVE_CUT, pack);
    fast__flows_pack(&context->codecs.flows, pack, FAST_SAVED_FLOW);
}

/* Copy a record that must have this size. */
static fast_err copy_record(const fast_pack_record *r, void *out, size_t size)
{
    FAST_ASSERT(r != NULL);
    if (!out || r->size != size)
        return fast__fail(FAST_EFORMAT,
                          "the checkpoint's record %lld of a worker has %zu bytes, not %zu",
                          (long long)r->kind, r->size, size);
    if (size > 0) {
        const int64_t floats = (int64_t)((size + sizeof(float) - 1) / sizeof(float));

        memcpy(fast__map(out, floats, FAST_ACCESS_UPDATE), r->data, size);
        fast__unmap(out, floats, FAST_ACCESS_UPDATE);
    }
    return FAST_OK;
}

/* A vector of the rule. */
static fast_err load_rule(const fast_context *c, const fast_pack_record *r)
{
    const int64_t count = c->trainer.count;
    const int slots = 64; /* more than any rule has */
    float *slot = r->number >= 0 && r->number < slots
                      ? fast__optimizer_slot(c->optimizer, (int)r->number)
                      : NULL;
    int64_t low = -1;

    FAST_ASSERT(r->kind == FAST_SAVED_RULE);
    if (r->size >= sizeof low)
        memcpy(&low, r->data, sizeof low);
    const size_t size = r->size - sizeof low;
    if (!slot || low < 0 || low > count || size > (size_t)(count - low) * sizeof *slot)
        return fast__fail(FAST_EFORMAT, "the checkpoint's record of the rule's state is damaged");
    /* Numbers outside of the range are 0, as save_rule() found them. */
    fast__vector_fill(count, 0, slot);
    fast__vector_copy((int64_t)(size / sizeof *slot), (const uint8_t *)r->data + sizeof low,
                      slot + low);
    return FAST_OK;
}

fast_err fast__context_load(fast_context *context, const fast_pack_record *record)
{
    const fast_trainer *t = &context->trainer;
    void *block = NULL;

    FAST_ASSERT(record != NULL);
    switch (record->kind) {
    case FAST_SAVED_WEIGHTS: /* empty where it is the run's model */
        return record->size > 0 ? copy_record(record, t->w, (size_t)t->count * sizeof *t->w)
                                : FAST_OK;
    case FAST_SAVED_STATE:
        return t->state_count ? copy_record(record, t->s, (size_t)t->state_count * sizeof *t->s)
                              : FAST_OK;
    case FAST_SAVED_RULE:
        return load_rule(context, record);
    case FAST_SAVED_CONTRIBUTIONS:
        return copy_record(record, context->shares.w,
                           (size_t)fast_trainer_share_count(t) * sizeof *context->shares.w);
    case FAST_SAVED_BLOCK:
        if (record->number < 0 || record->size == 0)
            return fast__fail(FAST_EFORMAT, "the checkpoint's record of a strategy is damaged");
        FAST_TRY(fast__context_block(context, NULL, record->number, record->size, &block));
        return copy_record(record, block, record->size);
    case FAST_SAVED_SPACE:
        return fast__context_load_space(context, record->number, record->data, record->size);
    case FAST_SAVED_SUM:
    case FAST_SAVED_FLOW:
        return fast__context_load_codec(context, record->kind == FAST_SAVED_FLOW, record);
    default:
        return fast__fail(FAST_EFORMAT, "the checkpoint has a record of unknown kind %lld",
                          (long long)record->kind);
    }
}

fast_err fast__context_load_program(fast_context *context, const void *bytes, size_t size)
{
    fast_pack_record record;

    FAST_ASSERT(bytes != NULL || size == 0);
    for (size_t at = 0; fast__pack_next(bytes, size, &at, &record);) {
        const fast_memory_block *part = context->parts;

        if (record.kind != FAST_SAVED_BLOCK || record.number < FAST_REMEMBERED) {
            FAST_TRY(fast__context_load(context, &record));
            continue;
        }
        while (part && part->id != record.number - FAST_REMEMBERED)
            part = part->next;
        FAST_TRY(copy_record(&record, part ? part->data : NULL, part ? part->size : 0));
    }
    return FAST_OK;
}
