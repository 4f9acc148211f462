/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option tables of this level, and how they are read. fast_part_list() has those of a run;
 * these stand above it.
 */
#include "base/option.h"
#include "lab/bench.h"
#include "lab/planning.h"
#include "lab/simulate.h"

#include <stdio.h>
#include <string.h>

const fast_part *fast_lab_part(const char *name)
{
    static const fast_part *const parts[] = { &fast__simulate_part, &fast__bench_allreduce_part,
                                              &fast__plan_part_of_lab };

    FAST_ASSERT(name != NULL);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(parts[i]->name, name) == 0)
            return parts[i];
    return NULL;
}

fast_err fast__lab_options(const char *where, const fast_option *table, const char *const *options,
                           void *config)
{
    FAST_ASSERT(where != NULL);
    FAST_ASSERT(config != NULL);
    fast__options_default(table, config);
    for (; options && *options; options++) {
        const size_t length = strcspn(*options, "=");
        char name[64];

        if ((*options)[length] != '=' || length >= sizeof name)
            return fast__fail(FAST_EINVAL, "%s: \"%s\" is not name=value", where, *options);
        snprintf(name, sizeof name, "%.*s", (int)length, *options);
        FAST_TRY(fast__options_set(where, table, config, name, *options + length + 1));
    }
    return FAST_OK;
}
