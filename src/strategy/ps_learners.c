/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learners that do not wait for each other: proxies that take gradients as they come (Rudra, Gupta
 * et al. 2016). P learners in groups at k proxies, and n-softsync: the model is updated after P / n
 * gradients, whoever computed them.
 *
 *     learner   g <- gradient at w;  send g with the version of w;  receive w, the proxy's newest
 *     proxy     sum += g;  of every a gradients:  add(sum / a) to the model; get(w)
 *     server    of every b writes: one update, by the mean       b = max(1, k / n)
 *
 *     a = P / (n b), at least 1: all learners of the group for n <= k, fewer for more updates, and
 *     1 for n = P or without softsync, when every gradient is an update
 *
 * A learner waits for its proxy's answer alone, so that a slow one delays nobody; a fast one may
 * have several gradients in a write. A write is as late as the oldest weights of its gradients.
 * Learners that end, or leave early, have their gradients written at once.
 *
 * Cost: a gradient and a model for each learner and step inside its group; a learner's writes to
 * the servers are 1 / a of its steps.
 */
#include "base/err.h"
#include "base/memory.h"
#include "space/space.h"
#include "strategy/ps_tree.h"
#include "strategy/vector_message.h"
#include "tensor/vector.h"
#include "trainer/part.h"
#include "trainer/remember.h"
#include "transport/transport.h"

enum { TAG_GRADIENT = 1, TAG_WEIGHTS, TAG_CONTRIBUTIONS };

/* Send x and the state s, which may be NULL, with the version of the weights; x NULL: the version
 * alone. */
static fast_err send_vector(fast_trainer *t, int64_t to, uint64_t tag, const fast_vector_message *x,
                            int64_t version)
{
    const fast_vector_address address = { to, tag, &version, 1, false };
    fast_buffer *buffer = NULL;
    size_t size = 0;

    FAST_ASSERT(version >= 0);
    if (x)
        FAST_TRY(fast__vector_message_pack(t, x, &buffer, &size));
    const fast_err err = fast__vector_message_send(t, &address, buffer, size);
    fast_buffer_free(buffer);
    return err;
}

/* Refuse a message of another size: one of a snapshot may be forged. */
static fast_err check_size(const fast_msg *msg, int64_t floats)
{
    FAST_ASSERT(floats > 0);
    if (msg->part_count == 1 && msg->parts[0].size == (size_t)floats * sizeof(float) &&
        msg->words[0] >= 0)
        return FAST_OK;
    return fast__fail(FAST_EFORMAT, "ps: actor %lld sent no vector of %lld floats",
                      (long long)msg->from, (long long)floats);
}

/* Receive the proxy's weights and state, and their version. */
static fast_err receive_weights(fast_trainer *t, int64_t proxy, int64_t *version_out)
{
    fast_msg *msg = NULL;

    FAST_ASSERT(version_out != NULL);
    fast_actor_at(t->actor, t->step, "weights");
    FAST_TRY(fast_receive(t->actor, proxy, TAG_WEIGHTS, FAST_SOON, &msg));
    const fast_err err = check_size(msg, t->state_count + t->count);
    if (!err) {
        const float *x = fast_msg_data(msg, 0);

        fast__vector_copy(t->state_count, x, t->s);
        fast__vector_copy(t->count, x + t->state_count, t->w);
        *version_out = msg->words[0];
    }
    fast_msg_free(msg);
    return err;
}

/* Receive the steps of each group, and so of each of its learners, that the last model holds. */
static fast_err receive_contributions(fast_trainer *t, const ps_config *c, int64_t proxy)
{
    const fast_vector w = fast_trainer_model(t);
    fast_msg *msg = NULL;

    FAST_ASSERT(w.shares != NULL);
    FAST_TRY(fast_receive(t->actor, proxy, TAG_CONTRIBUTIONS, FAST_SOON, &msg));
    const fast_err err = check_size(msg, c->proxies);
    for (int64_t i = 0; !err && i < fast_trainer_share_count(t); i++) {
        const int64_t rank = fast_trainer_share_rank(t, i);
        const float *counts = fast_msg_data(msg, 0);

        w.shares[i] = (double)counts[fast__ps_node_above(c, t, 1, rank).index];
    }
    fast_msg_free(msg);
    FAST_TRY(err);
    fast_trainer_adopt(t, &w);
    return FAST_OK;
}

fast_err fast__ps_learner(fast_trainer *t, const ps_config *c)
{
    const int64_t proxy = fast__ps_node_above(c, t, 1, t->rank).id;
    const fast_vector_message gradient = { .s = t->state_count > 0 ? t->s : NULL,
                                           .x = t->g,
                                           .count = t->count };
    int64_t version = 0;

    FAST_ASSERT(c->proxies > 0 && c->levels == 1);
    FAST_TRY(fast__trainer_remember(t, 0, &version, sizeof version));
    FAST_TRY(fast__trainer_check_saved(t, version >= 0));
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        fast_actor_at(t->actor, t->step, "gradient");
        FAST_TRY(send_vector(t, proxy, TAG_GRADIENT, &gradient, version));
        FAST_TRY(receive_weights(t, proxy, &version));
    }
    FAST_TRY(fast_trainer_end(t));
    FAST_TRY(send_vector(t, proxy, TAG_GRADIENT, NULL, version));
    FAST_TRY(receive_weights(t, proxy, &version));
    return receive_contributions(t, c, proxy);
}

