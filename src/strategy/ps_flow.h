/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/comm.h"

/* Gradients on their way to the next proxy or server: ps_flow.c has the protocol. */

/* A sender's flow of gradients to the next proxy or server. */
typedef struct ps_flow {
    fast_actor *actor; /* the sender; NULL: gradients are sent as they come */
    int64_t to;        /* actor that grants slots */
    bool ordered;      /* gradients wait for their slot */
    double rate;       /* bytes a second; 0: any */
    int64_t free_at;   /* fast__actor_time() before which no gradient is sent */
    int64_t began_at;  /* time at which the last one was */
    int64_t sent;      /* bytes that the actor had sent then */
    int64_t number;    /* of slots that were asked for */
} ps_flow;
/* Wait until a gradient may be sent: for the rate, and for this flow's slot among those with larger
 * priorities. FAST_ETIMEDOUT names the receiver. */
fast_err fast__ps_flow_begin(ps_flow *flow, int64_t priority);
/* After it was sent: let the next flow have its slot. */
fast_err fast__ps_flow_end(ps_flow *flow);

/* The flows of a receiver. It grants slots in its waits until they are closed. FAST_ENOMEM. */
typedef struct ps_flows ps_flows;
fast_err fast__ps_flows_open(fast_actor *actor, int64_t senders, ps_flows **out);
void fast__ps_flows_close(ps_flows *flows); /* NULL is allowed */
