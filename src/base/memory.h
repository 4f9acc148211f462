/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* All allocations of libfast go through these functions, so that a test can make the n-th one
 * fail. */
enum { FAST_ALIGN = 64 };

/* Allocate `count` elements of `size` bytes, zeroed, aligned to FAST_ALIGN. FAST_ENOMEM if there is
 * no memory or the product overflows; `what` names the block in the detail. Zero bytes give a valid
 * pointer. `out` is the address of the caller's pointer. */
fast_err fast__alloc(const char *what, int64_t count, size_t size, void *out);
void fast__free(void *memory); /* NULL is allowed */

/* For a block of fast__alloc() of which parts are to be dropped: let it take memory in small pages,
 * not in those of 2 MB. */
void fast__memory_small_pages(void *at, int64_t bytes);
/* Give the pages that lie wholly in this range of such a block back to the system: they become 0,
 * and take memory again when they are next written. The rest of the range keeps its contents. */
void fast__memory_drop(void *at, int64_t bytes);

/* Map `bytes` of zeros in pages of their own, which take memory when they are first written: for
 * large blocks that may stay partly unused. FAST_ENOMEM. Free with the same size; NULL is
 * allowed. */
fast_err fast__pages_new(const char *what, int64_t bytes, void *out);
void fast__pages_free(void *memory, int64_t bytes);

/* Return the bytes of memory that this process can still take without swapping, by the machine's
 * and its container's limits; INT64_MAX if the system does not say. */
int64_t fast__memory_available(void);

/* Return the bytes of this process that are in memory now; 0 if the system does not say. */
int64_t fast__memory_resident(void);

/* Give the memory of freed blocks back to the system, as far as the C library lets us. */
void fast__memory_trim(void);

/* Tell whether a new block of `bytes` takes no memory before it is written. */
bool fast__alloc_is_lazy(int64_t bytes);

/* Checked arithmetic: false on overflow or a negative operand; *out is then unchanged. */
bool fast__mul_size(int64_t a, int64_t b, int64_t *out);
bool fast__add_size(int64_t a, int64_t b, int64_t *out);

/* For tests: let `count` more allocations of the calling thread succeed, then fail one (once) or
 * all (!once); a negative count turns it off. */
void fast__alloc_fail_after(int64_t count, bool once);
int64_t fast__alloc_count(void); /* allocations of this thread so far */

/* For tests: return the bytes of all allocations of this thread so far, freed or not. */
int64_t fast__alloc_bytes(void);

/* For tests: return the largest request of this thread in bytes since the last call. */
int64_t fast__alloc_largest(void);

/* An arena: one block at open, then bump allocation. A first pass with base NULL only measures; a
 * block of `used` bytes is then exactly enough for the second pass. */
typedef struct fast_arena {
    unsigned char *base; /* NULL while measuring */
    size_t size;         /* bytes of the block */
    size_t used;         /* bytes taken; grows past `size` while measuring */
} fast_arena;

/* Take the next `count` elements of `size` bytes, aligned to FAST_ALIGN. While measuring (base ==
 * NULL) the result is an offset that must not be dereferenced. Asserts that the arena is large
 * enough. */
void *fast__arena_take(fast_arena *arena, int64_t count, size_t size);
