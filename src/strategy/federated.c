/* SPDX-License-Identifier: Apache-2.0 */
/*
 * federated: rounds of devices that a server selects at random. The server does not wait for
 * devices that drop out or are slow.
 *
 *     server, a round:  selection      wait for K devices to check in; after the window `least` K
 *                                      are enough; select n = over K of them at random, send z
 *                       reporting      wait until K devices have reported, or no selected device
 *                                      is left, or the window ends
 *                       R >= least K:  z <- z + sum_k n_k/n (w_k - z),  n = sum of the R n_k
 *                       otherwise      the round is abandoned, and z does not change
 *     device:           w <- z;   `period` steps   w <- rule(w, g);   report w - z and n_k
 *
 * With `epochs` = E a device takes E n_k / B steps instead, E passes over its own n_k samples in
 * batches of B, rounded up; the next round continues where it stopped. The run's steps of a round
 * are those of a device of mean size, E epochs: a device with more or fewer samples computes more
 * or fewer batches in the time of each step.
 *
 * With `pace` a device leaves after its report, or when it is not selected, and is told when to
 * check in again (pace steering): at the start of one of the next 2m - 1 rounds, drawn uniformly,
 * where m = N / (over K) for N devices that are up. A device comes back every m rounds on average,
 * so that about over K arrive for each; few devices (m <= 1) come back all at once. A round is
 * taken to be as long as the mean of the last reporting phases.
 *
 * Bonawitz et al., "Towards Federated Learning at Scale", 2019: they select 1.3 times as many
 * devices as they need, because some drop out; McMahan et al. 2017 (FedAvg) select a fraction of
 * all devices. A report after the end of its round is not used, but checks its device in again.
 * Between rounds a device stores its data alone: the rule's state is reset.
 *
 * A run of S steps has S / period rounds; a device that is not selected skips the steps of that
 * round. The model of the run is z. Devices may crash and restart; a crash of the server ends the
 * run. With all devices, over=1, no window and equal n_k it is `local` with state=reset, up to
 * rounding; one device with epochs=E is plain SGD.
 *
 * With `subspace` a device trains in the space in which the codec `structured` will send its report
 * (structured updates, Konecny et al. 2016): each gradient is projected to it before the update
 * rule, so that the report loses nothing. The space changes with each report. Rules that are linear
 * in the gradients stay in it; weight decay leaves it.
 *
 * With codecs reports are changes, whose residual is added to the device's next report; z is sent
 * as values, for a lossy codec as the difference to the device's copy.
 *
 * Cost per device and round: one model down and one up; the server moves n in and out. Memory: one
 * more model at a device, two at the server.
 */
#include "base/err.h"
#include "base/memory.h"
#include "comm/flow.h"
#include "strategy/strategy.h"
#include "strategy/vector_kernels.h"
#include "strategy/vector_message.h"
#include "tensor/vector.h"
#include "trainer/own_data.h"
#include "transport/transport.h"

#include <math.h>
#include <string.h>

enum { TAG_UP = 1, TAG_DOWN = 2 };
enum { KIND_HELLO, KIND_REPORT, KIND_MODEL, KIND_OVER, KIND_BACK, KIND_LATER };
/* Words of a message. The version counts rounds that were merged. The life counts the device's
 * restarts: a model that was sent to an earlier life may be a difference to its copy. A report has
 * its device's samples instead of a version; KIND_LATER has, instead of a step, the ns after which
 * the device is to send KIND_BACK. */
enum { WORD_KIND, WORD_STEP, WORD_VERSION, WORD_LIFE, WORDS };
enum { WORD_SAMPLES = WORD_VERSION, WORD_DELAY = WORD_STEP };

static const int64_t POLL_NS = 5000000; /* between checks of which devices are up */

/* The options. */
typedef struct federated_config {
    double part;    /* fraction of all devices whose reports a round waits for: K devices */
    double over;    /* devices that are selected for each awaited report */
    double window;  /* seconds of each phase of a round; 0: unlimited */
    double least;   /* fraction of K that a round needs */
    int64_t period; /* steps of a round */
    double epochs;  /* instead: passes of a device over its own samples; 0: `period` steps */
    bool pace;      /* devices leave between rounds, and are told when to come back */
    bool subspace;  /* devices train in the space of their codec's next encoding */
} federated_config;

