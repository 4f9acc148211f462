/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read-my-writes (Ho et al. 2013, SSP): a worker's view holds all of its own updates. Values that
 * it asks for do, since a server handles its requests in order. Five kinds of updates must be
 * added again,
 *
 *     w <- w + sum of the changes that the values lack
 *
 *   sent       an eager server sent the values before it had the last writes. Each write is stored,
 *              and values name the last request that they hold; within the slack s they lack at
 *              most s writes. Of more than PS_RECENT_MAX the values are asked for instead
 *   limited    with a budget of the servers (codec_down=budget) values that arrive are new in some
 *              elements only: a stored write loses these elements, and is added in the others
 *   waiting    with `eager` or a budget, elements that the codec holds back
 *   summed     with a slack, gradients since the last write, where reads are more frequent
 *   cached     with cache_age, all updates since the last read
 *
 * The bound for elements that a codec defers (budget: Bösen, Wei et al. 2015). Of a slack s they
 * may wait h = (s + 1) / 2 rounds, and reads wait for rounds that are s - h old, so that no update
 * is seen later than the slack allows:
 *
 *     write of round c:  if c - complete > h: send all elements that have waited, beyond the budget
 *
 * While a read waits for other workers and the link is idle, elements that wait are sent early.
 *
 * A gradient counts as a step of plain SGD, -lr g: the server's state of other rules is not known
 * here. Memory: the model for each stored write. Cost: none where nothing is lacking.
 */
#include "base/memory.h"
#include "space/space.h"
#include "strategy/ps.h"
#include "tensor/vector.h"

enum { PS_RECENT_MAX = 8 };             /* writes that are stored */
static const int64_t IDLE_NS = 1000000; /* wait of a read after which elements are sent early */

/* A part of an owner's range has arrived, with the first `held` updates and ticks of this writer:
 * stored writes lose the elements that are in it. The write that is being sent has none to lose. */
static void take_part(void *ctx, int64_t owner, int64_t held, const float *changed)
{
    ps_writer *wr = ctx;
    ps_recent *r = &wr->recent;
    const int64_t stored = r->count < r->room ? r->count : r->room;
    int64_t offset, count;

    FAST_ASSERT(owner >= 0 && owner < r->shards);
    fast__space_range(wr->copies.spaces[0], owner, 0, &offset, &count);
    for (int64_t i = 0; i < stored; i++)
        if (!(r->open && i == r->count % r->room) && r->sent[i * r->shards + owner] <= held)
            fast__vector_clear(count, changed, r->x[i] + offset);
    r->mixed = r->mixed || (r->open && held > r->begun[owner]);
}

fast_err fast__ps_recent_init(ps_writer *wr)
{
    ps_recent *r = &wr->recent;
    const ps_config *c = wr->c;
    const int64_t room = c->slack < PS_RECENT_MAX ? c->slack : PS_RECENT_MAX;

    const bool limited = fast__space_limits(wr->copies.spaces[0]);

    FAST_ASSERT(r->room == 0 && wr->t->count > 0);
    if (limited && c->replicas > 0)
        return fast__fail(FAST_EINVAL, "ps: a budget of the servers (codec_down) limits what is "
                                       "read from one copy of the model; leave out replicas");
    if ((!c->eager && !limited) || c->slack <= 0)
        return FAST_OK;
    r->shards = fast__ps_shards(c, wr->t->workers);
    FAST_TRY(fast__alloc("the last writes", room * r->shards, sizeof *r->sent, &r->sent));
    FAST_TRY(fast__alloc("the last writes", r->shards, sizeof *r->dropped, &r->dropped));
    FAST_TRY(fast__alloc("the last writes", r->shards, sizeof *r->begun, &r->begun));
    FAST_TRY(fast__alloc("the last writes", room, sizeof *r->x, &r->x));
    for (r->room = 0; r->room < room; r->room++)
        FAST_TRY(
            fast__vector_new(fast__device_of(wr->t->w), "a write", wr->t->count, &r->x[r->room]));
    fast__space_on_arrival(wr->copies.spaces[0], take_part, wr);
    return FAST_OK;
}

void fast__ps_recent_fini(ps_recent *r)
{
    FAST_ASSERT(r->room == 0 || r->x != NULL);
    for (int64_t i = 0; i < r->room; i++)
        fast__vector_free(r->x[i]);
    fast__free(r->x);
    fast__free(r->sent);
    fast__free(r->dropped);
    fast__free(r->begun);
    *r = (ps_recent){ .room = 0 };
}

float fast__ps_own_scale(const ps_writer *wr)
{
    const ps_config *c = wr->c;
    const float n = (float)(fast__ps_batch(c, wr->writer_count) *
                            (c->staleness == PS_STALENESS_WORKERS ? wr->writer_count : 1));

    FAST_ASSERT(n > 0);
    if (c->send != PS_SEND_GRADIENTS)
        return 1 / n;
    return -(float)fast_trainer_lr(wr->t, wr->step > 0 ? wr->step - 1 : 0) / n;
}

/* A codec that selects sends x and elements that waited, less those that wait after it. */
void fast__ps_recent_begin(ps_writer *wr, const float *x)
{
    ps_recent *r = &wr->recent;
    float *to = r->room > 0 ? r->x[r->count % r->room] : NULL;

    FAST_ASSERT(x != NULL);
    if (!to)
        return;
    r->open = true;
    for (int64_t k = 0; k < r->shards; k++) {
        int64_t seen;

        r->begun[k] = fast__space_sent(wr->copies.spaces[0], k, &seen);
    }
    fast__vector_fill(wr->t->count, 0, to);
    fast__vector_axpy(wr->t->count, fast__ps_own_scale(wr), x, to);
    fast__space_add_waiting(wr->copies.spaces[0], fast__ps_own_scale(wr), to);
}

