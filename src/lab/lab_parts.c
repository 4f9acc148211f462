/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option tables of this level. fast_part_list() has those of a run; these stand above it.
 */
#include "base/err.h"
#include "lab/bench.h"
#include "lab/simulate.h"

#include <string.h>

const fast_part *fast_lab_part(const char *name)
{
    static const fast_part *const parts[] = { &fast__simulate_part, &fast__bench_allreduce_part };

    FAST_ASSERT(name != NULL);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(parts[i]->name, name) == 0)
            return parts[i];
    return NULL;
}
