/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consistency: how new the weights of a step must be.
 *
 *     slack s        a read in round c waits until every writer has finished round c - s (SSP)
 *     global         it waits for the last multiple of s + 1 rounds instead: all wait for all
 *     backup b       it waits for the next update, whichever workers made it; or until all workers
 *                    that are left have written and that was not enough
 *     warm           worker 0 trains alone for some epochs before the others start
 *     epochs p       a worker skips the rest of an epoch that the fraction p of the workers ended
 *
 * Missing workers. With a slack nobody waits for a worker that is down or does not answer, nor for
 * one that is back until it has caught up (space_store.c). A round without backup workers needs all
 * of them, and one with backup workers enough of them: where they are too few, those that are left
 * wait for a restart, and after a timeout end with the name of one that is missing.
 *
 * Value bound v (Wei et al. 2015; value-bounded asynchronous parallel, Dai et al. 2015): updates of
 * this writer that some other has not read may move no weight by more than v / sqrt(t):
 *
 *     u += lr x;   if max |u| > v / sqrt(t):  wait until all have read what holds u;   u <- 0
 *
 * where x leaves out the elements that the codec holds back.
 *
 * With this bound a writer's clock is the version that it last read, and a wait is a read with a
 * minimal clock. It reads before it waits: among all waiting writers the one with the oldest read
 * waits for nobody, so that they cannot deadlock.
 */
#include "space/space.h"
#include "strategy/ps.h"
#include "tensor/vector.h"
#include "transport/transport.h"

#include <math.h>
#include <string.h>

static const int64_t WARM_NS = 100000000; /* between checks that worker 0 is alive */

fast_space_read fast__ps_condition(const ps_writer *wr)
{
    const ps_config *c = wr->c;

    FAST_ASSERT(wr->step >= 0 && wr->round >= 0);
    if (c->backup > 0 && !wr->written)
        return (fast_space_read){ .version_min = 0 };
    if (c->backup > 0)
        return (fast_space_read){ .version_min =
                                      (wr->round + 1) * fast__ps_batch(c, wr->writer_count),
                                  .clock_min = wr->round + 1,
                                  .either = true };
    if (c->slack < 0 || c->value > 0)
        return (fast_space_read){ .clock_min = 0 };
    return (fast_space_read){ .clock_min = c->global ? wr->step - wr->step % (c->slack + 1)
                                                     : wr->step - c->slack };
}

/* If worker 0 crashes, the others start without it; a worker that restarts finds the model. */
fast_err fast__ps_warm(ps_writer *wr)
{
    fast_trainer *t = wr->t;
    const double wanted = wr->c->warm * (double)t->epoch_steps, most = (double)t->step_count;
    const int64_t steps = (int64_t)(wanted < most ? wanted : most);
    fast_err err = t->rank > 0 && t->step == 0 && steps > 0 && !fast_trainer_resumed(t)
                       ? FAST_ETIMEDOUT
                       : FAST_OK;

    FAST_ASSERT(wr->c->push > 0);
    fast_actor_at(t->actor, t->step, "the first steps of worker 0");
    while (err == FAST_ETIMEDOUT && !fast_member_is_down(t->actor, t->worker_ids[0])) {
        fast_space_read read = { .version_min = steps / wr->c->push };

        err = fast_space_get(wr->copies.spaces[wr->copies.first], 0, t->w, &read,
                             fast_now(t->actor) + WARM_NS);
    }
    /* The next read, which knows of copies, finds a server that is down. */
    return err == FAST_ETIMEDOUT || err == FAST_EPEER ? FAST_OK : err;
}

/* A worker that left with an error took its gradients of later rounds along: without them no round
 * is complete, and the others would train without effect. */
fast_err fast__ps_check_lost(fast_trainer *t, const ps_config *c)
{
    const bool stop = c->slack == 0 && c->backup == 0;
    fast_member member;

    FAST_ASSERT(t->step >= 0);
    while (stop && fast_member_next(t->actor, &member)) {
        if (!member.down || member.id >= t->workers || (member.ended && !member.err))
            continue;
        if (member.ended)
            return fast__fail(FAST_EPEER, "worker %lld left before step %lld: %s",
                              (long long)member.id, (long long)t->step, fast_err_text(member.err));
        return fast__fail(FAST_EPEER, "worker %lld crashed before step %lld", (long long)member.id,
                          (long long)t->step);
    }
    return FAST_OK;
}

/* With backup workers, when too few are left for an update: true if a missing worker crashed, and
 * may restart; otherwise all missing workers have stopped. */
static bool may_come_back(ps_writer *wr)
{
    fast_member member;

    FAST_ASSERT(wr->too_few);
    while (fast_member_next(wr->t->actor, &member))
        wr->lost = wr->lost || (member.down && !member.ended && member.id < wr->t->workers);
    return wr->lost;
}

/* With backup workers, after a read that waited in vain for a missing worker: name that one, since
 * all that are left wait for each other. */
