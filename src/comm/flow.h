/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/coded.h"
#include "fast/trainer.h"

/* Flows of vectors in messages of a strategy's own; flow.c says how. One object at each end. */

/* `o` says how chains are laid over the model; its rank is the actor's number. The figures are the
 * caller's and outlive the flow. FAST_EINVAL for what does not go together, FAST_ENOMEM. */
fast_err fast__flow_new(const fast_coded_options *o, const fast_flow_options *options,
                        fast_coded_figures *figures, fast_flow **out);
void fast__flow_free(fast_flow *flow); /* NULL is allowed */
/* True if it is the flow that these options ask for. */
bool fast__flow_is(const fast_flow *flow, const fast_flow_options *options);
/* As fast_trainer_encode() and fast_trainer_decode(). */
fast_err fast__flow_encode(fast_flow *flow, fast_actor *actor, int64_t step, double progress,
                           const float *x, uint8_t *out, size_t *size_out);
fast_err fast__flow_decode(fast_flow *flow, fast_actor *actor, const uint8_t *in, size_t size,
                           float scale, float *y);
/* What the flow still owes, for checkpoints: as fast__coder_state(). */
float *fast__flow_state(fast_flow *flow, int64_t *count_out);

/* The next one in a list of flows; the list's own. */
fast_flow **fast__flow_next(fast_flow *flow);
