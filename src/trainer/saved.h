/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/pack.h"
#include "fast/fast.h"

/*
 * The saved state of one worker or server: records (base/pack.h) that hold all that it needs to
 * continue to the bit.
 */
struct fast_context;

/* Kinds of records. Their numbers within a kind: of the rule's vector, of the memory block, of the
 * coder, the flow, the space; else 0. The values are part of the checkpoints' format. */
enum {
    FAST_SAVED_NUMBERS = 1, /* of the host, which packs and loads them itself */
    FAST_SAVED_WEIGHTS,
    FAST_SAVED_STATE,
    FAST_SAVED_RULE,
    FAST_SAVED_CONTRIBUTIONS,
    FAST_SAVED_BLOCK,
    FAST_SAVED_SUM,
    FAST_SAVED_FLOW,
    FAST_SAVED_SPACE,
    FAST_SAVED_STREAM, /* of the host, in a snapshot (transport/saved_actor.h) */
    FAST_SAVED_MESSAGE /* of the host, in a snapshot (transport/saved_actor.h) */
};

/* How much of an actor is saved. */
typedef enum fast_saved_extent {
    FAST_SAVE_NONE, /* nothing: the run's model is enough */
    FAST_SAVE_SUMS, /* residuals of its sums: replicas are equal */
    FAST_SAVE_RULE, /* the rule's state: between two phases */
    FAST_SAVE_ALL,  /* everything: replicas differ */
    FAST_SAVE_CUT   /* everything, and the state of programs that run: a snapshot */
} fast_saved_extent;

/* Memory for saved state. All 0, but for the step: empty. */
typedef struct fast_saved {
    uint8_t *bytes; /* the records; NULL: none yet */
    size_t size;    /* bytes used */
    size_t room;    /* bytes allocated */
    int64_t step;   /* at which it was saved; -1: never */
} fast_saved;

/* Make its size this many bytes, whose contents are then undefined. FAST_ENOMEM. */
fast_err fast__saved_reserve(fast_saved *saved, size_t size);

/* Add the records of a context; of a rule's vector only the range between its first and its last
 * number that is not 0. */
void fast__context_save(const struct fast_context *context, fast_saved_extent extent,
                        fast_pack *pack);
/* Add the records of a server's program that runs: of its rule, blocks and remembered memory. */
void fast__context_save_program(const struct fast_context *context, fast_pack *pack);
/* Replace that state, in its place, by the records of another server's program. FAST_EFORMAT. */
fast_err fast__context_load_program(struct fast_context *context, const void *bytes, size_t size);
/* Take over one record, of any kind but the host's. FAST_EFORMAT, FAST_ENOMEM. */
fast_err fast__context_load(struct fast_context *context, const fast_pack_record *record);
