/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Bytes that nobody can guess, from the system: for tokens. Nothing that trains may use them.
 * FAST_EIO if the system gives none. `size` is at most 256. */
fast_err fast__system_random(void *bytes, size_t size);
