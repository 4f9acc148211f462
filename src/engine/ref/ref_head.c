/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads: outputs with a loss of their own. A head copies its input; in training it adds its loss to
 * that of the pass.
 *
 *     forward    y = x;                L += a L_h(x)
 *     backward   dx += dy + a dL_h/dx
 *
 * The gradient of the loss is computed where it is used, so nothing is stored between the passes:
 * the batch of the backward pass has its answers, too.
 */
#include "engine/loss.h"
#include "engine/ref/ref.h"

#include "tensor/vector.h"

#include <string.h>

/* The gradient of the loss, before it is added. */
static fast_ref_need head_need(const fast_graph *graph, int node, int64_t batch)
{
    return (fast_ref_need){ .scratch = graph->nodes[node].count * batch };
}

/* Copy, and tell the loss, unless the pass told it before. */
static void head_forward(fast_ref_call *call)
{
    memcpy(call->y, call->x[0], (size_t)(call->n * call->node->count) * sizeof(float));
    if (fast__head_counts(call->node, call->pass) && !call->again)
        call->loss = fast__head_loss(call->graph, call->index, call->pass, call->x[0], NULL);
}

/* The readers' gradient, and that of the loss. */
static void head_backward(fast_ref_call *call)
{
    const int64_t count = call->n * call->node->count;

    if (!call->dx[0])
        return;
    fast__vector_add(count, call->dy, call->dx[0]);
    if (!fast__head_counts(call->node, call->pass))
        return;
    fast__head_loss(call->graph, call->index, call->pass, call->x[0], call->scratch);
    fast__vector_add(count, call->scratch, call->dx[0]);
}

const fast_ref_op fast__ref_head = { head_need, head_forward, head_backward };