static fast_err name_missing(const ps_writer *wr)
{
    fast_trainer *t = wr->t;
    const int64_t n = fast__ps_batch(wr->c, wr->writer_count);
    int64_t missing = 0, first = -1;

    FAST_ASSERT(wr->c->backup > 0);
    for (int64_t i = t->workers - 1; i >= 0; i--)
        if (i != t->rank && fast_member_is_down(t->actor, t->worker_ids[i])) {
            first = i;
            missing++;
        }
    if (first < 0)
        return FAST_OK;
    t->actor->culprit = t->worker_ids[first];
    return fast__fail(FAST_ETIMEDOUT,
                      "a round takes the gradients of %lld of %lld workers, and %lld are missing: "
                      "worker %lld is down",
                      (long long)n, (long long)t->workers, (long long)missing, (long long)first);
}

fast_err fast__ps_set_clock(ps_writer *wr, int64_t clock)
{
    FAST_ASSERT(clock >= 0);
    return fast__ps_copies_write(&wr->copies,
                                 &(ps_operation){ .kind = PS_WRITE_TICK, .clock = clock });
}

/* With a value bound a read has set the clock: it is the version that was read. With backup workers
 * the clock says that this writer adds no more to the round that it read, late or not. */
fast_err fast__ps_end_step(ps_writer *wr)
{
    FAST_ASSERT(wr->step >= wr->pushed);
    if (wr->c->value > 0)
        return FAST_OK;
    return fast__ps_set_clock(wr, wr->c->backup > 0 ? wr->round + 1 : wr->step);
}

/* Skip to the next epoch if the fraction `epochs` of the workers has ended this one. */
static fast_err skip_epoch(ps_writer *wr)
{
    fast_trainer *t = wr->t;
    const int64_t epoch = t->step / t->epoch_steps, next = (epoch + 1) * t->epoch_steps;

    if (!wr->ends || t->step % t->epoch_steps == 0)
        return FAST_OK;
    FAST_ASSERT(epoch < wr->copies.tensors.epochs_len);
    FAST_TRY(fast__ps_copies_get(&wr->copies, wr->copies.tensors.epochs, wr->ends, NULL));
    if ((double)wr->ends[epoch] < wr->c->epochs * (double)t->workers)
        return FAST_OK;
    if (wr->sum && wr->pushed < wr->step)
        FAST_TRY(fast__ps_push(wr));
    t->step = next < t->step_count ? next : t->step_count;
    wr->step = wr->pushed = t->step;
    return fast__ps_end_step(wr);
}

fast_err fast__ps_prepare(ps_writer *wr, ps_decision *out)
{
    fast_trainer *t = wr->t;
    const ps_config *c = wr->c;

    FAST_ASSERT(wr->step == t->step);
    *out = PS_STOP;
    FAST_TRY(fast__ps_check_lost(t, c));
    FAST_TRY(skip_epoch(wr));
    if (t->step >= t->step_count)
        return FAST_OK;
    /* Before its first step every worker has the initial weights. */
    if (t->step % c->fetch == 0 && !(c->backup > 0 && t->step == 0)) {
        const fast_err err = fast__ps_read(wr, false);

        if (err == FAST_ETIMEDOUT && c->backup > 0)
            FAST_TRY(name_missing(wr));
        FAST_TRY(err);
    }
    if (c->backup > 0 && wr->round >= t->step_count)
        return FAST_OK; /* other workers have made all updates; this worker missed some */
    if (!wr->too_few)
        *out = PS_STEP;
    else if (may_come_back(wr))
        *out = PS_WAIT;
    return FAST_OK;
}

fast_err fast__ps_tick(ps_writer *wr)
{
    const int64_t length = wr->t->epoch_steps;

    FAST_ASSERT(!wr->ends || length > 0);
    if (wr->ends && wr->t->step % length == 0) {
        memset(wr->ends, 0, (size_t)wr->copies.tensors.epochs_len * sizeof *wr->ends);
        wr->ends[wr->t->step / length - 1] = 1;
        FAST_TRY(
            fast__ps_copies_write(&wr->copies, &(ps_operation){ .kind = PS_WRITE_ADD,
                                                                .tensor = wr->copies.tensors.epochs,
                                                                .x = wr->ends }));
    }
    return fast__ps_end_step(wr);
}

void fast__ps_unseen(ps_writer *wr, int sign, const float *x)
{
    const float rate = (float)fast_trainer_lr(wr->t, wr->step - 1);

    FAST_ASSERT(wr->unseen != NULL && wr->step > 0);
    if (x)
        fast__vector_axpy(wr->t->count, rate, x, wr->unseen);
    fast__space_add_waiting(wr->copies.spaces[wr->copies.first], (float)sign * rate, wr->unseen);
}

fast_err fast__ps_bound_value(ps_writer *wr, const float *x)
{
    const double bound = wr->c->value / sqrt((double)wr->step);
    const fast_space_read now = { .version_min = 0 };
    fast_space_read seen = now;

    FAST_ASSERT(wr->unseen != NULL && wr->step > 0);
    fast__ps_unseen(wr, -1, x);
    if ((double)fast__vector_max_abs(wr->t->count, wr->unseen) <= bound)
        return FAST_OK;
    FAST_TRY(fast__ps_read_model(wr, &now));
    seen.clock_min = wr->version;
    FAST_TRY(fast__ps_read_model(wr, &seen));
    fast__vector_fill(wr->t->count, 0, wr->unseen);
    return FAST_OK;
}
