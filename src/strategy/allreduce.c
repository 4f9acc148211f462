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
 * train() below is the whole strategy. Variants compute the same bits: overlap.c starts sums during
 * the backward pass, which pays over a network; priority.c orders the sums by the layers that the
 * next forward pass needs first; train_alone() is for one worker, whose gradient is the sum.
 * Workers that share memory have no idle core to hide a sum behind; they share one weight vector,
 * of which each sums and updates a part.
 *
 * Cost per worker and step: one allreduce of the gradient, 2 (P - 1) / P of its bytes sent by the
 * algorithms that are optimal in bandwidth.
 */
#include "base/err.h"
#include "comm/allreduces.h"
#include "comm/collective.h"
#include "strategy/overlap.h"
#include "strategy/priority.h"
#include "tensor/vector.h"
#include "trainer/in_place.h"

#include <stdio.h>
#include <string.h>

enum { OVERLAP_AUTO = 0, OVERLAP_YES = 1 };
enum { SHARE_NO = 2 };

/* Options. */
typedef struct allreduce_options {
    char algorithm[64]; /* collective that makes the sum; "auto": the group chooses */
    int overlap;        /* OVERLAP_*: start sums during the backward pass */
    int64_t bucket;     /* bytes of gradient in one sum, with overlap */
    int share;          /* unless SHARE_NO: one weight vector for all workers of a process */
    int factors;        /* FAST_FACTORS_*: send layers as factors of their gradients */
    bool priority;      /* sum the layers first that the next forward pass needs first */
} allreduce_options;

static const fast_option options[] = {
    FAST_OPT_TEXT(allreduce_options, algorithm, "auto", "allreduce",
                  "collective that sums the gradients; auto: the fastest by measurement"),
    FAST_OPT_CHOICE(allreduce_options, overlap, "auto", "auto|yes|no",
                    "start sums during the backward pass; auto: if workers are on several nodes, "
                    "or the algorithm is ring"),
    FAST_OPT_INT(allreduce_options, bucket, "131072", 4, 1e12,
                 "bytes of gradients in one sum, with overlap or priority"),
    FAST_OPT_CHOICE(allreduce_options, share, "auto", "auto|yes|no",
                    "one weight vector for all workers of a process; auto: if algorithm and "
                    "optimizer allow it"),
    FAST_OPT_FACTORS(allreduce_options),
    FAST_OPT_BOOL(allreduce_options, priority, "no",
                  "sum the first layers first, in slices of a bucket, and start the next forward "
                  "pass before the last layers are summed (P3, TicTac)"),
    FAST_OPT_END,
};

fast_err fast__allreduce_state(fast_trainer *t)
{
    FAST_ASSERT(t->group != NULL);
    if (t->state_count == 0)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "state");
    FAST_TRY(fast_allreduce(t->group, t->s, t->state_count, FAST_SOON));
    fast__vector_divide(t->state_count, (float)t->workers, t->s);
    return FAST_OK;
}

/* True if the workers are on more than one node. All workers get the same answer. */
static bool has_network(const fast_trainer *t)
{
    FAST_ASSERT(t->workers >= 1);
    for (int64_t i = 1; i < t->workers; i++)
        if (fast_actor_node(t->actor, t->worker_ids[i]) !=
            fast_actor_node(t->actor, t->worker_ids[0]))
            return true;
    return false;
}

/* True if sums start during the backward pass. An algorithm whose bits depend on the buckets gets
 * them on every transport: the bits follow from the model and the options alone, not from the place
 * of the workers. */
static bool starts_early(const allreduce_options *c, const fast_trainer *t)
{
    FAST_ASSERT(c->overlap >= OVERLAP_AUTO);
    return c->overlap == OVERLAP_YES ||
           (c->overlap == OVERLAP_AUTO && (has_network(t) || fast__group_is_by_place(t->group)));
}

/* True if workers are to share one weight vector, whose sums are made as by `direct`. */
static bool share_wanted(const allreduce_options *c)
{
    FAST_ASSERT(c->share <= SHARE_NO);
    return c->share != SHARE_NO &&
           (strcmp(c->algorithm, "auto") == 0 || strcmp(c->algorithm, "direct") == 0);
}

