/* SPDX-License-Identifier: Apache-2.0 */
/*
 * partial: asynchronous exchange of a part of what workers know.
 *
 *   how=scatter   every `period` steps x_i goes to the neighbours of the topology; of each of those
 *                 that one hears of the newest is taken, once:
 *                 sends=weights    w_i <- (w_i + sum of n new w_j) / (1 + n), after the update
 *                 sends=gradients  g_i <- (g_i + sum of n new g_j) / (1 + n), before it
 *                 With slack s a worker waits until each neighbour that is up has sent round r - s.
 *   how=parts     gradients are summed up in d_i, which is cut in p parts; step t sends part
 *                 t mod p of it to all others and clears it there:
 *                 w_i <- rule(w_i, (g_i + all parts that arrived since the last update) / P)
 *   how=states    every `period` steps a random stretch of w_i goes to a random neighbour. With u
 *                 the weights before the own update and v after it, a state x that arrived is
 *                 merged if |v - x| < |u - x|, that is, if our own step goes towards it:
 *                 w_i <- v + (x - u) / 2, u <- (u + x) / 2
 *
 * scatter is MALT (Li et al. 2015), on `halton` or `full`; slack=0 is its bulk synchronous form.
 * parts is Ako (Watcharapichat et al. 2016): p follows from the bandwidth B that a worker may use,
 * its steps in a second f and the model's bytes m: p = ceil(m (P - 1) f / B). Parts that are late
 * are summed up, not lost: with plain SGD and one rate, once all have arrived (flush), all replicas
 * are equal up to rounding, whatever the order. Unlike Ako, everyone's gradient counts 1/P, so that
 * rates mean the same as elsewhere. states is ASGD (Keuper and Pfreundt 2015) with its test by a
 * Parzen window; what its formula scales by the rate is taken whole here.
 *
 * With a codec, parts are encoded one by one, and what an encoding loses is added to the next of
 * that part. The own replica takes back what was not sent of its gradient, so that replicas are
 * equal in the end whatever the codec is; what is owed then is lost to all. Both ends must know the
 * parts: p is given. Weights of scatter go as differences (links.c), those of states as they are,
 * because a stretch meets a worker by chance.
 *
 * Cost per worker and step: scatter: degree / period models; parts: (P - 1) / p models; states:
 * part / period models. Memory: scatter: a message for each neighbour; parts: two vectors;
 * states: one vector.
 */
#include "strategy/partial.h"

#include "base/err.h"
#include "base/memory.h"
#include "strategy/kernels.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { SCATTER, PARTS, STATES };

/* Steps by which a worker measures its speed. */
enum { MEASURED_STEPS = 4 };

/* Parts at most where the bandwidth decides. */
enum { PARTS_MAX = 4096 };

static const fast_option options[] = {
    FAST_OPT_CHOICE(fast_partial_config, how, "parts", "scatter|parts|states",
                    "to neighbours; a part of the gradient to all; a part of the model to one"),
    FAST_OPT_INT(fast_partial_config, period, "1", 1, 1e12, "scatter, states: steps between sends"),
    FAST_OPT_CHOICE(fast_partial_config, sends, "weights", "weights|gradients",
                    "scatter: what is sent"),
    FAST_OPT_INT(fast_partial_config, slack, "-1", -1, 1e12,
                 "scatter: rounds that a neighbour may be behind; -1: any"),
    FAST_OPT_INT(fast_partial_config, parts, "4", 0, 1e12,
                 "parts: that the gradient is cut in; 0: as many as the bandwidth asks for"),
    FAST_OPT_REAL(fast_partial_config, bandwidth, "1.25e9", 1, 1e15,
                  "parts: bytes that a worker may send in a second, for parts=0"),
    FAST_OPT_REAL(fast_partial_config, part, "0.5", 1e-9, 1,
                  "states: share of the parameters in a message"),
    FAST_OPT_BOOL(fast_partial_config, window, "yes",
                  "states: merge only what our own step goes towards"),
    FAST_OPT_BOOL(fast_partial_config, flush, "yes",
                  "parts: at the end wait for what is on its way, and take it in"),
    FAST_LINKS_GAMMA(fast_partial_config),
    FAST_OPT_END,
};

/* Elements of part i of p. */
static int64_t part_offset(const fast_partial *sh, int64_t i)
{
    return sh->t->count * i / sh->parts;
}

int64_t fast__partial_age(const fast_partial *sh, const fast_msg *msg)
{
    const int64_t age = sh->t->step - msg->words[FAST_PARTIAL_STEP];

    return age > 0 ? age : 0;
}

