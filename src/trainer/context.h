/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/flow.h"
#include "rule/rule.h"
#include "rule/schedule.h"
#include "space/space_checkpoint.h"
#include "split/shards.h"
#include "trainer/host.h"
#include "trainer/pipe.h"
#include "trainer/remember.h"
#include "trainer/saved.h"
#include "trainer/sharded.h"
#include "trainer/shared_model.h"

#include <stdatomic.h>

/*
 * The context of one worker or server: its replica, the state of its update rule and codecs, its
 * spaces and its memory. A strategy sees it as a fast_trainer.
 *
 *   context.c        creation, reset, another phase
 *   step.c           steps and gradients
 *   pipe.c           gradients of a stage of a split model
 *   update.c         the update rule
 *   vectors.c        kernels on vectors, contributions, and the measures that follow from them
 *   encoded.c        sums and flows through the run's codecs
 *   layer_factors.c  gradients that are left as factors
 *   opened_spaces.c  spaces, and their state while they are closed
 *   blocks.c         persistent memory of a strategy
 *   shared_model.c   one model for all workers of a process
 *   sharded.c        updates of slices, where each worker holds a part of the state
 *   saved.c          the whole state as records, for checkpoints
 *
 * Life: new, then for each call of the run start() and a program; between programs reset(), enter()
 * and the functions of saved.h; free. One actor uses it at a time.
 */

/* The codecs of a phase. */
typedef struct fast_codec_pair {
    const fast_chain *up;   /* of messages that workers send; borrowed. NULL: the run has none */
    const fast_chain *down; /* of answers; borrowed. NULL: the run has none */
    int scope;              /* as in fast_coded_options */
    int feedback;           /* as in fast_coded_options */
    int64_t small;          /* blocks with fewer elements are sent as they are */
    const char *sum;        /* method of sums by name; borrowed. NULL: the cheapest */
} fast_codec_pair;

/* True if either direction is encoded. */
bool fast__codec_pair_encodes(const fast_codec_pair *codecs);
/* The options of a sum of such vectors over `size` workers, for member `rank`. */
fast_coded_options fast__codec_pair_options(const fast_codec_pair *codecs,
                                            const fast_layout *layout, int64_t size, int64_t rank,
                                            uint64_t seed);

/* A part of the run with one strategy. Strings and pointers are borrowed until the next phase. */
typedef struct fast_context_phase {
    const char *strategy; /* name, for messages */
    bool resumes;         /* as in fast_strategy: closed spaces leave their state */
    bool synchronous;     /* as in fast_strategy: no gradient is late */
    bool gradients;       /* workers send gradients, not weights or differences */
    const void *config;   /* of the strategy, for cost() */
    /* As in fast_strategy; may be NULL. */
    void (*cost)(const void *config, const fast_trainer *t, fast_cost *cost);
    const fast_topology *topology; /* NULL: the strategy has none */
    int64_t servers;               /* that the strategy has */
    int64_t step;                  /* at which the phase starts */
    int64_t step_count;            /* at which the phase ends */
    fast_codec_pair codecs;        /* of its messages */
} fast_context_phase;

/* One copy of replicas that a strategy keeps equal, for simulated workers: w and the rule's state.
 * The first worker that makes an update applies it for all. No worker needs older values then: an
 * update follows a sum to which all have added the gradient that they computed from them. */
typedef struct fast_equal_replicas {
    float *w;             /* [count] parameters; NULL: every worker has its own */
    fast_optimizer *rule; /* state of the rule */
    int64_t *applied;     /* [count]: last step at which the range from this element was updated */
} fast_equal_replicas;

