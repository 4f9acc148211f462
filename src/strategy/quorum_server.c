/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers of the strategy quorum: they sum the gradients of a round and send the sum to all
 * workers.
 *
 * Each server stores its range of the newest gradient of each worker. The first server is the
 * leader. A gradient counts once all servers have it: the other servers tell the leader of each
 * gradient that arrives. When the gradients of a round are sufficient the leader decides which
 * workers are in it and tells the other servers, and all servers sum the same gradients in the
 * canonical order. So a worker that crashes between two messages is in the round of all servers, or
 * of none.
 *
 * The gradients of a round are sufficient when
 *     quorum    Q gradients count, and no worker is more than `lag` rounds behind
 *     partial   those of all workers that are up count; when Q count, the other workers are told to
 *               flush
 *     stopping  all workers that are up have sent one or said STOP; with no gradient it is the end
 *
 * Cost for each step and worker: one message in and one out, and one for each further server.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/quorum.h"
#include "tensor/sum.h"
#include "trainer/part.h"
#include "trainer/remember.h"
#include "transport/transport.h"

#include <stdio.h>
#include <string.h>

/* A server's knowledge of a worker. */
typedef struct quorum_client {
    int64_t at;        /* the last round that it named; -1: it has not said HELLO */
    int64_t had_round; /* leader: the round of `had` */
    int64_t had;       /* leader: other servers that have its gradient */
    bool stopped;      /* it said STOP */
    bool gone;         /* it left, or is down: nothing is sent to it or awaited */
    bool left;         /* it said LEAVE */
    int64_t join;      /* leader: the number of its last JOIN; 0: none */
} quorum_client;

/* A server's memory. */
typedef struct quorum_server {
    fast_trainer *t;             /* the server's */
    const quorum_config *config; /* the options */
    quorum_client *clients;      /* [workers] */
    fast_msg **gradients;        /* [workers]: the newest of each; NULL: none */
    const float **x;             /* [workers] scratch: gradients of the sum */
    int64_t *weights;            /* [workers]: micro-batches in the round; 0: not in it */
    int64_t first;               /* first element of this server's range */
    int64_t count;               /* elements of this server's range */
    fast_quorum_code codes[2];   /* of gradients, and of the sum */
    float *decoded;              /* [workers + 1][count]: gradients and the sum; NULL: no codecs */
    int64_t round;               /* leader: the next round to be decided */
    bool begun;                  /* leader: all workers said HELLO */
    bool flushed;                /* leader: FLUSH was sent in this round */
    bool ended;                  /* leader: END was sent */
    int64_t lost;                /* a worker that is down; -1: none */
    int64_t waited_to;           /* deadline of the wait for the next message */
    bool waiting;                /* it waits for the next message */
} quorum_server;

/* True at the leader. */
static bool leads(const quorum_server *s)
{
    FAST_ASSERT(s->t->rank >= 0);
    return s->t->rank == 0;
}

/* Send to a worker. That it is down is no error here: take_messages() finds out. */
static fast_err send_down(quorum_server *s, int64_t worker, fast_msg **move)
{
    FAST_ASSERT(worker >= 0 && worker < s->t->workers);
    const fast_err err = fast_send(s->t->actor, s->t->worker_ids[worker], move);

    return err == FAST_EPEER ? FAST_OK : err;
}

/* Send a worker a message without a part. */
static fast_err say_number(quorum_server *s, int64_t worker, fast_quorum_kind kind, int64_t number)
{
    fast_msg *msg = NULL;

    FAST_ASSERT(leads(s));
    FAST_TRY(fast__quorum_msg(s->t, FAST_QUORUM_DOWN, kind, s->round, number, NULL, &msg));
    return send_down(s, worker, &msg);
}

/* Send a worker a message whose kind has no number. */
static fast_err say(quorum_server *s, int64_t worker, fast_quorum_kind kind)
{
    FAST_ASSERT(kind != FAST_QUORUM_GIVE && kind != FAST_QUORUM_WELCOME);
    return say_number(s, worker, kind, 0);
}

