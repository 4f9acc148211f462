/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/data.h"

/*
 * Batches of a data set: shuffled, sharded, augmented, normalised. Stateless: batch `step` of
 * worker `worker` is a pure function of the options, so that a resumed run needs no position, and
 * the order of samples does not depend on the number of workers:
 *
 *   shard sample:      global position p = (step * workers + worker) * batch + i of the epochs'
 *                      permutations, one after the other; an epoch's incomplete last global batch
 *                      is dropped, as PyTorch's drop_last
 *   shard all:         each worker shuffles the whole set; an epoch is a pass of each of them
 *   the others:        each worker shuffles its own fixed part
 *
 * With `accumulate` = K a step has K batches (micro-batches), which are asked for by
 * step * K + part: worker w deals with part k as worker w K + k of `workers` K would, so that one
 * worker that accumulates N batches sees what N workers see, sample by sample.
 */
typedef enum fast_shard {
    FAST_SHARD_SAMPLE,     /* deal the global shuffle out */
    FAST_SHARD_CONTIGUOUS, /* worker k owns the k-th run of samples */
    FAST_SHARD_LABEL,      /* sorted by label, then contiguous */
    FAST_SHARD_DIRICHLET,  /* each label's samples split by Dirichlet(alpha) */
    FAST_SHARD_ALL         /* every worker has the whole set, in an order of its own */
} fast_shard;

typedef struct fast_loader_options {
    uint64_t seed;       /* of the run: orders, parts, augmentation */
    int64_t batch;       /* samples per worker and step */
    int64_t workers;     /* 0 means 1 */
    int64_t worker;      /* which of them, from 0 */
    int64_t accumulate;  /* batches of a step; 0 means 1 */
    fast_shard shard;    /* how the set is divided */
    double alpha;        /* Dirichlet's */
    const char *augment; /* "shift:2+flip+crop:4+noise:0.1", or NULL */
    int64_t prefetch;    /* batches made ahead by a thread; 0: made when asked for */
    bool shuffle;        /* false: file order */
    bool partial;        /* keep an epoch's incomplete last batch: for evaluation */
} fast_loader_options;

typedef struct fast_loader fast_loader;

fast_err fast__loader_new(const fast_data *data, const fast_loader_options *options,
                          fast_loader **out);
void fast__loader_free(fast_loader *loader);

/* Steps that make one epoch (at least 1: FAST_EINVAL from new where a batch does not fit). */
int64_t fast__loader_steps(const fast_loader *loader);

/* The batch of a step (counted over all epochs), or with `accumulate` a part of one. Lent until the
 * next call. Allocates nothing; waits for the prefetching thread only. */
fast_err fast__loader_get(fast_loader *loader, int64_t step, const fast_batch **out);
