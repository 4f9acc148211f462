/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dogwild: Hogwild over machines. Workers send changes of random chunks to a master, by messages
 * that may get lost; the master answers with the chunk of its model.
 *
 *     worker:  every step    w <- rule(w, g)
 *              a few chunks  send d = w - b;  b <- w          b: its copy of the master's model
 *     master:  d arrives     z <- z + d;  answer with z       of that chunk
 *     worker:  z arrives     w <- z + (w - b);  b <- z        changes that were not sent remain
 *
 * With sends=weights a worker sends chunks of w itself, and the master overwrites its own by them:
 *
 *     master:  x arrives     z <- x;  answer with a random chunk of z, of any worker's weights
 *
 * Noel and Osindero, "Dogwild! Distributed Hogwild for CPU and GPU", 2014. A lost change is lost
 * for good; a lost answer is replaced by the next answer of that chunk; a message that arrives
 * twice counts twice. With one worker, nothing lost and answers that arrive within a step it is
 * plain SGD up to rounding; a later answer lacks the changes that were sent since. At its end a
 * worker sends the rest of its changes and receives the whole model, by reliable messages.
 *
 * Changes of P workers add up: lr / P here compares with lr of synchronous training, and the more
 * rarely a chunk is sent, the smaller lr must be.
 *
 * On a simulated cluster whose computing takes no time (ideal) no answer arrives before the end.
 *
 * The model of the run is z. The run continues without a worker that crashes; a crash of the master
 * ends it.
 *
 * With codecs each chunk is a flow: the residual of an encoding is added to the chunk's next
 * change, a lost message is lost. An answer may be the only one that arrives, so it has values, by
 * a codec that is fit for weights. The last change and its answer are not encoded.
 *
 * For the measures a change says how many of its worker's steps it holds; the answer to the first
 * chunk, which arrives as often as any other, has the contributions of all workers to the master.
 *
 * Cost per worker and step: `rate` models up and as many down; memory: two more vectors.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/strategy.h"
#include "strategy/vector_kernels.h"
#include "strategy/vector_message.h"
#include "tensor/vector.h"
#include "trainer/part.h"
#include "trainer/remember.h"
#include "transport/transport.h"

#include <math.h>
#include <string.h>

enum { TAG_CHANGE = 1, TAG_VALUES = 2, TAG_END = 3 };

/* Words of a message: the range, the version of the model, the steps in a change. */
enum { WORD_OFFSET, WORD_COUNT, WORD_VERSION, WORD_STEPS, WORDS };

/* Chunks that an encoded model may have, at most: each has a flow. */
enum { FLOWS_MAX = 65536 };

/* The last change holds the mean over chunks of their steps, in units of 1 / LAST_UNIT steps. */
enum { LAST_UNIT = 1 << 20 };

/* The options. */
typedef struct dogwild_config {
    int64_t chunk; /* elements of a message */
    double rate;   /* fraction of the model that is sent in a step */
    int sends;     /* CHANGES or WEIGHTS */
} dogwild_config;

enum { CHANGES, WEIGHTS };

static const fast_option options[] = {
    FAST_OPT_INT(dogwild_config, chunk, "8192", 1, 1e9, "elements of the model in a message"),
    FAST_OPT_REAL(dogwild_config, rate, "1", 1e-6, 1,
                  "fraction of the model that is sent each step"),
    FAST_OPT_CHOICE(dogwild_config, sends, "changes", "changes|weights",
                    "changes, which the master adds, or weights, which overwrite the master's"),
    FAST_OPT_END,
};

/* One master. */
static int64_t servers(const void *config, int64_t workers)
{
    (void)config;
    (void)workers;
    FAST_ASSERT(workers > 0);
    return 1;
}

/* The codecs of chunks, at one end. */
typedef struct dogwild_chunks {
    int64_t chunk;    /* elements of a chunk */
    int64_t count;    /* number of chunks */
    fast_flow **up;   /* [count]: flows of changes; NULL: the run has no codec */
    fast_flow **down; /* [count]: flows of answers; NULL: the run has no codec */
    float *x;         /* [chunk]: the last decoded change; NULL: the run has no codec */
    bool weights;     /* weights are sent, not changes */
} dogwild_chunks;

/* Free the lists; flows are the trainer's. */
static void chunks_fini(dogwild_chunks *k)
{
    FAST_ASSERT(k->count >= 0);
    fast__free(k->up);
    fast__free(k->down);
    fast__vector_free(k->x);
}

