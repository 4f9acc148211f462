/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LazyTable's client: rows that a virtual iteration finds, caches of processes and fetching ahead.
 * Goal: reads of rows change no bit, bring fewer bytes, and are exact in every epoch; the proxy's
 * cache asks the servers less often within the slack; a pass starts before all rows are there.
 * Method: small runs on texts of a large vocabulary, compared by hashes, losses, bytes and time.
 */
#include "fast/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static double evaluated; /* sum of the test losses of the last run's evaluations */

static void watch(void *ctx, const fast_event *event)
{
    (void)ctx;
    if (event->kind == FAST_EVENT_EVALUATE)
        evaluated += event->result->test_loss;
}

/* Train on words, three epochs of two steps and some samples over; more options win. */
static fast_result train(const char *strategy, const char *const more[2])
{
    char how[128];
    const char *options[] = { how,
                              "workers=4",
                              "data=words:train=75,test=32,vocabulary=5000",
                              "model=mlp:hidden=8",
                              "engine=ref",
                              "batch=8",
                              "steps=6",
                              "evaluate=2steps",
                              "optimizer=sgd",
                              "lr=0.5",
                              "seed=5",
                              more[0],
                              more[1],
                              NULL };
    fast_run *run = NULL;
    fast_result result;

    snprintf(how, sizeof how, "strategy=%s", strategy);
    evaluated = 0;
    if (fast_run_open(options, &run))
        fail_msg("%s: %s", strategy, fast_error_detail());
    fast_run_watch(run, watch, NULL);
    if (fast_run_train(run))
        fail_msg("%s: %s", strategy, fast_error_detail());
    result = *fast_run_result(run);
    fast_run_close(run);
    return result;
}

static const char *const sim[2] = { "transport=sim", "cluster=ethernet-1g" };
static const char *const threads[2] = { "transport=threads", "engine=ref" };

/* Each epoch has other batches: rows that are missing in one would change the hash, rows that are
 * old at an evaluation its loss. */
static void rows_change_no_bits(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        const fast_result whole = train("ps:slack=0,proxies=2", k ? threads : sim);
        (void)train("allreduce", k ? threads : sim);
        const double losses = evaluated; /* of the newest model */
        const fast_result rows = train("ps:slack=0,proxies=2,rows=yes", k ? threads : sim);

        assert_int_equal(rows.params_hash, whole.params_hash);
        assert_true(rows.test_loss == whole.test_loss);
        assert_true(evaluated == losses && losses > 2.5 * whole.test_loss);
        assert_true(rows.test_accuracy == whole.test_accuracy);
        if (k == 0 && rows.bytes_sent >= whole.bytes_sent)
            fail_msg("%lld bytes with rows, %lld without", (long long)rows.bytes_sent,
                     (long long)whole.bytes_sent);
    }
}

/* The proxy asks the servers when its values reach the age, or the slack ends. */
static void processes_have_caches(void **state)
{
    const fast_result all = train("ps:slack=3,proxies=2", sim);
    const fast_result cached = train("ps:slack=3,proxies=2,cache_age=3", sim);
    const fast_result rounds = train("ps:slack=0,proxies=2", sim);

    (void)state;
    assert_true(cached.messages_sent < all.messages_sent);
    assert_true(cached.bytes_sent < all.bytes_sent);
    assert_int_equal(train("ps:slack=0,proxies=2,cache_age=3", sim).params_hash,
                     rounds.params_hash);
}

/* All weights of this model are read, so that rows bring as many bytes; but the pass starts with
 * its first layer, while the other layers travel. */
static void reads_are_ahead_of_the_pass(void **state)
{
    double times[2];

    (void)state;
    for (int rows = 0; rows < 2; rows++) {
        const char *options[] = { rows ? "strategy=ps:slack=0,proxies=2,rows=yes"
                                       : "strategy=ps:slack=0,proxies=2",
                                  "transport=sim",
                                  "cluster=ethernet-10g",
                                  "workers=2",
                                  "data=digits:train=600,test=32",
                                  "model=mlp:hidden=256x256x256",
                                  "batch=32",
                                  "steps=6",
                                  "evaluate=100steps",
                                  NULL };
        fast_run *run = NULL;

        if (fast_run_open(options, &run) || fast_run_train(run))
            fail_msg("%s", fast_error_detail());
        times[rows] = fast_run_result(run)->virtual_time_s;
        fast_run_close(run);
    }
    if (times[1] >= times[0])
        fail_msg("%g s with rows, %g s without", times[1], times[0]);
}

static void nonsense_is_refused(void **state)
{
    static const char *const cases[][3] = {
        { "strategy=ps:slack=0,rows=yes", "codec_down=none", "rows=yes needs proxies" },
        { "strategy=ps:slack=0,proxies=2,rows=yes", "codec_down=fp16",
          "read the weights in slices" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *options[] = { cases[i][0],
                                  cases[i][1],
                                  "workers=4",
                                  "batch=8",
                                  "data=words:train=64,test=16",
                                  "model=mlp:hidden=4",
                                  NULL };
        fast_run *run = NULL;

        assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
        if (!strstr(fast_error_detail(), cases[i][2]))
            fail_msg("%s", fast_error_detail());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_change_no_bits),
        cmocka_unit_test(processes_have_caches),
        cmocka_unit_test(reads_are_ahead_of_the_pass),
        cmocka_unit_test(nonsense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
