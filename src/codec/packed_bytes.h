/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "codec/bits.h"

#include <string.h>

/*
 * The frame of stages that code bytes by their frequencies:
 *
 *     1 | the bytes as they are         where a code would not be shorter
 *     0 | their number (a varint) | the stage's table and code
 */

/* Read a table and `count` bytes of its code from at to end; false if they are not one. Every size
 * is checked before it is used. */
typedef bool fast_packed_read_fn(const uint8_t *at, const uint8_t *end, void *scratch, uint8_t *out,
                                 size_t count);

/* Write the bytes as they are, and return the size of the frame. */
static inline size_t fast__packed_store(const uint8_t *in, size_t size, uint8_t *out)
{
    *out = 1;
    if (size > 0)
        memcpy(out + 1, in, size);
    return 1 + size;
}

/* Undo a frame of stage `name`. FAST_EFORMAT for bytes of another form, or of more than `room`. */
static inline fast_err fast__packed_read(const char *name, fast_packed_read_fn *read,
                                         const uint8_t *in, size_t size, void *scratch,
                                         uint8_t *out, size_t room, size_t *size_out)
{
    const uint8_t *at = in + 1;
    const uint8_t *const end = in + size;
    uint64_t count = 0;

    if (size >= 1 && *in == 1 && size - 1 <= room) {
        if (size > 1)
            memcpy(out, at, size - 1);
        *size_out = size - 1;
        return FAST_OK;
    }
    if (size < 1 || *in != 0 || !fast__varint_get(&at, end, &count) || count > room ||
        !read(at, end, scratch, out, (size_t)count))
        return fast__fail(FAST_EFORMAT, "%s: %zu bytes are not packed, or to more than %zu", name,
                          size, room);
    *size_out = (size_t)count;
    return FAST_OK;
}
