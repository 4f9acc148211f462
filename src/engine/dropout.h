/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/* Compute the mask of one sample at a dropout node, which is given by its number in the whole
 * network: mask[i], of element first + i, is 0 with probability p, else 1 / (1 - p); first is not 0
 * where a shard has a part of the elements. `sample` is the position in the batch
 * of this pass; batch->ids gives its position in the global batch, so that masks do not depend on
 * how a batch is divided. */
void fast__dropout_mask(const fast_pass *pass, int node, int64_t sample, float p, int64_t first,
                        int64_t count, float *mask);
