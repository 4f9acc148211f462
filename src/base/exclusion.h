/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"

/* Check a configuration against `rows`, which end with a row whose `when` is NULL. Return
 * FAST_EINVAL for the first row that is violated; the detail names both options with their values,
 * and the reason. A term that names no option, or a value that does not parse, is a bug. */
fast_err fast__exclusions_check(const char *where, const fast_option *options,
                                const fast_exclusion *rows, const void *config);