/* A proxy of learners. */
typedef struct ps_collector {
    ps_writer wr;    /* of the model; its gradient is `sum` */
    ps_node node;    /* of the group */
    float *sum;      /* of the gradients that wait for a write */
    float *s;        /* sum of their states; NULL: the model has none */
    float *counts;   /* [proxies] contributions to the model */
    bool *ended;     /* [group] the learner has taken its last step, or is gone */
    int64_t size;    /* a: gradients of a write */
    int64_t waiting; /* gradients in `sum` */
    int64_t taken;   /* gradients that arrived so far */
    int64_t oldest;  /* version of the oldest weights of those in `sum` */
    bool is_waiting; /* it waits for a message */
} ps_collector;

/* Write the gradients that wait, and read the newest model. */
static fast_err write_sum(fast_trainer *t, ps_collector *k)
{
    ps_writer *wr = &k->wr;

    FAST_ASSERT(k->waiting > 0 && k->oldest <= wr->version);
    wr->step = t->step = k->taken / k->node.size;
    fast__vector_scale(t->count, 1.0f / (float)k->size, k->sum);
    if (k->s) {
        fast__vector_copy(t->state_count, k->s, t->s);
        fast__vector_divide(t->state_count, (float)k->waiting, t->s);
        fast__vector_fill(t->state_count, 0, k->s);
    }
    for (int64_t i = 0; i < wr->copies.count; i++)
        if (wr->copies.spaces[i])
            fast__space_read_as(wr->copies.spaces[i], 0, k->oldest);
    FAST_TRY(fast__ps_push(wr));
    FAST_TRY(fast__ps_tick(wr));
    fast__vector_fill(t->count, 0, k->sum);
    k->waiting = 0;
    return fast__ps_read(wr, false);
}

/* Add a gradient that arrived; write when there are enough. */
static fast_err take_gradient(fast_trainer *t, ps_collector *k, const fast_msg *msg)
{
    const float *x = fast_msg_data(msg, 0);

    FAST_TRY(check_size(msg, t->state_count + t->count));
    if (msg->words[0] > k->wr.version)
        return fast__fail(FAST_EFORMAT, "ps: actor %lld has weights of the future",
                          (long long)msg->from);
    k->oldest = k->waiting == 0 || msg->words[0] < k->oldest ? msg->words[0] : k->oldest;
    if (k->s)
        fast__vector_add(t->state_count, x, k->s);
    fast__vector_add(t->count, x + t->state_count, k->sum);
    FAST_TRY(fast_charge(t->actor, (double)t->count, 12 * (double)t->count));
    k->taken++;
    return ++k->waiting == k->size ? write_sum(t, k) : FAST_OK;
}

/* Send the newest model to a learner. One that went down meanwhile needs none. */
static fast_err answer(fast_trainer *t, ps_collector *k, int64_t to, bool last)
{
    const fast_vector_message model = { .s = t->state_count > 0 ? t->s : NULL,
                                        .x = t->w,
                                        .count = t->count };
    fast_err err = send_vector(t, to, TAG_WEIGHTS, &model, k->wr.version);

    FAST_ASSERT(k->counts != NULL);
    if (!err && last)
        err = fast__ps_ask_contributions(&k->wr, k->counts);
    if (!err && last)
        err = send_vector(t, to, TAG_CONTRIBUTIONS,
                          &(fast_vector_message){ .x = k->counts, .count = k->wr.c->proxies },
                          k->wr.version);
    return err == FAST_EPEER && fast_member_is_down(t->actor, to) ? FAST_OK : err;
}

/* Return the number of learners that may still send gradients. */
static int64_t count_left(const fast_trainer *t, ps_collector *k)
{
    int64_t left = 0;

    FAST_ASSERT(k->node.size > 0);
    for (int64_t i = 0; i < k->node.size; i++) {
        k->ended[i] = k->ended[i] || fast_member_is_down(t->actor, k->node.members[i]);
        left += !k->ended[i];
    }
    return left;
}

/* Handle one message: a gradient, or the end of a learner. */
static fast_err handle(fast_trainer *t, ps_collector *k, const fast_msg *msg)
{
    const bool last = msg->part_count == 0;

    FAST_ASSERT(msg->from >= k->node.members[0]);
    if (!last)
        FAST_TRY(take_gradient(t, k, msg));
    else
        k->ended[fast__index_in(k->node.members, k->node.size, msg->from)] = true;
    /* Nobody may come after the last learner: its gradients are written now, and others' too. */
    if (last && k->waiting > 0)
        FAST_TRY(write_sum(t, k));
    else if (last)
        FAST_TRY(fast__ps_read(&k->wr, false));
    return answer(t, k, msg->from, last);
}

