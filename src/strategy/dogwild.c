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
 * With codecs each chunk is a flow: what an encoding loses is owed and added to the chunk's next
 * change, what a message loses is lost. An answer may be the only one that comes, so that it is
 * values, by a codec that keeps those. What is sent last, and answered, is whole.
 *
 * For the measures a change says how many of its worker's steps it holds; the answer to the first
 * chunk, which comes as often as that of any other, tells what the master carries of each worker.
 *
 * Cost per worker and step: `rate` models there, and as much back; one more vector.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/kernels.h"
#include "strategy/strategy.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { TAG_CHANGE = 1, TAG_VALUES = 2, TAG_END = 3 };

/* Words of a message: the stretch, the version of the model, the steps in a change. */
enum { WORD_OFFSET, WORD_COUNT, WORD_VERSION, WORD_STEPS, WORDS };

/* Chunks that a model may have where it is encoded: each has a flow. */
enum { FLOWS_MAX = 65536 };

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

/* The codecs of chunks, at one end. */
typedef struct chunks {
    int64_t chunk;    /* elements of one */
    int64_t count;    /* of them */
    fast_flow **up;   /* [count]: of changes; NULL: there is no codec */
    fast_flow **down; /* [count]: of answers */
    float *x;         /* [chunk]: what was decoded last */
} chunks;

static void chunks_fini(chunks *k)
{
    fast__free(k->up);
    fast__free(k->down);
    fast__free(k->x);
}

/* `master`: this end decodes changes and encodes answers. */
static fast_err chunks_init(fast_trainer *t, const dogwild_config *c, bool master, chunks *k)
{
    *k = (chunks){ .chunk = c->chunk, .count = (t->count + c->chunk - 1) / c->chunk };
    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    if (k->count > FLOWS_MAX)
        return fast__fail(
            FAST_EINVAL,
            "dogwild: chunk=%lld cuts the model in %lld parts, and with a codec there "
            "may be %d; take a larger chunk",
            (long long)c->chunk, (long long)k->count, FLOWS_MAX);
    FAST_TRY(fast__alloc("flows of changes", k->count, sizeof *k->up, &k->up));
    FAST_TRY(fast__alloc("flows of answers", k->count, sizeof *k->down, &k->down));
    FAST_TRY(fast__alloc("a chunk", c->chunk, sizeof *k->x, &k->x));
    for (int64_t i = 0; i < k->count; i++) {
        fast_flow_options o = { .number = i, .offset = i * c->chunk, .decodes = master };

        o.count = t->count - o.offset < c->chunk ? t->count - o.offset : c->chunk;
        FAST_TRY(fast_trainer_flow(t, &o, &k->up[i]));
        o.number += k->count;
        o.down = true;
        o.raw = true;
        o.decodes = !master;
        FAST_TRY(fast_trainer_flow(t, &o, &k->down[i]));
    }
    return FAST_OK;
}

/* The flow of a message, or NULL: the last ones are whole. */
static fast_flow *flow_of(const chunks *k, uint64_t tag, const int64_t *words)
{
    fast_flow **flows = tag == TAG_CHANGE ? k->up : tag == TAG_VALUES ? k->down : NULL;

    FAST_ASSERT(!flows || words[WORD_OFFSET] % k->chunk == 0);
    return flows ? flows[words[WORD_OFFSET] / k->chunk] : NULL;
}

/* Send x[0 .. n), the elements from `at` on, and what the sender's model carries; or NULL. */
static fast_err send(fast_trainer *t, const chunks *k, int64_t to, uint64_t tag, const float *x,
                     const int64_t *words, const double *carried)
{
    const size_t head = carried ? (size_t)t->workers * sizeof *carried : 0;
    fast_flow *flow = flow_of(k, tag, words);
    size_t size = (size_t)words[WORD_COUNT] * sizeof *x;
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(fast_buffer_new(t->actor, head + (flow ? fast_flow_bound(flow) : size), &buffer));
    char *data = fast_buffer_data(buffer);
    if (carried)
        memcpy(data, carried, head);
    if (flow)
        err = fast_trainer_encode(t, flow, x, data + head, &size);
    else
        memcpy(data + head, x, size);
    if (!err)
        err = fast_msg_new(t->actor, tag, &msg);
    if (!err) {
        memcpy(msg->words, words, WORDS * sizeof *words);
        msg->unreliable = tag != TAG_END;
        fast_buffer_freeze(buffer);
        fast_msg_add_view(msg, buffer, 0, head + size);
    }
    fast_buffer_free(buffer);
    return err ? err : fast_send(t->actor, to, &msg);
}

