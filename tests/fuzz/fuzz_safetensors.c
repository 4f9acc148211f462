/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the reader of safetensors: any bytes give an error or a consistent set of tensors whose
 * every byte lies inside the input.
 */
#include "base/memory.h"
#include "tensor/safetensors.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fast_tensors *tensors = NULL;
    const fast_err err = fast__tensors_parse(data, size, &tensors);
    if (err) {
        FAST_ASSERT(err == FAST_EFORMAT);
        FAST_ASSERT(tensors == NULL);
        FAST_ASSERT(strlen(fast_error_detail()) > 0);
        return 0;
    }
    const uint8_t *next = NULL;
    for (int64_t i = 0; i < fast__tensors_count(tensors); i++) {
        const fast_tensor *tensor = fast__tensors_at(tensors, i);
        const uint8_t *bytes = tensor->data;
        const size_t bytes_size = (size_t)tensor->count * fast__dtype_size(tensor->dtype);
        FAST_ASSERT(bytes >= data);
        FAST_ASSERT(bytes_size <= (size_t)(data + size - bytes));
        FAST_ASSERT(next == NULL || bytes == next);
        FAST_ASSERT(fast__tensors_find(tensors, tensor->name) == tensor);
        next = bytes + bytes_size;
    }
    FAST_ASSERT(next == NULL || next == data + size);
    FAST_ASSERT(fast__tensors_meta(tensors, "no such key") == NULL);
    fast__tensors_close(tensors);
    return 0;
}
