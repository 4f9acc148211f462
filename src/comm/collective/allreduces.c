/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of algorithms for allreduce. A new one is a file of its own and a line here; the
 * tests that loop over this list then cover it.
 */
#include "comm/allreduces.h"

const fast_algorithm *const fast__allreduces[] = {
    &fast__allreduce_tree,         &fast__allreduce_butterfly,
    &fast__allreduce_ring,         &fast__allreduce_rabenseifner,
    &fast__allreduce_hierarchical, &fast__allreduce_direct,
    &fast__allreduce_native,       NULL,
};
