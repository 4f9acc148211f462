/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/rng.h"
#include "strategy/compensate.h"
#include "strategy/factoring.h"
#include "strategy/ps_flow.h"
#include "strategy/ps_momentum.h"
#include "strategy/ps_unseen.h"
#include "strategy/strategy.h"
#include "strategy/via_master.h"

/*
 * Inside the family ps:
 *
 *   ps.c              options, exclusions, the worker's loop and the server's program
 *   ps_consistency.c  how new the weights of a step must be: slack, warm start, value bound, backup
 *                     workers, ends of epochs, crashed workers
 *   ps_placement.c    where the model lives: servers and copies of it
 *   ps_keys.h         ranges of keys: ps_ring.c a ring of them, and groups of workers; ps_tasks.c
 *   ps_writer.c       reads and writes of the model by a worker, or by a proxy for its workers
 *   ps_unseen.c       a worker's own updates that the values it reads lack: read-my-writes
 *   ps_owner.c        the update of a range at its server
 *   ps_visit.h        the same in the writer's thread, where both share memory
 *   ps_order.c        the order in which the model is read
 *   ps_factors.c      dense layers that are sent to the servers as factors
 *   ps_hybrid.c       dense layers that workers send each other as factors, beside the servers
 *   ps_proxy.c        proxies between groups of workers and the servers
 *   ps_tree.h         the tree of the proxies
 *   ps_flow.h         priorities and rates of gradients on their way
 *   ps_learners.c     workers that do not wait for the others of their proxy
 *   ps_rows.c         rows that a worker reads from its proxy
 *   ps_momentum.c     measures the momentum that asynchrony adds
 *   ps_master.c       rounds in which the sum of gradients reaches the server by a collective
 *
 * The servers of a run are, in this order: the owners of the model, the owners of its first copy,
 * of its second copy, ..., and the proxies, level by level.
 */
enum { PS_REPLICAS_MAX = 3, PS_TENSORS_MAX = 4 };

enum { PS_SEND_GRADIENTS = 0, PS_SEND_DIFFERENCES, PS_SEND_MEAN };          /* option send */
enum { PS_STALENESS_NONE = 0, PS_STALENESS_INVERSE, PS_STALENESS_WORKERS }; /* option staleness */
enum { PS_FLOWS_SHARED = 0, PS_FLOWS_RANK, PS_FLOWS_BEHIND };               /* option flows */
enum { PS_PRIORITY_NO = 0, PS_PRIORITY_YES, PS_PRIORITY_TIC, PS_PRIORITY_TAC }; /* priority */
enum { PS_PIECE = 32768 }; /* floats of a piece */

/* The options. */
typedef struct ps_config {
    int64_t servers;   /* that share the model; 0: one for each worker */
    int64_t ring;      /* virtual servers of each on a consistent-hash ring; 0: equal ranges */
    int64_t replicas;  /* copies of the model besides the first */
    bool chain;        /* servers pass updates on from copy to copy */
    int64_t proxies;   /* proxies that write the model, each for its part of the workers; 0: none */
    bool mirror;       /* each proxy has a model of its own */
    int64_t levels;    /* levels of proxies */
    int64_t fanin;     /* proxies of a level below the first for each one above */
    bool tasks;        /* ranges of keys are read and written by tasks of their own */
    int64_t groups;    /* groups of workers, which do not wait for each other; 0: one group */
    int flows;         /* PS_FLOWS_*: which gradients enter a proxy or server first */
    double rate;       /* bytes a second of each flow of gradients; 0: any */
    int64_t slack;     /* rounds ahead of the slowest worker; -1: unbounded */
    bool global;       /* at the bound all wait for all */
    double warm;       /* epochs of worker 0 before the other workers start */
    int64_t aggregate; /* gradients in an update; 0: all workers' if slack is 0, else 1 */
    int64_t softsync;  /* n of n-softsync; 0: by aggregate */
    int64_t backup;    /* workers whose gradients a round does not wait for */
    int64_t redundant; /* workers that compute each batch, of which the first counts */
    int64_t fetch;     /* steps between reads */
    int64_t push;      /* steps between writes */
    int send;          /* PS_SEND_* */
    int staleness;     /* PS_STALENESS_*: scale of late updates */
    int64_t reject;    /* largest staleness that is applied; -1: any */
    double value;      /* bound of unread updates at step 1; 0: none */
    bool weak;         /* each worker bounds its own, after it has sent them */
    bool eager;        /* servers send new values without being asked */
    bool stalest;      /* servers answer the worker that is furthest behind first */
    bool rows;         /* workers read the rows that their batches need from their proxy */
    int64_t cache_age; /* rounds for which a worker uses the values of a read; 0: one read a step */
    double epochs;     /* fraction of the samples of an epoch after which it ends for all */
    int64_t barrier;   /* bytes above which a write is announced; 0: none is */
    double l1;         /* of the proximal step after each update; 0: none */
    bool cache;        /* indices of gradients that the codec selects are sent when they change */
    double compensate; /* DC-ASGD's lambda; 0: none */
    double decay;      /* 0: lambda is constant */
    double momentum;   /* explicit, at the servers; 0: none */
    int factors;       /* FAST_FACTORS_*: dense layers, from workers to servers */
    bool hybrid;       /* dense layers go to the other workers as factors where that is shorter */
    bool overlap;      /* gradients are sent as they become final */
    int priority;      /* PS_PRIORITY_*: order in which the model is read */
    bool free_running; /* workers do not wait for the others of their proxy */
    bool dedicated;    /* servers live on nodes of their own */
    int path;          /* fast_via: the path of collectives; FAST_VIA_NONE: by the space */
} ps_config;

