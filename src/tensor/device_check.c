/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device `check`; device_check.h says what it finds.
 *
 *     page 1                       accounts; always open
 *     the pages that are opened    unused, then the elements from a multiple of 64 bytes on, then
 *                                  less than 64 bytes
 *     the last page                a guard; never open
 *
 * An allocation counts its open mappings. While there is one that writes, its pages are readable
 * and writable; while all only read, readable; else neither. A mapping for FAST_ACCESS_WRITE fills
 * its elements with NaN first. Allocations are a list; a mapping looks its own up by address. Cost:
 * a lock and up to two system calls a mapping.
 */
#include "tensor/device_check.h"

#include "base/memory.h"
#include "base/thread.h"
#include "tensor/vector.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

/* The accounts of an allocation, on its first page. */
typedef struct check_pages {
    struct check_pages *next; /* of the device's list */
    float *at;                /* first element */
    int64_t count;            /* elements */
    size_t page;              /* bytes of a page */
    size_t size;              /* bytes of the pages in the middle */
    int64_t readers;          /* open mappings that only read */
    int64_t writers;          /* open mappings that write */
} check_pages;

typedef struct check_device {
    fast_device device; /* the contract; its state is this */
    fast_mutex lock;    /* guards all of the below and the accounts */
    check_pages *pages; /* all allocations, the newest first */
    int64_t maps;       /* mappings so far */
} check_device;

/* Give the pages the access that the open mappings need. */
static void protect(check_pages *p)
{
    const int access = p->writers > 0   ? PROT_READ | PROT_WRITE
                       : p->readers > 0 ? PROT_READ
                                        : PROT_NONE;
    const int failed = mprotect((char *)p + p->page, p->size, access);

    FAST_ASSERT(!failed);
}

/* The allocation that holds all of a view; one that does not exist is a bug of the caller. */
static check_pages *find(const check_device *check, const float *at, int64_t count)
{
    for (check_pages *p = check->pages; p; p = p->next)
        if (at >= p->at && at < p->at + p->count) {
            FAST_ASSERT(count <= p->count - (at - p->at));
            return p;
        }
    FAST_ASSERT(!"a view is of memory on this device");
    return NULL;
}

static fast_err check_alloc(const fast_device *device, const char *what, int64_t count, float **out)
{
    check_device *check = device->state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = (size_t)(count > 0 ? count : 1) * sizeof(float);
    const size_t size = (bytes + FAST_ALIGN + page - 1) / page * page;
    check_pages *p = NULL;

    FAST_ASSERT(count <= INT64_MAX / 16);
    FAST_TRY(fast__pages_new(what, (int64_t)(size + 2 * page), &p));
    const size_t offset = page + (size - bytes) / FAST_ALIGN * FAST_ALIGN;
    p->at = (float *)(void *)((char *)p + offset);
    p->count = count;
    p->page = page;
    p->size = size;
    const int failed = mprotect((char *)p + page + size, page, PROT_NONE);
    FAST_ASSERT(!failed);
    protect(p);
    fast__mutex_lock(&check->lock);
    p->next = check->pages;
    check->pages = p;
    fast__mutex_unlock(&check->lock);
    *out = p->at;
    return FAST_OK;
}

static void check_free(const fast_device *device, float *at, int64_t count)
{
    check_device *check = device->state;
    check_pages **link = &check->pages;

    fast__mutex_lock(&check->lock);
    while (*link && (*link)->at != at)
        link = &(*link)->next;
    check_pages *p = *link;
    FAST_ASSERT(p != NULL);
    FAST_ASSERT(p->count == count);
    FAST_ASSERT(p->readers == 0 && p->writers == 0);
    *link = p->next;
    fast__mutex_unlock(&check->lock);
    fast__pages_free(p, (int64_t)(p->size + 2 * p->page));
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
    if (access == FAST_ACCESS_WRITE)
        fast__vector_fill(count, NAN, at);
    return at;
}

static void check_unmap(const fast_device *device, float *at, int64_t count, fast_access access,
                        float *mapped)
{
    check_device *check = device->state;

    FAST_ASSERT(mapped == at);
    fast__mutex_lock(&check->lock);
    check_pages *p = find(check, at, count);
    int64_t *open = access == FAST_ACCESS_READ ? &p->readers : &p->writers;
    FAST_ASSERT(*open > 0);
    if (--*open == 0)
        protect(p);
    fast__mutex_unlock(&check->lock);
}

fast_err fast__device_check_open(const fast_device **out)
{
    check_device *check = NULL;

    FAST_TRY(fast__alloc("the device check", 1, sizeof *check, &check));
    check->device = (fast_device){ .name = "check",
                                   .state = check,
                                   .alloc = check_alloc,
                                   .free = check_free,
                                   .map = check_map,
                                   .unmap = check_unmap };
    fast__mutex_init(&check->lock);
    *out = &check->device;
    return FAST_OK;
}

void fast__device_check_close(const fast_device *device)
{
    if (!device)
        return;
    check_device *check = device->state;
    FAST_ASSERT(check->pages == NULL);
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
