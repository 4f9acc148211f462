/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of algorithms for allreduce, from the list in allreduces.h: a new algorithm is a
 * file of its own and a line there. Tests that loop over the registry then cover it.
 */
#include "comm/allreduces.h"

#define ADDRESS(name) &fast__allreduce_##name,
const fast_algorithm *const fast__allreduces[] = { FAST_ALLREDUCES(ADDRESS) NULL };
#undef ADDRESS

_Static_assert(sizeof fast__allreduces / sizeof *fast__allreduces <= FAST_ALLREDUCE_MAX + 1,
               "a group has a slot for each algorithm");
