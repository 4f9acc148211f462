/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients as factors. Goal: a run that sends factors is the plain one to rounding, and the same
 * to the bit on every transport, with and without overlap, in one call or resumed; it sends fewer
 * bytes where the choice says so; learners without factors train as ever. Method: small runs
 * compared by hash, loss and bytes.
 */
#include "small_run.h"

#include "base/err.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Under sanitizers once instead of twice. */
#ifdef FAST_SANITIZED
enum { OPTIMIZERS = 1, WORKERS_MAX = 2, MODELS = 2, MEMBERS = 2, WAYS = 2 };
#else
enum { OPTIMIZERS = 2, WORKERS_MAX = 3, MODELS = 3, MEMBERS = 4, WAYS = 3 };
#endif

static fast_result train(const char *strategy, int workers, const char *model, const char *more)
{
    const char *const list[] = { model, more, NULL };

    return test_small_run(strategy, workers, list);
}

/* Loss after 24 steps: the sums differ in their last bits, and nothing else does. */
static void the_same_to_rounding(void **state)
{
    static const char *const models[] = { "model=mlp:hidden=12", "model=mlp:hidden=40x20",
                                          "model=lenet" };

    (void)state;
    for (size_t m = 0; m < MODELS; m++)
        for (int workers = 2; workers <= WORKERS_MAX; workers++) {
            const fast_result plain = train("allreduce", workers, models[m], NULL);
            const fast_result factors = train("allreduce:factors=yes", workers, models[m], NULL);

            if (!(fabs(plain.test_loss - factors.test_loss) < 1e-5))
                fail_msg("%s, %d workers: loss %.9g, with factors %.9g", models[m], workers,
                         plain.test_loss, factors.test_loss);
            assert_true(factors.divergence == 0 || isnan(factors.divergence));
        }
}

static void the_same_bits_everywhere(void **state)
{
    static const char *const members[] = { "allreduce:factors=yes,overlap=no",
                                           "allreduce:factors=yes,overlap=yes",
                                           "allreduce:factors=yes,overlap=yes,bucket=64",
                                           "allreduce:factors=yes,algorithm=tree" };
    static const char *const optimizers[] = { "optimizer=momentum", "optimizer=lamb" };

    (void)state;
    for (int o = 0; o < OPTIMIZERS; o++) {
        const uint64_t wanted =
            train(members[0], 3, "model=mlp:hidden=40x20", optimizers[o]).params_hash;

        for (size_t i = 0; i < MEMBERS; i++) {
            const char *const lists[2][4] = {
                { "model=mlp:hidden=40x20", optimizers[o], "transport=threads", NULL },
                { "model=mlp:hidden=40x20", optimizers[o], "cluster=ethernet-1g", NULL },
            };

            for (int l = 0; l < 2; l++)
                if (test_small_run(members[i], 3, lists[l]).params_hash != wanted)
                    fail_msg("%s, %s, %s: other bits", members[i], optimizers[o], lists[l][2]);
        }
    }
}

/* 400 x 64 of the first layer: 4 samples are 3.6 times shorter than what an allreduce sends. */
static void auto_sends_less(void **state)
{
    const char *const model = "model=mlp:hidden=400";
    const int64_t plain = train("allreduce", 2, model, NULL).bytes_sent;
    const int64_t chosen = train("allreduce:factors=auto", 2, model, NULL).bytes_sent;
    const int64_t never = train("allreduce:factors=auto", 2, "model=mlp:hidden=4", NULL).bytes_sent;

    (void)state;
    assert_true(chosen < plain / 2);
    assert_true(never == train("allreduce", 2, "model=mlp:hidden=4", NULL).bytes_sent);
    assert_true(never < train("allreduce:factors=yes", 2, "model=mlp:hidden=4", NULL).bytes_sent);
}

/* Micro-batches have no factors, nor has one worker anybody to send them to. */
static void without_factors_it_is_allreduce(void **state)
{
    (void)state;
    assert_true(train("allreduce:factors=yes", 2, "accumulate=2", NULL).params_hash ==
                train("allreduce", 2, "accumulate=2", NULL).params_hash);
    assert_true(train("allreduce:factors=yes", 1, NULL, NULL).params_hash ==
                train("allreduce", 1, NULL, NULL).params_hash);
    assert_true(train("allreduce:factors=auto", 2, "codec=fp16", NULL).params_hash ==
                train("allreduce", 2, "codec=fp16", NULL).params_hash);
}

