/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include <stdatomic.h>

/*
 * Devices: where vectors live. A vector is its first address and a count everywhere; the address
 * identifies the device, so that slices stay pointer arithmetic and no contract mentions devices.
 *
 *     vector   floats at an address of the host or of a device
 *     kernel   a function of tensor/ (vector.h, sum.h, race.h, ...), a codec, an update rule, an
 *              engine or the run() of a fast_kernel: the only code that reads or writes elements
 *
 * Everything else allocates vectors, passes addresses to kernels and copies by fast__vector_copy(),
 * and dereferences none. The device `check` (device_check.h) proves it: its pages are inaccessible
 * outside kernels. Arguments of a kernel may be on different devices: messages are host memory.
 *
 * A new device implements alloc, free, map and unmap and adds its range of addresses; every kernel
 * then works, by way of memory that the host can address. Its own kernels, and its own copy, make
 * it fast. While no device but the host exists, a kernel costs one load and one branch more.
 */
typedef struct fast_device fast_device;

/* How host code uses mapped elements. */
typedef enum fast_access {
    FAST_ACCESS_READ = 1,   /* reads them */
    FAST_ACCESS_WRITE = 2,  /* writes every one of them, and reads none before that */
    FAST_ACCESS_UPDATE = 3, /* reads and writes */
} fast_access;

/* Kernels of a device, on its own addresses; tensor/vector.h has what each computes. */
typedef struct fast_device_kernels {
    void (*copy)(const fast_device *device, int64_t n, const float *x, float *y);
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

    /* Used where all vectors of a call are on the device. All or none: NULL lets the host's kernels
     * compute on mapped memory. */
    const fast_device_kernels *kernels;

    /* Allocate `count` floats, zeroed, aligned to FAST_ALIGN. FAST_ENOMEM; `what` names them. */
    fast_err (*alloc)(const fast_device *device, const char *what, int64_t count, float **out);
    /* Free memory of alloc. */
    void (*free)(const fast_device *device, float *at);

    /* Return an address at which the host has the elements until unmap(), which takes the same
     * arguments. Several mappings of one vector may be open, and all have the same address. A
     * device whose memory the host cannot address copies to and from memory that it took in alloc.
     * NULL for the host alone. */
    float *(*map)(const fast_device *device, float *at, int64_t count, fast_access access);
    void (*unmap)(const fast_device *device, float *at, int64_t count, fast_access access);
};

/* The memory of this process. */
extern const fast_device fast__host;

/* Let addresses [begin, begin + size) be those of a device, until it is removed. FAST_ENOMEM if
 * there are FAST_DEVICES_MAX. */
enum { FAST_DEVICES_MAX = 16 };
fast_err fast__device_add(const fast_device *device, const void *begin, size_t size);
void fast__device_remove(const fast_device *device);

extern atomic_int fast__device_count; /* devices besides the host; written in device.c */

/* True if any address may be of another device than the host. */
static inline bool fast__devices_exist(void)
{
    return __builtin_expect(atomic_load_explicit(&fast__device_count, memory_order_relaxed) > 0, 0);
}

/* Return the device whose range the address is in; the host for all others. */
const fast_device *fast__device_find(const void *at);
static inline const fast_device *fast__device_of(const void *at)
{
    return fast__devices_exist() ? fast__device_find(at) : &fast__host;
}

/* Allocate a vector of `count` zeros on a device, aligned to FAST_ALIGN. FAST_ENOMEM; `what` names
 * the vector in the detail. */
fast_err fast__vector_new(const fast_device *device, const char *what, int64_t count, float **out);
/* Free a vector of fast__vector_new(); NULL is allowed. */
void fast__vector_free(float *at);

/* Open `count` floats to the host, and close them with the same arguments: the bracket of kernels
 * that are written for the host. Only tensor/, codecs, rules, engines, learners and the trainer's
 * kernels call these. Host addresses are returned as they are. */
void *fast__device_map(const void *at, int64_t count, fast_access access);
void fast__device_unmap(const void *at, int64_t count, fast_access access);

/* Run a function that is written for the host on `count` vectors of n floats each, which are mapped
 * around it; it changes the first `written` of them. */
typedef void fast_host_fn(const void *ctx, int64_t n, float *const *x);
enum { FAST_HOST_VECTORS = 8 }; /* count at most */
void fast__device_run(fast_host_fn *run, const void *ctx, int64_t n, int count, int written,
                      float *const *x);

static inline void *fast__map(const void *at, int64_t count, fast_access access)
{
    return fast__devices_exist() ? fast__device_map(at, count, access) : (void *)(uintptr_t)at;
}

static inline void fast__unmap(const void *at, int64_t count, fast_access access)
{
    if (fast__devices_exist())
        fast__device_unmap(at, count, access);
}
