/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Use of a sum in shared memory: members lend a vector each, and every element of the sum is used
 * once, by one member, which gives it to a function while it is in the first-level cache. Replicas
 * that share their weights are updated in this way: a reduce-scatter that ends in the update.
 *
 *     offer     a range of the member's vector is final; ranges come in the same order at all
 *     own       a range that all have offered is cut into pieces, and each member has a part of
 *               them: always the same one, so that what belongs to it stays in the member's cache
 *     help      a member that has nothing else to do takes pieces of others
 *     settle    when no piece is left it says so; the use is over once all members have
 *
 * Offers wait for nothing, so ranges are used during a backward pass, when they are in the cache. A
 * late member finds its pieces used by members that came early: they wait as long as it computes,
 * and no longer for its part of the update.
 *
 * A piece is taken by a compare-and-swap of `taken`, which has the number of the range in its upper
 * bits: a word with an older number counts as 0, so nobody resets it, and one with a newer number
 * belongs to a later use, so nothing of the older one is left.
 *
 * In its first use a group counts the ranges. If there are more than RANGES, or if actors outnumber
 * cores, the vector is one range, offered at the end.
 */
#include "comm/collective/direct.h"
#include "tensor/stream_copy.h"
#include "tensor/sum.h"

enum {
    OFFER = 16384,   /* floats of a range at least, unless the next one is not beside it */
    OFFERS = 32,     /* ranges that a vector of many floats has at least */
    TAKEN_BITS = 24, /* of `taken`: the number of pieces */
    PIECE_MIN = 256, /* floats of a piece at least, */
    PIECE_MAX =
        8192 /* and at most: to take one costs as much as to use 1000 floats, because it waits
                        for the stores of the one before */
};

/* Floats of a piece: some for each member, so that one can help another. */
static int64_t piece_size(const direct_member *d, const fast_direct_use *u)
{
    const int64_t fair = u->count / (8 * d->group->size) / PIECE_MIN * PIECE_MIN;

    FAST_ASSERT(u->count >= 0);
    return fair > PIECE_MAX ? PIECE_MAX : fair < PIECE_MIN ? PIECE_MIN : fair;
}

/* Start a use at the first call. */
static void begin(direct_member *d, const fast_direct_use *u)
{
    direct_progress *p = &d->use;

    FAST_ASSERT(u->x != NULL && u->use != NULL);
    if (p->begun)
        return;
    p->begun = true;
    p->first = p->own = p->others = atomic_load_explicit(&d->own->offered, memory_order_relaxed);
    p->low = p->high = p->covered = p->used = p->count = 0;
    d->own->lent = u->x;
}

/* Publish a range of the vector. */
static void publish(direct_member *d, int64_t offset, int64_t count)
{
    const unsigned long long number = atomic_load_explicit(&d->own->offered, memory_order_relaxed);

    FAST_ASSERT(offset >= 0 && count > 0);
    d->own->ranges[number % RANGES] = (direct_range){ offset, count };
    atomic_store(&d->own->offered, number + 1);
    fast__direct_tell(d, &d->board->offered);
}

/* Offer the range that is final; in the first use only count it. */
static void offer(direct_member *d)
{
    direct_progress *p = &d->use;

    FAST_ASSERT(p->begun);
    if (p->low == p->high)
        return;
    if (p->early && p->count < RANGES)
        publish(d, p->low, p->high - p->low);
    p->count++;
    p->low = p->high = 0;
}

/* Return true if all members have offered the range, else set what it waits for: nothing, if one
 * has offered another range. */
static bool is_ready(direct_member *d, direct_op *op, uint64_t number)
{
    const direct_range *own = &d->own->ranges[number % RANGES];

    FAST_ASSERT(d->use.odd == 0);
    op->scan = d->group->size - 1;
    if (!fast__direct_reached(d, op, &d->own->offered, number + 1))
        return false;
    op->awaited = NULL;
    for (int64_t i = 0; i < d->group->size; i++) {
        const direct_range *other = &d->board->rows[i].ranges[number % RANGES];

        if (other->offset != own->offset || other->count != own->count)
            d->use.odd = 1 + i;
    }
    return d->use.odd == 0;
}

