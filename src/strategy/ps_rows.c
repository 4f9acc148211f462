/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows: a worker of a proxy reads the rows of the model that its batches need, and no others
 * (LazyTable: Cui et al. 2014). The proxy is the cache of a process, the worker's weights are that
 * of a thread.
 *
 *     before an epoch   virtual iteration: of each batch of the epoch note which rows it will read,
 *                       without computing; tell the proxy these ranges
 *     each step         ask for them; the pass starts when the rows of its first layer are there,
 *                       the others are fetched ahead of it
 *
 * Batches are a function of their step, so that the pattern is exact. Rows are those of embeddings;
 * of all other layers every weight is read. Rows that are not read are old: before an evaluation or
 * a checkpoint, and at the end, the worker reads the whole model.
 *
 * Cost: the batches of an epoch are loaded twice; a byte for each weight.
 */
#include "strategy/ps_rows.h"
#include "base/memory.h"
#include "space/space.h"
#include "trainer/operators.h"
#include "trainer/remember.h"

#include <math.h>
#include <string.h>

/* Note a range that a batch reads. */
static void mark(void *ctx, int64_t offset, int64_t count)
{
    ps_rows *r = ctx;

    FAST_ASSERT(offset >= 0 && count >= 0 && offset + count <= r->t->count);
    memset(r->wanted + offset, 1, (size_t)count);
}

/* List the ranges that are wanted, at most `room` of them; return their number. */
static int64_t list_ranges(const ps_rows *r, int64_t room, fast_space_stretch *list)
{
    int64_t n = 0, begin = 0;

    FAST_ASSERT(r->wanted != NULL);
    for (int64_t i = 1; i <= r->t->count; i++) {
        if (i < r->t->count && r->wanted[i] == r->wanted[begin])
            continue;
        if (r->wanted[begin] && n < room)
            list[n] = (fast_space_stretch){ begin, i - begin };
        n += r->wanted[begin];
        begin = i;
    }
    return n;
}

/* Tell the proxy which ranges this worker will read. */
static fast_err tell_ranges(ps_rows *r)
{
    const int64_t count = list_ranges(r, 0, NULL);
    fast_space_stretch *list = NULL;

    FAST_ASSERT(count >= 0);
    if (count == 0) /* batches without samples: nothing is read */
        return FAST_OK;
    FAST_TRY(fast__alloc("ranges that are read", count, sizeof *list, &list));
    (void)list_ranges(r, count, list);
    const fast_err err = fast__space_set_order(r->space, list, count);
    fast__free(list);
    return err;
}

/* The virtual iteration, before the first step of each epoch. */
static fast_err learn(ps_rows *r)
{
    const fast_trainer *t = r->t;
    const int64_t epoch = t->step / t->epoch_steps;

    FAST_ASSERT(t->epoch_steps > 0);
    if (epoch == r->epoch)
        return FAST_OK;
    r->epoch = epoch;
    memset(r->wanted, 0, (size_t)t->count);
    for (int64_t step = t->step; step < (epoch + 1) * t->epoch_steps; step++)
        FAST_TRY(fast__trainer_rows(t, step, mark, r));
    return tell_ranges(r);
}

/* Wait for rows that the pass is about to read. */
static fast_err need_rows(void *ctx, int64_t offset, int64_t count)
{
    const ps_rows *r = ctx;

    FAST_ASSERT(count >= 0);
    return fast__space_get_need(r->space, offset, count);
}

/* Read all of the model: it is about to be evaluated or saved. */
static fast_err read_all(void *ctx)
{
    const ps_rows *r = ctx;
    fast_space_read read = { .version_min = r->t->step - r->begin };

    FAST_ASSERT(read.version_min >= 0);
    return fast_space_get(r->space, 0, r->t->w, &read, FAST_SOON);
}

/* Have snapshots include the rows of the epoch: batches that are over are among them. A proxy of a
 * resumed run is told again, before the first step. */
static fast_err remember(ps_rows *r)
{
    double *speed = fast__trainer_speed(r->t);
    bool sane = true;

    FAST_ASSERT(r->epoch == -1);
    FAST_TRY(fast__trainer_remember(r->t, 2, &r->epoch, sizeof r->epoch));
    FAST_TRY(fast__trainer_remember(r->t, 3, r->wanted, (size_t)r->t->count));
    FAST_TRY(fast__trainer_remember(r->t, 4, speed, sizeof *speed));
    for (int64_t i = 0; i < r->t->count; i++)
        sane = sane && r->wanted[i] <= 1;
    FAST_TRY(fast__trainer_check_saved(r->t, sane && *speed >= 0 && isfinite(*speed)));
    return r->epoch >= 0 ? tell_ranges(r) : FAST_OK;
}

fast_err fast__ps_rows_open(fast_trainer *t, fast_space *space, int64_t begin, ps_rows *out)
{
    FAST_ASSERT(space != NULL);
    *out = (ps_rows){ .t = t, .space = space, .begin = begin, .epoch = -1 };
    FAST_TRY(fast__alloc("rows that are read", t->count, sizeof *out->wanted, &out->wanted));
    fast_trainer_settle(t, read_all, out);
    const fast_err err = remember(out);
    if (err)
        fast__ps_rows_close(out);
    return err;
}

void fast__ps_rows_close(ps_rows *r)
{
    FAST_ASSERT(r->t != NULL);
    fast_trainer_settle(r->t, NULL, NULL);
    fast__free(r->wanted);
}

fast_err fast__ps_rows_gradient(ps_rows *r)
{
    fast_trainer *t = r->t;
    fast_space_read read = { .version_min = t->step - r->begin };

    FAST_ASSERT(t->state_count == 0);
    FAST_TRY(learn(r));
    fast_actor_at(t->actor, t->step, "rows of the weights");
    FAST_TRY(fast__space_get_start(r->space, t->w, &read, FAST_SOON));
    const fast_err err = fast_trainer_gradient_when(t, need_rows, NULL, r);
    const fast_err last = fast__space_get_end(r->space, &read);
    return err ? err : last;
}
