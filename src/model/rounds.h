/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/round_op.h"
#include "learner/learner.h"

/* The rounds of a section (engine/round_op.h) of a learner of a stage: blocks and their gradients,
 * for several micro-batches in flight. */
typedef struct fast_rounds fast_rounds;

/* The arguments that all rounds have in common; pointers are borrowed. */
typedef struct fast_rounds_options {
    const fast_round_op *op; /* the operator */
    const fast_graph *graph; /* of the section */
    int64_t samples;         /* of a micro-batch */
    int64_t shards, shard;   /* T and t */
    int64_t slots;           /* micro-batches in flight */
} fast_rounds_options;

/* FAST_ENOMEM. */
fast_err fast__rounds_new(const fast_rounds_options *options, fast_rounds **out);
void fast__rounds_free(fast_rounds *rounds); /* NULL is allowed */
/* Return the bytes of memory of one micro-batch in flight. */
int64_t fast__rounds_bytes(const fast_rounds_options *options);

int64_t fast__rounds_count(const fast_rounds *rounds); /* number of rounds */
/* Compute a round of the micro-batch in a slot. The call has x, w and y, backward dy, dx and dw
 * too; the rest is filled in. Returns the operations spent. */
double fast__rounds_run(fast_rounds *rounds, int64_t slot, bool backward, fast_round_call *call);
/* The move of a visitor's blocks from this round to the next one of the pass; false: none. */
bool fast__rounds_move(const fast_rounds *rounds, int64_t slot, bool backward, int visitor,
                       fast_stage_exchange *out);
