/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priority of transfers. The way back makes the gradient of the first layer last, and the next way
 * forward needs it first: where a network is waited for, sums in the order in which they become
 * final let the next step wait for all of them. Here
 *
 *   slices   of at most `slice` floats are summed, so that a large layer does not hold up a small
 *            one that is needed earlier (P3: Jayarajan et al. 2019)
 *   order    of those that are ready the slice of the lowest layer is begun first (TicTac: Hashemi
 *            et al. 2019), with DEPTH sums under way
 *   forward  the next step begins when the first layer has come, and each layer waits for its own
 *            weights alone
 *
 * All workers must begin sums in one order. Worker 0 takes the times at which slices became ready
 * in the second step, and the seconds that the group's model gives each sum, plays the rule above
 * through, and tells the others the order; it stands for the rest of the run. The sums have a group
 * of their own, because the run's has other collectives while slices still wait to be begun.
 *
 * The bits are those of allreduce: a sum does not depend on how the vector is cut or on when it is
 * made, and an update by range uses the step and the rate of its gradient.
 *
 * Cost per worker and step: an allreduce for each slice. Memory: a few words for each.
 */
#include "strategy/priority.h"

#include "base/err.h"
#include "base/memory.h"
#include "strategy/overlap.h"

#include <math.h>
#include <stdio.h>

enum { DEPTH = 8 };

/* A slice of the gradient, from its begin to its end. */
typedef struct slice {
    int64_t offset;        /* of its range in g */
    int64_t count;         /* of its elements */
    int64_t missing;       /* of them: not final yet in this step */
    int64_t ready_ns;      /* when it became final in the second step */
    fast_request *request; /* its sum, while that is under way */
} slice;

typedef struct transfers {
    fast_trainer *t;
    fast_group *group;         /* of the sums */
    int64_t most;              /* elements of a slice, but the last */
    slice *slices;             /* all of the gradient */
    int64_t count;             /* of them */
    int64_t *order;            /* [count]: in which sums are begun */
    int64_t begun;             /* of them, in that order */
    int64_t done;              /* of them: summed and updated */
    int64_t step;              /* of the gradient that is summed; 0: none was */
    double lr;                 /* likewise */
    fast_err err;              /* the first failure in a report */
    char why[FAST_DETAIL_MAX]; /* its detail */
} transfers;

/* Begin what may be begun: in order, ready, and not more than DEPTH at once. */
static fast_err pump(transfers *x)
{
    while (x->begun < x->count && x->begun - x->done < DEPTH) {
        slice *s = &x->slices[x->order[x->begun]];

        if (s->missing > 0)
            return FAST_OK;
        FAST_TRY(fast_trainer_sum_range_start(x->t, x->group, s->offset, s->count, &s->request));
        x->begun++;
    }
    return FAST_OK;
}

/* The oldest sum under way has ended: update its range. */
static fast_err take_in(transfers *x, int64_t deadline)
{
    fast_trainer *t = x->t;
    slice *s = &x->slices[x->order[x->done]];

    FAST_ASSERT(x->done < x->begun && s->request != NULL);
    FAST_TRY(fast_request_wait(&s->request, deadline));
    fast_trainer_update_range(t, x->step, x->lr, t->w + s->offset, t->g + s->offset,
                              1.0f / (float)t->workers, s->offset, s->count);
    x->done++;
    return pump(x);
}

/* Take in what has ended meanwhile, without waiting. */
static fast_err look(transfers *x)
{
    bool done = true;

    FAST_TRY(pump(x));
    while (x->done < x->begun && done) {
        FAST_TRY(fast_request_test(x->slices[x->order[x->done]].request, &done));
        if (done)
            FAST_TRY(take_in(x, FAST_SOON));
    }
    return FAST_OK;
}

/* A step's transfers begin anew: all of the last step's are in, because the way forward needed
 * them. */
static void begin(transfers *x)
{
    FAST_ASSERT(x->step == 0 || x->done == x->count);
    x->begun = x->done = 0;
    x->step = x->t->step + 1;
    x->lr = x->t->lr;
    for (int64_t i = 0; i < x->count; i++)
        x->slices[i].missing = x->slices[i].count;
}

