/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"

/*
 * What a simulated cluster is made of: nodes with speeds, links between them. A preset, or a YAML
 * file; cluster.c and cluster_yaml.c document every key. Times are integer nanoseconds, chances are
 * fractions of 2^32, so that nothing about a run depends on how a compiler rounds.
 */
enum {
    FAST_CLUSTER_NODES_MAX = 1 << 16,  /* nodes of a cluster */
    FAST_CLUSTER_ZONES_MAX = 32,       /* named sets of nodes */
    FAST_CLUSTER_LINKS_MAX = 1 << 12,  /* links that differ from the rest */
    FAST_CLUSTER_PLACES_MAX = 1 << 12, /* rows of the placement */
    FAST_ZONE_MAX = 32,                /* bytes of a zone's or a role's name */
    FAST_CLUSTER_FILE_MAX = 1 << 20    /* bytes of a file */
};

/* One direction of the way from a node to another. */
typedef struct fast_sim_link {
    int64_t latency_ns; /* L: the way of the first byte */
    double ns_per_byte; /* G: 1e9 / bandwidth */
    int64_t jitter_ns;  /* added to the latency, uniform in [0, jitter_ns) */
    int64_t retry_ns;   /* until what was lost is sent again; doubles each time */
    int64_t reorder_ns; /* what a reordered message is late, at most */
    uint32_t loss;      /* chance that a transmission is lost, of 2^32 */
    uint32_t duplicate; /* chance that it arrives twice */
    uint32_t reorder;   /* chance that it is late */
    bool contention;    /* messages queue at the ends: one at a time leaves and enters a node */
    bool cut;           /* nothing passes */
} fast_sim_link;

/* A node, as it is described. */
typedef struct fast_node_spec {
    double speed;  /* arithmetic operations a second, of one core */
    double memory; /* bytes a second */
    double jitter; /* of the time of each charge: it takes up to (1 + jitter) as long */
    int64_t cores; /* that compute at the same time; 0: as many as there are actors */
    int zone;      /* number of its zone */
} fast_node_spec;

/* Links that differ: from the nodes of one set to those of another, both ways or one. */
typedef struct fast_sim_link_spec {
    int64_t from, to;   /* nodes, or zones */
    bool zones;         /* which of the two */
    bool both;          /* also the other way */
    fast_sim_link link; /* all of it */
} fast_sim_link_spec;

/* Where the actors of a role live: in turn on the nodes of its rows. */
typedef struct fast_place_spec {
    char role[FAST_ZONE_MAX]; /* name */
    int64_t first, last;      /* nodes */
} fast_place_spec;

typedef struct fast_cluster {
    int64_t node_count;                                /* 0: as many as the largest role */
    fast_node_spec *nodes;                             /* node i is nodes[i % spec_count] */
    int64_t spec_count;                                /* of them */
    char zones[FAST_CLUSTER_ZONES_MAX][FAST_ZONE_MAX]; /* names; zone 0 is "" */
    int zone_count;                                    /* of them, at least 1 */
    fast_sim_link link;                                /* between nodes */
    fast_sim_link local;                               /* inside a node */
    fast_sim_link_spec *links;                         /* what differs; the last one wins */
    int64_t link_count;                                /* of them */
    fast_place_spec *places;                           /* placement of roles */
    int64_t place_count;                               /* of them */
    int64_t detection_ns;                              /* until a silent actor is suspected */
} fast_cluster;

/* A link as people write it; fast__link_make() turns it into a fast_sim_link. */
typedef struct fast_link_draft {
    int64_t latency_ns; /* of the first byte */
    double bandwidth;   /* bytes a second; 0: no limit */
    double jitter;      /* of the latency: it takes up to (1 + jitter) as long */
    bool contention;    /* at the ends */
    double loss;        /* chances */
    double duplicate;
    double reorder;
    int64_t retry_ns; /* 0: four latencies and 1 ms */
} fast_link_draft;

fast_sim_link fast__link_make(const fast_link_draft *draft);

/* Set what `key` names from text; FAST_EINVAL for an unknown key or a wrong value. */
fast_err fast__link_set(fast_link_draft *link, const char *key, const char *text);
fast_err fast__node_set(fast_node_spec *node, const char *key, const char *text);

/* Make the cluster that `text` names: "preset", "preset:key=value,...", or the path of a file.
 * FAST_EINVAL, FAST_ENOENT, FAST_EFORMAT, FAST_ENOTSUP for a file without libfyaml, FAST_ENOMEM. */
fast_err fast__cluster_open(const char *text, fast_cluster **out);
void fast__cluster_free(fast_cluster *cluster); /* NULL is allowed */

/* Parse a file's text; `where` names it in errors. */
fast_err fast__cluster_parse(const char *where, const char *text, size_t size, fast_cluster **out);

/* Preset `i`, for fast_part_list("cluster"); false past the last. */
bool fast__cluster_part(int64_t i, fast_part *out);
