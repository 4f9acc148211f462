/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TicTac: the order in which parameters are to arrive, from the graph of operators (Hashemi et al.
 * 2019). An operator can start when the parameters of all operators that it depends on, and its
 * own, have arrived: its dependencies D. Of the transfers R that are not placed yet
 *
 *     M(op)   = seconds of the transfers in D(op) and R          (of a transfer: its own seconds)
 *     P(r)    = seconds of computing that r alone still holds up: of ops where D and R share only r
 *     M+(r)   = least M(op) over ops that wait for r and others: the transfer before r is of use
 *
 *     TIC     every transfer takes 1, computing 0; r is placed by M+(r)
 *     TAC     r is placed before q if min(P(r), M(q)) > min(P(q), M(r)), the larger overlap; of
 *             equal ones by M+; P and M+ are computed anew after each placement
 *
 * Ties are broken by the order of the operators. On a chain both are the order of the layers.
 * Cost: transfers^2 operators / 64 words, once a run.
 */
#include "strategy/transfer_order.h"

#include "base/err.h"
#include "base/memory.h"

#include <math.h>

/* The properties of the transfers of one graph. */
typedef struct order_work {
    const fast_transfer_node *nodes; /* the graph */
    int64_t count;                   /* of nodes */
    int64_t words;                   /* of a set of transfers */
    bool timed;                      /* TAC */
    uint64_t *waits;                 /* [count][words]: D of each operator */
    uint64_t *open;                  /* [words]: R, by the operators that own the parameters */
    double *alone;                   /* [count]: P of the operator's transfer */
    double *joint;                   /* [count]: M+ of the operator's transfer */
} order_work;

/* Return true if a set has an element. */
static bool has(const uint64_t *set, int64_t i)
{
    FAST_ASSERT(i >= 0);
    return (set[i / 64] >> (i % 64) & 1) != 0;
}

/* Return the seconds of a transfer as the order counts them. */
static double transfer(const order_work *x, int64_t i)
{
    FAST_ASSERT(i < x->count);
    return x->timed ? x->nodes[i].transfer_s : 1;
}

/* Compute D of every operator, and R. */
static void find_waits(order_work *x)
{
    for (int64_t i = 0; i < x->count; i++) {
        uint64_t *set = x->waits + i * x->words;

        for (int k = 0; k < x->nodes[i].input_count; k++) {
            const int64_t from = x->nodes[i].inputs[k];

            FAST_ASSERT(from >= 0 && from < i);
            for (int64_t w = 0; w < x->words; w++)
                set[w] |= x->waits[from * x->words + w];
        }
        if (x->nodes[i].transfer_s <= 0)
            continue;
        set[i / 64] |= UINT64_C(1) << (i % 64);
        x->open[i / 64] |= UINT64_C(1) << (i % 64);
    }
}

/* Compute P and M+ for the transfers that are open. */
static void find_properties(order_work *x)
{
    for (int64_t i = 0; i < x->count; i++) {
        x->alone[i] = 0;
        x->joint[i] = INFINITY;
    }
    for (int64_t i = 0; i < x->count; i++) {
        const uint64_t *set = x->waits + i * x->words;
        int64_t missing = 0;
        double seconds = 0;

        for (int64_t r = 0; r <= i; r++)
            if (has(set, r) && has(x->open, r)) {
                missing++;
                seconds += transfer(x, r);
            }
        FAST_ASSERT(missing == 0 || seconds > 0);
        for (int64_t r = 0; r <= i && missing > 0; r++)
            if (has(set, r) && has(x->open, r)) {
                x->alone[r] += missing == 1 && x->timed ? x->nodes[i].compute_s : 0;
                x->joint[r] = missing > 1 ? fmin(x->joint[r], seconds) : x->joint[r];
            }
    }
}

/* Return true if transfer a is placed before transfer b. */
static bool is_before(const order_work *x, int64_t a, int64_t b)
{
    const double first = fmin(x->alone[a], transfer(x, b));
    const double second = fmin(x->alone[b], transfer(x, a));

    FAST_ASSERT(a != b);
    if (x->timed && first != second)
        return first > second;
    return x->joint[a] < x->joint[b];
}

/* Place all open transfers; TIC computes the properties once. */
static int64_t place(order_work *x, int64_t *order)
{
    int64_t placed = 0;

    find_properties(x);
    for (;;) {
        int64_t best = -1;

        for (int64_t i = 0; i < x->count; i++)
            if (has(x->open, i) && (best < 0 || is_before(x, i, best)))
                best = i;
        if (best < 0)
            return placed;
        FAST_ASSERT(placed < x->count);
        order[placed++] = best;
        x->open[best / 64] &= ~(UINT64_C(1) << (best % 64));
        if (x->timed)
            find_properties(x);
    }
}

fast_err fast__transfer_order(const fast_transfer_node *nodes, int64_t count, bool timed,
                              int64_t *order, int64_t *placed_out)
{
    order_work x = { .nodes = nodes, .count = count, .words = (count + 63) / 64, .timed = timed };
    fast_err err;

    FAST_ASSERT(nodes != NULL && count > 0 && order != NULL);
    err = fast__alloc("dependencies", count * x.words, sizeof *x.waits, &x.waits);
    if (!err)
        err = fast__alloc("transfers", x.words, sizeof *x.open, &x.open);
    if (!err)
        err = fast__alloc("transfers", count, sizeof *x.alone, &x.alone);
    if (!err)
        err = fast__alloc("transfers", count, sizeof *x.joint, &x.joint);
    if (!err) {
        find_waits(&x);
        *placed_out = place(&x, order);
    }
    fast__free(x.waits);
    fast__free(x.open);
    fast__free(x.alone);
    fast__free(x.joint);
    return err;
}
