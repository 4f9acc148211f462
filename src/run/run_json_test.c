/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of --log. Goal: names, order and values of a line do not change: programs read them.
 * Method: a result with a value of each kind, written and compared as text.
 */
#include "run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A result of which every field of a line has a value of its own. */
static fast_result make_result(void)
{
    fast_result r = { .steps = 12, .samples = 768, .epoch = 2, .bytes_sent = 4096 };

    r.best_step = -1;
    r.time_s = 0.5;
    r.loss = 1.25;
    r.train_accuracy = NAN;
    r.test_loss = 0.1;
    r.test_accuracy = 1;
    r.messages_sent = 3;
    r.compute_s = 0.25;
    r.exchange_s = 0.125;
    r.wait_s = INFINITY;
    r.staleness_mean = 1.5;
    r.staleness_p50 = 1;
    r.staleness_p95 = 2;
    r.staleness_max = -1;
    r.staleness[0] = 7;
    r.divergence = NAN;
    r.completeness = 0.75;
    return r;
}

/* Write one line and read it back. */
static void write_line(bool several, char *line, size_t size)
{
    const fast_result r = make_result();
    FILE *file = tmpfile();

    assert_non_null(file);
    assert_int_equal(fast__run_json_log(&r, several, 40, file), FAST_OK);
    rewind(file);
    const size_t count = fread(line, 1, size - 1, file);
    line[count] = '\0';
    fclose(file);
}

static void lines_of_one_worker(void **state)
{
    char line[1024];

    (void)state;
    write_line(false, line, sizeof line);
    assert_string_equal(
        line, "{\"step\": 12, \"progress\": 0.3, \"samples\": 768, \"epoch\": 2, \"time_s\": 0.5, "
              "\"loss\": 1.25, \"train_accuracy\": null, \"test_loss\": 0.1, "
              "\"test_accuracy\": 1}\n");
}

static void lines_of_several_workers(void **state)
{
    char line[2048];
    char *list;

    (void)state;
    write_line(true, line, sizeof line);
    list = strstr(line, "\"staleness\": [7, 0, ");
    assert_non_null(list);
    assert_non_null(strstr(list, "], \"divergence\": null, \"completeness\": 0.75}\n"));
    *list = '\0';
    assert_non_null(strstr(line, "\"test_accuracy\": 1, \"bytes_sent\": 4096, "
                                 "\"messages_sent\": 3, \"compute_s\": 0.25, "
                                 "\"exchange_s\": 0.125, \"wait_s\": null, "
                                 "\"staleness_mean\": 1.5, \"staleness_p50\": 1, "
                                 "\"staleness_p95\": 2, \"staleness_max\": null, "));
}

/* A file that takes nothing is an error, not a lost line. */
static void full_disks_are_told(void **state)
{
    const fast_result r = make_result();
    FILE *file = fopen("/dev/full", "w");

    (void)state;
    if (!file)
        skip();
    assert_int_equal(fast__run_json_log(&r, false, 40, file), FAST_EIO);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_one_worker),
        cmocka_unit_test(lines_of_several_workers),
        cmocka_unit_test(full_disks_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
