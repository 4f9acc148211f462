/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/rng.h"
#include "fast/fast.h"
#include "lab/words.h"

/*
 * Searchers: which settings of some options are tried, for how long, and which trial ends early.
 * The contract is three calls, made by the owner of the processes:
 *
 *   propose   the next trial to start or to continue; or wait; or the search is over
 *   observe   a measure of a running trial: an evaluation, or its end
 *   stop      after each measure: continue, hold (its process may be needed again), or end
 *
 * A searcher plans rounds. A round is a list of trials, each with the fraction of a whole run up to
 * which it trains now; the next round is planned when every trial of this one was held or has
 * ended. Plans and stops read trials of earlier rounds only, so that neither the order in which
 * processes answer nor their number has an effect: equal seeds and measures give equal proposals.
 *
 *   search_space.c    options and their values, as coordinates
 *   search.c          the contract: rounds, curves, trials that cannot be better any more
 *   searchers.c       the registry
 *   search_NAME.c     a searcher, or a family of them
 *   compare_trials.c  the owner: measures of runs -> observations, proposals -> commands
 */
enum {
    FAST_SEARCH_OPTIONS_MAX = 16,    /* options of a space */
    FAST_SEARCH_TRIALS_MAX = 256,    /* of one search */
    FAST_SEARCH_CURVE_MAX = 256,     /* points of a trial; when all are used, every other goes */
    FAST_SEARCH_TRIALS_STANDARD = 16 /* of a space with a range */
};

/* More settings than these are not counted. */
#define FAST_SEARCH_SETTINGS_MAX (INT64_C(1) << 52)

/* One searched option. */
typedef struct fast_search_option {
    const char *name;  /* of the option, in its table */
    fast_words values; /* "lr=0.1", ...; empty for a range */
    double low, high;  /* ends of a range */
    bool log;          /* a range whose logarithm is searched */
    bool whole;        /* a range of whole numbers */
    bool numbers;      /* all values are numbers: they have an order */
} fast_search_option;

/* All searched options. A setting is an array of coordinates, one an option: the index of a value,
 * or for a range a number from 0 (low) to 1 (high). */
typedef struct fast_search_space {
    fast_search_option options[FAST_SEARCH_OPTIONS_MAX]; /* in the order of the command line */
    int64_t count;                                       /* number of options */
} fast_search_space;

/* Return the number of settings, FAST_SEARCH_SETTINGS_MAX at most; 0 if a range has no end of
 * them. */
int64_t fast__search_space_count(const fast_search_space *space);
/* Write setting `i` of a space without ranges: the last option changes fastest. */
void fast__search_space_at(const fast_search_space *space, int64_t i, double *at);
/* Draw a setting at random. */
void fast__search_space_draw(const fast_search_space *space, fast_rng *rng, double *at);
/* Append a setting as "name=value" for each option. */
fast_err fast__search_space_words(const fast_search_space *space, const double *at,
                                  fast_words *out);
/* The square of the distance of two settings, for models: numbers are spread over [0, 1], names
 * are equal or at distance 1. */
double fast__search_space_distance(const fast_search_space *space, const double *a,
                                   const double *b);
void fast__search_space_fini(fast_search_space *space);

/* A point of a trial's curve. */
typedef struct fast_search_point {
    double progress; /* fraction of a whole run */
    double value;    /* smaller is better; INFINITY where training diverged */
} fast_search_point;

/* States of a trial. */
typedef enum fast_trial_state {
    FAST_TRIAL_WAITS,   /* planned, not started or not continued yet */
    FAST_TRIAL_RUNS,    /* proposed, and neither held nor at its end */
    FAST_TRIAL_HELD,    /* at its `until`: may be continued */
    FAST_TRIAL_ENDED,   /* at the end of its run */
    FAST_TRIAL_STOPPED, /* ended early by the searcher */
} fast_trial_state;

