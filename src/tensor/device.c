/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host as a device, and the memory of views on any device.
 *
 * The host has neither map nor kernels of its own: a view on it is an ordinary vector, and a call
 * through view.h is one comparison more than the call of the kernel. Copies between two devices
 * that do not know each other go through mapped memory of both.
 */
#include "tensor/device.h"

#include "base/memory.h"

#include <string.h>

static fast_err host_alloc(const fast_device *device, const char *what, int64_t count, float **out)
{
    (void)device;
    return fast__alloc(what, count, sizeof **out, out);
}

static void host_free(const fast_device *device, float *at, int64_t count)
{
    (void)device;
    (void)count;
    fast__free(at);
}

const fast_device fast__host = {
    .name = "host",
    .alloc = host_alloc,
    .free = host_free,
};

fast_err fast__view_new(const fast_device *device, const char *what, int64_t count, fast_view *out)
{
    float *at = NULL;

    FAST_ASSERT(device != NULL);
    FAST_ASSERT(count >= 0);
    FAST_TRY(device->alloc(device, what, count, &at));
    FAST_ASSERT(at != NULL);
    *out = (fast_view){ at, count, device };
    return FAST_OK;
}

void fast__view_free(fast_view *view)
{
    if (view->at)
        view->device->free(view->device, view->at, view->count);
    *view = (fast_view){ 0 };
}

void fast__view_copy(fast_view from, fast_view to)
{
    FAST_ASSERT(from.count == to.count);
    if (from.count == 0)
        return;
    const bool to_host = to.device == &fast__host;
    const fast_device *other = to_host ? from.device : to.device;
    if (other->copy && (to_host || from.device == &fast__host || from.device == to.device)) {
        other->copy(other, from, to);
        return;
    }
    const float *x = fast__view_map(from, FAST_ACCESS_READ);
    float *y = fast__view_map(to, FAST_ACCESS_WRITE);
    memcpy(y, x, (size_t)from.count * sizeof *y);
    fast__view_unmap(to, FAST_ACCESS_WRITE, y);
    fast__view_unmap(from, FAST_ACCESS_READ, (float *)(uintptr_t)x);
}
