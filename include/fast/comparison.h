/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * comparison.h - compare ways of training: `fast compare`. The rules of fast.h hold.
 *
 *     fast_compare *compare = NULL;
 *     const char *options[] = { "system=bsp,ssp,easgd", "cluster=hetero", NULL };
 *     if (fast_compare_open(&(fast_compare_config){ .options = options }, &compare) == FAST_OK &&
 *         fast_compare_run(compare) == FAST_OK)
 *         puts(fast_compare_verdict(compare));
 *     fast_compare_close(compare);
 */

#include "fast/fast.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Compare. Every run is a process `fast train ... --json` of its own. With `tune` every line gets
 * the same number of trials, on a fraction of the training set that is held out and with a seed
 * that is not reported. The values that reached the target first, else those with the best
 * accuracy, are then run with each seed on the test set. A run that fails is a line with its
 * reason.
 */

/* A comparison: its lines, their runs and their measures. */
typedef struct fast_compare fast_compare;

/* A comparison to be made; zero means default. */
typedef struct fast_compare_config {
    size_t size;         /* bytes of this struct, as in fast.h; 0 means sizeof */
    const char *program; /* the program fast, by path or found in $PATH; NULL: "fast" */
    /* "name=value" in the words of `fast train`, ended by NULL. A value may be a list, bsp,ssp, or
     * a range, 2..16x2, 1..9+2, 0..3, and an option may be given more than once: each is an axis of
     * the sweep (docs/compare.md). name is that of the comparison: its runs are stored under it,
     * and complete ones are not run again. seed is the first of the seeds, holdout the fraction of
     * the training set that evaluates trials (a tenth). Without data=NAME it is a small standard
     * job on digits; without any axis eight well-known systems are compared. NULL: none. */
    const char *const *options;
    const char *const *tune; /* "lr=0.05,0.1,0.2", ended by NULL: trials for every line, of all
                                combinations; "no": none; NULL: of the standard job its rates */
    int64_t seeds;           /* runs of a line, with seeds that follow one another; 0: 3 */
    int64_t jobs;            /* runs at a time; 0: one a core on sim, else 1 */
    /* The end of every run: "10s" of training, "5MB" sent or "100000samples" seen. Lines are then
     * compared by that measure, and their steps are fitted to it. NULL: runs end after their epochs
     * or steps, and are compared by time. */
    const char *budget;
    /* How the tuned options are searched: "grid" (NULL), "asha:reduction=4", ...; the names are
     * those of fast_searcher_list(). "lr=0.001..1:log" in `tune` is then a range. */
    const char *searcher;
    bool trials_only; /* a search: trials of one way of training and no runs; see docs/search.md */
    /* Of a search by a searcher whose trials start with models of others: the file for the last
     * checkpoint of the best trial. NULL: none. */
    const char *checkpoint;
    bool changes;        /* on sim: find out whether a slower network or more workers would change
                            the answer, by two runs each */
    const char *command; /* the user's command line, for reports and to continue; or NULL */
} fast_compare_config;

/* List the searchers. fast_searcher_missing() says which parts of its paper searcher `i` does not
 * have; "": none. [any thread] */
FAST_API const fast_part *fast_searcher_list(int64_t *count_out);
FAST_API const char *fast_searcher_missing(int64_t i);

