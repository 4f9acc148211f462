/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of the family local. Goal: the limits of its options are other members, to the bit
 * where the order of sums is the same; what makes no sense is refused. Method: small runs on the
 * simulator, compared by their hashes.
 */
#include "replicas.h"
#include "small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WEIGHTS = 1024 }; /* of the model of replicas.h, at most */

static fast_result train(const char *strategy, int workers, const char *more)
{
    const char *const list[] = { more, NULL };

    return test_small_run(strategy, workers, list);
}

static void same(const char *a, const char *b, int workers, const char *more)
{
    if (train(a, workers, more).params_hash != train(b, workers, more).params_hash)
        fail_msg("%s and %s differ with %d workers", a, b, workers);
}

static void differ(const char *a, const char *b, int workers, const char *more)
{
    if (train(a, workers, more).params_hash == train(b, workers, more).params_hash)
        fail_msg("%s and %s are the same with %d workers", a, b, workers);
}

static void limits_are_other_members(void **state)
{
    (void)state;
    same("local:period=1,delay=yes", "allreduce", 4, NULL);
    same("local:period=1,delay=yes", "allreduce", 3, "optimizer=momentum");
    same("local:after=100,delay=yes", "allreduce", 4, NULL); /* every step, for 100 epochs */
    same("local:period=2,delay=yes,grow=1,longest=3", "local:period=2,delay=yes", 4, NULL);
    same("local:period=2,delay=yes,noise=1e9", "local:period=2,delay=yes", 4, NULL);
    same("local:period=2,delay=yes,noise=1e-9,longest=4",
         "local:period=2,delay=yes,noise=1e-6,longest=4", 4, NULL);
    same("local:period=2,delay=yes,noise=0", "local:period=2,delay=yes", 4, NULL);
    same("local:period=1,delay=yes,noise=1e9,shrink=yes", "local:period=1,delay=yes", 4, NULL);
    same("local:period=2,delay=yes,noise=1e-9,longest=4,shrink=yes",
         "local:period=2,delay=yes,noise=1e-9,longest=4", 4, NULL);
    same("local:period=24", "local:period=0", 4, NULL);
    same("local:outer=classical,momentum=0,rate=0", "local:outer=nesterov,momentum=0,rate=0", 4,
         NULL);
    same("local:period=4,polyak=100", "local:period=4", 4, NULL); /* it never begins */
    same("local:period=24,polyak=0", "local:period=24", 4, NULL); /* the mean of one model */
    same("local:period=3", "allreduce", 1, NULL);
}

/* Averages of the models of plain SGD are those of synchronous SGD, up to rounding. */
static void averaging_each_step_is_synchronous(void **state)
{
    (void)state;
    assert_true(fabs(train("local:period=1", 4, NULL).test_loss -
                     train("allreduce", 4, NULL).test_loss) < 1e-5);
}

/* Momentum is linear too: averaged along, by a mean of all or by mixing on the full graph, each
 * step is a synchronous one. Where it begins anew each time, it is plain SGD. */
static void averaged_state_is_synchronous(void **state)
{
    const double all = train("allreduce", 4, "optimizer=momentum").test_loss;
    static const char *const alike[] = { "local:period=1,state=average",
                                         "gossip:first=adapt,state=average" };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *const list[] = { "optimizer=momentum", i ? "topology=full" : NULL, NULL };

        assert_true(fabs(test_small_run(alike[i], 4, list).test_loss - all) < 1e-5);
    }
    assert_true(fabs(train("local:period=1,state=reset", 4, "optimizer=momentum").test_loss -
                     train("allreduce", 4, NULL).test_loss) < 1e-5);
    differ("local:period=4,state=average", "local:period=4", 4, "optimizer=adam");
    differ("gossip:state=average", "gossip", 4, "optimizer=adam");
    differ("gossip:state=reset", "gossip", 4, "optimizer=adam");
    same("local:period=4,state=average", "local:period=4", 4, NULL); /* SGD has none */
    same("gossip:state=average", "gossip", 4, NULL);
}

static void options_matter(void **state)
{
    (void)state;
    differ("local:period=4,delay=yes", "local:period=4", 4, NULL);
    differ("local:period=1,delay=yes,grow=0.5", "local:period=1,delay=yes", 4, NULL);
    differ("local:period=1,delay=yes,noise=0.5", "local:period=1,delay=yes", 4, NULL);
    differ("local:period=1,delay=yes,noise=1e-9", "local:period=1,delay=yes,noise=2", 4, NULL);
    differ("local:period=4,polyak=0", "local:period=4", 4, NULL);
    differ("local:period=4,outer=classical", "local:period=4", 4, NULL);
    differ("local:period=4,outer=nesterov", "local:period=4,outer=classical", 4, NULL);
    differ("local:period=4,state=reset", "local:period=4", 4, "optimizer=momentum");
}

/* Return the updates that a run of 24 steps makes, by the bytes that it sends: those of a run of 24
 * updates and of one of 1 tell the bytes of each, and of all else. */
static double updates_of(const char *strategy)
{
    const double all = (double)train("local:period=1,delay=yes,noise=1e9", 4, NULL).bytes_sent,
                 one = (double)train("local:period=24,delay=yes,noise=1e9", 4, NULL).bytes_sent;

    return 1 + rint(23 * ((double)train(strategy, 4, NULL).bytes_sent - one) / (all - one));
}

