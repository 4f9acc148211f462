/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicas in messages, random neighbours, and the flush at the end, for gossip and partial.
 *
 * The part of a replica's message, in bytes. A gradient is packed in the place of the parameters.
 *
 *     offset      size               values
 *     0           8 S                contributions of the model, doubles by counted worker
 *     8 S         4 state_count      state that is not trained (batch norm's statistics)
 *     ...         4 count slots      the rule's vectors, if t->mixes_rule_state
 *     rest_size   4 count or coded   parameters: floats, or the encoding of a flow
 *
 * The encoding is last because its size differs from message to message. Contributions are doubles
 * at offset 0, so that all values are aligned.
 *
 * Messages and their buffers come from the pool of the run, so that after the first steps nothing
 * is allocated. Mixing costs three operations and moves twelve bytes for each parameter.
 *
 * The flush. Messages between two workers arrive in order, and a worker ends with a message without
 * a part. Once that has arrived from a peer, all earlier messages of the peer have arrived too. A
 * worker waits for one peer after the other, and gives up on peers that crashed or miss the
 * deadline. Cost: P - 1 empty messages for each worker.
 *
 * The drain does the same for workers that sent to few others:
 *
 *     worker i -> j    have all arrived?        j answers when it has handled the earlier messages
 *     worker i -> 0    all answers are there    nothing of i is in flight
 *     worker 0 -> i    nothing of anyone is in flight
 *
 * Cost: 2 empty messages for each receiver of a worker, and 2 more. Without worker 0 the drain ends
 * at once, and models in flight are lost with it.
 */
#include "strategy/exchange.h"

#include "base/err.h"
#include "base/memory.h"
#include "comm/topology.h"
#include "strategy/vector_kernels.h"
#include "tensor/vector.h"
#include "trainer/part.h"

#include <string.h>

enum {
    SLOTS_MAX = 4, /* vectors of a rule's state */
    ASKS = 1       /* instead of a worker's last message: have all of its messages arrived? */
};

/* Bytes of the contributions. */
static size_t shares_size(const fast_trainer *t)
{
    FAST_ASSERT(t->workers >= 1);
    return (size_t)fast_trainer_share_count(t) * sizeof(double);
}

/* Return the number of vectors of the rule's state that messages have. */
static int slot_count(fast_trainer *t)
{
    int count = 0;

    while (t->mixes_rule_state && fast_trainer_rule_slot(t, count) != NULL)
        count++;
    FAST_ASSERT(count <= SLOTS_MAX);
    return count;
}

/* Bytes of a replica before the parameters. */
static size_t rest_size(fast_trainer *t)
{
    FAST_ASSERT(t->count > 0 && t->state_count >= 0);
    return shares_size(t) + (size_t)(t->count * slot_count(t) + t->state_count) * sizeof(float);
}

fast_err fast__floats_pack(fast_trainer *t, fast_flow *flow, size_t head, const float *x,
                           int64_t count, fast_buffer **out, size_t *size_out)
{
    const size_t floats = (size_t)count * sizeof *x;
    fast_buffer *buffer = NULL;
    size_t size = floats;
    fast_err err = FAST_OK;

    FAST_ASSERT(count > 0 && x != NULL);
    FAST_TRY(fast_buffer_new(t->actor, head + (flow ? fast_flow_bound(flow) : floats), &buffer));
    char *data = (char *)fast_buffer_data(buffer) + head;
    if (flow)
        err = fast_trainer_encode(t, flow, x, data, &size);
    else
        fast__vector_copy(count, x, data);
    if (err) {
        fast_buffer_free(buffer);
        return err;
    }
    *out = buffer;
    *size_out = size;
    return FAST_OK;
}

fast_err fast__replica_pack(fast_trainer *t, fast_flow *flow, const float *x, fast_buffer **out,
                            size_t *size_out)
{
    const size_t head = rest_size(t), floats = (size_t)t->count * sizeof *x;
    fast_buffer *buffer = NULL;
    size_t size = 0;

    FAST_ASSERT(fast_trainer_model(t).shares != NULL);
    FAST_TRY(fast__floats_pack(t, flow, head, x, t->count, &buffer, &size));
    unsigned char *data = fast_buffer_data(buffer);
    memcpy(data, fast_trainer_model(t).shares, shares_size(t));
    data += shares_size(t);
    if (t->state_count > 0)
        fast__vector_copy(t->state_count, t->s, data);
    data += (size_t)t->state_count * sizeof *t->s;
    for (int i = 0; i < slot_count(t); i++, data += floats)
        fast__vector_copy(t->count, fast_trainer_rule_slot(t, i), data);
    fast_buffer_freeze(buffer);
    *size_out = head + size;
    *out = buffer;
    return FAST_OK;
}

/* Weighted by multiplication: its bits differ from a division by P in the last place. */
fast_err fast__state_average(fast_trainer *t)
{
    FAST_ASSERT(t->group != NULL);
    if (t->state_count == 0)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "state");
    FAST_TRY(fast_allreduce(t->group, t->s, t->state_count, FAST_SOON));
    fast__vector_scale(t->state_count, 1.0f / (float)t->workers, t->s);
    return FAST_OK;
}