/* Elements of chunk i: the last may be shorter. */
static int64_t chunk_count(const fast_trainer *t, const dogwild_chunks *k, int64_t i)
{
    const int64_t left = t->count - i * k->chunk;

    FAST_ASSERT(i >= 0 && i < k->count);
    return left < k->chunk ? left : k->chunk;
}

/* Open the flows of all chunks; the `master` decodes changes and encodes answers. FAST_EINVAL if
 * there are too many chunks; FAST_ENOMEM. */
static fast_err chunks_init(fast_trainer *t, const dogwild_config *c, bool master,
                            dogwild_chunks *k)
{
    *k = (dogwild_chunks){ .chunk = c->chunk,
                           .count = (t->count + c->chunk - 1) / c->chunk,
                           .weights = c->sends == WEIGHTS };
    FAST_ASSERT(k->count > 0);
    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    if (c->sends == WEIGHTS)
        return fast__fail(FAST_EINVAL, "dogwild: weights are sent without a codec; leave it out or "
                                       "use sends=changes");
    if (k->count > FLOWS_MAX)
        return fast__fail(
            FAST_EINVAL,
            "dogwild: chunk=%lld cuts the model into %lld chunks, but with a codec at most %d are "
            "possible; use a larger chunk",
            (long long)c->chunk, (long long)k->count, FLOWS_MAX);
    FAST_TRY(fast__alloc("flows of changes", k->count, sizeof *k->up, &k->up));
    FAST_TRY(fast__alloc("flows of answers", k->count, sizeof *k->down, &k->down));
    FAST_TRY(fast__vector_new(fast__device_of(t->w), "a chunk", c->chunk, &k->x));
    for (int64_t i = 0; i < k->count; i++) {
        fast_flow_options o = {
            .number = i, .offset = i * c->chunk, .count = chunk_count(t, k, i), .decodes = master
        };

        FAST_TRY(fast_trainer_flow(t, &o, &k->up[i]));
        o.number += k->count;
        o.down = true;
        o.raw = true;
        o.decodes = !master;
        FAST_TRY(fast_trainer_flow(t, &o, &k->down[i]));
    }
    return FAST_OK;
}

/* Return the flow of a message; NULL if it is not encoded, as the last messages of a worker. */
static fast_flow *flow_of(const dogwild_chunks *k, uint64_t tag, const int64_t *words)
{
    fast_flow **flows = tag == TAG_CHANGE ? k->up : tag == TAG_VALUES ? k->down : NULL;

    FAST_ASSERT(!flows || words[WORD_OFFSET] % k->chunk == 0);
    return flows ? flows[words[WORD_OFFSET] / k->chunk] : NULL;
}

/* Send x[0 .. WORD_COUNT), with the contributions of the sender's model or NULL. Only the last
 * message of a worker and its answer are reliable. */
static fast_err send(fast_trainer *t, const dogwild_chunks *k, int64_t to, uint64_t tag,
                     const float *x, const int64_t *words, const double *shares)
{
    fast_buffer *buffer = NULL;
    size_t size;

    FAST_ASSERT(words[WORD_COUNT] > 0 && words[WORD_OFFSET] + words[WORD_COUNT] <= t->count);
    FAST_TRY(fast__vector_message_pack(
        t,
        &(fast_vector_message){
            .shares = shares, .x = x, .count = words[WORD_COUNT], .flow = flow_of(k, tag, words) },
        &buffer, &size));
    const fast_vector_address address = { to, tag, words, WORDS, tag != TAG_END };
    const fast_err err = fast__vector_message_send(t, &address, buffer, size);
    fast_buffer_free(buffer);
    return err;
}

/* Return the values of a message after `head` bytes: in the message, or decoded and lent until the
 * next call. */
static fast_err receive(fast_trainer *t, const dogwild_chunks *k, const fast_msg *msg, size_t head,
                        const float **out)
{
    const char *data = (const char *)fast_msg_data(msg, 0) + head;
    fast_flow *flow = flow_of(k, msg->tag, msg->words);

    FAST_ASSERT(msg->part_count == 1 && msg->parts[0].size >= head);
    if (flow && msg->tag == TAG_VALUES)
        return fast_trainer_decode_values(t, flow, data, msg->parts[0].size - head, out);
    *out = (const float *)(const void *)data;
    if (!flow)
        return FAST_OK;
    fast__vector_fill(msg->words[WORD_COUNT], 0, k->x);
    *out = k->x;
    return fast_trainer_decode(t, flow, data, msg->parts[0].size - head, 1, k->x);
}

