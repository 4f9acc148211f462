/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/stream_index.h"

/*
 * A bounded cache of shards, filled by threads that read ahead. All its memory is taken when it is
 * made. Shards are numbered through: those of the training set, then those of the test set. Any
 * number of threads may use it at once.
 */
typedef struct fast_stream_cache fast_stream_cache;

/* How it is made. */
typedef struct fast_stream_options {
    const char *folder; /* where the shards are; copied */
    int64_t cache;      /* bytes of memory, those to decompress from included */
    int64_t readers;    /* threads that read, at least 1 */
} fast_stream_options;

/* Make a cache with one owner; takes *index, also when it fails. FAST_EINVAL if `cache` holds fewer
 * than 2 shards, FAST_ENOTSUP for compressed shards in a build without zstd, FAST_ENOMEM,
 * FAST_EIO. */
fast_err fast__stream_cache_new(const fast_stream_options *options, fast_stream_index *move_index,
                                fast_stream_cache **out);

/* Add an owner; fast__stream_cache_free() removes one, and the last one frees the cache. */
void fast__stream_cache_share(fast_stream_cache *cache);
void fast__stream_cache_free(fast_stream_cache *cache);

/* Return the index, lent until the cache is freed. */
const fast_stream_index *fast__stream_cache_index(const fast_stream_cache *cache);

/* Return the number of shards that it holds. */
int64_t fast__stream_cache_slots(const fast_stream_cache *cache);

/* Copy row `row` of a shard to `out`; waits until the shard is read. Shards with the smallest
 * `when` leave the cache first. The first error of any read is that of all that follow: FAST_EIO,
 * FAST_EFORMAT for a damaged file. */
fast_err fast__stream_cache_read(fast_stream_cache *cache, int64_t shard, int64_t row, int64_t when,
                                 void *out);

/* Ask for a shard that will be read in window `when`. Never waits. */
void fast__stream_cache_expect(fast_stream_cache *cache, int64_t shard, int64_t when);