/* Parts. */

/* The part, or the stretch, that begins there and is so long; FAST_EFORMAT if none does. */
static fast_err find_part(const fast_partial *sh, const fast_msg *msg, int64_t parts, int64_t *out)
{
    const int64_t n = sh->t->count, offset = msg->words[FAST_PARTIAL_OFFSET];

    for (int64_t i = 0; i < parts; i++)
        if (n * i / parts == offset &&
            n * (i + 1) / parts - offset == msg->words[FAST_PARTIAL_COUNT]) {
            *out = i;
            return FAST_OK;
        }
    return fast__fail(FAST_EFORMAT, "worker %lld sent none of %lld parts", (long long)msg->from,
                      (long long)parts);
}

/* due += a part that is encoded. */
static fast_err take_coded(fast_partial *sh, const fast_msg *msg)
{
    int64_t i;

    FAST_TRY(find_part(sh, msg, sh->parts, &i));
    return fast_trainer_decode(sh->t, sh->flows[i], fast_msg_data(msg, 0), msg->parts[0].size, 1,
                               sh->due + msg->words[FAST_PARTIAL_OFFSET]);
}

/* due <- due + x; a decoder has added the values already. Hidden behind the gradient's pass. */
static void run_gather(const void *ctx, int64_t n, float *const *x)
{
    if (x[1])
        fast__run_add(ctx, n, x);
}
static const fast_kernel gather = { "sum of gradients", 0, 0, 2, 1, false, run_gather };

/* A part that arrived counts from the next update on. */
static fast_err take_part(void *ctx, fast_msg **move)
{
    fast_partial *sh = ctx;
    const fast_msg *msg = *move;
    fast_trainer *t = sh->t;
    const int64_t offset = msg->words[FAST_PARTIAL_OFFSET];
    const int64_t count = msg->words[FAST_PARTIAL_COUNT];

    if (offset < 0 || count < 0 || count > t->count || offset > t->count - count ||
        (!sh->flows && msg->parts[0].size != (size_t)count * sizeof(float)))
        return fast__fail(FAST_EFORMAT, "worker %lld sent no part of %lld parameters",
                          (long long)msg->from, (long long)t->count);
    if (sh->flows)
        FAST_TRY(take_coded(sh, msg));
    fast_trainer_shares_of(t, fast_actor_index(t->actor, msg->from), sh->shares);
    for (int64_t i = 0; i < t->workers; i++)
        sh->shares[i] *= (double)msg->words[FAST_PARTIAL_GRADIENTS];
    sh->due_count++;
    return fast_trainer_apply_range(
        t, &gather, NULL,
        (fast_vector[]){ { .x = sh->due + offset, .shares = sh->due_shares, .age = -1 },
                         { .x = sh->flows ? NULL : (float *)(uintptr_t)fast_msg_data(msg, 0),
                           .shares = sh->shares,
                           .age = fast__partial_age(sh, msg) } },
        1, count);
}

/* A stretch of so many floats in a frozen buffer, through a flow if there is one. */
static fast_err pack(fast_trainer *t, fast_flow *flow, const float *x, int64_t count,
                     fast_buffer **out, size_t *size_out)
{
    const size_t floats = (size_t)count * sizeof *x;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(fast_buffer_new(t->actor, flow ? fast_flow_bound(flow) : floats, &buffer));
    *size_out = floats;
    if (flow)
        err = fast_trainer_encode(t, flow, x, fast_buffer_data(buffer), size_out);
    else
        memcpy(fast_buffer_data(buffer), x, floats);
    if (err) {
        fast_buffer_free(buffer);
        return err;
    }
    fast_buffer_freeze(buffer);
    *out = buffer;
    return FAST_OK;
}

/* A codec that loses something sent less, or more, than what the own replica took: it takes the
 * rest back, so that it holds what the others are going to, and what is owed is still to come. */
static fast_err hold_as_sent(fast_partial *sh, fast_flow *flow, fast_buffer *buffer, size_t size,
                             int64_t offset, int64_t count)
{
    if (fast_trainer_codec_fit(sh->t) <= FAST_FIT_LOSSLESS)
        return FAST_OK;
    fast__vector_axpy(count, -1, sh->sum + offset, sh->due + offset);
    sh->due_count++;
    return fast_trainer_decode(sh->t, flow, fast_buffer_data(buffer), size, 1, sh->due + offset);
}