/* Add steps of a worker to contributions. */
static void add_share(const fast_trainer *t, int64_t rank, double steps, double *shares)
{
    FAST_ASSERT(shares != NULL);
    for (int64_t i = 0; i < fast_trainer_share_count(t); i++)
        if (fast_trainer_share_rank(t, i) == rank)
            shares[i] += steps;
}

/* Master: overwrite a range of z by a worker's weights. Its contributions become the worker's, by
 * the fraction of the range. */
static fast_err overwrite(fast_trainer *t, const fast_msg *msg, double *shares)
{
    const int64_t at = msg->words[WORD_OFFSET], n = msg->words[WORD_COUNT];
    const int64_t count = fast_trainer_share_count(t);
    const size_t head = (size_t)count * sizeof *shares;
    const double fraction = (double)n / (double)t->count;
    const double *theirs = fast_msg_data(msg, 0);

    FAST_ASSERT(at >= 0 && n >= 0 && at + n <= t->count);
    if (msg->part_count != 1 || msg->parts[0].size != head + (size_t)n * sizeof(float))
        return fast__fail(FAST_EFORMAT, "dogwild: worker %lld sent no weights",
                          (long long)msg->from);
    for (int64_t i = 0; i < count; i++)
        shares[i] += fraction * (theirs[i] - shares[i]);
    fast__vector_copy(n, (const char *)fast_msg_data(msg, 0) + head, t->w + at);
    return FAST_OK;
}

/* Master: add a change to z. */
static fast_err add_change(fast_trainer *t, const dogwild_chunks *k, const fast_msg *msg,
                           int64_t version, double *shares)
{
    const int64_t at = msg->words[WORD_OFFSET], n = msg->words[WORD_COUNT];
    const float *d;

    FAST_ASSERT(at >= 0 && n >= 0 && at + n <= t->count);
    add_share(t, fast__trainer_rank(t, msg->from),
              (double)msg->words[WORD_STEPS] * (double)n / (double)t->count /
                  (msg->tag == TAG_END ? LAST_UNIT : 1),
              shares);
    FAST_TRY(receive(t, k, msg, 0, &d));
    return fast_trainer_apply_range(
        t, &fast__kernel_add, NULL,
        (fast_vector[]){ { t->w + at, NULL, -1 },
                         { (float *)(uintptr_t)d, NULL, version - msg->words[WORD_VERSION] } },
        1, n);
}

/* Master: add a change to z, or overwrite z by weights, and answer with that range of it or with a
 * random chunk. The last message of a worker is the whole vector. */
static fast_err serve(fast_trainer *t, const dogwild_chunks *k, const fast_msg *msg,
                      int64_t version, double *shares)
{
    int64_t at = msg->words[WORD_OFFSET], n = msg->words[WORD_COUNT];
    const bool last = msg->tag == TAG_END;

    FAST_ASSERT(k->count > 0);
    FAST_TRY(k->weights ? overwrite(t, msg, shares) : add_change(t, k, msg, version, shares));
    if (k->weights && !last) {
        const int64_t chunk = (int64_t)(fast_random(t->actor) % (uint64_t)k->count);

        at = chunk * k->chunk;
        n = chunk_count(t, k, chunk);
    }
    const int64_t words[WORDS] = { at, n, version + 1, 0 };

    return send(t, k, msg->from, last ? TAG_END : TAG_VALUES, t->w + at, words,
                at == 0 ? shares : NULL);
}

/* Master: serve changes until no worker is left. */
static fast_err answer_all(fast_trainer *t, const dogwild_chunks *k, double *shares)
{
    int64_t version = 0;

    FAST_ASSERT(shares != NULL);
    FAST_TRY(fast__trainer_remember(t, 0, &version, sizeof version));
    FAST_TRY(
        fast__trainer_remember(t, 1, shares, (size_t)fast_trainer_share_count(t) * sizeof *shares));
    FAST_TRY(fast__trainer_remember(t, 2, t->w, (size_t)t->count * sizeof *t->w));
    for (;;) {
        fast_msg *msg = NULL;
        fast_err err = fast_receive(t->actor, FAST_ANY, FAST_TAG_ANY,
                                    fast__patience(t->actor, FAST_PATIENCE), &msg);

        if (err == FAST_EPEER)
            return FAST_OK;
        if (err == FAST_ETIMEDOUT)
            continue;
        FAST_TRY(err);
        err = serve(t, k, msg, version++, shares);
        fast_msg_free(msg);
        if (err != FAST_EPEER)
            FAST_TRY(err);
    }
}

