/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Fill `bytes` with unpredictable bytes from the system, at most 256: for tokens. Training code
 * must not use it, or runs would not repeat. FAST_EIO if the system has none. */
fast_err fast__system_random(void *bytes, size_t size);
