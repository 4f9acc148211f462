/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of searchers: what each is called, its options and its functions. A new searcher is
 * a file with a plan, and one entry in each of the two tables; help, the manual, completion and the
 * tests that loop over the list then have it.
 */
#include "lab/search.h"

#include "base/option.h"
#include "fast/comparison.h"

#include <stddef.h>

#define TRIALS                                                               \
    FAST_OPT_INT(fast_search_config, trials, "0", 0, FAST_SEARCH_TRIALS_MAX, \
                 "settings to try; 0: all of the lists, or 16 where an option has a range")
#define PARALLEL(standard)                                                          \
    FAST_OPT_INT(fast_search_config, parallel, standard, 0, FAST_SEARCH_TRIALS_MAX, \
                 "trials of a round, which know only earlier rounds; 0: all")

static const fast_option random_options[] = { TRIALS, FAST_OPT_END };

static const fast_option bayes_options[] = {
    TRIALS,
    PARALLEL("2"),
    FAST_OPT_INT(fast_search_config, start, "4", 1, FAST_SEARCH_TRIALS_MAX,
                 "trials that are spread over the space before there is a model"),
    FAST_OPT_END,
};

static const fast_option asha_options[] = {
    TRIALS,
    PARALLEL("0"),
    FAST_OPT_REAL(fast_search_config, reduction, "3", 1, 64,
                  "each rung has this many times fewer trials, and is as many times longer"),
    FAST_OPT_REAL(fast_search_config, first, "0.111", 0.001, 1,
                  "fraction of a run at the first rung"),
    FAST_OPT_END,
};

static const fast_option median_options[] = {
    TRIALS,
    PARALLEL("2"),
    FAST_OPT_REAL(fast_search_config, first, "0.1", 0, 1,
                  "fraction of a run before which no trial ends"),
    FAST_OPT_END,
};

static const fast_option race_options[] = {
    TRIALS,
    FAST_OPT_REAL(fast_search_config, first, "0.03125", 0.001, 1, "fraction of a run of a slice"),
    FAST_OPT_REAL(
        fast_search_config, slack, "0.07", 0, 1e9,
        "the second trains on while its error is within this, times the fraction of a run "
        "that is left, of the best"),
    FAST_OPT_END,
};

static const fast_option curve_options[] = {
    TRIALS,
    PARALLEL("2"),
    FAST_OPT_REAL(fast_search_config, first, "0.1", 0, 1,
                  "fraction of a run before which no trial ends"),
    FAST_OPT_REAL(fast_search_config, confidence, "0.95", 0.5, 1,
                  "a trial ends when it will be worse than the best one with this probability"),
    FAST_OPT_END,
};

static const fast_option tupaq_options[] = {
    TRIALS,
    FAST_OPT_INT(fast_search_config, parallel, "10", 0, FAST_SEARCH_TRIALS_MAX,
                 "trials of a batch; 0: all"),
    FAST_OPT_REAL(fast_search_config, first, "0.1", 0.001, 1, "fraction of a run of a slice"),
    FAST_OPT_REAL(fast_search_config, slack, "0.5", 0, 1e9,
                  "a trial trains on while its error is at most 1 + slack times the best so far"),
    FAST_OPT_END,
};

static const fast_option hyperdrive_options[] = {
    TRIALS,
    FAST_OPT_INT(fast_search_config, parallel, "4", 1, FAST_SEARCH_TRIALS_MAX,
                 "places that are divided among the trials"),
    FAST_OPT_REAL(fast_search_config, first, "0.0625", 0.001, 1, "fraction of a run of a slice"),
    FAST_OPT_REAL(fast_search_config, confidence, "0.95", 0.5, 1,
                  "a trial is poor when it will miss the target with this probability"),
    FAST_OPT_END,
};

static const fast_option spectral_options[] = {
    FAST_OPT_INT(fast_search_config, trials, "64", 2, FAST_SEARCH_TRIALS_MAX,
                 "settings to try, in all stages together"),
    FAST_OPT_INT(fast_search_config, stages, "2", 1, 16, "fits, each of which fixes some bits"),
    FAST_OPT_INT(fast_search_config, degree, "2", 1, 3, "bits in a product"),
    FAST_OPT_INT(fast_search_config, terms, "4", 1, 6, "products that are retained of a fit"),
    FAST_OPT_END,
};

