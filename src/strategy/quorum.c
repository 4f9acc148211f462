/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quorum: synchronous steps that do not wait for everyone.
 *
 *     round r, worker i:  g_i <- gradient at w;  sends it
 *     the leader:         S <- the workers whose gradients have come, once there are Q of them
 *     everyone:           w <- rule(w, sum_{i in S} g_i / |S|)
 *
 *   backup B     Q = P - B: backup workers (Chen et al. 2016, "Revisiting distributed synchronous
 *                SGD"); a gradient that comes later is dropped
 *   quorum Q     the same, counted from the other side
 *   late=add     a late gradient goes to the next round that is open when it comes, before its
 *                worker computes another one: stale, but not lost (eager-SGD, Li et al. 2020, which
 *                also divides by P, where this is the mean of the gradients that are in)
 *   partial      A-BSP (Wang et al. 2018): when Q workers are done the others are told, and send
 *                the sum of the micro-batches (`accumulate`) that they have; the mean is over
 *                micro-batches, and each worker goes on behind its last one, so that no data is
 *                skipped. Nobody is late: a round waits for one micro-batch at most
 *
 * All updates reach every worker in order, and who missed rounds takes them in before its next
 * gradient: replicas are equal to the bit whenever they have taken the same number of steps. The
 * sum is in the canonical order, over the ranks that are in it: with Q = P it is `allreduce` to the
 * bit. A worker that is always slow never contributes where late gradients are dropped: `add` or
 * `partial` let it have its say.
 *
 * Who crashes is not waited for; the run goes on while Q workers are left, and else stops and names
 * who is missing. A worker that restarts, or that was taken for dead since it stood still or could
 * not be reached, has missed updates that nobody keeps: it asks to join again, takes the model that
 * another one has between two rounds, and goes on from there. The servers must stay.
 *
 * Stopping. A worker that is asked to stop tells the leader and takes in what is still decided; the
 * last round is of those who computed it, and all end with the same step.
 *
 * Cost per worker and step: the gradient up and the sum down, cut over the servers; a server with a
 * k-th of the vector moves P/k of it in and out. Memory: one more vector, about log2 K for partial
 * work, and what a late worker missed, at most `lag`.
 */
#include "strategy/quorum.h"

#include "base/err.h"
#include "base/memory.h"
#include "tensor/fold.h"
#include "tensor/vector.h"
#include "transport/transport.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LATE_DROP, LATE_ADD };

static const int64_t ASK_NS = 100000000; /* after which one who asks to join asks again */
static const int64_t BACK_NS = 10000000; /* between looks whether the server is back */

static const fast_option options[] = {
    FAST_OPT_INT(quorum_config, quorum, "0", 0, 65536,
                 "gradients that a step waits for; 0: all but the backup workers'"),
    FAST_OPT_INT(quorum_config, backup, "0", 0, 65536,
                 "workers whose gradients a step does not wait for"),
    FAST_OPT_CHOICE(quorum_config, late, "drop", "drop|add",
                    "a gradient that comes too late is dropped, or added to a later step"),
    FAST_OPT_BOOL(quorum_config, partial, "no",
                  "when the quorum is done, all others send the micro-batches (accumulate) that "
                  "they have (A-BSP)"),
    FAST_OPT_INT(quorum_config, lag, "16", 1, 1e6,
                 "steps that a worker may miss before the others wait for it"),
    FAST_OPT_INT(quorum_config, servers, "1", 0, 65536,
                 "servers that share the sum; 0: one for each worker"),
    FAST_OPT_END,
};

static int64_t servers(const void *config, int64_t workers)
{
    const quorum_config *c = config;

    return c->servers ? c->servers : workers;
}

static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const quorum_config *c = config;

    (void)optimizer;
    if (c->quorum > 0 && c->backup > 0)
        return fast__fail(FAST_EINVAL,
                          "quorum: quorum=%lld and backup=%lld say the same twice; "
                          "give one",
                          (long long)c->quorum, (long long)c->backup);
    if (c->quorum > workers || c->backup >= workers)
        return fast__fail(FAST_EINVAL, "quorum: there are only %lld workers for %s=%lld",
                          (long long)workers, c->quorum ? "quorum" : "backup",
                          (long long)(c->quorum ? c->quorum : c->backup));
    if (c->partial && c->late == LATE_ADD)
        return fast__fail(FAST_EINVAL, "quorum: with partial=yes nobody is late; leave out late");
    return FAST_OK;
}

