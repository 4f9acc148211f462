/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For the fuzz targets of pictures: decode the input to a small form. A rule on memory holds for
 * every input: no allocation above the limit of a picture.
 */
#include "base/memory.h"
#include "data/picture.h"

#include <stdlib.h>
#include <string.h>

static inline void picture_input(const uint8_t *magic, size_t magic_size, const uint8_t *data,
                                 size_t size)
{
    uint8_t out[3 * 16 * 12];
    const fast_picture_form form = { .height = 16, .width = 12, .channels = size % 2 ? 1 : 3 };
    uint8_t *file = malloc(magic_size + size);
    /* The magic bytes are given, so that every input reaches the decoder. */
    memcpy(file, magic, magic_size);
    memcpy(file + magic_size, data, size);
    fast__alloc_largest();
    const fast_err err = fast__picture_decode("input", file, magic_size + size, &form, out);
    if (err != FAST_OK && err != FAST_EFORMAT && err != FAST_ENOTSUP)
        abort();
    if (err != FAST_OK && fast_error_detail()[0] == 0)
        abort();
    if (fast__alloc_largest() > FAST_PICTURE_MEMORY_MAX)
        abort();
    free(file);
}
