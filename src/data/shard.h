/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/loader.h"

/* Return the samples that options->worker owns under any shard but FAST_SHARD_SAMPLE, at least one,
 * in the order of the data set (of the labels for FAST_SHARD_LABEL). Every sample belongs to
 * exactly one worker, with FAST_SHARD_ALL to all. The caller frees *out. */
fast_err fast__shard_own(const fast_data *data, const fast_loader_options *options, uint32_t **out,
                         int64_t *count_out);

/* Return the first sample of worker k's shard, if `count` samples are divided into equal shards. */
int64_t fast__shard_cut(int64_t count, int64_t workers, int64_t k);
