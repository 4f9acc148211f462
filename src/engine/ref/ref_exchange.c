/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value that changes its layout over the shards in the middle of a pass: y is what arrives for x,
 * dx what arrives for dy. Saved: what has arrived, from which y is computed again.
 */
#include "engine/pass_parts.h"
#include "engine/ref/ref.h"

#include <string.h>

/* Room for all that comes, of values and of gradients. */
static fast_ref_need exchange_need(const fast_graph *graph, int index, int64_t batch)
{
    const fast_node *node = &graph->nodes[index];

    return (fast_ref_need){ .saved = batch * node->count,
                            .scratch = batch * graph->nodes[node->inputs[0]].count };
}

/* Values leave, and come to the saved memory; gradients come to the scratch memory. */
static void exchange_offer(fast_ref_call *call, bool back, fast_pass_due *due)
{
    if (!back)
        *due = (fast_pass_due){ call->index, call->x[0], call->saved };
    else if (call->dx[0])
        *due = (fast_pass_due){ call->index, call->dy, call->scratch };
}

/* The values that came; when they are computed again the same ones. */
static void exchange_forward(fast_ref_call *call)
{
    memcpy(call->y, call->saved, (size_t)(call->n * call->node->count) * sizeof *call->y);
}

/* Add the gradients that came. */
static void exchange_backward(fast_ref_call *call)
{
    for (int64_t i = 0; call->dx[0] && i < call->n * call->in->count; i++)
        call->dx[0][i] += call->scratch[i];
}

const fast_ref_op fast__ref_exchange = { .need = exchange_need,
                                         .forward = exchange_forward,
                                         .backward = exchange_backward,
                                         .offer = exchange_offer };