int64_t fast__quorum_of(const quorum_config *c, int64_t workers)
{
    return c->quorum ? c->quorum : workers - c->backup;
}

void fast__quorum_range(const fast_trainer *t, int64_t server, int64_t *first_out,
                        int64_t *count_out)
{
    const int64_t all = t->count + t->state_count;

    FAST_ASSERT(server >= 0 && server < t->servers);
    *first_out = all / t->servers * server + (all % t->servers) * server / t->servers;
    server++;
    *count_out = all / t->servers * server + (all % t->servers) * server / t->servers - *first_out;
}

fast_err fast__quorum_msg(fast_trainer *t, uint64_t tag, fast_quorum_kind kind, int64_t round,
                          int64_t number, fast_buffer **move, fast_msg **out)
{
    const fast_err err = fast_msg_new(t->actor, tag, out);

    if (err) {
        if (move)
            fast_buffer_free(*move);
        return err;
    }
    if (move)
        fast_msg_add(*out, move);
    (*out)->words[FAST_QUORUM_KIND] = kind;
    (*out)->words[FAST_QUORUM_ROUND] = round;
    (*out)->words[FAST_QUORUM_NUMBER] = number;
    return FAST_OK;
}

fast_err fast__quorum_check(const int64_t *weights, int64_t workers)
{
    int64_t all = 0;

    for (int64_t i = 0; i < workers; i++) {
        if (weights[i] < 0 || weights[i] > INT32_MAX)
            return fast__fail(FAST_EFORMAT, "a round with %lld micro-batches of worker %lld",
                              (long long)weights[i], (long long)i);
        all += weights[i];
    }
    return all > 0 ? FAST_OK : fast__fail(FAST_EFORMAT, "a round without any micro-batch");
}

/* A worker's memory besides its replica. */
typedef struct member {
    fast_trainer *t;
    const quorum_config *config;
    float *sum;              /* [count + state_count]: of the round that came */
    fast_fold fold;          /* of a round's micro-batches, where they are exchanged in parts */
    float *folded;           /* [count]: their sum */
    int64_t next;            /* micro-batch that comes next */
    int64_t *weights;        /* [workers]: micro-batches in the last sum */
    double *shares;          /* [workers] scratch: contributions of the last sum */
    bool over;               /* the leader said END */
    bool refused;            /* the leader said that updates were missed */
    int64_t joins;           /* times that it was away */
    bool encoded;            /* the last gradient is, for all servers */
    fast_quorum_code *codes; /* [2 servers]: of what goes up, and of what comes; NULL: floats */
} member;

/* Say something small to a server. */
static fast_err tell(member *m, int64_t server, fast_quorum_kind kind)
{
    fast_trainer *t = m->t;
    fast_msg *msg = NULL;

    FAST_TRY(fast__quorum_msg(t, FAST_QUORUM_UP, kind, t->step, 0, NULL, &msg));
    return fast_send(t->actor, t->server_ids[server], &msg);
}

/* Bytes of a model that is given away. */
static size_t model_size(fast_trainer *t)
{
    int slots = 0;

    while (fast_trainer_rule_slot(t, slots))
        slots++;
    return (size_t)t->workers * sizeof(double) +
           (size_t)((slots + 1) * t->count + t->state_count) * sizeof(float);
}