/* Collect the gradients of the round in s->x, decoded; return their number and their weight. */
static fast_err list_round(quorum_server *s, int64_t *count_out, int64_t *weight_out)
{
    *count_out = *weight_out = 0;
    for (int64_t i = 0; i < s->t->workers; i++) {
        const fast_msg *msg = s->gradients[i];
        float *x = s->decoded ? s->decoded + i * s->count : NULL;

        if (s->weights[i] == 0)
            continue;
        if (!msg) /* the leader counts gradients that all servers have */
            return fast__fail(
                FAST_EFORMAT,
                "the first server counts a gradient of worker %lld that never arrived",
                (long long)i);
        if (x)
            FAST_TRY(fast__quorum_unpack(s->t, &s->codes[0], msg, x));
        s->x[(*count_out)++] = x ? x : fast_msg_data(msg, 0);
        *weight_out += s->weights[i];
    }
    FAST_ASSERT(*weight_out >= *count_out);
    return FAST_OK;
}

/* Sum the n gradients in s->x, as a part of messages. */
static fast_err make_sum(quorum_server *s, int64_t n, fast_buffer **out, size_t *size_out)
{
    fast_trainer *t = s->t;
    fast_quorum_code *code = &s->codes[1];

    FAST_ASSERT(n > 0 && n <= t->workers);
    *size_out = (size_t)s->count * sizeof(float);
    if (s->decoded) {
        float *sum = s->decoded + t->workers * s->count;

        FAST_TRY(fast_trainer_sum_list(t, s->x, n, s->count, sum));
        FAST_TRY(fast__quorum_encode(t, code, sum));
        return fast__quorum_pack(t, code, sum + code->coded, out, size_out);
    }
    FAST_TRY(fast_buffer_new(t->actor, *size_out, out));
    const fast_err err = fast_trainer_sum_list(t, s->x, n, s->count, fast_buffer_data(*out));
    if (err) {
        fast_buffer_free(*out);
        *out = NULL;
        return err;
    }
    fast_buffer_freeze(*out);
    return FAST_OK;
}

/* Copy the weights of the round's workers to a frozen buffer of *size_out bytes. */
static fast_err pack_weights(quorum_server *s, fast_buffer **out, size_t *size_out)
{
    const size_t size = (size_t)s->t->workers * sizeof *s->weights;

    FAST_ASSERT(size > 0);
    FAST_TRY(fast_buffer_new(s->t->actor, size, out));
    memcpy(fast_buffer_data(*out), s->weights, size);
    fast_buffer_freeze(*out);
    *size_out = size;
    return FAST_OK;
}

/* Send the sum of a round, of weight `all`, and the weights to all workers that are up. */
static fast_err send_sum(quorum_server *s, int64_t round, int64_t all, fast_buffer *sum,
                         size_t sum_size)
{
    fast_buffer *weights = NULL;
    fast_err err = FAST_OK;
    size_t size;

    FAST_ASSERT(all > 0);
    FAST_TRY(pack_weights(s, &weights, &size));
    for (int64_t i = 0; i < s->t->workers && !err; i++) {
        fast_msg *msg = NULL;

        if (s->clients[i].gone)
            continue;
        err = fast__quorum_msg(s->t, FAST_QUORUM_DOWN, FAST_QUORUM_SUM, round, all, NULL, &msg);
        if (err)
            break;
        fast_msg_add_view(msg, sum, 0, sum_size);
        fast_msg_add_view(msg, weights, 0, size);
        err = send_down(s, i, &msg);
    }
    fast_buffer_free(weights);
    return err;
}

/* Sum the round's gradients, send the sum to all workers, and free gradients that are used or too
 * late. */
static fast_err close_round(quorum_server *s, int64_t round)
{
    fast_buffer *sum = NULL;
    size_t size;
    int64_t n, all;

    FAST_ASSERT(round >= 0);
    FAST_TRY(list_round(s, &n, &all));
    FAST_TRY(make_sum(s, n, &sum, &size));
    const fast_err err = send_sum(s, round, all, sum, size);
    fast_buffer_free(sum);
    for (int64_t i = 0; i < s->t->workers; i++) {
        fast_msg **gradient = &s->gradients[i];

        if (*gradient && (*gradient)->words[FAST_QUORUM_ROUND] <= round) {
            fast_msg_free(*gradient);
            *gradient = NULL;
        }
    }
    return err;
}

