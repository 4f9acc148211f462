/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"

/* Include `size` bytes at x, memory of this program on any device, in snapshots under `number`, as
 * long as the program runs. If it continues a snapshot, x gets the values that it had there. x may
 * be NULL: there is nothing to remember. FAST_ENOMEM; FAST_EINVAL if the snapshot has another size
 * of it. */
FAST_MUST_CHECK fast_err fast__trainer_remember(fast_trainer *t, int64_t number, void *x,
                                                size_t size);
