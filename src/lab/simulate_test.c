/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: fast_simulate() does what its options say, repeats itself by the command that it gives,
 * shrinks what fails and survives every allocation that fails. Method: known programs and faults;
 * the command's words are taken apart and simulated again.
 */
#include "base/memory.h"
#include "lab/simulate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The last report, and the number of reports. */
typedef struct heard {
    int64_t count;
    int64_t stop_after; /* 0: never */
    int64_t failed;
    int64_t tries;
    uint64_t hash;
    char faults[512];
    char command[1024];
} heard;

static bool hear(void *ctx, const fast_simulation *s)
{
    heard *h = ctx;
    h->count++;
    h->failed = s->failed_count;
    h->tries = s->shrunk_tries;
    h->hash = s->trace_hash;
    snprintf(h->faults, sizeof h->faults, "%s", s->faults);
    snprintf(h->command, sizeof h->command, "%s", s->command);
    return h->count != h->stop_after;
}

static void test_command(void **state)
{
    (void)state;
    const char *options[] = { "program=ping",
                              "workers=3",
                              "rounds=7",
                              "timeout=0.25",
                              "work=2.5e6",
                              "seed=17",
                              "faults=crash 2 at 100us; cut 0>1 at 2ms",
                              NULL };
    heard first = { 0 }, second = { 0 };
    assert_int_equal(fast_simulate(options, hear, &first), FAST_OK);
    assert_int_equal(first.count, 1);
    assert_string_equal(first.command,
                        "fast simulate --program ping --workers 3 --rounds 7 --work "
                        "2500000 --timeout 0.25 --seed 17 --faults 'crash 2 at 100us; "
                        "cut 0>1 at 2ms'");
    const char *again[] = { "program=ping",
                            "workers=3",
                            "rounds=7",
                            "work=2500000",
                            "timeout=0.25",
                            "seed=17",
                            "faults=crash 2 at 100us; cut 0>1 at 2ms",
                            NULL };
    assert_int_equal(fast_simulate(again, hear, &second), FAST_OK);
    assert_true(first.hash == second.hash);
    assert_true(first.failed == 2);
}

/* Random faults hit: they are spread over the time that the program takes. */
static void test_random(void **state)
{
    (void)state;
    const char *options[] = { "algorithm=tree", "faults=random:kinds=crash", "seeds=20", NULL };
    heard h = { 0 };
    assert_int_equal(fast_simulate(options, hear, &h), FAST_OK);
    assert_int_equal(h.count, 20);
    h = (heard){ .stop_after = 3 };
    assert_int_equal(fast_simulate(options, hear, &h), FAST_OK);
    assert_int_equal(h.count, 3);
    assert_true(h.failed > 0);
    assert_non_null(strstr(h.faults, "crash "));
    assert_non_null(strstr(h.command, h.faults));
}

static void test_shrink(void **state)
{
    (void)state;
    const char *options[] = { "program=master", "timeout=0.1", "shrink=yes",
                              "faults=pause 1 at 1ms for 2ms; jump 3 at 1ms by 1ms; crash 0 at "
                              "1.54066ms; lossy 1-2 at 0s loss 0.1",
                              NULL };
    heard h = { 0 };
    assert_int_equal(fast_simulate(options, hear, &h), FAST_OK);
    assert_string_equal(h.faults, "crash 0 at 0s");
    assert_true(h.tries > 1);
    assert_true(h.failed == 3);
}

static void refuse(const char *option, const char *words)
{
    const char *options[] = { "program=ping", option, NULL };
    heard h = { 0 };
    assert_int_equal(fast_simulate(options, hear, &h), FAST_EINVAL);
    assert_int_equal(h.count, 0);
    if (!strstr(fast_error_detail(), words))
        fail_msg("%s: %s", option, fast_error_detail());
}

static void test_refused(void **state)
{
    (void)state;
    refuse("workers=1", "at least 2 workers");
    refuse("program=pong", "program");
    refuse("cluster=moon", "no cluster \"moon\"");
    refuse("algorithm=bee", "no allreduce \"bee\"");
    refuse("algorithm=tree:x=1", "x");
    refuse("faults=crash 4 at 1s", "there is no node 4");
    refuse("faults=random:kinds=crush", "no fault \"crush\"");
    refuse("nonsense", "is not name=value");
    refuse("timeout=0", "timeout");
}

/* Every program comes to its end on every cluster while nothing goes wrong, also where the links
 * are slow and lose messages. */
static void test_clusters(void **state)
{
    (void)state;
    static const char *const clusters[] = { "laptop", "ethernet-1g", "ethernet-10g", "infiniband",
                                            "wan",    "edge",        "hetero",       "ideal" };
    static const char *const programs[] = { "ping", "master", "allreduce", "space", "gossip" };
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++)
        for (size_t j = 0; j < sizeof programs / sizeof *programs; j++) {
            char cluster[64], program[64];
            snprintf(cluster, sizeof cluster, "cluster=%s", clusters[i]);
            snprintf(program, sizeof program, "program=%s", programs[j]);
            const char *options[] = { cluster, program, NULL };
            heard h = { 0 };
            assert_int_equal(fast_simulate(options, hear, &h), FAST_OK);
            if (h.failed > 0)
                fail_msg("%s, %s: %lld workers gave up", cluster, program, (long long)h.failed);
        }
}

static void test_memory(void **state)
{
    (void)state;
    const char *options[] = { "program=ping", "workers=2", "rounds=2",
                              "faults=random:count=1,kinds=pause", NULL };
    heard h = { 0 };
    const int64_t before = fast__alloc_count();
    assert_int_equal(fast_simulate(options, hear, &h), FAST_OK);
    const int64_t count = fast__alloc_count() - before;
    for (int64_t n = 0; n < count; n++) {
        fast__alloc_fail_after(n, true);
        const fast_err err = fast_simulate(options, hear, &h);
        fast__alloc_fail_after(-1, true);
        /* A worker without memory gives up, which is a result. */
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command),  cmocka_unit_test(test_random),
        cmocka_unit_test(test_shrink),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_clusters), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
