/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Records one after the other in a block of bytes: what a worker keeps, in checkpoints.
 *
 *     record   kind | number | size, int64 each | `size` bytes | zeros to a multiple of 8
 *
 * Integers are of this machine's order, as all floats of a file are.
 */
typedef struct fast_pack {
    uint8_t *out; /* where records go; NULL: they are only counted */
    size_t size;  /* bytes so far */
} fast_pack;

/* A record of a block. */
typedef struct fast_record {
    int64_t kind;     /* of what it holds */
    int64_t number;   /* which of that kind */
    size_t size;      /* bytes of data */
    const void *data; /* in the block; aligned as the block is, up to 8 */
} fast_record;

/* Add a record; room for its data comes back, or NULL where it is only counted. */
void *fast__pack_add(fast_pack *pack, int64_t kind, int64_t number, size_t size);
/* The same with its data. */
void fast__pack_put(fast_pack *pack, int64_t kind, int64_t number, const void *data, size_t size);
/* The record at *at, which moves behind it; false at the end, and where no whole record follows. */
bool fast__pack_next(const void *bytes, size_t size, size_t *at, fast_record *out);
/* The first record of a kind loses its data; what follows moves up. The new size comes out. */
size_t fast__pack_empty(void *bytes, size_t size, int64_t kind);
/* True if the block is made of whole records. */
bool fast__pack_is_whole(const void *bytes, size_t size);
