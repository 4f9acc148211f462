/* SPDX-License-Identifier: Apache-2.0 */
/*
 * partial: asynchronous exchange of parts of gradients or models.
 *
 *   how=scatter   every `period` steps x_i is sent to the neighbours of the topology; the newest
 *                 message of each sender is mixed in once:
 *                 sends=weights    w_i <- (w_i + sum of n new w_j) / (1 + n), after the update
 *                 sends=gradients  g_i <- (g_i + sum of n new g_j) / (1 + n), before it
 *                 With slack s a worker waits until each neighbour that is up has sent round r - s.
 *   how=parts     gradients are accumulated in d_i, which is cut into p parts; step t sends part
 *                 t mod p of it to all workers and clears that part:
 *                 w_i <- rule(w_i, (g_i + all parts that arrived since the last update) / P)
 *   how=states    every `period` steps a random range of w_i is sent to a random neighbour. With u
 *                 the weights before the own update and v after it, a state x that arrived is
 *                 merged if |v - x| < |u - x|, that is, if the own step moves towards it:
 *                 w_i <- v + e (x - u) / 2, u <- u + e (x - u) / 2
 *                 with e = 1, or the learning rate (scaled=yes)
 *
 * scatter is MALT (Li et al. 2015), on `halton` or `full`; slack=0 is its bulk synchronous form.
 * parts is Ako (Watcharapichat et al. 2016): p follows from the bandwidth B of a worker, its steps
 * per second f and the model's bytes m: p = ceil(m (P - 1) f / B); B is measured unless given. Late
 * parts accumulate and are not lost: with plain SGD and a constant learning rate all replicas are
 * equal up to rounding once all parts have arrived (flush), in any order. Unlike in Ako, every
 * gradient counts 1/P, so that learning rates mean the same as in other strategies. states is ASGD
 * (Keuper and Pfreundt 2015) with its Parzen window test and, with scaled=yes, its formula.
 *
 * With a codec, each part has its own flow, whose residual is added to the next encoding of that
 * part. A worker's own replica subtracts the part of its gradient that was not sent, so that
 * replicas are equal at the end with any codec; the last residuals are lost. Both ends must know
 * the parts, so p must be given. Weights of scatter are sent as differences (links.c). States are
 * sent as values, because a random receiver holds no copy.
 *
 * Cost per worker and step: scatter: degree / period models; parts: (P - 1) / p models; states:
 * part / period models. Memory: scatter: a message for each neighbour; parts: two vectors;
 * states: one vector.
 */
#include "strategy/partial.h"

#include "base/err.h"
#include "base/memory.h"
#include "comm/collective.h"
#include "comm/cost_model.h"
#include "strategy/vector_kernels.h"
#include "tensor/vector.h"
#include "trainer/part.h"
#include "trainer/remember.h"

#include <math.h>
#include <string.h>

/* Members, as the option `how` numbers them. */
enum { SCATTER, PARTS, STATES };

/* First steps, by which a worker measures its steps per second. */
enum { MEASURED_STEPS = 4 };

/* Largest p that is derived from the bandwidth. */
enum { PARTS_MAX = 4096 };

static const fast_option options[] = {
    FAST_OPT_CHOICE(
        fast_partial_config, how, "parts", "scatter|parts|states",
        "scatter: all of x to the neighbours; parts: a part of the gradient to all workers; "
        "states: a range of the model to a random neighbour"),
    FAST_OPT_INT(fast_partial_config, period, "1", 1, 1e12, "scatter, states: steps between sends"),
    FAST_OPT_CHOICE(fast_partial_config, sends, "weights", "weights|gradients",
                    "scatter: send weights or gradients"),
    FAST_OPT_INT(fast_partial_config, queue, "1", 1, 1000,
                 "scatter: messages of each sender that wait to be mixed; older ones are dropped"),
    FAST_OPT_INT(
        fast_partial_config, slack, "-1", -1, 1e12,
        "scatter: rounds that a neighbour may be behind before a worker waits; -1: no bound"),
    FAST_OPT_INT(fast_partial_config, parts, "4", 0, 1e12,
                 "parts: number of parts of the gradient, one sent at each step; 0: derived from "
                 "the bandwidth"),
    FAST_OPT_REAL(
        fast_partial_config, bandwidth, "0", 0, 1e15,
        "parts: bytes per second that a worker may send, for parts=0; 0: as its link is measured"),
    FAST_OPT_REAL(fast_partial_config, part, "0.5", 1e-9, 1,
                  "states: fraction of the parameters in a message"),
    FAST_OPT_BOOL(fast_partial_config, window, "yes",
                  "states: merge a state only if the own step moves towards it (Parzen window)"),
    FAST_OPT_BOOL(fast_partial_config, scaled, "no",
                  "states: scale the way to a state by the learning rate, as a gradient"),
    FAST_OPT_BOOL(fast_partial_config, flush, "yes",
                  "parts: wait for gradients in flight at the end and apply them"),
    FAST_LINKS_GAMMA(fast_partial_config),
    FAST_OPT_END,
};

