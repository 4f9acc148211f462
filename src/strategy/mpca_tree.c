/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPCA-SGD with rounds along a binomial tree, as on Spark: every worker contributes a model to a
 * round, workers that are inside the tree add their own to those that arrive and pass the sum on,
 * and the master's answer comes back along the tree. All of it happens while workers train.
 *
 *     worker   `period` steps are over, and the last round has been answered:  start a round with
 *              a copy of w_i; take further steps until its answer z has arrived
 *     master   x = 1/P sum_i w_i;  m <- m + min(1, P share) (x - m);  v <- m - m';  m' <- m
 *              answer  z = m + length v
 *
 * A vector of a round is the model, its contributions and, last, 1 of a worker that has taken all
 * its steps. Such workers take part with their last models until all have ended: that round is the
 * last one. No worker waits before.
 *
 * With rho = 0 and length = 0 it is `local:period=0` to the bit: one average of independent
 * workers. A crash ends the run, since a round needs all workers; without the tree it would not.
 *
 * Cost: a round takes 2 ceil(log2(P + 1)) transfers of the model, none of which is waited for;
 * memory: three more vectors at a worker, five at the master.
 */
#include "base/err.h"
#include "base/memory.h"
#include "comm/master.h"
#include "strategy/mpca.h"
#include "strategy/vector_kernels.h"
#include "strategy/via_master.h"
#include "tensor/vector.h"
#include "trainer/remember.h"

#include <math.h>
#include <string.h>

/* One round at a worker. */
typedef struct mpca_round {
    fast_via_master link; /* to the master */
    float *x;             /* [length] the contribution of the worker */
    float *y;             /* [length] the answer */
    float *z;             /* the master's last known model: the run's centre */
    double *shares;       /* two lists: contributions of z; scratch */
    float *tail;          /* [length - count] host memory: contributions and the end */
    fast_request *up;     /* of the round under way; or NULL */
    fast_request *down;   /* of its answer; or NULL */
    int64_t sent;         /* step at which the last round was started */
    int64_t started;      /* rounds so far */
    int64_t rounds;       /* those whose answers were taken */
    int64_t next;         /* rounds that are started when the next step has ended */
    bool last;            /* the last answer is that of the last round */
} mpca_round;

/* Floats of a round's vector. */
static int64_t round_length(const fast_trainer *t)
{
    FAST_ASSERT(t->count > 0);
    return t->count + fast_trainer_share_count(t) + 1;
}

/* Start a round with this worker's model; both directions advance while it trains. */
static fast_err start_round(fast_trainer *t, mpca_round *r, bool ended)
{
    const fast_vector w = fast_trainer_model(t);
    const int64_t shares = fast_trainer_share_count(t);

    FAST_ASSERT(!r->up && !r->down);
    for (int64_t i = 0; i < shares; i++)
        r->tail[i] = (float)w.shares[i];
    r->tail[shares] = ended;
    fast__vector_copy(t->count, t->w, r->x);
    fast__vector_copy(shares + 1, r->tail, r->x + t->count);
    fast_actor_at(t->actor, t->step, "weights");
    FAST_TRY(fast__master_up_start(r->link.group, r->x, r->x, round_length(t), &r->up));
    r->sent = t->step;
    r->started++;
    return fast__master_down_start(r->link.group, r->y, round_length(t), &r->down);
}

/* Return whether a round is under way, or its answer was not taken. */
static bool is_under_way(const mpca_round *r)
{
    FAST_ASSERT(r->started == r->rounds || r->started == r->rounds + 1);
    return r->started > r->rounds;
}

/* Take the answer of a round that has ended; in a resumed run it is here. */
static fast_err take_answer(fast_trainer *t, mpca_round *r)
{
    const int64_t shares = fast_trainer_share_count(t);

    FAST_ASSERT(is_under_way(r));
    if (r->up)
        FAST_TRY(fast_request_wait(&r->up, INT64_MAX));
    if (r->down)
        FAST_TRY(fast_request_wait(&r->down, INT64_MAX));
    fast__vector_copy(t->count, r->y, r->z);
    fast__vector_copy(shares + 1, r->y + t->count, r->tail);
    for (int64_t i = 0; i < shares; i++)
        r->shares[i] = (double)r->tail[i];
    t->centre_version = ++r->rounds;
    r->last = r->tail[shares] >= (float)t->workers;
    return FAST_OK;
}