void fast__ps_recent_end(ps_writer *wr)
{
    ps_recent *r = &wr->recent;
    int64_t seen;

    FAST_ASSERT(r->count >= 0);
    if (r->room == 0)
        return;
    fast__space_add_waiting(wr->copies.spaces[0], -fast__ps_own_scale(wr),
                            r->x[r->count % r->room]);
    for (int64_t k = 0; k < r->shards; k++) {
        int64_t *sent = &r->sent[r->count % r->room * r->shards + k];

        r->dropped[k] = *sent;
        *sent = fast__space_sent(wr->copies.spaces[0], k, &seen);
    }
    r->open = false;
    r->count++;
}

bool fast__ps_recent_lost(const ps_writer *wr)
{
    const ps_recent *r = &wr->recent;
    int64_t seen;

    FAST_ASSERT(r->count >= 0);
    if (r->mixed)
        return true;
    for (int64_t k = 0; r->room > 0 && k < r->shards; k++)
        if (fast__space_sent(wr->copies.spaces[0], k, &seen) > seen && r->dropped[k] > seen)
            return true;
    return false;
}

void fast__ps_add_own(ps_writer *wr)
{
    const ps_recent *r = &wr->recent;
    fast_trainer *t = wr->t;
    const int64_t stored = r->count < r->room ? r->count : r->room;

    FAST_ASSERT(stored >= 0);
    for (int64_t i = 0; i < stored; i++)
        for (int64_t k = 0; k < r->shards; k++) {
            int64_t seen, offset, count;

            fast__space_range(wr->copies.spaces[0], k, 0, &offset, &count);
            if (fast__space_sent(wr->copies.spaces[0], k, &seen) > seen &&
                r->sent[i * r->shards + k] > seen)
                fast__vector_add(count, r->x[i] + offset, t->w + offset);
        }
    if (r->room > 0 || wr->hold.rounds > 0)
        fast__space_add_waiting(wr->copies.spaces[0], fast__ps_own_scale(wr), t->w);
    if (wr->c->slack > 0 && wr->sum && wr->pushed < wr->step)
        fast__vector_axpy(t->count, fast__ps_own_scale(wr), wr->sum, t->w);
}

/* After the step, not before the next one: a resumed worker has its weights and no gradient. */
fast_err fast__ps_cache_own(ps_writer *wr)
{
    const double n = (double)wr->t->count;

    FAST_ASSERT(wr->step > 0);
    const bool added = wr->visit.added; /* by the write, where it was a visit */
    wr->visit.added = false;
    if (added || !fast__ps_is_cached(wr))
        return FAST_OK;
    fast__vector_axpy(wr->t->count, fast__ps_own_scale(wr), wr->g, wr->t->w);
    return fast_charge(wr->t->actor, 2 * n, 12 * n);
}

void fast__ps_hold_begin(ps_writer *wr)
{
    FAST_ASSERT(wr->hold.complete <= wr->step);
    for (int64_t i = 0; wr->hold.rounds > 0 && i < wr->copies.count; i++)
        if (wr->copies.spaces[i])
            fast__space_set_due(wr->copies.spaces[i],
                                wr->step - wr->hold.complete > wr->hold.rounds);
}

void fast__ps_hold_end(ps_writer *wr)
{
    FAST_ASSERT(wr->hold.rounds >= 0);
    if (wr->hold.rounds > 0 && !fast__space_is_waiting(wr->copies.spaces[wr->copies.first]))
        wr->hold.complete = wr->step;
    else if (wr->hold.rounds > 0 && wr->step - wr->hold.complete > wr->hold.rounds)
        wr->hold.complete = wr->step - 1; /* only elements of this round may wait */
}

/* Write elements that wait, with a gradient of 0. */
static fast_err send_early(ps_writer *wr)
{
    FAST_ASSERT(wr->hold.rounds > 0);
    fast__vector_fill(wr->t->count, 0, wr->g);
    fast__ps_recent_begin(wr, wr->g);
    FAST_TRY(
        fast__ps_copies_write(&wr->copies, &(ps_operation){ .kind = PS_WRITE_ADD, .x = wr->g }));
    fast__ps_recent_end(wr);
    if (!fast__space_is_waiting(wr->copies.spaces[wr->copies.first]))
        wr->hold.complete = wr->step;
    return FAST_OK;
}

/* A read of a short tensor under the same condition waits as the read of the model does; that is
 * asked for once only, since its values may travel for long. */
fast_err fast__ps_get_or_send(ps_writer *wr, fast_space_read *read)
{
    fast_trainer *t = wr->t;
    fast_err err = wr->hold.rounds > 0 ? FAST_ETIMEDOUT : FAST_OK;

    FAST_ASSERT(!wr->visit.arriving);
    while (err == FAST_ETIMEDOUT && wr->hold.complete < wr->step) {
        fast_space *space = wr->copies.spaces[wr->copies.first];
        fast_space_read there = *read;

        if (fast__space_has_pushed(space, read))
            break;
        err = fast_space_get(space, wr->copies.tensors.contributions, NULL, &there,
                             fast_now(t->actor) + IDLE_NS);
        if (err == FAST_ETIMEDOUT && fast__space_is_idle(space))
            FAST_TRY(send_early(wr));
    }
    const ps_hybrid *h = &wr->layers.hybrid;
    return fast__ps_copies_get(&wr->copies, 0, h->count > 0 ? h->w : t->w, read);
}