/* Return the first element of part i of p. */
static int64_t part_offset(const fast_partial *sh, int64_t i)
{
    FAST_ASSERT(i >= 0 && i <= sh->parts);
    return sh->t->count * i / sh->parts;
}

int64_t fast__partial_age(const fast_partial *sh, const fast_msg *msg)
{
    const int64_t age = sh->t->step - msg->words[FAST_PARTIAL_STEP];

    FAST_ASSERT(sh->t->step >= 0);
    return age > 0 ? age : 0;
}

/*
 * Parts. A gradient is in two places: in `due`, with the parts that arrived, until the next update,
 * and in `sum`, d of the formula, until its parts are sent:
 *
 *     g --+--> due --> update        once, at this step
 *         +--> sum --> part t mod p  to all other workers, within p steps
 */

/* Find which of `parts` equal parts a message has, by its offset and count. FAST_EFORMAT. */
static fast_err find_part(const fast_partial *sh, const fast_msg *msg, int64_t parts, int64_t *out)
{
    const int64_t n = sh->t->count, offset = msg->words[FAST_PARTIAL_OFFSET];

    FAST_ASSERT(parts > 0);
    for (int64_t i = 0; i < parts; i++)
        if (n * i / parts == offset &&
            n * (i + 1) / parts - offset == msg->words[FAST_PARTIAL_COUNT]) {
            *out = i;
            return FAST_OK;
        }
    return fast__fail(FAST_EFORMAT, "worker %lld sent a range that fits no one of %lld parts",
                      (long long)msg->from, (long long)parts);
}

/* Decode a part and add it to `due`. */
static fast_err take_coded(fast_partial *sh, const fast_msg *msg)
{
    int64_t i;

    FAST_ASSERT(sh->flows != NULL);
    FAST_TRY(find_part(sh, msg, sh->parts, &i));
    return fast_trainer_decode(sh->t, sh->flows[i], fast_msg_data(msg, 0), msg->parts[0].size, 1,
                               sh->due + msg->words[FAST_PARTIAL_OFFSET]);
}

/* due <- due + x. x is NULL where a decoder has added the values already. Not charged: the pass
 * overlaps that of the gradient. */
static void run_gather(const void *ctx, int64_t n, float *const *x)
{
    FAST_ASSERT(x[0] != NULL);
    if (x[1])
        fast__run_add(ctx, n, x);
}
static const fast_kernel add_due = { "sum of gradients", 0, 0, 2, 1, false, run_gather };

/* Add a part that arrived to the next update. */
static fast_err take_part(void *ctx, fast_msg **move)
{
    fast_partial *sh = ctx;
    const fast_msg *msg = *move;
    fast_trainer *t = sh->t;
    const int64_t offset = msg->words[FAST_PARTIAL_OFFSET];
    const int64_t count = msg->words[FAST_PARTIAL_COUNT];

    FAST_ASSERT(msg->part_count > 0);
    if (offset < 0 || count < 0 || count > t->count || offset > t->count - count ||
        (!sh->flows && msg->parts[0].size != (size_t)count * sizeof(float)))
        return fast__fail(FAST_EFORMAT, "worker %lld sent a part that does not fit %lld parameters",
                          (long long)msg->from, (long long)t->count);
    if (sh->flows)
        FAST_TRY(take_coded(sh, msg));
    /* A part holds the gradients of all steps since it was sent last: as many whole gradients of
     * the sender, of which apply_range() counts the fraction of the range. */
    fast_trainer_shares_of(t, fast__trainer_rank(t, msg->from), sh->shares);
    for (int64_t i = 0; i < fast_trainer_share_count(t); i++)
        sh->shares[i] *= (double)msg->words[FAST_PARTIAL_GRADIENTS];
    sh->due_count++;
    return fast_trainer_apply_range(
        t, &add_due, NULL,
        (fast_vector[]){ { .x = sh->due + offset, .shares = sh->due_shares, .age = -1 },
                         { .x = sh->flows ? NULL : (float *)(uintptr_t)fast_msg_data(msg, 0),
                           .shares = sh->shares,
                           .age = fast__partial_age(sh, msg) } },
        1, count);
}

