/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of sliced answers. A reader tells the owners once in which order it needs the ranges of
 * the first tensor; from then on their answers to its gets in slices come in this order. Without
 * an order the first floats come first.
 *
 *     ORDER   part 0: pairs of int64, offset and count of a range of the whole tensor; ranges do
 *             not overlap, and an owner uses what it holds of them. Floats that are in no range are
 *             not sent
 *
 * Both sides count positions: the number of floats of the owner's range that were sent before.
 *
 *     order     | c: 20 .. 30 | a: 0 .. 15 | b: 15 .. 20 |      owner holds 10 .. 25
 *     sent      | 20 .. 25 | 10 .. 15 | 15 .. 20 |               positions 0, 5, 10
 */
#include "space/space_order.h"

#include "base/memory.h"
#include "space/space_service.h"
#include "space/space_wire.h"
#include "tensor/vector.h"

#include <stdlib.h>
#include <string.h>

/* Offsets of two ranges, for qsort(). */
static int by_offset(const void *a, const void *b)
{
    const fast_space_stretch *x = a, *y = b;
    FAST_ASSERT(x && y);
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Return true if the ranges lie in [0, total) and do not overlap; `list` may be hostile.
 * FAST_ENOMEM. */
static fast_err is_order(const fast_space_stretch *list, int64_t count, int64_t total, bool *out)
{
    fast_space_stretch *sorted = NULL;
    int64_t at = 0;
    FAST_ASSERT(list && count > 0);
    FAST_TRY(fast__alloc("an order", count, sizeof *sorted, &sorted));
    memcpy(sorted, list, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_offset);
    *out = true;
    for (int64_t i = 0; i < count && *out; i++) {
        *out = sorted[i].offset >= at && sorted[i].offset < total && sorted[i].count > 0 &&
               sorted[i].count <= total - sorted[i].offset;
        at = *out ? sorted[i].offset + sorted[i].count : at;
    }
    fast__free(sorted);
    return FAST_OK;
}

void fast__space_order_free(fast_space_order *order)
{
    FAST_ASSERT(order->count == 0 || order->list);
    fast__free(order->list);
    *order = (fast_space_order){ 0 };
}

/* Replace an order by a copy of a list that is valid. */
static fast_err replace(fast_space_order *order, const fast_space_stretch *list, int64_t count)
{
    fast_space_order fresh = { .count = count };
    FAST_ASSERT(count > 0);
    FAST_TRY(fast__alloc("an order", count, sizeof *fresh.list, &fresh.list));
    memcpy(fresh.list, list, (size_t)count * sizeof *list);
    fast__space_order_free(order);
    *order = fresh;
    return FAST_OK;
}

int64_t fast__space_order_at(const fast_space_order *order, int64_t low, int64_t size,
                             int64_t position, int64_t *count_out)
{
    FAST_ASSERT(position >= 0 && position < fast__space_order_size(order, low, size));
    int64_t before = 0;
    for (int64_t i = 0; i < order->count; i++) {
        const fast_space_stretch *s = &order->list[i];
        const int64_t from = s->offset > low ? s->offset : low;
        const int64_t to = s->offset + s->count < low + size ? s->offset + s->count : low + size;
        if (from >= to)
            continue;
        if (position - before < to - from) {
            *count_out = to - from - (position - before);
            return from + (position - before) - low;
        }
        before += to - from;
    }
    FAST_ASSERT(order->count == 0); /* the position is in one of its ranges */
    *count_out = size - position;
    return position;
}

/* Both ends compute it: a reader knows by it when a sliced answer is complete. */
int64_t fast__space_order_size(const fast_space_order *order, int64_t low, int64_t size)
{
    int64_t sum = 0;
    FAST_ASSERT(low >= 0 && size >= 0);
    for (int64_t i = 0; i < order->count; i++) {
        const fast_space_stretch *s = &order->list[i];
        const int64_t from = s->offset > low ? s->offset : low;
        const int64_t to = s->offset + s->count < low + size ? s->offset + s->count : low + size;
        sum += to > from ? to - from : 0;
    }
    return order->count == 0 ? size : sum;
}

int64_t fast__space_order_end(const fast_space_order *order, int64_t low, int64_t size,
                              int64_t offset, int64_t count)
{
    const int64_t start = offset > low ? offset : low;
    const int64_t end = offset + count < low + size ? offset + count : low + size;
    int64_t before = 0, found = 0;
    FAST_ASSERT(offset >= 0 && count >= 0);
    if (start >= end)
        return 0;
    if (order->count == 0)
        return end - low;
    for (int64_t i = 0; i < order->count; i++) {
        const fast_space_stretch *s = &order->list[i];
        const int64_t from = s->offset > low ? s->offset : low;
        const int64_t to = s->offset + s->count < low + size ? s->offset + s->count : low + size;
        if (from >= to)
            continue;
        if (from < end && start < to)
            found = before + (to < end ? to : end) - from;
        before += to - from;
    }
    return found;
}

/* A part of a sliced answer, as one of its ranges holds it. */
typedef struct order_piece {
    int64_t at;     /* offset in the owner's range */
    int64_t packed; /* offset in the part */
    int64_t count;  /* floats; 0: the range has none of the part */
} order_piece;

/* Return the piece of floats [position, position + floats) that range i of the order holds, and add
 * the floats of that range to *before. */
static order_piece piece_of(const fast_space_order *order, int64_t i, int64_t low, int64_t size,
                            int64_t position, int64_t floats, int64_t *before)
{
    const fast_space_stretch *s = &order->list[i];
    const int64_t from = s->offset > low ? s->offset : low;
    const int64_t to = s->offset + s->count < low + size ? s->offset + s->count : low + size;
    const int64_t run = to > from ? to - from : 0, begin = *before;
    const int64_t first = position > begin ? position : begin;
    const int64_t end = position + floats < begin + run ? position + floats : begin + run;
    FAST_ASSERT(position >= 0 && floats >= 0);
    *before += run;
    return end > first ? (order_piece){ from - low + first - begin, first - position, end - first }
                       : (order_piece){ 0, 0, 0 };
}

/* One pass over the ranges, however many of them are in the part. */
void fast__space_order_pack(const fast_space_order *order, int64_t low, int64_t size,
                            int64_t position, int64_t floats, const float *range, float *packed)
{
    int64_t before = 0;
    FAST_ASSERT(order->count > 0 && range && packed);
    for (int64_t i = 0; i < order->count && before < position + floats; i++) {
        const order_piece p = piece_of(order, i, low, size, position, floats, &before);
        if (p.count > 0)
            fast__vector_copy(p.count, range + p.at, packed + p.packed);
    }
}

/* The inverse: floats of the range that are in no range of the order stay as they are. */
void fast__space_order_unpack(const fast_space_order *order, int64_t low, int64_t size,
                              int64_t position, int64_t floats, const float *packed, float *range)
{
    int64_t before = 0;
    FAST_ASSERT(order->count > 0 && range && packed);
    for (int64_t i = 0; i < order->count && before < position + floats; i++) {
        const order_piece p = piece_of(order, i, low, size, position, floats, &before);
        if (p.count > 0)
            fast__vector_copy(p.count, packed + p.packed, range + p.at);
    }
}

/* Not under way: answers in flight have the old order. */
fast_err fast__space_set_order(fast_space *space, const fast_space_stretch *list, int64_t count)
{
    const int64_t words[3] = { 0 };
    bool valid = false;
    FAST_ASSERT(space->reader.missing == 0);
    FAST_TRY(is_order(list, count, space->map.counts[0], &valid));
    FAST_ASSERT(valid);
    FAST_TRY(replace(&space->reader.order, list, count));
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        const fast_space_owner *o = &space->map.owners[owner];
        const size_t size = (size_t)count * sizeof *list;
        fast_buffer *buffer = NULL;
        fast_msg *msg = NULL;
        if (o->store.head || o->gone || o->refused)
            continue;
        FAST_TRY(fast__space_message(space, FAST_SPACE_ORDER, 0, owner, words, &msg));
        const fast_err err = fast_buffer_new(space->actor, size, &buffer);
        if (err) {
            fast_msg_free(msg);
            return err;
        }
        memcpy(fast_buffer_data(buffer), list, size);
        fast_msg_add(msg, &buffer);
        FAST_TRY(fast_send(space->actor, o->id, &msg));
    }
    return FAST_OK;
}

/* Every number is the sender's. */
fast_err fast__space_take_order(fast_space *space, const fast_msg *msg, fast_space_order *order)
{
    const size_t size = msg->part_count == 1 ? msg->parts[0].size : 0;
    const int64_t count = (int64_t)(size / sizeof *order->list);
    bool valid = false;
    FAST_ASSERT(order);
    if (count > 0 && size % sizeof *order->list == 0 && count <= space->map.counts[0]) {
        const fast_space_stretch *list = fast_msg_data(msg, 0);
        FAST_TRY(is_order(list, count, space->map.counts[0], &valid));
        if (valid)
            return replace(order, list, count);
    }
    space->owned.service->refused++;
    return FAST_OK;
}
