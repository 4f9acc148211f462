/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of shards: slots of one shard each, and threads that fill them.
 *
 *   reader of rows                 queues              reading threads
 *   read ---- not there ----> urgent, in order --->  choose a slot, read, check, decompress
 *     <---- wakes up ---------------------------------- shard is there, pinned for who waits
 *   expect -----------------> ahead, in order ---->  the same, if an older slot is free
 *
 * A slot that is pinned or being filled is never chosen; of the others the one with the smallest
 * window, that was filled first. So shards of windows that are over leave first, and reading ahead
 * never removes a shard of a window that is in use. One mutex guards everything but the bytes;
 * bytes of a slot are written while it is being filled and read while it is pinned. Nothing is
 * allocated after new. Cost: two short critical sections a row.
 *
 * Life of a shard:
 *
 *             expect            a thread has time           read and checked
 *   ABSENT ----------> AHEAD ---------------------> LOADING ----------------> HERE
 *      |                 | read                        ^                       |
 *      +---- read ----> URGENT ------------------------+                       |
 *      ^                                                                       |
 *      +------------------- its slot is chosen for another shard --------------+
 *
 * A file is read whole, compared with the checksum of the index, decompressed, and its values are
 * checked: later code trusts tokens and numbers as it trusts those of sets in memory. A failure is
 * that of every read from then on, since a run cannot continue without its samples.
 *
 * A reader that waits pins its shard before it is there: the thread that fills the slot sets the
 * pins of all that wait. Each thread pins one shard at a time and never waits with a pin, so slots
 * always become free.
 */
#include "data/stream_cache.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/thread.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef FAST_HAVE_ZSTD
#include <zstd.h>
#endif

enum {
    READERS_MAX = 16,
    EMPTY = -2, /* smaller than any window */
    SHARD_PATH_MAX = FAST_PATH_MAX + FAST_STREAM_NAME_MAX
};

/* Where a shard is on its way into memory. */
typedef enum shard_state {
    SHARD_ABSENT,
    SHARD_AHEAD,
    SHARD_URGENT,
    SHARD_LOADING,
    SHARD_HERE
} shard_state;

/* One shard. */
typedef struct stream_shard {
    shard_state state; /* on disk, queued, being read, in memory */
    int32_t slot;      /* where it is; SHARD_LOADING, SHARD_HERE */
    int32_t waiting;   /* threads that wait for it */
    int64_t when;      /* largest window that it was asked for in */
} stream_shard;

/* Memory for one shard. */
typedef struct stream_slot {
    uint8_t *bytes; /* rows; not guarded, see above */
    int64_t shard;  /* in it; -1: empty */
    int64_t filled; /* when it was filled: a count */
    int32_t pins;   /* threads that read it */
    bool busy;      /* being filled */
} stream_slot;

/* Shards in the order in which they were asked for. */
typedef struct stream_queue {
    int64_t *items; /* ring of `room` */
    int64_t room;   /* number of shards + 1: a shard is in it at most once at a time */
    int64_t head;   /* first one */
    int64_t count;  /* in it */
} stream_queue;

/* One reading thread. */
typedef struct stream_reader {
    fast_stream_cache *cache; /* that it fills */
    fast_thread thread;       /* its handle */
    uint8_t *packed;          /* a compressed shard; NULL if they are plain */
    void *zstd;               /* ZSTD_DCtx; NULL if they are plain */
    bool started;             /* the thread runs */
} stream_reader;

struct fast_stream_cache {
    /* Constant after new. */
    fast_stream_index index;    /* owned */
    char folder[FAST_PATH_MAX]; /* of the files */
    int64_t shard_size;         /* bytes of a full shard in memory */
    int64_t packed_max;         /* bytes of the largest file */
    int64_t slot_count;         /* shards that it holds */
    int64_t reader_count;       /* threads */
    stream_reader readers[READERS_MAX];
    pthread_mutex_t mutex;        /* guards the rest */
    pthread_cond_t arrived;       /* a shard is in memory, or reading failed */
    pthread_cond_t work;          /* for reading threads: a queue or a free slot */
    stream_slot *slots;           /* [slot_count] */
    stream_shard *shards;         /* of both parts */
    stream_queue urgent;          /* shards that threads wait for */
    stream_queue ahead;           /* shards that will be needed */
    int64_t filled;               /* slots filled so far */
    int owners;                   /* data sets that use it */
    bool stop;                    /* reading threads must return */
    fast_err err;                 /* of the first read that failed */
    char detail[FAST_DETAIL_MAX]; /* of err */
};

