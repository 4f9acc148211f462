/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list that one thread appends to and others read: the count is written after the entry that it
 * stands for, so readers see whole entries only. The list never wraps, since the first steps of a
 * schedule show how it fills, repeats and drains.
 *
 *     entries   F0 F1 B0 F2 B1 . . .      count = 5: readers may read the first five
 *
 * Cost: 56 bytes a pass, and two stores.
 */
#include "trainer/pipe_log.h"

#include "base/memory.h"

fast_err fast__pipe_log_init(fast_pipe_log *log, int64_t workers)
{
    FAST_ASSERT(workers > 0);
    FAST_ASSERT(log->entries == NULL);
    log->size = FAST_PIPE_LOG_ALL / workers;
    log->size = log->size < FAST_PIPE_LOG_MIN ? FAST_PIPE_LOG_MIN : log->size;
    atomic_store(&log->count, 0);
    return fast__alloc("a log of passes", log->size, sizeof *log->entries, &log->entries);
}

void fast__pipe_log_fini(fast_pipe_log *log)
{
    fast__free(log->entries);
    log->entries = NULL;
    log->size = 0;
    atomic_store(&log->count, 0);
}

void fast__pipe_log_add(fast_pipe_log *log, const fast_pipe_entry *entry)
{
    const long long count = atomic_load_explicit(&log->count, memory_order_relaxed);

    FAST_ASSERT((unsigned)entry->kind < FAST_PIPE_KINDS);
    FAST_ASSERT(entry->begin <= entry->end);
    if (count >= log->size)
        return;
    log->entries[count] = *entry;
    atomic_store_explicit(&log->count, count + 1, memory_order_release);
}

int64_t fast__pipe_log_read(const fast_pipe_log *log, int64_t from, int64_t count_max,
                            fast_pipe_entry *out)
{
    const int64_t count = atomic_load_explicit(&log->count, memory_order_acquire);
    int64_t n = 0;

    FAST_ASSERT(from >= 0);
    while (from + n < count && n < count_max) {
        out[n] = log->entries[from + n];
        n++;
    }
    return n;
}

const char *fast__pipe_kind_name(fast_pipe_kind kind)
{
    static const char *const names[FAST_PIPE_KINDS] = { "forward", "backward", "weights" };

    FAST_ASSERT((unsigned)kind < FAST_PIPE_KINDS);
    return names[kind];
}
