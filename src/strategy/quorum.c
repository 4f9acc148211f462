/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quorum: synchronous steps that wait for the first Q gradients only.
 *
 *     round r, worker i:  g_i <- gradient at w;  send g_i
 *     the leader:         S <- the workers whose gradients have arrived, as soon as |S| >= Q
 *     all workers:        w <- rule(w, sum_{i in S} g_i / |S|)
 *
 *   backup B     Q = P - B: backup workers (Chen et al. 2016, "Revisiting distributed synchronous
 *                SGD"); a gradient that arrives later is dropped
 *   quorum Q     sets Q itself
 *   late=add     a late gradient is added to the round that is open when it arrives, before its
 *                worker computes another one: stale, but not lost (eager-SGD, Li et al. 2020, which
 *                also divides by P, where this is the mean of the gradients of the round)
 *   partial      A-BSP (Wang et al. 2018): when Q workers are done, all other workers are told to
 *                send the sum of their micro-batches (`accumulate`) so far; the mean is over
 *                micro-batches, and each worker continues after its last one, so that no data is
 *                skipped. No gradient is late: a round waits for one micro-batch at most
 *
 * All updates reach every worker in order, and a worker that missed rounds applies them before its
 * next gradient: replicas are equal to the bit whenever they have taken the same number of steps.
 * The sum is in the canonical order, over the ranks in S: with Q = P it is `allreduce` to the bit.
 * A worker that is always slow never contributes where late gradients are dropped; with `add` or
 * `partial` it does.
 *
 * A crashed worker is not waited for; the run continues while Q workers are left, and otherwise
 * stops and names the missing workers. A worker that restarts, or was considered dead because it
 * stopped or could not be reached, has missed updates that no actor stores: it asks to join again,
 * receives the model of another worker between two rounds, and continues from there. A crash of a
 * server ends the run.
 *
 * Snapshots. Before a step every worker has applied all rounds that were decided. So workers join
 * at the same round; a worker that is late has no more to save than its gradient that waits for a
 * later round, and servers have no gradient of an open round.
 *
 * Stopping. A worker that is asked to stop tells the leader and applies the rounds that are still
 * decided; the last round holds the gradients that were computed, and all end at the same step.
 *
 * Cost per worker and step: the gradient up and the sum down, cut over the servers; a server with a
 * k-th of the vector moves P/k of it in and out. Memory: one more vector, about log2 K for partial
 * work, and the sums that a late worker missed, at most `lag`.
 */
#include "strategy/quorum.h"

#include "base/err.h"
#include "base/memory.h"
#include "tensor/tree_sum.h"
#include "tensor/vector.h"
#include "trainer/remember.h"
#include "transport/transport.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LATE_DROP, LATE_ADD }; /* option late */

static const fast_option options[] = {
    FAST_OPT_INT(quorum_config, quorum, "0", 0, 65536,
                 "gradients that a step waits for; 0: those of all but the backup workers"),
    FAST_OPT_INT(quorum_config, backup, "0", 0, 65536,
                 "workers whose gradients a step does not wait for"),
    FAST_OPT_CHOICE(quorum_config, late, "drop", "drop|add",
                    "a gradient that arrives too late is dropped, or added to a later step"),
    FAST_OPT_BOOL(
        quorum_config, partial, "no",
        "when the quorum is done, the other workers send their micro-batches (accumulate) "
        "so far (A-BSP)"),
    FAST_OPT_INT(quorum_config, lag, "16", 1, 1e6,
                 "steps that a worker may miss before the others wait for it"),
    FAST_OPT_INT(quorum_config, servers, "1", 0, 65536,
                 "servers that share the sum; 0: one for each worker"),
    FAST_OPT_END,
};

/* Options that do not go together. */
static const fast_exclusion exclusions[] = {
    { "quorum", "backup", NULL, "both set the number of gradients that a step waits for" },
    { "partial", "late", NULL, "no gradient is late where workers send their micro-batches" },
    { NULL, NULL, NULL, NULL },
};

/* The number of servers. */
static int64_t servers(const void *config, int64_t workers)
{
    const quorum_config *c = config;

    FAST_ASSERT(workers > 0);
    return c->servers ? c->servers : workers;
}

/* Refuse options that contradict the number of workers. */
static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const quorum_config *c = config;

    (void)optimizer;
    FAST_ASSERT(workers > 0);
    if (c->quorum > workers || c->backup >= workers)
        return fast__fail(FAST_EINVAL, "quorum: there are only %lld workers for %s=%lld",
                          (long long)workers, c->quorum ? "quorum" : "backup",
                          (long long)(c->quorum ? c->quorum : c->backup));
    return FAST_OK;
}