/* Append a shard; the ring has room for all. */
static void queue_push(stream_queue *q, int64_t shard)
{
    FAST_ASSERT(q->count < q->room);
    q->items[(q->head + q->count++) % q->room] = shard;
}

/* Remove the first shard. */
static int64_t queue_pop(stream_queue *q)
{
    FAST_ASSERT(q->count > 0);
    const int64_t shard = q->items[q->head];
    q->head = (q->head + 1) % q->room;
    q->count--;
    return shard;
}

/* Split a number into the part, which is returned, and the shard in it: *shard. Numbers of the test
 * set follow those of the training set. */
static int part_of(const fast_stream_cache *c, int64_t *shard)
{
    if (*shard < c->index.part[0].shards)
        return 0;
    *shard -= c->index.part[0].shards;
    FAST_ASSERT(*shard < c->index.part[1].shards);
    return 1;
}

/* Read a file of exactly `size` bytes. A file that was cut or has grown is damaged; one that
 * becomes shorter while it is read is an error of the disk. */
static fast_err read_file(const char *path, int64_t size, uint8_t *out)
{
    int fd;
    int64_t found;
    FAST_TRY(fast__file_open(path, &fd, &found));
    fast_err err = FAST_OK;
    if (found != size)
        err = fast__fail(FAST_EFORMAT, "%s has %lld bytes, and its index says %lld", path,
                         (long long)found, (long long)size);
    for (int64_t done = 0; done < size && !err;) {
        const ssize_t got = pread(fd, out + done, (size_t)(size - done), done);
        if (got > 0)
            done += got;
        else if (got == 0 || errno != EINTR)
            err = fast__fail(FAST_EIO, "cannot read %s: %s", path,
                             got == 0 ? "it became shorter" : strerror(errno));
    }
    close(fd);
    return err;
}

/* Decompress exactly `size` bytes: a frame that claims more is refused by zstd, since there is no
 * room, and one that has fewer would leave rows of another shard. */
static fast_err unpack(const stream_reader *reader, const char *path, int64_t packed, int64_t size,
                       uint8_t *out)
{
#ifdef FAST_HAVE_ZSTD
    const size_t got =
        ZSTD_decompressDCtx(reader->zstd, out, (size_t)size, reader->packed, (size_t)packed);
    if (ZSTD_isError(got) || (int64_t)got != size)
        return fast__fail(FAST_EFORMAT, "%s is damaged: %s", path,
                          ZSTD_isError(got) ? ZSTD_getErrorName(got) : "it is too short");
    return FAST_OK;
#else
    (void)reader, (void)packed, (void)size, (void)out;
    return fast__fail(FAST_ENOTSUP, "%s is compressed, and this build has no zstd", path);
#endif
}

/* Read a shard into memory, and check it. */
static fast_err load(const stream_reader *reader, int64_t shard, uint8_t *out)
{
    const fast_stream_cache *c = reader->cache;
    const fast_stream_index *index = &c->index;
    const int part = part_of(c, &shard);
    const fast_stream_file *file = &index->part[part].files[shard];
    const int64_t rows = fast__stream_rows(index, part, shard);
    const int64_t size = rows * (int64_t)fast__data_row_size(&index->form);
    char name[FAST_STREAM_NAME_MAX], path[SHARD_PATH_MAX];
    fast__stream_name(part, shard, name);
    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    uint8_t *bytes = index->compressed ? reader->packed : out;
    FAST_TRY(read_file(path, file->size, bytes));
    if (fast__hash(bytes, (size_t)file->size, 0) != file->hash)
        return fast__fail(FAST_EFORMAT, "%s is damaged: its checksum is not that of the index",
                          path);
    if (index->compressed)
        FAST_TRY(unpack(reader, path, file->size, size, out));
    return fast__fail_in(fast__data_check_values(&index->form, out, rows), path);
}

