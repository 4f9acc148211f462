/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/conv.h"

/* Compute the gradient of the weights by sums over pixels and lanes, for every shape: dw is
 * overwritten. `scratch` has fast__conv_weights_scratch() floats. */
int64_t fast__conv_weights_scratch(const fast_conv_shape *shape);
void fast__conv_weights(const fast_conv_shape *shape, const float *x, const float *dy,
                        float *scratch, float *dw);
