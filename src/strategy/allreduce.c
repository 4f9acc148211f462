/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allreduce: synchronous data parallelism (BSP), as PyTorch's DDP, Horovod and most others do it.
 *
 *     g_i <- gradient of worker i's batch at w
 *     w   <- rule(w, 1/P sum_i g_i)
 *
 * Every replica applies the same update to the same weights, so they stay equal to the bit; with P
 * workers of batch B it is one worker that accumulates P micro-batches of B in the canonical order.
 * State that is not trained (batch norm's statistics) is averaged at each step too.
 *
 * Cost per worker and step: one allreduce of the gradient, 2 (P - 1) / P of its bytes sent by the
 * algorithms that are optimal in bandwidth.
 */
#include "base/err.h"
#include "strategy/strategy.h"

#include <string.h>

typedef struct allreduce_config {
    char algorithm[64]; /* of the group */
} allreduce_config;

static const fast_option options[] = {
    FAST_OPT_TEXT(allreduce_config, algorithm, "auto", "allreduce",
                  "how the sum is made: a collective by name"),
    FAST_OPT_END,
};

/* Average what is not trained. */
static fast_err average_state(fast_trainer *t)
{
    if (t->state_count == 0 || t->workers == 1)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "state");
    FAST_TRY(fast_allreduce(t->group, t->s, t->state_count, FAST_SOON));
    for (int64_t i = 0; i < t->state_count; i++)
        t->s[i] /= (float)t->workers;
    return FAST_OK;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const allreduce_config *c = config;
    const float share = 1.0f / (float)t->workers;

    FAST_TRY(fast_group_algorithm(t->group, c->algorithm));
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        fast_actor_at(t->actor, t->step, "gradient");
        FAST_TRY(fast_allreduce(t->group, t->g, t->count, FAST_SOON));
        FAST_TRY(fast_trainer_update(t, t->g, share));
        for (int64_t j = 0; j < t->workers; j++)
            fast_trainer_carry(t, j, 1);
        fast_trainer_staleness(t, 0);
        FAST_TRY(average_state(t));
    }
    return fast_trainer_end(t);
}

const fast_strategy fast__strategy_allreduce = {
    .name = "allreduce",
    .summary = "synchronous: the mean gradient of all workers at each step",
    .options = options,
    .config_size = sizeof(allreduce_config),
    .synchronous = true,
    .identical = true,
    .sends = "gradients",
    .worker = worker,
};
