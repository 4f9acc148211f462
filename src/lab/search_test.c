/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every searcher keeps the contract (ends, stays in its space and bounds, proposes the same
 * whatever the order of answers), and finds known optima of known functions; limit cases are those
 * of the papers.
 * Method: trials are functions of the setting and the progress; a loop stands in for processes and
 * answers in any order. Nothing trains.
 */
#include "base/memory.h"
#include "fast/comparison.h"
#include "lab/search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 20 }; /* evaluations of a whole run */

/* The value of a trial at a fraction of its run. */
typedef double value_fn(const fast_search *search, const fast_trial *trial, double progress);

/* The optimum of option 0 is 0.37 of a range, or value 3 of a list; curves fall to it and do not
 * cross. */
static double bowl(const fast_search *search, const fast_trial *trial, double progress)
{
    double sum = 0;

    for (int64_t k = 0; k < search->space->count; k++) {
        const int64_t values = search->space->options[k].values.count;
        const double best = values > 0 ? (values > 3 ? 3 : 0) : 0.37;
        const double d = (trial->at[k] - best) / (values > 0 ? (double)values : 1);

        sum += d * d;
    }
    return sum + 0.2 * (1 - progress);
}

/* A list of numbers as an option. */
static void add_list(fast_search_space *space, const char *name, int count)
{
    fast_search_option *o = &space->options[space->count++];

    *o = (fast_search_option){ .name = name, .numbers = true };
    for (int i = 0; i < count; i++)
        assert_int_equal(fast__words_format(&o->values, "%s=%d", name, i), FAST_OK);
}

static void add_range(fast_search_space *space, const char *name)
{
    space->options[space->count++] =
        (fast_search_option){ .name = name, .low = 0.001, .high = 1, .log = true, .numbers = true };
}

/* Measure a running trial once; true if it came to rest. */
static bool advance(fast_search *search, int64_t id, value_fn *value, double target, double *used)
{
    fast_trial *t = &search->trials[id];
    const double last = t->point_count > 0 ? t->points[t->point_count - 1].progress : t->from;
    const double progress = last + 1.0 / STEPS;
    const bool whole = progress > 1 - 1e-9;
    fast_observation o = { .progress = progress, .value = value(search, t, progress) };

    *used += 1.0 / STEPS;
    o.spent = progress;
    o.reached = o.value <= target;
    o.ended = whole || o.reached;
    if (o.reached)
        o.value = -1 / progress;
    assert_int_equal(fast__search_observe(search, id, &o), FAST_OK);
    const fast_trial_order order = fast__search_stop(search, id);
    if (order == FAST_TRIAL_SAVE) { /* its process writes its model, and ends */
        o.ended = true;
        assert_int_equal(fast__search_observe(search, id, &o), FAST_OK);
    }
    return order != FAST_TRIAL_GO || o.ended;
}

/* Play a search to its end with `places` processes; `order` shifts which one answers first. Return
 * the runs that it used. */
static double play(fast_search *search, value_fn *value, double target, int places, int order)
{
    int64_t running[16];
    int count = 0;
    double used = 0;

    for (int64_t turn = 0;; turn++) {
        int64_t id = 0;

        assert_true(turn < 1000000);
        while (count < places && id >= 0) {
            assert_int_equal(fast__search_propose(search, &id), FAST_OK);
            if (id >= 0)
                running[count++] = id;
        }
        if (count == 0) {
            assert_int_equal(id, FAST_SEARCH_OVER);
            return used;
        }
        const int i = (int)((turn * (1 + order)) % count);
        if (advance(search, running[i], value, target, &used))
            running[i] = running[--count];
    }
}

static fast_search *open_search(const char *spec, const fast_search_space *space, uint64_t seed)
{
    fast_search *search = NULL;

    assert_int_equal(fast__search_open(spec, space, seed, &search), FAST_OK);
    return search;
}

/* True if a searcher can search a space. */
static bool fits(int64_t searcher, const fast_search_space *space)
{
    int64_t count;
    const fast_searcher *s = &fast__searchers(&count)[searcher];

    return space->count >= s->options_min && !(s->lists && fast__search_space_count(space) == 0);
}

/* Every searcher ends within its bound, in its space, and proposes the same for any number of
 * processes and any order of answers. */
