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
};

static const fast_searcher searchers[] = {
    { .missing = "", .plan = fast__grid_plan },
    { .missing = "", .plan = fast__grid_plan },
    { .missing = "", .prunes = true, .plan = fast__bayes_plan },
    { .missing = "", .prunes = true, .plan = fast__asha_plan },
    { .missing = "", .prunes = true, .plan = fast__race_plan },
    { .missing = "", .prunes = true, .plan = fast__median_plan, .drop = fast__median_drop },
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