static const fast_option options[] = {
    FAST_OPT_REAL(federated_config, part, "1", 1e-9, 1,
                  "fraction of the workers whose reports a round waits for"),
    FAST_OPT_REAL(federated_config, over, "1.3", 1, 1000,
                  "devices that are selected for each report that a round waits for"),
    FAST_OPT_REAL(federated_config, window, "0", 0, 1e9,
                  "seconds after which a round stops waiting for missing devices; 0: never"),
    FAST_OPT_REAL(federated_config, least, "0.5", 0, 1,
                  "fraction of the awaited reports below which a round is abandoned"),
    FAST_OPT_INT(federated_config, period, "20", 1, 1e12, "local steps of a device in a round"),
    FAST_OPT_REAL(federated_config, epochs, "0", 0, 1e6,
                  "passes of a device over its own samples in a round, instead of period steps; 0: "
                  "period steps"),
    FAST_OPT_BOOL(federated_config, pace, "no",
                  "devices leave between rounds; the server tells each when to come back, so that "
                  "about as many arrive as a round selects (pace steering)"),
    FAST_OPT_BOOL(federated_config, subspace, "no",
                  "devices train in the random space in which codec structured sends their update "
                  "(structured updates)"),
    FAST_OPT_END,
};

/* Options that contradict each other. */
static const fast_exclusion exclusions[] = {
    { "epochs", "period", NULL, "the steps of a round follow from the samples of a device" },
    { NULL, NULL, NULL, NULL },
};

/* Return the run's steps of a round: of E epochs of a device of mean size. */
static int64_t round_steps(const federated_config *c, const fast_trainer *t)
{
    const double steps = rint(c->epochs * (double)t->epoch_steps);

    FAST_ASSERT(c->period > 0 && t->epoch_steps > 0);
    if (c->epochs <= 0)
        return c->period;
    return steps > 1 ? (int64_t)(steps < 1e12 ? steps : 1e12) : 1;
}

/* One server, which coordinates the rounds. */
static int64_t servers(const void *config, int64_t workers)
{
    (void)config;
    (void)workers;
    FAST_ASSERT(workers > 0);
    return 1;
}

/* Bytes of a message before the model: contributions and the state. */
static size_t head_size(const fast_trainer *t)
{
    FAST_ASSERT(t->workers > 0);
    return (size_t)fast_trainer_share_count(t) * sizeof(double) +
           (size_t)t->state_count * sizeof(float);
}

/* Send words alone. */
static fast_err send_words(fast_trainer *t, int64_t to, uint64_t tag, const int64_t words[WORDS])
{
    FAST_ASSERT(words[WORD_KIND] != KIND_REPORT && words[WORD_KIND] != KIND_MODEL);
    return fast__vector_message_send(t, &(fast_vector_address){ to, tag, words, WORDS, false },
                                     NULL, 0);
}

/* A model or report that may go to several receivers. */
typedef struct federated_vector {
    const float *x;       /* its values */
    const double *shares; /* its contributions */
    fast_buffer *packed;  /* the message without codecs, once it is packed; else NULL */
} federated_vector;

/* Send a vector, the state and words. Without a flow the buffer is shared by all messages of v. */
static fast_err send(fast_trainer *t, int64_t to, uint64_t tag, const int64_t words[WORDS],
                     fast_flow *flow, federated_vector *v)
{
    const fast_vector_message what = { v->shares, t->s, v->x, t->count, flow };
    size_t size = head_size(t) + (size_t)t->count * sizeof *v->x;
    fast_buffer *buffer = flow ? NULL : v->packed;

    FAST_ASSERT(v->x && v->shares);
    if (!buffer)
        FAST_TRY(fast__vector_message_pack(t, &what, &buffer, &size));
    const fast_err err = fast__vector_message_send(
        t, &(fast_vector_address){ to, tag, words, WORDS, false }, buffer, size);
    if (flow)
        fast_buffer_free(buffer);
    else
        v->packed = buffer;
    return err;
}

