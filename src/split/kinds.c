/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of kinds of split.
 */
#include "split/kinds.h"

#include <stddef.h>

const fast_split_kind *const fast__split_kinds[] = {
    &fast__split_pairs,    &fast__split_experts,   &fast__split_vocabulary,
    &fast__split_branches, &fast__split_samples,   &fast__split_channels,
    &fast__split_spatial,  &fast__split_redundant, &fast__split_sequence,
    &fast__split_ulysses,  &fast__split_ring,      &fast__split_outputs,
    &fast__split_cannon,   &fast__split_streaming, NULL,
};
