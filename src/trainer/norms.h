/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "trainer/sharded.h"

/*
 * Norms of a model of which workers have parts: of the gradient (clip_norm), and of layers (lars,
 * lamb). The parts of a split model are those of the workers of a replica; with sharded state the
 * workers of a part have slices of it.
 */
struct fast_context;

/* Does an update of this worker's vector need norms of more than the vector? */
bool fast__norms_are_shared(const struct fast_context *context);

/* Update these slices of w by the same elements of g, times `scale`. The slices of the workers of
 * `group` cover w; NULL: those of this worker do. All workers of the replica call it. */
fast_err fast__norms_update(struct fast_context *context, const float *g, fast_group *group,
                            const fast_slice *slices, int64_t count, float scale);
