/* SPDX-License-Identifier: Apache-2.0 */
/*
 * federated: rounds of devices that a server chooses, and does not wait for in vain.
 *
 *     server, a round:  wait for K devices to check in; after the window least K will do
 *                       choose n = over K of them by chance
 *                       send them the model z
 *                       until K have reported, all chosen ones are done or gone, or the window ends
 *                       with R reports, R >= least K:   z <- z + 1/R sum_k (w_k - z)
 *                       with fewer the round is given up, and z stays as it is
 *     device:           w <- z;   `period` steps   w <- rule(w, g);   report w - z
 *
 * Bonawitz et al., "Towards Federated Learning at Scale", 2019: they choose 1.3 times as many
 * devices as they need, since some drop out; McMahan et al. 2017 (FedAvg) choose a part of all.
 * Every device takes equally many steps in a round, so that all reports count the same. A report
 * that comes after its round is not used; its device has checked in with it and may be chosen
 * again. What a device keeps between rounds is its data alone: the rule's state begins anew. That
 * devices come back after a time that the server names (pace steering) is not here: they wait.
 *
 * A run of S steps has S / period rounds; who is not chosen leaves the steps of that round out. The
 * model of the run is z. Devices may crash and come back; the server must stay. With all devices,
 * over=1 and no window it is `local` with state=reset, up to rounding.
 *
 * With codecs reports are differences, of which what is not sent waits for the device's next
 * report, and z goes as values, which for a codec that loses much are differences to what the
 * device holds.
 *
 * Cost per device and round: one model there and one back; the server moves n in and out. Memory:
 * one more model at a device, two at the server.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/kernels.h"
#include "strategy/strategy.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { TAG_UP = 1, TAG_DOWN = 2 };
enum { KIND_HELLO, KIND_REPORT, KIND_MODEL, KIND_OVER };
/* Words of a message. The version counts rounds that were merged; the life is the device's: what
 * was sent to an earlier one may be a difference to what that one held. */
enum { WORD_KIND, WORD_STEP, WORD_VERSION, WORD_LIFE, WORDS };

static const int64_t LOOK_NS = 5000000; /* between looks at who is still there */

typedef struct federated_config {
    double part;    /* of all devices, whose reports a round waits for: K of them */
    double over;    /* devices that are chosen for each of them */
    double window;  /* seconds that a round may take; 0: any */
    double least;   /* part of K that a round needs */
    int64_t period; /* steps of a round */
} federated_config;

static const fast_option options[] = {
    FAST_OPT_REAL(federated_config, part, "1", 1e-9, 1,
                  "part of the workers whose reports a round waits for"),
    FAST_OPT_REAL(federated_config, over, "1.3", 1, 1000, "devices chosen for each report"),
    FAST_OPT_REAL(federated_config, window, "0", 0, 1e9,
                  "seconds after which a round ends without those who are missing; 0: never"),
    FAST_OPT_REAL(federated_config, least, "0.5", 0, 1,
                  "part of the reports without which a round is given up"),
    FAST_OPT_INT(federated_config, period, "20", 1, 1e12, "steps of a device in a round"),
    FAST_OPT_END,
};

static int64_t servers(const void *config, int64_t workers)
{
    (void)config;
    (void)workers;
    return 1;
}

/* A message is what its model carries of each worker, the state s, and the model, maybe encoded. */
static size_t head_size(const fast_trainer *t)
{
    return (size_t)t->workers * sizeof(double) + (size_t)t->state_count * sizeof(float);
}

/* Send that, or where x is NULL words alone. *share, if not NULL, is kept for the next that is the
 * same. */
