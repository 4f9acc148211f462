/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/fast.h"

/* Log one line to whatever fast_log_set() was given. [any thread] */
void fast__log(fast_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