/* The model lies here: copy it to `bytes`, or from there. */
static void move_model(fast_trainer *t, void *bytes, bool out)
{
    const size_t size = (size_t)t->count * sizeof(float);
    char *at = (char *)bytes + (size_t)t->workers * sizeof(double);
    float *slot = t->w;

    for (int i = 0; slot; slot = fast_trainer_rule_slot(t, i++), at += size)
        memcpy(out ? (void *)at : slot, out ? (void *)slot : at, size);
    if (t->state_count > 0)
        memcpy(out ? (void *)at : t->s, out ? (void *)t->s : at,
               (size_t)t->state_count * sizeof(float));
}

/* Give one's model, which is that of the round in `msg`, to who was away. */
static fast_err give(member *m, const fast_msg *msg)
{
    fast_trainer *t = m->t;
    const int64_t to = msg->words[FAST_QUORUM_NUMBER];
    fast_buffer *buffer = NULL;
    fast_msg *model = NULL;
    fast_err err;

    if (to < 0 || to >= t->workers)
        return fast__fail(FAST_EFORMAT, "there is no worker %lld to give a model to",
                          (long long)to);
    FAST_TRY(fast_buffer_new(t->actor, model_size(t), &buffer));
    memcpy(fast_buffer_data(buffer), fast_trainer_model(t).shares,
           (size_t)t->workers * sizeof(double));
    move_model(t, fast_buffer_data(buffer), true);
    FAST_TRY(fast__quorum_msg(t, FAST_QUORUM_MODEL, FAST_QUORUM_GIVE, msg->words[FAST_QUORUM_ROUND],
                              0, &buffer, &model));
    err = fast_send(t->actor, t->worker_ids[to], &model);
    return err == FAST_EPEER ? FAST_OK : err; /* it is gone again */
}

/* The quorum is out of reach: say why, as the leader does. */
static fast_err fail_few(const member *m, const fast_msg *msg)
{
    if (msg->part_count != 1)
        return fast__fail(FAST_EFORMAT, "the first server does not say why it gives up");
    m->t->actor->culprit = msg->words[FAST_QUORUM_NUMBER];
    return fast__fail(FAST_EPEER, "%.*s", (int)msg->parts[0].size,
                      (const char *)fast_msg_data(msg, 0));
}

/* A message of a server that is not of a round's course; *taken_out: it was one. */
static fast_err take_aside(member *m, const fast_msg *msg, bool *taken_out)
{
    const int64_t kind = msg->words[FAST_QUORUM_KIND];

    *taken_out = true;
    if (kind == FAST_QUORUM_GIVE)
        return give(m, msg);
    if (kind == FAST_QUORUM_FEW)
        return fail_few(m, msg);
    if (kind == FAST_QUORUM_REFUSE || kind == FAST_QUORUM_WELCOME) {
        m->refused = true;
        return fast__fail(FAST_ENOTSUP, "it was taken for dead and missed updates of the others");
    }
    *taken_out = false;
    return FAST_OK;
}

/* The next message of a server. That takes as long as the slowest of the quorum does: the server,
 * which knows whom it waits for, gives up in time. */
static fast_err hear(member *m, int64_t server, bool wait, fast_msg **out)
{
    fast_trainer *t = m->t;
    fast_msg *msg = NULL;
    bool taken = true;
    fast_err err = FAST_OK;

    while (taken && !err) {
        do
            err = fast_receive(t->actor, t->server_ids[server], FAST_QUORUM_DOWN,
                               wait ? FAST_SOON : FAST_AT_ONCE, &msg);
        while (wait && err == FAST_ETIMEDOUT);
        if (err)
            break;
        err = take_aside(m, msg, &taken);
        if (taken)
            fast_msg_free(msg);
    }
    if (!err)
        *out = msg;
    return err;
}

/* The gradient of a round, whole: the mean of its micro-batches. */
static fast_err compute_whole(member *m, int64_t *weight_out)
{
    FAST_TRY(fast_trainer_gradient(m->t, NULL, NULL));
    *weight_out = m->t->micro_batches;
    return FAST_OK;
}

static void run_copy(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    memcpy(x[0], x[1], (size_t)n * sizeof **x);
}
static const fast_kernel fold = { "fold", 1, 8, 2, 1, false, run_copy };

