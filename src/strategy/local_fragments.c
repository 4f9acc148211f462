/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragments of the strategy local: F ranges of the model, of equal length, are exchanged in turn
 * (streaming DiLoCo, Douillard et al. 2025). With n = `overlap`, for a fragment whose exchange ends
 * at step t, every period / F steps:
 *
 *     step t - n:   start     x_i = w_i - z               of the fragment, after n steps less
 *     step t:       end       a = z + 1/P sum_i x_i
 *                             z, D <- outer step (z, D, a)              local.c
 *                             w_i <- z                                  n = 0, and at the end
 *                             w_i <- mix w_i + (1 - mix) z              n > 0
 *
 * so that messages travel while the n steps between are computed. At the end of a period no
 * exchange is under way: checkpoints hold none.
 *
 * Without a codec the sum of w_i is an allreduce that is started and later waited for. With a codec
 * every worker sends x_i, encoded, to all others, which decode and sum in the order of ranks, their
 * own encoding included: z is equal at all workers to the bit. The residual is added to the next x
 * of that fragment.
 *
 * Cost per worker and period: an allreduce of the model, or P - 1 encoded models sent; memory: a
 * vector.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/exchange.h"
#include "strategy/local.h"
#include "strategy/vector_kernels.h"
#include "strategy/vector_message.h"
#include "tensor/vector.h"

#include <string.h>

enum { TAG_FRAGMENT = 1 };
enum { WORD_FRAGMENT, WORD_STEP };

/* Set the range of fragment f. */
static void range_of(const local_fragments *k, int64_t f, int64_t *first_out, int64_t *count_out)
{
    const int64_t n = k->t->count, parts = k->c->fragments;
    const int64_t first = n / parts * f + n % parts * f / parts;

    FAST_ASSERT(f >= 0 && f < parts);
    *first_out = first;
    *count_out = n / parts * (f + 1) + n % parts * (f + 1) / parts - first;
}

/* Open the flows of all fragments that are not empty: sent, and received. */
static fast_err open_flows(local_fragments *k)
{
    const int64_t parts = k->c->fragments;

    FAST_ASSERT(k->o->z.x != NULL);
    FAST_TRY(fast__alloc("flows of fragments", 2 * parts, sizeof(fast_flow *), &k->flows));
    for (int64_t i = 0; i < 2 * parts; i++) {
        fast_flow_options how = { .number = i, .decodes = i >= parts };

        range_of(k, i % parts, &how.offset, &how.count);
        if (how.count > 0)
            FAST_TRY(fast_trainer_flow(k->t, &how, &k->flows[i]));
    }
    return FAST_OK;
}

fast_err fast__fragments_init(fast_trainer *t, const local_config *c, local_state *o,
                              local_fragments *out)
{
    *out = (local_fragments){ .t = t, .c = c, .o = o, .pending = -1 };
    FAST_ASSERT(c->fragments > 1);
    FAST_TRY(
        fast__vector_new(fast__device_of(t->w), "the average of a fragment", t->count, &out->a));
    return fast_trainer_codec_fit(t) == FAST_FIT_NONE ? FAST_OK : open_flows(out);
}

void fast__fragments_fini(local_fragments *k)
{
    FAST_ASSERT(k->a || !k->request);
    if (k->request) /* after a failure */
        (void)!fast_request_wait(&k->request, FAST_AT_ONCE);
    fast__free(k->flows);
    fast__vector_free(k->a);
    *k = (local_fragments){ 0 };
}

/* Send an encoded fragment, x in k->a, to all other workers; the own encoding replaces it. */
static fast_err send_coded(local_fragments *k, int64_t f, int64_t first, int64_t count)
{
    fast_trainer *t = k->t;
    const int64_t words[2] = { f, t->step };
    fast_buffer *buffer = NULL;
    fast_err err = FAST_OK;
    size_t size;

    FAST_ASSERT(k->flows[f] != NULL);
    FAST_TRY(fast__floats_pack(t, k->flows[f], 0, k->a + first, count, &buffer, &size));
    fast_buffer_freeze(buffer);
    for (int64_t i = 1; i < t->workers && !err; i++) {
        const int64_t to = t->worker_ids[(t->rank + i) % t->workers];

        err = fast__vector_message_send(
            t, &(fast_vector_address){ to, TAG_FRAGMENT, words, 2, false }, buffer, size);
    }
    if (!err)
        fast__vector_fill(count, 0, k->a + first);
    if (!err)
        err = fast_trainer_decode(t, k->flows[k->c->fragments + f], fast_buffer_data(buffer), size,
                                  1, k->a + first);
    fast_buffer_free(buffer);
    return err;
}

/* Start the exchange of fragment f. */
static fast_err start(local_fragments *k, int64_t f)
{
    fast_trainer *t = k->t;
    int64_t first, count;

    FAST_ASSERT(k->pending < 0 && !k->request);
    range_of(k, f, &first, &count);
    fast_actor_at(t->actor, t->step, "a fragment");
    k->pending = f;
    k->started = t->step;
    if (count == 0)
        return FAST_OK;
    fast__vector_copy(count, t->w + first, k->a + first);
    if (!k->flows)
        return fast_allreduce_start(t->group, k->a + first, count, &k->request);
    fast__vector_axpy(count, -1, k->o->z.x + first, k->a + first);
    return send_coded(k, f, first, count);
}