int64_t fast__quorum_of(const quorum_config *c, int64_t workers)
{
    FAST_ASSERT(c->quorum <= workers && c->backup < workers);
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
    FAST_ASSERT(*count_out >= 0);
}

fast_err fast__quorum_msg(fast_trainer *t, uint64_t tag, fast_quorum_kind kind, int64_t round,
                          int64_t number, fast_buffer **move, fast_msg **out)
{
    const fast_err err = fast_msg_new(t->actor, tag, out);

    FAST_ASSERT(kind >= FAST_QUORUM_HELLO && kind <= FAST_QUORUM_GIVE);
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

    FAST_ASSERT(workers > 0);
    for (int64_t i = 0; i < workers; i++) {
        if (weights[i] < 0 || weights[i] > INT32_MAX)
            return fast__fail(FAST_EFORMAT, "a round with %lld micro-batches of worker %lld",
                              (long long)weights[i], (long long)i);
        all += weights[i];
    }
    return all > 0 ? FAST_OK : fast__fail(FAST_EFORMAT, "a round without any micro-batch");
}

/* Send a message without a part to a server. */
static fast_err tell(quorum_worker *m, int64_t server, fast_quorum_kind kind)
{
    fast_trainer *t = m->t;
    fast_msg *msg = NULL;

    FAST_ASSERT(server >= 0 && server < t->servers);
    FAST_TRY(fast__quorum_msg(t, FAST_QUORUM_UP, kind, t->step, 0, NULL, &msg));
    return fast_send(t->actor, t->server_ids[server], &msg);
}

/* Handle a message of a server that belongs to no round; *taken_out: it was one. */
static fast_err take_exception(quorum_worker *m, const fast_msg *msg, bool *taken_out)
{
    const int64_t kind = msg->words[FAST_QUORUM_KIND];

    FAST_ASSERT(msg->tag == FAST_QUORUM_DOWN);
    *taken_out = true;
    if (kind == FAST_QUORUM_GIVE)
        return fast__quorum_send_model(m, msg);
    if (kind == FAST_QUORUM_FEW)
        return fast__quorum_fail_few(m, msg);
    if (kind == FAST_QUORUM_REFUSE || kind == FAST_QUORUM_WELCOME) {
        m->refused = true;
        return fast__fail(FAST_ENOTSUP,
                          "it was considered dead and missed updates of the other workers");
    }
    *taken_out = false;
    return FAST_OK;
}

/* Receive the next message of a server that belongs to a round; with `wait` until one arrives,
 * which takes as long as the slowest worker of the quorum. The server, which knows the workers that
 * it waits for, gives up in time. */
static fast_err receive(quorum_worker *m, int64_t server, bool wait, fast_msg **out)
{
    fast_trainer *t = m->t;
    fast_msg *msg = NULL;
    bool taken = true;
    fast_err err = FAST_OK;

    FAST_ASSERT(server >= 0 && server < t->servers);
    while (taken && !err) {
        do
            err = fast_receive(t->actor, t->server_ids[server], FAST_QUORUM_DOWN,
                               wait ? FAST_SOON : FAST_AT_ONCE, &msg);
        while (wait && err == FAST_ETIMEDOUT);
        if (err)
            break;
        err = take_exception(m, msg, &taken);
        if (taken)
            fast_msg_free(msg);
    }
    if (!err)
        *out = msg;
    return err;
}