static fast_err send(fast_trainer *t, int64_t to, uint64_t tag, const int64_t words[WORDS],
                     fast_flow *flow, const float *x, const double *carried, fast_buffer **share)
{
    const size_t head = head_size(t), counts = (size_t)t->workers * sizeof *carried;
    size_t size = (size_t)t->count * sizeof *x;
    fast_buffer *buffer = share ? *share : NULL;
    fast_msg *msg = NULL;
    fast_err err = FAST_OK;

    if (x && !buffer) {
        FAST_TRY(fast_buffer_new(t->actor, head + (flow ? fast_flow_bound(flow) : size), &buffer));
        char *data = fast_buffer_data(buffer);
        memcpy(data, carried, counts);
        memcpy(data + counts, t->s, head - counts);
        if (flow)
            err = fast_trainer_encode(t, flow, x, data + head, &size);
        else
            memcpy(data + head, x, size);
        fast_buffer_freeze(buffer);
    }
    if (!err)
        err = fast_msg_new(t->actor, tag, &msg);
    if (!err) {
        memcpy(msg->words, words, WORDS * sizeof *words);
        if (x)
            fast_msg_add_view(msg, buffer, 0, head + size);
    }
    if (share && !flow)
        *share = buffer;
    else
        fast_buffer_free(buffer);
    return err ? err : fast_send(t->actor, to, &msg);
}

/* Is there a model in it, of the right size? */
static fast_err check_message(const fast_trainer *t, const fast_msg *msg, bool coded)
{
    const size_t head = head_size(t), whole = head + (size_t)t->count * sizeof(float);

    if (msg->part_count == 1 && msg->words[WORD_STEP] >= 0 &&
        (coded ? msg->parts[0].size >= head : msg->parts[0].size == whole))
        return FAST_OK;
    return fast__fail(FAST_EFORMAT, "a message of actor %lld has no model of this run",
                      (long long)msg->from);
}

/* What the server keeps. */
typedef struct coordinator {
    const federated_config *c;
    float *sum;      /* [count + state_count]: of the round's reports */
    double *shares;  /* [2 workers]: contributions of z, and the sum of those of the reports */
    bool *present;   /* [workers]: it has checked in and waits */
    bool *chosen;    /* [workers]: it was chosen for the round that goes on, and has not reported */
    int64_t *life;   /* [workers]: in which it has checked in */
    int64_t *order;  /* [workers]: those who wait, drawn by lot */
    fast_flow **to;  /* [workers + 1]: z to each; the last is of all reports. NULL: no codecs */
    int64_t reports; /* of the round */
    int64_t step;    /* that the round begins with */
    int64_t version; /* rounds that were merged */
} coordinator;

/* K. */
static int64_t wanted(const federated_config *c, const fast_trainer *t)
{
    const double part = rint(c->part * (double)t->workers);

    return part > 1 ? (int64_t)part : 1;
}

/* Devices that may still do something: those who wait, and the chosen ones if `chosen`, or all. */
static int64_t count_up(const fast_trainer *t, const bool *of)
{
    int64_t up = 0;

    for (int64_t i = 0; i < t->workers; i++)
        up += (!of || of[i]) && !fast_member_is_down(t->actor, t->worker_ids[i]);
    return up;
}

/* sum <- sum + x; a decoder has added the values already. */
static void run_gather(const void *ctx, int64_t n, float *const *x)
{
    if (x[1])
        fast__run_add(ctx, n, x);
}
static const fast_kernel gather = { "sum of reports", 1, 12, 2, 1, false, run_gather };

/* Add a report to the round's sums. */
static fast_err add_report(fast_trainer *t, coordinator *k, const fast_msg *msg)
{
    const double *shares = fast_msg_data(msg, 0);
    const float *s = (const float *)(const void *)(shares + t->workers), *x = s + t->state_count;
    const size_t size = msg->parts[0].size - head_size(t);

    if (k->to[t->workers])
        FAST_TRY(fast_trainer_decode(t, k->to[t->workers], x, size, 1, k->sum));
    fast__vector_add(t->state_count, s, k->sum + t->count);
    k->reports++;
    return fast_trainer_apply(t, &gather, NULL,
                              (fast_vector[]){ { k->sum, k->shares + t->workers, -1 },
                                               { k->to[t->workers] ? NULL : (float *)(uintptr_t)x,
                                                 (double *)(uintptr_t)shares, 0 } });
}