/* Part i of what was summed up, to all others. */
static fast_err send_part(fast_partial *sh, int64_t i)
{
    fast_trainer *t = sh->t;
    const int64_t offset = part_offset(sh, i);
    const int64_t count = part_offset(sh, i + 1) - offset;
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;
    size_t size;

    if (sh->summed[i] == 0 || count == 0)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "gradient");
    FAST_TRY(pack(t, sh->flows ? sh->flows[i] : NULL, sh->sum + offset, count, &buffer, &size));
    for (int64_t k = 1; k < t->workers && !err; k++) {
        fast_msg *msg = NULL;

        err = fast_msg_new(t->actor, FAST_TAG_MODEL, &msg);
        if (err)
            break;
        fast_msg_add_view(msg, buffer, 0, size);
        msg->words[FAST_PARTIAL_STEP] = t->step;
        msg->words[FAST_PARTIAL_OFFSET] = offset;
        msg->words[FAST_PARTIAL_COUNT] = count;
        msg->words[FAST_PARTIAL_GRADIENTS] = sh->summed[i];
        err = fast_send(t->actor, t->worker_ids[(t->rank + k) % t->workers], &msg);
        if (fast__is_peers(err))
            err = FAST_OK;
    }
    if (!err && sh->flows)
        err = hold_as_sent(sh, sh->flows[i], buffer, size, offset, count);
    fast_buffer_free(buffer);
    memset(sh->sum + offset, 0, (size_t)count * sizeof *sh->sum);
    sh->summed[i] = 0;
    return err;
}

/* Choose p once the speed is known; until then all of the gradient is one part. */
static void choose_parts(fast_partial *sh)
{
    const fast_trainer *t = sh->t;
    const double seconds = (double)(fast_now(t->actor) - sh->begun) * 1e-9 / MEASURED_STEPS;
    const double bytes = (double)(t->workers - 1) * (double)t->count * sizeof(float);
    const double parts = seconds > 0 ? ceil(bytes / seconds / sh->c->bandwidth) : 1;

    sh->parts = parts < 1 ? 1 : parts > (double)sh->parts_max ? sh->parts_max : (int64_t)parts;
}

/* One update by all that is due. */
static fast_err apply_due(fast_partial *sh)
{
    fast_trainer *t = sh->t;

    const fast_vector due = { .x = sh->due, .shares = sh->due_shares, .age = -1 };

    FAST_TRY(fast_trainer_update_by(t, &due, 1 / (float)t->workers));
    memset(sh->due, 0, (size_t)t->count * sizeof *sh->due);
    memset(sh->due_shares, 0, (size_t)t->workers * sizeof *sh->due_shares);
    sh->due_count = 0;
    return FAST_OK;
}

static fast_err step_parts(fast_partial *sh)
{
    fast_trainer *t = sh->t;

    FAST_TRY(fast__intake_poll(&sh->in));
    FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
    fast__vector_add(t->count, t->g, sh->sum);
    for (int64_t i = 0; i < sh->parts; i++)
        sh->summed[i]++;
    FAST_TRY(
        fast_trainer_apply(t, &gather, NULL,
                           (fast_vector[]){ { .x = sh->due, .shares = sh->due_shares, .age = -1 },
                                            fast_trainer_grad(t) }));
    FAST_TRY(apply_due(sh));
    FAST_TRY(send_part(sh, t->step % sh->parts));
    if (sh->c->parts == 0 && t->step == MEASURED_STEPS)
        choose_parts(sh);
    return FAST_OK;
}

/* States. Their second part: what the sender carries. */

static size_t shares_size(const fast_trainer *t)
{
    return (size_t)t->workers * sizeof(double);
}

/* x = w, u, other:  w and u move half of the way from u to the other; the next state that arrived
 * is merged with this mean. */
static void run_merge(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    for (int64_t i = 0; i < n; i++) {
        const float way = 0.5f * (x[2][i] - x[1][i]);

        x[0][i] += way;
        x[1][i] += way;
    }
}
static const fast_kernel merge = { "merge", 9, 20, 3, 2, false, run_merge };

