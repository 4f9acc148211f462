/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registry of the strategies, from synchronous to partial communication.
 */
#include "strategy/strategy.h"

#include "base/memory.h"

#include <string.h>

extern const fast_strategy fast__strategy_allreduce;
extern const fast_strategy fast__strategy_quorum;
extern const fast_strategy fast__strategy_local;
extern const fast_strategy fast__strategy_federated;
extern const fast_strategy fast__strategy_ps;
extern const fast_strategy fast__strategy_elastic;
extern const fast_strategy fast__strategy_elastic_sync;
extern const fast_strategy fast__strategy_elastic_tree;
extern const fast_strategy fast__strategy_mpca;
extern const fast_strategy fast__strategy_hogwild;
extern const fast_strategy fast__strategy_dogwild;
extern const fast_strategy fast__strategy_ensemble;
extern const fast_strategy fast__strategy_distill;
extern const fast_strategy fast__strategy_gossip;
extern const fast_strategy fast__strategy_gossip_async;
extern const fast_strategy fast__strategy_partial;

const fast_strategy *const fast__strategies[] = {
    &fast__strategy_allreduce,
    &fast__strategy_quorum,
    &fast__strategy_local,
    &fast__strategy_federated,
    &fast__strategy_ps,
    &fast__strategy_elastic,
    &fast__strategy_elastic_sync,
    &fast__strategy_elastic_tree,
    &fast__strategy_mpca,
    &fast__strategy_hogwild,
    &fast__strategy_dogwild,
    &fast__strategy_ensemble,
    &fast__strategy_distill,
    &fast__strategy_gossip,
    &fast__strategy_gossip_async,
    &fast__strategy_partial,
    NULL,
};

static const char *name_at(const void *ctx, int64_t i)
{
    (void)ctx;
    FAST_ASSERT(fast__strategies[i] != NULL);
    return fast__strategies[i]->name;
}

fast_err fast__strategy_open(const char *spec, const fast_strategy *own, const fast_strategy **out,
                             void **config_out)
{
    const int64_t count = (int64_t)(sizeof fast__strategies / sizeof *fast__strategies) - 1;
    const fast_strategy *strategy = own;
    const char *rest = NULL;
    void *config = NULL;
    char name[32];
    int64_t i;
    fast_err err;

    FAST_ASSERT(spec != NULL && out != NULL && config_out != NULL);
    FAST_TRY(fast__spec_split(spec, name, sizeof name, &rest));
    if (!own || strcmp(name, own->name) != 0) {
        i = fast__name_find(name, name_at, NULL, count, NULL);
        if (i < 0)
            return fast__name_unknown("strategy", name, name_at, NULL, count);
        strategy = fast__strategies[i];
    }
    FAST_TRY(fast__alloc("a strategy's options", (int64_t)strategy->config_size, 1, &config));
    fast__options_default(strategy->options, config);
    err = fast__options_parse(strategy->name, strategy->options, config, rest);
    if (err) {
        fast__free(config);
        return err;
    }
    *out = strategy->member ? strategy->member(config) : strategy;
    *config_out = config;
    return FAST_OK;
}
