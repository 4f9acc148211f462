/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device of the strategy federated:
 *
 *     w <- z;   the steps of a round   w <- rule(w, g);   report w - z and n_k
 *
 * Between rounds it waits for a model. Told to leave, it checks in again in time. A snapshot finds
 * it before a step or in that wait, where it looks every few milliseconds, later less often.
 */
#include "base/err.h"
#include "comm/flow.h"
#include "strategy/federated.h"
#include "tensor/vector.h"
#include "trainer/own_data.h"
#include "trainer/remember.h"
#include "transport/saved_actor.h"
#include "transport/transport.h"

#include <math.h>

/* Memory of a device besides its replica. */
typedef struct federated_device {
    float *z;        /* the last model that it received: the run's centre */
    float *d;        /* its report */
    fast_flow *to;   /* of reports; NULL without codecs */
    fast_flow *from; /* of models; NULL without codecs */
    int64_t taken;   /* epochs: batches of its own samples that it has computed */
    int64_t begin;   /* first step of the round that it takes part in */
    int64_t end;     /* the step after its last; 0: it waits for a model */
    int64_t back;    /* time at which it checks in again; 0: it has not left */
} federated_device;

/* Start a round with the model in a message: w <- z, and the rule's state is reset. */
static fast_err adopt_model(fast_trainer *t, federated_device *v, const fast_msg *msg)
{
    const size_t head = fast__federated_head(t),
                 counts = (size_t)fast_trainer_share_count(t) * sizeof(double);
    const int64_t step = msg->words[FEDERATED_WORD_STEP];
    const char *data;
    const float *x;

    FAST_TRY(fast__federated_check(t, msg, v->from != NULL));
    FAST_ASSERT(msg->parts[0].size >= head);
    data = fast_msg_data(msg, 0);
    x = (const float *)(const void *)(data + head);
    if (v->from)
        FAST_TRY(
            fast_trainer_decode_values(t, v->from, data + head, msg->parts[0].size - head, &x));
    fast__vector_copy(t->count, x, v->z);
    fast_trainer_adopt(t,
                       &(fast_vector){ .x = v->z, .shares = (double *)(uintptr_t)data, .age = -1 });
    fast__vector_copy(t->state_count, data + counts, t->s);
    fast_trainer_reset_rule(t);
    fast_trainer_set_step(t, step < t->step_count ? step : t->step_count);
    t->centre_version = msg->words[FEDERATED_WORD_VERSION];
    return FAST_OK;
}

/* Return the deadline of a wait for a model since a time: when the device checks in again, or when
 * it looks whether a snapshot is taken, less often the longer it has waited. */
static int64_t next_look(fast_trainer *t, const federated_device *v, int64_t since)
{
    const int64_t now = fast_now(t->actor), time = fast__actor_time(t->actor);
    const int64_t left = v->back - time, waited = (time - since) / 256;
    const int64_t poll = waited > FEDERATED_POLL_NS ? waited : FEDERATED_POLL_NS;

    FAST_ASSERT(v->back >= 0);
    if (v->back > 0 && (left < poll || !fast__trainer_cut_on(t)))
        return now + (left > 0 ? left : 0);
    return fast__trainer_cut_on(t) ? now + poll : FAST_SOON;
}

/* Receive the next message of the server to this life of the device. Told to leave, come back in
 * time, unless a message says that the run is over: a run does not end later because devices are
 * away. *out is NULL if the device is to stop. */