/* The next message of a device, by a deadline: a check-in, or a report, which is one too. */
static fast_err hear(fast_trainer *t, coordinator *k, int64_t deadline)
{
    const int64_t soon = fast_now(t->actor) + LOOK_NS;
    fast_msg *msg = NULL;
    fast_err err =
        fast_receive(t->actor, FAST_ANY, TAG_UP, deadline < soon ? deadline : soon, &msg);
    int64_t i;

    if (err == FAST_ETIMEDOUT)
        return FAST_OK;
    FAST_TRY(err);
    i = fast_actor_index(t->actor, msg->from);
    if (msg->words[WORD_KIND] == KIND_HELLO && k->to[i]) /* it holds nothing */
        fast_flow_reset(k->to[i]);
    if (msg->words[WORD_KIND] == KIND_REPORT && k->chosen[i] && msg->words[WORD_STEP] == k->step) {
        err = check_message(t, msg, k->to[t->workers] != NULL);
        if (!err)
            err = add_report(t, k, msg);
    }
    k->present[i] = true;
    k->chosen[i] = false;
    k->life[i] = msg->words[WORD_LIFE];
    fast_msg_free(msg);
    return err;
}

/* Choose by lot among those who wait, and send them the model. */
static fast_err choose(fast_trainer *t, coordinator *k)
{
    const int64_t most = (int64_t)ceil(k->c->over * (double)wanted(k->c, t) - 1e-9);
    int64_t words[WORDS] = { KIND_MODEL, k->step, k->version, 0 };
    fast_buffer *share = NULL;
    fast_err err = FAST_OK;
    int64_t waiting = 0;

    for (int64_t i = 0; i < t->workers; i++)
        if (k->present[i] && !fast_member_is_down(t->actor, t->worker_ids[i]))
            k->order[waiting++] = i;
    for (int64_t i = 0; i < waiting && i < most && !err; i++) {
        const int64_t other = i + (int64_t)(fast_random(t->actor) % (uint64_t)(waiting - i));
        const int64_t device = k->order[other];

        k->order[other] = k->order[i];
        words[WORD_LIFE] = k->life[device];
        err =
            send(t, t->worker_ids[device], TAG_DOWN, words, k->to[device], t->w, k->shares, &share);
        k->present[device] = false;
        k->chosen[device] = !err;
        if (err == FAST_EPEER)
            err = FAST_OK;
    }
    fast_buffer_free(share);
    return err;
}

/* w <- w + a sum; a is 0 for a round that counts for nothing. */
static void run_add_mean(const void *ctx, int64_t n, float *const *x)
{
    if (*(const float *)ctx != 0)
        fast__run_axpy(ctx, n, x);
}
static const fast_kernel add_mean = { "mean of reports", 2, 16, 2, 1, false, run_add_mean };

/* The model becomes the mean of the reports, if they are enough. */
static fast_err merge(fast_trainer *t, coordinator *k)
{
    const double least = k->c->least * (double)wanted(k->c, t);
    const float part = k->reports > 0 ? 1.0f / (float)k->reports : 0;
    const bool enough = k->reports > 0 && (double)k->reports >= least - 1e-9;

    if (enough) {
        for (int64_t i = 0; i < t->state_count; i++)
            t->s[i] = part * k->sum[t->count + i];
        for (int64_t i = 0; i < t->workers; i++) /* those of whole models, not of differences */
            k->shares[i] = (double)part * k->shares[t->workers + i];
        k->version++;
    }
    FAST_TRY(fast_trainer_apply(t, &add_mean, &(float){ enough ? part : 0 },
                                (fast_vector[]){ { t->w, NULL, -1 }, { k->sum, NULL, -1 } }));
    memset(k->sum, 0, (size_t)(t->count + t->state_count) * sizeof *k->sum);
    memset(k->shares + t->workers, 0, (size_t)t->workers * sizeof *k->shares);
    memset(k->chosen, 0, (size_t)t->workers * sizeof *k->chosen);
    k->reports = 0;
    return FAST_OK;
}

/* When what begins now has lasted for the window. */
static int64_t window_end(const fast_trainer *t, const coordinator *k)
{
    return k->c->window > 0 ? fast_now(t->actor) + (int64_t)(k->c->window * 1e9) : INT64_MAX;
}

/* Wait until there are enough devices to choose from, or after the window as many as a round needs.
 * FAST_EPEER if nobody is left. */
