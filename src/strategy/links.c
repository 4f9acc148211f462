/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: gossip through codecs that lose something. After CHOCO-SGD (Koloskova, Stich and Jaggi
 * 2019): worker i keeps h_i, what its neighbours hold of its weights x_i, and h_j of each of them.
 *
 *     send     q_i = s C(x_i - h_i),   h_i <- h_i + q_i          at i and at its neighbours
 *     mix      x_i <- x_i + sum_j gamma_ij w_ij (h_j - h_i)
 *
 * With w_ij = w_ji and gamma_ij = gamma_ji the sum of all x stays as it is, however much C loses:
 * what i is given is what j gives. If C loses nothing, h_i is x_i and this is x_i <- sum_j w_ij x_j
 * with gamma 1. What C loses is in the next difference.
 *
 * gamma. If each message leaves r = |x - h| after / before of its difference, an error that is
 * noise grows in h by (1 + gamma l) r from one message to the next, where l, an eigenvalue of
 * 1 - W, is below 2; and where mass travels (push), by r / (1 - gamma). Both stay below 1 with
 *
 *     gamma = (1 - r) / (1 + r)
 *
 * which each sender measures at each message and sends along; the smaller one of both ends counts.
 * The paper's constant is an option.
 *
 * The first message to a worker has all of x, as it is.
 *
 * Where all neighbours get all messages, one encoding serves all. Where they do not, because the
 * graph changes or links are dropped, each link has an h of its own at both ends; the formulas stay
 * the same, with h_ij instead of h_i.
 *
 * Cost: the codec's for each encoding, a decoding for each message. Memory: a vector for each
 * worker that one hears of, and for each flow that one sends. Those of a graph that repeats are
 * taken before the first step; where chance chooses whom one meets, each when it is first used:
 * most of all pairs may never meet.
 */
#include "strategy/links.h"

#include "base/err.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

fast_err fast__links_init(fast_trainer *t, bool apart, bool sure, double gamma, fast_links *out)
{
    const fast_codec_fit codes = fast_trainer_codec_fit(t);
    fast_err err;

    *out = (fast_links){
        .t = t, .coded = codes != FAST_FIT_NONE, .differ = codes > FAST_FIT_LOSSLESS, .gamma = gamma
    };
    out->apart = apart && out->differ;
    err = fast__alloc("flows to workers", t->workers, sizeof(fast_flow *), &out->out);
    if (!err)
        err = fast__alloc("flows from workers", t->workers, sizeof(fast_flow *), &out->in);
    if (!err)
        err = fast__alloc("flows that began", t->workers, sizeof *out->begun, &out->begun);
    for (int64_t i = 0; !err && i < t->workers; i++)
        out->begun[i] = sure;
    if (err)
        fast__links_fini(out);
    return err;
}

void fast__links_fini(fast_links *l)
{
    fast__free(l->out);
    fast__free(l->in);
    fast__free(l->begun);
    *l = (fast_links){ 0 };
}

/* The flow to a worker. What was sent in another call of the run need not have arrived. */
static fast_err flow_to(fast_links *l, int64_t rank, fast_flow **out)
{
    const int64_t i = l->apart ? rank : 0;
    const fast_flow_options options = { .number = i, .values = true };

    if (!l->out[i])
        FAST_TRY(fast_trainer_flow(l->t, &options, &l->out[i]));
    if (!l->begun[i])
        fast_flow_reset(l->out[i]);
    l->begun[i] = true;
    *out = l->out[i];
    return FAST_OK;
}

static fast_err flow_from(fast_links *l, int64_t rank, fast_flow **out)
{
    const int64_t i = l->differ ? rank : 0;
    const fast_flow_options options = { .number = i, .values = true, .decodes = true };

    if (!l->in[i])
        FAST_TRY(fast_trainer_flow(l->t, &options, &l->in[i]));
    *out = l->in[i];
    return FAST_OK;
}

fast_err fast__links_reserve(fast_links *l, int64_t rank, bool in)
{
    fast_flow *flow;

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
    const double rest = l->differ ? sqrt(fmax(0, 1 - fast_flow_sent_fraction(flow))) : 0;
    *gamma_out = l->differ && l->gamma > 0 ? l->gamma : (1 - rest) / (1 + rest);
    return FAST_OK;
}

fast_err fast__links_msg(fast_links *l, uint64_t tag, double mass, double gamma,
                         fast_buffer *buffer, size_t size, fast_msg **out)
{
    FAST_TRY(fast__replica_msg(l->t, tag, mass, buffer, size, out));
    memcpy(&(*out)->words[FAST_REPLICA_GAMMA], &gamma, sizeof gamma);
    return FAST_OK;
}

double fast__links_gamma(const fast_msg *msg)
{
    double gamma;

    memcpy(&gamma, &msg->words[FAST_REPLICA_GAMMA], sizeof gamma);
    return gamma;
}

fast_err fast__links_open(fast_links *l, int64_t rank, const fast_msg *msg, fast_replica *out)
{
    fast_flow *flow;

    FAST_TRY(fast__replica_open(l->t, l->coded, msg, out));
    if (!l->coded)
        return FAST_OK;
    FAST_TRY(flow_from(l, rank, &flow));
    return fast_trainer_decode_values(l->t, flow, out->coded, out->coded_size, &out->x);
}

const float *fast__links_held(const fast_links *l, int64_t rank)
{
    const fast_flow *flow = l->out[l->apart ? rank : 0];

    FAST_ASSERT(l->differ && flow != NULL);
    return fast_flow_receiver_copy(flow);
}

const float *fast__links_known(const fast_links *l, int64_t rank)
{
    FAST_ASSERT(l->differ && l->in[rank] != NULL);
    return fast_flow_receiver_copy(l->in[rank]);
}

void fast__links_renew(fast_links *l, int64_t rank)
{
    l->begun[l->apart ? rank : 0] = false;
}

/* w += a (x - held) */
static void run_mix_difference(const void *ctx, int64_t n, float *const *x)
{
    const float a = *(const float *)ctx;

    for (int64_t i = 0; i < n; i++)
        x[0][i] += a * (x[1][i] - x[2][i]);
}

static const fast_kernel mix_difference = { "mix", 3, 16, 3, 1, false, run_mix_difference };

fast_err fast__links_mix(fast_links *l, int64_t rank, double keep, const fast_replica *model,
                         double take)
{
    fast_trainer *t = l->t;
    fast_vector held = fast_trainer_model(t); /* the receiver's copy holds the same updates */

    held.x = (float *)(uintptr_t)fast__links_held(l, rank);
    FAST_TRY(fast__replica_mix_rest(t, keep, model, take));
    return fast_trainer_apply(
        t, &mix_difference, &(float){ (float)take },
        (fast_vector[]){ fast_trainer_model(t), fast__replica_vector(model), held });
}
