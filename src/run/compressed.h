/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/run.h"

/*
 * Files of weights whose tensors are encoded by a chain of codecs (--save-codec).
 */

/* Encode the first `count` tensors by a chain; *out is memory that they borrow then. */
fast_err fast__compress(const char *spec, fast_weights *weights, int64_t count, uint8_t ***out);
void fast__compressed_free(uint8_t **bytes, int64_t count); /* NULL is allowed */
/* Decode the tensors of a compressed file; other files stay as they are. FAST_EFORMAT. */
fast_err fast__decompress(const char *path, struct fast_tensors *tensors);