/* All that a context is made of. Everything is borrowed until it is freed. */
typedef struct fast_context_options {
    const fast_host_ops *host; /* operations of the program around it */
    void *host_ctx;            /* their first argument */
    int64_t rank;              /* among the workers, or among the servers */
    int64_t workers;           /* number of workers */
    const int64_t *worker_ids; /* actors' numbers by rank */
    const int64_t *server_ids; /* actors' numbers by rank */
    uint64_t seed;             /* of everything random in the run */
    bool is_virtual;           /* time is simulated */
    fast_learner *learner;     /* the worker's own; NULL at servers */
    const fast_learner *model; /* of the run: the layout of vectors, and values to start with */
    const fast_device *device; /* of the actor's vectors; NULL: that of the model's */
    const fast_layout *params; /* of w and g: the actor's part of the model; NULL: all of it */
    const fast_layout *state;  /* of s, with `params` */
    const fast_split_map *map; /* of w in the model's; NULL: it is all of it */
    const fast_split_map *state_map; /* of s, with `map` */
    const char *optimizer;           /* name:key=value,... */
    fast_optimizer *rule;            /* of the run, where the worker trains `model`, or of equal
                                   replicas; NULL: its own */
    const fast_schedule *rates;      /* learning rate by step */
    fast_shared_model *shared;     /* that workers of this process may share; NULL: they may not */
    fast_equal_replicas *equal;    /* whose w the learner has; NULL: its own */
    const fast_pipe_options *pipe; /* place of a stage of a split model; NULL: it is whole */
    bool tied;                     /* weights that are equal at the start share their values */
    fast_state_end state_end;      /* who needs all of a sharded state at the end */
    fast_context_phase phase;      /* the first one */
} fast_context_options;

/* A gradient or an update under way. */
typedef struct fast_context_work {
    fast_settle_fn *settle; /* completes w before it is read between steps; NULL: w is whole */
    void *settle_ctx;       /* argument of settle */
    double speed;           /* operations per ns of the last gradient, where time is virtual */
    double uncharged;       /* elements updated in reports, whose time is charged afterwards */
    double operations;      /* of deferred kernels that are not charged yet */
    double bytes;           /* of deferred kernels that are not charged yet */
    bool computing;         /* inside a gradient: updates in its reports are timed with it */
    fast_gradient parts;    /* figures of this step's micro-batches; loss: their sum */
    int64_t part_count;     /* micro-batches in `parts` */
} fast_context_work;

/* Sums and flows through codecs. */
typedef struct fast_context_codecs {
    fast_codec_pair pair;       /* of the phase */
    fast_coded *sum;            /* through which vectors are summed; NULL before the first sum */
    fast_flows flows;           /* of the strategy's own messages */
    fast_coded_figures figures; /* bytes and times of all of them; others may look */
    fast_coded_piece *pieces;   /* that a sum is cut into; NULL: it is not */
    int64_t piece_count;        /* length of pieces */
    int64_t pieces_left;        /* pieces of this step that are not finished */
    const float *reference;     /* weights that changes are compared with; NULL: w */
} fast_context_codecs;

/* Return the number of workers whose contributions are counted: of all, or of a sample. */
int64_t fast__share_columns(int64_t workers);

/* Contributions (vectors.c). NULL at servers. */
typedef struct fast_context_shares {
    double *w;           /* [fast_trainer_share_count()] of the replica */
    double *g;           /* [fast_trainer_share_count()] of the gradient */
    int64_t summed_step; /* of the newest gradient whose sum was started, from 1; 0: none */
} fast_context_shares;

/* Exchange of this program so far, as the forecast counts it (vectors.c). */
typedef struct fast_context_traffic {
    double summed;                  /* floats of sums after gradients */
    double moved;                   /* bytes of kernels */
    int64_t step_first;             /* at which the program started */
    int64_t parts[FAST_COST_PARTS]; /* floats of the sums that the last gradient started */
    int64_t part_count;             /* length of parts */
    int64_t part_step;              /* step of that gradient, from 0 */
} fast_context_traffic;

struct fast_layer_factors; /* layer_factors.c */
struct fast_opened_space;  /* opened_spaces.c */

/* Persistent memory of a strategy at one actor. */
typedef struct fast_memory_block {
    struct fast_memory_block *next; /* of the same actor; NULL: the last */
    int64_t id;                     /* the strategy's number for it */
    size_t size;                    /* bytes of data */
    void *data;                     /* owned by the block */
} fast_memory_block;

/* How a program takes part in snapshots (remember.h). */
typedef struct fast_context_cut {
    const int64_t *rounds;   /* by which workers wait for each other; NULL: steps, if at all */
    const int64_t *next;     /* value of *rounds after the coming step; NULL: at most 1 more */
    bool at_once;            /* no worker waits for another one in mid-step */
    bool held;               /* a server, between the first question and the start */
    int64_t count;           /* snapshots that the actor was part of */
    const atomic_bool *open; /* a snapshot is being taken; NULL: none can be */
    fast_yield_fn *yield;    /* called while a worker waits for the others to join; or NULL */
    void *yield_ctx;         /* argument of yield */
    fast_idle_fn *idle;      /* of a server that acts by itself; NULL: it is idle in all waits */
    const void *idle_ctx;    /* argument of idle */
} fast_context_cut;