/* Servers that multiply out: the plain update to rounding, on any transport. */
static void servers_multiply_out(void **state)
{
    static const char *const how[] = { "", ",servers=3", ",servers=2,replicas=1" };
    const char *const model = "model=mlp:hidden=40x20";
    const uint64_t wanted = train("ps:slack=0,factors=yes", 3, model, NULL).params_hash;
    const double loss = train("ps:slack=0", 3, model, NULL).test_loss;
    char name[96];

    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        snprintf(name, sizeof name, "ps:slack=0,factors=yes%s", how[i]);
        const fast_result sim = train(name, 3, model, NULL);

        assert_true(sim.params_hash == wanted);
        assert_true(train(name, 3, model, "transport=threads").params_hash == wanted);
        assert_true(fabs(sim.test_loss - loss) < 1e-5);
        snprintf(name, sizeof name, "ps:slack=0%s", how[i]);
        assert_true(sim.bytes_sent < train(name, 3, model, NULL).bytes_sent);
    }
    assert_true(train("ps:factors=auto", 3, model, NULL).bytes_sent <
                train("ps", 3, model, NULL).bytes_sent);
    assert_true(train("ps:slack=0,factors=auto", 2, "codec=fp16", NULL).params_hash ==
                train("ps:slack=0", 2, "codec=fp16", NULL).params_hash);
    assert_true(train("ps:push=2,fetch=2,factors=auto", 2, model, NULL).bytes_sent ==
                train("ps:push=2,fetch=2", 2, model, NULL).bytes_sent);
}

/* Poseidon: the bits of an allreduce with the same layers as factors, and on the wire the closed
 * form of its two ways. Of 400 x 64 + 10 x 400 the first goes as factors, with P = 2, 24 steps of 4
 * samples: P (P - 1) 4 (400 + 64) floats a step, and 2 (P - 1) of the rest by the servers. */
static void hybrid_is_the_cheaper_way(void **state)
{
    static const char *const optimizers[] = { "optimizer=momentum", "optimizer=adam" };
    const char *const model = "model=mlp:hidden=400", *const small = "model=mlp:hidden=4";
    const double rest = 400 + 10 * 400 + 10;
    const double bytes = 24 * 4 * (2 * 4 * (400 + 64) + 2 * rest);

    (void)state;
    for (int o = 0; o < OPTIMIZERS; o++)
        for (int servers = 0; servers <= 3; servers += 3) {
            char name[96];

            snprintf(name, sizeof name, "ps:slack=0,overlap=yes,hybrid=yes,servers=%d", servers);
            const uint64_t wanted =
                train("allreduce:factors=auto", 2, model, optimizers[o]).params_hash;
            const char *const threads[] = { model, optimizers[o], "transport=threads", NULL };

            assert_true(train(name, 2, model, optimizers[o]).params_hash == wanted);
            assert_true(test_small_run(name, 2, threads).params_hash == wanted);
        }
    const fast_result hybrid = train("ps:slack=0,overlap=yes,hybrid=yes,servers=0", 2, model, NULL);
    const fast_result all = train("ps:slack=0,overlap=yes,servers=0", 2, model, NULL);

    assert_in_range(hybrid.bytes_sent, (int64_t)bytes, (int64_t)(1.15 * bytes));
    assert_true(hybrid.bytes_sent < all.bytes_sent / 3);
    assert_true(hybrid.completeness == 1);
    /* Where no layer pays, or a codec encodes the gradient, it is the servers' way alone. */
    assert_true(train("ps:slack=0,overlap=yes,hybrid=yes", 2, small, NULL).bytes_sent ==
                train("ps:slack=0,overlap=yes", 2, small, NULL).bytes_sent);
    assert_true(train("ps:slack=0,overlap=yes,hybrid=yes", 2, model, "codec=fp16").params_hash ==
                train("ps:slack=0,overlap=yes", 2, model, "codec=fp16").params_hash);
}

static void a_codec_is_refused(void **state)
{
    static const char *const options[] = { "strategy=allreduce:factors=yes",
                                           "workers=2",
                                           "model=mlp:hidden=4",
                                           "data=digits:train=64,test=16",
                                           "batch=4",
                                           "engine=ref",
                                           "codec=fp16",
                                           NULL };
    fast_run *run = NULL;

    (void)state;
    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    assert_int_equal(fast_run_train(run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "leave out"));
    fast_run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_to_rounding), cmocka_unit_test(the_same_bits_everywhere),
        cmocka_unit_test(auto_sends_less),      cmocka_unit_test(without_factors_it_is_allreduce),
        cmocka_unit_test(servers_multiply_out), cmocka_unit_test(hybrid_is_the_cheaper_way),
        cmocka_unit_test(a_codec_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