/* Measures of a run, with the names of `fast train --json`; NAN if one has no meaning. */
typedef struct fast_compare_measures {
    double test_accuracy;    /* of the last evaluation */
    double test_loss;        /* of the last evaluation */
    double time_to_target_s; /* NAN if the target was not reached */
    double time_s;           /* of training; virtual on sim */
    double virtual_time_s;   /* of training on sim, else NAN */
    double wall_time_s;      /* by the machine's clock */
    double steps;            /* taken */
    double samples;          /* seen */
    double samples_per_s;    /* of training */
    double bytes_sent;       /* by all actors */
    double compute_s;        /* mean of the workers, as the next three */
    double exchange_s;       /* moving and summing up */
    double wait_s;           /* before a peer had sent */
    double codec_s;          /* encoding and decoding */
    double staleness_mean;   /* of updates */
    double staleness_p95;    /* 95 of 100 updates are at most this stale */
    double staleness_max;    /* of the stalest update */
    double divergence;       /* of the replicas at the end */
    double completeness;     /* fraction of the workers' contributions in the replicas */
    double step_s;           /* a worker's step */
    double predicted_step_s; /* a worker's step by the cost model */
    double lr;               /* base learning rate */
    double workers;          /* number of workers */
    double batch;            /* samples of a worker's step */
} fast_compare_measures;

/* One evaluation of a run. */
typedef struct fast_compare_point {
    double time_s;         /* since training began; virtual on sim */
    double samples;        /* seen */
    double bytes_sent;     /* by all actors */
    double test_accuracy;  /* NAN for regression */
    double test_loss;      /* of the test set, or of what was held out */
    double divergence;     /* of the replicas */
    double staleness_mean; /* of updates so far */
    double progress;       /* fraction of the run's steps; NAN of a stored run */
} fast_compare_point;

/* One run, or one trial. */
typedef struct fast_compared_run {
    int64_t seed;                   /* of everything random in it */
    const char *tuned;              /* tuned options of this run: "lr=0.1"; "" */
    const char *status;             /* waiting, running, held, done, target, stopped (early, by the
                                       searcher), saved (other trials start with its model),
                                       diverged, failed, canceled */
    const char *error;              /* why it failed, one line; or NULL */
    const char *command;            /* that repeats it, quoted for a shell; NULL while waiting */
    fast_compare_measures measures; /* NAN until it ended */
    const fast_compare_point *points; /* its curve, thinned out */
    int64_t point_count;              /* number of points */
    int64_t parent;                   /* trial whose model it started with; -1: a new model */
    double samples_before;            /* that its parents had seen; they are in its measures too */
    double time_before_s;             /* that its parents had trained; not in its measures */
} fast_compared_run;

/* Median, least and largest over the runs of a line; INFINITY is "never", NAN "not measured". */
typedef struct fast_compare_spread {
    double median; /* of an even number: between the two in the middle */
    double min;    /* smallest value */
    double max;    /* largest value */
} fast_compare_spread;

/* A line of the comparison: one way of training. */
typedef struct fast_compared {
    const char *name;  /* how it differs from other lines: "ssp", "ssp, workers 8" */
    int64_t place;     /* 1 + the lines that are better beyond the spread; ties share a place; 0:
                              none, as its runs ended before the target without a budget, or the
                              comparison was canceled */
    const char *error; /* why a run or all trials failed, one line; or NULL */
    const char *tuned; /* values that the trials chose: "lr=0.1"; "" */
    int64_t reached_count;         /* runs that reached the target */
    int64_t failed_count;          /* runs that failed, diverged or were canceled */
    fast_compare_spread to_target; /* seconds, bytes or samples: lines are compared by it */
    double not_within;             /* least amount after which a run ended without the target;
                                             INFINITY if none did */
    fast_compare_spread time_to_target_s; /* "never" for runs that did not reach it */
    fast_compare_spread accuracy;         /* of the test set at the end; diverged: 0 */
    fast_compare_spread test_loss;        /* where there is no accuracy this one counts */
    fast_compare_spread time_s;           /* of training */
    fast_compare_spread samples;          /* seen */
    fast_compare_spread bytes_sent;       /* by all actors */
    fast_compare_spread compute_share;    /* of a worker's time; the four add up to 1 */
    fast_compare_spread codec_share;      /* encoding and decoding */
    fast_compare_spread exchange_share;   /* moving and summing up */
    fast_compare_spread wait_share;       /* before a peer had sent */
    fast_compare_spread staleness;        /* mean of a run */
    fast_compare_spread staleness_max;    /* largest of a run */
    fast_compare_spread divergence;       /* of the replicas, at the end */
    fast_compare_spread step_s;           /* as it was measured */
    fast_compare_spread predicted_step_s; /* as the cost model has it */
    fast_compare_spread samples_per_s;    /* of training */
    const fast_compared_run *runs;        /* one a seed */
    int64_t run_count;                    /* number of runs */
    const fast_compared_run *shown;  /* the run that stands for the line: the median; or NULL */
    const fast_compared_run *trials; /* those of its searcher; of a grid one a combination */
    int64_t trial_count;             /* number of trials; of a grid equal for all lines */
} fast_compared;