/* Return the number of owners of one copy of the model: servers, or virtual servers of a ring. */
int64_t fast__ps_shards(const ps_config *c, int64_t workers);
/* Return the number of owners of all copies; 0 where proxies hold the model. */
int64_t fast__ps_owners(const ps_config *c, int64_t workers);
/* Return the number of writers of the model, which are the workers or the proxies, and their actor
 * numbers by rank. */
int64_t fast__ps_writers(const ps_config *c, const fast_trainer *t, const int64_t **ids_out);
/* Return the number of gradients of a round that is not waited for: of backup workers, or of those
 * that compute a batch again. 0 without rounds. */
int64_t fast__ps_spare(const ps_config *c, int64_t writers);
/* True if a round does not wait for all writers. */
bool fast__ps_has_spare(const ps_config *c);
/* Return the number of gradients that make an update, for this number of writers. */
int64_t fast__ps_batch(const ps_config *c, int64_t writers);

/* The tensors of the model's space; -1: it has no such tensor. */
typedef struct ps_tensors {
    int64_t count;         /* number of tensors */
    int64_t state;         /* state that is not trained: batch norm's statistics */
    int64_t contributions; /* [writers] steps that the model holds, filled by an add to it */
    int64_t epochs;        /* [epochs] gradients that workers have computed in each */
    int64_t epochs_len;    /* length of `epochs` */
} ps_tensors;

/* A range of the model that the servers hold. */
typedef struct ps_segment {
    int64_t offset; /* its first element in the model */
    int64_t count;  /* its elements */
    int64_t packed; /* its first element in the servers' vector */
} ps_segment;

/* With `hybrid`: the layers that workers send each other, and the rest of the model, which the
 * servers hold as one packed vector. */
typedef struct ps_hybrid {
    int64_t count;          /* number of segments; 0: the servers hold the whole model */
    ps_segment *segments;   /* of the rest, in the order of their offsets; equal at all actors */
    int64_t floats;         /* of all segments */
    float *w;               /* [floats] their weights: as they were read; initial ones at owners */
    float *g;               /* [floats] their newest gradient, at workers; else NULL */
    fast_factoring factors; /* the layers of the other workers, at workers */
} ps_hybrid;

/* Layers whose gradients are sent as factors; equal at all actors. */
typedef struct ps_layers {
    ps_hybrid hybrid;         /* those that workers send each other; the others go to servers */
    int64_t count;            /* number of layers */
    fast_space_layer *layers; /* as the space has them */
    int64_t *numbers;         /* as the trainer counts them */
    const float **factors;    /* of the last gradient, at workers */
    int64_t *rows;            /* rows of each layer's factors */
} ps_layers;
/* True if a write is one gradient as it was computed. */
bool fast__ps_may_factor(const ps_config *c);
/* Choose the layers. FAST_EINVAL, with the reason, if factors=yes is impossible. */
fast_err fast__ps_layers_new(fast_trainer *t, const ps_config *c, ps_layers *out);
/* Free the lists. All 0 is allowed. */
void fast__ps_layers_free(ps_layers *l);
/* Borrow the factors of the last gradient. */
void fast__ps_layers_take(const fast_trainer *t, ps_layers *l);

