/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/segment.h"

/* Weights that share their values (ties.c). */
typedef struct fast_ties fast_ties;

/* Tie elements of w, of the layout, that are equal in a segment, and fix those that are 0. w may be
 * on a device. FAST_ENOMEM. */
fast_err fast__ties_new(const fast_layout *layout, const float *w, fast_ties **out);
void fast__ties_free(fast_ties *ties); /* NULL is allowed */
/* Replace the gradient g, of the layout, by that of the shared values: the sum over all elements
 * that are tied, at each of them; 0 at fixed elements. */
void fast__ties_apply(fast_ties *ties, float *g);
