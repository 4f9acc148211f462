/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: spreads, order, places and words follow from the measures: overlaps are ties, failures and
 * targets that were not reached are said, and the reasons are the right way round.
 * Method: comparisons whose runs are filled in by hand; nothing runs.
 */
#include "lab/compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void spreads(void **state)
{
    (void)state;
    double odd[] = { 3, 1, 2 }, even[] = { 4, 1, 3, 2 }, holes[] = { NAN, 5, NAN };
    double never[] = { 1, INFINITY, INFINITY }, none[] = { NAN, NAN };
    fast_compare_spread s = fast__spread_of(odd, 3);

    assert_true(s.median == 2 && s.min == 1 && s.max == 3);
    s = fast__spread_of(even, 4);
    assert_true(s.median == 2.5 && s.min == 1 && s.max == 4);
    s = fast__spread_of(holes, 3);
    assert_true(s.median == 5 && s.min == 5 && s.max == 5);
    s = fast__spread_of(never, 3);
    assert_true(isinf(s.median) && s.min == 1 && isinf(s.max));
    s = fast__spread_of(none, 2);
    assert_true(isnan(s.median) && isnan(s.min) && isnan(s.max));
}

/* A comparison of lines a, b, ... with three seeds, whose runs are made by put(). */
static fast_compare *make(const char *options, const char *target)
{
    const char *const list[] = { options, target, NULL };
    const char *const no[] = { "no", NULL };
    fast_compare *compare = NULL;

    assert_int_equal(
        fast_compare_open(&(fast_compare_config){ .options = list, .tune = no }, &compare),
        FAST_OK);
    return compare;
}

/* Set the measures of a line's runs: times (INFINITY: not reached), and equal values elsewhere. */
static void put(fast_compare *compare, int64_t line, const double times[3], double accuracy,
                double samples, double wait)
{
    for (int i = 0; i < 3; i++) {
        fast_compared_run *run = compare->tasks[line * 3 + i].view;
        fast_compare_measures *m = &run->measures;

        run->status = isfinite(times[i]) ? "target" : "done";
        m->time_to_target_s = isfinite(times[i]) ? times[i] : NAN;
        m->test_accuracy = accuracy + 0.001 * i;
        m->samples = samples;
        m->bytes_sent = 1e9 / samples;
        m->compute_s = 1 - wait;
        m->wait_s = wait;
        m->exchange_s = m->codec_s = 0;
        m->step_s = m->predicted_step_s = 0.01;
        m->virtual_time_s = m->time_s = 10;
    }
}

static void spoil(fast_compare *compare, int64_t line, int seed, const char *status,
                  const char *error)
{
    compare->tasks[line * 3 + seed].view->status = status;
    compare->tasks[line * 3 + seed].view->error = error;
}

static bool says(const fast_compare *compare, const char *words)
{
    return strstr(fast_compare_verdict(compare), words) != NULL;
}

/* ssp is first, easgd overlaps with it, bsp is later for two reasons. */
static void order_and_ties(void **state)
{
    (void)state;
    fast_compare *compare = make("system=bsp,ssp,easgd", "target=0.9");
    int64_t count = 0;

    put(compare, 0, (double[]){ 8, 8.5, 9 }, 0.9, 1000, 0.5);
    put(compare, 1, (double[]){ 4, 4.25, 4.5 }, 0.9, 2000, 0.1);
    put(compare, 2, (double[]){ 4.4, 5, 6 }, 0.9, 2000, 0.1);
    assert_int_equal(fast__compare_rank(compare), FAST_OK);
    const fast_compared *lines = fast_compare_lines(compare, &count);
    assert_int_equal(count, 3);
    assert_string_equal(lines[0].name, "ssp");
    assert_string_equal(lines[1].name, "easgd");
    assert_string_equal(lines[2].name, "bsp");
    assert_int_equal(lines[0].place, 1);
    assert_int_equal(lines[1].place, 1);
    assert_int_equal(lines[2].place, 3);
    assert_ptr_equal(lines[0].shown, &lines[0].runs[1]); /* the median run */
    assert_true(says(compare,
                     "Choose ssp: it reached 90% first, after 4.25 s (4 s to 4.5 s) over 3 "
                     "seeds of the simulated cluster."));
    assert_true(says(compare, "2 times sooner than bsp (8.5 s): it needed 2 times the samples, but "
                              "0.25 times the time for each; it sent 0.5 times the bytes; its "
                              "workers waited 10% of their time, "
                              "those of bsp 50%."));
    assert_true(says(compare, "easgd cannot be told apart from it here"));
    assert_true(says(compare, "right within 25%"));
    fast_compare_close(compare);
}

/* Touching spreads are a tie; spreads with a gap between them are not. */
static void edges(void **state)
{
    (void)state;
    fast_compare *compare = make("system=bsp,ssp", "target=0.9");

    put(compare, 0, (double[]){ 1, 2, 3 }, 0.9, 1, 0);
    put(compare, 1, (double[]){ 3, 4, 5 }, 0.9, 1, 0);
    assert_int_equal(fast__compare_rank(compare), FAST_OK);
    assert_int_equal(compare->lines[1].place, 1);
    put(compare, 1, (double[]){ 3.01, 4, 5 }, 0.9, 1, 0);
    assert_int_equal(fast__compare_rank(compare), FAST_OK);
    assert_int_equal(compare->lines[1].place, 2);
    fast_compare_close(compare);
}

