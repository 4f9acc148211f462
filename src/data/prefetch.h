/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * A thread that prepares the steps that will be asked for next. It calls make(ctx, step, slot),
 * which fills the caller's slot `slot` for step `step` and cannot fail; slots are 0 to depth.
 */
typedef void fast_prefetch_fn(void *ctx, int64_t step, int64_t slot);

typedef struct fast_prefetch fast_prefetch;

/* Start the thread; it sleeps until the first get. It works at most `depth` steps ahead; a get
 * waits at most `deadline_ns` for it. FAST_ENOMEM, FAST_EIO. */
fast_err fast__prefetch_new(fast_prefetch_fn *make, void *ctx, int64_t depth, int64_t deadline_ns,
                            fast_prefetch **out);

/* Stop the thread after its current step, and join it. NULL is allowed. */
void fast__prefetch_free(fast_prefetch *prefetch);

/* Return the filled slot of a step, valid until the next get. Consecutive steps are prepared ahead;
 * any other step starts over from there. FAST_ETIMEDOUT if it is not made in time; asking again is
 * allowed. */
fast_err fast__prefetch_get(fast_prefetch *prefetch, int64_t step, int64_t *slot_out);