static void contract(void **state)
{
    (void)state;
    fast_search_space spaces[2] = { 0 };
    int64_t count = 0;
    const fast_part *parts = fast_searcher_list(&count);

    add_list(&spaces[0], "batch", 4);
    add_list(&spaces[0], "lr", 4);
    add_range(&spaces[1], "lr");
    add_list(&spaces[1], "batch", 3);
    for (int64_t i = 0; i < 2 * count; i++) {
        const fast_search_space *space = &spaces[i % 2];
        fast_search *first, *second;

        if (!fits(i / 2, space))
            continue;
        first = open_search(parts[i / 2].name, space, 7);
        second = open_search(parts[i / 2].name, space, 7);
        play(first, bowl, -1, 1, 0);
        play(second, bowl, -1, 5, 3);
        assert_true(first->count > 0 && first->count <= fast__search_bound(first));
        assert_int_equal(first->count, second->count);
        bool whole = false;
        for (int64_t k = 0; k < first->count; k++) {
            const fast_trial *a = &first->trials[k], *b = &second->trials[k];

            assert_memory_equal(a->at, b->at, sizeof a->at);
            assert_int_equal(a->state, b->state);
            assert_int_equal(a->point_count, b->point_count);
            assert_int_equal(a->parent, b->parent);
            whole = whole || (a->state == FAST_TRIAL_ENDED && a->point_count > 0 &&
                              a->points[a->point_count - 1].progress > 1 - 1e-9);
        }
        assert_true(whole);
        fast__search_close(first);
        fast__search_close(second);
    }
    fast__search_space_fini(&spaces[0]);
    fast__search_space_fini(&spaces[1]);
}

/* Limit cases: one rung, or a reduction of 1, and asha is the grid; a search without history drops
 * nothing; different seeds draw different settings. */
static void limits(void **state)
{
    (void)state;
    static const char *const specs[] = { "grid", "asha:reduction=1", "asha:first=1", "race:first=1",
                                         "median:parallel=0" };
    fast_search_space space = { 0 }, range = { 0 };

    add_list(&space, "lr", 5);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        fast_search *search = open_search(specs[i], &space, 1);

        assert_true(fabs(play(search, bowl, -1, 2, 0) - 5) < 1e-9); /* five whole runs */
        for (int64_t k = 0; i < 4 && k < 5; k++)
            assert_true(search->trials[k].at[0] == (double)k);
        for (int64_t k = 0; k < 5; k++)
            assert_int_equal(search->trials[k].state, FAST_TRIAL_ENDED);
        fast__search_close(search);
    }
    add_range(&range, "lr");
    fast_search *a = open_search("random:trials=9", &range, 1);
    fast_search *b = open_search("asha:reduction=1,trials=9", &range, 1);
    fast_search *c = open_search("random:trials=9", &range, 2);
    play(a, bowl, -1, 1, 0);
    play(b, bowl, -1, 1, 0);
    play(c, bowl, -1, 1, 0);
    for (int64_t k = 0; k < 9; k++) {
        assert_true(a->trials[k].at[0] == b->trials[k].at[0]);
        assert_true(a->trials[k].at[0] != c->trials[k].at[0]);
    }
    fast__search_close(a);
    fast__search_close(b);
    fast__search_close(c);
    fast__search_space_fini(&space);
    fast__search_space_fini(&range);
}

/* Halving keeps the best of curves that do not cross, and uses the runs that its example has. */
static void halving(void **state)
{
    (void)state;
    fast_search_space space = { 0 };

    add_list(&space, "lr", 7);
    fast_search *search = open_search("asha:first=0.1", &space, 1);
    /* 7 trials to 0.1, 2 of them to 0.3, 1 to the end. */
    assert_true(fabs(play(search, bowl, -1, 3, 1) - (7 * 0.1 + 2 * 0.2 + 0.7)) < 1e-9);
    for (int64_t k = 0; k < 7; k++)
        assert_int_equal(search->trials[k].state, k == 3 ? FAST_TRIAL_ENDED : FAST_TRIAL_HELD);
    fast__search_close(search);
    /* Fewer in parallel: rungs do not wait, and the best still ends. */
    search = open_search("asha:first=0.1,parallel=2", &space, 1);
    play(search, bowl, -1, 3, 1);
    assert_int_equal(search->trials[3].state, FAST_TRIAL_ENDED);
    fast__search_close(search);
    fast__search_space_fini(&space);
}

