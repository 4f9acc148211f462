/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/device.h"

/*
 * The device `file`: vectors in a temporary file that has no name, for values that a process needs
 * seldom and has no memory for. The host computes on them as on its own, a vector or a range at a
 * time: the system reads pages when they are touched. When a mapping of many elements is closed its
 * pages are given back, and stay in the file.
 *
 * Vectors are zero at first and take room on disk when it is reserved. One file is opened with the
 * size of all vectors; memory of vectors that are freed is not used again.
 */

/* Open a device for `bytes` of vectors, in $TMPDIR or else /var/tmp. FAST_EIO, FAST_ENOMEM. */
fast_err fast__device_file_open(int64_t bytes, const fast_device **out);
/* Close it and remove the file; NULL is allowed. */
void fast__device_file_close(const fast_device *device);

/* Take room on disk for a range of a vector, which may be written then. FAST_EIO where the disk is
 * full. */
fast_err fast__device_file_reserve(const fast_device *device, const float *at, int64_t count);
/* Give the memory of all pages back, also of those that small mappings have touched. */
void fast__device_file_flush(const fast_device *device);