/* Pack `count` floats into a new frozen buffer, encoded if `flow` is not NULL. */
static fast_err pack(fast_trainer *t, fast_flow *flow, const float *x, int64_t count,
                     fast_buffer **out, size_t *size_out)
{
    FAST_ASSERT(count > 0);
    FAST_TRY(fast__floats_pack(t, flow, 0, x, count, out, size_out));
    fast_buffer_freeze(*out);
    return FAST_OK;
}

/* With a lossy codec the other workers decode other values than the own replica applied: replace
 * those by the decoded ones in the next update, so that replicas become equal. */
static fast_err subtract_residual(fast_partial *sh, fast_flow *flow, fast_buffer *buffer,
                                  size_t size, int64_t offset, int64_t count)
{
    FAST_ASSERT(offset >= 0 && offset + count <= sh->t->count);
    if (fast_trainer_codec_fit(sh->t) <= FAST_FIT_LOSSLESS)
        return FAST_OK;
    fast__vector_axpy(count, -1, sh->sum + offset, sh->due + offset);
    sh->due_count++;
    return fast_trainer_decode(sh->t, flow, fast_buffer_data(buffer), size, 1, sh->due + offset);
}

/* Create the message of part i in a packed buffer. */
static fast_err part_msg(fast_partial *sh, int64_t i, fast_buffer *buffer, size_t size,
                         fast_msg **out)
{
    FAST_ASSERT(sh->summed[i] > 0);
    FAST_TRY(fast_msg_new(sh->t->actor, FAST_TAG_MODEL, out));
    fast_msg_add_view(*out, buffer, 0, size);
    (*out)->words[FAST_PARTIAL_STEP] = sh->t->step;
    (*out)->words[FAST_PARTIAL_OFFSET] = part_offset(sh, i);
    (*out)->words[FAST_PARTIAL_COUNT] = part_offset(sh, i + 1) - part_offset(sh, i);
    (*out)->words[FAST_PARTIAL_GRADIENTS] = sh->summed[i];
    return FAST_OK;
}

/* Send part i of the accumulated gradients to all other workers and clear it. */
static fast_err send_part(fast_partial *sh, int64_t i)
{
    fast_trainer *t = sh->t;
    const int64_t offset = part_offset(sh, i);
    const int64_t count = part_offset(sh, i + 1) - offset;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;
    size_t size;

    FAST_ASSERT(i >= 0 && i < sh->parts);
    if (sh->summed[i] == 0 || count == 0)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "gradient");
    FAST_TRY(pack(t, sh->flows ? sh->flows[i] : NULL, sh->sum + offset, count, &buffer, &size));
    for (int64_t k = 1; k < t->workers && !err; k++) {
        fast_msg *msg = NULL;

        err = part_msg(sh, i, buffer, size, &msg);
        if (!err)
            err = fast_send(t->actor, t->worker_ids[(t->rank + k) % t->workers], &msg);
        if (fast__is_peers(err))
            err = FAST_OK;
    }
    if (!err && sh->flows)
        err = subtract_residual(sh, sh->flows[i], buffer, size, offset, count);
    fast_buffer_free(buffer);
    fast__vector_fill(count, 0, sh->sum + offset);
    sh->summed[i] = 0;
    return err;
}

/* Measure the seconds of a byte on the link between two workers, before the first step. */
static fast_err measure_link(fast_partial *sh)
{
    fast_group *group = sh->t->group;

    FAST_ASSERT(group != NULL);
    sh->byte_s = sh->c->bandwidth > 0 ? 1 / sh->c->bandwidth : 0;
    if (sh->c->how != PARTS || sh->c->parts > 0 || sh->c->bandwidth > 0 || sh->t->workers == 1 ||
        sh->t->step > 0 || fast_trainer_resumed(sh->t) || fast_actor_life(sh->t->actor) > 0)
        return FAST_OK;
    FAST_TRY(fast__model_fit(group, FAST_SOON));
    sh->byte_s = group->cost ? group->cost->beta : 0;
    return FAST_OK;
}