/* One trial. */
typedef struct fast_trial {
    double at[FAST_SEARCH_OPTIONS_MAX]; /* its setting */
    int64_t parent;                     /* trial whose model it starts with; -1: a new model */
    double from;                        /* fraction of a run at which it starts: its parent's end */
    double until;                       /* fraction at which it is held, or at which it ends */
    int64_t round;                      /* in which it ran last */
    fast_trial_state state;             /* as the owner was told */
    fast_search_point *points;          /* its curve, thinned out; NULL before the first point */
    int64_t point_count;                /* number of points */
    double value;                       /* the last of the curve; INFINITY before the first */
    double spent;                       /* seconds, bytes or samples so far, parents included */
    bool reached;                       /* it has reached the target, after `spent` */
} fast_trial;

/* Options of all searchers; each has a table of those that it reads. */
typedef struct fast_search_config {
    int64_t trials;    /* 0: every setting, or FAST_SEARCH_TRIALS_STANDARD where there is a range */
    int64_t parallel;  /* trials of a round; 0: the searcher's own number */
    double reduction;  /* a rung holds this many trials for each of the next one */
    double first;      /* fraction of a run at the first rung, or of a slice */
    double confidence; /* with which a trial must be hopeless before it is dropped */
    double slack;      /* relative distance from the best that a bandit accepts */
    int64_t start;     /* random trials before the first model */
    int64_t degree;    /* options in a product of a spectral model */
    int64_t terms;     /* products of a spectral model */
    int64_t stages;    /* restrictions of a space, or periods of a run */
    double perturb;    /* factor of a perturbed number */
} fast_search_config;

typedef struct fast_search fast_search;

/* A searcher; its name, summary and options are the part of the same number. */
typedef struct fast_searcher {
    const char *missing; /* parts of its paper that are not here; "" */
    bool forks;          /* trials start with models of other trials: `fast search` alone */
    bool lists;          /* options have values, not ranges */
    int64_t options_min; /* options that it needs at least; 0 stands for 1 */
    bool prunes;         /* trials that cannot be better than the best so far are ended */
    int64_t (*bound)(const fast_search *search); /* trials at most; NULL: those of the options */
    /* Add the trials of the next round; none ends the search. All trials have ended or are held. */
    fast_err (*plan)(fast_search *search);
    /* True if a running trial is to end. NULL: never. */
    bool (*drop)(const fast_search *search, const fast_trial *trial);
} fast_searcher;

/* A search. */
struct fast_search {
    const fast_searcher *searcher;        /* the rule */
    const char *name;                     /* of the searcher */
    fast_search_config config;            /* its options */
    const fast_search_space *space;       /* lent */
    uint64_t seed;                        /* of everything random */
    fast_trial *trials;                   /* all, by number */
    int64_t count;                        /* number of trials */
    int64_t drawn;                        /* settings that fast__search_sample() gave */
    int64_t round;                        /* number of the current round; -1 before the first */
    int64_t jobs[FAST_SEARCH_TRIALS_MAX]; /* trials of the current round */
    int64_t job_count;                    /* number of trials of this round */
    int64_t job_next;                     /* first of them that was not proposed */
    bool over;                            /* the last round has ended */
    bool restarts;  /* a trial that was held starts again from the beginning */
    double goal;    /* value at the target; not finite: there is no target */
    int64_t stage;  /* omnivore: number of the period */
    int64_t level;  /* omnivore: value of the last option */
    int64_t parent; /* omnivore: trial whose model the period started with */
    bool probes;    /* omnivore: the last round was a grid */
};

/* Return all searchers and their number; fast_searcher_list() has their parts in the same order. */
const fast_searcher *fast__searchers(int64_t *count_out);

/* Open a search by "name" or "name:key=value"; the space is lent until close. FAST_EINVAL. */
fast_err fast__search_open(const char *spec, const fast_search_space *space, uint64_t seed,
                           fast_search **out);
