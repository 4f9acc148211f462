/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters by name: presets with options, "hetero:nodes=16,latency=1ms". The figures are usual
 * ones: a core does 20 GFLOP/s in single precision and moves 10 GB/s; the bandwidth of a network is
 * that of its name, its latency that of a small message between programs.
 *
 *     laptop         one node of 8 cores; messages go through memory
 *     ethernet-1g    50 us, 1 Gbit/s, queues at the ends
 *     ethernet-10g   20 us, 10 Gbit/s, queues at the ends: the default
 *     infiniband     1.5 us, 100 Gbit/s, queues at the ends
 *     wan            40 ms and up to 20% more, 100 Mbit/s, a transmission in 1000 is lost
 *     edge           slow cores that vary, 10 ms and up to 50% more, 10 Mbit/s, 1% loss
 *     hetero         ethernet-10g with nodes of full, half, half and a quarter of the speed
 *     ideal          1 us, 1 GB/s, no queues, computing is free: closed forms hold
 *
 * Options, all optional, with the values of cluster_value.c: nodes (0: one for each actor of the
 * largest role), cores, speed, memory, speed_jitter, latency, bandwidth, stream, overhead, eager,
 * packet, jitter, contention, loss, duplicate, reorder, retry, capacity (of a worker's memory),
 * detection (until a silent actor is suspected).
 */
#include "transport/sim/cluster.h"

#include "base/file.h"
#include "base/memory.h"
#include "transport/sim/fault.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPEEDS_MAX = 4, /* different speeds of the nodes of a preset */
    VALUE_MAX = 32  /* bytes of an option's value */
};

typedef struct cluster_preset {
    const char *name;          /* of the preset */
    const char *summary;       /* one line for help */
    fast_link_draft link;      /* between nodes */
    fast_node_spec node;       /* of every node */
    int64_t node_count;        /* 0: as many as the largest role */
    int64_t detection_ns;      /* time until a silent actor is suspected */
    double speeds[SPEEDS_MAX]; /* factors of the nodes, round-robin; {0}: all equal */
} cluster_preset;

/* A node with a server's core. */
#define CORE                          \
    {                                 \
        .speed = 20e9, .memory = 10e9 \
    }
#define US(x) ((int64_t)((x)*1e3))
#define MS(x) ((int64_t)((x)*1e6))

static const cluster_preset presets[] = {
    { .name = "laptop",
      .summary = "one node of 8 cores",
      .link = { .latency_ns = US(0.5), .bandwidth = 10e9 },
      .node = { .speed = 20e9, .memory = 10e9, .cores = 8 },
      .node_count = 1,
      .detection_ns = MS(100) },
    { .name = "ethernet-1g",
      .summary = "50 us, 1 Gbit/s",
      .link = { .latency_ns = US(50), .bandwidth = 125e6, .contention = true },
      .node = CORE,
      .detection_ns = MS(500) },
    { .name = "ethernet-10g",
      .summary = "20 us, 10 Gbit/s (the default)",
      .link = { .latency_ns = US(20), .bandwidth = 1.25e9, .contention = true },
      .node = CORE,
      .detection_ns = MS(500) },
    { .name = "infiniband",
      .summary = "1.5 us, 100 Gbit/s",
      .link = { .latency_ns = US(1.5), .bandwidth = 12.5e9, .contention = true },
      .node = CORE,
      .detection_ns = MS(500) },
    { .name = "wan",
      .summary = "wide area: 40 ms, 100 Mbit/s, jitter, some loss",
      .link = { .latency_ns = MS(40),
                .bandwidth = 12.5e6,
                .jitter = 0.2,
                .contention = true,
                .loss = 0.001 },
      .node = CORE,
      .detection_ns = MS(5000) },
    { .name = "edge",
      .summary = "slow devices: 10 ms, 10 Mbit/s, jitter, loss, duplicates",
      .link = { .latency_ns = MS(10),
                .bandwidth = 1.25e6,
                .jitter = 0.5,
                .contention = true,
                .loss = 0.01,
                .duplicate = 0.001,
                .reorder = 0.01 },
      .node = { .speed = 2e9, .memory = 2e9, .jitter = 0.3 },
      .detection_ns = MS(5000) },
    { .name = "hetero",
      .summary = "10 Gbit/s, nodes of full, half, half and a quarter of the speed",
      .link = { .latency_ns = US(20), .bandwidth = 1.25e9, .contention = true },
      .node = { .speed = 20e9, .memory = 10e9, .jitter = 0.1 },
      .detection_ns = MS(500),
      .speeds = { 1, 0.5, 0.5, 0.25 } },
    { .name = "ideal",
      .summary = "1 us, 1 GB/s, no contention, free computing: for closed forms",
      .link = { .latency_ns = US(1), .bandwidth = 1e9 },
      .detection_ns = MS(1) },
};

enum { PRESETS = sizeof presets / sizeof presets[0] };
static const char *const standard = "ethernet-10g";

