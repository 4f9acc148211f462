/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dogwild: Hogwild over machines. Changes of random chunks go to a master as messages that may get
 * lost; it answers with what it has.
 *
 *     worker:  every step    w <- rule(w, g)
 *              a few chunks  send d = w - b;  b <- w          b: what the master should have
 *     master:  d arrives     z <- z + d;  answer with z       of that chunk
 *     worker:  z arrives     w <- z + (w - b);  b <- z        what was not sent yet stays
 *
 * Noel and Osindero, "Dogwild! Distributed Hogwild for CPU and GPU", 2014. A lost change is lost
 * for good, a lost answer is made up for by the next one of that chunk; a message that comes twice
 * counts twice. With nothing lost and one worker it is plain SGD to rounding. At its end a worker
 * sends all that is left and takes the whole model, by messages that do arrive.
 *
 * Changes of P workers add up: lr / P here compares with lr of synchronous training, and the more
 * rarely a chunk is sent, the smaller it must be.
 *
 * On a simulated cluster whose computing takes no time (ideal) no answer comes before the end.
 *
 * The model of the run is z. A worker that goes away is not missed; a master that goes away ends
 * the run.
 *
 * Cost per worker and step: `rate` models there, and as much back; one more vector.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/strategy.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { TAG_CHANGE = 1, TAG_VALUES = 2, TAG_END = 3 };

typedef struct dogwild_config {
    int64_t chunk; /* elements of a message */
    double rate;   /* of the model that is sent in a step */
} dogwild_config;

static const fast_option options[] = {
    FAST_OPT_INT(dogwild_config, chunk, "8192", 1, 1e9, "elements of a message"),
    FAST_OPT_REAL(dogwild_config, rate, "1", 1e-6, 1, "part of the model that is sent each step"),
    FAST_OPT_END,
};

static int64_t servers(const void *config, int64_t workers)
{
    (void)config;
    (void)workers;
    return 1;
}

/* Send x[0 .. n), the elements from `at` on. */
static fast_err send(fast_trainer *t, int64_t to, uint64_t tag, const float *x, int64_t at,
                     int64_t n, int64_t version, bool unreliable)
{
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    fast_err err;

    FAST_TRY(fast_buffer_new(t->actor, (size_t)n * sizeof *x, &buffer));
    memcpy(fast_buffer_data(buffer), x, (size_t)n * sizeof *x);
    err = fast_msg_new(t->actor, tag, &msg);
    if (err) {
        fast_buffer_free(buffer);
        return err;
    }
    msg->words[0] = at;
    msg->words[1] = n;
    msg->words[2] = version;
    msg->unreliable = unreliable;
    fast_msg_add(msg, &buffer);
    return fast_send(t->actor, to, &msg);
}

/* The master: add what comes, answer with what there is, until nobody is left. The last message of
 * a worker is the whole vector and reliable; so is its answer. */
static fast_err server(fast_trainer *t, const void *config)
{
    int64_t version = 0;

    (void)config;
    for (;;) {
        fast_msg *msg = NULL;
        fast_err err = fast_receive(t->actor, FAST_ANY, FAST_TAG_ANY, FAST_SOON, &msg);
        int64_t from, at, n;
        bool last;

        if (err == FAST_EPEER)
            return FAST_OK;
        if (err == FAST_ETIMEDOUT)
            continue;
        FAST_TRY(err);
        from = msg->from;
        at = msg->words[0];
        n = msg->words[1];
        last = msg->tag == TAG_END;
        FAST_ASSERT(at >= 0 && n >= 0 && at + n <= t->count);
        fast_trainer_staleness(t, version - msg->words[2]);
        version++;
        fast__vector_add(n, fast_msg_data(msg, 0), t->w + at);
        fast_msg_free(msg);
        FAST_TRY(fast_charge(t->actor, (double)n, 12 * (double)n));
        err = send(t, from, last ? TAG_END : TAG_VALUES, t->w + at, at, n, version, !last);
        if (err != FAST_EPEER)
            FAST_TRY(err);
    }
}

/* Take in the answers that have arrived. */
static fast_err take(fast_trainer *t, float *b)
{
    for (;;) {
        fast_msg *msg = NULL;
        const fast_err err =
            fast_receive(t->actor, t->server_ids[0], TAG_VALUES, FAST_AT_ONCE, &msg);
        const float *z;
        int64_t at, n;

        if (err == FAST_ETIMEDOUT)
            return FAST_OK;
        FAST_TRY(err);
        at = msg->words[0];
        n = msg->words[1];
        z = fast_msg_data(msg, 0);
        for (int64_t i = 0; i < n; i++) {
            t->w[at + i] = z[i] + (t->w[at + i] - b[at + i]);
            b[at + i] = z[i];
        }
        if (msg->words[2] > t->centre_version)
            t->centre_version = msg->words[2];
        fast_msg_free(msg);
        FAST_TRY(fast_charge(t->actor, 2 * (double)n, 20 * (double)n));
    }
}

/* Send the change of a stretch; d is scratch. */
static fast_err tell(fast_trainer *t, float *b, float *d, uint64_t tag, int64_t at, int64_t n)
{
    memcpy(d, t->w + at, (size_t)n * sizeof *d);
    fast__vector_axpy(n, -1, b + at, d);
    memcpy(b + at, t->w + at, (size_t)n * sizeof *b);
    FAST_TRY(fast_charge(t->actor, (double)n, 20 * (double)n));
    return send(t, t->server_ids[0], tag, d, at, n, t->centre_version, tag == TAG_CHANGE);
}

/* The rest of the changes, and the whole model for them. */
static fast_err leave(fast_trainer *t, float *b, float *d)
{
    fast_msg *msg = NULL;

    FAST_TRY(take(t, b));
    FAST_TRY(tell(t, b, d, TAG_END, 0, t->count));
    fast_actor_at(t->actor, t->step, "the master's model");
    FAST_TRY(fast_receive(t->actor, t->server_ids[0], TAG_END, FAST_SOON, &msg));
    memcpy(b, fast_msg_data(msg, 0), (size_t)t->count * sizeof *b);
    memcpy(t->w, b, (size_t)t->count * sizeof *b);
    t->centre_version = msg->words[2];
    fast_msg_free(msg);
    return FAST_OK;
}

static fast_err train(fast_trainer *t, const dogwild_config *c, float *b, float *d)
{
    const int64_t chunks = (t->count + c->chunk - 1) / c->chunk;
    const int64_t sends = (int64_t)ceil(c->rate * (double)chunks);

    while (fast_trainer_next(t)) {
        FAST_TRY(take(t, b));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        for (int64_t i = 0; i < sends; i++) {
            const int64_t at = (int64_t)(fast_random(t->actor) % (uint64_t)chunks) * c->chunk;
            const int64_t n = t->count - at < c->chunk ? t->count - at : c->chunk;

            FAST_TRY(tell(t, b, d, TAG_CHANGE, at, n));
        }
    }
    FAST_TRY(fast_trainer_end(t));
    return leave(t, b, d);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    float *b = NULL, *d = NULL;
    fast_err err;

    FAST_TRY(fast_trainer_centre(t, &b));
    FAST_TRY(fast__alloc("changes", t->count, sizeof *d, &d));
    err = train(t, config, b, d);
    fast__free(d);
    return err;
}

const fast_strategy fast__strategy_dogwild = {
    .name = "dogwild",
    .summary = "changes of random chunks to a master, by messages that may get lost",
    .options = options,
    .config_size = sizeof(dogwild_config),
    .sends = "differences",
    .servers = servers,
    .worker = worker,
    .server = server,
};