/* Compute the gradient of a round: the mean of all its micro-batches. */
static fast_err compute_whole(quorum_worker *m, int64_t *weight_out)
{
    FAST_TRY(fast_trainer_gradient(m->t, NULL, NULL));
    *weight_out = m->t->micro_batches;
    FAST_ASSERT(*weight_out > 0);
    return FAST_OK;
}

/* y <- x */
static void run_copy(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    FAST_ASSERT(x[0] != x[1]);
    memcpy(x[0], x[1], (size_t)n * sizeof **x);
}
static const fast_kernel fold = { "fold", 1, 8, 2, 1, false, run_copy };

/* Partial: compute micro-batches of a round until all are done, or the leader says FLUSH. */
static fast_err compute_parts(quorum_worker *m, int64_t *weight_out)
{
    fast_trainer *t = m->t;
    int64_t done = 0;
    bool flush = false;

    fast__tree_sum_clear(&m->fold);
    while (done < t->micro_batches && !flush) {
        fast_msg *msg = NULL;
        fast_err err;

        /* The fold adds micro-batches in the canonical order, whatever their number. */
        if (done > 0)
            fast__tree_sum_put(&m->fold);
        FAST_TRY(fast_trainer_micro_gradient(t, m->next++));
        FAST_TRY(fast_trainer_apply(
            t, &fold, NULL,
            (fast_vector[]){ { fast__tree_sum_next(&m->fold), NULL, -1 }, { t->g, NULL, -1 } }));
        if (++done == t->micro_batches)
            break;
        err = receive(m, 0, false, &msg);
        if (err && err != FAST_ETIMEDOUT)
            return err;
        flush = !err && msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_FLUSH;
        fast_msg_free(msg);
    }
    FAST_ASSERT(done > 0 && done <= t->micro_batches);
    fast__tree_sum_finish(&m->fold, 0, t->count);
    fast__vector_copy(t->count, m->folded, t->g);
    fast__vector_scale(t->count, 1.0f / (float)t->micro_batches, t->g);
    fast_trainer_count_step(t);
    *weight_out = done;
    return FAST_OK;
}

/* Send a server its encoded range; the gradient is encoded once, however often it is sent. */
static fast_err send_coded(quorum_worker *m, int64_t server, const float *data, fast_msg **move)
{
    fast_trainer *t = m->t;
    fast_quorum_code *code = &m->codes[server];
    fast_buffer *part = NULL;
    size_t size;
    int64_t first, count;

    FAST_ASSERT(code->on);
    fast__quorum_range(t, server, &first, &count);
    if (!m->encoded)
        FAST_TRY(fast__quorum_encode(t, code, data + first));
    FAST_TRY(fast__quorum_pack(t, code, data + first + code->coded, &part, &size));
    fast_msg_add_view(*move, part, 0, size);
    fast_buffer_free(part);
    return fast_send(t->actor, t->server_ids[server], move);
}

