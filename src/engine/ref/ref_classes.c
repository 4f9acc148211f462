/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of a range of classes: [P, K] or [K] -> [P, 4] or [4] (engine/class_range.h). Saved: the
 * place of each label in the range.
 */
#include "engine/class_range.h"
#include "engine/ref/ref.h"

/* Rows of one sample. */
static int64_t rows_of(const fast_node *node)
{
    return node->count / FAST_FIGURES;
}

static fast_ref_need classes_need(const fast_graph *graph, int index, int64_t batch)
{
    return (fast_ref_need){ .saved = batch * rows_of(&graph->nodes[index]) };
}

static void classes_forward(fast_ref_call *call)
{
    const int64_t rows = rows_of(call->node);

    fast__class_figures(call->n * rows, call->in->count / rows, call->node->columns[0], call->x[0],
                        call->pass->batch->labels, call->saved, call->y);
}

static void classes_backward(fast_ref_call *call)
{
    const int64_t rows = rows_of(call->node);

    if (call->dx[0])
        fast__class_figures_back(call->n * rows, call->in->count / rows, call->x[0], call->saved,
                                 call->y, call->dy, call->dx[0]);
}

const fast_ref_op fast__ref_classes = { classes_need, classes_forward, classes_backward };