/* Memory of the owner of a range. Guarded by the space: one update of a range at a time. */
typedef struct ps_owner {
    fast_trainer *t;                /* the server's */
    const ps_config *config;        /* the run's */
    const ps_layers *layers;        /* of its space */
    const int64_t *writers;         /* actor numbers of the writers, consecutive */
    int64_t writer_count;           /* length of writers */
    ps_tensors tensors;             /* of its space */
    double widest;                  /* fraction of the model that a range has at most */
    bool first;                     /* it owns a range of the first copy, and reports measures */
    float **round;                  /* slack 0: [writers] gradients of the round; else NULL */
    bool *arrived;                  /* slack 0: [writers] its gradient is in `round`; else NULL */
    const float **list;             /* slack 0: [writers] gradients that arrived, by rank */
    _Atomic int64_t *contributions; /* [writers] steps in the model; other threads read it */
    int64_t *written;               /* [writers] steps of the writer at its last write */
    int64_t *last;                  /* redundant: [agents] the newest step; else NULL */
    uint64_t *seen;                 /* its bit k: step last - k has been applied; else NULL */
    fast_past past;                 /* the last models, where late gradients are compensated */
    fast_implicit implicit;         /* measures the momentum */
    float *sum;      /* of the gradients that wait for an update; NULL where none does */
    float *before;   /* the model before an update; NULL without momentum */
    float *velocity; /* the last change of the model, persistent; NULL without momentum */
    float *state;    /* slack 0: [writers][its range] changes of the state; else NULL */
    int64_t states;  /* slack 0: changes of the state that arrived in this round */
    int64_t pending; /* gradients in `sum`, or in `round` */
    int64_t begun;   /* steps of the run before this server started */
    int64_t updates; /* updates of the range since it started */
} ps_owner;

/* Open the space of copy `replica` of the model, with equal options at all actors; `o` is NULL
 * except at its owners. Fails as fast_trainer_space() does. */
fast_err fast__ps_open(fast_trainer *t, const ps_config *c, int64_t replica,
                       const ps_layers *layers, ps_owner *o, ps_tensors *tensors_out,
                       fast_space **out);
/* The program of an owner of a copy. */
fast_err fast__ps_own(fast_trainer *t, const ps_config *c, int64_t replica);

/* The copies of the model as one writer sees them. A copy that loses an owner is left for good. */
typedef struct ps_copies {
    fast_trainer *t;                         /* the writer's */
    int64_t count;                           /* copies at the start of the run */
    int64_t first;                           /* the copy that is read */
    bool bounded;                            /* a read waits for writers, but not for each */
    fast_space *spaces[PS_REPLICAS_MAX + 1]; /* NULL: that copy is lost */
    ps_tensors tensors;                      /* tensor numbers, equal in all spaces */
    ps_flow flow;                            /* of its gradients */
    float *counts; /* redundant: [writers] steps of each agent that the model holds; else NULL */
} ps_copies;

/* Open all copies for writing. */
fast_err fast__ps_copies_open(fast_trainer *t, const ps_config *c, const ps_layers *layers,
                              ps_copies *out);
/* Close them; FAST_ENOMEM if state for a resume was lost. May be called twice. */
fast_err fast__ps_copies_close(ps_copies *copies);
/* Read a tensor from the first copy that is whole. x may be NULL: only wait. */
fast_err fast__ps_copies_get(ps_copies *copies, int64_t tensor, float *x, fast_space_read *read);

/* A write or a clock, which goes to every copy. */
typedef enum ps_write {
    PS_WRITE_ADD,     /* add x to `tensor` */
    PS_WRITE_FACTORS, /* add x to the model, with layers given as factors */
    PS_WRITE_END,     /* x is complete: its last piece was sent before */
    PS_WRITE_TICK,    /* set the writer's clock */
} ps_write;
typedef struct ps_operation {
    ps_write kind;           /* the operation */
    int64_t tensor;          /* ADD: number of the tensor */
    const float *x;          /* ADD, END: the vector */
    float *g;                /* FACTORS: the gradient; layers given as factors are composed in it */
    const ps_layers *layers; /* FACTORS: layers that are given as factors */
    int64_t clock;           /* TICK: the new clock */
} ps_operation;
/* Perform it on every copy. Fails only where no copy is left. */
fast_err fast__ps_copies_write(ps_copies *copies, const ps_operation *op);
/* Count the versions that were read from the first copy as read in the others too. With `rounds`
 * wait there until the round of `read` has ended. */
fast_err fast__ps_copies_follow(ps_copies *copies, bool rounds, const fast_space_read *read);

