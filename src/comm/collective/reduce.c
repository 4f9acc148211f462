/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduce: the sum of all vectors at the root, along the canonical tree (moves.c): log2(P) (L + m
 * G). The others' vectors are not touched: sums travel in the messages' buffers.
 */
#include "comm/collective/moves.h"

/* Fails at all members alike if the root is not a rank: nothing has been sent then. */
fast_err fast_reduce(fast_group *group, int64_t root, float *x, int64_t count, int64_t deadline)
{
    FAST_ASSERT(group != NULL);
    FAST_TRY(fast__group_check_rank(group, "root", root));
    return fast__collective_floats(group, "reduce", fast__rounds_reduce,
                                   (fast_ask){ .count = count, .root = root }, x, x, deadline);
}
