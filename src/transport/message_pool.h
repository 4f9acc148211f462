/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "fast/comm.h"

#include <stdatomic.h>
#include <stddef.h>

/*
 * The allocator of messages and buffers: one pool per world, in classes of equal size. A thread
 * that has entered the pool caches a few free objects of each class, so that it reuses what it
 * frees; the rest goes in batches to the pool's depot, where threads that only send find it. So a
 * stream in one direction is as stable as a dialogue, and after warm-up no thread allocates.
 */
typedef struct fast_pool fast_pool;

fast_err fast__pool_new(fast_pool **out);
/* Free all objects of the pool, in use or not: no thread may be inside. NULL is allowed. */
void fast__pool_free(fast_pool *pool);

/* Give this thread a cache of free objects until it leaves as often as it entered. Without a cache,
 * and if there is no memory for one, every call takes the depot's lock. A thread is in one pool at
 * a time: entering a second one has no effect. */
void fast__pool_enter(fast_pool *pool);
void fast__pool_leave(fast_pool *pool);

/* Count a message as in flight, until it is delivered or freed. */
void fast__pool_depart(fast_pool *pool, fast_msg *msg);
/* End that, if the message is counted. */
void fast__pool_arrive(fast_msg *msg);
/* Return the number of messages in flight. */
int64_t fast__pool_in_flight(const fast_pool *pool);

/* As fast_msg_new() and fast_buffer_new(), on any thread. FAST_ENOMEM. */
fast_err fast__pool_msg(fast_pool *pool, uint64_t tag, fast_msg **out);
fast_err fast__pool_buffer(fast_pool *pool, size_t size, fast_buffer **out);

/* Return the bytes of a message without its header: parts and declared bytes. */
size_t fast__msg_payload(const fast_msg *msg);

/* The pool's memory, for tests and `check`. Objects in a thread's cache count as in use until the
 * thread leaves. */
typedef struct fast_pool_use {
    int64_t allocations; /* calls of the system's allocator */
    int64_t bytes;       /* allocated by these calls */
    int64_t messages;    /* in use */
    int64_t buffers;     /* in use */
} fast_pool_use;
fast_pool_use fast__pool_used(fast_pool *pool);

/* A message as it is allocated: the transport's fields around the public ones. The fields that a
 * small message needs are the first two cache lines. */
typedef struct fast_envelope {
    fast_msg *next;  /* in a mailbox, an inbox or a queue */
    fast_msg *back;  /* in a mailbox: the message that arrived before */
    fast_msg *chain; /* in a mailbox: the next message of the same bucket of (from, tag) */
    fast_pool *pool; /* to which it is freed */
    fast_msg msg;    /* the public fields */
    uint64_t stamp; /* mailbox: order of arrival; lanes: number in its pair; sim: receiver's life */
    uint64_t proof; /* of `check` */
    int64_t sent;   /* virtual time at which it was sent */
    fast_msg *tag_next; /* in a mailbox: the next message of the same bucket of tags */
    fast_msg *tag_back; /* in a mailbox: the message before it there */
} fast_envelope;

static inline fast_envelope *fast__envelope(const fast_msg *msg)
{
    return (fast_envelope *)(void *)((char *)(uintptr_t)msg - offsetof(fast_envelope, msg));
}

/* A queue of messages, linked by `next`. Zeroed memory is an empty queue. */
typedef struct fast_msg_queue {
    fast_msg *first; /* the oldest; NULL: empty */
    fast_msg *last;  /* the newest, if the queue is not empty */
} fast_msg_queue;

static inline void fast__msg_push(fast_msg_queue *queue, fast_msg *msg)
{
    fast__envelope(msg)->next = NULL;
    if (queue->first)
        fast__envelope(queue->last)->next = msg;
    else
        queue->first = msg;
    queue->last = msg;
}

/* Remove the oldest message; NULL if the queue is empty. */
static inline fast_msg *fast__msg_pop(fast_msg_queue *queue)
{
    fast_msg *msg = queue->first;
    if (msg)
        queue->first = fast__envelope(msg)->next;
    return msg;
}

/* A buffer: this header, and its bytes behind it. */
enum { FAST_BUFFER_HEAD = 64 };
struct fast_buffer {
    fast_pool *pool;  /* to which it is freed */
    size_t size;      /* requested bytes */
    atomic_int holds; /* holders of a frozen buffer */
    int kind;         /* its class in the pool */
    bool frozen;      /* read-only, for good */
};