static const fast_option pbt_options[] = {
    FAST_OPT_INT(fast_search_config, parallel, "8", 2, 64, "members of the population"),
    FAST_OPT_INT(fast_search_config, stages, "8", 2, 64,
                 "parts of a run, after each of which members are copied and perturbed"),
    FAST_OPT_REAL(fast_search_config, perturb, "1.2", 1, 100,
                  "factor by which a number is changed, up or down"),
    FAST_OPT_REAL(fast_search_config, confidence, "0.95", 0.5, 1,
                  "with which another member must be better to be copied"),
    FAST_OPT_END,
};

static const fast_option omnivore_options[] = {
    FAST_OPT_INT(fast_search_config, stages, "4", 1, 64, "periods of a run, each with a grid"),
    FAST_OPT_REAL(fast_search_config, first, "0.03125", 0.001, 1,
                  "fraction of a run that a combination of the grid trains"),
    FAST_OPT_END,
};

static const fast_part parts[] = {
    { "grid", "every combination of the values, each to its end", NULL, NULL },
    { "random", "settings at random, each to its end", random_options, NULL },
    { "bayes", "settings by a Gaussian process and its expected improvement", bayes_options, NULL },
    { "asha", "successive halving: of each rung the best trials train on, the others are held",
      asha_options, NULL },
    { "race", "all trials side by side in short slices; those behind fall out", race_options,
      NULL },
    { "median", "a trial ends when it is worse than the median of earlier ones", median_options,
      NULL },
    { "curve", "a trial ends when its curve, extrapolated, will be worse than the best one",
      curve_options, NULL },
    { "tupaq", "TuPAQ: batches of trials; those far from the best so far make room for new ones",
      tupaq_options, NULL },
    { "hyperdrive", "HyperDrive: places for promising trials, turns for others, none for poor ones",
      hyperdrive_options, NULL },
    { "spectral", "Harmonica: a sparse polynomial of bits is fitted, and its least bits are fixed",
      spectral_options, NULL },
    { "pbt", "population based training: models of better members are copied, settings perturbed",
      pbt_options, NULL },
    { "omnivore", "Omnivore: each period of a run starts with a grid of momentum and asynchrony",
      omnivore_options, NULL },
};

static const fast_searcher searchers[] = {
    { .missing = "", .lists = true, .plan = fast__grid_plan },
    { .missing = "", .plan = fast__grid_plan },
    { .missing = "", .prunes = true, .plan = fast__bayes_plan },
    { .missing = "", .prunes = true, .plan = fast__asha_plan },
    { .missing = "", .prunes = true, .plan = fast__race_plan },
    { .missing = "", .prunes = true, .plan = fast__median_plan, .drop = fast__median_drop },
    { .missing = "eleven families of curves with sampled parameters: three families on a grid",
      .prunes = true,
      .plan = fast__median_plan,
      .drop = fast__curve_drop },
    { .missing =
          "a scan of the data that the models of a batch share; proposals by tree-structured "
          "Parzen estimators: they are random",
      .prunes = true,
      .plan = fast__tupaq_plan },
    { .missing = "the paper's own curve model: that of curve; slices of time: places change after "
                 "slices of a run",
      .prunes = true,
      .plan = fast__hyperdrive_plan },
    { .missing = "several minimisers of a fit: the best one is taken",
      .lists = true,
      .plan = fast__spectral_plan },
    { .missing = "members that train on without waiting: a stage ends for all",
      .forks = true,
      .prunes = true,
      .bound = fast__pbt_bound,
      .plan = fast__pbt_plan },
    { .missing = "", /* the division of machines into groups is the systems' */
      .lists = true,
      .options_min = 2,
      .forks = true,
      .bound = fast__omnivore_bound,
      .plan = fast__omnivore_plan },
};

enum { COUNT = sizeof searchers / sizeof *searchers };
_Static_assert(COUNT == sizeof parts / sizeof *parts, "a part for each searcher");

const fast_searcher *fast__searchers(int64_t *count_out)
{
    *count_out = COUNT;
    return searchers;
}

const fast_part *fast_searcher_list(int64_t *count_out)
{
    *count_out = COUNT;
    return parts;
}

const char *fast_searcher_missing(int64_t i)
{
    return i >= 0 && i < COUNT ? searchers[i].missing : "";
}
