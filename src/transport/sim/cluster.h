/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"

/*
 * The description of a simulated cluster: nodes with speeds, and links between them. It is a preset
 * or a YAML file; cluster.c and cluster_yaml.c document every key. Times are integer nanoseconds,
 * probabilities are multiples of 2^-32, so that no result depends on how a compiler rounds.
 */
enum {
    FAST_CLUSTER_NODES_MAX = 1 << 16,  /* nodes of a cluster */
    FAST_CLUSTER_ZONES_MAX = 32,       /* named sets of nodes */
    FAST_CLUSTER_LINKS_MAX = 1 << 12,  /* overrides of links */
    FAST_CLUSTER_PLACES_MAX = 1 << 12, /* rows of the placement */
    FAST_ZONE_MAX = 32,                /* bytes of a zone's or a role's name */
    FAST_CLUSTER_FILE_MAX = 1 << 20    /* bytes of a file */
};

/* One direction of the link between two nodes. */
typedef struct fast_sim_link {
    int64_t latency_ns;        /* L: time until the first byte arrives */
    double ns_per_byte;        /* G: 1e9 / bandwidth */
    int64_t overhead_ns;       /* o: time for which a message occupies each end beside its bytes */
    double stream_ns_per_byte; /* of one connection; 0: as fast as the ends */
    int64_t eager;     /* larger messages pay a round trip before their bytes leave; 0: none does */
    int64_t packet;    /* messages up to this size pass larger ones at the ends; 0: none does */
    int64_t jitter_ns; /* added to the latency, uniform in [0, jitter_ns) */
    int64_t retry_ns;  /* time until a lost transmission is repeated; doubles each time */
    int64_t reorder_ns; /* largest delay of a reordered message */
    uint32_t loss;      /* probability of loss, times 2^32 */
    uint32_t duplicate; /* probability of a duplicate, times 2^32 */
    uint32_t reorder;   /* probability of a delay, times 2^32 */
    bool contention;    /* messages queue: one at a time leaves and enters a node */
    bool cut;           /* no message passes */
} fast_sim_link;

/* The description of a node. */
typedef struct fast_node_spec {
    double speed;    /* arithmetic operations per second of one core */
    double memory;   /* bytes per second */
    double jitter;   /* each charge takes up to (1 + jitter) as long */
    int64_t cores;   /* charges at a time; 0: no limit */
    double capacity; /* bytes that a worker may take, for planning; 0: no limit */
    int zone;        /* number of its zone */
} fast_node_spec;

/* An override of links: from one node or zone to another, in both directions or one. */
typedef struct fast_sim_link_spec {
    int64_t from, to;   /* numbers of nodes or zones */
    bool zones;         /* from and to are zones */
    bool both;          /* also from `to` to `from` */
    fast_sim_link link; /* its properties */
} fast_sim_link_spec;

/* Placement: the actors of a role live round-robin on the nodes of its rows. */
typedef struct fast_place_spec {
    char role[FAST_ZONE_MAX]; /* name of the role */
    int64_t first, last;      /* range of nodes */
} fast_place_spec;

typedef struct fast_cluster {
    int64_t node_count;                                /* 0: as many as the largest role */
    fast_node_spec *nodes;                             /* node i is nodes[i % spec_count] */
    int64_t spec_count;                                /* number of node descriptions */
    char zones[FAST_CLUSTER_ZONES_MAX][FAST_ZONE_MAX]; /* names; zone 0 is "" */
    int zone_count;                                    /* number of zones, at least 1 */
    fast_sim_link link;                                /* between nodes */
    fast_sim_link local;                               /* inside a node */
    fast_sim_link_spec *links; /* [link_count] overrides; the last that matches wins */
    int64_t link_count;        /* number of overrides */
    fast_place_spec *places;   /* [place_count] placement of roles */
    int64_t place_count;       /* rows of the placement */
    int64_t detection_ns;      /* time until a silent actor is suspected */
} fast_cluster;

/* A link in the units of its text; fast__link_make() converts it to a fast_sim_link. */
typedef struct fast_link_draft {
    int64_t latency_ns;  /* time until the first byte arrives */
    double bandwidth;    /* bytes per second; 0: no limit */
    int64_t overhead_ns; /* time for which a message occupies each end beside its bytes */
    double stream;       /* bytes per second of one connection; 0: no limit */
    double eager;        /* bytes of the largest message without a rendezvous; 0: all */
    double packet;       /* bytes of the largest message that passes larger ones; 0: none */
    double jitter;       /* the latency is up to (1 + jitter) as long */
    bool contention;     /* messages queue at both ends */
    double loss;         /* probability of loss */
    double duplicate;    /* probability of a duplicate */
    double reorder;      /* probability of a delay */
    int64_t retry_ns;    /* time until a repetition; 0: four latencies and 1 ms */
} fast_link_draft;

/* Convert a draft to a link. */
fast_sim_link fast__link_make(const fast_link_draft *draft);

/* Set the property `key` from text. FAST_EINVAL for an unknown key or a wrong value. */
fast_err fast__link_set(fast_link_draft *link, const char *key, const char *text);
fast_err fast__node_set(fast_node_spec *node, const char *key, const char *text);

/* Make the cluster of the option cluster: "preset", "preset:key=value,...", or the path of a file.
 * FAST_EINVAL, FAST_ENOENT, FAST_EFORMAT, FAST_ENOTSUP for a file without libfyaml, FAST_ENOMEM. */
fast_err fast__cluster_open(const char *text, fast_cluster **out);
void fast__cluster_free(fast_cluster *cluster); /* NULL is allowed */

/* Place the actors of a role, in their order, on the nodes of a list like "3,0,1-2", instead of
 * where the cluster says. FAST_EINVAL, FAST_ENOMEM. */
fast_err fast__cluster_place(fast_cluster *cluster, const char *role, const char *list);

/* Parse a file's text; `where` names it in errors. */
fast_err fast__cluster_parse(const char *where, const char *text, size_t size, fast_cluster **out);

/* Return preset `i`, for fast_part_list("cluster"); false past the last. */
bool fast__cluster_part(int64_t i, fast_part *out);