/* Before a step: take the answer if it has arrived, and decide whether a round starts after it. */
static fast_err prepare(fast_trainer *t, const mpca_config *c, mpca_round *r)
{
    const int64_t step = t->step + 1;
    bool done = is_under_way(r);

    FAST_ASSERT(c->period > 0);
    if (r->down)
        FAST_TRY(fast_request_test(r->down, &done));
    if (done && !fast_trainer_resumed(t)) /* a resumed run starts after this place */
        FAST_TRY(take_answer(t, r));
    r->next = r->started;
    if (!is_under_way(r) && (step - r->sent >= c->period || step == t->step_count))
        r->next++;
    return FAST_OK;
}

/* The worker's loop: it never waits, and rounds follow each other. */
static fast_err train(fast_trainer *t, const mpca_config *c, mpca_round *r)
{
    FAST_ASSERT(r->z != NULL);
    for (;;) {
        FAST_TRY(prepare(t, c, r));
        if (!fast_trainer_next(t))
            break;
        FAST_TRY(fast__mpca_step(t, c, r->z, r->shares));
        if (r->next > r->started)
            FAST_TRY(start_round(t, r, t->step == t->step_count));
    }
    FAST_TRY(fast_trainer_end(t));
    fast_actor_at(t->actor, t->step, "the master's model");
    while (!r->last) {
        if (!is_under_way(r))
            FAST_TRY(start_round(t, r, true));
        FAST_TRY(take_answer(t, r));
    }
    return FAST_OK;
}

/* Give up a round under way: its vectors are about to be freed. */
static void drop_round(mpca_round *r)
{
    FAST_ASSERT(r != NULL);
    if (r->up)
        (void)!fast_request_wait(&r->up, FAST_AT_ONCE);
    if (r->down)
        (void)!fast_request_wait(&r->down, FAST_AT_ONCE);
}

/* Return whether the worker's last round has been answered. */
static bool is_idle(const void *round)
{
    const mpca_round *r = round;

    FAST_ASSERT(r->started >= r->rounds);
    return !r->down || fast__master_is_done(r->down);
}

/* Have snapshots include the worker's memory. All workers join when they have started the same
 * round, and a snapshot is taken when its answer has arrived: no message is on the tree. */
static fast_err remember_worker(fast_trainer *t, mpca_round *r)
{
    const size_t shares = (size_t)fast_trainer_share_count(t) * sizeof *r->shares;

    FAST_ASSERT(!r->up && !r->down);
    FAST_TRY(fast__trainer_remember(t, 0, &r->sent, 3 * sizeof r->sent));
    FAST_TRY(fast__trainer_remember(t, 1, r->y, (size_t)round_length(t) * sizeof *r->y));
    FAST_TRY(fast__trainer_remember(t, 2, r->z, (size_t)t->count * sizeof *r->z));
    FAST_TRY(fast__trainer_remember(t, 3, &t->centre_version, sizeof t->centre_version));
    FAST_TRY(fast__trainer_remember(t, 4, r->shares, 2 * shares));
    FAST_TRY(fast__trainer_remember_flags(t, 5, &r->last, 1));
    fast__trainer_cut_within(t, &r->started, &r->next);
    fast__trainer_cut_idle(t, is_idle, r);
    return fast__trainer_check_saved(
        t, r->sent >= 0 && r->sent <= t->step && r->rounds >= 0 && r->rounds <= t->step &&
               (r->started == r->rounds || r->started == r->rounds + 1));
}

fast_err fast__mpca_tree_worker(fast_trainer *t, const mpca_config *c)
{
    const int64_t length = round_length(t);
    mpca_round r = { .sent = t->step };
    fast_err err;

    FAST_ASSERT(t->servers == 1);
    FAST_TRY(fast_trainer_centre(t, &r.z));
    FAST_TRY(fast__vector_new(fast__device_of(t->w), "models of a round", 2 * length, &r.x));
    r.y = r.x + length;
    err =
        fast__alloc("contributions", 2 * fast_trainer_share_count(t), sizeof *r.shares, &r.shares);
    if (!err)
        err = fast__alloc("contributions", length - t->count, sizeof *r.tail, &r.tail);
    if (!err)
        err = fast__via_open(t, FAST_VIA_TREE, &r.link);
    if (!err) {
        err = remember_worker(t, &r);
        if (!err)
            err = train(t, c, &r);
        drop_round(&r);
        fast__via_close(&r.link);
    }
    fast__free(r.tail);
    fast__free(r.shares);
    fast__vector_free(r.x);
    return err;
}

