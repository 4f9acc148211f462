/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the network language: any text gives an error in one line or a graph that engines may rely
 * on. Small graphs are also initialised, so that every rule of first weights sees odd shapes.
 */
#include "base/memory.h"
#include "model/network.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WEIGHTS_MAX = 1 << 14 };

static void init_small(const fast_graph *graph)
{
    float *w = NULL;
    float *state = NULL;

    if (graph->params.count > WEIGHTS_MAX || graph->state.count > WEIGHTS_MAX)
        return;
    FAST_ASSERT(fast__alloc("w", graph->params.count, sizeof *w, &w) == FAST_OK);
    FAST_ASSERT(fast__alloc("state", graph->state.count, sizeof *state, &state) == FAST_OK);
    fast__graph_init(graph, 1, 0, w, state);
    fast__free(w);
    fast__free(state);
}

static void check_error(fast_err err)
{
    FAST_ASSERT(err == FAST_EINVAL);
    FAST_ASSERT(strlen(fast_error_detail()) > 0);
    FAST_ASSERT(strchr(fast_error_detail(), '\n') == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fast_network *network = NULL;
    fast_graph *graph = NULL;
    fast_err err = fast__network_parse((const char *)data, size, &network);

    if (err) {
        check_error(err);
        FAST_ASSERT(network == NULL);
        return 0;
    }
    err = fast__network_graph(network, &graph);
    if (err) {
        check_error(err);
        FAST_ASSERT(graph == NULL);
    } else {
        FAST_ASSERT(fast__graph_check(graph) == FAST_OK);
        init_small(graph);
    }
    fast__graph_free(graph);
    fast_network_free(network);
    return 0;
}
