/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: gossip through lossy codecs, after CHOCO-SGD (Koloskova, Stich and Jaggi 2019). Worker i
 * stores h_i, the copy of its weights x_i that its neighbours hold, and the copies h_j of theirs.
 *
 *     send     q_i = s C(x_i - h_i),   h_i <- h_i + q_i          at i and at its neighbours
 *     mix      x_i <- x_i + sum_j gamma_ij w_ij (h_j - h_i)
 *
 * With w_ij = w_ji and gamma_ij = gamma_ji the sum of all x is conserved for any loss of C, because
 * the moves of i and j along a link are opposite. If C is lossless, h_i = x_i and with gamma = 1
 * this is x_i <- sum_j w_ij x_j. The loss of one encoding is part of the next difference.
 *
 * gamma. Let a message reduce its difference to the fraction r = |x - h| after / before. An error
 * that is noise grows in h by (1 + gamma l) r from one message to the next, where l, an eigenvalue
 * of 1 - W, is below 2; with masses (push-sum) by r / (1 - gamma). Both stay below 1 with
 *
 *     gamma = (1 - r) / (1 + r)
 *
 * which each sender measures for each message and sends along; both ends use the smaller of their
 * two values. The paper's constant gamma is an option.
 *
 * The first message to a worker has all of x, without the codec.
 *
 * If all neighbours get all messages, one encoding serves all. If not, because the graph changes or
 * links are dropped, each link has a copy of its own at both ends: h_ij instead of h_i.
 *
 * Cost: one encoding, or one for each link, and a decoding for each message. Memory: a vector for
 * each worker that sends here and for each flow out. For a graph that repeats they are allocated
 * before the first step. With random neighbours each is allocated at its first use, because most
 * pairs may never exchange.
 */
#include "strategy/links.h"

#include "base/err.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

fast_err fast__links_init(fast_trainer *t, bool per_receiver, bool synchronous, double gamma,
                          fast_links *out)
{
    const fast_codec_fit codes = fast_trainer_codec_fit(t);
    fast_err err;

    FAST_ASSERT(t->workers >= 1 && gamma >= 0 && gamma <= 1);
    *out = (fast_links){
        .t = t, .coded = codes != FAST_FIT_NONE, .differ = codes > FAST_FIT_LOSSLESS, .gamma = gamma
    };
    out->per_receiver = per_receiver && out->differ;
    /* Without differences one flow serves all workers. */
    const int64_t count = out->differ ? t->workers : 1;
    err = fast__alloc("flows to workers", count, sizeof(fast_flow *), &out->out);
    if (!err)
        err = fast__alloc("flows from workers", count, sizeof(fast_flow *), &out->in);
    if (!err && synchronous)
        err = fast__alloc("flows in use", count, sizeof *out->started, &out->owned);
    else if (!err)
        err = fast_trainer_persist(t, FAST_LINKS_BLOCK, (size_t)count * sizeof *out->started,
                                   (void **)&out->started);
    out->started = synchronous ? out->owned : out->started;
    if (!err && out->differ)
        err = fast__alloc("contributions", fast_trainer_share_count(t), sizeof *out->shares,
                          &out->shares);
    for (int64_t i = 0; !err && i < count && (synchronous || !fast_trainer_resumed(t)); i++)
        out->started[i] = synchronous;
    if (err)
        fast__links_fini(out);
    return err;
}

void fast__links_fini(fast_links *l)
{
    FAST_ASSERT(l != NULL);
    fast__free(l->out);
    fast__free(l->in);
    fast__free(l->owned);
    fast__free(l->shares);
    *l = (fast_links){ 0 };
}

/* Find the flow to a worker. Its first message is complete, unless the receiver still has a copy of
 * an earlier call of the run. */
static fast_err flow_to(fast_links *l, int64_t rank, fast_flow **out)
{
    const int64_t i = l->per_receiver ? rank : 0;
    const fast_flow_options options = { .number = i, .values = true };

    FAST_ASSERT(l->coded && rank >= 0 && rank < l->t->workers);
    if (!l->out[i])
        FAST_TRY(fast_trainer_flow(l->t, &options, &l->out[i]));
    if (!l->started[i])
        fast_flow_reset(l->out[i]);
    l->started[i] = true;
    *out = l->out[i];
    return FAST_OK;
}

/* Find the flow from a worker. */
static fast_err flow_from(fast_links *l, int64_t rank, fast_flow **out)
{
    const int64_t i = l->differ ? rank : 0;
    const fast_flow_options options = { .number = i, .values = true, .decodes = true };

    FAST_ASSERT(l->coded && rank >= 0 && rank < l->t->workers);
    if (!l->in[i])
        FAST_TRY(fast_trainer_flow(l->t, &options, &l->in[i]));
    *out = l->in[i];
    return FAST_OK;
}