static fast_err receive_model(fast_trainer *t, federated_device *v, fast_msg **out)
{
    const int64_t since = fast__actor_time(t->actor);
    int64_t looked = since; /* when it began to wait, or the last snapshot was taken */
    bool again = false;

    FAST_ASSERT(*out == NULL);
    for (;;) {
        if (fast__trainer_cut_open(t)) {
            if (!fast_trainer_next(t))
                return FAST_OK;
            looked = fast__actor_time(t->actor);
        }
        /* A server that has not written for a timeout may not know that this device waits, if a
         * forged checkpoint says so: it checks in once more, and not more often, or the server
         * would never find that others are cut off. No delay is longer than that. */
        const int64_t time = fast__actor_time(t->actor), timeout = t->actor->world->timeout_ns;
        const bool silent = v->back == 0 && !again && time - since >= timeout;
        again = again || silent;
        if (silent || v->back - time > timeout)
            v->back = time;
        fast_err err =
            fast_receive(t->actor, t->server_ids[0], FEDERATED_DOWN, next_look(t, v, looked), out);

        if (err == FAST_ETIMEDOUT && v->back > 0 && fast__actor_time(t->actor) >= v->back) {
            v->back = 0;
            err = fast__federated_tell(t, t->server_ids[0], FEDERATED_UP,
                                       (int64_t[FEDERATED_WORDS]){ FEDERATED_KIND_BACK, t->step, 0,
                                                                   fast_actor_life(t->actor) });
        } else if (err == FAST_ETIMEDOUT) {
            err = FAST_OK;
        } else if (!err && (*out)->words[FEDERATED_WORD_LIFE] == fast_actor_life(t->actor)) {
            if ((*out)->words[FEDERATED_WORD_KIND] != FEDERATED_KIND_LATER)
                return FAST_OK;
            v->back =
                fast__actor_time(t->actor) + 1 +
                ((*out)->words[FEDERATED_WORD_DELAY] > 0 ? (*out)->words[FEDERATED_WORD_DELAY] : 0);
        }
        FAST_TRY(err);
        fast_msg_free(*out);
        *out = NULL;
    }
}

/* Wait for a model, while other devices train; *over_out: it is the last one. */
static fast_err await_model(fast_trainer *t, federated_device *v, bool *over_out)
{
    fast_msg *msg = NULL;
    fast_err err;

    FAST_ASSERT(v->z != NULL);
    fast_actor_at(t->actor, t->step, "a round");
    err = receive_model(t, v, &msg);
    *over_out = !msg;
    if (!msg)
        return err;
    v->back = 0;
    err = adopt_model(t, v, msg);
    if (!err)
        *over_out = msg->words[FEDERATED_WORD_KIND] == FEDERATED_KIND_OVER;
    fast_msg_free(msg);
    return err;
}

/* Update by the gradient, or by its projection. */
static fast_err update(fast_trainer *t, const federated_config *c, federated_device *v)
{
    FAST_ASSERT(v->z != NULL);
    if (c->subspace) { /* the server has checked that there is one */
        fast__flow_project(v->to, t->g);
        FAST_TRY(fast_charge(t->actor, 2 * (double)t->count, 8 * (double)t->count));
    }
    return fast_trainer_update(t, t->g, 1);
}

/* Take step `number` of a round: the device's next batch, or with `epochs` as many of its own as
 * are due, perhaps none. */
static fast_err take_step(fast_trainer *t, const federated_config *c, federated_device *v,
                          int64_t number)
{
    const fast_own_data own = fast__trainer_own_data(t);
    const double all = ceil(c->epochs * (double)own.samples / (double)own.batch - 1e-9);
    const double steps = (double)fast__federated_steps(c, t);

    FAST_ASSERT(number >= 0 && number < fast__federated_steps(c, t));
    if (c->epochs <= 0) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        return update(t, c, v);
    }
    /* Batches are spread evenly over the run's steps of the round, so that the learning rate and
     * the progress of a device with few samples are those of the others at any time. */
    const int64_t first = (int64_t)floor(all * (double)number / steps),
                  end = (int64_t)floor(all * (double)(number + 1) / steps);
    for (int64_t i = first; i < end; i++) {
        FAST_TRY(fast_trainer_micro_gradient(t, v->taken++));
        fast_trainer_shares_of(t, t->rank, fast_trainer_grad(t).shares);
        FAST_TRY(update(t, c, v));
    }
    fast_trainer_count_step(t);
    return FAST_OK;
}

