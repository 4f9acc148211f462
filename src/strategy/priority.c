/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priority of sums. The backward pass finishes the gradient of the first layer last, but the next
 * forward pass needs its weights first. If sums are made in the order in which gradients become
 * final, the next step waits for all of them. This variant of allreduce uses
 *
 *   slices   of at most `most` floats, so that a large layer does not delay a small one that is
 *            needed earlier (P3: Jayarajan et al. 2019)
 *   order    of the slices that are ready the one of the lowest layer is started first (TicTac:
 *            Hashemi et al. 2019), with at most DEPTH sums in flight
 *   forward  the next step starts when the first layer is updated, and each layer waits for its own
 *            weights only
 *
 * All workers must start sums in one order. Worker 0 records when each slice became ready in the
 * second step, asks the group for the seconds of each sum, simulates the rule above, and broadcasts
 * the order, which holds for the rest of the run. The sums have a group of their own, because other
 * collectives of the run take place while slices are in flight.
 *
 * The bits are those of allreduce: a sum does not depend on how the vector is cut or when it is
 * made, and an update by range uses the step and the learning rate of its gradient.
 *
 * Cost per worker and step: an allreduce for each slice. Memory: a few words for each slice.
 */
#include "strategy/priority.h"

#include "base/err.h"
#include "base/memory.h"
#include "strategy/overlap.h"

#include <math.h>
#include <stdio.h>

enum { DEPTH = 8 };

/* A slice of the gradient, and its sum in the current step. */
typedef struct priority_slice {
    int64_t offset;        /* first element of the range of g */
    int64_t count;         /* elements of the range */
    int64_t missing;       /* elements that are not final yet in this step */
    int64_t ready_ns;      /* time at which it became final in the second step; 0: not known yet */
    fast_request *request; /* its sum, while that is in flight; else NULL */
} priority_slice;

/* All slices of a worker, and the state of their sums in the current step. */
typedef struct priority_plan {
    fast_trainer *t;           /* the worker */
    fast_group *group;         /* of all workers, for these sums only */
    int64_t most;              /* elements of each slice but the last */
    priority_slice *slices;    /* [count], in the order of their offsets */
    int64_t count;             /* number of slices */
    int64_t *order;            /* [count]: indices of slices in the order of their sums */
    int64_t started;           /* sums that were started, from order[0] on */
    int64_t done;              /* sums whose range of w is updated, from order[0] on */
    int64_t step;              /* step of the gradient in flight; 0 before the first */
    double lr;                 /* learning rate of that step */
    fast_err err;              /* the first failure in a report */
    char why[FAST_DETAIL_MAX]; /* its detail */
} priority_plan;

/* Start sums in order while the next slice is ready and fewer than DEPTH are in flight. */
static fast_err start_ready(priority_plan *x)
{
    FAST_ASSERT(x->done <= x->started && x->started <= x->count);
    while (x->started < x->count && x->started - x->done < DEPTH) {
        priority_slice *s = &x->slices[x->order[x->started]];

        if (s->missing > 0)
            return FAST_OK;
        FAST_TRY(fast_trainer_sum_range_start(x->t, x->group, s->offset, s->count, &s->request));
        x->started++;
    }
    return FAST_OK;
}

/* Wait for the oldest sum in flight and update its range. */
static fast_err finish_oldest(priority_plan *x, int64_t deadline)
{
    fast_trainer *t = x->t;
    priority_slice *s = &x->slices[x->order[x->done]];

    FAST_ASSERT(x->done < x->started && s->request != NULL);
    FAST_TRY(fast_request_wait(&s->request, deadline));
    fast_trainer_update_range(t, x->step, x->lr, t->w + s->offset, t->g + s->offset,
                              1.0f / (float)t->workers, s->offset, s->count);
    x->done++;
    return start_ready(x);
}

