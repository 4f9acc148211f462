/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/rng.h"
#include "strategy/compensate.h"
#include "strategy/factoring.h"
#include "strategy/ps_momentum.h"
#include "strategy/strategy.h"

/*
 * Inside the family ps:
 *
 *   ps.c           options, what they refuse, the programs of workers and servers
 *   ps_owner.c     what an owner does with an update
 *   ps_client.c    how a writer reads and writes the model: a worker, or a proxy for its group
 *   ps_factors.c   which layers are sent as factors
 *   ps_filter.c    which gradients are sent now, and which wait
 *   ps_proxy.c     proxies between groups of workers and the servers
 *   ps_momentum.c  the momentum that updates have, measured
 *
 * The servers of a run are, in this order: the owners of the model, those of its first copy, of its
 * second..., and the proxies.
 */
enum { PS_REPLICAS_MAX = 3 };

enum { PS_SEND_GRADIENTS = 0, PS_SEND_DIFFERENCES, PS_SEND_MEAN };
enum { PS_PIECE = 32768 }; /* floats of a piece at least */
enum { PS_LOST_AUTO = 0, PS_LOST_GO, PS_LOST_STOP };

typedef struct ps_config {
    int64_t servers;   /* that share the model; 0: one for each worker */
    int64_t replicas;  /* copies of the model besides the first */
    int64_t proxies;   /* groups of workers, with a proxy each; 0: none */
    int64_t slack;     /* -1: unbounded */
    bool global;       /* at the bound all wait for all */
    double warm;       /* epochs of the first worker before the others begin */
    int64_t aggregate; /* gradients in an update; 0: all workers' if slack is 0, else 1 */
    int64_t softsync;  /* n of n-softsync; 0: by aggregate */
    int64_t backup;    /* workers whose gradients a round does not wait for */
    int64_t fetch;     /* steps between reads */
    int64_t push;      /* steps between writes */
    int send;          /* PS_SEND_* */
    int staleness;     /* 0 none, 1 inverse, 2 workers */
    int64_t reject;    /* -1: none */
    double value;      /* bound of what others have not seen, at step 1; 0: none */
    bool eager;        /* servers send new values without being asked */
    bool stalest;      /* servers serve who is furthest behind first */
    double epochs;     /* part of the workers whose end of an epoch ends it for all */
    double filter;     /* smallest relative change that is sent at step 1; 0: all */
    int64_t budget;    /* bytes of a write; 0: any */
    int64_t barrier;   /* bytes of a write that others wait for before they read; 0: none */
    double skip;       /* probability that what would be sent waits; 0: never */
    double l1;         /* of the proximal step after each update; 0: none */
    bool kkt;          /* what that step would take back is not sent */
    bool cache;        /* places of what is sent are not sent again while they are the same */
    double compensate; /* DC-ASGD's lambda; 0: none */
    double decay;      /* 0: lambda is constant */
    double momentum;   /* explicit, at the servers; 0: none */
    int lost;          /* PS_LOST_*: what a crash of a worker means */
    int factors;       /* FAST_FACTORS_*: dense layers, from workers to servers */
    bool overlap;      /* gradients are sent as they become final */
    bool priority;     /* the model is read in the order in which the next step needs it */
} ps_config;

/* Owners of one copy of the model. */
int64_t fast__ps_shards(const ps_config *c, int64_t workers);
/* Who writes the model: workers, or proxies. Their ranks are those of the list. */
int64_t fast__ps_writers(const ps_config *c, const fast_trainer *t, const int64_t **ids_out);
/* Gradients that make an update, of so many writers. */
int64_t fast__ps_batch(const ps_config *c, int64_t writers);
/* Does a write send a part of what was learned? */
bool fast__ps_filters(const ps_config *c);

/* The tensors of the model's space; -1: it has no such tensor. */
typedef struct ps_tensors {
    int64_t count;      /* of them */
    int64_t state;      /* what is not trained: batch norm's statistics */
    int64_t carried;    /* [writers] updates that the model holds, filled when it is added to */
    int64_t epochs;     /* [epochs] workers that came to the end of each */
    int64_t epochs_len; /* of it */
} ps_tensors;

/* Layers whose gradients go to the servers as factors; the same at everyone. */
typedef struct ps_layers {
    int64_t count;            /* of them */
    fast_space_layer *layers; /* as the space has them */
    int64_t *numbers;         /* as the trainer counts them */
    const float **factors;    /* of the last gradient, at workers */
    int64_t *rows;            /* of those */
} ps_layers;
/* Is what is written one gradient as it is? */
bool fast__ps_may_factor(const ps_config *c);
/* Choose. FAST_EINVAL, with the reason, for factors=yes that cannot be. */
fast_err fast__ps_layers_new(fast_trainer *t, const ps_config *c, ps_layers *out);
void fast__ps_layers_free(ps_layers *l);
/* The factors of the last gradient. */
void fast__ps_layers_take(const fast_trainer *t, ps_layers *l);

/* What the owner of a range keeps. Guarded by the space: one update of a range at a time. */
typedef struct ps_owner {
    fast_trainer *t;          /* the server's */
    const ps_config *config;  /* the run's */
    const int64_t *writers;   /* actors' numbers, one after the other */
    int64_t writer_count;     /* of them */
    ps_tensors tensors;       /* of its space */
    bool first;               /* it owns a part of the first copy: its measures are told */
    float **round;            /* slack 0: [writers] gradients of the round; else NULL */
    bool *came;               /* slack 0: [writers] whose gradients came; else NULL */
    const float **list;       /* slack 0: [writers] those that came, in the order of ranks */
    _Atomic int64_t *carried; /* [writers] steps of each in the model; read by others too */
    fast_past past;           /* the last models, where late gradients are compensated */
    fast_implicit implicit;   /* measures the momentum */
    float *sum;               /* of the gradients that wait for an update; NULL where none does */
    float *before;            /* the model before an update; NULL without momentum */
    float *velocity;          /* the last change of the model, likewise; kept */
    float *state;             /* slack 0: [writers][its range] changes of the state; else NULL */
    int64_t states;           /* slack 0: of them, that came in this round */
    int64_t pending;          /* gradients in sum */
    int64_t begun;            /* steps of the run before this server began */
    int64_t updates;          /* made since */
} ps_owner;

