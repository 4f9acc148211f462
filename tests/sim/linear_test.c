/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a simulated worker costs the same among many as among few, in every family: messages and
 * memory of a run grow with the workers, not with their square. Method: runs of the same few steps
 * of a tiny model with two numbers of workers, whose messages and allocated bytes are counted;
 * times are not. And completeness, which counts a sample of the workers, is the exact one on a
 * ring, where all workers are alike.
 */
#include "base/err.h"
#include "base/memory.h"
#include "fast/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#ifdef FAST_SLOW
enum { FEW = 288, MANY = 576 };
#else
enum { FEW = 300, MANY = 1200 };
#endif

/* Costs of a run, divided by its workers. */
typedef struct worker_cost {
    double messages;     /* sent */
    double bytes;        /* allocated, freed or not */
    double completeness; /* as measured, not divided */
} worker_cost;

/* Train three steps; each worker has eight samples, whatever their number. */
static worker_cost train(const char *system, int64_t workers)
{
    char name[64], count[32], data[64];
    const char *options[] = {
        "model=mlp:hidden=4", data, "engine=ref", "plan=no", "transport=sim", "batch=2", "steps=3",
        "evaluate=end",       name, count,        NULL
    };
    fast_run *run = NULL;

    snprintf(name, sizeof name, "system=%s", system);
    snprintf(data, sizeof data, "data=digits:train=%lld,test=16", (long long)(8 * workers));
    snprintf(count, sizeof count, "workers=%lld", (long long)workers);
    if (fast_run_open(options, &run))
        fail_msg("%s: %s", system, fast_error_detail());
    const int64_t before = fast__alloc_bytes();
    if (fast_run_train(run))
        fail_msg("%s: %s", system, fast_error_detail());
    const fast_result *r = fast_run_result(run);
    const worker_cost cost = { (double)r->messages_sent / (double)workers,
                               (double)(fast__alloc_bytes() - before) / (double)workers,
                               r->completeness };
    fast_run_close(run);
    return cost;
}

/* Trees get deeper with the logarithm; everything else that a worker does stays the same. */
static void costs_are_linear_in_workers(void **state)
{
    static const char *const systems[] = {
        "bsp",    "ssp",      "d-psgd", "easgd", "ad-psgd", "gosgd", "model-averaging",
        "fedavg", "mpca-sgd", "malt",   "sgp"
    };

    (void)state;
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        const worker_cost few = train(systems[i], FEW), many = train(systems[i], MANY);

        print_message("%s: messages %.1f, then %.1f; kB %.0f, then %.0f\n", systems[i],
                      few.messages, many.messages, few.bytes / 1e3, many.bytes / 1e3);
        if (many.messages > 1.35 * few.messages || many.bytes > 1.35 * few.bytes)
            fail_msg("%s: a worker costs more among %d than among %d", systems[i], MANY, FEW);
    }
}

/* After 3 steps the weights of a worker on a ring hold updates of as many workers on both sides:
 * the same number, however many others there are and whether all of them are counted. */
static void completeness_of_a_sample_is_exact_on_a_ring(void **state)
{
    (void)state;
    const double all = 200 * train("d-psgd", 200).completeness;
    const double sample = MANY * train("d-psgd", MANY).completeness;

    print_message("workers in a replica: %.3f of all, %.3f of a sample\n", all, sample);
    assert_true(all > 1);
    assert_true(fabs(all - sample) < 0.05 * all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_linear_in_workers),
        cmocka_unit_test(completeness_of_a_sample_is_exact_on_a_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