/* Memory of the master. */
typedef struct mpca_gatherer {
    fast_via_master link; /* to the workers */
    float *memory;        /* four vectors: the sum and the answer, of a round's length; m' and v */
    float *sum;           /* of the models; then their mean */
    float *z;             /* the answer */
    float *before;        /* m at the end of the last round */
    float *v;             /* change of m by the last round */
    double *shares;       /* five lists: contributions of m, before, v, z and of the mean */
    float *tail;          /* [length - count] host memory: contributions and the end */
    float weight;         /* of the mean when it is merged */
} mpca_gatherer;

/* Merge the models of a round, and make the answer. *last_out: all workers have ended. */
static fast_err merge_round(fast_trainer *t, const mpca_config *c, mpca_gatherer *k, bool *last_out)
{
    const int64_t n = fast_trainer_share_count(t);
    const float share = 1.0f / (float)t->workers;
    const mpca_merge step = { k->weight, (float)c->length, true };
    const fast_vector mean = { .x = k->sum, .age = -1 };

    FAST_ASSERT(k->weight >= 0 && k->weight <= 1);
    FAST_TRY(fast_trainer_apply(t, &fast__kernel_scale, &share, &mean));
    fast__vector_copy(n + 1, k->sum + t->count, k->tail);
    for (int64_t i = 0; i < n; i++)
        k->shares[4 * n + i] = (double)k->tail[i] * (double)share;
    FAST_TRY(fast_trainer_apply(t, &fast__mpca_merge, &step,
                                (fast_vector[]){ { t->w, k->shares, -1 },
                                                 { k->before, k->shares + n, -1 },
                                                 { k->v, k->shares + 2 * n, -1 },
                                                 { k->z, k->shares + 3 * n, -1 },
                                                 { k->sum, k->shares + 4 * n, 0 } }));
    for (int64_t i = 0; i < n; i++)
        k->tail[i] = (float)k->shares[3 * n + i];
    *last_out = k->tail[n] >= (float)t->workers;
    fast__vector_copy(n + 1, k->tail, k->z + t->count);
    return FAST_OK;
}

/* Serve rounds until all workers have ended. */
static fast_err serve(fast_trainer *t, const mpca_config *c, mpca_gatherer *k)
{
    bool last = false;

    FAST_ASSERT(k->shares && k->tail);
    while (!last) {
        fast_actor_at(t->actor, t->step, "weights");
        FAST_TRY(fast__master_up(k->link.group, FAST_MASTER_TREE, k->sum, k->sum, round_length(t),
                                 INT64_MAX));
        FAST_TRY(merge_round(t, c, k, &last));
        FAST_TRY(
            fast__master_down(k->link.group, FAST_MASTER_TREE, k->z, round_length(t), FAST_SOON));
    }
    return FAST_OK;
}

/* Have snapshots include the master's memory; between two rounds the others are scratch. */
static fast_err remember_master(fast_trainer *t, mpca_gatherer *k)
{
    const size_t size = (size_t)t->count * sizeof(float);

    FAST_ASSERT(k->v == k->before + t->count);
    FAST_TRY(fast__trainer_remember(t, 0, t->w, size));
    FAST_TRY(fast__trainer_remember(t, 1, k->before, 2 * size));
    return fast__trainer_remember(t, 2, k->shares,
                                  3 * (size_t)fast_trainer_share_count(t) * sizeof *k->shares);
}

fast_err fast__mpca_tree_master(fast_trainer *t, const mpca_config *c)
{
    const int64_t length = round_length(t);
    const double share = c->share < 0 ? 1 / (double)t->workers : c->share;
    mpca_gatherer k = { .weight = (float)fmin(1, share * (double)t->workers) };
    fast_err err;

    FAST_ASSERT(t->servers == 1);
    FAST_TRY(fast__vector_new(fast__device_of(t->w), "the master's models",
                              2 * length + 2 * t->count, &k.memory));
    k.sum = k.memory;
    k.z = k.sum + length;
    k.before = k.z + length;
    k.v = k.before + t->count;
    fast__vector_copy(t->count, t->w, k.before);
    err =
        fast__alloc("contributions", 5 * fast_trainer_share_count(t), sizeof *k.shares, &k.shares);
    if (!err)
        err = fast__alloc("contributions", length - t->count, sizeof *k.tail, &k.tail);
    if (!err)
        err = fast__via_open(t, FAST_VIA_TREE, &k.link);
    if (!err) {
        err = remember_master(t, &k);
        if (!err)
            err = serve(t, c, &k);
        fast__via_close(&k.link);
    }
    fast__free(k.tail);
    fast__free(k.shares);
    fast__vector_free(k.memory);
    return err;
}
