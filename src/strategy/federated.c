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
 * Snapshots. A device joins before a step, or while it waits for a model. The server is saved while
 * it waits for messages; its phase and times, which stand still meanwhile, are in its memory.
 *
 * Cost per device and round: one model down and one up; the server moves n in and out. Memory: one
 * more model at a device, two at the server.
 */
#include "strategy/federated.h"
#include "base/err.h"
#include "base/memory.h"
#include "comm/flow.h"
#include "strategy/vector_kernels.h"
#include "strategy/vector_message.h"
#include "tensor/vector.h"
#include "trainer/part.h"
#include "trainer/remember.h"
#include "transport/saved_actor.h"
#include "transport/transport.h"

#include <math.h>
#include <string.h>

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
int64_t fast__federated_steps(const federated_config *c, const fast_trainer *t)
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
size_t fast__federated_head(const fast_trainer *t)
{
    FAST_ASSERT(t->workers > 0);
    return (size_t)fast_trainer_share_count(t) * sizeof(double) +
           (size_t)t->state_count * sizeof(float);
}

/* Send words alone. */
fast_err fast__federated_tell(fast_trainer *t, int64_t to, uint64_t tag,
                              const int64_t words[FEDERATED_WORDS])
{
    FAST_ASSERT(words[FEDERATED_WORD_KIND] != FEDERATED_KIND_REPORT &&
                words[FEDERATED_WORD_KIND] != FEDERATED_KIND_MODEL);
    return fast__vector_message_send(
        t, &(fast_vector_address){ to, tag, words, FEDERATED_WORDS, false }, NULL, 0);
}

/* Send a vector, the state and words. Without a flow the buffer is shared by all messages of v. */
fast_err fast__federated_send(fast_trainer *t, int64_t to, uint64_t tag,
                              const int64_t words[FEDERATED_WORDS], fast_flow *flow,
                              federated_vector *v)
{
    const fast_vector_message what = { v->shares, t->s, v->x, t->count, flow };
    size_t size = fast__federated_head(t) + (size_t)t->count * sizeof *v->x;
    fast_buffer *buffer = flow ? NULL : v->packed;

    FAST_ASSERT(v->x && v->shares);
    if (!buffer)
        FAST_TRY(fast__vector_message_pack(t, &what, &buffer, &size));
    const fast_err err = fast__vector_message_send(
        t, &(fast_vector_address){ to, tag, words, FEDERATED_WORDS, false }, buffer, size);
    if (flow)
        fast_buffer_free(buffer);
    else
        v->packed = buffer;
    return err;
}

