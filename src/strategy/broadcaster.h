/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/exchange.h"

/*
 * The strategy `broadcast`: broadcaster.c has the worker's program and corrected gossip, and
 * broadcaster_tree.c the spanning tree that is rebuilt at run time.
 */

typedef struct fast_broadcast_config {
    int how;        /* FAST_BROADCAST_TREE or FAST_BROADCAST_GOSSIP */
    int64_t period; /* steps between the updates of a worker */
    int64_t slack;  /* updates by which a worker may be ahead of another one; -1: any number */
    int64_t arity;  /* tree: children of a worker, at most */
    double slow;    /* tree: a link whose answers take this many times its usual time is avoided;
                       0: never */
    int64_t retain; /* tree: updates that a worker retains for new neighbours; 0: by the slack */
    int64_t rounds; /* gossip: rounds; 0: as many as `sure` asks for */
    double sure;    /* gossip: probability with which the rounds alone reach all workers */
    int64_t width;  /* gossip: ranks on each side that the correction sends to; 0: no correction */
} fast_broadcast_config;

enum { FAST_BROADCAST_TREE, FAST_BROADCAST_GOSSIP };

/* Kinds of messages. Their first word is the number of the sender's program times KINDS, plus the
 * kind: a run that is canceled and continued starts its programs again. */
enum {
    FAST_BROADCAST_UPDATE, /* a sum of gradients; words as below */
    FAST_BROADCAST_ECHO,   /* answer to a neighbour's own update: its words */
    FAST_BROADCAST_PLAN,   /* a tree: word 1 is its version, the part the parent of each rank */
    FAST_BROADCAST_AVOID,  /* to the coordinator: the link to the rank of word 1 is slow; -1: the
                              sender needs a tree. Word 2 is the version of its own */
    FAST_BROADCAST_TOTAL,  /* worker 1 has ended, after as many updates as word 2 says */
    FAST_BROADCAST_DONE,   /* worker 1 has all updates of all workers */
    FAST_BROADCAST_KINDS
};
/* Words of an update. */
enum {
    FAST_BROADCAST_KIND,
    FAST_BROADCAST_ORIGIN, /* rank whose gradients it has */
    FAST_BROADCAST_NUMBER, /* of the update, rising at its origin */
    FAST_BROADCAST_STEP,   /* of the origin */
    FAST_BROADCAST_LABEL,  /* gossip: round in which it was sent */
    FAST_BROADCAST_STEPS   /* of the origin, whose gradients it is the sum of */
};

/* Numbers of vectors in snapshots: own gradients not sent yet, and those of the next update. */
enum { FAST_BROADCAST_SUM = 6, FAST_BROADCAST_DUE = 7 };

/* An update that may be sent again. */
typedef struct fast_broadcast_item {
    fast_buffer *buffer;           /* frozen, with the gradient; NULL: an unused slot */
    size_t offset;                 /* of the gradient */
    int64_t words[FAST_MSG_WORDS]; /* of its message */
} fast_broadcast_item;

/* The tree at a worker. */
typedef struct fast_broadcast_tree {
    int64_t version;   /* of the plan: the largest wins */
    int64_t *parent;   /* [workers] rank of the parent, ROOT or OUTSIDE */
    bool *avoided;     /* [workers][workers] coordinator: links that are slow; NULL: none is */
    bool wanted;       /* coordinator: a link was reported, or a worker needs the tree */
    bool *neighbour;   /* [workers] linked in the tree */
    bool *was;         /* [workers] scratch: neighbours before a change */
    int64_t *children; /* [workers] scratch */
    int64_t *order;    /* [workers] scratch: ranks in the order in which they joined */
    int64_t *pending;  /* [workers] time of the oldest own update that was not answered; or -1 */
    double *usual;     /* [workers] mean time of the first answers, in ns */
    int64_t *answers;  /* [workers] answers so far */
    bool *told;        /* [workers] the link was reported as slow */
    int64_t rebuilt;   /* plans that replaced an earlier one here */
} fast_broadcast_tree;

