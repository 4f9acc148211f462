/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Every allocation of libfast goes through here, so that a test can make the n-th one fail. */
enum { FAST_ALIGN = 64 };

/* `count` elements of `size` bytes, zeroed, aligned to FAST_ALIGN. FAST_ENOMEM if there is no such
 * memory or the product overflows; `what` names it in the detail. Zero bytes give a valid pointer.
 * `out` is a pointer to the caller's pointer. */
fast_err fast__alloc(const char *what, int64_t count, size_t size, void *out);
void fast__free(void *memory); /* NULL is allowed */

/* `bytes` of zeros in pages of their own, which take memory when they are first written: for large
 * blocks of which not all may be used. FAST_ENOMEM. Freed with the same size; NULL is allowed. */
fast_err fast__pages_new(const char *what, int64_t bytes, void *out);
void fast__pages_free(void *memory, int64_t bytes);

/* Checked arithmetic: false on overflow or a negative operand, and then *out is untouched. */
bool fast__mul_size(int64_t a, int64_t b, int64_t *out);
bool fast__add_size(int64_t a, int64_t b, int64_t *out);

/* For tests: let `count` more allocations succeed, then fail one (once) or all of them (!once);
 * a negative count switches it off. Counts on the calling thread only. */
void fast__alloc_fail_after(int64_t count, bool once);
int64_t fast__alloc_count(void); /* allocations of this thread so far */

/* For tests: bytes of the largest allocation that this thread asked for since the last call. */
int64_t fast__alloc_largest(void);

/* An arena: one block at open, then bump allocation. A first run with base NULL only measures: a
 * block of fast__alloc() with as many bytes as it used is exactly enough for a second one. */
typedef struct fast_arena {
    unsigned char *base; /* NULL while measuring */
    size_t size;         /* of the block */
    size_t used;         /* grows past `size` while measuring */
} fast_arena;

/* The next `count` elements of `size` bytes, aligned to FAST_ALIGN; while measuring (base == NULL)
 * an offset that must not be dereferenced. Asserts that a real arena is large enough. */
void *fast__arena_take(fast_arena *arena, int64_t count, size_t size);
