/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines of this build: a list and a lookup by name. `cpu` needs a library for matrix products
 * and comes first if it was built; `ref` needs nothing but C and always exists.
 */
#include "engine/engine.h"

#include "base/option.h"

#include <string.h>

#include "engine/cpu/cpu.h"

const fast_engine *const fast__engines[] = {
    &fast__engine_cpu,
    &fast__engine_ref,
    NULL,
};

/* Name of engine `i`, for fast__name_find(). */
static const char *engine_name(const void *ctx, int64_t i)
{
    (void)ctx;
    return fast__engines[i]->name;
}

/* Look a name up; "auto" is the first engine of the build. */
fast_err fast__engine_find(const char *name, const fast_engine **out)
{
    FAST_ASSERT(name != NULL);
    FAST_ASSERT(out != NULL);
    if (strcmp(name, "auto") == 0) {
        *out = fast__engines[0];
        return FAST_OK;
    }
    const int64_t count = (int64_t)(sizeof(fast__engines) / sizeof(fast__engines[0])) - 1;
    const int64_t i = fast__name_find(name, engine_name, NULL, count, NULL);
    if (i >= 0) {
        *out = fast__engines[i];
        return FAST_OK;
    }
    return fast__name_unknown("engine", name, engine_name, NULL, count);
}