/* Return the runs that a search uses where a held trial starts again from the beginning. */
static double play_again(fast_search *search, value_fn *value)
{
    double used = 0;

    for (int64_t id = 0; id >= 0;) {
        double progress = 0;

        assert_int_equal(fast__search_propose(search, &id), FAST_OK);
        if (id < 0)
            break;
        const fast_trial *t = &search->trials[id];
        const double before = t->point_count > 0 ? t->points[t->point_count - 1].progress : 0;
        assert_true(t->until > before); /* else nothing new would be seen */
        while (!advance(search, id, value, -1, &progress))
            assert_true(used < 100);
        used += before + progress;
    }
    return used;
}

/* Rungs closer than evaluations, and trials that start again from the beginning, cost a few runs
 * each at most. */
static void rounds_make_progress(void **state)
{
    (void)state;
    fast_search_space space = { 0 };

    add_list(&space, "lr", 7);
    fast_search *search = open_search("asha:reduction=1.0000001", &space, 1);
    play_again(search, bowl);
    fast__search_close(search);
    search = open_search("race:first=0.05,slack=0", &space, 1);
    search->restarts = true;
    /* To 0.05, 0.1, 0.2, 0.4, 0.8 and the end: at most 2.55 runs of the best, and few of others. */
    assert_true(play_again(search, bowl) < 5);
    assert_int_equal(search->trials[3].state, FAST_TRIAL_ENDED);
    fast__search_close(search);
    fast__search_space_fini(&space);
}

/* In a race the best of curves that do not cross ends, the second is beside it while it is close,
 * and no slice costs more than the first. */
static void race(void **state)
{
    (void)state;
    fast_search_space space = { 0 };

    add_list(&space, "lr", 7);
    fast_search *search = open_search("race:first=0.05,slack=0", &space, 1);
    /* After k slices ceil(7 / k) train on: 7, 7, 4, 3, 2, 2, 2, and then 1. */
    assert_true(fabs(play(search, bowl, -1, 3, 1) - (7 + 7 + 4 + 3 + 2 + 2 + 2 + 13) * 0.05) <
                1e-9);
    assert_int_equal(search->trials[3].state, FAST_TRIAL_ENDED);
    fast__search_close(search);
    search = open_search("race:first=0.05,slack=9", &space, 1);
    assert_true(fabs(play(search, bowl, -1, 3, 1) - (7 + 7 + 4 + 3 + 16 * 2) * 0.05) < 1e-9);
    assert_int_equal(search->trials[3].state, FAST_TRIAL_ENDED);
    assert_int_equal(search->trials[2].state, FAST_TRIAL_ENDED);
    fast__search_close(search);
    fast__search_space_fini(&space);
}

/* A trial that spends as much as another needed for the target ends there; the best is not
 * lost. */
static void beaten(void **state)
{
    (void)state;
    fast_search_space space = { 0 };

    add_list(&space, "lr", 6);
    fast_search *search = open_search("median:parallel=1,first=1", &space, 3);
    const double used = play(search, bowl, 0.1, 1, 0);
    const fast_trial *best = fast__search_best(search);
    assert_non_null(best);
    assert_true(best->at[0] == 3 && best->reached);
    assert_true(used < 6);
    int stopped = 0;
    for (int64_t k = 0; k < 6; k++)
        stopped += search->trials[k].state == FAST_TRIAL_STOPPED;
    assert_true(stopped > 0);
    fast__search_close(search);
    fast__search_space_fini(&space);
}

/* The median of earlier trials ends the worse half. */
static void medians(void **state)
{
    (void)state;
    fast_search_space space = { 0 };

    add_list(&space, "lr", 9);
    fast_search *search = open_search("median:parallel=3", &space, 1);
    const double used = play(search, bowl, -1, 3, 1);
    assert_true(used > 3 && used < 9);
    bool found = false;
    for (int64_t k = 0; k < 9; k++) {
        const fast_trial *t = &search->trials[k];

        if (k < 3)
            assert_int_equal(t->state, FAST_TRIAL_ENDED);
        found = found || (t->at[0] == 3 && t->state == FAST_TRIAL_ENDED);
    }
    assert_true(found);
    fast__search_close(search);
    fast__search_space_fini(&space);
}

/* A Gaussian process finds the optimum of a quadratic in a few trials: closer than the spacing of
 * a grid with as many. */