/* Choose p by the measured speed; until then p is 1. */
static void choose_parts(fast_partial *sh)
{
    const fast_trainer *t = sh->t;
    const double seconds = (double)(fast_now(t->actor) - sh->start_ns) * 1e-9 / MEASURED_STEPS;
    const double bytes = (double)(t->workers - 1) * (double)t->count * sizeof(float);
    const double parts = seconds > 0 ? ceil(bytes / seconds * sh->byte_s) : 1;

    FAST_ASSERT(sh->parts_max >= 1);
    sh->parts = parts < 1 ? 1 : parts > (double)sh->parts_max ? sh->parts_max : (int64_t)parts;
}

/* Update by the own gradient and all parts that arrived. */
static fast_err apply_due(fast_partial *sh)
{
    fast_trainer *t = sh->t;
    const fast_vector due = { .x = sh->due, .shares = sh->due_shares, .age = -1 };

    FAST_ASSERT(due.x != NULL && due.shares != NULL);
    FAST_TRY(fast_trainer_update_by(t, &due, 1 / (float)t->workers));
    fast__vector_fill(t->count, 0, sh->due);
    memset(sh->due_shares, 0, (size_t)fast_trainer_share_count(t) * sizeof *sh->due_shares);
    sh->due_count = 0;
    return FAST_OK;
}

/* A step of `parts`: update by all gradients that are due, then send part t mod p. */
static fast_err step_parts(fast_partial *sh)
{
    fast_trainer *t = sh->t;

    FAST_ASSERT(sh->parts >= 1 && sh->parts <= sh->parts_max);
    FAST_TRY(fast__intake_poll(&sh->in));
    FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
    /* The own gradient counts in this step, and waits in d until its parts are sent. */
    fast__vector_add(t->count, t->g, sh->sum);
    for (int64_t i = 0; i < sh->parts; i++)
        sh->summed[i]++;
    FAST_TRY(
        fast_trainer_apply(t, &add_due, NULL,
                           (fast_vector[]){ { .x = sh->due, .shares = sh->due_shares, .age = -1 },
                                            fast_trainer_grad(t) }));
    FAST_TRY(apply_due(sh));
    FAST_TRY(send_part(sh, t->step % sh->parts));
    /* p changes once, here. A part has its offset and count with it, so that receivers need not
     * know p without codecs. */
    if (sh->c->parts == 0 && t->step == MEASURED_STEPS)
        choose_parts(sh);
    return FAST_OK;
}

/*
 * States. A message has two parts: a range of the sender's weights, and its contributions. `sum`
 * has u, the weights before the own update, and `shares` the contributions of u; a merge moves
 * both, so that several states of one step are merged one after the other.
 */

static size_t shares_size(const fast_trainer *t)
{
    FAST_ASSERT(t->workers >= 1);
    return (size_t)fast_trainer_share_count(t) * sizeof(double);
}

/* x = w, u, other:  w += e (other - u) / 2, u += e (other - u) / 2; *ctx is e / 2. */
static void run_merge(const void *ctx, int64_t n, float *const *x)
{
    const float *half = ctx;

    FAST_ASSERT(x[0] != x[1]);
    for (int64_t i = 0; i < n; i++) {
        const float way = *half * (x[2][i] - x[1][i]);

        x[0][i] += way;
        x[1][i] += way;
    }
}
static const fast_kernel merge = { "merge", 9, 20, 3, 2, false, run_merge };

/* Parzen window: true if the own step from u to w moves towards the state x. */
static bool moves_towards(const fast_partial *sh, const float *x, int64_t offset, int64_t count)
{
    double before = 0;
    double after = 0;

    FAST_ASSERT(offset >= 0 && offset + count <= sh->t->count);
    /* Both distances in one pass, added in the order of elements. */
    const float *u = fast__map(sh->sum + offset, count, FAST_ACCESS_READ);
    const float *w = fast__map(sh->t->w + offset, count, FAST_ACCESS_READ);
    const float *to = fast__map(x, count, FAST_ACCESS_READ);
    for (int64_t i = 0; i < count; i++) {
        const double from_u = (double)u[i] - (double)to[i];
        const double from_w = (double)w[i] - (double)to[i];

        before += from_u * from_u;
        after += from_w * from_w;
    }
    fast__unmap(x, count, FAST_ACCESS_READ);
    fast__unmap(sh->t->w + offset, count, FAST_ACCESS_READ);
    fast__unmap(sh->sum + offset, count, FAST_ACCESS_READ);
    return after < before;
}

