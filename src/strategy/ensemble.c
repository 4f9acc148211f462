/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ensemble: every worker trains a model of its own; nothing is exchanged.
 *
 *     w_i <- rule(w_i, g_i)
 *
 * An ensemble predicts the mean of its members' predictions, which is better than a mean of their
 * weights, because members end in different minima. So its default representative is the policy
 * "ensemble"; with "best" it is the member of the smallest training loss (Hansen and Salamon 1990;
 * Lakshminarayanan et al. 2017).
 *
 * Members start from weights of their own, drawn from one stream each, and train on different
 * shards; weights that were loaded or imported are the same for all. Cost: none.
 */
#include "base/err.h"
#include "strategy/strategy.h"
#include "trainer/remember.h"

/* Train to the end, alone. */
static fast_err worker(fast_trainer *t, const void *config)
{
    (void)config;
    FAST_ASSERT(t->g != NULL);
    fast__trainer_draw(t);
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        t->staleness = 0;
        FAST_TRY(fast_trainer_update(t, t->g, 1));
    }
    return fast_trainer_end(t);
}

const fast_strategy fast__strategy_ensemble = {
    .name = "ensemble",
    .summary = "independent models, one for each worker; predicts the mean of their predictions",
    .resumable = true,
    .sends = "nothing",
    .representative = "ensemble",
    .worker = worker,
};