static void process(void **state)
{
    (void)state;
    fast_search_space space = { 0 };

    add_range(&space, "lr");
    for (uint64_t seed = 1; seed <= 5; seed++) {
        fast_search *search = open_search("bayes:trials=10,parallel=1", &space, seed);
        double best = INFINITY;

        play(search, bowl, -1, 1, 0);
        for (int64_t k = 0; k < search->count; k++)
            best = fmin(best, fabs(search->trials[k].at[0] - 0.37));
        assert_true(best < 0.02);
        fast__search_close(search);
    }
    fast__search_space_fini(&space);
}

/* Trials that diverge or fail are the worst, and never the best. */
static double cliff(const fast_search *search, const fast_trial *trial, double progress)
{
    return trial->at[0] > 2 ? NAN : bowl(search, trial, progress);
}

static void diverging(void **state)
{
    (void)state;
    fast_search_space space = { 0 };
    int64_t count = 0;
    const fast_part *parts = fast_searcher_list(&count);

    add_list(&space, "lr", 8);
    for (int64_t i = 0; i < count; i++) {
        if (!fits(i, &space))
            continue;
        fast_search *search = open_search(parts[i].name, &space, 5);

        play(search, cliff, -1, 2, 1);
        const fast_trial *best = fast__search_best(search);
        assert_non_null(best);
        assert_true(best->at[0] <= 2);
        fast__search_close(search);
    }
    fast__search_space_fini(&space);
}

/* Trials that level off above the best one are dropped, and the best ends. With a confidence of 1
 * nothing is dropped. */
static double levels(const fast_search *search, const fast_trial *trial, double progress)
{
    (void)search;
    return 0.1 + 0.1 * fabs(trial->at[0] - 3) + 0.5 * exp(-8 * progress);
}

static void drops(void **state)
{
    (void)state;
    fast_search_space space = { 0 };

    add_list(&space, "lr", 9);
    fast_search *search = open_search("curve:confidence=1", &space, 1);
    assert_true(fabs(play(search, levels, -1, 2, 1) - 9) < 1e-9);
    fast__search_close(search);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        search = open_search("curve", &space, seed);
        assert_true(play(search, levels, -1, 2, 1) < 7);
        for (int64_t k = 0; k < 9; k++)
            if (search->trials[k].at[0] == 3)
                assert_int_equal(search->trials[k].state, FAST_TRIAL_ENDED);
        fast__search_close(search);
    }
    /* A target: a slower curve that will need more than the fastest trial did is dropped. */
    search = open_search("curve:parallel=1,first=0.1", &space, 1);
    search->goal = 0.2;
    play(search, levels, 0.2, 1, 0);
    assert_true(fast__search_best(search)->at[0] == 3 && fast__search_best(search)->reached);
    fast__search_close(search);
    fast__search_space_fini(&space);
}

/* TuPAQ: no more than a batch at a time; without slack only the best so far trains on, with any
 * amount of it every trial ends. */
static void batches(void **state)
{
    (void)state;
    fast_search_space space = { 0 };

    add_list(&space, "lr", 8);
    fast_search *search = open_search("tupaq:slack=1e9,parallel=3", &space, 1);
    assert_true(fabs(play(search, levels, -1, 5, 1) - 8) < 1e-9);
    fast__search_close(search);
    search = open_search("tupaq:slack=0.2,parallel=8", &space, 1);
    /* At 0.1 of a run the errors are 0.32 + 0.1 d; within 1.2 of the best are only d = 0; the
     * best trains on alone. */
    assert_true(fabs(play(search, levels, -1, 8, 1) - (8 * 0.1 + 0.9)) < 1e-9);
    for (int64_t k = 0; k < 8; k++)
        assert_int_equal(search->trials[k].state == FAST_TRIAL_ENDED, search->trials[k].at[0] == 3);
    fast__search_close(search);
    search = open_search("tupaq:slack=0.2,parallel=2", &space, 3);
    for (int64_t id = 0; id != FAST_SEARCH_OVER;) {
        double used;

        assert_int_equal(fast__search_propose(search, &id), FAST_OK);
        assert_true(search->job_count <= 2);
        while (id >= 0 && !advance(search, id, levels, -1, &used))
            ;
    }
    assert_true(fast__search_best(search)->at[0] == 3);
    fast__search_close(search);
    fast__search_space_fini(&space);
}

/* HyperDrive: the first trial at the target ends the search, which costs less than to train all;
 * trials that level off above it are poor and end. */
