/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "engine/graph.h"

/*
 * The network language, one layer a line:
 *
 *     # a comment
 *     input 1 28 28                       [C, H, W]; `input 784`; `input 64 tokens=96`
 *     conv 20 kernel=5                    a layer reads the layer above
 *     max_pool 2
 *     relu
 *     skip: conv 50 kernel=3 pad=1 bias=no    a name, for later lines
 *     bn: batch_norm from skip                explicit input
 *     add bn skip                             several inputs
 *     dense 10
 *     loss cross_entropy smoothing=0.1        last; cross_entropy is the default
 *
 * Models by name are functions that write this language: there is one way to build a graph.
 */

/* The properties of the data that a model must fit. */
typedef struct fast_model_input {
    int rank;           /* rank of one sample: [C], [T, C], [C, H, W]; [T] for tokens */
    int64_t shape[3];   /* shape of one sample */
    int64_t outputs;    /* classes, or regression outputs */
    bool tokens;        /* whole numbers below `vocabulary` */
    int64_t vocabulary; /* number of different tokens */
    bool regression;    /* targets instead of labels */
    int64_t positions;  /* labels per sample; 0 means 1 */
} fast_model_input;

/* Parse a text with an `input` line to a graph, which is one block of memory, freed by
 * fast__graph_free(). Errors name line and word. */
fast_err fast__graph_parse(const char *text, fast_graph **out);
void fast__graph_free(fast_graph *graph);

/* Parse a text to a network, without shapes. */
fast_err fast__network_parse(const char *text, size_t size, fast_network **out);

/* Build the graph of a network that has an `input` line. */
fast_err fast__network_graph(const fast_network *network, fast_graph **out);

/* Build the graph of a network for given data: they determine the shape if there is no `input`
 * line, and the loss if there is no `loss` line (mse for regression). FAST_EINVAL says why a
 * network does not fit. */
fast_err fast__network_fit(const fast_network *network, const fast_model_input *input,
                           fast_graph **out);

/* List the layers, for help and docs. */
const fast_part *fast__layer_list(int64_t *count_out);

struct fast_text; /* model/network_text.h: a growing buffer */

/* A model by name. */
typedef struct fast_model {
    const char *name;           /* as it is typed */
    const char *summary;        /* one line, for help */
    const fast_option *options; /* options of its configuration */
    size_t config_size;         /* bytes of its configuration */
    int blocks;                 /* residual blocks of a stage; 0 for models without stages */
    bool writes_loss;           /* its text ends with the line `loss` */
    /* Append the network's text to `text`. `model` is the row itself: rows may share a function. */
    fast_err (*write)(const struct fast_model *model, const void *config,
                      const fast_model_input *input, struct fast_text *text);
} fast_model;

extern const fast_model *const fast__models[]; /* ends with NULL */

/* Build the graph of "lenet", "resnet20:width=32", or "file:PATH". *text_out receives the network's
 * text, which the caller frees with fast__free(). */
fast_err fast__model_open(const char *spec, const fast_model_input *input, fast_graph **out,
                          char **text_out);

/* Draw the initial weights w and state of the graph's layouts: `member` numbers models of an
 * ensemble, 0 is the run's. */
void fast__graph_init(const fast_graph *graph, uint64_t seed, uint64_t member, float *w,
                      float *state);
/* Draw those of the layers that are in `layers`, by node, with the bits that they have in the whole
 * model; the rest is left as it is. */
void fast__graph_init_layers(const fast_graph *graph, uint64_t seed, const bool *layers, float *w,
                             float *state);