/* Open the space of copy `replica` of the model, alike at everyone; `o` is NULL but at its owners.
 */
fast_err fast__ps_open(fast_trainer *t, const ps_config *c, int64_t replica,
                       const ps_layers *layers, ps_owner *o, ps_tensors *tensors_out,
                       fast_space **out);
/* The program of an owner of a copy. */
fast_err fast__ps_own(fast_trainer *t, const ps_config *c, int64_t replica);

/* A writer of the model: its memory besides the replica t->w, t->s. */
typedef struct ps_client {
    fast_trainer *t;                         /* the worker's, or the proxy's */
    const ps_config *c;                      /* the run's */
    fast_space *spaces[PS_REPLICAS_MAX + 1]; /* of the copies; NULL: lost */
    int64_t first;                           /* the copy that is read */
    ps_tensors tensors;                      /* of each space */
    int64_t writer_count;                    /* of the model */
    int64_t step;                            /* that this writer has taken */
    int64_t pushed;                          /* of them, when it last wrote */
    uint64_t seed;                           /* of what waits by chance */
    float *g;                                /* the newest gradient; of layers: no matter what */
    ps_layers layers;                        /* that are sent as factors */
    bool pieces;                             /* gradients are sent as they become final */
    int64_t low, high;                       /* what is final and not sent; empty where equal */
    fast_err err;                            /* the first failure to send it */
    char why[FAST_DETAIL_MAX];               /* its detail */
    float *sum;    /* gradients since the last push, with slack 0 kept; NULL where each is pushed */
    float *part;   /* what of it is sent; NULL without a filter */
    float *base;   /* the weights that were read, where differences are sent; else NULL */
    float *unseen; /* what others have not seen; NULL without a value bound */
    float *ends;   /* of epochs; NULL where all workers end theirs */
    float *seen;   /* the state that was read; NULL without any */
    int64_t round; /* slack 0: updates that the last read held */
    bool begun;    /* it has written since it came */
    bool over;     /* backup: too few workers were left for the update that was waited for */
    bool lost;     /* backup: a worker has crashed */
    int64_t version; /* of the last read */
    bool near;       /* a write and the read after it may be one visit of the model */
    bool got;        /* and the last was */
    bool coming;     /* parts of the model are still on their way to t->w */
    int64_t *held;   /* slack 0, kept: 1 + the step whose model t->w is; else NULL */
} ps_client;

fast_err fast__ps_client_open(fast_trainer *t, const ps_config *c, float *g, ps_client *out);
/* Let the first worker take its first steps alone. */
fast_err fast__ps_warm(ps_client *cl);
/* FAST_ENOMEM: what is to be kept is lost. */
fast_err fast__ps_client_close(ps_client *cl);
/* Rounds: read the model, unless a run that goes on brought it. */
fast_err fast__ps_begin(ps_client *cl);
/* Read the model to t->w, t->s, as new as the slack asks for; the last time as it is. */
fast_err fast__ps_fetch(ps_client *cl, bool last);
/* Parts of the model may be on their way after it: wait for a range (for gradients), and for all of
 * it. */
fast_err fast__ps_need(void *ctx, int64_t offset, int64_t count);
fast_err fast__ps_arrive(ps_client *cl);
/* A range of the gradient is final: send it, with others. For reports. */
void fast__ps_report(void *ctx, int64_t offset, int64_t count);
/* Do gradients go out in pieces? The same at everyone. */
bool fast__ps_pieces(const ps_config *c, const ps_layers *layers);
/* A gradient was computed, at cl->g; and where differences are sent, t->w was updated by it. */
void fast__ps_learned(ps_client *cl);
/* Write what was learned since the last push. */
fast_err fast__ps_push(ps_client *cl);
/* The writer has finished cl->step steps. */
fast_err fast__ps_tick(ps_client *cl);
/* What the model holds of each writer, in steps. */
fast_err fast__ps_ask_carried(ps_client *cl, float *counts);
/* Tell the run what the replica holds, after the last read. */
fast_err fast__ps_carry(ps_client *cl);
/* Has the epoch of the worker's next step ended without it? Then go to the next one. */
fast_err fast__ps_skip(ps_client *cl);
/* If this worker came to the end of an epoch, say so. */
fast_err fast__ps_epoch(ps_client *cl);

/* What is sent of the gradients that wait. */
typedef struct ps_selection {
    float lr;      /* rate, which stands for the rule */
    float bound;   /* part of its weight that an update has to move it by */
    float l1;      /* of the proximal step that is foreseen; 0: none is */
    float skip;    /* probability to wait all the same */
    fast_rng *rng; /* for that; else NULL */
    int64_t most;  /* how many, the largest by their relative size */
} ps_selection;
/* Of the sums that wait, take those to send to part, and leave the others. */
void fast__ps_select(int64_t count, const float *w, const ps_selection *how, float *sum,
                     float *part);

/* Proxies: a worker's program, and a proxy's. */
fast_err fast__ps_group_worker(fast_trainer *t, const ps_config *c);
fast_err fast__ps_proxy(fast_trainer *t, const ps_config *c, int64_t proxy);
