/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/segment.h"

/*
 * safetensors: u64 little-endian header length, a JSON object {"name": {"dtype", "shape",
 * "data_offsets"}, "__metadata__": {text: text}}, then the bytes. Reading is strict: header at most
 * 100 MB and inside the file, no duplicate names, no holes, no overlaps, sizes that agree, no
 * nesting beyond the format's own. Little-endian hosts only.
 */
typedef struct fast_tensors fast_tensors; /* a file, read whole */

enum { FAST_TENSOR_RANK_MAX = 8 };

typedef struct fast_tensor {
    const char *name;                    /* unique in its file */
    fast_dtype dtype;                    /* of its elements */
    int rank;                            /* dimensions */
    int64_t shape[FAST_TENSOR_RANK_MAX]; /* row major */
    int64_t count;                       /* product of shape */
    const void *data;                    /* aligned to 1 only */
} fast_tensor;

/* The bytes of its elements. */
size_t fast__tensor_size(const fast_tensor *tensor);

/* Read a file. FAST_ENOENT, FAST_EIO, FAST_EFORMAT. */
fast_err fast__tensors_open(const char *path, fast_tensors **out);
/* From memory, which is borrowed until close. For fuzzing and embedded files. */
fast_err fast__tensors_parse(const void *bytes, size_t size, fast_tensors **out);
void fast__tensors_close(fast_tensors *tensors);

int64_t fast__tensors_count(const fast_tensors *tensors);
const fast_tensor *fast__tensors_at(const fast_tensors *tensors, int64_t i); /* file order */
const fast_tensor *fast__tensors_find(const fast_tensors *tensors, const char *name); /* or NULL */
const char *fast__tensors_meta(const fast_tensors *tensors, const char *key);         /* or NULL */

/* Replace tensor i, but for its name: its data, of fast__alloc(), is owned by the file then.
 * FAST_ENOMEM: nothing is changed. */
fast_err fast__tensors_replace(fast_tensors *tensors, int64_t i, const fast_tensor *with);

/* Write tensors and metadata (pairs key, value, ..., NULL) atomically (fast__file_replace). */
fast_err fast__tensors_save(const char *path, const fast_tensor *tensors, int64_t count,
                            const char *const *meta);
