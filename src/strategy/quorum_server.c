/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers of the strategy quorum: they add up the gradients of a round and send the sum to all.
 *
 * Each server keeps the newest gradient of each worker, its stretch of it. The first one leads. A
 * gradient counts once all servers have it: the others tell the leader of each that comes. When a
 * round's gradients suffice the leader decides who is in it, tells the other servers, and all add
 * up the same ones, in the canonical order; so a worker that crashes between two messages is in the
 * round of all servers, or of none.
 *
 * A round R suffices when
 *     quorum    Q gradients count, and nobody is more than `lag` rounds behind
 *     partial   those of everyone who is up count; when Q do, the others are told to flush
 *     stopping  everyone who is up has sent one or said STOP; with no gradient it is the end
 *
 * Cost for each step and worker: one message in and one out, and one for each further server.
 */
#include "base/err.h"
#include "base/memory.h"
#include "comm/sum.h"
#include "strategy/quorum.h"
#include "transport/transport.h"

#include <stdio.h>
#include <string.h>

/* What a server knows of a worker. */
typedef struct client {
    fast_msg *gradient; /* the newest; NULL: none */
    int64_t at;         /* round that it is in, as far as it said; -1: it has not said HELLO */
    int64_t had_round;  /* leader: the round that `had` is of */
    int64_t had;        /* leader: other servers that have its gradient */
    bool stopped;       /* it said STOP */
    bool gone;          /* it left, or is down: nothing is waited for or sent */
    bool left;          /* it said LEAVE */
    int64_t join;       /* leader: the number of its last JOIN; 0: none */
} client;

typedef struct server {
    fast_trainer *t;
    const quorum_config *config;
    client *clients;           /* [workers] */
    const float **x;           /* [workers]: for the sum */
    int64_t *weights;          /* [workers]: of the round that is decided; 0: not in it */
    int64_t first;             /* of this server's stretch */
    int64_t count;             /* of its elements */
    fast_quorum_code codes[2]; /* of what comes up, and of the sum */
    float *decoded;            /* [workers + 1][count]: what came, and the sum; NULL: no codecs */
    int64_t round;             /* leader: that is to be decided */
    bool begun;                /* leader: everyone said HELLO */
    bool flushed;              /* leader: the others were told to flush this round */
    bool ended;                /* leader: everyone was told that it is the end */
    int64_t lost;              /* a worker that is down; -1: none */
    int64_t waited_to;         /* when the wait for something new ends */
} server;

static bool leads(const server *s)
{
    return s->t->rank == 0;
}

/* Send to a worker; that it is down shows elsewhere. */
static fast_err send_down(server *s, int64_t worker, fast_msg **move)
{
    const fast_err err = fast_send(s->t->actor, s->t->worker_ids[worker], move);

    return err == FAST_EPEER ? FAST_OK : err;
}

static fast_err say_number(server *s, int64_t worker, fast_quorum_kind kind, int64_t number)
{
    fast_msg *msg = NULL;

    FAST_TRY(fast__quorum_msg(s->t, FAST_QUORUM_DOWN, kind, s->round, number, NULL, &msg));
    return send_down(s, worker, &msg);
}

static fast_err say(server *s, int64_t worker, fast_quorum_kind kind)
{
    return say_number(s, worker, kind, 0);
}

/* List the round's gradients, decoded where they are encoded; their number, and their weight. */
static fast_err list_round(server *s, int64_t *count_out, int64_t *weight_out)
{
    *count_out = *weight_out = 0;
    for (int64_t i = 0; i < s->t->workers; i++) {
        const fast_msg *msg = s->clients[i].gradient;
        float *x = s->decoded ? s->decoded + i * s->count : NULL;

        if (s->weights[i] == 0)
            continue;
        if (!msg) /* the leader counts what all servers have */
            return fast__fail(FAST_EFORMAT,
                              "the first server counts a gradient of worker %lld that never came",
                              (long long)i);
        if (x)
            FAST_TRY(fast__quorum_unpack(s->t, &s->codes[0], msg, x));
        s->x[(*count_out)++] = x ? x : fast_msg_data(msg, 0);
        *weight_out += s->weights[i];
    }
    return FAST_OK;
}

