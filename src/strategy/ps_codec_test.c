/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs on parameter servers. Goal: gradients go to servers, and weights come back, through the
 * run's codecs, whatever the transport; a codec that keeps everything changes no bit. Method: small
 * runs compared by hash, loss and bytes; what makes no sense is refused.
 */
#include "replicas.h"
#include "small_run.h"

#include "base/err.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#ifdef FAST_SANITIZED
enum { BRIEF = 1 };
#else
enum { BRIEF = 0 };
#endif

static fast_result train(const char *strategy, const char *codec, const char *more)
{
    char text[128];
    const char *const list[] = { text, more, NULL };

    snprintf(text, sizeof text, "codec=%s", codec);
    return test_small_run(strategy, 4, list);
}

/* All elements, whole, are what there was. */
static void what_loses_nothing_changes_nothing(void **state)
{
    static const char *const members[] = { "ps:slack=0", "ps:slack=0,servers=3" };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (train(members[i], "none", NULL).params_hash !=
            train(members[i], "topk:ratio=1", NULL).params_hash)
            fail_msg("%s differs with a codec that loses nothing", members[i]);
}

static void same_on_threads(void **state)
{
    static const char *const codecs[] = { "onebit", "qsgd", "topk:ratio=0.1", "fp16" };

    (void)state;
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++)
        if (train("ps:slack=0,servers=2", codecs[i], NULL).params_hash !=
            train("ps:slack=0,servers=2", codecs[i], "transport=threads").params_hash)
            fail_msg("%s differs between sim and threads", codecs[i]);
}

/* Copies draw alike, so that they are copies. */
static void copies_stay_equal(void **state)
{
    (void)state;
    assert_true(train("ps:slack=0", "qsgd", NULL).params_hash ==
                train("ps:slack=0,replicas=1", "qsgd", NULL).params_hash);
}

static void fewer_bytes_and_about_the_same_loss(void **state)
{
    static const char *const codecs[] = { "fp16",           "int8",     "onebit", "sign",
                                          "topk:ratio=0.1", "terngrad", "qsgd" };
    const fast_result plain = train("ps:slack=0", "none", NULL);

    (void)state;
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        const fast_result coded = train("ps:slack=0", codecs[i], NULL);

        if (coded.bytes_sent >= plain.bytes_sent)
            fail_msg("%s sends %lld bytes, none %lld", codecs[i], (long long)coded.bytes_sent,
                     (long long)plain.bytes_sent);
        if (fabs(coded.test_loss - plain.test_loss) > 0.1)
            fail_msg("%s ends with loss %g, none with %g", codecs[i], coded.test_loss,
                     plain.test_loss);
    }
    assert_true(train("ps:slack=0", "fp16", "codec_down=fp16").bytes_sent <
                train("ps:slack=0", "fp16", NULL).bytes_sent);
}

/* Weights as differences: what a worker holds comes after the model, at a few bytes. */
static void weights_come_back_as_differences(void **state)
{
    static const char *const downs[] = { "codec_down=topk:ratio=0.2", "codec_down=onebit",
                                         "codec_down=qsgd", "codec_down=vote",
                                         "codec_down=powersgd" };
    static const char *const members[] = { "ps:slack=0,servers=2", "ps:slack=0",
                                           "ps:slack=1,eager=yes", "ps:slack=0,replicas=1" };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof members[0]; m++) {
        const fast_result plain = train(members[m], "none", NULL);

        for (size_t i = 0; i < sizeof downs / sizeof downs[0]; i++) {
            const fast_result far = train(members[m], "none", downs[i]);

            if (far.bytes_sent >= plain.bytes_sent)
                fail_msg("%s %s sends %lld bytes, none %lld", members[m], downs[i],
                         (long long)far.bytes_sent, (long long)plain.bytes_sent);
            if (!(fabs(far.test_loss - plain.test_loss) < 0.2))
                fail_msg("%s %s ends with loss %g, none with %g", members[m], downs[i],
                         far.test_loss, plain.test_loss);
        }
    }
}

/* A reader's random stream and residual belong to its number, local or remote. */
static void differences_are_the_same_on_threads(void **state)
{
    static const char *const codecs[] = { "onebit", "qsgd", "topk:ratio=0.1" };

    (void)state;
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        char down[64];
        const char *const far[] = { "codec=bf16", down, NULL };
        const char *const near[] = { "codec=bf16", down, "transport=threads", NULL };

        snprintf(down, sizeof down, "codec_down=%s", codecs[i]);
        if (test_small_run("ps:slack=0,servers=2", 4, far).params_hash !=
            test_small_run("ps:slack=0,servers=2", 4, near).params_hash)
            fail_msg("%s differs between sim and threads", codecs[i]);
    }
}

