/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ensemble: every worker trains a model of its own; nothing is exchanged.
 *
 *     w_i <- rule(w_i, g_i)
 *
 * An ensemble predicts with the mean of its members' outputs, which is more than any mean of their
 * weights: the members sit in different basins. A run has one model, so here it is the member with
 * the smallest training loss, smoothed over about `smooth` batches: what one would pick without a
 * look at the test data. What is reported is that member alone, not the ensemble.
 *
 * Members begin with the same weights and see different shards. Cost: none.
 */
#include "base/err.h"
#include "strategy/strategy.h"

#include <math.h>

typedef struct ensemble_config {
    int64_t smooth; /* batches of the mean that members are compared by */
} ensemble_config;

static const fast_option options[] = {
    FAST_OPT_INT(ensemble_config, smooth, "32", 1, 1e9,
                 "batches of the training loss that members are compared by"),
    FAST_OPT_END,
};

/* The better, the larger; from 0. A loss of 1e6 and above, or none, is as bad as any. */
static int64_t merit(double loss)
{
    return loss < 1e6 ? llround((1e6 - loss) * 1e9) : 0;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const ensemble_config *c = config;
    const int64_t first = t->step;
    double mean = 0;

    t->centre = t->w;
    while (fast_trainer_next(t)) {
        double share;

        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(fast_trainer_update(t, t->g, 1));
        fast_trainer_staleness(t, 0);
        fast_trainer_carry(t, t->rank, 1);
        share = 1 / (double)(t->step - first < c->smooth ? t->step - first : c->smooth);
        mean += share * (t->loss - mean);
        t->centre_version = merit(mean);
    }
    return fast_trainer_end(t);
}

const fast_strategy fast__strategy_ensemble = {
    .name = "ensemble",
    .summary = "independent models, one for each worker; the best by its training loss stands",
    .options = options,
    .config_size = sizeof(ensemble_config),
    .sends = "nothing",
    .worker = worker,
};
