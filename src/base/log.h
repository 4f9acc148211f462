/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/fast.h"

/* Log one line through the callback of fast_log_set(). [any thread] */
void fast__log(fast_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
