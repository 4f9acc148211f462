/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of the family local. Goal: the limits of its options are other members, to the bit
 * where the order of sums is the same; what makes no sense is refused. Method: small runs on the
 * simulator, compared by their hashes.
 */
#include "small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_other_members),
        cmocka_unit_test(averaging_each_step_is_synchronous),
        cmocka_unit_test(averaged_state_is_synchronous),
        cmocka_unit_test(options_matter),
        cmocka_unit_test(batches_follow_their_noise),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