/* The gradient of a round in parts, until all are done or the others are. */
static fast_err compute_parts(member *m, int64_t *weight_out)
{
    fast_trainer *t = m->t;
    int64_t done = 0;
    bool flush = false;

    fast__fold_clear(&m->fold);
    while (done < t->micro_batches && !flush) {
        fast_msg *msg = NULL;
        fast_err err;

        if (done > 0)
            fast__fold_put(&m->fold);
        FAST_TRY(fast_trainer_micro_gradient(t, m->next++));
        FAST_TRY(fast_trainer_apply(
            t, &fold, NULL,
            (fast_vector[]){ { fast__fold_next(&m->fold), NULL, -1 }, { t->g, NULL, -1 } }));
        if (++done == t->micro_batches)
            break;
        err = hear(m, 0, false, &msg);
        if (err && err != FAST_ETIMEDOUT)
            return err;
        flush = !err && msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_FLUSH;
        fast_msg_free(msg);
    }
    fast__fold_finish(&m->fold, 0, t->count);
    memcpy(t->g, m->folded, (size_t)t->count * sizeof *t->g);
    fast__vector_scale(t->count, 1.0f / (float)t->micro_batches, t->g);
    fast_trainer_count_step(t);
    *weight_out = done;
    return FAST_OK;
}

/* A server's stretch, which begins at `first`, encoded; the gradient is so once. */
static fast_err send_coded(member *m, int64_t server, const float *data, fast_msg **move)
{
    fast_trainer *t = m->t;
    fast_quorum_code *code = &m->codes[server];
    fast_buffer *part = NULL;
    size_t size;
    int64_t first, count;

    fast__quorum_range(t, server, &first, &count);
    if (!m->encoded)
        FAST_TRY(fast__quorum_encode(t, code, data + first));
    FAST_TRY(fast__quorum_pack(t, code, data + first + code->coded, &part, &size));
    fast_msg_add_view(*move, part, 0, size);
    fast_buffer_free(part);
    return fast_send(t->actor, t->server_ids[server], move);
}

/* Send the gradient of a round, each server its stretch. */
static fast_err contribute(member *m, int64_t round, int64_t weight)
{
    fast_trainer *t = m->t;
    const size_t size = (size_t)(t->count + t->state_count) * sizeof *t->g;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;
    float *data;

    FAST_TRY(fast_buffer_new(t->actor, size, &buffer));
    data = fast_buffer_data(buffer);
    memcpy(data, t->g, (size_t)t->count * sizeof *data);
    memcpy(data + t->count, t->s, (size_t)t->state_count * sizeof *data);
    if (weight != t->micro_batches)
        fast__vector_scale(t->state_count, (float)weight / (float)t->micro_batches,
                           data + t->count);
    fast_buffer_freeze(buffer);
    for (int64_t i = 0; i < t->servers && !err; i++) {
        fast_msg *msg = NULL;
        int64_t first, count;

        fast__quorum_range(t, i, &first, &count);
        err = fast__quorum_msg(t, FAST_QUORUM_UP, FAST_QUORUM_GRADIENT, round, weight, NULL, &msg);
        if (err)
            break;
        if (m->codes) {
            err = send_coded(m, i, data, &msg);
            fast_msg_free(msg);
            continue;
        }
        fast_msg_add_view(msg, buffer, (size_t)first * sizeof *data, (size_t)count * sizeof *data);
        err = fast_send(t->actor, t->server_ids[i], &msg);
    }
    fast_buffer_free(buffer);
    m->encoded = true;
    return err;
}

