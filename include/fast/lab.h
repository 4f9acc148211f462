/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * lab.h - measure the parts of FAST, plan splits of models, simulate clusters with faults, and find
 * learning rates: `fast bench`, `fast plan`, `fast simulate` and `fast find-lr`; comparison.h has
 * `fast compare`. The rules of fast.h hold.
 */

#include "fast/comparison.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Return the options of a function of this header as a part with one table: "simulate", "plan" or
 * "bench_allreduce". NULL for any other name. */
FAST_API const fast_part *fast_lab_part(const char *name);

/* Bench. */

/* One measurement of `fast bench engine`. */
typedef struct fast_measure {
    const char *model;     /* as the options name it */
    const char *layer;     /* NULL for the whole model */
    const char *method;    /* the engine's choice for it; may be NULL */
    double samples_per_s;  /* trained, forward and backward */
    double gflops;         /* a second, by the textbook's count of operations */
    double bound_fraction; /* of this core's peak of multiply-adds; can pass 1 if a method needs
                              fewer operations than the textbook's */
} fast_measure;

/* Called once for each measurement, which is lent for the call. */
typedef void fast_measure_fn(void *ctx, const fast_measure *measure);

/* Measure the engine on a model ("lenet", ...), whole and per layer. Options as for a run; those
 * that matter are model, engine, batch, plan. */
FAST_API FAST_MUST_CHECK fast_err fast_bench_engine(const char *const *options,
                                                    fast_measure_fn *report, void *ctx);

/* One row of `fast bench forecast`: an operator, forward and backward over a batch, or the step. */
typedef struct fast_forecast_measure {
    const char *model;         /* as the options name it */
    const char *operator_name; /* number and kind; NULL for the whole step with its update */
    double work;               /* operations W */
    double depth;              /* D of them wait for one another */
    double brent_low;          /* max(W / P, D): no P processors take fewer operations of time */
    double brent_high;         /* W / P + D: P processors need no more */
    double bytes;              /* moved */
    double device_s;           /* seconds by the counts and the device's peak and memory */
    double table_s;            /* seconds by tables of measurements; NAN for another device */
    double measured_s;         /* seconds; NAN for another device, and operators without products */
} fast_forecast_measure;
typedef void fast_forecast_fn(void *ctx, const fast_forecast_measure *measure);

/* Forecast a model's step by three models beside measurements. Options as for a run, and
 * processors (P, 16) and machine ("this", or the name of a device: "v100"). */
FAST_API FAST_MUST_CHECK fast_err fast_bench_forecast(const char *const *options,
                                                      fast_forecast_fn *report, void *ctx);

/* One measurement of `fast bench sim`. */
typedef struct fast_sim_measure {
    const char *program;   /* of the actors: "ring", "allreduce" */
    int64_t actors;        /* that were simulated */
    int64_t events;        /* of the simulation */
    double events_per_s;   /* in real time, on one core */
    double time_s;         /* real time of the whole run */
    double virtual_time_s; /* simulated time */
} fast_sim_measure;

/* Called once for each measurement, which is lent for the call. */
typedef void fast_sim_measure_fn(void *ctx, const fast_sim_measure *measure);

/* Measure the simulator: rings of actors that pass messages, and an allreduce by ring. Options:
 * actors (0: 64, 1024 and 4096), cluster ("ideal"). */
FAST_API FAST_MUST_CHECK fast_err fast_bench_sim(const char *const *options,
                                                 fast_sim_measure_fn *report, void *ctx);

/* One measurement of `fast bench pipeline`: a schedule of the stages of a split model. */
typedef struct fast_pipeline_measure {
    const char *pipeline;  /* the schedule, as the option names it */
    const char *transport; /* as the options name it */
    int64_t stages;        /* S */
    int64_t micro_batches; /* M of a step */
    double step_s;         /* seconds of M micro-batches; on sim in virtual time */
    double bubble;         /* fraction of the workers' time without a pass; NAN if the recorded
                               passes are too few to tell */
    double
        bubble_expected; /* the closed form for equal stages; NAN for a schedule without a flush */
    int64_t in_flight;   /* micro-batches that a worker held at once, at most */
    int64_t staleness;   /* of a gradient's weights in updates, at most */
    int64_t memory;      /* bytes of state and activations of the worker with most */
} fast_pipeline_measure;

/* Called once for each measurement, which is lent for the call. */
typedef void fast_pipeline_fn(void *ctx, const fast_pipeline_measure *measure);

/* Measure the schedules of a pipeline side by side, or the one that the option pipeline names.
 * Options as for a run, on threads or sim; else a gpt with 4 stages is simulated. */
FAST_API FAST_MUST_CHECK fast_err fast_bench_pipeline(const char *const *options,
                                                      fast_pipeline_fn *report, void *ctx);