/* Receive the next message of a learner; *out is NULL if no learner is left. fast_receive() would
 * wait for other actors when the last learner goes down. */
static fast_err receive_any(fast_trainer *t, ps_collector *k, fast_msg **out)
{
    const fast_wait wait = { .waiting = true,
                             .whom = FAST_ANY,
                             .tag = TAG_GRADIENT,
                             .since = fast_now(t->actor),
                             .deadline = fast__patience(t->actor, FAST_PATIENCE),
                             .doing = "receive" };
    fast_err err = FAST_OK;

    FAST_ASSERT(!k->is_waiting);
    fast_actor_at(t->actor, t->step, "a learner's gradient");
    k->is_waiting = true;
    while (!err && !(*out = fast__take(t->actor, FAST_ANY, TAG_GRADIENT)) && count_left(t, k) > 0)
        err = fast__wait_once(t->actor, &wait);
    k->is_waiting = false;
    if (*out)
        fast__count(&t->actor->counters.messages_received, 1);
    return err;
}

/* The proxy's loop, until no learner is left. */
static fast_err serve(fast_trainer *t, ps_collector *k)
{
    FAST_ASSERT(k->size >= 1);
    while (count_left(t, k) > 0) {
        fast_msg *msg = NULL;
        fast_err err = receive_any(t, k, &msg);

        if (err == FAST_ETIMEDOUT) /* a step may take longer than a timeout */
            continue;
        if (err == FAST_EPEER || (!err && !msg))
            break;
        FAST_TRY(err);
        err = handle(t, k, msg);
        fast_msg_free(msg);
        FAST_TRY(err);
    }
    return k->waiting > 0 ? write_sum(t, k) : FAST_OK;
}

/* Return whether the proxy waits for a message. */
static bool is_idle(const void *ctx)
{
    const ps_collector *k = ctx;

    FAST_ASSERT(k->size >= 1);
    return k->is_waiting;
}

/* Have snapshots include the proxy's memory besides its writer's, with its numbers from `waiting`
 * to `oldest`. */
static fast_err remember(fast_trainer *t, ps_collector *k)
{
    FAST_ASSERT(k->ended != NULL);
    FAST_TRY(fast__trainer_remember(t, 12, &k->waiting, 3 * sizeof k->waiting));
    FAST_TRY(fast__trainer_remember(t, 13, k->sum, (size_t)t->count * sizeof *k->sum));
    FAST_TRY(fast__trainer_remember(t, 14, k->s, k->s ? (size_t)t->state_count * sizeof *k->s : 0));
    FAST_TRY(fast__trainer_remember_flags(t, 15, k->ended, k->node.size));
    FAST_TRY(fast__trainer_remember(t, 24, t->w, (size_t)t->count * sizeof *t->w));
    FAST_TRY(fast__trainer_remember(t, 25, t->s, (size_t)t->state_count * sizeof *t->s));
    t->step = k->wr.step;
    fast__trainer_cut_idle(t, is_idle, k);
    return fast__trainer_check_saved(t, k->waiting >= 0 && k->waiting < k->size && k->taken >= 0 &&
                                            k->oldest >= 0 && k->oldest <= k->wr.version);
}

/* Allocate, and open the model for writing. */
static fast_err collector_open(fast_trainer *t, const ps_config *c, ps_collector *k)
{
    const fast_device *device = fast__device_of(t->w);

    FAST_ASSERT(k->node.size > 0);
    FAST_TRY(fast__alloc("contributions", c->proxies, sizeof *k->counts, &k->counts));
    FAST_TRY(fast__alloc("a group's learners", k->node.size, sizeof *k->ended, &k->ended));
    FAST_TRY(fast__vector_new(device, "the sum of gradients", t->count, &k->sum));
    if (t->state_count > 0)
        FAST_TRY(fast__vector_new(device, "the sum of states", t->state_count, &k->s));
    FAST_TRY(fast__ps_writer_open(t, c, k->sum, &k->wr));
    /* It writes before its first read: changes are to the initial state. */
    if (t->state_count > 0 && !fast_trainer_resumed(t))
        fast__vector_copy(t->state_count, t->s, k->wr.state_read);
    return remember(t, k);
}

fast_err fast__ps_collector(fast_trainer *t, const ps_config *c, int64_t proxy)
{
    const int64_t batch = fast__ps_batch(c, c->proxies);
    const int64_t share = c->softsync > 0 ? t->workers / (c->softsync * batch) : 1;
    ps_collector k = { .size = share > 1 ? share : 1, .node = fast__ps_node(c, t, 1, proxy) };
    fast_err err;

    FAST_ASSERT(proxy >= 0 && proxy < c->proxies);
    t->step = 0; /* that of its learners */
    err = collector_open(t, c, &k);
    if (!err)
        err = serve(t, &k);
    const fast_err last = fast__ps_writer_close(&k.wr);
    fast__vector_free(k.sum);
    fast__vector_free(k.s);
    fast__free(k.ended);
    fast__free(k.counts);
    return err ? err : last;
}
