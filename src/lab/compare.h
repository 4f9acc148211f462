/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/child.h"
#include "base/err.h"
#include "base/json.h"
#include "fast/lab.h"
#include "lab/search.h"
#include "lab/words.h"

#include <signal.h>
#include <stdio.h>

/*
 * The parts of a comparison, in the order in which it goes through them:
 *
 *   sweep.c           options of a user -> axes, and their combinations: the lines
 *   compare.c         lines -> trials and runs, each with its command; the public calls
 *   compare_trials.c  proposals of searchers -> trials, their points -> observations
 *   compare_pool.c    runs -> processes, their output -> measures and points
 *   compare_budget.c a budget -> steps of each line; spent amounts, limits in words
 *   compare_stored.c  runs that the store has from an earlier call
 *   compare_read.c    JSON of a run -> numbers
 *   compare_rank.c    measures -> spreads and places
 *   compare_changes.c a slower network and more workers: who would be first
 *   verdict.c         places -> one paragraph
 *   verdict_json.c    everything as JSON, for the store, pages and programs
 *   compare_report.c  everything -> one HTML file; chart.c draws its pictures
 */
enum {
    FAST_COMPARE_LINES_MAX = 256,
    FAST_COMPARE_RUNS_MAX = 10000, /* runs and trials of all lines together */
    FAST_COMPARE_JOBS_MAX = 64,
    FAST_COMPARE_POINTS_MAX = 256, /* of a run: when they are all taken, every other goes */
    FAST_COMPARE_TRIAL_SEED = 1000 /* of trials, and never of a run that is reported */
};

/* Append the values that a text stands for to `out`: a list at its commas, ranges spelled out.
 * `option` says whether its values may hold commas of their own. FAST_EINVAL. */
fast_err fast__sweep_values(const fast_option *option, const char *text, fast_words *out);

/* One line: a value for each axis. */
typedef struct fast_sweep_line {
    char *name;         /* its values: "ssp, workers 8" */
    fast_words options; /* "name=value" of the axes alone */
} fast_sweep_line;

/* The lines and tuned options that a user's options stand for. */
typedef struct fast_sweep {
    fast_words job;          /* "name=value": what all lines have in common */
    fast_sweep_line *lines;  /* at least one */
    int64_t line_count;      /* number of lines */
    fast_search_space space; /* of the tuned options; without an option nothing is tuned */
    bool simulated;          /* every run is on sim: its times are virtual */
    bool trials_only;        /* a search: the run of its line gets a command and is not started */
} fast_sweep;

fast_err fast__sweep_open(const fast_compare_config *config, fast_sweep *out);
void fast__sweep_close(fast_sweep *sweep);

/* The measure by which lines are compared: the amount of it that a run spends until the target. */
typedef enum fast_compare_by { FAST_BY_TIME, FAST_BY_BYTES, FAST_BY_SAMPLES } fast_compare_by;

/* The limit of every run of a comparison, in the measure by which lines are compared. */
typedef struct fast_budget {
    fast_compare_by by; /* seconds of training, bytes sent or samples seen */
    double amount;      /* 0: none, runs end after their epochs or steps */
} fast_budget;

/* Read "10s", "500ms", "2min", "1h", "5MB", "2GiB", "100000samples"; "": no budget. FAST_EINVAL. */
fast_err fast__budget_read(const char *text, fast_budget *out);
/* The amount that a run has spent at its end, and until the target; the latter is INFINITY where
 * the target was not reached within the budget. */
double fast__budget_spent(const fast_budget *budget, const fast_compare_measures *m);
double fast__budget_to_target(const fast_budget *budget, const fast_compare_measures *m);
/* An amount for people: "4.19 s", "5 MB", "12,000 samples" as "1.2e+04 samples". */
void fast__budget_text(const fast_budget *budget, double amount, char text[48]);