/* Merge a range of another worker's weights, if it passes the window. */
static fast_err take_state(void *ctx, fast_msg **move)
{
    fast_partial *sh = ctx;
    const fast_msg *msg = *move;
    fast_trainer *t = sh->t;
    const int64_t offset = msg->words[FAST_PARTIAL_OFFSET];
    const int64_t count = msg->words[FAST_PARTIAL_COUNT];
    const float *x = fast_msg_data(msg, 0);

    FAST_ASSERT(msg->part_count > 0);
    if (offset < 0 || count < 0 || count > t->count || offset > t->count - count ||
        msg->part_count != 2 || msg->parts[1].size != shares_size(t) ||
        (!sh->flows_in && msg->parts[0].size != (size_t)count * sizeof(float)))
        return fast__fail(FAST_EFORMAT,
                          "worker %lld sent a state that does not fit %lld parameters",
                          (long long)msg->from, (long long)t->count);
    if (sh->flows_in) {
        int64_t i;

        FAST_TRY(find_part(sh, msg, sh->flow_count, &i));
        FAST_TRY(fast_trainer_decode_values(t, sh->flows_in[i], x, msg->parts[0].size, &x));
    }
    if (sh->c->window && !moves_towards(sh, x, offset, count))
        return FAST_OK;
    fast_vector w = fast_trainer_model(t);
    const fast_vector before = { .x = sh->sum + offset, .shares = sh->shares, .age = -1 };
    const fast_vector other = { .x = (float *)(uintptr_t)x,
                                .shares = (double *)(uintptr_t)fast_msg_data(msg, 1),
                                .age = fast__partial_age(sh, msg) };

    w.x += offset;
    const float half = 0.5f * (sh->c->scaled ? (float)t->lr : 1);

    return fast_trainer_apply_range(t, &merge, &half, (fast_vector[]){ w, before, other }, 1,
                                    count);
}

/* Return the number of equal ranges that a state is one of: 1 / part, rounded up. */
static int64_t range_count(const fast_partial_config *c)
{
    FAST_ASSERT(c->part > 0 && c->part <= 1);
    return (int64_t)ceil(1 / c->part);
}

/* Send a random one of 1 / part equal ranges of w to a random neighbour. */
static fast_err send_state(fast_partial *sh)
{
    fast_trainer *t = sh->t;
    const int64_t ranges = range_count(sh->c);
    const int64_t rank = fast__neighbour_pick(t);
    const int64_t i = (int64_t)(fast_random(t->actor) % (uint64_t)ranges);
    const int64_t offset = t->count * i / ranges;
    const int64_t count = t->count * (i + 1) / ranges - offset;
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    fast_err err;
    size_t size;

    FAST_ASSERT(count >= 0);
    /* No neighbour is up, or the model has fewer parameters than ranges. */
    if (rank < 0 || count == 0)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "weights");
    FAST_TRY(pack(t, sh->flows ? sh->flows[i] : NULL, t->w + offset, count, &buffer, &size));
    err = fast__replica_msg(t, FAST_TAG_MODEL, 0, buffer, size, &msg);
    fast_buffer_free(buffer);
    FAST_TRY(err);
    /* Contributions have a buffer of their own: an encoded range has no fixed size. */
    err = fast_buffer_new(t->actor, shares_size(t), &buffer);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    memcpy(fast_buffer_data(buffer), fast_trainer_model(t).shares, shares_size(t));
    fast_msg_add(msg, &buffer);
    msg->words[FAST_PARTIAL_OFFSET] = offset;
    msg->words[FAST_PARTIAL_COUNT] = count;
    err = fast_send(t->actor, t->worker_ids[rank], &msg);
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* A step of `states`: update, merge the states that arrived, and send one in each period. */
static fast_err step_states(fast_partial *sh)
{
    fast_trainer *t = sh->t;

    FAST_ASSERT(sh->sum != NULL);
    FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
    fast__vector_copy(t->count, t->w, sh->sum);
    memcpy(sh->shares, fast_trainer_model(t).shares, shares_size(t)); /* those of u */
    FAST_TRY(fast_trainer_update(t, t->g, 1));
    FAST_TRY(fast__intake_poll(&sh->in));
    return t->step % sh->c->period == 0 ? send_state(sh) : FAST_OK;
}

/* All members. */