/* Leader: the round is decided. Tell the other servers, and close it here. */
static fast_err decide(quorum_server *s)
{
    fast_trainer *t = s->t;
    fast_buffer *weights = NULL;
    fast_err err = FAST_OK;
    size_t size;

    FAST_ASSERT(leads(s));
    FAST_TRY(pack_weights(s, &weights, &size));
    for (int64_t i = 1; i < t->servers && !err; i++) {
        fast_msg *msg = NULL;

        err = fast__quorum_msg(t, FAST_QUORUM_UP, FAST_QUORUM_DECIDE, s->round, 0, NULL, &msg);
        if (err)
            break;
        fast_msg_add_view(msg, weights, 0, size);
        err = fast_send(t->actor, t->server_ids[i], &msg);
    }
    fast_buffer_free(weights);
    FAST_TRY(err);
    FAST_TRY(close_round(s, s->round));
    s->round++;
    s->flushed = false;
    return FAST_OK;
}

/* Leader: true if all servers have worker i's gradient of the round. */
static bool counts(const quorum_server *s, int64_t i)
{
    const quorum_client *c = &s->clients[i];
    const fast_msg *gradient = s->gradients[i];

    FAST_ASSERT(s->round >= 0);
    return gradient && gradient->words[FAST_QUORUM_ROUND] == s->round &&
           (s->t->servers == 1 || (c->had_round == s->round && c->had == s->t->servers - 1));
}

/* The state of a round. */
typedef struct quorum_tally {
    int64_t up;      /* workers that are up */
    int64_t left;    /* workers that said LEAVE */
    int64_t counted; /* gradients that count */
    int64_t missing; /* workers that are up and have neither sent a gradient nor stopped */
    int64_t slowest; /* the missing worker that is furthest behind; -1: none */
    bool stopping;   /* a worker said STOP */
} quorum_tally;

/* Leader: count the workers and gradients of the round, and set its weights. */
static quorum_tally count_round(const quorum_server *s)
{
    quorum_tally now = { .slowest = -1 };

    for (int64_t i = 0; i < s->t->workers; i++) {
        const quorum_client *c = &s->clients[i];

        s->weights[i] = counts(s, i) ? s->gradients[i]->words[FAST_QUORUM_NUMBER] : 0;
        now.counted += s->weights[i] > 0;
        now.left += c->left;
        if (c->gone)
            continue;
        now.up++;
        now.stopping = now.stopping || c->stopped;
        if (s->weights[i] > 0 || c->stopped)
            continue;
        now.missing++;
        if (now.slowest < 0 || c->at < s->clients[now.slowest].at)
            now.slowest = i;
    }
    FAST_ASSERT(now.missing <= now.up && (now.missing == 0) == (now.slowest < 0));
    return now;
}

/* Leader: start once all workers that are up have named their round. Workers that are behind the
 * newest round are refused. */
static fast_err start(quorum_server *s)
{
    FAST_ASSERT(!s->begun);
    for (int64_t i = 0; i < s->t->workers; i++) {
        if (!s->clients[i].gone && s->clients[i].at < 0)
            return FAST_OK;
        if (s->clients[i].at > s->round)
            s->round = s->clients[i].at;
    }
    s->begun = true;
    for (int64_t i = 0; i < s->t->workers; i++)
        if (!s->clients[i].gone && s->clients[i].at < s->round) {
            FAST_TRY(say(s, i, FAST_QUORUM_REFUSE));
            s->clients[i].gone = true;
            s->lost = i;
        }
    return FAST_OK;
}

/* Leader, partial: once the quorum counts, tell the other workers to send their micro-batches. */
static fast_err flush(quorum_server *s, const quorum_tally *now)
{
    FAST_ASSERT(s->config->partial);
    if (s->flushed || now->missing == 0 || now->counted < fast__quorum_of(s->config, s->t->workers))
        return FAST_OK;
    s->flushed = true;
    for (int64_t i = 0; i < s->t->workers; i++)
        if (!s->clients[i].gone && !s->gradients[i] && !s->clients[i].stopped)
            FAST_TRY(say(s, i, FAST_QUORUM_FLUSH));
    return FAST_OK;
}

/* Write the workers that are down as text. */
static void name_lost(const quorum_server *s, char *out, size_t size)
{
    int64_t count = 0;
    size_t used = 0;

    for (int64_t i = 0; i < s->t->workers; i++)
        count += s->clients[i].gone && !s->clients[i].left;
    used = (size_t)snprintf(out, size, count == 1 ? "worker" : count ? "workers" : "no worker");
    for (int64_t i = 0, k = 0; i < s->t->workers && used + 32 < size; i++)
        if (s->clients[i].gone && !s->clients[i].left)
            used +=
                (size_t)snprintf(out + used, size - used, "%s %lld", k++ ? "," : "", (long long)i);
    FAST_ASSERT(used < size);
    snprintf(out + used, size - used, count > 1 ? " are down" : " is down");
}

