/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the figures are scikit-learn's, also where a class never occurs or is never predicted,
 * scores are tied or outputs are no numbers.
 *
 * Method: inputs of a small generator, whose figures scikit-learn computed (figures_oracle.h);
 * cases worked out by hand; each allocation fails once.
 */
#include "learner/figures.h"

#include "base/memory.h"
#include "learner/figures_oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS_MAX = 512, OUTPUTS_MAX = 16 };

static void close_to(double a, double b)
{
    if (isnan(a) != isnan(b) || fabs(a - b) > 1e-12 * fmax(1.0, fabs(b)))
        fail_msg("%.15g is not %.15g", a, b);
}

/* The generator of figures_sklearn.py. */
static int next(uint32_t *x)
{
    *x = *x * 1664525U + 1013904223U;
    return (int)(*x >> 16);
}

static fast_figure_sums *sums_of(int64_t classes, int64_t outputs, int64_t rows)
{
    fast_figure_sums *sums = NULL;
    const fast_figures_options options = { classes, outputs, rows };

    assert_int_equal(fast__figures_new(&options, &sums), FAST_OK);
    return sums;
}

static void classes_are_those_of_sklearn(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof oracle_classes / sizeof *oracle_classes; c++) {
        const struct oracle_classes *o = &oracle_classes[c];
        const int K = o->classes;
        fast_figure_sums *sums = sums_of(K, K, o->rows);
        fast_figures f;
        uint32_t x = (uint32_t)o->seed;
        int64_t matrix = 0;

        for (int r = 0; r < o->rows; r++) {
            const int32_t label = next(&x) % o->labels;
            float z[OUTPUTS_MAX];

            for (int k = 0; k < K; k++)
                z[k] = (float)(next(&x) % (4 * o->grid)) / (float)o->grid + (k == label);
            fast__figures_add(sums, 1, z, &label, NULL);
        }
        fast__figures_compute(sums, &f);
        close_to(f.accuracy, o->figures[0]);
        close_to(f.precision, o->figures[1]);
        close_to(f.recall, o->figures[2]);
        close_to(f.f1, o->figures[3]);
        close_to(f.auc, o->figures[4]);
        for (int64_t i = 0; i < (int64_t)K * K; i++)
            matrix += (i + 1) * f.confusion[i];
        assert_int_equal(matrix, o->matrix);
        assert_int_equal(f.rows, o->rows);
        assert_true(isnan(f.mae) && isnan(f.r2));
        fast__figures_free(sums);
    }
}

static void values_are_those_of_sklearn(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof oracle_values / sizeof *oracle_values; c++) {
        const struct oracle_values *o = &oracle_values[c];
        fast_figure_sums *sums = sums_of(0, o->outputs, o->rows);
        static float y[ROWS_MAX * OUTPUTS_MAX], t[ROWS_MAX * OUTPUTS_MAX];
        fast_figures f;
        uint32_t x = (uint32_t)o->seed;

        for (int i = 0; i < o->rows * o->outputs; i++) {
            t[i] = (float)o->offset + (o->constant ? 0 : (float)next(&x) / 1024);
            y[i] = t[i] + (float)(next(&x) % 2048 - 1024) / 256;
        }
        /* In two parts, after rows that are cleared away. */
        fast__figures_add(sums, o->rows, t, NULL, y);
        fast__figures_clear(sums);
        fast__figures_add(sums, 7, y, NULL, t);
        fast__figures_add(sums, o->rows - 7, y + 7 * o->outputs, NULL, t + 7 * o->outputs);
        fast__figures_compute(sums, &f);
        close_to(f.mae, o->figures[0]);
        close_to(f.rmse, o->figures[1]);
        close_to(f.r2, o->figures[2]);
        assert_true(isnan(f.accuracy) && f.confusion == NULL && f.by_class == NULL);
        fast__figures_free(sums);
    }
}

static void no_rows_and_one_row_have_no_figures(void **state)
{
    (void)state;
    const float one = 3;
    fast_figures f;
    fast_figure_sums *sums = sums_of(3, 3, 5);

    fast__figures_compute(sums, &f);
    assert_true(isnan(f.accuracy) && isnan(f.f1) && isnan(f.auc));
    fast__figures_free(sums);
    sums = sums_of(0, 1, 5);
    fast__figures_compute(sums, &f);
    assert_true(isnan(f.mae) && isnan(f.r2));
    fast__figures_add(sums, 1, &one, NULL, &one);
    fast__figures_compute(sums, &f);
    close_to(f.mae, 0);
    assert_true(isnan(f.r2));
    /* A constant target without errors. */
    fast__figures_add(sums, 1, &one, NULL, &one);
    fast__figures_compute(sums, &f);
    close_to(f.r2, 1);
    fast__figures_free(sums);
}

static void an_absent_class_is_left_out(void **state)
{
    (void)state;
    /* Class 0 occurs and is never predicted; class 1 both; class 2 neither. */
    const float z[] = { 0, 5, 0, 0, 5, 0, 0, 5, 0 };
    const int32_t labels[] = { 0, 1, 1 };
    fast_figures f;
    fast_figure_sums *sums = sums_of(3, 3, 3);

    fast__figures_add(sums, 3, z, labels, NULL);
    fast__figures_compute(sums, &f);
    close_to(f.by_class[0].precision, 0);
    close_to(f.by_class[0].recall, 0);
    close_to(f.by_class[1].precision, 2.0 / 3);
    close_to(f.by_class[1].recall, 1);
    assert_true(isnan(f.by_class[2].f1) && isnan(f.by_class[2].auc));
    close_to(f.recall, 0.5);
    close_to(f.by_class[0].auc, 0.5); /* all scores are tied */
    assert_int_equal(f.confusion[0 * 3 + 1], 1);
    assert_int_equal(f.confusion[1 * 3 + 1], 2);
    fast__figures_free(sums);
}