/* Take in a server's stretch of a sum. */
static fast_err take(member *m, int64_t server, int64_t round, const fast_msg *msg)
{
    const fast_trainer *t = m->t;
    int64_t first, count;

    fast__quorum_range(t, server, &first, &count);
    if (msg->words[FAST_QUORUM_ROUND] != round || msg->part_count != 2 ||
        (!m->codes && msg->parts[0].size != (size_t)count * sizeof *m->sum) ||
        msg->parts[1].size != (size_t)t->workers * sizeof *m->weights)
        return fast__fail(FAST_EFORMAT, "server %lld sent no sum of step %lld", (long long)server,
                          (long long)round);
    memcpy(m->weights, fast_msg_data(msg, 1), msg->parts[1].size);
    FAST_TRY(fast__quorum_check(m->weights, t->workers));
    if (m->codes)
        return fast__quorum_unpack(m->t, &m->codes[t->servers + server], msg, m->sum + first);
    memcpy(m->sum + first, fast_msg_data(msg, 0), msg->parts[0].size);
    return FAST_OK;
}

/* Wait for the sum of a round. `first` is the leader's stretch, if it has come. */
static fast_err gather(member *m, int64_t round, fast_msg *first)
{
    fast_actor_at(m->t->actor, round, "the quorum's gradient");
    for (int64_t i = 0; i < m->t->servers; i++) {
        fast_msg *msg = i == 0 ? first : NULL;
        fast_err err = FAST_OK;

        /* What the leader said in the meantime is of no interest, nor sums from before one was
         * away. */
        while (!err && (!msg || msg->words[FAST_QUORUM_KIND] != FAST_QUORUM_SUM ||
                        msg->words[FAST_QUORUM_ROUND] < round)) {
            fast_msg_free(msg);
            msg = NULL;
            err = hear(m, i, true, &msg);
        }
        if (!err)
            err = take(m, i, round, msg);
        fast_msg_free(msg);
        FAST_TRY(err);
    }
    return FAST_OK;
}

/* The update of the round before t->step: all workers make the same. */
static fast_err update(member *m)
{
    fast_trainer *t = m->t;
    int64_t all = 0;
    float share;

    for (int64_t i = 0; i < t->workers; i++)
        all += m->weights[i];
    FAST_ASSERT(all > 0);
    share = (float)all / (float)t->micro_batches;
    for (int64_t i = 0; i < t->workers; i++)
        m->shares[i] = (double)share * (double)m->weights[i] / (double)t->micro_batches;
    FAST_TRY(fast_trainer_update_by(t,
                                    &(fast_vector){ .x = m->sum, .shares = m->shares, .age = -1 },
                                    (float)t->micro_batches / (float)all));
    for (int64_t i = 0; i < t->state_count; i++)
        t->s[i] = m->sum[t->count + i] / share;
    t->centre_version = t->step;
    return FAST_OK;
}

/* Take in rounds that this worker has no part in, as long as there are any; with `wait` until the
 * leader says that there are no more. */
static fast_err catch_up(member *m, bool wait)
{
    fast_trainer *t = m->t;

    while (!m->over) {
        fast_msg *msg = NULL;
        fast_err err = hear(m, 0, wait, &msg);

        if (err == FAST_ETIMEDOUT)
            return FAST_OK;
        FAST_TRY(err);
        if (msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_SUM) {
            FAST_TRY(gather(m, t->step, msg));
            fast_trainer_count_step(t);
            FAST_TRY(update(m));
        } else {
            m->over = msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_END;
            fast_msg_free(msg);
        }
    }
    return FAST_OK;
}

/* Contribute to a round, and take in its update. Who comes too late takes in all that it missed;
 * its gradient is dropped, or goes to the round that is open now. */
static fast_err take_round(member *m, int64_t made, int64_t weight)
{
    fast_trainer *t = m->t;
    fast_msg *msg = NULL;
    fast_err err = hear(m, 0, false, &msg); /* a round may be over before this worker is */

    if (err && err != FAST_ETIMEDOUT)
        return err;
    if (msg && msg->words[FAST_QUORUM_KIND] != FAST_QUORUM_SUM) {
        fast_msg_free(msg);
        msg = NULL;
    }
    if (!msg)
        FAST_TRY(contribute(m, made, weight));
    for (;;) {
        const int64_t round = t->step - 1;

        FAST_TRY(gather(m, round, msg));
        if (m->weights[t->rank] > 0)
            t->staleness = round - made;
        FAST_TRY(update(m));
        msg = NULL;
        if (m->weights[t->rank] > 0)
            return FAST_OK;
        FAST_TRY(catch_up(m, false));
        if (m->config->late == LATE_DROP || t->step >= t->step_count)
            return tell(m, 0, FAST_QUORUM_AT);
        FAST_TRY(contribute(m, t->step, weight));
        fast_trainer_count_step(t);
    }
}

