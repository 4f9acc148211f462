/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: aligned and zeroed blocks, checked sizes, an arena, and a fault hook for tests.
 *
 * A block starts at a multiple of FAST_ALIGN, the cache line and the widest vector. An arena is one
 * block that is handed out front to back:
 *
 *     base                                   base + size
 *     | take 1 |pad| take 2    |pad|  not taken yet     |
 *
 * Under the address sanitizer every take is followed by a red zone of FAST_ALIGN bytes, and the red
 * zones and the part not taken yet are poisoned: running past a take is reported as it happens.
 * The measuring run adds the same red zones, so that the sizes agree.
 */
#include "base/memory.h"

#include <inttypes.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define MEMORY_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEMORY_ASAN 1
#endif
#endif

#ifdef MEMORY_ASAN
#include <sanitizer/asan_interface.h>
enum { RED_ZONE = FAST_ALIGN };
#else
#define ASAN_POISON_MEMORY_REGION(start, size)   ((void)(start), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(start, size) ((void)(start), (void)(size))
enum { RED_ZONE = 0 };
#endif

/* The address space of known machines has 47 or 48 bits: a larger block is a bug or a hostile size,
 * and some allocators stop the program instead of refusing it. */
static const int64_t BLOCK_SIZE_MAX = (int64_t)1 << 40;

/* Blocks of at least this size are aligned to it and ask for pages of 2 MB: streaming over vectors
 * then misses the page table less often. */
static const int64_t HUGE_FROM = 2 << 20;

static _Thread_local int64_t fault_count;  /* allocations of this thread so far */
static _Thread_local int64_t fault_after;  /* successes before a failure, plus 1; 0: off */
static _Thread_local int64_t size_sum;     /* bytes of all requests, see fast__alloc_bytes() */
static _Thread_local int64_t size_largest; /* largest request in bytes, see fast__alloc_largest() */
static _Thread_local bool fault_once;      /* fail one allocation, or all that follow */

void fast__alloc_fail_after(int64_t count, bool once)
{
    fault_after = count < 0 ? 0 : count + 1;
    fault_once = once;
}

int64_t fast__alloc_count(void)
{
    return fault_count;
}

int64_t fast__alloc_bytes(void)
{
    return size_sum;
}

int64_t fast__alloc_largest(void)
{
    const int64_t size = size_largest;
    size_largest = 0;
    return size;
}

/* Count an allocation, for tests. */
static void count_request(int64_t bytes)
{
    fault_count++;
    size_sum = bytes > INT64_MAX - size_sum ? INT64_MAX : size_sum + bytes;
    size_largest = bytes > size_largest ? bytes : size_largest;
}

/* Tell whether this allocation must fail, for tests. */
static bool fault_now(void)
{
    if (fault_after == 0)
        return false;
    if (fault_after > 1) {
        fault_after--;
        return false;
    }
    if (fault_once)
        fault_after = 0;
    return true;
}

bool fast__mul_size(int64_t a, int64_t b, int64_t *out)
{
    int64_t product;
    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

bool fast__add_size(int64_t a, int64_t b, int64_t *out)
{
    int64_t sum;
    if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

bool fast__alloc_is_lazy(int64_t bytes)
{
    return bytes >= HUGE_FROM;
}

/* Find the pages that lie wholly in a block; false if it has no whole page. */
static bool whole_pages(void *memory, int64_t size, void **first_out, size_t *size_out)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t start = ((uintptr_t)memory + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)memory + (uintptr_t)size) / page * page;

    FAST_ASSERT(size >= 0);
    *first_out = (void *)start;
    *size_out = end > start ? end - start : 0;
    return end > start;
}

/* Set a block to 0. The pages of a large one are given back instead: they are 0 when they are first
 * touched, so that vectors of which a part is used take the memory of that part. */
static void clear(void *memory, int64_t bytes)
{
    unsigned char *begin = memory, *first;
    void *pages;
    size_t size;

    if (bytes < HUGE_FROM || !whole_pages(memory, bytes, &pages, &size) ||
        madvise(pages, size, MADV_DONTNEED) != 0) {
        memset(memory, 0, (size_t)bytes);
        return;
    }
    madvise(pages, size, MADV_HUGEPAGE); /* before the first touch; it may refuse */
    first = pages;
    memset(begin, 0, (size_t)(first - begin));
    memset(first + size, 0, (size_t)(begin + bytes - (first + size)));
}

void fast__memory_small_pages(void *at, int64_t bytes)
{
    void *pages;
    size_t size;

    if (whole_pages(at, bytes, &pages, &size))
        madvise(pages, size, MADV_NOHUGEPAGE);
}

