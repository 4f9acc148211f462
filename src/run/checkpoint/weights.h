/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/run.h"
#include "tensor/segment.h"

/*
 * Files of weights: the tensors of a run's vectors, by name.
 */
struct fast_tensors;
enum {
    FAST_SLOT_PREFIX_MAX = 32,
    FAST_TENSOR_NAME_MAX = FAST_SLOT_PREFIX_MAX + FAST_SEGMENT_NAME_MAX
};
/* Write the prefix of the tensors' names of a slot of the optimizer's state. */
void fast__weights_slot_prefix(int slot, char prefix[FAST_SLOT_PREFIX_MAX]);
/* Contents of a file of weights: parameters, the first `slots` slots of the optimizer, state. The
 * tensors' data is the run's. */
typedef struct fast_weights {
    struct fast_tensor *tensors;         /* in the order of the file */
    char (*names)[FAST_TENSOR_NAME_MAX]; /* names of the tensors */
    int64_t count;                       /* number of tensors */
} fast_weights;
fast_err fast__weights_list(const fast_run *run, int slots, fast_weights *out);
/* Append the segments of a layout, over `vector`, for which there is room; `prefix` goes before
 * their names. */
void fast__weights_add(fast_weights *weights, const fast_layout *layout, const float *vector,
                       const char *prefix);
#define FAST_BEST_PREFIX "best/" /* before the names of the best model's tensors */
void fast__weights_fini(fast_weights *weights);
/* Check that `tensors` has every segment of the layout, with its shape, under prefix + name. */
fast_err fast__weights_check(const char *path, const struct fast_tensors *tensors,
                             const fast_layout *layout, const char *prefix);
/* Check that every value of the layout's segments, which are there, is finite as a float. */
fast_err fast__weights_check_finite(const char *path, const struct fast_tensors *tensors,
                                    const fast_layout *layout);
/* Copy them, checked before, into `vector`, converted where they are not F32. */
void fast__weights_copy(const struct fast_tensors *tensors, const fast_layout *layout,
                        const char *prefix, float *vector);
