/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device `check`; device_check.h says what it finds.
 *
 * A device reserves SPACE bytes of addresses, inaccessible. An allocation takes the next pages:
 *
 *     the pages that are opened    unused, then the elements from a multiple of 64 bytes on, then
 *                                  less than 64 bytes
 *     one page                     a guard; never open
 *
 * An allocation counts its open mappings. While there is one that writes, its pages are readable
 * and writable; while all only read, readable; else neither. A mapping for FAST_ACCESS_WRITE fills
 * its elements with NaN first. Freed pages are given back to the system, and their addresses are
 * not used again. Allocations are a list; a mapping looks its own up by address. Cost: a lock and
 * up to two system calls a mapping.
 */
#include "tensor/device_check.h"

#include "base/memory.h"
#include "base/thread.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <execinfo.h>
#endif

enum { NAME_MAX_BYTES = 48, CHECKS_MAX = FAST_DEVICES_MAX };

static const size_t SPACE = (size_t)1 << 36; /* bytes of addresses of a device */

/* The accounts of an allocation. */
typedef struct check_pages {
    struct check_pages *next;  /* of the device's list */
    char *begin;               /* first page */
    size_t size;               /* bytes of the pages without the guard */
    float *at;                 /* first element */
    int64_t count;             /* elements */
    int64_t readers;           /* open mappings that only read */
    int64_t writers;           /* open mappings that write */
    char name[NAME_MAX_BYTES]; /* of the vector, for the message of a fault */
} check_pages;

typedef struct check_device {
    fast_device device; /* the contract; its state is this */
    fast_mutex lock;    /* guards all of the below and the accounts */
    char *space;        /* [SPACE]: all addresses of the device */
    size_t used;        /* bytes of them that were ever taken */
    check_pages *pages; /* all allocations, the newest first */
    int64_t maps;       /* mappings so far */
} check_device;

/* Give the pages the access that the open mappings need. */
static void protect(const check_pages *p)
{
    const int access = p->writers > 0   ? PROT_READ | PROT_WRITE
                       : p->readers > 0 ? PROT_READ
                                        : PROT_NONE;
    const int failed = mprotect(p->begin, p->size, access);

    FAST_ASSERT(!failed);
}

/* The allocation that holds this element; NULL: none does. */
static check_pages *pages_at(const check_device *check, const float *at)
{
    check_pages *p = check->pages;

    while (p && (at < p->at || at >= p->at + p->count))
        p = p->next;
    return p;
}

/* The allocation that holds all of a vector; one that does not exist is a bug of the caller. */
static check_pages *find(const check_device *check, const float *at, int64_t count)
{
    check_pages *p = pages_at(check, at);

    FAST_ASSERT(p != NULL);
    FAST_ASSERT(count <= p->count - (at - p->at));
    return p;
}

static fast_err check_alloc(const fast_device *device, const char *what, int64_t count, float **out)
{
    check_device *check = device->state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = (size_t)(count > 0 ? count : 1) * sizeof(float);
    const size_t size = (bytes + FAST_ALIGN + page - 1) / page * page;
    check_pages *p = NULL;

    FAST_ASSERT(count <= INT64_MAX / 16);
    FAST_TRY(fast__alloc(what, 1, sizeof *p, &p));
    snprintf(p->name, sizeof p->name, "%s", what);
    p->count = count;
    p->size = size;
    fast__mutex_lock(&check->lock);
    const bool fits = size + page <= SPACE - check->used;
    if (fits) {
        p->begin = check->space + check->used;
        p->at = (float *)(void *)(p->begin + (size - bytes) / FAST_ALIGN * FAST_ALIGN);
        check->used += size + page;
        p->next = check->pages;
        check->pages = p;
    }
    fast__mutex_unlock(&check->lock);
    if (!fits) {
        fast__free(p);
        return fast__fail(FAST_ENOMEM, "%s: the device check has no more addresses", what);
    }
    *out = p->at;
    return FAST_OK;
}