void fast__memory_drop(void *at, int64_t bytes)
{
    void *pages;
    size_t size;

    if (whole_pages(at, bytes, &pages, &size))
        madvise(pages, size, MADV_DONTNEED);
}

fast_err fast__alloc(const char *what, int64_t count, size_t size, void *out)
{
    FAST_ASSERT(out != NULL);
    FAST_ASSERT(size > 0);

    int64_t bytes;
    if (size > (size_t)BLOCK_SIZE_MAX || !fast__mul_size(count, (int64_t)size, &bytes) ||
        bytes > BLOCK_SIZE_MAX)
        return fast__fail(FAST_ENOMEM, "%s: %lld elements of %zu bytes are too many", what,
                          (long long)count, size);

    void *memory = NULL;
    count_request(bytes);
    if (fault_now() || posix_memalign(&memory, bytes >= HUGE_FROM ? (size_t)HUGE_FROM : FAST_ALIGN,
                                      bytes ? (size_t)bytes : 1))
        return fast__fail(FAST_ENOMEM, "no memory for %s: %lld bytes", what, (long long)bytes);
    clear(memory, bytes);
    /* `out` is a pointer to a pointer of any type. */
    memcpy(out, &memory, sizeof memory);
    return FAST_OK;
}

void fast__free(void *memory)
{
    free(memory);
}

fast_err fast__pages_new(const char *what, int64_t bytes, void *out)
{
    FAST_ASSERT(out != NULL);
    FAST_ASSERT(bytes > 0);
    void *memory = MAP_FAILED;

    count_request(bytes);
    if (!fault_now() && bytes <= BLOCK_SIZE_MAX)
        memory =
            mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return fast__fail(FAST_ENOMEM, "no memory for %s: %lld bytes", what, (long long)bytes);
    memcpy(out, &memory, sizeof memory);
    return FAST_OK;
}

void fast__pages_free(void *memory, int64_t bytes)
{
    if (!memory)
        return;
    /* The pages may become a thread's stack next, which must not inherit a pool's poison. */
    ASAN_UNPOISON_MEMORY_REGION(memory, (size_t)bytes);
    munmap(memory, (size_t)bytes);
}

void *fast__arena_take(fast_arena *arena, int64_t count, size_t size)
{
    int64_t bytes, end;
    const bool fits = fast__mul_size(count, (int64_t)size, &bytes) &&
                      fast__add_size(bytes, FAST_ALIGN - 1 + RED_ZONE, &end) &&
                      fast__add_size(end, (int64_t)arena->used, &end);
    FAST_ASSERT(fits);
    FAST_ASSERT(arena->used % FAST_ALIGN == 0);

    const size_t start = arena->used;
    const size_t used = (size_t)end / FAST_ALIGN * FAST_ALIGN;
    arena->used = used;
    if (!arena->base)
        return (void *)(uintptr_t)start; /* measuring: return an offset */

    FAST_ASSERT(used <= arena->size);
    if (start == 0)
        ASAN_POISON_MEMORY_REGION(arena->base, arena->size);
    ASAN_UNPOISON_MEMORY_REGION(arena->base + start, (size_t)bytes);
    return arena->base + start;
}

/* Return the first number of a file of the system, after `label` ("" for none); -1 if the file does
 * not have it. */
static int64_t system_number(const char *path, const char *label)
{
    FILE *file = fopen(path, "re");
    char line[256];
    int64_t value = -1;
    while (file != NULL && value < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, label, strlen(label)) == 0 &&
            sscanf(line + strlen(label), "%" SCNd64, &value) != 1)
            value = -1;
    }
    if (file != NULL)
        fclose(file);
    return value;
}

void fast__memory_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

int64_t fast__memory_resident(void)
{
    const int64_t kib = system_number("/proc/self/status", "VmRSS:");

    return kib > 0 ? kib * 1024 : 0;
}

/* The smaller one of the machine's free memory and what its container has left. */
int64_t fast__memory_available(void)
{
    int64_t available = INT64_MAX;
    const int64_t free_kb = system_number("/proc/meminfo", "MemAvailable:");
    const int64_t limit = system_number("/sys/fs/cgroup/memory.max", "");
    const int64_t used = system_number("/sys/fs/cgroup/memory.current", "");
    /* Files in the page cache count as used there, and leave when memory is needed. */
    const int64_t cached = system_number("/sys/fs/cgroup/memory.stat", "inactive_file ");
    if (free_kb >= 0)
        available = free_kb * 1024;
    if (limit >= 0 && used >= 0) {
        const int64_t left = limit - used + (cached > 0 ? cached : 0);
        available = left < available ? (left > 0 ? left : 0) : available;
    }
    return available;
}