/* Choose the slot to fill for a shard: free, and of the smallest window; for one that is read ahead
 * of a smaller window than its own. -1: no slot is free. */
static int64_t choose_slot(const fast_stream_cache *c, int64_t when, bool urgent)
{
    int64_t best = -1, best_when = 0;
    for (int64_t i = 0; i < c->slot_count; i++) {
        const stream_slot *s = &c->slots[i];
        const int64_t slot_when = s->shard < 0 ? EMPTY : c->shards[s->shard].when;
        if (s->busy || s->pins > 0 || (!urgent && slot_when >= when))
            continue;
        if (best < 0 || slot_when < best_when ||
            (slot_when == best_when && s->filled < c->slots[best].filled)) {
            best = i;
            best_when = slot_when;
        }
    }
    return best;
}

/* Take the next shard to read and a slot for it, which becomes busy. -1: nothing to do, or every
 * slot is in use. The mutex is held. Shards that threads wait for come first; one that is announced
 * and finds no older slot is forgotten, and read when it is needed. */
static int64_t take_work(fast_stream_cache *c)
{
    while (c->urgent.count > 0 || c->ahead.count > 0) {
        const bool urgent = c->urgent.count > 0;
        stream_queue *q = urgent ? &c->urgent : &c->ahead;
        const int64_t shard = q->items[q->head];
        stream_shard *s = &c->shards[shard];
        if (s->state != (urgent ? SHARD_URGENT : SHARD_AHEAD)) {
            queue_pop(q); /* became urgent */
            continue;
        }
        const int64_t slot = choose_slot(c, s->when, urgent);
        if (slot < 0 && urgent)
            return -1; /* a pin will end */
        queue_pop(q);
        if (slot < 0) {
            s->state = SHARD_ABSENT; /* it is read when it is needed */
            continue;
        }
        if (c->slots[slot].shard >= 0)
            c->shards[c->slots[slot].shard].state = SHARD_ABSENT;
        c->slots[slot].shard = shard;
        c->slots[slot].busy = true;
        s->state = SHARD_LOADING;
        s->slot = (int32_t)slot;
        return shard;
    }
    return -1;
}

/* Note the result of a load, and wake all that wait. The mutex is held. The error detail belongs to
 * the reading thread: its text is copied for the threads that will ask. */
static void finish_load(fast_stream_cache *c, int64_t shard, fast_err err)
{
    stream_shard *s = &c->shards[shard];
    stream_slot *slot = &c->slots[s->slot];
    slot->busy = false;
    if (err) {
        slot->shard = -1;
        s->state = SHARD_ABSENT;
        if (!c->err)
            snprintf(c->detail, sizeof c->detail, "%s", fast_error_detail());
        c->err = c->err ? c->err : err;
    } else {
        s->state = SHARD_HERE;
        slot->pins = s->waiting;
        slot->filled = ++c->filled;
        s->waiting = 0;
    }
    pthread_cond_broadcast(&c->arrived);
}

/* A reading thread: sleeps until there is something to read and a slot for it. Files are read
 * without the mutex, several at a time if there are several threads. */
