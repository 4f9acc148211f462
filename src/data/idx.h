/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/make.h"

/* Read samples and their labels (integers) or targets (floats) from two IDX files. `classes` of 0
 * takes the largest label for the last class. Not checked and not normalised yet. */
fast_err fast__idx_read(const char *images, const char *labels, int64_t classes, fast_data **out);
