/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/strategy.h"

/*
 * What strategies without a centre share: a replica in a message, its mixing into another, random
 * neighbours, and the end, when what is still on its way is taken in.
 *
 * A replica's message holds, in one buffer, the weights of all contributions (one double for each
 * worker), the state, where t->mixes_rule_state the rule's, and last the parameters or a gradient: the
 * floats, or what a flow made of them. Its words: the sender's step, its mass, one of the
 * strategy's own, how much of a difference is taken, and whether the receiver's next message must
 * have everything.
 */
enum {
    FAST_REPLICA_STEP,
    FAST_REPLICA_MASS,
    FAST_REPLICA_OWN,
    FAST_REPLICA_GAMMA,
    FAST_REPLICA_ANEW
};

/* Tags of these strategies' messages. */
enum { FAST_TAG_MODEL = 1, FAST_TAG_ASK, FAST_TAG_REPLY };

/* A copy of x (parameters or a gradient, t->count floats), through the flow if there is one, and
 * the rest, in a frozen buffer of its own: the first *size_out bytes of it. */
fast_err fast__replica_pack(fast_trainer *t, fast_flow *flow, const float *x, fast_buffer **out,
                            size_t *size_out);
/* v becomes scale v. Through a codec that loses something it becomes scale of the values that
 * receivers decode, so that replicas which take the same gradients stay equal. */
fast_err fast__replica_as_sent(fast_trainer *t, fast_flow *flow, fast_buffer *buffer, size_t size,
                               float scale, fast_vector v);
/* A message of it; the buffer stays the caller's too. */
fast_err fast__replica_msg(fast_trainer *t, uint64_t tag, double mass, fast_buffer *buffer,
                           size_t size, fast_msg **out);
/* What a replica's message that arrived holds; FAST_EFORMAT if it is none. */
typedef struct fast_replica {
    const double *shares; /* [workers] contributions of x */
    int64_t age;          /* as in fast_vector: -1 until the strategy sets it */
    const float *s;       /* [state_count] */
    const float *rule;    /* [slots][count] where t->mixes_rule_state */
    const float *x;       /* [count]; NULL where a flow was used */
    const void *coded;    /* then: what it made of x ... */
    size_t coded_size;    /* ... in so many bytes */
} fast_replica;
fast_err fast__replica_open(fast_trainer *t, bool coded, const fast_msg *msg, fast_replica *out);
double fast__replica_mass(const fast_msg *msg);

/* x with its contributions and age. */
fast_vector fast__replica_vector(const fast_replica *model);
/* w <- keep w + take x, and the state, the rule's where it travels, and the contributions alike. */
fast_err fast__replica_mix(fast_trainer *t, double keep, const fast_replica *model, double take);
/* The same without w. */
fast_err fast__replica_mix_rest(fast_trainer *t, double keep, const fast_replica *model,
                                double take);

/* What becomes of the rule's state where models are mixed: options of strategies. */
typedef enum fast_rule_state {
    FAST_RULE_LOCAL,   /* each worker keeps its own */
    FAST_RULE_RESET,   /* begins anew */
    FAST_RULE_AVERAGE, /* is mixed like the weights */
} fast_rule_state;
#define FAST_RULE_STATES "local|reset|average"
#define FAST_RULE_STATES_HELP \
    "the rule's state at an exchange: kept by each worker, begun anew, or mixed like the weights"

/* Memory for a list of neighbours at a step. */
typedef struct fast_neighbours {
    int64_t *ranks;  /* [degree_max], at least 2 */
    double *weights; /* likewise */
    double self;     /* what is kept of one's own */
    int64_t count;   /* of them at the step */
} fast_neighbours;
fast_err fast__neighbours_init(const fast_trainer *t, fast_neighbours *out);
void fast__neighbours_fini(fast_neighbours *n);

/* A number in [0, 1) from the actor's stream. */
double fast__chance(fast_actor *actor);
/* One of those whom this worker sends to, drawn evenly from those that are up; -1: none is. */
int64_t fast__neighbour_pick(fast_trainer *t, fast_neighbours *n);

/* True if the failure is a peer's, not ours: it is down, or did not answer in time. */
bool fast__is_peers(fast_err err);

/* Take a message in; it is freed then, unless *move was taken and set to NULL. */
typedef fast_err fast_take_fn(void *ctx, fast_msg **move);

/* What an asynchronous worker does with messages of one tag, and who has said its last word. */
typedef struct fast_intake {
    fast_trainer *t;    /* whose */
    uint64_t tag;       /* of the messages */
    fast_take_fn *take; /* for each message with a part */
    void *ctx;          /* for take */
    bool *last;         /* [workers]: nothing more comes from them */
} fast_intake;
fast_err fast__intake_init(fast_trainer *t, uint64_t tag, fast_take_fn *take, void *ctx,
                           fast_intake *out);
void fast__intake_fini(fast_intake *in);

/* Take in all that has arrived; never waits. */
fast_err fast__intake_poll(fast_intake *in);
/* Wait for one message of an actor and take it in. As fast_receive(), with FAST_SOON. */
fast_err fast__intake_wait(fast_intake *in, int64_t from);
/* The end of an asynchronous worker: tell everyone that nothing more comes, and take in what they
 * still send until they say the same, or are gone. */
fast_err fast__intake_flush(fast_intake *in);
