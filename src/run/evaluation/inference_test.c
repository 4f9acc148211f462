/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predictions. Goal: samples as the data set holds them, normalised by nobody yet, give the outputs
 * that evaluation counts; batches of any size do, and nothing else of the run changes. Method:
 * train a little on sets that normalise in different ways, predict the whole test set, and count.
 */
#include "run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEST_COUNT = 37, INPUTS_MAX = 784, OUTPUTS_MAX = 24 }; /* not a multiple of the batch */

static float x[TEST_COUNT * INPUTS_MAX];
static float y[TEST_COUNT * OUTPUTS_MAX];
static float again[TEST_COUNT * OUTPUTS_MAX];

/* The part of the positions whose largest output is the label. */
static double accuracy_of(const fast_data *test)
{
    int64_t correct = 0;
    for (int64_t i = 0; i < test->count * test->positions; i++) {
        const float *row = y + i * test->outputs;
        int64_t best = 0;
        for (int64_t k = 1; k < test->outputs; k++)
            best = row[k] > row[best] ? k : best;
        correct += best == test->labels[i];
    }
    return (double)correct / (double)(test->count * test->positions);
}

static void check_data(const char *engine, const char *model, const char *data)
{
    const char *const options[] = { engine, model, data, "batch=8", "epochs=2", "plan=no", NULL };
    fast_run *run = NULL;
    if (fast_run_open(options, &run) != FAST_OK || fast_run_train(run) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    const fast_data *test = run->data.test;
    const int64_t inputs = fast_run_inputs(run), outputs = fast_run_outputs(run);
    assert_int_equal(test->count, TEST_COUNT);
    assert_in_range(inputs, 1, INPUTS_MAX);
    assert_in_range(outputs, 1, OUTPUTS_MAX);
    for (int64_t i = 0; i < test->count * inputs; i++)
        x[i] = test->dtype == FAST_U8 ? ((const uint8_t *)test->x)[i] : ((const float *)test->x)[i];

    assert_int_equal(fast_run_predict(run, test->count, x, y), FAST_OK);
    const fast_result before = *fast_run_result(run);
    assert_true(accuracy_of(test) == before.test_accuracy);
    for (int64_t i = 0; i < test->count; i++)
        assert_int_equal(fast_run_predict(run, 1, x + i * inputs, again + i * outputs), FAST_OK);
    for (int64_t i = 0; i < test->count * outputs; i++)
        assert_float_equal(again[i], y[i], 1e-4);
    assert_int_equal(fast_run_predict(run, 0, NULL, NULL), FAST_OK);
    fast__run_measure_all(run);
    assert_int_equal(fast_run_result(run)->params_hash, before.params_hash);
    fast_run_close(run);
}

static void predictions_agree_with_evaluation(void **state)
{
    (void)state;
    int64_t count = 0;
    const fast_part *engines = fast_part_list("engine", &count);
    for (int64_t i = 0; i < count; i++) {
        char engine[64] = "engine=";
        strncat(engine, engines[i].name, sizeof engine - strlen(engine) - 1);
        check_data(engine, "model=mlp:hidden=16", "data=digits:train=160,test=37,normalize=unit");
        check_data(engine, "model=mlp:hidden=16",
                   "data=digits:train=160,test=37,normalize=standard");
        check_data(engine, "model=mlp:hidden=16", "data=blobs:train=160,test=37,distance=0.7");
        check_data(engine, "model=rnn:hidden=8", "data=copy:train=160,test=37,length=2,symbols=4");
    }
}

/* Values that are not tokens are refused, and named. */
static void wrong_tokens_are_refused(void **state)
{
    (void)state;
    const char *const options[] = { "engine=ref", "model=rnn:hidden=8", "batch=8",
                                    "data=copy:train=16,test=8,length=2,symbols=4", NULL };
    fast_run *run = NULL;
    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    const float tokens[4] = { 0, 1, 2.5f, 0 };
    assert_int_equal(fast_run_predict(run, 1, tokens, y), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "token 2.5"));
    fast_run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_agree_with_evaluation),
        cmocka_unit_test(wrong_tokens_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
