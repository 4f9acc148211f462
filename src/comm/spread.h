/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/collective.h"

/*
 * One buffer of each member to all the others, of any size: an all-gather in two halves, so that
 * the first can be posted while a gradient is computed. P - 1 messages of a frozen buffer, to the
 * next rank first; what came is lent by rank until it is let go of.
 */
typedef struct fast_spread_part {
    fast_buffer *buffer; /* held; NULL: it has not come */
    const void *data;    /* at its begin */
    size_t size;         /* bytes */
} fast_spread_part;

typedef struct fast_spread {
    fast_collective collective; /* for its group and tag */
    fast_spread_part *parts;    /* [size], by rank */
    int64_t size;               /* of the group */
} fast_spread;

fast_err fast__spread_init(fast_spread *spread, fast_group *group, const char *doing);
void fast__spread_fini(fast_spread *spread);
/* Post the first `size` bytes of a buffer, which becomes frozen. Never blocks. Members start their
 * spreads, and all collectives of the group, in the same order. */
fast_err fast__spread_start(fast_spread *spread, fast_buffer **move, size_t size);
/* Wait for a rank's; one's own is there at once. */
fast_err fast__spread_wait(fast_spread *spread, int64_t rank, int64_t deadline,
                           const fast_spread_part **out);
/* Let go of all: it can be started again. */
void fast__spread_drop(fast_spread *spread);
