/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device `file`. One mapping of the whole file, shared with the page cache, from which vectors
 * take ranges one after the other, at pages of their own:
 *
 *     | vector 0      |pad| vector 1 |pad|        not taken yet        |
 *
 * A mapping of elements needs no call: they have their addresses. To close one of at least DROP
 * bytes gives its pages back: their contents are the page cache's, which the system writes to disk
 * and evicts as it needs memory. A page that another thread still uses is mapped again when it is
 * touched.
 *
 * A write to a page for which the disk has no room would end the process, so ranges are reserved
 * before they are written.
 */
#include "tensor/device_file.h"

#include "base/memory.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DROP = 1 << 20 };

typedef struct file_device {
    fast_device device; /* the contract; its state is this */
    fast_mutex lock;    /* guards used */
    int fd;             /* of the file */
    char *space;        /* its mapping */
    int64_t size;       /* bytes of the mapping, whole pages */
    int64_t used;       /* bytes that vectors have taken */
} file_device;

static int64_t page_size(void)
{
    return (int64_t)sysconf(_SC_PAGESIZE);
}

static int64_t whole_pages(int64_t bytes)
{
    return (bytes + page_size() - 1) / page_size() * page_size();
}

static fast_err file_alloc(const fast_device *device, const char *what, int64_t count, float **out)
{
    file_device *file = device->state;
    int64_t bytes = 0;
    char *at = NULL;

    if (!fast__mul_size(count, (int64_t)sizeof(float), &bytes) || bytes > file->size)
        return fast__fail(FAST_ENOMEM, "%s: %lld elements are too many", what, (long long)count);
    fast__mutex_lock(&file->lock);
    if (whole_pages(bytes) <= file->size - file->used) {
        at = file->space + file->used;
        file->used += whole_pages(bytes);
    }
    fast__mutex_unlock(&file->lock);
    if (!at)
        return fast__fail(FAST_ENOMEM, "no room for %s in the file of the model", what);
    *out = (float *)(void *)at;
    return FAST_OK;
}

/* The file is freed as a whole. */
static void file_free(const fast_device *device, float *at)
{
    const file_device *file = device->state;

    FAST_ASSERT((char *)at >= file->space && (char *)at < file->space + file->size);
    (void)file;
}

static float *file_map(const fast_device *device, float *at, int64_t count, fast_access access)
{
    FAST_ASSERT(device->state != NULL && count >= 0);
    (void)access;
    return at;
}

static void file_unmap(const fast_device *device, float *at, int64_t count, fast_access access)
{
    const uintptr_t page = (uintptr_t)page_size(), from = (uintptr_t)at / page * page;
    const uintptr_t end = ((uintptr_t)(at + count) + page - 1) / page * page;

    FAST_ASSERT(device->state != NULL);
    (void)access;
    if (count * (int64_t)sizeof *at >= DROP)
        madvise((void *)from, end - from, MADV_DONTNEED);
}

/* Make a file that nobody else can open, in a folder. Returns its descriptor, or -1. */
static int open_unnamed(const char *folder)
{
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/fast-model-XXXXXX", folder);

    if (length < 0 || (size_t)length >= sizeof path)
        return -1;
    const int fd = mkstemp(path);
    if (fd >= 0) {
        unlink(path);
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return fd;
}

/* Map the file and let its addresses be the device's. */
static fast_err map_file(file_device *file, const char *folder)
{
    if (ftruncate(file->fd, file->size) != 0)
        return fast__fail(FAST_EIO, "a file of %lld bytes in %s: %s", (long long)file->size, folder,
                          strerror(errno));
    void *space = mmap(NULL, (size_t)file->size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    if (space == MAP_FAILED)
        return fast__fail(FAST_ENOMEM, "no addresses for a file of %lld bytes",
                          (long long)file->size);
    file->space = space;
    const fast_err err = fast__device_add(&file->device, space, (size_t)file->size);
    if (err) {
        munmap(space, (size_t)file->size);
        file->space = NULL;
    }
    return err;
}

fast_err fast__device_file_open(int64_t bytes, const fast_device **out)
{
    const char *set = getenv("TMPDIR"), *folder = set && set[0] ? set : "/var/tmp";
    enum { VECTORS_MAX = 16 }; /* each ends with a part of a page */
    file_device *file = NULL;

    FAST_ASSERT(bytes >= 0 && out != NULL);
    FAST_TRY(fast__alloc("a device", 1, sizeof *file, &file));
    file->size = whole_pages(bytes) + VECTORS_MAX * page_size();
    file->device = (fast_device){ .name = "file",
                                  .state = file,
                                  .alloc = file_alloc,
                                  .free = file_free,
                                  .map = file_map,
                                  .unmap = file_unmap };
    file->fd = open_unnamed(folder);
    fast_err err = file->fd < 0 ? fast__fail(FAST_EIO,
                                             "cannot make a file for the model in %s: %s; set "
                                             "TMPDIR",
                                             folder, strerror(errno))
                                : map_file(file, folder);
    if (err) {
        if (file->fd >= 0)
            close(file->fd);
        fast__free(file);
        return err;
    }
    fast__mutex_init(&file->lock);
    *out = &file->device;
    return FAST_OK;
}

void fast__device_file_close(const fast_device *device)
{
    if (!device)
        return;
    file_device *file = device->state;

    FAST_ASSERT(file->space != NULL);
    fast__device_remove(device);
    munmap(file->space, (size_t)file->size);
    close(file->fd);
    fast__mutex_fini(&file->lock);
    fast__free(file);
}

fast_err fast__device_file_reserve(const fast_device *device, const float *at, int64_t count)
{
    const file_device *file = device->state;
    const int64_t offset = (const char *)at - file->space;
    const int64_t bytes = count * (int64_t)sizeof *at;

    FAST_ASSERT(offset >= 0 && offset + bytes <= file->size);
    const int failed = bytes > 0 ? posix_fallocate(file->fd, offset, bytes) : 0;
    return failed ? fast__fail(FAST_EIO,
                               "no room for %lld bytes of the model in the folder of temporary "
                               "files: %s; set TMPDIR",
                               (long long)bytes, strerror(failed))
                  : FAST_OK;
}

void fast__device_file_flush(const fast_device *device)
{
    const file_device *file = device->state;

    FAST_ASSERT(file->space != NULL);
    madvise(file->space, (size_t)file->size, MADV_DONTNEED);
}