/* Take the steps of a round and report; *over_out: this worker is to stop. */
static fast_err take_part(fast_trainer *t, const federated_config *c, federated_device *v,
                          bool *over_out)
{
    const int64_t words[FEDERATED_WORDS] = { FEDERATED_KIND_REPORT, v->begin,
                                             fast__trainer_own_data(t).samples,
                                             fast_actor_life(t->actor) };

    FAST_ASSERT(v->end <= t->step_count);
    while (t->step < v->end) {
        *over_out = !fast_trainer_next(t);
        if (*over_out)
            return FAST_OK;
        FAST_TRY(take_step(t, c, v, t->step - v->begin));
    }
    v->end = 0;
    fast__vector_copy(t->count, t->w, v->d);
    fast__vector_axpy(t->count, -1, v->z, v->d);
    fast_actor_at(t->actor, t->step, "difference");
    federated_vector report = { .x = v->d, .shares = fast_trainer_model(t).shares };
    const fast_err err =
        fast__federated_send(t, t->server_ids[0], FEDERATED_UP, words, v->to, &report);
    fast_buffer_free(report.packed);
    return err;
}

/* The device's loop: take part in rounds until the server ends them. */
static fast_err train(fast_trainer *t, const federated_config *c, federated_device *v)
{
    const bool rounds = t->step < t->step_count;
    bool over = false;

    FAST_ASSERT(c->period > 0);
    while (!over) {
        if (v->end == 0) {
            FAST_TRY(await_model(t, v, &over));
            const int64_t left = t->step_count - t->step, steps = fast__federated_steps(c, t);
            v->begin = t->step;
            v->end = over ? 0 : t->step + (left < steps ? left : steps);
        }
        if (over && rounds && t->centre_version == 0)
            fast_trainer_note(t, "no round had enough reports, and the model did not change; use a "
                                 "longer window or a smaller least");
        if (!over)
            FAST_TRY(take_part(t, c, v, &over));
    }
    return fast_trainer_end(t);
}

/* Have snapshots include the device's memory, with its numbers from `taken` to `back`. Its report
 * is made when it is sent. */
static fast_err remember_device(fast_trainer *t, const federated_config *c, federated_device *v)
{
    FAST_ASSERT(v->z != NULL);
    fast__trainer_cut_at(t, NULL);
    FAST_TRY(fast__trainer_remember(t, 0, v->z, (size_t)t->count * sizeof *v->z));
    FAST_TRY(fast__trainer_remember(t, 1, &v->taken, 4 * sizeof v->taken));
    FAST_TRY(fast__trainer_remember(t, 2, &t->centre_version, sizeof t->centre_version));
    return fast__trainer_check_saved(
        t,
        v->taken >= 0 && v->taken < INT64_MAX / 4 && v->begin >= 0 && v->back >= 0 &&
            (v->end == 0 || (v->begin <= t->step && t->step <= v->end && v->end <= t->step_count &&
                             v->end - v->begin <= fast__federated_steps(c, t))));
}

/* The device's program. It checks in before anything can fail: the server learns of the end of a
 * device only if it has heard of it, and would wait for it forever. */
fast_err fast__federated_device(fast_trainer *t, const void *config)
{
    federated_device v = { .z = NULL };
    const int64_t hello[FEDERATED_WORDS] = { FEDERATED_KIND_HELLO, t->step, 0,
                                             fast_actor_life(t->actor) };
    fast_err err;

    FAST_ASSERT(t->servers == 1);
    if (!fast_trainer_resumed(t)) /* the server of a snapshot knows this device */
        FAST_TRY(fast__federated_tell(t, t->server_ids[0], FEDERATED_UP, hello));
    if (((const federated_config *)config)->epochs > 0 && t->micro_batches > 1)
        return fast__fail(FAST_EINVAL, "federated: epochs counts whole batches; leave out "
                                       "accumulate, or give period instead");
    FAST_TRY(fast_trainer_centre(t, &v.z));
    FAST_TRY(fast__federated_flow(t, t->rank, false, false, &v.to));
    FAST_TRY(fast__federated_flow(t, t->rank, true, true, &v.from));
    FAST_TRY(fast__vector_new(fast__device_of(t->w), "a report", t->count, &v.d));
    err = remember_device(t, config, &v);
    if (!err)
        err = train(t, config, &v);
    fast__vector_free(v.d);
    return err;
}
