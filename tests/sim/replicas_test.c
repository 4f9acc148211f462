/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a thousand simulated workers train a real model in the memory of their vectors: parameters,
 * gradient, the rule's state, what the strategy keeps, and one model under way, but no copies that
 * nobody asked for. Method: 200 workers and a model whose vectors are most of it; the peak of this
 * process's resident memory, begun anew before each run, against a limit in vectors a worker.
 */
#include "base/err.h"
#include "fast/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Sanitizers take memory of their own: nothing is compared there. */
#ifdef FAST_SANITIZED
enum { WORKERS = 20, COMPARE = false };
#else
enum { WORKERS = 200, COMPARE = true };
#endif

enum { SLACK = 400000 }; /* bytes of a worker besides its vectors: stack, loader, small messages */

static int64_t resident_first; /* before the first run: the allocator keeps what later ones free */

/* A value of /proc/self/status, in bytes; -1: it is not there. */
static int64_t status_of(const char *name)
{
    char line[256];
    long long value = -1;
    FILE *file = fopen("/proc/self/status", "r");

    while (file && value < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), ": %lld", &value);
    if (file)
        fclose(file);
    return value < 0 ? -1 : value * 1024;
}

/* Let the peak begin at what is resident now; false where the system does not let us. */
static bool begin_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    const bool written = file && fputs("5", file) >= 0;

    return file && fclose(file) == 0 && written && status_of("VmHWM") > 0;
}

/* Train, and compare the memory of a worker with `vectors` copies of the model. */
static void expect_vectors(const char *strategy, const char *optimizer, double vectors)
{
    char strategy_is[96], optimizer_is[96], workers_are[32];
    const char *options[] = { "engine=ref",
                              "model=mlp:hidden=256",
                              "data=digits:train=800,test=20",
                              "batch=4",
                              "steps=4",
                              "lr=0.0001",
                              "evaluate=no",
                              "plan=no",
                              "transport=sim",
                              workers_are,
                              strategy_is,
                              optimizer_is,
                              NULL };
    fast_run *run = NULL;
    int64_t each, vector;

    snprintf(workers_are, sizeof workers_are, "workers=%d", WORKERS);
    snprintf(strategy_is, sizeof strategy_is, "strategy=%s", strategy);
    snprintf(optimizer_is, sizeof optimizer_is, "optimizer=%s", optimizer);
    if (!begin_peak())
        skip();
    if (fast_run_open(options, &run) || fast_run_train(run))
        fail_msg("%s: %s", strategy, fast_error_detail());
    assert_int_equal(fast_run_result(run)->steps, 4);
    each = (status_of("VmHWM") - resident_first) / WORKERS;
    vector = fast_run_result(run)->param_count * (int64_t)sizeof(float);
    print_message("%s with %s: %lld bytes a worker, %.2f vectors\n", strategy, optimizer,
                  (long long)each, (double)each / (double)vector);
    if (COMPARE)
        assert_true((double)each <= vectors * (double)vector + SLACK);
    fast_run_close(run);
}

static void synchronous_workers(void **state)
{
    (void)state;
    expect_vectors("allreduce", "momentum", 2); /* equal replicas: gradient and a message */
}

static void stale_synchronous_workers(void **state)
{
    (void)state;
    expect_vectors("ps:slack=2", "momentum", 4);
}

static void elastic_workers(void **state)
{
    (void)state;
    expect_vectors("elastic:period=2", "sgd", 4);
}

static void gossiping_workers(void **state)
{
    (void)state;
    expect_vectors("gossip", "momentum", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synchronous_workers),
        cmocka_unit_test(stale_synchronous_workers),
        cmocka_unit_test(elastic_workers),
        cmocka_unit_test(gossiping_workers),
    };

    resident_first = status_of("VmRSS");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