/* Take one of the `count` pieces of a member's part of a range: return its index, or -1. */
static int64_t take(direct_member *d, uint64_t number, int64_t home, int64_t count)
{
    atomic_ullong *word = &d->board->rows[home].taken[number % RANGES];
    unsigned long long before = atomic_load(word), taken;

    FAST_ASSERT(count >= 0 && count >> TAKEN_BITS == 0);
    do {
        if (before >> TAKEN_BITS > number)
            return -1;
        taken = before >> TAKEN_BITS == number ? before & ((1ULL << TAKEN_BITS) - 1) : 0;
        if ((int64_t)taken >= count)
            return -1;
    } while (!atomic_compare_exchange_weak(word, &before, (number << TAKEN_BITS | taken) + 1));
    return (int64_t)taken;
}

/* Take a piece of a member's part of a range and use it. False if none is left. */
static bool use_piece(direct_member *d, const fast_direct_use *u, uint64_t number, int64_t home)
{
    const direct_range range = d->own->ranges[number % RANGES];
    const int64_t size = piece_size(d, u), n = d->group->size;
    const int64_t low = range.offset / size;
    const int64_t all = (range.offset + range.count - 1) / size + 1 - low;
    int64_t first = 0, count = 0;
    float sum[FAST_USE_MAX];

    FAST_ASSERT(home >= 0 && home < n);
    /* The first ranks have a piece more: another rank is first in each range. */
    fast__range(all, n, (home + (int64_t)(number - d->use.first)) % n, &first, &count);
    const int64_t index = take(d, number, home, count);
    if (index < 0)
        return false;
    const int64_t begin = (low + first + index) * size, end = begin + size;
    const int64_t from = begin > range.offset ? begin : range.offset;
    const int64_t to = end < range.offset + range.count ? end : range.offset + range.count;
    for (int64_t i = 0; i < n; i++)
        d->use.lent[i] = d->board->rows[i].lent;
    for (int64_t at = from; at < to; at += FAST_USE_MAX) {
        const int64_t some = to - at < FAST_USE_MAX ? to - at : FAST_USE_MAX;

        fast__sum_range(d->use.lent, n, at, some, sum);
        u->use(u->ctx, at, some, sum);
    }
    d->use.used += to - from;
    return true;
}

/* Use the member's own part of all ranges that are ready; with `help`, then one piece of another's.
 * Return false if there was nothing to do, or a member gave up. */
static bool work(direct_member *d, const fast_direct_use *u, direct_op *op, bool help)
{
    direct_progress *p = &d->use;
    const uint64_t offered = atomic_load_explicit(&d->own->offered, memory_order_relaxed);
    const bool may = fast__direct_enter(d) && p->odd == 0;
    bool some = false;

    for (; may && p->own < offered && is_ready(d, op, p->own); p->own++)
        while (use_piece(d, u, p->own, d->group->rank))
            some = true;
    for (; may && help && !some && p->others < p->own; p->others += !some)
        for (int64_t i = 1; i < d->group->size && !some; i++)
            some = use_piece(d, u, p->others, (d->group->rank + i) % d->group->size);
    fast__stream_end(); /* `use` may write past the caches */
    fast__direct_exit(d);
    return some;
}

void fast__direct_use_range(fast_group *group, const fast_direct_use *u, int64_t offset,
                            int64_t count)
{
    direct_member *d = fast__direct_member(group);
    direct_progress *p = &d->use;
    const int64_t many = u->count / OFFERS > OFFER ? u->count / OFFERS : OFFER;

    FAST_ASSERT(offset >= 0 && count > 0 && offset + count <= u->count);
    if (group->size == 1)
        return;
    begin(d, u);
    p->covered += count;
    if (p->low != p->high && offset + count != p->low && offset != p->high)
        offer(d);
    if (p->low == p->high)
        p->low = p->high = offset;
    if (offset == p->high)
        p->high += count;
    else
        p->low = offset;
    if (p->high - p->low >= many)
        offer(d);
    work(d, u, &(direct_op){ .phase = SUM }, false);
}

