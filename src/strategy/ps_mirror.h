/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/ps_tree.h"

/* A model at each data centre, with significant changes between them: ps_mirror.c. */
enum { PS_MIRRORS_MAX = 64 }; /* data centres */

/* The data centres as the proxy of one sees them. */
typedef struct ps_mirrors {
    fast_trainer *t;                        /* the proxy's: t->w is the model of its data centre */
    const ps_config *c;                     /* the run's */
    const int64_t *ids;                     /* [count] proxies of the data centres, consecutive */
    int64_t count;                          /* data centres */
    int64_t me;                             /* this one */
    fast_space *spaces[PS_MIRRORS_MAX];     /* updates of the others to each data centre */
    _Atomic int64_t counts[PS_MIRRORS_MAX]; /* rounds of each data centre that the model holds;
                                               counted by their threads where memory is shared */
    int64_t done;                           /* step of the last round */
    float *own;                             /* all changes that this data centre has made */
    float *change;                          /* the newest of them */
} ps_mirrors;

/* Open the spaces. FAST_ENOMEM, FAST_EINVAL: the caller closes. */
fast_err fast__ps_mirrors_open(fast_trainer *t, const ps_config *c, int64_t me, ps_mirrors *m);
/* Close them; waits until the other data centres have left. All 0 is allowed. */
fast_err fast__ps_mirrors_close(ps_mirrors *m);
/* One round: update t->w by g, the mean of the workers' gradients, send the change to the others,
 * and add their updates. The `last` round waits for all of them. FAST_ETIMEDOUT names the data
 * centre that is behind. */
fast_err fast__ps_mirrors_round(ps_mirrors *m, const float *g, int64_t step, bool last);
