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
 *
 * Workers join a snapshot before their next step. By default each joins at once, or, where the
 * strategy's cost() has a barrier, all at one step: none may wait in mid-step for a worker that has
 * joined. A program whose waits are others says so before its first fast_trainer_next(). A server
 * is saved in any wait; one that acts by itself says when it is idle.
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

/* Include `count` flags at x as above. FAST_EFORMAT if the snapshot's bytes are not 0 or 1. */
FAST_MUST_CHECK fast_err fast__trainer_remember_flags(fast_trainer *t, int64_t number, bool *x,
                                                      int64_t count);

/* Workers wait for each other by *rounds, which grows by at most 1 for each step without such a
 * wait: all join a snapshot at one value of it, or above. It is read before each step. NULL: no
 * worker waits for another one in mid-step, and each joins at once. */
void fast__trainer_cut_at(fast_trainer *t, const int64_t *rounds);

/* All join at one value of *rounds, the largest *next: the value of *rounds after the coming step,
 * set before each. So none has begun a round that another one does not take part in. */
void fast__trainer_cut_within(fast_trainer *t, const int64_t *rounds, const int64_t *next);

/* Do what other workers in mid-step may wait for. Called by a worker that has joined a snapshot,
 * again and again until all have joined. Fails as the actor's calls do. */
typedef fast_err fast_yield_fn(void *ctx);
void fast__trainer_cut_yield(fast_trainer *t, fast_yield_fn *yield, void *ctx);

/* Return whether a snapshot is being taken, for a worker that waits long between two steps: it
 * looks now and then, and calls fast_trainer_next() once to join. */
bool fast__trainer_cut_open(const fast_trainer *t);
/* Return whether snapshots can be taken, so that such a worker has to look. */
bool fast__trainer_cut_on(const fast_trainer *t);
/* Return the number of snapshots that this actor was part of: in each, no message was in flight. */
int64_t fast__trainer_cuts(const fast_trainer *t);
/* Return whether this server is held by a snapshot: it does nothing by its clock until it is not,
 * and only handles messages. Its times are those of fast__actor_time(). */
bool fast__trainer_cut_held(const fast_trainer *t);

/* Return whether this server, which acts by itself, has nothing to do until a request arrives, and
 * no state on its stack; or whether this worker has no exchange under way. Called in waits. */
typedef bool fast_idle_fn(const void *ctx);
void fast__trainer_cut_idle(fast_trainer *t, fast_idle_fn *idle, const void *ctx);

/* Open a space as fast_trainer_space() does, but without codecs: its values are sent as they are.
 * fast_trainer_space_close() closes it. */
FAST_MUST_CHECK fast_err fast__trainer_space_plain(fast_trainer *t,
                                                   const fast_space_options *options,
                                                   fast_space **out);

/* FAST_EFORMAT, with the strategy's name, unless the numbers of a snapshot are `sane`: a file may
 * be forged. */
FAST_MUST_CHECK fast_err fast__trainer_check_saved(const fast_trainer *t, bool sane);

/* Draw initial weights of this worker's own, as a member of an ensemble. Called before its first
 * step. Keeps weights that were resumed, loaded or imported. */
void fast__trainer_draw(fast_trainer *t);

/* As fast_trainer_teach(), with saved models as teachers, whose networks may be any: files of `fast
 * train --save`, joined by '+', that were trained on the same data. FAST_EINVAL if they do not
 * answer what the run's model is asked; fails as fast_predictor_open(). */
FAST_MUST_CHECK fast_err fast__trainer_teach_saved(fast_trainer *t, const char *files,
                                                   double temperature, double share);
