/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which a worker reads the model from the servers, with `priority`.
 *
 *   yes   the order of the layers (P3: Jayarajan et al. 2019)
 *   tic   by the graph alone (TicTac: transfer_order.c), told to the servers before the first read
 *   tac   by the graph and measured times: the first reads are whole ones. The shortest of them has
 *         the seconds of a float, and the second gradient those of an operation. From then on reads
 *         are sliced, in the order that follows
 *
 * Orders change no bits. The engine computes operators one after the other, so `yes` is the best
 * order for it; tic and tac are those of an executor that runs any operator that is ready.
 */
#include "base/memory.h"
#include "space/space.h"
#include "strategy/ps.h"
#include "strategy/transfer_order.h"
#include "trainer/operators.h"

#include <math.h>

enum { MEASURED = 2 }; /* whole reads and gradients before the order of tac is known */

bool fast__ps_reads_slices(const ps_writer *wr)
{
    FAST_ASSERT(wr->c->priority >= PS_PRIORITY_NO && wr->c->priority <= PS_PRIORITY_TAC);
    if (wr->c->tasks)
        return true;
    return wr->c->priority == PS_PRIORITY_TAC ? wr->order.gradients >= MEASURED
                                              : wr->c->priority != PS_PRIORITY_NO;
}

void fast__ps_time_read(ps_writer *wr, int64_t begin)
{
    /* A clock that is set back gives no time at all. */
    const double seconds = fmax((double)(fast_now(wr->t->actor) - begin) * 1e-9, 1e-9);

    FAST_ASSERT(wr->order.read_s >= 0);
    if (wr->order.read_s == 0 || seconds < wr->order.read_s)
        wr->order.read_s = seconds;
}

void fast__ps_time_gradient(ps_writer *wr, int64_t begin)
{
    FAST_ASSERT(wr->order.gradients >= 0);
    wr->order.gradients++;
    wr->order.gradient_s = fmax((double)(fast_now(wr->t->actor) - begin) * 1e-9, 0);
}

/* Fill in the graph's nodes with their seconds. A backward pass takes twice the forward pass. */
static void fill_nodes(const ps_writer *wr, int64_t count, fast_learner_node *own,
                       fast_transfer_node *nodes)
{
    double operations = 0;

    FAST_ASSERT(count > 0);
    for (int64_t i = 0; i < count; i++) {
        (void)fast__trainer_node(wr->t, i, &own[i]);
        operations += 3 * own[i].operations;
    }
    for (int64_t i = 0; i < count; i++)
        nodes[i] = (fast_transfer_node){
            .inputs = own[i].inputs,
            .input_count = own[i].input_count,
            .compute_s = operations > 0 ? own[i].operations / operations * wr->order.gradient_s : 0,
            .transfer_s =
                (double)own[i].count / (double)wr->t->count * fmax(wr->order.read_s, 1e-9),
        };
}

/* List the ranges of the parameters in the order of their operators; neighbours are one range. */
static int64_t list_ranges(const fast_learner_node *own, const int64_t *order, int64_t placed,
                           fast_space_stretch *list)
{
    int64_t count = 0;

    FAST_ASSERT(placed > 0);
    for (int64_t i = 0; i < placed; i++) {
        const fast_learner_node *node = &own[order[i]];
        fast_space_stretch *last = count > 0 ? &list[count - 1] : NULL;

        if (last && last->offset + last->count == node->offset)
            last->count += node->count;
        else
            list[count++] = (fast_space_stretch){ node->offset, node->count };
    }
    return count;
}

/* Compute the order and tell the servers. */
static fast_err send_order(ps_writer *wr, int64_t count, fast_learner_node *own,
                           fast_transfer_node *nodes, fast_space_stretch *list, int64_t *order)
{
    int64_t placed = 0;

    fill_nodes(wr, count, own, nodes);
    FAST_TRY(
        fast__transfer_order(nodes, count, wr->c->priority == PS_PRIORITY_TAC, order, &placed));
    FAST_ASSERT(placed <= count);
    return placed > 0 ? fast__space_set_order(wr->copies.spaces[0], list,
                                              list_ranges(own, order, placed, list))
                      : FAST_OK;
}

fast_err fast__ps_order(ps_writer *wr)
{
    fast_learner_node node, *own = NULL;
    fast_transfer_node *nodes = NULL;
    fast_space_stretch *list = NULL;
    int64_t *order = NULL, count = 0;
    fast_err err;

    FAST_ASSERT(!wr->visit.arriving);
    if (wr->order.sent || wr->c->priority < PS_PRIORITY_TIC)
        return FAST_OK;
    wr->order.sent = true;
    while (fast__trainer_node(wr->t, count, &node))
        count++;
    if (count == 0) {
        fast_trainer_note(wr->t, "this model has no graph: weights are read as they lie in it");
        return FAST_OK;
    }
    err = fast__alloc("operators", count, sizeof *own, &own);
    if (!err)
        err = fast__alloc("operators", count, sizeof *nodes, &nodes);
    if (!err)
        err = fast__alloc("an order", count, sizeof *list, &list);
    if (!err)
        err = fast__alloc("an order", count, sizeof *order, &order);
    if (!err)
        err = send_order(wr, count, own, nodes, list, order);
    fast__free(own);
    fast__free(nodes);
    fast__free(list);
    fast__free(order);
    return err;
}