/* FAST_EFORMAT unless the message has a model of the right size. */
static fast_err check_message(const fast_trainer *t, const fast_msg *msg, bool coded)
{
    const size_t head = head_size(t), whole = head + (size_t)t->count * sizeof(float);

    FAST_ASSERT(whole > head);
    if (msg->part_count == 1 && msg->words[WORD_STEP] >= 0 &&
        (coded ? msg->parts[0].size >= head : msg->parts[0].size == whole))
        return FAST_OK;
    return fast__fail(FAST_EFORMAT, "a message of actor %lld has no model of this run",
                      (long long)msg->from);
}

/* Memory of the server. z is its w. */
typedef struct federated_server {
    const federated_config *c; /* the options */
    float *sum;                /* [count + state_count]: of the round's reports */
    double *shares;  /* two lists: contributions of z, and the sum of those of the reports */
    bool *present;   /* [workers]: the device has checked in and waits */
    bool *chosen;    /* [workers]: the device is selected in this round, and has not reported */
    int64_t *life;   /* [workers]: the device's life at its last check-in */
    int64_t *order;  /* [workers] scratch: waiting devices in random order */
    fast_flow **to;  /* [workers + 1]: flows of z to each device, and of all reports; elements are
                        NULL without codecs */
    int64_t reports; /* reports of the round */
    double unit;     /* samples of the device whose report was the round's first */
    double weight;   /* of the round's reports: their samples, in units */
    bool *away;      /* [workers]: the device was told to come back */
    int64_t began;   /* time at which the round selected its devices */
    double length;   /* ns of a reporting phase: a running mean; 0: not known yet */
    int64_t step;    /* first step of the round */
    int64_t version; /* rounds that were merged */
    int64_t heard;   /* time of the last message of a device */
} federated_server;

/* Return K, the number of reports that a round waits for. */
static int64_t wanted(const federated_config *c, const fast_trainer *t)
{
    const double part = rint(c->part * (double)t->workers);

    FAST_ASSERT(c->part > 0 && c->part <= 1);
    return part > 1 ? (int64_t)part : 1;
}

/* Count the devices that are up, among those with of[i], or among all if `of` is NULL. */
static int64_t count_up(const fast_trainer *t, const bool *of)
{
    int64_t up = 0;

    for (int64_t i = 0; i < t->workers; i++)
        up += (!of || of[i]) && !fast_member_is_down(t->actor, t->worker_ids[i]);
    FAST_ASSERT(up <= t->workers);
    return up;
}

/* sum <- sum + a x, a: samples in units; a decoder has added the values already. */
static void run_gather(const void *ctx, int64_t n, float *const *x)
{
    FAST_ASSERT(x[0] != NULL);
    if (x[1])
        fast__run_axpy(ctx, n, x);
}
static const fast_kernel gather = { "sum of reports", 1, 12, 2, 1, false, run_gather };

/* Add a report to the round's sums. */
static fast_err add_report(fast_trainer *t, federated_server *k, const fast_msg *msg)
{
    const double *shares = fast_msg_data(msg, 0);
    const float *s = (const float *)(const void *)(shares + fast_trainer_share_count(t)),
                *x = s + t->state_count;
    const size_t size = msg->parts[0].size - head_size(t);
    const double samples = (double)msg->words[WORD_SAMPLES];

    FAST_ASSERT(msg->parts[0].size >= head_size(t));
    /* In units of the first report: equal devices have the weight 1, and their mean is exact. */
    /* Any unit would do, since it cancels in the mean. */
    if (k->reports == 0)
        k->unit = samples;
    const float a = (float)(samples / k->unit);
    if (k->to[t->workers])
        FAST_TRY(fast_trainer_decode(t, k->to[t->workers], x, size, a, k->sum));
    fast__vector_axpy(t->state_count, a, s, k->sum + t->count);
    k->reports++;
    k->weight += (double)a;
    return fast_trainer_apply(
        t, &gather, &a,
        (fast_vector[]){
            { k->sum, k->shares + fast_trainer_share_count(t), -1 },
            { k->to[t->workers] ? NULL : (float *)(uintptr_t)x, (double *)(uintptr_t)shares, 0 } });
}

/* Pace steering: tell a device when to come back. It may be late by the rest of a round, so the
 * delay is at most the run's timeout, after which a device that is silent is suspected. */