/* A run and what belongs to it. */
typedef struct fast_compare_task {
    fast_compared_run *view;    /* in the line's `runs` or `trials` */
    int64_t line;               /* index */
    bool trial;                 /* a trial, not a reported run */
    int64_t steps;              /* option of the command; 0: as the job has it */
    bool unstored;              /* not in the run store: a probe or a forecast */
    const fast_words *changes;  /* "name=value" in place of the job's and the line's; or NULL */
    fast_words argv;            /* of the process */
    fast_words settings;        /* of a trial: "name=value" of the tuned options */
    char *tuned;                /* "lr=0.1" */
    char *command;              /* for people */
    char *key;                  /* the command as the store has it; NULL if runs are not stored */
    char error[256];            /* the last line of trouble; "" */
    fast_compare_point *points; /* the curve that `view` lends; NULL before the first evaluation */
    int64_t thinned;            /* every 2^thinned-th evaluation is a point */
    int64_t seen;               /* evaluations */
    const char *outcome;        /* outcome in its result: "done", ...; NULL before */
    fast_child *child;          /* its process while it is held; NULL */
    bool ending;                /* a trial that its searcher ends early */
    bool saving;                /* a trial that ends with a checkpoint for others */
    bool restarts;              /* a held trial whose process ends: it starts again later */
    double spent_before[2];     /* samples and seconds of processes before the last one */
} fast_compare_task;

/* An answer to "what if": the line that the cost model expects to be first, verified by simulation
 * with one seed. */
typedef struct fast_compare_change {
    const char *what;   /* "twice the workers" */
    const char *first;  /* name of the line that the model expects first; NULL: no answer */
    const char *other;  /* the line that it was simulated against */
    double predicted_s; /* time to the target of `first` by the model */
    double first_s;     /* the same as simulated; NAN if it was not reached */
    double other_s;     /* time to the target of `other` as simulated; NAN if it was not reached */
} fast_compare_change;

/* All answers of a comparison. */
enum { FAST_COMPARE_CHANGES_MAX = 2 };
typedef struct fast_compare_changes {
    bool asked;                                          /* they are to be found */
    fast_compare_change items[FAST_COMPARE_CHANGES_MAX]; /* answers */
    int64_t count;                                       /* number of answers */
} fast_compare_changes;

/* Who is told how far it is. */
typedef struct fast_compare_watcher {
    fast_compare_fn *tell; /* NULL: nobody is */
    void *ctx;             /* argument */
} fast_compare_watcher;

/* Searches and models of the trials. */
typedef struct fast_compare_trials {
    fast_search **searches; /* [line_count]; NULL if nothing is tuned */
    char *folder;           /* of trials' checkpoints; NULL: no trial needs any */
    char *checkpoint;       /* file for that of the best trial; NULL: no such file */
} fast_compare_trials;

struct fast_compare {
    fast_sweep sweep;               /* the expanded options */
    fast_compared *lines;           /* the lines that callers see */
    int64_t line_count;             /* number of lines */
    fast_compare_task *tasks;       /* trials of all lines, then runs of all lines */
    int64_t task_count;             /* number of trials and runs */
    fast_compared_run *views;       /* in the same order: what callers see of them */
    int64_t trial_count;            /* of a line, at most */
    int64_t seed_count;             /* runs of a line */
    int64_t seed;                   /* the first */
    int64_t trial_seed;             /* of trials */
    double holdout;                 /* fraction of the training set that evaluates trials */
    char *program;                  /* path of the program fast */
    char name[128];                 /* of the comparison: batch_of of its runs */
    char store[4096];               /* of the runs: "auto", "none" or a path */
    bool named;                     /* by the user: complete runs of this name are not run again */
    int64_t jobs;                   /* processes at a time */
    double target;                  /* 0: none */
    fast_budget budget;             /* of every run */
    int64_t *steps;                 /* of each line's runs, fitted to the budget; NULL without */
    fast_compare_changes changes;   /* of the answer, by a slower network or more workers */
    char *command;                  /* the user's command line; or NULL */
    char *verdict;                  /* the paragraph; NULL before it ran */
    fast_compare_watcher watcher;   /* of the progress */
    fast_compare_trials trials;     /* of all lines */
    volatile sig_atomic_t canceled; /* set by any thread or a signal handler */
};

/* Make the command of a task, with what was tuned for its line. */
fast_err fast__task_make(fast_compare *compare, fast_compare_task *task, const fast_words *tuned,
                         int64_t seed);
/* Open a search for each line. FAST_EINVAL for a searcher that is unknown or does not fit. */
fast_err fast__trials_open(fast_compare *compare, const char *searcher);
/* Add the flags by which a trial starts with another one's model and saves its own. */
fast_err fast__trials_add_flags(fast_compare *compare, fast_compare_task *task);
/* Move the checkpoint of the chosen trial to the user's file. */
fast_err fast__trials_save(const fast_compare *compare);
void fast__trials_close(fast_compare *compare);
/* Write the next trial that a line's searcher proposes, its command made; NULL: none for now.
 * *over_out tells that the search of the line is over. */