/* Send the gradient of a round, each server its range. */
static fast_err contribute(quorum_worker *m, int64_t round, int64_t weight)
{
    fast_trainer *t = m->t;
    const size_t size = (size_t)(t->count + t->state_count) * sizeof *t->g;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;
    float *data;

    FAST_ASSERT(weight > 0);
    FAST_TRY(fast_buffer_new(t->actor, size, &buffer));
    data = fast_buffer_data(buffer);
    fast__vector_copy(t->count, t->g, data);
    fast__vector_copy(t->state_count, t->s, data + t->count);
    /* The state is averaged by the same weights as the gradient, which holds `weight` of `parts`
     * micro-batches. */
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

/* Copy or decode a server's range of a sum, and the weights of its workers. */
static fast_err take_sum(quorum_worker *m, int64_t server, int64_t round, const fast_msg *msg)
{
    const fast_trainer *t = m->t;
    int64_t first, count;

    fast__quorum_range(t, server, &first, &count);
    if (msg->words[FAST_QUORUM_ROUND] != round || msg->part_count != 2 ||
        (!m->codes && msg->parts[0].size != (size_t)count * sizeof *m->sum) ||
        msg->parts[1].size != (size_t)t->workers * sizeof *m->weights)
        return fast__fail(FAST_EFORMAT, "server %lld did not send the sum of step %lld",
                          (long long)server, (long long)round);
    memcpy(m->weights, fast_msg_data(msg, 1), msg->parts[1].size);
    FAST_TRY(fast__quorum_check(m->weights, t->workers));
    FAST_ASSERT(first + count <= t->count + t->state_count);
    if (m->codes)
        return fast__quorum_unpack(m->t, &m->codes[t->servers + server], msg, m->sum + first);
    fast__vector_copy(count, fast_msg_data(msg, 0), m->sum + first);
    return FAST_OK;
}

/* Wait for the sum of a round. `first` is the leader's message with its range, or NULL; it is
 * freed. */
static fast_err gather(quorum_worker *m, int64_t round, fast_msg *first)
{
    FAST_ASSERT(round >= 0);
    fast_actor_at(m->t->actor, round, "the quorum's gradient");
    for (int64_t i = 0; i < m->t->servers; i++) {
        fast_msg *msg = i == 0 ? first : NULL;
        fast_err err = FAST_OK;

        /* Skip the leader's other messages, and sums from before this worker joined again. */
        while (!err && (!msg || msg->words[FAST_QUORUM_KIND] != FAST_QUORUM_SUM ||
                        msg->words[FAST_QUORUM_ROUND] < round)) {
            fast_msg_free(msg);
            msg = NULL;
            err = receive(m, i, true, &msg);
        }
        if (!err)
            err = take_sum(m, i, round, msg);
        fast_msg_free(msg);
        FAST_TRY(err);
    }
    return FAST_OK;
}

/* Apply the sum of the round before t->step; all workers apply equal sums. */
static fast_err update(quorum_worker *m)
{
    fast_trainer *t = m->t;
    int64_t all = 0;
    float share;

    for (int64_t i = 0; i < t->workers; i++)
        all += m->weights[i];
    FAST_ASSERT(all > 0);
    share = (float)all / (float)t->micro_batches;
    for (int64_t i = 0; i < fast_trainer_share_count(t); i++)
        m->shares[i] = (double)share * (double)m->weights[fast_trainer_share_rank(t, i)] /
                       (double)t->micro_batches;
    FAST_TRY(fast_trainer_update_by(t,
                                    &(fast_vector){ .x = m->sum, .shares = m->shares, .age = -1 },
                                    (float)t->micro_batches / (float)all));
    fast__vector_copy(t->state_count, m->sum + t->count, t->s);
    fast__vector_divide(t->state_count, share, t->s);
    t->centre_version = t->step;
    return FAST_OK;
}

/* Apply rounds without a gradient of this worker, while there are any; with `wait` until the leader
 * says END. */
static fast_err catch_up(quorum_worker *m, bool wait)
{
    fast_trainer *t = m->t;

    FAST_ASSERT(t->step <= t->step_count);
    while (!m->over) {
        fast_msg *msg = NULL;
        fast_err err = receive(m, 0, wait, &msg);

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

/* Apply the round before t->step, to which this worker has sent its gradient. `first` as in
 * gather(). A worker that is too late applies all rounds that it missed; its gradient is dropped,
 * or the next step sends it to the round that is open then. Between the two it may join a snapshot:
 * the servers have no part of that gradient any more. */
static fast_err take_round(quorum_worker *m, fast_msg *first)
{
    fast_trainer *t = m->t;
    const int64_t round = t->step - 1;

    FAST_ASSERT(m->weight > 0);
    FAST_TRY(gather(m, round, first));
    const bool used = m->weights[t->rank] > 0;
    if (used)
        t->staleness = round - m->made;
    FAST_TRY(update(m));
    if (!used)
        FAST_TRY(catch_up(m, false));
    if (!used && m->config->late == LATE_ADD && t->step < t->step_count)
        return FAST_OK;
    m->weight = 0;
    return used ? FAST_OK : tell(m, 0, FAST_QUORUM_AT);
}

/* Compute a gradient, and take part in its round. */
static fast_err take_step(quorum_worker *m)
{
    fast_msg *msg = NULL;
    fast_err err;

    FAST_ASSERT(m->weight == 0);
    m->made = m->t->step;
    FAST_TRY(m->config->partial ? compute_parts(m, &m->weight) : compute_whole(m, &m->weight));
    m->encoded = false;
    err = receive(m, 0, false, &msg); /* the round may be over before this worker is */
    if (err && err != FAST_ETIMEDOUT)
        return err;
    if (msg && msg->words[FAST_QUORUM_KIND] != FAST_QUORUM_SUM) {
        fast_msg_free(msg);
        msg = NULL;
    }
    /* A sum that has arrived already ends this round: the gradient is too late. */
    if (!msg)
        FAST_TRY(contribute(m, m->made, m->weight));
    return take_round(m, msg);
}

/* Send a late gradient to the round that is open now. */
static fast_err send_late(quorum_worker *m)
{
    FAST_ASSERT(m->weight > 0 && m->config->late == LATE_ADD);
    FAST_TRY(contribute(m, m->t->step, m->weight));
    fast_trainer_count_step(m->t);
    return take_round(m, NULL);
}

/* Take all steps, and leave. */
static fast_err take_steps(quorum_worker *m)
{
    fast_trainer *t = m->t;

    FAST_ASSERT(!m->refused);
    while (fast_trainer_next(t))
        FAST_TRY(m->weight > 0 ? send_late(m) : take_step(m));
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

/* Take steps; join again after being cut off. */
static fast_err train(quorum_worker *m)
{
    fast_trainer *t = m->t;
    bool back = fast_actor_life(t->actor) > 0;
    fast_err err;

    FAST_ASSERT(t->centre == t->w);
    do {
        char why[FAST_DETAIL_MAX];

        if (back) {
            m->weight = 0;
            FAST_TRY(fast__quorum_rejoin(m));
        } else if (!fast_trainer_resumed(t)) { /* the leader of a snapshot knows this worker */
            FAST_TRY(tell(m, 0, FAST_QUORUM_HELLO));
        }
        err = take_steps(m);
        /* Refused, or cut off from the server and all other workers: join again. */
        back = m->refused;
        if (err != FAST_EPEER || !fast_member_is_down(t->actor, t->server_ids[0]))
            continue;
        snprintf(why, sizeof why, "%s", fast_error_detail());
        FAST_TRY(fast__quorum_wait_for_return(m, &back));
        if (!back)
            return fast__fail(err, "%s", why);
    } while (err && back);
    return err;
}

/* Open the codecs of gradients and of sums, for each server. */
static fast_err open_codes(quorum_worker *m)
{
    fast_trainer *t = m->t;

    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    FAST_ASSERT(!m->codes);
    FAST_TRY(fast__alloc("codecs of servers", 2 * t->servers, sizeof *m->codes, &m->codes));
    for (int64_t i = 0; i < 2 * t->servers; i++) {
        const bool down = i >= t->servers;
        const fast_flow_options how = { .number = i, .down = down, .decodes = down };

        FAST_TRY(fast__quorum_code_open(t, i % t->servers, &how, &m->codes[i]));
    }
    return FAST_OK;
}

/* Free a worker's memory. */
static void worker_fini(quorum_worker *m)
{
    FAST_ASSERT(m->t != NULL);
    for (int64_t i = 0; m->codes && i < 2 * m->t->servers; i++)
        fast__quorum_code_close(&m->codes[i]);
    fast__free(m->codes);
    if (m->folded)
        fast__tree_sum_fini(&m->fold);
    fast__vector_free(m->folded);
    fast__vector_free(m->sum);
    fast__free(m->weights);
    fast__free(m->shares);
}

/* Allocate a worker's memory. */
static fast_err worker_init(fast_trainer *t, const quorum_config *c, quorum_worker *m)
{
    fast_err err;

    FAST_ASSERT(t->micro_batches > 0);
    *m = (quorum_worker){ .t = t, .config = c, .next = t->step * t->micro_batches };
    err = fast__vector_new(fast__device_of(t->w), "the quorum's gradient",
                           t->count + t->state_count, &m->sum);
    if (!err)
        err = fast__alloc("the quorum", t->workers, sizeof *m->weights, &m->weights);
    if (!err)
        err = fast__alloc("contributions", fast_trainer_share_count(t), sizeof *m->shares,
                          &m->shares);
    if (!err)
        err = open_codes(m);
    if (!err && c->partial) {
        err = fast__vector_new(fast__device_of(t->w), "partial gradients", t->count, &m->folded);
        if (!err)
            err = fast__tree_sum_init(&m->fold, t->count, t->micro_batches, m->folded);
    }
    if (err)
        worker_fini(m);
    return err;
}

/* Have snapshots include a worker's memory: a gradient that waits for a later round, and its
 * encodings, since it is encoded once. Sums and weights are those of the last round, which has been
 * applied. */
static fast_err remember(quorum_worker *m)
{
    enum { FIRST_CODE = 8 };
    fast_trainer *t = m->t;
    const bool waits = m->config->late == LATE_ADD;

    FAST_ASSERT(m->weight == 0);
    FAST_TRY(fast__trainer_remember(t, 0, &m->next, sizeof m->next));
    FAST_TRY(fast__trainer_remember(t, 1, &m->made, sizeof m->made));
    FAST_TRY(fast__trainer_remember(t, 2, &m->weight, sizeof m->weight));
    FAST_TRY(fast__trainer_remember_flags(t, 3, &m->encoded, 1));
    FAST_TRY(fast__trainer_remember(t, 4, waits ? t->g : NULL, (size_t)t->count * sizeof *t->g));
    for (int64_t i = 0; waits && m->codes && i < t->servers; i++)
        FAST_TRY(fast__quorum_code_remember(t, &m->codes[i], FIRST_CODE + 2 * i));
    return fast__trainer_check_saved(t, m->next >= 0 && m->next <= INT64_MAX / 4 && m->made >= 0 &&
                                            m->made <= t->step && m->weight >= 0 &&
                                            m->weight <= (waits ? t->micro_batches : 0));
}

/* The worker's program. */
static fast_err worker(fast_trainer *t, const void *config)
{
    fast_err err;
    quorum_worker m;

    FAST_ASSERT(t->servers > 0);
    FAST_TRY(worker_init(t, config, &m));
    /* All replicas are versions of one model; the newest stands for the run. */
    t->centre = t->w;
    t->centre_version = t->step;
    err = remember(&m);
    if (!err)
        err = train(&m);
    worker_fini(&m);
    return err;
}

/* Forecast as if all workers were waited for: the time that a quorum saves is not included. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    (void)config;
    (void)t;
    FAST_ASSERT(out != NULL);
    out->round_trips = out->waits = 2;
    out->served = out->barrier = 1;
}

const fast_strategy fast__strategy_quorum = {
    .name = "quorum",
    .summary = "synchronous steps that wait for the first gradients only, or for micro-batches",
    .options = options,
    .config_size = sizeof(quorum_config),
    .resumable = true,
    .uses_codec = true,
    .sends = "gradients",
    .answers = "sums",
    .servers = servers,
    .exclusions = exclusions,
    .check = check,
    .cost = cost,
    .worker = worker,
    .server = fast__quorum_server,
};
