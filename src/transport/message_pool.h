/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "fast/actor.h"

#include <stdatomic.h>

/*
 * Where messages and buffers come from: one pool per world, in classes of equal size. A thread
 * that has entered the pool keeps a few free ones of each class for itself, so that what it frees
 * it uses next; more than that goes in batches to the pool's depot, where the threads that only
 * send find it. So a stream in one direction is as stable as a dialogue, and after warm-up nobody
 * allocates.
 */
typedef struct fast_pool fast_pool;

fast_err fast__pool_new(fast_pool **out);
/* Frees everything that came from it, whoever has it: no thread may be inside. NULL is allowed. */
void fast__pool_free(fast_pool *pool);

/* From now on this thread keeps free messages and buffers for itself, until it leaves as often as
 * it entered. Without it, and if there is no memory for it, every call takes the depot's lock. A
 * thread is in one pool at a time: what it entered first stays. */
void fast__pool_enter(fast_pool *pool);
void fast__pool_leave(fast_pool *pool);

/* As fast_msg_new() and fast_buffer_new(), on any thread. FAST_ENOMEM. */
fast_err fast__pool_msg(fast_pool *pool, uint64_t tag, fast_msg **out);
fast_err fast__pool_buffer(fast_pool *pool, size_t size, fast_buffer **out);

/* Bytes of a message without its header: parts and what was declared. */
size_t fast__msg_payload(const fast_msg *msg);

/* For tests and `check`: what the pool has taken from the system so far, and how many objects of it
 * are not free. What threads keep for themselves counts as not free until they leave. */
typedef struct fast_pool_use {
    int64_t allocations; /* of the system */
    int64_t bytes;       /* theirs */
    int64_t messages;    /* that someone has */
    int64_t buffers;     /* likewise */
} fast_pool_use;
fast_pool_use fast__pool_used(fast_pool *pool);

/* A buffer: this head, and its bytes behind it. */
enum { FAST_BUFFER_HEAD = 64 };
struct fast_buffer {
    fast_pool *pool;  /* that it goes back to */
    size_t size;      /* that was asked for */
    atomic_int holds; /* of a frozen one: how many have it */
    int kind;         /* its class in the pool */
    bool frozen;      /* read-only, for good */
};
