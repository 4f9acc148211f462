/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consistency: how new the weights of a step must be.
 *
 *     slack s        a read in round c waits until every writer has finished round c - s (SSP).
 *                    Rounds that are finished but not sent whole are a part of s: push - 1 of
 *                    them, and those that a codec holds elements back (ps_unseen.c)
 *     groups         it waits for the writers of its own group alone (ps_ring.c)
 *     cache_age a    the values of a read, with the worker's own updates since then, are used again
 *                    for at most a rounds, and as long as a read of them would not wait: a worker
 *                    asks the servers when the bound is reached (SSP's cache of the client)
 *     global         it waits for the last multiple of s + 1 rounds instead: all wait for all
 *     backup b       it waits for the next update, whichever workers made it; or until all workers
 *                    that are left have written and that was not enough
 *     redundant r    a worker whose batches another one computes too waits for neither, and
 *                    continues at the step of the one that is ahead
 *     warm           worker 0 trains alone for some epochs before the others start
 *     epochs p       a worker skips the rest of an epoch once the workers together have computed
 *                    the fraction p of its gradients, which have equally many samples
 *
 * Missing workers. With a slack nobody waits for a worker that is down or does not answer, nor for
 * one that is back until it has caught up (space_store.c). A round without backup workers needs all
 * of them, and one with backup workers enough of them: where they are too few, those that are left
 * wait for a restart, and after a timeout end with the name of one that is missing.
 *
 * Value bound v (value-bounded asynchronous parallel, Wei et al. 2015; Dai et al. 2015): the
 * weights that any worker computes with differ from the true ones, which hold all updates that were
 * sent, by at most v / sqrt(t) each. Every one of P writers has a P-th of the bound, and stays
 * within it before it sends: with u the sum of its updates that some other writer has not read,
 *
 *     if max |u + lr x| > v / (P sqrt(t)):  wait until all have read u;   u <- 0
 *     u += lr x;   send x
 *
 * An update that is larger than its writer's part alone is sent when all others have read the
 * updates before it: then the part is that update (max(|u|, v) in the papers). Updates are those of
 * plain SGD, so other rules and lossy codecs are refused.
 *
 *     weak   each writer has the whole bound, and waits after it has sent: u may exceed v by an
 *            update, and a reader's weights may differ by P v. x leaves out the elements that the
 *            codec holds back
 *
 * With these bounds a writer's clock is the version that it last read, or below which it will not
 * read again, and a wait is a read with a minimal clock. A writer takes the newest version before
 * it waits: among all waiting writers the one with the oldest version waits for nobody, so that
 * they cannot deadlock. It reads before its next step then, also with `fetch`. Versions of ranges
 * differ while updates travel; the largest counts, and the next read waits until all have it.
 * Updates that `push` holds back are in use at their writer, and not bounded: it is refused.
 */
#include "space/space.h"
#include "strategy/ps_keys.h"
#include "tensor/vector.h"
#include "transport/mailbox.h"
#include "transport/peers.h"
#include "transport/transport.h"

#include <math.h>
#include <string.h>

static const int64_t WARM_NS = 100000000; /* between checks that worker 0 is alive */

fast_space_read fast__ps_condition(const ps_writer *wr)
{
    const ps_config *c = wr->c;

    FAST_ASSERT(wr->step >= 0 && wr->round >= 0);
    if (fast__ps_has_spare(c) && !wr->written)
        return (fast_space_read){ .version_min = 0 };
    if (fast__ps_has_spare(c)) {
        const int64_t next = wr->round + 1 - wr->begun;

        return (fast_space_read){ .version_min = next * fast__ps_batch(c, wr->writer_count),
                                  .clock_min = next,
                                  .either = true };
    }
    if (c->value > 0 && !c->weak)
        return (fast_space_read){ .version_min = wr->version };
    if (c->slack < 0)
        return (fast_space_read){ .clock_min = 0 };
    /* Updates that are finished but not sent yet are a part of the bound. */
    const int64_t slack = c->slack - wr->hold.rounds - (c->push - 1);

    FAST_ASSERT(slack >= 0);
    fast_space_read read = { .clock_min =
                                 c->global ? wr->step - wr->step % (slack + 1) : wr->step - slack };
    if (c->groups > 0)
        fast__ps_group_of(c->groups, wr->writer_count, wr->t->rank, &read.writer,
                          &read.writer_count);
    return read;
}

/* Clocks and steps only rise: values that are too old stay so. */
bool fast__ps_is_cached(const ps_writer *wr)
{
    FAST_ASSERT(wr->cached >= -1);
    return wr->c->cache_age > 0 && wr->cached >= 0 && wr->cached >= wr->step - wr->c->cache_age &&
           wr->cached >= fast__ps_condition(wr).clock_min;
}

/* If worker 0 crashes or stops, the others start without it; a worker that restarts finds the
 * model. */
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
    if (err && t->actor->met) /* it may be canceled, and has no messages for this worker */
        fast__peers_ask(t->actor, t->worker_ids[0]);
    while (err == FAST_ETIMEDOUT && !fast_member_is_down(t->actor, t->worker_ids[0])) {
        fast_space_read read = { .version_min = steps / wr->c->push };

        err = fast_space_get(wr->copies.spaces[wr->copies.first], 0, t->w, &read,
                             fast_now(t->actor) + WARM_NS);
    }
    /* The next read, which knows of copies, finds a server that is down. */
    return err == FAST_ETIMEDOUT || err == FAST_EPEER ? FAST_OK : err;
}