/* Start ready slices and update the ranges whose sums have arrived; never waits. */
static fast_err finish_arrived(priority_plan *x)
{
    bool done = true;

    FAST_ASSERT(x->done <= x->started);
    FAST_TRY(start_ready(x));
    while (x->done < x->started && done) {
        FAST_TRY(fast_request_test(x->slices[x->order[x->done]].request, &done));
        if (done)
            FAST_TRY(finish_oldest(x, FAST_SOON));
    }
    return FAST_OK;
}

/* Reset for a new step. All sums of the last one are done, because the forward pass needed them. */
static void start_step(priority_plan *x)
{
    FAST_ASSERT(x->step == 0 || x->done == x->count);
    x->started = x->done = 0;
    x->step = x->t->step + 1;
    x->lr = x->t->lr;
    for (int64_t i = 0; i < x->count; i++)
        x->slices[i].missing = x->slices[i].count;
}

/* Report of the gradient: count down the slices that the range covers, and start the ready ones. */
static void report(void *ctx, int64_t offset, int64_t count)
{
    priority_plan *x = ctx;

    if (x->step != x->t->step + 1)
        start_step(x);
    for (int64_t i = offset / x->most; i < x->count && i * x->most < offset + count; i++) {
        priority_slice *s = &x->slices[i];
        const int64_t end = s->offset + s->count;
        const int64_t low = offset > s->offset ? offset : s->offset;
        const int64_t high = offset + count < end ? offset + count : end;

        s->missing -= high - low;
        FAST_ASSERT(high > low && s->missing >= 0);
        if (s->missing == 0 && s->ready_ns == 0)
            s->ready_ns = fast_now(x->t->actor);
    }
    if (x->err)
        return;
    x->err = finish_arrived(x);
    if (x->err)
        snprintf(x->why, sizeof x->why, "%s", fast_error_detail());
}

/* Called before the forward pass reads a range of w: wait until all of it is updated. */
static fast_err wait_for_range(void *ctx, int64_t offset, int64_t count)
{
    priority_plan *x = ctx;

    FAST_ASSERT(offset >= 0 && count > 0 && offset + count <= x->t->count);
    FAST_TRY(finish_arrived(x));
    for (int64_t i = x->done; i < x->count && x->done < x->count;) {
        const priority_slice *s = &x->slices[x->order[i]];

        if (s->offset >= offset + count || offset >= s->offset + s->count)
            i++;
        else if (x->done <= i)
            FAST_TRY(finish_oldest(x, FAST_SOON));
        else
            i++;
    }
    return FAST_OK;
}

/* Wait until all of w is updated, before it is evaluated or written to a checkpoint. */
static fast_err settle_all(void *ctx)
{
    priority_plan *x = ctx;

    FAST_ASSERT(x->count > 0);
    return x->step > 0 ? wait_for_range(x, 0, x->t->count) : FAST_OK;
}

/* Simulate the rule at worker 0: of the slices that are ready the lowest is next. */
static void order_slices(priority_plan *x)
{
    double now = 0;

    FAST_ASSERT(x->t->rank == 0 && x->count > 0);
    for (int64_t k = 0; k < x->count; k++)
        x->slices[k].missing = 1; /* 1: not in the order yet */
    for (int64_t placed = 0; placed < x->count; placed++) {
        int64_t best = -1, soonest = -1;
        double seconds = 0;

        for (int64_t k = 0; k < x->count; k++) {
            const priority_slice *s = &x->slices[k];

            if (s->missing == 0)
                continue;
            if (soonest < 0 || s->ready_ns < x->slices[soonest].ready_ns)
                soonest = k;
            if ((double)s->ready_ns <= now && (best < 0 || s->offset < x->slices[best].offset))
                best = k;
        }
        if (best < 0) {
            best = soonest;
            now = (double)x->slices[best].ready_ns;
        }
        (void)fast_group_choice(x->group, x->slices[best].count, &seconds);
        now += isfinite(seconds) ? seconds * 1e9 : 0;
        x->order[placed] = best;
        x->slices[best].missing = 0;
    }
}

