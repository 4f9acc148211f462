/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "fast/lab.h"
#include "lab/words.h"

/* The options of `fast plan`. */
typedef struct fast_plan_config {
    char cluster[4096]; /* a preset or a file */
    int64_t workers;    /* at most; 0: the cluster's nodes */
    int64_t batch;      /* samples of a step */
    char memory[32];    /* of a worker; "": the capacity of its node */
    char planner[256];  /* "name:key=value" */
    int64_t top;        /* plans that are shown */
    int verify;         /* 0 sim, 1 threads, 2 no */
    int64_t dry_runs;   /* of the best shapes */
    char mesh[64];      /* dimensions that are given; "" */
    char layout[192];   /* "" */
    char cuts[512];     /* "" */
    char pipeline[64];  /* "" */
    int64_t chunks;     /* of interleaved; 0: any */
    int64_t accumulate; /* micro-batches; 0: any */
    char strategy[256]; /* "" */
    bool recompute;     /* activations may be computed twice */
} fast_plan_config;

extern const fast_part fast__plan_part_of_lab;

/* plan_verify.c: train a few steps with these options behind the first ones, and set the seconds of
 * a step and the bytes of the worker with most. */
fast_err fast__plan_verify(const fast_words *options, int64_t before, int64_t steps,
                           double *seconds_out, int64_t *memory_out);
