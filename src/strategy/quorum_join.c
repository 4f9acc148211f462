/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of the strategy quorum that were cut off and join again. Updates that such a worker
 * missed are stored nowhere, so it takes a model between two rounds:
 *
 *     worker   JOIN     to the leader, repeated until an answer arrives
 *     leader   WELCOME  to the worker: the round to start with, and the donor of the model
 *              GIVE     to the donor: the worker that is furthest ahead
 *     donor    its model of that round: contributions, w, the rule's vectors, s
 *
 * A worker was cut off if it restarted, if the leader refused it, or if it lost all other workers
 * together with the server; in the last case it waits until the server is up again.
 *
 * Cost: one model for each return.
 */
#include "base/err.h"
#include "strategy/quorum.h"
#include "tensor/vector.h"
#include "transport/transport.h"

#include <stdint.h>
#include <string.h>

static const int64_t ASK_NS = 100000000; /* between two requests to join */
static const int64_t BACK_NS = 10000000; /* between checks whether the server is back */

/* Bytes of a model for a worker that joins again. */
static size_t model_size(fast_trainer *t)
{
    int slots = 0;

    while (fast_trainer_rule_slot(t, slots))
        slots++;
    FAST_ASSERT(t->count > 0);
    return (size_t)fast_trainer_share_count(t) * sizeof(double) +
           (size_t)((slots + 1) * t->count + t->state_count) * sizeof(float);
}

/* Copy w, the rule's vectors and s to `bytes`, or from there. */
static void move_model(fast_trainer *t, void *bytes, bool out)
{
    const size_t size = (size_t)t->count * sizeof(float);
    char *at = (char *)bytes + (size_t)fast_trainer_share_count(t) * sizeof(double);
    float *slot = t->w;

    FAST_ASSERT(bytes != NULL);
    for (int i = 0; slot; slot = fast_trainer_rule_slot(t, i++), at += size)
        fast__vector_copy(t->count, out ? (void *)slot : at, out ? (void *)at : slot);
    if (t->state_count > 0)
        fast__vector_copy(t->state_count, out ? (void *)t->s : at, out ? (void *)at : t->s);
}

fast_err fast__quorum_send_model(quorum_worker *m, const fast_msg *msg)
{
    fast_trainer *t = m->t;
    const int64_t to = msg->words[FAST_QUORUM_NUMBER];
    fast_buffer *buffer = NULL;
    fast_msg *model = NULL;
    fast_err err;

    if (to < 0 || to >= t->workers)
        return fast__fail(FAST_EFORMAT, "there is no worker %lld to send a model to",
                          (long long)to);
    FAST_ASSERT(t->w != NULL);
    FAST_TRY(fast_buffer_new(t->actor, model_size(t), &buffer));
    memcpy(fast_buffer_data(buffer), fast_trainer_model(t).shares,
           (size_t)fast_trainer_share_count(t) * sizeof(double));
    move_model(t, fast_buffer_data(buffer), true);
    FAST_TRY(fast__quorum_msg(t, FAST_QUORUM_MODEL, FAST_QUORUM_GIVE, msg->words[FAST_QUORUM_ROUND],
                              0, &buffer, &model));
    err = fast_send(t->actor, t->worker_ids[to], &model);
    return err == FAST_EPEER ? FAST_OK : err; /* it crashed again */
}

fast_err fast__quorum_fail_few(const quorum_worker *m, const fast_msg *msg)
{
    if (msg->part_count != 1)
        return fast__fail(FAST_EFORMAT, "the first server gives up without a reason");
    FAST_ASSERT(msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_FEW);
    m->t->actor->culprit = msg->words[FAST_QUORUM_NUMBER];
    return fast__fail(FAST_EPEER, "%.*s", (int)msg->parts[0].size,
                      (const char *)fast_msg_data(msg, 0));
}

/* Send a request to join to the leader. */
static fast_err send_join(quorum_worker *m)
{
    fast_trainer *t = m->t;
    fast_msg *msg = NULL;

    FAST_ASSERT(m->joins > 0);
    FAST_TRY(fast__quorum_msg(t, FAST_QUORUM_UP, FAST_QUORUM_JOIN, t->step,
                              (fast_actor_life(t->actor) + 1) << 32 | m->joins, NULL, &msg));
    return fast_send(t->actor, t->server_ids[0], &msg);
}

/* Wait for the leader's WELCOME. The request is repeated until an answer arrives: the leader may
 * still consider this worker dead. */
