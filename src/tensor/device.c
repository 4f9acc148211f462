/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host as a device, and the table of all other devices by their ranges of addresses.
 *
 * The table is used only while it is not empty. A thread that has an address of a device got it
 * after the device was added, so it sees the device's entry; the lock lets other threads add and
 * remove devices meanwhile.
 */
#include "tensor/device.h"

#include "base/memory.h"
#include "base/thread.h"

/* A range of addresses and its device. */
typedef struct device_range {
    uintptr_t begin;           /* first address */
    uintptr_t end;             /* first address behind it */
    const fast_device *device; /* borrowed until it is removed */
} device_range;

static fast_mutex lock = { PTHREAD_MUTEX_INITIALIZER }; /* guards `ranges` */
static device_range ranges[FAST_DEVICES_MAX];           /* the first fast__device_count are used */
atomic_int fast__device_count;

static fast_err host_alloc(const fast_device *device, const char *what, int64_t count, float **out)
{
    (void)device;
    return fast__alloc(what, count, sizeof **out, out);
}

static void host_free(const fast_device *device, float *at)
{
    (void)device;
    fast__free(at);
}

const fast_device fast__host = {
    .name = "host",
    .alloc = host_alloc,
    .free = host_free,
};

fast_err fast__device_add(const fast_device *device, const void *begin, size_t size)
{
    const uintptr_t at = (uintptr_t)begin;

    FAST_ASSERT(device->map && device->unmap);
    fast__mutex_lock(&lock);
    const int count = atomic_load(&fast__device_count);
    if (count < FAST_DEVICES_MAX) {
        ranges[count] = (device_range){ at, at + size, device };
        atomic_store(&fast__device_count, count + 1);
    }
    fast__mutex_unlock(&lock);
    return count < FAST_DEVICES_MAX
               ? FAST_OK
               : fast__fail(FAST_ENOMEM, "there are %d devices already", FAST_DEVICES_MAX);
}

void fast__device_remove(const fast_device *device)
{
    fast__mutex_lock(&lock);
    const int last = atomic_load(&fast__device_count) - 1;
    int i = 0;
    while (i <= last && ranges[i].device != device)
        i++;
    FAST_ASSERT(i <= last);
    ranges[i] = ranges[last];
    atomic_store(&fast__device_count, last);
    fast__mutex_unlock(&lock);
}

const fast_device *fast__device_find(const void *at)
{
    const uintptr_t address = (uintptr_t)at;
    const fast_device *device = &fast__host;

    fast__mutex_lock(&lock);
    for (int i = 0; i < atomic_load(&fast__device_count); i++)
        if (address >= ranges[i].begin && address < ranges[i].end)
            device = ranges[i].device;
    fast__mutex_unlock(&lock);
    return device;
}

fast_err fast__vector_new(const fast_device *device, const char *what, int64_t count, float **out)
{
    FAST_ASSERT(device != NULL);
    FAST_ASSERT(count >= 0);
    return device->alloc(device, what, count, out);
}

void fast__vector_free(float *at)
{
    const fast_device *device = fast__device_of(at);

    device->free(device, at);
}

void *fast__device_map(const void *at, int64_t count, fast_access access)
{
    const fast_device *device = fast__device_find(at);
    float *x = (float *)(uintptr_t)at;

    return device->map && count > 0 ? device->map(device, x, count, access) : x;
}

void fast__device_unmap(const void *at, int64_t count, fast_access access)
{
    const fast_device *device = fast__device_find(at);

    if (device->unmap && count > 0)
        device->unmap(device, (float *)(uintptr_t)at, count, access);
}

void fast__device_run(fast_host_fn *run, const void *ctx, int64_t n, int count, int written,
                      float *const *x)
{
    float *mapped[FAST_HOST_VECTORS] = { NULL };

    FAST_ASSERT(written >= 0 && written <= count && count <= FAST_HOST_VECTORS);
    if (!fast__devices_exist()) {
        run(ctx, n, x);
        return;
    }
    for (int i = 0; i < count; i++)
        mapped[i] = fast__map(x[i], n, i < written ? FAST_ACCESS_UPDATE : FAST_ACCESS_READ);
    run(ctx, n, mapped);
    for (int i = 0; i < count; i++)
        fast__unmap(x[i], n, i < written ? FAST_ACCESS_UPDATE : FAST_ACCESS_READ);
}
