/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/device.h"

/*
 * The device `check`: the host's memory, on pages that are inaccessible outside kernels. Suites run
 * on it prove that the code between kernels dereferences no vector:
 *
 *     a read or write outside a kernel                   SIGSEGV
 *     a write to a vector that was mapped for reading    SIGSEGV
 *     an access past the end of an allocation            SIGSEGV, from a multiple of 64 bytes on
 *     an access to freed memory                          SIGSEGV: addresses are not used again
 *     a kernel that writes less than FAST_ACCESS_WRITE   the rest is NaN
 *     a mapping past the end, or of freed memory         an assertion
 *
 * An allocation is open as a whole while a kernel of any thread has a part of it. Before the
 * process ends by SIGSEGV, one line on stderr names the vector and the element, and the functions
 * that led there follow.
 */

/* Open a device of its own. FAST_ENOMEM. */
fast_err fast__device_check_open(const fast_device **out);
/* Close it; every vector on it must have been freed. NULL is allowed. */
void fast__device_check_close(const fast_device *device);
/* Return how often memory was opened to kernels so far: for tests. */
int64_t fast__device_check_maps(const fast_device *device);