static void promising(void **state)
{
    (void)state;
    fast_search_space space = { 0 };

    add_list(&space, "lr", 12);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        fast_search *search = open_search("hyperdrive", &space, seed);

        search->goal = 0.12; /* only value 3 gets there, after 0.4 of a run */
        assert_true(play(search, levels, 0.12, 4, 1) < 4);
        assert_true(fast__search_best(search)->reached && fast__search_best(search)->at[0] == 3);
        for (int64_t k = 0; k < search->count; k++) {
            const fast_trial *t = &search->trials[k];

            if (fabs(t->at[0] - 3) > 3 && t->point_count > 0)
                assert_true(t->points[t->point_count - 1].progress < 0.6);
        }
        fast__search_close(search);
        search = open_search("hyperdrive:parallel=3", &space, seed); /* no target */
        play(search, levels, -1, 2, 0);
        assert_true(fast__search_best(search)->at[0] == 3);
        assert_int_equal(search->trials[fast__search_best(search) - search->trials].state,
                         FAST_TRIAL_ENDED);
        fast__search_close(search);
    }
    /* A target that no curve reaches: all are poor and end, but for the best. With a confidence of
     * 1 none is poor, and all train to their ends. */
    for (int sure = 0; sure < 2; sure++) {
        fast_search *search =
            open_search(sure ? "hyperdrive:confidence=1" : "hyperdrive", &space, 1);

        search->goal = -1;
        const double used = play(search, levels, -2, 4, 1);
        assert_true(sure ? fabs(used - 12) < 1e-9 : used < 5);
        assert_true(fast__search_has_whole(search));
        fast__search_close(search);
    }
    fast__search_space_fini(&space);
}

/* A polynomial of 12 bits with three terms: two fits find its least value among 4096 settings, and
 * what they fix is right. */
static double polynomial(const fast_search *search, const fast_trial *trial, double progress)
{
    double x[12];

    (void)search;
    for (int i = 0; i < 12; i++)
        x[i] = trial->at[i] > 0 ? -1 : 1;
    return 10 + 4 * x[0] * x[5] - 2 * x[2] * x[7] + x[9] + 0.5 * x[3] * x[4] + 0.1 * (1 - progress);
}

static void spectrum(void **state)
{
    (void)state;
    fast_search_space space = { 0 };
    char names[12][16];

    for (int i = 0; i < 12; i++) {
        snprintf(names[i], sizeof names[i], "o%d", i);
        add_list(&space, names[i], 2);
    }
    for (uint64_t seed = 1; seed <= 5; seed++) {
        fast_search *search = open_search("spectral:trials=150,terms=2", &space, seed);

        play(search, polynomial, -1, 4, 2);
        assert_int_equal(search->round, 3);
        assert_true(fabs(fast__search_best(search)->value - 2.5) < 1e-9);
        for (int64_t k = 0; k < search->count; k++) {
            const double *at = search->trials[k].at;

            if (search->trials[k].round == 2) {
                assert_true(at[0] != at[5]);
                assert_true(at[2] == at[7]);
                assert_true(at[9] == 1);
            }
        }
        fast__search_close(search);
    }
    fast__search_space_fini(&space);
    /* Values that are no power of two; all settings are tried where the trials suffice. */
    add_list(&space, "lr", 3);
    add_list(&space, "batch", 5);
    fast_search *search = open_search("spectral:trials=15,stages=1,terms=1", &space, 1);
    play(search, bowl, -1, 4, 2);
    for (int64_t k = 0; k < search->count; k++)
        assert_true(search->trials[k].at[0] < 3 && search->trials[k].at[1] < 5);
    fast__search_close(search);
    fast__search_space_fini(&space);
}

/* The toy of the paper on population based training: the loss 1.2 less than
 * x^2 + y^2 is descended by h x^2 + k y^2 alone, from a model that is passed on. A grid that has h
 * or k at 0 in the ends of its range cannot reach both; the population does. */
static void toy_model(const fast_search *search, const fast_trial *t, double progress, double *xy)
{
    const double h = t->at[0], k = t->at[1];

    xy[0] = xy[1] = 0.9;
    if (t->parent >= 0)
        toy_model(search, &search->trials[t->parent], t->from, xy);
    xy[0] *= exp(-6 * h * (progress - t->from));
    xy[1] *= exp(-6 * k * (progress - t->from));
}

