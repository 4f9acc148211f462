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
 * For the measures a change says how many of its worker's steps it holds; the answer to the first
 * chunk, which comes as often as that of any other, tells what the master carries of each worker.
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

/* Words of a message: the stretch, the version of the model, the steps in a change. */
enum { WORD_OFFSET, WORD_COUNT, WORD_VERSION, WORD_STEPS, WORDS };

/* Of the last change chunks differ: their mean is counted in such parts of a step. */
enum { LAST_UNIT = 1 << 20 };

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

/* Send x[0 .. n), the elements from `at` on, and what the sender's model carries; or NULL. */
static fast_err send(fast_trainer *t, int64_t to, uint64_t tag, const float *x,
                     const int64_t *words, const double *carried)
{
    const size_t size = carried ? (size_t)t->workers * sizeof *carried : 0;
    const int64_t n = words[WORD_COUNT];
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    fast_err err;

    FAST_TRY(fast_buffer_new(t->actor, size + (size_t)n * sizeof *x, &buffer));
    if (carried)
        memcpy(fast_buffer_data(buffer), carried, size);
    memcpy((char *)fast_buffer_data(buffer) + size, x, (size_t)n * sizeof *x);
    err = fast_msg_new(t->actor, tag, &msg);
    if (err) {
        fast_buffer_free(buffer);
        return err;
    }
    memcpy(msg->words, words, WORDS * sizeof *words);
    msg->unreliable = tag != TAG_END;
    fast_msg_add(msg, &buffer);
    return fast_send(t->actor, to, &msg);
}

/* Add a change to the master's model, and answer. The last message of a worker is the whole vector
 * and reliable; so is its answer. */
static fast_err serve(fast_trainer *t, const fast_msg *msg, int64_t version, double *carried)
{
    const int64_t at = msg->words[WORD_OFFSET], n = msg->words[WORD_COUNT];
    const int64_t words[WORDS] = { at, n, version + 1, 0 };
    const bool last = msg->tag == TAG_END;

    FAST_ASSERT(at >= 0 && n >= 0 && at + n <= t->count);
    fast_trainer_staleness(t, version - msg->words[WORD_VERSION]);
    carried[fast_actor_index(t->actor, msg->from)] +=
        (double)msg->words[WORD_STEPS] * (double)n / (double)t->count / (last ? LAST_UNIT : 1);
    fast__vector_add(n, fast_msg_data(msg, 0), t->w + at);
    FAST_TRY(fast_charge(t->actor, (double)n, 12 * (double)n));
    return send(t, msg->from, last ? TAG_END : TAG_VALUES, t->w + at, words,
                at == 0 ? carried : NULL);
}

/* The master: add what comes, answer with what there is, until nobody is left. */
static fast_err answer_all(fast_trainer *t, double *carried)
{
    for (int64_t version = 0;;) {
        fast_msg *msg = NULL;
        fast_err err = fast_receive(t->actor, FAST_ANY, FAST_TAG_ANY, FAST_SOON, &msg);

        if (err == FAST_EPEER)
            return FAST_OK;
        if (err == FAST_ETIMEDOUT)
            continue;
        FAST_TRY(err);
        err = serve(t, msg, version++, carried);
        fast_msg_free(msg);
        if (err != FAST_EPEER)
            FAST_TRY(err);
    }
}

static fast_err server(fast_trainer *t, const void *config)
{
    double *carried = NULL;
    fast_err err;

    (void)config;
    FAST_TRY(fast__alloc("contributions", t->workers, sizeof *carried, &carried));
    err = answer_all(t, carried);
    fast__free(carried);
    return err;
}

/* What a worker keeps besides its replica. */
typedef struct dog {
    float *b;       /* what the master should have: the run's centre */
    float *d;       /* scratch */
    int64_t *told;  /* [chunks]: this worker's step when the chunk was last sent */
    int64_t chunk;  /* elements of a chunk */
    int64_t chunks; /* of them */
    int64_t sends;  /* chunks in a step */
} dog;

/* The values of an answer; the first chunk's brings what the master carries, to which this worker
 * adds what it has not sent. */
static const float *values_of(fast_trainer *t, const dog *k, const fast_msg *msg)
{
    const double *carried = fast_msg_data(msg, 0);

    if (msg->words[WORD_OFFSET] != 0)
        return fast_msg_data(msg, 0);
    fast_trainer_mix(t, 0, carried, 1);
    fast_trainer_carry(t, t->rank, (double)(t->step - k->told[0]));
    return (const float *)(const void *)(carried + t->workers);
}

