/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/tree_sum.h"

/* Tree sums of host floats, for callers that do not hold views yet: each is the function of
 * tree_sum.h. */
typedef fast_tree_sum fast_fold;

static inline fast_err fast__fold_init(fast_fold *fold, int64_t count, int64_t total, float *y)
{
    return fast__tree_sum_init(fold, fast__view_host(y, count), total);
}

static inline void fast__fold_fini(fast_fold *fold)
{
    fast__tree_sum_fini(fold);
}

static inline float *fast__fold_next(const fast_fold *fold)
{
    return fast__tree_sum_next(fold).at;
}

static inline void fast__fold_put(fast_fold *fold)
{
    fast__tree_sum_put(fold);
}

static inline void fast__fold_finish(const fast_fold *fold, int64_t offset, int64_t count)
{
    fast__tree_sum_finish(fold, offset, count);
}

static inline void fast__fold_clear(fast_fold *fold)
{
    fast__tree_sum_clear(fold);
}