static double toy(const fast_search *search, const fast_trial *trial, double progress)
{
    double xy[2];

    toy_model(search, trial, progress, xy);
    return xy[0] * xy[0] + xy[1] * xy[1];
}

static void population(void **state)
{
    (void)state;
    fast_search_space space = { 0 };

    for (int i = 0; i < 2; i++)
        space.options[space.count++] =
            (fast_search_option){ .name = i ? "k" : "h", .low = 0, .high = 1, .numbers = true };
    for (uint64_t seed = 1; seed <= 5; seed++) {
        fast_search *search = open_search("pbt:parallel=6,stages=10,confidence=0.5", &space, seed);
        const double used = play(search, toy, -1, 3, 1);
        double first = INFINITY;
        int64_t copies = 0;

        assert_true(fabs(used - 6) < 1e-9); /* the cost of a run for each member */
        assert_int_equal(search->count, 60);
        for (int64_t i = 0; i < 60; i++) {
            const fast_trial *t = &search->trials[i];

            assert_int_equal(t->state, FAST_TRIAL_ENDED);
            assert_int_equal(t->parent < 0, i < 6);
            assert_true(t->from == (i < 6 ? 0
                                          : search->trials[t->parent]
                                                .points[search->trials[t->parent].point_count - 1]
                                                .progress));
            copies += i >= 6 && t->parent != i - 6;
            if (i >= 6 && t->parent == i - 6) /* one that is not replaced has its own setting */
                assert_memory_equal(t->at, search->trials[i - 6].at, 2 * sizeof *t->at);
        }
        /* Better than the best member would have been without copies. */
        for (int64_t i = 0; i < 6; i++) {
            fast_trial alone = search->trials[i];

            first = fmin(first, toy(search, &alone, 1));
        }
        assert_true(copies > 5);
        assert_true(fast__search_best(search)->value < first);
        fast__search_close(search);
    }
    /* An evaluation behind the end of a budget ends a run, and so the search. */
    fast_search *late = open_search("pbt:parallel=2,stages=4", &space, 1);
    int64_t id;
    for (int k = 0; k < 2; k++) {
        fast_observation o = { .progress = 1.2, .value = 1 };

        assert_int_equal(fast__search_propose(late, &id), FAST_OK);
        assert_int_equal(id, k);
        assert_int_equal(fast__search_observe(late, id, &o), FAST_OK);
        assert_int_equal(fast__search_stop(late, id), FAST_TRIAL_GO);
        o.ended = true;
        assert_int_equal(fast__search_observe(late, id, &o), FAST_OK);
    }
    assert_int_equal(fast__search_propose(late, &id), FAST_OK);
    assert_int_equal(id, FAST_SEARCH_OVER);
    fast__search_close(late);
    /* No member is ever sure to be better: nobody is copied, and it is a random search. */
    fast_search *search = open_search("pbt:parallel=4,stages=5,confidence=1", &space, 1);
    play(search, toy, -1, 3, 1);
    for (int64_t i = 4; i < search->count; i++)
        assert_int_equal(search->trials[i].parent, i - 4);
    fast__search_close(search);
    fast__search_space_fini(&space);
}

/* Omnivore: asynchrony of g groups has the momentum 1 - 1/g by itself, and 0.7 in all is best. With
 * 8 and 4 groups the best explicit momentum is 0, so the optimizer goes down to 2 groups, where it
 * is 0.3, and 0.6 in the cold start with one group. */
static double groups(const fast_search *search, const fast_trial *trial, double progress)
{
    static const double count[] = { 8, 4, 2, 1 };
    const double implicit = 1 - 1 / count[(int)trial->at[1]];
    const double d = implicit + 0.3 * trial->at[0] - 0.7;

    (void)search;
    return 0.1 + d * d + 1 - progress - 0.02 * count[(int)trial->at[1]];
}

static double failing(const fast_search *search, const fast_trial *trial, double progress)
{
    (void)search;
    return trial->at[1] == 0 ? NAN : 1 - progress;
}