static fast_err await_devices(fast_trainer *t, coordinator *k)
{
    const int64_t end = window_end(t, k);

    fast_actor_at(t->actor, k->step, "devices that check in");
    for (;;) {
        const int64_t up = count_up(t, NULL), here = count_up(t, k->present);
        const int64_t goal = wanted(k->c, t) < up ? wanted(k->c, t) : up;
        const bool late = fast_now(t->actor) >= end;

        if (up == 0)
            return fast__fail(FAST_EPEER, "no device is left at step %lld", (long long)k->step);
        if (here >= goal || (late && here > 0 && (double)here >= k->c->least * (double)goal))
            return FAST_OK;
        FAST_TRY(hear(t, k, INT64_MAX));
    }
}

static fast_err hold_round(fast_trainer *t, coordinator *k)
{
    int64_t end;

    FAST_TRY(await_devices(t, k));
    FAST_TRY(choose(t, k));
    end = window_end(t, k);
    fast_actor_at(t->actor, k->step, "reports");
    while (k->reports < wanted(k->c, t) && count_up(t, k->chosen) > 0 && fast_now(t->actor) < end)
        FAST_TRY(hear(t, k, end));
    return merge(t, k);
}

/* All rounds; then everyone gets the last model, who is late as soon as it comes. */
static fast_err coordinate(fast_trainer *t, coordinator *k)
{
    int64_t words[WORDS] = { KIND_OVER, t->step_count, 0, 0 };
    fast_buffer *share = NULL;
    fast_err err = FAST_OK;

    for (k->step = t->step; k->step < t->step_count && !err; k->step += k->c->period)
        err = hold_round(t, k);
    k->step = t->step_count; /* no report is of a round now */
    words[WORD_VERSION] = k->version;
    while (!err && count_up(t, NULL) > 0) {
        for (int64_t i = 0; i < t->workers && !err; i++) {
            if (!k->present[i])
                continue;
            k->present[i] = false;
            words[WORD_LIFE] = k->life[i];
            err = send(t, t->worker_ids[i], TAG_DOWN, words, k->to[i], t->w, k->shares, &share);
            if (err == FAST_EPEER)
                err = FAST_OK;
        }
        if (!err)
            err = hear(t, k, INT64_MAX);
    }
    fast_buffer_free(share);
    return err == FAST_EPEER ? FAST_OK : err; /* all are gone */
}

/* The flows of a device's two ways, at either end; NULL without codecs. */
static fast_err open_flow(fast_trainer *t, int64_t worker, bool down, bool decodes, fast_flow **out)
{
    const fast_flow_options how = {
        .number = down ? worker : t->workers, .values = down, .down = down, .decodes = decodes
    };

    *out = NULL;
    return fast_trainer_codec_fit(t) == FAST_FIT_NONE ? FAST_OK : fast_trainer_flow(t, &how, out);
}

static fast_err server(fast_trainer *t, const void *config)
{
    coordinator k = { .c = config };
    fast_err err =
        fast__alloc("the sum of reports", t->count + t->state_count, sizeof *k.sum, &k.sum);

    if (!err)
        err = fast__alloc("contributions", 2 * t->workers, sizeof *k.shares, &k.shares);
    if (!err)
        err = fast__alloc("devices that wait", t->workers, sizeof *k.present, &k.present);
    if (!err)
        err = fast__alloc("devices of a round", t->workers, sizeof *k.chosen, &k.chosen);
    if (!err)
        err = fast__alloc("lives of devices", t->workers, sizeof *k.life, &k.life);
    if (!err)
        err = fast__alloc("a lot", t->workers, sizeof *k.order, &k.order);
    if (!err)
        err = fast__alloc("flows of devices", t->workers + 1, sizeof(fast_flow *), &k.to);
    for (int64_t i = 0; i <= t->workers && !err; i++)
        err = open_flow(t, i, i < t->workers, i == t->workers, &k.to[i]);
    if (!err)
        err = coordinate(t, &k);
    fast__free(k.sum);
    fast__free(k.shares);
    fast__free(k.present);
    fast__free(k.chosen);
    fast__free(k.life);
    fast__free(k.order);
    fast__free(k.to);
    return err;
}

/* What a device keeps while it trains. */
typedef struct device {
    float *z;        /* the model that it was sent: the run's centre */
    float *d;        /* what it reports */
    fast_flow *to;   /* reports go by; NULL without codecs */
    fast_flow *from; /* models come by */
} device;

