/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Devices and views: where vectors live, and how code that must not read them passes them on.
 *
 *     view     address, count and device of a vector of floats; passed by value, owns nothing
 *     kernel   a function of tensor/ (view.h), a codec or an update rule: the only code that reads
 *              or writes elements
 *     copy     moves elements between devices; nothing else does
 *
 * Everything above those folders allocates views, cuts them, passes them to kernels and copies
 * them, and never dereferences `at`. The device `check` (device_check.h) proves it: its pages are
 * inaccessible outside kernels.
 *
 * A new device implements alloc, free, map and unmap; every kernel then works, by way of memory
 * that the host can address. Its own kernels, and its own copy, make it fast.
 */
typedef struct fast_device fast_device;

typedef struct fast_view {
    float *at;                 /* first element, an address of the device; NULL: no vector */
    int64_t count;             /* elements */
    const fast_device *device; /* owner of the memory; NULL only where `at` is NULL */
} fast_view;

/* How host code uses mapped elements. */
typedef enum fast_access {
    FAST_ACCESS_READ = 1,   /* reads them */
    FAST_ACCESS_WRITE = 2,  /* writes every one of them, and reads none before that */
    FAST_ACCESS_UPDATE = 3, /* reads and writes */
} fast_access;

/* Kernels of a device, on its own addresses; tensor/vector.h has what each computes. */
typedef struct fast_device_kernels {
    void (*fill)(const fast_device *device, int64_t n, float a, float *y);
    void (*scale)(const fast_device *device, int64_t n, float a, float *y);
    void (*add)(const fast_device *device, int64_t n, const float *x, float *y);
    void (*axpy)(const fast_device *device, int64_t n, float a, const float *x, float *y);
    void (*axpby)(const fast_device *device, int64_t n, float a, const float *x, float b, float *y);
    void (*mix)(const fast_device *device, int64_t n, float a, const float *x, float *y);
    void (*difference)(const fast_device *device, int64_t n, float a, const float *x, float *y);
    double (*dot)(const fast_device *device, int64_t n, const float *x, const float *y);
    double (*norm2)(const fast_device *device, int64_t n, const float *x);
    float (*max_abs)(const fast_device *device, int64_t n, const float *x);
} fast_device_kernels;

/* The contract. Operations may be called by several threads at once; none but alloc fails. */
struct fast_device {
    const char *name; /* "host", "check" */
    void *state;      /* the device's own; NULL for the host */

    /* All or none: NULL lets the host's kernels compute on mapped memory. */
    const fast_device_kernels *kernels;

    /* Allocate `count` floats, zeroed, aligned to FAST_ALIGN. FAST_ENOMEM; `what` names them. */
    fast_err (*alloc)(const fast_device *device, const char *what, int64_t count, float **out);
    /* Free what alloc gave, with the same count. */
    void (*free)(const fast_device *device, float *at, int64_t count);

    /* Return an address at which the host has the elements until unmap(), which takes the same
     * arguments. Several mappings of one vector may be open. A device whose memory the host cannot
     * address copies to and from memory that it took in alloc. NULL: `at` is such an address. */
    float *(*map)(const fast_device *device, float *at, int64_t count, fast_access access);
    void (*unmap)(const fast_device *device, float *at, int64_t count, fast_access access,
                  float *mapped);

    /* Copy between this device and itself or the host; the counts are equal. NULL: the host copies
     * mapped memory. */
    void (*copy)(const fast_device *device, fast_view from, fast_view to);
};

/* The memory of this process. */
extern const fast_device fast__host;

/* View `count` floats of the host's, borrowed. The second form is for kernels' inputs: a function
 * that gets such a view must not write. */
static inline fast_view fast__view_host(float *at, int64_t count)
{
    return (fast_view){ at, count, &fast__host };
}

static inline fast_view fast__view_input(const float *at, int64_t count)
{
    return (fast_view){ (float *)(uintptr_t)at, count, &fast__host };
}

/* Allocate a vector of zeros on a device. FAST_ENOMEM; *out is set only on success. */
fast_err fast__view_new(const fast_device *device, const char *what, int64_t count, fast_view *out);
/* Free a vector of fast__view_new() and empty the view; an empty view is allowed. */
void fast__view_free(fast_view *view);

/* Return elements [offset, offset + count) of a view. */
static inline fast_view fast__view_slice(fast_view view, int64_t offset, int64_t count)
{
    FAST_ASSERT(offset >= 0 && count >= 0);
    FAST_ASSERT(count <= view.count - offset);
    return (fast_view){ view.at ? view.at + offset : NULL, count, view.device };
}

/* Copy a vector to another of the same count, on any two devices. They do not overlap. */
void fast__view_copy(fast_view from, fast_view to);

/* Open a view to the host, and close it again with the same access: the bracket of kernels that
 * are written for the host. Only tensor/, codecs, rules and engines call these. Costs nothing on
 * the host. The views of a bracket are on one device, or on this one and the host. */
static inline float *fast__view_map(fast_view view, fast_access access)
{
    return view.count > 0 && view.device->map
               ? view.device->map(view.device, view.at, view.count, access)
               : view.at;
}

static inline void fast__view_unmap(fast_view view, fast_access access, float *mapped)
{
    if (view.count > 0 && view.device->map)
        view.device->unmap(view.device, view.at, view.count, access, mapped);
}
