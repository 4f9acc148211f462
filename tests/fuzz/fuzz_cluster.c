/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes cluster files: any text gives an error in one line or a cluster that the simulator may
 * rely on: counts within bounds, zones and nodes that exist, times that are not negative.
 */
#include "transport/sim/cluster.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Seen by the sanitizer's own library. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);

/* The library loses a kilobyte when a key is nothing but escaped quotes; ours are still found. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libfyaml\n";
}

static void check_link(const fast_sim_link *link)
{
    FAST_ASSERT(link->latency_ns >= 0);
    FAST_ASSERT(link->ns_per_byte >= 0 && link->ns_per_byte < 1e300);
    FAST_ASSERT(link->stream_ns_per_byte >= 0 && link->stream_ns_per_byte < 1e300);
    FAST_ASSERT(link->overhead_ns >= 0 && link->eager >= 0 && link->packet >= 0);
    FAST_ASSERT(link->jitter_ns >= 0);
    FAST_ASSERT(link->retry_ns >= 0);
}

static void check_cluster(const fast_cluster *cluster)
{
    FAST_ASSERT(cluster->node_count >= 0 && cluster->node_count <= FAST_CLUSTER_NODES_MAX);
    FAST_ASSERT(cluster->spec_count >= 1);
    FAST_ASSERT(cluster->zone_count >= 1 && cluster->zone_count <= FAST_CLUSTER_ZONES_MAX);
    for (int64_t i = 0; i < cluster->spec_count; i++) {
        FAST_ASSERT(cluster->nodes[i].zone >= 0 && cluster->nodes[i].zone < cluster->zone_count);
        FAST_ASSERT(cluster->nodes[i].speed >= 0 && cluster->nodes[i].memory >= 0);
        FAST_ASSERT(cluster->nodes[i].cores >= 0);
    }
    check_link(&cluster->link);
    check_link(&cluster->local);
    for (int64_t i = 0; i < cluster->link_count; i++) {
        const fast_sim_link_spec *spec = &cluster->links[i];
        const int64_t bound = spec->zones ? cluster->zone_count : FAST_CLUSTER_NODES_MAX;
        FAST_ASSERT(spec->from >= 0 && spec->from < bound);
        FAST_ASSERT(spec->to >= 0 && spec->to < bound);
        check_link(&spec->link);
    }
    for (int64_t i = 0; i < cluster->place_count; i++)
        FAST_ASSERT(cluster->places[i].first >= 0 &&
                    cluster->places[i].last >= cluster->places[i].first);
    FAST_ASSERT(cluster->detection_ns >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fast_cluster *cluster = NULL;

    if (size > FAST_CLUSTER_FILE_MAX)
        return 0;
    if (fast__cluster_parse("fuzz", (const char *)data, size, &cluster)) {
        FAST_ASSERT(cluster == NULL);
        FAST_ASSERT(strlen(fast_error_detail()) > 0);
        FAST_ASSERT(strchr(fast_error_detail(), '\n') == NULL);
        return 0;
    }
    check_cluster(cluster);
    fast__cluster_free(cluster);
    return 0;
}
