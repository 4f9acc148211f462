/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"

/*
 * Memory of a strategy's program in snapshots. A synchronous strategy has its state between steps
 * in blocks of fast_trainer_persist(), which outlast the program. A program that is saved in the
 * middle (run/checkpoint/cut.c) has more: sums that are not sent yet, counters, copies. It
 * registers that memory where it is, once, after it was allocated and before the first
 * fast_trainer_next():
 *
 *     FAST_TRY(fast__vector_new(device, "gradients to push", t->count, &sum));
 *     FAST_TRY(fast__trainer_remember(t, 0, sum, (size_t)t->count * sizeof *sum));
 *
 * Memory that several actors share is registered by one of them.
 */

/* Include `size` bytes at x, memory of this program on any device, in snapshots under `number`, as
 * long as the program runs. If it continues a snapshot, x gets the values that it had there. x may
 * be NULL: there is nothing to remember. FAST_ENOMEM; FAST_EINVAL if the snapshot has another size
 * of it. */
FAST_MUST_CHECK fast_err fast__trainer_remember(fast_trainer *t, int64_t number, void *x,
                                                size_t size);

/* Return the speed of the last gradient in virtual time, in operations per ns, 0 before the first:
 * gradients that wait for ranges of weights follow it, so that programs with such gradients have
 * to remember it. */
double *fast__trainer_speed(fast_trainer *t);

/* FAST_EFORMAT, with the strategy's name, unless the numbers of a snapshot are `sane`: a file may
 * be forged. */
FAST_MUST_CHECK fast_err fast__trainer_check_saved(const fast_trainer *t, bool sane);
