/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types: a table of names, as safetensors writes them, and sizes. The engines
 * compute in F32; the others are for files, messages and users' arrays.
 */
#include "tensor/dtype.h"

#include <string.h>

static const struct {
    const char *name; /* as safetensors writes it */
    size_t size;      /* of one element */
} dtypes[FAST_DTYPE_COUNT] = {
    [FAST_F32] = { "F32", 4 }, [FAST_F16] = { "F16", 2 }, [FAST_BF16] = { "BF16", 2 },
    [FAST_I8] = { "I8", 1 },   [FAST_U8] = { "U8", 1 },   [FAST_I32] = { "I32", 4 },
    [FAST_I64] = { "I64", 8 }, [FAST_F64] = { "F64", 8 },
};

size_t fast__dtype_size(fast_dtype dtype)
{
    FAST_ASSERT((unsigned)dtype < FAST_DTYPE_COUNT);
    return dtypes[dtype].size;
}

const char *fast__dtype_name(fast_dtype dtype)
{
    FAST_ASSERT((unsigned)dtype < FAST_DTYPE_COUNT);
    return dtypes[dtype].name;
}

bool fast__dtype_find(const char *name, fast_dtype *out)
{
    for (int i = 0; i < FAST_DTYPE_COUNT; i++) {
        if (strcmp(name, dtypes[i].name) == 0) {
            *out = (fast_dtype)i;
            return true;
        }
    }
    return false;
}
