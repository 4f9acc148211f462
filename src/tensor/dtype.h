/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Element types. Names are those of safetensors. */
typedef enum fast_dtype {
    FAST_F32,
    FAST_F16,
    FAST_BF16,
    FAST_I8,
    FAST_U8,
    FAST_I32,
    FAST_I64,
    FAST_F64,
    FAST_DTYPE_COUNT
} fast_dtype;

size_t fast__dtype_size(fast_dtype dtype);
const char *fast__dtype_name(fast_dtype dtype); /* "F32", "BF16", ... */
bool fast__dtype_find(const char *name, fast_dtype *out);
