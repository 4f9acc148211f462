/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/shadow.h"
#include "comm/coded.h"
#include "fast/strategy.h"

/* Flows of vectors in messages of a strategy's own; flow.c says how. */

/* The flows of one actor. All 0: none yet. */
typedef struct fast_flows {
    fast_flow *list;          /* flows, in the order of their creation */
    fast_shadows *shadows[2]; /* shared by all flows of values, by direction; NULL: none yet */
    int64_t phase;            /* for the caller: the phase of the run that they belong to */
} fast_flows;

/* Find the flow of these options, or make it. `o` has the chains, the model's layout, the actor's
 * number as its rank, and the figures to count in. FAST_EINVAL for options that exclude each other,
 * FAST_ENOMEM. */
fast_err fast__flows_get(fast_flows *flows, const fast_coded_options *o,
                         const fast_flow_options *options, fast_flow **out);
/* Free them all. */
void fast__flows_drop(fast_flows *flows);
/* Save residuals and held values as records of this kind; restore one of them to its flow, which is
 * made: FAST_EFORMAT if it makes no sense, FAST_ENOMEM. */
void fast__flows_pack(const fast_flows *flows, fast_pack *pack, int64_t kind);
fast_err fast__flows_unpack(fast_flows *flows, const fast_coded_options *o,
                            const fast_pack_record *record);
/* Refuse a chain that cannot send changes, values or raw values: FAST_EINVAL. */
fast_err fast__flow_check(const fast_chain *chain, bool values, bool raw);

/* Return the sender's residual of error feedback; NULL if the flow has none. */
const float *fast__flow_residual(const fast_flow *flow);

/* Return whether the flow's encodings lie in a space of its codec. */
bool fast__flow_projects(const fast_flow *flow);
/* Replace x by its projection to the space of the flow's next encoding, which there is. */
void fast__flow_project(fast_flow *flow, float *x);

/* As fast_trainer_encode(), fast_trainer_decode() and fast_trainer_decode_values(). */
fast_err fast__flow_encode(fast_flow *flow, fast_actor *actor, int64_t step, double progress,
                           const float *x, uint8_t *out, size_t *size_out);
fast_err fast__flow_decode(fast_flow *flow, fast_actor *actor, const uint8_t *in, size_t size,
                           float scale, float *y);
fast_err fast__flow_follow(fast_flow *flow, fast_actor *actor, const uint8_t *in, size_t size,
                           const float **out);