/* A worker's part of the model's state (sharded.h). */
typedef struct fast_context_sharded {
    atomic_llong bytes; /* of w, g and the rule's state at most; 0: of whole vectors */
    bool parted;        /* the rule's state is not whole at worker 0 */
} fast_context_sharded;

/* All that belongs to one actor of a run. The actor's own thread uses it; at a checkpoint the host
 * reads it while the actor waits. */
typedef struct fast_context {
    fast_trainer trainer;              /* the strategy's view of this context */
    fast_context_options options;      /* as they were given; `phase` is the current one */
    fast_learner *learner;             /* options.learner; NULL at servers */
    fast_optimizer *optimizer;         /* this actor's state of the rule, or the shared one */
    fast_context_work work;            /* the step under way */
    fast_context_codecs codecs;        /* of this actor */
    struct fast_ties *ties;            /* of weights that share their values; NULL: none do */
    struct fast_layer_factors *layers; /* with gradients that can be left as factors; or NULL */
    int64_t layer_count;               /* length of layers */
    fast_memory_block *blocks;         /* persistent memory of the strategy, a list */
    fast_memory_block *parts;          /* memory of the program itself (remember.h), a list */
    fast_context_cut cut;              /* of the program */
    fast_pipe pipe;                    /* a stage's micro-batches in flight; all 0: none are */
    struct fast_opened_space *spaces;  /* of the strategy, open and closed ones, a list */
    float *memory;                     /* servers: w and s; NULL at workers */
    float *centre;                     /* memory of trainer.centre; NULL: never asked for */
    fast_context_shares shares;        /* contributions of w and g */
    fast_context_traffic traffic;      /* of this program, for the forecast */
    float *own_w;                      /* the worker's own w while it shares one; else NULL */
    fast_optimizer *own_optimizer;     /* the worker's own rule while it shares one; else NULL */
    fast_context_sharded sharded;      /* vectors of which this worker has a part */
    int64_t step_begun;                /* the step that the replica started from */
    bool resumed;                      /* see fast_trainer_resumed() */
    fast_err err;                      /* of a call between steps; FAST_OK: none failed */
    char why[FAST_DETAIL_MAX];         /* detail of err */
} fast_context;

/* Make a context without values: the caller calls reset() before the first program. FAST_ENOMEM,
 * FAST_EINVAL: fini() is still to be called. */
fast_err fast__context_init(fast_context *context, const fast_context_options *options);
/* Free all but the learner, which has its own w again. All 0 is allowed. */
void fast__context_fini(fast_context *context);

/* Take over w and s of the run's model, as far as the actor has them, unless they are its own. */
void fast__context_take_model(fast_context *context);
/* Start anew at a step: with the values of the model, the state of `rule` (NULL: zeros), and
 * nothing else. */
void fast__context_reset(fast_context *context, fast_optimizer *rule, int64_t step);
/* Continue with the model's values in another phase; the state of the old strategy is dropped, and
 * that of the rule where asked for. */
void fast__context_enter(fast_context *context, const fast_context_phase *phase, bool reset_rule);
/* A program of this actor starts. */
void fast__context_start(fast_context *context, fast_actor *actor);
/* A worker's program is over: its replica is its own again, and its sums know no group. */
void fast__context_stop(fast_context *context);
/* Return the bytes of w, g and the rule's state that a worker held at most: of whole vectors, if
 * its strategy shards none. */
int64_t fast__context_state_bytes(const fast_context *context);
/* Complete w, where parts of it are on their way. Fails as the strategy's function does. */
fast_err fast__context_settle(fast_context *context);

/* Set every vector of a rule's state, of `count` floats, to 0. */
void fast__rule_state_clear(fast_optimizer *optimizer, int64_t count);
/* Copy the state to another optimizer of the same rule. Ranges that are equal are not written, so
 * that those that are 0 in both take no memory. */
void fast__rule_state_copy(fast_optimizer *to, fast_optimizer *from, const fast_split_map *map,
                           int64_t count);

/* Within src/trainer. */

/* Return the context that the view belongs to. */
static inline fast_context *fast__context_of(const fast_trainer *t)
{
    FAST_ASSERT(t != NULL);
    return (fast_context *)((uintptr_t)t - offsetof(fast_context, trainer));
}