fast_err fast__replica_as_sent(fast_trainer *t, fast_flow *flow, fast_buffer *buffer, size_t size,
                               float scale, fast_vector v)
{
    const size_t rest = rest_size(t);

    /* Contributions are scaled exactly, also where a codec loses a fraction of the values: the
     * residual is sent later. */
    FAST_ASSERT(v.x != NULL && v.shares != NULL);
    for (int64_t i = 0; i < fast_trainer_share_count(t); i++)
        v.shares[i] *= (double)scale;
    if (!flow || !buffer || fast_trainer_codec_fit(t) <= FAST_FIT_LOSSLESS) {
        fast__vector_scale(t->count, scale, v.x);
        return FAST_OK;
    }
    const unsigned char *data = fast_buffer_data(buffer);
    fast__vector_fill(t->count, 0, v.x);
    return fast_trainer_decode(t, flow, data + rest, size - rest, scale, v.x);
}

fast_err fast__replica_msg(fast_trainer *t, uint64_t tag, double mass, fast_buffer *buffer,
                           size_t size, fast_msg **out)
{
    fast_msg *msg = NULL;

    FAST_ASSERT(buffer != NULL && size > 0);
    FAST_TRY(fast_msg_new(t->actor, tag, &msg));
    fast_msg_add_view(msg, buffer, 0, size);
    msg->words[FAST_REPLICA_STEP] = t->step;
    memcpy(&msg->words[FAST_REPLICA_MASS], &mass, sizeof mass);
    *out = msg;
    return FAST_OK;
}

fast_err fast__replica_open(fast_trainer *t, bool coded, const fast_msg *msg, fast_replica *out)
{
    const size_t rest = rest_size(t), floats = (size_t)t->count * sizeof(float);
    const unsigned char *data;

    FAST_ASSERT(out != NULL);
    if (msg->part_count != 1 || msg->parts[0].size < rest ||
        (!coded && msg->parts[0].size != rest + floats))
        return fast__fail(FAST_EFORMAT, "worker %lld sent no model of %lld parameters",
                          (long long)msg->from, (long long)t->count);
    /* Only sizes are checked: a codec checks its own bytes when they are decoded. */
    data = fast_msg_data(msg, 0);
    out->shares = (const double *)(const void *)data;
    out->age = -1;
    out->s = (const float *)(const void *)(data + shares_size(t));
    out->rule = out->s + t->state_count;
    out->coded = data + rest;
    out->coded_size = msg->parts[0].size - rest;
    out->x = coded ? NULL : out->coded;
    return FAST_OK;
}

double fast__replica_mass(const fast_msg *msg)
{
    double mass;

    FAST_ASSERT(msg != NULL);
    memcpy(&mass, &msg->words[FAST_REPLICA_MASS], sizeof mass);
    return mass;
}

fast_vector fast__replica_vector(const fast_replica *model)
{
    FAST_ASSERT(model->shares != NULL);
    return (fast_vector){ .x = (float *)(uintptr_t)model->x,
                          .shares = (double *)(uintptr_t)model->shares,
                          .age = model->age };
}

/* Mix the state, the rule's state if it travels, and w if `with_w`, by one call of the kernel. */
static fast_err mix_rows(fast_trainer *t, double own, const fast_replica *model, double other,
                         bool with_w)
{
    const fast_mix mix = { own, other };
    const int slots = slot_count(t);
    fast_vector v[2 * (SLOTS_MAX + 1)];
    int64_t rows = 0;

    FAST_ASSERT(model->shares != NULL && model->s != NULL);
    fast__vector_axpby(t->state_count, (float)other, model->s, (float)own, t->s);
    if (with_w) {
        v[0] = fast_trainer_model(t);
        v[1] = fast__replica_vector(model);
        rows++;
    }
    /* The rule's vectors have no contributions: those of w stand for the model. */
    for (int i = 0; i < slots; i++, rows++) {
        v[2 * rows] = (fast_vector){ .x = fast_trainer_rule_slot(t, i), .age = -1 };
        v[2 * rows + 1] =
            (fast_vector){ .x = (float *)(uintptr_t)model->rule + i * t->count, .age = -1 };
    }
    return rows > 0 ? fast_trainer_apply_range(t, &fast__kernel_mix, &mix, v, rows, t->count)
                    : FAST_OK;
}