/* Ranges of a gradient that are sent to the servers while the rest is computed. */
typedef struct ps_pieces {
    bool on;                   /* gradients are sent in pieces */
    int64_t low, high;         /* range that is final and not sent; empty where equal */
    fast_err err;              /* first failure to send a piece */
    char why[FAST_DETAIL_MAX]; /* detail of err */
} ps_pieces;

/* Measured times for the order of reads, with priority=tac. */
typedef struct ps_order {
    bool sent;         /* the servers know the order, or need none */
    int64_t gradients; /* gradients that were timed */
    double gradient_s; /* seconds of the last of them */
    double read_s;     /* seconds of the shortest whole read; 0: none was timed */
} ps_order;

/* Crashed workers, with backup workers. */
typedef struct ps_losses {
    bool too_few; /* too few workers are left for the awaited update */
    bool lost;    /* a worker has crashed */
} ps_losses;

/* A visit of the model: a write, with the next read or without. */
typedef struct ps_visit {
    bool fused;    /* a write and the next read may be one visit */
    bool direct;   /* writes work on the owners' memory (ps_visit.c) */
    bool added;    /* t->w holds the last write already, which was a visit */
    bool fetched;  /* the last write fetched the next weights */
    bool arriving; /* ranges of the model are still in transit to t->w */
    bool promised; /* value bound: the next step reads, at least the writer's `version` */
    int64_t pulls; /* with `tasks`: number of the first of the last pulls, one for each range */
} ps_visit;

/* The decision of a worker before a step. */
typedef enum ps_decision {
    PS_STEP, /* take the step */
    PS_WAIT, /* the step must wait: decide again */
    PS_STOP, /* take no more steps */
} ps_decision;

/* One writer of the model: its memory besides the replica t->w, t->s. Vectors are NULL where the
 * options do not need them. */
struct ps_writer {
    fast_trainer *t;      /* the worker's, or the proxy's */
    const ps_config *c;   /* the run's */
    ps_copies copies;     /* of the model */
    int64_t writer_count; /* writers of the model */
    int64_t step;         /* steps that this writer has taken */
    int64_t pushed;       /* value of `step` at the last write */
    int64_t round;        /* rounds of the run that the last read held */
    int64_t version;      /* of the last read */
    int64_t cached;       /* with cache_age: rounds of all writers in t->w; -1: it must be read */
    int64_t begun;        /* backup or redundant: rounds before those that the space counts */
    float *g;             /* the newest gradient; not defined in layers sent as factors */
    ps_layers layers;     /* sent as factors */
    ps_pieces pieces;     /* of the newest gradient */
    ps_recent recent;     /* its last writes, with `eager` or a budget of the servers */
    ps_order order;       /* of reads, with `priority` */
    ps_losses losses;     /* of workers, with `backup` */
    ps_hold hold;         /* bound of elements that a codec defers */
    float *sum;           /* gradients since the last write */
    float *base;          /* the weights that were read; differences are to them */
    float *unseen;        /* updates that other writers have not read (value bound) */
    float *ends;          /* gradients that workers have computed in each epoch */
    float *state_read;    /* the state as it was read */
    int64_t *model_step;  /* slack 0, persistent: 1 + the step whose weights t->w holds; backup or
                             redundant: rounds of the run when its programs ended */
    ps_visit visit;       /* reads that are joined with writes, or in transit */
    bool written;         /* it has written since it started */
};

/* Open a writer whose gradients are in `g`: its memory, layers and spaces. A resumed run's clocks
 * continue. FAST_ENOMEM, FAST_EINVAL: nothing is left open. */
fast_err fast__ps_writer_open(fast_trainer *t, const ps_config *c, float *g, ps_writer *out);
/* Free everything. FAST_ENOMEM: state for a resume is lost. */
fast_err fast__ps_writer_close(ps_writer *wr);
/* Read the model to t->w and t->s, as new as the consistency demands; the `last` read, after the
 * final step, takes it as it is. */
fast_err fast__ps_read(ps_writer *wr, bool last);
/* Read it now, under this condition. */
fast_err fast__ps_read_model(ps_writer *wr, const fast_space_read *condition);
/* Wait until all of the model has arrived, where a read was only started. */
fast_err fast__ps_arrive(void *writer);
/* Compute the gradient of the next batch, and take a local step where differences are written. */
fast_err fast__ps_gradient(ps_writer *wr);
/* Add the newest gradient to those that wait for the next write. */
void fast__ps_collect(ps_writer *wr);
/* Write the gradients or the difference since the last write. */
fast_err fast__ps_push(ps_writer *wr);
/* True if gradients are sent in pieces; equal at all actors. */
bool fast__ps_in_pieces(const ps_config *c, const ps_layers *layers);
/* Ask the servers for the number of steps of each writer that the model holds. */
fast_err fast__ps_ask_contributions(ps_writer *wr, float *counts);