void fast__search_close(fast_search *search); /* NULL is allowed */
/* Return the largest number of trials that the search can have. */
int64_t fast__search_bound(const fast_search *search);

/* Write the number of the next trial to start or to continue. */
enum { FAST_SEARCH_WAIT = -1, FAST_SEARCH_OVER = -2 };
fast_err fast__search_propose(fast_search *search, int64_t *trial_out);

/* A measure of a trial. */
typedef struct fast_observation {
    double progress; /* fraction of a whole run, its parents' included */
    double value;    /* smaller is better; INFINITY for a run that diverged or failed */
    double spent;    /* seconds, bytes or samples so far */
    bool reached;    /* the target */
    bool ended;      /* the last of this trial */
} fast_observation;
fast_err fast__search_observe(fast_search *search, int64_t trial, const fast_observation *o);

/* Decide about a trial after a measure. A trial that ends stays in its place until its process
 * has ended; its later measures are ignored. */
typedef enum fast_trial_order {
    FAST_TRIAL_GO,   /* train on */
    FAST_TRIAL_HOLD, /* wait: it may be continued */
    FAST_TRIAL_END,  /* end early */
    FAST_TRIAL_SAVE, /* end with a checkpoint, from which other trials may start */
} fast_trial_order;
fast_trial_order fast__search_stop(fast_search *search, int64_t trial);

/* For searchers. */

/* Trials of the search by its options. */
int64_t fast__search_trial_count(const fast_search *search);
/* Write the next setting that was not drawn yet: of a space without ranges in its order (shuffled
 * if asked, or if there are more settings than trials), else at random. False: all were drawn. */
bool fast__search_sample(fast_search *search, bool shuffled, double *at);
/* Add a trial to the round, with a new setting or a model of another trial. */
fast_err fast__search_add(fast_search *search, const double *at, int64_t parent, double until);
/* Continue a held trial in this round. */
fast_err fast__search_continue(fast_search *search, int64_t trial, double until);
/* The value of a trial at a fraction of a run: of its first point there, else its last one. */
double fast__trial_value(const fast_trial *trial, double progress);
/* True for a trial that counts for decisions about another: it came to rest in an earlier round. */
bool fast__trial_is_history(const fast_search *search, const fast_trial *trial, int64_t round);
/* True if a trial was trained to the end of a run. */
bool fast__search_has_whole(const fast_search *search);
/* True if a trial has reached the target. */
bool fast__search_has_reached(const fast_search *search);
/* The history's best trial by its last value; NULL if no trial has a value. */
const fast_trial *fast__search_best(const fast_search *search);
/* The probability that a normal number is below `x`. */
double fast__normal_below(double x, double mean, double deviation);
/* The probability that a trial's value will be below `value` at a fraction of a run, by its curve;
 * NAN if that is too short, 0 after a value that is not finite. */
double fast__curve_below(const fast_trial *trial, double progress, double value);
/* True if values of `a` are lower than those of `b` by Welch's test. */
bool fast__welch_below(const fast_trial *a, const fast_trial *b, double confidence);

/* The rules, one function a searcher: the next round, and whether a trial is dropped. */
fast_err fast__grid_plan(fast_search *search);
fast_err fast__bayes_plan(fast_search *search);
fast_err fast__asha_plan(fast_search *search);
fast_err fast__race_plan(fast_search *search);
fast_err fast__median_plan(fast_search *search);
bool fast__median_drop(const fast_search *search, const fast_trial *trial);
bool fast__curve_drop(const fast_search *search, const fast_trial *trial);
fast_err fast__tupaq_plan(fast_search *search);
fast_err fast__hyperdrive_plan(fast_search *search);
fast_err fast__spectral_plan(fast_search *search);
fast_err fast__pbt_plan(fast_search *search);
int64_t fast__pbt_bound(const fast_search *search);
fast_err fast__omnivore_plan(fast_search *search);
int64_t fast__omnivore_bound(const fast_search *search);