/* The sum of n that are listed, as a part of messages. */
static fast_err make_sum(server *s, int64_t n, fast_buffer **out, size_t *size_out)
{
    fast_trainer *t = s->t;
    fast_quorum_code *code = &s->codes[1];

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

/* Add up the round's gradients and send the sum to everyone. */
static fast_err close_round(server *s, int64_t round)
{
    fast_trainer *t = s->t;
    const size_t size = (size_t)t->workers * sizeof *s->weights;
    fast_buffer *sum = NULL, *who = NULL;
    size_t sum_size;
    int64_t n, all;
    fast_err err;

    FAST_TRY(list_round(s, &n, &all));
    FAST_TRY(make_sum(s, n, &sum, &sum_size));
    err = fast_buffer_new(t->actor, size, &who);
    if (err) {
        fast_buffer_free(sum);
        return err;
    }
    memcpy(fast_buffer_data(who), s->weights, size);
    fast_buffer_freeze(who);
    for (int64_t i = 0; i < t->workers && !err; i++) {
        fast_msg *msg = NULL;

        if (s->clients[i].gone)
            continue;
        err = fast__quorum_msg(t, FAST_QUORUM_DOWN, FAST_QUORUM_SUM, round, all, NULL, &msg);
        if (err)
            break;
        fast_msg_add_view(msg, sum, 0, sum_size);
        fast_msg_add_view(msg, who, 0, size);
        err = send_down(s, i, &msg);
    }
    fast_buffer_free(sum);
    fast_buffer_free(who);
    for (int64_t i = 0; i < t->workers; i++) {
        client *c = &s->clients[i];

        if (c->gradient && c->gradient->words[FAST_QUORUM_ROUND] <= round) {
            fast_msg_free(c->gradient);
            c->gradient = NULL;
        }
    }
    return err;
}

/* Leader: the round is decided. Tell the other servers, and close it here. */
static fast_err decide(server *s)
{
    fast_trainer *t = s->t;
    const size_t size = (size_t)t->workers * sizeof *s->weights;
    fast_buffer *who = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(fast_buffer_new(t->actor, size, &who));
    memcpy(fast_buffer_data(who), s->weights, size);
    fast_buffer_freeze(who);
    for (int64_t i = 1; i < t->servers && !err; i++) {
        fast_msg *msg = NULL;

        err = fast__quorum_msg(t, FAST_QUORUM_UP, FAST_QUORUM_DECIDE, s->round, 0, NULL, &msg);
        if (err)
            break;
        fast_msg_add_view(msg, who, 0, size);
        err = fast_send(t->actor, t->server_ids[i], &msg);
    }
    fast_buffer_free(who);
    FAST_TRY(err);
    FAST_TRY(close_round(s, s->round));
    s->round++;
    s->flushed = false;
    return FAST_OK;
}

/* Leader: is this worker's gradient of the round at all servers? */
static bool counts(const server *s, const client *c)
{
    return c->gradient && c->gradient->words[FAST_QUORUM_ROUND] == s->round &&
           (s->t->servers == 1 || (c->had_round == s->round && c->had == s->t->servers - 1));
}

/* How the round stands. */
typedef struct standing {
    int64_t up;      /* workers */
    int64_t left;    /* workers that came to their end */
    int64_t counted; /* gradients that count */
    int64_t missing; /* workers that are up and have neither sent one nor stopped */
    int64_t slowest; /* one of them, the furthest behind; -1: none */
    bool stopping;   /* somebody said STOP */
} standing;

static standing look(const server *s)
{
    standing now = { .slowest = -1 };

    for (int64_t i = 0; i < s->t->workers; i++) {
        const client *c = &s->clients[i];

        s->weights[i] = counts(s, c) ? c->gradient->words[FAST_QUORUM_NUMBER] : 0;
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
    return now;
}

/* Leader: begin when everyone who is up has said where it is. */
static fast_err begin(server *s)
{
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

/* Leader: partial work. */
static fast_err flush(server *s, const standing *now)
{
    if (s->flushed || now->missing == 0 || now->counted < fast__quorum_of(s->config, s->t->workers))
        return FAST_OK;
    s->flushed = true;
    for (int64_t i = 0; i < s->t->workers; i++)
        if (!s->clients[i].gone && !s->clients[i].gradient && !s->clients[i].stopped)
            FAST_TRY(say(s, i, FAST_QUORUM_FLUSH));
    return FAST_OK;
}

/* Who is down, as text. */
static void name_lost(const server *s, char *out, size_t size)
{
    int64_t count = 0;
    size_t used = 0;

    for (int64_t i = 0; i < s->t->workers; i++)
        count += s->clients[i].gone && !s->clients[i].left;
    used = (size_t)snprintf(out, size, count == 1 ? "worker" : count ? "workers" : "nobody");
    for (int64_t i = 0, k = 0; i < s->t->workers && used + 32 < size; i++)
        if (s->clients[i].gone && !s->clients[i].left)
            used +=
                (size_t)snprintf(out + used, size - used, "%s %lld", k++ ? "," : "", (long long)i);
    snprintf(out + used, size - used, count > 1 ? " are down" : " is down");
}

/* Leader: the quorum cannot be reached any more. Who is left is told why, so that its own failure
 * says it. */
static fast_err too_few(server *s, const standing *now)
{
    char names[160], why[FAST_DETAIL_MAX];
    fast_buffer *text = NULL;

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

/* Leader: decide what can be decided. */
static fast_err proceed(server *s)
{
    const int64_t need = fast__quorum_of(s->config, s->t->workers);
    standing now;

    if (!s->begun)
        FAST_TRY(begin(s));
    if (!s->begun)
        return FAST_OK;
    now = look(s);
    if (s->ended || now.up == 0)
        return s->ended || now.left > 0 ? FAST_OK : too_few(s, &now);
    if (now.stopping) {
        if (now.missing > 0)
            return FAST_OK;
        if (now.counted > 0)
            return decide(s);
        s->ended = true;
        for (int64_t i = 0; i < s->t->workers; i++)
            if (!s->clients[i].gone)
                FAST_TRY(say(s, i, FAST_QUORUM_END));
        return FAST_OK;
    }
    if (s->round >= s->t->step_count)
        return FAST_OK;
    if (now.counted + now.missing < need)
        return too_few(s, &now);
    if (s->config->partial) {
        FAST_TRY(flush(s, &now));
        return now.missing == 0 ? decide(s) : FAST_OK;
    }
    if (now.counted < need ||
        (now.slowest >= 0 && s->clients[now.slowest].at + s->config->lag < s->round))
        return FAST_OK;
    return decide(s);
}

/* A gradient of a worker; what is older is of no use. */
static fast_err take_gradient(server *s, int64_t i, fast_msg **move)
{
    client *c = &s->clients[i];
    fast_msg *note = NULL;

    if ((*move)->part_count != 1 ||
        (!s->decoded && (*move)->parts[0].size != (size_t)s->count * sizeof(float)) ||
        (*move)->words[FAST_QUORUM_NUMBER] < 1 || (*move)->words[FAST_QUORUM_NUMBER] > INT32_MAX)
        return fast__fail(FAST_EFORMAT, "worker %lld sent no gradient of %lld numbers",
                          (long long)i, (long long)s->count);
    if (leads(s) && (*move)->words[FAST_QUORUM_ROUND] < s->round) /* its round is over */
        return FAST_OK;
    fast_msg_free(c->gradient);
    c->gradient = *move;
    *move = NULL;
    if (leads(s))
        return FAST_OK;
    FAST_TRY(fast__quorum_msg(s->t, FAST_QUORUM_UP, FAST_QUORUM_HAVE,
                              c->gradient->words[FAST_QUORUM_ROUND], i, NULL, &note));
    return fast_send(s->t->actor, s->t->server_ids[0], &note);
}

/* Leader: a worker that was away asks for a model. It gets that of the one that is furthest, which
 * has all rounds before this one when it is told to give it, and takes part from this round on. */
static fast_err admit(server *s, int64_t i, const fast_msg *msg)
{
    const fast_trainer *t = s->t;
    const int64_t join = msg->words[FAST_QUORUM_NUMBER];
    client *c = &s->clients[i];
    int64_t donor = -1;

    if (c->left || (!c->gone && c->join == join)) /* it asked twice */
        return FAST_OK;
    if (fast_member_is_down(t->actor, t->worker_ids[i])) /* that it is back is not known yet */
        return FAST_OK;
    for (int64_t j = 0; j < t->workers; j++)
        if (j != i && !s->clients[j].gone && s->clients[j].at >= 0 &&
            (donor < 0 || s->clients[j].at > s->clients[donor].at))
            donor = j;
    if (s->ended || s->round >= t->step_count || (s->begun && donor < 0))
        return say_number(s, i, FAST_QUORUM_REFUSE, 1);
    fast_msg_free(c->gradient);
    *c = (client){ .at = s->begun ? s->round : msg->words[FAST_QUORUM_ROUND],
                   .had_round = -1,
                   .join = join };
    for (int64_t k = 1; k < t->servers; k++) {
        fast_msg *word = NULL;

        FAST_TRY(
            fast__quorum_msg(s->t, FAST_QUORUM_UP, FAST_QUORUM_JOIN, s->round, i, NULL, &word));
        FAST_TRY(fast_send(t->actor, t->server_ids[k], &word));
    }
    if (s->begun)
        FAST_TRY(say_number(s, donor, FAST_QUORUM_GIVE, i));
    return say_number(s, i, FAST_QUORUM_WELCOME, s->begun ? donor : -1);
}

/* The leader decided. */
static fast_err take_decision(server *s, const fast_msg *msg)
{
    if (msg->part_count != 1 || msg->parts[0].size != (size_t)s->t->workers * sizeof *s->weights)
        return fast__fail(FAST_EFORMAT, "the first server sent no list of workers");
    memcpy(s->weights, fast_msg_data(msg, 0), msg->parts[0].size);
    FAST_TRY(fast__quorum_check(s->weights, s->t->workers));
    return close_round(s, msg->words[FAST_QUORUM_ROUND]);
}

/* A message of a worker. */
static fast_err take_word(server *s, int64_t i, fast_msg **move)
{
    const fast_msg *msg = *move;
    client *c = &s->clients[i];
    const int64_t round = msg->words[FAST_QUORUM_ROUND];

    if (msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_JOIN)
        return admit(s, i, msg);
    if (c->gone && leads(s)) /* it was taken for dead: it has missed something */
        return c->left ? FAST_OK : say(s, i, FAST_QUORUM_REFUSE);
    if (c->gone && msg->words[FAST_QUORUM_KIND] != FAST_QUORUM_GRADIENT)
        return FAST_OK; /* but of a gradient the leader may know more */
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
    default: /* HELLO and AT say where it is, and no more */
        break;
    }
    return FAST_OK;
}

static fast_err take_message(server *s, fast_msg **move)
{
    const fast_trainer *t = s->t;
    const fast_msg *msg = *move;
    const int64_t i = fast_actor_index(t->actor, msg->from);
    const int64_t whose = msg->words[FAST_QUORUM_NUMBER], round = msg->words[FAST_QUORUM_ROUND];

    if (round < 0 || round > t->step_count)
        return fast__fail(FAST_EFORMAT, "a message of step %lld, and the run has %lld",
                          (long long)round, (long long)t->step_count);
    if (strcmp(fast_actor_role(t->actor, msg->from), "worker") == 0)
        return take_word(s, i, move);
    if (msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_DECIDE)
        return take_decision(s, msg);
    if (whose < 0 || whose >= t->workers)
        return fast__fail(FAST_EFORMAT, "server %lld speaks of worker %lld of %lld", (long long)i,
                          (long long)whose, (long long)t->workers);
    if (msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_JOIN)
        s->clients[whose].gone = false;
    if (msg->words[FAST_QUORUM_KIND] == FAST_QUORUM_HAVE) {
        client *c = &s->clients[whose];

        if (c->had_round != msg->words[FAST_QUORUM_ROUND])
            c->had = 0;
        c->had_round = msg->words[FAST_QUORUM_ROUND];
        c->had++;
    }
    return FAST_OK;
}

/* Take in all that has come. */
static fast_err take_messages(server *s)
{
    fast_msg *msg;

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

static bool all_gone(const server *s)
{
    for (int64_t i = 0; i < s->t->workers; i++)
        if (!s->clients[i].gone)
            return false;
    return true;
}

static fast_err serve(server *s)
{
    fast_actor *actor = s->t->actor;

    s->waited_to = fast__deadline(actor, FAST_SOON);
    for (;;) {
        fast_wait wait = { .waiting = true,
                           .whom = FAST_ANY,
                           .tag = FAST_QUORUM_UP,
                           .since = fast_now(actor),
                           .doing = "quorum" };
        standing now;
        fast_err err;

        FAST_TRY(take_messages(s));
        if (all_gone(s))
            return FAST_OK;
        fast_actor_at(actor, s->round, "gradients");
        wait.deadline = s->waited_to;
        err = fast__wait_once(actor, &wait);
        if (err != FAST_ETIMEDOUT && err != FAST_EPEER) {
            FAST_TRY(err);
            continue;
        }
        now = look(s);
        if (err == FAST_ETIMEDOUT && !leads(s) &&
            !fast_member_is_down(actor, s->t->server_ids[0])) { /* the leader is who gives up */
            s->waited_to = fast__deadline(actor, FAST_SOON);
            continue;
        }
        if (err == FAST_EPEER || now.slowest < 0)
            return err;
        actor->culprit = s->t->worker_ids[now.slowest];
        return fast__fail(FAST_ETIMEDOUT,
                          "worker %lld has not come to step %lld in time: %lld gradients are "
                          "there, and the quorum is %lld",
                          (long long)now.slowest, (long long)s->round, (long long)now.counted,
                          (long long)fast__quorum_of(s->config, s->t->workers));
    }
}

/* Codecs, where the run has any. */
static fast_err open_codes(server *s)
{
    fast_trainer *t = s->t;

    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    FAST_TRY(
        fast__quorum_code_open(t, t->rank, &(fast_flow_options){ .decodes = true }, &s->codes[0]));
    FAST_TRY(fast__quorum_code_open(t, t->rank, &(fast_flow_options){ .number = 1, .down = true },
                                    &s->codes[1]));
    return fast__alloc("decoded gradients", (t->workers + 1) * s->count, sizeof *s->decoded,
                       &s->decoded);
}

fast_err fast__quorum_server(fast_trainer *t, const void *config)
{
    server s = { .t = t, .config = config, .lost = -1 };
    fast_err err = fast__alloc("the workers", t->workers, sizeof *s.clients, &s.clients);

    if (!err)
        err = fast__alloc("gradients of a step", t->workers, sizeof *s.x, &s.x);
    if (!err)
        err = fast__alloc("the quorum", t->workers, sizeof *s.weights, &s.weights);
    fast__quorum_range(t, t->rank, &s.first, &s.count);
    for (int64_t i = 0; s.clients && i < t->workers; i++)
        s.clients[i].at = s.clients[i].had_round = -1;
    if (!err)
        err = open_codes(&s);
    if (!err)
        err = serve(&s);
    for (int64_t i = 0; s.clients && i < t->workers; i++)
        fast_msg_free(s.clients[i].gradient);
    fast__quorum_code_close(&s.codes[0]);
    fast__quorum_code_close(&s.codes[1]);
    fast__free(s.decoded);
    fast__free(s.clients);
    fast__free(s.x);
    fast__free(s.weights);
    return err;
}