/* The floats of such a message behind `head` bytes: in it, or decoded, until the next. */
static fast_err receive(fast_trainer *t, const chunks *k, const fast_msg *msg, size_t head,
                        const float **out)
{
    const size_t size = (size_t)msg->words[WORD_COUNT] * sizeof **out;
    const char *data = (const char *)fast_msg_data(msg, 0) + head;
    fast_flow *flow = flow_of(k, msg->tag, msg->words);

    FAST_ASSERT(msg->part_count == 1 && msg->parts[0].size >= head);
    if (flow && msg->tag == TAG_VALUES)
        return fast_trainer_decode_values(t, flow, data, msg->parts[0].size - head, out);
    *out = (const float *)(const void *)data;
    if (!flow)
        return FAST_OK;
    memset(k->x, 0, size);
    *out = k->x;
    return fast_trainer_decode(t, flow, data, msg->parts[0].size - head, 1, k->x);
}

/* Add a change to the master's model, and answer. The last message of a worker is the whole vector
 * and reliable; so is its answer. */
static fast_err serve(fast_trainer *t, const chunks *k, const fast_msg *msg, int64_t version,
                      double *carried)
{
    const float *d;
    const int64_t at = msg->words[WORD_OFFSET], n = msg->words[WORD_COUNT];
    const int64_t words[WORDS] = { at, n, version + 1, 0 };
    const bool last = msg->tag == TAG_END;

    FAST_ASSERT(at >= 0 && n >= 0 && at + n <= t->count);
    carried[fast_actor_index(t->actor, msg->from)] +=
        (double)msg->words[WORD_STEPS] * (double)n / (double)t->count / (last ? LAST_UNIT : 1);
    FAST_TRY(receive(t, k, msg, 0, &d));
    FAST_TRY(fast_trainer_apply_range(
        t, &fast__kernel_add, NULL,
        (fast_vector[]){ { t->w + at, NULL, -1 },
                         { (float *)(uintptr_t)d, NULL, version - msg->words[WORD_VERSION] } },
        1, n));
    return send(t, k, msg->from, last ? TAG_END : TAG_VALUES, t->w + at, words,
                at == 0 ? carried : NULL);
}

/* The master: add what comes, answer with what there is, until nobody is left. */
static fast_err answer_all(fast_trainer *t, const chunks *k, double *carried)
{
    for (int64_t version = 0;;) {
        fast_msg *msg = NULL;
        fast_err err = fast_receive(t->actor, FAST_ANY, FAST_TAG_ANY, FAST_SOON, &msg);

        if (err == FAST_EPEER)
            return FAST_OK;
        if (err == FAST_ETIMEDOUT)
            continue;
        FAST_TRY(err);
        err = serve(t, k, msg, version++, carried);
        fast_msg_free(msg);
        if (err != FAST_EPEER)
            FAST_TRY(err);
    }
}

static fast_err server(fast_trainer *t, const void *config)
{
    double *carried = NULL;
    chunks k = { 0 };
    fast_err err = chunks_init(t, config, true, &k);

    if (!err)
        err = fast__alloc("contributions", t->workers, sizeof *carried, &carried);
    if (!err)
        err = answer_all(t, &k, carried);
    fast__free(carried);
    chunks_fini(&k);
    return err;
}

/* What a worker keeps besides its replica. */
typedef struct dog {
    float *b;       /* what the master should have: the run's centre */
    float *d;       /* scratch */
    int64_t *told;  /* [chunks]: this worker's step when the chunk was last sent */
    chunks chunks;  /* of messages */
    int64_t sends;  /* chunks in a step */
    double *shares; /* [workers] scratch: contributions of an answer */
} dog;

/* The values of an answer; the first chunk's brings what the master carries, to which this worker
 * adds what it has not sent. */
static fast_err values_of(fast_trainer *t, const dog *k, const fast_msg *msg, const float **out)
{
    const double *carried = fast_msg_data(msg, 0);
    const fast_vector w = fast_trainer_model(t);

    if (msg->words[WORD_OFFSET] != 0)
        return receive(t, &k->chunks, msg, 0, out);
    memcpy(k->shares, carried, (size_t)t->workers * sizeof *carried);
    k->shares[t->rank] += (double)(t->step - k->told[0]);
    fast_trainer_adopt(t, &(fast_vector){ .x = w.x, .shares = k->shares, .age = -1 });
    return receive(t, &k->chunks, msg, (size_t)t->workers * sizeof *carried, out);
}

/* x = w, b, z:  w <- z + (w - b);  b <- z. */
static void run_rebase(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        x[0][i] = x[2][i] + (x[0][i] - x[1][i]);
        x[1][i] = x[2][i];
    }
}

/* x = d, b, w:  d <- w - b;  b <- w. */
static void run_change(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    memcpy(x[0], x[2], (size_t)n * sizeof **x);
    fast__vector_axpy(n, -1, x[1], x[0]);
    memcpy(x[1], x[2], (size_t)n * sizeof **x);
}