/* The master's program. */
static fast_err server(fast_trainer *t, const void *config)
{
    double *shares = NULL;
    dogwild_chunks k = { 0 };
    fast_err err = chunks_init(t, config, true, &k);

    FAST_ASSERT(t->servers == 1);
    if (!err)
        err = fast__alloc("contributions", fast_trainer_share_count(t), sizeof *shares, &shares);
    if (!err)
        err = answer_all(t, &k, shares);
    fast__free(shares);
    chunks_fini(&k);
    return err;
}

/* Memory of a worker besides its replica. */
typedef struct dogwild_worker {
    float *b;              /* its copy of the master's model: the run's centre */
    float *d;              /* scratch: a change */
    int64_t *sent;         /* [chunks]: this worker's step when the chunk was last sent */
    dogwild_chunks chunks; /* of its messages */
    int64_t sends;         /* chunks that are sent in a step */
    double *shares;        /* scratch: contributions of an answer */
} dogwild_worker;

/* Return the values of an answer. That of the first chunk has the master's contributions, to which
 * this worker adds its steps that it has not sent. */
static fast_err values_of(fast_trainer *t, const dogwild_worker *k, const fast_msg *msg,
                          const float **out)
{
    const double *shares = fast_msg_data(msg, 0);
    const fast_vector w = fast_trainer_model(t);

    FAST_ASSERT(msg->part_count == 1);
    if (msg->words[WORD_OFFSET] != 0)
        return receive(t, &k->chunks, msg, 0, out);
    memcpy(k->shares, shares, (size_t)fast_trainer_share_count(t) * sizeof *shares);
    add_share(t, t->rank, (double)(t->step - k->sent[0]), k->shares);
    fast_trainer_adopt(t, &(fast_vector){ .x = w.x, .shares = k->shares, .age = -1 });
    return receive(t, &k->chunks, msg, (size_t)fast_trainer_share_count(t) * sizeof *shares, out);
}

/* x = w, b, z:  w <- z + (w - b);  b <- z. */
static void run_rebase(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    FAST_ASSERT(n > 0);
    for (int64_t i = 0; i < n; i++) {
        x[0][i] = x[2][i] + (x[0][i] - x[1][i]);
        x[1][i] = x[2][i];
    }
}

/* x = d, b, w:  d <- w - b;  b <- w. */
static void run_change(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    FAST_ASSERT(n > 0);
    memcpy(x[0], x[2], (size_t)n * sizeof **x);
    fast__vector_axpy(n, -1, x[1], x[0]);
    memcpy(x[1], x[2], (size_t)n * sizeof **x);
}

static const fast_kernel rebase = { "rebase", 2, 20, 3, 2, false, run_rebase };
static const fast_kernel change = { "change", 1, 20, 3, 2, false, run_change };

/* Refuse an answer that is no chunk of the model: one of a snapshot may be forged. */
static fast_err check_answer(const fast_trainer *t, const dogwild_worker *k, const fast_msg *msg)
{
    const int64_t at = msg->words[WORD_OFFSET], n = msg->words[WORD_COUNT];
    const size_t head = at == 0 ? (size_t)fast_trainer_share_count(t) * sizeof(double) : 0;
    const bool chunk = at >= 0 && at < t->count && at % k->chunks.chunk == 0 &&
                       n == chunk_count(t, &k->chunks, at / k->chunks.chunk);

    FAST_ASSERT(k->chunks.chunk > 0);
    if (!chunk || msg->part_count != 1 || msg->parts[0].size < head ||
        (!k->chunks.down && msg->parts[0].size != head + (size_t)n * sizeof(float)))
        return fast__fail(FAST_EFORMAT, "dogwild: the master sent no chunk of the model");
    return FAST_OK;
}

/* Apply the answers that have arrived. */
static fast_err take(fast_trainer *t, const dogwild_worker *k)
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
        err = check_answer(t, k, msg);
        if (!err)
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

/* Send the change of a range, or its weights, which holds `steps` steps of this worker. */
static fast_err send_change(fast_trainer *t, const dogwild_worker *k, uint64_t tag, int64_t at,
                            int64_t n, int64_t steps)
{
    const int64_t words[WORDS] = { at, n, t->centre_version, steps };

    FAST_ASSERT(steps >= 0);
    FAST_TRY(fast_trainer_apply_range(
        t, &change, NULL,
        (fast_vector[]){ { k->d, NULL, -1 }, { k->b + at, NULL, -1 }, { t->w + at, NULL, -1 } }, 1,
        n));
    if (k->chunks.weights)
        return send(t, &k->chunks, t->server_ids[0], tag, t->w + at, words,
                    fast_trainer_model(t).shares);
    return send(t, &k->chunks, t->server_ids[0], tag, k->d, words, NULL);
}