fast_err fast__replica_mix(fast_trainer *t, double own, const fast_replica *model, double other)
{
    FAST_ASSERT(model->x != NULL);
    return mix_rows(t, own, model, other, true);
}

fast_err fast__replica_mix_rest(fast_trainer *t, double own, const fast_replica *model,
                                double other)
{
    FAST_ASSERT(model != NULL);
    return mix_rows(t, own, model, other, false);
}

/* At least 2 neighbours fit, because `correct` of gossip uses a ring on any topology. */
fast_err fast__neighbours_init(const fast_trainer *t, fast_neighbours *out)
{
    const int64_t most = fast_topology_degree_max(t->topology);
    const int64_t degree = most < 2 ? 2 : most;
    fast_err err;

    FAST_ASSERT(t->topology != NULL);
    *out = (fast_neighbours){ 0 };
    err = fast__alloc("neighbours", degree, sizeof *out->ranks, &out->ranks);
    if (!err)
        err = fast__alloc("neighbours' weights", degree, sizeof *out->weights, &out->weights);
    if (err)
        fast__neighbours_fini(out);
    return err;
}

void fast__neighbours_fini(fast_neighbours *n)
{
    FAST_ASSERT(n != NULL);
    fast__free(n->ranks);
    fast__free(n->weights);
    n->ranks = NULL;
    n->weights = NULL;
}

/* 53 random bits: every double of the grid 2^-53. */
double fast__random_uniform(fast_actor *actor)
{
    FAST_ASSERT(actor != NULL);
    return (double)(fast_random(actor) >> 11) * 0x1p-53;
}

/* The topology's graph of this step; graphs that change have other neighbours at the next one. One
 * random number picks the start of a walk, so that a stream does not depend on crashes. */
int64_t fast__neighbour_pick(fast_trainer *t)
{
    int64_t count, start = 0;

    FAST_ASSERT(t->topology != NULL);
    if (fast__topology_out_at(t->topology, t->step, t->rank, 0, &count) >= 0)
        start = (int64_t)(fast_random(t->actor) % (uint64_t)count);
    for (int64_t i = 0; i < count; i++) {
        const int64_t rank =
            fast__topology_out_at(t->topology, t->step, t->rank, start + i, &count);

        if (!fast_member_is_down(t->actor, t->worker_ids[rank]))
            return rank;
    }
    return -1;
}

bool fast__is_peers(fast_err err)
{
    FAST_ASSERT(err <= FAST_OK);
    return err == FAST_EPEER || err == FAST_ETIMEDOUT;
}

/* Nobody has ended yet. */
fast_err fast__intake_init(fast_trainer *t, uint64_t tag, fast_take_fn *take, void *ctx,
                           fast_intake *out)
{
    FAST_ASSERT(take != NULL);
    *out = (fast_intake){ .t = t, .tag = tag, .take = take, .ctx = ctx };
    return fast__alloc("workers that are done", t->workers, sizeof *out->last, &out->last);
}

void fast__intake_fini(fast_intake *in)
{
    FAST_ASSERT(in != NULL);
    fast__free(in->last);
    in->last = NULL;
}

