/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/strategy.h"

/*
 * Replicas in messages, for strategies without a centre: packing and mixing of replicas, random
 * neighbours, and the flush of messages in flight at the end.
 *
 * The message of a replica has one part: the contributions (a double for each counted worker), the
 * state that is not trained, the rule's state if t->mixes_rule_state, and the parameters or a
 * gradient, as floats or encoded by a flow. Its words are:
 */
enum {
    FAST_REPLICA_STEP,  /* the sender's step */
    FAST_REPLICA_MASS,  /* its mass, a double */
    FAST_REPLICA_OWN,   /* for the strategy */
    FAST_REPLICA_GAMMA, /* consensus step size of links.c, a double */
    FAST_REPLICA_RESYNC /* 1: the sender's copy is lost; the next message to it must be complete */
};

/* Tags of these strategies' messages. */
enum {
    FAST_TAG_MODEL = 1, /* a replica, or the last message of a worker */
    FAST_TAG_ASK,       /* a request for a replica */
    FAST_TAG_REPLY,     /* its reply */
    FAST_TAG_ARRIVED,   /* drain: all messages of the receiver have arrived */
    FAST_TAG_DRAINED,   /* drain: no message of the sender, or of anyone, is in flight */
    FAST_TAG_EDGES      /* probabilities of the receiver's edges */
};

/* Pack `count` floats, encoded if `flow` is not NULL, behind `head` bytes of a new buffer.
 * *size_out is the size of the packed floats. The caller fills the head and freezes the buffer. */
fast_err fast__floats_pack(fast_trainer *t, fast_flow *flow, size_t head, const float *x,
                           int64_t count, fast_buffer **out, size_t *size_out);
/* Pack x (parameters or a gradient, t->count floats), encoded if `flow` is not NULL, and the rest
 * of the replica into a new frozen buffer, of which *size_out bytes are used. */
fast_err fast__replica_pack(fast_trainer *t, fast_flow *flow, const float *x, fast_buffer **out,
                            size_t *size_out);
/* v <- scale v. With a lossy codec v <- scale times the values that receivers decode, so that
 * replicas which mix the same gradients stay equal. */
fast_err fast__replica_as_sent(fast_trainer *t, fast_flow *flow, fast_buffer *buffer, size_t size,
                               float scale, fast_vector v);
/* Create a message with a view of a packed buffer, which the caller still owns. */
fast_err fast__replica_msg(fast_trainer *t, uint64_t tag, double mass, fast_buffer *buffer,
                           size_t size, fast_msg **out);

/* A replica in a message that arrived; pointers are into the message. */
typedef struct fast_replica {
    const double *shares; /* contributions of x */
    int64_t age;          /* as in fast_vector: -1 until the strategy sets it */
    const float *s;       /* [state_count] state that is not trained */
    const float *rule;    /* [slots][count] the rule's state, if t->mixes_rule_state */
    const float *x;       /* [count] parameters or gradient; NULL if they are encoded */
    const void *coded;    /* the encoded x */
    size_t coded_size;    /* bytes of coded */
} fast_replica;
/* Find the parts of a replica's message. FAST_EFORMAT if it has another size. */
fast_err fast__replica_open(fast_trainer *t, bool coded, const fast_msg *msg, fast_replica *out);
/* Return the mass that a message was sent with. */
double fast__replica_mass(const fast_msg *msg);

/* Return x with its contributions and age. */
fast_vector fast__replica_vector(const fast_replica *model);
/* w <- own w + other x; the state, the rule's state if it travels, and the contributions alike. */
fast_err fast__replica_mix(fast_trainer *t, double own, const fast_replica *model, double other);
/* Mix the state and the rule's state, but not w. */
fast_err fast__replica_mix_rest(fast_trainer *t, double own, const fast_replica *model,
                                double other);

/* The rule's state where models are mixed: an option of strategies. */
typedef enum fast_rule_state {
    FAST_RULE_LOCAL,   /* each worker continues with its own */
    FAST_RULE_RESET,   /* is set to 0 */
    FAST_RULE_AVERAGE, /* is mixed like the weights */
} fast_rule_state;
#define FAST_RULE_STATES "local|reset|average"
#define FAST_RULE_STATES_HELP                                                                \
    "optimizer state (momentum) at an exchange: stays local, is reset, or is averaged like " \
    "weights"

/* Average the state that is not trained over all workers, with the weight 1 / P of each. */
fast_err fast__state_average(fast_trainer *t);

/* The neighbours of a worker at a step, and the weights of a mix with them. */
typedef struct fast_neighbours {
    int64_t *ranks;  /* [degree_max, at least 2] */
    double *weights; /* [degree_max, at least 2] mixing weight of each neighbour */
    double self;     /* mixing weight of the worker's own model */
    int64_t count;   /* neighbours at the step */
} fast_neighbours;
/* Allocate room for the largest degree of the topology. FAST_ENOMEM. */
fast_err fast__neighbours_init(const fast_trainer *t, fast_neighbours *out);
void fast__neighbours_fini(fast_neighbours *n);

/* Return a uniform random number in [0, 1) of the actor's stream. */
double fast__random_uniform(fast_actor *actor);
/* Return a random out-neighbour that is up, uniformly; -1 if none is up. */
int64_t fast__neighbour_pick(fast_trainer *t);

/* True if the error is a peer's failure: it is down, or did not answer in time. */
bool fast__is_peers(fast_err err);

/* Handle a message. It is freed afterwards, unless the function sets *move to NULL to own it. */
typedef fast_err fast_take_fn(void *ctx, fast_msg **move);

/* Receiver of an asynchronous worker's messages of one tag. */
typedef struct fast_intake {
    fast_trainer *t;    /* the worker */
    uint64_t tag;       /* of the messages */
    fast_take_fn *take; /* handler of messages with a part */
    void *ctx;          /* argument of take */
    bool *last;         /* [workers]: that worker sends nothing any more */
} fast_intake;
/* FAST_ENOMEM. */
fast_err fast__intake_init(fast_trainer *t, uint64_t tag, fast_take_fn *take, void *ctx,
                           fast_intake *out);
void fast__intake_fini(fast_intake *in);

/* Handle all messages that have arrived; never waits. */
fast_err fast__intake_poll(fast_intake *in);
/* Wait for one message of an actor and handle it. Fails as fast_receive() with FAST_SOON does. */
fast_err fast__intake_wait(fast_intake *in, int64_t from);
/* End an asynchronous worker: tell all workers that nothing more comes, and handle their messages
 * until each has said so too, or is down. */
fast_err fast__intake_flush(fast_intake *in);
/* End an asynchronous worker that sent messages to the workers of sent[]: handle messages until
 * none of any worker is in flight. For strategies whose workers send to few others. */
fast_err fast__intake_drain(fast_intake *in, const bool *sent);