static fast_err send_away(fast_trainer *t, federated_server *k, int64_t i)
{
    const double arrivals = ceil(k->c->over * (double)wanted(k->c, t) - 1e-9);
    const double every = (double)count_up(t, NULL) / arrivals; /* m of the formula above */
    const uint64_t choices = every > 1 ? (uint64_t)rint(2 * every - 1) : 1;
    const double rounds = 1 + (double)(fast_random(t->actor) % choices);
    const double most = (double)t->actor->world->timeout_ns / 2;
    double delay = rounds * k->length - (double)(fast_now(t->actor) - k->began);

    FAST_ASSERT(arrivals >= 1 && k->c->pace);
    delay = delay < 0 ? 0 : delay > most ? most : delay;
    k->present[i] = false;
    k->away[i] = true;
    const fast_err err =
        send_words(t, t->worker_ids[i], TAG_DOWN,
                   (int64_t[WORDS]){ KIND_LATER, (int64_t)delay, k->version, k->life[i] });
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Receive the next message of a device, if one arrives by the deadline: a check-in, or a report,
 * which is a check-in too. */
static fast_err receive(fast_trainer *t, federated_server *k, int64_t deadline)
{
    const int64_t now = fast_now(t->actor);
    int64_t soon = now + POLL_NS, i;
    fast_msg *msg = NULL;

    /* Nobody has reported for long: the last wait suspects devices that do not answer. */
    if (now - k->heard >= (FAST_PATIENCE - 1) * t->actor->world->timeout_ns)
        soon = fast__patience(t->actor, 1);
    fast_err err =
        fast_receive(t->actor, FAST_ANY, TAG_UP, deadline < soon ? deadline : soon, &msg);
    if (err == FAST_ETIMEDOUT)
        return FAST_OK;
    FAST_TRY(err);
    k->heard = fast_now(t->actor);
    i = fast_actor_index(t->actor, msg->from);
    FAST_ASSERT(i >= 0 && i < t->workers);
    if (msg->words[WORD_KIND] == KIND_HELLO && k->to[i]) /* the device has no copy of z */
        fast_flow_reset(k->to[i]);
    if (msg->words[WORD_KIND] == KIND_REPORT && k->chosen[i] && msg->words[WORD_STEP] == k->step) {
        err = check_message(t, msg, k->to[t->workers] != NULL);
        if (!err && msg->words[WORD_SAMPLES] < 1)
            err = fast__fail(FAST_EFORMAT, "a report of actor %lld is of no samples",
                             (long long)msg->from);
        if (!err)
            err = add_report(t, k, msg);
    }
    /* Every message checks the device in: it waits for the next model, or for when to come. */
    const bool leaves = k->c->pace && msg->words[WORD_KIND] == KIND_REPORT;
    k->present[i] = true;
    k->chosen[i] = k->away[i] = false;
    k->life[i] = msg->words[WORD_LIFE];
    fast_msg_free(msg);
    return !err && leaves && k->step < t->step_count ? send_away(t, k, i) : err;
}

/* Selection: draw devices at random among those that wait, and send them z. */
static fast_err choose(fast_trainer *t, federated_server *k)
{
    const int64_t most = (int64_t)ceil(k->c->over * (double)wanted(k->c, t) - 1e-9);
    int64_t words[WORDS] = { KIND_MODEL, k->step, k->version, 0 };
    federated_vector z = { .x = t->w, .shares = k->shares };
    fast_err err = FAST_OK;
    int64_t waiting = 0;

    for (int64_t i = 0; i < t->workers; i++)
        if (k->present[i] && !fast_member_is_down(t->actor, t->worker_ids[i]))
            k->order[waiting++] = i;
    FAST_ASSERT(most > 0);
    for (int64_t i = 0; i < waiting && i < most && !err; i++) {
        /* One step of a Fisher-Yates shuffle draws the next device. */
        const int64_t other = i + (int64_t)(fast_random(t->actor) % (uint64_t)(waiting - i));
        const int64_t device = k->order[other];

        k->order[other] = k->order[i];
        words[WORD_LIFE] = k->life[device];
        err = send(t, t->worker_ids[device], TAG_DOWN, words, k->to[device], &z);
        k->present[device] = false;
        k->chosen[device] = !err;
        if (err == FAST_EPEER)
            err = FAST_OK;
    }
    fast_buffer_free(z.packed);
    k->began = fast_now(t->actor);
    for (int64_t i = 0; i < t->workers && !err && k->c->pace; i++)
        if (k->present[i]) /* it was not selected */
            err = send_away(t, k, i);
    return err;
}

/* w <- w + a sum; a is 0 for a round that is abandoned. */
static void run_add_mean(const void *ctx, int64_t n, float *const *x)
{
    FAST_ASSERT(ctx != NULL);
    if (*(const float *)ctx != 0)
        fast__run_axpy(ctx, n, x);
}
static const fast_kernel add_mean = { "mean of reports", 2, 16, 2, 1, false, run_add_mean };

/* End the round: z <- z + the mean of the reports, if they are enough. */
static fast_err merge(fast_trainer *t, federated_server *k)
{
    const double least = k->c->least * (double)wanted(k->c, t);
    const float part = k->reports > 0 ? (float)(1 / k->weight) : 0;
    const bool enough = k->reports > 0 && (double)k->reports >= least - 1e-9;

    FAST_ASSERT(k->reports >= 0 && k->reports <= t->workers);
    if (enough) {
        fast__vector_copy(t->state_count, k->sum + t->count, t->s);
        fast__vector_scale(t->state_count, part, t->s);
        for (int64_t i = 0; i < fast_trainer_share_count(t);
             i++) /* contributions are those of whole models */
            k->shares[i] = (double)part * k->shares[fast_trainer_share_count(t) + i];
        k->version++;
    }
    FAST_TRY(fast_trainer_apply(t, &add_mean, &(float){ enough ? part : 0 },
                                (fast_vector[]){ { t->w, NULL, -1 }, { k->sum, NULL, -1 } }));
    fast__vector_fill(t->count + t->state_count, 0, k->sum);
    memset(k->shares + fast_trainer_share_count(t), 0,
           (size_t)fast_trainer_share_count(t) * sizeof *k->shares);
    memset(k->chosen, 0, (size_t)t->workers * sizeof *k->chosen);
    k->reports = 0;
    k->weight = 0;
    return FAST_OK;
}

/* Return the end of a window that starts now. */
static int64_t window_end(const fast_trainer *t, const federated_server *k)
{
    FAST_ASSERT(k->c->window >= 0);
    return k->c->window > 0 ? fast_now(t->actor) + (int64_t)(k->c->window * 1e9) : INT64_MAX;
}

/* Selection: wait until K devices have checked in, or after the window `least` K. FAST_EPEER if no
 * device is left. */
static fast_err await_devices(fast_trainer *t, federated_server *k)
{
    const int64_t end = window_end(t, k);

    fast_actor_at(t->actor, k->step, "devices that check in");
    for (;;) {
        const int64_t up = count_up(t, NULL), here = count_up(t, k->present);
        const int64_t goal = wanted(k->c, t) < up ? wanted(k->c, t) : up;
        const bool late = fast_now(t->actor) >= end;

        FAST_ASSERT(here <= up);
        if (up == 0)
            return fast__fail(FAST_EPEER, "no device is left at step %lld", (long long)k->step);
        if (here >= goal || (late && here > 0 && (double)here >= k->c->least * (double)goal))
            return FAST_OK;
        FAST_TRY(receive(t, k, INT64_MAX));
    }
}

/* The server's round of the formula above. */
static fast_err hold_round(fast_trainer *t, federated_server *k)
{
    int64_t end;

    FAST_ASSERT(k->reports == 0);
    FAST_TRY(await_devices(t, k));
    FAST_TRY(choose(t, k));
    end = window_end(t, k);
    fast_actor_at(t->actor, k->step, "reports");
    while (k->reports < wanted(k->c, t) && count_up(t, k->chosen) > 0 && fast_now(t->actor) < end)
        FAST_TRY(receive(t, k, end));
    /* Selection is left out of the length: devices that come late would lengthen it, be told to
     * come later still, and never arrive in time again. The mean over about four rounds follows
     * changes of the devices' speed. */
    const double length = (double)(fast_now(t->actor) - k->began);
    k->length = k->length > 0 ? 0.75 * k->length + 0.25 * length : length;
    return merge(t, k);
}

/* Send the last z to every device, also to those that left; a late device gets it when it checks
 * in. */
static fast_err dismiss(fast_trainer *t, federated_server *k)
{
    int64_t words[WORDS] = { KIND_OVER, t->step_count, k->version, 0 };
    federated_vector z = { .x = t->w, .shares = k->shares };
    fast_err err = FAST_OK;

    FAST_ASSERT(k->reports == 0);
    k->step = t->step_count; /* later reports belong to no round */
    while (!err && count_up(t, NULL) > 0) {
        for (int64_t i = 0; i < t->workers && !err; i++) {
            if (!k->present[i] && !k->away[i])
                continue;
            k->present[i] = k->away[i] = false;
            words[WORD_LIFE] = k->life[i];
            err = send(t, t->worker_ids[i], TAG_DOWN, words, k->to[i], &z);
            if (err == FAST_EPEER)
                err = FAST_OK;
        }
        if (!err)
            err = receive(t, k, INT64_MAX);
    }
    fast_buffer_free(z.packed);
    return err;
}

/* The server's program: all rounds, and the end. FAST_EPEER: no device is left, which is no
 * error. */
static fast_err coordinate(fast_trainer *t, federated_server *k)
{
    fast_err err = FAST_OK;

    FAST_ASSERT(k->c->period > 0);
    for (k->step = t->step; k->step < t->step_count && !err; k->step += round_steps(k->c, t))
        err = hold_round(t, k);
    if (!err)
        err = dismiss(t, k);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Open a flow of a device at either end: of z (`down`), or of reports. NULL without codecs. */
static fast_err open_flow(fast_trainer *t, int64_t worker, bool down, bool decodes, fast_flow **out)
{
    const fast_flow_options how = {
        .number = down ? worker : t->workers, .values = down, .down = down, .decodes = decodes
    };

    FAST_ASSERT(worker >= 0 && worker <= t->workers);
    *out = NULL;
    return fast_trainer_codec_fit(t) == FAST_FIT_NONE ? FAST_OK : fast_trainer_flow(t, &how, out);
}

/* Allocate the server's memory and coordinate. */
static fast_err server(fast_trainer *t, const void *config)
{
    federated_server k = { .c = config, .heard = fast_now(t->actor) };
    fast_err err = fast__vector_new(fast__device_of(t->w), "the sum of reports",
                                    t->count + t->state_count, &k.sum);

    FAST_ASSERT(t->servers == 1);
    if (!err)
        err = fast__alloc("contributions", 2 * fast_trainer_share_count(t), sizeof *k.shares,
                          &k.shares);
    if (!err)
        err = fast__alloc("devices that wait", t->workers, sizeof *k.present, &k.present);
    if (!err)
        err = fast__alloc("devices of a round", t->workers, sizeof *k.chosen, &k.chosen);
    if (!err)
        err = fast__alloc("devices that left", t->workers, sizeof *k.away, &k.away);
    if (!err)
        err = fast__alloc("lives of devices", t->workers, sizeof *k.life, &k.life);
    if (!err)
        err = fast__alloc("the order of devices", t->workers, sizeof *k.order, &k.order);
    if (!err)
        err = fast__alloc("flows of devices", t->workers + 1, sizeof(fast_flow *), &k.to);
    for (int64_t i = 0; i <= t->workers && !err; i++)
        err = open_flow(t, i, i < t->workers, i == t->workers, &k.to[i]);
    if (!err)
        err = coordinate(t, &k);
    fast__vector_free(k.sum);
    fast__free(k.shares);
    fast__free(k.present);
    fast__free(k.chosen);
    fast__free(k.away);
    fast__free(k.life);
    fast__free(k.order);
    fast__free(k.to);
    return err;
}

/* Memory of a device besides its replica. */
typedef struct federated_device {
    float *z;        /* the last model that it received: the run's centre */
    float *d;        /* its report */
    fast_flow *to;   /* of reports; NULL without codecs */
    fast_flow *from; /* of models; NULL without codecs */
    int64_t taken;   /* epochs: batches of its own samples that it has computed */
} federated_device;

/* Start a round with the model in a message: w <- z, and the rule's state is reset. */
static fast_err adopt_model(fast_trainer *t, federated_device *v, const fast_msg *msg)
{
    const size_t head = head_size(t), counts = (size_t)fast_trainer_share_count(t) * sizeof(double);
    const int64_t step = msg->words[WORD_STEP];
    const char *data;
    const float *x;

    FAST_TRY(check_message(t, msg, v->from != NULL));
    FAST_ASSERT(msg->parts[0].size >= head);
    data = fast_msg_data(msg, 0);
    x = (const float *)(const void *)(data + head);
    if (v->from)
        FAST_TRY(
            fast_trainer_decode_values(t, v->from, data + head, msg->parts[0].size - head, &x));
    fast__vector_copy(t->count, x, v->z);
    fast_trainer_adopt(t,
                       &(fast_vector){ .x = v->z, .shares = (double *)(uintptr_t)data, .age = -1 });
    fast__vector_copy(t->state_count, data + counts, t->s);
    fast_trainer_reset_rule(t);
    fast_trainer_set_step(t, step < t->step_count ? step : t->step_count);
    t->centre_version = msg->words[WORD_VERSION];
    return FAST_OK;
}

/* Receive the next message of the server to this life of the device. Told to leave, come back in
 * time, unless a message says that the run is over. */
static fast_err receive_model(fast_trainer *t, fast_msg **out)
{
    /* The time at which the device is to check in again. While it is away the server may send it
     * the last model: a run does not end later because devices are away. */
    int64_t back = FAST_SOON;

    FAST_ASSERT(*out == NULL);
    for (;;) {
        fast_err err = fast_receive(t->actor, t->server_ids[0], TAG_DOWN, back, out);

        if (err == FAST_ETIMEDOUT && back != FAST_SOON) {
            back = FAST_SOON;
            err = send_words(t, t->server_ids[0], TAG_UP,
                             (int64_t[WORDS]){ KIND_BACK, t->step, 0, fast_actor_life(t->actor) });
        } else if (err == FAST_ETIMEDOUT) {
            err = FAST_OK;
        } else if (!err && (*out)->words[WORD_LIFE] == fast_actor_life(t->actor)) {
            if ((*out)->words[WORD_KIND] != KIND_LATER)
                return FAST_OK;
            back = fast_now(t->actor) + 1 +
                   ((*out)->words[WORD_DELAY] > 0 ? (*out)->words[WORD_DELAY] : 0);
        }
        FAST_TRY(err);
        fast_msg_free(*out);
        *out = NULL;
    }
}

/* Wait for a model, while other devices train; *over_out: it is the last one. */
static fast_err await_model(fast_trainer *t, federated_device *v, bool *over_out)
{
    fast_msg *msg = NULL;
    fast_err err;

    FAST_ASSERT(v->z != NULL);
    fast_actor_at(t->actor, t->step, "a round");
    err = receive_model(t, &msg);
    if (!err)
        err = adopt_model(t, v, msg);
    if (!err)
        *over_out = msg->words[WORD_KIND] == KIND_OVER;
    fast_msg_free(msg);
    return err;
}

/* Update by the gradient, or by its projection. FAST_EINVAL if the codec has no space. */
static fast_err update(fast_trainer *t, const federated_config *c, federated_device *v)
{
    FAST_ASSERT(v->z != NULL);
    if (c->subspace && !(v->to && fast__flow_project(v->to, t->g)))
        return fast__fail(FAST_EINVAL,
                          "federated: subspace=yes trains in the space of a codec that has one; "
                          "use codec=structured, or leave it out");
    if (c->subspace)
        FAST_TRY(fast_charge(t->actor, 2 * (double)t->count, 8 * (double)t->count));
    return fast_trainer_update(t, t->g, 1);
}

/* Take step `number` of a round: the device's next batch, or with `epochs` as many of its own as
 * are due, perhaps none. */
static fast_err take_step(fast_trainer *t, const federated_config *c, federated_device *v,
                          int64_t number)
{
    const fast_own_data own = fast__trainer_own_data(t);
    const double all = ceil(c->epochs * (double)own.samples / (double)own.batch - 1e-9);
    const double steps = (double)round_steps(c, t);

    FAST_ASSERT(number >= 0 && number < round_steps(c, t));
    if (c->epochs <= 0) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        return update(t, c, v);
    }
    /* Batches are spread evenly over the run's steps of the round, so that the learning rate and
     * the progress of a device with few samples are those of the others at any time. */
    const int64_t first = (int64_t)floor(all * (double)number / steps),
                  end = (int64_t)floor(all * (double)(number + 1) / steps);
    for (int64_t i = first; i < end; i++) {
        FAST_TRY(fast_trainer_micro_gradient(t, v->taken++));
        fast_trainer_shares_of(t, t->rank, fast_trainer_grad(t).shares);
        FAST_TRY(update(t, c, v));
    }
    fast_trainer_count_step(t);
    return FAST_OK;
}

/* Take the steps of a round and report; *over_out: this worker is to stop. */
static fast_err take_part(fast_trainer *t, const federated_config *c, federated_device *v,
                          bool *over_out)
{
    const int64_t words[WORDS] = { KIND_REPORT, t->step, fast__trainer_own_data(t).samples,
                                   fast_actor_life(t->actor) };
    const int64_t left = t->step_count - t->step, steps = round_steps(c, t);
    const int64_t begin = t->step, end = begin + (left < steps ? left : steps);

    FAST_ASSERT(end <= t->step_count);
    while (t->step < end) {
        *over_out = !fast_trainer_next(t);
        if (*over_out)
            return FAST_OK;
        FAST_TRY(take_step(t, c, v, t->step - begin));
    }
    fast__vector_copy(t->count, t->w, v->d);
    fast__vector_axpy(t->count, -1, v->z, v->d);
    fast_actor_at(t->actor, t->step, "difference");
    federated_vector report = { .x = v->d, .shares = fast_trainer_model(t).shares };
    const fast_err err = send(t, t->server_ids[0], TAG_UP, words, v->to, &report);
    fast_buffer_free(report.packed);
    return err;
}

/* The device's loop: take part in rounds until the server ends them. */
static fast_err train(fast_trainer *t, const federated_config *c, federated_device *v)
{
    const bool rounds = t->step < t->step_count;
    bool over = false;

    FAST_ASSERT(c->period > 0);
    while (!over) {
        FAST_TRY(await_model(t, v, &over));
        if (over && rounds && t->centre_version == 0)
            fast_trainer_note(t, "no round had enough reports, and the model did not change; use a "
                                 "longer window or a smaller least");
        if (!over)
            FAST_TRY(take_part(t, c, v, &over));
    }
    return fast_trainer_end(t);
}

/* The device's program. It checks in before anything can fail: the server learns of the end of a
 * device only if it has heard of it, and would wait for it forever. */
static fast_err worker(fast_trainer *t, const void *config)
{
    federated_device v = { .z = NULL };
    const int64_t hello[WORDS] = { KIND_HELLO, t->step, 0, fast_actor_life(t->actor) };
    fast_err err;

    FAST_ASSERT(t->servers == 1);
    FAST_TRY(send_words(t, t->server_ids[0], TAG_UP, hello));
    if (((const federated_config *)config)->epochs > 0 && t->micro_batches > 1)
        return fast__fail(FAST_EINVAL, "federated: epochs counts whole batches; leave out "
                                       "accumulate, or give period instead");
    FAST_TRY(fast_trainer_centre(t, &v.z));
    FAST_TRY(open_flow(t, t->rank, false, false, &v.to));
    FAST_TRY(open_flow(t, t->rank, true, true, &v.from));
    FAST_TRY(fast__vector_new(fast__device_of(t->w), "a report", t->count, &v.d));
    err = train(t, config, &v);
    fast__vector_free(v.d);
    return err;
}

/* Forecast: each round waits for a model and its report. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const double period = (double)round_steps(config, t);

    FAST_ASSERT(period > 0);
    out->round_trips = out->waits = 2 / period;
    out->served = 1 / period;
    out->barrier = period;
}

const fast_strategy fast__strategy_federated = {
    .name = "federated",
    .summary = "rounds of devices that a server selects at random; late devices are left out",
    .options = options,
    .config_size = sizeof(federated_config),
    .uses_codec = true,
    .sends = "differences",
    .answers = "weights",
    .cost = cost,
    .exclusions = exclusions,
    .servers = servers,
    .worker = worker,
    .server = server,
};