/* Merge a stretch of another's weights, if our own step, from u to w, goes towards it. */
static fast_err take_state(void *ctx, fast_msg **move)
{
    fast_partial *sh = ctx;
    const fast_msg *msg = *move;
    fast_trainer *t = sh->t;
    const int64_t offset = msg->words[FAST_PARTIAL_OFFSET];
    const int64_t count = msg->words[FAST_PARTIAL_COUNT];
    const float *x = fast_msg_data(msg, 0);
    double old = 0;
    double now = 0;

    if (offset < 0 || count < 0 || count > t->count || offset > t->count - count ||
        msg->part_count != 2 || msg->parts[1].size != shares_size(t) ||
        (!sh->taken && msg->parts[0].size != (size_t)count * sizeof(float)))
        return fast__fail(FAST_EFORMAT, "worker %lld sent no stretch of %lld parameters",
                          (long long)msg->from, (long long)t->count);
    if (sh->taken) {
        int64_t i;

        FAST_TRY(find_part(sh, msg, sh->flow_count, &i));
        FAST_TRY(fast_trainer_decode_values(t, sh->taken[i], x, msg->parts[0].size, &x));
    }
    for (int64_t i = 0; i < count && sh->c->window; i++) {
        const double u = (double)sh->sum[offset + i] - (double)x[i];
        const double v = (double)t->w[offset + i] - (double)x[i];

        old += u * u;
        now += v * v;
    }
    if (sh->c->window && !(now < old))
        return FAST_OK;
    fast_vector w = fast_trainer_model(t);
    const fast_vector before = { .x = sh->sum + offset, .shares = sh->shares, .age = -1 };
    const fast_vector other = { .x = (float *)(uintptr_t)x,
                                .shares = (double *)(uintptr_t)fast_msg_data(msg, 1),
                                .age = fast__partial_age(sh, msg) };

    w.x += offset;
    memcpy(sh->shares, w.shares, shares_size(t)); /* u holds what w does but for the last step */
    return fast_trainer_apply_range(t, &merge, NULL, (fast_vector[]){ w, before, other }, 1, count);
}

static int64_t stretch_count(const fast_partial_config *c)
{
    return (int64_t)ceil(1 / c->part);
}

/* One of as many equal stretches as `part` asks for, by chance, to a random neighbour. */
static fast_err send_state(fast_partial *sh)
{
    fast_trainer *t = sh->t;
    const int64_t stretches = stretch_count(sh->c);
    const int64_t rank = fast__neighbour_pick(t, &sh->near);
    const int64_t i = (int64_t)(fast_random(t->actor) % (uint64_t)stretches);
    const int64_t offset = t->count * i / stretches;
    const int64_t count = t->count * (i + 1) / stretches - offset;
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    fast_err err;
    size_t size;

    if (rank < 0 || count == 0)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "weights");
    FAST_TRY(pack(t, sh->flows ? sh->flows[i] : NULL, t->w + offset, count, &buffer, &size));
    err = fast__replica_msg(t, FAST_TAG_MODEL, 0, buffer, size, &msg);
    fast_buffer_free(buffer);
    FAST_TRY(err);
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

static fast_err step_states(fast_partial *sh)
{
    fast_trainer *t = sh->t;

    FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
    memcpy(sh->sum, t->w, (size_t)t->count * sizeof *t->w);
    FAST_TRY(fast_trainer_update(t, t->g, 1));
    FAST_TRY(fast__intake_poll(&sh->in));
    return t->step % sh->c->period == 0 ? send_state(sh) : FAST_OK;
}

/* All of them. */

/* After the last step gradients still count, models no more. */
static fast_err end(fast_partial *sh)
{
    FAST_TRY(fast_trainer_end(sh->t));
    if (sh->c->how != PARTS)
        return FAST_OK;
    for (int64_t i = 0; i < sh->parts; i++)
        FAST_TRY(send_part(sh, i));
    if (sh->c->flush)
        FAST_TRY(fast__intake_flush(&sh->in));
    return sh->due_count > 0 ? apply_due(sh) : FAST_OK;
}

static fast_err train(fast_partial *sh)
{
    static fast_err (*const steps[])(fast_partial *) = { fast__scatter_step, step_parts,
                                                         step_states };

    sh->begun = fast_now(sh->t->actor);
    while (fast_trainer_next(sh->t))
        FAST_TRY(steps[sh->c->how](sh));
    return end(sh);
}

