/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/graph.h"

/*
 * A mixture of experts (Shazeer et al. 2017): each position of a sequence is computed by one or two
 * of E layers, which a router chooses. It is a chain of operators, so that a cut between them is a
 * cut like any other:
 *
 *     x [T, C] -- dense -- logits [T, E] -- head balance -- route [T, 2k] ---------------.
 *        \                                                    |                          |
 *         `--------------------------------------------- dispatch [E S, C] -- experts -- combine
 *
 * An expert has S slots in each sample: the groups that share a capacity are samples, so that
 * neither the batch nor a split of it changes what a position's experts are. Positions that find no
 * free slot are dropped: combine gives them zeros, and a residual passes them on.
 */
enum {
    FAST_EXPERTS_MAX = 1024, /* experts of a layer */
    FAST_ROUTES_MAX = 8      /* experts of a position */
};

/* Functions of route, dispatch and combine, for fast__element_operator(). */
extern const fast_operator fast__route, fast__dispatch, fast__combine;

/* The loss that balances experts, on logits y in rows [count][T][E]: return the mean over samples
 * of E sum_e f_e P_e, f_e the fraction of positions that prefer expert e and P_e its mean
 * probability (Fedus et al. 2021), and write `weight` times its gradient to dy unless that is
 * NULL. It is 1 for a router that prefers none. */
double fast__balance_loss(const fast_node *head, int64_t count, const float *y, float weight,
                          float *dy);