/* Send a message without a part to a worker; a peer that is down gets none. */
static fast_err send_empty(const fast_trainer *t, int64_t rank, uint64_t tag, int64_t own)
{
    fast_msg *msg = NULL;

    FAST_ASSERT(rank != t->rank);
    FAST_TRY(fast_msg_new(t->actor, tag, &msg));
    msg->words[FAST_REPLICA_OWN] = own;
    const fast_err err = fast_send(t->actor, t->worker_ids[rank], &msg);
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* Handle a message that arrived: a model, the sender's last one, or a question whether all of its
 * messages have arrived. */
static fast_err handle(void *ctx, fast_msg **move)
{
    fast_intake *in = ctx;
    const fast_msg *msg = *move;
    const int64_t rank = fast__trainer_rank(in->t, msg->from);

    FAST_ASSERT(in->take != NULL && in->last != NULL);
    if (msg->part_count > 0)
        return in->take(in->ctx, move);
    if (msg->words[FAST_REPLICA_OWN] == ASKS)
        return send_empty(in->t, rank, FAST_TAG_ARRIVED, 0);
    in->last[rank] = true;
    return FAST_OK;
}

/* Receive one message and handle it. FAST_ETIMEDOUT and FAST_EPEER as of fast_receive(). */
static fast_err take_one(fast_intake *in, int64_t from, int64_t deadline)
{
    fast_msg *msg = NULL;

    FAST_ASSERT(in->t != NULL);
    FAST_TRY(fast_receive(in->t->actor, from, in->tag, deadline, &msg));
    const fast_err err = handle(in, &msg);
    fast_msg_free(msg);
    return err;
}

fast_err fast__intake_wait(fast_intake *in, int64_t from)
{
    FAST_ASSERT(from >= 0);
    return take_one(in, from, FAST_SOON);
}

/* Messages of peers that are down may still arrive; the failure of a peer ends only this look. */
fast_err fast__intake_poll(fast_intake *in)
{
    fast_err err;

    FAST_ASSERT(in->t != NULL);
    do
        err = take_one(in, FAST_ANY, FAST_AT_ONCE);
    while (!err);
    return fast__is_peers(err) ? FAST_OK : err;
}

fast_err fast__intake_flush(fast_intake *in)
{
    fast_trainer *t = in->t;

    FAST_ASSERT(t->workers >= 1);
    fast_actor_at(t->actor, t->step, "the last messages");
    /* Ranks after this one come first, so that not all workers send to the same one at once. */
    for (int64_t i = 1; i < t->workers; i++)
        FAST_TRY(send_empty(t, (t->rank + i) % t->workers, in->tag, 0));
    for (int64_t i = 0; i < t->workers; i++) {
        fast_err err = FAST_OK;

        /* Messages of other workers are handled meanwhile, so that queues do not grow. */
        while (!err && i != t->rank && !in->last[i]) {
            err = take_one(in, t->worker_ids[i], FAST_SOON);
            if (!err)
                err = fast__intake_poll(in);
        }
        if (err && !fast__is_peers(err))
            return err;
    }
    return FAST_OK;
}

/* Wait for an empty message of a worker. A worker that is down, or does not answer in time, is
 * given up; with `patient` one that answers questions is waited for as long as it takes. */
static fast_err await_empty(const fast_trainer *t, int64_t rank, uint64_t tag, bool patient)
{
    const int64_t id = t->worker_ids[rank];
    fast_msg *msg = NULL;
    fast_err err;

    FAST_ASSERT(rank != t->rank);
    do
        err = fast_receive(t->actor, id, tag, FAST_SOON, &msg);
    while (patient && err == FAST_ETIMEDOUT && !fast_member_is_down(t->actor, id));
    fast_msg_free(msg);
    return err && !fast__is_peers(err) ? err : FAST_OK;
}

/* The exchange of fast__intake_drain(), while a service handles the messages that arrive. */
static fast_err drain(const fast_trainer *t, uint64_t tag, const bool *sent)
{
    FAST_ASSERT(sent != NULL);
    for (int64_t rank = 0; rank < t->workers; rank++)
        if (sent[rank])
            FAST_TRY(send_empty(t, rank, tag, ASKS));
    for (int64_t rank = 0; rank < t->workers; rank++)
        if (sent[rank])
            FAST_TRY(await_empty(t, rank, FAST_TAG_ARRIVED, false));
    if (t->rank > 0) {
        FAST_TRY(send_empty(t, 0, FAST_TAG_DRAINED, 0));
        return await_empty(t, 0, FAST_TAG_DRAINED, true);
    }
    for (int64_t rank = 1; rank < t->workers; rank++)
        FAST_TRY(await_empty(t, rank, FAST_TAG_DRAINED, false));
    for (int64_t rank = 1; rank < t->workers; rank++)
        FAST_TRY(send_empty(t, rank, FAST_TAG_DRAINED, 0));
    return FAST_OK;
}

fast_err fast__intake_drain(fast_intake *in, const bool *sent)
{
    fast_service *service = NULL;

    FAST_ASSERT(in->t != NULL);
    fast_actor_at(in->t->actor, in->t->step, "the last messages");
    FAST_TRY(fast_serve(in->t->actor, in->tag, handle, in, &service));
    fast_err err = drain(in->t, in->tag, sent);
    if (!err)
        err = fast_service_poll(service);
    fast_service_end(service);
    return err;
}
