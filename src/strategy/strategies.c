/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registry of the strategies, from synchronous to partial communication.
 */
#include "strategy/strategy.h"

#include "base/memory.h"

#include <string.h>

extern const fast_strategy
    fast__strategy_allreduce; /* synchronous: the mean gradient of all workers */
extern const fast_strategy fast__strategy_quorum; /* synchronous: the first gradients of a round */
extern const fast_strategy fast__strategy_local;  /* periodic averaging of models */
extern const fast_strategy fast__strategy_federated; /* rounds of chosen clients */
extern const fast_strategy
    fast__strategy_ps; /* parameter servers, from synchronous to asynchronous */
extern const fast_strategy fast__strategy_elastic;      /* elastic averaging with a master */
extern const fast_strategy fast__strategy_elastic_sync; /* elastic averaging in rounds */
extern const fast_strategy fast__strategy_elastic_tree; /* elastic averaging along a tree */
extern const fast_strategy fast__strategy_mpca;     /* model penalty with an extrapolated master */
extern const fast_strategy fast__strategy_hogwild;  /* shared memory without locks */
extern const fast_strategy fast__strategy_dogwild;  /* chunks by unreliable messages */
extern const fast_strategy fast__strategy_ensemble; /* independent models */
extern const fast_strategy fast__strategy_distill;  /* an ensemble that teaches a student */
extern const fast_strategy fast__strategy_gossip;   /* synchronous mixing with neighbours */
extern const fast_strategy fast__strategy_gossip_async; /* asynchronous exchanges of pairs */
extern const fast_strategy fast__strategy_partial;      /* parts of gradients or models */

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

/* The caller's own strategy wins over one of the registry that has its name. */
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