/* A batch grows while it is too noisy, and shrinks while a smaller one is quiet enough. */
static void batches_follow_their_noise(void **state)
{
    (void)state;
    assert_true(updates_of("local:period=4,delay=yes,noise=1e9") == 6);
    /* After steps 4, 6, 7, 8 and so on. */
    assert_true(updates_of("local:period=4,delay=yes,noise=1e9,shrink=yes") == 20);
    /* After steps 1, 2, 4, 8 and so on; it does not shrink where the bound is exceeded. */
    assert_true(updates_of("local:period=1,delay=yes,noise=1e-9,shrink=yes,longest=4") == 8);
    /* After steps 1, 4, 8 and so on. */
    assert_true(updates_of("local:period=1,delay=yes,noise=1e-9,factor=4,longest=4") == 7);
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = { "local:delay=yes,outer=classical",
                                       "local:delay=yes,period=0", "local:grow=1", "local:noise=1",
                                       "local:delay=yes,shrink=yes" };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[128];
        const char *options[] = { text,
                                  "workers=4",
                                  "model=mlp:hidden=4",
                                  "transport=sim",
                                  "data=digits:train=64,test=16",
                                  "engine=ref",
                                  NULL };
        fast_run *run = NULL;

        snprintf(text, sizeof text, "strategy=%s", bad[i]);
        assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
        assert_null(run);
    }
}

/* The formula of streaming DiLoCo, with two fragments, one every third step, that travel for two
 * steps, and Nesterov's outer step; gradients are made up, so that no rounding is large. */
static void stream(int64_t count, int64_t workers, int64_t steps, double (*w)[WEIGHTS])
{
    static double z[WEIGHTS], d[WEIGHTS], a[WEIGHTS];

    memset(z, 0, sizeof z);
    memset(d, 0, sizeof d);
    for (int64_t step = 1; step <= steps; step++) {
        for (int64_t i = 0; i < workers; i++)
            for (int64_t j = 0; j < count; j++)
                w[i][j] -= 0.125 * (double)test_replicas_gradient(i, step - 1, j);
        for (int64_t f = 0; f < 2; f++) {
            const bool last = step == steps; /* all fragments are exchanged at once */
            const bool starts =
                last || ((step + 2) % 3 == 0 && (step + 2) / 3 % 2 == f && step + 2 != steps);
            const bool ends = last || (step % 3 == 0 && step / 3 % 2 == f);

            for (int64_t j = f ? count / 2 : 0; j < (f ? count : count / 2); j++) {
                double mean = 0;

                for (int64_t i = 0; i < workers; i++)
                    mean += w[i][j] / (double)workers;
                a[j] = starts ? mean : a[j];
                if (!ends)
                    continue;
                d[j] = 0.5 * d[j] + 0.75 * (a[j] - z[j]);
                z[j] += 0.5 * d[j] + 0.75 * (a[j] - z[j]);
                for (int64_t i = 0; i < workers; i++)
                    w[i][j] = last ? z[j] : 0.25 * w[i][j] + 0.75 * z[j];
            }
        }
    }
}

static void fragments_overlap_with_steps(void **state)
{
    static const char *const codecs[] = { NULL, "topk:ratio=1", "qsgd:bits=8,norm=max" };
    static double w[3][WEIGHTS];

    (void)state;
    for (int k = 0; k < 3; k++) {
        const test_replicas_options o = {
            .strategy = "local:period=6,fragments=2,overlap=2,mix=0.25,outer=nesterov,momentum=0.5,"
                        "rate=0.75",
            .codec = codecs[k],
            .lr = "0.125",
            .workers = 3,
            .steps = 18
        };
        test_replicas r;

        test_replicas_run(&o, &r);
        if (r.err)
            fail_msg("%s", fast_error_detail());
        assert_in_range(r.count, 2, WEIGHTS);
        memset(w, 0, sizeof w);
        stream(r.count, 3, 18, w);
        for (int64_t i = 0; i < 3; i++)
            for (int64_t j = 0; j < r.count; j++)
                if (fabs((double)r.last[i][j] - w[i][j]) > (k < 2 ? 1e-5 : 0.05))
                    fail_msg("%s: weight %lld of worker %lld is %g, not %g",
                             codecs[k] ? codecs[k] : "none", (long long)j, (long long)i,
                             (double)r.last[i][j], w[i][j]);
        assert_true(test_replicas_distance(r.last, 3, r.count) == 0);
        test_replicas_free(&r);
    }
    /* Messages travel while steps are computed. */
    for (int k = 0; k < 2; k++) {
        const char *const more[] = { "cluster=ethernet-1g", k ? "codec=fp16" : "codec=none",
                                     "steps=160", NULL };
        const fast_result late = test_small_run("local:period=16,fragments=2", 4, more),
                          early = test_small_run("local:period=16,fragments=2,overlap=6", 4, more);

        if (!(early.exchange_s < 0.7 * late.exchange_s))
            fail_msg("%s: %g s instead of %g", more[1], early.exchange_s, late.exchange_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_other_members),
        cmocka_unit_test(averaging_each_step_is_synchronous),
        cmocka_unit_test(averaged_state_is_synchronous),
        cmocka_unit_test(options_matter),
        cmocka_unit_test(batches_follow_their_noise),
        cmocka_unit_test(fragments_overlap_with_steps),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
