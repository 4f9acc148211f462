/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the import of ONNX files: any bytes give an error with a sentence, or a network that can
 * be parsed and built, in bounded memory. Half of the inputs know the shape of their data.
 */
#include "base/memory.h"
#include "model/onnx/onnx.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const fast_model_input input = { .rank = 1, .shape = { 4 }, .outputs = 3 };
    fast_text text = { 0 };
    fast_onnx_weights *weights = NULL;
    fast_graph *graph = NULL;
    fast_err err = FAST_OK;

    err = fast__onnx_parse(data, size, size % 2 ? &input : NULL, &text, &weights);
    if (!err) {
        FAST_ASSERT(weights != NULL);
        FAST_ASSERT(text.size > 0);
        err = fast__graph_parse(text.data, &graph);
        /* Sizes that only the network's rules know, such as a pad of half a kernel. */
        FAST_ASSERT(!err || err == FAST_EINVAL);
    }
    if (graph)
        err = fast__onnx_weights_set(weights, graph);
    FAST_ASSERT(!err || strlen(fast_error_detail()) > 0);
    fast__graph_free(graph);
    fast__onnx_weights_free(weights);
    fast__text_fini(&text);
    return 0;
}