/* One measurement of `fast bench codec`: one thread, error feedback where the codec uses it. */
typedef struct fast_codec_measure {
    const char *codec;            /* the chain */
    int64_t bytes_in;             /* of the vector */
    int64_t bytes_out;            /* of its encoding, with all headers */
    double encode_s;              /* seconds, the fastest of a few */
    double decode_s;              /* seconds, the fastest of a few */
    double copy_s;                /* of memcpy() of the vector, in the same run */
    double encode_gb_per_s;       /* of the vector */
    double decode_gb_per_s;       /* of the vector */
    double copy_gb_per_s;         /* of the vector */
    double error;                 /* of the first decoding, relative to the vector's norm */
    double break_even_mbit_per_s; /* a link below this is faster with the codec */
} fast_codec_measure;

/* Called once for each measurement, which is lent for the call. */
typedef void fast_codec_measure_fn(void *ctx, const fast_codec_measure *measure);

/* Measure codecs. Options: codec (a chain, or "all"), bytes (of the vector, 16777216). */
FAST_API FAST_MUST_CHECK fast_err fast_bench_codec(const char *const *options,
                                                   fast_codec_measure_fn *report, void *ctx);

/* One measurement of `fast bench allreduce`. */
typedef struct fast_allreduce_measure {
    const char *transport; /* as the options name it */
    const char *algorithm; /* as the options name it; "auto:NAME": the choice of auto */
    int64_t workers;       /* that summed their vectors */
    int64_t bytes;         /* of one vector */
    double seconds;        /* of one allreduce; on sim in virtual time */
    double gb_per_s;       /* bytes by seconds */
    double predicted_s;    /* by the model behind auto; NAN if it has no prediction */
} fast_allreduce_measure;

/* Called once for each measurement, which is lent for the call. */
typedef void fast_allreduce_measure_fn(void *ctx, const fast_allreduce_measure *measure);

/* Measure the sum over all workers, by algorithm and length. Options are those of
 * fast_lab_part("bench_allreduce"): transport, workers, algorithm, bytes, cluster... On `mpi`
 * every rank calls it with the same options, and only the first one reports. */
FAST_API FAST_MUST_CHECK fast_err fast_bench_allreduce(const char *const *options,
                                                       fast_allreduce_measure_fn *report,
                                                       void *ctx);

/* The measurement of `fast bench cluster`: a link between two nodes, and the nodes. */
typedef struct fast_cluster_measure {
    const char *transport; /* as the options name it */
    int64_t nodes;         /* number of nodes */
    double latency_s;      /* until the first byte of a message arrives */
    double overhead_s;     /* for which a message occupies both ends beside its bytes */
    double bandwidth;      /* of a node, bytes per second */
    double stream;         /* of one connection, bytes per second; 0: that of the nodes */
    double eager;          /* bytes of the largest message without a rendezvous; 0: not seen */
    double loss;           /* probability that a message is lost and repeated */
    double retry_s;        /* time that a loss takes */
    const double *speeds;  /* [nodes]: operations of training per second */
    const char *file;      /* a cluster file, for the option cluster */
} fast_cluster_measure;

/* Called once with the measurement, which is lent for the call. */
typedef void fast_cluster_measure_fn(void *ctx, const fast_cluster_measure *measure);

/* Measure the nodes of a cluster and the links between them. Options: transport (mpi), workers (one
 * on each node), cluster (of sim), timeout, seed; model, data and batch, by whose training the
 * speed of a node is measured. On `mpi` every rank calls it with the same options, and only the
 * first one reports. */
FAST_API FAST_MUST_CHECK fast_err fast_bench_cluster(const char *const *options,
                                                     fast_cluster_measure_fn *report, void *ctx);

/* Plan. */

/* One plan of `fast plan`: how a model is split over a cluster, and what that costs. */
typedef struct fast_plan_row {
    const char *options;     /* flags for fast train: "--mesh data=2,pipe=2 --batch 16 ..." */
    const char *mesh;        /* "data=2,pipe=2" */
    const char *why;         /* where the time goes, and what limits it, in one line */
    const char *pipeline;    /* schedule of the stages; "" without stages */
    int64_t chunks;          /* stages of each worker; 0 without stages */
    int64_t workers;         /* that the plan uses */
    int64_t batch;           /* samples of a micro-batch */
    int64_t accumulate;      /* micro-batches of a step and replica */
    double step_s;           /* predicted seconds of a step, by a dry run on the simulator */
    double estimate_s;       /* the same in closed form */
    double compute_s;        /* of the step, passes of the worker with most */
    double exchange_s;       /* of the step, gradients and updates behind the passes */
    double bubble;           /* fraction of the passes' time in which workers wait for each other */
    int64_t memory;          /* predicted bytes of the worker with most */
    int64_t fullest;         /* number of that worker */
    double verified_s;       /* seconds of a step of a short run; NAN if it was not run */
    int64_t verified_memory; /* bytes of the worker with most in that run; 0 if it was not run */
} fast_plan_row;