static void *reader_main(void *ctx)
{
    stream_reader *reader = ctx;
    fast_stream_cache *c = reader->cache;
    pthread_mutex_lock(&c->mutex);
    while (!c->stop) {
        const int64_t shard = take_work(c);
        if (shard < 0) {
            pthread_cond_wait(&c->work, &c->mutex);
            continue;
        }
        uint8_t *bytes = c->slots[c->shards[shard].slot].bytes;
        pthread_mutex_unlock(&c->mutex);
        const fast_err err = load(reader, shard, bytes);
        pthread_mutex_lock(&c->mutex);
        finish_load(c, shard, err);
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

/* Pin a shard, which is read first if it is not in memory. The mutex is held. */
static fast_err pin(fast_stream_cache *c, int64_t shard, int64_t when)
{
    stream_shard *s = &c->shards[shard];
    s->when = when > s->when ? when : s->when;
    if (s->state == SHARD_HERE && !c->err) {
        c->slots[s->slot].pins++;
        return FAST_OK;
    }
    if (s->state == SHARD_ABSENT || s->state == SHARD_AHEAD) {
        s->state = SHARD_URGENT;
        queue_push(&c->urgent, shard);
        pthread_cond_signal(&c->work);
    }
    s->waiting++;
    /* The slot is filled with a pin for this thread, so that it cannot be chosen for another shard
     * before this thread wakes up. */
    while (s->state != SHARD_HERE && !c->err)
        pthread_cond_wait(&c->arrived, &c->mutex);
    if (!c->err)
        return FAST_OK;
    return fast__fail(c->err, "%s", c->detail);
}

/* Pin, copy without the mutex, unpin. */
fast_err fast__stream_cache_read(fast_stream_cache *c, int64_t shard, int64_t row, int64_t when,
                                 void *out)
{
    const size_t size = fast__data_row_size(&c->index.form);
    pthread_mutex_lock(&c->mutex);
    const fast_err err = pin(c, shard, when);
    if (err) {
        pthread_mutex_unlock(&c->mutex);
        return err;
    }
    stream_slot *slot = &c->slots[c->shards[shard].slot];
    FAST_ASSERT(slot->shard == shard && slot->pins > 0 && !slot->busy);
    pthread_mutex_unlock(&c->mutex);
    memcpy(out, slot->bytes + (size_t)row * size, size);
    pthread_mutex_lock(&c->mutex);
    if (--slot->pins == 0 && c->urgent.count > 0)
        pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->mutex);
    return FAST_OK;
}

/* Queue the shard, unless it is there or on its way. A full queue forgets it: it is read when it is
 * needed. */
void fast__stream_cache_expect(fast_stream_cache *c, int64_t shard, int64_t when)
{
    pthread_mutex_lock(&c->mutex);
    stream_shard *s = &c->shards[shard];
    s->when = when > s->when ? when : s->when;
    if (s->state == SHARD_ABSENT && c->ahead.count < c->ahead.room) {
        s->state = SHARD_AHEAD;
        queue_push(&c->ahead, shard);
        pthread_cond_signal(&c->work);
    }
    pthread_mutex_unlock(&c->mutex);
}

const fast_stream_index *fast__stream_cache_index(const fast_stream_cache *c)
{
    return &c->index;
}

int64_t fast__stream_cache_slots(const fast_stream_cache *c)
{
    return c->slot_count;
}

/* Count the slots that the memory has room for. The last shard of a part may be smaller than the
 * others; a slot has room for any of them. Compressed files need room beside the slots. */
static fast_err plan(fast_stream_cache *c, int64_t memory)
{
    const fast_stream_index *index = &c->index;
    int64_t shards = 0, largest = 0;
    for (int p = 0; p < 2; p++) {
        shards += index->part[p].shards;
        for (int64_t i = 0; i < index->part[p].shards; i++) {
            const int64_t rows = fast__stream_rows(index, p, i);
            largest = rows > largest ? rows : largest;
            if (index->part[p].files[i].size > c->packed_max)
                c->packed_max = index->part[p].files[i].size;
        }
    }
    c->shard_size = largest * (int64_t)fast__data_row_size(&index->form);
    if (index->compressed)
        memory -= c->reader_count * c->packed_max;
    c->slot_count = memory > 0 ? memory / c->shard_size : 0;
    if (c->slot_count > shards)
        c->slot_count = shards;
    if (c->slot_count < (shards < 2 ? shards : 2))
        return fast__fail(FAST_EINVAL,
                          "the cache must hold 2 shards of %lld bytes: raise cache, or write "
                          "smaller shards",
                          (long long)c->shard_size);
    return FAST_OK;
}

/* Allocate slots, shards and queues: 32 bytes for each shard on disk, and the memory that the user
 * allowed. */
static fast_err alloc_parts(fast_stream_cache *c)
{
    const int64_t shards = c->index.part[0].shards + c->index.part[1].shards;
    FAST_TRY(fast__alloc("slots of shards", c->slot_count, sizeof *c->slots, &c->slots));
    for (int64_t i = 0; i < c->slot_count; i++) {
        c->slots[i].shard = -1;
        FAST_TRY(fast__alloc("the cache of shards", c->shard_size, 1, &c->slots[i].bytes));
    }
    FAST_TRY(fast__alloc("shards", shards, sizeof *c->shards, &c->shards));
    for (int64_t i = 0; i < shards; i++)
        c->shards[i].when = -1;
    stream_queue *const queues[] = { &c->urgent, &c->ahead };
    for (int i = 0; i < 2; i++) {
        queues[i]->room = 2 * shards + 1;
        FAST_TRY(
            fast__alloc("queues of shards", queues[i]->room, sizeof(int64_t), &queues[i]->items));
    }
    for (int64_t i = 0; i < c->reader_count && c->index.compressed; i++) {
        FAST_TRY(fast__alloc("a compressed shard", c->packed_max, 1, &c->readers[i].packed));
#ifdef FAST_HAVE_ZSTD
        c->readers[i].zstd = ZSTD_createDCtx();
        if (c->readers[i].zstd == NULL)
            return fast__fail(FAST_ENOMEM, "no memory to decompress shards");
#else
        return fast__fail(FAST_ENOTSUP,
                          "the shards of %s are compressed; install libzstd-dev and build again",
                          c->folder);
#endif
    }
    return FAST_OK;
}

/* Start the reading threads; everything else is made. Those that started before a failure are
 * joined by fast__stream_cache_free(). */
static fast_err start_readers(fast_stream_cache *c)
{
    for (int64_t i = 0; i < c->reader_count; i++) {
        c->readers[i].cache = c;
        FAST_TRY(fast__thread_start(&c->readers[i].thread, reader_main, &c->readers[i]));
        c->readers[i].started = true;
    }
    return FAST_OK;
}

/* Plan, allocate, then start the threads, which use everything else. */
fast_err fast__stream_cache_new(const fast_stream_options *options, fast_stream_index *move_index,
                                fast_stream_cache **out)
{
    FAST_ASSERT(options->readers >= 1 && options->readers <= READERS_MAX);
    fast_stream_cache *c;
    fast_err err = fast__alloc("a cache of shards", 1, sizeof *c, &c);
    if (err) {
        fast__stream_index_fini(move_index);
        return err;
    }
    c->index = *move_index;
    *move_index = (fast_stream_index){ .rows = 0 };
    c->owners = 1;
    c->reader_count = options->readers;
    snprintf(c->folder, sizeof c->folder, "%s", options->folder);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->arrived, NULL);
    pthread_cond_init(&c->work, NULL);
    err = plan(c, options->cache);
    if (!err)
        err = alloc_parts(c);
    if (!err)
        err = start_readers(c);
    if (err) {
        fast__stream_cache_free(c);
        return err;
    }
    *out = c;
    return FAST_OK;
}