/* The flow is created as at its first use. */
fast_err fast__links_reserve(fast_links *l, int64_t rank, bool in)
{
    fast_flow *flow;

    FAST_ASSERT(rank >= 0 && rank < l->t->workers);
    if (!l->coded)
        return FAST_OK;
    return in ? flow_from(l, rank, &flow) : flow_to(l, rank, &flow);
}

fast_err fast__links_pack(fast_links *l, int64_t rank, const float *x, fast_buffer **out,
                          size_t *size_out, double *gamma_out)
{
    fast_flow *flow = NULL;

    if (l->coded)
        FAST_TRY(flow_to(l, rank, &flow));
    FAST_TRY(fast__replica_pack(l->t, flow, x, out, size_out));
    if (l->differ)
        memcpy(l->shares, fast_trainer_model(l->t).shares,
               (size_t)fast_trainer_share_count(l->t) * sizeof *l->shares);
    const double rest = l->differ ? sqrt(fmax(0, 1 - fast_flow_sent_fraction(flow))) : 0;
    *gamma_out = l->differ && l->gamma > 0 ? l->gamma : (1 - rest) / (1 + rest);
    FAST_ASSERT(*gamma_out >= 0 && *gamma_out <= 1);
    return FAST_OK;
}

fast_err fast__links_msg(fast_links *l, uint64_t tag, double mass, double gamma,
                         fast_buffer *buffer, size_t size, fast_msg **out)
{
    FAST_ASSERT(gamma >= 0 && gamma <= 1);
    FAST_TRY(fast__replica_msg(l->t, tag, mass, buffer, size, out));
    memcpy(&(*out)->words[FAST_REPLICA_GAMMA], &gamma, sizeof gamma);
    return FAST_OK;
}

double fast__links_gamma(const fast_msg *msg)
{
    double gamma;

    FAST_ASSERT(msg != NULL);
    memcpy(&gamma, &msg->words[FAST_REPLICA_GAMMA], sizeof gamma);
    return gamma;
}

fast_err fast__links_open(fast_links *l, int64_t rank, const fast_msg *msg, fast_replica *out)
{
    fast_flow *flow;

    FAST_ASSERT(rank >= 0 && rank < l->t->workers);
    FAST_TRY(fast__replica_open(l->t, l->coded, msg, out));
    if (!l->coded)
        return FAST_OK;
    FAST_TRY(flow_from(l, rank, &flow));
    return fast_trainer_decode_values(l->t, flow, out->coded, out->coded_size, &out->x);
}

const float *fast__links_held(const fast_links *l, int64_t rank)
{
    const fast_flow *flow = l->out[l->per_receiver ? rank : 0];

    FAST_ASSERT(l->differ && flow != NULL);
    return fast_flow_receiver_copy(flow);
}

const float *fast__links_known(const fast_links *l, int64_t rank)
{
    FAST_ASSERT(l->differ && l->in[rank] != NULL);
    return fast_flow_receiver_copy(l->in[rank]);
}

/* With one flow for all receivers the next message is complete for all of them. */
void fast__links_renew(fast_links *l, int64_t rank)
{
    FAST_ASSERT(rank >= 0 && rank < l->t->workers);
    l->started[l->per_receiver ? rank : 0] = false;
}

/* x = w, the neighbour's x, the held copy:  w += a (x - held) */
static void run_mix_difference(const void *ctx, int64_t n, float *const *x)
{
    const float a = *(const float *)ctx;

    FAST_ASSERT(x[0] != x[1] && x[0] != x[2]);
    for (int64_t i = 0; i < n; i++)
        x[0][i] += a * (x[1][i] - x[2][i]);
}

static const fast_kernel mix_difference = { "mix", 3, 16, 3, 1, false, run_mix_difference };

fast_err fast__links_mix(fast_links *l, int64_t rank, double own, const fast_replica *model,
                         double other)
{
    fast_trainer *t = l->t;
    const fast_vector held = { .x = (float *)(uintptr_t)fast__links_held(l, rank),
                               .shares = l->shares,
                               .age = -1 };

    FAST_ASSERT(l->differ && model->x != NULL);
    FAST_TRY(fast__replica_mix_rest(t, own, model, other));
    return fast_trainer_apply(
        t, &mix_difference, &(float){ (float)other },
        (fast_vector[]){ fast_trainer_model(t), fast__replica_vector(model), held });
}
