/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When sums begin. Goal: sums that begin during the way back change no bit, with codecs as without,
 * and take less time where a network is waited for. Method: small runs on the simulator and on
 * threads, compared by hash, time and bytes.
 */
#include "small_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static fast_result train(const char *strategy, int workers, const char *codec, const char *scope,
                         const char *where)
{
    const char *const list[] = {
        "model=mlp:hidden=60x50x40", "engine=auto", where, codec, scope, NULL
    };

    return test_small_run(strategy, workers, list);
}

static void early_codecs_change_no_bit(void **state)
{
    static const char *const codecs[] = { "codec=onebit", "codec=qsgd",
                                          "codec=topk:ratio=0.1+entropy", "codec=vote",
                                          "codec=terngrad" };

    (void)state;
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        const fast_result late =
            train("allreduce:overlap=no", 3, codecs[i], "codec_scope=layer", "cluster=ethernet-1g");
        const fast_result early = train("allreduce:overlap=yes,bucket=2048", 3, codecs[i],
                                        "codec_scope=layer", "cluster=ethernet-1g");
        const fast_result near = train("allreduce:overlap=yes,bucket=4", 3, codecs[i],
                                       "codec_scope=layer", "transport=threads");

        if (early.params_hash != late.params_hash || near.params_hash != late.params_hash)
            fail_msg("%s: other bits when sums begin early", codecs[i]);
        if (early.bytes_sent <= late.bytes_sent)
            fail_msg("%s: %lld bytes, and %lld in pieces", codecs[i], (long long)late.bytes_sent,
                     (long long)early.bytes_sent);
    }
}

/* What encodes the whole vector at once begins when that is there. */
static void whole_vectors_wait(void **state)
{
    const fast_result late =
        train("allreduce:overlap=no", 3, "codec=topk", "codec_scope=model", "cluster=ethernet-1g");
    const fast_result early =
        train("allreduce:overlap=yes", 3, "codec=topk", "codec_scope=model", "cluster=ethernet-1g");

    (void)state;
    assert_true(late.params_hash == early.params_hash);
    assert_true(late.bytes_sent == early.bytes_sent);
}

static void early_is_sooner(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *const list[] = {
            "model=lenet",         "engine=auto",           "batch=16",          "steps=4",
            "cluster=ethernet-1g", i ? "codec=qsgd" : NULL, "codec_scope=layer", NULL
        };
        const fast_result late = test_small_run("allreduce:overlap=no", 2, list);
        const fast_result early = test_small_run("allreduce:overlap=yes", 2, list);

        assert_true(late.params_hash == early.params_hash);
        if (early.time_s >= late.time_s)
            fail_msg("%d: %g s late, %g s early", i, late.time_s, early.time_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(early_codecs_change_no_bit),
        cmocka_unit_test(whole_vectors_wait),
        cmocka_unit_test(early_is_sooner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
