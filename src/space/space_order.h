/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "space/space_state.h"

/* The order in which the ranges of the first tensor are sent in slices: space_order.c. */

/* Return the offset in an owner's range [low, low + size) of the float at a position of its sliced
 * answer, and in *count_out the floats that follow it without a gap. */
int64_t fast__space_order_at(const fast_space_order *order, int64_t low, int64_t size,
                             int64_t position, int64_t *count_out);
/* Return the number of floats of that answer. */
int64_t fast__space_order_size(const fast_space_order *order, int64_t low, int64_t size);
/* Copy `floats` of that answer, from a position on, between the owner's range and memory where they
 * lie one after the other. */
void fast__space_order_pack(const fast_space_order *order, int64_t low, int64_t size,
                            int64_t position, int64_t floats, const float *range, float *packed);
void fast__space_order_unpack(const fast_space_order *order, int64_t low, int64_t size,
                              int64_t position, int64_t floats, const float *packed, float *range);
/* Return the position in that answer by which all floats of [offset, offset + count) that the owner
 * holds have arrived; 0: it holds none of them. */
int64_t fast__space_order_end(const fast_space_order *order, int64_t low, int64_t size,
                              int64_t offset, int64_t count);
/* Take over the order of an ORDER message; one that makes no sense is refused. FAST_ENOMEM. */
fast_err fast__space_take_order(fast_space *space, const fast_msg *msg, fast_space_order *order);
/* Free it: the first floats come first again. */
void fast__space_order_free(fast_space_order *order);
