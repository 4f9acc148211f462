/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Systems learn. Goal: presets of each family come close to synchronous SGD with their documented
 * settings. Method: a small network on rendered digits, four workers in the simulator, so that each
 * run is the same everywhere; `tools/soak learn` does the same with every preset, on real data.
 */
#include "fast/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#ifdef FAST_SLOW
enum { SYSTEMS = 3 };
#else
enum { SYSTEMS = 10 };
#endif

/* One of each family; the first three where machines are slow. */
static const char *const systems[] = { "ssp",  "easgd",   "ad-psgd",         "model-averaging",
                                       "malt", "hogwild", "staleness-aware", "d-psgd",
                                       "sgp",  "crossbow" };

static double accuracy_of(const char *system)
{
    const bool near = strcmp(system, "hogwild") == 0;
    char text[64];
    const char *options[] = { text,
                              "data=digits:train=3000,test=500,distort=0.6",
                              "model=mlp:hidden=48",
                              "plan=no",
                              "transport=sim",
                              "workers=4",
                              "batch=16",
                              "epochs=8",
                              "evaluate=end",
                              near ? "cluster=laptop" : NULL,
                              NULL };
    fast_run *run = NULL;
    double accuracy;

    snprintf(text, sizeof text, "system=%s", system);
    if (fast_run_open(options, &run) || fast_run_train(run))
        fail_msg("%s: %s", system, fast_error_detail());
    accuracy = fast_run_result(run)->test_accuracy;
    fast_run_close(run);
    return accuracy;
}

static void presets_come_close_to_synchronous(void **state)
{
    const double reference = accuracy_of("bsp");

    (void)state;
    print_message("%-18s %.3f\n", "bsp", reference);
    assert_true(reference > 0.9);
    for (int i = 0; i < SYSTEMS; i++) {
        const double accuracy = accuracy_of(systems[i]);

        print_message("%-18s %.3f\n", systems[i], accuracy);
        if (!(accuracy > reference - 0.05))
            fail_msg("%s learned only %.3f, synchronous SGD %.3f", systems[i], accuracy, reference);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(presets_come_close_to_synchronous) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