/* FAST_EFORMAT unless the message has a model of the right size. */
fast_err fast__federated_check(const fast_trainer *t, const fast_msg *msg, bool coded)
{
    const size_t head = fast__federated_head(t), whole = head + (size_t)t->count * sizeof(float);

    FAST_ASSERT(whole > head);
    if (msg->part_count == 1 && msg->words[FEDERATED_WORD_STEP] >= 0 &&
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
    bool reporting;  /* devices of this round are selected */
    bool waiting;    /* it waits for a message */
    int64_t end;     /* time at which the window of the phase ends; 0: it has not begun */
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
    const size_t size = msg->parts[0].size - fast__federated_head(t);
    const double samples = (double)msg->words[FEDERATED_WORD_SAMPLES];

    FAST_ASSERT(msg->parts[0].size >= fast__federated_head(t));
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
    double delay = rounds * k->length - (double)(fast__actor_time(t->actor) - k->began);

    FAST_ASSERT(arrivals >= 1 && k->c->pace);
    delay = delay < 0 ? 0 : delay > most ? most : delay;
    k->present[i] = false;
    k->away[i] = true;
    const fast_err err = fast__federated_tell(
        t, t->worker_ids[i], FEDERATED_DOWN,
        (int64_t[FEDERATED_WORDS]){ FEDERATED_KIND_LATER, (int64_t)delay, k->version, k->life[i] });
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Return the end of a window that starts now. */
static int64_t window_end(const fast_trainer *t, const federated_server *k)
{
    FAST_ASSERT(k->c->window >= 0);
    return k->c->window > 0 ? fast__actor_time(t->actor) + (int64_t)(k->c->window * 1e9)
                            : INT64_MAX;
}

/* Wait for the next message of a device; *out is NULL if none arrives by the deadline, or soon. */
static fast_err await_message(fast_trainer *t, federated_server *k, int64_t deadline,
                              fast_msg **out)
{
    fast_actor *actor = t->actor;
    fast_err err = FAST_OK;

    FAST_ASSERT(*out == NULL);
    k->waiting = true;
    /* Held by a snapshot it waits for its end, from which on it looks at the clock again. */
    while (!err && fast__trainer_cut_held(t) &&
           !(*out = fast__take(actor, FAST_ANY, FEDERATED_UP))) {
        const fast_wait wait = { .waiting = true,
                                 .whom = FAST_ANY,
                                 .tag = FEDERATED_UP,
                                 .since = fast_now(actor),
                                 .deadline = fast__deadline(actor, FAST_SOON),
                                 .doing = "receive" };

        err = fast__wait_once(actor, &wait);
    }
    k->waiting = false;
    if (err || *out)
        return err == FAST_ETIMEDOUT ? FAST_OK : err;
    const int64_t time = fast__actor_time(actor);
    if (k->c->window > 0 && deadline == k->end && k->end > window_end(t, k))
        deadline = k->end = window_end(t, k); /* forged: no window is longer */
    /* The longer nobody reports, the less often it checks which devices are up. */
    const int64_t silence = (time - k->heard) / 64;
    const int64_t poll = silence > FEDERATED_POLL_NS ? silence : FEDERATED_POLL_NS;
    const int64_t left = deadline < INT64_MAX ? deadline - time : poll;
    int64_t soon = fast_now(actor) + (left < poll ? left : poll);
    /* Nobody has reported for long: the last wait suspects devices that do not answer. */
    if (time - k->heard >= (FAST_PATIENCE - 1) * actor->world->timeout_ns)
        soon = fast__patience(actor, 1);
    k->waiting = true;
    err = fast_receive(actor, FAST_ANY, FEDERATED_UP, soon, out);
    k->waiting = false;
    return err == FAST_ETIMEDOUT ? FAST_OK : err;
}

/* Receive the next message of a device, if one arrives by the deadline: a check-in, or a report,
 * which is a check-in too. */
static fast_err receive(fast_trainer *t, federated_server *k, int64_t deadline)
{
    fast_msg *msg = NULL;
    int64_t i;

    fast_err err = await_message(t, k, deadline, &msg);
    if (!msg)
        return err;
    i = fast__trainer_rank(t, msg->from);
    FAST_ASSERT(i >= 0 && i < t->workers);
    /* A device that checks in again while it waits says nothing new: the others may be cut off. */
    if (msg->words[FEDERATED_WORD_KIND] != FEDERATED_KIND_BACK || !k->present[i])
        k->heard = fast__actor_time(t->actor);
    if (msg->words[FEDERATED_WORD_KIND] == FEDERATED_KIND_HELLO &&
        k->to[i]) /* the device has no copy of z */
        fast_flow_reset(k->to[i]);
    if (msg->words[FEDERATED_WORD_KIND] == FEDERATED_KIND_REPORT && k->chosen[i] &&
        msg->words[FEDERATED_WORD_STEP] == k->step) {
        err = fast__federated_check(t, msg, k->to[t->workers] != NULL);
        if (!err && msg->words[FEDERATED_WORD_SAMPLES] < 1)
            err = fast__fail(FAST_EFORMAT, "a report of actor %lld is of no samples",
                             (long long)msg->from);
        if (!err)
            err = add_report(t, k, msg);
    }
    /* Every message checks the device in: it waits for the next model, or for when to come. */
    const bool leaves = k->c->pace && msg->words[FEDERATED_WORD_KIND] == FEDERATED_KIND_REPORT;
    k->present[i] = true;
    k->chosen[i] = k->away[i] = false;
    k->life[i] = msg->words[FEDERATED_WORD_LIFE];
    fast_msg_free(msg);
    return !err && leaves && k->step < t->step_count ? send_away(t, k, i) : err;
}

/* Selection: draw devices at random among those that wait, and send them z. */
static fast_err choose(fast_trainer *t, federated_server *k)
{
    const int64_t most = (int64_t)ceil(k->c->over * (double)wanted(k->c, t) - 1e-9);
    int64_t words[FEDERATED_WORDS] = { FEDERATED_KIND_MODEL, k->step, k->version, 0 };
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
        words[FEDERATED_WORD_LIFE] = k->life[device];
        err = fast__federated_send(t, t->worker_ids[device], FEDERATED_DOWN, words, k->to[device],
                                   &z);
        k->present[device] = false;
        k->chosen[device] = !err;
        if (err == FAST_EPEER)
            err = FAST_OK;
    }
    fast_buffer_free(z.packed);
    k->began = fast__actor_time(t->actor);
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

/* Selection: wait until K devices have checked in, or after the window `least` K. FAST_EPEER if no
 * device is left. */
static fast_err await_devices(fast_trainer *t, federated_server *k)
{
    if (k->end == 0)
        k->end = window_end(t, k);
    fast_actor_at(t->actor, k->step, "devices that check in");
    for (;;) {
        const int64_t up = count_up(t, NULL), here = count_up(t, k->present);
        const int64_t goal = wanted(k->c, t) < up ? wanted(k->c, t) : up;
        const bool late = fast__actor_time(t->actor) >= k->end;

        FAST_ASSERT(here <= up);
        if (fast__trainer_cut_held(t)) {
            FAST_TRY(receive(t, k, INT64_MAX));
            continue;
        }
        if (up == 0)
            return fast__fail(FAST_EPEER, "no device is left at step %lld", (long long)k->step);
        if (here >= goal || (late && here > 0 && (double)here >= k->c->least * (double)goal))
            return FAST_OK;
        FAST_TRY(receive(t, k, late ? INT64_MAX : k->end));
    }
}

/* Return whether the round waits for more reports. */
static bool lacks_reports(fast_trainer *t, const federated_server *k)
{
    FAST_ASSERT(k->reporting);
    return fast__trainer_cut_held(t) ||
           (k->reports < wanted(k->c, t) && count_up(t, k->chosen) > 0 &&
            fast__actor_time(t->actor) < k->end);
}

/* The server's round of the formula above. */
static fast_err hold_round(fast_trainer *t, federated_server *k)
{
    FAST_ASSERT(k->reports == 0 || k->reporting);
    if (!k->reporting) {
        FAST_TRY(await_devices(t, k));
        FAST_TRY(choose(t, k));
        k->end = window_end(t, k);
        k->reporting = true;
    }
    fast_actor_at(t->actor, k->step, "reports");
    while (lacks_reports(t, k))
        FAST_TRY(receive(t, k, k->end));
    k->reporting = false;
    k->end = 0;
    /* Selection is left out of the length: devices that come late would lengthen it, be told to
     * come later still, and never arrive in time again. The mean over about four rounds follows
     * changes of the devices' speed. */
    const double length = (double)(fast__actor_time(t->actor) - k->began);
    k->length = k->length > 0 ? 0.75 * k->length + 0.25 * length : length;
    return merge(t, k);
}

/* Send the last z to every device, also to those that left; a late device gets it when it checks
 * in. */
static fast_err dismiss(fast_trainer *t, federated_server *k)
{
    int64_t words[FEDERATED_WORDS] = { FEDERATED_KIND_OVER, t->step_count, k->version, 0 };
    federated_vector z = { .x = t->w, .shares = k->shares };
    fast_err err = FAST_OK;

    FAST_ASSERT(k->reports == 0);
    k->step = t->step_count; /* later reports belong to no round */
    while (!err && count_up(t, NULL) > 0) {
        for (int64_t i = 0; i < t->workers && !err; i++) {
            if ((!k->present[i] && !k->away[i]) || fast__trainer_cut_held(t))
                continue;
            k->present[i] = k->away[i] = false;
            words[FEDERATED_WORD_LIFE] = k->life[i];
            err = fast__federated_send(t, t->worker_ids[i], FEDERATED_DOWN, words, k->to[i], &z);
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
    while (k->step < t->step_count && !err) {
        err = hold_round(t, k);
        k->step += fast__federated_steps(k->c, t);
    }
    if (!err)
        err = dismiss(t, k);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Open a flow of a device at either end: of z (`down`), or of reports. NULL without codecs. */
fast_err fast__federated_flow(fast_trainer *t, int64_t worker, bool down, bool decodes,
                              fast_flow **out)
{
    const fast_flow_options how = {
        .number = down ? worker : t->workers, .values = down, .down = down, .decodes = decodes
    };

    FAST_ASSERT(worker >= 0 && worker <= t->workers);
    *out = NULL;
    return fast_trainer_codec_fit(t) == FAST_FIT_NONE ? FAST_OK : fast_trainer_flow(t, &how, out);
}

/* Return whether the server waits for messages, with nothing under way. */
static bool is_idle(const void *ctx)
{
    FAST_ASSERT(ctx != NULL);
    return ((const federated_server *)ctx)->waiting;
}

/* Have snapshots include the server's memory, with its numbers from `end` to `heard`. */
static fast_err remember_server(fast_trainer *t, federated_server *k)
{
    const size_t list = (size_t)t->workers * sizeof *k->life;
    const size_t numbers =
        offsetof(federated_server, heard) + sizeof k->heard - offsetof(federated_server, end);

    fast__trainer_cut_idle(t, is_idle, k);
    FAST_TRY(fast__trainer_remember(t, 0, &k->end, numbers));
    FAST_TRY(
        fast__trainer_remember(t, 1, k->sum, (size_t)(t->count + t->state_count) * sizeof *k->sum));
    FAST_TRY(fast__trainer_remember(t, 2, k->shares,
                                    2 * (size_t)fast_trainer_share_count(t) * sizeof *k->shares));
    FAST_TRY(fast__trainer_remember_flags(t, 3, k->present, t->workers));
    FAST_TRY(fast__trainer_remember_flags(t, 4, k->chosen, t->workers));
    FAST_TRY(fast__trainer_remember_flags(t, 5, k->away, t->workers));
    FAST_TRY(fast__trainer_remember(t, 6, k->life, list));
    FAST_TRY(fast__trainer_remember_flags(t, 7, &k->reporting, 1));
    FAST_TRY(fast__trainer_remember(t, 8, &k->reports, 3 * sizeof k->reports));
    FAST_TRY(fast__trainer_remember(t, 9, t->w, (size_t)t->count * sizeof *t->w));
    FAST_TRY(fast__trainer_remember(t, 10, t->s, (size_t)t->state_count * sizeof *t->s));
    FAST_ASSERT(t->servers == 1);
    return fast__trainer_check_saved(
        t, k->end >= 0 && k->began >= 0 && k->began < INT64_MAX / 4 && k->heard >= 0 &&
               k->heard < INT64_MAX / 4 && k->step >= 0 && k->step <= t->step_count &&
               k->version >= 0 && k->version < INT64_MAX / 4 && k->reports >= 0 &&
               k->reports <= (k->reporting ? t->workers : 0) && k->length >= 0);
}

/* Allocate the server's memory and coordinate. */
static fast_err server(fast_trainer *t, const void *config)
{
    federated_server k = { .c = config, .heard = fast__actor_time(t->actor), .step = t->step };
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
        err = fast__federated_flow(t, i, i < t->workers, i == t->workers, &k.to[i]);
    /* Here, because a run continues without a device that fails. */
    if (!err && k.c->subspace && !(k.to[t->workers] && fast__flow_projects(k.to[t->workers])))
        err = fast__fail(FAST_EINVAL,
                         "federated: subspace=yes trains in the space of a codec that has one; use "
                         "codec=structured, or leave it out");
    if (!err)
        err = remember_server(t, &k);
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

/* Forecast: each round waits for a model and its report. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const double period = (double)fast__federated_steps(config, t);

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
    .resumable = true,
    .uses_codec = true,
    .sends = "differences",
    .answers = "weights",
    .cost = cost,
    .exclusions = exclusions,
    .servers = servers,
    .worker = fast__federated_device,
    .server = server,
};