/* Broadcast the order of worker 0. FAST_EINVAL if it names no slice. */
static fast_err agree_on_order(priority_plan *x)
{
    FAST_ASSERT(x->count > 0);
    FAST_TRY(settle_all(x));
    if (x->t->rank == 0)
        order_slices(x);
    FAST_TRY(
        fast_broadcast(x->t->group, 0, x->order, (size_t)x->count * sizeof *x->order, FAST_SOON));
    for (int64_t i = 0; i < x->count; i++)
        if (x->order[i] < 0 || x->order[i] >= x->count)
            return fast__fail(FAST_EINVAL, "worker 0 sent an order that does not fit %lld slices",
                              (long long)x->count);
    return FAST_OK;
}

/* Cut the gradient into slices of `most` floats. Their first order is that of the backward pass. */
static fast_err cut_slices(priority_plan *x)
{
    FAST_ASSERT(x->most > 0);
    x->count = (x->t->count + x->most - 1) / x->most;
    FAST_TRY(fast__alloc("slices of gradients", x->count, sizeof *x->slices, &x->slices));
    FAST_TRY(fast__alloc("an order of slices", x->count, sizeof *x->order, &x->order));
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t at = i * x->most, left = x->t->count - at;

        x->slices[i] = (priority_slice){ .offset = at, .count = left < x->most ? left : x->most };
        x->order[i] = x->count - 1 - i;
    }
    return FAST_OK;
}

/* The first step: one sum after the gradient, by which the group measures its algorithms. */
static fast_err first_step(priority_plan *x)
{
    fast_trainer *t = x->t;

    FAST_ASSERT(x->step == 0);
    FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
    fast_actor_at(t->actor, t->step, "gradient");
    FAST_TRY(fast_trainer_sum_range(t, x->group, 0, t->count));
    return fast_trainer_update(t, t->g, 1.0f / (float)t->workers);
}

/* A later step: each layer of the forward pass waits for its own weights. */
static fast_err next_step(priority_plan *x)
{
    fast_trainer *t = x->t;

    FAST_TRY(x->step > 0 ? fast_trainer_gradient_when(t, wait_for_range, report, x)
                         : fast_trainer_gradient(t, report, x));
    fast_actor_at(t->actor, t->step, "gradient");
    if (x->err)
        return fast__fail(x->err, "%s", x->why);
    FAST_ASSERT(x->step == t->step);
    return finish_arrived(x);
}

/* Train to the end. The second step measures when slices become ready. */
static fast_err train(priority_plan *x)
{
    fast_trainer *t = x->t;
    int64_t steps = 0; /* of this call */
    fast_err err;

    FAST_ASSERT(x->count > 0 && x->step == 0);
    while (fast_trainer_next(t)) {
        FAST_TRY(steps == 0 ? first_step(x) : next_step(x));
        if (++steps == 2)
            FAST_TRY(agree_on_order(x));
        FAST_TRY(fast__allreduce_state(t));
    }
    err = fast_trainer_end(t);
    return err ? err : settle_all(x);
}

/* After a failure sums may be in flight: their wait frees them, whatever its outcome. */
static void give_up(priority_plan *x)
{
    for (int64_t i = x->done; i < x->started; i++)
        if (x->slices[x->order[i]].request)
            (void)!fast_request_wait(&x->slices[x->order[i]].request, FAST_AT_ONCE);
}

fast_err fast__priority_train(fast_trainer *t, const char *algorithm, int64_t most)
{
    priority_plan x = { .t = t, .most = most > 0 ? most : 1 };
    fast_err err;

    FAST_ASSERT(t->workers > 1 && fast_trainer_can_update_range(t));
    FAST_TRY(fast_group_new(t->actor, t->worker_ids, t->workers, 1, &x.group));
    err = fast_group_algorithm(x.group, algorithm);
    fast_trainer_settle(t, settle_all, &x);
    if (!err)
        err = cut_slices(&x);
    if (!err)
        err = train(&x);
    fast_trainer_settle(t, NULL, NULL);
    give_up(&x);
    fast_group_free(x.group);
    fast__free(x.slices);
    fast__free(x.order);
    return err;
}