/* How far a comparison is: given to the callback of fast_compare_watch(), ten times a second. */
typedef struct fast_compare_progress {
    int64_t runs_done;            /* of trials and runs */
    int64_t runs_count;           /* in all */
    int64_t running;              /* at this moment */
    double seconds_left;          /* estimate by the machine's clock; NAN at first */
    const char *phase;            /* purpose of these runs: "budget", "runs" or "changes" */
    const char *line;             /* the name of the line of `run`; NULL */
    const fast_compared_run *run; /* that has just ended; or NULL */
    bool trial;                   /* it was a trial */
} fast_compare_progress;

/* The progress is lent for the call; it may call fast_compare_cancel(). */
typedef void fast_compare_fn(void *ctx, const fast_compare_progress *progress);

/* Expand the sweep, check its options and copy the configuration; nothing runs. FAST_EINVAL. */
FAST_API FAST_MUST_CHECK fast_err fast_compare_open(const fast_compare_config *config,
                                                    fast_compare **out);
FAST_API void fast_compare_watch(fast_compare *compare, fast_compare_fn *watch, void *ctx);

/* Run everything. Runs that fail do not end it. FAST_ECANCELED after a cancel; the lines then have
 * the runs that ended. */
FAST_API FAST_MUST_CHECK fast_err fast_compare_run(fast_compare *compare);

/* End the children and let fast_compare_run() return. [any thread, and signal handlers] */
FAST_API void fast_compare_cancel(fast_compare *compare);

/* Return the lines, the best first once it has run. Lent until close. */
FAST_API const fast_compared *fast_compare_lines(const fast_compare *compare, int64_t *count_out);

/* Return one paragraph: which line to choose, why, and which lines tie. Lent until close. */
FAST_API const char *fast_compare_verdict(const fast_compare *compare);

/* Return the options that all lines share, "data=digits", ..., NULL; and the target, 0: none. */
FAST_API const char *const *fast_compare_job(const fast_compare *compare);
FAST_API double fast_compare_target(const fast_compare *compare);

/* Write the samples and the seconds of training (virtual on sim) that the trials, or the runs, have
 * used, whole or stopped early. */
FAST_API void fast_compare_cost(const fast_compare *compare, bool trials, double *samples_out,
                                double *seconds_out);

/* Return the measure that lines are compared by: "time_s", "bytes_sent" or "samples". */
FAST_API const char *fast_compare_measure(const fast_compare *compare);

/* Return the name of its runs in the store (batch_of); NULL if they are not stored. */
FAST_API const char *fast_compare_name(const fast_compare *compare);

/* Write the report, one HTML file that needs no network and no script; `command` is the user's
 * command line, to be shown; may be NULL. */
FAST_API FAST_MUST_CHECK fast_err fast_compare_report(const fast_compare *compare, const char *path,
                                                      const char *command);

/* Write everything as one JSON object and a line feed: the verdict, its facts, lines, trials and
 * runs (docs/compare.md). The store has the same as the result of the comparison. */
FAST_API FAST_MUST_CHECK fast_err fast_compare_json(const fast_compare *compare, FILE *out);

/* NULL is allowed. */
FAST_API void fast_compare_close(fast_compare *compare);

#ifdef __cplusplus
}
#endif
