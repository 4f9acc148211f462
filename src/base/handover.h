/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * A function that hands items to its caller, one at a time: a generator. It runs on a stack of its
 * own: a coroutine of the caller's thread, or, if items come from threads that it starts, a thread.
 */
typedef struct fast_handover fast_handover;

/* Prepare main(ctx), which starts at the first fast__handover_next(); its stack is a thread's.
 * `threaded`: on a thread, and any thread may give items; else only main() itself. FAST_ENOMEM. */
fast_err fast__handover_new(bool threaded, void (*main)(void *ctx), void *ctx, fast_handover **out);
/* Hand an item over, and return once the caller asks for the next one. From inside main(). */
void fast__handover_give(fast_handover *handover, void *item);
/* Let main() continue until it gives an item, and return it: the earliest of several. NULL once
 * main() has returned. FAST_ENOMEM or FAST_EIO if its thread cannot be started. */
fast_err fast__handover_next(fast_handover *handover, void **out);
/* Free it before main() has started or after it has returned; NULL is allowed. */
void fast__handover_free(fast_handover *handover);
