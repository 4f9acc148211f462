/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of messages and buffers: magazines and a depot (Bonwick and Adams, "Magazines and Vmem",
 * USENIX 2001).
 *
 *   thread     loaded, spare: two batches of each class, used by this thread alone
 *   depot      whole batches of each class, under one lock, taken once in `batch` operations
 *   system     a chunk of a batch at once, freed with the pool
 *
 * A thread may free objects that another one allocated: objects have no home thread. A thread
 * caches at most two batches of a class, so idle memory is bounded by that and by the peak of use.
 * A batch of large buffers is small: BATCH_BYTES at most, or one object.
 *
 * Chunks from PAGES_FROM on are mapped pages, which take memory only once they are written: a
 * thousand simulated workers have a model each in flight.
 *
 * Class 0 is messages. Buffers have two classes for each power of two, 2^k and 1.5 * 2^k bytes, so
 * that at most a third is wasted. Free objects are poisoned for the address sanitizer.
 */
#include "transport/message_pool.h"

#include "base/memory.h"

#include <pthread.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define POOL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_ASAN 1
#endif
#endif
#ifdef POOL_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, size)   ((void)(start), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(start, size) ((void)(start), (void)(size))
#endif

enum {
    SIZE_BITS_MIN = 6,  /* the smallest buffers: 64 bytes */
    SIZE_BITS_MAX = 39, /* the largest: base/memory.h refuses more */
    KINDS = 1 + 2 * (SIZE_BITS_MAX - SIZE_BITS_MIN + 1),
    BATCH_MAX = 32,          /* objects of a batch */
    BATCH_BYTES = 64 * 1024, /* of a batch, or one object */
    PAGES_FROM = 256 * 1024  /* bytes of a chunk */
};

/* The first bytes of a free object. */
typedef struct pool_item {
    struct pool_item *next;  /* next object of the batch */
    struct pool_item *batch; /* in the first object: the next batch of the depot */
    int64_t count;           /* in the first object: objects in this batch */
} pool_item;

/* The header of an allocation from the system; its objects follow. */
typedef struct pool_chunk {
    struct pool_chunk *next; /* the chunk allocated before */
    int64_t size;            /* bytes with this header */
    unsigned char padding[FAST_ALIGN - sizeof(void *) - sizeof(int64_t)]; /* objects are aligned */
} pool_chunk;
_Static_assert(sizeof(pool_chunk) == FAST_ALIGN, "objects follow on an aligned address");
_Static_assert(sizeof(struct fast_buffer) <= FAST_BUFFER_HEAD, "the head fits before the bytes");

/* Free objects of one class in the cache of a thread. */
typedef struct pool_magazine {
    pool_item *loaded;    /* the batch that is used */
    pool_item *spare;     /* a full batch, or NULL */
    int64_t loaded_count; /* objects in loaded */
    int64_t spare_count;  /* objects in spare */
} pool_magazine;

/* The cache of a thread that entered the pool. */
typedef struct pool_cache {
    fast_pool *pool;                /* its pool; in the free list, the next cache */
    int64_t depth;                  /* number of times that the thread entered */
    pool_magazine magazines[KINDS]; /* by class */
} pool_cache;

struct fast_pool {
    pthread_mutex_t mutex;   /* guards all fields */
    pool_item *depot[KINDS]; /* batches of each class, linked by their first objects */
    pool_chunk *chunks;      /* all allocations from the system */
    pool_cache *caches;      /* caches without a thread, linked by `pool` */
    fast_pool_use use;       /* allocations; messages and buffers count free ones too */
    atomic_llong in_flight;  /* messages sent and not delivered; needs no mutex */
};

/* The cache of this thread; NULL: it is in no pool. */
static _Thread_local pool_cache *here;

/* Return the bytes of an object of a class, with its header. */
static size_t kind_size(int kind)
{
    if (kind == 0)
        return (sizeof(fast_envelope) + FAST_ALIGN - 1) / FAST_ALIGN * FAST_ALIGN;
    const int bits = SIZE_BITS_MIN + (kind - 1) / 2;
    const size_t size = (size_t)1 << bits;
    return FAST_BUFFER_HEAD + size + ((kind - 1) % 2 ? size / 2 : 0);
}

/* Return the class of buffers of at least `size` bytes; KINDS if `size` is too large. */
static int kind_of(size_t size)
{
    if (size <= (size_t)1 << SIZE_BITS_MIN)
        return 1;
    if (size > (size_t)1 << SIZE_BITS_MAX)
        return KINDS;
    const int bits = 63 - __builtin_clzll(size - 1); /* 2^bits < size <= 2^(bits + 1) */
    const size_t half = (size_t)3 << (bits - 1);
    return 1 + 2 * (bits - SIZE_BITS_MIN) + (size <= half ? 1 : 2);
}

/* Return the number of objects in a full batch. */
static int64_t kind_batch(int kind)
{
    const size_t count = BATCH_BYTES / kind_size(kind);
    return count >= BATCH_MAX ? BATCH_MAX : count > 0 ? (int64_t)count : 1;
}

