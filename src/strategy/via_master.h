/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/strategy.h"

/*
 * Sums of vectors at a master, the one server of a run, and its answers: for strategies whose
 * workers exchange in rounds. With a transfer T_w and an addition R_w of the model, n workers and a
 * master at a node of its own take for a sum and its answer (Langer et al. 2020, section 3.4.1)
 *
 *     tree       2 ceil(log2(n + 1)) T_w + ceil(log2 n) R_w        along a binomial tree
 *     scatter    (2 + 2 (n - 1) / n) T_w + (n - 1) / n R_w         workers sum slices, which the
 *                                                                  master puts together; back alike
 *     direct     2 n T_w + (n - 1) R_w                             every worker with the master
 *
 * All sums are in the canonical order of the workers, so that they are those of an allreduce to the
 * bit. Vectors of another length than the model's (statistics of batch norm) take the tree.
 */
typedef enum fast_via {
    FAST_VIA_NONE, /* no master */
    FAST_VIA_TREE,
    FAST_VIA_SCATTER,
    FAST_VIA_DIRECT
} fast_via;

/* One actor's end of it, at a worker or at the master. */
typedef struct fast_via_master {
    fast_trainer *t;    /* the actor's */
    fast_group *group;  /* of the workers and the master */
    fast_via via;       /* path of models */
    float *scratch;     /* vectors or slices that arrive */
    const float **list; /* [workers] those that are summed; NULL with a tree */
    float *sum;         /* the master's: the last sum; in scratch */
} fast_via_master;

/* Open an end. FAST_ENOMEM: nothing is left open. */
fast_err fast__via_open(fast_trainer *t, fast_via via, fast_via_master *out);
/* Close it. All 0 is allowed. */
void fast__via_close(fast_via_master *m);

/* At a worker: send x, `count` floats, to the master; with slices x changes. */
fast_err fast__via_send(fast_via_master *m, float *x, int64_t count);
/* At a worker: receive the master's answer in x. */
fast_err fast__via_receive(fast_via_master *m, float *x, int64_t count);
/* At the master: receive the sum of all workers' vectors in m->sum. *over_out is true if all
 * workers have ended instead. */
fast_err fast__via_sum(fast_via_master *m, int64_t count, bool *over_out);
/* At the master: send x to all workers. */
fast_err fast__via_answer(fast_via_master *m, float *x, int64_t count);

/* Add the messages of `times` exchanges with the master in a step to a forecast. */
void fast__via_cost(fast_via via, int64_t workers, double times, fast_cost *out);
/* FAST_EINVAL if there are more workers than the path can sum. */
fast_err fast__via_check(const char *strategy, fast_via via, int64_t workers);