/* ps_consistency.c */
/* The condition of the next read. */
fast_space_read fast__ps_condition(const ps_writer *wr);
/* Return true if t->w is new enough for the next step: it is not read again. */
bool fast__ps_is_cached(const ps_writer *wr);
/* Let worker 0 train alone for the epochs of the warm start. */
fast_err fast__ps_warm(ps_writer *wr);
/* Before a step: read weights that are new enough, unless the epoch or the run is over. */
fast_err fast__ps_prepare(ps_writer *wr, ps_decision *out);
/* Set the writer's clock at all copies. */
fast_err fast__ps_set_clock(ps_writer *wr, int64_t clock);
/* Set the clock to the steps that the writer has taken, or with backup workers to its round. */
fast_err fast__ps_end_step(ps_writer *wr);
/* After a step: count it in its epoch, and set the clock. */
fast_err fast__ps_tick(ps_writer *wr);
/* Before a write of x: wait until the other writers have read enough for the value bound. */
fast_err fast__ps_bound_next(ps_writer *wr, const float *x);
/* With a weak bound, after a write of x: wait while updates that other writers have not read
 * exceed it. */
fast_err fast__ps_bound_value(ps_writer *wr, const float *x);
/* Value bound, at a worker that waits in a snapshot: let the other writers know that it will not
 * compute with older weights than the newest. */
fast_err fast__ps_yield(void *writer);
/* Count x, a write, as not read by other writers (NULL: nothing), and with the sign 1 or -1 the
 * elements that the codec holds back: once with 1 before a write and with -1 after it, the elements
 * that were sent are counted, and no others. */
void fast__ps_unseen(ps_writer *wr, int sign, const float *x);
/* FAST_EPEER if a worker crashed or is silent that this run cannot continue without. */
fast_err fast__ps_check_lost(fast_trainer *t, const ps_config *c);

/* ps_order.c */
/* True if the next read is to arrive in slices. */
bool fast__ps_reads_slices(const ps_writer *wr);
/* Tell the servers the order of slices, once. */
fast_err fast__ps_order(ps_writer *wr);
/* Time a whole read, or a gradient that waits for no weights, which started at `begin`. */
void fast__ps_time_read(ps_writer *wr, int64_t begin);
void fast__ps_time_gradient(ps_writer *wr, int64_t begin);

/* ps_hybrid.c */
/* Choose the layers that workers send each other. At workers also prepare their exchange.
 * FAST_ENOMEM: the caller frees. */
fast_err fast__ps_hybrid_init(fast_trainer *t, const ps_config *c, ps_hybrid *out);
/* Add the factors that a worker waits for to a forecast, and return the fraction of the model that
 * the servers hold. */
double fast__ps_hybrid_cost(const ps_config *c, const fast_trainer *t, fast_cost *out);
/* Free everything. All 0 is allowed. */
void fast__ps_hybrid_fini(ps_hybrid *h);
/* A range of the gradient is final. True if it is a layer of the other workers, whose factors are
 * sent now, or *err_out says why not; else it is packed, and *offset becomes its place there. */
bool fast__ps_hybrid_report(ps_writer *wr, int64_t *offset, int64_t count, fast_err *err_out);
/* Copy the segments that were read to t->w. */
void fast__ps_hybrid_unpack(const ps_writer *wr);
/* Wait for the factors of this step's layers, and update these layers. */
fast_err fast__ps_hybrid_finish(ps_writer *wr);
/* Update a range of the servers' packed vector, segment by segment. */
void fast__ps_hybrid_update(const ps_owner *o, const fast_space_update *u, double lr, float *w,
                            const float *x, float scale);

/* Programs with proxies: of a worker, and of proxy number `proxy`. */
fast_err fast__ps_group_worker(fast_trainer *t, const ps_config *c);
fast_err fast__ps_proxy(fast_trainer *t, const ps_config *c, int64_t proxy);

/* Programs with free-running proxies: of a learner, and of proxy number `proxy`. */
fast_err fast__ps_learner(fast_trainer *t, const ps_config *c);
fast_err fast__ps_collector(fast_trainer *t, const ps_config *c, int64_t proxy);
/* Programs with a path: of a worker, and of the one server. */
fast_err fast__ps_master_worker(fast_trainer *t, const ps_config *c);
fast_err fast__ps_master(fast_trainer *t, const ps_config *c);
