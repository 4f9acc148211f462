/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allreduce: synchronous data parallelism (BSP), as PyTorch's DDP, Horovod and most others do it.
 *
 *     g_i <- gradient of worker i's batch at w
 *     w   <- rule(w, 1/P sum_i g_i)
 *
 * Every replica applies the same update to the same weights, so they stay equal to the bit; P
 * workers of batch B are one worker that accumulates P micro-batches of B in the canonical order.
 * State that is not trained (batch norm's statistics) is averaged at each step too.
 *
 * The loop below is the whole strategy. Beside it stand two other ways to make the same bits:
 * overlap.c starts sums while the gradient is computed, which pays where a network has to be waited
 * for; priority.c orders them by the next step's need. Workers that share memory have no idle core
 * to hide a sum behind; they may share one weight vector instead, of which each sums and updates a
 * slice.
 *
 * Cost per worker and step: one allreduce of the gradient, 2 (P - 1) / P of its bytes sent by the
 * algorithms that are optimal in bandwidth.
 */
#include "base/err.h"
#include "strategy/overlap.h"
#include "strategy/priority.h"

#include <string.h>

enum { OVERLAP_AUTO = 0, OVERLAP_YES = 1 };
enum { SHARE_AUTO = 0, SHARE_YES = 1, SHARE_FROM = 4 };

typedef struct allreduce_config {
    char algorithm[64]; /* of the group */
    int overlap;        /* auto, yes, no */
    int64_t bucket;     /* bytes of gradient whose sum is begun at once */
    int share;          /* auto, yes, no */
    int factors;        /* FAST_FACTORS_* */
    bool priority;      /* what the next step needs first is summed first */
} allreduce_config;

static const fast_option options[] = {
    FAST_OPT_TEXT(allreduce_config, algorithm, "auto", "allreduce",
                  "how the sum is made: a collective by name"),
    FAST_OPT_CHOICE(allreduce_config, overlap, "auto", "auto|yes|no",
                    "sum gradients while others are computed; auto: over a network"),
    FAST_OPT_INT(allreduce_config, bucket, "131072", 4, 1e12,
                 "bytes of gradients that are summed at once with overlap"),
    FAST_OPT_CHOICE(allreduce_config, share, "auto", "auto|yes|no",
                    "one model for all workers of a process, where algorithm and rule allow it; "
                    "auto: from 4 workers on"),
    FAST_OPT_FACTORS(allreduce_config),
    FAST_OPT_BOOL(allreduce_config, priority, "no",
                  "sum what the next step needs first before the rest, in slices of a bucket, and "
                  "begin it with what is there"),
    FAST_OPT_END,
};

fast_err fast__allreduce_state(fast_trainer *t)
{
    if (t->state_count == 0 || t->workers == 1)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "state");
    FAST_TRY(fast_allreduce(t->group, t->s, t->state_count, FAST_SOON));
    for (int64_t i = 0; i < t->state_count; i++)
        t->s[i] /= (float)t->workers;
    return FAST_OK;
}

/* Is there a network to wait for? All workers must find the same. */
static bool has_network(const fast_trainer *t)
{
    for (int64_t i = 1; i < t->workers; i++)
        if (fast_actor_node(t->actor, t->worker_ids[i]) !=
            fast_actor_node(t->actor, t->worker_ids[0]))
            return true;
    return false;
}

/* Is one model to be tried? It is summed as `direct` does. */
static bool share_wanted(const allreduce_config *c, int64_t workers)
{
    return (c->share == SHARE_YES || (c->share == SHARE_AUTO && workers >= SHARE_FROM)) &&
           (strcmp(c->algorithm, "auto") == 0 || strcmp(c->algorithm, "direct") == 0);
}

/* Transfers in the order of need: with plain sums that can be begun, and updates by range. */
static fast_err check_priority(const fast_trainer *t, const allreduce_config *c, bool coded)
{
    if (coded || strncmp(c->algorithm, "native", 6) == 0 || c->factors == FAST_FACTORS_YES)
        return fast__fail(FAST_EINVAL,
                          "allreduce: priority orders plain sums that can be begun; leave out it, "
                          "or %s",
                          coded                            ? "codec"
                          : c->factors == FAST_FACTORS_YES ? "factors"
                                                           : "algorithm=native");
    if (!fast_trainer_can_update_range(t))
        return fast__fail(FAST_EINVAL, "allreduce: priority updates a range when it has come, and "
                                       "this optimizer needs norms of whole layers or of all");
    return FAST_OK;
}

/* The figure: gradient, sum, update; with `shared` the last two are one pass over shared weights.
 */
static fast_err train(fast_trainer *t, bool shared)
{
    const float mean = 1.0f / (float)t->workers;

    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        fast_actor_at(t->actor, t->step, "gradient");
        if (shared) {
            FAST_TRY(fast_trainer_update_shared(t, t->g, mean, FAST_SOON));
        } else {
            FAST_TRY(fast_trainer_sum(t, t->g));
            FAST_TRY(fast_trainer_update(t, t->g, mean));
        }
        FAST_TRY(fast__allreduce_state(t));
    }
    return fast_trainer_end(t);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const allreduce_config *c = config;
    const bool coded = fast_trainer_codec_fit(t) != FAST_FIT_NONE;
    const fast_overlap_options overlap = {
        .early = c->overlap == OVERLAP_YES || (c->overlap == OVERLAP_AUTO && has_network(t)),
        .bucket = c->bucket / (int64_t)sizeof(float),
        .factors = c->factors,
        .native = strncmp(c->algorithm, "native", 6) == 0,
    };
    bool shared = false;

    FAST_TRY(fast_group_algorithm(t->group, c->algorithm));
    if (c->priority && t->workers > 1) {
        FAST_TRY(check_priority(t, c, coded));
        return fast__priority_train(t, c->algorithm, overlap.bucket);
    }
    if (!fast__overlap_is_plain(t, &overlap))
        return fast__overlap_train(t, &overlap);
    if (share_wanted(c, t->workers) && !coded)
        FAST_TRY(fast_trainer_share(t, &shared));
    return train(t, shared);
}

/* Factors of layers arrive from all other workers. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const allreduce_config *c = config;

    if (!c->priority)
        fast__factoring_cost(t, c->factors, out);
}

const fast_strategy fast__strategy_allreduce = {
    .name = "allreduce",
    .summary = "synchronous: the mean gradient of all workers at each step",
    .options = options,
    .config_size = sizeof(allreduce_config),
    .synchronous = true,
    .identical = true,
    .uses_codec = true,
    .sends = "gradients",
    .cost = cost,
    .worker = worker,
};
