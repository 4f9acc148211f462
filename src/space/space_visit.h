/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "space/space.h"

/*
 * An add to the first tensor and a get of it as one visit of each range, under its lock. Nobody
 * comes between the two: actors that meet at a lock meet once, and are apart from then on. In two
 * visits who has added waits to get until the other has added too, both go on together, and meet
 * again after every step. What was written is read while it is in the cache. space.c
 */

/* Can it be: are all owners near, time real, and values read as they are? */
bool fast__space_is_at_hand(const fast_space *space);
/* Add x, get w; what is got holds x, unless the owner's function rejected it. */
fast_err fast__space_add_get(fast_space *space, const float *x, float *w, int64_t *version_out,
                             int64_t deadline);
