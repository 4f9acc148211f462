/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/ps.h"

/* The tree of proxies between workers and servers (ps_tree.c), and the flows along its edges. */

/* A proxy: its workers, and the workers or proxies that it serves. */
typedef struct ps_node {
    int64_t level;          /* from 1, whose proxies write the model, to `levels` */
    int64_t index;          /* of the proxy in its level */
    int64_t id;             /* its actor */
    const int64_t *members; /* actors that it serves, of consecutive numbers */
    int64_t size;           /* number of members */
    int64_t first;          /* rank of its first worker */
    int64_t workers;        /* workers below it */
    double weight; /* of its mean in the round above: 1 where all proxies there have equally
                               many workers */
} ps_node;

/* Return the number of proxies of a level, from 1. */
int64_t fast__ps_width(const ps_config *c, int64_t workers, int64_t level);
/* Return the number of proxies of all levels. */
int64_t fast__ps_proxies(const ps_config *c, int64_t workers);
/* Return proxy `index` of a level. */
ps_node fast__ps_node(const ps_config *c, const fast_trainer *t, int64_t level, int64_t index);
/* Return the proxy of a level that worker `rank` is below. */
ps_node fast__ps_node_above(const ps_config *c, const fast_trainer *t, int64_t level, int64_t rank);

/* Set up the flow of this actor to `to`, as the options say. */
fast_err fast__ps_flow_init(fast_trainer *t, const ps_config *c, int64_t to, ps_flow *flow);
/* Tell the user if the rate has no effect on a worker, which writes to a space. */
void fast__ps_flow_note(fast_trainer *t, const ps_config *c, const fast_space *space);
/* Open the flows of `senders` to this actor, if the options give them an order. */
fast_err fast__ps_flows_init(fast_trainer *t, const ps_config *c, int64_t senders, ps_flows **out);
/* Return the priority of a gradient of this actor: smaller is first. */
int64_t fast__ps_priority(const fast_trainer *t, const ps_config *c);