/* Refuse priority where sums cannot be started early or updates are not by range: FAST_EINVAL. */
static fast_err check_priority(const fast_trainer *t, const allreduce_options *c, bool coded)
{
    FAST_ASSERT(c->priority);
    if (coded || strncmp(c->algorithm, "native", 6) == 0 || c->factors == FAST_FACTORS_YES)
        return fast__fail(FAST_EINVAL,
                          "allreduce: priority needs uncompressed sums that can be started early; "
                          "leave out priority or %s",
                          coded                            ? "codec"
                          : c->factors == FAST_FACTORS_YES ? "factors"
                                                           : "algorithm=native");
    if (!fast_trainer_can_update_range(t))
        return fast__fail(FAST_EINVAL,
                          "allreduce: priority updates a range as soon as it is summed, "
                          "but this optimizer needs norms of whole layers; use another "
                          "optimizer or leave out priority");
    return FAST_OK;
}

/* Report of a gradient, with shared weights: the range is final. */
static void share_reported(void *ctx, int64_t offset, int64_t count)
{
    fast_trainer *t = ctx;

    FAST_ASSERT(t->workers > 1);
    fast__trainer_share_range(t, 1.0f / (float)t->workers, offset, count);
}

/* Train to the end: gradient, sum, update. With `shared` the last two are one pass over the shared
 * weights, which starts in the backward pass. */
static fast_err train(fast_trainer *t, bool shared)
{
    const float mean = 1.0f / (float)t->workers;

    FAST_ASSERT(t->workers >= 1);

    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, shared ? share_reported : NULL, t));
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

/* Report of a gradient: the range is final, so it is updated now, while it is in the cache. */
static void update_reported(void *ctx, int64_t offset, int64_t count)
{
    fast_trainer *t = ctx;

    FAST_ASSERT(t->workers == 1);
    fast_trainer_update_range(t, t->step + 1, t->lr, t->w + offset, t->g + offset, 1, offset,
                              count);
}

/* Train one worker to the end. A rule that needs the whole gradient (norms per layer, clipping by
 * norm) is applied after it. */
static fast_err train_alone(fast_trainer *t)
{
    const bool by_range = fast_trainer_can_update_range(t);

    FAST_ASSERT(t->workers == 1);
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, by_range ? update_reported : NULL, t));
        if (!by_range)
            FAST_TRY(fast_trainer_update(t, t->g, 1));
    }
    return fast_trainer_end(t);
}

/* Choose the variant, which all workers choose alike, and train. */
static fast_err train_chosen(fast_trainer *t, const void *config)
{
    const allreduce_options *c = config;
    const bool coded = fast_trainer_codec_fit(t) != FAST_FIT_NONE;
    fast_overlap_options overlap = {
        .bucket = c->bucket / (int64_t)sizeof(float),
        .factors = c->factors,
        .native = strncmp(c->algorithm, "native", 6) == 0,
    };
    bool shared = false;

    FAST_ASSERT(c != NULL && c->bucket >= (int64_t)sizeof(float));
    FAST_TRY(fast_group_algorithm(t->group, c->algorithm));
    overlap.early = starts_early(c, t);
    if (t->workers == 1)
        return train_alone(t);
    if (c->priority) {
        FAST_TRY(check_priority(t, c, coded));
        return fast__priority_train(t, c->algorithm, overlap.bucket);
    }
    if (!fast__overlap_is_plain(t, &overlap))
        return fast__overlap_train(t, &overlap);
    if (share_wanted(c) && !coded)
        FAST_TRY(fast_trainer_share(t, &shared));
    return train(t, shared);
}

/* The program of a worker. After the loss of another it fails with the first error of the group,
 * which is the cause, and says which strategies continue. */
static fast_err worker(fast_trainer *t, const void *config)
{
    const fast_err err = train_chosen(t, config);
    char why[FAST_DETAIL_MAX];

    FAST_ASSERT(t->group != NULL);
    if ((err != FAST_EPEER && err != FAST_ETIMEDOUT) || t->workers == 1)
        return err;
    snprintf(why, sizeof why, "%s", t->group->err ? t->group->detail : fast_error_detail());
    return fast__fail(err,
                      "%s; allreduce needs every worker: to continue without one use "
                      "quorum:backup=1, ps or gossip_async",
                      why);
}

/* Layers that travel as factors arrive from all other workers; sums are counted by the trainer. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const allreduce_options *c = config;

    FAST_ASSERT(c != NULL && out != NULL);
    if (!c->priority)
        fast__factoring_cost(t, c->factors, 0, out);
}

const fast_strategy fast__strategy_allreduce = {
    .name = "allreduce",
    .summary = "synchronous: the mean gradient of all workers at each step",
    .options = options,
    .config_size = sizeof(allreduce_options),
    .synchronous = true,
    .identical = true,
    .uses_codec = true,
    .sends = "gradients",
    .cost = cost,
    .worker = worker,
};