static const fast_kernel rebase = { "rebase", 2, 20, 3, 2, false, run_rebase };
static const fast_kernel change = { "change", 1, 20, 3, 2, false, run_change };

/* Take in the answers that have arrived. */
static fast_err take(fast_trainer *t, const dog *k)
{
    for (;;) {
        fast_msg *msg = NULL;
        fast_err err = fast_receive(t->actor, t->server_ids[0], TAG_VALUES, FAST_AT_ONCE, &msg);
        const float *z;
        int64_t at, n;

        if (err == FAST_ETIMEDOUT)
            return FAST_OK;
        FAST_TRY(err);
        at = msg->words[WORD_OFFSET];
        n = msg->words[WORD_COUNT];
        err = values_of(t, k, msg, &z);
        if (!err)
            err = fast_trainer_apply_range(t, &rebase, NULL,
                                           (fast_vector[]){ { t->w + at, NULL, -1 },
                                                            { k->b + at, NULL, -1 },
                                                            { (float *)(uintptr_t)z, NULL, -1 } },
                                           1, n);
        if (msg->words[WORD_VERSION] > t->centre_version)
            t->centre_version = msg->words[WORD_VERSION];
        fast_msg_free(msg);
        FAST_TRY(err);
    }
}

/* Send the change of a stretch that holds so many steps. */
static fast_err tell(fast_trainer *t, const dog *k, uint64_t tag, int64_t at, int64_t n,
                     int64_t steps)
{
    const int64_t words[WORDS] = { at, n, t->centre_version, steps };

    FAST_TRY(fast_trainer_apply_range(
        t, &change, NULL,
        (fast_vector[]){ { k->d, NULL, -1 }, { k->b + at, NULL, -1 }, { t->w + at, NULL, -1 } }, 1,
        n));
    return send(t, &k->chunks, t->server_ids[0], tag, k->d, words, NULL);
}

/* The rest of the changes, and the whole model for them. */
static fast_err leave(fast_trainer *t, const dog *k)
{
    const int64_t chunk = k->chunks.chunk;
    const float *z;
    double rest = 0;
    fast_msg *msg = NULL;

    FAST_TRY(take(t, k));
    for (int64_t i = 0; i < k->chunks.count; i++) {
        const int64_t at = i * chunk;
        const int64_t n = t->count - at < chunk ? t->count - at : chunk;

        rest += (double)(t->step - k->told[i]) * (double)n / (double)t->count;
        k->told[i] = t->step;
    }
    FAST_TRY(tell(t, k, TAG_END, 0, t->count, llround(rest * LAST_UNIT)));
    fast_actor_at(t->actor, t->step, "the master's model");
    FAST_TRY(fast_receive(t->actor, t->server_ids[0], TAG_END, FAST_SOON, &msg));
    FAST_TRY(values_of(t, k, msg, &z)); /* whole: nothing that can fail */
    memcpy(k->b, z, (size_t)t->count * sizeof *k->b);
    memcpy(t->w, k->b, (size_t)t->count * sizeof *k->b);
    t->centre_version = msg->words[WORD_VERSION];
    fast_msg_free(msg);
    return FAST_OK;
}

static fast_err train(fast_trainer *t, const dog *k)
{
    while (fast_trainer_next(t)) {
        FAST_TRY(take(t, k));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        for (int64_t i = 0; i < k->sends; i++) {
            const int64_t chunk = (int64_t)(fast_random(t->actor) % (uint64_t)k->chunks.count);
            const int64_t at = chunk * k->chunks.chunk, left = t->count - at;
            const int64_t n = left < k->chunks.chunk ? left : k->chunks.chunk;

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
    dog k = { .b = NULL };
    fast_err err = chunks_init(t, c, false, &k.chunks);

    k.sends = (int64_t)ceil(c->rate * (double)k.chunks.count);
    if (!err)
        err = fast_trainer_centre(t, &k.b);
    if (!err)
        err = fast__alloc("changes", t->count, sizeof *k.d, &k.d);
    if (!err)
        err = fast__alloc("steps of chunks", k.chunks.count, sizeof *k.told, &k.told);
    if (!err)
        err = fast__alloc("contributions", t->workers, sizeof *k.shares, &k.shares);
    for (int64_t i = 0; !err && i < k.chunks.count; i++)
        k.told[i] = t->step;
    if (!err)
        err = train(t, &k);
    fast__free(k.told);
    fast__free(k.shares);
    fast__free(k.d);
    chunks_fini(&k.chunks);
    return err;
}

const fast_strategy fast__strategy_dogwild = {
    .name = "dogwild",
    .summary = "changes of random chunks to a master, by messages that may get lost",
    .options = options,
    .config_size = sizeof(dogwild_config),
    .uses_codec = true,
    .sends = "differences",
    .answers = "values",
    .servers = servers,
    .worker = worker,
    .server = server,
};