/* Leader: the quorum is out of reach. Fail, and send the workers that are left the reason, so that
 * they fail with it too. */
static fast_err too_few(quorum_server *s, const quorum_tally *now)
{
    char names[160], why[FAST_DETAIL_MAX];
    fast_buffer *text = NULL;

    FAST_ASSERT(leads(s));
    name_lost(s, names, sizeof names);
    snprintf(why, sizeof why, "%s: %lld workers are left at step %lld, and the quorum is %lld",
             names, (long long)now->up, (long long)s->round,
             (long long)fast__quorum_of(s->config, s->t->workers));
    if (s->lost >= 0)
        s->t->actor->culprit = s->t->worker_ids[s->lost];
    for (int64_t i = 0; i < s->t->workers; i++) {
        fast_msg *msg = NULL;

        if (s->clients[i].gone)
            continue;
        FAST_TRY(fast_buffer_new(s->t->actor, sizeof why, &text));
        memcpy(fast_buffer_data(text), why, sizeof why);
        FAST_TRY(fast__quorum_msg(s->t, FAST_QUORUM_DOWN, FAST_QUORUM_FEW, s->round,
                                  s->t->actor->culprit, &text, &msg));
        FAST_TRY(send_down(s, i, &msg));
    }
    return fast__fail(FAST_EPEER, "%s", why);
}

/* Leader, stopping: decide the last round once no gradient is missing; without one it is the
 * end. */
static fast_err stop(quorum_server *s, const quorum_tally *now)
{
    FAST_ASSERT(now->stopping);
    if (now->missing > 0)
        return FAST_OK;
    if (now->counted > 0)
        return decide(s);
    s->ended = true;
    for (int64_t i = 0; i < s->t->workers; i++)
        if (!s->clients[i].gone)
            FAST_TRY(say(s, i, FAST_QUORUM_END));
    return FAST_OK;
}

/* Leader: decide the round if its gradients are sufficient, by the conditions above. */
static fast_err proceed(quorum_server *s)
{
    const int64_t need = fast__quorum_of(s->config, s->t->workers);
    quorum_tally now;

    FAST_ASSERT(leads(s));
    if (!s->begun)
        FAST_TRY(start(s));
    if (!s->begun)
        return FAST_OK;
    now = count_round(s);
    if (s->ended || now.up == 0)
        return s->ended || now.left > 0 ? FAST_OK : too_few(s, &now);
    if (now.stopping)
        return stop(s, &now);
    if (s->round >= s->t->step_count)
        return FAST_OK;
    /* Gradients that count and those that may still arrive. */
    if (now.counted + now.missing < need)
        return too_few(s, &now);
    if (s->config->partial) {
        FAST_TRY(flush(s, &now));
        return now.missing == 0 ? decide(s) : FAST_OK;
    }
    /* A worker that is more than `lag` rounds behind is waited for: sums for it are stored. */
    if (now.counted < need ||
        (now.slowest >= 0 && s->clients[now.slowest].at + s->config->lag < s->round))
        return FAST_OK;
    return decide(s);
}

