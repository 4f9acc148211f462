/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registry of the strategies, from synchronous to partial communication.
 *
 *     file NAME.c:   const fast_strategy fast__strategy_NAME = { .name = ..., .worker = ... };
 *     here:          X(NAME)
 *
 * The order is that of `fast help`. Everything that lists strategies loops over this table: help,
 * completion, docs/options.md, the matrix of combinations and the conformance suites, so that a new
 * strategy is documented and tested because it is listed.
 */
#include "strategy/strategy.h"

#include "base/memory.h"

#include <string.h>

/* A new strategy is a file that defines fast__strategy_NAME, and one line here. */
/* clang-format off */
#define STRATEGIES(X) \
    X(allreduce)        \
    X(zero)             \
    X(quorum)           \
    X(local)            \
    X(federated)        \
    X(ps)               \
    X(elastic)          \
    X(elastic_sync)     \
    X(elastic_tree)     \
    X(mpca)             \
    X(hogwild)          \
    X(dogwild)          \
    X(ensemble)         \
    X(distill)          \
    X(gossip)           \
    X(gossip_async)     \
    X(partial)          \
    X(broadcast)        \
    X(strads)
/* clang-format on */

#define DECLARE(name) extern const fast_strategy fast__strategy_##name;
#define ENTRY(name)   &fast__strategy_##name,

STRATEGIES(DECLARE)

const fast_strategy *const fast__strategies[] = { STRATEGIES(ENTRY) NULL };

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
