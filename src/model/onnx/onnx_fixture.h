/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/onnx/onnx_eval.h"

/*
 * Tests of ONNX: a whole graph on the evaluator, one node after the other. Inputs are bound by the
 * caller, initialisers are decoded here, and every value is left in `values`, for the caller to
 * compare and to free.
 */

/* Compute the graph; `values` has the inputs. */
static inline fast_err onnx_fixture_run(const fast_onnx_model *model, fast_onnx_tensor *values)
{
    fast_onnx_budget budget = fast__onnx_budget(1 << 20);

    for (int v = 0; v < model->value_count; v++)
        if (model->values[v].initializer.data)
            FAST_TRY(fast__onnx_tensor_decode(model->values[v].initializer, &values[v]));
    for (int n = 0; n < model->node_count; n++) {
        const fast_onnx_node *node = &model->nodes[n];
        const fast_onnx_tensor *in[FAST_ONNX_IO_MAX];
        fast_onnx_tensor out[FAST_ONNX_IO_MAX] = { 0 };
        fast_onnx_call call = { node, model->opset,      &budget, in, node->input_count,
                                out,  node->output_count };
        for (int i = 0; i < node->input_count; i++) {
            const int v = model->io[node->input_first + i];
            in[i] = v < 0 || !values[v].values ? NULL : &values[v];
        }
        const fast_err err = fast__onnx_eval(&call);
        for (int i = 0; i < node->output_count; i++) {
            const int v = model->io[node->output_first + i];
            if (v >= 0)
                values[v] = out[i];
            else
                fast__onnx_tensor_fini(&out[i]);
        }
        FAST_TRY(err);
    }
    return FAST_OK;
}