/* End a worker: `parts` sends the rest of its gradients and applies those of the other workers. */
static fast_err end(fast_partial *sh)
{
    FAST_ASSERT(sh->t != NULL);
    FAST_TRY(fast_trainer_end(sh->t));
    if (sh->c->how != PARTS)
        return FAST_OK;
    /* Parts that were not due since their last gradient. */
    for (int64_t i = 0; i < sh->parts; i++)
        FAST_TRY(send_part(sh, i));
    if (sh->c->flush)
        FAST_TRY(fast__intake_flush(&sh->in));
    return sh->due_count > 0 ? apply_due(sh) : FAST_OK;
}

/* Train to the end by the steps of the member. */
static fast_err train(fast_partial *sh)
{
    /* Steps by member, in the order of `how`. */
    static fast_err (*const steps[])(fast_partial *) = { fast__scatter_step, step_parts,
                                                         step_states };

    FAST_ASSERT(sh->c->how >= SCATTER && sh->c->how <= STATES);
    FAST_TRY(measure_link(sh));
    sh->start_ns = fast_now(sh->t->actor);
    while (fast_trainer_next(sh->t))
        FAST_TRY(steps[sh->c->how](sh));
    return end(sh);
}

/* Only scatter with slack waits for messages. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const fast_partial_config *c = config;

    (void)t;
    FAST_ASSERT(c->period >= 1);
    if (c->how != SCATTER || c->slack < 0)
        return;
    out->round_trips = out->waits = 1 / (double)c->period;
    out->barrier = (double)(c->period * (c->slack + 1));
}

/* Allocate the vectors of `parts`. */
static fast_err init_parts(fast_trainer *t, const fast_partial_config *c, fast_partial *sh)
{
    const int64_t want = c->parts > 0 ? c->parts : PARTS_MAX;

    FAST_ASSERT(t->count > 0);
    /* A part has at least one parameter. */
    sh->parts_max = want < t->count ? want : t->count;
    sh->parts = c->parts > 0 ? sh->parts_max : 1;
    FAST_TRY(fast__vector_new(fast__device_of(t->w), "gradients that are due", t->count, &sh->due));
    FAST_TRY(fast__alloc("contributions", fast_trainer_share_count(t), sizeof *sh->due_shares,
                         &sh->due_shares));
    return fast__alloc("steps in each part", sh->parts_max, sizeof *sh->summed, &sh->summed);
}

/* Open a flow for each part of the gradient, or two for each range of the weights. FAST_EINVAL if
 * their number is not known or too large. */
static fast_err open_flows(fast_partial *sh)
{
    fast_trainer *t = sh->t;
    const bool states = sh->c->how == STATES;
    const int64_t count = states ? range_count(sh->c) : sh->c->parts;

    FAST_ASSERT(sh->flows == NULL);
    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    if (count < 1 || count > PARTS_MAX || (states && count > t->count))
        return fast__fail(FAST_EINVAL,
                          "partial: with a codec both ends must know the parts, and at most %d are "
                          "possible; give %s",
                          PARTS_MAX, states ? "a larger part" : "parts from 1 on");
    sh->flow_count = states ? count : sh->parts;
    FAST_TRY(fast__alloc("flows", sh->flow_count, sizeof(fast_flow *), &sh->flows));
    if (states)
        FAST_TRY(fast__alloc("flows", sh->flow_count, sizeof(fast_flow *), &sh->flows_in));
    for (int64_t i = 0; i < sh->flow_count; i++) {
        fast_flow_options o = { .number = i,
                                .raw = states,
                                .offset = t->count * i / sh->flow_count };

        o.count = t->count * (i + 1) / sh->flow_count - o.offset;
        FAST_TRY(fast_trainer_flow(t, &o, &sh->flows[i]));
        o.decodes = true;
        if (states)
            FAST_TRY(fast_trainer_flow(t, &o, &sh->flows_in[i]));
    }
    return FAST_OK;
}

