/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * A thread that makes what will be asked for next. It calls make(ctx, step, slot), which fills
 * slot `slot` of the caller's for step `step` and cannot fail; slots are 0 to depth.
 */
typedef void fast_prefetch_fn(void *ctx, int64_t step, int64_t slot);

typedef struct fast_prefetch fast_prefetch;

/* Start the thread; it sleeps until the first get. It works at most `depth` steps ahead; a get
 * waits at most `deadline_ns` for it. */
fast_err fast__prefetch_new(fast_prefetch_fn *make, void *ctx, int64_t depth, int64_t deadline_ns,
                            fast_prefetch **out);

/* Stop and join. The step being made is finished first. NULL is allowed. */
void fast__prefetch_free(fast_prefetch *prefetch);

/* The slot of a step, filled. It is the caller's until the next get. Steps in order are ready;
 * any other starts over from there. FAST_ETIMEDOUT if it is not made in time; asking again is
 * allowed. */
fast_err fast__prefetch_get(fast_prefetch *prefetch, int64_t step, int64_t *slot_out);