/* Layers that go to servers as they become whole are the same update, sooner. */
static void early_writes_change_no_bit(void **state)
{
    static const char *const codecs[] = { "codec=qsgd", "codec=topk:ratio=0.1", "codec=onebit",
                                          "codec=terngrad+entropy" };
    static const char *const how[] = { "", ",servers=3", ",servers=2,replicas=1" };
    char late[64], early[64];

    (void)state;
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i += BRIEF ? 3 : 1) {
        const char *const where[] = { "model=mlp:hidden=300x300", "engine=auto", "steps=6",
                                      "cluster=ethernet-1g",      codecs[i],     "batch=16",
                                      "codec_scope=layer",        NULL };
        const char *const near[] = { "model=mlp:hidden=300x300", "engine=auto", "steps=6",
                                     "transport=threads",        codecs[i],     "batch=16",
                                     "codec_scope=layer",        NULL };

        for (size_t k = 0; k < sizeof how / sizeof how[0]; k++) {
            snprintf(late, sizeof late, "ps:slack=0%s", how[k]);
            snprintf(early, sizeof early, "ps:slack=0,overlap=yes%s", how[k]);
            const fast_result plain = test_small_run(late, 3, where);
            const fast_result pieces = test_small_run(early, 3, where);

            if (pieces.params_hash != plain.params_hash)
                fail_msg("%s: %s has other bits than %s", codecs[i], early, late);
            if (test_small_run(early, 3, near).params_hash != plain.params_hash)
                fail_msg("%s: %s has other bits on threads", codecs[i], early);
            if (pieces.messages_sent <= plain.messages_sent) /* a piece is a message */
                fail_msg("%s: %s sends no pieces", codecs[i], early);
            if (k == 0 && pieces.time_s >= plain.time_s)
                fail_msg("%s %s: %g s, %s: %g s", codecs[i], late, plain.time_s, early,
                         pieces.time_s);
        }
    }
}

/* True if x / unit are whole numbers, to 1%. */
static bool are_multiples(int64_t n, const double *x, double unit)
{
    for (int64_t i = 0; i < n; i++)
        if (fabs(x[i] / unit - round(x[i] / unit)) > 0.01)
            return false;
    return true;
}

/* Workers with scales of their own add up to anything; with one scale the update of a layer, which
 * three servers own, is one of 2 P + 1 multiples of s / P. */
static void servers_sum_whole_steps(void **state)
{
    static const char *const codecs[] = { "terngrad:clip=0", "terngrad:clip=0,share=yes" };
    enum { WORKERS = 4, LAYER = 400 };
    bool whole[2] = { false, false };

    (void)state;
    for (int k = 0; k < 2; k++) {
        const test_replicas_options o = { .strategy = "ps:slack=0,servers=3",
                                          .codec = codecs[k],
                                          .lr = "64",
                                          .workers = WORKERS,
                                          .steps = 1,
                                          .learner = true };
        double moved[LAYER], most = 0;
        test_replicas r;

        test_replicas_run(&o, &r);
        assert_int_equal(r.err, FAST_OK);
        assert_true(r.count > LAYER);
        for (int i = 0; i < LAYER; i++) {
            moved[i] = (double)r.last[0][i] - (double)r.first[0][i];
            most = fmax(most, fabs(moved[i]));
        }
        assert_true(most > 0.1);
        for (int m = 1; m <= WORKERS; m++)
            whole[k] |= are_multiples(LAYER, moved, most / m);
        test_replicas_free(&r);
    }
    assert_false(whole[0]);
    assert_true(whole[1]);
}

/* Scales are of whole updates of all workers. */
static void scales_need_rounds(void **state)
{
    static const char *const members[] = { "strategy=ps:slack=1", "strategy=ps:slack=0,backup=1",
                                           "strategy=ps:slack=0,overlap=yes" };

    (void)state;
    for (int m = 0; m < 3; m++) {
        const char *options[] = { members[m],
                                  "workers=3",
                                  "model=mlp:hidden=4",
                                  "data=digits:train=64,test=16",
                                  "batch=4",
                                  "engine=ref",
                                  "transport=sim",
                                  "steps=2",
                                  "codec=terngrad:share=yes",
                                  NULL };
        fast_run *run = NULL;
        fast_err err = fast_run_open(options, &run);

        assert_true((err == FAST_OK) == (m == 2));
        if (!err)
            err = fast_run_train(run);
        assert_int_equal(err, FAST_EINVAL);
        assert_non_null(strstr(fast_error_detail(), "share"));
        fast_run_close(m == 2 ? run : NULL);
    }
}

static void nonsense_is_refused(void **state)
{
    static const char *const options[] = {
        "strategy=ps", "workers=2",  "model=mlp:hidden=4", "data=digits:train=64,test=16",
        "batch=4",     "engine=ref", "codec=fp16",         "codec_down=dgc:momentum=0",
        NULL
    };
    fast_run *run = NULL;

    (void)state;
    assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "differences to what the receiver holds"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_loses_nothing_changes_nothing),
        cmocka_unit_test(same_on_threads),
        cmocka_unit_test(copies_stay_equal),
        cmocka_unit_test(fewer_bytes_and_about_the_same_loss),
        cmocka_unit_test(weights_come_back_as_differences),
        cmocka_unit_test(differences_are_the_same_on_threads),
        cmocka_unit_test(early_writes_change_no_bit),
        cmocka_unit_test(servers_sum_whole_steps),
        cmocka_unit_test(scales_need_rounds),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