/* A worker. */
typedef struct fast_broadcaster {
    fast_trainer *t;                /* the worker */
    const fast_broadcast_config *c; /* its options */
    int64_t program;                /* number of this program: calls of the run so far */
    int64_t life;                   /* restarts of this worker, in all runs that it continues */
    int64_t cuts;                   /* snapshots before the updates in `log` */
    fast_broadcast_tree tree;       /* how=tree */
    fast_broadcast_item *log;       /* [retain] ring of the last updates; NULL: none are */
    int64_t log_next;               /* next slot of the ring */
    int64_t retain;                 /* length of log */
    int64_t rounds;                 /* gossip: rounds */
    int64_t window;                 /* updates of an origin that are told apart */
    uint8_t *seen;                  /* [workers][window] label + 1 of each update; 0: not here */
    int64_t *top;                   /* [workers] largest number seen */
    int64_t *got;                   /* [workers] updates of that worker */
    int64_t *total;                 /* [workers] its updates in all; -1: it has not ended */
    bool *done;                     /* [workers] it has all updates */
    bool *silent;                   /* [workers] it is not waited for until it is heard of */
    float *sum;                     /* own gradients that are not sent yet */
    int64_t sum_count;              /* number of them */
    float *due;                     /* gradients of the next update of w */
    double *due_shares;             /* their contributions */
    double *shares;                 /* scratch */
    int64_t due_count;              /* gradients in due */
    int64_t heard_ns;               /* time of the last message */
} fast_broadcaster;

/* Return the first word of a message of a kind. */
int64_t fast__broadcast_kind(const fast_broadcaster *b, int64_t kind);
/* Send a message of words alone to a worker; one that is down gets none. */
fast_err fast__broadcast_tell(fast_broadcaster *b, int64_t rank, const int64_t *words);
/* Send an update to a worker; one that is down gets none. */
fast_err fast__broadcast_send(fast_broadcaster *b, int64_t rank, const fast_broadcast_item *item);

/* Forget the updates that were retained before a snapshot: none was in flight then, and all workers
 * have them. */
void fast__broadcast_forget(fast_broadcaster *b);

/* Make the first tree, the same at all workers. FAST_ENOMEM. */
fast_err fast__tree_init(fast_broadcaster *b);
/* Have snapshots include the tree. */
fast_err fast__tree_remember(fast_broadcaster *b);
void fast__tree_fini(fast_broadcaster *b);
/* Tell words to all neighbours but one; -1: to all. */
fast_err fast__tree_tell(fast_broadcaster *b, const int64_t *words, int64_t but);
/* Forward an update to all neighbours but the one that it came from; -1: this worker's own. */
fast_err fast__tree_forward(fast_broadcaster *b, const fast_broadcast_item *item, int64_t from);
/* Look after the links and, at the coordinator, the tree: call it at each step and in waits. */
fast_err fast__tree_look(fast_broadcaster *b);
/* Handle an answer, a plan or a report. FAST_EFORMAT. */
fast_err fast__tree_handle(fast_broadcaster *b, const fast_msg *msg);

/* Arrange the ranks with up[i] in a tree of at most `arity` children each, in the order of ranks:
 * each joins the first that has room; the root is the first rank, and the others are OUTSIDE. Links
 * of avoided[workers][workers], which may be NULL, are used only if no other tree is left.
 * children[] and order[] are scratch. */
enum { FAST_TREE_ROOT = -1, FAST_TREE_OUTSIDE = -2 };
void fast__tree_plan(int64_t workers, int64_t arity, const bool *up, const bool *avoided,
                     int64_t *parent, int64_t *children, int64_t *order);

/* Return the probability that push gossip reaches all n workers in `rounds` rounds: in each, every
 * worker that has the message sends it to a random other one. Exact; n at most 512. */
double fast__spread_probability(int64_t n, int64_t rounds);
/* Return the least number of rounds that reaches all with at least this probability, below 1: exact
 * for n up to 512, above by the limit law of Pittel (1987). */
int64_t fast__spread_rounds(int64_t n, double sure);
