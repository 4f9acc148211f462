/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts by the names of layers. The stage that begins with a layer has, before it, no other layer
 * with parameters:
 *
 *     conv1  relu  pool | conv2  relu  pool | dense1
 *                         conv2               dense1       --cuts conv2,dense1
 */
#include "split/named_cuts.h"

#include "split/stage.h"

#include <stdio.h>
#include <string.h>

int64_t fast__split_cut_count(const char *cuts)
{
    int64_t count = cuts[0] != '\0';

    for (const char *c = cuts; *c; c++)
        count += *c == ',';
    return count;
}

/* The name of a node's first tensor of parameters; NULL: it has none. */
static const char *tensor_of(const fast_graph *graph, int node)
{
    int64_t offset, count;

    if (node == 0 || !fast__node_params(graph, node, &offset, &count))
        return NULL;
    for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
        if (graph->nodes[node].weight[w] >= 0)
            return graph->params.segments[graph->nodes[node].weight[w]].name;
    return NULL;
}

/* The first node with parameters behind another; 0: none. */
static int next_layer(const fast_graph *graph, int node)
{
    for (int i = node + 1; i < graph->node_count; i++)
        if (tensor_of(graph, i))
            return i;
    return 0;
}

void fast__split_cut_name(const fast_graph *graph, int end, char *text, size_t size)
{
    const int node = next_layer(graph, end);
    const char *name = node > 0 ? tensor_of(graph, node) : "";
    const char *dot = strrchr(name, '.');

    snprintf(text, size, "%.*s", dot ? (int)(dot - name) : (int)strlen(name), name);
}

/* The first node whose tensors have a name that begins with a layer's; 0: none. */
static int find_layer(const fast_graph *graph, const char *layer)
{
    const size_t length = strlen(layer);

    for (int i = next_layer(graph, 0); i > 0; i = next_layer(graph, i)) {
        const char *name = tensor_of(graph, i);

        if (strncmp(name, layer, length) == 0 && (name[length] == '.' || !name[length]))
            return i;
    }
    return 0;
}

/* The last place before a node where the network can be cut, behind the layer before; 0: none. */
static int cut_before(const fast_graph *graph, int node)
{
    for (int k = node - 1; k > 0; k--) {
        if (fast__split_can_cut(graph, k))
            return k;
        if (tensor_of(graph, k))
            return 0;
    }
    return 0;
}

int fast__split_cut_list(const fast_graph *graph, int *ends)
{
    const int first = next_layer(graph, 0);
    int count = 0;

    FAST_ASSERT(graph->node_count > 1);
    for (int i = first > 0 ? next_layer(graph, first) : 0; i > 0; i = next_layer(graph, i)) {
        const int cut = cut_before(graph, i);

        if (cut > 0)
            ends[count++] = cut;
    }
    return count;
}

/* Refuse a layer that no stage can begin with, and name the next one that one can. */
static fast_err refuse(const fast_graph *graph, const char *cuts, const char *layer, int node)
{
    char next[64] = "";

    for (int i = next_layer(graph, node); i > 0 && !next[0]; i = next_layer(graph, i)) {
        const int cut = cut_before(graph, i);

        if (cut > 0)
            fast__split_cut_name(graph, cut, next, sizeof next);
    }
    return fast__fail(FAST_EINVAL,
                      "cuts=%.100s: the model cannot be cut before %.60s, where more than one "
                      "tensor passes%s%s",
                      cuts, layer, next[0] ? "; the next stage can begin with " : "", next);
}

fast_err fast__split_named(const fast_graph *graph, const char *cuts, int64_t count, int *ends)
{
    const char *at = cuts;
    int before = 0;

    FAST_ASSERT(count == fast__split_cut_count(cuts) + 1);
    for (int64_t s = 0; s < count - 1; s++) {
        char layer[64];
        const size_t length = strcspn(at, ",");

        snprintf(layer, sizeof layer, "%.*s", (int)length, at);
        at += length + (at[length] == ',');
        const int node = find_layer(graph, layer);
        if (node == 0)
            return fast__fail(FAST_EINVAL,
                              "cuts=%.100s: the model has no layer %.60s; fast show "
                              "lists its tensors",
                              cuts, layer);
        if (node == next_layer(graph, 0))
            return fast__fail(FAST_EINVAL,
                              "cuts=%.100s: the first stage begins with %.60s already; name the "
                              "first layers of the later stages",
                              cuts, layer);
        if (node <= before)
            return fast__fail(FAST_EINVAL,
                              "cuts=%.100s: %.60s comes before the layer in front of it; name "
                              "layers in the order of the model",
                              cuts, layer);
        ends[s] = cut_before(graph, node);
        if (ends[s] == 0)
            return refuse(graph, cuts, layer, node);
        if (next_layer(graph, before) > ends[s])
            return fast__fail(FAST_EINVAL, "cuts=%.100s: the stage before %.60s has no parameters",
                              cuts, layer);
        before = ends[s];
    }
    ends[count - 1] = graph->node_count - 1;
    return FAST_OK;
}
