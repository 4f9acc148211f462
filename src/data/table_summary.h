/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/table_fit.h"

/* Say in one line how a training file was understood: task, target, columns by kind, missing values
 * (numbers and dates, texts), columns and rows that are left out. The caller frees. FAST_ENOMEM. */
fast_err fast__table_summary(const fast_table_config *config, const fast_table_fit *fit,
                             const int64_t missing[2], char **out);
