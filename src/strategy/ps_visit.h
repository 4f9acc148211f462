/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/ps.h"

/* A write that works on the memory of the model's owners: ps_visit.c. */

/* A change of an owner's range by one gradient. */
typedef struct ps_change {
    int64_t number; /* of the update at this owner, from 1 */
    double lr;      /* learning rate */
    float scale;    /* of the gradient */
} ps_change;

/* True if a writer's gradients may be written by visits: each is an update by itself, by the rule
 * alone, and all actors share memory. */
bool fast__ps_can_visit(const ps_writer *wr);
/* Write the newest gradient; with visit.fetched or cache_age read the weights after it to t->w.
 * Fails as fast__space_visit() does. */
fast_err fast__ps_push_visit(ps_writer *wr);
/* Count a write that is an update by itself at its owner, and return its change. ps_owner.c */
ps_change fast__ps_change_begin(ps_owner *o, const fast_space_update *u);