void fast__stream_cache_share(fast_stream_cache *c)
{
    pthread_mutex_lock(&c->mutex);
    c->owners++;
    pthread_mutex_unlock(&c->mutex);
}

/* The last owner stops the threads first: they write to the slots. */
void fast__stream_cache_free(fast_stream_cache *c)
{
    pthread_mutex_lock(&c->mutex);
    const bool last = --c->owners == 0;
    c->stop = last;
    pthread_cond_broadcast(&c->work);
    pthread_mutex_unlock(&c->mutex);
    if (!last)
        return;
    for (int64_t i = 0; i < c->reader_count; i++) {
        if (c->readers[i].started)
            fast__thread_join(&c->readers[i].thread);
        fast__free(c->readers[i].packed);
#ifdef FAST_HAVE_ZSTD
        ZSTD_freeDCtx(c->readers[i].zstd);
#endif
    }
    for (int64_t i = 0; i < c->slot_count && c->slots != NULL; i++)
        fast__free(c->slots[i].bytes);
    fast__free(c->slots);
    fast__free(c->shards);
    fast__free(c->urgent.items);
    fast__free(c->ahead.items);
    pthread_cond_destroy(&c->work);
    pthread_cond_destroy(&c->arrived);
    pthread_mutex_destroy(&c->mutex);
    fast__stream_index_fini(&c->index);
    fast__free(c);
}