/* Receive worker i's encoding of the pending fragment and add it to `sum`. */
static fast_err add_coded(local_fragments *k, int64_t i, float *sum)
{
    fast_trainer *t = k->t;
    fast_msg *msg = NULL;

    FAST_ASSERT(i != t->rank);
    FAST_TRY(fast_receive(t->actor, t->worker_ids[i], TAG_FRAGMENT, FAST_SOON, &msg));
    fast_err err = FAST_OK;
    if (msg->part_count != 1 || msg->words[WORD_FRAGMENT] != k->pending)
        err = fast__fail(FAST_EFORMAT, "worker %lld sent no encoding of fragment %lld",
                         (long long)i, (long long)k->pending);
    if (!err)
        err = fast_trainer_decode(t, k->flows[k->c->fragments + k->pending], fast_msg_data(msg, 0),
                                  msg->parts[0].size, 1, sum);
    fast_msg_free(msg);
    return err;
}

/* Make the average of the pending fragment in k->a. The encodings are added in the order of ranks:
 * the own one waits in k->a, and moves to its place. */
static fast_err finish_sum(local_fragments *k, int64_t first, int64_t count)
{
    fast_trainer *t = k->t;
    const float share = 1.0f / (float)t->workers;
    float *a = k->a + first, *own = t->g + first; /* the gradient of this step was applied */

    FAST_ASSERT(count > 0);
    if (k->request)
        FAST_TRY(fast_request_wait(&k->request, FAST_SOON));
    if (k->flows) {
        fast__vector_copy(count, a, own);
        fast__vector_fill(count, 0, a);
        for (int64_t i = 0; i < t->workers; i++) {
            if (i == t->rank)
                fast__vector_add(count, own, a);
            else
                FAST_TRY(add_coded(k, i, a));
        }
    }
    fast__vector_scale(count, share, a);
    if (k->flows)
        fast__vector_add(count, k->o->z.x + first, a);
    return FAST_OK;
}

/* x = w, z and D, where there are such, and a: the end of an exchange by the formula above. */
static void run_end(const void *ctx, int64_t n, float *const *x)
{
    const local_fragments *k = ctx;
    const local_config *c = k->c;
    const float m = (float)c->momentum, r = (float)c->rate;
    const float own = k->t->step > k->started ? (float)c->mix : 0;
    float *w = x[0], *z = k->o->z.x ? x[1] : NULL, *d = k->o->d.x ? x[2] : NULL;
    const float *a = x[d ? 3 : z ? 2 : 1];

    FAST_ASSERT(z || !d);
    for (int64_t i = 0; i < n; i++) {
        float next = a[i];

        if (d) {
            const float gain = r * (next - z[i]);

            d[i] = m * d[i] + gain;
            next = z[i] + (c->outer == OUTER_CLASSICAL ? d[i] : m * d[i] + gain);
        }
        if (z)
            z[i] = next;
        w[i] = own == 0 ? next : own * w[i] + (1 - own) * next;
    }
}

/* End the exchange of the pending fragment. */
static fast_err end(local_fragments *k)
{
    static const fast_kernel ends[3] = { { "mean", 1, 12, 2, 1, false, run_end },
                                         { "fragment", 2, 20, 3, 2, false, run_end },
                                         { "outer step", 8, 32, 4, 3, false, run_end } };
    const local_state *o = k->o;
    const int vectors = o->d.x ? 2 : o->z.x ? 1 : 0; /* besides w and a */
    fast_trainer *t = k->t;
    int64_t first, count;

    FAST_ASSERT(k->pending >= 0);
    range_of(k, k->pending, &first, &count);
    fast_actor_at(t->actor, t->step, "a fragment");
    if (count > 0)
        FAST_TRY(finish_sum(k, first, count));
    k->pending = -1;
    if (count == 0)
        return FAST_OK;
    fast_vector x[4] = { { .x = t->w + first, .age = -1 } };
    if (vectors > 0)
        x[1] = (fast_vector){ .x = o->z.x + first, .age = -1 };
    if (vectors > 1)
        x[2] = (fast_vector){ .x = o->d.x + first, .age = -1 };
    x[vectors + 1] = (fast_vector){ .x = k->a + first, .age = -1 };
    return fast_trainer_apply_range(t, &ends[vectors], k, x, 1, count);
}

/* Exchange all fragments, one after the other. */
static fast_err exchange_all(local_fragments *k)
{
    FAST_ASSERT(k->c->fragments > 1);
    if (k->pending >= 0)
        FAST_TRY(end(k));
    for (int64_t f = 0; f < k->c->fragments; f++) {
        FAST_TRY(start(k, f));
        FAST_TRY(end(k));
    }
    return FAST_OK;
}

/* Contributions are those of whole models: they are complete when the last fragment of a period was
 * exchanged. State that is not trained (batch-norm statistics) has no fragments: it is averaged
 * with the last one, once a period. */
fast_err fast__fragments_step(local_fragments *k, bool all)
{
    const local_config *c = k->c;
    fast_trainer *t = k->t;
    const int64_t every = c->period / c->fragments;
    const int64_t ending = (t->step + c->overlap) / every % c->fragments;
    bool last = all, done;

    FAST_ASSERT(t->step > 0 && every > c->overlap);
    if (all)
        FAST_TRY(exchange_all(k));
    if (k->request) /* its messages of this step */
        FAST_TRY(fast_request_test(k->request, &done));
    /* At the end of the run all fragments are exchanged. */
    if (!all && (t->step + c->overlap) % every == 0 && t->step + c->overlap != t->step_count)
        FAST_TRY(start(k, ending));
    if (!all && t->step % every == 0 && k->pending >= 0) {
        last = k->pending == c->fragments - 1;
        FAST_TRY(end(k));
    }
    if (!last)
        return FAST_OK;
    fast_trainer_adopt(t, &(fast_vector){ .x = t->w, .age = -1 });
    return fast__state_average(t);
}