/* A report of the gradient. */
static void report(void *ctx, int64_t offset, int64_t count)
{
    transfers *x = ctx;

    if (x->step != x->t->step + 1)
        begin(x);
    for (int64_t i = offset / x->most; i < x->count && i * x->most < offset + count; i++) {
        slice *s = &x->slices[i];
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
    x->err = look(x);
    if (x->err)
        snprintf(x->why, sizeof x->why, "%s", fast_error_detail());
}

/* The way forward comes to a range: take in until all of it is there. */
static fast_err need(void *ctx, int64_t offset, int64_t count)
{
    transfers *x = ctx;

    FAST_TRY(look(x));
    for (int64_t i = x->done; i < x->count && x->done < x->count;) {
        const slice *s = &x->slices[x->order[i]];

        if (s->offset >= offset + count || offset >= s->offset + s->count)
            i++;
        else if (x->done <= i)
            FAST_TRY(take_in(x, FAST_SOON));
        else
            i++;
    }
    return FAST_OK;
}

static fast_err settle(void *ctx)
{
    transfers *x = ctx;

    return x->step > 0 ? need(x, 0, x->t->count) : FAST_OK;
}

/* Play the rule through: of the slices that are ready the lowest is next. */
static void plan(transfers *x)
{
    double now = 0;

    for (int64_t k = 0; k < x->count; k++)
        x->slices[k].missing = 1; /* in the order */
    for (int64_t placed = 0; placed < x->count; placed++) {
        int64_t best = -1, soonest = -1;
        double seconds = 0;

        for (int64_t k = 0; k < x->count; k++) {
            const slice *s = &x->slices[k];

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

/* Worker 0's order becomes everyone's. */
static fast_err agree(transfers *x)
{
    FAST_TRY(settle(x));
    if (x->t->rank == 0)
        plan(x);
    FAST_TRY(
        fast_broadcast(x->t->group, 0, x->order, (size_t)x->count * sizeof *x->order, FAST_SOON));
    for (int64_t i = 0; i < x->count; i++)
        if (x->order[i] < 0 || x->order[i] >= x->count)
            return fast__fail(FAST_EINVAL, "worker 0 sent no order of %lld slices",
                              (long long)x->count);
    return FAST_OK;
}

/* Slices as long as `most`, first in the order in which the way back comes to them. */
static fast_err cut(transfers *x)
{
    x->count = (x->t->count + x->most - 1) / x->most;
    FAST_TRY(fast__alloc("slices of gradients", x->count, sizeof *x->slices, &x->slices));
    FAST_TRY(fast__alloc("an order of slices", x->count, sizeof *x->order, &x->order));
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t at = i * x->most, left = x->t->count - at;

        x->slices[i] = (slice){ .offset = at, .count = left < x->most ? left : x->most };
        x->order[i] = x->count - 1 - i;
    }
    return FAST_OK;
}

/* The first step: one sum after the gradient, which lets the group measure. */
static fast_err first_step(transfers *x)
{
    fast_trainer *t = x->t;

    FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
    fast_actor_at(t->actor, t->step, "gradient");
    FAST_TRY(fast_trainer_sum_range(t, x->group, 0, t->count));
    return fast_trainer_update(t, t->g, 1.0f / (float)t->workers);
}

static fast_err next_step(transfers *x)
{
    fast_trainer *t = x->t;

    FAST_TRY(x->step > 0 ? fast_trainer_gradient_when(t, need, report, x)
                         : fast_trainer_gradient(t, report, x));
    fast_actor_at(t->actor, t->step, "gradient");
    if (x->err)
        return fast__fail(x->err, "%s", x->why);
    FAST_ASSERT(x->step == t->step);
    return look(x);
}

static fast_err train(transfers *x)
{
    fast_trainer *t = x->t;
    int64_t steps = 0; /* of this call */
    fast_err err;

    while (fast_trainer_next(t)) {
        FAST_TRY(steps == 0 ? first_step(x) : next_step(x));
        if (++steps == 2)
            FAST_TRY(agree(x));
        FAST_TRY(fast__allreduce_state(t));
    }
    err = fast_trainer_end(t);
    return err ? err : settle(x);
}

fast_err fast__priority_train(fast_trainer *t, const char *algorithm, int64_t most)
{
    transfers x = { .t = t, .most = most > 0 ? most : 1 };
    fast_err err;

    FAST_TRY(fast_group_all(t->actor, "worker", &x.group));
    err = fast_group_algorithm(x.group, algorithm);
    fast_trainer_settle(t, settle, &x);
    if (!err)
        err = cut(&x);
    if (!err)
        err = train(&x);
    fast_trainer_settle(t, NULL, NULL);
    fast_group_free(x.group); /* and what is under way after a failure */
    fast__free(x.slices);
    fast__free(x.order);
    return err;
}