/* Return the device of the actor's vectors. */
static inline const fast_device *fast__context_device(const fast_context *context)
{
    return context->options.device ? context->options.device
                                   : fast__device_of(context->options.model->w);
}

/* Return the layout of w and g: that of the model, or of the part of it that the actor has. */
static inline const fast_layout *fast__context_layout(const fast_context *context)
{
    return context->options.params ? context->options.params : &context->options.model->params;
}

/* Block `id` of `size` bytes on a device, allocated on first use; device NULL: where it is, a new
 * one on the host. FAST_EINVAL if it has another size. */
fast_err fast__context_block(fast_context *context, const fast_device *device, int64_t id,
                             size_t size, void **out);
/* Free all blocks. */
void fast__context_drop_blocks(fast_context *context);
/* The program has ended: forget its memory. */
void fast__context_forget(fast_context *context);
/* Numbers of blocks of a checkpoint that are memory of a program start here. */
#define FAST_REMEMBERED ((int64_t)1 << 40)

/* The model as codecs of this actor's messages see it: `context` is a fast_context. */
void fast__context_look(void *context, fast_codec_model *out);
/* The sum's state, or that of a flow, as a checkpoint has it. FAST_EFORMAT. */
fast_err fast__context_load_codec(fast_context *context, bool flow, const fast_pack_record *record);
/* The pieces of a sum are given back. */
void fast__context_uncut(fast_context *context);

/* Take over the saved state of a space, which fast_trainer_space() gives to the space that it opens
 * under the same name. FAST_ENOMEM. */
fast_err fast__context_load_space(fast_context *context, int64_t id, const void *bytes,
                                  size_t size);
/* Add the state of every space as a record of this kind: an open one is packed as it is now, in a
 * snapshot with its clocks, a closed one as it was when it was closed. */
void fast__context_pack_spaces(const fast_context *context, bool clocks, fast_pack *pack,
                               int64_t kind);
/* Free the saved state of all spaces, which must be closed. */
void fast__context_forget_spaces(fast_context *context);
/* Mark all spaces as closed: the world closed those of a program that did not come to its end. */
void fast__context_close_spaces(fast_context *context);

/* A gradient starts: no layer has factors of it yet. */
void fast__context_factors_start(fast_context *context);
/* Copy the factors of a layer that a gradient offers. Return false if the strategy does not want
 * this layer; else the range of g that the factors stand for. */
bool fast__context_factors_take(fast_context *context, const fast_factors *factors,
                                int64_t *offset_out, int64_t *count_out);
/* Want no layer's factors from now on; their memory stays for later. */
void fast__context_factors_refuse(fast_context *context);
/* Free the memory of all factors. */
void fast__context_factors_free(fast_context *context);

/* The worker, which shared a model, has its own replica again: a copy of the shared one. */
void fast__context_unshare(fast_context *context);

/* Charge the time of deferred kernels; the second function also that of updates made in reports.
 * Both fail as fast_charge() does. */
fast_err fast__context_charge_kernels(fast_context *context);
fast_err fast__context_charge(fast_context *context);

/* Apply the rule to w by scale x, which holds these contributions, and count the update's lag. */
fast_err fast__context_update(fast_context *context, const float *x, const double *shares,
                              float scale);
/* x becomes the sum over all workers, through the codecs of the phase. */
fast_err fast__context_sum(fast_context *context, float *x);
/* Apply the rule to a range, with its time but without its contributions. */
void fast__context_update_range(fast_context *context, int64_t step, double lr, float *w,
                                const float *g, float scale, int64_t offset, int64_t count);
/* Add the contributions of `count` elements of w updated by the gradient of `step`. */
void fast__context_update_shares(fast_context *context, int64_t step, float scale, int64_t count);
/* Set the contributions of a new gradient. */
void fast__context_own_gradient(fast_context *context);
/* x was summed over all workers, or the sum of a range of it was started. */
void fast__context_summed(fast_context *context, const float *x);
/* Count floats of a sum for the forecast: one that a gradient started, or one after it. */
void fast__context_sum_floats(fast_context *context, int64_t count, bool overlapped);
/* Count an update of this staleness. */
void fast__context_stale(fast_context *context, int64_t staleness);
/* Tell the host the cost of worker 0's exchange so far. */
void fast__context_tell_cost(fast_context *context);
