/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "learner/learner.h"

/* TicTac's orders of the transfers of parameters: transfer_order.c. */

/* One operator of a network. */
typedef struct fast_transfer_node {
    const int *inputs; /* earlier operators whose outputs it reads; borrowed */
    int input_count;   /* length of inputs */
    double compute_s;  /* seconds that it computes */
    double transfer_s; /* seconds of the transfer of its parameters; 0: it has none */
} fast_transfer_node;

/* Set order[0 .. *placed_out) to the operators with parameters, the first transfer first: by TIC,
 * which counts transfers, or if `timed` by TAC, which weighs their seconds. `order` has room for
 * `count` numbers. FAST_ENOMEM. */
fast_err fast__transfer_order(const fast_transfer_node *nodes, int64_t count, bool timed,
                              int64_t *order, int64_t *placed_out);
