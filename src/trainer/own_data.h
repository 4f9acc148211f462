/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"

/* The training data of one worker, for strategies that weigh workers by it. */
typedef struct fast_own_data {
    int64_t samples; /* that its batches are drawn from, at least 1: its shard, or an equal part of
                        a set that all workers share */
    int64_t batch;   /* samples of a batch, at least 1 */
} fast_own_data;

/* Return the data of this worker. A learner that makes its own batches has the mean of all. */
fast_own_data fast__trainer_own_data(const fast_trainer *t);
