/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/engine.h"

/*
 * Micro-batches inside a pass: a batch of B samples is computed as several smaller ones, one after
 * the other, by programs that were compiled for their sizes. The gradient is the mean over all
 * samples, to rounding; activations take the memory of the micro-batches instead of the batch's.
 */
enum {
    FAST_MICRO_SIZES_MAX = 16, /* sizes to choose from */
    FAST_MICRO_KINDS = 2,      /* different sizes in one pass: each has a workspace of its own */
    FAST_MICRO_PARTS_MAX = 4096
};

/* A size that micro-batches may have, and its cost. */
typedef struct fast_micro_size {
    int64_t count;  /* samples */
    double seconds; /* of a pass, and of adding its gradient to the sum */
    int64_t memory; /* bytes of its workspace */
} fast_micro_size;

/* Micro-batches of a pass, in their order. */
typedef struct fast_micro_plan {
    int part_count;                      /* number of micro-batches */
    int64_t parts[FAST_MICRO_PARTS_MAX]; /* samples of each; the last may have fewer in a pass */
    double seconds;                      /* predicted */
    int64_t memory;                      /* bytes of the workspaces */
} fast_micro_plan;

/* Choose the fastest micro-batches for `batch` samples whose workspaces take at most `memory` bytes
 * (0: any number), by dynamic programming over each pair of sizes. FAST_EINVAL if none fit,
 * FAST_ENOMEM. */
fast_err fast__micro_choose(const fast_micro_size *sizes, int count, int64_t batch, int64_t memory,
                            fast_micro_plan *out);

/* Return whether a batch's gradient is that of its micro-batches to rounding: batch norm's
 * statistics must be of `size` samples, or of groups that divide it. */
bool fast__micro_is_exact(const fast_graph *graph, int64_t size);

/* Compile a program that computes batches of options->batch samples in these micro-batches, which
 * must add up to at least as many. Its engine is its own: call program->engine. It cannot run in
 * phases, offers no factors, and refuses need_again: FAST_ENOTSUP. */
fast_err fast__micro_compile(const fast_engine *engine, const fast_graph *graph,
                             const fast_engine_options *options, const int64_t *parts,
                             int part_count, fast_program **out);
