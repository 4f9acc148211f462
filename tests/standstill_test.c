/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standstills. Goal: a process that is suspended (Ctrl-Z, a laptop that sleeps, a virtual machine
 * that is paused) continues afterwards, also if that took longer than its timeout. Method: a child
 * trains with threads until it is asked to stop; SIGSTOP and SIGCONT suspend it for half a timeout
 * to three of them, at a random moment. Then it has more than a timeout in which a false alarm
 * would end it, and must still train and stop without an error.
 *
 *     standstill_test [COUNT [SEED]]     more suspensions, from another seed on
 */
#include "base/rng.h"
#include "fast/run.h"
#include "matrix.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const double TIMEOUT_S = 0.4;

static int64_t suspension_count = 7;
static int64_t suspension_seed = 1;
static fast_run *child_run; /* of the child, for its signal */

static const char *const members[] = { "allreduce", "ps:slack=0",   "local:period=4",
                                       "gossip",    "ps:slack=3",   "gossip_async",
                                       "elastic",   "elastic_sync", "ps:slack=0,backup=1",
                                       "mpca",      "partial",      "ps",
                                       "dogwild" };

static void on_term(int number)
{
    (void)number;
    fast_run_cancel(child_run);
}

static void sleep_s(double seconds)
{
    const struct timespec time = { (time_t)seconds,
                                   (long)((seconds - (double)(time_t)seconds) * 1e9) };

    nanosleep(&time, NULL);
}

/* Train until SIGTERM. Writes the error to `out`, or how many steps were taken. Never returns. */
static void train(const char *member, int64_t seed, int ready, int out)
{
    char strategy[128], text[32], timeout[32], line[512];
    const char *options[] = { "model=mlp:hidden=64",
                              "engine=ref",
                              "plan=no",
                              "transport=threads",
                              "batch=8",
                              "optimizer=sgd",
                              "lr=0.001",
                              "schedule=constant",
                              "evaluate=no",
                              "steps=100000000",
                              "workers=3",
                              "store=none",
                              strategy,
                              text,
                              timeout,
                              NULL };

    snprintf(strategy, sizeof strategy, "strategy=%s", member);
    snprintf(text, sizeof text, "seed=%" PRId64, seed);
    snprintf(timeout, sizeof timeout, "timeout=%g", TIMEOUT_S);
    fast_data *train_data = test_points(192, 1), *test_data = test_points(64, 2);
    fast_err err = fast_run_open_with(options, NULL, train_data, test_data, &child_run);
    if (!err) {
        signal(SIGTERM, on_term);
        if (write(ready, "", 1) != 1)
            _exit(3);
        err = fast_run_train(child_run);
    }
    const int length =
        snprintf(line, sizeof line, "%s", err ? fast_error_detail() : ""); /* "": all is well */
    const bool stuck = !err && fast_run_result(child_run)->steps < 2;
    const char *said = stuck ? "it took no step" : line;
    if (write(out, said, stuck ? strlen(said) : (size_t)length) < 0)
        _exit(3);
    _exit(err || stuck ? 1 : 0);
}

/* Suspend a child once; `why` is its error, or "". */
static void suspend(const char *member, int64_t seed, double length_s, double at_s, char why[512])
{
    int ready[2], out[2], status = 0;
    char byte;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(out), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        train(member, seed, ready[1], out[1]);
    close(ready[1]);
    close(out[1]);
    const ssize_t began = read(ready[0], &byte, 1);
    if (began == 1) {
        sleep_s(0.05 + at_s);
        kill(pid, SIGSTOP);
        sleep_s(length_s);
        kill(pid, SIGCONT);
        sleep_s(1.2 * TIMEOUT_S);
        kill(pid, SIGTERM);
    }
    const ssize_t length = read(out[0], why, 511);
    why[length > 0 ? length : 0] = '\0';
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!why[0] && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        snprintf(why, 512, "status %d", status);
    close(ready[0]);
    close(out[0]);
}

static void a_suspended_process_continues(void **state)
{
    const int64_t count = (int64_t)(sizeof members / sizeof *members);
    int64_t broken = 0;

    (void)state;
    for (int64_t i = 0; i < suspension_count; i++) {
        const char *member = members[i % count];
        char why[512];
        fast_rng rng;

        fast__rng_init(&rng, (uint64_t)(suspension_seed + i), FAST_PURPOSE_TEST, 12, 0, 0);
        const double length = TIMEOUT_S * (0.5 + 0.5 * (double)fast__rng_below(&rng, 6));
        const double at = 1e-3 * (double)fast__rng_below(&rng, 50);
        suspend(member, suspension_seed + i, length, at, why);
        if (why[0])
            print_error("%s, suspended for %g s of a timeout of %g s: %s\n", member, length,
                        TIMEOUT_S, why);
        broken += why[0] != 0;
    }
    print_message("%" PRId64 " suspensions, %" PRId64 " ended the run\n", suspension_count, broken);
    assert_int_equal(broken, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suspended_process_continues),
    };

    if (argc > 1)
        suspension_count = strtoll(argv[1], NULL, 10);
    if (argc > 2)
        suspension_seed = strtoll(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
