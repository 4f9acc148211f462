/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums at a master and its answers, by three paths (via_master.h has their costs).
 *
 *     tree       comm/master.h: partial sums travel up, the answer down
 *     scatter    worker i receives slice i of all workers, sums it and sends it to the master;
 *                it receives slice i of the answer, and workers gather the slices of each other
 *     direct     the master receives all vectors before it sums them
 *
 * The master ends when its workers have ended: it waits for their next vector, and learns instead
 * that they are gone without an error.
 */
#include "strategy/via_master.h"

#include "base/err.h"
#include "base/memory.h"
#include "comm/master.h"
#include "tensor/vector.h"
#include "transport/peers.h"

#include <math.h>

/* True at the master. */
static bool is_master(const fast_trainer *t)
{
    FAST_ASSERT(t->servers >= 1);
    return t->group == NULL;
}

/* The group of the workers and the master, who comes last. */
static fast_err open_group(fast_trainer *t, fast_group **out)
{
    int64_t *ids = NULL;

    FAST_ASSERT(t->workers >= 1);
    FAST_TRY(fast__alloc("the workers and their master", t->workers + 1, sizeof *ids, &ids));
    for (int64_t i = 0; i < t->workers; i++)
        ids[i] = t->worker_ids[i];
    ids[t->workers] = t->server_ids[0];
    const fast_err err = fast_group_new(t->actor, ids, t->workers + 1, 1, out);
    fast__free(ids);
    return err;
}

/* Floats of scratch memory at this end: the master has the last sum, with direct messages behind
 * the vectors of all workers; a worker that sums slices has one of each worker. */
static int64_t scratch_count(const fast_trainer *t, fast_via via)
{
    const int64_t longest = t->count > t->state_count ? t->count : t->state_count;

    FAST_ASSERT(t->count > 0);
    if (is_master(t))
        return longest + (via == FAST_VIA_DIRECT ? t->workers * t->count : 0);
    return via == FAST_VIA_SCATTER ? t->workers * ((t->count + t->workers - 1) / t->workers) : 0;
}

/* The sum of the master is the last part of its scratch memory. */
fast_err fast__via_open(fast_trainer *t, fast_via via, fast_via_master *out)
{
    const int64_t scratch = scratch_count(t, via);
    fast_err err = FAST_OK;

    FAST_ASSERT(via != FAST_VIA_NONE);
    *out = (fast_via_master){ .t = t, .via = via };
    if (scratch > 0)
        err = fast__vector_new(fast__device_of(t->w), "vectors of workers", scratch, &out->scratch);
    if (!err)
        err = fast__alloc("vectors of workers", t->workers, sizeof *out->list, &out->list);
    if (!err)
        err = open_group(t, &out->group);
    if (err)
        fast__via_close(out);
    else if (is_master(t))
        out->sum = out->scratch + (via == FAST_VIA_DIRECT ? t->workers * t->count : 0);
    return err;
}

void fast__via_close(fast_via_master *m)
{
    FAST_ASSERT(m != NULL);
    fast_group_free(m->group);
    fast__vector_free(m->scratch);
    fast__free(m->list);
    *m = (fast_via_master){ .t = NULL };
}

/* The path of a vector: only those of the model's length have another than the tree. */
static fast_via path_of(const fast_via_master *m, int64_t count)
{
    FAST_ASSERT(count > 0);
    return count == m->t->count ? m->via : FAST_VIA_TREE;
}

/* The collective of a path. */
static fast_master_path shape_of(fast_via via)
{
    FAST_ASSERT(via != FAST_VIA_NONE);
    return via == FAST_VIA_TREE      ? FAST_MASTER_TREE
           : via == FAST_VIA_SCATTER ? FAST_MASTER_SLICES
                                     : FAST_MASTER_WHOLE;
}

/* Sum the list of `count` floats each, `stride` apart in scratch, to y. */
static fast_err sum_scratch(fast_via_master *m, int64_t stride, int64_t count, float *y)
{
    FAST_ASSERT(stride >= count);
    for (int64_t i = 0; i < m->t->workers; i++)
        m->list[i] = m->scratch + i * stride;
    return fast_trainer_sum_list(m->t, m->list, m->t->workers, count, y);
}