fast_err fast__trials_next(fast_compare *compare, int64_t line, fast_compare_task **out,
                           bool *over_out);
/* Tell the searcher the last point of a trial, or its end, and ask what becomes of it. */
fast_err fast__trials_observe(fast_compare *compare, const fast_compare_task *task, bool ended,
                              fast_trial_order *order_out);
/* Choose for a line whose trials have all ended; its runs are made, or fail if no trial worked. */
fast_err fast__compare_choose(fast_compare *compare, int64_t line);

/* Complete runs of this comparison that the store has already, by their command. */
typedef struct fast_compare_stored fast_compare_stored;
/* *out is NULL if the comparison has no name or no store. */
fast_err fast__compare_stored_open(const fast_compare *compare, fast_compare_stored **out);
/* Read a task's result and curve if the store has its command; *found_out tells. */
fast_err fast__compare_stored_read(fast_compare_stored *stored, fast_compare_task *task,
                                   bool *found_out);
void fast__compare_stored_close(fast_compare_stored *stored); /* NULL is allowed */

/* Fit the steps of each line to the budget by short runs, and write the commands of trials or runs.
 * Nothing without a budget. FAST_ECANCELED. */
fast_err fast__budget_fit(fast_compare *compare);
/* Write the commands of all trials, or of all runs where nothing is tuned. */
fast_err fast__compare_make_tasks(fast_compare *compare);

/* Ask the cost model what would change the answer, and verify it. FAST_ECANCELED. */
fast_err fast__compare_changes(fast_compare *compare);

/* Run tasks to their ends. FAST_ECANCELED. */
fast_err fast__pool_run(fast_compare *compare, fast_compare_task *tasks, int64_t count);
/* Free the command, the curve and the texts of a task. */
void fast__task_fini(fast_compare_task *task);
/* Read a line of a process: a point, or the result. */
fast_err fast__task_read(fast_compare_task *task, const char *line);
fast_err fast__task_point(fast_compare_task *task, const fast_compare_point *point);

/* Read all measures, or a point, from a JSON object; NULL gives NAN everywhere. */
void fast__read_measures(const json_t *object, fast_compare_measures *out);
void fast__read_point(const json_t *object, fast_compare_point *out);

/* True for a run that was measured to its end. */
bool fast__run_is_whole(const fast_compared_run *run);
/* Median, least and largest of values that are not NAN. */
fast_compare_spread fast__spread_of(double *values, int64_t count);
/* True if `a` is better than `b` beyond their spreads. */
bool fast__line_beats(const fast_compared *a, const fast_compared *b);
/* True if the first line does not beat a line that reached the target as often as not: their
 * spreads touch. */
bool fast__line_ties(const fast_compare *compare, const fast_compared *line);
/* True if a line's runs ended without the target before the first line had reached it. */
bool fast__line_is_open(const fast_compare *compare, const fast_compared *line);
/* True if the trials chose the first or the last value of an option: "lr=0.8". */
bool fast__line_edge(const fast_compare *compare, const fast_compared *line, char text[64]);
/* Write the limit of a line's runs: "10 s" of a budget, "3 epochs (4.19 s)", "9 steps (1.2 s)". */
void fast__line_limit(const fast_compare *compare, const fast_compared *line, char text[96]);
/* Spreads, order and places of all lines; then the verdict. */
fast_err fast__compare_rank(fast_compare *compare);
fast_err fast__verdict(fast_compare *compare);
/* The whole comparison as JSON; NULL if memory is missing. */
json_t *fast__verdict_json(const fast_compare *compare);
/* Write it to the store of the runs; a store that cannot be written is no error. FAST_ENOMEM. */
fast_err fast__verdict_store(const fast_compare *compare);

/* Numbers for people: "3.2 s", "41.0 ms", "1.2 GB", "never", "-". */
void fast__people_time(double seconds, char text[32]);
void fast__people_bytes(double bytes, char text[32]);
/* Times as "median (min to max)"; the median alone where all are equal. */
void fast__people_times(const fast_compare_spread *spread, char text[96]);

/* Text with the characters that HTML knows replaced; control characters become spaces. */
void fast__html_text(FILE *out, const char *text);
/* The whole page. */
void fast__report_write(const fast_compare *compare, const char *command, FILE *out);
