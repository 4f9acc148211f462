/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes topology files: any text gives an error in one line, or a graph whose peers are ranks and
 * whose lists agree in both directions.
 */
#include "base/memory.h"
#include "comm/topology.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const fast_topology *topology)
{
    const int64_t degree = fast_topology_degree_max(topology);
    const int64_t size = fast_topology_size(topology);
    int64_t *ranks = NULL;
    double *weights = NULL;
    int64_t sent = 0;
    int64_t received = 0;

    FAST_ASSERT(fast__alloc("ranks", degree, sizeof *ranks, &ranks) == FAST_OK);
    FAST_ASSERT(fast__alloc("weights", degree, sizeof *weights, &weights) == FAST_OK);
    for (int64_t r = 0; r < size; r++) {
        double self;
        const int64_t count = fast_topology_out(topology, 0, r, ranks, weights, &self);

        for (int64_t i = 0; i < count; i++)
            FAST_ASSERT(ranks[i] >= 0 && ranks[i] < size && ranks[i] != r);
        sent += count;
        received += fast_topology_in(topology, 0, r, ranks, weights, &self);
    }
    FAST_ASSERT(sent == received);
    fast__free(ranks);
    fast__free(weights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fast_topology *topology = NULL;
    const fast_err err = fast__topology_parse((const char *)data, size, 0, &topology);

    if (err) {
        FAST_ASSERT(err == FAST_EINVAL);
        FAST_ASSERT(strlen(fast_error_detail()) > 0);
        FAST_ASSERT(strchr(fast_error_detail(), '\n') == NULL);
        FAST_ASSERT(topology == NULL);
        return 0;
    }
    ask(topology);
    fast_topology_free(topology);
    return 0;
}
