/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that move or add whole blocks: residual add, concatenation along the channels, the last
 * position of a sequence, flattening; and the user's own operators, which are called directly.
 *
 *     add       y = sum of x[k]             dx[k] += dy
 *     concat    y = x[0] | x[1] | ...       dx[k] += its columns of dy
 *     last      y = x[T - 1]                dx[T - 1] += dy
 *     part      y = x[a .. a + n)           dx[a .. a + n) += dy
 *     flatten   y = x                       dx += dy
 */
#include "engine/ref/ref.h"

#include "tensor/vector.h"

#include <string.h>

/* y = x[0] + x[1] + ..., in this order. */
static void add_forward(fast_ref_call *call)
{
    const int64_t count = call->n * call->node->count;
    memcpy(call->y, call->x[0], (size_t)count * sizeof(float));
    for (int k = 1; k < call->node->input_count; k++)
        fast__vector_add(count, call->x[k], call->y);
}

/* Each input gets the whole gradient. */
static void add_backward(fast_ref_call *call)
{
    for (int k = 0; k < call->node->input_count; k++)
        if (call->dx[k])
            fast__vector_add(call->n * call->node->count, call->dy, call->dx[k]);
}

const fast_ref_op fast__ref_add = { NULL, add_forward, add_backward };

/* The number of pieces that concatenation divides a sample into: sequences have channels last. */
static int64_t cuts(const fast_node *node)
{
    return node->rank == 2 ? node->shape[0] : 1;
}

/* Visit each input's piece of every row of the output: copy it forward, add its gradient backward.
 *
 *     row of y   | x[0]'s piece | x[1]'s piece | ...      `width` floats
 */
static void concat(const fast_ref_call *call, bool backward)
{
    const int64_t rows = call->n * cuts(call->node);
    const int64_t width = call->node->count / cuts(call->node);
    int64_t at = 0;
    for (int k = 0; k < call->node->input_count; k++) {
        const int64_t part = call->graph->nodes[call->node->inputs[k]].count / cuts(call->node);
        for (int64_t r = 0; r < rows; r++) {
            if (!backward)
                memcpy(call->y + r * width + at, call->x[k] + r * part,
                       (size_t)part * sizeof(float));
            else if (call->dx[k])
                fast__vector_add(part, call->dy + r * width + at, call->dx[k] + r * part);
        }
        at += part;
    }
    FAST_ASSERT(at == width);
}

/* y's rows are those of the inputs side by side. */
static void concat_forward(fast_ref_call *call)
{
    concat(call, false);
}

/* Each input gets its columns of the gradient. */
static void concat_backward(fast_ref_call *call)
{
    concat(call, true);
}

const fast_ref_op fast__ref_concat = { NULL, concat_forward, concat_backward };

/* Elements of a sample before those that are copied. */
static int64_t skipped(const fast_ref_call *call)
{
    return call->node->op == FAST_OP_PART ? call->node->columns[0]
                                          : call->in->count - call->node->count;
}

/* y = the last C floats of each sample, or a part of them. */
static void last_forward(fast_ref_call *call)
{
    const int64_t C = call->node->count;
    const int64_t skip = skipped(call);
    for (int64_t i = 0; i < call->n; i++)
        memcpy(call->y + i * C, call->x[0] + i * call->in->count + skip, (size_t)C * sizeof(float));
}

/* Other elements get nothing. */
static void last_backward(fast_ref_call *call)
{
    const int64_t C = call->node->count;
    const int64_t skip = skipped(call);
    for (int64_t i = 0; call->dx[0] && i < call->n; i++)
        fast__vector_add(C, call->dy + i * C, call->dx[0] + i * call->in->count + skip);
}

const fast_ref_op fast__ref_last = { NULL, last_forward, last_backward };

/* Row major order is that of the flat vector: a sum of one input. */
const fast_ref_op fast__ref_flatten = { NULL, add_forward, add_backward };

/* Elements of one sample of each input, then of the output. */
static void custom_sizes(const fast_ref_call *call, int64_t sizes[FAST_INPUTS_MAX + 1])
{
    for (int k = 0; k < call->node->input_count; k++)
        sizes[k] = call->graph->nodes[call->node->inputs[k]].count;
    sizes[call->node->input_count] = call->node->count;
}

/* Pass a weight, or a frozen tensor of the state, as one input more. */
static void custom_operand(fast_ref_call *call)
{
    const int k = call->node->input_count;
    const int64_t frozen = call->node->state[0];
    if (call->node->weight[FAST_W_WEIGHT] >= 0)
        call->x[k] = fast__ref_weight(call, FAST_W_WEIGHT);
    else if (frozen >= 0)
        call->x[k] = call->pass->state + call->graph->state.segments[frozen].offset;
}

/* The operator's function, on the samples as they are. */
static void custom_forward(fast_ref_call *call)
{
    int64_t sizes[FAST_INPUTS_MAX + 1];
    custom_sizes(call, sizes);
    custom_operand(call);
    call->node->custom->forward(call->node->custom_config, call->n, sizes, call->x, call->y);
}

/* The operator's function adds to dx; entries are NULL where no gradient is needed. */
static void custom_backward(fast_ref_call *call)
{
    int64_t sizes[FAST_INPUTS_MAX + 1];
    float *grad = fast__ref_grad(call, FAST_W_WEIGHT);
    custom_sizes(call, sizes);
    custom_operand(call);
    if (grad) {
        memset(grad, 0,
               (size_t)fast__ref_weight_count(call->graph, call->node, FAST_W_WEIGHT) *
                   sizeof *grad);
        call->dx[call->node->input_count] = grad;
    }
    call->node->custom->backward(call->node->custom_config, call->n, sizes, call->x, call->y,
                                 call->dy, call->dx);
}

const fast_ref_op fast__ref_custom = { NULL, custom_forward, custom_backward };