fast_err fast__pool_new(fast_pool **out)
{
    fast_pool *pool;
    FAST_TRY(fast__alloc("a pool of messages", 1, sizeof *pool, &pool));
    pthread_mutex_init(&pool->mutex, NULL);
    *out = pool;
    return FAST_OK;
}

void fast__pool_free(fast_pool *pool)
{
    if (!pool)
        return;
    FAST_ASSERT(here == NULL || here->pool != pool);
    for (pool_chunk *c = pool->chunks; c;) {
        pool_chunk *next = c->next;
        if (c->size >= PAGES_FROM)
            fast__pages_free(c, c->size);
        else
            fast__free(c);
        c = next;
    }
    pthread_mutex_destroy(&pool->mutex);
    fast__free(pool);
}

/* Allocate a chunk with `size` bytes behind its header. FAST_ENOMEM. */
static fast_err take_chunk(fast_pool *pool, const char *what, size_t size, unsigned char **out)
{
    const int64_t all = (int64_t)(sizeof(pool_chunk) + size);
    pool_chunk *c;
    if (all >= PAGES_FROM)
        FAST_TRY(fast__pages_new(what, all, &c));
    else
        FAST_TRY(fast__alloc(what, 1, (size_t)all, &c));
    c->size = all;
    pthread_mutex_lock(&pool->mutex);
    c->next = pool->chunks;
    pool->chunks = c;
    pool->use.allocations++;
    pool->use.bytes += all;
    pthread_mutex_unlock(&pool->mutex);
    *out = (unsigned char *)(c + 1);
    return FAST_OK;
}

/* Make a batch of new memory. FAST_ENOMEM. */
static fast_err grow(fast_pool *pool, int kind, pool_item **out)
{
    const int64_t count = kind_batch(kind);
    const size_t size = kind_size(kind);
    unsigned char *bytes = NULL;
    pool_item *first = NULL;

    FAST_TRY(
        take_chunk(pool, kind ? "buffers of messages" : "messages", (size_t)count * size, &bytes));
    pthread_mutex_lock(&pool->mutex);
    *(kind ? &pool->use.buffers : &pool->use.messages) += count;
    pthread_mutex_unlock(&pool->mutex);
    for (int64_t i = count - 1; i >= 0; i--) {
        pool_item *it = (pool_item *)(bytes + (size_t)i * size);
        it->next = first;
        first = it;
        ASAN_POISON_MEMORY_REGION((unsigned char *)it + sizeof *it, size - sizeof *it);
    }
    first->count = count;
    *out = first;
    return FAST_OK;
}

/* Take a batch from the depot, or make one. FAST_ENOMEM. */
static fast_err take_batch(fast_pool *pool, int kind, pool_item **out)
{
    pthread_mutex_lock(&pool->mutex);
    pool_item *batch = pool->depot[kind];
    if (batch)
        pool->depot[kind] = batch->batch;
    pthread_mutex_unlock(&pool->mutex);
    if (!batch)
        FAST_TRY(grow(pool, kind, &batch));
    *out = batch;
    return FAST_OK;
}

/* Put a batch of `count` objects into the depot. */
static void give_batch(fast_pool *pool, int kind, pool_item *first, int64_t count)
{
    FAST_ASSERT(first != NULL);
    first->count = count;
    pthread_mutex_lock(&pool->mutex);
    first->batch = pool->depot[kind];
    pool->depot[kind] = first;
    pthread_mutex_unlock(&pool->mutex);
}

/* Take one object for a thread without a cache: the rest of the batch goes back. */
static fast_err take_locked(fast_pool *pool, int kind, pool_item **out)
{
    pool_item *batch = NULL;
    FAST_TRY(take_batch(pool, kind, &batch));
    if (batch->next)
        give_batch(pool, kind, batch->next, batch->count - 1);
    *out = batch;
    return FAST_OK;
}

/* Load a magazine with its spare batch, or with one from the depot. */
static fast_err refill(fast_pool *pool, int kind, pool_magazine *m)
{
    if (m->spare) {
        m->loaded = m->spare;
        m->loaded_count = m->spare_count;
        m->spare = NULL;
        return FAST_OK;
    }
    pool_item *batch = NULL;
    FAST_TRY(take_batch(pool, kind, &batch));
    m->loaded = batch;
    m->loaded_count = batch->count;
    return FAST_OK;
}

/* Take an object of a class. FAST_ENOMEM. */
static fast_err take(fast_pool *pool, int kind, pool_item **out)
{
    pool_cache *c = here;
    pool_item *it = NULL;

    if (c && c->pool == pool) {
        pool_magazine *m = &c->magazines[kind];
        if (!m->loaded)
            FAST_TRY(refill(pool, kind, m));
        it = m->loaded;
        m->loaded = it->next;
        m->loaded_count--;
    } else {
        FAST_TRY(take_locked(pool, kind, &it));
    }
    ASAN_UNPOISON_MEMORY_REGION(it, kind_size(kind));
    *out = it;
    return FAST_OK;
}