/* The result of fast_plan_run(). */
typedef struct fast_plan_result {
    const char *planner;         /* that searched */
    const char *model;           /* as the options name it */
    const char *cluster;         /* as the options name it */
    int64_t params;              /* parameters of the model */
    int64_t batch;               /* samples of a step */
    int64_t nodes;               /* workers at most */
    const fast_plan_row *rows;   /* the best plans, the best first */
    int64_t row_count;           /* number of rows */
    const fast_plan_row *others; /* the best with one dimension each, and of one worker */
    int64_t other_count;         /* number of others */
    int64_t offered;             /* plans that were estimated */
    int64_t dry_runs;            /* plans that were dry runs */
    int64_t unfit;               /* plans that took too much memory */
    const char *unfit_mesh;      /* the fastest of them; "" */
    double unfit_s;              /* its predicted seconds of a step */
    int64_t unfit_memory;        /* bytes of its worker with most */
    const char *why;             /* why the best plan is the best, in a few sentences */
    const char *command;         /* fast train with the best plan */
} fast_plan_result;

/* Called now and then with what is done; `plans` and `runs` so far. False ends the search. */
typedef bool fast_plan_progress_fn(void *ctx, const char *what, int64_t done, int64_t count);

/* Plan how to train a model on a cluster. Options are those of fast_lab_part("plan") and of a run;
 * `progress` may be NULL. The caller frees the result. FAST_EINVAL says why there is no plan.
 * FAST_ECANCELED. */
FAST_API FAST_MUST_CHECK fast_err fast_plan_run(const char *const *options,
                                                fast_plan_progress_fn *progress, void *ctx,
                                                fast_plan_result **out);
FAST_API void fast_plan_free(fast_plan_result *result); /* NULL is allowed */

/* Simulate. */

/* How the program of one simulated actor ended. */
typedef struct fast_simulated {
    const char *name;    /* "worker 3" */
    int64_t node;        /* where it lives */
    int64_t life;        /* restarts */
    fast_err err;        /* FAST_OK, or why it gave up; FAST_ECANCELED: it crashed */
    const char *detail;  /* in one line; "" */
    const char *culprit; /* the actor that it blames: "worker 2"; or NULL */
    int64_t rounds;      /* finished in its last life */
} fast_simulated;

/* One simulation of fast_simulate(). */
typedef struct fast_simulation {
    const char *program;   /* that was simulated, in one word */
    const char *title;     /* the simulation in one line */
    int64_t seed;          /* of everything random in it */
    const char *faults;    /* its schedule, as text; "" */
    const char *broken;    /* which promise of FAST was broken; "" if none, as it should be */
    int64_t failed_count;  /* actors that gave up; those that crashed do not count */
    int64_t crashed_count; /* actors that crashed and were not restarted */
    int64_t wrong_count;   /* sums that were wrong: somebody lied */
    const fast_simulated *actors; /* all */
    int64_t actor_count;          /* number of actors */
    double time_s;                /* of this machine */
    int64_t virtual_time_ns;      /* of the simulated cluster */
    int64_t messages_sent;        /* by all actors */
    int64_t bytes_sent;           /* by all actors */
    int64_t events;               /* of the simulation */
    uint64_t trace_hash;          /* equal for equal simulations, on any machine */
    const char *command;          /* that repeats it */
    int64_t shrunk_tries;         /* simulations that it took to reduce the faults; 0: it was not */
} fast_simulation;

/* Called after each simulation, which is lent for the call; false ends the campaign. */
typedef bool fast_simulate_fn(void *ctx, const fast_simulation *simulation);

/* Simulate a small program of actors on a cluster, with faults: `fast simulate`. Options as there:
 * fast_lab_part("simulate"). Programs that give up are a result, not an error. */
FAST_API FAST_MUST_CHECK fast_err fast_simulate(const char *const *options,
                                                fast_simulate_fn *report, void *ctx);

/* Learning rates. */

/* One step of `fast find-lr`. */
typedef struct fast_lr_point {
    double lr;       /* learning rate of the step */
    double loss;     /* of the batch, before the step */
    double smoothed; /* running mean of the losses so far */
} fast_lr_point;

/* Called once for each step, whose point is lent for the call. False ends the test. */
typedef bool fast_lr_point_fn(void *ctx, const fast_lr_point *point);

/* The range that a test of learning rates has found. NAN where the loss did not fall. */
typedef struct fast_lr_range {
    int64_t steps;   /* taken */
    bool diverged;   /* the loss rose to four times its minimum, or was no number: it ended there */
    double steepest; /* learning rate at which the loss fell fastest */
    double minimum;  /* learning rate of the smallest loss */
    double suggested; /* a tenth of that: below the rates at which training is unstable */
} fast_lr_range;

/* Train with a learning rate that grows from lr_min to lr_max by a factor a step (Smith, "Cyclical
 * Learning Rates", 2017), and report each step. `options` are those of a run; steps=N is the number
 * of steps, 100 if it is not given. Several workers count as one with their batches together.
 * Nothing is saved or stored. FAST_EINVAL also for options without a meaning here. FAST_ECANCELED
 * if `report` ended the test: the range is incomplete, and *out is unchanged. */
FAST_API FAST_MUST_CHECK fast_err fast_find_lr(const char *const *options, double lr_min,
                                               double lr_max, fast_lr_point_fn *report, void *ctx,
                                               fast_lr_range *out);

#ifdef __cplusplus
}
#endif