static fast_err ask_to_join(quorum_worker *m, int64_t *round_out, int64_t *donor_out)
{
    fast_trainer *t = m->t;
    const int64_t last = fast__deadline(t->actor, FAST_SOON);
    int64_t kind = FAST_QUORUM_JOIN;

    m->joins++;
    FAST_ASSERT(m->joins < INT32_MAX);
    while (kind != FAST_QUORUM_WELCOME) {
        const int64_t now = fast_now(t->actor);
        fast_msg *msg = NULL;
        fast_err err;

        if (kind == FAST_QUORUM_JOIN)
            FAST_TRY(send_join(m));
        err = fast_receive(t->actor, t->server_ids[0], FAST_QUORUM_DOWN,
                           now + ASK_NS < last ? now + ASK_NS : last, &msg);
        if (err == FAST_ETIMEDOUT && now < last) {
            kind = FAST_QUORUM_JOIN;
            continue;
        }
        FAST_TRY(err);
        kind = msg->words[FAST_QUORUM_KIND];
        *round_out = msg->words[FAST_QUORUM_ROUND];
        *donor_out = msg->words[FAST_QUORUM_NUMBER];
        if (kind == FAST_QUORUM_FEW)
            err = fast__quorum_fail_few(m, msg);
        fast_msg_free(msg);
        FAST_TRY(err);
        if (kind == FAST_QUORUM_END || (kind == FAST_QUORUM_REFUSE && *donor_out == 1))
            return fast__fail(FAST_ENOTSUP, "it was cut off, and is back too late to continue");
        if (kind != FAST_QUORUM_WELCOME)
            kind = FAST_QUORUM_HELLO; /* an older message: receive the next */
    }
    return FAST_OK;
}

/* Receive the model of a round from the worker `donor`, and adopt it. */
static fast_err adopt_model(fast_trainer *t, int64_t round, int64_t donor)
{
    int64_t got = -1;

    FAST_ASSERT(donor >= 0);
    while (got != round) {
        fast_msg *msg = NULL;

        FAST_TRY(fast_receive(t->actor, t->worker_ids[donor % t->workers], FAST_QUORUM_MODEL,
                              FAST_SOON, &msg));
        got = msg->words[FAST_QUORUM_ROUND];
        if (msg->part_count != 1 || msg->parts[0].size != model_size(t)) {
            fast_msg_free(msg);
            return fast__fail(FAST_EFORMAT, "worker %lld did not send a model", (long long)donor);
        }
        if (got == round) {
            move_model(t, (void *)(uintptr_t)fast_msg_data(msg, 0), false);
            fast_trainer_adopt(t,
                               &(fast_vector){ .x = t->w,
                                               .shares = (double *)(uintptr_t)fast_msg_data(msg, 0),
                                               .age = -1 });
        }
        fast_msg_free(msg);
    }
    return FAST_OK;
}

fast_err fast__quorum_rejoin(quorum_worker *m)
{
    fast_trainer *t = m->t;
    int64_t round = 0, donor = -1;

    fast_actor_at(t->actor, t->step, "a model to continue with");
    FAST_TRY(ask_to_join(m, &round, &donor));
    if (round < 0 || round > t->step_count)
        return fast__fail(FAST_EFORMAT, "the first server lets it start at step %lld of %lld",
                          (long long)round, (long long)t->step_count);
    m->refused = m->over = false;
    if (donor < 0)
        return FAST_OK;
    FAST_TRY(adopt_model(t, round, donor));
    while (t->step < round && t->step < t->step_count)
        fast_trainer_count_step(t);
    t->step = round;
    t->centre_version = round;
    FAST_ASSERT(t->step <= t->step_count);
    return FAST_OK;
}

fast_err fast__quorum_wait_for_return(const quorum_worker *m, bool *out)
{
    fast_trainer *t = m->t;
    const int64_t last = fast__deadline(t->actor, FAST_SOON);

    FAST_ASSERT(t->servers > 0);
    *out = false;
    FAST_TRY(fast_sleep_until(t->actor, fast_now(t->actor) + BACK_NS)); /* all losses are known */
    for (int64_t i = 0; i < t->workers; i++)
        if (i != t->rank && !fast_member_is_down(t->actor, t->worker_ids[i]))
            return FAST_OK;
    while (!*out && fast_now(t->actor) < last) {
        *out = !fast_member_is_down(t->actor, t->server_ids[0]);
        if (!*out)
            FAST_TRY(fast_sleep_until(t->actor, fast_now(t->actor) + BACK_NS));
    }
    return FAST_OK;
}
