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
    const bool whole =
        progress > 1 - 1e-9 || (search->searcher->forks && progress > t->until - 1e-9);
    fast_observation o = { .progress = progress, .value = value(search, t, progress) };

    *used += 1.0 / STEPS;
    o.spent = progress;
    o.reached = o.value <= target;
    o.ended = whole || o.reached;
    if (o.reached)
        o.value = -1 / progress;
    assert_int_equal(fast__search_observe(search, id, &o), FAST_OK);
    return fast__search_stop(search, id) != FAST_TRIAL_GO || o.ended;
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
        const bool grid = strcmp(parts[i / 2].name, "grid") == 0;
        fast_search *first, *second;

        if (grid && fast__search_space_count(space) == 0)
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

/* Return the runs that a search uses where a trial that was held starts again from the beginning. */
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
        fast_search *search = open_search(parts[i].name, &space, 5);

        play(search, cliff, -1, 2, 1);
        const fast_trial *best = fast__search_best(search);
        assert_non_null(best);
        assert_true(best->at[0] <= 2);
        fast__search_close(search);
    }
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
        cmocka_unit_test(race),      cmocka_unit_test(rounds_make_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
