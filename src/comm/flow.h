/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/shadow.h"
#include "comm/coded.h"
#include "fast/trainer.h"

/* Flows of vectors in messages of a strategy's own; flow.c says how. */

/* Those of one actor. All 0: none yet. */
typedef struct fast_flows {
    fast_flow *list;          /* in the order in which they were asked for */
    fast_shadows *shadows[2]; /* of all values, by direction; NULL: none yet */
    int64_t phase;            /* the caller's: whose they are */
} fast_flows;

/* The flow of these options, made if there is none. `o` says how chains are laid over the model;
 * its rank is the actor's number, and its figures are counted in. FAST_EINVAL for what does not go
 * together, FAST_ENOMEM. */
fast_err fast__flows_get(fast_flows *flows, const fast_coded_options *o,
                         const fast_flow_options *options, fast_flow **out);
/* Free them all. */
void fast__flows_drop(fast_flows *flows);
/* All that they owe and hold, as records of this kind; take one of them over, into its flow, which
 * is made: FAST_EFORMAT if it makes no sense, FAST_ENOMEM. */
void fast__flows_pack(const fast_flows *flows, fast_pack *pack, int64_t kind);
fast_err fast__flows_unpack(fast_flows *flows, const fast_coded_options *o,
                            const fast_record *record);
/* Refuse a chain that makes no sense, for changes, for values or for raw ones: FAST_EINVAL. */
fast_err fast__flow_check(const fast_chain *chain, bool values, bool raw);

/* Changes: what the sender still owes, the residual of error feedback; NULL: none. */
const float *fast__flow_owed(const fast_flow *flow);

/* As fast_trainer_encode(), fast_trainer_decode() and fast_trainer_follow(). */
fast_err fast__flow_encode(fast_flow *flow, fast_actor *actor, int64_t step, double progress,
                           const float *x, uint8_t *out, size_t *size_out);
fast_err fast__flow_decode(fast_flow *flow, fast_actor *actor, const uint8_t *in, size_t size,
                           float scale, float *y);
fast_err fast__flow_follow(fast_flow *flow, fast_actor *actor, const uint8_t *in, size_t size,
                           const float **out);
