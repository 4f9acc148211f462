/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/network.h"
#include "model/network_text.h"

/*
 * ONNX files: import to the network language with weights, and export of a graph with weights.
 *
 *     net.onnx --onnx_file.c--> nodes, tensors --onnx_import.c--> text of layers + weights
 *
 * Nodes whose inputs are constants are computed at import (onnx_eval.c); every other node becomes
 * layers. Files are untrusted: sizes, counts and the memory of computed constants are bounded.
 *
 *     fast_text text = { 0 };
 *     fast_onnx_weights *weights;
 *     fast__onnx_import("net.onnx", &input, &text, &weights);    text of layers, without a loss
 *     ... parse the text, fit it to the data ...
 *     fast__onnx_weights_set(weights, graph);                    learners start with the weights
 *     fast__onnx_save(graph, w, s, "trained.onnx");              after training
 */

/* Weights of an imported network, by segment name. */
typedef struct fast_onnx_weights fast_onnx_weights;

/* Tell whether a model's spec names an ONNX file ("net.onnx", "onnx:PATH", "onnx:file=PATH"), and
 * set *path_out to the path inside it. */
bool fast__onnx_spec(const char *spec, const char **path_out);

/* Read an ONNX file for data of this kind (`input` may be NULL): append the network without its
 * loss line to `text`, and give the weights of its segments. FAST_ENOENT, FAST_EFORMAT for a
 * damaged file; FAST_ENOTSUP names the node and the operator or attribute that has no layer. */
fast_err fast__onnx_import(const char *path, const fast_model_input *input, fast_text *text,
                           fast_onnx_weights **out);

/* Read an ONNX file in memory, as fast__onnx_import() does. */
fast_err fast__onnx_parse(const void *data, size_t size, const fast_model_input *input,
                          fast_text *text, fast_onnx_weights **out);

/* Let fast__graph_init() give the imported weights: allocates graph->initial. FAST_EINVAL if the
 * graph has a segment that the file has not. */
fast_err fast__onnx_weights_set(const fast_onnx_weights *weights, fast_graph *graph);
void fast__onnx_weights_free(fast_onnx_weights *weights); /* NULL is allowed */

/* Tell whether a file to save is to be an ONNX file: its name ends with ".onnx". */
bool fast__onnx_path(const char *path);

/* Check before training that a graph can be saved. FAST_ENOTSUP names the layer that cannot. */
fast_err fast__onnx_check(const fast_graph *graph);

/* Write a graph with its parameters and state as an ONNX file, whose input and output have a free
 * batch dimension. FAST_ENOTSUP names a layer that ONNX has no operator for, FAST_EIO. */
fast_err fast__onnx_save(const fast_graph *graph, const float *params, const float *state,
                         const char *path);