/* Use all that is left, together with the others, as ranges become ready. */
static fast_err use_rest(direct_member *d, const fast_direct_use *u, int64_t deadline)
{
    direct_op op = { .phase = SUM, .since = -1 };
    fast_err err = FAST_OK;

    FAST_ASSERT(d->use.begun);
    while (!err && d->use.odd == 0) {
        op.awaited = NULL;
        if (work(d, u, &op, true))
            continue;
        if (d->use.own == atomic_load_explicit(&d->own->offered, memory_order_relaxed))
            break;
        if (d->use.odd == 0)
            err = fast__direct_wait(d, &op, deadline);
    }
    if (!err && d->use.odd > 0)
        err = fast__fail(FAST_EINVAL,
                         "rank %lld has another range to sum; every member gives the same ones",
                         (long long)d->use.odd - 1);
    return err;
}

/* Say that nothing is left, and wait until all members have. */
static fast_err settle(direct_member *d, int64_t deadline)
{
    const unsigned long long number =
        atomic_load_explicit(&d->own->settled, memory_order_relaxed) + 1;
    direct_op op = { .phase = SUM, .since = -1, .scan = d->group->size - 1 };
    fast_err err = FAST_OK;

    FAST_ASSERT(d->use.own >= d->use.first);
    atomic_store(&d->own->settled, number);
    fast__direct_tell(d, &d->board->settled);
    while (!err && !fast__direct_reached(d, &op, &d->own->settled, number))
        err = fast__direct_wait(d, &op, deadline);
    return err;
}

/* Offer what was not offered yet: the last range, or the whole vector. */
static fast_err offer_rest(direct_member *d, const fast_direct_use *u)
{
    direct_progress *p = &d->use;

    begin(d, u);
    offer(d);
    FAST_ASSERT(p->covered <= u->count);
    if (p->count == 0 || !p->early) {
        if (u->count > 0)
            publish(d, 0, u->count);
    } else if (p->covered != u->count || p->count > RANGES) {
        return fast__fail(FAST_EINVAL, "the ranges of a gradient are not those of the first step");
    }
    if (!p->counted && p->count > 0) {
        p->counted = true;
        p->early = p->covered == u->count && p->count <= RANGES && !d->crowded;
    }
    return FAST_OK;
}

/* Give up: nobody reads this member's vector any more. */
static void give_up(direct_member *d)
{
    FAST_ASSERT(d->use.begun);
    d->use.begun = false;
    fast__direct_leave(d, &(direct_op){ .phase = SUM });
}

fast_err fast__direct_use(fast_group *group, const fast_direct_use *u, int64_t deadline)
{
    FAST_ASSERT(group != NULL && u->use != NULL);
    FAST_TRY(fast__group_check_count("allreduce", u->count));
    FAST_TRY(fast__group_check(group));
    FAST_TRY(fast__direct_use_open(group));
    for (int64_t at = 0; group->size == 1 && at < u->count; at += FAST_USE_MAX)
        u->use(u->ctx, at, u->count - at < FAST_USE_MAX ? u->count - at : FAST_USE_MAX, u->x + at);
    if (group->size == 1)
        return FAST_OK;
    direct_member *d = fast__direct_member(group);
    fast_err err = offer_rest(d, u);
    deadline = fast__deadline(group->actor, deadline);
    if (!err)
        err = use_rest(d, u, deadline);
    if (!err)
        err = settle(d, deadline);
    if (err) {
        give_up(d);
        return fast__group_fail(group, err);
    }
    d->use.begun = false;
    const double used = (double)d->use.used, n = (double)group->size;
    return fast_charge(group->actor, used * (n - 1), 2 * used * n * sizeof(float));
}

fast_err fast__direct_use_open(fast_group *group)
{
    FAST_ASSERT(group != NULL);
    return fast__allreduce_open(group, fast__allreduce_number(&fast__allreduce_direct));
}

void fast__direct_use_drop(fast_group *group)
{
    direct_member *d = fast__direct_member(group);

    FAST_ASSERT(group != NULL);
    if (d && d->use.begun)
        give_up(d);
}