/* Targets that are not reached, runs that diverge or fail, and a line without any result. */
static void failures(void **state)
{
    (void)state;
    fast_compare *compare = make("system=bsp,ssp,easgd,downpour", "target=0.9");

    put(compare, 0, (double[]){ INFINITY, INFINITY, INFINITY }, 0.5, 1, 0);
    put(compare, 1, (double[]){ 4, INFINITY, 5 }, 0.9, 1, 0);
    put(compare, 2, (double[]){ 6, 6, 6 }, 0.9, 1, 0);
    spoil(compare, 2, 1, "diverged", "diverged: the loss is not a finite number");
    for (int i = 0; i < 3; i++)
        spoil(compare, 3, i, "failed", "no memory <here>");
    assert_int_equal(fast__compare_rank(compare), FAST_OK);
    const fast_compared *l = compare->lines;
    assert_string_equal(l[0].name, "ssp");
    assert_int_equal(l[0].reached_count, 2);
    assert_true(isinf(l[0].time_to_target_s.max));
    assert_string_equal(l[1].name, "easgd");
    assert_int_equal(l[1].failed_count, 1);
    assert_true(l[1].accuracy.min == 0); /* of the run that diverged */
    assert_string_equal(l[2].name, "bsp");
    assert_string_equal(l[3].name, "downpour");
    assert_null(l[3].shown);
    assert_int_equal(l[2].place, 0); /* it had as many epochs, not as much time */
    assert_int_equal(l[3].place, 0);
    assert_true(says(compare, "ssp and easgd reached the target with some seeds only."));
    assert_true(says(compare, "bsp: not within 6 epochs (10 s)."));
    assert_true(says(compare, "downpour: 3 of 3 runs have no result (no memory <here>)."));
    fast_compare_close(compare);
}

/* Without a target, accuracy counts; without accuracy, the loss; without a result, it is said. */
static void without_target(void **state)
{
    (void)state;
    fast_compare *compare = make("system=bsp,ssp", "target=0");

    assert_true(says(compare, "No run has a result."));
    put(compare, 0, (double[]){ INFINITY, INFINITY, INFINITY }, 0.80, 1, 0);
    put(compare, 1, (double[]){ INFINITY, INFINITY, INFINITY }, 0.90, 1, 0);
    assert_int_equal(fast__compare_rank(compare), FAST_OK);
    assert_true(says(compare, "Choose ssp: it ended with the best accuracy, 90.10%"));
    assert_int_equal(compare->lines[1].place, 2);
    for (int64_t i = 0; i < compare->task_count; i++) {
        compare->views[i].measures.test_accuracy = NAN;
        compare->views[i].measures.test_loss = i < 3 ? 0.1 : 0.2;
    }
    assert_int_equal(fast__compare_rank(compare), FAST_OK);
    assert_true(says(compare, "Choose bsp: it ended with the smallest test loss, 0.1"));
    fast_compare_close(compare);
}

static void wrong_model(void **state)
{
    (void)state;
    fast_compare *compare = make("system=bsp,ssp", "target=0.9");

    put(compare, 0, (double[]){ 1, 1, 1 }, 0.9, 1, 0);
    put(compare, 1, (double[]){ 2, 2, 2 }, 0.9, 1, 0);
    for (int i = 3; i < 6; i++)
        compare->views[i].measures.predicted_step_s = 0.005;
    assert_int_equal(fast__compare_rank(compare), FAST_OK);
    assert_true(says(compare, "off by more than 25% for ssp (a step: predicted 5 ms, measured "
                              "10 ms)."));
    fast_compare_close(compare);
}

/* Lines of a process: points, then a result; anything else is not counted. */
static void json_lines(void **state)
{
    (void)state;
    static const char line[] = "{\"a\": \"x\\\"y, \\\"lr\\\": 3\", \"list\": [1, {\"lr\": 7}, 2], "
                               "\"lr\": -1.5e2, \"samples\": null, \"steps\": \"3\", "
                               "\"stop\": \"target\"}";
    static const char *const bad[] = { "",
                                       "{",
                                       "[]",
                                       "{\"stop",
                                       "{\"stop\"",
                                       "{\"stop\":",
                                       "{\"stop\" \"done\"}",
                                       "{\"a\": [1, 2",
                                       "x {\"stop\": \"done\"}",
                                       "{\"a\": \"\\" };
    fast_compare *compare = make("system=bsp,ssp", "target=0.9");
    fast_compare_task *task = &compare->tasks[0];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(fast__task_read(task, bad[i]), FAST_OK);
        assert_null(task->outcome);
        assert_int_equal(task->view->point_count, 0);
    }
    assert_int_equal(fast__task_read(task, "{\"time_s\": 1, \"test_loss\": 2}"), FAST_OK);
    assert_int_equal(task->view->point_count, 1);
    assert_true(task->points[0].test_loss == 2 && isnan(task->points[0].samples));
    assert_int_equal(fast__task_read(task, line), FAST_OK);
    assert_string_equal(task->outcome, "target");
    assert_true(task->view->measures.lr == -150);
    assert_true(isnan(task->view->measures.samples));
    assert_true(isnan(task->view->measures.steps));
    fast_compare_close(compare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spreads),        cmocka_unit_test(order_and_ties),
        cmocka_unit_test(edges),          cmocka_unit_test(failures),
        cmocka_unit_test(without_target), cmocka_unit_test(wrong_model),
        cmocka_unit_test(json_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