/* Messages that are not waited for cost a worker nothing. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const fast_partial_config *c = config;

    (void)t;
    if (c->how != SCATTER || c->slack < 0)
        return;
    out->round_trips = out->waits = 1 / (double)c->period;
    out->barrier = (double)(c->period * (c->slack + 1));
}

static fast_err init_parts(fast_trainer *t, const fast_partial_config *c, fast_partial *sh)
{
    const int64_t want = c->parts > 0 ? c->parts : PARTS_MAX;

    sh->parts_max = want < t->count ? want : t->count;
    sh->parts = c->parts > 0 ? sh->parts_max : 1;
    FAST_TRY(fast__alloc("gradients that are due", t->count, sizeof *sh->due, &sh->due));
    FAST_TRY(fast__alloc("contributions", t->workers, sizeof *sh->due_shares, &sh->due_shares));
    return fast__alloc("steps in each part", sh->parts_max, sizeof *sh->summed, &sh->summed);
}

/* A flow for each part of the gradient, or two for each stretch of the weights. */
static fast_err open_flows(fast_partial *sh)
{
    fast_trainer *t = sh->t;
    const bool states = sh->c->how == STATES;
    const int64_t count = states ? stretch_count(sh->c) : sh->c->parts;

    if (fast_trainer_codec_fit(t) == FAST_FIT_NONE)
        return FAST_OK;
    if (count < 1 || count > PARTS_MAX || (states && count > t->count))
        return fast__fail(FAST_EINVAL,
                          "partial: through a codec both ends must know the parts, and there are "
                          "at most %d; give %s",
                          PARTS_MAX, states ? "a larger part" : "parts, not 0");
    sh->flow_count = states ? count : sh->parts;
    FAST_TRY(fast__alloc("flows", sh->flow_count, sizeof(fast_flow *), &sh->flows));
    if (states)
        FAST_TRY(fast__alloc("flows", sh->flow_count, sizeof(fast_flow *), &sh->taken));
    for (int64_t i = 0; i < sh->flow_count; i++) {
        fast_flow_options o = { .number = i,
                                .raw = states,
                                .offset = t->count * i / sh->flow_count };

        o.count = t->count * (i + 1) / sh->flow_count - o.offset;
        FAST_TRY(fast_trainer_flow(t, &o, &sh->flows[i]));
        o.decodes = true;
        if (states)
            FAST_TRY(fast_trainer_flow(t, &o, &sh->taken[i]));
    }
    return FAST_OK;
}

static fast_err init(fast_trainer *t, const fast_partial_config *c, fast_partial *sh)
{
    static fast_take_fn *const takes[] = { fast__scatter_take, take_part, take_state };

    *sh = (fast_partial){ .t = t, .c = c };
    FAST_TRY(fast__alloc("contributions", t->workers, sizeof *sh->shares, &sh->shares));
    FAST_TRY(fast__neighbours_init(t, &sh->near));
    FAST_TRY(fast__intake_init(t, FAST_TAG_MODEL, takes[c->how], sh, &sh->in));
    if (c->how == SCATTER) {
        FAST_TRY(fast__alloc("the newest messages", t->workers, sizeof(fast_msg *), &sh->newest));
        FAST_TRY(fast__alloc("rounds of others", t->workers, sizeof *sh->round, &sh->round));
        return fast__scatter_open(sh);
    }
    FAST_TRY(fast__alloc(c->how == PARTS ? "the summed gradient" : "the last weights", t->count,
                         sizeof *sh->sum, &sh->sum));
    if (c->how == PARTS)
        FAST_TRY(init_parts(t, c, sh));
    return open_flows(sh);
}

static void fini(fast_partial *sh)
{
    for (int64_t i = 0; sh->newest && i < sh->t->workers; i++)
        fast_msg_free(sh->newest[i]);
    fast__free(sh->newest);
    fast__free(sh->flows);
    fast__free(sh->taken);
    fast__links_fini(&sh->links);
    fast__free(sh->round);
    fast__free(sh->summed);
    fast__free(sh->sum);
    fast__free(sh->due);
    fast__free(sh->due_shares);
    fast__free(sh->shares);
    fast__intake_fini(&sh->in);
    fast__neighbours_fini(&sh->near);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    fast_partial sh;
    fast_err err = init(t, config, &sh);

    if (!err)
        err = train(&sh);
    fini(&sh);
    return err;
}

static const char *sends(const void *config)
{
    const fast_partial_config *c = config;

    return c->how == STATES                     ? "values"
           : c->how == SCATTER && c->sends == 0 ? "weights"
                                                : "gradients";
}

const fast_strategy fast__strategy_partial = {
    .name = "partial",
    .summary = "asynchronous exchange of a part of what workers know",
    .options = options,
    .config_size = sizeof(fast_partial_config),
    .uses_codec = true,
    .topology = "full",
    .sends = "gradients",
    .answers = "nothing",
    .sends_by = sends,
    .cost = cost,
    .worker = worker,
};
