/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/comm.h"
#include "tensor/device.h"

/*
 * A program of actors that does every collective with random vectors and compares what comes out
 * with sums that each actor computes alone, to the bit: in the canonical order, or the ring's. The
 * numbers depend on nothing but the seed, so that whoever passes on two transports has the same
 * bits on both.
 */
typedef struct collectives {
    const char *algorithm;     /* of allreduce, with options: "ring:chunk=3" */
    const int64_t *counts;     /* of floats, each is done */
    int64_t count_count;       /* of counts */
    uint64_t seed;             /* of the vectors */
    bool allreduce_only;       /* leave the other collectives out */
    const fast_device *device; /* of the vectors; NULL: the host */
} collectives;

/* An actor's program; ctx is a collectives. FAST_EINVAL says what was wrong. */
fast_err collectives_main(fast_actor *actor, void *ctx);

/* Element i of rank's vector. */
float collectives_element(uint64_t seed, int64_t rank, int64_t i);
/* The canonical sum of element i over n ranks (at most 1024). */
float collectives_sum(uint64_t seed, int64_t n, int64_t i);