/* Store a gradient of a worker, which replaces an older one; tell the leader of it. */
static fast_err take_gradient(quorum_server *s, int64_t i, fast_msg **move)
{
    fast_msg *note = NULL;

    if ((*move)->part_count != 1 ||
        (!s->decoded && (*move)->parts[0].size != (size_t)s->count * sizeof(float)) ||
        (*move)->words[FAST_QUORUM_NUMBER] < 1 || (*move)->words[FAST_QUORUM_NUMBER] > INT32_MAX)
        return fast__fail(FAST_EFORMAT, "worker %lld did not send a gradient of %lld numbers",
                          (long long)i, (long long)s->count);
    if (leads(s) && (*move)->words[FAST_QUORUM_ROUND] < s->round) /* its round is over */
        return FAST_OK;
    FAST_ASSERT(i >= 0 && i < s->t->workers);
    fast_msg_free(s->gradients[i]);
    s->gradients[i] = *move;
    *move = NULL;
    if (leads(s))
        return FAST_OK;
    FAST_TRY(fast__quorum_msg(s->t, FAST_QUORUM_UP, FAST_QUORUM_HAVE,
                              s->gradients[i]->words[FAST_QUORUM_ROUND], i, NULL, &note));
    const fast_err err = fast_send(s->t->actor, s->t->server_ids[0], &note);
    /* The leader has ended once every worker has left it; this gradient is then too late. A leader
     * that is lost is found by the next wait. */
    fast_msg_free(note);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Leader: a worker asks to join. The worker that is furthest ahead, which has applied all rounds
 * before this one when it receives GIVE, sends it a model; the worker takes part from this round
 * on. */
static fast_err admit(quorum_server *s, int64_t i, const fast_msg *msg)
{
    const fast_trainer *t = s->t;
    const int64_t join = msg->words[FAST_QUORUM_NUMBER];
    quorum_client *c = &s->clients[i];
    int64_t donor = -1;

    if (c->left || (!c->gone && c->join == join)) /* it asked twice */
        return FAST_OK;
    if (fast_member_is_down(t->actor, t->worker_ids[i])) /* its return is not known yet */
        return FAST_OK;
    for (int64_t j = 0; j < t->workers; j++)
        if (j != i && !s->clients[j].gone && s->clients[j].at >= 0 &&
            (donor < 0 || s->clients[j].at > s->clients[donor].at))
            donor = j;
    if (s->ended || s->round >= t->step_count || (s->begun && donor < 0))
        return say_number(s, i, FAST_QUORUM_REFUSE, 1);
    FAST_ASSERT(donor != i);
    fast_msg_free(s->gradients[i]);
    s->gradients[i] = NULL;
    *c = (quorum_client){ .at = s->begun ? s->round : msg->words[FAST_QUORUM_ROUND],
                          .had_round = -1,
                          .join = join };
    for (int64_t k = 1; k < t->servers; k++) {
        fast_msg *word = NULL;

        FAST_TRY(
            fast__quorum_msg(s->t, FAST_QUORUM_UP, FAST_QUORUM_JOIN, s->round, i, NULL, &word));
        FAST_TRY(fast_send(t->actor, t->server_ids[k], &word));
    }
    /* Before the first round all workers still have the initial model: no donor is needed. */
    if (s->begun)
        FAST_TRY(say_number(s, donor, FAST_QUORUM_GIVE, i));
    return say_number(s, i, FAST_QUORUM_WELCOME, s->begun ? donor : -1);
}

/* Another server: close the round that the leader decided. */
static fast_err take_decision(quorum_server *s, const fast_msg *msg)
{
    if (msg->part_count != 1 || msg->parts[0].size != (size_t)s->t->workers * sizeof *s->weights)
        return fast__fail(FAST_EFORMAT, "the first server did not send a list of workers");
    FAST_ASSERT(s->weights != NULL);
    memcpy(s->weights, fast_msg_data(msg, 0), msg->parts[0].size);
    FAST_TRY(fast__quorum_check(s->weights, s->t->workers));
    return close_round(s, msg->words[FAST_QUORUM_ROUND]);
}

/* Handle a message of worker i; *move is taken and set to NULL if it is a gradient to store. */
static fast_err take_from_worker(quorum_server *s, int64_t i, fast_msg **move)
{
    const fast_msg *msg = *move;
    quorum_client *c = &s->clients[i];
    const int64_t round = msg->words[FAST_QUORUM_ROUND];

    FAST_ASSERT(i >= 0 && i < s->t->workers);
    if (msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_JOIN)
        return admit(s, i, msg);
    if (c->gone && leads(s)) /* it was considered dead: it has missed rounds */
        return c->left ? FAST_OK : say(s, i, FAST_QUORUM_REFUSE);
    if (c->gone && msg->words[FAST_QUORUM_KIND] != FAST_QUORUM_GRADIENT)
        return FAST_OK; /* a gradient is stored: the leader may still count it */
    if (c->at < round)
        c->at = round;
    switch (msg->words[FAST_QUORUM_KIND]) {
    case FAST_QUORUM_GRADIENT:
        return take_gradient(s, i, move);
    case FAST_QUORUM_STOP:
        c->stopped = true;
        break;
    case FAST_QUORUM_LEAVE:
        c->left = true;
        c->gone = true;
        break;
    default: /* HELLO and AT name the worker's round */
        break;
    }
    return FAST_OK;
}

/* Handle a message of a worker or of another server. */
static fast_err take_message(quorum_server *s, fast_msg **move)
{
    const fast_trainer *t = s->t;
    const fast_msg *msg = *move;
    const int64_t i = fast__trainer_rank(t, msg->from);
    const int64_t whose = msg->words[FAST_QUORUM_NUMBER], round = msg->words[FAST_QUORUM_ROUND];

    if (round < 0 || round > t->step_count)
        return fast__fail(FAST_EFORMAT, "a message of step %lld, and the run has %lld",
                          (long long)round, (long long)t->step_count);
    if (strcmp(fast_actor_role(t->actor, msg->from), "worker") == 0)
        return take_from_worker(s, i, move);
    if (msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_DECIDE)
        return take_decision(s, msg);
    if (whose < 0 || whose >= t->workers)
        return fast__fail(FAST_EFORMAT, "server %lld names worker %lld of %lld", (long long)i,
                          (long long)whose, (long long)t->workers);
    if (msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_JOIN)
        s->clients[whose].gone = false;
    if (msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_HAVE) {
        quorum_client *c = &s->clients[whose];

        if (c->had_round != msg->words[FAST_QUORUM_ROUND])
            c->had = 0;
        c->had_round = msg->words[FAST_QUORUM_ROUND];
        c->had++;
    }
    return FAST_OK;
}

/* Handle all messages that have arrived, and workers that are down. */
static fast_err take_messages(quorum_server *s)
{
    fast_msg *msg;

    FAST_ASSERT(s->clients != NULL);
    while ((msg = fast__take(s->t->actor, FAST_ANY, FAST_QUORUM_UP)) != NULL) {
        const fast_err err = take_message(s, &msg);

        fast_msg_free(msg);
        FAST_TRY(err);
        if (leads(s))
            FAST_TRY(proceed(s));
        s->waited_to = fast__deadline(s->t->actor, FAST_SOON);
    }
    for (int64_t i = 0; i < s->t->workers; i++)
        if (!s->clients[i].gone && fast_member_is_down(s->t->actor, s->t->worker_ids[i])) {
            s->clients[i].gone = true;
            s->lost = i;
        }
    return leads(s) ? proceed(s) : FAST_OK;
}

/* True if every worker has left or is down. */
static bool all_gone(const quorum_server *s)
{
    FAST_ASSERT(s->t->workers > 0);
    for (int64_t i = 0; i < s->t->workers; i++)
        if (!s->clients[i].gone)
            return false;
    return true;
}

/* A wait failed: return FAST_OK to wait again, or the error that ends the server. Only the leader
 * gives up on a worker, and names it. */
static fast_err give_up(quorum_server *s, fast_err err)
{
    fast_actor *actor = s->t->actor;
    const quorum_tally now = count_round(s);

    FAST_ASSERT(err == FAST_ETIMEDOUT || err == FAST_EPEER);
    if (err == FAST_ETIMEDOUT && !leads(s) && !fast_member_is_down(actor, s->t->server_ids[0])) {
        s->waited_to = fast__deadline(actor, FAST_SOON);
        return FAST_OK;
    }
    if (err == FAST_EPEER || now.slowest < 0)
        return err;
    actor->culprit = s->t->worker_ids[now.slowest];
    return fast__fail(FAST_ETIMEDOUT,
                      "worker %lld has not reached step %lld in time: %lld gradients have arrived, "
                      "and the quorum is %lld",
                      (long long)now.slowest, (long long)s->round, (long long)now.counted,
                      (long long)fast__quorum_of(s->config, s->t->workers));
}

/* The server's loop: handle messages until all workers are gone. */
static fast_err serve(quorum_server *s)
{
    fast_actor *actor = s->t->actor;

    FAST_ASSERT(s->lost < 0);
    s->waited_to = fast__deadline(actor, FAST_SOON);
    for (;;) {
        fast_wait wait = { .waiting = true,
                           .whom = FAST_ANY,
                           .tag = FAST_QUORUM_UP,
                           .since = fast_now(actor),
                           .doing = "quorum" };
        fast_err err;

        FAST_TRY(take_messages(s));
        if (all_gone(s))
            return FAST_OK;
        fast_actor_at(actor, s->round, "gradients");
        wait.deadline = s->waited_to;
        s->waiting = true;
        err = fast__wait_once(actor, &wait);
        s->waiting = false;
        if (err == FAST_ETIMEDOUT || err == FAST_EPEER)
            err = give_up(s, err);
        FAST_TRY(err);
    }
}

/* Open the codecs, where the run has any. */
static fast_err open_codes(quorum_server *s)
{
    fast_trainer *t = s->t;

    FAST_ASSERT(!s->decoded);
    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    FAST_TRY(
        fast__quorum_code_open(t, t->rank, &(fast_flow_options){ .decodes = true }, &s->codes[0]));
    FAST_TRY(fast__quorum_code_open(t, t->rank, &(fast_flow_options){ .number = 1, .down = true },
                                    &s->codes[1]));
    return fast__vector_new(fast__device_of(t->w), "decoded gradients", (t->workers + 1) * s->count,
                            &s->decoded);
}

/* Return whether a flag of a snapshot is one. */
static bool is_flag(const bool *flag)
{
    uint8_t byte;

    FAST_ASSERT(flag != NULL);
    memcpy(&byte, flag, sizeof byte);
    return byte <= 1;
}

/* Return whether the server waits for messages, with nothing under way. */
static bool is_idle(const void *ctx)
{
    const quorum_server *s = ctx;

    FAST_ASSERT(s->clients != NULL);
    return s->waiting;
}

/* Have snapshots include a server's memory. There is no gradient of an open round in it: workers
 * join before they compute one, and no worker needs those of older rounds. */
static fast_err remember(quorum_server *s)
{
    fast_trainer *t = s->t;
    bool sane = true;

    fast__trainer_cut_idle(t, is_idle, s);
    FAST_TRY(fast__trainer_remember(t, 0, s->clients, (size_t)t->workers * sizeof *s->clients));
    FAST_TRY(fast__trainer_remember(t, 1, &s->round, sizeof s->round));
    FAST_TRY(fast__trainer_remember(t, 2, &s->lost, sizeof s->lost));
    FAST_TRY(fast__trainer_remember_flags(t, 3, &s->begun, 1));
    FAST_TRY(fast__trainer_remember_flags(t, 4, &s->flushed, 1));
    FAST_TRY(fast__trainer_remember_flags(t, 5, &s->ended, 1));
    for (int64_t i = 0; i < t->workers; i++) {
        const quorum_client *c = &s->clients[i];

        sane = sane && is_flag(&c->stopped) && is_flag(&c->gone) && is_flag(&c->left) &&
               c->at >= -1 && c->at <= t->step_count && c->had >= 0 && c->had < t->servers;
    }
    FAST_ASSERT(s->clients != NULL);
    return fast__trainer_check_saved(t, sane && s->round >= 0 && s->round <= t->step_count &&
                                            s->lost >= -1 && s->lost < t->workers);
}

fast_err fast__quorum_server(fast_trainer *t, const void *config)
{
    quorum_server s = { .t = t, .config = config, .lost = -1 };
    fast_err err = fast__alloc("the workers", t->workers, sizeof *s.clients, &s.clients);

    if (!err)
        err = fast__alloc("gradients of a step", t->workers, sizeof(fast_msg *), &s.gradients);
    if (!err)
        err = fast__alloc("gradients of a step", t->workers, sizeof *s.x, &s.x);
    if (!err)
        err = fast__alloc("the quorum", t->workers, sizeof *s.weights, &s.weights);
    FAST_ASSERT(t->rank < t->servers);
    fast__quorum_range(t, t->rank, &s.first, &s.count);
    for (int64_t i = 0; s.clients && i < t->workers; i++)
        s.clients[i].at = s.clients[i].had_round = -1;
    if (!err)
        err = open_codes(&s);
    if (!err)
        err = remember(&s);
    if (!err)
        err = serve(&s);
    for (int64_t i = 0; s.gradients && i < t->workers; i++)
        fast_msg_free(s.gradients[i]);
    fast__quorum_code_close(&s.codes[0]);
    fast__quorum_code_close(&s.codes[1]);
    fast__vector_free(s.decoded);
    fast__free(s.clients);
    fast__free(s.gradients);
    fast__free(s.x);
    fast__free(s.weights);
    return err;
}