/* A worker that left with an error took its gradients of later rounds along: without them no round
 * is complete, and the others would train without effect. So it is with one that another worker
 * waited for in vain. */
fast_err fast__ps_check_lost(fast_trainer *t, const ps_config *c)
{
    const bool stop = c->slack == 0 && !fast__ps_has_spare(c);
    fast_member member;

    FAST_ASSERT(t->step >= 0);
    while (stop && fast_member_next(t->actor, &member))
        if (member.down && member.id < t->workers && (!member.ended || member.err))
            return fast__peers_check(t->actor, member.id);
    return FAST_OK;
}

/* With backup workers, when too few are left for an update: true if a missing worker crashed, and
 * may restart, or if the news of their ends are not here yet; otherwise all missing workers have
 * stopped. */
static bool may_come_back(ps_writer *wr)
{
    const fast_trainer *t = wr->t;
    int64_t ended = 0;
    fast_member member;

    FAST_ASSERT(wr->losses.too_few);
    while (fast_member_next(t->actor, &member))
        wr->losses.lost =
            wr->losses.lost || (member.down && !member.ended && member.id < t->workers);
    for (int64_t i = 0; i < t->workers; i++)
        ended += i != t->rank && fast__peer(t->actor, t->worker_ids[i])->ended;
    return wr->losses.lost || ended <= fast__ps_spare(wr->c, wr->writer_count);
}

/* Return the first worker whose batches nobody is left to compute; -1 if all can be computed, or
 * each worker has batches of its own. */
static int64_t missing_agent(const ps_writer *wr)
{
    const fast_trainer *t = wr->t;
    const int64_t agents = t->workers / wr->c->redundant;

    FAST_ASSERT(agents > 0);
    for (int64_t k = 0; wr->c->redundant > 1 && k < agents; k++) {
        bool left = false;

        for (int64_t i = k; i < t->workers; i += agents)
            left |= i == t->rank || !fast_member_is_down(t->actor, t->worker_ids[i]);
        if (!left)
            return k;
    }
    return -1;
}

/* With backup workers, when too few are left for an update and those that are left would wait for
 * each other: name one that is missing and did not come to its end. */
static fast_err name_missing(const ps_writer *wr)
{
    fast_trainer *t = wr->t;
    const int64_t n = fast__ps_batch(wr->c, wr->writer_count);
    int64_t missing = 0, first = -1;
    bool left = false;

    FAST_ASSERT(fast__ps_has_spare(wr->c));
    for (int64_t i = t->workers - 1; i >= 0; i--) {
        if (i == t->rank || !fast_member_is_down(t->actor, t->worker_ids[i]))
            continue;
        const fast_peer *peer = fast__peer(t->actor, t->worker_ids[i]);

        if (peer->ended && peer->err == FAST_OK)
            continue;
        missing++;
        if (first >= 0 && peer->ended && !left)
            continue; /* a worker that left may have left because of the one that is down */
        first = i;
        left = peer->ended;
    }
    const int64_t agent = missing > 0 ? missing_agent(wr) : -1;
    if (missing <= fast__ps_spare(wr->c, wr->writer_count) && agent < 0)
        return FAST_OK;
    first = agent >= 0 && left ? agent : first;
    t->actor->culprit = t->worker_ids[first];
    return fast__fail(FAST_ETIMEDOUT,
                      "a round takes the gradients of %lld of %lld workers, and %lld are missing: "
                      "worker %lld %s",
                      (long long)n, (long long)t->workers, (long long)missing, (long long)first,
                      left ? "has left" : "is down");
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
    if (wr->c->tasks && wr->written && wr->pushed == wr->step)
        return FAST_OK; /* the push of each range has set its clock */
    return fast__ps_set_clock(wr, fast__ps_has_spare(wr->c) ? wr->round + 1 - wr->begun : wr->step);
}

/* Skip to the next epoch, and over it, while workers have computed the fraction `epochs` of the
 * gradients of this one. */