/* With slices the worker's own range of x becomes the sum, which alone it sends to the master. */
fast_err fast__via_send(fast_via_master *m, float *x, int64_t count)
{
    const fast_via via = path_of(m, count);
    const int64_t n = m->t->workers;
    int64_t offset, own;

    FAST_ASSERT(!is_master(m->t));
    if (via == FAST_VIA_SCATTER) {
        fast_group_range(m->t->group, count, m->t->rank, &offset, &own);
        FAST_TRY(fast__slices_exchange(m->t->group, x, count, m->scratch, FAST_SOON));
        FAST_TRY(sum_scratch(m, (count + n - 1) / n, own, x + offset));
    }
    return fast__master_up(m->group, shape_of(via), x, x, count, FAST_SOON);
}

/* With slices the ranges of all other workers are gathered after the own one. */
fast_err fast__via_receive(fast_via_master *m, float *x, int64_t count)
{
    const fast_via via = path_of(m, count);

    FAST_ASSERT(!is_master(m->t));
    FAST_TRY(fast__master_down(m->group, shape_of(via), x, count, FAST_SOON));
    return via == FAST_VIA_SCATTER ? fast__slices_gather(m->t->group, x, count, FAST_SOON)
                                   : FAST_OK;
}

/* True if workers have ended, and none because of an error. */
static bool workers_ended(const fast_trainer *t)
{
    bool ended = false;

    FAST_ASSERT(is_master(t));
    for (int64_t i = 0; i < t->workers; i++) {
        const fast_peer *peer = fast__peer(t->actor, t->worker_ids[i]);

        if (peer->down && (!peer->ended || peer->err))
            return false;
        ended = ended || peer->ended;
    }
    return ended;
}

/* The deadline is the workers': they wait for the answer. Local steps may take longer. */
fast_err fast__via_sum(fast_via_master *m, int64_t count, bool *over_out)
{
    const fast_via via = path_of(m, count);
    float *y = via == FAST_VIA_DIRECT ? m->scratch : m->sum;

    FAST_ASSERT(is_master(m->t) && over_out != NULL);
    const fast_err err = fast__master_up(m->group, shape_of(via), y, y, count, INT64_MAX);
    *over_out = false;
    if (err == FAST_EPEER && workers_ended(m->t)) {
        *over_out = true;
        return FAST_OK;
    }
    FAST_TRY(err);
    return via == FAST_VIA_DIRECT ? sum_scratch(m, count, count, m->sum) : FAST_OK;
}

fast_err fast__via_answer(fast_via_master *m, float *x, int64_t count)
{
    FAST_ASSERT(is_master(m->t));
    return fast__master_down(m->group, shape_of(path_of(m, count)), x, count, FAST_SOON);
}

/* Additions are left out: they are short beside the transfers. */
void fast__via_cost(fast_via via, int64_t workers, double times, fast_cost *out)
{
    const double n = (double)workers, depth = ceil(log2(n + 1));

    FAST_ASSERT(workers >= 1 && times >= 0);
    out->waits = times * (via == FAST_VIA_TREE      ? 2 * depth
                          : via == FAST_VIA_SCATTER ? 2 + 2 * (n - 1) / n
                                                    : 2 * n);
    out->round_trips = times * (via == FAST_VIA_TREE      ? 2 * depth
                                : via == FAST_VIA_SCATTER ? n + 1 + ceil(log2(n))
                                                          : 2);
}

fast_err fast__via_check(const char *strategy, fast_via via, int64_t workers)
{
    FAST_ASSERT(strategy != NULL);
    if (via == FAST_VIA_NONE || via == FAST_VIA_TREE || workers <= FAST_SUM_LIST_MAX)
        return FAST_OK;
    return fast__fail(FAST_EINVAL, "%s: %d workers at most are summed at once; use the tree",
                      strategy, FAST_SUM_LIST_MAX);
}
