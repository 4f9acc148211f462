/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"
#include "space/space.h"

/* Updates of memory that workers share, each in the worker's own thread. */

/* Return true if this worker may update ranges of memory that it shares with other workers in the
 * reports of its gradient: the rule takes ranges, time is real, and the order of accesses is not
 * recorded. In virtual time all reports of a gradient happen at one instant, and accesses of other
 * workers could not lie between them. */
bool fast__trainer_updates_early(const fast_trainer *t);

/* Return true if an update changes all elements of a range but those that are 0, whatever the
 * gradient is, because its weights decay. */
bool fast__trainer_decays(const fast_trainer *t, int64_t offset, int64_t count);

/* Report of a gradient of a worker that shares w (fast_trainer_share): a range of t->g is final. It
 * is summed and updated by the worker that comes to it first after all have reported it;
 * fast_trainer_update_shared() with t->g and the same scale ends the update. */
void fast__trainer_share_range(fast_trainer *t, float scale, int64_t offset, int64_t count);

/* Visit a space that was opened by fast_trainer_space(), as fast__space_visit() does, and count the
 * staleness of the update. The visitor's `begin` gets the ctx of the owner's options. */
fast_err fast__trainer_visit(fast_space *space, const float *x, const fast_space_visitor *visitor,
                             int64_t *version_out, int64_t deadline);