/* Return an object to the cache of this thread, or to the depot. */
static void give(fast_pool *pool, int kind, void *object)
{
    pool_cache *c = here;
    pool_item *it = object;

    ASAN_POISON_MEMORY_REGION((unsigned char *)it + sizeof *it, kind_size(kind) - sizeof *it);
    if (!c || c->pool != pool) {
        it->next = NULL;
        give_batch(pool, kind, it, 1);
        return;
    }
    pool_magazine *m = &c->magazines[kind];
    if (m->loaded_count >= kind_batch(kind)) {
        if (m->spare)
            give_batch(pool, kind, m->spare, m->spare_count);
        m->spare = m->loaded;
        m->spare_count = m->loaded_count;
        m->loaded = NULL;
        m->loaded_count = 0;
    }
    it->next = m->loaded;
    m->loaded = it;
    m->loaded_count++;
}

void fast__pool_enter(fast_pool *pool)
{
    FAST_ASSERT(pool != NULL);
    if (here) {
        here->depth += here->pool == pool;
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool_cache *c = pool->caches;
    if (c)
        pool->caches = (pool_cache *)(void *)c->pool;
    pthread_mutex_unlock(&pool->mutex);
    if (!c) {
        unsigned char *bytes = NULL;
        /* Without memory the thread uses the depot: slower, but correct. */
        if (take_chunk(pool, "a thread's messages", sizeof *c, &bytes))
            return;
        c = (pool_cache *)(void *)bytes;
    }
    memset(c, 0, sizeof *c);
    c->pool = pool;
    c->depth = 1;
    here = c;
}

void fast__pool_leave(fast_pool *pool)
{
    pool_cache *c = here;
    if (!c || c->pool != pool || --c->depth > 0)
        return;
    for (int kind = 0; kind < KINDS; kind++) {
        pool_magazine *m = &c->magazines[kind];
        if (m->loaded)
            give_batch(pool, kind, m->loaded, m->loaded_count);
        if (m->spare)
            give_batch(pool, kind, m->spare, m->spare_count);
    }
    here = NULL;
    pthread_mutex_lock(&pool->mutex);
    c->pool = (fast_pool *)(void *)pool->caches;
    pool->caches = c;
    pthread_mutex_unlock(&pool->mutex);
}

fast_pool_use fast__pool_used(fast_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    fast_pool_use use = pool->use;
    for (int kind = 0; kind < KINDS; kind++)
        for (const pool_item *batch = pool->depot[kind]; batch; batch = batch->batch)
            *(kind ? &use.buffers : &use.messages) -= batch->count;
    pthread_mutex_unlock(&pool->mutex);
    return use;
}

fast_err fast__pool_msg(fast_pool *pool, uint64_t tag, fast_msg **out)
{
    pool_item *it = NULL;
    FAST_TRY(take(pool, 0, &it));
    fast_envelope *envelope = (fast_envelope *)(void *)it;
    /* The parts are valid up to part_count, so only the first two cache lines are cleared. */
    _Static_assert(offsetof(fast_envelope, msg.parts) == 128, "a small message is two cache lines");
    memset(envelope, 0, offsetof(fast_envelope, msg.parts));
    envelope->pool = pool;
    envelope->msg.from = -1;
    envelope->msg.to = -1;
    envelope->msg.tag = tag;
    *out = &envelope->msg;
    return FAST_OK;
}

fast_err fast__pool_buffer(fast_pool *pool, size_t size, fast_buffer **out)
{
    const int kind = kind_of(size);
    pool_item *it = NULL;
    if (kind >= KINDS)
        return fast__fail(FAST_ENOMEM, "no memory for a buffer of %zu bytes", size);
    FAST_TRY(take(pool, kind, &it));
    fast_buffer *buffer = (fast_buffer *)(void *)it;
    buffer->pool = pool;
    buffer->size = size;
    atomic_init(&buffer->holds, 1);
    buffer->kind = kind;
    buffer->frozen = false;
    *out = buffer;
    return FAST_OK;
}

void fast_buffer_free(fast_buffer *buffer)
{
    if (!buffer)
        return;
    /* Acquire and release: the last holder frees the buffer after all other holders have read. */
    if (buffer->frozen && atomic_fetch_sub_explicit(&buffer->holds, 1, memory_order_acq_rel) > 1)
        return;
    give(buffer->pool, buffer->kind, buffer);
}

void fast__pool_depart(fast_pool *pool, fast_msg *msg)
{
    FAST_ASSERT(!msg->in_flight);
    msg->in_flight = true;
    atomic_fetch_add(&pool->in_flight, 1);
}

void fast__pool_arrive(fast_msg *msg)
{
    if (!msg->in_flight)
        return;
    msg->in_flight = false;
    atomic_fetch_sub(&fast__envelope(msg)->pool->in_flight, 1);
}

int64_t fast__pool_in_flight(const fast_pool *pool)
{
    return atomic_load(&pool->in_flight);
}

void fast_msg_free(fast_msg *msg)
{
    if (!msg)
        return;
    fast__pool_arrive(msg); /* a message that is dropped on its way never arrives */
    for (int i = 0; i < msg->part_count; i++)
        fast_buffer_free(msg->parts[i].buffer);
    fast_envelope *envelope = fast__envelope(msg);
    give(envelope->pool, 0, envelope);
}
