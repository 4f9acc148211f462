/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"
#include "fast/comm.h"

/* Scales that the senders of a sum agree on, for codecs that share them (FAST_CODEC_SHARES). One
 * object for each member. */
typedef struct fast_scales fast_scales;

/* Make the scales of the layers of whole vectors, for a member of a group of `size`.
 * FAST_ENOMEM. */
fast_err fast__scales_new(const fast_coder_options *whole, int64_t size, fast_scales **out);
void fast__scales_free(fast_scales *scales); /* NULL is allowed */
/* Let a coder, of the range from `offset` on, encode by the scales of its layers; it must live as
 * long as the scales. FAST_ENOMEM. */
fast_err fast__scales_serve(fast_scales *scales, int64_t offset, fast_coder *coder);
/* Agree on the largest scale of each layer of x. A collective of the group. */
fast_err fast__scales_agree(fast_scales *scales, fast_group *group, const float *x,
                            int64_t deadline);
