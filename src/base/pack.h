/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Records one after the other in a block of bytes: the state of workers in checkpoints.
 *
 *     record   kind | number | size, int64 each | `size` bytes | zeros to a multiple of 8
 *
 * Integers have this machine's byte order, as all floats of a checkpoint do.
 */
/* A block under construction. */
typedef struct fast_pack {
    uint8_t *out; /* destination of the records; NULL: they are only counted */
    size_t size;  /* bytes so far */
} fast_pack;

/* A record of a block. */
typedef struct fast_pack_record {
    int64_t kind;     /* kind of its contents */
    int64_t number;   /* index among the records of that kind */
    size_t size;      /* bytes of data */
    const void *data; /* in the block; aligned like the block, up to 8 bytes */
} fast_pack_record;

/* Add a record and return the room for its data, or NULL while counting. */
void *fast__pack_add(fast_pack *pack, int64_t kind, int64_t number, size_t size);
/* Add a record with its data. */
void fast__pack_put(fast_pack *pack, int64_t kind, int64_t number, const void *data, size_t size);
/* Read the record at *at and advance *at; false at the end, or if no whole record follows. */
bool fast__pack_next(const void *bytes, size_t size, size_t *at, fast_pack_record *out);
/* Remove the data of the first record of a kind, moving the rest up. Returns the new size. */
size_t fast__pack_empty(void *bytes, size_t size, int64_t kind);
/* Tell whether the block consists of whole records. */
bool fast__pack_is_whole(const void *bytes, size_t size);
