/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: trials that fail before their first evaluation end no search of the others, no trial
 * starts with the model of one that failed, and a search of failures ends. Method: every searcher,
 * where every trial, each second or each third one fails.
 */
#include "fast/comparison.h"
#include "lab/search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Train a trial for a 20th of a run, or let it fail. Return true if it rests. */
static bool advance(fast_search *search, int64_t id, bool fails)
{
    const fast_trial *t = &search->trials[id];
    const double last = t->point_count > 0 ? t->points[t->point_count - 1].progress : t->from;
    fast_observation o = { .progress = last + 0.05, .value = 1 + t->at[0] - 0.2 * last };

    o.ended =
        fails || o.progress > 1 - 1e-9 || (search->searcher->forks && o.progress > t->until - 1e-9);
    if (fails)
        o.progress = o.value = NAN;
    assert_int_equal(fast__search_observe(search, id, &o), FAST_OK);
    return fast__search_stop(search, id) != FAST_TRIAL_GO || o.ended;
}

/* Play a search of which each `which`-th trial fails. */
static void play(fast_search *search, int64_t which)
{
    for (int64_t id = 0; id >= 0;) {
        assert_int_equal(fast__search_propose(search, &id), FAST_OK);
        if (id < 0)
            break;
        const int64_t parent = search->trials[id].parent;
        assert_true(parent < 0 || isfinite(search->trials[parent].value)); /* it has a model */
        while (!advance(search, id, id % which == 0))
            assert_false(id % which == 0);
    }
    assert_true(search->over);
    assert_true(which == 1 || fast__search_best(search) != NULL);
}

static void trials_that_fail(void **state)
{
    fast_search_space space = { .count = 1 };
    int64_t count;
    const fast_searcher *searchers = fast__searchers(&count);
    const fast_part *parts = fast_searcher_list(&count);

    (void)state;
    space.options[0] = (fast_search_option){ .name = "lr", .numbers = true };
    for (int i = 0; i < 8; i++)
        assert_int_equal(fast__words_format(&space.options[0].values, "lr=%d", i), FAST_OK);
    for (int64_t i = 0; i < count; i++)
        for (int64_t which = 1; which <= 3 && searchers[i].options_min <= 1; which++) {
            fast_search *search = NULL;

            assert_int_equal(fast__search_open(parts[i].name, &space, 5, &search), FAST_OK);
            play(search, which);
            fast__search_close(search);
        }
    fast__search_space_fini(&space);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(trials_that_fail) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