/* Steps to the end, and the farewell. */
static fast_err take_steps(member *m)
{
    fast_trainer *t = m->t;

    while (fast_trainer_next(t)) {
        const int64_t round = t->step;
        int64_t weight = 0;

        FAST_TRY(m->config->partial ? compute_parts(m, &weight) : compute_whole(m, &weight));
        m->encoded = false;
        FAST_TRY(take_round(m, round, weight));
    }
    FAST_TRY(fast_trainer_end(t));
    if (t->step < t->step_count) {
        FAST_TRY(tell(m, 0, FAST_QUORUM_STOP));
        fast_actor_at(t->actor, t->step, "the end");
        FAST_TRY(catch_up(m, true));
    }
    for (int64_t i = 0; i < t->servers; i++)
        FAST_TRY(tell(m, i, FAST_QUORUM_LEAVE));
    return FAST_OK;
}

/* The leader's answer to one who asks to join, which is asked for again while it does not come:
 * the leader may still take this worker for dead. */
static fast_err ask_to_join(member *m, int64_t *round_out, int64_t *donor_out)
{
    fast_trainer *t = m->t;
    const int64_t last = fast__deadline(t->actor, FAST_SOON);
    int64_t kind = FAST_QUORUM_JOIN;

    m->joins++;
    while (kind != FAST_QUORUM_WELCOME) {
        const int64_t now = fast_now(t->actor);
        fast_msg *msg = NULL;
        fast_err err;

        if (kind == FAST_QUORUM_JOIN) {
            FAST_TRY(fast__quorum_msg(t, FAST_QUORUM_UP, FAST_QUORUM_JOIN, t->step,
                                      (fast_actor_life(t->actor) + 1) << 32 | m->joins, NULL,
                                      &msg));
            FAST_TRY(fast_send(t->actor, t->server_ids[0], &msg));
        }
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
            err = fail_few(m, msg);
        fast_msg_free(msg);
        FAST_TRY(err);
        if (kind == FAST_QUORUM_END || (kind == FAST_QUORUM_REFUSE && *donor_out == 1))
            return fast__fail(FAST_ENOTSUP, "it was away, and is back too late to go on");
        if (kind != FAST_QUORUM_WELCOME)
            kind = FAST_QUORUM_HELLO; /* of before: read on */
    }
    return FAST_OK;
}