/* Wait for a model, as long as others train; *over_out: it is the last. */
static fast_err await(fast_trainer *t, device *v, bool *over_out)
{
    const size_t head = head_size(t), counts = (size_t)t->workers * sizeof(double);
    fast_msg *msg = NULL;
    const char *data;
    const float *x;
    fast_err err;

    fast_actor_at(t->actor, t->step, "a round");
    do {
        fast_msg_free(msg);
        msg = NULL;
        err = fast_receive(t->actor, t->server_ids[0], TAG_DOWN, FAST_SOON, &msg);
    } while (err == FAST_ETIMEDOUT || (!err && msg->words[WORD_LIFE] != fast_actor_life(t->actor)));
    FAST_TRY(err);
    err = check_message(t, msg, v->from != NULL);
    data = err ? NULL : fast_msg_data(msg, 0);
    x = (const float *)(const void *)(data + head);
    if (!err && v->from)
        err = fast_trainer_decode_values(t, v->from, data + head, msg->parts[0].size - head, &x);
    if (!err) {
        memcpy(v->z, x, (size_t)t->count * sizeof *x);
        fast_trainer_adopt(
            t, &(fast_vector){ .x = v->z, .shares = (double *)(uintptr_t)data, .age = -1 });
        memcpy(t->s, data + counts, head - counts);
        fast_trainer_reset_rule(t);
        fast_trainer_set_step(t, msg->words[WORD_STEP] < t->step_count ? msg->words[WORD_STEP]
                                                                       : t->step_count);
        t->centre_version = msg->words[WORD_VERSION];
        *over_out = msg->words[WORD_KIND] == KIND_OVER;
    }
    fast_msg_free(msg);
    return err;
}

/* The steps of a round, and the report; *over_out: the worker is to stop. */
static fast_err take_part(fast_trainer *t, const federated_config *c, const device *v,
                          bool *over_out)
{
    const int64_t words[WORDS] = { KIND_REPORT, t->step, t->centre_version,
                                   fast_actor_life(t->actor) };
    const int64_t left = t->step_count - t->step,
                  end = t->step + (left < c->period ? left : c->period);

    while (t->step < end) {
        *over_out = !fast_trainer_next(t);
        if (*over_out)
            return FAST_OK;
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(fast_trainer_update(t, t->g, 1));
    }
    memcpy(v->d, t->w, (size_t)t->count * sizeof *v->d);
    fast__vector_axpy(t->count, -1, v->z, v->d);
    fast_actor_at(t->actor, t->step, "difference");
    return send(t, t->server_ids[0], TAG_UP, words, v->to, v->d, fast_trainer_model(t).shares,
                NULL);
}

static fast_err train(fast_trainer *t, const federated_config *c, device *v)
{
    const int64_t hello[WORDS] = { KIND_HELLO, t->step, 0, fast_actor_life(t->actor) };
    const bool rounds = t->step < t->step_count;
    bool over = false;

    FAST_TRY(send(t, t->server_ids[0], TAG_UP, hello, NULL, NULL, NULL, NULL));
    while (!over) {
        FAST_TRY(await(t, v, &over));
        if (over && rounds && t->centre_version == 0)
            fast_trainer_note(t, "no round had enough reports, and the model is as it was; give "
                                 "federated a longer window or a smaller least");
        if (!over)
            FAST_TRY(take_part(t, c, v, &over));
    }
    return fast_trainer_end(t);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    device v = { .z = NULL };
    fast_err err;

    FAST_TRY(fast_trainer_centre(t, &v.z));
    FAST_TRY(open_flow(t, t->rank, false, false, &v.to));
    FAST_TRY(open_flow(t, t->rank, true, true, &v.from));
    FAST_TRY(fast__alloc("a report", t->count, sizeof *v.d, &v.d));
    err = train(t, config, &v);
    fast__free(v.d);
    return err;
}

static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const double period = (double)((const federated_config *)config)->period;

    (void)t;
    out->round_trips = out->waits = 2 / period;
    out->served = 1 / period;
    out->barrier = period;
}

const fast_strategy fast__strategy_federated = {
    .name = "federated",
    .summary = "rounds of devices that a server chooses; who is late is left out",
    .options = options,
    .config_size = sizeof(federated_config),
    .uses_codec = true,
    .sends = "differences",
    .answers = "weights",
    .cost = cost,
    .servers = servers,
    .worker = worker,
    .server = server,
};