/* Take in the answers that have arrived. */
static fast_err take(fast_trainer *t, const dog *k)
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
        at = msg->words[WORD_OFFSET];
        n = msg->words[WORD_COUNT];
        z = values_of(t, k, msg);
        for (int64_t i = 0; i < n; i++) {
            t->w[at + i] = z[i] + (t->w[at + i] - k->b[at + i]);
            k->b[at + i] = z[i];
        }
        if (msg->words[WORD_VERSION] > t->centre_version)
            t->centre_version = msg->words[WORD_VERSION];
        fast_msg_free(msg);
        FAST_TRY(fast_charge(t->actor, 2 * (double)n, 20 * (double)n));
    }
}

/* Send the change of a stretch that holds so many steps. */
static fast_err tell(fast_trainer *t, const dog *k, uint64_t tag, int64_t at, int64_t n,
                     int64_t steps)
{
    const int64_t words[WORDS] = { at, n, t->centre_version, steps };

    memcpy(k->d, t->w + at, (size_t)n * sizeof *k->d);
    fast__vector_axpy(n, -1, k->b + at, k->d);
    memcpy(k->b + at, t->w + at, (size_t)n * sizeof *k->b);
    FAST_TRY(fast_charge(t->actor, (double)n, 20 * (double)n));
    return send(t, t->server_ids[0], tag, k->d, words, NULL);
}

/* The rest of the changes, and the whole model for them. */
static fast_err leave(fast_trainer *t, const dog *k)
{
    double rest = 0;
    fast_msg *msg = NULL;

    FAST_TRY(take(t, k));
    for (int64_t i = 0; i < k->chunks; i++) {
        const int64_t at = i * k->chunk;
        const int64_t n = t->count - at < k->chunk ? t->count - at : k->chunk;

        rest += (double)(t->step - k->told[i]) * (double)n / (double)t->count;
        k->told[i] = t->step;
    }
    FAST_TRY(tell(t, k, TAG_END, 0, t->count, llround(rest * LAST_UNIT)));
    fast_actor_at(t->actor, t->step, "the master's model");
    FAST_TRY(fast_receive(t->actor, t->server_ids[0], TAG_END, FAST_SOON, &msg));
    memcpy(k->b, values_of(t, k, msg), (size_t)t->count * sizeof *k->b);
    memcpy(t->w, k->b, (size_t)t->count * sizeof *k->b);
    t->centre_version = msg->words[WORD_VERSION];
    fast_msg_free(msg);
    return FAST_OK;
}

static fast_err train(fast_trainer *t, const dog *k)
{
    const double rate = (double)k->sends / (double)k->chunks;

    /* Nothing is waited for. */
    fast_trainer_cost(t, &(fast_cost){ .moved = 40 * rate });
    while (fast_trainer_next(t)) {
        FAST_TRY(take(t, k));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        fast_trainer_carry(t, t->rank, 1);
        for (int64_t i = 0; i < k->sends; i++) {
            const int64_t chunk = (int64_t)(fast_random(t->actor) % (uint64_t)k->chunks);
            const int64_t at = chunk * k->chunk;
            const int64_t n = t->count - at < k->chunk ? t->count - at : k->chunk;

            FAST_TRY(tell(t, k, TAG_CHANGE, at, n, t->step - k->told[chunk]));
            k->told[chunk] = t->step;
        }
    }
    FAST_TRY(fast_trainer_end(t));
    return leave(t, k);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const dogwild_config *c = config;
    dog k = { .chunk = c->chunk, .chunks = (t->count + c->chunk - 1) / c->chunk };
    fast_err err;

    k.sends = (int64_t)ceil(c->rate * (double)k.chunks);
    FAST_TRY(fast_trainer_centre(t, &k.b));
    FAST_TRY(fast__alloc("changes", t->count, sizeof *k.d, &k.d));
    err = fast__alloc("steps of chunks", k.chunks, sizeof *k.told, &k.told);
    for (int64_t i = 0; !err && i < k.chunks; i++)
        k.told[i] = t->step;
    if (!err)
        err = train(t, &k);
    fast__free(k.told);
    fast__free(k.d);
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