/* Take the newest model from another worker, and begin with its round. */
static fast_err rejoin(member *m)
{
    fast_trainer *t = m->t;
    int64_t round = 0, donor = -1, got = -1;

    fast_actor_at(t->actor, t->step, "a model to go on with");
    FAST_TRY(ask_to_join(m, &round, &donor));
    if (round < 0 || round > t->step_count)
        return fast__fail(FAST_EFORMAT, "the first server lets it begin at step %lld of %lld",
                          (long long)round, (long long)t->step_count);
    m->refused = m->over = false;
    if (donor < 0)
        return FAST_OK;
    while (got != round) {
        fast_msg *msg = NULL;

        FAST_TRY(fast_receive(t->actor, t->worker_ids[donor % t->workers], FAST_QUORUM_MODEL,
                              FAST_SOON, &msg));
        got = msg->words[FAST_QUORUM_ROUND];
        if (msg->part_count != 1 || msg->parts[0].size != model_size(t)) {
            fast_msg_free(msg);
            return fast__fail(FAST_EFORMAT, "worker %lld sent no model", (long long)donor);
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
    while (t->step < round && t->step < t->step_count)
        fast_trainer_count_step(t);
    t->step = round;
    t->centre_version = round;
    return FAST_OK;
}

/* Was this worker cut off, and is it back? It was if it lost everyone else with the server; then it
 * waits as long as any wait may last. */
static fast_err wait_for_return(const member *m, bool *out)
{
    fast_trainer *t = m->t;
    const int64_t last = fast__deadline(t->actor, FAST_SOON);

    *out = false;
    FAST_TRY(fast_sleep_until(t->actor, fast_now(t->actor) + BACK_NS)); /* for the same news */
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

static fast_err train(member *m)
{
    fast_trainer *t = m->t;
    bool back = fast_actor_life(t->actor) > 0;
    fast_err err;

    do {
        char why[FAST_DETAIL_MAX];

        FAST_TRY(back ? rejoin(m) : tell(m, 0, FAST_QUORUM_HELLO));
        err = take_steps(m);
        back = m->refused;
        if (err != FAST_EPEER || !fast_member_is_down(t->actor, t->server_ids[0]))
            continue;
        snprintf(why, sizeof why, "%s", fast_error_detail());
        FAST_TRY(wait_for_return(m, &back));
        if (!back)
            return fast__fail(err, "%s", why);
    } while (err && back);
    return err;
}

/* Codecs of what goes up and comes down, of each server. */
static fast_err open_codes(member *m)
{
    fast_trainer *t = m->t;

    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    FAST_TRY(fast__alloc("codecs of servers", 2 * t->servers, sizeof *m->codes, &m->codes));
    for (int64_t i = 0; i < 2 * t->servers; i++) {
        const bool down = i >= t->servers;
        const fast_flow_options how = { .number = i, .down = down, .decodes = down };

        FAST_TRY(fast__quorum_code_open(t, i % t->servers, &how, &m->codes[i]));
    }
    return FAST_OK;
}

static void member_fini(member *m)
{
    for (int64_t i = 0; m->codes && i < 2 * m->t->servers; i++)
        fast__quorum_code_close(&m->codes[i]);
    fast__free(m->codes);
    if (m->folded)
        fast__fold_fini(&m->fold);
    fast__free(m->folded);
    fast__free(m->sum);
    fast__free(m->weights);
    fast__free(m->shares);
}

static fast_err member_init(fast_trainer *t, const quorum_config *c, member *m)
{
    fast_err err;

    *m = (member){ .t = t, .config = c, .next = t->step * t->micro_batches };
    err = fast__alloc("the quorum's gradient", t->count + t->state_count, sizeof *m->sum, &m->sum);
    if (!err)
        err = fast__alloc("the quorum", t->workers, sizeof *m->weights, &m->weights);
    if (!err)
        err = fast__alloc("contributions", t->workers, sizeof *m->shares, &m->shares);
    if (!err)
        err = open_codes(m);
    if (!err && c->partial) {
        err = fast__alloc("partial gradients", t->count, sizeof *m->folded, &m->folded);
        if (!err)
            err = fast__fold_init(&m->fold, t->count, t->micro_batches, m->folded);
    }
    if (err)
        member_fini(m);
    return err;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    fast_err err;
    member m;

    FAST_TRY(member_init(t, config, &m));
    /* All replicas are one model; the newest stands for the run. */
    t->centre = t->w;
    t->centre_version = t->step;
    err = train(&m);
    member_fini(&m);
    return err;
}

/* As if all workers were waited for: the time that a quorum saves is not forecast. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    (void)config;
    (void)t;
    out->round_trips = out->waits = 2;
    out->served = out->barrier = 1;
}

const fast_strategy fast__strategy_quorum = {
    .name = "quorum",
    .summary = "synchronous steps that wait for the first gradients only, or for parts of them",
    .options = options,
    .config_size = sizeof(quorum_config),
    .uses_codec = true,
    .sends = "gradients",
    .answers = "sums",
    .servers = servers,
    .check = check,
    .cost = cost,
    .worker = worker,
    .server = fast__quorum_server,
};