static void periods(void **state)
{
    (void)state;
    fast_search_space space = { 0 };

    add_list(&space, "momentum", 4);
    add_list(&space, "groups", 4);
    fast_search *search = open_search("omnivore:stages=4,first=0.05", &space, 1);
    play(search, groups, -1, 3, 1);
    assert_true(search->count <= fast__search_bound(search));
    const fast_trial *t = fast__search_best(search);
    assert_true(t->points[t->point_count - 1].progress > 1 - 1e-9);
    for (int stage = 3; stage >= 0; stage--) { /* period by period, back to the first */
        assert_true(t->at[1] == (stage == 0 ? 3 : 2));
        assert_true(t->at[0] == (stage == 0 ? 2 : 1));
        const fast_trial *probe = &search->trials[t->parent];
        assert_memory_equal(probe->at, t->at, 2 * sizeof *t->at);
        assert_true(fabs(t->until - 0.25 * (stage + 1)) < 1e-9);
        if (stage > 0)
            t = &search->trials[probe->parent];
        else
            assert_int_equal(probe->parent, -1);
    }
    fast__search_close(search);
    fast__search_space_fini(&space);
    /* A way that fails is passed over. */
    add_list(&space, "momentum", 2);
    add_list(&space, "groups", 2);
    search = open_search("omnivore:stages=2", &space, 1);
    play(search, failing, -1, 2, 0);
    t = fast__search_best(search);
    assert_true(t->at[1] == 1 && t->points[t->point_count - 1].progress > 1 - 1e-9);
    fast__search_close(search);
    fast__search_space_fini(&space);
    add_list(&space, "momentum", 4);
    assert_int_equal(fast__search_open("omnivore", &space, 1, &search), FAST_EINVAL);
    fast__search_space_fini(&space);
}

/* Words that are no searcher, or no option of it, are refused. */
static void hostile(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       ":",
                                       "nonsense",
                                       "grid:trials=3",
                                       "asha:reduction=0",
                                       "asha:reduction=nan",
                                       "asha:first=2",
                                       "asha:first",
                                       "asha:trials=-1",
                                       "asha:trials=100000",
                                       "random:trials=1e9",
                                       "bayes:start=0",
                                       "asha:=",
                                       "median:unknown=1" };
    fast_search_space space = { 0 };
    fast_search *search = NULL;

    add_list(&space, "lr", 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(fast__search_open(bad[i], &space, 1, &search), FAST_EINVAL);
        assert_null(search);
    }
    fast__search_space_fini(&space);
}

/* Every allocation that fails is an error, and leaks nothing. */
static void memory(void **state)
{
    (void)state;
    fast_search_space space = { 0 };

    add_range(&space, "lr");
    for (int64_t n = 0;; n++) {
        fast_search *search = NULL;
        int64_t id;

        fast__alloc_fail_after(n, true);
        fast_err err = fast__search_open("bayes", &space, 1, &search);
        if (!err)
            err = fast__search_propose(search, &id);
        if (!err)
            err = fast__search_observe(search, id,
                                       &(fast_observation){ .progress = 0.1, .value = 1 });
        fast__alloc_fail_after(-1, true);
        fast__search_close(search);
        if (!err)
            break;
        assert_int_equal(err, FAST_ENOMEM);
    }
    fast__search_space_fini(&space);
}

/* Ranges as coordinates and as words. */
static void words(void **state)
{
    (void)state;
    fast_search_space space = { 0 };
    fast_words out = { 0 };
    const double at[] = { 0.5, 1, 2 };

    add_range(&space, "lr");
    space.options[space.count++] =
        (fast_search_option){ .name = "batch", .low = 4, .high = 64, .whole = true };
    add_list(&space, "workers", 4);
    assert_int_equal(fast__search_space_words(&space, at, &out), FAST_OK);
    assert_string_equal(out.items[0], "lr=0.03162");
    assert_string_equal(out.items[1], "batch=64");
    assert_string_equal(out.items[2], "workers=2");
    assert_int_equal(fast__search_space_count(&space), 0);
    fast__words_fini(&out);
    fast__search_space_fini(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contract),  cmocka_unit_test(limits),
        cmocka_unit_test(halving),   cmocka_unit_test(beaten),
        cmocka_unit_test(medians),   cmocka_unit_test(process),
        cmocka_unit_test(diverging), cmocka_unit_test(hostile),
        cmocka_unit_test(memory),    cmocka_unit_test(words),
        cmocka_unit_test(race),      cmocka_unit_test(drops),
        cmocka_unit_test(batches),   cmocka_unit_test(promising),
        cmocka_unit_test(spectrum),  cmocka_unit_test(population),
        cmocka_unit_test(periods),   cmocka_unit_test(rounds_make_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