/* The options of a preset; "": the preset's own value. Field names are keys of nodes and links. */
typedef struct cluster_options {
    char nodes[VALUE_MAX];        /* number of nodes */
    char cores[VALUE_MAX];        /* of a node */
    char speed[VALUE_MAX];        /* of a core */
    char memory[VALUE_MAX];       /* bandwidth of a node's memory */
    char speed_jitter[VALUE_MAX]; /* jitter of a node */
    char latency[VALUE_MAX];      /* of links */
    char bandwidth[VALUE_MAX];    /* of links */
    char stream[VALUE_MAX];       /* bandwidth of one connection */
    char overhead[VALUE_MAX];     /* of a message at both ends */
    char eager[VALUE_MAX];        /* largest message without a rendezvous */
    char packet[VALUE_MAX];       /* largest message that passes larger ones */
    char jitter[VALUE_MAX];       /* of the latency of links */
    char contention[VALUE_MAX];   /* of links */
    char loss[VALUE_MAX];         /* of links */
    char duplicate[VALUE_MAX];    /* of links */
    char reorder[VALUE_MAX];      /* of links */
    char retry[VALUE_MAX];        /* of links */
    char capacity[VALUE_MAX];     /* memory of a worker */
    char detection[VALUE_MAX];    /* of silent actors */
} cluster_options;

#define OPTION(field, help) FAST_OPT_TEXT(cluster_options, field, "", NULL, help)
static const fast_option options_table[] = {
    OPTION(nodes, "number of nodes; 0: one for each actor of the largest role"),
    OPTION(cores, "cores of a node; 0: no limit"),
    OPTION(speed, "speed of a core, like 20GFLOP/s; 0: computing is free"),
    OPTION(memory, "memory bandwidth, like 10GB/s; 0: free"),
    OPTION(speed_jitter, "a charge takes up to this fraction longer"),
    OPTION(latency, "latency of a link, like 50us"),
    OPTION(bandwidth, "bandwidth of a link, like 1.25GB/s or 10Gbit/s; 0: no limit"),
    OPTION(stream, "bandwidth of one connection, like 100MB/s; 0: that of its ends"),
    OPTION(overhead, "time for which a message occupies both ends beside its bytes, like 5us"),
    OPTION(eager, "a larger message pays a round trip before its bytes, like 64KiB; 0: none"),
    OPTION(packet, "messages up to this size pass larger ones, like 1448B; 0: none"),
    OPTION(jitter, "the latency grows by up to this fraction"),
    OPTION(contention, "messages queue at both ends: yes or no"),
    OPTION(loss, "probability that a transmission is lost"),
    OPTION(duplicate, "probability that a message arrives twice"),
    OPTION(reorder, "probability that a message is delayed"),
    OPTION(retry, "time until a lost transmission is repeated, like 5ms"),
    OPTION(capacity, "memory that a worker may take, like 64MB, for fast plan; 0: no limit"),
    OPTION(detection, "time until a silent actor is suspected, like 500ms"),
    FAST_OPT_END,
};

bool fast__cluster_part(int64_t i, fast_part *out)
{
    if (i < 0 || i >= PRESETS)
        return false;
    *out = (fast_part){ presets[i].name, presets[i].summary, options_table };
    return true;
}

void fast__cluster_free(fast_cluster *cluster)
{
    if (!cluster)
        return;
    fast__free(cluster->nodes);
    fast__free(cluster->links);
    fast__free(cluster->places);
    fast__free(cluster);
}

/* Apply one option of a node or a link. */
static fast_err apply_one(cluster_preset *p, const char *name, const char *text)
{
    if (strcmp(name, "speed_jitter") == 0)
        return fast__node_set(&p->node, "jitter", text);
    if (strcmp(name, "cores") == 0 || strcmp(name, "speed") == 0 || strcmp(name, "memory") == 0 ||
        strcmp(name, "capacity") == 0)
        return fast__node_set(&p->node, name, text);
    return fast__link_set(&p->link, name, text);
}

/* Apply the options that are given. FAST_EINVAL. */
static fast_err apply(cluster_preset *p, const cluster_options *given)
{
    for (const fast_option *option = options_table; option->name; option++) {
        const char *text = (const char *)given + option->offset;
        if (text[0] && strcmp(option->name, "nodes") != 0 && strcmp(option->name, "detection") != 0)
            FAST_TRY(apply_one(p, option->name, text));
    }
    if (given->detection[0])
        FAST_TRY(fast__time_parse("detection", given->detection, &p->detection_ns));
    if (p->detection_ns < 0)
        return fast__fail(FAST_EINVAL, "detection is negative: %s", given->detection);
    if (given->nodes[0])
        FAST_TRY(fast__parse_int("nodes", given->nodes, &p->node_count));
    if (p->node_count < 0 || p->node_count > FAST_CLUSTER_NODES_MAX)
        return fast__fail(FAST_EINVAL, "nodes is out of range: %s; there are at most %d",
                          given->nodes, FAST_CLUSTER_NODES_MAX);
    return FAST_OK;
}

