/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and order of sums. Goal: sums that start during the backward pass, or are made in the order
 * of the forward pass, change no bit, with and without codecs, and take less time over a network.
 * Method: small runs on the simulator and on threads, compared by hash, time and bytes.
 */
#include "small_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* Under sanitizers the first few of each list. */
#ifdef FAST_SANITIZED
enum { CODECS = 2, CASES = 2, WAYS = 1 };
#else
enum { CODECS = 5, CASES = 4, WAYS = 3 };
#endif

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
    for (size_t i = 0; i < CODECS; i++) {
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

/* A codec that encodes whole vectors starts after the backward pass. */
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
        /* No convolutions: how those are computed is chosen by time. */
        const char *const list[] = { "model=mlp:hidden=200x200x200",
                                     "data=digits:train=640,test=32",
                                     "engine=auto",
                                     "batch=32",
                                     "steps=8",
                                     "cluster=ethernet-1g",
                                     i ? "codec=qsgd" : NULL,
                                     "codec_scope=layer",
                                     NULL };
        const fast_result late = test_small_run("allreduce:overlap=no", 2, list);
        const fast_result early = test_small_run("allreduce:overlap=yes,bucket=32768", 2, list);

        assert_true(late.params_hash == early.params_hash);
        if (early.time_s >= late.time_s)
            fail_msg("%d: %g s late, %g s early", i, late.time_s, early.time_s);
    }
}

/* Sums in flight are complete before w is evaluated, with learners of all kinds. */
static void priority_changes_no_bit(void **state)
{
    static const char *const more[][3] = { { "evaluate=5", "optimizer=momentum", NULL },
                                           { "evaluate=1", "optimizer=adam", "accumulate=2" },
                                           { "model=resnet8:width=4", "steps=3", NULL },
                                           { "engine=ref", "evaluate=end", NULL } };
    static const char *const where[] = { "cluster=ethernet-1g", "transport=threads" };

    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        const char *const base[] = { more[i][0], more[i][1], more[i][2], NULL };
        const uint64_t wanted = test_small_run("allreduce", 3, base).params_hash;

        for (int w = 0; w < 2; w++) {
            const char *const list[] = { where[w], more[i][0], more[i][1], more[i][2], NULL };

            if (test_small_run("allreduce:priority=yes,bucket=512", 3, list).params_hash != wanted)
                fail_msg("%s, %s: other bits with priority", more[i][0], where[w]);
        }
    }
}

/* The next step begins with its first layers while the last are on their way. */
static void priority_is_sooner(void **state)
{
    static const char *const list[] = { "model=mlp:hidden=200x200x200",
                                        "data=digits:train=640,test=32",
                                        "engine=auto",
                                        "batch=32",
                                        "steps=16",
                                        "cluster=ethernet-1g",
                                        NULL };
    const fast_result plain = test_small_run("allreduce:overlap=yes,bucket=32768", 4, list);
    const fast_result ordered = test_small_run("allreduce:priority=yes,bucket=32768", 4, list);

    (void)state;
    assert_true(plain.params_hash == ordered.params_hash);
    if (ordered.time_s >= plain.time_s)
        fail_msg("%g s, with priority %g s", plain.time_s, ordered.time_s);
}

/* Gradients that go to servers in pieces are the same update, sooner. */
static void early_writes_change_no_bit(void **state)
{
    static const char *const how[] = { "", ",servers=3", ",servers=2,replicas=1" };
    char late[64], early[64];

    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        const char *const where[] = { "model=mlp:hidden=300x300", "engine=auto", "steps=6",
                                      "cluster=ethernet-1g", NULL };
        const char *const near[] = { "model=mlp:hidden=300x300", "engine=auto", "steps=6",
                                     "transport=threads", NULL };

        snprintf(late, sizeof late, "ps:slack=0%s", how[i]);
        snprintf(early, sizeof early, "ps:slack=0,overlap=yes%s", how[i]);
        const fast_result plain = test_small_run(late, 3, where);
        const fast_result pieces = test_small_run(early, 3, where);

        assert_true(pieces.params_hash == plain.params_hash);
        assert_true(test_small_run(early, 3, near).params_hash == plain.params_hash);
        if (i == 0 && pieces.time_s >= plain.time_s)
            fail_msg("%s: %g s, %s: %g s", late, plain.time_s, early, pieces.time_s);
    }
}

static void what_cannot_be_ordered_is_refused(void **state)
{
    static const char *const with[] = { "codec=fp16", "optimizer=lamb",
                                        "strategy=allreduce:priority=yes,factors=yes" };

    (void)state;
    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++) {
        const char *const options[] = { "strategy=allreduce:priority=yes",
                                        "workers=2",
                                        "model=mlp:hidden=4",
                                        "data=digits:train=64,test=16",
                                        "batch=4",
                                        "engine=ref",
                                        with[i],
                                        NULL };
        fast_run *run = NULL;

        assert_int_equal(fast_run_open(options, &run), FAST_OK);
        assert_int_equal(fast_run_train(run), FAST_EINVAL);
        fast_run_close(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(early_codecs_change_no_bit),
        cmocka_unit_test(whole_vectors_wait),
        cmocka_unit_test(early_is_sooner),
        cmocka_unit_test(priority_changes_no_bit),
        cmocka_unit_test(priority_is_sooner),
        cmocka_unit_test(early_writes_change_no_bit),
        cmocka_unit_test(what_cannot_be_ordered_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