static void check_free(const fast_device *device, float *at)
{
    check_device *check = device->state;
    check_pages **link = &check->pages;

    fast__mutex_lock(&check->lock);
    while (*link && (*link)->at != at)
        link = &(*link)->next;
    check_pages *p = *link;
    FAST_ASSERT(p != NULL);
    FAST_ASSERT(p->readers == 0 && p->writers == 0);
    *link = p->next;
    const void *fresh = mmap(p->begin, p->size, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    FAST_ASSERT(fresh == p->begin);
    fast__mutex_unlock(&check->lock);
    fast__free(p);
}

static float *check_map(const fast_device *device, float *at, int64_t count, fast_access access)
{
    check_device *check = device->state;

    fast__mutex_lock(&check->lock);
    check_pages *p = find(check, at, count);
    const bool closed = access == FAST_ACCESS_READ ? p->readers + p->writers == 0 : p->writers == 0;
    p->readers += access == FAST_ACCESS_READ;
    p->writers += access != FAST_ACCESS_READ;
    check->maps++;
    if (closed)
        protect(p);
    fast__mutex_unlock(&check->lock);
    for (int64_t i = 0; access == FAST_ACCESS_WRITE && i < count; i++)
        at[i] = NAN;
    return at;
}

static void check_unmap(const fast_device *device, float *at, int64_t count, fast_access access)
{
    check_device *check = device->state;

    fast__mutex_lock(&check->lock);
    check_pages *p = find(check, at, count);
    int64_t *open = access == FAST_ACCESS_READ ? &p->readers : &p->writers;
    FAST_ASSERT(*open > 0);
    if (--*open == 0)
        protect(p);
    fast__mutex_unlock(&check->lock);
}

/* The message of a fault. */

static check_device *_Atomic checks[CHECKS_MAX]; /* the open devices, for the handler */
static struct sigaction before;                  /* the handler of SIGSEGV before the first */
static fast_mutex checks_lock = { PTHREAD_MUTEX_INITIALIZER }; /* guards the two; not in faults */

/* Write one line about an access to a vector. Functions that are not async-signal-safe are used:
 * the fault is synchronous, and the process ends. */
static void tell_fault(const check_device *check, const float *at)
{
    const check_pages *p = pages_at(check, at);
    char line[256];
    const int size =
        p ? snprintf(line, sizeof line,
                     "fast: device check: element %lld of \"%s\" (%lld floats) %s\n",
                     (long long)(at - p->at), p->name, (long long)p->count,
                     p->readers > 0 ? "was written while it was mapped for reading"
                                    : "was accessed outside a kernel")
          : snprintf(line, sizeof line,
                     "fast: device check: an address outside of all vectors was accessed: freed "
                     "memory, or behind an end\n");

    if (write(STDERR_FILENO, line, (size_t)size) != size)
        return;
#ifdef __GLIBC__
    void *frames[32];
    backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
#endif
}

/* Tell what was accessed; then the access is tried again under the handler before. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    const char *address = info->si_addr;

    (void)context;
    for (int i = 0; i < CHECKS_MAX; i++) {
        const check_device *check = checks[i];

        if (check && address >= check->space && address < check->space + SPACE)
            tell_fault(check, (const float *)(const void *)address);
    }
    sigaction(number, &before, NULL);
}

/* Add a device to the handler's list, or remove it: the first installs the handler, and the last
 * removes it. */
static void list_check(check_device *from, check_device *to)
{
    const struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
    int open = 0, at = -1;

    fast__mutex_lock(&checks_lock);
    for (int i = 0; i < CHECKS_MAX; i++) {
        open += checks[i] != NULL;
        at = checks[i] == from ? i : at;
    }
    FAST_ASSERT(at >= 0);
    if (to && open == 0)
        sigaction(SIGSEGV, &action, &before);
    if (!to && open == 1)
        sigaction(SIGSEGV, &before, NULL);
    checks[at] = to;
    fast__mutex_unlock(&checks_lock);
}

fast_err fast__device_check_open(const fast_device **out)
{
    check_device *check = NULL;

    FAST_TRY(fast__alloc("the device check", 1, sizeof *check, &check));
    check->space = mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (check->space == MAP_FAILED) {
        fast__free(check);
        return fast__fail(FAST_ENOMEM, "the device check cannot reserve %zu bytes of addresses",
                          SPACE);
    }
    check->device = (fast_device){ .name = "check",
                                   .state = check,
                                   .alloc = check_alloc,
                                   .free = check_free,
                                   .map = check_map,
                                   .unmap = check_unmap };
    const fast_err err = fast__device_add(&check->device, check->space, SPACE);
    if (err) {
        munmap(check->space, SPACE);
        fast__free(check);
        return err;
    }
    fast__mutex_init(&check->lock);
    list_check(NULL, check);
    *out = &check->device;
    return FAST_OK;
}

void fast__device_check_close(const fast_device *device)
{
    if (!device)
        return;
    check_device *check = device->state;
    FAST_ASSERT(check->pages == NULL);
    list_check(check, NULL);
    fast__device_remove(device);
    munmap(check->space, SPACE);
    fast__mutex_fini(&check->lock);
    fast__free(check);
}

int64_t fast__device_check_maps(const fast_device *device)
{
    check_device *check = device->state;

    fast__mutex_lock(&check->lock);
    const int64_t maps = check->maps;
    fast__mutex_unlock(&check->lock);
    return maps;
}
