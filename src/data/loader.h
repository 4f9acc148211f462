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
 *   shard all:         each worker shuffles the whole set; an epoch is one pass of each worker
 *   shard ring:        worker k starts with the k-th run of samples, and passes each batch to
 *                      worker k + 1 after its step: in epoch e it has the run of worker k - e, in
 *                      the order of that worker, which shuffles its run when it has returned
 *   all other shards:  each worker shuffles its own fixed shard
 *
 * With `accumulate` = K a step has K micro-batches, numbered step * K + k: worker w gets for number
 * k the samples of worker w K + k of `workers` K. So one worker that accumulates N batches sees the
 * samples of N workers.
 */
typedef enum fast_shard {
    FAST_SHARD_SAMPLE,     /* deal out the global shuffle */
    FAST_SHARD_CONTIGUOUS, /* worker k owns the k-th run of samples */
    FAST_SHARD_LABEL,      /* sorted by label, then contiguous */
    FAST_SHARD_DIRICHLET,  /* each label's samples split by Dirichlet(alpha) */
    FAST_SHARD_ALL,        /* every worker has the whole set, in its own order */
    FAST_SHARD_RING        /* contiguous, and batches move around a ring of the workers */
} fast_shard;

/* How batches are made. */
typedef struct fast_loader_options {
    uint64_t seed;       /* seed of the run: order, shards, augmentation */
    int64_t batch;       /* samples per worker and step */
    int64_t workers;     /* 0 means 1 */
    int64_t worker;      /* rank of this worker, from 0 */
    int64_t accumulate;  /* micro-batches of a step; 0 means 1 */
    int64_t stride;      /* between two micro-batches of this loader; 0 means 1 */
    int64_t offset;      /* of its first one: its micro-batch i is i stride + offset */
    fast_shard shard;    /* how the set is divided */
    double alpha;        /* concentration of FAST_SHARD_DIRICHLET */
    const char *augment; /* "shift:2+flip+crop:4+noise:0.1", or NULL */
    int64_t prefetch;    /* batches that a thread makes ahead; 0: none */
    bool shuffle;        /* false: file order */
    bool partial;        /* deliver an epoch's incomplete last batch: for evaluation */
    bool remote;         /* batches are made elsewhere and put: fast__loader_put() */
} fast_loader_options;

typedef struct fast_loader fast_loader;

/* Make a loader, which borrows `data`. FAST_EINVAL if the options contradict the set,
 * FAST_ENOMEM. */
fast_err fast__loader_new(const fast_data *data, const fast_loader_options *options,
                          fast_loader **out);
void fast__loader_free(fast_loader *loader);

/* Return the steps of one epoch, at least 1: fast__loader_new() refuses batches that do not fit. */
int64_t fast__loader_steps(const fast_loader *loader);

/* Return the samples that this worker draws from: its shard, or an equal part of a set that all
 * share; store those of a batch in *batch_out. */
int64_t fast__loader_own(const fast_loader *loader, int64_t *batch_out);

/* Return the batch of a step (counted over all epochs), or with `accumulate` one micro-batch. Lent
 * until the next call. Allocates nothing; waits for the prefetching thread only. */
fast_err fast__loader_get(fast_loader *loader, int64_t step, const fast_batch **out);

/* Copy a batch that another loader with the same options made for this step to a remote loader,
 * which then gives it to fast__loader_get(); it holds the last `accumulate` ones. sizes are the
 * bytes of x, of the answers (labels or targets, whichever the set has) and of ids. FAST_EFORMAT if
 * they are not those of `count` samples. */
fast_err fast__loader_put(fast_loader *loader, int64_t step, const fast_batch *batch,
                          const size_t sizes[3]);