static void confident_scores_do_not_tie(void **state)
{
    (void)state;
    /* p of the first class is 1 in every row even in double, but the order is known. */
    const float z[] = { 100, 0, 0, 200, 0, 0, 300, 0, 0, 400, 0, 0 };
    const int32_t labels[] = { 1, 2, 0, 0 };
    fast_figures f;
    fast_figure_sums *sums = sums_of(3, 3, 4);

    fast__figures_add(sums, 4, z, labels, NULL);
    fast__figures_compute(sums, &f);
    close_to(f.by_class[0].auc, 1);
    close_to(f.by_class[1].auc, 1);
    fast__figures_free(sums);
}

static void numbers_that_are_none_are_counted(void **state)
{
    (void)state;
    const float z[] = { NAN, 1, 0, INFINITY, 1, 0 };
    const int32_t labels[] = { 0, 1, 0 };
    const float t[] = { 1, 2 };
    const float y[] = { NAN, 2 };
    fast_figures f;
    fast_figure_sums *sums = sums_of(2, 2, 3);

    fast__figures_add(sums, 3, z, labels, NULL);
    fast__figures_compute(sums, &f);
    assert_int_equal(f.invalid, 2);
    close_to(f.accuracy, 1); /* as the losses count: the first largest */
    assert_true(isnan(f.auc));
    fast__figures_free(sums);
    sums = sums_of(0, 1, 2);
    fast__figures_add(sums, 2, y, NULL, t);
    fast__figures_compute(sums, &f);
    assert_int_equal(f.invalid, 1);
    assert_true(isnan(f.mae) && isnan(f.rmse) && isnan(f.r2));
    fast__figures_free(sums);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    const float z[] = { 1, 0 };
    const int32_t label = 0;
    fast_figures f;
    fast_figure_sums *sums = sums_of(4096, 4096, 1 << 20);

    fast__figures_compute(sums, &f);
    assert_null(f.confusion);
    assert_non_null(f.by_class);
    json_t *o = fast__figures_json(&f, 100);
    assert_int_equal(json_array_size(json_object_get(o, "by_class")), 0);
    json_decref(o);
    fast__figures_free(sums);
    /* More rows than were announced: all but the AUC is right. */
    sums = sums_of(2, 2, 1);
    for (int i = 0; i < 3; i++)
        fast__figures_add(sums, 1, z, &label, NULL);
    fast__figures_compute(sums, &f);
    assert_int_equal(f.confusion[0], 3);
    close_to(f.accuracy, 1);
    assert_true(isnan(f.auc));
    fast__figures_free(sums);
}

static void json_has_every_figure(void **state)
{
    (void)state;
    const float z[] = { 1, 0, 0, 1 };
    const int32_t labels[] = { 0, 0 };
    const float t[] = { 1, 2 };
    fast_figures f;
    char *text = NULL;
    json_t *o;
    fast_figure_sums *sums = sums_of(2, 2, 2);

    fast__figures_add(sums, 2, z, labels, NULL);
    fast__figures_compute(sums, &f);
    o = fast__figures_json(&f, 2);
    assert_int_equal(fast__json_print(&o, &text), FAST_OK);
    assert_non_null(strstr(text, "\"accuracy\": 0.5"));
    assert_non_null(strstr(text, "\"auc\": null"));
    assert_non_null(strstr(text, "\"confusion\": [[1, 1], [0, 0]]"));
    fast__free(text);
    o = fast__figures_json(&f, 1);
    assert_true(json_is_null(json_object_get(o, "confusion")));
    json_decref(o);
    fast__figures_free(sums);
    sums = sums_of(0, 1, 2);
    fast__figures_add(sums, 2, t, NULL, t);
    fast__figures_compute(sums, &f);
    o = fast__figures_json(&f, 2);
    assert_int_equal(fast__json_print(&o, &text), FAST_OK);
    assert_non_null(strstr(text, "\"r2\": 1"));
    assert_null(strstr(text, "f1"));
    fast__free(text);
    fast__figures_free(sums);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int64_t n = 0;; n++) {
        fast_figure_sums *sums = NULL;
        const fast_figures_options options = { 3, 3, 10 };

        fast__alloc_fail_after(n, true);
        const fast_err err = fast__figures_new(&options, &sums);
        fast__alloc_fail_after(-1, false);
        if (err == FAST_OK) {
            fast__figures_free(sums);
            assert_true(n > 4);
            return;
        }
        assert_int_equal(err, FAST_ENOMEM);
        assert_null(sums);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_are_those_of_sklearn),
        cmocka_unit_test(values_are_those_of_sklearn),
        cmocka_unit_test(no_rows_and_one_row_have_no_figures),
        cmocka_unit_test(an_absent_class_is_left_out),
        cmocka_unit_test(confident_scores_do_not_tie),
        cmocka_unit_test(numbers_that_are_none_are_counted),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(json_has_every_figure),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
