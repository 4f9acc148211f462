/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ensemble: every worker trains a model of its own; nothing is exchanged.
 *
 *     w_i <- rule(w_i, g_i)
 *
 * An ensemble predicts with the mean of its members' predictions, which is more than any mean of
 * their weights: the members sit in different basins. So its standard representative is the policy
 * "ensemble"; with "best" it is the member of the smallest training loss alone (Hansen and Salamon
 * 1990; Lakshminarayanan et al. 2017).
 *
 * Members begin with the same weights and see different shards. Cost: none.
 */
#include "base/err.h"
#include "strategy/strategy.h"

static fast_err worker(fast_trainer *t, const void *config)
{
    (void)config;
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        t->staleness = 0;
        FAST_TRY(fast_trainer_update(t, t->g, 1));
    }
    return fast_trainer_end(t);
}

const fast_strategy fast__strategy_ensemble = {
    .name = "ensemble",
    .summary = "independent models, one for each worker; the mean of their predictions stands",
    .sends = "nothing",
    .representative = "ensemble",
    .worker = worker,
};
