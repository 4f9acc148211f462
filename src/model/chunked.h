/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/staged.h"

/* The learner of a worker of a split model: its stages, of which it has several where a pipeline is
 * interleaved, behind one set of vectors. It has no gradient() of its own: a schedule of their
 * passes makes one (trainer/pipe.h). */
typedef struct fast_chunked_options {
    const fast_staged_options *chunks; /* in the order of the model, without vectors */
    int64_t count;                     /* at least 1 */
    fast_layout params;                /* of w and g: all chunks, one after the other */
    fast_layout state;                 /* of s: all chunks */
    const fast_device *device;         /* of w, g and s; NULL: the host */
} fast_chunked_options;

/* Make a learner without values. What the chunks borrow must outlive it. FAST_ENOMEM. */
fast_err fast__chunked_new(const fast_chunked_options *options, fast_learner **out);

/* Return the learners of its stages, in the order of the model; lent. */
fast_learner *const *fast__chunked_stages(const fast_learner *learner);
