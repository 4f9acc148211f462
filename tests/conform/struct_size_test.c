/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a struct of the caller whose size the library does not know is refused before any other
 * field is read (fast.h, Sizes); 0 and the true size are accepted.
 * Method: each function that takes such a struct gets one with nothing but a foreign size; a
 * strategy and a data set are also accepted with their true size. store_test and server_test have
 * their own cases.
 */
#include "fast/lab.h"
#include "fast/learner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { FOREIGN = 8 }; /* no struct of FAST has so few bytes */

/* Check that a call was refused, and that the detail names the struct. */
static void refused(fast_err err, const char *name)
{
    assert_int_equal(err, FAST_EINVAL);
    if (!strstr(fast_error_detail(), name) || !strstr(fast_error_detail(), "has 8 bytes"))
        fail_msg("\"%s\" does not refuse %s", fast_error_detail(), name);
}

static void test_foreign_sizes_are_refused(void **state)
{
    const fast_strategy strategy = { .size = FOREIGN };
    const fast_learner_kind kind = { .size = FOREIGN };
    const fast_operator op = { .size = FOREIGN };
    fast_network *network = NULL;
    fast_compare *compare = NULL;
    fast_data *data = NULL;
    fast_run *run = NULL;

    (void)state;
    refused(fast_run_open_strategy(NULL, &strategy, &run), "fast_strategy");
    refused(fast_run_open_learner(NULL, &kind, &strategy, &run), "fast_strategy");
    refused(fast_run_open_learner(NULL, &kind, NULL, &run), "fast_learner_kind");
    refused(fast_data_new(&(fast_data_options){ .size = FOREIGN }, &data), "fast_data_options");
    refused(fast_compare_open(&(fast_compare_config){ .size = FOREIGN }, &compare),
            "fast_compare_config");
    assert_int_equal(fast_network_new(&network), FAST_OK);
    refused(fast_network_add_operator(network, NULL, &op, NULL, NULL), "fast_operator");
    fast_network_free(network);
    assert_true(!run && !data && !compare);
}

/* Spaces and flows are opened inside programs. */
static fast_err open_foreign(fast_trainer *t, const void *config)
{
    fast_space *space = NULL;
    fast_flow *flow = NULL;

    (void)config;
    refused(fast_space_open(t->actor, &(fast_space_options){ .size = FOREIGN }, &space),
            "fast_space_options");
    refused(fast_trainer_flow(t, &(fast_flow_options){ .size = FOREIGN }, &flow),
            "fast_flow_options");
    assert_true(!space && !flow);
    t->w[0] = 1;
    return fast_trainer_end(t);
}

static void test_true_sizes_are_accepted(void **state)
{
    static const fast_strategy strategy = { .size = sizeof strategy,
                                            .name = "foreign",
                                            .summary = "opens structs of another library",
                                            .worker = open_foreign };
    const float x[] = { 0, 1 };
    const int32_t labels[] = { 0, 1 };
    const char *options[] = { "data=blobs",    "model=mlp",  "workers=2",
                              "transport=sim", "store=none", NULL };
    fast_data *data = NULL;
    fast_run *run = NULL;

    (void)state;
    assert_int_equal(fast_data_new(&(fast_data_options){ .size = sizeof(fast_data_options),
                                                         .count = 2,
                                                         .rank = 1,
                                                         .shape = { 1 },
                                                         .x = x,
                                                         .labels = labels,
                                                         .classes = 2 },
                                   &data),
                     FAST_OK);
    fast_data_free(data);
    if (fast_run_open_strategy(options, &strategy, &run) != FAST_OK ||
        fast_run_train(run) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    fast_run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foreign_sizes_are_refused),
        cmocka_unit_test(test_true_sizes_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