/* Make the cluster of a preset. FAST_ENOMEM. */
static fast_err preset_make(const cluster_preset *p, fast_cluster **out)
{
    const int64_t count = p->speeds[0] > 0 ? SPEEDS_MAX : 1;
    const fast_link_draft local = { .latency_ns = US(0.5), .bandwidth = p->node.memory };
    fast_cluster *cluster = NULL;

    FAST_TRY(fast__alloc("a cluster", 1, sizeof *cluster, &cluster));
    const fast_err err = fast__alloc("nodes", count, sizeof *cluster->nodes, &cluster->nodes);
    if (err) {
        fast__cluster_free(cluster);
        return err;
    }
    for (int64_t i = 0; i < count; i++) {
        cluster->nodes[i] = p->node;
        if (count > 1)
            cluster->nodes[i].speed *= p->speeds[i];
    }
    cluster->spec_count = count;
    cluster->node_count = p->node_count;
    cluster->zone_count = 1;
    cluster->link = fast__link_make(&p->link);
    /* On one node the given link is the local one. */
    cluster->local = p->node_count == 1 ? cluster->link : fast__link_make(&local);
    cluster->detection_ns = p->detection_ns;
    *out = cluster;
    return FAST_OK;
}

/* Parse a row of a placement: a node, or a range of nodes; *at moves behind it. */
static fast_err row_of(const char *list, const char **at, fast_place_spec *row)
{
    char *end = NULL;

    row->first = row->last = strtoll(*at, &end, 10);
    if (end != *at && *end == '-') {
        const char *next = end + 1;

        row->last = strtoll(next, &end, 10);
        end = end == next ? (char *)(uintptr_t)*at : end;
    }
    if (end == *at || (*end && *end != ',') || row->first < 0 || row->last < row->first ||
        row->last >= FAST_CLUSTER_NODES_MAX)
        return fast__fail(FAST_EINVAL, "placement=%.100s: write nodes like 3,0,1-2", list);
    *at = *end ? end + 1 : end;
    return FAST_OK;
}

fast_err fast__cluster_place(fast_cluster *cluster, const char *role, const char *list)
{
    int64_t rows = 1, count = 0;
    fast_place_spec *places = NULL;

    FAST_ASSERT(strlen(role) < FAST_ZONE_MAX);
    for (const char *c = list; *c; c++)
        rows += *c == ',';
    FAST_TRY(fast__alloc("placement", cluster->place_count + rows, sizeof *places, &places));
    for (int64_t i = 0; i < cluster->place_count; i++)
        if (strcmp(cluster->places[i].role, role) != 0)
            places[count++] = cluster->places[i];
    for (const char *at = list; rows > 0; rows--) {
        fast_place_spec *row = &places[count++];
        const fast_err err = row_of(list, &at, row);

        if (err) {
            fast__free(places);
            return err;
        }
        snprintf(row->role, sizeof row->role, "%s", role);
    }
    fast__free(cluster->places);
    cluster->places = places;
    cluster->place_count = count;
    return FAST_OK;
}

static const char *preset_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return presets[i].name;
}

/* Read a cluster file. FAST_ENOENT, FAST_EIO, FAST_EFORMAT. */
static fast_err file_open(const char *path, fast_cluster **out)
{
    char *text = NULL;
    size_t size = 0;

    FAST_TRY(fast__file_read(path, FAST_CLUSTER_FILE_MAX, &text, &size));
    const fast_err err = fast__cluster_parse(path, text, size, out);
    fast__free(text);
    return err;
}

/* Return whether a text is a path: it has a slash before any option, or the suffix of YAML. */
static bool is_path(const char *text)
{
    const size_t length = strlen(text);
    return text[strcspn(text, "/:")] == '/' ||
           (length > 5 && strcmp(text + length - 5, ".yaml") == 0) ||
           (length > 4 && strcmp(text + length - 4, ".yml") == 0);
}

fast_err fast__cluster_open(const char *text, fast_cluster **out)
{
    FAST_ASSERT(text != NULL && out != NULL);
    cluster_options given;
    char name[64];
    const char *rest = NULL;

    if (text[0] == 0)
        text = standard;
    if (is_path(text))
        return file_open(text, out);
    FAST_TRY(fast__spec_split(text, name, sizeof name, &rest));
    const int64_t i = fast__name_find(name, preset_at, NULL, PRESETS, NULL);
    if (i < 0 && !rest) { /* a file may have any name but those of the presets */
        const fast_err err = file_open(text, out);
        if (err != FAST_ENOENT)
            return err;
    }
    if (i < 0)
        return fast__name_unknown("cluster", name, preset_at, NULL, PRESETS);
    cluster_preset p = presets[i];
    memset(&given, 0, sizeof given);
    fast__options_default(options_table, &given);
    FAST_TRY(fast__options_parse(text, options_table, &given, rest));
    FAST_TRY(apply(&p, &given));
    return preset_make(&p, out);
}
