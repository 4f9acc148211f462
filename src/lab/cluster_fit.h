/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include <stdio.h>

/*
 * From times of messages to a cluster file: cluster_fit.c. The times are measured by
 * bench_cluster.c, or made up by a test.
 */
enum {
    FAST_FIT_SIZES = 11, /* sizes of messages that are timed */
    FAST_FIT_LARGE = 7   /* the size by which links are compared */
};

/* Bytes of the messages that are timed, smallest first; the first one is a message alone. */
extern const int64_t fast__fit_sizes[FAST_FIT_SIZES];

/* Times between two nodes, in seconds. */
typedef struct fast_pair_times {
    int64_t from, to;                /* the two nodes */
    int64_t pings;                   /* round trips of the smallest message */
    int64_t slow;                    /* pings of which a transmission was lost and repeated */
    double retry_s;                  /* mean delay of the slow ones; 0 without any */
    double median_s[FAST_FIT_SIZES]; /* one way, by size; NAN: not measured */
    double least_s[FAST_FIT_SIZES];  /* one way, the shortest, by size; NAN: not measured */
    double burst_s;                  /* of one of many small messages in a row; NAN: not measured */
} fast_pair_times;

/* Parameters of a link, in seconds and bytes. */
typedef struct fast_link_fit {
    double latency_s;  /* until the first byte arrives */
    double overhead_s; /* time for which a message occupies both ends beside its bytes */
    double bandwidth;  /* bytes per second of the ends */
    double stream;     /* bytes per second of one connection; 0: as fast as its ends */
    double round_s;    /* time by which a message above the eager size takes longer; 0: not seen */
    int eager;         /* the last of fast__fit_sizes below the eager size, if round_s > 0 */
} fast_link_fit;

/* Fit a link to the times of a pair. */
fast_link_fit fast__link_fit(const fast_pair_times *times);

/* Return the time of a message one way by a fit, without a rendezvous. */
double fast__fit_seconds(const fast_link_fit *fit, double bytes);

/* Measurements of a whole cluster. */
typedef struct fast_cluster_fit {
    const char *title;      /* how it was measured, in one line */
    int64_t nodes;          /* number of nodes */
    const double *speed;    /* [nodes]: operations per second */
    const double *memory;   /* [nodes]: bytes per second */
    fast_pair_times *pairs; /* [pair_count]: the first one has all sizes */
    int64_t pair_count;     /* pairs of nodes that were measured */
    fast_link_fit link;     /* of the first pair */
    double eager;           /* bytes of the largest message without a rendezvous; 0: not seen */
    double loss;            /* probability that a transmission is lost */
    double retry_s;         /* delay of a loss */
} fast_cluster_fit;

/* Set loss and retry_s from the pings of all pairs. */
void fast__cluster_fit_loss(fast_cluster_fit *fit);

/* Write the cluster file. */
void fast__cluster_fit_write(const fast_cluster_fit *fit, FILE *out);