static fast_err skip_epochs(ps_writer *wr)
{
    fast_trainer *t = wr->t;
    const double enough = wr->c->epochs * (double)(t->workers * t->epoch_steps);

    FAST_ASSERT(t->step <= t->step_count);
    while (wr->ends && t->step < t->step_count) {
        const int64_t epoch = t->step / t->epoch_steps, next = (epoch + 1) * t->epoch_steps;

        FAST_ASSERT(epoch < wr->copies.tensors.epochs_len);
        FAST_TRY(fast__ps_copies_get(&wr->copies, wr->copies.tensors.epochs, wr->ends, NULL));
        if ((double)wr->ends[epoch] < enough)
            return FAST_OK;
        if (wr->sum && wr->pushed < wr->step)
            FAST_TRY(fast__ps_push(wr));
        t->step = next < t->step_count ? next : t->step_count;
        wr->step = wr->pushed = t->step;
        FAST_TRY(fast__ps_end_step(wr));
    }
    return FAST_OK;
}

/* Where another worker computes the same batches and is ahead: continue where it is. Rounds are
 * counted by the servers; without them a worker asks for the steps that the model holds. */
static fast_err catch_up(ps_writer *wr)
{
    fast_trainer *t = wr->t;
    int64_t step = wr->round;

    FAST_ASSERT(wr->step == t->step);
    if (wr->c->redundant == 1)
        return FAST_OK;
    if (wr->c->slack < 0) {
        FAST_TRY(fast__ps_ask_contributions(wr, wr->copies.counts));
        step = (int64_t)wr->copies.counts[t->rank % (t->workers / wr->c->redundant)];
    }
    if (step <= t->step)
        return FAST_OK;
    fast_trainer_set_step(t, step < t->step_count ? step : t->step_count);
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
    FAST_TRY(skip_epochs(wr));
    if (t->step >= t->step_count)
        return FAST_OK;
    /* Before its first step every worker has the initial weights. */
    if ((t->step % c->fetch == 0 || wr->visit.promised) &&
        !(fast__ps_has_spare(c) && t->step == 0) && !fast__ps_is_cached(wr)) {
        const fast_err err = fast__ps_read(wr, false);

        if (err == FAST_ETIMEDOUT && fast__ps_has_spare(c))
            FAST_TRY(name_missing(wr));
        FAST_TRY(err);
    }
    if (fast__ps_has_spare(c) && wr->round >= t->step_count)
        return FAST_OK; /* other workers have made all updates; this worker missed some */
    FAST_TRY(catch_up(wr));
    if (t->step >= t->step_count)
        return FAST_OK;
    if (!wr->losses.too_few)
        *out = PS_STEP;
    else if (may_come_back(wr))
        *out = PS_WAIT;
    else
        return name_missing(wr); /* those that stopped leave nobody missing */
    return FAST_OK;
}

fast_err fast__ps_tick(ps_writer *wr)
{
    const int64_t length = wr->t->epoch_steps;

    FAST_ASSERT(!wr->ends || length > 0);
    if (wr->ends) {
        memset(wr->ends, 0, (size_t)wr->copies.tensors.epochs_len * sizeof *wr->ends);
        wr->ends[(wr->t->step - 1) / length] = 1;
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

/* Wait until all other writers have read the updates that this one has sent. It reads no values:
 * the gradient that is to be sent was computed with older ones, which its staleness counts from. */
static fast_err wait_until_read(ps_writer *wr)
{
    fast_space_read read = { .version_min = 0 };

    FAST_ASSERT(wr->copies.count == 1);
    fast_actor_at(wr->t->actor, wr->step, "reads of the other workers");
    FAST_TRY(fast__space_peek(wr->copies.spaces[0], &wr->version, FAST_SOON));
    wr->visit.promised = true;
    FAST_TRY(fast__ps_set_clock(wr, wr->version));
    read.clock_min = wr->version;
    FAST_TRY(fast__ps_copies_get(&wr->copies, wr->copies.tensors.contributions, NULL, &read));
    fast__vector_fill(wr->t->count, 0, wr->unseen);
    return FAST_OK;
}

/* The writer reads before its next step, at least this version: it has promised to by its clock.
 * Its own updates wait in nobody's way then. */
fast_err fast__ps_yield(void *writer)
{
    ps_writer *wr = writer;
    int64_t version = wr->version;

    FAST_ASSERT(wr->c->value > 0 && wr->copies.count == 1);
    FAST_TRY(fast__space_peek(wr->copies.spaces[0], &version, FAST_SOON));
    if (version <= wr->version)
        return FAST_OK;
    wr->version = version;
    wr->visit.promised = !wr->c->weak;
    return fast__ps_set_clock(wr, version);
}

fast_err fast__ps_bound_next(ps_writer *wr, const float *x)
{
    const float rate = (float)fast_trainer_lr(wr->t, wr->step - 1);
    const double bound = wr->c->value / ((double)wr->writer_count * sqrt((double)wr->step));

    FAST_ASSERT(wr->unseen != NULL && wr->step > 0);
    fast__vector_axpy(wr->t->count, rate, x, wr->unseen);
    if ((double)fast__vector_max_abs(wr->t->count, wr->unseen) <= bound)
        return FAST_OK;
    FAST_TRY(wait_until_read(wr));
    fast__vector_axpy(wr->t->count, rate, x, wr->unseen);
    return FAST_OK;
}
