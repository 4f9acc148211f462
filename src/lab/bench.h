/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "fast/comm.h"
#include "fast/lab.h"

/*
 * Measurements of the parts: bench_engine.c (a model and its layers),
 * bench_forecast.c (forecasts of its time beside measurements), bench_sim.c (the simulator),
 * bench_codec.c (codecs), bench_allreduce.c (sums over all workers),
 * bench_cluster.c (nodes and links, as a cluster file).
 */

/* The options of fast_bench_allreduce(). */
extern const fast_part fast__bench_allreduce_part;

/* Where the workers of a measurement run, as its options say. */
typedef struct fast_bench_place {
    const char *transport; /* a name */
    const char *cluster;   /* sim: a preset or a file; "": the standard one */
    double timeout;        /* seconds that a wait takes at most */
    int64_t seed;          /* of sim */
} fast_bench_place;

/* Run `program` with `ctx` in that many workers. Fails as fast_actors_run(). */
fast_err fast__bench_actors(const fast_bench_place *place, int64_t workers, fast_actor_fn *program,
                            void *ctx);

/* Measure training steps of the run's model, updates included: the median of their
 * seconds, and the least CPU time of one. */
struct fast_run;
fast_err fast__bench_step(struct fast_run *run, double *median_out, double *least_out);

/* Measure the multiply-adds that this core does at most, in operations (two each) per second.
 * Runs 13 loops of 2.4 million vector instructions: 5 ms at 3 GHz and two a cycle. */
double fast__peak_flops(void);

/* Set `config` to the defaults of a table, then to "name=value", ..., NULL. A value may hold commas
 * and equals signs. FAST_EINVAL, with `where` in the detail. */
fast_err fast__lab_options(const char *where, const fast_option *table, const char *const *options,
                           void *config);