/* Allocate what the member needs. fini() is to be called also after a failure. */
static fast_err init(fast_trainer *t, const fast_partial_config *c, fast_partial *sh)
{
    /* Handlers by member, in the order of `how`. */
    static fast_take_fn *const takes[] = { fast__scatter_take, take_part, take_state };

    FAST_ASSERT(t->topology != NULL && c != NULL);
    *sh = (fast_partial){ .t = t, .c = c };
    FAST_TRY(
        fast__alloc("contributions", fast_trainer_share_count(t), sizeof *sh->shares, &sh->shares));
    FAST_TRY(fast__neighbours_init(t, &sh->neighbours));
    FAST_TRY(fast__intake_init(t, FAST_TAG_MODEL, takes[c->how], sh, &sh->in));
    if (c->how == SCATTER) {
        FAST_TRY(fast__alloc("the newest messages", t->workers * c->queue, sizeof(fast_msg *),
                             &sh->newest));
        FAST_TRY(fast__alloc("rounds of others", t->workers, sizeof *sh->round, &sh->round));
        return fast__scatter_open(sh);
    }
    FAST_TRY(fast__vector_new(fast__device_of(t->w),
                              c->how == PARTS ? "the summed gradient" : "the last weights",
                              t->count, &sh->sum));
    if (c->how == PARTS)
        FAST_TRY(init_parts(t, c, sh));
    return open_flows(sh);
}

/* Have snapshots include a worker's memory; between steps no message waits to be mixed. */
static fast_err remember(fast_partial *sh)
{
    fast_trainer *t = sh->t;
    const size_t size = (size_t)t->count * sizeof(float);
    const size_t shares = (size_t)fast_trainer_share_count(t) * sizeof(double);

    FAST_ASSERT(sh->shares != NULL);
    FAST_TRY(fast__trainer_remember(t, 0, sh->sum, size));
    FAST_TRY(fast__trainer_remember(t, 1, sh->due, size));
    FAST_TRY(fast__trainer_remember(t, 2, &sh->due_count, sizeof sh->due_count));
    FAST_TRY(fast__trainer_remember(t, 3, sh->due_shares, shares));
    FAST_TRY(fast__trainer_remember(t, 4, sh->shares, shares));
    FAST_TRY(fast__trainer_remember(t, 5, sh->summed, (size_t)sh->parts_max * sizeof *sh->summed));
    FAST_TRY(fast__trainer_remember(t, 6, &sh->parts, sizeof sh->parts));
    FAST_TRY(fast__trainer_remember(t, 7, &sh->gamma, sizeof sh->gamma));
    FAST_TRY(fast__trainer_remember(t, 9, &sh->byte_s, sizeof sh->byte_s));
    FAST_TRY(fast__trainer_remember(t, 8, sh->round, (size_t)t->workers * sizeof *sh->round));
    return fast__trainer_check_saved(t, sh->due_count >= 0 && sh->gamma >= 0 && sh->gamma <= 1 &&
                                            sh->parts >= 0 && sh->parts <= sh->parts_max);
}

/* Free everything; members that the strategy does not use are NULL. */
static void fini(fast_partial *sh)
{
    FAST_ASSERT(sh->t != NULL);
    for (int64_t i = 0; sh->newest && i < sh->t->workers * sh->c->queue; i++)
        fast_msg_free(sh->newest[i]);
    fast__free(sh->newest);
    fast__free(sh->reached);
    fast__free(sh->down);
    fast__free(sh->flows);
    fast__free(sh->flows_in);
    fast__links_fini(&sh->links);
    fast__free(sh->round);
    fast__free(sh->summed);
    fast__vector_free(sh->sum);
    fast__vector_free(sh->due);
    fast__free(sh->due_shares);
    fast__free(sh->shares);
    fast__intake_fini(&sh->in);
    fast__neighbours_fini(&sh->neighbours);
}

/* The program of a worker. */
static fast_err worker(fast_trainer *t, const void *config)
{
    fast_partial sh;
    fast_err err = init(t, config, &sh);

    FAST_ASSERT(sh.t == t);
    if (!err)
        err = remember(&sh);
    if (!err)
        err = train(&sh);
    fini(&sh);
    return err;
}

/* States are values: a message may be the only one that a worker gets. */
static const char *sends(const void *config)
{
    const fast_partial_config *c = config;

    FAST_ASSERT(c != NULL);
    return c->how == STATES                     ? "values"
           : c->how == SCATTER && c->sends == 0 ? "weights"
                                                : "gradients";
}

const fast_strategy fast__strategy_partial = {
    .name = "partial",
    .summary = "asynchronous exchange of parts of gradients or models",
    .options = options,
    .config_size = sizeof(fast_partial_config),
    .resumable = true,
    .uses_codec = true,
    .topology = "full",
    .sends = "gradients",
    .answers = "nothing",
    .sends_by = sends,
    .cost = cost,
    .worker = worker,
};
