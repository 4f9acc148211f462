/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/byte_reader.h"

/* Open member `name`, or `name`.npy, of a zip file in memory, which is borrowed until the reader is
 * closed, as are `file` and `name`. FAST_EINVAL if there is no such member: the detail lists the
 * existing ones. */
fast_err fast__zip_open(const char *file, const void *bytes, size_t size, const char *name,
                        fast_byte_reader *out);