/* Send the rest of the changes, and receive the whole model. */
static fast_err leave(fast_trainer *t, const dogwild_worker *k)
{
    const float *z;
    double rest = 0;
    fast_msg *msg = NULL;

    FAST_TRY(take(t, k));
    for (int64_t i = 0; i < k->chunks.count; i++) {
        rest += (double)(t->step - k->sent[i]) * (double)chunk_count(t, &k->chunks, i) /
                (double)t->count;
        k->sent[i] = t->step;
    }
    FAST_ASSERT(rest >= 0);
    FAST_TRY(send_change(t, k, TAG_END, 0, t->count, llround(rest * LAST_UNIT)));
    fast_actor_at(t->actor, t->step, "the master's model");
    FAST_TRY(fast_receive(t->actor, t->server_ids[0], TAG_END, FAST_SOON, &msg));
    FAST_TRY(values_of(t, k, msg, &z)); /* not encoded: cannot fail */
    fast__vector_copy(t->count, z, k->b);
    fast__vector_copy(t->count, k->b, t->w);
    t->centre_version = msg->words[WORD_VERSION];
    fast_msg_free(msg);
    return FAST_OK;
}

/* The worker's loop of the formula above. */
static fast_err train(fast_trainer *t, const dogwild_worker *k)
{
    FAST_ASSERT(k->sends > 0 && k->sends <= k->chunks.count);
    while (fast_trainer_next(t)) {
        FAST_TRY(take(t, k));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        for (int64_t i = 0; i < k->sends; i++) {
            const int64_t chunk = (int64_t)(fast_random(t->actor) % (uint64_t)k->chunks.count);

            FAST_TRY(send_change(t, k, TAG_CHANGE, chunk * k->chunks.chunk,
                                 chunk_count(t, &k->chunks, chunk), t->step - k->sent[chunk]));
            k->sent[chunk] = t->step;
        }
    }
    FAST_TRY(fast_trainer_end(t));
    return leave(t, k);
}

/* Have snapshots include a worker's memory. */
static fast_err remember(fast_trainer *t, dogwild_worker *k)
{
    FAST_ASSERT(k->b != NULL && k->sent != NULL);
    FAST_TRY(fast__trainer_remember(t, 0, k->b, (size_t)t->count * sizeof *k->b));
    FAST_TRY(fast__trainer_remember(t, 1, k->sent, (size_t)k->chunks.count * sizeof *k->sent));
    FAST_TRY(fast__trainer_remember(t, 2, &t->centre_version, sizeof t->centre_version));
    for (int64_t i = 0; i < k->chunks.count; i++)
        FAST_TRY(fast__trainer_check_saved(t, k->sent[i] >= 0 && k->sent[i] <= t->step));
    return FAST_OK;
}

/* The worker's program. */
static fast_err worker(fast_trainer *t, const void *config)
{
    const dogwild_config *c = config;
    dogwild_worker k = { .b = NULL };
    fast_err err = chunks_init(t, c, false, &k.chunks);

    FAST_ASSERT(c->rate > 0 && c->rate <= 1);
    k.sends = (int64_t)ceil(c->rate * (double)k.chunks.count);
    if (!err)
        err = fast_trainer_centre(t, &k.b);
    if (!err)
        err = fast__vector_new(fast__device_of(t->w), "changes", t->count, &k.d);
    if (!err)
        err = fast__alloc("steps of chunks", k.chunks.count, sizeof *k.sent, &k.sent);
    if (!err)
        err =
            fast__alloc("contributions", fast_trainer_share_count(t), sizeof *k.shares, &k.shares);
    for (int64_t i = 0; !err && i < k.chunks.count; i++)
        k.sent[i] = t->step;
    if (!err)
        err = remember(t, &k);
    if (!err)
        err = train(t, &k);
    fast__free(k.sent);
    fast__free(k.shares);
    fast__vector_free(k.d);
    chunks_fini(&k.chunks);
    return err;
}

const fast_strategy fast__strategy_dogwild = {
    .name = "dogwild",
    .summary = "workers send changes of random chunks to a master; messages may get lost",
    .options = options,
    .config_size = sizeof(dogwild_config),
    .resumable = true,
    .uses_codec = true,
    .sends = "differences",
    .answers = "values",
    .servers = servers,
    .worker = worker,
    .server = server,
};
