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
 * who is missing. A worker that restarts, or that was taken for dead, has missed updates that
 * nobody keeps: it ends. The servers must stay.
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

#include <stdio.h>
#include <string.h>

enum { LATE_DROP, LATE_ADD };

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

/* A worker's memory besides its replica. */
typedef struct member {
    fast_trainer *t;
    const quorum_config *config;
    float *sum;              /* [count + state_count]: of the round that came */
    fast_fold fold;          /* of a round's micro-batches, where they are exchanged in parts */
    float *folded;           /* [count]: their sum */
    int64_t next;            /* micro-batch that comes next */
    int64_t *weights;        /* [workers]: micro-batches in the last sum */
    bool over;               /* the leader said END */
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

/* The next message of a server. That takes as long as the slowest of the quorum does: the server,
 * which knows whom it waits for, gives up in time. */
static fast_err hear(member *m, int64_t server, bool wait, fast_msg **out)
{
    fast_trainer *t = m->t;
    fast_err err;

    do
        err = fast_receive(t->actor, t->server_ids[server], FAST_QUORUM_DOWN,
                           wait ? FAST_SOON : FAST_AT_ONCE, out);
    while (wait && err == FAST_ETIMEDOUT);
    if (err)
        return err;
    if ((*out)->words[FAST_QUORUM_KIND] == FAST_QUORUM_FEW) {
        char why[FAST_DETAIL_MAX];

        snprintf(why, sizeof why, "%.*s", (int)(*out)->parts[0].size,
                 (const char *)fast_msg_data(*out, 0));
        t->actor->culprit = (*out)->words[FAST_QUORUM_NUMBER];
        fast_msg_free(*out);
        *out = NULL;
        return fast__fail(FAST_EPEER, "%s", why);
    }
    if ((*out)->words[FAST_QUORUM_KIND] == FAST_QUORUM_REFUSE) {
        fast_msg_free(*out);
        *out = NULL;
        return fast__fail(FAST_ENOTSUP, "it was taken for dead and missed updates of the others: "
                                        "it cannot go on");
    }
    return FAST_OK;
}

/* The gradient of a round, whole: the mean of its micro-batches. */
static fast_err compute_whole(member *m, int64_t *weight_out)
{
    FAST_TRY(fast_trainer_gradient(m->t, NULL, NULL));
    *weight_out = m->t->parts;
    return FAST_OK;
}

/* The gradient of a round in parts, until all are done or the others are. */
static fast_err compute_parts(member *m, int64_t *weight_out)
{
    fast_trainer *t = m->t;
    int64_t done = 0;
    bool flush = false;

    fast__fold_clear(&m->fold);
    while (done < t->parts && !flush) {
        fast_msg *msg = NULL;
        fast_err err;

        if (done > 0)
            fast__fold_put(&m->fold);
        FAST_TRY(fast_trainer_part(t, m->next++));
        memcpy(fast__fold_next(&m->fold), t->g, (size_t)t->count * sizeof *t->g);
        FAST_TRY(fast_charge(t->actor, (double)t->count, 8 * (double)t->count));
        if (++done == t->parts)
            break;
        err = hear(m, 0, false, &msg);
        if (err && err != FAST_ETIMEDOUT)
            return err;
        flush = !err && msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_FLUSH;
        fast_msg_free(msg);
    }
    fast__fold_finish(&m->fold, 0, t->count);
    memcpy(t->g, m->folded, (size_t)t->count * sizeof *t->g);
    fast__vector_scale(t->count, 1.0f / (float)t->parts, t->g);
    fast_trainer_count(t);
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
    if (weight != t->parts)
        fast__vector_scale(t->state_count, (float)weight / (float)t->parts, data + t->count);
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

        /* What the leader said to others in the meantime is of no interest. */
        while (!err && (!msg || msg->words[FAST_QUORUM_KIND] != FAST_QUORUM_SUM)) {
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

    for (int64_t i = 0; i < t->workers; i++) {
        all += m->weights[i];
        if (m->weights[i] > 0)
            fast_trainer_carry(t, i, (double)m->weights[i] / (double)t->parts);
    }
    FAST_ASSERT(all > 0);
    share = (float)all / (float)t->parts;
    FAST_TRY(fast_trainer_update(t, m->sum, (float)t->parts / (float)all));
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
            fast_trainer_count(t);
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
        FAST_TRY(update(m));
        msg = NULL;
        if (m->weights[t->rank] > 0) {
            fast_trainer_staleness(t, round - made);
            return FAST_OK;
        }
        FAST_TRY(catch_up(m, false));
        if (m->config->late == LATE_DROP || t->step >= t->step_count)
            return tell(m, 0, FAST_QUORUM_AT);
        FAST_TRY(contribute(m, t->step, weight));
        fast_trainer_count(t);
    }
}

static fast_err train(member *m)
{
    fast_trainer *t = m->t;

    /* As if all were waited for: what a quorum saves is not foretold. */
    fast_trainer_cost(t, &(fast_cost){ .trips = 2, .waits = 2, .served = 1, .meets = 1 });
    FAST_TRY(tell(m, 0, FAST_QUORUM_HELLO));
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

/* Codecs of what goes up and comes down, of each server. */
static fast_err open_codes(member *m)
{
    fast_trainer *t = m->t;

    if (fast_trainer_codes(t) == FAST_CODES_NONE)
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
}

static fast_err member_init(fast_trainer *t, const quorum_config *c, member *m)
{
    fast_err err;

    *m = (member){ .t = t, .config = c, .next = t->step * t->parts };
    err = fast__alloc("the quorum's gradient", t->count + t->state_count, sizeof *m->sum, &m->sum);
    if (!err)
        err = fast__alloc("the quorum", t->workers, sizeof *m->weights, &m->weights);
    if (!err)
        err = open_codes(m);
    if (!err && c->partial) {
        err = fast__alloc("partial gradients", t->count, sizeof *m->folded, &m->folded);
        if (!err)
            err = fast__fold_init(&m->fold, t->count, t->parts, m->folded);
    }
    if (err)
        member_fini(m);
    return err;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    fast_err err;
    member m;

    if (fast_actor_life(t->actor) > 0)
        return fast__fail(FAST_ENOTSUP, "a worker that restarts has missed updates of the others: "
                                        "it cannot go on");
    FAST_TRY(member_init(t, config, &m));
    /* All replicas are one model; the newest stands for the run. */
    t->centre = t->w;
    t->centre_version = t->step;
    err = train(&m);
    member_fini(&m);
    return err;
}

const fast_strategy fast__strategy_quorum = {
    .name = "quorum",
    .summary = "synchronous steps that wait for the first gradients only, or for parts of them",
    .options = options,
    .config_size = sizeof(quorum_config),
    .codes = true,
    .sends = "gradients",
    .answers = "sums",
    .servers = servers,
    .check = check,
    .worker = worker,
    .server = fast__quorum_server,
};
